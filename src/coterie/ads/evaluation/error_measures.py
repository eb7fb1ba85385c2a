"""Error measures: how far forecasts are from what happened, over some advertisers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "STRATA",
    "Difference",
    "Measures",
    "measure",
    "paired_difference",
    "share_inside",
    "strata_of",
]

Floats = NDArray[np.float64]

#: Bids in the training days: name, from, to (exclusive).
STRATA: tuple[tuple[str, float, float], ...] = (
    ("new", 0, 1),
    ("1–9 bids", 1, 10),
    ("10–199 bids", 10, 200),
    ("200–1,999 bids", 200, 2000),
    ("2,000 bids and more", 2000, np.inf),
)


@dataclass(frozen=True)
class Measures:
    """Errors of a forecast f of y over some advertisers; a measure that is not defined is None."""

    wape: float | None  # Σ|f − y| / Σ y, the headline: every impression counts alike
    wape_standard_error: float | None  # over advertisers: that of a ratio of two sums
    mape: float | None  # mean of |f − y| / y over the advertisers with y > 0, the paper's
    mape_advertisers: int  # how many those are
    smape: float | None  # mean of 2|f − y| / (f + y) over those where either is above 0
    bias: float | None  # Σ(f − y) / Σ y
    # share of advertisers with y inside the interval of level 90%, with given supply
    coverage: float | None
    advertisers: int

    def as_dict(self) -> dict[str, float | int | None]:
        """Return the measures as plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Difference:
    """WAPE of one source less that of another, on the same advertisers."""

    difference: float
    standard_error: float


def measure(
    forecast: Floats, truth: Floats, low: Floats | None = None, high: Floats | None = None
) -> Measures:
    """Compare a forecast with what happened, advertiser by advertiser; all are (A,) arrays.

    >>> found = measure(np.array([8.0, 5.0]), np.array([10.0, 0.0]))
    >>> found.wape, found.mape, found.mape_advertisers, round(found.smape, 3), found.bias
    (0.7, 0.2, 1, 1.111, 0.3)
    """
    error, total = np.abs(forecast - truth), float(truth.sum())
    positive, either = truth > 0, (truth + forecast) > 0
    return Measures(
        wape=float(error.sum()) / total if total > 0 else None,
        wape_standard_error=_ratio_error(error, truth),
        mape=_mean(error[positive] / truth[positive]),
        mape_advertisers=int(positive.sum()),
        smape=_mean(2 * error[either] / (forecast + truth)[either]),
        bias=float((forecast - truth).sum()) / total if total > 0 else None,
        coverage=None if low is None or high is None else share_inside(truth, low, high),
        advertisers=len(truth),
    )


def share_inside(truth: Floats, low: Floats, high: Floats) -> float | None:
    """Return the share of values inside their intervals; None without values or intervals.

    >>> share_inside(np.array([1.0, 5.0]), np.zeros(2), np.full(2, 3.0))
    0.5
    """
    # the ends are NaN if the log has no such events
    if not len(truth) or np.isnan(low).any():
        return None
    return float(((truth >= low) & (truth <= high)).mean())


def paired_difference(first: Floats, second: Floats, truth: Floats) -> Difference:
    """Return WAPE of ``first`` minus WAPE of ``second``, and its standard error over advertisers.

    With δ = |f₁ − y| − |f₂ − y| for each of the A advertisers the difference is Σδ / Σy and its
    standard error √(A · var δ) / Σy.

    >>> paired_difference(np.array([9.0, 4.0]), np.array([8.0, 4.0]), np.array([10.0, 4.0]))
    Difference(difference=-0.0714..., standard_error=0.0714...)
    """
    delta = np.abs(first - truth) - np.abs(second - truth)
    total = float(truth.sum())
    if total <= 0 or len(delta) < 2:
        return Difference(float("nan"), float("nan"))
    error = float(np.sqrt(len(delta) * delta.var(ddof=1))) / total
    return Difference(float(delta.sum()) / total, error)


def strata_of(observations: Floats) -> Mapping[str, NDArray[np.bool_]]:
    """Return the advertisers in each stratum of :data:`STRATA`, by bids in the training days."""
    return {name: (observations >= low) & (observations < high) for name, low, high in STRATA}


def _ratio_error(error: Floats, truth: Floats) -> float | None:
    """Return √(A · var(|f − y| − WAPE · y)) / Σ y, the standard error of Σ|f − y| / Σ y."""
    total = float(truth.sum())
    if total <= 0 or len(truth) < 2:
        return None
    left = error - truth * (error.sum() / total)
    return float(np.sqrt(len(left) * left.var(ddof=1))) / total


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None
