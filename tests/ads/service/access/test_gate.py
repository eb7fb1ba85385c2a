"""What every request passes: id, host, token, body, time, headers, log and metrics."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ads.service.access.listening import Door
from coterie.ads.service.problems import SECURITY_HEADERS, Problem
from gate_calls import CHUNKED, HOST, Asked, greeting, never, part, respond
from local_server import in_loop

TOKEN = b"a-token-that-nobody-guesses"


async def broken(scope, receive, send):
    """An application with a defect that quotes what it was asked."""
    raise KeyError("adv-secret")


async def unknown(scope, receive, send):
    """An application that knows nothing."""
    raise Problem(404, "Not Found", "there is nothing here")


@pytest.mark.parametrize(("app", "status"), [(greeting, 200), (unknown, 404), (broken, 500)])
def test_every_answer_has_an_id_and_the_security_headers(app, status):
    """Whatever becomes of a request, its answer has an id and tells browsers what is allowed."""
    answer = Asked(app)()
    assert answer.status == status
    assert answer.complete
    assert re.fullmatch(r"[\w.-]{1,64}", answer.headers["x-request-id"])
    for name, value in SECURITY_HEADERS:
        assert answer.headers[name.decode()] == value.decode()


def test_content_policy_leaves_nothing_open():
    """By the content policy nothing is loaded from elsewhere, framed, or run inline."""
    policy = Asked(greeting)().headers["content-security-policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert "unsafe" not in policy
    assert "http" not in policy


def test_answers_are_not_stored_unless_they_say_so():
    """An answer without Cache-Control gets no-store; its own is left as it is."""
    assert Asked(greeting)().headers["cache-control"] == "no-store"

    async def cached(scope, receive, send):
        await respond(send, b"", [(b"cache-control", b"no-cache")])

    assert Asked(cached)().headers["cache-control"] == "no-cache"


@given(st.binary(max_size=80) | st.from_regex(rb"[A-Za-z0-9._-]{1,64}", fullmatch=True))
def test_id_of_the_client_is_taken_where_it_can_stand_in_a_log(given_id):
    """An id of up to 64 letters, digits and ._- is kept; in place of any other comes a new one."""
    asked = Asked(greeting)
    answer = asked(headers=[HOST, (b"x-request-id", given_id)])
    shown = answer.headers["x-request-id"]
    if re.fullmatch(rb"[A-Za-z0-9._-]{1,64}", given_id):
        assert shown.encode() == given_id
    else:
        assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{6,}", shown)
    assert asked.log.count("\n") == 1
    assert f" {shown} GET /v1/model 200 " in asked.log


def test_application_knows_the_id_and_whether_its_client_is_authorised():
    """What stands in the answer and what the application is told are the same."""
    told = []

    async def app(scope, receive, send):
        told.append(scope["state"])
        await respond(send, b"")

    asked = Asked(app, door=Door(TOKEN))
    closed = asked("/health")
    opened = asked("/health", headers=[HOST, (b"authorization", b"Bearer " + TOKEN)])
    assert [state["authorised"] for state in told] == [False, True]
    ids = [answer.headers["x-request-id"] for answer in (closed, opened)]
    assert [state["request_id"] for state in told] == ids
    assert ids[0] != ids[1]


@pytest.mark.parametrize(
    ("hosts", "status"),
    [
        ([b"localhost:8400"], 200),
        ([b"evil.example:8400"], 421),
        ([b""], 421),
        ([], 400),
        ([b"localhost", b"localhost"], 400),
    ],
)
def test_request_must_name_this_service(hosts, status):
    """A page elsewhere whose name was made to lead here is refused, since its name is not ours."""
    asked = Asked(greeting if status == 200 else never)
    answer = asked("/health", headers=[(b"host", host) for host in hosts])
    assert answer.status == status
    if status != 200:
        assert "Host" in answer.problem["detail"]


@pytest.mark.parametrize(
    "authorization",
    [None, b"", TOKEN, b"Basic " + TOKEN, b"Bearer", b"Bearer " + TOKEN + b"x", b"Bearer \xff"],
)
@pytest.mark.parametrize("path", ["/v1/model", "/metrics", "/openapi.json", "/v1/forecast", "/x"])
def test_without_the_token_nothing_is_told(path, authorization):
    """Where a token is needed, whoever shows none or another gets 401 and how to show it."""
    headers = [HOST] if authorization is None else [HOST, (b"authorization", authorization)]
    asked = Asked(never, door=Door(TOKEN))
    answer = asked(path, headers=headers)
    assert answer.problem["status"] == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    wrong = "needs a token" if authorization is None else "is not the one of this service"
    assert wrong in answer.problem["detail"]
    assert TOKEN.decode() not in asked.log + answer.body.decode()


@pytest.mark.parametrize("path", ["/", "/assets/page.css", "/health"])
def test_page_and_health_need_no_token(path):
    """The page, which asks for the token, and the sign of life are open."""
    assert Asked(greeting, door=Door(TOKEN))(path).status == 200


def test_slow_answer_is_given_up():
    """An answer that is not ready in time becomes 503 with Retry-After; its work is cancelled."""
    ended = []

    async def slow(scope, receive, send):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(True)
            raise

    answer = Asked(slow, request_seconds=0.05)()
    assert answer.problem["status"] == 503
    assert int(answer.headers["retry-after"]) > 0
    assert "connection" not in answer.headers
    assert ended == [True]


def test_half_an_answer_is_not_followed_by_a_problem():
    """What fails after its answer has begun is logged, and the answer left incomplete."""

    async def halfway(scope, receive, send):
        start = {"type": "http.response.start", "status": 200, "headers": []}
        await send(start)
        raise ValueError

    asked = Asked(halfway)
    answer = asked()
    assert answer.status == 200
    assert not answer.complete
    assert "ValueError" in asked.log


def test_defect_is_for_the_log_alone():
    """A defect shows as 500 without a trace; the log has the trace without what was asked."""
    asked = Asked(broken)
    answer = asked("/v1/advertisers/adv-secret")
    assert set(answer.problem) == {"type", "title", "status", "detail", "request_id"}
    assert "KeyError" not in answer.body.decode()
    assert "KeyError" in asked.log
    assert "test_gate.py" in asked.log
    assert answer.headers["x-request-id"] in asked.log
    assert "adv-secret" not in asked.log


def test_silent_application_is_a_defect():
    """An application that gives no answer at all is answered for, as a defect."""

    async def silent(scope, receive, send):
        pass

    asked = Asked(silent)
    assert asked().problem["status"] == 500
    assert "RuntimeError" in asked.log


def test_log_and_metrics_hold_nothing_personal():
    """Neither ids nor queries, texts, addresses or tokens reach the log or the metrics."""

    async def told_back(scope, receive, send):
        await respond(send, b"secret text")

    asked = Asked(told_back, door=Door(TOKEN))
    asked(
        "/v1/advertisers/adv-secret",
        method="POST",
        headers=[
            HOST,
            CHUNKED,
            (b"authorization", b"Bearer " + TOKEN),
            (b"x-forwarded-for", b"203.0.113.9"),
            (b"user-agent", b"secret-agent"),
        ],
        messages=[part(b"secret text")],
        client="198.51.100.3",
        query=b"search=secret",
    )
    told = asked.log + asked.counted
    for secret in ("secret", TOKEN.decode(), "203.0.113.9", "198.51.100.3", "4711"):
        assert secret not in told
    assert " POST /v1/advertisers/{id} 200 " in asked.log
    assert asked.log.rstrip().endswith(" 11B")


def test_odd_methods_and_paths_are_counted_as_one():
    """Clients cannot fill the metrics: unknown methods and paths share one line."""
    asked = Asked(greeting)
    for i in range(5):
        asked(f"/nothing/{i}", method=f"ODD{i}")
    line = 'coterie_requests_total{method="OTHER",route="(unknown)",status="200"} 5.0'
    assert line in asked.counted


@in_loop
async def test_health_and_metrics_answer_when_all_places_are_taken():
    """Who watches over the service learns of it also when it is full; others are told to wait."""
    free = asyncio.Event()

    async def app(scope, receive, send):
        if scope["path"] == "/v1/model":
            await free.wait()
        await respond(send, b"")

    asked = Asked(app, in_flight=1, waiting=1)
    tasks = [asyncio.create_task(asked.ask(client=f"192.0.2.{i}")) for i in range(2)]
    await asyncio.sleep(0)
    assert "coterie_in_flight 1.0" in asked.counted
    found = [await asked.ask(path) for path in ("/health", "/metrics", "/v1/model")]
    free.set()
    (health, metrics, third), served = found, await asyncio.gather(*tasks)
    assert (health.status, metrics.status) == (200, 200)
    assert third.problem["status"] == 503
    assert "retry-after" in third.headers
    assert [answer.status for answer in served] == [200, 200]


@in_loop
async def test_websocket_is_turned_away():
    """The service speaks HTTP alone."""
    sent = []

    async def send(message):
        sent.append(message)

    await Asked(never).gate({"type": "websocket"}, None, send)
    found = sent
    assert [message["type"] for message in found] == ["websocket.close"]
