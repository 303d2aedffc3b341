from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from receraser.data.ids import id_problem
from receraser.data.interactions import Interactions
from receraser.data.readers import write_csv
from receraser.data.readers.lines import MAX_ROW_BYTES
from receraser.erasure.request import ForgetRequest
from receraser.erasure.requests_file import read_requests
from receraser.errors import DataError

WANTED = ForgetRequest.of(["u7"], ["film 3"], [("u9", "12")])
IDS = st.text(st.sampled_from("ab09.-é日 \"'#;|:{}\\\u00a0"), min_size=1, max_size=5).filter(
    lambda text: id_problem(text) is None
)
per_example = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

Save = Callable[[str, str | bytes], Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        data = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(data, mtime=0) if name.lower().endswith(".gz") else data)
        return path

    return write


# ---------------------------------------------------------------------- what is read


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.csv", "user,item\nu7,\n,film 3\nu9,12\n"),
        ("r.CSV", "user,item\nu7,\n,film 3\nu9,12"),
        ("r.csv.gz", "user,item\nu7,\n,film 3\nu9,12\n"),
        ("r.csv", "\ufeffuser,item\r\nu7,\r\n,film 3\r\nu9,12\r\n"),
        ("r.csv", "\n\nuser,item\n\nu7,\n\n,film 3\nu9,12\n\n"),
        ("r.csv", '"user","item"\n"u7",""\n"",film 3\n"u9","12"\n'),
        ("r.csv", " Movie_ID ,USERID\n,u7\nfilm 3,\n12,u9\n"),
        ("r.csv", "request_id,item,requested_at,user\n1,,2024-05-01,u7\n2,film 3,?,\n3,12,,u9\n"),
        ("r.csv", "user,item,rating,timestamp\nu7,,,\n,film 3,no number,\nu9,12,5,1e9\n"),
        ("r.tsv", "user\titem\nu7\t\n\tfilm 3\nu9\t12\n"),
        ("r.TSV.GZ", "uid\tproduct_id\nu7\t\n\tfilm 3\nu9\t12\n"),
        ("r.jsonl", '{"user": "u7"}\n{"item": "film 3"}\n{"user": "u9", "item": 12}\n'),
        ("r.ndjson", '\ufeff{"user":"u7"}\r\n\r\n  \t\n{"item":"film 3"}\r\n {"item":"12","user":"u9"} '),
        (
            "r.jsonl.gz",
            '{"user": "u7", "item": null}\n{"user": null, "item": "film 3"}\n{"uid": "u9", "movieId": 12}\n',
        ),
        ("r.ndjson.gz", '{"User": "u7"}\n{"item": "film 3"}\n{"user": "u9", "item": "\\u0031\\u0032"}\n'),
        (
            "r.jsonl",
            '{"user":"u7","request_id":null}\n{"item":"film 3","requested_at":1.5}\n{"uid":"u9","item":12,"ts":true}',
        ),
    ],
)
def test_every_format_gives_the_same_request(save: Save, name: str, text: str) -> None:
    assert read_requests(save(name, text)) == WANTED


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("user\nu1\n2\n", ForgetRequest.of(users=["u1", "2"])),
        ("item\na\n", ForgetRequest.of(items=["a"])),
        ("user,timestamp\nu1,5\n", ForgetRequest.of(users=["u1"])),
    ],
)
def test_one_column_is_enough(save: Save, text: str, wanted: ForgetRequest) -> None:
    assert read_requests(save("r.csv", text)) == wanted


@pytest.mark.parametrize("text", ["", "\n", "\r\n\r\n", "\ufeff", "user,item\n", "user"])
@pytest.mark.parametrize("name", ["r.csv", "r.csv.gz"])
def test_a_table_of_no_requests_is_an_empty_batch(save: Save, name: str, text: str) -> None:
    request = read_requests(save(name, text))
    assert not request
    assert request == ForgetRequest.of()


@pytest.mark.parametrize("text", ["", "\n", " \r\n\t\n", "\ufeff"])
def test_no_objects_are_an_empty_batch(save: Save, text: str) -> None:
    assert not read_requests(save("r.jsonl", text))


