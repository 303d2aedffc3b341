"""What every `Scorer` must do. Subclass it, call the class Test..., and say how to get one."""

from __future__ import annotations

import numpy as np
import torch

from receraser.data.interactions import Histories
from receraser.protocols import Scorer
from tests.contracts.worlds import batch, checkerboard, history


class ScorerContract:
    """A scorer of the checkerboard."""

    def scorer(self) -> Scorer:
        """Return a scorer fitted on the training rows of the checkerboard."""
        raise NotImplementedError

    def people(self, scorer: Scorer) -> list[Histories]:
        """Users who were fitted, strangers with items, and one nobody knows anything about."""
        train = checkerboard().train
        known = [Histories.of([name], train, scorer.items_) for name in train.users]
        strangers = [history(items, scorer.items_) for items in (["i00"], ["i01", "i03"], train.items.ids, [])]
        return [*known, *strangers]

    def test_is_a_scorer(self) -> None:
        assert isinstance(self.scorer(), Scorer)

    def test_scores_every_item_for_every_user(self) -> None:
        scorer = self.scorer()
        assert scorer.items_ == checkerboard().train.items
        people = self.people(scorer)
        scores = scorer.scores(batch(people))
        assert scores.shape == (len(people), len(scorer.items_))
        assert scores.dtype == torch.float32
        assert torch.isfinite(scores).all()

    def test_a_row_does_not_depend_on_who_else_is_in_the_batch(self) -> None:
        """Alone, in whatever place of a batch, in a batch of several blocks: the same bits."""
        scorer = self.scorer()
        people = self.people(scorer)
        alone = torch.cat([scorer.scores(one) for one in people])
        generator = np.random.default_rng(1)
        for size in (2, 63, 64, 65, 150):
            chosen = generator.integers(len(people), size=size)
            together = scorer.scores(batch([people[i] for i in chosen]))
            assert torch.equal(together, alone[torch.from_numpy(chosen)]), f"a batch of {size}"

    def test_nobody_to_score(self) -> None:
        scorer = self.scorer()
        assert scorer.scores(Histories.from_lists([], [])).shape == (0, len(scorer.items_))

    def test_asking_changes_nothing(self) -> None:
        scorer = self.scorer()
        people = batch(self.people(scorer))
        first = scorer.scores(people).clone()
        assert torch.equal(scorer.scores(people), first)
