"""Small worlds whose right answer is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from receraser import fingerprint
from receraser.data.ids import IdMap
from receraser.data.interactions import Histories, Interactions
from receraser.models.factors import FactorModel
from receraser.partition.partition import Partition
from receraser.protocols import Model


@dataclass(frozen=True)
class World:
    """Rows to learn from, and rows that somebody who has understood the world will find."""

    train: Interactions
    held_out: Interactions


def checkerboard(n_users: int = 24, n_items: int = 20) -> World:
    """Even users take even items, odd users odd ones; of their ten, each user's two held-out ones are the answer.

    All items are about equally popular: who recommends what is popular is wrong half of the time.
    """
    return blocks(n_users, n_items, 2)


def blocks(n_users: int, n_items: int, n_blocks: int) -> World:
    """User u takes the items i with i = u modulo n_blocks; a fifth of them is held out, by lot."""
    train: list[tuple[str, str]] = []
    held_out: list[tuple[str, str]] = []
    for user in range(n_users):
        own = range(user % n_blocks, n_items, n_blocks)
        hidden = Random(user).sample(own, len(own) // 5)
        for item in own:
            (held_out if item in hidden else train).append((f"u{user:02}", f"i{item:02}"))
    return World(Interactions.from_pairs(train), Interactions.from_pairs(held_out))


def edges() -> dict[str, Interactions]:
    """The tables at the edge of what there is."""
    return {
        "no row": Interactions.empty(),
        "one row": Interactions.from_pairs([("u", "a")]),
        "one user": Interactions.from_pairs([("u", item) for item in "abc"]),
        "one item": Interactions.from_pairs([(user, "a") for user in "uvw"]),
        "everybody has everything": Interactions.from_pairs([(user, item) for user in "uvw" for item in "abc"]),
        "a user has everything": Interactions.from_pairs([*(("u", item) for item in "abc"), ("v", "b")]),
    }


def history(items: Iterable[str], vocabulary: IdMap, *, name: str = "") -> Histories:
    """A single user: by default a stranger, known by these items alone."""
    return Histories.from_lists([name], [vocabulary.indices(items)])


def batch(parts: Sequence[Histories]) -> Histories:
    """Several batches as one."""
    lists = [
        one.item_index[one.indptr[row] : one.indptr[row + 1]] for one in parts for row in range(len(one))
    ]  # fmt: skip
    return Histories.from_lists([name for one in parts for name in one.users], lists)


def bits(model: Model) -> str:
    """What was learned, down to the last bit."""
    return fingerprint.of_tensors(model.state())


_FITTED: dict[str, FactorModel] = {}


def submodels_of(model: FactorModel, rows: Interactions, partition: Partition) -> list[FactorModel]:
    """One submodel for each shard, fitted on its rows alone; the same ones for whoever asks for them again."""
    found = []
    for shard in partition.shards(rows, None):
        name = f"{model!r} {shard.id} {fingerprint.of_rows(shard.train)}"
        if name not in _FITTED:
            _FITTED[name] = replace(model).fit(shard.train, seed=shard.id)
        found.append(_FITTED[name])
    return found


def random_rows(n_users: int, n_items: int, share: float, seed: int) -> Interactions:
    """Each pair with the same probability, for comparisons with slow and simple computations."""
    cells = np.random.default_rng(seed).random((n_users, n_items)) < share
    return Interactions.from_pairs(
        (f"u{user:03}", f"i{item:03}") for user, item in zip(*np.nonzero(cells), strict=True)
    )
