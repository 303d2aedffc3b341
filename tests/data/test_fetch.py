"""Fetching, against a real server on this machine: resumed, refused, cut off, corrupted, and not at all."""

from __future__ import annotations

import hashlib
import io
import json
import socket
import threading
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from receraser.data.fetch import DATASETS, Dataset, RemoteFile, fetch
from receraser.errors import DataError, UsageError


@dataclass
class Site:
    """What the server offers, how it behaves, and what it was asked for."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    knows_ranges: bool = True
    wrong_range: bool = False
    says_length: bool = True
    cut_after: list[int] = field(default_factory=list)  # bytes sent before hanging up, for the next answers
    statuses: list[int] = field(default_factory=list)  # errors instead of the next answers
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # (path, Range)


class Handler(BaseHTTPRequestHandler):
    site: Site

    def do_GET(self) -> None:
        site = self.site
        wanted = self.headers.get("Range")
        site.asked.append((self.path, wanted))
        data = site.files.get(self.path)
        if site.statuses or data is None:
            self.send_error(site.statuses.pop(0) if site.statuses else 404)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and site.knows_ranges else 0
        if start and start >= len(data):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(data)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            said = start + 1 if site.wrong_range else start
            self.send_header("Content-Range", f"bytes {said}-{len(data) - 1}/{len(data)}")
        if site.says_length:
            self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        body = data[start:]
        with suppress(ConnectionError):  # whoever asked has heard enough
            self.wfile.write(body[: site.cut_after.pop(0)] if site.cut_after else body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is the base class's)
        """Say nothing."""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr("receraser.data.fetch._PAUSE_S", 0.0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    site = Site()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("OwnHandler", (Handler,), {"site": site}))
    site.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    server.shutdown()
    server.server_close()
    thread.join()


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


RATINGS = b"".join(b"%d::%d::5::0\n" % (n % 50, n) for n in range(4000))
ARCHIVE = zipped({"toy/ratings.dat": RATINGS, "toy/README": b"terms", "toy/users.dat": b"not needed"})


def toy(site: Site, archive: bytes = ARCHIVE) -> Dataset:
    """A data set of one zip archive, offered by the site."""
    site.files["/toy.zip"] = archive
    file = RemoteFile(
        url=f"{site.address}/toy.zip",
        saved_as="toy.zip",
        members={"toy/ratings.dat": "ratings.dat", "toy/README": "README"},
        size=len(archive),
        md5=hashlib.md5(archive).hexdigest(),
        sha256=hashlib.sha256(archive).hexdigest(),
    )
    return Dataset("toy", "Toy", "a few rows", (file,), "be kind", "nobody")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def assert_fetched(folder: Path) -> None:
    """The data are there, and nothing else is."""
    assert names(folder) == ["toy"]
    assert names(folder / "toy") == ["README", "SOURCE.json", "ratings.dat"]
    assert (folder / "toy" / "ratings.dat").read_bytes() == RATINGS


def test_a_download_is_checked_and_unpacked(site: Site, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    folder = tmp_path / "made" / "on the way"
    assert fetch(toy(site), folder, progress=lambda done, total: seen.append((done, total))) == folder / "toy"
    assert_fetched(folder)
    assert seen[-1] == (len(ARCHIVE), len(ARCHIVE))
    assert site.asked == [("/toy.zip", None)]


def test_the_second_call_asks_for_nothing(site: Site, tmp_path: Path) -> None:
    fetch(toy(site), tmp_path)
    before = (tmp_path / "toy" / "ratings.dat").stat()
    assert fetch(toy(site), tmp_path) == tmp_path / "toy"
    assert len(site.asked) == 1
    assert (tmp_path / "toy" / "ratings.dat").stat() == before


@pytest.mark.parametrize("damage", ["changed", "missing", "bad record"])
def test_damaged_data_are_fetched_again_and_other_files_stay(site: Site, tmp_path: Path, damage: str) -> None:
    target = fetch(toy(site), tmp_path)
    (target / "notes.txt").write_text("mine")
    if damage == "changed":
        (target / "ratings.dat").write_bytes(RATINGS[:-2] + b"1\n")
    elif damage == "missing":
        (target / "README").unlink()
    else:
        (target / "SOURCE.json").write_text("{")
    fetch(toy(site), tmp_path)
    assert (target / "notes.txt").read_text() == "mine"
    (target / "notes.txt").unlink()
    assert_fetched(tmp_path)
    assert len(site.asked) == 2


def test_a_new_edition_replaces_the_old_one(site: Site, tmp_path: Path) -> None:
    fetch(toy(site, zipped({"toy/ratings.dat": b"1::1::1::0\n", "toy/README": b"older"})), tmp_path)
    fetch(toy(site), tmp_path)
    assert_fetched(tmp_path)


def test_a_connection_that_breaks_is_taken_up_where_it_broke(site: Site, tmp_path: Path) -> None:
    site.cut_after = [1000, 500]
    fetch(toy(site), tmp_path)
    assert_fetched(tmp_path)
    assert [wanted for _, wanted in site.asked] == [None, "bytes=1000-", "bytes=1500-"]


def test_a_part_from_an_earlier_run_is_continued(site: Site, tmp_path: Path) -> None:
    (tmp_path / "toy.zip.part").write_bytes(ARCHIVE[:700])
    fetch(toy(site), tmp_path)
    assert_fetched(tmp_path)
    assert site.asked == [("/toy.zip", "bytes=700-")]


def test_a_server_without_ranges_sends_all_of_it_again(site: Site, tmp_path: Path) -> None:
    site.knows_ranges = False
    site.cut_after = [1000]
    fetch(toy(site), tmp_path)
    assert_fetched(tmp_path)
    assert [wanted for _, wanted in site.asked] == [None, "bytes=1000-"]


def test_a_server_that_does_not_say_the_length_is_fine(site: Site, tmp_path: Path) -> None:
    site.says_length = False
    fetch(toy(site), tmp_path)
    assert_fetched(tmp_path)


def test_a_server_that_sends_another_range_is_not_believed(site: Site, tmp_path: Path) -> None:
    site.wrong_range = True
    (tmp_path / "toy.zip.part").write_bytes(ARCHIVE[:700])
    fetch(toy(site), tmp_path)
    assert_fetched(tmp_path)
    assert [wanted for _, wanted in site.asked] == ["bytes=700-", None]


def test_a_part_that_is_complete_needs_no_more(site: Site, tmp_path: Path) -> None:
    (tmp_path / "toy.zip.part").write_bytes(ARCHIVE)
    fetch(toy(site), tmp_path)
    assert_fetched(tmp_path)


def test_a_part_that_is_too_long_is_begun_again(site: Site, tmp_path: Path) -> None:
    (tmp_path / "toy.zip.part").write_bytes(ARCHIVE + b"more")
    fetch(toy(site), tmp_path)
    assert_fetched(tmp_path)
    assert [wanted for _, wanted in site.asked] == [f"bytes={len(ARCHIVE) + 4}-", None]


def test_a_part_of_something_else_is_begun_again(site: Site, tmp_path: Path) -> None:
    (tmp_path / "toy.zip.part").write_bytes(b"x" * 700)
    fetch(toy(site), tmp_path)
    assert_fetched(tmp_path)
    assert [wanted for _, wanted in site.asked] == ["bytes=700-", None]


def test_content_that_is_not_what_was_published_is_removed(site: Site, tmp_path: Path) -> None:
    dataset = toy(site)
    flipped = ARCHIVE[:500] + bytes([ARCHIVE[500] ^ 1]) + ARCHIVE[501:]
    site.files["/toy.zip"] = flipped
    with pytest.raises(DataError) as caught:
        fetch(dataset, tmp_path)
    message = str(caught.value)
    assert hashlib.md5(ARCHIVE).hexdigest() in message
    assert hashlib.md5(flipped).hexdigest() in message
    assert names(tmp_path) == []


def test_each_published_sum_is_checked(site: Site, tmp_path: Path) -> None:
    dataset = toy(site)
    for change in ({"md5": "0" * 32}, {"sha256": "0" * 64}, {"size": len(ARCHIVE) + 1}, {"lines_sha256": "0" * 64}):
        wrong = replace(dataset, files=(replace(dataset.files[0], **change),))
        with pytest.raises(DataError, match="is not what was published"):
            fetch(wrong, tmp_path)


def test_a_download_that_does_not_end_is_stopped(site: Site, tmp_path: Path) -> None:
    dataset = toy(site)
    site.files["/toy.zip"] = ARCHIVE * 200
    seen: list[int] = []
    with pytest.raises(DataError, match="its size in bytes should be"):
        fetch(dataset, tmp_path, progress=lambda done, _: seen.append(done))
    assert seen[-1] < len(ARCHIVE) * 100


def test_a_file_that_is_not_there_is_not_asked_for_twice(site: Site, tmp_path: Path) -> None:
    dataset = toy(site)
    site.files.clear()
    with pytest.raises(DataError, match="it answered 404 Not Found"):
        fetch(dataset, tmp_path)
    assert len(site.asked) == 1
    assert names(tmp_path) == []


def test_a_server_in_trouble_is_asked_again(site: Site, tmp_path: Path) -> None:
    site.statuses = [503, 429]
    fetch(toy(site), tmp_path)
    assert_fetched(tmp_path)


def test_without_a_network_the_message_says_what_to_do(site: Site, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        port = taken.getsockname()[1]
        url = f"http://127.0.0.1:{port}/toy.zip"
        dataset = toy(site)
        dataset = replace(dataset, files=(replace(dataset.files[0], url=url),))
        with pytest.raises(DataError) as caught:
            fetch(dataset, tmp_path)
    message = str(caught.value)
    assert f"{url} could not be downloaded" in message
    assert "refused" in message
    assert f"save it as {tmp_path / 'toy.zip'}" in message
    assert "receraser data make films" in message
    assert site.asked == []


def test_a_file_saved_by_hand_is_used_and_kept(site: Site, tmp_path: Path) -> None:
    (tmp_path / "toy.zip").write_bytes(ARCHIVE)
    fetch(toy(site), tmp_path)
    assert names(tmp_path) == ["toy", "toy.zip"]
    assert (tmp_path / "toy" / "ratings.dat").read_bytes() == RATINGS
    assert site.asked == []


def test_a_wrong_file_saved_by_hand_is_refused_and_kept(site: Site, tmp_path: Path) -> None:
    (tmp_path / "toy.zip").write_bytes(b"something else")
    with pytest.raises(DataError, match=r"toy\.zip: its size in bytes should be \d+ and is 14"):
        fetch(toy(site), tmp_path)
    assert names(tmp_path) == ["toy.zip"]


def test_a_known_data_set_goes_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "ml-1m.zip").write_bytes(b"something else")
    with pytest.raises(DataError, match="its size in bytes should be 5917549 and is 14"):
        fetch("ml-1m", tmp_path)


def test_a_folder_of_somebody_else_is_left_alone(site: Site, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "ratings.dat").write_text("mine")
    with pytest.raises(DataError, match="left alone"):
        fetch(toy(site), tmp_path)
    assert (tmp_path / "toy" / "ratings.dat").read_text() == "mine"
    assert site.asked == []


def test_a_folder_that_cannot_be_made_is_our_error(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="could not be written"):
        fetch(toy(site), tmp_path / "file")


def test_an_archive_cannot_write_outside(site: Site, tmp_path: Path) -> None:
    members = {"toy/ratings.dat": RATINGS, "toy/README": b"", "../evil": b"x", "/evil": b"x", "toy/../../evil": b"x"}
    folder = tmp_path / "data"
    fetch(toy(site, zipped(members)), folder)
    assert_fetched(folder)
    assert names(tmp_path) == ["data"]


@pytest.mark.parametrize(
    ("archive", "said"),
    [
        (zipped({"toy/ratings.dat": RATINGS}), "README"),
        (b"no archive at all", "no zip archive"),
        (ARCHIVE[:3000] + b"\0" * 9 + ARCHIVE[3009:], "no zip archive that can be read"),
    ],
    ids=["member missing", "no zip", "bad member"],
)
def test_an_archive_that_cannot_be_used_leaves_no_folder(site: Site, tmp_path: Path, archive: bytes, said: str) -> None:
    with pytest.raises(DataError, match=said):
        fetch(toy(site, archive), tmp_path)
    assert not (tmp_path / "toy").exists()
    assert not (tmp_path / ".toy.unpacking").exists()


def lists(site: Site, train: bytes) -> Dataset:
    """A data set of two plain files, known by their content whatever the order within a line."""
    test = b"0 4\n1 3\n"
    site.files |= {"/train.txt": train, "/test.txt": test}
    published = hashlib.sha256(b"0 2 10\n1 1 3 20\n").hexdigest()
    files = (
        RemoteFile(f"{site.address}/train.txt", "lists-train.txt", {"": "train.txt"}, lines_sha256=published),
        RemoteFile(
            f"{site.address}/test.txt", "lists-test.txt", {"": "test.txt"}, sha256=hashlib.sha256(test).hexdigest()
        ),
    )
    return Dataset("lists", "Lists", "", files, "", "")


@pytest.mark.parametrize("train", [b"0 2 10\n1 1 3 20\n", b"0 10 2\n1 20 3 1\n", b"0 10 2 \r\n1 3 20 1"])
def test_lists_are_compared_by_content(site: Site, tmp_path: Path, train: bytes) -> None:
    seen: list[int] = []
    target = fetch(lists(site, train), tmp_path, progress=lambda done, _: seen.append(done))
    assert (target / "train.txt").read_bytes() == train
    assert (target / "test.txt").read_bytes() == b"0 4\n1 3\n"
    assert seen == [len(train), len(train) + 8]


@pytest.mark.parametrize(
    "train", [b"0 2 10\n1 1 3 21\n", b"1 1 3 20\n0 2 10\n", b"0 2 10\n\n1 1 3 20\n", b"<html>\n go away"]
)
def test_lists_of_another_content_are_refused(site: Site, tmp_path: Path, train: bytes) -> None:
    with pytest.raises(DataError, match="sorted lines"):
        fetch(lists(site, train), tmp_path)


def test_the_record_names_what_was_published_and_no_place_or_time(site: Site, tmp_path: Path) -> None:
    record = json.loads((fetch(toy(site), tmp_path) / "SOURCE.json").read_text())
    assert set(record) == {"dataset", "published", "unpacked"}
    assert record["published"]["toy.zip"]["md5"] == hashlib.md5(ARCHIVE).hexdigest()
    assert record["unpacked"]["ratings.dat"] == hashlib.sha256(RATINGS).hexdigest()


@pytest.mark.parametrize(
    ("url", "saved_as", "member"),
    [
        ("file:///etc/passwd", "a.zip", "a"),
        ("https://example.org/a.zip", "../a.zip", "a"),
        ("https://example.org/a.zip", "a.zip", "../a"),
        ("https://example.org/a.zip", "a.zip", "/a"),
        ("https://example.org/a.zip", "a.zip", ".."),
        ("https://example.org/a.zip", "a.zip", "SOURCE.json"),
        ("https://example.org/a.zip", "", "a"),
    ],
)
def test_a_table_that_would_write_elsewhere_is_refused(url: str, saved_as: str, member: str) -> None:
    with pytest.raises(ValueError, match=r"neither http|not the plain name"):
        RemoteFile(url, saved_as, {"a": member})


def test_the_table_is_complete() -> None:
    assert list(DATASETS) == ["ml-100k", "ml-1m", "ml-10m", "yelp2018"]
    for name, dataset in DATASETS.items():
        assert dataset.name == name
        assert dataset.title
        assert dataset.terms
        assert dataset.citation
        assert dataset.size is not None
        assert len(set(dataset.yields)) == len(dataset.yields)
        for file in dataset.files:
            assert file.url.startswith("https://")
            assert file.md5 or file.sha256 or file.lines_sha256


def test_sizes_are_unknown_if_one_is(site: Site) -> None:
    assert lists(site, b"").size is None
    assert toy(site).size == len(ARCHIVE)


def test_an_unknown_name_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'ml-1m'"):
        fetch("ml1m", tmp_path)
