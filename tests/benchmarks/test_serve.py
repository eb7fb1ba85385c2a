"""The benchmark of the service, from the model to the page: a small run of the real thing."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from benchmarks import serve, serve_results
from benchmarks.program import app
from benchmarks.serve_results import FULL, QUICK, Effort
from coterie.errors import MissingExtraError, OutputError
from served_markets import SMALL, small_market

pytest.importorskip("uvloop")
pytestmark = pytest.mark.xdist_group("the service's benchmark")

TINY = Effort(
    seconds=1,
    rounds=1,
    reload_seconds=2,
    reloads=1,
    sizes=(80,),
    connections=(2,),
    batch_connections=(1,),
    starts=1,
    market=SMALL,
)


def run(*arguments: str):
    """What the program does with these arguments; its errors are raised here."""
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


@pytest.fixture
def efforts(monkeypatch):
    """The efforts that were asked for, and no measurement."""
    asked = []

    def refuse(effort, before_step):
        asked.append(effort)
        raise InterruptedError

    monkeypatch.setattr(serve, "run_serve", refuse)
    return asked


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The folder that a small run has written, and what it has printed."""
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serve_results, "QUICK", TINY)
        patch.setattr(serve, "fitted_market", lambda _settings: small_market())
        found = run("serve", "--quick", "--json", "-o", str(folder))
    return folder, found.stdout


def test_the_service_is_measured_and_answers_as_the_model_does(report):
    """Both services answer without failure, and no answer that was kept is wrong."""
    everything = json.loads(report[1])
    (single,), (batch,) = everything["singles"], everything["batches"]
    for side in (single["service"], single["bare"], batch["service"]):
        (load,) = side["runs"]
        assert sum(load["failures"].values()) == 0
    assert everything["checked"]["wrong"] == 0, everything["checked"]["faults"]
    assert everything["checked"]["forecasts"] > 0


def test_the_model_is_replaced_under_load(report):
    """The service takes the other model, and no request fails over it."""
    reloads = json.loads(report[1])["reloads"]
    assert sum(reloads["run"]["failures"].values()) == 0
    assert (len(reloads["waits"]), reloads["missed"]) == (1, 0)


def test_sizes_are_weighed(report):
    """Every size has its file, its start and its memory."""
    (size,) = json.loads(report[1])["sizes"]
    assert size["advertisers"] == 80
    assert size["file_bytes"] > 0
    assert len(size["starts"]) == 1


def test_the_report_is_written(report):
    """JSON as printed, a page and a picture."""
    folder, printed = report
    assert {path.name for path in folder.iterdir()} == {"serve.json", "serve.md", "serve.png"}
    assert (folder / "serve.json").read_text() == printed
    text = (folder / "serve.md").read_text()
    assert "python -m benchmarks serve --quick --seconds 1" in text
    assert str(folder) not in text


@pytest.mark.parametrize(
    ("arguments", "effort", "seconds", "reload_seconds"),
    [
        ((), FULL, 4, 60),
        (("--quick",), QUICK, 1, 12),
        (("--seconds", "2"), FULL, 2, 30),
        (("--quick", "--seconds", "3"), QUICK, 3, 45),
    ],
)
def test_seconds_shorten_all_loads(efforts, arguments, effort, seconds, reload_seconds):
    """Rounds are as long as asked for, and the load of the reloads in proportion."""
    with pytest.raises(InterruptedError):
        run("serve", *arguments)
    (asked,) = efforts
    assert (asked.seconds, asked.reload_seconds) == (seconds, reload_seconds)
    assert asked.sizes == effort.sizes


def test_wrong_usage_and_outputs_are_refused_first(efforts, tmp_path):
    """No second is wrong usage; a file in place of the folder is refused before the work."""
    assert run("serve", "--seconds", "0").exit_code == 2
    (tmp_path / "taken").write_text("")
    with pytest.raises(OutputError, match="cannot make the folder"):
        run("serve", "-o", str(tmp_path / "taken"))
    assert efforts == []


def test_a_missing_extra_is_told_first(efforts, monkeypatch):
    """Without the packages of the service the command names the extra that brings them."""
    monkeypatch.setattr(
        "benchmarks.serve_command.find_spec", lambda name: None if name == "uvloop" else 1
    )
    with pytest.raises(MissingExtraError, match=r"uvloop: pip install 'coterie\[service\]'"):
        run("serve")
    assert efforts == []
