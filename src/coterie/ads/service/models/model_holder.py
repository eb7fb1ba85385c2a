"""The model of now: how it is loaded, and how another takes its place while questions come in.

The new model is loaded, checked and warmed beside the old one, in a thread; then one assignment
puts it in place. A request keeps the model that it began with. A file that cannot be served is
refused: the old model stays, and why is remembered.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.ads.service.models.served_model import ServedModel, file_version, printable, ready
from coterie.errors import CoterieError, ModelFileError

if TYPE_CHECKING:
    from coterie.ads.service.metrics import Metrics

__all__ = ["ModelHolder", "Refusal"]

_LOG = logging.getLogger("coterie")

# device, inode, size, and when content and entry last changed; None where there is no file
_Identity = tuple[int, ...] | None


@dataclass(frozen=True)
class Refusal:
    """A model file that was not taken."""

    at: datetime  # in UTC
    reason: str  # without any folder: clients read it


class ModelHolder:
    """Holds the model that answers, and replaces it by the one its file holds.

    ``load`` makes a model of a path and a version, and ``load_first`` the first one.
    ``last_refusal`` is the last file that was refused; None once another was taken.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        metrics: Metrics | None = None,
        load: Callable[[Path, str], ServedModel] = ready,
        load_first: Callable[[Path, str], ServedModel] | None = None,
    ) -> None:
        self.path = Path(path)
        self.last_refusal: Refusal | None = None
        self._metrics = metrics
        self._load = load
        self._load_first = load_first or load
        self._current: ServedModel | None = None
        self._tried: _Identity = None
        self._one_at_a_time = threading.Lock()
        self._asking = threading.Lock()
        self._asked = self._answered = 0
        self._outcome = False
        self._reloads = ThreadPoolExecutor(1, "reloads")  # others may be busy, or held up by it

    @property
    def current(self) -> ServedModel:
        """The model of now."""
        if self._current is None:
            raise RuntimeError("no model was loaded; call load_first")
        return self._current

    def load_first(self) -> None:
        """Load the model that the service begins with; an error where it cannot be served."""
        with self._one_at_a_time:
            self._take(self._loaded())

    def reload(self) -> bool:
        """Take the model that the file holds now, and tell whether it is the model of now.

        Whoever asks while another reload is under way waits for one that began afterwards, and
        shares it with all who asked meanwhile.
        """
        with self._asking:
            self._asked += 1
            ticket = self._asked
        with self._one_at_a_time:
            if self._answered < ticket:
                with self._asking:
                    covered = self._asked
                self._outcome = self._reloaded()
                self._answered = covered
            return self._outcome

    async def watch(self, interval: float = 1.0) -> None:
        """Look at the file again and again, and reload whenever it is another; until cancelled.

        A file that was refused is tried again only when it changes.
        """
        while True:
            await asyncio.sleep(interval)
            if _identity(self.path) != self._tried:
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self._reloads, self.reload)

    def _reloaded(self) -> bool:
        try:
            return self._taken_or_refused()
        finally:
            _give_back_memory()

    def _taken_or_refused(self) -> bool:
        try:
            found = self._loaded()
        except _ChangingFileError:
            _LOG.info("%s is being written; it is looked at again", self.path.name)
            return False
        except CoterieError as error:
            self._refuse(self._shown(error))
            return False
        except Exception as error:  # a defect met by an odd file must not end the service
            _LOG.exception("Loading %s failed by a defect", self.path.name)
            self._refuse(f"{self.path.name} cannot be loaded ({type(error).__name__})")
            return False
        if found is None:
            self.last_refusal = None
            _LOG.info("%s is the model of now already", self.path.name)
            return True
        self._take(found)
        if self._metrics is not None:
            self._metrics.reload_taken()
        return True

    def _loaded(self) -> ServedModel | None:
        """Return the model in the file; None where that is the model of now."""
        self._tried = before = _identity(self.path)
        found: ServedModel | CoterieError | None = None
        try:
            version = file_version(self.path)
            if self._current is None:
                found = self._load_first(self.path, version)
            elif self._current.version != version:
                found = self._load(self.path, version)
            else:  # the same by its checksum: no reason to take a damaged file for it
                file_version(self.path, verified=True)
        except OSError as error:
            found = ModelFileError(f"cannot read {self.path}: {error.strerror or error}")
        except CoterieError as error:
            found = error
        try:
            if _identity(self.path) != before:
                raise _ChangingFileError(f"{self.path} changed while it was read; try again")
            if isinstance(found, CoterieError):
                raise found
            return found
        finally:
            del found  # an error has hold of this frame, and would keep what was loaded alive

    def _take(self, model: ServedModel | None) -> None:
        if model is None:
            return
        self._current = model
        self.last_refusal = None
        if self._metrics is not None:
            self._metrics.model_in_use(model.loaded_at.timestamp(), model.advertisers)
        _LOG.info(
            "Serving %s, version %s, of %s advertisers",
            model.name,
            model.version,
            f"{model.advertisers:,}",
        )

    def _refuse(self, reason: str) -> None:
        reason = printable(reason)  # it may quote the file
        self.last_refusal = Refusal(datetime.now(UTC).replace(microsecond=0), reason)
        if self._metrics is not None:
            self._metrics.reload_refused()
        _LOG.warning("The model of before stays: %s", reason)

    def _shown(self, error: CoterieError) -> str:
        """Return what is wrong with the file, without the folders it lies in."""
        return str(error).replace(str(self.path), self.path.name)


class _ChangingFileError(ModelFileError):
    """A file that changed while it was read: what was read is of no one version."""


def _give_back_memory() -> None:
    """Have the C library give back what the old model took; by itself it keeps what was freed."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _identity(path: Path) -> _Identity:
    try:
        told = path.stat()
    except OSError:
        return None
    return (told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns)
