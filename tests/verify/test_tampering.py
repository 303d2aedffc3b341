"""Somebody changes a store: whatever they change, and however much of it they make fit again, it is noticed.

What they cannot do is sign. Two things can be seen only from outside: that a whole older copy was put back (by a
checkpoint kept elsewhere), and that the signer signed weights that nobody learned (by a replay).
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save

from receraser.data.ids import IdMap, pseudonyms
from receraser.data.interactions import Interactions
from receraser.errors import ProofError
from receraser.execution.task import Result, Task
from receraser.fingerprint import canonical_json, of_bytes
from receraser.partition.partition import Landmarks
from receraser.proof import merkle, signing
from receraser.proof.certificate import PAYLOAD_TYPE, Certificate
from receraser.proof.ledger import CHECKPOINT_TYPE, Entry, checkpoint_body, frontier_of, manifest_hash, read_entries
from receraser.proof.signing import SigningKey
from receraser.protocols import Progress
from receraser.store.encoding import (
    decode_landmarks,
    decode_rows,
    decode_tensors,
    encode_landmarks,
    encode_rows,
    encode_tensors,
)
from receraser.store.pending import Pending
from receraser.verify.checks import examine
from receraser.verify.papers import check_witness
from receraser.verify.replay import replayed
from receraser.verify.signatures import Vouchers
from tests.forgetting.engines import Combination, Here
from tests.verify.conftest import ROWS, World, changing, checkpoint_of, fitted

ALL = pytest.mark.skipif("RECERASER_NIGHTLY" not in os.environ, reason="takes longer: RECERASER_NIGHTLY=1")

CHANGED = "the manifest is not the one that was signed: something in it was changed afterwards"


# ---------------------------------------------------------------------- single bytes


def flips(world: World, n: int) -> Iterator[tuple[Path, int, int]]:
    """Yield places in the files of a store, and what to change there; every file has its turn."""
    draw = random.Random(20261115)
    files = [path for path in sorted(world.store.rglob("*")) if path.is_file() and path.stat().st_size]
    sizes = [path.stat().st_size for path in files]
    chosen = files + draw.choices(files, weights=sizes, k=n - len(files))
    for path in chosen:
        yield path, draw.randrange(path.stat().st_size), draw.randrange(1, 256)


@pytest.mark.parametrize("places", [60, pytest.param(500, marks=[pytest.mark.nightly, ALL])])
def test_every_byte_counts(world: World, places: int) -> None:
    unnoticed, n = [], 0
    for path, at, mask in flips(world, places):
        data = bytearray(path.read_bytes())
        data[at] ^= mask
        path.write_bytes(data)
        if not world.failing():
            unnoticed.append((path.name, at, mask))
        data[at] ^= mask
        path.write_bytes(data)
        n += 1
    assert unnoticed == []
    assert n == places
    assert world.failing() == {}


@pytest.mark.parametrize("change", ["cut", "empty", "gone", "longer"])
def test_every_file_counts(world: World, change: str) -> None:
    for path in sorted(world.store.rglob("*")):
        if not path.is_file() or path.name in ("lock", "manifest.json"):
            continue
        data = path.read_bytes()
        if change == "gone":
            path.unlink()
        else:
            path.write_bytes({"cut": data[:-1], "empty": b"", "longer": data + b"\n"}[change])
        told = world.failing()
        assert any(path.stem in one or path.name in one for one in told.values()), (path, told)
        path.write_bytes(data)


# ---------------------------------------------------------------------- the manifest, checksummed again


def leaves(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not inner or not value:
        yield path
    for key, one in inner:
        yield from leaves(one, (*path, key))


def another(value: object) -> object:
    """A value of the same kind, as near as can be."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, str) and value:
        return ("1" if value[0] != "1" else "2") + value[1:]
    return {"": "f" * 32, "{}": {"more": "of it"}, "[]": ["more"], "null": 7}[json.dumps(value).strip('"')]


def changed(path: tuple[str | int, ...]) -> Callable[[dict[str, object]], None]:
    def change(body: dict[str, object]) -> None:
        place: object = body
        for key in path[:-1]:
            place = place[key]  # type: ignore[index]
        place[path[-1]] = another(place[path[-1]])  # type: ignore[index]

    return change


