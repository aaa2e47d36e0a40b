"""Find the lowest confidence above which accuracy is at least A, with a guarantee.

Rows of at least that confidence are accepted; calcli apply --threshold marks them. The
rows must not be those of the calibrator's fit. Weighted rows are refused: the bound is exact
for counts only. Where the bundle has a dataset unit, rows of one unit belong together, and the guarantee is
for units that are drawn independently.

\b
calcli threshold logits.h5:test --calibrator logits.ts.json --accuracy 0.95
calcli threshold logits.h5:test --calibrator logits.ts.json --accuracy 0.95 -o threshold.json
calcli apply logits.ts.json new.h5 --threshold threshold.json -o accepted.csv
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from calcli.cli import options as o
from calcli.cli.context import CommandContext, not_held_out
from calcli.cli.render import Console, fail, print_json, print_path
from calcli.errors import DataError, FitError
from calcli.evaluation.selective_threshold import Choice, choose_threshold
from calcli.fast_dataclass import dataclass
from calcli.fit_and_apply import calibrated_blocks, checked_transforms
from calcli.flags import REQUIRED, flag
from calcli.io.artifact import Artifact
from calcli.io.atomic import check_output, write_bytes
from calcli.io.dataset import DataSet
from calcli.io.provenance import link_to
from calcli.methods.compared.identity import Identity
from calcli.metrics.coverage import Accepted, accuracy_at_coverage, coverage_at_accuracy, exact_interval
from calcli.numerics import FloatArray
from calcli.statistics.units import Units

ORDER = 43
EPILOG = "Exit code 4: no threshold satisfies the bound on these rows; with --json its numbers are null."
COVERAGES = (1.0, 0.9, 0.8, 0.7, 0.5)


@dataclass(frozen=True)
class ThresholdArgs(o.ReadingSeveral, o.WorkerOptions, o.OutputOptions):
    accuracy: float = flag(REQUIRED, "Accuracy that accepted rows must have.", "A")
    bundles: list[str] | None = o.bundles("Labelled rows, of several bundles together; group test when none is named.")
    calibrator: str | None = flag(None, "Artifact; else the scores as they are.", "ART.json", "-c")
    confidence: float = flag(0.95, "Probability with which the guarantee holds.", "LEVEL")
    output: str | None = flag(None, "File for apply --threshold.", "OUT.json", "-o")
    again: bool = o.again()
    force: bool = o.force()

    @property
    def inputs(self) -> list[Path]:
        """Files that are read, and so never written."""
        read = self.files
        return read if self.calibrator in (None, "-") else [*read, Path(str(self.calibrator))]


def run(args: ThresholdArgs) -> int:
    """Collect confidences, search, and tell; 4 when no threshold satisfies the bound."""
    command = CommandContext(args)
    if args.output is not None:
        check_output(Path(args.output), force=args.force, inputs=args.inputs)
    artifact = command.calibrator(args.calibrator)
    with command, command.rows(args.expanded) as rows:
        if rows.weights() is not None:
            raise DataError(f"{rows.name}: has sample weights; the bound is exact for counts only, drop the weights")
        command.check_fits(artifact, args.calibrator, rows)
        confidence, correct = confidences(artifact, rows)
        command.caveats(rows)
        if (told := not_held_out(artifact, rows)) is not None:
            command.warn(f"{rows.name}: {told} (on these the guarantee does not hold)")
        units = rows.given_units
        found = choose_threshold(confidence, correct, args.accuracy, args.confidence, units)
        content = facts(args, artifact, rows, found, confidence, correct)
    if args.output is not None and found.best is not None:
        write_bytes(Path(args.output), json.dumps(content, indent=1) + "\n", force=args.force, inputs=args.inputs)
    if args.json:
        print_json(content)
    elif found.best is None:
        pass
    elif args.output is not None:
        print_path(args.output)
    else:
        print(repr(found.best.threshold))
    if found.best is None:
        return fail(why_not(args, content["bundle"], found, confidence, correct, units), FitError.exit_code)
    tell(command, found, content)
    return 0


def confidences(artifact: Artifact | None, rows: DataSet) -> tuple[FloatArray, FloatArray]:
    """Confidence of every row and 1.0 where its prediction is the label, as ``apply`` gives them."""
    calibrator = Identity() if artifact is None else artifact.calibrator
    transforms = checked_transforms(calibrator, rows, rows.name)
    known = rows.kind == "confidence"  # the rows say themselves whether they are right
    parts = []
    for _, scores, columns, _ in calibrated_blocks(calibrator, rows, "confidence" if known else "probs", transforms):
        hit = columns["correct"] if known else columns["prediction"] == columns["labels"]
        parts.append((scores if known else columns["confidence"], hit.astype(np.float64)))
    return np.concatenate([c for c, _ in parts]), np.concatenate([hit for _, hit in parts])


def facts(
    args: ThresholdArgs,
    artifact: Artifact | None,
    rows: DataSet,
    found: Choice,
    confidence: FloatArray,
    correct: FloatArray,
) -> dict[str, Any]:
    """The JSON object. Intervals are for independent rows, and left out (null) where rows belong together."""
    best, units = found.best, rows.given_units
    alone = units is None or units.single
    together: dict[str, Any] = {}
    if units is not None:
        together["units"] = {"name": rows.own_name("unit"), "n": units.n, "largest": int(units.count.max())}
    elif rows.unit is not None:
        together["units"] = {"name": rows.unit}
    if found.design_effect is not None and best is not None:
        together["units"] |= {
            "design_effect": found.design_effect,
            "effective_rows": best.accepted / found.design_effect,
        }
    return {
        "calcli_threshold": 1,
        "bundle": rows.name,
        "calibrator": args.calibrator,
        "calibrator_sha256": None if artifact is None else link_to(artifact).sha256,
        "target": args.accuracy,
        "level": args.confidence,
        "n": len(confidence),
        "threshold": None if best is None else best.threshold,
        "coverage": None if best is None else best.coverage,
        "coverage_ci": None
        if best is None or not alone
        else list(exact_interval(best.accepted, best.n, args.confidence)),
        "accuracy": None if best is None else best.accuracy,
        "accuracy_lower": found.lower,
        "accepted": None if best is None else best.accepted,
        "right": None if best is None else best.right,
        "tests": found.tests,
        "guarantee": guarantee(args, alone),
        "accuracy_at_coverage": [
            described(accuracy_at_coverage(confidence, correct, c), args.confidence if alone else None)
            for c in COVERAGES
        ],
        **together,
    }


def guarantee(args: ThresholdArgs, independent: bool = True) -> str:
    """What is promised, in a sentence. independent : rows, else units."""
    if not independent:
        return (
            f"With probability {args.confidence:g} if units are drawn independently (approximate: binomial at the"
            f" effective number of rows), new rows that are accepted are right at least {args.accuracy:g} of the time."
        )
    return (
        f"With probability {args.confidence:g} over the draw of these rows, new rows of the same kind that are"
        f" accepted are right at least {args.accuracy:g} of the time (exact binomial tests, corrected for the search)."
    )


def described(here: Accepted, level: float | None) -> dict[str, Any]:
    """One point of the curve; the interval is for this point alone, and left out without a level."""
    return {
        "coverage": here.coverage,
        "threshold": here.threshold,
        "accuracy": here.accuracy,
        "accuracy_ci": None if level is None else list(exact_interval(here.right, here.accepted, level)),
    }


def why_not(
    args: ThresholdArgs,
    where: str,
    found: Choice,
    confidence: FloatArray,
    correct: FloatArray,
    units: Units | None = None,
) -> str:
    """Why there is no threshold, and what would help."""
    if units is not None and not units.single:
        if units.n < found.least:
            return (
                f"{where}: no threshold guarantees accuracy {args.accuracy:g} with confidence {args.confidence:g} on"
                f" {units.n} units; {found.least} units must be accepted, all right, before any can"
            )
    elif len(confidence) < found.least:
        return (
            f"{where}: no threshold guarantees accuracy >= {args.accuracy:g} with confidence {args.confidence:g} on"
            f" {len(confidence)} samples; even without an error it takes {found.least}"
        )
    seen = coverage_at_accuracy(confidence, correct, args.accuracy)
    best = f"too few samples: it is reached on {seen.coverage:.1%} of them" if seen else "it is not reached here"
    return (
        f"{where}: no threshold guarantees accuracy >= {args.accuracy:g} with confidence {args.confidence:g} ({best});"
        " give more samples, or a lower --accuracy"
    )


def tell(talk: Console, found: Choice, content: dict[str, Any]) -> None:
    """The choice and its surroundings, for people."""
    best = found.best
    assert best is not None
    talk.say(
        f"threshold {best.threshold:.6g} accepts {best.accepted} of {best.n} rows ({best.coverage:.1%}), of which"
        f" {best.accuracy:.2%} are right (at least {found.lower:.2%})"
    )
    talk.say(content["guarantee"])
    for point in content["accuracy_at_coverage"]:
        ci = point["accuracy_ci"]
        shown = "" if ci is None else f" ({ci[0]:.4f} to {ci[1]:.4f})"
        talk.say(
            f"coverage {point['coverage']:6.1%}: accuracy {point['accuracy']:.4f}{shown},"
            f" confidence from {point['threshold']:.4f}"
        )
