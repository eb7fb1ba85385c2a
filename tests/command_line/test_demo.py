"""``coterie demo``: the whole advertising job on a simulated week."""

from __future__ import annotations

import json
import shlex

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from answers import assert_fits, assert_one_line, unwrapped
from coterie.command_line.program import app
from coterie.files.tables import read_table
from coterie.inspection.scores import adjusted_rand_index

#: Ibis asks DuckDB for Arrow tables by a name that DuckDB means to drop.
pytestmark = pytest.mark.filterwarnings(
    r"ignore:fetch_arrow_table\(\) is deprecated:DeprecationWarning"
)
SMALL = ("--advertisers", "40", "--seed", "1")


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What a demo said to a person, and the folder it was in."""
    folder = tmp_path_factory.mktemp("shown")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = CliRunner().invoke(app, ["demo", *SMALL])
    assert result.exit_code == 0, result.stderr
    return result, folder / "demo-output"


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a demo told as JSON, and its folder."""
    folder = tmp_path_factory.mktemp("told") / "a folder"
    result = CliRunner().invoke(app, ["demo", *SMALL, "--json", "-o", str(folder)])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout), folder


def test_the_folder_is_filled(told):
    """Market, model, segments and report, whose places are told."""
    facts, folder = told
    names = ["market", "market.coterie", "segments.csv", "report.html"]
    assert facts["written"] == [str(folder / name) for name in names]
    assert sorted(path.name for path in folder.iterdir()) == sorted([*names, "demo.json"])
    rows = sum(pq.read_metadata(path).num_rows for path in (folder / "market" / "bids").iterdir())
    assert (facts["market"]["rows"], facts["market"]["days"]) == (rows, 7)
    assert facts["faults"]["errors"] == 0


def test_what_was_planted_is_compared_with_what_was_found(told):
    """The adjusted Rand index is that of the files, and every planted segment is in the table."""
    facts, folder = told
    members = {k: c.to_pylist() for k, c in read_table(folder / "segments.csv").columns.items()}
    truth = pq.read_table(folder / "market" / "truth.parquet").to_pydict()
    planted = dict(zip(truth["advertiser_id"], truth["segment"], strict=True))
    expected = adjusted_rand_index(
        [planted[name] for name in members["advertiser_id"]], members["segment"]
    )
    assert facts["segments"]["adjusted_rand"] == pytest.approx(expected)
    sizes = [row["advertisers"] for row in facts["segments"]["segments"]]
    assert sum(sizes) == len(members["segment"]) == 40


def test_errors_are_of_the_last_day(told):
    """Own, global and pooled curves, each by impressions, spend and thin advertisers."""
    facts, _ = told
    assert facts["holdout"] == ["2026-03-08"]
    assert list(facts["wape"]) == ["own", "global", "robust+pooled"]
    assert facts["wape"]["robust+pooled"]["impressions"] < facts["wape"]["global"]["impressions"]


def test_the_example_is_what_its_command_gives(run, told):
    """The command that is shown prints the very forecast that is shown."""
    facts, _ = told
    program, *arguments = shlex.split(facts["forecast"]["command"])
    assert program == "coterie"
    (again,) = json.loads(run(*arguments, "--json").stdout)["forecasts"]
    assert again == {name: facts["forecast"][name] for name in again}


def test_the_story_is_told_within_80_columns(shown):
    """Market, segments, errors, an example, where the report is and how to serve the model."""
    result, _ = shown
    said = unwrapped(result.stdout)
    for part in (
        "bids of 40 advertisers of 10 kinds",
        "10 were planted (adjusted Rand index 0.",
        "Forecast 2026-03-08, when everybody changed its bids",
        "its own pooled with its segments'",
        "coterie ads forecast demo-output/market.coterie --advertiser adv-000",
    ):
        assert part in said
    assert "demo-output/report.html\n" in result.stdout
    assert result.stdout.endswith("coterie ads serve demo-output/market.coterie\n")
    assert_fits("\n".join(line for line in result.stdout.splitlines() if "coterie ads" not in line))
    assert result.stderr == ""


def test_the_same_seed_has_the_same_results(shown, told):
    """Segments and model do not depend on the folder or the time."""
    for name in ("segments.csv", "market.coterie"):
        assert (shown[1] / name).read_bytes() == (told[1] / name).read_bytes()


def test_a_second_demo_replaces_the_first(run, tmp_path):
    """The next demo makes everything anew, and says nothing when quiet."""
    for seed in (1, 2):
        result = run("demo", "--advertisers", 20, "--seed", seed, "-o", tmp_path / "d", "-q")
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
        truth = pq.read_metadata(tmp_path / "d" / "market" / "truth.parquet")
        assert json.loads(truth.metadata[b"settings"])["seed"] == seed


def test_what_is_not_a_demos_is_left_alone(run, tmp_path):
    """A file of somebody's in a place of the demo's is refused before the work."""
    (tmp_path / "segments.csv").write_text("mine")
    assert_one_line(run("demo", *SMALL, "-o", tmp_path), "name another folder with --output")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_an_interrupt_tells_what_was_written(run, tmp_path, monkeypatch):
    """After an interrupt the next demo can begin."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("coterie.ads.forecasts.evaluation.evaluate", interrupted)
        result = run("demo", "--advertisers", 20, "-o", tmp_path / "d")
    assert result.exit_code == 130
    assert result.stderr == f"interrupted after writing {tmp_path / 'd' / 'market'}\n"
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["demo.json", "market"]
    assert run("demo", "--advertisers", 20, "-o", tmp_path / "d", "-q").exit_code == 0


def test_too_few_advertisers_are_wrong_usage(run, tmp_path):
    """A market of a handful has no segments to show."""
    assert run("demo", "--advertisers", 5, "-o", tmp_path / "d").exit_code == 2
    assert list(tmp_path.iterdir()) == []
