"""Faults of logs: all that checks may find, how bad each is, and what to do.

An error makes results wrong; a warning says what to expect of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["FAULT_CODES", "LONGEST_EXAMPLE", "Fault", "FaultCode", "fault_of"]

#: Texts in examples are cut to so many characters.
LONGEST_EXAMPLE = 80

_LEFT_OUT = "these rows are left out of all results: correct them where the log is made"


@dataclass(frozen=True)
class Fault:
    """Something wrong with a log.

    Attributes
    ----------
    code : str
        Its name, for programs: a key of :data:`FAULT_CODES`.
    severity : {"error", "warning"}
        Whether it makes results wrong.
    what : str
        What is wrong with each that is counted, for people.
    count : int
        How many have the fault.
    share : float
        Of all of its unit in the log, from 0 to 1.
    examples : list of dict
        At most three, by column: numbers, texts, truth values or None.
    remedy : str
        What follows, and what to do.
    unit : str
        What is counted: "rows", "advertisers", "days", "texts", "tables" or "columns".
    """

    code: str
    severity: str
    what: str
    count: int
    share: float
    examples: list[dict[str, Any]] = field(default_factory=list)
    remedy: str = ""
    unit: str = "rows"

    def as_dict(self) -> dict[str, Any]:
        """The fault in values that JSON has."""
        return asdict(self)


@dataclass(frozen=True)
class FaultCode:
    """What a code stands for; braces in ``what`` are filled by the single case.

    Attributes
    ----------
    severity, unit, what, remedy : str
        See :class:`Fault`.
    """

    severity: str
    unit: str
    what: str
    remedy: str


def fault_of(
    code: str, count: int, total: int, examples: Iterable[dict[str, Any]] = (), **words: str
) -> Fault:
    """The fault of a code.

    Parameters
    ----------
    code : str
    count, total : int
        How many have the fault, and of how many.
    examples : iterable of dict
    **words : str
        What fills the braces of the code's sentence.

    Examples
    --------
    >>> fault = fault_of("no_wins", 20, 20)
    >>> fault.severity, fault.what, fault.share
    ('warning', 'no bid won', 1.0)
    """
    of_code = FAULT_CODES[code]
    return Fault(
        code=code,
        severity=of_code.severity,
        what=of_code.what.format(**words),
        count=int(count),
        share=float(count / total) if total else 0.0,
        examples=[_shortened(example) for example in examples],
        remedy=of_code.remedy,
        unit=of_code.unit,
    )


def _shortened(example: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value[:LONGEST_EXAMPLE] if isinstance(value, str) else value
        for name, value in example.items()
    }


def _error(unit: str, what: str, remedy: str) -> FaultCode:
    return FaultCode("error", unit, what, remedy)


def _warning(unit: str, what: str, remedy: str) -> FaultCode:
    return FaultCode("warning", unit, what, remedy)


#: By code: errors, then warnings.
FAULT_CODES = {
    "no_rows": _error(
        "rows",
        "the log has no rows",
        "see whether the path or the glob names the right files",
    ),
    "unreadable": _error(
        "rows",
        "{column} cannot be read: it should be {expected}",
        "what cannot be read counts as missing: correct it where the log is made",
    ),
    "advertiser_missing": _error("rows", "advertiser_id is missing", _LEFT_OUT),
    "day_missing": _error("rows", "the day is missing", _LEFT_OUT),
    "bid_missing": _error("rows", "the bid is missing", _LEFT_OUT),
    "bid_not_positive": _error("rows", "the bid is 0 or below", _LEFT_OUT),
    "bid_too_large": _error(
        "rows",
        "the bid is above 10^15 micros, a billion for a thousand impressions",
        "these rows are left out of all results: see whether amounts are in micros",
    ),
    "won_missing": _error("rows", "it is missing whether the bid won", _LEFT_OUT),
    "price_missing": _error(
        "rows",
        "the bid won, but its price is missing",
        "its price is not counted: win rates and spend come out too low; add the price that was "
        "paid",
    ),
    "price_negative": _error(
        "rows",
        "the price is below 0",
        "the cost counts as 0: correct it, and keep refunds in another table",
    ),
    "price_above_bid": _error(
        "rows",
        "the price is above the bid, which a second-price auction does not allow",
        "see whether bid and price are in the same unit, and both before or after fees",
    ),
    "price_not_bid": _error(
        "rows",
        "the price is not the bid, though a first-price auction costs what was bid",
        "see whether the auctions are second-price, or bid and price in different units",
    ),
    "weight_not_positive": _error("rows", "the weight is missing, infinite, 0 or below", _LEFT_OUT),
    "auction_type_unknown": _error(
        "rows",
        "auction_type is neither 1 (first price) nor 2 (second price)",
        "say which auction it is when the log is opened, or leave these rows out",
    ),
    "auctions_mixed": _error(
        "rows",
        "first-price and second-price auctions are mixed",
        "split the log by auction_type: the two need different curves",
    ),
    "currencies_mixed": _error(
        "rows",
        "the currency is not {currency}, which most rows have",
        "convert all amounts to one currency, or split the log: they do not add up",
    ),
    "units_mixed": _error(
        "advertisers",
        "the advertiser's median bid is {factor} times the median of all bids or more, or as "
        "many times below it",
        "see whether some amounts are for one impression and others for a thousand, or some in "
        "micros and others not",
    ),
    "units_change": _error(
        "days",
        "the day's median bid is {factor} times the median of all bids or more, or as many times "
        "below it",
        "see whether some files have amounts for one impression and others for a thousand, or "
        "some in micros and others not",
    ),
    "bin_not_positive": _error(
        "rows", "the upper edge of the bin, bin_micros, is missing, 0 or below", _LEFT_OUT
    ),
    "counts_missing": _error(
        "rows",
        "bids, wins or cost_micros is missing",
        "it counts as 0: write 0 where there were none",
    ),
    "counts_negative": _error(
        "rows", "a count or an amount is below 0", "correct it where the histograms are made"
    ),
    "wins_above_bids": _error(
        "rows",
        "there are more wins than bids",
        "see whether both are counted by the bin of the bid",
    ),
    "cost_above_bids": _error(
        "rows",
        "the cost is more than the wins of the bin have bid",
        "see whether bin_micros is the upper edge of the bin and cost_micros a sum of prices",
    ),
    "texts_unreadable": _error(
        "tables", "the table of advertisers cannot be read: {problem}", "name another one, or none"
    ),
    "advertiser_blank": _warning(
        "rows",
        "advertiser_id is blank, or a word for nothing such as null",
        "it counts as an advertiser of that name: leave it empty where there is none",
    ),
    "price_on_loss": _warning(
        "rows",
        "the bid lost, yet it has a price",
        "the price is not used; if it is what would have won, name it min_to_win_micros",
    ),
    "click_on_loss": _warning(
        "rows",
        "the bid lost, yet it was clicked",
        "the click is not used: see whether clicks are joined to the right bids",
    ),
    "minimum_missing": _warning(
        "rows",
        "the minimum to win is missing, though other rows have it",
        "it is used only where every bid has it: add it, or expect curves from prices alone",
    ),
    "minimum_negative": _warning(
        "rows",
        "the minimum to win or the floor is below 0",
        "leave it empty where it is not known",
    ),
    "minimum_below_floor": _warning(
        "rows",
        "the minimum to win is below the floor, though nothing wins there",
        "see whether both are in the same unit",
    ),
    "won_below_minimum": _warning(
        "rows",
        "the bid won, though it is below the minimum to win",
        "see whether both are in the same unit, and both before or after fees",
    ),
    "day_implausible": _warning(
        "rows",
        "the day is before {first} or after {last}",
        "see whether times are in the right unit: such days make the span of the log absurd",
    ),
    "day_in_future": _warning(
        "rows",
        "the day is after today, {today}",
        "see whether clocks and time zones are right: days are in UTC",
    ),
    "bids_implausible": _warning(
        "rows",
        "the median bid is {median} of the currency for a thousand impressions",
        "see whether amounts are micros for a thousand impressions: 2.50 is written 2500000",
    ),
    "duplicate_rows": _warning(
        "rows",
        "the row repeats another one in every column that is read{sampled}",
        "it counts again: see whether a file is there twice or an export ran twice",
    ),
    "duplicate_cells": _warning(
        "rows",
        "the row repeats the advertiser, the day and the bin of another one",
        "their counts are added up: see whether histograms are there twice",
    ),
    "days_missing": _warning(
        "days",
        "no bid is there on days between the first and the last",
        "supply is forecast from the other days: see whether files are missing",
    ),
    "days_thin": _warning(
        "days",
        "fewer rows than a third of the usual are there on these days",
        "supply is underestimated: leave out days that are not complete",
    ),
    "one_day": _warning(
        "days",
        "all bids are of one day",
        "days of the week cannot be told apart, and no day can be held out to test forecasts",
    ),
    "one_advertiser": _warning(
        "advertisers",
        "all bids are of one advertiser",
        "there are no segments to find: forecasts rest on its own curve",
    ),
    "no_wins": _warning(
        "rows",
        "no bid won",
        "win rates come out as 0, and nothing is known of prices: log the bids that won too",
    ),
    "all_wins": _warning(
        "rows",
        "every bid won",
        "if the log holds the bids that won and leaves out those that lost, win rates and "
        "forecasts come out far too high: log the bids that lost too",
    ),
    "never_won": _warning(
        "advertisers",
        "the advertiser never won",
        "its prices are its segment's, or those of all advertisers",
    ),
    "few_bids": _warning(
        "advertisers",
        "the advertiser has fewer than {fewest} bids",
        "its forecasts rest on its segment, which its text alone can tell",
    ),
    "no_texts": _warning(
        "advertisers",
        "no table of advertisers is there",
        "segments are found without texts, and new advertisers get the curve of all: put "
        "advertisers.parquet beside the logs, or name the table",
    ),
    "advertisers_without_text": _warning(
        "advertisers",
        "the advertiser has no text",
        "its segment is found without one: see whether ids are written alike in both tables",
    ),
    "texts_without_bids": _warning(
        "texts",
        "the text is of an advertiser without bids",
        "it is not used: see whether ids are written alike in both tables",
    ),
    "texts_damaged": _warning(
        "texts",
        "the text has characters that are not UTF-8",
        "they are replaced: save the table of advertisers as UTF-8",
    ),
    "person_columns": _warning(
        "columns",
        "the column may identify a person",
        "it is not read: leave it out of what is exported",
    ),
}
