from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from receraser.data.interactions import Interactions
from receraser.errors import DataError, UsageError
from receraser.fingerprint import of_bytes, of_tensors
from receraser.partition.partition import Partition
from receraser.store.encoding import encode_rows, encode_titles
from receraser.store.export import Export, read_export, write_export
from tests.store.conftest import CONFIG, SHARDS, state_of


def export_of(*, valid: bool = True, landmarks: bool = True, titles: bool = True) -> Export:
    state = state_of("a", valid=valid, landmarks=landmarks)
    return Export(
        config=state.config,
        train=state.train,
        valid=state.valid,
        partition=state.partition,
        titles={"a-item0": "The ü title"} if titles else {},
        key_check="abc",
        public_key=not titles,
    )


def same(found: Export, expected: Export) -> bool:
    assert found.train == expected.train
    assert found.valid == expected.valid
    assert found.partition.n_shards == expected.partition.n_shards
    assert found.partition.train.tolist() == expected.partition.train.tolist()
    assert (found.partition.valid is None) == (expected.partition.valid is None)
    if found.partition.valid is not None and expected.partition.valid is not None:
        assert found.partition.valid.tolist() == expected.partition.valid.tolist()
    one, other = found.partition.landmarks, expected.partition.landmarks
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert one.ids == other.ids
        assert of_tensors(one.tensors()) == of_tensors(other.tensors())
    plain = ("config", "titles", "key_check", "public_key")
    return all(getattr(found, name) == getattr(expected, name) for name in plain)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_export(tmp_path / "export", export_of())
    return tmp_path / "export"


@pytest.mark.parametrize("valid", [True, False])
@pytest.mark.parametrize("landmarks", [True, False])
@pytest.mark.parametrize("titles", [True, False])
def test_it_comes_back_as_it_was(tmp_path: Path, valid: bool, landmarks: bool, titles: bool) -> None:
    export = export_of(valid=valid, landmarks=landmarks, titles=titles)
    write_export(tmp_path / "deep" / "down", export)
    assert same(read_export(tmp_path / "deep" / "down"), export)
    expected = {"train.parquet", "export.json"}
    expected |= {"valid.parquet"} if valid else set()
    expected |= {"landmarks.safetensors"} if landmarks else set()
    expected |= {"titles.parquet"} if titles else set()
    assert {path.name for path in (tmp_path / "deep" / "down").iterdir()} == expected


@pytest.mark.parametrize("valid", [None, Interactions.empty()])
def test_tables_of_no_rows(tmp_path: Path, valid: Interactions | None) -> None:
    none = np.empty(0, dtype=np.int32)
    partition = Partition(SHARDS, none, None if valid is None else none)
    export = replace(export_of(), train=Interactions.empty(), valid=valid, partition=partition)
    write_export(tmp_path, export)
    assert same(read_export(tmp_path), export)


def test_nothing_that_was_learned_is_in_it(folder: Path) -> None:
    about = json.loads((folder / "export.json").read_text())
    assert about["users"] == "pseudonyms"
    assert set(about) == {"format", "users", "pseudonyms", "config", "environment", "files"}
    assert about["config"] == json.loads(json.dumps(CONFIG.as_dict()))
    assert set(about["files"]) == {path.name for path in folder.iterdir()} - {"export.json"}
    assert all(digest == of_bytes((folder / name).read_bytes()) for name, digest in about["files"].items())


def test_the_same_state_is_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    write_export(tmp_path / "again", read_export(folder))
    for path in folder.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()


# ---------------------------------------------------------------------- where


def test_only_to_a_new_or_empty_folder(folder: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(UsageError, match=f"{folder} is not empty; choose another folder for the export"):
        write_export(folder, replace(export_of(), key_check="other"))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    (tmp_path / "empty").mkdir()
    write_export(tmp_path / "empty", export_of())
    assert same(read_export(tmp_path / "empty"), export_of())


def test_places_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("x" * 300)):
        with pytest.raises(UsageError, match="cannot be written"):
            write_export(place, export_of())


