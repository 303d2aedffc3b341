"""The folder of keys: outside any store, readable by its owner alone, every file written whole and flushed to disk.

::

    FOLDER/
      signing.key                     the private key that signs now (PEM)
      signing.key.next                while keys are being rotated, or after a rotation that did not finish
      public/<id>.pem                 every public key there ever was
      public/<new id>.rotation.json   the old key's statement that the new one takes its place
      ledger-<store id>.key           the key of a store's ledger
      pseudonym.key                   the key of users' pseudonyms (`receraser.keys`)

A rotation makes the new private key durable, then publishes its public half and the old key's statement, then renames
the new key over the old one and overwrites the old one's bytes. A crash leaves the old key in force, or the new one;
the next rotation goes on with the key that an unfinished one left. What is overwritten may live on in snapshots,
backups and the spare blocks of an SSD.

Whoever verifies needs `public/` or one key of it. `Trust` goes from the keys somebody trusts to those that took their
places: forwards only, since whoever holds a new key must not be able to vouch for an old one.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from receraser.errors import ProofError, ReceraserError, UsageError
from receraser.fingerprint import canonical_json
from receraser.keys import flush_folder, key_in, write_once
from receraser.proof.ledger import is_time
from receraser.proof.signing import Envelope, PublicKey, SigningKey, opened, sealed, unverified

__all__ = ["ROTATION_TYPE", "Keyring", "Trust", "default_folder"]

ROTATION_TYPE = "application/vnd.receraser.rotation+json"

_STORE = re.compile("[0-9a-f]{32}")


def default_folder() -> Path:
    """Return the folder of keys where none is named: $RECERASER_KEYS, or where the user's data belongs."""
    named = os.environ.get("RECERASER_KEYS")
    if named:
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME", "")
    if Path(data).is_absolute():  # others are to be ignored, as the standard for such folders says
        return Path(data) / "receraser" / "keys"
    try:
        return Path.home() / ".local" / "share" / "receraser" / "keys"
    except RuntimeError:
        raise UsageError("there is no home folder to keep keys in; name a folder by RECERASER_KEYS") from None


