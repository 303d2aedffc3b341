from __future__ import annotations

from receraser.data.interactions import Histories, Interactions
from receraser.models.popularity import Popularity
from receraser.protocols import Scorer
from tests.contracts.scorer_contract import ScorerContract
from tests.contracts.worlds import checkerboard, history


class TestPopularity(ScorerContract):
    def scorer(self) -> Scorer:
        return Popularity().fit(checkerboard().train)


def test_counts_users() -> None:
    rows = Interactions.from_pairs([("u", "a"), ("v", "a"), ("w", "a"), ("w", "c"), ("u", "b"), ("w", "b"), ("u", "a")])
    model = Popularity().fit(rows)
    scores = model.scores(Histories.of(["u", "nobody"], rows, rows.items))
    assert scores.tolist() == [[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]]


def test_an_earlier_fit_leaves_no_trace() -> None:
    model = Popularity().fit(checkerboard().train).fit(Interactions.from_pairs([("u", "a")]))
    assert model.items_.ids == ("a",)
    assert model.scores(history(["a"], model.items_)).tolist() == [[1.0]]


def test_no_rows() -> None:
    model = Popularity().fit(Interactions.empty())
    assert model.scores(history([], model.items_)).shape == (1, 0)
