"""Fit a calibrator to a bundle of scores with labels.

Writes the artifact (by default <file stem>.<method>.json here) and prints its path on
stdout; what it did to NLL and ECE is said on stderr.

\b
calcli fit logits.h5
calcli fit --method ec --set top=5 logits.h5:cal -o ec5.json

\f
Several bundles are one data set, whose rows come one after the other; the artifact is
then named after the first.

\b
calcli fit --method all logits.h5 -o calibrators/
calcli fit --method ts 'shards/*.h5:cal' -o all.ts.json
"""

import math
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import typer
from msgspec import Meta

from calcli.calibrator import Context, CrossFitting, Options, Status
from calcli.cli import options as o
from calcli.cli.context import CommandContext, artifact_target
from calcli.cli.decision_logs.fit import fit_log_command, is_whole_log
from calcli.cli.print_fit import print_fit
from calcli.cli.render import (
    Cell,
    Console,
    Table,
    print_json,
    print_path,
    print_table,
)
from calcli.cli.resumable import job_file
from calcli.errors import CalcliError, DataError, FitError, UsageError
from calcli.fitting.fit import fit_artifact, fit_with_cross_fits
from calcli.io.artifact import Artifact, save
from calcli.io.atomic import check_output, make_folder
from calcli.io.dataset import DataSet
from calcli.io.locate import columns_joined, split_where
from calcli.kernels.device import resolve
from calcli.number_words import noun
from calcli.output import Count, Number, Output, one_of
from calcli.registry import (
    BY,
    DEFAULT_METHOD,
    by_group,
    default_method,
    method,
    parse_options,
    settings_of,
    split_method,
    with_group_column,
    without_group,
)
from calcli.rows import classes

HELD_OUT = re.compile(
    r"(^|[^a-z])(tests?|hold[-_ ]?outs?|held[-_ ]?out)([^a-z]|$)", re.IGNORECASE
)
EPILOG = "calcli methods lists the methods, calcli methods NAME the options of one."
DEFAULTS = "auto; with --by ts, of confidences platt"


def _are_columns(by: Sequence[str]) -> bool:
    """Whether maps by group are by columns of the rows: not by prediction or label.

    Raises UsageError where both kinds are named.
    """
    without_column = [name for name in by if name in ("prediction", "label")]
    if without_column and len(set(by)) > 1:
        raise UsageError(
            f"--by {' --by '.join(by)}: {without_column[0]} does not combine with"
            " columns of groups; name it alone"
        )
    return not without_column


class SummaryOutput(Output, kw_only=True):
    """Metrics of the calibration rows, in-sample."""

    accuracy: Number
    nll: Number
    brier: Number
    ece: Number


class ConfidenceSummaryOutput(Output, kw_only=True):
    """Metrics of confidences without classes: their losses are of being right."""

    accuracy: Number
    nll_top: Number
    brier_top: Number
    ece: Number


class FitOutput(Output, kw_only=True):
    """The JSON of ``calcli fit``: one method."""

    calcli_fit: Literal[1]
    artifact: str
    method: str
    status: Status
    warnings: list[str]
    n: Count
    before: Annotated[Any, one_of(SummaryOutput, ConfidenceSummaryOutput)]
    after: Annotated[Any, one_of(SummaryOutput, ConfidenceSummaryOutput)]
    seconds: Annotated[
        float, Meta(description="processor time of the fit in this process")
    ]


class FittedMethod(FitOutput, kw_only=True):
    """One of all methods. cv_nll : NLL of held-out rows."""

    cv_nll: Number


class FailedMethod(Output, kw_only=True):
    """One of all methods that could not be fitted."""

    method: str
    status: Literal["failed"]
    reason: str
    exit_code: int


class FitAllOutput(Output, kw_only=True):
    """The JSON of ``calcli fit --method all``."""

    calcli_fit_all: Literal[1]
    results: list[Annotated[Any, one_of(FittedMethod, FailedMethod)]]


