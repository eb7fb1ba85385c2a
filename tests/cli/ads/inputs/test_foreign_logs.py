"""Logs of many shapes are read as the same auctions; a wrong mapping is never silent."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from bid_tables import assert_equal_histograms
from coterie.ads.histograms.counting import read_histograms
from coterie.ads.logs.bid_logs import open_logs
from coterie.cli.ads.inputs import reading
from coterie.cli.ads.inputs.log_options import LogOptions, with_log_options
from coterie.errors import CoterieError, CoterieWarning
from foreign_logs import BERLIN, SHAPES, auctions, write_canonical

pytestmark = pytest.mark.slow

#: Faults of all these logs.
USUAL = {"no_texts", "person_columns"}


def log_input(words: list[str]) -> reading.LogInput:
    """The log that the words of a command line name."""
    found = []
    program = typer.Typer()

    @program.command()
    @with_log_options
    def _(logs: reading.Logs, *, log_options: LogOptions) -> None:
        found.append(reading.LogInput(logs, log_options))

    result = CliRunner().invoke(program, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return found[0]


@pytest.fixture(scope="module")
def canonical(tmp_path_factory):
    """The histograms of the canonical log."""
    folder = tmp_path_factory.mktemp("x")
    return read_histograms(open_logs(write_canonical(folder, auctions(600))))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_gives_the_histograms_of_the_canonical_log(shape, tmp_path, canonical):
    """The cells are equal, and the check finds no error."""
    source = log_input(SHAPES[shape](tmp_path, auctions(600)))
    log = source.read()
    if shape == "typed_parquet":
        canonical = replace(canonical, advertisers=np.array([str(i) for i in range(6)]))
    assert_equal_histograms(log.histograms, canonical)
    assert {fault.code for fault in log.check.faults} <= USUAL


def complaints(words: list[str]) -> list[str]:
    """The error, or the warnings and faults, of reading a log; usual warnings are left out."""
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", CoterieWarning)
        try:
            _, check = log_input(words).check()
        except CoterieError as error:
            return [f"error: {error}"]
    faults = [fault.code for fault in check.faults if fault.code not in USUAL]
    return [*(str(one.message) for one in raised), *faults]


#: A shape, options that replace those of the same name, and a part of the complaint.
WRONG = [
    ("usual_names", ["--column", "bid=clearing_price", "--column", "price=bid_price"], "bid_miss"),
    ("usual_names", ["--column", "bid=absent"], "no column absent"),
    ("usual_names", ["--column", "won=clearing_price", "--column", "price=is_win"], "unreadable"),
    ("usual_names", ["--column", "time=bid_price"], "no column has the role bid"),
    ("usual_names", ["--amounts", "cents"], "amounts_with_decimals"),
    ("usual_names", ["--amounts", "micros"], "bids_implausible"),
    ("usual_names", ["--amounts", "currency/impression"], "bids_implausible"),
    ("usual_names", ["--amounts", "currency", "--amounts", "price=cents"], "prices_implausible"),
    ("usual_names", ["--amounts", "currency", "--amounts", "bid=cents"], "price_above_bid"),
    ("usual_names", ["--amounts", ""], "unit of bid .* is unknown.*median bid is"),
    ("usual_names", ["--decimal-comma"], "unreadable"),
    ("epoch_cents", ["--amounts", "bid=currency"], "though its name says cents"),
    ("warehouse", ["--amounts", "currency"], "price_above_bid"),
    ("warehouse", ["--table", "other"], "no column has the role advertiser"),
    ("german", ["--date-format", "month-first"], "unreadable"),
    ("german", ["--time-zone", ""], "days_thin"),
    ("local_times", ["--time-zone", "America/Los_Angeles"], "days_thin"),
    ("ad_manager", ["--time-zone", ""], "time zone of the account"),
    (
        "prices_only",
        ["--column", "price=bid", "--column", "bid=bid"],
        "bid is given for price and bid",
    ),
    ("openrtb", ["--wins", ""], "no column has the role won|loss notices need"),
    ("openrtb", ["--losses", ""], "there are no loss notices"),
    ("openrtb", ["--join-on", "timestamp"], "without such a column|won_missing"),
    ("openrtb", ["--join-on", ""], "no column in common|say --join-on"),
    ("wins_only", ["--join-on", "offer=paid"], "no column win.paid for the role price"),
]


def replaced(words: list[str], options: list[str]) -> list[str]:
    """The words with some options replaced; an option with an empty value is left out."""
    names = {name for name in options if name.startswith("--")} - {"--column"}
    kept, skip = [], False
    for word in words:
        if word in names:
            skip = True
        elif skip:
            skip = False
        else:
            kept.append(word)
    pairs = [options[i : i + 2] for i in range(0, len(options), 2)]
    return [*kept, *(word for pair in pairs if pair[-1] != "" for word in pair)]


@pytest.mark.parametrize(("shape", "options", "complaint"), WRONG)
def test_a_wrong_mapping_is_never_silent(shape, options, complaint, tmp_path):
    """A swapped column and a wrong unit, zone, order or key give an error, fault or warning."""
    words = replaced(SHAPES[shape](tmp_path, auctions(600)), options)
    found = complaints(words)
    assert any(re.search(complaint, one) for one in found), found


def test_dates_in_both_orders_are_refused_until_told(tmp_path):
    """Dates up to the 12th are ambiguous; the wrong order leaves gaps between the days."""
    words = SHAPES["german"](tmp_path, [one for one in auctions() if one.time.day < 11])
    assert "may begin with the day or with the month" in complaints(words)[0]
    assert complaints([*words, "--date-format", "day-first"]) == []
    assert "days_missing" in complaints([*words, "--date-format", "month-first"])


def test_days_may_be_those_of_a_zone(tmp_path):
    """With --day-zone the log has the days of Berlin."""
    words = [*SHAPES["local_times"](tmp_path, auctions()), "--day-zone", "Europe/Berlin"]
    days = [one.time.astimezone(BERLIN).date() for one in auctions()]
    expected = [days.count(day) for day in sorted(set(days))]
    histograms = log_input(words).read().histograms
    assert [str(day) for day in histograms.days] == sorted({str(day) for day in days})
    assert np.bincount(histograms.bids.day, histograms.bids.count).tolist() == expected


def test_wins_of_a_missing_notice_file_are_noticed(tmp_path):
    """A day without any win, and a win without its bid, are warnings."""
    words = SHAPES["wins_only"](tmp_path, auctions())
    notices = tmp_path / "wins.csv"
    lines = notices.read_text().splitlines()
    early = [line for line in lines[1:] if int(line[1:].partition(",")[0]) < 2000]
    notices.write_text("\n".join([lines[0], *early, "other,1.50"]))
    assert set(complaints(words)) == {"days_without_win", "notices_without_bid"}


def test_ragged_lines_are_counted_with_their_numbers(tmp_path):
    """The other lines are read."""
    words = SHAPES["usual_names"](tmp_path, auctions())
    log = tmp_path / "log.csv"
    lines = log.read_text().splitlines()
    log.write_text("\n".join([*lines[:5], "a,b", *lines[5:], "1,2,3,4,5,6"]))
    _, check = log_input(words).check()
    (fault,) = check.errors
    assert (fault.code, fault.count) == ("line_ragged", 2)
    assert [example["line"] for example in fault.examples] == [6, len(lines) + 2]
    assert check.overview.rows == len(lines) - 1


def test_a_list_is_no_id(tmp_path):
    """A list of several values in the place of a text is unreadable."""
    row = {"advertiser": ["a"], "day": "2026-03-02", "bid_micros": 2_000_000, "won": False}
    rows = [row, row, {**row, "advertiser": ["a", "b"]}]
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps({**one, "price_micros": None}) for one in rows))
    _, check = log_input([str(log), "--column", "advertiser=advertiser.0"]).check()
    (fault,) = check.errors
    assert (fault.code, fault.count) == ("unreadable", 1)
    assert "advertiser_id cannot be read: it should be one text" in fault.what
    assert (check.overview.advertisers, check.overview.counted_rows) == (1, 2)
    assert "first 1,000 lines" in check.overview.notes[0]


def test_an_open_quote_is_refused_with_allow_faults_too(tmp_path):
    """The lines after it are a part of its field."""
    words = SHAPES["usual_names"](tmp_path, auctions())
    log = tmp_path / "log.csv"
    lines = log.read_text().splitlines()
    log.write_text("\n".join([*lines[:500], f'"{lines[500]}', *lines[501:]]))
    _, check = log_input(words).check()
    (fault,) = check.errors
    assert fault.code == "quote_open"
    assert [example["line"] for example in fault.examples] == [501]
    with (
        pytest.warns(CoterieWarning, match="quote"),
        pytest.raises(CoterieError, match="line 501 has a quote that does not close"),
    ):
        log_input(words).read(allow_faults=True)


def test_a_list_with_several_elements_is_not_read_in_part(tmp_path):
    """Two impressions in one line make its amounts unreadable."""
    words = SHAPES["nested_json"](tmp_path, auctions())
    log = tmp_path / "log.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines[7]["imp"] *= 2
    log.write_text("\n".join([*map(json.dumps, lines), "broken"]))
    _, check = log_input(words).check()
    found = {fault.code: fault.count for fault in check.errors}
    assert found["unreadable"] == 1
    assert found["bid_missing"] == 1
