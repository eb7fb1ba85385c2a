"""Tests of ``coterie cluster``, from features to labels."""

import datetime as dt
import io
import json
import typing
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from answers import assert_one_line
from coterie import ConsensusClusterer, load_model
from coterie.cli.cluster import cluster
from coterie.cli.inputs import read_features
from coterie.ensembles.runs import ENSEMBLES
from coterie.errors import WeakEvidenceWarning
from table_files import columns_of


def test_clusters_are_found_row_by_row(run, features_csv):
    """Separate blobs are separate clusters, and ids are copied in their order."""
    out = features_csv.with_name("out.csv")
    result = run("cluster", features_csv, "--id", "name", "-k", 3, "-o", out)
    assert result.exit_code == 0, result.stderr
    columns = columns_of(out)
    assert columns["name"] == [f"{i:03}" for i in range(60)]
    labels = np.array(columns["label"]).reshape(3, 20)
    assert (labels == labels[:, :1]).all()
    assert len(set(labels[:, 0])) == 3


def test_the_answer_is_the_estimators(run, features_csv):
    """Options set the parameters of the same name; the saved model is the estimator."""
    model = features_csv.with_name("m.coterie")
    arguments = ["--partitions", 6, "--ensemble", "scalings", "--method", "l2", "--seed", 3]
    result = run(
        "cluster", features_csv, "--id", "name", "-k", 3, "--save-model", model, *arguments
    )
    assert result.exit_code == 0, result.stderr
    X = read_features(features_csv, ["name"], None).X
    settings = {"ensemble": "scalings", "consensus": "l2", "random_state": 3}
    expected = ConsensusClusterer(3, n_partitions=6, **settings)
    saved = load_model(model)
    assert saved.get_params() == expected.get_params()
    names = saved.feature_names_in_.tolist()
    assert names == [name for name in pd.read_csv(features_csv).columns if name != "name"]
    table = pd.DataFrame(X, columns=names)
    assert saved.predict(table).tolist() == expected.fit(X).labels_.tolist()
    with pytest.raises(ValueError, match="feature names"):
        saved.predict(table[names[::-1]])


def test_json_and_plot_have_the_runs(run, features_csv):
    """--json has the facts about the consensus of the runs, and --plot draws it."""
    picture = features_csv.with_name("out.svg")
    arguments = ("--id", "name", "-k", 3, "--partitions", 7, "--seed", 1, "--plot", picture)
    arguments += ("--json",)
    result = run("cluster", features_csv, *arguments)
    facts = json.loads(result.stdout)
    assert (facts["points"], facts["partitions"], facts["sizes"]) == (60, 7, [20, 20, 20])
    assert facts["camps"][0]["partitions"][0] == "spectral 0"
    assert "k_choice" not in facts
    assert facts["written"] == {"picture": str(picture)}
    assert "<svg" in picture.read_text()


def test_the_number_of_clusters_may_be_left_out(run, features_csv):
    """Without -k the number is chosen; JSON and summary say which one and why."""
    arguments = ("cluster", features_csv, "--id", "name", "--partitions", 16)
    result = run(*arguments, "--json")
    facts = json.loads(result.stdout)
    assert (facts["clusters"], facts["sizes"]) == (3, [20, 20, 20])
    X = read_features(features_csv, ["name"], None).X
    expected = ConsensusClusterer(n_partitions=16, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakEvidenceWarning)
        choice = expected.fit(X).k_choice_
    assert facts["k_choice"]["reason"] == choice.reason
    assert any("evidence for 3 clusters is weak" in note for note in facts["notes"]) == (
        choice.is_weak
    )
    text = " ".join(run(*arguments).stdout.split())
    assert f"chosen K 3: {choice.reason}" in text


def test_standardize_is_standardised_input(run, features_csv):
    """--standardize gives the labels of standardised columns, whatever the units."""
    table = pd.read_csv(features_csv, dtype={"name": str})
    scaled, units = features_csv.with_name("scaled.csv"), features_csv.with_name("units.csv")
    numbers = table[["x", "y"]]
    standard = (numbers - numbers.mean()) / numbers.std(ddof=0)
    table.assign(**standard).to_csv(scaled, index=False)
    table.assign(y=4096 * table["y"]).to_csv(units, index=False)
    settings = ("--id", "name", "-k", 3, "--partitions", 8, "-o", "-")
    expected = run("cluster", scaled, *settings).stdout
    assert expected.count("\n") == 61
    for path in (features_csv, units):
        result = run("cluster", path, *settings, "--standardize")
        assert result.exit_code == 0 and "varies" not in result.stderr
        labels, same = (pd.read_csv(io.StringIO(text)) for text in (result.stdout, expected))
        assert labels["label"].tolist() == same["label"].tolist()