def test_every_field_of_the_manifest_counts(world: World) -> None:
    """Those that do not are known, and told."""
    manifest, text = world.manifest(), (world.store / "manifest.json").read_bytes()
    unnoticed, n = [], 0
    for path in leaves(manifest):
        if path != ("checksum",):
            world.rewrite(changed(path))
            told = world.failing()
            where = "/".join(str(one) for one in path)
            if not told:
                unnoticed.append((where, told))
            (world.store / "manifest.json").write_bytes(text)
            n += 1
    assert unnoticed == []
    assert n > 100


@pytest.mark.parametrize("field", ["config", "record", "shards", "level", "wishes"])
def test_a_field_that_is_missing(world: World, field: str) -> None:
    world.rewrite(lambda body: body.pop(field))
    told = world.failing()
    assert f"the manifest has no key '{field}'" in told["manifest"]
    assert told["content"] == told["ledger"] == "cannot be checked: nothing can be made of the manifest"
    assert len(told) == 12, "every check says that it could not be made"


def test_a_manifest_that_is_none(world: World) -> None:
    path = world.store / "manifest.json"
    texts = [b"", b"[]", b"{}", b"\xff", b'{"checksum": 1}', b"[" * 100_000]
    texts += [b'{"checksum":%s,"format":4}' % checksum for checksum in (b"NaN", b"1e999", b'"\\ud800"')]
    for text in texts:
        path.write_bytes(text)
        assert world.failing()["manifest"].startswith("manifest.json: it"), text


def test_another_way_to_write_the_same(world: World) -> None:
    path = world.store / "manifest.json"
    text = path.read_bytes()
    whole = json.loads(text)
    for other in (
        text.replace(b",", b", ", 1),
        text.removesuffix(b"\n"),
        json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n",
        json.dumps(dict(reversed(whole.items())), separators=(",", ":"), ensure_ascii=False).encode() + b"\n",
    ):
        assert json.loads(other) == whole
        assert other != text
        path.write_bytes(other)
        assert world.failing() == {"manifest": "manifest.json: it is not written as it was: other bytes say the same"}


def test_a_higher_level_is_not_believed(world: World) -> None:
    with changing(world.store, world.keys, keep_old=True) as engine:
        engine.forget(["person-08"])
    world.rewrite(lambda body: body.update(level="L3"))
    told = world.failing()
    assert told["level"] == "the level is said to be L3; what the store holds makes it L2"
    assert "level: the manifest says L3; the certificate says L2" in told["state"]


# ---------------------------------------------------------------------- files that fit their names again


def replaced(world: World, name: str, data: bytes) -> None:
    """Put other bytes in place of a file, and make every name fit."""
    new = of_bytes(data)
    (world.store / "files" / name).unlink()
    (world.store / "files" / new).write_bytes(data)
    path = world.store / "manifest.json"
    path.write_bytes(path.read_bytes().replace(name.encode(), new.encode()))
    world.rewrite(lambda body: body["files"].update({new: len(data)}))  # type: ignore[attr-defined]


def file_of(world: World, part: str, shard: int = 0) -> tuple[str, bytes]:
    shards = world.manifest()["shards"]
    assert isinstance(shards, list)
    name = shards[shard]["files"][part]
    return name, (world.store / "files" / name).read_bytes()


def test_other_weights(world: World) -> None:
    name, data = file_of(world, "weights")
    tensors = decode_tensors(data)
    tensors["item_vectors"] = tensors["item_vectors"] + np.float32(0.5)
    replaced(world, name, encode_tensors(tensors))
    told = world.failing()
    assert list(told) == ["content", "checkpoint"]
    assert told["content"].startswith("shard 0: the files give digest ")
    tensors["more"] = np.zeros(3, dtype=np.float32)  # the engine would pass over it
    replaced(world, file_of(world, "weights")[0], encode_tensors(tensors))
    assert "content" in world.failing()


def test_a_row_more(world: World) -> None:
    name, data = file_of(world, "train")
    rows = Interactions.union([decode_rows(data), Interactions.from_pairs([("f" * 32, "item-00")])])
    replaced(world, name, encode_rows(rows))
    told = world.failing()
    assert list(told) == ["content", "checkpoint", "state"]
    assert "shard 0: the files give rows" in told["content"]
    assert "after.data does not open" in told["state"]


