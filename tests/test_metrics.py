from __future__ import annotations

from collections.abc import Callable
from math import log2

import ir_measures
import numpy as np
import pytest
from ir_measures import AP, RR, P, R, Success, nDCG
from numpy.typing import NDArray

from receraser.errors import UsageError
from receraser.metrics import (
    METRICS,
    average_precision,
    by_name,
    hit_rate,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)

Metric = Callable[[NDArray[np.bool_], NDArray[np.int64], int], NDArray[np.float64]]

# Hits at ranks 2 and 3 of four held-out items; at rank 1 of a single one; none; everything right.
HITS = np.array([[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]], dtype=bool)
N_TRUTH = np.array([4, 1, 2, 9], dtype=np.int64)


@pytest.mark.parametrize(
    ("metric", "k", "expected"),
    [
        (recall, 1, [0, 1, 0, 1 / 9]),
        (recall, 4, [2 / 4, 1, 0, 4 / 9]),
        (precision, 1, [0, 1, 0, 1]),
        (precision, 4, [2 / 4, 1 / 4, 0, 1]),
        (hit_rate, 1, [0, 1, 0, 1]),
        (hit_rate, 2, [1, 1, 0, 1]),
        (reciprocal_rank, 1, [0, 1, 0, 1]),
        (reciprocal_rank, 4, [1 / 2, 1, 0, 1]),
        (average_precision, 2, [1 / 2 / 4, 1, 0, 2 / 9]),
        (average_precision, 4, [(1 / 2 + 2 / 3) / 4, 1, 0, 4 / 9]),
        (ndcg, 1, [0, 1, 0, 1]),
        (ndcg, 2, [1 / log2(3) / (1 + 1 / log2(3)), 1, 0, 1]),
        (ndcg, 4, [(1 / log2(3) + 1 / 2) / (1 + 1 / log2(3) + 1 / 2 + 1 / log2(5)), 1, 0, 1]),
    ],
)
def test_by_hand(metric: Metric, k: int, expected: list[float]) -> None:
    found = metric(HITS, N_TRUTH, k)
    assert found.dtype == np.float64
    assert found.tolist() == pytest.approx(expected)


def test_nobody() -> None:
    for metric in METRICS.values():
        assert metric(np.zeros((0, 4), dtype=bool), np.zeros(0, dtype=np.int64), 3).shape == (0,)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_against_trec_eval(k: int) -> None:
    """Random lists of ten, truths of one to fifteen items, some of which nobody ranked."""
    rng = np.random.default_rng(k)
    qrels, run, hits, n_truth = [], [], [], []
    for user in range(60):
        ranked = rng.permutation(30)[:10]
        truth = set(rng.permutation(40)[: rng.integers(1, 16)].tolist())
        qrels += [ir_measures.Qrel(str(user), str(item), 1) for item in truth]
        run += [ir_measures.ScoredDoc(str(user), str(item), -float(rank)) for rank, item in enumerate(ranked)]
        hits.append([item in truth for item in ranked.tolist()])
        n_truth.append(len(truth))
    theirs = {
        "recall": R @ k,
        "ndcg": nDCG @ k,
        "precision": P @ k,
        "hit_rate": Success @ k,
        "mrr": RR @ k,
        "map": AP @ k,
    }
    assert theirs.keys() == METRICS.keys()
    values: dict[tuple[str, int], float] = {
        (str(one.measure), int(one.query_id)): one.value for one in ir_measures.iter_calc(theirs.values(), qrels, run)
    }
    for name, measure in theirs.items():
        ours = METRICS[name](np.array(hits), np.array(n_truth), k)
        expected = [values[str(measure), user] for user in range(60)]
        assert 0 < np.mean(expected) < 1
        np.testing.assert_allclose(ours, expected, atol=1e-6, err_msg=name)


def test_names() -> None:
    assert {name: by_name(f"{name}@7") for name in METRICS} == {name: (METRICS[name], 7) for name in METRICS}
    with pytest.raises(UsageError, match=r"unknown metric 'ndgc': did you mean 'ndcg'\?"):
        by_name("ndgc@20")


@pytest.mark.parametrize("name", ["ndcg", "ndcg@", "ndcg@0", "ndcg@-1", "ndcg@2.5", "ndcg@ten", "ndcg@²"])
def test_a_name_needs_a_cut(name: str) -> None:
    with pytest.raises(UsageError, match="needs a cut of at least 1"):
        by_name(name)
