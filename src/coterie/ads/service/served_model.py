"""The model that answers: loaded from a file, made ready, and replaced while requests arrive."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import hashlib
import logging
import threading
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET
from numpy.typing import ArrayLike, NDArray

import coterie
from coterie.ads.curves.landscapes import PER_UNIT
from coterie.ads.forecasts.fitted_market import FittedMarket, load_market
from coterie.ads.forecasts.forecast_figures import describe_days
from coterie.ads.forecasts.forecast_tables import PeriodLevels, tables_of
from coterie.ads.forecasts.placement import Placement
from coterie.ads.forecasts.profiles import Profiles
from coterie.ads.protocol import (
    Advertiser,
    AdvertiserItem,
    AdvertiserPage,
    AdvertiserQuery,
    ModelVersion,
    Refusal,
    Segments,
)
from coterie.ads.protocol.faults import printable
from coterie.ads.service.monitoring import Metrics
from coterie.errors import CoterieError, ModelFileError
from coterie.models import content_checksum, opened_model

_LOG = logging.getLogger("coterie")
_VERSION_DIGITS = 12
_MICROS = 1_000_000
# more than one request can ask about
_MOST_PERIODS = 2_000
# a placement holds a weight for every advertiser
_PLACEMENT_BYTES, _MOST_PLACEMENTS = 1 << 25, 256


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
        self.model, self.name, self.version = model, name, ModelVersion(version)
        self.currency = model.currency_
        self.loaded_at = datetime.now(UTC).replace(microsecond=0)
        #: Identifies its answers, as an ETag; the same in all workers.
        self.tag = f'"{version}-{coterie.__version__}"'
        self.tables = tables_of(model)
        self.placer = placer = self.tables.placer
        self.names: list[str] = model.advertisers_.tolist()
        self.segment_names = [placer.segment(row) for row in range(len(self.names))]
        self.has_clicks = model.click_rate_ is not None
        self.has_conversions = model.conversion_rate_ is not None
        threads = ThreadPoolExecutor(2, "details")
        self._book = threads.submit(Profiles, model)
        self._search = threads.submit(_make_search, model)
        threads.shutdown(wait=False)
        self._segments: tuple[bytes, bytes] | None = None
        self._periods: dict[tuple[date | None, int], Period] = {}
        self.average_day = self.period(None, 1)

        # what makes a placement does not refer to this object: a cycle would keep it in memory
        @lru_cache(min(max(_PLACEMENT_BYTES // (8 * len(self.names)), 1), _MOST_PLACEMENTS))
        def place(text: str) -> Placement:
            return placer.placed_by_texts([text])[0]

        #: Returns the placement of an advertiser that is not known, by its text.
        self.place = place

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
        found = self._periods.get((first, days))
        if found is None:
            levels, always = self.model.price_levels_, self.tables.always
            found = Period(
                self.tables.days(first, days),
                describe_days(levels, first, days, True) + always,
                describe_days(levels, first, days, False) + always,
            )
            if len(self._periods) >= _MOST_PERIODS:
                self._periods.clear()
            self._periods[first, days] = found
        return found

    def has_period(self, first: date | None, days: int) -> bool:
        """Whether :meth:`period` answers immediately."""
        return (first, days) in self._periods

    def page(self, query: AdvertiserQuery) -> AdvertiserPage:
        """Return a page of advertisers whose id contains a text."""
        segment = None if query.segment is UNSET else query.segment
        page, page_size = query.page, query.page_size
        rows, total = self._search.result().page(
            query.search, segment=segment, sort=query.sort, page=page, page_size=page_size
        )
        model = self.model
        items = [
            AdvertiserItem(
                self.names[row],
                int(model.labels_[row]) if model.segments_ else None,
                self.segment_names[row],
                min(max(float(model.confidence_[row]), 0.0), 1.0),
                float(model.observations_[row]),
                float(model.bid_[row]) / _MICROS,
                float(model.cost_[row]) / PER_UNIT,
            )
            for row in rows.tolist()
        ]
        return AdvertiserPage(items, page, max(-(-total // page_size), 1), total)

    def advertiser(self, row: int) -> Advertiser:
        """Return what is known of one advertiser."""
        return msgspec.convert(self.book.advertiser(row), Advertiser)

    def segments(self) -> tuple[bytes, bytes]:
        """Return all segments with their curves as JSON, plain and in gzip."""
        if self._segments is None:
            found = {"grid": self.book.grid, "segments": self.book.segments()}
            body = msgspec.json.encode(msgspec.convert(found, Segments))
            self._segments = body, compressed(body)
        return self._segments


def compressed(body: bytes) -> bytes:
    """Return a body in gzip, at the fastest level; the lock of the interpreter is released."""
    return zlib.compress(body, 1, wbits=31)


def load_served(path: Path, version: str, *, whole: bool) -> ServedModel:
    """Load a model and make it ready to answer; refuse one that cannot be served.

    Unless ``whole``, threads may still be making its details.
    """
    served = ServedModel(load_market(path), version, printable(path.name))
    try:
        day = served.average_day.table
        served.tables.one(0, 2 * served.tables.highest, served.tables.supply(0, day), day, False)
        if whole:
            msgspec.json.encode([served.book.summary(), served.advertiser(0)])
            served.segments()
            served.page(AdvertiserQuery())
    except Exception as error:  # whatever it is, the model cannot give its first answers
        raise ModelFileError(
            f"its model cannot answer ({type(error).__name__}); make it again"
        ) from error
    return served


def file_version(path: Path, *, verified: bool = False) -> str:
    """Return the version of a model file, from the checksum of its content.

    A file that is no model file has a version, too. With ``verified``, damage is an error.
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


