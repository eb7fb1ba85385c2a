"""What the commands that read a log have in common."""

from __future__ import annotations

import shlex
from pathlib import Path

import pyarrow as pa
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from answers import assert_one_line
from coterie import L2Consensus, OneHotKMeans, RobustConsensus
from coterie.command_line.ads import reading
from coterie.errors import CoterieWarning, OutputError, TableError

DUCKDB = "duckdb://"


@given(st.lists(st.integers(1, 10**6), min_size=1), st.sampled_from([",", ", ", " ,"]))
@settings(deadline=None, max_examples=50)
def test_numbers_are_read_back(numbers, between):
    """What is written with commas, blanks or not, is read."""
    assert reading.numbers_in(between.join(map(str, numbers))) == numbers


@given(st.text(st.characters(exclude_categories=["Nd"])))
@settings(deadline=None, max_examples=50)
def test_what_is_no_number_is_wrong_usage(text):
    """Text without a digit names no number of segments."""
    with pytest.raises(typer.BadParameter, match="is no number of segments"):
        reading.numbers_in(text)


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
def test_consensus_functions_go_by_their_names(name, kind):
    """An option stands for a consensus function with the seed; none is the default."""
    settings_ = reading.segment_settings("3", name, 7)
    assert type(settings_.consensus) is kind
    assert (settings_.n_segments, settings_.random_state) == ([3], 7)
    assert getattr(settings_.consensus, "random_state", 7) == 7


def test_a_log_is_opened_checked_and_counted(write_log):
    """Histograms count every row; texts are those beside the log."""
    source = reading.read_source(str(write_log()), DUCKDB, None, None, None, 16)
    assert source.check.ok
    assert source.histograms.bids.count.sum() == 12 * 3 * 30
    assert len(source.histograms.edges) <= 16
    assert source.texts["shop-1"] == "flights hotel number 1"


