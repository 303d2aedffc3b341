from __future__ import annotations

import ir_measures
import numpy as np
import pytest
import torch
from ir_measures import AP, RR, P, R, Success, nDCG

from receraser import seeds
from receraser.data.ids import IdMap
from receraser.data.interactions import Histories, Interactions
from receraser.errors import DataError, UsageError
from receraser.evaluation import SCORE_BLOCK, RankingTask, evaluate
from receraser.models.wmf import WMF
from tests.contracts.worlds import random_rows


class Table:
    """A scorer that looks scores up by the user's name."""

    def __init__(self, users: IdMap, items: IdMap, seed: int = 1) -> None:
        self.items_ = items
        self.users = users
        rng = np.random.default_rng(seed)
        self.table = rng.permutation(len(users) * len(items)).reshape(len(users), len(items)).astype(np.float32)
        self.largest = 0

    def scores(self, histories: Histories) -> torch.Tensor:
        self.largest = max(self.largest, len(histories))
        return torch.from_numpy(self.table[self.users.indices(histories.users)])


def world() -> tuple[Interactions, Interactions]:
    """More users than a block; held-out rows with new users, new items, and rows that are in the training data too."""
    train = random_rows(150, 30, 0.2, seed=1)
    held = random_rows(150, 30, 0.1, seed=2).without(train)
    quiet = {f"u{user:03}" for user in range(0, 150, 10)}
    rows = [(user, item) for user, item in held.pairs() if user not in quiet]
    rows += [("new1", "i000"), ("new2", "i001"), ("u001", "new item"), ("u002", "new item"), ("u002", "newer item")]
    return train, Interactions.from_pairs([*rows, *list(train.pairs())[40:60]])


@pytest.mark.parametrize("at", [(1, 5, 20), (40,)])
def test_against_trec_eval(at: tuple[int, ...]) -> None:
    """The whole protocol: every item the user does not have is ranked; unknown items stay in the truth, as misses."""
    train, test = world()
    scorer = Table(train.users, train.items)
    found = evaluate(scorer, train, test, at=at)
    has = set(train.pairs())
    qrels = [ir_measures.Qrel(user, item, 1) for user, item in test.pairs() if user in train.users]
    run = [
        ir_measures.ScoredDoc(user, item, float(scorer.table[u, i]))
        for u, user in enumerate(train.users)
        for i, item in enumerate(train.items)
        if (user, item) not in has
    ]
    kinds = {"recall": R, "ndcg": nDCG, "precision": P, "hit_rate": Success, "mrr": RR, "map": AP}
    measures = {f"{name}@{k}": kind @ k for name, kind in kinds.items() for k in at}
    theirs: dict[tuple[str, str], float] = {
        (str(one.measure), one.query_id): one.value for one in ir_measures.iter_calc(measures.values(), qrels, run)
    }
    assert found.metrics.keys() == found.per_user.keys() == measures.keys()
    for name, measure in measures.items():
        expected = [theirs[str(measure), user] for user in found.user_ids]
        np.testing.assert_allclose(found.per_user[name], expected, atol=1e-6, err_msg=name)
        assert found.metrics[name] == pytest.approx(np.mean(expected), abs=1e-6)
    assert scorer.largest == SCORE_BLOCK


def test_everybody_is_counted() -> None:
    train, test = world()
    found = evaluate(Table(train.users, train.items), train, test, at=(5,))
    ranked = set(train.users) & set(test.users)
    assert set(found.user_ids) == ranked
    assert list(found.user_ids) == sorted(ranked)
    assert (found.users, found.users_skipped) == (len(ranked), 2)
    assert found.users_without_truth == len(train.users) - len(ranked) > 10


def test_what_a_user_has_is_not_ranked_for_them() -> None:
    """The rows of the user would stand first; they are masked, and for this user alone."""
    train = Interactions.from_pairs([("u", "a"), ("u", "b"), ("v", "c")])
    scorer = Table(train.users, train.items)
    scorer.table = np.array([[9, 8, 1], [9, 8, 7]], dtype=np.float32)
    found = evaluate(scorer, train, Interactions.from_pairs([("u", "c"), ("v", "b")]), at=(1, 2))
    assert found.per_user["recall@1"].tolist() == [1.0, 0.0]
    assert found.per_user["mrr@2"].tolist() == [1.0, 0.5]


def test_a_row_both_trained_on_and_held_out_is_a_miss() -> None:
    train = Interactions.from_pairs([("u", "a"), ("v", "b"), ("v", "c")])
    scorer = Table(train.users, train.items)
    found = evaluate(scorer, train, Interactions.from_pairs([("u", "a"), ("u", "b")]), at=(3,))
    assert found.metrics["recall@3"] == 0.5


def test_more_places_than_items() -> None:
    train = Interactions.from_pairs([("u", "a"), ("v", "b")])
    found = evaluate(Table(train.users, train.items), train, Interactions.from_pairs([("u", "b")]), at=(50,))
    assert found.metrics["recall@50"] == 1.0
    assert found.metrics["precision@50"] == 1 / 50
    assert found.metrics["ndcg@50"] == 1.0


def test_training_rows_the_model_has_never_heard_of() -> None:
    """The scorer's vocabulary may be another than that of the rows."""
    train = Interactions.from_pairs([("u", "a"), ("u", "x"), ("v", "b")])
    scorer = Table(train.users, IdMap(["a", "b"]))
    assert (
        evaluate(scorer, train, Interactions.from_pairs([("u", "b"), ("u", "y")]), at=(1,)).metrics["recall@1"] == 0.5
    )


@pytest.mark.parametrize("test", [Interactions.empty(), Interactions.from_pairs([("x", "a")])])
def test_nobody_to_rank_for_is_an_error(test: Interactions) -> None:
    train = Interactions.from_pairs([("u", "a")])
    with pytest.raises(DataError, match=f"none of the {len(test.users)} users"):
        evaluate(Table(train.users, train.items), train, test)


# ---------------------------------------------------------------------- the task, as validation uses it


def test_one_metric_of_a_task() -> None:
    train, test = world()
    scorer = Table(train.users, train.items)
    task = RankingTask(train.items, train, test)
    whole = evaluate(scorer, train, test, at=(7,))
    assert task.metric(scorer.scores, "ndcg@7") == whole.metrics["ndcg@7"]
    assert task.metric(scorer.scores, "recall@7") == whole.metrics["recall@7"]
    with pytest.raises(UsageError, match="unknown metric"):
        task.metric(scorer.scores, "accuracy@7")


def test_a_task_without_anybody_has_no_hits() -> None:
    train = Interactions.from_pairs([("u", "a")])
    task = RankingTask(train.items, train, Interactions.from_pairs([("x", "a")]))
    scorer = Table(train.users, train.items)
    assert task.metric(scorer.scores, "ndcg@5") == 0.0
    assert task.hits(scorer.scores, 5).shape == (0, 5)


@pytest.mark.parametrize("together", [1, 7, 64, 1000])
def test_hits_do_not_depend_on_how_many_are_scored_together(together: int) -> None:
    rows = random_rows(150, 30, 0.3, seed=1)
    some = seeds.uniform(seeds.derive(1, "held out"), np.arange(len(rows))) < 0.2
    train, test = rows.take(~some), rows.take(some)
    model = WMF(dim=4).fit(train)
    task = RankingTask(train.items, train, test)
    assert len(task.histories) > 100
    expected = task.hits(model.scores, 10)
    assert expected.any()
    assert np.array_equal(task.hits(model.scores, 10, together=together), expected)
    assert task.metric(model.scores, "ndcg@10", together=together) == task.metric(model.scores, "ndcg@10")
