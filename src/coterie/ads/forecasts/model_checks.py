"""Checks that a model can be served: everything that a forecast reads is there and within bounds.

A model file is known to be as it was written, not to be right: another program, or a person, may
have written it. A model that passes gives finite figures at every bid.

The rules are one table, at the end. Shapes are written in symbols: A advertisers, G edges of the
grid of bids, K segments, D days, V views, P columns of the vectors of texts, W words and C runs of
characters in them, T values of Q dimensions, H prices with mass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from coterie.ads.curves.day_levels import DayLevels
from coterie.ads.curves.price_readings import READINGS
from coterie.ads.curves.supply import Supply
from coterie.ads.forecasts.calibration import LEVELS, TARGETS, Calibration
from coterie.ads.forecasts.fitted_market import Choice, FittedMarket
from coterie.ads.forecasts.kernels import SIZES
from coterie.ads.histograms.stored_days import StoredDays
from coterie.ads.segments.segment_profiles import SegmentProfile, ViewAgreement
from coterie.ads.segments.text_vectors import TextVectors
from coterie.ads.targets.target_effects import TargetEffects
from coterie.errors import ModelFileError

#: Of the id of an advertiser; longer ones cannot be asked for.
MOST_ID_CHARS = 1_024
#: No count, price or amount of money comes near it, and its square is far from overflowing.
_MOST = 1e18
_ROUNDING = 1e-6
# what division may leave above 1, or below −1
_ONE = 1.0 + 1e-12
#: Of a log level: e^40 is more than any market moves. Of a variance.
_MOST_LEVEL, _MOST_VARIANCE = 40.0, 1e6
# so that the days after them have dates too
_FIRST_DAY, _LAST_DAY = np.datetime64("0001-01-01"), np.datetime64("9990-12-31")
_ROWS_AT_ONCE = 4_096


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
    sizes: dict[str, int] = {}
    try:
        for one, other in _NEEDS.items():
            lacks = getattr(model, one, None) is not None and getattr(model, other, 0) is None
            _require(not lacks, f"{one} needs {other}")
        for row in _TABLE:
            for name, value in _values_at(model, row.path):
                _check_row(row, name, value, sizes)
        for rule, holds in _BETWEEN:
            _require(holds(model), rule)
    except ModelFileError as error:
        raise ModelFileError(f"its model is not sound: {error}; make it again") from error
    except (TypeError, ValueError, LookupError, ArithmeticError, MemoryError) as error:
        # what no rule foresaw
        raise ModelFileError(
            f"its model is not sound ({type(error).__name__}); make it again"
        ) from error


#: What must hold, and a test of it.
_Rule = tuple[str, Callable[[Any], Any]]


class _Row(NamedTuple):
    """What an attribute must be.

    A path such as ``segments_[].name`` is of all entries of a list; what is below None is not
    looked at. ``kind`` is a class, a type of arrays, a key of :data:`_SINGLE`, or allowed texts.
    With ``entries``, the least and the most of them, the last size of the shape is new and becomes
    known here; ``≤A`` is a list of any size up to A.
    """

    path: str
    kind: Any
    shape: str = ""
    least: Any = 0.0
    most: Any = _MOST
    also: tuple[_Rule, ...] = ()
    entries: tuple[int, int] | None = None
    optional: bool = False


def _require(met: Any, message: str) -> None:
    if not met:
        raise ModelFileError(message)


def _values_at(whole: Any, path: str, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the name and value of the attribute at a path, or of each entry of a list."""
    first, _, rest = path.partition(".")
    attribute = first.removesuffix("[]")
    name = f"{name}.{attribute}".removeprefix(".")
    _require(hasattr(whole, attribute), f"it lacks {name}")
    value = getattr(whole, attribute)
    parts = [(name, value)]
    if attribute != first:
        parts = [(f"{name}[{number}]", part) for number, part in enumerate(value)]
    for of_part, part in parts:
        if not rest:
            yield of_part, part
        elif part is not None:
            yield from _values_at(part, rest, of_part)


