"""Time, memory and accuracy of Hoki's retention probabilities and of whole fits.

    python benchmarks/hoki.py [--rows 25000 --classes 1000]

First whole ``calcli fit`` processes that stream the logits from a file, with their peak
memory. Then, in process: the exact value for one scale and for the whole search of
thirteen, and 1000 shared draws, on logits like a trained network's and on rows where all
classes are nearly tied; the largest difference from adaptive quadrature on some of each.
Processor seconds stand beside wall seconds: on a busy machine the former are to be believed.
"""

import argparse
import time

import numpy as np
from _measure import calcli, cost, make_bundle, own_peak, workspace
from scipy.integrate import quad
from scipy.special import log_ndtr

from calcli.io.bundle import open_bundle
from calcli.kernels.numpy.hoki_draws import standard_noise
from calcli.kernels.numpy.hoki_retention import gaps_to_top, retention_rates
from calcli.rows import ArrayRows

EXACT_ROWS = 40


def timed(what, work):
    """Run and print wall and processor seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    print(
        f"  {what:<44} {time.perf_counter() - wall:7.2f} s  {time.process_time() - cpu:7.2f} s cpu",
        flush=True,
    )
    return result


def by_quadrature(z, sigma):
    """Adaptive quadrature of one row."""
    d = np.delete(z.max() - z, z.argmax())

    def integrand(u):
        return np.exp(-u * u / 2 + log_ndtr(u + d / sigma).sum()) / np.sqrt(2 * np.pi)

    return quad(
        integrand, -9, 9, epsabs=1e-13, epsrel=1e-12, limit=1000, points=[0, 1, 2, 3, 4]
    )[0]


def gaussian(rows, scales):
    """Exact values at one scale, at all scales of a search, and drawn ones."""
    exact = timed(
        "exact, Gaussian, one scale",
        lambda: retention_rates(rows, "gaussian", [scales[7]]),
    )[:, 0]
    search = timed(
        "exact, Gaussian, search of 13 scales",
        lambda: retention_rates(rows, "gaussian", scales),
    )
    draws = standard_noise("gaussian", 1000, rows.k, 0)
    drawn = timed(
        "1000 shared draws, one scale",
        lambda: retention_rates(rows, "gaussian", [scales[7]], draws),
    )[:, 0]
    some = np.random.default_rng(1).choice(rows.n, EXACT_ROWS, replace=False)
    errors = [
        abs(search[i, j] - by_quadrature(rows.scores[i].astype(np.float64), s))
        for i in some
        for j, s in list(enumerate(scales))[::3]
    ]
    print(
        f"  largest error against adaptive quadrature    {max(errors):.1e} ({len(errors)} integrals)"
    )
    expected = np.sqrt(np.mean(exact * (1 - exact)) / 1000)
    print(
        f"  draws: rms error {np.sqrt(np.mean((drawn - exact) ** 2)):.5f}, in theory {expected:.5f}"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--classes", type=int, default=1000)
    args = parser.parse_args()
    n, k = args.rows, args.classes
    with workspace() as folder:
        path = make_bundle(f"{folder}/made_up.h5", n, k)
        print("whole processes, streaming from a file")
        for words in (
            (),
            ("--set", "scale=2"),
            ("--set", "scale=2", "--set", "gamma=mc"),
        ):
            c = cost(
                calcli(
                    "fit",
                    "--method",
                    "hoki",
                    *words,
                    path,
                    "-o",
                    f"{folder}/a.json",
                    "--force",
                )
            )
            print(
                f"  fit --method hoki {' '.join(words):<30} {c.wall:6.2f} s {c.cpu:6.2f} s cpu, peak {c.peak:.0f} MiB"
            )
        with open_bundle(path) as bundle:
            z = bundle.array()
        rows = ArrayRows(z)
        scales = [
            float(np.median(gaps_to_top(z)[0].min(axis=1))) * 2 ** (i / 2)
            for i in range(-6, 7)
        ]
        print(
            f"{n} rows x {k} classes, like a trained network's; scales {scales[0]:.3g} to {scales[-1]:.3g}"
        )
        gaussian(rows, scales)
        timed(
            "exact, Gumbel, search of 13 scales",
            lambda: retention_rates(rows, "gumbel", scales),
        )
        for j in (3, 7, 12):
            what = f"exact, uniform, width {scales[j]:.3g}"
            timed(what, lambda j=j: retention_rates(rows, "uniform", [scales[j]]))
        timed(
            "exact, uniform, search of 13 widths",
            lambda: retention_rates(rows, "uniform", scales),
        )
        tied = ArrayRows(
            np.random.default_rng(2).standard_normal((n, k), dtype=np.float32)
            * np.float32(0.01)
        )
        print("the same with all classes nearly tied")
        gaussian(tied, [2.0 * 2 ** (i / 2) for i in range(-6, 7)])
        print(
            f"  peak memory of this process: {own_peak():.0f} MiB ({2 * n * k * 4 / 2**20:.0f} MiB are the scores)"
        )


if __name__ == "__main__":
    main()
