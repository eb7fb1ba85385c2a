"""The consensus of a table in DuckDB: that of all its rows in memory."""

from __future__ import annotations

import json
import warnings

import duckdb
import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from coterie import L2Consensus, RobustConsensus, load_model, planted_partitions, save_model
from coterie.engines.backends import connect
from coterie.engines.label_tables import TableConsensus, consensus_table
from coterie.errors import InvalidLabelsError, InvalidParameterError, OutputError, TableError
from coterie.inspection.scores import mirkin_objective


def labels_table(seed: int = 0, missing: float = 0.0, text: bool = False) -> pa.Table:
    """600 rows, 8 partitions of which two are wrong together; ids that are their numbers."""
    rng = np.random.default_rng(seed)
    P, _ = planted_partitions([300, 200, 100], 8, 2, 0.15, random_state=seed)
    P = np.where(rng.random(P.shape) < missing, -1, P)
    P[(P < 0).all(axis=1), 0] = 0
    columns: dict = {"id": np.arange(len(P))} | {f"p{v}": P[:, v] for v in range(8)}
    if text:
        columns["p1"] = ["" if x < 0 else f"it's {x}" for x in P[:, 1]]
        columns["p2"] = pa.array([None if x < 0 else f"c{x}" for x in P[:, 2]])
        columns["p3"] = np.where(P[:, 3] < 0, np.nan, P[:, 3]).astype(np.float32)
        columns["p4"] = np.where(P[:, 4] < 0, -1, P[:, 4].astype(np.int64) * 10**15)
    return pa.table(columns)


@pytest.fixture
def source(tmp_path):
    """The planted table in a Parquet file."""
    pq.write_table(labels_table(), tmp_path / "labels.parquet")
    return tmp_path / "labels.parquet"


def in_memory(table: pa.Table) -> RobustConsensus:
    """The consensus of all rows."""
    return RobustConsensus(3, random_state=0).fit(table.drop_columns("id"))


def written(path) -> pa.Table:
    """The output in the order of its ids."""
    return pq.read_table(path).sort_by("id")


def assert_same(out: pa.Table, expected: RobustConsensus) -> None:
    """Label by label, and confidence by confidence."""
    assert out["label"].to_pylist() == expected.labels_.tolist()
    np.testing.assert_allclose(out["confidence"].to_numpy(), expected.confidence_, rtol=1e-12)


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_labels_are_those_of_all_rows_in_memory(missing, text, tmp_path):
    """Integers, texts, floats, labels far apart and gaps."""
    table = labels_table(1, missing, text)
    pq.write_table(table, tmp_path / "labels.parquet", row_group_size=77)
    out = tmp_path / "out.parquet"
    found = consensus_table(tmp_path / "labels.parquet", n_clusters=3, ids="id", out=out)
    expected = in_memory(table)
    assert written(out)["id"].to_pylist() == list(range(600))
    assert_same(written(out), expected)
    assert (found.path, found.n_rows, found.n_tuples) == ("tuples", 600, expected.n_tuples_)
    assert found.n_tuples_exact and found.n_unplaced == 0
    assert found.objective == pytest.approx(expected.objective_)
    assert found.sizes.tolist() == np.bincount(expected.labels_).tolist()
    assert found.mean_confidence == pytest.approx(expected.confidence_.mean())
    assert found.estimator.predict(table.drop_columns("id")).tolist() == expected.labels_.tolist()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@settings(
    deadline=None, max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.lists(st.integers(-1, 2), min_size=3, max_size=3), min_size=1, max_size=8))
