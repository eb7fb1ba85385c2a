"""Tests of ``coterie methods``, and of methods chosen by key."""

import json

import pytest

from answers import assert_fits, unwrapped
from coterie import load_model
from coterie.cli.methods import method_facts
from coterie.consensus.registry import CONSENSUS_METHODS, MULTIVIEW_METHODS, Method
from coterie.runtime.imports import install_command

TIMID = Method(
    "timid",
    "Timid",
    "coterie:L2Consensus",
    "does little",
    "ours",
    "O(1)",
    packages=("no_such_pkg",),
)


def test_every_method_is_listed(run):
    """The table has a line for each method, with its title, and fits the terminal."""
    result = run("methods")
    assert result.exit_code == 0
    text = unwrapped(result.stdout)
    for method in (*CONSENSUS_METHODS.values(), *MULTIVIEW_METHODS.values()):
        assert f"{method.key} {method.title} {method.established}" in text
    assert_fits(result.stdout)


def test_json_is_the_registry(run):
    """--json prints the registry: consensus functions and multi-view methods."""
    facts = json.loads(run("methods", "--json").stdout)
    assert [row["key"] for row in facts["consensus"]] == list(CONSENSUS_METHODS)
    assert [row["key"] for row in facts["multiview"]] == list(MULTIVIEW_METHODS)
    rcc = next(row for row in facts["consensus"] if row["key"] == "rcc")
    assert rcc["class"] == "RobustConsensus"
    assert rcc["settings"] == {
        "relaxation": "admm",
        "refine": "relaxation",
        "partition_weights": None,
    }


def test_missing_package_is_named(run, monkeypatch):
    assert method_facts(TIMID)["missing"] == ["no_such_pkg"]
    monkeypatch.setattr("coterie.cli.methods.CONSENSUS_METHODS", {"timid": TIMID})
    monkeypatch.setenv("COLUMNS", "40")
    lines = run("methods").stdout.splitlines()
    assert "timid use a fallback without no_such_pkg. To install:" in unwrapped(" ".join(lines))
    assert f"  {install_command('partitioners')}" in lines  # unbroken, to be copied


@pytest.mark.slow
@pytest.mark.parametrize("key", CONSENSUS_METHODS)
def test_every_method_runs_from_the_program(run, labels_csv, key):
    """Each method fits a table with blanks, prints a summary, and writes labels and a model."""
    out, model = labels_csv.with_name("out.csv"), labels_csv.with_name("m.coterie")
    arguments = ["--id", "name", "-k", 3, "--method", key, "-o", out, "--save-model", model]
    result = run("consensus", labels_csv, *arguments)
    assert result.exit_code == 0, result.output
    assert "100 points in 10 partitions" in result.stdout
    assert len(out.read_text().splitlines()) == 101
    assert type(load_model(model)).__name__ == CONSENSUS_METHODS[key].class_name


def test_an_unknown_key_is_wrong_usage(run, labels_csv):
    """The help lists all keys; another one ends with 2, and the nearest one is suggested."""
    assert all(key in run("consensus", "--help").stdout for key in CONSENSUS_METHODS)
    result = run("consensus", labels_csv, "-k", 3, "--method", "cpsa")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "did you mean 'cspa'?" in unwrapped(result.stderr.replace("│", " "))