def test_columns_of_different_units_give_a_warning(run, features_csv):
    """One warning names the two columns, also of a view; columns of similar spread give none."""
    table = pd.read_csv(features_csv, dtype={"name": str})
    units = features_csv.with_name("units.csv")
    table.assign(y=1000 * table["y"], constant=7.0).to_csv(units, index=False)
    arguments = ("--id", "name", "-k", 2, "--partitions", 4, "--ensemble", "kmeans", "--json")
    model = features_csv.with_name("m.coterie")
    facts = json.loads(run("cluster", units, *arguments, "--save-model", model).stdout)
    (note,) = facts["notes"]
    assert "column 'y' varies" in note and "as much as 'x'" in note and "--standardize" in note
    assert facts["remarks"] == [] and "column 'y' varies" in load_model(model).notes_[0]
    views = ("cluster", features_csv, units, "--views", *arguments)
    (note,) = json.loads(run(*views).stdout)["notes"]
    assert "column 'units: y' varies" in note and "as much as 'units: x'" in note
    assert json.loads(run("cluster", features_csv, *arguments).stdout)["notes"] == []


def test_uncertain_points_have_their_ids(run, features_csv):
    """The summary names points by the id columns, and by rows only if there is none."""
    arguments = ("-k", 4, "--partitions", 4, "--ensemble", "kmeans")
    shown = run("cluster", features_csv, "--id", "name", *arguments, "--json").stdout
    points = json.loads(shown)["uncertain"]
    assert points and all(point["name"] == f"{point['row']:03}" for point in points)
    text = run("cluster", features_csv, "--id", "name", *arguments).stdout
    assert f"points {points[0]['name']} (" in " ".join(text.split())


def test_every_ensemble_of_the_library_can_be_chosen(run, features_csv):
    """--ensemble has the names of the library, and refuses others."""
    assert set(
        typing.get_args(typing.get_args(typing.get_type_hints(cluster)["ensemble"])[0])
    ) == set(ENSEMBLES)
    arguments = ("cluster", features_csv, "--id", "name", "-k", 3, "--partitions", 4, "--ensemble")
    result = run(*arguments, "diagonal mixture", "--json")
    votes = json.loads(result.stdout)["votes"]
    assert [vote["partition"] for vote in votes] == [f"diagonal mixture {v}" for v in range(4)]
    assert run(*arguments, "k-means").exit_code == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x,y\n1,2\n3,four\n", "line 3, column 'y': 'four' is not a finite number"),
        ("x,y\n1,2\n3,\n", "1 missing cell in 1 column ('y'), the first in line 3: add --impute"),
        ("x,y\n1,2\n3,inf\n", "not a finite number"),
        ("x,y\n1,2\n", "-k 2 is more than the 1 rows"),
    ],
)
def test_bad_features_are_one_line(run, tmp_path, content, message):
    """A cell that is not a number is named by line and column; nothing is written."""
    path = tmp_path / "features.csv"
    path.write_text(content)
    result = run("cluster", path, "-k", 2, "-o", tmp_path / "out.csv")
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def views(tmp_path):
    """Three tables about 60 shops: two of three groups, the second in another order, and noise."""
    rng = np.random.default_rng(0)
    kind = np.repeat([0, 1, 2], 20)
    paths = []
    for name, apart in (("size", 3.0), ("colour", 5.0), ("noise", 0.0)):
        X = apart * np.column_stack([np.cos(2 * kind), np.sin(2 * kind)])
        X += rng.normal(0, 0.3, X.shape)
        rows = rng.permutation(60) if name == "colour" else range(60)
        paths.append(tmp_path / f"{name}.csv")
        lines = [f"s{i},{X[i, 0]:.3f},{X[i, 1]:.3f}" for i in rows]
        paths[-1].write_text("\n".join([f"shop,{name} 1,{name} 2", *lines]) + "\n")
    return paths


