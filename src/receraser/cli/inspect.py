"""`receraser inspect`: what a store holds."""

from __future__ import annotations

from receraser.cli import options
from receraser.cli.console import print_json, print_table, say

__all__ = ["inspect"]


def inspect(store: options.Store, as_json: options.AsJson = False) -> None:
    """Show what a store holds: configuration, shards, digests, environment. Checks every file; needs no key."""
    from receraser.store.directory import DirectoryStore

    place = DirectoryStore(store)
    manifest = place.manifest()
    files: dict[str, int] = manifest["files"]  # type: ignore[assignment]
    for name in files:
        place.get(name)
    if as_json:
        print_json(manifest)
        return
    config: dict[str, object] = manifest["config"]  # type: ignore[assignment]
    settings: dict[str, object] = config["hyperparameters"]  # type: ignore[assignment]
    pseudonyms: dict[str, object] = manifest["pseudonyms"]  # type: ignore[assignment]
    shards: list[dict[str, object]] = manifest["shards"]  # type: ignore[assignment]
    lines = {
        "method": f"{config['method']} (level {manifest['level']})",
        "model": f"{config['model']} on {config['device']}, seed {config['seed']}",
        "settings": ", ".join(f"{key}={value}" for key, value in settings.items()),
        "digest": str(manifest["digest"]),
        "pseudonyms": "public key: whoever guesses an id can recognise it" if pseudonyms["public_key"] else "secret key",
        "size": f"{sum(files.values()):,} bytes in {len(files)} files, all intact",
    }
    for name, text in lines.items():
        say(f"{name:<11} {text}")
    columns = ["id", "rows", "users", "items", "digest"]
    print_table(["shard", *columns[1:]], [[str(shard[column])[:16] for column in columns] for shard in shards])
