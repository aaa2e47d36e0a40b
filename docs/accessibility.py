"""What axe finds on the pages of a built site: python docs/accessibility.py docs/_build [PAGE …]

Prints critical and serious findings of every page at 390 and 1280 pixels, light and dark; exit code 1 where there is
one. Needs Playwright, axe-playwright-python and a Chromium of the system.
"""

import shutil
import sys
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path

SCREENS = [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")]
GRAVE = ("critical", "serious")


def findings(pages: Iterable[Path]) -> Iterator[str]:
    """A line per grave finding."""
    import axe_playwright_python
    from playwright.sync_api import sync_playwright

    axe = files(axe_playwright_python).joinpath("axe.min.js").read_text("utf-8")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=chromium,
            args=["--headless", "--no-sandbox", "--disable-gpu"],
        )
        contexts = [
            browser.new_context(
                viewport={"width": width, "height": 900},
                color_scheme=scheme,
                reduced_motion="reduce",
            )
            for width, scheme in SCREENS
        ]
        for path in pages:
            for context, screen in zip(contexts, SCREENS, strict=True):
                page = context.new_page()
                page.goto(path.resolve().as_uri())
                page.evaluate(axe)
                for found in page.evaluate(
                    "axe.run(document, {resultTypes: ['violations']})"
                )["violations"]:
                    if found["impact"] in GRAVE:
                        where = found["nodes"][0]["html"][:120]
                        yield f"{path.name} {screen}: {found['id']} ({found['impact']}, {len(found['nodes'])}): {where}"
                page.close()
        browser.close()


def main(folder: Path, names: list[str]) -> int:
    """Look at the pages that are named, or all."""
    pages = [folder / name for name in names] or sorted(folder.rglob("*.html"))
    found = 0
    for line in findings(pages):
        print(line, flush=True)
        found += 1
    print(f"{len(pages)} pages, {found} findings", file=sys.stderr)
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
