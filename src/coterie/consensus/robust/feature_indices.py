"""Internal indices of clusters on features: silhouette, Calinski–Harabasz, Davies–Bouldin.

They are those of scikit-learn. They inform about the clusters of a consensus, which is found from
partitions alone; nothing is chosen by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import (
    calinski_harabasz_score,
    davies_bouldin_score,
    pairwise_distances,
    silhouette_score,
)

from coterie.arrays import AnyArray, Ints
from coterie.runtime.wording import short_repr

#: The indices, and whether a large value is good.
FEATURE_INDICES = {"silhouette": True, "calinski_harabasz": True, "davies_bouldin": False}
#: Above this number of rows a sample is used: the silhouette takes time and memory O(n²).
MOST_ROWS = 5_000


@dataclass(frozen=True, eq=False)
class FeatureSample:
    """Rows on which the indices of many clusterings are computed; all of them if they are few.

    Above 5,000 rows a random sample of 5,000 is drawn, always the same for the same n. Row weights
    are not used: every row counts once.
    """

    rows: Ints  # (s,)
    X: Any  # (s, p) array or sparse matrix, or (s, s) distances
    metric: str = "euclidean"  # or "precomputed"

    __repr__ = short_repr

    @classmethod
    def draw(cls, X: Any, metric: str = "euclidean") -> Self:
        """Draw a sample of the rows of features, or of a matrix of distances."""
        n = X.shape[0]
        rows = np.arange(n)
        if n > MOST_ROWS:
            drawn = np.random.default_rng(0).choice(n, MOST_ROWS, replace=False)
            rows, X = np.sort(drawn), X[np.sort(drawn)]
            X = X[:, rows] if metric == "precomputed" else X
        return cls(rows, X, metric)

    def among(self, kept: Ints) -> FeatureSample:
        """Return the rows of the sample that are kept, numbered by their places among ``kept``.

        >>> sample = FeatureSample.draw(np.eye(3)).among(np.array([0, 2]))
        >>> sample.rows.tolist(), sample.X.shape
        ([0, 1], (2, 3))
        """
        places = np.searchsorted(kept, self.rows)
        inside = np.append(kept, -1)[places] == self.rows
        X = self.X[inside]
        X = X[:, inside] if self.metric == "precomputed" else X
        return FeatureSample(places[inside], X, self.metric)

    def indices(self, labels: AnyArray) -> dict[str, float]:
        """Return the indices of labels (s,) of the sample; rows with −1 are left out.

        A single cluster, and clusters of one row each, have no index: nan. Calinski–Harabasz and
        Davies–Bouldin need dense features; they are nan for sparse features and distances.

        >>> sample = FeatureSample.draw(np.array([[0.0], [1.0], [8.0], [9.0]]))
        >>> found = sample.indices(np.array([0, 0, 1, 1]))
        >>> round(found["silhouette"], 2), found["calinski_harabasz"], found["davies_bouldin"]
        (0.87, 128.0, 0.125)
        """
        known = np.flatnonzero(labels >= 0)
        labels = labels[known]
        values = dict.fromkeys(FEATURE_INDICES, np.nan)
        if not 1 < len(np.unique(labels)) < len(labels) or not self._is_finite:
            return values
        D = self._distances if len(known) == len(self.rows) else self._distances[known][:, known]
        values["silhouette"] = float(silhouette_score(D, labels, metric="precomputed"))
        if self.metric != "precomputed" and not sp.issparse(self.X):
            X = self.X[known]
            values["calinski_harabasz"] = float(calinski_harabasz_score(X, labels))
            values["davies_bouldin"] = float(davies_bouldin_score(X, labels))
        return values

    @cached_property
    def _is_finite(self) -> bool:
        """Return whether no distance overflows."""
        return bool(np.isfinite(self._distances).all())

    @cached_property
    def _distances(self) -> AnyArray:
        """Return the distances of the rows, (s, s), computed once for all clusterings."""
        given = self.metric == "precomputed"
        if given and not self.X.diagonal().any():
            D: AnyArray = self.X
            return D
        D = self.X.copy() if given else pairwise_distances(self.X)
        np.fill_diagonal(D, 0.0)  # rounded otherwise, and refused by scikit-learn
        return D


def indices_in_words(indices: Mapping[str, float]) -> str:
    """Return the indices of clusters on features as a text.

    >>> indices_in_words({"silhouette": 0.551, "davies_bouldin": 0.6, "calinski_harabasz": np.nan})
    'silhouette 0.551, Davies-Bouldin 0.6'
    >>> indices_in_words({"calinski_harabasz": 1000.4})
    'Calinski-Harabasz 1,000'
    """
    names = {name: name.replace("_", "-").title() for name in indices} | {
        "silhouette": "silhouette"
    }
    known = [
        f"{names[name]} {value:{',.0f' if 100 <= value < 1e9 else '.3g'}}"
        for name, value in indices.items()
        if np.isfinite(value)
    ]
    return ", ".join(known) or "no index, because there is one cluster or one point in each"
