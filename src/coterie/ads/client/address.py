"""Where a forecast service is, and what may be sent there: address, token, ids in a path."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import SplitResult, quote, urlsplit

from coterie.errors import InvalidParameterError

__all__ = ["checked_address", "checked_token", "in_path"]


def checked_address(base_url: str) -> tuple[str, bool]:
    """Return a service's address without a final slash, and whether it is on this machine.

    Examples
    --------
    >>> checked_address("http://127.0.0.1:8400/"), checked_address("https://ads.example/forecasts")
    (('http://127.0.0.1:8400', True), ('https://ads.example/forecasts', False))
    """
    try:
        parts = urlsplit(str(base_url))
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, sound = SplitResult("", "", "", "", ""), False
    if "@" in parts.netloc:
        raise InvalidParameterError(
            "base_url: credentials do not stand in an address; give token=, or set COTERIE_TOKEN"
        )
    if not sound or re.search(r"[\s\x00-\x1f?#\\]", str(base_url)):
        raise InvalidParameterError(
            f"base_url={base_url!r}: it must be an address as in http://127.0.0.1:8400"
        )
    return str(base_url).rstrip("/"), _is_loopback(parts.hostname or "")


def checked_token(token: str) -> str:
    """Return a token that a header can carry; it is never repeated in a message."""
    if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
        raise InvalidParameterError(
            "token: it must be printable ASCII characters without blanks, as the service has it"
        )
    return token


def in_path(text: str) -> str:
    """Return an id as one segment of a path, whatever characters it has.

    Dots are encoded too: a segment of one or two of them alone would be taken for a direction.

    Examples
    --------
    >>> in_path("a/b c?d#e%2F"), in_path("..")
    ('a%2Fb%20c%3Fd%23e%252F', '%2E%2E')
    """
    try:
        return quote(text, safe="").replace(".", "%2E")
    except UnicodeEncodeError as error:
        raise InvalidParameterError(
            f"{text!r} holds half of a character, and cannot be sent"
        ) from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
