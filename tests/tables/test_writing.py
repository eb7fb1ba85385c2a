"""Tables are written completely or not at all, and read back."""

from __future__ import annotations

import csv
import gzip
import io
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie import planted_partitions
from coterie.errors import InvalidParameterError, OutputError, TableError
from coterie.tables import consensus
from coterie.tables.columns import label_columns
from coterie.tables.consensus import consensus_table
from coterie.tables.reading import read_table
from coterie.tables.writing import (
    TableOutput,
    check_table_output,
    csv_text,
    plan_output,
    write_table,
)
from engine_tables import engine_with_table
from table_files import columns_of

FEW = settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)


@FEW
@given(data=st.data(), suffix=st.sampled_from([".csv", ".TSV", ".csv.gz", ".parquet", ".npy"]))
def test_tables_are_read_as_written(data, suffix, tmp_path):
    """Names, order and values are the same in every format."""
    names = data.draw(st.lists(TEXT.filter(bool), min_size=2, max_size=4, unique=True))
    n = data.draw(st.integers(1, 5))
    columns = {
        name: data.draw(st.lists(st.one_of(st.none(), TEXT.filter(bool)), min_size=n, max_size=n))
        for name in names[1:]
    }
    columns = {
        names[0]: np.array(data.draw(st.lists(st.integers(-9, 9), min_size=n, max_size=n)))
    } | {name: np.array(values, object) for name, values in columns.items()}
    if suffix == ".parquet" and len({name.lower() for name in names}) < len(names):
        return  # refused
    path = tmp_path / f"t{suffix}"
    write_table(path, columns)
    read = read_table(path)
    assert list(read.columns) == names
    assert read.n_rows == n
    values = read.values(names)
    assert [int(value) for value in values[names[0]]] == list(columns[names[0]])
    for name in names[1:]:
        assert values[name].tolist() == columns[name].tolist()


def test_ids_are_unchanged(tmp_path):
    """An id of digits keeps its zeros, and missing ids are missing."""
    (tmp_path / "t.csv").write_text("id,run\n007,1\n7,2\n")
    ids, _, _ = label_columns(read_table(tmp_path / "t.csv"), ids=["id"])
    write_table(tmp_path / "out.csv", ids | {"cluster": np.array([0, 1])})
    assert (tmp_path / "out.csv").read_text() == "id,cluster\n007,0\n7,1\n"
    table = pa.table({"id": pa.array([7, None], pa.int16()), "run": [1, 2]})
    pq.write_table(table, tmp_path / "t.parquet")
    ids, _, _ = label_columns(read_table(tmp_path / "t.parquet"), ids=["id"])
    write_table(tmp_path / "out.parquet", ids)
    assert pq.read_table(tmp_path / "out.parquet")["id"].equals(
        pa.chunked_array([[7, None]], "int16")
    )


def test_nothing_is_left_of_a_failed_write(tmp_path):
    """An earlier file is unchanged, and no temporary file remains."""
    path = tmp_path / "t.npy"
    write_table(path, {"x": [1]})
    before = path.read_bytes()
    with pytest.raises(OutputError, match="cannot hold"):
        write_table(path, {"x": [1, None]})
    with pytest.raises(OutputError, match=r"cannot write .*t\.csv"):
        write_table(tmp_path / "t.csv", {"x": [[1, 2]]})
    with pytest.raises(OutputError, match="surrogates"):
        write_table(tmp_path / "t.csv", {"x": ["\ud800"]})
    with pytest.raises(InvalidParameterError, match="of one length; got 'x': 1, 'y': 2"):
        write_table(tmp_path / "t.csv", {"x": [1], "y": [1, 2]})
    with pytest.raises(InvalidParameterError, match="got none"):
        write_table(tmp_path / "t.csv", {})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_unknown_suffix_is_refused_with_those_known(tmp_path):
    """The message lists the possible suffixes; outputs are checked before the work."""
    path = tmp_path / "t.xlsx"
    with pytest.raises(OutputError, match=r"t\.xlsx.*\.csv, \.csv\.gz, .*\.parquet, \.npy"):
        write_table(path, {"x": [1]})
    with pytest.raises(OutputError, match=r"must end in one of"):
        check_table_output(path)
    path.touch()
    with pytest.raises(TableError, match=r"must end in one of"):
        read_table(path)
    check_table_output(tmp_path / "t.csv")
    with pytest.raises(OutputError, match="does not exist"):
        check_table_output(tmp_path / "nowhere" / "t.csv")
    with pytest.raises(OutputError, match="it is a folder"):
        check_table_output(tmp_path)


