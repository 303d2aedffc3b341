"""A fitted state as files and a manifest, and back again.

Rows lie in the store shard by shard, so that one shard can be replaced without touching the others: the files of a
shard that has not changed keep their names and are not written again. The whole table is the union of the shards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Self, TypeVar

from receraser.config import EngineConfig, check_parts
from receraser.data.interactions import Interactions
from receraser.errors import StoreError, UsageError
from receraser.partition.partition import Partition, Shard
from receraser.state import FittedShard, State, rebooked
from receraser.store.directory import DirectoryStore, Manifest, version_of
from receraser.store.encoding import (
    decode_landmarks,
    decode_rows,
    decode_tensors,
    decode_titles,
    encode_landmarks,
    encode_rows,
    encode_titles,
    tensor_pieces,
)
from receraser.store.record import Record

__all__ = ["Snapshot", "encode_ahead", "read_snapshot", "write_snapshot"]

T = TypeVar("T")
Content = bytes | Sequence[bytes | memoryview]

_WRITTEN_AT_ONCE = 4


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What a store holds: a state, the items' titles, and how to recognise the key of the pseudonyms.

    `wishes` are pairs that are not to be recommended, `record` is the store's own history; `version` names the manifest
    it was read from.
    """

    state: State
    titles: Mapping[str, str]
    key_check: str
    public_key: bool
    wishes: Interactions = field(default_factory=Interactions.empty)
    record: Record = field(default_factory=Record)
    version: str = ""


def write_snapshot(
    store: DirectoryStore,
    snapshot: Snapshot,
    *,
    keep_old: bool = False,
    checked: bool = False,
    seal: Callable[[Manifest], Manifest] | None = None,
) -> State:
    """Publish a snapshot as the content of a store, whose lock is held; what was there is destroyed, or kept.

    Files that lie there already are not written again. `checked`: they were read and checked under the same lock, by
    whoever opened the store; otherwise that is done here, and a damaged one is written anew. `seal` signs the manifest.
    Returns the state, which knows its files now.
    """
    state = rebooked(snapshot.state, kept_old=keep_old and store.exists())
    with _Files(store, checked=checked) as files:
        of_shards = [files.kept(one.files) or _shard_files(one, files) for one in state.shards]
        of_aggregate: dict[str, str | Future[str] | None] = {}
        for name, array in sorted(state.aggregate.items()):
            kept = files.kept({name: state.aggregate_files.get(name)})
            of_aggregate[name] = kept[name] if kept else files.write(tensor_pieces, {name: array})
        digest, reports = state.digest, [one.report for one in state.shards]  # while they are being written
        names = [{what: _name(file) for what, file in own.items()} for own in of_shards]
        aggregate = {name: str(_name(file)) for name, file in of_aggregate.items()}
    shards = [
        {**vars(report), "files": dict(own), "facts": dict(one.facts), "seconds": one.seconds}
        for one, report, own in zip(state.shards, reports, names, strict=True)
    ]
    written = [rebooked(one, files=own) for one, own in zip(state.shards, names, strict=True)]  # with their reports
    landmarks = state.partition.landmarks
    store.commit(
        {
            "config": state.config.as_dict(),
            "digest": digest,
            "level": state.level,
            "inherited": state.inherited,
            "pseudonyms": {"key_check": snapshot.key_check, "public_key": snapshot.public_key},
            "shards": shards,
            "landmarks": None if landmarks is None else files.put(encode_landmarks(landmarks)),
            "aggregate": {"files": aggregate, "facts": dict(state.aggregate_facts)},
            "titles": files.put(encode_titles(snapshot.titles)) if snapshot.titles else None,
            "wishes": files.put(encode_rows(snapshot.wishes)) if len(snapshot.wishes) else None,
            "record": snapshot.record.as_dict(),
            "environment": dict(state.environment),
            "seconds": dict(state.seconds),
            "files": files.sizes,
        },
        keep_old=keep_old,
        seal=seal,
    )
    return rebooked(state, shards=written, aggregate_files=aggregate)


