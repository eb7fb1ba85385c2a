"""RobustConsensus, the default method: from the distinct label tuples to the answer.

No single method is best on all data: relaxations combine weak agreement of many partitions, linkage
finds clusters of very different sizes, profiles compare points by their companions. So consensus is
applied a second time: the answer that the others agree with most is returned. No index of quality
is needed.

In the order of a fit, :class:`RobustConsensus` finds the largest camp of partitions (``camps``),
solves the relaxation on its :class:`Votes`, and compares the methods on a :class:`Sample` of them
(:func:`choose_answer`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from coterie.arrays import AnyArray, Bools, Floats, Ints
from coterie.consensus.base import ConsensusFunction, Labelling, check_n_clusters, voting_tuples
from coterie.consensus.camps import Dissent, find_camps, warn_of_dissent
from coterie.consensus.cuts import meta_cluster_labels
from coterie.consensus.linkage import (
    cluster_weights,
    cut_into,
    locally_weighted_embedding,
    locally_weighted_tree,
    propagated_labels,
    sizable_answers,
)
from coterie.consensus.spectral import profile_labels
from coterie.counts.cluster_tables import ClusterTables
from coterie.counts.coassociation import check_partition_weights, pairwise_lower_bound
from coterie.counts.contingency import (
    agreement_lower_bound,
    all_contingencies,
    count_pairs,
    jaccard_similarity,
)
from coterie.ensembles.input_checks import check_choice, check_number, check_whole
from coterie.errors import DissentWarning, InvalidParameterError, LabelWarning
from coterie.labels.tuples import LabelTuples
from coterie.relaxation.admm import RobustRelaxation, least_squares_result
from coterie.relaxation.divided import dispatch_relaxation
from coterie.relaxation.spectral import least_squares_factor, round_by_kmeans, round_by_pivoted_qr
from coterie.runtime.devices import check_device
from coterie.runtime.messages import warn_user
from coterie.runtime.sampling import draw_weighted_subsample
from coterie.runtime.wording import short_repr
from coterie.search.median_search import (
    MAJORITY,
    SearchResult,
    Start,
    calibrated_majority,
    learn_partition_weights,
    median_search,
    partition_starts,
)

_log = logging.getLogger(__name__)

#: Partitions count as much finer than K clusters if they typically have more than FINE · K.
FINE = 2.3
#: Above this number of tuples a sample of them is clustered: linkage needs a dense (u, u) matrix.
_MOST_TUPLES = 3_000
#: Above this number m of base clusters, methods with an (m, m) matrix of them are left out.
_MOST_COLUMNS = 2_000
_MOST_BOUNDED_PAIRWISE = 10_000  # the pairwise bound takes O(u²)
#: Clusters are of similar size if their effective number is at least this share of K.
_LEAST_EVENNESS = 0.9
#: The searches of halves of the partitions agree if their adjusted Rand index is at least this.
_LEAST_AGREEMENT_OF_HALVES = 0.7
_N_SPLITS = 2
_MOST_NAMED = 10


@dataclass(eq=False, repr=False)
class RobustConsensus(ConsensusFunction):
    """Robust consensus: the partition that most partitions agree on, despite a wrong minority.

    P (n, V) has V partitions of n points. The consensus G of at most K clusters should minimise

        J(G) = Σ_ij |M_ij − X_ij| = (1/V) Σ_v #{pairs on which partition v and G differ}

    where M_ij is the share of partitions that put points i and j together, and X_ij = 1 if G does,
    else 0. Minimising J is NP-hard, and the minimum is not always the best answer. Two steps
    replace it:

    1. Partitions are grouped into camps that agree beyond chance. The largest camp votes
       (``partition_weights``).
    2. Answers of different kinds are computed from its votes: the robust relaxation M ≈ H D Hᵀ in
       ℓ1, least squares, k-means on the rows of M (profiles), locally weighted linkage and cut,
       linkage of propagated similarities, and meta-clusters. The answer that the others agree with
       most is returned (``refine``). If the partitions have many more than K clusters, it is the
       answer of locally weighted linkage. If camps have no vote, the answers from the votes of all
       partitions are computed too. The answer with more clusters is returned; if the numbers are
       equal, the better separated one.

    ``relaxation="admm", refine="relaxation", partition_weights=None`` is the method of the paper
    (RCC), with the signs of its updates corrected.

    Parameters
    ----------
    n_clusters : int, None or "free", default=None
        Number of clusters, K. None: the number that :func:`~coterie.choose_k` recommends, without
        its criterion for resampled points. "free": the number with the least J, found by the
        search; under noise this is often far too many, because stray points become clusters.
    relaxation : {"auto", "admm", "divided", "l2"}, default="auto"
        "admm": the ℓ1 relaxation of the paper, with a dense (u, u) matrix over the u distinct
        label tuples. If it does not fit in memory, or u > 40,000 on the CPU, a warning is given
        and "divided" is used. "divided": the same in parts of 4,000 tuples, linear in u. "l2":
        least squares from contingency tables. "auto": "admm" up to 500 tuples (with
        ``device="cuda"``, as many as fit), else "l2", which was as accurate and much faster.
    refine : {"auto", "search", "relaxation", "sizes"}, default="auto"
        The answer to return. "auto": the one that the other answers agree with most. "search": a
        discrete search for the least J, started from both relaxations and from the partitions.
        "relaxation": the relaxation, rounded. "sizes": the search if its clusters are of similar
        size and halves of the partitions find them too, else locally weighted linkage, which finds
        clusters of very different size; it was best for several views.
    threshold : float or "calibrated", default=0.5
        Share of votes from which the search (``refine="search"`` or ``n_clusters="free"``) puts two
        points together. 0.5 minimises J. "calibrated" lowers it if the points of a cluster are
        together in less than 55% of the votes, which is more accurate under noise.
    partition_weights : {"agreement", "learned"}, array of shape (V,) or None, default="agreement"
        "agreement": 1 for the largest camp of partitions, or for all camps that are equally large;
        0 for the others, unless ``refine="auto"`` finds the answer from all votes better.
        "learned": proportional to 1/√(distance to the consensus). None: all equal, as in the paper.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where the ADMM runs. "cuda": on a GPU; if there is no GPU or too little memory, on the CPU
        with a warning. "auto": on a GPU, if there is one, with ``relaxation="admm"`` and more than
        2,000 tuples.
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
        Cluster 0 is the largest. The clusters depend neither on the order of points or partitions
        nor on label names.
    n_clusters_ : int
    objective_, lower_bound_, gap_ : float
        J of the result, a lower bound on J of any partition, and (J − bound)/J.
    confidence_ : (n,) in [0, 1]
        Estimated probability that the label is right: its entry of ``predict_proba``; 0 for the
        label −1.
    margin_ : (n,) in [0, 1]
        Mean share of votes that put the point together with the members of its cluster, minus the
        same for the next best cluster.
    partition_weights_ : (V,)
    partition_agreement_, partition_coverage_ : (V,)
        Adjusted Rand index of each partition with the consensus, over the points that it labels,
        and the share of the points that it labels.
    partition_groups_ : (V,) int
        Camp of each partition; 0 is the largest.
    dissent_ : :class:`~coterie.consensus.camps.Dissent`
        Agreement of every pair of partitions, in the given order.
    k_choice_ : :class:`~coterie.consensus.choice_of_k.KChoice`
        The comparison of numbers of clusters, if ``n_clusters`` is None.
    constraints_, index_, feature_names_in_
        As in :class:`~coterie.consensus.base.ConsensusFunction`.
    selected_ : dict
        ``method``: the answer that was returned; ``votes``: whose votes it is from, "all
        partitions", "the largest camp", "the largest camps" if they are equally large, or "the
        partitions of positive weight"; ``reason``: why it was chosen; ``answers``: for each answer
        its number of ``clusters``, whether it ``competes``, and its mean ``agreement`` with the
        others.
    threshold_ : float
        Share of votes above which two points belong together: that of the search if it found the
        answer, else 1/2, or less for noisy votes.
    relaxation_ : {"cpu", "cuda", "parts", "l2"}
        How the relaxation of the votes of the answer was computed: ADMM on the CPU, on a GPU, in
        parts, or least squares. With ``n_clusters="free"`` it is "l2", unless
        ``refine="relaxation"``.
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
    :class:`~coterie.MCLA` with ``partitioner="linkage"``. If the partitions have many more than K
    clusters, and with ``refine="sizes"``, linkage does not count clusters of a few stray points.

    **Limits.** Above 3,000 distinct tuples the other answers come from a sample, and the rest joins
    by votes; above 2,000 base clusters profiles, propagation and meta-clusters are left out. The
    answer of "auto" may not have the least J; ``gap_`` bounds how far it is from it. If most
    partitions share an error, the result has it too. The relaxation alone is worse than least
    squares if the partitions have many more than K clusters.

    **When to use.** By default. Use ``refine="search"`` if J itself matters,
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
    refine: str = "auto"
    threshold: float | str = 0.5
    partition_weights: Any = "agreement"
    device: str = "auto"
    max_iter: int = 300
    tol: float = 1e-3
    random_state: Any = None

    @property
    def embedding_(self) -> Floats:
        """Rows of H√D of the points that have a label and a positive weight, (n, K)."""
        return self._factor[self._inverse]

    def _label_tuples(self, tuples: LabelTuples) -> Labelling:
        check_device(self.device)
        check_choice("relaxation", self.relaxation, ("auto", "admm", "divided", "l2"))
        check_choice("refine", self.refine, ("auto", "search", "relaxation", "sizes"))
        if self.threshold != "calibrated":
            check_number("threshold", self.threshold, above=0, most=1)
        check_whole("max_iter", self.max_iter)
        check_number("tol", self.tol, above=0, or_equal=True)

        # the partitions that vote, and K
        K = None
        if isinstance(self.n_clusters, str):
            if self.n_clusters != "free":
                raise InvalidParameterError(
                    f"n_clusters={self.n_clusters!r}: give a whole number, None or 'free'"
                )
        elif self.n_clusters is not None:
            K = check_n_clusters(self.n_clusters, tuples)
        contingencies = all_contingencies(tuples)
        votes = Votes.from_tuples(tuples, self._weights_in_use(), K, contingencies)
        threshold = None if self.threshold == "calibrated" else float(self.threshold)
        free = None
        if self.n_clusters == "free":
            free = votes.search(None, threshold=threshold)
            K = free.tables.n_clusters
        elif K is None:
            K = self._choose_n_clusters(votes)

        # the answer, and the relaxation it was compared with
        rng = check_random_state(self.random_state)
        if free and self.refine != "relaxation":
            start = least_squares_factor(votes.tuples, votes.weights, K, votes.contingencies)
            relaxation = least_squares_result(start)
            reason = "the search also chose the number of clusters"
            answer = Answer(free.labels, "search", reason, free.threshold)
        elif self.refine == "auto":
            votes, answer, relaxation = self._answer_of_methods(tuples, votes, K, contingencies)
        else:
            relaxation, answers = self._relax(votes, K, rng)
            if self.refine == "relaxation":
                labels = answers.get("relaxation")
                if labels is None:
                    labels = _round(votes, relaxation.factor, K, rng)
                answer = Answer(labels, "relaxation", "only the relaxation was asked for")
            elif self.refine == "sizes":
                answer = answer_by_sizes(votes, K, answers, rng)
            else:
                search = votes.search(K, answers, threshold)
                reason = "only the search was asked for"
                answer = Answer(search.labels, "search", reason, search.threshold)

        if answer.method == "relaxation" and not relaxation.converged:
            warn_user(
                f"the relaxation, whose answer is returned, stopped after {relaxation.n_iter} "
                f"steps with residuals above tol={self.tol}; raise max_iter or tol",
                ConvergenceWarning,
            )
        self.dissent_ = votes.dissent.reordered(np.argsort(tuples.partition_order))
        if self.dissent_.all_same:
            warn_user(
                f"all {tuples.n_partitions} partitions are the same, up to the names of the "
                "labels, and the consensus is this partition; check how they were made",
                LabelWarning,
            )
        self.partition_groups_ = self.dissent_.groups
        self.selected_ = {
            "method": answer.method,
            "votes": self._voters(votes),
            "reason": answer.reason,
            "answers": answer.compared,
        }
        self.lower_bound_ = votes.lower_bound
        self.relaxation_ = relaxation.place
        self.n_iter_, self.history_ = relaxation.n_iter, relaxation.history
        self._factor, self._inverse = relaxation.factor[votes.group], tuples.inverse
        threshold = answer.threshold
        if threshold is None:
            threshold = calibrated_majority(votes.tables(answer.labels))
        return Labelling(answer.labels[votes.group], votes.all_weights, threshold)

    def _answer_of_methods(
        self, tuples: LabelTuples, votes: Votes, K: int, contingencies: Floats
    ) -> tuple[Votes, Answer, RobustRelaxation]:
        """Compare the methods on the votes of the largest camp, and on all votes if they differ.

        Of these two answers the one with more clusters is returned; if their numbers are equal, the
        better separated one.
        """

        def best_answer(votes: Votes) -> tuple[Answer, RobustRelaxation]:
            rng = check_random_state(self.random_state)
            relaxation, answers = self._relax(votes, K, rng)
            _log.info("other answers for %d tuples", votes.tuples.n_tuples)
            return choose_answer(Sample.draw(votes, rng), K, answers, rng), relaxation

        answer, relaxation = best_answer(votes)
        if not self._camps_decide or votes.all_weights.all():
            return votes, answer, relaxation
        every = Votes.from_tuples(tuples, None, K, contingencies, votes.dissent)
        other, other_relaxation = best_answer(every)
        ranks = [(len(np.unique(a.labels)), round(a.separation, 9)) for a in (answer, other)]
        camps_win = ranks[0] >= ranks[1]
        (clusters, separation), (fewer, less) = ranks if camps_win else ranks[::-1]
        loser = "the answer from all votes" if camps_win else f"that of {self._voters(votes)}"
        measure = "mean silhouette plus that of the worst cluster"
        if clusters > fewer:
            better = f"has more clusters than {loser} ({clusters} against {fewer})"
        elif separation > less:
            figures = f"{separation:.2f} against {less:.2f}, {measure}"
            better = f"is better separated than {loser} ({figures})"
        else:
            better = f"is as well separated as {loser} ({separation:.2f}, {measure})"
        if camps_win:
            return votes, replace(answer, reason=f"{answer.reason}; it {better}"), relaxation
        reason = f"{other.reason}; the answer from all votes {better}"
        return every, replace(other, reason=reason), other_relaxation

    def _relax(
        self, votes: Votes, K: int, rng: np.random.RandomState
    ) -> tuple[RobustRelaxation, dict[str, Ints]]:
        """Compute the relaxation; also return the labels (u,) of least squares and of ADMM."""
        K = min(K, votes.tuples.n_tuples)  # without partitions of weight 0 there may be fewer
        start = least_squares_factor(votes.tuples, votes.weights, K, votes.contingencies)
        relaxation = dispatch_relaxation(
            votes.tuples,
            votes.weights,
            start,
            relaxation=self.relaxation,
            device=self.device,
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=rng,
        )
        answers = {"least squares": round_by_kmeans(start, votes.tuples.weights, K, rng)}
        if relaxation.n_iter:
            answers["relaxation"] = _round(votes, relaxation.factor, K, rng)
        return relaxation, answers

    def _label_after_growth(self, tuples: LabelTuples) -> Labelling:
        decided, names = self.partition_weights_ > 0, self._vocabulary.names
        labelling = self._label_tuples(tuples)
        if self._camps_decide:
            decide = tuples.in_given_order(labelling.partition_weights)[: len(decided)] > 0
            lost = [names[v] for v in np.flatnonzero(decided & ~decide)]
            if lost:
                more = ", …" if len(lost) > _MOST_NAMED else ""
                warn_user(
                    f"with the new partitions, {len(lost)} partitions that decided before no "
                    f"longer do ({', '.join(lost[:_MOST_NAMED])}{more})",
                    DissentWarning,
                )
        return labelling

    def _finish(self, tuples: LabelTuples, labelling: Labelling) -> None:
        super()._finish(tuples, labelling)
        # sums of very unequal row weights are rounded
        self.lower_bound_ = min(self.lower_bound_, self.objective_)
        self.gap_ = 1.0 - self.lower_bound_ / self.objective_ if self.objective_ > 0 else 0.0

    @property
    def _camps_decide(self) -> bool:
        return isinstance(self.partition_weights, str) and self.partition_weights == "agreement"

    def _voters(self, votes: Votes) -> str:
        """Say in words which partitions have a vote."""
        if votes.all_weights.all():
            return "all partitions"
        if not self._camps_decide:
            return "the partitions of positive weight"
        return "the largest camps" if votes.dissent.tied else "the largest camp"


