"""Files and templates that the report and the page of the service share.

Scripts, style and templates are in the folder ``page``. The report embeds them, the service
serves them as separate files; both show the same panel, drawn by the same scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

from coterie.runtime.html_pages import page_templates

if TYPE_CHECKING:
    import jinja2

__all__ = ["SHARED_SCRIPTS", "STYLE", "WEEKDAYS", "environment", "page_file"]

# A script uses only scripts before it.
SHARED_SCRIPTS = (
    "nodes.js",
    "numbers.js",
    "bid_scales.js",
    "charts.js",
    "combobox.js",
    "tables.js",
    "forecast_words.js",
    "what_if_fields.js",
    "day_chart.js",
    "decisions.js",
    "side_by_side.js",
    "what_if.js",
    "segment_charts.js",
    "bid_shares.js",
)
STYLE = "page.css"
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def page_file(name: str) -> str:
    """Return the text of one file of the folder ``page``.

    >>> page_file("nodes.js").splitlines()[0]
    '"use strict";'
    """
    return resources.files("coterie.ads").joinpath("page", name).read_text(encoding="utf-8")


def environment(
    filters: Mapping[str, Callable[..., Any]] | None = None,
) -> jinja2.Environment:
    """Return the Jinja environment of the folder ``page``; all values are escaped.

    ``filters`` are in addition to those of :mod:`coterie.runtime.wording`.
    """
    return page_templates("coterie.ads", filters)
