"""The built site: search, and what axe finds. Skipped where ``make docs`` has not built it."""

import json
import shutil
import sys

import pytest
from conftest import REPOSITORY

SITE = REPOSITORY / "docs" / "_build"
if not (SITE / "index.html").exists():
    pytest.skip("the site is not built (make docs)", allow_module_level=True)
sys.path.insert(0, str(REPOSITORY / "docs"))

PAGES = [
    "index",
    "first",
    "generated/methods/ts",
    "generated/metrics/ece",
    "python",
    "calibration",
    "sample",
]


@pytest.fixture(scope="module")
def index():
    text = (SITE / "searchindex.js").read_text("utf-8")
    return json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))


@pytest.mark.parametrize(
    ("stems", "page"),
    [
        (["huggingfac"], "recipes"),
        (["temperatur", "scale"], "generated/methods/ts"),
        (["sklearn"], "recipes"),
        (["sklearn"], "python"),
    ],
)
def test_search_finds_what_people_type(index, stems, page):
    """The search takes words as their stems, as Porter's algorithm has them."""
    pages_of_stems = []
    for stem in stems:
        hits = index["terms"].get(stem, []), index["titleterms"].get(stem, [])
        pages_of_stems.append(
            {
                index["docnames"][place]
                for hit in hits
                for place in ([hit] if isinstance(hit, int) else hit)
            }
        )
    assert page in set.intersection(*pages_of_stems)


def test_axe_finds_nothing_grave():
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    pytest.importorskip("axe_playwright_python")
    if not (shutil.which("chromium") or shutil.which("chromium-browser")):
        pytest.skip("no chromium on this machine (apt-get install chromium)")
    from accessibility import findings

    assert list(findings(SITE / f"{page}.html" for page in PAGES)) == []
