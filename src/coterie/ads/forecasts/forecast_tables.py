"""What forecasts need of a model, laid out so that many are answered fast."""

from __future__ import annotations

from datetime import date
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from coterie.ads.curves.pooling import rising_rates
from coterie.ads.curves.supply import expected_supply
from coterie.ads.forecasts.forecast_figures import FIELDS
from coterie.ads.forecasts.forecast_kernels import (
    figures_of_one,
    figures_of_placed,
    figures_of_rows,
    pooled_wins,
)
from coterie.ads.forecasts.placement import Placement, Placer, rate_and_doubt
from coterie.errors import InvalidParameterError

if TYPE_CHECKING:
    from coterie.ads.forecasts.fitted_market import FittedMarket

__all__ = ["FIELDS", "ForecastTables", "tables_of"]

Floats = NDArray[np.float64]

_MICROS = 1_000_000
_TOO_FEW_DAYS = "; too few days to tell how much varies from day to day: intervals leave it out"


class ForecastTables:
    """The figures of forecasts of a fitted model, of many at once or of one.

    Nothing changes after construction, and the loops let go of the interpreter's lock: any
    number of threads may ask. Of the advertisers nothing is unfolded: their evidence stays
    sparse, and beside it there is a table of the grid for every segment.

    ``row_of`` has the row of each advertiser, and ``above`` what :meth:`remark` ends with where a
    bid is above all those of the log.
    """

    def __init__(self, model: FittedMarket) -> None:
        names: list[str] = model.advertisers_.tolist()
        self.row_of = dict(zip(names, range(len(names)), strict=True))
        self.placer = Placer(model)
        self._market = _market_of(model)
        self._counts = (*_sparse_parts(model.successes_), *_sparse_parts(model.trials_by_bin_))
        self._shares = _plain(model.shares_)
        self._click = model.click_rate_, model.click_worth_
        self._conversion = model.conversion_rate_, model.conversion_worth_
        self._events = np.column_stack(
            [*_known_rates(len(names), *self._click), *_known_rates(len(names), *self._conversion)]
        )
        pays_bid = model.pays_ == "bid" and bool(np.all(model.price_ == model.edges_))
        self._rules = (
            float(model.choice_.strength),
            float(model.choice_.noise),
            model.form_ == "hazard",
            model.pays_ == "price",
            pays_bid,
        )
        self._supply = model.supply_
        self._highest = float(model.edges_[-1]) / _MICROS
        self._always = "" if model.choice_.days else _TOO_FEW_DAYS
        highest = f"{self._highest:g} {model.currency_}".rstrip()
        self.above = f"; above every bid in the log ({highest}): the share won is taken as at that"
        self._grounds: dict[int, str] = {}

    def at(self, rows: NDArray[np.int64], bids: Floats, supplies: Floats) -> Floats:
        """Return the figures of Q questions, (Q, 12), in the order of :data:`FIELDS`.

        Questions of one advertiser should stand together: they share its curve. Clicks and
        conversions are NaN where the log has none.

        Parameters
        ----------
        rows : (Q,) int64 array
            From ``row_of``.
        bids : (Q,) float64 array
            Above 0, in units of currency per thousand impressions (CPM).
        supplies : (Q,) float64 array
            Auctions.
        """
        asked = np.ascontiguousarray(rows, dtype=np.int64)
        wanted = np.ascontiguousarray(bids, dtype=np.float64)
        auctions = np.ascontiguousarray(supplies, dtype=np.float64)
        if not asked.shape == wanted.shape == auctions.shape == (asked.size,):
            raise InvalidParameterError(
                f"rows, bids and supplies have shapes {asked.shape}, {wanted.shape} and "
                f"{auctions.shape}; they must be as many, in one dimension"
            )
        if asked.size:
            self._refuse_strangers(int(asked.min()), int(asked.max()))
        return figures_of_rows(
            asked,
            wanted,
            auctions,
            self._market,
            self._counts,
            self._shares,
            self._events,
            self._rules,
        )

    def one(self, row: int, bid: float, supply: float) -> list[float]:
        """Return the figures of one question, as :meth:`at` gives them, the quick way."""
        self._refuse_strangers(row, row)
        figures: list[float] = figures_of_one(
            row,
            float(bid),  # a whole number would have the loops compiled again
            float(supply),
            self._market,
            self._counts,
            self._shares,
            self._events,
            self._rules,
        ).tolist()
        return figures

    def at_placed(self, placement: Placement, bids: Floats, supply: float | Floats) -> Floats:
        """Return the figures of whoever was placed, in the log or not, at B bids, (B, 12)."""
        wanted = np.ascontiguousarray(bids, dtype=np.float64)
        supplies = np.full(len(wanted), supply, dtype=np.float64)
        if placement.row is not None:
            rows = np.full(len(wanted), placement.row, dtype=np.int64)
            return self.at(rows, wanted, supplies)
        if not len(wanted):
            return np.empty((0, len(FIELDS)))
        events = [
            np.nan if part is None else part
            for kind in (self._click, self._conversion)
            for part in rate_and_doubt(placement.weights, *kind)
        ]
        return figures_of_placed(
            wanted,
            supplies,
            self._market,
            self._counts,
            _plain(placement.shares),
            np.array(events, dtype=np.float64),
            self._rules,
        )

    def pooled_wins(self, bins: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the pooled win rates of all advertisers at the edges of ascending bins, (A, n)."""
        return pooled_wins(bins, self._market, self._counts, self._shares, self._rules)

    def supply(self, row: int, day: date | None = None) -> float:
        """Return the auctions to expect of an advertiser on a day, or on an average one."""
        return expected_supply(self._supply, row, None if day is None else day.isoformat())

    def why(self, row: int) -> str:
        """Return the grounds of the forecasts of an advertiser of the log."""
        told = self._grounds.get(row)
        if told is None:
            told = self._grounds[row] = self.placer.why(row)
        return told

    def remark(self, bid: float) -> str:
        """Return what the user should know of a bid and of the interval; may be empty."""
        return self._always + self.above if bid > self._highest else self._always

    def warm(self) -> None:
        """Compile the loops now, or load them if they were compiled before."""
        if self.row_of:
            self.one(0, 1.0, 1.0)
            self.at(np.zeros(1, dtype=np.int64), np.ones(1), np.ones(1))
        self.at_placed(self.placer.anyone(), np.ones(1), 1.0)

    def _refuse_strangers(self, lowest: int, highest: int) -> None:
        if lowest < 0 or highest >= len(self._shares):
            raise InvalidParameterError(
                f"rows from {lowest} to {highest}: there are {len(self._shares)} advertisers"
            )


def tables_of(model: FittedMarket) -> ForecastTables:
    """Return the tables of a model, made once and kept as long as it is, and stays as it is.

    They are kept beside the model, not in it: they get into no file and no copy.
    """
    made_from = dict(vars(model))
    with _KEPT_LOCK:
        kept = _KEPT.get(model)
    if kept is not None and _same(kept.made_from, made_from):
        return kept.tables
    tables = ForecastTables(model)
    with _KEPT_LOCK:
        _KEPT[model] = _Kept(tables, made_from)
    return tables


class _Kept(NamedTuple):
    """Tables, and the attributes of the model when they were made."""

    tables: ForecastTables
    made_from: dict[str, Any]


_KEPT: WeakKeyDictionary[FittedMarket, _Kept] = WeakKeyDictionary()
_KEPT_LOCK = Lock()


def _same(before: dict[str, Any], now: dict[str, Any]) -> bool:
    return before.keys() == now.keys() and all(now[name] is before[name] for name in before)


def _plain(array: Any, kind: Any = np.float64) -> NDArray[Any]:
    """Return an array as the loops were compiled for: contiguous and writeable."""
    return np.require(array, dtype=kind, requirements=["C", "W"])


def _market_of(model: FittedMarket) -> tuple[Floats, ...]:
    hazard = model.form_ == "hazard"
    rates = _plain(model.rates_ if hazard else rising_rates(model.rates_))
    before = np.ones_like(rates)
    np.cumprod(1.0 - rates[:, :-1], axis=1, out=before[:, 1:])
    return _plain(model.edges_), _plain(model.price_), rates, before, before * rates


def _sparse_parts(matrix: sp.csr_array) -> tuple[NDArray[Any], ...]:
    """Row pointers, bins ascending in a row, and values."""
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return _plain(matrix.indptr, np.int64), _plain(matrix.indices, np.int32), _plain(matrix.data)


def _known_rates(n: int, rates: Floats | None, worth: Floats | None) -> tuple[Floats, Floats]:
    """Return the rate of each advertiser and its standard deviation; NaN where the log has none."""
    if rates is None or worth is None:
        return np.full(n, np.nan), np.full(n, np.nan)
    return rates, np.sqrt(rates * (1 - rates) / (worth + 1))
