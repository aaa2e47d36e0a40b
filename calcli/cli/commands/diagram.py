"""Draw reliability diagrams with a noise band.

The band is where a calibrated model would lie. The curve is the isotonic regression of
correctness on confidence, so no bins are chosen. Beneath it are the confidences; in the
corner the expected calibration error (ECE) with the value that a calibrated model would
show by chance, and the Brier score of the confidence split
into miscalibration (MCB), discrimination (DSC) and uncertainty (UNC): Brier = MCB -
DSC + UNC. PNG, SVG and PDF need matplotlib: pip install 'calcli[plot]'.

\b
calcli diagram logits.h5
calcli diagram logits.h5 --calibrator logits.ts.json -o reliability.png
calcli diagram logits.h5 -c logits.ts.json --per-class -o classes.pdf
calcli diagram logits.h5 --style temperature
"""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import typer

from calcli.cli import options as o
from calcli.cli.render import Talk, print_json
from calcli.diagram.data import Diagram, Settings
from calcli.diagram.export import to_csv, to_json, to_object
from calcli.diagram.panels import Measured, by_column, scatter, whole
from calcli.diagram.scatter import Scatter
from calcli.diagram.temperature_sweep import Sweep, sweep_temperature
from calcli.diagram.terminal import draw
from calcli.diagram.terminal_canvas import Look
from calcli.errors import DataError, UsageError
from calcli.io.artifact import Artifact, load
from calcli.io.atomic import atomic_path, check_output
from calcli.io.bundle import BundleRows, open_bundle, split_where
from calcli.metrics.rowtable import collect_all
from calcli.workflow import check_fits

ORDER = 50

DRAWN = ("png", "svg", "pdf")
WRITTEN = ("json", "csv")

Figure = Diagram | Sweep | Scatter
Artifacts = list[tuple[str, Artifact]]
"""Calibrators with the paths that they were loaded from."""


