"""The headings under which help lists the options of a command."""

HEADINGS = {
    "Input": "scores all_scores labels no_labels kind percent gold join files_from pool allow_external"
    " group confidence correct per_label class_names classes",
    "Columns": "ids unit group_by ordered sample_weight",
    "Rows": "ignore_label drop_duplicates drop_missing",
    "Split": "stratify",
    "Language models": "normalize choices filter reduce",
    "Running a model": "model inputs weights layout scale resize grey transform transforms mean std batch device dtype",
    "Metrics": "metric bins norm scheme label threshold compat level resamples interval",
    "Limits": "max_ min_ junit",
    "Output": "output form force json jsonl quiet value_only signature explain full",
    "Workers": "workers cluster",
}
"""Heading -> options, by the name of their field; all others are listed first, as options of the command."""

OWN = {
    "fit": {"device": ""},
    "extract": {"split": "Split", "seed": "Split", "ordered": "Split"},
    "apply": {"threshold": ""},
}
OWN |= {"threshold": {"confidence": ""}, "diagram": {"layout": "", "label": "", "bins": "", "scheme": "", "level": ""}}
"""Command -> options that stand elsewhere there."""

_HEADING = {name: heading for heading, names in HEADINGS.items() for name in names.split()}


def heading_of(command: str, option: str) -> str:
    """The heading of an option of a command, nothing for one of the command's own."""
    return OWN.get(command, {}).get(option, _HEADING.get(option, ""))
