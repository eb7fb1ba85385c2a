"""Cluster numbers in order of appearance, or by size."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from coterie.labels.numbering import renumber_by_appearance, renumber_by_size

LABELS = arrays(np.int64, st.integers(1, 30), elements=st.integers(-5, 5))


@settings(max_examples=30, deadline=None)
@given(LABELS)
def test_clusters_stay_and_names_have_no_gaps(labels):
    """Renumbering keeps the clusters and uses the numbers 0 to K − 1."""
    for renamed in (renumber_by_appearance(labels), renumber_by_size(labels)):
        assert ((renamed[:, None] == renamed) == (labels[:, None] == labels)).all()
        assert sorted(set(renamed)) == list(range(len(set(labels.tolist()))))


@settings(max_examples=30, deadline=None)
@given(LABELS)
def test_order_is_that_of_appearance_or_size(labels):
    """Numbers follow first appearance, or decreasing size and then first appearance."""
    renamed = renumber_by_appearance(labels)
    assert (np.diff(np.unique(renamed, return_index=True)[1]) > 0).all()
    _, first, size = np.unique(renumber_by_size(labels), return_index=True, return_counts=True)
    keys = list(zip((-size).tolist(), first.tolist(), strict=True))
    assert keys == sorted(keys)


def test_weights_count_as_size():
    """Weights decide the size of a cluster."""
    assert renumber_by_size(np.array([0, 0, 1]), np.array([1.0, 1.0, 5.0])).tolist() == [1, 1, 0]
