"""The lane takes bytes of JSON and gives bytes of JSON, or says what is wrong."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from coterie.ads.protocol import Limits
from coterie.ads.service.answering import forecast_lane
from coterie.ads.service.answering.forecast_lane import ForecastLane
from coterie.ads.service.metrics import Metrics
from coterie.ads.service.models.served_model import ServedModel
from service_calls import Service, served, service

KNOWN = "adv-00023"


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
    ],
)
def test_json_is_taken_however_it_is_called(kind):
    """The content type may be in any case, and name UTF-8."""
    content = json.dumps({"advertiser": KNOWN, "bid": 2}).encode()
    reply = service().ask("POST", "/v1/forecast", content=content, headers={"content-type": kind})
    assert reply.status == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"]
)
def test_other_types_are_refused(kind):
    """A body that is not said to be JSON is not read: no form of another page can ask."""
    content = json.dumps({"advertiser": KNOWN, "bid": 2}).encode()
    reply = service().ask("POST", "/v1/forecast", content=content, headers={"content-type": kind})
    assert reply.status == 415
    assert "application/json" in reply.problem["detail"]


def test_a_missing_type_is_refused():
    """So is a body of which nothing is said."""
    assert service().ask("POST", "/v1/forecast", content=b"{}").status == 415


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"bid": NaN}',
        b'{"bid": 1e999}',
        b'"\\ud800"',
        b"\xff",
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b"1 2",
        b"{'bid': 1}",
    ],
)
def test_what_is_not_json_is_refused(content):
    """Bytes that are no JSON give a problem of status 400, and no trace."""
    reply = service().forecast(content)
    assert reply.status == 400
    assert "not JSON" in reply.problem["detail"]


def test_a_body_may_come_in_parts():
    """A body in several messages is put together."""
    content = json.dumps({"advertiser": KNOWN, "bid": 2}).encode()
    parts = [content[:5], content[5:20], content[20:]]
    lane = ForecastLane(service().holder, limits=Limits(), metrics=Metrics())
    sent = []

    async def receive():
        return {"type": "http.request", "body": parts.pop(0), "more_body": len(parts) > 0}

    async def send(message):
        sent.append(message)

    scope = {"headers": [(b"content-type", b"application/json")]}
    asyncio.run(lane(scope, receive, send))
    assert sent[1]["body"] == service().forecast(content).body


def test_an_answer_says_how_long_it_is_and_is_not_kept():
    """The length is told, and no cache keeps an answer."""
    reply = service().forecast({"advertiser": KNOWN, "bid": 2})
    assert int(reply.headers["content-length"]) == len(reply.body)
    assert reply.headers["cache-control"] == "no-store"


def test_one_question_and_a_list_of_one_differ_in_form_alone():
    """A list gets a list, with the same answer in it."""
    question = {"advertiser": KNOWN, "bid": [1, 2]}
    one, many = service().forecast(question).json, service().forecast([question]).json
    assert many["answers"] == [{k: v for k, v in one.items() if k not in {"model", "currency"}}]


def test_much_work_is_done_beside_the_loop():
    """A large batch gives what small ones give, and the loop answers others meanwhile."""
    asked = [{"advertiser": KNOWN, "bid": {"from": 1, "to": 4, "step": 0.001}}] * 3
    large = service().forecast(asked).json["answers"]
    small = service().forecast({"advertiser": KNOWN, "bid": [1, 2.5, 4]}).json["forecasts"]
    assert [large[2]["forecasts"][i] for i in (0, 1500, 3000)] == small


def test_forecasts_are_counted_and_faulty_questions_are_not():
    """Every bid that was answered is one forecast in the metrics."""
    fresh = Service(served())
    fresh.forecast({"advertiser": KNOWN, "bid": 2})
    fresh.forecast([{"advertiser": KNOWN, "bid": [1, 2, 3]}, {"advertiser": KNOWN, "bid": 1}])
    fresh.forecast({"advertiser": KNOWN, "bid": 0})
    assert b"coterie_forecasts_total 5.0" in fresh.metrics.text()


def test_work_ends_soon_after_nobody_waits_for_it(monkeypatch):
    """A request that is given up has no further turn, and its thread is free."""
    began, given_up_on = threading.Event(), threading.Event()
    turns = []

    def endless(*_, **__):
        while True:
            turns.append(None)
            began.set()
            given_up_on.wait(30)
            yield b""

    monkeypatch.setattr(forecast_lane, "answers_in_turns", endless)
    lane = ForecastLane(service().holder, limits=Limits(), metrics=Metrics())

    async def given_up():
        work = asyncio.ensure_future(lane.answered(b'{"text": "tour", "bid": 1, "supply": 1}'))
        await asyncio.to_thread(began.wait, 30)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        given_up_on.set()
        free = [lane._threads.submit(threading.get_ident) for _ in range(2)]
        assert [await asyncio.wrap_future(one) for one in free]
        assert len(turns) == 1

    asyncio.run(given_up())


def test_requests_take_turns(monkeypatch):
    """A request of few texts is answered before one of many that came earlier is."""
    ended = []

    def counted(turns, name):
        def answers(*_, **__):
            yield from [b""] * (turns - 1)
            ended.append(name)
            yield b"{}"

        return answers

    lane = ForecastLane(service().holder, limits=Limits(), metrics=Metrics())
    lane._threads = ThreadPoolExecutor(1)
    question = b'{"text": "tour", "bid": 1, "supply": 1}'

    async def asked():
        works = []
        for turns, name in ((50, "many"), (2, "few")):
            monkeypatch.setattr(forecast_lane, "answers_in_turns", counted(turns, name))
            works.append(asyncio.ensure_future(lane.answered(question)))
            await asyncio.sleep(0)
        await asyncio.gather(*works)

    asyncio.run(asked())
    lane._threads.shutdown()
    assert ended == ["few", "many"]


def test_texts_are_placed_in_threads_of_the_lane(monkeypatch):
    """However many requests have texts, two threads work for them, and none that others need."""
    threads = set()
    placed = ServedModel.placed

    def noted(self, texts):
        threads.add(threading.current_thread().name.split("_")[0])
        return placed(self, texts)

    monkeypatch.setattr(ServedModel, "placed", noted)
    asked = [{"text": f"tour {i}", "bid": 1, "supply": 1} for i in range(40)]
    assert len(service().forecast(asked).json["answers"]) == 40
    assert threads == {"forecasts"}


def test_what_is_expected_of_days_is_made_in_threads(monkeypatch):
    """It takes milliseconds, so the loop answers others meanwhile; then it is kept."""
    fresh = Service(ServedModel(served().model, "0", "market.coterie"))
    threads = []
    made = fresh.served.tables.days

    def noted(*day):
        threads.append(threading.current_thread().name.split("_")[0])
        return made(*day)

    fresh.served.book.summary()  # which asks for days too, beside
    monkeypatch.setattr(fresh.served.tables, "days", noted)
    asked = {"advertiser": KNOWN, "bid": 2, "day": "2026-05-01"}
    one, again = fresh.forecast(asked), fresh.forecast(asked)
    assert one.body == again.body
    assert fresh.forecast([asked, asked | {"days": 2}]).status == 200
    assert threads == ["forecasts"] * 2


def test_many_days_are_much_work(monkeypatch):
    """Bids times days decide whether questions are answered in a thread."""
    fresh = Service(ServedModel(served().model, "0", "market.coterie"))
    fresh.served.period(None, 100)
    turns = []
    in_turns = forecast_lane.answers_in_turns
    monkeypatch.setattr(
        forecast_lane, "answers_in_turns", lambda *a, **k: turns.append(a) or in_turns(*a, **k)
    )
    for number in (20, 21):
        asked = {"advertiser": KNOWN, "bid": [1.0] * number, "days": 100}
        assert len(fresh.forecast(asked).json["forecasts"]) == number
    assert len(turns) == 1
