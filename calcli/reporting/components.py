"""Building blocks of the sections of a page: tables, terms of the glossary, buttons, a block per version."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from calcli.fast_dataclass import dataclass
from calcli.reporting.gather import ModelResults, Version
from calcli.reporting.markup import Safe, download, join, name, tag, text
from calcli.reporting.verdicts import tone

Row = (
    Safe | Sequence[object]
)  # cells, the first of which names the row, or finished markup
VersionTable = tuple[
    str, Sequence[object], Sequence[Row]
]  # (caption after the version's name, head, rows)
NONE = "–"  # an empty cell; a column of nothing else is left out

WORDS = """\
confidence | Confidence | How sure the model says it is of its answer, from 0 to 100%.
calibrated | Calibrated | Of all answers given with 80% confidence 80% are right, and so for every other confidence.
calibrator | Calibrator | A small function, fitted on labelled samples, that corrects the confidence after the model \
answered.
points | Points | Percentage points: from 80% to 90% are ten points.
overconfidence | Overconfidence | Mean confidence minus accuracy. Positive: overconfident. Negative: underconfident.
ece | Calibration error (ECE) | The average distance between confidence and accuracy over {bins} bins of confidence. A \
calibrated model has some as well; the value expected under calibration stands beside it.
loss | NLL | Negative log-likelihood, also log loss: minus the logarithm of the probability given to the true class, \
averaged. Lower is better; it rewards calibrated and sharp probabilities.
split | NLL decomposition | Calibration loss, which recalibration could reduce, and refinement loss, which only a \
better model could.
band | Grey band | Where the curve of a calibrated model with these confidences lies with probability {level} %, at \
each place.
interval | Interval | Confidence interval: intervals made like this contain the true value with probability {level} %.
coverage | Coverage | The proportion of samples above a threshold of confidence, which the model decides alone.
beyond | Significant | Larger than chance explains, adjusted for all classes, groups or bins of the table (Benjamini \
and Hochberg, 5%).
temperature | Temperature | One number that all scores are divided by. Above 1 it makes the model less sure, below 1 \
more.
window | Bin | All samples whose stated confidence lies in it.
"""
GLOSSARY = {
    key: (term, meaning)
    for key, term, meaning in (line.split(" | ") for line in WORDS.splitlines())
}
"""Name in the page -> term, meaning. {level} and {bins} are those of the page."""


@dataclass(frozen=True)
class Room:
    """Amount of detail about a model in a page. The JSON in the page and a report of one model are always complete."""

    lines: int = 10**9  # most lines in a table of classes or groups
    short: bool = (
        False  # tables of the uncalibrated scores and of the version in focus only
    )
    tight: bool = False  # also figures of these two only, and no temperatures


@dataclass(frozen=True)
class Chapter:
    """The part of a page about one model. m : its number."""

    model: ModelResults
    m: int
    room: Room = Room()


def term(word: str, *children: object) -> Safe:
    """Link to a term of the glossary, from which the script takes the tooltip."""
    return tag(
        "a", *(children or (GLOSSARY[word][0],)), href=f"#word-{word}", class_="term"
    )


def state_word(version: Version) -> Safe:
    """Verdict on a version as sign and word, never a colour alone."""
    r = version.report
    return tag(
        "span",
        tag("span", r.sign, aria_hidden="true"),
        " ",
        r.word,
        class_=f"state {tone(r)}",
    )


def under(what: object, small: object | None) -> Safe:
    """Text with smaller text beneath it, if there is any."""
    return text(what) if small is None else join([what, tag("small", small)])


def drawn_of(model: ModelResults, room: Room) -> tuple[ModelResults, ModelResults]:
    """Model with its versions in the order of tables, and the model with those that are drawn only."""
    if not room.tight:
        return model, model
    first = dict.fromkeys((0, model.focus))
    listed = tuple(
        model.versions[at] for at in first | dict.fromkeys(range(len(model.versions)))
    )
    return replace(model, versions=listed), replace(
        model, versions=listed[: len(first)]
    )


def table(
    caption: object,
    head: Sequence[object],
    rows: Sequence[Row],
    ident: str,
    **attributes: object,
) -> Safe:
    """Table that scrolls by itself where it is too wide, with a button to download it as CSV."""
    cells = [row for row in rows if not isinstance(row, Safe)]
    kept = [
        at
        for at in range(len(head))
        if not cells or any(row[at] != NONE for row in cells)
    ]

    def line(row: Row) -> Safe:
        if isinstance(row, Safe):
            return row
        return tag(
            "tr",
            tag("th", row[0], scope="row"),
            *(tag("td", row[at]) for at in kept[1:]),
        )

    heads = tag("thead", tag("tr", *(tag("th", head[at], scope="col") for at in kept)))
    called = tag("caption", tag("span", caption, id=f"about-{ident}"))
    inner = tag(
        "table",
        called,
        heads,
        tag("tbody", *map(line, rows)),
        id=ident,
        data_file=ident,
        **attributes,
    )
    whole = tag(
        "div",
        inner,
        class_="scroll",
        tabindex=0,
        role="region",
        aria_labelledby=f"about-{ident}",
    )
    return join([whole, download("CSV", ident)])


def each_version(
    c: Chapter, what: str, make: Callable[[Version], VersionTable], **attributes: object
) -> Safe:
    """One table per version, with that in focus visible; if short, only that and the uncalibrated scores have one."""
    blocks = []
    for at, v in enumerate(c.model.versions):
        inner = tag(
            "p",
            "Left out to keep a page of so many models small; a report of this model alone has it.",
        )
        if not c.room.short or at in (0, c.model.focus):
            words, head, rows = make(v)
            inner = table(
                join([name(v.name), words]),
                head,
                rows,
                f"{what}-{c.m}-{at}",
                **attributes,
            )
        blocks.append(
            tag(
                "div",
                inner,
                data_version=at,
                class_=None if at == c.model.focus else "off",
            )
        )
    return join(blocks)


def section(heading: object, *parts: object, **attributes: object) -> Safe:
    """A part of the page under its heading."""
    return tag("section", tag("h2", heading), *parts, **attributes)


def slider_panel(words: str, what: str, *more: Safe) -> Safe:
    """Slider over confidences, with an area for its readout, run by the script. what : its name to screen readers."""
    label = tag("label", words, tag("output", "90%", class_="at"))
    slider = tag(
        "input",
        type="range",
        min=0,
        max=100,
        value=90,
        class_=what.lower(),
        aria_label=what,
    )
    return tag(
        "div",
        label,
        slider,
        *more,
        tag("div", class_="readout", role="status"),
        class_="script panel",
    )
