"""What every request passes: id, host, token, headers, metrics and log."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import weakref
from contextlib import contextmanager

import pytest

from coterie.ads.service.access import AccessPolicy, read_tokens
from coterie.ads.service.application import OPEN_ROUTES, UNKNOWN
from coterie.ads.service.monitoring import logging_to_stderr
from coterie.ads.service.served_model import ServedModel
from fitted_models import small_model
from running_service import wait_until
from service_calls import JSON, Service, served, service

TOKEN = "a-token-that-nobody-guesses"
SHOWN = {"authorization": f"Bearer {TOKEN}"}
OPEN = ["/", "/assets/page.css", "/health/live", "/health/ready", "/problems/busy"]
GUARDED = ["/v1/model", "/v1/curves", "/v1/forecast", "/metrics", "/openapi.json", "/nowhere"]


@pytest.fixture
def guarded():
    """An application that needs a token."""
    return Service(served(), AccessPolicy(tokens=read_tokens({"COTERIE_TOKEN": TOKEN})))


@contextmanager
def failing(found):
    """Make the model of an application fail with a message that is nobody's business."""

    class Failing:
        @property
        def current(self):
            raise KeyError("adv-secret")

    found.routes._holder = Failing()
    with logging_to_stderr("text", quiet=False):
        yield


@pytest.mark.parametrize("given", ["this-one", "a.b_c-1", "x" * 64])
def test_request_id_of_the_client_is_kept(given):
    """A client may name its request."""
    reply = service().get("/v1/model", headers={"x-request-id": given})
    assert reply.headers["x-request-id"] == given


