"""AdForecaster: histograms and texts in; segments, curves and forecasts at any bid out."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from coterie.ads.backtest import Choice, choose, settled, training_on
from coterie.ads.curves import Evidence
from coterie.ads.evaluation import texts_of
from coterie.ads.forecasts import (
    Forecast,
    PooledCurve,
    Rates,
    checked_bids,
    checked_supply,
    forecast_at,
    pool,
)
from coterie.ads.histograms import BidHistograms
from coterie.ads.memberships import Memberships
from coterie.ads.pooling import mixed_rates
from coterie.ads.segment_profiles import describe_segments, doubtful_members, outlying_members
from coterie.ads.settings import SegmentSettings
from coterie.ads.sources import consensus_function, consensus_labels, robust_memberships
from coterie.ads.supply import expected_supply, shrunk_shares, supply_of, weekday_of
from coterie.ads.text_view import TextView, unit_rows
from coterie.ads.view_agreement import compare_views
from coterie.devices import on_one_thread
from coterie.errors import InvalidParameterError

__all__ = ["AdForecaster"]

Floats = NDArray[np.float64]

_LOG = logging.getLogger("coterie")
_NEIGHBOURS = 15
_ALIKE = 0.1


class AdForecaster(BaseEstimator):
    """Segments of advertisers, their pooled curves, and forecasts from them.

    Impressions = supply · W(bid), spend = impressions · cost(bid) / 1000, where W and cost are
    the pooled curves of :mod:`coterie.ads.pooling`: an advertiser's own evidence, completed by
    the segments it belongs to (:mod:`coterie.ads.memberships`), which start from the consensus
    of four views (:mod:`coterie.ads.views`).

    Parameters
    ----------
    n_segments : int or sequence of int
        Their number, or the numbers to choose from by backtest.
    alphas, strengths, max_observations, tolerance, wins_over, consensus, origins
        See :class:`~coterie.ads.settings.SegmentSettings`.
    random_state : int

    Attributes
    ----------
    advertisers_ : (A,) array of str
    labels_ : (A,) int
        The segment of each advertiser.
    shares_ : (A, K + 1) array
        Its share in each segment; the last column is "no segment in particular".
    confidence_ : (A,) array
        The largest share.
    segments_ : list of K :class:`~coterie.ads.segment_profiles.SegmentProfile`
    outliers_, doubtful_ : int arrays
        Advertisers unlike their segment, and those no segment has a clear claim to.
    agreement_ : :class:`~coterie.ads.view_agreement.ViewAgreement`
    choice_ : :class:`~coterie.ads.backtest.Choice`
    supply_ : :class:`~coterie.ads.supply.Supply`
    """

    def __init__(
        self,
        n_segments: int | Sequence[int] = (8, 12, 16),
        *,
        alphas: Sequence[float] = (0.01, 0.05, 0.1),
        strengths: Sequence[float] = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
        max_observations: float | None = 2000.0,
        tolerance: float = 0.0,
        wins_over: str = "wins",
        consensus: Any = None,
        origins: int = 2,
        random_state: int = 0,
    ) -> None:
        self.n_segments = n_segments
        self.alphas = alphas
        self.strengths = strengths
        self.max_observations = max_observations
        self.tolerance = tolerance
        self.wins_over = wins_over
        self.consensus = consensus
        self.origins = origins
        self.random_state = random_state

    @on_one_thread()  # many small steps: handing them to other threads costs more than it gains
    def fit(
        self,
        histograms: BidHistograms,
        descriptions: Mapping[str, str] | None = None,
        *,
        embeddings: ArrayLike | None = None,
        choice: Choice | None = None,
    ) -> Self:
        """Find the segments and everything a forecast needs.

        Parameters
        ----------
        histograms : BidHistograms
        descriptions : mapping of str to str, optional
            The text of each advertiser.
        embeddings : (A, d) array-like, optional
            Vectors of the texts, in place of ours, in the order of ``histograms.advertisers``.
        choice : Choice, optional
            What an evaluation chose; by default it is chosen here, on all days.
        """
        settings = SegmentSettings(**self.get_params(deep=False))
        texts = texts_of(histograms.advertisers, descriptions)
        self.text_view_ = self._fitted_text_view(texts, embeddings)
        vectors = self._vectors(texts, embeddings)
        days = list(range(len(histograms.days)))
        settings = settled(histograms, days, settings)
        self.choice_ = choice or _chosen(histograms, days, vectors, settings)
        training = training_on(histograms, days, vectors, settings)
        evidence, views = training.evidence, training.telling_views
        labels, weights = np.full(len(texts), -1, dtype=np.int64), None
        if views:
            _LOG.info("Finding the segments the views agree on")
            k = int(dict(self.choice_.settings).get("k", 1))
            function = consensus_function(self.consensus, k, self.random_state)
            labels, weights = consensus_labels(views, function)
        memberships = robust_memberships(views, evidence, labels, self.max_observations)
        memberships = _in_order_of_size(memberships)
        self._keep_evidence(histograms, evidence)
        self.shares_, self.rates_ = memberships.shares, memberships.rates
        self.labels_ = memberships.labels
        self.confidence_ = memberships.shares[:, :-1].max(axis=1, initial=0.0)
        self.segments_ = describe_segments(evidence, memberships, texts)
        self.outliers_ = outlying_members(evidence, memberships)
        self.doubtful_ = doubtful_members(memberships, evidence.observations)
        self.agreement_ = compare_views(views, self.labels_, weights)
        self.vectors_ = vectors
        self._keep_rates(histograms)
        return self

    @property
    def memberships_(self) -> Memberships:
        """Shares and rates together."""
        return Memberships(self.shares_, self.rates_, self.form_)

    def evidence(self, rows: ArrayLike | None = None) -> Evidence:
        """The evidence of some advertisers, by index; by default of all."""
        index = np.arange(len(self.advertisers_)) if rows is None else np.atleast_1d(rows)
        told = self.told_[index].toarray()
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
        """The curves behind the forecasts of one advertiser.

        Parameters
        ----------
        advertiser, text : str, optional
            As in :meth:`forecast`.
        """
        check_is_fitted(self, "shares_")
        return self._pooled(self._placed(advertiser, text))

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
            A date; its weekday sets the supply.
        text : str, optional
            Of an advertiser that is not known.

        Returns
        -------
        Forecast, or list of Forecast
            A list where ``bid`` is one.
        """
        check_is_fitted(self, "shares_")
        bids = checked_bids(bid)
        placement = self._placed(advertiser, text)
        auctions, how = self._auctions(placement, supply, day)
        curve, noise = self._pooled(placement), self.choice_.noise
        rates = Rates(
            *_rate_and_doubt(placement.weights, self.click_rate_, self.click_worth_),
            *_rate_and_doubt(placement.weights, self.conversion_rate_, self.conversion_worth_),
        )
        found = [
            Forecast(
                advertiser=placement.name,
                segment=placement.segment,
                curve=placement.curve,
                why=placement.why + how + self._beyond(b),
                **forecast_at(b, auctions, curve, rates, noise),
            )
            for b in bids
        ]
        return found if np.ndim(bid) else found[0]

    def _pooled(self, placement: _Placement) -> PooledCurve:
        evidence = self._no_evidence() if placement.row is None else self.evidence(placement.row)
        prior = mixed_rates(placement.shares[None], self.rates_, self.form_)[0]
        return pool(evidence, prior, self.choice_.strength)

    def _no_evidence(self) -> Evidence:
        nothing = np.zeros((1, len(self.edges_)))
        return Evidence(
            self.form_, self.pays_, self.edges_, nothing, nothing, self.price_, np.zeros(1)
        )

    def _placed(self, advertiser: str | None, text: str | None) -> _Placement:
        """Who is asked about, and on what grounds."""
        if advertiser is not None:
            advertiser = str(advertiser)  # as the log's are, if they are numbers there
            row = int(np.searchsorted(self.advertisers_, advertiser))
            if row < len(self.advertisers_) and self.advertisers_[row] == advertiser:
                return self._known(row)
        if advertiser is None and text is None:
            raise InvalidParameterError("name an advertiser, or give the text of a new one")
        return self._unknown(advertiser or "", text or "")

    def _known(self, row: int) -> _Placement:
        name, n = str(self.advertisers_[row]), self.observations_[row]
        weights = np.zeros(len(self.advertisers_))
        weights[row] = 1.0
        segment = self.segments_[self.labels_[row]].name if self.segments_ else ""
        share = f"the segment {segment!r} (share {self.confidence_[row]:.0%})"
        grounds = (
            f"{n:,.0f} bid{'' if n == 1 else 's'} of its own, completed by "
            f"{share if segment else 'all advertisers'}"
        )
        return _Placement(name, row, self.shares_[row], weights, segment, "pooled", grounds)

    def _unknown(self, name: str, text: str) -> _Placement:
        likeness = self._likeness(text)
        called = f"{name!r} is not in the log" if name else "no advertiser was named"
        if likeness is None:
            everyone = np.zeros(self.shares_.shape[1])
            everyone[-1] = 1.0
            weights = self.observations_ / max(self.observations_.sum(), 1e-12)
            told = "its text resembles no other" if self.text_view_ else "nor are there any texts"
            told = told if text.strip() else "and no text was given"
            why = f"{called}, {told}: the curve of all advertisers"
            return _Placement(name, None, everyone, weights, "", "global", why)
        shares = likeness @ self.shares_
        segment = self.segments_[int(shares[:-1].argmax())].name if self.segments_ else ""
        why = (
            f"{called}: placed by its text, beside {int((likeness > 0).sum())} advertisers with "
            f"similar ones, most of them in the segment {segment!r}"
        )
        return _Placement(name, None, shares, likeness, segment, "text", why)

    def _likeness(self, text: str) -> Floats | None:
        """Weights of the advertisers with the most similar texts, summing to 1; None without."""
        if not text.strip() or self.text_view_ is None or self.vectors_ is None:
            return None
        cosine = self.vectors_ @ self.text_view_.transform([text])[0]
        cosine[self.observations_ <= 0] = 0.0
        nearest = np.argsort(-cosine, kind="stable")[:_NEIGHBOURS]
        weights = np.zeros(len(cosine))
        weights[nearest] = np.where(cosine[nearest] > _ALIKE, cosine[nearest], 0.0)
        total = weights.sum()
        return weights / total if total > 0 else None

    def _auctions(
        self, placement: _Placement, supply: float | None, day: str | None
    ) -> tuple[float, str]:
        if supply is not None:
            return checked_supply(supply), ""
        if placement.row is None:
            raise InvalidParameterError(
                f"{placement.name or 'this advertiser'!r} is not in the log, so its supply is not "
                "known; give supply, the number of auctions"
            )
        try:
            expected = expected_supply(self.supply_, placement.row, day)
        except ValueError as error:
            raise InvalidParameterError(
                f"day={day!r}: it must be a date as in 2026-03-09"
            ) from error
        told = f"; supply of {'an average day' if day is None else day}"
        if day is not None and not self.supply_.seen[weekday_of(day)]:
            told += ", a weekday that is not in the log: that of an average day"
        return expected, told

    def _beyond(self, bid: float) -> str:
        """What the user should know of a bid, and of the interval."""
        highest = self.edges_[-1] / 1_000_000
        told = f"; above every bid seen ({highest:g}), so taken as that" if bid > highest else ""
        if not self.choice_.days:
            told += "; too few days to tell how much varies from day to day: intervals leave it out"
        return told

    def _fitted_text_view(self, texts: list[str], embeddings: ArrayLike | None) -> TextView | None:
        if embeddings is not None or not any(texts):
            return None
        return TextView(random_state=self.random_state).fit(texts)

    def _vectors(self, texts: list[str], embeddings: ArrayLike | None) -> Floats | None:
        if embeddings is not None:
            return unit_rows(embeddings, len(texts))
        return None if self.text_view_ is None else np.asarray(self.text_view_.transform(texts))

    def _keep_evidence(self, histograms: BidHistograms, evidence: Evidence) -> None:
        self.advertisers_ = histograms.advertisers
        self.days_ = histograms.days
        self.auction_, self.currency_ = histograms.auction, histograms.currency
        self.form_, self.pays_ = evidence.form, evidence.pays
        self.edges_, self.price_ = evidence.edges, evidence.price
        self.observations_ = evidence.observations
        told = evidence.trials
        if evidence.form == "hazard":
            told = -np.diff(evidence.trials, axis=1, append=0.0)
        self.successes_, self.told_ = sp.csr_array(evidence.successes), sp.csr_array(told)

    def _keep_rates(self, histograms: BidHistograms) -> None:
        counts = histograms.dense()
        wins = counts.wins.sum(axis=1)
        self.supply_ = supply_of(histograms)
        self.bid_ = np.divide(
            counts.bid.sum(axis=1),
            counts.bids.sum(axis=1),
            out=np.zeros(len(wins)),
            where=counts.bids.sum(axis=1) > 0,
        )
        self.wins_, self.cost_ = wins, counts.cost.sum(axis=1)
        self.rows_ = float(counts.bids.sum())
        self.click_rate_ = self.click_worth_ = None
        self.conversion_rate_ = self.conversion_worth_ = None
        if counts.clicks.any():
            self.click_rate_, self.click_worth_ = shrunk_shares(counts.clicks, wins, self.shares_)
        if counts.conversions.any():
            self.conversion_rate_, self.conversion_worth_ = shrunk_shares(
                counts.conversions, wins, self.shares_
            )


