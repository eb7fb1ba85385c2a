"""Decisions by the service, and the curves of all advertisers, are those of Python."""

from __future__ import annotations

import io
import json

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.ads import bid_for, plan_budget, rank_targets, split_budget
from coterie.ads.decisions.decision_answers import BudgetPlan, BudgetSplit, GoalBid, TargetRanking
from coterie.ads.protocol import OPERATIONS, Answer, Limits, Question
from coterie.ads.service import deciding
from coterie.ads.service.deciding import DECISIONS, curve_parts, decide
from fitted_models import first_price_model, small_model
from service_calls import JSON, served, service
from target_markets import targets_model

LIMITS = Limits()
PERIOD = {"day": "2026-03-14", "days": 3, "level": 0.8}
NEW = {"advertiser": "new", "text": "flights and hotel", "supply": 1e5}
TWO = ["adv-00020", "adv-00041"]
COLUMNS = [
    *("advertiser", "segment", "bid", "win_rate", "win_rate_low", "win_rate_high", "cost"),
    *("marginal_cost", "own_win_rate", "segment_win_rate"),
]
READ = {
    "arrow": lambda body: pa.ipc.open_stream(io.BytesIO(body)).read_all(),
    "parquet": pq.read_table,
}


def asked(path, question, name="small_model"):
    """Return the reply to a question."""
    content = json.dumps(question).encode()
    return service(name).ask("POST", path, content=content, headers={"content-type": JSON})


@pytest.mark.parametrize("question", [{"advertiser": "adv-00020", **PERIOD}, NEW])
@pytest.mark.parametrize("goal", [{"impressions": 9}, {"spend": 0.2}, {"clicks": 1e9}])
def test_goals(question, goal):
    """The bid for a goal, reached or not, is that of Python."""
    reply = asked("/v1/bids", {**question, **goal})
    assert reply.status == 200
    found = msgspec.json.decode(reply.body, type=GoalBid)
    assert found == bid_for(small_model(), **question, **goal)
    assert found.model_version == served().version.version
    assert found.forecast.model_version == found.model_version


@pytest.mark.parametrize("question", [{"advertiser": "adv-00020"}, {"days": 3, **NEW}])
@pytest.mark.parametrize("bid", [{}, {"bid": 3.5}])
def test_budgets(question, bid):
    """The plan of a budget is that of Python; a week by default."""
    reply = asked("/v1/budgets", {"budget": 0.5, **question, **bid}, "first_price_model")
    found = msgspec.json.decode(reply.body, type=BudgetPlan)
    assert found == plan_budget(first_price_model(), budget=0.5, **question, **bid)


@pytest.mark.parametrize(
    "question",
    [{"advertisers": TWO, "budget": 1}, {"segment": 0, **PERIOD}, {"segment": "a"}, {"budget": 3}],
)
def test_portfolios(question):
    """The division of a budget is that of Python, by ids, a segment's index or name, or of all."""
    if question.get("segment") == "a":
        question = {"segment": small_model().segments_[0].name[:8]}
    reply = asked("/v1/portfolios", {"goal": "clicks", **question})
    found = msgspec.json.decode(reply.body, type=BudgetSplit)
    assert found == split_budget(small_model(), goal="clicks", **question)


WHERE = {"device": "phone"}


@pytest.mark.parametrize("question", [{"advertiser": "adv-00020", **PERIOD}, {**NEW, "bid": 2.5}])
@pytest.mark.parametrize("how", [{}, {"dimension": "device", "by": "cost"}])
def test_targets(question, how):
    """The ranking of values is that of Python."""
    reply = asked("/v1/targets", {**question, **how}, "targets_model")
    found = msgspec.json.decode(reply.body, type=TargetRanking)
    assert found == rank_targets(targets_model(), **question, **how)


@pytest.mark.parametrize("bid", [2.5, [1.0, 2.5, 90.0], {"from": 1, "to": 5, "step": 0.005}])
@pytest.mark.parametrize("question", [{"advertiser": "adv-00020", **PERIOD}, NEW])
def test_forecasts_of_values(question, bid):
    """A question with values of dimensions is answered as Python does, alone and in a list."""
    told = {**question, "where": WHERE, "bid": bid}
    found = msgspec.json.decode(service("targets_model").forecast(told).body, type=Answer)
    bids = Question(bid=bid, advertiser="a").bids() if not isinstance(bid, dict) else None
    bids = bids or [round(1 + 0.005 * i, 3) for i in range(801)]
    assert found.each() == targets_model().forecast(bid=bids, where=WHERE, **question)
    plain = {"advertiser": "adv-00020", "bid": 2.5}
    together = service("targets_model").forecast([plain, told, plain]).json["answers"]
    assert together[1]["forecasts"] == json.loads(msgspec.json.encode(found.forecasts))
    assert together[0] == together[2]


@pytest.mark.parametrize("where", [{"device": "abacus"}, {"planet": "Mars"}])
def test_values_that_the_model_does_not_have(where):
    """They are a fault of the question, with its place."""
    told = {"advertiser": "adv-00020", "bid": 2.5, "where": where}
    [(place, what)] = service("targets_model").forecast([{**told, "where": WHERE}, told]).faults
    assert place == "[1].where" and next(iter(where)) in what
    [(place, what)] = service().forecast(told).faults
    assert place == "where" and "no dimensions" in what


