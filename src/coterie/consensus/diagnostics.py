"""Reports on a fitted consensus: its partitions, its least certain points, and a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from coterie.consensus.robust.camps import Dissent, find_camps
from coterie.consensus.robust.feature_indices import indices_in_words
from coterie.consensus.summary_sentences import (
    bound_in_words,
    clusters_in_words,
    confidence_in_words,
    dissent_in_words,
    objective_in_words,
    unlabelled_in_words,
)
from coterie.counts.contingency import all_contingencies, count_pairs
from coterie.ensembles.input_checks import check_whole
from coterie.errors import InvalidParameterError
from coterie.runtime.wording import number_of, visible

__all__ = [
    "PartitionRow",
    "PointRow",
    "Summary",
    "dissent_of",
    "fitted_consensus",
    "k_choice_of",
    "partition_names",
    "partition_report",
    "point_report",
    "row_index",
    "runner_up_clusters",
    "summary",
    "summary_lines",
]

#: Width of the names before the lines of a summary.
_NAMES = 12
#: Confidences that differ by less are equal.
_ROUNDING = 1e-9
_MOST_UNCERTAIN = 5
_MOST_CHARACTERS = 40
#: Shares of votes that are in memory together.
_MOST_SHARES = 10**7


@dataclass(frozen=True)
class PartitionRow:
    """One partition compared with the consensus.

    Attributes
    ----------
    name : str
    n_clusters : int
    agreement : float
        Adjusted Rand index with the consensus, over the points that the partition labels.
    coverage : float
        Share of the points that the partition labels. A high agreement on few points says little.
    mirkin_share : float
        Share of the pairs of those points that are together in one of the two and apart in the
        other.
    camp : int
        Partitions of one camp agree with each other beyond chance; 0 is the largest camp.
    weight : float
        Weight of its vote.
    odd_one_out : bool
        Whether it is outside the deciding camp (or camps of equal size), even if it votes.
    """

    name: str
    n_clusters: int
    agreement: float
    coverage: float
    mirkin_share: float
    camp: int
    weight: float
    odd_one_out: bool


@dataclass(frozen=True)
class PointRow:
    """One point.

    Attributes
    ----------
    point : int
        Its row in the input.
    cluster : int
    confidence : float
        Estimated probability that the cluster is right.
    name : object
        Its name in the index of the fitted table; without an index, its row.
    """

    point: int
    cluster: int
    confidence: float
    name: Any


class Summary(str):
    """The lines of a summary: its repr is the text itself, and a notebook shows a table."""

    __slots__ = ()

    @classmethod
    def of(cls, head: str, lines: Mapping[str, str]) -> Self:
        """Return the first line and the named lines as one text."""
        return cls("\n".join([head, *(f"{name:<{_NAMES}}{text}" for name, text in lines.items())]))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        head, *lines = self.splitlines()
        left = 'style="text-align: left; vertical-align: top"'
        pairs = [(escape(line[:_NAMES]), escape(line[_NAMES:])) for line in lines]
        rows = "".join(
            f"<tr><th {left}>{name}</th><td {left}>{text}</td></tr>" for name, text in pairs
        )
        return f"<table><caption {left}>{escape(head)}</caption><tbody>{rows}</tbody></table>"


def partition_report(estimator: Any, names: Sequence[str] | None = None) -> list[PartitionRow]:
    """Compare every partition with the consensus.

    Parameters
    ----------
    estimator : fitted consensus function, or fitted clusterer that holds one
    names : sequence of V str, optional
        Names of the partitions; by default those of the columns of P.

    Returns
    -------
    list of V PartitionRow
        By falling agreement; ties are in the order of the columns.

    Examples
    --------
    >>> from coterie import RobustConsensus, planted_partitions
    >>> P, _ = planted_partitions([60, 40], 4, n_bad=1, noise=0.0, random_state=0)
    >>> rows = partition_report(RobustConsensus(2, random_state=0).fit(P), names="abcd")
    >>> [(row.name, row.agreement > 0.9, row.odd_one_out) for row in rows]
    [('a', True, False), ('b', True, False), ('c', True, False), ('d', False, True)]
    """
    consensus = fitted_consensus(estimator)
    tuples, dissent = consensus._tuples, dissent_of(consensus)
    names = partition_names(consensus, names)
    n_clusters = tuples.in_given_order(tuples.n_labels)
    tables = consensus._tables
    labelled = tables.present.sum(axis=1)
    n_pairs = np.maximum(labelled * (labelled - 1), 1.0)
    shares = tuples.in_given_order(tables.distances() / n_pairs)
    rows = [
        PartitionRow(
            name=names[v],
            n_clusters=int(n_clusters[v]),
            agreement=float(consensus.partition_agreement_[v]),
            coverage=float(consensus.partition_coverage_[v]),
            mirkin_share=float(shares[v]),
            camp=int(dissent.groups[v]),
            weight=float(consensus.partition_weights_[v]),
            odd_one_out=bool(dissent.weights[v] == 0),
        )
        for v in range(len(names))
    ]
    return sorted(rows, key=lambda row: -row.agreement)


def point_report(estimator: Any, n: int = 10) -> list[PointRow]:
    """Return the n points with the least confidence, or all points, by rising confidence.

    Parameters
    ----------
    estimator : fitted consensus function, or fitted clusterer that holds one
    n : int

    Examples
    --------
    >>> from coterie import RobustConsensus
    >>> P = [[0, 0, 0], [0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 1]]
    >>> est = RobustConsensus(2, partition_weights=None, random_state=0).fit(P)
    >>> point_report(est, n=1)[0].point
    2
    """
    check_whole("n", n)
    consensus = fitted_consensus(estimator)
    confidence, index = estimator.confidence_, row_index(estimator)
    return [
        PointRow(
            i,
            int(consensus.labels_[i]),
            float(confidence[i]),
            i if index is None else index[i],
        )
        for i in np.argsort(confidence, kind="stable")[:n].tolist()
    ]


def summary(estimator: Any, names: Sequence[str] | None = None) -> Summary:
    """Describe a fitted consensus in a few lines of text.

    Parameters
    ----------
    estimator : fitted consensus function, or fitted clusterer that holds one
    names : sequence of V str, optional
        Names of the partitions; by default those of the columns of P.

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
    return Summary.of(*summary_lines(estimator, names))