@dataclass(frozen=True)
class Answer:
    """Labels (u,) of the tuples of the votes; the last two are set if methods were compared."""

    labels: Ints
    method: str
    reason: str
    threshold: float | None = None  # of the search that found them
    separation: float = 0.0  # mean silhouette of the points plus that of the worst cluster
    #: For every method its number of clusters, whether it competes, and its mean agreement.
    compared: dict[str, dict[str, Any]] = field(default_factory=dict)

    __repr__ = short_repr


@dataclass(frozen=True)
class Votes:
    """The V' of the V partitions that vote, and how their u' tuples map to the u tuples of all."""

    tuples: LabelTuples  # the u' distinct tuples of these partitions
    weights: Floats  # (V',)
    contingencies: Floats  # (m', m') tables of all pairs of these partitions
    group: AnyArray  # (u,) for each tuple of all partitions, its tuple among those of the voters
    all_weights: Floats  # (V,) in the order of the columns of all tuples
    dissent: Dissent  # camps of all partitions, in the same order
    _tables: dict[bytes, ClusterTables] = field(default_factory=dict, init=False, repr=False)

    __repr__ = short_repr

    def tables(self, labels: Ints) -> ClusterTables:
        """Return the cluster tables of labels of the tuples, from a cache if they are known."""
        key = labels.tobytes()
        if key not in self._tables:
            self._tables[key] = ClusterTables.of(self.tuples, labels, self.weights)
        return self._tables[key]

    def search(
        self,
        K: int | None,
        answers: Mapping[str, Ints] | None = None,
        threshold: float | None = None,
    ) -> SearchResult:
        """Search for the least J from the given answers and the most promising partitions.

        ``threshold`` None calibrates the threshold of the search.
        """
        starts = [Start(name, labels) for name, labels in (answers or {}).items()]
        starts += partition_starts(self.tuples, self.contingencies, self.weights, K)
        _log.info("searching from %d starts", len(starts))
        found = median_search(self.tuples, self.weights, K, starts, threshold)
        self._tables[found.labels.tobytes()] = found.tables
        return found

    @cached_property
    def lower_bound(self) -> float:
        """A lower bound on J; many tuples give a weaker one, from partition distances."""
        if self.tuples.n_tuples <= _MOST_BOUNDED_PAIRWISE:
            return pairwise_lower_bound(self.tuples, self.weights)
        counts = count_pairs(self.tuples, self.contingencies)
        return agreement_lower_bound(counts, self.weights)

    @classmethod
    def from_tuples(
        cls,
        tuples: LabelTuples,
        partition_weights: Any,
        n_clusters: int | None = None,
        contingencies: Floats | None = None,
        dissent: Dissent | None = None,
    ) -> Votes:
        """Compare all V partitions and weight them as :class:`~coterie.RobustConsensus` does.

        ``n_clusters``, the largest number of clusters, is used only by "learned". The tables (m, m)
        of all pairs of partitions and the camps are computed if they are not given.
        """
        if isinstance(partition_weights, str) and partition_weights not in ("agreement", "learned"):
            raise InvalidParameterError(
                f"partition_weights={partition_weights!r}: give 'agreement', 'learned', None, or "
                "one number per partition"
            )
        _log.info("comparing %d partitions over %d tuples", tuples.n_partitions, tuples.n_tuples)
        if contingencies is None:
            contingencies = all_contingencies(tuples)
        if dissent is None:
            counts = count_pairs(tuples, contingencies)
            dissent = find_camps(counts, names=tuples.partition_names)
        if not isinstance(partition_weights, str):
            weights = check_partition_weights(partition_weights, tuples.n_partitions)
            weights = weights[tuples.partition_order]
        elif partition_weights == "learned":
            equal = np.ones(tuples.n_partitions)
            starts = partition_starts(tuples, contingencies, equal, n_clusters)
            weights = learn_partition_weights(tuples, n_clusters, starts)[0]
        else:
            warn_of_dissent(dissent.reordered(np.argsort(tuples.partition_order)))
            weights = dissent.weights
        used = weights > 0
        voting, group = tuples.restricted_to(used)
        if not used.all():
            columns = np.flatnonzero(np.repeat(used, tuples.n_labels))
            contingencies = contingencies[np.ix_(columns, columns)]
        return cls(voting, weights[used], contingencies, group, weights, dissent)


