"""A fitted market: curves, segments and supply of its advertisers, and the forecasts they give.

A question about one advertiser on some days becomes a prepared forecast, which has the figures at
any bid. It needs nothing that fitting needs: a model file gives forecasts without scikit-learn,
which takes longer to import than a large model to load.

The auctions may be only those with some values of dimensions, a target. With π_v the share of a
value v of one dimension, δ_v its shift of the normal score and λ_v its factor of a rate, auctions
with v are π_v of all and are won with probability W_v(b) = Φ(x(b) − δ_v). x is such that the values
of a dimension together win what is won without dimensions, Σ_v π_v W_v(b) = W(b); see
:mod:`coterie.ads.targets.target_effects`.

W_v is a win curve like W: it never falls with the bid, and the prices paid with v are distributed
by it. So impressions and spend of the values add up to those without dimensions. Rates are scaled
so that events add up, too. Several dimensions are taken as independent: their shares and factors
are multiplied, their changes of the normal score are added.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from coterie.ads.curves.day_levels import DayLevels
from coterie.ads.curves.landscapes import Evidence, marginal_costs, own_curves
from coterie.ads.curves.supply import Supply
from coterie.ads.forecasts.calibration import Calibration, IntervalFactors
from coterie.ads.forecasts.forecast_figures import (
    COLUMNS,
    NO_BID,
    SUPPLY_OR_DAY,
    Forecast,
    checked_bids,
    checked_day,
    checked_supply,
    describe_days,
)
from coterie.ads.forecasts.forecast_tables import (
    AskedPlans,
    ForecastTables,
    PeriodLevels,
    tables_of,
)
from coterie.ads.forecasts.placement import Placement
from coterie.ads.histograms.stored_days import StoredDays
from coterie.ads.targets.target_effects import EffectsOfOne, TargetEffects, score_slope, thresholds
from coterie.arrays import Floats, Ints
from coterie.errors import InvalidParameterError, ModelFileError
from coterie.models import load_model
from coterie.runtime.wording import percent

if TYPE_CHECKING:
    from coterie.ads.segments.segment_profiles import SegmentProfile, ViewAgreement
    from coterie.ads.segments.text_vectors import TextVectors

Curves = NDArray[np.float32]

_MICROS = 1_000_000


@dataclass(frozen=True)
class Choice:
    """What the backtest chose, and how well it did on the days it was chosen by."""

    n_segments: int
    strength: float  # of the dictionary's curve against an advertiser's own auctions
    half_life: float  # of the weights of days, in days
    error: float  # mean of the WAPEs of impressions and spend; NaN without a backtest
    bias: float  # mean of their relative biases; NaN without a backtest
    bias_error: float  # its standard error over advertisers; NaN without a backtest
    days: int  # number of days that were forecast
    prices: str = "minimum"  # how they are read, see coterie.ads.curves.price_readings


@dataclass(frozen=True)
class AdvertiserCurve:
    """The curves of one advertiser on the grid of bids, (G,) arrays, for an average day."""

    bid: Floats  # in currency units per thousand impressions
    win: Floats  # share of auctions won
    low: Floats  # ends of the interval of the share on one day, level 90%
    high: Floats
    cost: Floats  # price of a thousand impressions, in currency units
    marginal: Floats  # price of a further thousand impressions; NaN if a higher bid wins no more
    own: Floats  # share won by the advertiser's own auctions alone
    segment: Floats  # share won by a new advertiser of its segments


class FittedMarket:
    """A fitted :class:`~coterie.ads.fitting.forecaster.AdForecaster`; see its attributes."""

    advertisers_: NDArray[Any]
    days_: NDArray[np.datetime64]
    auction_: str
    currency_: str
    form_: str
    pays_: str
    edges_: Ints
    price_: Floats
    observations_: Floats
    successes_: sp.csr_array
    trials_by_bin_: sp.csr_array
    win_: Curves
    spread_: Curves
    segment_win_: Floats
    segment_spread_: Floats
    shares_: Floats
    labels_: Ints
    confidence_: Floats
    segments_: list[SegmentProfile]
    outliers_: Ints
    doubtful_: Ints
    agreement_: ViewAgreement
    choice_: Choice
    calibration_: Calibration
    price_levels_: DayLevels
    supply_: Supply
    bid_: Floats
    wins_: Floats
    cost_: Floats
    rows_: float
    warnings_: list[str]
    click_rate_: Floats | None
    click_worth_: Floats | None
    conversion_rate_: Floats | None
    conversion_worth_: Floats | None
    text_view_: TextVectors | None
    vectors_: Floats | None
    stored_days_: StoredDays | None
    paid_: Floats | None  # what each pays over what price_ says, where that is not known
    shares_above_: Floats | None
    masses_: Ints
    # which files of earlier versions lack
    targets_: TargetEffects | None = None
    representatives_: Ints | None = None

    def evidence(self, rows: ArrayLike | None = None) -> Evidence:
        """Return the evidence of some advertisers.

        Parameters
        ----------
        rows : array-like of int, optional
            Indices of the advertisers; by default all.
        """
        index = np.arange(len(self.advertisers_)) if rows is None else np.atleast_1d(rows)
        trials = self.trials_by_bin_[index].toarray().astype(np.float64)
        if self.form_ == "hazard":  # stored are those of which a bin is the last
            trials = np.cumsum(trials[:, ::-1], axis=1)[:, ::-1]
        return Evidence(
            self.form_,
            self.pays_,
            self.edges_,
            self.successes_[index].toarray().astype(np.float64),
            trials,
            self.price_,
            self.observations_[index],
        )

    def curve(self, advertiser: str | None = None, *, text: str | None = None) -> AdvertiserCurve:
        """Return the curves behind the forecasts of one advertiser.

        Parameters
        ----------
        advertiser : str, optional
            One that is not known is placed by ``text``, or else by all advertisers.
        text : str, optional
            Description of an advertiser that is not known.
        """
        self.refuse_unfitted()
        tables = tables_of(self)
        placement = tables.placer.placed(advertiser, text)
        bids, row = self.edges_ / _MICROS, placement.row
        curves = tables.curves_at(placement, bids)
        return AdvertiserCurve(
            bid=bids,
            **curves,
            marginal=marginal_costs(curves["win"] * curves["cost"] / 1000.0, curves["win"]),
            own=np.zeros(len(bids)) if row is None else own_curves(self.evidence(row))[0],
            segment=placement.shares @ self.segment_win_,
        )

    def forecast(
        self,
        advertiser: str | None = None,
        bid: ArrayLike | None = None,
        *,
        supply: float | None = None,
        day: str | None = None,
        days: int = 1,
        text: str | None = None,
        level: float = 0.9,
        where: Mapping[str, str] | None = None,
    ) -> Any:
        """Forecast impressions, spend, clicks and conversions at one or several bids.

        Parameters
        ----------
        advertiser : str, optional
            One that is not known is placed by ``text``, or else by all advertisers.
        bid : float or array-like
            In units of currency per thousand impressions (CPM). Required.
        supply : float, optional
            Auctions; by default what is expected of the advertiser, and then the intervals
            include that it is uncertain.
        day : str, optional
            A date; prices and supply are those of its weekday. By default an average day of
            the week after the log, or the first day after it if there are several ``days``.
        days : int
            The number of days that are forecast together, from ``day`` on.
        text : str, optional
            Of an advertiser that is not known.
        level : {0.5, 0.8, 0.9, 0.95}
            Of the intervals.
        where : mapping of str to str, optional
            Values of dimensions, such as ``{"device": "phone"}``: only auctions with these
            values are forecast. ``supply`` is that of all auctions.

        Returns
        -------
        Forecast, or list of Forecast
            A list where ``bid`` is one.
        """
        self.refuse_unfitted()
        if bid is None:
            raise InvalidParameterError(NO_BID)
        bids = checked_bids(bid)
        forecasts = self.prepare_forecast(
            advertiser, supply=supply, day=day, days=days, text=text, level=level, where=where
        ).forecasts(bids)
        return forecasts if np.ndim(bid) else forecasts[0]

    def prepare_forecast(
        self,
        advertiser: str | None = None,
        *,
        supply: float | None = None,
        day: str | None = None,
        days: int = 1,
        text: str | None = None,
        level: float = 0.9,
        where: Mapping[str, str] | None = None,
    ) -> PreparedForecast:
        """Return a forecast of one advertiser on some days, to be asked for figures at any bid.

        Parameters
        ----------
        advertiser, supply, day, days, text, level, where
            As in :meth:`forecast`.
        """
        self.refuse_unfitted()
        tables = tables_of(self)
        placement = tables.placer.placed(advertiser, text)
        if supply is not None and day is not None:
            raise InvalidParameterError(SUPPLY_OR_DAY)
        first = checked_day(day, days)
        table = tables.days(first, int(days))
        given = supply is not None
        why = placement.why + describe_days(self.price_levels_, first, int(days), not given)
        target = None
        if where:
            chosen = self.chosen_values(where)
            effects, columns = self.target_effects(placement), self._known_targets().columns
            target = Target(
                {name: str(value) for name, value in where.items()},
                [effects.of(columns(name)) for name in chosen],
                list(chosen.values()),
            )
            why += target.description
        if given:
            auctions = checked_supply(supply)
        elif placement.row is not None:
            auctions = tables.supply(placement.row, table)
        else:
            raise InvalidParameterError(tables.placer.needs_supply(placement.name))
        return PreparedForecast(
            tables,
            placement,
            auctions * (target.share if target else 1.0),
            table,
            first,
            given,
            level,
            why,
            self.currency_,
            target,
        )

    def refuse_unfitted(self) -> None:
        """Raise NotFittedError if the model is not fitted."""
        if not hasattr(self, "win_"):
            from sklearn.utils.validation import check_is_fitted

            check_is_fitted(self, "win_")

    def target_effects(self, placement: Placement) -> EffectsOfOne:
        """Return the effects of all values of dimensions on an advertiser.

        Parameters
        ----------
        placement : Placement
            The segments of the advertiser, and its row if it is known.
        """
        targets = self._known_targets()
        if placement.row is None:
            return targets.of_new(placement.shares)
        return targets.of_row(placement.row)

    def chosen_values(self, where: Mapping[str, str]) -> dict[str, int]:
        """Return the place of each value of a choice; refuse what the model does not have.

        Parameters
        ----------
        where : mapping of str to str
            A value for each dimension, such as ``{"device": "phone"}``.
        """
        return self._known_targets().chosen(where)

    def _known_targets(self) -> TargetEffects:
        if self.targets_ is None:
            raise InvalidParameterError(
                "this model has no dimensions; make it with some, for example with "
                "coterie ads segment --dimension device"
            )
        return self.targets_


@dataclass(frozen=True)
class PreparedForecast:
    """The advertiser of a question, its number of auctions and its days."""

    tables: ForecastTables
    placement: Placement
    supply: float  # auctions of all days together; of a target, those in it
    days: PeriodLevels
    first: date | None  # the first day; None for an average day, or the days after the log
    given: bool  # whether the supply was given, rather than expected
    level: float  # of the intervals
    grounds: str  # what the figures are based on
    currency: str
    target: Target | None = None  # the values of dimensions asked about; None for all auctions

    def figures(self, bids: ArrayLike) -> Floats:
        """Return the figures at B bids, (B, 14), in the order of ``forecast_figures.FIELDS``."""
        asked = self.asked(np.atleast_1d(np.asarray(bids, dtype=np.float64)))
        factors = self.tables.interval_factors(self.level)
        if self.target is None:
            return asked.figures(factors)
        parts = [DimensionForecasts(asked, effects) for effects in self.target.effects]
        return chosen_figures(asked, factors, parts, self.target.places)

    def asked(self, bids: Floats) -> AskedPlans:
        """Return questions about all auctions, not only those of the target, at B bids."""
        supply = self.supply / (1.0 if self.target is None else self.target.share)
        return self.tables.asked(self.placement, bids, supply, self.days, self.given)

    def forecasts(self, bids: ArrayLike) -> list[Forecast]:
        """Return the forecast at each of some bids."""
        bids, found = np.atleast_1d(np.asarray(bids, dtype=np.float64)), []
        for bid, figures in zip(bids.tolist(), self.figures(bids).tolist(), strict=True):
            targets: dict[str, Any] = {}
            for name, column in COLUMNS.items():
                mean, low, high = figures[column : column + 3]
                is_known = not isnan(mean)  # NaN is what the log does not have
                targets[name] = mean if is_known else None
                targets[f"{name}_interval"] = (low, high) if is_known else None
            found.append(
                Forecast(
                    advertiser=self.placement.name,
                    bid=bid,
                    supply=self.supply,
                    win_rate=figures[0],
                    cost=figures[1],
                    level=self.level,
                    segment=self.placement.segment,
                    curve=self.placement.curve,
                    why=self.grounds + self.tables.remark(bid),
                    currency=self.currency,
                    **targets,
                )
            )
        return found


@dataclass(frozen=True)
class DimensionForecasts:
    """The V values of one dimension for one advertiser at B bids, so that they add up."""

    asked: AskedPlans
    effects: EffectsOfOne  # of these values

    @cached_property
    def moves(self) -> Floats:
        """Change of the normal score by value at each edge, (V, G); 0 where W is 0 or 1."""
        z, (share, shift) = ndtri(self.asked.win), (self.effects.share[0], self.effects.score[0])
        x = thresholds(z[None], share[None], shift[None])
        moves = np.subtract(x, z, out=np.zeros_like(x), where=np.isfinite(z)) - shift[:, None]
        return np.where(np.isfinite(z), moves, 0.0)

    @cached_property
    def curves(self) -> tuple[Any, Any]:
        """Win curves of the values and their deviations, (V, G)."""
        return self.asked.moved_curves(self.moves)

    @cached_property
    def impressions(self) -> Floats:
        """Means of impressions by value, (B, V)."""
        rows, _, bids, counts, shifts = self.asked.plans
        amounts, edges = bids * 1e6 * np.exp(-shifts), np.append(0.0, self.asked.market[0])
        won = [counts * np.interp(amounts, edges, np.append(0.0, win)) for win in self.curves[0]]
        of_bids = np.column_stack([one.reshape(len(rows), -1).sum(axis=1) for one in won])
        return np.asarray(of_bids * self.effects.share[0])

    def sums(self, levels: Floats, steps: Floats) -> Floats:
        """Return means of impressions and spend at the first bid, (2, L, M, V).

        ``levels`` (L,) are added to the log price level, ``steps`` (M, V) to the shifts of values.
        """
        asked, (L, M, V) = self.asked, (len(levels), *steps.shape)
        _, (_, H, *_), bids, counts, shifts = asked.plans
        of_values = np.tile(self.effects.share[0], M)[:, None] * counts[:H]
        plans = (
            np.tile(np.arange(M * V), L),
            np.arange(L * M * V + 1, dtype=np.int64) * H,
            np.tile(bids[:H], L * M * V),
            np.tile(of_values.ravel(), L),
            np.repeat(levels, M * V * H) + np.tile(shifts[:H], L * M * V),
        )
        curves = asked.moved_curves((self.moves - steps[:, :, None]).reshape(M * V, -1))
        found = asked._replace(plans=plans, curves=curves).sums()
        return np.asarray(found[:, [0, 4]].T.reshape(2, L, M, V))

    def rate_factors(self, event: int) -> Floats:
        """Return factors of the rate of clicks (0) or conversions (1) by value, (B, V)."""
        factor = (self.effects.click, self.effects.conversion)[event][0]
        impressions = self.impressions
        total = impressions.sum(axis=1, keepdims=True)
        shares = np.tile(self.effects.share[0], (len(impressions), 1))
        weight = np.divide(impressions, total, out=shares, where=total > 0)
        return np.asarray(factor / (weight @ factor)[:, None])


@dataclass(frozen=True)
class Target:
    """A choice of one value in each of some dimensions, for one advertiser."""

    where: dict[str, str]
    effects: list[EffectsOfOne]  # of all values of each dimension
    places: list[int]  # of the chosen value among them

    @property
    def share(self) -> float:
        """Share of the auctions, those of several dimensions multiplied."""
        return float(
            np.prod([one.share[0, v] for one, v in zip(self.effects, self.places, strict=True)])
        )

    @property
    def description(self) -> str:
        """What forecasts of this target are based on, as the end of a sentence."""
        chosen = " and ".join(f"{name} {value}" for name, value in self.where.items())
        return f"; {chosen}: {percent(self.share)} of its auctions"


def chosen_figures(
    asked: AskedPlans, factors: IntervalFactors, parts: list[DimensionForecasts], places: list[int]
) -> Floats:
    """Return the figures of one value of each dimension, (B, 14)."""
    rows, starts, bids, counts, shifts = asked.plans
    B = len(rows)
    of_values = list(zip(parts, places, strict=True))
    chosen = [part.effects.of(np.array([v])) for part, v in of_values]
    share = float(np.prod([one.share[0, 0] for one in chosen]))
    move = sum(part.moves[v] for part, v in of_values)
    uncertainty = asked.uncertainty.copy()
    given = uncertainty[:, 2] > 0
    supply = np.add.reduceat(counts, starts[:-1])
    # of a given number of auctions, how many are in the target is itself a matter of chance
    chance = np.where(given, (1 - share) / np.maximum(supply * share, 1e-9), 0.0)
    chance[supply <= 0] = 0.0
    curves = asked.moved_curves(np.tile(move, (B, 1)))
    # an error ε of the score changes W by the factor 1 + ε φ(score) / W
    amounts = bids[starts[:-1]] * _MICROS * np.exp(-shifts[starts[:-1]])
    won = np.interp(amounts, np.append(0.0, asked.market[0]), np.append(0.0, curves[0][0]))
    of_score = score_slope(won) ** 2 * sum(one.score[1, 0] ** 2 for one in chosen)
    of_share = sum(one.share[1, 0] ** 2 for one in chosen)
    # errors of shares and scores widen the intervals
    uncertainty[:, 1] = np.sqrt(uncertainty[:, 1] ** 2 + of_share + of_score + chance)
    uncertainty[:, 2] = np.where(given, share, 0.0)
    events = np.empty((B, 4))
    for event, name in enumerate(("click", "conversion")):
        rate, sd = asked.rates[2 * event : 2 * event + 2]
        factor = np.prod([part.rate_factors(event)[:, v] for part, v in of_values], axis=0)
        relative = sum(getattr(one, name)[1, 0] ** 2 for one in chosen)
        own = np.minimum(rate * factor, 1.0)
        events[:, 2 * event] = own
        events[:, 2 * event + 1] = np.sqrt((sd * factor) ** 2 + own**2 * relative)
    plans = (np.arange(B, dtype=np.int64), starts, bids, counts * share, shifts)
    return asked._replace(
        plans=plans, uncertainty=uncertainty, curves=curves, events=events
    ).figures(factors)


def load_market(path: str | os.PathLike[str]) -> FittedMarket:
    """Return the market in the model file of a forecaster; refuse one that cannot be served."""
    from coterie.ads.forecasts.model_checks import check_model
    from coterie.ads.segments.text_vectors import TextVectors

    # these need no scikit-learn, which takes longer to import than a model takes to load
    classes = {"AdForecaster": FittedMarket, "TextView": TextVectors}
    model: FittedMarket = load_model(path, classes=classes)
    try:
        if isinstance(model, FittedMarket):
            refuse_former(model, "it")
        check_model(model)
    except ModelFileError as error:
        raise ModelFileError(f"cannot load {os.fspath(path)}: {error}") from error
    return model


def refuse_former(model: FittedMarket, path: str | os.PathLike[str]) -> None:
    """Refuse a model of a version whose forecasts were made another way."""
    if not hasattr(model, "win_"):
        raise ModelFileError(
            f"{os.fspath(path)} was made by an earlier version of coterie; make it again with "
            "coterie ads segment"
        )