@dataclass(frozen=True, kw_only=True)
class FitArgs(o.MethodOptions, o.ReadingSeveral, o.WorkerOptions, o.OutputOptions):
    FOLDERS: ClassVar[bool] = True
    by_default: ClassVar[bool] = False

    method: Annotated[
        str, o.method("Method, a composition such as ts+hb, or all.", DEFAULTS)
    ] = ""
    bundles: Annotated[
        list[str] | None,
        o.bundles("FILE.h5 or FILE.h5:GROUP; group cal (or val) when none is named."),
    ] = None
    output: Annotated[
        str | None,
        o.output(
            "ART.json", "Artifact to write, - for stdout; a folder with --method all."
        ),
    ] = None
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="NAME",
            help="A map for every group in this column, pulled towards the common one;"
            " or prediction. Repeat for intersections.",
        ),
    ] = None
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="auto|cpu|cuda",
            help="Where the heavy loops run; auto by a model of the cost, not measured"
            " on a GPU.",
        ),
    ] = "auto"
    seed: o.Seed = 0
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough",
            help="With --method all: also methods with more parameters than rows.",
        ),
    ] = False
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Print the candidates of auto, and all metrics.",
            rich_help_panel="Output",
        ),
    ] = False
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Go on although a log has answers of several models.",
        ),
    ] = False
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 4 for any status other than ok.")
    ] = False
    force: o.Force = False

    def __post_init__(self) -> None:
        # Frozen, but for its defaults and aliases.
        object.__setattr__(self, "by_default", not self.method)
        default = "ts" if self.by else DEFAULT_METHOD
        name, settings = split_method(self.method or default)
        if self.by is not None:
            name = by_group(name)
            settings = {"by": columns_joined(self.by), **settings}
            if _are_columns(self.by) and not self.group_by:
                object.__setattr__(self, "group_by", self.by)
        if name.lower() == "all":
            name = "all"
        elif self.by is None:
            settings = self._with_columns(name, settings)
        object.__setattr__(self, "method", name)
        texts = [f"{key}={value}" for key, value in settings.items()]
        object.__setattr__(self, "set_", [*texts, *(self.set_ or ())])
        self._refuse_contradictions()

    def _with_columns(self, name: str, settings: dict[str, str]) -> dict[str, str]:
        """Settings in which maps by group are by the columns of ``--group-by``."""
        if BY in settings_of(self.set_ or (), "--set: "):
            return settings
        return with_group_column(name, settings, self.group_column)

    def _refuse_contradictions(self) -> None:
        """Raise UsageError for options that exclude each other."""
        if self.keep_predictions and self.free_predictions:
            raise UsageError(
                "--keep-predictions --free-predictions: one excludes the other; name"
                " one"
            )
        if self.method == "all" and self.set_:
            raise UsageError(
                "--set has no one meaning with --method all; fit the method by itself"
            )

    @property
    def unused_options(self) -> dict[str, str]:
        to_stdout = self.output in ("-", "/dev/stdout")
        return o.unused(
            (
                to_stdout,
                "json",
                "-o - writes the artifact to standard output, which is JSON already",
            ),
            (self.method != "all", "thorough", "it belongs to --method all"),
            (self.method == "all", "keep_predictions", "it is for one method"),
            (self.method == "all", "free_predictions", "it is for one method"),
        )

    @property
    def stem(self) -> str:
        """First part of the names of default outputs: the stem of the first bundle's
        file, or stdin.
        """
        path = split_where(self.expanded[0])[0]
        return "stdin" if str(path) == "-" else path.stem

    @property
    def keep(self) -> bool | None:
        """Whether predictions are kept, where the user has decided it."""
        if self.keep_predictions:
            return True
        if self.free_predictions:
            return False
        return None

    def options(self) -> Options:
        """The method's options. Raises UsageError for unknown names and values."""
        return parse_options(self.method, settings_of(self.set_ or (), "--set "))

    @property
    def default_name(self) -> str:
        """Name of the artifact's file if none was given."""
        return f"{self.stem}.{self.method}.json"

    def target(self) -> str:
        """Output of the single artifact: a path that may be written, or - for stdout.

        Raises UsageError.
        """
        return artifact_target(self.default_name, self.output, force=self.force)


# ---- --method all: every method that applies, ranked by held-out NLL


