from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tomllib
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from receraser.data.ids import id_problem
from receraser.data.interactions import Interactions
from receraser.data.readers import columnar, parse_columns, read, read_titles, reader, write_csv, write_lines
from receraser.data.readers.columnar import parse_columnar
from receraser.data.readers.delimited import parse_delimited, plan_of, split_fields
from receraser.data.readers.formats import Options, format_of
from receraser.data.readers.lines import MAX_ADJACENCY_BYTES, MAX_ROW_BYTES
from receraser.data.readers.rows import Table, conclude
from receraser.errors import DataError, UsageError
from tests.nightly import examples

BAD = Path(__file__).parent / "bad"
EXPECTED: dict[str, dict[str, str | int]] = tomllib.loads((BAD / "expected.toml").read_text())
PAIRS = [("u1", "a"), ("u1", "b"), ("u2", "a")]
GOOD = Interactions.from_pairs(PAIRS)
IDS = st.text(st.sampled_from("ab09.-é日 \"'#;|:\u00a0"), min_size=1, max_size=5).filter(
    lambda text: id_problem(text) is None
)
per_example = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def save(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        data = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(data, compresslevel=1, mtime=0) if name.endswith(".gz") else data)
        return path

    return write


Save = Callable[[str, str | bytes], Path]


# ---------------------------------------------------------------------- the formats


@pytest.mark.parametrize(
    ("name", "text", "format_name"),
    [
        ("r.csv", "user,item\nu1,a\nu1,b\nu2,a\n", "csv"),
        ("r.CSV", "user,item\nu1,a\nu1,b\nu2,a", "csv"),
        ("r.csv.gz", "user,item\nu1,a\nu1,b\nu2,a\n", "csv"),
        ("r.csv", "\ufeffuser,item\r\nu1,a\r\nu1,b\r\nu2,a\r\n", "csv"),
        ("r.csv", "\nuser,item\n\nu1,a\n\n\nu1,b\nu2,a\n\n", "csv"),
        ("r.csv", '"user","item"\n"u1","a"\nu1,"b"\n"u2",a\n', "csv"),
        ("r.csv", "extra, movieId ,USER_ID,rating\n?,a,u1,-3\n,b,u1,1e2\nx,a,u2,.5\n", "csv"),
        ("r.csv", "user,item,movie_id\nu1,a,7\nu1,b,8\nu2,a,7\n", "csv"),
        ("r.tsv", "user\titem\nu1\ta\nu1\tb\nu2\ta\n", "tsv"),
        ("r.tsv.gz", "user_id\tproduct_id\tname\nu1\ta\tx, y\nu1\tb\t\nu2\ta\t\n", "tsv"),
        ("r.txt", "u1 a b\nu2 a\n", "lines"),
        ("r.txt.gz", "\ufeffu1  a\tb \r\n\r\nu2 a", "lines"),
        ("r.txt", "u1 a\nu2 a\nu1 b\n", "lines"),
        ("ratings.dat", "u1::a::5::1\nu1::b::4::2\nu2::a::3::3\n", "movielens"),
        ("u.data", "u1\ta\t5\t1\nu1\tb\t4\t2\nu2\ta\t3\t3\n", "ml-100k"),
        ("u.data.gz", "u1\ta\t5\t1\nu1\tb\t4\t2\nu2\ta\t3\t3\n", "ml-100k"),
        ("x.inter", "user_id:token\titem_id:token\trating:float\nu1\ta\t1.0\nu1\tb\t2\nu2\ta\t3\n", "recbole"),
    ],
)
def test_every_text_format_gives_the_same_rows(save: Save, name: str, text: str, format_name: str) -> None:
    path = save(name, text)
    result = read(path)
    assert result.interactions == GOOD
    assert result.interactions.timestamps is None
    report = result.report
    assert (report.path, report.format, report.rows_read) == (str(path), format_name, 3)
    assert (report.duplicates_merged, report.below_min_rating, report.bad_rows, report.bad_examples) == (0, 0, 0, ())


