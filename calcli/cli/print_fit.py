"""What a fit did, as text for people."""

from collections.abc import Mapping, Sequence

from calcli.cli.render import Cell, Console, Table, number, table_lines
from calcli.fit_words import fitted_sentence
from calcli.io.artifact import Artifact
from calcli.number_words import noun

BY_CONSTRUCTION = 1e-9
"""In-sample ECE below which it is a rounding error: that of histogram maps is 0."""


def metrics_sentence(artifact: Artifact) -> str:
    """NLL and ECE before and after, on the rows of the fit.

    Those after are held out where the fit has held out every row, as ``auto`` may.
    """
    before = artifact.fit.before
    after = artifact.fit.details.get("held_out")
    if after is not None:
        return f"Held out: {_changes(before, after, artifact.n_classes)}."
    in_sample = _changes(before, artifact.fit.after, artifact.n_classes)
    losses = []
    for row in artifact.fit.details.get("auto", {}).get("table", ()):
        if "nll" in row:
            losses.append(float(row["nll"]))
    if not losses:
        return f"In-sample: {in_sample}."
    best = number(min(losses))
    return f"In-sample: {in_sample}; best candidate, held out: NLL {best}."


def _changes(
    before: Mapping[str, float | None], after: Mapping[str, float | None], k: int
) -> str:
    """NLL and ECE before and after. k : classes."""
    parts = []
    for name, called in (("nll", "NLL"), ("nll_top", "NLL"), ("ece", "ECE")):
        if name not in before:
            continue
        then = number(after[name])
        if name == "ece" and (after[name] or 0.0) < BY_CONSTRUCTION:
            then = "0 by construction"
        if name == "ece" and k == 2:
            called = f"top-label {called}"  # of two classes ECE is that of P(class 1)
        parts.append(f"{called} {number(before[name])} -> {then}")
    return ", ".join(parts)


def print_fit(artifact: Artifact, console: Console, *, full: bool = False) -> None:
    """Print on stderr what was fitted, what it did to the rows of its fit, and
    warnings.

    full : also the candidates of ``auto``, and all metrics.
    """
    if console.quiet:
        return
    console.say(fitted_sentence(artifact))
    console.say(metrics_sentence(artifact))
    if full:
        _print_candidates(artifact, console)
        _print_metrics(artifact, console)
    warn_of_fit(artifact.fit.warnings, console)


def warn_of_fit(
    warnings: Sequence[str], console: Console, most: int | None = None
) -> None:
    """Print warnings of a fit, as many as asked for, and how many are left out."""
    shown = warnings[:most]
    for warning in shown:
        console.warn(warning)
    n_more = len(warnings) - len(shown)
    if n_more:
        more = f"{n_more} more" if shown else str(n_more)
        console.say(f"{more} {noun(n_more, 'warning')} of the fit with --full")


def _print_metrics(artifact: Artifact, console: Console) -> None:
    before = artifact.fit.before
    after = artifact.fit.after
    rows = [["before", *before.values()], ["after", *after.values()]]
    for line in table_lines(Table(["in-sample", *before], rows).lines):
        console.say(line)


def _print_candidates(artifact: Artifact, console: Console) -> None:
    """Print the candidates of a cross-validated choice or average."""
    table = artifact.fit.details.get("auto", {}).get("table", ())
    done = [row for row in table if "failed" not in row]
    if not done:
        return
    loss = "brier" if "brier" in done[0] else "nll"
    head = ["candidate", f"held-out {loss}", "standard error", "weight", "seconds"]
    rows: list[list[Cell]] = []
    for row in sorted(done, key=lambda row: float(row[loss])):
        name = row["method"]
        weight = "chosen" if row.get("chosen") else row.get("weight")
        rows.append([name, row[loss], row["error"], weight, artifact.seconds.get(name)])
    for row in table:
        if "failed" in row:
            rows.append([row["method"], "failed", "", "", ""])
    for line in table_lines(Table(head, rows).lines):
        console.say(line)
