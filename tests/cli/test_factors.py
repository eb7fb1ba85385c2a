"""``--factors``: columns that are tested against the clusters instead of clustered."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from coterie import factor_tests
from coterie.cli.inputs import without_factors
from coterie.errors import TableError
from coterie.tables.reading import read_table
from table_files import columns_of


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
    given = (
        "consensus",
        with_factors,
        "-k",
        3,
        "--factors",
        "sex,age,site",
        "--json",
        "-o",
        outs[0],
    )
    result = run(*given)
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


def test_columns_without_factors(labels_csv):
    """A table of factors only is refused."""
    table = read_table(labels_csv)
    rest, factors = without_factors(table, ["p0"])
    assert set(table.columns) - set(rest.columns) == set(factors) == {"p0"}
    with pytest.raises(TableError, match="only factors"):
        without_factors(table, list(table.columns))


def test_distances_are_clustered(run, features_csv, tmp_path: Path):
    """A table of distances gives the clusters of its features."""
    X = np.loadtxt(features_csv, delimiter=",", skiprows=1, usecols=(1, 2))
    D = np.linalg.norm(X[:, None] - X, axis=2)
    path = tmp_path / "distances.csv"
    lines = [f"{i:03}," + ",".join(f"{d:.6f}" for d in row) for i, row in enumerate(D)]
    path.write_text("\n".join([",".join(["name", *(f"d{i}" for i in range(60))]), *lines]) + "\n")
    result = run(
        "cluster", path, "--id", "name", "--distances", "-k", 3, "--partitions", 8, "--json"
    )
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["sizes"] == [20, 20, 20]
    result = run("cluster", features_csv, "--id", "name", "--distances", "-k", 3)
    assert result.exit_code == 1
    assert "needs the distances of all pairs" in result.stderr
