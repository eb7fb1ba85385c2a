"""The files of the service's page, as they are served: page, scripts and styles.

The page holds nothing of the model: it is the same for all users, and asks the service, with a
token where one is needed, for all that it shows.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import coterie
from coterie.ads.page.parts import SHARED_SCRIPTS, STYLE, environment, page_file

__all__ = ["SCRIPTS", "STYLES", "PageFile", "page_files"]

#: In the order in which they need each other.
SCRIPTS = (
    *SHARED_SCRIPTS,
    "page_address.js",
    "service_calls.js",
    "service_notices.js",
    "forecast_source.js",
    "exports.js",
    "advertiser_search.js",
    "advertiser_details.js",
    "service_segments.js",
    "service_advertisers.js",
    "service_page.js",
)
STYLES = (STYLE, "service.css")
_TYPES = {"js": "text/javascript", "css": "text/css", "html": "text/html"}
_HASH_DIGITS = 16


@dataclass(frozen=True)
class PageFile:
    """One file of the page, ready to be sent."""

    body: bytes
    kind: str  # its content type
    hash: str  # of the body, in the address of the file and in its ETag
    zipped: bytes  # the body in gzip

    @classmethod
    def of(cls, name: str, text: str) -> PageFile:
        """Return a file of a name, whose ending tells its type.

        >>> PageFile.of("x.css", "p {}").kind
        'text/css; charset=utf-8'
        """
        body = text.encode()
        digest = hashlib.sha256(body).hexdigest()[:_HASH_DIGITS]
        kind = f"{_TYPES[name.rsplit('.', 1)[1]]}; charset=utf-8"
        return cls(body, kind, digest, gzip.compress(body, mtime=0))


@cache
def page_files() -> Mapping[str, PageFile]:
    """Return the page, under the name "", and its scripts and styles by their names.

    >>> sorted(page_files())[:3]
    ['', 'advertiser_details.js', 'advertiser_search.js']
    """
    files = {name: PageFile.of(name, page_file(name)) for name in (*STYLES, *SCRIPTS)}
    addresses = {name: f"assets/{name}?v={file.hash}" for name, file in files.items()}
    template = environment().get_template("service.html")
    page = template.render(
        version=coterie.__version__,
        styles=[addresses[name] for name in STYLES],
        scripts=[addresses[name] for name in SCRIPTS],
    )
    return {"": PageFile.of("page.html", page), **files}
