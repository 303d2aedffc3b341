"""The checks of a store, one after the other. Each says what it found; none stops the others.

::

    manifest      its checksum, its form, its very bytes
    files         each is there, of its size, and what its name says
    strays        and nothing lies beside them
    content       rows, assignment, configuration and weights give the digest, shard by shard
    level         the level that is said is the one that follows
    wishes        what people asked not to be shown can be read
    ledger        every entry, in order, under the root that the manifest covers
    signers       whose keys signed, and who vouches for them
    checkpoint    the ledger's root and the manifest, signed
    certificates  each one: its hash, its signature, its place in the ledger, its parent
    state         the newest certificate is about what lies here: commitments, level, configuration, environment
    pending       requests that are waiting

and of papers that were brought along (`papers`) `certificate`, `receipt` and `witness`. When all hold, the state and
the ledger are what the holder of the signing key published. It does not follow that the weights were learned from the
rows (`replay` shows that), that nothing is left of what was forgotten elsewhere (`residue`), or that this is the newest
state (a checkpoint kept elsewhere shows that). docs/verifying.md says what each check proves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec

from receraser.data.ids import key_check
from receraser.errors import ProofError, ReceraserError
from receraser.keys import PUBLIC_KEY, has_key, load_key
from receraser.proof import merkle
from receraser.proof.certificate import ACTIONS
from receraser.proof.commitment import opens
from receraser.proof.fields import decoded
from receraser.proof.keyring import Keyring
from receraser.proof.ledger import CHECKPOINT_TYPE, check_checkpoint, manifest_hash
from receraser.store.layout import PARTS
from receraser.store.pending import Pending
from receraser.verify.case import Case, Issued
from receraser.verify.content import UNFIT, roles
from receraser.verify.evidence import Evidence, Manifest, shown
from receraser.verify.names import BLIND, LOOKING
from receraser.verify.signatures import Vouchers, who

__all__ = ["CHECKS", "Check", "checked", "counted", "examine"]

P = ParamSpec("P")

_HANDED_OVER = ("certificate", "export")
_KINDS = ("add", "forget", "rebuild")
_TRIES = 3


@dataclass(frozen=True)
class Check:
    """One check: whether it holds, and what was found."""

    name: str
    ok: bool
    detail: str


def checked(name: str, check: Callable[P, str], *arguments: P.args, **options: P.kwargs) -> Check:
    """Run a check; what it raises is what it found."""
    try:
        return Check(name, ok=True, detail=check(*arguments, **options))
    except ReceraserError as error:
        return Check(name, ok=False, detail=str(error))
    except (*UNFIT, RecursionError) as error:
        return Check(name, ok=False, detail=f"cannot be checked: {type(error).__name__} {error}")


def examine(
    store: Path, *, vouchers: Vouchers | None = None, keyring: Keyring | None = None
) -> tuple[Case, list[Check]]:
    """Check a store; raises only where there is none. Where somebody publishes meanwhile, it is begun anew."""
    for _ in range(_TRIES):
        case = Case(Evidence(store), vouchers, keyring)
        order = sorted(CHECKS, key=lambda name: name != "content")  # it reads the files, once
        done = {name: checked(name, CHECKS[name], case) for name in order}
        if all(one.ok for one in done.values()) or Evidence(store).text == case.evidence.text:
            break
    return case, [done[name] for name in CHECKS]


# ---------------------------------------------------------------------- the state


def check_manifest(case: Case) -> str:
    """Check the manifest's bytes, its form, and what it says of itself."""
    faults, manifest = list(case.evidence.faults), case.evidence.manifest
    if manifest is not None:
        pseudonyms = manifest["pseudonyms"]
        public = pseudonyms["key_check"] == key_check(PUBLIC_KEY)
        if public != pseudonyms["public_key"]:
            faults.append(f"pseudonyms.public_key is {pseudonyms['public_key']}; expected {public} by key_check")
        if not public and case.own is not None and has_key(case.own.folder):
            found = key_check(load_key(case.own.folder))
            if pseudonyms["key_check"] != found:
                faults.append(f"pseudonyms.key_check is {pseudonyms['key_check']}; that of the key at hand is {found}")
        if manifest["config"]["shards"] != len(manifest["shards"]):
            faults.append(f"it lists {len(manifest['shards'])} shards; expected {manifest['config']['shards']}")
    if faults or manifest is None:
        raise ProofError(f"manifest.json: {shown(faults)}")
    return f"store {manifest['record']['store']}, {counted(len(manifest['shards']), 'shard')}"


