"""Fit a calibrator, evaluate it on other rows, and write an HTML report: the usual three commands in one.

Writes <CAL's stem>.<method>.json and <TEST's stem>.report.html (with --method <TEST's stem>.<method>.report.html) to a
folder, and prints the evaluation.
One file with groups cal and test may stand alone.

\b
calcli run val.npz test.npz
calcli run logits.h5 --method svs -o calibration/
"""

import json
import shlex
import sys
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import ClassVar

from calcli.cli import options as o
from calcli.cli.commands import evaluate, fit, report
from calcli.cli.context import job_file
from calcli.cli.render import print_json
from calcli.errors import CalcliError, UsageError
from calcli.fast_dataclass import dataclass
from calcli.importers.open_any_file import importing_once, open_rows
from calcli.io.atomic import check_output, make_folder
from calcli.io.locate import split_where
from calcli.options import REQUIRED, argument, flag, typed

ORDER = 15
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
    """Default of TEST: the file of the calibration rows, if it has other rows too. Raises UsageError, DataError."""
    path, _ = split_where(args.calibration)
    parts, about = shlex.split("--split cal=0.5 --split test=0.5"), typed(args.where)
    own = [
        word
        for group in typed(args)
        if len(group) > 1 and group not in about
        for word in group
    ]
    try:
        with open_rows(args.calibration, prefer=o.CALIBRATION, **args.opening) as rows:
            if rows.group:
                return str(path)
            own += ["-m", "platt"] if rows.k == 2 and not args.method else []
    except CalcliError as problem:
        if not problem.commands:
            raise
        *command, option, made = problem.commands[0]  # it ends with its output
        # No --split for a file with a column that splits it, or perhaps two sets of rows; with one it is refused again.
        if "(splits?)" in str(problem) or (
            command[-2:] == ["--kind", "logits"] and "--scores" not in command
        ):
            parts = []
        raise problem.advising(
            [*command, option, made, *parts], ["calcli", "run", made, *own]
        ) from None
    halves = f"{'stdin' if str(path) == '-' else path.stem}.halves.h5"
    words = [
        "calcli",
        "extract",
        str(path),
        *(word for group in about for word in group),
        "-o",
        halves,
    ]
    told = "holds one set of rows, and what a calibrator shows on the rows of its fit is too good: name a second file"
    alone = UsageError(f"{path}: {told}, or split this one")
    raise alone.advising([*words, *parts], ["calcli", "run", halves, *own])


@importing_once()
def run(args: RunArgs) -> int:
    """Fit, evaluate, report; the first step that fails ends the command with its exit code."""
    folder, test = Path(args.output), args.test or _other_rows(args)
    common = {
        name: getattr(args, name)
        for name in (*o.names_of(o.Reading), "seed", "force", "quiet")
    }
    fitting = fit.FitArgs(
        method=args.method, bundles=[args.calibration], set_=args.set_, **common
    )
    page = (
        folder
        / f"{split_where(test)[0].stem}{f'.{fitting.method}' if args.method else ''}.report.html"
    )
    fitting.options()  # refuses unknown ones before a folder is made
    make_folder(folder)
    check_output(page, force=args.force)
    printed = StringIO()
    with job_file(
        str(folder / fitting.stem)
    ):  # the calibrator is read again: no other process may write it meanwhile
        with redirect_stdout(StringIO() if args.json else sys.stdout):
            code, calibrator = fit.fitted(fitting, folder)
        reading = {
            **common,
            "bundles": [test],
            "calibrator": [calibrator],
            "again": args.again,
        }
        few_groups = False  # true for several groups, few enough for a readable table
        with (
            suppress(CalcliError),
            open_rows(test, prefer=("test",), **args.opening) as rows,
        ):
            group = rows.column("group")
            few_groups = (
                group is not None and 1 < len(set(group.tolist())) <= MOST_GROUPS
            )
        with redirect_stdout(printed if args.json else sys.stdout):
            few_groups = few_groups and not args.json
            code = code or evaluate.run(
                evaluate.EvaluateArgs(**reading, json=args.json, per_group=few_groups)
            )
        with redirect_stdout(
            StringIO() if args.json else sys.stdout
        ):  # quiet, as evaluate has warned
            code = code or report.run(
                report.ReportArgs(**{**reading, "quiet": True}, output=page)
            )
    if args.json and not code:
        evaluation = json.loads(printed.getvalue())
        print_json(
            {
                "calcli_run": 1,
                "calibrator": calibrator,
                "report": str(page),
                "evaluation": evaluation,
            }
        )
    return code
