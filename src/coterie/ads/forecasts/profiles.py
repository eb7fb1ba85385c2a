"""What is known of an advertiser, of a segment and of a model, as plain values for JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.landscapes import (
    PER_UNIT,
    Evidence,
    curve_at,
    own_curves,
    spend_curves,
    win_curves,
)
from coterie.ads.curves.pooling import mixed_rates, pooled_curves, win_variance
from coterie.ads.forecasts.fitted_market import FittedMarket
from coterie.ads.forecasts.forecast_tables import tables_of
from coterie.ads.forecasts.neighbours import Neighbours
from coterie.ads.forecasts.pooled_curves import NINE_IN_TEN
from coterie.runtime.wording import currency_symbol

__all__ = [
    "ProfileBook",
    "dissenting_views",
    "own_on_grid",
    "pooled_on_grid",
    "segments_on_grid",
    "shown_grid",
    "typical_members",
]

Floats = NDArray[np.float64]
Grid = NDArray[np.int64]

_MICROS = 1_000_000
_POINTS = 64
_MOST_MEMBERS = 12
_LEAST_SHARE = 0.01
_EVERYONE = "all advertisers"


class ProfileBook:
    """What a fitted model knows, looked up by row.

    Nothing changes after construction: any number of threads may read. ``grid`` has the bids of
    all curves, in units of currency per thousand impressions (CPM).
    """

    def __init__(self, model: FittedMarket) -> None:
        self._model = model
        self._tables = tables_of(model)
        self._neighbours = Neighbours(model, self._tables)
        self._on = shown_grid(model.edges_)
        self.grid: list[float] = (self._on / _MICROS).tolist()
        self._segment_curves = segments_on_grid(model, self._on)
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
            "grid": list(self.grid),
            "has_clicks": model.click_rate_ is not None,
            "has_texts": model.text_view_ is not None,
            "weekdays_seen": [bool(seen) for seen in model.supply_.seen],
        }

    def segments(self) -> list[dict[str, Any]]:
        """One entry a segment, the largest first; none where the log has no segments."""
        return self._segments

    def advertiser(self, row: int) -> dict[str, Any]:
        """All that is known of one advertiser."""
        model = self._model
        level = float(model.supply_.level[row])
        return {
            **self._place(row),
            "shares": self._shares(row),
            "bid": float(model.bid_[row]) / _MICROS,
            "wins": float(model.wins_[row]),
            "spend": float(model.cost_[row]) / PER_UNIT,
            "supply": level,
            "supply_by_weekday": (level * model.supply_.weekday).tolist(),
            "click_rate": _rate(model.click_rate_, row),
            "conversion_rate": _rate(model.conversion_rate_, row),
            "outlier": row in self._outliers,
            "doubtful": row in self._doubtful,
            "views": self._views(row),
            "neighbours": [
                {**self._named_segment(other), "likeness": likeness}
                for other, likeness in self._neighbours.of(row)
            ],
            "curve": "pooled",
            "why": self._tables.why(row),
            "curves": self._curves(row),
        }

    def _place(self, row: int) -> dict[str, Any]:
        return {
            **self._named_segment(row),
            "confidence": float(np.clip(self._model.confidence_[row], 0, 1)),
            "observations": float(self._model.observations_[row]),
        }

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
        """Where each view would put it; None where the view says nothing."""
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
        model = self._model
        evidence = model.evidence(row)
        prior = mixed_rates(model.shares_[[row]], model.rates_, model.form_)
        pooled = pooled_on_grid(model, evidence, prior, self._on)
        own = own_on_grid(evidence, self._on) if model.observations_[row] > 0 else None
        return {
            "grid": list(self.grid),
            "pooled": {
                "win": pooled["win"][0].tolist(),
                "low": pooled["win_low"][0].tolist(),
                "high": pooled["win_high"][0].tolist(),
                "cost": pooled["cost"][0].tolist(),
            },
            "own": None if own is None else {k: curve[0].tolist() for k, curve in own.items()},
            "segment": {
                # without segments the last, of all advertisers
                name: self._segment_curves[name][model.labels_[row]].tolist()
                for name in ("win", "cost")
            },
        }

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
            **{name: curve[s].tolist() for name, curve in self._segment_curves.items()},
            "members": [
                {
                    "id": str(model.advertisers_[a]),
                    "confidence": float(np.clip(model.confidence_[a], 0, 1)),
                }
                for a in typical_members(model, s)
            ],
        }


def shown_grid(edges: Grid) -> Grid:
    """At most so many bids of the grid, evenly spread over it, the first and last among them.

    A log with one amount alone has a grid of one; a curve needs a second point, which is 0.

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
    return edges[np.union1d(evenly, np.minimum(np.searchsorted(edges, apart), len(edges) - 1))]


