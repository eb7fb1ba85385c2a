"""Budgets are divided as a linear programme divides them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from coterie.ads.decisions.marginal_allocation import allocate


def curves(seed, n=4, size=12):
    """Random increasing curves, with stretches that are flat, and some that are convex."""
    rng = np.random.default_rng(seed)
    spend = np.cumsum(rng.random((n, size)), axis=1)
    return spend, np.cumsum(rng.random((n, size)) * (rng.random((n, size)) > 0.3), axis=1)


def solved(spend, amount, budget):
    """Return the largest amount of any mixture of points, by scipy's solver."""
    n, size = spend.shape
    limits = sp.vstack([sp.csr_array(spend.reshape(1, -1)), sp.kron(sp.eye(n), np.ones((1, size)))])
    return -linprog(-amount.ravel(), A_ub=limits, b_ub=[budget] + [1.0] * n).fun


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.floats(0.01, 1.2))
def test_equals_a_linear_programme(seed, share):
    """The amount is the optimum, and the money is kept to."""
    spend, amount = curves(seed)
    budget = share * float(spend[:, -1].sum())
    found = allocate(spend, amount, budget)
    assert found.amount.sum() == pytest.approx(solved(spend, amount, budget), abs=1e-9)
    assert found.spend.sum() <= budget * (1 + 1e-12)
    assert (found.spend >= 0).all() and (found.amount >= 0).all()


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.floats(0.1, 0.9))
def test_the_slope_is_the_worth_of_further_money(seed, share):
    """A little more money buys that much more."""
    spend, amount = curves(seed)
    budget, more = share * float(spend[:, -1].sum()), 1e-7
    now, then = (allocate(spend, amount, one) for one in (budget, budget + more))
    gained = (then.amount.sum() - now.amount.sum()) / more
    assert gained == pytest.approx(now.slope, rel=1e-4) or then.slope < now.slope


def test_only_one_curve_is_bought_in_part():
    """All others end at a point of their envelope."""
    spend, amount = curves(3, n=30)
    found = allocate(spend, amount, 0.4 * float(spend[:, -1].sum()))
    known = np.column_stack([np.zeros(30), spend])[np.arange(30), found.places + 1]
    others = np.arange(30) != found.partial
    np.testing.assert_allclose(found.spend[others], known[others])
    assert found.spend[found.partial] >= known[found.partial]


def test_money_that_nothing_costs_is_left():
    """With more money than all curves cost, all is bought and nothing more can be."""
    spend, amount = curves(1)
    found = allocate(spend, amount, 1e9)
    np.testing.assert_allclose(found.amount, amount[:, -1])
    assert (found.slope, found.partial) == (0.0, -1)


def test_what_is_free_is_always_taken():
    """An amount without a cost needs no money."""
    found = allocate(np.array([[0.0, 1.0]]), np.array([[2.0, 3.0]]), 1e-12)
    assert found.amount[0] == pytest.approx(2.0)
