"""Reading a log: options, checks of outputs, one pass over the files."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import get_type_hints

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from answers import assert_one_line, unwrapped
from coterie import L2Consensus, OneHotKMeans, RobustConsensus
from coterie.ads.histograms.price_grid import price_grid
from coterie.ads.logs import bid_logs, raw_logs
from coterie.ads.logs.bid_logs import open_logs
from coterie.ads.logs.column_recognition import CANONICAL
from coterie.ads.logs.log_columns import UNITS
from coterie.cli.ads.inputs import reading
from coterie.cli.ads.inputs.reading import LogInput, LogOptions
from coterie.errors import CoterieWarning, OutputError, TableError
from foreign_logs import SHAPES, auctions


@given(st.lists(st.integers(1, 10**6), min_size=1), st.sampled_from([",", ", ", " ,"]))
@settings(deadline=None, max_examples=50)
def test_numbers_are_read_back(numbers, between):
    """Numbers separated by commas are read, with or without blanks."""
    assert reading.numbers_in(between.join(map(str, numbers))) == numbers


@pytest.mark.parametrize("text", ["0", "8,-1", "8,,12", "2.5", "8;12"])
def test_odd_numbers_are_wrong_usage(text):
    """Zero, negative, missing, broken and badly separated numbers are refused."""
    with pytest.raises(typer.BadParameter):
        reading.numbers_in(text)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("robust", type(None)),
        ("admm", RobustConsensus),
        ("l2", L2Consensus),
        ("one-hot", OneHotKMeans),
    ],
)
def test_consensus_functions_by_name(name, kind):
    """--consensus names a consensus function, which gets the seed."""
    settings_ = reading.segment_settings("3", name, 7)
    assert type(settings_.consensus) is kind
    assert (settings_.n_segments, settings_.random_state) == ([3], 7)
    assert getattr(settings_.consensus, "random_state", 7) == 7


def test_a_log_is_opened_checked_and_counted(write_log):
    """Histograms count every row; texts are read from the file next to the log."""
    source = LogInput(str(write_log())).read()
    assert source.check.ok
    assert source.histograms.bids.count.sum() == 12 * 3 * 30
    assert set(source.histograms.edges) <= set(price_grid(1, 10**9))
    assert source.texts["shop-1"] == "flights hotel number 1"


def test_log_with_faults_is_refused(write_log):
    """The error names the worst fault, the number of others, and the command to list all."""
    n = 12 * 3 * 30
    log = write_log(currency=["EUR", "USD"] * (n // 2), bid_micros=[-1] * 5 + [2_000_000] * (n - 5))
    renamed = log.rename(log.with_name("two words"))
    with pytest.raises(TableError) as refused:
        LogInput(str(renamed), LogOptions(auction="second")).read()
    message = str(refused.value)
    assert "the bid is 0 or below (5 rows), and " in message
    assert "other fault" in message
    command = message.partition("See: ")[2]
    expected = ["coterie", "ads", "check", str(renamed), "--auction", "second"]
    assert shlex.split(command) == expected


def test_faults_are_counted_in_their_unit(write_log):
    """A fault of advertisers is counted in advertisers, not in rows."""
    n = 12 * 3 * 30
    bids = [3_000_000_000] * 90 + [2_000_000] * (n - 90)
    won = [False] * (n - 1) + [True]
    prices = [2_000_000 if is_won else None for is_won in won]
    log = write_log(bid_micros=bids, won=won, price_micros=prices)
    with pytest.raises(TableError, match=r"\(1 advertiser\)"):
        LogInput(str(log)).read()


def test_faults_may_be_allowed(write_log):
    """With allow_faults unusable rows are left out, and a warning names the fault."""
    n = 12 * 3 * 30
    log = write_log(bid_micros=[None] * 5 + [2_000_000] * (n - 5))
    with pytest.raises(TableError):
        LogInput(str(log)).read()
    with pytest.warns(CoterieWarning, match="results may be wrong"):
        source = LogInput(str(log)).read(allow_faults=True)
    assert source.histograms.bids.count.sum() == n - 5


def test_mixed_currencies_are_refused(run, write_log, tmp_path):
    """A log with two currencies is refused, with the command to list the faults."""
    n = 12 * 3 * 30
    log = write_log(currency=["EUR"] * (n - 7) + ["USD"] * 7)
    result = run("ads", "segment", log, "-o", tmp_path / "out")
    assert_one_line(result, "(7 rows)", f"See: coterie ads check {log}")
    assert not (tmp_path / "out").exists()


def test_files_are_listed_and_texts_read_once(run, write_log, tmp_path, monkeypatch):
    """A quiet command prints nothing; it lists the files and reads the texts once."""
    calls = []

    def count_calls(name):
        for module in (raw_logs, bid_logs, reading):
            if hasattr(module, name):
                called = getattr(module, name)
                counting = lambda *given, called=called: calls.append(name) or called(*given)  # noqa: E731
                monkeypatch.setattr(module, name, counting)

    count_calls("find_files")
    count_calls("read_texts")
    result = run("ads", "report", write_log(), "-k", 2, "-o", tmp_path / "out", "--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert sorted(calls) == ["find_files", "read_texts"]


class TestOutputs:
    """Outputs that would damage an input are refused before the work."""

    @pytest.fixture
    def log(self, write_log) -> Path:
        """Write a folder with bids.parquet and advertisers.parquet."""
        return write_log()

    def check(self, logs: Path | str, outputs, **options) -> None:
        """Check outputs before and after the log is opened."""
        source = LogInput(str(logs), LogOptions(**options), outputs)
        source.check_outputs()
        source.check()

    @pytest.mark.parametrize(
        ("name", "what"),
        [("bids.parquet", "a part of the log"), ("advertisers.parquet", "the table of advert")],
    )
    @pytest.mark.parametrize("logs", [".", "bids.parquet", "b*.parquet"])
    def test_inputs_are_never_overwritten(self, log, logs, name, what):
        """Neither the log nor the texts next to it may be an output."""
        with pytest.raises(OutputError, match=f"cannot write the model to .*: this path is {what}"):
            self.check(log / logs, {"model": log / name})

    def test_links_are_followed(self, log, tmp_path):
        """A link to the log is refused like the log."""
        (tmp_path / "link").symlink_to(log / "bids.parquet")
        with pytest.raises(OutputError, match="a part of the log"):
            self.check(log, {"model": tmp_path / "link"})

    def test_given_texts_are_inputs(self, log, tmp_path):
        """The given table of advertisers may not be an output."""
        texts = tmp_path / "texts.csv"
        texts.touch()
        with pytest.raises(OutputError, match="this path is the table of advertisers"):
            self.check(log, {"table": texts}, advertisers=texts)

    def test_the_database_is_an_input(self, tmp_path):
        """The database of the engine may not be an output."""
        database = tmp_path / "my logs.db"
        database.touch()
        with pytest.raises(OutputError, match="this path is the database"):
            self.check(
                "bids",
                {"model": database},
                engine=f"duckdb://{tmp_path}/my%20logs.db?threads=1",
            )

    def test_two_outputs_are_two_files(self, log, tmp_path):
        """One file cannot be the report and the model."""
        same = {"report": tmp_path / "a", "model": tmp_path / "." / "a"}
        with pytest.raises(
            OutputError, match=r"cannot write the model to .*: this path is the report"
        ):
            self.check(log, same)

    def test_no_table_is_written_among_the_logs(self, log):
        """A table in the log folder would be read as a part of the log; a model would not."""
        with pytest.raises(OutputError, match=f"name a file outside {log}"):
            self.check(log, {"table": log / "members.csv"})
        self.check(log, {"model": log / "log.coterie", "table": None})

    def test_missing_folders_are_refused(self, log, tmp_path):
        """An output in a folder that does not exist is refused."""
        with pytest.raises(OutputError, match="does not exist"):
            self.check(log, {"model": tmp_path / "none" / "m.coterie"})


def test_the_log_is_never_overwritten(run, write_log):
    """A command that would overwrite its log ends with 1, and the log is unchanged."""
    file = write_log() / "bids.parquet"
    before = file.read_bytes()
    assert_one_line(run("ads", "report", file, "-o", file), "this path is a part of the log")
    assert file.read_bytes() == before


@pytest.mark.parametrize("words", ["Query interrupted", "a defect"])
def test_an_interrupt_in_the_engine_ends_the_program(run, write_log, tmp_path, monkeypatch, words):
    """DuckDB reports it as an error; no other error is taken for an interrupt."""
    log = write_log()

    def fails(*_):
        raise RuntimeError(words)

    monkeypatch.setattr("ibis.expr.types.Table.to_pyarrow", fails)
    result = run("ads", "segment", log, "-o", tmp_path / "m.coterie")
    if words == "a defect":
        assert str(result.exception) == words
    else:
        assert (result.exit_code, result.stderr) == (130, "interrupted; nothing was written\n")
    assert not (tmp_path / "m.coterie").exists()


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


def test_all_roles_and_units_are_in_the_help():
    """The options name what they take."""
    helps = {
        name: hint.__metadata__[0].help
        for name, hint in get_type_hints(LogOptions, include_extras=True).items()
    }
    assert all(role in helps["column"] for role in CANONICAL)
    assert all(part in helps["amounts"] for unit in UNITS for part in unit.split("/"))


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


@pytest.mark.parametrize("query", ["SELECT * FROM log", "FROM log " * 100])
def test_a_query_in_place_of_its_file_is_refused_in_one_sentence(run, tmp_path, query):
    """The query is not repeated, however long it is."""
    result = run("ads", "check", tmp_path, "--sql", query)
    assert_one_line(result, "--sql takes a FILE that holds the query, not the query itself")
    assert "FROM log" not in result.stderr
