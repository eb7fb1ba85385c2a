"""What goes in and comes out, route by route: the models behind the OpenAPI document.

Answers are written without these models, which would cost more than the forecasts; tests hold
the answers against them. Questions are read by :mod:`coterie.ads.service.answering.questions`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from coterie.ads.forecasts.calibration import LEVELS
from coterie.ads.forecasts.forecast_figures import MOST_DAYS
from coterie.ads.protocol import Limits
from coterie.ads.service.answering.questions import LEVEL, MOST_BID, MOST_SUPPLY

__all__ = [
    "AdvertiserDetail",
    "AdvertiserPage",
    "Answer",
    "Health",
    "ManyAnswers",
    "Model",
    "OneAnswer",
    "ProblemDocument",
    "Question",
    "Segments",
    "completed",
    "problem_responses",
]

_LIMITS = Limits()

Share = Annotated[float, Field(ge=0, le=1)]
Amount = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
Interval = Annotated[list[Amount], Field(min_length=2, max_length=2)]
Bid = Annotated[float, Field(gt=0, le=MOST_BID)]
Words = Annotated[str, Field(json_schema_extra={"pattern": r"^[^\u0000]*$"})]
Curve = Literal["pooled", "text", "global"]
Days = Annotated[int, Field(ge=1, le=MOST_DAYS)]


def _offered(level: float) -> float:
    if level not in LEVELS:
        raise ValueError("there are no intervals of this level")
    return level


Level = Annotated[float, AfterValidator(_offered), Field(json_schema_extra={"enum": list(LEVELS)})]


class _Shape(BaseModel):
    """Exactly these members, and no others."""

    model_config = ConfigDict(extra="forbid")


class BidRange(_Shape):
    """Bids from one to another in steps, both ends among them."""

    from_: Annotated[Bid, Field(alias="from")]
    to: Bid
    step: Annotated[float, Field(gt=0)]


class Question(_Shape):
    """Whose forecast, at which bids, in how many auctions, on which days.

    An advertiser that the model does not know is placed by its text, or else by all advertisers;
    its supply must be given.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "anyOf": [{"required": ["advertiser"]}, {"required": ["text"]}],
            "not": {"required": ["supply", "day"]},
        },
    )

    advertiser: Annotated[Words, Field(max_length=_LIMITS.id_chars, description="Its id.")] = ""
    text: Annotated[
        Words,
        Field(max_length=_LIMITS.text_chars, description="Of an advertiser that is not known."),
    ] = ""
    bid: Annotated[
        Bid | Annotated[list[Bid], Field(min_length=1, max_length=_LIMITS.bids)] | BidRange,
        Field(description="Per thousand impressions (CPM): one, several, or a range."),
    ]
    supply: Annotated[
        float,
        Field(
            ge=0,
            le=MOST_SUPPLY,
            description="Auctions of all days together; by default those to expect.",
        ),
    ] = 0
    day: Annotated[
        str,
        Field(
            description="A date, which sets supply and prices; the first if there are several days."
            " By default one average day, or the days after the log.",
            json_schema_extra={"format": "date"},
        ),
    ] = ""
    days: Annotated[Days, Field(description="How many days are forecast together.")] = 1
    level: Annotated[Level, Field(description="Of the intervals.")] = LEVEL


class Forecast(_Shape):
    """What to expect at one bid; money in units of currency."""

    bid: Bid
    win_rate: Share
    cost: Annotated[Amount, Field(description="Of a thousand impressions (eCPM).")]
    impressions: Amount
    impressions_interval: Interval
    spend: Amount
    spend_interval: Interval
    clicks: Annotated[Amount | None, Field(description="Null where the log has none.")]
    clicks_interval: Interval | None
    conversions: Amount | None
    conversions_interval: Interval | None
    remark: Annotated[
        str,
        Field(description="What is to be added to why at this bid; only where something is."),
    ] = ""


class Answer(_Shape):
    """The answer to one question: a forecast for every bid, in the order asked."""

    advertiser: Annotated[str, Field(description="Empty where only a text was given.")]
    known: Annotated[bool, Field(description="Whether the advertiser is in the model.")]
    segment: Annotated[str, Field(description="Of the largest share; empty where there is none.")]
    curve: Curve
    why: Annotated[str, Field(description="What the forecasts rest on.")]
    days: Annotated[Days, Field(description="How many days are forecast together.")]
    level: Annotated[Level, Field(description="Of the intervals.")]
    supply: Annotated[Amount, Field(description="Auctions of all days together.")]
    forecasts: list[Forecast]


class ModelVersion(_Shape):
    """Which model answered."""

    version: str


class OneAnswer(Answer):
    """The answer to a body that is one question."""

    model: ModelVersion
    currency: str


class ManyAnswers(_Shape):
    """The answers to a list of questions, in the order asked."""

    model: ModelVersion
    currency: str
    answers: list[Answer]


