"""Marks of a run of HELM: per_instance_stats.json."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.outcomes import Outcome, table_of_outcomes
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Record, Table

MARKS_FILE = "per_instance_stats.json"
EXACT_MATCH = f"{MARKS_FILE} has exact_match"
ALL_ZERO = (
    "every log-probability is 0, as of Hugging Face's client, which divides by 1e-7;"
    " run HELM with temperature=1"
)


@reader(
    "helm-stats",
    "per_instance_stats.json of HELM: max_prob and exact_match of every instance",
    suffixes=[".json"],
    sniff=lambda file: (
        bool(file.records) and {"instance_id", "stats"} <= file.records[0].keys()
    ),
    order=4,
    examples=[("per_instance_stats.json", "")],
)
def read_helm_stats(file: SourceFile) -> Table:
    """Read max_prob as confidence, exact_match as whether the answer was correct."""
    outcomes = []
    for entry in file.records:
        means = _means(entry)
        if not {"max_prob", "exact_match"} <= means.keys():
            raise DataError(
                f"{file.path}: has no max_prob and exact_match of every instance; take"
                " scenario_state.json"
            )
        is_right = means["exact_match"]
        if is_right not in (0, 1):
            raise DataError(f"{file.path}: exact_match is {is_right}, expected 0 or 1")
        instance = Instance.of(entry)
        confidence = means["max_prob"]
        outcomes.append(Outcome(instance.id, instance.asked, confidence, is_right == 1))
    refuse_zeros(file.path, outcomes)
    return table_of_outcomes(file.path, "helm-stats", outcomes)


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


def _means(entry: Record) -> dict[str, float]:
    """Means by name of the statistics of unperturbed text."""
    means = {}
    for statistic in entry["stats"]:
        name = statistic["name"]
        mean = statistic.get("mean")
        if mean is not None and not name.get("perturbation"):
            means[name["name"]] = float(mean)
    return means


# ---- marks beside scenario_state.json


def marks_beside(path: Path) -> Mapping[str, float]:
    """exact_match by instance, of the file beside another; none where there is none."""
    marks: dict[str, float] = {}
    marks_file = path.with_name(MARKS_FILE)
    if not marks_file.is_file():
        return marks
    for entry in SourceFile(marks_file).records:
        means = _means(entry)
        if "exact_match" in means:
            marks[Instance.of(entry).id] = means["exact_match"]
    return marks


def refuse_zeros(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Raise DataError if every probability is 1."""
    if all(outcome.confidence == 1 for outcome in outcomes):
        raise DataError(f"{path}: {ALL_ZERO}")
