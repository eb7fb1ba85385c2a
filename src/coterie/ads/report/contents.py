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
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

import coterie
from coterie.ads.curves.day_levels import DayLevels
from coterie.ads.curves.landscapes import PER_UNIT
from coterie.ads.evaluation.evaluation import Evaluation
from coterie.ads.evaluation.paper_tables import paper_tables
from coterie.ads.fitting.forecaster import AdForecaster
from coterie.ads.forecasts.fitted_market import FittedMarket
from coterie.ads.forecasts.forecast_tables import ForecastTables, tables_of
from coterie.ads.forecasts.profiles import (
    bid_shares,
    dissenting_views,
    own_on_grid,
    segments_on_grid,
    shown_grid,
    typical_members,
)
from coterie.ads.report.evaluation_tables import evaluation_contents
from coterie.ads.segments.segment_profiles import SegmentProfile, bid_that_wins_half
from coterie.arrays import Floats, Ints
from coterie.errors import InvalidParameterError

#: A page with more advertisers takes long to open.
_MOST_ADVERTISERS = 5_000
_MICROS = 1_000_000
#: In so many auctions chance plays no part.
_MANY_AUCTIONS = 1e12
#: The level of all intervals.
_LEVEL = 0.9
_SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True)
class CurvesOnGrid:
    """Win rate with its interval, and mean price paid, at each of the P bids of the grid."""

    win: list[float]
    win_low: list[float]
    win_high: list[float]
    cost: list[float]


@dataclass(frozen=True)
class AdvertiserRow(CurvesOnGrid):
    """One advertiser; ``own`` is its own win-rate curve, None if it has no bids.

    The intervals are those of impressions and of spend on an average day, divided by the expected
    auctions of that day. They include that the number of auctions is uncertain, so that
    ``win_high`` may be above 1.
    """

    spend_low: list[float]  # in currency units per auction
    spend_high: list[float]
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
    wins_below: list[float] | None
    cost_below: list[float] | None
    # of wins and of cost: the Kolmogorov–Smirnov distance from the segment, and its bid
    gaps: list[list[float]] | None


@dataclass(frozen=True)
class SegmentCard(CurvesOnGrid):
    """One segment; ``members`` are its most typical advertisers."""

    name: str
    words: list[str]
    price_level: str
    size: int
    observations: float
    median_price: float
    themes: list[str]
    purity: float | None
    mixture: str  # what is to be known of a segment of several themes; otherwise empty
    members: list[int]
    # shares of wins and of cost with a bid of at most each of the grid; None if not known
    wins_below: list[float] | None
    cost_below: list[float] | None


@dataclass(frozen=True)
class Report:
    """Everything that a report shows."""

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
    interval: float | None  # the level of all intervals
    grid: list[float]  # the P bids of all curves, increasing
    segments: list[SegmentCard]
    advertisers: list[AdvertiserRow]  # of very many, those with the most bids
    views: dict[str, Any]  # agreement of the V views: ari is (V, V), weights their say
    outliers: list[int]  # advertisers unlike their segment
    low_confidence: list[int]  # those without a clear segment
    warnings: list[str]  # to be known before the forecasts are trusted, without full stops
    prices_by_weekday: list[float]  # the level of prices over that of an average day
    days: list[dict[str, Any]]  # of day_points
    evaluation: dict[str, Any] | None  # of evaluation_contents
    tables: list[dict[str, Any]]  # of the paper: title, columns, rows and note
    quality: list[dict[str, Any]]  # findings about the log: severity, what, count and examples
    how: list[dict[str, str]]  # step and detail
    left_out: int = 0  # advertisers that are not shown

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
    texts = {"source": source, "engine": engine, "title": title}
    _check_arguments(model, evaluation, texts, quality)
    agreement = model.agreement_
    grid, shown = shown_grid(model.edges_, model.masses_), shown_advertisers(model)
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
        interval=_LEVEL,
        grid=(grid / _MICROS).tolist(),
        segments=_segments(model, grid, shown),
        advertisers=_advertisers(model, grid, shown),
        views={
            "names": agreement.names,
            "ari": agreement.ari.tolist(),
            "weights": agreement.weights.tolist(),
            "tpn_fpn": [row for row in agreement.pairs if row["tpn"] is not None],
            "dissenting": agreement.dissenting or None,
            "sentence": agreement.sentence,
        },
        # without segments no advertiser is unlike its segment
        outliers=_numbered(model.outliers_, shown) if model.segments_ else [],
        low_confidence=_numbered(model.doubtful_, shown) if model.segments_ else [],
        warnings=list(model.warnings_),
        prices_by_weekday=tables_of(model).prices_by_weekday(),
        days=day_points(model.price_levels_, model.supply_.factors, _LEVEL),
        evaluation=None if evaluation is None else evaluation_contents(evaluation, _LEVEL),
        tables=[] if evaluation is None else paper_tables(evaluation, agreement),
        quality=[dict(note) for note in quality],
        how=[{"step": step, "detail": detail} for step, detail in steps],
        left_out=len(model.advertisers_) - len(shown),
    )


def shown_advertisers(model: FittedMarket) -> Ints:
    """Return the rows of the advertisers that a report shows, in order.

    Of very many those with the most bids are shown, and typical members of segments.
    """
    if len(model.advertisers_) <= _MOST_ADVERTISERS:
        return np.arange(len(model.advertisers_))
    busiest = np.argsort(-model.observations_, kind="stable")[:_MOST_ADVERTISERS]
    typical = [row for s in range(len(model.segments_)) for row in typical_members(model, s)]
    return np.union1d(busiest, np.array(typical, dtype=np.int64))