def pooled_on_grid(
    model: FittedMarket, evidence: Evidence, prior: Floats, grid: Grid
) -> dict[str, Floats]:
    """Curves of advertisers by which they are forecast, with what varies from day to day.

    From the evidence of A advertisers and the (A, G) rates they are pooled with come ``win``,
    ``win_low``, ``win_high`` and ``cost``, (A, P), at P bids in micros.
    """
    strength = model.choice_.strength
    win = pooled_curves(evidence, prior, strength)
    daily = (model.choice_.noise * win) ** 2
    low, high = _band(win, np.sqrt(win_variance(evidence, prior, strength) + daily))
    curves = {"win": win, "win_low": low, "win_high": high, "cost": _cost(win, evidence)}
    return {name: curve_at(curve, evidence.edges, grid) for name, curve in curves.items()}


def own_on_grid(evidence: Evidence, grid: Grid) -> dict[str, Floats]:
    """Return ``win`` and ``cost`` curves of advertisers from their own auctions, (A, P)."""
    win = own_curves(evidence)
    curves = {"win": win, "cost": _cost(win, evidence)}
    return {name: curve_at(curve, evidence.edges, grid) for name, curve in curves.items()}


def segments_on_grid(model: FittedMarket, grid: Grid) -> dict[str, Floats]:
    """Curves of the segments, and in the last row of all advertisers, (K + 1, P).

    ``win``, ``win_low``, ``win_high``, ``cost``, as of :func:`pooled_on_grid`.
    """
    together = _segment_evidence(model)
    win = win_curves(model.rates_, together.trials + 1.0, model.form_)
    low, high = _band(win, np.sqrt(win_variance(together, model.rates_, 1.0)))
    curves = {"win": win, "win_low": low, "win_high": high, "cost": _cost(win, together)}
    return {name: curve_at(curve, together.edges, grid) for name, curve in curves.items()}


def typical_members(model: FittedMarket, s: int) -> list[int]:
    """Members with the largest share, and of those the ones with the most bids."""
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


def _segment_evidence(model: FittedMarket) -> Evidence:
    """Return the evidence of the members of each segment together, from its sparse parts."""
    successes, told = (
        np.asarray((part.T @ model.shares_).T) for part in (model.successes_, model.trials_by_bin_)
    )
    trials = np.cumsum(told[:, ::-1], axis=1)[:, ::-1] if model.form_ == "hazard" else told
    observations = model.shares_.T @ model.observations_
    return Evidence(
        model.form_, model.pays_, model.edges_, successes, trials, model.price_, observations
    )


def _cost(win: Floats, evidence: Evidence) -> Floats:
    """Return what a thousand impressions cost at each edge, in units of currency."""
    paid = spend_curves(win, evidence)
    # below the first price nothing is won: the cost of the next bin stands for it
    cost = np.divide(paid, win, out=np.full_like(paid, np.nan), where=win > 0)
    first = np.where(np.isnan(cost), np.inf, cost).min(axis=1, keepdims=True, initial=np.inf)
    first = np.where(np.isinf(first), 0.0, first)
    return np.where(np.isnan(cost), first, cost) / _MICROS


def _band(win: Floats, spread: Floats) -> tuple[Floats, Floats]:
    return (
        np.clip(win - NINE_IN_TEN * spread, 0.0, 1.0),
        np.clip(win + NINE_IN_TEN * spread, 0.0, 1.0),
    )


def _rate(rates: Floats | None, row: int) -> float | None:
    return None if rates is None else float(rates[row])
