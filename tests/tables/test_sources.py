"""Sources in an engine: text, JSON lines, Parquet, and names of tables."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.errors import TableError
from coterie.tables import consensus_table
from coterie.tables.engines import LocalTables, connect, fetch
from coterie.tables.reading import guess_delimiter
from coterie.tables.sources import (
    TextLayout,
    header_fields,
    header_line,
    open_source,
    path_for_duckdb,
    path_for_spark,
    text_in_duckdb,
)


def test_a_header_of_very_many_names_has_a_delimiter():
    """With another delimiter the header would be one name, too long for the csv module."""
    names = [f"partition_{v}" for v in range(20_000)]
    assert guess_delimiter(";".join(names)) == ";"
    with pytest.raises(TableError, match=r"begins 'partition_0;.* cannot be read"):
        header_fields(";".join(names), ",")


def test_only_the_first_line_is_the_header(tmp_path):
    """Line end and byte-order mark are removed; an empty first line is refused."""
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfa,b\r\n1,2\r\n")
    assert header_line(str(tmp_path / "a.csv")) == "a,b"
    (tmp_path / "b.csv").write_text("\na,b\n")
    with pytest.raises(TableError, match="begins with an empty line"):
        header_line(str(tmp_path / "b.csv"))


def test_paths_are_no_patterns():
    """Local paths are escaped; remote ones are unchanged."""
    assert path_for_duckdb("a[1]*.csv") == "a[[]1][*].csv"
    assert path_for_spark("/a[1].csv") == "file:///a\\[1\\].csv"
    assert path_for_duckdb("s3://b/*.csv") == path_for_spark("s3://b/*.csv") == "s3://b/*.csv"


@pytest.mark.parametrize("columns", [(), ("p", "q")])
def test_no_line_is_a_comment(columns, tmp_path):
    """A line that begins with # is a row, with given columns and without."""
    (tmp_path / "a.csv").write_text("p,q\n" + "#1,x\n2,y\n" * 50)
    connection = connect(threads=1)
    table = text_in_duckdb([str(tmp_path / "a.csv")], TextLayout(",", columns), connection)
    assert sorted(fetch(table)["p"].to_pylist()) == ["#1"] * 50 + ["2"] * 50


def rows_of(*paths) -> list[dict]:
    """Return the rows that DuckDB reads from files, in the order of the ids."""
    with LocalTables(connect(threads=1)) as local:
        found = open_source([str(path) for path in paths], local)
        return fetch(found.table).sort_by("id").to_pylist()


def text(path, content: str):
    path.write_text(content)
    return path


def test_names_that_are_patterns_name_one_file(tmp_path):
    path = text(tmp_path / "a[1].csv", "id;p\n1;a\n2;b\n")
    text(tmp_path / "a1.csv", "id;p\n9;z\n")
    assert rows_of(path) == [{"id": "1", "p": "a"}, {"id": "2", "p": "b"}]


def test_headers_that_are_not_one_are_refused(tmp_path):
    """Names that an engine cannot tell apart, and a title above the header."""
    for names in ("p,p", "p,P"):
        path = text(tmp_path / "a.csv", f"id,{names}\n1,2,3\n")
        with pytest.raises(TableError, match=r"a\.csv: the header names 'p', '[pP]'"):
            rows_of(path)
    path = text(tmp_path / "a.csv", "My labels\nid,p\n1,2\n3,4\n")
    with pytest.raises(TableError, match="Expected Number of Columns: 1 Found: 2"):
        consensus_table(path, n_clusters=1)


def test_a_column_without_a_name_gets_one(tmp_path):
    """An empty name becomes column0; keywords of SQL are valid names."""
    path = text(tmp_path / "a.csv", ",id,select,a b\n0,1,2,3\n")
    assert rows_of(path) == [{"column0": "0", "id": "1", "select": "2", "a b": "3"}]


def test_columns_of_several_files_are_matched_by_name(tmp_path):
    """Order and delimiter may differ; other columns, or a remote file, are refused."""
    one = text(tmp_path / "a.csv", "id,p,q\n1,a,x\n")
    two = text(tmp_path / "b.csv", "q;p;id\ny;b;2\n")
    expected = [{"id": "1", "p": "a", "q": "x"}, {"id": "2", "p": "b", "q": "y"}]
    assert rows_of(one, two) == expected
    three = text(tmp_path / "c.tsv", "id\tp\n3\tc\n")
    with pytest.raises(TableError, match=r"c\.tsv: .* differs from .*a\.csv: it lacks q"):
        rows_of(one, two, three)
    with pytest.raises(TableError, match="name files of one place"):
        rows_of(one, "s3://bucket/b.csv")


def test_no_view_stays_in_a_connection_that_is_there(tmp_path):
    """Temporary views of text and Parquet files are dropped."""
    connection = connect(threads=1)
    path = text(tmp_path / "a.csv", "id,p\n1,a\n2,b\n")
    out = tmp_path / "o.parquet"
    consensus_table(path, n_clusters=2, ids="id", engine=connection, out=out)
    consensus_table(out, ["label"], n_clusters=2, ids="id", engine=connection)
    asked = "SELECT count(*) FROM duckdb_views() WHERE NOT internal"
    assert connection.con.sql(asked).fetchall() == [(0,)]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"id": [2.5], "p": [0]}, "column 'id' is DOUBLE, and BIGINT in"),
        ({"id": [2], "p": [0.4]}, "column 'p' is DOUBLE, and BIGINT in"),
        ({"id": [2], "p": ["01"]}, "column 'p' is VARCHAR, and BIGINT in"),
        ({"id": [2], "p": [True]}, "column 'p' is BOOLEAN, and BIGINT in"),
        ({"id": [2], "p": [0], "q": [1]}, "it has q"),
        ({"id": [2]}, "it lacks p"),
    ],
)
def test_parquet_files_of_one_table_are_alike(tmp_path, second, message):
    """Different types, missing and extra columns are refused; an engine would cast or fill them."""
    pq.write_table(pa.table({"id": [1], "p": [0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table(second), tmp_path / "b.parquet")
    with pytest.raises(TableError, match=rf"b\.parquet: .*{message}"):
        consensus_table(tmp_path, ids="id", n_clusters=1)


def test_a_glob_leaves_out_what_a_folder_does(tmp_path):
    """Names that begin with a dot or an underscore are skipped; names of folders are no columns."""
    (tmp_path / "day=1").mkdir()
    for name in ("a", "_b", ".c"):
        pq.write_table(pa.table({"id": [1], "p": [0]}), tmp_path / "day=1" / f"{name}.parquet")
    for source in (f"{tmp_path}/*/*.parquet", tmp_path):
        found = consensus_table(source, ids="id", n_clusters=1)
        assert (found.n_rows, found.partitions) == (1, ("p",))
    assert consensus_table([f"{tmp_path}/*/*.parquet", tmp_path], ids="id").n_rows == 2
