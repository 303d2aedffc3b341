"""WMF: weighted matrix factorisation, squared loss over all pairs. Hu et al. 2008.

Two solvers for two closely related objectives. "als" (the default): alternating least squares in closed form with a
penalty that grows with the number of rows (Rendle et al. 2022). "adagrad": the paper's, mini-batches of users on the
non-sampling objective of Chen et al. 2020, with dropout on the user's vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from receraser import settings
from receraser.data.interactions import Interactions
from receraser.models.descent import descend
from receraser.models.factors import FactorModel, Learned, Lesson, initial_vectors
from receraser.models.objectives import NonSampling, Vectors
from receraser.protocols import Progress
from receraser.training.least_squares import Problem, pad
from receraser.training.loop import Descent, Objective
from receraser.training.optimizers import Adagrad
from receraser.training.sparse import gather

__all__ = ["WMF"]


@dataclass(kw_only=True)
class WMF(FactorModel):
    """Weighted matrix factorisation.

    Parameters
    ----------
    solver
        "als" or "adagrad".
    missing_weight
        The weight of a pair that is not among the rows; a row has weight 1. Sparse data wants a smaller one.
    regularization, n_sweeps, cg_steps
        For "als": strength of the penalty, sweeps over both sides, conjugate-gradient steps per solve.
    n_epochs, batch_size, learning_rate, dropout, patience, validate_every
        For "adagrad": see `training.loop`; `batch_size` counts users.

    Examples
    --------
    >>> rows = Interactions.from_pairs([("u1", "a"), ("u1", "b"), ("u2", "a"), ("u2", "b"), ("u3", "c")])
    >>> WMF(dim=4).fit(rows, seed=1).item_vectors_.shape
    (3, 4)
    """

    name: ClassVar[str] = "wmf"

    solver: str = "als"
    missing_weight: float = 0.2
    regularization: float = 0.01
    n_sweeps: int = 8
    cg_steps: int = 2
    n_epochs: int = 200
    batch_size: int = 512
    learning_rate: float = 0.05
    dropout: float = 0.3
    patience: int = 10
    validate_every: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        settings.check(self, less_than_one=["dropout"], choices={"solver": ("als", "adagrad")})

    def _learn(self, lesson: Lesson) -> Learned:
        """Run the fixed number of sweeps ("als"), or descend and perhaps stop early by validation ("adagrad")."""
        rows, device = lesson.rows, lesson.device
        users, items = (
            initial_vectors(ids, self.dim, 0.1 / self.dim**0.5, lesson.seed, what)
            for ids, what in ((rows.users, "user"), (rows.items, "item"))
        )
        if self.solver == "als":
            p, q = self._alternate(rows, pad(users, device), pad(items, device), lesson.progress)
            return p, q, {"sweeps": self.n_sweeps}
        p, q = torch.from_numpy(users).to(device), torch.from_numpy(items).to(device)

        def vectors(users: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
            return p if users is None else gather(p, users), q

        objective = self.objective(rows, lesson.seed, parameters=(p, q), vectors=vectors)
        optimizer = Adagrad(objective.parameters, self.learning_rate)
        return p, q, descend(self, Descent(objective, optimizer), lesson, vectors=vectors)

    def _alternate(
        self, rows: Interactions, p: torch.Tensor, q: torch.Tensor, progress: Progress | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Sweep: items given users, then users given items, so that the users fit the published items."""
        matrix = rows.matrix()
        weights = {"missing_weight": self.missing_weight, "regularization": self.regularization}
        of_users = Problem(matrix, device=p.device, **weights)
        of_items = Problem(matrix.T.tocsr(), device=p.device, **weights)
        for sweep in range(self.n_sweeps):
            q = of_items.solve(p, q, cg_steps=self.cg_steps)
            p = of_users.solve(q, p, cg_steps=self.cg_steps)
            if progress is not None:
                progress("sweeps", sweep + 1, self.n_sweeps)
        return p, q

    def objective(
        self,
        rows: Interactions,
        seed: int,
        *,
        parameters: Sequence[torch.Tensor],
        vectors: Vectors,
        penalised: tuple[torch.Tensor, torch.Tensor] | None = None,  # noqa: ARG002 - this loss has no penalty
        dropout: float | None = None,
        user_parts: int = 0,  # noqa: ARG002 - batches are of whole users anyway
    ) -> Objective:
        """Return the non-sampling loss of these rows; by default with the model's own dropout."""
        return NonSampling(
            rows,
            batch_size=self.batch_size,
            seed=seed,
            missing_weight=self.missing_weight,
            dropout=self.dropout if dropout is None else dropout,
            dim=self.dim,
            parameters=parameters,
            vectors=vectors,
        )

    def fold_in_settings(self) -> tuple[float, float]:
        """Return (missing_weight, regularization) for a stranger's vector: those of the solver."""
        return self.missing_weight, self.regularization
