"""calcli fit --method all: every method that applies, one table."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calcli.calibrator import Context
from calcli.cli.fit_text import as_json
from calcli.cli.render import Talk, print_json, print_table
from calcli.errors import CalcliError, DataError, FitError, UsageError
from calcli.io.artifact import save
from calcli.io.atomic import check_output, make_folder
from calcli.io.bundle import BundleRows
from calcli.registry import method, method_names, parse_options
from calcli.workflow import fit_artifact

if TYPE_CHECKING:
    from calcli.cli.commands.fit import FitArgs


def fit_all(args: "FitArgs", rows: BundleRows, context: Context, talk: Talk) -> int:
    """Fit every method that applies, keep going on failures, show them side by side.

    Returns the worst exit code. Raises UsageError for an output that is no folder.
    """
    targets = _targets(args, rows)
    table: list[list[Any]] = []
    done: list[dict[str, object]] = []
    worst = 0
    for name, path in targets.items():
        if method(name).laws.needs_transforms and not rows.transforms:
            talk.say(f"{name}: left out, it needs the scores under transforms and this bundle has none")
            continue
        begun = time.perf_counter()
        try:
            artifact = fit_artifact(name, parse_options(name, {}), rows, context)
            save(artifact, str(path), force=args.force)
        except DataError:
            raise
        except Exception as error:  # one method's failure is no reason to lose the others
            code = getattr(error, "exit_code", CalcliError.exit_code)
            worst = max(worst, code)
            talk.clear()
            print(f"calcli: {name}: {' '.join(str(error).split())}", file=sys.stderr)
            table.append([name, "failed", time.perf_counter() - begun, *[None] * 4])
            done.append({"method": name, "status": "failed", "reason": str(error), "exit_code": code})
            continue
        seconds = time.perf_counter() - begun
        talk.clear()
        fit = artifact.fit
        if not table:
            table.append(["identity", "", 0.0, *fit.before.values()])
        table.append([name, fit.status, seconds, *fit.after.values()])
        done.append({**as_json(artifact, str(path)), "seconds": seconds})
        for warning in fit.warnings:
            talk.warn(f"{name}: {warning}")
        if args.strict and fit.status != "ok":
            worst = max(worst, FitError.exit_code)
        if not args.json:
            print(path, flush=True)
    if not talk.quiet:
        talk.say(f"on the calibration data {rows.name}, {rows.n} rows, {rows.k} classes:")
        print_table(["method", "status", "seconds", "accuracy", "nll", "brier", "ece"], table, file=sys.stderr)
    if args.json:
        print_json({"calcli_fit_all": 1, "results": done})
    return worst


def _targets(args: "FitArgs", rows: BundleRows) -> dict[str, Path]:
    """The file of every method, in a folder that is there."""
    folder = Path(args.output or f"{args.stem}.calibrators")
    if args.output == "-" or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"-o {args.output}: expected a folder with --method all")
    make_folder(folder)
    names = [name for name in method_names() if name != "identity" and method(name).composable]
    targets = {name: folder / f"{args.stem}.{name}.json" for name in names}
    for path in targets.values():
        check_output(path, force=args.force, inputs=[rows.path])
    return targets
