"""`--extend`: lines of the results of an earlier run beside those of this one, on one page.

A page may lack a method or a control that was too slow, or not thought of, when the others were computed; and cells,
which are a cache, may be gone since. What is on a page stays then as it is, and is not computed again::

    document of the earlier run ─┐
                                 ├─> Findings: every line of before, and the new ones
    cells of this run ───────────┘

Nothing that differs is put together. What can be known beforehand is checked before hours of work (`check`): every line
of before is one of the page that is to be, and has the settings of today or is computed again; there are as many seeds;
and of every model something is computed that is there already, as a retrain is. What came out is checked afterwards
(`extended`): that line has the same rows, device and quality, and what is timed was timed on one kind of machine. Its
seconds stay those of before, beside which the others were measured; the page says how long it took this time.

Comparisons over single users are made of cells alone. Between two lines of before they are the document's; between a
new line and one that is in both, as the retrain, they are made anew; between a new line and another there are none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from receraser.errors import DataError, UsageError
from receraser.reproduce.cell import Result
from receraser.reproduce.document import ABOUT
from receraser.reproduce.machine import machines
from receraser.reproduce.order import Order
from receraser.reproduce.page import named
from receraser.reproduce.studies.study import Entry, Findings, Place, Study

__all__ = ["check", "extended", "widened"]

_CLOSE = 2e-6  # two values of a document, which has six digits
_COUNTS = ("users", "rows", "items", "interactions", "forgotten", "requests", "of shards")  # what no chance moves
_APART = "results that differ cannot stand on one page: leave out --extend, and compute all of its lines"
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


def check(
    asked: Sequence[Entry], entries: Sequence[Entry], earlier: Findings, study: Study, device: str | None
) -> None:
    """Raise `UsageError` where what is asked for cannot stand beside the results of before.

    Parameters
    ----------
    asked, entries
        What is to be computed, and everything that the page is to have.
    device
        What is computed on; None where nothing is.
    """
    wanted, new = {_name(one): one for one in entries}, {_name(one): one for one in asked}
    page = earlier.order.name
    of_before = f"They were computed by `{earlier.order.command}`"
    before = {_name(one): one for one, _ in earlier.found}
    seeds = [len({one.cell.seed for one in some}) for some in (study.entries(earlier.order), entries)]
    if seeds[0] != seeds[1]:
        raise UsageError(f"{page} has {seeds[0]} seeds, and is to be extended with {seeds[1]}: say --seeds {seeds[0]}")
    if strange := [one for name, one in before.items() if name not in wanted]:
        raise UsageError(
            f"{page} has lines that are none of this order: {_told(strange)}. {of_before}; ask for as many requests, "
            "of the same data, or leave out --extend"
        )
    if stale := [one for name, one in before.items() if name not in new and not _as_wanted(wanted[name], one)]:
        raise UsageError(
            f"{page} has lines of other settings than today's: {_told(stale)}. {of_before}; name their methods in "
            "--methods too, so that they are computed again, or leave out --extend"
        )
    both = [name for name in new if name in before and _as_wanted(new[name], before[name])]
    _of_every_model(asked, [new[name] for name in both], earlier)
    if device is not None:
        for name in both:
            _on_one_device(new[name], new[name].cell.device(device), before[name])


def extended(found: Findings, entries: Sequence[Entry], earlier: Findings, study: Study) -> Findings:
    """Return what was found beside what the results of before have, in the order of the entries.

    Raises `DataError` where a line is in both and says something else, where a line that was to be computed again was
    not, and where times would be of several machines; `UsageError` where nothing of a model is in both.
    """
    now = {_name(entry): one for entry, one in found.found}
    before = {_name(entry): (entry, one) for entry, one in earlier.found}
    filled: list[tuple[Entry, Result]] = []
    missing, both, ratios = [], [], []
    standing: set[_Name] = set()
    for entry in entries:
        name = _name(entry)
        one, (there, other) = now.get(name), before.get(name, (entry, None))
        if other is None or not _as_wanted(entry, there):
            if one is not None:
                filled.append((entry, one))
            elif other is None:
                missing.append(entry)
            else:
                raise DataError(
                    f"{_told([entry])}: has other settings than today's, and there is no cell that could stand for it; "
                    "compute it, or leave out --extend"
                )
            continue
        standing.add(name)
        if one is not None:
            both.append(entry)
            if "device" in one.about:
                _on_one_device(entry, str(one.about["device"]), there)
            _same(entry, one, other)
            ratios += list(_ratios(one, other)) if study.timed(entry) else []
            other = dataclasses.replace(other, notes={**one.notes, **other.notes}, per_user=one.per_user)
        filled.append((entry, other))
    _of_every_model([entry for entry, _ in found.found], both, earlier)
    added = [pair for pair in filled if _name(pair[0]) not in standing]
    kept = [pair for pair in filled if _name(pair[0]) in standing]
    _on_one_machine(kept, added, study)
    old = {place for entry, _ in kept for place in _places(entry)}
    old -= {place for entry, _ in added for place in _places(entry)}
    return Findings(
        found.order,
        _compared_whole(filled),
        missing,
        shares={pair: one for pair, one in earlier.shares.items() if one is not None and {*pair[:2]} <= old},
        p_values={pair: some for pair, some in earlier.p_values.items() if some and {*pair[:2]} <= old},
        known={
            name: earlier.known[name] for name, key in ABOUT.items() if any(key not in one.about for _, one in kept)
        },
        extensions=[*earlier.extensions, *([_said(added, both, ratios)] if added else [])],
    )


def _said(added: Sequence[tuple[Entry, Result]], both: Sequence[Entry], ratios: Sequence[float]) -> str:
    """Return what was added, and how long what is in both took this time."""
    days = sorted({str(one.about["date"]) for _, one in added if "date" in one.about})
    rows = "; ".join(dict.fromkeys(f"{named(entry.model)}: {named(entry.row)}" for entry, _ in added))
    when = f"{' and '.join(days)}: " if days else ""
    told = f"{when}{rows}. {len(both)} cells of before were computed again, with the same result"
    return f"{told}, in {min(ratios):.2f} to {max(ratios):.2f} of their time" if ratios else told


def _name(entry: Entry) -> _Name:
    extras = tuple(sorted(entry.cell.extras.items()))
    return entry.model, entry.row, entry.what, entry.x, entry.cell.kind, entry.cell.seed, extras


def _told(entries: Iterable[Entry]) -> str:
    return "; ".join(dict.fromkeys(f"{named(one.model)}: {named(one.row)}, {one.what}" for one in entries))


def _places(entry: Entry) -> tuple[Place, Place]:
    return (entry.model, entry.row, entry.what, entry.x), (entry.model, entry.row, entry.what, None)


def _as_wanted(entry: Entry, earlier: Entry) -> bool:
    """Say whether a line was computed with the settings that it would have today, wherever that was."""
    known = earlier.cell.config
    return known == (None if known is None else entry.cell.placed(known.device))


def _of_every_model(asked: Iterable[Entry], both: Iterable[Entry], earlier: Findings) -> None:
    """Raise `UsageError` where nothing of a model is in both: nothing would tell whether it is of the same rows."""
    known = {entry.model for entry, _ in earlier.found}
    for model in sorted({one.model for one in asked} & known - {one.model for one in both}):
        raise UsageError(
            f"{earlier.order.name}: nothing of {named(model)} is both on the page and computed now, so that nothing "
            "tells whether both are of the same rows; name a method in --methods that the page has, such as retrain, "
            f"of {', '.join(earlier.order.methods) or 'all'}"
        )


def _on_one_device(entry: Entry, device: str, earlier: Entry) -> None:
    known = earlier.cell.config
    if known is not None and known.device != device:
        raise UsageError(
            f"{_told([entry])} was computed on {known.device} before and on {device} now: neither times nor last "
            f"digits stand on one page; say --device {known.device}, or leave out --extend"
        )


def _same(entry: Entry, one: Result, other: Result) -> None:
    """Raise `DataError` where a line is of other rows than before, or came to something else."""
    pairs = [(key, one.numbers.get(key), other.numbers.get(key)) for key in (*_COUNTS, "balance")]
    pairs += [(key, one.metrics[key], other.metrics.get(key)) for key in one.metrics]
    known = 0
    for key, ours, theirs in pairs:
        if ours is None or theirs is None:
            continue
        known += 1
        if not abs(ours - theirs) <= _CLOSE:
            digits = ",.0f" if key in _COUNTS else ".6f"
            told = f"the number of {key}" if key in _COUNTS else key
            raise DataError(f"{_told([entry])}: {told} is {ours:{digits}}, and was {theirs:{digits}}; {_APART}")
    splits = one.about.get("split"), other.about.get("split")
    if None not in splits and splits[0] != splits[1]:
        raise DataError(f"{_told([entry])}: the split is {splits[0]}, and was {splits[1]}; {_APART}")
    if not known:
        raise DataError(f"{_told([entry])}: nothing of it tells whether it is of the same rows as before; {_APART}")


def _on_one_machine(kept: Sequence[tuple[Entry, Result]], added: Sequence[tuple[Entry, Result]], study: Study) -> None:
    def of(pairs: Iterable[tuple[Entry, Result]], model: str) -> list[str]:
        own = [one.about for entry, one in pairs if entry.model == model and study.timed(entry)]
        return [str(about["hardware"]) for about in own if "hardware" in about]

    for model in {entry.model for entry, _ in added}:
        before = of(kept, model)
        others = [one for one in machines([*before, *of(added, model)]) if one not in machines(before)]
        if before and others:
            raise DataError(
                f"{named(model)} was timed on {' and '.join(machines(before))}, and now on {' and '.join(others)}: "
                "times of two machines cannot be held to each other; leave out --extend, and compute all lines here"
            )


def _compared_whole(filled: Sequence[tuple[Entry, Result]]) -> list[tuple[Entry, Result]]:
    """Return the lines without single users where a place has them of some seeds only: it is compared whole, or not."""
    partly = {_places(entry)[0] for entry, one in filled if not one.per_user}
    return [
        (entry, dataclasses.replace(one, per_user={}) if _places(entry)[0] in partly else one) for entry, one in filled
    ]


def _ratios(one: Result, other: Result) -> Iterator[float]:
    """Yield the time of a line now over that of before, where both have one and it is not the very same."""
    for now, then in ((one.seconds, other.seconds), (_requests(one), _requests(other))):
        ours, theirs = sum(now.values()), sum(then.values())
        if now.keys() == then.keys() and theirs > 0 and abs(ours - theirs) > _CLOSE * len(now):
            yield ours / theirs


def _requests(one: Result) -> dict[str, float]:
    spent = one.series.get("total") or ([one.numbers["total"]] if "total" in one.numbers else [])
    return {"total": sum(spent) / len(spent)} if spent else {}
