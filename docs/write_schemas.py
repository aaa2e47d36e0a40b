"""Write the JSON schemas that structs of calcli define: python docs/write_schemas.py."""

import json
from pathlib import Path
from typing import Any

import msgspec

from calcli.evaluation.compare_logs import LogComparisonOutput
from calcli.evaluation.json_structs import EvaluationOutput
from calcli.evaluation.leaderboard import ComparisonOutput
from calcli.evaluation.selective_threshold import ThresholdOutput
from calcli.io.artifact import _Envelope

FOLDER = Path(__file__).resolve().parent / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

STRUCTS: dict[str, tuple[type, str]] = {
    "artifact": (_Envelope, "A calibrator artifact, as calcli fit writes it"),
    "compare": (ComparisonOutput, "calcli compare --json"),
    "compare_log": (
        LogComparisonOutput,
        "calcli compare LOG --baseline-bundle LOG --json",
    ),
    "evaluate": (
        EvaluationOutput,
        "calcli evaluate --json; also calcli report --json, and to_dict() in Python",
    ),
    "threshold": (ThresholdOutput, "calcli threshold --json"),
}
"""Name of the schema -> the struct that defines it, and its title."""


def schema_of(name: str) -> dict[str, Any]:
    """A schema with its dialect and title."""
    struct, title = STRUCTS[name]
    return {"$schema": DIALECT, "title": title, **msgspec.json.schema(struct)}


def main() -> None:
    """Write all of them."""
    for name in STRUCTS:
        text = json.dumps(schema_of(name), indent=2, ensure_ascii=False)
        (FOLDER / f"{name}.json").write_text(f"{text}\n", "utf-8")


if __name__ == "__main__":
    main()