def check_files(case: Case) -> str:
    """Check that every file is there, of its size, and what its name says; also those of an earlier state."""
    manifest, what = case.manifest, roles(case.manifest)
    sizes = dict(manifest["files"])
    faults = [f"files/{name} is listed, and nothing refers to it" for name in sorted(sizes.keys() - what)]
    faults += [f"files/{name} ({what[name]}) is not listed" for name in sorted(what.keys() - sizes)]
    kept = case.evidence.kept()
    for newer, (name, old) in zip([manifest, *(one for _, one in kept)], kept, strict=False):
        assert newer["previous"] is not None
        if newer["previous"]["files"] != _named(old):
            faults.append(f"previous.files are not those that the earlier manifest (files/{name}) names")
        sizes |= old["files"]
    for name in sorted({*sizes, *(name for name, _ in kept)}):
        found = case.evidence.look(name)
        if isinstance(found, str):
            faults.append(f"{found}; it holds {what[name]}" if name in what else found)
        elif found != sizes.get(name, found):
            faults.append(f"files/{name} has {found} bytes; the manifest says {sizes[name]}")
    if faults:
        raise ProofError(shown(faults))
    earlier = f"; {counted(len(kept), 'earlier state')} kept" if kept else ""
    return f"{counted(len(sizes), 'file')} of {sum(sizes.values()):,} bytes, each what its name says{earlier}"


def _named(manifest: Manifest) -> list[str]:
    """Return the files that a manifest names, of itself and of what it keeps."""
    previous = manifest["previous"]
    return sorted({*manifest["files"], *([] if previous is None else [previous["manifest"], *previous["files"]])})


def check_strays(case: Case) -> str:
    """Check that nothing lies in the folder but the store."""
    ledger, end, found = case.evidence.ledger_name, case.manifest["record"]["ledger"]["bytes"], []
    named = {*PARTS, ledger, *(f"files/{name}" for name in _named(case.manifest))}  # a folder stands for an empty one
    named |= {f"certificates/{entry.certificate}.json" for entry in case.entries if entry.certificate}
    for name, path in case.evidence.everything():
        size = path.lstat().st_size
        if path.is_symlink() or (name not in named and not is_pending(name)):
            found.append(name)
        elif name == "lock" and size:
            found.append(f"lock, which holds {counted(size, 'byte')} and should be empty")
        elif name == "ledger" != ledger:
            found.append(f"ledger, which is of the store that was replaced ({ledger} is to take its place)")
        elif name == ledger and size > end:
            found.append(f"the end of {name}, which has {size} bytes and should have {end}")
    if found:
        raise ProofError(
            f"{shown(found)}: no part of the store; left by a write that was interrupted, or is going on at this "
            "moment (the next change of the store removes it), or put there by somebody"
        )
    return "nothing lies in the folder that is no part of the store"


def check_content(case: Case) -> str:
    """Check that the files give the digests that the manifest says, and that nothing outlives its rows."""
    content = case.content
    faults = list(content.faults)
    if gone := len(set(content.titles).difference(content.train.items)):
        faults.append(f"{counted(gone, 'title')} of items that are in no row (files/{case.manifest['titles']})")
    if content.landmarks is not None:
        alive = {*content.train.items, *content.train.users}
        if gone := sum(name not in alive for name in content.landmarks.ids):
            faults.append(f"{counted(gone, 'landmark')} of what is in no row (files/{case.manifest['landmarks']})")
    if faults:
        raise ProofError(shown(faults))
    held = "" if content.valid is None else f", {counted(len(content.valid), 'validation row')}"
    return f"{counted(len(content.train), 'row')}{held} and the weights give the digest of every shard and of the whole"


def check_level(case: Case) -> str:
    """Check that the level is the one that follows from what the store holds."""
    manifest, config = case.manifest, case.manifest["config"]
    name, settings = str(config["partition"]), config["partition_settings"]
    assert isinstance(settings, Mapping)  # the manifest's form has been checked
    if name not in BLIND | LOOKING:
        raise ProofError(f"config.partition is {name!r}; this version knows {', '.join(sorted(BLIND | LOOKING))}")
    if manifest["inherited"] and name not in LOOKING:
        raise ProofError(f"inherited is true; the partition {name} looks at no data, and inherits nothing")
    if settings.get("embeddings") == "file" or manifest["inherited"]:
        follows = "L1"
    else:
        follows = "L3" if manifest["previous"] is None else "L2"
    if manifest["level"] != follows:
        raise ProofError(f"the level is said to be {manifest['level']}; what the store holds makes it {follows}")
    return f"{follows}, as it is said"


def check_wishes(case: Case) -> str:
    """Check that what people asked not to be shown can be read."""
    wishes = case.content.wishes
    if case.manifest["wishes"] is not None and not len(wishes):
        raise ProofError(f"the file of wishes (files/{case.manifest['wishes']}) holds none; expected no file then")
    if not len(wishes):
        return "none are stored"
    return f"{counted(len(wishes), 'pair')} of user and item, stored to be kept out of lists"


