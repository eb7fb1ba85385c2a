"""View agreement: how well the views agree with each other and with the segments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from coterie.ads.segments.views import View

__all__ = ["ViewAgreement", "compare_views", "paper_table_of_clusters", "spread_agreement"]

Labels = NDArray[np.int64]
#: Below this adjusted Rand index a view is taken as unrelated to the segments.
_UNRELATED = 0.05


@dataclass(frozen=True)
class ViewAgreement:
    """Agreement of V views."""

    names: list[str]
    ari: NDArray[np.float64]  # (V, V), adjusted Rand index of every pair of views
    with_segments: NDArray[np.float64]  # (V,), adjusted Rand index with the segments
    weights: NDArray[np.float64]  # (V,), weight in the consensus; they sum to 1
    # for each pair of views, then for each view with the segments: a, b, tpn, fpn, ari; the paper's
    # TPN is the share of pairs of advertisers on which both agree, its FPN the share of the others
    pairs: list[dict[str, Any]]
    placed: Labels  # (A, V), most frequent segment of the advertiser's cluster; −1 without label
    dissenting: str  # view with weight 0 or unrelated to the segments; empty if there is none
    sentence: str


def compare_views(
    views: Mapping[str, View], segments: Labels, partition_weights: NDArray[np.float64] | None
) -> ViewAgreement:
    """Compare views by their partitions with the nearest number of clusters.

    ``segments`` (A,) are the labels of the consensus, and ``partition_weights`` its weights of the
    partitions of all views; None means equal weights.
    """
    names = list(views)
    n_segments = int(segments.max(initial=-1)) + 1
    shown = {name: _representative(view, n_segments) for name, view in views.items()}
    labelled = {**shown, "segments": segments}
    compared = [*combinations(names, 2), *((name, "segments") for name in names)]
    ari = np.array([[_ari(shown[a], shown[b]) for b in names] for a in names]).reshape(
        len(names), len(names)
    )
    with_segments = np.array([_ari(shown[name], segments) for name in names])
    weights = _view_weights(views, partition_weights)
    dissenting = _dissenting(names, with_segments, weights)
    placed = [_placed_by(shown[name], segments) for name in names]
    return ViewAgreement(
        names,
        ari,
        with_segments,
        weights,
        [{"a": a, "b": b, **_on_pairs(labelled[a], labelled[b])} for a, b in compared],
        np.stack(placed, axis=1) if placed else np.empty((len(segments), 0), dtype=np.int64),
        dissenting,
        _sentence(names, with_segments, weights, dissenting),
    )


def spread_agreement(agreement: ViewAgreement, rows: Labels, n_advertisers: int) -> ViewAgreement:
    """Return the agreement of views of some advertisers, ``rows``, as one of all.

    The views do not place the others.
    """
    placed = np.full((n_advertisers, len(agreement.names)), -1, dtype=np.int64)
    placed[rows] = agreement.placed
    return replace(agreement, placed=placed)


def paper_table_of_clusters(views: Mapping[str, View]) -> list[list[Any]]:
    """Return the paper's table of clusters by level of the test: view, level, pairs, clusters.

    Clusters are those of the leader rule, whose number follows from the graph alone. The paper
    does not say how it counted.
    """
    return [
        [view.name, alpha, similar, view.leaders.get(alpha)]
        for view in views.values()
        for alpha, similar in view.edges.items()
    ]


def _representative(view: View, n_segments: int) -> Labels:
    """Return the partition with the nearest number of clusters; of several, the middle one."""
    distance = np.array([abs(int(str(settings["k"])) - n_segments) for settings in view.settings])
    distance = np.where((view.partitions >= 0).any(axis=0), distance, np.inf)
    nearest = np.flatnonzero(distance == distance.min())
    return view.partitions[:, nearest[len(nearest) // 2]]


def _ari(a: Labels, b: Labels) -> float:
    from coterie.inspection.scores import adjusted_rand_index  # needs scikit-learn

    both = (a >= 0) & (b >= 0)
    return adjusted_rand_index(a[both], b[both]) if both.sum() > 1 else 0.0


def _on_pairs(first: Labels, second: Labels) -> dict[str, float | None]:
    """Compare two partitions over the pairs of advertisers that both label.

    They agree on a pair that is together in both or apart in both. ``tpn``, the Rand index, is the
    share of these pairs, and ``fpn`` = 1 − ``tpn`` is the share of the others.
    """
    from coterie.inspection.scores import mirkin_distance

    both = (first >= 0) & (second >= 0)
    n = int(both.sum())
    if n < 2:
        return {"tpn": None, "fpn": None, "ari": None}
    differing = mirkin_distance(first[both], second[both]) / (n * (n - 1))
    return {"tpn": 1 - differing, "fpn": differing, "ari": _ari(first, second)}


def _view_weights(
    views: Mapping[str, View], partition_weights: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    sizes = [view.partitions.shape[1] for view in views.values()]
    weights = np.ones(sum(sizes)) if partition_weights is None else partition_weights
    if not sizes:
        return np.zeros(0)
    by_view = np.add.reduceat(weights, np.cumsum([0, *sizes[:-1]]))
    return np.asarray(by_view / max(by_view.sum(), 1e-12))


def _placed_by(partition: Labels, segments: Labels) -> Labels:
    """Return the most frequent segment of each advertiser's cluster."""
    placed = np.full(len(partition), -1, dtype=np.int64)
    known = (partition >= 0) & (segments >= 0)
    if not known.any():
        return placed
    table = np.zeros((partition.max() + 1, segments.max() + 1))
    np.add.at(table, (partition[known], segments[known]), 1)
    voting = partition >= 0
    most = np.where(table.any(axis=1), table.argmax(axis=1), -1)
    placed[voting] = most[partition[voting]]
    return placed


def _dissenting(
    names: list[str], with_segments: NDArray[np.float64], weights: NDArray[np.float64]
) -> str:
    without_weight = [name for name, weight in zip(names, weights, strict=True) if weight == 0]
    if without_weight:
        return without_weight[0]
    if len(names) > 1 and with_segments.min() < _UNRELATED:
        return names[int(with_segments.argmin())]
    return ""


def _sentence(
    names: list[str],
    with_segments: NDArray[np.float64],
    weights: NDArray[np.float64],
    dissenting: str,
) -> str:
    if not names:
        return "No view distinguishes the advertisers."
    nearest, high = names[int(with_segments.argmax())], with_segments.max()
    first = f"The {nearest} view is nearest to the segments (adjusted Rand index {high:.2f})"
    if not dissenting:
        farthest = names[int(with_segments.argmin())]
        if farthest == nearest:
            return f"{first}."
        low = with_segments.min()
        return f"{first}, the {farthest} view is farthest ({low:.2f}); every view has some weight."
    at = names.index(dissenting)
    index = f"{with_segments[at]:.2f}"
    if weights[at] == 0:
        return (
            f"{first}. The {dissenting} view agrees with the others no better than chance "
            f"({index} with the segments) and has no weight."
        )
    return f"{first}. The {dissenting} view is almost unrelated to them ({index})."
