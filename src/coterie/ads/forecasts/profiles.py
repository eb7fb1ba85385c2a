"""Profiles of advertisers, segments and the model as a whole, as plain values for JSON.

The likeness of two advertisers a and b is a number from 0 to 1, the same both ways:

    likeness = Σ_s min(π_as, π_bs) · (1 − max_g |W_a(g) − W_b(g)|) · (1 + max(cos(t_a, t_b), 0)) / 2

that is, how much of their shares π in the segments they have in common; how near their pooled
win curves are, by the Kolmogorov–Smirnov distance, at so many bids spread over the grid; and how
near their texts are. Pooled curves hold an advertiser's own evidence as far as there is any.
Where one of the two has no text the cosine is 0; where the model has no texts at all, the last
factor is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.ads.curves.landscapes import PER_UNIT, BidShares, curve_at, own_curves, spend_curves
from coterie.ads.forecasts.calibration import LEVELS
from coterie.ads.forecasts.fitted_market import FittedMarket
from coterie.ads.forecasts.forecast_tables import ForecastTables, tables_of
from coterie.ads.forecasts.kernels import most_alike
from coterie.arrays import Floats, Ints
from coterie.runtime.wording import currency_symbol

_MICROS = 1_000_000
_POINTS = 64
_MOST_MEMBERS = 12
_LEAST_SHARE = 0.01
_COMPARED_BIDS = 32
_EVERYONE = "all advertisers"


class Profiles:
    """Profiles of a fitted model, by row.

    Nothing changes after construction: any number of threads may read. ``grid`` has the bids of
    all curves, in units of currency per thousand impressions (CPM).
    """

    def __init__(self, model: FittedMarket) -> None:
        self._model = model
        self._tables = tables_of(model)
        n_bins = len(model.edges_)
        bins = np.linspace(0, n_bins - 1, min(_COMPARED_BIDS, n_bins)).round().astype(np.int64)
        self._shares32 = np.ascontiguousarray(model.shares_, dtype=np.float32)
        self._wins = np.ascontiguousarray(self._tables.curves[0][:, np.unique(bins)])
        vectors = np.zeros((len(self._wins), 0)) if model.vectors_ is None else model.vectors_
        self._texts = np.ascontiguousarray(vectors, dtype=np.float64)
        self._has_text = self._texts.any(axis=1).view(np.uint8)
        self._on = shown_grid(model.edges_, model.masses_)
        self.grid: list[float] = (self._on / _MICROS).tolist()
        self._segment_curves = segments_on_grid(self._tables, len(model.segments_), self._on)
        self._shares_of_bids = bid_shares(model, self._on)
        self._outliers = frozenset(model.outliers_.tolist())
        self._doubtful = frozenset(model.doubtful_.tolist())
        self._segments = [self._segment(s) for s in range(len(model.segments_))]

    def summary(self) -> dict[str, Any]:
        """Return the model as a whole."""
        model = self._model
        return {
            "currency": model.currency_,
            "symbol": currency_symbol(model.currency_),
            "auction": model.auction_,
            "first_day": str(model.days_[0]),
            "last_day": str(model.days_[-1]),
            "days": len(model.days_),
            "advertisers": len(model.advertisers_),
            "segments": len(model.segments_),
            "rows": float(model.rows_),
            "interval": 0.9,
            "interval_levels": list(LEVELS),
            "half_life": None if np.isinf(model.choice_.half_life) else model.choice_.half_life,
            "warnings": list(model.warnings_),
            "grid": list(self.grid),
            "has_clicks": model.click_rate_ is not None,
            "has_texts": model.text_view_ is not None,
            "weekdays_seen": [bool(seen) for seen in model.price_levels_.has_weekday],
        }

    def segments(self) -> list[dict[str, Any]]:
        """Return one entry per segment, the largest first; none if the log has no segments."""
        return self._segments

    def advertiser(self, row: int) -> dict[str, Any]:
        """Return everything that is known of one advertiser."""
        model = self._model
        return {
            **self._named_segment(row),
            "confidence": float(np.clip(model.confidence_[row], 0, 1)),
            "observations": float(model.observations_[row]),
            "shares": self._shares(row),
            "bid": float(model.bid_[row]) / _MICROS,
            "wins": float(model.wins_[row]),
            "spend": float(model.cost_[row]) / PER_UNIT,
            "supply": self._tables.supply(row),
            "supply_by_weekday": [
                self._tables.supply(row, days) for days in self._tables.weekdays()
            ],
            "click_rate": _rate(model.click_rate_, row),
            "conversion_rate": _rate(model.conversion_rate_, row),
            "outlier": row in self._outliers,
            "doubtful": row in self._doubtful,
            "views": self._views(row),
            "neighbours": [
                {**self._named_segment(other), "likeness": likeness}
                for other, likeness in self.neighbours(row)
            ],
            "curve": "pooled",
            "why": self._tables.why(row),
            "curves": self._curves(row),
            "bid_shares": self._bid_shares(row),
        }

    def neighbours(self, row: int, n: int = 8) -> list[tuple[int, float]]:
        """Return rows and likenesses of at most n others alike, most alike first."""
        rows, likeness = most_alike(row, n, self._shares32, self._wins, self._texts, self._has_text)
        return list(zip(rows.tolist(), likeness.tolist(), strict=True))

    def _named_segment(self, row: int) -> dict[str, Any]:
        segment = int(self._model.labels_[row])
        return {
            "id": str(self._model.advertisers_[row]),
            "segment": segment if segment >= 0 else None,
            "segment_name": self._segment_name(segment),
        }

    def _segment_name(self, segment: int) -> str:
        return self._model.segments_[segment].name if segment >= 0 else ""

    def _shares(self, row: int) -> list[dict[str, Any]]:
        """Return the segments with a notable share, largest first; None is no segment."""
        shares = self._model.shares_[row]
        last = len(shares) - 1
        return [
            {
                "segment": None if s == last else s,
                "name": _EVERYONE if s == last else self._segment_name(s),
                "share": min(float(shares[s]), 1.0),
            }
            for s in np.argsort(-shares, kind="stable").tolist()
            if shares[s] >= _LEAST_SHARE
        ]

    def _views(self, row: int) -> list[dict[str, Any]]:
        """Return the segment in which each view would place it; None without a view of it."""
        agreement = self._model.agreement_
        dissenting = dissenting_views(self._model, row)
        return [
            {
                "view": name,
                "segment": segment if segment >= 0 else None,
                "segment_name": self._segment_name(segment),
                "dissents": name in dissenting,
            }
            for name, segment in zip(agreement.names, agreement.placed[row].tolist(), strict=True)
        ]

    def _curves(self, row: int) -> dict[str, Any]:
        model, tables = self._model, self._tables
        placement = tables.placer.placed(str(model.advertisers_[row]))
        found = tables.curves_at(placement, np.maximum(self._on, 1) / _MICROS)
        own = own_on_grid(model, row, self._on) if model.observations_[row] > 0 else None
        return {
            "grid": list(self.grid),
            "pooled": {name: curve.tolist() for name, curve in found.items()},
            "own": own,
            "segment": {
                # without segments the last, of all advertisers
                name: self._segment_curves[name][model.labels_[row]].tolist()
                for name in ("win", "cost")
            },
        }

    def _bid_shares(self, row: int) -> dict[str, Any] | None:
        """Return the c.d.f.s of wins and cost by bid, and those of the segment."""
        shares = self._shares_of_bids
        own = None if shares is None else shares.of_advertiser(row)
        if shares is None or own is None:
            return None
        segment = shares.of_segment(int(self._model.labels_[row]))
        return {name: {**one, "segment": segment[name]} for name, one in own.items()}

    def _segment(self, s: int) -> dict[str, Any]:
        model, profile = self._model, self._model.segments_[s]
        return {
            "index": s,
            "name": profile.name,
            "words": list(profile.words),
            "price_level": profile.price_level,
            "size": profile.size,
            "observations": profile.observations,
            "median_price": profile.median_price / _MICROS,
            "themes": list(profile.themes),
            "purity": profile.purity,
            "mixture": profile.mixture,
            **{name: curve[s].tolist() for name, curve in self._segment_curves.items()},
            "members": [
                {
                    "id": str(model.advertisers_[a]),
                    "confidence": float(np.clip(model.confidence_[a], 0, 1)),
                }
                for a in typical_members(model, s)
            ],
        }


def shown_grid(edges: Ints, masses: Ints | None = None) -> Ints:
    """Return at most 64 bids of the grid, spread evenly over it, with the first and the last.

    The ends of the bins of prices with mass are further ones. A log with one amount alone has a
    grid of one; a curve needs a second point, which is 0.

    >>> shown_grid(np.array([5, 9])).tolist(), shown_grid(np.array([5])).tolist()
    ([5, 9], [0, 5])
    """
    if len(edges) == 1:
        return np.append(0, edges)
    if len(edges) <= _POINTS:
        return edges
    evenly = np.linspace(0, len(edges) - 1, _POINTS * 3 // 4).round().astype(np.int64)
    # charts have a logarithmic axis: the rare high bids need points too
    apart = np.geomspace(edges[0], edges[-1], _POINTS // 4)
    bins = np.searchsorted(edges, [] if masses is None else masses)
    apart = np.minimum(np.searchsorted(edges, apart), len(edges) - 1)
    return edges[np.unique(np.concatenate([evenly, apart, bins - 1, bins]))]


def own_on_grid(model: FittedMarket, row: int, grid: Ints) -> dict[str, list[float]]:
    """Return ``win`` and ``cost`` of an advertiser by its own auctions alone, at P bids."""
    evidence = model.evidence(row)
    win = own_curves(evidence)
    paid = spend_curves(win, evidence)
    cost = np.divide(paid, win, out=np.zeros_like(paid), where=win > 0) / _MICROS
    both = {"win": win, "cost": cost}
    return {name: curve_at(curve, model.edges_, grid)[0].tolist() for name, curve in both.items()}


def segments_on_grid(tables: ForecastTables, n_segments: int, grid: Ints) -> dict[str, Floats]:
    """Return curves of a new advertiser of each segment and of any, (K + 1, P) each."""
    bids = np.maximum(grid, 1) / _MICROS
    found = [tables.curves_at(tables.placer.in_segment(s), bids) for s in [*range(n_segments), -1]]
    names = {"win": "win", "win_low": "low", "win_high": "high", "cost": "cost"}
    return {name: np.stack([one[key] for one in found]) for name, key in names.items()}


def bid_shares(model: FittedMarket, grid: Ints) -> BidShares | None:
    """Return the c.d.f.s of wins and cost by bid; None if the model does not keep its days."""
    stored = model.stored_days_
    return None if stored is None else BidShares(stored, model.labels_, grid)


def typical_members(model: FittedMarket, s: int) -> list[int]:
    """Return the members with the largest shares; of equal shares those with the most bids."""
    members = np.flatnonzero(model.labels_ == s)
    order = np.lexsort((-model.observations_[members], -model.confidence_[members].round(2)))
    return [int(a) for a in members[order][:_MOST_MEMBERS]]


def dissenting_views(model: FittedMarket, row: int) -> list[str]:
    """Return the views that would put an advertiser in another segment."""
    agreement = model.agreement_
    return [
        name
        for name, segment in zip(agreement.names, agreement.placed[row], strict=True)
        if segment not in {-1, model.labels_[row]}
    ]


def _rate(rates: Floats | None, row: int) -> float | None:
    return None if rates is None else float(rates[row])
