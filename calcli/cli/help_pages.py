"""What the help of a command shows: a short page, and all of it with ``--help-all``.

A page of ``--help`` fits 60 lines of 80 columns. It shows the options of COMMON in the
order in which they are used; ``--help-all`` shows all options, under HEADINGS.
"""

COMMON = {
    "extract": "output scores labels kind split group_by unit ids sample_weight gold"
    " confidence correct join normalize drop_missing model inputs transform",
    "run": "method keep_predictions set_ output full group_by unit seed force json",
    "fit": "method keep_predictions set_ by output full seed force json quiet",
    "adapt": "output source prior from_ again seed force json quiet",
    "apply": "output as_ form threshold again files_from workers force json quiet",
    "evaluate": "calibrator metric full group_by per_class baseline label bins level"
    " max_ min_ fail_on junit pool form signature json quiet",
    "threshold": "accuracy precision record calibrator level output again force json"
    " quiet",
    "watch": "calibrator state tolerance level label reset json quiet",
    "compare": "methods baseline baseline_bundle test folds seed output diagram form"
    " json",
    "export": "output to onto at check again force json quiet",
    "diagram": "calibrator output style label per_class group_by panels arrange names"
    " title width theme bins level pool seed force quiet",
    "report": "calibrator output title max_ min_ group_by state pool force json",
    "inspect": "json",
    "methods": "form json",
    "metrics": "form json",
    "completion": "",
}
"""Command -> field names of the options that ``--help`` shows, in the order of use."""

HEADINGS = (
    "Input",
    "Columns",
    "Rows",
    "Split",
    "Language models",
    "Running a model",
    "Metrics",
    "Limits",
    "Output",
    "Workers",
)
"""Headings of ``--help-all`` in their order; an option names its own where it is
declared (``rich_help_panel``), and those without one come first.
"""

READING_LINE = (
    "Reading files (--scores --labels --kind --unit --ids …): see calcli extract --help"
)


def common_options(command: str) -> list[str]:
    """Field names of the options on the short page of a command, in their order."""
    return COMMON[command].split()
