"""The code on the pages of the documentation prints what the pages show."""

from __future__ import annotations

from pathlib import Path

import pytest

from guide_sessions import commands_in, fenced, run_command, run_python

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for folder in (".", "get_started", "user_guide", "how_to", "api", "explanation", "development")
    for page in (DOCS / folder).glob("*.md")
    if "```pycon" in page.read_text(encoding="utf-8")
    # with commands between, and a running service: see test_advertising_guide
    and page.stem not in {"bid_logs", "forecasts", "decisions", "service"}
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_sessions_print_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(page.parent)
    run_python("\n".join(fenced(page, "pycon")), {}, page)


def test_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    session = "".join(fenced(DOCS / "api" / "command_line.md", "console"))
    commands = list(commands_in(session))
    assert commands
    for command, shown in commands:
        run_command(command, shown, tmp_path)
