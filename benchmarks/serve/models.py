"""Models to serve, questions to ask, and a check that answers are the model's.

Fitting a hundred thousand advertisers takes too long for a benchmark of serving them. A small
market is simulated and fitted, and its advertisers are resampled: each copy has its own volume,
counts drawn around those of its original, and slightly different curves and figures. What was
fitted for the market as a whole stays: the grid, the segments with their curves, the levels of
days, the calibration, the text view. The days of the log are not stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator
from numpy.typing import NDArray
from sklearn.base import clone

from benchmarks.ads import simulate
from coterie.ads.fitting.forecaster import AdForecaster
from coterie.ads.logs.simulation.simulated_traits import MarketSettings

Floats = NDArray[np.float64]

#: The market that is fitted: a week of second-price auctions.
MARKET = MarketSettings(advertisers=400, segments=16, bids_per_day=30.0)
# standard deviations of the logarithm: how much is bid, and what it costs or brings
_VOLUME, _LITTLE = 0.5, 0.05


def fitted_market(settings: MarketSettings = MARKET) -> AdForecaster:
    """Simulate a market and fit a forecaster to it, with one set of settings to choose from."""
    histograms, texts, *_ = simulate(settings)
    model = AdForecaster(settings.segments, alphas=(0.05,), strengths=(1.0, 10.0), origins=1)
    return model.fit(histograms, texts)


def grow(model: AdForecaster, advertisers: int, seed: int = 0) -> AdForecaster:
    """Return a forecaster of more advertisers, resampled from those of a fitted one.

    Every original occurs at least once. Advertisers have new names, the same for every seed, so
    that two models grown from one answer the same questions differently.
    """
    n_before = len(model.advertisers_)
    rng = np.random.default_rng(seed)
    again = rng.integers(n_before, size=advertisers - n_before)
    source = rng.permutation(np.concatenate([np.arange(n_before), again]))
    result = clone(model)  # then the fitted attributes, but no caches
    vars(result).update({name: value for name, value in vars(model).items() if name[-1] == "_"})
    width = len(str(advertisers - 1))
    result.advertisers_ = np.array([f"adv-{number:0{width}d}" for number in range(advertisers)])
    # raised to a power and normalised: the largest share stays the largest
    shares = model.shares_[source] ** rng.uniform(0.8, 1.25, size=(advertisers, 1))
    result.shares_ = shares / shares.sum(axis=1, keepdims=True)
    result.labels_, result.confidence_ = model.labels_[source], model.confidence_[source]
    result.agreement_ = replace(model.agreement_, placed=model.agreement_.placed[source])
    _grow_evidence(result, model, source, rng)
    _grow_rates(result, model, source, rng)
    # a power of a curve is a curve: it rises from 0 to 1
    power = np.exp(rng.normal(0.0, _LITTLE, (advertisers, 1))).astype(np.float32)
    result.win_, result.spread_ = model.win_[source] ** power, model.spread_[source]
    result.outliers_ = np.flatnonzero(np.isin(source, model.outliers_))
    result.doubtful_ = np.flatnonzero(np.isin(source, model.doubtful_))
    result.stored_days_ = None
    return result


def draw_questions(
    model: AdForecaster, n: int, size: int = 1, *, two_bids: bool = False
) -> list[bytes]:
    """Draw n bodies: any advertiser, any bid of the grid's range. Above 1, a size makes lists.

    With ``two_bids`` each question has that bid and one a tenth above it.
    """
    rng = np.random.default_rng(0)
    low, high = np.log(model.edges_[[0, -1]] / 1_000_000)
    bids = np.maximum(np.exp(rng.uniform(low, high, n * size)).round(2), 0.01).tolist()
    who = model.advertisers_[rng.integers(len(model.advertisers_), size=n * size)].tolist()
    asked: list[Any] = [[bid, round(1.1 * bid, 3)] for bid in bids] if two_bids else bids
    drawn = [{"advertiser": a, "bid": b} for a, b in zip(who, asked, strict=True)]
    if size == 1:
        return [json.dumps(question).encode() for question in drawn]
    starts = range(0, n * size, size)
    return [json.dumps(drawn[start : start + size]).encode() for start in starts]


def check_answers(
    bodies: Sequence[bytes], models: Mapping[str, AdForecaster], most: int = 200
) -> dict[str, Any]:
    """Compare answers with what ``AdForecaster.forecast`` of the model they name gives.

    ``models`` are given by version. About ``most`` forecasts are checked, spread over the answers.
    Return how many were checked, the faults found, and the versions that answered.
    """
    found = [json.loads(body) for body in bodies]
    forecasts = [
        (models.get(one["model"]["version"]), answer, forecast)
        for one in found
        for answer in one.get("answers", [one])
        for forecast in answer["forecasts"]
    ]
    chosen = forecasts[:: max(1, len(forecasts) // most)]
    faults = [_fault(*forecast) for forecast in chosen]
    return {
        "checked": len(chosen),
        "faults": [fault for fault in faults if fault],
        "versions": sorted({one["model"]["version"] for one in found}),
    }


def _fault(
    model: AdForecaster | None, answer: Mapping[str, Any], forecast: Mapping[str, Any]
) -> str:
    """Return what differs from the model's forecast; empty if nothing does."""
    if model is None:
        return "unknown model version"
    right = model.forecast(answer["advertiser"], forecast["bid"]).as_dict()
    found = {**answer, **forecast}
    for name in ("segment", "curve", "supply", "level", *forecast):
        one, other = found[name], right[name]
        if one != other and (
            isinstance(other, str | None) or not np.allclose(one, other, 1e-9, 1e-9)
        ):
            return f"{answer['advertiser']} at {forecast['bid']}: {name} is {one!r}, not {other!r}"
    return ""


