"""The program on larger and larger tables: trials are judged, kept and bounded."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from benchmarks import scale, scale_labels
from benchmarks.program import app
from benchmarks.program_runs import ProgramRun, run_program
from benchmarks.scale import Effort, NotRun, ScaleResults, ScaleTrial, run_scale
from benchmarks.scale_labels import Recipe, label_chunks, write_labels
from coterie.errors import OutputError, TableError
from coterie.inspection.scores import clustering_accuracy

MEGABYTE = 1_000_000


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of few rows, so that small tables have several."""
    monkeypatch.setattr(scale_labels, "CHUNK_ROWS", 4096)


def rows_of(recipe: Recipe) -> tuple[np.ndarray, np.ndarray]:
    """All labels (n, V) and the truth (n,) of a recipe."""
    chunks = list(label_chunks(recipe))
    P = np.vstack([np.column_stack(chunk.columns) for chunk in chunks])
    return P, np.concatenate([chunk.y for chunk in chunks])


class FakeProgram:
    """Stands in for ``coterie consensus``: takes a millisecond a row, answers with column p0."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.compiles_at: set[int] = set()
        self.spoil = lambda table: table
        self.run = ProgramRun(0, True, 0.0, 0.5, 5 * MEGABYTE, "", "")
        engine = {"tuples": 7, "path": "streamed", "seconds": {"fit": 0.25}}
        self.facts = {"clusters": 10, "seconds": 2.0, "engine": engine}

    def __call__(self, command, _, variables) -> ProgramRun:
        """Do what the command says, in reverse order."""
        source, out = command[command.index("consensus") + 1], command[command.index("-o") + 1]
        table = pq.read_table(source, columns=["id", "p0"]).rename_columns(["id", "label"])
        n = table.num_rows
        self.sizes.append(n)
        if n in self.compiles_at:
            self.compiles_at.remove(n)
            kernels = Path(variables["NUMBA_CACHE_DIR"])
            kernels.mkdir(exist_ok=True)
            (kernels / f"{n}.nbc").touch()
        pq.write_table(self.spoil(table.take(np.arange(n)[::-1])), out)
        return self.run._replace(
            seconds=n / 1000 if self.run.seconds == 0 else self.run.seconds,
            output=json.dumps(self.facts),
        )


@pytest.fixture
def program(monkeypatch, small_chunks):
    """No program is run; what would be is recorded."""
    fake = FakeProgram()
    monkeypatch.setattr(scale, "run_program", fake)
    return fake


def test_sizes_grow_by_the_root_of_ten():
    """From 10⁴ to 10⁷; a bound between two sizes stops at the lower."""
    sizes = Effort().sizes
    assert (sizes[0], sizes[-1], len(sizes)) == (10**4, 10**7, 7)
    assert all(round((b / a) ** 2, 2) == 10 for a, b in pairwise(sizes))
    assert Effort(most=99_999).sizes == [10_000, 31_623]


def test_both_families_are_run_and_judged(program, tmp_path):
    """Rows are joined by id, whatever their order; facts are those the program told."""
    results = run_scale(Effort(most=40_000), tmp_path)
    assert program.sizes == [10_000, 31_623] * 2
    assert [(t.family, t.n_points) for t in results.trials] == [
        ("fixed", 10_000), ("fixed", 31_623), ("diverse", 10_000), ("diverse", 31_623),
    ]  # fmt: skip
    assert results.not_run == []
    for trial in results.trials:
        P, y = rows_of(Recipe(trial.family, trial.n_points))
        assert trial.status == "done"
        assert trial.accuracy == clustering_accuracy(y, P[:, 0])
        assert (trial.n_clusters, trial.n_tuples, trial.path) == (10, 7, "streamed")
        assert trial.stages == {"fit": 0.25}
        assert (trial.seconds, trial.peak_bytes) == (trial.n_points / 1000, 5 * MEGABYTE)
        assert trial.first_seconds is None


def test_facts_the_program_does_not_tell_are_left_open(program, tmp_path):
    """Other names are understood, and none is needed; seconds in all are no stages."""
    program.facts = {"n_tuples": 3, "seconds": 1.5}
    trial = run_scale(Effort(most=10_000), tmp_path).trials[0]
    assert (trial.status, trial.n_tuples, trial.n_clusters, trial.path) == ("done", 3, None, None)
    assert (trial.tuples_exact, trial.stages) == (True, {})


def test_finished_trials_are_not_made_again(program, tmp_path, monkeypatch):
    """A second run goes on from those kept; for another program all are made anew."""
    first = run_scale(Effort(most=10_000), tmp_path)
    assert run_scale(Effort(most=40_000), tmp_path).trials[0] == first.trials[0]
    assert program.sizes == [10_000, 10_000, 31_623, 31_623]
    monkeypatch.setattr(scale, "_program_digest", lambda: "another")
    run_scale(Effort(most=10_000), tmp_path)
    assert program.sizes[4:] == [10_000, 10_000]


def test_a_run_that_compiles_is_made_again(program, tmp_path):
    """The second counts, and the first is told apart."""
    program.compiles_at = {10_000}
    fixed, diverse = run_scale(Effort(most=10_000), tmp_path).trials
    assert program.sizes == [10_000] * 3
    assert (fixed.first_seconds, diverse.first_seconds) == (10.0, None)


def test_a_family_stops_where_the_next_table_would_take_too_long(program, tmp_path):
    """31.6 s at 31,623 points make 100 s at 100,000: not begun when 60 s are allowed."""
    results = run_scale(Effort(most=400_000, seconds=60.0), tmp_path)
    assert program.sizes == [10_000, 31_623] * 2
    assert [(left.family, left.n_points) for left in results.not_run] == [
        ("fixed", 100_000), ("fixed", 316_228), ("diverse", 100_000), ("diverse", 316_228),
    ]  # fmt: skip
    assert results.not_run[0].why == "about 100 s expected, more than 60 s"


@pytest.mark.parametrize(
    ("run", "status", "message"),
    [
        (ProgramRun(-9, False, 61.0, 1.0, 1, "", ""), "time-out", "no answer in 61 s"),
        (ProgramRun(-9, True, 1.0, 1.0, 1, "", ""), "memory", "killed by the system"),
        (ProgramRun(1, True, 1.0, 1.0, 1, "", "a\nMemoryError: 9 GB"), "memory", "MemoryError"),
        (ProgramRun(1, True, 1.0, 1.0, 1, "", "error: no id"), "crash", "error: no id"),
        (ProgramRun(3, True, 1.0, 1.0, 1, "", ""), "crash", "ended with status 3"),
    ],
)
def test_a_failure_ends_the_family_and_is_tried_again(program, tmp_path, run, status, message):
    """Each way to fail has its name; a failure is not kept, so the next run tries again."""
    program.run = run
    results = run_scale(Effort(most=40_000), tmp_path)
    assert [trial.status for trial in results.trials] == [status, status]
    assert message in results.trials[0].message
    assert results.not_run[0] == NotRun("fixed", 31_623, f"{status} at 10,000")
    program.run = FakeProgram().run
    assert {trial.status for trial in run_scale(Effort(most=10_000), tmp_path).trials} == {"done"}


def test_messages_do_not_tell_where_things_lie(program, tmp_path):
    """The folder we work in and that of the package are left out of what a failure says."""
    package = Path(scale.__file__).parents[1]
    said = f"error: {tmp_path}/fixed-10000.parquet: no ({package}/labels.py)"
    program.run = ProgramRun(1, True, 1.0, 1.0, 1, "", said)
    found = run_scale(Effort(most=10_000), tmp_path).trials[0]
    assert found.message == "error: fixed-10000.parquet: no (coterie/labels.py)"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda table: table.slice(1), "9,999 rows, which are not the 10,000 ids, each once"),
        (lambda table: table.take([0, *range(9999)]), "not the 10,000 ids"),
        (lambda table: table.rename_columns(["id", "colour"]), "cannot be read"),
        (lambda table: table.set_column(1, "label", [["a"] * 10_000]), "not whole numbers"),
    ],
)
def test_labels_that_are_none_are_told(program, tmp_path, spoil, message):
    """Rows lost or doubled, a column missing, or labels that are texts are no answer."""
    program.spoil = spoil
    trial = run_scale(Effort(most=10_000), tmp_path).trials[0]
    assert trial.status == "wrong labels"
    assert message in trial.message
    assert trial.accuracy is None


def test_the_real_program_is_understood(small_chunks, tmp_path):
    """It finds the planted clusters of a small table, and tells its tuples in JSON."""
    files, out = write_labels(Recipe("fixed", 600), tmp_path), tmp_path / "out.parquet"
    command = [*scale._PROGRAM, "consensus", str(files.table), "--id", "id", "-k", "10"]
    run = run_program([*command, "-o", str(out), "--quiet", "--json"], 120)
    assert run.status == 0, run.error
    found = scale._judged(run, out, files.truth)
    assert (found["status"], found["n_clusters"], found["n_tuples"]) == ("done", 10, 600)
    assert found["accuracy"] > 0.99


@pytest.fixture
def results() -> ScaleResults:
    """One trial, too slow for its target."""
    slow = ScaleTrial("fixed", 10**7, "done", seconds=207.0, peak_bytes=10**9, accuracy=0.999)
    return ScaleResults(Effort(), [slow], [NotRun("diverse", 10**7, "memory at 3,162,278")])


@pytest.fixture
def measured(monkeypatch, results):
    """The efforts that were asked for; they take no time."""
    asked = []

    def run(effort, folder, before_step):
        before_step("measuring")
        folder.mkdir()
        (folder / "table").touch()
        asked.append(effort)
        return results

    monkeypatch.setattr(scale, "run_scale", run)
    return asked


def command(*arguments: str):
    """What the program does with these arguments; its errors are raised here."""
    return CliRunner().invoke(app, ["scale", *arguments], catch_exceptions=False)


def test_the_command_writes_its_report_and_tidies_up(measured, tmp_path):
    """JSON as printed, page and picture; what is not ours stays in the folder we worked in."""
    room, out = tmp_path / "room", tmp_path / "out"
    room.mkdir()
    (room / "thesis.tex").touch()
    found = command("--json", "--folder", str(room), "-o", str(out))
    assert measured == [Effort(10**7, 600.0)]
    assert (out / "scale.json").read_text() == found.stdout
    assert (out / "scale.png").read_bytes().startswith(b"\x89PNG")
    assert "--most 10000000 --seconds 600`" in (out / "scale.md").read_text()
    assert [path.name for path in room.iterdir()] == ["thesis.tex"]


def test_the_command_shows_tables_and_keeps_its_folder_if_asked(measured, tmp_path):
    """--quick is up to 100,000 points, --most up to whatever; --keep leaves tables and trials."""
    found = command("--quick", "--seconds", "9", "--keep", "--folder", str(tmp_path))
    assert "missed by 15%" in found.stdout
    assert "Note: diverse K, 10,000,000 points: not run" in found.stdout
    assert (tmp_path / "coterie-scale" / "table").exists()
    command("--quick", "--most", "1e6", "--folder", str(tmp_path / "other"))
    assert measured == [Effort(10**5, 9.0), Effort(10**6, 600.0)]


def test_the_command_refuses_before_the_work(measured, tmp_path):
    """A report of peers that is none, a folder that is a file, too few points."""
    (tmp_path / "peers.json").write_text("{}")
    with pytest.raises(
        TableError, match=r"peers\.json is not what python -m benchmarks peers writes"
    ):
        command("-o", str(tmp_path))
    with pytest.raises(OutputError, match="cannot make the folder"):
        command("--folder", str(tmp_path / "peers.json"))
    assert command("--most", "100").exit_code == 2
    assert measured == []
