"""Fit a calibrator, evaluate it on other rows, and write an HTML report: the usual three commands in one.

Writes <CAL's stem>.<method>.json and <TEST's stem>.report.html (with --method <TEST's stem>.<method>.report.html) to a
folder, and prints the evaluation. Both files are checked first; a failure leaves no file behind.
One file with groups cal and test may stand alone.

\b
calcli run val.npz test.npz
calcli run logits.h5 --method svs -o calibration/
"""

from pathlib import Path
from typing import ClassVar

from calcli.cli import options as o
from calcli.cli.commands import evaluate, fit, report
from calcli.cli.context import CommandContext, check_weights, job_file
from calcli.cli.render import print_json, print_path
from calcli.errors import CalcliError, UsageError
from calcli.fast_dataclass import dataclass
from calcli.fit_and_apply import check_same_scores
from calcli.importers.open_any_file import expand, importing_once, open_rows
from calcli.io.artifact import dumps, loads
from calcli.io.atomic import check_outputs_in, new_folder, write_together
from calcli.io.dataset import DataSet
from calcli.io.locate import split_where
from calcli.io.row_facts import facts_of
from calcli.options import REQUIRED, argument, flag, typed
from calcli.registry import method

ORDER = 15
HALVES = ["--split", "cal=0.5", "--split", "test=0.5"]
MOST_GROUPS = 50  # groups up to which their table is printed by default


@dataclass(frozen=True)
class RunArgs(o.Reading, o.OutputOptions):
    FOLDERS: ClassVar[bool] = True

    calibration: str = argument(
        REQUIRED, "Rows to fit to; group cal (or val) when none is named.", "CAL"
    )
    test: str | None = argument(
        None, "Rows to evaluate; those of CAL's file when none are named.", "TEST"
    )
    method: str = flag(
        "", "Method, or a composition such as ts+hb.", "NAME", "-m", shown=fit.DEFAULTS
    )
    set_: list[str] | None = flag(
        None, "Option of the method (repeatable).", "NAME=VALUE"
    )
    output: str = flag(
        ".", "Folder of the calibrator and the report.", "FOLDER", "-o", shown="here"
    )
    seed: int = o.seed()
    again: bool = o.again()
    force: bool = o.force()


def _other_rows(args: RunArgs) -> str:
    """Default of TEST: the file of the calibration rows, if it has other rows too.
    Raises UsageError, DataError."""
    path, _ = split_where(args.calibration)
    reading = typed(args.where)
    options = [
        word
        for group in typed(args)
        if len(group) > 1 and group not in reading
        for word in group
    ]
    try:
        with open_rows(args.calibration, prefer=o.CALIBRATION, **args.opening) as rows:
            if rows.group:
                return str(path)
            if rows.k == 2 and not args.method:
                options += ["-m", "platt"]
            if rows.likely_unit is not None:
                reading += (("--unit", rows.likely_unit),)
    except CalcliError as problem:
        if not problem.commands:
            raise
        raise _advising_halves(problem, options) from None
    stem = "stdin" if str(path) == "-" else path.stem
    halves = f"{stem}.halves.h5"
    words = ["calcli", "extract", str(path)]
    for group in reading:
        words += group
    told = "holds one set of rows"
    reason = "what a calibrator shows on the rows of its fit is too good"
    advice = "name a second file, or split this one"
    alone = UsageError(f"{path}: {told}, and {reason}: {advice}")
    extract = [*words, "-o", halves, *HALVES]
    raise alone.advising(extract, ["calcli", "run", halves, *options])


def _advising_halves(problem: CalcliError, options: list[str]) -> CalcliError:
    """The error, its command of ``extract`` extended by a split, and then ``run``."""
    *command, option, made = problem.commands[0]  # it ends with its output
    parts = HALVES
    # No --split for a file with a column that splits it, or perhaps two sets of rows;
    # with one it is refused again.
    unclear = command[-2:] == ["--kind", "logits"] and "--scores" not in command
    if "(splits?)" in str(problem) or unclear:
        parts = []
    extract = [*command, option, made, *parts]
    return problem.advising(extract, ["calcli", "run", made, *options])


