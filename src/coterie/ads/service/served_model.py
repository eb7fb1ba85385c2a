"""A model that is ready to answer: checked, its tables built."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET
from numpy.typing import ArrayLike, NDArray

import coterie
from coterie.ads.curves.day_levels import DayLevels
from coterie.ads.curves.landscapes import PER_UNIT
from coterie.ads.forecasts.fitted_market import FittedMarket, load_market
from coterie.ads.forecasts.forecast_figures import describe_days
from coterie.ads.forecasts.forecast_tables import ForecastTables, PeriodLevels, tables_of
from coterie.ads.forecasts.placement import Placement, Placer
from coterie.ads.forecasts.profiles import Profiles
from coterie.ads.protocol import (
    Advertiser,
    AdvertiserItem,
    AdvertiserPage,
    AdvertiserQuery,
    ModelVersion,
    Segments,
    printable,
)
from coterie.errors import ModelFileError
from coterie.models import content_checksum, opened_model

_VERSION_DIGITS = 12
_MICROS = 1_000_000
# more than one request can ask about, so that none makes the same twice
_MOST_PERIODS = 2_000
# a placement holds a weight for every advertiser
_PLACEMENT_BYTES = 1 << 25
_MOST_PLACEMENTS = 256


Rows = NDArray[np.int64]


class Period(NamedTuple):
    """Days that are forecast together, and how the explanation of a forecast for them ends."""

    table: PeriodLevels
    expected: str  # if the supply is that of the days
    given: str  # if the supply was given


class ServedModel:
    """One model and all that is asked of it; its answers never change. It is thread-safe.

    Forecasts are ready immediately. Threads make the details of advertisers meanwhile. The model
    must be sound (:func:`~coterie.ads.forecasts.model_checks.check_model`); its version is the
    first digits of the SHA-256 of its file, its name that of the file without folders.
    """

    def __init__(self, model: FittedMarket, version: str, name: str) -> None:
        self.model = model
        self.version = ModelVersion(version)
        self.name = name
        self.currency = model.currency_
        self.loaded_at = datetime.now(UTC).replace(microsecond=0)
        #: Identifies its answers, as an ETag; the same in all workers.
        self.tag = f'"{version}-{coterie.__version__}"'
        self.tables = tables_of(model)
        self.placer = self.tables.placer
        self.names: list[str] = model.advertisers_.tolist()
        self.has_clicks = model.click_rate_ is not None
        self.has_conversions = model.conversion_rate_ is not None
        beside = ThreadPoolExecutor(2, "details")
        self._book = beside.submit(Profiles, model)
        self._search = beside.submit(_make_search, model)
        beside.shutdown(wait=False)
        # what makes them does not refer to this object: a cycle would keep it in memory
        make_period = partial(_make_period, self.tables, model.price_levels_)
        self._periods = _Recent(make_period, _MOST_PERIODS)
        self.average_day = self._periods[None, 1]
        self.segment_names = [self.placer.segment(row) for row in range(len(self.names))]
        most = _PLACEMENT_BYTES // (8 * len(self.names))
        make_place = partial(_make_place, self.placer)
        self._places = _Recent(make_place, min(max(most, 1), _MOST_PLACEMENTS))

    async def with_details(self) -> ServedModel:
        """Return itself once its book and its search are made."""
        for details in (self._book, self._search):
            if not details.done():
                await asyncio.shield(asyncio.wrap_future(details))
        return self

    @property
    def book(self) -> Profiles:
        """What is known of advertisers and segments."""
        return self._book.result()

    def period(self, first: date | None, days: int) -> Period:
        """Return ``days`` days from ``first`` on, or after the log; one without a date is average.

        Making one takes milliseconds, and tenths of a second for a year.
        """
        if first is None and days == 1:
            return self.average_day
        return self._periods[first, days]

    def has_period(self, first: date | None, days: int) -> bool:
        """Whether :meth:`period` answers immediately."""
        return (first, days) in self._periods

    def places(self, texts: Sequence[str]) -> list[Placement]:
        """Return the placements of advertisers that are not known, by their texts."""
        return [self._places[text] for text in texts]

    def page(self, query: AdvertiserQuery) -> AdvertiserPage:
        """Return a page of advertisers whose id contains a text."""
        segment = None if query.segment is UNSET else query.segment
        page, page_size = query.page, query.page_size
        rows, total = self._search.result().page(
            query.search, segment=segment, sort=query.sort, page=page, page_size=page_size
        )
        items = [self._item(row) for row in rows.tolist()]
        return AdvertiserPage(items, page, max(-(-total // page_size), 1), total)

    def advertiser(self, row: int) -> Advertiser:
        """Return what is known of one advertiser."""
        return msgspec.convert(self.book.advertiser(row), Advertiser)

    def segments(self) -> Segments:
        """Return all segments with their curves."""
        return msgspec.convert({"grid": self.book.grid, "segments": self.book.segments()}, Segments)

    def _item(self, row: int) -> AdvertiserItem:
        model = self.model
        return AdvertiserItem(
            self.names[row],
            int(model.labels_[row]) if model.segments_ else None,
            self.segment_names[row],
            min(max(float(model.confidence_[row]), 0.0), 1.0),
            float(model.observations_[row]),
            float(model.bid_[row]) / _MICROS,
            float(model.cost_[row]) / PER_UNIT,
        )


def load_served(path: Path, version: str, *, whole: bool = True) -> ServedModel:
    """Load a model and make it ready to answer; refuse one that cannot be served.

    Unless ``whole``, threads may still be making its details.
    """
    model = load_market(path)
    served = ServedModel(model, version, printable(path.name))
    with _rehearsal():
        day = served.average_day.table
        served.tables.one(0, 2 * served.tables.highest, served.tables.supply(0, day), day, False)
        if whole:
            msgspec.json.encode([served.book.summary(), served.segments(), served.advertiser(0)])
            served.page(AdvertiserQuery())
    return served


def file_version(path: Path, *, verified: bool = False) -> str:
    """Return the version of a model file, from the checksum of its content.

    A file that is no model file has a version, too. With ``verified``, damage is an error.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "market.coterie"
    >>> _ = file.write_bytes(b"")
    >>> file_version(file)
    'e3b0c44298fc'
    """
    try:
        checksum = content_checksum(path)
    except ModelFileError as error:
        try:
            with opened_model(path) as file:
                checksum = hashlib.file_digest(file, "sha256").hexdigest()
        except ModelFileError:
            raise error from None
    else:
        if verified:
            content_checksum(path, verified=True)
    return checksum[:_VERSION_DIGITS]


class AdvertiserSearch:
    """Finds advertisers by a part of their id, in upper or lower case.

    The id that is the very text comes first, then ids that begin with it, then those that hold
    it elsewhere; within each kind those that spend most come first, and of equals the one that
    comes first in the model. An empty text finds all.

    Parameters
    ----------
    ids : sequence of A str
    spend : (A,) array
    labels : (A,) int array
        The segment of each; −1 is none.
    columns : mapping of str to (A,) array, optional
        Numbers to sort by, beside "id" and "spend".

    Examples
    --------
    >>> search = AdvertiserSearch(["car hire", "Oscar", "cars", "CAR"], [1, 9, 5, 2], [0, 0, 1, 1])
    >>> rows, total = search.page("car", page_size=3)
    >>> rows.tolist(), total
    ([3, 2, 0], 4)
    >>> search.page("car", sort="-spend")[0].tolist()
    [1, 2, 3, 0]
    """

    def __init__(
        self,
        ids: Sequence[str],
        spend: ArrayLike,
        labels: ArrayLike,
        columns: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        # ids are in the order they are shown in, so that nothing found need be sorted
        self._rows: Rows = np.argsort(-np.asarray(spend, dtype=np.float64), kind="stable")
        self._labels = np.asarray(labels)[self._rows]
        folded = [_folded(ids[row]) for row in self._rows.tolist()]
        self._ids = pa.array(folded, pa.large_binary())
        self._lengths = pc.binary_length(self._ids).to_numpy()
        self._columns: dict[str, NDArray[Any]] = {
            name: np.asarray(values, dtype=np.float64)[self._rows]
            for name, values in {"spend": spend, **(columns or {})}.items()
        }
        self._columns["id"] = np.unique(np.array(folded, dtype=object), return_inverse=True)[1]

    def page(
        self,
        text: str = "",
        *,
        segment: int | None = None,
        sort: str = "",
        page: int = 1,
        page_size: int = 20,
    ) -> tuple[Rows, int]:
        """Return the rows on a page, from 1, and how many advertisers were found in all.

        ``sort`` is the name of a column, with a minus sign for the largest first. Rows with equal
        values stay in the usual order.
        """
        needle = _folded(text)
        found = self._containing(needle) if needle else np.arange(len(self._rows))
        if segment is not None:
            found = found[self._labels[found] == segment]
        if sort:
            values = self._columns[sort.removeprefix("-")][found]
            found = found[np.argsort(-values if sort.startswith("-") else values, kind="stable")]
        first = (page - 1) * page_size
        return self._rows[found[first : first + page_size]], len(found)

    def _containing(self, needle: bytes) -> Rows:
        """Return the places of the ids that contain a text, in the order they are shown in."""
        at = pc.find_substring(self._ids, needle).to_numpy()
        begins = at == 0
        whole = begins & (self._lengths == len(needle))
        kinds = (whole, begins & ~whole, at > 0)
        return np.concatenate([np.flatnonzero(kind) for kind in kinds])


def _folded(text: str) -> bytes:
    """Return a text without case; what UTF-8 has no bytes for is replaced."""
    return text.casefold().encode("utf-8", "replace")


def _make_search(model: FittedMarket) -> AdvertiserSearch:
    # by name, and those of no segment last
    names = [profile.name.casefold() for profile in model.segments_]
    ranks = np.append(np.argsort(np.argsort(names)), len(names))
    columns = {
        "segment": ranks[model.labels_],
        "confidence": model.confidence_,
        "observations": model.observations_,
        "bid": model.bid_,
    }
    return AdvertiserSearch(model.advertisers_.tolist(), model.cost_, model.labels_, columns)


def _make_period(tables: ForecastTables, levels: DayLevels, key: tuple[date | None, int]) -> Period:
    expected, given = (describe_days(levels, *key, is_expected) for is_expected in (True, False))
    return Period(tables.days(*key), expected + tables.always, given + tables.always)


def _make_place(placer: Placer, text: str) -> Placement:
    return placer.placed_by_texts([text])[0]


@contextmanager
def _rehearsal() -> Iterator[None]:
    """Refuse a model that cannot give its first answers, for any reason."""
    try:
        yield
    except Exception as error:
        raise ModelFileError(
            f"its model cannot answer ({type(error).__name__}); make it again"
        ) from error


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class _Recent(Generic[Key, Value]):
    """The values that were asked for last; functools.lru_cache cannot tell whether it has one."""

    def __init__(self, make: Callable[[Key], Value], most: int) -> None:
        self._make, self._most = make, most
        self._kept: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()

    def __contains__(self, key: Key) -> bool:
        return key in self._kept

    def __getitem__(self, key: Key) -> Value:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        value = self._make(key)
        with self._lock:
            self._kept[key] = value
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return value
