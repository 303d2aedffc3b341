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
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from receraser.errors import StoreError, StoreNotFoundError
from receraser.fingerprint import canonical_json, of_bytes

__all__ = ["FORMAT", "DirectoryStore", "version_of"]

FORMAT = 2

Manifest = Mapping[str, object]

_DIGEST = re.compile("[0-9a-f]{64}")


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

    def version(self) -> str:
        """Return what names the published state: the SHA-256 of the manifest."""
        return version_of(self.manifest())

    def check_free(self, *, replace: bool) -> None:
        """Raise unless a new store may be published here."""
        try:
            found = self.exists()
            place = next(one for one in (self.path, *self.path.absolute().parents) if one.exists())
            foreign = [] if found or place != self.path or not place.is_dir() else self._foreign()
        except OSError as error:
            raise StoreError(f"{self.path} cannot hold a store: {error.strerror}") from None
        if found and not replace:
            raise StoreError(f"there is a store in {self.path} already; use --replace to destroy it, or another folder")
        if not place.is_dir():
            raise StoreError(f"{self.path} cannot hold a store: {place} is a file")
        if not os.access(place, os.W_OK | os.X_OK):
            raise StoreError(f"{self.path} cannot hold a store: {place} cannot be written")
        if foreign:
            raise StoreError(f"{self.path} is not empty and holds no store; choose another folder")

    def _foreign(self) -> list[str]:
        """Return what lies in the folder and is no part of any store."""
        ours = ("files", "lock", "manifest.json", "manifest.json.new")
        return sorted(entry.name for entry in self.path.iterdir() if entry.name not in ours or entry == self._manifest)

    def strays(self, manifest: Manifest) -> list[str]:
        """Return the files that the manifest does not cover: left by an interrupted write, or put there by somebody."""
        named = _named(manifest)
        inside = [f"files/{entry.name}" for entry in self._files.iterdir() if entry.name not in named]
        beside = [entry.name for entry in self.path.iterdir() if entry.name not in ("files", "lock", "manifest.json")]
        return sorted(inside + beside)

    def manifest(self) -> dict[str, object]:
        """Return the manifest, checked."""
        try:
            text = self._manifest.read_bytes()
        except FileNotFoundError:
            if self._files.is_dir():
                raise StoreError(
                    f"the store in {self.path} is half-written: a fit did not finish there; run it again with --replace"
                ) from None
            raise StoreNotFoundError(
                f"there is no store in {self.path}; make one with: receraser fit DATA --store {self.path}"
            ) from None
        except NotADirectoryError:
            raise StoreNotFoundError(f"there is no store in {self.path}: a store is a directory") from None
        except OSError as error:
            raise StoreNotFoundError(f"the store in {self.path} cannot be opened: {error.strerror}") from None
        return self._checked(text)

    def _checked(self, text: bytes) -> dict[str, object]:
        try:
            manifest = json.loads(text)
            checksum = manifest.pop("checksum")
            found = of_bytes(canonical_json(manifest))
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            raise StoreError(f"{self._manifest} is damaged: it is no manifest of a store") from None
        if found != checksum:
            raise StoreError(f"{self._manifest} is damaged: its checksum does not match its content")
        if manifest.get("format") != FORMAT:
            raise StoreError(
                f"the store in {self.path} has format {manifest.get('format')}; this version reads format {FORMAT}"
            )
        if _rendered(manifest) != text:  # the checksum is of the content; this covers every byte
            raise StoreError(f"{self._manifest} is damaged: it is not written as it was")
        return dict(manifest)

    def get(self, name: str) -> bytes:
        """Return the content of a file, checked against its name."""
        path = self._files / name
        if not _DIGEST.fullmatch(name):
            raise StoreError(f"{self._manifest} is damaged: {name!r} names no file of a store")
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
                raise StoreError(
                    f"the store in {self.path} is being written by another process; try again later"
                ) from None
            yield
        finally:
            os.close(handle)

    def put(self, data: bytes) -> str:
        """Write a file, flushed to disk, and return its name."""
        name = of_bytes(data)
        try:
            self.get(name)
        except StoreError:  # not there yet, or damaged
            self._write(self._files / name, data)
        return name

    def commit(self, manifest: Manifest, *, keep_old: bool = False) -> None:
        """Publish: swap the manifest, then remove every file it does not name.

        With `keep_old` the manifest that was there, and the files it names, stay as `previous`.
        """
        body = dict(manifest) | {"format": FORMAT, "previous": None}
        if keep_old and self.exists():
            old = self.manifest()
            body["previous"] = {"manifest": self.put(_rendered(old)), "files": _named(old)}
        _flush_folder(self._files)
        self._write(self._manifest, _rendered(body))
        self.sweep()

    def sweep(self) -> None:
        """Remove every file that the manifest does not name: what it superseded, what an interrupted write left."""
        kept = _named(self.manifest())
        (self.path / "manifest.json.new").unlink(missing_ok=True)
        left = [path.name for path in self._files.iterdir() if path.name not in kept]
        if left:
            self.purge(left)

    def purge(self, names: Iterable[str]) -> None:
        """Remove files: all that can be, even where one cannot."""
        failures = []
        for name in list(names):
            try:
                (self._files / name).unlink(missing_ok=True)
            except OSError as error:
                failures.append(f"{self._files / name} cannot be removed: {error.strerror}")
        _flush_folder(self._files)
        if failures:
            raise StoreError(f"the store is published, but {failures[0]}; remove it yourself")

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


def version_of(manifest: Manifest) -> str:
    """Return the SHA-256 of a manifest as it is written."""
    return of_bytes(_rendered(manifest))


def _named(manifest: Manifest) -> list[str]:
    """Return the names of all files that a manifest covers: its own, and those of the one it keeps."""
    files, previous = manifest["files"], manifest["previous"]
    assert isinstance(files, Mapping)
    if previous is None:
        return sorted(files)
    assert isinstance(previous, Mapping)
    return sorted({*files, *previous["files"], previous["manifest"]})


def _rendered(body: Manifest) -> bytes:
    """Return a manifest as it is written, with its checksum."""
    whole = dict(body) | {"checksum": of_bytes(canonical_json(body))}
    return json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def _flush_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
