"""Questions and answers of the forecast service: one schema for program, client and service.

:data:`OPERATIONS` is all that a service can be asked. Its routes, its OpenAPI document and the
methods of the client are made from this table and from the types.

Questions are strict: an unknown member or a value of another type is refused. Answers are open: a
reader ignores members that it does not know, so a later version can add some. A further question
about an advertiser extends :class:`Subject`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from coterie.ads.decisions.decision_answers import BudgetPlan, BudgetSplit, GoalBid, TargetRanking
from coterie.ads.protocol.answers import Advertiser as Advertiser
from coterie.ads.protocol.answers import AdvertiserItem as AdvertiserItem
from coterie.ads.protocol.answers import AdvertiserPage as AdvertiserPage
from coterie.ads.protocol.answers import Answer as Answer
from coterie.ads.protocol.answers import Answers as Answers
from coterie.ads.protocol.answers import Fault as Fault
from coterie.ads.protocol.answers import Figures as Figures
from coterie.ads.protocol.answers import Health as Health
from coterie.ads.protocol.answers import Model as Model
from coterie.ads.protocol.answers import ModelVersion as ModelVersion
from coterie.ads.protocol.answers import ProblemDocument as ProblemDocument
from coterie.ads.protocol.answers import Refusal as Refusal
from coterie.ads.protocol.answers import Segment as Segment
from coterie.ads.protocol.answers import Segments as Segments
from coterie.ads.protocol.answers import answer_of as answer_of
from coterie.ads.protocol.faults import fault_of as fault_of
from coterie.ads.protocol.faults import printable as printable
from coterie.ads.protocol.questions import AdvertiserQuery as AdvertiserQuery
from coterie.ads.protocol.questions import BidRange as BidRange
from coterie.ads.protocol.questions import BudgetQuestion as BudgetQuestion
from coterie.ads.protocol.questions import CurveQuery as CurveQuery
from coterie.ads.protocol.questions import GoalQuestion as GoalQuestion
from coterie.ads.protocol.questions import Limits as Limits
from coterie.ads.protocol.questions import NoQuery as NoQuery
from coterie.ads.protocol.questions import PortfolioQuestion as PortfolioQuestion
from coterie.ads.protocol.questions import Question as Question
from coterie.ads.protocol.questions import Questions as Questions
from coterie.ads.protocol.questions import Subject as Subject
from coterie.ads.protocol.questions import TargetsQuestion as TargetsQuestion
from coterie.ads.protocol.questions import given_members as given_members

JSON = "application/json"
#: Media types of the table of curves by the name of the format.
CURVE_MEDIA = {
    "arrow": "application/vnd.apache.arrow.stream",
    "parquet": "application/vnd.apache.parquet",
}
#: What operations are about, in the order of the OpenAPI document.
TAGS = {
    "Forecasts": "What an advertiser wins, and what it pays, at any bid.",
    "Decisions": "Bids for goals, budgets, targets and portfolios.",
    "Model": "What is known of advertisers and segments.",
    "Operation": "For operators.",
}


@dataclass(frozen=True)
class Operation:
    """What can be asked at one path."""

    path: str
    tag: str
    summary: str
    description: str = ""
    question: Any = None  # the type of the body, which is sent by POST; None is a GET
    examples: Mapping[str, Any] = field(default_factory=dict)  # of questions
    query: type[Struct] | None = NoQuery  # None: any query is ignored
    answers: Sequence[Any] = ()  # the types of the JSON
    media: Sequence[str] = (JSON,)
    problems: Sequence[str] = ()  # besides those of all operations
    needs_token: bool = True
    tagged: bool = False  # whether answers have an ETag

    @property
    def method(self) -> str:
        return "GET" if self.question is None else "POST"


_ASKED = {"advertiser": "adv-00033", "bid": 2.5, "supply": 1_000_000}

#: By their names, which generated clients have for their functions.
OPERATIONS: dict[str, Operation] = {
    "forecast": Operation(
        "/v1/forecast",
        "Forecasts",
        "Forecast impressions, spend, clicks and conversions at bids.",
        "The body is one question, or a list of up to 1,000. A fault in any question refuses the "
        "whole list.",
        question=Question | Questions,
        examples={
            "one question": _ASKED,
            "several questions": [
                {"advertiser": "adv-00033", "bid": {"from": 2, "to": 3, "step": 0.25}},
                {"text": "flights and hotels", "bid": [1.5, 2.5], "supply": 10_000, "days": 7},
            ],
        },
        answers=(Answer, Answers),
    ),
    "curves": Operation(
        "/v1/curves",
        "Forecasts",
        "Return the curves of all advertisers as one table, for bulk use.",
        "Columns: advertiser, segment, bid (CPM), win_rate, win_rate_low, win_rate_high, cost "
        "(eCPM), marginal_cost, own_win_rate, segment_win_rate; the metadata of each says what it "
        "is. The metadata of the schema has the version of the model and the currency.",
        query=CurveQuery,
        media=tuple(CURVE_MEDIA.values()),
    ),
    "bid": Operation(
        "/v1/bids",
        "Decisions",
        "Find the bid for a number of impressions, clicks or conversions, or for a spend.",
        question=GoalQuestion,
        examples={
            "impressions": {"advertiser": "adv-00033", "impressions": 1_000, "days": 7},
            "spend": {"advertiser": "adv-00033", "spend": 5},
        },
        answers=(GoalBid,),
    ),
    "budget": Operation(
        "/v1/budgets",
        "Decisions",
        "Find the bid that uses a budget, what it buys, and when it runs out, by day.",
        question=BudgetQuestion,
        examples={"a week": {"advertiser": "adv-00033", "budget": 20, "days": 7}},
        answers=(BudgetPlan,),
    ),
    "targets": Operation(
        "/v1/targets",
        "Decisions",
        "Rank devices, countries and other values of dimensions for an advertiser at a bid.",
        question=TargetsQuestion,
        examples={"devices": {"advertiser": "adv-00033", "dimension": "device", "by": "clicks"}},
        answers=(TargetRanking,),
    ),
    "portfolio": Operation(
        "/v1/portfolios",
        "Decisions",
        "Divide a budget between advertisers by marginal cost.",
        question=PortfolioQuestion,
        examples={
            "two advertisers": {"advertisers": ["adv-00001", "adv-00033"], "budget": 50},
            "a segment": {"segment": 0, "goal": "clicks"},
        },
        answers=(BudgetSplit,),
    ),
    "model": Operation(
        "/v1/model",
        "Model",
        "Describe the served model: days, currency, grid of bids, warnings.",
        answers=(Model,),
    ),
    "segments": Operation(
        "/v1/segments",
        "Model",
        "Return all segments with their words, sizes and curves.",
        answers=(Segments,),
        tagged=True,
    ),
    "advertisers": Operation(
        "/v1/advertisers",
        "Model",
        "List advertisers whose id contains a text, in any case.",
        "Ids that begin with the text come first, then by spend.",
        query=AdvertiserQuery,
        answers=(AdvertiserPage,),
        tagged=True,
    ),
    "advertiser": Operation(
        "/v1/advertisers/{id}",
        "Model",
        "Return what is known of one advertiser. Percent-encode the id, also its slashes.",
        answers=(Advertiser,),
        problems=("unknown-advertiser",),
        tagged=True,
    ),
    "live": Operation(
        "/health/live",
        "Operation",
        "Report that the process answers.",
        answers=(Health,),
        needs_token=False,
        query=None,
    ),
    "ready": Operation(
        "/health/ready",
        "Operation",
        "Report whether new requests are welcome: not while the service stops.",
        answers=(Health,),
        problems=("not-ready",),
        needs_token=False,
        query=None,
    ),
    "metrics": Operation(
        "/metrics",
        "Operation",
        "Return metrics in the text format of Prometheus.",
        media=("text/plain",),
        query=None,
    ),
}
