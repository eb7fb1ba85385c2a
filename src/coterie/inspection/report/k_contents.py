"""The part of the report on the number of clusters K."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.consensus.diagnostics import k_choice_of

__all__ = ["KPart", "finite_or_none", "k_part"]


@dataclass(frozen=True)
class KPart:
    """The choice of the number of clusters; ``curves`` have a value, or None, for each of ``ks``.

    ``by_criterion`` has the K that each criterion alone chooses. ``is_weak`` says that other
    numbers are almost as good, or that no number is stable; ``reason`` tells which.
    """

    best_k: int
    reason: str
    is_weak: bool
    ks: list[int]
    curves: dict[str, list[float | None]]
    by_criterion: dict[str, int | None]


def k_part(estimator: Any) -> KPart | None:
    """Return the choice of K of a fitted estimator; None if the number was given.

    Every array over K is kept, so that new criteria are shown without a change here.

    >>> from coterie import EvidenceAccumulation
    >>> k_part(EvidenceAccumulation(2).fit([[0], [1]])) is None
    True
    """
    choice = k_choice_of(estimator)
    if choice is None:
        return None
    curves = {
        name: [finite_or_none(value) for value in values.tolist()]
        for name, values in choice.columns().items()
    }
    return KPart(
        best_k=choice.best_k,
        reason=choice.reason,
        is_weak=choice.is_weak,
        ks=choice.ks.tolist(),
        curves=curves,
        by_criterion=choice.by_criterion,
    )


def finite_or_none(number: float | None) -> float | None:
    """Return a number, or None if it is unknown.

    >>> finite_or_none(1), finite_or_none(float("nan")), finite_or_none(None)
    (1.0, None, None)
    """
    return None if number is None or not np.isfinite(number) else float(number)
