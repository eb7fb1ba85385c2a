"""A real browser for pages, and what a page asked of the network and told the console."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

# headless, without a sandbox (tests may run as root), and quiet: it asks the network for nothing
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass
class Opened:
    """A page in a tab of its own, with what it asked for and complained of."""

    page: Any
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium; closed after each module, for its event loop is in others' way."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Opened]]:
    """Open a file in a fresh window without a network; settings are those of a window."""
    windows = []

    def opened(path: Path, *, width: int = 1280, height: int = 900, **settings: Any) -> Opened:
        window = browser.new_context(
            viewport={"width": width, "height": height}, offline=True, **settings
        )
        windows.append(window)
        tab = Opened(window.new_page())
        tab.page.goto(path.as_uri())
        return tab

    yield opened
    for window in windows:
        window.close()
