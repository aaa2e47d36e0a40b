"""What a fit did, as text for people."""

from collections.abc import Mapping
from typing import Any

from calcli.cli.print_evaluation import table_lines
from calcli.cli.render import Console, number
from calcli.composition import Mixture
from calcli.evaluation.words import count, points
from calcli.io.artifact import Artifact

LARGEST_MEMBERS = 4
"""Members of an average that are named."""

BY_CONSTRUCTION = 1e-9
"""In-sample ECE below which it is a rounding error: that of histogram maps is 0."""


def fitted_sentence(artifact: Artifact) -> str:
    """What was fitted, in one line: ``Fitted auto: 0.83 ft+svs, 0.17 mono; ...``."""
    parts = []
    members = _members(artifact)
    if members:
        parts.append(", ".join(members))
    temperature = getattr(artifact.calibrator, "temperature", None)
    if isinstance(temperature, float):
        parts.append(f"T = {temperature:.4g}")
    predictions = _predictions_words(artifact)
    if predictions:
        parts.append(predictions)
    if artifact.fit.status != "ok":
        parts.append(f"status {artifact.fit.status}")
    return f"Fitted {artifact.method}: {'; '.join(parts) or 'status ok'}."


def _members(artifact: Artifact) -> list[str]:
    """Weights and names of the members of an average, the largest first."""
    table = artifact.fit.details.get("auto", {}).get("table", ())
    weighted = [row for row in table if row.get("weight")]
    weighted.sort(key=lambda row: -float(row["weight"]))
    words = [f"{row['weight']:.2f} {row['method']}" for row in weighted]
    if len(words) > LARGEST_MEMBERS:
        rest = sum(float(row["weight"]) for row in weighted[LARGEST_MEMBERS:])
        others = len(words) - LARGEST_MEMBERS
        words = [*words[:LARGEST_MEMBERS], f"{rest:.2f} {others} others"]
    return words


def _predictions_words(artifact: Artifact) -> str:
    """Whether ``auto`` keeps predictions; empty for other methods."""
    decision: Mapping[str, Any] | None = artifact.fit.details.get("auto", {}).get(
        "predictions"
    )
    if decision is None:
        is_average = isinstance(artifact.calibrator, Mixture)
        keeps = is_average and artifact.calibrator.keeps_argmax
        return "predictions kept" if keeps else ""
    if decision["kept"]:
        return "predictions kept"
    moved = f"{count(decision['changed'])} of {count(decision['rows'])}"
    accuracy = f"accuracy {points(decision['accuracy_difference'])} points (held out)"
    return f"{moved} predictions change, {accuracy}"


def metrics_sentence(artifact: Artifact) -> str:
    """NLL and ECE before and after, on the rows of the fit."""
    before, after = artifact.fit.before, artifact.fit.after
    parts = []
    for name, called in (("nll", "NLL"), ("nll_top", "NLL"), ("ece", "ECE")):
        if name not in before:
            continue
        then = number(after[name])
        if name == "ece" and (after[name] or 0.0) < BY_CONSTRUCTION:
            then = "0 by construction"
        parts.append(f"{called} {number(before[name])} -> {then}")
    losses = [
        float(row["nll"])
        for row in artifact.fit.details.get("auto", {}).get("table", ())
        if "nll" in row
    ]
    held_out = (
        f"; best candidate, held out: NLL {number(min(losses))}" if losses else ""
    )
    return f"In-sample: {', '.join(parts)}{held_out}."


def print_fit(artifact: Artifact, console: Console, *, full: bool = False) -> None:
    """Print on stderr what was fitted, what it did to the rows of its fit, and warnings.

    full : also the candidates of ``auto``, and all metrics.
    """
    if console.quiet:
        return
    console.say(fitted_sentence(artifact))
    console.say(metrics_sentence(artifact))
    if full:
        _print_candidates(artifact, console)
        _print_metrics(artifact, console)
    for warning in artifact.fit.warnings:
        console.warn(warning)


def _print_metrics(artifact: Artifact, console: Console) -> None:
    before, after = artifact.fit.before, artifact.fit.after
    lines = [["in-sample", *before]]
    lines.append(["before", *(number(value) for value in before.values())])
    lines.append(["after", *(number(value) for value in after.values())])
    for line in table_lines(lines):
        console.say(line)


def _print_candidates(artifact: Artifact, console: Console) -> None:
    """Print the candidates of a cross-validated choice or average."""
    table = artifact.fit.details.get("auto", {}).get("table", ())
    done = [row for row in table if "failed" not in row]
    if not done:
        return
    loss = "brier" if "brier" in done[0] else "nll"
    lines = [["candidate", f"held-out {loss}", "standard error", "weight", "seconds"]]
    for row in sorted(done, key=lambda row: float(row[loss])):
        weight = "chosen" if row.get("chosen") else number(row.get("weight"))
        seconds = artifact.seconds.get(row["method"])
        lines.append(
            [
                str(row["method"]),
                number(row[loss]),
                number(row["error"]),
                weight,
                number(seconds),
            ]
        )
    for row in table:
        if "failed" in row:
            lines.append([str(row["method"]), "failed", "", "", ""])
    for line in table_lines(lines):
        console.say(line)
