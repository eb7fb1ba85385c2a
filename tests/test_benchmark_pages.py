"""Pages show the figures of result files, which are not older than the code they measure."""

from __future__ import annotations

import re

import pytest

from benchmarks.environment import code_digest
from benchmarks.pages import (
    ROOT,
    is_current,
    marks_of,
    pages,
    shown_of,
    with_figures,
)
from coterie.errors import TableError

PAGES = [page for page in pages() if any(marks_of(page.read_text(encoding="utf-8")))]
RESULTS = sorted({name for page in PAGES for name, _, _ in marks_of(page.read_text("utf-8"))})
_IDLE = "its times need an idle machine"
_HOUR = "it takes an hour"
#: Results of earlier code, and why they were not measured again; their pages say that they are.
OLDER = {
    "ads_scale": _IDLE,
    "ads_speed": _IDLE,
    "divided": _IDLE,
    "first_use": _IDLE,
    "fuzz": _HOUR,
    "kills": _HOUR,
    "mutation": _HOUR,
    "peers": _IDLE,
    "relaxation": _IDLE,
    "scale": _IDLE,
    "serve": _IDLE,
    "soak": _HOUR,
    "speed": _IDLE,
    "tables": _IDLE,
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_show_what_the_result_files_say(page) -> None:
    """``python -m benchmarks pages`` would change nothing."""
    for name, key, shown in marks_of(page.read_text(encoding="utf-8")):
        assert shown == shown_of(name, key), f"{name}:{key}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_line_of_a_sentence_starts_with_a_mark(page) -> None:
    """Markdown takes a line that starts with a comment for HTML, not for a part of a paragraph."""
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^\s*<!--\w+:(?!table ).*$", text, re.MULTILINE) == []


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_of_the_present_code(name) -> None:
    """Run the benchmark again, or confirm with ``--confirm WHY`` that its result is the same."""
    assert is_current(name) != (name in OLDER)


def test_a_page_gets_the_figures_of_its_marks() -> None:
    """What stands between two comments is replaced; unknown names are refused."""
    title = "Mean and lowest accuracy over the cells (core 11, all 35)"
    page = f"On <!--noise:measured-->some day<!---->: <!--noise:table {title}-->\n<!---->."
    written = with_figures(page)
    assert with_figures(written) == written
    (_, _, sentence), (_, _, table) = marks_of(written)
    assert sentence.startswith("on 20")
    assert table.startswith("\n\n| ") and table.endswith(" |\n\n")
    for unknown in ("features:no such figure", "features:table none", "nothing:measured"):
        with pytest.raises(TableError):
            with_figures(f"<!--{unknown}-->1<!---->")


def test_the_digest_is_that_of_code(tmp_path, monkeypatch) -> None:
    """Comments, docstrings and blank lines do not count; code and file names do."""
    monkeypatch.setattr("benchmarks.environment._PACKAGE", tmp_path)
    (tmp_path / "a").mkdir()
    module = tmp_path / "a" / "m.py"

    def digest(text: str) -> str:
        module.write_text(text)
        return code_digest(("a",))

    first = digest('"""Doc."""\n\ndef f(x):\n    """Return it."""\n    return x\n')
    assert digest('"""Other."""\ndef f(x):\n    # why\n    return x\n') == first
    assert digest('"""Doc."""\ndef f(x):\n    return -x\n') != first
    assert digest('"""Doc."""\ndef f(x):\n    """Return it."""\n    return "y" + x\n') != first
    kernel = tmp_path / "a" / "kernels.pyx"
    kernel.write_text("# c\ncdef int f():\n    return 1\n")
    with_kernel = code_digest(("a",))
    kernel.write_text("cdef int f():\n    return 2\n")
    assert code_digest(("a",)) != with_kernel
