"""Draw reliability diagrams with a noise band."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from calcli.cli import options as o

if TYPE_CHECKING:
    from calcli.cli.render import Talk
    from calcli.diagram.data import Diagram
    from calcli.diagram.panels import Measured
    from calcli.diagram.scatter import Scatter
    from calcli.diagram.temperature_sweep import Sweep
    from calcli.io.artifact import Artifact
    from calcli.io.bundle import BundleRows, Layout

DRAWN = ("png", "svg", "pdf")
WRITTEN = ("json", "csv")


ORDER = 50


def diagram(
    bundles: Annotated[
        list[str], typer.Argument(metavar="BUNDLE…", help="FILE.h5 or FILE.h5:GROUP; group test when none is named.")
    ],
    calibrator: Annotated[
        list[str] | None,
        typer.Option(
            "--calibrator", "-c", metavar="ART.json", help="Artifact to show too (repeatable).", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="png, svg, pdf, json or csv by its ending; without it, the terminal."
        ),
    ] = None,
    style: Annotated[
        Literal["corp", "bins", "temperature", "variance"],
        typer.Option(
            help="corp: isotonic curve; bins: bars; temperature: NLL, ECE, confidence against T;"
            " variance: confidence variance against ECE."
        ),
    ] = "corp",
    match: Annotated[
        bool, typer.Option("--match", help="Use each calibrator only for the file it was fitted on (several models).")
    ] = False,
    layout: Annotated[
        Literal["side", "overlay"], typer.Option(help="Calibrators side by side, or over each other.")
    ] = "side",
    per_class: Annotated[bool, typer.Option("--per-class", help="One panel per predicted class.")] = False,
    per_group: Annotated[bool, typer.Option("--per-group", help="One panel per value of the dataset group.")] = False,
    panels: Annotated[
        int, typer.Option(metavar="N", min=1, max=100, help="Show at most so many classes or groups.")
    ] = 12,
    choose: Annotated[
        Literal["worst", "frequent"], typer.Option(help="Which classes or groups, when there are more.")
    ] = "worst",
    bins: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Bins of the ECE and of the bars.")] = 15,
    scheme: Annotated[
        Literal["width", "mass"], typer.Option(help="Bins of equal width, or with equally many rows.")
    ] = "width",
    level: Annotated[float, typer.Option(metavar="P", min=0.5, max=0.999, help="Level of bands and intervals.")] = 0.95,
    resamples: Annotated[int, typer.Option(metavar="N", min=100, max=100_000, help="Resamples of the band.")] = 400,
    t_range: Annotated[
        str | None, typer.Option(metavar="LOW:HIGH", help="Temperatures of --style temperature.", show_default=False)
    ] = None,
    ascii_: Annotated[bool, typer.Option("--ascii", help="Draw in the terminal with ASCII characters only.")] = False,
    seed: o.Seed = 0,
    force: o.Force = False,
    scores: o.Scores = None,
    labels: o.Labels = None,
    kind: o.Kind = None,
    ignore_label: o.IgnoreLabel = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> int:
    """Reliability diagrams, with the band in which a calibrated model would lie.

    The curve is the isotonic regression of correctness on confidence, so no bins are
    chosen. Beneath it are the confidences; in the corner the ECE with the value that a
    calibrated model would show by chance, and the Brier score of the confidence split
    into miscalibration (MCB), discrimination (DSC) and uncertainty (UNC): Brier = MCB -
    DSC + UNC. PNG, SVG and PDF need matplotlib: pip install 'calcli[plot]'.

    \b
    calcli diagram logits.h5
    calcli diagram logits.h5 --calibrator logits.ts.json -o reliability.png
    calcli diagram logits.h5 -c logits.ts.json --per-class -o classes.pdf
    calcli diagram logits.h5 --style temperature
    """
    from calcli.cli.render import Talk, print_json
    from calcli.diagram.data import Settings
    from calcli.errors import UsageError
    from calcli.io.artifact import load
    from calcli.io.atomic import check_output
    from calcli.io.bundle import Layout, split_where

    talk = Talk(quiet)
    form = _format(output)
    inputs = [*(split_where(b)[0] for b in bundles), *(Path(c) for c in calibrator or [] if c != "-")]
    if output is not None:
        check_output(output, force=force, inputs=inputs)
    if per_class and per_group:
        raise UsageError("--per-class and --per-group are two figures; ask for one at a time")
    if style in ("temperature", "variance") and (per_class or per_group):
        raise UsageError(f"--style {style} has no panels per class or group; leave --per-class and --per-group out")
    if len(bundles) > 1 and (style == "temperature" or per_class or per_group):
        which = "--style temperature" if style == "temperature" else "--per-class" if per_class else "--per-group"
        raise UsageError(f"{which} draws one bundle, got {len(bundles)}; name one")
    if form in DRAWN:
        _need_matplotlib()
    artifacts = [(path, load(path)) for path in calibrator or []]
    where = Layout(scores, labels, kind)
    ignore = tuple(ignore_label or ())
    settings = Settings(bins=bins, scheme=scheme, level=level, resamples=resamples, seed=seed)

    figure: Diagram | Sweep | Scatter
    if style == "temperature":
        figure = _sweep(bundles[0], artifacts, where, ignore, bins, _range(t_range), talk)
    elif style == "variance":
        from calcli.diagram.panels import scatter

        sets, _, _ = _collect(bundles, artifacts, where, ignore, talk, match=match)
        figure = scatter(sets, settings)
    else:
        from calcli.diagram.panels import by_column, whole

        sets, names, notes = _collect(bundles, artifacts, where, ignore, talk, match=match, per_group=per_group)
        if per_class:
            columns = [s.table.prediction for s in sets]
            figure = by_column(
                sets,
                columns,
                style,
                settings,
                notes,
                what=("predicted class", "predicted classes"),
                names=names,
                limit=panels,
                choose=choose,
            )
        elif per_group:
            groups = [s.table.group for s in sets if s.table.group is not None]
            figure = by_column(
                sets, groups, style, settings, notes, what=("group", "groups"), limit=panels, choose=choose
            )
        else:
            figure = whole(sets, style, layout, settings, notes)
    talk.clear()
    if output is not None:
        _write(figure, output, str(form), force, inputs)
    if json:
        from calcli.diagram.export import to_object

        print_json(to_object(figure))
    elif output is not None:
        print(output)
    else:
        _show(figure, ascii_)
    return 0


def _format(output: Path | None) -> str | None:
    """What an output file is, by its ending. Raises UsageError."""
    from calcli.errors import UsageError

    if output is None:
        return None
    form = output.suffix.lower().lstrip(".")
    if form not in DRAWN + WRITTEN:
        raise UsageError(
            f"-o {output}: expected a name that ends in .{', .'.join(DRAWN + WRITTEN)};"
            " --json writes the numbers to stdout"
        )
    return form


def _need_matplotlib() -> None:
    """Fail before the work is done, not after it."""
    from importlib.util import find_spec

    from calcli.errors import UsageError

    if find_spec("matplotlib") is None:
        raise UsageError(
            "drawing png, svg or pdf needs matplotlib: pip install 'calcli[plot]';"
            " the terminal drawing, .json and .csv work without it"
        )


def _range(text: str | None) -> tuple[float | None, float | None]:
    """``"0.5:4"`` as two temperatures. Raises UsageError."""
    from calcli.errors import UsageError

    if text is None:
        return None, None
    try:
        low, high = (float(part) for part in text.split(":"))
    except ValueError:
        low = high = 0.0
    if not 0.0 < low < high < float("inf"):
        raise UsageError(f"--t-range {text}: expected two temperatures LOW:HIGH, 0 < LOW < HIGH, e.g. 0.5:4")
    return low, high


def _labels_of(artifacts: Sequence[tuple[str, "Artifact"]]) -> list[str]:
    """Method names, with the file's name where two calibrators share a method."""
    methods = [artifact.method for _, artifact in artifacts]
    return [
        m if methods.count(m) == 1 else f"{m} ({Path(path).name})"
        for m, (path, _) in zip(methods, artifacts, strict=True)
    ]


