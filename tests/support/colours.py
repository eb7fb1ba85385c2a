"""How a page looks: colours and their contrast, the width of the screen, findings of axe-core."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from typing import Any

import numpy as np
import pytest


def colour(page: Any, place: str, what: str) -> list[float]:
    """A colour of the first element found, as red, green and blue from 0 to 1."""
    drawn = page.evaluate(
        """([place, what]) => {
          const pen = new OffscreenCanvas(1, 1).getContext("2d");
          pen.fillStyle = getComputedStyle(document.querySelector(place))[what];
          pen.fillRect(0, 0, 1, 1);
          return [...pen.getImageData(0, 0, 1, 1).data];
        }""",
        [place, what],
    )
    return [value / 255 for value in drawn[:3]]


def luminance(channels: list[float]) -> float:
    """Relative luminance, as the accessibility guidelines define it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def contrast(one: list[float], other: list[float]) -> float:
    """Contrast ratio, as the accessibility guidelines define it, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def can_be_read(page: Any, scheme: str, places: Iterable[str]) -> None:
    """Text stands out from its ground by 4.5 to 1 at least, in a colour scheme."""
    page.emulate_media(color_scheme=scheme)
    ground = colour(page, "body", "backgroundColor")
    assert (luminance(ground) < 0.1) == (scheme == "dark")
    for place in places:
        fill = "fill" if "chart" in place else "color"
        assert contrast(colour(page, place, fill), ground) >= 4.5, place


def fits_phones(page: Any) -> None:
    """Nothing makes the page wider than a phone, with every part opened."""
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true })")
    for width in (360, 390, 768):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        chart = page.locator("#impressions-chart svg").bounding_box()
        assert 0 <= chart["x"] <= chart["x"] + chart["width"] <= width


def serious_findings(page: Any) -> list[tuple[str, list[str]]]:
    """Open every part of a page; return what axe-core finds serious or critical, and where."""
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    axe = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true })")
    page.evaluate(axe)
    # details of what passes would take longer than the checks
    found = page.evaluate("axe.run({resultTypes: ['violations']}).then((all) => all.violations)")
    serious = [one for one in found if one["impact"] in {"serious", "critical"}]
    return [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in serious]
