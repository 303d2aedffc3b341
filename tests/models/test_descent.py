from __future__ import annotations

import numpy as np
import torch

from receraser.data.interactions import Interactions
from receraser.evaluation import SCORE_BLOCK, evaluate
from receraser.models.descent import Validation
from tests.contracts.worlds import checkerboard, random_rows
from tests.models.test_factors import ROWS, Fixed


def test_validation_is_the_evaluation_of_the_same_vectors() -> None:
    world = checkerboard()
    held = Interactions.union([world.held_out, Interactions.from_pairs([("nobody", "i00"), ("u00", "nothing")])])
    rng = np.random.default_rng(1)
    p, q = (rng.normal(size=(len(ids), 3)).astype(np.float32) for ids in (world.train.users, world.train.items))
    model = Fixed(dim=3).load_state(world.train.users, world.train.items, {"user_vectors": p, "item_vectors": q})
    validation = Validation(world.train, held, torch.device("cpu"))
    assert validation
    expected = evaluate(model, world.train, held, at=(20,)).metrics["ndcg@20"]
    for _ in range(2):  # asking twice asks the same
        assert validation(torch.from_numpy(p), torch.from_numpy(q)) == expected
    assert 0 < expected < 1


def test_validation_over_several_blocks_keeps_users_and_rows_together() -> None:
    rows = random_rows(3 * SCORE_BLOCK, 30, 0.3, seed=1)
    held = random_rows(3 * SCORE_BLOCK, 30, 0.1, seed=2).without(rows)
    p = rows.matrix().toarray() @ np.eye(30)  # a user's vector: what they have; an item's: who has it
    rng = np.random.default_rng(1)
    q = rng.normal(size=(30, 30)).astype(np.float32)
    model = Fixed(dim=30).load_state(rows.users, rows.items, {"user_vectors": p, "item_vectors": q})
    validation = Validation(rows, held, torch.device("cpu"))
    found = validation(torch.from_numpy(p.astype(np.float32)), torch.from_numpy(q))
    assert found == evaluate(model, rows, held, at=(20,)).metrics["ndcg@20"]


def test_validation_without_anybody_to_rank_for() -> None:
    assert not Validation(ROWS, Interactions.from_pairs([("nobody", "a")]), torch.device("cpu"))
    assert not Validation(ROWS, Interactions.empty(), torch.device("cpu"))