def _collect(
    bundles: Sequence[str],
    artifacts: Sequence[tuple[str, "Artifact"]],
    layout: "Layout",
    ignore: tuple[int, ...],
    talk: "Talk",
    *,
    match: bool,
    per_group: bool = False,
) -> tuple[list["Measured"], list[str] | None, list[str]]:
    """Row tables of every bundle, uncalibrated and through every calibrator; class names; notes."""
    from calcli.diagram.panels import Measured
    from calcli.errors import DataError
    from calcli.io.bundle import open_bundle
    from calcli.metrics.rowtable import collect_all
    from calcli.workflow import check_fits

    sets: list[Measured] = []
    notes: list[str] = []
    names: list[str] | None = None
    matched = _matched(bundles, artifacts) if match else [artifacts] * len(bundles)
    for bundle, own in zip(bundles, matched, strict=True):
        with open_bundle(bundle, prefer=("test",), layout=layout, ignore_labels=ignore) as rows:
            _admit(rows, talk)
            for path, artifact in own:
                check_fits(artifact, path, rows)
            group = rows.column("group") if per_group else None
            if per_group and group is None:
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


def _matched(bundles: Sequence[str], artifacts: Sequence[tuple[str, "Artifact"]]) -> list[list[tuple[str, "Artifact"]]]:
    """For every bundle the calibrators that were fitted on the same file, by its recorded name."""
    from calcli.errors import UsageError
    from calcli.io.bundle import split_where

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


