"""The client against the real service: its answers are those of AdForecaster."""

from __future__ import annotations

import dataclasses
import operator
import socket
import warnings
from datetime import date

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coterie.ads
from coterie.ads import Client
from coterie.errors import CoterieWarning, InvalidParameterError, ServiceError
from fitted_models import HOSTILE_IDS, first_price_model, small_model
from running_service import running_service, wait_until

# services are shared: by one worker, so that each is started once
TOKEN = "a-token-of-24-characters"
KNOWN = [*HOSTILE_IDS, "adv-00020", "adv-00041"]
BIDS = st.floats(min_value=1e-3, max_value=1e4)
SUPPLIES = st.floats(min_value=0, max_value=1e12) | st.integers(0, 10**9)
TEXTS = st.sampled_from(["flights and hotel, beach holiday", "savings bank loan", "?", ""]) | (
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
)
OF_KNOWN = st.fixed_dictionaries({"advertiser": st.sampled_from(KNOWN)}, optional={"text": TEXTS})
WHEN = st.one_of(
    st.fixed_dictionaries({}, optional={"supply": SUPPLIES | st.none(), "day": st.none()}),
    st.fixed_dictionaries({"day": st.dates(date(2026, 1, 1), date(2027, 12, 31)).map(str)}),
)
OF_NEW = st.fixed_dictionaries(
    {"supply": SUPPLIES, "text": TEXTS},
    optional={"advertiser": st.sampled_from(["a newcomer", "", "נוסף", "adv-99999"])},
)
HOW = st.fixed_dictionaries(
    {}, optional={"days": st.integers(1, 366), "level": st.sampled_from([0.5, 0.8, 0.9, 0.95])}
)
QUESTIONS = st.builds(
    lambda question, how, bid: {**question, **how, "bid": bid},
    st.builds(operator.or_, OF_KNOWN, WHEN) | OF_NEW,
    HOW,
    BIDS | st.lists(BIDS, min_size=1, max_size=5) | st.integers(1, 100),
)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service of the small model that requires a token."""
    folder = tmp_path_factory.mktemp("service")
    with running_service(small_model(), folder, environment={"COTERIE_TOKEN": TOKEN}) as running:
        yield running


@pytest.fixture(scope="module")
def client(service):
    """A client with the token."""
    with Client(service.address, token=TOKEN) as found:
        yield found


@pytest.fixture
def silent_address():
    """An address where nobody listens, nor will: the port is taken, and refuses."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def of_model(model, question):
    """Return the forecasts of the model itself, as a list."""
    found = model.forecast(**question)
    return found if isinstance(found, list) else [found]


@pytest.mark.slow
@settings(max_examples=40)
@given(question=QUESTIONS)
def test_a_forecast_is_that_of_the_model_bit_for_bit(client, question):
    """Known and new advertisers, any bids, supplies, days and texts give equal dataclasses."""
    found, expected = client.forecast(**question), small_model().forecast(**question)
    assert found == expected
    assert type(found) is type(expected)


@settings(max_examples=15)
@given(questions=st.lists(QUESTIONS, max_size=12))
def test_many_questions_are_answered_like_each_alone(client, questions):
    """In order, with a list for each."""
    assert client.forecast_many(questions) == [of_model(small_model(), one) for one in questions]


DECISIONS = [
    ("bid_for", {"advertiser": "adv-00041", "impressions": 20, "days": 7}),
    ("bid_for", {"text": "savings bank", "supply": 1e5, "spend": 1e9}),
    ("plan_budget", {"advertiser": "adv-00020", "budget": 0.4, "bid": 3}),
    ("plan_budget", {"advertiser": HOSTILE_IDS[1], "budget": 0.1, "day": date(2026, 3, 20)}),
    ("split_budget", {"budget": 2, "advertisers": KNOWN, "goal": "clicks"}),
    ("split_budget", {"segment": 0, "days": 2, "level": 0.5}),
]


