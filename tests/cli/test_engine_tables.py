"""Tests of ``coterie consensus`` on tables that stay in an engine."""

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from answers import assert_one_line, unwrapped
from coterie import consensus_table, load_model
from coterie.errors import TableError


@pytest.fixture
def labels_parquet(tmp_path, planted):
    """The planted partitions as a Parquet table with an id column ``name``."""
    P, _ = planted
    columns = {"name": [f"{i:03}" for i in range(len(P))]}
    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table(columns | {f"p{v}": P[:, v] for v in range(P.shape[1])}), path)
    return path


def rows_of(path):
    return pq.read_table(path, columns=["name", "label"]).sort_by("name").to_pydict()


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_the_engine_gives_what_memory_gives(run, kind, labels_parquet, labels_csv):
    """Engine and memory give the same labels, from Parquet and from text with blanks."""
    source = labels_parquet if kind == "parquet" else labels_csv
    here, there = (source.with_name(f"{where}.parquet") for where in ("here", "there"))
    arguments = ("consensus", source, "--id", "name", "-k", 3)
    assert run(*arguments, "-o", here).exit_code == 0
    result = run(*arguments, "-o", there, "--engine", "duckdb://", "--threads", 1)
    assert result.exit_code == 0, result.output
    assert rows_of(here) == rows_of(there)


@pytest.mark.parametrize(("engine", "is_told"), [((), True), (("--engine", "duckdb://"), False)])
def test_many_labels_in_memory_have_a_note(run, labels_parquet, monkeypatch, engine, is_told):
    """A note names the engine, which takes less memory; with an engine there is none."""
    monkeypatch.setattr("coterie.cli.consensus._MANY_LABELS", 999)
    result = run("consensus", labels_parquet, "--id", "name", "-k", 3, *engine)
    assert result.exit_code == 0
    assert ("1,000 labels are in memory; --engine" in unwrapped(result.stderr)) == is_told


def test_summary_has_path_and_cost(run, labels_parquet):
    """The summary names path and cost; the facts equal those of a fit in memory."""
    arguments = ("consensus", labels_parquet, "--id", "name", "-k", 3, "--engine", "duckdb://")
    printed = unwrapped(run(*arguments, "--memory-limit", "1GB").stdout)
    for part in ("100 points in 10 partitions", "duckdb://, tuples path:", "profile ", "of memory"):
        assert part in printed
    facts = json.loads(run(*arguments, "--json").stdout)
    assert facts["points"] == sum(facts["sizes"]) == facts["engine"]["rows"] == 100
    assert facts["engine"]["path"] == "tuples"
    memory = json.loads(run("consensus", labels_parquet, "--id", "name", "-k", 3, "--json").stdout)
    for name in ("tuples", "clusters", "sizes", "votes", "camps", "selected"):
        assert facts[name] == memory[name], name
    for name in ("objective", "share_of_pairs", "gap"):
        assert facts[name] == pytest.approx(memory[name]), name


def test_summary_of_a_streamed_table(run, labels_parquet, monkeypatch):
    """The summary has the fitted tuples and the sweeps; a sample gives no bound."""
    few = partial(consensus_table, max_tuples=10, sample_size=40)
    monkeypatch.setattr("coterie.tables.consensus_table", few)
    arguments = ("consensus", labels_parquet, "--id", "name", "-k", 3, "--engine", "duckdb://")
    printed = unwrapped(run(*arguments).stdout)
    for part in ("about ", "streamed path: more than max_tuples=10", "sweeps over all rows"):
        assert part in printed
    assert "bound" not in printed.split()
    facts = json.loads(run(*arguments, "--json").stdout)
    assert "gap" not in facts and facts["engine"]["tuples_exact"] is False


def test_options_reach_the_engine(run, labels_parquet, monkeypatch):
    """Each option is the argument of its name."""
    given = {}

    def record(source, **arguments):
        given.update(arguments, source=source)
        raise TableError("far enough")

    monkeypatch.setattr("coterie.tables.consensus_table", record)
    text = "--columns p0,p1 --id name -k 4 --method median --seed 7 --threads 3 --memory-limit 2GB"
    options = [*text.split(), "--engine", "duckdb://?threads=2", "-o", labels_parquet.parent / "o"]
    assert_one_line(run("consensus", labels_parquet, *options), "far enough")
    assert given == {
        "source": str(labels_parquet),
        "columns": ["p0", "p1"],
        "ids": ["name"],
        "n_clusters": 4,
        "method": "median",
        "random_state": 7,
        "threads": 3,
        "memory_limit": "2GB",
        "engine": "duckdb://?threads=2",
        "out": labels_parquet.parent / "o",
        "parse_text": True,
    }


