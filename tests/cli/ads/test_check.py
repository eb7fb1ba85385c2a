"""Tests of ``coterie ads check``: all faults, as a summary and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from answers import assert_fits, assert_one_line, unwrapped
from coterie.ads.logs.simulation.simulated_logs import simulate_logs
from coterie.ads.logs.simulation.simulated_traits import MarketSettings

N = 12 * 3 * 30
BID = 2_000_000


def bad_columns():
    """Return columns with wrong bids, prices and currencies in one or two rows each."""
    bids = [BID] * N
    bids[0] = -5
    prices = [BID // 2] * N
    prices[1] = prices[2] = 3 * BID
    return {
        "bid_micros": bids,
        "won": [True] * N,
        "price_micros": prices,
        "currency": ["EUR"] * (N - 1) + ["USD"],
    }


def test_a_good_log_can_be_used(run, market, monkeypatch):
    """A log without errors ends with 0; the summary fits 80 columns."""
    monkeypatch.chdir(market.parent)
    result = run("ads", "check", "market")
    assert result.exit_code == 0, result.stderr
    for part in (
        "market: bid log, read by duckdb",
        "48, ",
        "4, 2026-03-02 to 2026-03-05",
        "second price",
        "0 errors, ",
        "the log can be used.",
    ):
        assert part in unwrapped(result.stdout)
    assert_fits(result.stdout)
    assert result.stderr == ""


def test_json_is_the_check(run, market):
    """--json is one object: the overview, and every fault with its count."""
    facts = json.loads(run("ads", "check", market, "--json").stdout)
    assert facts["ok"] is True
    overview = facts["overview"]
    rows = sum(pq.read_metadata(path).num_rows for path in market.glob("bids/*"))
    assert (overview["rows"], overview["advertisers"], overview["days"]) == (rows, 48, 4)
    assert all(fault["severity"] == "warning" for fault in facts["faults"])
    assert facts["drift"] is None


class TestDrift:
    """A lasting change of all prices is a warning."""

    @pytest.fixture
    def rising(self, tmp_path) -> Path:
        """Simulate a market whose prices rise by a third on the last four of eight days."""
        settings = MarketSettings(
            advertisers=30, segments=3, days=8, price_rise=0.3, weekday_effect=0.0, seed=1
        )
        return simulate_logs(settings, tmp_path / "market").folder

    def test_a_rise_is_a_warning(self, run, rising):
        """The day, the change and a sentence are reported; the log can be used."""
        result = run("ads", "check", rising, "--json")
        assert result.exit_code == 0, result.stderr
        facts = json.loads(result.stdout)
        drift = facts["drift"]
        assert drift["since"] == "2026-03-06"
        assert drift["change"] == pytest.approx(0.35, abs=0.05)
        assert facts["ok"] is True
        printed = unwrapped(run("ads", "check", rising).stdout)
        assert drift["sentence"] in printed
        assert f"0 errors, {len(facts['faults']) + 1} warning" in printed

    def test_it_is_not_searched_for_in_a_log_with_errors(self, run, write_log, monkeypatch):
        """A log with errors, or with few days, is not counted."""
        monkeypatch.setattr(
            "coterie.ads.histograms.counting.read_histograms", lambda *_: pytest.fail("counted")
        )
        result = run("ads", "check", write_log(**bad_columns()), "--json")
        assert (result.exit_code, json.loads(result.stdout)["drift"]) == (1, None)
        result = run("ads", "check", write_log(), "--json")
        assert (result.exit_code, json.loads(result.stdout)["drift"]) == (0, None)


def test_a_misread_log_is_doubted_where_a_model_is_made_too(run, market, tmp_path):
    """Two days without losses are said by both commands, and are no change of prices."""
    query = tmp_path / "q.sql"
    query.write_text("FROM log WHERE won OR ts::DATE < DATE '2026-03-04'")
    facts = json.loads(run("ads", "check", market, "--sql", query, "--json").stdout)
    (fault,) = (fault for fault in facts["faults"] if fault["code"] == "days_few_losses")
    assert (fault["count"], facts["drift"]) == (2, None)
    model = tmp_path / "m.coterie"
    result = run("ads", "segment", market, "--sql", query, "--json", "-o", model)
    assert result.exit_code == 0, result.stderr
    notes = " ".join(json.loads(result.stdout)["notes"])
    assert f"{fault['what']} (2 days); {fault['remedy']}" in notes
    assert model.exists()


def test_lost_win_notices_are_a_warning(run, tmp_path):
    """The highest bids lost although hardly any price is as high."""
    settings = MarketSettings(advertisers=60, segments=4, days=8, seed=31)
    log, query = simulate_logs(settings, tmp_path / "market").folder, tmp_path / "q.sql"
    query.write_text(
        "SELECT * REPLACE (won AND hash(ts) % 2 = 0 AS won, click AND hash(ts) % 2 = 0 AS click, "
        "CASE WHEN hash(ts) % 2 = 0 THEN price_micros END AS price_micros) FROM log"
    )
    facts = json.loads(run("ads", "check", log, "--sql", query, "--json").stdout)
    assert "win notices are missing" in facts["prices"]
    assert json.loads(run("ads", "check", log, "--json").stdout)["prices"] is None


def test_all_faults_are_listed(run, write_log, monkeypatch):
    """Each kind of error has its count and an example; the exit code is 1."""
    log = write_log(**bad_columns())
    monkeypatch.chdir(log.parent)
    result = run("ads", "check", "log")
    assert result.exit_code == 1
    assert result.stderr == ""
    for part in (
        "the bid is 0 or below: 1 row",
        "advertiser_id shop-0, day 2026-03-02, bid_micros -5",
        ": 2 rows",
        " of several currencies",
        "3 errors, ",
    ):
        assert part in unwrapped(result.stdout)
    assert_fits(result.stdout)
    facts = json.loads(run("ads", "check", log, "--json").stdout)
    errors = {f["code"]: f["count"] for f in facts["faults"] if f["severity"] == "error"}
    assert errors == {"bid_not_positive": 1, "price_above_bid": 2, "currencies_mixed": 1}


def test_quiet_is_the_exit_code_alone(run, write_log):
    """--quiet prints nothing; the exit code says whether the log can be used."""
    for columns, code in (({}, 0), (bad_columns(), 1)):
        result = run("ads", "check", write_log(**columns), "--quiet")
        assert (result.exit_code, result.stdout, result.stderr) == (code, "", "")


def test_ids_do_not_control_the_terminal(run, write_log):
    """Ids with markup, line breaks and terminal escapes are shown literally on one line."""
    hostile = "[red]\x1b[2J\nfox🦊"
    bids = [-1] + [BID] * (N - 1)
    log = write_log(advertisers=[hostile, *"abcdefghijk"], bid_micros=bids, won=[False] * N)
    result = run("ads", "check", log)
    assert result.exit_code == 1
    assert "advertiser_id [red]␛[2J␊fox🦊, day" in result.stdout
    assert "\x1b" not in result.stdout


def test_missing_texts_are_a_warning(run, write_log):
    """Without a table of advertisers the log can be used."""
    result = run("ads", "check", write_log(texts=False))
    assert result.exit_code == 0
    assert "12, 0 with a text" in result.stdout
    assert "put advertisers.parquet next to the logs" in unwrapped(result.stdout)


def test_damaged_texts_are_an_error(run, write_log, tmp_path):
    """A table of advertisers with other columns is named."""
    texts = tmp_path / "texts.csv"
    texts.write_text("id,words\na,b\n")
    result = run("ads", "check", write_log(), "--advertisers", texts)
    assert result.exit_code == 1
    assert "texts.csv" in result.stdout.replace("\n", "").replace(" ", "")


def test_empty_log_is_refused(run, write_log):
    """A log without rows cannot be used."""
    log = write_log()
    empty = pq.read_table(log / "bids.parquet").slice(0, 0)
    pq.write_table(empty, log / "bids.parquet")
    result = run("ads", "check", log)
    assert result.exit_code == 1
    assert "the log has no rows: 0 rows" in result.stdout
    made = log.with_name("made")
    assert_one_line(run("ads", "segment", log, "-o", made), "the log has no rows")
    assert not made.exists()


class TestEngines:
    """--engine names the engine that reads the log."""

    def test_credentials_are_refused_and_not_echoed(self, run, market):
        """A password in a URL is neither used nor shown."""
        result = run("ads", "check", market, "--engine", "duckdb://me:hunter2@host/db")
        assert_one_line(result)
        assert "hunter2" not in result.output

    def test_missing_database_is_named(self, run, tmp_path):
        """Reading a missing database does not create it."""
        result = run("ads", "check", "bids", "--engine", f"duckdb://{tmp_path}/none.db")
        assert_one_line(result, "none.db")
        assert list(tmp_path.iterdir()) == []

    def test_the_environment_names_the_engine_too(self, run, market, monkeypatch):
        """COTERIE_ENGINE is the default of --engine."""
        monkeypatch.setenv("COTERIE_ENGINE", "mysql://host/db")
        assert_one_line(run("ads", "check", market), "mysql", "pyspark://")

    def test_tables_of_a_database_are_logs(self, run, write_log, tmp_path):
        """A database file can be a log; --table names its table."""
        file, database = write_log() / "bids.parquet", tmp_path / "logs.db"
        with duckdb.connect(database) as connection:
            for name in ("first", "second"):
                connection.execute(f"CREATE TABLE {name} AS FROM '{file}'")
        assert_one_line(run("ads", "check", database), "first, second")
        assert_one_line(run("ads", "check", database, "--table", "third"), "no table third")
        facts = json.loads(run("ads", "check", database, "--table", "second", "--json").stdout)
        assert facts["overview"]["rows"] == N
        engine = f"duckdb://{database}"
        facts = json.loads(run("ads", "check", "first", "--engine", engine, "--json").stdout)
        assert facts["overview"]["rows"] == N


def test_prices_that_do_not_fit_the_wins_are_a_warning(run, market, tmp_path):
    """Prices with a fee, cut at the bid, are said as a sentence; the log can be used."""
    query = tmp_path / "q.sql"
    query.write_text(
        "SELECT * REPLACE (least(price_micros * 6 // 5, bid_micros - 5000) AS price_micros) "
        "FROM log WHERE bid_micros > 10000"
    )
    result = run("ads", "check", market, "--sql", query)
    assert result.exit_code == 0, result.stderr
    assert "perhaps lost bids are missing, or prices are above" in unwrapped(result.stdout)
    assert json.loads(run("ads", "check", market, "--json").stdout)["prices"] is None
