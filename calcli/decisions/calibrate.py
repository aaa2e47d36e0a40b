"""Calibrate the answers in a record, in plain Python: for logs and for clients.

Nothing but the numbers of the answers changes. Probabilities are written with six
decimals that sum to exactly 1; ``choice``, ``score`` and ``confidence`` follow from
them, the last by the formula that the fit has proven; where none was, it is left out.
"""

import copy
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calcli import __version__
from calcli.decisions.answers import (
    ONLY,
    YES_NO,
    Answer,
    AnswerType,
    Unanswered,
    by_level,
    find_answers,
    is_named_by_path,
    level_key,
    text_of_option,
    yes_place,
)
from calcli.decisions.wire_confidence import FORMULAS
from calcli.errors import DataError

DECIMALS = 6
UNITS = 10**DECIMALS
CALIBRATED_BY = "calibrated_by"
SMALLEST = 2.0**-1074
"""Smallest positive number: what rows were rounded to that show no digits."""

MOST_LISTED = 8


@dataclass(frozen=True)
class AnswerMap:
    """The map of one question.

    slope, intercept : of the log-odds of yes, or slope of the logarithms; 1 and 0 for
    no change. options : those of the fit; None where they differ from row to row.
    steps, clip : what a zero counts as: half a step, divided by the zeros + 1.
    confidence : name of the formula; None where none is proven.
    """

    type: AnswerType
    slope: float
    intercept: float
    options: tuple[str, ...] | None
    steps: tuple[float, ...]
    clip: float
    confidence: str | None

    @classmethod
    def of(cls, entry: Mapping[str, Any], where: str) -> "AnswerMap":
        """Map of an entry of ``params.questions``. Raises DataError."""
        method = entry["method"]
        params = entry["params"]
        slope = 1.0
        intercept = 0.0
        if method == "ts":
            slope = 1.0 / float(params["temperature"])
        elif method == "platt":
            slope = float(params["slope"][0])
            intercept = float(params["intercept"][0])
        elif method != "identity":
            raise DataError(
                f"{where}: method {method!r} is not known here, expected ts, platt or"
                " identity; upgrade calcli"
            )
        names = entry["class_names"]
        fit = entry.get("fit", {})
        resolution = fit.get("resolution", SMALLEST)
        steps = resolution if isinstance(resolution, list) else [resolution]
        return cls(
            type=entry["type"],
            slope=slope,
            intercept=intercept,
            options=None if names is None else tuple(names),
            steps=tuple(map(float, steps)),
            clip=float(fit.get("clip", 0.0)),
            confidence=entry["confidence"],
        )

    @property
    def is_identity(self) -> bool:
        """True for no change: such answers stay as they are."""
        return self.slope == 1.0 and self.intercept == 0.0

    def probabilities(self, answer: Answer) -> list[float]:
        """Calibrated probabilities of the options of an answer, in its order."""
        logs = self._logs(answer)
        yes = yes_place(answer.options)
        if yes is not None:
            odds = self.slope * (logs[yes] - logs[1 - yes]) + self.intercept
            p = _sigmoid(odds)
            return [1.0 - p, p] if yes == 1 else [p, 1.0 - p]
        scaled = [self.slope * log for log in logs]
        largest = max(scaled)
        shares = [math.exp(value - largest) for value in scaled]
        total = sum(shares)
        return [share / total for share in shares]

    def _logs(self, answer: Answer) -> list[float]:
        """Logarithms of the probabilities; zeros count by their last digit."""
        zeros = sum(p <= self.clip for p in answer.probabilities)
        logs = []
        for place, p in enumerate(answer.probabilities):
            if p > self.clip:
                logs.append(math.log(p))
                continue
            step = self.steps[0]
            if len(self.steps) == 2:
                is_yes = place == yes_place(answer.options)
                step = self.steps[1 if is_yes else 0]
            logs.append(math.log(step) - math.log(2.0) - math.log(zeros + 1.0))
        return logs

    def knows(self, answer: Answer) -> bool:
        """True where the answer has the options of the fit."""
        if self.type == YES_NO:
            return answer.type == YES_NO
        return self.options is None or set(self.options) == set(answer.options)


