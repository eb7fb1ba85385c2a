"""Tests of the part on K: every curve of a choice, whatever its name."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from consensus_pages import clustered_features, fitted
from coterie import choose_k
from coterie.inspection.report.k_contents import k_part


@pytest.fixture
def case():
    """Return partitions and their consensus."""
    _, P, _ = clustered_features()
    return P, fitted(P)


def test_a_given_number_has_no_choice(case):
    """If the number of clusters was given there is nothing to show."""
    assert k_part(case[1]) is None


def test_the_choice_is_that_of_the_estimator(case):
    """K, the reason, the numbers compared and the curves are those of the choice."""
    P, est = case
    est.k_choice_ = choice = choose_k(P, range(2, 6), random_state=0)
    part = k_part(est)
    assert (part.best_k, part.reason) == (choice.best_k, choice.reason)
    assert part.ks == [2, 3, 4, 5]
    assert part.curves["margin"] == choice.margin.tolist()
    assert part.by_criterion == choice.by_criterion


def test_every_array_over_k_is_a_curve(case):
    """New criteria are shown; arrays of other lengths, texts and unknown numbers are not."""
    _, est = case
    est.k_choice_ = SimpleNamespace(
        best_k=3,
        reason="why",
        by_criterion={},
        ks=np.array([2, 3, 5]),
        gap_statistic=np.array([1, np.nan, 2]),
        eigenvalues=np.ones(6),
        unavailable=np.full(3, np.nan),
        words=np.array(["a", "b", "c"]),
    )
    part = k_part(est)
    assert part.curves == {"gap_statistic": [1.0, None, 2.0]}
    assert not part.is_weak


def test_weak_evidence_is_said(case):
    """A choice that other numbers almost equal is marked."""
    _, est = case
    est.k_choice_ = SimpleNamespace(
        best_k=2, reason="why", by_criterion={}, ks=np.array([2]), is_weak=np.True_
    )
    assert k_part(est).is_weak is True