class _Files:
    """The files of a snapshot: those that lie in the store already are kept, the others written, several at a time.

    To hash and to wait for the disk needs no lock of Python's. `sizes`: of all that belong to the snapshot, by name.
    """

    def __init__(self, store: DirectoryStore, *, checked: bool) -> None:
        self.sizes: dict[str, int] = {}
        self._store = store
        self._checked = checked
        self._held = store.sizes()
        self._writers = ThreadPoolExecutor(_WRITTEN_AT_ONCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writers.shutdown(cancel_futures=True)  # where one has failed, the others are of no use

    def put(self, data: Content) -> str:
        """Write a file, here and now; return its name."""
        name = self._store.put(data)
        self.sizes[name] = len(data) if isinstance(data, bytes) else sum(map(len, data))
        return name

    def write(self, encode: Callable[[T], Content], content: T) -> Future[str]:
        """Begin to write a file."""
        return self._writers.submit(lambda: self.put(encode(content)))

    def kept(self, files: Mapping[str, str | None] | None) -> Mapping[str, str | None] | None:
        """Return files that lie in the store already, as they were written; None where they do not."""
        wanted = {name for name in (files or {}).values() if name is not None}
        if not wanted or not wanted <= self._held.keys():
            return None
        if not (self._checked or all(map(self._store.is_sound, wanted))):
            return None
        self.sizes.update({name: self._held[name] for name in wanted})
        return files


def encode_ahead(shards: Sequence[Shard]) -> None:
    """Encode the rows of shards that are going to be written: while their submodels are being fitted, say."""
    for one in shards:
        one.files["train"] = encode_rows(one.train)
        if one.valid is not None:
            one.files["valid"] = encode_rows(one.valid)


def _shard_files(one: FittedShard, files: _Files) -> Mapping[str, Future[str] | None]:
    """Return the files of a shard, which are being written."""
    shard = one.shard
    return {
        "train": files.write(lambda rows: shard.files.pop("train", None) or encode_rows(rows), shard.train),
        "valid": None
        if shard.valid is None
        else files.write(lambda rows: shard.files.pop("valid", None) or encode_rows(rows), shard.valid),
        "weights": files.write(tensor_pieces, one.model.state()),
    }


def _name(file: str | Future[str] | None) -> str | None:
    """Return the name of a file that is there, or as soon as it is."""
    return file.result() if isinstance(file, Future) else file


def read_snapshot(store: DirectoryStore) -> Snapshot:
    """Read a store back; every file is checked against its name, and the digest computed anew."""
    manifest = store.manifest()
    while True:
        try:
            return _snapshot(store, manifest)
        except StoreError:
            newer = store.manifest()
            if newer == manifest:
                raise
            manifest = newer  # somebody published meanwhile, and destroyed what we were reading
        except UsageError as error:
            raise StoreError(f"the store in {store.path} was not made by this version: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"{type(error).__name__} {error}"
            raise StoreError(
                f"the store in {store.path} cannot be read: its manifest does not fit ({reason})"
            ) from None


def _snapshot(store: DirectoryStore, manifest: Mapping[str, object]) -> Snapshot:
    sizes = _typed(manifest, "files", dict)
    unread = set(sizes)

    def get(name: str) -> bytes:
        data = store.get(name)
        if sizes[name] != len(data):
            raise ValueError(f"the size of {name}")
        unread.discard(name)
        return data

    config = EngineConfig(**_typed(manifest, "config", dict))
    check_parts(config)
    listed: list[Mapping[str, object]] = _typed(manifest, "shards", list)
    shards = [_shard(config, number, one, get) for number, one in enumerate(listed)]
    train, of_train = Interactions.joined([one.shard.train for one in shards])
    held = [one.shard.valid for one in shards if one.shard.valid is not None]
    valid, of_valid = Interactions.joined(held) if held else (None, None)
    if held and len(held) < len(shards):
        raise ValueError("validation rows in some shards only")
    landmarks = manifest["landmarks"]
    aggregate = _typed(manifest, "aggregate", dict)
    titles = {} if manifest["titles"] is None else decode_titles(get(_typed(manifest, "titles", str)))
    wishes = manifest["wishes"]
    hidden = Interactions.empty() if wishes is None else decode_rows(get(_typed(manifest, "wishes", str)))
    state = State(
        config=config,
        train=train,
        valid=valid,
        partition=Partition(
            len(shards), of_train, of_valid, None if landmarks is None else decode_landmarks(get(str(landmarks)))
        ),
        shards=shards,
        aggregate={name: decode_tensors(get(file))[name] for name, file in _typed(aggregate, "files", dict).items()},
        environment=_typed(manifest, "environment", dict),
        inherited=_typed(manifest, "inherited", bool),
        kept_old=manifest["previous"] is not None and bool(_typed(manifest, "previous", dict)),
        aggregate_facts=_typed(aggregate, "facts", dict),
        aggregate_files=_typed(aggregate, "files", dict),
        seconds=_typed(manifest, "seconds", dict),
    )
    if unread:
        raise ValueError("files that nothing refers to")
    if manifest["level"] != state.level:
        raise ValueError("the level")
    _check_digest(state.digest, _typed(manifest, "digest", str))
    pseudonyms = _typed(manifest, "pseudonyms", dict)
    return Snapshot(
        state,
        titles,
        _typed(pseudonyms, "key_check", str),
        _typed(pseudonyms, "public_key", bool),
        wishes=hidden,
        record=Record.from_dict(manifest["record"]),
        version=version_of(manifest),
    )


def _shard(config: EngineConfig, number: int, listed: Mapping[str, object], get) -> FittedShard:  # type: ignore[no-untyped-def]
    """Read one shard; it must be what the manifest says it is."""
    files: Mapping[str, str | None] = _typed(listed, "files", dict)
    valid = files["valid"]
    shard = Shard(number, decode_rows(get(files["train"])), None if valid is None else decode_rows(get(valid)))
    weights = decode_tensors(get(files["weights"]))
    seconds = listed["seconds"]
    one = FittedShard.of(
        config,
        shard,
        weights,
        facts=_typed(listed, "facts", dict),
        seconds=None if seconds is None else float(str(seconds)),
        files=dict(files),
    )
    _check_digest(one.report.digest, _typed(listed, "digest", str))
    if any(listed[key] != value for key, value in vars(one.report).items()):
        raise ValueError(f"what is said of shard {number}")
    return one


def _check_digest(found: str, expected: str) -> None:
    """Raise unless the digest computed from the content is the one in the manifest."""
    if found != expected:
        raise StoreError(
            f"the store's content does not give the digest in its manifest ({found[:12]}..., expected "
            f"{expected[:12]}...): it was changed, or written by another version; fit it again"
        )


def _typed(values: Mapping[str, object], key: str, kind: type[T]) -> T:
    """Return a value of the manifest, which must be of this type."""
    value = values[key]
    if not isinstance(value, kind):
        raise TypeError(f"{key} is {value!r}")
    return value