def test_ids_stay_text_as_read(save: Save) -> None:
    assert read_requests(save("r.csv", "user\n9\n09\n9.0\n")).users == ("09", "9", "9.0")
    integers = '{"user": -9}\n{"user": "9"}\n{"user": 123456789012345678901234567890}\n'
    assert read_requests(save("r.jsonl", integers)).users == ("-9", "123456789012345678901234567890", "9")


def test_repeats_are_counted(save: Save) -> None:
    assert read_requests(save("r.csv", "user,item\nu,a\nu,\nu,a\nu,\n,a\nu,\n")).repeated == 3
    assert read_requests(save("r.jsonl", '{"user": 7}\n{"user": "7"}\n')).repeated == 1


def test_a_file_of_interactions_is_a_file_of_requests(tmp_path: Path) -> None:
    rows = Interactions.from_columns(["u", "v", "v"], ["a", "a", "b"], [1.0, 2.0, 3.5])
    write_csv(tmp_path / "r.csv.gz", rows)
    assert read_requests(str(tmp_path / "r.csv.gz")) == ForgetRequest.of(interactions=rows.pairs())


# ---------------------------------------------------------------------- there and back


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


@per_example
@given(st.lists(st.tuples(st.none() | IDS, st.none() | IDS).filter(any)), st.sampled_from([",", "\t"]))
def test_rows_are_read_as_they_were_written(
    tmp_path: Path, subjects: list[tuple[str | None, str | None]], delimiter: str
) -> None:
    path = tmp_path / ("r.csv" if delimiter == "," else "r.tsv")
    rows = [delimiter.join(quoted(name) if name else "" for name in subject) for subject in subjects]
    path.write_text("\n".join([f"user{delimiter}item", *rows]))
    assert read_requests(path) == expected(subjects)


@per_example
@given(st.lists(st.tuples(st.none() | IDS, st.none() | IDS).filter(any)), st.booleans(), st.booleans())
def test_objects_are_read_as_they_were_written(
    tmp_path: Path, subjects: list[tuple[str | None, str | None]], nulls: bool, ascii_only: bool
) -> None:
    path = tmp_path / "r.jsonl"
    objects = [
        {role: name for role, name in zip(("user", "item"), subject, strict=True) if nulls or name}
        for subject in subjects
    ]
    path.write_text("\n".join(json.dumps(one, ensure_ascii=ascii_only) for one in objects))
    assert read_requests(path) == expected(subjects)


def expected(subjects: list[tuple[str | None, str | None]]) -> ForgetRequest:
    return ForgetRequest.of(
        [user for user, item in subjects if user and not item],
        [item for user, item in subjects if item and not user],
        [(user, item) for user, item in subjects if user and item],
    )


# ---------------------------------------------------------------------- what is refused

