"""An export: what a fresh fit needs, and nothing that was learned. Another process makes the same state of it.

::

    EXPORT/
      export.json             configuration, how to recognise the key of the pseudonyms, the SHA-256 of every file
      train.parquet           user, item, shard: the surviving rows; users go by pseudonyms and are not hashed again
      valid.parquet           the same for validation rows, if there are any
      landmarks.safetensors   for a partition that looks at the data: by what newcomers find their shard
      titles.parquet          titles of the items, if there are any
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from receraser.config import EngineConfig, check_parts
from receraser.data.interactions import Interactions
from receraser.errors import DataError, StoreError, UsageError
from receraser.fingerprint import of_bytes
from receraser.partition.partition import Partition
from receraser.store.encoding import (
    decode_assigned,
    decode_landmarks,
    decode_titles,
    encode_assigned,
    encode_landmarks,
    encode_titles,
)

__all__ = ["Export", "check_empty", "read_export", "write_export"]

_FORMAT = 2


@dataclass(frozen=True, eq=False)
class Export:
    """What a fresh fit needs."""

    config: EngineConfig
    train: Interactions
    valid: Interactions | None
    partition: Partition
    titles: Mapping[str, str]
    key_check: str
    public_key: bool
    environment: Mapping[str, object] = field(default_factory=dict)


def check_empty(folder: Path) -> None:
    """Make the folder of an export; raise if there is something in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty; choose another folder for the export")
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror or error}") from None


def write_export(folder: Path, export: Export) -> None:
    """Write an export to a new or empty folder."""
    partition = export.partition
    files = {"train.parquet": encode_assigned(export.train, partition.train)}
    if export.valid is not None and partition.valid is not None:
        files["valid.parquet"] = encode_assigned(export.valid, partition.valid)
    if partition.landmarks is not None:
        files["landmarks.safetensors"] = encode_landmarks(partition.landmarks)
    if export.titles:
        files["titles.parquet"] = encode_titles(export.titles)
    about = {
        "format": _FORMAT,
        "users": "pseudonyms",
        "pseudonyms": {"key_check": export.key_check, "public_key": export.public_key},
        "config": export.config.as_dict(),
        "environment": dict(export.environment),
        "files": {name: of_bytes(data) for name, data in files.items()},
    }
    check_empty(folder)
    try:
        for name, data in files.items():
            (folder / name).write_bytes(data)
        (folder / "export.json").write_text(json.dumps(about, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror or error}") from None


def read_export(folder: Path) -> Export:
    """Read an export back; every file is checked."""
    where = folder / "export.json"
    try:
        about = json.loads(where.read_bytes())
        if about["format"] != _FORMAT:
            raise DataError(f"format {about['format']}; this version reads format {_FORMAT}", path=str(where))
        files = {name: _checked(folder / name, digest) for name, digest in about["files"].items()}
        config = EngineConfig(**about["config"])
        check_parts(config)
        train, of_train = decode_assigned(files["train.parquet"])
        valid, of_valid = decode_assigned(files["valid.parquet"]) if "valid.parquet" in files else (None, None)
        landmarks = files.get("landmarks.safetensors")
        return Export(
            config=config,
            train=train,
            valid=valid,
            partition=Partition(
                config.shards, of_train, of_valid, None if landmarks is None else decode_landmarks(landmarks)
            ),
            titles=decode_titles(files["titles.parquet"]) if "titles.parquet" in files else {},
            key_check=about["pseudonyms"]["key_check"],
            public_key=about["pseudonyms"]["public_key"],
            environment=dict(about["environment"]),
        )
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{folder} holds no export: there is no export.json in it") from None
    except OSError as error:
        raise DataError(f"the export cannot be read ({error.strerror or error})", path=str(folder)) from None
    except UsageError as error:
        raise DataError(f"the export was not made by this version: {error}", path=str(where)) from None
    except (StoreError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__} {error}"
        raise DataError(f"this is no export, or it is damaged ({reason})", path=str(where)) from None


def _checked(path: Path, digest: str) -> bytes:
    """Return the content of a file of the export, which must be what it was written with."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"a file of the export cannot be read ({error.strerror})", path=str(path)) from None
    if of_bytes(data) != digest:
        raise DataError("the file is not what it was exported with", path=str(path))
    return data
