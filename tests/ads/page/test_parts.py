"""What pages share: their files are plain and safe, their templates escape, all of it is used."""

from __future__ import annotations

import re
import sys
from html import unescape
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ads.page.parts import SHARED_SCRIPTS, environment, fingerprint, page_file
from coterie.ads.report import rendering as report
from coterie.ads.service import pages
from coterie.errors import MissingExtraError
from coterie.runtime import wording as report_words

FILES = sorted(one.name for one in resources.files("coterie.ads").joinpath("page").iterdir())
SCRIPTS = [name for name in FILES if name.endswith(".js")]


def test_every_file_is_of_some_page() -> None:
    """No script, style or template is left over, and both pages use what they share."""
    used = {*report.SCRIPTS, *pages.SCRIPTS, *pages.STYLES}
    templates = {name for name in FILES if name.endswith(".html")}
    named = " ".join(page_file(name) for name in templates)
    included = set(re.findall(r'(?:include|from) "([a-z_]+\.html)"', named))
    assert templates == included | {"report.html", "service.html"}
    assert used == set(FILES) - templates
    assert set(report.SCRIPTS) & set(pages.SCRIPTS) == set(SHARED_SCRIPTS)


@pytest.mark.parametrize("name", FILES)
def test_files_set_text_only(name: str) -> None:
    """No file makes markup of text, evaluates text, or names another host."""
    text = page_file(name)
    dangers = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
    assert not re.search(dangers, text)
    assert set(re.findall(r"https?://[^\"' ]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert "\r" not in text


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_are_strict_and_short(name: str) -> None:
    """Every script is strict, says what it is for, and can be read in one sitting."""
    lines = page_file(name).splitlines()
    assert lines[0] == '"use strict";'
    assert lines[1].startswith("/*")
    assert len(lines) <= 400
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize(
    "pages_scripts", [report.SCRIPTS, pages.SCRIPTS], ids=["report", "service"]
)
def test_scripts_come_after_those_they_need(pages_scripts: tuple[str, ...]) -> None:
    """A script reads only names that scripts before it have made."""
    made: set[str] = set()
    for name in pages_scripts:
        text = page_file(name)
        made |= set(re.findall(r"^const (coterie\w+)", text, re.MULTILINE))
        assert set(re.findall(r"\bcoterie[A-Z]\w+", text)) <= made, name


@given(st.text(max_size=30))
def test_templates_escape(text: str) -> None:
    """Whatever a template is given stays text."""
    made = environment().from_string('<p title="{{ text }}">{{ text }}</p>').render(text=text)
    found = re.fullmatch('<p title="([^"<>]*)">([^<>]*)</p>', made)
    assert found is not None
    shown = text.replace("\0", "")
    assert [unescape(part).replace("\0", "") for part in found.groups()] == [shown, shown]


def test_templates_know_the_words_and_more() -> None:
    """Filters of the words are there, and a page may add its own."""
    made = environment({"twice": lambda number: 2 * number})
    shown = made.from_string("{{ 21 | twice }} {{ 0.5 | percent }}").render()
    assert shown == f"42 {report_words.percent(0.5)}"


def test_a_name_that_is_not_given_is_an_error() -> None:
    """A template that asks for what it was not given does not silently show nothing."""
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError):
        environment().from_string("{{ forgotten }}").render()


@pytest.mark.parametrize("extra", ["ads", "service"])
def test_missing_jinja_names_the_extra(monkeypatch: pytest.MonkeyPatch, extra: str) -> None:
    """Without jinja2 the error says which extra brings it to the caller."""
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=rf"coterie\[{extra}\]"):
        environment(extra=extra)


def test_fingerprints_tell_texts_apart() -> None:
    """A fingerprint is a source of a policy, and another one for another text."""
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", fingerprint("a"))
    assert fingerprint("a") != fingerprint("b")
