"""Addresses of services, tokens, and ids as parts of a path."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ads.client.address import checked_address, checked_token, in_path
from coterie.errors import InvalidParameterError

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@pytest.mark.parametrize(
    ("given_as", "address", "loopback"),
    [
        ("http://127.0.0.1:8400", "http://127.0.0.1:8400", True),
        ("http://127.8.9.10:8400/", "http://127.8.9.10:8400", True),
        ("http://localhost", "http://localhost", True),
        ("http://[::1]:8400", "http://[::1]:8400", True),
        ("https://ads.example/forecasts/", "https://ads.example/forecasts", False),
        ("http://10.0.0.7:8400", "http://10.0.0.7:8400", False),
        ("http://127.0.0.1.example:8400", "http://127.0.0.1.example:8400", False),
        ("http://localhost.example", "http://localhost.example", False),
    ],
)
def test_an_address_is_told_apart_from_those_of_this_machine(
    given_as: str, address: str, loopback: bool
) -> None:
    """Slashes at the end go; only loopback addresses and localhost are this machine."""
    assert checked_address(given_as) == (address, loopback)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "127.0.0.1:8400",
        "ftp://ads.example",
        "http://",
        "http://ads.example:0",
        "http://ads.example:99999",
        "http://[::1",
        "http://ads.example/?token=1",
        "http://ads.example/#top",
        "http://ads.example/\r\nHost: other",
        "http://ads example",
        "http://ads.example\\@other",
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    """The message shows how one looks."""
    with pytest.raises(InvalidParameterError, match=r"http://127\.0\.0\.1:8400|credentials"):
        checked_address(address)


def test_credentials_in_an_address_are_refused_and_not_repeated() -> None:
    """They would end in logs; the message does not show them either."""
    with pytest.raises(InvalidParameterError, match="credentials") as caught:
        checked_address("https://someone:secret-word@ads.example")
    assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "nul\0", "ümlaut", 12345678])
def test_a_token_that_no_header_can_carry_is_refused_and_not_repeated(token: object) -> None:
    """Neither is anything put into a header that ends it."""
    with pytest.raises(InvalidParameterError, match="token") as caught:
        checked_token(token)  # type: ignore[arg-type]
    assert not str(token) or str(token) not in str(caught.value)


@given(WORDS)
def test_an_id_in_a_path_is_one_segment_and_comes_back(text: str) -> None:
    """Only letters, digits, _, ~, - and %XX are left, and decoding gives the id again."""
    written = in_path(text)
    assert re.fullmatch(r"(?:[A-Za-z0-9_~-]|%[0-9A-F]{2})+", written)
    assert unquote(written) == text


def test_half_a_character_cannot_be_sent() -> None:
    """A lone surrogate has no bytes."""
    with pytest.raises(InvalidParameterError, match="half of a character"):
        in_path("a\ud800")
