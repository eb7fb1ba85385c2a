"""GET / and /assets/…: the what-if page, its scripts and its style.

The page holds nothing of the model: it is the same for all users, and asks the service, with a
token where one is needed, for all that it shows.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import coterie
from coterie.ads.page.parts import SHARED_SCRIPTS, STYLE, environment, page_file
from coterie.ads.service.problems import Problem
from coterie.ads.service.request_reading import accepts_gzip, has_tag

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = [
    "SCRIPTS",
    "STYLES",
    "PageFile",
    "page_answer",
    "page_files",
]

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
_FOR_EVER = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"
_CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
#: What a browser may do with the page: almost only what belongs to the page.
_POLICIES = {
    "Content-Security-Policy": _CONTENT_POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


@dataclass(frozen=True)
class PageFile:
    """One file as it is handed out."""

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
    template = environment(for_service=True).get_template("service.html")
    page = template.render(
        version=coterie.__version__,
        styles=[addresses[name] for name in STYLES],
        scripts=[addresses[name] for name in SCRIPTS],
    )
    return {"": PageFile.of("page.html", page), **files}


def page_answer(request: Request, name: str) -> Response:
    """Return a file of the page, or that the browser has it already."""
    from starlette.responses import Response

    file = page_files().get(name)
    if file is None:
        raise Problem("not-found", "the page has no file of this name")
    current = name and request.query_params.get("v") == file.hash
    headers = {
        "ETag": f'"{file.hash}"',
        "Cache-Control": _FOR_EVER if current else _ASK_AGAIN,
        "Content-Type": file.kind,
        "Vary": "Accept-Encoding",
        **_POLICIES,
    }
    if has_tag(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    if not accepts_gzip(request):
        return Response(file.body, headers=headers)
    return Response(file.zipped, headers=headers | {"Content-Encoding": "gzip"})
