from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from receraser.errors import UsageError
from receraser.keys import PUBLIC_KEY, has_key, load_key


def test_without_a_folder_the_key_is_public() -> None:
    assert load_key(None) == PUBLIC_KEY
    assert len(PUBLIC_KEY) == 32


def test_a_key_is_made_once_and_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "some" / "keys"
    assert not has_key(folder)
    key = load_key(folder, create=True)
    assert has_key(folder)
    assert len(key) == 32
    assert key != PUBLIC_KEY
    assert load_key(folder) == load_key(folder, create=True) == key
    assert load_key(tmp_path / "other", create=True) != key


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    load_key(tmp_path / "keys", create=True)
    (file,) = (tmp_path / "keys").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700


def test_nothing_is_made_unless_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no key in .*: expected the file .*pseudonym.key"):
        load_key(tmp_path / "keys")
    assert not (tmp_path / "keys").exists()


def test_whoever_is_first_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that make a key at the same time end with the same one."""
    link = os.link

    def late(source: str, target: Path) -> None:
        Path(target).write_text("ab" * 32)
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    assert load_key(tmp_path, create=True) == bytes.fromhex("ab" * 32)
    assert [path.name for path in tmp_path.iterdir()] == ["pseudonym.key"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "found 0"),
        (b"zz", "expected 64 hexadecimal digits"),
        (b"00ff", "expected 64 hexadecimal digits, found 4"),
        (b"\xff", "expected 64 hexadecimal digits"),
        (b"ab" * 33, "found 66"),
    ],
)
def test_what_is_no_key_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "pseudonym.key").write_bytes(content)
    with pytest.raises(UsageError, match=reason):
        load_key(tmp_path, create=True)
    assert (tmp_path / "pseudonym.key").read_bytes() == content


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be used"):
        load_key(tmp_path / "file", create=True)
    (tmp_path / "keys" / "pseudonym.key").mkdir(parents=True)
    with pytest.raises(UsageError, match="cannot be used: Is a directory"):
        load_key(tmp_path / "keys")
