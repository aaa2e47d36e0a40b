"""Make a bundle of saved scores, or by running a model.

Scores, labels, ids, groups and units are found by name and by their values; what the
values do not prove is asked for. Prints the path of the bundle.

\b
calcli extract scores.npz -o logits.h5 --split cal=0.5 --split test=0.5
calcli extract table.csv --labels truth --kind probs -o probs.h5

\f
Scores are called logits, log_probs or probs (or start so: logits_val, probas_cal),
labels labels, y or targets; class_names, ids, weights, group, and transformed_logits
with transforms come along. A model's outputs are logits unless --kind says otherwise.

\b
calcli extract logits.npy labels.npy -o logits.h5 --split cal=5000 --split test=rest --no-shuffle
calcli extract --model net.pt2 --inputs images.npz --transform zoom:0.5:0.9 -o logits.h5
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from calcli.calibrator import Context
from calcli.cli import options as o
from calcli.cli.context import CommandContext
from calcli.cli.extract_options import ExtractOptions
from calcli.cli.render import Console, print_json, print_path
from calcli.cli.resumable import Shard, made
from calcli.errors import UsageError, check_choice
from calcli.extracting.model_inputs import ModelJob, ModelOptions
from calcli.importers.building.dealing import Splitting
from calcli.importers.building.writing import ImportReport, Written
from calcli.importers.import_request import ImportOptions, ImportRequest
from calcli.importers.import_scores import import_scores
from calcli.io.atomic import make_folder, refuse_input
from calcli.io.inputs import note
from calcli.io.locate import matching_files, split_where
from calcli.io.split import parse_split
from calcli.items import duplicates
from calcli.number_words import noun
from calcli.rows import SCORE_KINDS
from calcli.settings import command_words, common_fields

EPILOG = (
    "Splits: NAME=0.5 or NAME=50% is a proportion of the rows, NAME=5000 a number of"
    " rows, NAME=rest what is left, NAME=0:5000 a range of positions. The split is"
    " stratified by label: every subset gets its proportion of each class to within a"
    " row; --no-stratify shuffles without regard to labels, --no-shuffle takes the"
    " first rows for the first group and so on. Within a group rows keep the order of"
    " the source. A source that is split already (logits_val, logits_test; val/logits;"
    " a column named split) keeps its groups. Labels may be whole numbers of any type,"
    " one-hot rows, or words that class_names (in tables the column names) list."
)


@dataclass(frozen=True, kw_only=True)
class ExtractArgs(ExtractOptions, o.WorkerOptions, o.OutputOptions):
    output: Annotated[str, o.output("OUT.h5", "HDF5 file to write.")]
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="SOURCE…",
            help="Files of saved scores: npz, npy, pt, safetensors, csv, jsonl,"
            " parquet, pickle, HDF5 and many more;"
            " logits.npy labels.npy belong together. Quoted patterns are expanded.",
        ),
    ] = None
    scores: Annotated[
        list[str] | None,
        typer.Option(
            "--scores",
            metavar="NAME",
            help="Array with the scores (repeatable: one group each); * for every one.",
            rich_help_panel="Input",
        ),
    ] = None
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--labels",
            metavar="NAME|none",
            help="Array with the labels (one for all, or one per --scores); none for"
            " no labels.",
            rich_help_panel="Input",
        ),
    ] = None
    kind: o.Kind = None
    part: Annotated[
        list[str] | None,
        typer.Option(
            "--part",
            metavar="NAME",
            help="Take only this part of the source (repeatable).",
            rich_help_panel="Input",
        ),
    ] = None
    split: Annotated[
        list[str] | None,
        typer.Option(
            "--split",
            metavar="NAME=SIZE",
            help="Split the rows into named subsets (repeatable; sizes: --help-all).",
            rich_help_panel="Split",
        ),
    ] = None
    stratify: Annotated[
        bool,
        typer.Option(
            "--stratify/--no-stratify",
            help="Split each class in proportion.",
            rich_help_panel="Split",
        ),
    ] = True
    no_shuffle: Annotated[
        bool,
        typer.Option(
            "--no-shuffle",
            help="Split without shuffling: first rows first.",
            rich_help_panel="Split",
        ),
    ] = False
    seed: o.Seed = 0
    ignore_label: o.IgnoreLabel = None
    force: o.Force = False

    def __post_init__(self) -> None:
        assert self.model_options  # refuses values that cannot be read
        assert self.import_options
        if self.output == "-":
            raise UsageError("-o -: HDF5 cannot be written to a pipe, name a file")
        check_choice("--kind", self.kind, SCORE_KINDS)
        if "*" in (self.scores or ()) and not self.has_all_scores:
            raise UsageError("--scores '*' takes every array: name no other with it")
        if "none" in (self.labels or ()) and not self.has_no_labels:
            raise UsageError("--labels none takes no labels: name no others with it")
        if self.model is not None and self.sources:
            raise UsageError(
                f"--model runs over --inputs, but SOURCE {self.sources[0]} is saved"
                " scores: do one or the other"
            )
        if self.model is None and not self.sources:
            raise UsageError(
                "no SOURCE of saved scores and no --model to run; see calcli extract"
                " --help"
            )

    @property
    def unused_options(self) -> dict[str, str]:
        # --normalize is of both, and refuses itself what does not belong to it
        of_inputs = ("scale", "mean", "std")
        names = [name for name in o.names_of(ModelOptions) if name not in of_inputs]
        of_model = " ".join(names)
        names = [*o.names_of(ImportOptions), "scores", "part", "ignore_label"]
        of_import = " ".join(name for name in names if name != "normalize")
        model = self.model is not None
        return o.unused(
            (not model, of_model, "it belongs to a --model to run, and none is named"),
            (model, of_import, "it is about saved scores, and --model runs a model"),
            (
                not self.split,
                "stratify no_shuffle",
                "it says how to --split; add --split cal=0.5 --split test=0.5",
            ),
            (
                model and len(self.labels or ()) > 1,
                "labels",
                "--model takes one: those of its inputs",
            ),
        )

    @property
    def has_all_scores(self) -> bool:
        """True if every array of scores becomes a group."""
        return self.scores == ["*"]

    @property
    def has_no_labels(self) -> bool:
        """True if scores without labels are accepted."""
        return self.labels == ["none"]

    @property
    def splitting(self) -> Splitting:
        """Split of the rows into groups. Raises UsageError."""
        split = tuple(self.split or ())
        return Splitting(
            tuple(map(parse_split, split)),
            self.seed,
            self.stratify,
            self.no_shuffle,
            split,
        )


# ---- running a model, shard by shard


def _shards(args: ExtractArgs, output: Path, remote: bool) -> list[Shard]:
    """One shard for the bundle, or one per file of a pattern that several match.

    Those of several files are written into the folder ``output``.

    remote : make paths absolute, for workers in another folder. Raises UsageError.
    """
    splitting = args.splitting
    if args.inputs is None:
        raise UsageError(
            f"--model {args.model}: needs --inputs FILE or FOLDER to run on"
        )
    pattern = args.inputs
    array = ""  # with its colon
    if ":" in pattern and not Path(pattern).exists():  # FILES:ARRAY
        pattern, _, name = pattern.rpartition(":")
        array = f":{name}"
    files = matching_files(pattern)
    targets = [output]
    if len(files) > 1:
        targets = _targets_in_folder(args, files, output)
    remote = remote and len(files) > 1
    common = _fields_of_jobs(args, remote)
    shards = []
    for file, target in zip(files, targets, strict=True):
        inputs = _path_for_workers(f"{file}{array}", remote)
        place = target.absolute() if remote else target
        job = ModelJob(**{**common, "inputs": inputs})
        files_of_job = []
        for path in (_path_for_workers(file, remote), job.model, job.weights):
            if path and Path(path).exists():
                files_of_job.append(path)
        work = partial(
            _run_model, job=job, target=place, splitting=splitting, force=args.force
        )
        request = (job, splitting)
        shards.append(Shard(inputs, place, work, args, request, tuple(files_of_job)))
    return shards


def _targets_in_folder(
    args: ExtractArgs, files: Sequence[str], output: Path
) -> list[Path]:
    """A bundle for every file of inputs, in the folder ``output``, which is made.

    Raises UsageError where two would have one name, or would overwrite an input.
    """
    targets = [output / f"{Path(file).stem}.h5" for file in files]
    written_twice = duplicates(targets)
    if written_twice:
        raise UsageError(
            f"--inputs {args.inputs}: two of these files would be written to"
            f" {written_twice[0]}; give them names"
        )
    make_folder(output)
    for file in files:
        note(file)
    for target in targets:
        refuse_input(target)
    return targets


def _fields_of_jobs(args: ExtractArgs, remote: bool) -> dict[str, Any]:
    """Fields that the jobs of all files of inputs have in common, by name."""
    labels: str | None = None
    if args.labels and not args.has_no_labels:
        labels = _path_for_workers(args.labels[0], remote)
    values = common_fields(ModelOptions, args.model_options)
    values["model"] = _path_for_workers(args.model, remote)
    values["weights"] = _path_for_workers(args.weights, remote)
    values["labels"] = labels
    values["kind"] = args.kind or "logits"
    values["seed"] = args.seed
    return values


def _path_for_workers(name: Any, remote: bool) -> Any:
    """A path as workers in another folder find it; other names stay as they are."""
    if remote and name is not None and split_where(name)[0].exists():
        return os.path.abspath(name)
    return name


def _run_model(
    talk: Console, job: ModelJob, target: Path, splitting: Splitting, force: bool
) -> ImportReport:
    """Run the model over one file of inputs and write its scores."""
    from calcli.extracting.run import run_model

    try:
        return run_model(
            job, target, splitting, force=force, context=Context(progress=talk.progress)
        )
    except KeyboardInterrupt:
        talk.say(
            f"interrupted; what is done is kept in {target}.job, repeat the command to"
            " go on"
        )
        raise


# ---- the command


def run(args: ExtractArgs) -> int:
    """Import saved scores or run a model, and report what was written.

    A shard that fails does not stop the others.
    """
    command = CommandContext(args)
    output = Path(args.output)
    if args.model is None:
        work = partial(
            import_scores,
            args.sources or [],
            output,
            _import_request(args),
            args.splitting,
            ignore_labels=o.whole_where_possible(args.ignore_label or ()),
            force=args.force,
        )
        return _finish(command, [(output, work)])
    with command:
        is_remote = command.executor is not None and command.executor.remote
        shards = _shards(args, output, is_remote)
        targets = [shard.target for shard in shards]
        pairs = zip(targets, made(shards, command, args.output), strict=True)
        return _finish(command, pairs, len(shards) > 1)


def _import_request(args: ExtractArgs) -> ImportRequest:
    """What is asked of the importers."""
    fields = common_fields(ImportOptions, args.import_options)
    fields["kind"] = args.kind
    fields["seed"] = args.seed
    fields["all_scores"] = args.has_all_scores
    fields["no_labels"] = args.has_no_labels
    fields["scores"] = () if args.has_all_scores else tuple(args.scores or ())
    fields["labels"] = () if args.has_no_labels else tuple(args.labels or ())
    fields["groups"] = tuple(args.part or ())
    return ImportRequest(carry=True, typed=command_words(args), **fields)


def _finish(
    command: CommandContext,
    made: Iterable[tuple[Path, Callable[[], ImportReport]]],
    several: bool = False,
) -> int:
    """Report every file that was written; returns the worst exit code."""
    args = command.args
    whole_report = ImportReport()
    for path, facts in made:
        with command.trying(several):
            report = facts()
            for line in report.notes:
                command.say(line)
            for bundle in report.bundles:
                command.say(_bundle_line(path, bundle))
            whole_report.bundles += report.bundles
            whole_report.notes += report.notes
            if not args.json:
                print_path(path)
    if args.json:
        print_json(whole_report.to_dict(args.output))
    return command.code


def _bundle_line(path: Path, bundle: Written) -> str:
    """What was written: sizes, types, labels."""
    name = f"{path.name}:{bundle.name}" if bundle.name else path.name
    size = f"{bundle.n} {noun(bundle.n, 'row')} of (confidence, correct)"
    if bundle.k:
        size = f"{bundle.n} x {bundle.k} {bundle.kind}"
    line = f"{name}: {size}, {bundle.dtype}"
    if not bundle.labelled:
        line += ", no labels"
    if bundle.transforms:
        line += f", {bundle.transforms} transforms"
    return line
