"""ReCal beside temperature scaling on random halves of saved scores with transforms.

    python benchmarks/recal_halves.py ../shared/data/cifar10_resnet20_transformed.npz --halves 12

The npz holds ``logits`` (n, k), ``labels`` (n,), ``transformed_logits`` (m, n, k) and
``transforms`` (m,). Every half is fitted by both with their defaults and judged on the other
half: NLL and Brier score, and how often ReCal has the lower one.
"""

import argparse
from pathlib import Path

import numpy as np

from calcli.calibrator import Calibrator, Context
from calcli.numerics import FloatArray
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows

SHARED = (
    Path(__file__).resolve().parents[2]
    / "shared"
    / "data"
    / "cifar10_resnet20_transformed.npz"
)


def scores(calibrator: Calibrator, rows: ArrayRows) -> tuple[float, float]:
    """Mean NLL and Brier score (summed over classes) of rows."""
    index = [rows.transforms.index(spec) for spec in calibrator.required_transforms]
    log_p = np.concatenate(
        [calibrator.apply(block).log_probs for block in rows.blocks(index)]
    )
    p, at = np.exp(log_p), np.arange(rows.n)
    right: FloatArray = p[at, rows.labels()]
    return float(-log_p[at, rows.labels()].mean()), float(
        ((p**2).sum(axis=1) - 2 * right + 1).mean()
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, nargs="?", default=SHARED)
    parser.add_argument("--halves", type=int, default=12)
    args = parser.parse_args()
    if not args.file.exists():
        print(f"{args.file} is not here: name a file")
        return
    data = np.load(args.file)
    z, y, moved, specs = (
        data["logits"],
        data["labels"],
        data["transformed_logits"],
        data["transforms"].tolist(),
    )
    table = np.empty((args.halves, 2, 2))
    for seed in range(args.halves):
        order = np.random.default_rng(seed).permutation(len(y))
        cal, test = (
            ArrayRows(z[half], y[half], transformed=moved[:, half], transforms=specs)
            for half in np.array_split(order, 2)
        )
        for j, name in enumerate(("ts", "recal")):
            fit = method(name).fit(cal, parse_options(name, {}), Context(seed=seed))
            table[seed, j] = scores(fit.calibrator, test)
        print(
            f"half {seed:2d}  NLL ts {table[seed, 0, 0]:.5f} recal {table[seed, 1, 0]:.5f}"
            f"  Brier ts {table[seed, 0, 1]:.5f} recal {table[seed, 1, 1]:.5f}"
        )
    better = (table[:, 1] < table[:, 0]).sum(axis=0)
    for i, name in enumerate(("NLL", "Brier")):
        ts, recal = table[:, :, i].mean(axis=0)
        print(
            f"mean {name}: ts {ts:.5f}, recal {recal:.5f}; recal lower in {better[i]} of {args.halves}"
        )


if __name__ == "__main__":
    main()
