"""Options of a log mean the same in every command."""

from __future__ import annotations

import pytest

from answers import assert_one_line, unwrapped
from coterie.ads.logs.bid_logs import open_logs
from coterie.cli.ads.inputs.log_options import LogOptions
from foreign_logs import SHAPES, auctions


@pytest.fixture
def log(tmp_path):
    """A log with usual names, whose unit must be said."""
    return SHAPES["usual_names"](tmp_path, auctions(480))[0]


@pytest.mark.parametrize("command", ["check", "segment"])
def test_a_log_that_is_not_decided_is_refused_with_a_query_that_works(run, log, tmp_path, command):
    """Below the error, which is one line, stands the query; nothing is written."""
    output = ["-k", "2", "-o", tmp_path / "m.coterie"] if command == "segment" else []
    result = run("ads", command, log, *output)
    error, *query = result.stderr.splitlines()
    assert (result.exit_code, result.stdout) == (1, "")
    assert error.startswith(f"error: {log}: the unit of bid") and "--amounts currency" in error
    assert (query[0], query[-1]) == ("SELECT", "FROM log")
    (tmp_path / "log.sql").write_text("\n".join(query))
    assert not (tmp_path / "m.coterie").exists()
    result = run("ads", command, log, "--sql", tmp_path / "log.sql", *output, "--quiet")
    assert result.exit_code == 0, result.stderr


def test_control_characters_of_names_are_made_visible(run, tmp_path):
    """A header cannot write to the terminal."""
    (tmp_path / "log.csv").write_text("ts,bid,won,paid,\x1b[31madvertiser\n2026-03-02,1,1,1,a\n")
    result = run("ads", "check", tmp_path / "log.csv", "--column", "advertiser=\x1b[31madvertiser")
    assert result.exit_code == 1
    assert "\x1b" not in result.stderr and "[31madvertiser" in result.stderr


def test_every_option_reaches_the_log(run, monkeypatch, tmp_path):
    """None is left behind on the way, and those in an error's command are the same."""
    given = {}

    def opened(*source, **options):
        given.update(options, source=source)
        raise KeyboardInterrupt

    monkeypatch.setattr("coterie.ads.logs.bid_logs.open_logs", opened)
    (tmp_path / "q.sql").write_text("FROM log")
    options = LogOptions(
        advertisers=tmp_path / "texts.csv",
        table="bids",
        sql=tmp_path / "q.sql",
        column=["bid=a=b", "floor="],
        amounts="cents",
        time_zone="Asia/Tokyo",
        currency="JPY",
        auction="first",
    )
    assert run("ads", "check", "x.db", *options.words()).exit_code == 130
    assert given["source"][0] == "x.db"
    expected = vars(options) | {"sql": "FROM log", "columns": {"bid": "a=b", "floor": ""}}
    del expected["engine"], expected["column"]
    assert {name: given[name] for name in expected} == expected


def test_the_log_may_be_what_a_query_names(run, log, tmp_path, monkeypatch):
    """LOGS are left out then; without both the usage is wrong."""
    monkeypatch.chdir(tmp_path)
    query = (
        "SELECT * REPLACE (bid_price * 1e6 AS bid_price, clearing_price * 1e6 AS clearing_price)"
    )
    (tmp_path / "q.sql").write_text(f"{query} FROM 'log.csv'")
    options = ["--sql", "q.sql", "--amounts", "micros", "--auction", "second"]
    result = run("ads", "check", *options)
    assert result.exit_code == 0, result.stderr
    assert "the query: bid log" in result.stdout
    assert open_logs(log, amounts="currency").table.count().to_pyarrow().as_py() == 480
    result = run("ads", "check")
    assert (result.exit_code, "name the log, or give --sql" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--column", "bid"], "write ROLE=NAME"),
        (["--column", "bid=a", "--column", "bid=b"], "bid is given twice"),
        (["--amounts", "cents", "--amounts", "micros"], "given more than once"),
    ],
)
def test_badly_written_options_are_wrong_usage(run, log, options, message):
    """The exit code is 2."""
    result = run("ads", "check", log, *options)
    assert result.exit_code == 2
    assert message in unwrapped(result.stderr)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--column", "bids=a"], ["the roles are"]),
        (["--amounts", "euros"], ["--amounts euros: the units are micros, cents"]),
        (["--time-zone", "Berlin"], ["--time-zone Berlin: there is no such time zone"]),
        (["--currency", "euros"], ["--currency euros: it must be a code of three letters"]),
        (["--sql", "absent.sql"], ["absent.sql: the query cannot be read"]),
    ],
)
def test_unknown_values_are_bad_input(run, log, options, parts):
    """The message names the option and what is known."""
    assert_one_line(run("ads", "check", log, *options), *parts)


def test_a_file_that_the_query_names_is_never_overwritten(run, tmp_path, monkeypatch):
    """It is an input, too."""
    monkeypatch.chdir(tmp_path)
    words = SHAPES["openrtb"](tmp_path, auctions(10))
    before = (tmp_path / "wins.jsonl").read_bytes()
    for output in ("wins.jsonl", tmp_path / "losses.jsonl"):
        result = run("ads", "segment", *words, "-o", output)
        assert_one_line(result, "this path is a file that the query names")
    assert (tmp_path / "wins.jsonl").read_bytes() == before


def test_the_query_is_never_overwritten(run, tmp_path):
    """It is an input."""
    words = SHAPES["prices_only"](tmp_path, auctions(10))
    result = run("ads", "segment", *words, "-o", tmp_path / "recipe.sql")
    assert_one_line(result, "this path is the query of the log")
