"""Tests of ``coterie ads demo``: its files, its facts and its summary."""

from __future__ import annotations

import json
import shlex
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from answers import assert_fits, assert_one_line, unwrapped
from coterie.cli.ads.demo import (
    SOURCES,
    error_facts,
    example_forecast,
    print_demo,
    recovery_facts,
)
from coterie.cli.program import app
from coterie.inspection.scores import adjusted_rand_index
from table_files import columns_of

# Ibis calls a function that DuckDB has deprecated.
pytestmark = pytest.mark.filterwarnings(
    r"ignore:fetch_arrow_table\(\) is deprecated:DeprecationWarning"
)
SMALL = ("--advertisers", "40", "--seed", "1")


def interrupted(*_, **__):
    """Stop the program where a function is called."""
    raise KeyboardInterrupt


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder for the demos of this module."""
    return tmp_path_factory.mktemp("demos") / "a folder"


@pytest.fixture(scope="module")
def first_result(folder):
    """Return the result of a demo that was interrupted after the market was written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("coterie.ads.evaluation.evaluation.evaluate", interrupted)
        result = CliRunner().invoke(app, ["ads", "demo", "--advertisers", "20", "-o", str(folder)])
    files = sorted(path.name for path in folder.iterdir())
    return result, files


@pytest.fixture(scope="module")
def facts_and_folder(first_result, folder):
    """Return the facts of a complete demo, which replaces the interrupted one, and its folder."""
    result = CliRunner().invoke(app, ["ads", "demo", *SMALL, "--json", "-o", str(folder)])
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout), folder


def test_interrupt_names_written_files(first_result, folder):
    """An interrupt names the written files."""
    result, files = first_result
    assert result.exit_code == 130
    assert result.stderr == f"interrupted after writing {folder / 'market'}\n"
    assert files == ["demo.json", "market"]


@pytest.mark.slow
def test_the_folder_is_filled(facts_and_folder):
    """The folder has market, model, segments, report and record."""
    facts, folder = facts_and_folder
    names = ["market", "market.coterie", "segments.csv", "report.html"]
    assert facts["written"] == [str(folder / name) for name in names]
    assert sorted(path.name for path in folder.iterdir()) == sorted([*names, "demo.json"])
    rows = sum(pq.read_metadata(path).num_rows for path in (folder / "market" / "bids").iterdir())
    assert (facts["market"]["rows"], facts["market"]["days"]) == (rows, 14)
    assert facts["faults"]["errors"] == 0


def test_planted_segments_are_compared_with_found_ones(facts_and_folder):
    """The adjusted Rand index is that of the files; the table covers all advertisers."""
    facts, folder = facts_and_folder
    members = columns_of(folder / "segments.csv")
    truth = pq.read_table(folder / "market" / "truth.parquet").to_pydict()
    planted = dict(zip(truth["advertiser_id"], truth["segment"], strict=True))
    expected = adjusted_rand_index(
        [planted[name] for name in members["advertiser_id"]], members["segment"]
    )
    assert facts["segments"]["adjusted_rand"] == pytest.approx(expected)
    sizes = [row["advertisers"] for row in facts["segments"]["segments"]]
    assert sum(sizes) == len(members["segment"]) == 40


def test_errors_are_of_the_last_day(facts_and_folder):
    """Errors are those of own, global, pooled and market curves on the last day."""
    facts, _ = facts_and_folder
    assert facts["holdout"] == ["2026-03-15"]
    assert list(facts["wape"]) == ["own", "global", "robust+pooled", "dictionary"]
    assert facts["wape"]["dictionary"]["impressions"] < facts["wape"]["global"]["impressions"]
    assert [one.split(" (")[0] for one in facts["verdicts"]] == [
        "Error of impressions",
        "Error of spend",
    ]


def test_the_example_is_what_its_command_gives(run, facts_and_folder):
    """The printed command gives the printed forecast."""
    facts, _ = facts_and_folder
    program, *arguments = shlex.split(facts["forecast"]["command"])
    assert program == "coterie"
    (again,) = json.loads(run(*arguments, "--json").stdout)["forecasts"]
    assert again == {name: facts["forecast"][name] for name in again}


