from __future__ import annotations

import itertools
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from receraser.errors import ProofError, UsageError
from receraser.fingerprint import canonical_json
from receraser.proof.keyring import ROTATION_TYPE, Keyring, Trust, default_folder
from receraser.proof.signing import Envelope, PublicKey, SigningKey, sealed

TIME = "2026-11-15T17:00:00Z"
STORE = "ab" * 16
KEYS = [SigningKey(bytes([n]) * 32) for n in range(6)]
A, B, C, D, E, MALLORY = KEYS


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring(tmp_path / "some" / "keys")


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def modes(folder: Path) -> set[tuple[bool, int]]:
    return {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in [folder, *folder.rglob("*")]}


def rotation(signer: SigningKey, key: PublicKey, /, **changed: object) -> Envelope:
    said: dict[str, object] = {"old": signer.public.id, "new": key.to_hex(), "time": TIME}
    return sealed(ROTATION_TYPE, canonical_json(said | changed), signer)


# ---------------------------------------------------------------------- the signing key


def test_a_key_is_made_once_and_found_again(keyring: Keyring) -> None:
    assert keyring.public() == {}
    key = keyring.signing()
    assert keyring.signing().public == keyring.signing(create=False).public == key.public
    assert Keyring(keyring.folder).public() == {key.public.id: key.public}
    assert names(keyring.folder) == [f"public/{key.public.id}.pem", "signing.key"]
    assert (keyring.folder / "signing.key").read_bytes() == key.to_pem()
    assert (keyring.folder / "public" / f"{key.public.id}.pem").read_bytes() == key.public.to_pem()


def test_only_their_owner_may_read_them(keyring: Keyring) -> None:
    keyring.signing()
    keyring.ledger_key(STORE)
    keyring.rotate(TIME)
    assert modes(keyring.folder) == {(True, 0o700), (False, 0o600)}


def test_nothing_is_made_unless_asked_for(keyring: Keyring) -> None:
    with pytest.raises(UsageError, match=r"there is no signing key in .*: expected the file .*signing\.key"):
        keyring.signing(create=False)
    with pytest.raises(UsageError, match=r"there is no signing key in .*: expected the file .*signing\.key"):
        keyring.rotate(TIME)
    assert keyring.ledger_key(STORE, create=False) is None
    assert not keyring.shred_ledger_key(STORE)
    assert keyring.public() == {}
    assert keyring.rotations() == []
    assert not keyring.folder.exists()
    keyring.ledger_key(STORE)
    with pytest.raises(UsageError, match="there is no signing key"):
        keyring.rotate(TIME)


def test_whoever_is_first_wins(keyring: Keyring, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def late(source: str, target: Path) -> None:
        if Path(target).name == "signing.key":
            Path(target).write_bytes(A.to_pem())
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    assert keyring.signing().public == A.public
    assert names(keyring.folder) == [f"public/{A.public.id}.pem", "signing.key"]


def test_many_at_once_end_with_the_same_keys(keyring: Keyring) -> None:
    found = []
    start = threading.Barrier(8)

    def make() -> None:
        start.wait()
        found.append((keyring.signing().public, keyring.ledger_key(STORE)))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert len(names(keyring.folder)) == 3


MAKE = """
import sys
from pathlib import Path
from receraser.proof.keyring import Keyring
keyring = Keyring(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
print(keyring.signing().public.id, keyring.ledger_key(sys.argv[2]).hex())
"""


def test_two_processes_end_with_the_same_keys(keyring: Keyring) -> None:
    command = [sys.executable, "-c", MAKE, str(keyring.folder), STORE]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for one in running:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in running:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    first, second = [one.communicate()[0] for one in running]
    assert first == second
    assert [one.returncode for one in running] == [0, 0]
    assert first.split()[0] == keyring.signing(create=False).public.id


def test_a_public_half_that_was_lost_is_written_anew(keyring: Keyring) -> None:
    """Also after a crash between the two."""
    key = keyring.signing()
    path = keyring.folder / "public" / f"{key.public.id}.pem"
    path.unlink()
    assert keyring.signing(create=False).public == key.public
    assert keyring.public() == {key.public.id: key.public}
    path.write_bytes(MALLORY.public.to_pem())
    with pytest.raises(UsageError, match=rf"{path} does not hold the key {key.public.id}; remove it"):
        keyring.signing()


@pytest.mark.parametrize("content", [b"", b"\xff", b"ab" * 32, A.public.to_pem(), A.to_pem()[:50]])
def test_what_is_no_key_is_refused_and_left_alone(keyring: Keyring, content: bytes) -> None:
    path = keyring.folder / "signing.key"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(UsageError, match=rf"{path}: this is no private key"):
        keyring.signing()
    assert path.read_bytes() == content
    (keyring.folder / "public").mkdir()
    (keyring.folder / "public" / "x.pem").write_bytes(b"no key")
    with pytest.raises(UsageError, match=r"x\.pem: this is no public key"):
        keyring.public()


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    keyring = Keyring(tmp_path / "file")
    for call in (keyring.signing, lambda: keyring.rotate(TIME), lambda: keyring.shred_ledger_key(STORE)):
        with pytest.raises(UsageError, match="cannot be used"):
            call()
    with pytest.raises(UsageError, match="cannot be used"):
        keyring.ledger_key(STORE)
    (tmp_path / "keys" / "signing.key").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"signing\.key cannot be used as a key: Is a directory"):
        Keyring(tmp_path / "keys").signing()


