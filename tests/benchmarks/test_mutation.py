"""Mutants of the core: what is changed, what the tests say to it, and the scores."""

import subprocess
import sys

import pytest

from benchmark_results import check_result
from benchmarks.mutation import EQUIVALENTS, MODULES, read_equivalents, summary
from benchmarks.mutation.mutants import SOURCES
from benchmarks.mutation.runs import ROOT, paths_of_tests


def record(module, outcome, equivalent=""):
    """Return the outcome of one mutant."""
    place = {"module": module, "line": 1, "kind": "number", "before": "a = 1", "after": "a = 2"}
    return {**place, "outcome": outcome, "by": "", "equivalent": equivalent}


def test_scores_are_weighted_by_the_mutants_of_a_module():
    """A module with more mutants counts more; equivalent survivors are left out of one score."""
    found = [record("a.py", "killed"), record("a.py", "survived", "only speed")]
    found += [record("b.py", "timed out"), record("b.py", "survived")]
    data = check_result(summary(10 * found, {"a.py": 300, "b.py": 100}, seed=1))
    assert data["total"]["score"] == pytest.approx(0.5)
    assert data["total"]["score_without"] == pytest.approx(0.75 * 1 + 0.25 * 0.5)
    low, high = data["total"]["interval"]
    assert 0 < low < 0.5 < high < 1 and low + high == pytest.approx(1)
    assert [survivor["module"] for survivor in data["survivors"]] == 10 * ["a.py", "b.py"]
    every = check_result(summary(found, {"a.py": 2, "b.py": 2}, seed=1))
    assert every["total"]["interval"] == [0.5, 0.5]


def test_every_module_has_tests():
    """The tests of a module come first, then those of modules in its folder that import it."""
    for module in MODULES:
        folder, name = module.rsplit("/", 1)
        first, examples, *others = paths_of_tests(module)
        assert (first, examples) == (f"tests/{folder}/test_{name}", f"src/coterie/{module}")
        assert all(other.startswith(f"tests/{folder}/") for other in others)
    assert "tests/labels/test_tuples.py" in paths_of_tests("labels/tuples.py")


def test_reviewed_equivalents_are_in_the_code():
    """Every reviewed mutant has a reason, and the code that it changes is there, once."""
    for (module, before, after), why in read_equivalents(EQUIVALENTS).items():
        lines = [line.strip() for line in (SOURCES / module).read_text().splitlines()]
        assert " ".join(lines).count(before) == 1 and before != after and why


def test_a_mutant_is_killed_or_survives():
    """A wrong order of clusters is noticed, a comment is not."""
    program = """
from benchmarks.mutation.mutants import SOURCES
from benchmarks.mutation.runs import ModuleTests
module = "labels/encode.py"
source = (SOURCES / module).read_text()
tests = ModuleTests(module)
for changed in (source + "# comment", source.replace("-size", "size")):
    print(tests.outcome(changed)["outcome"])
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == ["survived", "killed"]
