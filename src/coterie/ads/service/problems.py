"""What is wrong with a request, as an exception and as JSON (RFC 9457); headers of all answers."""

from __future__ import annotations

import itertools
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

__all__ = [
    "PROBLEM_TYPE",
    "SECURITY_HEADERS",
    "Problem",
    "RequestIds",
    "busy",
    "problem_body",
    "problem_headers",
    "rendered_problem",
]

#: The content type of every answer that is a problem.
PROBLEM_TYPE = b"application/problem+json"

_CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_FEATURES = (
    "accelerometer autoplay camera display-capture encrypted-media fullscreen geolocation "
    "gyroscope magnetometer microphone midi payment picture-in-picture "
    "publickey-credentials-get screen-wake-lock usb xr-spatial-tracking"
)

#: What a browser may do with an answer: next to nothing that is not the page's own.
SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", _CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"permissions-policy", ", ".join(f"{name}=()" for name in _FEATURES.split()).encode()),
)

_GIVEN = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class Problem(Exception):  # noqa: N818 (the name of RFC 9457)
    """A request that cannot be answered as it was meant.

    It is raised anywhere below the gate, and becomes an answer. Nothing in it may name a path, a
    token or a part of the program: clients read it.

    Parameters
    ----------
    status : int
        Of the answer, 400 to 599.
    title : str
        The kind of problem, the same for all of its kind.
    detail : str
        What is wrong this time, and what to do.
    errors : list of dict, optional
        Where there are several: ``{"at": place, "what": what is wrong there}``.
    headers : dict of str to str, optional
        That the answer has besides, such as ``Retry-After``.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        *,
        errors: Sequence[Mapping[str, Any]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail
        self.errors = None if errors is None else [dict(error) for error in errors]
        self.headers = dict(headers or {})


def problem_body(problem: Problem, request_id: str) -> bytes:
    """Return the JSON of a problem, for a client.

    >>> problem_body(Problem(404, "Not Found", "no such page"), "r-1").decode()
    '{"type":"about:blank","title":"Not Found","status":404,"detail":"no such
    page","request_id":"r-1"}'
    """
    members: dict[str, Any] = {
        "type": "about:blank",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "request_id": request_id,
    }
    if problem.errors is not None:
        members["errors"] = problem.errors
    # ASCII alone: a lone surrogate that a client sent is written as it came, escaped
    return json.dumps(members, separators=(",", ":")).encode("ascii")


def busy(detail: str, *, status: int = 503, seconds: int = 1) -> Problem:
    """Return the problem of a request that may do better after some seconds."""
    title = "Service Unavailable" if status == 503 else "Too Many Requests"
    return Problem(status, title, detail, headers={"Retry-After": str(seconds)})


class RequestIds:
    """Ids of requests: the client's own where it can stand in a log, else a new one.

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
    """Return a whole answer as bytes, for a client that is turned away without a request."""
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
