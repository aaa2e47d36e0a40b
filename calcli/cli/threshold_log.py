"""``threshold`` of a log of decisions: one for each question."""

import json
from pathlib import Path
from typing import Any

from calcli.cli.context import CommandContext
from calcli.cli.fit_log import bundles_of
from calcli.cli.render import Cell, print_json, print_path, print_table
from calcli.errors import FitError
from calcli.evaluation.caveats import not_held_out
from calcli.evaluation.selective_threshold import search_threshold
from calcli.importers.open_any_file import logs_once
from calcli.io.atomic import check_output, write_bytes
from calcli.io.bundle import CONFIDENCE_FORMULA, QUESTION, BundleRows
from calcli.io.question_artifact import load_for

KEYS = ("threshold", "coverage", "accuracy", "accuracy_lower", "level")


def threshold_log(args: Any) -> int:
    """Find a threshold for every question of a log. args : those of ``threshold``.

    The confidence of ``confidence_threshold`` is that of the log, where it is a function
    of the largest probability. Returns 4 where no question has a threshold.
    """
    if args.output is not None:
        check_output(Path(args.output), force=args.force)
    command = CommandContext(args)
    questions: dict[str, dict[str, Any]] = {}
    with logs_once(args.given, args.where), command:
        for bundle in bundles_of(args.given[0], args.where):
            name, facts = _threshold_of(bundle, args, command)
            questions[name] = facts
    content = {"calcli_threshold": 1, "questions": questions}
    if args.output is not None:
        text = json.dumps(content, indent=1) + "\n"
        write_bytes(Path(args.output), text, force=args.force)
    if args.json:
        print_json(content)
    else:
        _print(questions)
        if args.output is not None:
            print_path(Path(args.output))
    has_any = any(facts["threshold"] is not None for facts in questions.values())
    return 0 if has_any else FitError.exit_code


def _threshold_of(
    bundle: str, args: Any, command: CommandContext
) -> tuple[str, dict[str, Any]]:
    """Name of a question, and its threshold; null where none holds the bound."""
    artifact = None
    if args.calibrator is not None:
        artifact = load_for(args.calibrator, bundle)
    with command.rows([bundle]) as rows:
        assert isinstance(rows, BundleRows)
        command.check_fits(artifact, args.calibrator, rows)
        searched = search_threshold(
            rows, artifact, args.accuracy, args.confidence, args.calibrator
        )
        warning = not_held_out(artifact, rows)
        if warning is not None:
            text = f"{rows.name}: {warning} (on these the guarantee does not hold)"
            command.warn(text)
        facts = {key: searched.content.get(key) for key in KEYS}
        facts["confidence_threshold"] = _wire_threshold(facts["threshold"], rows)
        facts["n"] = rows.n
        return rows.text_attribute(QUESTION) or rows.group, facts


def _wire_threshold(threshold: float | None, rows: BundleRows) -> float | None:
    """The threshold in units of the log's own confidence; None where it has none."""
    if threshold is None or rows.n_options is not None:
        return None
    formula = rows.text_attribute(CONFIDENCE_FORMULA)
    if formula == "largest":
        return threshold
    if formula == "above_chance":
        chance = 1.0 / rows.k
        return max(0.0, (threshold - chance) / (1.0 - chance))
    return None


def _print(questions: dict[str, dict[str, Any]]) -> None:
    """Print a table of the thresholds."""
    table: list[list[Cell]] = []
    for name, facts in questions.items():
        keys = ("threshold", "confidence_threshold", "coverage", "accuracy")
        row: list[Cell] = [name, facts["n"], *(facts[key] for key in keys)]
        table.append([*row, facts["accuracy_lower"]])
    print_table(
        ["question", "rows", "from", "confidence", "coverage", "right", "at least"],
        table,
    )
