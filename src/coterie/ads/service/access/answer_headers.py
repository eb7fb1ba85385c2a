"""The headers that every answer has: its id, and what a browser may do with it."""

from __future__ import annotations

import itertools
import re
import secrets
from http import HTTPStatus

from coterie.ads.service.problems import PROBLEM_TYPE, Problem, problem_body

__all__ = ["SECURITY_HEADERS", "RequestIds", "problem_headers", "rendered_problem"]

_CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_FEATURES = (
    "accelerometer",
    "autoplay",
    "camera",
    "display-capture",
    "encrypted-media",
    "fullscreen",
    "geolocation",
    "gyroscope",
    "magnetometer",
    "microphone",
    "midi",
    "payment",
    "picture-in-picture",
    "publickey-credentials-get",
    "screen-wake-lock",
    "usb",
    "xr-spatial-tracking",
)

#: What a browser may do with an answer: next to nothing that is not the page's own.
SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", _CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"permissions-policy", ", ".join(f"{name}=()" for name in _FEATURES).encode()),
)

_GIVEN = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class RequestIds:
    """Ids of requests: the client's own where it can stand in a log, else a new one.

    Examples
    --------
    >>> ids = RequestIds()
    >>> ids.of(b"order-17"), ids.of(b"two words") != ids.of(None)
    ('order-17', True)
    """

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(4)
        self._numbers = itertools.count(1)

    def of(self, given: bytes | None) -> str:
        """Return the id of a request whose client gave one, or none."""
        if given is not None and _GIVEN.fullmatch(given):
            return given.decode("ascii")
        return f"{self._prefix}-{next(self._numbers):06x}"


def problem_headers(problem: Problem, size: int) -> list[tuple[bytes, bytes]]:
    """Return the headers of an answer that is a problem, less those that every answer has."""
    return [
        (b"content-type", PROBLEM_TYPE),
        (b"content-length", b"%d" % size),
        (b"cache-control", b"no-store"),
        *(
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in problem.headers.items()
        ),
    ]


def rendered_problem(problem: Problem, request_id: str) -> bytes:
    """Return a whole answer as it goes over the wire, after which the connection is closed.

    For clients that are turned away before there is a request to answer.
    """
    body = problem_body(problem, request_id)
    status = HTTPStatus(problem.status)
    headers = [
        *problem_headers(problem, len(body)),
        (b"x-request-id", request_id.encode("ascii")),
        *SECURITY_HEADERS,
        (b"connection", b"close"),
    ]
    lines = [b"%s: %s\r\n" % header for header in headers]
    first = f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode("ascii")
    return b"".join([first, *lines, b"\r\n", body])
