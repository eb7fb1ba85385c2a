"""The client against the real service: what it says is what AdForecaster says."""

from __future__ import annotations

import operator
import socket
from datetime import date, timedelta

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads import Client
from coterie.errors import InvalidParameterError, ServiceError
from fitted_models import HOSTILE_IDS, small_model
from running_service import running_service
from service_calls import served
from service_calls import service as routes_of

# services are shared: by one worker, so that each is started once
pytestmark = pytest.mark.xdist_group("a client's service")

TOKEN = "a-token-of-24-characters"

KNOWN = [*HOSTILE_IDS, "adv-00020", "adv-00041"]
BIDS = st.floats(min_value=1e-3, max_value=1e4)
DAYS = st.dates(date(2026, 1, 1), date(2027, 12, 31)).map(str)
SUPPLIES = st.floats(min_value=0, max_value=1e12) | st.integers(0, 10**9)
TEXTS = st.sampled_from(
    ["flights and hotel, beach holiday", "savings bank loan", "?", ""]
) | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
OF_A_KNOWN_ONE = st.fixed_dictionaries(
    {"advertiser": st.sampled_from(KNOWN)},
    optional={"text": TEXTS},
)
HOW_MANY = st.fixed_dictionaries(
    {}, optional={"days": st.integers(1, 366), "level": st.sampled_from([0.5, 0.8, 0.9, 0.95])}
)
A_DAY_OR_NOT = st.one_of(
    st.fixed_dictionaries({}, optional={"supply": SUPPLIES | st.none(), "day": st.none()}),
    st.fixed_dictionaries({"day": DAYS}, optional={"supply": st.none()}),
)
OF_A_NEW_ONE = st.fixed_dictionaries(
    {"supply": SUPPLIES, "text": TEXTS},
    optional={"advertiser": st.sampled_from(["a newcomer", "", "נוסף", "adv-99999"])},
)
QUESTIONS = st.builds(
    lambda question, more, bid: {**question, **more, "bid": bid},
    st.builds(operator.or_, OF_A_KNOWN_ONE, A_DAY_OR_NOT) | OF_A_NEW_ONE,
    HOW_MANY,
    BIDS | st.lists(BIDS, min_size=1, max_size=5) | st.integers(1, 100),
)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service of the small model, which wants a token."""
    folder = tmp_path_factory.mktemp("guarded")
    with running_service(small_model(), folder, environment={"COTERIE_TOKEN": TOKEN}) as running:
        yield running


@pytest.fixture(scope="module")
def client(service):
    """One who has the token."""
    with Client(service.address, token=TOKEN) as found:
        yield found


@pytest.fixture(scope="module", params=["small_model", "first_price_model", "textless_model"])
def asked(request):
    """A model, and a client of a service that has it: a real one, or its routes alone."""
    name = request.param
    if name == "small_model":
        return small_model(), request.getfixturevalue("client")

    def answer(sent):
        target, headers = sent.url.raw_path.decode(), dict(sent.headers)
        reply = routes_of(name).ask(sent.method, target, content=sent.content, headers=headers)
        return httpx.Response(reply.status, content=reply.body)

    return served(name).model, Client(transport=httpx.MockTransport(answer))


@pytest.fixture
def silent_address():
    """One where nobody listens, nor will: the port is taken, and refuses."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def of_model(model, question):
    """What the model itself says to a question, as a list."""
    found = model.forecast(**question)
    return found if isinstance(found, list) else [found]


@settings(max_examples=40)
@given(question=QUESTIONS)
def test_a_forecast_is_that_of_the_model_bit_for_bit(asked, question):
    """Known advertisers and new ones, any bids, supplies, days and texts: equal dataclasses."""
    model, client = asked
    told, known = client.forecast(**question), model.forecast(**question)
    assert told == known
    assert type(told) is type(known)


@settings(max_examples=15)
@given(questions=st.lists(QUESTIONS, max_size=12))
def test_many_questions_are_answered_like_each_alone(asked, questions):
    """In their order, a list for each."""
    model, client = asked
    assert client.forecast_many(questions) == [of_model(model, one) for one in questions]