# ---------------------------------------------------------------------- rotation


def test_a_new_key_takes_the_place_of_the_old_one(keyring: Keyring) -> None:
    first = keyring.signing().public
    old, new = keyring.rotate(TIME)
    assert old == first
    assert new != old
    assert keyring.signing().public == new
    assert keyring.public() == {old.id: old, new.id: new}
    assert names(keyring.folder) == sorted(
        [f"public/{old.id}.pem", f"public/{new.id}.pem", f"public/{new.id}.rotation.json", "signing.key"]
    )
    (statement,) = keyring.rotations()
    assert statement == json.loads((keyring.folder / "public" / f"{new.id}.rotation.json").read_bytes())
    assert Trust([old], [statement]).keys() == {old.id: old, new.id: new}
    assert Trust([new], [statement]).keys() == {new.id: new}, "never backwards"


def test_the_old_private_key_is_overwritten(keyring: Keyring) -> None:
    keyring.signing()
    os.link(keyring.folder / "signing.key", keyring.folder / "other name")
    length = (keyring.folder / "other name").stat().st_size
    keyring.rotate(TIME)
    assert (keyring.folder / "other name").read_bytes() == bytes(length)


def test_the_new_key_is_on_disk_before_the_old_one_goes(keyring: Keyring, monkeypatch: pytest.MonkeyPatch) -> None:
    keyring.signing()
    done: list[str] = []

    def noted(name: str, target: Callable[..., str]) -> None:
        call = getattr(os, name)

        def wrapper(*args: object) -> object:
            done.append(f"{name} {target(*args)}")
            return call(*args)

        monkeypatch.setattr(os, name, wrapper)

    def opened_as(handle: int, *_: object) -> str:
        file = Path(f"/proc/self/fd/{handle}").readlink()
        return file.name[: file.name.rindex(".")] if file.name.startswith(".") else file.name

    noted("fsync", opened_as)
    noted("link", lambda source, target: Path(target).name)
    noted("replace", lambda source, target: Path(target).name)
    noted("pwrite", opened_as)
    _, new = keyring.rotate(TIME)
    assert done == [
        "fsync .signing.key.next",
        "link signing.key.next",
        "fsync keys",
        f"fsync .{new.id}.pem",
        f"link {new.id}.pem",
        "fsync public",
        f"fsync .{new.id}.rotation.json",
        f"link {new.id}.rotation.json",
        "fsync public",
        "replace signing.key",
        "fsync keys",
        "pwrite signing.key (deleted)",
        "fsync signing.key (deleted)",
    ]


class CrashError(BaseException):
    """The machine stops: nothing that comes after happens either."""


