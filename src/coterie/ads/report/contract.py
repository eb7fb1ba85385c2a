"""What a report is made of: the payload's contract, and its check.

The payload is a plain dictionary, as JSON would hold it. Bids and prices are in currency units
per thousand impressions (CPM); rates, shares and errors are fractions (0.169, not 16.9); P is
the number of bids in ``grid``. Advertisers, segments and days of the week (Monday first) are
referred to by index. ``interval`` is optional, everything else is required; see
:func:`check_payload` for what each part may hold.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from itertools import pairwise
from typing import Any

import numpy as np

from coterie.errors import InvalidParameterError

__all__ = ["check_payload"]

LARGEST = sys.float_info.max
# A check is given a value and the place it stands at, and raises if the value cannot stand there.
Check = Callable[[Any, str], None]


def check_payload(payload: Mapping[str, Any]) -> None:
    """Raise unless a payload can be shown, naming the first place that keeps it from that.

    Parameters
    ----------
    payload : mapping
        With the keys

        - title, made, version, source, engine, auction, currency, first_day, last_day: text;
        - n_days, rows, wins, spend: numbers; interval: the level of all intervals, optional;
        - grid: (P,) increasing bids;
        - segments, advertisers: their curves (``win``, ``win_low``, ``win_high``, ``cost`` and,
          of advertisers, ``own`` or null; each (P,)) and what is known of them;
        - views: agreement of the V views (``ari`` is V × V) and their say in the consensus;
        - outliers, low_confidence: indices of advertisers;
        - evaluation: errors on days held out, or null;
        - tables, quality, how: lists shown as they are.

    Raises
    ------
    InvalidParameterError
        If something is missing, of a wrong kind or length, not finite or out of its range.

    Examples
    --------
    >>> check_payload({"title": "Week 10"})
    Traceback (most recent call last):
        ...
    coterie.errors.InvalidParameterError: payload['grid'] is missing
    """
    if not isinstance(payload, Mapping):
        raise InvalidParameterError(f"payload: it must be a dictionary, got {_kind(payload)}")
    sizes = {}
    for name in ("grid", "segments", "advertisers"):
        value = _item(payload, name, "payload")
        if not _is_list(value) or not len(value):
            raise InvalidParameterError(f"payload[{name!r}]: it must be a list of at least one")
        sizes[name] = len(value)
    _grid(payload["grid"], "payload['grid']")
    views = _item(payload, "views", "payload")
    names = views.get("names") if isinstance(views, Mapping) else None
    n_views = len(names) if isinstance(names, Sequence) else 0
    _payload(sizes["grid"], sizes["segments"], sizes["advertisers"], n_views)(payload, "payload")
    _or_null(_number(0, 1))(payload.get("interval"), "payload['interval']")
    for name in ("segments", "advertisers"):
        for index, one in enumerate(payload[name]):
            _ordered(one, f"payload[{name!r}][{index}]")


def _payload(P: int, n_segments: int, n_advertisers: int, n_views: int) -> Check:
    """The check of a whole payload of known sizes."""
    advertisers = _list(_index(n_advertisers))
    return _record(
        title=_text,
        made=_moment,
        version=_text,
        source=_text,
        engine=_text,
        auction=_one_of("second", "first"),
        currency=_text,
        first_day=_day,
        last_day=_day,
        n_days=_number(1),
        rows=_number(0),
        wins=_number(0),
        spend=_number(0),
        segments=_list(_segment(P, n_advertisers)),
        advertisers=_list(_advertiser(P, n_segments)),
        views=_views(n_views),
        outliers=advertisers,
        low_confidence=advertisers,
        evaluation=_or_null(_evaluation()),
        tables=_list(_table),
        quality=_list(
            _record(
                severity=_one_of("error", "warning", "note"),
                what=_text,
                count=_number(0),
                examples=_list(_text),
            )
        ),
        how=_list(_record(step=_text, detail=_text)),
    )


def _curves(P: int) -> dict[str, Check]:
    share = _numbers(P, 0, 1)
    return {"win": share, "win_low": share, "win_high": share, "cost": _numbers(P, 0)}


def _segment(P: int, n_advertisers: int) -> Check:
    return _record(
        name=_text,
        words=_list(_text),
        price_level=_text,
        size=_number(0),
        observations=_number(0),
        median_price=_number(0),
        members=_list(_index(n_advertisers)),
        **_curves(P),
    )


def _advertiser(P: int, n_segments: int) -> Check:
    return _record(
        id=_text,
        segment=_or_null(_index(n_segments)),
        confidence=_number(0, 1),
        observations=_number(0),
        own=_or_null(_numbers(P, 0, 1)),
        bid=_number(0),
        supply=_number(0),
        supply_by_weekday=_numbers(7, 0),
        click_rate=_or_null(_number(0, 1)),
        outlier=_flag,
        dissent=_list(_text),
        source=_one_of("pooled", "segment", "global"),
        **_curves(P),
    )


def _views(n_views: int) -> Check:
    share = _number(0, 1)
    return _record(
        names=_list(_text),
        ari=_list(_numbers(n_views, -1, 1), n_views),
        weights=_numbers(n_views, 0, 1),
        tpn_fpn=_list(_record(a=_text, b=_text, tpn=share, fpn=share, rand=share, ari=_number(-1))),
        dissenting=_or_null(_text),
        sentence=_text,
    )


def _evaluation() -> Check:
    error, any_number = _or_null(_number(0)), _or_null(_number())
    errors = _record(mape=error, wape=error, smape=error, bias=any_number, coverage=error)
    stratum = _record(
        name=_text,
        advertisers=_number(0),
        sources=_by_name(_record(impressions=error, spend=error)),
    )
    difference = _record(
        a=_text,
        b=_text,
        target=_one_of("impressions", "spend"),
        difference=any_number,
        standard_error=error,
    )
    return _record(
        holdout=_list(_day),
        sources=_by_name(_record(impressions=errors, spend=errors)),
        strata=_list(stratum),
        differences=_list(difference),
        chosen=_by_name(_cell),
    )


def _ordered(one: Mapping[str, Any], at: str) -> None:
    """Raise where the lower end of an interval lies above the upper one."""
    for place, (low, high) in enumerate(zip(one["win_low"], one["win_high"], strict=True)):
        if low > high:
            raise InvalidParameterError(
                f"{at}: at place {place} win_low={low} lies above win_high={high}"
            )


def _record(**fields: Check) -> Check:
    def check(value: Any, at: str) -> None:
        if not isinstance(value, Mapping):
            raise InvalidParameterError(f"{at}: it must be a dictionary, got {_kind(value)}")
        for name, of_field in fields.items():
            of_field(_item(value, name, at), f"{at}[{name!r}]")

    return check


def _by_name(of_value: Check) -> Check:
    def check(value: Any, at: str) -> None:
        if not isinstance(value, Mapping):
            raise InvalidParameterError(f"{at}: it must be a dictionary, got {_kind(value)}")
        for name, one in value.items():
            _text(name, f"the key {name!r} of {at}")
            of_value(one, f"{at}[{name!r}]")

    return check


def _list(of_item: Check, length: int | None = None) -> Check:
    def check(value: Any, at: str) -> None:
        if not _is_list(value):
            raise InvalidParameterError(f"{at}: it must be a list, got {_kind(value)}")
        if length is not None and len(value) != length:
            raise InvalidParameterError(f"{at}: it must have {length} items, it has {len(value)}")
        for index, item in enumerate(value):
            of_item(item, f"{at}[{index}]")

    return check


def _numbers(length: int, low: float = -LARGEST, high: float = LARGEST) -> Check:
    """A list of plain numbers: looked at one by one only if there is something wrong with it."""
    one_by_one = _list(_number(low, high), length)

    def check(value: Any, at: str) -> None:
        right = _is_list(value) and len(value) == length
        if not right or not all(type(v) in (int, float) and low <= v <= high for v in value):
            one_by_one(value, at)

    return check


def _grid(value: Any, at: str) -> None:
    _numbers(len(value), 0)(value, at)
    if len(value) < 2 or any(after <= before for before, after in pairwise(value)):
        raise InvalidParameterError(f"{at}: it must hold at least two bids, increasing")


def _number(low: float = -LARGEST, high: float = LARGEST) -> Check:
    limits = " and ".join(
        said
        for met, said in (
            (abs(low) == LARGEST or high == LARGEST, "finite"),
            (low > -LARGEST, f"at least {low:g}"),
            (high < LARGEST, f"at most {high:g}"),
        )
        if met
    )

    def check(value: Any, at: str) -> None:
        plain = isinstance(value, int | float | np.integer | np.floating)
        if not plain or isinstance(value, bool):
            raise InvalidParameterError(f"{at}: it must be a number, got {_kind(value)}")
        if not low <= value <= high:  # which NaN is not either
            raise InvalidParameterError(f"{at}={value}: it must be {limits}")

    return check


def _index(n: int) -> Check:
    def check(value: Any, at: str) -> None:
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or not 0 <= value < n:
            raise InvalidParameterError(f"{at}={value!r}: it must be an index from 0 to {n - 1}")

    return check


def _one_of(*choices: str) -> Check:
    def check(value: Any, at: str) -> None:
        if value not in choices:
            raise InvalidParameterError(f"{at}={value!r}: it may be {' or '.join(choices)}")

    return check


def _or_null(of_value: Check) -> Check:
    def check(value: Any, at: str) -> None:
        if value is not None:
            of_value(value, at)

    return check


def _text(value: Any, at: str) -> None:
    if not isinstance(value, str):
        raise InvalidParameterError(f"{at}: it must be text, got {_kind(value)}")


def _flag(value: Any, at: str) -> None:
    if not isinstance(value, bool):
        raise InvalidParameterError(f"{at}: it must be true or false, got {_kind(value)}")


def _cell(value: Any, at: str) -> None:
    if value is not None and not isinstance(value, str | bool):
        _number()(value, at)


def _table(value: Any, at: str) -> None:
    _record(title=_text, columns=_list(_text), note=_text, rows=_list(_list(_cell)))(value, at)
    for index, row in enumerate(value["rows"]):
        _list(_cell, len(value["columns"]))(row, f"{at}['rows'][{index}]")


def _day(value: Any, at: str) -> None:
    _parsed(date.fromisoformat, value, at, "a day as in 2026-03-02")


def _moment(value: Any, at: str) -> None:
    _parsed(datetime.fromisoformat, value, at, "a time as in 2026-03-09T08:30:00+00:00")


def _parsed(parse: Callable[[str], object], value: Any, at: str, meant: str) -> None:
    _text(value, at)
    try:
        parse(value)
    except ValueError as error:
        raise InvalidParameterError(f"{at}={value!r}: it must be {meant}") from error


def _item(value: Mapping[str, Any], name: str, at: str) -> Any:
    if name not in value:
        raise InvalidParameterError(f"{at}[{name!r}] is missing")
    return value[name]


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__
