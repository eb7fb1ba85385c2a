"""Running the paper's tables: outcomes, patience, what is kept, and sets that are missing."""

from __future__ import annotations

import json
import os
import threading
import time
import warnings
from dataclasses import dataclass, field

import pytest

from benchmarks import paper_tables
from benchmarks.paper_cells import Table2Cell
from benchmarks.paper_figures import TABLE2, TABLE3
from benchmarks.paper_tables import (
    MethodResult,
    Outcome,
    RunSettings,
    run_cell,
    run_table2,
    run_table3,
)
from coterie.errors import (
    DatasetUnavailableError,
    LabelWarning,
    TableError,
    TooManyPointsError,
)
from coterie.runtime.devices import n_threads


def burn(seconds: float) -> None:
    """Use that much processor time."""
    start = time.process_time()
    while time.process_time() - start < seconds:
        pass


@dataclass(frozen=True)
class MadeUpCell:
    """A cell whose methods do what their names say, and which remembers what was run."""

    methods: tuple[str, ...]
    dataset: str = "iris"
    condition: str = "raw, fixed"
    name: str = "made-up"
    ran: list = field(default_factory=list)

    def opened(self):
        """Count the reading of the set as well."""
        self.ran.append("opened")

        def score(seed, method):
            self.ran.append((seed, method))
            if method == "large":
                raise TooManyPointsError("too many\npoints")
            if method == "broken":
                raise ZeroDivisionError("no such thing")
            if method == "endless":
                burn(60)
            if method == "slow":
                burn(0.06)
            if method == "warns":
                warnings.warn("odd", LabelWarning, stacklevel=1)
            return seed / 4

        return lambda seed: lambda method: score(seed, method)


def test_accuracies_follow_the_draws():
    """Draw d is seeded with d; a method that runs has an accuracy in every draw."""
    cell = MadeUpCell(("good", "warns"))
    draws = run_cell(cell, RunSettings(3))
    assert [draw["good"].accuracy for draw in draws] == [0, 0.25, 0.5]
    assert {draw["good"].status for draw in draws} == {"ran"}
    assert draws[0]["warns"].warnings == {"LabelWarning": 1}
    assert cell.ran.count("opened") == 1


def test_a_set_that_is_too_large_is_told_from_a_failure():
    """A refusal for size is "too large"; any other exception is "failed", with what it said."""
    (draw,) = run_cell(MadeUpCell(("large", "broken", "good")), RunSettings(1))
    assert (draw["large"].status, draw["large"].message) == ("too large", "too many\npoints")
    assert (draw["broken"].status, draw["broken"].accuracy) == ("failed", None)
    assert draw["broken"].message == "ZeroDivisionError: no such thing"
    assert draw["good"].status == "ran"


def test_a_fit_that_does_not_end_is_given_up():
    """Processor time is limited to ten times the patience, and the next method runs."""
    cell = MadeUpCell(("endless", "good"))
    first, second = run_cell(cell, RunSettings(2, patience=0.02))
    assert first["endless"].status == "too slow"
    assert 0.2 <= first["endless"].seconds < 30
    assert first["good"].status == "ran"
    assert set(second) == {"good"}


def test_a_method_that_used_up_the_patience_gets_no_further_draws():
    """It is run until it has taken so long, the others go on."""
    draws = run_cell(MadeUpCell(("slow", "good")), RunSettings(4, patience=0.1))
    assert ["slow" in draw for draw in draws] == [True, True, False, False]
    assert all("good" in draw for draw in draws)


def test_off_the_main_thread_there_is_no_limit():
    """Signals reach the main thread only; elsewhere a fit runs to its end."""
    found = []
    cell = MadeUpCell(("slow",))
    thread = threading.Thread(
        target=lambda: found.extend(run_cell(cell, RunSettings(1, patience=0.001)))
    )
    thread.start()
    thread.join()
    assert found[0]["slow"].status == "ran"


