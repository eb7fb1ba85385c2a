"""A model that is ready to answer: checked, its tables built, its kernels compiled."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from coterie.ads.forecast_tables import tables_of
from coterie.ads.forecaster import AdForecaster, load_forecaster
from coterie.ads.placement import Placement, Placer
from coterie.ads.profiles import ProfileBook
from coterie.ads.service.advertiser_search import AdvertiserSearch
from coterie.ads.service.model_checks import check_model
from coterie.ads.supply import told_supply

__all__ = ["ServedModel", "file_version", "ready"]

_VERSION_DIGITS = 12
_MICROS = 1_000_000
_MOST_DAYS = 1_000
# a place holds a weight for every advertiser
_BYTES_OF_RECENT_PLACES = 1 << 25
_MOST_RECENT_PLACES = 256


class ServedModel:
    """One model and all that is asked of it; no answer of it ever changes.

    What is asked often is kept: grounds of advertisers, places of texts. Any number of threads
    may ask.

    Parameters
    ----------
    model : AdForecaster
        Sound: see :func:`~coterie.ads.service.model_checks.check_model`.
    version : str
        The first digits of the SHA-256 of its file.
    name : str
        Of its file, without folders.

    Attributes
    ----------
    tables : ForecastTables
    placer : Placer
    book : ProfileBook
    search : AdvertiserSearch
    loaded_at : datetime
        In UTC.
    always : str
        What goes for every forecast, at any bid; most often nothing.
    highest : float
        The highest bid that the log has.
    """

    def __init__(self, model: AdForecaster, version: str, name: str) -> None:
        self.model = model
        self.version = version
        self.name = name
        self.loaded_at = datetime.now(UTC).replace(microsecond=0)
        self.tables = tables_of(model)  # which the book shares
        with ThreadPoolExecutor(1) as beside:  # the book's loops leave the interpreter to others
            book = beside.submit(ProfileBook, model)
            self.tables.warm()
            self.placer = Placer(model)
            self.search = AdvertiserSearch(model.advertisers_.tolist(), model.cost_, model.labels_)
            self.book = book.result()
        self.always = self.tables.remark(0.0)
        self.highest = float(model.edges_[-1]) / _MICROS
        self._heads: list[tuple[str, str, float] | None] = [None] * self.advertisers
        self._average_day = 1.0, told_supply(model.supply_, None)
        self._days: dict[date, tuple[float, str]] = {}
        self._recent = _RecentPlaces(self.placer, self.advertisers)

    @property
    def advertisers(self) -> int:
        """How many it knows."""
        return len(self.model.advertisers_)

    @property
    def tag(self) -> str:
        """What tells its answers from those of another model, or of another time (an ETag)."""
        return f'"{self.version}-{self.loaded_at.timestamp():.0f}"'

    def head(self, row: int) -> tuple[str, str, float]:
        """What all forecasts of an advertiser begin with: segment, grounds, auctions a day."""
        head = self._heads[row]
        if head is None:
            head = self.placer.segment(row), self.tables.why(row), self.tables.supply(row)
            self._heads[row] = head
        return head

    def weekday(self, day: date | None) -> tuple[float, str]:
        """By what a day differs from an average one, and how that is told."""
        if day is None:
            return self._average_day
        told = self._days.get(day)
        if told is None:
            supply = self.model.supply_
            told = float(supply.weekday[day.weekday()]), told_supply(supply, day)
            if len(self._days) < _MOST_DAYS:
                self._days[day] = told
        return told

    def placed(self, text: str) -> Placement:
        """The place of an advertiser that is not known, by its text, under no name."""
        return self._recent.placed(text)

    def found(
        self, text: str = "", segment: int | None = None, page: int = 1, page_size: int = 20
    ) -> dict[str, Any]:
        """A page of advertisers by a part of their id, ready for JSON."""
        found = self.search.page(text, segment=segment, page=page, page_size=page_size)
        return {
            "items": [self._item(row) for row in found.rows.tolist()],
            "page": found.page,
            "pages": found.pages,
            "total": found.total,
        }

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
    """Load a model and make it ready to answer.

    Parameters
    ----------
    path : Path
        Of a model file.
    version : str
        From :func:`file_version`.

    Raises
    ------
    CoterieError
        Where there is no model, or it is not one that can be served.
    """
    model = load_forecaster(path)
    check_model(model)
    return ServedModel(model, version, path.name)


def file_version(path: Path) -> str:
    """The version of a model file: by its content alone.

    Raises OSError where it cannot be read.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "market.coterie"
    >>> _ = file.write_bytes(b"")
    >>> file_version(file)
    'e3b0c44298fc'
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:_VERSION_DIGITS]


class _RecentPlaces:
    """Places of the texts asked about last: whoever moves a bid asks about one text many times.

    Texts are kept as long as their places take little memory in all.
    """

    def __init__(self, placer: Placer, advertisers: int) -> None:
        self._placer = placer
        self._most = min(max(_BYTES_OF_RECENT_PLACES // (8 * advertisers), 1), _MOST_RECENT_PLACES)
        self._places: OrderedDict[str, Placement] = OrderedDict()
        self._lock = threading.Lock()

    def placed(self, text: str) -> Placement:
        with self._lock:
            found = self._places.get(text)
            if found is not None:
                self._places.move_to_end(text)
                return found
        found = self._placer.placed(None, text)
        with self._lock:
            self._places[text] = found
            if len(self._places) > self._most:
                self._places.popitem(last=False)
        return found
