"""Is the state whole? The manifest, the files it names, what lies beside them, and what they hold.

Everything here can be seen without a key, and made to fit by whoever can write to the folder: that it is what somebody
published is the question of `signed`.
"""

from __future__ import annotations

from collections.abc import Mapping

from receraser.data.ids import key_check
from receraser.errors import ProofError
from receraser.keys import PUBLIC_KEY, has_key, load_key
from receraser.proof.manifest import files_named, roles
from receraser.store.layout import PARTS, is_pending
from receraser.verify.case import Case
from receraser.verify.names import BLIND, LOOKING
from receraser.verify.words import counted, shown

__all__ = [
    "check_content",
    "check_files",
    "check_level",
    "check_manifest",
    "check_pending",
    "check_strays",
    "check_wishes",
]


def check_manifest(case: Case) -> str:
    """Check the manifest's bytes, its form, and what it says of itself."""
    faults, manifest = list(case.evidence.faults), case.evidence.manifest
    if manifest is not None:
        pseudonyms = manifest["pseudonyms"]
        public = pseudonyms["key_check"] == key_check(PUBLIC_KEY)
        if public != pseudonyms["public_key"]:
            faults.append(f"pseudonyms.public_key is {pseudonyms['public_key']}; expected {public} by key_check")
        own = None if case.ledger_key is None else case.keyring
        if not public and own is not None and has_key(own.folder):
            found = key_check(load_key(own.folder))
            if pseudonyms["key_check"] != found:
                faults.append(f"pseudonyms.key_check is {pseudonyms['key_check']}; that of the key at hand is {found}")
        if manifest["config"]["shards"] != len(manifest["shards"]):
            faults.append(f"it lists {len(manifest['shards'])} shards; expected {manifest['config']['shards']}")
    if faults or manifest is None:
        raise ProofError(f"manifest.json: {shown(faults)}")
    return f"store {case.store}, {counted(len(manifest['shards']), 'shard')}"


def check_files(case: Case) -> str:
    """Check that every file is there, of its size, and what its name says; also those of an earlier state."""
    manifest, what = case.manifest, roles(case.manifest)
    sizes = dict(manifest["files"])
    faults = [f"files/{name} is listed, and nothing refers to it" for name in sorted(sizes.keys() - what)]
    faults += [f"files/{name} ({what[name]}) is not listed" for name in sorted(what.keys() - sizes)]
    kept = case.evidence.kept()
    for newer, (name, old) in zip([manifest, *(one for _, one in kept)], kept, strict=False):
        assert newer["previous"] is not None
        if newer["previous"]["files"] != files_named(old):
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


def check_strays(case: Case) -> str:
    """Check that nothing lies in the folder but the store."""
    ledger, end, found = case.evidence.ledger_name, case.manifest["record"]["ledger"]["bytes"], []
    named = {
        *PARTS,
        ledger,
        *(f"files/{name}" for name in files_named(case.manifest)),
    }  # a folder stands for an empty one
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
    found = case.requests
    if found.faults:
        raise ProofError(shown(found.faults))
    waiting, done = len(found.waiting), found.settled
    left = f"; {done} done or of a store that was replaced, whose file is there until the next change" if done else ""
    by = ", written with the keys of this store" if waiting and case.request_key is not None else ""
    return f"{counted(waiting, 'request is', 'requests are') if waiting else 'no request is'} waiting{by}{left}"