NEITHER = "the line names neither a user nor an item; give at least one, or take the line out"
ONE_OBJECT = 'expected one object a line, such as {"user": "u7"}'
KNOWN = "known: item, rating, request_id, requested_at, timestamp, user"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        # the header
        ("u7,film 3\n", 1, "the first line names no user or item column; found 'u7', 'film 3'; expected a header:"),
        ("timestamp\n5\n", 1, "names no user or item column; found 'timestamp'"),
        ("1,2,3,4,5,6,7,8,9\n", 1, "'8', ...; expected a header: user,item"),
        ("x" * 50 + "\n", 1, f"found '{'x' * 40}'; expected"),
        ("\n\nusr,itm\n", 3, "found 'usr', 'itm'"),
        ("user;item\nu7;\n", 1, "found 'user;item'"),
        ("usr,item\nu7,\n", 1, f"unknown column 'usr'; did you mean 'user'? ({KNOWN})"),
        ("user,item,\nu7,,\n", 1, f"unknown column ''; {KNOWN}"),
        ("id,item\nu7,a\n", 1, "unknown column 'id'"),
        ("user,kind\nu7,user\n", 1, "unknown column 'kind'"),
        ("user,title\nu7,x\n", 1, "unknown column 'title'"),
        ("user,user\nu7,u8\n", 1, "two columns name the user: 'user' and 'user'; leave one of them out"),
        ("user,item,User_ID\nu7,,u8\n", 1, "two columns name the user: 'user' and 'User_ID'"),
        ("item,movie_id\na,b\n", 1, "two columns name the item: 'item' and 'movie_id'"),
        ("user,ts,time\na,1,2\n", 1, "two columns name the timestamp: 'ts' and 'time'"),
        ('user,"item\nu7,\n', 1, "a quote is opened and not closed on its line"),
        (b"user,it\xff\n", 1, "not UTF-8 text: byte 0xff at position 8"),
        # the rows
        ("user,item\nu7,\n,\n", 3, NEITHER),
        ('user\n""\n', 2, NEITHER),
        ("user,item,rating\n,,5\n", 2, NEITHER),
        ("user,item\nu7\n", 2, "the row has 1 fields, not 2 as the header has"),
        ("user,item\nu7,a\n\nu7,a,b\n", 4, "the row has 3 fields, not 2 as the header has"),
        ("user\nu7,a\n", 2, "the row has 2 fields, not 1"),
        ("user,item\nu7,nan\n", 2, "item: the id 'nan' is a missing value written as text"),
        ("user,item\nNULL,a\n", 2, "user: the id 'NULL' is a missing value written as text"),
        ("user,item\n u7,a\n", 2, "user: the id ' u7' begins or ends with white space"),
        ("user,item\nu7, \n", 2, "item: the id ' ' begins or ends with white space"),
        ('user,item\n"u,7",\n', 2, "user: the id 'u,7' holds a comma"),
        ("user,item\nu\x1b7,\n", 2, "user: the id 'u\\x1b7' holds a control character"),
        ("user,item\nu\r7,\n", 2, "holds a control character"),
        (f"user\n{'x' * 257}\n", 2, "is 257 bytes long (at most 256)"),
        ('user,item\n"u7,\na"\n', 2, "a quote is opened and not closed on its line"),
        ('user,item\n"u7"x,\n', 2, "text stands after the closing quote of field 1"),
        (b"user,item\nu7,\n\xff,\n", 3, "not UTF-8 text: byte 0xff at position 1"),
        # the file
        ("user,item\nu7,\n\0\n", 3, "a NUL byte was found where UTF-8 text is expected"),
        ("user\n" + "x" * (MAX_ROW_BYTES + 1), 2, f"the line is longer than {MAX_ROW_BYTES} bytes"),
        (gzip.compress(b"user\nu7\n", mtime=0), None, "the file is gzip"),
    ],
)
def test_a_bad_table_is_refused_with_file_line_and_reason(
    save: Save, text: str | bytes, line: int | None, reason: str
) -> None:
    refused(save("r.csv", text), line, reason)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        # no object
        ('{"user": "u7"\n', 1, f"no JSON: Expecting ',' delimiter at position 14; {ONE_OBJECT}"),
        ("user,item\nu7,\n", 1, f"no JSON: Expecting value at position 1; {ONE_OBJECT}"),
        ('{\n  "user": "u7"\n}\n', 1, "no JSON: Expecting property name enclosed in double quotes"),
        ('{"user": "u7"} {"user": "u8"}\n', 1, "no JSON: Extra data at position 16"),
        ("{'user': 'u7'}\n", 1, "no JSON: Expecting property name"),
        ('{"user": "u7"}\n\n{"user": "u\t8"}\n', 3, "no JSON: Invalid control character at"),
        ('[{"user": "u7"}]\n', 1, f"JSON, but no object; {ONE_OBJECT}"),
        ('["user", "u7"]\n', 1, "JSON, but no object"),
        ('"u7"\n', 1, "JSON, but no object"),
        ("17\n", 1, "JSON, but no object"),
        ("null\n", 1, "JSON, but no object"),
        ("[" * 60_000 + "\n", 1, "JSON with a number too long or nested too deep"),
        (f'{{"user": {"9" * 5000}}}\n', 1, "JSON with a number too long or nested too deep"),
        # the keys
        ("{}\n", 1, NEITHER),
        ('{"user": "u7"}\n{"user": null}\n', 2, NEITHER),
        ('{"user": null, "item": null}\n', 1, NEITHER),
        ('{"requested_at": "2024-05-01"}\n', 1, NEITHER),
        ('{"usr": "u7"}\n', 1, f"unknown key 'usr'; did you mean 'user'? ({KNOWN})"),
        ('{"item": "a", "": "u7"}\n', 1, f"unknown key ''; {KNOWN}"),
        ('{"id": "u7", "item": "a"}\n', 1, "unknown key 'id'"),
        ('{"user": "u7", "user": "u8"}\n', 1, "two keys name the user: 'user' and 'user'; leave one of them out"),
        ('{"user": null, "uid": "u8"}\n', 1, "two keys name the user: 'user' and 'uid'"),
        ('{"user": "u", "rating": 1, "rating": 2}\n', 1, "two keys name the rating"),
        # the values
        (
            '{"user": 7.0}\n',
            1,
            "the user is a number that is no integer; an id is text or an integer: write it in quot",
        ),
        ('{"item": 1e3}\n', 1, "the item is a number that is no integer"),
        ('{"item": 1e999}\n', 1, "the item is a number that is no integer"),
        ('{"item": NaN}\n', 1, "the item is a number that is no integer"),
        ('{"user": true}\n', 1, "the user is true or false; an id is text or an integer"),
        ('{"user": ["u7"]}\n', 1, "the value of 'user' is a list; expected text or a number"),
        ('{"user": {"id": 7}}\n', 1, "the value of 'user' is an object; expected text or a number"),
        ('{"user": "u7", "timestamp": {}}\n', 1, "the value of 'timestamp' is an object"),
        ('{"user": "", "item": "a"}\n', 1, "the user is an empty text; leave the key out where no user is meant"),
        ('{"user": "u7", "item": " "}\n', 1, "item: the id ' ' begins or ends with white space"),
        ('{"user": "null"}\n', 1, "user: the id 'null' is a missing value written as text"),
        ('{"user": "u,7"}\n', 1, "user: the id 'u,7' holds a comma"),
        ('{"user": "u\\n7"}\n', 1, "user: the id 'u\\n7' holds a control character"),
        ('{"user": "u\\u0000"}\n', 1, "holds a control character"),
        ('{"user": "\\ud800"}\n', 1, "holds a lone surrogate"),
        (f'{{"user": {"9" * 300}}}\n', 1, "is 300 bytes long (at most 256)"),
        # the file
        (b'{"user": "u7"}\n{"user": "\xff"}\n', 2, "not UTF-8 text: byte 0xff at position 11"),
        ('{"user": "u7"}\n'.encode("utf-16-le"), 1, "a NUL byte was found where UTF-8 text is expected"),
        ('{"user": "' + "x" * MAX_ROW_BYTES + '"}', 1, f"the line is longer than {MAX_ROW_BYTES} bytes"),
    ],
)
def test_a_bad_object_is_refused_with_file_line_and_reason(
    save: Save, text: str | bytes, line: int | None, reason: str
) -> None:
    refused(save("r.jsonl", text), line, reason)


