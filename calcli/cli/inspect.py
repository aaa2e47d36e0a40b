"""calcli inspect."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from calcli.cli import options as o

if TYPE_CHECKING:
    from calcli.io.bundle import BundleRows


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("inspect")(inspect)


def inspect(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Bundle (FILE.h5 or FILE.h5:GROUP) or artifact (JSON, - for stdin).")
    ],
    scores: o.Scores = None,
    labels: o.Labels = None,
    kind: o.Kind = None,
    ignore_label: o.IgnoreLabel = None,
    json: o.Json = False,
) -> int:
    """Show what a bundle or an artifact holds, and check all of it.

    \b
    calcli inspect logits.h5
    calcli inspect logits.h5:test --json
    calcli inspect logits.ts.json
    """
    from calcli.cli.render import print_json
    from calcli.io.bundle import split_where

    path, group = split_where(file)
    if file == "-" or (group is None and _is_json(file)):
        content = _artifact(file)
        print_json(content) if json else _print_facts(content["artifact"])
        return 0
    content = _bundles(file, path, group, (scores, labels, kind), tuple(ignore_label or ()))
    if json:
        print_json(content)
        return 0
    for facts in content["bundles"]:
        _print_facts(facts)
    return 0


def _is_json(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(64).lstrip()[:1] == b"{"
    except OSError:
        return False


def _artifact(file: str) -> dict[str, Any]:
    import msgspec

    from calcli.io.artifact import encode_params, load

    artifact = load(file)
    params = encode_params(artifact.calibrator)
    return {
        "calcli_inspect": 1,
        "file": file,
        "artifact": {
            "method": artifact.method,
            "options": artifact.options,
            "params": {name: _shape(value) for name, value in params.items()},
            "n_classes": artifact.n_classes,
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


def _bundles(
    file: str, path: Any, group: str | None, layout: tuple[str | None, str | None, str | None], ignore: tuple[int, ...]
) -> dict[str, Any]:
    from calcli.io.bundle import Layout, find_bundles, open_bundle
    from calcli.io.hdf5 import open_file

    if group is not None or layout[0] is not None:
        names = [file]
    else:
        with open_file(path) as h5:
            names = [f"{path}:{name}" for name in find_bundles(h5)] or [file]  # FILE: is the root
    found = []
    for name in names:
        with open_bundle(name, layout=Layout(*layout), ignore_labels=ignore, need_labels=False) as rows:
            found.append(_facts(rows))
    return {"calcli_inspect": 1, "file": file, "bundles": found}


def _facts(rows: "BundleRows") -> dict[str, Any]:
    import numpy as np

    from calcli.io.validate import look_like_probabilities

    low, high, ties, sure = np.inf, -np.inf, 0, 0
    looks = rows.kind == "logits"  # until a row says otherwise
    for block in rows.blocks():
        low, high = min(low, float(block.scores.min())), max(high, float(block.scores.max()))
        z = block.z
        top = z.max(axis=1)
        ties += int(((z == top[:, None]).sum(axis=1) > 1).sum())
        looks = looks and look_like_probabilities(block.scores)
        sure += int((block.scores.max(axis=1) >= 1).sum()) if rows.kind == "probs" else 0
    for transform in range(len(rows.transforms)):
        for _ in rows.blocks([transform]):
            pass
    facts: dict[str, Any] = {
        "bundle": rows.name,
        "kind": rows.kind,
        "n": rows.n,
        "n_classes": rows.k,
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
        "source": rows.source,
        "warnings": [],
    }
    if rows.has_labels:
        counts = np.bincount(rows.labels(), minlength=rows.k)
        facts["rows_per_class"] = {
            "min": int(counts.min()),
            "median": float(np.median(counts)),
            "max": int(counts.max()),
        }
        facts["absent_classes"] = np.flatnonzero(counts == 0).tolist()
    if looks:
        facts["warnings"].append("every row sums to 1 within [0, 1]: these look like probabilities, not logits")
    if sure:
        facts["warnings"].append(f"{sure} rows give their class probability 1: rounding has removed information")
    return facts


def _print_facts(facts: dict[str, Any], indent: str = "") -> None:
    from calcli.cli.render import plain

    width = max(len(name) for name in facts)
    for name, value in facts.items():
        if isinstance(value, dict) and any(isinstance(v, dict | list) for v in value.values()):
            print(f"{indent}{name}:")
            _print_facts(value, indent + "  ")
        elif name == "warnings":
            for warning in value:
                print(f"{indent}warning: {plain(warning)}")
        else:
            print(f"{indent}{name.replace('_', ' ').ljust(width)}  {plain(_words(value))}")


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
