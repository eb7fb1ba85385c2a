"""AdForecaster: histograms and texts in; segments, curves and forecasts at any bid out."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from coterie.ads.curves.landscapes import Evidence
from coterie.ads.curves.supply import shrunk_shares, supply_of
from coterie.ads.forecasts.backtest import Choice, choose, settled, training_on
from coterie.ads.forecasts.fitted_market import FittedMarket
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.ads.segments.memberships import Memberships
from coterie.ads.segments.segment_profiles import (
    describe_segments,
    doubtful_members,
    outlying_members,
)
from coterie.ads.segments.settings import SegmentSettings
from coterie.ads.segments.sources import consensus_function, consensus_labels, robust_memberships
from coterie.ads.segments.text_view import TextView, texts_of, unit_rows
from coterie.ads.segments.view_agreement import compare_views
from coterie.errors import ModelFileError
from coterie.files.model_files import load_model
from coterie.runtime.devices import on_one_thread

__all__ = ["AdForecaster", "load_forecaster"]

Floats = NDArray[np.float64]

_LOG = logging.getLogger("coterie")


class AdForecaster(FittedMarket, BaseEstimator):
    """Segments of advertisers, their pooled curves, and forecasts from them.

    Impressions = supply · W(bid), spend = impressions · cost(bid) / 1000, where W and cost are
    the pooled curves of :mod:`coterie.ads.curves.pooling`: an advertiser's own evidence, completed
    by the segments it belongs to (:mod:`coterie.ads.segments.memberships`), which start from the
    consensus of four views (:mod:`coterie.ads.segments.views`).

    Parameters
    ----------
    n_segments : int or sequence of int
        Their number, or the numbers to choose from by backtest.
    alphas, strengths, max_observations, tolerance, wins_over, consensus, origins
        See :class:`~coterie.ads.segments.settings.SegmentSettings`.
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
    segments_ : list of K :class:`~coterie.ads.segments.segment_profiles.SegmentProfile`
    outliers_, doubtful_ : int arrays
        Advertisers unlike their segment, and those no segment has a clear claim to.
    agreement_ : :class:`~coterie.ads.segments.view_agreement.ViewAgreement`
    choice_ : :class:`~coterie.ads.forecasts.backtest.Choice`
    supply_ : :class:`~coterie.ads.curves.supply.Supply`
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
        evidence, views = training.evidence, training.informative_views
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
        self.successes_, self.trials_by_bin_ = sp.csr_array(evidence.successes), sp.csr_array(told)

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


def load_forecaster(path: str | os.PathLike[str]) -> AdForecaster:
    """Return the forecaster in a model file."""
    model = load_model(path)
    if not isinstance(model, AdForecaster):
        raise ModelFileError(
            f"{os.fspath(path)} holds a {type(model).__name__}, which does not forecast; "
            "make a model with coterie ads segment"
        )
    return model


def _chosen(
    histograms: BidHistograms, days: list[int], vectors: Floats | None, settings: SegmentSettings
) -> Choice:
    found = choose(histograms, days, vectors, settings, ("robust",))
    if "robust+pooled" in found:
        return found["robust+pooled"]
    # no view said anything: everyone is pooled with everyone
    return choose(histograms, days, vectors, settings, ("global",))["global+pooled"]


def _in_order_of_size(memberships: Memberships) -> Memberships:
    """Return the same with the largest segment first, and segments that nobody is in left out."""
    labels = memberships.labels
    sizes = np.bincount(labels[labels >= 0], minlength=memberships.shares.shape[1] - 1)
    order = [int(s) for s in np.argsort(-sizes, kind="stable") if sizes[s]]
    kept = [*order, memberships.shares.shape[1] - 1]
    shares = memberships.shares[:, kept]
    shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
    return Memberships(shares, memberships.rates[kept], memberships.form, memberships.n_iter)
