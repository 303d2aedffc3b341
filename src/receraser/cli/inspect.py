"""`receraser inspect`: what a store holds."""

from __future__ import annotations

from receraser.cli import options
from receraser.cli.console import Bar, count, print_json, print_lines, print_table, warn

__all__ = ["inspect"]


def inspect(store: options.Store, as_json: options.AsJson = False) -> None:
    """Show what a store holds, and check every file; needs no key."""
    from receraser.store.directory import DirectoryStore
    from receraser.store.snapshot import read_snapshot

    place = DirectoryStore(store)
    with Bar("checking the files"):
        held = read_snapshot(place)
        manifest = place.manifest()
    strays = place.strays(manifest)
    if strays:
        what = f"{strays[0]} and {count(len(strays) - 1, 'more file')}" if len(strays) > 1 else strays[0]
        warn(f"{what} in {store}: no part of the store, left by an interrupted write or put there by somebody")
    if as_json:
        print_json(manifest)
        return
    config = held.config
    sizes: dict[str, int] = manifest["files"]  # type: ignore[assignment]
    key = "a public key: whoever guesses an id can recognise it" if held.public_key else "a secret key"
    lines = {
        "method": f"{config.method} (level {held.level})",
        "model": f"{config.model} on {config.device}, seed {config.seed}",
        "settings": ", ".join(f"{name}={value}" for name, value in config.hyperparameters.items()),
        "digest": held.digest,
        "pseudonyms": f"made with {key}",
        "validation": "no rows" if held.valid is None else count(len(held.valid), "row"),
        "size": f"{count(sum(sizes.values()), 'byte')} in {count(len(sizes), 'file')}, all intact",
    }
    print_lines([f"{name:<11} {text}" for name, text in lines.items()])
    columns = ["id", "rows", "users", "items", "digest"]
    print_table(["shard", *columns[1:]], [[str(shard[column])[:16] for column in columns] for shard in held.shards])
