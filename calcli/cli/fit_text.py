"""One fit, as people and as programs read it."""

import sys

from calcli.cli.render import Talk, print_table
from calcli.io.artifact import Artifact


def as_json(artifact: Artifact, path: str) -> dict[str, object]:
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


def print_fit(artifact: Artifact, source: str, talk: Talk) -> None:
    """Say what the fit did, on stderr."""
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