def test_parquet_keeps_types(tmp_path):
    """Numbers keep their width, missing values are missing, and NaN is not."""
    path = tmp_path / "t.parquet"
    columns = {
        "text": ["a", "b", None],
        "small": np.ma.masked_array(np.array([1, 2, 0], np.int8), [False, False, True]),
        "label": np.array([0, 1, -1], np.int32),
        "share": np.array([0.5, np.nan, np.inf]),
        "truth": np.array([True, False, True]),
        'a "name"': np.array([1, 2, 3], np.uint64),
    }
    write_table(path, columns)
    schema = pq.read_schema(path)
    assert [str(kind) for kind in schema.types] == [
        *("string", "int8", "int32", "double", "bool", "uint64")
    ]
    assert pq.read_table(path)["share"].null_count == 0
    read = columns_of(path)
    assert list(read) == list(columns)
    assert (read["text"], read["small"]) == (["a", "b", None], [1, 2, None])
    np.testing.assert_array_equal(read["share"], columns["share"])


@FEW
@given(
    names=st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
        min_size=1,
        max_size=4,
        unique=True,
    ),
    data=st.data(),
)
def test_npy_reads_back(names, data, tmp_path):
    """Integers, floats, booleans and text are read as written."""
    n = data.draw(st.integers(1, 5))
    text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
    kinds = {
        np.int16: st.integers(-(2**15), 2**15 - 1),
        np.float64: st.floats(allow_nan=False),
        np.bool_: st.booleans(),
        object: st.one_of(st.none(), text.filter(bool)),
    }
    columns = {}
    for name in names:
        kind = data.draw(st.sampled_from(list(kinds)))
        values = data.draw(st.lists(kinds[kind], min_size=n, max_size=n))
        columns[name] = np.array(values, kind)
    path = tmp_path / "t.npy"
    write_table(path, columns)
    assert np.load(path, allow_pickle=False).dtype.names == tuple(names)
    read = read_table(path).values(names)
    for name in names:
        assert read[name].dtype == columns[name].dtype
        assert read[name].tolist() == columns[name].tolist()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, None], r"column 'x' \(int64\) has values"),
        ([1, "a"], "column 'x' has cells that are no numbers and no texts"),
        (np.ma.masked_array([1, 2], [False, True]), r"column 'x' \(int64\) has values"),
        (["a\0"], r"column 'x' \(object\) has values"),
        ([[1, 2]], "column 'x' has cells that are no numbers and no texts"),
    ],
)
def test_values_that_npy_cannot_hold_are_refused(values, message, tmp_path):
    """Missing integers, text that ends in NUL, nested values and empty names are refused."""
    with pytest.raises(OutputError, match=message):
        write_table(tmp_path / "t.npy", {"x": values})
    with pytest.raises(OutputError, match="need names"):
        write_table(tmp_path / "t.npy", {"": [1]})


def test_only_what_must_be_quoted_is(tmp_path):
    """Plain values are not quoted, missing ones are blank, numbers have full precision."""
    path = tmp_path / "t.csv"
    columns = {
        "id": np.array(["007", 'say "hi"', None, ""], dtype=object),
        "share": np.ma.masked_array([0.1, 1 / 3, np.nan, 0], [False, False, False, True]),
    }
    write_table(path, columns)
    written = path.read_text().splitlines()
    assert written[:2] == ["id,share", "007,0.1"]
    assert written[2] == f'"say ""hi""",{1 / 3!r}'
    assert written[3:] == [",nan", '"",']


