"""Answers are written as a writer of JSON would write them."""

from __future__ import annotations

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.forecasts.forecast_figures import FIELDS
from coterie.ads.service.models.written_figures import AnswerWriter, inside_text

REMARK = '; above "all" …'
EVENTS = [(True, True), (True, False), (False, True), (False, False)]
figures = st.lists(st.floats(0, 1e18), min_size=14, max_size=14)
forecasts = st.tuples(st.floats(1e-300, 1e9), figures, st.booleans())
answers = st.lists(st.lists(forecasts, min_size=1, max_size=3), min_size=1, max_size=4)


def writer(has_clicks, has_conversions):
    """A writer for logs that have clicks and conversions, or lack them."""
    return AnswerWriter(has_clicks=has_clicks, has_conversions=has_conversions, remark=REMARK)


def without(told, has_clicks, has_conversions):
    """Figures, (Q, 14), with NaN for the events that a log lacks."""
    found = np.array(told)
    found[:, 8:11] = found[:, 8:11] if has_clicks else np.nan
    found[:, 11:] = found[:, 11:] if has_conversions else np.nan
    return found


def as_dict(bid, told, remarked, has_clicks, has_conversions):
    """A forecast as the dictionary that it is to be parsed into."""
    one = dict(zip(FIELDS, told, strict=True))
    found = {"bid": bid, "win_rate": one["win_rate"], "cost": one["cost"]}
    for name in ("impressions", "spend", "clicks", "conversions"):
        found[name] = one[name]
        found[f"{name}_interval"] = [one[f"{name}_low"], one[f"{name}_high"]]
    if not has_clicks:
        found["clicks"] = found["clicks_interval"] = None
    if not has_conversions:
        found["conversions"] = found["conversions_interval"] = None
    return found | ({"remark": REMARK} if remarked else {})


@pytest.mark.parametrize("has", EVENTS)
@settings(max_examples=40)
@given(asked=answers)
def test_what_is_written_is_parsed_again(has, asked):
    """Every number comes back to the last bit, in its place, with the remark where it belongs."""
    flat = [forecast for answer in asked for forecast in answer]
    told = without([figures for _, figures, _ in flat], *has)
    written = writer(*has).written(
        [b'{"number":%d' % number for number in range(len(asked))],
        [len(answer) for answer in asked],
        [bid for bid, _, _ in flat],
        told,
        [place for place, (_, _, remarked) in enumerate(flat) if remarked],
    )
    assert orjson.loads(b"[" + written + b"]") == [
        {"number": number, "forecasts": [as_dict(*one, *has) for one in answer]}
        for number, answer in enumerate(asked)
    ]


@pytest.mark.parametrize("has", EVENTS)
@given(forecast=forecasts)
def test_one_is_written_as_among_others(has, forecast):
    """The quick way writes the same bytes."""
    bid, told, remarked = forecast
    figures = without([told], *has)
    among = writer(*has).written([b'{"n":0'], [1], [bid], figures, [0] if remarked else [])
    assert writer(*has).written_one(b'{"n":0', bid, figures[0].tolist(), remarked) == among


@given(st.text())
def test_texts_are_escaped(text):
    """Whatever a text holds, it is a text between quotation marks."""
    assert orjson.loads(b'"' + inside_text(text) + b'"') == text
