"""Synthetic score files with a known truth, for the laws that every method and metric obeys."""

import numpy as np

from calcli.calibrator import Context
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows

TRANSFORMS = ("zoom:0.60", "zoom:0.75", "brightness:0.40")


def truth(n, k, temperature=1.6, seed=0, scale=2.5):
    """Logits z (n, k) float64 and labels drawn from softmax(z / temperature)."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * scale
    noise = rng.gumbel(size=(n, k))
    return z, (z / temperature + noise).argmax(axis=1)


def transformed(z, seed=1):
    """The same rows under lossy transforms: shrunk logits with noise, (m, n, k)."""
    rng = np.random.default_rng(seed)
    moved = []
    for factor in (0.5, 0.7, 0.4):
        noise = rng.normal(size=z.shape)
        moved.append(z * factor + noise * 0.8)
    return np.stack(moved)


def rows_of(z, y, block_rows=None, kind="logits", seed=1, **more):
    """Rows in memory that carry transforms, so that every method can be fitted to them."""
    return ArrayRows(
        z,
        y,
        kind,
        transformed=transformed(np.asarray(z, dtype=np.float64), seed),
        transforms=TRANSFORMS,
        block_rows=block_rows,
        **more,
    )


def fit(name, rows, seed=0, **options):
    """A method fitted to rows; an option that is one of Python's words ends in an underscore."""
    words = {option.rstrip("_"): value for option, value in options.items()}
    return method(name).fit(rows, parse_options(name, words), Context(seed=seed))


def predict(calibrator, rows):
    """Log-probabilities (n, k) and predictions (n,) of all rows."""
    places = [rows.transforms.index(spec) for spec in calibrator.required_transforms]
    parts = [calibrator.apply(block) for block in rows.blocks(places)]
    log_p = np.concatenate([part.log_probs for part in parts])
    predictions = np.concatenate([part.label for part in parts])
    return log_p, predictions


def _degenerate():
    rng = np.random.default_rng(11)
    z, y = truth(120, 3, seed=7)
    absent = y.copy()
    absent[absent == 2] = 0
    tied = np.round(z)
    tied[:20] = 0.0
    yield "two classes", *truth(150, 2, seed=8)
    yield "absent class", z, absent
    yield "one class only", z, np.zeros(120, dtype=np.int64)
    yield "all right", z, z.argmax(axis=1)
    yield "all wrong", z, z.argmin(axis=1)
    yield "exact ties", tied, y
    yield "constant scores", np.zeros((60, 3)), rng.integers(0, 3, 60)
    yield "huge logits", z * 1e4, y
    yield "sure and right", np.eye(3)[y] * 1e4, y
    yield "few rows, many classes", *truth(12, 30, seed=9)
    yield "one row", z[:1], y[:1]
    yield "uninformative", z, rng.permutation(y)


DEGENERATE = list(_degenerate())
"""Data sets that leave little or nothing to fit: (what, scores, labels)."""
