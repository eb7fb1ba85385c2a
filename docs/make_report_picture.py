"""Take docs/images/report.png, a picture of the report of the demo. Needs playwright and Chromium.

Run ``coterie ads demo`` first, then ``python docs/make_report_picture.py demo-output/report.html``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).parent / "images" / "report.png"
WIDTH = 1180


def main(report: Path) -> None:
    """Take a picture of the what-if charts, and of the bids of an advertiser and its segment."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": 900})
        page.goto(report.resolve().as_uri())
        begin, end = (
            page.get_by_role("heading", name=name, exact=True).bounding_box()
            for name in ("What if the bid were different?", "Segments")
        )
        assert begin is not None and end is not None
        top, bottom = begin["y"] - 24, end["y"] - 24
        part = {"x": 0, "y": top, "width": WIDTH, "height": bottom - top}
        page.screenshot(path=PICTURE, clip=part, full_page=True)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