def test_what_holds_no_export(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path, tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(DataError, match=f"{place} holds no export: there is no export.json in it"):
            read_export(place)
    with pytest.raises(DataError, match="the export cannot be read") as caught:
        read_export(tmp_path / ("x" * 300))
    assert caught.value.path is not None
    assert caught.value.exit_code == 2


# ---------------------------------------------------------------------- damage


def test_every_file_is_checked(folder: Path) -> None:
    paths = [path for path in folder.iterdir() if path.name != "export.json"]
    assert len(paths) == 4
    for path in paths:
        whole = path.read_bytes()
        for damaged in (whole[:-1], whole + b"x", bytes([whole[0] ^ 1]) + whole[1:], b""):
            path.write_bytes(damaged)
            with pytest.raises(DataError, match="the file is not what it was exported with") as caught:
                read_export(folder)
            assert caught.value.path == str(path)
        path.unlink()
        with pytest.raises(DataError, match="cannot be read \\(No such file") as caught:
            read_export(folder)
        assert caught.value.path == str(path)
        path.write_bytes(whole)
    assert same(read_export(folder), export_of())


@pytest.mark.parametrize("text", [b"", b"[]", b"3", b"null", b"{}", b"{", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_export_is_refused(folder: Path, text: bytes) -> None:
    (folder / "export.json").write_bytes(text)
    with pytest.raises(DataError, match="this is no export, or it is damaged") as caught:
        read_export(folder)
    assert caught.value.path == str(folder / "export.json")


def rewrite(folder: Path, **changes: object) -> None:
    about = json.loads((folder / "export.json").read_text())
    about |= changes
    (folder / "export.json").write_text(json.dumps({k: v for k, v in about.items() if v != "missing"}))


def test_another_format_is_refused_by_number(folder: Path) -> None:
    rewrite(folder, format=3)
    with pytest.raises(DataError, match="format 3; this version reads format 2") as caught:
        read_export(folder)
    assert caught.value.path == str(folder / "export.json")


@pytest.mark.parametrize("key", ["config", "files", "pseudonyms"])
@pytest.mark.parametrize("value", ["missing", None, 3, [], {}])
def test_a_description_that_does_not_fit_is_refused(folder: Path, key: str, value: object) -> None:
    rewrite(folder, **{key: value})
    with pytest.raises(DataError, match=r"this is no export, or it is damaged|was not made by this version") as caught:
        read_export(folder)
    assert caught.value.path == str(folder / "export.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"partition": "thirds"}, "unknown partition 'thirds'"),
        ({"aggregation": "vote"}, "unknown aggregation 'vote'"),
        ({"model": "oracle"}, "unknown model 'oracle'"),
        ({"hyperparameters": {"temperature": 1}}, "no setting 'temperature'"),
    ],
)
def test_an_export_of_another_version_is_refused(folder: Path, change: dict[str, object], message: str) -> None:
    rewrite(folder, config=CONFIG.as_dict() | change)
    with pytest.raises(DataError, match=f"the export was not made by this version: .*{message}"):
        read_export(folder)


def test_tables_that_are_none_are_refused_though_their_digest_is_right(folder: Path) -> None:
    about = json.loads((folder / "export.json").read_text())
    for data in (b"no table", encode_titles({"a": "b"}), encode_rows(export_of().train)):
        (folder / "train.parquet").write_bytes(data)
        rewrite(folder, files=about["files"] | {"train.parquet": of_bytes(data)})
        with pytest.raises(DataError, match="this is no export, or it is damaged"):
            read_export(folder)


def test_shards_that_do_not_exist_are_refused(folder: Path) -> None:
    rewrite(folder, config=CONFIG.as_dict() | {"shards": 1})
    with pytest.raises(DataError, match="a row is assigned to a shard outside 0 to 0"):
        read_export(folder)
