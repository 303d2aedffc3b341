"""What do the files hold, and which digest does that give? Computed anew from rows, assignment, settings and weights.

Written apart from the engine (`state.State.digest` and `store.snapshot`), which needs torch and believes more: here a
file holds what it is there for and nothing beside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from receraser import fingerprint
from receraser.data.interactions import Interactions
from receraser.errors import ProofError, ReceraserError
from receraser.partition.partition import Landmarks
from receraser.proof.manifest import Manifest, ShardEntry
from receraser.store.encoding import decode_landmarks, decode_rows, decode_tensors, decode_titles
from receraser.verify.names import ADDITIVE

__all__ = ["UNFIT", "Content", "recompute"]

T = TypeVar("T")
Get = Callable[[str], bytes]

# What reading something that somebody has made up may raise.
UNFIT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, NotImplementedError, OSError)

_ROWS = partial(decode_rows, exact=True)
_TENSORS = partial(decode_tensors, exact=True)
_LANDMARKS = partial(decode_landmarks, exact=True)
_TITLES = partial(decode_titles, exact=True)


@dataclass(frozen=True, eq=False)
class Content:
    """What a store holds, by its own files.

    Attributes
    ----------
    train, valid, landmarks, titles, wishes
        As the files have them; rows of all shards together.
    digest, data
        Of everything, and of the rows alone.
    faults
        Where the manifest says something else.
    """

    train: Interactions
    valid: Interactions | None
    landmarks: Landmarks | None
    titles: Mapping[str, str]
    wishes: Interactions
    digest: str
    data: str
    faults: Sequence[str]


def recompute(manifest: Manifest, get: Get) -> Content:
    """Read every file that a manifest names, and compute what it should say; what cannot be read is a `ProofError`."""
    shards, digests, of_rows, faults = [], {}, {}, []
    for number, listed in enumerate(manifest["shards"]):
        name = f"shard {number}"
        rows, of_rows[name], digests[name], wrong = _shard(manifest, number, listed, get)
        shards.append(rows)
        faults += wrong
    held = [valid for _, valid in shards if valid is not None]
    if held and len(held) < len(shards):
        raise ProofError(f"validation rows in {len(held)} shards of {len(shards)}; expected them in all or none")
    train = _joined([rows for rows, _ in shards], "train")
    valid = _joined(held, "valid") if held else None
    landmarks = _read(manifest["landmarks"], "the landmarks", get, _LANDMARKS)
    learned = {name: fingerprint.of_tensors({name: one}) for name, one in _aggregate(manifest, get).items()}
    parts = {
        "config": fingerprint.of_settings(manifest["config"]),
        "aggregate": fingerprint.combine(learned),
        "landmarks": _of_landmarks(landmarks),
    }
    digest = fingerprint.combine(parts | digests)
    if digest != manifest["digest"]:
        faults.append(f"the files give the digest {digest}; the manifest says {manifest['digest']}")
    titles = _read(manifest["titles"], "the titles", get, _TITLES) or {}
    wishes = _read(manifest["wishes"], "the wishes", get, _ROWS) or Interactions.empty()
    return Content(train, valid, landmarks, titles, wishes, digest, fingerprint.combine(of_rows), faults)


def _shard(
    manifest: Manifest, number: int, listed: ShardEntry, get: Get
) -> tuple[tuple[Interactions, Interactions | None], str, str, list[str]]:
    """Return the rows of one shard, their digest and the shard's, and what is said of it otherwise."""
    files, config = listed["files"], manifest["config"]
    train = _read(files["train"], f"the training rows of shard {number}", get, _ROWS)
    valid = _read(files["valid"], f"the validation rows of shard {number}", get, _ROWS)
    weights = _read(files["weights"], f"the weights of shard {number}", get, _TENSORS)
    assert train is not None  # the manifest's form has been checked
    assert weights is not None
    own = dict(config["hyperparameters"])  # type: ignore[call-overload]
    if config["model"] not in ADDITIVE:
        own["device"] = config["device"]
    settings = {"model": config["model"], "hyperparameters": own, "seed": config["seed"]}
    of_valid = "none" if valid is None else fingerprint.of_rows(valid)
    of_rows = fingerprint.combine({"train": fingerprint.of_rows(train), "valid": of_valid})
    digest = fingerprint.combine(
        {
            "settings": fingerprint.of_settings(settings),
            "rows": of_rows,
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
    return (train, valid), of_rows, digest, wrong


def _joined(tables: Sequence[Interactions], what: str) -> Interactions:
    """Return the rows of all shards as one table."""
    try:
        return Interactions.joined(tables)[0]
    except ValueError as error:
        raise ProofError(f"the {what} rows of the shards make no table: {error}") from None


def _of_landmarks(landmarks: Landmarks | None) -> str:
    if landmarks is None:
        return "none"
    ids = fingerprint.of_settings({"ids": list(landmarks.ids)})
    return fingerprint.combine({"vectors": fingerprint.of_tensors(landmarks.tensors()), "ids": ids})


def _aggregate(manifest: Manifest, get: Get) -> fingerprint.Tensors:
    """Return what the aggregation learned: one file a tensor, and that tensor alone in it."""
    found: dict[str, NDArray[np.generic]] = {}
    for name, file in manifest["aggregate"]["files"].items():
        tensors = _read(str(file), f"the aggregate's {name}", get, _TENSORS) or {}
        if list(tensors) != [name]:
            raise ProofError(f"files/{file} holds {', '.join(tensors) or 'nothing'}; expected {name} alone")
        found |= tensors
    return found


def _read(name: str | None, what: str, get: Get, decode: Callable[[bytes], T]) -> T | None:
    """Return what is in a file, None where there is none; whatever else is in it is an error that names it."""
    if name is None:
        return None
    data = get(name)
    try:
        return decode(data)
    except (*UNFIT, ReceraserError) as error:
        raise ProofError(f"{what} (files/{name}) cannot be read: {error or type(error).__name__}") from None
