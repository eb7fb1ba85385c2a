"""Connections to a service: what is asked again, when, how long, and what errors say."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import threading
from collections.abc import Iterator
from urllib.parse import unquote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import coterie
from coterie.ads.client import connection as service_connection
from coterie.ads.client.connection import (
    Patience,
    ServiceConnection,
    checked_address,
    checked_token,
    in_path,
)
from coterie.errors import InvalidParameterError, MissingExtraError, ServiceError

HERE = "http://127.0.0.1:8400"
TOKEN = "correct-horse-battery"

Outcome = httpx.Response | Exception


class Scene:
    """A service that does what it is told, on a clock that only sleeping and answering move."""

    def __init__(self, outcomes, *, seconds_each=0.0):
        self.outcomes: Iterator[Outcome] = iter(outcomes)
        self.seconds_each = seconds_each
        self.now = 0.0
        self.pauses: list[float] = []
        self.requests: list[httpx.Request] = []

    def answer(self, request):
        """The next outcome, after the time that every request takes."""
        self.requests.append(request)
        self.now += min(self.seconds_each, request.extensions["timeout"]["read"])
        outcome = next(self.outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def sleep(self, seconds):
        """Move the clock."""
        self.pauses.append(seconds)
        self.now += seconds

    def connection(self, base_url=HERE, **settings):
        """A connection to it; random numbers are all 1."""
        return ServiceConnection(
            base_url,
            transport=httpx.MockTransport(self.answer),
            clock=lambda: self.now,
            sleep=self.sleep,
            chance=lambda: 1.0,
            **settings,
        )


def fine():
    """An answer with nothing wrong."""
    return httpx.Response(200, json={"status": "ok"})


def problem(status, headers=None, **members):
    """A problem as the service tells them."""
    told = {"type": "about:blank", "title": "A Title", "status": status, "detail": "in detail"}
    return httpx.Response(
        status,
        content=json.dumps(told | {"request_id": "r-17"} | members),
        headers={"Content-Type": "application/problem+json"} | (headers or {}),
    )


def connect_error(request=None):
    """Nobody listens."""
    return httpx.ConnectError("[Errno 111] Connection refused", request=request)


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_an_answer_that_says_later_is_asked_for_again(status):
    """Busy services and broken gateways are asked until they answer."""
    scene = Scene([problem(status), problem(status), fine()])
    with_it = scene.connection()
    assert with_it.answer("GET", "/health") == {"status": "ok"}
    assert len(scene.requests) == 3
    assert scene.pauses == [0.1, 0.2]


@pytest.mark.parametrize(
    "error",
    [
        connect_error(),
        httpx.ConnectTimeout("slow"),
        httpx.ReadTimeout("slow"),
        httpx.PoolTimeout("busy"),
        httpx.ReadError("reset"),
        httpx.WriteError("reset"),
        httpx.RemoteProtocolError("Server disconnected without sending a response."),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_connection_that_fails_is_tried_again(error):
    """Asking changes nothing in the service, so a question may be sent twice."""
    scene = Scene([error, fine()])
    assert scene.connection().answer("POST", "/v1/forecast", b"{}") == {"status": "ok"}
    assert len(scene.requests) == 2
    assert [request.content for request in scene.requests] == [b"{}", b"{}"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 415, 421, 422, 500, 501])
def test_what_is_wrong_stays_wrong_and_is_not_repeated(status):
    """Faults of the question, of the token or of the service are told at once."""
    scene = Scene([problem(status)])
    with pytest.raises((ServiceError, InvalidParameterError)):
        scene.connection().answer("GET", "/v1/model")
    assert len(scene.requests) == 1
    assert scene.pauses == []


@given(retries=st.integers(0, 6))
def test_there_are_as_many_attempts_as_were_allowed(retries):
    """The first, and the retries; the error says how often it was tried, and knows the status."""
    scene = Scene(problem(503) for _ in range(retries + 1))
    patience = Patience(retries=retries, deadline=1e6)
    with pytest.raises(ServiceError, match="answered 503: in detail") as caught:
        scene.connection(patience=patience).answer("GET", "/v1/model")
    assert len(scene.requests) == retries + 1
    assert caught.value.status == 503
    assert caught.value.request_id == "r-17"
    assert (f"asked {retries + 1} times" in str(caught.value)) is (retries > 0)


@given(
    attempt=st.integers(0, 10_000),
    chance=st.floats(0, 1),
    first=st.floats(0.001, 1),
    longest=st.floats(1, 100),
)
def test_pauses_double_up_to_the_longest(attempt, chance, first, longest):
    """Chance takes away at most half; with the same chance no pause is shorter than the last."""
    patience = Patience(first_pause=first, longest_pause=longest)
    full = patience.pause(attempt, 1.0)
    assert full <= longest
    assert full / 2 <= patience.pause(attempt, chance) <= full
    assert patience.pause(attempt + 1, chance) in {
        2 * patience.pause(attempt, chance),
        patience.pause(10_001, chance),
    }


def test_a_service_that_says_when_to_come_back_is_obeyed():
    """Retry-After in seconds, and a little more, lest all come back at the same moment."""
    scene = Scene([problem(429, {"Retry-After": "7"}), fine()])
    scene.connection().answer("GET", "/v1/model")
    assert scene.pauses == [7.1]


def test_a_date_to_come_back_at_is_counted_from_the_answer():
    """So that clocks that differ do no harm."""
    headers = {
        "Date": "Mon, 09 Mar 2026 08:00:00 GMT",
        "Retry-After": "Mon, 09 Mar 2026 08:00:05 GMT",
    }
    scene = Scene([problem(503, headers), fine()])
    scene.connection().answer("GET", "/v1/model")
    assert scene.pauses == [5.1]


@pytest.mark.parametrize("told", ["soon", "-5", "1e9", "", "Mon, 99 Foo 2026", "9" * 400])
def test_nonsense_in_retry_after_is_passed_over(told):
    """The usual pause is made."""
    scene = Scene([problem(503, {"Retry-After": told}), fine()])
    scene.connection().answer("GET", "/v1/model")
    assert scene.pauses == [0.1]


def test_nobody_waits_for_a_time_beyond_the_deadline():
    """Coming back earlier than told would be of no use, so the error comes at once."""
    scene = Scene([problem(503, {"Retry-After": "3600"})])
    with pytest.raises(ServiceError, match="503"):
        scene.connection().answer("GET", "/v1/model")
    assert scene.pauses == []


@given(
    timeout=st.floats(0.01, 50),
    deadline=st.floats(0.01, 100),
    each=st.floats(0, 60),
    outcomes=st.lists(
        st.sampled_from([408, 429, 502, 503, 504, connect_error(), httpx.ReadTimeout("slow")]),
        max_size=20,
    ),
)
def test_a_call_ends_by_its_deadline(timeout, deadline, each, outcomes):
    """However often and however late it fails, and no attempt is given more than what is left."""
    answers = [problem(one) if isinstance(one, int) else one for one in outcomes]
    scene = Scene([*answers, fine()], seconds_each=each)
    start = scene.now
    patience = Patience(timeout=timeout, retries=50, deadline=deadline)
    with contextlib.suppress(ServiceError):
        scene.connection(patience=patience).answer("GET", "/v1/model")
    # a millisecond is the shortest time-out of an attempt
    assert scene.now - start <= deadline + 0.002
    for request in scene.requests:
        assert request.extensions["timeout"]["connect"] <= max(min(timeout, deadline), 0.001)


class Trickle(httpx.SyncByteStream):
    """A body of which a byte comes now and then, and no end."""

    def __init__(self, tick, piece=b" "):
        self.tick, self.piece = tick, piece

    def __iter__(self):
        while True:
            self.tick(1.0)
            yield self.piece


def test_an_answer_that_trickles_is_given_up_at_the_deadline():
    """Each byte is in time, all of them are not."""
    scene = Scene([])
    scene.outcomes = iter([httpx.Response(200, stream=Trickle(scene.sleep))])
    with pytest.raises(ServiceError, match="had not finished its answer after 30 s"):
        scene.connection().answer("GET", "/v1/model")
    assert scene.now <= 31.0


def test_an_answer_without_end_is_given_up(monkeypatch):
    """No service fills the memory of those who ask it."""
    monkeypatch.setattr(service_connection, "_MOST_BYTES", 1 << 20)
    scene = Scene([])
    scene.outcomes = iter([httpx.Response(200, stream=Trickle(lambda _: None, b" " * 99_999))])
    with pytest.raises(ServiceError, match="more than 1 MiB"):
        scene.connection().answer("GET", "/v1/model")


def test_redirects_are_not_followed():
    """A token must not go where an answer points; the message says where that was."""
    scene = Scene([httpx.Response(307, headers={"Location": "https://elsewhere.example/"})])
    with pytest.raises(ServiceError, match=r"'https://elsewhere\.example/'.*base_url"):
        scene.connection(token=TOKEN).answer("GET", "/v1/model")
    assert len(scene.requests) == 1


def test_requests_say_who_asks():
    """User agent, token and content type are those agreed on; a path of the address is kept."""
    scene = Scene([fine()])
    connection = scene.connection("https://ads.example/forecasts/", token=TOKEN)
    connection.answer("POST", "/v1/forecast", b"{}")
    (request,) = scene.requests
    assert str(request.url) == "https://ads.example/forecasts/v1/forecast"
    assert request.headers["User-Agent"] == f"coterie/{coterie.__version__}"
    assert request.headers["Authorization"] == f"Bearer {TOKEN}"
    assert request.headers["Content-Type"] == "application/json"


def test_a_token_is_not_sent_in_the_clear_to_another_machine():
    """Unless whoever asks says that the network is safe; this machine's own is."""
    scene = Scene([])
    with pytest.raises(InvalidParameterError, match="plain http") as caught:
        scene.connection("http://ads.example", token=TOKEN)
    assert TOKEN not in str(caught.value)
    for settings in ({"token": None}, {"token": TOKEN, "allow_plain_http": True}):
        scene.connection("http://ads.example", **settings).close()
    scene.connection("http://[::1]:8400", token=TOKEN).close()
    scene.connection("https://ads.example", token=TOKEN).close()


