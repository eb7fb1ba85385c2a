"""The sessions and configurations on the pages about the service work."""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from coterie.ads.protocol import Limits
from coterie.ads.service.monitoring import Metrics
from guide_sessions import captioned, commands_in, fenced_in_order, run_command, run_python
from running_service import running_service

# one worker runs all these tests, so that each service is started once
HOW_TO = Path(__file__).parents[1] / "docs" / "how_to"
USING, RUNNING = HOW_TO / "service.md", HOW_TO / "running_the_service.md"
USUAL_ADDRESS = "http://127.0.0.1:8400"
HOST = "forecasts.example.com"
TOKEN = "a-token-of-24-characters"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="the page's commands need curl")
def test_sessions_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands and Python sessions run in order, with the service that the page starts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COTERIE_TOKEN", raising=False)
    names: dict[str, Any] = {}
    address = USUAL_ADDRESS
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: "client" in names and names["client"].close())
        for language, block in fenced_in_order(USING, "console", "pycon"):
            if language == "pycon":
                run_python(block.replace(USUAL_ADDRESS, address), names, USING)
                continue
            for command, shown in commands_in(block):
                if serve := re.fullmatch(r"coterie ads serve (\S+)", command):
                    started = running_service(tmp_path / serve[1], tmp_path)
                    address = stack.enter_context(started).address
                    assert shown == f"coterie is listening on {USUAL_ADDRESS}\n"
                else:
                    run_command(command.replace(USUAL_ADDRESS, address), shown, tmp_path)
    assert address != USUAL_ADDRESS


def test_page_lists_the_metrics() -> None:
    """The scrape configuration names the address of the service, and the table all metrics."""
    (job,) = yaml.safe_load(captioned(RUNNING, "yaml"))["scrape_configs"]
    assert job["static_configs"] == [{"targets": [USUAL_ADDRESS.removeprefix("http://")]}]
    assert job["metrics_path"] == "/metrics"
    page = RUNNING.read_text(encoding="utf-8")
    metrics = Metrics()
    metrics.answered("/health", "GET", 200, 0.001)
    served = set(re.findall(rb"^# TYPE (\S+) ", metrics.text(), re.MULTILINE))
    named = set(re.findall(r"^\| `(coterie_\w+)", page, re.MULTILINE))
    assert named
    assert named == {name.decode() for name in served if not name.endswith(b"_created")}


def test_page_lists_the_limits() -> None:
    """The table of limits has all limits of the service, with their values."""
    page = RUNNING.read_text(encoding="utf-8")
    (table,) = re.findall(r"^## Limits\n\n(.*?)\n\n", page, re.MULTILINE | re.DOTALL)
    shown = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", table, re.MULTILINE)
    limits = Limits()
    assert {name: float(value.replace(",", "")) for name, value in shown} == vars(limits)
    assert f"within {limits.grace_seconds:g} seconds" in " ".join(page.split())


def test_page_shows_the_files_that_are_tested() -> None:
    """Units and configurations are included from the folder packaging, all of them."""
    page = RUNNING.read_text(encoding="utf-8")
    shown = re.findall(r"^```\{literalinclude\} (\S+)$", page, re.MULTILINE)
    files = {(HOW_TO / one).resolve() for one in shown}
    folder = HOW_TO.parents[1] / "packaging"
    # recipes and scripts of releases are for other pages
    assert files == {file for file in folder.iterdir() if file.is_file() and file.suffix != ".py"}
