"""The content of a store computed anew from its files: rows, assignment, weights, and the digest over all of them.

Written apart from the engine (`state.State.digest` and `store.snapshot`), which needs torch and believes more: here a
table holds two columns, every id of a vocabulary is used, no row stands twice, and a file holds nothing beside.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from receraser import fingerprint
from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.errors import ProofError, ReceraserError
from receraser.partition.partition import Landmarks, Partition
from receraser.store.encoding import decode_landmarks, decode_tensors
from receraser.verify.evidence import Manifest, ShardEntry
from receraser.verify.names import ADDITIVE

__all__ = ["UNFIT", "Content", "Get", "read_rows", "recompute", "roles"]

T = TypeVar("T")
Get = Callable[[str], bytes]

# What reading something that somebody has made up may raise.
UNFIT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, NotImplementedError, OSError)


@dataclass(frozen=True, eq=False)
class Content:
    """What a store holds, by its own files.

    Attributes
    ----------
    shards
        The training and validation rows of every shard.
    train, valid
        All of them.
    landmarks, titles, wishes
        As the files have them.
    digest, data
        Of everything, and of the rows alone.
    faults
        Where the manifest says something else.
    """

    shards: Sequence[tuple[Interactions, Interactions | None]]
    train: Interactions
    valid: Interactions | None
    landmarks: Landmarks | None
    titles: Mapping[str, str]
    wishes: Interactions
    digest: str
    data: str
    faults: list[str] = field(default_factory=list)


def recompute(manifest: Manifest, get: Get) -> Content:
    """Read every file that a manifest names, and compute what it should say.

    Raises
    ------
    ProofError
        If a file cannot be read as what it should be.
    """
    shards, digests, faults = [], {}, []
    for number, listed in enumerate(manifest["shards"]):
        rows, digest, wrong = _shard(manifest, number, listed, get)
        shards.append(rows)
        digests[f"shard {number}"] = digest
        faults += wrong
    held = [valid for _, valid in shards if valid is not None]
    if held and len(held) < len(shards):
        raise ProofError(f"validation rows in {len(held)} shards of {len(shards)}; expected them in all or none")
    train, of_train = _union([rows for rows, _ in shards], "train")
    valid, of_valid = _union(held, "valid") if held else (None, None)
    landmarks = None
    if manifest["landmarks"] is not None:
        with_marks = _read(manifest["landmarks"], "the landmarks", get, _landmarks)
        landmarks = Partition(len(shards), of_train, of_valid, with_marks).landmarks
    of_rows = {"train": fingerprint.of_rows(train), "valid": "none" if valid is None else fingerprint.of_rows(valid)}
    parts = {
        "config": fingerprint.of_settings(manifest["config"]),
        "aggregate": fingerprint.of_tensors(_aggregate(manifest, get)),
        "assignment": _assignment(of_train, of_valid, landmarks),
    }
    digest = fingerprint.combine(parts | of_rows | digests)
    if digest != manifest["digest"]:
        faults.append(f"the files give the digest {digest}; the manifest says {manifest['digest']}")
    titles, wishes = manifest["titles"], manifest["wishes"]
    return Content(
        shards,
        train,
        valid,
        landmarks,
        {} if titles is None else _read(titles, "the titles", get, _titles),
        Interactions.empty() if wishes is None else _read(wishes, "the wishes", get, read_rows),
        digest,
        fingerprint.combine(of_rows),
        faults,
    )


def _shard(
    manifest: Manifest, number: int, listed: ShardEntry, get: Get
) -> tuple[tuple[Interactions, Interactions | None], str, list[str]]:
    """Return the rows and the digest of one shard, and what is said of it otherwise."""
    files = listed["files"]
    train = _read(files["train"], f"the training rows of shard {number}", get, read_rows)
    valid = None
    if files["valid"] is not None:
        valid = _read(files["valid"], f"the validation rows of shard {number}", get, read_rows)
    weights = _read(files["weights"], f"the weights of shard {number}", get, _tensors)
    config = manifest["config"]
    own = dict(config["hyperparameters"])  # type: ignore[call-overload]
    if config["model"] not in ADDITIVE:
        own["device"] = config["device"]
    settings = {"model": config["model"], "hyperparameters": own, "seed": config["seed"]}
    digest = fingerprint.combine(
        {
            "settings": fingerprint.of_settings(settings),
            "train": fingerprint.of_rows(train),
            "valid": "none" if valid is None else fingerprint.of_rows(valid),
            "weights": fingerprint.of_tensors(weights),
        }
    )
    found = {"id": number, "rows": len(train), "users": len(train.users), "items": len(train.items), "digest": digest}
    said: Mapping[str, object] = {name: listed[name] for name in found}  # type: ignore[literal-required]
    wrong = [
        f"shard {number}: the files give {name} {value}, the manifest says {said[name]}"
        for name, value in found.items()
        if said[name] != value
    ]
    return (train, valid), digest, wrong


def _union(tables: Sequence[Interactions], what: str) -> tuple[Interactions, NDArray[np.int32]]:
    """Return the rows of all shards as one table, and the shard of each."""
    users = np.cumsum([0, *(len(table.users) for table in tables)])
    items = np.cumsum([0, *(len(table.items) for table in tables)])
    try:
        return Interactions.labelled(
            [name for table in tables for name in table.users],
            [name for table in tables for name in table.items],
            np.concatenate([table.user_index + users[k] for k, table in enumerate(tables)] or [np.empty(0, np.int32)]),
            np.concatenate([table.item_index + items[k] for k, table in enumerate(tables)] or [np.empty(0, np.int32)]),
            np.repeat(np.arange(len(tables), dtype=np.int32), [len(table) for table in tables]),
        )
    except ValueError as error:
        raise ProofError(f"the {what} rows of the shards make no table: {error}") from None


def _assignment(train: NDArray[np.int32], valid: NDArray[np.int32] | None, landmarks: Landmarks | None) -> str:
    shards = {"train": train} | ({} if valid is None else {"valid": valid})
    parts = {"shards": fingerprint.of_tensors(shards)}
    if landmarks is not None:
        parts["landmarks"] = fingerprint.of_tensors(landmarks.tensors())
        parts["landmark ids"] = fingerprint.of_settings({"ids": list(landmarks.ids)})
    return fingerprint.combine(parts)


def _aggregate(manifest: Manifest, get: Get) -> fingerprint.Tensors:
    """Return what the aggregation learned: one file a tensor, and that tensor alone in it."""
    found: dict[str, NDArray[np.generic]] = {}
    for name, file in manifest["aggregate"]["files"].items():
        tensors = _read(str(file), f"the aggregate's {name}", get, _tensors)
        if list(tensors) != [name]:
            raise ProofError(f"files/{file} holds {', '.join(tensors) or 'nothing'}; expected {name} alone")
        found |= tensors
    return found


def roles(manifest: Manifest) -> dict[str, str]:
    """Return what each file is there for, by its name."""
    found: dict[str, str] = {}
    for number, listed in enumerate(manifest["shards"]):
        for part, what in (("train", "training rows"), ("valid", "validation rows"), ("weights", "weights")):
            if (name := listed["files"][part]) is not None:
                found.setdefault(name, f"the {what} of shard {number}")
    for part, file in manifest["aggregate"]["files"].items():
        found.setdefault(str(file), f"the aggregate's {part}")
    for file, what in (
        (manifest["landmarks"], "the landmarks"),
        (manifest["titles"], "the titles"),
        (manifest["wishes"], "the wishes"),
    ):
        if file is not None:
            found.setdefault(file, what)
    return found


# ---------------------------------------------------------------------- files


def _read(name: str | None, what: str, get: Get, decode: Callable[[bytes], T]) -> T:
    """Return what is in a file; whatever else is in it is an error that names it."""
    assert name is not None
    data = get(name)
    try:
        return decode(data)
    except (*UNFIT, ReceraserError) as error:
        raise ProofError(f"{what} (files/{name}) cannot be read: {error or type(error).__name__}") from None


def _strings(data: bytes, columns: Sequence[str]):  # type: ignore[no-untyped-def]
    """Return a Parquet table of exactly these columns and nothing beside them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(pa.BufferReader(data)) as file:
        more = set(file.metadata.metadata or {}) - {b"ARROW:schema"}
        if file.schema_arrow.names != list(columns) or more or file.schema_arrow.metadata:
            found = ", ".join([*file.schema_arrow.names, *(one.decode(errors="replace") for one in sorted(more))])
            raise ValueError(f"it holds {found or 'no column'}; expected {', '.join(columns)} and nothing else")
        return file.read(use_threads=False)


