"""The checks of a store, one after the other. Each says what it found; none stops the others.

::

    manifest      its checksum, its form, its very bytes
    files         each is there, of its size, and what its name says; and nothing lies beside them (strays)
    content       rows, assignment, configuration and weights give the digest, shard by shard
    level         the level that is said is the one that follows
    wishes        what people asked not to be shown can be read
    ledger        every entry, in order, under the root that the manifest covers
    signers       whose keys signed, and who vouches for them
    checkpoint    the ledger's root, signed
    certificates  each one: its hash, its signature, its place in the ledger, its parent
    state         the newest certificate is about what lies here: commitments, level, configuration, environment
    pending       requests that are waiting
    certificate, receipt, witness   papers that were brought along (`--certificate`, `--receipt`, `--checkpoint`)

What holds afterwards: the store is, byte for byte, what the holder of the signing key published, if nobody else has the
key. It does not follow that the weights were learned from the rows (`replay` shows that), that nothing else is left of
what was forgotten (`residue`), or that this is the newest state (a checkpoint kept elsewhere shows it).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from receraser.data.ids import key_check
from receraser.errors import ProofError, ReceraserError
from receraser.keys import PUBLIC_KEY
from receraser.partition.registry import PARTITIONS
from receraser.proof import merkle
from receraser.proof.certificate import ACTIONS, PAYLOAD_TYPE, Certificate
from receraser.proof.commitment import opens
from receraser.proof.fields import decoded
from receraser.proof.keyring import Keyring
from receraser.proof.ledger import CHECKPOINT_TYPE, Entry, check_checkpoint, read_entries
from receraser.proof.receipt import Receipt
from receraser.proof.signing import PublicKey
from receraser.store.pending import Pending
from receraser.verify.content import UNFIT, Content, recompute, roles
from receraser.verify.evidence import Evidence, Manifest, shown
from receraser.verify.signatures import Vouchers, named_signers, who

__all__ = ["Check", "Issued", "Verifier", "checked", "verify"]

_HANDED_OVER = ("certificate", "export")
_KINDS = ("add", "forget", "rebuild")


@dataclass(frozen=True)
class Check:
    """One check: whether it holds, and what was found."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, eq=False)
class Issued:
    """A certificate of the ledger: its entry, its file's SHA-256, what it says, and the key that signed it."""

    entry: Entry
    sha256: str
    certificate: Certificate
    key: str


def checked(name: str, check: Callable[[], str]) -> Check:
    """Run a check; what it raises is what it found."""
    try:
        return Check(name, ok=True, detail=check())
    except ReceraserError as error:
        return Check(name, ok=False, detail=str(error))
    except (*UNFIT, RecursionError) as error:
        return Check(name, ok=False, detail=f"cannot be checked: {type(error).__name__} {error}")


def verify(
    store: Path,
    *,
    vouchers: Vouchers | None = None,
    keyring: Keyring | None = None,
    certificate: bytes | None = None,
    receipt: bytes | None = None,
    checkpoint: bytes | None = None,
) -> list[Check]:
    """Check a store, and papers that were brought along; raises only where there is no store."""
    return Verifier(Evidence(store), vouchers, keyring).checks(
        certificate=certificate, receipt=receipt, checkpoint=checkpoint
    )


