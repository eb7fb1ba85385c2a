"""Tests of the part on K: the choice and every curve of it."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from consensus_pages import clustered_features, fitted
from coterie import choose_k
from coterie.inspection.report.k_contents import k_part


@pytest.fixture(scope="module")
def case():
    """Return a consensus of partitions, and the choice of K for them."""
    _, P, _ = clustered_features()
    return fitted(P), choose_k(P, range(2, 6), random_state=0)


def part_of(est, choice):
    """Return the part on K of an estimator with this choice."""
    est = copy(est)
    est.k_choice_ = choice
    return k_part(est)


def test_a_given_number_has_no_choice(case):
    """If the number of clusters was given there is nothing to show."""
    assert k_part(case[0]) is None


def test_the_choice_is_that_of_the_estimator(case):
    """K, the reason, the numbers compared and the curves are those of the choice."""
    est, choice = case
    part = part_of(est, choice)
    assert (part.best_k, part.reason, part.is_weak) == (choice.best_k, choice.reason, False)
    assert part.ks == [2, 3, 4, 5]
    assert part.curves["margin"] == choice.margin.tolist()
    assert part.by_criterion == choice.by_criterion
    assert part_of(est, replace(choice, is_weak=True)).is_weak


def test_every_known_array_over_k_is_a_curve(case):
    """Arrays that are unknown for all K are left out, and those that are no curve over K."""
    est, choice = case
    curves = part_of(est, replace(choice, stability=np.array([1, np.nan, 2, 3]))).curves
    assert curves["stability"] == [1.0, None, 2.0, 3.0]
    assert not {"pac", "eigenvalues", "ks", "silhouette"} & set(curves)