def test_gzip_is_reproducible(tmp_path):
    """The compressed bytes do not depend on time or name."""
    column = {"a": np.array([1, 2])}
    for name in ("x.csv.gz", "y.csv.gz"):
        write_table(tmp_path / name, column)
    assert (tmp_path / "x.csv.gz").read_bytes() == (tmp_path / "y.csv.gz").read_bytes()


@FEW
@given(
    cells=st.lists(st.one_of(st.none(), TEXT.filter(bool)), min_size=1, max_size=5),
    suffix=st.sampled_from([".csv", ".tsv", ".csv.gz", ".tsv.gz"]),
)
def test_written_text_is_what_the_csv_module_reads(cells, suffix, tmp_path):
    """Delimiters, quotes and line ends in cells are quoted."""
    path = tmp_path / f"t{suffix}"
    write_table(path, {"a;b": np.array(cells, object), "n": np.arange(len(cells))})
    raw = gzip.decompress(path.read_bytes()) if suffix.endswith(".gz") else path.read_bytes()
    delimiter = "\t" if "tsv" in suffix else ","
    rows = list(csv.reader(io.StringIO(raw.decode(), newline=""), delimiter=delimiter))
    assert rows == [["a;b", "n"], *([cell or "", str(i)] for i, cell in enumerate(cells))]


def test_text_in_memory_is_the_content_of_a_csv_file():
    """A missing cell of the only column is quoted, so that its line is not blank."""
    assert csv_text({"a": pa.array(["x", None])}) == b'a\nx\n""\n'
    with pytest.raises(OutputError, match="cannot write the table"):
        csv_text({"a": [[1]]})


def test_names_that_parquet_cannot_hold_are_refused(tmp_path):
    """They are empty, or differ by case only."""
    for columns in ({"a": [1], "A": [2]}, {"": [1]}):
        with pytest.raises(OutputError, match=r"columns of \.parquet need names"):
            write_table(tmp_path / "t.parquet", columns)


# ---- The output of an engine

#: With a seed, because labels of several runs are compared.
consensus_table = partial(consensus_table, random_state=0)

STREAMED = {"max_tuples": 40, "sample_size": 100}
GROUPED = {"max_tuples": 39, "sample_size": 100}


@pytest.fixture
def source(tmp_path):
    P, _ = planted_partitions([300, 200, 100], 8, 2, 0.15, random_state=0)
    (tmp_path / "in").mkdir()
    columns = {"id": list(range(600))} | {f"p{v}": P[:, v] for v in range(8)}
    pq.write_table(pa.table(columns), tmp_path / "in" / "labels.parquet")
    return tmp_path / "in" / "labels.parquet"


