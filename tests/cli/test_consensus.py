"""Tests of ``coterie consensus``, from table to table."""

import json

import numpy as np
import pytest

from answers import unwrapped
from coterie import L2Consensus, RobustConsensus, choose_k, load_model, planted_partitions
from coterie.cli.inputs import read_labels
from table_files import columns_of


def test_labels_and_ids_come_out_in_the_order_of_the_input(run, labels_csv, planted):
    """Ids are copied unchanged, and the labels recover the planted partition."""
    out = labels_csv.with_name("out.csv")
    result = run("consensus", labels_csv, "--id", "name", "-k", 3, "-o", out)
    assert result.exit_code == 0, result.stderr
    columns = columns_of(out)
    assert list(columns) == ["name", "label", "word", "confidence"]
    assert len(set(zip(columns["label"], columns["word"], strict=True))) == 3
    assert columns["name"] == [f"{i:03}" for i in range(100)]
    together = np.equal.outer(columns["label"], columns["label"])
    assert (together == np.equal.outer(planted[1], planted[1])).mean() > 0.98
    assert all(0 <= float(confidence) <= 1 for confidence in columns["confidence"])


def test_the_answer_is_the_estimators(run, labels_csv):
    """Labels and confidences are those of RobustConsensus."""
    out = labels_csv.with_name("out.parquet")
    run("consensus", labels_csv, "--id", "name", "-k", 3, "--seed", 5, "-o", out)
    *_, P = read_labels(labels_csv, ["name"], None)
    estimator = RobustConsensus(3, random_state=5).fit(P)
    columns = columns_of(out)
    assert columns["label"] == estimator.labels_.tolist()
    assert columns["confidence"] == estimator.confidence_.tolist()


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        (
            ["--partition-weights", "equal", "--refine", "relaxation"],
            {"partition_weights": None, "refine": "relaxation"},
        ),
        (
            ["--partition-weights", "learned", "--relaxation", "l2"],
            {"partition_weights": "learned", "relaxation": "l2"},
        ),
        (["--relaxation", "l2", "--refine", "search"], {"relaxation": "l2", "refine": "search"}),
    ],
)
def test_settings_reach_the_estimator(run, labels_csv, arguments, settings):
    """Options set the parameters of the same name, also in the saved model."""
    model = labels_csv.with_name("m.coterie")
    result = run(
        "consensus", labels_csv, "--id", "name", "-k", 3, "--save-model", model, *arguments
    )
    assert result.exit_code == 0, result.stderr
    estimator = load_model(model)
    expected = RobustConsensus(3, random_state=0, **settings)
    assert estimator.get_params() == expected.get_params()
    *_, P = read_labels(labels_csv, ["name"], None)
    assert estimator.labels_.tolist() == expected.fit(P).labels_.tolist()