class Verifier:
    """The checks of one store.

    Parameters
    ----------
    evidence
        What lies there.
    vouchers
        The keys that somebody vouches for.
    keyring
        The operator's keys, where they are at hand: they tell whether the store is the operator's own.
    """

    def __init__(self, evidence: Evidence, vouchers: Vouchers | None = None, keyring: Keyring | None = None) -> None:
        self.evidence = evidence
        self.vouchers = vouchers or Vouchers()
        self.keyring = keyring

    def checks(
        self, *, certificate: bytes | None = None, receipt: bytes | None = None, checkpoint: bytes | None = None
    ) -> list[Check]:
        """Run all checks of the store, and those of papers that were brought along."""
        content = checked("content", self._content)  # reads the files, and notes what is wrong with them
        todo: list[tuple[str, Callable[[], str]]] = [
            ("manifest", self._manifest),
            ("files", self._files),
            ("strays", self._strays),
            ("content", lambda: ""),
            ("level", self._level),
            ("wishes", self._wishes),
            ("ledger", self._ledger),
            ("signers", self._signers),
            ("checkpoint", self._checkpoint),
            ("certificates", self._certificates),
            ("state", self._state),
            ("pending", self._pending),
        ]
        if certificate is not None:
            todo.append(("certificate", lambda: self._handed_certificate(certificate)))
        if receipt is not None:
            todo.append(("receipt", lambda: self._handed_receipt(receipt)))
        if checkpoint is not None:
            todo.append(("witness", lambda: self._handed_checkpoint(checkpoint)))
        return [content if name == "content" else checked(name, check) for name, check in todo]

    # ------------------------------------------------------------------ what others need

    @property
    def manifest(self) -> Manifest:
        """What the manifest says, whatever else is wrong with it."""
        if self.evidence.manifest is None:
            raise ProofError("cannot be checked: nothing can be made of the manifest")
        return self.evidence.manifest

    @cached_property
    def content(self) -> Content:
        """What the files hold."""
        return recompute(self.manifest, self.evidence.get)

    @cached_property
    def entries(self) -> list[Entry]:
        """The entries of the ledger that the manifest covers."""
        head, data = self.manifest["record"]["ledger"], self.evidence.ledger()
        if len(data) < head["bytes"]:
            raise ProofError(f"the ledger has {len(data)} bytes; expected {head['bytes']}")
        return read_entries(data[: head["bytes"]])

    @cached_property
    def leaves(self) -> list[bytes]:
        """The leaves of the ledger's tree."""
        return [entry.leaf() for entry in self.entries]

    @cached_property
    def signers(self) -> dict[str, PublicKey]:
        """The keys that the store names."""
        return named_signers(self.manifest["record"]["signers"])

    @cached_property
    def bound(self) -> bool:
        """Whether every signature must be by a key that somebody vouches for."""
        own = False
        if self.keyring is not None:
            own = self.keyring.ledger_key(self.manifest["record"]["store"], create=False) is not None
        return self.vouchers.bind(self.signers, own=own)

    @cached_property
    def issued(self) -> tuple[list[Issued], list[str]]:
        """The certificates that entries name, and what is wrong with the others."""
        found, faults = [], []
        for entry in self.entries:
            if entry.certificate is not None:
                try:
                    found.append(self._issued(entry, entry.certificate))
                except ReceraserError as error:
                    faults.append(f"entry {entry.index}: {error}")
        return found, faults

    def _issued(self, entry: Entry, name: str) -> Issued:
        data = self.evidence.certificate(name)
        payload, key = self._opened(decoded("the certificate's file", data.removesuffix(b"\n")), PAYLOAD_TYPE)
        return Issued(entry, name, Certificate.parse(payload), key)

    def _opened(self, envelope: object, kind: str) -> tuple[bytes, str]:
        return self.vouchers.open(envelope, kind, self.signers, bound=self.bound)

    @property
    def newest(self) -> Issued:
        """The certificate of the last change; every change since the first one that was signed must have one."""
        changes = [entry for entry in self.entries if entry.action in ACTIONS]
        if not changes or changes[-1].certificate is None:
            last = (
                f"entry {changes[-1].index} ({changes[-1].action})" if changes else "there is no entry of a change: it"
            )
            raise ProofError(f"the state is certified by nobody: {last} has no certificate")
        found, faults = self.issued
        if not found or found[-1].entry is not changes[-1]:
            raise ProofError(f"cannot be checked: {faults[-1] if faults else 'there is no certificate'}")
        return found[-1]

    @property
    def signed(self) -> bool:
        """Whether anything in the store claims to be signed."""
        record = self.manifest["record"]
        return bool(record["checkpoint"] or record["certificate"] or record["signers"] or record["after"]) or any(
            entry.certificate for entry in self.entries
        )

    def _unsigned(self) -> str:
        """Return what is said of a store in which nothing is signed; raise if somebody expects a signature."""
        if self.bound:
            raise ProofError(
                f"nothing is signed in this store; expected a signature by a key of {self.vouchers.source}"
            )
        return "nothing is signed in this store: it shows that it is whole, not who made it"

    # ------------------------------------------------------------------ the state

    def _manifest(self) -> str:
        faults = list(self.evidence.faults)
        manifest = self.evidence.manifest
        if manifest is not None:
            pseudonyms = manifest["pseudonyms"]
            public = pseudonyms["key_check"] == key_check(PUBLIC_KEY)
            if public != pseudonyms["public_key"]:
                faults.append(f"pseudonyms.public_key is {pseudonyms['public_key']}; expected {public} by key_check")
            if manifest["config"]["shards"] != len(manifest["shards"]):
                faults.append(f"{len(manifest['shards'])} shards; expected {manifest['config']['shards']} by config")
        if faults or manifest is None:
            raise ProofError(f"manifest.json: {shown(faults)}")
        return f"store {manifest['record']['store']}, {_count(len(manifest['shards']), 'shard')}"

    def _files(self) -> str:
        sizes = dict(self.manifest["files"])
        needed = set(roles(self.manifest))
        faults = [f"files/{name} is listed, and nothing refers to it" for name in sorted(sizes.keys() - needed)]
        faults += [f"files/{name} is referred to, and not listed" for name in sorted(needed - sizes.keys())]
        kept = self.evidence.kept()
        whole = self.manifest
        for name, old in kept:
            named = set(old["files"])
            named |= set() if old["previous"] is None else {old["previous"]["manifest"], *old["previous"]["files"]}
            assert whole["previous"] is not None
            if sorted(named) != whole["previous"]["files"]:
                faults.append(f"previous.files are not those that the earlier manifest, files/{name}, names")
            sizes |= old["files"]
            whole = old
        what = roles(self.manifest)
        for name in sorted({*sizes, *(name for name, _ in kept)}):
            found = self.evidence.look(name)
            if isinstance(found, str):
                faults.append(f"{found}; {what[name]}" if name in what else found)
            elif found != sizes.get(name, found):
                faults.append(f"files/{name} has {found} bytes; the manifest says {sizes[name]}")
        if faults:
            raise ProofError(shown(faults))
        old_states = f"; {_count(len(kept), 'earlier state')} kept" if kept else ""
        return f"{_count(len(sizes), 'file')} of {sum(sizes.values()):,} bytes, each what its name says{old_states}"

    def _strays(self) -> str:
        manifest = self.manifest
        named = {"manifest.json", "lock", "ledger", *(f"files/{name}" for name in manifest["files"])}
        for name, old in self.evidence.kept():
            named |= {f"files/{name}", *(f"files/{one}" for one in old["files"])}
        named |= {f"certificates/{entry.certificate}.json" for entry in self.entries if entry.certificate}
        found = []
        for name, path in self.evidence.everything():
            if path.is_symlink():
                found.append(f"{name} (a link)")
            elif name == "lock" and path.stat().st_size:
                found.append(f"lock holds {path.stat().st_size} bytes; expected none")
            elif name == "ledger" and path.stat().st_size > (end := manifest["record"]["ledger"]["bytes"]):
                found.append(f"ledger goes on behind its end ({path.stat().st_size} bytes; expected {end})")
            elif name not in named and not _is_pending(name) and name not in ("certificates", "files", "pending"):
                found.append(name)
        if found:
            raise ProofError(
                f"{shown(found)}: no part of the store; left by a write that was interrupted or is going on at this "
                "moment, or put there by somebody. The next change of the store removes what an interrupted write left"
            )
        return "nothing lies in the folder that is no part of the store"

    def _content(self) -> str:
        content = self.content
        faults = list(content.faults)
        gone = sorted(set(content.titles) - set(content.train.items.ids))
        if gone:
            faults.append(f"{_count(len(gone), 'title')} of items that are in no row")
        marks = content.landmarks
        if marks is not None:
            alive = {*content.train.items, *content.train.users}
            if lost := sum(name not in alive for name in marks.ids):
                faults.append(f"{_count(lost, 'landmark')} of what is in no row")
        if faults:
            raise ProofError(shown(faults))
        held = "" if content.valid is None else f" and {_count(len(content.valid), 'validation row')}"
        return f"{_count(len(content.train), 'row')}{held} and the weights give the digest, in every shard and in all"

    def _level(self) -> str:
        manifest, config = self.manifest, self.manifest["config"]
        from_file = _settings(config, "partition_settings").get("embeddings") == "file"
        partition = str(config["partition"])
        if partition not in PARTITIONS:
            raise ProofError(f"config.partition is {partition!r}; this version knows {', '.join(sorted(PARTITIONS))}")
        if from_file or (manifest["inherited"] and PARTITIONS[partition].remembers_data):
            follows = "L1"
        else:
            follows = "L3" if manifest["previous"] is None else "L2"
        if manifest["inherited"] and not PARTITIONS[partition].remembers_data:
            raise ProofError(f"inherited is true; the partition {partition} looks at no data, and none is inherited")
        if manifest["level"] != follows:
            raise ProofError(f"the level is said to be {manifest['level']}; what the store holds makes it {follows}")
        return f"{follows}, as it is said"

    def _wishes(self) -> str:
        wishes = self.content.wishes
        if self.manifest["wishes"] is not None and not len(wishes):
            raise ProofError(f"the file of wishes (files/{self.manifest['wishes']}) holds none; expected no file then")
        if not len(wishes):
            return "none are stored"
        return f"{_count(len(wishes), 'pair')} kept out of lists on request: user and item are stored for that"

    # ------------------------------------------------------------------ what was signed

    def _ledger(self) -> str:
        head, entries = self.manifest["record"]["ledger"], self.entries
        faults = []
        if len(entries) != head["size"]:
            faults.append(f"{len(entries)} entries; the manifest says {head['size']}")
        found = merkle.Frontier.of(self.leaves)
        if [one.hex() for one in found.hashes] != head["frontier"]:
            faults.append(
                f"the root of its {len(entries)} entries is {found.root().hex()}; the manifest covers another"
            )
        named = sum(entry.certificate is not None for entry in entries)
        if named != head["certificates"]:
            faults.append(f"{named} entries name a certificate; the manifest says {head['certificates']}")
        last = entries[-1].time if entries else ""
        if last != head["time"]:
            faults.append(f"the last entry is of {last or 'no time'}; the manifest says {head['time']!r}")
        given = [entry.action for entry in entries if entry.action in _HANDED_OVER]
        told = [one["what"] for one in self.manifest["record"]["recipients"]]
        if given != told:
            faults.append(
                f"{len(given)} entries say that something was handed over; the manifest names {len(told)} recipients"
            )
        if faults:
            raise ProofError(f"ledger: {shown(faults)}")
        return f"{_count(len(entries), 'entry', 'entries')}, root {found.root().hex()}"

    def _signers(self) -> str:
        if not self.signed:
            return self._unsigned()
        unknown = sorted(self.signers.keys() - self.vouchers.keys.keys())
        if unknown and self.bound:
            known = ", ".join(sorted(self.vouchers.keys)) or "none"
            raise ProofError(
                f"the store names the key {', '.join(unknown)}, for which {self.vouchers.source} does not vouch "
                f"(known there: {known})"
            )
        return f"{', '.join(sorted(self.signers))}: {who(sorted(self.signers), self.vouchers)}"

    def _checkpoint(self) -> str:
        record = self.manifest["record"]
        if record["checkpoint"] is None:
            if self.signed:
                raise ProofError("the ledger's root is not signed; expected a checkpoint, for there are signatures")
            return self._unsigned()
        payload, key = self._opened(record["checkpoint"], CHECKPOINT_TYPE)
        body = decoded("the checkpoint", payload)
        check_checkpoint(body, store=record["store"], frontier=merkle.Frontier.of(self.leaves))
        if body["time"] != self.entries[-1].time:  # type: ignore[index]
            raise ProofError(f"the checkpoint's time is {body['time']}; the last entry's {self.entries[-1].time}")  # type: ignore[index]
        return f"{_count(len(self.entries), 'entry', 'entries')}, signed with key {key}"

    def _certificates(self) -> str:
        found, faults = self.issued
        roots = {}
        tree = merkle.Frontier()
        for entry, leaf in zip(self.entries, self.leaves, strict=True):
            if entry.certificate is not None:
                roots[entry.index] = tree.root().hex()
            tree = tree.appended(leaf)
        for one in found:
            faults += self._place_of(one, roots[one.entry.index])
        faults += self._gaps()
        by_name = {one.sha256: one for one in found}
        expected: str | None = None
        for entry in self.entries:
            if (one_ := by_name.get(entry.certificate or "")) is not None:
                faults += _chain(one_, by_name.get(expected or ""), expected)
            expected = entry.certificate or expected
        if faults:
            raise ProofError(shown(faults))
        if not found:
            return self._unsigned()
        by = ", ".join(sorted({one.key for one in found}))
        return (
            f"{_count(len(found), 'certificate')}, each signed (key {by}), in its place, and following the one before"
        )

    def _place_of(self, one: Issued, root: str) -> list[str]:
        """Return what of a certificate does not fit its place in the ledger."""
        says, entry = one.certificate, one.entry
        pairs = [
            ("store", says.store, self.manifest["record"]["store"]),
            ("ledger.index", says.ledger["index"], entry.index),
            ("ledger.root", says.ledger["root"], root),
            ("action", says.action, entry.action),
        ]
        return [
            f"entry {entry.index}: its certificate says {field} {found}; expected {expected}"
            for field, found, expected in pairs
            if found != expected
        ]

    def _gaps(self) -> list[str]:
        """Return the changes that nobody signed, after one that somebody did."""
        changes = [entry for entry in self.entries if entry.action in ACTIONS]
        return [
            f"entry {after.index} ({after.action}) has no certificate, and an earlier change has"
            for n, (_, after) in enumerate(pairwise(changes), 1)
            if after.certificate is None and any(one.certificate for one in changes[:n])
        ]

    def _state(self) -> str:
        if not self.signed:
            return self._unsigned()
        record, one = self.manifest["record"], self.newest
        says = one.certificate
        debt = {name: value or None if name == "since" else value for name, value in record["debt"].items()}
        environment = {name: str(value) for name, value in self.manifest["environment"].items()}
        pairs: list[tuple[str, object, object]] = [
            ("record.certificate", record["certificate"], one.sha256),
            ("record.after", record["after"], dict(says.after)),
            ("level", self.manifest["level"], says.level),
            ("config", self.manifest["config"], says.config),
            ("config.seed", self.manifest["config"]["seed"], says.seed),
            ("environment", environment, says.environment),
            ("shards", len(self.manifest["shards"]), says.shards["count"]),
            ("record.origin", record["origin"], says.origin),
            ("record.debt", debt, dict(says.debt)),
        ]
        faults = [
            f"{field} is {_short(_differing(found, expected)[0])}; the certificate says "
            f"{_short(_differing(found, expected)[1])}"
            for field, found, expected in pairs
            if found != expected
        ]
        nonces = {name: bytes.fromhex(text) for name, text in record["openings"].items()}
        if set(nonces) != {"digest", "data"}:
            raise ProofError(shown([*faults, "record.openings are missing: the commitments cannot be opened"]))
        if not opens(says.after["digest"], "digest", nonces["digest"], self.manifest["digest"].encode()):
            faults.append("after.digest does not open to the manifest's digest")
        if not opens(says.after["data"], "data", nonces["data"], self.content.data.encode()):
            faults.append("after.data does not open to the digest of the rows")
        if faults:
            raise ProofError(f"entry {one.entry.index}: {shown(faults)}")
        return f"what certificate {one.sha256} (entry {one.entry.index}, {says.action}) says of it: level {says.level}"

    def _pending(self) -> str:
        folder, waiting, done = self.evidence.path / "pending", 0, 0
        faults = []
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            if not _is_pending(f"pending/{path.name}"):
                continue  # a stray
            try:
                one = Pending.decode(path.stem, path.read_bytes())
            except (ReceraserError, OSError) as error:
                faults.append(str(error))
                continue
            if one.kind not in _KINDS or (one.kind == "add") != (one.rows is not None):
                faults.append(f"pending/{path.name} asks for {one.kind!r}; expected {', '.join(_KINDS)}")
            waiting += one.id != self.manifest["record"]["done"]
            done += one.id == self.manifest["record"]["done"]
        if faults:
            raise ProofError(shown(faults))
        left = "; one is done, and its file is still there: the next change removes it" if done else ""
        verb = "is" if waiting == 1 else "are"
        return f"{_count(waiting, 'request')} {verb} waiting{left}" if waiting else f"no request is waiting{left}"

    # ------------------------------------------------------------------ papers that were brought along

    def _handed_certificate(self, data: bytes) -> str:
        one = self.handed(data)
        index, size = one.entry.index, len(self.leaves)
        tree = merkle.Frontier.of(self.leaves)
        proof = merkle.inclusion_proof(self.leaves, index)
        if not merkle.includes(one.entry.leaf(), index, size, proof, tree.root()):
            raise ProofError(f"entry {index} is not under the root {tree.root().hex()} of the ledger")
        covered = "" if self.manifest["record"]["checkpoint"] else ", which nobody signed"
        return (
            f"{one.sha256} is entry {index} of {size} ({one.entry.action}, {one.entry.time}), by {_count(len(proof), 'hash', 'hashes')} "
            f"under the root {tree.root().hex()}{covered}; signed with key {one.key}"
        )

    def handed(self, data: bytes) -> Issued:
        """Return the certificate in a file, which must be one of this store's."""
        from receraser.fingerprint import of_bytes

        name = of_bytes(data)
        entry = next((entry for entry in self.entries if entry.certificate == name), None)
        if entry is not None:
            return self._issued(entry, name)
        payload, key = self._opened(decoded("the certificate's file", data.removesuffix(b"\n")), PAYLOAD_TYPE)
        says = Certificate.parse(payload)
        own = self.manifest["record"]["store"]
        if says.store != own:
            raise ProofError(f"it is of another store: {says.store}; this one is {own}")
        raise ProofError(
            f"it is signed (key {key}) as entry {says.ledger['index']} of this store, but no entry of its "
            f"{len(self.entries)} names {name}: the ledger was rewritten or is an older copy"
        )

    def _handed_receipt(self, data: bytes) -> str:
        receipt = Receipt.parse(data.removesuffix(b"\n"))
        found, faults = self.issued
        one = next((one for one in found if one.sha256 == receipt.certificate), None)
        if one is None:
            wrong = f" ({shown(faults)})" if faults else ""
            raise ProofError(f"it is for certificate {receipt.certificate}, which is none of this store's{wrong}")
        if not receipt.matches(one.certificate, sha256=one.sha256):
            raise ProofError(
                f"it does not open certificate {one.sha256} (entry {one.entry.index}): what it names is not what was "
                "asked for there, or the receipt was changed"
            )
        return (
            f"what it names, {_article(receipt.kind)}, is one of {_count(receipt.leaves, 'subject')} of certificate "
            f"{one.sha256} (entry {one.entry.index}, {one.entry.action}, {one.entry.time}, level {one.certificate.level})"
        )

    def _handed_checkpoint(self, data: bytes) -> str:
        payload, key = self._opened(decoded("the checkpoint's file", data.removesuffix(b"\n")), CHECKPOINT_TYPE)
        body = decoded("the checkpoint", payload)
        if not isinstance(body, dict) or type(body.get("size")) is not int:
            raise ProofError("the checkpoint is damaged: expected store, size, root and time, and nothing else")
        own, size, now = self.manifest["record"]["store"], body["size"], len(self.leaves)
        root = merkle.root(self.leaves)
        if body.get("store") == own and size > now:
            raise ProofError(
                f"the ledger had {size} entries under the root {body.get('root')} when the checkpoint was signed, and "
                f"has {now} under {root.hex()}: it was cut off, or this is an older copy of the store"
            )
        check_checkpoint(body, store=own, frontier=merkle.Frontier.of(self.leaves[: max(size, 0)]))
        proof = merkle.consistency_proof(self.leaves, size)
        if not merkle.consistent(size, bytes.fromhex(body["root"]), now, root, proof):
            raise ProofError(
                f"the ledger of {now} entries, root {root.hex()}, did not grow out of the {size} under {body['root']}"
            )
        return (
            f"the ledger of {now} entries grew out of the {size} of {body['time']} (root {body['root']}), signed with "
            f"key {key}; nothing was changed or taken out since"
        )


