"""Answers, which are open to new members: to questions, of the model, and problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, cast

from msgspec import UNSET, Meta, Struct, UnsetType

from coterie.ads.forecasts.forecast_figures import Forecast
from coterie.ads.protocol.questions import Days, Level

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
                why=self.why + (one.remark or ""),
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
                remark=one.why.removeprefix(why) or UNSET,
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
