"""A store that is as it should be, in all the ways it can be; and that a look changes nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from receraser.data.interactions import Interactions
from receraser.engine import Engine
from receraser.errors import StoreError, StoreNotFoundError
from receraser.fingerprint import of_bytes
from receraser.proof.keyring import Keyring
from receraser.store.directory import DirectoryStore
from receraser.store.encoding import encode_titles
from receraser.store.pending import Pending
from receraser.verify import checks as module
from receraser.verify.checks import CHECKS, examine
from receraser.verify.signatures import Vouchers
from tests.forgetting.engines import Combination, Here
from tests.verify.conftest import COMBINATION, HELD, ROWS, World, changing, fitted


def test_a_store_with_a_history_holds(original: World) -> None:
    _, checks = original.examine()
    assert [one.name for one in checks] == list(CHECKS)
    assert all(one.ok for one in checks), checks
    told = {one.name: one.detail for one in checks}
    assert told["ledger"].startswith("7 entries, root ")
    assert told["certificates"].startswith("7 certificates, each signed (key ")
    assert told["level"] == "L3, as it is said"
    assert told["wishes"] == "1 pair of user and item, stored to be kept out of lists"
    assert told["pending"] == "no request is waiting"


def test_a_look_changes_nothing(world: World) -> None:
    def everything() -> dict[str, tuple[bytes, int]]:
        files = [path for path in world.store.rglob("*") if path.is_file()]
        return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}

    before = everything()
    world.examine()
    examine(world.store, keyring=Keyring(world.store.parent / "no-keys"))
    assert everything() == before
    assert not (world.store.parent / "no-keys").exists()


def test_it_needs_no_torch(original: World) -> None:
    script = (
        "import sys; sys.modules['torch'] = None; sys.modules['numba'] = None\n"
        "from pathlib import Path\n"
        "from receraser.verify.checks import examine\n"
        "import receraser.verify.papers, receraser.verify.replay\n"
        "from receraser.residue.search import residue\n"
        f"case, checks = examine(Path({str(original.store)!r}))\n"
        "assert all(one.ok for one in checks), checks\n"
        "assert residue(case, users=['somebody else'])\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "combination",
    [
        Combination("whole", "alone", "gram"),
        Combination("hash", "spectral", "gram"),
        Combination("random", "attention", "bpr"),
        Combination("inbp", "static", "wmf"),
        Combination("ibp", "mean", "lightgcn"),
    ],
    ids=str,
)
def test_the_digest_is_the_engines(combination: Combination, tmp_path: Path) -> None:
    """Computed apart from it, for every kind of content: landmarks, no aggregate, no shards, validation rows."""
    fitted(tmp_path / "store", tmp_path / "keys", combination)
    world = World(tmp_path / "store", tmp_path / "keys", (), b"")
    assert world.failing() == {}
    with changing(world.store, world.keys) as engine:
        engine.forget(["person-01"])
    case, checks = world.examine()
    assert all(one.ok for one in checks), checks
    assert case.content.digest == Engine.load(world.store, key=world.key).digest
    assert case.manifest["level"] == ("L1" if combination.remembers_data else "L3")


def test_a_store_of_no_rows_holds(tmp_path: Path) -> None:
    fitted(tmp_path / "store", tmp_path / "keys")
    with changing(tmp_path / "store", tmp_path / "keys") as engine:
        engine.forget(sorted({user for user, _ in ROWS + HELD}))
    assert World(tmp_path / "store", tmp_path / "keys", (), b"").failing() == {}


def test_an_earlier_state_that_is_kept_is_checked_too(world: World) -> None:
    with changing(world.store, world.keys, keep_old=True) as engine:
        engine.forget(["person-07"])
        engine.forget(["person-08"])
    _, checks = world.examine()
    told = {one.name: one.detail for one in checks}
    assert all(one.ok for one in checks), checks
    assert told["level"] == "L2, as it is said"
    assert told["files"].endswith("; 2 earlier states kept")
    previous = world.manifest()["previous"]
    assert isinstance(previous, dict)
    victim = world.store / "files" / next(name for name in previous["files"] if name not in world.manifest()["files"])  # type: ignore[operator]
    victim.write_bytes(b"x" + victim.read_bytes()[1:])
    assert victim.name in world.failing()["files"]


def asked(world: World, kind: str, digit: str, *, store: str = "", by_hand: bool = False) -> None:
    """Write a request down; `by_hand`: without the store's keys."""
    own = world.examine()[0]
    pending = Pending(kind, "2026-11-15T17:00:00Z", id=digit * 32, store=store or own.manifest["record"]["store"])
    (world.store / "pending").mkdir(exist_ok=True)
    (world.store / "pending" / f"{pending.id}.json").write_bytes(pending.encode(None if by_hand else own.ledger_key))


def test_requests_that_wait_are_told(world: World) -> None:
    asked(world, "rebuild", "0")
    asked(world, "rebuild", "1")
    _, checks = world.examine()
    assert all(one.ok for one in checks)
    assert checks[-1].detail == "2 requests are waiting, written with the keys of this store"
    assert examine(world.store)[1][-1].detail == "2 requests are waiting", "whoever has no keys cannot tell"
    world.rewrite(lambda body: body["record"].update(done="1" * 32))  # type: ignore[attr-defined]
    assert "1 request is waiting, written with the keys of this store; 1 done or" in world.examine()[1][-1].detail


