"""Whose keys count: those that somebody outside the store names."""

from __future__ import annotations

from pathlib import Path

import pytest

from receraser.errors import ProofError, UsageError
from receraser.proof.issued import named_signers
from receraser.proof.keyring import Keyring
from receraser.proof.signing import SigningKey
from receraser.verify.checks import examine
from receraser.verify.signatures import Vouchers, trusted
from tests.verify.conftest import World, changing


def detail(world: World, vouchers: Vouchers, keyring: Keyring | None = None) -> tuple[bool, str]:
    checks = examine(world.store, vouchers=vouchers, keyring=keyring)[1]
    return all(one.ok for one in checks), next(one.detail for one in checks if one.name == "signers")


def test_who_vouches(original: World, tmp_path: Path) -> None:
    ring = original.keyring
    key = ring.signing().public
    (tmp_path / "operator.pem").write_bytes(key.to_pem())
    assert detail(original, Vouchers.of([tmp_path / "operator.pem"])) == (True, f"{key.id}: vouched for by --trust")
    assert detail(original, Vouchers.of([ring.folder / "public"])) == (True, f"{key.id}: vouched for by --trust")
    assert detail(original, Vouchers.of(keyring=ring)) == (True, f"{key.id}: vouched for by {ring.folder}")
    ok, told = detail(original, Vouchers())
    assert ok
    assert f"nobody vouched for {key.id}" in told
    assert "name it with --trust" in told


def test_a_key_that_was_named_and_did_not_sign(original: World, tmp_path: Path) -> None:
    stranger = Keyring(tmp_path / "strangers")
    stranger.signing()
    ok, told = detail(original, Vouchers.of([stranger.folder / "public"]))
    assert not ok
    assert "for which --trust does not vouch" in told
    ok, told = detail(original, Vouchers.of(keyring=stranger, named=True))
    assert not ok
    assert f"for which {stranger.folder} does not vouch" in told


def test_keys_that_only_lie_there_say_nothing_of_another_operators_store(original: World, tmp_path: Path) -> None:
    stranger = Keyring(tmp_path / "strangers")
    stranger.signing()
    ok, told = detail(original, Vouchers.of(keyring=stranger), stranger)
    assert ok
    assert "nobody vouched for" in told


def test_a_key_that_took_anothers_place(world: World, tmp_path: Path) -> None:
    old, new = world.keyring.rotate("2026-11-15T17:00:00Z")
    with changing(world.store, world.keys) as engine:
        engine.forget(["person-08"])
    (tmp_path / "old.pem").write_bytes(old.to_pem())
    (tmp_path / "new.pem").write_bytes(new.to_pem())
    public = world.keys / "public"
    assert detail(world, Vouchers.of([tmp_path / "old.pem", public]))[0], "the old key says who follows"
    assert detail(world, Vouchers.of([public]))[0]
    assert not detail(world, Vouchers.of([tmp_path / "old.pem"]))[0], "without its statement nobody knows"
    assert not detail(world, Vouchers.of([tmp_path / "new.pem", public]))[0], "a new key cannot vouch for an old one"
    assert world.failing() == {}


def test_paths_that_hold_no_key(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.pem").write_text("no key")
    for path in (tmp_path / "none.pem", tmp_path / "empty", tmp_path / "text.pem"):
        with pytest.raises(UsageError, match=r"^--trust: "):
            trusted([path])


def test_a_store_that_names_a_key_by_another_id() -> None:
    key = SigningKey.generate().public
    assert named_signers({key.id: key.to_hex()}) == {key.id: key}
    with pytest.raises(ProofError, match="has the key"):
        named_signers({"0" * 16: key.to_hex()})