@pytest.mark.parametrize(("name", "question"), DECISIONS)
def test_decisions_are_those_of_python(client, name, question):
    """Goals, budgets and portfolios."""
    expected = getattr(coterie.ads, name)(small_model(), **question)
    assert getattr(client, name)(**question) == expected


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("bid_for", {"advertiser": "adv-00041"}),
        ("bid_for", {"advertiser": "nobody", "spend": 1}),
        ("plan_budget", {"advertiser": "adv-00041"}),
        ("split_budget", {"advertisers": ["nobody"]}),
    ],
)
def test_invalid_decisions_are_refused(client, name, question):
    """As Python refuses them, by the client or by the service."""
    with pytest.raises(InvalidParameterError):
        getattr(client, name)(**question)


def test_any_number_of_questions_may_be_asked(client):
    """More than a request may have: the client makes several."""
    names = small_model().advertisers_.tolist()
    bids = np.linspace(0.5, 9.5, 20)
    questions = [{"advertiser": names[i % 60], "bid": bids[: 1 + i % 20]} for i in range(2_203)]
    found = client.forecast_many(questions)
    for i in (0, 1, 39, 499, 999, 1_000, 2_202):
        assert found[i] == of_model(small_model(), questions[i])
    assert [len(one) for one in found] == [len(one["bid"]) for one in questions]
    range_of_all = {"from": 0.001, "to": 10, "step": 0.001}
    assert len(client.forecast("adv-00041", range_of_all)) == 10_000


def test_questions_are_taken_when_they_are_needed(client):
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


@pytest.mark.parametrize("bid", [2, np.float32(2.5), np.array(2.5), (1, 2), np.array([1.0]), [3]])
def test_one_bid_gives_a_forecast_and_several_give_a_list(client, bid):
    """As the model does."""
    assert client.forecast("adv-00041", bid) == small_model().forecast("adv-00041", bid)


@pytest.mark.parametrize(
    ("question", "member"),
    [
        ({"bid": 2.0}, "advertiser"),
        ({"advertiser": "adv-00041"}, "^bid is missing"),
        *(({"advertiser": "adv-00041", "bid": bid}, "bid") for bid in [0, [], float("nan")]),
        ({"advertiser": "adv-00041", "bid": 1, "supply": -1}, "supply"),
        ({"advertiser": "adv-00041", "bid": 1, "day": "Monday"}, "day"),
        *(({"advertiser": "adv-00041", "bid": 1, "days": days}, "days") for days in [0, True, 2.0]),
        ({"advertiser": "adv-00041", "bid": 1, "level": 0.7}, "0.5, 0.8, 0.9, 0.95"),
        ({"advertiser": "a newcomer", "bid": 1}, "supply"),
    ],
)
def test_the_client_refuses_what_the_model_refuses(client, question, member):
    """With the same error, which names the member."""
    for forecaster in (small_model(), client):
        with pytest.raises(InvalidParameterError, match=member):
            forecaster.forecast(**question)


def test_a_fault_has_the_number_of_its_question(client):
    """Among all that were given, whichever request it is in."""
    good = {"advertiser": "adv-00041", "bid": 1.0}
    with pytest.raises(InvalidParameterError, match=r"^questions\[1001\]\.supply: 'new' is not"):
        client.forecast_many([good] * 1_001 + [{"advertiser": "new", "bid": 1.0}, good])


@pytest.mark.slow
def test_another_model_in_between_is_reported(tmp_path):
    """One warning names both versions; each forecast has the version of its model."""
    good = {"advertiser": "adv-00041", "bid": 1.0}
    with running_service(small_model(), tmp_path) as running, Client(running.address) as client:
        found, first = client.forecast_each([good] * 3_000), client.model().version
        answers = [next(found) for _ in range(1_000)]
        running.replace_model(first_price_model())
        wait_until(lambda: client.model().version != first, "another model")
        second = client.model().version
        with pytest.warns(CoterieWarning, match=f"{first}.*{second}") as caught:
            answers += found
        assert len(caught) == 1
        versions = [one.model_version for [one] in answers]
        assert versions == [first] * 1_000 + [second] * 2_000
        with warnings.catch_warnings(action="error"):
            assert {one.model_version for [one] in client.forecast_many([good] * 2)} == {second}
    # the version says where a forecast came from, not what it is
    assert answers[-1] == of_model(first_price_model(), good)
    assert answers[-1] != answers[0]
    assert answers[0][0] == dataclasses.replace(answers[0][0], model_version="")


