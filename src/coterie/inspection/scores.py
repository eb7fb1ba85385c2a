"""Scores of two partitions, and of one partition against many, from contingency tables.

With n_ab the number of points in cluster a of one partition and cluster b of the other, every
score is a sum over the nonzero n_ab. Time and memory grow with the number of points and of
nonzero cells, not with the number of pairs of points.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from coterie.arrays import AnyArray, Ints
from coterie.errors import InvalidLabelsError, InvalidParameterError

_MEANS: dict[str, Callable[[float, float], float]] = {
    "arithmetic": lambda a, b: (a + b) / 2,
    "geometric": lambda a, b: math.sqrt(a * b),
    "max": max,
    "min": min,
}


def contingency(labels_true: ArrayLike, labels_pred: ArrayLike) -> sparse.csr_array:
    """Count the points that share each pair of clusters: n_ab = #{i : true_i = a, pred_i = b}.

    Labels may have any type that can be sorted; no value means "missing". Rows and columns of the
    sparse table (A, B) are the sorted distinct labels of the two partitions.

    >>> contingency(["x", "x", "y"], [1, 0, 0]).toarray()
    array([[1, 1],
           [1, 0]])
    """
    return _table(labels_true, labels_pred, ("labels_true", "labels_pred"))


def clustering_accuracy(y_true: ArrayLike, labels: ArrayLike) -> float:
    """Compute the share of correct points under the best matching of clusters to classes.

    This is the maximum of (1/n) Σ_a n_{a, π(a)} over injective matchings π. If the numbers of
    clusters differ, the points of unmatched clusters count as errors.

    Parameters
    ----------
    y_true, labels : (n,) array-like
        The classes and the clusters.

    Returns
    -------
    float
        In (0, 1]; 1 if and only if the two partitions are equal.

    Examples
    --------
    >>> clustering_accuracy([0, 0, 1, 1], ["b", "b", "a", "b"])
    0.75
    """
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    table = contingency(y_true, labels)
    if table.shape[0] > table.shape[1]:
        table = table.T.tocsr()
    # An extra column of weight 1 for every row makes a matching of all rows possible while the
    # table stays sparse. Every other weight is n_ab + 1, because the solver needs positive
    # weights; this adds the same amount to every matching.
    cells = table.copy()
    cells.data += 1
    unmatched = sparse.eye_array(table.shape[0], dtype=np.int64, format="csr")
    graph = sparse.hstack([cells, unmatched], format="csr")
    rows, columns = min_weight_full_bipartite_matching(graph, maximize=True)
    matched = columns < table.shape[1]
    return float(table[rows[matched], columns[matched]].sum() / table.sum())


def normalized_mutual_information(
    y_true: ArrayLike,
    labels: ArrayLike,
    average: Literal["arithmetic", "geometric", "max", "min"] = "arithmetic",
) -> float:
    """Compute the mutual information of two partitions divided by a mean of their entropies.

    I = Σ_ab (n_ab/n) log(n n_ab / (n_a n_b)), divided by the chosen mean of H(true) and
    H(labels), H = −Σ_a (n_a/n) log(n_a/n). It is in [0, 1]: 1.0 if both partitions have a single
    cluster, 0.0 if only one of them has.

    >>> normalized_mutual_information([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    if average not in _MEANS:
        raise InvalidParameterError(f"average={average!r}: give one of {', '.join(_MEANS)}")
    table = contingency(y_true, labels)
    if table.shape == (1, 1):
        return 1.0
    if 1 in table.shape:
        return 0.0
    entropies = [_entropy(np.asarray(table.sum(axis=axis))) for axis in (1, 0)]
    shared = sum(entropies) - _entropy(table.data)
    return float(np.clip(shared / _MEANS[average](*entropies), 0.0, 1.0))


def adjusted_rand_index(y_true: ArrayLike, labels: ArrayLike) -> float:
    """Compute the agreement on pairs of points, corrected for chance.

    With A and B pairs together in the first and in the second partition, T pairs together in
    both, and N pairs in all: (T − AB/N) / ((A + B)/2 − AB/N). It is in [−0.5, 1]: 1 for equal
    partitions, 0 on average for independent ones.

    >>> adjusted_rand_index([0, 0, 1, 1], [0, 0, 1, 2])
    0.5714285714285714
    """
    table = contingency(y_true, labels)
    n = int(table.data.sum())
    # ordered pairs together in both partitions, in the first, in the second; and all
    both, in_true, in_labels = (squares - n for squares in _sums_of_squares(table))
    pairs = n * (n - 1)
    if both == in_true == in_labels:
        return 1.0
    # integers up to the division: exact for any n
    return (
        (both * pairs - in_true * in_labels)
        * 2
        / ((in_true + in_labels) * pairs - 2 * in_true * in_labels)
    )


def mirkin_distance(a: ArrayLike, b: ArrayLike) -> int:
    """Count the ordered pairs i ≠ j on which two partitions differ: Σ n_a² + Σ n_b² − 2 Σ n_ab².

    It is a metric on partitions, from 0 to n (n − 1).

    >>> mirkin_distance([0, 0, 1], [0, 1, 1])
    4
    """
    return _mirkin(_table(a, b, ("a", "b")))


def mirkin_objective(
    P: Any, labels: ArrayLike, partition_weights: ArrayLike | None = None
) -> float:
    """Compute the weighted mean Mirkin distance from a partition G to V partitions.

    J(G) = Σ_ij (1/Σw) Σ_{v : i and j labelled in v} w_v |M^v_ij − X_ij|

    over all ordered pairs, with M^v_ij = [P_iv = P_jv] and X_ij = [G_i = G_j]. Without missing
    labels and with equal weights this is ‖M − X‖₁, M the co-association matrix. Partition v
    contributes w_v times the Mirkin distance between column v and G on the points it labels.

    Parameters
    ----------
    P : (n, V) label matrix
        Input of :func:`coterie.labels.encode.as_label_matrix`; −1 is a missing label.
    labels : (n,) array-like
        The partition G, without missing labels.
    partition_weights : (V,) array-like, optional
        w ≥ 0, not all zero; equal by default.

    Returns
    -------
    float
        J(G) ≥ 0; smaller is better.

    Examples
    --------
    >>> P = [[0, 0, 5], [0, 1, 5], [1, 1, -1]]
    >>> mirkin_objective(P, [0, 0, 1])
    1.3333333333333333
    """
    # imported here to keep the import of the scores quick
    from coterie.counts.coassociation import check_partition_weights
    from coterie.labels.encode import MISSING, as_label_matrix

    matrix = as_label_matrix(P)
    codes = _codes(labels, "labels", missing=MISSING)
    if len(codes) != matrix.n_points:
        raise InvalidLabelsError(
            f"labels has {len(codes)} points and P has {matrix.n_points} rows; "
            "they must describe the same points"
        )
    weights = check_partition_weights(partition_weights, matrix.n_partitions)
    total = 0.0
    for v in np.flatnonzero(weights):
        column = matrix.codes[:, v]
        present = column != MISSING
        total += weights[v] * _mirkin(_cross_count(column[present], codes[present]))
    return float(total / weights.sum())


def _table(first: ArrayLike, second: ArrayLike, names: tuple[str, str]) -> sparse.csr_array:
    """Return the contingency table of two label arrays, named in error messages."""
    rows, columns = _codes(first, names[0]), _codes(second, names[1])
    if len(rows) != len(columns):
        raise InvalidLabelsError(
            f"{names[0]} has {len(rows)} labels and {names[1]} has {len(columns)}; "
            "they must describe the same points"
        )
    return _cross_count(rows, columns)


def _codes(labels: ArrayLike, name: str, missing: int | None = None) -> AnyArray:
    """Return labels as codes 0..K−1 in the order of the sorted distinct labels."""
    try:
        values = np.asarray(labels)
    except ValueError:
        raise InvalidLabelsError(f"{name} is a ragged list; give one label per point") from None
    if values.dtype.kind in "US" and not hasattr(labels, "dtype"):
        # numpy turns [1, "a"] and [nan, "a"] into text; as objects they fail to sort
        values = np.asarray(labels, dtype=object)
    if values.ndim != 1:
        raise InvalidLabelsError(
            f"{name} has shape {values.shape}; give one label per point, shape (n,)"
        )
    if values.size == 0:
        raise InvalidLabelsError(f"{name} is empty; give at least one label")
    try:
        unusable = np.asarray(values != values, dtype=bool)  # noqa: PLR0124 (true for NaN only)
        distinct, codes = np.unique(values, return_inverse=True)
    except TypeError:
        raise InvalidLabelsError(
            f"{name} mixes kinds of labels, or has blanks (None); use one type for all labels"
        ) from None
    if missing is not None and distinct.dtype.kind in "if":
        unusable |= values == missing
    if unusable.any():
        row = int(np.argmax(unusable))
        raise InvalidLabelsError(
            f"{name} has no label at row {row} (value {values[row]}; {int(unusable.sum())} such "
            "rows in all); label these points or leave them out"
        )
    return codes


def _cross_count(rows: AnyArray, columns: AnyArray) -> sparse.csr_array:
    """Return the contingency table of two arrays of codes ≥ 0."""
    shape = (int(rows.max(initial=-1)) + 1, int(columns.max(initial=-1)) + 1)
    ones = np.ones(len(rows), dtype=np.int64)
    return sparse.coo_array((ones, (rows, columns)), shape=shape).tocsr()


def _sums_of_squares(table: sparse.csr_array) -> tuple[int, int, int]:
    """Return Σ n_ab², Σ n_a² and Σ n_b² as Python integers, which cannot overflow."""
    sides = (table.data, np.asarray(table.sum(axis=1)), np.asarray(table.sum(axis=0)))
    cells, rows, columns = (int(np.dot(counts, counts)) for counts in sides)
    return cells, rows, columns


def _mirkin(table: sparse.csr_array) -> int:
    cells, rows, columns = _sums_of_squares(table)
    return rows + columns - 2 * cells


def _entropy(counts: Ints) -> float:
    """Return −Σ p log p of positive counts."""
    shares = counts / counts.sum()
    return float(-np.dot(shares, np.log(shares)))
