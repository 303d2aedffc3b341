"""A store in a directory: files named by the SHA-256 of their content, and one manifest that is swapped atomically.

::

    STORE/
      manifest.json                 what is there: configuration, shards, digests, the name and size of every file, how
                                    far the ledger goes; self-checksummed
      files/<sha256>                rows, titles, wishes (Parquet), weights (safetensors)
      certificates/<sha256>.json    signed statements, each named by an entry of the ledger
      ledger                        one entry a line; lines are only ever added
      ledger-<id>.new               that of a store that is about to take the place of this one
      pending/<id>.json             a request that was made and is not done yet
      lock                          empty; held while somebody writes

Everything is written and flushed to disk first: the certificate, the new line of the ledger, then the files, several at
a time, and the folder that names them. The manifest is renamed into place last.
Whoever opens the store meanwhile sees the old state or the new one. What the manifest does not cover (files, a tail of
the ledger, certificates that no entry names) is left by an interrupted write, or superseded; the next write removes it.
Every file is checked against its name whenever it is read.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from receraser.errors import ProofError, StoreError, StoreNotFoundError
from receraser.fingerprint import canonical_json, of_bytes
from receraser.keys import flush_folder, make_folder
from receraser.proof.ledger import Entry, read_entries
from receraser.proof.manifest import files_named, written
from receraser.proof.merkle import Frontier
from receraser.store.layout import FORMAT, PARTS, is_pending, ledger_to_be

__all__ = ["FORMAT", "DirectoryStore", "Manifest", "version_of"]

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
        self._certificates = self.path / "certificates"
        self._pending = self.path / "pending"
        self._ledger = self.path / "ledger"
        self._manifest = self.path / "manifest.json"
        self._putting_lock = threading.Lock()
        self._being_put: set[str] = set()
        self._sound = b""  # the manifest that was last found to be in order, whose check need not be repeated
        self._account = _Account()  # likewise, of the ledger

    # ------------------------------------------------------------------ looking

    def exists(self) -> bool:
        """Say whether there is a published store."""
        return self._manifest.is_file()

    def version(self) -> str:
        """Return what names the published state: the SHA-256 of the manifest without its record."""
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
        ours = (*PARTS, "manifest.json.new")
        return sorted(entry.name for entry in self.path.iterdir() if entry.name not in ours or entry == self._manifest)

    def strays(self, manifest: Manifest) -> list[str]:
        """Return what the manifest does not cover: left by an interrupted write, or put there by somebody."""
        named, head = files_named(manifest), _head(manifest)
        certificates = self._certificates_named(manifest)
        found = [f"files/{name}" for name in _names(self._files) if name not in named]
        found += [f"certificates/{name}" for name in _names(self._certificates) if name not in certificates]
        found += [f"pending/{name}" for name in _names(self._pending) if not is_pending(f"pending/{name}")]
        found += [entry.name for entry in self.path.iterdir() if entry.name not in PARTS]
        if self._ledger_size() > head["bytes"]:
            found.append("ledger (its end)")
        return sorted(found)

    def _ledger_size(self) -> int:
        return self._ledger.stat().st_size if self._ledger.exists() else 0

    def _ledger_to_be(self, store: str) -> Path:
        """Return where the ledger of a store lies that takes the place of another one, until it has."""
        return self.path / ledger_to_be(store)

    def _certificates_named(self, manifest: Manifest) -> set[str]:
        """Return the files of certificates that the ledger names; it must be the ledger that the manifest covers."""
        head = _head(manifest)
        try:
            account = self._account.going_on(self.ledger(head["bytes"]))
        except ProofError as error:
            raise StoreError(f"the store is damaged: {self._ledger}: {error}") from None
        if [one.hex() for one in account.tree.hashes] != list(head["frontier"]):
            raise StoreError(f"the store is damaged: the content of {self._ledger} is not what it was written with")
        self._account = account
        return {f"{entry.certificate}.json" for entry in account.entries}

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
            if text == self._sound:
                return dict(manifest)
            found = of_bytes(canonical_json(manifest))
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            raise StoreError(f"{self._manifest} is damaged: it is no manifest of a store") from None
        if found != checksum:
            raise StoreError(f"{self._manifest} is damaged: its checksum does not match its content")
        if manifest.get("format") != FORMAT:
            raise StoreError(
                f"the store in {self.path} has format {manifest.get('format')}; this version reads format {FORMAT}"
            )
        if written(manifest) != text:  # the checksum is of the content; this covers every byte
            raise StoreError(f"{self._manifest} is damaged: it is not written as it was")
        self._sound = text
        return dict(manifest)

    def get(self, name: str) -> bytes:
        """Return the content of a file, checked against its name."""
        if not _DIGEST.fullmatch(name):
            raise StoreError(f"{self._manifest} is damaged: {name!r} names no file of a store")
        return _content(self._files / name, name)

    def sizes(self) -> dict[str, int]:
        """Return the files that lie there as the manifest says, by name and size; their content is not looked at."""
        try:
            listed = self.manifest()["files"]
        except (StoreError, StoreNotFoundError):  # none yet, or a damaged one that is to be replaced
            return {}
        assert isinstance(listed, Mapping)
        there = {entry.name: entry.stat().st_size for entry in os.scandir(self._files)}
        return {name: size for name, size in listed.items() if there.get(name) == size}

    def is_sound(self, name: str) -> bool:
        """Say whether the content of a file is what it is named by."""
        try:
            self.get(name)
        except StoreError:
            return False
        return True

    def ledger(self, size: int) -> bytes:
        """Return the ledger: its first `size` bytes, which are those that the manifest covers."""
        if not size:
            return b""
        try:
            with self._present_ledger().open("rb") as stream:
                data = stream.read(size)
        except OSError as error:
            raise StoreError(f"the store is damaged: {self._ledger} cannot be read ({error.strerror})") from None
        if len(data) < size:
            raise StoreError(f"the store is damaged: {self._ledger} has {len(data)} bytes, expected {size}")
        return data

    def _present_ledger(self) -> Path:
        """Return where the ledger lies that the manifest covers: a crash may have left it where it was made."""
        if not any(self.path.glob("ledger-*.new")):
            return self._ledger
        made = self._ledger_to_be(_store_id(self.manifest()))
        return made if made.exists() else self._ledger

    def certificate_path(self, name: str) -> Path:
        """Return where a certificate lies."""
        return self._certificates / f"{name}.json"

    def certificate(self, name: str) -> bytes:
        """Return a certificate, checked against its name."""
        return _content(self.certificate_path(name), name)

    def pending(self) -> dict[str, bytes]:
        """Return the requests that were made and are not done yet, by their ids."""
        found = {}
        for name in _names(self._pending):
            if is_pending(f"pending/{name}"):
                path = self._pending / name
                found[path.stem] = _content(path)
        return found

    # ------------------------------------------------------------------ writing

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock of the store; a second writer is refused at once."""
        try:
            make_folder(self._files)
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

    def put(self, data: bytes | Sequence[bytes | memoryview]) -> str:
        """Write a file, its content flushed to disk, and return its name, which is flushed by the commit.

        Several threads may put files at a time; whoever commits waits for all of them, and sees that none has failed.
        """
        pieces = [data] if isinstance(data, bytes) else data
        name = of_bytes(*pieces)
        with self._putting_lock:
            if name in self._being_put:  # another thread writes the same content at this moment
                return name
            self._being_put.add(name)
        try:
            self.get(name)
        except StoreError:  # not there yet, or damaged
            self._write(self._files / name, *pieces, flush=False)  # the folder is flushed once, by `swap`
        finally:
            with self._putting_lock:
                self._being_put.discard(name)
        return name

    def put_certificate(self, data: bytes) -> str:
        """Write a certificate, flushed to disk, and return its name."""
        name = of_bytes(data)
        self._write(self.certificate_path(name), data)
        return name

    def append_to_ledger(self, line: bytes, *, at: int, of: str) -> None:
        """Write a line behind the first `at` bytes of the ledger, flushed; what lay there counted for nothing.

        `of` is the id of the store it belongs to. One that is to take the place of another store has a ledger of its
        own, apart, until its manifest is the one that counts: until then the other one's is needed.
        """
        path = self._ledger_to_be(of) if self._published_is_another(of) else self._ledger
        self._check_ledger(at)
        with _reported(path):
            with path.open("r+b" if path.exists() else "w+b") as stream:
                stream.truncate(at)
                stream.seek(at)
                stream.write(line)
                stream.flush()
                os.fsync(stream.fileno())
            flush_folder(self.path)

    def _check_ledger(self, size: int) -> None:
        """Raise where the ledger does not go as far as it should: what is missing must not be filled with nothing."""
        found = self._ledger_size()
        if found < size:
            raise StoreError(
                f"the store is damaged: {self._ledger} has {found} bytes, expected {size}; restore it from a copy"
            )

    def _published_is_another(self, store: str) -> bool:
        """Say whether another store than this one is published here, in working order."""
        try:
            return _store_id(self.manifest()) not in ("", store)
        except (StoreError, StoreNotFoundError):
            return False

    def put_pending(self, name: str, data: bytes) -> None:
        """Write a request down, flushed to disk."""
        self._write(self._pending / f"{name}.json", data)

    def drop_pending(self, name: str) -> None:
        """Remove a request: it is done, or was taken back."""
        path = self._pending / f"{name}.json"
        with _reported(path):
            path.unlink(missing_ok=True)
            if self._pending.is_dir():
                flush_folder(self._pending)

    def commit(
        self, manifest: Manifest, *, keep_old: bool = False, seal: Callable[[Manifest], Manifest] | None = None
    ) -> None:
        """Publish: swap the manifest, then remove everything it does not cover.

        With `keep_old` the manifest that was there, and the files it names, stay as `previous`. `seal` signs the
        manifest when it is complete.
        """
        body = dict(manifest) | {"format": FORMAT, "previous": None}
        if keep_old and self.exists():
            old = self.manifest()
            body["previous"] = {"manifest": self.put(written(old)), "files": files_named(old)}
        self.swap(body if seal is None else seal(body))
        self.sweep()

    def swap(self, manifest: Manifest) -> None:
        """Make a manifest the one that counts."""
        assert not self._being_put, "a file is still being written"
        with _reported(self._files):
            flush_folder(self._files)
        self._write(self._manifest, written(manifest))

    def sweep(self) -> None:
        """Remove what the manifest does not cover: what it superseded, what an interrupted write left."""
        manifest = self.manifest()
        kept, head = files_named(manifest), _head(manifest)
        made = self._ledger_to_be(_store_id(manifest))
        with _reported(self._ledger):
            if made.exists():  # this store has taken another one's place
                made.replace(self._ledger)
                flush_folder(self.path)
        certificates = self._certificates_named(manifest)  # raises where the ledger is damaged: nothing is removed then
        left = [self.path / "manifest.json.new", *self.path.glob("ledger-*.new")]
        left = [path for path in left if path.exists()]
        left += [self._files / name for name in _names(self._files) if name not in kept]
        left += [self._certificates / name for name in _names(self._certificates) if name not in certificates]
        left += [self._pending / name for name in _names(self._pending) if not is_pending(f"pending/{name}")]
        if left:
            self._purge(left)
        self._check_ledger(head["bytes"])
        with _reported(self._ledger):
            if self._ledger_size() > head["bytes"]:
                os.truncate(self._ledger, head["bytes"])
                flush_folder(self.path)

    def _purge(self, paths: Iterable[Path]) -> None:
        """Remove files: all that can be, even where one cannot."""
        failures, folders = [], set()
        for path in list(paths):
            folders.add(path.parent)
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                failures.append(f"{path} cannot be removed: {error.strerror}")
        for folder in folders:
            with _reported(folder):
                flush_folder(folder)
        if failures:
            raise StoreError(f"the store is published, but {failures[0]}; remove it yourself")

    def _write(self, path: Path, *pieces: bytes | memoryview, flush: bool = True) -> None:
        new = path.with_name(path.name + ".new")
        with _reported(path):
            make_folder(path.parent)
            try:
                with new.open("wb") as stream:
                    for piece in pieces:
                        stream.write(piece)
                    stream.flush()
                    os.fsync(stream.fileno())
                new.replace(path)
            except OSError:
                with contextlib.suppress(OSError):
                    new.unlink(missing_ok=True)
                raise
            if flush:
                flush_folder(path.parent)