# ---------------------------------------------------------------------- words


def _chain(one: Issued, parent: Issued | None, expected: str | None) -> list[str]:
    """Return what of a certificate does not follow from the one before it."""
    says, where = one.certificate, f"entry {one.entry.index}: its certificate says"
    faults = []
    if says.parent != expected:
        faults.append(f"{where} parent {says.parent}; expected {expected}")
    elif parent is not None and says.before is not None and says.before != parent.certificate.after:
        faults.append(
            f"{where} before {says.before['digest']}; expected its parent's after, {parent.certificate.after['digest']}"
        )
    return faults


def _differing(found: object, expected: object) -> tuple[object, object]:
    """Return what differs: of two tables, the entries that do."""
    if not isinstance(found, Mapping) or not isinstance(expected, Mapping):
        return found, expected
    names = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
    return tuple({name: one[name] for name in names if name in one} for one in (found, expected))  # type: ignore[return-value]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _settings(config: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = config[key]
    assert isinstance(value, Mapping)  # the manifest's form was checked
    return value


def _is_pending(name: str) -> bool:
    folder, _, file = name.partition("/")
    stem = file.removesuffix(".json")
    return folder == "pending" and len(file) == 37 and len(stem) == 32 and set(stem) <= set("0123456789abcdef")


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _count(n: int, one: str, many: str | None = None) -> str:
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"
