"""Tables that stay in an engine: what is generated, how it is judged, and what is told of it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks import table_engines
from benchmarks import table_engines_report as report
from benchmarks.program import app
from benchmarks.program_runs import ProgramRun
from benchmarks.table_engines import (
    Effort,
    EngineRun,
    Kill,
    KilledRuns,
    SparkBesideDuckDB,
    TableEngineResults,
    run_table_engines,
)
from benchmarks.table_engines_labels import (
    N_CLUSTERS,
    N_PARTITIONS,
    N_TUPLES,
    N_WRONG,
    NOISE_PERCENT,
    PlantedTables,
)
from coterie.errors import InvalidParameterError, OutputError, TableError
from coterie.inspection.scores import adjusted_rand_index, clustering_accuracy

N_ROWS = 12_000
PRIME = 2**31 - 1
DESCRIBED = {
    "date": "today",
    "cpu": "abacus",
    "threads": 1,
    "platform": "Linux",
    "versions": {"coterie": "0"},
}


def mixed(x: int) -> int:
    """The hash of the recipe, in Python's integers."""
    return (x * 48271 + 11) ** 2 % PRIME * 1000003 % PRIME


def prototypes() -> tuple[np.ndarray, np.ndarray]:
    """Truth and distinct tuples, by the words of the recipe."""
    found: dict[tuple[int, ...], int] = {}
    for number in range(2 * N_TUPLES):
        draws = [mixed(mixed(number * 64 + place) + 7) for place in range(2 + 2 * N_PARTITIONS)]
        truth = int(np.searchsorted([35, 60, 78, 91], draws[0] % 100, side="right"))
        votes = [truth] * (N_PARTITIONS - N_WRONG) + [draws[1] % N_CLUSTERS] * N_WRONG
        for v in range(N_PARTITIONS):
            if draws[2 + v] % 100 < NOISE_PERCENT:
                votes[v] = draws[2 + N_PARTITIONS + v]
        found.setdefault(tuple((vote + v) % N_CLUSTERS for v, vote in enumerate(votes)), truth)
    tuples = list(found)[:N_TUPLES]
    return np.array([found[votes] for votes in tuples]), np.array(tuples)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Tables in a folder whose name SQL and globs would stumble over."""
    folder = tmp_path_factory.mktemp("tables") / "it's [here]"
    folder.mkdir()
    with PlantedTables(folder) as made:
        yield made


@pytest.fixture(scope="module")
def expected():
    """Truth and labels of every row, computed here."""
    truth, tuples = prototypes()
    later = [mixed(i) ** 2 // PRIME * N_TUPLES // PRIME for i in range(N_TUPLES, N_ROWS)]
    of_row = np.concatenate([np.arange(N_TUPLES), later]).astype(int)
    return truth[of_row], tuples[of_row]


def write(path: Path, labels, confidence=0.5, ids=None) -> Path:
    """A table as the program writes it."""
    ids = np.arange(len(labels)) if ids is None else np.asarray(ids)
    confidence = np.broadcast_to(np.asarray(confidence, dtype=float), len(ids))
    columns = {"id": ids, "label": np.asarray(labels, dtype=np.int32), "confidence": confidence}
    pq.write_table(pa.table(columns), path)
    return path


def test_a_table_is_what_the_recipe_says(tables, expected):
    """Every label of every row, in small types."""
    table = pq.read_table(tables.file(N_ROWS)).sort_by("id")
    names = [f"p{v}" for v in range(N_PARTITIONS)]
    assert table.schema.names == ["id", *names]
    assert table.schema.types == [pa.int64(), *[pa.uint8()] * N_PARTITIONS]
    assert table["id"].to_pylist() == list(range(N_ROWS))
    np.testing.assert_array_equal(np.column_stack([table[n] for n in names]), expected[1])


@pytest.mark.parametrize("n_rows", [N_TUPLES, N_ROWS])
def test_a_table_has_the_promised_number_of_tuples(tables, n_rows):
    """Every prototype occurs, and no two are alike."""
    distinct = "SELECT count(*) FROM (SELECT DISTINCT * EXCLUDE id FROM {})"
    assert tables.count(distinct, tables.file(n_rows)) == N_TUPLES


def test_wrong_columns_are_wrong_together(expected):
    """They agree with one another, and with the truth no better than chance."""
    truth, labels = expected
    right, wrong = labels[:, 0], labels[:, -1]
    assert adjusted_rand_index(right, labels[:, 1]) > 0.3
    assert adjusted_rand_index(wrong, labels[:, -2]) > 0.3
    assert abs(adjusted_rand_index(right, wrong)) < 0.02
    assert adjusted_rand_index(truth, right) > 0.5 and np.bincount(truth).min() > 0.04 * N_ROWS


def test_a_table_that_is_there_is_used_again(tables):
    """It is not written a second time, and how long writing took is known from the first."""
    path = tables.file(N_ROWS)
    before = path.stat().st_mtime_ns
    assert tables.file(N_ROWS).stat().st_mtime_ns == before
    with PlantedTables(tables.folder) as others:
        assert others.file(N_ROWS) == path and others.seconds == {}
    assert tables.seconds[N_ROWS] > 0


def test_a_table_that_cannot_be_written_leaves_nothing(tmp_path):
    """The folder is named; nothing is in it."""
    with PlantedTables(tmp_path / "gone") as made, pytest.raises(OutputError, match="gone"):
        made.file(N_ROWS)
    assert list(tmp_path.iterdir()) == []


@settings(
    deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(noise=st.floats(0, 1), n_labels=st.integers(1, 9), seed=st.integers(0, 99))
def test_accuracy_is_that_of_all_rows(tables, expected, tmp_path, noise, n_labels, seed):
    """Counted in DuckDB, it is what the library gives for arrays, whatever the order of rows."""
    rng = np.random.default_rng(seed)
    redrawn = rng.integers(n_labels, size=N_ROWS)
    labels = np.where(rng.random(N_ROWS) < noise, redrawn, (expected[0] + 2) % n_labels)
    order = rng.permutation(N_ROWS)
    out = write(tmp_path / "out.parquet", labels[order], ids=order)
    assert tables.accuracy(out, N_ROWS) == pytest.approx(clustering_accuracy(expected[0], labels))


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (range(N_ROWS - 1), "11,999 rows, which are not the 12,000 ids, each once"),
        ([0, *range(N_ROWS - 1)], "not the 12,000 ids"),
        ([0, 2, 2, *range(3, N_ROWS)], "not the 12,000 ids"),
        ([0, 0, 3, 3, *range(4, N_ROWS)], "not the 12,000 ids"),
    ],
)
def test_ids_lost_or_doubled_are_no_answer(tables, tmp_path, ids, message):
    """Also where their number, or their number and their sum, are right."""
    out = write(tmp_path / "out.parquet", np.zeros(len(ids)), ids=ids)
    with pytest.raises(TableError, match=message):
        tables.accuracy(out, N_ROWS)


@pytest.mark.parametrize(
    ("change", "n_different"),
    [
        ({}, 0),
        ({"confidence": [0.5 + 1e-13, 0.5, 0.5]}, 0),
        ({"confidence": [0.5 + 1e-11, 0.5, 0.5]}, 1),
        ({"confidence": [np.nan, 0.5, 0.5]}, 1),
        ({"labels": [0, 1, 1]}, 1),
        ({"ids": [2, 1, 0], "labels": [2, 1, 0]}, 0),
        ({"ids": [0, 1, 7]}, 2),
        ({"ids": [0, 1], "labels": [0, 1]}, 1),
    ],
)
def test_rows_that_differ_are_counted(tables, tmp_path, change, n_different):
    """By id, whichever of the two comes first; a folder of files is a table too."""
    one = write(tmp_path / "one.parquet", [0, 1, 2])
    (tmp_path / "other").mkdir()
    write(tmp_path / "other" / "part.parquet", **{"labels": [0, 1, 2], **change})
    (tmp_path / "other" / "_SUCCESS").touch()
    assert tables.n_different(one, tmp_path / "other") == n_different
    assert tables.n_different(tmp_path / "other", one) == n_different


class FakeProgram:
    """It answers with the first column, at once; ``spoil`` changes what it does on Spark."""

    def __init__(self, monkeypatch):
        self.commands, self.moments = [], []
        self.spoil = lambda run, _: run
        monkeypatch.setattr(table_engines, "run_program", self.run)
        monkeypatch.setattr(table_engines, "_kill", self.kill)

    def run(self, command, _):
        """Write a table as DuckDB, or a folder as Spark."""
        table, out, engine = (
            command[list(command).index(name) + 1] for name in ("consensus", "-o", "--engine")
        )
        self.commands.append(command)
        rows = pq.read_table(table, columns=["id", "p0"])
        if engine.startswith("pyspark"):
            Path(out).mkdir()
        place = Path(out) / "part.parquet" if engine.startswith("pyspark") else Path(out)
        write(place, rows["p0"], ids=rows["id"])
        told = {"tuples": N_TUPLES, "path": "tuples", "seconds": {"fit": 1.0, "write": 0.5}}
        found = ProgramRun(0, True, 2.0, 3.0, 10**8, json.dumps({"engine": told}), "")
        return self.spoil(found, place) if engine.startswith("pyspark") else found

    def kill(self, command, is_now):
        """A run that is killed leaves its folder; the next one here does not remove it."""
        self.moments.append((is_now(0.9), is_now(1.1)))
        out = Path(command[list(command).index("-o") + 1])
        (out.parent / ".left.unfinished").mkdir(exist_ok=True)
        return 1.0, True


@pytest.fixture
def program(monkeypatch):
    """A program that takes no time."""
    return FakeProgram(monkeypatch)


def test_a_run_of_all_parts(program, tmp_path, expected):
    """Spark beside DuckDB, killed runs, the largest table; only tables are left in the folder."""
    steps = []
    found = run_table_engines(Effort(N_ROWS), tmp_path, "pyspark://host:1", steps.append)
    accuracy = clustering_accuracy(expected[0], expected[1][:, 0])
    assert found.largest == EngineRun(
        "DuckDB", N_ROWS, "", 2.0, 3.0, 10**8, pytest.approx(accuracy), N_TUPLES, "tuples",
        {"fit": 1.0, "write": 0.5},
    )  # fmt: skip
    assert found.spark.spark.engine == "Spark" and found.spark.n_different == 0
    assert [(kill.in_time, kill.output, kill.n_left) for kill in found.killed.kills] == [
        (True, "none", 1), (True, "none", 1),
    ]  # fmt: skip
    assert (found.killed.n_different, found.killed.n_left) == (0, 1)
    assert found.table_bytes > 0 and "DuckDB, 12,000 rows" in steps
    assert all(path.name.startswith("labels-") for path in tmp_path.iterdir())
    # half of two seconds; nothing is written, so the other moment does not come
    assert program.moments == [(False, True), (False, False)]
    limited = ["--memory-limit" in command for command in program.commands]
    assert limited == [True, True, False, True, True, True]


def test_without_spark_it_is_left_out(program, tmp_path):
    """No run but DuckDB's."""
    found = run_table_engines(Effort(N_ROWS), tmp_path)
    assert found.spark is None
    assert all("duckdb://" in command for command in program.commands)


