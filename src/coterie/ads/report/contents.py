"""What a report shows, gathered from a fitted forecaster, an evaluation and a check of the log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

import coterie
from coterie.ads.curves.landscapes import PER_UNIT, Evidence
from coterie.ads.forecasts.evaluation import Evaluation
from coterie.ads.forecasts.forecaster import AdForecaster
from coterie.ads.forecasts.paper_tables import paper_tables
from coterie.ads.forecasts.profiles import (
    dissenting_views,
    own_on_grid,
    pooled_on_grid,
    segments_on_grid,
    shown_grid,
    typical_members,
)

__all__ = ["report_payload"]

_MICROS = 1_000_000


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
    """The payload of :func:`~coterie.ads.report.rendering.write_report`.

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
    grid = shown_grid(model.edges_)
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
        "segments": _segments(model, grid),
        "advertisers": _advertisers(model, model.evidence(), grid),
        "views": _views(model),
        "outliers": model.outliers_.tolist(),
        "low_confidence": model.doubtful_.tolist(),
        "evaluation": None if evaluation is None else _evaluation(evaluation),
        "tables": [] if evaluation is None else paper_tables(evaluation, model.agreement_),
        "quality": list(quality),
        "how": [{"step": step, "detail": detail} for step, detail in steps],
    }


def _segments(model: AdForecaster, grid: NDArray[np.int64]) -> list[dict[str, Any]]:
    """One entry a segment; where there is none, all advertisers are shown as one."""
    on_grid = segments_on_grid(model, grid)
    return [
        {
            **_profile(model, s),
            **{name: curve[s].tolist() for name, curve in on_grid.items()},
            "members": typical_members(model, s),
        }
        for s in range(max(len(model.segments_), 1))
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


def _advertisers(
    model: AdForecaster, evidence: Evidence, grid: NDArray[np.int64]
) -> list[dict[str, Any]]:
    on_grid = pooled_on_grid(model, evidence, model.memberships_.prior, grid)
    own = own_on_grid(evidence, grid)["win"]
    weekday = model.supply_.weekday
    odd = np.isin(np.arange(len(own)), model.outliers_)
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
            "dissent": dissenting_views(model, a),
            "source": "pooled" if model.observations_[a] > 0 else "segment",
        }
        for a, name in enumerate(model.advertisers_)
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