def _check_row(row: _Row, name: str, value: Any, sizes: dict[str, int]) -> None:
    if value is None and row.optional:
        return
    if row.entries is not None:
        has_size = isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim > 0)
        _require(has_size, f"{name} must be a list or an array")
        size = len(value) if isinstance(value, list) else value.shape[-1]
        least, most = row.entries
        _require(least <= size <= most, f"{name} must have {least:,} to {most:,} entries")
        sizes[row.shape.rpartition(" ")[2]] = size
    if row.kind in _SINGLE:
        rule, holds = _SINGLE[row.kind]
        _require(holds(value), f"{name} must be {rule}")
    elif isinstance(row.kind, tuple):
        _require(type(value) is str and value in row.kind, f"{name} must be one of {row.kind}")
    elif row.kind == "text":
        good = type(value) is str and len(value) <= row.most and _is_writable([value])
        limit = f"text of at most {row.most:,} characters"
        _require(good, f"{name} must be {limit} that UTF-8 can write")
    elif isinstance(row.kind, type):
        _require(isinstance(value, row.kind), f"{name} must be a {row.kind.__name__}")
    elif row.kind == "counts":
        _check_counts(name, value, sizes)
    else:
        _check_array(row, name, value, sizes)
    for rule, holds in row.also:
        _require(holds(value), f"{name} must {rule}")


def _check_array(row: _Row, name: str, values: Any, sizes: dict[str, int]) -> None:
    shape = tuple(_amount(size, sizes) for size in row.shape.removeprefix("≤").split(" × "))
    is_most = row.shape.startswith("≤")
    size = "at most " * is_most + " × ".join(f"{n:,}" for n in shape)
    good = isinstance(values, np.ndarray) and values.ndim == len(shape)
    kinds, values_are = _ARRAYS.get(row.kind, ("", f"numbers ({row.kind})"))
    good = good and (values.dtype.kind in kinds or values.dtype.name == row.kind)
    good = good and (values.shape == shape or (is_most and values.size <= shape[0]))
    _require(good, f"{name} must be an array of {size} {values_are}")
    if values.size and row.kind != "texts":
        least, most = _amount(row.least, sizes), _amount(row.most, sizes)
        within = values.min() >= least and values.max() <= most  # NaN is neither
        limits = " and ".join(f"{x:g}" if _is_number(x) else str(x) for x in (least, most))
        _require(within, f"{name} must lie between {limits}")


def _amount(value: Any, sizes: dict[str, int]) -> Any:
    """Return a number unchanged, or the value of a sum of sizes such as ``K+1``."""
    if not isinstance(value, str):
        return value
    return sum(sizes[part] if part in sizes else int(part) for part in value.split("+"))


def _check_counts(name: str, matrix: Any, sizes: dict[str, int]) -> None:
    """Check a CSR matrix of A × G counts, its columns in order in every row."""
    _require(isinstance(matrix, sp.csr_array | sp.csr_matrix), f"{name} must be a CSR matrix")
    A, G = shape = sizes["A"], sizes["G"]
    _require(matrix.shape == shape, f"{name} must be of {A:,} × {G:,} counts")
    counts = _Row(f"the counts of {name}", "floats", "N")
    _check_row(counts, counts.path, matrix.data, sizes | {"N": np.size(matrix.indices)})
    # it knows nothing of an earlier look
    fresh = sp.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=shape)
    fresh.check_format(full_check=True)
    _require(fresh.has_canonical_format, f"{name} must have its columns in order, each once")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _is_plain(value: Any) -> bool:
    """Return whether it is a number of Python: one of numpy could not be written as JSON."""
    return type(value) in (int, float)


def _is_writable(texts: Any) -> bool:
    try:
        return "".join(texts).encode() is not None
    except UnicodeEncodeError:
        return False


