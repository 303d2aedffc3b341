"""Something is left behind, somewhere: it is found. What is there by right is not taken for it."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from receraser.data.ids import pseudonyms
from receraser.data.interactions import Interactions
from receraser.engine import Engine
from receraser.erasure.request import ForgetRequest
from receraser.handing import shred
from receraser.proof import ledger
from receraser.residue.finders import _hasher, _prefixed
from receraser.residue.search import residue
from receraser.store.encoding import decode_rows, encode_rows
from receraser.store.pending import Pending
from receraser.verify.checks import Check, examine
from tests.forgetting.engines import Combination, Here
from tests.verify.conftest import BACK, GONE, PAIR, ROWS, UNKNOWN, World, changing, fitted
from tests.verify.test_tampering import file_of, replaced

LEDGER, NAMES, DIGESTS, WISHES = "residue by the ledger", "residue by name", "residue of digests", "residue in wishes"


def found(world: World, **options: object) -> dict[str, Check]:
    return {one.name: one for one in residue(world.examine()[0], key=world.key, **options)}  # type: ignore[arg-type]


def by_ledger(world: World, *search: Path) -> str:
    """What the ledger's hashes find; nothing has to be named."""
    check = found(world, search=search)[LEDGER]
    assert not check.ok, check.detail
    return check.detail


def by_name(world: World, *search: Path, **named: object) -> str:
    check = found(world, search=search, **named)[NAMES]
    assert not check.ok, check.detail
    return check.detail


def pseudonym(world: World, user: str) -> str:
    return pseudonyms([user], world.key)[0]


# ---------------------------------------------------------------------- nothing is left


def test_nothing_is_left_of_who_was_forgotten(original: World) -> None:
    checks = found(original, users=[GONE, UNKNOWN, "person-06"])
    assert all(one.ok for one in checks.values()), checks
    assert checks[LEDGER].detail.startswith("nothing of 4 subjects of 4 forget requests")
    assert checks[NAMES].detail.startswith("nothing of 3 subjects, users also as pseudonyms")
    assert "of 6 bytes or more" in checks[NAMES].detail


def test_who_came_back_by_an_add_is_there_by_right(original: World) -> None:
    assert found(original)[LEDGER].ok
    assert "user 1 of those named: the training rows of shard" in by_name(original, users=[BACK])


def test_wishes_are_told_apart(original: World) -> None:
    checks = found(original, interactions=[PAIR])
    assert all(one.ok for one in checks.values()), checks
    told = checks[WISHES].detail
    assert "1 pair stored on request" in told
    assert "interaction 1 of those named" in told
    assert "interaction forgotten by entry 4" in told


def test_a_row_of_others_is_no_residue(original: World) -> None:
    """The user is there and the item is there; the row is not."""
    missing = next((u, i) for u, _ in ROWS for _, i in ROWS if (u, i) not in ROWS and u == "person-07")
    assert found(original, interactions=[missing])[NAMES].ok
    held = next(row for row in ROWS if row[0] == "person-07")
    assert "interaction 1 of those named: the training rows of shard" in by_name(original, interactions=[held])


def test_numbers_for_ids_are_told_apart(tmp_path: Path) -> None:
    """User 7, item 7 and a 7 in a setting are three things."""
    world = World(tmp_path / "store", tmp_path / "keys", (), b"")
    fitted(world.store, world.keys)
    engine = Engine.from_config(Combination("hash", "spectral", "wmf").config(), key=world.key, executor=Here())
    engine.fit(Interactions.from_pairs([(user, item) for user in range(9) for item in range(9) if (user + item) % 3]))
    engine.save(world.store, replace=True, keyring=world.keyring)
    with changing(world.store, world.keys) as changed:
        changed.forget([7, 1])
    checks = found(world, users=["7", "1"])
    assert all(one.ok for one in checks.values()), checks
    assert not found(world, items=["7"])[NAMES].ok
    (tmp_path / "ratings.dat").write_text("7::3::5::978300760\n2::1::5::978300760\n")
    (tmp_path / "train.txt").write_text("2 7 1\n3 7\n")
    (tmp_path / "words.log").write_text("took 7 s for 1 request\n")
    assert by_ledger(world, tmp_path / "ratings.dat") == (
        f"user forgotten by entry 1: {tmp_path / 'ratings.dat'}, column 1"
    )
    assert found(world, search=[tmp_path / "train.txt", tmp_path / "words.log"], users=["7", "1"])[NAMES].ok


