"""The contents of the report on a consensus: its facts, and tables and pictures for the details.

Confidences, agreements and shares are fractions from 0 to 1. Clusters are numbered as the labels.
Names have visible symbols in place of control characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from numbers import Integral
from typing import Any

import numpy as np

import coterie
from coterie.arrays import AnyArray, Floats
from coterie.consensus.results import (
    ClusterRow,
    ConsensusFacts,
    PartitionRow,
    UncertainPoint,
    cluster_report,
    consensus_facts,
    fitted_consensus,
    least_certain,
    partition_names,
    partition_report,
    row_index,
    runner_up_clusters,
)
from coterie.errors import InvalidParameterError
from coterie.inspection.displays.coassociation import CoassociationDisplay
from coterie.inspection.displays.partitions import PartitionAgreementDisplay
from coterie.inspection.report.features import FeaturesPart, features_part
from coterie.labels.encode import LabelMatrix, refuse_other_rows, row_index_of
from coterie.runtime.wording import short_repr, visible

#: The most points of the co-association, partitions of the agreement, and doubtful points.
_MOST_COASSOCIATED, _MOST_COMPARED, _MOST_DOUBTFUL = 300, 200, 100
#: Points of a smaller confidence are doubtful. If none is, ten are listed.
_DOUBTFUL_BELOW, _LEAST_CERTAIN = 0.75, 10
_CONFIDENCE_BINS, _ROUNDING = 10, 1e-9
#: With more voting partitions, the ones that agree most with the consensus are quoted.
MOST_QUOTED = 6


@dataclass(frozen=True)
class ClusterDetails(ClusterRow):
    """One cluster, with the numbers of its points in ten bins of confidence, and its words."""

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

    matrix: Floats
    blocks: list[tuple[str, int]]
    names: list[str]
    total: int

    __repr__ = short_repr


@dataclass(frozen=True)
class DoubtfulPoint(UncertainPoint):
    """A point of low confidence; ``runner_up`` is the next best cluster, None if there is none."""

    runner_up: int | None


@dataclass(frozen=True)
class ConsensusReport:
    """Everything that the report on a consensus shows."""

    title: str
    made: str
    version: str
    estimator: str
    facts: ConsensusFacts
    clusters: list[ClusterDetails]
    partitions: list[PartitionRow]
    kinds: list[KindRow]
    n_deciding: int
    agreement: HeatMap
    coassociation: HeatMap
    has_finer_runs: bool  # whether the default ensemble's runs have more clusters than the answer
    k_given: bool
    doubtful_below: float
    n_doubtful: int
    has_index: bool  # whether the points have names other than their row numbers
    points: list[DoubtfulPoint]  # the doubtful ones, or a few that are less certain than others
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
    """Collect the contents of a report; see :func:`~coterie.write_report` for the parameters."""
    consensus = fitted_consensus(estimator)
    names = [visible(name) for name in partition_names(consensus, names)]
    rows = _row_names(estimator, X, index, len(consensus.labels_))
    partitions = partition_report(estimator, names)
    finer = sum(row.n_clusters > estimator.n_clusters_ for row in partitions)
    is_doubtful = (consensus.labels_ >= 0) & (estimator.confidence_ < _DOUBTFUL_BELOW)
    n_doubtful = int(is_doubtful.sum())
    least = least_certain(
        estimator, min(n_doubtful, _MOST_DOUBTFUL) or _LEAST_CERTAIN, below=_DOUBTFUL_BELOW
    )
    runner_up = runner_up_clusters(estimator)
    return ConsensusReport(
        title=f"Consensus of {len(names)} partitions" if title is None else visible(str(title)),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        version=coterie.__version__,
        estimator=type(estimator).__name__,
        facts=consensus_facts(estimator, names),
        clusters=_clusters(estimator, names),
        partitions=partitions,
        kinds=_kinds(estimator, consensus),
        n_deciding=sum(row.weight > 0 for row in partitions),
        agreement=_agreement(consensus, names),
        coassociation=_coassociation(consensus, rows),
        has_finer_runs=getattr(estimator, "ensemble", None) == "mixed" and 2 * finer > len(names),
        k_given=isinstance(getattr(estimator, "n_clusters", None), Integral),
        doubtful_below=_DOUBTFUL_BELOW,
        n_doubtful=n_doubtful,
        has_index=rows is not None,
        points=[
            DoubtfulPoint(
                name=str(one.point if rows is None else rows[one.point]),
                row=one.point,
                cluster=one.cluster,
                confidence=one.confidence,
                runner_up=int(runner_up[one.point]) if runner_up[one.point] >= 0 else None,
            )
            for one in least
        ],
        features=None if X is None else features_part(estimator, X, feature_names, rows),
    )


def _row_names(estimator: Any, X: Any, index: Sequence[Any] | None, n: int) -> AnyArray | None:
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
            for i, name in enumerate(row_names):
                text = " · ".join(map(str, name)) if isinstance(name, tuple) else str(name)
                names[i] = visible(text)
            return names
    return None


def _clusters(estimator: Any, names: Sequence[str]) -> list[ClusterDetails]:
    rows, words = cluster_report(estimator), cluster_words(estimator, names)
    # 0.9 may be stored as 0.8999…, and belongs to the bin from 0.9
    bins = (estimator.confidence_ * _CONFIDENCE_BINS + _ROUNDING).astype(np.int64)
    bins = np.minimum(bins, _CONFIDENCE_BINS - 1)
    counts = np.zeros((len(rows), _CONFIDENCE_BINS), dtype=np.int64)
    labelled = estimator.labels_ >= 0
    np.add.at(counts, (estimator.labels_[labelled], bins[labelled]), 1)
    return [
        ClusterDetails(**asdict(row), histogram=histogram, words=own)
        for row, histogram, own in zip(rows, counts.tolist(), words, strict=True)
    ]


def cluster_words(estimator: Any, names: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Return for each cluster the names of voting partitions and their most common label in it.

    A partition without a label in the cluster is left out. The lists are empty if all labels are
    numbers, which say nothing, or if partitions are soft.
    """
    consensus = fitted_consensus(estimator)
    vocabulary, table = consensus._vocabulary, consensus._tables.table
    voting = np.flatnonzero(consensus.partition_weights_ > 0)
    words: list[list[tuple[str, str]]] = [[] for _ in range(table.shape[1])]
    if not isinstance(vocabulary, LabelMatrix):
        return words
    if not any(vocabulary.categories[v].dtype.kind == "U" for v in voting):
        return words
    counts = np.split(table[consensus._tuples.recode], np.cumsum(vocabulary.n_labels)[:-1])
    by_agreement = voting[np.argsort(-consensus.partition_agreement_[voting], kind="stable")]
    for v in np.sort(by_agreement[:MOST_QUOTED]).tolist():
        for cluster, own in enumerate(counts[v].T):
            if own.any():
                label = vocabulary.categories[v][own.argmax()]
                words[cluster].append((names[v], visible(str(label))))
    return words


