"""Tests of columns that name the rows."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.cli.inputs import find_ids
from coterie.errors import LabelWarning
from coterie.tables.reading import array_table, read_table


def table_of(**columns):
    """Return a table with these columns; lists of text are as in a CSV file."""
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    return array_table(Path("t.csv"), arrays)


def noted(table, *, ids=(), columns=None, use="labels"):
    """Return the ids of a table, and the notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = find_ids(table, ids, columns, use)
    assert all(one.category is LabelWarning for one in caught)
    return found, [str(one.message) for one in caught]


def words(n):
    """Return n different texts."""
    return [f"w{i}" for i in range(n)]


RUN = [str(i % 3) for i in range(20)]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("who", words(20)),
        ("who", [f"{i:03}" for i in range(20)]),
        ("who", [*words(18), "w0", "w1"]),
        ("user_id", [str(i) for i in range(20)]),
        ("userId", list(range(20))),
        ("Name", [str(i) for i in range(20)]),
        ("Unnamed: 0", list(range(20))),
        ("", list(range(20))),
    ],
)
def test_the_only_id_is_used(name, values):
    """Text, or numbers with the name of an id, become the id with a note that names the column."""
    found, notes = noted(table_of(**{name: values, "run": RUN}))
    assert found == [name]
    (note,) = notes
    assert note.startswith(f"column {name!r} has ") and "is used as the id" in note


@pytest.mark.parametrize(
    ("name", "n", "is_id"),
    [("name", 2, True), ("name", 1, False), ("who", 5, True), ("who", 4, False)],
)
def test_small_tables(name, n, is_id):
    """With few rows, text alone is not enough: the name must say that it is an id."""
    found, notes = noted(table_of(**{name: words(n), "run": ["1"] * n}))
    assert (found, len(notes)) == ([name] if is_id else [], int(is_id))


def test_numbers_stay_in_use_with_a_note():
    """A different number in each of 20 rows gives a note; 19 rows do not."""
    numbers = [str(i) for i in range(20)]
    found, notes = noted(table_of(part=numbers, run=RUN))
    assert (found, len(notes)) == ([], 1)
    assert "is used as labels" in notes[0] and "--id part" in notes[0]
    assert noted(table_of(part=numbers[:19], run=RUN[:19])) == ([], [])


def test_long_columns():
    """From 90% different values on, a long column is the id, wherever the equal values are."""
    enough, too_few = words(1800), words(1799)
    for values in ([*enough, *["w0"] * 200], [*["w0"] * 200, *enough]):
        assert noted(table_of(who=values, run=RUN * 100))[0] == ["who"]
    for values in ([*too_few, *["w0"] * 201], [*["w0"] * 201, *too_few]):
        assert noted(table_of(who=values, run=RUN * 100)) == ([], [])


def test_two_candidates_stay_in_use():
    """With two candidates the program does not choose."""
    found, notes = noted(table_of(id=words(20), name=words(20), run=RUN))
    assert found == []
    assert [note.split("--id ")[1] for note in notes] == ["id", "name"]


@pytest.mark.parametrize(
    ("name", "option"),
    [("user id", "'user id'"), ("a,b name", """'"a,b name"'"""), ("", """'""'""")],
)
def test_the_option_can_be_copied_to_a_shell(name, option):
    """Names with blanks and commas are quoted."""
    (note,) = noted(table_of(**{name: words(20), "run": RUN}))[1]
    assert f"--id {option} " in note


def test_what_the_user_says_counts():
    """Listed columns stay in use, with a note; ids that are given are the only ones."""
    table = table_of(name=words(20), run=RUN, key=words(20))
    assert noted(table, ids=["name", "key"]) == (["name", "key"], [])
    found, (note,) = noted(table, ids=["name"])
    assert found == ["name"] and "'key'" in note
    found, (note,) = noted(table, columns=["name", "run"])
    assert found == ["key"] and "'name'" in note
    for wrong in ({"columns": ["name", "absent"]}, {"ids": ["absent"]}, {"ids": ["run", "run"]}):
        assert noted(table, **wrong) == (wrong.get("ids", []), [])


def test_a_table_keeps_one_column():
    """The only column is not taken, nor one with the name of a result column."""
    assert noted(table_of(name=words(20)))[0] == []
    assert noted(table_of(label=words(20), run=RUN))[0] == []


def test_measurements_and_other_types_are_no_ids(tmp_path):
    """Numbers with fractions get their own message later; times and floats are left alone."""
    fractions = [f"{i}.5" for i in range(20)]
    times = pa.array(range(20), pa.timestamp("us"))
    columns = {"id": fractions, "key": times, "name": [float(i) for i in range(20)], "run": RUN}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    assert noted(read_table(tmp_path / "t.parquet")) == ([], [])


def test_features_are_ids_only_by_name_or_as_text():
    """Different numbers in every row are usual for features."""
    numbers = [str(3 * i) for i in range(20)]
    x = [f"{i}.25" for i in range(20)]
    assert noted(table_of(visitors=numbers, x=x), use="features") == ([], [])
    assert noted(table_of(shop_id=numbers, x=x), use="features")[0] == ["shop_id"]
    found, (note,) = noted(table_of(shop=words(20), x=x), use="features")
    assert found == ["shop"] and "--columns" not in note


def test_running_numbers_among_features_have_a_note():
    """Whole numbers without a gap, in any order, number the rows; others are measurements."""
    numbers = [str(1000 + 7 * i % 20) for i in range(20)]
    found, notes = noted(table_of(cust=numbers, run=RUN), use="features")
    assert (found, len(notes)) == ([], 1)
    assert "is used as a feature" in notes[0] and "--id cust" in notes[0]
    assert noted(table_of(cust=[*numbers[:-1], "9"], run=RUN), use="features") == ([], [])


@pytest.mark.parametrize("command", ["consensus", "choose-k"])
def test_the_program_says_which_column_is_the_id(run, labels_csv, command):
    """Without --id the answer is that with --id, and one note says so."""
    arguments = (command, labels_csv, *(["-k", 3] if command == "consensus" else ["--to", 3]))
    without, given = run(*arguments, "--json"), run(*arguments, "--id", "name", "--json")
    assert without.exit_code == given.exit_code == 0, without.stderr
    facts, expected = json.loads(without.stdout), json.loads(given.stdout)
    (note,) = facts.pop("notes")
    assert note.startswith("column 'name' has a different value in every row and is used as the id")
    assert without.stderr == f"note: {note}\n"
    assert expected.pop("notes") == []
    assert {**facts, "seconds": 0} == {**expected, "seconds": 0}


def test_the_id_is_copied_to_the_output(run, features_csv):
    """The id that was found is the first column of the output."""
    out = features_csv.with_name("out.csv")
    result = run("cluster", features_csv, "-k", 3, "--partitions", 3, "-o", out)
    assert result.exit_code == 0, result.stderr
    assert result.stderr.startswith("note: column 'name' ")
    assert list(read_table(out).columns) == ["name", "label", "confidence"]


def test_a_column_in_use_has_one_note(run, labels_csv):
    """A column that stays in use is not reported twice."""
    result = run("consensus", labels_csv, "--columns", "name,p0,p1,p2", "-k", 3, "--json")
    (note,) = json.loads(result.stdout)["notes"]
    assert "--id name" in note
