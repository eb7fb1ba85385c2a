"""Questions and answers of the forecast service: one schema for program, client and service.

The OpenAPI document is made from these types. Questions are strict: an unknown member or a value of
another type is refused. Answers are open: a reader ignores members that it does not know, so a
later version can add some. A further kind of question extends :class:`Subject`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import date
from typing import Annotated, Any, Literal, cast

from msgspec import UNSET, Meta, Struct, UnsetType

from coterie.ads.forecasts.calibration import LEVELS
from coterie.ads.forecasts.forecast_figures import (
    MOST_DAYS,
    SUPPLY_OR_DAY,
    Forecast,
    bids_between,
    number_between,
)
from coterie.errors import InvalidParameterError

__all__ = [
    "Advertiser",
    "AdvertiserItem",
    "AdvertiserPage",
    "AdvertiserQuery",
    "Answer",
    "Answers",
    "BidRange",
    "CurveQuery",
    "Fault",
    "Figures",
    "Health",
    "Limits",
    "Model",
    "ModelVersion",
    "NoQuery",
    "ProblemDocument",
    "Question",
    "Refusal",
    "Segment",
    "Segments",
    "Subject",
    "answer_of",
]

#: The highest bid that may be asked about, in units of currency per thousand impressions.
MOST_BID = 1e9
#: The largest supply that may be asked about, in auctions: no figure overflows up to here.
MOST_SUPPLY = 1e15
_MOST_PAGE = 1_000_000_000


@dataclass(frozen=True)
class Limits:
    """Limits of a service; each is above 0.

    Work is counted in bids times days. ``text_work`` is what placing one unknown advertiser by its
    text counts for.
    """

    body_bytes: int = 1_048_576  # of one request's body; of one line of a stream
    questions: int = 1_000  # in one request
    bids: int = 10_000  # of all questions of one request
    texts: int = 100  # of unknown advertisers in one request
    text_chars: int = 10_000  # of one text
    all_text_chars: int = 200_000  # of all texts of one request
    id_chars: int = 1_024
    text_work: int = 500
    small_work: int = 16  # requests up to this are answered at once
    slice_work: int = 250  # after so much work another client has its turn
    queued_work_per_client: int = 400_000
    queued_work: int = 4_000_000
    request_seconds: float = 10.0  # until the answer begins
    body_seconds: float = 20.0  # until the body has arrived
    keep_alive_seconds: int = 75
    grace_seconds: int = 20  # for running requests at the end

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise InvalidParameterError(f"the limit {field.name} is {value}; it must exceed 0")


_LIMITS = Limits()

Share = Annotated[float, Meta(ge=0, le=1)]
Amount = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0)]
Interval = Annotated[tuple[float, float], Meta(description="Lower and upper end.")]
Bid = Annotated[float, Meta(gt=0, le=MOST_BID)]
Curve = Literal["pooled", "text", "global"]
Days = Annotated[int, Meta(ge=1, le=MOST_DAYS, description="Number of days together.")]
Level = Annotated[
    float,
    # not an enumeration: generators of clients know those of texts only
    Meta(
        description=f"Level of the intervals: {', '.join(map(str, LEVELS))}.",
        extra_json_schema={"minimum": LEVELS[0], "maximum": LEVELS[-1]},
    ),
]


class BidRange(Struct, forbid_unknown_fields=True, rename={"from_": "from"}):
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


class Subject(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Whom a question is about, in how many auctions and on which days.

    `advertiser` or `text` is required. An advertiser that the model does not know is placed by its
    text, or else by all advertisers, and needs `supply`. `supply` and `day` exclude each other.
    """

    advertiser: (
        Annotated[str, Meta(max_length=_LIMITS.id_chars, description="Id of the advertiser.")]
        | UnsetType
    ) = UNSET
    text: (
        Annotated[
            str,
            Meta(max_length=_LIMITS.text_chars, description="Text of an unknown advertiser."),
        ]
        | UnsetType
    ) = UNSET
    supply: (
        Annotated[
            float,
            Meta(
                ge=0,
                le=MOST_SUPPLY,
                description="Auctions of all days together; by default the number to expect.",
            ),
        ]
        | UnsetType
    ) = UNSET
    day: (
        Annotated[
            date,
            Meta(
                description="First day, which sets supply and prices. By default an average day, "
                "or the days after the log."
            ),
        ]
        | UnsetType
    ) = UNSET
    days: Days = 1
    level: Level = 0.9

    def __post_init__(self) -> None:
        if self.advertiser is UNSET and self.text is UNSET:
            raise ValueError("name an `advertiser`, or give the `text` of a new one")
        if self.supply is not UNSET and self.day is not UNSET:
            raise ValueError(SUPPLY_OR_DAY)
        if self.level not in LEVELS:
            raise ValueError(f"`level` must be one of {', '.join(map(str, LEVELS))}")

    @property
    def period(self) -> tuple[date | None, int]:
        """The first day, or None, and the number of days."""
        return (None if self.day is UNSET else self.day), self.days


