"""Logs of many shapes are read as the same auctions; a wrong mapping is never silent."""

from __future__ import annotations

import datetime
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
from coterie.ads.logs.checks.log_checks import check_logs
from coterie.cli.ads.inputs import reading
from coterie.cli.ads.inputs.reading import LogOptions, with_log_options
from coterie.errors import CoterieError, CoterieWarning, TableError
from foreign_logs import SHAPES, auctions, recipe, write_canonical

pytestmark = pytest.mark.slow

#: A line of iPinYou.
PAPER = (
    "bid{i}\t2013060712000{i}123\t{kind}\tp\tM\t10.0.0.*\t1\t2\t1\td\tu\t\ts\t300\t250\t0\t0\t5"
    "\tcreative\t300\t{price}\tlanding\t1458\t1"
)
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
def test_every_shape_gives_the_histograms_of_the_canonical_log(
    shape, tmp_path, canonical, monkeypatch
):
    """The cells are equal, and the check finds no error."""
    monkeypatch.chdir(tmp_path)
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
    (
        "usual_names",
        ["--column", "won=clearing_price", "--column", "price=is_win"],
        "say yes or no",
    ),
    ("usual_names", ["--column", "time=bid_price"], "no column has the role bid"),
    ("usual_names", ["--amounts", "cents"], "amounts_with_decimals"),
    ("usual_names", ["--amounts", "micros"], "bids_implausible"),
    ("usual_names", ["--amounts", "currency/impression"], "bids_implausible"),
    ("usual_names", ["--amounts", ""], "unit of bid .* is unknown.*median bid is"),
    ("usual_names", ["--sql", "{folder}/q.sql", "--amounts", "currency"], "prices_implausible"),
    ("epoch_cents", ["--amounts", "currency"], "amounts_whole"),
    ("epoch_cents", ["--amounts", ""], "unit of bid .* is unknown"),
    ("warehouse", ["--sql", ""], "price_above_bid|bids_implausible"),
    ("warehouse", ["--table", "other"], "REPLACE list not found"),
    ("german", ["--sql", ""], "no column has the role advertiser"),
    ("german", ["--time-zone", ""], "days_thin"),
    ("local_times", ["--time-zone", "America/Los_Angeles"], "days_thin"),
    ("ad_manager", ["--sql", ""], "times in column Time, such as .* are read by SQL"),
    ("prices_only", ["--sql", ""], "no column has the role won"),
    ("openrtb", ["--sql", ""], "no column has the role won"),
    ("wins_only", ["--sql", ""], "no column has the role won"),
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
    prices_in_cents = (
        "SELECT * REPLACE (CAST(clearing_price AS DOUBLE) / 100 AS clearing_price) FROM log"
    )
    (tmp_path / "q.sql").write_text(prices_in_cents)
    options = [option.format(folder=tmp_path) for option in options]
    words = replaced(SHAPES[shape](tmp_path, auctions(600)), options)
    found = complaints(words)
    assert any(re.search(complaint, one) for one in found), found


@pytest.mark.parametrize("shape", ["german", "ad_manager", "prices_only", "usual_names"])
def test_the_suggested_query_gives_the_numbers_of_the_recipe(shape, tmp_path, canonical):
    """It is complete where names are known; only what values do not say is corrected."""
    words = SHAPES[shape](tmp_path, auctions(600))
    names = {"advertiser": "Kunde", "time": "Zeitpunkt", "bid": "Gebot", "won": "Gewonnen"}
    columns = {**names, "price": "Preis"} if shape == "german" else {}
    zone = words[words.index("--time-zone") + 1] if "--time-zone" in words else ""
    with pytest.raises(TableError) as refused:
        open_logs(words[0], columns=columns, time_zone=zone)
    (query,) = refused.value.__notes__
    if shape == "german":  # the first value seems to be that of bids that won
        query = query.replace("= 'N'", "= 'J'")
    logs = open_logs(words[0], sql=query, time_zone=zone)
    assert_equal_histograms(read_histograms(logs), canonical)