def read_rows(data: bytes) -> Interactions:
    """Return a table of rows; an id that no row has, or a row that stands twice, is refused."""
    table = _strings(data, ("user", "item"))
    parts = []
    for name in ("user", "item"):
        encoded = table.column(name).unify_dictionaries().combine_chunks()
        if encoded.null_count or encoded.dictionary.null_count:
            raise ValueError(f"a {name} is missing")
        parts.append((encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)))
    (users, user_index), (items, item_index) = parts
    if users == sorted(set(users)) and items == sorted(set(items)):
        ids = IdMap.ascending(users), IdMap.ascending(items)
        with contextlib.suppress(ValueError):  # else in another order than ours, or worse
            return Interactions(*ids, user_index.astype(np.int32), item_index.astype(np.int32))
    made = Interactions.from_indices(users, items, user_index, item_index)
    if (len(made.users), len(made.items)) != (len(users), len(items)):
        raise ValueError("its dictionary holds an id that no row has, or one twice")
    if len(made) != len(user_index):
        raise ValueError("a row stands twice")
    return made


def _titles(data: bytes) -> dict[str, str]:
    table = _strings(data, ("item", "title"))
    titles = dict(zip(table.column("item").to_pylist(), table.column("title").to_pylist(), strict=True))
    if len(titles) != len(table) or None in titles or None in titles.values():
        raise ValueError("an item stands twice, or has no title")
    return titles


def _tensors(data: bytes) -> fingerprint.Tensors:
    size = int.from_bytes(data[:8], "little")
    if "__metadata__" in json.loads(data[8 : 8 + size]):
        raise ValueError("it holds metadata; expected tensors and nothing else")
    return decode_tensors(data)


def _landmarks(data: bytes) -> Landmarks:
    arrays, made = _tensors(data), decode_landmarks(data)
    ids = "\n".join(made.ids).encode()
    if (
        set(arrays) != {"anchors", "ids", "vectors"}
        or arrays["ids"].tobytes() != ids
        or len(made.vectors) != len(made.ids)
    ):
        raise ValueError("expected anchors, and one vector for each id, the ids in order")
    return made
