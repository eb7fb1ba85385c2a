"""Logs are found in files, databases and queries, with the texts of their advertisers."""

from __future__ import annotations

import datetime
import gzip
from pathlib import Path

import duckdb
import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.ads.histograms.counting import read_histograms
from coterie.ads.logs.bid_logs import open_logs, read_descriptions
from coterie.ads.logs.checks.log_checks import check_logs
from coterie.ads.logs.raw_logs import (
    files_not_read,
    find_files,
    read_files,
    read_texts,
    texts_near,
)
from coterie.errors import CoterieWarning, InvalidParameterError, TableError
from coterie.tables.engines import connect, fetch
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
    found = fetch(read_files(paths, connection).table).to_pylist()
    return sorted(found, key=lambda row: str(sorted(row.items(), key=str)))


def test_a_folder_means_the_logs_in_it_and_below(tmp_path):
    """Tables next to the logs and hidden, unfinished or other files are skipped."""
    logs = ("bids/b.parquet", "bids/deep/a.parquet", "day=2026-03-02/part-0.PARQUET")
    others = (
        "advertisers.parquet",
        "bids/truth.parquet",
        "bids/true_targets.parquet",
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
    """Hidden files and tables next to the logs are not among them."""
    touch(tmp_path, "a.csv", "b.csv.zip", "c/d.txt", ".hidden.txt", "advertisers.csv", "_SUCCESS")
    touch(tmp_path, *(f"d.csv{ending}" for ending in (".tmp", ".part", ".unfinished")))
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


def test_an_incomplete_parquet_file_is_named(tmp_path, duckdb_connection):
    """The message names the file."""
    whole = parquet(tmp_path / "a.parquet", x=list(range(1000)))
    half = text(tmp_path / "b.parquet", Path(whole).read_bytes()[: Path(whole).stat().st_size // 2])
    with pytest.raises(TableError, match=r"b\.parquet: .*damaged"):
        read_files([whole, half], duckdb_connection)
    with pytest.raises(TableError, match=r"c\.parquet: .*damaged"):
        read_files([text(tmp_path / "c.parquet", "")], duckdb_connection)


def test_parquet_columns_are_those_of_all_files(tmp_path, duckdb_connection):
    """A column that a file lacks is null there, and ``lacking`` names the file."""
    a = parquet(tmp_path / "a.parquet", x=[1])
    b = parquet(tmp_path / "b.parquet", y=[5], x=[2])
    assert read_files([a, b], duckdb_connection).lacking == {"y": a}
    assert rows([a, b], duckdb_connection) == [{"x": 1, "y": None}, {"x": 2, "y": 5}]


def test_parquet_types_are_those_that_hold_the_values_of_all_files(tmp_path, duckdb_connection):
    """A number is not rounded, and a column without values is one of nulls."""
    a = parquet(tmp_path / "a.parquet", x=[1], y=[None])
    b = parquet(tmp_path / "b.parquet", x=[2.5], y=["z"])
    for paths in ([a, b], [b, a]):
        assert rows(paths, duckdb_connection) == [{"x": 1.0, "y": None}, {"x": 2.5, "y": "z"}]


def test_spark_refuses_parquet_files_of_several_types(tmp_path):
    """The message names the file and the column."""

    class Spark:
        name = "pyspark"

    paths = [parquet(tmp_path / f"{x}.parquet", x=[x]) for x in (1, 2.5)]
    with pytest.raises(TableError, match=r"2\.5\.parquet: column x has another type"):
        read_files(paths, Spark())


def test_folders_that_name_a_column_give_it(tmp_path, duckdb_connection):
    """Partition folders such as Spark's give a column."""
    paths = [parquet(tmp_path / f"day=2026-03-0{d}" / "p.parquet", x=[d]) for d in (1, 2)]
    found = fetch(read_files(paths, duckdb_connection).table.order_by("x")).to_pydict()
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
def test_text_without_a_usable_header_is_refused(tmp_path, duckdb_connection, content, message):
    """The message names the file."""
    with pytest.raises(TableError, match=rf"a\.csv: .*{message}"):
        read_files([text(tmp_path / "a.csv", content)], duckdb_connection)


@pytest.mark.parametrize(
    ("other", "message"),
    [("b,a\n", "the order of columns"), ("a,c\n", "it has c and it lacks b")],
)
def test_text_files_must_have_one_header(tmp_path, duckdb_connection, other, message):
    """The message says how they differ."""
    paths = [text(tmp_path / "a.csv", "a,b\n"), text(tmp_path / "b.csv", other)]
    with pytest.raises(TableError, match=rf"b\.csv: its header differs .*{message}"):
        read_files(paths, duckdb_connection)


def test_ragged_lines_are_kept_aside(tmp_path, duckdb_connection):
    """Lines with too many or too few fields are counted once, however often they are read."""
    files = read_files([text(tmp_path / "a.csv", "a,b\n1,2,3\n1,2\n1\n")], duckdb_connection)
    for _ in range(2):
        assert fetch(files.table).to_pylist() == [{"a": "1", "b": "2"}]
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
    files = read_files([text(tmp_path / "a.csv", f"a,b\n{lines}")], duckdb_connection)
    fetch(files.table)
    (found,) = rejected_lines(files.rejects, duckdb_connection)
    assert (found.number, found.hides_others) == (number, hides_others)


def test_text_that_is_not_utf_8_is_an_error(tmp_path, duckdb_connection):
    """Wrong bytes are not dropped silently."""
    path = text(tmp_path / "a.csv", b"a,b\n1,2\n1,\xff\n")
    with pytest.raises(TableError, match=r"a\.csv"):
        rows([path], duckdb_connection)


def test_text_and_parquet_together_are_refused(tmp_path, duckdb_connection):
    """Files must be of one kind."""
    paths = [parquet(tmp_path / "a.parquet", x=[1]), text(tmp_path / "b.csv", "x\n1\n")]
    with pytest.raises(TableError, match=r"a\.parquet is Parquet and .*b\.csv is text"):
        read_files(paths, duckdb_connection)


def test_an_engine_that_reads_no_files_is_refused(tmp_path):
    """The message suggests a table of that engine."""

    class Other:
        name = "postgres"

    with pytest.raises(TableError, match="not by postgres"):
        read_files([parquet(tmp_path / "a.parquet", x=[1])], Other())


HEADER = "advertiser_id,day,bid_micros,won,price_micros"


@pytest.fixture
def log(tmp_path):
    """A canonical log of two bids, as CSV, and the texts next to it."""
    (tmp_path / "advertisers.csv").write_text("advertiser_id,description\na,shoes\n")
    rows = "a,2026-03-02,5,1,4\nb,2026-03-02,6,0,\n"
    (tmp_path / "log.csv").write_text(f"{HEADER}\n{rows}")
    return tmp_path / "log.csv"


def bids(logs) -> list[int]:
    """The bids of a log, sorted."""
    return sorted(fetch(logs.table)["bid_micros"].to_pylist())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM log",
        "FROM log",
        "  SELECT *\nFROM log -- all of it",
        "WITH log AS (SELECT * FROM log) SELECT * FROM log;",
        "SET VARIABLE least = 0; FROM log WHERE bid_micros::BIGINT > getvariable('least');",
    ],
)
def test_the_log_is_a_table_of_the_query(log, sql):
    """The query is run as it is written; texts are found next to the log."""
    logs = open_logs(log, sql=sql)
    assert bids(logs) == [5, 6]
    assert logs.source == str(log) and logs.files == (str(log),)
    assert read_descriptions(logs) == {"a": "shoes"}


def test_columns_of_late_lines_are_found_by_their_names(tmp_path):
    """A role or a dimension may be a key that the first lines of JSON do not have."""
    row = '{"advertiser_id": "a", "day": "2026-03-02", "bid_micros": 5, "won": 0, "price_micros": 0'
    late = f'{row}, "low": 3, "os": "tv"}}\n'
    (tmp_path / "log.jsonl").write_text(f"{row}}}\n" * 1100 + late)
    logs = open_logs(
        tmp_path / "log.jsonl", columns={"floor": "low"}, amounts="micros", dimensions=["os"]
    )
    last = fetch(logs.table.filter(logs.table.dimension_os == "tv")).to_pylist()
    assert [row["floor_micros"] for row in last] == [3]


def test_files_that_are_not_read_are_noted(log, tmp_path):
    """The check says which files of the folder have another ending."""
    (tmp_path / "more.txt").touch()
    (note,) = check_logs(open_logs(tmp_path)).overview.notes
    assert note == "1 file was not read, because of the ending: more.txt"


def test_every_log_has_its_own_rows(log, tmp_path):
    """Two logs of one connection are not mixed up, nor is a table named log used."""
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"bid_micros": [7], "won": [True], "price_micros": [1]}), other)
    connection = connect()
    connection.con.execute("CREATE TABLE log AS SELECT 9 AS bid_micros")
    keys = "'x' AS advertiser_id, DATE '2026-03-02' AS day"
    sql = f"SELECT {keys}, bid_micros, won, price_micros FROM log"
    logs = [open_logs(source, connection, sql=sql) for source in (log, other)]
    assert [bids(one) for one in logs] == [[5, 6], [7]]


