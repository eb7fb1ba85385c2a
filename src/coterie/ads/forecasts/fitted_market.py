"""A market as it was fitted: evidence, segments and curves, and the forecasts they give.

It needs nothing that fitting needs: whoever has a model file has forecasts without scikit-learn,
which takes longer to import than a large model to load.
"""

from __future__ import annotations

import os
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from coterie.ads.curves.landscapes import Evidence
from coterie.ads.curves.pooling import mixed_rates
from coterie.ads.curves.supply import Supply, describe_supply
from coterie.ads.forecasts.forecast_figures import (
    SUPPLY_OR_DAY,
    checked_bids,
    checked_supply,
    forecast_of,
)
from coterie.ads.forecasts.forecast_tables import tables_of
from coterie.ads.forecasts.placement import Placement, quoted
from coterie.ads.forecasts.pooled_curves import Choice, PooledCurve, pool
from coterie.ads.segments.memberships import Memberships
from coterie.errors import InvalidParameterError, ModelFileError
from coterie.files.model_files import load_model

if TYPE_CHECKING:
    from coterie.ads.segments.segment_profiles import SegmentProfile
    from coterie.ads.segments.text_vectors import TextVectors
    from coterie.ads.segments.view_agreement import ViewAgreement

__all__ = ["FittedMarket", "load_market"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


class FittedMarket:
    """What :class:`~coterie.ads.forecasts.forecaster.AdForecaster` is once it is fitted.

    Attributes are those of the forecaster, which is one of these.
    """

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
    shares_: Floats
    rates_: Floats
    labels_: Indices
    confidence_: Floats
    segments_: list[SegmentProfile]
    outliers_: Indices
    doubtful_: Indices
    agreement_: ViewAgreement
    choice_: Choice
    supply_: Supply
    bid_: Floats
    wins_: Floats
    cost_: Floats
    rows_: float
    click_rate_: Floats | None
    click_worth_: Floats | None
    conversion_rate_: Floats | None
    conversion_worth_: Floats | None
    text_view_: TextVectors | None
    vectors_: Floats | None

    @property
    def memberships_(self) -> Memberships:
        """Shares and rates together."""
        return Memberships(self.shares_, self.rates_, self.form_)

    def evidence(self, rows: ArrayLike | None = None) -> Evidence:
        """Return the evidence of some advertisers, by index; by default of all."""
        index = np.arange(len(self.advertisers_)) if rows is None else np.atleast_1d(rows)
        told = self.trials_by_bin_[index].toarray()
        hazard = self.form_ == "hazard"
        return Evidence(
            self.form_,
            self.pays_,
            self.edges_,
            self.successes_[index].toarray(),
            np.cumsum(told[:, ::-1], axis=1)[:, ::-1] if hazard else told,
            self.price_,
            self.observations_[index],
        )

    def curve(self, advertiser: str | None = None, *, text: str | None = None) -> PooledCurve:
        """Return the curves behind the forecasts of one advertiser; see :meth:`forecast`."""
        self._refuse_unfitted()
        return self._pooled(tables_of(self).placer.placed(advertiser, text))

    def forecast(
        self,
        advertiser: str | None = None,
        bid: ArrayLike = 1.0,
        *,
        supply: float | None = None,
        day: str | None = None,
        text: str | None = None,
    ) -> Any:
        """Impressions, spend and clicks at a bid, or at several.

        Parameters
        ----------
        advertiser : str, optional
            One that is not known is placed by ``text``, or else by all advertisers.
        bid : float or array-like
            In units of currency per thousand impressions (CPM).
        supply : float, optional
            Auctions; by default what the advertiser had on an average day, or on ``day``.
        day : str, optional
            A date, whose weekday sets the supply; in place of ``supply``.
        text : str, optional
            Of an advertiser that is not known.

        Returns
        -------
        Forecast, or list of Forecast
            A list where ``bid`` is one.
        """
        self._refuse_unfitted()
        bids = checked_bids(bid)
        tables = tables_of(self)
        placement = tables.placer.placed(advertiser, text)
        auctions, how = self._auctions(placement, supply, day)
        figures = tables.at_placed(placement, bids, auctions).tolist()
        found = [
            forecast_of(placement, b, auctions, of_bid, placement.why + how + tables.remark(b))
            for b, of_bid in zip(bids.tolist(), figures, strict=True)
        ]
        return found if np.ndim(bid) else found[0]

    def _pooled(self, placement: Placement) -> PooledCurve:
        evidence = self._no_evidence() if placement.row is None else self.evidence(placement.row)
        prior = mixed_rates(placement.shares[None], self.rates_, self.form_)[0]
        return pool(evidence, prior, self.choice_.strength)

    def _no_evidence(self) -> Evidence:
        nothing = np.zeros((1, len(self.edges_)))
        return Evidence(
            self.form_, self.pays_, self.edges_, nothing, nothing, self.price_, np.zeros(1)
        )

    def _auctions(
        self, placement: Placement, supply: float | None, day: str | None
    ) -> tuple[float, str]:
        if supply is not None and day is not None:
            raise InvalidParameterError(SUPPLY_OR_DAY)
        if supply is not None:
            return checked_supply(supply), ""
        if placement.row is None:
            raise InvalidParameterError(
                f"{quoted(placement.name or 'this advertiser')} is not in the log, so its supply "
                "is not known; give supply, the number of auctions"
            )
        try:
            on = None if day is None else date.fromisoformat(str(day))
        except ValueError as error:
            raise InvalidParameterError(
                f"day={day!r}: it must be a date as in 2026-03-09"
            ) from error
        return tables_of(self).supply(placement.row, on), describe_supply(self.supply_, on)

    def _refuse_unfitted(self) -> None:
        if not hasattr(self, "shares_"):
            from sklearn.utils.validation import check_is_fitted

            check_is_fitted(self, "shares_")


def load_market(path: str | os.PathLike[str]) -> FittedMarket:
    """Return the market in the model file of a forecaster, to forecast by and not to fit again."""
    from coterie.ads.segments.text_vectors import TextVectors

    # these need no scikit-learn, which takes longer to import than a model takes to load
    model = load_model(path, classes={"AdForecaster": FittedMarket, "TextView": TextVectors})
    if not isinstance(model, FittedMarket):
        raise ModelFileError(
            f"{os.fspath(path)} holds a {type(model).__name__}, which does not forecast; "
            "make a model with coterie ads segment"
        )
    return model