@dataclass(frozen=True)
class Sample:
    """Tuples to cluster: all that have a label, or a weighted sample of them."""

    votes: Votes
    tuples: LabelTuples
    chosen: Ints  # (s,) their places among the tuples of the votes
    contingencies: Floats  # (m, m)

    __repr__ = short_repr

    @classmethod
    def draw(cls, votes: Votes, rng: np.random.RandomState, most: int = _MOST_TUPLES) -> Sample:
        """Take the labelled tuples, or draw some of them if there are too many."""
        tuples = votes.tuples
        labelled = np.flatnonzero(tuples.has_weighted_label(votes.weights))
        if len(labelled) <= most:
            if len(labelled) == tuples.n_tuples:
                return cls(votes, tuples, labelled, votes.contingencies)
            return cls(votes, tuples.subset(labelled), labelled, votes.contingencies)
        drawn, weights = draw_weighted_subsample(tuples.weights[labelled], most, rng)
        some = tuples.subset(labelled[drawn], weights)
        return cls(votes, some, labelled[drawn], all_contingencies(some))

    def spread(self, labels: Ints, places: AnyArray | None = None) -> Ints:
        """Return labels of all tuples; those outside the sample join a cluster by their votes.

        With ``places``, only the labels of these tuples are returned.
        """
        rows = slice(None) if places is None else places
        fixed = np.full(self.votes.tuples.n_tuples, -1, dtype=np.int64)
        fixed[self.chosen] = labels
        fixed = fixed[rows]
        if (fixed >= 0).all():
            return fixed
        tuples = self.votes.tuples.subset(rows)
        tables = ClusterTables.of(self.tuples, labels, self.votes.weights)
        # halfway between the mean agreement within and between clusters
        threshold = sum(tables.mean_coassociation()) / 2
        assigned, _ = tables.assign(tuples.codes, threshold, fixed, tuples.memberships)
        return np.maximum(assigned, 0)

    def separation(self, labels: Ints) -> float:
        """Return the mean silhouette under 1 − M, plus the mean of the worst cluster."""
        if self.tuples is self.votes.tuples:
            tables = self.votes.tables(labels)
        else:
            tables = ClusterTables.of(self.tuples, labels, self.votes.weights)
        weighted = tables.silhouettes(self.tuples, labels) * self.tuples.weights
        sums = np.bincount(labels, weighted, minlength=len(tables.size))
        used = tables.size > 0
        return float(sums.sum() / tables.size.sum() + (sums[used] / tables.size[used]).min())


