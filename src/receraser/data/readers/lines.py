"""A file as lines of text in bounded memory, plain or gzip.

Lines end in LF or CRLF. A byte order mark at the start is dropped. A file that is not text (NUL bytes), a broken
gzip stream and a line beyond the limit are faults of the file and raise `DataError` at once.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path

from receraser.errors import DataError

__all__ = ["MAX_ADJACENCY_BYTES", "MAX_ROW_BYTES", "Progress", "blocks", "decoded", "lines", "too_long"]

MAX_ROW_BYTES = 64 * 1024
MAX_ADJACENCY_BYTES = 16 * 1024 * 1024
_BLOCK_BYTES = 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_GZIP_MAGIC = b"\x1f\x8b"

Progress = Callable[[int, int], None]
"""`progress(done, total)`: bytes of the file as it lies on disk; for Parquet, rows."""


def _unpacked(path: Path, file: BufferedReader) -> gzip.GzipFile | BufferedReader:
    if not path.name.lower().endswith(".gz"):
        return file
    magic = file.peek(2)[:2]
    if magic and magic != _GZIP_MAGIC:
        raise DataError("the name says gzip, but the bytes are something else", path=str(path))
    return gzip.GzipFile(fileobj=file, mode="rb")


def blocks(path: Path, size: int = _BLOCK_BYTES, progress: Progress | None = None) -> Iterator[bytes]:
    """Yield the (unpacked) bytes of a file, `size` at a time, without a byte order mark and free of NUL."""
    line = 1
    first = True
    try:
        with path.open("rb") as file, _unpacked(path, file) as stream:
            total = path.stat().st_size
            while block := stream.read(size):
                if progress is not None:
                    progress(file.tell(), total)
                if first:
                    _refuse_hidden_gzip(path, block)
                    block = block.removeprefix(_BOM)
                    first = False
                if (nul := block.find(b"\0")) >= 0:
                    reason = "the file is binary or UTF-16: a NUL byte was found where UTF-8 text is expected"
                    raise DataError(reason, path=str(path), line=line + block.count(b"\n", 0, nul))
                yield block
                line += block.count(b"\n")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"the gzip stream is truncated or damaged ({error})", path=str(path)) from error
    except OSError as error:
        raise DataError(f"the file cannot be read ({error.strerror or error})", path=str(path)) from error


def _refuse_hidden_gzip(path: Path, block: bytes) -> None:
    if block.startswith(_GZIP_MAGIC):
        raise DataError("the file is gzip (twice, if the name ends in .gz); name it so or unpack it", path=str(path))


def lines(path: Path, limit: int = MAX_ROW_BYTES, progress: Progress | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield (line number, bytes without the line's end) for every line, blank ones too; memory stays near `limit`."""
    tail = b""
    number = 0
    for block in blocks(path, progress=progress):
        parts = (tail + block).split(b"\n")
        tail = parts.pop()
        for part in parts:
            number += 1
            if len(part) > limit:
                raise too_long(path, number, limit)
            yield number, part.removesuffix(b"\r")
        if len(tail) > limit:
            raise too_long(path, number + 1, limit)
    if tail:
        yield number + 1, tail.removesuffix(b"\r")


def too_long(path: Path, line: int, limit: int) -> DataError:
    """Return the error about a line beyond the limit."""
    return DataError(
        f"the line is longer than {limit} bytes; is this the format its name says?", path=str(path), line=line
    )


def decoded(raw: bytes) -> str:
    r"""Return the text of UTF-8 bytes; the `DataError` for others has no file or line yet.

    Examples
    --------
    >>> decoded(b"caf\xc3\xa9")
    'café'
    """
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 text: byte 0x{raw[error.start]:02x} at position {error.start + 1}") from error
