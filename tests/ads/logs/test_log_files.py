"""Files of a log: which files, their layout, and reading them with an engine."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.ads.logs.log_files import (
    files_not_read,
    find_files,
    inspect_files,
    is_database,
    read_files,
)
from coterie.errors import TableError
from coterie.tables.engines import fetch
from coterie.tables.sources import rejected_lines


def touch(folder: Path, *names: str) -> None:
    """Empty files, with the folders they need."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def parquet(path: Path, **columns: list) -> str:
    """A small Parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return str(path)


def text(path: Path, content: str | bytes) -> str:
    """A small text file with exactly this content."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def rows(paths: list[str], connection) -> list[dict]:
    """The rows that the engine reads from the files, sorted."""
    found = fetch(read_files(inspect_files(paths), connection)).to_pylist()
    return sorted(found, key=lambda row: str(sorted(row.items(), key=str)))


def test_a_folder_means_the_logs_in_it_and_below(tmp_path):
    """Tables beside the logs and hidden, unfinished or other files are skipped."""
    logs = ("bids/b.parquet", "bids/deep/a.parquet", "day=2026-03-02/part-0.PARQUET")
    others = (
        "advertisers.parquet",
        "bids/truth.parquet",
        "advertisers.csv.gz",
        ".hidden.parquet",
        "_temporary/c.parquet",
        ".cache/d.parquet",
        "e.parquet.tmp",
        "notes.md",
        "_SUCCESS",
    )
    touch(tmp_path, *logs, *others)
    assert find_files(tmp_path) == sorted(str(tmp_path / name) for name in logs)


def test_files_of_a_folder_with_other_endings_are_known(tmp_path):
    """Hidden files and tables beside the logs are not among them."""
    touch(tmp_path, "a.csv", "b.csv.zip", "c/d.txt", ".hidden.txt", "advertisers.csv", "_SUCCESS")
    expected = [str(tmp_path / name) for name in ("b.csv.zip", "c/d.txt")]
    assert files_not_read(tmp_path) == files_not_read([str(tmp_path), "a.csv"]) == expected
    assert files_not_read(tmp_path / "a.csv") == []


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv", "a.TSV.GZ"])
def test_a_folder_of_text_is_one_of_logs(tmp_path, name):
    """Text with commas or tabs is found, gzipped or not."""
    touch(tmp_path, name, "readme.txt")
    assert find_files(str(tmp_path)) == [str(tmp_path / name)]


def test_globs_and_lists_mean_what_matches(tmp_path, monkeypatch):
    """Globs may be relative, absolute or recursive; a named file may have any ending."""
    touch(tmp_path, "b/2.parquet", "b/1.parquet", "b/.3.parquet", "truth.parquet", "b/x.log")
    monkeypatch.chdir(tmp_path)
    assert find_files("b/*.parquet") == ["b/1.parquet", "b/2.parquet"]
    assert find_files(f"{tmp_path}/**/*.parquet") == [
        f"{tmp_path}/b/1.parquet",
        f"{tmp_path}/b/2.parquet",
    ]
    assert find_files(["b/x.log", Path("b/1.parquet")]) == ["b/x.log", "b/1.parquet"]
    assert find_files("s3://bucket/*.parquet") == ["s3://bucket/*.parquet"]


def test_an_existing_path_with_glob_characters_is_a_path(tmp_path, duckdb_connection):
    """A file with a bracket in its name is read, and no other."""
    for name, value in (("a[1].parquet", 1), ("a1.parquet", 2), ("a*.parquet", 3)):
        parquet(tmp_path / name, x=[value])
    assert rows(find_files(tmp_path / "a[1].parquet"), duckdb_connection) == [{"x": 1}]
    assert rows(find_files(tmp_path / "a*.parquet"), duckdb_connection) == [{"x": 3}]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("absent.parquet", r"absent\.parquet: there is no such file"),
        ("*.parquet", "no file matches"),
        ("empty", "no Parquet, CSV, TSV or JSON-lines file"),
        ([], "list of log files is empty"),
    ],
)
def test_no_files_are_an_error(tmp_path, monkeypatch, source, message):
    """A missing file, a glob without match and an empty folder or list are refused."""
    touch(tmp_path, "empty/advertisers.parquet")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TableError, match=message):
        find_files(source)


