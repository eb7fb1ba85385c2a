"""Tests of ``coterie ads evaluate``: every source of curves on held-out days."""

from __future__ import annotations

import json

import pytest

from answers import assert_fits, assert_one_line, unwrapped
from coterie.ads.evaluation.evaluation import evaluate
from coterie.ads.histograms.counting import read_histograms
from coterie.ads.logs.bid_logs import open_logs, read_descriptions
from coterie.ads.report.evaluation_tables import best_other
from coterie.ads.segments.settings import SegmentSettings
from coterie.cli.ads.evaluate import print_evaluation, verdicts
from coterie.errors import InvalidParameterError

SOURCES = ("own", "global", "text", "win", "cost", "l2", "robust")
PAPER = {name + pooled for name in SOURCES for pooled in ("", "+pooled")}
NAMES = PAPER | {"lognormal", "boosting", "dictionary"}
TARGETS = ("impressions", "spend", "clicks")
MEASURES = {
    "wape",
    "wape_standard_error",
    "mape",
    "mape_advertisers",
    "smape",
    "bias",
    "coverage",
    "advertisers",
}


def test_json_has_every_source_and_measure(evaluated):
    """Seventeen sources, each with the measures of every target; the default is named."""
    assert set(evaluated["sources"]) == NAMES
    assert evaluated["default"] == "dictionary"
    for targets in evaluated["sources"].values():
        assert set(targets) == set(TARGETS)
        for errors in targets.values():
            assert set(errors) == MEASURES
            assert errors["wape"] > 0
    assert evaluated["holdout"] == ["2026-03-05"]
    assert len(evaluated["paper_tables"]) == 4
    assert set(evaluated["chosen"]) == PAPER | {"dictionary"}


@pytest.mark.slow
def test_json_is_the_librarys_evaluation(evaluated, market):
    """The facts are those of the library."""
    logs = open_logs(market)
    settings = SegmentSettings(n_segments=[3, 4])
    found = evaluate(read_histograms(logs), read_descriptions(logs), settings=settings).as_dict()
    assert json.loads(json.dumps(found)) == {name: evaluated[name] for name in found}


def test_the_file_is_what_was_printed(evaluated):
    """--output holds the same object as --json prints."""
    printed = {name: value for name, value in evaluated.items() if name != "file"}
    assert json.loads(evaluated["file"].read_text()) == printed


def shown(share):
    """Return a share as the tables write it."""
    return (f"{share:.0%}" if abs(share) >= 0.9995 else f"{share:.1%}").replace("-", "−")


def test_summary_fits_80_columns(evaluated, capsys):
    """Within 80 columns: the verdicts, rows of uncut figures, and then the tables of the paper."""
    print_evaluation(evaluated | {"source": "market"}, evaluated["file"])
    printed = capsys.readouterr().out
    assert_fits(printed)
    rows = [line.replace(" *", "*").split() for line in printed.splitlines()]
    best = [best_other(evaluated, target) for target in ("impressions", "spend")]
    names = list(dict.fromkeys(["dictionary", "own", "global", "lognormal", "boosting", *best]))
    first = next(place for place, row in enumerate(rows) if row[:1] == ["dictionary*"])
    for row, name in zip(rows[first:], names, strict=False):
        assert row[0] == name + "*" * (name == "dictionary")
        targets = evaluated["sources"][name]
        for place, target in enumerate(TARGETS):
            wape, mape, bias = row[1 + 3 * place : 4 + 3 * place]
            errors = targets[target]
            assert (wape, mape) == (shown(errors["wape"]), shown(errors["mape"]))
            assert bias.lstrip("+") == shown(errors["bias"]).replace("−0.0%", "0.0%")
        assert len(row) == 10
    said = unwrapped(printed)
    assert said.startswith("market: forecasts of 2026-03-05 for ")
    assert f"wrote {evaluated['file']}" in printed
    _, verdict, the_paper = said.partition(unwrapped(verdicts(evaluated)[0]))
    assert "dictionary" in the_paper and verdict
    the_paper = the_paper.partition("The paper: its tables on this log")[2]
    for contents in evaluated["paper_tables"]:
        assert contents["title"] in the_paper
        assert unwrapped(contents["note"]) in the_paper


def test_errors_of_placed_advertisers_are_told(evaluated, capsys):
    """Only of a market so large that other sources do not forecast everybody."""
    print_evaluation(evaluated)
    assert "further advertiser" not in unwrapped(capsys.readouterr().out)
    placed = {"advertisers": 1200, "impressions": {"wape": 0.125}}
    print_evaluation(evaluated | {"placed": placed})
    said = unwrapped(capsys.readouterr().out)
    assert "places 1,200 further advertisers" in said and "for them is 12.5%" in said


