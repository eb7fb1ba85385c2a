"""The files of the pages: safe scripts, escaping templates, and how the service hands them out."""

from __future__ import annotations

import gzip
import re
from html import unescape
from html.parser import HTMLParser
from importlib import resources
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.page.parts import (
    SERVICE_SCRIPTS,
    SERVICE_STYLES,
    SHARED_SCRIPTS,
    page_file,
    served_files,
)
from coterie.ads.report import rendering as report
from coterie.runtime import wording
from coterie.runtime.html_pages import page_templates
from service_calls import service

FILES = sorted(
    one.name
    for one in resources.files("coterie.ads").joinpath("page").iterdir()
    if one.name.endswith((".js", ".css", ".html"))
)
SCRIPTS = [name for name in FILES if name.endswith(".js")]


def test_every_file_is_used() -> None:
    """Every script, style and template belongs to a page, and both pages use the shared ones."""
    used = {*report.SCRIPTS, *SERVICE_SCRIPTS, *SERVICE_STYLES}
    templates = {name for name in FILES if name.endswith(".html")}
    named = " ".join(page_file(name) for name in templates)
    included = set(re.findall(r'(?:include|from) "([a-z_]+\.html)"', named))
    assert templates == included | {"report.html", "service.html"}
    assert used == set(FILES) - templates
    assert set(report.SCRIPTS) & set(SERVICE_SCRIPTS) == set(SHARED_SCRIPTS)


