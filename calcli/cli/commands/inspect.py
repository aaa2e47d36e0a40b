"""Show what a bundle or an artifact holds, and check all of it.

\b
calcli inspect logits.h5
calcli inspect logits.h5:test --json
calcli inspect logits.ts.json
"""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from calcli.cli import options as o
from calcli.cli.render import print_json
from calcli.cli.tables import plain, print_table
from calcli.errors import DataError
from calcli.fast_dataclass import dataclass
from calcli.io.artifact import load
from calcli.io.bundle import BundleRows, open_bundle
from calcli.io.hdf5 import open_file
from calcli.io.inputs import open_document
from calcli.io.locate import find_bundles, split_where
from calcli.io.params import encode_params
from calcli.io.validate import doubts
from calcli.options import REQUIRED, argument

ORDER = 60


@dataclass(frozen=True)
class InspectArgs(o.Reading):
    file: str = argument(REQUIRED, "Bundle (FILE.h5 or FILE.h5:GROUP) or artifact (JSON, - for stdin).", "FILE")
    json: bool = o.json()

    @property
    def artifact(self) -> bool:
        """Whether the file is to be read as an artifact."""
        return self.file == "-" or (split_where(self.file)[1] is None and _is_json(self.file))

    @property
    def unused_options(self) -> dict[str, str]:
        told = f"{self.file} is read as an artifact, it says how bundles are read"
        return dict.fromkeys(o.names_of(o.Reading), told) if self.artifact else {}


def run(args: InspectArgs) -> int:
    """Describe the bundles of a file, or one artifact."""
    path, group = split_where(args.file)
    if args.artifact:
        content = _artifact(args.file)
        shown = [content["artifact"]]
    else:
        content = _bundles(args, path, group)
        shown = content["bundles"]
    if args.json:
        print_json(content)
        return 0
    for facts in shown:
        _print_facts(facts)
    return 0


def _is_json(path: str) -> bool:
    try:
        with open_document(path, "a bundle or an artifact") as file:
            return file.read(64).lstrip()[:1] == b"{"
    except DataError:
        return False  # what is wrong with it, its reader says


def _artifact(file: str) -> dict[str, Any]:
    artifact = load(file)
    params = encode_params(artifact.calibrator)
    return {
        "calcli_inspect": 1,
        "file": file,
        "artifact": {
            "method": artifact.method,
            "options": artifact.options,
            "params": {name: _shape(value) for name, value in params.items()},
            "n_classes": artifact.n_classes if artifact.input_kind != "confidence" else None,
            "input_kind": artifact.input_kind,
            "class_names": artifact.class_names,
            "calcli_version": artifact.calcli_version,
            "fit": msgspec.to_builtins(artifact.fit),
        },
    }


def _shape(value: Any) -> Any:
    """A parameter itself when it is short, else what it is."""
    if isinstance(value, dict) and "base64" in value:
        return f"{value['dtype']} {tuple(value['shape'])}"
    if isinstance(value, list) and len(str(value)) > 200:
        return f"list of {len(value)}"
    return value


def _bundles(args: InspectArgs, path: Path, group: str | None) -> dict[str, Any]:
    if group is not None or args.scores is not None:
        names = [args.file]
    else:
        with open_file(path) as h5:
            names = [f"{path}:{name}" for name in find_bundles(h5)] or [args.file]  # FILE: is the root
    found = []
    for name in names:
        with open_bundle(name, layout=args.where, ignore_labels=args.ignored, need_labels=False) as rows:
            found.append(_facts(rows))
    return {"calcli_inspect": 1, "file": args.file, "bundles": found}


def _facts(rows: BundleRows) -> dict[str, Any]:
    low, high, ties, sure = np.inf, -np.inf, 0, 0
    for block in rows.blocks():
        low, high = min(low, float(block.scores.min())), max(high, float(block.scores.max()))
        if rows.kind == "confidence":
            sure += int((block.scores == 1).sum())
            continue
        z = block.z
        top = z.max(axis=1)
        ties += int(((z == top[:, None]).sum(axis=1) > 1).sum())
        sure += int((block.scores.max(axis=1) >= 1).sum()) if rows.kind == "probs" else 0
    for transform in range(len(rows.transforms)):
        for _ in rows.blocks([transform]):
            pass
    facts: dict[str, Any] = {
        "bundle": rows.name,
        "kind": rows.kind,
        "n": rows.n,
        "n_classes": rows.k if rows.kind != "confidence" else None,
        "dtype": str(rows.dtype),
        "ignored": rows.ignored,
        "min": low,
        "max": high,
        "tied_rows": ties,
        "labels": rows.has_labels,
        "weights": rows.weights() is not None,
        "class_names": rows.class_names,
        "transforms": list(rows.transforms),
        "data_sha256": rows.data_sha256,
        "calibrated_by": [msgspec.to_builtins(link) for link in rows.upstream],
        "source": rows.source,
        "corrupted_labels": rows.corrupted_labels,
        "warnings": [],
    }
    for role in ("unit", "group"):
        if (values := rows.column(role)) is not None:
            count = np.unique(values, return_counts=True)[1]
            facts[f"{role}s"] = {"name": rows.own_name(role), "n": len(count), "largest": int(count.max())}
    if rows.kind == "confidence":
        facts["correct"] = facts.pop("labels")
        for absent in ("tied_rows", "class_names", "transforms"):
            del facts[absent]
        facts["mean_confidence"] = float(rows.array().mean(dtype=np.float64))
        if rows.has_labels:
            facts["accuracy"] = float(rows.labels().mean())
        if sure:
            facts["warnings"].append(f"{sure} confidences are 1: as log-odds they are infinite; ir, hb, bbq take them")
        return facts
    if rows.has_labels:
        counts = np.bincount(rows.labels(), minlength=rows.k)
        facts["rows_per_class"] = {
            "min": int(counts.min()),
            "median": float(np.median(counts)),
            "max": int(counts.max()),
        }
        facts["absent_classes"] = np.flatnonzero(counts == 0).tolist()
    facts["warnings"] += doubts(rows)
    if sure:
        facts["warnings"].append(f"{sure} rows give their class probability 1: rounding has removed information")
    return facts


def _print_facts(facts: dict[str, Any], indent: str = "") -> None:
    width = max((len(plain(name)) for name in facts), default=0)
    for name, value in facts.items():
        if isinstance(value, dict) and any(isinstance(v, dict | list) for v in value.values()):
            print(f"{indent}{plain(name)}:")
            _print_facts(value, indent + "  ")
        elif isinstance(value, list) and len(value) > 1 and all(isinstance(row, dict) for row in value):
            print(f"{indent}{plain(name)}:")
            head = list(dict.fromkeys(key for row in value for key in row))
            print_table(
                [key.replace("_", " ") for key in head], [[_words(row.get(key)) for key in head] for row in value]
            )
        elif name == "warnings":
            for warning in value:
                print(f"{indent}warning: {plain(warning)}")
        else:
            print(f"{indent}{plain(name).replace('_', ' ').ljust(width)}  {plain(_words(value))}")


def _words(value: Any) -> str:
    """A value as a person writes it; numbers in six digits, long lists cut."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_words(v)}" for name, v in value.items()) or "none"
    if isinstance(value, list):
        shown = ", ".join(map(_words, value[:12]))
        return f"{shown}, … ({len(value)})" if len(value) > 12 else shown or "none"
    return str(value)