class Keyring:
    """The keys in a folder. Making the object touches nothing.

    Parameters
    ----------
    folder
        Need not exist yet.

    Examples
    --------
    >>> import tempfile
    >>> keyring = Keyring(Path(tempfile.mkdtemp()) / "keys")
    >>> first = keyring.signing().public
    >>> old, new = keyring.rotate("2026-11-15T17:00:00Z")
    >>> (old == first, new == keyring.signing().public, sorted(keyring.public()) == sorted([old.id, new.id]))
    (True, True, True)
    >>> new.id in Trust([old], keyring.rotations()).keys()
    True
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._signing = self.folder / "signing.key"
        self._next = self.folder / "signing.key.next"
        self._public = self.folder / "public"

    # ------------------------------------------------------------------ signing

    def signing(self, create: bool = True) -> SigningKey:
        """Return the key that signs now, making one where there is none; its public half is then in `public/`."""
        with _reported(self._signing):
            if create and not self._signing.exists():
                write_once(self._signing, SigningKey.generate().to_pem())
            try:
                key = _private(self._signing)
            except FileNotFoundError:
                raise self._absent() from None
        self._publish(key.public)
        return key

    def public(self) -> dict[str, PublicKey]:
        """Return every public key there ever was, by its id."""
        return _by_id(_keys_in(self._public))

    def rotations(self) -> list[Envelope]:
        """Return the statements by which one key took another's place."""
        return _rotations_in(self._public)

    def rotate(self, time: str) -> tuple[PublicKey, PublicKey]:
        """Replace the signing key by a new one, destroy the old one, and return the public halves of both.

        Parameters
        ----------
        time
            For the statement, as the ledger writes it.
        """
        if not is_time(time):
            raise UsageError(f"the time of a rotation is {time!r}; expected one such as 2026-11-15T17:00:00Z")
        with self._locked(), _reported(self._signing):
            old = self.signing(create=False)
            write_once(self._next, SigningKey.generate().to_pem())  # that of an unfinished rotation stays
            new = _private(self._next)
            self._publish(new.public)
            self._state(old, new.public, time)
            with self._signing.open("r+b") as gone:
                self._next.replace(self._signing)
                flush_folder(self.folder)
                _overwrite(gone.fileno())
        return old.public, new.public

    def _publish(self, key: PublicKey) -> None:
        """See to it that a public key is in its file."""
        path = self._public / f"{key.id}.pem"
        with _reported(path):
            if not path.exists():
                write_once(path, key.to_pem())
            if path.read_bytes() != key.to_pem():
                raise UsageError(f"{path} does not hold the key {key.id}; remove it, and it is written anew")

    def _state(self, old: SigningKey, new: PublicKey, time: str) -> None:
        """See to it that the old key's statement about the new one is in its file."""
        path = self._public / f"{new.id}.rotation.json"
        payload = canonical_json({"old": old.public.id, "new": new.to_hex(), "time": time})
        write_once(path, canonical_json(sealed(ROTATION_TYPE, payload, old)) + b"\n")
        with _named(path):
            trusted = Trust([old.public], [_rotation_in(path)]).keys()
            if new.id not in trusted:
                raise ProofError(f"this is no statement of the key {old.public.id}; remove it, and rotate again")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process rotate at a time; another waits."""
        with _reported(self.folder):
            try:
                handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:
                raise self._absent() from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _absent(self) -> UsageError:
        return UsageError(f"there is no signing key in {self.folder}: expected the file {self._signing}")

    # ------------------------------------------------------------------ ledgers

    def ledger_key(self, store: str, create: bool = True) -> bytes | None:
        """Return the key of a store's ledger, making one where there is none; or nothing, if none is to be made."""
        return key_in(self._ledger(store), create=create)

    def shred_ledger_key(self, store: str) -> bool:
        """Overwrite and remove the key of a store's ledger; say whether there was one.

        From the first instant on the key is out of use; after a crash, shredding again finishes what was begun.
        """
        path = self._ledger(store)
        gone = path.with_name(path.name + ".gone")
        with _reported(path):
            found = _shredded(gone)
            with suppress(FileNotFoundError):
                path.replace(gone)
                flush_folder(self.folder)
            return _shredded(gone) or found

    def _ledger(self, store: str) -> Path:
        if not _STORE.fullmatch(store):
            raise UsageError(f"{store!r} is no id of a store: expected 32 hexadecimal digits")
        return self.folder / f"ledger-{store}.key"


class Trust:
    """The keys somebody trusts, and those that took their places.

    Parameters
    ----------
    anchors
        Keys that are trusted because somebody says so.
    rotations
        Statements (envelopes), in any order, also of other keys: those are not followed.
    """

    def __init__(self, anchors: Iterable[PublicKey], rotations: Iterable[object] = ()) -> None:
        self.anchors = tuple(anchors)
        self.rotations = tuple(rotations)

    @classmethod
    def from_path(cls, path: Path, anchors: Iterable[PublicKey] | None = None) -> Self:
        """Return the trust in a public key (a PEM file), or in those of a folder such as `public/`.

        Parameters
        ----------
        path
            The file or folder. Of a folder the statements are taken too.
        anchors
            The keys to start from; by default every key that is found.
        """
        path = Path(path)
        with _reported(path):
            found = _keys_in(path) if path.is_dir() else [_public_in(path)]
        if not found:
            raise UsageError(f"there is no public key in {path}: expected files such as 0123456789abcdef.pem")
        return cls(found if anchors is None else anchors, _rotations_in(path))

    @classmethod
    def from_paths(cls, paths: Sequence[Path]) -> Self:
        """Return the trust in several files and folders.

        Beside a file that names a key, a folder only shows which keys took its place.
        """
        files = [path for path in paths if not path.is_dir()]
        folders = [path for path in paths if path.is_dir()]
        anchors = [key for path in files for key in cls.from_path(path).anchors]
        found = [cls.from_path(path, anchors if files else None) for path in folders]
        every = [*anchors, *(key for one in found for key in one.anchors)]
        return cls(every, [statement for one in found for statement in one.rotations])

    def keys(self) -> dict[str, PublicKey]:
        """Return all keys that are reached from the anchors by valid statements, by their ids.

        Raises
        ------
        ProofError
            If a statement is malformed; or if one in the name of a trusted key is forged, leads back to where it came
            from, or names another successor than a second one does.
        """
        trusted = _by_id(self.anchors)
        waiting = [(*_claims(one), one) for one in self.rotations]
        successors: dict[str, str] = {}
        while ready := [one for one in waiting if one[0] in trusted]:
            waiting = [one for one in waiting if one[0] not in trusted]
            for old, new, envelope in ready:
                try:
                    opened(envelope, {old: trusted[old]}, ROTATION_TYPE)
                except ProofError as error:
                    raise ProofError(
                        f"the statement that {new.id} takes the place of {old} is forged: {error}"
                    ) from None
                _follow(successors, old, new.id)
                trusted = _by_id([*trusted.values(), new])
        return trusted


