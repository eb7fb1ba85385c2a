"""A model that is ready to answer: checked, its tables built, its kernels compiled."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from coterie.ads.curves.day_levels import DayLevels
from coterie.ads.forecasts.calibration import LEVELS
from coterie.ads.forecasts.fitted_market import FittedMarket, load_market
from coterie.ads.forecasts.forecast_figures import describe_days
from coterie.ads.forecasts.forecast_tables import ForecastTables, tables_of
from coterie.ads.forecasts.model_checks import check_model
from coterie.ads.forecasts.placement import Placement, Placer
from coterie.ads.forecasts.plan_forecasts import DayTable
from coterie.ads.forecasts.profiles import ProfileBook
from coterie.ads.service.models.advertiser_search import AdvertiserSearch
from coterie.ads.service.models.written_figures import AnswerWriter, inside_text
from coterie.errors import ModelFileError
from coterie.files.model_files import content_checksum, opened_model

__all__ = ["Period", "ServedModel", "begun", "file_version", "printable", "ready", "written_supply"]

_VERSION_DIGITS = 12
_MICROS = 1_000_000
# more than one request can ask about, so that none makes the same twice
_MOST_PERIODS = 2_000
# a place holds a weight for every advertiser
_BYTES_OF_RECENT_PLACES = 1 << 25
_MOST_RECENT_PLACES = 256
_MOST = 300
_LEVELS = {level: orjson.dumps(level) + b',"supply":' for level in LEVELS}


class Period(NamedTuple):
    """Days that are forecast together; the texts go from an advertiser's grounds to the level."""

    table: DayTable
    expected: bytes  # in JSON, if the supply is that of the days
    given: bytes  # in JSON, if the supply is given


