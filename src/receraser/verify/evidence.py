"""What lies there? The bytes of a store's folder, each file read once and held against its name.

Nothing is changed, and nothing that is read here is believed: whoever can write to the folder can make names fit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from receraser.errors import ProofError, StoreError, StoreNotFoundError
from receraser.fingerprint import of_bytes
from receraser.proof.manifest import Manifest, read_manifest
from receraser.store.layout import ledger_to_be

__all__ = ["Evidence"]


class Evidence:
    """A store's folder, in which there must be a manifest.

    Attributes
    ----------
    text, manifest, faults
        The manifest's bytes, what it says (None where nothing can be made of it), and what is wrong with it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.text = (path / "manifest.json").read_bytes()
        except OSError as error:
            if (path / "files").is_dir():
                raise StoreError(
                    f"the store in {path} is half-written: it has no manifest ({error.strerror})"
                ) from None
            raise StoreNotFoundError(f"there is no store in {path}: {error.strerror}") from None
        self.manifest, self.faults = read_manifest(self.text)
        self._looked_at: dict[str, int | str] = {}

    def get(self, name: str) -> bytes:
        """Return the content of a file of the store; one that is not what it was written with is refused."""
        try:
            data = self._read(f"files/{name}", name, "what it was written with")
        except ProofError as error:
            self._looked_at[name] = str(error)
            raise
        self._looked_at[name] = len(data)
        return data

    def look(self, name: str) -> int | str:
        """Return the size of a file that is what its name says, else what is wrong with it; read only once."""
        if name not in self._looked_at:
            with contextlib.suppress(ProofError):
                self.get(name)
        return self._looked_at[name]

    def certificate(self, name: str) -> bytes:
        """Return the bytes of a certificate, held against its name."""
        return self._read(f"certificates/{name}.json", name, "what was written")

    def _read(self, place: str, sha256: str, expected: str) -> bytes:
        try:
            data = (self.path / place).read_bytes()
        except OSError as error:
            raise ProofError(f"{place} cannot be read ({error.strerror})") from None
        if (found := of_bytes(data)) != sha256:
            raise ProofError(f"{place} is not {expected}: its SHA-256 is {found}")
        return data

    @property
    def ledger_name(self) -> str:
        """The file of the ledger: where a crash came while one store replaced another, still where it was made."""
        made = "" if self.manifest is None else ledger_to_be(self.manifest["record"]["store"])
        return made if made and (self.path / made).exists() else "ledger"

    def ledger(self) -> bytes:
        """Return the whole ledger, also what is behind its end; nothing where there is none."""
        try:
            return (self.path / self.ledger_name).read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise ProofError(f"the ledger cannot be read ({error.strerror})") from None

    def everything(self) -> Iterator[tuple[str, Path]]:
        """Yield what lies in the folder, by its name in it: files, links, and folders that are empty."""
        for path in sorted(self.path.rglob("*")):
            if path.is_symlink() or not path.is_dir() or not any(path.iterdir()):
                yield path.relative_to(self.path).as_posix(), path

    def kept(self) -> list[tuple[str, Manifest]]:
        """Return the manifests of earlier states that were kept, each with its file's name, the newest first."""
        found, manifest = [], self.manifest
        while manifest is not None and manifest["previous"] is not None:
            name = manifest["previous"]["manifest"]
            manifest, faults = read_manifest(self.get(name))
            if manifest is None or faults:
                raise ProofError(f"files/{name} is no manifest of an earlier state: {faults[0]}")
            found.append((name, manifest))
        return found