def _follow(successors: dict[str, str], old: str, new: str) -> None:
    """Note that one key took another's place; refuse a second successor, and a way back."""
    if successors.setdefault(old, new) != new:
        raise ProofError(
            f"two keys took the place of {old}: {successors[old]} and {new}; a key is replaced once: "
            "find out which of the two is right and leave the other one's statement out"
        )
    place = new
    while place != old:
        if place not in successors:
            return
        place = successors[place]
    raise ProofError(f"the statement that {new} takes the place of {old} leads back to {old}; expected a new key")


def _claims(envelope: object) -> tuple[str, PublicKey]:
    """Return what a statement says, unchecked: the id of the old key, and the new key."""
    payload = unverified(envelope, ROTATION_TYPE)
    try:
        said = json.loads(payload.decode())
        fits = canonical_json(said) == payload and set(said) == {"old", "new", "time"} and is_time(said["time"])
        old, new = (said["old"], said["new"]) if fits else (None, None)
    except (ValueError, TypeError, RecursionError):
        old, new = None, None
    if not isinstance(old, str) or not isinstance(new, str):
        raise ProofError("the statement of a rotation has the wrong form: expected old, new and time, and nothing else")
    return old, PublicKey.from_hex(new)


# ---------------------------------------------------------------------- files


def _private(path: Path) -> SigningKey:
    with _named(path):
        return SigningKey.from_pem(path.read_bytes())


def _public_in(path: Path) -> PublicKey:
    with _named(path):
        return PublicKey.from_pem(path.read_bytes())


def _rotation_in(path: Path) -> Envelope:
    try:
        envelope = json.loads(path.read_bytes().decode())
    except (ValueError, RecursionError):
        envelope = None
    if not isinstance(envelope, dict):
        raise ProofError(f"{path} holds no statement of a rotation: expected an envelope as JSON")
    return envelope


def _keys_in(folder: Path) -> list[PublicKey]:
    with _reported(folder):
        return [_public_in(path) for path in _files(folder, ".pem")]


def _rotations_in(folder: Path) -> list[Envelope]:
    with _reported(folder):
        return [_rotation_in(path) for path in _files(folder, ".rotation.json")]


def _files(folder: Path, ending: str) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name.endswith(ending)) if folder.is_dir() else []


def _by_id(keys: Iterable[PublicKey]) -> dict[str, PublicKey]:
    found: dict[str, PublicKey] = {}
    for key in keys:
        if found.setdefault(key.id, key) != key:
            raise ProofError(f"two different keys have the id {key.id}: one of them was made to pass for the other")
    return found


def _shredded(path: Path) -> bool:
    """Overwrite and remove a file; say whether it was there."""
    try:
        with path.open("r+b") as stream:
            _overwrite(stream.fileno())
        path.unlink()
    except FileNotFoundError:
        return False
    flush_folder(path.parent)
    return True


def _overwrite(handle: int) -> None:
    """Put zeros over the content of an open file, on disk; also where the file has another name, or none any more."""
    os.pwrite(handle, bytes(os.fstat(handle).st_size), 0)
    os.fsync(handle)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Put the file's name before what is wrong with the key in it."""
    try:
        yield
    except ReceraserError as error:
        raise type(error)(f"{path}: {error}") from None


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    """Turn what the system refuses into our error."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{error.filename or path} cannot be used as a key: {error.strerror}") from None
