"""The real service in a process of its own, as a person would start it."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from coterie import save_model

#: Generous: the machine may be busy with other things.
PATIENCE = 60.0
_START_PATIENCE = 300.0

_SAYS = re.compile(rb"coterie is listening on (http://\S+)")


@dataclass
class RunningService:
    """A service that listens, and where to find it."""

    process: subprocess.Popen[bytes]
    address: str  # as the service says it, such as http://127.0.0.1:40123
    model: Path  # the file it serves
    log: Path  # what it wrote on its standard error stream

    @property
    def port(self) -> int:
        """The port that the system chose."""
        return int(self.address.rsplit(":", 1)[1])

    @property
    def logged(self) -> str:
        """What it has written on its standard error stream so far, in whole lines."""
        text = self.log.read_text()
        return text[: text.rfind("\n") + 1]

    def client(self, **settings: Any) -> httpx.Client:
        """A client for it, to be closed, that minds no proxy of the environment."""
        return httpx.Client(base_url=self.address, timeout=PATIENCE, trust_env=False, **settings)

    def replace_model(self, model: Any) -> None:
        """Put another model in the place of its file, in one step, as people should."""
        save_model(model, self.model)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def running_service(
    model: Any,
    folder: Path,
    *options: str,
    port: int = 0,
    environment: Mapping[str, str] | None = None,
) -> Iterator[RunningService]:
    """Start ``coterie ads serve`` on a model, wait until it listens, and end it afterwards.

    The model is one, written to ``folder / "market.coterie"``, or the path of one. The system
    chooses port 0. ``environment`` adds to that of the tests, whose COTERIE_TOKEN is left out.
    """
    file = model if isinstance(model, Path) else folder / "market.coterie"
    if not isinstance(model, Path):
        save_model(model, file)
    log = folder / f"service-{time.monotonic_ns()}.log"
    variables = {k: v for k, v in os.environ.items() if k != "COTERIE_TOKEN"}
    command = [sys.executable, "-m", "coterie", "ads", "serve", str(file), "--port", str(port)]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            env=variables | dict(environment or {}),
        ) as process,
    ):
        try:
            yield RunningService(process, _address(process, log), file, log)
        finally:
            _end(process)


def wait_until(condition: Callable[[], Any], what: str = "what was waited for") -> Any:
    """What a condition gives once it is true; a failure where that takes unreasonably long."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not come about"
        time.sleep(0.01)
    return found


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """What the service says it listens on; a failure with its log where it ends instead."""
    assert process.stdout is not None
    # one that neither listens nor ends is ended, so that reading what it says ends too
    impatience = threading.Timer(_START_PATIENCE, process.kill)
    impatience.start()
    try:
        for line in process.stdout:
            if found := _SAYS.search(line):
                return found[1].decode()
    finally:
        impatience.cancel()
    raise AssertionError(f"the service ended with {process.wait()}:\n{log.read_text()}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that may have ended already, by force if it does not obey."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