@importing_once()
def run(args: RunArgs) -> int:
    """Fit, evaluate and report. The files are written when all of it is done: a
    failure leaves none behind."""
    test = args.test or _other_rows(args)
    shared = (*o.names_of(o.Reading), "seed", "force", "quiet")
    common = {name: getattr(args, name) for name in shared}
    fitting = fit.FitArgs(
        method=args.method, bundles=[args.calibration], set_=args.set_, **common
    )
    fit.check_held_out(fitting)
    fitting.options()  # refuses unknown ones before rows are read
    reading = {**common, "bundles": [test], "again": args.again}
    folder = Path(args.output)

    with (
        CommandContext(fitting) as command,
        command.rows(fitting.expanded, o.CALIBRATION) as rows,
    ):
        chosen = fit.with_default_method(fitting, rows)
        calibrator = folder / chosen.default_name
        report_path = folder / _report_name(args, chosen, test)
        outputs = (calibrator.name, report_path.name)
        check_outputs_in(folder, outputs, force=args.force)
        few_groups = _check_test(args, chosen, rows, test)
        if fitting.by_default:
            fit.tell_default(chosen, rows, command)
        artifact = fit.fit_rows(chosen, rows, command).artifact
        fit.print_fit(artifact, rows.name, command)

    # Evaluation and report take the calibrator as it will be read from its file.
    text = dumps(artifact)
    artifact = loads(text, str(calibrator))
    reading["calibrator"] = [str(calibrator)]
    evaluating = evaluate.EvaluateArgs(
        **reading, json=args.json, per_group=few_groups and not args.json
    )
    evaluated = evaluate.evaluate(evaluating, lambda _: artifact)
    # The evaluation has warned already.
    reporting = report.ReportArgs(**{**reading, "quiet": True}, output=report_path)
    page = report.compose(reporting, lambda _: artifact)
    code = max(evaluated.command.code, page.command.code)
    if code:  # one of several test sets failed, and the error is printed
        return code
    files = {calibrator: text, report_path: page.text}
    with new_folder(folder), job_file(str(folder / fitting.stem)):
        write_together(files, force=args.force)

    if args.json:
        facts = {"calibrator": str(calibrator), "report": str(report_path)}
        evaluation = evaluated.evaluation.to_dict()
        print_json({"calcli_run": 1, **facts, "evaluation": evaluation})
        return 0
    print_path(calibrator)
    code = evaluate.show(evaluated)
    print_path(report_path)
    return code


def _report_name(args: RunArgs, fitting: fit.FitArgs, test: str) -> str:
    """Name of the page; with a method that was asked for, its name is part of it."""
    stem = split_where(expand(test, args.where, args.ignored)[0])[0].stem
    if args.method:
        return f"{stem}.{fitting.method}.report.html"
    return f"{stem}.report.html"


def _check_test(
    args: RunArgs, fitting: fit.FitArgs, calibration: DataSet, test: str
) -> bool:
    """Read all rows of TEST, so that a fault is found before the fit.

    Returns True where there are several groups, few enough for a readable table.
    Raises DataError for rows that cannot be read, or that a calibrator fitted to the
    calibration rows could not be applied to.
    """
    few_groups = False
    for name in expand(test, args.where, args.ignored):
        with open_rows(name, prefer=("test",), **args.opening) as rows:
            check_same_scores(calibration, rows, again=args.again)
            check_weights(rows)
            for column in method(fitting.method).columns_to_fit(fitting.options()):
                rows.carry(column)
            facts_of(rows)  # walks over the rows, which are checked on the way
            group = rows.column("group")
            count = 0 if group is None else len(set(group.tolist()))
            few_groups = few_groups or 1 < count <= MOST_GROUPS
    return few_groups