def fit_all(
    args: FitArgs, rows: DataSet, context: Context, command: CommandContext
) -> int:
    """Fit every method that applies, keep going on failures, rank them by
    cross-validated NLL.

    Returns the worst exit code. Raises UsageError for an output that is no folder.
    """
    from calcli.evaluation.cross_validation import cross_validated_nll, folds_of

    targets = _targets(args, rows, command)
    folds = folds_of(rows, context)
    results: list[FittedMethod | FailedMethod] = []
    for i, (name, path) in enumerate(targets.items(), 1):
        command.step(f"{i}/{len(targets)} {name} …")
        begun = time.process_time()
        try:
            artifact = fit_artifact(name, parse_options(name, {}), rows, context)
            cv_nll = cross_validated_nll(name, folds, context)
            save(artifact, str(path), force=args.force)
        except DataError:
            raise
        except Exception as error:
            # One method's failure is no reason to lose the others.
            code = getattr(error, "exit_code", CalcliError.exit_code)
            failure = FailedMethod(
                method=name, status="failed", reason=str(error), exit_code=code
            )
            results.append(failure)
            command.fail(f"{name}: {error}", code)
            continue
        seconds = time.process_time() - begun
        results.append(
            FittedMethod.of(fit_output(artifact, str(path), seconds), cv_nll=cv_nll)
        )
        command.clear()
        for warning in artifact.fit.warnings:
            command.warn(warning, about=name)
        if not args.json:
            print_path(path)
    results.sort(key=_held_out_nll)
    command.tell_warnings()
    if not command.quiet:
        _say_ranking(results, rows, len(folds), command)
    if args.json:
        print_json(FitAllOutput(calcli_fit_all=1, results=results).to_dict())
    is_poor = any(entry.status not in ("ok", "failed") for entry in results)
    if args.strict and is_poor:
        return max(command.code, FitError.exit_code)
    return command.code


def _say_ranking(
    results: Sequence[FittedMethod | FailedMethod],
    rows: DataSet,
    n_folds: int,
    command: CommandContext,
) -> None:
    """Say how the methods are ranked, and print their table."""
    about = f"{rows.name}, {rows.n} {noun(rows.n, 'row')}, {classes(rows.k)}"
    command.say(f"{about}: ranked by the mean negative log-likelihood of held-out")
    behind = "the columns behind it are in-sample, of the calibration data itself"
    command.say(f"rows ({n_folds} random folds); {behind}")
    table = _table_of_all(results, rows)
    print_table(table.columns, table.rows, file=sys.stderr)


def _held_out_nll(entry: FittedMethod | FailedMethod) -> float:
    """NLL of held-out rows; infinity for a method without one, which comes last."""
    if isinstance(entry, FailedMethod) or entry.cv_nll is None:
        return math.inf
    return entry.cv_nll


def _table_of_all(
    results: Sequence[FittedMethod | FailedMethod], rows: DataSet
) -> Table:
    """A line per method, and one for the uncalibrated rows where they belong."""
    fitted = [entry for entry in results if isinstance(entry, FittedMethod)]
    before: dict[str, Any] = fitted[0].before.to_dict() if fitted else {}
    names = tuple(before) or ("accuracy", "nll", "brier", "ece")
    lines: list[list[Cell]] = []
    for entry in results:
        if isinstance(entry, FailedMethod):
            no_numbers: list[Cell] = [None] * (2 + len(names))
            lines.append([entry.method, entry.status, *no_numbers])
            continue
        line = [
            entry.method,
            entry.status,
            entry.seconds,
            entry.cv_nll,
            *in_sample(entry.after.to_dict()),
        ]
        lines.append(line)
    if before:
        nll = before["nll" if rows.k > 1 else "nll_top"] or 0.0
        place = sum(_held_out_nll(entry) <= nll for entry in results)
        lines.insert(place, ["identity", "", 0.0, nll, *before.values()])
    head = ["method", "status", "seconds", "held-out nll"]
    head += [f"in-sample {name}" for name in names]
    return Table(head, lines)


def _targets(args: FitArgs, rows: DataSet, talk: Console) -> dict[str, Path]:
    """Output file of every method that applies, those to try first at the front.

    Makes their folder.
    """
    from calcli.evaluation.leaderboard import applicable

    folder = Path(args.output or f"{args.stem}.calibrators")
    is_file = os.path.exists(folder) or str(args.output).endswith(".json")
    if args.output == "-" or (is_file and not os.path.isdir(folder)):
        raise UsageError(f"-o {args.output}: expected a folder with --method all")
    make_folder(folder)
    names, left_out = applicable(rows, args.thorough)
    for name, reason in left_out.items():
        talk.say(f"{name}: left out, {reason}")
    targets = {name: folder / f"{args.stem}.{name}.json" for name in names}
    for path in targets.values():
        check_output(path, force=args.force)
    return targets


def fit_output(artifact: Artifact, path: str, seconds: float) -> FitOutput:
    """The JSON of one fit."""
    record = artifact.fit
    return FitOutput(
        calcli_fit=1,
        artifact=path,
        method=artifact.method,
        status=record.status,
        warnings=record.warnings,
        n=record.n,
        before=_summary_of(record.before),
        after=_summary_of(record.after),
        seconds=seconds,
    )


