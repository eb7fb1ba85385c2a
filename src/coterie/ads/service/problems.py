"""Problems: why a request is not answered, as JSON of RFC 9457.

``type`` is a path below the service, ``/problems/NAME``, which explains the problem.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from starlette.responses import Response

from coterie.ads.protocol import Fault, ProblemDocument

#: At most so many faults of a request are reported.
MOST_FAULTS = 20
PROBLEM_TYPE = "application/problem+json"


class Kind(NamedTuple):
    """A kind of problem: its status, its title, and what the client can do."""

    status: int
    title: str
    advice: str


#: All kinds by name; the name ends the URI of the type.
KINDS = {
    "malformed-body": Kind(400, "The body is not valid JSON", "Correct the body."),
    "malformed-request": Kind(400, "The request is malformed", "Correct the request."),
    "token-required": Kind(401, "A valid token is required", "Send Authorization: Bearer TOKEN."),
    "not-found": Kind(404, "There is nothing at this path", "See /openapi.json for the paths."),
    "unknown-advertiser": Kind(
        404, "The model has no such advertiser", "Search with /v1/advertisers?search=PART."
    ),
    "method-not-allowed": Kind(
        405, "Method not allowed", "Use a method that the Allow header names."
    ),
    "slow-body": Kind(408, "The body arrived too slowly", "Send the request again."),
    "body-too-large": Kind(
        413, "The body is too large", "Send fewer questions at a time, or use coterie ads export."
    ),
    "unsupported-media-type": Kind(
        415, "The media type is not supported", "Send the Content-Type that the route accepts."
    ),
    "unknown-host": Kind(
        421,
        "The service does not answer to this host name",
        "The operator adds --allowed-host NAME.",
    ),
    "invalid-question": Kind(422, "A question is invalid", "See errors for the places."),
    "invalid-query": Kind(422, "A query parameter is invalid", "See errors for the names."),
    "too-much-work": Kind(
        429, "Too much work of this client is waiting", "Ask again after Retry-After seconds."
    ),
    "internal-error": Kind(500, "The service failed", "Send request_id to the operator."),
    "busy": Kind(503, "Too much work is waiting", "Ask again after Retry-After seconds."),
    "timed-out": Kind(503, "The answer took too long", "Ask for less, or ask again later."),
    "not-ready": Kind(
        503, "The service is starting or stopping", "Use another instance, or ask again later."
    ),
}


class Problem(Exception):  # noqa: N818 (the name of RFC 9457)
    """A request that cannot be answered; becomes a response.

    ``detail`` says what is wrong this time, and what to do. Nothing in it may name a path of the
    machine, a token or a part of the program.
    """

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        errors: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.status = KINDS[kind].status
        self.detail = detail
        self.errors = list(errors)
        self.headers = dict(headers or {})

    def document(self, request_id: str = "") -> ProblemDocument:
        """Return the problem as JSON members."""
        return ProblemDocument(
            f"/problems/{self.kind}",
            KINDS[self.kind].title,
            self.status,
            self.detail,
            request_id,
            self.errors or msgspec.UNSET,
        )


def invalid(kind: str, faults: Sequence[Fault]) -> Problem:
    """Return the problem of a request with at least one fault."""
    first = faults[0]
    least = "at least " if len(faults) >= MOST_FAULTS else ""
    more = f" (and {least}{len(faults) - 1} more)" if len(faults) > 1 else ""
    detail = f"{first.at}: {first.what}{more}" if first.at else f"{first.what}{more}"
    return Problem(kind, detail, errors=faults[:MOST_FAULTS])


def problem_response(problem: Problem, request_id: str) -> Response:
    """Return the response to a request that cannot be answered."""
    return Response(
        msgspec.json.encode(problem.document(request_id)),
        problem.status,
        headers={"Cache-Control": "no-store", **problem.headers},
        media_type=PROBLEM_TYPE,
    )
