"""The advertisers most like one: by their segments, their pooled curves and their texts.

The likeness of two advertisers a and b is a number from 0 to 1, the same both ways:

    likeness = Σ_s min(π_as, π_bs) · (1 − max_g |W_a(g) − W_b(g)|) · (1 + max(cos(t_a, t_b), 0)) / 2

that is, how much of their shares π in the segments they have in common; how near their pooled
win curves are, by the Kolmogorov–Smirnov distance, at so many bids spread over the grid; and how
near their texts are. Pooled curves hold an advertiser's own evidence as far as there is any.
Where one of the two has no text the cosine is 0; where the model has no texts at all, the last
factor is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.runtime.compiled_code import njit

if TYPE_CHECKING:
    from coterie.ads.forecasts.fitted_market import FittedMarket
    from coterie.ads.forecasts.forecast_tables import ForecastTables

__all__ = ["Neighbours"]

_BIDS = 32


class Neighbours:
    """Finds the advertisers most like one, in one pass over all."""

    def __init__(self, model: FittedMarket, tables: ForecastTables) -> None:
        n_bins = len(model.edges_)
        bins = np.unique(np.linspace(0, n_bins - 1, min(_BIDS, n_bins)).round().astype(np.int64))
        self._shares = np.ascontiguousarray(model.shares_, dtype=np.float32)
        self._wins = tables.win_rates(bins)
        vectors = np.zeros((len(self._shares), 0)) if model.vectors_ is None else model.vectors_
        self._texts = np.require(vectors, np.float64, ["C", "W"])
        self._has_text = self._texts.any(axis=1)
        if len(self._shares):
            self.of(0)  # compiled now, so that no question waits for it

    def of(self, row: int, n: int = 8) -> list[tuple[int, float]]:
        """Return rows and likenesses of at most n others, most alike first; of equals the first.

        Advertisers that have nothing in common with it are left out.
        """
        rows, likeness = _most_alike(row, n, self._shares, self._wins, self._texts, self._has_text)
        return list(zip(rows.tolist(), likeness.tolist(), strict=True))


@njit(nogil=True, error_model="numpy")
def _most_alike(row: Any, n: Any, shares: Any, wins: Any, texts: Any, has_text: Any) -> Any:
    rows = np.empty(n, np.int64)
    likeness = np.zeros(n)
    found = 0
    for other in range(len(shares)):
        if other == row:
            continue
        least = likeness[n - 1]  # 0 until there are n
        bound = _without_texts(row, other, shares, wins, least)
        if bound <= least:
            continue
        alike = bound * _by_texts(row, other, texts, has_text)
        if alike <= least:
            continue
        place = min(found, n - 1)
        while place > 0 and likeness[place - 1] < alike:
            rows[place], likeness[place] = rows[place - 1], likeness[place - 1]
            place -= 1
        rows[place], likeness[place] = other, alike
        found = min(found + 1, n)
    return rows[:found], likeness[:found]


# sums in any order: the compiler makes vectors of them, and both ways the same
@njit(nogil=True, error_model="numpy", fastmath=True)
def _without_texts(a: Any, b: Any, shares: Any, wins: Any, least: Any) -> Any:
    """Return the first two factors, or a bound on them that does not exceed ``least``."""
    in_common = np.float32(0.0)
    for s in range(shares.shape[1]):
        share, other = shares[a, s], shares[b, s]
        in_common += share if share < other else other
    common = min(np.float64(in_common), 1.0)
    if common <= least:
        return common
    gap = np.float32(0.0)
    for g in range(wins.shape[1]):
        apart = abs(wins[a, g] - wins[b, g])
        gap = apart if apart > gap else gap
    return common * (1.0 - np.float64(gap))


@njit(nogil=True, error_model="numpy", fastmath=True)
def _by_texts(a: Any, b: Any, texts: Any, has_text: Any) -> Any:
    if texts.shape[1] == 0:
        return 1.0
    cosine = 0.0
    if has_text[a] and has_text[b]:
        for d in range(texts.shape[1]):
            cosine += texts[a, d] * texts[b, d]
    return (1.0 + min(max(cosine, 0.0), 1.0)) / 2.0