def test_ids_stay_text_as_read(save: Save) -> None:
    result = read(save("r.csv", 'user,item\n9,1\n09,1\n9.0,1\n"9 ",1\n'.replace('"9 "', "9e0")))
    assert result.interactions.users.ids == ("09", "9", "9.0", "9e0")


def test_duplicates_are_merged_and_counted_and_the_latest_time_kept(save: Save) -> None:
    path = save("r.csv", "user,item,timestamp\nu,a,5\nu,a,9\nu,b,1.5\nu,a,7\n")
    result = read(path, keep_timestamps=True)
    assert result.report.duplicates_merged == 2
    assert result.interactions.timestamps is not None
    assert result.interactions.timestamps.tolist() == [9.0, 1.5]


def test_any_rating_is_an_interaction_unless_a_minimum_is_asked_for(save: Save) -> None:
    path = save("r.csv", "user,item,rating\nu1,a,0\nu1,b,3.5\nu2,a,-1\nu3,c,3\n")
    assert len(read(path).interactions) == 4
    kept = read(path, min_rating=3)
    assert list(kept.interactions.pairs()) == [("u1", "b"), ("u3", "c")]
    assert (kept.report.rows_read, kept.report.below_min_rating) == (4, 2)
    with pytest.raises(DataError, match="no row is left: 4 below the minimum rating, 0 bad"):
        read(path, min_rating=10)


def test_options_need_their_columns(save: Save) -> None:
    bare, lines = save("r.csv", "user,item\nu,a\n"), save("r.txt", "u a\n")
    for path in (bare, lines):
        with pytest.raises(DataError, match="minimum rating"):
            read(path, min_rating=1)
        with pytest.raises(DataError, match="timestamps are to be kept"):
            read(path, keep_timestamps=True)
    with pytest.raises(UsageError, match="finite"):
        read(bare, min_rating=float("nan"))


# ---------------------------------------------------------------------- columns


def test_columns_by_name(save: Save) -> None:
    path = save("r.csv", "uid,movie,stars,when\nu1,a,5,1\nu1,b,1,2\nu2,a,5,3\n")
    assert read(path, columns=parse_columns("user=uid,item=movie")).interactions == GOOD
    rated = read(path, columns=parse_columns("user=uid, item=movie, rating=stars, timestamp=when"), min_rating=2)
    assert list(rated.interactions.pairs()) == [("u1", "a"), ("u2", "a")]
    swapped = read(path, columns={"user": "movie", "item": "uid"})
    assert swapped.interactions.users.ids == ("a", "b")
    with pytest.raises(DataError, match="the column 'film' is missing") as caught:
        read(path, columns={"user": "uid", "item": "film"})
    assert caught.value.line == 1


def test_columns_by_position_are_for_files_without_a_header(save: Save) -> None:
    columns = parse_columns("user=2,item=1,timestamp=3")
    for name, text in (
        ("r.csv", "a,u1,1\nb,u1,2\na,u2,3\n"),
        ("r.inter", "a\tu1\t1\nb\tu1\t2\na\tu2\t3\n"),
        ("r.dat", "a::u1::1\nb::u1::2\na::u2::3\n"),
    ):
        assert read(save(name, text), columns=columns).interactions == GOOD
    with pytest.raises(DataError, match="there is no column 3: a row has 2 fields"):
        read(save("r.csv", "a,u1\n"), columns=columns)
    with pytest.raises(DataError, match="the first line names columns"):
        read(save("r.csv", "item,user\na,u1\n"), columns={"user": 2, "item": 1})


