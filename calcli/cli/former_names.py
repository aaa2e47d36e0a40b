"""Former names of options, which are read for one release and say the new name."""

from collections.abc import Sequence

GROUP_BY: dict[str, tuple[str, ...]] = {"--group": ("--group-by",)}
JSONL: dict[str, tuple[str, ...]] = {"--jsonl": ("--format", "jsonl")}

FORMER: dict[str, dict[str, tuple[str, ...]]] = {
    "extract": {
        "--all-scores": ("--scores", "*"),
        "--no-labels": ("--labels", "none"),
        "--views": ("--reduce",),
    },
    "run": GROUP_BY,
    "fit": GROUP_BY,
    "adapt": GROUP_BY,
    "apply": GROUP_BY,
    "evaluate": {**GROUP_BY, **JSONL, "--value-only": ("--format", "value")},
    "threshold": {**GROUP_BY, "--confidence": ("--level",)},
    "watch": GROUP_BY,
    "compare": {**GROUP_BY, **JSONL},
    "export": GROUP_BY,
    "diagram": GROUP_BY,
    "report": GROUP_BY,
    "inspect": GROUP_BY,
    "methods": JSONL,
    "metrics": JSONL,
}
"""Command -> {former name: the words that stand for it now}."""


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
        if options_end or name not in former:
            present.append(word)
            continue
        replacement = former[name]
        present += replacement
        if equals:
            present[-1] += f"={value}"
        notes.append(f"{name} is now {' '.join(replacement)}")
    return present, notes