@pytest.mark.parametrize(("how", "name"), [({}, "out.d/"), (STREAMED, "out")])
def test_a_folder_holds_what_the_file_holds(how, name, source, tmp_path):
    """No suffix or a final slash means a folder; an empty one and an old file are replaced."""
    (tmp_path / name).mkdir()
    (tmp_path / "out.parquet").write_text("old")
    settings = {"n_clusters": 3, "ids": "id", **how}
    in_file = consensus_table(source, out=tmp_path / "out.parquet", **settings)
    in_folder = consensus_table(source, out=f"{tmp_path}/{name}", **settings)
    rows = pq.read_table(in_folder.out).sort_by("id")
    assert rows.equals(pq.read_table(in_file.out).sort_by("id"))
    assert in_folder.bytes_written == sum(part.stat().st_size for part in in_folder.out.iterdir())
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("name", "engine", "message"),
    [
        ("full", "duckdb", "the folder is not empty"),
        ("a file", "duckdb", "it is a file;"),
        ("old.parquet", "pyspark", r"Spark writes folders"),
        ("out.csv", "duckdb", "engines write Parquet"),
        ("absent/out.parquet", "duckdb", "does not exist"),
        ("absent/out", "duckdb", "does not exist"),
        ("s3://bucket/out", "duckdb", "must be in a local file system"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_work(name, engine, message, tmp_path):
    """Every message says why."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious.txt").write_text("x")
    (tmp_path / "a file").write_text("x")
    (tmp_path / "old.parquet").write_text("x")
    with pytest.raises(OutputError, match=message):
        plan_output(name if "://" in name else tmp_path / name, engine, [])


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, RuntimeError("a defect"), OSError(5, "the input is gone")]
)
def test_a_failure_leaves_what_was_there(error, tmp_path):
    """The old output stays, and the exception is raised unchanged."""
    (tmp_path / "out.parquet").write_text("old")
    output = TableOutput(tmp_path / "out.parquet", is_folder=False)
    expected = error if isinstance(error, type) else type(error)
    with pytest.raises(expected) as caught, output.unfinished() as folder:
        output.rows_in(folder).write_text("half")
        raise error
    assert not isinstance(caught.value, OutputError)
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]
    assert (tmp_path / "out.parquet").read_text() == "old"


def test_a_full_disk_is_reported_with_the_name_of_the_output(source, tmp_path, monkeypatch):
    """A failure at the start, in a batch or at the rename is an OutputError."""
    out = tmp_path / "out.parquet"
    out.write_text("old")

    def full(*_, **__):
        raise OSError(28, "No space left")

    for owner, name in (
        (pq, "ParquetWriter"),
        (pq.ParquetWriter, "write_batch"),
        (Path, "replace"),
    ):
        with (
            monkeypatch.context() as patch,
            pytest.raises(OutputError, match=r"cannot write .*out\.parquet: No space left"),
        ):
            patch.setattr(owner, name, full)
            consensus_table(source, n_clusters=3, ids="id", out=out, **STREAMED)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out.parquet"]
    assert out.read_text() == "old"


# Ibis asks pandas for an option that is going away
@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")
@pytest.mark.parametrize(
    ("engine", "how", "name"),
    [
        ("polars", {}, "out"),
        ("polars", STREAMED, "out"),
        ("sqlite", STREAMED, "out.parquet"),
        ("polars", GROUPED, "out"),
        ("sqlite", GROUPED, "out"),
    ],
)
def test_a_table_of_another_engine_is_written_too(engine, how, name, source, tmp_path, monkeypatch):
    """Rows are written by Arrow batches to one file or a folder, on every path."""
    monkeypatch.setattr(consensus, "_FEW_TUPLES", 1.0 if how is GROUPED else 0.25)
    rows = pq.read_table(source)
    connection = engine_with_table(engine, rows, tmp_path)
    settings = {"n_clusters": 3, "ids": "id", **how}
    found = consensus_table(connection.table("t"), out=tmp_path / name, **settings)
    assert found.path == ("tuples" if not how else "grouped" if how is GROUPED else "streamed")
    out = pq.read_table(found.out).sort_by("id")
    predicted = found.estimator.predict(rows.drop_columns("id"))
    assert out["id"].to_pylist() == list(range(600))
    assert out["label"].to_pylist() == predicted.tolist()
    connection.disconnect()


#: When the first process is killed: at a log message, or just before the rename.
KILLED_AT = [
    ("looking at the columns", "out.parquet", {}),
    ("writing 600 rows", "out", {}),
    ("sweep 2", "out.parquet", STREAMED),
    ("the rename", "out.parquet", {}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "name", "how"), KILLED_AT)
def test_a_killed_process_leaves_no_output_and_the_next_completes(
    moment, name, how, source, tmp_path
):
    """The second run removes what the first one left."""
    out = tmp_path / name
    code = f"""
import logging, os, pathlib, signal
from coterie.tables import consensus_table

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

class Killer(logging.Handler):
    def emit(self, record):
        if record.getMessage().startswith({moment!r}):
            die()

logging.getLogger("coterie").setLevel(logging.INFO)
logging.getLogger("coterie").addHandler(Killer())
if {moment == "the rename"}:
    pathlib.Path.replace = die
consensus_table({str(source)!r}, n_clusters=3, ids="id", out={str(out)!r}, **{how!r})
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    left = [path.name for path in tmp_path.iterdir() if path.name != "in"]
    assert all(name.startswith(".") and name.endswith(".unfinished") for name in left)
    assert bool(left) == (moment != "looking at the columns")
    found = consensus_table(source, n_clusters=3, ids="id", out=out, **how)
    assert pq.read_table(found.out).num_rows == 600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", name]
