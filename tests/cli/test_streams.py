"""Tests of ``-``: tables through real pipes, one process for each program run."""

import gzip
import os
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from answers import assert_one_line, unwrapped
from coterie.cli.program import app

MAIN = "from coterie.cli import main; main()"
PROGRAM = [sys.executable, "-c", MAIN]


def piped(*arguments, stdin=b""):
    """Run the program in a process with pipes for all streams."""
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, check=False)


def test_a_table_goes_through_a_pipe(run, labels_csv):
    """Standard output is exactly the file that -o FILE writes; the summary is on stderr."""
    out = labels_csv.with_name("out.csv")
    arguments = ("--id", "name", "-k", 3, "--method", "one-hot")
    assert run("consensus", labels_csv, *arguments, "-o", out).exit_code == 0
    text = labels_csv.read_bytes().replace(b",", b"\t")
    done = piped("consensus", "-", *arguments, "-o", "-", stdin=text)
    assert done.returncode == 0, done.stderr
    assert done.stdout == out.read_bytes()
    assert done.stderr.startswith(b"standard input: 100 points")
    assert b"Nothing was written" not in done.stderr
    assert sorted(path.name for path in labels_csv.parent.iterdir()) == ["labels.csv", "out.csv"]


@pytest.mark.slow
def test_features_go_through_a_pipe(features_csv):
    """``cluster`` reads and writes pipes, also gzipped text; --quiet keeps stderr empty."""
    text = gzip.compress(features_csv.read_bytes())
    arguments = ("--id", "name", "-k", 3, "--partitions", 3, "--method", "one-hot")
    done = piped("cluster", "-", *arguments, "-o", "-", "-q", stdin=text)
    assert (done.returncode, done.stderr) == (0, b"")
    header, *rows = done.stdout.decode().splitlines()
    assert header == "name,label,confidence"
    assert [row.split(",")[0] for row in rows] == [f"{i:03}" for i in range(60)]


@pytest.mark.parametrize(
    ("stdin", "message"),
    [
        (b"a,b\n1,2\n1,0.5\n", "'b' of standard input holds 0.5 (line 3)"),
        (b"a,b\n1,caf\xe9\n", "iconv -f WINDOWS-1252 -t UTF-8\n"),
        (b"PAR1....", "standard input is in Parquet format"),
        (b"\x93NUMPY..", "standard input is in NPY format"),
        (b"\x1f\x8bbroken", "standard input is not a complete gzip file"),
    ],
)
def test_bad_standard_input_is_one_line(stdin, message):
    """Messages call the input by its name, and nothing is written to standard output."""
    result = CliRunner().invoke(app, ["consensus", "-", "-k", "2", "-o", "-"], input=stdin)
    assert_one_line(result, message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-", "--engine", "duckdb://"], "--engine cannot read standard input"),
        (["labels.csv", "--engine", "duckdb://", "-o", "-"], "--engine cannot write to standard"),
        (["labels.csv", "--save-model", "-"], "cannot write the model to standard output"),
    ],
)
def test_what_cannot_be_a_stream_is_refused(run, arguments, message):
    """Engines and models need files."""
    result = run("consensus", *arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr


@pytest.mark.parametrize("command", ["consensus", "cluster"])
def test_json_and_a_table_on_one_stream_are_refused(run, labels_csv, command):
    """--json and -o - is wrong usage."""
    result = run(command, labels_csv, "-k", 3, "-o", "-", "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "as -o - does" in unwrapped(result.stderr.replace("│", " "))


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["-o", "-", "-q"], ["--json"], []])
def test_a_closed_pipe_is_silent(tmp_path, arguments):
    """If the reader closes the pipe, the program ends without a message."""
    names = np.array([f"{'n' * 90}{i}" for i in range(2000)])  # more than a pipe buffers
    rows = [f"{name},{i % 3},{i % 3},{(i // 2) % 3}" for i, name in enumerate(names)]
    path = tmp_path / "labels.csv"
    path.write_text("\n".join(["name,a,b,c", *rows]) + "\n")
    reader, writer = os.pipe()
    os.close(reader)
    command = [*PROGRAM, "consensus", str(path), "--id", "name", "-k", "3", "--method", "one-hot"]
    done = subprocess.run(
        [*command, *arguments], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("redirect", "message"),
    [
        ("<&-", "error: standard input is closed"),
        ("-o - < LABELS >&-", "error: cannot write the table: standard output is closed"),
        ("-o - < LABELS > /dev/full", "error: cannot write standard output: No space left"),
    ],
)
def test_closed_and_full_streams_are_errors(labels_csv, redirect, message):
    """A stream that cannot be used is bad input, in one line."""
    options = "--id name -k 3 --method one-hot -q " + redirect.replace("LABELS", str(labels_csv))
    command = f'{sys.executable} -c "{MAIN}" consensus - {options}'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1
