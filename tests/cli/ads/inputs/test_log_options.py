"""Options of a log mean the same in every command, and the check proposes them."""

from __future__ import annotations

import json
import shlex

import pytest

from answers import assert_one_line, unwrapped
from coterie.ads import LogMapping, open_logs
from coterie.ads.logs.log_mapping import read_mapping
from foreign_logs import SHAPES, auctions

#: A line of iPinYou.
PAPER = (
    "bid{i}\t2013060712000{i}123\t{kind}\tp\tM\t10.0.0.*\t1\t2\t1\td\tu\t\ts\t300\t250\t0\t0\t5"
    "\tcreative\t300\t{price}\tlanding\t1458\t1"
)


@pytest.fixture
def log(tmp_path):
    """A log with usual names, whose unit must be said."""
    return SHAPES["usual_names"](tmp_path, auctions(480))[0]


def test_the_check_proposes_a_command_that_works(run, log, tmp_path):
    """The log is refused until the options are given; the proposed command has them."""
    result = run("ads", "check", log)
    assert result.exit_code == 1
    shown = unwrapped(result.stdout)
    for part in ("what its columns seem to mean", "clearing_price", "a guess", "Not decided: the"):
        assert part in shown
    line = next(line for line in result.stdout.splitlines() if "coterie ads segment" in line)
    words = shlex.split(line)[1:]
    words[words.index("market.coterie")] = tmp_path / "m.coterie"
    result = run(*words, "-k", "2", "--quiet")
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "m.coterie").exists()


def test_the_proposal_is_data_too(run, log):
    """--json has every role with its column, unit and examples, and the command."""
    facts = json.loads(run("ads", "check", log, "--json").stdout)
    assert facts["ok"] is False
    bid = next(one for one in facts["mapping"]["roles"] if one["role"] == "bid")
    assert (bid["column"], bid["unit"], len(bid["examples"])) == ("bid_price", "currency", 3)
    assert facts["mapping"]["command"].startswith("coterie ads segment")
    facts = json.loads(run("ads", "check", log, "--amounts", "currency", "--json").stdout)
    assert facts["ok"] is True
    assert facts["mapping"]["problems"] == []


def test_a_mapping_file_replaces_the_options(run, log, tmp_path):
    """What the check writes, the check reads once guesses are confirmed; options come first."""
    mapping = tmp_path / "mapping.toml"
    assert run("ads", "check", log, "--write-mapping", mapping, "--quiet").exit_code == 1
    assert read_mapping(mapping).units == {}
    assert run("ads", "check", log, "--mapping", mapping, "--quiet").exit_code == 1
    mapping.write_text(mapping.read_text().replace('# all = "currency"', 'all = "currency"'))
    assert read_mapping(mapping).units == {"all": "currency"}
    assert run("ads", "check", log, "--mapping", mapping, "--quiet").exit_code == 0
    result = run("ads", "check", log, "--mapping", mapping, "--column", "bid=none")
    assert result.exit_code == 1
    assert "there is no column none for the role bid" in unwrapped(result.stdout)


def test_commands_refuse_a_log_that_is_not_decided(run, log, tmp_path):
    """One line has the options, and nothing is written."""
    result = run("ads", "segment", log, "-o", tmp_path / "m")
    assert_one_line(result, "the unit of bid", "--amounts currency", "coterie ads check")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--column", "bid"], "write ROLE=NAME"),
        (["--column", "bid=a", "--column", "bid=b"], "bid is given twice"),
        (["--date-format", "us"], "day-first"),
    ],
)
def test_badly_written_options_are_wrong_usage(run, log, options, message):
    """The exit code is 2."""
    result = run("ads", "check", log, *options)
    assert result.exit_code == 2
    assert message in unwrapped(result.stderr)


def test_unknown_roles_and_units_are_bad_input(run, log):
    """The message lists the known ones."""
    assert_one_line(run("ads", "check", log, "--column", "bids=a"), "the roles are")
    assert_one_line(run("ads", "check", log, "--amounts", "euros"), "the units are")


def test_a_notice_file_is_never_overwritten(run, tmp_path):
    """It is an input."""
    words = SHAPES["openrtb"](tmp_path, auctions(10))
    result = run("ads", "segment", *words, "-o", tmp_path / "wins.jsonl")
    assert_one_line(result, "this path is a notice file")


def test_click_files_of_ipinyou_mark_impressions(run, tmp_path):
    """With the format, a click counts for the impression of the same bid."""
    for name, kind, ids in (("imp", 1, range(1, 9)), ("clk", 2, (3, 5))):
        lines = [PAPER.format(i=i, kind=kind, price=100 + i) for i in ids]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    files = [tmp_path / "imp.txt", tmp_path / "clk.txt"]
    table = open_logs(files, mapping=LogMapping(format="ipinyou")).table
    assert table.click.to_pyarrow().to_pylist().count(True) == 2
    assert run("ads", "check", *files, "--format", "ipinyou", "--quiet").exit_code == 0