def test_small_tables_of_any_kind_cost_what_they_cost_in_memory(tmp_path, rows):
    """Random labels with few rows; where rows are interchangeable, which is which is open."""
    P = np.array([[0, *row] for row in rows])
    P = P[:, (P >= 0).any(axis=0)]
    K = min(2, len(np.unique(P, axis=0)))
    # every vote counts, as camps of so few rows are often tied
    expected = RobustConsensus(K, partition_weights=None, random_state=0).fit(P)
    columns = {f"p{v}": P[:, v] for v in range(P.shape[1])} | {"id": np.arange(len(P))}
    how = {"n_clusters": K, "ids": "id", "partition_weights": None}
    found = consensus_table(ibis.memtable(pa.table(columns)), out=tmp_path / "o.parquet", **how)
    labels = written(tmp_path / "o.parquet")["label"].to_numpy()
    assert found.objective == pytest.approx(expected.objective_)
    assert np.bincount(labels).tolist() == np.bincount(expected.labels_).tolist()
    assert len(np.unique(np.column_stack([P, labels]), axis=0)) == len(np.unique(P, axis=0))


def test_every_source_gives_the_same(tmp_path, monkeypatch):
    """A file, a folder, a glob, a list, CSV, a table of a database, an Ibis table."""
    table = labels_table(2, 0.1, text=True)
    (tmp_path / "parts" / "deeper").mkdir(parents=True)
    pq.write_table(table, tmp_path / "labels.parquet")
    pq.write_table(table[:250], tmp_path / "parts" / "a.parquet")
    pq.write_table(table[250:], tmp_path / "parts" / "deeper" / "b [1].parquet")
    (tmp_path / "parts" / ".hidden.parquet").write_text("not a table")
    pyarrow.csv.write_csv(table, tmp_path / "labels.csv")
    with duckdb.connect(str(tmp_path / "labels.db")) as database:
        database.register("here", table)
        database.execute("CREATE TABLE labels AS FROM here")
    monkeypatch.chdir(tmp_path)
    expected = in_memory(table)
    sources = [
        ("parts", {}),
        (str(tmp_path / "parts" / "**" / "*.parquet"), {}),
        ([tmp_path / "parts" / "a.parquet", "parts/deeper/b [1].parquet"], {}),
        ("labels.csv", {}),
        ("labels", {"engine": f"duckdb:///{tmp_path}/labels.db"}),
        (ibis.memtable(table), {}),
        ("labels.parquet", {"engine": connect(threads=1)}),
    ]
    for number, (source, how) in enumerate(sources):
        out = tmp_path / f"out-{number}.parquet"
        found = consensus_table(source, n_clusters=3, ids="id", out=out, **how)
        assert found.objective == pytest.approx(expected.objective_), source
        order = np.argsort(pq.read_table(out)["id"].cast(pa.int64()).to_numpy())
        labels = pq.read_table(out)["label"].to_numpy()[order]
        assert labels.tolist() == expected.labels_.tolist(), source


def test_chosen_columns_and_several_ids(source, tmp_path):
    """Ids come first, as they were; columns that are neither are left alone."""
    table = labels_table().append_column("day", pa.array(["mo", None] * 300))
    pq.write_table(table, source)
    columns = ["p5", "p0", "p1"]
    out = tmp_path / "out.parquet"
    found = consensus_table(source, columns, 3, ids=["day", "id"], out=out)
    expected = RobustConsensus(3, random_state=0).fit(table.select(columns))
    assert pq.read_table(out).column_names == ["day", "id", "label", "confidence"]
    assert written(out).select(["day", "id"]).to_pydict() == table.select(["day", "id"]).to_pydict()
    assert_same(written(out), expected)
    assert found.partitions == ("p5", "p0", "p1")


