"""What could be half forgotten, half said or half promised: each of these was, once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from receraser import acts
from receraser.acts import Held
from receraser.config import EngineConfig
from receraser.custody import Custody
from receraser.engine import Engine
from receraser.errors import EnvironmentMismatchError, StoreError, UsageError
from receraser.fingerprint import of_bytes
from receraser.fitting import Fitting
from receraser.proof.keyring import Keyring
from receraser.proof.signing import SigningKey
from receraser.state import State
from receraser.store.directory import DirectoryStore
from receraser.store.encoding import encode_rows
from receraser.store.history import History, waiting
from receraser.store.pending import Pending
from receraser.store.record import Policy, Record
from receraser.work import Work
from tests.durability.scenes import (
    COMPUTED,
    HASHED,
    NEW,
    TITLES,
    TRAIN,
    VALID,
    Remembering,
    account,
    add,
    ask,
    changing,
    check_clean,
    copied,
    finish,
    fit,
    fit_driven,
    forget_and_keep,
    hand_over,
    keyring_of,
    stop_at_the_swap,
    store_of,
    withdraw,
)
from tests.durability.traps import AFTER, BEFORE, Trap, in_a_child
from tests.forgetting.engines import Breaking, Here, every_byte, pseudonym, rows_of


def record(root: Path) -> Record:
    return History.of(store_of(root)).record


def test_a_wish_goes_with_the_last_row_of_whoever_had_it(root: Path) -> None:
    """Nobody is recommended anything without rows, and of whoever has none nothing is kept."""
    with changing(root) as engine:
        engine.forget(interactions=[pair for pair in TRAIN if pair[0] == "u1"], hide=True)
        engine.forget(interactions=[("u1", "i2")])  # held for validation
        assert not engine.knows("u1")
    assert len(Engine.load(root / "store").wishes) == 0
    assert pseudonym("u1").encode() not in every_byte(root / "store")
    check_clean(root)


def test_requests_that_wait_are_not_lost_with_a_store_that_is_replaced(root: Path) -> None:
    ask(root)
    with pytest.raises(StoreError, match=r"requests are waiting in .* \(1\), and replacing the store would lose them"):
        HASHED.engine(COMPUTED).fit(rows_of(TRAIN)).save(root / "store", replace=True, keyring=keyring_of(root))
    assert len(waiting(store_of(root))) == 1


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("moment", ["the next state is held", "the account is made"])
def test_whatever_goes_wrong_between_the_work_and_its_publication(
    moment: str, error: type[BaseException], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine has what the store has, and goes on from there: it would find nothing left to forget otherwise.

    The request would then be done without its rows having gone, with a certificate that says so.
    """

    def broken(*_: object, **__: object) -> None:
        raise error

    owner: object = Held if moment == "the next state is held" else acts
    with changing(root) as engine:
        before = engine.digest
        with monkeypatch.context() as patch:
            patch.setattr(owner, "then" if owner is Held else "Act", broken)
            with pytest.raises(error):
                engine.forget(["u1"])
        assert engine.digest == before == Engine.load(root / "store").digest
        assert engine.knows("u1")
        assert len(waiting(store_of(root))) == 1
        engine.forget(["u2"])  # what failed goes first
    rows = [pair for pair in TRAIN if pair[0] not in ("u1", "u2")]
    left = [pair for pair in VALID if pair[0] not in ("u1", "u2")]
    fresh = HASHED.engine(COMPUTED).fit(rows_of(rows), valid=rows_of(left))
    assert Engine.load(root / "store").digest == fresh.digest
    said = account(root)["certificates"]
    assert isinstance(said, list)
    gone = [len([pair for pair in TRAIN if pair[0] == user]) for user in ("u1", "u2")]
    assert [one["rows"][0] for one in said] == [0, *gone]
    check_clean(root)


