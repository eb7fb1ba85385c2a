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
        started = driver.chromium.launch(
            executable_path=chromium, args=list(FLAGS), timeout=180_000
        )
        yield started
        started.close()


@pytest.fixture
def open_window(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open fresh windows with nothing in them; settings are those of a window."""
    windows = []

    def opened(*, width: int = 1280, height: int = 900, **settings: Any) -> Any:
        window = browser.new_context(viewport={"width": width, "height": height}, **settings)
        windows.append(window)
        return window

    yield opened
    for window in windows:
        window.close()


@pytest.fixture
def open_page(open_window: Callable[..., Any]) -> Callable[..., Opened]:
    """Open a file in a fresh window without a network; settings are those of a window."""

    def opened(path: Path, **settings: Any) -> Opened:
        tab = Opened(open_window(offline=True, **settings).new_page())
        tab.page.goto(path.as_uri())
        return tab

    return opened


@pytest.fixture
def open_address(open_window: Callable[..., Any]) -> Callable[..., Opened]:
    """Open the page of a service in a fresh window, and wait until it has all it asked for."""

    def opened(address: str, *, settled: bool = True, script: str = "", **settings: Any) -> Opened:
        tab = Opened(open_window(**settings).new_page())
        tab.page.set_default_timeout(60_000)
        if script:
            tab.page.add_init_script(script)
        tab.page.goto(address)
        if settled:
            tab.page.wait_for_selector("body[data-state=settled]")
        return tab

    return opened


@pytest.fixture(scope="session")
def market() -> Any:
    """A fitted forecaster whose ids are as bad as ids get."""
    from fitted_models import small_model

    return small_model()


@pytest.fixture(scope="session")
def address(market: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a real service of that forecaster listens."""
    from running_service import running_service

    with running_service(market, tmp_path_factory.mktemp("service")) as service:
        yield service.address