def test_recbole_columns_may_be_named_with_their_type(save: Save) -> None:
    path = save("r.inter", "uid:token\tthing:token\nu1\ta\nu1\tb\nu2\ta\n")
    assert read(path, columns={"user": "uid", "item": "thing"}).interactions == GOOD
    assert read(path, columns={"user": "uid:token", "item": "thing:token"}).interactions == GOOD


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1,2", "is not ROLE=NAME"),
        ("", "is not ROLE=NAME"),
        ("user=,item=b", "is not ROLE=NAME"),
        ("usr=a,item=b", "did you mean 'user'"),
        ("user=a", "the item is not named"),
        ("item=a", "the user is not named"),
        ("user=a,user=b,item=c", "names the user twice"),
        ("user=a,item=a", "two roles"),
        ("user=1,item=b", "mixed"),
        ("user=0,item=1", "count from 1"),
    ],
)
def test_wrong_columns_are_wrong_usage(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_columns(text)


def test_columns_where_there_are_none_to_name(save: Save) -> None:
    with pytest.raises(UsageError, match="no columns to name"):
        read(save("r.txt", "u a\n"), columns={"user": 1, "item": 2})
    with pytest.raises(UsageError, match="has no header"):
        read(save("r.dat", "u::a::1::1\n"), columns={"user": "u", "item": "a"})


# ---------------------------------------------------------------------- bad input


def test_the_table_of_bad_files_is_complete() -> None:
    assert sorted(EXPECTED) == sorted(path.name for path in BAD.iterdir() if path.name != "expected.toml")


@pytest.mark.parametrize("large", [False, True], ids=["careful", "columnar first"])
@pytest.mark.parametrize("name", EXPECTED)
def test_a_bad_file_is_refused_with_file_line_and_reason(name: str, large: bool) -> None:
    expected = EXPECTED[name]
    with patch.object(reader, "_LARGE_BYTES", 0 if large else 2**60), pytest.raises(DataError) as caught:
        read(BAD / name)
    assert str(expected["reason"]) in caught.value.reason
    assert caught.value.line == expected.get("line")
    assert caught.value.path == str(BAD / name)
    assert str(caught.value).startswith(str(BAD / name))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "nothing.csv")
    with pytest.raises(DataError, match="no such file"):
        read("a\0b.csv")
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / ("x" * 5000 + ".csv"))
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    with pytest.raises(DataError, match="is a directory"):
        read(folder)
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    with pytest.raises(DataError, match="no regular file"):
        read(pipe)


@pytest.mark.parametrize(
    ("name", "limit"), [("r.csv", MAX_ROW_BYTES), ("r.csv.gz", MAX_ROW_BYTES), ("r.txt.gz", MAX_ADJACENCY_BYTES)]
)
@pytest.mark.parametrize("newline", [b"", b"\n"])
def test_an_endless_line_is_found_in_bounded_memory(save: Save, name: str, limit: int, newline: bytes) -> None:
    head = b"user,item\nu,a\n" if ".csv" in name else b"u a\nu b\n"
    path = save(name, head + b"x" * (96 * 1024 * 1024) + newline)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=f"longer than {limit} bytes") as caught:
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.line == 3
    assert peak < 80 * 1024 * 1024, "less than the line itself: a few blocks of 16 MiB at the most"


def test_a_line_just_below_the_limit_is_read(save: Save) -> None:
    filler = "x" * (MAX_ROW_BYTES - len("u,a,"))
    assert len(read(save("r.csv", f"user,item,note\nu,a,{filler}\n")).interactions) == 1
    with pytest.raises(DataError, match="longer than"):
        read(save("r.csv", f"user,item,note\nu,a,{filler}x\n"))


def test_bad_rows_can_be_skipped_counted_and_listed(save: Save) -> None:
    rows = ["user,item,rating", "u1,a,1", "u1", ",b,1", "u1,b,1", "u2,a,nan", "u2,a,2"]
    result = read(save("r.csv", "\n".join(rows)), skip_bad_rows=True)
    assert result.interactions == GOOD
    assert (result.report.rows_read, result.report.bad_rows) == (6, 3)
    assert [line for line, _ in result.report.bad_examples] == [3, 4, 6]
    assert "1 fields" in result.report.bad_examples[0][1]


