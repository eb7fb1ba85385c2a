"""Running benchmarks: settings, kept trials, outcomes of methods, the files of a result."""

from __future__ import annotations

import json
import signal
import warnings
from functools import partial
from types import SimpleNamespace

import pytest

from benchmarks import accuracy, noise
from benchmarks.__main__ import main
from benchmarks.accuracy import Cell, run_cell, summarise
from benchmarks.harness import Context, KeptTrials, in_parallel, run_benchmark, settings_of
from benchmarks.noise import NoiseCell
from benchmarks.results import Result, Table
from coterie.errors import (
    DatasetUnavailableError,
    InvalidParameterError,
    LabelWarning,
    TableError,
    TooManyPointsError,
)


@pytest.fixture
def small_noise(monkeypatch):
    """Reduce the noise benchmark to one small cell."""
    monkeypatch.setattr(noise, "CORE_CELLS", (NoiseCell((12, 8), 4, 1, 0.1),))


def test_the_program_prints_json_and_writes_files(small_noise, tmp_path, capsys):
    """With --json the output is one object, the same as the file; tables otherwise."""
    folder = tmp_path / "new" / "report"
    arguments = ["noise", "--quick", "--set", "draws=1", "--keep", str(tmp_path)]
    assert main([*arguments, "--json", "-o", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert (folder / "noise.json").read_text() == printed
    assert len(json.loads(printed)["cells"][0]["methods"]["l2"]["accuracies"]) == 1
    assert (folder / "noise.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in folder.iterdir()) == ["noise.json", "noise.png"]
    assert main(arguments) == 0
    assert "RobustConsensus" in capsys.readouterr().out


def test_mistakes_end_with_one_message(small_noise, tmp_path, capsys):
    """Unknown settings and folders that cannot be written are errors before the run."""
    assert settings_of("noise") == {"draws": None}
    with pytest.raises(InvalidParameterError, match="draws=None"):
        run_benchmark("noise", Context(), ["drawz=3"])
    (tmp_path / "taken").write_text("")
    assert main(["noise", "--quick", "-o", str(tmp_path / "taken")]) == 1
    assert "taken" in capsys.readouterr().err


def test_trials_are_kept_by_their_description(tmp_path):
    """The order of keys is irrelevant; the later of two outcomes is kept; one line each."""
    path = tmp_path / "trials.jsonl"
    kept = KeptTrials(path)
    kept.add({"n": 1, "of": {"b": 2, "a": "ℓ1"}}, {"seconds": 1.5})
    kept.add({"n": 2}, {"seconds": 2.5})
    kept.add({"n": 2}, {"seconds": 3.5})
    again = KeptTrials(path)
    assert again.find({"of": {"a": "ℓ1", "b": 2}, "n": 1}) == {"seconds": 1.5}
    assert again.find_or_run({"n": 2}, dict) == {"seconds": 3.5}
    assert again.find({"n": 3}) is None
    assert len(path.read_text().splitlines()) == 2
    path.write_text('{"trial": {}, "found": {}}\n{"trial": {}}\n')
    with pytest.raises(TableError, match=r"trials\.jsonl, line 2"):
        KeptTrials(path)


def test_missing_datasets_are_named(monkeypatch, tmp_path):
    """Datasets that cannot be read come with the reason; a wrong folder is an error."""
    monkeypatch.delenv("COTERIE_DATA", raising=False)
    assert list(Context(data=tmp_path).missing_datasets(["iris", "reuters"])) == ["reuters"]
    with pytest.raises(DatasetUnavailableError, match="not a folder"):
        Context(data=tmp_path / "absent").missing_datasets([])


def test_parallel_results_come_with_their_places():
    """Results arrive in any order, each with the place of its task."""
    assert sorted(in_parallel(pow, [(2, 3), (3, 2)], jobs=1)) == [(0, 8), (1, 9)]


def test_a_result_holds_finite_figures_only():
    """JSON with NaN is refused; Markdown escapes bars and marks bold figures."""
    table = Table("T", ("a", "b"), [("x|y", "1")], bold={(0, 1)})
    assert "| x\\|y | **1** |" in table.markdown()
    with pytest.raises(ValueError, match="JSON"):
        Result("r", [], {"figure": float("nan")}).json_text()


def fake_cell(*methods, clock=None):
    """Return a cell whose methods do what their names say, and a list of what was run.

    A slow method advances the clock, and an endless one is stopped by the signal of the timer.
    """
    ran: list = []

    def score(seed, method):
        ran.append((seed, method))
        if method == "large":
            raise TooManyPointsError("too many\npoints")
        if method == "broken":
            raise ZeroDivisionError("no such thing")
        if method == "warns":
            warnings.warn("odd", LabelWarning, stacklevel=1)
        if method == "slow":
            clock.now += 0.06
        if method == "endless":
            signal.raise_signal(signal.SIGPROF)
        return seed / 4

    def load():
        ran.append("loaded")
        return lambda seed: partial(score, seed)

    return Cell("fake cell", methods, load), ran


def test_outcomes_of_methods():
    """Draw d is seeded with d; refusals, failures and warnings are distinguished."""
    cell, ran = fake_cell("good", "warns", "large", "broken")
    draws = run_cell(cell, 3, Context(), 60)
    assert [draw["good"]["accuracy"] for draw in draws] == [0, 0.25, 0.5]
    assert draws[0]["warns"]["warnings"] == {"LabelWarning": 1}
    assert draws[0]["large"]["status"] == "too large"
    assert draws[0]["broken"]["message"] == "ZeroDivisionError: no such thing"
    assert ran.count("loaded") == 1


def test_slow_methods_get_fewer_draws(monkeypatch):
    """Patience limits the draws of a method; a fit that does not end is stopped."""
    clock, timer = SimpleNamespace(now=0.0), []
    monkeypatch.setattr(accuracy, "time", SimpleNamespace(process_time=lambda: clock.now))
    monkeypatch.setattr(signal, "setitimer", lambda _, seconds: timer.append(seconds))
    draws = run_cell(fake_cell("slow", "good", clock=clock)[0], 4, Context(), 0.1)
    assert ["slow" in draw for draw in draws] == [True, True, False, False]
    assert all("good" in draw for draw in draws)
    first, second = run_cell(fake_cell("endless", "good")[0], 2, Context(), 0.02)
    assert (first["endless"]["status"], first["endless"]["seconds"]) == ("too slow", 0.2)
    assert set(second) == {"good"}
    assert set(timer) == {1.0, 0.2, 0}


def test_kept_outcomes_are_used_unless_they_may_change(tmp_path):
    """A run adds what is missing; failures and fits stopped too early are run again."""
    context = Context(keep=tmp_path)
    first = run_cell(fake_cell("good", "broken")[0], 1, context, 60)
    cell, ran = fake_cell("good", "large", "broken")
    (draw,) = run_cell(cell, 1, context, 60)
    assert draw["good"] == first[0]["good"]
    assert ran == ["loaded", (0, "large"), (0, "broken")]
    slow = {"status": "too slow", "seconds": 10.0, "message": "", "warnings": {}, "accuracy": None}
    context.trials("fake-cell").add({"draw": 0}, {"good": slow})
    assert run_cell(fake_cell("good")[0], 1, context, 1.0)[0]["good"]["status"] == "too slow"
    assert run_cell(fake_cell("good")[0], 1, context, 2.0)[0]["good"]["status"] == "ran"


def test_one_failed_draw_is_not_averaged_away():
    """The mean is that of the draws that ran; a failure in any draw is the status."""

    def outcome(status, accuracy=None):
        message = "" if status == "ran" else "m"
        figures = {"seconds": 1.0, "warnings": {"W": 1}, "accuracy": accuracy}
        return {**figures, "status": status, "message": message}

    found = summarise([outcome("ran", 0.5), outcome("too large"), outcome("ran", 1)])
    assert (found["status"], found["mean"], found["draws"]) == ("ran", 0.75, 2)
    assert (found["messages"], found["warnings"]) == (["too large: m"], {"W": 3})
    failed = summarise([outcome("ran", 0.5), outcome("failed")])
    assert (failed["status"], failed["mean"], failed["draws"]) == ("failed", None, 0)