class ServedModel:
    """One model and all that is asked of it; no answer of it ever changes.

    Forecasts can be had at once; details of advertisers are made meanwhile, in threads.

    What is asked often is kept: grounds of advertisers, places of texts. Any number of threads
    may ask.

    Parameters
    ----------
    model : FittedMarket
        Sound: see :func:`~coterie.ads.forecasts.model_checks.check_model`.
    version : str
        The first digits of the SHA-256 of its file.
    name : str
        Of its file, without folders.
    """

    def __init__(self, model: FittedMarket, version: str, name: str) -> None:
        self.model = model
        self.version = version
        self.name = name
        self.loaded_at = datetime.now(UTC).replace(microsecond=0)
        self.tables = tables_of(model)  # which the book shares
        self.tables.warm()
        self.placer = self.tables.placer
        beside = ThreadPoolExecutor(2, "details")  # whose loops leave the interpreter to others
        self._book = beside.submit(ProfileBook, model)
        self._search = beside.submit(
            AdvertiserSearch, model.advertisers_.tolist(), model.cost_, model.labels_
        )
        beside.shutdown(wait=False)
        self.always = self.tables.remark(0.0)  # goes for every forecast; most often empty
        self.highest = float(model.edges_[-1]) / _MICROS  # of all bids of the log
        self.writer = AnswerWriter(
            has_clicks=model.click_rate_ is not None,
            has_conversions=model.conversion_rate_ is not None,
            remark=self.tables.above,
        )
        told = {"model": {"version": version}, "currency": model.currency_}
        # every response to a question begins with it
        self.preface = orjson.dumps(told)[:-1] + b","
        self._periods = _RecentPeriods(self.tables, model.price_levels_)
        self.average_day = self._periods.period(None, 1)
        self._begun: list[_Begun | None] = [None] * self.advertisers
        self._recent = _RecentPlaces(self.placer, self.advertisers)

    @property
    def book(self) -> ProfileBook:
        """What is known of advertisers and segments; whoever comes early waits for it."""
        return self._book.result()

    async def with_details(self) -> ServedModel:
        """Itself, once its book and its search are made; others are answered meanwhile."""
        for details in (self._book, self._search):
            if not details.done():
                await asyncio.shield(asyncio.wrap_future(details))
        return self

    @property
    def advertisers(self) -> int:
        """How many it knows."""
        return len(self.model.advertisers_)

    @property
    def tag(self) -> str:
        """What tells its answers from those of another model, or of another time (an ETag)."""
        return f'"{self.version}-{self.loaded_at.timestamp():.0f}"'

    def period(self, day: date | None, days: int) -> Period:
        """Return ``days`` days from ``day`` on, or after the log; a day of no date is average."""
        if day is None and days == 1:
            return self.average_day
        return self._periods.period(day, days)

    def has_period(self, day: date | None, days: int) -> bool:
        """Whether :meth:`period` answers at once; what it has to make takes milliseconds."""
        return self._periods.has(day, days)

    def opening(
        self,
        row: int,
        supply: float | None = None,
        period: Period | None = None,
        level: float = 0.9,
    ) -> tuple[bytes, float]:
        """How the answer about an advertiser begins, as JSON up to its supply; and that supply.

        Auctions are those of ``period``, by default of an average day, where no supply is given.
        """
        begun = self._begun[row]
        if begun is None:
            begun = self._begun[row] = self._begin(row)
        on = period or self.average_day
        if supply is not None:
            return begun.text + on.given + written_supply(supply, level), supply
        if on is self.average_day:
            return begun.text + on.expected + _LEVELS[level] + begun.written, begun.supply
        supply = self.tables.supply(row, on.table)
        return begun.text + on.expected + written_supply(supply, level), supply

    def placed(self, texts: Sequence[str]) -> list[Placement]:
        """Return the places of advertisers that are not known, by their texts, under no names."""
        return self._recent.placed(texts)

    def found(
        self, text: str = "", segment: int | None = None, page: int = 1, page_size: int = 20
    ) -> dict[str, Any]:
        """Return a page of advertisers by a part of their id, ready for JSON."""
        search = self._search.result()  # whoever comes early waits for it
        rows, total = search.page(text, segment=segment, page=page, page_size=page_size)
        return {
            "items": [self._item(row) for row in rows.tolist()],
            "page": page,
            "pages": max(-(-total // page_size), 1),
            "total": total,
        }

    def _begin(self, row: int) -> _Begun:
        begun = {
            "advertiser": str(self.model.advertisers_[row]),
            "known": True,
            "segment": self.placer.segment(row),
            "curve": "pooled",
            "why": self.tables.why(row),
        }
        supply = self.tables.supply(row, self.average_day.table)
        return _Begun(orjson.dumps(begun).removesuffix(b'"}'), supply, orjson.dumps(supply))

    def _item(self, row: int) -> dict[str, Any]:
        model = self.model
        return {
            "id": str(model.advertisers_[row]),
            "segment": int(model.labels_[row]) if model.segments_ else None,
            "segment_name": self.placer.segment(row),
            "confidence": min(max(float(model.confidence_[row]), 0.0), 1.0),
            "observations": float(model.observations_[row]),
            "bid": float(model.bid_[row]) / _MICROS,
        }


def ready(path: Path, version: str) -> ServedModel:
    """Load a model and make it ready to answer whatever is asked: see :func:`begun`."""
    served = begun(path, version)
    with _rehearsal():
        about = served.book.advertiser(0)
        orjson.dumps([served.book.summary(), served.book.segments(), about, served.found()])
    return served


def begun(path: Path, version: str) -> ServedModel:
    """Load a model and make it ready to forecast; its details may still be in the making."""
    model = load_market(path)
    check_model(model)
    served = ServedModel(model, version, printable(path.name))
    with _rehearsal():
        opening, supply = served.opening(0)
        bid = 2 * served.highest
        figures = served.tables.one(0, bid, supply, served.average_day.table, False)
        orjson.loads(served.writer.written_one(opening, bid, figures, remarked=True))
    return served


def file_version(path: Path, *, verified: bool = False) -> str:
    """Return the version of a model file: by its content alone, as its own checksum tells it.

    A file that is no model file has a version too. Where it is to be ``verified`` and is damaged,
    that is an error; else loading it will tell.

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


def written_supply(supply: float, level: float) -> bytes:
    """Return the level of intervals and the supply as they follow the texts of a period.

    >>> written_supply(100.0, 0.9)
    b'0.9,"supply":100.0'
    """
    return _LEVELS[level] + orjson.dumps(supply)


def printable(text: str, most: int = _MOST) -> str:
    r"""Return a text in one line that any encoder takes, cut to a length.

    What cannot be printed is written as Python writes it: a control character, a half of a
    character that a name of a file may hold.

    >>> print(printable("a\nb\udcff"), printable("abcdef", 4))
    a\nb\udcff abc…
    """
    shown = "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode()
        for one in text[: most + 1]
    )
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


@contextmanager
def _rehearsal() -> Iterator[None]:
    """Refuse a model that cannot give its first answers, whatever the reason is."""
    try:
        yield
    except Exception as error:
        raise ModelFileError(
            f"its model cannot answer ({type(error).__name__}); make it again"
        ) from error


class _Begun(NamedTuple):
    """How the answers about an advertiser begin, up to its grounds, and its auctions."""

    text: bytes
    supply: float  # auctions of an average day
    written: bytes  # the same as JSON


class _RecentPeriods:
    """The periods asked about last."""

    def __init__(self, tables: ForecastTables, levels: DayLevels) -> None:
        self._tables, self._levels = tables, levels
        self._periods: OrderedDict[tuple[date | None, int], Period] = OrderedDict()
        self._lock = threading.Lock()

    def has(self, day: date | None, days: int) -> bool:
        return (day, days) in self._periods

    def period(self, day: date | None, days: int) -> Period:
        with self._lock:
            found = self._periods.get((day, days))
            if found is not None:
                self._periods.move_to_end((day, days))
                return found
        found = self._made(day, days)
        with self._lock:
            self._periods[day, days] = found
            if len(self._periods) > _MOST_PERIODS:
                self._periods.popitem(last=False)
        return found

    def _made(self, day: date | None, days: int) -> Period:
        table = self._tables.days(day, days)
        expected, given = (
            inside_text(describe_days(self._levels, day, days, is_expected) + self._tables.always)
            + b'","days":%d,"level":' % days
            for is_expected in (True, False)
        )
        return Period(table, expected, given)


class _RecentPlaces:
    """Places of the texts asked about last, as long as they take little memory in all."""

    def __init__(self, placer: Placer, advertisers: int) -> None:
        self._placer = placer
        self._most = min(max(_BYTES_OF_RECENT_PLACES // (8 * advertisers), 1), _MOST_RECENT_PLACES)
        self._places: OrderedDict[str, Placement] = OrderedDict()
        self._lock = threading.Lock()

    def placed(self, texts: Sequence[str]) -> list[Placement]:
        with self._lock:
            found = {text: self._places[text] for text in texts if text in self._places}
        new = [text for text in dict.fromkeys(texts) if text not in found]
        found |= zip(new, self._placer.placed_by_texts(new), strict=True)
        with self._lock:
            for text in texts:
                self._places[text] = found[text]
                self._places.move_to_end(text)
            while len(self._places) > self._most:
                self._places.popitem(last=False)
        return [found[text] for text in texts]