def test_a_bad_adjacency_line_is_one_bad_row_and_gives_nothing(save: Save) -> None:
    result = read(save("r.txt", b"u1 a b\nu3 a x,y\nu4\n\xff a\nu2 a\n"), skip_bad_rows=True)
    assert result.interactions == GOOD
    assert (result.report.rows_read, result.report.bad_rows) == (6, 3)


def test_at_most_twenty_bad_rows_are_listed(save: Save) -> None:
    report = read(save("r.csv", "user,item\nu,a\n" + "bad\n" * 50), skip_bad_rows=True).report
    assert (report.bad_rows, len(report.bad_examples), report.bad_examples[-1][0]) == (50, 20, 22)


def test_a_file_of_bad_rows_only_is_an_error_even_so(save: Save) -> None:
    with pytest.raises(DataError, match="all 2 rows are bad; the first: the row has 1 fields") as caught:
        read(save("r.csv", "user,item\nbad\nworse\n"), skip_bad_rows=True)
    assert caught.value.line == 2


@pytest.mark.parametrize("name", ["binary.csv", "truncated.csv.gz", "no-header.csv", "no-parquet.parquet"])
def test_faults_of_the_file_are_never_skipped(name: str) -> None:
    with pytest.raises(DataError):
        read(BAD / name, skip_bad_rows=True)


# ---------------------------------------------------------------------- the columnar path means the same


def both(path: Path, options: Options) -> tuple[Table | None, Table | DataError]:
    """Return what the columnar parser says, and what the careful one does."""
    plan = plan_of(path, format_of(path), options)
    fast = parse_columnar(path, plan, options)
    try:
        return fast, parse_delimited(path, plan, options)
    except DataError as error:
        return fast, error


def same(path: Path, fast: Table, careful: Table) -> None:
    if len(careful.user_codes) == 0:
        assert (len(fast.user_codes), fast.below_min_rating) == (0, careful.below_min_rating)
        return
    one, other = conclude(path, "x", fast), conclude(path, "x", careful)
    assert one.report == other.report
    assert one.interactions == other.interactions
    left, right = one.interactions.timestamps, other.interactions.timestamps
    assert (left is None) == (right is None)
    assert left is None or right is None or left.tolist() == right.tolist()


OPTIONS = [Options(), Options(min_rating=2.5), Options(keep_timestamps=True), Options(None, 2.5, True, True)]
NUMBERS = st.sampled_from(["1", "2.5", "-3", "1e3", ".5", "007", "12345678901234567", "0.1"])
ROWS = st.lists(st.tuples(IDS, IDS, NUMBERS, NUMBERS), min_size=1, max_size=30)


def quoted(text: str, quote: bool) -> str:
    return f'"{text}"' if quote and '"' not in text else text


@per_example
@given(ROWS, st.sampled_from(OPTIONS), st.sampled_from(["\n", "\r\n", "\n\n"]), st.booleans(), st.booleans())
def test_clean_files_are_read_alike(
    tmp_path: Path,
    rows: list[tuple[str, str, str, str]],
    options: Options,
    end: str,
    quote: bool,
    last_end: bool,
) -> None:
    rows = [(user.replace('"', "q"), item.replace('"', "q"), rating, time) for user, item, rating, time in rows]
    text = [",".join([quoted(user, quote), item, rating, time]) for user, item, rating, time in rows]
    path = tmp_path / "r.csv"
    path.write_bytes(("user,item,rating,timestamp" + end + end.join(text) + (end if last_end else "")).encode())
    with patch.object(columnar, "_BLOCK_BYTES", 150):
        fast, careful = both(path, options)
    assert isinstance(careful, Table)
    assert fast is not None, "a clean file is read at speed"
    same(path, fast, careful)


TOKENS = ["a", "b", "1", "2.5", ",", ",", ",", '"', '""', "\n", "\n", "\r", "\r\n", " ", "é", "\t", "nan", "::", "\x1f"]


