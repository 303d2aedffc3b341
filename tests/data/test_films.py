"""The film world: the same everywhere, shaped like real data, and worth personalising."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from receraser import seeds
from receraser.data.films import N_FILMS, N_USERS, FilmWorld, films
from receraser.data.interactions import Interactions
from receraser.fingerprint import of_bytes, of_rows

Floats = NDArray[np.float64]


@cache
def world() -> FilmWorld:
    return films(seed=7)


def gini(counts: NDArray[np.integer]) -> float:
    ordered = np.sort(counts).astype(np.float64)
    ranks = 2 * np.arange(1, len(ordered) + 1) - len(ordered) - 1
    return float(ranks @ ordered / (len(ordered) * ordered.sum()))


def top_decile(counts: NDArray[np.integer]) -> float:
    ordered = np.sort(counts)[::-1]
    return float(ordered[: len(ordered) // 10].sum() / ordered.sum())


def fifth_held_out(rows: Interactions) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Two matrices over the same users and items: four fifths of the rows, and one fifth."""
    held = seeds.below(seeds.derive(1, "held out"), np.arange(len(rows)), 5) == 0
    shape = (len(rows.users), len(rows.items))

    def matrix(which: NDArray[np.bool_]) -> sp.csr_matrix:
        ones = np.ones(int(which.sum()))
        return sp.csr_matrix((ones, (rows.user_index[which], rows.item_index[which])), shape=shape)

    return matrix(~held), matrix(held)


def recall_at_20(scores: Floats, train: sp.csr_matrix, test: sp.csr_matrix) -> float:
    scores = np.where(train.toarray() > 0, -np.inf, scores)
    top = np.argpartition(-scores, 20, axis=1)[:, :20]
    hits = np.take_along_axis(test.toarray(), top, axis=1).sum(axis=1)
    wanted = np.asarray(test.sum(axis=1)).ravel()
    return float((hits[wanted > 0] / wanted[wanted > 0]).mean())


def popularity_and_factors(rows: Interactions, rank: int) -> tuple[float, float]:
    """Recall@20 of the popularity list, and of a truncated SVD."""
    train, test = fifth_held_out(rows)
    popular = np.broadcast_to(np.asarray(train.sum(axis=0), dtype=np.float64), train.shape)
    left, sizes, right = svds(train, k=rank, v0=np.ones(min(train.shape)))
    return recall_at_20(popular, train, test), recall_at_20((left * sizes) @ right, train, test)


def test_the_rows_and_titles_of_seed_7_are_known() -> None:
    assert of_rows(world().interactions) == "e45681916132f7bf8fcfaec6bd45d33d25e3e0d279dadb98ea9cb99fa63fdf6b"
    assert (
        of_bytes("\n".join(world().titles.values()).encode())
        == "f6a851a0492455e72c6aecae48b70401f8825440ee15326ae98f69e613735063"
    )


def test_another_seed_is_another_world() -> None:
    other = films(seed=8)
    assert other.interactions != world().interactions
    assert other.titles != world().titles


def test_it_is_about_as_large_as_promised_and_everything_occurs() -> None:
    rows = world().interactions
    assert 95_000 <= len(rows) <= 105_000
    assert (len(rows.users), len(rows.items)) == (N_USERS, N_FILMS)
    assert rows.users.ids[0] == "u0001"
    assert rows.items.ids[-1] == "f1000"


def test_titles_are_distinct_and_end_in_a_year() -> None:
    titles = world().titles
    assert set(titles) == set(world().interactions.items)
    names = {title[:-7] for title in titles.values()}
    assert len(names) == N_FILMS  # not only distinct by their years
    years = [int(match[1]) for title in titles.values() if (match := re.fullmatch(r"The [\w' -]+ \((\d{4})\)", title))]
    assert len(years) == N_FILMS
    assert 1934 <= min(years) < 1960 < np.median(years) < max(years) <= 2024


