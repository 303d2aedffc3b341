"""`receraser inspect`: what a store holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from receraser.cli import options
from receraser.cli.console import Bar, count, print_json, print_lines, print_table, warn
from receraser.cli.papers import KeyFolder, key_known, keyring_to_read

if TYPE_CHECKING:
    from receraser.proof.keyring import Keyring
    from receraser.store.directory import DirectoryStore
    from receraser.store.record import Record
    from receraser.store.snapshot import Snapshot

__all__ = ["inspect"]


def inspect(store: options.Store, keys: KeyFolder = None, as_json: options.AsJson = False) -> None:
    """Show what a store holds, and check every file; needs no key.

    Of keys that are at hand it says which of them are this store's.
    """
    from receraser.partition.registry import PARTITIONS
    from receraser.store.directory import DirectoryStore
    from receraser.store.snapshot import read_snapshot

    place = DirectoryStore(store)
    with Bar("checking the files"):
        held = read_snapshot(place)
        manifest = place.manifest()
        _check_kept(place, manifest)
        fit = _keys(held, keyring_to_read(keys))
    strays = place.strays(manifest)
    waiting = len(place.pending())
    if waiting:
        warn(f"{count(waiting, 'request')} written down and not done yet: receraser pending finish --store {store}")
    if strays:
        what = f"{strays[0]} and {count(len(strays) - 1, 'more file')}" if len(strays) > 1 else strays[0]
        warn(f"{what} in {store}: no part of the store, left by an interrupted write or put there by somebody")
    if as_json:
        balance = round(held.state.partition.balance, 4)
        print_json({**manifest, "pending": waiting, "balance": balance, "strays": strays, "keys": fit})
        return
    state = held.state
    config = state.config
    level = min(state.level, "L2") if strays else state.level  # what was superseded may lie there still
    sizes: dict[str, int] = manifest["files"]  # type: ignore[assignment]
    key = "a public key: whoever guesses an id can recognise it" if held.public_key else "a secret key"
    record = held.record
    kept = "; the state before the last change is kept" if state.kept_old else ""
    lines = {
        "method": f"{config.method}: {config.partition} + {config.aggregation}",
        "level": f"{level}{_why(level)}{kept}",
        "model": f"{config.model} on {config.device}, seed {config.seed}",
        "settings": _settings(config.hyperparameters),
        "partition": _settings({"shards": config.shards, **config.partition_settings}),
        "aggregation": _settings(config.aggregation_settings) or "nothing to set",
        "digest": state.digest,
        "pseudonyms": f"made with {key}",
        "keys": _said(fit),
        "validation": "no rows" if state.valid is None else count(len(state.valid), "row"),
        "ledger": f"{record.size:,} entries, {count(record.certificates, 'certificate')}",
        "origin": f"of the configuration: {record.origin}",
        "handed out": _handed_out(record),
        "debt": _debt(record, remembers=PARTITIONS[config.partition].remembers_data),
        "size": f"{count(sum(sizes.values()), 'byte')} in {count(len(sizes), 'file')}, all intact",
    }
    print_lines([f"{name:<11} {text}" for name, text in lines.items()])
    columns = ["id", "rows", "users", "items", "digest"]
    reports = [vars(one.report) for one in state.shards]
    print_table(["shard", *columns[1:]], [[str(one[column])[:16] for column in columns] for one in reports])
    if len(reports) > 1:
        print_lines([f"largest shard: {state.partition.balance:.2f} x the mean"])


def _keys(held: Snapshot, keyring: Keyring | None) -> dict[str, object]:
    """Return which keys of a folder are this store's: that of its pseudonyms, one that signed for it, its ledger's."""
    from receraser.data.ids import key_check
    from receraser.keys import has_key, load_key
    from receraser.proof.signing import PublicKey

    if keyring is None:
        return {"folder": None, "pseudonyms": False, "signing": [], "ledger": False}
    secret = not held.public_key and has_key(keyring.folder)
    signers = (PublicKey.from_hex(text) for text in held.record.signers.values())
    return {
        "folder": str(keyring.folder),
        "pseudonyms": secret and key_check(load_key(keyring.folder)) == held.key_check,
        "signing": sorted(one.id for one in signers if key_known(keyring, one)),
        "ledger": keyring.ledger_key(held.record.store, create=False) is not None,
    }


def _said(fit: Mapping[str, object]) -> str:
    """Say which keys are at hand."""
    signing = fit["signing"]
    assert isinstance(signing, list)
    found = ["that of its pseudonyms"] if fit["pseudonyms"] else []
    found += [f"{', '.join(signing)} that signed for it"] if signing else []
    found += ["that of its ledger"] if fit["ledger"] else []
    return f"none of this store's in {fit['folder']}" if not found else f"in {fit['folder']}: {'; '.join(found)}"


def _check_kept(place: DirectoryStore, manifest: Mapping[str, object]) -> None:
    """Check the files of an earlier state, where one was kept."""
    previous = manifest["previous"]
    if isinstance(previous, Mapping):
        for name in (previous["manifest"], *previous["files"]):
            place.get(name)


def _handed_out(record: Record) -> str:
    """Say who holds copies that what is forgotten here does not reach."""
    told = [f"{one['what']} to {one['to']} ({one['time'][:10]})" for one in record.recipients]
    return "; ".join(dict.fromkeys(told)) or "nothing that is on record"


def _debt(record: Record, *, remembers: bool) -> str:
    """Say what the partition still remembers, and when it is made anew."""
    if not remembers:
        return "none: the partition looks at no data"
    debt, policy = record.debt, record.policy
    due = [f"every {count(policy.requests, 'request')}"] if policy.requests is not None else []
    due += [f"every {count(policy.days, 'day')}"] if policy.days is not None else []
    rows = f"{count(debt.rows_removed, 'row')} removed, {count(debt.rows_added, 'row')} added"
    when = f"rebuilt {' or '.join(due)}" if due else "rebuilt when asked"
    return f"{count(debt.requests, 'request')} ({rows}) since {debt.since}; {when}"


def _settings(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _why(level: str) -> str:
    """Say what a level below the highest means."""
    return {
        "L1": " (the assignment to shards dates from before the last change; receraser rebuild makes it L3)",
        "L2": " (files of another state are still there)",
    }.get(level, "")