@settings(max_examples=examples(100, 300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([*TOKENS, "u,i,1,2\n", '"u","i",1,2\n']), max_size=25), st.sampled_from(OPTIONS))
def test_whatever_the_columnar_path_accepts_the_careful_one_reads_alike(
    tmp_path: Path, tokens: list[str], options: Options
) -> None:
    path = tmp_path / "r.csv"
    path.write_bytes(("user,item,rating,timestamp\n" + "".join(tokens)).encode())
    fast, careful = both(path, options)
    if fast is not None:
        assert isinstance(careful, Table), f"the careful parser refuses: {careful}"
        same(path, fast, careful)


@settings(max_examples=examples(80, 200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([*TOKENS, ":", ":::", "u::i::1::2\n", "u::i::1::2\r\n"]), min_size=1, max_size=25))
def test_the_same_for_movielens_files(tmp_path: Path, tokens: list[str]) -> None:
    path = tmp_path / "r.dat"
    path.write_bytes(("u::i::1::2\n" + "".join(tokens)).encode())
    fast, careful = both(path, Options())
    if fast is not None:
        assert isinstance(careful, Table), f"the careful parser refuses: {careful}"
        same(path, fast, careful)


@pytest.mark.parametrize(
    "rest",
    [
        b'u,"a""b",1,x\n',
        b'u,a,1,"x"y\n',
        b'u,a,1,",a"b\n',
        b'u,a,1,"x\ny"\n',
        b"u,a,1,x\ry\n",
        b"u,a,1,\xff\n",
        b"u,a,1," + b"x" * MAX_ROW_BYTES + b"\n",
        b"u,a,1\n",
        b"u,null,1,x\n",
        b"u,a,0x1,x\n",
        b"u,a, 1,x\n",
        b"u,a,nan,x\n",
    ],
)
def test_the_columnar_path_declines_what_is_not_plain(save: Save, rest: bytes) -> None:
    path = save("r.csv", b"user,item,rating,note\nu,b,2,y\n" + rest)
    plan = plan_of(path, format_of(path), Options())
    assert parse_columnar(path, plan, Options()) is None


def test_the_stand_in_for_a_long_delimiter_is_declined_too(save: Save) -> None:
    path = save("r.dat", "u::a::1::2\nu\x1fb::1::2\n")
    fast, careful = both(path, Options())
    assert fast is None
    assert isinstance(careful, DataError)


def test_large_files_take_the_columnar_path(tmp_path: Path) -> None:
    n = 120_000
    users, items = np.arange(n) % 997, np.arange(n) % 1009
    path = tmp_path / "r.csv.gz"
    text = "user,item,rating\n" + "".join(f"{u},{i},3\n" for u, i in zip(users, items, strict=True))
    path.write_bytes(gzip.compress(text.encode(), compresslevel=0))
    with patch.object(reader, "parse_delimited", side_effect=AssertionError("not needed for a clean file")):
        result = read(path)
    assert result.interactions == Interactions.from_columns(users.tolist(), items.tolist())
    with path.open("wb") as file:
        file.write(gzip.compress((text + "u,i\n").encode(), compresslevel=0))
    with pytest.raises(DataError, match="2 fields, not 3") as caught:
        read(path)
    assert caught.value.line == n + 2