def test_all_advertisers_come_page_by_page(client):
    """Each once; they are found by parts of their ids, or by their segment."""
    known = sorted(small_model().advertisers_.tolist())
    for page_size in (7, 100):
        assert sorted(one.id for one in client.advertisers(page_size=page_size)) == known
    found = {one.id for one in client.advertisers("ADV-0004")}
    assert found == {name for name in known if "adv-0004" in name}
    assert {one.segment for one in client.advertisers(segment=0)} == {0}
    assert list(client.advertisers("nobody has this name")) == []
    with pytest.raises(InvalidParameterError, match="page_size"):
        list(client.advertisers(page_size=101))
    with pytest.raises(InvalidParameterError, match="sort"):
        list(client.advertisers(sort="colour"))
    bids = [one.bid for one in client.advertisers(sort="-bid", page_size=7)]
    assert bids == sorted(bids, reverse=True)


@pytest.mark.parametrize("name", ["nobody", "..", ".", "../model", "a/../../health", "%2e%2e"])
def test_an_unknown_advertiser_is_an_error(client, name):
    """Also one whose id would lead elsewhere if it were a path."""
    with pytest.raises(InvalidParameterError, match="is not in the log"):
        client.advertiser(name)


def test_the_service_describes_itself(client):
    """Model, segments, advertisers, metrics, curves."""
    model, described = small_model(), client.model()
    assert described.advertisers == len(model.advertisers_)
    assert described.currency == model.currency_
    segments = client.segments()
    assert segments.grid == described.grid
    assert [one.name for one in segments.segments] == [one.name for one in model.segments_]
    assert [client.advertiser(name).id for name in KNOWN] == KNOWN
    assert client.is_ready()
    assert "# TYPE" in client.metrics()


def test_curves_are_an_arrow_table(client):
    """One row for each advertiser and bid; its win rates are those of forecasts."""
    table = client.curves()
    assert table.schema.metadata[b"model_version"].decode() == client.model().version
    rows = [row for row in table.to_pylist() if row["advertiser"] == "adv-00041"]
    found = client.forecast("adv-00041", [row["bid"] for row in rows])
    assert [row["win_rate"] for row in rows] == pytest.approx([one.win_rate for one in found])
    of_first = set(client.curves(0)["advertiser"].to_pylist())
    assert of_first == {one.id for one in client.advertisers(segment=0)}
    with pytest.raises(InvalidParameterError, match="segment"):
        client.curves(-1)


def test_the_token_is_taken_from_the_environment(service, monkeypatch):
    """COTERIE_TOKEN, as the service takes it; without one the error says what to do."""
    monkeypatch.delenv("COTERIE_TOKEN", raising=False)
    with Client(service.address) as nobody, pytest.raises(ServiceError, match="COTERIE_TOKEN"):
        nobody.model()
    monkeypatch.setenv("COTERIE_TOKEN", TOKEN)
    with Client(service.address) as someone:
        assert someone.model().advertisers == 60
        assert TOKEN not in repr(someone)


def test_this_machine_is_never_asked_through_a_proxy(service, silent_address, monkeypatch):
    """Whatever the environment says: a proxy would see the token."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, silent_address)
        monkeypatch.setenv(name.upper(), silent_address)
    with Client(service.address, token=TOKEN, retries=0) as client:
        assert client.model().advertisers == 60


def test_where_nobody_listens_the_error_says_what_to_start(silent_address):
    """It names the address and the command."""
    with Client(silent_address, retries=0) as client:
        with pytest.raises(ServiceError, match="is coterie ads serve running there"):
            client.model()
        assert not client.is_ready()