@dataclass(frozen=True)
class DiagramArgs(o.Reading, o.Saying):
    """What was typed after ``calcli diagram``."""

    bundles: Annotated[
        list[str], typer.Argument(metavar="BUNDLE…", help="FILE.h5 or FILE.h5:GROUP; group test when none is named.")
    ]
    calibrator: Annotated[
        list[str] | None,
        typer.Option(
            "--calibrator", "-c", metavar="ART.json", help="Artifact to show too (repeatable).", show_default=False
        ),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="png, svg, pdf, json or csv by its ending; without it, the terminal."
        ),
    ] = None
    style: Annotated[
        Literal["corp", "bins", "temperature", "variance"],
        typer.Option(
            help="corp: isotonic curve; bins: bars; temperature: NLL, ECE, confidence against T;"
            " variance: confidence variance against ECE."
        ),
    ] = "corp"
    match: Annotated[
        bool, typer.Option("--match", help="Use each calibrator only for the file it was fitted on (several models).")
    ] = False
    layout: Annotated[
        Literal["side", "overlay"], typer.Option(help="Calibrators side by side, or over each other.")
    ] = "side"
    per_class: Annotated[bool, typer.Option("--per-class", help="One panel per predicted class.")] = False
    per_group: Annotated[bool, typer.Option("--per-group", help="One panel per value of the dataset group.")] = False
    panels: Annotated[
        int, typer.Option(metavar="N", min=1, max=100, help="Show at most so many classes or groups.")
    ] = 12
    choose: Annotated[
        Literal["worst", "frequent"], typer.Option(help="Which classes or groups, when there are more.")
    ] = "worst"
    bins: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Bins of the ECE and of the bars.")] = 15
    scheme: Annotated[
        Literal["width", "mass"], typer.Option(help="Bins of equal width, or with equally many rows.")
    ] = "width"
    level: Annotated[float, typer.Option(metavar="P", min=0.5, max=0.999, help="Level of bands and intervals.")] = 0.95
    resamples: Annotated[int, typer.Option(metavar="N", min=100, max=100_000, help="Resamples of the band.")] = 400
    t_range: Annotated[
        str | None, typer.Option(metavar="LOW:HIGH", help="Temperatures of --style temperature.", show_default=False)
    ] = None
    ascii_: Annotated[bool, typer.Option("--ascii", help="Draw in the terminal with ASCII characters only.")] = False
    seed: o.Seed = 0
    force: o.Force = False

    def __post_init__(self) -> None:
        form = self.form
        if self.per_class and self.per_group:
            raise UsageError("--per-class and --per-group are two figures; ask for one at a time")
        panels = self.per_class or self.per_group
        if self.style in ("temperature", "variance") and panels:
            raise UsageError(
                f"--style {self.style} has no panels per class or group; leave --per-class and --per-group out"
            )
        if len(self.bundles) > 1 and (self.style == "temperature" or panels):
            which = "--per-class" if self.per_class else "--per-group" if self.per_group else "--style temperature"
            raise UsageError(f"{which} draws one bundle, got {len(self.bundles)}; name one")
        if self.output is not None:
            check_output(self.output, force=self.force, inputs=self.inputs)
        if form in DRAWN and find_spec("matplotlib") is None:  # fail before the work is done, not after it
            raise UsageError(
                "drawing png, svg or pdf needs matplotlib: pip install 'calcli[plot]';"
                " the terminal drawing, .json and .csv work without it"
            )

    @property
    def form(self) -> str | None:
        """What the output file is, by its ending. Raises UsageError."""
        if self.output is None:
            return None
        form = self.output.suffix.lower().lstrip(".")
        if form not in DRAWN + WRITTEN:
            raise UsageError(
                f"-o {self.output}: expected a name that ends in .{', .'.join(DRAWN + WRITTEN)};"
                " --json writes the numbers to stdout"
            )
        return form

    @property
    def inputs(self) -> list[Path]:
        """Files that are read, and so never written."""
        return [*(split_where(b)[0] for b in self.bundles), *(Path(c) for c in self.calibrator or [] if c != "-")]

    @property
    def settings(self) -> Settings:
        """How the figure is computed."""
        return Settings(bins=self.bins, scheme=self.scheme, level=self.level, resamples=self.resamples, seed=self.seed)

    @property
    def temperatures(self) -> tuple[float | None, float | None]:
        """``--t-range 0.5:4`` as two temperatures. Raises UsageError."""
        if self.t_range is None:
            return None, None
        try:
            low, high = (float(part) for part in self.t_range.split(":"))
        except ValueError:
            low = high = 0.0
        if not 0.0 < low < high < float("inf"):
            raise UsageError(
                f"--t-range {self.t_range}: expected two temperatures LOW:HIGH, 0 < LOW < HIGH, e.g. 0.5:4"
            )
        return low, high


def run(args: DiagramArgs) -> int:
    """Compute the figure, and write or show it."""
    talk = Talk(args.quiet)
    artifacts = [(path, load(path)) for path in args.calibrator or []]
    figure = _figure(args, artifacts, talk)
    talk.clear()
    if args.output is not None:
        _write(figure, args)
    if args.json:
        print_json(to_object(figure))
    elif args.output is not None:
        print(args.output)
    elif not args.quiet:
        _show(figure, args.ascii_)
    return 0


def _figure(args: DiagramArgs, artifacts: Artifacts, talk: Talk) -> Figure:
    if args.style == "temperature":
        return _sweep(args, artifacts, talk)
    sets, names, notes = _collect(args, artifacts, talk)
    if args.style == "variance":
        return scatter(sets, args.settings)
    if not args.per_class and not args.per_group:
        return whole(sets, args.style, args.layout, args.settings, notes)
    if args.per_class:
        columns, what = [s.table.prediction for s in sets], ("predicted class", "predicted classes")
    else:
        columns, what = [s.table.group for s in sets if s.table.group is not None], ("group", "groups")
        names = None
    return by_column(
        sets, columns, args.style, args.settings, notes,
        what=what, names=names, limit=args.panels, choose=args.choose,
    )  # fmt: skip


def _labels_of(artifacts: Artifacts) -> list[str]:
    """Method names, with the file's name where two calibrators share a method."""
    methods = [artifact.method for _, artifact in artifacts]
    return [
        m if methods.count(m) == 1 else f"{m} ({Path(path).name})"
        for m, (path, _) in zip(methods, artifacts, strict=True)
    ]