def _admit(rows: "BundleRows", talk: "Talk") -> None:
    """Tell which rows are left out, and refuse a bundle of which nothing is left."""
    from calcli.errors import DataError

    if rows.ignored:
        talk.say(f"{rows.name}: left out {rows.ignored} of {rows.total} rows by their label")
    weights = rows.weights()
    if weights is not None and not weights.any():
        raise DataError(f"{rows.name}: all rows that are left have weight 0, expected one above; nothing can be drawn")


def _sweep(
    bundle: str,
    artifacts: Sequence[tuple[str, "Artifact"]],
    layout: "Layout",
    ignore: tuple[int, ...],
    bins: int,
    t_range: tuple[float | None, float | None],
    talk: "Talk",
) -> "Sweep":
    from calcli.diagram.temperature_sweep import sweep_temperature
    from calcli.io.bundle import open_bundle
    from calcli.workflow import check_fits

    given = []
    with open_bundle(bundle, prefer=("test",), layout=layout, ignore_labels=ignore) as rows:
        _admit(rows, talk)
        for label, (path, artifact) in zip(_labels_of(artifacts), artifacts, strict=True):
            check_fits(artifact, path, rows)
            temperature = getattr(artifact.calibrator, "temperature", None)
            if isinstance(temperature, float):
                given.append((f"{label}, fitted", temperature))
            else:
                talk.warn(f"{path}: method {artifact.method} is not one temperature, so it has no place on this axis")
        return sweep_temperature(
            rows, rows.name, given=given, low=t_range[0], high=t_range[1], bins=bins, progress=talk.progress
        )


def _write(figure: "Diagram | Sweep | Scatter", path: Path, form: str, force: bool, inputs: Sequence[Path]) -> None:
    from calcli.io.atomic import atomic_path

    with atomic_path(path, force=force, inputs=inputs) as temporary:
        if form in WRITTEN:
            from calcli.diagram.export import to_csv, to_json

            temporary.write_text(to_json(figure) if form == "json" else to_csv(figure), encoding="utf-8")
        else:
            from calcli.diagram.matplotlib import draw, house_style, save

            with house_style():
                save(draw(figure), temporary, form)


def _show(figure: "Diagram | Sweep | Scatter", ascii_: bool) -> None:
    """Draw on stdout, in what it can show."""
    import os
    import shutil
    import sys

    from calcli.diagram.terminal import draw
    from calcli.diagram.terminal_canvas import Look

    unicode = not ascii_ and (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = min(shutil.get_terminal_size((80, 24)).columns, 200)
    print(draw(figure, width, Look(unicode, colour)))
