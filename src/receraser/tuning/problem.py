"""`Problem`: what is searched, on which rows, by which metric. Two searches of one problem and seed try the same.

Outside ids end here, as they do at the engine's border: what is fitted and what is digested goes by pseudonyms.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from receraser import fingerprint
from receraser.config import EngineConfig, resolve
from receraser.data.ids import pseudonyms
from receraser.data.interactions import Interactions
from receraser.errors import DataError, UsageError
from receraser.keys import PUBLIC_KEY
from receraser.metrics import by_name
from receraser.tuning.defaults import default_space
from receraser.tuning.space import Axis, Space, checked, settings_of

__all__ = ["Problem"]


@dataclass(frozen=True, eq=False)
class Problem:
    """A search as a value.

    Attributes
    ----------
    train, valid
        Rows to fit on and rows to judge by; users by pseudonyms, no row in both.
    base
        A complete configuration: where the search starts, and what everything has that is not searched.
    space
        What is tried for each setting.
    metric
        What is to be as large as possible.
    """

    train: Interactions
    valid: Interactions
    base: EngineConfig
    space: Mapping[str, Axis]
    metric: str

    @classmethod
    def of(
        cls,
        train: Interactions,
        valid: Interactions,
        config: EngineConfig,
        *,
        space: Space | None = None,
        where: str = "the search space",
        parts: Collection[str] = ("model", "aggregation"),
        fixed: Collection[str] = (),
        metric: str = "ndcg@20",
        key: bytes = PUBLIC_KEY,
    ) -> Problem:
        """Check what was asked for.

        Parameters
        ----------
        train, valid
            By outside ids; a row in both stays in train.
        config
            Where the search starts; gaps in it are filled by the defaults.
        space, where
            What to search, and what errors call it; by default the space of these `parts` (`tuning.defaults`).
        fixed
            Settings that stay as they are in `config`, even if the space of their part has them.
        """
        by_name(metric)
        base = resolve(config)
        if base.partition_settings.get("embeddings") == "file":
            raise UsageError(
                "a search takes no vectors from a file; let a model make them: --set partition.embeddings=wmf"
            )
        known, held = (rows.rename_users(pseudonyms(rows.users, key)) for rows in (train, valid))
        held = held.without(known)
        if not any(user in known.users for user in held.users):
            raise DataError(
                f"none of the {len(held.users)} users of the validation rows has training rows: there is nobody to "
                "rank for (do both files name users in the same way?)"
            )
        searched = default_space(base, parts) if space is None else space
        if space is None:
            searched = {name: axis for name, axis in searched.items() if name not in fixed}
        _check_something_is_left(searched, fixed, base, where)
        return cls(known, held, base, checked(searched, base, where), metric)

    @cached_property
    def data_digest(self) -> str:
        """SHA-256 over the canonical content of both tables, users by pseudonyms."""
        return fingerprint.combine({"train": fingerprint.of_rows(self.train), "valid": fingerprint.of_rows(self.valid)})

    @property
    def start(self) -> dict[str, object]:
        """What the settings that are searched are where the search starts."""
        known = settings_of(self.base)
        return {name: known.get(name) for name in self.space}

    def described(self) -> dict[str, object]:
        """Return all that the trials depend on, as plain values."""
        return {
            "data": self.data_digest,
            "configuration": self.base.as_dict(),
            "space": {name: axis.as_dict() for name, axis in self.space.items()},
            "metric": self.metric,
        }


def _check_something_is_left(space: Space, fixed: Collection[str], base: EngineConfig, where: str) -> None:
    """Raise if a setting is both searched and given, or if there is nothing to search."""
    both = [name for name in space if name in fixed]
    if both:
        raise UsageError(f"{where}: {both[0]} is to be searched, and was also given a value; leave one of them out")
    if not space:
        raise UsageError(
            f"nothing is left to search of {base.model} with {base.partition} and {base.aggregation}; name "
            "settings in a file, and the file with --space"
        )
