"""GET / and /assets/…: what is handed out, how long it may be kept, and what it never holds."""

from __future__ import annotations

import asyncio
import re
from html.parser import HTMLParser
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import Response

from coterie.ads.page.parts import page_file
from coterie.ads.service.pages import SCRIPTS, STYLES, page_files, page_routes
from coterie.ads.service.problems import Problem


def _refused(_request, problem):
    return Response(str(problem), problem.status)


def ask(path, method="GET", **headers):
    """What the routes of the page answer."""
    app = Starlette(routes=page_routes(), exception_handlers={Problem: _refused})

    async def asked():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(asked())


class Tags(HTMLParser):
    """The tags of a page, with their attributes."""

    def __init__(self, html):
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        """Note a tag."""
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    def values(self, tag, name):
        """All values of an attribute of a tag."""
        return [attributes[name] for t, attributes in self.found if t == tag and name in attributes]


def test_the_page_loads_its_own_files_only():
    """Scripts and styles are files of the service, in their order; nothing stands inline."""
    tags = Tags(ask("/").text)
    sources = tags.values("script", "src")
    styles = [href for href in tags.values("link", "href") if not href.startswith("data:")]
    assert [urlsplit(one).path for one in sources] == [f"assets/{name}" for name in SCRIPTS]
    assert [urlsplit(one).path for one in styles] == [f"assets/{name}" for name in STYLES]
    assert len(sources) == sum(tag == "script" for tag, _ in tags.found)
    for tag, attributes in tags.found:
        assert tag not in {"style", "img", "iframe", "object"}
        assert not any(name == "style" or name.startswith("on") for name in attributes)
    for source in [*sources, *styles]:
        answer = ask(f"/{source}")
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]


def test_labels_belong_to_fields():
    """Every field has a label or a name, and every reference within the page leads somewhere."""
    tags = Tags(ask("/").text)
    ids = [one for tag, attributes in tags.found for one in [attributes.get("id")] if one]
    assert len(ids) == len(set(ids))
    labelled = set(tags.values("label", "for"))
    for tag, attributes in tags.found:
        if tag in {"input", "select", "textarea"} and attributes.get("type") != "radio":
            assert attributes["id"] in labelled or attributes.get("aria-label"), attributes
        for name in ("for", "aria-labelledby", "aria-controls"):
            assert attributes.get(name, ids[0]) in ids
    assert all(href[1:] in ids for href in tags.values("a", "href"))


def test_the_page_holds_nothing_of_a_model():
    """The page is the same whatever is served: it may be given to anybody."""
    assert ask("/").content == page_files()[""].body
    assert not re.search(r"adv-|market\.coterie", ask("/").text)


@pytest.mark.parametrize("name", [*SCRIPTS, *STYLES])
def test_assets_are_the_files(name):
    """Every script and style comes as it lies in the package, with its type."""
    answer = ask(f"/assets/{name}")
    assert answer.text == page_file(name)
    kind = "text/css" if name.endswith(".css") else "text/javascript"
    assert answer.headers["content-type"] == f"{kind}; charset=utf-8"


def test_only_the_current_version_is_kept_for_ever():
    """An address with the hash of the file may be kept; any other is asked for again."""
    file = page_files()["charts.js"]
    kept = ask(f"/assets/charts.js?v={file.hash}").headers["cache-control"]
    assert kept == "public, max-age=31536000, immutable"
    for address in ("/assets/charts.js", "/assets/charts.js?v=0", "/"):
        assert ask(address).headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", ["/", "/assets/page.css"])
def test_what_a_browser_has_is_not_sent_again(path):
    """With its tag, weak or among others, the answer is 304 and empty; with another it is whole."""
    tag = ask(path).headers["etag"]
    for given in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        answer = ask(path, **{"If-None-Match": given})
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == tag
    assert ask(path, **{"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/assets/page.css"])
def test_head_has_the_headers_alone(path):
    """HEAD answers as GET does, without the body."""
    head, get = ask(path, "HEAD"), ask(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers == get.headers


@pytest.mark.parametrize(
    "name",
    ["", "nothing.js", "what_if.html", "service.html", "../pages.py", "%2e%2e/pages.py", "a/b.js"],
)
def test_other_names_are_not_found(name):
    """Only files of the page are handed out: no templates, no paths."""
    assert ask(f"/assets/{name}").status_code == 404


def test_other_methods_are_refused():
    """Nothing can be written to the page."""
    assert ask("/", "POST").status_code == 405