def test_more_tuples_than_allowed_are_streamed(source, tmp_path):
    """A sample is fitted, all rows are swept; what is written is what the model predicts."""
    table, out = labels_table(), tmp_path / "out.parquet"
    found = consensus_table(source, n_clusters=3, ids="id", out=out, max_tuples=40, sample_size=100)
    exact = consensus_table(source, n_clusters=3, ids="id")
    assert (found.path, found.n_tuples_exact) == ("streamed", False)
    assert found.n_fitted < exact.n_tuples
    assert abs(found.n_tuples - exact.n_tuples) < 0.5 * exact.n_tuples
    P = table.drop_columns("id")
    labels, confidence = found.estimator.predict(P, return_confidence=True)
    assert written(out)["label"].to_pylist() == labels.tolist()
    np.testing.assert_allclose(written(out)["confidence"].to_numpy(), confidence)
    assert found.mean_confidence == pytest.approx(confidence.mean())
    assert found.sizes.tolist() == np.bincount(labels).tolist() == sorted(found.sizes)[::-1]
    believed = np.flatnonzero(found.estimator.partition_weights_)
    J = mirkin_objective(P.to_pandas().to_numpy()[:, believed], labels)
    assert found.objective == pytest.approx(J) == min(found.sweeps)
    assert (labels == in_memory(table).labels_).mean() > 0.98
    again = consensus_table(source, n_clusters=3, ids="id", max_tuples=40, sample_size=100)
    assert again.sweeps == found.sweeps


def test_an_estimate_that_was_too_low_switches_over(source, monkeypatch):
    """Where grouping finds more tuples than are allowed after all."""
    from coterie.engines.label_tables import packed_table

    monkeypatch.setattr(packed_table.TupleCounts, "estimate", property(lambda _: 1))
    found = consensus_table(source, n_clusters=3, ids="id", max_tuples=40, sample_size=100)
    assert found.path == "streamed"


def test_labels_that_the_sample_lacks_count_as_missing(tmp_path):
    """A row of nothing else gets -1 and confidence 0, and their number is told."""
    P = labels_table().drop_columns("id").to_pandas().to_numpy(copy=True)
    P[7] = 9
    pq.write_table(pa.table({f"p{v}": P[:, v] for v in range(8)}), tmp_path / "t.parquet")
    out = tmp_path / "o.parquet"
    found = consensus_table(
        tmp_path / "t.parquet", n_clusters=3, out=out, max_tuples=40, sample_size=100
    )
    assert found.n_unplaced == 1 and "1 row has only" in found.in_words()
    (row,) = (row for row in pq.read_table(out).to_pylist() if row["p0"] == 9)
    assert (row["label"], row["confidence"]) == (-1, 0.0)


def test_a_model_of_a_table_is_kept(source, tmp_path):
    """It predicts after it has been saved, streamed or not."""
    P = labels_table().drop_columns("id")
    for how in ({}, {"max_tuples": 40, "sample_size": 100}):
        found = consensus_table(source, n_clusters=3, ids="id", **how)
        save_model(found.estimator, tmp_path / "m.coterie")
        kept = load_model(tmp_path / "m.coterie")
        assert kept.predict(P).tolist() == found.estimator.predict(P).tolist()


def test_another_method_and_its_settings(source):
    """By its key; a setting that it has not is refused by name."""
    found = consensus_table(source, n_clusters=3, ids="id", method="l2", random_state=3)
    expected = L2Consensus(3, random_state=3).fit(labels_table().drop_columns("id"))
    assert found.objective == pytest.approx(expected.objective_)
    robust = consensus_table(source, n_clusters=3, ids="id", partition_weights=None)
    assert robust.estimator.partition_weights is None
    with pytest.raises(InvalidParameterError, match="refined: neither"):
        consensus_table(source, n_clusters=3, refined=True)


def test_one_row_is_a_cluster(tmp_path):
    """Of itself."""
    pq.write_table(pa.table({"p": [4], "q": ["x"]}), tmp_path / "t.parquet")
    found = consensus_table(tmp_path / "t.parquet", n_clusters=1, out=tmp_path / "o.parquet")
    assert found.sizes.tolist() == [1]
    assert pq.read_table(tmp_path / "o.parquet")["label"].to_pylist() == [0]