def test_a_refused_token_is_told_with_what_to_do():
    """And is not repeated."""
    scene = Scene([problem(401)])
    with pytest.raises(ServiceError, match="COTERIE_TOKEN") as caught:
        scene.connection(token=TOKEN).answer("GET", "/v1/model")
    assert TOKEN not in str(caught.value)


def test_faults_of_a_question_are_told_in_the_words_of_the_service():
    """Each after its place, which the caller may call otherwise; an InvalidParameterError."""
    errors = [
        {"at": "[3].bid", "what": "it must be above 0"},
        {"at": "", "what": "too\x1b[2J many\n"},
        "no fault at all",
    ]
    scene = Scene([problem(422, errors=errors)])
    with pytest.raises(InvalidParameterError) as caught:
        scene.connection().answer("POST", "/v1/forecast", b"[]", lambda place: place.upper())
    assert str(caught.value) == "[3].BID: it must be above 0; too␛[2J many"


def test_without_faults_the_detail_is_told():
    """As other checks of the service have it."""
    scene = Scene([problem(422, errors=None)])
    with pytest.raises(InvalidParameterError, match=r"^in detail$"):
        scene.connection().answer("GET", "/v1/advertisers?page=0")


@pytest.mark.parametrize("status", [200, 404, 500])
@pytest.mark.parametrize("body", [b"<html>", b"\xff", b"", b"[" * 100_000, b'{"a":' + b"1" * 5000])
def test_a_stranger_behind_the_address_is_recognised(status, body):
    """What is not JSON was not said by a coterie service."""
    scene = Scene([httpx.Response(status, content=body)])
    with pytest.raises(ServiceError, match=r"is that a coterie service|is base_url right"):
        scene.connection().answer("GET", "/v1/model")