def test_a_query_may_name_all_that_it_reads(log, tmp_path, monkeypatch):
    """Files, tables of the connection and attached databases need no other source."""
    monkeypatch.chdir(tmp_path)
    assert bids(open_logs(sql="FROM 'log.csv'")) == [5, 6]
    with duckdb.connect("x.db") as database:
        database.execute("CREATE TABLE bids AS FROM 'log.csv'")
        database.execute("CREATE TABLE advertisers AS FROM 'advertisers.csv'")
    assert bids(open_logs(sql="ATTACH 'x.db' AS crm (READ_ONLY); FROM crm.bids")) == [5, 6]
    logs = open_logs(connection=connect("duckdb://x.db"), sql="FROM bids WHERE won")
    assert (bids(logs), logs.source) == ([5], "the query")
    assert read_descriptions(logs) == {"a": "shoes"}


def test_tables_of_a_source_are_copied(tmp_path):
    """A query names the tables of an SQLite file."""
    import sqlite3

    with sqlite3.connect(tmp_path / "x.sqlite") as database:
        database.execute("CREATE TABLE bids (a TEXT, day TEXT, bid INTEGER, price INTEGER)")
        database.execute("INSERT INTO bids VALUES ('a', '2026-03-02', 5, 4)")
    database.close()
    sql = "SELECT a AS advertiser_id, day, bid AS bid_micros, true AS won, price AS price_micros "
    logs = open_logs(connection=connect(f"sqlite://{tmp_path}/x.sqlite"), sql=sql + "FROM bids")
    assert bids(logs) == [5]


