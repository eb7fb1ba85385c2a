"""RobustConsensus, the flagship: dissent, relaxation, search, choice and certificate."""

from __future__ import annotations

import logging
import warnings
from numbers import Integral, Real
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from coterie.consensus.base import ConsensusFunction, Labelling, check_n_clusters
from coterie.consensus.robust.candidates import (
    best_separated,
    linkage_answer,
    moved_answer,
    profile_answer,
)
from coterie.consensus.robust.votes import Votes, check_weighing
from coterie.counts.contingency import all_contingencies
from coterie.counts.growth import Growth, contingencies_to_keep
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

_MOST_ANSWERED_SOON = 3_000


class RobustConsensus(ConsensusFunction):
    """The partition that many partitions agree on, whatever a minority of them says.

    Given P (n, V), V partitions of n points, wanted are labels with at most K clusters of least

        J(G) = Σ_ij |M_ij − X_ij| = (1/V) Σ_v #{pairs on which partition v and G differ}

    where M (n, n) is the share of partitions that put i and j together and X_ij = 1 when G does.
    The two sides are equal: the ℓ1 distance to the average *is* the average distance. Partitions
    may be soft: then P is a list of V membership matrices (n, K_v), see the guide.

    J is NP-hard to minimise, and where partitions are complementary its minimiser is not the best
    answer. So two things are done. Partitions that agree with the others no better than chance
    lose their vote; if the rest falls into camps that agree only among themselves, the largest
    decides (``partition_weights``). Of the remaining votes four answers of different kinds are
    made, and the one whose clusters are best separated in the votes (mean silhouette under the
    distance 1 − M) is returned (``refine``): the robust relaxation M ≈ H D Hᵀ in ℓ1, its
    least-squares twin, average linkage on 1 − M, and k-means on the rows of M. ``selected_`` tells
    how each of the four did.

    ``relaxation="admm", refine=False, partition_weights=None`` is the method of the paper
    (RCC) to the letter, with the signs of its updates put right.

    Parameters
    ----------
    n_clusters : int or None, default=None
        K. The search may leave some of them empty, and then fewer come out. With None the objective
        chooses their number, in the search; the relaxation then has no part, unless
        ``refine=False``.
    relaxation : {"auto", "admm", "divided", "l2"}, default="auto"
        "admm": the paper's ℓ1 relaxation, on a dense (u, u) state over the u distinct label
        tuples; where that would not fit in memory, or u > 40,000 on the CPU, "divided" takes its
        place with a warning. "divided": the same in parts of 4,000 tuples, combined; linear in u.
        "l2": least squares, from contingency tables, no such matrix. "auto": "admm" up to 500
        tuples (all that fit, with ``device="cuda"``), "l2" above: the answers returned were no
        worse for it, and came much sooner.
    refine : {"auto", True, False}, default="auto"
        Which answer is returned. "auto": of relaxation, least squares, linkage and profiles the
        best separated one, where labels are missing also of the search. True: that of a discrete
        search on J, begun from both relaxations and from the partitions. False: the relaxation's.
    partition_weights : {"agreement", "learned"}, array of shape (V,) or None, default="agreement"
        "agreement": 1 for the largest camp of partitions that agree beyond chance, 0 for the
        rest. "learned": ∝ 1/√distance to the consensus. None: all equal, the paper's.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where the ADMM runs. "cuda": on a GPU, for more than 400 tuples; where there is none, or its
        memory is too small, the CPU takes its place with a warning. "auto": on a GPU where there is
        one and ``relaxation="admm"`` with more than 2,000 tuples is asked for.
    max_iter : int, default=300
    tol : float, default=1e-3
        Most steps and relative residual of the ADMM. Stopping short is told where the
        relaxation's answer is the one returned.
    random_state : int, RandomState or None, default=None
        Seeds k-means, samples above 3,000 distinct tuples (linkage) or 20,000 (profiles, k-means),
        and which part a tuple is in.

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
    dissent_ : :class:`~coterie.consensus.robust.camps.Dissent`
        Agreement of every pair of partitions, in the order given.
    selected_ : dict
        ``method`` and ``reason``: which candidate was returned, and why.
    threshold_ : float
        Share of votes from which two points should be together: 1/2 unless calibrated.
    embedding_ : (n, K)
        Rows of H√D; only of rows that count, where ``sample_weight`` has zeros.
    relaxation_ : {"cpu", "cuda", "parts", "l2"}
        Where the relaxation was computed: the ADMM on the CPU, on a GPU or in parts, or least
        squares in its place.
    n_tuples_, n_iter_ : int
    history_ : dict of lists
        Objective and residuals of each step of the ADMM; empty lists where it did not run.

    Notes
    -----
    **Established.** Objective and relaxation are the paper's, whose updates are printed with two
    signs against its own Lagrangian and diverge as printed; here they follow from it. Start,
    penalty schedule, stopping rule and the way to labels are not in the paper and are ours, as
    are dissent between partitions, the choice among answers and the bound. Linkage and profiles
    are those of :class:`~coterie.EvidenceAccumulation` and :class:`~coterie.KMeansConsensus`. The
    search minimises the objective of the median partition, which is textbook.

    **Limits.** The ADMM holds a dense (u, u) matrix over the distinct label tuples: by default it
    takes part up to 500 of them, asked for up to 40,000 or as memory allows, above that in parts.
    The answer returned need not have the lowest J of all; ``refine=True`` searches for that
    (locally), and ``gap_`` says how far below the bound allows J to be.
    A majority that is wrong together is believed. The relaxation alone (``refine=False``) falls
    behind least squares where the partitions have many more clusters than are wanted.

    **When to use.** By default. With ``refine=True`` where the ℓ1 objective itself is what counts,
    such as a median of rankings into groups; with ``partition_weights=None`` where every
    partition is to be believed; the relaxation alone to compare with the paper.

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

    _contingencies: Array | None
    _n_compared: int

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        relaxation: str = "auto",
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

    def _label_grown(self, growth: Growth) -> Labelling:
        return self._label_tuples(growth.tuples, growth)

    def _label_tuples(self, tuples: LabelTuples, growth: Growth | None = None) -> Labelling:
        self._check_parameters()
        self.relaxation_ = "l2"
        K = 0 if self.n_clusters is None else check_n_clusters(self.n_clusters, tuples)
        known = growth.contingencies(self._contingencies) if growth else None
        contingencies = all_contingencies(tuples) if known is None else known
        votes = Votes.counted(tuples, self.partition_weights, K or None, contingencies)
        before = self._answer_before(growth, votes, K) if growth else None
        if before is None:
            self._n_compared = tuples.n_partitions
            answers, relaxed, found = self._answers(votes, K)
        else:
            answers, relaxed, found = self._answers_after(before, votes, K)
        method, reason = _select(votes, answers, self.refine)

        self.selected_ = {"method": method, "reason": reason}
        self.lower_bound_ = votes.lower_bound()
        self._contingencies = contingencies_to_keep(tuples, contingencies)
        self._report(tuples, votes, relaxed)
        labels = answers[method]
        threshold = found.threshold if found and method == "search" else votes.majority(labels)
        return Labelling(labels[votes.group], votes.all_weights, threshold)

    def _answers(self, votes: Votes, K: int) -> Answers:
        """Answers of all kinds that the settings ask for, from the votes alone."""
        found = None if K else votes.search(None)
        # those set aside may have been all that told some points apart
        K = min(K, votes.tuples.n_tuples) if found is None else found.tables.n_clusters

        start = least_squares_factor(votes.tuples, votes.weights, K, votes.contingencies)
        rng = check_random_state(self.random_state)
        if found is not None and self.refine:
            relaxed, answers = least_squares_result(start), {"search": found.labels}
        else:
            relaxed = self._relax(votes, start, rng)
            answers = {"relaxation": self._round(votes, relaxed.factor, K, rng)}
            if self.relaxation_ == "parts" and _is(self.refine, "auto"):
                answers["relaxation, moved"] = moved_answer(votes, answers["relaxation"])
        if self.refine and found is None:
            if _is(self.refine, "auto"):
                answers |= self._other_answers(votes, start, relaxed, K, rng)
            elif relaxed.n_iter:
                answers["least squares"] = self._round(votes, start, K, rng)
            # of points with few labels in common, relaxations know too little
            if not _is(self.refine, "auto") or votes.tuples.has_missing:
                found = votes.search(K, answers)
                answers["search"] = found.labels
        return answers, relaxed, found

    def _answers_after(self, before: Labels, votes: Votes, K: int) -> Answers:
        """The answer before, and what the votes there are now make of it."""
        found = None if K else votes.search(None, {"before": before}, from_partitions=False)
        K = found.tables.n_clusters if found is not None else min(K, votes.tuples.n_tuples)
        factor = least_squares_factor(votes.tuples, votes.weights, K, votes.contingencies)
        relaxed = least_squares_result(factor)
        if found is not None:
            return {"search": found.labels}, relaxed, found
        answers = {"before": before}
        if _is(self.refine, "auto"):
            rng = check_random_state(self.random_state)
            answers["before, moved"] = moved_answer(votes, before)
            answers["least squares"] = self._round(votes, factor, K, rng)
        if not _is(self.refine, "auto") or votes.tuples.has_missing:
            found = votes.search(K, answers, from_partitions=False)
            answers["search"] = found.labels
        return answers, relaxed, found

    def _answer_before(self, growth: Growth, votes: Votes, K: int) -> Labels | None:
        """The answer there was, of the tuples there are now; None if all must be compared anew.

        That is so where it is soon done; where the relaxation's answer is wanted, or another number
        of clusters than there is; where other partitions decide than before; and once there are
        half as many partitions again as when all kinds of answers were last compared.
        """
        decided = self.partition_weights_ > 0
        decide = growth.tuples.in_given_order(votes.all_weights)[: len(decided)] > 0
        if _is(self.partition_weights, "agreement"):
            _tell_who_lost_the_vote(np.flatnonzero(decided & ~decide))
        few = votes.tuples.n_tuples <= _MOST_ANSWERED_SOON
        many_new = growth.tuples.n_partitions >= 1.5 * self._n_compared
        fewest = K if _is(self.refine, "auto") else 1
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
        if self.relaxation not in ("auto", "admm", "divided", "l2"):
            raise InvalidParameterError(
                f"relaxation={self.relaxation!r}: it may be 'auto', 'admm', 'divided' or 'l2'"
            )
        if not isinstance(self.refine, bool | np.bool_) and not _is(self.refine, "auto"):
            raise InvalidParameterError(f"refine={self.refine!r}: it may be 'auto', True or False")
        max_iter, tol = cast(Any, self.max_iter), cast(Any, self.tol)
        if not isinstance(max_iter, Integral) or int(max_iter) < 1:
            raise InvalidParameterError(f"max_iter={max_iter!r}: give a whole number from 1 up")
        if not isinstance(tol, Real) or not 0 <= float(tol) < np.inf:
            raise InvalidParameterError(f"tol={tol!r}: it must be a number from 0 up")
        check_weighing(self.partition_weights)

    def _relax(self, votes: Votes, factor: Array, rng: np.random.RandomState) -> RobustRelaxation:
        """The relaxation asked for, from the ℓ2 one, where it can be computed."""
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

    def _round(self, votes: Votes, factor: Array, K: int, rng: np.random.RandomState) -> Labels:
        """Labels of the factor's rows, by pivoted QR or k-means: the one with the lower J."""
        _log.info("rounding to %d clusters", K)
        rounded = [
            round_by_pivoted_qr(factor, votes.tuples.weights),
            round_by_kmeans(factor, votes.tuples.weights, K, rng),
        ]
        return min(rounded, key=votes.objective)

    def _other_answers(
        self,
        votes: Votes,
        start: Array,
        relaxed: RobustRelaxation,
        K: int,
        rng: np.random.RandomState,
    ) -> dict[str, Labels]:
        """Candidates beside the relaxation's answer."""
        answers = {"least squares": self._round(votes, start, K, rng)} if relaxed.n_iter else {}
        _log.info("linkage and profiles of %d tuples", votes.tuples.n_tuples)
        answers["linkage"] = linkage_answer(votes, K, rng)
        answers["profiles"] = profile_answer(votes, K, rng)
        return answers

    def _report(self, tuples: LabelTuples, votes: Votes, relaxed: RobustRelaxation) -> None:
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


def _is(value: Any, name: str) -> bool:
    """Whether a setting is that text; arrays and the like are not."""
    return isinstance(value, str) and value == name


def _tell_who_lost_the_vote(partitions: NDArray[np.int64]) -> None:
    """Warn that the answer no longer rests on partitions it rested on."""
    if len(partitions):
        shown = ", ".join(map(str, partitions[:10])) + (", …" if len(partitions) > 10 else "")
        warnings.warn(
            f"with the new partitions the largest camp is another: {len(partitions)} that decided "
            f"before no longer do ({shown}); see dissent_",
            DissentWarning,
            stacklevel=6,
        )


def _select(votes: Votes, answers: dict[str, Labels], refine: bool | str) -> tuple[str, str]:
    """Which answer to return, and why."""
    if not refine:
        return "relaxation", "refine=False: the relaxation's answer as it is"
    if list(answers) == ["search"]:
        return "search", "n_clusters is not given: the search chose it"
    if not _is(refine, "auto"):
        return "search", "refine=True: the search's answer as it is"
    method, separation = best_separated(votes, answers)
    each = ", ".join(f"{name} {value:.3f}" for name, value in separation.items())
    return method, f"its clusters are best separated in the votes (mean silhouette: {each})"
