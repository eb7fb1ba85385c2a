"""How far the views agree with one another and with the segments, and which one dissents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from coterie.ads.segments.views import View

__all__ = ["ViewAgreement", "compare_views", "paper_table_of_clusters"]

Labels = NDArray[np.int64]
#: Below this adjusted Rand index two views have next to nothing in common.
_NOTHING_IN_COMMON = 0.05


@dataclass(frozen=True)
class ViewAgreement:
    """Agreement of V views.

    Attributes
    ----------
    names : list of V str
    ari : (V, V) float64 array
        Adjusted Rand index of every pair of views, over the advertisers both place.
    with_segments : (V,) float64 array
        The same of each view and the segments.
    weights : (V,) float64 array
        The share of each view in the say of the consensus; they sum to 1.
    pairs : list of dict
        For every ordered pair, and for the segments against each view: ``a``, ``b``, ``tpn``,
        ``fpn``, ``rand``, ``ari``; a is taken as right.
    placed : (A, V) int64 array
        Where each view would put each advertiser: the segment most of its cluster is in; −1
        where it says nothing.
    dissenting : str
        The view with no say, or nothing in common with the segments; empty where there is none.
    sentence : str
    """

    names: list[str]
    ari: NDArray[np.float64]
    with_segments: NDArray[np.float64]
    weights: NDArray[np.float64]
    pairs: list[dict[str, Any]]
    placed: Labels
    dissenting: str
    sentence: str


def compare_views(
    views: Mapping[str, View], segments: Labels, partition_weights: NDArray[np.float64] | None
) -> ViewAgreement:
    """Compare one partition of every view, the one with the number of clusters nearest.

    Parameters
    ----------
    views : mapping of str to View
    segments : (A,) int array
    partition_weights : (V,) array or None
        Of the consensus, over the partitions of all views in order; None is all alike.
    """
    names = list(views)
    n_segments = int(segments.max(initial=-1)) + 1
    shown = {name: _representative(view, n_segments) for name, view in views.items()}
    labelled = {**shown, "segments": segments}
    ari = np.array([[_ari(shown[a], shown[b]) for b in names] for a in names]).reshape(
        len(names), len(names)
    )
    with_segments = np.array([_ari(shown[name], segments) for name in names])
    weights = _say(views, partition_weights)
    dissenting = _dissenting(names, with_segments, weights)
    placed = [_placed_by(shown[name], segments) for name in names]
    return ViewAgreement(
        names,
        ari,
        with_segments,
        weights,
        [_pair(a, b, labelled) for a in labelled for b in names if a != b],
        np.stack(placed, axis=1) if placed else np.empty((len(segments), 0), dtype=np.int64),
        dissenting,
        _sentence(names, with_segments, weights, dissenting),
    )


def paper_table_of_clusters(views: Mapping[str, View]) -> list[list[Any]]:
    """The paper's table of clusters at each level of the test: view, level, pairs, clusters.

    The clusters are those of the leader rule, the only one of ours that settles their number
    from the graph alone; the paper does not say how it counted.
    """
    rows = []
    for view in views.values():
        for alpha, similar in view.edges.items():
            rows.append([view.name, alpha, similar, view.leaders.get(alpha)])
    return rows


def _representative(view: View, n_segments: int) -> Labels:
    """The partition with the number of clusters nearest; of several, the middle one.

    One that places nobody comes last.
    """
    distance = np.array([abs(int(str(settings["k"])) - n_segments) for settings in view.settings])
    distance = np.where((view.partitions >= 0).any(axis=0), distance, np.inf)
    nearest = np.flatnonzero(distance == distance.min())
    return view.partitions[:, nearest[len(nearest) // 2]]


def _both(a: Labels, b: Labels) -> NDArray[np.bool_]:
    return (a >= 0) & (b >= 0)


def _ari(a: Labels, b: Labels) -> float:
    both = _both(a, b)
    from coterie.inspection.scores import adjusted_rand_index  # which needs scikit-learn

    return adjusted_rand_index(a[both], b[both]) if both.sum() > 1 else 0.0


def _pair(a: str, b: str, labelled: Mapping[str, Labels]) -> dict[str, Any]:
    first, second = labelled[a], labelled[b]
    both = _both(first, second)
    if both.sum() < 2:
        return {"a": a, "b": b, "tpn": None, "fpn": None, "rand": None, "ari": None}
    from coterie.inspection.scores import pair_rates  # which needs scikit-learn

    rates = pair_rates(first[both], second[both])
    sizes = np.bincount(first[both]).astype(np.float64)
    n = sizes.sum()
    together = (sizes * (sizes - 1)).sum() / (n * (n - 1))
    return {
        "a": a,
        "b": b,
        "tpn": rates.tpn,
        "fpn": rates.fpn,
        "rand": float(together * rates.tpn + (1 - together) * (1 - rates.fpn)),
        "ari": _ari(first, second),
    }


def _say(
    views: Mapping[str, View], partition_weights: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    sizes = [view.partitions.shape[1] for view in views.values()]
    weights = np.ones(sum(sizes)) if partition_weights is None else partition_weights
    if not sizes:
        return np.zeros(0)
    by_view = np.add.reduceat(weights, np.cumsum([0, *sizes[:-1]]))
    return np.asarray(by_view / max(by_view.sum(), 1e-12))


def _placed_by(partition: Labels, segments: Labels) -> Labels:
    """The segment that most members of each advertiser's cluster are in."""
    placed = np.full(len(partition), -1, dtype=np.int64)
    known = _both(partition, segments)
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
    silent = [name for name, weight in zip(names, weights, strict=True) if weight == 0]
    if silent:
        return silent[0]
    if len(names) > 1 and with_segments.min() < _NOTHING_IN_COMMON:
        return names[int(with_segments.argmin())]
    return ""


def _sentence(
    names: list[str],
    with_segments: NDArray[np.float64],
    weights: NDArray[np.float64],
    dissenting: str,
) -> str:
    if not names:
        return "There was no view to compare."
    nearest = names[int(with_segments.argmax())]
    told = (
        f"The {nearest} view is nearest to the segments (adjusted Rand {with_segments.max():.2f})"
    )
    if not dissenting:
        farthest = names[int(with_segments.argmin())]
        if farthest == nearest:
            return f"{told}."
        return (
            f"{told}, the {farthest} view farthest ({with_segments.min():.2f}); none was set aside."
        )
    at = names.index(dissenting)
    if weights[at] == 0:
        return (
            f"{told}. The {dissenting} view agrees with the others no better than chance "
            f"({with_segments[at]:.2f} with the segments) and was given no vote."
        )
    return (
        f"{told}. The {dissenting} view has next to nothing in common with them "
        f"({with_segments[at]:.2f})."
    )
