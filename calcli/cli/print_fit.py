"""What a fit did, as text for people."""

from collections.abc import Mapping
from typing import Any

from calcli.cli.print_evaluation import table_lines
from calcli.cli.render import Console, number
from calcli.composition import Mixture
from calcli.evaluation.words import count, points
from calcli.io.artifact import Artifact
from calcli.registry import split_method

WIDTH = 100
"""Columns of a line that says what was fitted."""

BY_CONSTRUCTION = 1e-9
"""In-sample ECE below which it is a rounding error: that of histogram maps is 0."""


def fitted_sentence(artifact: Artifact) -> str:
    """What was fitted, in one line: ``Fitted auto: 0.83 ft+svs, 0.17 mono; ...``.

    Of the members of an average, as many as the line has room for.
    """
    parts = []
    temperature = getattr(artifact.calibrator, "temperature", None)
    if isinstance(temperature, float):
        parts.append(f"T = {temperature:.4g}")
    predictions = _predictions_words(artifact)
    if predictions:
        parts.append(predictions)
    if artifact.fit.status != "ok":
        parts.append(f"status {artifact.fit.status}")
    weights = _weights_of_methods(artifact)
    for n_named in range(len(weights), 0, -1):
        members = _members_words(weights, n_named)
        sentence = f"Fitted {artifact.method}: {'; '.join([members, *parts])}."
        if len(sentence) <= WIDTH:
            return sentence
    if weights:
        return sentence
    record = artifact.fit.details.get("auto", {})
    if "fallback" in record:
        parts.insert(0, f"{record['chosen']} alone ({record['fallback']})")
    return f"Fitted {artifact.method}: {'; '.join(parts) or 'status ok'}."


def _weights_of_methods(artifact: Artifact) -> dict[str, float]:
    """Weights of the methods in an average, whatever their options, the largest first."""
    weights: dict[str, float] = {}
    for row in artifact.fit.details.get("auto", {}).get("table", ()):
        if row.get("weight"):
            name, _ = split_method(str(row["method"]))
            weights[name] = weights.get(name, 0.0) + float(row["weight"])
    return dict(sorted(weights.items(), key=lambda item: -item[1]))


def _members_words(weights: Mapping[str, float], n_named: int) -> str:
    """The largest weights with their methods, and the sum of the others."""
    words = [f"{weight:.2f} {name}" for name, weight in weights.items()]
    if n_named == len(words):
        return ", ".join(words)
    rest = sum(list(weights.values())[n_named:])
    return ", ".join([*words[:n_named], f"{rest:.2f} others"])


def _predictions_words(artifact: Artifact) -> str:
    """Whether ``auto`` keeps predictions; empty for other methods."""
    decision: Mapping[str, Any] | None = artifact.fit.details.get("auto", {}).get(
        "predictions"
    )
    if decision is None:
        calibrator = artifact.calibrator
        keeps = isinstance(calibrator, Mixture) and calibrator.keeps_argmax
        return "predictions kept" if keeps else ""
    if decision["kept"]:
        return "predictions kept"
    if not decision["changed"]:
        return f"no prediction of {count(decision['rows'])} changes (held out)"
    moved = f"{count(decision['changed'])} of {count(decision['rows'])}"
    change = points(decision["accuracy_difference"])
    accuracy = "" if change == points(0.0) else f", accuracy {change} points"
    return f"{moved} predictions change{accuracy} (held out)"


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
