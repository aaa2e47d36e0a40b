"""Draw reliability diagrams with a band under calibration.

The band is where a calibrated model would lie. Without -o the diagram is drawn in the
terminal.

\b
calcli diagram logits.h5 --calibrator logits.auto.json
calcli diagram logits.h5 --calibrator logits.auto.json -o reliability.png

\f
The curve is the isotonic regression of correctness on confidence, so no bins are chosen.
Beneath it are the confidences; in the corner the expected calibration error (ECE) with
its expected value under calibration, and the Brier score of the confidence split into
miscalibration (MCB), discrimination (DSC) and uncertainty (UNC):
Brier = MCB - DSC + UNC. Two classes show P(class 1) from 0 to 1 beside the top label.
More than 12 classes or groups are one sorted dot plot. PNG, SVG and PDF need matplotlib:
pip install matplotlib.

\b
calcli diagram logits.h5 -c logits.auto.json --per-class -o classes.pdf
calcli diagram logits.h5 --style temperature
calcli diagram logits.h5 --style risk --width column --theme dark -o risk.svg
"""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from calcli.cli import options as o
from calcli.cli.context import CommandContext
from calcli.cli.render import print_json, print_made, print_path
from calcli.diagrams.curve import CurveSettings, Scheme
from calcli.diagrams.matplotlib_theme import METADATA, THEMES, WIDTHS, Paper, width_of
from calcli.diagrams.outputs import FORMATS, format_of, to_object
from calcli.diagrams.panels import Measured
from calcli.diagrams.style import Figure, Request, check, style, style_titles
from calcli.diagrams.terminal import Look, draw
from calcli.errors import DataError, UsageError, check_choice
from calcli.evaluation.caveats import not_held_out
from calcli.evaluation.requests import Subject
from calcli.io.artifact import Artifact
from calcli.io.atomic import check_output, write_bytes
from calcli.io.dataset import DataSet
from calcli.io.locate import split_where
from calcli.io.provenance import title_of
from calcli.io.question_artifact import load_for
from calcli.methods._temperature import OneTemperature
from calcli.metrics.collect import collect_all
from calcli.metrics.rowtable import RowTable
from calcli.metrics.warnings import label_warnings
from calcli.settings import common_fields

EPILOG = f"Styles: {'; '.join(style_titles().values())}."
Artifacts = list[tuple[str, Artifact]]
"""Artifacts with the paths that they were loaded from."""


