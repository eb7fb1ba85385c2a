"""The facts about a fitted consensus: collected once, and shown as text, as HTML and as JSON.

:func:`consensus_facts` is the only place that computes them. What shows them, :func:`summary_text`,
the summary of the program and the HTML report, reads the record and computes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import Any, Self

import numpy as np

from coterie.consensus.diagnostics import (
    dissent_of,
    fitted_consensus,
    k_choice_of,
    least_certain,
    partition_names,
    row_index,
)
from coterie.consensus.registry import consensus_method
from coterie.consensus.robust.feature_indices import indices_in_words
from coterie.runtime.wording import in_words, number_of, visible

#: Sizes of clusters in a text, points without much confidence, and characters of their names.
_MOST_SIZES, _MOST_UNCERTAIN, _MOST_CHARACTERS = 12, 5, 40
#: Width of the names before the lines of a summary.
_NAMES = 12
#: Relative gaps below this are errors of rounding.
_ROUNDING = 1e-9
_LEAST_SHOWN = 0.001


@dataclass(frozen=True)
class KFacts:
    """The choice of the number of clusters; ``curves`` have a value, or None, for each of ``ks``.

    ``by_criterion`` has the K that each criterion alone chooses. ``is_weak`` says that other
    numbers are almost as good, or that no number is stable; ``reason`` tells which.
    """

    recommended: int
    reason: str
    is_weak: bool
    by_criterion: dict[str, int | None]
    lower_bound: float | None
    ks: list[int]
    curves: dict[str, list[float | None]]

    @property
    def known_curves(self) -> dict[str, list[float | None]]:
        """The curves that have a value for some K."""
        return {
            name: values
            for name, values in self.curves.items()
            if any(value is not None for value in values)
        }

    def as_json(self) -> dict[str, Any]:
        """Return the facts with a row for each K in place of curves."""
        facts = asdict(self)
        ks, curves = facts.pop("ks"), facts.pop("curves")
        rows = zip(ks, *curves.values(), strict=True)
        return facts | {"table": [dict(zip(("k", *curves), row, strict=True)) for row in rows]}


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
    k_choice: KFacts | None
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
    method: str | None = None,
    find_dissent: bool = True,
) -> ConsensusFacts:
    """Collect the facts about a fitted consensus function, or a clusterer that holds one.

    ``names`` are those of the V partitions, by default of the columns; ``method`` is the key of
    the method in the registry. Without ``find_dissent`` there are camps only if the method found
    them: to find them takes time O(n·V²).

    >>> from coterie import RobustConsensus
    >>> est = RobustConsensus(2, random_state=0).fit([[0, 0], [0, 0], [0, 0], [1, 1], [1, 1]])
    >>> facts = consensus_facts(est, ["a", "b"])
    >>> facts.sizes, facts.camps[0].partitions
    ([3, 2], ['a', 'b'])
    """
    consensus = fitted_consensus(estimator)
    names = partition_names(consensus, names)
    labelled = np.flatnonzero(consensus.labels_ >= 0)
    n, n_points = len(labelled), len(consensus.labels_)
    weights, agreement = consensus.partition_weights_, consensus.partition_agreement_
    selected, links = getattr(consensus, "selected_", {}), getattr(consensus, "constraints_", None)
    loss = finite_or_none(getattr(consensus, "loss_", None))
    choice = k_choice_of(estimator)
    indices = getattr(estimator, "feature_indices_", None)
    votes = weights.tolist(), agreement.tolist(), consensus.partition_coverage_.tolist()
    index = row_index(estimator)
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
    return ConsensusFacts(
        method=type(consensus).__name__ if method is None else method,
        method_in_words=_method_in_words(consensus, method, loss),
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
        lower_bound=finite_or_none(getattr(consensus, "lower_bound_", None)),
        gap=finite_or_none(getattr(consensus, "gap_", None)),
        selected=str(selected["method"]) if selected else None,
        reason=str(selected["reason"]) if selected else None,
        loss=loss,
        k_choice=None if choice is None else k_facts(choice),
        feature_indices=None
        if not indices
        else {name: float(value) for name, value in indices.items() if np.isfinite(value)},
        constraints=None if not links else {**links, "moved": len(links["moved"])},
        shortcuts=list(getattr(estimator, "shortcuts_", ())),
        remarks=list(getattr(estimator, "notes_", ())),
        uncertain=[
            UncertainPoint(str(one.name), one.point, one.cluster, one.confidence)
            for one in least_certain(estimator, _MOST_UNCERTAIN)
        ],
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


def k_facts(choice: Any) -> KFacts:
    """Return the facts about a comparison of numbers of clusters; every array over K is kept."""
    arrays = {
        name: values
        for name, values in vars(choice).items()
        if name not in ("ks", "eigenvalues") and np.shape(values) == choice.ks.shape
    }
    return KFacts(
        recommended=int(choice.best_k),
        reason=choice.reason,
        is_weak=bool(choice.is_weak),
        by_criterion={
            name: None if k is None else int(k) for name, k in choice.by_criterion.items()
        },
        lower_bound=finite_or_none(choice.lower_bound),
        ks=choice.ks.tolist(),
        curves={
            name: [value if np.isfinite(value) else None for value in values.tolist()]
            for name, values in arrays.items()
        },
    )


def finite_or_none(number: float | None) -> float | None:
    """Return a number, or None if it is unknown."""
    return None if number is None or not np.isfinite(number) else float(number)


def _method_in_words(consensus: Any, key: str | None, loss: float | None) -> str:
    text = type(consensus).__name__
    by = f" (by {consensus.partitioner_})" if hasattr(consensus, "partitioner_") else ""
    if key is not None:
        method = consensus_method(key)
        text = f"{method.title}{by}, {method.summary}"
    return text if loss is None else f"{text}; its own objective is {loss:,.6g}"


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
        pairs = [(escape(line[:_NAMES]), escape(line[_NAMES:])) for line in lines]
        rows = "".join(
            f"<tr><th {left}>{name}</th><td {left}>{text}</td></tr>" for name, text in pairs
        )
        return f"<table><caption {left}>{escape(head)}</caption><tbody>{rows}</tbody></table>"


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
        lines["chosen K"] = f"{facts.k_choice.recommended}: {facts.k_choice.reason}"
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
    if facts.selected is not None:
        lines["answer"] = f"{facts.selected}: {facts.reason}"
    else:
        lines["method"] = facts.method_in_words
    return lines


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
    fall = f"at most {gap:.1%}" if gap >= _LEAST_SHOWN else f"less than {_LEAST_SHOWN:.1%}"
    return f"no partition can have J below {facts.lower_bound:,.1f}, so J could fall by {fall}"


def _short_name(name: str) -> str:
    text = " ".join(visible(name).split())
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
