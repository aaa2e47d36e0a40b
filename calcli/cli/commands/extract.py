"""Make a bundle of saved scores, or by running a model.

Arrays are found by name: scores called logits, log_probs or probs (or starting so:
logits_val, probas_cal), labels called labels, y, targets; class_names, ids, weights,
group, and transformed_logits with transforms come along. The kind of scores is never
guessed: other names need --kind. A model's outputs are logits unless --kind says
otherwise. Prints the path of the bundle.

\b
calcli extract scores.npz -o logits.h5 --split cal=0.5 --split test=0.5
calcli extract logits.npy labels.npy -o logits.h5 --split cal=5000 --split test=rest --ordered
calcli extract table.csv --labels truth --kind probs -o probs.h5
calcli extract --model net.pt2 --inputs images.npz --transform zoom:0.5:0.9 -o logits.h5
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from glob import glob
from pathlib import Path

from calcli.calibrator import Context
from calcli.cli import options as o
from calcli.cli.context import CommandContext
from calcli.cli.render import Console, print_json, print_path
from calcli.cli.shards import ShardOutcome, attempted, dealt_out, tried
from calcli.errors import DataError, UsageError, check_choice
from calcli.extracting.model_inputs import ModelJob, ModelOptions
from calcli.fast_dataclass import dataclass
from calcli.importers.import_report import ImportReport, Splitting
from calcli.importers.import_request import ImportOptions, ImportRequest
from calcli.importers.import_scores import import_scores
from calcli.io.atomic import make_folder, refuse_inputs
from calcli.io.inputs import note
from calcli.io.locate import WILD, natural
from calcli.io.split import parse_split
from calcli.options import REQUIRED, argument, flag, taken, typed
from calcli.rows import SCORE_KINDS

ORDER = 10
EPILOG = (
    "Splits: NAME=0.5 or NAME=50% is a proportion of the rows, NAME=5000 a number of rows, NAME=rest what is left,"
    " NAME=0:5000 a range of positions. The split is stratified by label: every subset gets its proportion of each"
    " class to within a row; --no-stratify shuffles without regard to labels, --ordered takes the first rows"
    " for the first group and so on. Within a group rows keep the order of the source. A source that is split"
    " already (logits_val, logits_test; val/logits; a column named split) keeps its groups."
    " Labels may be whole numbers of any type, one-hot rows, or words that class_names (in tables the column"
    " names) list."
)


@dataclass(frozen=True)
class ExtractArgs(ModelOptions, ImportOptions, o.WorkerOptions, o.OutputOptions):
    output: str = flag(REQUIRED, "HDF5 file to write.", "OUT.h5", "-o")
    sources: list[Path] | None = argument(
        None,
        "Files of saved scores: npz, npy, pt, safetensors, csv, jsonl, parquet, pickle, HDF5 and many more;"
        " logits.npy labels.npy belong together.",
        "SOURCE…",
    )
    scores: list[str] | None = flag(None, "Array with the scores (repeatable: one group each).", "NAME")
    all_scores: bool = flag(False, "Take every array of scores, one group each, named after it.")
    labels: list[str] | None = flag(None, "Array with the labels (one for all, or one per --scores).", "NAME")
    no_labels: bool = flag(False, "Accept scores without labels.")
    kind: str | None = o.kind()
    group: list[str] | None = flag(None, "Take only this part of the source (repeatable).", "NAME")
    split: list[str] | None = flag(None, "Split the rows into named subsets (repeatable, see below).", "NAME=SIZE")
    stratify: bool = flag(True, "Split each class in proportion.", None, "--stratify/--no-stratify")
    ordered: bool = flag(False, "Split without shuffling: first rows first.")
    seed: int = o.seed()
    ignore_label: list[int] | None = o.ignore_label()
    force: bool = o.force()

    def __post_init__(self) -> None:
        ModelOptions.__post_init__(self)
        ImportOptions.__post_init__(self)
        if self.output == "-":
            raise UsageError("-o -: HDF5 cannot be written to a pipe, name a file")
        check_choice("--kind", self.kind, SCORE_KINDS)
        if self.model is not None:
            if self.sources:
                raise UsageError(
                    f"--model runs over --inputs, but SOURCE {self.sources[0]} is saved scores: do one or the other"
                )
            if len(self.labels or ()) > 1:
                raise UsageError("--model takes one --labels: those of its inputs")
        elif not self.sources:
            raise UsageError("no SOURCE of saved scores and no --model to run; see calcli extract --help")
        elif self.all_scores and self.scores:
            raise UsageError("--all-scores and --scores both say which arrays to take; choose one")
        elif self.no_labels and self.labels:
            raise UsageError("--no-labels and --labels exclude each other")

    @property
    def unused_options(self) -> dict[str, str]:
        unused_options = {}
        if self.model is None:
            unused_options = dict.fromkeys(
                o.names_of(ModelOptions), "it belongs to a --model to run, and none is named"
            )
        else:
            about = (*o.names_of(ImportOptions), "scores", "all_scores", "group", "ignore_label")
            unused_options = dict.fromkeys(about, "it is about saved scores, and --model runs a model")
            if not self.transform:
                unused_options["transforms"] = "it counts the values drawn from --transform NAME:FROM:TO"
        if not self.split:
            unused_options |= dict.fromkeys(
                ("stratify", "ordered"), "it says how to --split; add --split cal=0.5 --split test=0.5"
            )
        return unused_options

    @property
    def splitting(self) -> Splitting:
        """How rows are split into groups. Raises UsageError."""
        split = tuple(self.split or ())
        return Splitting(tuple(map(parse_split, split)), self.seed, self.stratify, self.ordered, split)

    @property
    def ask(self) -> ImportRequest:
        """What to take from the sources."""
        scores, labels, groups = (tuple(names or ()) for names in (self.scores, self.labels, self.group))
        how = {
            name: getattr(self, name)
            for name in (*o.names_of(ImportOptions), "kind", "all_scores", "no_labels", "seed")
        }
        return ImportRequest(scores=scores, labels=labels, groups=groups, typed=typed(self), **how)


# ---- the model half of calcli extract: what is run for a command, shard by shard


def shards_of(
    asked: ModelOptions, output: Path, splitting: Splitting, *, labels: str | None, kind: str, force: bool
) -> "list[InputShard]":
    """What is to be run: one bundle, or of a pattern that several files match one each, in the folder ``output``.

    labels, kind : those of ``ModelJob``. Raises UsageError.
    """
    if asked.model is None or asked.inputs is None:
        raise UsageError(f"--model {asked.model}: needs --inputs FILE or FOLDER to run on")
    job = ModelJob(**taken(ModelOptions, asked), labels=labels, kind=kind, seed=splitting.seed)
    found = _matching(asked.inputs)
    if len(found) == 1:
        return [InputShard(replace(job, inputs=found[0]), output, splitting, force)]
    targets = [output / f"{Path(name.rpartition(':')[0] or name).stem}.h5" for name in found]
    if len(set(targets)) < len(targets):
        twice = next(str(t) for t in targets if targets.count(t) > 1)
        raise UsageError(f"--inputs {asked.inputs}: two of these files would be written to {twice}; give them names")
    make_folder(output)
    for name in found:
        note(name if os.path.exists(name) else name.rpartition(":")[0])
    refuse_inputs(targets)
    pairs = zip(found, targets, strict=True)
    return [InputShard(replace(job, inputs=name), target, splitting, force) for name, target in pairs]


@dataclass(frozen=True)
class InputShard:
    """One file of inputs, as a task for a worker."""

    job: "ModelJob"
    target: Path
    splitting: Splitting
    force: bool

    @property
    def name(self) -> str:
        """What people call the work."""
        return self.job.inputs

    def run(self, talk: Console) -> ImportReport:
        """Run the model and write its scores."""
        from calcli.extracting.run import run_model

        try:
            return run_model(
                self.job, self.target, self.splitting, force=self.force, context=Context(progress=talk.progress)
            )
        except KeyboardInterrupt:
            talk.say(f"interrupted; what is done is kept in {self.target}.job, repeat the command to go on")
            raise
        finally:
            talk.clear()

    def __call__(self) -> ShardOutcome:
        return attempted(None, self.run)

    @property
    def key(self) -> bytes:
        """What determines the output. Raises DataError for inputs that are gone."""
        from calcli.workers.journal import key_of
        from calcli.workers.task import mark

        files = (self.job.inputs.rpartition(":")[0] or self.job.inputs, self.job.model, self.job.weights)
        stamps = [mark(name) for name in files if name is not None and Path(name).exists()]
        return key_of(repr((self.job, self.target, self.splitting, stamps)).encode())

    def absolute(self) -> "InputShard":
        """The same for a process in another folder."""

        def there(name: str) -> str:
            return str(Path(name).absolute()) if Path(name.rpartition(":")[0] or name).exists() else name

        weights, labels = (None if name is None else there(name) for name in (self.job.weights, self.job.labels))
        inputs, model = there(self.job.inputs), there(self.job.model)
        job = replace(self.job, inputs=inputs, model=model, weights=weights, labels=labels)
        return replace(self, job=job, target=self.target.absolute())


def _matching(inputs: str) -> list[str]:
    """The files that ``--inputs`` stands for: itself, or what matches a quoted pattern, FILES or FILES:ARRAY."""
    file, colon, array = inputs.rpartition(":") if ":" in inputs and not Path(inputs).exists() else (inputs, "", "")
    if Path(file).exists() or not any(c in file for c in WILD):
        return [inputs]
    found = sorted((name for name in glob(file, recursive=True) if Path(name).is_file()), key=natural)
    if not found:
        raise DataError(f"--inputs {inputs}: no file matches; patterns are those of the shell, quoted")
    return [f"{name}{colon}{array}" for name in found]


# ---- the command


def run(args: ExtractArgs) -> int:
    """Import saved scores or run a model, and tell what was written; a shard that fails stops no other."""
    command, output, splitting = CommandContext(args), Path(args.output), args.splitting
    if args.model is None:
        ignore = tuple(args.ignore_label or ())
        report = import_scores(args.sources or [], output, args.ask, splitting, ignore_labels=ignore, force=args.force)
        return _finish(command, [(output, ShardOutcome(report))])
    labels = args.labels[0] if args.labels else None
    shards = shards_of(args, output, splitting, labels=labels, kind=args.kind or "logits", force=args.force)
    with command:
        outcomes: Iterator[ShardOutcome] = (tried(partial(shard.run, command)) for shard in shards)
        if (executor := command.executor) is not None and len(shards) > 1:
            there = [shard.absolute() for shard in shards] if executor.remote else shards
            outcomes = dealt_out(there, executor, args.output, command)
        return _finish(command, zip((shard.target for shard in shards), outcomes, strict=True), len(shards) > 1)


def _finish(command: CommandContext, made: Iterable[tuple[Path, ShardOutcome]], several: bool = False) -> int:
    """Tell of every file that was written; returns the worst exit code."""
    args, told = command.args, ImportReport()
    for path, outcome in made:
        with command.trying(several):
            report = outcome.told(command)
            for line in report.notes:
                command.say(line)
            for b in report.bundles:
                size = f"{b.n} x {b.k} {b.kind}" if b.k else f"{b.n} rows of (confidence, correct)"
                transforms = f", {b.transforms} transforms" if b.transforms else ""
                where = f"{path.name}:{b.name}" if b.name else path.name
                command.say(f"{where}: {size}, {b.dtype}{'' if b.labelled else ', no labels'}{transforms}")
            told.bundles += report.bundles
            told.notes += report.notes
            if not args.json:
                print_path(path)
    if args.json:
        print_json(told.to_dict(args.output))
    return command.code