def test_what_spark_answers_otherwise_is_counted(program, tmp_path):
    """Rows it lacks are no answer; rows that differ are told by their number."""

    def other_confidence(run, out):
        rows = pq.read_table(out)
        confidence = np.where(rows["id"].to_numpy() < 3, 0.25, 0.5)
        write(out, rows["label"], confidence, rows["id"])
        return run

    program.spoil = other_confidence
    found = run_table_engines(Effort(N_ROWS), tmp_path, "pyspark://host:1")
    assert found.spark.n_different == 3

    def lose_a_row(run, out):
        pq.write_table(pq.read_table(out).slice(1), out)
        return run

    program.spoil = lose_a_row
    found = run_table_engines(Effort(N_ROWS), tmp_path, "pyspark://host:1")
    assert found.spark.n_different is None
    assert found.spark.spark.message.startswith("11,999 rows, which are not")


def test_a_failure_is_told_without_places(program, tmp_path):
    """The last line of the error, without the folder we work in; the other parts go on."""
    said = f"Traceback\nError: {tmp_path}/labels.parquet: no\n"
    program.spoil = lambda run, _: run._replace(status=1, error=said)
    found = run_table_engines(Effort(N_ROWS), tmp_path, "pyspark://host:1")
    assert found.spark.spark.message == "Error: labels.parquet: no"
    assert found.spark.n_different is None and found.largest.message == ""


