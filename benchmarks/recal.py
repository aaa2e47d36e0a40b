"""Time and memory of a ReCal fit, streamed from a file.

python benchmarks/recal.py [--rows 25000 --classes 1000 --transforms 20 --rounds 200]

Writes a made-up bundle (float32 logits of noisy labels, noisier under each transform)
into a temporary folder unless ``--file`` names one to make or to reuse, fits ``recal``
without stopping early, applies it to the same rows and prints seconds, passes over the
scores and peak memory, beside one plain pass as a yardstick.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
from _draws import draw_labels_of_logits
from _measure import own_peak, parser_of

from calcli.calibrator import Context
from calcli.io.bundle import open_bundle
from calcli.io.writer import NewBundle, new_bundles
from calcli.methods.recal import ReCal
from calcli.numerics import log_normalizer

STEP = 500  # rows that are made at once


def make(path, n, k, n_transforms):
    """Write the bundle."""
    rng = np.random.default_rng(0)
    zooms = np.linspace(0.5, 0.9, n_transforms)
    specs = [f"zoom:{zoom:.3f}" for zoom in zooms]
    spread = np.linspace(1.0, 0.1, n_transforms)[:, None, None]
    with new_bundles(path) as out:
        group = out.create("", NewBundle(n=n, k=k, transforms=specs))
        for start in range(0, n, STEP):
            rows = min(STEP, n - start)
            centre = rng.normal(size=(rows, k), scale=1.3).astype(np.float32)
            labels = draw_labels_of_logits(centre, rng)
            noise = rng.normal(size=(n_transforms, rows, k)).astype(np.float32) * spread
            moved = (2.5 * (centre + noise)).astype(np.float32)
            group.write(start, 2.5 * centre, labels=labels, transformed=moved)


def seconds_of_a_pass(rows):
    """Seconds in which the log-normaliser of all rows is computed."""
    start = time.perf_counter()
    for block in rows.blocks():
        log_normalizer(block.z)
    return time.perf_counter() - start


def seconds_of_applying(calibrator, rows):
    """Seconds in which a calibrator is applied to all rows."""
    start = time.perf_counter()
    places = [rows.transforms.index(spec) for spec in calibrator.required_transforms]
    for block in rows.blocks(places):
        calibrator.apply(block)
    return time.perf_counter() - start


def print_fit(rows, options, device):
    """Print what fitting and applying cost."""
    n_transforms = len(rows.transforms)
    mib = (1 + n_transforms) * rows.n * rows.k * 4 / 2**20
    print(f"{rows.n} rows x {rows.k} classes, {n_transforms} transforms:", end=" ")
    print(f"{mib:.0f} MiB of float32")
    plain = seconds_of_a_pass(rows)
    print(f"one plain pass (log-normaliser of the originals): {plain:.2f} s")
    peak_before = own_peak()
    start = time.perf_counter()
    fit = ReCal.fit(rows, options, Context(device=device))
    seconds = time.perf_counter() - start
    counts = f"{fit.details['rounds']} rounds, {fit.details['passes']} passes"
    print(f"fit: {seconds:.1f} s for {counts}, {fit.status}")
    print(f"apply: {seconds_of_applying(fit.calibrator, rows):.1f} s")
    print(f"peak memory: {own_peak():.0f} MiB ({peak_before:.0f} MiB before the fit)")


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--transforms", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument(
        "--guard", action="store_true", help="the released code's guards"
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--file", type=Path)
    args = parser.parse_args()
    options = ReCal.Options(guard=args.guard, rounds=args.rounds)
    with tempfile.TemporaryDirectory() as folder:
        path = args.file or Path(folder) / "made_up.h5"
        if not path.exists():
            make(path, args.rows, args.classes, args.transforms)
        with open_bundle(str(path)) as rows:
            print_fit(rows, options, args.device)


if __name__ == "__main__":
    main()