def test_everything_but_parquet_is_read_without_pyarrow(save: Save) -> None:
    paths = [save("r.txt.gz", "u a\n"), save("r.csv", "user,item\nu,a\n"), save("r.parquet", "")]
    code = (
        "import sys\n"
        "for name in ('pyarrow', 'torch', 'numba', 'typer', 'rich', 'duckdb'): sys.modules[name] = None\n"
        "from receraser.data import readers\n"
        "from receraser.data.readers import reader\n"
        "reader._LARGE_BYTES = 0\n"
        "assert len(readers.read(sys.argv[1]).interactions) == len(readers.read(sys.argv[2]).interactions) == 1\n"
        "try: readers.read(sys.argv[3])\n"
        "except Exception as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *map(str, paths)], capture_output=True, text=True, check=True)
    assert "pip install 'pyarrow" in done.stdout


# ---------------------------------------------------------------------- Parquet


def parquet(folder: Path, **columns: object) -> Path:
    path = folder / "r.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=2)
    return path


USERS, ITEMS = ["u1", "u1", "u2"], ["a", "b", "a"]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.large_string()),
    ],
)
def test_parquet_text_ids_of_any_encoding(tmp_path: Path, kind: pa.DataType) -> None:
    path = parquet(tmp_path, user_id=pa.array(USERS).cast(kind), note=[1.5, None, 2], item=pa.array(ITEMS).cast(kind))
    result = read(path)
    assert result.interactions == GOOD
    assert (result.report.format, result.report.rows_read) == ("parquet", 3)


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.int64()])
@pytest.mark.parametrize("encoded", [False, True])
def test_parquet_integer_ids_are_their_digits(tmp_path: Path, kind: pa.DataType, encoded: bool) -> None:
    users, items = pa.array([10, 9, 9], kind), pa.array([1, 1, 1], kind)
    path = parquet(tmp_path, user=users.dictionary_encode() if encoded else users, item=items)
    result = read(path)
    assert result.interactions == Interactions.from_pairs([("10", "1"), ("9", "1")])
    assert result.report.duplicates_merged == 1


def test_parquet_ratings_and_times(tmp_path: Path) -> None:
    times = pa.array([1_500, 2_000, 3_000], pa.timestamp("ms"))
    path = parquet(tmp_path, user=USERS, item=ITEMS, rating=pa.array([1, 2, 3], pa.int8()), timestamp=times)
    result = read(path, min_rating=2, keep_timestamps=True)
    assert list(result.interactions.pairs()) == [("u1", "b"), ("u2", "a")]
    assert result.interactions.timestamps is not None
    assert result.interactions.timestamps.tolist() == [2.0, 3.0]
    assert result.report.below_min_rating == 1


def test_parquet_columns_by_name(tmp_path: Path) -> None:
    path = parquet(tmp_path, uid=USERS, film=ITEMS)
    assert read(path, columns={"user": "uid", "item": "film"}).interactions == GOOD
    with pytest.raises(DataError, match="names no user and item column; found 'uid', 'film'"):
        read(path)


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (pa.array([1.0, 2.0, 3.0]), "1.0 and 1 are different texts"),
        (pa.array([1.0, 2.0, 3.0]).dictionary_encode(), "1.0 and 1 are different texts"),
        (pa.array([True, False, True]), "type bool; text or integers"),
        (pa.array([b"a", b"b", b"c"]), "type binary; text or integers"),
        (pa.array([["a"], ["b"], ["c"]]), "text or integers"),
    ],
)
def test_parquet_id_columns_of_other_types_are_refused(tmp_path: Path, column: pa.Array, why: str) -> None:
    with pytest.raises(DataError, match=why):
        read(parquet(tmp_path, user=column, item=ITEMS), skip_bad_rows=True)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"user": ["u1", None, "u2"]}, "user: the id is missing"),
        ({"user": pa.array(["u1", None, "u2"]).dictionary_encode()}, "user: the id is missing"),
        ({"item": [1, None, 2]}, "item: the id is missing"),
        ({"item": ["a", "", "b"]}, "item: the id is missing"),
        ({"item": ["a", "x\ny", "b"]}, "control character"),
        ({"item": ["a", "nan", "b"]}, "missing value written as text"),
        ({"rating": [1.0, float("nan"), 2.0]}, "the rating is nan"),
        ({"rating": [1.0, float("inf"), 2.0]}, "the rating is inf"),
        ({"rating": [1, None, 2]}, "the rating is missing"),
        ({"timestamp": [1, None, 2]}, "the timestamp is missing"),
        ({"timestamp": pa.array([1, None, 2], pa.timestamp("s"))}, "the timestamp is missing"),
    ],
)
def test_bad_parquet_rows_are_named_or_skipped(tmp_path: Path, change: dict[str, object], why: str) -> None:
    columns: dict[str, object] = {"user": USERS, "item": ITEMS, "rating": [1.0, 2.0, 3.0], "timestamp": [1, 2, 3]}
    path = parquet(tmp_path, **(columns | change))
    with pytest.raises(DataError, match=why) as caught:
        read(path)
    assert caught.value.line == 2
    result = read(path, skip_bad_rows=True, keep_timestamps=True)
    assert (result.report.rows_read, result.report.bad_rows, len(result.interactions)) == (3, 1, 2)
    assert result.interactions.timestamps is not None
    assert result.interactions.timestamps.tolist() in ([1.0, 3.0], [1.0, 2.0])


