"""RobustConsensus, the default method."""

from __future__ import annotations

import logging
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from coterie.consensus.base import ConsensusFunction, Labelling
from coterie.consensus.parameters import check_choice, check_n_clusters
from coterie.consensus.robust.answers import Answer, Sample, choose_answer
from coterie.consensus.robust.similar_sizes import answer_by_sizes
from coterie.consensus.robust.votes import Votes
from coterie.counts.contingency import all_contingencies
from coterie.ensembles.input_checks import check_number, check_whole
from coterie.errors import DissentWarning, InvalidParameterError, LabelWarning
from coterie.labels.tuples import LabelTuples
from coterie.relaxation.admm import RobustRelaxation, least_squares_result
from coterie.relaxation.divided import dispatch_relaxation
from coterie.relaxation.least_squares import least_squares_factor
from coterie.relaxation.rounding import round_by_kmeans, round_by_pivoted_qr
from coterie.runtime.devices import check_device
from coterie.runtime.messages import warn_user
from coterie.search.median_search import SearchResult

__all__ = ["RobustConsensus"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

_log = logging.getLogger(__name__)


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
    2. Answers of different kinds are computed from its votes: the robust relaxation M ≈ H D Hᵀ in
       ℓ1, least squares, k-means on the rows of M (profiles), locally weighted linkage and cut,
       linkage of propagated similarities, and meta-clusters. The answer that the others agree with
       most is returned (``refine``). If the partitions have many more than K clusters, it is the
       answer of locally weighted linkage. If some partitions have no vote, the answers from the
       votes of all partitions are computed too, and the better separated answer is returned.

    ``relaxation="admm", refine=False, partition_weights=None`` is the method of the paper (RCC),
    with the signs of its updates corrected.

    Parameters
    ----------
    n_clusters : int, None or "free", default=None
        Number of clusters, K. None: the number that :func:`~coterie.choose_k` recommends. "free":
        the number with the least J, found by the search; under noise this is often far too many,
        because stray points become clusters.
    relaxation : {"auto", "admm", "divided", "l2"}, default="auto"
        "admm": the ℓ1 relaxation of the paper, with a dense (u, u) matrix over the u distinct
        label tuples. If it does not fit in memory, or u > 40,000 on the CPU, a warning is given
        and "divided" is used. "divided": the same in parts of 4,000 tuples, linear in u. "l2":
        least squares from contingency tables. "auto": "admm" up to 500 tuples (with
        ``device="cuda"``, as many as fit), else "l2", which was as accurate and much faster.
    refine : {"auto", "sizes", True, False}, default="auto"
        The answer to return. "auto": the one that the other answers agree with most. True: a
        discrete search for the least J, started from both relaxations and from the partitions.
        False: the relaxation. "sizes": the search if its clusters are of similar size and halves of
        the partitions find them too, else locally weighted linkage, which finds clusters of very
        different size; it was best for several views.
    threshold : float or "calibrated", default=0.5
        Share of votes from which the search puts two points together. 0.5 minimises J.
        "calibrated" lowers it if the points of a cluster are together in less than 55% of the
        votes; the result is more accurate under noise, but does not minimise J.
    partition_weights : {"agreement", "learned"}, array of shape (V,) or None, default="agreement"
        "agreement": 1 for the largest camp of partitions, 0 for the others. "learned":
        proportional to 1/√(distance to the consensus). None: all equal, as in the paper.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where the ADMM runs. "cuda": on a GPU; if there is no GPU or too little memory, on the CPU
        with a warning. "auto": on a GPU, if there is one, for more than
        2,000 tuples with ``relaxation="admm"``.
    max_iter : int, default=300
    tol : float, default=1e-3
        Largest number of steps and relative residual of the ADMM. If it does not converge and its
        answer is returned, a warning is given.
    random_state : int, RandomState or None, default=None
        For k-means, ties of meta-clusters, the parts of "divided", and the samples of large inputs
        (above 3,000 distinct tuples; for the k-means of least squares above 20,000).
    verbose : bool, default=False
        Show the stages of ``fit`` on the standard error stream.

    Attributes
    ----------
    labels_ : (n,) int
        Cluster 0 is the largest. The order of points and partitions and the names of labels do not
        change the clusters.
    n_clusters_ : int
    objective_, lower_bound_, gap_ : float
        J of the result, a lower bound on J of any partition, and (J − bound)/J.
    confidence_ : (n,) in [0, 1]
        Estimated probability that the label is right: its entry of ``predict_proba``.
    margin_ : (n,) in [0, 1]
        Mean share of votes that put the point together with the members of its cluster, minus the
        same for the next best cluster. It is 1 only if every vote puts the point with all members
        of its cluster and with no other points.
    partition_weights_ : (V,)
    partition_agreement_, partition_coverage_ : (V,)
        Adjusted Rand index of each partition with the consensus, over the points that it labels,
        and the share of the points that it labels.
    partition_groups_ : (V,) int
        Camp of each partition; 0 is the largest.
    dissent_ : :class:`~coterie.consensus.robust.camps.Dissent`
        Agreement of every pair of partitions, in the given order.
    k_choice_ : :class:`~coterie.consensus.robust.k_choice.KChoice`
        The comparison of numbers of clusters, if ``n_clusters`` is None.
    selected_ : dict
        ``method``: the answer that was returned; ``votes``: whose votes it is from; ``reason``: why
        it was chosen; ``answers``: for each answer its number of ``clusters``, whether it
        ``competes``, and its mean ``agreement`` with the others.
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
    the camps, the vote of the methods and the bound. Profiles, linkage, cut, propagation and
    meta-clusters are those of :class:`~coterie.KMeansConsensus`,
    :class:`~coterie.LocallyWeightedConsensus`, :class:`~coterie.PropagatedConsensus` and
    :class:`~coterie.MCLA`; the search for the median partition is textbook.

    **Limits.** The ADMM needs a dense (u, u) matrix, see ``relaxation``. Above 3,000 distinct
    tuples the other answers come from a sample, and the rest joins by votes; above 2,000 base
    clusters profiles, propagation and meta-clusters are left out. The answer of "auto" may not have
    the least J; ``refine=True`` finds a local minimum, and ``gap_`` bounds the possible
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

    n_clusters: int | str | None = None
    _: KW_ONLY
    relaxation: str = "auto"
    refine: bool | str = "auto"
    threshold: float | str = 0.5
    partition_weights: Any = "agreement"
    device: str = "auto"
    max_iter: int = 300
    tol: float = 1e-3
    random_state: Any = None

    @property
    def embedding_(self) -> Array:
        """Rows of H√D of every point, (n, K)."""
        return self._factor[self._inverse]

    def _label_after_growth(self, tuples: LabelTuples) -> Labelling:
        decided, names = self.partition_weights_ > 0, self._vocabulary.names
        labelling = self._label_tuples(tuples)
        if isinstance(self.partition_weights, str) and self.partition_weights == "agreement":
            decide = tuples.in_given_order(labelling.partition_weights)[: len(decided)] > 0
            _warn_of_lost_votes([names[v] for v in np.flatnonzero(decided & ~decide)])
        return labelling

    def _label_tuples(self, tuples: LabelTuples) -> Labelling:
        self._check_parameters()
        named = self.n_clusters is None or isinstance(self.n_clusters, str)
        K = None if named else check_n_clusters(self.n_clusters, tuples)
        contingencies = all_contingencies(tuples)
        votes = Votes.from_tuples(tuples, self.partition_weights, K, contingencies)
        search = None
        if self.n_clusters == "free":
            search = votes.search(None, threshold=self._search_threshold)
            K = search.tables.n_clusters
        elif K is None:
            K = self._choose_n_clusters(votes)
        if self.refine == "auto" and not search:
            votes, answer, relaxed = self._vote_of_methods(tuples, votes, K, contingencies)
        elif self.refine == "sizes" and not search:
            rng = check_random_state(self.random_state)
            given, relaxed = self._relaxed_answers(votes, K, rng)
            answer, search = answer_by_sizes(votes, K, given, rng)
        else:
            answer, relaxed, search = self._single_answer(votes, K, search)

        self.lower_bound_ = votes.lower_bound()
        self._report(tuples, votes, answer, relaxed)
        threshold = search.threshold if search else votes.majority(answer.labels)
        return Labelling(answer.labels[votes.group], votes.all_weights, threshold)

    def _vote_of_methods(
        self, tuples: LabelTuples, votes: Votes, K: int, contingencies: Array
    ) -> tuple[Votes, Answer, RobustRelaxation]:
        """Let the methods vote, on the votes of the largest camp and on all votes if they differ.

        Of the two answers, the one with more clusters is returned, else the better separated one.
        """
        answer, relaxed = self._voted_answer(votes, K)
        by_rule = isinstance(self.partition_weights, str) and self.partition_weights == "agreement"
        if not by_rule or votes.all_weights.all():
            return votes, answer, relaxed
        every = Votes.from_tuples(tuples, None, K, contingencies)
        other, other_relaxed = self._voted_answer(every, K)
        ranks = [(_n_clusters(a), round(a.separation, 9)) for a in (answer, other)]
        compared = "{:.2f} against {:.2f}, mean silhouette plus that of the worst cluster"
        if ranks[1] <= ranks[0]:
            margins = compared.format(answer.separation, other.separation)
            reason = (
                f"{answer.reason}; it is better separated than the answer from all votes "
                f"({margins})"
            )
            return votes, replace(answer, reason=reason), relaxed
        margins = compared.format(other.separation, answer.separation)
        reason = (
            f"{other.reason}; with the votes of all partitions the clusters are better separated "
            f"than with those of the largest camp ({margins})"
        )
        return every, replace(other, reason=reason), other_relaxed

    def _voted_answer(self, votes: Votes, K: int) -> tuple[Answer, RobustRelaxation]:
        """Compute answers of different kinds; return the one that the others agree with most."""
        rng = check_random_state(self.random_state)
        given, relaxed = self._relaxed_answers(votes, K, rng)
        _log.info("other answers for %d tuples", votes.tuples.n_tuples)
        return choose_answer(Sample.draw(votes, rng), K, given, rng), relaxed

    def _relaxed_answers(
        self, votes: Votes, K: int, rng: np.random.RandomState
    ) -> tuple[dict[str, Labels], RobustRelaxation]:
        """Return the answers of least squares and of the relaxation, if that is another one."""
        # dropping the partitions of weight 0 can merge tuples, leaving fewer than K
        K = min(K, votes.tuples.n_tuples)
        start = least_squares_factor(votes.tuples, votes.weights, K, votes.contingencies)
        relaxed = self._relax(votes, start, rng)
        answers = {"least squares": round_by_kmeans(start, votes.tuples.weights, K, rng)}
        if relaxed.n_iter:
            answers["relaxation"] = _round(votes, relaxed.factor, K, rng)
        return answers, relaxed

    def _single_answer(
        self, votes: Votes, K: int, search: SearchResult | None
    ) -> tuple[Answer, RobustRelaxation, SearchResult | None]:
        """Return the answer of the search or, with ``refine=False``, of the relaxation."""
        rng = check_random_state(self.random_state)
        if self.refine and search:
            start = least_squares_factor(votes.tuples, votes.weights, K, votes.contingencies)
            reason = "the search also chose the number of clusters"
            return Answer(search.labels, "search", reason), least_squares_result(start), search
        given, relaxed = self._relaxed_answers(votes, K, rng)
        if not self.refine:
            labels = given.get("relaxation")
            if labels is None:
                labels = _round(votes, relaxed.factor, min(K, votes.tuples.n_tuples), rng)
            reason = "only the relaxation was asked for"
            return Answer(labels, "relaxation", reason), relaxed, None
        search = votes.search(K, given, self._search_threshold)
        return Answer(search.labels, "search", "only the search was asked for"), relaxed, search

    @property
    def _search_threshold(self) -> float | None:
        return None if self.threshold == "calibrated" else float(self.threshold)

    def _finish(self, tuples: LabelTuples, labelling: Labelling) -> None:
        super()._finish(tuples, labelling)
        # sums of very unequal row weights are rounded
        self.lower_bound_ = min(self.lower_bound_, self.objective_)
        self.gap_ = 1.0 - self.lower_bound_ / self.objective_ if self.objective_ > 0 else 0.0

    def _check_parameters(self) -> None:
        check_device(self.device)
        check_choice("relaxation", self.relaxation, ("auto", "admm", "divided", "l2"))
        named = isinstance(self.refine, str) and self.refine in ("auto", "sizes")
        if not named and not isinstance(self.refine, bool | np.bool_):
            raise InvalidParameterError(
                f"refine={self.refine!r}: give 'auto', 'sizes', True or False"
            )
        if isinstance(self.n_clusters, str) and self.n_clusters != "free":
            raise InvalidParameterError(
                f"n_clusters={self.n_clusters!r}: give a whole number, None or 'free'"
            )
        if self.threshold != "calibrated":
            check_number("threshold", self.threshold, above=0, most=1)
        check_whole("max_iter", self.max_iter)
        check_number("tol", self.tol, above=0, or_equal=True)

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

    def _report(
        self, tuples: LabelTuples, votes: Votes, answer: Answer, relaxed: RobustRelaxation
    ) -> None:
        """Set the attributes of camps and relaxation; warn if the relaxation did not converge."""
        if answer.method == "relaxation" and not relaxed.converged:
            warn_user(
                f"the relaxation, whose answer is returned, stopped after {relaxed.n_iter} steps "
                f"with residuals above tol={self.tol}; raise max_iter or tol",
                ConvergenceWarning,
            )
        self.selected_ = {
            "method": answer.method,
            "votes": "all partitions" if votes.all_weights.all() else "the largest camp",
            "reason": answer.reason,
            "answers": answer.others,
        }
        self.dissent_ = votes.dissent.reordered(np.argsort(tuples.partition_order))
        if self.dissent_.all_same:
            warn_user(
                f"all {tuples.n_partitions} partitions are the same, up to the names of the "
                "labels, and the consensus is this partition; check how they were made",
                LabelWarning,
            )
        self.partition_groups_ = self.dissent_.groups
        self.n_iter_ = relaxed.n_iter
        self.history_ = relaxed.history
        self._factor, self._inverse = relaxed.factor[votes.group], tuples.inverse


def _n_clusters(answer: Answer) -> int:
    return len(np.unique(answer.labels))


def _round(votes: Votes, factor: Array, K: int, rng: np.random.RandomState) -> Labels:
    """Round the rows of a factor by pivoted QR and by k-means; return the labels of lower J."""
    _log.info("rounding to %d clusters", K)
    rounded = [
        round_by_pivoted_qr(factor, votes.tuples.weights),
        round_by_kmeans(factor, votes.tuples.weights, K, rng),
    ]
    return min(rounded, key=votes.objective)


def _warn_of_lost_votes(partitions: list[str]) -> None:
    """Warn about partitions that voted before and no longer do."""
    if partitions:
        shown = ", ".join(partitions[:10]) + (", …" if len(partitions) > 10 else "")
        warn_user(
            f"the new partitions changed the largest camp: {len(partitions)} partitions that "
            f"decided before no longer do ({shown})",
            DissentWarning,
        )
