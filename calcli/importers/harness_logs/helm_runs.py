"""What the files of a run of HELM have in common: instances, requests, marks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from calcli.errors import DataError
from calcli.importers.harness_logs.outcomes import Outcome
from calcli.importers.remarks import remark_left_out
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Record

MARKS_FILE = "per_instance_stats.json"
EXACT_MATCH = f"{MARKS_FILE} has exact_match"
ALL_ZERO = (
    "every log-probability is 0, as of Hugging Face's client, which divides by 1e-7;"
    " run HELM with temperature=1"
)


@dataclass(frozen=True)
class Instance:
    """An instance of a run.

    asked : its id in the scenario. id : with the trial and the perturbation, if any.
    """

    asked: str
    id: str

    @classmethod
    def of(cls, entry: Record) -> "Instance":
        """The instance of a request, or of an entry of per_instance_stats.json."""
        about = entry.get("instance", entry)
        asked = str(about.get("id", entry.get("instance_id")))
        parts = [asked]
        trial = entry.get("train_trial_index")
        if trial:
            parts.append(f"trial {trial}")
        perturbation = about.get("perturbation")
        if perturbation:
            parts.append(str(perturbation.get("name", perturbation)))
        return cls(asked, ", ".join(filter(None, parts)))


def answered_requests(file: SourceFile) -> list[Record]:
    """The requests of a run that have a result. Raises DataError if there is none."""
    states = file.json["request_states"]
    answered = [state for state in states if state.get("result")]
    if not answered:
        raise DataError(
            f"{file.path}: has no request with a result; is the run complete?"
        )
    n_left_out = len(states) - len(answered)
    remark_left_out(file.path.name, n_left_out, len(states), "requests have no result")
    return answered


def right_references(references: Sequence[Record]) -> list[int]:
    """Places of the references that are tagged correct."""
    places = []
    for place, reference in enumerate(references):
        if "correct" in (reference.get("tags") or []):
            places.append(place)
    return places


def unperturbed_means(entry: Record) -> dict[str, float]:
    """Means by name of the statistics of unperturbed text."""
    means = {}
    for statistic in entry["stats"]:
        name = statistic["name"]
        mean = statistic.get("mean")
        if mean is not None and not name.get("perturbation"):
            means[name["name"]] = float(mean)
    return means


def marks_beside(path: Path) -> Mapping[str, float]:
    """exact_match by instance, of the file beside another; none where there is none."""
    marks: dict[str, float] = {}
    marks_file = path.with_name(MARKS_FILE)
    if not marks_file.is_file():
        return marks
    for entry in SourceFile(marks_file).records:
        means = unperturbed_means(entry)
        if "exact_match" in means:
            marks[Instance.of(entry).id] = means["exact_match"]
    return marks


def refuse_all_certain(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Raise DataError if every probability is 1."""
    if all(outcome.confidence == 1 for outcome in outcomes):
        raise DataError(f"{path}: {ALL_ZERO}")
