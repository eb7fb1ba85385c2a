"""The contents of the report on a consensus, collected from a fitted estimator.

Confidences, agreements and shares are fractions from 0 to 1. Clusters are numbered as the labels.
Names have visible symbols in place of control characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

import coterie
from coterie.consensus.cluster_consensus import cluster_consensus
from coterie.consensus.diagnostics import (
    PartitionRow,
    dissent_of,
    fitted_consensus,
    partition_names,
    partition_report,
    point_report,
    row_index,
    runner_up_clusters,
    summary_lines,
)
from coterie.errors import InvalidParameterError
from coterie.inspection.displays.coassociation import CoassociationDisplay
from coterie.inspection.displays.partitions import PartitionAgreementDisplay
from coterie.inspection.report.cluster_words import cluster_words
from coterie.inspection.report.feature_contents import FeaturesPart, features_part
from coterie.inspection.report.k_contents import KPart, finite_or_none, k_part
from coterie.labels.row_index import refuse_other_rows, row_index_of
from coterie.runtime.wording import short_repr, visible

__all__ = [
    "ClusterRow",
    "ConsensusReport",
    "DoubtfulPoint",
    "HeatMap",
    "KindRow",
    "PartitionsPart",
    "consensus_contents",
]

#: The most points of the co-association, partitions of the agreement, and doubtful points.
_MOST_COASSOCIATED, _MOST_COMPARED, _MOST_DOUBTFUL = 300, 200, 100
#: Points are doubtful below this margin of votes or probability. If none is, ten are listed.
_DOUBTFUL_BELOW, _LEAST_CERTAIN = 0.75, 10
_ROUNDING = 1e-9
_CONFIDENCE_BINS, _ROUNDING = 10, 1e-9


@dataclass(frozen=True)
class ClusterRow:
    """One cluster.

    ``confidence`` is the mean over its points and ``histogram`` their numbers in ten bins from 0
    to 1. ``consensus`` is the mean co-association of its pairs, None for a single point. ``words``
    are those of :func:`~.cluster_words.cluster_words`.
    """

    cluster: int
    size: int
    confidence: float
    consensus: float | None
    histogram: list[int]
    words: list[tuple[str, str]]


@dataclass(frozen=True)
class KindRow:
    """Partitions of one kind, or of one view: how many there are, decide, and agree on average."""

    kind: str
    size: int
    deciding: int
    agreement: float


@dataclass(frozen=True, eq=False)
class HeatMap:
    """A symmetric matrix (s, s) with values in [0, 1], and the blocks of its rows in order.

    ``blocks`` are (name, number of rows); ``names`` (s,) are those of the rows. ``total`` is the
    number of rows of which s are shown.
    """

    matrix: NDArray[np.float64]
    blocks: list[tuple[str, int]]
    names: list[str]
    total: int

    __repr__ = short_repr


@dataclass(frozen=True)
class PartitionsPart:
    """The partitions: one row for each, one for each kind, and their agreement by camps."""

    sentence: str
    rows: list[PartitionRow]
    kinds: list[KindRow]
    camps: list[int]
    n_deciding: int
    agreement: HeatMap


@dataclass(frozen=True)
class DoubtfulPoint:
    """A point of low confidence; ``runner_up`` is the next best cluster, None if there is none."""

    name: str
    row: int
    cluster: int
    runner_up: int | None
    confidence: float


@dataclass(frozen=True)
class ConsensusReport:
    """Everything that the report on a consensus shows.

    Attributes
    ----------
    method, reason : str
        The method whose answer was returned, and why; the reason is empty if there was no choice.
    n_unlabelled : int
        Points without a label in any partition.
    share_of_pairs : float
        J as a share of all pairs: how much a partition differs from the consensus on average.
    lower_bound, gap : float or None
        Lower bound of J, and the share of J that a better partition could save; None if unknown.
    has_finer_runs : bool
        Whether the default ensemble made the partitions, with more clusters than the consensus.
    doubtful_below : float
        Points of less confidence are doubtful.
    n_doubtful : int
        The number of doubtful points. ``points`` has the least certain of them, or the few least
        certain points if none is doubtful, unless all are equally certain.
    k_given : bool
        Whether the number of clusters is a parameter of the estimator.
    k_choice : KPart or None
        None if the estimator did not compare numbers of clusters.
    features : FeaturesPart or None
        None if no features were given.
    """

    title: str
    made: str
    version: str
    estimator: str
    method: str
    reason: str
    n_points: int
    n_tuples: int
    n_unlabelled: int
    confidence: float
    objective: float
    share_of_pairs: float
    lower_bound: float | None
    gap: float | None
    has_finer_runs: bool
    clusters: list[ClusterRow]
    partitions: PartitionsPart
    coassociation: HeatMap
    k_given: bool
    k_choice: KPart | None
    doubtful_below: float
    n_doubtful: int
    has_index: bool
    points: list[DoubtfulPoint]
    features: FeaturesPart | None

    __repr__ = short_repr


def consensus_contents(
    estimator: Any,
    X: Any = None,
    *,
    feature_names: Sequence[str] | None = None,
    title: str | None = None,
    names: Sequence[str] | None = None,
    index: Sequence[Any] | None = None,
) -> ConsensusReport:
    """Collect the contents of a report; the parameters are those of :func:`~coterie.write_report`.

    >>> from coterie import EvidenceAccumulation
    >>> est = EvidenceAccumulation(2).fit([[0, 0], [0, 0], [0, 1], [1, 1], [1, 1]])
    >>> [(row.size, row.histogram[-1]) for row in consensus_contents(est).clusters]
    [(3, 2), (2, 0)]
    """
    consensus = fitted_consensus(estimator)
    n = len(consensus.labels_)
    labelled = consensus.labels_ >= 0
    n_labelled = int(labelled.sum())
    names = [visible(name) for name in partition_names(consensus, names)]
    rows = _row_names(estimator, X, index, n)
    selected = getattr(consensus, "selected_", {})
    partitions = _partitions(estimator, names)
    n_doubtful = int((estimator.confidence_[labelled] < _DOUBTFUL_BELOW).sum())
    return ConsensusReport(
        title=f"Consensus of {len(names)} partitions" if title is None else visible(str(title)),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        version=coterie.__version__,
        estimator=type(estimator).__name__,
        method=str(selected.get("method", type(consensus).__name__)),
        reason=str(selected.get("reason", "")),
        n_points=n,
        n_tuples=int(consensus.n_tuples_),
        n_unlabelled=n - n_labelled,
        confidence=float(estimator.confidence_[labelled].mean()),
        objective=float(consensus.objective_),
        share_of_pairs=float(consensus.objective_) / max(n_labelled * (n_labelled - 1), 1),
        lower_bound=finite_or_none(getattr(consensus, "lower_bound_", None)),
        gap=finite_or_none(getattr(consensus, "gap_", None)),
        has_finer_runs=_has_finer_runs(estimator, partitions),
        clusters=_clusters(estimator, names),
        partitions=partitions,
        coassociation=_coassociation(consensus, rows),
        k_given=isinstance(getattr(estimator, "n_clusters", None), Integral),
        k_choice=k_part(estimator),
        doubtful_below=_DOUBTFUL_BELOW,
        n_doubtful=n_doubtful,
        has_index=rows is not None,
        points=_least_certain(
            estimator, rows, min(n_doubtful, _MOST_DOUBTFUL) or _LEAST_CERTAIN, _DOUBTFUL_BELOW
        ),
        features=None if X is None else features_part(estimator, X, feature_names, rows),
    )


def _ensembles(estimator: Any) -> dict[str, Any]:
    """Return the fitted ensembles of a clusterer by view; a single one has an empty name."""
    if hasattr(estimator, "ensembles_"):
        return dict(estimator.ensembles_)
    return {"": estimator.ensemble_} if hasattr(estimator, "ensemble_") else {}


def _row_names(
    estimator: Any, X: Any, index: Sequence[Any] | None, n: int
) -> NDArray[np.object_] | None:
    """Return the names (n,) of the points, or None if they have only row numbers."""
    fitted, given = row_index(estimator), row_index_of(X)
    refuse_other_rows(given, fitted, "X", "the fit")
    for row_names in (index, fitted, given):
        if row_names is not None:
            if len(row_names) != n:
                raise InvalidParameterError(
                    f"index has {len(row_names)} names for {n} points; give one name per point"
                )
            names = np.empty(n, dtype=object)
            names[:] = [_as_text(name) for name in row_names]
            return names
    return None


def _as_text(name: Any) -> str:
    return visible(" · ".join(map(str, name)) if isinstance(name, tuple) else str(name))


def _clusters(estimator: Any, names: Sequence[str]) -> list[ClusterRow]:
    firmness, words = cluster_consensus(estimator), cluster_words(estimator, names)
    labels, confidence = estimator.labels_, estimator.confidence_
    labelled = labels >= 0
    # 0.9 may be stored as 0.8999…, and belongs to the bin from 0.9
    bins = (confidence * _CONFIDENCE_BINS + _ROUNDING).astype(np.int64)
    bins = np.minimum(bins, _CONFIDENCE_BINS - 1)
    cell = labels[labelled] * _CONFIDENCE_BINS + bins[labelled]
    counts = np.bincount(cell, minlength=len(firmness) * _CONFIDENCE_BINS)
    counts = counts.reshape(len(firmness), _CONFIDENCE_BINS)
    total = np.bincount(labels[labelled], confidence[labelled], len(firmness))
    return [
        ClusterRow(
            cluster=b,
            size=int(counts[b].sum()),
            confidence=float(total[b] / counts[b].sum()),
            consensus=finite_or_none(firmness[b]),
            histogram=counts[b].tolist(),
            words=words[b],
        )
        for b in range(len(firmness))
    ]


def _partitions(estimator: Any, names: Sequence[str]) -> PartitionsPart:
    consensus = fitted_consensus(estimator)
    dissent = dissent_of(consensus)
    return PartitionsPart(
        sentence=summary_lines(estimator, names)[1]["partitions"],
        rows=partition_report(estimator, names),
        kinds=_kinds(estimator, consensus),
        camps=np.bincount(dissent.groups).tolist(),
        n_deciding=int((consensus.partition_weights_ > 0).sum()),
        agreement=_agreement(consensus, names),
    )


def _has_finer_runs(estimator: Any, partitions: PartitionsPart) -> bool:
    """Return whether the runs are those of the default ensemble, most finer than the consensus."""
    finer = sum(row.n_clusters > estimator.n_clusters_ for row in partitions.rows)
    return getattr(estimator, "ensemble", None) == "mixed" and 2 * finer > len(partitions.rows)


def _kinds(estimator: Any, consensus: Any) -> list[KindRow]:
    """Return one row per kind of partition, or per view; none if there is only one."""
    ensembles = _ensembles(estimator)
    kinds = [
        visible(view or kind)
        for view, ensemble in ensembles.items()
        for kind in getattr(ensemble, "kinds", ())
    ]
    weights, agreement = consensus.partition_weights_, consensus.partition_agreement_
    if len(set(kinds)) < 2 or len(kinds) != len(weights):
        return []
    member = {kind: np.array([kind == other for other in kinds]) for kind in dict.fromkeys(kinds)}
    return [
        KindRow(kind, int(own.sum()), int((weights[own] > 0).sum()), float(agreement[own].mean()))
        for kind, own in member.items()
    ]


def _agreement(consensus: Any, names: Sequence[str]) -> HeatMap:
    display = PartitionAgreementDisplay._of_estimator(consensus, names)
    V = len(names)
    shown = np.unique(np.linspace(0, V - 1, min(V, _MOST_COMPARED)).round().astype(np.int64))
    sizes = [(name, int(np.isin(members, shown).sum())) for name, members in display.blocks]
    blocks = [(name, size) for name, size in sizes if size]
    matrix = np.clip(display.agreement[np.ix_(shown, shown)], 0, 1)
    return HeatMap(matrix, blocks, [display.names[v] for v in shown], V)


def _coassociation(consensus: Any, rows: NDArray[np.object_] | None) -> HeatMap:
    display = CoassociationDisplay._of_estimator(consensus, max_points=_MOST_COASSOCIATED)
    clusters, sizes = np.unique(display.labels, return_counts=True)
    blocks = [(str(b), int(size)) for b, size in zip(clusters, sizes, strict=True)]
    names = [str(i) if rows is None else str(rows[i]) for i in display.points.tolist()]
    return HeatMap(display.matrix, blocks, names, len(consensus._tuples.inverse))


def _least_certain(
    estimator: Any, rows: NDArray[np.object_] | None, most: int, below: float
) -> list[DoubtfulPoint]:
    """Return the least certain points that have a label, by rising confidence.

    A point with the largest confidence is listed only if this is less than ``below``.
    """
    consensus, runner_up = fitted_consensus(estimator), runner_up_clusters(estimator)
    n_unlabelled = int((consensus.labels_ < 0).sum())
    # probabilities of points on which all runs agree are a little below 1
    certain = max(float(estimator.confidence_.max(initial=0.0)), below)
    # points without a label have confidence 0, so they are among the first
    points = point_report(estimator, most + n_unlabelled)
    return [
        DoubtfulPoint(
            name=str(one.point if rows is None else rows[one.point]),
            row=one.point,
            cluster=one.cluster,
            runner_up=int(runner_up[one.point]) if runner_up[one.point] >= 0 else None,
            confidence=one.confidence,
        )
        for one in points
        if one.cluster >= 0 and one.confidence < certain - _ROUNDING
    ][:most]
