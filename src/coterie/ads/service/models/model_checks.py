"""A model is sound before it is served: everything a forecast reads is there, and in its bounds.

A model file is known to be as it was written, not to be right: another program, or a person, may
have written it. A model that passes gives finite figures at every bid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba as nb
import numpy as np

from coterie.ads.forecasts.fitted_market import FittedMarket
from coterie.ads.forecasts.plan_forecasts import PAYS
from coterie.ads.protocol import Limits
from coterie.ads.segments.segment_profiles import SegmentProfile
from coterie.ads.segments.text_vectors import TextVectors
from coterie.ads.segments.view_agreement import ViewAgreement
from coterie.ads.service.models.market_checks import MARKET_CHECKS
from coterie.ads.service.models.value_checks import (
    MOST,
    check_counts,
    check_days,
    check_indices,
    check_number,
    check_numbers,
    check_one_of,
    check_text,
    require,
)
from coterie.errors import ModelFileError

__all__ = ["check_model"]

_MOST_IDF = 1e3
_ROUNDING = 1e-6
# what division may leave above 1
_LAST_DIGIT = 1e-12
_COSINES = (-1.0 - _LAST_DIGIT, 1.0, _LAST_DIGIT)
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
    require(
        isinstance(ids, np.ndarray) and ids.ndim == 1 and ids.size > 0,
        "advertisers_ must be an array of at least one id",
    )
    listed = ids.tolist()
    require(set(map(type, listed)) == {str}, "advertisers_ must be texts")
    joined = "\n".join(listed)
    check_text("advertisers_", joined)
    require("\0" not in joined, "advertisers_ must not hold the character NUL")
    require(
        max(map(len, listed)) <= _MOST_ID,
        f"advertisers_ must be of at most {_MOST_ID:,} characters, which is what can be asked for",
    )
    in_order = all(map(str.__lt__, listed[:-1], listed[1:]))
    require(in_order, "advertisers_ must be in order, and each of them once")


def _check_grid(model: FittedMarket) -> None:
    check_one_of("form_", model.form_, ("hazard", "rate"))
    check_one_of("pays_", model.pays_, tuple(PAYS))
    check_one_of("auction_", model.auction_, ("first", "second"))
    check_text("currency_", model.currency_, _MOST_CURRENCY)
    edges = model.edges_
    require(
        isinstance(edges, np.ndarray) and edges.dtype.kind == "i" and edges.ndim == 1,
        "edges_ must be an array of whole numbers",
    )
    amounts = edges.astype(np.float64)
    require(
        edges.size > 0 and edges[0] > 0 and bool((amounts[1:] > amounts[:-1]).all()),
        "edges_ must increase, from above 0",
    )
    require(edges[-1] <= MOST, f"edges_ must be at most {MOST:g}")
    check_numbers("price_", model.price_, (edges.size,))
    check_days("days_", model.days_)


def _check_evidence(model: FittedMarket) -> None:
    shape = (len(model.advertisers_), len(model.edges_))
    check_counts("successes_", model.successes_, shape)
    check_counts("trials_by_bin_", model.trials_by_bin_, shape)
    check_numbers("observations_", model.observations_, shape[:1])
    parts = [
        part.astype(kind, copy=False)
        for matrix in (model.successes_, model.trials_by_bin_)
        for part, kind in (
            (matrix.indptr, np.int64),
            (matrix.indices, np.int32),
            (matrix.data, np.float64),
        )
    ]
    require(_most_excess(*parts) <= _ROUNDING, "successes_ must not exceed trials_by_bin_")


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
    A = len(model.advertisers_)
    segments = model.segments_
    require(isinstance(segments, list), "segments_ must be a list")
    K = len(segments)
    check_numbers("shares_", model.shares_, (A, K + 1), most=1.0, slack=_LAST_DIGIT)
    require(
        bool((np.abs(model.shares_.sum(axis=1) - 1) <= _ROUNDING).all()),
        "the rows of shares_ must sum to 1",
    )
    check_numbers("confidence_", model.confidence_, (A,), most=1.0, slack=_LAST_DIGIT)
    check_indices("labels_", model.labels_, (A,), 0 if K else -1, K)
    check_indices("outliers_", model.outliers_, None, 0, A)
    check_indices("doubtful_", model.doubtful_, None, 0, A)
    for profile in segments:
        _check_profile(profile)


def _check_profile(profile: Any) -> None:
    require(isinstance(profile, SegmentProfile), "segments_ must hold profiles of segments")
    check_text("the name of a segment", profile.name, _MOST_NAME)
    check_text("the price level of a segment", profile.price_level)
    require(isinstance(profile.words, list), "the words of a segment must be a list")
    for word in profile.words:
        check_text("a word of a segment", word)
    for name in ("median_price", "size", "observations"):
        value = getattr(profile, name)
        # one of numpy's could not be written as JSON
        require(type(value) in (int, float), f"the {name} of a segment must be a plain number")
        check_number(f"the {name} of a segment", value)


def _check_agreement(model: FittedMarket) -> None:
    agreement = model.agreement_
    require(isinstance(agreement, ViewAgreement), "agreement_ must be an agreement of views")
    require(isinstance(agreement.names, list), "the names of the views must be a list")
    for name in agreement.names:
        check_text("the name of a view", name)
    check_text("the sentence of agreement_", agreement.sentence)
    check_one_of("the dissenting view", agreement.dissenting, ("", *agreement.names))
    shape = (len(model.advertisers_), len(agreement.names))
    check_indices(
        "where the views place advertisers", agreement.placed, shape, -1, len(model.segments_)
    )


def _check_rates(model: FittedMarket) -> None:
    A = len(model.advertisers_)
    check_number("rows_", model.rows_)
    for name in ("bid_", "wins_", "cost_"):
        check_numbers(name, getattr(model, name), (A,))
    for event in ("click", "conversion"):
        rate, worth = getattr(model, f"{event}_rate_"), getattr(model, f"{event}_worth_")
        require((rate is None) == (worth is None), f"{event}_rate_ and its worth go together")
        if rate is not None:
            check_numbers(f"{event}_rate_", rate, (A,), most=1.0)
            check_numbers(f"{event}_worth_", worth, (A,))


def _check_texts(model: FittedMarket) -> None:
    view, vectors = model.text_view_, model.vectors_
    if vectors is None:
        require(view is None, "text_view_ needs vectors_")
        return
    require(isinstance(vectors, np.ndarray) and vectors.ndim == 2, "vectors_ must be a matrix")
    shape = (len(model.advertisers_), vectors.shape[1])
    check_numbers("vectors_", vectors, shape, *_COSINES)
    if view is None:
        return
    require(isinstance(view, TextVectors), "text_view_ must be a view of texts")
    for part in (view.words_, view.characters_):
        check_text("the terms of text_view_", "\n".join(part))
    for name in ("word_idf_", "character_idf_"):
        idf = getattr(view, name)
        check_numbers(f"text_view_.{name}", idf, np.shape(idf)[:1], most=_MOST_IDF)
    terms = len(view.words_) + len(view.characters_)
    check_numbers("text_view_.components_", view.components_, (shape[1], terms), *_COSINES)
    probes = view.transform(list(_PROBES))
    check_numbers("vectors of texts", probes, (len(_PROBES), shape[1]), *_COSINES)


_CHECKS: tuple[Callable[[FittedMarket], None], ...] = (
    _check_advertisers,
    _check_grid,
    _check_segments,
    _check_evidence,
    _check_agreement,
    *MARKET_CHECKS,
    _check_rates,
    _check_texts,
)
