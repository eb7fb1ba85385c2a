"""A fitted market: curves, segments and supply of its advertisers, and the forecasts they give.

It needs nothing that fitting needs. A model file gives forecasts without scikit-learn, which takes
longer to import than a large model to load.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from coterie.ads.curves.day_levels import DayLevels
from coterie.ads.curves.landscapes import Evidence, marginal_costs, own_curves
from coterie.ads.curves.supply import Supply
from coterie.ads.forecasts.calibration import Calibration
from coterie.ads.forecasts.forecast_figures import (
    NO_BID,
    SUPPLY_OR_DAY,
    checked_bids,
    checked_day,
    checked_supply,
    describe_days,
)
from coterie.ads.forecasts.forecast_tables import PeriodLevels, tables_of
from coterie.ads.forecasts.placement import Placement, quoted
from coterie.ads.forecasts.prepared_forecast import PreparedForecast, Target
from coterie.ads.histograms.stored_days import StoredDays
from coterie.ads.targets.target_effects import EffectsOfOne, TargetEffects
from coterie.errors import InvalidParameterError, ModelFileError
from coterie.models import load_model

if TYPE_CHECKING:
    from coterie.ads.segments.segment_profiles import SegmentProfile, ViewAgreement
    from coterie.ads.segments.text_vectors import TextVectors

__all__ = ["AdvertiserCurve", "Choice", "FittedMarket", "load_market", "refuse_former"]

Floats = NDArray[np.float64]
Curves = NDArray[np.float32]
Indices = NDArray[np.int64]

_MICROS = 1_000_000
_MOST_COMPARED = 20_000


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
    edges_: Indices
    price_: Floats
    observations_: Floats
    successes_: sp.csr_array
    trials_by_bin_: sp.csr_array
    win_: Curves
    spread_: Curves
    segment_win_: Floats
    segment_spread_: Floats
    shares_: Floats
    labels_: Indices
    confidence_: Floats
    segments_: list[SegmentProfile]
    outliers_: Indices
    doubtful_: Indices
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
    # which files of earlier versions lack
    targets_: TargetEffects | None = None
    representatives_: Indices | None = None

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
            "price" if self.pays_ == "price" else "bid",
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
        prepared = self.prepare_forecast(
            advertiser, supply=supply, day=day, days=days, text=text, level=level, where=where
        )
        forecasts = prepared.forecasts(bids)
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
        advertiser : str, optional
        supply : float, optional
        day : str, optional
        days : int
        text : str, optional
        level : {0.5, 0.8, 0.9, 0.95}
        where : mapping of str to str, optional
            All as in :meth:`forecast`.
        """
        self.refuse_unfitted()
        tables = tables_of(self)
        placement = tables.placer.placed(advertiser, text)
        if supply is not None and day is not None:
            raise InvalidParameterError(SUPPLY_OR_DAY)
        first = checked_day(day, days)
        table = tables.days(first, int(days))
        given = supply is not None
        target = self._target(placement, where) if where else None
        why = placement.why + describe_days(self.price_levels_, first, int(days), not given)
        return PreparedForecast(
            tables,
            placement,
            self._auctions(placement, supply, table) * (target.share if target else 1.0),
            table,
            first,
            given,
            level,
            why + (target.description if target else ""),
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

    def _target(self, placement: Placement, where: Mapping[str, str]) -> Target:
        return Target.of(self._known_targets(), self.target_effects(placement), where)

    def _known_targets(self) -> TargetEffects:
        if self.targets_ is None:
            raise InvalidParameterError(
                "this model has no dimensions; make it with some, for example with "
                "coterie ads segment --dimension device"
            )
        return self.targets_

    def _suggested_names(self) -> list[str]:
        # comparing more names takes too long for an error
        return self.advertisers_.tolist() if len(self.advertisers_) <= _MOST_COMPARED else []

    def _auctions(self, placement: Placement, supply: float | None, days: PeriodLevels) -> float:
        if supply is not None:
            return checked_supply(supply)
        if placement.row is None:
            who = quoted(placement.name) if placement.name else "a new advertiser"
            similar = get_close_matches(placement.name or "", self._suggested_names(), 1)
            hint = f" (similar: {quoted(similar[0])})" if similar else ""
            raise InvalidParameterError(
                f"{who} is not in the log{hint}; check the id, or give supply, its number of "
                "auctions"
            )
        return tables_of(self).supply(placement.row, days)


def load_market(path: str | os.PathLike[str]) -> FittedMarket:
    """Return the market in the model file of a forecaster, to forecast by and not to fit again.

    A model that cannot be served is refused.
    """
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