def test_views_are_matched_by_their_ids(run, views, tmp_path):
    """The consensus of several tables ignores noise; the model labels the same rows alike."""
    out, again, model = (tmp_path / name for name in ("out.csv", "again.csv", "m.coterie"))
    arguments = ("--views", "--id", "shop", "-k", 3, "--partitions", 4, "--save-model", model)
    result = run("cluster", *views, *arguments, "-o", out, "--json", "--impute", "median")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    assert [view["view"] for view in facts["views"]] == ["size", "colour", "noise"]
    assert [view["weight"] for view in facts["views"]] == [1.0, 1.0, 0.0]
    assert (facts["partitions"], facts["sizes"]) == (12, [20, 20, 20])
    columns = columns_of(out)
    assert columns["shop"] == [f"s{i}" for i in range(60)]
    assert len(set(zip(columns["label"], np.repeat([0, 1, 2], 20), strict=True))) == 3
    lines = [f"{line},more,{i}" for i, line in enumerate(views[0].read_text().splitlines())]
    shop, _, *rest = lines[1].split(",")
    lines[1] = ",".join([shop, "", *rest])
    views[0].write_text("\n".join(lines) + "\n")  # columns that were not fitted are left out
    asked = ("predict", model, *views, "--id", "shop", "-o", again)
    assert_one_line(run(*asked), "1 missing cell")
    assert run(*asked, "--impute", "median").exit_code == 0
    assert columns_of(again)["label"][1:] == columns["label"][1:]
    assert "voting runs" in run("cluster", *views[1:], *arguments[:-2]).stdout


def test_views_describe_the_same_rows(run, views):
    """Other ids or numbers of rows, and options of one table, are refused."""
    one, other, _ = views
    text = other.read_text()
    other.write_text(text.replace("s7,", "t7,"))
    assert_one_line(run("cluster", one, other, "--views", "--id", "shop"), "no row s7", "same rows")
    other.write_text(text.replace("s7,", "s8,"))
    assert_one_line(run("cluster", one, other, "--views", "--id", "shop"), "same rows")
    other.write_text(text.rpartition("\ns")[0] + "\n")
    assert_one_line(run("cluster", one, other, "--views", "--id", "shop"), "59 rows")
    assert_one_line(run("cluster", one, other, "--views", "--impute", "drop"), "--impute median")
    assert run("cluster", one, other).exit_code == 2
    for option in (["--distances"], ["--columns", "a"], ["--factors", "a"]):
        assert run("cluster", one, other, "--views", *option).exit_code == 2


