"""Large worlds: exact in number, independent of the chunks, long-tailed, and learnable."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receraser.data.interactions import Interactions
from receraser.data.worlds import heavy_tailed, large_world, large_world_interactions, write_large_world
from receraser.errors import UsageError
from receraser.fingerprint import of_rows
from tests.data.test_films import gini, popularity_and_factors, top_decile


def test_the_rows_of_two_worlds_are_known() -> None:
    assert (
        of_rows(large_world_interactions(2000, 1000, 50_000, seed=7))
        == "34839e095474570cd72777efe2aa14a7f4d61e04599ab90bfa6a67cd5f6ee2cb"
    )
    assert (
        of_rows(large_world_interactions(300, 400, 60_000, seed=7))
        == "0f21ca7215c6de801f87ef37caae2be56141022817ab4555984fd7621bae71be"
    )  # every user has half of the items


@given(n_users=st.integers(1, 60), n_items=st.integers(1, 60), share=st.floats(0, 1), seed=st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_exactly_so_many_rows_none_twice_and_nobody_without(
    n_users: int, n_items: int, share: float, seed: int
) -> None:
    most = max(1, n_items // 2)
    n = n_users + int(share * n_users * (most - 1))
    chunks = list(large_world(n_users, n_items, n, seed, chunk_users=7))
    users = np.concatenate([chunk.user_index for chunk in chunks])
    items = np.concatenate([chunk.item_index for chunk in chunks])
    keys = users.astype(np.int64) * n_items + items
    assert len(keys) == n
    assert (np.diff(keys) > 0).all()
    assert items.min() >= 0
    assert items.max() < n_items
    activity = np.bincount(users, minlength=n_users)
    assert len(activity) == n_users
    assert 1 <= activity.min() <= activity.max() <= most


@pytest.mark.parametrize("world", [(500, 300, 9_000), (40, 60, 1_150)], ids=["sparse", "dense"])
def test_the_rows_do_not_depend_on_the_chunks(world: tuple[int, int, int]) -> None:
    def rows(chunk_users: int | None) -> bytes:
        chunks = list(large_world(*world, seed=3, chunk_users=chunk_users))
        users = np.concatenate([chunk.user_index for chunk in chunks])
        return users.tobytes() + np.concatenate([chunk.item_index for chunk in chunks]).tobytes()

    assert len({rows(size) for size in (None, 1, 13, 10_000)}) == 1


def test_who_finds_too_little_gets_the_rest_by_lot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("receraser.data.worlds._LIMIT", 0)  # 256 draws, and no more
    rows = large_world_interactions(30, 400, 6_000, seed=7)
    assert np.bincount(rows.user_index).tolist() == [200] * 30
    chunks = list(large_world(30, 400, 6_000, seed=7, chunk_users=4))
    assert np.array_equal(np.concatenate([chunk.item_index for chunk in chunks]), rows.item_index)


def test_a_chunk_too_large_for_one_integer_is_sorted_by_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = large_world_interactions(500, 300, 9_000)
    monkeypatch.setattr("receraser.data.worlds._WORD", 40)
    assert large_world_interactions(500, 300, 9_000) == whole


def test_a_chunk_holds_consecutive_users() -> None:
    chunks = list(large_world(50, 40, 400, seed=1, chunk_users=20))
    assert [(int(c.user_index[0]), int(c.user_index[-1])) for c in chunks] == [(0, 19), (20, 39), (40, 49)]


def test_seeds_make_different_worlds() -> None:
    assert large_world_interactions(50, 40, 400, seed=1) != large_world_interactions(50, 40, 400, seed=2)


def test_the_file_holds_the_same_rows(tmp_path: Path) -> None:
    path = tmp_path / "world.parquet"
    seen: list[tuple[int, int]] = []
    write_large_world(
        path, 500, 300, 9_000, 3, chunk_users=100, progress=lambda done, total: seen.append((done, total))
    )
    table = pq.read_table(path)
    assert table.column_names == ["user", "item"]
    assert pq.ParquetFile(path).num_row_groups == 5
    columns = [table[name].cast("string").to_pylist() for name in ("user", "item")]
    assert Interactions.from_columns(*columns) == large_world_interactions(500, 300, 9_000, 3)
    assert columns[0] == sorted(columns[0])
    assert len(seen) == 5
    assert seen[-1] == (9_000, 9_000)
    assert all(a < b for (a, _), (b, _) in pairwise(seen))


def test_the_rows_of_the_file_do_not_depend_on_the_chunks_either(tmp_path: Path) -> None:
    for size in (50, 500):
        write_large_world(tmp_path / f"{size}.parquet", 500, 300, 9_000, chunk_users=size)
    tables = [pq.read_table(tmp_path / f"{size}.parquet").to_pydict() for size in (50, 500)]
    assert tables[0] == tables[1]


def test_a_file_that_was_not_finished_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "world.parquet"
    path.write_bytes(b"what was there before")

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_large_world(path, 500, 300, 9_000, progress=stop)
    assert [file.name for file in tmp_path.iterdir()] == ["world.parquet"]
    assert path.read_bytes() == b"what was there before"


def test_popularity_and_activity_have_long_tails() -> None:
    rows = large_world_interactions(4000, 3000, 200_000)
    popularity, activity = np.bincount(rows.item_index), np.bincount(rows.user_index)
    assert 0.40 < top_decile(popularity) < 0.60
    assert 0.50 < gini(popularity) < 0.70
    assert 0.30 < top_decile(activity) < 0.45
    assert 0.45 < gini(activity) < 0.60
    assert np.median(activity) < activity.mean() < activity.max() / 10


def test_there_is_something_to_learn() -> None:
    popularity, factors = popularity_and_factors(large_world_interactions(2000, 2000, 100_000), rank=16)
    assert popularity > 0.05
    assert factors > 1.7 * popularity


def test_heavy_tailed_numbers_are_nearly_log_normal() -> None:
    logs = np.log(heavy_tailed(5, 20_000, 4) / 65536)
    assert logs.std() == pytest.approx(0.8, rel=0.05)
    assert np.median(logs) == pytest.approx(logs.mean(), abs=0.05)


@pytest.mark.parametrize(
    ("world", "said"),
    [
        ((10, 10, 9), "expected 10 to 50 rows"),
        ((10, 10, 51), "expected 10 to 50 rows"),
        ((0, 10, 0), "0 users"),
        ((10, 2**24 + 1, 10), "16,777,217 items"),
    ],
)
def test_impossible_worlds_are_refused_at_once(world: tuple[int, int, int], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        large_world(*world)


def test_a_chunk_has_at_least_one_user() -> None:
    with pytest.raises(UsageError, match="chunk_users is 0"):
        large_world(10, 10, 20, chunk_users=0)
