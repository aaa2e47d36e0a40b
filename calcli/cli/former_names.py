"""Former names of options, which are read for one release and say the new name."""

from collections.abc import Sequence

GROUP_BY: dict[str, tuple[str, ...]] = {"--group": ("--group-by",)}
JSONL: dict[str, tuple[str, ...]] = {"--jsonl": ("--format", "jsonl")}
AGAIN: dict[str, tuple[str, ...]] = {"--force-shift": ("--again",)}
DECOMPOSITION: dict[str, tuple[str, ...]] = {
    "--split": ("--decomposition",),
    "--no-split": ("--no-decomposition",),
}

FORMER: dict[str, dict[str, tuple[str, ...]]] = {
    "extract": {
        "--all-scores": ("--scores", "*"),
        "--no-labels": ("--labels", "none"),
        "--views": ("--reduce",),
        "--group": ("--part",),
        "--ordered": ("--no-shuffle",),
        "--mean": ("--normalize", "mean="),
        "--std": ("--normalize", "std="),
        "--scale": ("--normalize", "scale="),
    },
    "run": GROUP_BY,
    "fit": {**GROUP_BY, **AGAIN},
    "adapt": {**GROUP_BY, **AGAIN},
    "apply": GROUP_BY,
    "evaluate": {
        **GROUP_BY,
        **JSONL,
        **DECOMPOSITION,
        "--value-only": ("--format", "value"),
    },
    "threshold": {**GROUP_BY, "--confidence": ("--level",)},
    "watch": GROUP_BY,
    "compare": {**GROUP_BY, **JSONL},
    "export": GROUP_BY,
    "diagram": {**GROUP_BY, "--layout": ("--arrange",)},
    "report": {**GROUP_BY, **DECOMPOSITION},
    "inspect": GROUP_BY,
    "methods": JSONL,
    "metrics": JSONL,
}
"""Command -> {former name: the words that stand for it now}.

Where the last word ends with ``=``, the value of the option belongs to it.
"""

TRANSFORM = "--transform"
NUMBER_OF_DRAWS = "--transforms"
"""Former option of ``extract``: values to draw from each range of ``--transform``."""


def with_present_names(
    command: str, words: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Replace former names of options among the words of a command line.

    Returns the words, and a sentence for every name that was replaced.
    """
    former = FORMER.get(command, {})
    present: list[str] = []
    notes: list[str] = []
    options_end = False
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--":
            options_end = True
        if present and present[-1] in _openings(former):
            present[-1] += word
            continue
        if options_end or name not in former:
            present.append(word)
            continue
        replacement = former[name]
        present += replacement
        if equals and replacement[-1].endswith("="):
            present[-1] += value
        elif equals:
            present[-1] += f"={value}"
        notes.append(f"{name} is now {' '.join(replacement)}")
    if command == "extract":
        in_ranges = _with_draws_in_ranges(present)
        if in_ranges != present:
            notes.append(f"{NUMBER_OF_DRAWS} N is now {TRANSFORM} NAME:FROM:TO:N")
        present = in_ranges
    return present, notes


def _openings(former: dict[str, tuple[str, ...]]) -> list[str]:
    """Words that wait for the value of an option, such as ``mean=``."""
    return [words[-1] for words in former.values() if words[-1].endswith("=")]


def _with_draws_in_ranges(words: list[str]) -> list[str]:
    """Write the number of ``--transforms`` behind every range of ``--transform``.

    Other words stay, as do those behind ``--``.
    """
    end = words.index("--") if "--" in words else len(words)
    options: list[str] = []
    for word in words[:end]:
        name, equals, value = word.partition("=")
        if equals and name in (TRANSFORM, NUMBER_OF_DRAWS):
            options += [name, value]
        else:
            options.append(word)
    if NUMBER_OF_DRAWS not in options[:-1]:
        return words
    place = options.index(NUMBER_OF_DRAWS)
    number = options[place + 1]
    others = [*options[:place], *options[place + 2 :]]
    present = []
    for before, word in zip(["", *others], others, strict=False):
        if before == TRANSFORM:
            present.append(_with_draws(word, number))
        else:
            present.append(word)
    return [*present, *words[end:]]


def _with_draws(transforms: str, number: str) -> str:
    """A chain of transforms with a number of draws behind every range."""
    parts = []
    for part in transforms.split("+"):
        is_range = part.count(":") == 2
        parts.append(f"{part}:{number}" if is_range else part)
    return "+".join(parts)