def test_another_method(run, labels_csv):
    """--method KEY fits that method; facts that it does not provide are left out."""
    model = labels_csv.with_name("m.coterie")
    arguments = ["--id", "name", "-k", 3, "--method", "l2", "--save-model", model]
    result = run("consensus", labels_csv, *arguments, "--partition-weights", "equal", "--json")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    assert facts["method"] == "l2" and {"gap", "selected", "camps"}.isdisjoint(facts)
    *_, P = read_labels(labels_csv, ["name"], None)
    expected = L2Consensus(3, random_state=0).fit(P)
    assert load_model(model).labels_.tolist() == expected.labels_.tolist()
    assert [vote["partition"] for vote in facts["votes"]] == [f"p{v}" for v in range(10)]
    assert [vote["agreement"] for vote in facts["votes"]] == pytest.approx(
        expected.partition_agreement_
    )


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("l2", ["--partition-weights", "learned"]),
        ("l2", ["--partition-weights", "agreement"]),
        ("median", ["--relaxation", "admm"]),
        ("rcc", ["--refine", "search", "--relaxation", "l2"]),
    ],
)
def test_settings_of_robust_are_refused_elsewhere(run, labels_csv, method, arguments):
    """An option of robust is refused by name with another method."""
    result = run("consensus", labels_csv, "-k", 3, "--method", method, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    message = unwrapped(result.stderr.replace("│", " "))
    for option, value in zip(arguments[::2], arguments[1::2], strict=True):
        assert f"{option} {value}" in message
    assert f"--method {method}" in message and "--method robust" in message


def test_every_method_chooses_the_number_of_clusters(run, labels_csv):
    """Without -k the number is chosen; free works only with methods that search for it."""
    for method in ("l2", "eac"):
        result = run("consensus", labels_csv, "--method", method, "-k", "free")
        assert result.exit_code == 2
        assert "free does not work with" in unwrapped(result.stderr.replace("│", " "))
    for method in ("l2", "median", "eac"):
        result = run("consensus", labels_csv, "--id", "name", "--method", method, "--json")
        assert result.exit_code == 0, result.stderr
        assert ("k_choice" in json.loads(result.stdout)) == (method != "eac")


@pytest.mark.parametrize("engine", [[], ["--engine", "duckdb://"]])
def test_number_of_clusters(run, tmp_path, engine):
    """Without -k the number is that of choose_k; with -k free it is that of the free search."""
    P, _ = planted_partitions([40, 30, 20, 10], 10, 0, 0.3, random_state=0)
    path = tmp_path / "labels.csv"
    rows = [",".join(map(str, row)) for row in P]
    path.write_text("\n".join([",".join(f"p{v}" for v in range(10)), *rows]) + "\n")
    chosen, free = (
        json.loads(run("consensus", path, "--json", *engine, *given).stdout)
        for given in ([], ["-k", "free"])
    )
    assert chosen["clusters"] == choose_k(P).best_k
    expected = RobustConsensus("free", random_state=0).fit(P)
    assert (free["clusters"], free["selected"]) == (expected.n_clusters_, "search")
    assert free["objective"] == pytest.approx(expected.objective_)


def test_json_is_one_object(run, labels_csv):
    """--json prints one object with all facts; notes are also on the standard error stream."""
    out = labels_csv.with_name("out.csv")
    arguments = ["--columns", "name," + ",".join(f"p{v}" for v in range(10))]
    result = run("consensus", labels_csv, "-k", 3, "-o", out, "--json", *arguments)
    facts = json.loads(result.stdout)
    assert (facts["points"], facts["partitions"], facts["clusters"]) == (100, 11, 3)
    assert sum(facts["sizes"]) == 100
    assert facts["lower_bound"] <= facts["objective"]
    assert facts["gap"] == pytest.approx(1 - facts["lower_bound"] / facts["objective"])
    decided = [camp["partitions"] for camp in facts["camps"] if camp["decides"]]
    assert decided == [[f"p{v}" for v in range(6)]]
    assert facts["written"] == {"table": str(out)}
    (note,) = facts["notes"]
    assert "--id name" in note
    assert result.stderr == f"note: {note}\n"


def test_summary_without_outputs(run, labels_csv):
    """Without -o nothing is written, and the summary says so."""
    before = sorted(labels_csv.parent.iterdir())
    result = run("consensus", labels_csv, "--id", "name")
    assert result.exit_code == 0
    assert "Nothing was written" in result.stdout
    assert "ignored" in result.stdout
    assert result.stderr == ""
    assert sorted(labels_csv.parent.iterdir()) == before


def test_report_is_a_page_with_the_ids(run, labels_csv):
    """--report writes a page that names points by their ids and dissenters by their columns."""
    page = labels_csv.with_name("report.html")
    result = run("consensus", labels_csv, "--id", "name", "-k", 3, "--report", page, "--json")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    assert facts["written"] == {"report": str(page)}
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "4 dissent (p6, p7, p8, p9)" in text
    *_, P = read_labels(labels_csv, ["name"], None)
    least = int(np.argmin(RobustConsensus(3, random_state=0).fit(P).confidence_))
    assert f'title="{least:03}"' in text


def test_columns_plot_and_quiet(run, labels_csv):
    """--columns limits the partitions, --plot writes a PNG, --quiet prints nothing."""
    picture = labels_csv.with_name("out.png")
    arguments = ("consensus", labels_csv, "--columns", "p1, p0", "-k", 3)
    assert json.loads(run(*arguments, "--json").stdout)["partitions"] == 2
    result = run(*arguments, "--plot", picture, "--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert picture.read_bytes().startswith(b"\x89PNG\r\n")


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"", [], "labels.csv"),
        (b"a,b\n", [], "no rows"),
        (b"a,b\n1,2\n", ["--columns", "c"], "no column 'c'"),
        (b"a,b\n1,2\n", ["--id", "c"], "no column 'c'"),
        (b"a,b\n1,2\n-7,2\n", [], "-7"),
        (b"a,b\n1,2\n1,2\n", ["-k", "3"], "-k 3 is more than the 2 points"),
        (b"label,b\n1,2\n1,2\n", ["--id", "label"], "rename it in the input"),
    ],
)
def test_bad_input_is_one_line(run, tmp_path, content, arguments, message):
    """Bad input ends with 1 and one line, and nothing is written."""
    path = tmp_path / "labels.csv"
    path.write_bytes(content)
    result = run("consensus", path, "-o", tmp_path / "out.csv", *arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == [path]


def test_the_output_is_checked_before_the_work(run, labels_csv, monkeypatch):
    """A missing folder is refused before the fit."""

    def work(self, P, y=None):
        pytest.fail("the work was done")

    monkeypatch.setattr(RobustConsensus, "fit", work)
    result = run("consensus", labels_csv, "-o", labels_csv.parent / "none" / "out.csv")
    assert result.exit_code == 1
    assert "does not exist" in result.stderr


def test_tied_camps_are_a_note(run, tmp_path):
    """Two camps of equal size give a note, and both keep their vote."""
    rng = np.random.default_rng(0)
    one, other = rng.integers(3, size=(2, 200))
    path = tmp_path / "labels.csv"
    rows = [f"{a},{a},{b},{b}" for a, b in zip(one, other, strict=True)]
    path.write_text("\n".join(["a,b,c,d", *rows]) + "\n")
    result = run("consensus", path, "-k", 3, "--json")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    assert facts["camps_tied"]
    assert all(camp["decides"] for camp in facts["camps"])
    assert "2 camps of 2 partitions" in facts["notes"][0]
    assert result.stderr.startswith("note: 2 camps of 2 partitions")


def test_rows_without_labels_get_none(run, tmp_path):
    """A row without any label is written with -1, and the summary counts such rows."""
    path, out = tmp_path / "labels.csv", tmp_path / "out.csv"
    rows = ["a,0,1", "b,0,1", "c,,", "d,2,0", "e,2,0"]
    path.write_text("\n".join(["name,p,q", *rows]) + "\n")
    result = run("consensus", path, "--id", "name", "-k", 2, "-o", out)
    assert "1 point without a label" in result.stdout
    assert "c,-1,0" in out.read_text()
    facts = json.loads(run("consensus", path, "--id", "name", "-k", 2, "--json").stdout)
    assert facts["unlabelled"] == 1 and facts["sizes"] == [2, 2]
    assert [vote["coverage"] for vote in facts["votes"]] == [1.0, 1.0]
