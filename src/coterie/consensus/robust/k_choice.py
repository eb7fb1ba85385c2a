"""The result of a comparison of numbers of clusters K."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.runtime.imports import import_pandas

__all__ = ["KChoice"]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class KChoice:
    """Criteria for each K and the recommended K. Arrays run over ``ks``; nan means unavailable.

    Attributes
    ----------
    best_k : int
        The recommended K.
    reason : str
        Why, in one sentence.
    is_weak : bool
        Whether the evidence is weak: another number of clusters is almost as good, or halves of the
        partitions, or methods, agree little on the clusters.
    by_criterion : dict of str to int or None
        The K that each criterion alone chooses; None if it is unavailable or chooses none.
    ks : (L,) int
        The K compared, in rising order.
    objective : (L,)
        J of the best partition found with at most K clusters.
    n_clusters : (L,) int
        Number of clusters of that partition.
    lower_bound : float
        Lower bound of J over all partitions, for any K.
    information : (L,)
        Mean mutual information, in nats, between that partition and the given ones.
    margin : (L,)
        Mean over points of the share of votes for the point's cluster minus the share of votes
        for the next best one.
    eigenvalues : (max K + 1,)
        The largest eigenvalues λ_1 ≥ λ_2 ≥ … of M.
    eigengap : (L,)
        λ_K − λ_{K+1}.
    relative_eigengap : (L,)
        (λ_K − λ_{K+1}) / (λ_K + max(n/500, 1)), in [0, 1).
    agreement : (L,)
        Mean adjusted Rand index between the answers of linkage, locally weighted linkage and
        locally weighted cut with K clusters.
    stability : (L,)
        Mean adjusted Rand index between the answers of random halves of the partitions.
    pac : (L,)
        Proportion of ambiguous pairs.
    cdf_area : (L,)
        Area A(K) under the consensus CDF.
    delta_area : (L,)
        Growth of A(K) relative to the largest area at a smaller K; A(K) at the first K.
    silhouette, calinski_harabasz, davies_bouldin : (L,)
        Indices of that partition on features, if these are known, as in scikit-learn; above 5,000
        rows on a sample of 5,000. K is never chosen by them: they favour round clusters.
    """

    best_k: int
    reason: str
    is_weak: bool
    by_criterion: dict[str, int | None]
    ks: Counts
    objective: Array
    n_clusters: Counts
    lower_bound: float
    information: Array
    margin: Array
    eigenvalues: Array
    eigengap: Array
    relative_eigengap: Array
    agreement: Array
    stability: Array
    pac: Array = field(default_factory=lambda: np.empty(0))
    cdf_area: Array = field(default_factory=lambda: np.empty(0))
    delta_area: Array = field(default_factory=lambda: np.empty(0))
    silhouette: Array = field(default_factory=lambda: np.empty(0))
    calinski_harabasz: Array = field(default_factory=lambda: np.empty(0))
    davies_bouldin: Array = field(default_factory=lambda: np.empty(0))

    def __repr__(self) -> str:
        compared = f"{self.ks[0]} to {self.ks[-1]}" if len(self.ks) > 1 else str(self.ks[0])
        weak = ", weak evidence" if self.is_weak else ""
        return f"KChoice(best_k={self.best_k} of {compared}{weak}: {self.reason})"

    def to_frame(self) -> Any:
        """Return the criteria as a pandas DataFrame, one row for each K.

        Criteria that are unavailable for every K are left out.
        """
        pandas = import_pandas()
        index = pandas.Index(self.ks, name="k")
        return pandas.DataFrame(self.columns(), index=index)

    def _repr_html_(self) -> str:
        columns = self.columns()
        weak = " (weak evidence)" if self.is_weak else ""
        head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in columns)
        rows = []
        for row, k in enumerate(self.ks.tolist()):
            cells = "".join(f"<td>{values[row]:.4g}</td>" for values in columns.values())
            bold = " style='font-weight:bold'" if k == self.best_k else ""
            rows.append(f"<tr{bold}><td>{k}</td>{cells}</tr>")
        return (
            f"<p>{self.best_k} clusters{weak}: {escape(self.reason)}</p>"
            f"<table><thead><tr><th>K</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        )

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the criteria that are available for some K."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "ks"}
        return {
            name: value
            for name, value in values.items()
            if isinstance(value, np.ndarray)
            and value.shape == self.ks.shape
            and name != "eigenvalues"
            and np.isfinite(value).any()
        }
