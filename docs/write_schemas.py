"""Write the JSON schemas that structs of calcli define: python docs/write_schemas.py."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from calcli.cli.apply_output import ApplyOutput
from calcli.cli.commands.adapt import AdaptOutput
from calcli.cli.commands.export import TemperaturesOutput
from calcli.cli.commands.fit import (
    ConfidenceSummaryOutput,
    FailedMethod,
    FitAllOutput,
    FitOutput,
    FittedMethod,
    SummaryOutput,
)
from calcli.cli.commands.inspect import (
    ArtifactOutput,
    BundlesOutput,
    CalibratorOutput,
    ConfidencesOutput,
    InspectOutput,
    QuestionsArtifactOutput,
    ScoresOutput,
)
from calcli.cli.commands.methods import MethodsOutput
from calcli.cli.commands.metrics import MetricsOutput
from calcli.cli.commands.run import RunOutput
from calcli.evaluation.compare_logs import LogComparisonOutput
from calcli.evaluation.json_structs import EvaluationOutput
from calcli.evaluation.leaderboard import ComparisonOutput
from calcli.evaluation.question_thresholds import LogThresholdOutput
from calcli.evaluation.selective_threshold import ThresholdOutput
from calcli.evaluation.watch_log import LogWatchOutput
from calcli.evaluation.watch_state import WatchOutput
from calcli.exporting.exporting import ExportOutput
from calcli.fit_questions import LogFitOutput
from calcli.importers.writing import ExtractOutput
from calcli.io.artifact import _Envelope

FOLDER = Path(__file__).resolve().parent / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True)
class Defined:
    """A schema by its title and the struct that defines it.

    alternatives : structs to which ``one_of`` refers.
    """

    title: str
    struct: Any
    alternatives: tuple[type, ...] = ()


STRUCTS: dict[str, Defined] = {
    "adapt": Defined("calcli adapt --json", AdaptOutput),
    "apply": Defined("calcli apply --json", ApplyOutput),
    "artifact": Defined("A calibrator artifact, as calcli fit writes it", _Envelope),
    "compare": Defined("calcli compare --json", ComparisonOutput),
    "compare_log": Defined(
        "calcli compare LOG --baseline-bundle LOG --json", LogComparisonOutput
    ),
    "evaluate": Defined(
        "calcli evaluate --json; also calcli report --json, and to_dict() in Python",
        EvaluationOutput,
    ),
    "export": Defined("calcli export --json", ExportOutput),
    "export_temperatures": Defined(
        "calcli export --to temperatures --json", TemperaturesOutput
    ),
    "extract": Defined("calcli extract --json", ExtractOutput),
    "fit": Defined(
        "calcli fit --json: one method",
        FitOutput,
        alternatives=(SummaryOutput, ConfidenceSummaryOutput),
    ),
    "fit_all": Defined(
        "calcli fit --method all --json",
        FitAllOutput,
        alternatives=(
            FittedMethod,
            FailedMethod,
            SummaryOutput,
            ConfidenceSummaryOutput,
        ),
    ),
    "fit_log": Defined("calcli fit --json of a log of decisions", LogFitOutput),
    "inspect": Defined(
        "calcli inspect --json: of a bundle file or of an artifact",
        InspectOutput,
        alternatives=(
            BundlesOutput,
            ScoresOutput,
            ConfidencesOutput,
            CalibratorOutput,
            ArtifactOutput,
            QuestionsArtifactOutput,
        ),
    ),
    "methods": Defined("calcli methods --json", MethodsOutput),
    "metrics": Defined("calcli metrics --json", MetricsOutput),
    "run": Defined(
        "calcli run --json; evaluation is what calcli evaluate --json prints",
        RunOutput,
    ),
    "threshold": Defined("calcli threshold --json", ThresholdOutput),
    "threshold_log": Defined(
        "calcli threshold --json of a log of decisions", LogThresholdOutput
    ),
    "watch": Defined("calcli watch --json", WatchOutput),
    "watch_log": Defined("calcli watch --json of a log of decisions", LogWatchOutput),
}
"""The schemas by name."""


def schema_of(name: str) -> dict[str, Any]:
    """A schema with its dialect and title."""
    defined = STRUCTS[name]
    structs = [defined.struct, *defined.alternatives]
    references, parts = msgspec.json.schema_components(
        structs, ref_template="#/$defs/{name}"
    )
    return {
        "$schema": DIALECT,
        "title": defined.title,
        **references[0],
        "$defs": parts,
    }


def main() -> None:
    """Write all of them."""
    for name in STRUCTS:
        text = json.dumps(schema_of(name), indent=2, ensure_ascii=False)
        (FOLDER / f"{name}.json").write_text(f"{text}\n", "utf-8")


if __name__ == "__main__":
    main()