def test_what_rides_along_in_a_table(world: World) -> None:
    """A third column, a name that no row has, words in the metadata: the engine reads past them."""

    def written(table: pa.Table) -> bytes:
        sink = io.BytesIO()
        pq.write_table(table, sink)
        return sink.getvalue()

    name, data = file_of(world, "train")
    table = pq.read_table(pa.BufferReader(data))
    user = table.column("user").combine_chunks()
    unused = pa.DictionaryArray.from_arrays(user.indices, pa.array([*user.dictionary.to_pylist(), "f" * 32]))
    for more, expected in [
        (table.append_column("rating", pa.array([5] * len(table))), "it holds user, item, rating; expected user, item"),
        (table.replace_schema_metadata({"note": "person-03"}), "it holds user, item, note; expected user, item"),
        (table.set_column(0, "user", unused), "its dictionary holds an id that no row has"),
        (pa.concat_tables([table, table.slice(0, 1)]), "a row stands twice"),
    ]:
        replaced(world, file_of(world, "train")[0], written(more))
        assert expected in world.failing()["content"]
    replaced(world, file_of(world, "train")[0], data)
    assert world.failing() == {}
    assert file_of(world, "train")[0] == name


def test_what_rides_along_in_weights(world: World) -> None:
    name, data = file_of(world, "weights")
    replaced(world, name, save(decode_tensors(data), metadata={"who": "person-03"}))
    assert "it holds metadata; expected tensors and nothing else" in world.failing()["content"]


def test_rows_that_are_in_two_shards_or_have_no_place(world: World) -> None:
    replaced(world, file_of(world, "train")[0], file_of(world, "train", 1)[1])
    told = world.failing()
    assert told["content"].startswith("the train rows of the shards make no table: a row stands twice")
    spare = world.at(world.store.parent / "spare")
    spare.rewrite(lambda body: body["shards"][0]["files"].update(valid=None))  # type: ignore[index]
    assert "validation rows in 2 shards of 3; expected them in all or none" in spare.failing()["content"]


def test_an_aggregate_that_holds_something_else(world: World) -> None:
    files = world.manifest()["aggregate"]["files"]  # type: ignore[index]
    part, name = next(iter(files.items()))
    replaced(world, name, encode_tensors({"another": np.zeros(3, dtype=np.float32)}))
    assert f"holds another; expected {part} alone" in world.failing()["content"]


def test_landmarks_of_who_is_gone(tmp_path: Path) -> None:
    world = World(tmp_path / "store", tmp_path / "keys", (), b"")
    fitted(world.store, world.keys, Combination("ubp", "mean", "wmf"))
    name = str(world.manifest()["landmarks"])
    marks = decode_landmarks((world.store / "files" / name).read_bytes())
    more = Landmarks(marks.anchors, IdMap([*marks.ids, "zzz"]), np.concatenate([marks.vectors, marks.vectors[:1]]))
    replaced(world, name, encode_landmarks(more))
    assert "1 landmark of what is in no row (files/" in world.failing()["content"]
    tensors = {**marks.tensors(), "ids": np.frombuffer(b"b\na", dtype=np.uint8)}
    replaced(world, str(world.manifest()["landmarks"]), encode_tensors(tensors))
    assert "one vector for each id, the ids in order" in world.failing()["content"]


def test_an_anchor_that_a_shard_without_rows_has_again(tmp_path: Path) -> None:
    """It may be the vector of somebody who is gone; the engine takes it off and reads on."""
    world = World(tmp_path / "store", tmp_path / "keys", (), b"")
    fitted(world.store, world.keys, Combination("ubp", "mean", "wmf"))
    users = set(decode_rows(file_of(world, "train")[1]).users)
    with changing(world.store, world.keys) as engine:
        everybody = sorted({user for user, _ in ROWS})
        engine.forget([user for user in everybody if pseudonyms([user], world.key)[0] in users])
    assert world.failing() == {}
    name = str(world.manifest()["landmarks"])
    marks = decode_landmarks((world.store / "files" / name).read_bytes())
    assert np.isinf(marks.anchors[0]).all()
    replaced(
        world, name, encode_landmarks(Landmarks(np.nan_to_num(marks.anchors, posinf=0.5), marks.ids, marks.vectors))
    )
    assert "the files give the digest" in world.failing()["content"]


def test_wishes_and_titles_that_say_nothing(world: World) -> None:
    replaced(world, str(world.manifest()["wishes"]), encode_rows(Interactions.empty()))
    assert "holds none; expected no file then" in world.failing()["wishes"]
    table = pa.table({"item": ["item-01", "item-01"], "title": ["a", "b"]})
    sink = io.BytesIO()
    pq.write_table(table, sink)
    replaced(world, str(world.manifest()["titles"]), sink.getvalue())
    assert "an item stands twice, or has no title" in world.failing()["content"]


