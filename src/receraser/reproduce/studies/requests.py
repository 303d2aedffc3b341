"""What the studies of forgetting share: entries of requests one after another, of a retrain on the survivors, controls.

Wherever `spectral` stands, `attention-on-hash` is a method too: attention over its very same submodels on its very same
shards, so that it can be told what the merge is worth. It shares the submodels, and costs what attention costs.

Times depend on no seed, so they are measured with the first one alone.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from receraser.reproduce.cell import Cell, Extras, Result
from receraser.reproduce.machine import machines
from receraser.reproduce.order import Order
from receraser.reproduce.settings import Chosen, additive, chosen
from receraser.reproduce.studies.study import ADDITIVE, ATTENDED, POLISHED, SWEPT, Entry, Findings, fits

__all__ = [
    "controls_told",
    "fit_seconds",
    "forgets_or_retrains",
    "forgetting",
    "in_retrains",
    "mean_of",
    "of_method",
    "one_by_one",
    "per_request",
    "retrain_seconds",
    "row_of",
    "survivors",
    "swept",
    "timed_of",
    "were_timed",
]


def of_method(order: Order, model: str, method: str, seed: int = 0, shards: int = 10) -> Chosen:
    """Return what stands for a method or a control, or for a model that needs no shards."""
    if method in ADDITIVE:
        return additive(order.dataset, method, seed=seed)
    if method not in ("attention-on-hash", "polish"):
        return chosen(order.dataset, model, method, shards=shards, seed=seed)
    merged = chosen(order.dataset, model, "spectral", shards=shards, seed=seed)
    if method == "polish":
        return merged.polished(1)
    return merged.under(chosen(order.dataset, model, "receraser", shards=shards, seed=seed))


def row_of(method: str) -> str:
    """Return the line in which a method stands.

    Examples
    --------
    >>> row_of("attention-on-hash"), row_of("sisa")
    ('control: hash shards, attention', 'sisa')
    """
    return {"attention-on-hash": ATTENDED, "polish": POLISHED}.get(method, method)


def swept(order: Order, model: str, seed: int = 0) -> Entry:
    """Return the control of `polish`: random vectors and the same sweeps. It has no shards."""
    settings = of_method(order, model, "polish", seed)
    return Entry(model, SWEPT, Cell("sweeps", order.dataset, settings.config), settings.origin, x=1)


def forgetting(
    order: Order, model: str, row: str, settings: Chosen, kind: str, extras: Extras, x: float = 0.0
) -> Entry:
    """Return the entry of a cell in which somebody is forgotten; `what` is the level, or the kind of users."""
    own = {**fits(order, model, row, settings).cell.extras, **extras}
    what = str(extras.get("level", extras.get("who", kind)))
    return Entry(model, row, Cell(kind, order.dataset, settings.config, own), settings.origin, what, x)


def controls_told(found: Findings) -> list[str]:
    """Say what the control is, where it was asked for."""
    if not any(row.startswith(ATTENDED) for model in found.models for row in found.rows(model)):
        return []
    return ["The control: attention over the very same submodels as Spectral's, on the very same shards."]


def one_by_one(order: Order, level: str, n: int) -> Extras:
    """Return what a cell of requests one after another takes: so many, unless the order says how many, of a level."""
    own: dict[str, str | int | float] = {"level": level, "n": order.forgets or n}
    return own if order.within is None else {**own, "within": float(order.within)}


def survivors(order: Order, model: str, row: str, settings: Chosen, extras: Extras, x: float = 0.0) -> Entry:
    """Return the entry of a fit, from nothing, on those who are left; how they were forgotten is nothing to it."""
    own = {key: value for key, value in extras.items() if key != "within"}
    entry = forgetting(order, model, row, settings, "fit", own, x)
    return Entry(model, row, entry.cell, entry.origin, f"{entry.what} left", x)


def forgets_or_retrains(entry: Entry) -> bool:
    """Say whether an entry's seconds count where fits of shards stand for their quality alone."""
    return entry.what != "fit" or entry.row == "retrain"


def fit_seconds(one: Result) -> float:
    """Return the seconds of everything that is learned."""
    return sum(one.seconds.values())


def mean_of(values: Sequence[float]) -> float | None:
    """Return the mean; None of nothing."""
    return statistics.mean(values) if values else None


def per_request(found: Findings, model: str, row: str, level: str, key: str) -> float | None:
    """Return the mean over requests of a number that was noted for each."""
    return mean_of([value for one in found.of(model, row, level) for value in one.series.get(key, [])])


def timed_of(found: Findings, model: str, row: str, level: str) -> str:
    """Return how many requests of a line were timed; nothing where it was not measured."""
    return str(sum(len(one.series.get("total", [])) for one in found.of(model, row, level)) or "")


def were_timed(found: Findings) -> list[str]:
    """Return how many requests of a line were timed, where an order limits the seconds for them."""
    within = found.order.within
    counts = [int(one.numbers["timed"]) for _, one in found.found if "timed" in one.numbers]
    if within is None or not counts:
        return []
    many = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return [
        f"Timed one by one were those that began within {within:g} s ({many} of a line); the others were",
        "forgotten at once, which leads to the same state.",
    ]


def retrain_seconds(found: Findings, model: str, what: str, x: float | None = None) -> float | None:
    """Return the seconds of a full retrain on the survivors."""
    return mean_of([fit_seconds(one) for one in found.of(model, "retrain", what, x)])


def in_retrains(found: Findings, model: str, row: str, level: str, key: str = "total") -> float | None:
    """Return a request's seconds over those of a full retrain on the survivors; None if from different machines."""
    some, whole = per_request(found, model, row, level, key), retrain_seconds(found, model, f"{level} left")
    compared = [*found.of(model, row, level), *found.of(model, "retrain", f"{level} left")]
    where = machines(str(one.about["hardware"]) for one in compared if "hardware" in one.about)
    return some / whole if some is not None and whole and len(where) < 2 else None
