"""Segment profiles: names, price levels, outliers and uncertain members; agreement of the views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.ads.curves.landscapes import Evidence, own_curves, win_curves
from coterie.ads.curves.shrinkage import win_variance
from coterie.arrays import Floats, Ints
from coterie.runtime.wording import percent

if TYPE_CHECKING:
    from coterie.ads.segments.memberships import Memberships
    from coterie.ads.segments.views import View

_PRICE_LEVELS = ("low price", "medium price", "high price")
#: In some bin, the curve of an outlier differs from that of its segment by more than this distance
#: and this many standard deviations; the bin has at least this many trials.
_LEAST_DISTANCE = 0.15
_LEAST_DEVIATIONS = 4.0
_FEWEST_TRIALS = 10.0
#: The largest share of an uncertain member is below this.
_CERTAIN = 0.6
#: Below this adjusted Rand index a view is taken as unrelated to the segments.
_UNRELATED = 0.05
#: A theme is large in a segment if so many of its texts have it.
_LARGE_THEME = 0.15
_LONGEST_THEME = 80  # characters

#: Words, themes and purity of the texts of a segment.
About = tuple[list[str], tuple[str, ...], float | None]


@dataclass(frozen=True)
class SegmentProfile:
    """Profile of a segment."""

    name: str  # its characteristic words and its price level
    words: list[str]
    price_level: str
    median_price: float  # the bid in micros that wins half of its auctions, or the last edge
    size: int  # number of members; a member has its largest share in the segment
    observations: float  # number of bids of its members
    # words of each theme of at least 15% of its texts, the most frequent first
    themes: tuple[str, ...] = ()
    purity: float | None = None  # share of the most frequent theme; None without texts

    @property
    def mixture(self) -> str:
        """What is to be known of a segment of several themes, as a sentence; otherwise empty."""
        if len(self.themes) < 2 or self.purity is None:
            return ""
        first, *others = self.themes
        return (
            f"A mixture: {percent(self.purity)} of its texts are about {first}, others about "
            f"{' and '.join(others)}."
        )


def describe_segments(
    curves: Floats, edges: Ints, labels: Ints, observations: Floats, about: Sequence[About]
) -> list[SegmentProfile]:
    """Describe every segment by its characteristic words and its price level.

    ``curves`` (K, G) are win rates of a new advertiser of each segment at the bids ``edges``;
    ``about`` is what :func:`segment_texts` returns. A segment of several large themes is named by
    the first word of each.
    """
    K, inside = len(curves), labels >= 0
    sizes = np.bincount(labels[inside], minlength=K)
    bids = np.bincount(labels[inside], observations[inside], K)
    prices = [bid_that_wins_half(curve, edges) for curve in curves]
    # thirds of the segments by price; two segments are low and high, and one is medium
    rank = np.argsort(np.argsort(prices, kind="stable"), kind="stable")
    third = rank * 3 // K if K > 2 else rank * 2 + (K == 1)
    profiles, names = [], set[str]()
    for s, (words, themes, purity) in enumerate(about):
        subject, level = " ".join(words[:2]) or f"segment {s + 1}", _PRICE_LEVELS[third[s]]
        if len(themes) > 1:
            subject = " + ".join(theme.split()[0] for theme in themes)
        name, number = f"{subject}, {level}", 1
        while name in names:
            number += 1
            name = f"{subject}, {level} ({number})"
        names.add(name)
        profiles.append(
            SegmentProfile(
                *(name, words, level, prices[s], int(sizes[s]), float(bids[s])), themes, purity
            )
        )
    return profiles


def segment_texts(
    texts: Sequence[str], vectors: Floats | None, labels: Ints, K: int
) -> list[About]:
    """Return what the texts, with ``vectors`` (A, d), of each of the segments are about."""
    # imported here because they need scikit-learn, which reading a profile does not
    from coterie.ads.segments.text_view import characteristic_words
    from coterie.ads.segments.views import text_themes

    words = characteristic_words(list(texts), labels, n=3) if any(texts) else []
    words += [[]] * (K - len(words))
    theme = np.full(len(labels), -1) if vectors is None else text_themes(vectors)
    of_themes = characteristic_words(list(texts), theme, n=2)
    names = [" ".join(two)[:_LONGEST_THEME] for two in of_themes]
    inside = (labels >= 0) & (theme >= 0)
    counts = np.zeros((K, len(names)))
    np.add.at(counts, (labels[inside], theme[inside]), 1)
    found: list[About] = []
    for s, count in enumerate(counts):
        share = count / max(count.sum(), 1.0)
        order = [t for t in np.argsort(-share, kind="stable").tolist() if share[t] >= _LARGE_THEME]
        large = tuple(names[t] or f"theme {t + 1}" for t in order)
        found.append((list(words[s]), large, float(share.max()) if order else None))
    return found


def bid_that_wins_half(curve: Floats, edges: Ints) -> float:
    """Return the first edge at which a curve reaches one half, or else the last edge."""
    at = int(np.searchsorted(curve, 0.5))
    return float(edges[min(at, len(edges) - 1)])


def segment_curves(evidence: Evidence, memberships: Memberships) -> Floats:
    """Compute W of every segment and, in the last row, of all advertisers, (K + 1, G)."""
    trials = memberships.shares.T @ evidence.trials
    return win_curves(memberships.rates, trials + 1.0, evidence.form)


def distances_from_segments(evidence: Evidence, memberships: Memberships, curves: Floats) -> Floats:
    """Return the distance of each advertiser's own curve from that of its segment, (A,).

    ``curves`` are those of :func:`segment_curves`, perhaps of other advertisers. Only differences
    above four standard deviations of a curve with the advertiser's trials count.
    """
    own = own_curves(evidence)
    deviation = np.sqrt(win_variance(evidence, memberships.prior, 1.0))
    difference = np.abs(own - curves[memberships.labels])
    distance = np.where(evidence.trials >= _FEWEST_TRIALS, difference, 0.0)
    distance[distance < _LEAST_DEVIATIONS * deviation] = 0.0
    return np.asarray(distance.max(axis=1, initial=0.0))


def outlying_members(distances: Floats) -> tuple[Ints, Floats]:
    """Return the advertisers farther than 0.15 from their segment, the farthest first, and how far.

    ``distances`` (A,) are those of :func:`distances_from_segments`.
    """
    outliers = np.flatnonzero(distances > _LEAST_DISTANCE)
    outliers = outliers[np.argsort(-distances[outliers], kind="stable")]
    return outliers, distances[outliers]


def doubtful_members(memberships: Memberships, observations: Floats) -> Ints:
    """Return the advertisers with bids whose largest share is small, the smallest first."""
    most = memberships.shares[:, :-1].max(axis=1, initial=0.0)
    doubtful = np.flatnonzero((most < _CERTAIN) & (observations > 0))
    return doubtful[np.argsort(most[doubtful], kind="stable")]


@dataclass(frozen=True)
class ViewAgreement:
    """Agreement of V views."""

    names: list[str]
    ari: Floats  # (V, V), adjusted Rand index of every pair of views
    with_segments: Floats  # (V,), adjusted Rand index with the segments
    weights: Floats  # (V,), weight in the consensus; they sum to 1
    # for each pair of views, then for each view with the segments: a, b, tpn, fpn, ari; the paper's
    # TPN is the share of pairs of advertisers on which both agree, its FPN the share of the others
    pairs: list[dict[str, Any]]
    placed: Ints  # (A, V), most frequent segment of the advertiser's cluster; −1 without label
    dissenting: str  # view with weight 0 or unrelated to the segments; empty if there is none
    sentence: str


def compare_views(
    views: Mapping[str, View],
    segments: Ints,
    partition_weights: Floats | None,
    rows: Ints | None = None,
) -> ViewAgreement:
    """Compare views by their partitions with the nearest number of clusters.

    ``segments`` (A,) are the labels of the consensus, and ``partition_weights`` its weights of the
    partitions of all views; None means equal weights. The views are those of some ``rows``, by
    default of all; they do not place the others.
    """
    from coterie.inspection.scores import mirkin_distance  # needs scikit-learn

    names, rows = list(views), np.arange(len(segments)) if rows is None else rows
    placed = np.full((len(segments), len(names)), -1, dtype=np.int64)
    segments = segments[rows]
    labelled, n_segments = {"segments": segments}, int(segments.max(initial=-1)) + 1
    for place, (name, view) in enumerate(views.items()):
        # the partition with the nearest number of clusters; of several, the middle one
        distance = np.array([abs(chosen["k"] - n_segments) for chosen in view.settings])
        distance = np.where((view.partitions >= 0).any(axis=0), distance, np.inf)
        nearest = np.flatnonzero(distance == distance.min())
        labelled[name] = shown = view.partitions[:, nearest[len(nearest) // 2]]
        # the most frequent segment of each cluster; −1 for one without segments
        table = np.zeros((shown.max(initial=-1) + 1, n_segments + 1))
        known = (shown >= 0) & (segments >= 0)
        np.add.at(table, (shown[known], segments[known]), 1)
        most = np.where(table.any(axis=1), table.argmax(axis=1), -1)
        placed[rows[shown >= 0], place] = most[shown[shown >= 0]]
    ari = np.array([[_ari(labelled[a], labelled[b]) for b in names] for a in names])
    with_segments = np.array([_ari(labelled[name], segments) for name in names])
    sizes = [view.partitions.shape[1] for view in views.values()]
    given = np.ones(sum(sizes)) if partition_weights is None else partition_weights
    weights = np.array([part.sum() for part in np.split(given, np.cumsum(sizes))[:-1]])
    weights = weights / max(weights.sum(), 1e-12)
    pairs: list[dict[str, Any]] = []
    for a, b in (*combinations(names, 2), *((name, "segments") for name in names)):
        one, other = labelled[a], labelled[b]
        both = (one >= 0) & (other >= 0)
        n = int(both.sum())
        pairs.append({"a": a, "b": b, "tpn": None, "fpn": None, "ari": None})
        if n > 1:
            differing = mirkin_distance(one[both], other[both]) / (n * (n - 1))
            pairs[-1] |= {"tpn": 1 - differing, "fpn": differing, "ari": _ari(one, other)}
    without_weight = [name for name, weight in zip(names, weights, strict=True) if weight == 0]
    dissenting = without_weight[0] if without_weight else ""
    if len(names) > 1 and not without_weight and with_segments.min() < _UNRELATED:
        dissenting = names[int(with_segments.argmin())]
    return ViewAgreement(
        names,
        ari.reshape(len(names), len(names)),
        with_segments,
        weights,
        pairs,
        placed,
        dissenting,
        _sentence(names, with_segments, weights, dissenting),
    )


def _ari(a: Ints, b: Ints) -> float:
    from coterie.inspection.scores import adjusted_rand_index  # needs scikit-learn

    both = (a >= 0) & (b >= 0)
    return adjusted_rand_index(a[both], b[both]) if both.sum() > 1 else 0.0


def _sentence(names: list[str], with_segments: Floats, weights: Floats, dissenting: str) -> str:
    if not names:
        return "No view distinguishes the advertisers."
    nearest, high = names[int(with_segments.argmax())], with_segments.max()
    first = f"The {nearest} view is nearest to the segments (adjusted Rand index {high:.2f})"
    if not dissenting:
        farthest = names[int(with_segments.argmin())]
        if farthest == nearest:
            return f"{first}."
        low = with_segments.min()
        return f"{first}, the {farthest} view is farthest ({low:.2f}); every view has some weight."
    at = names.index(dissenting)
    index = f"{with_segments[at]:.2f}"
    if weights[at] == 0:
        return (
            f"{first}. The {dissenting} view agrees with the others no better than chance "
            f"({index} with the segments) and has no weight."
        )
    return f"{first}. The {dissenting} view is almost unrelated to them ({index})."
