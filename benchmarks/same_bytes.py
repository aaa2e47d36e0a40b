"""Do two trees of calcli give the same bytes? Hash fits, probabilities, exports and evaluations, then compare two runs.

python benchmarks/same_bytes.py write FILE.json     # in the old tree and in the new one (PYTHONPATH chooses)
python benchmarks/same_bytes.py compare OLD.json NEW.json

Every method on nine small sets (2 to 30 classes, weights, an absent class, float16, ties, 9000 rows), compositions,
confidences, and the long path beyond 131072 rows; the report of each set, uncalibrated and through `ts`.
"""

import hashlib
import json
import sys
import warnings
from pathlib import Path

import numpy as np

import calcli
from calcli.errors import CalcliError
from calcli.metrics.catalog import metric_names
from calcli.registry import method_names

COMPOSED = ("ts+hb", "ft+svs", "ts+sb", "svs+beta", "ec+ir", "vs+spline")


def sets() -> dict[str, tuple[np.ndarray, np.ndarray, dict[str, object]]]:
    """Name -> scores, labels and the keywords of `calcli.fit`."""

    def drawn(
        n: int, k: int, seed: int, temperature: float = 1.6
    ) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(n, k)) * 2.5
        return z, (z / temperature + rng.gumbel(size=(n, k))).argmax(axis=1)

    made = {}
    for name, n, k, seed in (
        ("two", 700, 2, 0),
        ("three", 600, 3, 1),
        ("ten", 900, 10, 2),
        ("thirty", 1500, 30, 3),
    ):
        z, y = drawn(n, k, seed)
        made[name] = (z, y, {})
    z, y = drawn(500, 5, 4)
    made["weights"] = (
        z,
        y,
        {"weights": np.random.default_rng(5).exponential(size=500)},
    )
    z, y = drawn(500, 5, 6)
    made["absent"] = (z, np.where(y == 4, 0, y), {})
    z, y = drawn(500, 6, 7)
    made["float16"] = (z.astype(np.float16), y, {})
    z, y = drawn(400, 4, 8)
    made["ties"] = (np.round(z), y, {})
    z, y = drawn(9000, 4, 9)
    made["many"] = (z.astype(np.float32), y, {})
    return made


def digest(value: object) -> str:
    """Hash of the bytes of an array, or of what an object is as JSON."""
    data = (
        value.tobytes()
        if isinstance(value, np.ndarray)
        else json.dumps(value, sort_keys=True).encode()
    )
    return hashlib.sha256(data).hexdigest()[:16]


def hashes() -> dict[str, str]:
    """Every case's hash, or the sentence with which it ends."""
    found: dict[str, str] = {}
    for name, (z, y, how) in sets().items():
        slow = (
            {"auto", "recal", "iop", "cts"} if name in ("thirty", "many") else {"recal"}
        )
        fitted = []
        for method in [*method_names(), *COMPOSED]:
            if method in slow:
                continue
            key = f"{name}/{method}"
            try:
                calibrator = calcli.fit(z, y, method, **how)
                found[key] = (
                    digest(calibrator.to_dict())
                    + " "
                    + digest(calibrator.predict_proba(z))
                )
                fitted += [calibrator] if method in ("ts", "svs") else []
            except CalcliError as error:
                found[key] = f"{type(error).__name__}: {error}"
        found[f"{name}/report"] = digest(calcli.evaluate(z, y, fitted, **how).to_dict())
        found[f"{name}/diagram"] = digest(
            calcli.diagram(z, y, fitted, resamples=100, **how).to_dict()
        )
        for metric in metric_names():
            try:
                found[f"{name}/metric/{metric}"] = digest(
                    calcli.evaluate(z, y, metrics=[metric], **how).to_dict()
                )
            except CalcliError as error:
                found[f"{name}/metric/{metric}"] = f"{type(error).__name__}: {error}"
    rng = np.random.default_rng(10)
    c = rng.uniform(0.3, 1, size=800)
    right = rng.uniform(size=800) < c**1.3
    for method in ("ts", "platt", "beta", "hb", "ir", "sb", "spline", "bbq"):
        try:
            calibrator = calcli.fit(c, right, method, kind="confidence")
            found[f"confidence/{method}"] = (
                digest(calibrator.to_dict()) + " " + digest(calibrator.predict_proba(c))
            )
        except CalcliError as error:
            found[f"confidence/{method}"] = f"{type(error).__name__}: {error}"
    found["confidence/report"] = digest(
        calcli.evaluate(c, right, kind="confidence").to_dict()
    )
    z = rng.normal(size=(140_000, 5)).astype(np.float32) * 2
    y = (z / 1.4 + rng.gumbel(size=z.shape)).argmax(axis=1)
    for method in ("ts", "ec", "ets", "vs", "hoki", "ir"):
        calibrator = calcli.fit(z, y, method)
        found[f"long/{method}"] = (
            digest(calibrator.to_dict()) + " " + digest(calibrator.predict_proba(z))
        )
    found["long/report"] = digest(calcli.evaluate(z, y).to_dict())
    return found


def main(arguments: list[str]) -> int:
    """Write the hashes, or print where two runs differ (exit code 1 where they do); without words, say how."""
    if arguments[:1] == ["write"]:
        warnings.simplefilter("ignore")
        Path(arguments[1]).write_text(json.dumps(hashes(), indent=1), "utf-8")
        return 0
    if arguments[:1] != ["compare"]:
        print(__doc__)
        return 0
    old, new = (json.loads(Path(path).read_text("utf-8")) for path in arguments[1:3])
    differing = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    for key in differing:
        print(f"{key}: {old.get(key)} -> {new.get(key)}")
    print(f"{len(old)} cases, {len(differing)} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