def test_the_result_is_read_and_checked_like_every_log(log):
    """Options, dimensions, faults and lines that are no rows are those of the result."""
    log.write_text(log.read_text() + "c,yesterday,7,0,\n1,2\n")
    sql = "SELECT *, 'x' AS device, '10.0.0.1' AS ip FROM log"
    logs = open_logs(log, sql=sql, dimensions=["device"], currency="EUR")
    assert (logs.currency, logs.dimensions) == ("EUR", ("device",))
    found = {fault.code: fault for fault in check_logs(logs).faults}
    codes = ("unreadable", "line_ragged", "person_columns")
    assert [found[code].count for code in codes] == [1, 1, 1]
    assert found["line_ragged"].share == 1 / 4
    with pytest.warns(CoterieWarning, match="left out: 1"):
        assert read_histograms(logs, [10]).bids.count.sum() == 2


def test_a_result_may_be_histograms(tmp_path):
    """Its kind follows from its columns."""
    cells = "'a' AS advertiser_id, '2026-03-02' AS day, 10 AS bin_micros, 3 AS bids, 1 AS wins"
    logs = open_logs(sql=f"SELECT {cells}, 8 AS cost_micros")
    assert logs.kind == "histograms"
    assert fetch(logs.table)["day"].to_pylist() == [datetime.date(2026, 3, 2)]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT nothing FROM log", "the query of the log fails: .*nothing.* not found"),
        ("SELECTION 1", "the query of the log fails: .*SELECTION"),
        ("-- nothing", "the query of the log is empty"),
        ("DROP TABLE x", "the query of the log fails"),
        ("SELECT 1 AS x", "no column has the role advertiser"),
    ],
)
def test_a_query_that_fails_is_an_error(log, sql, message):
    """The message is the engine's, in one line."""
    with pytest.raises(TableError, match=message):
        open_logs(log, sql=sql)