@dataclass(frozen=True)
class _Placement:
    """Who is asked about: its row or None, shares in segments, whom its rates are taken from."""

    name: str
    row: int | None
    shares: Floats
    weights: Floats
    segment: str
    curve: str
    why: str


def _rate_and_doubt(
    weights: Floats, rates: Floats | None, worth: Floats | None
) -> tuple[float | None, float]:
    """The rate of an advertiser, or of several weighted, and its standard deviation.

    A rate worth M impressions has the variance p(1 − p)/(M + 1); that between the advertisers
    a new one is likened to is added.
    """
    if rates is None or worth is None:
        return None, 0.0
    mean = float(weights @ rates)
    variance = weights @ (rates * (1 - rates) / (worth + 1)) + weights @ (rates - mean) ** 2
    return mean, float(np.sqrt(variance))


def _chosen(
    histograms: BidHistograms, days: list[int], vectors: Floats | None, settings: SegmentSettings
) -> Choice:
    found = choose(histograms, days, vectors, settings, ("robust",))
    if "robust+pooled" in found:
        return found["robust+pooled"]
    # no view said anything: everyone is pooled with everyone
    return choose(histograms, days, vectors, settings, ("global",))["global+pooled"]


def _in_order_of_size(memberships: Memberships) -> Memberships:
    """The same with the largest segment first, and segments that nobody is in left out."""
    labels = memberships.labels
    sizes = np.bincount(labels[labels >= 0], minlength=memberships.shares.shape[1] - 1)
    order = [int(s) for s in np.argsort(-sizes, kind="stable") if sizes[s]]
    kept = [*order, memberships.shares.shape[1] - 1]
    shares = memberships.shares[:, kept]
    shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
    return Memberships(shares, memberships.rates[kept], memberships.form, memberships.n_iter)
