"""Which points a display shows."""

from __future__ import annotations

import numpy as np
import pytest

from coterie import coassociation
from coterie.errors import InvalidLabelsError, InvalidParameterError
from coterie.inspection.displays.shown_points import (
    coassociation_of_points,
    sample_points,
    tuples_by_k,
)
from coterie.labels.tuples import as_label_tuples


def test_a_sample_has_points_of_every_cluster_in_rising_order() -> None:
    """Few points are all shown; of many, each cluster keeps its share and at least one."""
    labels = np.repeat([7, -1, 3], [60, 1, 39])
    assert sample_points(labels, 100, 0).tolist() == list(range(100))
    points = sample_points(labels, 20, 0)
    assert points.tolist() == sorted(set(points.tolist()))
    assert np.abs(np.bincount(labels[points] + 1)[[8, 4]] - [12, 8]).max() <= 1
    assert 60 in points
    with pytest.raises(InvalidParameterError, match="max_points"):
        sample_points(labels, 0, 0)


def test_points_with_equal_labels_have_their_own_rows(spoilt: np.ndarray) -> None:
    """M of some points is the part of M that belongs to them, even if points are repeated."""
    P = np.vstack([spoilt[:10], spoilt[:10]])
    tuples = as_label_tuples(P)
    points = np.array([3, 13, 0, 19])
    alpha = np.arange(1.0, 11)
    M = coassociation_of_points(tuples, points, alpha[tuples.partition_order])
    np.testing.assert_allclose(M, coassociation(P, alpha)[np.ix_(points, points)])


def test_ensembles_label_the_same_points(spoilt: np.ndarray) -> None:
    """Ensembles are in rising order of K; those of other points are refused."""
    assert list(tuples_by_k({5: spoilt, 2: spoilt})) == [2, 5]
    with pytest.raises(InvalidLabelsError, match=r"\(K=2: 90, K=3: 100\); all must label the same"):
        tuples_by_k({3: spoilt, 2: spoilt[:90]})
    with pytest.raises(InvalidParameterError, match="ensembles is of type ndarray; give a mapping"):
        tuples_by_k(spoilt)  # type: ignore[arg-type]