def refused(path: Path, line: int | None, reason: str) -> None:
    with pytest.raises(DataError) as caught:
        read_requests(path)
    assert reason in caught.value.reason
    assert (caught.value.path, caught.value.line) == (str(path), line)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("name", ["r.json", "r.txt", "r.parquet", "r", "r.gz", "r.csv.zip", "csv"])
def test_other_formats_are_refused(save: Save, name: str) -> None:
    refused(save(name, "user\nu7\n"), None, "requests are read from *.csv, *.tsv, *.jsonl and *.ndjson, each with .gz")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "nothing.csv", None, "there is no such file")
    (tmp_path / "folder.csv").mkdir()
    refused(tmp_path / "folder.csv", None, "this is a directory")
    os.mkfifo(tmp_path / "pipe.csv")
    refused(tmp_path / "pipe.csv", None, "no regular file")


def test_damaged_gzip_is_refused(tmp_path: Path) -> None:
    plain, cut = tmp_path / "plain.jsonl.gz", tmp_path / "cut.csv.gz"
    plain.write_bytes(b'{"user": "u7"}\n')
    refused(plain, None, "the name says gzip, but the bytes are something else")
    whole = gzip.compress(b"user\n" + b"".join(b"u%d\n" % n for n in range(1000)))
    cut.write_bytes(whole[: len(whole) // 2])
    refused(cut, None, "the gzip stream is truncated or damaged")


def test_reading_requests_needs_nothing_heavy(save: Save) -> None:
    path = save("r.jsonl.gz", '{"user": "u7"}\n')
    code = (
        "import sys\n"
        "for name in ('pyarrow', 'torch', 'numba', 'typer', 'rich'): sys.modules[name] = None\n"
        "from receraser.erasure.requests_file import read_requests\n"
        "print(len(read_requests(sys.argv[1])))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