def test_any_number_of_questions_may_be_asked(client):
    """More than a request may have, of bids too: the client makes several of them."""
    model = small_model()
    names, bids = model.advertisers_, np.linspace(0.5, 9.5, 10)
    questions = [
        {"advertiser": str(names[i % len(names)]), "bid": bids[: 1 + i % 10]} for i in range(1_203)
    ]
    found = client.forecast_many(questions)
    for i in (0, 1, 39, 499, 999, 1_000, 1_202):
        assert found[i] == of_model(model, questions[i])
    assert [len(one) for one in found] == [len(one["bid"]) for one in questions]
    many = np.linspace(0.01, 20, 10_001)
    assert client.forecast("adv-00041", many) == model.forecast("adv-00041", many)


def test_questions_are_taken_as_they_are_needed(client):
    """A generator without end can be asked about."""
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield {"advertiser": "adv-00041", "bid": float(taken)}

    found = client.forecast_each(endless())
    assert [next(found)[0].bid for _ in range(3)] == [1.0, 2.0, 3.0]
    assert taken <= 1_001


@pytest.mark.parametrize(
    "bid", [2, 2.5, np.float32(2.5), np.int64(3), np.array(2.5), (1, 2), np.array([1.0, 2.5]), [3]]
)
def test_bids_may_be_any_numbers(client, bid):
    """One gives one forecast, several a list, as of the model."""
    assert client.forecast("adv-00041", bid) == small_model().forecast("adv-00041", bid)


def test_a_range_of_bids_is_both_its_ends_and_what_lies_between(client):
    """As the program has it: 1:2:0.25."""
    found = client.forecast("adv-00041", {"from": 1, "to": np.float64(2), "step": 0.25})
    assert found == small_model().forecast("adv-00041", [1, 1.25, 1.5, 1.75, 2])


def test_ids_may_be_numbers_and_days_dates(client):
    """They are written as the log's are."""
    day = date(2026, 3, 9)
    assert client.forecast(7, 2.0, supply=10).advertiser == "7"  # type: ignore[arg-type]
    on_it = client.forecast("adv-00041", 2.0, day=day)  # type: ignore[arg-type]
    assert on_it == small_model().forecast("adv-00041", 2.0, day=str(day))
    week = [day + timedelta(days=i) for i in range(7)]
    assert len({client.forecast("adv-00041", 2.0, day=str(one)).why for one in week}) == 7


def test_days_and_levels_may_be_numbers_of_numpy(client):
    """They are those of the model."""
    question = {"days": np.int64(7), "level": np.float64(0.8)}
    found = client.forecast("adv-00041", 2.0, **question)
    assert found == small_model().forecast("adv-00041", 2.0, **question)
    assert found.level == 0.8
    assert found.conversions_interval[0] <= found.conversions <= found.conversions_interval[1]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"bid": 2.0}, "name an advertiser, or give the text"),
        ({"advertiser": "adv-00041", "bid": 0}, "bid=0: bids must be numbers above 0"),
        ({"advertiser": "adv-00041", "bid": []}, "bids must be numbers above 0"),
        ({"advertiser": "adv-00041", "bid": float("nan")}, "bids must be numbers above 0"),
        ({"advertiser": "adv-00041", "bid": 1, "supply": -1}, "supply=-1"),
        ({"advertiser": "adv-00041", "bid": 1, "day": "Monday"}, "2026-03-09"),
        ({"advertiser": "adv-00041", "bid": 1, "days": 0}, "days=0: it must be a whole number"),
        ({"advertiser": "adv-00041", "bid": 1, "days": True}, "days=True"),
        ({"advertiser": "adv-00041", "bid": 1, "days": 2.0}, "days=2.0"),
        ({"advertiser": "adv-00041", "bid": 1, "level": 0.7}, "0.5, 0.8, 0.9, 0.95"),
        ({"advertiser": "adv-00041", "bid": 1, "level": "high"}, "level="),
        ({"advertiser": "a newcomer", "bid": 1}, "supply"),
        ({"advertiser": "a newcomer", "bid": 1, "day": "2026-03-09"}, "supply"),
    ],
)
def test_what_the_model_refuses_the_client_refuses(client, question, message):
    """By the same error, and in words that name the member."""
    with pytest.raises(InvalidParameterError, match=message):
        small_model().forecast(**question)
    with pytest.raises(InvalidParameterError, match=message):
        client.forecast(**question)


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ({"advertiser": "adv-00041", "bid": [1.0, 2e9]}, r"\[1001\]\.bid\[1\]"),
        ({"advertiser": "a newcomer", "bid": 1.0}, r"\[1001\]"),
        ({"advertiser": "x" * 2_000, "bid": 1.0, "supply": 1}, r"\[1001\]\.advertiser"),
        ({"advertiser": "a", "bid": {"from": 2, "to": 1, "step": 1}}, r"\[1001\]\.bid\.to"),
    ],
)
def test_a_fault_is_told_with_the_number_of_its_question(client, question, place):
    """Among all that were given, whichever request it was in."""
    good = {"advertiser": "adv-00041", "bid": 1.0}
    with pytest.raises(InvalidParameterError, match=place):
        client.forecast_many([good] * 1_001 + [question, good])