def check_pending(case: Case) -> str:
    """Check that requests that wait can be read and, where the ledger's key is at hand, were written with it."""
    folder, record = case.evidence.path / "pending", case.manifest["record"]
    key = case.ledger_key if record["signers"] else None
    waiting, done, faults = 0, 0, []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if not is_pending(f"pending/{path.name}"):
            continue  # a stray
        try:
            one = Pending.decode(path.stem, data := path.read_bytes())
            settled = one.id == record["done"] or one.store not in ("", record["store"])
            if not settled:  # what is done, or was asked of a store that this one replaced, waits for nothing
                Pending.decode(path.stem, data, key)
        except (ReceraserError, OSError) as error:
            faults.append(str(error))
            continue
        if one.kind not in _KINDS or (one.kind == "add") != (one.rows is not None):
            faults.append(f"pending/{path.name} asks for {one.kind!r}; expected one of {', '.join(_KINDS)}")
        waiting, done = waiting + (not settled), done + settled
    if faults:
        raise ProofError(shown(faults))
    left = f"; {done} done or of a store that was replaced, whose file is there until the next change" if done else ""
    by = ", written with the keys of this store" if waiting and key is not None else ""
    return f"{counted(waiting, 'request is', 'requests are') if waiting else 'no request is'} waiting{by}{left}"


# ---------------------------------------------------------------------- what was signed


def check_ledger(case: Case) -> str:
    """Check the ledger's entries against what the manifest covers."""
    head, entries = case.manifest["record"]["ledger"], case.entries
    tree = merkle.Frontier.of(case.leaves)
    covered = merkle.Frontier.from_dict({"size": head["size"], "frontier": head["frontier"]})
    named = sum(entry.certificate is not None for entry in entries)
    told = [one["what"] for one in case.manifest["record"]["recipients"]]
    pairs: list[tuple[str, object, object]] = [
        ("entries", len(entries), covered.size),
        ("the root", tree.root().hex(), covered.root().hex()),
        ("entries with a certificate", named, head["certificates"]),
        ("the last entry's time", entries[-1].time if entries else "", head["time"]),
        ("things handed over", [entry.action for entry in entries if entry.action in _HANDED_OVER], told),
    ]
    faults = _differences(pairs, "the ledger gives {}; the manifest says {}")
    if faults:
        raise ProofError(shown(faults))
    name = case.evidence.ledger_name
    moved = "" if name == "ledger" else f"; still in {name}: a crash came before the other store's was replaced by it"
    return f"{counted(len(entries), 'entry', 'entries')}, root {tree.root().hex()}{moved}"


def check_signers(case: Case) -> str:
    """Check that somebody vouches for the keys that signed."""
    if not case.signed:
        return _unsigned(case)
    unnamed = {one.key for one in case.issued[0]} - case.signers.keys()
    if unnamed:
        raise ProofError(
            f"record.signers does not name the key {', '.join(sorted(unnamed))}, which signed in this store"
        )
    unknown = sorted(case.signers.keys() - case.vouchers.keys.keys())
    if unknown and case.bound:
        known = ", ".join(sorted(case.vouchers.keys)) or "none"
        raise ProofError(
            f"the store names the key {', '.join(unknown)}, for which {case.vouchers.source} does not vouch "
            f"(it knows: {known})"
        )
    return f"{', '.join(sorted(case.signers))}: {who(sorted(case.signers), case.vouchers)}"


def _unsigned(case: Case) -> str:
    """Return what is said of a store in which nothing is signed; raise if a signature was expected."""
    if case.bound:
        raise ProofError(f"nothing is signed in this store; expected signatures by a key of {case.vouchers.source}")
    return "nothing is signed in this store: that it is whole can be seen, who made it cannot"


def check_signed_root(case: Case) -> str:
    """Check the signature over the ledger's root and everything the manifest says."""
    record = case.manifest["record"]
    if record["checkpoint"] is None:
        if case.signed:
            raise ProofError("record.checkpoint is missing: the ledger goes on without a signature")
        return _unsigned(case)
    payload, key = case.opened(record["checkpoint"], CHECKPOINT_TYPE)
    body = decoded("the checkpoint", payload)
    check_checkpoint(body, store=record["store"], frontier=merkle.Frontier.of(case.leaves))
    assert isinstance(body, dict)
    if body["manifest"] != manifest_hash(case.manifest):
        raise ProofError("the manifest is not the one that was signed: something in it was changed afterwards")
    return f"{counted(len(case.entries), 'entry', 'entries')}, signed with key {key}"


