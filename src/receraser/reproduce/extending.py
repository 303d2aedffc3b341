"""`--extend`: lines of the results of an earlier run beside those of this one, on one page.

A page may lack a method or a control that was too slow, or not thought of, when the others were computed; and cells,
which are a cache, may be gone since. What is on a page already is then taken from its document::

    document of the earlier run ─┐
                                 ├─> Findings: the cells' lines first, the document's where there is no cell
    cells of this run ───────────┘

Nothing that differs is put together: data set, requests, seeds and settings have to be those of the earlier run, and
where a line is in both, as a retrain mostly is, its quality has to be the same. Comparisons between lines of the two
runs are left out, unless the document has them, for single users are in cells alone. Where lines differ in it, the
document and the page say when and by which version each was computed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from receraser.errors import DataError, UsageError
from receraser.reproduce.cell import Result
from receraser.reproduce.order import Order
from receraser.reproduce.page import named
from receraser.reproduce.studies.study import Entry, Findings, Pair, Place, Study

__all__ = ["extended", "widened"]

_SAME = ("seeds", "forgets", "within")  # of two orders whose lines stand on one page
_CLOSE = 1e-4  # in a metric: what a page shows of it
_Name = tuple[object, ...]


def widened(order: Order, study: Study, earlier: Order) -> Order:
    """Return the order with the methods of the earlier one too; all of a study's are named by none.

    Raises `UsageError` where lines of the two cannot stand on one page.

    Examples
    --------
    >>> from receraser.reproduce.studies.registry import find_study
    >>> few, more = (Order("batch", methods=names) for names in (("gram",), ("sisa", "gram")))
    >>> widened(few, find_study("batch"), more).methods
    ('sisa', 'gram')
    """
    for name in _SAME:
        ours, theirs = getattr(order, name), getattr(earlier, name)
        if ours != theirs:
            told = [f"--{name} {one}" if one is not None else f"no --{name}" for one in (theirs, ours)]
            raise UsageError(
                f"{order.name} was computed with {told[0]}, and is to be extended with {told[1]}: such lines cannot "
                "stand on one page; ask for the same, or leave out --extend"
            )
    methods = set(order.methods or study.methods) | set(earlier.methods or study.methods)
    all_of_them = methods == set(study.methods)
    return dataclasses.replace(
        order, methods=() if all_of_them else tuple(one for one in study.methods if one in methods)
    )


def extended(found: Findings, entries: Sequence[Entry], earlier: Findings) -> tuple[Findings, str]:
    """Fill in what is missing, in the order of the entries; return it, and what was done, in words.

    Raises `DataError` where a line is in both and says something else, and where none is.
    """
    before = {_name(entry): (entry, one) for entry, one in earlier.found}
    now = {_name(entry): one for entry, one in found.found}
    both = [(entry, one, before[_name(entry)][1]) for entry, one in found.found if _name(entry) in before]
    if not both:
        raise DataError(
            f"{found.order.name}: no line is both in the results of before and in the cells that are here, so that "
            "nothing tells whether they are of the same rows; compute one that the results have too, such as the "
            "retrain"
        )
    for entry, one, other in both:
        _check(entry, one, other)
    filled: list[tuple[Entry, Result]] = []
    missing = []
    for entry in entries:
        name = _name(entry)
        if name in now:
            filled.append((entry, now[name]))
        elif name in before and _as_wanted(entry, before[name][0]):
            filled.append((entry, before[name][1]))
        else:
            missing.append(entry)
    new = {place for entry, _ in found.found for place in _places(entry)}
    shares = {pair: one for pair, one in earlier.shares.items() if one is not None and not _within(pair, new)}
    p_values = {pair: some for pair, some in earlier.p_values.items() if some and not _within(pair, new)}
    ratios = sorted(ratio for _, one, other in both for ratio in _ratios(one, other))
    told = f"{len(filled) - len(now)} cells of before are kept beside {len(now)}; {len(both)} are in both, of the same "
    told += f"quality, in {ratios[0]:.2f} to {ratios[-1]:.2f} of the seconds" if ratios else "quality"
    return dataclasses.replace(found, found=filled, missing=missing, shares=shares, p_values=p_values), told


def _name(entry: Entry) -> _Name:
    extras = tuple(sorted(entry.cell.extras.items()))
    return entry.model, entry.row, entry.what, entry.x, entry.cell.kind, entry.cell.seed, extras


def _places(entry: Entry) -> tuple[Place, Place]:
    return (entry.model, entry.row, entry.what, entry.x), (entry.model, entry.row, entry.what, None)


def _within(pair: Pair, new: set[Place]) -> bool:
    """Say whether both ends of a comparison were computed anew: then it is made anew."""
    ours, theirs, _ = pair
    return ours in new and theirs in new


def _as_wanted(entry: Entry, earlier: Entry) -> bool:
    """Say whether a line was computed with the settings that it would have today."""
    known = earlier.cell.config
    return known is None or entry.cell.placed(known.device) == known


def _check(entry: Entry, one: Result, other: Result) -> None:
    for metric, value in one.metrics.items():
        if metric in other.metrics and not abs(value - other.metrics[metric]) <= _CLOSE:
            raise DataError(
                f"{named(entry.model)}, {named(entry.row)}, {entry.what}: {metric} is {value:.6f}, and was "
                f"{other.metrics[metric]:.6f}. Results that differ cannot stand on one page; leave out --extend, and "
                "compute all of its lines"
            )


def _ratios(one: Result, other: Result) -> Iterator[float]:
    """Yield the time of a line now over that of before, where both have one."""
    pairs = [(one.seconds, other.seconds), (_requests(one), _requests(other))]
    for now, then in pairs:
        if now and then and now.keys() == then.keys() and sum(then.values()) > 0:
            yield sum(now.values()) / sum(then.values())


def _requests(one: Result) -> dict[str, float]:
    spent = one.series.get("total") or ([one.numbers["total"]] if "total" in one.numbers else [])
    return {"total": sum(spent) / len(spent)} if spent else {}