def _summary_of(
    values: Mapping[str, float | None],
) -> SummaryOutput | ConfidenceSummaryOutput:
    """Metrics of the calibration rows."""
    if "nll_top" in values:
        return ConfidenceSummaryOutput(
            accuracy=values["accuracy"],
            nll_top=values["nll_top"],
            brier_top=values["brier_top"],
            ece=values["ece"],
        )
    return SummaryOutput(
        accuracy=values["accuracy"],
        nll=values["nll"],
        brier=values["brier"],
        ece=values["ece"],
    )


# An in-sample ECE below this is a rounding error: that of isotonic and histogram maps
# is 0.
ZERO = 1e-9


def in_sample(after: Mapping[str, float | None]) -> list[Cell]:
    """In-sample metrics after the fit.

    An ECE that is 0 by construction is marked as such.
    """
    cells: list[Cell] = []
    for name, value in after.items():
        if name.startswith("ece") and value is not None and value < ZERO:
            cells.append("0 (in-sample, zero by construction)")
        else:
            cells.append(value)
    return cells


# ---- the command


def run(args: FitArgs) -> int:
    """Fit and save. Names, options and outputs are checked before rows are read."""
    if is_whole_log(args.given, args.where):
        return fit_log_command(args)
    check_held_out(args)
    together = args.method == "all"
    target = "-" if together else args.target()
    if not together:
        args.options()  # refuses unknown ones
    with (
        CommandContext(args) as command,
        job_file(target if command.executor is not None else None) as journal,
        command.rows(args.expanded, o.CALIBRATION, journal) as rows,
    ):
        if together:
            rows.progress = command.progress
            return fit_all(args, rows, context_of(args, rows, command), command)
        if args.by_default:
            args = with_default_method(args, rows)
            tell_default(args, rows, command)
        target = args.target()
        fitted = fit_rows(args, rows, command)
        save(fitted.artifact, target, force=args.force)
        print_fit(fitted.artifact, command, full=args.full)
    output = fit_output(fitted.artifact, target, fitted.seconds)
    command.written(target, output.to_dict())
    if args.strict and fitted.artifact.fit.status != "ok":
        command.say(f"--strict: status is {fitted.artifact.fit.status}")
        return FitError.exit_code
    return 0


@dataclass(frozen=True)
class Fitted:
    """A calibrator before it is saved.

    seconds : processor time of the fit; printed, never stored, as an artifact has the
    same bytes every time. cross_fits : of the same fit, where it has them.
    """

    artifact: Artifact
    seconds: float
    cross_fits: CrossFitting | None = None


def with_default_method(args: FitArgs, rows: DataSet) -> FitArgs:
    """The options, with the default method for these rows where none was asked for."""
    if not args.by_default:
        return args
    name = default_method(rows, args.by is not None)
    if name == without_group(args.method):
        return args
    # --by sets the option "by" again
    kept = [text for text in args.set_ or () if not text.startswith("by=")]
    return replace(args, method=name, set_=kept)


def tell_default(args: FitArgs, rows: DataSet, command: CommandContext) -> None:
    """Say which method is fitted where none was asked for."""
    what = f"{method(args.method).title}, the default"
    if rows.k == 1:
        what += " for confidences"
    more = "calcli methods lists them"
    if rows.k == 2:
        more = "of two classes platt corrects a bias too"
    command.say(f"method {args.method}, {what} (--method chooses another; {more})")


def fit_rows(args: FitArgs, rows: DataSet, command: CommandContext) -> Fitted:
    """Fit the method to the rows. Raises DataError, FitError."""
    rows.progress = command.progress
    context = context_of(args, rows, command)
    start = time.process_time()
    fitted = fit_with_cross_fits(args.method, args.options(), rows, context, args.keep)
    seconds = time.process_time() - start
    command.clear()
    return Fitted(fitted.artifact, seconds, fitted.cross_fits)


def context_of(args: FitArgs, rows: DataSet, command: CommandContext) -> Context:
    """Seed, device and progress of a fit to these rows."""
    device = resolve(args.device, args.method, rows.n * rows.k)
    return Context(args.seed, device, command.progress)


def check_held_out(args: FitArgs) -> None:
    """Refuse a bundle named as held out that a pattern matches, unless its name was
    typed. Raises UsageError.
    """
    typed = {split_where(name)[1] for name in args.given}
    for name in args.expanded:
        group = split_where(name)[1]
        if group not in typed and HELD_OUT.search(group or ""):
            raise UsageError(
                f"{name}: a pattern takes it for the fit, and its name says that it is"
                " held out; name the bundles of the fit,"
                f" e.g. {name.rpartition(':')[0]}:cal, or this one too"
            )