@contextmanager
def stopped_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let so many calls to the system happen and none after; give those that did not."""
    done = 0
    missed: list[str] = []
    with monkeypatch.context() as patch:
        for name in ("open", "link", "replace", "unlink", "pwrite", "fsync", "mkdir"):
            original = getattr(os, name)

            def call(*args: object, made: Callable[..., object] = original, **named: object) -> object:
                nonlocal done
                if done >= steps:
                    missed.append(made.__name__)
                    raise CrashError
                done += 1
                return made(*args, **named)

            patch.setattr(os, name, call)
        with suppress(CrashError):
            yield missed


def test_a_crash_leaves_the_old_key_or_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old_in_force = new_in_force = 0
    for steps in itertools.count():
        keyring = Keyring(tmp_path / str(steps))
        old = keyring.signing()
        with stopped_after(steps, monkeypatch) as missed:
            keyring.rotate(TIME)

        now = keyring.signing(create=False)
        old_in_force += now.public == old.public
        new_in_force += now.public != old.public
        assert now.public.id in keyring.public()
        assert now.public.id in Trust([old.public], keyring.rotations()).keys()  # noqa: SIM118
        assert Trust.from_path(keyring.folder / "public").keys() == keyring.public()

        again, new = keyring.rotate("2026-11-16T00:00:00Z")
        assert again == now.public
        assert keyring.signing(create=False).public == new
        trusted = Trust([old.public], keyring.rotations()).keys()
        assert trusted == keyring.public(), "one chain of keys, and no key beside it"
        assert len(trusted) == (2 if now.public == old.public else 3)
        left = [path.read_bytes() for path in keyring.folder.rglob("*") if path.is_file()]
        assert not any(one in (old.to_pem(), now.to_pem()) for one in left)
        if not missed:
            break
    assert old_in_force > 10
    assert new_in_force > 2


def test_an_unfinished_rotation_goes_on_with_its_key(keyring: Keyring) -> None:
    old = keyring.signing()
    (keyring.folder / "signing.key.next").write_bytes(B.to_pem())
    path = keyring.folder / "public" / f"{B.public.id}.rotation.json"
    path.write_bytes(canonical_json(rotation(old, B.public)))
    assert keyring.signing().public == old.public
    assert keyring.rotate("2027-01-01T00:00:00Z") == (old.public, B.public)
    assert path.read_bytes() == canonical_json(rotation(old, B.public)), "said once"


@pytest.mark.parametrize(
    "statement",
    [
        b"",
        b"[]",
        b"{}",
        canonical_json(rotation(MALLORY, B.public)),
        canonical_json(rotation(MALLORY, B.public, old=A.public.id)),
        canonical_json(rotation(A, C.public)),
    ],
)
def test_a_statement_that_is_not_ours_stops_a_rotation(keyring: Keyring, statement: bytes) -> None:
    keyring.folder.mkdir(parents=True)
    (keyring.folder / "signing.key").write_bytes(A.to_pem())
    (keyring.folder / "signing.key.next").write_bytes(B.to_pem())
    keyring.signing()
    path = keyring.folder / "public" / f"{B.public.id}.rotation.json"
    path.write_bytes(statement)
    with pytest.raises(ProofError, match=path.name):
        keyring.rotate(TIME)
    assert keyring.signing().public == A.public
    path.unlink()
    assert keyring.rotate(TIME) == (A.public, B.public)


def test_rotations_at_once_follow_each_other(keyring: Keyring) -> None:
    first = keyring.signing().public
    threads = [threading.Thread(target=keyring.rotate, args=[TIME]) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(Trust([first], keyring.rotations()).keys()) == 5
    assert len(keyring.public()) == 5


@pytest.mark.parametrize("time", ["", "now", "2026-11-15T17:00:00"])
def test_a_rotation_has_a_time(keyring: Keyring, time: str) -> None:
    key = keyring.signing()
    with pytest.raises(UsageError, match="the time of a rotation is"):
        keyring.rotate(time)
    assert keyring.signing().public == key.public


# ---------------------------------------------------------------------- keys of ledgers


def test_every_store_has_its_own_ledger_key(keyring: Keyring) -> None:
    one, two = keyring.ledger_key(STORE), keyring.ledger_key("cd" * 16)
    assert one is not None
    assert len(one) == 32
    assert one != two
    assert keyring.ledger_key(STORE) == keyring.ledger_key(STORE, create=False) == one
    assert names(keyring.folder) == [f"ledger-{STORE}.key", f"ledger-{'cd' * 16}.key"]


def test_a_shredded_key_is_gone(keyring: Keyring) -> None:
    key = keyring.ledger_key(STORE)
    kept = keyring.ledger_key("cd" * 16)
    os.link(keyring.folder / f"ledger-{STORE}.key", keyring.folder / "other name")
    assert keyring.shred_ledger_key(STORE)
    assert (keyring.folder / "other name").read_bytes() == bytes(65)
    assert keyring.ledger_key(STORE, create=False) is None
    assert not keyring.shred_ledger_key(STORE)
    assert keyring.ledger_key("cd" * 16) == kept
    assert keyring.ledger_key(STORE) != key


def test_shredding_can_be_finished_after_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for steps in itertools.count():
        keyring = Keyring(tmp_path / str(steps))
        key = keyring.ledger_key(STORE)
        with stopped_after(steps, monkeypatch) as missed:
            keyring.shred_ledger_key(STORE)
        assert keyring.ledger_key(STORE, create=False) in (key, None), "whole or gone"
        left = names(keyring.folder) != []
        assert keyring.shred_ledger_key(STORE) == left
        assert names(keyring.folder) == []
        if not missed:
            break
    assert steps > 4


@pytest.mark.parametrize("store", ["", "ab", "../" + "a" * 29, "AB" * 16, "ab" * 17, "ab" * 16 + "\n"])
def test_a_store_goes_by_its_id(keyring: Keyring, store: str) -> None:
    for call in (keyring.ledger_key, keyring.shred_ledger_key):
        with pytest.raises(UsageError, match="is no id of a store: expected 32 hexadecimal digits"):
            call(store)


def test_a_ledger_key_that_is_none_is_refused(keyring: Keyring) -> None:
    keyring.ledger_key(STORE)
    (keyring.folder / f"ledger-{STORE}.key").write_text("zz")
    with pytest.raises(UsageError, match=r"ledger-.*\.key is no key: expected 64 hexadecimal digits"):
        keyring.ledger_key(STORE)


# ---------------------------------------------------------------------- trust


CHAIN = [rotation(old, new.public) for old, new in itertools.pairwise([A, B, C, D])]


def ids(*keys: SigningKey) -> dict[str, PublicKey]:
    return {key.public.id: key.public for key in keys}


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_trust_follows_a_chain_forwards_from_any_key(order: tuple[int, ...]) -> None:
    statements = [CHAIN[place] for place in order]
    assert Trust([A.public], statements).keys() == ids(A, B, C, D)
    assert Trust([B.public], statements).keys() == ids(B, C, D)
    assert Trust([C.public], statements).keys() == ids(C, D)
    assert Trust([D.public], statements).keys() == ids(D)
    assert Trust([D.public, A.public], statements).keys() == ids(A, B, C, D)
    assert Trust([E.public], statements).keys() == ids(E)
    assert Trust([], statements).keys() == {}
    assert Trust(iter([A.public]), iter(statements + statements)).keys() == ids(A, B, C, D), "said twice is said"


def test_a_gap_is_not_jumped() -> None:
    assert Trust([A.public], [CHAIN[0], CHAIN[2]]).keys() == ids(A, B)


def test_two_chains_can_be_trusted() -> None:
    assert Trust([A.public, D.public], [CHAIN[0], rotation(D, E.public)]).keys() == ids(A, B, D, E)


FORGED = sealed(ROTATION_TYPE, canonical_json({"old": A.public.id, "new": MALLORY.public.to_hex(), "time": TIME}), A)
FORGED["payload"] = rotation(A, B.public, time="2026-11-16T00:00:00Z")["payload"]


@pytest.mark.parametrize(
    ("chain", "statement", "reason"),
    [
        ([], FORGED, f"that {B.public.id} takes the place of {A.public.id} is forged: the signature of key .* not fit"),
        (CHAIN, FORGED, "is forged"),
        ([], rotation(MALLORY, MALLORY.public, old=A.public.id), f"is forged: signed with key {MALLORY.public.id}"),
        (CHAIN, rotation(MALLORY, MALLORY.public, old=D.public.id), f"is forged: signed with key {MALLORY.public.id}"),
        (CHAIN, rotation(A, MALLORY.public), f"two keys took the place of {A.public.id}: .*{MALLORY.public.id}"),
        (CHAIN, rotation(C, MALLORY.public), f"two keys took the place of {C.public.id}: .*{MALLORY.public.id}"),
        ([], rotation(A, A.public), f"leads back to {A.public.id}"),
        (CHAIN, rotation(D, D.public), f"leads back to {D.public.id}"),
        (CHAIN[:1], rotation(B, A.public), f"leads back to {B.public.id}"),
        (CHAIN, rotation(D, A.public), f"leads back to {D.public.id}"),
        (CHAIN, rotation(D, B.public), f"leads back to {D.public.id}"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_forged_and_looping_statements_are_refused(
    chain: list[Envelope], statement: Envelope, reason: str, first: bool
) -> None:
    with pytest.raises(ProofError, match=reason):
        Trust([A.public], [statement, *chain] if first else [*chain, statement]).keys()
    with pytest.raises(ProofError, match=r"is forged|leads back|two keys took"):
        Trust([one.public for one in KEYS], [statement, *chain]).keys()


def test_statements_of_keys_nobody_trusts_are_not_followed() -> None:
    """Anybody can make them; they say nothing about the keys that are trusted."""
    strange = [rotation(MALLORY, A.public), rotation(E, MALLORY.public), rotation(MALLORY, E.public)]
    assert Trust([A.public], [*strange, *CHAIN]).keys() == ids(A, B, C, D)


@pytest.mark.parametrize(
    "statement",
    [
        None,
        {},
        sealed("text/plain", b"{}", A),
        sealed(ROTATION_TYPE, b"", A),
        sealed(ROTATION_TYPE, b"[]", A),
        sealed(ROTATION_TYPE, b"[{}]", A),
        sealed(ROTATION_TYPE, b"null", A),
        sealed(ROTATION_TYPE, b"\xff", A),
        sealed(ROTATION_TYPE, b"[" * 100_000, A),
        sealed(ROTATION_TYPE, canonical_json({"old": A.public.id, "new": B.public.to_hex()}), A),
        sealed(ROTATION_TYPE, b" " + canonical_json({"old": "", "new": B.public.to_hex(), "time": TIME}), A),
        rotation(A, B.public, more=1),
        rotation(A, B.public, old=1),
        rotation(A, B.public, new=None),
        rotation(A, B.public, new="zz"),
        rotation(A, B.public, time="later"),
        rotation(A, B.public, time=float(7)),
    ],
)
def test_what_is_no_statement_is_refused(statement: object) -> None:
    with pytest.raises(ProofError, match=r"expected"):
        Trust([A.public], [statement]).keys()


def test_keys_that_pass_for_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PublicKey, "id", "0" * 16)
    with pytest.raises(ProofError, match=r"two different keys have the id 0{16}"):
        Trust([A.public, B.public]).keys()


def test_trust_in_a_file_or_a_folder(keyring: Keyring, tmp_path: Path) -> None:
    first = keyring.signing().public
    _, second = keyring.rotate(TIME)
    _, third = keyring.rotate(TIME)
    folder = keyring.folder / "public"
    every = {one.id: one for one in (first, second, third)}
    assert Trust.from_path(folder).keys() == every
    assert Trust.from_path(folder, [first]).keys() == every
    assert Trust.from_path(folder, [second]).keys() == {one.id: one for one in (second, third)}
    assert Trust.from_path(folder / f"{first.id}.pem").keys() == {first.id: first}
    (folder / f"{first.id}.pem").rename(folder / "theirs.pem")
    assert Trust.from_path(folder).keys() == every, "what is in it counts, not what it is called"


def test_where_there_is_nothing_to_trust(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no public key in .*: expected files such as"):
        Trust.from_path(tmp_path)
    with pytest.raises(UsageError, match=r"none\.pem cannot be used as a key: No such file"):
        Trust.from_path(tmp_path / "none.pem")
    (tmp_path / "key.pem").write_bytes(A.to_pem())
    with pytest.raises(UsageError, match=r"key\.pem: this is no public key"):
        Trust.from_path(tmp_path / "key.pem")
    (tmp_path / "key.pem").write_bytes(A.public.to_pem())
    (tmp_path / "x.rotation.json").write_bytes(b"{")
    with pytest.raises(ProofError, match=r"x\.rotation\.json holds no statement of a rotation"):
        Trust.from_path(tmp_path)


# ---------------------------------------------------------------------- where it is


def test_the_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    monkeypatch.setenv("RECERASER_KEYS", "keys")
    assert default_folder() == Path("keys")
    monkeypatch.setenv("RECERASER_KEYS", "")
    assert default_folder() == Path("/data/receraser/keys")
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    assert default_folder() == tmp_path / ".local/share/receraser/keys"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.delenv("RECERASER_KEYS")
    assert default_folder() == tmp_path / ".local/share/receraser/keys"


def test_without_a_home_a_folder_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECERASER_KEYS", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)

    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(UsageError, match="name a folder by RECERASER_KEYS"):
        default_folder()
