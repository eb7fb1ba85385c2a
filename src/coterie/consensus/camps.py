"""Camps of partitions: groups of partitions that agree. By default the largest camp decides.

Two groups of partitions agree if their co-association matrices, the mean of [together] over the
members of each group, are correlated beyond chance. The deviation of this correlation, if the
points of one group are randomly permuted, is known in closed form (Mantel 1967). Groups are
compared, not pairs: two weak partitions may agree no better than chance although a group of them
is right.

The candidates for groups are the branches of an average-linkage tree of the partitions. From the
root on, a branch is divided if its two sides do not agree. A partition that agrees with no other
is a camp of one. The largest camp has a vote, the others have none. If several camps are equally
large, no rule can tell which is right: all of them vote, and the result is tied.

:class:`~coterie.RobustConsensus` also computes the answer from all votes, and may return it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from coterie.arrays import Bools, Floats, Ints
from coterie.counts.contingency import PairCounts, all_contingencies, count_pairs
from coterie.errors import DissentWarning
from coterie.labels.tuples import LabelTuples, as_label_tuples
from coterie.runtime.messages import warn_user
from coterie.runtime.sampling import sample_multiplicities
from coterie.runtime.wording import number_of

#: Groups of partitions agree if their score is at least this number of standard deviations.
CUT = 4.0
#: Least deviation: even for millions of points an index below CUT × 0.0025 = 0.01 is no agreement.
LEAST_DEVIATION = 0.0025
#: Largest deviation: even for few points an index above CUT × 0.05 = 0.2 is agreement.
MOST_DEVIATION = 0.05
_FEWEST_COMMON = 4  # the moments divide by (n − 2)(n − 3)
_ROUNDING = 1e-12
_MOST_LISTED = 10
#: A second camp of more than this share of the largest one makes the decision close.
_CLOSE_CAMP = 2 / 3
#: A partition is weak if its agreement with its camp is below this share of the camp's median. An
#: annotator who guesses twice as often as the others has about this share.
_WEAK = 0.25
_FEWEST_IN_CAMP, _FEWEST_LABELLED = 4, 20  # fewer partitions or common points say too little


@dataclass(frozen=True)
class Dissent:
    """Agreement and camps of V partitions.

    Attributes
    ----------
    agreement, scores : (V, V)
        Adjusted Rand index of every pair of partitions, and the same divided by its standard
        deviation under chance.
    groups : (V,) int
        Camp of each partition; 0 is the largest, or one of the largest.
    weights : (V,)
        1 for partitions that decide, 0 for the others.
    tied : bool
        Whether several camps are equally large; then all of them decide.
    camp_scores : (C,)
        Score of each camp against camp 0: the correlation of their co-association matrices,
        divided by its standard deviation under chance. From 4 on they would be one camp. It is
        infinite for camp 0.
    weak : (V,) bool
        Partitions of a camp that agree with it much less than its other members do, although
        beyond chance. Numbers of clusters do not count: a partition that divides or joins clusters
        of the others agrees with them. It is found for labels, not for memberships or trees.
    names : tuple of V str, optional
        Names of the partitions.
    """

    agreement: Floats
    scores: Floats
    groups: Ints
    weights: Floats
    tied: bool
    camp_scores: Floats
    weak: Bools
    names: tuple[str, ...] | None = None

    @property
    def dissenters(self) -> Ints:
        """Partitions that do not decide."""
        return np.flatnonzero(self.weights == 0)

    def reordered(self, place: Ints) -> Dissent:
        """Return the result for partitions in another order: ``place[v]`` becomes number v."""
        return replace(
            self,
            agreement=self.agreement[np.ix_(place, place)],
            scores=self.scores[np.ix_(place, place)],
            groups=self.groups[place],
            weights=self.weights[place],
            weak=self.weak[place],
            names=None if self.names is None else tuple(self.names[v] for v in place),
        )

    @property
    def all_same(self) -> bool:
        """Whether three or more partitions are equal up to the names of their labels."""
        # partitions without common points have agreement 1, but no score above the cut
        same = (self.agreement == 1) & (self.scores > CUT)
        return len(self.groups) > 2 and bool(same.all())

    def in_words(self, names: Sequence[str] | None = None) -> str:
        """Say which partitions agree and which dissent; ``names`` (V,) replace their names."""
        V, camps = len(self.groups), np.bincount(self.groups)
        if V == 1:
            return "one partition: nothing to agree on"
        weak = np.flatnonzero(self.weak & (self.weights > 0))
        weakly = f"; {len(weak)} only weakly ({self._listed(weak, names)})" if len(weak) else ""
        if len(camps) == 1:
            return f"all {V} partitions agree beyond chance{weakly}"
        if self.tied and camps[0] == 1:
            return f"no two of the {V} partitions agree beyond chance, so all of them vote"
        if self.tied:
            n_tied = int((camps == camps[0]).sum())
            return (
                f"{n_tied} camps of {camps[0]} partitions agree only among themselves; "
                "no rule can tell which is right, so all of them vote"
            )
        out = self.dissenters
        shown = self._listed(out, names)
        agree = f"{camps[0]} of {V} partitions agree{weakly}"
        if len(out) == 1:
            return f"{agree}; 1 dissenter ({shown})"
        others = "no two of them agree"
        if camps[1] == len(out):
            others = "they agree with each other"
        elif camps[1] > 1:
            others = f"at most {camps[1]} of them agree with each other"
        return (
            f"{agree}; {len(out)} dissent ({shown}): {others}; "
            f"with the {camps[0]} they agree no better than chance (z-score at most "
            f"{self.camp_scores[1:].max():.1f}, where {CUT:g} would be agreement)"
        )

    def __repr__(self) -> str:
        sizes = " + ".join(_shortened(np.bincount(self.groups)))
        n_camps = int(self.groups.max()) + 1
        return (
            f"Dissent({number_of(len(self.groups), 'partition')}, {number_of(n_camps, 'camp')}: "
            f"{sizes}{', tied' if self.tied else ''})"
        )

    def _repr_html_(self) -> str:
        """Return the sentence and a table of the camps, for notebooks."""
        rows = []
        for camp, score in enumerate(self.camp_scores):
            members = np.flatnonzero(self.groups == camp)
            decides = "decides" if self.weights[members].any() else "dissents"
            against = f"{score:.1f}" if camp else ""
            rows.append((camp, len(members), decides, against, self._listed(members)))
        titles = ("camp", "size", "vote", "score against camp 0", "partitions")
        head = "".join(f"<th>{title}</th>" for title in titles)
        cells = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows)
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        return (
            f"<p>{escape(self.in_words())}</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )

    def _listed(self, partitions: Ints, names: Sequence[str] | None = None) -> str:
        """Return the names of some partitions, or their numbers if they have none."""
        names = self.names if names is None else names
        shown = partitions if names is None else [names[v] for v in partitions]
        return ", ".join(_shortened(shown))


def partition_agreement(P: Any, max_points: int = 100_000, random_state: Any = None) -> Dissent:
    """Compute agreement and camps of partitions from a sample of at most ``max_points`` points.

    Examples
    --------
    >>> from coterie import planted_partitions
    >>> P, _ = planted_partitions([60, 40], 5, 2, 0.1, random_state=0)
    >>> partition_agreement(P).groups.tolist()
    [0, 0, 0, 1, 1]
    """
    tuples = as_label_tuples(P)
    return camps_of(tuples, sample_multiplicities(tuples.weights, max_points, random_state))


def camps_of(tuples: LabelTuples, weights: Floats | None = None) -> Dissent:
    """Find the camps of the partitions of tuples, in the given order; ``weights`` (u,) count."""
    counts = count_pairs(tuples, all_contingencies(tuples, weights), weights)
    camps = find_camps(counts, names=tuples.partition_names)
    return camps.reordered(np.argsort(tuples.partition_order))


def find_camps(counts: PairCounts, names: tuple[str, ...] | None = None) -> Dissent:
    """Find the camps of partitions, with these names, from the counts of all pairs of them."""
    return divide_into_camps(*chance_scores(counts), GroupMoments.of(counts), names)


def divide_into_camps(
    agreement: Floats, scores: Floats, moments: GroupMoments, names: tuple[str, ...] | None = None
) -> Dissent:
    """Find the camps from agreement and scores (V, V) of all pairs, and moments of groups."""
    camps = _camps_of_tree(moments, scores) if len(scores) > 1 else [np.array([0])]
    groups, weak = np.zeros(len(scores), dtype=np.int64), np.zeros(len(scores), dtype=np.bool_)
    for camp, members in enumerate(camps):
        groups[members] = camp
        own = np.sort(members)
        weak[own] = moments.weak(own)
    camp_scores = np.array([np.inf, *(moments.score(camps[0], camp) for camp in camps[1:])])
    sizes = np.bincount(groups)
    deciding = sizes == sizes[0]
    weights = deciding[groups].astype(np.float64)
    tied = bool(deciding.sum() > 1)
    return Dissent(agreement, scores, groups, weights, tied, camp_scores, weak, names)


def warn_of_dissent(dissent: Dissent) -> None:
    """Warn if several camps are the largest, or if the second camp is almost as large."""
    camps = np.bincount(dissent.groups)
    if dissent.tied or (len(camps) > 1 and camps[1] > _CLOSE_CAMP * camps[0]):
        close = "" if dissent.tied else "; the decision is close"
        warn_user(dissent.in_words() + close, DissentWarning)


def chance_scores(counts: PairCounts) -> tuple[Floats, Floats]:
    """Compute adjusted Rand index and score of every pair of partitions, both (V, V).

    The score is the index divided by its standard deviation under chance. Let a_ij = 1 if the first
    partition puts the points i ≠ j together, b_ij = 1 if the second does, and Γ = Σ a_ij b_ij. If
    the n points of one partition are randomly permuted, the moments of Γ are (Mantel 1967, with
    falling factorials n_(k))

        E Γ  = A₀ B₀ / n_(2)
        E Γ² = 2 A₁ B₁ / n_(2) + 4 (A₂ − A₁)(B₂ − B₁) / n_(3)
               + (A₀² + 2 A₁ − 4 A₂)(B₀² + 2 B₁ − 4 B₂) / n_(4),

    A₀ = Σ a_ij, A₁ = Σ a_ij², A₂ = Σ_i (Σ_j a_ij)², and B likewise. For labels A₁ = A₀. For soft
    partitions a_ij = ⟨π_i, π_j⟩, and the moments are exact if no mass is missing. A partition with
    one cluster or with n clusters scores 0 with all others. Two partitions with fewer than four
    common points cannot show disagreement; their score is ``CUT``.
    """
    n, a0, b0 = counts.n_points, counts.in_row, counts.in_row.T
    a1 = a0 if counts.row_squares is None else counts.row_squares
    b1 = a1.T
    a2, b2 = counts.row_cubes, counts.row_cubes.T
    n2 = np.maximum(counts.n_pairs, 1.0)
    n3, n4 = n2 * np.maximum(n - 2, 1.0), n2 * np.maximum((n - 2) * (n - 3), 1.0)
    mean = a0 * b0 / n2
    variance = _variance((a0, a1, a2), (b0, b1, b2), n2, n3, n4)
    span = (a0 + b0) / 2 - mean
    informative = _varies(a0, a1, n2) & _varies(b0, b1, n2) & (span > 0)
    safe = np.where(span > 0, span, 1.0)
    agreement = np.where(span > 0, (counts.together - mean) / safe, (counts.mirkin == 0) * 1.0)
    deviation = np.clip(np.sqrt(variance) / safe, LEAST_DEVIATION, MOST_DEVIATION)
    scores = np.where(informative, agreement / deviation, 0.0)
    return agreement, np.where(n < _FEWEST_COMMON, CUT, scores)


def _shortened(items: Iterable[Any]) -> list[str]:
    """Return the items as texts; an ellipsis replaces those beyond the first ten."""
    texts = [str(item) for item in items]
    return texts if len(texts) <= _MOST_LISTED else [*texts[:_MOST_LISTED], "…"]


def _variance(a: tuple[Any, ...], b: tuple[Any, ...], n2: Any, n3: Any, n4: Any) -> Any:
    """Return E Γ² − (E Γ)² of :func:`chance_scores` from A₀, A₁, A₂ and B₀, B₁, B₂."""
    (a0, a1, a2), (b0, b1, b2) = a, b
    square = (
        2 * a1 * b1 / n2
        + 4 * (a2 - a1) * (b2 - b1) / n3
        + (a0**2 + 2 * a1 - 4 * a2) * (b0**2 + 2 * b1 - 4 * b2) / n4
    )
    # with 10⁸ points rounding can make this difference negative
    return np.maximum(square - (a0 * b0 / n2) ** 2, 0.0)


def _varies(total: Floats, squares: Floats, n_pairs: Floats) -> Bools:
    """Return whether a_ij is not constant, from Σ a_ij and Σ a_ij²."""
    varies: Bools = squares * n_pairs - total**2 > _ROUNDING * total**2
    return varies & (total > 0)


class GroupMoments(NamedTuple):
    """Sums over the pairs of points i ≠ j that partitions v and w both label, each (V, V).

    With a_ij and b_ij as in :func:`chance_scores`: the number of ``pairs``, Σ a_ij (``together``),
    Σ a_ij b_ij (``products``), the same less its expectation (``excess``), and Σ d_i e_i
    (``degrees``), where d_i and e_i are the shares of the other points with which v and w put
    point i. Their means over the partitions of two groups are the moments of the co-association
    matrices A and B of these groups, which Mantel's test needs.
    """

    pairs: Floats
    together: Floats
    products: Floats
    excess: Floats
    degrees: Floats

    @classmethod
    def of(cls, counts: PairCounts) -> GroupMoments:
        """Return the moments of partitions from the counts of their pairs."""
        pairs, expected = counts.n_pairs, counts.in_row * counts.in_row.T
        others = np.maximum(counts.n_points.diagonal() - 1, 1.0)
        shares = counts.degree_products / (others[:, None] * others)
        return cls(
            pairs,
            counts.in_row,
            counts.together,
            counts.together - expected / np.maximum(pairs, 1.0),
            pairs * shares / np.maximum(counts.n_points, 1.0),
        )

    def score(self, first: Ints, second: Ints) -> float:
        """Return the correlation of two groups, divided by its deviation under chance."""
        across = np.ix_(first, second)
        n2 = self.pairs[across].mean()
        if n2 < _FEWEST_COMMON * (_FEWEST_COMMON - 1):
            return CUT  # too few common points to show disagreement
        n = 0.5 + np.sqrt(0.25 + n2)  # n (n − 1) = n2
        (a0, a1, a2, a), (b0, b1, b2, b) = self._own(first, n), self._own(second, n)
        if min(a, b) <= 0:
            return 0.0
        n3, n4 = n2 * (n - 2), n2 * (n - 2) * (n - 3)
        span = np.sqrt(a * b)
        deviation = np.sqrt(_variance((a0, a1, a2), (b0, b1, b2), n2, n3, n4)) / span
        correlation = self.excess[across].mean() / span
        return float(correlation / np.clip(deviation, LEAST_DEVIATION, MOST_DEVIATION))

    def weak(self, group: Ints) -> Bools:
        """Return which partitions of a group agree with the others much less than is usual in it.

        The agreement of v with the others is Σ_w excess_vw / Σ_w (bound_vw − expected_vw), where
        the bound min(Σ a, Σ b) of Σ a b is reached if v or w divides the clusters of the other.
        """
        own = np.ix_(group, group)
        together, products = self.together[own], self.products[own]
        others = len(group) - 1
        is_hard = np.allclose(products.diagonal(), together.diagonal(), rtol=_ROUNDING)
        if others < _FEWEST_IN_CAMP - 1 or not is_hard:
            return np.zeros(len(group), dtype=np.bool_)
        apart = ~np.eye(len(group), dtype=np.bool_)
        excess = self.excess[own]
        above = np.minimum(together, together.T) - (products - excess)
        reached = (excess * apart).sum(axis=1) / np.maximum((above * apart).sum(axis=1), 1.0)
        enough = (self.pairs[own] * apart).sum(axis=1) >= others * _FEWEST_LABELLED**2
        return enough & (reached < _WEAK * np.median(reached))

    def _own(self, group: Ints, n: float) -> tuple[float, float, float, float]:
        """Return Σ A_ij, Σ A_ij², Σ_i d_i² and the centred Σ A_ij² of one group for n points."""
        n2 = n * (n - 1)
        products = n2 * self._mean_within(group, self.products)
        excess = n2 * self._mean_within(group, self.excess)
        if excess <= _ROUNDING * products:
            excess = 0.0  # A is constant up to rounding
        degrees = n2 * (n - 1) * self._mean_within(group, self.degrees)
        return n2 * self._mean_within(group, self.together), products, degrees, excess

    def _mean_within(self, group: Ints, sums: Floats) -> float:
        """Return the mean of sums / pairs over all v and w in a group.

        If labels are missing, v ≠ w may share few points, and their quotients vary much. So their
        sums are divided, not each of them.
        """
        own = np.ix_(group, group)
        values, pairs = sums[own], self.pairs[own]
        same = float((values.diagonal() / np.maximum(pairs.diagonal(), 1.0)).mean())
        g, others = len(group), pairs.sum() - pairs.trace()
        if others <= 0:
            return same
        return same / g + (1 - 1 / g) * float(values.sum() - values.trace()) / float(others)


def _camps_of_tree(moments: GroupMoments, scores: Floats) -> list[Ints]:
    """Divide the tree of the partitions where two branches do not agree; the largest camp first."""
    V = len(scores)
    # linkage needs distances ≥ 0: a score s becomes top − s
    top = max(float(scores.max()), CUT)
    distance = top - scores
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), method="average")
    members = [np.array([v]) for v in range(V)]
    for left, right in tree[:, :2].astype(np.int64):
        members.append(np.concatenate([members[left], members[right]]))
    camps, open_nodes = [], [2 * V - 2]
    while open_nodes:
        node = open_nodes.pop()
        if node < V:
            camps.append(members[node])
            continue
        left, right = tree[node - V, :2].astype(np.int64)
        if moments.score(members[left], members[right]) >= CUT:
            camps.append(members[node])
        else:
            open_nodes += [left, right]
    return _joined_to_largest(moments, sorted(camps, key=lambda camp: (-len(camp), camp.min())))


def _joined_to_largest(moments: GroupMoments, camps: list[Ints]) -> list[Ints]:
    """Join smaller camps that agree with the largest: the tree may have parted them by chance."""
    largest, *others = camps
    place = 0
    while place < len(others):
        if moments.score(largest, others[place]) >= CUT:
            largest, place = np.concatenate([largest, others.pop(place)]), 0
        else:
            place += 1
    return [largest, *others]