def day_points(prices: DayLevels, supply: DayLevels, level: float) -> list[dict[str, Any]]:
    """Return the level of each day, and that expected from the days before it.

    A row has ``day``, and ``price`` and ``supply``, each with ``observed``, ``expected``, ``low``
    and ``high``: factors, 1 for the average of the days. What is expected of the first day is None.
    """
    rows: list[dict[str, Any]] = [{"day": str(day)} for day in prices.days]
    for name, levels in (("price", prices), ("supply", supply)):
        mean, variance = levels.one_day_ahead()
        half = ndtri((1 + level) / 2) * np.sqrt(variance)
        ends = {"expected": mean, "low": mean - half, "high": mean + half}
        for column, logs in ({"observed": levels.values} | ends).items():
            factors = np.exp(logs - levels.values.mean()).tolist()
            for row, factor in zip(rows, factors, strict=True):
                row.setdefault(name, {})[column] = None if np.isnan(factor) else factor
    return rows


def _check_arguments(
    model: Any, evaluation: Any, texts: Mapping[str, Any], quality: Sequence[Mapping[str, Any]]
) -> None:
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
    for note in quality:
        if not isinstance(note, Mapping) or set(note) != {"severity", "what", "count", "examples"}:
            raise InvalidParameterError(
                f"quality={note!r}: a note needs exactly severity, what, count and examples"
            )
        if note["severity"] not in _SEVERITIES:
            raise InvalidParameterError(
                f"quality: severity={note['severity']!r} must be one of {', '.join(_SEVERITIES)}"
            )


def _numbered(rows: Sequence[int] | Ints, shown: Ints) -> list[int]:
    """Return the indices in the report of those rows of the model that it shows."""
    number = {int(row): index for index, row in enumerate(shown)}
    return [number[int(row)] for row in rows if int(row) in number]


def _segments(model: AdForecaster, grid: Ints, shown: Ints) -> list[SegmentCard]:
    """Return one card per segment; a model without segments has one card of all advertisers."""
    on_grid = segments_on_grid(tables_of(model), len(model.segments_), grid)
    shares, profiles = bid_shares(model, grid), dict(enumerate(model.segments_))
    if not profiles:
        price = bid_that_wins_half(model.segment_win_[-1], model.edges_)
        n, n_bids = len(model.advertisers_), float(model.observations_.sum())
        profiles[-1] = SegmentProfile("all advertisers", [], "", price, n, n_bids)
    return [
        SegmentCard(
            **asdict(profile)
            | {"median_price": profile.median_price / _MICROS, "themes": list(profile.themes)},
            **{name: curve[s].tolist() for name, curve in on_grid.items()},
            mixture=profile.mixture,
            members=_numbered(typical_members(model, s), shown),
            **_shares_below(None if shares is None else shares.of_segment(s)),
        )
        for s, profile in profiles.items()
    ]


def _advertisers(model: FittedMarket, grid: Ints, shown: Ints) -> list[AdvertiserRow]:
    tables = tables_of(model)
    supply = np.array([tables.supply(row) for row in shown.tolist()])
    on_grid = _forecasts_on_grid(tables, shown, supply, grid)
    weekdays, outliers = tables.weekdays(), frozenset(model.outliers_.tolist())
    has_bids, shares = model.observations_ > 0, bid_shares(model, grid)
    rows = []
    for place, a in enumerate(shown.tolist()):
        below = None if shares is None else shares.of_advertiser(a)
        row = AdvertiserRow(
            **{curve: values[place].tolist() for curve, values in on_grid.items()},
            id=str(model.advertisers_[a]),
            segment=max(int(model.labels_[a]), 0),
            confidence=float(np.clip(model.confidence_[a], 0, 1)),
            observations=float(model.observations_[a]),
            own=own_on_grid(model, a, grid)["win"] if has_bids[a] else None,
            bid=float(model.bid_[a]) / _MICROS,
            supply=float(supply[place]),
            supply_by_weekday=[tables.supply(a, days) for days in weekdays],
            click_rate=None if model.click_rate_ is None else float(model.click_rate_[a]),
            outlier=a in outliers,
            dissent=dissenting_views(model, a),
            source="pooled" if has_bids[a] else "segment",
            **_shares_below(below and {name: one["own"] for name, one in below.items()}),
            gaps=[[below[name][x] for x in ("distance", "bid")] for name in ("wins", "cost")]
            if below
            else None,
        )
        rows.append(row)
    return rows


def _shares_below(shares: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the c.d.f.s of wins and cost as fields; None if they are not known."""
    return {f"{name}_below": shares and shares[name] for name in ("wins", "cost")}


def _forecasts_on_grid(
    tables: ForecastTables, shown: Ints, supply: Floats, grid: Ints
) -> dict[str, Floats]:
    """Return the forecasts of an average day at P bids, per expected auction, (A, P) each.

    They are those that ``model.forecast(advertiser, bid)`` gives. An advertiser without supply has
    the intervals of very many auctions.
    """
    n_bids = len(grid)
    rows = np.repeat(shown, n_bids)
    bids = np.tile(np.maximum(grid, 1) / _MICROS, len(supply))
    is_expected = supply > 0
    auctions = np.repeat(np.where(is_expected, supply, _MANY_AUCTIONS), n_bids)
    given = np.repeat(~is_expected, n_bids)
    figures = tables.at(rows, bids, auctions, [tables.days()] * len(rows), given, _LEVEL)
    columns = {
        "win": figures[:, 0],
        "win_low": figures[:, 3] / auctions,
        "win_high": figures[:, 4] / auctions,
        "cost": figures[:, 1],
        "spend_low": figures[:, 6] / auctions,
        "spend_high": figures[:, 7] / auctions,
    }
    return {name: column.reshape(len(supply), n_bids) for name, column in columns.items()}
