"""Figures and tables of result files on the pages of the repository, and which results are old.

A page shows a figure or a table between two comments, which no reader sees::

    The mean index is <!--features:Means :: Genie :: all sets-->.807<!---->.

    <!--features:table Means-->
    | method | ... |
    <!---->

The first comment names a result file of ``docs/benchmarks/generated``, and what of it is shown: the
cell of a table by title, row and column, a whole table, or one of the ``FIGURES`` of the benchmark.
``python -m benchmarks pages`` writes what the files say into all pages, and a test fails where a
page says something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import paper_page
from benchmarks.environment import code_digest, environment_line
from benchmarks.harness import BENCHMARKS
from benchmarks.results import Table
from coterie.errors import TableError
from coterie.runtime.atomic_files import atomic_file

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "benchmarks" / "generated"
_MODULES = {name.replace("-", "_"): f"benchmarks.{row[0]}" for name, row in BENCHMARKS.items()}
_MODULES["fuzz"] = "fuzz.__main__"
_MARK = re.compile(r"<!--(?P<name>[a-z]\w*):(?P<key>[^>]+?)-->(?P<shown>.*?)<!---->", re.DOTALL)


def pages() -> list[Path]:
    """Return the pages of the repository that people wrote."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    written = {"_build", "gallery", "generated"}
    return sorted(page for page in found if not written & set(page.relative_to(ROOT).parts))


def write_pages() -> list[Path]:
    """Write the figures and tables of the result files into all pages; return the changed ones."""
    changed = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (new := with_figures(text)) != text:
            with atomic_file(page) as unfinished:
                unfinished.write_text(new, encoding="utf-8")
            changed.append(page)
    return changed


def with_figures(text: str) -> str:
    """Return a page with what the result files say between its comments."""

    def replaced(mark: re.Match[str]) -> str:
        shown = shown_of(mark["name"], mark["key"])
        return f"<!--{mark['name']}:{mark['key']}-->{shown}<!---->"

    return _MARK.sub(replaced, text)


def marks_of(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the result, the key and the shown text of every figure and table of a page."""
    for mark in _MARK.finditer(text):
        yield mark["name"], mark["key"], mark["shown"]


def shown_of(name: str, key: str) -> str:
    """Return what a result says under a key; a table has blank lines around it.

    ``measured`` of any result is the sentence that tells when and where it was measured. A row is
    named by as many of its first cells, joined by commas, as make it unique.
    """
    tables, figures = _contents(name)
    title, *place = key.removeprefix("table ").split(" :: ")
    if key in figures:
        return figures[key]
    if title not in tables or len(place) not in (0, 2):
        raise TableError(f"{name}.json has no {key!r}; it has {[*tables, *figures]}")
    table = tables[title]
    if not place:
        return f"\n\n{table.markdown()}\n\n"
    name_of_row, column = place
    rows = [
        row for row in table.rows if name_of_row in {", ".join(row[:n]) for n in range(1, len(row))}
    ]
    if len(rows) != 1 or column not in table.headings:
        raise TableError(
            f"{name}.json, {title!r}: {len(rows)} rows begin with {name_of_row!r}, and the columns "
            f"are {[*table.headings]}"
        )
    return str(rows[0][list(table.headings).index(column)])


@cache
def _contents(name: str) -> tuple[dict[str, Table], dict[str, str]]:
    """Return the tables of a result by title, and its figures by key."""
    result = read_result(name)
    tables = {table["title"]: Table.from_json(table) for table in result["tables"]}
    figures = {"measured": measured_line(name)}
    if name in paper_page.FIGURES:
        tables |= paper_page.tables_of_page(name, result)
        figures |= paper_page.FIGURES[name](result)
    else:
        made = getattr(import_module(_MODULES[name]), "FIGURES", {})
        figures |= {key: make(result) for key, make in made.items()}
    return tables, figures


@cache
def read_result(name: str) -> dict[str, Any]:
    """Return the content of a result file."""
    if name not in _MODULES:
        raise TableError(f"no benchmark writes {name}.json; there are {sorted(_MODULES)}")
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def measured_line(name: str) -> str:
    """Return when, where and with what a result was measured, and what is known of it since."""
    environment = read_result(name)["environment"]
    line = environment_line(environment)
    if not is_current(name):
        return f"{line}. The measured code has changed since"
    if confirmed := environment.get("confirmed"):
        line += f". Still valid at commit {confirmed['commit'][:8]}: {confirmed['because']}"
    return line


# ---- The age of results


def digest_of(name: str) -> str:
    """Return the digest of the code that a benchmark measures, as it is now."""
    return code_digest(import_module(_MODULES[name]).MEASURES)


def is_current(name: str) -> bool:
    """Return whether the code is still what a result was measured with, or confirmed for."""
    environment = read_result(name)["environment"]
    known = {environment.get("code"), environment.get("confirmed", {}).get("code")}
    return digest_of(name) in known


def confirm(name: str, because: str, commit: str) -> Path:
    """Note in a result file that later changes of the code do not change it, and why."""
    name = name.replace("-", "_")
    path = RESULTS / f"{name}.json"
    result = json.loads(path.read_text(encoding="utf-8"))
    result["environment"]["confirmed"] = {
        "commit": commit,
        "code": digest_of(name),
        "because": because,
    }
    with atomic_file(path) as unfinished:
        unfinished.write_text(
            json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    return path