# ---------------------------------------------------------------------- something is left


def test_an_id_in_a_log(world: World, tmp_path: Path) -> None:
    log = tmp_path / "logs"
    log.mkdir()
    (log / "service.log").write_text(f"INFO forgot user={GONE} in 3 s\n")
    assert by_ledger(world, log) == f"user forgotten by entry 1: {log}/service.log"
    assert by_name(world, log, users=[GONE]) == f"user 1 of those named: {log}/service.log"
    (log / "service.log").write_text(f"INFO forgot user={GONE}9 in 3 s\n")
    assert found(world, search=[log], users=[GONE])[NAMES].ok, "somebody else, whose id begins like that"
    (log / "service.log").unlink()
    (log / "service.log.1.gz").write_bytes(gzip.compress(f"{pseudonym(world, GONE)} asked\n".encode()))
    assert "user forgotten by entry 1" in by_ledger(world, log)
    assert "user 1 of those named" in by_name(world, log, users=[GONE])


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    ("name", "text", "is_there"),
    [
        ("u0050", "INFO forget user=u0050 done\n", True),
        ("u0050", "u0050", True),
        ("u0050", '{"event": "asked", "message": "forget u0050, please"}\n', True),
        ("u0050", "user,note\nperson,about u0050\n", True),
        ("u0050", "au0050 u00501 u0050-b u0050_b x-u0050\n", False),
        ("1234", "served 1234 twice\n", True),
        ("1234", "took 1234.5 ms at 2026-1234, 71234\n", False),
        ("1234", "item,score\ncake,1234\n", False),
        ("17", "INFO forget user=17 done\n", True),
        ("17", "INFO forget User_ID: '17'\n", True),
        ("17", "GET /users/17 HTTP/1.1\n", True),
        ("17", '{"event": "forget", "user": 17}\n', True),
        ("17", "took 17 s, item=17, 17 users, user=171, superuser=17\n", False),
    ],
)
def test_a_short_id_in_text(world: World, tmp_path: Path, name: str, text: str, is_there: bool, packed: bool) -> None:
    """Whole words of any length; of very short numbers only those that are said to be users."""
    path = tmp_path / ("a.csv" if text.startswith(("user,", "item,")) else "a.log")
    path = path.with_name(path.name + ".gz") if packed else path
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    if is_there:
        assert by_name(world, path, users=[name]).startswith(f"user 1 of those named: {path}")
        return
    check = found(world, search=[path], users=[name])[NAMES]
    assert check.ok, check.detail
    assert ("fewer than 4 digits" in check.detail) == (len(name) < 4)


