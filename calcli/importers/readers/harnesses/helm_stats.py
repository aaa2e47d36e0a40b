"""Marks of a run of HELM: per_instance_stats.json."""

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.harness_logs.helm_runs import (
    Instance,
    refuse_all_certain,
    unperturbed_means,
)
from calcli.importers.harness_logs.outcomes import Outcome, table_of_outcomes
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table


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
        means = unperturbed_means(entry)
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
    refuse_all_certain(file.path, outcomes)
    return table_of_outcomes(file.path, "helm-stats", outcomes)
