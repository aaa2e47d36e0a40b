"""Text that may come from anywhere, made safe for a page; the only place where markup is joined."""

import json
from collections.abc import Iterable
from html import escape
from typing import Any

from calcli.io.harmless import HIDDEN, finite

CONTROLS = ({*range(32), *range(127, 160)} - {ord("\n"), ord("\t")}) | {
    *range(0xD800, 0xE000)
}
SPELT = {at: f"⟨U+{at:04X}⟩" for at in CONTROLS | HIDDEN}


class Safe(str):
    """Finished markup."""

    __slots__ = ()


def visible(value: str) -> str:
    """The text with control, zero-width and direction characters and lone surrogates spelled out."""
    return value.translate(SPELT)


def text(value: object) -> Safe:
    """Escape anything as text of the page; finished markup is returned unchanged."""
    return (
        value
        if isinstance(value, Safe)
        else Safe(escape(visible(str(value)), quote=True))
    )


def join(parts: Iterable[object], between: str = "") -> Safe:
    return Safe(between.join(text(part) for part in parts))


def tag(kind: str, *children: object, **attributes: object) -> Safe:
    """An element. ``class_`` is class, ``data_x`` is data-x; None and False leave an attribute out, True sets it."""
    words = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        words.append(
            f" {key}"
            if value is True
            else f' {key}="{escape(visible(str(value)), quote=True)}"'
        )
    head = f"<{kind}{''.join(words)}"
    if kind in {"meta", "link", "input", "br"}:
        return Safe(f"{head}>")
    if not children and kind in {
        "path",
        "circle",
        "line",
        "rect",
        "polyline",
        "polygon",
        "use",
    }:
        return Safe(f"{head}/>")
    return Safe(f"{head}>{join(children)}</{kind}>")


def name(value: str, most: int = 60) -> Safe:
    """Name from a file, isolated in its writing direction; a very long one is cut, with the whole in its title."""
    seen = visible(short(value))
    if len(seen) <= most:
        return text(seen) if seen.isascii() else tag("bdi", seen)
    return tag("bdi", f"{seen[: most - 1]}…", title=seen)


def short(value: str) -> str:
    """The beginning of a text that could be as long as a file."""
    return value if len(value) <= 2000 else f"{value[:1999]}…"


def download(kind: str, ident: str) -> Safe:
    """A button for a table (CSV) or a figure (SVG), which only works with script and is hidden without."""
    return tag(
        "p",
        tag("button", f"Download {kind}", type="button", data_download=ident),
        class_="script downloads",
    )


def data_block(ident: str, value: Any) -> Safe:
    """JSON for the script or for other programs, inert inside the page."""
    plain = json.dumps(
        finite(value), ensure_ascii=True, allow_nan=False, separators=(",", ":")
    )
    for sign, code in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        plain = plain.replace(sign, code)
    return Safe(f'<script type="application/json" id="{ident}">{plain}</script>')