def test_parquet_text_that_is_not_utf8_is_a_bad_row(tmp_path: Path) -> None:
    broken = pa.array([b"u1", b"\xff", b"u2"]).view(pa.string())
    path = parquet(tmp_path, user=broken, item=ITEMS)
    with pytest.raises(DataError, match="not UTF-8") as caught:
        read(path)
    assert caught.value.line == 2


def test_parquet_rating_columns_of_text_and_empty_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'rating' is of type string; numbers"):
        read(parquet(tmp_path, user=USERS, item=ITEMS, rating=["1", "2", "3"]))
    with pytest.raises(DataError, match="no rows"):
        read(parquet(tmp_path, user=pa.array([], pa.string()), item=pa.array([], pa.string())))
    whole = parquet(tmp_path, user=USERS, item=ITEMS).read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="no readable Parquet"):
        read(tmp_path / "cut.parquet")


# ---------------------------------------------------------------------- there and back

TABLES = st.lists(st.tuples(IDS, IDS, st.floats(allow_nan=False, allow_infinity=False)), min_size=1, max_size=20).map(
    lambda rows: Interactions.from_columns([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])
)


@per_example
@given(TABLES, st.sampled_from(["r.csv", "r.tsv", "r.csv.gz", "r.tsv.gz"]))
def test_what_was_written_as_csv_is_read_back(tmp_path: Path, rows: Interactions, name: str) -> None:
    write_csv(tmp_path / name, rows)
    back = read(tmp_path / name, keep_timestamps=True).interactions
    assert back == rows
    assert back.timestamps is not None
    assert rows.timestamps is not None
    assert back.timestamps.tolist() == rows.timestamps.tolist()


@per_example
@given(TABLES, st.sampled_from(["r.txt", "r.txt.gz"]))
def test_what_was_written_as_lines_is_read_back(tmp_path: Path, rows: Interactions, name: str) -> None:
    if any(" " in text for ids in (rows.users, rows.items) for text in ids):
        with pytest.raises(DataError, match="holds a space; write CSV instead"):
            write_lines(tmp_path / name, rows)
    else:
        write_lines(tmp_path / name, rows)
        assert read(tmp_path / name).interactions == rows


@per_example
@given(TABLES)
def test_what_was_written_as_parquet_is_read_back(tmp_path: Path, rows: Interactions) -> None:
    users, items = zip(*rows.pairs(), strict=True)
    path = parquet(tmp_path, user=users, item=items, timestamp=rows.timestamps)
    back = read(path, keep_timestamps=True).interactions
    assert back == rows
    assert back.timestamps is not None
    assert rows.timestamps is not None
    assert back.timestamps.tolist() == rows.timestamps.tolist()


