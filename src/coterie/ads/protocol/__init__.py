"""Questions and answers of the forecast service: one schema for program, client and service.

:data:`OPERATIONS` is all that a service can be asked. Its routes, its OpenAPI document and the
methods of the client are made from this table and from the types.

Questions are strict: an unknown member or a value of another type is refused. Answers are open: a
reader ignores members that it does not know, so a later version can add some. A further question
about an advertiser extends :class:`Subject`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, Literal, cast

from msgspec import UNSET, Meta, Struct, UnsetType

from coterie.ads.decisions.decision_answers import (
    GOALS,
    BudgetPlan,
    BudgetSplit,
    GoalBid,
    PortfolioGoal,
    RankedBy,
    TargetRanking,
)
from coterie.ads.forecasts.calibration import LEVELS
from coterie.ads.forecasts.forecast_figures import (
    MOST_DAYS,
    MOST_SUPPLY,
    SUPPLY_OR_DAY,
    Forecast,
    bids_between,
    number_between,
)
from coterie.errors import InvalidParameterError

# ---- Questions: their members are the arguments of the function that answers them

#: The highest bid that may be asked about, in units of currency per thousand impressions.
MOST_BID = 1e9
_MOST_PAGE = 1_000_000_000
_MOST_DIMENSIONS = 16


@dataclass(frozen=True)
class Limits:
    """Limits of a service; each is above 0.

    Work is counted in bids times days. ``text_work`` is what placing one unknown advertiser by its
    text, or the values of dimensions of one question, count for.
    """

    body_bytes: int = 1_048_576  # of one request's body
    commas: int = 50_000  # in one request's body, also in texts: they bound the work of reading it
    questions: int = 1_000  # in one request
    bids: int = 10_000  # of all questions of one request
    texts: int = 100  # of unknown advertisers in one request
    text_chars: int = 10_000  # of one text
    all_text_chars: int = 200_000  # of all texts of one request
    id_chars: int = 1_024
    text_work: int = 500
    small_work: int = 16  # requests up to this are answered immediately
    slice_work: int = 500  # after so much work another client has its turn
    queued_work_per_client: int = 400_000
    queued_work: int = 4_000_000
    request_seconds: float = 10.0  # until the answer begins
    body_seconds: float = 20.0  # until the body has arrived
    keep_alive_seconds: int = 75
    write_seconds: float = 20.0  # after which a client must have read more of its answer
    unread_bytes: int = 134_217_728  # of all answers that clients are slow to read
    grace_seconds: int = 20  # for running requests at the end

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise InvalidParameterError(f"the limit {name} is {value}; it must exceed 0")


_LIMITS = Limits()
Bid = Annotated[float, Meta(gt=0, le=MOST_BID)]
Id = Annotated[str, Meta(max_length=_LIMITS.id_chars)]
Text = Annotated[str, Meta(max_length=_LIMITS.text_chars)]
Supply = Annotated[
    float,
    Meta(
        ge=0,
        le=MOST_SUPPLY,
        description="Auctions of all days together; by default the number to expect.",
    ),
]
_FIRST_DAY = (
    "First day, which sets supply and prices. By default an average day, or the days after the log."
)
Days = Annotated[int, Meta(ge=1, le=MOST_DAYS, description="Number of days together.")]
Level = Annotated[
    float,
    # not an enumeration: generators of clients know those of texts only
    Meta(
        description=f"Level of the intervals: {', '.join(map(str, LEVELS))}.",
        extra_json_schema={"minimum": LEVELS[0], "maximum": LEVELS[-1]},
    ),
]
Where = Annotated[
    dict[str, Id],
    Meta(
        min_length=1,
        max_length=_MOST_DIMENSIONS,
        description="Values of dimensions, such as device: phone, for auctions with these values "
        "alone; supply is that of all auctions.",
    ),
]
#: The largest amount that may be asked for.
MOST_AMOUNT = 1e15
AskedAmount = Annotated[float, Meta(gt=0, le=MOST_AMOUNT)]
Money = Annotated[AskedAmount, Meta(description="In units of currency, for all days together.")]
SegmentIndex = Annotated[int, Meta(ge=0, le=_MOST_PAGE, description="Index of a segment.")]


def _check_level(level: float) -> None:
    if level not in LEVELS:
        raise ValueError(f"`level` must be one of {', '.join(map(str, LEVELS))}, not {level:g}")


def given_members(question: Struct, names: Iterable[str] = ()) -> dict[str, Any]:
    """Return the members of a question that were given, all or some of them."""
    values = {name: getattr(question, name) for name in names or question.__struct_fields__}
    return {name: value for name, value in values.items() if value is not UNSET}


class BidRange(Struct, forbid_unknown_fields=True, rename={"from_": "from"}, gc=False):
    """Bids from one to another in equal steps; both ends are included."""

    from_: Bid
    to: Bid
    step: Annotated[float, Meta(gt=0)]

    def __post_init__(self) -> None:
        if self.from_ > self.to:
            raise ValueError("`to` must not be below `from`")
        if not self.n_bids:
            raise ValueError(f"`step` is too small: ask for at most {_LIMITS.bids:,} bids")

    @property
    def n_bids(self) -> int:
        """The number of bids; 0 if there are too many."""
        return number_between(self.from_, self.to, min(self.step, 2 * MOST_BID), _LIMITS.bids)

    def bids(self) -> list[float]:
        """Return the bids of the range."""
        return bids_between(self.from_, self.to, min(self.step, 2 * MOST_BID), _LIMITS.bids)


class Subject(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, gc=False):
    """The advertiser of a question, its number of auctions and its days.

    `advertiser` or `text` is required. An advertiser that the model does not know is placed by its
    text, or else by all advertisers, and needs `supply`. `supply` and `day` exclude each other.
    """

    advertiser: Annotated[Id, Meta(description="Id of the advertiser.")] | UnsetType = UNSET
    text: Annotated[Text, Meta(description="Text of an unknown advertiser.")] | UnsetType = UNSET
    supply: Supply | UnsetType = UNSET
    day: Annotated[date, Meta(description=_FIRST_DAY)] | UnsetType = UNSET
    days: Days = 1
    level: Level = 0.9

    def __post_init__(self) -> None:
        if self.advertiser is UNSET and self.text is UNSET:
            raise ValueError("name an `advertiser`, or give the `text` of a new one")
        if self.supply is not UNSET and self.day is not UNSET:
            raise ValueError(SUPPLY_OR_DAY)
        _check_level(self.level)

    @property
    def period(self) -> tuple[date | None, int]:
        """The first day, or None, and the number of days."""
        return (None if self.day is UNSET else self.day), self.days


class PartSubject(Subject, kw_only=True):
    """A subject of which only a part of the auctions may be asked about."""

    where: Where | UnsetType = UNSET


class Question(PartSubject):
    """Ask what an advertiser wins and pays at one bid or at several."""

    bid: Annotated[
        Bid | Annotated[list[Bid], Meta(min_length=1, max_length=_LIMITS.bids)] | BidRange,
        Meta(
            description="Per thousand impressions (CPM): a number, a list, or a range.",
            examples=[2.5, [2.0, 2.5], {"from": 1, "to": 5, "step": 0.5}],
        ),
    ]

    def bids(self) -> list[float]:
        """Return the bids, at least one."""
        if isinstance(self.bid, float):
            return [self.bid]
        return self.bid.bids() if isinstance(self.bid, BidRange) else self.bid

    @property
    def n_bids(self) -> int:
        """The number of bids."""
        if isinstance(self.bid, float):
            return 1
        return self.bid.n_bids if isinstance(self.bid, BidRange) else len(self.bid)

    @property
    def gives_list(self) -> bool:
        """Whether several bids were asked for, as a list or a range."""
        return not isinstance(self.bid, float)


Questions = Annotated[list[Question], Meta(min_length=1, max_length=_LIMITS.questions)]


class GoalQuestion(PartSubject):
    """Ask for the bid that reaches a goal: exactly one of four amounts, of all days together."""

    impressions: AskedAmount | UnsetType = UNSET
    clicks: AskedAmount | UnsetType = UNSET
    conversions: AskedAmount | UnsetType = UNSET
    spend: AskedAmount | UnsetType = UNSET

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(given_members(self, GOALS)) != 1:
            raise ValueError("give one of `impressions`, `clicks`, `conversions` and `spend`")


class BudgetQuestion(Subject, kw_only=True):
    """Ask for the bid that uses a budget, or what the budget does at a bid."""

    budget: Money
    bid: Annotated[Bid, Meta(description="By default the one that uses the budget.")] | (
        UnsetType
    ) = UNSET
    days: Days = 7


class TargetsQuestion(Subject, kw_only=True):
    """Ask which values of dimensions are best for an advertiser at a bid."""

    bid: Annotated[Bid, Meta(description="By default the mean of its bids in the log.")] | (
        UnsetType
    ) = UNSET
    dimension: (
        Annotated[
            str | Annotated[list[str], Meta(min_length=1, max_length=_MOST_DIMENSIONS)],
            Meta(description="One or several; by default all, each ranked on its own."),
        ]
        | UnsetType
    ) = UNSET
    by: (
        Annotated[RankedBy, Meta(description="Numbers rank the largest first, costs the smallest.")]
        | UnsetType
    ) = UNSET


class PortfolioQuestion(
    Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, gc=False
):
    """Ask for the best division of a budget between advertisers of the model.

    Without `advertisers` and `segment`, all of the model take part, if there are up to 1,000.
    """

    budget: Annotated[Money, Meta(description="By default what they spent in the log.")] | (
        UnsetType
    ) = UNSET
    advertisers: (
        Annotated[list[Id], Meta(min_length=1, max_length=_LIMITS.questions, description="Ids.")]
        | UnsetType
    ) = UNSET
    segment: (
        Annotated[
            int | Id,
            Meta(description="Index or name of a segment; of a name, its beginning is enough."),
        ]
        | UnsetType
    ) = UNSET
    goal: Annotated[
        PortfolioGoal, Meta(description="What the advertisers together should get most of.")
    ] = "impressions"
    day: Annotated[date, Meta(description="First day; by default that after the log.")] | (
        UnsetType
    ) = UNSET
    days: Days = 7
    level: Level = 0.9

    def __post_init__(self) -> None:
        if self.advertisers is not UNSET and self.segment is not UNSET:
            raise ValueError("give `advertisers` or a `segment`, and not both")
        _check_level(self.level)


#: Orders of a list of advertisers; "" is by how well the id fits the search, then by spend.
AdvertiserSort = Literal[
    "", "id", "segment", "confidence", "observations", "bid", "spend",
    "-id", "-segment", "-confidence", "-observations", "-bid", "-spend",
]  # fmt: skip


class NoQuery(Struct, forbid_unknown_fields=True):
    """A route without query parameters."""


class AdvertiserQuery(Struct, forbid_unknown_fields=True):
    """Which advertisers to list."""

    search: Annotated[str, Meta(max_length=1024, description="Part of the id, any case.")] = ""
    segment: SegmentIndex | UnsetType = UNSET
    sort: Annotated[
        AdvertiserSort,
        Meta(description="Column to sort by, the largest first with a minus sign."),
    ] = ""
    page: Annotated[int, Meta(ge=1, le=_MOST_PAGE)] = 1
    page_size: Annotated[int, Meta(ge=1, le=100)] = 20


class CurveQuery(Struct, forbid_unknown_fields=True):
    """Which curves to write, and how."""

    format: Annotated[
        Literal["arrow", "parquet"], Meta(description="Arrow IPC stream, or a Parquet file.")
    ] = "arrow"
    segment: SegmentIndex | UnsetType = UNSET


# ---- Answers

Share = Annotated[float, Meta(ge=0, le=1)]
Amount = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0)]
Interval = Annotated[tuple[float, float], Meta(description="Lower and upper end.")]
Curve = Literal["pooled", "text", "global"]


class Figures(Struct, omit_defaults=True, gc=False):
    """What to expect at one bid; money in units of currency.

    Clicks and conversions are null if the log has none. `remark` adds to `why` of the answer.
    """

    bid: Annotated[float, Meta(gt=0, description="Per thousand impressions (CPM).")]
    win_rate: Annotated[float, Meta(ge=0, le=1, description="Share of auctions won.")]
    cost: Annotated[float, Meta(ge=0, description="Of a thousand impressions (eCPM).")]
    impressions: Amount
    impressions_interval: Interval
    spend: Amount
    spend_interval: Interval
    clicks: Amount | None
    clicks_interval: Interval | None
    conversions: Amount | None
    conversions_interval: Interval | None
    remark: str | UnsetType = UNSET


class ModelVersion(Struct, gc=False):
    """The model that answered; equal versions give equal answers."""

    version: str


class Answer(Struct, gc=False):
    """The answer to one question: a forecast for each bid, in the order asked."""

    model: ModelVersion
    currency: Annotated[str, Meta(description="Of all amounts; empty if the log has none.")]
    advertiser: Annotated[str, Meta(description="Empty if only a text was given.")]
    known: Annotated[bool, Meta(description="Whether the advertiser is in the model.")]
    segment: Annotated[str, Meta(description="That with the largest share; may be empty.")]
    curve: Curve
    why: Annotated[str, Meta(description="What the forecasts are based on.")]
    days: Days
    level: Level
    supply: Annotated[float, Meta(ge=0, description="Auctions of all days together.")]
    forecasts: list[Figures]

    def each(self) -> list[Forecast]:
        """Return a forecast for each bid, as Python's forecasters return it."""
        shared = {name: getattr(self, name) for name in _SHARED}
        return [
            Forecast(
                **shared,
                **{name: getattr(one, name) for name in _FIGURES},
                why="; ".join([self.why, *([one.remark] if one.remark else [])]),
                model_version=self.model.version,
            )
            for one in self.forecasts
        ]


