"""Headers, delimiters and paths of text files for an engine."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import TableError
from coterie.tables.engine_files import (
    TextLayout,
    delimiter_of,
    header_difference,
    header_fields,
    header_line,
    path_for_duckdb,
    path_for_spark,
    text_in_duckdb,
)
from coterie.tables.engines import connect, fetch


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.text("abc ,;|\t'", min_size=1).map(lambda name: f'"{name}"'), min_size=2),
    st.sampled_from(",;|\t"),
)
def test_delimiters_inside_quotes_do_not_count(names, delimiter):
    """The delimiter and the names are found again."""
    header = delimiter.join(names)
    assert delimiter_of(header) == delimiter
    assert [f'"{name}"' for name in header_fields(header, delimiter)] == names


def test_a_header_of_very_many_names_has_a_delimiter():
    """With another delimiter the header would be one name, too long for the csv module."""
    names = [f"partition_{v}" for v in range(20_000)]
    assert delimiter_of(";".join(names)) == ";"
    with pytest.raises(TableError, match=r"begins 'partition_0;.* cannot be read"):
        header_fields(";".join(names), ",")


def test_only_the_first_line_is_the_header(tmp_path):
    """Line end and byte-order mark are removed; an empty first line is refused."""
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfa,b\r\n1,2\r\n")
    assert header_line(str(tmp_path / "a.csv")) == "a,b"
    (tmp_path / "b.csv").write_text("\na,b\n")
    with pytest.raises(TableError, match="begins with an empty line"):
        header_line(str(tmp_path / "b.csv"))


def test_differences_of_headers_are_described():
    """Extra names, missing names, or only the order."""
    assert header_difference(["a", "b"], ["b", "c"]) == "it has a and it lacks c"
    assert header_difference(["a", "b"], ["b", "a"]) == "the order of columns"


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
