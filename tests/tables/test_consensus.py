"""The consensus of a table in DuckDB is that of its rows in memory; sweeps over batches, too."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from functools import partial

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
from coterie.counts.cluster_tables import ClusterTables
from coterie.errors import (
    InvalidLabelsError,
    InvalidParameterError,
    ModelFileError,
    OutputError,
    TableError,
)
from coterie.inspection.scores import mirkin_objective
from coterie.labels.encode import as_label_matrix
from coterie.labels.tuples import compress_labels
from coterie.tables import consensus, keys
from coterie.tables.consensus import (
    AssignmentRule,
    Sweep,
    consensus_table,
    count_or_sample,
    count_rows,
    fit_tuples,
    sweep_until_converged,
    threshold_cost,
    write_labels,
)
from coterie.tables.engines import LocalTables, connect
from coterie.tables.keys import pack_labels
from coterie.tables.writing import TableOutput
from engine_tables import engine_with_table

#: With a seed, because labels of several runs are compared.
consensus_table = partial(consensus_table, random_state=0)


def labels_table(seed: int = 0, missing: float = 0.0, text: bool = False) -> pa.Table:
    """Return 600 rows of 8 partitions, two of them wrong in the same way, and ids 0, 1, …"""
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
    """Write the planted table to a Parquet file."""
    pq.write_table(labels_table(), tmp_path / "labels.parquet")
    return tmp_path / "labels.parquet"


def in_memory(table: pa.Table) -> RobustConsensus:
    return RobustConsensus(3, random_state=0).fit(table.drop_columns("id"))


def written(path) -> pa.Table:
    return pq.read_table(path).sort_by("id")


def assert_same(out: pa.Table, expected: RobustConsensus) -> None:
    assert out["label"].to_pylist() == expected.labels_.tolist()
    np.testing.assert_allclose(out["margin"].to_numpy(), expected.margin_, rtol=1e-12)


@pytest.mark.parametrize(("missing", "text"), [(0.0, False), (0.15, True)])
def test_labels_are_those_of_all_rows_in_memory(missing, text, tmp_path):
    """Labels may be integers, text, floats, distant integers, or missing."""
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
    assert found.mean_margin == pytest.approx(expected.margin_.mean())
    assert found.estimator.predict(table.drop_columns("id")).tolist() == expected.labels_.tolist()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@settings(
    deadline=None, max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.lists(st.integers(-1, 2), min_size=3, max_size=3), min_size=1, max_size=8))
def test_small_tables_of_any_kind_cost_what_they_cost_in_memory(tmp_path, rows):
    """For random labels of few rows, the objective and the sizes of clusters are equal."""
    P = np.array([[0, *row] for row in rows])
    P = P[:, (P >= 0).any(axis=0)]
    K = min(2, len(np.unique(P, axis=0)))
    # with equal weights, because camps of so few rows are often tied
    expected = RobustConsensus(K, partition_weights=None, random_state=0).fit(P)
    columns = {f"p{v}": P[:, v] for v in range(P.shape[1])} | {"id": np.arange(len(P))}
    how = {"n_clusters": K, "ids": "id", "partition_weights": None}
    found = consensus_table(ibis.memtable(pa.table(columns)), out=tmp_path / "o.parquet", **how)
    labels = written(tmp_path / "o.parquet")["label"].to_numpy()
    assert found.objective == pytest.approx(expected.objective_)
    assert np.bincount(labels).tolist() == np.bincount(expected.labels_).tolist()
    assert len(np.unique(np.column_stack([P, labels]), axis=0)) == len(np.unique(P, axis=0))


@pytest.mark.slow
def test_every_source_gives_the_same(tmp_path, monkeypatch):
    """Sources are files, folders, globs, lists, CSV, tables of a database and Ibis tables."""
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
    """Ids come first and are unchanged; other columns are ignored; one column may be a string."""
    table = labels_table().append_column("day", pa.array(["mo", None] * 300))
    pq.write_table(table, source)
    columns = ["p5", "p0", "p1"]
    out = tmp_path / "out.parquet"
    found = consensus_table(source, columns, 3, ids=["day", "id"], out=out)
    expected = RobustConsensus(3, random_state=0).fit(table.select(columns))
    assert pq.read_table(out).column_names == ["day", "id", "label", "margin"]
    assert written(out).select(["day", "id"]).to_pydict() == table.select(["day", "id"]).to_pydict()
    assert_same(written(out), expected)
    assert found.partitions == ("p5", "p0", "p1")
    assert consensus_table(source, "p0", 3, ids="id").partitions == ("p0",)


def test_more_tuples_than_allowed_are_streamed(source, tmp_path):
    """A sample is fitted and all rows are swept; the output is what the model predicts."""
    table, out = labels_table(), tmp_path / "out.parquet"
    found = consensus_table(source, n_clusters=3, ids="id", out=out, max_tuples=40, sample_size=100)
    exact = consensus_table(source, n_clusters=3, ids="id")
    assert (found.path, found.n_tuples_exact) == ("streamed", False)
    assert "more than a quarter as many as rows" in found.reason
    assert found.n_fitted < exact.n_tuples
    assert abs(found.n_tuples - exact.n_tuples) < 0.5 * exact.n_tuples
    P = table.drop_columns("id")
    labels, margin = found.estimator._assign(*found.estimator._encode_rows(P))
    assert written(out)["label"].to_pylist() == labels.tolist()
    np.testing.assert_allclose(written(out)["margin"].to_numpy(), margin)
    assert found.mean_margin == pytest.approx(margin.mean())
    assert found.sizes.tolist() == np.bincount(labels).tolist() == sorted(found.sizes)[::-1]
    believed = np.flatnonzero(found.estimator.partition_weights_)
    J = mirkin_objective(P.to_pandas().to_numpy()[:, believed], labels)
    assert found.objective == pytest.approx(J) == min(found.sweeps)
    assert (labels == in_memory(table).labels_).mean() > 0.98
    again = consensus_table(source, n_clusters=3, ids="id", max_tuples=40, sample_size=100)
    assert again.sweeps == found.sweeps
    everything = consensus_table(source, n_clusters=3, ids="id", max_tuples=40, sample_size=1000)
    assert (everything.path, everything.n_tuples_exact) == ("streamed", True)
    assert everything.n_tuples == everything.n_fitted == exact.n_tuples
    assert everything.objective <= exact.objective * 1.01


def test_an_estimate_that_was_too_low_switches_over(source, monkeypatch):
    """Counting may find more tuples than the estimate allowed."""
    monkeypatch.setattr(consensus.TupleCounts, "estimate", property(lambda _: 1))
    found = consensus_table(source, n_clusters=3, ids="id", max_tuples=40, sample_size=100)
    assert found.path == "grouped" and found.n_fitted < 600


@pytest.mark.parametrize(("missing", "text"), [(0.0, False), (0.15, True)])
def test_sweeps_over_tuples_are_sweeps_over_their_rows(missing, text, tmp_path, monkeypatch):
    """Both paths give the same labels, margins, costs and sizes for the same sample."""
    table = labels_table(4, missing, text)
    pq.write_table(pa.concat_tables([table] * 3), tmp_path / "labels.parquet")
    how = {"n_clusters": 3, "ids": "id", "max_tuples": 40, "sample_size": 100}
    found = {}
    for path, few in (("grouped", 1.0), ("streamed", 0.0)):
        monkeypatch.setattr(consensus, "_FEW_TUPLES", few)
        out = tmp_path / f"{path}.parquet"
        found[path] = consensus_table(tmp_path / "labels.parquet", out=out, **how)
        assert found[path].path == path and path in found[path].in_words()
    one, other = found.values()
    by = [("id", "ascending"), ("label", "ascending")]
    assert pq.read_table(one.out).sort_by(by).equals(pq.read_table(other.out).sort_by(by))
    assert one.sweeps == other.sweeps and one.objective == other.objective
    assert one.sizes.tolist() == other.sizes.tolist() and one.n_unplaced == other.n_unplaced
    assert one.mean_margin == pytest.approx(other.mean_margin)
    written_mean = pq.read_table(one.out)["margin"].to_numpy().mean()
    assert one.mean_margin == pytest.approx(written_mean)


def test_an_engine_that_keeps_no_tables_is_swept_by_rows(source, monkeypatch):
    """A read-only database may refuse temporary tables; the result is the same."""
    pq.write_table(pa.concat_tables([labels_table()] * 8), source)
    how = {"n_clusters": 3, "ids": "id", "max_tuples": 40, "sample_size": 100}
    expected = consensus_table(source, **how)

    def refuse(*_):
        raise TableError("no temporary tables here")

    monkeypatch.setattr(consensus.PackedTable, "grouped", refuse)
    found = consensus_table(source, **how)
    assert (found.path, expected.path) == ("streamed", "grouped")
    assert "at most a quarter as many as rows" in expected.reason
    assert "no temporary table" in found.reason and found.sweeps == expected.sweeps


def test_labels_that_the_sample_lacks_count_as_missing(tmp_path):
    """A row with only such labels gets -1 and margin 0, and is counted."""
    P = labels_table().drop_columns("id").to_pandas().to_numpy(copy=True)
    P[7] = 9
    pq.write_table(pa.table({f"p{v}": P[:, v] for v in range(8)}), tmp_path / "t.parquet")
    out = tmp_path / "o.parquet"
    found = consensus_table(
        tmp_path / "t.parquet", n_clusters=3, out=out, max_tuples=40, sample_size=100
    )
    assert found.n_unplaced == 1 and "1 row has only" in found.in_words()
    (row,) = (row for row in pq.read_table(out).to_pylist() if row["p0"] == 9)
    assert (row["label"], row["margin"]) == (-1, 0.0)
    assert found.mean_margin == pytest.approx(pq.read_table(out)["margin"].to_numpy().mean())


def test_a_model_of_a_table_is_kept(source, tmp_path):
    """The estimator can be saved and loaded on both paths."""
    P = labels_table().drop_columns("id")
    for how in ({}, {"max_tuples": 40, "sample_size": 100}):
        found = consensus_table(source, n_clusters=3, ids="id", **how)
        save_model(found.estimator, tmp_path / "m.coterie")
        kept = load_model(tmp_path / "m.coterie")
        assert kept.predict(P).tolist() == found.estimator.predict(P).tolist()
    with pytest.raises(
        ModelFileError, match="not a TableConsensus; save its attribute `estimator`"
    ):
        save_model(found, tmp_path / "m.coterie")


def test_another_method_and_its_settings(source):
    """A method is chosen by its key; an unknown setting is refused by name."""
    found = consensus_table(source, n_clusters=3, ids="id", method="l2", random_state=3)
    expected = L2Consensus(3, random_state=3).fit(labels_table().drop_columns("id"))
    assert found.objective == pytest.approx(expected.objective_)
    robust = consensus_table(source, n_clusters=3, ids="id", partition_weights=None)
    assert robust.estimator.partition_weights is None
    with pytest.raises(InvalidParameterError, match="refined: neither"):
        consensus_table(source, n_clusters=3, refined=True)


def test_small_samples_have_enough_tuples_for_the_clusters(source):
    """The number of tuples may be estimated badly from a few."""
    for size in (3, 8):
        how = {"n_clusters": 3, "ids": "id", "max_tuples": 2, "sample_size": size}
        found = consensus_table(source, **how)
        assert found.n_fitted >= max(3, size / 4) and found.path != "tuples"


def test_samples_have_the_size_that_was_asked_for():
    """Also where a tuple has many rows, so that a share of the rows is a smaller one of tuples."""
    p = np.random.default_rng(0).integers(0, 20_000, 200_000)
    packed = pack_labels(ibis.memtable(pa.table({"p": p})), ["p"], "t", ibis.memtable)
    tuples, are_all = count_or_sample(packed, 5000, 2000, 2)
    assert not are_all and 1600 < tuples.n_tuples < 2400


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"columns": ["p0", "px"]}, TableError, "has no column 'px'; it has 'id', 'p0'"),
        ({"ids": "name"}, TableError, "no column 'name'"),
        ({"ids": "p0", "columns": ["p0"]}, InvalidParameterError, "is asked for twice"),
        ({"columns": []}, TableError, "no column to use"),
        ({"max_tuples": 0}, InvalidParameterError, "max_tuples=0"),
        ({"sample_size": True}, InvalidParameterError, "sample_size=True"),
        ({"n_clusters": 0}, InvalidParameterError, "n_clusters=0"),
        ({"method": "best"}, InvalidParameterError, "best"),
        ({"engine": "mysql://"}, InvalidParameterError, "no engine"),
        ({"memory_limit": "plenty"}, InvalidParameterError, "DuckDB refuses"),
        ({"memory_limit": 10**9}, InvalidParameterError, "memory_limit a size such as 2GB"),
        ({"sample_size": 2}, InvalidParameterError, "sample_size=2: .* 3$"),
        ({"sample_size": 1, "n_clusters": None}, InvalidParameterError, "sample_size=1: .* 2$"),
        ({"out": ""}, InvalidParameterError, "out is empty"),
        ({"out": "/dev/null"}, OutputError, "it is a device or a pipe"),
    ],
)
def test_wrong_arguments_are_refused_and_nothing_is_written(how, error, message, source):
    """The message names the argument or the column."""
    out = source.with_name("out.parquet")
    with pytest.raises(error, match=message):
        consensus_table(source, **{"n_clusters": 3, "out": out} | how)
    assert [path.name for path in source.parent.iterdir()] == ["labels.parquet"]


@pytest.mark.parametrize("name", ["label", "Margin", "coterie_value_0", "COTERIE_KEY_0"])
def test_columns_named_as_those_of_the_result_or_of_packing_are_refused(name, tmp_path):
    """Ids, and partitions if they are copied, are checked in any letter case."""
    pq.write_table(pa.table({name: [0, 1, 1], "p": [0, 1, 1]}), tmp_path / "t.parquet")
    for ids in (name, None):
        with pytest.raises(InvalidParameterError, match=f"named '{name}'"):
            consensus_table(
                tmp_path / "t.parquet", n_clusters=2, ids=ids, out=tmp_path / "o.parquet"
            )
    assert consensus_table(tmp_path / "t.parquet", n_clusters=2).sizes.tolist() == [2, 1]


def test_sources_that_are_not_there_or_damaged_are_named(tmp_path):
    """The message names the file or folder."""
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


def test_warnings_of_the_method_come_through(tmp_path):
    """There may be fewer distinct rows than clusters."""
    pq.write_table(pa.table({"p": [0, 0, 1, 1]}), tmp_path / "t.parquet")
    with pytest.warns(ConvergenceWarning, match="only 2 distinct"):
        found = consensus_table(tmp_path / "t.parquet", n_clusters=3)
    assert found.sizes.tolist() == [2, 2]


def test_an_existing_connection_is_unchanged(source, tmp_path):
    """No table stays, the folder of temporary files is the same, and limits are refused."""
    connection = connect(threads=1)
    asked = "SELECT current_setting('temp_directory'), (SELECT count(*) FROM duckdb_tables())"
    before = connection.con.sql(asked).fetchall()
    table = labels_table(text=True)
    pq.write_table(table, source)
    for how in ({}, {"max_tuples": 40, "sample_size": 100}):
        out = tmp_path / f"{len(how)}.parquet"
        consensus_table(source, n_clusters=3, ids="id", engine=connection, out=out, **how)
        assert connection.con.sql(asked).fetchall() == before
    with pytest.raises(InvalidParameterError, match="where the connection is made"):
        consensus_table(source, n_clusters=3, engine=connection, threads=2)


def test_the_input_is_never_the_output(source):
    """The output is neither an input file nor in an input folder."""
    with pytest.raises(OutputError, match="it is the input"):
        consensus_table(source, n_clusters=3, ids="id", out=source)
    with pytest.raises(OutputError, match="in the input folder"):
        consensus_table(source.parent, n_clusters=3, ids="id", out=source.parent / "o.parquet")


def test_data_in_memory_is_refused():
    """The message names the estimator to use for frames and matrices."""
    for rows, what in (
        (pd.DataFrame({"p": [0, 1]}), "a DataFrame"),
        ([np.eye(2), np.eye(2)], "a list with a ndarray in it"),
        (None, "a NoneType"),
    ):
        match = rf"^source is {what}: .*RobustConsensus.*ibis\.memtable"
        with pytest.raises(TableError, match=match):
            consensus_table(rows, n_clusters=2)


def test_durations_and_nulls_are_no_labels(source):
    """Durations are refused although Parquet stores them as integers; so are empty columns."""
    durations = pa.array([1, 2, 3] * 200, pa.duration("us"))
    pq.write_table(labels_table().append_column("took", durations), source)
    for place in (source, source.parent):
        with pytest.raises(InvalidLabelsError, match=r"'took' has labels of type duration\[us\]"):
            consensus_table(place, n_clusters=3, ids="id")
    assert consensus_table(source, ["p0", "p1"], 3, ids="took").n_rows == 600
    pq.write_table(labels_table().append_column("none", pa.nulls(600)), source)
    with pytest.raises(InvalidLabelsError, match="'none' has no label at all; leave it out"):
        consensus_table(source, n_clusters=3, ids="id", out=source.with_name("out.parquet"))
    assert [path.name for path in source.parent.iterdir()] == ["labels.parquet"]


@pytest.mark.filterwarnings("ignore:all 4 partitions are the same")
def test_a_result_describes_its_run_for_json_and_in_words(tmp_path):
    """Both have the stages, the memory, the path taken and its reason."""
    labels = {f"p{v}": np.arange(60) % 3 for v in range(4)}
    pq.write_table(pa.table({"id": np.arange(60), **labels}), tmp_path / "labels.parquet")
    out = tmp_path / "out.parquet"
    found = consensus_table(tmp_path / "labels.parquet", n_clusters=3, ids="id", out=out)
    facts = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert list(facts["seconds"]) == ["profile", "group", "fit", "write"]
    assert facts["bytes_written"] == out.stat().st_size > 0
    assert facts["peak_memory"] > 0
    for part in ("60 rows", "4 partitions", "tuples path", "max_tuples", str(out), "write "):
        assert part in found.in_words()


# ---- Sweeps


def rows_and_rule(seed: int, missing: float = 0.0) -> tuple[np.ndarray, np.ndarray, AssignmentRule]:
    """Return labels, their indicator columns, and a rule fitted on a tenth of the rows."""
    rng = np.random.default_rng(seed)
    P, _ = planted_partitions([150, 100, 50], 7, 2, 0.3, random_state=seed)
    P = np.where(rng.random(P.shape) < missing, -1, P)
    P[(P < 0).all(axis=1), 0] = 0
    tuples = compress_labels(as_label_matrix(P))
    codes = np.ascontiguousarray(tuples.expand(tuples.codes))
    few = rng.choice(300, 30, replace=False)
    labels = RobustConsensus(3, random_state=0).fit(P).labels_[few].astype(np.int64)
    sample = replace(tuples, codes=codes[few], weights=np.ones(30))
    tables = ClusterTables.of(sample, labels, np.ones(7), 3)
    return P, codes, rule_of(tuples, replace(tables, complete=missing == 0))


def rule_of(tuples, tables) -> AssignmentRule:
    return AssignmentRule((), (), (), np.arange(0), tuples, tables, 0.5)


def count(rule: AssignmentRule, codes: np.ndarray, weights=None) -> Sweep:
    """Count rows, each with weight 1 unless weights are given."""
    return counted(rule, [codes], weights)


def counted(rule: AssignmentRule, batches: list[np.ndarray], weights=None) -> Sweep:
    sums = sum(
        rule.count_codes(codes, np.ones(len(codes)) if weights is None else weights)
        for codes in batches
    )
    return Sweep.of(rule, sums)


def same(one: ClusterTables, other: ClusterTables) -> bool:
    """Return whether two tables hold equal counts."""
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("table", "present", "size")
    )


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_weighted_tuples_count_what_their_rows_count(missing):
    """A row of weight w adds what w equal rows add."""
    _, codes, rule = rows_and_rule(2, missing)
    times = np.random.default_rng(0).integers(1, 5, len(codes))
    found = count(rule, codes, times.astype(float))
    expected = count(rule, codes.repeat(times, axis=0))
    assert same(found.tables, expected.tables) and found.n_rows == expected.n_rows == times.sum()
    assert found.margin == pytest.approx(expected.margin)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_one_sweep_is_an_assignment_and_a_count(missing):
    """A sweep equals an assignment of all rows in memory; J is that of its labels."""
    P, codes, rule = rows_and_rule(3, missing)
    labels, _ = rule.assign(codes)
    found = counted(rule, np.array_split(codes, 7)).tables
    tuples = replace(rule.tuples, codes=codes, weights=np.ones(len(codes)))
    assert same(found, ClusterTables.of(tuples, labels, rule.tables.alpha, 3))
    if not missing:
        assert found.objective() == pytest.approx(mirkin_objective(P, labels))


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("seed", range(3))
def test_the_cost_never_rises(seed, threshold):
    """The result has the smallest cost of all sweeps, and its tables are those of its rule."""
    _, codes, rule = rows_and_rule(seed, 0.1)
    rule = replace(rule, threshold=threshold)
    found, costs = sweep_until_converged(lambda r: count(r, codes), rule, max_sweeps=6, tol=0.0)
    assert threshold_cost(found.tables, threshold) == min(costs) <= costs[0]
    assert all(np.diff(costs[:-1]) < 0)
    first = count(rule, codes).tables
    assert found.tables.score(threshold) >= first.score(threshold)
    assert same(count(found.rule, codes).tables, found.tables)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_cost_weighs_the_two_ways_to_differ(missing):
    """The cost equals a count over all pairs of points; at τ = ½ it is J."""
    P, codes, rule = rows_and_rule(5, missing)
    labels, found = rule.assign(codes)[0], count(rule, codes).tables
    together = labels[:, None] == labels
    for threshold in (0.25, 0.5):
        cost = 0.0
        for column in P.T:
            seen = (column[:, None] >= 0) & (column >= 0)
            same = column[:, None] == column
            cost += 2 * threshold * (seen & together & ~same).sum() / 7
            cost += 2 * (1 - threshold) * (seen & same & ~together).sum() / 7
        assert threshold_cost(found, threshold) == pytest.approx(cost)
    assert threshold_cost(found, 0.5) == pytest.approx(found.objective())


def test_sweeps_stop_when_little_is_gained_or_there_were_enough():
    """Sweeps end after the first small gain, or at the limit."""
    _, codes, rule = rows_and_rule(1, 0.1)
    for how, n_sweeps in (({"max_sweeps": 1}, 1), ({"max_sweeps": 9, "tol": 0.999}, 2)):
        found, costs = sweep_until_converged(lambda r: count(r, codes), rule, **how)
        assert len(costs) == n_sweeps and (n_sweeps > 1 or found.rule is rule)


def test_rows_that_no_vote_labels_follow_the_other_partitions():
    """Such rows have margin 0; a row without any label is in no cluster."""
    tuples = compress_labels(as_label_matrix([[0, 0], [0, 0], [1, 1], [1, 1]]))
    codes = tuples.expand(tuples.codes)
    tables = ClusterTables.of(tuples, tuples.labels_of_partition(0), np.array([1.0, 0.0]), 2)
    rule = rule_of(tuples, replace(tables, complete=False))
    rows = codes[[0, 2, 0]].copy()
    rows[1:, 0], rows[2, 1] = -1, -1
    labels, margin = rule.assign(rows)
    assert labels[1] == rule.assign(codes)[0][2] != labels[0]
    assert (labels[2], margin.tolist()) == (-1, [1.0, 0.0, 0.0])


N_ROWS = 600


@pytest.fixture
def case(tmp_path, monkeypatch):
    """Return a packed table read 100 rows at a time, and a consensus of a sample of it."""
    monkeypatch.setattr(keys, "_MOST_ROWS", 100)
    monkeypatch.setattr(keys, "_FEWEST_ROWS", 1)
    P, _ = planted_partitions([300, 200, 100], 8, 2, 0.15, random_state=0)
    rows = pa.table({"id": np.arange(N_ROWS)} | {f"p{v}": P[:, v] for v in range(8)})
    connection = engine_with_table("duckdb", rows, tmp_path)
    with LocalTables(connection) as local:
        table = connection.table("t")
        packed = pack_labels(table, [f"p{v}" for v in range(8)], "t", local.add, ["id"])
        layout = packed.layout
        fitted = fit_tuples(RobustConsensus(3, random_state=0), layout, packed.sample_tuples(0.5))
        yield packed, fitted, AssignmentRule.of(fitted, layout), rows.drop_columns("id"), local
    connection.disconnect()


def test_a_sweep_counts_every_row_once(case):
    packed, _, rule, _, local = case
    names = packed.layout.key_names
    codes = rule.codes([pa.Table.from_batches(packed.batches())[k].to_numpy() for k in names])
    expected = count(rule, codes)
    assert max(batch.num_rows for batch in packed.batches()) <= 100
    with packed.grouped(local) as grouped:
        for table in (packed, grouped):
            found = count_rows(table, rule)
            assert same(found.tables, expected.tables) and found.n_rows == N_ROWS
            assert found.margin == pytest.approx(expected.margin)
        with pytest.raises(TableError, match="had 599 rows"):
            count_rows(replace(grouped, n_rows=599), rule)


def test_a_rule_that_is_pickled_counts_the_same(case):
    """Executors of Spark get the rule without the rows of the sample; their sums add up."""
    packed, _, rule, _, _ = case
    sent = pickle.loads(pickle.dumps(rule))
    assert len(pickle.dumps(rule)) < 20_000
    parts = [part for one in packed.batches() for part in sent.count_on_executor([one])]
    sums = np.zeros(rule.tables.table.size + 5)
    for part in parts:
        sums[part["place"].to_numpy()] += part["value"].to_numpy()
    found, expected = Sweep.of(rule, sums), count_rows(packed, rule)
    assert same(found.tables, expected.tables) and found.n_rows == N_ROWS
    assert found.margin == pytest.approx(expected.margin)
    assert list(sent.count_on_executor([])) == []


def test_a_table_that_changes_is_refused(case, tmp_path):
    """Rows that come or go between the passes are noticed, and nothing is written."""
    packed, _, rule, _, _ = case
    changed = replace(packed, n_rows=601)
    with pytest.raises(TableError, match=r"had 601 rows .* and 600 when"):
        count_rows(changed, rule)
    output = TableOutput(tmp_path / "out.parquet", is_folder=False)
    with pytest.raises(TableError, match="had 601 rows"), output.unfinished() as folder:
        write_labels(changed, rule, output, folder)
    assert not output.path.exists()
