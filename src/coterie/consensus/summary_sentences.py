"""The sentences that every summary of a consensus has, in Python and in the program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from coterie.consensus.robust.camps import Dissent
from coterie.runtime.wording import in_words, number_of

__all__ = [
    "bound_in_words",
    "clusters_in_words",
    "confidence_in_words",
    "dissent_in_words",
    "objective_in_words",
    "unlabelled_in_words",
]

_MOST_SIZES = 12
#: Relative gaps below these are errors of rounding, and print as 0.0%.
_ROUNDING = 1e-9
_LEAST_SHOWN = 0.001


def clusters_in_words(sizes: Iterable[int]) -> str:
    """Return the number of clusters and their sizes.

    >>> clusters_in_words([1200, 3])
    '2, of 1,200 and 3 points'
    """
    texts = [f"{size:,}" for size in sizes]
    shown = texts[:_MOST_SIZES]
    listed = in_words(shown) if len(texts) == len(shown) else ", ".join(shown) + ", …"
    return f"{len(texts)}, of {listed} points"


def confidence_in_words(mean: float) -> str:
    """Say how sure the labels are.

    >>> confidence_in_words(0.934)
    '0.93 on average (estimated probability that a label is right)'
    """
    return f"{mean:.2f} on average (estimated probability that a label is right)"


def unlabelled_in_words(n_points: int) -> str:
    """Say how many points have no label.

    >>> unlabelled_in_words(2)
    '2 points without a label in any partition, with -1'
    """
    return f"{number_of(n_points, 'point')} without a label in any partition, with -1"


def objective_in_words(objective: float, share_of_pairs: float) -> str:
    """Say what J is, and on which share of the pairs a voting partition differs.

    >>> objective_in_words(2621.5, 0.0832)
    'J = 2,621.5: on average a voting partition differs on 8.3% of the pairs'
    """
    return (
        f"J = {objective:,.1f}: on average a voting partition differs on {share_of_pairs:.1%} of "
        "the pairs"
    )


def bound_in_words(lower_bound: float, gap: float) -> str:
    """Say how far J is from its lower bound; ``gap`` is (J − bound)/J.

    >>> bound_in_words(2468.5, 0.0584)
    'no partition can have J below 2,468.5, so J could fall by at most 5.8%'
    >>> bound_in_words(2621.5, 0.0)
    'no partition has a lower J'
    """
    if gap < _ROUNDING:
        return "no partition has a lower J"
    fall = f"at most {gap:.1%}" if gap >= _LEAST_SHOWN else f"less than {_LEAST_SHOWN:.1%}"
    return f"no partition can have J below {lower_bound:,.1f}, so J could fall by {fall}"


def dissent_in_words(dissent: Dissent, names: Sequence[str], partition_weights: Any) -> str:
    """Say which partitions agree and which dissent, and whether these vote too."""
    text = dissent.in_words(names)
    if len(dissent.dissenters) and partition_weights.all():
        text += "; all of them vote"
    return text
