"""Comparison results: what changed between two periods, for whom, and whether it may be noise."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

__all__ = ["AdvertiserChange", "Change", "GroupChange", "ImpressionParts", "ModelComparison"]


@dataclass(frozen=True)
class Change:
    """Change of one quantity.

    Attributes
    ----------
    before, after : float or None
        In units of the quantity; None for a price level and for groups, which have changes only.
    change : float or None
        Relative: 0.1 is 10% more. None if ``before`` is 0.
    error : float
        Standard error of the logarithm of the ratio: chance, and variation from day to day.
    p : float
        Two-sided p-value: how likely a change this large would be if nothing had changed.
    changed : bool
        Whether it is a discovery at the false discovery rate of the comparison.
    """

    before: float | None
    after: float | None
    change: float | None
    error: float
    p: float
    changed: bool


@dataclass(frozen=True)
class ImpressionParts:
    """Why impressions per day changed: parts that add up to ``after − before``.

    Attributes
    ----------
    before, after : float
        Impressions per day.
    market_supply, own_supply : float
        More or fewer auctions: by the market's common factor, and by the advertiser's own.
    market_price, own_price : float
        Lower or higher prices, in the same way.
    own_bid : float
        Other bids.
    unexplained : float
        Chance, and changes of the shape of a curve.
    new, vanished : float
        Of groups: advertisers that bid only after, or only before.
    """

    before: float
    after: float
    market_supply: float
    own_supply: float
    market_price: float
    own_price: float
    own_bid: float
    unexplained: float
    new: float = 0.0
    vanished: float = 0.0


@dataclass(frozen=True)
class AdvertiserChange:
    """Changes of one advertiser that bid in both periods; money in currency units.

    A quantity is None where it is not known in both periods, for example the eCPM without wins.

    Attributes
    ----------
    advertiser : str
    segment, segment_before : str or None
        Names of its segments in the later and the earlier model.
    moved : bool
        Whether its segment is not the one that corresponds to its former one.
    impressions, supply : Change
        Impressions and auctions per day.
    own_supply : Change
        Auctions per day, relative to those of the market.
    win_rate : Change
        Share of auctions won.
    win_rate_at_bid : Change or None
        Share of auctions won at a fixed bid, the mean bid of both periods.
    price_level : Change
        Prices of its market.
    own_price_level : Change
        Prices of its market, relative to those of all advertisers.
    mean_bid, ecpm, click_rate : Change or None
        Mean bid, cost of a thousand impressions, clicks per impression.
    parts : ImpressionParts
    """

    advertiser: str
    segment: str | None
    segment_before: str | None
    moved: bool
    impressions: Change
    supply: Change
    own_supply: Change
    win_rate: Change
    win_rate_at_bid: Change | None
    price_level: Change
    own_price_level: Change
    mean_bid: Change | None
    ecpm: Change | None
    click_rate: Change | None
    parts: ImpressionParts

    @property
    def changed(self) -> tuple[str, ...]:
        """Names of the quantities that changed."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return tuple(name for name, one in values if isinstance(one, Change) and one.changed)


@dataclass(frozen=True)
class GroupChange:
    """Changes of a typical advertiser of a group, and the impressions of the whole group.

    ``advertisers`` bid in both periods, ``new`` only after, ``vanished`` only before. A change is
    a robust mean over the advertisers that bid in both periods. It is None where no advertiser
    has the quantity.
    """

    name: str
    advertisers: int
    new: int
    vanished: int
    impressions: Change | None
    supply: Change | None
    win_rate: Change | None
    price_level: Change | None
    mean_bid: Change | None
    ecpm: Change | None
    click_rate: Change | None
    parts: ImpressionParts


@dataclass(frozen=True)
class ModelComparison:
    """What changed between two models, or between two periods of one.

    Attributes
    ----------
    currency : str
        Of all amounts; empty where the log has none.
    days_before, days_after : tuple of str
        The days that are compared.
    false_discovery_rate : float
        Expected share of wrong ones among the advertisers said to have changed, by quantity.
    market : GroupChange
    segments : tuple of GroupChange
        Segments of the later model.
    advertisers : tuple of AdvertiserChange
        Those that bid in both periods, in the order of their ids.
    new, vanished : tuple of str
        Advertisers that bid only after, or only before.
    adjusted_rand : float or None
        Agreement of the segments of two models: 1 equal, 0 chance; None for one model.
    notes : tuple of str
        What should be known before the changes are trusted.
    """

    currency: str
    days_before: tuple[str, ...]
    days_after: tuple[str, ...]
    false_discovery_rate: float
    market: GroupChange
    segments: tuple[GroupChange, ...]
    advertisers: tuple[AdvertiserChange, ...]
    new: tuple[str, ...]
    vanished: tuple[str, ...]
    adjusted_rand: float | None
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def columns(self) -> dict[str, Any]:
        """Return a table of the advertisers, by name of the column; NaN where nothing is known."""
        plain = ("advertiser", "segment", "segment_before", "moved")
        table: dict[str, Any] = {}
        for field in fields(AdvertiserChange):
            column = [getattr(one, field.name) for one in self.advertisers]
            if field.name in plain:
                table[field.name] = np.array(["" if value is None else value for value in column])
            elif field.name != "parts":
                for part in ("before", "after", "change", "error", "p"):
                    values = [None if one is None else getattr(one, part) for one in column]
                    if any(value is not None for value in values):
                        table[f"{field.name}_{part}"] = np.array(values, dtype=np.float64)
                is_changed = [bool(one and one.changed) for one in column]
                table[f"{field.name}_changed"] = np.array(is_changed)
        for field in fields(ImpressionParts)[2:-2]:
            table[f"impressions_by_{field.name}"] = np.array(
                [getattr(one.parts, field.name) for one in self.advertisers], dtype=np.float64
            )
        return table
