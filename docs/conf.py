"""Sphinx settings. What the code knows is generated first, so that nothing is described twice."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import generate  # noqa: E402
import pictures  # noqa: E402
import rows_needed  # noqa: E402

from calcli import __version__  # noqa: E402

generate.write(HERE / "generated")
pictures.draw(HERE / "generated" / "pictures")
rows_needed.draw(HERE / "generated" / "pictures")

project = "calcli"
author = "the authors of calcli"
html_show_copyright = False
release = version = __version__
extensions = ["myst_parser"]
myst_enable_extensions = ["deflist", "fieldlist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "generated/*.md", "generated/pictures", "reports"]
html_theme = "furo"
html_title = f"calcli {release}"
html_extra_path = ["reports"]
html_copy_source = False
html_show_sphinx = False
smartquotes = False  # -- is an option's
html_static_path = ["style"]
html_css_files = ["calcli.css"]
suppress_warnings = ["myst.xref_ambiguous"]
