"""Questions and query parameters, which are strict, and the limits of a service.

The members of a question are the arguments of the function that answers it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import date
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from coterie.ads.decisions.decision_answers import GOALS, PortfolioGoal, RankedBy
from coterie.ads.forecasts.calibration import LEVELS
from coterie.ads.forecasts.forecast_figures import (
    MOST_DAYS,
    MOST_SUPPLY,
    SUPPLY_OR_DAY,
    bids_between,
    number_between,
)
from coterie.errors import InvalidParameterError

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
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise InvalidParameterError(f"the limit {field.name} is {value}; it must exceed 0")


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
Amount = Annotated[float, Meta(gt=0, le=MOST_AMOUNT)]
Money = Annotated[Amount, Meta(description="In units of currency, for all days together.")]
SegmentIndex = Annotated[int, Meta(ge=0, le=_MOST_PAGE, description="Index of a segment.")]


def _check_level(level: float) -> None:
    if level not in LEVELS:
        raise ValueError(f"`level` must be one of {', '.join(map(str, LEVELS))}")


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


class GoalQuestion(PartSubject):
    """Ask for the bid that reaches a goal: exactly one of four amounts, of all days together."""

    impressions: Amount | UnsetType = UNSET
    clicks: Amount | UnsetType = UNSET
    conversions: Amount | UnsetType = UNSET
    spend: Amount | UnsetType = UNSET

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