def test_a_value_that_the_query_cannot_convert_is_an_error(log):
    """It is not dropped."""
    logs = open_logs(log, sql="SELECT * REPLACE (strptime(day, '%d.%m.%Y') AS day) FROM log")
    with pytest.raises(TableError, match='Could not parse string "2026-03-02"'):
        check_logs(logs)


def test_a_log_needs_a_source_or_a_query():
    """A table of Ibis has its own queries."""
    with pytest.raises(InvalidParameterError, match=r"name the files .* or give sql"):
        open_logs()
    with pytest.raises(InvalidParameterError, match="has its own method sql"):
        open_logs(ibis.memtable(pa.table({"x": [1]})), sql="FROM log")


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "sql"])
def test_logs_of_too_many_columns_are_refused(tmp_path, ending):
    """The limit is stated before the engine reads them."""
    path = tmp_path / f"wide.{ending}"
    names = [f"x{i}" for i in range(2_001)]
    if ending == "csv":
        path.write_text(",".join(names) + "\n")
    elif ending == "parquet":
        pq.write_table(pa.table({name: [1] for name in names}), path)
    elif ending == "jsonl":
        path.write_text("{" + ",".join(f'"{name}": 1' for name in names) + "}\n")
    query = f"SELECT {', '.join(f'1 AS {name}' for name in names)}" if ending == "sql" else ""
    with pytest.raises(TableError, match="it has 2,001 columns, and at most 2,000 are read"):
        open_logs(None if query else path, sql=query)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/log.csv", "https://127.0.0.1:9/log.parquet", "s3://b/log.jsonl"]
)
def test_nothing_is_downloaded_for_a_url(url, tmp_path, monkeypatch):
    """The error says how to install what is missing."""
    monkeypatch.setenv("HOME", str(tmp_path))  # without extensions
    with pytest.raises(TableError, match=r"needs DuckDB's extension httpfs, and nothing is"):
        open_logs(url)
    with pytest.raises(TableError, match=r"needs DuckDB's extension httpfs, and nothing is"):
        open_logs(sql=f"FROM '{url}'")


def test_json_that_is_nested_too_deep_is_an_error(tmp_path):
    """It is no traceback, whether the rest of the log can be read or not."""
    deep = '{"a": ' + "[" * 200_000 + "]" * 200_000 + "}\n"
    (tmp_path / "deep.jsonl").write_text(deep)
    with pytest.raises(TableError, match=r"deep\.jsonl"):
        open_logs(tmp_path / "deep.jsonl")
    row = '{"advertiser_id": "a", "day": "2026-03-02", "bid_micros": 5, "won": 0}\n'
    (tmp_path / "some.jsonl").write_text(row.replace("}", ', "price_micros": 0}') + deep)
    try:
        check_logs(open_logs(tmp_path / "some.jsonl"))
    except TableError as error:
        assert "some.jsonl" in str(error)


