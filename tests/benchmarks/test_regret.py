"""Regret of consensus functions: figures, kept draws, methods that refuse, missing data."""

from functools import partial

import numpy as np
import pytest
from scipy.stats import sem

from benchmarks import regret
from benchmarks.consensus_suite import Drawn, SuiteCell
from benchmarks.harness import Context
from coterie.consensus.registry import Method
from coterie.errors import InvalidLabelsError

#: Method v returns column v of the label matrix, or refuses if the column has no labels.
COLUMNS = ("robust", "l2", "cspa", "eac")
ALL = ",".join(COLUMNS)


def draw(shares, seed):
    """Return columns that are right for these shares of 20 points; odd seeds: one point less."""
    y = np.repeat([0, 1], 10)
    P = np.tile(y[:, None], (1, len(shares))).astype(np.int32)
    for v, share in enumerate(shares):
        P[: round((1 - abs(share)) * 20) + (seed % 2 if v else 0), v] = 1
        if share < 0:
            P[:, v] = -1
    return Drawn(P, y, 2)


CELLS = (
    SuiteCell("planted", "a", "develop", partial(draw, (0.9, 0.7, 0.6, 0.8)), quick=True),
    SuiteCell("planted", "b", "report", partial(draw, (0.8, 0.7, 0.6, 0.95)), quick=True),
    SuiteCell("real", "c", "develop", partial(draw, (0.8, 0.7, 0.9, 0.6)), "iris", quick=True),
    SuiteCell("real", "d", "report", partial(draw, (0.75, 0.7, 0.6, -1.0)), "zoo"),
)


@pytest.fixture
def fitted(monkeypatch):
    """Replace suite and methods; return a list that receives (method, seed) of every fit."""
    calls = []

    class Column:
        def __init__(self, key, seed):
            self.key, self.seed = key, seed

        def fit(self, P):
            calls.append((self.key, self.seed))
            self.labels_ = P[:, COLUMNS.index(self.key)]
            if (self.labels_ < 0).any():
                raise InvalidLabelsError("no labels in the column")
            return self

    monkeypatch.setattr(regret, "SUITE", CELLS)
    monkeypatch.setattr(Method, "missing_packages", lambda _: [])
    monkeypatch.setattr(
        Method, "make", lambda self, _, random_state: Column(self.key, random_state)
    )
    return calls


def test_figures_are_those_of_the_draws(fitted):
    """Means, errors and regrets follow from the accuracies; balance is left out where starred."""
    result = regret.run(Context(), draws=2, methods=ALL, jobs=1)
    first, second, third, fourth = (cell["methods"] for cell in result.data["cells"])
    assert {key: found["mean"] for key, found in first.items()} == pytest.approx(
        {"robust": 0.9, "l2": 0.675, "cspa": 0.575, "eac": 0.775}
    )
    assert first["eac"]["se"] == pytest.approx(sem([0.8, 0.75]))
    assert first["robust"]["regret"] == 0
    assert third["robust"]["regret"] == pytest.approx(0.075)
    assert third["robust"]["regret_unbalanced"] == 0
    assert third["cspa"]["regret_unbalanced"] is None
    assert fourth["eac"]["mean"] == 0.5
    assert "no labels in the column" in fourth["eac"]["failed"]
    assert sorted(fitted) == sorted((key, d) for key in COLUMNS for d in (0, 1) for _ in CELLS)
    for half, cells in (("develop", (first, third)), ("report", (second, fourth))):
        for key, one in result.data["summary"][half].items():
            own = [cell[key]["regret"] for cell in cells]
            assert one["mean"] == pytest.approx(np.mean(own))
            assert one["worst"] == max(own)
            families = [part["mean"] for part in one["families"].values()]
            assert one["mean_of_families"] == pytest.approx(np.mean(families))
    assert len(result.notes) == 1 and "EAC" in result.notes[0]