class Question(Subject):
    """Ask what an advertiser wins and pays at one bid or at several.

    >>> import msgspec
    >>> asked = msgspec.json.decode(b'{"advertiser": "a", "bid": [1, 2]}', type=Question)
    >>> asked.bids(), asked.days
    ([1.0, 2.0], 1)
    """

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


class ModelVersion(Struct):
    """The model that answered; equal versions give equal answers."""

    version: str


class Answer(Struct):
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
        return [_forecast(self, one) for one in self.forecasts]


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
        [_figures(one, one.why.removeprefix(why)) for one in found],
    )


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


class Advertiser(AdvertiserItem):
    """What is known of one advertiser."""

    shares: list[SegmentShare]
    wins: Amount
    spend: Amount
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


class NoQuery(Struct, forbid_unknown_fields=True):
    """A route without query parameters."""


class AdvertiserQuery(Struct, forbid_unknown_fields=True):
    """Which advertisers to list."""

    search: Annotated[str, Meta(max_length=1024, description="Part of the id, any case.")] = ""
    segment: (
        Annotated[int, Meta(ge=0, le=_MOST_PAGE, description="Index of a segment.")] | UnsetType
    ) = UNSET
    page: Annotated[int, Meta(ge=1, le=_MOST_PAGE)] = 1
    page_size: Annotated[int, Meta(ge=1, le=100)] = 20


class CurveQuery(Struct, forbid_unknown_fields=True):
    """Which curves to write, and how."""

    format: Annotated[
        Literal["arrow", "parquet"], Meta(description="Arrow IPC stream, or a Parquet file.")
    ] = "arrow"
    segment: (
        Annotated[int, Meta(ge=0, le=_MOST_PAGE, description="Index of a segment.")] | UnsetType
    ) = UNSET


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


def _forecast(answer: Answer, one: Figures) -> Forecast:
    return Forecast(
        advertiser=answer.advertiser,
        bid=one.bid,
        supply=answer.supply,
        win_rate=one.win_rate,
        cost=one.cost,
        impressions=one.impressions,
        impressions_interval=one.impressions_interval,
        spend=one.spend,
        spend_interval=one.spend_interval,
        clicks=one.clicks,
        clicks_interval=one.clicks_interval,
        conversions=one.conversions,
        conversions_interval=one.conversions_interval,
        level=answer.level,
        segment=answer.segment,
        curve=answer.curve,
        why=answer.why + (one.remark or ""),
        currency=answer.currency,
        model_version=answer.model.version,
    )


def _figures(one: Forecast, remark: str) -> Figures:
    named: dict[str, Any] = {
        name: getattr(one, name) for name in Figures.__struct_fields__ if name != "remark"
    }
    return Figures(**named, remark=remark or UNSET)
