"""The contents of a report, collected from a fitted forecaster and an evaluation.

Bids and prices are in currency units per thousand impressions (CPM). Rates, shares and errors
are fractions: 0.169, not 16.9. P is the number of bids in ``Report.grid``. Advertisers and
segments are referred to by their index in the report, weekdays from Monday.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

import coterie
from coterie.ads.curves.landscapes import PER_UNIT
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
from coterie.ads.segments.segment_profiles import SegmentProfile
from coterie.errors import InvalidParameterError

__all__ = [
    "AdvertiserRow",
    "QualityNote",
    "Report",
    "SegmentCard",
    "Step",
    "ViewTable",
    "report_payload",
]

_MICROS = 1_000_000
_SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True)
class _Curves:
    """Win rate with its interval, and mean price paid, at each of the P bids of the grid."""

    win: list[float]
    win_low: list[float]
    win_high: list[float]
    cost: list[float]


@dataclass(frozen=True)
class SegmentCard(_Curves):
    """One segment; ``members`` are its most typical advertisers."""

    name: str
    words: list[str]
    price_level: str
    size: int
    observations: float
    median_price: float
    members: list[int]


@dataclass(frozen=True)
class AdvertiserRow(_Curves):
    """One advertiser; ``own`` is its own win-rate curve, None if it has no bids."""

    id: str
    segment: int | None
    confidence: float
    observations: float
    own: list[float] | None
    bid: float
    supply: float
    supply_by_weekday: list[float]
    click_rate: float | None
    outlier: bool
    dissent: list[str]
    source: str


@dataclass(frozen=True)
class ViewTable:
    """Agreement of the V views: ``ari`` is (V, V), ``weights`` their weights in the consensus."""

    names: list[str]
    ari: list[list[float]]
    weights: list[float]
    tpn_fpn: list[dict[str, Any]]
    dissenting: str | None
    sentence: str


@dataclass(frozen=True)
class QualityNote:
    """One finding about the log; ``severity`` is "error", "warning" or "note"."""

    severity: str
    what: str
    count: float
    examples: list[str]


@dataclass(frozen=True)
class Step:
    """One step of how the report was made."""

    step: str
    detail: str


@dataclass(frozen=True)
class Report:
    """Everything that a report shows.

    Attributes
    ----------
    interval : float or None
        The level of all intervals.
    grid : list of P floats
        The bids of all curves, increasing.
    outliers, low_confidence : list of int
        Advertisers unlike their segment, and those without a clear segment.
    evaluation : dict or None
        Errors on the held-out days, by source of curves.
    tables : list of dict
        The tables of the paper: ``title``, ``columns``, ``rows`` and ``note``.
    """

    title: str
    made: str
    version: str
    source: str
    engine: str
    auction: str
    currency: str
    first_day: str
    last_day: str
    n_days: int
    rows: float
    wins: float
    spend: float
    interval: float | None
    grid: list[float]
    segments: list[SegmentCard]
    advertisers: list[AdvertiserRow]
    views: ViewTable
    outliers: list[int]
    low_confidence: list[int]
    evaluation: dict[str, Any] | None
    tables: list[dict[str, Any]]
    quality: list[QualityNote]
    how: list[Step]

    def as_dict(self) -> dict[str, Any]:
        """Return the contents as plain values, ready for JSON."""
        return asdict(self)


def report_payload(
    model: AdForecaster,
    evaluation: Evaluation | None = None,
    *,
    source: str,
    engine: str,
    quality: Sequence[Mapping[str, Any]] = (),
    steps: Sequence[tuple[str, str]] = (),
    title: str = "Advertising segments and forecasts",
) -> Report:
    """Collect the contents of a report for :func:`~coterie.ads.write_report`.

    Parameters
    ----------
    model : AdForecaster
        Fitted.
    evaluation : Evaluation, optional
        From :func:`~coterie.ads.evaluate`.
    source, engine : str
        Where the log is, and the engine that read it.
    quality : sequence of mappings
        Notes on the data: ``severity`` ("error", "warning" or "note"), ``what``, ``count`` and
        ``examples``.
    steps : sequence of (step, detail)
        How the report was made.
    title : str
        The title of the page.

    Returns
    -------
    Report
        ``Report.as_dict`` gives it as JSON would hold it.
    """
    _check_arguments(model, evaluation, {"source": source, "engine": engine, "title": title})
    grid = shown_grid(model.edges_)
    return Report(
        title=title,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        version=coterie.__version__,
        source=source,
        engine=engine,
        auction=model.auction_,
        currency=model.currency_,
        first_day=str(model.days_[0]),
        last_day=str(model.days_[-1]),
        n_days=len(model.days_),
        rows=float(model.rows_),
        wins=float(model.wins_.sum()),
        spend=float(model.cost_.sum()) / PER_UNIT,
        interval=0.9,
        grid=(grid / _MICROS).tolist(),
        segments=_segments(model, grid),
        advertisers=_advertisers(model, grid),
        views=_views(model),
        outliers=model.outliers_.tolist(),
        low_confidence=model.doubtful_.tolist(),
        evaluation=None if evaluation is None else _evaluation(evaluation),
        tables=[] if evaluation is None else paper_tables(evaluation, model.agreement_),
        quality=[_quality_note(note) for note in quality],
        how=[Step(step, detail) for step, detail in steps],
    )


def _check_arguments(model: Any, evaluation: Any, texts: Mapping[str, Any]) -> None:
    if not isinstance(model, AdForecaster):
        raise TypeError(f"model must be a fitted AdForecaster, got {type(model).__name__}")
    check_is_fitted(model)
    if not isinstance(evaluation, Evaluation | None):
        raise TypeError(
            "evaluation must be what coterie.ads.evaluate returns, or None, got "
            f"{type(evaluation).__name__}"
        )
    for name, text in texts.items():
        if not isinstance(text, str):
            raise TypeError(f"{name} must be a string, got {type(text).__name__}")


def _quality_note(note: Mapping[str, Any]) -> QualityNote:
    try:
        made = QualityNote(**note)
    except TypeError as error:
        raise InvalidParameterError(
            f"quality={note!r}: a note needs exactly severity, what, count and examples"
        ) from error
    if made.severity not in _SEVERITIES:
        raise InvalidParameterError(
            f"quality: severity={made.severity!r} must be one of {', '.join(_SEVERITIES)}"
        )
    return made


def _segments(model: AdForecaster, grid: NDArray[np.int64]) -> list[SegmentCard]:
    """Return one card per segment; a model without segments has one card of all advertisers."""
    on_grid = segments_on_grid(model, grid)
    return [
        SegmentCard(
            **_profile(model, s),
            **{name: curve[s].tolist() for name, curve in on_grid.items()},
            members=typical_members(model, s),
        )
        for s in range(max(len(model.segments_), 1))
    ]


def _profile(model: AdForecaster, s: int) -> dict[str, Any]:
    if model.segments_:
        profile = model.segments_[s]
    else:
        n_bids = float(model.observations_.sum())
        profile = SegmentProfile("all advertisers", [], "", 0.0, len(model.advertisers_), n_bids)
    return asdict(profile) | {"median_price": profile.median_price / _MICROS}


def _advertisers(model: AdForecaster, grid: NDArray[np.int64]) -> list[AdvertiserRow]:
    evidence = model.evidence()
    on_grid = pooled_on_grid(model, evidence, model.memberships_.prior, grid)
    own = own_on_grid(evidence, grid)["win"]
    has_bids = model.observations_ > 0
    is_outlier = np.isin(np.arange(len(own)), model.outliers_)
    return [
        AdvertiserRow(
            **{curve: values[a].tolist() for curve, values in on_grid.items()},
            id=str(name),
            segment=int(model.labels_[a]) if model.segments_ else 0,
            confidence=float(np.clip(model.confidence_[a], 0, 1)),
            observations=float(model.observations_[a]),
            own=own[a].tolist() if has_bids[a] else None,
            bid=float(model.bid_[a]) / _MICROS,
            supply=float(model.supply_.level[a]),
            supply_by_weekday=(model.supply_.level[a] * model.supply_.weekday).tolist(),
            click_rate=None if model.click_rate_ is None else float(model.click_rate_[a]),
            outlier=bool(is_outlier[a]),
            dissent=dissenting_views(model, a),
            source="pooled" if has_bids[a] else "segment",
        )
        for a, name in enumerate(model.advertisers_)
    ]


def _views(model: AdForecaster) -> ViewTable:
    agreement = model.agreement_
    return ViewTable(
        names=agreement.names,
        ari=agreement.ari.tolist(),
        weights=agreement.weights.tolist(),
        tpn_fpn=[row for row in agreement.pairs if row["tpn"] is not None],
        dissenting=agreement.dissenting or None,
        sentence=agreement.sentence,
    )


def _evaluation(evaluation: Evaluation) -> dict[str, Any]:
    found = evaluation.as_dict()
    chosen = found["chosen"].get("robust+pooled", {})
    return {
        "holdout": found["holdout"],
        "sources": found["sources"],
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
