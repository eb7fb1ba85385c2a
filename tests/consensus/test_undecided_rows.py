"""Rows with labels only in partitions of weight 0."""

import numpy as np

from coterie.consensus.undecided_rows import label_undecided_tuples
from coterie.labels.tuples import as_label_tuples


def test_rows_without_a_weighted_label_are_labelled_by_the_other_partitions():
    """The last row has only a label in the partition of weight 0, and joins its points."""
    tuples = as_label_tuples([[0, 0], [0, 0], [1, 1], [1, 1], [-1, 1]])
    weights = np.array([0.0, 0.0])
    weights[tuples.partition_order == 0] = 1.0
    labels = tuples.codes[:, tuples.partition_order == 0].ravel() % 2
    found = tuples.expand(label_undecided_tuples(tuples, labels.astype(np.int64), weights, 0.5))
    assert found[0] == found[1] != found[2] == found[3] == found[4]


def test_labels_stay_if_every_row_has_a_weighted_label():
    """Without missing labels, nothing changes."""
    tuples = as_label_tuples([[0, 0], [1, 1]])
    labels = np.array([0, 1])
    assert label_undecided_tuples(tuples, labels, np.array([1.0, 0.0]), 0.5) is labels
