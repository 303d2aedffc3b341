"""`fetch`: bring a public data set here, and check that it is the one that was published.

A download goes to FOLDER/FILE.part (resumed where it was cut off), is compared with the published size and checksum,
and only the files that are needed are unpacked, to FOLDER/NAME/, which appears when it is complete and not before.
A file saved by hand as FOLDER/FILE is checked and used in the same way, so nothing here needs a network if you do not
want it to. This module reads no rows (that is `readers`) and prints nothing; whoever calls it shows `Dataset.terms`.
Which data sets there are is in `datasets`.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import shutil
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from receraser.data.datasets import DATASETS, RECORD, Dataset, RemoteFile
from receraser.errors import DataError, UsageError, nearest

__all__ = ["DATASETS", "Dataset", "Progress", "RemoteFile", "fetch"]

Progress = Callable[[int, int], None]

_ATTEMPTS = 4
_PAUSE_S = 1.0  # before the second attempt; doubled before each further one
_TIMEOUT_S = 60.0
_BLOCK = 2**18


def fetch(dataset: Dataset | str, folder: Path, *, progress: Progress | None = None) -> Path:
    """Bring a data set to FOLDER/NAME and return that path; at once if it is there and intact.

    Parameters
    ----------
    dataset
        One of `DATASETS`, by name, or a `Dataset` of your own.
    folder
        Made if it does not exist.
    progress
        Called with the bytes received and the bytes expected (0 if unknown).

    Raises
    ------
    DataError
        The place cannot be reached, what came is not what was published, or the folder is in use by something else.

    Examples
    --------
    >>> fetch("yelp", Path("data"))
    Traceback (most recent call last):
    receraser.errors.UsageError: no data set 'yelp': did you mean 'yelp2018'? (known: ml-100k, ml-10m, ml-1m, yelp2018)
    """
    if isinstance(dataset, str):
        if dataset not in DATASETS:
            raise UsageError(f"no data set {dataset!r}: {nearest(dataset, DATASETS)}")
        dataset = DATASETS[dataset]
    target = folder / dataset.name
    if _intact(dataset, target):
        return target
    if target.exists() and not (target / RECORD).exists():
        raise DataError(
            "this was not made by fetch and is left alone; move it, or name another folder", path=str(target)
        )
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    archives = []
    before = 0
    for file in dataset.files:
        archives.append(_obtain(file, folder, _from(before, dataset.size, progress)))
        before += archives[-1].stat().st_size
    with _writing(target):
        _publish(dataset, archives, target)
    return target


def _from(before: int, size: int | None, progress: Progress | None) -> Progress:
    """Return a callback for one of several files that reports on all of them."""

    def report(done: int, total: int) -> None:
        if progress is not None:
            progress(before + done, size or (before + total if total else 0))

    return report


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn a full or forbidden disk into our error."""
    try:
        yield
    except OSError as error:
        raise DataError(f"could not be written: {error.strerror or error}", path=str(path)) from error


# ---------------------------------------------------------------------- downloading


def _obtain(file: RemoteFile, folder: Path, progress: Progress) -> Path:
    """Return the checked file: the one put there by hand, or a download."""
    by_hand = folder / file.saved_as
    if by_hand.exists():
        if problem := _difference(file, by_hand):
            raise DataError(f"{problem}. Remove it, or save {file.url} there once more", path=str(by_hand))
        return by_hand
    part = folder / f"{file.saved_as}.part"
    while True:
        resumed = part.exists()
        _download(file, part, progress)
        problem = _difference(file, part)
        if problem is None:
            return part
        part.unlink()
        if not resumed:  # else the beginning may be from another download: once more, from nothing
            raise DataError(f"what came from {file.url} is not what was published: {problem}. It was removed")


def _download(file: RemoteFile, part: Path, progress: Progress) -> None:
    problem = ""
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE_S * 2 ** (attempt - 1))
        try:
            problem = _receive(file, part, progress)
        except urllib.error.HTTPError as error:
            problem = f"it answered {error.code} {error.reason}"
            error.close()
            if error.code < 500 and error.code not in {408, 429}:
                break  # asking again would not help
        except (OSError, http.client.HTTPException) as error:
            problem = str(getattr(error, "reason", "") or error or type(error).__name__)
        if not problem:
            return
    raise DataError(
        f"{file.url} could not be downloaded: {problem}. By hand: download it with anything you like, save it as "
        f"{part.with_suffix('')} and run this again; it will be checked and used from there. "
        "Data that need no network: receraser data make films"
    )


