"""What every request passes: id, host, token, headers, metrics and log; then the routes."""

from __future__ import annotations

import asyncio
import copy
import gc
import gzip
import io
import json
import re
import threading
import weakref
from contextlib import contextmanager
from datetime import datetime
from urllib.parse import quote

import pyarrow as pa
import pytest

from coterie.ads.protocol import Refusal
from coterie.ads.service.access import AccessPolicy, read_tokens
from coterie.ads.service.application import OPEN_ROUTES, UNKNOWN
from coterie.ads.service.fair_queue import in_one_slice
from coterie.ads.service.monitoring import logging_to_stderr
from coterie.ads.service.served_model import ServedModel
from fitted_models import HOSTILE_IDS, small_model
from running_service import wait_until
from service_calls import JSON, Service, advertiser_path, served, service

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

    found.app.holder = Failing()
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
    assert re.search(r"application\.py:\d+ in advertiser\n", log)
    assert 'route="/v1/advertisers/{id}",status="500"} 1.0' in broken.metrics.text().decode()


def test_half_an_answer_is_not_followed_by_a_problem(monkeypatch, capsys):
    """What fails after its answer has begun leaves the answer incomplete, and is logged."""
    broken = Service(served())
    monkeypatch.setattr(broken.app, "_queue", None)
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


KNOWN = {"advertiser": "adv-00023", "bid": 2.5}
TAGGED = ["/v1/segments", "/v1/advertisers?search=adv", "/v1/advertisers/adv-00023"]
GETS = ["/v1/model", *TAGGED, "/health/live", "/health/ready", "/metrics", "/openapi.json"]


def one_line(found):
    """Return a counter of the metrics."""
    text = found.get("/metrics").body.decode()
    return float(text.split("\ncoterie_forecasts_total ")[1].split()[0])


class TestHealth:
    def test_live_and_ready(self, capsys):
        """Both are signs of life; while the service stops it is not ready, which is no error."""
        fresh = Service(served())
        assert fresh.get("/health/live").json == {"status": "live"}
        assert fresh.get("/health/ready").json == {"status": "ready"}
        fresh.app.stopping = True
        with logging_to_stderr("text", quiet=False):
            ready = fresh.get("/health/ready")
        assert " INFO " in capsys.readouterr().err
        assert ready.problem["type"] == "/problems/not-ready"
        assert ready.headers["connection"] == "close"
        assert fresh.get("/health/live").status == 200
        assert fresh.forecast(KNOWN).status == 200


class TestModel:
    @pytest.mark.parametrize("name", ["small_model", "first_price_model", "textless_model"])
    def test_is_that_of_the_profile_book(self, name):
        """The model, its name, its version and its grid are told."""
        told = service(name).get("/v1/model").json
        assert told["name"] == "market.coterie"
        assert told["version"] == "0123456789ab"
        assert told["advertisers"] == 60
        assert datetime.fromisoformat(told["loaded_at"]).tzinfo is not None
        assert {**served(name).book.summary(), **told} == told
        assert told["interval"] in told["interval_levels"] == [0.5, 0.8, 0.9, 0.95]

    def test_shows_the_last_refusal(self):
        """Why the last model file was not taken is told."""
        fresh = Service(served())
        assert fresh.get("/v1/model").json["last_refusal"] is None
        fresh.holder.last_refusal = Refusal("2026-03-09T00:00:00+00:00", "it is cut short")
        told = fresh.get("/v1/model").json["last_refusal"]
        assert told == {"at": "2026-03-09T00:00:00+00:00", "reason": "it is cut short"}


