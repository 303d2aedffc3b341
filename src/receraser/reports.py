"""What a forget or an add says of itself: rows, shards, and how long it takes about."""

from __future__ import annotations

from dataclasses import dataclass

from receraser.erasure.request import ForgetRequest

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
        The cheapest exact way there: "nothing", "downdate", "shards" or "refit" (`erasure.plan`).
    unknown
        The part of the request for which nothing was held; its users go by the ids they were asked for by.
    users_left_empty, items_left_empty
        Users and items that lost their last training row.
    estimated_seconds
        By the times of the last fit; None where there is nothing to go by.
    """

    rows_removed: int
    valid_rows_removed: int
    shards_retrained: tuple[int, ...]
    path: str
    unknown: ForgetRequest
    users_left_empty: int
    items_left_empty: int
    estimated_seconds: float | None


@dataclass(frozen=True)
class AddReport:
    """What an add did, or would do: rows that joined, rows that were held already, shards that retrained, the path."""

    rows_added: int
    rows_held: int
    valid_rows_moved: int
    shards_retrained: tuple[int, ...]
    path: str
    estimated_seconds: float | None
