"""Tests of ``coterie ads forecast``: forecasts at given bids, and their reasons."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answers import assert_fits, assert_one_line, unwrapped
from coterie.ads import bid_for
from coterie.ads.decisions.decision_answers import GoalBid
from coterie.ads.fitting.forecaster import load_forecaster
from coterie.ads.forecasts.forecast_figures import Forecast
from coterie.ads.protocol import Answer
from coterie.cli.ads.forecast import bids_in, print_forecasts
from coterie.errors import InvalidParameterError
from coterie.models import content_checksum
from coterie.runtime.wording import format_count, money
from table_files import columns_of

KNOWN = "adv-00042"

bids = st.floats(1e-6, 1e9)
amounts = st.floats(0, 1e15)


def answer_in(result):
    """Return the JSON of the program as an answer of a service; it has exactly its members."""
    answer = msgspec.json.decode(result.stdout, type=Answer)
    assert json.loads(result.stdout) == json.loads(msgspec.json.encode(answer))
    return answer


@given(st.lists(bids, min_size=1, max_size=20))
@settings(deadline=None, max_examples=20)
def test_bids_are_read_back(numbers):
    """Numbers separated by commas are read."""
    assert bids_in(",".join(map(repr, numbers))) == numbers


@given(st.integers(1, 500), st.integers(0, 300), st.integers(1, 60))
@settings(deadline=None, max_examples=20)
def test_range_has_every_step(start, steps, step):
    """A range has every step from the first to the last bid."""
    stop = start + steps * step
    found = bids_in(f"{start / 100}:{stop / 100}:{step / 100}")
    assert found == pytest.approx([cents / 100 for cents in range(start, stop + 1, step)])
    assert len(found) == steps + 1


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "0", "-1", "nan", "inf", "2,", "1;2", "2,0", "1e400", ":", "1:5", "5:1:1"),
        *("1:5:0", "1:5:-1", "0:5:1", "1:inf:1", "1:5:nan", "1:2:3:4", "-2:-1:0.5"),
    ],
)
def test_invalid_bids_are_refused(text):
    """Zero, negative, infinite and malformed bids are refused."""
    with pytest.raises(InvalidParameterError, match="write a number above 0, several as"):
        bids_in(text)


@pytest.mark.parametrize("text", ["1:1e9:1", "0.1:1:1e-300", "1:2:5e-324"])
def test_too_many_bids_are_refused(text):
    """A range of very many bids is refused before it is built."""
    with pytest.raises(InvalidParameterError, match="at most 10,000 bids"):
        bids_in(text)


def test_json_is_the_forecast_of_the_model(run, segmented):
    """--json has one forecast per bid, the same as in Python."""
    model = segmented["model_file"]
    result = run(
        *("ads", "forecast", model, "--advertiser", KNOWN),
        *("--bid", "1:3:0.5", "--supply", "1e6", "--json"),
    )
    answer = answer_in(result)
    expected = load_forecaster(model).forecast(KNOWN, [1.0, 1.5, 2.0, 2.5, 3.0], supply=1e6)
    assert answer.each() == expected
    assert (answer.currency, answer.known, answer.days) == ("USD", True, 1)
    assert answer.model.version == content_checksum(model)[:12]
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("goal", "amount", "first_words"),
    [
        ("impressions", 3, "0."),
        ("impressions", 15, "No bid is safe: 15 impressions can be reached only on average. "),
        ("spend", 1e6, "The goal cannot be reached. No bid in the log reaches 1M USD of spend: "),
    ],
)
def test_a_goal_has_its_bid(run, segmented, goal, amount, first_words):
    """--json is the answer of Python; the summary begins with the bid, or that none is safe."""
    model = segmented["model_file"]
    arguments = ("ads", "forecast", model, "--advertiser", KNOWN, f"--{goal}", amount, "--days", 3)
    answer = msgspec.json.decode(run(*arguments, "--json").stdout, type=GoalBid)
    assert answer == bid_for(load_forecaster(model), KNOWN, **{goal: amount}, days=3)
    summary = run(*arguments)
    assert summary.exit_code == 0
    assert_fits(summary.stdout)
    text = unwrapped(summary.stdout)
    assert text.startswith(first_words)
    assert (f"is the bid for {amount} {goal}." in text) == answer.reached
    assert ("or more, the goal should be reached with a probability of 95%" in text) == (
        answer.safe_bid is not None
    )


@pytest.mark.parametrize("options", [[], ["--bid", "2", "--spend", "3"], ["--clicks", "-1"]])
def test_one_bid_or_one_goal_is_asked_for(run, segmented, options):
    """Neither, both, or an amount that is none is refused."""
    model = segmented["model_file"]
    assert_one_line(run("ads", "forecast", model, "--advertiser", KNOWN, *options))


def test_json_has_a_remark_where_a_bid_needs_one(run, segmented):
    """A bid above every bid in the log has more to say than the answer as a whole."""
    model = load_forecaster(segmented["model_file"])
    highest = float(model.edges_[-1]) / 1e6
    asked = ("ads", "forecast", segmented["model_file"], "--advertiser", KNOWN, "--json", "--bid")
    for bids_asked in ([1.0, highest + 1, highest], [highest + 1, highest + 2]):
        answer = answer_in(run(*asked, ",".join(map(repr, bids_asked))))
        assert answer.each() == model.forecast(KNOWN, bids_asked)
    answer = answer_in(run(*asked, f"1,{highest + 1!r}"))
    assert answer.forecasts[0].remark is msgspec.UNSET
    assert answer.forecasts[1].remark.startswith("above every bid in the log")


def test_bids_of_several_options_are_together(run, segmented):
    """--bid may be repeated; each adds its bids."""
    asked = ("ads", "forecast", segmented["model_file"], "--advertiser", KNOWN, "--json")
    together = run(*asked, "--bid", "1,2.5")
    assert run(*asked, "--bid", "1", "--bid", "2.5").stdout == together.stdout


@pytest.mark.parametrize("name", ["forecast.csv", "forecast.parquet"])
def test_table_has_a_row_per_bid(run, segmented, tmp_path, name):
    """--output writes means and interval ends; the summary names the file."""
    out = tmp_path / name
    result = run(
        *("ads", "forecast", segmented["model_file"], "--advertiser", KNOWN),
        *("--bid", "2,3", "-o", out),
    )
    assert result.exit_code == 0, result.stderr
    assert f"wrote {out}\n" in result.stdout
    columns = columns_of(out)
    expected = load_forecaster(segmented["model_file"]).forecast(KNOWN, [2.0, 3.0])
    assert columns["advertiser"] == [KNOWN] * 2
    for column, values in {
        "bid": [2.0, 3.0],
        "impressions": [one.impressions for one in expected],
        "spend_low": [one.spend_interval[0] for one in expected],
        "clicks_high": [one.clicks_interval[1] for one in expected],
        "level": [0.9, 0.9],
    }.items():
        assert [float(x) for x in columns[column]] == pytest.approx(values)


def test_table_on_standard_output(run, segmented, tmp_path):
    """-o - prints the CSV file and nothing else; the summary goes to the other stream."""
    arguments = ("ads", "forecast", segmented["model_file"], "--advertiser", KNOWN, "--bid", "2,3")
    assert run(*arguments, "-o", tmp_path / "out.csv").exit_code == 0
    result = run(*arguments, "-o", "-")
    assert result.exit_code == 0, result.stderr
    assert result.stdout_bytes == (tmp_path / "out.csv").read_bytes()
    assert "wrote the table to standard output\n" in result.stderr
    assert run(*arguments, "-o", "-", "--json").exit_code == 2


def test_summary_of_one_bid(run, segmented):
    """The summary of one bid has means, intervals and reasons."""
    result = run(
        *("ads", "forecast", segmented["model_file"], "--advertiser", KNOWN),
        *("--bid", "2.50", "--supply", "1e6"),
    )
    assert result.exit_code == 0, result.stderr
    assert_fits(result.stdout)
    said = unwrapped(result.stdout)
    assert said.startswith(f"{KNOWN} at a bid of 2.50 USD, 1M auctions win rate ")
    assert "bids, completed by the segment" in said


def test_a_day_sets_supply_and_prices(run, segmented):
    """The forecast is for an average day, or for the day of --day."""
    asked = ("ads", "forecast", segmented["model_file"], "--advertiser", KNOWN, "--bid", 2)
    assert "; supply and prices of an average day; the log has no" in unwrapped(run(*asked).stdout)
    of_day = run(*asked, "--day", "2026-03-09")
    assert "; supply and prices of 2026-03-09." in unwrapped(of_day.stdout)
    assert_one_line(run(*asked, "--day", "Monday"), "it must be a date as in 2026-03-09")


def test_days_are_forecast_together(run, segmented):
    """--days N adds up N days; the summary says so."""
    model = segmented["model_file"]
    asked = ("ads", "forecast", model, "--advertiser", KNOWN, "--bid", 2, "--day", "2026-03-09")
    answer = answer_in(run(*asked, "--days", 3, "--json"))
    expected = load_forecaster(model).forecast(KNOWN, 2.0, day="2026-03-09", days=3)
    assert answer.days == 3
    assert answer.each() == [expected]
    said = unwrapped(run(*asked, "--days", 3).stdout)
    assert " auctions in 3 days win rate " in said
    assert "supply and prices of the 3 days from 2026-03-09" in said


@pytest.mark.parametrize("level", [50, 95])
def test_the_level_of_intervals(run, segmented, level):
    """--level sets the level of all intervals, and the summary names it."""
    model = segmented["model_file"]
    asked = ("ads", "forecast", model, "--advertiser", KNOWN, "--bid", 2, "--level", level)
    answer = answer_in(run(*asked, "--json"))
    assert answer.level == level / 100
    assert answer.each() == [load_forecaster(model).forecast(KNOWN, 2.0, level=level / 100)]
    assert f"with a probability of {level}%." in unwrapped(run(*asked).stdout)


@pytest.mark.parametrize("wrong", [["--level", "85"], ["--days", "0"], ["--days", "367"]])
def test_wrong_levels_and_days_are_wrong_usage(run, segmented, wrong):
    """Levels are those of the calibration; a forecast is for at most 366 days."""
    asked = ("ads", "forecast", segmented["model_file"], "--advertiser", KNOWN, "--bid", 2)
    assert run(*asked, *wrong).exit_code == 2


def test_an_unknown_advertiser_is_placed_by_its_text(run, segmented):
    """An unknown advertiser is placed by its text, otherwise averaged; the answer says which."""
    model = segmented["model_file"]
    asked = ("ads", "forecast", model, "--bid", 2, "--supply", 1000, "--json")
    telling = " ".join(segmented["segments"][0]["words"])
    by_text = answer_in(run(*asked, "--text", telling))
    assert (by_text.curve, by_text.advertiser, by_text.known) == ("text", "", False)
    by_nothing = answer_in(run(*asked, "--advertiser", "unknown"))
    assert (by_nothing.curve, by_nothing.known) == ("global", False)
    assert by_nothing.why.startswith("'unknown' is not in the log, and no text was given")
    assert answer_in(run(*asked, "--text", "qqq zzz")).curve == "global"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bid", "2"], "name an advertiser, or give the text of a new one"),
        (["--bid", "2", "--advertiser", "unknown"], "or give --supply, its number of auctions"),
        (["--bid", "0", "--advertiser", KNOWN], "--bid 0: write a number above 0"),
        (["--bid", "2,50", "--advertiser", KNOWN], "--bid 2,50: write 2.50 for one bid, or"),
        (["--bid", "2", "--advertiser", KNOWN, "--supply", "-1"], "--supply -1.0: it must be"),
        (["--bid", "2", "--advertiser", KNOWN, "--supply", "nan"], "--supply nan: it must be"),
        (["--bid", "2", "--advertiser", KNOWN, "-o", "a.txt"], "must end in one of .csv"),
        (
            ["--bid", "2", "--advertiser", KNOWN, "--supply", "1e6", "--day", "2026-03-09"],
            "give the supply or the day, not both",
        ),
    ],
)
def test_invalid_questions_are_one_line(run, segmented, arguments, message, tmp_path, monkeypatch):
    """An invalid question ends with 1 and one line."""
    monkeypatch.chdir(tmp_path)
    assert_one_line(run("ads", "forecast", segmented["model_file"], *arguments), message)
    assert list(tmp_path.iterdir()) == []


def test_bids_above_the_log(run, segmented):
    """Bids above every bid in the log have a separate reason."""
    model = segmented["model_file"]
    highest = load_forecaster(model).edges_[-1] / 1e6
    bids_asked = f"1,{highest + 1:.2f},{highest + 2:.2f}"
    said = unwrapped(
        run("ads", "forecast", model, "--advertiser", KNOWN, "--bid", bids_asked).stdout
    )
    assert "A bid of 1.00: " in said
    assert f"Bids from {highest + 1:.2f} to {highest + 2:.2f}: " in said
    assert said.count("above every bid in the log") == 1


def test_the_model_is_never_overwritten(run, segmented, tmp_path):
    """The table may not overwrite the model."""
    file = tmp_path / "model.csv"
    file.write_bytes(segmented["model_file"].read_bytes())
    result = run("ads", "forecast", file, "--advertiser", KNOWN, "--bid", 2, "-o", file)
    assert_one_line(result, "this path is the model")
    assert file.read_bytes() == segmented["model_file"].read_bytes()


@st.composite
def forecasts(draw):
    """Draw one to three forecasts with figures of any size."""
    has_clicks, level = draw(st.booleans()), draw(st.sampled_from([0.5, 0.8, 0.9, 0.95]))

    def one():
        low, mean, high = sorted(draw(st.tuples(amounts, amounts, amounts)))
        return Forecast(
            advertiser=draw(st.text("ab <>[]\n\x1b", max_size=100)),
            bid=draw(bids),
            supply=draw(amounts),
            win_rate=draw(st.floats(0, 1)),
            cost=draw(st.floats(0, 1e6)),
            impressions=mean,
            impressions_interval=(low, high),
            spend=mean,
            spend_interval=(low, high),
            clicks=mean if has_clicks else None,
            clicks_interval=(low, high) if has_clicks else None,
            conversions=mean if has_clicks else None,
            conversions_interval=(low, high) if has_clicks else None,
            level=level,
            segment="shoes, low price",
            curve="pooled",
            why="its 7 bids",
        )

    return [one() for _ in range(draw(st.integers(1, 3)))]


@given(forecasts(), st.sampled_from(["", "USD", "EUR"]))
@settings(deadline=None, max_examples=20)
def test_summary_fits_for_any_figures(found, currency):
    """The summary is within 80 columns and uncut for any figures."""
    found = [dataclasses.replace(one, advertiser=found[0].advertiser) for one in found]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        print_forecasts(found, currency)
    text = printed.getvalue()
    assert_fits(text)
    assert f"with a probability of {found[0].level:.0%}." in unwrapped(text)
    assert ("conversions" in text) == (found[0].conversions is not None)


@given(forecasts(), st.integers(30, 130))
@settings(deadline=None, max_examples=40)
def test_figures_are_never_broken(found, width):
    """Every figure is printed in one piece, however narrow the terminal is."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setenv("COLUMNS", str(width))
        print_forecasts(found, "USD")
    pieces = set(printed.getvalue().replace("–", " ").split())
    for one in found:
        low, high = one.spend_interval
        assert {format_count(one.impressions), money(low, ""), money(high, "")} <= pieces