def _collect(args: DiagramArgs, artifacts: Artifacts, talk: Talk) -> tuple[list[Measured], list[str] | None, list[str]]:
    """Row tables of every bundle, uncalibrated and through every calibrator; class names; notes."""
    sets: list[Measured] = []
    notes: list[str] = []
    names: list[str] | None = None
    matched = _matched(args.bundles, artifacts) if args.match else [artifacts] * len(args.bundles)
    for bundle, own in zip(args.bundles, matched, strict=True):
        with open_bundle(bundle, prefer=("test",), layout=args.where, ignore_labels=args.ignored) as rows:
            _admit(rows, talk)
            for path, artifact in own:
                check_fits(artifact, path, rows)
            group = rows.column("group") if args.per_group else None
            if args.per_group and group is None:
                raise DataError(f"{rows.name}: has no dataset 'group' with one value per row, which --per-group needs")
            tables = collect_all(rows, [None, *(a.calibrator for _, a in own)], group=group, progress=talk.progress)
            labels = ["uncalibrated", *_labels_of(own)]
            names = rows.class_names or [f"class {c}" for c in range(rows.k)]
            for path, artifact in own:
                if artifact.fit.data_sha256 is not None and artifact.fit.data_sha256 == rows.data_sha256:
                    notes.append(f"{path} was fitted on these very rows of {rows.name}: it looks better than it is")
            sets += [Measured(rows.name, label, table) for label, table in zip(labels, tables, strict=True)]
    for note in notes:
        talk.warn(note)
    return sets, names, notes


def _matched(bundles: Sequence[str], artifacts: Artifacts) -> list[Artifacts]:
    """For every bundle the calibrators that were fitted on the same file, by its recorded name."""
    files = [split_where(bundle)[0].name for bundle in bundles]
    for path, artifact in artifacts:
        source = artifact.fit.source
        if source is None or split_where(source)[0].name not in files:
            raise UsageError(
                f"--match: {path} was fitted on {source or 'a source it does not name'}, which is none of"
                f" {', '.join(files)}; name that bundle too, or leave the calibrator out"
            )
    return [
        [(path, a) for path, a in artifacts if a.fit.source and split_where(a.fit.source)[0].name == file]
        for file in files
    ]


def _admit(rows: BundleRows, talk: Talk) -> None:
    """Tell which rows are left out, and refuse a bundle of which nothing is left."""
    if rows.ignored:
        talk.say(f"{rows.name}: left out {rows.ignored} of {rows.total} rows by their label")
    weights = rows.weights()
    if weights is not None and not weights.any():
        raise DataError(f"{rows.name}: all rows that are left have weight 0, expected one above; nothing can be drawn")


def _sweep(args: DiagramArgs, artifacts: Artifacts, talk: Talk) -> Sweep:
    low, high = args.temperatures
    given = []
    with open_bundle(args.bundles[0], prefer=("test",), layout=args.where, ignore_labels=args.ignored) as rows:
        _admit(rows, talk)
        for label, (path, artifact) in zip(_labels_of(artifacts), artifacts, strict=True):
            check_fits(artifact, path, rows)
            temperature = getattr(artifact.calibrator, "temperature", None)
            if isinstance(temperature, float):
                given.append((f"{label}, fitted", temperature))
            else:
                talk.warn(f"{path}: method {artifact.method} is not one temperature, so it has no place on this axis")
        return sweep_temperature(
            rows, rows.name, given=given, low=low, high=high, bins=args.bins, progress=talk.progress
        )


def _write(figure: Figure, args: DiagramArgs) -> None:
    assert args.output is not None
    form = str(args.form)
    with atomic_path(args.output, force=args.force, inputs=args.inputs) as temporary:
        if form in WRITTEN:
            temporary.write_text(to_json(figure) if form == "json" else to_csv(figure), encoding="utf-8")
        else:
            from calcli.diagram import matplotlib

            with matplotlib.house_style():
                matplotlib.save(matplotlib.draw(figure), temporary, form)


def _show(figure: Figure, ascii_: bool) -> None:
    """Draw on stdout, in what it can show."""
    unicode = not ascii_ and (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = min(shutil.get_terminal_size((80, 24)).columns, 200)
    print(draw(figure, width, Look(unicode, colour)))