def test_coverage_is_shown_by_level_and_stratum(evaluated, capsys):
    """A row has the coverage at four levels, with given and with forecast supply."""
    print_evaluation(evaluated)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    at = {
        (row["target"], row["supply"], row["level"], row["stratum"]): row["coverage"]
        for row in evaluated["intervals"]
    }
    for target in TARGETS:
        row = next(row for row in rows if row[:1] == [target] and len(row) == 9)
        assert row[1:] == [
            shown(at[target, supply, level, "all"])
            for supply in ("given", "forecast")
            for level in (0.5, 0.8, 0.9, 0.95)
        ]
    (row,) = (row for row in rows if row[:2] == ["10–199", "bids"] and len(row) == 7)
    assert row[3:] == [
        shown(at[target, supply, 0.9, "10–199 bids"])
        for target in ("impressions", "spend")
        for supply in ("given", "forecast")
    ]


def test_unknown_errors_are_dashes(evaluated, capsys):
    """If nothing was won on the held-out days, errors are dashes and there is no verdict."""
    nothing = dict.fromkeys(MEASURES)
    sources = {name: dict.fromkeys(TARGETS, nothing) for name in NAMES}
    facts = evaluated | {"sources": sources}
    print_evaluation(facts)
    assert "–" in capsys.readouterr().out
    assert verdicts(facts) == verdicts({}) == []


def test_verdicts_compare_the_default_with_others(evaluated):
    """Each target has a sentence on own curves and the best other source, with standard errors."""
    sentences = verdicts(evaluated)
    assert len(sentences) == 2
    errors = {name: one for name, one in evaluated["sources"].items() if name != "dictionary"}
    for target, sentence in zip(("impressions", "spend"), sentences, strict=True):
        default = evaluated["sources"]["dictionary"][target]
        others = {name: one[target]["wape"] for name, one in errors.items() if name != "own"}
        best = min(others, key=others.get)
        assert sentence.startswith(f"Error of {target} (WAPE): {default['wape']:.1%} with the def")
        for name, words in (("own", "own curves"), (best, f"the best other source, {best}")):
            wape = errors[name][target]["wape"]
            points = f"{100 * (default['wape'] - wape):+.1f}".replace("-", "−")
            assert f"{wape:.1%} with {words} (difference {points} ± " in sentence


def test_options_reach_the_evaluation(run, write_log, monkeypatch):
    """Days to hold out, numbers of segments, consensus and seed; and the texts of the log."""
    asked = {}

    def spy(histograms, texts, **given):
        asked.update(given, texts=texts)
        raise InvalidParameterError("enough")

    monkeypatch.setattr("coterie.ads.evaluation.evaluation.evaluate", spy)
    options = ("--holdout-days", 2, "-k", "2,5", "--consensus", "l2", "--seed", 3)
    assert_one_line(run("ads", "evaluate", write_log(), *options), "enough")
    settings = asked["settings"]
    assert asked["holdout_days"] == 2 and asked["texts"]["shop-1"] == "flights hotel number 1"
    assert (settings.n_segments, settings.random_state) == ([2, 5], 3)
    assert type(settings.consensus).__name__ == "L2Consensus"


def test_more_days_than_there_are_cannot_be_held_out(run, market, tmp_path):
    """The message says how many days are needed, and nothing is written."""
    out = tmp_path / "e.json"
    result = run("ads", "evaluate", market, "--holdout-days", 4, "-o", out)
    assert_one_line(result, "give at least 5 days")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_log_without_texts_and_clicks(run, write_log, capsys):
    """There is no source by text and no column of clicks; several days may be held out."""
    log = write_log(texts=False, days=4)
    result = run("ads", "evaluate", log, "-k", 2, "--holdout-days", 2, "--json")
    facts = json.loads(result.stdout)
    assert facts["holdout"] == ["2026-03-04", "2026-03-05"]
    assert set(facts["sources"]) == NAMES - {"text", "text+pooled"}
    print_evaluation(facts)
    printed = capsys.readouterr().out.split("advertisers", 1)[1]
    assert "impressions" in printed
    assert "clicks" not in printed
    assert "conversions" not in printed


@pytest.mark.parametrize("wrong", [["--holdout-days", "0"], ["-k", "x"], ["--consensus", "no"]])
def test_wrong_usage_ends_with_2_before_the_log_is_read(run, market, untouched, wrong):
    """Wrong usage is refused before any work."""
    assert run("ads", "evaluate", market, *wrong).exit_code == 2


def test_output_is_checked_before_the_work(run, market, untouched, tmp_path):
    """The path of the file is checked first."""
    out = tmp_path / "none" / "e.json"
    assert_one_line(run("ads", "evaluate", market, "-o", out), "does not exist")
