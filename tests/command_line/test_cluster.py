"""Tests of ``coterie cluster``, from features to labels."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from coterie import ConsensusClusterer, load_model
from coterie.command_line.cluster import read_features
from coterie.files.tables import read_table


def test_clusters_are_found_row_by_row(run, features_csv):
    """Separate blobs are separate clusters, and ids are copied in their order."""
    out = features_csv.with_name("out.csv")
    result = run("cluster", features_csv, "--id", "name", "-k", 3, "-o", out)
    assert result.exit_code == 0, result.stderr
    columns = {name: column.to_pylist() for name, column in read_table(out).columns.items()}
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
    *_, X = read_features(features_csv, ["name"], None)
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
    assert facts["camps"][0]["partitions"][0] == "run 0"
    assert facts["written"] == {"picture": str(picture)}
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x,y\n1,2\n3,four\n", "line 3, column 'y': 'four' is not a finite number"),
        ("x,y\n1,2\n3,\n", "the value is missing"),
        ("x,y\n1,2\n3,inf\n", "not a finite number"),
        ("x,y\n1,2\n", "n_clusters=2"),
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
