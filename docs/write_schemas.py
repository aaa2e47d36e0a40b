"""Write the JSON schemas that structs of calcli define: python docs/write_schemas.py.

Those of diagrams are defined by the dataclasses of their styles.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

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
from calcli.diagrams.style import style, style_names
from calcli.evaluation.compare_logs import LogComparisonOutput
from calcli.evaluation.json_structs import EvaluationOutput, Message, ScoreOutput
from calcli.evaluation.leaderboard import ComparisonOutput
from calcli.evaluation.question_thresholds import LogThresholdOutput
from calcli.evaluation.selective_threshold import ThresholdOutput
from calcli.evaluation.watch_log import LogWatchOutput
from calcli.evaluation.watch_state import WatchOutput
from calcli.exporting.exporting import ExportOutput
from calcli.fit_questions import LogFitOutput
from calcli.importers.building.writing import ExtractOutput
from calcli.io.artifact import _Envelope

FOLDER = Path(__file__).resolve().parent / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
REFERENCE = "#/$defs/{name}"
DIAGRAM = "diagram"


@dataclass(frozen=True)
class Defined:
    """A schema by its title and the struct that defines it.

    alternatives : structs to which ``one_of`` and ``with_more`` refer.
    """

    title: str
    struct: Any
    alternatives: tuple[type, ...] = ()


STRUCTS: dict[str, Defined] = {
    "adapt": Defined("calcli adapt --json", AdaptOutput),
    "apply": Defined("calcli apply --json", ApplyOutput),
    "artifact": Defined("A calibrator artifact, as calcli fit writes it", _Envelope),
    "compare": Defined(
        "calcli compare --json", ComparisonOutput, alternatives=(ScoreOutput,)
    ),
    "compare_log": Defined(
        "calcli compare LOG --baseline-bundle LOG --json",
        LogComparisonOutput,
        alternatives=(ScoreOutput,),
    ),
    "evaluate": Defined(
        "calcli evaluate --json; also calcli report --json, and to_dict() in Python",
        EvaluationOutput,
        alternatives=(Message, ScoreOutput),
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
        alternatives=(Message, ScoreOutput),
    ),
    "threshold": Defined("calcli threshold --json", ThresholdOutput),
    "threshold_log": Defined(
        "calcli threshold --json of a log of decisions", LogThresholdOutput
    ),
    "watch": Defined("calcli watch --json", WatchOutput),
    "watch_log": Defined("calcli watch --json of a log of decisions", LogWatchOutput),
}
"""The schemas by name, but for that of diagrams."""

NAMES = (*STRUCTS, DIAGRAM)
"""Names of all schemas."""


def schema_of(name: str) -> dict[str, Any]:
    """A schema with its dialect and title."""
    if name == DIAGRAM:
        return diagram_schema()
    defined = STRUCTS[name]
    structs = [defined.struct, *defined.alternatives]
    references, parts = msgspec.json.schema_components(structs, ref_template=REFERENCE)
    return {
        "$schema": DIALECT,
        "title": defined.title,
        **references[0],
        "$defs": parts,
    }


def diagram_schema() -> dict[str, Any]:
    """Schema of diagrams: two keys, and the fields of the style's figure."""
    figures = {name: style(name) for name in style_names()}
    _, parts = msgspec.json.schema_components(
        list(figures.values()), schema_hook=array_schema, ref_template=REFERENCE
    )
    for part in parts.values():
        part["required"] = list(part["properties"])  # a figure is written whole
        for facts in part["properties"].values():
            facts.pop("default", None)
    styles = []
    for name, figure in figures.items():
        reference = REFERENCE.format(name=figure.__name__)
        styles.append({"properties": {"style": {"const": name}}, "$ref": reference})
    return {
        "$schema": DIALECT,
        "title": "calcli diagram --json; also -o FILE.json, and to_dict() in Python",
        "type": "object",
        "properties": {
            "calcli_diagram": {"const": 1},
            "style": {"enum": list(figures)},
        },
        "required": ["calcli_diagram", "style"],
        "oneOf": styles,
        "$defs": with_null(parts),
    }


def array_schema(kind: type) -> dict[str, Any]:
    """Schema of an array of numbers, which msgspec does not know."""
    if kind is not np.ndarray:
        raise NotImplementedError(kind)
    return {"type": "array", "items": {"type": "number"}}


def with_null(schema: Any) -> Any:
    """A schema in which numbers may be null, as those of figures are where not finite."""
    if isinstance(schema, list):
        return [with_null(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {key: with_null(part) for key, part in schema.items()}
    if schema.get("type") == "number":
        changed["type"] = ["number", "null"]
    return changed


def main() -> None:
    """Write all of them."""
    for name in NAMES:
        text = json.dumps(schema_of(name), indent=2, ensure_ascii=False)
        (FOLDER / f"{name}.json").write_text(f"{text}\n", "utf-8")


if __name__ == "__main__":
    main()