@pytest.mark.parametrize("name", FILES)
def test_files_set_text_only(name: str) -> None:
    """No file creates markup from text, evaluates text, names another host or ends its element."""
    text = page_file(name)
    dangers = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
    assert not re.search(dangers, text)
    assert set(re.findall(r"https?://[^\"' ]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert "\r" not in text
    if not name.endswith(".html"):
        assert not re.search(r"</script|</style|<!--", text, re.IGNORECASE)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_are_strict_and_short(name: str) -> None:
    """Every script is strict, starts with a comment and has at most 400 lines."""
    lines = page_file(name).splitlines()
    assert lines[0] == '"use strict";'
    assert lines[1].startswith("/*")
    assert len(lines) <= 400
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize(
    "pages_scripts", [report.SCRIPTS, SERVICE_SCRIPTS], ids=["report", "service"]
)
def test_scripts_use_only_earlier_scripts(pages_scripts: tuple[str, ...]) -> None:
    """A script uses only names defined by itself or an earlier script."""
    made: set[str] = set()
    for name in pages_scripts:
        text = page_file(name)
        made |= set(re.findall(r"^const (coterie\w+)", text, re.MULTILINE))
        assert set(re.findall(r"\bcoterie[A-Z]\w+", text)) <= made, name


@settings(max_examples=50)
@given(st.text(max_size=30))
def test_templates_escape(text: str) -> None:
    """Any text given to a template stays text."""
    made = (
        page_templates("coterie.ads")
        .from_string('<p title="{{ text }}">{{ text }}</p>')
        .render(text=text)
    )
    found = re.fullmatch('<p title="([^"<>]*)">([^<>]*)</p>', made)
    assert found is not None
    shown = text.replace("\0", "")
    assert [unescape(part).replace("\0", "") for part in found.groups()] == [shown, shown]


def test_templates_have_filters() -> None:
    """Templates have the wording filters, and a page can add more."""
    made = page_templates("coterie.ads", {"twice": lambda number: 2 * number})
    shown = made.from_string("{{ 21 | twice }} {{ 0.5 | percent }}").render()
    assert shown == f"42 {wording.percent(0.5)}"


def test_a_name_that_is_not_given_is_an_error() -> None:
    """A template that uses an undefined name raises an error."""
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError):
        page_templates("coterie.ads").from_string("{{ forgotten }}").render()


SERVED = ["/", "/assets/page.css", "/assets/charts.js"]


class Tags(HTMLParser):
    """The tags of a page, with their attributes."""

    def __init__(self):
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(service().get("/").body.decode())
        self.close()

    def handle_starttag(self, tag, attrs):
        """Note a tag."""
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    def values(self, tag, name):
        """Return all values of an attribute of a tag."""
        return [attributes[name] for t, attributes in self.found if t == tag and name in attributes]


def test_page_loads_its_own_files_only():
    """Scripts and styles are files of the service, in their order; nothing stands inline."""
    tags = Tags()
    sources = tags.values("script", "src")
    styles = [href for href in tags.values("link", "href") if not href.startswith("data:")]
    assert [urlsplit(one).path for one in sources] == [f"assets/{name}" for name in SERVICE_SCRIPTS]
    assert [urlsplit(one).path for one in styles] == [f"assets/{name}" for name in SERVICE_STYLES]
    assert len(sources) == sum(tag == "script" for tag, _ in tags.found)
    for tag, attributes in tags.found:
        assert tag not in {"style", "img", "iframe", "object"}
        assert not any(name == "style" or name.startswith("on") for name in attributes)
    for source in [*sources, *styles]:
        answer = service().get(f"/{source}")
        assert answer.status == 200
        assert "immutable" in answer.headers["cache-control"]


def test_labels_belong_to_fields():
    """Each field has a label or a name, and each reference within the page leads somewhere."""
    tags = Tags()
    ids = [one for tag, attributes in tags.found for one in [attributes.get("id")] if one]
    assert len(ids) == len(set(ids))
    labelled = set(tags.values("label", "for"))
    for tag, attributes in tags.found:
        if tag in {"input", "select", "textarea"} and attributes.get("type") != "radio":
            assert attributes["id"] in labelled or attributes.get("aria-label"), attributes
        for name in ("for", "aria-labelledby", "aria-controls"):
            assert attributes.get(name, ids[0]) in ids
    assert all(href[1:] in ids for href in tags.values("a", "href"))


def test_page_has_nothing_of_a_model():
    """The page is the same whatever is served: it may be given to anybody."""
    text = service().get("/").body
    assert text == service("textless_model").get("/").body == served_files()[""].body
    assert not re.search(rb"adv-|market\.coterie", text)


@pytest.mark.parametrize("name", [*SERVICE_SCRIPTS, *SERVICE_STYLES])
def test_assets_are_the_files_of_the_package(name):
    """Each script and style comes as it is, with its type, compressed if accepted."""
    answer = service().get(f"/assets/{name}")
    assert answer.body.decode() == page_file(name)
    kind = "text/css" if name.endswith(".css") else "text/javascript"
    assert answer.headers["content-type"] == f"{kind}; charset=utf-8"
    zipped = service().get(f"/assets/{name}", headers={"accept-encoding": "gzip"})
    assert gzip.decompress(zipped.body) == answer.body


def test_only_the_current_version_is_kept_for_ever():
    """An address with the hash of the file may be kept; any other is asked for again."""
    file = served_files()["charts.js"]
    kept = service().get(f"/assets/charts.js?v={file.hash}").headers["cache-control"]
    assert kept == "public, max-age=31536000, immutable"
    for address in ("/assets/charts.js", "/assets/charts.js?v=0", "/"):
        assert service().get(address).headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", SERVED)
def test_file_that_a_browser_has_is_not_sent_again(path):
    """With its tag, weak or among others, the answer is 304; HEAD has the headers of GET."""
    whole = service().get(path)
    tag = whole.headers["etag"]
    for held in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        answer = service().get(path, headers={"if-none-match": held})
        assert (answer.status, answer.body, answer.headers["etag"]) == (304, b"", tag)
    assert service().get(path, headers={"if-none-match": '"other"'}).body == whole.body
    head = service().ask("HEAD", path)
    assert head.headers | {"x-request-id": ""} == whole.headers | {"x-request-id": ""}


def test_browser_may_do_next_to_nothing_with_the_page():
    """Only own scripts run, and no other page frames it."""
    headers = service().get("/").headers
    assert "default-src 'none'; script-src 'self'" in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    "name", ["", "nothing.js", "what_if.html", "service.html", "../pages.py", "%2e%2e/pages.py"]
)
def test_other_names_are_not_found(name):
    """Only files of the page are handed out: no templates, no paths."""
    assert service().get(f"/assets/{name}").problem["type"] == "/problems/not-found"
