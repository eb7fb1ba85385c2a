"""Tests of the files that both pages share: safe scripts, escaping templates, no unused file."""

from __future__ import annotations

import re
from html import unescape
from importlib import resources

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.page.parts import (
    SERVICE_SCRIPTS,
    SERVICE_STYLES,
    SHARED_SCRIPTS,
    environment,
    page_file,
)
from coterie.ads.report import rendering as report
from coterie.runtime import wording

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
    made = environment().from_string('<p title="{{ text }}">{{ text }}</p>').render(text=text)
    found = re.fullmatch('<p title="([^"<>]*)">([^<>]*)</p>', made)
    assert found is not None
    shown = text.replace("\0", "")
    assert [unescape(part).replace("\0", "") for part in found.groups()] == [shown, shown]


def test_templates_have_filters() -> None:
    """Templates have the wording filters, and a page can add more."""
    made = environment({"twice": lambda number: 2 * number})
    shown = made.from_string("{{ 21 | twice }} {{ 0.5 | percent }}").render()
    assert shown == f"42 {wording.percent(0.5)}"


def test_a_name_that_is_not_given_is_an_error() -> None:
    """A template that uses an undefined name raises an error."""
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError):
        environment().from_string("{{ forgotten }}").render()