@dataclass(frozen=True)
class _Account:
    """A ledger as it was read: its bytes, its entries, and the frontier of its tree."""

    data: bytes = b""
    entries: tuple[Entry, ...] = ()
    tree: Frontier = field(default_factory=Frontier)

    def going_on(self, data: bytes) -> _Account:
        """Return the account of these bytes; where they begin with those of this one, the rest alone is read."""
        known = self if data.startswith(self.data) else _Account()
        entries = read_entries(data[len(known.data) :], known.entries)
        tree = known.tree
        for entry in entries[len(known.entries) :]:
            tree = tree.appended(entry.leaf())
        return _Account(data, tuple(entries), tree)


def _content(path: Path, name: str | None = None) -> bytes:
    """Return what is in a file; where it is named by its content, that must be its SHA-256."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"the store is damaged: {path} cannot be read ({error.strerror})") from None
    if name is not None and of_bytes(data) != name:
        raise StoreError(f"the store is damaged: the content of {path} is not what it was written with")
    return data


def version_of(manifest: Manifest) -> str:
    """Return the SHA-256 of a manifest as it is written, without its record: what happened is no part of a state."""
    return of_bytes(written({key: value for key, value in manifest.items() if key != "record"}))


def _names(folder: Path) -> list[str]:
    """Return what lies in a folder, by name; nothing where there is none."""
    return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []


def _head(manifest: Manifest) -> Mapping[str, Any]:
    """Return how far the ledger goes that a manifest covers."""
    record = manifest.get("record")
    return record["ledger"] if isinstance(record, Mapping) else {"bytes": 0, "frontier": []}


def _store_id(manifest: Manifest) -> str:
    """Return the id of the store that a manifest is of; nothing where it has none."""
    record = manifest.get("record")
    return str(record["store"]) if isinstance(record, Mapping) else ""


@contextlib.contextmanager
def _reported(path: Path) -> Iterator[None]:
    """Turn what the system refuses into our error."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from None
