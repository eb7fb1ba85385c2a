"""Columns have a role by what the user says, by their canonical names, or by usual names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ads.logs.column_roles import CANONICAL, columns_by_role, role_of
from coterie.errors import InvalidParameterError


def chosen(columns, **given) -> dict[str, str]:
    """The column of each role, or its candidates."""
    decided, candidates = columns_by_role(columns, given)
    return decided | {role: " or ".join(names) for role, names in candidates.items()}


@given(st.permutations(list(CANONICAL.values())), st.sampled_from(["bid", "Bid Price", "clicked"]))
def test_canonical_names_come_before_all_others(columns, other):
    """Another usual name and the order of columns change nothing."""
    assert chosen([other, *columns]) == CANONICAL


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("Advertiser ID", "advertiser"),
        ("advertiserId", "advertiser"),
        ("Bid Price (USD)", "bid"),
        ("bid_cpm_micros", "bid"),
        ("EVENT_TIME", "time"),
        ("TimeUsec2", "time"),
        ("imp.0.bidfloor", "floor"),
        ("clearingPriceMicros", "price"),
    ],
)
def test_case_marks_and_units_do_not_matter(name, role):
    """A usual name is recognised however it is written."""
    assert chosen([name]) == {role: name}


def test_two_usual_names_are_not_decided():
    """Both are candidates, until the user chooses one."""
    assert chosen(["bid", "bid_price"]) == {"bid": "bid or bid_price"}
    assert chosen(["bid", "bid_price"], bid="bid_price") == {"bid": "bid_price"}


def test_a_doubtful_name_is_not_decided():
    """``price`` may be the price beside a bid, the bid beside a clearing price, else both."""
    for columns, roles in (
        (["bid", "price"], {"price"}),
        (["price", "clearing_price"], {"bid"}),
        (["price"], {"bid", "price"}),
    ):
        decided, candidates = columns_by_role(columns, {})
        assert candidates == {role: ["price"] for role in roles}
        assert "price" not in decided.values()
    assert columns_by_role(["price"], {"price": "price"}) == ({"price": "price"}, {})


def test_an_empty_column_leaves_a_role_out():
    """The user may refuse a recognised column."""
    assert chosen(["bid", "floor"], floor="") == {"bid": "bid"}


def test_a_column_that_the_user_gave_has_no_other_role():
    """It is not recognised a second time."""
    assert chosen(["won", "click"], won="click") == {"won": "click"}


def test_an_unknown_role_is_refused():
    """The message lists the roles."""
    with pytest.raises(InvalidParameterError, match=r"'bids' is no role .* advertiser, time"):
        role_of("bids")
