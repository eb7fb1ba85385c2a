"""What a report shows, gathered from a fitted forecaster, an evaluation and a check of the log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

import coterie
from coterie.ads.backtest import NINE_IN_TEN
from coterie.ads.curves import Evidence, curve_at, own_curves, spend_curves
from coterie.ads.evaluation import PER_UNIT, Evaluation
from coterie.ads.forecaster import AdForecaster
from coterie.ads.paper_tables import paper_tables
from coterie.ads.pooling import pooled_curves, win_variance
from coterie.ads.segment_profiles import segment_curves

__all__ = ["report_payload"]

Floats = NDArray[np.float64]

_MICROS = 1_000_000
_POINTS = 64
_MOST_MEMBERS = 12


def report_payload(
    model: AdForecaster,
    evaluation: Evaluation | None = None,
    *,
    source: str,
    engine: str,
    quality: Sequence[dict[str, Any]] = (),
    steps: Sequence[tuple[str, str]] = (),
    title: str = "Advertising segments and forecasts",
) -> dict[str, Any]:
    """The payload of :func:`~coterie.ads.report.write_report`.

    Parameters
    ----------
    model : AdForecaster
        Fitted.
    evaluation : Evaluation, optional
    source, engine : str
        Where the log is, and what read it.
    quality : sequence of dict
        Data-quality notes: ``severity``, ``what``, ``count``, ``examples``.
    steps : sequence of (step, detail)
        How it was made.
    title : str
    """
    grid = _shown_grid(model.edges_)
    evidence = model.evidence()
    return {
        "title": title,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": coterie.__version__,
        "source": source,
        "engine": engine,
        "auction": model.auction_,
        "currency": model.currency_,
        "first_day": str(model.days_[0]),
        "last_day": str(model.days_[-1]),
        "n_days": len(model.days_),
        "rows": float(model.rows_),
        "wins": float(model.wins_.sum()),
        "spend": float(model.cost_.sum()) / PER_UNIT,
        "interval": 0.9,
        "grid": (grid / _MICROS).tolist(),
        "segments": _segments(model, evidence, grid),
        "advertisers": _advertisers(model, evidence, grid),
        "views": _views(model),
        "outliers": model.outliers_.tolist(),
        "low_confidence": model.doubtful_.tolist(),
        "evaluation": None if evaluation is None else _evaluation(evaluation),
        "tables": [] if evaluation is None else paper_tables(evaluation, model.agreement_),
        "quality": list(quality),
        "how": [{"step": step, "detail": detail} for step, detail in steps],
    }


def _shown_grid(edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """At most so many bids of the grid, evenly spread over it, the first and last among them.

    A log with one amount alone has a grid of one; a curve needs a second point, which is 0.
    """
    if len(edges) == 1:
        return np.append(0, edges)
    if len(edges) <= _POINTS:
        return edges
    evenly = np.linspace(0, len(edges) - 1, _POINTS * 3 // 4).round().astype(np.int64)
    # charts have a logarithmic axis: the rare high bids need points too
    apart = np.geomspace(edges[0], edges[-1], _POINTS // 4)
    return edges[np.union1d(evenly, np.minimum(np.searchsorted(edges, apart), len(edges) - 1))]


def _on(curves: Floats, evidence: Evidence, grid: NDArray[np.int64]) -> Floats:
    return curve_at(curves, evidence.edges, grid)


def _cost(win: Floats, evidence: Evidence) -> Floats:
    """What a thousand impressions cost at each edge, in units of currency."""
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


def _segments(
    model: AdForecaster, evidence: Evidence, grid: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """One entry a segment; where there is none, all advertisers are shown as one."""
    memberships = model.memberships_
    n_segments = len(model.segments_)
    shown = range(n_segments) if n_segments else [0]
    win = segment_curves(evidence, memberships)[list(shown)]
    together = Evidence(
        evidence.form,
        evidence.pays,
        evidence.edges,
        memberships.shares[:, list(shown)].T @ evidence.successes,
        memberships.shares[:, list(shown)].T @ evidence.trials,
        evidence.price,
        memberships.shares[:, list(shown)].T @ evidence.observations,
    )
    low, high = _band(win, np.sqrt(win_variance(together, memberships.rates[list(shown)], 1.0)))
    curves = {"win": win, "win_low": low, "win_high": high, "cost": _cost(win, evidence)}
    on_grid = {name: _on(curve, evidence, grid) for name, curve in curves.items()}
    return [
        {
            **_profile(model, s),
            **{name: curve[s].tolist() for name, curve in on_grid.items()},
            "members": _typical_members(model, s),
        }
        for s in shown
    ]


def _profile(model: AdForecaster, s: int) -> dict[str, Any]:
    if not model.segments_:
        return {
            "name": "all advertisers",
            "words": [],
            "price_level": "",
            "size": len(model.advertisers_),
            "observations": float(model.observations_.sum()),
            "median_price": 0.0,
        }
    profile = model.segments_[s]
    return {
        "name": profile.name,
        "words": profile.words,
        "price_level": profile.price_level,
        "size": profile.size,
        "observations": profile.observations,
        "median_price": profile.median_price / _MICROS,
    }


def _typical_members(model: AdForecaster, s: int) -> list[int]:
    """Members with the largest share, and of those the ones with the most bids."""
    members = np.flatnonzero(model.labels_ == s)
    order = np.lexsort((-model.observations_[members], -model.confidence_[members].round(2)))
    return [int(a) for a in members[order][:_MOST_MEMBERS]]


def _advertisers(
    model: AdForecaster, evidence: Evidence, grid: NDArray[np.int64]
) -> list[dict[str, Any]]:
    strength, prior = model.choice_.strength, model.memberships_.prior
    win = pooled_curves(evidence, prior, strength)
    daily = (model.choice_.noise * win) ** 2
    low, high = _band(win, np.sqrt(win_variance(evidence, prior, strength) + daily))
    curves = {"win": win, "win_low": low, "win_high": high, "cost": _cost(win, evidence)}
    on_grid = {name: _on(curve, evidence, grid) for name, curve in curves.items()}
    own = _on(own_curves(evidence), evidence, grid)
    weekday = model.supply_.weekday
    odd = np.isin(np.arange(len(win)), model.outliers_)
    return [
        {
            "id": str(name),
            "segment": int(model.labels_[a]) if model.segments_ else 0,
            "confidence": float(np.clip(model.confidence_[a], 0, 1)),
            "observations": float(model.observations_[a]),
            **{curve: values[a].tolist() for curve, values in on_grid.items()},
            "own": own[a].tolist() if model.observations_[a] > 0 else None,
            "bid": float(model.bid_[a]) / _MICROS,
            "supply": float(model.supply_.level[a]),
            "supply_by_weekday": (model.supply_.level[a] * weekday).tolist(),
            "click_rate": None if model.click_rate_ is None else float(model.click_rate_[a]),
            "outlier": bool(odd[a]),
            "dissent": _dissenting_views(model, a),
            "source": "pooled" if model.observations_[a] > 0 else "segment",
        }
        for a, name in enumerate(model.advertisers_)
    ]


def _dissenting_views(model: AdForecaster, a: int) -> list[str]:
    placed = model.agreement_.placed[a]
    return [
        name
        for name, segment in zip(model.agreement_.names, placed, strict=True)
        if segment not in {-1, model.labels_[a]}
    ]


def _views(model: AdForecaster) -> dict[str, Any]:
    agreement = model.agreement_
    return {
        "names": agreement.names,
        "ari": agreement.ari.tolist(),
        "weights": agreement.weights.tolist(),
        "tpn_fpn": [row for row in agreement.pairs if row["tpn"] is not None],
        "dissenting": agreement.dissenting or None,
        "sentence": agreement.sentence,
    }


def _evaluation(evaluation: Evaluation) -> dict[str, Any]:
    found = evaluation.as_dict()
    wanted = ("mape", "wape", "smape", "bias", "coverage")
    chosen = found["chosen"].get("robust+pooled", {})
    return {
        "holdout": found["holdout"],
        "sources": {
            name: {
                target: {measure: errors[measure] for measure in wanted}
                for target, errors in targets.items()
            }
            for name, targets in found["sources"].items()
        },
        "strata": [
            {
                "name": stratum["name"],
                "advertisers": stratum["advertisers"],
                "sources": {
                    name: {target: errors["wape"] for target, errors in targets.items()}
                    for name, targets in stratum["sources"].items()
                },
            }
            for stratum in found["strata"]
            if stratum["advertisers"]
        ],
        "differences": found["differences"],
        "chosen": {
            "consensus": "robust",
            "number of segments": chosen.get("k"),
            "pooling strength": chosen.get("strength"),
            "backtest days": chosen.get("backtest_days"),
            "reason": "smallest error when the last training days were forecast from those before",
        },
    }
