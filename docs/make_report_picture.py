"""Take docs/images/report.png, a picture of the report of the demo. Needs playwright and Chromium.

Run ``coterie demo`` first, then ``python docs/make_report_picture.py demo-output/report.html``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).parent / "images" / "report.png"


def main(report: Path) -> None:
    """Take a picture of the what-if charts and the first segments."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1180, "height": 1230})
        page.goto(report.resolve().as_uri())
        page.get_by_role("heading", name="What if the bid were different?").evaluate(
            "heading => heading.scrollIntoView()"
        )
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
