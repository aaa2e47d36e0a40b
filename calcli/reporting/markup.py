"""Text that may come from anywhere, made harmless: the templates' environment.

Every value that a template prints is spelled (``visible``), then escaped. Markup that
is finished already, such as a figure, has the type ``Markup``.
"""

import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from calcli.io.harmless import HIDDEN, finite
from calcli.reporting.glossary import GLOSSARY

TAB_AND_NEWLINE = {ord("\t"), ord("\n")}
CONTROLS = ({*range(32), *range(127, 160)} - TAB_AND_NEWLINE) | {*range(0xD800, 0xE000)}
SPELLED = {code: f"⟨U+{code:04X}⟩" for code in CONTROLS | HIDDEN}
UNSEEN = re.compile(f"[{re.escape(''.join(map(chr, SPELLED)))}]")

LONGEST_TEXT = 2000
"""Characters of a text from a file that a page shows; it could be as long as the file."""

LONGEST_NAME = 60
"""Characters of a name that are shown; the whole of it is its tooltip."""


def visible(text: str) -> str:
    """The text with control, zero-width and direction characters spelled out."""
    if UNSEEN.search(text) is None:
        return text
    return text.translate(SPELLED)


def spelled(value: Any) -> Any:
    """Spell a value that a template prints; finished markup stays as it is."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return visible(value)


def beginning(text: str) -> str:
    """The beginning of a text that could be as long as a file."""
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[: LONGEST_TEXT - 1]}…"


def name(text: str, longest: int = LONGEST_NAME) -> Markup:
    """A name from a file, isolated in its writing direction, and cut if it is long."""
    shown = visible(beginning(text))
    if len(shown) > longest:
        head = shown[: longest - 1]
        return Markup('<bdi title="{}">{}…</bdi>').format(shown, head)
    if shown.isascii():
        return escape(shown)
    return Markup("<bdi>{}</bdi>").format(shown)


def cells(texts: Sequence[str]) -> Markup:
    """Cells of a row in a long list, where a tag per cell in the template is slow.

    HTML ends a cell by itself where the next one begins.
    """
    together = str(escape(visible("\n".join(texts))))
    inside = together.replace("\n", "<td>")
    return Markup(f"<td>{inside}")


def json_script(ident: str, value: Any) -> Markup:
    """JSON for the script or for other programs, inert inside the page."""
    try:
        plain = _dumps(value)
    except ValueError:  # a number is not finite
        plain = _dumps(finite(value))
    for character, code in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        plain = plain.replace(character, code)
    block = Markup('<script type="application/json" id="{}">{}</script>')
    return block.format(ident, Markup(plain))


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def resource(path: str) -> str:
    """The text of a file of this package."""
    return files("calcli.reporting").joinpath(path).read_text("utf-8")


@cache
def environment() -> Environment:
    """The environment of the templates: everything is spelled and escaped."""
    made = Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        finalize=spelled,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters["name"] = name
    made.filters["cells"] = cells
    made.globals["glossary"] = GLOSSARY
    return made


def _template(path: str) -> str:
    """A template without its indentation, which would make pages larger."""
    lines = resource(f"templates/{path}").splitlines()
    return "\n".join(line.strip() for line in lines)


def rendered(path: str, **views: Any) -> Markup:
    """The markup of a template. views : what it shows, by name."""
    return Markup(environment().get_template(path).render(views))