def choose_answer(
    sample: Sample, n_clusters: int, given: Mapping[str, Ints], rng: np.random.RandomState
) -> Answer:
    """Compute answers with K clusters; return the one that the others agree with most.

    The ``given`` answers (u,), those of the relaxations, compete with the answers computed here. An
    answer with fewer clusters than another one does not compete. Of equal answers the first wins.
    If the partitions have many more than K clusters, linkage of the sizable clusters is returned
    without a comparison: the other methods join many small clusters less well.
    """
    tuples, weights = sample.tuples, sample.votes.weights
    K = min(n_clusters, tuples.n_tuples)
    clusters = float(np.median(tuples.n_labels))
    if clusters > FINE * K:
        labels = sizable_linkage(sample, K)
        reason = (
            f"it joins many small clusters best, and the partitions have {clusters:g} clusters "
            f"(median), more than {FINE:g} times the {K} asked for"
        )
        alone = {"clusters": len(np.unique(labels)), "competes": True, "agreement": 1.0}
        return Answer(
            sample.spread(labels),
            "local linkage",
            reason,
            separation=sample.separation(labels),
            compared={"local linkage": alone},
        )

    omega = cluster_weights(tuples, weights, contingencies=sample.contingencies)
    answers = {name: labels[sample.chosen] for name, labels in given.items()}
    answers["local linkage"] = cut_into(locally_weighted_tree(tuples, weights, omega), K)
    rows = locally_weighted_embedding(tuples, weights, omega, K)
    answers["local cut"] = round_by_kmeans(rows, tuples.weights, K, rng)
    if tuples.n_columns <= _MOST_COLUMNS:
        profiles = profile_labels(tuples, weights, K, rng)[0]
        if tuples.memberships is None:  # the Jaccard similarity needs clusters that are sets
            jaccard = jaccard_similarity(sample.contingencies, tuples.offsets)
            answers["propagated linkage"] = propagated_labels(tuples, weights, K, jaccard)
            answers["profiles"] = profiles
            answers["meta-clusters"] = meta_cluster_labels(tuples, weights, K, jaccard, rng)[0]
        else:
            answers["profiles"] = profiles

    sizes = {name: len(np.unique(labels)) for name, labels in answers.items()}
    most = max(sizes.values())
    competing = {name: answers[name] for name, k in sizes.items() if k == most}
    agreement = mean_agreement(competing, tuples.weights)
    # rounded, so that the order of the summation does not decide between equal answers
    best = max(competing, key=lambda name: round(agreement[name], 9))
    if len(competing) == 1:
        reason = f"only this answer has {most} clusters"
    elif min(agreement.values()) > 1 - 1e-9:
        reason = f"all {len(competing)} methods give this answer"
    else:
        each = ", ".join(f"{name} {value:.3f}" for name, value in agreement.items())
        reason = f"the other answers agree with it most (mean adjusted Rand index: {each})"
    if out := [f"{name} ({k})" for name, k in sizes.items() if name not in competing]:
        reason += f"; with fewer clusters, and so not compared: {', '.join(out)}"
    compared = {
        name: {"clusters": k, "competes": name in competing, "agreement": agreement.get(name)}
        for name, k in sizes.items()
    }
    labels = given[best] if best in given else sample.spread(answers[best])
    separation = sample.separation(answers[best])
    return Answer(labels, best, reason, separation=separation, compared=compared)


