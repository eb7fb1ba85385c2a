"""What is known of a fitted consensus: reports, one record of facts, and its renderings.

:func:`consensus_facts` is the only place that collects the facts. What shows them, as text, as HTML
and as JSON, here and in the program and the HTML report, reads the record and computes nothing.

Cluster consensus and item consensus are those of Monti et al. (2003): means of the co-association
M over the pairs of points in a cluster, and over the pairs of one point with the points of a
cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from coterie.arrays import Floats, Ints
from coterie.consensus.camps import Dissent, camps_of
from coterie.consensus.registry import consensus_method
from coterie.counts.cluster_tables import ClusterTables
from coterie.ensembles.input_checks import check_choice, check_whole
from coterie.errors import CoterieError, InvalidParameterError
from coterie.runtime.imports import import_pandas
from coterie.runtime.wording import in_words, number_of, visible

if TYPE_CHECKING:
    from coterie.consensus.choice_of_k import KChoice

#: Differences of confidence, and relative gaps, below this are errors of rounding. So are smaller
#: shares of the pairs, because sums of fractional weights and memberships are rounded.
_ROUNDING = 1e-9
#: Sizes of clusters and uncertain points in a text, and characters of a name.
_MOST_SIZES, _MOST_UNCERTAIN, _MOST_CHARACTERS = 12, 5, 40
#: Width of the names before the lines of a summary.
_NAMES = 12
_LEAST_SHOWN = 0.001
#: A bound that is further below J, as a share of it, says nothing about how good the answer is.
_LOOSE = 0.5
#: Kinds find the same clusters if their mean adjusted Rand index is more than this.
_ALIKE_KINDS = 0.9


class ConsensusResults:
    """Mixin of consensus functions, and of clusterers with a consensus function ``consensus_``."""

    labels_: NDArray[np.int32]
    confidence_: Floats
    margin_: Floats

    def summary(self) -> Summary:
        """Describe the fitted consensus in a few lines of text, see :func:`~coterie.summary`."""
        return summary(self)

    def to_frame(self, what: str = "points") -> Any:
        """Return results as a pandas DataFrame.

        Parameters
        ----------
        what : {"points", "partitions", "clusters", "k"}, default="points"
            "points": ``label``, ``confidence``, ``margin`` and ``runner_up`` of each point, the
            cluster with the largest share of votes besides its own (−1 if there is none), with the
            index of the fitted table. "partitions": the fields of
            :class:`~coterie.consensus.results.PartitionRow`. "clusters": ``size``, mean
            ``confidence`` and ``consensus`` of each cluster, the mean co-association of its points.
            If labels are words, ``word`` is that of the cluster. "k": the criteria for each number
            of clusters, if the number was chosen.

        Examples
        --------
        >>> from coterie import EvidenceAccumulation
        >>> P = [[0, 0, 0], [0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 1]]
        >>> EvidenceAccumulation(2).fit(P).to_frame("clusters").round(2)
                 size  confidence  consensus
        cluster
        0           3        0.88       0.78
        1           2        0.88       1.00
        """
        check_choice("what", what, ("points", "partitions", "clusters", "k"))
        check_is_fitted(self)
        pandas = import_pandas()
        words = getattr(fitted_consensus(self), "label_names_", None)
        if what == "points":
            columns = {
                "label": self.labels_,
                **({} if words is None else {"word": np.array([*words, ""])[self.labels_]}),
                "confidence": self.confidence_,
                "margin": fitted_consensus(self).margin_,
                "runner_up": runner_up_clusters(self),
            }
            return pandas.DataFrame(columns, index=row_index(self))
        if what == "partitions":
            rows = [asdict(row) for row in partition_report(self)]
            return pandas.DataFrame(rows).set_index("name")
        if what == "clusters":
            frame = pandas.DataFrame([asdict(row) for row in cluster_report(self)])
            if words is not None:
                frame.insert(1, "word", words)
            return frame.set_index("cluster").astype({"consensus": float})
        if (choice := k_choice_of(self)) is None:
            raise InvalidParameterError(
                f"this {type(self).__name__} did not choose the number of clusters; fit it with "
                "n_clusters=None if it has this choice, or compare numbers by coterie.choose_k(P)"
            )
        return choice.to_frame()

    @property
    def _repr_html_(self) -> Callable[[], str]:
        # scikit-learn raises AttributeError unless its setting ``display`` is "diagram"
        diagram = super()._repr_html_  # type: ignore[misc]
        return lambda: diagram() + _summary_table(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += _summary_table(self)
        return bundle


def _summary_table(estimator: Any) -> str:
    """Return the summary as an HTML table; empty if the estimator is not fitted."""
    try:
        return Summary.of(consensus_facts(estimator, find_dissent=False))._repr_html_()
    except (CoterieError, NotFittedError):  # the consensus function may be a class of the user
        return ""


@dataclass(frozen=True)
class PartitionRow:
    """One partition compared with the consensus.

    Attributes
    ----------
    name, n_clusters
    agreement, coverage : float
        Adjusted Rand index with the consensus, over the points that the partition labels; and the
        share of the points that it labels. A high agreement on few points says little.
    mirkin_share : float
        Share of the pairs of those points that only one of the two puts together.
    camp : int
        Partitions of one camp agree with each other beyond chance; 0 is the largest camp.
    weight : float
        Weight of its vote.
    odd_one_out, weak : bool
        Whether it is outside the deciding camp (or camps of equal size), even if it votes; and
        whether it agrees with its camp much less than the other members do.
    """

    name: str
    n_clusters: int
    agreement: float
    coverage: float
    mirkin_share: float
    camp: int
    weight: float
    odd_one_out: bool
    weak: bool


@dataclass(frozen=True)
class PointRow:
    """One point: its row in the input, its cluster, and its name in the index of the table.

    ``confidence`` is the estimated probability that the cluster is right. Without an index, the
    name is the row.
    """

    point: int
    cluster: int
    confidence: float
    name: Any


@dataclass(frozen=True)
class ClusterRow:
    """A cluster: its size, the mean confidence of its points, and its consensus.

    ``consensus`` is the mean co-association of its pairs, None for a single point.
    """

    cluster: int
    size: int
    confidence: float
    consensus: float | None


def partition_report(estimator: Any, names: Sequence[str] | None = None) -> list[PartitionRow]:
    """Compare every partition with the consensus.

    Parameters
    ----------
    estimator : fitted consensus function, or fitted clusterer that holds one
    names : sequence of V str, optional
        Names of the partitions; by default those of the columns of P.

    Returns
    -------
    list of V PartitionRow, by falling agreement

    Examples
    --------
    >>> from coterie import RobustConsensus, planted_partitions
    >>> P, _ = planted_partitions([60, 40], 4, n_bad=1, noise=0.0, random_state=0)
    >>> rows = partition_report(RobustConsensus(2, random_state=0).fit(P), names="abcd")
    >>> [(row.name, row.agreement > 0.9, row.odd_one_out) for row in rows]
    [('a', True, False), ('b', True, False), ('c', True, False), ('d', False, True)]
    """
    consensus = fitted_consensus(estimator)
    tuples, tables, dissent = consensus._tuples, consensus._tables, dissent_of(consensus)
    labelled = tables.present.sum(axis=1)
    n_pairs = np.maximum(labelled * (labelled - 1), 1.0)
    columns = {
        "n_clusters": tuples.in_given_order(tuples.n_labels),
        "agreement": consensus.partition_agreement_,
        "coverage": consensus.partition_coverage_,
        "mirkin_share": tuples.in_given_order(tables.distances() / n_pairs),
        "camp": dissent.groups,
        "weight": consensus.partition_weights_,
        "odd_one_out": dissent.weights == 0,
        "weak": dissent.weak,
    }
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    rows = zip(partition_names(consensus, names), values, strict=True)
    each = [PartitionRow(name, *row) for name, row in rows]
    return sorted(each, key=lambda row: -row.agreement)


def point_report(estimator: Any, n: int = 10) -> list[PointRow]:
    """Return the n points with the least confidence, or all points, by rising confidence.

    Parameters
    ----------
    estimator, n : fitted estimator as for :func:`partition_report`; int

    Examples
    --------
    >>> from coterie import RobustConsensus
    >>> P = [[0, 0, 0], [0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 1]]
    >>> est = RobustConsensus(2, partition_weights=None, random_state=0).fit(P)
    >>> point_report(est, n=1)[0].point
    2
    """
    check_whole("n", n)
    labels, index = fitted_consensus(estimator).labels_, row_index(estimator)
    rows = np.argsort(estimator.confidence_, kind="stable")[:n]
    columns = rows.tolist(), labels[rows].tolist(), estimator.confidence_[rows].tolist()
    return [
        PointRow(row, cluster, confidence, row if index is None else index[row])
        for row, cluster, confidence in zip(*columns, strict=True)
    ]


def least_certain(
    estimator: Any, index: Any, most: int, below: float = 0.0
) -> list[UncertainPoint]:
    """Return the labelled points of the least confidence, by rising confidence.

    ``index`` names the points. Points with the largest confidence of all are left out, unless it
    is less than ``below``.
    """
    confidence, labelled = estimator.confidence_, fitted_consensus(estimator).labels_ >= 0
    least = np.argsort(np.where(labelled, confidence, np.inf), kind="stable")[:most]
    # probabilities of points on which all runs agree are a little below 1
    certain = max(float(confidence.max(initial=0.0)), below) - _ROUNDING
    rows = least[labelled[least] & (confidence[least] < certain)]
    columns = rows.tolist(), estimator.labels_[rows].tolist(), confidence[rows].tolist()
    return [
        UncertainPoint(point_name(row, index), row, cluster, value)
        for row, cluster, value in zip(*columns, strict=True)
    ]


def cluster_report(estimator: Any) -> list[ClusterRow]:
    """Describe every cluster, in the order of the labels."""
    firmness, labelled = cluster_consensus(estimator), estimator.labels_ >= 0
    labels, confidence = estimator.labels_[labelled], estimator.confidence_[labelled]
    sizes = np.bincount(labels, minlength=len(firmness))
    means = np.bincount(labels, confidence, len(firmness)) / sizes
    return [
        ClusterRow(b, int(sizes[b]), float(means[b]), None if np.isnan(value) else float(value))
        for b, value in enumerate(firmness)
    ]


def cluster_consensus(estimator: Any) -> Floats:
    """Compute the mean co-association of the pairs of points in each cluster.

    For cluster b of n_b points,

        m(b) = Σ_{i < j in b} M_ij / (n_b (n_b − 1) / 2).

    It is 1 if all partitions put all points of b together. If labels are missing, the mean is over
    the votes of all partitions that label both points.

    Parameters
    ----------
    estimator : as for :func:`partition_report`

    Returns
    -------
    (K,) array
        In the order of the labels; nan for a cluster of a single point.

    Examples
    --------
    >>> from coterie import EvidenceAccumulation
    >>> P = [[0, 0], [0, 0], [0, 1], [1, 2], [1, 2]]
    >>> cluster_consensus(EvidenceAccumulation(2).fit(P)).round(2)
    array([0.67, 1.  ])
    """
    consensus = fitted_consensus(estimator)
    tuples, labels = consensus._tuples, consensus._tuple_labels
    tables = _tables_of(consensus)
    together, pairs = (matrix.diagonal() for matrix in tables.cluster_affinity())
    share = tables.alpha / tables.alpha.sum()
    # the sums over pairs include every point with itself
    own = tuples.weights * (tuples.squares @ share), tuples.weights * (tuples.mass**2 @ share)
    own_together, own_pairs = (np.bincount(labels, values, len(pairs)) for values in own)
    return _mean(together - own_together, pairs - own_pairs, pairs)


def item_consensus(estimator: Any) -> Floats:
    """Compute the mean co-association of each point with the points of each cluster.

    For point i and cluster b,

        m_i(b) = Σ_{j in b, j ≠ i} M_ij / |{j in b, j ≠ i}|.

    A point that the partitions put into one cluster has a value near 1 for it, and values near 0
    for the others. Missing labels are as in :func:`cluster_consensus`.

    Parameters
    ----------
    estimator : as for :func:`partition_report`

    Returns
    -------
    (n, K) array
        Columns are in the order of the labels. nan if a point is alone in its cluster, for points
        without a label, and for points of weight 0.

    Examples
    --------
    >>> from coterie import EvidenceAccumulation
    >>> P = [[0, 0], [0, 0], [0, 1], [1, 1], [1, 1]]
    >>> item_consensus(EvidenceAccumulation(2).fit(P))[2]
    array([0.5, 0.5])
    """
    consensus = fitted_consensus(estimator)
    tuples, labels = consensus._tuples, consensus._tuple_labels
    tables = _tables_of(consensus)
    alpha, every = tables.alpha, np.arange(tuples.n_tuples)
    together = tuples.indicator(alpha) @ tables.table
    all_pairs = (tuples.mass * alpha) @ tables.present
    pairs = all_pairs.copy()
    together[every, labels] -= tuples.squares @ alpha
    pairs[every, labels] -= tuples.mass**2 @ alpha
    means = np.full((len(consensus.labels_), tables.n_clusters), np.nan)
    means[fitted_rows(consensus)] = tuples.expand(_mean(together, pairs, all_pairs))
    return means


def runner_up_clusters(estimator: Any) -> Ints:
    """Return for each point the cluster, other than its own, with the largest share of votes, (n,).

    It is −1 if there is one cluster, for points without a label, and for points of weight 0.
    """
    consensus = fitted_consensus(estimator)
    tuples, tables = consensus._tuples, consensus._tables
    runner_up = np.full(len(consensus.labels_), -1, dtype=np.int64)
    if tables.n_clusters == 1:
        return runner_up
    runners_up = np.empty(tuples.n_tuples, dtype=np.int64)
    for rows, shares in tables.vote_share_blocks(tuples.codes, tuples.memberships):
        shares[np.arange(len(shares)), consensus._tuple_labels[rows]] = -1.0
        runners_up[rows] = shares.argmax(axis=1)
    runner_up[fitted_rows(consensus)] = tuples.expand(runners_up)
    return runner_up


def dissent_of(consensus: Any) -> Dissent:
    """Return the camps of the partitions; find them if the method did not."""
    dissent = getattr(consensus, "dissent_", None)
    return dissent if isinstance(dissent, Dissent) else camps_of(consensus._tuples)


def fitted_consensus(estimator: Any) -> Any:
    """Return the fitted consensus function of an estimator, which may be the estimator itself."""
    consensus = getattr(estimator, "consensus_", estimator)
    check_is_fitted(consensus)
    if not hasattr(consensus, "partition_agreement_"):
        raise InvalidParameterError(
            f"{type(consensus).__name__} is not a consensus of partitions; give a fitted "
            "RobustConsensus, ConsensusClusterer or a similar estimator"
        )
    return consensus


def fitted_rows(consensus: Any) -> Ints:
    """Return the rows of the input that were fitted: those with a label and a positive weight."""
    rows = consensus._fitted_rows
    return np.arange(len(consensus._tuples.inverse)) if rows is None else rows


def partition_names(consensus: Any, names: Sequence[str] | None = None) -> list[str]:
    """Return the given names after a check, or the names of the columns that were fitted."""
    V = len(consensus.partition_weights_)
    if names is None:
        return [str(name) for name in consensus._vocabulary.names]
    if len(names) != V:
        raise InvalidParameterError(
            f"names has {len(names)} entries for {V} partitions; give one name per partition"
        )
    return [str(name) for name in names]


def k_choice_of(estimator: Any) -> Any:
    """Return the comparison of numbers of clusters, or None if the number was given."""
    chosen = getattr(fitted_consensus(estimator), "k_choice_", None)
    return getattr(estimator, "k_choice_", chosen)


def point_name(row: int, index: Any) -> str:
    """Return the name of a point in an index, which may have several columns, or its row."""
    name = row if index is None else index[row]
    return " · ".join(map(str, name)) if isinstance(name, tuple) else str(name)


def row_index(estimator: Any) -> Any:
    """Return the index of the fitted table, or None if it has none."""
    index = getattr(estimator, "index_", None)
    return getattr(fitted_consensus(estimator), "index_", None) if index is None else index


def _tables_of(consensus: Any) -> ClusterTables:
    """Count the tables of the fitted tuples.

    The stored tables can hold more rows: those of a table that was streamed from an engine.
    """
    alpha = consensus._tables.alpha
    return ClusterTables.of(consensus._tuples, consensus._tuple_labels, alpha)


def _mean(total: Floats, number: Floats, scale: Floats) -> Floats:
    """Return total / number, or nan if the number is 0 but for rounding."""
    known = number > _ROUNDING * scale
    return np.divide(total, number, out=np.full_like(number, np.nan), where=known)


@dataclass(frozen=True)
class VoteFacts:
    """The weight of a partition, its agreement with the consensus, and the share it labels."""

    partition: str
    weight: float
    agreement: float
    coverage: float


@dataclass(frozen=True)
class CampFacts:
    """Partitions that agree with each other beyond chance; they decide if they have weight."""

    camp: int
    decides: bool
    mean_weight: float
    mean_agreement: float
    partitions: list[str]
    weak: list[str] = field(default_factory=list)  # those that agree with the camp much less


@dataclass(frozen=True)
class KindTrust:
    """How far one kind of runs is trusted.

    Attributes
    ----------
    kind : str
    stability : float
        Mean adjusted Rand index between the clusters of one half of its runs and of the other.
    agreement : float
        Mean adjusted Rand index of its clusters with those of the other kinds, the least alike
        left out.
    trust : float
        (stability⁴ + agreement²) / 2.
    """

    kind: str
    stability: float
    agreement: float
    trust: float


@dataclass(frozen=True)
class UncertainPoint:
    """A point of low confidence, by its name in the index or its row."""

    name: str
    row: int
    cluster: int
    confidence: float


@dataclass(frozen=True)
class ConsensusFacts:
    """What is known of a fitted consensus; None is what its method does not provide."""

    method: str  # the key in the registry, or the name of the class
    method_in_words: str
    points: int
    unlabelled: int  # of the points, those without a label in any partition
    partitions: int
    tuples: int  # distinct label tuples
    tuples_exact: bool  # an engine may only estimate their number
    clusters: int
    sizes: list[int]
    label_names: list[str] | None  # the word of each cluster, if the labels are words
    mean_confidence: float | None  # over the points with a label
    mean_margin: float | None  # only of a table in an engine, which has no probabilities
    objective: float
    share_of_pairs: float  # J as a share of all pairs
    lower_bound: float | None
    gap: float | None  # the share of J that a better partition could save
    selected: str | None  # the method whose answer was returned, and why
    reason: str | None
    loss: float | None  # the method's own objective
    kinds: list[KindTrust] | None  # of runs; the first one decides
    k_choice: KChoice | None
    feature_indices: dict[str, float] | None  # silhouette and others, if there are features
    constraints: dict[str, Any] | None  # numbers of pairs and moved points; is that exact?
    shortcuts: list[str]  # how runs were shortened
    remarks: list[str]  # what stood out in the features
    uncertain: list[UncertainPoint]  # a few; none if all points are equally certain
    has_index: bool  # whether points have names other than their row numbers
    votes: list[VoteFacts]
    dissent: str | None  # which partitions agree and which dissent
    camps_tied: bool | None
    camps: list[CampFacts] | None

    def as_json(self) -> dict[str, Any]:
        """Return the facts that are known as values for JSON."""
        facts = {name: value for name, value in asdict(self).items() if value is not None}
        return facts if self.k_choice is None else facts | {"k_choice": self.k_choice.as_json()}


def consensus_facts(
    estimator: Any,
    names: Sequence[str] | None = None,
    *,
    index: Sequence[Any] | None = None,
    method: str | None = None,
    find_dissent: bool = True,
) -> ConsensusFacts:
    """Collect the facts about a fitted consensus function, or a clusterer that holds one.

    ``names`` are those of the V partitions, by default of the columns; ``index`` (n,) names the
    points; ``method`` is the key of the method in the registry. Without ``find_dissent`` there are
    camps only if the method found them: to find them takes time O(n·V²).
    """
    consensus = fitted_consensus(estimator)
    names = partition_names(consensus, names)
    labelled = np.flatnonzero(consensus.labels_ >= 0)
    n, n_points = len(labelled), len(consensus.labels_)
    weights, agreement = consensus.partition_weights_, consensus.partition_agreement_
    selected, links = getattr(consensus, "selected_", {}), getattr(consensus, "constraints_", None)
    loss, lower_bound, gap = (_known(consensus, name) for name in ("loss_", "lower_bound_", "gap_"))
    indices = getattr(estimator, "feature_indices_", None)
    votes = weights.tolist(), agreement.tolist(), consensus.partition_coverage_.tolist()
    index = row_index(estimator) if index is None else index
    words = getattr(consensus, "label_names_", None)

    dissent, sentence, camps = None, None, None
    if find_dissent or hasattr(consensus, "dissent_"):
        dissent = dissent_of(consensus)
        sentence = dissent.in_words(names)
        if len(dissent.dissenters) and weights.all():
            sentence += "; all of them vote"
        members = [np.flatnonzero(dissent.groups == camp) for camp in np.unique(dissent.groups)]
        camps = [
            CampFacts(
                camp,
                decides=bool(weights[own].any()),
                mean_weight=float(weights[own].mean()),
                mean_agreement=float(agreement[own].mean()),
                partitions=[names[v] for v in own],
                weak=[names[v] for v in own if dissent.weak[v]],
            )
            for camp, own in enumerate(members)
        ]
    in_words = key = type(consensus).__name__
    if method is not None:
        key, entry = method, consensus_method(method)
        by = f" (by {consensus.partitioner_})" if hasattr(consensus, "partitioner_") else ""
        in_words = f"{entry.title}{by}, {entry.summary}"
    return ConsensusFacts(
        method=key,
        method_in_words=in_words + ("" if loss is None else f"; its own objective is {loss:,.6g}"),
        points=n_points,
        unlabelled=n_points - n,
        partitions=len(names),
        tuples=int(consensus.n_tuples_),
        tuples_exact=True,
        clusters=int(consensus.n_clusters_),
        sizes=np.bincount(consensus.labels_[labelled]).tolist(),
        label_names=None if words is None else [visible(word) for word in words],
        mean_confidence=float(estimator.confidence_[labelled].mean()),
        mean_margin=None,
        objective=float(consensus.objective_),
        share_of_pairs=float(consensus.objective_ / max(n * (n - 1), 1)),
        lower_bound=lower_bound,
        gap=gap,
        selected=str(selected["method"]) if selected else None,
        reason=str(selected["reason"]) if selected else None,
        loss=loss,
        kinds=getattr(estimator, "kinds_", None) or None,
        k_choice=k_choice_of(estimator),
        feature_indices=None
        if not indices
        else {name: float(value) for name, value in indices.items() if np.isfinite(value)},
        constraints=None if not links else {**links, "moved": len(links["moved"])},
        shortcuts=list(getattr(estimator, "shortcuts_", ())),
        remarks=list(getattr(estimator, "notes_", ())),
        uncertain=least_certain(estimator, index, _MOST_UNCERTAIN),
        has_index=index is not None,
        votes=[VoteFacts(*vote) for vote in zip(names, *votes, strict=True)],
        dissent=sentence,
        camps_tied=None if dissent is None else bool(dissent.tied),
        camps=camps,
    )


def table_facts(result: Any, method: str) -> ConsensusFacts:
    """Return the facts about a :class:`~coterie.TableConsensus`, over all rows of the table."""
    n = result.n_rows
    return replace(
        consensus_facts(result.estimator, result.partitions, method=method, find_dissent=False),
        points=n,
        unlabelled=0,
        tuples=result.n_tuples,
        tuples_exact=result.n_tuples_exact,
        clusters=len(result.sizes),
        sizes=result.sizes.tolist(),
        mean_confidence=None,
        mean_margin=float(result.mean_margin),
        objective=float(result.objective),
        share_of_pairs=result.objective / max(n * (n - 1), 1),
        uncertain=[],
    )


def _known(consensus: Any, name: str) -> float | None:
    """Return a number of the estimator, or None if the method does not have it."""
    number = getattr(consensus, name, None)
    return None if number is None or not np.isfinite(number) else float(number)


class Summary(str):
    """The lines of a summary: its repr is the text itself, and a notebook shows a table."""

    __slots__ = ()

    @classmethod
    def of(cls, facts: ConsensusFacts) -> Self:
        """Return the first line and the named lines as one text."""
        lines = (f"{name:<{_NAMES}}{text}" for name, text in summary_lines(facts).items())
        return cls("\n".join([heading(facts), *lines]))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        head, *lines = self.splitlines()
        left = 'style="text-align: left; vertical-align: top"'
        pairs = ((escape(line[:_NAMES]), escape(line[_NAMES:])) for line in lines)
        rows = "".join(f"<tr><th {left}>{a}</th><td {left}>{b}</td></tr>" for a, b in pairs)
        return f"<table><caption {left}>{escape(head)}</caption><tbody>{rows}</tbody></table>"


def summary(estimator: Any, names: Sequence[str] | None = None) -> Summary:
    """Describe a fitted consensus in a few lines of text, which a notebook shows as a table.

    Parameters
    ----------
    estimator, names
        As for :func:`~coterie.partition_report`.

    Examples
    --------
    >>> from coterie import RobustConsensus, planted_partitions
    >>> P, _ = planted_partitions([60, 40], 5, n_bad=2, noise=0.0, random_state=0)
    >>> print(summary(RobustConsensus(2, random_state=0).fit(P)))
    100 points in 5 partitions, 4 distinct label tuples
    clusters    2, of 60 and 40 points
    confidence  0.97 on average (estimated probability that a label is right)
    objective   J = 0.0: on average a voting partition differs on 0.0% of the pairs
    bound       no partition has a lower J
    partitions  3 of 5 partitions agree; 2 dissent (3, 4): they agree with each other; with...
    answer      least squares: ...
    """
    return Summary.of(consensus_facts(estimator, names))


def heading(facts: ConsensusFacts) -> str:
    """Return the first line of a summary."""
    points, partitions = number_of(facts.points, "point"), number_of(facts.partitions, "partition")
    about = "" if facts.tuples_exact else "about "
    return f"{points} in {partitions}, {about}{number_of(facts.tuples, 'distinct label tuple')}"


def summary_lines(facts: ConsensusFacts) -> dict[str, str]:
    """Return the other lines of a summary by their names."""
    lines = {"clusters": f"{facts.clusters}, of {sizes_in_words(facts)}"}
    if facts.unlabelled:
        lines["unlabelled"] = (
            f"{number_of(facts.unlabelled, 'point')} without a label in any partition, with -1"
        )
    if facts.k_choice is not None:
        lines["chosen K"] = f"{facts.k_choice.best_k}: {facts.k_choice.reason}"
    if links := facts.constraints:
        lines["constraints"] = (
            f"{links['must_link']} must-link and {links['cannot_link']} cannot-link pairs hold; "
            f"{number_of(links['moved'], 'point')} moved"
            + ("" if links["exact"] else "; another choice may have more votes")
        )
    if facts.mean_confidence is not None:
        lines["confidence"] = (
            f"{facts.mean_confidence:.2f} on average (estimated probability that a label is right)"
        )
    if facts.mean_margin is not None:
        lines["margin"] = f"{facts.mean_margin:.2f} on average (0 undecided, 1 certain)"
    if facts.uncertain:
        shown = [f"{_short_name(one.name)} ({one.confidence:.2f})" for one in facts.uncertain]
        lines["uncertain"] = f"{'points' if facts.has_index else 'rows'} {', '.join(shown)}"
    if facts.feature_indices is not None:
        lines["features"] = indices_in_words(facts.feature_indices)
    lines["objective"] = (
        f"J = {facts.objective:,.1f}: on average a voting partition differs on "
        f"{facts.share_of_pairs:.1%} of the pairs"
    )
    for name, texts in (("runs", facts.shortcuts), ("note", facts.remarks)):
        if texts:
            lines[name] = "; ".join(texts)
    if facts.lower_bound is not None:
        lines["bound"] = bound_in_words(facts)
    if facts.dissent is not None:
        lines["partitions"] = facts.dissent
    else:
        mean = sum(vote.agreement for vote in facts.votes) / len(facts.votes)
        lowest = min(facts.votes, key=lambda vote: vote.agreement)
        lines["agreement"] = (
            f"{mean:.2f} on average between a partition and the result (1 equal, 0 chance); lowest "
            f"for {lowest.partition}, {lowest.agreement:.2f}"
        )
    if facts.kinds is not None:
        lines["kinds"] = trust_in_words(facts.kinds)
    if facts.selected is not None:
        lines["answer"] = f"{facts.selected}: {facts.reason}"
    else:
        lines["method"] = facts.method_in_words
    return lines


def trust_in_words(ranked: Sequence[KindTrust]) -> str:
    """Say which kind decides, and whether the others find the same clusters."""
    first, *others = ranked
    if first.agreement > _ALIKE_KINDS:
        return f"{first.kind} runs decide, and the other kinds find the same clusters"
    each = ", ".join(f"{one.kind} {one.stability:.2f} and {one.agreement:.2f}" for one in others)
    return (
        f"{first.kind} runs decide: halves of them agree {first.stability:.2f}, the other kinds "
        f"agree with them {first.agreement:.2f} (adjusted Rand index); {each}"
    )


def sizes_in_words(facts: ConsensusFacts) -> str:
    """Return the sizes of the clusters, with their words; of many only the first ones."""
    names = facts.label_names or [""] * len(facts.sizes)
    shown = [
        f"{size:,} ({_short_name(name)})" if name else f"{size:,}"
        for size, name in zip(facts.sizes[:_MOST_SIZES], names, strict=False)
    ]
    listed = in_words(shown) if len(facts.sizes) == len(shown) else ", ".join(shown) + ", …"
    return f"{listed} points"


def bound_in_words(facts: ConsensusFacts) -> str:
    """Say how far J is from its lower bound."""
    gap = facts.gap or 0.0
    if gap < _ROUNDING:
        return "no partition has a lower J"
    least = f"no partition can have J below {facts.lower_bound:,.1f}"
    if gap > _LOOSE:
        return f"{least}; so far below J, this says nothing about the quality of the answer"
    fall = f"at most {gap:.1%}" if gap >= _LEAST_SHOWN else f"less than {_LEAST_SHOWN:.1%}"
    return f"{least}, so J could fall by {fall}"


def _short_name(name: str) -> str:
    text = " ".join(visible(name).split())
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"


def indices_in_words(indices: Mapping[str, float]) -> str:
    """Return the indices of clusters on features as a text.

    >>> indices_in_words({"silhouette": 0.551, "davies_bouldin": np.nan, "calinski_harabasz": 1000})
    'silhouette 0.551, Calinski-Harabasz 1,000'
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
