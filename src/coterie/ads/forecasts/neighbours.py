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

from typing import TYPE_CHECKING

import numpy as np

import coterie.ads.forecasts.kernels as kernels

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
        self._texts = np.ascontiguousarray(vectors, dtype=np.float64)
        self._has_text = self._texts.any(axis=1).view(np.uint8)

    def of(self, row: int, n: int = 8) -> list[tuple[int, float]]:
        """Return rows and likenesses of at most n others, most alike first; of equals the first.

        Advertisers that have nothing in common with it are left out.
        """
        rows, likeness = kernels.most_alike(
            row, n, self._shares, self._wins, self._texts, self._has_text
        )
        return list(zip(rows.tolist(), likeness.tolist(), strict=True))
