"""`Study`: a table or figure as a value. `Entry`: a cell and what it stands for there. `Findings`: what was found.

A study says which entries it has and how a page and a picture are made of findings; it computes nothing. Cells that are
missing are left out of the page, which says how many they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from receraser.errors import UsageError, nearest
from receraser.reproduce import paper
from receraser.reproduce.cell import Cell, Result
from receraser.reproduce.comparing import Share, Spread, paired_p
from receraser.reproduce.order import Order
from receraser.reproduce.settings import Chosen, additive

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "ADDITIVE",
    "ALONE",
    "ATTENDED",
    "POLISHED",
    "SWEPT",
    "Entry",
    "Findings",
    "Pair",
    "Place",
    "Study",
    "fits",
    "picked",
    "too_large",
    "without_shards",
]

ADDITIVE = ("gram", "ease", "graphfilter")
_LARGE = ("yelp2018",)  # catalogues too large for EASE's matrix of all pairs of items
ALONE = "without shards"  # stands for the model where a method brings its own
POLISHED = "spectral, polish=1"
# Controls of spectral, as lines: attention on its very same shards; the sweeps of `polish` from random vectors.
ATTENDED, SWEPT = "control: hash shards, attention", "control: random vectors, 1 sweep"


@dataclass(frozen=True)
class Entry:
    """A cell, and what it stands for.

    Attributes
    ----------
    model, row
        Which table of the page, and which line of it.
    what
        The part of the line: "fit", "users", "survivors"; a study's own words.
    x
        Where on an axis: a number of shards, a share of the users.
    origin
        Where the settings come from.
    """

    model: str
    row: str
    cell: Cell
    origin: str = ""
    what: str = "fit"
    x: float = 0.0


Place = tuple[str, str, str, float | None]  # model, row, what, x (None: wherever on the axis)
Pair = tuple[Place, Place, str]  # ours, theirs, by which metric


@dataclass(frozen=True, eq=False)
class Findings:
    """The entries of an order, and the results of those that are there.

    Attributes
    ----------
    shares, p_values
        Every comparison that was asked for, so far; or that a document has, where no single users are at hand.
    known
        Days, machines, versions and splits of the document that lines are of, where not each line has its own.
    extensions
        What was added to a page after it had been computed, in words.
    """

    order: Order
    found: Sequence[tuple[Entry, Result]]
    missing: Sequence[Entry] = ()
    shares: dict[Pair, Share | None] = field(default_factory=dict)
    p_values: dict[Pair, list[float]] = field(default_factory=dict)
    known: Mapping[str, Sequence[str]] = field(default_factory=dict)
    extensions: Sequence[str] = ()

    @property
    def models(self) -> list[str]:
        """Models that something was found of, in the paper's order; what needs no shards is left out."""
        return [model for model in paper.MODELS if any(entry.model == model for entry, _ in self.found)]

    def rows(self, model: str) -> list[str]:
        """Return the lines of a model's table, each once."""
        return list(dict.fromkeys(entry.row for entry, _ in self.found if entry.model == model))

    def of(self, model: str, row: str, what: str = "fit", x: float | None = None) -> list[Result]:
        """Return results, one for each seed."""
        return [one for _, one in self._some(model, row, what, x)]

    def xs(self, model: str, row: str, what: str = "fit") -> list[float]:
        """Return the places on the axis, ascending."""
        return sorted({entry.x for entry, _ in self._some(model, row, what, None)})

    def _some(self, model: str, row: str, what: str, x: float | None) -> list[tuple[Entry, Result]]:
        some = [
            (entry, one)
            for entry, one in self.found
            if (entry.model, entry.row, entry.what) == (model, row, what) and (x is None or entry.x == x)
        ]
        return sorted(some, key=lambda pair: pair[0].cell.seed)

    def spread(self, model: str, row: str, metric: str, what: str = "fit", x: float | None = None) -> Spread | None:
        """Return a metric over the seeds; None where there is nothing."""
        values = tuple(one.metrics[metric] for one in self.of(model, row, what, x) if metric in one.metrics)
        return Spread(values) if values else None

    def share(self, ours: Place, theirs: Place, metric: str) -> Share | None:
        """Compare one place with another, seed by seed over the same users; None where there is no pair."""
        key = ours, theirs, metric
        if key not in self.shares:
            pairs = [
                (a.per_user[metric], b.per_user[metric])
                for a, b in self._pairs(ours, theirs)
                if float(b.per_user[metric].mean()) > 0
            ]
            self.shares[key] = Share.of(pairs) if pairs else None
        return self.shares[key]

    def p_value(self, ours: Place, theirs: Place, metric: str) -> float | None:
        """Return the largest p-value of the seeds' paired t-tests over users; None where there is no pair."""
        key = ours, theirs, metric
        if key not in self.p_values:
            self.p_values[key] = [
                paired_p(a.per_user[metric], b.per_user[metric]) for a, b in self._pairs(ours, theirs)
            ]
        return max(self.p_values[key], default=None)

    def _pairs(self, ours: Place, theirs: Place) -> list[tuple[Result, Result]]:
        """Return pairs of one seed whose users are the same, where single users are at hand."""
        others = {entry.cell.seed: one for entry, one in self._some(*theirs) if one.per_user}
        pairs = []
        for entry, one in self._some(*ours):
            other = others.get(entry.cell.seed)
            if other is not None and one.per_user and one.notes.get("users") == other.notes.get("users"):
                pairs.append((one, other))
        return pairs