def summary_lines(
    estimator: Any, names: Sequence[str] | None = None, *, find_dissent: bool = True
) -> tuple[str, dict[str, str]]:
    """Return the first line of a summary, and the texts of the others by their names.

    Without ``find_dissent`` the camps are described only if the method found them: to find them
    takes time O(n·V²).
    """
    consensus = fitted_consensus(estimator)
    names = partition_names(consensus, names)
    lines = _lines_on_points(estimator, consensus)
    for name, attribute in (("runs", "shortcuts_"), ("note", "notes_")):
        if texts := getattr(estimator, attribute, ()):
            lines[name] = "; ".join(texts)
    if hasattr(consensus, "lower_bound_"):
        lines["bound"] = bound_in_words(consensus.lower_bound_, consensus.gap_)
    if find_dissent or hasattr(consensus, "dissent_"):
        votes = consensus.partition_weights_
        lines["partitions"] = dissent_in_words(dissent_of(consensus), names, votes)
    if hasattr(consensus, "selected_"):
        lines["answer"] = "{method}: {reason}".format(**consensus.selected_)
    n_points = number_of(len(consensus.labels_), "point")
    n_tuples = number_of(consensus.n_tuples_, "distinct label tuple")
    return f"{n_points} in {number_of(len(names), 'partition')}, {n_tuples}", lines


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


def dissent_of(consensus: Any) -> Dissent:
    """Return the camps of the partitions; find them if the method did not."""
    if isinstance(dissent := getattr(consensus, "dissent_", None), Dissent):
        return dissent
    tuples = consensus._tuples
    counts = count_pairs(tuples, all_contingencies(tuples))
    camps = find_camps(counts, names=tuples.partition_names)
    return camps.reordered(np.argsort(tuples.partition_order))


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


