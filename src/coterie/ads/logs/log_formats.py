"""Log formats: ready-made mappings of known exports, by name.

A format adds names of columns, the unit of amounts and the order of dates to what is usual. What
the user gives comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coterie.errors import InvalidParameterError

__all__ = ["FORMATS", "LogFormat", "format_of"]


@dataclass(frozen=True)
class LogFormat:
    """What is known about the logs of a format."""

    kind: str = "bids"
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of columns, by role
    amounts: str = ""  # unit; empty if the format has several
    date_format: str = ""
    is_local: bool = False  # times without a zone are in that of the account, not in UTC


#: All formats. OpenRTB prices are units of the currency per thousand impressions.
FORMATS = {
    "openrtb": LogFormat(
        names={
            "bid": ("price", "bid.price", "seatbid.bid.price"),
            "advertiser": ("seat", "seatbid.seat", "adomain", "bid.adomain"),
            "campaign": ("cid", "bid.cid", "seatbid.bid.cid"),
            "floor": ("bidfloor", "imp.bidfloor", "bidrequest.imp.bidfloor"),
            "auction_type": ("at", "bidrequest.at"),
            "currency": ("cur", "bidresponse.cur"),
        },
        amounts="currency",
    ),
    "ipinyou": LogFormat(kind="ipinyou"),
    "gam": LogFormat(
        names={
            "bid": ("Bid price", "Bid", "BidPrice"),
            "won": ("Won", "Auction won", "Winner"),
            "price": ("Price paid", "Clearing price", "Winning price"),
            "floor": ("Floor price", "Applied floor price", "Reserve price"),
            "campaign": ("Order ID", "Line item ID"),
        },
        date_format="month-first",
        is_local=True,
    ),
}


def format_of(name: str) -> LogFormat:
    """Return the format of a name; an empty name means none.

    >>> format_of("openrtb").amounts
    'currency'
    """
    if name and name not in FORMATS:
        raise InvalidParameterError(
            f"format={name!r}: there is no such format; the formats are {', '.join(FORMATS)}"
        )
    return FORMATS[name] if name else LogFormat()