def test_a_forget_that_cannot_be_done_here_is_owed_still(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is missing on this machine, the request was right, and receipts may have been handed out for it."""

    def nowhere(self: Fitting, *_: object, **__: object) -> None:
        raise UsageError("device 'cuda' was asked for, but torch finds no CUDA device here")

    with changing(root) as engine:
        with monkeypatch.context() as patch:
            patch.setattr(Fitting, "environment", property(nowhere))
            with pytest.raises(EnvironmentMismatchError, match=r"is not here: device 'cuda' .* receraser rebuild"):
                engine.forget(["u1"])
        assert len(waiting(store_of(root))) == 1
        with monkeypatch.context() as patch:
            patch.setattr(Fitting, "submodels", nowhere)
            with pytest.raises(StoreError, match="a request is written down, and cannot be done here: device"):
                engine.forget(["u1"])
        assert len(waiting(store_of(root))) == 1, "the first; the second was not made"
    with monkeypatch.context() as patch:
        patch.setattr(Fitting, "submodels", nowhere)
        with pytest.raises(StoreError, match="cannot be done here"), changing(root):
            pass
    with changing(root) as engine:
        assert engine.finished == 1
        with monkeypatch.context() as patch:
            patch.setattr(Fitting, "submodels", nowhere)
            with pytest.raises(StoreError, match="cannot be done here"):
                engine.forget(["u2"])
        assert len(waiting(store_of(root))) == 1, "nor is one dropped that was made just now"
    finish(root)
    assert not Engine.load(root / "store").knows("u2")
    check_clean(root)


def test_what_goes_wrong_when_it_is_published(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is not behind its store either: the next change would bring back what the ledger says is gone."""
    take = Engine._take

    def broken(self: Engine, held: Held) -> None:
        monkeypatch.setattr(Engine, "_take", take)
        raise MemoryError

    with changing(root) as engine:
        monkeypatch.setattr(Engine, "_take", broken)
        with pytest.raises(MemoryError):
            engine.forget(["u1"])
        assert not engine.knows("u1")
        assert engine.digest == Engine.load(root / "store").digest
        engine.forget(["u2"])
    assert not {"u1", "u2"} & {user for user, _ in TRAIN if Engine.load(root / "store").knows(user)}
    check_clean(root)


def test_a_rebuild_does_first_what_could_not_be_done_where_it_was(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the configuration of the rebuild, with its device: that of the store may be what is missing."""
    ask(root)
    asked: list[EngineConfig] = []
    made, anew = Work.__init__, Engine._anew
    known: list[tuple[str, EngineConfig]] = []

    def elsewhere(self: Fitting, expected: object) -> None:
        raise EnvironmentMismatchError("computed elsewhere")

    def noted(self: Work, config: EngineConfig, *more: object, **how: object) -> None:
        asked.append(config)
        made(self, config, *more, **how)  # type: ignore[arg-type]

    def for_device(self: Engine, device: str) -> EngineConfig:
        known.append((device, anew(self, device)))
        return known[-1][1]

    monkeypatch.setattr(Fitting, "check_environment", elsewhere)
    monkeypatch.setattr(Work, "__init__", noted)
    monkeypatch.setattr(Engine, "_anew", for_device)
    with changing(root, finish=False) as engine:
        engine.rebuild(device="cpu")
    assert [device for device, _ in known] == ["cpu", "cpu"]
    assert len(asked) == 3, "as it was, anew, and the rebuild itself"
    assert asked[1] is known[0][1]
    assert [one.action for one in History.of(store_of(root)).entries] == ["fit", "forget", "rebuild"]
    check_clean(root)


def test_a_rebuild_gets_past_a_policy_and_past_another_rebuild(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request whose turn it is to be done by a new partition, and a rebuild, both for a device that is not here."""
    with changing(root, finish=False) as engine:
        engine.policy = Policy(requests=1)
        engine.rebuild()
    ask(root)
    with changing(root, finish=False) as engine:
        assert engine._custody is not None
        last = "f" * 32  # of requests of one second the id says which comes first
        engine._custody.write_down(Pending("rebuild", engine._custody.time(), device="nonsense", id=last))
    fit, before = Work.fit, []

    def not_here(self: Work, *rows: object, **how: object) -> State:
        before.append(self._config)
        if len(before) == 1:
            raise UsageError("device 'cuda' was asked for, but torch finds no CUDA device here")
        return fit(self, *rows, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(Work, "fit", not_here)
    monkeypatch.setattr(Engine, "_due", lambda self: True)
    with pytest.raises(StoreError, match=r"cannot be done here: device 'cuda' .* receraser rebuild --device"):
        finish(root)
    assert len(waiting(store_of(root))) == 2
    before.clear()
    with changing(root, finish=False) as engine:
        engine.rebuild(device="cpu")
    actions = [one.action for one in History.of(store_of(root)).entries]
    assert actions == ["fit", "rebuild", "forget", "rebuild", "rebuild"]
    assert not Engine.load(root / "store").knows("u1")
    check_clean(root)


def test_an_add_that_cannot_be_done_here_is_kept_whatever_the_partition(tmp_path: Path) -> None:
    class Nowhere(Here):
        def prepare(self, *_: object, **__: object) -> None:
            raise UsageError("device 'cuda' was asked for, but torch finds no CUDA device here")

    for number, fitted in enumerate((fit, fit_driven)):
        root = tmp_path / str(number)
        fitted(root)
        with pytest.raises(EnvironmentMismatchError), changing(root, Nowhere()) as engine:
            engine.add(rows_of(NEW))
        assert [one.kind for one in waiting(store_of(root))] == ["add"]
        finish(root)
        assert Engine.load(root / "store").knows("u8")
        check_clean(root)


def test_what_a_rebuild_was_to_change_is_not_lost_when_it_cannot_be_published(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    with changing(root) as engine:
        engine.policy = Policy(requests=7)
        with monkeypatch.context() as patch:
            patch.setattr(Custody, "publish", refused)
            with pytest.raises(StoreError, match="the disk is full"):
                engine.rebuild()
        engine.forget(["u1"])
    assert Engine.load(root / "store").policy == Policy(requests=7)
    check_clean(root)


def test_titles_wait_for_their_items(root: Path) -> None:
    """Those of a catalogue may come before the rows do; only what was forgotten takes its title along."""
    engine = Engine.load(root / "store", executor=COMPUTED)
    engine.titles = {**TITLES, "new": "A new film"}
    engine.add(rows_of([("u1", "i5")]))
    engine.add(rows_of([("u9", "new")]))
    assert engine.titles["new"] == "A new film"
    engine.forget(items=["new"])
    assert "new" not in engine.titles


def test_an_open_store_keeps_its_workers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Kept(Remembering):
        def __init__(self) -> None:
            super().__init__()
            self.open = True

        def close(self, *, kill: bool = False) -> None:
            self.open = False

    made: list[Kept] = []

    def started(_: EngineConfig) -> Kept:
        made.append(Kept())
        return made[-1]

    monkeypatch.setattr("receraser.engine.local_executor", started)
    with Engine.changing(root / "store", keyring=keyring_of(root)) as engine:
        engine.forget(["u1"])
        engine.forget(["u2"])
        assert [one.open for one in made] == [True], "the second change finds them warm"
        elsewhere = engine._workers(dataclasses.replace(engine.config, device="cuda"))
        assert elsewhere is made[1]
        assert [one.open for one in made] == [False, True], "as many as serve a device: others are ended"
    assert [one.open for one in made] == [False, False]
    check_clean(root)


def test_other_rows_do_not_take_the_place_of_an_open_stores(root: Path) -> None:
    """A forget after it would publish them, and the ledger would tell of a forget alone."""
    with changing(root) as engine:
        with pytest.raises(UsageError, match="a store is open here to be changed"):
            engine.fit(rows_of(TRAIN[:5]))
        engine.forget(["u1"])
    assert len(Engine.load(root / "store").state.train) == len([pair for pair in TRAIN if pair[0] != "u1"])
    check_clean(root)


def test_a_fit_keeps_nothing_of_what_was_fitted_before(root: Path) -> None:
    engine = Engine.load(root / "store", executor=COMPUTED)
    engine.forget(interactions=[("u1", "i1")], hide=True)
    assert len(engine.wishes) == 1
    engine.fit(rows_of([pair for pair in TRAIN if pair[0] != "u1"]))
    assert len(engine.wishes) == 0
    engine.save(root / "another", keyring=keyring_of(root))
    assert pseudonym("u1").encode() not in every_byte(root / "another")


def test_a_rebuild_says_where_its_certificate_is(root: Path) -> None:
    with changing(root) as engine:
        engine.rebuild()
        assert engine.certificate is not None
        (entry,) = [one for one in History.of(store_of(root)).entries if one.action == "rebuild"]
        assert entry.certificate is not None
        assert engine.certificate == store_of(root).certificate_path(entry.certificate)


def test_a_wish_about_what_is_not_held_is_kept(root: Path) -> None:
    with changing(root) as engine:
        assert engine.forget(interactions=[("u1", "i5")], hide=True).path == "nothing"
    loaded = Engine.load(root / "store")
    assert set(loaded.wishes.pairs()) == {(pseudonym("u1"), "i5")}
    assert "i5" not in [one.item for one in loaded.recommend(["u1"])["u1"]]
    check_clean(root)


def test_a_wish_that_another_version_wrote_in_other_bytes_is_the_same_wish(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that changes nothing changes no file either: with --keep-old the level would fall."""
    with monkeypatch.context() as earlier:
        write = pq.write_table
        earlier.setattr(pq, "write_table", lambda *args, **how: write(*args, **{**how, "write_statistics": True}))
        with changing(root) as engine:
            engine.forget(interactions=[("u1", "i5")], hide=True)
    files = {path.name for path in (root / "store" / "files").iterdir()}
    assert of_bytes(encode_rows(Engine.load(root / "store").wishes)) not in files, "written otherwise today"
    with changing(root, keep_old=True) as engine:
        engine.forget(["nobody"])
        assert engine.level == "L3"
    assert {path.name for path in (root / "store" / "files").iterdir()} == files
    check_clean(root)


def test_an_old_state_is_kept_as_long_as_that_is_asked_for(root: Path) -> None:
    """Also by a request for which nothing was held: without --keep-old it destroys what was kept."""
    forget_and_keep(root)
    for keep_old, level in ((True, "L2"), (False, "L3")):
        with changing(root, keep_old=keep_old) as engine:
            engine.forget(["nobody"])
            assert engine.level == level
    said = account(root)["certificates"]
    assert isinstance(said, list)
    assert [one["level"] for one in said] == ["L3", "L2", "L2", "L3"]
    check_clean(root)


def test_no_old_state_is_claimed_to_be_kept_where_there_is_none(root: Path) -> None:
    with changing(root, keep_old=True) as engine:
        engine.forget(["nobody"])
        assert engine.level == "L3"
    check_clean(root)


def test_publishing_anew_what_was_read_from_a_store_loses_no_request(root: Path) -> None:
    ask(root)
    engine = Engine.load(root / "store", executor=COMPUTED)
    engine.forget(["u2"])
    engine.save(root / "store", replace=True, keyring=keyring_of(root))
    assert len(waiting(store_of(root))) == 1
    with changing(root) as opened:
        assert opened.finished == 1
        assert not opened.knows("u1")
    check_clean(root)


def test_a_new_store_has_nothing_to_do_with_what_was_asked_of_the_old_one(root: Path) -> None:
    ask(root)
    engine = Engine.load(root / "store", executor=COMPUTED)
    engine.save(root / "another", keyring=keyring_of(root))
    (root / "store" / "pending").rename(root / "another" / "pending")
    (root / "another").rename(root / "store-2")
    (root / "store").rename(root / "store-1")
    (root / "store-2").rename(root / "store")
    finish(root)
    assert Engine.load(root / "store").knows("u1")
    check_clean(root)


def test_a_request_from_before_there_were_keys_is_done_with_them(tmp_path: Path) -> None:
    """Nothing was ever signed in this store, so nobody can have promised who may ask."""
    HASHED.engine(COMPUTED).fit(rows_of(TRAIN)).save(tmp_path / "store")
    with pytest.raises(MemoryError), Engine.changing(tmp_path / "store", executor=Breaking("submodel")) as engine:
        engine.forget(["u1"])
    with changing(tmp_path) as engine:
        assert engine.finished == 1
    assert [one.action for one in History.of(store_of(tmp_path)).entries] == ["fit", "forget"]


@pytest.mark.parametrize("act", [forget_and_keep, hand_over, withdraw], ids=lambda one: one.__name__)
def test_a_key_that_is_rotated_meanwhile(
    act: Callable[[Path], None], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One key signs a swap, certificate and checkpoint, and the record names it: though another takes its place."""
    if act is withdraw:
        ask(root)
    before = set(record(root).signers)
    real = Keyring.signing

    def signing(self: Keyring, create: bool = True) -> SigningKey:
        key = real(self, create)
        with monkeypatch.context() as patch:
            patch.setattr(Keyring, "signing", real)
            self.rotate("2026-01-01T00:00:00Z")
        return key

    monkeypatch.setattr(Keyring, "signing", signing)
    act(root)
    monkeypatch.setattr(Keyring, "signing", real)
    (new,) = set(record(root).signers) - before
    signed = History.of(store_of(root)).checkpoint()
    assert signed is not None
    assert signed.signed_by == new
    check_clean(root)


def test_what_cannot_be_asked_for_is_not_written_down(root: Path) -> None:
    """It would be in the way of everybody who comes after."""
    before = account(root)
    for device in ("nonsense", "tpu"):
        with changing(root, finish=False) as engine, pytest.raises(UsageError, match="unknown device"):
            engine.rebuild(device=device)
    assert account(root) == before
    check_clean(root)


def test_nobody_has_an_export_that_is_not_on_record(root: Path) -> None:
    out = root / "out"

    def export(folder: Path) -> None:
        with changing(folder) as engine:
            engine.export(folder / "out", to="an office")

    aside = copied(root, "rehearsal")
    with Trap(aside) as trap:
        export(aside)
    assert (aside / "out" / "export.json").exists()
    for at, step in enumerate(trap.steps):
        for when in (BEFORE, AFTER):
            killed = copied(root, f"killed-{at}-{when}")

            def work(killed: Path = killed, at: int = at, when: str = when) -> None:
                with Trap(killed, at, when):
                    export(killed)

            assert in_a_child(work) < 0
            there = (killed / "out").is_dir() and any((killed / "out").iterdir())
            assert record(killed).recipients or not there, step
    with changing(root) as engine:
        out.mkdir()
        (out / "mine").touch()
        with pytest.raises(UsageError, match="is not empty"):
            engine.export(out, to="an office")
    assert record(root).recipients == (), "nor is it on record where there was none"


# ---------------------------------------------------------------------- done once


def test_what_a_crash_left_is_not_done_after_another_request(root: Path) -> None:
    """Whoever was added and then forgotten would be back."""
    stop_at_the_swap(root, add)
    assert len(store_of(root).pending()) == 1, "its file is left"
    with changing(root, finish=False) as engine:
        engine.forget(["u8", "u9"])
    check_forgotten_for_good(root)


def test_what_could_not_be_removed_is_not_done_after_another_request(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: DirectoryStore, name: str) -> None:
        raise StoreError(f"pending/{name}.json cannot be removed")

    with changing(root) as engine:
        with monkeypatch.context() as patch:
            patch.setattr(DirectoryStore, "drop_pending", refused)
            with pytest.raises(StoreError, match="cannot be removed"):
                engine.add(rows_of(NEW))
        engine.forget(["u8", "u9"])
    check_forgotten_for_good(root)


def check_forgotten_for_good(root: Path) -> None:
    finish(root)
    assert not Engine.load(root / "store").knows("u8")
    assert [one.action for one in History.of(store_of(root)).entries] == ["fit", "add", "forget"]
    check_clean(root)


def test_a_copy_of_an_earlier_request_that_somebody_puts_back_is_done_again(root: Path) -> None:
    """The last one alone is remembered. The ledger has both, and says who came back."""
    store, kept = store_of(root), root / "kept"
    with changing(root) as engine:
        assert engine._custody is not None
        rows = rows_of([(pseudonym(user), item) for user, item in NEW])
        one = engine._custody.write_down(Pending("add", engine._custody.time(), rows=rows))
    kept.write_bytes(store.pending()[one.id])
    finish(root)
    with changing(root) as engine:
        engine.forget(["u8"])
    store.put_pending(one.id, kept.read_bytes())
    finish(root)
    entries = History.of(store).entries
    assert [one.action for one in entries] == ["fit", "add", "forget", "add"]
    assert set(entries[2].subjects) <= set(entries[3].subjects)
