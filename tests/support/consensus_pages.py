"""Reports on a consensus for tests, and what a reader of their HTML finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import numpy as np

from coterie import RobustConsensus, planted_partitions

#: Names that try to end an element, run a script, or hide.
HOSTILE_NAMES = (
    "</script><b>bold</b>",
    '"><img src=x onerror=alert(1)>',
    "<!--",
    "{{ 7 * 7 }}",
    "' onmouseover='alert(1)",
    "\u202ereversed\u2028line",
    "nul\x00 and \ud800",
    "long " * 60,
)


def clustered_features(n: int = 60, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return features (n, 4) of three clusters, eight partitions of them, and the clusters.

    Feature 0 separates all clusters, 1 a single one, 2 none, and 3 is constant.
    """
    rng = np.random.default_rng(seed)
    P, y = planted_partitions([n // 2, n // 3, n - n // 2 - n // 3], 8, 2, 0.15, random_state=seed)
    X = rng.normal(size=(n, 4))
    X[:, 0] += 5 * y
    X[:, 1] += 5 * (y == 1)
    X[:, 3] = 0.1
    return X, P, y


def fitted(P: Any, n_clusters: int = 3) -> RobustConsensus:
    """Return the consensus of partitions."""
    return RobustConsensus(n_clusters, random_state=0).fit(P)


@dataclass
class ReadPage:
    """A page as a parser reads it: its tags, the texts of scripts and styles, and its tables."""

    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    raw: dict[str, list[str]] = field(default_factory=dict)
    tables: list[list[list[tuple[str, str | None]]]] = field(default_factory=list)
    text: str = ""

    def named(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of the elements of a tag."""
        return [attributes for name, attributes in self.tags if name == tag]


def read_page(html: str) -> ReadPage:
    """Parse a page; elements that are opened and never closed are an error."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == [], f"never closed: {reader.open}"
    return reader.page


_VOID = {"meta", "link", "input", "br"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page, self.open = ReadPage(), []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.page.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)
        if tag == "table":
            self.page.tables.append([])
        if tag == "tr":
            self.page.tables[-1].append([])
        if tag in ("td", "th"):
            self.page.tables[-1][-1].append(("", dict(attrs).get("data-value")))

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.page.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, text: str) -> None:
        if self.open and self.open[-1] in ("script", "style"):
            self.page.raw.setdefault(self.open[-1], []).append(text)
            return
        self.page.text += text
        cell = {"td", "th"} & set(self.open)
        if cell:
            row = self.page.tables[-1][-1]
            row[-1] = (row[-1][0] + text, row[-1][1])
