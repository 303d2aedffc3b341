"""What a forget or an add says of itself: rows, shards, and how long it takes about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from receraser.erasure.request import ForgetRequest
from receraser.proof.receipt import Receipt

__all__ = ["AddReport", "ForgetReport"]


@dataclass(frozen=True)
class ForgetReport:
    """What a forget did, or would do.

    Attributes
    ----------
    rows_removed, valid_rows_removed
        Training and validation rows that are gone.
    shards_retrained
        The shards that held them.
    path
        The cheapest exact way there: "nothing", "downdate", "core", "shards" or "refit" (`erasure.plan`).
    unknown
        The part of the request for which nothing was held; its users go by the ids they were asked for by.
    users_left_empty, items_left_empty
        Users and items that lost their last training row.
    estimated_seconds
        By the times of the last fit; None where there is nothing to go by.
    certificate, receipts
        Of a change to a store whose keys were at hand: the certificate's file, and for whoever asked, what opens their
        part of it (drawn before the work: `Engine.forget_request` hands them over then).
    """

    rows_removed: int
    valid_rows_removed: int
    shards_retrained: tuple[int, ...]
    path: str
    unknown: ForgetRequest
    users_left_empty: int
    items_left_empty: int
    estimated_seconds: float | None
    certificate: Path | None = None
    receipts: Sequence[Receipt] = field(default=(), repr=False)


@dataclass(frozen=True)
class AddReport:
    """What an add did, or would do: rows that joined, rows that were held already, shards that retrained, the path.

    `certificate`: its file, where the store's keys were at hand.
    """

    rows_added: int
    rows_held: int
    valid_rows_moved: int
    shards_retrained: tuple[int, ...]
    path: str
    estimated_seconds: float | None
    certificate: Path | None = None