def test_all_advertisers_come_page_by_page(client):
    """Each once, however long the pages; found by parts of their ids, or by their segment."""
    known = sorted(str(name) for name in small_model().advertisers_)
    for page_size in (7, 100):
        found = [one["id"] for one in client.advertisers(page_size=page_size)]
        assert sorted(found) == known
    assert {one["id"] for one in client.advertisers("ADV-0004")} == {
        name for name in known if "adv-0004" in name
    }
    of_first = [one["segment"] for one in client.advertisers(segment=0)]
    assert of_first
    assert set(of_first) == {0}
    assert list(client.advertisers("nobody is called so")) == []
    with pytest.raises(InvalidParameterError, match="page_size"):
        list(client.advertisers(page_size=101))


@pytest.mark.parametrize("name", ["nobody", "..", ".", "../model", "a/../../health", "%2e%2e"])
def test_an_advertiser_that_is_not_there_is_told(client, name):
    """Also one whose id would lead elsewhere if it were taken for a path."""
    with pytest.raises(InvalidParameterError, match="has no advertiser"):
        client.advertiser(name)


def test_the_service_tells_of_itself(client):
    """Model, segments, health and counters."""
    model = small_model()
    told = client.model()
    assert told["advertisers"] == len(model.advertisers_)
    assert told["currency"] == model.currency_
    segments = client.segments()
    assert segments["grid"] == told["grid"]
    assert [one["name"] for one in segments["segments"]] == [one.name for one in model.segments_]
    for name in KNOWN:
        assert client.advertiser(name)["id"] == name
    assert client.health()["model"]["version"] == told["version"]
    assert "# TYPE" in client.metrics()


def test_the_token_is_taken_from_the_environment(service, monkeypatch):
    """COTERIE_TOKEN, as the service takes it; without one it is refused with what to do."""
    monkeypatch.delenv("COTERIE_TOKEN", raising=False)
    with Client(service.address) as nobody, pytest.raises(ServiceError, match="COTERIE_TOKEN"):
        nobody.model()
    monkeypatch.setenv("COTERIE_TOKEN", TOKEN)
    with Client(service.address) as someone:
        assert someone.model()["advertisers"] == 60
        assert TOKEN not in repr(someone)


def test_no_proxy_stands_between_two_programs_of_one_machine(service, silent_address, monkeypatch):
    """Whatever the environment says: it would be told the token."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, silent_address)
    with Client(service.address, token=TOKEN, retries=0) as client:
        assert client.health()["status"] == "ok"


def test_where_nobody_listens_the_error_says_what_to_start(silent_address):
    """The address, and the command."""
    with (
        Client(silent_address, retries=0) as client,
        pytest.raises(ServiceError, match="is coterie ads serve running there"),
    ):
        client.health()


@pytest.mark.parametrize(
    "answer",
    [
        [],
        {},
        {"forecasts": [{}]},
        {"answers": []},
        {"answers": [{}, {}, {}]},
        "a text",
        None,
        {"items": [], "pages": "many"},
    ],
    ids=str,
)
def test_answers_in_another_form_are_told_as_such(answer):
    """A service of another version, or none of ours: an error in words, no KeyError."""
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=answer))
    with Client(transport=transport) as client:
        with pytest.raises(ServiceError):
            client.forecast("a", 1.0)
        with pytest.raises(ServiceError):
            client.forecast_many([{"advertiser": "a", "bid": 1.0}] * 2)
        with pytest.raises(ServiceError):
            list(client.advertisers())
