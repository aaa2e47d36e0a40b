"""Fit a calibrator to a bundle of scores with labels.

Writes the artifact (by default <file stem>.<method>.json here), prints its path on
stdout, and says on stderr what it did to accuracy, negative log-likelihood (NLL), Brier
score and expected calibration error (ECE). Several bundles are one data set, whose rows come
one after the other; the artifact is then named after the first.

\b
calcli fit logits.h5
calcli fit --method ec --set top=5 logits.h5:cal -o ec5.json
calcli fit --method all logits.h5 -o calibrators/
calcli fit --method ts 'shards/*.h5:cal' -o all.ts.json
"""

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from calcli.calibrator import Context, Options
from calcli.cli import options as o
from calcli.cli.fit_all import as_json, fit_all, print_fit
from calcli.cli.render import Talk, print_json, print_path
from calcli.cli.worker_options import Working, job_file, opened
from calcli.errors import FitError, UsageError
from calcli.fast_dataclass import dataclass
from calcli.fit_and_apply import fit_artifact
from calcli.flags import flag
from calcli.io.artifact import save
from calcli.io.atomic import check_output
from calcli.io.locate import split_where
from calcli.kernels.device import resolve
from calcli.registry import parse_options, settings_of, split_method

if TYPE_CHECKING:
    from calcli.workers.executor import Executor
    from calcli.workers.journal import Journal

ORDER = 20
CALIBRATION = ("cal", "val", "validation", "valid", "calibration", "calib", "dev")
HELD_OUT = re.compile(r"(^|[^a-z])(tests?|hold[-_ ]?outs?|held[-_ ]?out)([^a-z]|$)", re.IGNORECASE)
EPILOG = "calcli methods lists the methods, calcli methods NAME the options of one."


@dataclass(frozen=True)
class FitArgs(o.ReadingSeveral, Working, o.Saying):
    FOLDERS: ClassVar[bool] = True

    by_default: ClassVar[bool] = False

    method: str = flag("", "Method, a composition such as ts+hb, or all.", "NAME", "-m", shown="ts")
    bundles: list[str] | None = o.bundles(
        "FILE.h5 or FILE.h5:GROUP; group cal (or val) when none is named. Quoted patterns are expanded."
    )
    output: str | None = flag(None, "Artifact to write, - for stdout; a folder with --method all.", "ART.json", "-o")
    set_: list[str] | None = flag(None, "Option of the method (repeatable).", "NAME=VALUE")
    device: str = o.device()
    seed: int = o.seed()
    thorough: bool = flag(False, "With --method all: also methods with more parameters than rows.")
    strict: bool = flag(False, "Exit with 4 for any status other than ok.")
    force: bool = o.force()

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_default", not self.method)
        name, settings = split_method(self.method or "ts")
        object.__setattr__(self, "method", "all" if name.lower() == "all" else name)  # frozen, but for its aliases
        object.__setattr__(self, "set_", [*(f"{key}={value}" for key, value in settings.items()), *(self.set_ or ())])
        if self.method == "all" and self.set_:
            raise UsageError("--set has no one meaning with --method all; fit the method by itself")
        if self.thorough and self.method != "all":
            raise UsageError("--thorough belongs to --method all")

    @property
    def idle(self) -> dict[str, str]:
        told = "-o - writes the artifact to standard output, which is JSON already"
        return {"json": told} if self.output in ("-", "/dev/stdout") else {}

    @property
    def stem(self) -> str:
        """What default outputs are named after."""
        return self.files[0].stem

    def options(self) -> Options:
        """The method's options. Raises UsageError for unknown names and values."""
        return parse_options(self.method, settings_of(self.set_ or (), "--set "))

    def target(self) -> str:
        """Where the one artifact goes: a path that may be written, or - for stdout. Raises UsageError."""
        default = f"{self.stem}.{self.method}.json"
        output = default if self.output is None else self.output
        if output in ("-", "/dev/stdout"):
            return "-"
        if not output or output.endswith("/"):
            raise UsageError(f"-o {output!r}: expected a file's name, e.g. -o {output}{default}")
        check_output(Path(output), force=self.force, inputs=self.files)
        return output


def run(args: FitArgs) -> int:
    """Fit one method, or all that apply; names, options and outputs are checked before rows are read."""
    talk = Talk(args.quiet)
    _check_held_out(args)
    together = args.method == "all"
    target, options = ("-", None) if together else (args.target(), args.options())
    with args.executor(talk) as executor, job_file(target if executor is not None else None) as journal:
        return _fit(args, talk, target, options, executor, journal)


def _check_held_out(args: FitArgs) -> None:
    """Raises UsageError where a pattern, and no name that was typed, takes a bundle that is for the evaluation."""
    typed = {split_where(name)[1] for name in args.given}
    for name in args.expanded:
        group = split_where(name)[1]
        if group not in typed and HELD_OUT.search(group or ""):
            raise UsageError(
                f"{name}: a pattern takes it for the fit, and its name says that it is held out; name the bundles"
                f" of the fit, e.g. {name.rpartition(':')[0]}:cal, or this one too"
            )


def _fit(
    args: FitArgs,
    talk: Talk,
    target: str,
    options: Options | None,
    executor: "Executor | None",
    journal: "Journal | None",
) -> int:
    """Fit, save and tell; options : None for all methods."""
    if args.by_default:
        talk.say("method ts, temperature scaling (--method chooses another; calcli methods lists them)")
    with opened(args, args.expanded, executor, talk, CALIBRATION, journal) as rows:
        rows.progress = talk.progress
        context = Context(args.seed, resolve(args.device, args.method, rows.n * rows.k), talk.progress)
        if rows.ignored:
            talk.say(f"{rows.name}: left out {rows.ignored} of {rows.total} rows by their label")
        if options is None:
            return fit_all(args, rows, context, talk)
        start = time.process_time()
        artifact = fit_artifact(args.method, options, rows, context)
        seconds = time.process_time() - start  # told, never stored: an artifact has the same bytes every time
    talk.clear()
    save(artifact, target, force=args.force)
    print_fit(artifact, rows.name, talk)
    if args.json and target != "-":
        print_json({**as_json(artifact, target), "seconds": seconds})
    elif target != "-":
        print_path(target)
    if args.strict and artifact.fit.status != "ok":
        talk.say(f"--strict: status is {artifact.fit.status}")
        return FitError.exit_code
    return 0
