"""`Record`: what a store keeps of its own history beside the state: how far the ledger goes, what was signed, debt.

No part of a digest: two stores of the same state may have come to it by different ways. It lies in the manifest, so it
is swapped together with the state it speaks of; what it holds of a superseded state (the nonces that open commitments)
goes with the manifest that is replaced.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from receraser.errors import StoreError
from receraser.proof.merkle import Frontier

__all__ = ["Debt", "Policy", "Record"]

_OF_LEDGER = ("size", "length", "certificates", "frontier", "time")


@dataclass(frozen=True)
class Policy:
    """When a partition that looks at the data is to be made anew: after so many requests, after so many days.

    Examples
    --------
    >>> Policy(requests=3).due(Debt(requests=2), now="2026-01-01T00:00:00Z")
    False
    >>> Policy(days=30).due(Debt(requests=1, since="2026-01-01T00:00:00Z"), now="2026-01-31T00:00:00Z")
    True
    """

    requests: int | None = None
    days: int | None = None

    def due(self, debt: Debt, *, now: str) -> bool:
        """Say whether a partition with this debt is to be made anew."""
        if not debt.requests:
            return False
        if self.requests is not None and debt.requests >= self.requests:
            return True
        if self.days is None or not debt.since:
            return False
        return (_moment(now) - _moment(debt.since)).total_seconds() >= self.days * 86400


@dataclass(frozen=True)
class Debt:
    """What has happened since a partition that looks at the data was computed: it still remembers what was before.

    `since`: when it was computed.
    """

    requests: int = 0
    rows_removed: int = 0
    rows_added: int = 0
    since: str = ""


def _moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


@dataclass(frozen=True)
class Record:
    """What a store keeps beside its state.

    Attributes
    ----------
    store
        The store's own name: drawn once, when it is first published.
    size, length, certificates, frontier, time
        The ledger: entries, bytes, how many of them name a certificate, its tree's frontier, the last entry's time.
    checkpoint
        The ledger's root, signed; None where nothing was ever signed.
    certificate
        The newest certificate.
    after, openings
        Its commitments to the present state, and the nonces that open them.
    signers
        Every key that signed something here: its public half by its id.
    done
        The id of the last request that was finished. The last alone: whoever does another one first clears away the
        file of this one, if a crash left it.
    recipients
        Who was handed an export or a certificate.
    policy, debt
        Of a partition that looks at the data.
    origin
        Where the configuration comes from.
    """

    store: str = field(default_factory=lambda: secrets.token_hex(16))
    size: int = 0
    length: int = 0
    certificates: int = 0
    frontier: tuple[str, ...] = ()
    time: str = ""
    checkpoint: Mapping[str, object] | None = None
    certificate: str | None = None
    after: Mapping[str, str] = field(default_factory=dict)
    openings: Mapping[str, str] = field(default_factory=dict)
    signers: Mapping[str, str] = field(default_factory=dict)
    done: str = ""
    recipients: tuple[Mapping[str, str], ...] = ()
    policy: Policy = Policy()
    debt: Debt = Debt()
    origin: str = "given"

    @property
    def tree(self) -> Frontier:
        """The ledger's tree, as far as it is needed to add to it."""
        return Frontier(self.size, tuple(bytes.fromhex(one) for one in self.frontier))

    def is_settled(self, request: str, *, of: str) -> bool:
        """Say whether a request was swapped in already, or made to a store that this one took the place of.

        Its file is left behind where a crash came between the swap and its removal.
        """
        return request == self.done or of not in ("", self.store)

    def as_dict(self) -> dict[str, object]:
        """Return it as it lies in the manifest."""
        others = {
            spec.name: getattr(self, spec.name)
            for spec in dataclasses.fields(self)
            if spec.name not in (*_OF_LEDGER, "policy", "debt", "recipients")
        }
        return {
            **others,
            "ledger": {
                "size": self.size,
                "bytes": self.length,
                "certificates": self.certificates,
                "frontier": list(self.frontier),
                "time": self.time,
            },
            "recipients": [dict(one) for one in self.recipients],
            "policy": dataclasses.asdict(self.policy),
            "debt": dataclasses.asdict(self.debt),
        }

    @classmethod
    def from_dict(cls, values: object) -> Record:
        """Read it back from a manifest."""
        try:
            rest = dict(values)  # type: ignore[call-overload]
            ledger = dict(rest.pop("ledger"))
            made = cls(
                **{
                    **rest,
                    **{name: ledger[name] for name in ("size", "certificates", "time")},
                    "length": ledger["bytes"],
                    "frontier": tuple(ledger["frontier"]),
                    "recipients": tuple(rest["recipients"]),
                    "policy": Policy(**rest["policy"]),
                    "debt": Debt(**rest["debt"]),
                }
            )
            _ = made.tree
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"the manifest's record does not fit ({type(error).__name__} {error})") from None
        return made
