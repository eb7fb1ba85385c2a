"""Links within the repository point to pages, headings and labels that exist."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from coterie.consensus.registry import CONSENSUS_METHODS, MULTIVIEW_METHODS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
    if not {"_build", "gallery", "generated"} & set(page.relative_to(ROOT).parts)
)
#: Pages that the build of the documentation writes.
WRITTEN = {
    DOCS / "gallery" / "index",
    *(DOCS / "gallery" / example.stem for example in (ROOT / "examples").glob("plot_*.py")),
    *(
        DOCS / "api" / "methods" / "generated" / key
        for key in (*CONSENSUS_METHODS, *MULTIVIEW_METHODS)
    ),
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_point_to_what_exists(page: Path) -> None:
    """Files and headings of Markdown links, and labels of roles, exist; pages are links."""
    assert [link for link in links_of(page) if not exists(page, link)] == []
    names = [one[1] or one[2] for one in re.finditer(role("ref"), prose_of(page))]
    assert [name for name in names if name not in labels()] == []
    # GitHub shows a role as it is written
    assert re.findall(role("doc"), prose_of(page)) == []


def links_of(page: Path) -> Iterator[str]:
    """Yield the targets of the Markdown links of a page, without those of other sites."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if not re.match(r"[a-z]+:", target):
            yield target


def exists(page: Path, link: str) -> bool:
    """Return whether the file of a link exists, and its heading."""
    name, _, anchor = link.partition("#")
    # development/index.md and changelog.md include pages at the root
    target = normal(page.parent / name) if name else page
    if target.with_suffix("") in WRITTEN:
        return True
    return target.exists() and (not anchor or anchor in anchors_of(target))


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """Return the anchors of headings, as GitHub and MyST make them, and of labels."""
    text = prose_of(page)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return frozenset([slug(heading) for heading in headings]) | labels_of(text)


@cache
def labels() -> frozenset[str]:
    return frozenset().union(*(labels_of(prose_of(page)) for page in PAGES))


def labels_of(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))


@cache
def prose_of(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^(`{3,})(?!\{).*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)


def slug(heading: str) -> str:
    """Return the anchor of a heading.

    Examples
    --------
    >>> slug("Bid logs to `forecasts`?")
    'bid-logs-to-forecasts'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def role(name: str) -> str:
    """Return the pattern of a role: with a title and a target, or with a target alone."""
    return rf"\{{{name}\}}`(?:[^`<]+<([^`>]+)>|([^`<]+))`"


def normal(path: Path) -> Path:
    return Path(posixpath.normpath(path.as_posix()))