def row_index(estimator: Any) -> Any:
    """Return the index of the fitted table, or None if it has none."""
    index = getattr(estimator, "index_", None)
    return getattr(fitted_consensus(estimator), "index_", None) if index is None else index


def runner_up_clusters(estimator: Any) -> NDArray[np.int64]:
    """Return for each point the cluster, besides its own, with the largest share of votes, (n,).

    The margin is the share of votes for its cluster minus the share for this one. It is
    −1 if there is one cluster, for points without a label, and for points of weight 0.

    >>> from coterie import EvidenceAccumulation
    >>> P = [[0, 0, 0], [0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 1], [2, 2, 2]]
    >>> runner_up_clusters(EvidenceAccumulation(3).fit(P)).tolist()[2]
    1
    """
    consensus = fitted_consensus(estimator)
    tuples, tables = consensus._tuples, consensus._tables
    runner_up = np.full(len(consensus.labels_), -1, dtype=np.int64)
    if tables.n_clusters == 1:
        return runner_up
    rows = consensus._fitted_rows
    runners_up = np.empty(tuples.n_tuples, dtype=np.int64)
    step = max(_MOST_SHARES // tables.n_clusters, 1)
    for start in range(0, tuples.n_tuples, step):
        part = slice(start, start + step)
        memberships = None if tuples.memberships is None else tuples.memberships[part]
        share = tables.vote_shares(tuples.codes[part], memberships)
        share[np.arange(len(share)), consensus._tuple_labels[part]] = -1.0
        runners_up[part] = np.argmax(share, axis=1)
    runner_up[slice(None) if rows is None else rows] = tuples.expand(runners_up)
    return runner_up


def _lines_on_points(estimator: Any, consensus: Any) -> dict[str, str]:
    """Return the lines about clusters, confidence and objective."""
    labelled = consensus.labels_ >= 0
    n = int(labelled.sum())
    share = consensus.objective_ / max(n * (n - 1), 1)
    lines = {"clusters": clusters_in_words(np.bincount(consensus.labels_[labelled]))}
    if n < len(labelled):
        lines["unlabelled"] = unlabelled_in_words(len(labelled) - n)
    if (choice := k_choice_of(estimator)) is not None:
        lines["chosen K"] = f"{choice.best_k}: {choice.reason}"
    if links := getattr(consensus, "constraints_", None):
        lines["constraints"] = (
            f"{links['must_link']} must-link and {links['cannot_link']} cannot-link pairs hold; "
            f"{number_of(len(links['moved']), 'point')} moved"
            + ("" if links["exact"] else "; another choice may have more votes")
        )
    lines["confidence"] = confidence_in_words(estimator.confidence_.mean())
    if uncertain := _uncertain_points(estimator, consensus):
        lines["uncertain"] = uncertain
    if indices := getattr(estimator, "feature_indices_", None):
        lines["features"] = indices_in_words(indices)
    lines["objective"] = objective_in_words(consensus.objective_, share)
    return lines


def _uncertain_points(estimator: Any, consensus: Any) -> str:
    """Name the points with the least confidence; empty if all points are equally certain."""
    labelled, confidence = np.flatnonzero(consensus.labels_ >= 0), estimator.confidence_
    highest = confidence[labelled].max(initial=0.0)
    least = labelled[np.argsort(confidence[labelled], kind="stable")[:_MOST_UNCERTAIN]]
    index = row_index(estimator)
    shown = [
        f"{_cut(i if index is None else index[i])} ({confidence[i]:.2f})"
        for i in least.tolist()
        if confidence[i] < highest - _ROUNDING
    ]
    return f"{'rows' if index is None else 'points'} {', '.join(shown)}" if shown else ""


def _cut(name: Any) -> str:
    text = " ".join(visible(str(name)).split())
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
