"""The current model: how it is loaded, and how another replaces it while requests arrive.

The new model is loaded and checked beside the old one, in a thread; then one assignment replaces
it. A request keeps the model that it began with. A file that cannot be served is refused: the old
model stays, and the reason is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from coterie.ads.protocol import Refusal, printable
from coterie.ads.service.monitoring import Metrics
from coterie.ads.service.served_model import ServedModel, file_version, load_served
from coterie.errors import CoterieError, ModelFileError

_LOG = logging.getLogger("coterie")

# device, inode, size, times of the last changes; None if there is no file
_Identity = tuple[int, ...] | None


class ModelHolder:
    """Holds the model that answers, and replaces it by the one in its file.

    ``last_refusal`` is the last file that was refused; None once another was taken. ``load`` makes
    a model of a path and a version.
    """

    def __init__(
        self,
        path: str | Path,
        metrics: Metrics,
        *,
        load: Callable[..., ServedModel] = load_served,
    ) -> None:
        self.path = Path(path)
        self.last_refusal: Refusal | None = None
        self._metrics = metrics
        self._load = load
        self._current: ServedModel | None = None
        self._tried: _Identity = None
        self._one_at_a_time = threading.Lock()
        # not the thread of requests: long ones would delay a new model
        self._thread = ThreadPoolExecutor(1, "reload")

    @property
    def current(self) -> ServedModel:
        """The model that answers now."""
        if self._current is None:
            raise RuntimeError("no model was loaded; call load_first")
        return self._current

    def load_first(self) -> None:
        """Load the first model; an error if it cannot be served."""
        with self._one_at_a_time:
            model = self._loaded()
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
            model = self._loaded()
        except _ChangingFileError:
            _LOG.info("%s is being written; it is looked at again", self.path.name)
            return False
        except CoterieError as error:
            # without folders: clients read it
            self._refuse(str(error).replace(str(self.path), self.path.name))
            return False
        except Exception as error:  # a defect met by an odd file must not end the service
            _LOG.exception("Loading %s failed by a defect", self.path.name)
            self._refuse(f"{self.path.name} cannot be loaded ({type(error).__name__})")
            return False
        if model is None:
            self.last_refusal = None
            _LOG.info("%s is the current model already", self.path.name)
        else:
            self._take(model)
            self._metrics.reloads_taken.inc()
        return True

    def _loaded(self) -> ServedModel | None:
        """Return the model in the file; None if it is the current one."""
        self._tried = before = _identity(self.path)
        outcome: ServedModel | CoterieError | None = None
        try:
            version = file_version(self.path)
            if self._current is None:
                outcome = self._load(self.path, version, whole=False)
            elif self._current.version.version != version:
                outcome = self._load(self.path, version)
            else:  # the same checksum is no reason to take a damaged file for it
                file_version(self.path, verified=True)
        except OSError as error:
            outcome = ModelFileError(f"cannot read {self.path}: {error.strerror or error}")
        except CoterieError as error:
            outcome = error
        try:
            if _identity(self.path) != before:
                raise _ChangingFileError(f"{self.path} changed while it was read; try again")
            if isinstance(outcome, CoterieError):
                raise outcome
            return outcome
        finally:
            del outcome  # an error holds this frame, and would keep what was loaded alive

    def _take(self, model: ServedModel) -> None:
        self._current = model
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


def _identity(path: Path) -> _Identity:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
