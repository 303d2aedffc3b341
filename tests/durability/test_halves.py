"""What could be half forgotten, half said or half promised: each of these was, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from receraser.engine import Engine
from receraser.errors import UsageError
from receraser.store.history import History, waiting
from receraser.store.record import Record
from tests.durability.scenes import (
    COMPUTED,
    TRAIN,
    account,
    ask,
    changing,
    check_clean,
    copied,
    finish,
    fit,
    forget,
    forget_and_keep,
    keyring_of,
    store_of,
)
from tests.durability.traps import AFTER, BEFORE, Trap, in_a_child
from tests.forgetting.engines import every_byte, pseudonym


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    fit(folder)
    return folder


def record(root: Path) -> Record:
    return History.of(store_of(root)).record


def test_somebody_of_whom_only_a_wish_is_left_is_forgotten(root: Path) -> None:
    """There is no row to go, and the state stays as it is; what they wished not to see names them all the same."""
    with changing(root) as engine:
        engine.forget(interactions=[pair for pair in TRAIN if pair[0] == "u1"], hide=True)
        engine.forget(interactions=[("u1", "i2")])  # held for validation
        assert not engine.knows("u1")
    assert pseudonym("u1").encode() in every_byte(root / "store" / "files")
    with changing(root) as engine:
        report = engine.forget(["u1"])
    assert report.path == "nothing"
    assert len(Engine.load(root / "store").wishes) == 0
    assert pseudonym("u1").encode() not in every_byte(root / "store")
    check_clean(root)


def test_a_wish_about_what_is_not_held_is_kept(root: Path) -> None:
    with changing(root) as engine:
        assert engine.forget(interactions=[("u1", "i5")], hide=True).path == "nothing"
    loaded = Engine.load(root / "store")
    assert set(loaded.wishes.pairs()) == {(pseudonym("u1"), "i5")}
    assert "i5" not in [one.item for one in loaded.recommend(["u1"])["u1"]]
    check_clean(root)


def test_no_level_is_claimed_while_an_old_state_is_kept(root: Path) -> None:
    """A request for which nothing was held destroys nothing, and its certificate must not say that it did."""
    forget_and_keep(root)
    for keep_old in (False, True):
        with changing(root, keep_old=keep_old) as engine:
            engine.forget(["nobody"])
            assert engine.level == "L2"
    said = account(root)["certificates"]
    assert isinstance(said, list)
    assert [one["level"] for one in said] == ["L3", "L2", "L2", "L2"]
    check_clean(root)
    forget(root)
    assert Engine.load(root / "store").level == "L3"
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