def test_a_log_with_faults_is_refused_with_the_way_to_see_them(write_log):
    """The worst fault is told, how many more there are, and the command that tells all."""
    n = 12 * 3 * 30
    log = write_log(currency=["EUR", "USD"] * (n // 2), bid_micros=[-1] * 5 + [2_000_000] * (n - 5))
    renamed = log.rename(log.with_name("two words"))
    with pytest.raises(TableError) as refused:
        reading.read_source(str(renamed), DUCKDB, None, None, "second", 16)
    message = str(refused.value)
    assert "the bid is 0 or below (5 rows), and " in message
    assert "other fault" in message
    command = message.partition("See: ")[2]
    expected = ["coterie", "ads", "check", str(renamed), "--auction", "second"]
    assert shlex.split(command) == expected


def test_faults_are_counted_in_their_unit(write_log):
    """A fault of advertisers is not said to be one of rows."""
    n = 12 * 3 * 30
    bids = [3_000_000_000] * 90 + [2_000_000] * (n - 90)
    log = write_log(bid_micros=bids, won=[False] * n, price_micros=pa.nulls(n, pa.int64()))
    with pytest.raises(TableError, match=r"\(1 advertiser\)"):
        reading.read_source(str(log), DUCKDB, None, None, None, 16)


def test_faults_may_be_allowed(write_log):
    """Then rows that cannot be used are left out, and a warning says what is wrong."""
    n = 12 * 3 * 30
    log = write_log(bid_micros=[None] * 5 + [2_000_000] * (n - 5))
    with pytest.raises(TableError):
        reading.read_source(str(log), DUCKDB, None, None, None, 16)
    with pytest.warns(CoterieWarning, match="results may be wrong"):
        source = reading.read_source(str(log), DUCKDB, None, None, None, 16, allow_faults=True)
    assert source.histograms.bids.count.sum() == n - 5


@pytest.mark.parametrize("command", ["segment", "evaluate", "report"])
def test_mixed_currencies_are_refused(run, write_log, tmp_path, command):
    """Amounts of two currencies are not added up; the command to see more is given."""
    n = 12 * 3 * 30
    log = write_log(currency=["EUR"] * (n - 7) + ["USD"] * 7)
    out = [] if command == "evaluate" else ["-o", tmp_path / "out"]
    result = run("ads", command, log, *out)
    assert_one_line(result, "(7 rows)", f"See: coterie ads check {log}")
    assert not (tmp_path / "out").exists()


class TestCheckOutputs:
    """Outputs are refused before the work where they would harm."""

    @pytest.fixture
    def log(self, write_log) -> Path:
        """A folder with bids.parquet and advertisers.parquet."""
        return write_log()

    @pytest.mark.parametrize(
        ("name", "what"),
        [("bids.parquet", "a part of the log"), ("advertisers.parquet", "the table of advert")],
    )
    @pytest.mark.parametrize("logs", [".", "bids.parquet", "b*.parquet"])
    def test_inputs_are_never_overwritten(self, log, logs, name, what):
        """Neither a log nor the texts beside it may be an output, however the log is named."""
        with pytest.raises(OutputError, match=f"cannot write the model to .*: it is {what}"):
            reading.check_outputs({"model": log / name}, str(log / logs))

    def test_links_are_followed(self, log, tmp_path):
        """A link to the log is the log."""
        (tmp_path / "link").symlink_to(log / "bids.parquet")
        with pytest.raises(OutputError, match="a part of the log already"):
            reading.check_outputs({"model": tmp_path / "link"}, str(log))

    def test_texts_given_are_inputs(self, log, tmp_path):
        """The table of advertisers that was named may not be an output."""
        (tmp_path / "texts.csv").touch()
        with pytest.raises(OutputError, match="the table of advertisers already"):
            reading.check_outputs(
                {"table": tmp_path / "texts.csv"}, str(log), tmp_path / "texts.csv"
            )

    def test_the_database_is_an_input(self, tmp_path):
        """The database that the engine reads may not be an output."""
        database = tmp_path / "my logs.db"
        database.touch()
        with pytest.raises(OutputError, match="the database already"):
            reading.check_outputs(
                {"model": database}, "bids", None, f"duckdb://{tmp_path}/my%20logs.db?threads=1"
            )

    def test_two_outputs_are_two_files(self, log, tmp_path):
        """One file cannot be the report and the model."""
        same = {"report": tmp_path / "a", "model": tmp_path / "." / "a"}
        with pytest.raises(OutputError, match=r"cannot write the model to .*: it is the report"):
            reading.check_outputs(same, str(log))

    def test_no_table_is_written_among_the_logs(self, log):
        """A table there would be read as a part of the log the next time; a model would not."""
        with pytest.raises(OutputError, match=f"name a file outside {log}"):
            reading.check_outputs({"table": log / "members.csv"}, str(log))
        reading.check_outputs({"model": log / "log.coterie"}, str(log))

    def test_what_cannot_be_written_is_refused(self, log, tmp_path):
        """A folder that is not there is told."""
        with pytest.raises(OutputError, match="does not exist"):
            reading.check_outputs({"model": tmp_path / "none" / "m.coterie"}, str(log))

    def test_what_was_not_asked_for_is_not_checked(self, tmp_path):
        """None is no output; a log that is a table of the engine has no files."""
        reading.check_outputs({"model": tmp_path / "m", "table": None}, "bids")


@pytest.mark.parametrize("command", ["segment", "report"])
def test_the_log_is_never_overwritten(run, write_log, command):
    """A command that is told to write over its log ends with 1, and the log is as it was."""
    file = write_log() / "bids.parquet"
    before = file.read_bytes()
    assert_one_line(run("ads", command, file, "-o", file), "it is a part of the log already")
    assert file.read_bytes() == before


def test_an_interrupt_of_the_engine_is_an_interrupt(run, write_log, tmp_path, monkeypatch):
    """DuckDB tells of an interrupt by an error of its own; the program still ends with 130."""
    log = write_log()

    def interrupted(_):
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr("coterie.ads.logs.checks.log_checks.check_logs", interrupted)
    result = run("ads", "segment", log, "-o", tmp_path / "m.coterie")
    assert (result.exit_code, result.stderr) == (130, "interrupted; nothing was written\n")
    assert not (tmp_path / "m.coterie").exists()


def test_a_defect_shows_as_what_it_is(run, write_log, monkeypatch):
    """Any other error of that kind is not dressed up as an interrupt."""
    defect = RuntimeError("a defect")

    def broken(_):
        raise defect

    log = write_log()
    monkeypatch.setattr("coterie.ads.logs.checks.log_checks.check_logs", broken)
    assert run("ads", "check", log).exception is defect
