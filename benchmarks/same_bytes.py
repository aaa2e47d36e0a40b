"""Do two trees of calcli give the same bytes? Hashes fits, probabilities, exports and evaluations.

python benchmarks/same_bytes.py write FILE.json     # in the old tree and in the new one
python benchmarks/same_bytes.py compare OLD.json NEW.json

PYTHONPATH chooses the tree. Hashed are every method on nine small sets (2 to 30 classes,
weights, an absent class, float16, ties, 9000 rows), compositions, confidences, and the long
path beyond 131072 rows; the report of each set, uncalibrated and through ``ts``. The second
ends with code 1 where two runs differ.
"""

import hashlib
import json
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _draws import draw_labels_of_logits

import calcli
from calcli.errors import CalcliError
from calcli.metrics.catalog import metric_names
from calcli.registry import method_names

COMPOSED = ("ts+hb", "ft+svs", "ts+sb", "svs+beta", "ec+ir", "vs+spline")
OF_CONFIDENCES = ("ts", "platt", "beta", "hb", "ir", "sb", "spline", "bbq")
OF_LONG_SETS = ("ts", "ec", "ets", "vs", "hoki", "ir")
TOO_SLOW = {"recal"}
TOO_SLOW_FOR_LARGE = {"auto", "recal", "iop", "cts"}
EVALUATED = ("ts", "svs")
"""Methods that the reports of a set are also made through."""

Hashes = dict[str, str]


class Set(NamedTuple):
    """Scores, labels and the keywords of ``calcli.fit``."""

    scores: np.ndarray
    labels: np.ndarray
    keywords: dict[str, Any] = {}


def drawn(n: int, k: int, seed: int) -> Set:
    """Overconfident logits."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * 2.5
    return Set(z, draw_labels_of_logits(z / 1.6, rng))


def sets() -> dict[str, Set]:
    """Small sets by name."""
    weighted = drawn(500, 5, 4)
    weights = np.random.default_rng(5).exponential(size=500)
    absent = drawn(500, 5, 6)
    without_last = np.where(absent.labels == 4, 0, absent.labels)
    half = drawn(500, 6, 7)
    tied = drawn(400, 4, 8)
    many = drawn(9000, 4, 9)
    return {
        "two": drawn(700, 2, 0),
        "three": drawn(600, 3, 1),
        "ten": drawn(900, 10, 2),
        "thirty": drawn(1500, 30, 3),
        "weights": weighted._replace(keywords={"weights": weights}),
        "absent": absent._replace(labels=without_last),
        "float16": half._replace(scores=half.scores.astype(np.float16)),
        "ties": tied._replace(scores=np.round(tied.scores)),
        "many": many._replace(scores=many.scores.astype(np.float32)),
    }


def digest(value: object) -> str:
    """Hash of the bytes of an array, or of what an object is as JSON."""
    if isinstance(value, np.ndarray):
        data = value.tobytes()
    else:
        data = json.dumps(value, sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()[:16]


def digest_of_result(work: Callable[[], Any]) -> str:
    """Hash of a result that has ``to_dict``, or the sentence with which it ends."""
    try:
        return digest(work().to_dict())
    except CalcliError as error:
        return f"{type(error).__name__}: {error}"


def digest_of_fit(calibrator: calcli.FittedCalibrator, scores: np.ndarray) -> str:
    """Hashes of a calibrator and of the probabilities that it gives."""
    p = calibrator.predict_proba(scores)
    return f"{digest(calibrator.to_dict())} {digest(p)}"


def hashes_of_set(name: str, rows: Set) -> Hashes:
    """Every method, the reports and every metric on a small set."""
    z, labels, keywords = rows
    left_out = TOO_SLOW_FOR_LARGE if name in ("thirty", "many") else TOO_SLOW
    hashes = {}
    evaluated = []
    for method in [*method_names(), *COMPOSED]:
        if method in left_out:
            continue
        try:
            calibrator = calcli.fit(z, labels, method, **keywords)
            hashes[f"{name}/{method}"] = digest_of_fit(calibrator, z)
        except CalcliError as error:
            hashes[f"{name}/{method}"] = f"{type(error).__name__}: {error}"
            continue
        if method in EVALUATED:
            evaluated.append(calibrator)
    report = calcli.evaluate(z, labels, evaluated, **keywords)
    hashes[f"{name}/report"] = digest(report.to_dict())
    diagram = calcli.diagram(z, labels, evaluated, resamples=100, **keywords)
    hashes[f"{name}/diagram"] = digest(diagram.to_dict())
    for metric in metric_names():
        work = partial(calcli.evaluate, z, labels, metrics=[metric], **keywords)
        hashes[f"{name}/metric/{metric}"] = digest_of_result(work)
    return hashes


def hashes_of_confidences(rng: np.random.Generator) -> Hashes:
    """Methods for one confidence a row, and the report."""
    c = rng.uniform(0.3, 1, size=800)
    is_right = rng.uniform(size=800) < c**1.3
    hashes = {}
    for method in OF_CONFIDENCES:
        try:
            calibrator = calcli.fit(c, is_right, method, kind="confidence")
            hashes[f"confidence/{method}"] = digest_of_fit(calibrator, c)
        except CalcliError as error:
            hashes[f"confidence/{method}"] = f"{type(error).__name__}: {error}"
    report = calcli.evaluate(c, is_right, kind="confidence")
    hashes["confidence/report"] = digest(report.to_dict())
    return hashes


def hashes_of_long_set(rng: np.random.Generator) -> Hashes:
    """Methods and the report beyond the rows that are held in memory."""
    z = rng.normal(size=(140_000, 5)).astype(np.float32) * 2
    labels = draw_labels_of_logits(z / 1.4, rng)
    hashes = {}
    for method in OF_LONG_SETS:
        calibrator = calcli.fit(z, labels, method)
        hashes[f"long/{method}"] = digest_of_fit(calibrator, z)
    hashes["long/report"] = digest(calcli.evaluate(z, labels).to_dict())
    return hashes


def all_hashes() -> Hashes:
    """Every case's hash, or the sentence with which it ends."""
    hashes: Hashes = {}
    for name, rows in sets().items():
        hashes |= hashes_of_set(name, rows)
    rng = np.random.default_rng(10)
    hashes |= hashes_of_confidences(rng)
    hashes |= hashes_of_long_set(rng)
    return hashes


def print_differences(old: Hashes, new: Hashes) -> int:
    """Print where two runs differ; returns the exit code."""
    differing = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    for key in differing:
        print(f"{key}: {old.get(key)} -> {new.get(key)}")
    print(f"{len(old)} cases, {len(differing)} differ")
    return 1 if differing else 0


def read(path: str) -> Hashes:
    return json.loads(Path(path).read_text("utf-8"))


def main(arguments: list[str]) -> int:
    """Do what the words ask for; without words, say how."""
    match arguments:
        case ["write", path]:
            warnings.simplefilter("ignore")
            Path(path).write_text(json.dumps(all_hashes(), indent=1), "utf-8")
            return 0
        case ["compare", old, new]:
            return print_differences(read(old), read(new))
    print(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
