"""Tests of ``coterie choose-k`` from labels and from features."""

import json

import numpy as np
import pytest

from answers import assert_one_line
from coterie import choose_k
from coterie.cli.inputs import read_features, read_labels
from coterie.inspection.stability import resampled_ensembles


def test_the_choice_is_the_librarys(run, labels_csv):
    """The facts are those of choose_k, and the planted number is recommended."""
    result = run("choose-k", labels_csv, "--id", "name", "--to", 5, "--seed", 3, "--json")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    *_, P = read_labels(labels_csv, ["name"], None)
    expected = choose_k(P, range(2, 6), random_state=3).as_json()
    assert {name: facts[name] for name in expected} == expected
    assert facts["recommended"] == 3
    assert [row["k"] for row in facts["table"]] == [2, 3, 4, 5]


@pytest.mark.slow
def test_features_are_resampled(run, features_csv):
    """With --features samples are clustered for every K, so each K has a PAC."""
    result = run("choose-k", features_csv, "--id", "name", "--features", "--to", 4, "--json")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    X = read_features(features_csv, ["name"], None).X
    ensembles = resampled_ensembles(X, range(2, 5), random_state=0)
    expected = choose_k(ensembles, range(2, 5), X=X, random_state=0).as_json()
    assert all(row["silhouette"] is not None for row in expected["table"])
    assert {name: facts[name] for name in expected} == expected
    assert facts["recommended"] == 3
    assert all(row["pac"] is not None for row in facts["table"])


def test_undefined_measures_are_null(planted):
    """A measure that is NaN becomes None."""
    choice = choose_k(planted[0], [2, 3], random_state=0)
    facts = choice.as_json()
    assert np.isnan(choice.pac).all()
    assert [row["pac"] for row in facts["table"]] == [None, None]
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts


def table_in(text, n_lines):
    """Return the lines of the table in a summary, whose heading is as long as the input's name."""
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if line.split()[:1] == ["K"])
    return lines[first : first + n_lines]


def test_summary_recommends(run, labels_csv):
    """The summary has a row per K and a recommendation with its reason."""
    result = run("choose-k", labels_csv, "--id", "name", "--from", 2, "--to", 4)
    assert result.exit_code == 0, result.stderr
    text = " ".join(result.stdout.split())
    assert "Take K = 3: " in text
    assert "By criterion: " in text
    assert [line.split()[0] for line in table_in(result.stdout, 4)] == ["K", "2", "3", "4"]


@pytest.mark.parametrize("width", [80, 30])
def test_numbers_are_never_cut(run, features_csv, monkeypatch, width):
    """A narrow terminal cuts neither K nor a measure; in 80 columns the table fits."""
    monkeypatch.setenv("COLUMNS", str(width))
    text = run("choose-k", features_csv, "--id", "name", "--features", "--to", 3).stdout
    head, *rows = table_in(text, 3)
    assert head.split()[:2] == ["K", "clusters"] and head.split()[-1] == "silhouette"
    assert all(len(row.split()) == len(head.split()) for row in rows)
    assert "…" not in text and (width < 80 or max(map(len, (head, *rows))) <= 80)


def test_features_are_standardized_if_asked(run, features_csv, tmp_path):
    """--standardize makes units irrelevant; without it, very different units give a note."""
    read = read_features(features_csv, ["name"], None)
    names, X = read.names, read.X
    X[:, 0] *= 1e4
    path = tmp_path / "units.csv"
    np.savetxt(path, X, delimiter=",", header=",".join(names), comments="")
    answers = {}
    for given in ((), ("--standardize",)):
        result = run("choose-k", path, "--features", "--to", 3, "--json", "--seed", 5, *given)
        answers[given] = json.loads(result.stdout)
    assert "add --standardize if their units differ" in answers[()]["notes"][0]
    assert answers[("--standardize",)]["notes"] == []
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    ensembles = resampled_ensembles(Z, range(2, 4), random_state=5)
    expected = choose_k(ensembles, X=Z, random_state=5).as_json()
    assert answers[("--standardize",)]["table"] == [pytest.approx(row) for row in expected["table"]]
    result = run("choose-k", path, "--standardize")
    assert result.exit_code == 2 and "add --features" in result.stderr


def test_plot_makes_a_picture(run, labels_csv):
    """--plot writes a PNG, --quiet prints nothing."""
    picture = labels_csv.with_name("k.png")
    result = run("choose-k", labels_csv, "--id", "name", "--to", 4, "--plot", picture, "--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_range_the_wrong_way_round_is_wrong_usage(run, labels_csv):
    """--from above --to ends with 2."""
    result = run("choose-k", labels_csv, "--from", 5, "--to", 4)
    assert result.exit_code == 2
    assert "5 is more than --to 4" in result.stderr


@pytest.mark.parametrize("features", [[], ["--features"]])
def test_more_clusters_than_points_are_refused(run, tmp_path, features):
    """The error names the option, the number of points and the file."""
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n1,2\n3,4\n")
    result = run("choose-k", path, "--to", "10", *features)
    assert_one_line(result, "10 clusters", "3 points", str(path), "--to")


def test_the_largest_k_is_between_the_smallest_and_the_points(run, labels_csv, tmp_path):
    """Unless --to is given, K goes up to 10."""
    result = run("choose-k", labels_csv, "--id", "name", "--from", 12, "--json")
    assert [row["k"] for row in json.loads(result.stdout)["table"]] == [12]
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n1,2\n3,4\n3,4\n")
    result = run("choose-k", path, "--json")
    assert [row["k"] for row in json.loads(result.stdout)["table"]] == [2, 3, 4]
