"""What can be done to what an engine holds, as functions: forget, add, rebuild. The same in memory and for a store.

::

    Held, Pending -> plan, rows without them -> Work (partition, submodels, aggregation) -> Held, Act, report

Each returns what is to be held next, and the account of it; nothing is assigned and nothing is published here. Whoever
calls takes the next over once it is published. So an error, wherever it comes from, leaves an engine with what its
store has.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from receraser.custody import Act
from receraser.data.interactions import Interactions
from receraser.erasure.plan import REBUILD, plan
from receraser.partition.partition import Embeddings
from receraser.reports import AddReport, ForgetReport
from receraser.state import State
from receraser.store.pending import Pending
from receraser.work import Work

__all__ = ["Held", "add", "forget", "rebuild"]


@dataclass(frozen=True, eq=False)
class Held:
    """What an engine holds, users by pseudonyms.

    Attributes
    ----------
    state
        Rows, shards, weights.
    wishes
        Items that people do not want to see again, though their rows are forgotten; nothing is learned from them.
    titles
        Of the items, to be shown.
    """

    state: State
    wishes: Interactions
    titles: Mapping[str, str]

    @property
    def known_titles(self) -> Mapping[str, str]:
        """Titles of the items there are: what has vanished leaves none behind."""
        items = self.state.train.items
        return {item: title for item, title in self.titles.items() if item in items}

    def then(self, state: State, wishes: Interactions) -> Held:
        """Return what is held with the next state: of whoever has no rows any more no wish."""
        return Held(state, _of_the_known(wishes, state), self.titles)


def forget(held: Held, pending: Pending, work: Work, *, anew: bool, started: str) -> tuple[Held, Act, ForgetReport]:
    """Do a request; with `anew` by a new partition and from nothing."""
    state, request = held.state, pending.request
    with work.planning():
        planned = plan(request, state.train, state.valid, state.partition)
        report = work.forget_report(state, planned, anew=anew)
    made = work.forget(state, planned, report)
    hidden = _of_the_known(Interactions.from_pairs(request.interactions if pending.hide else ()), made)
    wishes = Interactions.union([held.wishes.take(~request.cells(held.wishes)), hidden])
    removed_valid = Interactions.empty()
    if state.valid is not None and planned.valid_rows is not None:
        removed_valid = state.valid.take(planned.valid_rows)
    act = dataclasses.replace(
        _act("forget", held, pending, report, started),
        request=request,
        unknown=planned.unknown,
        removed=state.train.take(np.flatnonzero(planned.train_rows)),
        removed_valid=removed_valid,
        hides=len(hidden) > 0,
    )
    after = held.then(made, wishes)
    return dataclasses.replace(after, titles=after.known_titles), act, report


def add(
    held: Held, pending: Pending, rows: Interactions, work: Work, *, anew: bool, started: str
) -> tuple[Held, Act, AddReport]:
    """Take rows in; with `anew` by a new partition and from nothing."""
    new = rows.without(held.state.train)
    made, report = work.add(held.state, rows, anew=anew)
    act = dataclasses.replace(_act("add", held, pending, report, started), added=new)
    return held.then(made, held.wishes.without(new)), act, report  # whoever has an item again does not mind it any more


def rebuild(
    held: Held, pending: Pending, embeddings: Embeddings | None, work: Work, *, started: str
) -> tuple[Held, Act]:
    """Fit everything again, from the rows that are held alone."""
    made = work.fit(held.state.train, held.state.valid, embeddings=embeddings)
    everything = tuple(range(len(made.shards)))
    act = Act("rebuild", held.state, retrained=everything, path=REBUILD, started=started, pending=pending, anew=True)
    return held.then(made, held.wishes), act


def _act(action: str, held: Held, pending: Pending, report: ForgetReport | AddReport, started: str) -> Act:
    """Return the account of a change by what its report says; what it was about is put in by whoever calls."""
    return Act(
        action,
        held.state,
        retrained=report.shards_retrained,
        path=report.path,
        started=started,
        pending=pending,
        anew=report.path == REBUILD,
    )


def _of_the_known(wishes: Interactions, state: State) -> Interactions:
    """Return the wishes of people who have rows."""
    known = state.train.users
    return wishes.take(np.array([user in known for user in wishes.users], dtype=bool)[wishes.user_index])