def test_a_host_that_no_resolver_takes_is_a_fault_of_the_address():
    """A label of more than 63 characters, say."""
    network = httpx.HTTPTransport()  # not a proxy, which would be asked to resolve it
    address = f"http://{'a' * 64}.example"
    with_it = ServiceConnection(address, patience=Patience(retries=0), transport=network)
    try:
        with pytest.raises((InvalidParameterError, ServiceError), match="cannot be asked"):
            with_it.answer("GET", "/health")
    finally:
        with_it.close()


def test_a_closed_connection_says_so():
    """Also when it is closed twice."""
    connection = Scene([]).connection()
    connection.close()
    connection.close()
    with pytest.raises(ServiceError, match="closed"):
        connection.answer("GET", "/health")


def test_threads_share_a_connection():
    """Each gets the answer to its own question."""

    def echo(request):
        return httpx.Response(200, json=json.loads(request.content))

    connection = ServiceConnection(HERE, transport=httpx.MockTransport(echo))
    found: dict[int, list[int]] = {}

    def ask(name):
        found[name] = [
            connection.answer("POST", "/", json.dumps([name, i]).encode())[1] for i in range(50)
        ]

    threads = [threading.Thread(target=ask, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    connection.close()
    assert found == {name: list(range(50)) for name in range(8)}


def test_without_httpx_the_extra_is_named(monkeypatch):
    """It is an optional package."""
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'coterie\[client\]'"):
        ServiceConnection(HERE)


@pytest.mark.parametrize(
    "settings",
    [
        {"timeout": 0},
        {"timeout": float("nan")},
        {"timeout": None},
        {"deadline": -1.0},
        {"retries": -1},
        {"retries": 2.5},
        {"retries": True},
    ],
)
def test_patience_that_makes_no_sense_is_refused(settings):
    """The message names the setting."""
    with pytest.raises(InvalidParameterError, match=next(iter(settings))):
        Patience(**settings)


@pytest.mark.parametrize(
    ("given_as", "address", "loopback"),
    [
        ("http://127.0.0.1:8400", "http://127.0.0.1:8400", True),
        ("http://127.8.9.10:8400/", "http://127.8.9.10:8400", True),
        ("http://localhost", "http://localhost", True),
        ("http://[::1]:8400", "http://[::1]:8400", True),
        ("https://ads.example/forecasts/", "https://ads.example/forecasts", False),
        ("http://10.0.0.7:8400", "http://10.0.0.7:8400", False),
        ("http://127.0.0.1.example:8400", "http://127.0.0.1.example:8400", False),
        ("http://localhost.example", "http://localhost.example", False),
    ],
)
def test_an_address_is_told_apart_from_those_of_this_machine(given_as, address, loopback):
    """Slashes at the end go; only loopback addresses and localhost are this machine."""
    assert checked_address(given_as) == (address, loopback)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "127.0.0.1:8400",
        "ftp://ads.example",
        "http://",
        "http://ads.example:0",
        "http://ads.example:99999",
        "http://[::1",
        "http://ads.example/?token=1",
        "http://ads.example/#top",
        "http://ads.example/\r\nHost: other",
        "http://ads example",
        "http://ads.example\\@other",
    ],
)
def test_what_is_no_address_is_refused(address):
    """The message shows how one looks."""
    with pytest.raises(InvalidParameterError, match=r"http://127\.0\.0\.1:8400|credentials"):
        checked_address(address)


def test_credentials_in_an_address_are_refused_and_not_repeated():
    """They would end in logs; the message does not show them either."""
    with pytest.raises(InvalidParameterError, match="credentials") as caught:
        checked_address("https://someone:secret-word@ads.example")
    assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "nul\0", "ümlaut", 12345678])
def test_a_token_that_no_header_can_carry_is_refused_and_not_repeated(token):
    """Neither is anything put into a header that ends it."""
    with pytest.raises(InvalidParameterError, match="token") as caught:
        checked_token(token)  # type: ignore[arg-type]
    assert not str(token) or str(token) not in str(caught.value)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_an_id_in_a_path_is_one_segment_and_comes_back(text):
    """Only letters, digits, _, ~, - and %XX are left, and decoding gives the id again."""
    written = in_path(text)
    assert re.fullmatch(r"(?:[A-Za-z0-9_~-]|%[0-9A-F]{2})+", written)
    assert unquote(written) == text


def test_half_a_character_cannot_be_sent():
    """A lone surrogate has no bytes."""
    with pytest.raises(InvalidParameterError, match="half of a character"):
        in_path("a\ud800")
