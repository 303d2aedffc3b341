from __future__ import annotations

import numpy as np
import pytest
import torch

from receraser.aggregation.attention import Attention
from receraser.aggregation.learning import LinedUp, learn
from receraser.aggregation.static import Static
from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.errors import TrainingError
from receraser.models.bpr import BPR
from receraser.models.factors import FactorModel, Lesson
from receraser.models.wmf import WMF
from receraser.partition.hashed import Random
from tests.aggregation.test_mean import FIRST, ROWS, SECOND
from tests.contracts.worlds import random_rows, submodels_of

CPU = torch.device("cpu")


def lesson_of(rows: Interactions, valid: Interactions | None = None) -> Lesson:
    return Lesson(rows, valid, 1, CPU, None)


# ---------------------------------------------------------------------- lined up


def test_submodels_are_lined_up_by_id() -> None:
    users = LinedUp.users([FIRST, SECOND], lesson_of(ROWS))
    assert users.vectors.tolist() == [[[1, 2], [3, 0], [0, 0]], [[0, 0], [2, 2], [0, 1]]]
    assert users.absent.tolist() == [[False, False, True], [True, False, False]]
    items = LinedUp.items([FIRST, SECOND], lesson_of(ROWS))
    assert items.vectors.tolist() == [[[1, 1], [0, 4], [0, 0]], [[0, 0], [1, 0], [5, 1]]]
    assert items.absent.tolist() == [[False, False, True], [True, False, False]]


def test_a_shard_without_anybody() -> None:
    nothing = IdMap([]), np.zeros((0, 2), dtype=np.float32)
    found = LinedUp([nothing, (FIRST.users_, FIRST.user_vectors_)], ROWS.users, CPU)
    assert found.absent[0].all()
    assert not found.vectors[0].any()
    assert LinedUp([nothing], IdMap([]), CPU).vectors.shape == (1, 0, 2)


# ---------------------------------------------------------------------- learn


class Nothing:
    """Parameters that stand for the vectors themselves."""

    def __init__(self, rows: Interactions, dim: int = 4) -> None:
        rng = np.random.default_rng(1)
        self.parameters = {
            name: torch.from_numpy(rng.normal(size=(len(ids), dim)).astype(np.float32) * 0.1)
            for name, ids in (("p", rows.users), ("q", rows.items))
        }

    def vectors(self, users: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        p = self.parameters["p"]
        return p if users is None else p[users], self.parameters["q"]


def squares(parameters: object) -> torch.Tensor:
    assert isinstance(parameters, tuple)
    return torch.stack([one.square().sum() for one in parameters]).sum()


@pytest.mark.parametrize("model", [BPR(dim=4, batch_size=7, weight_decay=9.0, n_negatives=1), WMF(dim=4, batch_size=3)])
def test_batches_and_negatives_are_those_of_the_aggregation(
    model: FactorModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the base model's own penalty, its batches and its dropout are its own affair."""
    rows = random_rows(30, 20, 0.3, seed=1)
    seen: list[dict[str, object]] = []
    objective = type(model).objective

    def watched(self: FactorModel, *arguments: object, **more: object) -> object:
        seen.append(self.hyperparameters() | {"asked": more["dropout"], "penalised": more.get("penalised")})
        return objective(self, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(type(model), "objective", watched)
    settings = Static(n_epochs=1, batch_size=50, user_batch_size=11, n_negatives=3, dropout=0.2)
    network = Nothing(rows)
    learn(settings, model, lesson_of(rows), network.parameters, network.vectors, dim=4, norm=squares)
    (found,) = seen
    assert found["batch_size"] == (50 if model.pairwise else 11)
    assert found.get("n_negatives", 3) == 3
    assert (found["asked"], found["penalised"]) == (0.2, None)


def test_the_penalty_is_added_to_every_batch() -> None:
    rows = random_rows(30, 20, 0.3, seed=1)
    lengths = []
    for weight_decay in (0.0, 1.0, 100.0):
        network = Nothing(rows)
        settings = Attention(n_epochs=20, batch_size=50, weight_decay=weight_decay, dropout=0.0)
        learn(settings, BPR(dim=4), lesson_of(rows), network.parameters, network.vectors, dim=4, norm=squares)
        lengths.append(float(squares(tuple(network.parameters.values())).detach()))
    assert lengths[0] > 2 * lengths[1] > 2 * lengths[2]


@pytest.mark.parametrize("kind", [Attention, Static])
@pytest.mark.parametrize("model", [BPR(dim=4, n_epochs=1), WMF(dim=4, n_sweeps=1)])
def test_what_diverges_is_an_error(kind: type[Attention | Static], model: FactorModel) -> None:
    rows = random_rows(30, 20, 0.3, seed=1)
    submodels = submodels_of(model, rows, Random(n_shards=2).assign(rows, valid=None, seed=1))
    with pytest.raises(TrainingError, match="try a smaller learning_rate"):
        kind(n_epochs=3, learning_rate=1e30, optimizer="adam").fit(submodels, rows, valid=None, seed=1)


def test_parameters_that_are_no_number_at_the_end_are_an_error() -> None:
    """The last step of all may be the one that goes too far, after the last loss was looked at."""
    rows = random_rows(5, 5, 0.5, seed=1)
    network = Nothing(rows)
    network.parameters["unused"] = torch.tensor([float("nan")])
    settings = Static(n_epochs=0)
    with pytest.raises(TrainingError, match="the aggregation's unused is no number"):
        learn(settings, BPR(dim=4), lesson_of(rows), network.parameters, network.vectors, dim=4, norm=squares)
