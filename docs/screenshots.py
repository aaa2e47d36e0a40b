"""Pictures of the first screen of a report, light and dark: python docs/screenshots.py REPORT.html FOLDER

Needs Playwright and a Chromium of the system; without them nothing is drawn.
"""

import shutil
import sys
from pathlib import Path

SCREEN = {"width": 1280, "height": 900}


def main(report: Path, folder: Path) -> None:
    """Write report-light.png and report-dark.png."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        print(
            "no Chromium or no Playwright: the pictures stay as they are",
            file=sys.stderr,
        )
        return
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=chromium,
            args=["--headless", "--no-sandbox", "--disable-gpu"],
        )
        for scheme in ("light", "dark"):
            page = browser.new_context(viewport=SCREEN, color_scheme=scheme).new_page()
            page.goto(report.resolve().as_uri())
            page.screenshot(path=folder / f"report-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
