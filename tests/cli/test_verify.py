"""`receraser verify`: what it prints, and how it ends."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from receraser.data.interactions import Interactions
from receraser.engine import Engine
from receraser.execution.local import LocalExecutor
from receraser.fingerprint import canonical_json
from receraser.keys import load_key
from receraser.proof.keyring import ROTATION_TYPE, Keyring
from receraser.proof.signing import SigningKey, sealed
from tests.cli.conftest import Cli
from tests.verify.conftest import COMBINATION, ROWS, checkpoint_of

GONE = "person-03"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, worker: LocalExecutor) -> Path:
    """A store whose weights were computed by workers, its keys, and the papers of somebody who was forgotten."""
    place = tmp_path_factory.mktemp("papers")
    key, ring = load_key(place / "keys", create=True), Keyring(place / "keys")
    engine = Engine.from_config(COMBINATION.config(), key=key, executor=worker)
    engine.fit(Interactions.from_pairs(ROWS)).save(place / "store", keyring=ring)
    (place / "checkpoint.json").write_bytes(checkpoint_of(place / "store"))
    with Engine.changing(place / "store", key=key, executor=worker, keyring=ring) as changed:
        report = changed.forget([GONE])
    assert report.certificate is not None
    shutil.copy(report.certificate, place / "certificate.json")
    (place / "receipt.json").write_bytes(report.receipts[0].payload() + b"\n")
    return place


@pytest.fixture(autouse=True)
def no_keys_of_ones_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RECERASER_KEYS", str(tmp_path / "own"))


def checks(document: dict[str, object]) -> dict[str, dict[str, object]]:
    found = document["checks"]
    assert isinstance(found, list)
    assert all(set(one) == {"name", "ok", "detail"} for one in found)
    return {one["name"]: one for one in found}


def test_a_store_that_holds(cli: Cli, folder: Path) -> None:
    done = cli("verify", "--store", folder / "store", "--keys", folder / "keys")
    assert done.code == 0
    assert len(done.out.splitlines()) == 12
    assert all(line.startswith("ok    ") for line in done.out.splitlines())
    assert "all 12 checks hold" in done.err
    assert "--replay all" in done.err
    assert "vouches for" not in done.err
    done = cli("verify", "--store", folder / "store")
    assert done.code == 0
    (key,) = Keyring(folder / "keys").public()
    assert f"nobody here vouches for key {key}: give --trust" in " ".join(done.err.split())


def test_everything_at_once_as_json(cli: Cli, folder: Path) -> None:
    papers = [
        part for name in ("certificate", "receipt", "checkpoint") for part in (f"--{name}", folder / f"{name}.json")
    ]
    more = ["--replay", "affected", "--residue", "--user", GONE, "--search", folder / "checkpoint.json"]
    done = cli("verify", "--store", folder / "store", "--keys", folder / "keys", *papers, *more, "--json")
    assert done.code == 0, done.out
    assert done.json["ok"] is True
    found = checks(done.json)
    assert {"certificate", "receipt", "witness", "replay", "residue by the ledger", "residue by name"} <= found.keys()
    assert str(found["replay"]["detail"]).startswith("shard")
    assert GONE not in done.out


def test_a_store_that_was_changed(cli: Cli, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "store", tmp_path / "store")
    victim = min((tmp_path / "store" / "files").iterdir())
    victim.write_bytes(victim.read_bytes() + b"x")
    done = cli("verify", "--store", tmp_path / "store", "--json")
    assert done.code == 1
    assert done.json["ok"] is False
    assert victim.name in str(checks(done.json)["files"]["detail"])
    done = cli("verify", "--store", tmp_path / "store")
    assert done.code == 1
    assert any(line.startswith("FAIL  files") and victim.name in line for line in done.out.splitlines())
    assert "checks do not hold" in done.err


def test_whose_key_it_is(cli: Cli, folder: Path, tmp_path: Path) -> None:
    public = folder / "keys" / "public"
    done = cli("verify", "--store", folder / "store", "--json")
    assert done.code == 0
    assert "nobody vouched for" in str(checks(done.json)["signers"]["detail"])
    for trusted in (public, next(public.glob("*.pem"))):
        done = cli("verify", "--store", folder / "store", "--trust", trusted, "--json")
        assert done.code == 0
        assert "vouched for by --trust" in str(checks(done.json)["signers"]["detail"])
    Keyring(tmp_path / "others").signing()
    done = cli("verify", "--store", folder / "store", "--trust", tmp_path / "others" / "public")
    assert done.code == 1
    assert not (tmp_path / "own").exists(), "a look makes no keys"


def test_a_statement_about_keys_that_is_forged(cli: Cli, folder: Path, tmp_path: Path) -> None:
    """A stranger writes in the operator's name that the stranger's key takes its place."""
    public = tmp_path / "public"
    shutil.copytree(folder / "keys" / "public", public)
    (operator,) = Keyring(folder / "keys").public()
    stranger = SigningKey.generate()
    payload = {"old": operator, "new": stranger.public.to_hex(), "time": "2026-11-15T17:00:00Z"}
    envelope = sealed(ROTATION_TYPE, canonical_json(payload), stranger)
    (public / f"{stranger.public.id}.rotation.json").write_bytes(canonical_json(envelope) + b"\n")
    done = cli("verify", "--store", folder / "store", "--trust", public, "--json")
    assert done.code == 1
    assert "is forged" in str(checks(done.json)["trust"]["detail"])


def test_a_secret_store_is_searched_with_the_keys_only(cli: Cli, folder: Path) -> None:
    done = cli("verify", "--store", folder / "store", "--residue", "--user", GONE)
    assert done.code == 1
    assert "could not be looked for as pseudonyms" in done.out
    done = cli("verify", "--store", folder / "store", "--residue", "--user", "person-05", "--keys", folder / "keys")
    assert done.code == 1
    assert "user 1 of those named: the training rows of shard" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--replay", "al"], "did you mean 'all'?"),
        (["--user", "u1"], "add --residue"),
        (["--residue", "--search", "no-such-folder"], "there is no such file or folder"),
        (["--certificate", "no-such-file"], "--certificate no-such-file: No such file"),
        (["--keys", "no-such-folder"], "--keys no-such-folder: there is no such folder"),
        (["--trust", "no-such-file"], "--trust: "),
        (["--residue", "--interaction", "u1"], "expected a user and an item"),
    ],
)
def test_wrong_usage(cli: Cli, folder: Path, arguments: list[str], message: str) -> None:
    done = cli("verify", "--store", folder / "store", *arguments)
    assert done.code == 2
    assert message in done.message


def test_no_such_store(cli: Cli, tmp_path: Path) -> None:
    done = cli("verify", "--store", tmp_path / "none", "--json")
    assert done.code == 2
    assert done.message.startswith("there is no store in ")