def _sigmoid(x: float) -> float:
    if x >= 0.0:
        return 1.0 / (1.0 + math.exp(-x))
    small = math.exp(x)
    return small / (1.0 + small)


def rounded(probabilities: Sequence[float]) -> list[float]:
    """Six decimals that sum to 1: what rounding leaves goes to the largest remainders."""
    scaled = [p * UNITS for p in probabilities]
    units = [math.floor(value) for value in scaled]
    missing = UNITS - sum(units)
    order = sorted(range(len(units)), key=lambda place: units[place] - scaled[place])
    for place in order[:missing]:
        units[place] += 1
    return [unit / UNITS for unit in units]


# ---- records


class AnswerCalibrator:
    """A calibrator by question, for records and for responses of a client.

    questions : maps by question. name : of its file. sha256 : of its maps.
    """

    def __init__(
        self, questions: Mapping[str, AnswerMap], name: str, sha256: str
    ) -> None:
        self.questions = dict(questions)
        self.name = name
        self.sha256 = sha256

    @classmethod
    def of(cls, entries: Mapping[str, Any], name: str) -> "AnswerCalibrator":
        """Calibrator of ``params.questions`` of an artifact. Raises DataError."""
        maps = {}
        try:
            for question, entry in entries.items():
                maps[question] = AnswerMap.of(entry, f"{name}:{question}")
        except (KeyError, TypeError, ValueError, IndexError) as problem:
            raise DataError(
                f"{name}: is no calibrator by question: {problem!r}; fit it anew"
            ) from None
        return cls(maps, name, sha256_of(entries))

    def answers(self, response: Mapping[str, Any]) -> dict[str, Any]:
        """The response with calibrated answers; those that it does not know stay.

        response : a record or a response of a decision model, as decoded from JSON.
        """
        return self.calibrated(response, keeps_unknown=True, where="response")

    def calibrated(
        self,
        record: Mapping[str, Any],
        *,
        keeps_unknown: bool,
        where: str,
        again: bool = False,
    ) -> dict[str, Any]:
        """Copy of a record with calibrated answers and ``calibrated_by``.

        Raises DataError for a record that was calibrated already, and for questions and
        options that are not known unless ``keeps_unknown``.
        """
        if CALIBRATED_BY in record and not again:
            by = record[CALIBRATED_BY]
            name = by.get("calibrator") if isinstance(by, Mapping) else by
            raise DataError(
                f"{where}: was calibrated by {name}; calibrate the log that the model"
                " wrote, or pass --again"
            )
        made = copy.deepcopy(dict(record))
        for answer in find_answers(record):
            if isinstance(answer, Unanswered):
                continue
            answer_map = self.map_of(answer)
            if answer_map is not None and answer_map.knows(answer):
                if not answer_map.is_identity:
                    write(made, answer, answer_map)
            elif not keeps_unknown:
                raise self._unknown(answer, answer_map, where)
        made[CALIBRATED_BY] = {
            "calibrator": self.name,
            "version": __version__,
            "sha256": self.sha256,
        }
        return made

    def map_of(self, answer: Answer) -> AnswerMap | None:
        """Map of the question of an answer; None for an unknown one."""
        name = answer.question
        if name is not None and name in self.questions:
            return self.questions[name]
        return None if is_named_by_path(answer) else self.questions.get(ONLY)

    def _unknown(
        self, answer: Answer, answer_map: AnswerMap | None, where: str
    ) -> DataError:
        advice = "--unknown keep leaves it as it is"
        name = json.dumps(answer.question or ONLY)[:80]
        if answer_map is None:
            listing = ", ".join(list(self.questions)[:MOST_LISTED])[:200]
            message = (
                f"question {name} is not known to {self.name}, which has {listing}"
            )
        else:
            listing = ", ".join(answer.options[:MOST_LISTED])[:200]
            message = f"question {name} has other options than the fit: {listing}"
        return DataError(f"{where}: {message}; {advice}")


