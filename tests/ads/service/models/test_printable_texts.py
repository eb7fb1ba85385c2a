"""Whatever a text holds, it can be told in one line."""

from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st

from coterie.ads.service.models.printable_texts import printable


@given(st.text(st.characters(exclude_categories=()), max_size=400), st.integers(1, 350))
def test_any_text_is_a_short_line(text, most):
    """It has no more characters than asked for, all can be printed, and JSON can hold them."""
    told = printable(text, most)
    assert len(told) <= most and told.isprintable()
    assert orjson.loads(orjson.dumps(told)) == told


@given(st.text(max_size=300).filter(str.isprintable))
def test_what_can_be_printed_stays(text):
    """A short text without anything odd is itself."""
    assert printable(text) == text