def check_certificates(case: Case) -> str:
    """Check every certificate: that it is signed, in its place, and follows from the one before it."""
    found, faults = case.issued
    faults = list(faults)
    by_name = {one.sha256: one for one in found}
    tree, parent, certified = merkle.Frontier(), None, False
    for entry, leaf in zip(case.entries, case.leaves, strict=True):
        one = by_name.get(entry.certificate or "")
        if one is not None:
            faults += _misplaced(one, case.manifest["record"]["store"], tree.root().hex())
            faults += _unlinked(one, parent, by_name.get(parent or ""))
        elif certified and entry.action in ACTIONS and entry.certificate is None:
            faults.append(f"entry {entry.index} ({entry.action}) has no certificate, though an earlier change has one")
        certified = certified or entry.certificate is not None
        parent = entry.certificate or parent
        tree = tree.appended(leaf)
    if faults:
        raise ProofError(shown(faults))
    if not found:
        return _unsigned(case)
    keys = ", ".join(sorted({one.key for one in found}))
    return f"{counted(len(found), 'certificate')}, each signed (key {keys}), in its place, and following the one before"


def _misplaced(one: Issued, store: str, root: str) -> list[str]:
    """Return what of a certificate does not fit its place in the ledger."""
    says, entry = one.certificate, one.entry
    pairs: list[tuple[str, object, object]] = [
        ("store", says.store, store),
        ("ledger.index", says.ledger["index"], entry.index),
        ("ledger.root", says.ledger["root"], root),
        ("action", says.action, entry.action),
    ]
    return _differences(pairs, f"entry {entry.index}: its certificate says {{}}; expected {{}}")


def _unlinked(one: Issued, expected: str | None, parent: Issued | None) -> list[str]:
    """Return what of a certificate does not follow from the one before it."""
    says = one.certificate
    pairs: list[tuple[str, object, object]] = [("parent", says.parent, expected)]
    if parent is not None and says.before is not None:
        pairs.append(("before", dict(says.before), dict(parent.certificate.after)))
    return _differences(
        pairs, f"entry {one.entry.index}: its certificate says {{}}; expected by the one before it {{}}"
    )


def check_state(case: Case) -> str:
    """Check that the newest certificate is about the state that lies here."""
    if not case.signed:
        return _unsigned(case)
    manifest, record, one = case.manifest, case.manifest["record"], case.newest
    says = one.certificate
    pairs: list[tuple[str, object, object]] = [
        ("record.certificate", record["certificate"], one.sha256),
        ("record.after", record["after"], dict(says.after)),
        ("level", manifest["level"], says.level),
        ("config", manifest["config"], says.config),
        ("config.seed", manifest["config"]["seed"], says.seed),
        ("environment", {name: str(value) for name, value in manifest["environment"].items()}, says.environment),
        ("the number of shards", len(manifest["shards"]), says.shards["count"]),
        ("record.origin", record["origin"], says.origin),
        ("record.debt", {**record["debt"], "since": record["debt"]["since"] or None}, dict(says.debt)),
    ]
    faults = _differences(pairs, "the manifest says {}; the certificate says {}")
    for name, value in (("digest", manifest["digest"]), ("data", case.content.data)):
        nonce = bytes.fromhex(record["openings"].get(name, ""))
        if not opens(says.after[name], name, nonce, value.encode()):  # type: ignore[literal-required]
            faults.append(f"the certificate's after.{name} does not open, by record.openings, to {value}")
    if faults:
        raise ProofError(f"certificate {one.sha256} (entry {one.entry.index}): {shown(faults)}")
    return f"as certificate {one.sha256} (entry {one.entry.index}, {says.action}) has it, level {says.level}"


# What is checked, in the order in which it is told.
CHECKS: Mapping[str, Callable[[Case], str]] = {
    "manifest": check_manifest,
    "files": check_files,
    "strays": check_strays,
    "content": check_content,
    "level": check_level,
    "wishes": check_wishes,
    "ledger": check_ledger,
    "signers": check_signers,
    "checkpoint": check_signed_root,
    "certificates": check_certificates,
    "state": check_state,
    "pending": check_pending,
}


# ---------------------------------------------------------------------- words


def _differences(pairs: list[tuple[str, object, object]], sentence: str) -> list[str]:
    """Return a sentence for every field that is found to be other than expected; of tables, what differs in them."""
    faults = []
    for field, found, expected in pairs:
        if found == expected:
            continue
        if isinstance(found, Mapping) and isinstance(expected, Mapping):
            names = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
            found, expected = ({name: one.get(name) for name in names} for one in (found, expected))
        faults.append(f"{field}: {sentence.format(found, expected)}")
    return faults


def is_pending(name: str) -> bool:
    """Say whether this is the name of a request's file in a store."""
    folder, _, file = name.partition("/")
    stem = file.removesuffix(".json")
    return folder == "pending" and len(file) == 37 and len(stem) == 32 and set(stem) <= set("0123456789abcdef")


def counted(n: int, one: str, many: str | None = None) -> str:
    """Return a number and its noun.

    Examples
    --------
    >>> counted(1, "entry", "entries"), counted(2000, "row")
    ('1 entry', '2,000 rows')
    """
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"