def _grow_evidence(
    result: AdForecaster, model: AdForecaster, source: NDArray[np.int64], rng: Generator
) -> None:
    """Draw Poisson counts around those of the originals times a volume of each advertiser."""
    volume = np.exp(rng.normal(0.0, _VOLUME, len(source)))

    def drawn(counts: sp.csr_array) -> sp.csr_array:
        rows = sp.csr_array(counts)[source]
        mean = np.maximum(rows.data, 0.0)  # rounding may leave negative values
        rows.data = rng.poisson(mean * np.repeat(volume, np.diff(rows.indptr))).astype(np.float64)
        rows.eliminate_zeros()
        rows.sort_indices()
        return rows

    result.successes_ = drawn(model.successes_)
    others = drawn(model.trials_by_bin_ - model.successes_)
    result.trials_by_bin_ = sp.csr_array(result.successes_ + others)
    counts_before, counts = model.trials_by_bin_.sum(axis=1), result.trials_by_bin_.sum(axis=1)
    result.observations_ = counts * _ratio(model.observations_, counts_before)[source]


def _grow_rates(
    result: AdForecaster, model: AdForecaster, source: NDArray[np.int64], rng: Generator
) -> None:
    """Scale supply, bids, wins and cost with the evidence; vary rates of events and texts."""

    def varied(values: Floats) -> Floats:
        return values[source] * np.exp(rng.normal(0.0, _LITTLE, len(source)))

    more = _ratio(result.observations_, model.observations_[source])
    supply = model.supply_
    result.supply_ = replace(
        supply,
        level=supply.level[source] * more,
        error=supply.error[source],
        variation=supply.variation[source],
        weekday=supply.weekday[source],
        unseen=supply.unseen[source],
        weekday_variance=supply.weekday_variance[source],
    )
    result.bid_ = varied(model.bid_)
    result.wins_ = model.wins_[source] * more
    result.cost_ = varied(model.cost_) * more
    result.rows_ = float(model.rows_ * result.observations_.sum() / model.observations_.sum())
    for event in ("click", "conversion"):
        rate, worth = getattr(model, f"{event}_rate_"), getattr(model, f"{event}_worth_")
        setattr(result, f"{event}_rate_", np.clip(varied(rate), 0.0, 1.0))
        setattr(result, f"{event}_worth_", (worth - model.wins_)[source] + result.wins_)
    vectors = np.asarray(model.vectors_)[source]
    there = vectors.any(axis=1)  # a missing text stays missing
    vectors[there] += rng.normal(0.0, _LITTLE, (int(there.sum()), vectors.shape[1]))
    vectors[there] /= np.linalg.norm(vectors[there], axis=1, keepdims=True)
    result.vectors_ = vectors


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, and 0 where whole is 0."""
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)
