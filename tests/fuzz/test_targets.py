"""The fuzz targets stay alive: each accepts its seeds and keeps its contract for a moment."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from coterie.errors import CoterieError, InvalidParameterError, TableError
from fuzz import contract, engines, model_files
from fuzz.__main__ import fuzz
from fuzz.contract import BrokenContractError, Record
from fuzz.engines import try_properties
from fuzz.targets import TARGETS, make_target

FAST = ["labels", "text", "service"]


@pytest.fixture(autouse=True)
def fixed_numbers(monkeypatch, tmp_path_factory):
    """Let each input take a hundredth of a second of its engine, and bound nothing else."""
    tmp_path_factory.getbasetemp()  # targets keep temporary files in folders of their own later
    clock = SimpleNamespace(perf_counter=itertools.count(step=0.01).__next__)
    monkeypatch.setattr(engines, "time", clock)
    for bound in ("MOST_SECONDS", "MOST_BYTES"):
        monkeypatch.setattr(contract, bound, math.inf)


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_answered(name):
    """What the mutations begin with is valid input, so that they reach the depths of the code."""
    target = make_target(name)
    record = Record(target)
    for seed in list(target.seeds())[:4]:
        record.run(target.from_bytes(seed))
    assert record.findings == {}
    # labels are drawn from the bytes, so that theirs may also be refused
    answered = [what for what in record.outcomes if not what.startswith("refused")]
    assert answered or name == "labels"


@pytest.mark.parametrize("name", FAST)
def test_structured_inputs_keep_the_contract(name):
    """A hundred random inputs give answers and documented errors only."""
    found = try_properties(make_target(name), 1.0)
    assert found["executions"] > 90
    assert found["findings"] == []


def test_counts_are_printed_and_written(tmp_path):
    """The result has a row of counts for each target."""
    result = fuzz(["text"], ["properties"], 0.3, tmp_path)
    (row,) = result.tables[0].rows
    assert row[0] == "text" and int(row[3].replace(",", "")) > 0
    assert (tmp_path / "text-properties").is_dir()


def test_unknown_target_is_refused():
    """The error lists the targets."""
    with pytest.raises(InvalidParameterError, match="labels, text"):
        make_target("nothing")


class TestRecord:
    def record(self, check, **changes):
        """A record of a target with another check."""
        return Record(replace(make_target("text"), check=check, **changes))

    def test_documented_errors_are_refusals(self):
        """They are counted by their kind."""

        def refuse(_):
            raise TableError("no")

        record = self.record(refuse)
        record.run(b"")
        assert record.outcomes == {"refused by TableError": 1}

    @pytest.mark.parametrize("error", [ValueError, CoterieError, RecursionError, MemoryError])
    def test_other_errors_are_findings(self, error):
        """Each is kept once by its place."""

        def fail(_):
            raise error("no")

        record = self.record(fail)
        record.run(b"1")
        record.run(b"2")
        assert record.outcomes == {"finding": 2}
        assert list(record.findings) == [f"{error.__name__} in test_targets.py:fail"]

    def test_files_must_not_be_written(self, tmp_path):
        """Writing a file anywhere but in the folder of the process breaks the contract."""

        def write(_):
            (tmp_path / "executed").write_text("x")
            return "written"

        record = self.record(write)
        record.run(b"")
        (text,) = record.findings.values()
        assert "it caused open of" in text

    def test_time_is_bounded(self, monkeypatch):
        """An input that takes too long is a finding."""
        monkeypatch.setattr(contract, "MOST_SECONDS", -1.0)
        record = self.record(lambda _: "done")
        record.run(b"")
        (found,) = record.findings
        assert found.startswith(BrokenContractError.__name__)


def test_a_value_may_be_put_into_itself():
    """A forged tree stays a tree if one value is drawn for a place and for a place inside it."""
    value = [0]
    forged = model_files._changed_tree(0, [(0, value), (1, value)])
    assert b"[[0]]" in forged.content.replace(b" ", b"")