@dataclass(frozen=True, kw_only=True)
class DiagramArgs(o.Pooling, o.WorkerOptions, o.OutputOptions):
    bundles: Annotated[
        list[str] | None,
        o.bundles("FILE.h5 or FILE.h5:GROUP; group test when none is named."),
    ] = None
    calibrator: Annotated[
        list[str] | None, o.calibrators("Artifact to show too (repeatable).")
    ] = None
    output: Annotated[
        Path | None,
        o.output(
            "FILE", f"{', '.join(FORMATS)} by its ending; without it, the terminal."
        ),
    ] = None
    style: Annotated[
        str,
        typer.Option(
            "--style",
            metavar="NAME",
            help=f"{', '.join(style_titles())}; described in --help-all.",
        ),
    ] = "corp"
    label: Annotated[
        Literal["positive", "top"] | None,
        typer.Option(
            "--label",
            help="Of two classes: P(class 1), or the confidence.",
            show_default="both of two classes",
        ),
    ] = None
    match: Annotated[
        bool,
        typer.Option(
            "--match",
            help="Use each calibrator only for the file it was fitted on (several"
            " models).",
        ),
    ] = False
    arrange: Annotated[
        Literal["side", "overlay"],
        typer.Option("--arrange", help="Calibrators side by side, or over each other."),
    ] = "side"
    per_class: Annotated[
        bool, typer.Option("--per-class", help="One panel per predicted class.")
    ] = False
    per_group: Annotated[
        bool,
        typer.Option("--per-group", help="One panel per value of the dataset group."),
    ] = False
    ordered: o.Ordered = False
    panels: Annotated[
        int | None,
        typer.Option(
            "--panels",
            metavar="N",
            help="Show at most so many classes or groups, the most miscalibrated; more"
            " than 12 as lines of a dot plot.",
            min=1,
            max=1000,
        ),
    ] = None
    bins: Annotated[
        int,
        typer.Option(
            "--bins",
            metavar="N",
            help="Bins of the ECE and of the bars.",
            **o.limits(CurveSettings, "bins"),
        ),
    ] = CurveSettings.bins
    scheme: Annotated[
        Scheme,
        typer.Option(
            "--scheme",
            help="Bins of equal width, or with equally many rows.",
            rich_help_panel="Metrics",
        ),
    ] = CurveSettings.scheme
    level: Annotated[
        float,
        typer.Option(
            "--level",
            metavar="P",
            help="Level of bands and intervals.",
            **o.limits(CurveSettings, "level"),
        ),
    ] = CurveSettings.level
    resamples: Annotated[
        int,
        typer.Option(
            "--resamples",
            metavar="N",
            help="Resamples of the band.",
            min=100,
            max=100_000,
            rich_help_panel="Metrics",
        ),
    ] = 400
    title: Annotated[
        str | None,
        typer.Option(
            "--title", metavar="TEXT", help="Line above the figure, '' for none."
        ),
    ] = None
    names: Annotated[
        str | None,
        typer.Option(
            "--names",
            metavar="A,B,…",
            help="Call the uncalibrated scores and the calibrators so.",
        ),
    ] = None
    width: Annotated[
        str | None,
        typer.Option(
            "--width",
            metavar=f"{'|'.join(WIDTHS)}|LENGTH",
            help="Width of a picture, e.g. 85mm or 3.4in.",
        ),
    ] = None
    theme: Annotated[
        str,
        typer.Option("--theme", metavar="|".join(THEMES), help="Colours of a picture."),
    ] = "light"
    no_stats: Annotated[
        bool, typer.Option("--no-stats", help="No numbers inside a picture.")
    ] = False
    ascii_: Annotated[
        bool,
        typer.Option(
            "--ascii", help="Draw in the terminal with ASCII characters only."
        ),
    ] = False
    seed: o.Seed = 0
    again: o.Again = False
    force: o.Force = False

    def __post_init__(self) -> None:
        option = None if self.by is None else f"--per-{self.by}"
        if self.names_groups and not self.names_groups_of_calibrator:
            object.__setattr__(self, "per_group", True)
            option = option or "--group-by"
        if self.ordered and self.per_group and self.style == type(self).style:
            object.__setattr__(self, "style", "gaps")
        check(style(self.style), self.style, bundles=len(self.sets), by=option)
        if self.output is not None:
            format_of(self.output)
            check_output(self.output, force=self.force)

    @property
    def names_groups_of_calibrator(self) -> bool:
        """True if the style has no panels, and a calibrator may be one by group."""
        has_panels = style(self.style).by_part
        asks_for_panels = self.per_group or self.ordered
        may_need_groups = bool(self.calibrator) and not has_panels
        return self.names_groups and may_need_groups and not asks_for_panels

    @property
    def by(self) -> Literal["class", "group"] | None:
        """Parts that have a panel each, "class" or "group"; None for none."""
        if self.per_class:
            return "class"
        if self.per_group:
            return "group"
        return None

    @property
    def unused_options(self) -> dict[str, str]:
        is_picture = False
        if self.output is not None:
            is_picture = self.output.suffix.lower().lstrip(".") in METADATA
        return o.unused(
            (
                True,
                " ".join(style(self.style).ignores),
                f"--style {self.style} shows nothing of it",
            ),
            (
                self.by is None,
                "panels",
                "it is about the panels of --per-class and --per-group",
            ),
            (
                self.per_group,
                "per_class",
                "--per-group is another figure; ask for one at a time",
            ),
            (not self.per_group, "ordered", o.NO_BATCHES),
            (
                not self.calibrator,
                "match",
                "it says which --calibrator belongs to which bundle",
            ),
            (self.pool, "match", "--pool makes all bundles one data set"),
            (
                not is_picture,
                "width theme no_stats",
                "it is about pictures; write one with -o FILE.png",
            ),
            (
                self.output is not None or self.json,
                "ascii_",
                "nothing is drawn in the terminal",
            ),
        )


def run(args: DiagramArgs) -> int:
    """Measure the figure, and write or print it."""
    check_choice("--theme", args.theme, THEMES)
    width = None if args.width is None else width_of(args.width)
    paper = Paper(THEMES[args.theme], width, not args.no_stats)
    command = CommandContext(args)
    request = Request(
        CurveSettings(**common_fields(CurveSettings, args)),
        quantity=args.label,
        progress=command.progress,
        title=args.title,
        layout=args.arrange,
        by=args.by,
        ordered=args.ordered,
        panels=args.panels,
    )
    first = args.expanded[0]
    artifacts = [(path, load_for(path, first)) for path in args.calibrator or []]
    if args.names_groups_of_calibrator:
        _check_by_group(artifacts, args.style)
    gather = _sweep if style(args.style).needs_scores else _tables
    with command:
        figure = gather(command, request, artifacts)
    if args.output is not None:
        data = format_of(args.output)(figure, paper)
        write_bytes(args.output, data, force=args.force)
    if args.json:
        print_json(to_object(figure))
    elif args.output is not None:
        print_path(args.output)
    elif not args.quiet:
        columns = min(shutil.get_terminal_size((80, 24)).columns, 200)
        print_made(f"{draw(figure, columns, _look(args))}\n")
    return 0


def _check_by_group(artifacts: Artifacts, style_name: str) -> None:
    """Raise UsageError where groups are named and no calibrator is by group."""
    if any(artifact.calibrator.required_columns for _, artifact in artifacts):
        return
    raise UsageError(
        f"--group-by has no effect here: --style {style_name} has no panels per group,"
        " and no calibrator is by group; leave it out"
    )


