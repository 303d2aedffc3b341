"""`--extend`: lines of the results of an earlier run beside those of this one, on one page.

A page may lack a method or a control that was too slow, or not thought of, when the others were computed; and cells,
which are a cache, may be gone since. What is on a page stays then as it is, and is not computed again::

    document of the earlier run ─┐
                                 ├─> Findings: every line of before, and the new ones
    cells of this run ───────────┘

Nothing that differs is put together. What can be known beforehand is checked before hours of work (`check`): every line
of before is one of the page that is to be, and has the settings of today or is computed again; and something is
computed that is there already, as a retrain is. What came out is checked afterwards (`extended`): that line has the
same rows, users and quality, and what is timed was timed on one machine. Its seconds stay those of before, beside which
the others were measured; of the new ones the page has the ratio.

Comparisons over single users are made of cells alone. Between two lines of before they are the document's; between a
new line and one that is in both, as the retrain, they are made anew.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from receraser.errors import DataError, UsageError
from receraser.reproduce.cell import Result
from receraser.reproduce.machine import machines
from receraser.reproduce.order import Order
from receraser.reproduce.page import named
from receraser.reproduce.studies.study import ADDITIVE, Entry, Findings, Place, Study

__all__ = ["check", "extended", "widened"]

_CLOSE = 1e-4  # in a metric: what a page shows of it
_EXACT = (
    "users",
    "rows",
    "items",
    "interactions",
    "forgotten",
    "requests",
    "of shards",
)  # numbers that no chance moves
_Name = tuple[object, ...]


def widened(order: Order, study: Study, earlier: Order) -> Order:
    """Return the order with the methods of the earlier one too; all of a study's are named by none.

    Examples
    --------
    >>> from receraser.reproduce.studies.registry import find_study
    >>> few, more = (Order("batch", methods=names) for names in (("gram",), ("sisa", "gram")))
    >>> widened(few, find_study("batch"), more).methods
    ('sisa', 'gram')
    """
    methods = set(order.methods or study.methods) | set(earlier.methods or study.methods)
    some = () if methods == set(study.methods) else tuple(one for one in study.methods if one in methods)
    return dataclasses.replace(order, methods=some)


def check(asked: Sequence[Entry], entries: Sequence[Entry], earlier: Findings, device: str | None) -> None:
    """Raise `UsageError` where what is asked for cannot stand beside the results of before.

    Parameters
    ----------
    asked, entries
        What is to be computed, and everything that the page is to have.
    device
        What is computed on; None where nothing is.
    """
    wanted, new = {_name(one): one for one in entries}, {_name(one): one for one in asked}
    page, of_before = earlier.order.name, f"They were computed by `{earlier.order.command}`"
    before = {_name(one): one for one, _ in earlier.found}
    if strange := [one for name, one in before.items() if name not in wanted]:
        raise UsageError(
            f"{page} has lines that are none of this order: {_told(strange)}. {of_before}; ask for as many seeds and "
            "requests, of the same data, or leave out --extend"
        )
    if stale := [one for name, one in before.items() if name not in new and not _as_wanted(wanted[name], one)]:
        raise UsageError(
            f"{page} has lines of other settings than today's: {_told(stale)}. {of_before}; name their methods in "
            "--methods too, so that they are computed again, or leave out --extend"
        )
    both = [name for name in new if name in before and _as_wanted(new[name], before[name])]
    if not both:
        raise UsageError(
            f"{page} has nothing of what is asked for, so that nothing would tell whether both are of the same rows; "
            f"name a method in --methods that it has, of {', '.join(earlier.order.methods) or 'all'}"
        )
    if device is not None:
        for name in both:
            there = before[name].cell.config
            if there is not None and there.device != new[name].cell.device(device):
                raise UsageError(
                    f"{page} was computed on {there.device} and is to be extended on {device}: neither times nor last "
                    f"digits stand on one page; extend it with --device {there.device}"
                )


def extended(found: Findings, entries: Sequence[Entry], earlier: Findings, study: Study) -> Findings:
    """Return what was found beside what the results of before have, in the order of the entries.

    Raises `DataError` where a line is in both and says something else, and where times would be of several machines.
    """
    now = {_name(entry): one for entry, one in found.found}
    before = {_name(entry): (entry, one) for entry, one in earlier.found}
    filled: list[tuple[Entry, Result]] = []
    missing, ratios = [], []
    standing: set[_Name] = set()
    for entry in entries:
        name = _name(entry)
        one, (there, other) = now.get(name), before.get(name, (entry, None))
        if other is None or not _as_wanted(entry, there):
            if one is None:
                missing.append(entry)
            else:
                filled.append((entry, one))
            continue
        standing.add(name)
        if one is not None:
            _same(entry, one, other)
            ratios += list(_ratios(one, other))
            other = dataclasses.replace(other, notes={**one.notes, **other.notes}, per_user=one.per_user)
        filled.append((entry, other))
    if not any(name in standing for name in now):
        raise DataError(
            f"{earlier.order.name}: there is no cell of a line that it has, so that nothing tells whether both are of "
            "the same rows; compute one too, such as the retrain"
        )
    _on_one_machine(filled, earlier, study)
    n_both = sum(name in standing for name in now)
    told = f"{len(filled) - len(standing)} cells were added to {len(standing)}; {n_both} are in both, with the same "
    told += f"quality, and took {min(ratios):.2f} to {max(ratios):.2f} times as long" if ratios else "quality"
    old = {place for entry, _ in filled for place in _places(entry)}
    old -= {place for entry, _ in filled if _name(entry) not in standing for place in _places(entry)}
    return Findings(
        found.order,
        _compared_whole(filled),
        missing,
        shares={pair: one for pair, one in earlier.shares.items() if one is not None and {*pair[:2]} <= old},
        p_values={pair: some for pair, some in earlier.p_values.items() if some and {*pair[:2]} <= old},
        known=earlier.known,
        extensions=[*earlier.extensions, told],
    )


def _name(entry: Entry) -> _Name:
    extras = tuple(sorted(entry.cell.extras.items()))
    return entry.model, entry.row, entry.what, entry.x, entry.cell.kind, entry.cell.seed, extras


def _told(entries: Iterable[Entry]) -> str:
    return "; ".join(dict.fromkeys(f"{named(one.model)}: {named(one.row)}, {one.what}" for one in entries))


def _places(entry: Entry) -> tuple[Place, Place]:
    return (entry.model, entry.row, entry.what, entry.x), (entry.model, entry.row, entry.what, None)


def _as_wanted(entry: Entry, earlier: Entry) -> bool:
    """Say whether a line was computed with the settings that it would have today, wherever that was.

    One shard is a retrain, whichever method's line it stands in, and a document has the settings of the line.
    """
    known, wanted = earlier.cell.config, entry.cell.config
    if known is None or wanted is None:
        return known is wanted
    if wanted.shards == known.shards == 1 and entry.row not in ("retrain", *ADDITIVE):
        return True
    return entry.cell.placed(known.device) == known


def _same(entry: Entry, one: Result, other: Result) -> None:
    """Raise `DataError` where a line is of other rows or users than before, or of another quality."""
    pairs = [(f"the number of {key}", one.numbers.get(key), other.numbers.get(key), 0.0) for key in _EXACT]
    pairs += [(key, one.metrics.get(key), other.metrics.get(key), _CLOSE) for key in one.metrics]
    known = [(key, ours, theirs, by) for key, ours, theirs, by in pairs if ours is not None and theirs is not None]
    splits = one.about.get("split"), other.about.get("split")
    line = f"{named(entry.model)}, {named(entry.row)}, {entry.what}"
    for key, ours, theirs, by in known:
        if not abs(ours - theirs) <= by:
            raise DataError(f"{line}: {key} is {ours:g}, and was {theirs:g}; {_APART}")
    if None not in splits and splits[0] != splits[1]:
        raise DataError(f"{line}: the split is {splits[0]}, and was {splits[1]}; {_APART}")
    if not known:
        raise DataError(f"{line}: nothing of it tells whether it is of the same rows as before; {_APART}")


_APART = "results that differ cannot stand on one page: leave out --extend, and compute all of its lines"


def _on_one_machine(filled: Sequence[tuple[Entry, Result]], earlier: Findings, study: Study) -> None:
    def of(pairs: Iterable[tuple[Entry, Result]], model: str) -> list[str]:
        own = [one.about for entry, one in pairs if entry.model == model and study.timed(entry)]
        return machines(str(about["hardware"]) for about in own if "hardware" in about)

    for model in {entry.model for entry, _ in filled}:
        before, after = of(earlier.found, model), of(filled, model)
        if before and len(after) > len(before):
            raise DataError(
                f"{named(model)} was timed on {' and '.join(before)}, and now on {after[-1]}: times of two machines "
                "cannot be held to each other; leave out --extend, and compute all lines here"
            )


def _compared_whole(filled: Sequence[tuple[Entry, Result]]) -> list[tuple[Entry, Result]]:
    """Return the lines without single users where a place has them of some seeds only: it is compared whole, or not."""
    partly = {_places(entry)[0] for entry, one in filled if not one.per_user}
    return [
        (entry, dataclasses.replace(one, per_user={}) if _places(entry)[0] in partly else one) for entry, one in filled
    ]


def _ratios(one: Result, other: Result) -> Iterator[float]:
    """Yield the time of a line now over that of before, where both have one."""
    pairs = [(one.seconds, other.seconds), (_requests(one), _requests(other))]
    for now, then in pairs:
        if now and then and now.keys() == then.keys() and sum(then.values()) > 0:
            yield sum(now.values()) / sum(then.values())


def _requests(one: Result) -> dict[str, float]:
    spent = one.series.get("total") or ([one.numbers["total"]] if "total" in one.numbers else [])
    return {"total": sum(spent) / len(spent)} if spent else {}