#: The members of a forecast that are those of each bid, and of all of them.
_FIGURES = tuple(name for name in Figures.__struct_fields__ if name != "remark")
_SHARED = ("advertiser", "currency", "segment", "curve", "level", "supply")


class Answers(Struct):
    """The answers to a list of questions, in the order asked."""

    model: ModelVersion
    currency: str
    answers: list[Answer]


def answer_of(found: Sequence[Forecast], *, known: bool, days: int, version: str = "") -> Answer:
    """Return forecasts of one advertiser as the answer of a service.

    The shortest ``why`` is that of the answer. Where another says more, this is its remark.
    """
    first = found[0]
    why = min((one.why for one in found), key=len)
    return Answer(
        ModelVersion(version),
        first.currency,
        first.advertiser,
        known,
        first.segment,
        cast("Curve", first.curve),
        why,
        days,
        first.level,
        first.supply,
        [
            Figures(
                **{name: getattr(one, name) for name in _FIGURES},
                remark=one.why.removeprefix(why).removeprefix("; ") or UNSET,
            )
            for one in found
        ],
    )


class Health(Struct):
    """The state of the service."""

    status: Literal["live", "ready"]


class Fault(Struct):
    """What is wrong at one place of a request, for example `[3].bid`."""

    at: str
    what: str


