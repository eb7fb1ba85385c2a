"""Tests of what commands read: columns that name the rows, and factors, which are tested."""

import json
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from answers import unwrapped
from coterie import factor_tests
from coterie.cli.inputs import find_ids, run_factor_tests, without_factors
from coterie.errors import LabelWarning, TableError
from coterie.tables.reading import array_table, read_table
from table_files import columns_of


def table_of(**columns):
    """Return a table with these columns; lists of text are as in a CSV file."""
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    return array_table(Path("t.csv"), arrays)


def noted(table, *, ids=(), columns=None, use="labels"):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = find_ids(table, ids, columns, use)
    assert all(one.category is LabelWarning for one in caught)
    return found, [str(one.message) for one in caught]


def words(n):
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
    commas = [one.replace(".", ",") for one in x]  # measurements, too
    assert noted(table_of(shop_id=numbers, x=commas), use="features")[0] == ["shop_id"]
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


# ---- Factors


@pytest.fixture
def with_factors(labels_csv):
    """Add a text, a number with a missing value, and a constant to the table of labels."""
    head, *rows = labels_csv.read_text().splitlines()
    y = np.repeat([0, 1, 2], [60, 30, 10])
    more = [
        f"{row},{'mf'[i % 2]},{'' if i == 5 else 10 * y[i] + i % 7},one"
        for i, row in enumerate(rows)
    ]
    path = labels_csv.with_name("factors.csv")
    path.write_text("\n".join([f"{head},sex,age,site", *more]) + "\n")
    return path


def test_factors_are_tested_and_not_clustered(run, with_factors, labels_csv):
    """The labels are those without the columns, and the tests those of Python."""
    outs = [with_factors.with_name(name) for name in ("one.csv", "two.csv")]
    asked = ("--factors", "sex,age,site", "--json", "-o", outs[0])
    result = run("consensus", with_factors, "-k", 3, *asked)
    assert result.exit_code == 0, result.stderr
    assert run("consensus", labels_csv, "-k", 3, "-o", outs[1]).exit_code == 0
    assert outs[0].read_text() == outs[1].read_text()
    table = columns_of(with_factors)
    labels = [int(v) for v in columns_of(outs[0])["label"]]
    age = [np.nan if v is None else float(v) for v in table["age"]]
    expected = factor_tests(labels, {"sex": table["sex"], "age": age, "site": table["site"]}).rows
    for row, test in zip(json.loads(result.stdout)["factors"], expected, strict=True):
        assert (row["factor"], row["test"], row["n"]) == (test.factor, test.test, test.n)
        known = row["p_value"] is not None
        assert not known or row["p_value"] == pytest.approx(test.p_value)
    shown = run("consensus", with_factors, "-k", 3, "--factors", "age")
    assert "Kruskal-Wallis" in shown.stdout


def test_features_can_have_factors(run, features_csv):
    """Columns of a table of features are left out of the clustering and tested."""
    head, *rows = features_csv.read_text().splitlines()
    more = [f"{row},{i // 20}" for i, row in enumerate(rows)]
    path = features_csv.with_name("more.csv")
    path.write_text("\n".join([f"{head},size", *more]) + "\n")
    result = run("cluster", path, "-k", 3, "--partitions", 4, "--factors", "size", "--json")
    facts = json.loads(result.stdout)
    assert facts["sizes"] == [20, 20, 20]
    assert facts["factors"][0]["effect_size"] == pytest.approx(1.0)
    assert facts["feature_indices"]["silhouette"] > 0.5


def test_numbers_can_be_categories(run, with_factors):
    """--categories counts codes; without it a note names the option."""
    path = with_factors.with_name("codes.csv")
    path.write_text(with_factors.read_text().replace(",m,", ",0,").replace(",f,", ",1,"))
    given = ("consensus", path, "-k", 3, "--factors", "sex,age,site", "--json")
    found = {more: json.loads(run(*given, *more).stdout) for more in ((), ("--categories", "sex"))}
    tests = {more: facts["factors"][0]["test"] for more, facts in found.items()}
    assert tests == {(): "Kruskal-Wallis", ("--categories", "sex"): "chi-squared"}
    notes = {more: " ".join(facts["notes"]) for more, facts in found.items()}
    assert "few different values: sex; if these are codes, name them in --categories" in notes[()]
    assert "categories" not in notes[("--categories", "sex")]
    result = run("consensus", path, "--factors", "age", "--categories", "sex")
    assert result.exit_code == 2 and "'sex' is not in --factors" in result.stderr


def test_unknown_factors_are_refused(run, labels_csv):
    """The message lists the columns; an engine does not test factors."""
    result = run("consensus", labels_csv, "--factors", "colour")
    assert result.exit_code == 1
    assert "has no column 'colour' for --factors" in result.stderr
    result = run("consensus", labels_csv, "--factors", "p0", "--engine", "duckdb://")
    assert result.exit_code == 2


def test_factor_tests_have_the_seed_and_the_categories(monkeypatch):
    """Large tables of counts are tested by random permutations."""
    given = {}
    monkeypatch.setattr(
        "coterie.inspection.factor_tests.factor_tests", lambda *_, **named: given.update(named)
    )
    run_factor_tests([0, 1], {"f": np.arange(2)}, 7, ["f"])
    assert given == {"random_state": 7, "categories": ["f"]}


def test_columns_without_factors(labels_csv):
    """A table of factors only is refused."""
    table = read_table(labels_csv)
    rest, factors = without_factors(table, ["p0"])
    assert set(table.columns) - set(rest.columns) == set(factors) == {"p0"}
    with pytest.raises(TableError, match="only factors"):
        without_factors(table, list(table.columns))


def test_distances_are_clustered(run, features_csv, tmp_path):
    """A table of distances gives the clusters of its features."""
    X = np.loadtxt(features_csv, delimiter=",", skiprows=1, usecols=(1, 2))
    D = np.linalg.norm(X[:, None] - X, axis=2)
    path = tmp_path / "distances.csv"
    lines = [f"{i:03}," + ",".join(f"{d:.6f}" for d in row) for i, row in enumerate(D)]
    path.write_text("\n".join([",".join(["name", *(f"d{i}" for i in range(60))]), *lines]) + "\n")
    arguments = ("--id", "name", "--distances", "-k", 3, "--partitions", 8, "--json")
    result = run("cluster", path, *arguments)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["sizes"] == [20, 20, 20]


def test_a_table_with_a_row_per_partition_is_noted(run, tmp_path):
    """More columns than rows: the table may have to be turned."""
    rows = [",".join(f"p{v}" for v in range(20))]
    rows += [",".join(str((7 * i + v) % 3) for v in range(20)) for i in range(4)]
    (tmp_path / "turned.csv").write_text("\n".join(rows) + "\n")
    result = run("consensus", tmp_path / "turned.csv", "-k", 2)
    assert result.exit_code == 0
    assert "the labels have 4 rows and 20 columns" in unwrapped(result.stderr)