def sizable_linkage(sample: Sample, K: int) -> Ints:
    """Label the sample by locally weighted linkage that does not count clusters of stray points."""
    return sizable_answers(sample.tuples, sample.votes.weights, np.array([K]))[0]


def answer_by_sizes(
    votes: Votes, n_clusters: int, given: Mapping[str, Ints], rng: np.random.RandomState
) -> Answer:
    """Return the answer of the search if its clusters are of similar size, else of linkage.

    The search for the least J prefers clusters of similar size. If the true clusters are of similar
    size, its answer is the most accurate. Otherwise it divides the large ones, and locally weighted
    linkage is better. The search starts from the ``given`` answers (u',). The search with a
    calibrated threshold can also find unequal clusters, so it decides. If its clusters are similar
    in size, the search with the threshold 1/2 is the more accurate one.
    """
    K = min(n_clusters, votes.tuples.n_tuples)

    def linkage_answer(reason: str) -> Answer:
        sample = Sample.draw(votes, rng)
        return Answer(sample.spread(sizable_linkage(sample, K)), "local linkage", reason)

    search = votes.search(K, given)
    shares = search.tables.size[search.tables.size > 0] / search.tables.size.sum()
    # exp(−Σ p log p): the number of clusters if all have one size
    evenness = float(np.round(np.exp(-shares @ np.log(shares)), 12)) / K
    if evenness < _LEAST_EVENNESS:
        return linkage_answer(
            f"the clusters of the search are of different size (evenness {evenness:.2f})"
        )
    # mean adjusted Rand index between the searches of two halves of the partitions
    stability, V = 1.0, votes.tuples.n_partitions
    if V >= 4:
        agreement = []
        for _ in range(_N_SPLITS):
            found = []
            for half in random_halves(V, rng):
                part, group = voting_tuples(votes.tuples, half * votes.weights)
                tables = all_contingencies(part)
                own = replace(votes, tuples=part, weights=votes.weights[half], contingencies=tables)
                # tuples without a label in this half get −1
                found.append(np.append(own.search(min(K, part.n_tuples)).labels, -1)[group])
            agreement.append(weighted_rand_index(found[0], found[1], votes.tuples.weights))
        stability = float(np.mean(agreement))
    if stability < _LEAST_AGREEMENT_OF_HALVES:
        return linkage_answer(
            f"halves of the partitions find other clusters by the search ({stability:.2f})"
        )
    search = votes.search(K, {**given, "calibrated search": search.labels}, MAJORITY)
    reason = (
        f"its clusters are of similar size (evenness {evenness:.2f}), and halves of the partitions "
        f"find them too (adjusted Rand index {stability:.2f})"
    )
    return Answer(search.labels, "search", reason, search.threshold)


