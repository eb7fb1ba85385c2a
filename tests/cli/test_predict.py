"""Tests of ``coterie predict``: new rows are labelled by a saved model."""

import json

import numpy as np
import pytest

from answers import assert_one_line
from table_files import columns_of

MODEL = "m.coterie"


@pytest.mark.parametrize("command", ["consensus", "cluster"])
def test_rows_of_the_fit_keep_their_labels(run, labels_csv, features_csv, command):
    """Columns are found by name in any order; others are left out, and ids are copied."""
    source = labels_csv if command == "consensus" else features_csv
    model, out, again = (source.with_name(name) for name in (MODEL, "out.csv", "again.csv"))
    few = [] if command == "consensus" else ["--partitions", 4]
    run(command, source, "--id", "name", "-k", 3, *few, "-o", out, "--save-model", model)
    turned = source.with_name("turned.csv")
    rows = [line.split(",")[::-1] for line in source.read_text().splitlines()]
    turned.write_text(
        "".join(f"{','.join(row)},{'note' * (i == 0)}\n" for i, row in enumerate(rows))
    )
    result = run("predict", model, turned, "--id", "name", "-o", again, "--json")
    assert result.exit_code == 0, result.stderr
    written, predicted = columns_of(out), columns_of(again)
    assert list(predicted) == list(written)
    for name in ("name", "label"):
        assert predicted[name] == written[name]
    expected = [float(value) for value in written["confidence"]]
    assert [float(value) for value in predicted["confidence"]] == pytest.approx(expected)
    facts = json.loads(result.stdout)
    assert (facts["points"], facts["unlabelled"], facts["notes"]) == (len(rows) - 1, 0, [])
    assert sum(facts["sizes"]) == facts["points"]
    assert facts["mean_confidence"] == pytest.approx(sum(expected) / len(expected))


def test_unknown_rows_and_missing_cells(run, labels_csv, features_csv):
    """A row of unknown labels gets -1; missing features are filled, or their rows left out."""
    model, new, out = (labels_csv.with_name(name) for name in (MODEL, "new.csv", "out.csv"))
    run("consensus", labels_csv, "--id", "name", "-k", 3, "--save-model", model)
    header, first, *_ = labels_csv.read_text().splitlines()
    new.write_text(f"{header}\n{first}\nx{',new' * 10}\n")
    text = run("predict", model, new, "--id", "name", "-o", out).stdout
    assert columns_of(out)["label"][1] == "-1" and columns_of(out)["confidence"][1] == "0.0"
    assert "2 points" in text and "unlabelled" in text
    fit = ("cluster", features_csv, "--id", "name", "-k", 3, "--partitions", 4)
    run(*fit, "--impute", "median", "--save-model", model)
    new.write_text("name;x;y\na;9,1;0,2\nb;;0\n")
    assert_one_line(run("predict", model, new, "--decimal-comma"), "1 missing cell", "--impute")
    arguments = ("predict", model, new, "--decimal-comma", "-o", out, "--quiet", "--impute")
    for impute, is_labelled in (("median", True), ("drop", False)):
        assert run(*arguments, impute).exit_code == 0
        assert (columns_of(out)["label"][1] != "-1") == is_labelled


def test_missing_cells_have_the_medians_of_the_fit(run, features_csv, tmp_path):
    """A row gets the same label whatever the other new rows are, even in an empty column."""
    model, new, out = (tmp_path / name for name in (MODEL, "new.csv", "out.csv"))
    fit = ("cluster", features_csv, "--id", "name", "-k", 3, "--partitions", 4)
    run(*fit, "--impute", "median", "--save-model", model)
    asked = ("predict", model, new, "--id", "name", "-o", out, "--impute")
    x = np.array(columns_of(features_csv)["x"], float)
    rows = [f"probe,{np.median(x)},0.1"]
    rows += [f"probe,,0.1{other}" for other in ("", "\na,0,0\nb,0,0", "\na,999,0\nb,999,0")]
    answers = []
    for row in rows:
        new.write_text(f"name,x,y\n{row}\n")
        result = run(*asked, "median")
        assert result.exit_code == 0, result.stderr
        answers.append([columns_of(out)[name][0] for name in ("label", "confidence")])
    assert answers[1:] == answers[:1] * 3
    run(*fit, "--save-model", model)
    assert_one_line(run(*asked, "median"), "m.coterie was saved without --impute median")
    assert run(*asked, "drop").exit_code == 0


def test_what_cannot_label_rows_is_refused(run, labels_csv, features_csv, tmp_path):
    """Wrong models and wrong tables are one line."""
    model = tmp_path / MODEL
    assert_one_line(run("predict", model, labels_csv), "m.coterie")
    run("cluster", features_csv, "--id", "name", "-k", 3, "--partitions", 4, "--save-model", model)
    assert_one_line(run("predict", model, labels_csv), "no column 'x'")
    assert_one_line(run("predict", model, features_csv, labels_csv), "fitted to 1 table")
    assert_one_line(run("predict", model, features_csv, "-o", model), "cannot write the table")
    assert run("predict", model, features_csv, "-o", "-", "--json").exit_code == 2