def test_a_film_has_one_genre_or_two_different_ones() -> None:
    genres = world().genres
    assert set(genres) == set(world().titles)
    assert all(1 <= len(own) == len(set(own)) <= 2 for own in genres.values())
    assert 0.3 < sum(len(own) == 2 for own in genres.values()) / N_FILMS < 0.5
    assert min(Counter(own[0] for own in genres.values()).values()) > 40


def test_popularity_and_activity_have_long_tails() -> None:
    rows = world().interactions
    popularity, activity = np.bincount(rows.item_index), np.bincount(rows.user_index)
    assert 0.33 < top_decile(popularity) < 0.45
    assert 0.45 < gini(popularity) < 0.60
    assert 0.25 < top_decile(activity) < 0.40
    assert 0.35 < gini(activity) < 0.50
    assert (activity.min(), activity.max()) == (8, 320)
    assert popularity.min() < 10 < 500 < popularity.max()


def test_taste_groups_differ_in_size_and_in_what_they_watch() -> None:
    rows, groups = world().interactions, world().taste_group_of
    assert list(groups) == list(world().circle_of) == list(rows.users)
    assert all(world().circle_of[user].startswith(f"{group}, ") for user, group in groups.items())
    sizes = Counter(groups.values())
    assert len(sizes) == 12
    assert min(sizes.values()) < 60 < 250 < max(sizes.values())
    westerns = np.array([world().genres[film][0] == "western" for film in rows.items])[rows.item_index]
    theirs = np.array([groups[user] == "Dust and Spurs" for user in rows.users])[rows.user_index]
    assert westerns[theirs].mean() > 4 * westerns[~theirs].mean()


@pytest.mark.parametrize("rank", [16, 32, 64])
def test_factors_find_clearly_more_than_popularity(rank: int) -> None:
    popularity, factors = popularity_and_factors(world().interactions, rank)
    assert popularity > 0.12  # not useless
    assert factors > 1.8 * popularity


def test_neighbours_by_what_they_saw_belong_to_the_same_group() -> None:
    """Whoever is forgotten is missed by their own group first: that is where the nearest neighbours are."""
    rows = world().interactions
    matrix = rows.matrix().toarray()
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    likeness = unit @ unit.T
    np.fill_diagonal(likeness, -1.0)
    nearest = np.argsort(-likeness, axis=1, kind="stable")[:, :10]
    groups = np.array(list(world().taste_group_of.values()))
    same = (groups[nearest] == groups[:, None]).mean()
    by_chance = sum((size / N_USERS) ** 2 for size in Counter(groups.tolist()).values())
    assert same > 5 * by_chance


def test_forgetting_a_person_is_noticed_in_their_circle_first() -> None:
    """EASE (Steck 2019) before and after: the lists of the circle change at least twice as often as other people's."""
    rows = world().interactions
    circles = np.array(list(world().circle_of.values()))
    smallest = min(Counter(circles.tolist()).items(), key=lambda pair: (pair[1], pair[0]))[0]
    members = np.flatnonzero(circles == smallest)
    forgotten = members[np.argmax(np.bincount(rows.user_index)[members])]
    matrix = rows.matrix().toarray().astype(np.float64)

    def lists(histories: Floats) -> NDArray[np.int64]:
        inverse = np.linalg.inv(histories.T @ histories + 200 * np.eye(N_FILMS))
        weights = -inverse / np.diag(inverse)
        np.fill_diagonal(weights, 0)
        scores = np.where(histories > 0, -np.inf, histories @ weights)
        return np.sort(np.argsort(-scores, axis=1, kind="stable")[:, :10], axis=1)

    before = lists(matrix)
    matrix[forgotten] = 0
    changed = (lists(matrix) != before).any(axis=1)
    companions = members[members != forgotten]
    assert 5 <= len(companions) <= 40
    assert changed[companions].mean() >= 2 * changed[circles != smallest].mean() > 0
