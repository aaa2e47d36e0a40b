"""Sphinx settings. What the code knows is generated first, so that nothing is described twice."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from sphinx.util.logging import getLogger

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import generate  # noqa: E402
import pictures  # noqa: E402
import rows_needed  # noqa: E402
import transcripts  # noqa: E402

from calcli import __version__  # noqa: E402

generate.write(HERE / "generated")
pictures.draw(HERE / "generated" / "pictures")
rows_needed.draw(HERE / "generated" / "pictures")

project = "calcli"
author = "the authors of calcli"
html_show_copyright = False
release = version = __version__
extensions = ["myst_parser", "sphinx_copybutton"]
copybutton_prompt_text = "$ "
html_math_renderer = "mathml"
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
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


def put_outputs(app, name, source):
    """Below the commands of a page marked ``show``, put what they print."""
    if "<!-- show -->" in source[0]:
        with TemporaryDirectory() as folder:
            source[0] = transcripts.with_output(
                source[0], transcripts.prepare(Path(folder), source[0]), ["show"]
            )


def mathml(display):
    """How a formula is written: as MathML, which browsers draw without a script or the network."""

    def visit(writer, node):
        drawn = convert(node.astext(), display="block" if display else "inline")
        if "\\" in drawn:  # a word of LaTeX that the converter does not know
            getLogger(__name__).warning(
                "formula %s: not all of it is drawn", node.astext()
            )
        writer.body.append(drawn)
        raise SkipNode

    return visit, None


REACHED = {
    ' role="heading">': ' role="heading" aria-level="2">',
    '<div class="table-wrapper': '<div tabindex="0" role="region" aria-label="Table" class="table-wrapper',
    ' display="block">': ' display="block" tabindex="0">',
    "<pre>": '<pre tabindex="0">',
    **{
        f'<span class="go">{word}': f'<span class="go prose">{word}'
        for word in ("verdict: ", "warning: ", "±: ", "[ ]: ")
    },
}
"""What the theme writes -> the same as a keyboard reaches it, where it scrolls, and a screen reader names it; and lines
of prose among outputs, which may wrap."""


def make_reachable(app, problem):
    """Change the pages that were written."""
    for path in Path(app.outdir).rglob("*.html") if problem is None else ():
        text = path.read_text("utf-8")
        better_text = text
        for found, better in REACHED.items():
            better_text = better_text.replace(found, better)
        if (
            better_text != text and 'name="generator" content="calcli' not in text
        ):  # a report is as it is
            path.write_text(better_text, "utf-8")


def setup(app):
    """Called by Sphinx."""
    app.connect("build-finished", make_reachable)
    app.add_html_math_renderer("mathml", mathml(False), mathml(True))
    app.connect("source-read", put_outputs)
