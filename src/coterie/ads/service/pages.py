"""GET / and /assets/…: the what-if page, its scripts and its style.

The page holds nothing of the model: it is the same for everybody, and asks the service, with a
token where one is needed, for all that it shows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import coterie
from coterie.ads.page.parts import SHARED_SCRIPTS, STYLE, environment, page_file
from coterie.ads.service.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

__all__ = ["SCRIPTS", "STYLES", "PageFile", "has_tag", "page_files", "page_routes"]

#: In the order in which they need each other.
SCRIPTS = (
    *SHARED_SCRIPTS,
    "page_address.js",
    "service_calls.js",
    "service_notices.js",
    "forecast_source.js",
    "exports.js",
    "advertiser_details.js",
    "service_segments.js",
    "service_page.js",
)
STYLES = (STYLE, "service.css")

_TYPES = {"js": "text/javascript", "css": "text/css", "html": "text/html"}
_HASH_DIGITS = 16
_FOR_EVER = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"


@dataclass(frozen=True)
class PageFile:
    """One file as it is handed out."""

    body: bytes
    kind: str  # its content type
    hash: str  # of the body, in the address of the file and in its ETag

    @classmethod
    def of(cls, name: str, text: str) -> PageFile:
        """Return a file of a name, whose ending tells its type.

        >>> PageFile.of("x.css", "p {}").kind
        'text/css; charset=utf-8'
        """
        body = text.encode()
        digest = hashlib.sha256(body).hexdigest()[:_HASH_DIGITS]
        return cls(body, f"{_TYPES[name.rsplit('.', 1)[1]]}; charset=utf-8", digest)


@cache
def page_files() -> Mapping[str, PageFile]:
    """Return the page, under the name "", and its scripts and styles by their names.

    >>> sorted(page_files())[:3]
    ['', 'advertiser_details.js', 'bid_scales.js']
    """
    files = {name: PageFile.of(name, page_file(name)) for name in (*STYLES, *SCRIPTS)}
    addresses = {name: f"assets/{name}?v={file.hash}" for name, file in files.items()}
    template = environment(extra="service").get_template("service.html")
    page = template.render(
        version=coterie.__version__,
        styles=[addresses[name] for name in STYLES],
        scripts=[addresses[name] for name in SCRIPTS],
    )
    return {"": PageFile.of("page.html", page), **files}


def page_routes() -> list[Route]:
    """Return the routes of the page, for GET and HEAD."""
    from starlette.routing import Route

    files = page_files()

    async def page(request: Request) -> Response:
        return _answer(request, files[""], _ASK_AGAIN)

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        file = files.get(name) if name else None
        if file is None:
            raise Problem(404, "Not Found", "the page has no file of this name")
        current = request.query_params.get("v") == file.hash
        return _answer(request, file, _FOR_EVER if current else _ASK_AGAIN)

    return [Route("/", page, methods=["GET"]), Route("/assets/{name}", asset, methods=["GET"])]


def _answer(request: Request, file: PageFile, keep: str) -> Response:
    """Return the file, or that the browser has it already."""
    from starlette.responses import Response

    tag = f'"{file.hash}"'
    headers = {"ETag": tag, "Cache-Control": keep}
    if has_tag(request, tag):
        return Response(status_code=304, headers=headers)
    return Response(file.body, headers={**headers, "Content-Type": file.kind})


def has_tag(request: Request, tag: str) -> bool:
    """Whether If-None-Match names a tag; a proxy may have marked it as weak."""
    given = request.headers.get("if-none-match", "")
    tags = [one.strip().removeprefix("W/") for one in given.split(",")]
    return tag in tags or tags == ["*"]
