"""Problems as JSON of RFC 9457."""

from __future__ import annotations

import pytest

from coterie.ads.protocol import Fault
from coterie.ads.service.problems import KINDS, MOST_FAULTS, Problem, invalid, problem_response
from service_calls import service


@pytest.mark.parametrize("name", KINDS)
def test_type_of_a_problem_explains_it(name):
    """The type is a path of the service, where title, status and advice are told in plain text."""
    told = Problem(name, "this time").document("r-1")
    reply = service().get(told.type)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert told.title in reply.body.decode()
    assert str(told.status) in reply.body.decode()
    assert KINDS[name].advice in reply.body.decode()


def test_other_types_are_not_found():
    """There is no page about a problem that does not exist."""
    assert service().get("/problems/no-such").problem["type"] == "/problems/not-found"


@pytest.mark.parametrize(("number", "told"), [(1, ""), (2, "(and 1 more)"), (50, "at least 49")])
def test_faults_are_counted_truthfully(number, told):
    """The detail has the first fault and the number of others; few of them are listed."""
    problem = invalid("invalid-question", [Fault(f"[{i}]", "odd") for i in range(number)])
    assert problem.detail.startswith("[0]: odd")
    assert told in problem.detail
    assert len(problem.errors) == min(number, MOST_FAULTS)


def test_response_has_status_headers_and_id():
    """A problem becomes a response that nobody stores."""
    problem = Problem("busy", "full", headers={"Retry-After": "5"})
    response = problem_response(problem, "r-1")
    assert (response.status_code, response.headers["retry-after"]) == (503, "5")
    assert response.headers["cache-control"] == "no-store"
    assert response.body == (
        b'{"type":"/problems/busy","title":"Too much work is waiting","status":503,'
        b'"detail":"full","request_id":"r-1"}'
    )
