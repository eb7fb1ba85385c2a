"""What tests of pages do with them: wait, choose, read their figures, try what is forbidden."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any
from urllib.parse import urlencode

from coterie.ads.forecasts.forecast_figures import Forecast
from coterie.runtime import wording as words

#: Milliseconds; generous, for the machine may be busy with other things.
PATIENCE = 60_000

#: Where the page shows a figure, and how it writes it.
TILES = {
    "impressions": ("impressions", words.format_count),
    "spend": ("spend", lambda amount: words.money(amount, "$")),
    "win": ("win_rate", words.percent),
    "cost": ("cost", lambda amount: words.money(amount, "$")),
    "clicks": ("clicks", words.format_count),
    "conversions": ("conversions", words.format_count),
}


def link(address: str, **asked: Any) -> str:
    """A link that asks something of the page."""
    return f"{address}/#{urlencode(asked)}"


def settle(page: Any) -> None:
    """Wait until the page has drawn the answers to everything it asked."""
    page.wait_for_selector("body[data-state=settled]", timeout=PATIENCE)


def choose(page: Any, query: str, name: str) -> None:
    """Search for an advertiser and take the one of a name."""
    page.fill("#advertiser", query)
    option = page.locator("#advertisers-found [role=option]", has_text=name).first
    option.click(timeout=PATIENCE)
    page.locator("#sentence .id").filter(has_text=name).wait_for(timeout=PATIENCE)
    settle(page)


def set_bid(page: Any, bid: float | str) -> None:
    """Type a bid, and wait for the figures at it."""
    page.fill("#bid", str(bid))
    settle(page)


def exact(page: Any, place: str) -> list[float]:
    """The exact numbers behind what a place shows."""
    found = page.locator(f"{place} data").evaluate_all("all => all.map(one => one.value)")
    return [float(value) for value in found]


def shows(page: Any, expected: Forecast, mean: Forecast | None) -> bool:
    """Whether the tiles show a forecast, to the last bit beneath and as numbers are written."""
    for tile, (name, format_) in TILES.items():
        value = getattr(expected, name)
        if value is None:
            assert page.locator(f"#{tile}").is_hidden()
            continue
        assert exact(page, f"#{tile}-value") == [value], tile
        assert page.inner_text(f"#{tile}-value") == format_(value)
        interval = getattr(expected, f"{name}_interval", None)
        if interval is not None:
            written = words.format_span(interval, format_)
            ends = list(interval) if "–" in written else [interval[1]]
            assert exact(page, f"#{tile}-small") == ends, tile
            assert page.inner_text(f"#{tile}-small").split()[-1] == written
        if mean is not None:
            before = getattr(mean, name)
            assert exact(page, f"#{tile}-change") == [before]
            assert format_(before) in page.inner_text(f"#{tile}-change")
    return True


def drawn(page: Any, chart: str, kind: str) -> list[tuple[float, float]]:
    """The points of a line of a chart, as (bid, value), read from its axes as a person would."""
    read = page.evaluate(
        """([chart, kind]) => {
          const svg = document.querySelector(`#${chart}-chart svg`);
          const ticks = (type) => [...svg.querySelectorAll(`.axes text.${type}:not(.title)`)]
            .map((text) => [text.textContent, text.x.baseVal[0].value, text.y.baseVal[0].value]);
          const path = svg.querySelector(`path.line.${kind}`).getAttribute("d");
          return { across: ticks("middle"), up: ticks("end"), path };
        }""",
        [chart, kind],
    )
    across = [(_number(text), x) for text, x, _ in read["across"]]
    up = [(_number(text), y - 4) for text, _, y in read["up"]]
    points = re.findall(r"([-\d.]+) ([-\d.]+)", read["path"])
    return [(_between(across, float(x)), _between(up, float(y))) for x, y in points]


def refuses_markup(page: Any) -> None:
    """The policy of a page forbids markup made of text, scripts, and requests to other hosts."""
    for attempt in (
        "document.body.innerHTML = '<b>x</b>'",
        "document.body.insertAdjacentHTML('beforeend', '<b>x</b>')",
        "document.createElement('script').text = '1'",
    ):
        refused = f"(() => {{ try {{ {attempt}; return false }} catch (e) {{ return true }} }})()"
        assert page.evaluate(refused), attempt
    assert page.evaluate("fetch('http://127.0.0.1:9/').then(() => false, () => true)")


def _number(text: str) -> float:
    plain = text.lstrip("$")
    sizes = {"k": 1e3, "M": 1e6, "B": 1e9}
    return float(plain.rstrip("kMB")) * sizes.get(plain[-1], 1.0)


def _between(ticks: list[tuple[float, float]], pixel: float) -> float:
    """What a place on an axis means, from its ticks; bids far apart have a logarithmic axis."""
    (low, start), (high, end) = ticks[0], ticks[-1]
    if _is_linear(ticks):
        return low + (pixel - start) / (end - start) * (high - low)
    return float(low * (high / low) ** ((pixel - start) / (end - start)))


def _is_linear(ticks: list[tuple[float, float]]) -> bool:
    """Whether equal steps between ticks are equally long."""
    steps = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(ticks)]
    return max(steps) - min(steps) <= 0.05 * abs(steps[0])