class Model(_Shape):
    """What is served."""

    name: str
    version: str
    loaded_at: str
    currency: str
    symbol: str
    auction: Literal["first", "second"]
    first_day: str
    last_day: str
    days: Count
    advertisers: Count
    segments: Count
    rows: Amount
    interval: Annotated[Level, Field(description="The level of intervals if none is asked for.")]
    interval_levels: Annotated[list[Level], Field(description="The levels that are offered.")]
    half_life: Annotated[
        Amount | None, Field(description="Of the weights of days; null if all weigh the same.")
    ]
    warnings: Annotated[list[str], Field(description="What to know before trusting forecasts.")]
    grid: list[Amount]
    has_clicks: bool
    has_texts: bool
    weekdays_seen: Annotated[list[bool], Field(min_length=7, max_length=7)]


class Member(_Shape):
    """An advertiser of a segment."""

    id: str
    confidence: Share


class Segment(_Shape):
    """One segment: its words, its size, its curves over the grid."""

    index: Count
    name: str
    words: list[str]
    price_level: str
    size: Count
    observations: Amount
    median_price: Amount
    win: list[Share]
    win_low: list[Share]
    win_high: list[Share]
    cost: list[Amount]
    members: list[Member]


class Segments(_Shape):
    """All segments, the largest first."""

    grid: list[Amount]
    segments: list[Segment]


class AdvertiserItem(_Shape):
    """An advertiser that was found."""

    id: str
    segment: int | None
    segment_name: str
    confidence: Share
    observations: Amount
    bid: Annotated[Amount, Field(description="The mean of its bids (CPM).")]


class AdvertiserPage(_Shape):
    """A page of the advertisers that were found."""

    items: list[AdvertiserItem]
    page: Annotated[int, Field(ge=1)]
    pages: Annotated[int, Field(ge=1)]
    total: Count


class SegmentShare(_Shape):
    """An advertiser's share in a segment; null is "no segment in particular"."""

    segment: int | None
    name: str
    share: Share


class ViewPlace(_Shape):
    """Where one view would put an advertiser."""

    view: str
    segment: int | None
    segment_name: str
    dissents: bool


class Neighbour(_Shape):
    """An advertiser like another."""

    id: str
    segment: int | None
    segment_name: str
    likeness: Share


class PooledCurves(_Shape):
    """The pooled curve over the grid, and the interval of its win rate."""

    win: list[Share]
    low: list[Share]
    high: list[Share]
    cost: list[Amount]


class PlainCurves(_Shape):
    """A curve over the grid."""

    win: list[Share]
    cost: list[Amount]


class Curves(_Shape):
    """The curves that were pooled, and what came of it."""

    grid: list[Amount]
    pooled: PooledCurves
    own: PlainCurves | None
    segment: PlainCurves


class AdvertiserDetail(AdvertiserItem):
    """All that is known of one advertiser."""

    shares: list[SegmentShare]
    wins: Amount
    spend: Amount
    supply: Amount
    supply_by_weekday: Annotated[list[Amount], Field(min_length=7, max_length=7)]
    click_rate: Share | None
    conversion_rate: Share | None
    outlier: bool
    doubtful: bool
    views: list[ViewPlace]
    neighbours: list[Neighbour]
    curve: Curve
    why: str
    curves: Curves


class HealthModel(_Shape):
    """The model of now."""

    version: str
    advertisers: Count
    loaded_at: str


class HealthRefusal(_Shape):
    """The last model file that was refused."""

    at: str
    reason: str


class Health(_Shape):
    """Whether the service answers; of its model only to whoever may ask."""

    status: Literal["ok"]
    model: HealthModel | None = None
    last_refusal: HealthRefusal | None = None


class Fault(_Shape):
    """What is wrong at one place."""

    at: str
    what: str


class ProblemDocument(_Shape):
    """What is wrong with a request (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: list[Fault] = []


_PROBLEMS = {
    400: "the request is malformed",
    401: "a token is needed, or another one",
    404: "there is nothing of this name",
    405: "the route does not answer to this method",
    408: "the body came too slowly",
    413: "the body is too large",
    415: "the body is not said to be JSON",
    421: "the service does not go by this host's name",
    422: "something asked for makes no sense",
    429: "too many requests of one client are under way",
    500: "a defect of the service",
    503: "the service is busy, or took too long",
}
# what the gate may answer to any request
_ALWAYS = (400, 401, 405, 408, 413, 421, 422, 429, 500, 503)


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the problems a route may answer with: those of every route, and some of its own.

    >>> 404 in problem_responses(404), 404 in problem_responses()
    (True, False)
    """
    schema = {"$ref": "#/components/schemas/ProblemDocument"}
    return {
        status: {
            "description": f"Problem: {_PROBLEMS[status]}",
            "content": {"application/problem+json": {"schema": schema}},
        }
        for status in sorted({*_ALWAYS, *statuses})
    }


def completed(described: dict[str, Any]) -> dict[str, Any]:
    """Return FastAPI's OpenAPI document with what no route names: problems, and the token."""
    components = described.setdefault("components", {})
    problem = ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas = components.setdefault("schemas", {})
    schemas |= problem.pop("$defs") | {"ProblemDocument": problem}
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    # a service that only its own machine can reach may do without
    described["security"] = [{}, {"token": []}]
    return described
