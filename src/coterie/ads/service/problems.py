"""What is wrong with a request, as an exception and as JSON (RFC 9457)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["PROBLEM_TYPE", "Problem", "problem_body"]

#: The content type of every answer that is a problem.
PROBLEM_TYPE = b"application/problem+json"


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

    Examples
    --------
    >>> problem = Problem(404, "Not Found", "there is no advertiser of this id")
    >>> problem.status, str(problem)
    (404, 'there is no advertiser of this id')
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

    Parameters
    ----------
    problem : Problem
    request_id : str
        By which the request is found in the logs.

    Examples
    --------
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
