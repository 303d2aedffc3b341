"""`Snapshot`: everything a store holds, as values; and how it becomes files and a manifest, and values again.

Rows lie in the store shard by shard, so that one shard can be replaced without touching the others; the whole table is
their union.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from receraser.config import EngineConfig
from receraser.data.interactions import Interactions
from receraser.errors import StoreError
from receraser.fingerprint import Tensors
from receraser.partition.partition import Partition
from receraser.store.directory import DirectoryStore
from receraser.store.encoding import (
    decode_rows,
    decode_tensors,
    decode_titles,
    encode_rows,
    encode_tensors,
    encode_titles,
)

__all__ = ["Snapshot", "read_snapshot", "write_snapshot"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A fitted engine as values."""

    config: EngineConfig
    digest: str
    level: str
    key_check: str
    public_key: bool
    train: Interactions
    valid: Interactions | None
    partition: Partition
    weights: Sequence[Tensors]
    aggregate: Tensors
    shards: Sequence[Mapping[str, object]]
    titles: Mapping[str, str]
    facts: Sequence[Mapping[str, object]]
    environment: Mapping[str, object]

    def check_digest(self, found: str) -> None:
        """Raise unless the digest computed from the content is the one in the manifest."""
        if found != self.digest:
            raise StoreError(
                f"the store's content does not give the digest in its manifest ({found[:12]}..., expected "
                f"{self.digest[:12]}...): it was changed, or written by another version; fit it again"
            )


def write_snapshot(store: DirectoryStore, snapshot: Snapshot, *, replace: bool) -> None:
    """Publish a snapshot as the content of a store."""
    store.check_free(replace=replace)
    with store.writing():
        store.check_free(replace=replace)  # again, now that nobody else can write
        sizes: dict[str, int] = {}

        def put(data: bytes) -> str:
            name = store.put(data)
            sizes[name] = len(data)
            return name

        shards = []
        cut = snapshot.partition.shards(snapshot.train, snapshot.valid)
        for shard, weights, report, facts in zip(cut, snapshot.weights, snapshot.shards, snapshot.facts, strict=True):
            files = {
                "train": put(encode_rows(shard.train)),
                "valid": None if shard.valid is None else put(encode_rows(shard.valid)),
                "weights": put(encode_tensors(weights)),
            }
            shards.append({**report, "files": files, "facts": dict(facts)})
        store.commit(
            {
                "config": snapshot.config.as_dict(),
                "digest": snapshot.digest,
                "level": snapshot.level,
                "pseudonyms": {"key_check": snapshot.key_check, "public_key": snapshot.public_key},
                "shards": shards,
                "aggregate": put(encode_tensors(snapshot.aggregate)) if snapshot.aggregate else None,
                "titles": put(encode_titles(snapshot.titles)) if snapshot.titles else None,
                "environment": dict(snapshot.environment),
                "files": sizes,
            }
        )


def read_snapshot(store: DirectoryStore) -> Snapshot:
    """Read a store back; every file is checked against its name."""
    manifest = store.manifest()
    while True:
        try:
            return _snapshot(store, manifest)
        except StoreError:
            newer = store.manifest()
            if newer == manifest:
                raise
            manifest = newer  # somebody published meanwhile, and destroyed what we were reading
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"{type(error).__name__} {error}"
            raise StoreError(
                f"the store in {store.path} cannot be read: its manifest does not fit ({reason})"
            ) from None


def _snapshot(store: DirectoryStore, manifest: Mapping[str, object]) -> Snapshot:
    sizes = _typed(manifest, "files", dict)
    unread = set(sizes)

    def get(name: str) -> bytes:
        data = store.get(name)
        if sizes[name] != len(data):
            raise ValueError(f"the size of {name}")
        unread.discard(name)
        return data

    shards: list[Mapping[str, object]] = _typed(manifest, "shards", list)
    files = [_typed(shard, "files", dict) for shard in shards]
    pseudonyms = _typed(manifest, "pseudonyms", dict)
    train, of_train = _union([decode_rows(get(one["train"])) for one in files])
    valid, of_valid = None, None
    if all(one["valid"] is not None for one in files):
        valid, of_valid = _union([decode_rows(get(one["valid"])) for one in files])
    weights = [decode_tensors(get(one["weights"])) for one in files]
    learned = {} if manifest["aggregate"] is None else decode_tensors(get(_typed(manifest, "aggregate", str)))
    titles = {} if manifest["titles"] is None else decode_titles(get(_typed(manifest, "titles", str)))
    if unread:
        raise ValueError("files that nothing refers to")
    return Snapshot(
        config=EngineConfig(**_typed(manifest, "config", dict)),
        digest=_typed(manifest, "digest", str),
        level=_typed(manifest, "level", str),
        key_check=_typed(pseudonyms, "key_check", str),
        public_key=_typed(pseudonyms, "public_key", bool),
        train=train,
        valid=valid,
        partition=Partition(len(shards), of_train, of_valid),
        weights=weights,
        aggregate=learned,
        shards=[{key: shard[key] for key in ("id", "rows", "users", "items", "digest")} for shard in shards],
        titles=titles,
        facts=[_typed(shard, "facts", dict) for shard in shards],
        environment=_typed(manifest, "environment", dict),
    )


def _typed(values: Mapping[str, object], key: str, kind: type[T]) -> T:
    """Return a value of the manifest, which must be of this type."""
    value = values[key]
    if not isinstance(value, kind):
        raise TypeError(f"{key} is {value!r}")
    return value


def _union(tables: Sequence[Interactions]) -> tuple[Interactions, NDArray[np.int32]]:
    """Return the rows of all shards as one table, and the shard of each of its rows."""
    whole = Interactions.union(tables)
    shard = np.zeros(len(whole), dtype=np.int32)
    for k, table in enumerate(tables):
        shard[whole.positions(table)] = k
    return whole, shard