class TestSegments:
    def test_are_those_of_the_profile_book(self):
        """All segments have their curves over the grid of the model; they are compressed."""
        told = service().get("/v1/segments")
        assert told.json == {"grid": served().book.grid, "segments": served().book.segments()}
        assert told.json["grid"] == service().get("/v1/model").json["grid"]
        zipped = service().get("/v1/segments", headers={"accept-encoding": "gzip"})
        assert zipped.headers["content-encoding"] == "gzip"
        assert gzip.decompress(zipped.body) == told.body

    def test_of_another_model_are_not_those_remembered(self):
        """After a reload the segments are those of the new model."""
        fresh = Service(served())
        before = fresh.get("/v1/segments")
        fresh.holder.current = other = ServedModel(served("textless_model").model, "1", "other")
        after = fresh.get("/v1/segments")
        assert after.headers["etag"] != before.headers["etag"]
        assert after.json["segments"] == other.book.segments() != before.json["segments"]


class TestAdvertisers:
    def test_pages_follow_one_another(self):
        """Pages go through all that is found, by spend; one beyond the last is empty."""
        found = []
        for page in range(1, 6):
            told = service().get(f"/v1/advertisers?page={page}&page_size=17").json
            assert (told["page"], told["pages"], told["total"]) == (page, 4, 60)
            found += [item["id"] for item in told["items"]]
        spend = dict(zip(served().model.advertisers_, served().model.cost_, strict=True))
        assert [spend[name] for name in found] == sorted(spend.values(), reverse=True)
        told = service().get("/v1/advertisers?search=ADV-0002&page_size=3").json
        assert (told["pages"], told["total"]) == (4, 10)
        assert [one["id"][:8] for one in told["items"]] == ["adv-0002"] * 3
        told = service().get("/v1/advertisers?segment=1&page_size=100").json
        assert told["total"] == served().model.segments_[1].size
        assert {item["segment"] for item in told["items"]} == {1}

    @pytest.mark.parametrize("name", ["confidence", "observations", "bid", "spend"])
    def test_are_sorted_by_a_column(self, name):
        """The values of the column rise, or fall if its name has a minus sign."""
        for sort, is_falling in ((name, False), (f"-{name}", True)):
            told = service().get(f"/v1/advertisers?sort={sort}&page_size=100").json
            values = [item[name] for item in told["items"]]
            assert values == sorted(values, reverse=is_falling)

    @pytest.mark.parametrize("name", [*HOSTILE_IDS, "adv-00023"])
    def test_one_is_found_by_its_id(self, name):
        """An id may have slashes, quotes and any script; the list shows a part of the details."""
        told = service().get(advertiser_path(name)).json
        assert told == served().book.advertiser(served().tables.row_of[name])
        [item] = service().get(f"/v1/advertisers?search={quote(name)}").json["items"][:1]
        assert item == {key: told[key] for key in item}

    def test_id_may_have_line_breaks(self):
        """An id that is listed can be asked for, whatever its characters."""
        model, name = copy.copy(served().model), "two\nlines\n"
        model.advertisers_ = model.advertisers_.astype(object)
        model.advertisers_[7] = name
        fresh = Service(ServedModel(model, "1", "odd"))
        [item] = fresh.get("/v1/advertisers?search=two").json["items"]
        assert fresh.get(advertiser_path(item["id"])).json["id"] == name
        assert fresh.forecast({"advertiser": name, "bid": 2}).json["known"]


class TestTags:
    @pytest.mark.parametrize("target", TAGGED)
    def test_known_answer_is_not_sent_again(self, target):
        """If-None-Match with the tag gives 304 without a body; with another the answer."""
        reply = service().get(target)
        tag = reply.headers["etag"]
        assert reply.headers["cache-control"] == "no-cache"
        for held in (tag, f'"other", W/{tag}', "*"):
            again = service().get(target, headers={"if-none-match": held})
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        other = service().get(target, headers={"if-none-match": '"other"'})
        assert (other.status, other.body) == (200, reply.body)

    def test_processes_agree_on_tags(self):
        """Workers that loaded the same file at different times give the same tag."""
        other = ServedModel(served().model, served().version.version, served().name)
        assert other.tag == served().tag


