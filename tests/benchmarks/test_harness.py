"""Running benchmarks: settings, kept trials, missing data, the machine, the files of a result."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import noise
from benchmarks.__main__ import main
from benchmarks.environment import describe_environment, environment_line
from benchmarks.harness import Context, KeptTrials, in_parallel, run_benchmark, settings_of
from benchmarks.noise import NoiseCell
from benchmarks.results import Result, Table
from coterie.errors import DatasetUnavailableError, InvalidParameterError, TableError


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
    assert "![noise](noise.png)" in (folder / "noise.md").read_text()
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


@pytest.mark.parametrize("line", ["{", "[]", '{"trial": {}}', '{"trial": {}, "found": 3}'])
def test_a_damaged_file_of_trials_is_an_error(tmp_path, line):
    """The message names the file and the line."""
    path = tmp_path / "trials.jsonl"
    path.write_text('{"trial": {}, "found": {}}\n' + line + "\n")
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
    assert "| x\\|y | **1** |" in Result("r", [table], {}).markdown()
    with pytest.raises(ValueError, match="JSON"):
        Result("r", [], {"figure": float("nan")}).json_text()


def test_the_environment_is_described_in_one_line():
    """Versions are those imported; the line names processor, threads and every version."""
    described = describe_environment()
    assert described["versions"]["numpy"] == np.__version__
    assert json.loads(json.dumps(described)) == described
    line = environment_line(described)
    assert "\n" not in line
    assert f"{described['cpu']}, {described['threads']} threads" in line
    assert all(f"{name} {number}" in line for name, number in described["versions"].items())