def test_files_that_are_listed_and_not_needed_or_needed_and_not_listed(world: World) -> None:
    titles = str(world.manifest()["titles"])
    world.rewrite(lambda body: body.update(titles=None))
    assert world.failing() == {"files": f"files/{titles} is listed, and nothing refers to it", "checkpoint": CHANGED}
    world.rewrite(lambda body: (body.update(titles=titles), body["files"].pop(titles)))  # type: ignore[attr-defined]
    told = world.failing()
    assert f"files/{titles} (the titles) is not listed" in told["files"]
    assert f"files/{titles}" in told["strays"]


def test_an_earlier_state_that_is_not_the_one(world: World) -> None:
    with changing(world.store, world.keys, keep_old=True) as engine:
        engine.forget(["person-07"])
    spare = world.at(world.store.parent / "spare")
    world.rewrite(lambda body: body["previous"]["files"].pop())  # type: ignore[index]
    assert "previous.files are not those that the earlier manifest" in world.failing()["files"]
    wrong = file_of(spare, "train")[0]
    spare.rewrite(lambda body: body["previous"].update(manifest=wrong))  # type: ignore[attr-defined]
    assert f"files/{wrong} is no manifest of an earlier state" in spare.failing()["files"]


def test_a_request_that_is_damaged(world: World) -> None:
    pending = Pending("rebuild", "2026-11-15T17:00:00Z", id="7" * 32)
    path = world.store / "pending" / f"{pending.id}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pending.encode().replace(b"rebuild", b"rebuilt"))
    assert path.name in world.failing()["pending"]
    path.rename(path.with_name("another.json"))
    assert list(world.failing()) == ["strays"]


@pytest.mark.parametrize("part", ["train", "valid", "weights"])
def test_bytes_that_are_nothing(world: World, part: str) -> None:
    replaced(world, file_of(world, part)[0], b"nothing at all")
    told = world.failing()
    assert "of shard 0 (files/" in told["content"]
    assert "cannot be read" in told["content"]
    assert told["wishes"] == told["content"], "what could not be checked is no success"


# ---------------------------------------------------------------------- the ledger and the certificates


def ledger(world: World) -> list[bytes]:
    return (world.store / "ledger").read_bytes().splitlines(keepends=True)


def relaid(world: World, lines: list[bytes]) -> None:
    """Write another ledger, and a manifest that covers it."""
    data = b"".join(lines)
    (world.store / "ledger").write_bytes(data)
    hashes = [merkle.leaf_hash(line) for line in lines]
    head = {
        "size": len(lines),
        "bytes": len(data),
        "certificates": sum(b'"certificate":"' in line for line in lines),
        "frontier": [one.hex() for one in merkle.Frontier.of(hashes).hashes],
        "time": json.loads(lines[-1])["time"] if lines else "",
    }
    world.rewrite(lambda body: body["record"].update(ledger=head))  # type: ignore[attr-defined]


def test_lines_of_the_ledger_that_are_moved_edited_or_gone(world: World) -> None:
    lines = ledger(world)
    entry = Entry.parse(lines[1])
    edited = Entry(1, entry.time, "forget", entry.subjects[:1], entry.key, entry.certificate).line()
    other_time = Entry(1, "2020-01-01T00:00:00Z", "forget", entry.subjects, entry.key, entry.certificate).line()
    cases: list[tuple[list[bytes], str]] = [
        ([lines[1], lines[0], *lines[2:]], "the ledger is damaged at entry 0: its index is 1"),
        (lines[:2] + lines[3:], "the ledger is damaged at entry 2: its index is 3"),
        ([lines[0], edited, *lines[2:]], "the root over its 7 entries is"),
        ([lines[0], other_time, *lines[2:]], "the ledger is damaged at entry 1: its time is 2020"),
        (lines[:-1], "the checkpoint is of 7 entries; the ledger has 6"),
        (
            [*lines, Entry(7, "2099-01-01T00:00:00Z", "export").line()],
            "the checkpoint is of 7 entries; the ledger has 8",
        ),
        ([], "the checkpoint is of 7 entries; the ledger has 0"),
    ]
    for changed_lines, expected in cases:
        copy = world.at(world.store.parent / "copy")
        relaid(copy, changed_lines)
        told = copy.failing()
        assert expected in " ".join(told.values()), told
        assert "checkpoint" in told
        shutil.rmtree(copy.store)


