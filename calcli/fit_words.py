"""What was fitted, in one line."""

from collections.abc import Mapping
from typing import Any

from calcli.io.artifact import Artifact
from calcli.mixture import Mixture
from calcli.number_words import count, points
from calcli.registry import split_method

WIDTH = 100
"""Columns of a line that says what was fitted."""


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
    """Whether ``auto`` may change predictions; empty for other methods."""
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
