"""The check of a report's payload: what passes, and what is said of what does not."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.report.contract import check_payload
from coterie.errors import InvalidParameterError
from report_payloads import make_payload

PAYLOAD = make_payload(6, 2, n_bids=4)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything inside a payload."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    found = [] if not path else [path]
    for key, one in items:
        found += places(one, (*path, key))
    return found


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The payload with another value at a path."""
    payload = copy.deepcopy(PAYLOAD)
    parent = payload
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return payload


def test_accepts_plain_and_numpy_numbers() -> None:
    """A payload of plain numbers passes, and so does one with numpy's scalars in it."""
    check_payload(PAYLOAD)
    check_payload(changed(("rows",), np.int64(3)))
    check_payload(changed(("grid",), list(np.array(PAYLOAD["grid"], dtype=np.float64))))
    check_payload(changed(("segments", 0, "win"), list(np.zeros(4, dtype=np.float32))))


def test_interval_may_be_left_out() -> None:
    """The level of intervals may be absent or null."""
    payload = copy.deepcopy(PAYLOAD)
    del payload["interval"]
    check_payload(payload)
    check_payload(changed(("interval",), None))


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in places(PAYLOAD)
        if isinstance(path[-1], str)
        and path != ("interval",)
        # of lists the first item stands for all
        and all(key == 0 for key in path if isinstance(key, int))
    ],
    ids=lambda path: "/".join(map(str, path)),
)
def test_what_is_missing_is_named(path: tuple[Any, ...]) -> None:
    """Every key of the contract is missed; the names of sources and choices are free."""
    payload = copy.deepcopy(PAYLOAD)
    parent = payload
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    if path[:-1] in {("evaluation", "sources"), ("evaluation", "chosen")} or (
        path[:2] == ("evaluation", "strata") and path[-2] == "sources"
    ):
        check_payload(payload)
        return
    with pytest.raises(InvalidParameterError, match=f"'{path[-1]}'\\] is missing"):
        check_payload(payload)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("grid",), [1.0, 1.0, 2.0, 3.0], r"payload\['grid'\].*increasing"),
        (("grid",), [], r"payload\['grid'\].*at least one"),
        (("grid", 1), "2", r"payload\['grid'\]\[1\].*a number, got str"),
        (("advertisers",), [], r"payload\['advertisers'\].*at least one"),
        (("advertisers", 3, "win", 2), float("nan"), r"\['advertisers'\]\[3\]\['win'\]\[2\]=nan"),
        (("advertisers", 3, "win", 2), 1.5, r"\['win'\]\[2\]=1.5: .*at least 0 and at most 1"),
        (("advertisers", 3, "win"), [0.0], r"\['win'\]: it must have 4 items, it has 1"),
        (("advertisers", 3, "cost", 0), -1, r"\['cost'\]\[0\]=-1: it must be finite and at least"),
        (("advertisers", 3, "win_low"), [1.0] * 4, r"\['advertisers'\]\[3\].*lies above"),
        (("advertisers", 3, "segment"), 2, r"\['segment'\]=2: .*from 0 to 1"),
        (("advertisers", 3, "outlier"), 1, r"\['outlier'\].*true or false"),
        (("advertisers", 3, "supply_by_weekday"), [1.0], r"7 items"),
        (("advertisers", 3, "source"), "guess", r"pooled or segment or global"),
        (("segments", 0, "members", 0), 6, r"\['members'\]\[0\]=6: .*from 0 to 5"),
        (("outliers",), [True], r"\['outliers'\]\[0\]=True"),
        (("auction",), "third", r"second or first"),
        (("first_day",), "2/3/2026", r"a day as in"),
        (("made",), "yesterday", r"a time as in"),
        (("rows",), 10**400, r"\['rows'\]=1000"),
        (("rows",), True, r"a number, got bool"),
        (("views", "ari"), [[1.0]], r"\['ari'\]: it must have 3 items"),
        (("views",), None, r"\['views'\].*got null"),
        (("tables", 0, "rows", 0), ["win"], r"\['rows'\]\[0\]: it must have 5 items"),
        (("quality", 0, "severity"), "fatal", r"error or warning or note"),
        (("evaluation", "sources"), {3: {}}, r"the key 3 of"),
        (("interval",), 90, r"\['interval'\]=90"),
        (("title",), b"bytes", r"text, got bytes"),
    ],
)
def test_what_is_wrong_is_placed(path: tuple[Any, ...], value: Any, message: str) -> None:
    """The message names the place, the value and what may stand there."""
    with pytest.raises(InvalidParameterError, match=message):
        check_payload(changed(path, value))


@pytest.mark.parametrize("payload", [None, [], "payload", 3])
def test_only_dictionaries_are_payloads(payload: Any) -> None:
    """Anything but a dictionary is refused as such."""
    with pytest.raises(InvalidParameterError, match="a dictionary"):
        check_payload(payload)


@settings(deadline=None, max_examples=50)
@given(
    st.sampled_from(places(PAYLOAD)),
    st.sampled_from([None, True, "x", -1, 1e308, float("inf"), [], [[]], {}, {"a": 1}, object()]),
)
def test_any_change_passes_or_is_refused(path: tuple[Any, ...], value: Any) -> None:
    """Whatever stands anywhere, the check ends with a yes or with an error of its own."""
    try:
        check_payload(changed(path, value))
    except InvalidParameterError as error:
        assert "payload" in str(error)