def _is_rising(curves: Any) -> bool:
    """Return whether rows do not fall; few rows at a time, which takes little memory."""
    blocks = (curves[i : i + _ROWS_AT_ONCE] for i in range(0, len(curves), _ROWS_AT_ONCE))
    return all(bool((some[:, 1:] >= some[:, :-1] - _ROUNDING).all()) for some in blocks)


def _is_covered(model: FittedMarket) -> bool:
    """Return whether no count of successes exceeds its trials."""
    for first in range(0, len(model.advertisers_), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        excess = model.successes_[rows] - model.trials_by_bin_[rows] * (1 + _ROUNDING)
        if excess.max() > _ROUNDING:
            return False
    return True


def _stays_near(levels: DayLevels) -> bool:
    """Return whether the levels of the next week are finite and not absurd."""
    mean, covariance = levels.ahead(levels.next_week())
    return bool((np.abs(mean) <= 2 * _MOST_LEVEL).all() and np.isfinite(covariance).all())


def _places_texts(model: FittedMarket) -> bool:
    probes = ["hotel by the beach", "Ω", "a" * 200]
    view = model.text_view_
    return view is None or bool((np.abs(view.transform(probes)) <= _ONE).all())


def _shares_add_up(model: FittedMarket) -> bool:
    if (effects := model.targets_) is None:
        return True
    of_dimension = np.eye(len(effects.dimensions))[effects.dimension]
    sums = np.vstack([effects.share[0], effects.segment_share[0]]) @ of_dimension
    return bool((np.abs(sums - 1) <= 1e-3).all())


#: Single values that are no arrays: what they must be, and a test of it.
_SINGLE: dict[Any, _Rule] = {
    "number": (f"a number from 0 to {_MOST:g}", lambda x: _is_number(x) and 0 <= x <= _MOST),
    "plain": (f"a plain number from 0 to {_MOST:g}", lambda x: _is_plain(x) and 0 <= x <= _MOST),
    "half-life": ("a plain number above 0, or infinite", lambda x: _is_plain(x) and x > 0),
    "error": ("a number, or NaN", lambda x: _is_number(x) and not abs(x) > _MOST),
    "strength": (
        "a number from 0 to 1e+100, or infinite",
        lambda x: _is_number(x) and (0 <= x <= 1e100 or x == np.inf),
    ),
}
#: Arrays by the kinds of their types, and what their values are; others are of one type.
_ARRAYS = {"whole": ("i", "whole numbers"), "floats": ("f", "numbers"), "texts": ("OU", "texts")}
_ARRAYS["datetime64[D]"] = ("", "days")
_IN_ORDER: _Rule = ("be in order", lambda x: (x[1:] >= x[:-1]).all())
_RISING: _Rule = ("not fall along the grid", _is_rising)
_SUM_TO_1: _Rule = ("sum to 1", lambda x: (np.abs(x.sum(axis=-1) - 1) <= _ROUNDING).all())
_INCREASING: _Rule = ("be in order, and each once", lambda x: (x[1:] > x[:-1]).all())
_DATES = (_FIRST_DAY, _LAST_DAY, (_INCREASING,))
_FLOATS_INCREASE: _Rule = ("increase", lambda x: (np.diff(x.astype(np.float64)) > 0).all())
_TEXTS: _Rule = (
    "be texts that UTF-8 can write",
    lambda x: set(map(type, x.tolist())) <= {str} and _is_writable(x.tolist()),
)
_IDS: _Rule = (
    f"be of at most {MOST_ID_CHARS:,} characters, which is what can be asked for, and without NUL",
    lambda x: all(len(text) <= MOST_ID_CHARS and "\0" not in text for text in x.tolist()),
)
_LADDERS = f"{len(LEVELS)} × 2 × {len(TARGETS)} × 2 × {len(SIZES)}"
_EVENTS = ("click", "conversion")
#: Effects of targets, and the range of each.
_EFFECTS = [(name, 0.0, 1e3) for name in ("share", *_EVENTS)]
_EFFECTS += [("score", -_MOST_LEVEL, _MOST_LEVEL)]
_SPREADS: _Rule = ("have standard deviations from 0 up", lambda x: (x[1] >= 0).all())


def _level_rows(path: str) -> tuple[_Row, ...]:
    """Return the rows of day levels, which have other sizes: days D, settings M."""
    D, M = f"{path}D", f"{path}M"
    return (
        _Row(path, DayLevels),
        _Row(f"{path}.days", "datetime64[D]", D, *_DATES, entries=(1, 400)),
        _Row(f"{path}.values", "float64", D, -_MOST_LEVEL, _MOST_LEVEL),
        _Row(f"{path}.errors", "float64", D, 1e-9, _MOST_VARIANCE),
        _Row(f"{path}.weights", "float64", M, 0.0, _ONE, (_SUM_TO_1,), entries=(1, 10_000)),
        _Row(f"{path}.parts", "float64", f"{M} × 4", 0.0, 100.0),
        _Row(path, DayLevels, also=((f"give levels up to {2 * _MOST_LEVEL:g}", _stays_near),)),
    )


#: In the order in which the rows need each other.
_TABLE = (
    _Row("advertisers_", "texts", "A", also=(_TEXTS, _IDS, _INCREASING), entries=(1, 10_000_000)),
    _Row("edges_", "whole", "G", 1, int(_MOST), (_FLOATS_INCREASE,), entries=(1, 10_000)),
    _Row("masses_", "whole", "H", 2, int(_MOST), (_INCREASING,), entries=(0, 1_000)),
    _Row("days_", "datetime64[D]", "D", *_DATES, entries=(1, 4_000)),
    _Row("segments_", list, "K", entries=(0, 10_000)),
    _Row("form_", ("hazard", "rate")),
    _Row("pays_", ("price", "bid")),
    _Row("auction_", ("first", "second")),
    _Row("currency_", "text", most=64),
    _Row("price_", "float64", "G"),
    _Row("paid_", "float64", "A", optional=True),
    _Row("shares_", "float64", "A × K+1", 0.0, _ONE, (_SUM_TO_1,)),
    _Row("confidence_", "float64", "A", 0.0, _ONE),
    _Row("labels_", "whole", "A", -1, "K+-1"),
    _Row("representatives_", "whole", "≤A", 0, "A+-1", optional=True),
    _Row("outliers_", "whole", "≤A", 0, "A+-1"),
    _Row("doubtful_", "whole", "≤A", 0, "A+-1"),
    _Row("segments_[]", SegmentProfile),
    _Row("segments_[].name", "text", most=1_000),
    _Row("segments_[].price_level", "text", most=1_000),
    _Row("segments_[].words", list, entries=(0, 1_000)),
    _Row("segments_[].words[]", "text", most=1_000),
    _Row("segments_[].themes", tuple),
    _Row("segments_[].themes[]", "text", most=1_000),
    _Row("segments_[].purity", "plain", optional=True),
    *(_Row(f"segments_[].{name}", "plain") for name in ("median_price", "size", "observations")),
    _Row("successes_", "counts"),
    _Row("trials_by_bin_", "counts"),
    *(_Row(name, "float64", "A") for name in ("observations_", "bid_", "wins_", "cost_")),
    _Row("rows_", "number"),
    _Row("agreement_", ViewAgreement),
    _Row("agreement_.names", list, "V", entries=(0, 100)),
    _Row("agreement_.names[]", "text", most=1_000),
    _Row("agreement_.sentence", "text", most=10_000),
    _Row("agreement_.dissenting", "text", most=1_000),
    _Row("agreement_.placed", "whole", "A × V", -1, "K+-1"),
    _Row("win_", "float32", "A × G", 0.0, 1.0, (_RISING,)),
    _Row("spread_", "float32", "A × G", 0.0, 1.0),
    _Row("segment_win_", "float64", "K+1 × G", 0.0, _ONE, (_RISING,)),
    _Row("segment_spread_", "float64", "K+1 × G", 0.0, _ONE),
    _Row("choice_", Choice),
    _Row("choice_.strength", "strength"),
    _Row("choice_.half_life", "half-life"),
    _Row("choice_.prices", tuple(READINGS)),
    *(_Row(f"choice_.{name}", "error") for name in ("error", "bias", "bias_error")),
    *(_Row(f"choice_.{name}", "number") for name in ("n_segments", "days")),
    *_level_rows("price_levels_"),
    _Row("supply_", Supply),
    _Row("supply_.level", "float64", "A", 0.0, 1e15),
    _Row("supply_.error", "float64", "A", 0.0, _MOST_VARIANCE),
    _Row("supply_.variation", "float64", "A", 0.0, _MOST_VARIANCE),
    _Row("supply_.weekday", "float64", "A × 7", 0.0, 1e3),
    _Row("supply_.unseen", "float64", "A × 7", 0.0, _ONE),
    _Row("supply_.weekday_variance", "float64", "A", 0.0, _MOST_VARIANCE),
    _Row("supply_.half_life", "half-life"),
    *_level_rows("supply_.factors"),
    _Row("calibration_", Calibration),
    _Row("calibration_.factors", "float64", _LADDERS, 0.0, 100.0),
    _Row("calibration_.forecasts", "number"),
    _Row("shares_above_", "float64", "4 × 2 × 4", 0.0, _ONE, optional=True),
    _Row("warnings_", list, entries=(0, 100)),
    _Row("warnings_[]", "text", most=1_000),
    *(_Row(f"{event}_rate_", "float64", "A", 0.0, 1.0, optional=True) for event in _EVENTS),
    *(_Row(f"{event}_worth_", "float64", "A", optional=True) for event in _EVENTS),
    _Row("stored_days_", StoredDays, optional=True),  # BidShares checks its cells
    _Row("vectors_", "float64", "A × P", -_ONE, _ONE, entries=(0, 10_000), optional=True),
    _Row("text_view_", TextVectors, optional=True),
    _Row("text_view_.words_", "texts", "W", also=(_TEXTS,), entries=(0, 1_000_000)),
    _Row("text_view_.characters_", "texts", "C", also=(_TEXTS,), entries=(0, 1_000_000)),
    _Row("text_view_.word_idf_", "float64", "W", 0.0, 1e3),
    _Row("text_view_.character_idf_", "float64", "C", 0.0, 1e3),
    _Row("text_view_.components_", "float64", "P × W+C", -_ONE, _ONE),
    _Row("targets_", TargetEffects, optional=True),
    _Row("targets_.dimensions", list, "Q", entries=(1, 100)),
    _Row("targets_.dimensions[]", "text", most=1_000),
    _Row("targets_.values", "texts", "T", also=(_TEXTS, _IDS), entries=(1, 100_000)),
    _Row("targets_.dimension", "whole", "T", 0, "Q+-1", (_IN_ORDER,)),
    *(
        _Row(f"targets_.{kind}{name}", "float32", f"2 × {rows} × T", least, most, (_SPREADS,))
        for kind, rows in (("", "A"), ("segment_", "K+1"))
        for name, least, most in _EFFECTS
    ),
)
#: Attributes that are optional, and what each needs too.
_NEEDS = {
    "click_rate_": "click_worth_",
    "click_worth_": "click_rate_",
    "conversion_rate_": "conversion_worth_",
    "conversion_worth_": "conversion_rate_",
    "text_view_": "vectors_",
}
_BETWEEN: tuple[_Rule, ...] = (
    ("successes_ must not exceed trials_by_bin_", _is_covered),
    ("masses_ must be edges_ after the first", lambda m: np.isin(m.masses_, m.edges_[1:]).all()),
    ("labels_ must lie between 0 and K−1", lambda m: not m.segments_ or m.labels_.min() >= 0),
    (
        "agreement_.dissenting must be one of agreement_.names, or empty",
        lambda m: m.agreement_.dissenting in ("", *m.agreement_.names),
    ),
    ("text_view_ must give vectors of length 1", _places_texts),
    ("targets_: shares must sum to 1 in each dimension", _shares_add_up),
)