def test_summary_fits_80_columns(facts_and_folder, capsys):
    """The summary has market, segments, errors, an example, the report and the next command."""
    facts, folder = facts_and_folder
    print_demo(facts)
    printed = capsys.readouterr().out
    text = unwrapped(printed)
    for part in (
        "bids of 40 advertisers in 10 segments",
        "10 were planted (adjusted Rand index 0.",
        "On 2026-03-15 all bids changed",
        "market curves, the default",
        "Error of impressions (WAPE): ",
        f"coterie ads forecast '{folder}/market.coterie' --advertiser adv-000",
    ):
        assert part in text
    assert f"{folder}/report.html\n" in printed
    assert printed.endswith(f"coterie ads serve '{folder}/market.coterie'\n")
    assert_fits("\n".join(line for line in printed.splitlines() if str(folder) not in line))


def test_files_of_the_user_are_kept(run, tmp_path):
    """A file of the user at a path of the demo is refused before the work."""
    (tmp_path / "segments.csv").write_text("mine")
    assert_one_line(run("ads", "demo", *SMALL, "-o", tmp_path), "name another folder with --output")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


TRUTH = {
    "segment": np.array([0, 0, 0, 2, 2]),
    "theme": np.array(["travel", "travel", "travel", "shoes", "shoes"]),
    "outlier": np.array([True, False, False, True, False]),
}


def fitted(labels, outliers=()):
    """Return the used attributes of a fitted forecaster."""
    names = [SimpleNamespace(name=f"segment {s}") for s in range(max(labels) + 1)]
    return SimpleNamespace(
        labels_=np.array(labels), segments_=names, outliers_=np.array(outliers, dtype=int)
    )


def test_recovery_of_planted_segments():
    """A planted segment is matched to the found one with most of its advertisers."""
    facts = recovery_facts(fitted([1, 1, 0, 0, 0], outliers=[0, 4]), TRUTH)
    assert (facts["planted"], facts["found"]) == (2, 2)
    assert facts["segments"] == [
        {"planted": "travel", "advertisers": 3, "found_as": "segment 1", "share": 2 / 3},
        {"planted": "shoes", "advertisers": 2, "found_as": "segment 0", "share": 1.0},
    ]
    expected = adjusted_rand_index(TRUTH["segment"], [1, 1, 0, 0, 0])
    assert facts["adjusted_rand"] == pytest.approx(expected)
    assert [facts[f"outliers_{what}"] for what in ("planted", "found", "right")] == [2, 2, 1]


def test_errors_are_those_of_the_evaluation():
    """Errors of impressions and spend are over all, and of impressions over thin advertisers."""

    def measured(shift):
        targets = {"impressions": {"wape": shift + 0.01}, "spend": {"wape": shift + 0.02}}
        return dict.fromkeys((*SOURCES, "text"), targets)

    strata = [
        {"name": "new", "sources": measured(5)},
        {"name": "10–199 bids", "sources": measured(3)},
    ]
    facts = error_facts({"sources": measured(1), "strata": strata})
    expected = {"impressions": 1.01, "spend": 1.02, "impressions_of_thin": 3.01}
    assert facts == dict.fromkeys(SOURCES, expected)


def test_example_has_few_bids_and_a_clear_segment():
    """The example is the advertiser with about 100 bids, without outliers and doubtful ones."""
    asked = {}

    def forecast(name, bid, supply):
        asked.update(name=name, bid=bid, supply=supply)
        return "the forecast"

    model = SimpleNamespace(
        labels_=np.zeros(4, dtype=int),
        outliers_=np.array([0]),
        doubtful_=np.array([1]),
        observations_=np.array([100.0, 101.0, 5000.0, 90.0]),
        bid_=np.array([1e6, 1e6, 1e6, 2_345_678.0]),
        advertisers_=np.array(["a", "b", "c", "d"]),
        forecast=forecast,
    )
    assert example_forecast(model) == "the forecast"
    assert asked == {"name": "d", "bid": 2.35, "supply": 100_000}
