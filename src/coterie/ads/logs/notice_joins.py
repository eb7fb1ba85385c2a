"""Notice joins: add the outcome of each bid from tables of win and loss notices.

A win notice has the id of the bid and the price paid (``AUCTION_PRICE`` of OpenRTB). A loss notice
has the id, and may have the reason (``AUCTION_LOSS``) and the minimum to win
(``AUCTION_MIN_TO_WIN``). Repeated notices of one bid count once; where they differ in a value, that
value is missing. A bid with notices of both kinds has no outcome, which checks report. They also
report an id of several bids, because each of these gets its notices.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coterie.ads.logs.column_roles import columns_by_role
from coterie.ads.logs.log_mapping import LogMapping
from coterie.errors import CoterieWarning, TableError

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["JoinedBids", "join_notices"]

#: Names of ids, the most exact first.
_IDS = ("bid_id", "bidid", "bid.id", "auction_id", "request_id", "impression_id", "id")
_LOSS_REASONS = ("loss", "loss_reason", "loss_reason_code", "auction_loss", "reason")
#: The loss reason of OpenRTB that means that the bid won.
_BID_WON = "0"
_NAMES = {
    "price": ("price", "auction_price", "win.price"),
    "min_to_win": ("min_bid_to_win", "minimum_bid_to_win"),
}


@dataclass(frozen=True, eq=False)
class JoinedBids:
    """Bids with the columns of their notices."""

    table: ir.Table
    columns: dict[str, str]  # by role, for those that notices have
    wins: ir.Table  # column key: each win notice once
    unknown_wins: ir.Table  # those of bids that the log does not have
    key: str  # column of the bids
    bids: ir.Table  # columns key and n: the number of bids of each key


def join_notices(
    bids: ir.Table, wins: ir.Table, losses: ir.Table | None, mapping: LogMapping, source: str
) -> JoinedBids:
    """Join bids and their notices in the engine.

    The table has the columns of the bids, those of the notices as ``win.NAME`` and ``loss.NAME``,
    and ``notice.won``, which is null for a bid without an outcome.
    """
    key, notice_key = _keys(bids, [wins] if losses is None else [wins, losses], mapping, source)
    won = _once(wins, notice_key, "win")
    joined = bids.left_join(won, bids[key].cast("string").strip() == won["win.key"])
    if losses is not None:
        lost = _once(_true_losses(losses), notice_key, "loss")
        joined = joined.left_join(lost, joined[key].cast("string").strip() == lost["loss.key"])
    elif not mapping.unnoticed_lost:
        warnings.warn(
            f"{source}: there are no loss notices, so every bid without a win notice counts as "
            "lost; say --unnoticed-lost if this is right",
            CoterieWarning,
            stacklevel=4,
        )
    outcome = {"notice.won": _outcome(joined, losses is not None, mapping)}
    found = {"won": "notice.won", **_notice_columns(wins, losses)}
    minimum = found.get("min_to_win", "").removeprefix("loss.")
    if minimum and f"win.{minimum}" in joined.columns:
        found["min_to_win"] = f"notice.{minimum}"
        both = joined[f"win.{minimum}"].fill_null(joined[f"loss.{minimum}"])
        outcome[found["min_to_win"]] = both
    table = joined.mutate(**outcome)
    keys = won.select(key=won["win.key"])
    known = bids.select(key=bids[key].cast("string").strip())
    counted = known.filter(known.key.notnull()).group_by("key").agg(n=lambda rows: rows.count())
    return JoinedBids(table, found, keys, keys.anti_join(known, "key"), key, counted)


def _keys(
    bids: ir.Table, notices: Sequence[ir.Table], mapping: LogMapping, source: str
) -> tuple[str, str]:
    """Return the columns of the id, in the bids and in the notices."""
    left, _, right = mapping.join_on.partition("=")
    if left:
        right = right or left
        for name, table in ((left, bids), *((right, notice) for notice in notices)):
            if name not in table.columns:
                raise TableError(
                    f"{source}: --join-on names {name}, but there is a table without such a "
                    f"column; its columns are {', '.join(table.columns)}"
                )
        return left, right
    shared = [name for name in bids.columns if all(name in notice.columns for notice in notices)]
    common = [name for name in _IDS if name in shared]
    if not common and shared:
        options = " or ".join(f"--join-on {name}" for name in shared)
        raise TableError(
            f"{source}: which column is the id of a bid and its notices? say {options}"
        )
    if not common:
        raise TableError(
            f"{source}: bids and notices have no column in common; say --join-on "
            f"COLUMN=NOTICE_COLUMN; bids have {', '.join(bids.columns)}; notices have "
            f"{', '.join(notices[0].columns)}"
        )
    return common[0], common[0]


def _once(notices: ir.Table, key: str, prefix: str) -> ir.Table:
    """Return each notice once; a value in which repeated notices differ is null."""
    rows = notices.mutate(**{f"{prefix}.key": notices[key].cast("string").strip()})
    rows = rows.filter(rows[f"{prefix}.key"].notnull())

    def agreed(name: str) -> Any:
        least, most = rows[name].min(), rows[name].max()
        return (least == most).ifelse(least, None)

    names = [name for name in notices.columns if name != key]
    return rows.group_by(f"{prefix}.key").agg(
        **{f"{prefix}.{name}": agreed(name) for name in names}
    )


def _true_losses(losses: ir.Table) -> ir.Table:
    """Leave out the notices whose reason says that the bid won."""
    reason = next((name for name in _LOSS_REASONS if name in losses.columns), None)
    if reason is None:
        return losses
    return losses.filter((losses[reason].cast("string").strip() != _BID_WON).fill_null(True))


def _outcome(joined: ir.Table, has_losses: bool, mapping: LogMapping) -> Any:
    import ibis

    won = joined["win.key"].notnull()
    if not has_losses:
        return won
    lost = joined["loss.key"].notnull()
    cases = [(won & ~lost, True), (lost & ~won, False)]
    if mapping.unnoticed_lost:
        cases.append((~won & ~lost, False))
    return ibis.cases(*cases, else_=ibis.null("boolean"))


def _notice_columns(wins: ir.Table, losses: ir.Table | None) -> dict[str, str]:
    """Return the columns of the price and of the minimum to win, by role."""
    found = {}
    of_wins = columns_by_role(wins.columns, {"bid": ""}, _NAMES)
    if "price" in of_wins:
        found["price"] = f"win.{of_wins['price'].column}"
    if losses is not None:
        of_losses = columns_by_role(losses.columns, {}, _NAMES)
        if "min_to_win" in of_losses:
            found["min_to_win"] = f"loss.{of_losses['min_to_win'].column}"
    return found