def test_the_model_is_kept(run, labels_parquet, planted):
    """The saved model predicts the written labels."""
    model, out = (labels_parquet.with_name(name) for name in ("m.coterie", "out.parquet"))
    arguments = ("--id", "name", "-k", 3, "-o", out, "--save-model", model)
    assert run("consensus", labels_parquet, *arguments, "--engine", "duckdb://").exit_code == 0
    predicted = load_model(model).predict(planted[0])
    assert np.array_equal(predicted, rows_of(out)["label"])


def test_several_ids_are_carried_through(run, labels_parquet):
    """Several ids are copied to the output; none of them is a partition."""
    day = pa.array(["mon", "tue"] * 50)
    pq.write_table(pq.read_table(labels_parquet).append_column("day", day), labels_parquet)
    out = labels_parquet.with_name("out.parquet")
    for ids in (("--id", "day", "--id", "name"), ("--id", "day,name")):
        arguments = (*ids, "-k", 3, "-o", out, "--engine", "duckdb://", "--json")
        result = run("consensus", labels_parquet, *arguments)
        assert json.loads(result.stdout)["partitions"] == 10
        assert pq.read_table(out).column_names == ["day", "name", "label", "margin"]
        assert pq.read_table(out).sort_by("name")["day"].to_pylist() == day.to_pylist()
    refused = run("consensus", labels_parquet, *("--id", "day") * 2, "-k", 3)
    assert_one_line(refused, "'day'", "is asked for twice")


def test_model_does_not_replace_table_or_input(run, labels_parquet):
    how, out = ("-k", 3, "--engine", "duckdb://"), labels_parquet.with_name("out.parquet")
    result = run("consensus", labels_parquet, *how, "-o", out, "--save-model", out)
    assert_one_line(result, "cannot write the model", "this path is the table")
    pattern = labels_parquet.with_name("*.parquet")
    result = run("consensus", pattern, *how, "--save-model", labels_parquet)
    assert_one_line(result, "cannot write the model", "this path is the input")
    assert [path.name for path in labels_parquet.parent.iterdir()] == ["labels.parquet"]


def test_limits_of_engines_are_one_line(run, labels_parquet):
    """Requests that an engine cannot fulfil are refused with one line."""
    how = ("-k", 3, "--engine", "duckdb://")
    folder = labels_parquet.parent
    for option, name in (("--plot", "p.svg"), ("--report", "r.html")):
        assert_one_line(run("consensus", labels_parquet, *how, option, folder / name), option)
    assert_one_line(run("consensus", labels_parquet, *how, "-o", folder / "o.csv"), ".parquet")
    assert_one_line(run("consensus", labels_parquet, *how, "-o", labels_parquet), "the input")
    assert_one_line(run("consensus", "no_table", *how), "no_table: there is no such file or table")
    assert_one_line(run("consensus", labels_parquet, *how, "--id", "nmae"), "no column 'nmae'")
    assert_one_line(run("consensus", labels_parquet, *how, "-o", "/dev/null"), "a device or a pipe")
    assert_one_line(run("consensus", labels_parquet, *how, "--memory-limit", 0), "such as 2GB")
    wrong = run("consensus", labels_parquet, "-k", 3, "--engine", "duck")
    assert_one_line(wrong, "duckdb://", "pyspark://")
    result = run("consensus", labels_parquet, "-k", 3, "--memory-limit", "1GB")
    assert result.exit_code == 2 and "--engine duckdb://" in unwrapped(result.stderr)
    assert [path.name for path in folder.iterdir()] == ["labels.parquet"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signal", "code", "word"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")]
)
def test_signal_during_a_query_leaves_nothing(tmp_path, signal, code, word):
    """A signal during a query gives its exit code, one line and no file."""
    n = 1_000_000
    P = np.random.default_rng(0).integers(0, 9, (n, 6), dtype=np.int8)
    pq.write_table(pa.table({f"p{v}": P[:, v] for v in range(6)}), tmp_path / "in.parquet")
    arguments = ("in.parquet", "-k", "3", "--engine", "duckdb://", "-o", "out.parquet")
    script = """
import logging, os, signal, sys, threading
from coterie.cli import main

class Interrupter(logging.Handler):
    def emit(self, record):
        if record.getMessage().startswith("counting"):
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGNAL)).start()

# A program started in the background ignores SIGINT unless it has a handler.
signal.signal(signal.SIGINT, signal.default_int_handler)
logging.getLogger("coterie").setLevel(logging.INFO)
logging.getLogger("coterie").addHandler(Interrupter())
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script.replace("SIGNAL", signal), "consensus", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert done.stderr == f"{word}; nothing was written\n"
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


def test_a_column_that_names_the_rows_is_a_note(run, labels_parquet):
    """An engine lists the labels of text anyway; nearly as many as rows give a note."""
    arguments = ("consensus", labels_parquet, "-k", 3, "--engine", "duckdb://", "--json")
    (note,) = json.loads(run(*arguments).stdout)["notes"]
    assert note.startswith("column 'name' has 100 different labels in 100 rows")
    assert json.loads(run(*arguments, "--id", "name").stdout)["notes"] == []
