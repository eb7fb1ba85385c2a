"""Outputs are refused before the work, and written after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.command_line.terminal.outputs import Outputs, write_all
from coterie.errors import InvalidParameterError, OutputError


def test_paths_are_those_asked_for():
    """What was not asked for has no path."""
    assert Outputs(model=Path("m")).paths == {"model": Path("m")}


def test_the_input_is_never_overwritten(tmp_path):
    """An output with the name of the input is refused, by whatever way it is reached."""
    source = tmp_path / "labels.csv"
    source.touch()
    (tmp_path / "link.csv").symlink_to(source)
    for path in (source, tmp_path / "link.csv", tmp_path / "." / "labels.csv"):
        with pytest.raises(OutputError, match="it is the input already"):
            Outputs(path).check(source)


def test_two_outputs_are_two_files(tmp_path):
    """One file cannot be the table and the model."""
    with pytest.raises(OutputError, match=r"cannot write the model .*: it is the table already"):
        Outputs(tmp_path / "a.csv", None, tmp_path / "a.csv").check(tmp_path / "in.csv")


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"table": "a.xlsx"}, "must end in one of .csv"),
        ({"picture": "a.txt"}, "must end in one of .png, .svg, .pdf"),
        ({"model": "none/m.coterie"}, "does not exist"),
        ({"table": "."}, "it is a folder"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, outputs, message):
    """Suffixes and folders are checked for every output."""
    paths = {kind: tmp_path / name for kind, name in outputs.items()}
    with pytest.raises(OutputError, match=message):
        Outputs(**paths).check(tmp_path / "in.csv")


def test_an_id_named_like_a_result_is_refused(tmp_path):
    """The id column must not hide a column of the result."""
    with pytest.raises(InvalidParameterError, match="named 'confidence'"):
        Outputs(tmp_path / "a.csv").check(tmp_path / "in.csv", ["name", "confidence"])
    Outputs().check(tmp_path / "in.csv", ["name", "confidence"])


def test_nothing_is_written_when_the_picture_fails(tmp_path):
    """The picture is drawn first, so that its failure leaves no table behind."""

    def draw():
        raise OutputError("no picture")

    outputs = Outputs(tmp_path / "a.csv", tmp_path / "a.png")
    with pytest.raises(OutputError, match="no picture"):
        outputs.write({"label": [0]}, None, draw)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_names_the_complete_files(tmp_path):
    """An interrupt between files carries those that are complete."""

    def interrupted(path):
        raise KeyboardInterrupt

    first, second = tmp_path / "first", tmp_path / "second"
    with pytest.raises(KeyboardInterrupt) as interrupt:
        write_all({first: Path.touch, second: interrupted})
    assert interrupt.value.args == (first,)


def test_a_folder_that_is_read_takes_no_output(tmp_path):
    """A model must not overwrite one of the files of the input, nor a table join them."""
    (tmp_path / "parts").mkdir()
    for outputs in (
        Outputs(tmp_path / "parts" / "out.parquet"),
        Outputs(model=tmp_path / "parts" / "0.parquet"),
    ):
        with pytest.raises(OutputError, match=r"it lies in .*parts, which is read"):
            outputs.check(tmp_path / "parts")
