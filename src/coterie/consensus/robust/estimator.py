"""RobustConsensus, the default method."""

from __future__ import annotations

import logging
import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from coterie.consensus.base import ConsensusFunction, Labelling
from coterie.consensus.parameters import check_choice, check_n_clusters
from coterie.consensus.robust.candidates import (
    best_separated,
    linkage_answer,
    move_answer,
    profile_answer,
)
from coterie.consensus.robust.votes import Votes, check_weighting
from coterie.counts.contingency import all_contingencies
from coterie.counts.growth import Growth, contingencies_to_keep
from coterie.ensembles.input_checks import check_number, check_whole
from coterie.errors import DissentWarning, InvalidParameterError
from coterie.labels.tuples import LabelTuples
from coterie.relaxation.dispatch import dispatch_relaxation, least_squares_result
from coterie.relaxation.iteration import RobustRelaxation
from coterie.relaxation.least_squares import least_squares_factor
from coterie.relaxation.rounding import round_by_kmeans, round_by_pivoted_qr
from coterie.runtime.devices import check_device
from coterie.search.median_search import SearchResult

__all__ = ["RobustConsensus"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Answers = tuple[dict[str, Labels], RobustRelaxation, SearchResult | None]

_log = logging.getLogger(__name__)

_MOST_COMPARED_QUICKLY = 3_000  # up to so many tuples partial_fit compares all answers again


@dataclass(eq=False, repr=False)
class RobustConsensus(ConsensusFunction):
    """Robust consensus: the partition that most partitions agree on, despite a wrong minority.

    P (n, V) has V partitions of n points. The consensus G of at most K clusters should minimise

        J(G) = Σ_ij |M_ij − X_ij| = (1/V) Σ_v #{pairs on which partition v and G differ}

    where M_ij is the share of partitions that put points i and j together, and X_ij = 1 if G does,
    else 0. For soft partitions P is a list of V membership matrices (n, K_v).

    Minimising J is NP-hard, and the minimum is not always the best answer. Two steps replace it:

    1. Partitions are grouped into camps that agree beyond chance. Only the largest camp votes
       (``partition_weights``).
    2. Four answers are computed from its votes: the robust relaxation M ≈ H D Hᵀ in ℓ1, least
       squares, average linkage on 1 − M, and k-means on the rows of M (profiles). The answer with
       the best separated clusters is returned: that of the largest mean silhouette under the
       distance 1 − M (``refine``).

    ``relaxation="admm", refine=False, partition_weights=None`` is the method of the paper (RCC),
    with the signs of its updates corrected.

    Parameters
    ----------
    n_clusters : int or None, default=None
        K. The result may have fewer clusters. None: the search chooses the number with the least
        J; then the relaxation runs only with ``refine=False``.
    relaxation : {"auto", "admm", "divided", "l2"}, default="auto"
        "admm": the ℓ1 relaxation of the paper, with a dense (u, u) matrix over the u distinct
        label tuples. If it does not fit in memory, or u > 40,000 on the CPU, a warning is given
        and "divided" is used. "divided": the same in parts of 4,000 tuples, linear in u. "l2":
        least squares from contingency tables. "auto": "admm" up to 500 tuples (with
        ``device="cuda"``, as many as fit), else "l2", which was as accurate and much faster.
    refine : {"auto", True, False}, default="auto"
        The answer to return. True: a discrete search for the least J, started from both
        relaxations and from the partitions. False: the relaxation. "auto": the best separated of
        relaxation, least squares, linkage and profiles; if labels are missing, also of the search.
    partition_weights : {"agreement", "learned"}, array of shape (V,) or None, default="agreement"
        "agreement": 1 for the largest camp of partitions, 0 for the others. "learned":
        proportional to 1/√(distance to the consensus). None: all equal, as in the paper.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where the ADMM runs. "cuda": on a GPU for more than 400 tuples; if there is no GPU or too
        little memory, on the CPU with a warning. "auto": on a GPU, if there is one, for more than
        2,000 tuples with ``relaxation="admm"``.
    max_iter : int, default=300
    tol : float, default=1e-3
        Largest number of steps and relative residual of the ADMM. If it does not converge and its
        answer is returned, a warning is given.
    random_state : int, RandomState or None, default=None
        For k-means, the parts of "divided", and the samples of large inputs (above 3,000 distinct
        tuples for linkage, 20,000 for profiles and k-means).

    Attributes
    ----------
    labels_ : (n,) int
        Cluster 0 is the largest. The order of points and partitions and the names of labels do not
        change the clusters.
    n_clusters_ : int
    objective_, lower_bound_, gap_ : float
        J of the result, a lower bound on J of any partition, and (J − bound)/J.
    confidence_ : (n,) in [0, 1]
        Mean share of votes that put the point together with members of its cluster, minus the same
        for the second best cluster.
    partition_weights_ : (V,)
    partition_agreement_ : (V,)
        Adjusted Rand index of each partition with the consensus.
    partition_groups_ : (V,) int
        Camp of each partition; 0 is the largest.
    dissent_ : :class:`~coterie.consensus.robust.camps.Dissent`
        Agreement of every pair of partitions, in the given order.
    selected_ : dict
        ``method``: the answer that was returned; ``reason``: why, with all silhouettes.
    threshold_ : float
        Share of votes above which two points belong together: 1/2, or less for noisy votes.
    embedding_ : (n, K)
        Rows of H√D, only for points of positive ``sample_weight``.
    relaxation_ : {"cpu", "cuda", "parts", "l2"}
        How the relaxation was computed: ADMM on the CPU, on a GPU, in parts, or least squares.
    n_tuples_, n_iter_ : int
    history_ : dict of lists
        Objective and residuals of each ADMM step; empty lists if it did not run.

    Notes
    -----
    **Established.** Objective and relaxation are those of the paper. Two signs in its printed
    updates contradict its Lagrangian, and the updates diverge; ours are derived from the
    Lagrangian. Our choices are the start, the penalty schedule, the stopping rule, the rounding,
    the camps, the selection and the bound. Linkage and profiles are those of
    :class:`~coterie.EvidenceAccumulation` and :class:`~coterie.KMeansConsensus`; the search for the
    median partition is textbook.

    **Limits.** The ADMM needs a dense (u, u) matrix, see ``relaxation``. The answer of "auto" may
    not have the least J; ``refine=True`` finds a local minimum, and ``gap_`` bounds the possible
    improvement. If most partitions share an error, the result has it too. The relaxation alone
    (``refine=False``) is worse than least squares if the partitions have many more than K clusters.

    **When to use.** By default. Use ``refine=True`` if J itself matters,
    ``partition_weights=None`` if every partition is reliable, and the relaxation alone to compare
    with the paper.

    References
    ----------
    D. Kong, M. Lu, K. Shmakov and J. Yang. Robust consensus clustering and its applications for
    advertising forecasting. arXiv:2301.00717, 2023.

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

    n_clusters: int | None = None
    _: KW_ONLY
    relaxation: str = "auto"
    refine: bool | str = "auto"
    partition_weights: Any = "agreement"
    device: str = "auto"
    max_iter: int = 300
    tol: float = 1e-3
    random_state: Any = None

    @property
    def embedding_(self) -> Array:
        """Rows of H√D of every point, (n, K)."""
        return self._factor[self._inverse]

    def _label_after_growth(self, growth: Growth) -> Labelling:
        return self._label_tuples(growth.tuples, growth)

    def _label_tuples(self, tuples: LabelTuples, growth: Growth | None = None) -> Labelling:
        self._check_parameters()
        self.relaxation_ = "l2"
        K = 0 if self.n_clusters is None else check_n_clusters(self.n_clusters, tuples)
        if growth:
            contingencies = growth.contingencies(self._contingencies)
        else:
            contingencies = all_contingencies(tuples)
        votes = Votes.from_tuples(tuples, self.partition_weights, K or None, contingencies)
        earlier = self._earlier_answer(growth, votes, K) if growth else None
        if earlier is None:
            self._n_partitions_compared = tuples.n_partitions
            answers, relaxed, found = self._all_answers(votes, K)
        else:
            answers, relaxed, found = self._continued_answers(earlier, votes, K)
        method, reason = _select(votes, answers, self.refine)

        self.selected_ = {"method": method, "reason": reason}
        self.lower_bound_ = votes.lower_bound()
        self._contingencies: Array | None = contingencies_to_keep(tuples, contingencies)
        self._report(tuples, votes, relaxed)
        labels = answers[method]
        threshold = found.threshold if found and method == "search" else votes.majority(labels)
        return Labelling(labels[votes.group], votes.all_weights, threshold)

    def _all_answers(self, votes: Votes, K: int) -> Answers:
        """Compute all answers that the settings need; with K = 0 the search chooses K."""
        auto = self.refine == "auto"
        found = None if K else votes.search(None)
        # dropping the partitions of weight 0 can merge tuples, leaving fewer than K
        K = found.tables.n_clusters if found else min(K, votes.tuples.n_tuples)
        start = least_squares_factor(votes.tuples, votes.weights, K, votes.contingencies)
        if found and self.refine:
            return {"search": found.labels}, least_squares_result(start), found

        rng = check_random_state(self.random_state)
        relaxed = self._relax(votes, start, rng)
        answers = {"relaxation": _round(votes, relaxed.factor, K, rng)}
        if self.relaxation_ == "parts" and auto:
            # parts are solved separately, so votes across parts may move some tuples
            answers["relaxation, moved"] = move_answer(votes, answers["relaxation"])
        if not self.refine:
            return answers, relaxed, found
        if relaxed.n_iter:
            answers["least squares"] = _round(votes, start, K, rng)
        if auto:
            _log.info("linkage and profiles of %d tuples", votes.tuples.n_tuples)
            answers["linkage"] = linkage_answer(votes, K, rng)
            answers["profiles"] = profile_answer(votes, K, rng)
        return self._with_search(answers, relaxed, votes, K, from_partitions=True)

    def _continued_answers(self, earlier: Labels, votes: Votes, K: int) -> Answers:
        """Improve the answer of the earlier fit by the votes of all partitions."""
        found = None if K else votes.search(None, {"before": earlier}, from_partitions=False)
        K = found.tables.n_clusters if found else min(K, votes.tuples.n_tuples)
        factor = least_squares_factor(votes.tuples, votes.weights, K, votes.contingencies)
        relaxed = least_squares_result(factor)
        if found:
            return {"search": found.labels}, relaxed, found
        answers = {"before": earlier}
        if self.refine == "auto":
            rng = check_random_state(self.random_state)
            answers["before, moved"] = move_answer(votes, earlier)
            answers["least squares"] = _round(votes, factor, K, rng)
        return self._with_search(answers, relaxed, votes, K, from_partitions=False)

    def _with_search(
        self,
        answers: dict[str, Labels],
        relaxed: RobustRelaxation,
        votes: Votes,
        K: int,
        from_partitions: bool,
    ) -> Answers:
        """Add the answer of the search, which "auto" needs only if labels are missing."""
        # relaxations are poor if points have few labels in common
        if self.refine == "auto" and not votes.tuples.has_missing:
            return answers, relaxed, None
        found = votes.search(K, answers, from_partitions)
        return {**answers, "search": found.labels}, relaxed, found

    def _earlier_answer(self, growth: Growth, votes: Votes, K: int) -> Labels | None:
        """Return the earlier answer as labels of the new tuples, or None to compute all answers.

        All answers are computed if there are few tuples, if ``refine`` is False, if the number of
        clusters has changed, if other partitions vote than before, or if the number of partitions
        has grown by half since all answers were last computed.
        """
        decided = self.partition_weights_ > 0
        decide = growth.tuples.in_given_order(votes.all_weights)[: len(decided)] > 0
        if isinstance(self.partition_weights, str) and self.partition_weights == "agreement":
            _warn_of_lost_votes(np.flatnonzero(decided & ~decide))
        few = votes.tuples.n_tuples <= _MOST_COMPARED_QUICKLY
        many_new = growth.tuples.n_partitions >= 1.5 * self._n_partitions_compared
        fewest = K if self.refine == "auto" else 1
        other = (decided != decide).any() or (K and not fewest <= self.n_clusters_ <= K)
        if not self.refine or few or many_new or other:
            return None
        labels = np.empty(votes.tuples.n_tuples, dtype=np.int64)
        labels[votes.group] = self._tuple_labels[growth.origin]
        return labels

    def _finish(self, tuples: LabelTuples, found: Labelling) -> None:
        super()._finish(tuples, found)
        self.gap_ = 0.0
        if self.objective_ > 0:
            self.gap_ = max(0.0, 1.0 - self.lower_bound_ / self.objective_)

    def _check_parameters(self) -> None:
        check_device(self.device)
        check_choice("relaxation", self.relaxation, ("auto", "admm", "divided", "l2"))
        auto = isinstance(self.refine, str) and self.refine == "auto"
        if not auto and not isinstance(self.refine, bool | np.bool_):
            raise InvalidParameterError(f"refine={self.refine!r}: give 'auto', True or False")
        check_whole("max_iter", self.max_iter)
        check_number("tol", self.tol, above=0, or_equal=True)
        check_weighting(self.partition_weights)

    def _relax(self, votes: Votes, factor: Array, rng: np.random.RandomState) -> RobustRelaxation:
        """Compute the relaxation, starting from the ℓ2 factor."""
        relaxed, self.relaxation_ = dispatch_relaxation(
            votes.tuples,
            votes.weights,
            factor,
            relaxation=self.relaxation,
            device=self.device,
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=rng,
        )
        return relaxed

    def _report(self, tuples: LabelTuples, votes: Votes, relaxed: RobustRelaxation) -> None:
        """Set the attributes of camps and relaxation; warn if the relaxation did not converge."""
        if self.selected_["method"] == "relaxation" and not relaxed.converged:
            warnings.warn(
                f"the relaxation, whose answer is returned, stopped after {relaxed.n_iter} steps "
                f"with residuals above tol={self.tol}; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.dissent_ = votes.dissent.reordered(np.argsort(tuples.partition_order))
        self.partition_groups_ = self.dissent_.groups
        self.n_iter_ = relaxed.n_iter
        self.history_ = relaxed.history
        self._factor, self._inverse = relaxed.factor[votes.group], tuples.inverse


def _round(votes: Votes, factor: Array, K: int, rng: np.random.RandomState) -> Labels:
    """Round the rows of a factor by pivoted QR and by k-means; return the labels of lower J."""
    _log.info("rounding to %d clusters", K)
    rounded = [
        round_by_pivoted_qr(factor, votes.tuples.weights),
        round_by_kmeans(factor, votes.tuples.weights, K, rng),
    ]
    return min(rounded, key=votes.objective)


def _warn_of_lost_votes(partitions: NDArray[np.int64]) -> None:
    """Warn about partitions that voted before and no longer do."""
    if len(partitions):
        shown = ", ".join(map(str, partitions[:10])) + (", …" if len(partitions) > 10 else "")
        warnings.warn(
            f"the new partitions changed the largest camp: {len(partitions)} partitions that "
            f"decided before no longer do ({shown}); see dissent_",
            DissentWarning,
            stacklevel=6,
        )


def _select(votes: Votes, answers: dict[str, Labels], refine: bool | str) -> tuple[str, str]:
    """Return the name of the answer to return, and the reason."""
    if not refine:
        return "relaxation", "refine=False selects the relaxation"
    if list(answers) == ["search"]:
        return "search", "n_clusters is not given: the search chose it"
    if refine != "auto":
        return "search", "refine=True selects the search"
    method, separation = best_separated(votes, answers)
    each = ", ".join(f"{name} {value:.3f}" for name, value in separation.items())
    return method, f"its clusters are best separated in the votes (mean silhouette: {each})"