def test_kept_draws_are_not_computed_again(tmp_path):
    """A second run reads what the first kept, without reading the set."""
    cell, again = MadeUpCell(("good", "warns", "large")), MadeUpCell(("good", "warns", "large"))
    first = run_cell(cell, RunSettings(2, keep=tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made-up-0.json", "made-up-1.json"]
    assert run_cell(again, RunSettings(2, keep=tmp_path)) == first
    assert again.ran == []


def test_a_further_method_is_added_to_what_was_kept(tmp_path):
    """Only what is missing is computed, and nothing that was kept is lost."""
    run_cell(MadeUpCell(("good",)), RunSettings(1, keep=tmp_path))
    cell = MadeUpCell(("warns",))
    (draw,) = run_cell(cell, RunSettings(2, keep=tmp_path))[:1]
    assert list(draw) == ["warns"]
    assert cell.ran == ["opened", (0, "warns"), (1, "warns")]
    assert set(json.loads((tmp_path / "made-up-0.json").read_text())) == {"good", "warns"}


def test_failures_are_tried_again_and_so_is_what_had_too_little_time(tmp_path):
    """A kept failure is no result; a fit given up is one, until there is more patience."""
    kept = {
        "broken": {"status": "failed", "seconds": 0.0, "message": "once"},
        "good": {"status": "too slow", "seconds": 10.0, "message": "given up"},
    }
    (tmp_path / "made-up-0.json").write_text(json.dumps(kept))
    settings = RunSettings(1, keep=tmp_path, patience=1.0)
    (draw,) = run_cell(MadeUpCell(("good", "broken")), settings)
    assert draw["good"].status == "too slow"
    assert "no such thing" in draw["broken"].message
    (draw,) = run_cell(MadeUpCell(("good",)), RunSettings(1, keep=tmp_path, patience=2.0))
    assert draw["good"].status == "ran"


@pytest.mark.parametrize("text", ["", "[]", '{"good": {}}', '{"good": 3}'])
def test_a_file_that_is_no_kept_draw_is_refused(tmp_path, text):
    """The message names the file and says what to do."""
    (tmp_path / "made-up-0.json").write_text(text)
    with pytest.raises(TableError, match=r"made-up-0\.json is not .*; remove it"):
        run_cell(MadeUpCell(("good",)), RunSettings(1, keep=tmp_path))


def test_a_cell_computes_on_one_thread_and_leaves_the_environment_alone(tmp_path, monkeypatch):
    """Within a cell there is one thread, and the folder of data is the one given; not after."""
    monkeypatch.setenv("COTERIE_NUM_THREADS", "3")
    monkeypatch.delenv("COTERIE_DATA", raising=False)
    seen = []

    class Looking(MadeUpCell):
        def opened(self):
            seen.append((n_threads(), os.environ["COTERIE_DATA"]))
            return super().opened()

    run_cell(Looking(("good",)), RunSettings(1, data=tmp_path))
    assert seen == [(1, str(tmp_path))]
    assert n_threads() == 3
    assert "COTERIE_DATA" not in os.environ


def outcome(status, accuracy=None, message=""):
    """An outcome that took a second."""
    return Outcome(status, 1.0, accuracy, message)


def test_the_result_of_a_method_over_its_draws():
    """Draws that ran are averaged; a failure in any draw is the status of all."""
    ran = MethodResult((outcome("ran", 0.5), outcome("too large", None, "m"), outcome("ran", 0.7)))
    assert (ran.status, ran.scores.mean, ran.messages) == (
        "ran",
        pytest.approx(0.6),
        ["too large: m"],
    )
    failed = MethodResult((outcome("ran", 0.5), outcome("failed", None, "x")))
    assert (failed.status, failed.scores) == ("failed", None)
    slow = MethodResult((outcome("too large"), outcome("too slow")))
    assert (slow.status, slow.scores) == ("too slow", None)


@pytest.fixture
def small_table(monkeypatch):
    """Table 2 of two sets, one condition and quick methods; the second set is not to be had."""
    read = paper_tables.load_views

    def load(dataset):
        if dataset == "soybean_small":
            raise DatasetUnavailableError("it is nowhere\nto be had")
        return read("iris")

    def cells(datasets, conditions=(("raw", "fixed"),), all_methods=False):
        methods = ("k-means", "rcc", "robust", *(("one-hot",) if all_methods else ()))
        return [Table2Cell("iris", *c, methods) for _ in datasets[:1] for c in conditions]

    monkeypatch.setattr(paper_tables, "load_views", load)
    monkeypatch.setattr(paper_tables, "table2_cells", cells)


def test_table_2_runs_and_names_what_is_missing(small_table):
    """Rows by condition, set and method; a set that is not here is named with the reason."""
    done = []
    settings = RunSettings(2, n_jobs=1)
    results = run_table2(settings, all_methods=True, after_cell=done.append)
    assert results.table is TABLE2
    assert results.absent == {"soybean_small": "it is nowhere to be had"}
    assert done == ["table2-iris-raw-fixed"]
    row = results.rows["raw, fixed"]["iris"]
    assert list(row) == ["k-means", "rcc", "robust", "one-hot"]
    assert all(len(found.scores.accuracies) == 2 for found in row.values())
    assert row["robust"].scores.mean > 0.85


def test_quick_leaves_large_sets_and_other_recipes_out(small_table):
    """They are named as left out; there is one recipe."""
    results = run_table2(RunSettings(1, n_jobs=1), quick=True)
    assert results.absent["reuters"] == "--quick leaves it out"
    assert list(results.rows) == ["mixed, fixed", "mixed, diverse"]


def test_table_3_without_any_set_is_empty_and_says_why(tmp_path, monkeypatch):
    """Without data there are no rows, and a reason for each set."""

    def load(dataset):
        assert os.environ["COTERIE_DATA"] == str(tmp_path)
        raise DatasetUnavailableError("gone")

    monkeypatch.setattr(paper_tables, "load_views", load)
    results = run_table3(RunSettings(1, data=tmp_path))
    assert results.rows == {}
    assert results.absent == dict.fromkeys(TABLE3.sets, "gone")


def test_a_wrong_folder_of_data_is_refused(tmp_path):
    """It is not taken for a folder in which nothing was found."""
    with pytest.raises(DatasetUnavailableError, match="is not a folder; name the one"):
        run_table2(RunSettings(1, data=tmp_path / "nowhere"))