def test_certificates_that_are_swapped_or_edited(world: World) -> None:
    names = [json.loads(line)["certificate"] for line in ledger(world)]
    folder = world.store / "certificates"
    first, second = ((folder / f"{name}.json").read_bytes() for name in names[:2])
    (folder / f"{names[0]}.json").write_bytes(second)
    assert f"entry 0: certificates/{names[0]}.json is not what was written" in world.failing()["certificates"]
    (folder / f"{names[0]}.json").write_bytes(first)
    lines = ledger(world)
    lines[0], lines[1] = (
        line.replace(old.encode(), new.encode())
        for line, old, new in zip(lines[:2], names[:2], names[1::-1], strict=True)
    )
    relaid(world, lines)
    told = world.failing()["certificates"]
    assert "ledger.index: entry 0: its certificate says 1; expected 0" in told
    assert "action: entry 0: its certificate says forget; expected fit" in told


def resigned(world: World, key: SigningKey, change: Callable[[dict[str, object]], None]) -> None:
    """Change every certificate, sign all of them and the ledger with a key, and make everything fit again."""
    parent, lines = None, list[bytes]()
    for entry in read_entries((world.store / "ledger").read_bytes()):
        index, path = entry.index, world.store / "certificates" / f"{entry.certificate}.json"
        statement = json.loads(signing.unverified(json.loads(path.read_bytes()), PAYLOAD_TYPE))
        path.unlink()
        root = merkle.root([merkle.leaf_hash(line) for line in lines])
        statement["predicate"] |= {"parent": parent, "ledger": {"index": index, "size": index, "root": root.hex()}}
        change(statement["predicate"])
        payload = Certificate.parse(canonical_json(statement)).payload()
        data = canonical_json(signing.sealed(PAYLOAD_TYPE, payload, key)) + b"\n"
        parent = of_bytes(data)
        (world.store / "certificates" / f"{parent}.json").write_bytes(data)
        lines.append(Entry(index, entry.time, entry.action, entry.subjects, entry.key, parent).line())
    relaid(world, lines)
    tree = frontier_of(read_entries(b"".join(lines)))
    store = str(world.manifest()["record"]["store"])  # type: ignore[index]
    record = {"certificate": parent, "signers": {key.public.id: key.public.to_hex()}}
    world.rewrite(lambda manifest: manifest["record"].update(record))  # type: ignore[attr-defined]
    body = checkpoint_body(store, tree, json.loads(lines[-1])["time"], manifest_hash(world.manifest()))
    checkpoint = signing.sealed(CHECKPOINT_TYPE, canonical_json(body), key)
    world.rewrite(lambda manifest: manifest["record"].update(checkpoint=checkpoint))  # type: ignore[attr-defined]


def test_everything_signed_again_with_another_key(world: World) -> None:
    """Consistent in itself: only somebody who knows the operator's key can tell."""
    stranger = SigningKey.generate()
    resigned(world, stranger, lambda predicate: predicate.update(rows_added=0))
    told = world.failing()
    assert list(told) == ["signers", "checkpoint", "certificates", "state"]
    assert f"the store names the key {stranger.public.id}, for which {world.keys} does not vouch" in told["signers"]
    _, checks = examine(world.store)
    assert all(one.ok for one in checks), checks
    assert f"nobody vouched for {stranger.public.id}" in next(one.detail for one in checks if one.name == "signers")
    pem = world.store.parent / "stranger.pem"
    pem.write_bytes(stranger.public.to_pem())
    assert all(one.ok for one in examine(world.store, vouchers=Vouchers.of([pem]))[1])
    own = examine(world.store, vouchers=Vouchers.of(keyring=world.keyring), keyring=world.keyring)[1]
    assert not all(one.ok for one in own), "the store is the operator's own: the ledger's key is in the folder"


