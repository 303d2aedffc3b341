"""Whatever it is packed in, what stands whole and side by side comes out."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import lzma
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save

from receraser.residue.unpacking import Closed, Fields, Groups, Raw, Table, Text, unpack

LINES = b"2026-11-15 somebody came by\n"


def fields(where: str, data: bytes) -> dict[str, set[str]]:
    """The fields by kind."""
    found: dict[str, set[str]] = {"": set(), "user": set(), "item": set()}
    for piece in unpack(where, data):
        if isinstance(piece, Fields):
            found[piece.kind] |= piece.values
    return found


def parquet(**columns: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    return sink.getvalue()


def zipped(data: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner.log", data)
    return sink.getvalue()


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, bz2.compress, lzma.compress, zstd, zipped], ids=lambda f: f.__name__
)
def test_what_is_compressed(pack) -> None:  # type: ignore[no-untyped-def]
    once = pack(LINES)
    pieces = list(unpack("a.log", once))
    assert pieces[0] == pieces[0]
    assert isinstance(pieces[0], Raw)
    assert pieces[0].data == once
    assert [piece.text for piece in pieces if isinstance(piece, Text)] == [LINES.decode()]
    twice = list(unpack("a.log", gzip.compress(once)))
    assert any(isinstance(piece, Text) for piece in twice)


def test_nesting_has_an_end() -> None:
    data = LINES
    for _ in range(20):
        data = gzip.compress(data)
    assert not any(isinstance(piece, Text) for piece in unpack("a.log", data))


def test_what_cannot_be_opened_is_named() -> None:
    for data in (
        b"\x1f\x8bnothing",
        b"PAR1nothingPAR1",
        b"BZhnothing",
        b"PK\x03\x04nothing",
        b"\x28\xb5\x2f\xfdnothing",
    ):
        *_, last = unpack("backup", data)
        assert isinstance(last, Closed), data
        assert last.where == "backup"


def test_parquet_gives_its_columns_its_dictionaries_and_its_metadata() -> None:
    unused = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int32()), pa.array(["u1", "u2", "nobody"]))
    data = parquet(user=unused, item=pa.array(["a", None, "b"]), score=[0.5, 0.25, 1.0])
    table = pq.read_table(pa.BufferReader(data))
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({"made": "by somebody"}), sink)
    found = fields("x", sink.getvalue())
    assert {"u1", "u2", "nobody"} <= found["user"], "also what no row has"
    assert {"a", "b"} <= found["item"]
    assert {"by somebody", "score"} <= found[""]
    (rows,) = (piece for piece in unpack("x", data) if isinstance(piece, Table))
    assert [column.kind for column in rows.columns] == ["user", "item"]
    assert rows.columns[1].index.tolist()[1] == -1


def test_numbers_in_parquet_are_ids_too() -> None:
    found = fields("x", parquet(a=[7, 8], b=[10, 20], c=[5, 5]))
    assert found["user"] == {"7", "8"}, "where no name tells, the first column"
    assert found["item"] == {"10", "20"}


def test_safetensors_give_their_header_and_text() -> None:
    ids = np.frombuffer(b"one\ntwo", dtype=np.uint8)
    data = save({"node.items": ids, "ids": ids, "weights": np.zeros(3, dtype=np.float32)}, metadata={"who": "somebody"})
    found = fields("x", data)
    assert found["item"] == {"one", "two"}
    assert {"one", "two", "who", "somebody", "weights"} <= found[""]
    assert {"one", "two"} == next(
        piece.values for piece in unpack("x", data, kind="user") if isinstance(piece, Fields) and piece.kind == "user"
    )


def test_json_gives_fields_by_their_names_and_rows() -> None:
    inner = base64.b64encode(parquet(user=["hidden"], item=["a"])).decode()
    document = {
        "users": ["u1"],
        "at": {"item_id": "i1", "n": 7, "long": 1234567},
        "pairs": [["u2", "i2"]],
        "rows": inner,
    }
    found = fields("x.json", json.dumps(document).encode())
    assert found["user"] == {"u1", "hidden"}
    assert found["item"] == {"i1", "a"}
    assert {"u2", "i2", "1234567"} <= found[""]
    assert "7" not in found[""]
    (groups,) = (piece for piece in unpack("x.json", json.dumps(document).encode()) if isinstance(piece, Groups))
    assert ("u2", "i2") in groups.rows


def test_json_lines() -> None:
    lines = b'{"user": "u1", "item": "a"}\n\n{"user": "u2", "item": "b"}\n'
    assert fields("log", lines)["user"] == {"u1", "u2"}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.csv", b"user,item,rating\nu1,a,5\nu2,b,5\n"),
        ("x.tsv", b"item\tuser\na\tu1\nb\tu2\n"),
        ("x.inter", b"user_id:token\titem_id:token\nu1\ta\nu2\tb\n"),
        ("x.dat", b"u1::a::5::978300760\nu2::b::3::978300760\n"),
        ("x.csv", b'u1,"a"\nu2,b,more\n'),
    ],
)
def test_separated_values(name: str, data: bytes) -> None:
    found = fields(name, data)
    assert {"u1", "u2"} <= found["user"]
    assert {"a", "b"} <= found["item"]
    assert "5" not in found["user"] | found["item"]
    assert fields(f"{name}.gz", gzip.compress(data)) == found


def test_lines_of_numbers_are_users_and_their_items() -> None:
    found = fields("train.txt", b"1 10 11\n2\n3 10\n")
    assert found["user"] == {"1", "2", "3"}
    assert found["item"] == {"10", "11", ""}


def test_bytes_of_no_kind_are_raw() -> None:
    assert [type(piece) for piece in unpack("x", b"\xff\xfe\x00")] == [Raw]
    assert [type(piece) for piece in unpack("x", b"")] == [Raw]
    assert [type(piece) for piece in unpack("x", b"{broken")] == [Raw, Text]