def test_what_is_told_is_ready_for_json_and_for_people(source, tmp_path):
    """Stages, memory, the way and why."""
    out = tmp_path / "out.parquet"
    found = consensus_table(source, n_clusters=3, ids="id", out=out)
    assert isinstance(found, TableConsensus)
    told = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert list(told["seconds"]) == ["profile", "group", "fit", "write"]
    assert told["bytes_written"] == out.stat().st_size > 0
    assert told["peak_memory"] > 10**7
    for part in ("600 rows", "8 partitions", "tuples path", "max_tuples", str(out), "write "):
        assert part in found.in_words()


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"columns": ["p0", "px"]}, TableError, "has no column 'px'; it has 'id', 'p0'"),
        ({"ids": "name"}, TableError, "no column 'name'"),
        ({"ids": "p0", "columns": ["p0", "p1"]}, InvalidParameterError, "'p0' is asked for twice"),
        ({"columns": []}, TableError, "no label column"),
        ({"max_tuples": 0}, InvalidParameterError, "max_tuples=0"),
        ({"sample_size": True}, InvalidParameterError, "sample_size=True"),
        ({"n_clusters": 0}, InvalidParameterError, "n_clusters=0"),
        ({"method": "best"}, InvalidParameterError, "best"),
        ({"engine": "sqlite://"}, InvalidParameterError, "no engine"),
        ({"memory_limit": "plenty"}, InvalidParameterError, "DuckDB refuses"),
        ({"memory_limit": 10**9}, InvalidParameterError, "memory_limit a size such as 2GB"),
        ({"sample_size": 2}, InvalidParameterError, "sample_size=2: n_clusters=3 needs .* least 3"),
        (
            {"sample_size": 1, "n_clusters": None},
            InvalidParameterError,
            "sample_size=1: .* least 2",
        ),
        ({"out": ""}, InvalidParameterError, "out is empty"),
        ({"out": "/dev/null"}, OutputError, "it is a device or a pipe"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_written(how, error, message, source):
    """With the name of what is wrong."""
    out = source.with_name("out.parquet")
    with pytest.raises(error, match=message):
        consensus_table(source, **{"n_clusters": 3, "out": out} | how)
    assert [path.name for path in source.parent.iterdir()] == ["labels.parquet"]


@pytest.mark.parametrize("name", ["label", "Confidence"])
def test_columns_named_as_those_of_the_result_are_refused(name, tmp_path):
    """As ids, and as partitions where these are carried; in any case of letters."""
    pq.write_table(pa.table({name: [0, 1, 1], "p": [0, 1, 1]}), tmp_path / "t.parquet")
    for ids in (name, None):
        with pytest.raises(InvalidParameterError, match=f"named '{name}'"):
            consensus_table(
                tmp_path / "t.parquet", n_clusters=2, ids=ids, out=tmp_path / "o.parquet"
            )
    assert consensus_table(tmp_path / "t.parquet", n_clusters=2).sizes.tolist() == [2, 1]


def test_sources_that_are_not_there_or_damaged_are_named(tmp_path):
    """One line, with the name of the file."""
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "empty").mkdir()
    (tmp_path / "mixed").mkdir()
    pq.write_table(labels_table(), tmp_path / "mixed" / "a.parquet")
    (tmp_path / "mixed" / "b.csv").write_text("id,p0\n1,1\n")
    for name, message in {
        "absent.parquet": "no such file or table",
        "*.absent": "no file matches",
        "empty": "no Parquet or CSV file",
        "cut.parquet": "cut.parquet",
        "mixed": "name files of one kind",
    }.items():
        with pytest.raises(TableError, match=message):
            consensus_table(str(tmp_path / name), n_clusters=2)
    with pytest.raises(TableError, match="no file was named"):
        consensus_table([], n_clusters=2)


def test_bad_labels_leave_nothing_behind(source):
    """Neither an output nor anything hidden."""
    table = labels_table().set_column(1, "p0", pa.array([-5] * 600))
    pq.write_table(table, source)
    with pytest.raises(InvalidLabelsError, match="'p0' is negative"):
        consensus_table(source, n_clusters=3, ids="id", out=source.with_name("out.parquet"))
    assert [path.name for path in source.parent.iterdir()] == ["labels.parquet"]


