"""Growth of the penalty and stopping rule, with a scripted solver."""

import numpy as np
import pytest

from coterie.relaxation.iteration import minimise


class ScriptedSolver:
    """A solver with given objectives (the last one repeats) and constant residuals."""

    mean, norm, n_points = 0.5, 1.0, 1.0

    def __init__(self, objectives=(1.0,), primal=1.0, moved=1.0, final=np.inf):
        self.objectives, self.primal, self.moved, self.final = objectives, primal, moved, final
        self.factor = np.array([[0.0]])
        self.calls = []

    def step(self, shrink, bound):
        """Record the arguments."""
        self.calls.append((shrink, bound))
        n = len(self.calls) - 1
        return self.objectives[min(n, len(self.objectives) - 1)], self.primal

    def advance(self):
        """Set the factor to the number of steps."""
        self.factor = self.factor + 1.0
        return self.moved

    def objective(self):
        """Return the objective of the last factor."""
        return self.final


def test_the_penalty_grows_while_the_primal_residual_is_large():
    """μ starts at 1/mean and grows by ρ; a step gets 1/μ and the ratio of the last two μ."""
    solver = ScriptedSolver(primal=1.0, moved=1e-9)
    found = minimise(solver, 1.25, 4, 1e-3, None)
    assert found.history["mu"] == pytest.approx([2.0 * 1.25**i for i in range(4)])
    assert [bound for _, bound in solver.calls] == pytest.approx(1 / np.array(found.history["mu"]))
    assert [shrink for shrink, _ in solver.calls] == pytest.approx([0.0, 0.8, 0.8, 0.8])


def test_the_penalty_is_held_twenty_steps_at_most():
    """A primal residual that is relatively small holds μ, except every 21st step."""
    solver = ScriptedSolver(primal=1e-3, moved=10.0)
    mu = np.array(minimise(solver, 1.1, 60, 1e-6, None).history["mu"])
    grown = np.flatnonzero(np.diff(mu)) + 1
    assert grown.tolist() == [21, 42]
    assert [shrink for shrink, _ in solver.calls][1] == 1.0


def test_both_residuals_must_be_small():
    """The loop stops if primal ≤ tol and dual ≤ 10 tol."""
    assert minimise(ScriptedSolver(primal=0.01, moved=0.04), 1.1, 50, 0.01, None).n_iter == 1
    for primal, moved in ((0.02, 0.04), (0.01, 0.06)):
        solver = ScriptedSolver(primal=primal, moved=moved)
        assert not minimise(solver, 1.0, 5, 0.01, None).converged


def test_the_best_factor_is_returned():
    """The factor with the least objective is returned, from any step."""
    on_the_way = minimise(ScriptedSolver([5.0, 3.0, 4.0], final=6.0), 1.1, 3, 0.0, None)
    assert (on_the_way.objective, on_the_way.factor.item()) == (3.0, 1.0)
    at_the_end = minimise(ScriptedSolver([5.0, 3.0, 4.0], final=2.0), 1.1, 3, 0.0, None)
    assert (at_the_end.objective, at_the_end.factor.item()) == (2.0, 3.0)
