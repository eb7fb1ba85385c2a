"""The points that a display shows: all points of a fitted consensus, or a sample of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.counts.coassociation import tuple_coassociation
from coterie.ensembles.input_checks import check_whole
from coterie.errors import InvalidLabelsError
from coterie.labels.tuples import LabelTuples
from coterie.runtime.sampling import stratified_sample

__all__ = ["check_length", "coassociation_of_points", "sample_points"]

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


def sample_points(labels: NDArray[Any], max_points: int, random_state: Any) -> Indices:
    """Return all points, or a share of each cluster and at least one point of it, in rising order.

    >>> sample_points(np.array([0, 0, 0, 0, 1]), 2, 0).tolist()
    [2, 4]
    """
    check_whole("max_points", max_points)
    codes = np.unique(labels, return_inverse=True)[1]
    return np.sort(stratified_sample(codes, max_points, np.random.default_rng(random_state)))


def coassociation_of_points(tuples: LabelTuples, points: Indices, alpha: Array) -> Array:
    """Return M (s, s) of some points; the weights (V,) are in the order of the tuples' columns."""
    shown = tuples.subset(tuples.inverse[points], np.ones(len(points)))
    return tuple_coassociation(shown, alpha).dense()


def check_length(name: str, values: Any, n_points: int) -> NDArray[Any]:
    """Return the values (n,) as an array; refuse any other length."""
    array = np.asarray(values)
    if array.shape == (n_points,):
        return array
    raise InvalidLabelsError(
        f"{name} has shape {array.shape}, P has {n_points} points; give one value per point"
    )
