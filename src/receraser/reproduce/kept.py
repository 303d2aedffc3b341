"""Finished cells in a folder, by the digest of their inputs: a second run does only what is missing.

    FOLDER/DIGEST.json      inputs and what was found, in plain numbers
    FOLDER/DIGEST.npz       metrics of each user, without any id: for paired tests

The arrays are written first and the document last, each to a name of its own and renamed into place: what has a
document is whole. Whoever is interrupted loses the cell under way and no other. Cells are a cache: what cannot be read
is as good as missing, and is computed again.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from receraser.errors import DataError
from receraser.reproduce.cell import FORMAT, METRICS, SETS, Cell, Result

__all__ = ["Kept"]

_PARTS = ("metrics", "seconds", "numbers", "series", "notes", "about")


class Kept:
    """The cells of one folder.

    Parameters
    ----------
    folder
        Made when there is something to write.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self) -> None:
        """Make the folder; raise where it cannot be, which is better known before hours of work."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"the folder cannot be made: {error.strerror or error}", path=str(self.folder)) from None

    def holds(self, digest: str) -> bool:
        """Say whether a cell is there, and whole: one that is damaged is to be computed again."""
        return self.read(digest) is not None

    def read(self, digest: str) -> Result | None:
        """Return what a cell found; None where it is missing, or damaged."""
        found = self._read(self._document(digest))
        if found is None or found.get("format") != FORMAT:
            return None
        parts: dict[str, Any] = {name: found.get(name, {}) for name in _PARTS}
        inputs: Any = found.get("inputs")
        if not all(isinstance(one, dict) for one in (inputs, *parts.values())):
            return None
        if "code" in inputs:
            parts["about"] = {**parts["about"], "code": inputs["code"]}
        arrays = self._arrays(digest) if found.get("arrays") else {}
        return None if arrays is None else Result(per_user=arrays, **parts)

    def write(self, cell: Cell, rows: str, device: str, result: Result) -> None:
        """Keep a result; it is there, whole, when this returns."""
        digest = cell.digest(rows, device)
        try:
            self.make()
            if result.per_user:
                part = self._part(digest)
                with part.open("wb") as stream:
                    arrays = {name: result.per_user[name] for name in METRICS if name in result.per_user}
                    np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
                part.replace(self.folder / f"{digest}.npz")
            document: dict[str, object] = {"format": FORMAT, "inputs": cell.inputs(rows, device)}
            document |= {name: dict(getattr(result, name)) for name in _PARTS}
            document["arrays"] = bool(result.per_user)
            part = self._part(digest)
            part.write_text(json.dumps(document, indent=1, allow_nan=True) + "\n", encoding="utf-8")
            part.replace(self._document(digest))
        except OSError as error:
            raise DataError(f"the cell cannot be written: {error.strerror or error}", path=str(self.folder)) from None

    def rows_of(self, dataset: str) -> str | None:
        """Return the digest of the rows of a data set, as the cells say; None where there are none, or of several."""
        found = {str(inputs["rows"]) for inputs in self._inputs() if inputs.get("dataset") == dataset}
        return found.pop() if len(found) == 1 else None

    def sets_of(self, dataset: str) -> str | None:
        """Return the digest of the forget sets' files, as the cells say; "" where none takes any, None of several."""
        extras = [inputs.get("extras") for inputs in self._inputs() if inputs.get("dataset") == dataset]
        found = {str(one[SETS]) for one in extras if isinstance(one, dict) and SETS in one}
        return None if len(found) > 1 else "".join(found)

    def took(self) -> Iterator[tuple[Mapping[str, object], float]]:
        """Yield the inputs of every cell and how long it took, to estimate others by."""
        for path in self._documents():
            found = self._read(path) or {}
            inputs, about = found.get("inputs"), found.get("about")
            if isinstance(inputs, dict) and isinstance(about, dict) and "seconds" in about:
                yield inputs, float(about["seconds"])

    # ------------------------------------------------------------------ files

    def _document(self, digest: str) -> Path:
        return self.folder / f"{digest}.json"

    def _part(self, digest: str) -> Path:
        return self.folder / f"{digest}.{os.getpid()}.part"

    def _documents(self) -> list[Path]:
        return sorted(self.folder.glob("*.json")) if self.folder.is_dir() else []

    def _inputs(self) -> Iterator[Mapping[str, object]]:
        for path in self._documents():
            found = self._read(path)
            if found is not None and isinstance(found.get("inputs"), dict):
                yield found["inputs"]  # type: ignore[misc]

    @staticmethod
    def _read(path: Path) -> dict[str, object] | None:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def _arrays(self, digest: str) -> dict[str, NDArray[np.float32]] | None:
        try:
            with (self.folder / f"{digest}.npz").open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
                return {name: np.asarray(stored[name], dtype=np.float32) for name in stored.files}
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error):
            return None