def test_wins_of_a_missing_notice_file_are_noticed(tmp_path, monkeypatch):
    """A day without any win is a warning."""
    monkeypatch.chdir(tmp_path)
    words = SHAPES["wins_only"](tmp_path, auctions())
    notices = tmp_path / "wins.csv"
    lines = notices.read_text().splitlines()
    early = [line for line in lines[1:] if int(line[1:].partition(",")[0]) < 2000]
    notices.write_text("\n".join([lines[0], *early]))
    assert complaints(words) == ["days_without_win"]


def test_a_bid_with_both_notices_or_none_has_no_outcome(tmp_path, monkeypatch):
    """The recipe of OpenRTB leaves it to the check."""
    monkeypatch.chdir(tmp_path)
    words = SHAPES["openrtb"](tmp_path, auctions(600))
    lines = (tmp_path / "losses.jsonl").read_text().splitlines()
    won = json.loads((tmp_path / "wins.jsonl").read_text().splitlines()[0])["bid_id"]
    lines[0] = json.dumps({"bid_id": won, "loss": 102})
    (tmp_path / "losses.jsonl").write_text("\n".join(lines))
    _, check = log_input(words).check()
    assert [(fault.code, fault.count) for fault in check.errors] == [("won_missing", 2)]


def test_amounts_in_several_currencies_are_converted(tmp_path):
    """The recipe gives the canonical amounts; a currency without a rate has no bid."""
    log = tmp_path / "log.csv"
    rows = ["a,2026-03-02,1,EUR,1,1", "a,2026-03-02,2,USD,1,1", "a,2026-03-02,3,XXX,0,"]
    log.write_text("\n".join(["advertiser,ts,bid,cur,won,clearing_price", *rows]))
    table = open_logs(log, sql=recipe("Several currencies")).table.order_by("bid_micros")
    found = table.to_pyarrow().select(["bid_micros", "price_micros", "currency"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [
        (1_000_000, 1_000_000, "EUR"),
        (1_840_000, 920_000, "EUR"),
        (None, None, "EUR"),
    ]


def test_lists_of_bids_become_rows(tmp_path, monkeypatch):
    """The recipe of nested JSON names its file; no other source is needed."""
    monkeypatch.chdir(tmp_path)
    SHAPES["nested_json"](tmp_path, auctions(600))
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    lines[7]["imp"] *= 2
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    logs = open_logs(sql=recipe("Nested JSON"))
    assert logs.table.count().to_pyarrow().as_py() == 601


def test_ipinyou_is_read_without_its_persons(tmp_path):
    """Fen become micros, and a click marks its impression; without the recipe it is refused."""
    for name, kind, ids in (("imp", 1, range(1, 9)), ("clk", 2, (3, 5))):
        lines = [PAPER.format(i=i, kind=kind, price=100 + i) for i in ids]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    files = [tmp_path / "imp.txt", tmp_path / "clk.txt"]
    logs = open_logs(files, sql=recipe("iPinYou"))
    assert (logs.auction, logs.currency, logs.revealed) == ("second", "CNY", "paid")
    assert logs.table.order_by("price_micros").limit(3).to_pyarrow().to_pylist() == [
        {
            "advertiser_id": "1458",
            "day": datetime.date(2013, 6, 7),
            "bid_micros": 3_000_000,
            "won": True,
            "price_micros": 10_000 * (100 + i),
            "weight": 1.0,
            "floor_micros": 50_000,
            "auction_type": 2,
            "currency": "CNY",
            "click": i == 3,
        }
        for i in (1, 2, 3)
    ]
    assert not {"person_columns", "duplicate_rows"} & {f.code for f in check_logs(logs).faults}
    with pytest.raises(TableError, match=r"no column has the role won.*user_tags"):
        open_logs(files)


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
    row = {"advertiser": ["a"], "day": "2026-03-02", "bid_micros": 2_000_000, "won": True}
    rows = [row, row, {**row, "advertiser": ["a", "b"]}]
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps({**one, "price_micros": 1_000_000}) for one in rows))
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
