"""The files of the folder ``page``: those that report and service share, and those of the service.

The report embeds the shared scripts and the style, the service serves them as files; both show the
same panel, drawn by the same scripts. The page of the service holds nothing of the model: it is the
same for all users, and asks the service, with a token where one is needed, for all that it shows.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple

import coterie
from coterie.ads.forecasts.forecast_figures import MOST_DAYS
from coterie.runtime.html_pages import page_templates

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
    "decisions.js",
    "side_by_side.js",
    "what_if.js",
    "segment_charts.js",
)
STYLE = "page.css"
SERVICE_SCRIPTS = (
    *SHARED_SCRIPTS,
    "page_address.js",
    "service_calls.js",
    "service_notices.js",
    "forecast_source.js",
    "exports.js",
    "service_advertisers.js",
    "service_segments.js",
    "service_page.js",
)
SERVICE_STYLES = (STYLE, "service.css")
_TYPES = {"js": "text/javascript", "css": "text/css", "html": "text/html"}
_HASH_DIGITS = 16


def page_file(name: str) -> str:
    """Return the text of one file of the folder ``page``."""
    return resources.files("coterie.ads").joinpath("page", name).read_text(encoding="utf-8")


class ServedFile(NamedTuple):
    """A file of the service's page, ready to be sent."""

    body: bytes
    media: str  # its content type
    hash: str  # of the body, in the address of the file and in its ETag
    zipped: bytes  # the body in gzip


@cache
def served_files() -> Mapping[str, ServedFile]:
    """Return the page of the service, under the name "", and its scripts and styles by name."""

    def made(name: str, text: str) -> ServedFile:
        body = text.encode()
        digest = hashlib.sha256(body).hexdigest()[:_HASH_DIGITS]
        media = f"{_TYPES[name.rsplit('.', 1)[1]]}; charset=utf-8"
        return ServedFile(body, media, digest, gzip.compress(body, mtime=0))

    files = {name: made(name, page_file(name)) for name in (*SERVICE_STYLES, *SERVICE_SCRIPTS)}
    addresses = {name: f"assets/{name}?v={file.hash}" for name, file in files.items()}
    text = (
        page_templates("coterie.ads")
        .get_template("service.html")
        .render(
            version=coterie.__version__,
            most_days=MOST_DAYS,
            styles=[addresses[name] for name in SERVICE_STYLES],
            scripts=[addresses[name] for name in SERVICE_SCRIPTS],
        )
    )
    return {"": made("service.html", text), **files}
