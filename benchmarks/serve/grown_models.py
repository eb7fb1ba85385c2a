"""Fitted forecasters of any number of advertisers, grown from a small fitted one.

Fitting a hundred thousand advertisers takes too long for a benchmark of serving them. A small
market is simulated and fitted, and its advertisers are resampled: each copy has its own volume,
counts drawn around those of its original, and slightly different figures. What was fitted for the
market as a whole stays: the grid, the curves of the segments, the pooling strength, the text view.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator
from numpy.typing import NDArray
from sklearn.base import clone

from benchmarks.ads import simulate
from coterie.ads.forecasts.forecaster import AdForecaster
from coterie.ads.logs.simulation.simulated_traits import MarketSettings
from coterie.ads.segments.memberships import Memberships
from coterie.ads.segments.segment_profiles import doubtful_members
from coterie.errors import InvalidParameterError

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

#: The market that is fitted: a week of second-price auctions.
MARKET = MarketSettings(advertisers=400, segments=16, bids_per_day=30.0)
# standard deviations of the logarithm: how much is bid, and what it costs or brings
_VOLUME, _LITTLE = 0.5, 0.05
# shares are raised to a power between these and normalised: the largest stays the largest
_SHARPER = (0.8, 1.25)


def fitted_market(settings: MarketSettings = MARKET) -> AdForecaster:
    """Simulate a market and fit a forecaster to it, with one set of settings to choose from."""
    histograms, texts, *_ = simulate(settings)
    model = AdForecaster(settings.segments, alphas=(0.05,), strengths=(1.0, 10.0), origins=1)
    return model.fit(histograms, texts)


def grow(model: AdForecaster, advertisers: int, seed: int = 0) -> AdForecaster:
    """Return a forecaster of so many advertisers, resampled from those of a fitted one.

    Every original occurs at least once. Advertisers have new names, the same for every seed, so
    that two models grown from one answer the same questions differently.
    """
    n_before = len(model.advertisers_)
    if advertisers < n_before:
        raise InvalidParameterError(
            f"advertisers={advertisers}: give at least {n_before}, as many as the model has"
        )
    rng = np.random.default_rng(seed)
    again = rng.integers(n_before, size=advertisers - n_before)
    source = rng.permutation(np.concatenate([np.arange(n_before), again]))
    result = clone(model)  # then the fitted attributes, but no caches
    vars(result).update({name: value for name, value in vars(model).items() if name[-1] == "_"})
    width = len(str(advertisers - 1))
    result.advertisers_ = np.array([f"adv-{number:0{width}d}" for number in range(advertisers)])
    _grow_shares(result, model, source, rng)
    _grow_evidence(result, model, source, rng)
    _grow_rates(result, model, source, rng)
    _grow_texts(result, model, source, rng)
    _describe_anew(result, model, source)
    return result


def _grow_shares(result: AdForecaster, model: AdForecaster, source: Rows, rng: Generator) -> None:
    """Vary the shares of the originals, and order the segments by size again."""
    K = model.shares_.shape[1] - 1
    sizes = np.bincount(model.labels_[source][model.labels_[source] >= 0], minlength=K)
    order = np.argsort(-sizes, kind="stable")
    kept = [*order.tolist(), K]
    sharper = rng.uniform(*_SHARPER, size=(len(source), 1))
    shares = model.shares_[source][:, kept] ** sharper
    result.shares_ = shares / shares.sum(axis=1, keepdims=True)
    result.rates_ = model.rates_[kept]
    number = np.append(np.argsort(order), -1)  # of each segment in its new place; −1 stays −1
    result.labels_ = number[model.labels_[source]]
    result.confidence_ = result.shares_[:, :-1].max(axis=1, initial=0.0)
    result.segments_ = [model.segments_[s] for s in order]
    placed = number[model.agreement_.placed[source]]
    result.agreement_ = replace(model.agreement_, placed=placed)


def _grow_evidence(result: AdForecaster, model: AdForecaster, source: Rows, rng: Generator) -> None:
    """Draw Poisson counts around those of the originals times a volume of each advertiser."""
    volume = np.exp(rng.normal(0.0, _VOLUME, len(source)))
    other = sp.csr_array(model.trials_by_bin_ - model.successes_)
    other.data = np.maximum(other.data, 0.0)  # rounding may leave negative values
    result.successes_ = _drawn_anew(model.successes_, source, volume, rng)
    result.trials_by_bin_ = sp.csr_array(
        result.successes_ + _drawn_anew(other, source, volume, rng)
    )
    counts_before, counts = model.trials_by_bin_.sum(axis=1), result.trials_by_bin_.sum(axis=1)
    result.observations_ = counts * _ratio(model.observations_, counts_before)[source]


def _grow_rates(result: AdForecaster, model: AdForecaster, source: Rows, rng: Generator) -> None:
    """Scale supply, bids, wins, cost and rates of rare events with the evidence."""

    def varied(values: Floats) -> Floats:
        return values[source] * np.exp(rng.normal(0.0, _LITTLE, len(source)))

    more = _ratio(result.observations_, model.observations_[source])
    result.supply_ = replace(model.supply_, level=model.supply_.level[source] * more)
    result.bid_ = varied(model.bid_)
    result.wins_ = model.wins_[source] * more
    result.cost_ = varied(model.cost_) * more
    before = model.observations_.sum()
    result.rows_ = float(model.rows_ * result.observations_.sum() / before) if before else 0.0
    for event in ("click", "conversion"):
        rate, worth = getattr(model, f"{event}_rate_"), getattr(model, f"{event}_worth_")
        if rate is not None:
            setattr(result, f"{event}_rate_", np.clip(varied(rate), 0.0, 1.0))
            prior_worth = (worth - model.wins_)[source]
            setattr(result, f"{event}_worth_", prior_worth + result.wins_)


def _grow_texts(result: AdForecaster, model: AdForecaster, source: Rows, rng: Generator) -> None:
    """Draw unit vectors near those of the originals; a missing text stays missing."""
    if model.vectors_ is None:
        return
    vectors = model.vectors_[source]
    there = vectors.any(axis=1)
    vectors[there] += rng.normal(0.0, _LITTLE, (int(there.sum()), vectors.shape[1]))
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    result.vectors_ = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)


def _describe_anew(result: AdForecaster, model: AdForecaster, source: Rows) -> None:
    """Recompute sizes of segments, outliers and doubtful members."""
    labels = result.labels_
    result.segments_ = [
        replace(
            profile,
            size=int((labels == s).sum()),
            observations=float(result.observations_[labels == s].sum()),
        )
        for s, profile in enumerate(result.segments_)
    ]
    rank = np.full(len(model.advertisers_), -1)
    rank[model.outliers_] = np.arange(len(model.outliers_))
    odd = np.flatnonzero(rank[source] >= 0)
    result.outliers_ = odd[np.argsort(rank[source][odd], kind="stable")]
    memberships = Memberships(result.shares_, result.rates_, result.form_)
    result.doubtful_ = doubtful_members(memberships, result.observations_)


def _drawn_anew(counts: Any, source: Rows, volume: Floats, rng: Generator) -> sp.csr_array:
    """Return rows of a CSR array with Poisson counts around the originals times volume."""
    rows = sp.csr_array(counts)[source]
    rows.data = rng.poisson(rows.data * np.repeat(volume, np.diff(rows.indptr))).astype(np.float64)
    rows.eliminate_zeros()
    rows.sort_indices()
    return rows


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, and 0 where whole is 0."""
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)
