"""The sessions and configurations on the advertising pages of the user guide work."""

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
from guide_sessions import commands_in, fenced, fenced_in_order, run_command, run_python
from running_service import running_service

GUIDE = Path(__file__).parents[1] / "docs" / "user_guide"
SERVICE = GUIDE / "service.md"
USUAL_ADDRESS = "http://127.0.0.1:8400"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="commands of a page need curl")
@pytest.mark.parametrize("name", ["bid_logs", "forecasts", "decisions", "service"])
def test_sessions_print_what_the_page_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands and Python sessions run in order, with the service that a page starts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COTERIE_TOKEN", raising=False)
    page = GUIDE / f"{name}.md"
    names: dict[str, Any] = {}
    address = USUAL_ADDRESS
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: "client" in names and names["client"].close())
        for language, block in fenced_in_order(page, "console", "pycon"):
            if language == "pycon":
                run_python(block.replace(USUAL_ADDRESS, address), names, page)
                continue
            for command, shown in commands_in(block):
                if serve := re.fullmatch(r"coterie ads serve (\S+)", command):
                    started = running_service(tmp_path / serve[1], tmp_path)
                    address = stack.enter_context(started).address
                    assert shown == f"coterie is listening on {USUAL_ADDRESS}\n"
                else:
                    run_command(command.replace(USUAL_ADDRESS, address), shown, tmp_path)
    assert (address != USUAL_ADDRESS) == (page == SERVICE)


def test_page_lists_the_metrics() -> None:
    """The scrape configuration names the address of the service, and the table all metrics."""
    (configuration,) = fenced(SERVICE, "yaml")
    (job,) = yaml.safe_load(configuration)["scrape_configs"]
    assert job["static_configs"] == [{"targets": [USUAL_ADDRESS.removeprefix("http://")]}]
    assert job["metrics_path"] == "/metrics"
    page = SERVICE.read_text(encoding="utf-8")
    metrics = Metrics()
    metrics.answered("/health", "GET", 200, 0.001)
    served = set(re.findall(rb"^# TYPE (\S+) ", metrics.text(), re.MULTILINE))
    named = set(re.findall(r"^\| `(coterie_\w+)", page, re.MULTILINE))
    assert named
    assert named == {name.decode() for name in served if not name.endswith(b"_created")}


def test_page_lists_the_limits() -> None:
    """The table of limits has all limits of the service, with their values."""
    page = SERVICE.read_text(encoding="utf-8")
    (table,) = re.findall(r"^## Limits\n\n(.*?)\n\n", page, re.MULTILINE | re.DOTALL)
    shown = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", table, re.MULTILINE)
    limits = Limits()
    assert {name: float(value.replace(",", "")) for name, value in shown} == vars(limits)
    assert f"within {limits.grace_seconds:g} seconds" in " ".join(page.split())


def test_page_names_the_files_that_are_tested() -> None:
    """Units and configurations of the folder packaging are linked, all of them."""
    page = SERVICE.read_text(encoding="utf-8")
    linked = re.findall(r"^\| \[\w+(?:\.\w+)?\]\((\.\./\.\./packaging/\S+)\)", page, re.MULTILINE)
    files = {(GUIDE / one).resolve() for one in linked}
    folder = GUIDE.parents[1] / "packaging"
    # recipes and scripts of releases are for other pages
    assert files == {file for file in folder.iterdir() if file.is_file() and file.suffix != ".py"}