class ProblemDocument(Struct, omit_defaults=True):
    """Why a request was not answered (RFC 9457). `type` names the kind of problem."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str = ""
    errors: list[Fault] | UnsetType = UNSET


class Refusal(Struct):
    """A model file that was not taken."""

    at: str
    reason: str


class Model(Struct):
    """The model that is served."""

    name: str
    version: str
    loaded_at: str
    last_refusal: Annotated[
        Refusal | None, Meta(description="The last file refused since the model was loaded.")
    ]
    currency: str
    symbol: str
    auction: Literal["first", "second"]
    first_day: str
    last_day: str
    days: Count
    advertisers: Count
    segments: Count
    rows: Amount
    interval: Annotated[float, Meta(description="Level of intervals if none is asked for.")]
    interval_levels: Annotated[list[float], Meta(description="The levels that are offered.")]
    half_life: Annotated[
        Amount | None, Meta(description="Of the weights of days; null if all weigh the same.")
    ]
    warnings: Annotated[list[str], Meta(description="What to know before trusting forecasts.")]
    grid: Annotated[list[Amount], Meta(description="Bids of all curves (CPM).")]
    has_clicks: bool
    has_texts: bool
    weekdays_seen: Annotated[
        list[bool], Meta(min_length=7, max_length=7, description="From Monday.")
    ]


class Member(Struct):
    """An advertiser of a segment."""

    id: str
    confidence: Share


class Segment(Struct):
    """A segment: its words, its size, its curves over the grid."""

    index: Count
    name: str
    words: list[str]
    price_level: str
    size: Count
    observations: Amount
    median_price: Amount
    themes: list[str]
    purity: Share | None
    mixture: str
    win: list[Share]
    win_low: list[Share]
    win_high: list[Share]
    cost: list[Amount]
    members: list[Member]


class Segments(Struct):
    """All segments, the largest first."""

    grid: list[Amount]
    segments: list[Segment]


class AdvertiserItem(Struct):
    """An advertiser that was found."""

    id: str
    segment: int | None
    segment_name: str
    confidence: Share
    observations: Amount
    bid: Annotated[float, Meta(ge=0, description="Mean of its bids (CPM).")]
    spend: Annotated[float, Meta(ge=0, description="In all days of the log.")]


class AdvertiserPage(Struct):
    """A page of the advertisers that were found."""

    items: list[AdvertiserItem]
    page: Annotated[int, Meta(ge=1)]
    pages: Annotated[int, Meta(ge=1)]
    total: Count


class SegmentShare(Struct):
    """The share of an advertiser in a segment; null is "no segment in particular"."""

    segment: int | None
    name: str
    share: Share


class ViewPlace(Struct):
    """Where one view would put an advertiser."""

    view: str
    segment: int | None
    segment_name: str
    dissents: bool


class Neighbour(Struct):
    """A similar advertiser."""

    id: str
    segment: int | None
    segment_name: str
    likeness: Share


class PlainCurves(Struct):
    """A curve over the grid."""

    win: list[Share]
    cost: list[Amount]


class PooledCurves(PlainCurves):
    """The pooled curve over the grid, and the interval of its win rate."""

    low: list[Share]
    high: list[Share]


class Curves(Struct):
    """The curves of an advertiser over the grid."""

    grid: list[Amount]
    pooled: PooledCurves
    own: PlainCurves | None
    segment: PlainCurves


class BidShare(Struct):
    """The share of wins, or of their cost, with a bid of at most each of the grid."""

    own: list[Share]
    segment: list[Share]
    distance: Annotated[float, Meta(ge=0, le=1, description="Kolmogorov–Smirnov, over all bids.")]
    bid: Annotated[float, Meta(ge=0, description="Where the two are so far apart (CPM).")]


class BidShares(Struct):
    """The c.d.f.s of an advertiser's wins and cost by bid, next to those of its segment."""

    wins: BidShare
    cost: BidShare


class Advertiser(AdvertiserItem):
    """What is known of one advertiser."""

    shares: list[SegmentShare]
    wins: Amount
    supply: Amount
    supply_by_weekday: Annotated[
        list[Amount], Meta(min_length=7, max_length=7, description="From Monday.")
    ]
    click_rate: Share | None
    conversion_rate: Share | None
    outlier: bool
    doubtful: bool
    views: list[ViewPlace]
    neighbours: list[Neighbour]
    curve: Curve
    why: str
    curves: Curves
    bid_shares: Annotated[
        BidShares | None,
        Meta(description="Null for one without wins, or if the model does not keep its days."),
    ]


# ---- Operations

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
