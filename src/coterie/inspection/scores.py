"""How alike two partitions are, and how well one fits many: all from contingency tables.

With n_ab the number of points in cluster a of one partition and cluster b of the other, every
score here is a sum over the cells n_ab that are not zero, so time and memory grow with the
number of points and of cells, never with the number of pairs of points.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from coterie.errors import InvalidLabelsError, InvalidParameterError

__all__ = [
    "PairRates",
    "adjusted_rand_index",
    "clustering_accuracy",
    "contingency",
    "mirkin_distance",
    "mirkin_objective",
    "normalized_mutual_information",
    "pair_rates",
]


_MEANS: dict[str, Callable[[float, float], float]] = {
    "arithmetic": lambda a, b: (a + b) / 2,
    "geometric": lambda a, b: math.sqrt(a * b),
    "max": max,
    "min": min,
}


class PairRates(NamedTuple):
    """What becomes of the pairs of points of a reference partition in another one.

    Attributes
    ----------
    tpn : float
        Share of the pairs together in the reference that are together in the other too;
        1.0 where the reference has no such pairs.
    fpn : float
        Share of the pairs apart in the reference that are together in the other; 0.0 where
        the reference has no such pairs.
    """

    tpn: float
    fpn: float


def contingency(labels_true: ArrayLike, labels_pred: ArrayLike) -> sparse.csr_array:
    """Count the points that share each pair of clusters: n_ab = #{i : true_i = a, pred_i = b}.

    Parameters
    ----------
    labels_true, labels_pred : (n,) array-like
        Labels of any kind that can be sorted: integers, texts. Nothing stands for "missing".

    Returns
    -------
    (A, B) sparse array of int64
        Rows and columns follow the sorted distinct labels of the one and of the other.

    Examples
    --------
    >>> contingency(["x", "x", "y"], [1, 0, 0]).toarray()
    array([[1, 1],
           [1, 0]])
    """
    rows, columns = _codes(labels_true, "labels_true"), _codes(labels_pred, "labels_pred")
    _refuse_lengths(rows, columns, ("labels_true", "labels_pred"))
    return _cross_count(rows, columns)


def clustering_accuracy(y_true: ArrayLike, labels: ArrayLike) -> float:
    """Share of points labelled right under the best one-to-one naming of the clusters.

    max over injective matchings π of (1/n) Σ_a n_{a, π(a)}. Where the numbers of clusters
    differ, the points of clusters left without a partner count as errors.

    Parameters
    ----------
    y_true, labels : (n,) array-like
        The classes, and the clusters to be judged.

    Returns
    -------
    float
        In (0, 1]; 1 if and only if the two are the same partition.

    Examples
    --------
    >>> clustering_accuracy([0, 0, 1, 1], ["b", "b", "a", "b"])
    0.75
    """
    table = contingency(y_true, labels)
    return float(_largest_matching(table) / table.sum())


def normalized_mutual_information(
    y_true: ArrayLike,
    labels: ArrayLike,
    average: Literal["arithmetic", "geometric", "max", "min"] = "arithmetic",
) -> float:
    """Mutual information of two partitions over an average of their entropies.

    I = Σ_ab (n_ab/n) log(n n_ab / (n_a n_b)), divided by the chosen mean of H(true) and
    H(labels), H = −Σ_a (n_a/n) log(n_a/n).

    Parameters
    ----------
    y_true, labels : (n,) array-like
        The two partitions; swapping them changes nothing.
    average : {"arithmetic", "geometric", "max", "min"}
        How the two entropies are made one.

    Returns
    -------
    float
        In [0, 1]. Two partitions of one cluster each are the same (1.0); if only one of
        them has a single cluster they share nothing (0.0).

    Examples
    --------
    >>> normalized_mutual_information([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    if average not in _MEANS:
        raise InvalidParameterError(f"average is {average!r}; it may be one of {', '.join(_MEANS)}")
    table = contingency(y_true, labels)
    if table.shape == (1, 1):
        return 1.0
    if 1 in table.shape:
        return 0.0
    entropies = [_entropy(np.asarray(table.sum(axis=axis))) for axis in (1, 0)]
    shared = sum(entropies) - _entropy(table.data)
    return float(np.clip(shared / _MEANS[average](*entropies), 0.0, 1.0))


def adjusted_rand_index(y_true: ArrayLike, labels: ArrayLike) -> float:
    """Agreement on pairs of points, corrected for chance: 1 for equal partitions, 0 on average.

    With T pairs together in both, A and B pairs together in the one and in the other, and N
    pairs in all: (T − AB/N) / ((A + B)/2 − AB/N).

    Parameters
    ----------
    y_true, labels : (n,) array-like
        The two partitions; swapping them changes nothing.

    Returns
    -------
    float
        In [−0.5, 1].

    Examples
    --------
    >>> adjusted_rand_index([0, 0, 1, 1], [0, 0, 1, 2])
    0.5714285714285714
    """
    both, in_true, in_labels, pairs = _pairs_together(contingency(y_true, labels))
    if both == in_true == in_labels:
        return 1.0
    # whole numbers to the last step: exact for any n
    return (
        (both * pairs - in_true * in_labels)
        * 2
        / ((in_true + in_labels) * pairs - 2 * in_true * in_labels)
    )


def mirkin_distance(a: ArrayLike, b: ArrayLike) -> int:
    """Ordered pairs i ≠ j on which two partitions differ: Σ n_a² + Σ n_b² − 2 Σ n_ab².

    Parameters
    ----------
    a, b : (n,) array-like
        The two partitions; swapping them changes nothing.

    Returns
    -------
    int
        A metric on partitions, 0 to n (n − 1).

    Examples
    --------
    >>> mirkin_distance([0, 0, 1], [0, 1, 1])
    4
    """
    rows, columns = _codes(a, "a"), _codes(b, "b")
    _refuse_lengths(rows, columns, ("a", "b"))
    return _mirkin(_cross_count(rows, columns))


def pair_rates(reference: ArrayLike, labels: ArrayLike) -> PairRates:
    """True and false positive rates over pairs of points, from a reference to another partition.

    Parameters
    ----------
    reference, labels : (n,) array-like
        The partition that is taken as right, and the other one. Order matters.

    Returns
    -------
    PairRates
        ``tpn`` and ``fpn``, each in [0, 1].

    Examples
    --------
    >>> pair_rates([0, 0, 1, 1], [0, 0, 0, 1])
    PairRates(tpn=0.5, fpn=0.5)
    """
    rows, columns = _codes(reference, "reference"), _codes(labels, "labels")
    _refuse_lengths(rows, columns, ("reference", "labels"))
    both, together, in_labels, pairs = _pairs_together(_cross_count(rows, columns))
    apart = pairs - together
    return PairRates(
        tpn=both / together if together else 1.0,
        fpn=(in_labels - both) / apart if apart else 0.0,
    )


def mirkin_objective(
    P: Any, labels: ArrayLike, partition_weights: ArrayLike | None = None
) -> float:
    """Weighted mean Mirkin distance from a partition G to V given ones, in linear time.

    J(G) = Σ_ij (1/Σw) Σ_{v : i and j labelled in v} w_v |M^v_ij − X_ij|

    over all ordered pairs, with M^v_ij = [P_iv = P_jv] and X_ij = [G_i = G_j]. Without missing
    labels and with equal weights this is ‖M − X‖₁, M the co-association matrix. Each v
    contributes w_v times the Mirkin distance between column v and G on the points v labels.

    Parameters
    ----------
    P : (n, V) label matrix
        Anything :func:`coterie.labels.label_matrix.as_label_matrix` reads; −1 where a label is
        missing.
    labels : (n,) array-like
        The partition G; every point has a label.
    partition_weights : (V,) array-like, optional
        w ≥ 0, not all zero; equal if not given.

    Returns
    -------
    float
        J(G) ≥ 0; the lower the better G fits.

    Examples
    --------
    >>> P = [[0, 0, 5], [0, 1, 5], [1, 1, -1]]
    >>> mirkin_objective(P, [0, 0, 1])
    1.3333333333333333
    """
    from coterie.labels.label_matrix import MISSING, as_label_matrix

    matrix = as_label_matrix(P)
    codes = _codes(labels, "labels", missing=MISSING)
    if len(codes) != matrix.n_points:
        raise InvalidLabelsError(
            f"labels has {len(codes)} points and P has {matrix.n_points} rows; "
            "they must describe the same points"
        )
    weights = _partition_weights(partition_weights, matrix.n_partitions)
    total = 0.0
    for v in np.flatnonzero(weights):
        column = matrix.codes[:, v]
        present = column != MISSING
        total += weights[v] * _mirkin(_cross_count(column[present], codes[present]))
    return float(total / weights.sum())


def _codes(labels: ArrayLike, name: str, missing: int | None = None) -> NDArray[np.intp]:
    """Labels of any kind as 0..K−1, in the order of the sorted distinct labels."""
    values = _as_array(labels, name)
    if values.ndim != 1:
        raise InvalidLabelsError(
            f"{name} has shape {values.shape}; give one label a point, shape (n,)"
        )
    if values.size == 0:
        raise InvalidLabelsError(f"{name} is empty; give at least one label")
    try:
        unusable = np.asarray(values != values, dtype=bool)  # noqa: PLR0124 (NaN alone does)
        distinct, codes = np.unique(values, return_inverse=True)
    except TypeError:
        raise InvalidLabelsError(
            f"{name} mixes kinds of labels, or has blanks (None); make all of them one kind"
        ) from None
    if missing is not None and distinct.dtype.kind in "if":
        unusable |= values == missing
    if unusable.any():
        row = int(np.argmax(unusable))
        raise InvalidLabelsError(
            f"{name} has no label at row {row} (it holds {values[row]}; {int(unusable.sum())} "
            "such rows in all); give these points a label, or leave them out"
        )
    return codes


def _as_array(labels: ArrayLike, name: str) -> NDArray[Any]:
    try:
        values = np.asarray(labels)
    except ValueError:
        raise InvalidLabelsError(f"{name} is a ragged list; give one label a point") from None
    if values.dtype.kind in "US" and not hasattr(labels, "dtype"):
        # numpy turns [1, "a"] and [nan, "a"] into texts; as objects they are found out
        values = np.asarray(labels, dtype=object)
    return values


def _refuse_lengths(
    rows: NDArray[np.intp], columns: NDArray[np.intp], names: tuple[str, str]
) -> None:
    if len(rows) != len(columns):
        raise InvalidLabelsError(
            f"{names[0]} has {len(rows)} labels and {names[1]} has {len(columns)}; "
            "they must describe the same points"
        )


def _partition_weights(given: ArrayLike | None, n_partitions: int) -> NDArray[np.float64]:
    if given is None:
        return np.ones(n_partitions)
    try:
        weights = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameterError("partition_weights must be numbers, one a partition") from None
    if weights.shape != (n_partitions,):
        raise InvalidParameterError(
            f"partition_weights has shape {weights.shape}; P has {n_partitions} partitions, "
            f"so it must be ({n_partitions},)"
        )
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        v = int(np.argmax(wrong))
        raise InvalidParameterError(
            f"partition_weights[{v}] is {weights[v]}; weights are finite and not negative"
        )
    if not weights.any():
        raise InvalidParameterError("partition_weights are all zero; one must be positive")
    return weights


def _cross_count(rows: NDArray[Any], columns: NDArray[Any]) -> sparse.csr_array:
    """Contingency table of two arrays of codes ≥ 0; empty codes make empty rows or columns."""
    shape = (int(rows.max(initial=-1)) + 1, int(columns.max(initial=-1)) + 1)
    ones = np.ones(len(rows), dtype=np.int64)
    return sparse.coo_array((ones, (rows, columns)), shape=shape).tocsr()


def _sums_of_squares(table: sparse.csr_array) -> tuple[int, int, int]:
    """Σ n_ab², Σ n_a² and Σ n_b², as Python integers."""
    sides = (table.data, np.asarray(table.sum(axis=1)), np.asarray(table.sum(axis=0)))
    cells, rows, columns = (int(np.dot(counts, counts)) for counts in sides)
    return cells, rows, columns


def _mirkin(table: sparse.csr_array) -> int:
    cells, rows, columns = _sums_of_squares(table)
    return rows + columns - 2 * cells


def _pairs_together(table: sparse.csr_array) -> tuple[int, int, int, int]:
    """Ordered pairs together in both partitions, in the first, in the second; pairs in all."""
    n = int(table.data.sum())
    cells, rows, columns = _sums_of_squares(table)
    return cells - n, rows - n, columns - n, n * (n - 1)


def _largest_matching(table: sparse.csr_array) -> int:
    """Largest Σ n_ab over matchings of rows to columns.

    The table stays sparse: every row may also go to a column of its own, worth nothing, so a
    matching of all rows exists, and one more in every cell (no weight may be zero) adds the
    same to all of them.
    """
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    if table.shape[0] > table.shape[1]:
        table = table.T.tocsr()
    cells = table.copy()
    cells.data += 1
    alone = sparse.eye_array(table.shape[0], dtype=np.int64, format="csr")
    graph = sparse.hstack([cells, alone], format="csr")
    rows, columns = min_weight_full_bipartite_matching(graph, maximize=True)
    matched = columns < table.shape[1]
    return int(table[rows[matched], columns[matched]].sum())


def _entropy(counts: NDArray[np.int64]) -> float:
    """−Σ p log p of positive counts."""
    shares = counts / counts.sum()
    return float(-np.dot(shares, np.log(shares)))
