"""AdForecaster: histograms and texts in; segments, curves and forecasts at any bid out."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from coterie.ads.curves.day_levels import DayLevels
from coterie.ads.curves.price_readings import READINGS, price_misfit, readings_of
from coterie.ads.curves.supply import fit_supply_rule
from coterie.ads.fitting.backtest import (
    Backtest,
    SourceTrial,
    Training,
    backtest_market,
    event_rates,
    feasible_settings,
    paid_by,
    training_on,
    trials_on,
)
from coterie.ads.fitting.market_fit import fit_market, price_drift
from coterie.ads.fitting.representatives import (
    batches_of,
    choose_representatives,
    complete_all_curves,
    histograms_of,
    place_all,
    refuse_too_many,
    text_votes,
)
from coterie.ads.forecasts.calibration import Calibration
from coterie.ads.forecasts.fitted_market import Choice, FittedMarket, refuse_former
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.ads.histograms.price_grid import on_price_grid
from coterie.ads.histograms.stored_days import merge_histograms, pack_days, unpack_days
from coterie.ads.histograms.target_counts import TargetCounts, merge_targets, unpack_targets
from coterie.ads.segments.memberships import (
    consensus_function,
    consensus_labels,
    robust_memberships,
    sizable_segments,
)
from coterie.ads.segments.segment_profiles import (
    compare_views,
    describe_segments,
    doubtful_members,
    outlying_members,
    segment_curves,
    segment_texts,
)
from coterie.ads.segments.settings import SegmentSettings
from coterie.ads.segments.text_view import TextView, texts_of, unit_rows
from coterie.ads.targets.target_effects import Market, fit_targets
from coterie.arrays import Floats, Ints
from coterie.errors import CoterieWarning, InvalidParameterError, ModelFileError
from coterie.models import load_model
from coterie.runtime.devices import on_one_thread
from coterie.runtime.messages import warn_user
from coterie.runtime.wording import percent

#: A relative bias of the backtest above this is large.
_LARGE_BIAS = 0.15
#: The usual reading of prices that do not fit the wins must be better by so much.
_MISFIT = 0.1

_LOG = logging.getLogger("coterie")


class Prepared(NamedTuple):
    """What a fit starts from, all of it of the representatives but for the histograms."""

    histograms: BidHistograms  # as prices are read, with their masses
    sample: BidHistograms
    vectors: Floats | None  # of texts
    settings: SegmentSettings
    trials: list[SourceTrial]
    training: Training  # evidence and views of all days
    backtest: Backtest


class AdForecaster(FittedMarket, BaseEstimator):
    """Segments of advertisers, the curves of their markets, and forecasts from them.

    On a day with price level s, an advertiser wins a share W(b·e^{−s}) of its auctions at a bid b.
    Impressions = supply · W, spend = the mean cost of these auctions. The curve W is that of a
    dictionary of market curves (:mod:`coterie.ads.curves.market_dictionary`), completed by the
    advertiser's own auctions (:mod:`coterie.ads.curves.shrinkage`). The groups of the dictionary's
    prior are the segments: the consensus of four views (:mod:`coterie.ads.segments.views`).

    Parameters
    ----------
    n_segments : int or sequence of int
        Their number, or the numbers to choose from by backtest.
    alphas, strengths, max_observations, tolerance, n_neighbors, wins_over, consensus, origins, \
    max_representatives
        See :class:`~coterie.ads.segments.settings.SegmentSettings`.
    random_state : int

    Attributes
    ----------
    advertisers_ : (A,) array of str
    representatives_ : int array
        The advertisers that what is common to all was fitted to; see ``max_representatives``.
    labels_ : (A,) int
        The segment of each advertiser.
    shares_ : (A, K + 1) array
        Its share in each segment; the last column is "no segment in particular".
    confidence_ : (A,) array
        The largest share; less for an advertiser whose curve is unlike its segment's.
    segments_ : list of K :class:`~coterie.ads.segments.segment_profiles.SegmentProfile`
    outliers_, doubtful_ : int arrays
        Advertisers unlike their segment, and those that belong clearly to no segment.
    agreement_ : :class:`~coterie.ads.segments.segment_profiles.ViewAgreement`
    win_, spread_ : (A, G) float32 arrays
        W at the edges ``edges_`` of the grid, at price level 0, and its standard deviation.
    segment_win_, segment_spread_ : (K + 1, G) arrays
        The same of a new advertiser of each segment; the last row is of any.
    masses_ : (M,) int array
        Prices of many auctions, in micros: among the edges, each the end of a bin of its own.
    price_levels_ : :class:`~coterie.ads.curves.day_levels.DayLevels`
    supply_ : :class:`~coterie.ads.curves.supply.Supply`
    choice_ : :class:`~coterie.ads.forecasts.fitted_market.Choice`
    calibration_ : :class:`~coterie.ads.forecasts.calibration.Calibration`
    shares_above_ : (4, 2, 4) array or None
        How often values of the backtest were not below their intervals: by level, by whether the
        supply was given, and by target.
    targets_ : :class:`~coterie.ads.targets.target_effects.TargetEffects` or None
        What values of dimensions change; None if the log has none.
    warnings_ : list of str
        What should be known before the forecasts are trusted.
    """

    representatives_: Ints

    def __init__(
        self,
        n_segments: int | Sequence[int] = (8, 12, 16),
        *,
        alphas: Sequence[float] = (0.01, 0.05, 0.1),
        strengths: Sequence[float] = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
        max_observations: float | None = 2000.0,
        tolerance: float = 0.0,
        n_neighbors: int | str | None = "auto",
        wins_over: str = "wins",
        consensus: Any = None,
        origins: int = 2,
        max_representatives: int = 20_000,
        random_state: int = 0,
    ) -> None:
        self.n_segments = n_segments
        self.alphas = alphas
        self.strengths = strengths
        self.max_observations = max_observations
        self.tolerance = tolerance
        self.n_neighbors = n_neighbors
        self.wins_over = wins_over
        self.consensus = consensus
        self.origins = origins
        self.max_representatives = max_representatives
        self.random_state = random_state

    @on_one_thread()  # many small steps: handing them to other threads costs more than it gains
    def fit(
        self,
        histograms: BidHistograms,
        descriptions: Mapping[str, str] | None = None,
        *,
        embeddings: ArrayLike | None = None,
        targets: TargetCounts | None = None,
    ) -> Self:
        """Find the segments and everything a forecast needs.

        Parameters
        ----------
        histograms : BidHistograms
        descriptions : mapping of str to str, optional
            The text of each advertiser.
        embeddings : (A, d) array-like, optional
            Vectors of the texts, in place of ours, in the order of ``histograms.advertisers``.
        targets : TargetCounts, optional
            Counts by values of dimensions, from :func:`~coterie.ads.read_targets`; the model can
            then forecast single values and rank them.
        """
        histograms = on_price_grid(histograms)
        texts = texts_of(histograms.advertisers, descriptions)
        prepared = self._prepare(histograms, texts, ("robust",), embeddings)
        self._fit(histograms, texts, prepared)
        self.targets_ = None
        if targets is not None:
            rates = self.click_rate_, self.conversion_rate_
            market = Market(self.edges_, self.win_, self.shares_, *rates)
            self.targets_ = fit_targets(targets.of_advertisers(self.advertisers_), market)
        return self

    def update(
        self,
        histograms: BidHistograms,
        descriptions: Mapping[str, str] | None = None,
        *,
        embeddings: ArrayLike | None = None,
        targets: TargetCounts | None = None,
    ) -> Self:
        """Add days to a fitted model; the result is that of a fit to the old and the new days.

        The model keeps the histograms of its days, so that the old log is not read again.

        Parameters
        ----------
        histograms : BidHistograms
            Of the new days; none of them may be in the model.
        descriptions : mapping of str to str, optional
            Texts of new advertisers, and changed texts.
        embeddings : (A, d) array-like, optional
            Vectors of the texts of all advertisers, of the model and new ones, in sorted order;
            needed if the model was fitted with embeddings.
        targets : TargetCounts, optional
            Of the new days, with the dimensions of the model; needed if it has any.
        """
        self.refuse_unfitted()
        if self.stored_days_ is None:
            raise InvalidParameterError("this model keeps no days, so none can be added; fit it")
        if embeddings is None and self.vectors_ is not None and self.text_view_ is None:
            raise InvalidParameterError(
                "the model was fitted with embeddings; give those of all advertisers"
            )
        before, texts = unpack_days(self.stored_days_)
        together = merge_histograms(before, histograms)
        counts = self._merged_targets(targets)
        return self.fit(
            together, texts | dict(descriptions or {}), embeddings=embeddings, targets=counts
        )

    def _prepare(
        self,
        histograms: BidHistograms,
        texts: list[str],
        sources: Sequence[str],
        embeddings: ArrayLike | None = None,
    ) -> Prepared:
        """Choose the representatives, and make their views and the trials of some sources."""
        settings = SegmentSettings(**self.get_params(deep=False))
        most = self.max_representatives
        refuse_too_many(histograms, most)
        rows = choose_representatives(histograms, most, self.random_state)
        self.representatives_, self.text_view_, self.vectors_ = rows, None, None
        if embeddings is not None:
            self.vectors_ = unit_rows(embeddings, len(texts))
        elif any(texts[row] for row in rows.tolist()):
            view = TextView(random_state=self.random_state)
            self.text_view_ = view.fit([texts[row] for row in rows.tolist()])
            transform = self.text_view_.make_transform()
            blocks = (texts[at : at + most] for at in range(0, len(texts), most))
            self.vectors_ = np.concatenate([transform(block) for block in blocks])
        sample = histograms_of(histograms, rows)
        vectors = None if self.vectors_ is None else self.vectors_[rows]
        days = list(range(len(histograms.days)))
        settings = feasible_settings(sample, days, settings)
        tried: list[Prepared] = []
        error = []
        for reading in readings_of(sample):
            read = reading.of(histograms)
            sample = histograms_of(read, rows)
            trials = trials_on(sample, days, vectors, settings, sources)
            training = training_on(sample, days, vectors, settings)
            found = backtest_market(sample, trials, settings)
            found = found._replace(choice=replace(found.choice, prices=reading.name))
            tried.append(Prepared(read, sample, vectors, settings, trials, training, found))
            # days like those before do not show what the usual reading does to other bids
            error.append(found.choice.error * (1 + _MISFIT * (len(tried) == 1)))
        return tried[int(np.argmin(error))]

    def _fit(self, plain: BidHistograms, texts: list[str], prepared: Prepared) -> None:
        """Fit everything else; ``plain`` histograms and ``texts`` are of all advertisers."""
        histograms, sample, _, _, _, training, found = prepared
        rows, evidence, views = self.representatives_, training.evidence, training.informative_views
        choice, self.calibration_ = found.choice, found.calibration
        self.choice_, self.shares_above_ = choice, found.shares_above

        # segments: the consensus of the views of the representatives, in which all are placed
        labels, weights = np.full(len(rows), -1, dtype=np.int64), None
        if views and choice.n_segments:
            _LOG.info("Finding the segments the views agree on")
            function = consensus_function(self.consensus, choice.n_segments, self.random_state)
            labels, weights = consensus_labels(views, function)
        learned = robust_memberships(views, evidence, labels, self.max_observations)
        assert learned.rule is not None  # as of all memberships that were learned
        votes = []
        if "text" in views and self.vectors_ is not None:
            votes = [text_votes(self.vectors_, rows, views["text"].partitions)]
        supply = fit_supply_rule(sample.daily("count"), histograms.days)
        batches = batches_of(histograms, self.max_representatives)
        known = place_all(histograms, batches, evidence.price, learned.rule, votes, supply)
        memberships = replace(learned, shares=known.shares, rule=None)
        memberships = sizable_segments(memberships, known.observations)
        self.shares_, self.labels_ = memberships.shares, memberships.labels
        self.agreement_ = compare_views(views, self.labels_, weights, rows)

        # what the log says of each, as it is kept
        self.advertisers_, self.days_ = histograms.advertisers, histograms.days
        self.auction_, self.currency_ = histograms.auction, histograms.currency
        self.form_, self.pays_ = evidence.form, evidence.pays
        self.edges_, self.price_ = evidence.edges, evidence.price
        self.masses_ = histograms.masses
        self.observations_ = known.observations
        self.successes_, self.trials_by_bin_ = known.successes, known.trials_by_bin

        # curves: a dictionary with the segments as its groups, completed by everyone's auctions
        _LOG.info("Fitting the market curves")
        groups = np.where(evidence.observations > 0, self.labels_[rows], -1)
        days, n_segments = list(range(len(histograms.days))), self.shares_.shape[1] - 1
        fit = fit_market(sample, days, groups, n_segments, half_life=choice.half_life)
        of_sample = replace(memberships, shares=self.shares_[rows])
        by_segment = segment_curves(evidence, of_sample)
        self.price_levels_ = fit.levels
        count, bid, wins, cost, clicks, conversions = known.sums.values()
        self.bid_ = np.divide(bid, count, out=np.zeros(len(bid)), where=count > 0)
        self.win_, self.spread_, distances = complete_all_curves(
            histograms,
            batches,
            fit,
            choice.strength,
            memberships,
            evidence.price,
            by_segment,
            found.widening,
            self.bid_,
        )
        self.segment_win_, self.segment_spread_ = fit.segment_curves()
        self.price_, self.paid_ = paid_by(self.win_, evidence, histograms, days, rows)

        # who is unlike the others, and what the segments are called
        self.outliers_, distance = outlying_members(distances)
        self.doubtful_ = doubtful_members(memberships, self.observations_)
        self.confidence_ = self.shares_[:, :-1].max(axis=1, initial=0.0)
        # half the distance of all curves leaves no confidence
        self.confidence_[self.outliers_] *= np.maximum(1.0 - 2.0 * distance, 0.0)
        curves, of_rows = self.segment_win_[:-1], [texts[row] for row in rows.tolist()]
        about = segment_texts(of_rows, prepared.vectors, self.labels_[rows], len(curves))
        self.segments_ = describe_segments(
            curves, self.edges_, self.labels_, self.observations_, about
        )

        # supply and rates
        self.supply_ = known.supply
        self.wins_, self.cost_, self.rows_ = wins, cost, float(count.sum())
        self.click_rate_, self.click_worth_ = event_rates(clicks, wins, self.shares_)
        self.conversion_rate_, self.conversion_worth_ = event_rates(conversions, wins, self.shares_)

        named = dict(zip(histograms.advertisers.tolist(), texts, strict=True))
        self.stored_days_ = pack_days(plain, named)
        self.warnings_ = model_warnings(self.price_levels_, choice, self.calibration_)
        misfit = price_misfit(histograms_of(plain, rows))
        if misfit is not None:
            chosen = f"; {READINGS[choice.prices]}" if choice.days else ""
            self.warnings_.append(misfit.sentence + chosen)
        for sentence in self.warnings_:
            warn_user(sentence, CoterieWarning)

    def _merged_targets(self, added: TargetCounts | None) -> TargetCounts | None:
        """Return the counts of the model and of new days; both must have dimensions, or none."""
        if self.targets_ is None or self.targets_.counts is None:
            if added is not None:
                raise InvalidParameterError("the model has no dimensions to add these counts to")
            return None
        if added is None:
            names = ", ".join(self.targets_.dimensions)
            raise InvalidParameterError(
                f"the model has the dimensions {names}; give the counts of the new days by them"
            )
        return merge_targets(unpack_targets(self.targets_.counts, self.advertisers_), added)


def model_warnings(levels: DayLevels, choice: Choice, calibration: Calibration) -> list[str]:
    """Return what a user should know before trusting a model, as sentences without a full stop."""
    found = []
    drift = price_drift(levels)
    if drift is not None:
        found.append(drift.sentence)
    elif abs(choice.bias) > max(_LARGE_BIAS, 3 * choice.bias_error):
        # a drift explains a bias of the last days
        direction = "above" if choice.bias > 0 else "below"
        found.append(
            f"forecasts of the last days were {percent(abs(choice.bias))} {direction} the actual "
            "values; check that the log has all bids, and its auction type"
        )
    if calibration.is_suspicious:
        found.append(
            f"intervals had to be widened by a factor of {calibration.inflation:.1f} to contain "
            "the last days; the log varies more from day to day than its auctions explain"
        )
    return found


def load_forecaster(path: str | os.PathLike[str]) -> AdForecaster:
    """Return the forecaster in a model file."""
    model = load_model(path)
    if not isinstance(model, AdForecaster):
        raise ModelFileError(
            f"{os.fspath(path)} holds a {type(model).__name__}, which does not forecast; "
            "make a model with coterie ads segment"
        )
    refuse_former(model, path)
    return model
