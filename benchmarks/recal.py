"""Time and memory of a ReCal fit, streamed from a file.

    python benchmarks/recal.py [--rows 25000 --classes 1000 --transforms 20 --rounds 200]

Writes a made-up bundle (float32 logits of noisy labels, noisier under each transform)
into a temporary folder unless ``--file`` names one to make or to reuse, fits ``recal``
without stopping early, applies it to the same rows and prints seconds, passes over the
scores and peak memory, beside one plain pass as a yardstick.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from calcli.calibrator import Context
from calcli.io.bundle import BundleRows, open_bundle
from calcli.io.writer import NewBundle, new_bundles
from calcli.methods.recal import ReCal
from calcli.numerics import log_normalizer


def make(path: Path, n: int, k: int, m: int) -> None:
    rng = np.random.default_rng(0)
    specs = [f"zoom:{s:.3f}" for s in np.linspace(0.5, 0.9, m)]
    with new_bundles(path) as out:
        group = out.create("", NewBundle(n=n, k=k, transforms=specs))
        for start in range(0, n, 500):
            b = min(500, n - start)
            centre = rng.normal(size=(b, k), scale=1.3).astype(np.float32)
            y = (centre + rng.gumbel(size=(b, k))).argmax(axis=1)
            noise = (
                rng.normal(size=(m, b, k)).astype(np.float32)
                * np.linspace(1.0, 0.1, m)[:, None, None]
            )
            group.write(
                start,
                2.5 * centre,
                labels=y,
                transformed=(2.5 * (centre + noise)).astype(np.float32),
            )


def pass_seconds(rows: BundleRows) -> float:
    start = time.perf_counter()
    for block in rows.blocks():
        log_normalizer(block.z)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (
        ("rows", 5000),
        ("classes", 100),
        ("transforms", 20),
        ("rounds", 200),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument(
        "--guard", action="store_true", help="the released code's guards"
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--file", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = args.file or Path(folder) / "made_up.h5"
        if not path.exists():
            make(path, args.rows, args.classes, args.transforms)
        with open_bundle(str(path)) as rows:
            size = (1 + len(rows.transforms)) * rows.n * rows.k * 4 / 2**20
            print(
                f"{rows.n} rows x {rows.k} classes, {len(rows.transforms)} transforms: {size:.0f} MiB of float32"
            )
            print(
                f"one plain pass (log-normaliser of the originals): {pass_seconds(rows):.2f} s"
            )
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            start = time.perf_counter()
            options = ReCal.Options(guard=args.guard, rounds=args.rounds)
            fit = ReCal.fit(rows, options, Context(device=args.device))
            seconds = time.perf_counter() - start
            details = fit.details
            print(
                f"fit: {seconds:.1f} s for {details['rounds']} rounds, {details['passes']} passes, {fit.status}"
            )
            start = time.perf_counter()
            index = [
                rows.transforms.index(spec)
                for spec in fit.calibrator.required_transforms
            ]
            for block in rows.blocks(index):
                fit.calibrator.apply(block)
            print(f"apply: {time.perf_counter() - start:.1f} s")
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"peak memory: {peak:.0f} MiB ({before:.0f} MiB before the fit)")


if __name__ == "__main__":
    main()
