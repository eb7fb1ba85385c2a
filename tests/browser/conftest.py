"""A real browser for pages, and what a page asked of the network and told the console."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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
        self.page.set_default_timeout(60_000)
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """Headless Chromium; closed after this folder, for its event loop is in others' way."""
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


@pytest.fixture(scope="module")
def new_tab(browser: Any) -> Iterator[Callable[..., Opened]]:
    """Open an empty tab; tabs with the same settings share a window, and so its cache."""
    windows: dict[str, Any] = {}

    def opened(*, width: int = 1280, own_window: bool = False, **settings: Any) -> Opened:
        settings["viewport"] = {"width": width, "height": 900}
        name = repr(sorted(settings.items()))
        if own_window or name not in windows:
            windows[name] = browser.new_context(**settings)
            windows[name].new_page()  # keeps the window open, since a new one takes long
        return Opened(windows[name].new_page())

    yield opened
    for window in browser.contexts:
        window.close()


@pytest.fixture(scope="module")
def shared_tab(new_tab: Callable[..., Opened]) -> Callable[[str], Opened]:
    """A page that tests of a module share, since they leave it as it is."""
    tabs: dict[str, Opened] = {}

    def opened(address: str, **settings: Any) -> Opened:
        if address not in tabs:
            tabs[address] = new_tab(**settings)
            tabs[address].page.goto(address)
        return tabs[address]

    return opened


@pytest.fixture
def open_tab(new_tab: Callable[..., Opened]) -> Iterator[Callable[..., Opened]]:
    """Open an address in a tab that is closed after the test; settings are those of a window."""
    tabs = []

    def opened(address: str, *, script: str = "", **settings: Any) -> Opened:
        # a script may replace the clock, which is that of a whole window
        tab = new_tab(own_window=bool(script), **settings)
        tabs.append(tab)
        if script:
            tab.page.add_init_script(script)
        tab.page.goto(address)
        return tab

    yield opened
    for tab in tabs:
        tab.page.close()


@pytest.fixture
def open_address(open_tab: Callable[..., Opened]) -> Callable[..., Opened]:
    """Open the page of a service, and wait until it has all it asked for."""

    def opened(address: str, *, settled: bool = True, **settings: Any) -> Opened:
        tab = open_tab(address, **settings)
        if settled:
            tab.page.wait_for_selector("body[data-state=settled]")
        return tab

    return opened


@pytest.fixture(scope="package")
def market() -> Any:
    """A fitted forecaster whose ids are as bad as ids get."""
    from fitted_models import small_model

    return small_model()


@pytest.fixture(scope="package")
def address(market: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a real service of that forecaster listens."""
    from running_service import running_service

    with running_service(market, tmp_path_factory.mktemp("service")) as service:
        yield service.address


@pytest.fixture(scope="package")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Any], str]]:
    """Put a model into a second service, which tests may change; where it listens."""
    from coterie.ads.service.served_model import file_version
    from markets import odd_model
    from running_service import running_service, wait_until

    with (
        running_service(odd_model("one won bid"), tmp_path_factory.mktemp("other")) as service,
        service.client() as client,
    ):

        def put(model: Any) -> str:
            service.replace_model(model)
            version = file_version(service.model)
            wait_until(lambda: client.get("/v1/model").json()["version"] == version)
            return service.address

        yield put