def test_warnings_of_the_method_come_through(tmp_path):
    """More clusters asked for than the rows tell apart."""
    pq.write_table(pa.table({"p": [0, 0, 1, 1]}), tmp_path / "t.parquet")
    with pytest.warns(ConvergenceWarning, match="only 2 kinds"):
        found = consensus_table(tmp_path / "t.parquet", n_clusters=3)
    assert found.sizes.tolist() == [2, 2]


def test_settings_of_a_connection_that_is_there_are_its_own(source):
    """A limit that would be ignored is refused."""
    with pytest.raises(InvalidParameterError, match="where the connection is made"):
        consensus_table(source, n_clusters=3, engine=connect(), threads=2)


def test_a_connection_that_is_there_is_left_as_it_was(source, tmp_path):
    """No tables of ours, and its temporary files where they were."""
    connection = connect(threads=1)
    asked = "SELECT current_setting('temp_directory'), (SELECT count(*) FROM duckdb_tables())"
    before = connection.con.sql(asked).fetchall()
    table = labels_table(text=True)
    pq.write_table(table, source)
    for how in ({}, {"max_tuples": 40, "sample_size": 100}):
        out = tmp_path / f"{len(how)}.parquet"
        consensus_table(source, n_clusters=3, ids="id", engine=connection, out=out, **how)
        assert connection.con.sql(asked).fetchall() == before


def test_a_sample_of_all_tuples_is_streamed_too(source):
    """Where the limit says so: what is fitted is everything, and the count exact."""
    found = consensus_table(source, n_clusters=3, ids="id", max_tuples=40, sample_size=1000)
    exact = consensus_table(source, n_clusters=3, ids="id")
    assert (found.path, found.n_tuples_exact) == ("streamed", True)
    assert found.n_tuples == found.n_fitted == exact.n_tuples
    assert found.objective <= exact.objective * 1.01


def test_the_input_is_never_the_output(source):
    """Neither the file, nor a place in the folder that is read."""
    with pytest.raises(OutputError, match="it is the input"):
        consensus_table(source, n_clusters=3, ids="id", out=source)
    with pytest.raises(OutputError, match="in the input folder"):
        consensus_table(source.parent, n_clusters=3, ids="id", out=source.parent / "o.parquet")


def test_one_column_is_named_by_a_string(source):
    """As one id is."""
    found = consensus_table(source, "p0", 3, ids="id")
    assert found.partitions == ("p0",)


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        (pd.DataFrame({"p": [0, 1]}), "a DataFrame"),
        (np.eye(2), "a ndarray"),
        ([np.eye(2), np.eye(2)], "a list with a ndarray in it"),
        (None, "a NoneType"),
    ],
)
def test_what_is_in_memory_is_sent_to_the_estimator(rows, what):
    """Frames, matrices and lists of them are no tables of an engine."""
    with pytest.raises(TableError, match=rf"^source is {what}: .*RobustConsensus.*ibis\.memtable"):
        consensus_table(rows, n_clusters=2)


def test_durations_and_nulls_are_no_labels(source):
    """As in memory, though Parquet keeps durations as integers; alone or in a folder."""
    durations = pa.array([1, 2, 3] * 200, pa.duration("us"))
    pq.write_table(labels_table().append_column("took", durations), source)
    for place in (source, source.parent):
        with pytest.raises(InvalidLabelsError, match=r"'took' has labels of type duration\[us\]"):
            consensus_table(place, n_clusters=3, ids="id")
    assert consensus_table(source, ["p0", "p1"], 3, ids="took").n_rows == 600
    pq.write_table(labels_table().append_column("none", pa.nulls(600)), source)
    with pytest.raises(InvalidLabelsError, match=r"'none' .*has no label"):
        consensus_table(source, n_clusters=3, ids="id")


def test_no_warning_of_another_package_is_raised(source):
    """Where warnings are errors, Ibis's own way with DuckDB is none of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert consensus_table(source, n_clusters=3, ids="id").n_rows == 600