def _receive(file: RemoteFile, part: Path, progress: Progress) -> str:
    """Ask for what is missing of a file and append it; return "" or what went wrong.

    A server that knows no ranges sends everything (200); one that has nothing left to send says so (416).
    """
    done = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "receraser", **({"Range": f"bytes={done}-"} if done else {})}
    request = urllib.request.Request(file.url, headers=headers)  # noqa: S310 (RemoteFile allows http and https only)
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT_S)  # noqa: S310
    except urllib.error.HTTPError as error:
        if not (error.code == 416 and done):
            raise
        error.close()
        if error.headers.get("Content-Range", "") == f"bytes */{done}" or done == file.size:
            return ""  # nothing was missing
        part.unlink()
        return "the part that was there did not fit"
    with response:
        if response.status == 206 and not response.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
            part.unlink()
            return "it sent another range than was asked for"
        if response.status != 206:
            done = 0
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdigit() else file.size or 0
        with _writing(part):
            out = part.open("ab" if done else "wb")
        with out:
            while block := response.read(_BLOCK):
                with _writing(part):
                    out.write(block)
                done += len(block)
                progress(done, total)
                if file.size is not None and done > file.size:
                    return ""  # no need to fill the disk to find out that this is something else
    return "" if done >= total else f"the connection broke after {done:,} of {total:,} bytes"


# ---------------------------------------------------------------------- checking


def _difference(file: RemoteFile, path: Path) -> str | None:
    """Return how a file differs from what was published, or None."""
    checks: list[tuple[str, str | int | None, Callable[[Path], str | int]]] = [
        ("size in bytes", file.size, lambda path: path.stat().st_size),
        ("MD5", file.md5, lambda path: _hash(path, hashlib.md5(usedforsecurity=False))),
        ("SHA-256", file.sha256, lambda path: _hash(path, hashlib.sha256())),
        ("SHA-256 of the sorted lines", file.lines_sha256, _lines_sha256),
    ]
    for what, expected, measure in checks:
        if expected is not None and (found := measure(path)) != expected:
            return f"its {what} should be {expected} and is {found}"
    return None


def _hash(path: Path, hasher: hashlib._Hash) -> str:
    with path.open("rb") as data:
        while block := data.read(_BLOCK):
            hasher.update(block)
    return hasher.hexdigest()


def _lines_sha256(path: Path) -> str:
    """Return the SHA-256 described at `RemoteFile.lines_sha256`."""
    hasher = hashlib.sha256()
    with path.open("rb") as lines:
        for line in lines:
            user, *items = line.split() or [b""]
            if not all(item.isdigit() for item in items):
                return "that of no list of numbers"
            hasher.update(b" ".join([user, *sorted(items, key=int)]) + b"\n")
    return hasher.hexdigest()


def _sums(dataset: Dataset) -> dict[str, dict[str, str | int | None]]:
    return {
        file.saved_as: {"size": file.size, "md5": file.md5, "sha256": file.sha256, "lines_sha256": file.lines_sha256}
        for file in dataset.files
    }


def _intact(dataset: Dataset, target: Path) -> bool:
    """Say whether the folder holds what was unpacked from what is published, byte for byte."""
    try:
        record = json.loads((target / RECORD).read_bytes())
        found = {name: _hash(target / name, hashlib.sha256()) for name in dataset.yields}
    except (OSError, ValueError):
        return False
    return bool(record == {"dataset": dataset.name, "published": _sums(dataset), "unpacked": found})


# ---------------------------------------------------------------------- unpacking


def _publish(dataset: Dataset, archives: list[Path], target: Path) -> None:
    """Unpack beside the target, then move it into place; the record comes last, and with it the data count as there."""
    work = target.with_name(f".{target.name}.unpacking")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        for file, archive in zip(dataset.files, archives, strict=True):
            _unpack(file, archive, work)
        unpacked = {name: _hash(work / name, hashlib.sha256()) for name in dataset.yields}
        record = {"dataset": dataset.name, "published": _sums(dataset), "unpacked": unpacked}
        (work / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        if target.exists():  # damaged: its files are replaced, whatever else lies there stays
            for name in (*dataset.yields, RECORD):
                (work / name).replace(target / name)
        else:
            work.replace(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    for archive in archives:
        if archive.suffix == ".part":
            archive.unlink()


def _unpack(file: RemoteFile, archive: Path, work: Path) -> None:
    """Write the members asked for, and no others, under the names of the table: an archive has no say in where."""
    if "" in file.members:
        shutil.copyfile(archive, work / file.members[""])
        return
    try:
        with zipfile.ZipFile(archive) as opened:
            for member, name in file.members.items():
                with opened.open(member) as source, (work / name).open("wb") as out:
                    shutil.copyfileobj(source, out, _BLOCK)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataError(f"this is no zip archive that can be read: {error}", path=str(archive)) from error
    except KeyError as error:
        raise DataError(f"the archive lacks {error.args[0]}", path=str(archive)) from error