def test_an_incomplete_parquet_file_is_named(tmp_path):
    """The message names the file, before the engine starts."""
    whole = parquet(tmp_path / "a.parquet", x=list(range(1000)))
    half = text(tmp_path / "b.parquet", Path(whole).read_bytes()[: Path(whole).stat().st_size // 2])
    with pytest.raises(TableError, match=r"b\.parquet: .*damaged"):
        inspect_files([whole, half])
    with pytest.raises(TableError, match=r"c\.parquet: .*damaged"):
        inspect_files([text(tmp_path / "c.parquet", "")])


def test_parquet_columns_are_those_of_all_files(tmp_path, duckdb_connection):
    """A column that a file lacks is null there, and ``lacking`` names the file."""
    a = parquet(tmp_path / "a.parquet", x=[1])
    b = parquet(tmp_path / "b.parquet", y=[5], x=[2])
    assert inspect_files([a, b]).lacking == {"y": a}
    assert rows([a, b], duckdb_connection) == [{"x": 1, "y": None}, {"x": 2, "y": 5}]


def test_parquet_types_are_those_that_hold_the_values_of_all_files(tmp_path, duckdb_connection):
    """A number is not rounded, and a column without values is one of nulls."""
    a = parquet(tmp_path / "a.parquet", x=[1], y=[None])
    b = parquet(tmp_path / "b.parquet", x=[2.5], y=["z"])
    assert inspect_files([a, b]).retyped == {"x": b, "y": b}
    for paths in ([a, b], [b, a]):
        assert rows(paths, duckdb_connection) == [{"x": 1.0, "y": None}, {"x": 2.5, "y": "z"}]


def test_spark_refuses_parquet_files_of_several_types(tmp_path):
    """The message names the file and the column."""

    class Spark:
        name = "pyspark"

    paths = [parquet(tmp_path / f"{x}.parquet", x=[x]) for x in (1, 2.5)]
    with pytest.raises(TableError, match=r"2\.5\.parquet: column x has another type"):
        read_files(inspect_files(paths), Spark())


def test_folders_that_name_a_column_give_it(tmp_path, duckdb_connection):
    """Partition folders such as Spark's give a column."""
    paths = [parquet(tmp_path / f"day=2026-03-0{d}" / "p.parquet", x=[d]) for d in (1, 2)]
    files = inspect_files(paths)
    assert files.base == str(tmp_path)
    found = fetch(read_files(files, duckdb_connection).order_by("x")).to_pydict()
    assert [str(day) for day in found["day"]] == ["2026-03-01", "2026-03-02"]


@pytest.mark.parametrize(
    "content",
    [
        "a,b\n1,\n,x y\n",
        "a;b\n1;\n;x y\n",
        "a\tb\r\n1\t\r\n\tx y\r\n",
        "\ufeff a | b \n1|\n|x y",
        '"a","b"\n"1",\n,"x y"\n',
        "sep=;\r\na;b\r\n1;\r\n;x y\r\n",
    ],
)
def test_delimiters_are_detected(tmp_path, duckdb_connection, content):
    """Comma, semicolon, tab or bar; any line end; quotes; a byte-order mark; spaces in names."""
    path = text(tmp_path / "a.csv", content)
    assert rows([path], duckdb_connection) == [{"a": "1", "b": None}, {"a": None, "b": "x y"}]


def test_columns_may_have_any_name(tmp_path, duckdb_connection):
    """Quotes and SQL in a header are a name."""
    name = "o'b`; DROP TABLE x --"
    path = text(tmp_path / "a.csv", f"{name},b\n1,2\n")
    assert rows([path], duckdb_connection) == [{name: "1", "b": "2"}]


@pytest.mark.parametrize("name", ["a.csv.gz", "a.csv"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_packed_text_is_text(tmp_path, duckdb_connection, name, pack):
    """Gzip is detected by the first bytes, whatever the name is."""
    path = text(tmp_path / name, pack(b"a,b\n1,2\n"))
    assert rows([path], duckdb_connection) == [{"a": "1", "b": "2"}]


def test_text_files_may_be_packed_or_not_if_their_names_say_so(tmp_path, duckdb_connection):
    """A wrong name among them is refused."""
    plain = text(tmp_path / "a.csv", "a\n1\n")
    packed = text(tmp_path / "b.csv.gz", gzip.compress(b"a\n2\n"))
    assert rows([plain, packed], duckdb_connection) == [{"a": "1"}, {"a": "2"}]
    wrong = text(tmp_path / "c.csv", gzip.compress(b"a\n2\n"))
    with pytest.raises(TableError, match=r"c\.csv: its ending does not say"):
        rows([plain, wrong], duckdb_connection)


def test_a_column_without_a_name_has_its_place(tmp_path, duckdb_connection):
    """The index of a data frame has no name."""
    path = text(tmp_path / "a.csv", ",b\n0,2\n")
    assert rows([path], duckdb_connection) == [{"column_1": "0", "b": "2"}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        ("a,b,a\n1,2,3\n", "a more than once"),
        ("a,b,A\n1,2,3\n", "a and A, which differ in case only"),
        ("a,b\n".encode("utf-16-le"), "NUL characters, as UTF-16 has"),
        (b"\xff\xfea,b\n", "not UTF-8"),
        (gzip.compress(b"a,b\n" * 1000)[:30], "cannot be read"),
    ],
)
def test_text_without_a_usable_header_is_refused(tmp_path, content, message):
    """The message names the file."""
    with pytest.raises(TableError, match=rf"a\.csv: .*{message}"):
        inspect_files([text(tmp_path / "a.csv", content)])


@pytest.mark.parametrize(
    ("other", "message"),
    [("b,a\n", "the order of columns"), ("a,c\n", "it has c and it lacks b")],
)
def test_text_files_must_have_one_header(tmp_path, other, message):
    """The message says how they differ."""
    paths = [text(tmp_path / "a.csv", "a,b\n"), text(tmp_path / "b.csv", other)]
    with pytest.raises(TableError, match=rf"b\.csv: its header differs .*{message}"):
        inspect_files(paths)


def test_ragged_lines_are_kept_aside(tmp_path, duckdb_connection):
    """Lines with too many or too few fields are counted once, however often they are read."""
    files = inspect_files([text(tmp_path / "a.csv", "a,b\n1,2,3\n1,2\n1\n")])
    table = read_files(files, duckdb_connection)
    for _ in range(2):
        assert fetch(table).to_pylist() == [{"a": "1", "b": "2"}]
    found = rejected_lines(files.rejects, duckdb_connection)
    assert [(line.path, line.number) for line in found] == [
        (str(tmp_path / "a.csv"), n) for n in (2, 4)
    ]


@pytest.mark.parametrize(
    ("lines", "number", "hides_others"),
    [
        ('1,2\n"1,2\n3,4\n5,6\n', 3, True),
        ('1,2\n"1,2\n3,4\n"5",6\n', 3, True),
        ('1,2\n3,"4', 3, False),
        ('1,2\n"1"x,2\n3,4\n', 3, False),
    ],
)
def test_an_open_quote_hides_the_lines_after_it(
    tmp_path, duckdb_connection, lines, number, hides_others
):
    """A quote that is open in one line only is a fault of this line alone."""
    files = inspect_files([text(tmp_path / "a.csv", f"a,b\n{lines}")])
    fetch(read_files(files, duckdb_connection))
    (found,) = rejected_lines(files.rejects, duckdb_connection)
    assert (found.number, found.hides_others) == (number, hides_others)


def test_text_that_is_not_utf_8_is_an_error(tmp_path, duckdb_connection):
    """Wrong bytes are not dropped silently."""
    path = text(tmp_path / "a.csv", b"a,b\n1,2\n1,\xff\n")
    with pytest.raises(TableError, match=r"a\.csv"):
        rows([path], duckdb_connection)


def test_text_and_parquet_together_are_refused(tmp_path):
    """Files must be of one kind."""
    paths = [parquet(tmp_path / "a.parquet", x=[1]), text(tmp_path / "b.csv", "x\n1\n")]
    with pytest.raises(TableError, match=r"a\.parquet is Parquet and .*b\.csv is text"):
        inspect_files(paths)


def test_an_engine_that_reads_no_files_is_refused(tmp_path):
    """The message suggests a table of that engine."""

    class Other:
        name = "postgres"

    files = inspect_files([parquet(tmp_path / "a.parquet", x=[1])])
    with pytest.raises(TableError, match="not by postgres"):
        read_files(files, Other())


def test_an_unreadable_file_is_an_error(tmp_path):
    """A folder replaces the unreadable file, because root may read every file."""
    (tmp_path / "x.db").mkdir()
    with pytest.raises(TableError, match=r"x\.db: cannot be read"):
        is_database(str(tmp_path / "x.db"))