@pytest.mark.parametrize("write", [write_csv, write_lines])
def test_written_bytes_are_reproducible_and_appear_whole(
    tmp_path: Path, write: Callable[[Path, Interactions], None]
) -> None:
    one, other = tmp_path / "a" / "r.gz", tmp_path / "b" / "other.gz"
    for path in (one, other):
        path.parent.mkdir()
        path.write_text("old")
        write(path, GOOD)
        assert [file.name for file in path.parent.iterdir()] == [path.name], "no temporary file stays behind"
    assert one.read_bytes() == other.read_bytes()
    assert one.read_bytes()[3:8] == bytes(5), "no file name and no time in the gzip header"
    with pytest.raises(DataError, match="cannot be written"):
        write(tmp_path / "nowhere" / "r.csv", GOOD)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "r.txt"
    path.write_text("old")
    with (
        patch("os.fsync", side_effect=OSError(28, "No space left on device")),
        pytest.raises(DataError, match="No space"),
    ):
        write_lines(path, GOOD)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["r.txt"]


# ---------------------------------------------------------------------- titles


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("items.csv", 'item,movie_id,title,genres\n1,9,"Alien, ""the first""",Horror\n2,8,Amélie,\n'),
        ("movies.csv.gz", 'movieId,title,genres\r\n1,"Alien, ""the first""",Horror\r\n2,Amélie,\r\n'),
        ("items.tsv", 'id\tname\titem_id\nx\t"Alien, ""the first"""\t1\ny\tAmélie\t2\n'),
        ("movies.dat", '1::Alien, "the first"::Horror\n2::Amélie::Comedy\n'),
        ("movies.dat", '1::Alien, "the first"::Horror\n2::Amélie::Comedy\n'.encode("latin-1")),
        ("u.item", '1|Alien, "the first"|01-Jan-1979||0\n2|Amélie|||1\n'.encode("latin-1")),
    ],
)
def test_titles(save: Save, name: str, content: str | bytes) -> None:
    assert read_titles(save(name, content)) == {"1": 'Alien, "the first"', "2": "Amélie"}


def test_titles_are_made_safe_to_show(save: Save) -> None:
    path = save("items.csv", "item,title\n1,a\x1b[31mb\n2,\u202eevil\n3, \n3,third\n3,again\n")
    assert read_titles(path) == {"1": "a\ufffd[31mb", "2": "\ufffdevil", "3": "third"}


@pytest.mark.parametrize(
    ("name", "content", "why", "line"),
    [
        ("items.csv", "", "is empty", None),
        ("items.csv", "item,title\n", "no rows", None),
        ("items.csv", "item,label\n1,x\n", "no item and title column; found 'item', 'label'", 1),
        ("items.csv", "item,title\n1,x\n2\n", "1 fields, not 2", 3),
        ("items.csv", "item,title\n,x\n", "item: the id is missing", 2),
        ("items.csv", b"item,title\n1,\xff\n", "not UTF-8", 2),
        ("movies.dat", "1:x\n", "1 fields, not 2", 1),
        ("items.json", "{}", "titles are read from", None),
    ],
)
def test_bad_titles(save: Save, name: str, content: str | bytes, why: str, line: int | None) -> None:
    with pytest.raises(DataError, match=why) as caught:
        read_titles(save(name, content))
    assert caught.value.line == line


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), min_size=1))
def test_quoted_fields_come_back_as_they_were(fields: list[str]) -> None:
    line = ",".join('"' + field.replace('"', '""') + '"' for field in fields)
    assert split_fields(line, ",") == fields


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.txt", "rows.txt.gz", "rows.parquet"])
def test_progress_goes_up_to_the_whole_file(name: str, tmp_path: Path) -> None:
    rows = Interactions.from_pairs([(f"user{u}", f"item{i}") for u in range(300) for i in range(u % 7, 300, 3)])
    path = tmp_path / name
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"user": [u for u, _ in rows.pairs()], "item": [i for _, i in rows.pairs()]}), path)
        whole = len(rows)
    else:
        (write_lines if ".txt" in name else write_csv)(path, rows)
        whole = path.stat().st_size
    seen: list[tuple[int, int]] = []
    assert read(path, progress=lambda done, total: seen.append((done, total))).interactions == rows
    assert seen[-1] == (whole, whole)
    assert seen == sorted(seen)