HASHED = ("method", "n_classes", "class_names", "params")
"""Entries of a map that its hash is of."""


def sha256_of(entries: Mapping[str, Any]) -> str:
    """Hash of the maps of an artifact, without the records of the fits."""
    maps = {}
    for name, entry in entries.items():
        maps[name] = [entry[key] for key in HASHED]
    text = json.dumps(maps, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def load(path: str | Path) -> AnswerCalibrator:
    """Read a calibrator by question that ``calcli fit LOG`` has written.

    It needs neither NumPy nor h5py. Raises DataError.
    """
    name = Path(path).name
    try:
        content = json.loads(Path(path).read_bytes())
        entries = content["params"]["questions"]
    except OSError as problem:
        raise DataError(f"{path}: cannot be read: {problem.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise DataError(
            f"{path}: is no calibrator by question, which calcli fit LOG writes"
        ) from None
    return AnswerCalibrator.of(entries, name)


# ---- the numbers of one answer


def write(record: Any, answer: Answer, answer_map: AnswerMap) -> None:
    """Replace the numbers of an answer in a record."""
    probabilities = rounded(answer_map.probabilities(answer))
    place = record
    for key in answer.path:
        place = place[key]
    _write_distribution(place, answer, probabilities)
    if answer.key == "" or (answer.path and answer.path[-1] == "per_question"):
        return
    best = max(range(len(probabilities)), key=lambda option: probabilities[option])
    if "choice" in place:
        _write_choice(place, answer, probabilities, best)
    if answer.type == "score" and isinstance(place.get("score"), int | float):
        pairs = zip(answer.options, probabilities, strict=True)
        numbers = (level_number(option, answer) * p for option, p in pairs)
        place["score"] = round(sum(numbers), DECIMALS)
    if answer.confidence is not None:
        _write_confidence(place, answer, probabilities, answer_map)


def level_number(option: str, answer: Answer) -> float:
    """Number of a level: as it is written, else its place."""
    is_text, number, _ = level_key(option)
    return float(answer.options.index(option)) if is_text else number


def _write_distribution(
    place: Any, answer: Answer, probabilities: Sequence[float]
) -> None:
    """Replace the distribution in the form that it has."""
    distribution = place[answer.key] if answer.key else place
    if isinstance(distribution, int | float):
        place[answer.key] = probabilities[1]
    elif isinstance(distribution, dict):
        for option, p in zip(list(distribution), probabilities, strict=True):
            distribution[option] = p
    elif distribution and isinstance(distribution[0], dict):
        for item, p in zip(distribution, probabilities, strict=True):
            key = next(key for key in ("probability", "prob", "p") if key in item)
            item[key] = p
    else:
        place[answer.key] = list(probabilities)


def _write_choice(
    place: Any, answer: Answer, probabilities: Sequence[float], best: int
) -> None:
    """Replace the choice, unless the probability of the present one is as large."""
    stated = place["choice"]
    for option, p in zip(answer.options, probabilities, strict=True):
        is_stated = option == text_of_option(stated)
        if is_stated and p >= probabilities[best]:
            return
    pairs = place[answer.key]
    if isinstance(pairs, list) and pairs and isinstance(pairs[0], dict):
        place["choice"] = pairs[best].get("value", answer.options[best])
    elif isinstance(stated, bool) and answer.type == YES_NO:
        place["choice"] = best == yes_place(answer.options)
    elif isinstance(stated, str):
        place["choice"] = answer.options[best]


def _write_confidence(
    place: Any,
    answer: Answer,
    probabilities: Sequence[float],
    answer_map: AnswerMap,
) -> None:
    """Compute the confidence anew, by the proven formula; leave it out without one."""
    if answer_map.confidence is None:
        del place["confidence"]
        return
    if answer.type == "score":
        probabilities = by_level(answer.options, probabilities)
    value = FORMULAS[answer_map.confidence](probabilities)
    place["confidence"] = round(value, DECIMALS)
