"""What is known of the model, its segments and its advertisers."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from coterie.ads.protocol.answers import Amount, Count, Curve, Share

__all__ = [
    "Advertiser",
    "AdvertiserItem",
    "AdvertiserPage",
    "Model",
    "Refusal",
    "Segment",
    "Segments",
]


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
    """The c.d.f.s of an advertiser's wins and cost by bid, beside those of its segment."""

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
