"""A model that needs torch, and is a pure function of rows, hyperparameters and seed."""

from __future__ import annotations

import torch

from receraser.models.foreign import Rows


class Descent:
    """A few steps of gradient descent, on whatever device."""

    def __init__(self, dim: int = 4, steps: int = 5, device: str = "cpu") -> None:
        self.dim, self.steps, self.device = dim, steps, device

    def fit(self, rows: Rows, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        drawn = torch.Generator().manual_seed(seed)
        tables = [
            (torch.randn((len(ids), self.dim), generator=drawn) * 0.1).to(self.device).requires_grad_()
            for ids in (rows.users, rows.items)
        ]
        user, item = (torch.from_numpy(index).long().to(self.device) for index in (rows.user_index, rows.item_index))
        optimizer = torch.optim.Adam(tables, lr=0.05)
        for _ in range(self.steps):
            optimizer.zero_grad()
            scores = (tables[0][user] * tables[1][item]).sum(dim=1)
            loss = torch.nn.functional.softplus(-scores).mean() + 0.01 * (tables[0] @ tables[1].T).square().mean()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return tables[0], tables[1]
