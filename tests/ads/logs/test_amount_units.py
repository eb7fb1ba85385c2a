"""Units of amounts: factors, words in names, and the unit in which a median is typical."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ads.logs.amount_units import (
    UNITS,
    factor_of,
    is_whole_unit,
    plausible_unit,
    unit_in,
    without_units,
)
from coterie.errors import InvalidParameterError


@pytest.mark.parametrize(
    ("unit", "written"),
    [
        ("micros", 2_500_000),
        ("cents", 250),
        ("currency", 2.5),
        ("micros/impression", 2500),
        ("cents/impression", 0.25),
        ("currency/impression", 0.0025),
    ],
)
def test_every_unit_gives_the_same_micros(unit, written):
    """2.50 for a thousand impressions, written in each unit."""
    assert written * factor_of(unit) == 2_500_000


def test_an_unknown_unit_is_refused():
    """The message lists the units."""
    with pytest.raises(InvalidParameterError, match=r"'dollars' is no unit .* micros, cents"):
        factor_of("dollars")


@pytest.mark.parametrize(
    ("name", "unit", "rest"),
    [
        ("bid_micros", "micros", "bid"),
        ("PriceCents", "cents", "price"),
        ("floor (EUR)", "currency", "floor"),
        ("bid_cpm", "", "bid"),
        ("bid_price", "", "bid_price"),
        ("usd_micros", "", "usd_micros"),
    ],
)
def test_names_may_say_the_unit(name, unit, rest):
    """Two different units in a name say nothing."""
    assert (unit_in(name), without_units(name)) == (unit, rest)


@given(st.floats(0.2, 50), st.sampled_from(UNITS))
def test_a_plausible_unit_gives_a_typical_median(median, unit):
    """If one unit is plausible, amounts in it are as whole as its numbers usually are."""
    written = median * 10**6 / factor_of(unit)
    found = plausible_unit(written, is_whole_unit(unit))
    if found:
        assert 50_000 <= written * factor_of(found) <= 200_000_000
