"""Numbers as the pages write them are those that the program writes."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from coterie.ads.page.parts import page_file
from coterie.runtime.wording import format_count, format_span, percent

INTERVALS = [
    *((0, 0.09), (0, 0), (0, 1), (0.4, 3.7), (0.2, 0.8), (2, 2), (1 - 1e-12, 3 + 1e-12)),
    *((9.5, 9.9), (9.5, 12.6), (12.6, 25_000), (3, 1.5e6), (123_456, 7e9)),
]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_intervals_of_counts_have_the_counts_inside():
    """Of counts the first and last whole number, of shares both ends; one number if it is one."""
    script = (
        f"{page_file('numbers.js')}\n"
        f"const spans = (all, format) => all.map(([low, high]) => "
        f"coterieNumbers.span({{ low, high }}, coterieNumbers[format]));"
        f"const all = {json.dumps(INTERVALS)};"
        f"console.log(JSON.stringify([spans(all, 'count'), spans(all, 'percent')]));"
    )
    done = subprocess.run(["node", "-e", script], capture_output=True, check=True)
    expected = [
        [format_span(one, written) for one in INTERVALS] for written in (format_count, percent)
    ]
    assert json.loads(done.stdout) == expected
