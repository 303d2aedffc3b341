"""Vectors of users and items from a file, for partitions that divide rows by them: a NumPy `.npz` archive.

It holds four arrays: `users` and `items` (ids, as text or integers), `user_vectors` and `item_vectors` (one row each,
all of one length). Written, for instance, by `numpy.savez(path, users=..., user_vectors=..., items=..., ...)`.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from receraser.data.ids import IdMap, id_text
from receraser.errors import DataError
from receraser.partition.partition import Embeddings

__all__ = ["read_embeddings"]


def read_embeddings(path: str | Path) -> Embeddings:
    """Read vectors; a fault is an error that names the file and the reason."""
    where = str(path)
    try:
        # Opened here: numpy would leave the file of a damaged archive open.
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except OSError as error:
        raise DataError(f"the file cannot be read ({error.strerror or error})", path=where) from None
    except (ValueError, TypeError, zipfile.BadZipFile, zlib.error, EOFError, AttributeError):
        raise DataError("this is no .npz archive of plain arrays", path=where) from None
    try:
        users, user_vectors = _side("user", arrays)
        items, item_vectors = _side("item", arrays)
        if user_vectors.shape[1] != item_vectors.shape[1]:
            lengths = f"{user_vectors.shape[1]} and {item_vectors.shape[1]}"
            raise DataError(f"the vectors of users and items differ in length ({lengths})")
    except DataError as error:
        raise DataError(error.reason, path=where) from None
    return Embeddings(users, user_vectors, items, item_vectors)


def _side(what: str, arrays: dict[str, NDArray[np.generic]]) -> tuple[IdMap, NDArray[np.float32]]:
    """Return the ids and vectors of the users or the items, in canonical order."""
    for name in (f"{what}s", f"{what}_vectors"):
        if name not in arrays:
            raise DataError(f"there is no array {name!r}; found: {', '.join(sorted(arrays)) or 'none'}")
    named = arrays[f"{what}s"]
    if named.ndim != 1:
        raise DataError(f"{what}s has the shape {named.shape}; expected a list of ids")
    ids = [id_text(one) for one in named.tolist()]
    vectors = arrays[f"{what}_vectors"]
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiu" or vectors.shape[0] != len(ids):
        raise DataError(f"{what}_vectors is {vectors.dtype} of shape {vectors.shape}; expected numbers, one row per id")
    if len(set(ids)) < len(ids):
        raise DataError(f"an id stands twice among the {what}s")
    if not np.isfinite(vectors.astype(np.float64)).all():
        raise DataError(f"{what}_vectors holds a value that is no finite number")
    known = IdMap(ids)
    order = np.argsort(known.indices(ids), kind="stable")
    return known, np.ascontiguousarray(vectors[order], dtype=np.float32)
