"""Column roles: what a column of a log may mean, and which column has which role by its name.

A name is compared without case, blanks, dots and underscores, and without words for units:
``Bid Price (USD)`` is ``bidprice``. A canonical name always has its role. A usual name has its role
if no other column has a usual name of that role. Columns of other names that may have a required
role, such as ``price``, which is the bid in some logs and the price paid in others, are candidates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from coterie.errors import InvalidParameterError

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
#: Roles that a log must have, next to a time or a day.
REQUIRED = ("advertiser", "bid", "won", "price")
#: Micros for a thousand impressions (CPM) that 1 in a unit is.
UNITS = {
    "micros": 1,
    "cents": 10**4,
    "currency": 10**6,
    "micros/impression": 10**3,
    "cents/impression": 10**7,
    "currency/impression": 10**9,
}

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
_UNIT_WORDS = frozenset(
    {"micros", "micro", "cents", "cent", "fen", "pence", "cpm", "ecpm", "dollars", "euros"}
    | {"usd", "eur", "gbp", "chf", "cny", "jpy", "inr", "aud", "cad"}
)


def columns_by_role(
    columns: Sequence[str], given: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the column of each role, and the candidates of roles that are not decided.

    ``given`` has the columns that the user named, by role; an empty name leaves the role out.

    >>> columns_by_role(["AdvertiserID", "bid_price", "price", "ts"], {})
    ({'time': 'ts', 'advertiser': 'AdvertiserID', 'bid': 'bid_price'}, {'price': ['price']})
    """
    chosen = dict(given)
    for role, name in CANONICAL.items():
        if role not in chosen and name in columns and name not in given.values():
            chosen[role] = name
    candidates: dict[str, list[str]] = {}
    for names, are_decisive in ((_USUAL, True), (_DOUBTFUL, False)):
        free = [name for name in columns if name not in chosen.values()]
        for role, words in names.items():
            found = [name for name in free if _plain(name) in words.split()]
            if role in chosen or role in candidates or not found:
                continue
            if are_decisive and len(found) == 1:
                chosen[role] = found[0]
            else:
                candidates[role] = found
    return {role: name for role, name in chosen.items() if name}, candidates


def role_of(name: str) -> str:
    """Return the role for a role or a canonical column name.

    >>> role_of("bid"), role_of("price_micros")
    ('bid', 'price')
    """
    role = name if name in CANONICAL else {v: k for k, v in CANONICAL.items()}.get(name)
    if role is None:
        raise InvalidParameterError(
            f"{name!r} is no role of a column; the roles are {', '.join(CANONICAL)}"
        )
    return role


def says_micros(name: str) -> bool:
    """Return whether a column name says that its amounts are micros.

    >>> says_micros("bid_micros"), says_micros("Price paid (Micros)"), says_micros("bid_usd")
    (True, True, False)
    """
    return bool({"micros", "micro"} & set(words_of(name)))


def _plain(name: str) -> str:
    """Return a name for comparisons.

    >>> _plain("Bid Price (USD)"), _plain("imp.0.bidfloor"), _plain("bid_micros"), _plain("CPM")
    ('bidprice', 'impbidfloor', 'bid', 'cpm')
    """
    words = words_of(re.sub(r"\.\d+(?=\.|$)", "", name))
    return "".join([word for word in words if word not in _UNIT_WORDS] or words)


def words_of(name: str) -> list[str]:
    """Return the words of a column name in lower case.

    >>> words_of("UserAgent"), words_of("page-URL"), words_of("bid_id")
    (['user', 'agent'], ['page', 'url'], ['bid', 'id'])
    """
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return [word for word in re.split(r"[\W_]+", parted.lower()) if word]