@pytest.mark.parametrize(
    ("x", "arguments", "message"),
    [
        (["1", "", "NA", "2"], [], "2 missing cells in 1 column ('x'), the first in line 3"),
        (["Rome", "Bonn", "Oslo", ""], [], "column 'x' of {path} holds text, such as 'Rome'"),
        (["1,5", "2,5", "3,5", "1"], [], "add --decimal-comma"),
        (["", "", "", ""], ["--impute", "median"], "column 'x' of {path} is empty"),
        (["Rome", "Bonn", "", ""], ["--impute", "median"], "holds text, such as 'Rome'"),
    ],
)
def test_unusable_cells_have_a_way_out(run, tmp_path, x, arguments, message):
    """The error says how many cells are missing or which column is text, and which option helps."""
    path = tmp_path / "t.csv"
    path.write_text("x;y\n" + "".join(f"{cell};{row}\n" for row, cell in enumerate(x)))
    result = run("cluster", path, "-k", 2, "--columns", "x,y", *arguments)
    assert result.exit_code == 1 and message.format(path=path) in result.stderr


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([None, *[dt.date(2026, 3, 2)] * 3], "column 'x' of {path} holds DATE values"),
        ([None, 1.0, np.inf, np.inf], "{path}, row 3, column 'x': inf is not a finite number"),
    ],
)
def test_what_is_no_number_is_not_filled(run, tmp_path, x, message):
    """Missing cells among dates, and medians of infinite numbers, do not hide the fault."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": x, "y": range(4)}), path)
    result = run("cluster", path, "-k", 2, "--columns", "x,y", "--impute", "median")
    assert result.exit_code == 1 and message.format(path=path) in result.stderr


def test_points_group_thousands_where_commas_are_decimal(run, tmp_path):
    """Numbers as in 1.234,5 and 1.234 are those of a table without points."""
    cells = ["1.200,5", "1.210", "3,5", "2,25", "1.199,75", "4", "-1.234.567,5", "-1.234.570"]
    answers = []
    for name, shown in (("points", cells), ("plain", [one.replace(".", "") for one in cells])):
        path = tmp_path / f"{name}.csv"
        path.write_text("x;y\n" + "".join(f"{cell};{cell}\n" for cell in shown))
        result = run("cluster", path, "-k", 3, "--decimal-comma", "-o", "-", "--quiet")
        assert result.exit_code == 0, result.stderr
        answers.append(result.stdout)
    assert answers[0] == answers[1] and len(answers[0].splitlines()) == 9


def test_rows_that_are_left_out_shift_no_other(run, tmp_path):
    """Ids, which keep their commas, names of uncertain points, and factors are those of the row."""
    rng = np.random.default_rng(0)
    kind = np.arange(30) % 2
    ids = [f"{i},5" for i in range(30)]
    x = [f"{value:.3f}".replace(".", ",") for value in 9 * kind + rng.normal(size=30)]
    x[0] = ""
    path, out = tmp_path / "t.csv", tmp_path / "out.csv"
    rows = [";".join(row) for row in zip(ids, x, map(str, kind), strict=True)]
    path.write_text("\n".join(["shop;x;kind", *rows]) + "\n")
    how = ("--decimal-comma", "--impute", "drop", "--id", "shop", "--factors", "kind", "--json")
    result = run(
        "cluster", path, *how, "-k", 4, "--partitions", 6, "--ensemble", "kmeans", "-o", out
    )
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    assert facts["uncertain"]
    assert all(point["name"] == ids[1:][point["row"]] for point in facts["uncertain"])
    assert (facts["factors"][0]["n"], facts["factors"][0]["effect_size"] > 0.9) == (29, True)
    assert columns_of(out)["shop"] == ids


def test_factors_with_decimal_commas_are_not_categories(run, features_csv):
    """They are refused, and ranked as numbers with --decimal-comma."""
    lines = features_csv.read_text().replace(",", ";").splitlines()
    rows = [f"{line};0,{i:02}" for i, line in enumerate(lines[1:])]
    features_csv.write_text("\n".join([f"{lines[0]};age", *rows]))
    asked = ("cluster", features_csv, "--id", "name", "-k", 3, "--partitions", 4)
    asked += ("--factors", "age", "--json")
    assert_one_line(run(*asked), "column 'age'", "decimal comma", "--decimal-comma")
    (tested,) = json.loads(run(*asked, "--decimal-comma").stdout)["factors"]
    assert tested["test"] == "Kruskal-Wallis"


@pytest.mark.parametrize("impute", ["median", "drop"])
def test_missing_cells_and_decimal_commas(run, features_csv, impute):
    """The answer is that of the completed table, in which dropped rows have the label -1."""
    lines = [line.split(",") for line in features_csv.read_text().splitlines()]
    X = np.array(lines[1:], dtype=object)[:, 1:].astype(float)
    lines[5][1], lines[40][1] = "", "NA"
    text = "\n".join(";".join(row).replace(".", ",") for row in lines)
    path, out = features_csv.with_name("t.csv"), features_csv.with_name("out.csv")
    path.write_text(text + "\n")
    kept = np.ones(60, dtype=bool)
    kept[[4, 39]] = False
    arguments = ("--decimal-comma", "--impute", impute, "--columns", "x,y", "-k", 3)
    result = run("cluster", path, *arguments, "--partitions", 4, "-o", out, "--json")
    assert result.exit_code == 0, result.stderr
    if impute == "drop":
        X = X[kept]
    else:
        X[~kept, 0] = np.median(X[kept, 0])
        kept[:] = True
    expected = ConsensusClusterer(3, n_partitions=4, random_state=0).fit(X)
    columns = columns_of(out)
    labels = np.array(columns["label"], dtype=int)
    assert labels[kept].tolist() == expected.labels_.tolist() and (labels[~kept] == -1).all()
    assert columns["name"] == [row[0] for row in lines[1:]]  # the id, though only columns are named
    assert any("2 missing cells" in n or "2 rows" in n for n in json.loads(result.stdout)["notes"])
