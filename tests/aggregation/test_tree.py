from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from receraser import fingerprint
from receraser.aggregation.spectral import Spectral
from receraser.aggregation.tree import MergeTree, holding, needed
from receraser.data.ids import IdMap
from receraser.fingerprint import Tensors
from receraser.models.wmf import WMF
from tests.contracts.worlds import blocks

DIM = 3


def leaf(seed: int) -> tuple[IdMap, np.ndarray]:
    """Some items of a shard, and their columns."""
    generator = np.random.default_rng(seed)
    items = IdMap(f"i{i}" for i in range(20) if generator.random() < 0.6)
    return items, generator.normal(size=(len(items), DIM))


def merged(
    seeds: list[int], known: Tensors, asked: list[int] | None = None, *, width: int = 4
) -> tuple[str, dict[str, np.ndarray]]:
    def columns(k: int) -> np.ndarray:
        if asked is not None:
            asked.append(k)
        return leaf(seeds[k])[1]

    tree = MergeTree(len(seeds), lambda k: leaf(seeds[k])[0], columns, width, known, None)
    root = tree.root()
    laid_out = root if isinstance(root, np.ndarray) else root.whole()
    return fingerprint.of_tensors({"columns": laid_out}) + "".join(tree.items), tree.nodes


@given(st.integers(1, 17), st.integers(1, 7), st.data())
def test_a_merge_with_what_is_known_is_a_fresh_one(n: int, width: int, data: st.DataObject) -> None:
    """However many shards change, in however many rounds: the root and all nodes have the bits of a fresh merge.

    Also where a shard alone is wider than a node may be.
    """
    seeds = list(range(n))
    _, nodes = merged(seeds, {}, width=width)
    for round_ in range(1, 4):
        changed = data.draw(st.sets(st.integers(0, n - 1), max_size=3))
        for k in changed:
            seeds[k] += 100 * round_
        known, shards = needed(nodes, changed, n)
        asked: list[int] = []
        root, made = merged(seeds, known, asked, width=width)
        assert not made.keys() & known.keys(), "only what was cut now"
        assert sorted(asked) == shards, "no other leaf is looked at"
        fresh, all_nodes = merged(seeds, {}, width=width)
        assert root == fresh
        nodes = {**holding(nodes, changed, n), **made}
        assert fingerprint.of_tensors(nodes) == fingerprint.of_tensors(all_nodes)


@pytest.mark.parametrize(("width", "first"), [(4, 1), (5, 2), (6, 2), (8, 2), (9, 3)])
def test_what_is_hardly_too_wide_is_not_cut(width: int, first: int) -> None:
    """Two shards of three columns have six, which is up to a third more than five; one level up there are twelve."""
    nodes = merged(list(range(16)), {}, width=width)[1]
    assert min(int(name.split(".")[1]) for name in nodes) == first


def test_one_change_redoes_one_path() -> None:
    seeds = list(range(32))
    _, nodes = merged(seeds, {})
    known, shards = needed(nodes, [13], 32)
    assert shards == [12, 13]
    assert sorted(name for name in known if not name.endswith(".items")) == [
        "node.1.7",
        "node.2.2",
        "node.3.0",
        "node.4.1",
    ]


def test_a_vanished_item_leaves_no_trace_in_a_node() -> None:
    seeds = list(range(8))
    _, nodes = merged(seeds, {})
    only = set(leaf(5)[0]) - {item for k in range(8) if k != 5 for item in leaf(k)[0]}
    seeds[5] = 999
    _, after = merged(seeds, needed(nodes, [5], 8)[0])
    fresh = merged(seeds, {})[1]
    assert all(
        fingerprint.of_tensors({name: after[name]}) == fingerprint.of_tensors({name: fresh[name]}) for name in after
    )
    for name, ids in after.items():
        if name.endswith(".items"):
            assert not only & set(ids.tobytes().decode().split("\n")) - set(leaf(999)[0])


@pytest.mark.parametrize("n_shards", [1, 2, 3, 5])
def test_submodels_that_are_not_needed_are_not_looked_at(n_shards: int) -> None:
    rows = blocks(12, 15, 3).train
    parts = [WMF(dim=3).fit(rows.take(np.arange(len(rows)) % n_shards == k), seed=k) for k in range(n_shards)]
    made = Spectral(rank=2, width=3)
    state, facts = made.fit(parts, rows, valid=None, seed=1)
    reuse = made.reusable(state, [0], n_shards)
    shards = reuse.submodels
    blind = [
        model
        if k in shards
        else WMF(dim=3).load_state(
            IdMap([]), IdMap([]), {"user_vectors": np.zeros((0, 3)), "item_vectors": np.zeros((0, 3))}
        )
        for k, model in enumerate(parts)
    ]
    again, told = made.refit(blind, reuse.known, rows)
    assert fingerprint.of_tensors({**reuse.holds, **again}) == fingerprint.of_tensors(state)
    assert told == facts