@dataclass(frozen=True)
class Study:
    """A table or figure.

    Attributes
    ----------
    entries
        Which cells an order needs.
    page
        The body of the Markdown page.
    draw
        Draws into an empty figure; None where a picture would say nothing.
    size
        Of the picture, in inches, for so many models.
    timed
        Which entries' seconds are compared with others of the same model: those are to be from one machine.
    methods
        Names that `Order.methods` may be some of; none where there is nothing to choose.
    """

    name: str
    title: str
    entries: Callable[[Order], list[Entry]]
    page: Callable[[Findings], list[str]]
    draw: Callable[[Findings, Figure], None] | None = None
    size: Callable[[int], tuple[float, float]] = lambda n: (4.2 * max(1, n), 4.4)
    timed: Callable[[Entry], bool] = lambda _: False
    methods: tuple[str, ...] = field(kw_only=True)


def picked(order: Order, known: Sequence[str]) -> list[str]:
    """Return the methods that were asked for, of those that a study has; all where none was named."""
    for one in order.methods:
        if one not in known:
            raise UsageError(f"{order.study} has no method {one!r}: {nearest(one, known)}")
    return [one for one in known if not order.methods or one in order.methods]


def too_large(order: Order, method: str) -> bool:
    """Say whether a data set has more items than a method can hold."""
    return method == "ease" and order.dataset in _LARGE


def fits(order: Order, model: str, row: str, settings: Chosen, *, what: str = "fit", x: float = 0.0) -> Entry:
    """Return the entry of a plain fit."""
    extras: dict[str, str | int | float] = {"epochs": "chosen"} if settings.chooses_epochs else {}
    return Entry(model, row, Cell("fit", order.dataset, settings.config, extras), settings.origin, what, x)


def without_shards(order: Order, names: Sequence[str]) -> list[Entry]:
    """Return the entries of models that need no shards; what draws nothing at random has one seed."""
    found = []
    for name in names:
        for seed in range(1 if name == "ease" else order.seeds):
            found.append(fits(order, ALONE, name, additive(order.dataset, name, seed=seed)))
            own = additive(order.dataset, name, seed=seed, own_rank=True)
            if own.config != found[-1].cell.config:
                found.append(fits(order, ALONE, f"{name}, rank {own.config.hyperparameters['rank']}", own))
    return found
