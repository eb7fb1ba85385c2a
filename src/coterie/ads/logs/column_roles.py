"""Column roles: what a column of a log may mean, and which column has which role by its name.

A name is compared without case, blanks, dots and underscores, and without words for units:
``Bid Price (USD)`` is ``bidprice``. A canonical name always has its role. A usual name has its role
if no other column has a usual name of that role. A doubtful name, such as ``price``, which is the
bid in some logs and the price paid in others, is used only if it is the only choice left for one
role alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from coterie.ads.logs.amount_units import without_units
from coterie.errors import InvalidParameterError

__all__ = ["AMOUNTS", "CANONICAL", "REQUIRED", "RoleColumn", "columns_by_role", "role_of"]

#: The canonical column of each role.
CANONICAL = {
    "advertiser": "advertiser_id",
    "time": "ts",
    "day": "day",
    "bid": "bid_micros",
    "won": "won",
    "price": "price_micros",
    "min_to_win": "min_to_win_micros",
    "floor": "floor_micros",
    "auction_type": "auction_type",
    "currency": "currency",
    "weight": "weight",
    "click": "click",
    "conversion": "conversion",
    "campaign": "campaign_id",
}
#: Roles that hold money.
AMOUNTS = ("bid", "price", "min_to_win", "floor")
#: Roles that a log must have, beside a time or a day.
REQUIRED = ("advertiser", "bid", "won", "price")

_USUAL = {
    "advertiser": "advertiser advertiserid advid accountid",
    "time": "ts timestamp time datetime eventtime bidtime requesttime auctiontime eventtimestamp "
    "createdat occurredat unixtime epoch timeusec timeusec2 eventtimeusec2",
    "day": "day date eventdate eventday",
    "bid": "bid bidprice bidamount bidvalue submittedbid",
    "won": "won win iswin iswon winflag wonauction bidwon iswinner",
    "price": "payprice pricepaid paidprice clearingprice winprice winningprice auctionprice "
    "clearprice",
    "min_to_win": "mintowin minimumtowin minbidtowin minimumbidtowin auctionmintowin",
    "floor": "floor floorprice bidfloor impbidfloor reserveprice slotfloorprice pricefloor",
    "auction_type": "auctiontype",
    "currency": "currency currencycode cur",
    "weight": "weight sampleweight samplingweight",
    "click": "click clicked isclick isclicked",
    "conversion": "conversion converted isconversion",
    "campaign": "campaign campaignid",
}
_DOUBTFUL = {
    "advertiser": "seat seatid buyer buyerid client clientid advertisername brand adomain",
    "day": "dt",
    "bid": "price cpm maxbid",
    "won": "result outcome status bidstatus auctionresult",
    "price": "price paid cost spend",
}


@dataclass(frozen=True)
class RoleColumn:
    """The column of a role, or the reason why none was chosen."""

    column: str = ""  # empty if none was chosen
    why: str = ""  # "given", "canonical", "name" or "doubtful name"
    candidates: tuple[str, ...] = ()  # if several columns are possible


def role_of(name: str) -> str:
    """Return the role for a role or a canonical column name.

    >>> role_of("bid"), role_of("price_micros")
    ('bid', 'price')
    """
    roles = {canonical: role for role, canonical in CANONICAL.items()}
    role = name if name in CANONICAL else roles.get(name)
    if role is None:
        raise InvalidParameterError(
            f"{name!r} is no role of a column; the roles are {', '.join(CANONICAL)}"
        )
    return role


def columns_by_role(
    columns: Sequence[str],
    given: Mapping[str, str],
    more_names: Mapping[str, Iterable[str]] | None = None,
) -> dict[str, RoleColumn]:
    """Choose the column of every role.

    ``given`` has the columns that the user named, by role; an empty name leaves the role out.
    ``more_names`` are further usual names, by role. The result has every role with a column or
    with several candidates.

    >>> found = columns_by_role(["AdvertiserID", "bid_price", "price", "ts"], {})
    >>> {role: one.column for role, one in found.items()}
    {'advertiser': 'AdvertiserID', 'time': 'ts', 'bid': 'bid_price', 'price': 'price'}
    """
    chosen = {role: RoleColumn(name, "given") for role, name in given.items()}
    for role, name in CANONICAL.items():
        if role not in chosen and name in columns and name not in given.values():
            chosen[role] = RoleColumn(name, "canonical")
    usual = {role: set(names.split()) for role, names in _USUAL.items()}
    for role, names in (more_names or {}).items():
        usual[role] |= {_plain(name) for name in names}
    doubtful = {role: set(names.split()) for role, names in _DOUBTFUL.items()}
    for why, names in (("name", usual), ("doubtful name", doubtful)):
        chosen |= _by_name(columns, chosen, names, why)
    none = RoleColumn()
    found = {role: chosen.get(role, none) for role in CANONICAL}
    return {role: one for role, one in found.items() if one.column or one.candidates}


def _by_name(
    columns: Sequence[str],
    chosen: Mapping[str, RoleColumn],
    names: Mapping[str, set[str]],
    why: str,
) -> dict[str, RoleColumn]:
    """Return the roles without a column for which some columns are left by their names."""
    taken = {one.column for one in chosen.values()}
    free = [name for name in columns if name not in taken]
    matches = {
        role: [name for name in free if _plain(name) in words]
        for role, words in names.items()
        if role not in chosen
    }
    uses = [name for names_left in matches.values() for name in names_left]
    return {
        role: RoleColumn(names_left[0], why)
        if len(names_left) == 1 and uses.count(names_left[0]) == 1
        else RoleColumn(candidates=tuple(names_left))
        for role, names_left in matches.items()
        if names_left
    }


def _plain(name: str) -> str:
    """Return a name for comparisons.

    >>> _plain("Bid Price (USD)"), _plain("imp.0.bidfloor"), _plain("bid_micros")
    ('bidprice', 'impbidfloor', 'bid')
    """
    return re.sub(r"[\W_]+", "", without_units(re.sub(r"\.\d+(?=\.|$)", "", name))).lower()
