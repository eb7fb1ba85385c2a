"""What the client does when things fail: what is asked again, when, how long, what errors say."""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import threading

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import coterie
from coterie.ads import client as module
from coterie.ads.client import Client
from coterie.errors import InvalidParameterError, MissingExtraError, ServiceError

TOKEN = "correct-horse-battery"
MODEL = {
    **dict.fromkeys(("name", "version", "loaded_at", "currency", "symbol"), "x"),
    **{
        "last_refusal": None,
        "auction": "second",
        "first_day": "",
        "last_day": "",
        "half_life": None,
    },
    **dict.fromkeys(("days", "advertisers", "segments", "rows", "interval"), 1),
    **{"interval_levels": [], "warnings": [], "grid": [], "has_clicks": True, "has_texts": True},
    "weekdays_seen": [True] * 7,
    "a member of a later version": {},
}
FAILURES = [
    httpx.ConnectError("[Errno 111] Connection refused"),
    httpx.ConnectTimeout("slow"),
    httpx.ReadTimeout("slow"),
    httpx.PoolTimeout("busy"),
    httpx.ReadError("reset"),
    httpx.WriteError("reset"),
    httpx.RemoteProtocolError("Server disconnected without sending a response."),
]


class Scene:
    """A service that does as it is told, and a clock that moves only by waiting and answering."""

    def __init__(self, seconds_each=0.0):
        self.seconds_each = seconds_each
        self.outcomes, self.requests, self.pauses = iter(()), [], []
        self.now = 0.0

    def answer(self, request):
        """Return the next outcome, after the time that each request takes."""
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

    @contextlib.contextmanager
    def clock(self):
        """Replace the clock, waiting and chance."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "monotonic", lambda: self.now)
            patch.setattr(module, "random", lambda: 1.0)
            patch.setattr(module.time, "sleep", self.sleep)
            yield

    def ask(self, outcomes, *call, base_url="http://127.0.0.1:8400", **settings):
        """Make a client, and return what a method of it returns."""
        self.outcomes = iter(outcomes)
        name, *arguments = call or ("model",)
        client = Client(base_url, transport=httpx.MockTransport(self.answer), **settings)
        with self.clock():
            return getattr(client, name)(*arguments)


@pytest.fixture
def scene(monkeypatch):
    """A scene without a token."""
    monkeypatch.delenv("COTERIE_TOKEN", raising=False)
    return Scene()


def fine():
    """An answer with nothing wrong."""
    return httpx.Response(200, json=MODEL)


def problem(status, headers=None, **members):
    """A problem as the service describes it."""
    named = {"type": "/problems/x", "title": "A title", "status": status, "detail": "in detail"}
    return httpx.Response(status, headers=headers, json=named | {"request_id": "r-17"} | members)


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_an_answer_that_may_be_better_later_is_asked_for_again(scene, status):
    """Busy services and broken gateways are asked until they answer, after growing pauses."""
    assert scene.ask([problem(status), problem(status), fine()]).currency == "x"
    assert scene.pauses == [0.1, 0.2]


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_a_connection_that_fails_is_tried_again(scene, error):
    """Asking changes nothing in the service, so a question may be sent twice."""
    with pytest.raises(ServiceError, match="does not know"):
        scene.ask([error, fine()], "forecast", "a", 2.5)
    assert [request.content for request in scene.requests] == [b'{"bid":2.5,"advertiser":"a"}'] * 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 415, 421, 422, 500, 501])
def test_what_stays_wrong_is_not_repeated(scene, status):
    """Faults of the question, of the token or of the service are reported at once."""
    with pytest.raises((ServiceError, InvalidParameterError)):
        scene.ask([problem(status)])
    assert scene.pauses == []


@pytest.mark.parametrize("retries", [0, 1, 5])
def test_there_are_as_many_attempts_as_allowed(scene, retries):
    """The error has the number of attempts, the status and the id of the request."""
    with pytest.raises(ServiceError, match=r"answered 503: in detail \(request r-17\)") as caught:
        scene.ask([problem(503)] * (retries + 1), retries=retries)
    assert (caught.value.status, caught.value.request_id) == (503, "r-17")
    assert (f"asked {retries + 1} times" in str(caught.value)) is (retries > 0)


def test_pauses_are_random_and_bounded(scene):
    """Chance takes away at most half; none is longer than 5 s."""
    with pytest.raises(ServiceError):
        scene.ask([problem(503)] * 10, retries=9, deadline=1000.0)
    assert scene.pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    scene.pauses.clear()
    with scene.clock(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(scene, "clock", contextlib.nullcontext)
        patch.setattr(module, "random", lambda: 0.0)
        scene.ask([problem(503), fine()])
    assert scene.pauses == [0.05]


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({"Retry-After": "7"}, 7.1),
        (
            {
                "Date": "Mon, 09 Mar 2026 08:00:00 GMT",
                "Retry-After": "Mon, 09 Mar 2026 08:00:05 GMT",
            },
            5.1,
        ),
        *(
            ({"Retry-After": odd}, 0.1)
            for odd in ["soon", "-5", "1e9", "", "Mon, 99 Foo", "9" * 99]
        ),
    ],
)
def test_retry_after_is_respected(scene, headers, pause):
    """Seconds, or a date, which is compared with that of the answer; nonsense is ignored."""
    scene.ask([problem(429, headers), fine()])
    assert scene.pauses == [pause]


def test_nobody_waits_beyond_the_deadline(scene):
    """To come back earlier than told is of no use, so the error comes at once."""
    with pytest.raises(ServiceError, match="503"):
        scene.ask([problem(503, {"Retry-After": "3600"})])
    assert scene.pauses == []


@given(
    timeout=st.floats(0.01, 50),
    deadline=st.floats(0.01, 100),
    each=st.floats(0, 60),
    outcomes=st.lists(st.sampled_from([408, 429, 503, FAILURES[0], FAILURES[2]]), max_size=20),
)
def test_a_call_ends_by_its_deadline(timeout, deadline, each, outcomes):
    """However often and late it fails; no attempt gets more time than is left."""
    scene = Scene(seconds_each=each)
    answers = [problem(one) if isinstance(one, int) else one for one in outcomes]
    with contextlib.suppress(ServiceError):
        scene.ask([*answers, fine()], timeout=timeout, retries=50, deadline=deadline)
    assert scene.now <= deadline + 0.002  # a millisecond is the shortest time-out
    for request in scene.requests:
        assert request.extensions["timeout"]["connect"] <= max(min(timeout, deadline), 0.001)


class Endless(httpx.SyncByteStream):
    """A body without end."""

    def __init__(self, tick, part):
        self.tick, self.part = tick, part

    def __iter__(self):
        while True:
            self.tick(1.0)
            yield self.part


def test_an_answer_that_trickles_is_given_up_at_the_deadline(scene):
    """Each byte is in time, all of them are not."""
    with pytest.raises(ServiceError, match="did not finish by the deadline"):
        scene.ask([httpx.Response(200, stream=Endless(scene.sleep, b" "))])
    assert scene.now <= 31.0


def test_an_answer_without_end_is_given_up(scene, monkeypatch):
    """No service fills the memory of those who ask it."""
    monkeypatch.setattr(module, "_MOST_BYTES", 1 << 20)
    with pytest.raises(ServiceError, match="more than 1 MiB"):
        scene.ask([httpx.Response(200, stream=Endless(lambda _: None, b" " * 99_999))])


def test_redirects_are_not_followed(scene):
    """A token must not go where an answer points; the message says where that is."""
    with pytest.raises(ServiceError, match=r"'https://elsewhere\.example/'.*base_url"):
        scene.ask([httpx.Response(307, headers={"Location": "https://elsewhere.example/"})])
    assert len(scene.requests) == 1


def test_requests_name_the_client(scene):
    """They have user agent, token and content type; a path of the address is kept."""
    with pytest.raises(ServiceError):
        base_url = "https://ads.example/forecasts/"
        scene.ask([problem(500)], "forecast", "a", 1, base_url=base_url, token=TOKEN)
    (request,) = scene.requests
    assert str(request.url) == "https://ads.example/forecasts/v1/forecast"
    assert request.headers["User-Agent"] == f"coterie/{coterie.__version__}"
    assert request.headers["Authorization"] == f"Bearer {TOKEN}"
    assert request.headers["Content-Type"] == "application/json"


def test_a_token_is_not_sent_in_the_clear_to_another_machine(scene):
    """Unless the caller allows it; this machine is safe, and so is https."""
    with pytest.raises(InvalidParameterError, match="allow_plain_http") as caught:
        scene.ask([], base_url="http://ads.example", token=TOKEN)
    assert TOKEN not in str(caught.value)
    for address, allowed in [
        *(("http://ads.example", True), ("https://ads.example", False)),
        *((f"http://{host}:8400", False) for host in ("[::1]", "127.8.9.10", "localhost")),
    ]:
        scene.ask([fine()], base_url=address, token=TOKEN, allow_plain_http=allowed)
    for address in ("http://127.0.0.1.example", "http://localhost.example", "http://10.0.0.7"):
        with pytest.raises(InvalidParameterError):
            scene.ask([], base_url=address, token=TOKEN)


def test_a_refused_token_is_not_repeated(scene):
    """The message says where tokens come from."""
    with pytest.raises(ServiceError, match="COTERIE_TOKEN") as caught:
        scene.ask([problem(401)], token=TOKEN)
    assert TOKEN not in str(caught.value)


def test_faults_of_a_question_are_in_the_words_of_the_service(scene):
    """Each after its place, on one line, without control characters."""
    errors = [{"at": "bid", "what": "too low"}, {"at": "", "what": "too\x1b[2J many\n"}]
    with pytest.raises(InvalidParameterError) as caught:
        scene.ask([problem(422, errors=errors)], "forecast", "a", 1)
    assert str(caught.value) == "bid: too low; too␛[2J many"
    with pytest.raises(InvalidParameterError, match=r"^in detail$"):
        scene.ask([problem(422)])


@pytest.mark.parametrize("status", [200, 404, 500])
@pytest.mark.parametrize(
    "body",
    [
        *(b"<html>", b"\xff", b"", b"[" * 100_000, b'{"a":' + b"1" * 5000, b'{"name":"\xff"}'),
        *(b"[]", b"{}", b"null", b'"a text"', b'{"forecasts": [{}]}', b'{"answers": []}'),
    ],
)
def test_what_is_no_answer_of_a_service_is_refused(scene, status, body):
    """Another program behind the address, or another version: an error in words."""
    said = r"same version of coterie|is base_url right"
    for call in [("model",), ("forecast", "a", 1), ("curves",), ("is_ready",)]:
        with pytest.raises(ServiceError, match=said) as caught:
            scene.ask([httpx.Response(status, content=body)], *call)
        assert caught.value.status == status


def test_the_number_of_forecasts_must_fit(scene):
    """A service that answers other questions than those asked is not believed."""
    answer = {"model": {"version": "1"}, "currency": "", "answers": []}
    with pytest.raises(ServiceError, match="in a form"):
        scene.ask(
            [httpx.Response(200, json=answer)], "forecast_many", [{"advertiser": "a", "bid": 1}]
        )


@pytest.mark.parametrize("outcome", [*FAILURES, 408, 429, 502, 503, 504], ids=str)
def test_readiness_is_asked_for_once(scene, outcome):
    """A service that stops or cannot be reached is not ready; nobody waits for it."""
    assert scene.ask([httpx.Response(200, json={"status": "ready"})], "is_ready") is True
    answer = problem(outcome) if isinstance(outcome, int) else outcome
    assert scene.ask([answer], "is_ready") is False
    assert scene.pauses == []


def test_a_closed_client_says_so():
    """Also if it is closed twice."""
    client = Client(transport=httpx.MockTransport(lambda _: fine()))
    client.close()
    client.close()
    with pytest.raises(ServiceError, match="closed"):
        client.model()


def test_threads_share_a_client():
    """Each gets the answer to its own question."""

    def echo(request):
        return httpx.Response(200, text=request.url.path.rsplit("/", 1)[1])

    client, found = Client(transport=httpx.MockTransport(echo)), {}

    def ask(number):
        found[number] = [
            client._ask("advertiser", read=bytearray.decode, id=f"{number}-{i}") for i in range(50)
        ]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [f"{number}-{i}" for i in range(50)] for number in range(8)}


@pytest.mark.parametrize("missing", ["httpx", "msgspec"])
def test_without_the_extra_it_is_named(monkeypatch, missing):
    """httpx and msgspec are optional packages."""
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[client\]'"):
        importlib.reload(module)


@pytest.mark.parametrize(
    "settings",
    [
        *({"timeout": 0}, {"timeout": float("nan")}, {"timeout": "1"}, {"deadline": -1.0}),
        *({"retries": -1}, {"retries": 2.5}, {"retries": True}),
        *(
            {"token": odd}
            for odd in ["two words", "line\n", "line\nbreak", "nul\0", "ümlaut", 12345]
        ),
    ],
    ids=repr,
)
def test_settings_that_make_no_sense_are_refused(scene, settings):
    """The message names the setting; a token is not shown."""
    [(name, value)] = settings.items()
    with pytest.raises(InvalidParameterError, match=f"^{name}: ") as caught:
        scene.ask([], **settings)
    assert name != "token" or str(value) not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        *("", "127.0.0.1:8400", "ftp://ads.example", "http://", "http://ads.example:99999", None),
        *("http://[::1", "http://ads.example/?token=1", "http://ads.example/#top", "http://a b"),
        *("http://ads.example/\r\nHost: other", "http://ads.example\\other", "http://a\x1b"),
    ],
)
def test_what_is_no_address_is_refused(scene, address):
    """The message shows what one looks like."""
    with pytest.raises(InvalidParameterError, match=r"http://127\.0\.0\.1:8400"):
        scene.ask([], base_url=address)


@pytest.mark.parametrize(
    "address", ["https://me:secret-word@ads.example", "http://secret-word@:99999"]
)
def test_credentials_in_an_address_are_not_repeated(scene, address):
    """They are refused, because addresses end in logs."""
    with pytest.raises(InvalidParameterError, match="credentials") as caught:
        scene.ask([], base_url=address)
    assert "secret-word" not in str(caught.value)


def test_a_host_that_cannot_be_asked_is_reported():
    """A label of more than 63 characters, for example."""
    with (
        Client(f"http://{'a' * 64}.example", retries=0, transport=httpx.HTTPTransport()) as client,
        pytest.raises((InvalidParameterError, ServiceError), match="cannot be asked"),
    ):
        client.model()


def test_an_id_is_one_segment_of_the_path(scene):
    """Whatever characters it has; half a surrogate pair cannot be sent."""
    for name in ("a/b c?d#e%2F", "..", "."):
        with pytest.raises(ServiceError):
            scene.ask([problem(500)], "advertiser", name)
    assert [request.url.raw_path.rsplit(b"/", 1)[1] for request in scene.requests] == [
        *(b"a%2Fb%20c%3Fd%23e%252F", b"%2E%2E", b"%2E")
    ]
    for call in [("advertiser", "\ud800"), ("forecast", "\ud800", 1)]:
        with pytest.raises(InvalidParameterError, match="surrogate"):
            scene.ask([], *call)


def test_the_body_of_a_problem_is_not_trusted(scene):
    """Its words are shown on one line of limited length."""
    body = json.dumps({"type": "", "title": "", "status": 1, "detail": "\x1b]0;\n" + "x" * 10_000})
    with pytest.raises(ServiceError) as caught:
        scene.ask([httpx.Response(500, content=body)])
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 2_200