@pytest.mark.parametrize("given", [None, "", "a b", "x" * 65, "ü", "a\nb"])
def test_other_request_ids_are_made(given):
    """Each request has an id of its own, which can stand in a log."""
    headers = {} if given is None else {"x-request-id": given}
    ids = [service().get("/v1/model", headers=headers).headers["x-request-id"] for _ in range(2)]
    assert all(re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{6,}", one) for one in ids)
    assert ids[0] != ids[1]


@pytest.mark.parametrize("path", GUARDED)
@pytest.mark.parametrize(
    "shown", [{}, {"authorization": TOKEN}, {"authorization": f"Bearer {TOKEN}x"}]
)
def test_without_the_token_nothing_is_told(guarded, path, shown):
    """Without a token or with a wrong one everything else is refused, unknown paths too."""
    reply = guarded.get(path, headers=shown)
    assert (reply.status, reply.problem["type"]) == (401, "/problems/token-required")
    assert reply.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in reply.body.decode()


@pytest.mark.parametrize("path", OPEN)
def test_page_and_health_need_no_token(guarded, path):
    """The page, the signs of life and explanations of problems are open."""
    assert guarded.get(path).status == 200
    assert len(OPEN) == len(OPEN_ROUTES)


def test_token_is_enough(guarded):
    """With the token everything is answered; another token takes its place while it runs."""
    assert guarded.get("/v1/model", headers=SHOWN).status == 200
    guarded.app.policy.tokens = read_tokens({"COTERIE_TOKEN": "b" * 20})
    assert guarded.get("/v1/model", headers=SHOWN).status == 401
    other = {"authorization": f"Bearer {'b' * 20}"}
    assert guarded.get("/v1/model", headers=other).status == 200


def test_all_answers_forbid_sniffing():
    """A browser takes no answer for anything else than it says it is."""
    for path in ("/", "/v1/model", "/nowhere", "/metrics"):
        assert service().get(path).headers["x-content-type-options"] == "nosniff"


def test_defect_shows_nothing_of_itself(capsys):
    """A defect is a problem of status 500; the log has the trace, without what was asked."""
    broken = Service(served())
    with failing(broken):
        reply = broken.get("/v1/advertisers/adv-secret")
    assert reply.problem["type"] == "/problems/internal-error"
    assert "KeyError" not in reply.body.decode() and "secret" not in reply.body.decode()
    log = capsys.readouterr().err
    assert reply.headers["x-request-id"] in log
    assert "KeyError" in log and "secret" not in log
    assert 'route="/v1/advertisers/{id}",status="500"} 1.0' in broken.metrics.text().decode()


def test_half_an_answer_is_not_followed_by_a_problem(monkeypatch, capsys):
    """What fails after its answer has begun leaves the answer incomplete, and is logged."""
    broken = Service(served())
    monkeypatch.setattr(broken.routes, "_queue", None)
    with logging_to_stderr("text", quiet=False):
        reply = broken.get("/v1/curves")
    assert (reply.status, reply.body) == (200, b"")
    assert "AttributeError" in capsys.readouterr().err


def test_log_and_metrics_have_nothing_personal(guarded, capsys):
    """Neither ids nor queries, texts, addresses or tokens reach the log or the metrics."""
    body = json.dumps({"text": "secret text", "bid": 1, "supply": 1}).encode()
    more = SHOWN | {"x-forwarded-for": "203.0.113.9", "user-agent": "secret", "content-type": JSON}
    with logging_to_stderr("text", quiet=False):
        asked = [
            guarded.get("/v1/advertisers/adv-secret", headers=more, client="198.51.100.3"),
            guarded.get("/v1/advertisers?search=secret", headers=more, client="198.51.100.3"),
            guarded.ask("POST", "/v1/forecast", content=body, headers=more, client="198.51.100.3"),
        ]
    log = capsys.readouterr().err
    assert [one.status for one in asked] == [404, 200, 200]
    for secret in ("secret", TOKEN, "COTERIE", "203.0.113.9", "198.51.100.3", "4711"):
        assert secret not in log + guarded.metrics.text().decode()
    assert " GET /v1/advertisers/{id} 404 " in log
    assert log.rstrip().endswith(f" {len(asked[-1].body)}B")


def test_odd_methods_and_paths_are_counted_as_one():
    """Clients cannot fill the metrics: unknown methods and paths share a line."""
    fresh = Service(served())
    for number in range(5):
        fresh.ask(f"ODD{number}", f"/nothing/{number}")
    line = f'coterie_requests_total{{method="OTHER",route="{UNKNOWN}",status="404"}} 5.0'
    assert line in fresh.metrics.text().decode()


def test_clients_are_told_apart_by_address_and_token():
    """Only the client that asked for too much is refused; another of its address is not."""
    tokens = read_tokens({"COTERIE_TOKEN": TOKEN})
    fresh = Service(served(), AccessPolicy(tokens=tokens), queued_work_per_client=1)
    long = json.dumps({"advertiser": "adv-00023", "bid": [1.0] * 5_000, "days": 7}).encode()
    shown = SHOWN | {"content-type": JSON}

    async def ask(client):
        return await fresh.asked("POST", "/v1/forecast", content=long, headers=shown, client=client)

    async def all_at_once():
        return await asyncio.gather(
            *(ask(client) for client in ("10.0.0.1", "10.0.0.1", "10.0.0.2"))
        )

    found = asyncio.run(all_at_once())
    assert sorted(one.status for one in found) == [200, 200, 429]
    [refused] = [one for one in found if one.status == 429]
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.problem["type"] == "/problems/too-much-work"


def test_refused_requests_do_not_keep_their_model():
    """A replaced model leaves memory without the collector, after every kind of request."""
    nobody = {"advertiser": "nobody"}
    refused = [
        ("GET", "/v1/advertisers/nobody", None, 404),
        ("POST", "/v1/forecast", {**nobody, "bid": 1}, 422),
        ("POST", "/v1/budgets", {**nobody, "budget": 1}, 422),
        ("POST", "/v1/portfolios", {"segment": 10**9}, 422),
    ]
    model = ServedModel(small_model(), "0", "market.coterie")
    found = Service(model)
    kept = weakref.ref(model)
    gc.collect()
    gc.disable()
    try:
        for method, path, question, status in refused:
            content = b"" if question is None else json.dumps(question).encode()
            reply = found.ask(method, path, content=content, headers={"content-type": JSON})
            assert reply.status == status
        found.holder.current = found.served = None
        del model
        # the threads of the queue and of the details may still be on their way out
        wait_until(lambda: kept() is None, "the end of the model")
    finally:
        gc.enable()