def written(path: Path, **columns: list) -> str:
    """A Parquet file of texts."""
    pq.write_table(pa.table(columns), path)
    return str(path)


def test_texts_of_one_advertiser_are_joined(tmp_path):
    """Distinct texts are joined in the order of the table; without any, the text is empty."""
    path = written(
        tmp_path / "t.parquet",
        advertiser_id=["a", "b", "a", "a", "c", None, ""],
        description=["red shoes", None, "boots", "red shoes", "", "lost", "lost"],
    )
    assert read_texts(path) == {"a": "red shoes boots", "b": "", "c": ""}


@pytest.mark.parametrize(
    "ids", [[7], [" 7 "], pa.array(["7"]).dictionary_encode(), pa.array(["7"], "large_string")]
)
def test_names_may_be_numbers_or_any_text(tmp_path, ids):
    """Ids become text."""
    path = written(tmp_path / "t.parquet", advertiser_id=ids, description=["x"])
    assert read_texts(path) == {"7": "x"}


def test_bytes_that_are_not_utf_8_are_replaced(tmp_path):
    """In Parquet texts, Parquet bytes and CSV; emoji remain."""
    spoilt = pa.array([b"caf\xe9 \xf0\x9f\xa6\x8a"])
    claimed = pa.StringArray.from_buffers(1, *spoilt.buffers()[1:])
    for column in (spoilt, claimed):
        path = written(tmp_path / "t.parquet", advertiser_id=["a"], description=column)
        assert read_texts(path) == {"a": "caf\ufffd 🦊"}
    (tmp_path / "t.csv").write_bytes(b"advertiser_id,description\na,caf\xe9 \xf0\x9f\xa6\x8a\n")
    assert read_texts(str(tmp_path / "t.csv")) == {"a": "caf\ufffd 🦊"}


def test_delimited_texts_may_hold_delimiters_and_lines(tmp_path):
    """Delimiters and line breaks in quotes are text; a short row has no text."""
    (tmp_path / "t.csv").write_text('description;advertiser_id\n"a; ""b""\nc";x\n;y\nz\n')
    assert read_texts(str(tmp_path / "t.csv")) == {"x": 'a; "b"\nc', "y": ""}


def test_a_table_of_an_engine_holds_texts_too():
    """Only the two required columns are fetched."""
    table = pa.table({"description": ["x", None], "advertiser_id": [1, 2], "email": ["e", "f"]})
    assert read_texts(ibis.memtable(table)) == {"1": "x", "2": ""}


def test_a_table_without_the_columns_is_refused(tmp_path):
    """The message lists the columns of the table."""
    path = written(tmp_path / "t.parquet", advertiser=["a"])
    with pytest.raises(
        TableError, match=r"advertiser_id and description missing; .*this one has adv"
    ):
        read_texts(path)
    (tmp_path / "t.csv").write_text("")
    with pytest.raises(TableError, match=r"t\.csv: .* this one has no columns"):
        read_texts(str(tmp_path / "t.csv"))
    with pytest.raises(TableError, match="the table of advertisers: column description missing"):
        read_texts(ibis.memtable(pa.table({"advertiser_id": ["a"]})))


def test_a_damaged_table_is_refused(tmp_path):
    """An incomplete Parquet file and a CSV file with a huge field are refused."""
    path = Path(written(tmp_path / "t.parquet", advertiser_id=["a"], description=["x"]))
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(TableError, match=r"t\.parquet: .*damaged"):
        read_texts(str(path))
    (tmp_path / "t.csv").write_text("advertiser_id,description\na," + "x" * 200_000)
    with pytest.raises(TableError, match=r"t\.csv, line 2: field larger"):
        read_texts(str(tmp_path / "t.csv"))


def test_there_may_be_no_texts(tmp_path):
    """A folder without texts and a remote folder give None."""
    assert texts_near(tmp_path) is None
    assert texts_near(Path("s3://bucket/bids")) is None
