"""A store in a directory: files named by the SHA-256 of their content, and one manifest that is swapped atomically.

::

    STORE/
      manifest.json     what is there: configuration, shards, digests, the name and size of every file; self-checksummed
      files/<sha256>    rows and titles (Parquet), weights (safetensors)
      lock              empty; held while somebody writes

Files are written and flushed to disk first; the manifest is renamed into place last. Whoever opens the store meanwhile
sees the old state or the new one. Files that the manifest does not name are leftovers of an interrupted write; the next
write removes them. Every file is checked against its name whenever it is read.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from receraser.errors import StoreError, StoreNotFoundError
from receraser.fingerprint import canonical_json, of_bytes

__all__ = ["FORMAT", "DirectoryStore"]

FORMAT = 1

Manifest = Mapping[str, object]


class DirectoryStore:
    """One store, by its path. Making the object touches nothing.

    Parameters
    ----------
    path
        The directory; need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._files = self.path / "files"
        self._manifest = self.path / "manifest.json"

    # ------------------------------------------------------------------ looking

    def exists(self) -> bool:
        """Say whether there is a published store."""
        return self._manifest.is_file()

    def check_free(self, *, replace: bool) -> None:
        """Raise unless a new store may be published here."""
        if self.exists():
            if not replace:
                raise StoreError(f"there is a store in {self.path} already; use --replace to destroy it, or another folder")
            return
        if self.path.exists() and not self.path.is_dir():
            raise StoreError(f"{self.path} is a file; a store is a directory")
        if self.path.is_dir() and any(entry.name not in ("files", "lock", "manifest.json.new") for entry in self.path.iterdir()):
            raise StoreError(f"{self.path} is not empty and holds no store; choose another folder")

    def manifest(self) -> dict[str, object]:
        """Return the manifest, checked."""
        try:
            text = self._manifest.read_bytes()
        except FileNotFoundError:
            if self._files.is_dir():
                raise StoreError(
                    f"the store in {self.path} is half-written: a fit did not finish there; run it again with --replace"
                ) from None
            raise StoreNotFoundError(f"there is no store in {self.path}; make one with: receraser fit DATA --store {self.path}") from None
        except OSError as error:
            raise StoreNotFoundError(f"the store in {self.path} cannot be opened: {error.strerror}") from None
        return self._checked(text)

    def _checked(self, text: bytes) -> dict[str, object]:
        try:
            manifest = json.loads(text)
            checksum = manifest.pop("checksum")
            found = of_bytes(canonical_json(manifest))
        except (ValueError, KeyError, AttributeError, TypeError):
            raise StoreError(f"{self._manifest} is damaged: it is no manifest of a store") from None
        if found != checksum:
            raise StoreError(f"{self._manifest} is damaged: its checksum does not match its content")
        if manifest.get("format") != FORMAT:
            raise StoreError(
                f"the store in {self.path} has format {manifest.get('format')}; this version reads format {FORMAT}"
            )
        return dict(manifest)

    def get(self, name: str) -> bytes:
        """Return the content of a file, checked against its name."""
        path = self._files / name
        try:
            data = path.read_bytes()
        except OSError as error:
            raise StoreError(f"the store is damaged: {path} cannot be read ({error.strerror})") from None
        if of_bytes(data) != name:
            raise StoreError(f"the store is damaged: the content of {path} is not what it was written with")
        return data

    # ------------------------------------------------------------------ writing

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock of the store; a second writer is refused at once."""
        try:
            self._files.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(f"the store in {self.path} cannot be written: {error.strerror}") from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StoreError(f"the store in {self.path} is being written by another process; try again later") from None
            yield
        finally:
            os.close(handle)

    def put(self, data: bytes) -> str:
        """Write a file, flushed to disk, and return its name."""
        name = of_bytes(data)
        path = self._files / name
        if not path.exists() or of_bytes(path.read_bytes()) != name:
            self._write(path, data)
        return name

    def commit(self, manifest: Manifest) -> None:
        """Publish: swap the manifest, then remove every file it does not name."""
        body = dict(manifest) | {"format": FORMAT}
        text = json.dumps(body | {"checksum": of_bytes(canonical_json(body))}, indent=1, sort_keys=True, ensure_ascii=False)
        _flush_folder(self._files)
        self._write(self._manifest, text.encode() + b"\n")
        kept = body["files"]
        assert isinstance(kept, Mapping)
        self.purge(path.name for path in self._files.iterdir() if path.name not in kept)

    def purge(self, names: Iterable[str]) -> None:
        """Remove files."""
        for name in list(names):
            (self._files / name).unlink(missing_ok=True)
        _flush_folder(self._files)

    def _write(self, path: Path, data: bytes) -> None:
        new = path.with_name(path.name + ".new")
        try:
            with new.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            new.replace(path)
        except OSError as error:
            new.unlink(missing_ok=True)
            raise StoreError(f"{path} cannot be written: {error.strerror}") from None
        _flush_folder(path.parent)


def _flush_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
