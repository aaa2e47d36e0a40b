"""Measure the affine-softmax methods: held-out NLL over stratified halves, and time and memory at size.

    python benchmarks/affine.py halves DATA.npz [--splits 20]
    python benchmarks/affine.py size [--rows 25000] [--classes 1000] [--method vs]

``halves`` prints mean and standard deviation over splits of the test NLL of ts, svs and sms
and of their paired differences from ts. ``size`` makes a float32 HDF5 file, fits from it
block by block, and prints seconds, peak memory beside that of the file, and passes.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from calcli.calibrator import Context
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows, AtOnce, Block, Rows, rows_per_block


def stratified_halves(
    y: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    first = np.concatenate(
        [
            rng.permutation(np.flatnonzero(y == c))[: (y == c).sum() // 2]
            for c in np.unique(y)
        ]
    )
    return first, np.setdiff1d(np.arange(len(y)), first)


def held_out_nll(
    name: str, z: np.ndarray, y: np.ndarray, fit: np.ndarray, test: np.ndarray
) -> float:
    found = method(name).fit(
        ArrayRows(z[fit], y[fit]), parse_options(name, {}), Context()
    )
    block = next(ArrayRows(z[test], block_rows=len(test)).blocks())
    return float(
        -found.calibrator.apply(block).log_probs[np.arange(len(test)), y[test]].mean()
    )


def halves(path: Path, splits: int) -> None:
    with np.load(path) as data:
        z, y = data["logits"], data["labels"]
    names = ("ts", "svs", "sms")
    found = np.array(
        [
            [
                held_out_nll(
                    name, z, y, *stratified_halves(y, np.random.default_rng(seed))
                )
                for name in names
            ]
            for seed in range(splits)
        ]
    )
    print(f"{path.stem}: test NLL over {splits} stratified halves")
    for j, name in enumerate(names):
        gain = found[:, j] - found[:, 0]
        print(
            f"{name:4s} {found[:, j].mean():.4f} sd {found[:, j].std(ddof=1):.4f}"
            f"   minus ts {gain.mean():+.5f} sd {gain.std(ddof=1):.5f}"
        )


class FileRows(Rows):
    """Rows of an HDF5 file, read block by block."""

    def __init__(self, path: Path) -> None:
        import h5py

        self.file = h5py.File(path, "r")
        self.kind = "logits"
        self.n, self.k = self.file["logits"].shape
        self.passes = 0

    def labels(self) -> np.ndarray:
        return self.file["labels"][:]

    def blocks(
        self, transforms: Sequence[int] = (), at_once: AtOnce = 1
    ) -> Iterator[Block]:
        self.passes += 1
        y, step = self.labels(), at_once * rows_per_block(self.k)
        for start in range(0, self.n, step):
            yield Block(
                start,
                self.file["logits"][start : start + step],
                "logits",
                y[start : start + step],
            )


def write(path: Path, n: int, k: int) -> None:
    """Overconfident, class-biased logits of n rows, in blocks."""
    import h5py

    rng = np.random.default_rng(0)
    bias = 0.3 * rng.standard_normal(k)
    with h5py.File(path, "w") as file:
        scores = file.create_dataset("logits", (n, k), "f4")
        y = rng.integers(0, k, n)
        file["labels"] = y
        for start in range(0, n, 1000):
            z = 1.5 * rng.standard_normal((min(1000, n - start), k), dtype=np.float32)
            z[np.arange(len(z)), y[start : start + 1000]] += (
                6 + 1.5 * rng.standard_normal(len(z))
            )
            scores[start : start + 1000] = 1.4 * z + bias


def size(name: str, n: int, k: int, settings: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.h5"
        write(path, n, k)
        rows = FileRows(path)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        start = time.perf_counter()
        found = method(name).fit(rows, parse_options(name, settings), Context())
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{name} {n} x {k}: {seconds:.1f} s, peak {peak:.0f} MiB ({before:.0f} before the fit,"
            f" file {path.stat().st_size / 2**20:.0f}), {rows.passes} passes, {found.status}, {dict(found.details)}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command")
    one = commands.add_parser("halves")
    one.add_argument("data", type=Path, nargs="+")
    one.add_argument("--splits", type=int, default=20)
    two = commands.add_parser("size")
    two.add_argument("--rows", type=int, default=25_000)
    two.add_argument("--classes", type=int, default=1000)
    two.add_argument("--method", default="vs")
    two.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    asked = parser.parse_args()
    if asked.command is None:  # with every other benchmark: what needs no file
        asked = parser.parse_args(["size"])
    if asked.command == "halves":
        for path in asked.data:
            halves(path, asked.splits)
    else:
        size(
            asked.method,
            asked.rows,
            asked.classes,
            dict(s.split("=", 1) for s in asked.set),
        )


if __name__ == "__main__":
    main()