def test_a_request_that_somebody_else_wrote_down(world: World) -> None:
    asked(world, "rebuild", "7", by_hand=True)
    assert examine(world.store)[1][-1].ok, "whoever has no keys cannot tell"
    told = world.failing()
    assert list(told) == ["pending"]
    assert f"pending/{'7' * 32}.json was not written down with the keys of this store" in told["pending"]


def test_a_request_to_a_store_that_was_replaced_waits_for_nothing(world: World) -> None:
    asked(world, "rebuild", "7", store="a" * 32, by_hand=True)
    check = world.examine()[1][-1]
    assert check.ok
    assert check.detail.startswith("no request is waiting; 1 done or of a store that was replaced")


def test_a_crash_while_another_store_takes_the_place_of_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest is the new one; the ledger lies where it was made, and the old one beside it."""

    def crash(store: DirectoryStore) -> None:
        raise InterruptedError

    engine = Engine.from_config(COMBINATION.config(), key=world.key, executor=Here()).fit(Interactions.from_pairs(ROWS))
    with monkeypatch.context() as patched:
        patched.setattr(DirectoryStore, "sweep", crash)
        with pytest.raises(InterruptedError):
            engine.save(world.store, replace=True, keyring=world.keyring)
    case, checks = world.examine()
    name = f"ledger-{case.manifest['record']['store']}.new"
    assert (world.store / name).exists()
    assert [one.name for one in checks if not one.ok] == ["strays"]
    told = {one.name: one.detail for one in checks}
    assert told["ledger"].startswith("1 entry, root ")
    assert f"; still in {name}: a crash came" in told["ledger"]
    DirectoryStore(world.store).sweep()
    assert world.failing() == {}
    (world.store / name).write_bytes((world.store / "ledger").read_bytes())
    assert f"ledger, which is of the store that was replaced ({name} is to" in world.failing()["strays"]


def test_a_request_of_another_kind_is_refused(world: World) -> None:
    asked(world, "destroy", "7")
    assert world.failing() == {
        "pending": f"pending/{'7' * 32}.json asks for 'destroy'; expected one of add, forget, rebuild"
    }


def test_a_store_that_nobody_signed_is_whole_and_says_so(tmp_path: Path) -> None:
    engine = Combination("hash", "mean", "wmf").engine(Here())
    engine.fit(Interactions.from_pairs(ROWS)).save(tmp_path / "store")
    _, checks = examine(tmp_path / "store")
    assert all(one.ok for one in checks)
    unsigned = [one.name for one in checks if one.detail.startswith("nothing is signed in this store")]
    assert unsigned == ["signers", "checkpoint", "certificates", "state"]
    ring = Keyring(tmp_path / "keys")
    ring.signing()
    _, checks = examine(tmp_path / "store", vouchers=Vouchers.of([ring.folder / "public"]))
    assert [one.name for one in checks if not one.ok] == ["signers", "checkpoint", "certificates", "state"]
    assert "expected signatures by a key of --trust" in checks[-2].detail


def test_there_must_be_a_store(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(StoreNotFoundError, match="there is no store in"):
            examine(path)
    (tmp_path / "files").mkdir()
    with pytest.raises(StoreError, match="half-written"):
        examine(tmp_path)


def test_who_publishes_meanwhile_is_followed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that is replaced while it is read is not said to be damaged."""
    first = module.check_content

    def slow(case: object) -> str:
        monkeypatch.setitem(module.CHECKS, "content", first)
        with changing(world.store, world.keys) as engine:
            engine.forget(["person-08"])
        return first(case)  # type: ignore[arg-type]

    monkeypatch.setitem(module.CHECKS, "content", slow)
    case, found = world.examine()
    assert all(one.ok for one in found), found
    assert len(case.entries) == 8


def test_strays_are_named(world: World) -> None:
    (world.store / "files" / "left.new").write_bytes(b"x")
    (world.store / "notes.txt").write_text("x")
    (world.store / "folder").mkdir()
    (world.store / "lock").write_bytes(b"pid")
    with (world.store / "ledger").open("ab") as stream:
        stream.write(b"{}\n")
    told = world.failing()
    assert list(told) == ["strays"]
    for name in ("files/left.new", "notes.txt", "folder", "lock, which holds 3 bytes", "the end of ledger"):
        assert name in told["strays"]


def test_a_link_is_no_part_of_a_store(world: World) -> None:
    """What it leads to can change without anything here changing."""
    path = world.store / "ledger"
    path.rename(world.store.parent / "elsewhere")
    path.symlink_to(world.store.parent / "elsewhere")
    assert list(world.failing()) == ["strays"]


def test_what_outlives_its_rows_is_found(world: World) -> None:
    """A title of an item that nobody has any more."""
    titles = encode_titles({"item-01": "The title", "item-long-gone": "Another"})
    name = of_bytes(titles)
    (world.store / "files" / name).write_bytes(titles)

    def swap(body: dict[str, object]) -> None:
        files = body["files"]
        assert isinstance(files, dict)
        (world.store / "files" / str(body["titles"])).unlink()
        del files[body["titles"]]
        body["titles"] = name
        files[name] = len(titles)

    world.rewrite(swap)
    assert world.failing()["content"] == f"1 title of items that are in no row (files/{name})"