class ModelHolder:
    """Holds the model that answers, and replaces it by the one in its file.

    A new model is loaded and checked next to the old one, in a thread; then one assignment replaces
    it. A request keeps the model that it began with. A file that cannot be served is refused: the
    old model stays, and ``last_refusal`` has the reason until another file is taken.

    The first model is loaded at once; an error if it cannot be served.
    """

    def __init__(self, path: Path, metrics: Metrics) -> None:
        self.path = path
        self.current: ServedModel
        self.last_refusal: Refusal | None = None
        self._metrics = metrics
        self._one_at_a_time = threading.Lock()
        # not the thread of requests: long ones would delay a new model
        self._thread = ThreadPoolExecutor(1, "reload")
        model = self._loaded(None)
        assert model is not None
        self._take(model)

    def reload(self) -> bool:
        """Take the model that the file holds now; return whether it is the current one."""
        with self._one_at_a_time:
            try:
                return self._taken_or_refused()
            finally:
                _give_back_memory()

    async def reload_soon(self) -> None:
        """Call :meth:`reload` in a thread."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self.reload)

    async def watch(self, interval: float = 1.0) -> None:
        """Reload whenever the file changes, until cancelled.

        A file that was refused is tried again only when it changes.
        """
        while True:
            await asyncio.sleep(interval)
            if _identity(self.path) != self._tried:
                await self.reload_soon()

    def _taken_or_refused(self) -> bool:
        try:
            model = self._loaded(self.current.version.version)
        except _ChangingFileError:
            _LOG.info("%s is being written; it is looked at again", self.path.name)
            return False
        except CoterieError as error:
            # without folders: clients read it
            self._refuse(str(error).replace(str(self.path), self.path.name))
            return False
        except Exception as error:  # a defect met by an odd file must not end the service
            _LOG.exception("Loading %s failed because of a defect", self.path.name)
            self._refuse(f"{self.path.name} cannot be loaded ({type(error).__name__})")
            return False
        if model is None:
            self.last_refusal = None
            _LOG.info("%s is the current model already", self.path.name)
        else:
            self._take(model)
            self._metrics.reloads_taken.inc()
        return True

    def _loaded(self, current: str | None) -> ServedModel | None:
        """Return the model in the file; None if its version is the current one."""
        self._tried = _identity(self.path)
        try:
            version = file_version(self.path)
            if version != current:
                # the first model answers before its details are made
                return load_served(self.path, version, whole=current is not None)
            # the same checksum is no reason to take a damaged file for it
            file_version(self.path, verified=True)
            return None
        except OSError as error:
            raise ModelFileError(f"cannot read {self.path}: {error.strerror or error}") from error
        finally:
            if _identity(self.path) != self._tried:
                raise _ChangingFileError(f"{self.path} changed while it was read; try again")

    def _take(self, model: ServedModel) -> None:
        self.current = model
        self.last_refusal = None
        self._metrics.model_loaded.set(model.loaded_at.timestamp())
        self._metrics.model_advertisers.set(len(model.names))
        _LOG.info(
            "Serving %s, version %s, of %s advertisers",
            model.name,
            model.version.version,
            f"{len(model.names):,}",
        )

    def _refuse(self, reason: str) -> None:
        reason = printable(reason)  # it may quote the file
        now = datetime.now(UTC).replace(microsecond=0)
        self.last_refusal = Refusal(now.isoformat(), reason)
        self._metrics.reloads_refused.inc()
        _LOG.warning("The former model stays: %s", reason)


class _ChangingFileError(ModelFileError):
    """A file that changed while it was read."""


def _give_back_memory() -> None:
    """Return the memory of the old model to the system; the C library keeps it otherwise."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _identity(path: Path) -> tuple[int, ...] | None:
    """Return device, inode, size and the times of the last changes; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


class AdvertiserSearch:
    """Finds advertisers by a part of their id, in upper or lower case.

    The id that is the very text comes first, then ids that begin with it, then those that hold
    it elsewhere; within each kind those that spend most come first, and of equals the one that
    comes first in the model. An empty text finds all. ``labels`` has the segments, −1 for none,
    ``columns`` numbers to sort by in addition to "id" and "spend".
    """

    def __init__(
        self,
        ids: Sequence[str],
        spend: ArrayLike,
        labels: ArrayLike,
        columns: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        # ids are in the order they are shown in, so that nothing found need be sorted
        self._rows = np.argsort(-np.asarray(spend, dtype=np.float64), kind="stable")
        self._labels = np.asarray(labels)[self._rows]
        folded = [_folded(ids[row]) for row in self._rows.tolist()]
        self._ids = pa.array(folded, pa.large_binary())
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
    ) -> tuple[NDArray[np.int64], int]:
        """Return the rows on a page, from 1, and how many advertisers were found in all.

        ``sort`` is the name of a column, with a minus sign for the largest first. Rows with equal
        values stay in the usual order.
        """
        found = np.arange(len(self._rows))
        if needle := _folded(text):
            at = pc.find_substring(self._ids, needle).to_numpy()
            whole = (at == 0) & (pc.binary_length(self._ids).to_numpy() == len(needle))
            kinds = (whole, (at == 0) & ~whole, at > 0)
            found = np.concatenate([np.flatnonzero(kind) for kind in kinds])
        if segment is not None:
            found = found[self._labels[found] == segment]
        if sort:
            values = self._columns[sort.removeprefix("-")][found]
            found = found[np.argsort(-values if sort.startswith("-") else values, kind="stable")]
        first = (page - 1) * page_size
        return self._rows[found[first : first + page_size]], len(found)


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
