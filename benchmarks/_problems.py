"""Scores to compare on: saved files, and problems whose truth is known; and how they are split."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

GROUPS = {"cifar100": "CIFAR-100 nets", "cifar10": "ten-class nets", "vlm": "vision-language"}


class Problem(NamedTuple):
    """Logits (n, k), labels (n,), and the group in whose mean it counts."""

    name: str
    group: str
    logits: Array
    labels: Array


def saved(path: Path) -> Iterator[Problem]:
    """Scores of a file, one model after the other: arrays named logits*, or probs."""
    with np.load(path) as file:
        for array in file.files:
            if not array.startswith("logits") and array != "probs":
                continue
            z = file[array].astype(float)
            z = np.log(np.maximum(z, 1e-30)) if array == "probs" else z
            other = "two classes" if z.shape[1] == 2 else "other fields"
            group = next((group for start, group in GROUPS.items() if path.stem.startswith(start)), other)
            yield Problem(f"{path.stem}:{array[7:]}".rstrip(":"), group, z, file["labels"])


def simulated(seed: int = 0) -> Iterator[Problem]:
    """Problems whose truth is known: labels are drawn from softmax of ``true``."""
    rng = np.random.default_rng(seed)

    def drawn(name: str, z: Array, true: Array) -> Problem:
        return Problem(name, "simulated", z, (true + rng.gumbel(size=true.shape)).argmax(axis=1))

    s = 3 * rng.standard_normal(10_000)
    bent = 0.5 * s + 1.5 - 0.05 * s**2
    yield drawn("two classes, bias and curvature", np.stack([0 * s, s], 1), np.stack([0 * s, bent], 1))
    z = 2 * rng.standard_normal((10_000, 4))
    yield drawn("two of four classes absent", z, z + np.array([0.0, 0.5, -30.0, -30.0]))
    z = 12 * np.eye(10)[rng.integers(0, 10, 10_000)] + 2 * rng.standard_normal((10_000, 10))
    yield drawn("near-perfect accuracy", z, 0.8 * z)
    z = 2 * rng.standard_normal((10_000, 50)) - 0.1 * np.arange(50)
    yield drawn("long tail", z, 0.6 * z - 0.05 * np.arange(50))
    z = 2 * rng.standard_normal((10_000, 1000))
    yield drawn("1000 classes", z, 0.7 * z)


def split(y: Array, rows: int, seed: int) -> tuple[Array, Array]:
    """Calibration and test rows: halves of every class, the first thinned evenly."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    side = np.arange(len(y)) % 2 == rng.integers(2)
    first, test = order[side], order[~side]
    kept = np.unique(np.linspace(0, len(first) - 1, min(rows, len(first))).astype(int))
    return rng.permutation(first[kept]), test
