"""A small world in which settings matter: three tastes, and noise."""

from __future__ import annotations

from random import Random

from receraser.config import EngineConfig
from receraser.data.interactions import Interactions
from receraser.data.splits import Split, random_split
from receraser.tuning import Choice, Problem, Range
from receraser.tuning.space import Axis

WMF = EngineConfig(method="retrain", model="wmf", device="cpu", seed=7, hyperparameters={"dim": 8, "n_sweeps": 2})
SPECTRAL = EngineConfig(
    method="spectral",
    model="wmf",
    shards=2,
    device="cpu",
    hyperparameters={"dim": 4, "n_sweeps": 2},
    aggregation_settings={"rank": 4, "width": 8},
)


def tastes(n_users: int = 30, n_items: int = 24) -> Split:
    """People take mostly the items of their own kind; a fifth is held out, half of it for testing."""
    draw = Random(7)
    pairs = [
        (f"u{user:02}", f"i{item:02}")
        for user in range(n_users)
        for item in range(n_items)
        if draw.random() < (0.7 if user % 3 == item % 3 else 0.12)
    ]
    return random_split(Interactions.from_pairs(pairs), test=0.1, valid=0.2, seed=1)


def wmf_problem(**changes: object) -> Problem:
    """WMF, two settings to search."""
    rows = tastes()
    space = {"missing_weight": Range(0.01, 1, log=True), "n_sweeps": Choice((1, 2, 4))}
    given: dict[str, object] = {"space": space, "metric": "ndcg@5"}
    return Problem.of(rows.train, rows.valid, WMF, **(given | changes))  # type: ignore[arg-type]


def spectral_problem() -> Problem:
    """Two shards, merged; settings of the aggregation alone."""
    rows = tastes()
    space: dict[str, Axis] = {
        "aggregation.merge": Choice(("concat", "product")),
        "aggregation.missing_weight": Range(0.01, 1.0, log=True),
        "aggregation.regularization": Range(0.001, 0.1, log=True),
    }
    return Problem.of(rows.train, rows.valid, SPECTRAL, space=space, metric="ndcg@5")