@pytest.mark.parametrize(
    ("path", "question", "told"),
    [
        ("/v1/bids", {"advertiser": "adv-00020"}, "give one of"),
        ("/v1/bids", {"advertiser": "adv-00020", "clicks": 1, "spend": 1}, "give one of"),
        ("/v1/bids", {"advertiser": "adv-00020", "clicks": 0}, "above 0"),
        ("/v1/bids", {"clicks": 1}, "name an `advertiser`"),
        ("/v1/bids", [{"advertiser": "adv-00020", "clicks": 1}], "an object, not a list of 1"),
        (
            "/v1/bids",
            {"advertiser": "unknown", "clicks": 1},
            "or give supply, its number of auctions",
        ),
        ("/v1/budgets", {"advertiser": "adv-00020"}, "it is missing"),
        ("/v1/budgets", {"advertiser": "adv-00020", "budget": -1}, "not -1"),
        ("/v1/targets", {"advertiser": "adv-00020"}, "no dimensions"),
        ("/v1/targets", {"advertiser": "adv-00020", "by": "luck"}, "luck"),
        ("/v1/portfolios", {"advertisers": TWO, "segment": 0}, "`advertisers` or a `segment`"),
        ("/v1/portfolios", {"advertisers": ["unknown"]}, "'unknown' is not in the log"),
        ("/v1/portfolios", {"advertisers": ["adv-00020"] * 1001}, "a list of 1 to 1,000 items"),
        ("/v1/portfolios", {"segment": 99}, "segment=99"),
        ("/v1/portfolios", {"segment": 0, "goal": "fame"}, "fame"),
    ],
)
def test_invalid_questions(path, question, told):
    """They are refused with their fault."""
    [(_, what)] = asked(path, question).faults
    assert told in what


@pytest.mark.parametrize("path", [OPERATIONS[name].path for name in DECISIONS])
def test_bodies_that_are_no_questions(path):
    """What is not JSON, or of another type, is refused as a body of forecasts is."""
    text = service().ask("POST", path, content=b"{", headers={"content-type": JSON})
    assert (text.status, text.problem["type"]) == (400, "/problems/malformed-body")
    other = service().ask("POST", path, content=b"{}", headers={"content-type": "text/csv"})
    assert other.status == 415
    refused = service().get(path)
    assert (refused.status, refused.headers["allow"]) == (405, "POST")
    assert refused.problem["detail"] == "method not allowed: use POST"


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("bid", {"advertiser": "adv-00020", "clicks": 1}),
        ("budget", {"advertiser": "adv-00020", "budget": 9}),
        ("targets", {"advertiser": "adv-00020"}),
        ("portfolio", {"advertisers": served("targets_model").names}),
    ],
)
def test_long_decisions_let_others_have_their_turn(name, question):
    """A decision about a year is made in many slices, none much larger than those of others."""
    asked = msgspec.convert({**question, "days": 366}, OPERATIONS[name].question)
    estimate, slices = decide(name, served("targets_model"), asked, LIMITS)
    costs = list(slices)
    assert max(costs) <= 3 * LIMITS.slice_work
    assert estimate / 5 <= sum(costs) <= 5 * estimate


def table(kind, segment=None, name="small_model"):
    """Return the table that the parts make, and their costs."""
    parts = [(cost, make()) for cost, make in curve_parts(served(name), kind, segment)]
    body = b"".join(part for _, part in parts)
    return READ[kind](io.BytesIO(body) if kind == "parquet" else body), [cost for cost, _ in parts]


@pytest.mark.parametrize("name", ["small_model", "first_price_model", "textless_model"])
@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_curves_are_those_of_the_model(kind, name):
    """Each advertiser has its curve at each bid of the grid, bit for bit, by advertiser and bid."""
    made = served(name)
    found, costs = table(kind, name=name)
    assert found.column_names == COLUMNS
    assert found.schema.metadata[b"model_version"] == b"0123456789ab"
    assert found.schema.metadata[b"currency"] == made.currency.encode()
    bids = np.array([bid for bid in made.book.grid if bid > 0])
    assert found["advertiser"].to_pylist() == [one for one in made.names for _ in bids]
    columns = [found[column].to_numpy().reshape(len(made.names), -1) for column in COLUMNS[2:7]]
    for row, advertiser in enumerate(made.names):
        known = made.tables.curves_at(made.placer.placed(advertiser, None), bids)
        expected = [bids, known["win"], known["low"], known["high"], known["cost"]]
        np.testing.assert_array_equal([column[row] for column in columns], expected)
    assert sum(costs) == found.num_rows + 1
    assert max(costs) <= 8 * len(bids)


def test_curve_of_the_python_interface_is_the_same():
    """At the bids of the grid, model.curve has the same win rates and costs."""
    made = served()
    found, _ = table("arrow")
    of_model = made.model.curve("adv-00023")
    of_table = found.filter(pa.compute.equal(found["advertiser"], "adv-00023"))
    both = np.intersect1d(of_table["bid"].to_numpy(), of_model.bid)
    assert len(both) > 5
    for ours, theirs in (("win_rate", of_model.win), ("cost", of_model.cost)):
        left = of_table[ours].to_numpy()[np.isin(of_table["bid"].to_numpy(), both)]
        np.testing.assert_array_equal(left, theirs[np.isin(of_model.bid, both)])


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_one_segment(kind):
    """Only advertisers of the segment are there; a segment that does not exist has none."""
    labels, names = served().model.labels_, np.array(served().names)
    found, _ = table(kind, 1)
    assert sorted(set(found["advertiser"].to_pylist())) == sorted(names[labels == 1])
    none, _ = table(kind, 1_000)
    assert (none.num_rows, none.column_names) == (0, COLUMNS)


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_parts_are_written_while_they_are_made(kind, monkeypatch):
    """A large table does not wait in memory until its end, and is the same."""
    whole, _ = table(kind)
    monkeypatch.setattr(deciding, "_ADVERTISERS_WRITTEN", 16)
    parts = [len(make()) for _, make in curve_parts(served(), kind)]
    assert sum(size > 0 for size in parts) >= len(served().names) // 16
    assert table(kind)[0].equals(whole)
