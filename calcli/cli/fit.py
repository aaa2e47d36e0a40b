"""calcli fit."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calcli.cli import options as o

if TYPE_CHECKING:
    from calcli.calibrator import Context
    from calcli.cli.render import Talk
    from calcli.io.artifact import Artifact
    from calcli.io.bundle import BundleRows


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("fit", epilog="calcli methods lists the methods, calcli methods NAME the options of one.")(fit)


def fit(
    bundle: Annotated[
        str, typer.Argument(metavar="BUNDLE", help="FILE.h5 or FILE.h5:GROUP; group cal (or val) when none is named.")
    ],
    method: Annotated[
        str, typer.Option("--method", "-m", metavar="NAME", help="Method, a composition such as ts+hb, or all.")
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="ART.json", help="Artifact to write, - for stdout; a folder with --method all."
        ),
    ] = None,
    set_: o.Set = None,
    device: o.Device = "auto",
    seed: o.Seed = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 4 for any status other than ok.")] = False,
    force: o.Force = False,
    scores: o.Scores = None,
    labels: o.Labels = None,
    kind: o.Kind = None,
    ignore_label: o.IgnoreLabel = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> int:
    """Fit a calibrator to a bundle of scores with labels.

    Writes the artifact (by default <file stem>.<method>.json here), prints its path on
    stdout, and says on stderr what it did to accuracy, NLL, Brier score and ECE.

    \b
    calcli fit --method ts logits.h5
    calcli fit --method ec --set top=5 logits.h5:cal -o ec5.json
    calcli fit --method all logits.h5 -o calibrators/
    """
    from calcli.calibrator import Context
    from calcli.cli.render import Talk
    from calcli.errors import UsageError
    from calcli.io.atomic import check_output
    from calcli.io.bundle import Layout, open_bundle, split_where
    from calcli.kernels.device import resolve

    talk = Talk(quiet)
    settings = o.settings(set_)
    stem = split_where(bundle)[0].stem
    if method == "all":
        from calcli.cli.fit_all import fit_all
    else:
        output = f"{stem}.{method}.json" if output is None else output
        if output == "/dev/stdout":
            output = "-"
        if not output or output.endswith("/"):
            raise UsageError(f"-o {output!r}: expected a file's name, e.g. -o {output}{stem}.{method}.json")
        if output != "-":
            check_output(Path(output), force=force, inputs=[split_where(bundle)[0]])
        _check_method(method, settings)
    layout = Layout(scores, labels, kind)
    with open_bundle(bundle, prefer=("cal", "val"), layout=layout, ignore_labels=ignore_label or ()) as rows:
        context = Context(seed=seed, device=resolve(device, rows.n * rows.k), progress=talk.progress)
        if rows.ignored:
            talk.say(f"{rows.name}: left out {rows.ignored} of {rows.total} rows by their label")
        if method == "all":
            return fit_all(rows, settings, context, output, stem, strict=strict, force=force, json=json, talk=talk)
        return _fit_one(rows, method, settings, context, str(output), strict=strict, force=force, json=json, talk=talk)


def _check_method(name: str, settings: dict[str, str]) -> None:
    """Refuse unknown methods and options before any file is opened."""
    from calcli.registry import parse_options

    parse_options(name, settings)


def _fit_one(
    rows: "BundleRows",
    method: str,
    settings: dict[str, str],
    context: "Context",
    output: str,
    *,
    strict: bool,
    force: bool,
    json: bool,
    talk: "Talk",
) -> int:
    from calcli.cli.render import print_json
    from calcli.errors import FitError
    from calcli.io.artifact import save
    from calcli.workflow import fit_artifact

    artifact = fit_artifact(method, settings, rows, context)
    talk.clear()
    save(artifact, output, force=force)
    report(artifact, rows.name, talk)
    if json and output != "-":
        print_json(outcome(artifact, output))
    elif output != "-":
        print(output)
    if strict and artifact.fit.status != "ok":
        talk.say(f"--strict: status is {artifact.fit.status}")
        return FitError.exit_code
    return 0


def outcome(artifact: "Artifact", path: str) -> dict[str, object]:
    """One fit as stable JSON keys."""
    fit = artifact.fit
    return {
        "calcli_fit": 1,
        "artifact": path,
        "method": artifact.method,
        "status": fit.status,
        "warnings": fit.warnings,
        "n": fit.n,
        "before": fit.before,
        "after": fit.after,
    }


def report(artifact: "Artifact", source: str, talk: "Talk") -> None:
    """Say what the fit did, on stderr."""
    import sys

    from calcli.cli.render import print_table

    if talk.quiet:
        return
    fit = artifact.fit
    temperature = getattr(artifact.calibrator, "temperature", None)
    found = f", T = {temperature:.6g}" if isinstance(temperature, float) else ""
    talk.say(f"{artifact.method} on {source}: {fit.n} rows, {artifact.n_classes} classes, status {fit.status}{found}")
    head = ["calibration data", *fit.before]
    print_table(head, [["before", *fit.before.values()], ["after", *fit.after.values()]], file=sys.stderr)
    for warning in fit.warnings:
        talk.warn(warning)
