"""How pages write their tables."""

from __future__ import annotations

from collections.abc import Sequence

from receraser.reproduce.comparing import Share, Spread

__all__ = ["NAMES", "against", "difference", "head", "line", "named", "p_text", "share_text", "table", "time_text"]

NAMES = {
    "bpr": "BPR",
    "wmf": "WMF",
    "lightgcn": "LightGCN",
    "retrain": "Retrain",
    "sisa": "SISA",
    "grapheraser": "GraphEraser",
    "receraser": "RecEraser",
    "spectral": "Spectral",
    "gram": "Gram",
    "ease": "EASE",
    "graphfilter": "GraphFilter",
    "random": "Random",
    "ubp": "UBP",
    "ibp": "IBP",
    "inbp": "InBP",
    "hash": "Hash",
    "mean": "Mean",
    "static": "Static",
    "attention": "Attention",
    "without shards": "Without shards",
}


def named(text: str) -> str:
    """Return a name as it stands in the paper; what comes after a comma stays.

    Examples
    --------
    >>> named("spectral, polish=1"), named("control: 1 sweep")
    ('Spectral, polish=1', 'control: 1 sweep')
    """
    first, comma, rest = text.partition(",")
    return NAMES.get(first, first) + comma + rest


def line(cells: Sequence[str]) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(cells)} |"


def head(cells: Sequence[str]) -> list[str]:
    """Return the two lines that a table begins with."""
    return [line(cells), "|" + "---|" * len(cells)]


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a whole table."""
    return [*head(columns), *(line(row) for row in rows)]


def difference(ours: float, theirs: float, digits: int = 4) -> str:
    """Return ours less theirs, with its sign.

    Examples
    --------
    >>> difference(0.2536, 0.2507), difference(0.25, 0.25)
    ('+0.0029', '±0.0000')
    """
    value = round(ours - theirs, digits)
    return f"{value:+.{digits}f}" if value else f"±{0:.{digits}f}"


def against(ours: Spread | None, theirs: float | None) -> str:
    """Return ours, and in brackets the paper's and the difference."""
    if ours is None:
        return "" if theirs is None else f"(paper {theirs:.4f})"
    return ours.text() + ("" if theirs is None else f" (paper {theirs:.4f}, {difference(ours.mean, theirs)})")


def share_text(share: Share | None) -> str:
    """Return a share with its interval, or nothing."""
    return "" if share is None else share.text


def p_text(p: float) -> str:
    """Return a p-value to its first digit; what is too small to be told from nothing is not called zero.

    Examples
    --------
    >>> p_text(0.0312), p_text(0.0)
    ('0.03', '< 1e-300')
    """
    return f"{p:.1g}" if p > 1e-300 else "< 1e-300"


def time_text(seconds: float) -> str:
    """Return seconds with three digits that count; minutes where there are many.

    Examples
    --------
    >>> time_text(0.01234), time_text(12.34), time_text(1234)
    ('0.0123 s', '12.3 s', '20.6 min')
    """
    return f"{seconds:.3g} s" if seconds < 600 else f"{seconds / 60:.1f} min"
