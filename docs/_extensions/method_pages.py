"""Write a page for each method of the registry, and tables that link to them.

Before the build, ``api/methods/generated/KEY.md`` is written for every entry of
:mod:`coterie.consensus.registry`, from the entry, the measured figures and the docstring of the
class. ``api/methods/index.md`` includes ``generated/overview.inc``, the tables of all
methods.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

from coterie.consensus.registry import CONSENSUS_METHODS, DEFAULT_METHOD, MULTIVIEW_METHODS, Method

__all__ = ["measured_figures", "method_page", "overview", "setup", "write_pages"]

_log = logging.getLogger(__name__)

#: What the values of ``Method.established`` mean.
_ESTABLISHED = {
    "ours": "our method; derived and measured in these pages",
    "paper": "stated in the paper this library follows",
    "author code": "taken from the authors' published code",
    "ports": "taken from implementations by others that agree",
    "textbook": "the common description of the cited article",
    "reconstruction": "ingredients from an abstract and our choices: figures here are not those of "
    "the published method",
}

Figures = Mapping[str, Mapping[str, str]]


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages before the sources are read."""
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir)))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_pages(docs: Path) -> None:
    """Write the pages that changed, and delete pages of methods that no longer exist."""
    folder = docs / "api" / "methods" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    figures = measured_figures(docs / "benchmarks" / "generated")
    methods = [*CONSENSUS_METHODS.values(), *MULTIVIEW_METHODS.values()]
    texts = {f"{method.key}.md": method_page(method, figures) for method in methods}
    texts["overview.inc"] = overview()
    for page in folder.iterdir():
        if page.name not in texts:
            page.unlink()
    for name, text in texts.items():
        page = folder / name
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def method_page(method: Method, figures: Figures) -> str:
    """Return the page of one method.

    Parameters
    ----------
    method : Method
    figures : mapping of key to mapping of name to text
        The result of :func:`measured_figures`.
    """
    measured = figures.get(method.key, {})
    parts = [
        f"# {method.title}",
        _sentence(method.summary),
        _two_columns(_facts(method)),
        _calls(method),
        *(["## Measured", _two_columns(measured)] if measured else []),
        f"## {'The class: ' if method.settings else ''}{method.class_name}",
        f"```{{eval-rst}}\n.. currentmodule:: coterie\n\n.. autoclass:: {method.class_name}\n"
        "   :no-index:\n```",
    ]
    return "\n\n".join(parts) + "\n"


def overview() -> str:
    """Return the tables of all methods, and the list of their pages for the side bar."""
    pages = [f"generated/{key}" for key in (*CONSENSUS_METHODS, *MULTIVIEW_METHODS)]
    return "\n\n".join(
        [
            "## Consensus of partitions",
            _overview_table(CONSENSUS_METHODS),
            "## Several views, from features",
            _overview_table(MULTIVIEW_METHODS),
            "\n".join(["```{toctree}", ":hidden:", "", *pages, "```"]),
        ]
    )


def measured_figures(folder: Path) -> dict[str, dict[str, str]]:
    """Return the figures that the benchmarks measured, by method: a name and a text for each.

    Parameters
    ----------
    folder : Path
        The folder of ``regret.json``, ``table2.json`` and ``table3.json``; missing files are
        skipped.
    """
    figures: dict[str, dict[str, str]] = {}
    for name, read in _READERS.items():
        path = folder / name
        if not path.exists():
            continue
        try:
            found = read(json.loads(path.read_text(encoding="utf-8")))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            _log.warning("cannot read the figures of %s: %r", path, error)
            continue
        for key, lines in found.items():
            figures.setdefault(key, {}).update(lines)
    return figures


def _regrets(results: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Read ``{"summary": {half: {method: {"mean": …, "worst": …}}}}``, the loss of accuracy."""
    lines: dict[str, dict[str, str]] = {}
    for half, methods in results["summary"].items():
        for key, regret in methods.items():
            lines.setdefault(key, {})[f"regret, {half}"] = (
                f"{regret['mean']:.3f} on average, {regret['worst']:.3f} at worst"
            )
    return lines


def _accuracies(results: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Read ``{"cells": [{"condition", "dataset", "methods": {method: {"status", "mean"}}}]}``."""
    lines: dict[str, dict[str, str]] = {}
    for cell in results["cells"]:
        name = f"accuracy, {cell['condition']}" if cell["condition"] else "accuracy"
        for key, found in cell["methods"].items():
            mean = found["mean"]
            figure = found["status"] if mean is None else f"{mean:.2f}"
            texts = lines.setdefault(key, {})
            before = f"{texts[name]}, " if name in texts else ""
            texts[name] = f"{before}{cell['dataset']} {figure}"
    return lines


_READERS = {"regret.json": _regrets, "table2.json": _accuracies, "table3.json": _accuracies}


def _facts(method: Method) -> dict[str, str]:
    facts = {"key": f"`{method.key}`", "class": f"{{class}}`~coterie.{method.class_name}`"}
    if method.settings:
        facts["with"] = f"`{_arguments(method)}`"
    if method.paper_name:
        facts["in the paper's tables"] = method.paper_name
    facts["established"] = f"{method.established}: {_ESTABLISHED[method.established]}"
    facts["cost"] = method.cost
    facts["needs"] = "nothing beyond the library"
    if method.packages:
        names = " and ".join(f"`{name}`" for name in method.packages)
        facts["needs"] = (
            f"uses {names} of the extra `partitioners` if it is installed; see below for the "
            "fallback"
        )
    return facts


def _calls(method: Method) -> str:
    """Return the calls in Python and on the command line."""
    arguments = ", ".join(filter(None, ["3", _arguments(method)]))
    consensus = method.key in CONSENSUS_METHODS
    python = f"{method.class_name}({arguments}).fit({'P' if consensus else 'views'})"
    text = f"```python\n{python}\n```"
    if consensus:
        option = "" if method.key == DEFAULT_METHOD else f" --method {method.key}"
        text += f"\n\n```shell\ncoterie consensus labels.csv -k 3{option} -o consensus.csv\n```"
    return text


def _arguments(method: Method) -> str:
    return ", ".join(f"{name}={_literal(value)}" for name, value in method.settings.items())


def _literal(value: Any) -> str:
    """Return a setting as Python source, with double quotes."""
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _overview_table(methods: Mapping[str, Method]) -> str:
    lines = ["| method | key | what it does | established | cost |", "|---|---|---|---|---|"]
    lines += [
        f"| [{method.title}](generated/{method.key}.md) | `{method.key}` | "
        f"{_cell(method.summary)} | {method.established} | {_cell(method.cost)} |"
        for method in methods.values()
    ]
    return "\n".join(lines)


def _two_columns(facts: Mapping[str, str]) -> str:
    lines = [f"| {name} | {_cell(text)} |" for name, text in facts.items()]
    return "\n".join(["| | |", "|---|---|", *lines])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