def test_one_certificate_signed_again_with_another_key(world: World) -> None:
    stranger = SigningKey.generate()
    lines = ledger(world)
    name = json.loads(lines[-1])["certificate"]
    path = world.store / "certificates" / f"{name}.json"
    envelope = json.loads(path.read_bytes())
    payload = signing.unverified(envelope, PAYLOAD_TYPE)
    data = canonical_json(signing.sealed(PAYLOAD_TYPE, payload, stranger)) + b"\n"
    path.unlink()
    (path.parent / f"{of_bytes(data)}.json").write_bytes(data)
    relaid(world, [*lines[:-1], lines[-1].replace(name.encode(), of_bytes(data).encode())])
    world.rewrite(
        lambda body: body["record"].update(  # type: ignore[attr-defined]
            certificate=of_bytes(data),
            signers={**body["record"]["signers"], stranger.public.id: stranger.public.to_hex()},  # type: ignore[index]
        )
    )
    told = world.failing()
    assert {"signers", "checkpoint", "certificates", "state"} <= told.keys()
    assert f"signed with key {stranger.public.id}, which is not trusted here" in told["certificates"]


def test_signatures_that_are_taken_away(world: World) -> None:
    bare: dict[str, object] = {"checkpoint": None, "certificate": None, "after": {}, "openings": {}, "signers": {}}
    world.rewrite(lambda body: body["record"].update(bare))  # type: ignore[attr-defined]
    told = world.failing()
    assert set(told) == {"signers", "checkpoint", "state"}
    assert told["signers"].startswith("record.signers does not name the key ")
    entries = [Entry.parse(line) for line in ledger(world)]
    relaid(world, [Entry(one.index, one.time, one.action, one.subjects, one.key).line() for one in entries])
    shutil.rmtree(world.store / "certificates")
    told = world.failing()
    assert set(told) == {"signers", "checkpoint", "certificates", "state"}
    assert "nothing is signed in this store; expected signatures by a key of" in told["signers"]


def test_a_change_that_nobody_signed(world: World) -> None:
    lines = ledger(world)
    relaid(world, [*lines, Entry(len(lines), "2099-01-01T00:00:00Z", "forget").line()])
    told = world.failing()
    assert told["certificates"] == "entry 7 (forget) has no certificate, though an earlier change has one"
    assert told["state"] == "nobody certified the state: entry 7 (forget) has no certificate"
    world.rewrite(lambda body: body["record"].update(checkpoint=None))  # type: ignore[attr-defined]
    assert world.failing()["checkpoint"] == "record.checkpoint is missing: the ledger goes on without a signature"


def test_a_checkpoint_of_another_store(world: World, tmp_path: Path) -> None:
    fitted(tmp_path / "other", world.keys)
    other = json.loads(checkpoint_of(tmp_path / "other"))
    world.rewrite(lambda body: body["record"].update(checkpoint=other))  # type: ignore[attr-defined]
    assert "the checkpoint is of another store" in world.failing()["checkpoint"]


# ---------------------------------------------------------------------- what can be seen from outside only


def test_an_older_copy_put_back_is_seen_by_a_checkpoint_kept_elsewhere(world: World) -> None:
    shutil.copytree(world.store, world.store.parent / "older")
    with changing(world.store, world.keys) as engine:
        engine.forget(["person-08"])
    witness = checkpoint_of(world.store)
    assert "grew out of the 8 of" in check_witness(world.examine()[0], witness)
    shutil.rmtree(world.store)
    shutil.copytree(world.store.parent / "older", world.store)
    case, checks = world.examine()
    assert all(one.ok for one in checks), "in itself it is whole"
    with pytest.raises(
        ProofError, match=r"had 8 entries under the root \w{64} when .* has 7 under \w{64}: .* older copy"
    ):
        check_witness(case, witness)


class Lying(Here):
    """Learns something else than it says in one shard, the first that has somebody in it."""

    lied = False

    def compute(self, task: Task, progress: Progress | None) -> Result:
        result = super().compute(task, progress)
        if task.kind != "submodel" or self.lied or not len(result.arrays["user_vectors"]):
            return result
        self.lied = True
        arrays = {name: np.array(array) for name, array in result.arrays.items()}
        arrays["user_vectors"][0, 0] += np.float32(0.125)
        return dataclasses.replace(result, arrays=arrays)


def test_weights_that_nobody_learned_are_seen_by_a_replay(world: World) -> None:
    """Whoever holds the signing key can sign anything."""
    with changing(world.store, world.keys, executor=Lying()) as engine:
        engine.rebuild()
    case, checks = world.examine()
    assert all(one.ok for one in checks), checks
    check = replayed(case, "all", executor=Here())
    assert not check.ok
    assert re.search(
        r"shard \d+: user_vectors gives \w{64}; in the store lies \w{64} \(1 of \d+ entries differ\)", check.detail
    )
    assert len(re.findall(r"shard \d+", check.detail)) == 1
