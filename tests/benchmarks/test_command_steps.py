"""The steps from a run to its report: folders, files, and what is shown."""

from __future__ import annotations

import json

import pytest

from benchmarks.command_steps import (
    as_json_text,
    prepare_folder,
    progress,
    show,
    text_file,
    write_files,
)
from benchmarks.result_tables import ResultTable


def test_an_interrupt_while_writing_tells_what_is_complete(tmp_path):
    """Files that were complete when the interrupt came are its arguments; the rest is not there."""

    def interrupted(path):
        path.write_text("half")
        raise KeyboardInterrupt

    first, second = tmp_path / "first", tmp_path / "second"
    with pytest.raises(KeyboardInterrupt) as told:
        write_files({first: text_file("whole"), second: interrupted})
    assert told.value.args == (first,)
    assert list(tmp_path.iterdir()) == [first]


def test_a_folder_is_made_with_its_parents(tmp_path):
    """A folder that is not there is made; none is no folder."""
    prepare_folder(tmp_path / "a" / "b", ("c.json",))
    prepare_folder(None, ("c.json",))
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_json_refuses_what_is_no_number():
    """NaN is not JSON; letters stay as they are."""
    assert json.loads(as_json_text({"ℓ": 1})) == {"ℓ": 1}
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json_text({"mean": float("nan")})


def test_json_is_shown_alone(capsys, tmp_path):
    """With --json nothing but the object; else tables, sentences and the folder."""
    table = ResultTable("Times", ("cell", "s"), [("a", "1.0")])
    show(True, {"a": 1}, [table], ["A line."], tmp_path)
    assert json.loads(capsys.readouterr().out) == {"a": 1}
    show(False, {"a": 1}, [table], ["A line."], tmp_path)
    shown = capsys.readouterr().out
    assert all(part in shown for part in ("Times", "A line.", "Report in"))


def test_progress_is_silent_off_a_terminal(capsys):
    """Where standard error is no terminal, nothing is drawn."""
    with progress("working", 2) as advance:
        advance(None)
        advance("nearly done")
    found = capsys.readouterr()
    assert (found.out, found.err) == ("", "")