def test_a_short_item_in_text(world: World, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes("caf\xe9: user=17 took item=9\n".encode("latin-1"))
    assert found(world, search=[log], items=["17"])[NAMES].ok
    assert by_name(world, log, items=["9"]) == f"item 1 of those named: {log}"
    (tmp_path / "a.bin").write_bytes(b"\x00\xff user=u0050 \x01")
    check = found(world, search=[tmp_path / "a.bin"], users=["u0050"])[NAMES]
    assert check.ok, "no text"
    assert "in bytes that are no text only ids of 6 bytes or more" in check.detail


def test_a_pair_of_short_ids_in_a_log(world: World, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("u5 saw i7\nuser=17 took item=9 in 4 s\n")
    assert by_name(world, log, interactions=[("u5", "i7")]) == f"interaction 1 of those named: {log}"
    assert by_name(world, log, interactions=[("17", "9")]) == f"interaction 1 of those named: {log}"
    for other in (("u5", "i"), ("17", "4"), ("9", "17")):
        assert found(world, search=[log], interactions=[other])[NAMES].ok


def test_a_pair_in_a_log(world: World, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(f"{PAIR[0]} was here\n{PAIR[1]} too\n")
    assert found(world, search=[log], interactions=[PAIR])[NAMES].ok, "not in one line"
    log.write_text(f"{PAIR[0]} clicked {PAIR[1]}\n")
    assert by_name(world, log, interactions=[PAIR]) == f"interaction 1 of those named: {log}"


@pytest.mark.parametrize("outside", [True, False])
def test_rows_in_a_stray_table(world: World, outside: bool) -> None:
    """In a file that a write left behind, compressed."""
    name = GONE if outside else pseudonym(world, GONE)
    user = PAIR[0] if outside else pseudonym(world, PAIR[0])
    sink = io.BytesIO()
    pq.write_table(pa.table({"user": [name, user], "item": ["item-00", PAIR[1]]}), sink, compression="zstd")
    (world.store / "files" / "left.new").write_bytes(sink.getvalue())
    told = by_ledger(world)
    assert "user forgotten by entry 1: files/left.new" in told
    assert "files/left.new, column user" in told
    assert "interaction forgotten by entry 4: files/left.new" in told
    told = by_name(world, users=[GONE], interactions=[PAIR])
    assert "user 1 of those named" in told
    assert "interaction 1 of those named: files/left.new" in told


def test_an_id_that_only_a_dictionary_holds(world: World) -> None:
    unused = pa.DictionaryArray.from_arrays(
        pa.array([0], pa.int32()), pa.array(["somebody else", pseudonym(world, GONE)])
    )
    sink = io.BytesIO()
    pq.write_table(pa.table({"user": unused, "item": ["a"]}), sink, compression="zstd")
    (world.store / "files" / "left.new").write_bytes(sink.getvalue())
    assert "files/left.new, column user" in by_ledger(world)
    assert "files/left.new, column user" in by_name(world, users=[GONE])


def test_a_request_that_was_not_cleared_away(world: World) -> None:
    request = ForgetRequest.of([pseudonym(world, GONE)], [], [(pseudonym(world, PAIR[0]), PAIR[1])])
    rows = Interactions.from_pairs([(pseudonym(world, "person-06"), "item-00")])
    for pending in (
        Pending("forget", "2026-11-15T17:00:00Z", request=request, id="7" * 32),
        Pending("add", "2026-11-15T17:00:00Z", rows=rows, id="8" * 32),
    ):
        (world.store / "pending").mkdir(exist_ok=True)
        (world.store / "pending" / f"{pending.id}.json").write_bytes(pending.encode())
    told = by_ledger(world)
    assert f"user forgotten by entry 1: pending/{'7' * 32}.json" in told
    assert f"interaction forgotten by entry 4: pending/{'7' * 32}.json" in told
    assert f"user forgotten by entry 6: pending/{'8' * 32}.json, base64 in it" in told
    told = by_name(world, users=[GONE], interactions=[PAIR])
    assert "user 1" in told
    assert "interaction 1" in told


def test_rows_that_are_still_in_a_shard(world: World) -> None:
    """Somebody puts a row back, by hand, without an add."""
    name, data = file_of(world, "train")
    rows = Interactions.union([decode_rows(data), Interactions.from_pairs([(pseudonym(world, GONE), "item-00")])])
    replaced(world, name, encode_rows(rows))
    assert "user forgotten by entry 1: the training rows of shard 0, files/" in by_ledger(world)


def test_a_state_that_was_kept(world: World) -> None:
    with changing(world.store, world.keys, keep_old=True) as engine:
        engine.forget(["person-08"])
    told = by_ledger(world)
    assert "user forgotten by entry 7: an earlier state, kept: the " in told
    assert found(world)[DIGESTS].ok, "its digest is where it belongs"


@pytest.mark.parametrize("where", ["manifest.json", "ledger"])
def test_an_id_among_our_own_words(world: World, where: str) -> None:
    if where == "manifest.json":
        world.rewrite(lambda body: body["seconds"].update({GONE: 1.0}))  # type: ignore[attr-defined]
    else:
        with (world.store / where).open("ab") as stream:
            stream.write(f'{{"user":"{GONE}"}}\n'.encode())
    assert where in by_ledger(world)
    assert where in by_name(world, users=[GONE])


# ---------------------------------------------------------------------- digests


def test_a_digest_where_a_commitment_belongs(world: World) -> None:
    digest = str(world.manifest()["digest"])
    (world.store / "certificates" / "copy.json").write_text(json.dumps({"digest": digest}))
    check = found(world)[DIGESTS]
    assert (check.ok, check.detail) == (False, "a digest instead of a commitment: certificates/copy.json")


def test_the_digest_of_an_earlier_state(world: World, tmp_path: Path) -> None:
    old = str(world.manifest()["digest"])
    log = tmp_path / "a.log"
    log.write_text(f"published, digest {old[:16]}...\n")
    check = found(world, search=[log])[DIGESTS]
    assert check.ok
    assert f"that of the present state stands in {log}" in check.detail
    with changing(world.store, world.keys, keep_old=True) as engine:
        engine.forget(["person-08"])
    told = found(world, search=[log])[DIGESTS]
    assert (told.ok, told.detail) == (False, f"the beginning of the digest of an earlier state: {log}")
    log.write_text(f"published, digest {old}\n")
    assert found(world, search=[log])[DIGESTS].detail == f"the digest of an earlier state: {log}"


# ---------------------------------------------------------------------- what cannot be searched


def test_without_the_ledgers_key(original: World) -> None:
    case, _ = examine(original.store)
    checks = {one.name: one for one in residue(case, key=original.key)}
    assert not checks[LEDGER].ok
    assert checks[LEDGER].detail.startswith("4 forget requests cannot be checked")
    assert LEDGER not in {one.name for one in residue(case, key=original.key, users=[GONE])}, "named, it is not needed"


def test_without_the_key_of_the_pseudonyms(original: World) -> None:
    for key in (None, bytes(32)):
        checks = {one.name: one for one in residue(original.examine()[0], key=key, users=[GONE], items=["x"])}
        assert "could not be looked for as pseudonyms" in checks[NAMES].detail
        assert not checks[NAMES].ok
        assert "outside ids were not looked for" in checks[LEDGER].detail
        assert {one.name: one for one in residue(original.examine()[0], key=key, items=["x"])}[NAMES].ok


def test_after_the_ledgers_key_was_shredded(world: World) -> None:
    shred(world.store, world.keyring)
    check = found(world)[LEDGER]
    assert check.ok
    assert "4 more cannot be recognised by anybody: the ledger's key was shredded" in check.detail
    with changing(world.store, world.keys) as engine:
        engine.forget(["person-08"])
    check = found(world)[LEDGER]
    assert check.ok
    assert check.detail.startswith("nothing of 1 subject of 1 forget request")


def test_what_could_not_be_opened_is_told(world: World, tmp_path: Path) -> None:
    (tmp_path / "backup.gz").write_bytes(b"\x1f\x8bbroken")
    check = found(world, search=[tmp_path / "backup.gz"])["residue unopened"]
    assert check.detail.startswith(f"only the raw bytes were searched of {tmp_path}/backup.gz (")


def test_a_store_that_is_damaged_is_searched_all_the_same(world: World, tmp_path: Path) -> None:
    (world.store / "files" / str(world.manifest()["titles"])).unlink()
    (tmp_path / "a.log").write_text(GONE)
    assert "user forgotten by entry 1" in by_ledger(world, tmp_path / "a.log")
    world.rewrite(lambda body: body.pop("record"))
    (check,) = residue(examine(world.store)[0])
    assert (check.name, check.ok) == ("residue", False)


def test_the_hashes_are_the_ledgers() -> None:
    key = bytes(range(32))
    for kind in ("user", "item"):
        assert _hasher(key, kind)("some one").hex() == ledger.subject_hash(key, kind, "some one")
    assert _prefixed("ab") == b"\x02" + bytes(7) + b"ab"
