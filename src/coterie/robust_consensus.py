"""RobustConsensus, the flagship: dissent, relaxation, search, choice and certificate."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from coterie.cluster_tables import ClusterTables
from coterie.coassociation_matrix import (
    check_partition_weights,
    pairwise_lower_bound,
    tuple_coassociation,
)
from coterie.consensus_contract import ConsensusFunction, Labelling, check_n_clusters
from coterie.contingency import agreement_lower_bound, all_contingencies, pair_counts
from coterie.devices import available_memory, choose_device, readable_bytes
from coterie.dissent import Dissent, find_camps
from coterie.errors import DissentWarning, InvalidParameterError, MemoryFallbackWarning
from coterie.label_tuples import LabelTuples
from coterie.median_search import (
    SearchResult,
    Start,
    learn_partition_weights,
    median_search,
    n_starts_worth_it,
    partition_starts,
)
from coterie.relaxation.least_squares import least_squares_factor
from coterie.relaxation.robust_admm import RobustRelaxation, required_bytes, robust_factor
from coterie.rounding import round_by_kmeans, round_by_pivoted_qr

__all__ = ["RobustConsensus"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

_log = logging.getLogger(__name__)

_MOST_DENSE_TUPLES = 20_000
_MOST_BOUNDED_PAIRWISE = 10_000


class RobustConsensus(ConsensusFunction):
    """The partition that many partitions agree on, whatever a minority of them says.

    Given P (n, V), V partitions of n points, find labels with at most K clusters that minimise

        J(G) = Σ_ij |M_ij − X_ij| = (1/V) Σ_v #{pairs on which partition v and G differ}

    where M (n, n) is the share of partitions that put i and j together and X_ij = 1 when G does.
    The two sides are equal: the ℓ1 distance to the average *is* the average distance.

    Four steps, each of which can be switched off: partitions that agree with the others no
    better than chance lose their vote (``partition_weights``); a continuous relaxation
    M ≈ H D Hᵀ is solved and rounded (``relaxation``); a discrete search improves J itself from many
    starts (``refine``); of these answers the one is returned that shares most information with
    each believed partition when that one's vote is left out (``refine="auto"``).

    ``relaxation="admm", refine=False, partition_weights=None`` is the method of the paper
    (RCC) to the letter, with the signs of its updates put right.

    Parameters
    ----------
    n_clusters : int or None, default=None
        K, the most clusters there may be. With None the objective chooses their number.
    relaxation : {"admm", "l2"}, default="admm"
        "admm": the paper's ℓ1 relaxation, on a dense (u, u) state over the u distinct label
        tuples; where that would not fit in memory, or u > 20,000, "l2" takes its place with a
        warning. "l2": least squares, from contingency tables, no such matrix.
    refine : {"auto", True, False}, default="auto"
        Whether the discrete search's answer is returned. "auto" compares it with the relaxation's
        and with that of least squares, by held-out information.
    partition_weights : {"agreement", "learned"}, array of shape (V,) or None, default="agreement"
        "agreement": 1 for the largest camp of partitions that agree beyond chance, 0 for the
        rest. "learned": ∝ 1/√distance to the consensus. None: all equal, the paper's.
    device : {"auto", "cpu"}, default="auto"
    max_iter : int, default=300
    tol : float, default=1e-3
        Most steps and relative residual of the ADMM.
    random_state : int, RandomState or None, default=None
        Seeds the k-means that rounds the relaxation.

    Attributes
    ----------
    labels_ : (n,) int
        0 for the largest cluster, 1 for the next …; equal sizes in an order that depends on the
        partitions alone. Permuting points or partitions, or renaming labels, changes nothing.
    n_clusters_ : int
    objective_, lower_bound_, gap_ : float
        J with the weights used, a bound no partition can beat, and (J − bound)/J.
    confidence_ : (n,) in [0, 1]
        Mean share of votes beside the members of the own cluster less that of the next best.
    partition_weights_ : (V,)
    partition_agreement_ : (V,)
        Adjusted Rand index of each partition with the consensus.
    partition_groups_ : (V,) int
        Camp of each partition; 0 is the largest.
    dissent_ : :class:`~coterie.dissent.Dissent`
        Agreement of every pair of partitions, in the order given.
    selected_ : dict
        ``method`` and ``reason``: which candidate was returned, and why.
    threshold_ : float
        Share of votes from which two points should be together: 1/2 unless calibrated.
    embedding_ : (n, K)
        Rows of H√D.
    n_tuples_, n_iter_ : int
    history_ : dict of lists
        Objective and residuals of each step of the ADMM; empty lists where it did not run.

    Examples
    --------
    >>> from coterie import RobustConsensus, planted_partitions
    >>> P, y = planted_partitions([60, 30, 10], n_partitions=10, n_bad=4, noise=0.1, random_state=0)
    >>> est = RobustConsensus(n_clusters=3, random_state=0).fit(P)
    >>> est.n_clusters_, est.partition_weights_.tolist()
    (3, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    >>> est.predict(P[:5]).tolist() == est.labels_[:5].tolist()
    True
    """

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        relaxation: str = "admm",
        refine: bool | str = "auto",
        partition_weights: Any = "agreement",
        device: str = "auto",
        max_iter: int = 300,
        tol: float = 1e-3,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.relaxation = relaxation
        self.refine = refine
        self.partition_weights = partition_weights
        self.device = device
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @property
    def embedding_(self) -> Array:
        """Rows of H√D of every point, (n, K)."""
        return self._factor[self._inverse]

    def _label_tuples(self, tuples: LabelTuples) -> Labelling:
        self._check_parameters()
        K = 0 if self.n_clusters is None else check_n_clusters(self.n_clusters, tuples)
        _log.info("comparing %d partitions over %d tuples", tuples.n_partitions, tuples.n_tuples)
        contingencies = all_contingencies(tuples)
        dissent = find_camps(pair_counts(contingencies, tuples.offsets))
        weights = self._weights(tuples, contingencies, dissent, K or None)
        problem, group = _believed(tuples, contingencies, weights)

        found = None if K else _search(problem, None)
        K = K if found is None else found.tables.n_clusters
        start = least_squares_factor(problem.tuples, problem.weights, K, problem.contingencies)
        relaxed = self._relax(problem, start)
        candidates = {"relaxation": self._round(problem, relaxed.factor, K)}
        if self.refine is not False:
            if relaxed.n_iter:
                candidates["least squares"] = self._round(problem, start, K)
            found = found or _search(problem, K, candidates)
            candidates["search"] = found.labels
        method, reason = _select(problem, candidates, self.refine, free=self.n_clusters is None)
        self.selected_ = {"method": method, "reason": reason}

        labels = candidates[method]
        self.lower_bound_ = _lower_bound(problem)
        self._report(tuples, dissent, relaxed, relaxed.factor[group])
        threshold = found.threshold if found and method == "search" else 0.5
        return Labelling(labels[group], weights, threshold)

    def _finish(self, tuples: LabelTuples, found: Labelling) -> None:
        super()._finish(tuples, found)
        self.gap_ = 0.0
        if self.objective_ > 0:
            self.gap_ = max(0.0, 1.0 - self.lower_bound_ / self.objective_)

    def _check_parameters(self) -> None:
        choose_device(self.device)
        if self.relaxation not in ("admm", "l2"):
            raise InvalidParameterError(f"relaxation={self.relaxation!r}: it may be 'admm' or 'l2'")
        if self.refine not in ("auto", True, False):
            raise InvalidParameterError(f"refine={self.refine!r}: it may be 'auto', True or False")
        if isinstance(self.partition_weights, str) and self.partition_weights not in (
            "agreement",
            "learned",
        ):
            raise InvalidParameterError(
                f"partition_weights={self.partition_weights!r}: it may be 'agreement', 'learned', "
                "None, or one number a partition"
            )

    def _weights(
        self, tuples: LabelTuples, contingencies: Array, dissent: Dissent, K: int | None
    ) -> Array:
        """Partition weights in the order of the tuples' columns."""
        if not isinstance(self.partition_weights, str):
            given = check_partition_weights(self.partition_weights, tuples.n_partitions)
            return given[tuples.partition_order]
        if self.partition_weights == "learned":
            equal = np.ones(tuples.n_partitions)
            starts = partition_starts(tuples, contingencies, equal, K, n_starts_worth_it(tuples))
            return learn_partition_weights(tuples, K, starts)[0]
        if dissent.tied and dissent.groups.max() > 0 and np.bincount(dissent.groups)[0] > 1:
            warnings.warn(dissent.in_words(), DissentWarning, stacklevel=4)
        return dissent.weights

    def _relax(self, problem: _Problem, factor: Array) -> RobustRelaxation:
        """Factor of the relaxation asked for, from the ℓ2 one, or that where it would not fit."""
        tuples = problem.tuples
        empty: dict[str, list[float]] = {
            name: [] for name in ("objective", "primal_residual", "dual_residual", "mu")
        }
        twin = RobustRelaxation(factor, np.nan, empty, 0, True)
        if self.relaxation == "l2" or not _state_fits(tuples.n_tuples):
            return twin
        _log.info("robust relaxation of %d tuples", tuples.n_tuples)
        M = tuple_coassociation(tuples, problem.weights)
        result = robust_factor(M, factor, max_iter=self.max_iter, tol=self.tol)
        if not result.converged:
            warnings.warn(
                f"the relaxation stopped after {result.n_iter} steps with residuals above "
                f"tol={self.tol}; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=5,
            )
        return result

    def _round(self, problem: _Problem, factor: Array, K: int) -> Labels:
        """Labels of the factor's rows, by pivoted QR or k-means: the one with the lower J."""
        _log.info("rounding to %d clusters", K)
        rng = check_random_state(self.random_state)
        rounded = [
            round_by_pivoted_qr(factor, problem.tuples.weights),
            round_by_kmeans(factor, problem.tuples.weights, K, rng),
        ]
        return min(rounded, key=problem.objective)

    def _report(
        self, tuples: LabelTuples, dissent: Dissent, relaxed: RobustRelaxation, factor: Array
    ) -> None:
        place = np.argsort(tuples.partition_order)
        self.dissent_ = dissent.reordered(place)
        self.partition_groups_ = self.dissent_.groups
        self.n_iter_ = relaxed.n_iter
        self.history_ = relaxed.history
        self._factor, self._inverse = factor, tuples.inverse


@dataclass(frozen=True)
class _Problem:
    """The partitions that have a vote, and what is known of them."""

    tuples: LabelTuples
    weights: Array
    contingencies: Array

    def objective(self, labels: Labels) -> float:
        return ClusterTables.of(self.tuples, labels, self.weights).objective()

    def information(self, labels: Labels) -> float:
        """Mean information each partition shares with the labels as the others see them."""
        tables = ClusterTables.of(self.tuples, labels, self.weights)
        shared = tables.held_out_information(self.tuples, labels)
        return float(shared @ self.weights / self.weights.sum())


def _believed(
    tuples: LabelTuples, contingencies: Array, weights: Array
) -> tuple[_Problem, NDArray[Any]]:
    """The problem without the partitions of weight 0, and the tuple each tuple becomes there."""
    used = weights > 0
    believed, group = tuples.restricted_to(used)
    if used.all():
        return _Problem(believed, weights, contingencies), group
    columns = np.flatnonzero(np.repeat(used, tuples.n_labels))
    return _Problem(believed, weights[used], contingencies[np.ix_(columns, columns)]), group


def _search(
    problem: _Problem, K: int | None, candidates: dict[str, Labels] | None = None
) -> SearchResult:
    """Search from the answers there are already and from the most promising partitions."""
    tuples, weights = problem.tuples, problem.weights
    starts = [Start(name, labels) for name, labels in (candidates or {}).items()]
    starts += partition_starts(tuples, problem.contingencies, weights, K, n_starts_worth_it(tuples))
    _log.info("searching from %d starts", len(starts))
    return median_search(tuples, weights, K, starts)


def _select(
    problem: _Problem, candidates: dict[str, Labels], refine: bool | str, free: bool
) -> tuple[str, str]:
    """Which candidate to return, and why."""
    if refine is False:
        return "relaxation", "refine=False: the relaxation's answer as it is"
    if refine is True:
        return "search", "refine=True: the search's answer as it is"
    if free:
        return "search", "n_clusters is not given: the search chose it"
    information = {name: problem.information(labels) for name, labels in candidates.items()}
    method = max(information, key=lambda name: (round(information[name], 9), name == "search"))
    shared = ", ".join(f"{name} {value:.4f}" for name, value in information.items())
    return method, f"shares most information with partitions it was not told of (nats: {shared})"


def _lower_bound(problem: _Problem) -> float:
    """The pairwise bound where u² is affordable, else the one from distances of partitions."""
    if problem.tuples.n_tuples <= _MOST_BOUNDED_PAIRWISE:
        return pairwise_lower_bound(problem.tuples, problem.weights)
    counts = pair_counts(problem.contingencies, problem.tuples.offsets)
    return agreement_lower_bound(counts, problem.weights)


def _state_fits(n_tuples: int) -> bool:
    """Whether the ADMM's state can be had; if not, say so and what is done instead."""
    needed, free = required_bytes(n_tuples), available_memory()
    if n_tuples <= _MOST_DENSE_TUPLES and needed <= free // 2:
        return True
    warnings.warn(
        f"the ADMM would need {readable_bytes(needed)} for {n_tuples:,} distinct label tuples "
        f"({readable_bytes(free)} are free; at most {_MOST_DENSE_TUPLES:,} tuples and half of "
        "the free memory are used): the least-squares relaxation takes its place. "
        "Set relaxation='l2' to choose it yourself",
        MemoryFallbackWarning,
        stacklevel=6,
    )
    return False