def test_a_process_is_killed_at_its_moment():
    """While it sleeps; one that has ended by then was not killed."""
    sleeper = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
    seconds, in_time = table_engines._kill(sleeper, lambda seconds: seconds > 0.05)
    assert in_time and 0.05 < seconds < 50
    _, in_time = table_engines._kill([sys.executable, "-S", "-c", ""], lambda _: False)
    assert not in_time


def test_what_a_killed_run_leaves_is_nothing_whole_or_partial(tables, tmp_path):
    """Whole is what an undisturbed run gives; a file cut off is partial."""
    bench = table_engines._Bench(tables, tmp_path, tmp_path, lambda _: None)
    whole, out = write(tmp_path / "whole.parquet", [0, 1, 2]), tmp_path / "out.parquet"
    assert bench._state(out, whole) == "none"
    write(out, [0, 1, 2])
    assert bench._state(out, whole) == "whole"
    write(out, [0, 1])
    assert bench._state(out, whole) == "partial"
    out.write_bytes(whole.read_bytes()[:-9])
    assert bench._state(out, whole) == "partial"


def test_bytes_of_an_unfinished_output_are_seen(tmp_path):
    """Those in hidden folders alone, but for folders that an earlier run has left."""
    assert table_engines._bytes_unfinished(tmp_path, ()) == 0
    for name, content in ((".a.unfinished", b"12345"), (".b.unfinished", b"12")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows.parquet").write_bytes(content)
    (tmp_path / "out.parquet").write_bytes(b"123")
    assert table_engines._bytes_unfinished(tmp_path, ()) == 7
    assert table_engines._bytes_unfinished(tmp_path, {tmp_path / ".a.unfinished"}) == 2
    assert table_engines._n_left(tmp_path) == 2


def test_the_real_program_finds_the_clusters(tables, tmp_path):
    """Its JSON is understood, and its labels are the planted ones."""
    bench = table_engines._Bench(tables, tables.folder, tmp_path, lambda _: None)
    found = bench.run(N_ROWS, tmp_path / "out.parquet")
    assert (found.message, found.n_tuples, found.path) == ("", N_TUPLES, "tuples")
    assert found.accuracy > 0.99 and found.peak_bytes > 10**7
    assert {"group", "fit", "write"} <= set(found.stages)


@pytest.fixture
def results() -> TableEngineResults:
    """All as it should be."""
    run = EngineRun(
        "DuckDB", 10**8, "", 60.0, 99.0, 5 * 10**8, 0.9999, 5000, "tuples", {"group": 9.0}
    )
    small = replace(run, n_rows=10**6, seconds=4.0)
    kills = (
        Kill("half of its time", 5.0, True, "none", 0),
        Kill("half of the rows written", 8.0, True, "none", 1),
    )
    whole = replace(run, n_rows=10**7, seconds=10.0)
    return TableEngineResults(
        Effort(), run, 10**9, 30.0,
        SparkBesideDuckDB(small, replace(small, engine="Spark", stages={"fit": 1.0}), 0),
        KilledRuns(whole, kills, replace(whole, seconds=9.1), 0, 0),
        0.5,
    )  # fmt: skip


def told(results: TableEngineResults) -> list[tuple[str, str]]:
    """The verdicts without what they are about."""
    return [(verdict.in_words, verdict.found) for verdict in report.verdicts(results)]


def test_verdicts_where_all_is_well(results):
    """Memory, Spark, killed runs."""
    assert told(results) == [
        ("met", "100,000,000 rows took 500.0 MB and 60.0 s"),
        ("met", "0 of 1,000,000 rows differ"),
        ("met", "no partial output; the next run took 9.10 s"),
    ]


def test_verdicts_of_memory(results):
    """Missed above 3 GB or without an answer; a smaller table says nothing of a large one."""
    large = replace(results.largest, peak_bytes=4 * 10**9)
    failed = EngineRun("DuckDB", 10**8, "out of memory")
    small = replace(results.largest, n_rows=10**6)
    found = [told(replace(results, largest=run))[0] for run in (large, failed, small)]
    assert [words for words, _ in found] == ["missed", "missed", "not measured"]
    assert found[1][1] == "out of memory"


def test_verdicts_of_spark(results):
    """Missed if a row differs or Spark fails; not measured without Spark, or without DuckDB."""
    pair = results.spark
    failed = EngineRun("Spark", 10**6, "no such host")
    cases = [
        replace(pair, n_different=2),
        replace(pair, spark=failed, n_different=None),
        replace(pair, duckdb=replace(failed, engine="DuckDB"), n_different=None),
        None,
    ]
    assert [told(replace(results, spark=case))[1] for case in cases] == [
        ("missed", "2 of 1,000,000 rows differ"),
        ("missed", "no such host"),
        ("not measured", "DuckDB has no answer"),
        ("not measured", "Spark was left out"),
    ]


def test_verdicts_of_killed_runs(results):
    """A whole output is no fault, a partial one is; so is what the next run leaves or changes."""
    killed = results.killed
    late, half = (replace(killed.kills[1], output=output) for output in ("whole", "partial"))
    sooner = replace(late, in_time=False)
    cases = [
        replace(killed, kills=(late,)),
        replace(killed, kills=(killed.kills[0], half)),
        replace(killed, kills=(sooner,)),
        replace(killed, n_left=1),
        replace(killed, n_different=7),
        replace(killed, again=EngineRun("DuckDB", 10**7, "no"), n_different=None),
        KilledRuns(killed.whole),
    ]
    assert [told(replace(results, killed=case))[2] for case in cases] == [
        ("met", "no partial output; the next run took 9.10 s"),
        ("missed", "1 of 2 killed runs left a partial output"),
        ("not measured", "no run was killed in time"),
        ("missed", "no partial output; the next run took 9.10 s, left 1 unfinished folders and "
         "0 other rows"),
        ("missed", "no partial output; the next run took 9.10 s, left 0 unfinished folders and "
         "7 other rows"),
        ("missed", "no partial output; the next run failed: no"),
        ("not measured", "there was no run to kill"),
    ]  # fmt: skip


def test_tables_show_every_run(results):
    """Spark's memory is not ours to tell; what was missed stands out; failures in their place."""
    runs, stages, kills, verdicts = report.as_tables(results)
    assert [row[:3] for row in runs.rows] == [
        ("largest table", "DuckDB", "100,000,000"),
        ("undisturbed", "DuckDB", "10,000,000"),
        ("after killed ones", "DuckDB", "10,000,000"),
        ("the same table", "DuckDB", "1,000,000"),
        ("the same table", "Spark", "1,000,000"),
    ]
    assert runs.rows[0][3:] == ("tuples", "5,000", "60.0", "99.0", "500.0 MB", "0.9999")
    assert runs.rows[-1][6:8] == ("–", "–")
    assert stages.headings[3:] == ("group", "fit") and stages.rows[-1][3:] == ("", "1.00")
    assert kills.rows[1] == ("half of the rows written", "killed", "8.00 of 10.0", "none", "1")
    assert verdicts.stressed == set()
    failed = replace(results, largest=EngineRun("DuckDB", 10**8, "out of memory"))
    runs, *_, verdicts = report.as_tables(failed)
    assert runs.rows[0][5] == "failed" and verdicts.stressed == {(0, 2)}


def test_notes_tell_what_went_otherwise(results):
    """Nothing where all is well; failures, Spark left out, a kill too late, a busy machine."""
    assert report.notes(results) == []
    kill = replace(results.killed.kills[0], in_time=False)
    other = replace(
        results,
        largest=EngineRun("DuckDB", 10**8, "out of memory"),
        spark=None,
        killed=replace(results.killed, kills=(kill,)),
        load=2.5,
    )
    failure, spark, sooner, busy = report.notes(other)
    assert failure == "DuckDB, 100,000,000 rows (largest table): out of memory"
    assert spark.startswith("Spark was left out") and sooner.startswith("1 of the runs")
    assert "the machine was busy: 2.5 processes" in busy


def test_the_page_and_json_tell_all(results):
    """Command, machine, figures, verdicts, what is weak; JSON can be written and read."""
    page = report.as_page(results, DESCRIBED, "python -m benchmarks tables --rows 1e8")
    for part in (
        "`python -m benchmarks tables --rows 1e8`", "abacus", "a file of 1.0 GB, written in 30.0 s",
        "memory within 3.0 GB: met", "## What is weak", "Spark gets a small table", "## Verdicts",
    ):  # fmt: skip
        assert part in page
    alone = report.as_page(replace(results, spark=None, table_seconds=None), DESCRIBED, "c")
    assert "Spark gets a small table" not in alone and "a file of 1.0 GB." in alone
    again = json.loads(json.dumps(report.as_json(results, DESCRIBED, "c"), allow_nan=False))
    assert again["largest"]["peak_bytes"] == 5 * 10**8 and again["spark"]["n_different"] == 0
    assert [verdict["met"] for verdict in again["verdicts"]] == [True, True, True]


@pytest.fixture
def measured(monkeypatch, results):
    """What was asked for; it takes no time."""
    asked = []

    def run(effort, folder, spark, before_step):
        before_step("measuring")
        folder.mkdir()
        (folder / "table").touch()
        asked.append((effort.rows, spark))
        return results

    monkeypatch.setattr(table_engines, "run_table_engines", run)
    return asked


def command(*arguments: str):
    """What the program does with these arguments; its errors are raised here."""
    return CliRunner().invoke(app, ["tables", *arguments], catch_exceptions=False)


def test_the_command_writes_its_report_and_tidies_up(measured, tmp_path):
    """JSON as printed and a page, without a cluster's address; nothing stays where we worked."""
    room, out = tmp_path / "room", tmp_path / "out"
    arguments = ("--rows", "2e5", "--spark", "pyspark://host:1", "--folder", str(room))
    found = command("--json", *arguments, "-o", str(out))
    assert measured == [(200_000, "pyspark://host:1")]
    assert (out / "tables.json").read_text() == found.stdout
    assert (
        "`python -m benchmarks tables --rows 200000 --spark URL`" in (out / "tables.md").read_text()
    )
    assert list(room.iterdir()) == []


def test_the_command_shows_tables_and_keeps_its_folder_if_asked(measured, tmp_path):
    """--quick is a million rows, all is a hundred million."""
    found = command("--quick", "--keep", "--folder", str(tmp_path))
    assert "Spark: the rows that DuckDB gives: met: 0 of 1,000,000 rows differ." in found.stdout
    assert (tmp_path / "coterie-tables" / "table").exists()
    command("--folder", str(tmp_path / "other"))
    assert measured == [(10**6, None), (10**8, None)]


def test_the_command_refuses_before_the_work(measured, tmp_path):
    """An engine that is none, a folder that is a file, too few rows."""
    (tmp_path / "file").touch()
    with pytest.raises(InvalidParameterError, match="--spark elsewhere: say local"):
        command("--spark", "elsewhere", "--folder", str(tmp_path))
    with pytest.raises(OutputError, match="cannot make the folder"):
        command("--folder", str(tmp_path / "file"))
    assert command("--rows", "100").exit_code == 2
    assert measured == []
