"""Regrets: what they are, what is computed again and what is not, and what is reported."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from benchmarks import regret
from benchmarks.consensus_suite import SUITE, quick_cells
from benchmarks.regret import (
    available_cells,
    cell_regrets,
    has_balanced_cut,
    method_regrets,
    quick_methods,
    regrets_among,
    run_draw,
    run_regret,
)
from coterie.consensus.registry import CONSENSUS_METHODS, FLAGSHIP, Method
from coterie.errors import DatasetUnavailableError, TableError
from regret_cells import CELLS, COLUMNS, cell, measured, replace_suite

FEW = ("robust", "l2")


@pytest.fixture
def asked(monkeypatch):
    """What was fitted, as (method, seed); cells and methods are made up."""
    return replace_suite(monkeypatch)


def as_draws(accuracies: dict[str, list[float]]) -> list[regret.DrawResult]:
    """Draws in which the methods have these accuracies."""
    n_draws = len(next(iter(accuracies.values())))
    return [
        {
            "accuracy": {key: each[d] for key, each in accuracies.items()},
            "seconds": dict.fromkeys(accuracies, float(d)),
            "failed": {},
        }
        for d in range(n_draws)
    ]


accuracies = st.integers(1, 4).flatmap(
    lambda n: st.dictionaries(
        st.sampled_from(COLUMNS), st.lists(st.floats(0, 1), min_size=n, max_size=n), min_size=1
    )
)


@given(accuracies)
@settings(deadline=None, max_examples=50)
def test_the_best_has_no_regret_and_nobody_less(found):
    """Regrets are ≥ 0, that of the best is 0, and accuracy + regret is the same for all."""
    (one,) = cell_regrets(CELLS[:1], {CELLS[0].name: as_draws(found)})
    assert min(one.regret.values()) == 0
    best = max(one.accuracy.values())
    for key, own in one.regret.items():
        assert one.accuracy[key] == pytest.approx(np.mean(found[key]))
        assert one.accuracy[key] + own == pytest.approx(best)


@given(accuracies)
@settings(deadline=None, max_examples=50)
def test_fewer_methods_leave_less_to_regret(found):
    """Among some of the methods no regret grows, and the best of them has none."""
    regrets = cell_regrets(CELLS[:1], {CELLS[0].name: as_draws(found)})
    some = sorted(found)[:2]
    (one,) = regrets_among(regrets, some)
    assert list(one.regret) == some
    assert min(one.regret.values()) == 0
    assert all(one.regret[key] <= regrets[0].regret[key] for key in some)


def test_errors_are_standard_errors():
    """As SciPy computes them; of a single draw there is none."""
    values = [0.5, 0.75, 0.9]
    (one,) = cell_regrets(CELLS[:1], {CELLS[0].name: as_draws({"l2": values})})
    assert one.error["l2"] == pytest.approx(stats.sem(values))
    assert one.seconds["l2"] == pytest.approx(1.0)
    (one,) = cell_regrets(CELLS[:1], {CELLS[0].name: as_draws({"l2": [0.5]})})
    assert np.isnan(one.error["l2"])


def test_summaries_are_means_and_maxima_over_cells(asked):
    """Over all cells, over a half, and by family; the least mean first."""
    regrets = measured().regrets
    for half in (None, "develop", "report"):
        some = [one for one in regrets if half in (None, one.cell.half)]
        found = method_regrets(regrets, half)
        assert [one.mean for one in found] == sorted(one.mean for one in found)
        for one in found:
            own = [each.regret[one.method] for each in some]
            assert one.mean == pytest.approx(np.mean(own))
            assert one.worst == max(own)
            assert one.worst_cell == some[int(np.argmax(own))].cell.name
            for family, (mean, worst) in one.by_family.items():
                of_family = [r.regret[one.method] for r in some if r.cell.family == family]
                assert (mean, worst) == (pytest.approx(np.mean(of_family)), max(of_family))
    assert method_regrets(regrets, "neither") == []


def test_of_equal_means_the_flagship_is_first():
    """A tie is no reason to be second."""
    regrets = cell_regrets(CELLS[:1], {CELLS[0].name: as_draws({"l2": [0.5], FLAGSHIP: [0.5]})})
    assert [one.method for one in method_regrets(regrets)] == [FLAGSHIP, "l2"]


def test_known_accuracies_are_found(asked):
    """Every method is asked once a draw, with the draw as its seed."""
    results = measured(2)
    assert results.methods == list(COLUMNS)
    first, second, third, fourth = (one.accuracy for one in results.regrets)
    assert first == pytest.approx({"robust": 0.9, "l2": 0.675, "cspa": 0.575, "eac": 0.775})
    assert (second["eac"], third["cspa"]) == pytest.approx((0.925, 0.875))
    assert fourth["robust"] == pytest.approx(0.75)
    assert sorted(asked) == sorted((key, d) for key in COLUMNS for d in (0, 1) for _ in CELLS)


def test_a_method_that_refuses_is_one_cluster_and_reported(asked):
    """Its accuracy is the share of the largest class, and what it said is told."""
    found = run_draw(CELLS[3], 0, COLUMNS)
    assert found["accuracy"]["eac"] == 0.5
    assert found["failed"] == {"eac": "no labels in the column"}
    assert measured().regrets[3].failed == {"eac": "no labels in the column"}


def test_methods_with_balanced_cuts_can_be_set_apart(asked):
    """Without them regrets are against the best of the others."""
    results = measured()
    third, free = results.regrets[2], results.unbalanced[2]
    assert third.regret["robust"] == pytest.approx(0.075)
    assert free.regret["robust"] == 0
    assert "cspa" not in free.regret
    assert measured(1, ("cspa",)).unbalanced == []


def test_a_cut_is_balanced_only_where_its_package_is(monkeypatch):
    """The four methods that prefer a package, while it is installed."""
    monkeypatch.setattr(Method, "missing_packages", lambda _: [])
    balanced = {key for key in CONSENSUS_METHODS if has_balanced_cut(key)}
    assert balanced == {"cspa", "hgpa", "hbgf"}
    monkeypatch.setattr(Method, "missing_packages", lambda self: list(self.packages))
    assert not any(map(has_balanced_cut, CONSENSUS_METHODS))


def test_what_is_kept_is_not_computed_again(asked, tmp_path):
    """Resuming gives the same and fits nothing; more draws fit only those."""
    first = run_regret(CELLS, 2, methods=COLUMNS, keep=tmp_path)
    asked.clear()
    assert run_regret(CELLS, 2, methods=COLUMNS, keep=tmp_path) == first
    assert asked == []
    longer = run_regret(CELLS, 3, methods=COLUMNS, keep=tmp_path)
    assert {seed for _, seed in asked} == {2}
    assert all(longer[name][:2] == draws for name, draws in first.items())


def test_only_new_methods_and_those_named_are_computed(asked, tmp_path):
    """A method that was not kept, and one that is asked for again; others stay in the file."""
    run_regret(CELLS, 1, methods=FEW, keep=tmp_path)
    asked.clear()
    run_regret(CELLS, 1, methods=("l2", "eac"), keep=tmp_path)
    assert {key for key, _ in asked} == {"eac"}
    asked.clear()
    found = run_regret(CELLS, 1, methods=COLUMNS[:3], again=["l2"], keep=tmp_path)
    assert {key for key, _ in asked} == {"l2", "cspa"}
    assert all(set(draws[0]["accuracy"]) == set(COLUMNS[:3]) for draws in found.values())
    kept = [json.loads(path.read_text()) for path in tmp_path.iterdir()]
    assert all(set(draw["accuracy"]) == set(COLUMNS) for draw in kept)


def test_a_refusal_is_forgotten_once_it_runs(asked, tmp_path, monkeypatch):
    """What a method said the first time does not stay when it is computed again and runs."""
    run_regret(CELLS[3:], 1, methods=("eac",), keep=tmp_path)
    better = (*CELLS[:3], cell("real", "zoo, fixed K", "report", (0.75, 0.7, 0.6, 0.8)))
    monkeypatch.setattr(regret, "SUITE", better)
    found = run_regret(better[3:], 1, methods=("eac",), again=("eac",), keep=tmp_path)
    assert found["zoo, fixed K"][0]["failed"] == {}
    assert found["zoo, fixed K"][0]["accuracy"] == {"eac": pytest.approx(0.8)}


@pytest.mark.parametrize("text", ["{", "[]", '{"accuracy": {}}', '{"accuracy": 1}'])
def test_a_damaged_kept_draw_is_named(asked, tmp_path, text):
    """The file is told, and what to do."""
    run_regret(CELLS[:1], 1, methods=FEW, keep=tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_text(text)
    with pytest.raises(TableError, match=rf"{path.name} is not the kept result .*; remove it"):
        run_regret(CELLS[:1], 1, methods=FEW, keep=tmp_path)


def test_each_draw_is_told_once(asked):
    """Progress is called after each draw of each cell."""
    calls = []
    run_regret(CELLS, 3, methods=FEW, after_draw=lambda: calls.append(1))
    assert len(calls) == 3 * len(CELLS)


def test_missing_data_sets_are_named(asked, monkeypatch):
    """Cells of a set that is not here are left out, and why is told in one line."""

    def load(name):
        if name == "zoo":
            raise DatasetUnavailableError("no zoo\n  anywhere")

    monkeypatch.setattr(regret, "load_views", load)
    cells, missing = available_cells()
    assert cells == list(CELLS[:3])
    assert missing == {"zoo": "no zoo anywhere"}


def test_each_data_set_is_looked_for_once_and_digits_never(monkeypatch):
    """Digits come with scikit-learn and are not in the registry; planted cells need nothing."""
    looked = []
    monkeypatch.setattr(regret, "load_views", looked.append)
    cells, missing = available_cells()
    assert (cells, missing) == (list(SUITE), {})
    assert sorted(looked) == sorted({cell.dataset for cell in SUITE} - {None, "digits"})
    assert available_cells(quick=True)[0] == quick_cells()


def test_the_data_folder_is_that_given(asked, monkeypatch, tmp_path):
    """Sets are looked for there, and afterwards the environment is as it was."""
    seen = []
    monkeypatch.delenv("COTERIE_DATA", raising=False)
    monkeypatch.setattr(regret, "load_views", lambda _: seen.append(os.environ["COTERIE_DATA"]))
    available_cells(data=tmp_path)
    assert set(seen) == {str(tmp_path)}
    assert "COTERIE_DATA" not in os.environ
    with pytest.raises(DatasetUnavailableError, match="is not a folder"):
        available_cells(data=tmp_path / "none")


def test_a_draw_computes_on_one_thread(asked, monkeypatch):
    """There may be several processes; afterwards the environment is as it was."""
    monkeypatch.setenv("COTERIE_NUM_THREADS", "7")
    seen = []
    draw = regret.run_draw
    monkeypatch.setattr(
        regret,
        "run_draw",
        lambda *given: seen.append(os.environ["COTERIE_NUM_THREADS"]) or draw(*given),
    )
    run_regret(CELLS[:1], 1, methods=FEW)
    assert seen == ["1"]
    assert os.environ["COTERIE_NUM_THREADS"] == "7"


def test_draws_of_real_methods_are_reproducible(tmp_path):
    """A cell of the suite, computed twice, gives the same accuracies to the last digit."""
    cells = quick_cells()[:1]
    first, again = (run_regret(cells, 1, methods=("l2", "eac", "one-hot")) for _ in range(2))
    (name,) = first
    assert first[name][0]["accuracy"] == again[name][0]["accuracy"]
    assert first[name][0]["failed"] == {}


def test_quick_methods_are_of_the_registry():
    """The flagship is among them, and no slow one is a name of nothing."""
    assert FLAGSHIP in quick_methods()
    assert set(quick_methods()) | set(regret._SLOW) == set(CONSENSUS_METHODS)
