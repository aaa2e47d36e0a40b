"""One fit, as people and as programs read it."""

import sys

from calcli.cli.render import Talk
from calcli.cli.tables import print_table
from calcli.io.artifact import Artifact
from calcli.mixture import Mixture


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


def classes(k: int) -> str:
    """What a number of classes is called; one is a confidence alone."""
    return f"{k} classes" if k > 1 else "confidences"


def print_fit(artifact: Artifact, source: str, talk: Talk) -> None:
    """Say what the fit did, on stderr."""
    if talk.quiet:
        return
    fit = artifact.fit
    temperature = getattr(artifact.calibrator, "temperature", None)
    found = f", T = {temperature:.6g}" if isinstance(temperature, float) else ""
    names = artifact.class_names
    named = f" (class 1 = {names[1]})" if names is not None and len(names) == 2 else ""
    what = f"{classes(artifact.n_classes)}{named}"
    talk.say(f"{artifact.method} on {source}: {fit.n} rows, {what}, status {fit.status}{found}")
    head = ["calibration data", *fit.before]
    print_table(head, [["before", *fit.before.values()], ["after", *fit.after.values()]], file=sys.stderr)
    if "auto" in fit.details:
        print_candidates(artifact, talk)
    for warning in fit.warnings:
        talk.warn(warning)


def print_candidates(artifact: Artifact, talk: Talk) -> None:
    """The table of a cross-validated choice or average, and what the average does to predictions."""
    record = artifact.fit.details["auto"]
    done = [row for row in record["table"] if "failed" not in row]
    if not done:
        return
    loss = "brier" if "brier" in done[0] else "nll"
    head = ["candidate", f"held-out {loss}", "standard error", "weight", "seconds"]
    lines = []
    for row in sorted(done, key=lambda row: float(row[loss])):
        weight = row.get("weight", "chosen" if row.get("chosen") else "")
        lines.append([row["method"], row[loss], row["error"], weight, artifact.seconds.get(row["method"], "")])
    print_table(head, lines, file=sys.stderr)
    for row in record["table"]:
        if "failed" in row:
            talk.say(f"{row['method']}: {row['failed']}")
    if isinstance(artifact.calibrator, Mixture):
        kept = "every member keeps the predictions" if artifact.calibrator.keeps_argmax else "predictions may change"
        talk.say(f"average of {len(artifact.calibrator.members)}: {kept}")