def _round(votes: Votes, factor: Floats, K: int, rng: np.random.RandomState) -> Ints:
    """Round the rows of a factor by pivoted QR and by k-means; return the labels of lower J."""
    K = min(K, votes.tuples.n_tuples)
    _log.info("rounding to %d clusters", K)
    rounded = [
        round_by_pivoted_qr(factor, votes.tuples.weights),
        round_by_kmeans(factor, votes.tuples.weights, K, rng),
    ]
    return min(rounded, key=lambda labels: votes.tables(labels).objective())


def random_halves(n: int, rng: np.random.RandomState) -> tuple[Bools, Bools]:
    """Divide n partitions at random into two halves; return a mask (n,) of each."""
    first = np.zeros(n, dtype=np.bool_)
    first[rng.permutation(n)[: n // 2]] = True
    return first, ~first


def mean_agreement(answers: Mapping[str, Ints], weights: Floats) -> dict[str, float]:
    """Return the mean adjusted Rand index of each answer (u,) with the others; 1 for one answer."""
    names = list(answers)
    if len(names) == 1:
        return {names[0]: 1.0}
    matrix = pairwise_agreement(list(answers.values()), weights)
    return dict(zip(names, (matrix.sum(axis=1) / (len(names) - 1)).tolist(), strict=True))


def pairwise_agreement(answers: Sequence[Ints], weights: Floats) -> Floats:
    """Return the adjusted Rand indices (c, c) of c answers (u,), with 0 on the diagonal."""
    matrix = np.zeros((len(answers), len(answers)))
    for i, first in enumerate(answers):
        for j in range(i):
            matrix[i, j] = matrix[j, i] = weighted_rand_index(first, answers[j], weights)
    return matrix


def weighted_rand_index(first: Ints, second: Ints, weights: Floats) -> float:
    """Return the adjusted Rand index of two labelings of points with multiplicities.

    Points without a label (−1) in one of them are left out; 0 if no point is left.
    """
    both_label = (first >= 0) & (second >= 0)
    first, second, weights = first[both_label], second[both_label], weights[both_label]
    if not len(weights):
        return 0.0
    n, K = weights.sum(), int(second.max()) + 1
    table = np.bincount(first * K + second, weights, minlength=K * (int(first.max()) + 1))
    table = table.reshape(-1, K)
    both, a, b = ((part**2).sum() - n for part in (table, table.sum(axis=1), table.sum(axis=0)))
    expected = a * b / max(n * (n - 1), 1.0)
    span = (a + b) / 2 - expected
    return float((both - expected) / span) if span > 0 else 1.0
