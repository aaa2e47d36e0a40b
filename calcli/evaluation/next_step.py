"""The next step after an evaluation, as one command that can be pasted."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from calcli.evaluation.facts import Difference
from calcli.evaluation.levels import LEVEL
from calcli.evaluation.results import NextStep, Result
from calcli.evaluation.verdict import Verdict
from calcli.importers.decision_logs.logs import LOG_SUFFIXES
from calcli.io.locate import Location, split_where
from calcli.io.score_files import names_of_new_scores
from calcli.packed_files import without_packing
from calcli.statistics.p_values import adjusted

STRONGEST = "auto"
"""Method after which no other one is proposed."""


@dataclass(frozen=True)
class GroupMaps:
    """A calibrator by group that was measured to help.

    columns : that name the groups.
    """

    method: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Tried:
    """A calibrator that was evaluated on the rows.

    result : with differences to the uncalibrated scores. path : of its file, for
    commands; None without one. fitted_on : description of those of these rows that it
    was fitted on, None if none. group_maps : that would do better than it.
    takes_whole_logs : its file calibrates all questions of a log.
    """

    result: Result
    path: str | None
    fitted_on: str | None
    group_maps: GroupMaps | None
    takes_whole_logs: bool = False


def next_step(
    verdict: Verdict,
    where: Location,
    tried: Sequence[Tried] = (),
    upstream: Sequence[str] = (),
    group_maps: GroupMaps | None = None,
) -> NextStep:
    """The next step after judging uncalibrated scores and what calibrators did to them.

    where : the rows, for commands. tried : calibrators evaluated on the rows.
    upstream : methods that had been applied to the rows before. group_maps : that would
    help the uncalibrated scores.
    """
    if verdict.kind == "check_labels":
        return NextStep(_command(["inspect"], where.name, where))
    best = recommended(verdict, tried)
    if best is not None:
        if best.group_maps is not None:
            return NextStep(by_group_command(best.group_maps, where), best.result.title)
        return _apply_or_check(best, where)
    if not verdict.has_findings:
        return NextStep()
    if group_maps is not None:
        return NextStep(by_group_command(group_maps, where))
    stages: list[str] = []
    for method in (*upstream, *(candidate.result.method for candidate in tried)):
        stages += method.split("+")
    if STRONGEST in stages:
        return NextStep()
    return NextStep(fit_command(where))


def recommended(verdict: Verdict, tried: Sequence[Tried]) -> Tried | None:
    """The calibrator to apply, None if none is shown to help.

    It must have a significantly lower loss, adjusted for all that were tried, and a
    Brier score that is not significantly higher; failing that, a lower loss and no
    miscalibration on held-out rows. Preferred are those fitted on other rows, then
    those whose accuracy is not significantly lower, then the one with the least loss.
    """
    if not verdict.has_findings:
        return None
    known = []
    for candidate in tried:
        change = candidate.result.loss_change
        if change is not None and change.p_value is not None:
            known.append((candidate, change))
    if not known:
        return None
    p_values = adjusted(np.array([change.p_value for _, change in known]))
    helpful = []
    calibrated = []
    for (candidate, change), p in zip(known, p_values.tolist(), strict=True):
        if change.value >= 0.0 or _significant_change(candidate.result, "brier") > 0.0:
            continue
        if p <= LEVEL:
            helpful.append((candidate, change))
        elif candidate.fitted_on is None and not _has_findings(candidate.result):
            calibrated.append((candidate, change))
    candidates = helpful or calibrated
    if not candidates:
        return None
    best, _ = min(candidates, key=_preference)
    return best


def _preference(candidate: "tuple[Tried, Difference]") -> tuple[bool, bool, float]:
    version, change = candidate
    loses_accuracy = _significant_change(version.result, "accuracy") < 0.0
    return version.fitted_on is not None, loses_accuracy, change.value


def _significant_change(result: Result, name: str) -> float:
    """Change of a metric by a calibrator; 0 if not significant."""
    change = result.change(name)
    if change is None or not change.is_significant:
        return 0.0
    return change.value


def _has_findings(result: Result) -> bool:
    return result.report is None or result.report.verdict.has_findings


def _apply_or_check(best: Tried, where: Location) -> NextStep:
    """Apply a calibrator; one that was fitted on these rows is to be checked first."""
    title = best.result.title
    if not best.path or best.path == "-":
        return NextStep(calibrator=title)
    if best.fitted_on is None:
        if not where.name:
            return NextStep(calibrator=title)
        new, output = names_of_new_scores(where.name)
        question = _question_of_log(where.name)
        if question is not None and not best.takes_whole_logs:
            new = f"{new}:{question}"
        words = ["apply", file_word(best.path)]
        unlabelled = replace(where, options=_without_labels(where.options))
        return NextStep(_command(words, new, unlabelled, "-o", output), title)
    if where.to_evaluate and where.to_evaluate != where.name:
        options = ("--calibrator", best.path)
        command = _command(["evaluate"], where.to_evaluate, where, *options)
    else:
        command = _command(["run"], _whole_log(where.name), where)
    return NextStep(command, title, checks=command is not None)


def _without_labels(options: Sequence[str]) -> tuple[str, ...]:
    """The options that read new rows, which have no labels yet."""
    kept: list[str] = []
    words = iter(options)
    for word in words:
        if word in ("--labels", "--ignore-label"):
            next(words, None)  # its value
        else:
            kept.append(word)
    return tuple(kept)


def fit_command(where: Location) -> str | None:
    """Command that fits a calibrator and judges it on other rows, or by cross-fitting."""
    if where.to_fit and where.to_fit != where.name:
        words = ["run", file_word(_whole_log(where.to_fit))]
        return _command(words, where.name, where, *_free_folder(where.to_fit))
    name = _whole_log(where.name)
    return _command(["run"], name, where, *_free_folder(name))


def _whole_log(name: str) -> str:
    """The log of a question ``LOG:QUESTION``, which ``apply`` can write back; others
    stay.
    """
    if _question_of_log(name) is None:
        return name
    return str(split_where(name)[0])


def _question_of_log(name: str) -> str | None:
    """The question of ``LOG:QUESTION``; None for other names."""
    path, question = split_where(name)
    unpacked = without_packing(path.name.lower())
    return question if unpacked.endswith(LOG_SUFFIXES) else None


def by_group_command(maps: GroupMaps, where: Location) -> str | None:
    """Command that fits a calibrator by group, to other rows than these if known."""
    words = ["fit", "-m", maps.method]
    for column in maps.columns:
        words += ["--by", shlex.quote(column)]
    rows = where.to_fit or where.name
    return _command(words, rows, where, *_free_file(rows, f"{maps.method}-by"))


def _free_file(name: str, method: str) -> tuple[str, ...]:
    """Option that names a calibrator's file, where the default one exists already."""
    if not name:
        return ()
    stem = split_where(name)[0].stem
    if not Path(f"{stem}.{method}.json").exists():
        return ()
    return ("-o", f"{stem}.by_group.json")


def _free_folder(name: str) -> tuple[str, ...]:
    """Option that names a folder, where a run would find its outputs there already."""
    if not name:
        return ()
    stem = split_where(name)[0].stem
    outputs = (Path(f"{stem}.{STRONGEST}.json"), Path(f"{stem}.report.html"))
    if not any(output.exists() for output in outputs):
        return ()
    return ("-o", f"{stem}_calibration")


def _command(
    words: Sequence[str], name: str, where: Location, *options: str
) -> str | None:
    """A command on the rows; None where they have no file."""
    if not name:
        return None
    rest = [shlex.quote(word) for word in (*where.options, *options)]
    return " ".join(["calcli", *words, file_word(name), *rest])


def file_word(name: str) -> str:
    """File name quoted for a shell, prefixed by ./ where it would read as an option."""
    if name.startswith("-"):
        name = f"./{name}"
    return shlex.quote(name)