class TestForecast:
    def test_is_compressed_if_accepted(self):
        """A large answer comes in gzip to whoever accepts it; a small one as it is."""

        def ask(n_bids, **headers):
            content = json.dumps({**KNOWN, "bid": [2.5] * n_bids}).encode()
            headers = {"content-type": JSON} | headers
            return service().ask("POST", "/v1/forecast", content=content, headers=headers)

        plain, zipped = ask(100), ask(100, **{"accept-encoding": "br, gzip"})
        assert zipped.headers["content-encoding"] == "gzip"
        assert zipped.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
        assert gzip.decompress(zipped.body) == plain.body
        assert "content-encoding" not in ask(1, **{"accept-encoding": "gzip"}).headers

    def test_all_forecasts_are_counted(self):
        """The metrics have one for each bid, at once or in slices, and none for a refusal."""
        fresh = Service(served())
        for bid, status in (([1, 2], 200), ([1.0] * 40, 200), ([0], 422)):
            assert fresh.forecast({**KNOWN, "bid": bid}).status == status
        assert one_line(fresh) == 42

    def test_time_is_limited(self):
        """An answer that takes too long becomes 503, and its work is given up."""
        fresh, over = Service(served(), request_seconds=0.01), threading.Event()
        question = json.dumps({**KNOWN, "bid": [1.0] * 1000, "days": 366}).encode()

        async def ask_while_others_are_served():
            other = fresh.queue.run("other", 1, in_one_slice(lambda: over.wait(60), 1))
            served_first = asyncio.create_task(other)
            await asyncio.sleep(0)
            headers = {"content-type": JSON}
            reply = await fresh.asked("POST", "/v1/forecast", content=question, headers=headers)
            over.set()
            await served_first
            return reply

        reply = asyncio.run(ask_while_others_are_served())
        assert (reply.status, reply.problem["type"]) == (503, "/problems/timed-out")
        wait_until(lambda: fresh.queue._waiting == {}, "the end of the work")
        fresh.queue.close()


class TestCurves:
    @pytest.mark.parametrize(("kind", "ending"), [("arrow", "stream"), ("parquet", "parquet")])
    def test_media_type_is_that_of_the_format(self, kind, ending):
        """The table comes in the format asked for; by default Arrow."""
        reply = service().get(f"/v1/curves?format={kind}&segment=1")
        assert reply.headers["content-type"].endswith(ending)
        if kind == "arrow":
            table = pa.ipc.open_stream(io.BytesIO(service().get("/v1/curves").body)).read_all()
            assert set(table["advertiser"].to_pylist()) == set(served().names)

    def test_parts_wait_however_much_waits(self):
        """A table is not broken off because its client has much work waiting."""
        fresh, over = Service(served(), queued_work_per_client=1), threading.Event()

        async def ask_while_work_waits():
            waiting = fresh.queue.run("127.0.0.1 ", 9, in_one_slice(lambda: over.wait(60), 1))
            first = asyncio.create_task(waiting)
            await asyncio.sleep(0)
            table = asyncio.create_task(fresh.asked("GET", "/v1/curves"))
            while fresh.queue._total == 9 and not table.done():
                await asyncio.sleep(0)
            over.set()
            await first
            return await table

        reply = asyncio.run(ask_while_work_waits())
        assert reply.body == service().get("/v1/curves").body


class TestEachRoute:
    @pytest.mark.parametrize("path", GETS)
    def test_head_has_the_headers_of_get(self, path):
        """HEAD has the status and headers of GET, and its length."""
        get, head = service().get(path), service().ask("HEAD", path)
        changing = ("x-request-id", "content-length") if path == "/metrics" else ("x-request-id",)
        for name in changing:
            get.headers.pop(name), head.headers.pop(name)
        assert (head.status, head.headers) == (get.status, get.headers)
        # a browser takes no answer for anything else than it says it is
        assert get.headers["x-content-type-options"] == "nosniff"
