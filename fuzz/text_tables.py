"""Tables in CSV and TSV text, plain and gzipped: reading, and writing what was read."""

from __future__ import annotations

import gzip
import io
import tempfile
from collections.abc import Iterator

from hypothesis import strategies as st

from coterie.errors import InvalidLabelsError, TableError
from coterie.labels.encode import as_label_matrix
from coterie.tables.columns import Table, feature_matrix, label_columns
from coterie.tables.reading import parse_table
from coterie.tables.writing import csv_text
from fuzz.contract import Target, own_folder

__all__ = ["make"]

_CELLS = (
    *("", "1", "0", "-1", "01", "2.5", "1e3", "a", "NA", "nan", "null", " x ", "é", "日本", "😀"),
    *('"a"', '"a,b"', '"a\nb"', '""', '"""', 'a"b', '"', "'", "=1+1", "\ufeff", "\0", "\u2028"),
    *("9" * 30, "inf", "1_000", "١", "a\tb", "-0", "+1", ".5", "5.", "true"),
)
_ENDS = ("\n", "\r\n", "\r", "\n\n", "")


def make() -> Target:
    """Return the target."""
    cells = st.sampled_from(_CELLS) | st.text(max_size=5)
    lines = st.lists(st.lists(cells, min_size=1, max_size=4), min_size=0, max_size=6)
    same = st.integers(1, 4).flatmap(
        lambda width: st.lists(
            st.lists(cells, min_size=width, max_size=width), min_size=1, max_size=6
        )
    )
    inputs = st.one_of(
        st.builds(
            _text,
            lines | same,
            st.sampled_from(",;\t|"),
            st.sampled_from(_ENDS),
            st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"]),
            st.booleans(),
        ),
        st.binary(max_size=200),
    )
    refusals = (TableError, InvalidLabelsError)
    return Target("text", check, inputs, seeds, lambda data: data, refusals, _prepare)


def check(raw: bytes) -> str:
    """Read a table. Written as CSV and read again it is the same."""
    table = _parsed(raw)
    columns = table.values(table.columns)
    assert len({len(column) for column in columns.values()}) == 1
    again = _parsed(csv_text(columns)).values(columns)
    assert all(again[name].tolist() == columns[name].tolist() for name in columns)
    first, last = table.place(0), table.place(table.n_rows - 1)
    assert first.startswith("line ") and last.startswith("line ")
    return f"read as {_what_it_holds(table)}"


def seeds() -> Iterator[bytes]:
    """Yield small tables of every kind."""
    yield b"id,run0,run1\n007,1,a\n008,2,b\n009,,a\n"
    yield b'id\tx\ty\n"a\tb"\t1.5\t2\n\nc\t-1e3\t.5\n'
    yield 'name;größe\r\n"x;y";1\r\n"line\nbreak";NA\r\n'.encode("utf-8-sig")
    yield b"a|b\n1|2\n"
    yield b"only\n1\n\n2\n"
    yield gzip.compress(b"p0,p1\n0,1\n1,1\n", mtime=0)


def _prepare() -> None:
    """Let temporary copies of streams be in the folder of this process."""
    tempfile.tempdir = str(own_folder())


def _parsed(raw: bytes) -> Table:
    return parse_table(io.BytesIO(raw), "standard input")


def _what_it_holds(table: Table) -> str:
    """Use a table as labels, else as features, else as nothing in particular."""
    try:
        _, names, labels = label_columns(table)
        as_label_matrix(dict(zip(names, labels, strict=True)), allow_unlabelled_rows=True)
    except (TableError, InvalidLabelsError):
        try:
            feature_matrix(table)
        except TableError:
            return "text"
        return "features"
    return "labels"


def _text(rows: list[list[str]], delimiter: str, end: str, coding: str, zipped: bool) -> bytes:
    text = end.join(delimiter.join(row) for row in rows) + end
    raw = text.encode(coding, errors="replace")
    return gzip.compress(raw, mtime=0) if zipped else raw