def _kinds(estimator: Any, consensus: Any) -> list[KindRow]:
    """Return one row per kind of partition, or per view; none if there is only one."""
    if hasattr(estimator, "ensembles_"):
        ensembles = dict(estimator.ensembles_)
    else:
        ensembles = {"": getattr(estimator, "ensemble_", None)}
    kinds = np.array(
        [
            visible(view or kind)
            for view, ensemble in ensembles.items()
            for kind in getattr(ensemble, "kinds", ())
        ]
    )
    weights, agreement = consensus.partition_weights_, consensus.partition_agreement_
    if len(set(kinds.tolist())) < 2 or len(kinds) != len(weights):
        return []
    return [
        KindRow(
            kind,
            int((kinds == kind).sum()),
            int((weights[kinds == kind] > 0).sum()),
            float(agreement[kinds == kind].mean()),
        )
        for kind in dict.fromkeys(kinds.tolist())
    ]


def _agreement(consensus: Any, names: Sequence[str]) -> HeatMap:
    display = PartitionAgreementDisplay._of_estimator(consensus, names)
    V = len(names)
    shown = np.unique(np.linspace(0, V - 1, min(V, _MOST_COMPARED)).round().astype(np.int64))
    sizes = [(name, int(np.isin(members, shown).sum())) for name, members in display.blocks]
    blocks = [(name, size) for name, size in sizes if size]
    matrix = np.clip(display.agreement[np.ix_(shown, shown)], 0, 1)
    return HeatMap(matrix, blocks, [display.names[v] for v in shown], V)


def _coassociation(consensus: Any, rows: AnyArray | None) -> HeatMap:
    display = CoassociationDisplay._of_estimator(
        consensus, max_points=_MOST_COASSOCIATED, random_state=0
    )
    clusters, sizes = np.unique(display.labels, return_counts=True)
    blocks = [(str(b), int(size)) for b, size in zip(clusters, sizes, strict=True)]
    names = [str(i) if rows is None else str(rows[i]) for i in display.points.tolist()]
    return HeatMap(display.matrix, blocks, names, len(consensus._tuples.inverse))
