"""Questions that ask for a decision: a bid for a goal, a budget, a portfolio, targets."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from coterie.ads.decisions.decision_answers import PortfolioGoal, RankedBy
from coterie.ads.forecasts.calibration import LEVELS
from coterie.ads.protocol.questions import Bid, Days, Level, Limits, Subject, given_members

__all__ = ["BudgetQuestion", "GoalQuestion", "PortfolioQuestion", "TargetsQuestion"]

#: The largest amount that may be asked for.
MOST_AMOUNT = 1e15
_MOST_DIMENSIONS = 16
_LIMITS = Limits()
Amount = Annotated[float, Meta(gt=0, le=MOST_AMOUNT)]
Money = Annotated[
    float,
    Meta(gt=0, le=MOST_AMOUNT, description="In units of currency, for all days together."),
]


class GoalQuestion(Subject):
    """Ask for the bid that reaches a goal: exactly one of four amounts, of all days together."""

    impressions: Amount | UnsetType = UNSET
    clicks: Amount | UnsetType = UNSET
    conversions: Amount | UnsetType = UNSET
    spend: Amount | UnsetType = UNSET

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.goal()) != 1:
            raise ValueError("give one of `impressions`, `clicks`, `conversions` and `spend`")

    def goal(self) -> dict[str, float]:
        """Return the amounts that are given, by name."""
        return given_members(self, ("impressions", "clicks", "conversions", "spend"))


class BudgetQuestion(Subject, kw_only=True):
    """Ask for the bid that uses a budget, or what the budget does at a bid."""

    budget: Money
    bid: (
        Annotated[Bid, Meta(description="By default the one that uses the budget.")] | UnsetType
    ) = UNSET
    days: Days = 7


class TargetsQuestion(Subject, kw_only=True):
    """Ask which values of dimensions are best for an advertiser at a bid."""

    bid: (
        Annotated[Bid, Meta(description="By default the mean of its bids in the log.")] | UnsetType
    ) = UNSET
    dimension: (
        Annotated[
            str | Annotated[list[str], Meta(min_length=1, max_length=_MOST_DIMENSIONS)],
            Meta(description="One or several; by default all, each ranked on its own."),
        ]
        | UnsetType
    ) = UNSET
    by: (
        Annotated[
            RankedBy,
            Meta(description="Numbers rank the largest first, costs the smallest."),
        ]
        | UnsetType
    ) = UNSET


class PortfolioQuestion(
    Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, gc=False
):
    """Ask for the best division of a budget between advertisers of the model.

    Without `advertisers` and `segment`, all of the model take part, if there are up to 1,000.
    """

    budget: (
        Annotated[Money, Meta(description="By default what they spent in the log.")] | UnsetType
    ) = UNSET
    advertisers: (
        Annotated[
            list[Annotated[str, Meta(max_length=_LIMITS.id_chars)]],
            Meta(min_length=1, max_length=_LIMITS.questions, description="Ids."),
        ]
        | UnsetType
    ) = UNSET
    segment: (
        Annotated[
            int | Annotated[str, Meta(max_length=_LIMITS.id_chars)],
            Meta(description="Index or name of a segment; of a name, its beginning is enough."),
        ]
        | UnsetType
    ) = UNSET
    goal: Annotated[
        PortfolioGoal,
        Meta(description="What the advertisers together should get most of."),
    ] = "impressions"
    day: Annotated[date, Meta(description="First day; by default that after the log.")] | (
        UnsetType
    ) = UNSET
    days: Days = 7
    level: Level = 0.9

    def __post_init__(self) -> None:
        if self.advertisers is not UNSET and self.segment is not UNSET:
            raise ValueError("give `advertisers` or a `segment`, and not both")
        if self.level not in LEVELS:
            raise ValueError(f"`level` must be one of {', '.join(map(str, LEVELS))}")

    def details(self) -> dict[str, Any]:
        """Return what is asked, as arguments of :func:`~coterie.ads.split_budget`."""
        return given_members(self, self.__struct_fields__)
