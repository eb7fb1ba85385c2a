"""Take docs/images/what_if.png, a picture of the service page. Needs playwright and Chromium.

Start the service as docs/user_guide/service.md does, then run
``python docs/make_service_picture.py``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from coterie.ads import Client

PICTURE = Path(__file__).parent / "images" / "what_if.png"
WIDTH = 1180
DAYS = 7
MOST_BIDS = 1_000  # a thin advertiser, so that its own curve differs from the pooled one
DEFAULT_ADDRESS = "http://127.0.0.1:8400"


def main(address: str) -> None:
    """Take a picture of one advertiser, and of a budget that it spends in a week."""
    with Client(address) as client:
        thin = (one.id for one in client.advertisers() if one.observations < MOST_BIDS)
        shown = next(one for one in map(client.advertiser, thin) if not one.outlier)
        spend = client.forecast(shown.id, 1.3 * shown.bid, days=DAYS).spend
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": 900})
        page.goto(f"{address}/#advertiser={shown.id}&days={DAYS}")
        page.wait_for_selector("body[data-state=settled]")
        page.fill("#budget-amount", f"{spend:.2g}")
        page.fill("#budget-days", str(DAYS))
        page.press("#budget-days", "Enter")
        page.locator("#budget-plan").wait_for()
        page.wait_for_selector("body[data-state=settled]")
        page.locator("body").click(position={"x": 1, "y": 1})
        below = page.get_by_role("heading", name="What the forecast rests on").bounding_box()
        assert below is not None
        part = {"x": 0, "y": 0, "width": WIDTH, "height": below["y"] - 24}
        page.screenshot(path=PICTURE, clip=part, full_page=True)
        browser.close()
    # a palette needs a third of the space
    Image.open(PICTURE).convert("RGB").quantize(200, dither=Image.Dither.NONE).save(
        PICTURE, optimize=True
    )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else DEFAULT_ADDRESS)
