"""Tests of reading a log: options, checks of outputs, one pass over the files."""

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
from coterie.ads.histograms.price_grid import price_grid
from coterie.ads.logs import bid_logs, raw_logs
from coterie.cli.ads.inputs import reading
from coterie.cli.ads.inputs.log_options import LogOptions
from coterie.cli.ads.inputs.reading import LogInput
from coterie.errors import CoterieWarning, OutputError, TableError


@given(st.lists(st.integers(1, 10**6), min_size=1), st.sampled_from([",", ", ", " ,"]))
@settings(deadline=None, max_examples=50)
def test_numbers_are_read_back(numbers, between):
    """Numbers separated by commas are read, with or without blanks."""
    assert reading.numbers_in(between.join(map(str, numbers))) == numbers


@given(st.text(st.characters(exclude_categories=["Nd"])))
@settings(deadline=None, max_examples=50)
def test_text_is_wrong_usage(text):
    """Text without a digit is refused."""
    with pytest.raises(typer.BadParameter, match="is not a number of segments"):
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
def test_consensus_functions_by_name(name, kind):
    """--consensus names a consensus function, which gets the seed."""
    settings_ = reading.segment_settings("3", name, 7)
    assert type(settings_.consensus) is kind
    assert (settings_.n_segments, settings_.random_state) == ([3], 7)
    assert getattr(settings_.consensus, "random_state", 7) == 7


def test_a_log_is_opened_checked_and_counted(write_log):
    """Histograms count every row; texts are read from the file beside the log."""
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
    log = write_log(bid_micros=bids, won=[False] * n, price_micros=pa.nulls(n, pa.int64()))
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
        """Neither the log nor the texts beside it may be an output."""
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


def test_interrupt_in_the_engine(run, write_log, tmp_path, monkeypatch):
    """An interrupt that DuckDB reports as an error still ends with 130."""
    log = write_log()

    def interrupted(_):
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr("coterie.ads.logs.checks.log_checks.check_logs", interrupted)
    result = run("ads", "segment", log, "-o", tmp_path / "m.coterie")
    assert (result.exit_code, result.stderr) == (130, "interrupted; nothing was written\n")
    assert not (tmp_path / "m.coterie").exists()


def test_other_engine_errors_are_not_interrupts(run, write_log, monkeypatch):
    """Any other RuntimeError is not reported as an interrupt."""
    defect = RuntimeError("a defect")

    def broken(_):
        raise defect

    log = write_log()
    monkeypatch.setattr("coterie.ads.logs.checks.log_checks.check_logs", broken)
    assert run("ads", "check", log).exception is defect