def _look(args: DiagramArgs) -> Look:
    """The characters and colours that stdout can show."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    unicode = encoding.startswith("utf") and not args.ascii_
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return Look(unicode, sys.stdout.isatty() and not is_plain)


def _labels(args: DiagramArgs, artifacts: Artifacts) -> list[str]:
    """Names of the uncalibrated scores and the calibrators: methods, with the file name
    where two share one.
    """
    if args.names is not None:
        names = list(map(str.strip, args.names.split(",")))
        if len(names) != 1 + len(artifacts):
            raise UsageError(
                f"--names {args.names}: expected {1 + len(artifacts)}, of the"
                f" uncalibrated scores and {len(artifacts)} calibrators, got"
                f" {len(names)}"
            )
        return names
    methods = [artifact.method for _, artifact in artifacts]
    labels = ["uncalibrated"]
    for path, artifact in artifacts:
        label = artifact.method
        if methods.count(label) > 1:
            label += f" ({Path(path).name})"
        labels.append(label)
    return labels


def _tables(command: CommandContext, request: Request, artifacts: Artifacts) -> Figure:
    """Measure the figure from row tables.

    Every bundle has one, uncalibrated and with every calibrator.
    """
    args: DiagramArgs = command.args
    sets: list[Measured] = []
    notes: list[str] = []
    names: list[str] | None = None
    uncalibrated, *labels_of_artifacts = _labels(args, artifacts)
    paths = [path for path, _ in artifacts]
    label_of = dict(zip(paths, labels_of_artifacts, strict=True))
    artifacts_of_sets = [artifacts for _ in args.sets]
    if args.match:
        artifacts_of_sets = _matched(args.expanded, artifacts)
    for bundles, matched in zip(args.sets, artifacts_of_sets, strict=True):
        with command.rows(bundles) as rows:
            for path, artifact in matched:
                command.check_fits(artifact, path, rows)
            tables = _row_tables(command, rows, matched)
            doubts = (*rows.caveats, *label_warnings(tables[0], rows.class_names))
            notes += [f"{rows.name}: {doubt}" for doubt in doubts]
            names = rows.class_names
            if not names:
                names = [f"class {c}" for c in range(rows.k)]
            for path, artifact in dict(matched).items():
                in_sample = not_held_out(artifact, rows)
                if in_sample is not None:
                    notes.append(f"{rows.name} with {path}: {in_sample}")
            labels = [uncalibrated, *(label_of[path] for path in dict(matched))]
            if args.names is None:
                labels = [title_of(rows.upstream), *_labels(args, matched)[1:]]
            for label, table in zip(labels, tables, strict=True):
                sets.append(Measured(rows.name, label, table))
    for note in notes:
        command.warn(note)
    request = replace(request, sets=sets, names=names, notes=notes)
    return style(args.style).measure(request)


def _row_tables(
    command: CommandContext, rows: DataSet, artifacts: Artifacts
) -> list[RowTable]:
    """Tables of the rows, uncalibrated and through every calibrator."""
    args: DiagramArgs = command.args
    group = rows.column("group") if args.per_group else None
    if args.per_group and group is None:
        raise DataError(
            f"{rows.name}: has no dataset 'group' to group by; name one with"
            " --group-by COLUMN"
        )
    if args.ordered and group is not None:
        command.tell_order(rows, group)
    calibrators = [None, *(artifact.calibrator for _, artifact in artifacts)]
    counted = Subject(rows, group=group).counted()
    return collect_all(
        counted.rows, calibrators, group=counted.group, progress=command.progress
    )


def _matched(bundles: Sequence[str], artifacts: Artifacts) -> list[Artifacts]:
    """Calibrators of each bundle: those fitted on the file of the same name."""
    files = [split_where(bundle)[0].name for bundle in bundles]
    matched: dict[str, Artifacts] = {file: [] for file in files}
    for path, artifact in artifacts:
        source = artifact.fit.source
        file = None if source is None else split_where(source)[0].name
        if file not in matched:
            fitted_on = source or "a source it does not name"
            raise UsageError(
                f"--match: {path} was fitted on {fitted_on}, which is none of"
                f" {', '.join(files)}; name that bundle too, or leave the calibrator"
                " out"
            )
        matched[file].append((path, artifact))
    return [matched[file] for file in files]


def _sweep(command: CommandContext, request: Request, artifacts: Artifacts) -> Figure:
    """Measure the figure from the scores of a bundle, with the temperatures of the
    calibrators that have one.
    """
    args: DiagramArgs = command.args
    temperatures = []
    with command.rows(args.sets[0]) as rows:
        labels = _labels(args, artifacts)[1:]
        for label, (path, artifact) in zip(labels, artifacts, strict=True):
            command.check_fits(artifact, path, rows)
            calibrator = artifact.calibrator
            if isinstance(calibrator, OneTemperature):
                temperatures.append((f"{label}, fitted", calibrator.temperature))
            else:
                command.warn(
                    f"{path}: method {artifact.method} is not one temperature, so it"
                    " has no place on this axis"
                )
        command.caveats(rows)
        request = replace(
            request, rows=rows, source=rows.name, temperatures=temperatures
        )
        return style(args.style).measure(request)
