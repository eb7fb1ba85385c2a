"""The points that a display shows: all points of a fitted consensus, or a sample of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.counts.coassociation import tuple_coassociation
from coterie.ensembles.input_checks import check_whole
from coterie.errors import InvalidLabelsError, InvalidParameterError
from coterie.inspection.stability import check_ks
from coterie.labels.tuples import LabelTuples, as_label_tuples
from coterie.runtime.sampling import stratified_sample

__all__ = ["check_length", "coassociation_of_points", "sample_points", "tuples_by_k"]

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


def tuples_by_k(ensembles: Mapping[int, Any]) -> dict[int, LabelTuples]:
    """Return the tuples of the ensemble of each K, in rising order of K.

    Refuse anything but a mapping of K to labels of the same points.
    """
    if not isinstance(ensembles, Mapping):
        raise InvalidParameterError(
            f"ensembles is of type {type(ensembles).__name__}; give a mapping of K to labels, as "
            "made by coterie.inspection.stability.resampled_ensembles"
        )
    tuples = {k: as_label_tuples(ensembles[k]) for k in check_ks(ensembles).tolist()}
    sizes = {k: len(labels.inverse) for k, labels in tuples.items()}
    if len(set(sizes.values())) > 1:
        given = ", ".join(f"K={k}: {size}" for k, size in sizes.items())
        raise InvalidLabelsError(
            f"the ensembles have different numbers of points ({given}); all must label the same "
            "points, with −1 for points not drawn"
        )
    return tuples


def check_length(name: str, values: Any, n_points: int) -> NDArray[Any]:
    """Return the values (n,) as an array; refuse any other length."""
    array = np.asarray(values)
    if array.shape == (n_points,):
        return array
    raise InvalidLabelsError(
        f"{name} has shape {array.shape}, P has {n_points} points; give one value per point"
    )
