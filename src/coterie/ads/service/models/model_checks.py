"""A model is sound before it is served: everything a forecast reads is there, and in its bounds.

A model file is known to be as it was written, not to be right: another program, or a person, may
have written it. A model that passes gives finite figures at every bid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sp

from coterie.ads.curves.supply import Supply
from coterie.ads.forecasts.fitted_market import FittedMarket
from coterie.ads.forecasts.pooled_curves import Choice
from coterie.ads.protocol import Limits
from coterie.ads.segments.segment_profiles import SegmentProfile
from coterie.ads.segments.text_vectors import TextVectors
from coterie.ads.segments.view_agreement import ViewAgreement
from coterie.errors import ModelFileError

__all__ = ["check_model"]

#: No count, price or amount of money comes near it, and its square is far from overflowing.
_MOST = 1e18
_MOST_SUPPLY = 1e15
_MOST_STRENGTH = 1e100
_MOST_IDF = 1e3
_ROUNDING = 1e-6
# what division may leave above 1
_LAST_DIGIT = 1e-12
_COSINES = (-1.0 - _LAST_DIGIT, 1.0, _LAST_DIGIT)
_WEEKDAYS = 7
_MOST_ID = Limits().id_chars
_MOST_NAME = 1_000
_MOST_CURRENCY = 64
_PROBES = ("hotel by the beach", "Ω", "a" * 200)


def check_model(model: Any) -> None:
    """Refuse a model that cannot be served, by the attribute that is wrong and what it must be.

    >>> check_model("market")
    Traceback (most recent call last):
    ...
    coterie.errors.ModelFileError: it holds a str, which does not forecast; make a model ...
    """
    if not isinstance(model, FittedMarket):
        raise ModelFileError(
            f"it holds a {type(model).__name__}, which does not forecast; make a model with "
            "coterie ads segment"
        )
    for check in _CHECKS:
        try:
            check(model)
        except ModelFileError as error:
            raise ModelFileError(f"its model is not sound: {error}; make it again") from error
        except AttributeError as error:
            raise ModelFileError(
                f"its model is not sound: it lacks {error.name}; make it again"
            ) from error
        except (TypeError, ValueError, LookupError, ArithmeticError, MemoryError) as error:
            # what no check foresaw, such as a list where an array is meant
            raise ModelFileError(
                f"its model is not sound ({type(error).__name__}); make it again"
            ) from error


def _check_advertisers(model: FittedMarket) -> None:
    ids = model.advertisers_
    _require(
        isinstance(ids, np.ndarray) and ids.ndim == 1 and ids.size > 0,
        "advertisers_ must be an array of at least one id",
    )
    listed = ids.tolist()
    _require(set(map(type, listed)) == {str}, "advertisers_ must be texts")
    joined = "\n".join(listed)
    _check_text("advertisers_", joined)
    _require("\0" not in joined, "advertisers_ must not hold the character NUL")
    _require(
        max(map(len, listed)) <= _MOST_ID,
        f"advertisers_ must be of at most {_MOST_ID:,} characters, which is what can be asked for",
    )
    in_order = all(map(str.__lt__, listed[:-1], listed[1:]))
    _require(in_order, "advertisers_ must be in order, and each of them once")


def _check_grid(model: FittedMarket) -> None:
    _one_of("form_", model.form_, ("hazard", "rate"))
    _one_of("pays_", model.pays_, ("price", "bid"))
    _one_of("auction_", model.auction_, ("first", "second"))
    _check_text("currency_", model.currency_)
    _require(
        len(model.currency_) <= _MOST_CURRENCY,
        f"currency_ must be of at most {_MOST_CURRENCY} characters",
    )
    edges = model.edges_
    _require(
        isinstance(edges, np.ndarray) and edges.dtype.kind == "i" and edges.ndim == 1,
        "edges_ must be an array of whole numbers",
    )
    _require(
        edges.size > 0 and edges[0] > 0 and bool((edges[1:] > edges[:-1]).all()),
        "edges_ must increase, from above 0",
    )
    _require(edges[-1] <= _MOST, f"edges_ must be at most {_MOST:g}")
    _numbers("price_", model.price_, (edges.size,))
    days = model.days_
    _require(
        isinstance(days, np.ndarray) and days.dtype == np.dtype("datetime64[D]") and days.ndim == 1,
        "days_ must be an array of days",
    )
    _require(
        days.size > 0 and not np.isnat(days).any() and bool((days[1:] > days[:-1]).all()),
        "days_ must be dates in order, at least one",
    )


def _check_evidence(model: FittedMarket) -> None:
    shape = (len(model.advertisers_), len(model.edges_))
    _counts("successes_", model.successes_, shape)
    _counts("trials_by_bin_", model.trials_by_bin_, shape)
    _numbers("observations_", model.observations_, shape[:1])
    parts = [
        part.astype(kind, copy=False)
        for matrix in (model.successes_, model.trials_by_bin_)
        for part, kind in (
            (matrix.indptr, np.int64),
            (matrix.indices, np.int32),
            (matrix.data, np.float64),
        )
    ]
    _require(_most_excess(*parts) <= _ROUNDING, "successes_ must not exceed trials_by_bin_")


@nb.njit(cache=True, nogil=True)
def _most_excess(
    starts: Any, columns: Any, counts: Any, other_starts: Any, other_columns: Any, other: Any
) -> Any:
    """By how much a count exceeds the other of its cell at most, as a share of it or of 1."""
    worst = 0.0
    for row in range(len(starts) - 1):
        at, end = other_starts[row], other_starts[row + 1]
        for i in range(starts[row], starts[row + 1]):
            while at < end and other_columns[at] < columns[i]:
                at += 1
            least = other[at] if at < end and other_columns[at] == columns[i] else 0.0
            worst = max(worst, (counts[i] - least) / max(least, 1.0))
    return worst


def _check_segments(model: FittedMarket) -> None:
    A, G = len(model.advertisers_), len(model.edges_)
    segments = model.segments_
    _require(isinstance(segments, list), "segments_ must be a list")
    K = len(segments)
    _numbers("shares_", model.shares_, (A, K + 1), most=1.0, slack=_LAST_DIGIT)
    _require(
        bool((np.abs(model.shares_.sum(axis=1) - 1) <= _ROUNDING).all()),
        "the rows of shares_ must sum to 1",
    )
    _numbers("rates_", model.rates_, (K + 1, G), most=1.0, slack=_LAST_DIGIT)
    _numbers("confidence_", model.confidence_, (A,), most=1.0, slack=_LAST_DIGIT)
    _indices("labels_", model.labels_, (A,), 0 if K else -1, K)
    _indices("outliers_", model.outliers_, None, 0, A)
    _indices("doubtful_", model.doubtful_, None, 0, A)
    for profile in segments:
        _check_profile(profile)


def _check_profile(profile: Any) -> None:
    _require(isinstance(profile, SegmentProfile), "segments_ must hold profiles of segments")
    _check_text("the name of a segment", profile.name)
    _require(
        len(profile.name) <= _MOST_NAME,
        f"the name of a segment must be of at most {_MOST_NAME:,} characters",
    )
    _check_text("the price level of a segment", profile.price_level)
    _require(isinstance(profile.words, list), "the words of a segment must be a list")
    for word in profile.words:
        _check_text("a word of a segment", word)
    for name in ("median_price", "size", "observations"):
        value = getattr(profile, name)
        # one of numpy's could not be written as JSON
        _require(type(value) in (int, float), f"the {name} of a segment must be a plain number")
        _number(f"the {name} of a segment", value, _MOST)


def _check_agreement(model: FittedMarket) -> None:
    agreement = model.agreement_
    _require(isinstance(agreement, ViewAgreement), "agreement_ must be an agreement of views")
    _require(isinstance(agreement.names, list), "the names of the views must be a list")
    for name in agreement.names:
        _check_text("the name of a view", name)
    _check_text("the sentence of agreement_", agreement.sentence)
    _one_of("the dissenting view", agreement.dissenting, ("", *agreement.names))
    shape = (len(model.advertisers_), len(agreement.names))
    _indices("where the views place advertisers", agreement.placed, shape, -1, len(model.segments_))


def _check_choice(model: FittedMarket) -> None:
    choice = model.choice_
    _require(isinstance(choice, Choice), "choice_ must be a choice of settings")
    strength = choice.strength
    _require(
        _is_number(strength) and (0 <= strength <= _MOST_STRENGTH or strength == np.inf),
        f"the strength must be a number from 0 to {_MOST_STRENGTH:g}, or infinite",
    )
    _number("the noise of choice_", choice.noise, _MOST)
    _number("the days of choice_", choice.days, _MOST)
    _number("rows_", model.rows_, _MOST)


def _check_supply(model: FittedMarket) -> None:
    supply = model.supply_
    _require(isinstance(supply, Supply), "supply_ must be a supply")
    A = len(model.advertisers_)
    _numbers("the levels of supply_", supply.level, (A,), most=_MOST_SUPPLY)
    _numbers("the weekdays of supply_", supply.weekday, (_WEEKDAYS,), most=1000.0)
    seen = supply.seen
    _require(
        isinstance(seen, np.ndarray) and seen.dtype == np.bool_ and seen.shape == (_WEEKDAYS,),
        "the weekdays seen must be seven yes or no",
    )


def _check_rates(model: FittedMarket) -> None:
    A = len(model.advertisers_)
    for name in ("bid_", "wins_", "cost_"):
        _numbers(name, getattr(model, name), (A,))
    for event in ("click", "conversion"):
        rate, worth = getattr(model, f"{event}_rate_"), getattr(model, f"{event}_worth_")
        _require((rate is None) == (worth is None), f"{event}_rate_ and its worth go together")
        if rate is not None:
            _numbers(f"{event}_rate_", rate, (A,), most=1.0)
            _numbers(f"{event}_worth_", worth, (A,))


def _check_texts(model: FittedMarket) -> None:
    view, vectors = model.text_view_, model.vectors_
    if vectors is None:
        _require(view is None, "text_view_ needs vectors_")
        return
    _require(isinstance(vectors, np.ndarray) and vectors.ndim == 2, "vectors_ must be a matrix")
    shape = (len(model.advertisers_), vectors.shape[1])
    _numbers("vectors_", vectors, shape, *_COSINES)
    if view is None:
        return
    _require(isinstance(view, TextVectors), "text_view_ must be a view of texts")
    for part in (view.words_, view.characters_):
        _check_text("the terms of text_view_", "\n".join(part))
    for name in ("word_idf_", "character_idf_"):
        idf = getattr(view, name)
        _numbers(f"text_view_.{name}", idf, np.shape(idf)[:1], most=_MOST_IDF)
    terms = len(view.words_) + len(view.characters_)
    _numbers("text_view_.components_", view.components_, (shape[1], terms), *_COSINES)
    probes = view.transform(list(_PROBES))
    _numbers("vectors of texts", probes, (len(_PROBES), shape[1]), *_COSINES)


_CHECKS: tuple[Callable[[FittedMarket], None], ...] = (
    _check_advertisers,
    _check_grid,
    _check_segments,
    _check_evidence,
    _check_agreement,
    _check_choice,
    _check_supply,
    _check_rates,
    _check_texts,
)


def _require(met: Any, what: str) -> None:
    if not met:
        raise ModelFileError(what)


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    told = ", ".join(repr(a) for a in allowed)
    _require(isinstance(value, str) and value in allowed, f"{name} must be one of {told}")


def _check_text(name: str, value: Any) -> None:
    _require(type(value) is str, f"{name} must be text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ModelFileError(f"{name} must be text that UTF-8 can write") from None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _number(name: str, value: Any, most: float) -> None:
    good = _is_number(value) and 0 <= value <= most
    _require(good, f"{name} must be a number from 0 to {most:g}")


def _numbers(
    name: str,
    values: Any,
    shape: tuple[int, ...],
    least: float = 0.0,
    most: float = _MOST,
    slack: float = 0.0,
) -> None:
    """Refuse what is not an array of float64 of a shape, within bounds but for some slack."""
    told = " × ".join(f"{size:,}" for size in shape)
    _require(
        isinstance(values, np.ndarray) and values.dtype == np.float64 and values.shape == shape,
        f"{name} must be an array of {told} numbers",
    )
    # NaN is neither
    within = not values.size or (values.min() >= least and values.max() <= most + slack)
    _require(within, f"{name} must lie between {least:g} and {most:g}")


def _indices(name: str, values: Any, shape: tuple[int, ...] | None, least: int, n: int) -> None:
    """Refuse what is not an array of whole numbers from ``least`` to below ``n``."""
    good = isinstance(values, np.ndarray) and values.dtype.kind == "i"
    good = good and (values.ndim == 1 if shape is None else values.shape == shape)
    _require(good, f"{name} must be an array of whole numbers")
    within = not values.size or (values.min() >= least and values.max() < n)
    _require(within, f"{name} must lie between {least} and {n - 1}")


def _counts(name: str, matrix: Any, shape: tuple[int, int]) -> None:
    """Refuse what is not a CSR matrix of counts, its columns in order in every row."""
    _require(isinstance(matrix, sp.csr_array | sp.csr_matrix), f"{name} must be a CSR matrix")
    _require(matrix.shape == shape, f"{name} must be of {shape[0]:,} × {shape[1]:,} counts")
    indptr, indices = matrix.indptr, matrix.indices
    _require(
        indptr.shape == (shape[0] + 1,)
        and indptr[0] == 0
        and indptr[-1] == len(indices)
        and bool((indptr[1:] >= indptr[:-1]).all()),
        f"{name} must have rows that follow one another",
    )
    _numbers(f"the counts of {name}", matrix.data, indices.shape)
    _indices(f"the columns of {name}", indices, None, 0, shape[1])
    rising = indices[1:] > indices[:-1]
    begins = indptr[1:-1]
    rising[begins[(begins > 0) & (begins < len(indices))] - 1] = True
    _require(bool(rising.all()), f"{name} must have its columns in order, each of them once")
