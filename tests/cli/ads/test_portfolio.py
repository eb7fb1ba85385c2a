"""Tests of ``coterie ads portfolio``: one budget for several advertisers."""

from __future__ import annotations

import json

import msgspec
import pytest

from answers import as_options, assert_one_line, unwrapped
from coterie.ads import split_budget
from coterie.ads.decisions.decision_answers import BudgetSplit
from coterie.ads.fitting.forecaster import load_forecaster
from table_files import columns_of

TWO = ["adv-00001", "adv-00042"]


@pytest.fixture
def ask(segmented, run):
    """Return a function that asks about the small market."""
    return lambda *options: run("ads", "portfolio", segmented["model_file"], *options)


@pytest.mark.parametrize(
    "asked",
    [
        {"goal": "clicks", "days": 3},
        {"budget": 0.5, "segment": 0, "day": "2026-03-14", "days": 2, "level": 0.5},
    ],
)
def test_json_is_the_answer_of_python(ask, segmented, asked):
    """The object has exactly the members of a division, and every option reaches it."""
    result = ask(*as_options(asked), "--json")
    found = msgspec.json.decode(result.stdout, type=BudgetSplit)
    assert found == split_budget(load_forecaster(segmented["model_file"]), **asked)
    assert json.loads(result.stdout) == json.loads(msgspec.json.encode(found))


def test_advertisers_by_name_by_file_and_by_segment(ask, segmented, tmp_path):
    """A list, a file with one id a line, and the beginning of a segment's name."""
    file = tmp_path / "ids.txt"
    file.write_text("\n".join([*TWO, ""]), encoding="utf-8")
    by_list, by_file = (
        json.loads(ask("--advertisers", given, "--budget", "0.1", "--json").stdout)
        for given in (",".join(TWO), f"@{file}")
    )
    assert by_list == by_file
    assert sorted(one["advertiser"] for one in by_list["allocations"]) == TWO
    name = load_forecaster(segmented["model_file"]).segments_[0].name
    found = json.loads(ask("--segment", name[:6], "--json").stdout)
    assert {one["segment"] for one in found["allocations"]} == {name}


def test_the_summary_has_the_gain(ask):
    """The total, that of the log's division, the gain, and the largest spenders first."""
    result = ask("--budget", "0.5")
    assert result.exit_code == 0
    shown = unwrapped(result.stdout)
    assert shown.startswith("48 advertisers: 0.50 USD in 7 days")
    for phrase in ("if divided as in the log", "gain", "a further thousand impressions", "28 more"):
        assert phrase in shown
    assert shown.count("as in log") == 2


def test_a_budget_that_cannot_be_spent(ask):
    """The first line says so, and the most; nothing further can be bought."""
    shown = unwrapped(ask("--budget", "1e9", "--goal", "clicks").stdout)
    assert shown.startswith("1B USD cannot be spent: the most is ")
    assert shown.count("cannot be spent") == 1
    assert "a further click none: higher bids buy hardly any" in " ".join(shown.split())


def test_writes_all_allocations(ask, tmp_path):
    """The table has a row per advertiser."""
    table = tmp_path / "bids.parquet"
    assert ask("--budget", "0.5", "-o", table, "-q").exit_code == 0
    columns = columns_of(table)
    assert len(columns["advertiser"]) == 48
    assert sum(columns["spend"]) == pytest.approx(0.5)


@pytest.mark.parametrize("options", [["--advertisers", "@no/such/file"], ["--segment", "?"]])
def test_refusals_are_one_line(ask, options):
    """What cannot be divided is refused."""
    assert_one_line(ask(*options))
