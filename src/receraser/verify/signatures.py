"""Who vouches for a signature? Keys that somebody outside the store trusts, not those that the store itself names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from receraser.errors import ProofError, UsageError
from receraser.proof.keyring import Keyring, Trust
from receraser.proof.signing import PublicKey, opened

__all__ = ["Vouchers", "trusted"]


@dataclass(frozen=True)
class Vouchers:
    """The keys somebody vouches for.

    Attributes
    ----------
    keys
        By their ids.
    source
        Where they were found, for people.
    named
        Whether somebody named them for this purpose: then no other key will do. Keys that were only lying there (those
        of the operator's own folder) say nothing about the store of somebody else.
    """

    keys: Mapping[str, PublicKey] = field(default_factory=dict)
    source: str = ""
    named: bool = False

    @classmethod
    def of(cls, trust: Sequence[Path] = (), keyring: Keyring | None = None, *, named: bool = False) -> Vouchers:
        """Return the keys of the paths given, or else the public ones of a folder of keys."""
        if trust:
            return cls(trusted(trust), "--trust", named=True)
        keys = {} if keyring is None else keyring.public()
        return cls(keys, "" if keyring is None else str(keyring.folder), named=named and bool(keys))

    def bind(self, signers: Mapping[str, PublicKey], *, own: bool) -> bool:
        """Say whether every signature must be by one of these keys.

        So it is if they were named, if one of them has signed in this store, or if the store is the operator's own.
        """
        return self.named or (bool(self.keys) and own) or bool(self.keys.keys() & signers.keys())

    def open(self, envelope: object, kind: str, signers: Mapping[str, PublicKey], *, bound: bool) -> tuple[bytes, str]:
        """Return the payload of an envelope, which must be of this kind, and the id of the key that signed it.

        A key vouched for comes first; those that the store names count unless the signature is `bound` to the others.
        """
        try:
            return opened(envelope, self.keys, kind)
        except ProofError:
            if bound:
                raise
        return opened(envelope, signers, kind)

    def who(self, signers: Mapping[str, PublicKey]) -> str:
        """Return the end of a sentence about keys: who vouches for them, and what to do where nobody does."""
        unknown = sorted(signers.keys() - self.keys.keys())
        if not unknown:
            return f"vouched for by {self.source}"
        return (
            f"nobody vouched for {', '.join(unknown)}: whoever wrote the store could have made it; get the operator's "
            "public key by another way and name it with --trust"
        )


def trusted(paths: Sequence[Path]) -> dict[str, PublicKey]:
    """Return the keys that are trusted by these paths: PEM files, or folders such as `public/`."""
    try:
        return Trust.from_paths(paths).keys()
    except UsageError as error:
        raise UsageError(f"--trust: {error}") from None
