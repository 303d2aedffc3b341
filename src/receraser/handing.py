"""What enters a store's ledger and is no change of its state: a certificate given, a key shredded, a request withdrawn.

Each is one entry without a certificate of its own, made under the store's lock. The state is neither read nor changed,
so what is pending is not finished first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from receraser.custody import Custody, signing_for
from receraser.erasure.request import ForgetRequest
from receraser.errors import StoreError, UsageError
from receraser.proof.keyring import Keyring
from receraser.store.directory import DirectoryStore
from receraser.store.history import History, waiting_as
from receraser.store.pending import Pending

__all__ = ["check_giving", "give_certificate", "shred", "withdraw"]

_LONGEST = 200


@contextmanager
def _desk(folder: Path, keyring: Keyring) -> Iterator[tuple[Custody, History]]:
    """Hold the lock of a store; its keys must be at hand if it was ever signed."""
    store = DirectoryStore(folder)
    store.manifest()  # raises where there is no store, before anything is made there
    with store.writing():
        store.sweep()  # what an interrupted change left
        history = History.of(store)
        yield Custody(store, history.record, signing_for(history.record, keyring) if history.signers else None), history


def give_certificate(folder: Path, keyring: Keyring, number: int, *, to: str, out: Path) -> str:
    """Copy a certificate to a new file and enter who got it; return its SHA-256.

    Parameters
    ----------
    folder, keyring
        The store, and the keys that sign for it.
    number
        The place of its entry in the ledger.
    to
        Who gets it: an office, a function. Kept in the store's record; no place for a user's id.
    out
        The new file.
    """
    check_giving(to=to, out=out)
    with _desk(folder, keyring) as (desk, history):
        entry = history.certified(number)
        issued = history.issued(desk.store, entry)
        try:
            with out.open("xb") as stream:
                stream.write(desk.store.certificate(issued.sha256))
        except OSError as error:
            raise UsageError(f"{out} cannot be written: {error.strerror}") from None
        try:
            desk.note("certificate", to=to)
        except BaseException:
            out.unlink()  # nobody is to have it without its being on record
            raise
    return issued.sha256


def check_giving(*, to: str, out: Path) -> None:
    """Raise unless something can be given to somebody of this name, in this file."""
    if not to.strip() or len(to) > _LONGEST or not to.isprintable():
        raise UsageError(f"--to {to[:_LONGEST]!r}: expected a name in at most {_LONGEST} printable characters")
    if out.exists():
        raise UsageError(f"{out} exists already; choose another name")


def shred(folder: Path, keyring: Keyring) -> str:
    """Destroy the key of a store's ledger, after entering that; return the id of the store.

    The subjects in the ledger can no longer be recognised by anybody; the tree stays as it was. Entered first: a crash
    leaves a key that is said to be shredded, and shredding again destroys it.
    """
    with _desk(folder, keyring) as (desk, history):
        store = history.record.store
        if keyring.ledger_key(store, create=False) is None:
            if keyring.shred_ledger_key(store):  # begun before, and entered then
                return store
            raise UsageError(
                f"there is no key of this store's ledger in {keyring.folder}: it was shredded before, or is in another "
                "folder (--keys)"
            )
        if desk.pending():
            raise StoreError(
                f"requests are waiting in {folder}, and would be entered with a new key; do them first: "
                f"receraser pending finish --store {folder}"
            )
        desk.enter("shred")
        keyring.shred_ledger_key(store)
    return store


def withdraw(folder: Path, keyring: Keyring, name: str) -> None:
    """Take a request back, and enter that, with the subjects it named.

    The swap that publishes the entry also says that the request needs no work; its file is removed after it. A file
    that is damaged can be taken back too: nobody could do what it asked.
    """
    with _desk(folder, keyring) as (desk, history):
        store = desk.store
        data = waiting_as(store, name)
        if history.record.done:
            store.drop_pending(history.record.done)  # done, and perhaps left behind by a crash
        try:
            request = Pending.decode(name, data).request
        except StoreError:
            request = ForgetRequest()
        desk.enter("withdraw", request=request, done=name)
        store.drop_pending(name)
