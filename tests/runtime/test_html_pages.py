"""Tests of self-contained pages: texts stay texts, and only known code may run."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.runtime.html_pages import (
    content_policy,
    embedded_json,
    fingerprint,
)


def test_fingerprints_differ():
    """A fingerprint is a CSP source expression; different texts have different ones."""
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", fingerprint("a"))
    assert fingerprint("a") != fingerprint("b")


def test_the_policy_names_each_script_and_the_style():
    """Nothing is allowed by default; scripts and style are allowed by their fingerprints."""
    rules = dict(rule.split(" ", 1) for rule in content_policy(["1", "2"], "p {}").split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"].split() == [fingerprint("1"), fingerprint("2")]
    assert rules["style-src"] == fingerprint("p {}")


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner, max_size=3)))
def test_embedded_data_is_json_that_html_cannot_misread(data):
    """Embedded data is the same data as JSON, without a character that could end its element."""
    text = embedded_json(data)
    assert json.loads(text) == data
    assert not set(text) & set("<>&\u2028\u2029")


def test_numbers_that_json_lacks_are_refused():
    """NaN is not JSON, so a page with it would not open."""
    with pytest.raises(ValueError, match="JSON"):
        embedded_json([float("nan")])
