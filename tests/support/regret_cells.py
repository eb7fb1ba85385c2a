"""Cells and methods for tests of the regret benchmark: accuracies are known beforehand.

The label matrix of a cell holds one answer in each column, and each method gives the column that is
its own, so that a method is right for as many points as the cell says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest

from benchmarks import regret
from benchmarks.consensus_suite import Drawn, SuiteCell
from coterie.consensus.registry import Method
from coterie.errors import InvalidLabelsError

#: The methods there are, each with its column; one whose share is negative refuses.
COLUMNS = ("robust", "l2", "cspa", "eac")
N = 20


def drawn(shares: tuple[float, ...], seed: int) -> Drawn:
    """Two classes of ten; odd draws are right for one point less, in all columns but the first."""
    y = np.repeat([0, 1], N // 2)
    P = np.tile(y[:, None], (1, len(shares))).astype(np.int32)
    for v, share in enumerate(shares):
        wrong = round((1 - abs(share)) * N) + (seed % 2 if v else 0)
        P[:wrong, v] = 1
        if share < 0:
            P[:, v] = -1
    return Drawn(P, y, 2)


def cell(family: str, name: str, half: str, shares: tuple[float, ...], **more: object) -> SuiteCell:
    """A cell in which the methods are right for these shares of the points, at least half each."""
    return SuiteCell(family, name, half, partial(drawn, shares), **more)


#: Balance (cspa) is best in one cell, the flagship in one, and eac refuses in one.
CELLS = (
    cell("planted", "10,10; a", "develop", (0.9, 0.7, 0.6, 0.8), short_name="2×10; a", quick=True),
    cell("planted", "10,10; b", "report", (0.8, 0.7, 0.6, 0.95), short_name="2×10; b", quick=True),
    cell("real", "iris, fixed K", "develop", (0.8, 0.7, 0.9, 0.6), dataset="iris", quick=True),
    cell("real", "zoo, fixed K", "report", (0.75, 0.7, 0.6, -1.0), dataset="zoo"),
)


@dataclass
class MadeUp:
    """An estimator that gives its column, and tells the list what it was asked."""

    key: str
    random_state: int
    asked: list = field(repr=False)

    def fit(self, P):
        """Labels from the method's own column; a column without labels is refused."""
        self.asked.append((self.key, self.random_state))
        labels = P[:, COLUMNS.index(self.key)]
        if (labels < 0).any():
            raise InvalidLabelsError("no labels in the column")
        self.labels_ = labels
        return self


def replace_suite(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Put the made-up cells and methods in place; what is fitted, as (method, seed), is told."""
    fitted: list[tuple[str, int]] = []
    monkeypatch.setattr(regret, "SUITE", CELLS)
    monkeypatch.setattr(Method, "missing_packages", lambda _: [])

    def make(self, n_clusters, random_state=None, **settings):
        assert n_clusters == 2
        return MadeUp(self.key, random_state, fitted)

    monkeypatch.setattr(Method, "make", make)
    return fitted


def measured(n_draws: int = 2, methods: tuple[str, ...] = COLUMNS) -> regret.RegretResults:
    """Results over all made-up cells; the suite is to be replaced before."""
    found = regret.run_regret(CELLS, n_draws, methods=methods)
    regrets = regret.cell_regrets(CELLS, found)
    return regret.RegretResults(
        regrets, n_draws, {"cstr": "it is gone"}, "python -m benchmarks regret"
    )
