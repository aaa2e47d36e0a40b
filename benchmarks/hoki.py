"""Time, memory and accuracy of Hoki's retention probabilities and of whole fits.

python benchmarks/hoki.py [--rows 25000 --classes 1000]

First whole ``calcli fit`` processes that stream the logits from a file, with their peak
memory. Then, in this process: the exact value for one scale and for the whole search of
thirteen, and 1000 shared draws, on logits like a trained network's and on rows where all
classes are nearly tied; the largest difference from adaptive quadrature on some of each.
Processor seconds stand beside wall seconds: on a busy machine the former are to be
believed.
"""

import time
from functools import partial

import numpy as np
from _measure import calcli, cost, make_bundle, own_peak, parser_of, workspace
from scipy.integrate import quad
from scipy.special import log_ndtr

from calcli.io.bundle import open_bundle
from calcli.kernels.numpy.hoki_draws import standard_noise
from calcli.kernels.numpy.hoki_retention import gaps_to_top, retention_rates
from calcli.rows import ArrayRows

EXACT_ROWS = 40  # whose probabilities are also found by quadrature
DRAWS = 1000
STEPS = np.arange(-6, 7)  # of the search, in half powers of two
ONE = 7  # place of a scale that is measured alone
FITS = ((), ("--set", "scale=2"), ("--set", "scale=2", "--set", "gamma=mc"))
"""Options of the fits that are measured."""


def timed(name, work):
    """Run something, print its wall and processor seconds, return its result."""
    start, start_cpu = time.perf_counter(), time.process_time()
    result = work()
    wall = time.perf_counter() - start
    cpu = time.process_time() - start_cpu
    print(f"  {name:<44} {wall:7.2f} s  {cpu:7.2f} s cpu", flush=True)
    return result


def by_quadrature(z, sigma):
    """Retention probability of one row under Gaussian noise."""
    gaps = np.delete(z.max() - z, z.argmax())

    def integrand(u):
        log_share = log_ndtr(u + gaps / sigma).sum()
        return np.exp(-u * u / 2 + log_share) / np.sqrt(2 * np.pi)

    corners = [0, 1, 2, 3, 4]
    value, _ = quad(
        integrand, -9, 9, epsabs=1e-13, epsrel=1e-12, limit=1000, points=corners
    )
    return value


def print_gaussian(rows, scales):
    """Print what exact and drawn values cost, and how far off they are."""
    rates = partial(retention_rates, rows, "gaussian")
    one_scale = [scales[ONE]]
    exact = timed("exact, Gaussian, one scale", partial(rates, one_scale))[:, 0]
    search = timed("exact, Gaussian, search of 13 scales", partial(rates, scales))
    noise = standard_noise("gaussian", DRAWS, rows.k, 0)
    work = partial(rates, one_scale, noise)
    drawn = timed(f"{DRAWS} shared draws, one scale", work)[:, 0]
    errors = errors_of(search, rows, scales)
    print(f"  largest error against adaptive quadrature    {max(errors):.1e}", end=" ")
    print(f"({len(errors)} integrals)")
    rms = np.sqrt(np.mean((drawn - exact) ** 2))
    expected = np.sqrt(np.mean(exact * (1 - exact)) / DRAWS)
    print(f"  draws: rms error {rms:.5f}, in theory {expected:.5f}")


def errors_of(search, rows, scales):
    """Differences from adaptive quadrature, of some rows at every third scale."""
    chosen = np.random.default_rng(1).choice(rows.n, EXACT_ROWS, replace=False)
    errors = []
    for row in chosen:
        z = rows.scores[row].astype(np.float64)
        for place in range(0, len(scales), 3):
            expected = by_quadrature(z, scales[place])
            errors.append(abs(search[row, place] - expected))
    return errors


def print_fits(path, folder):
    """Print what whole fits cost."""
    print("whole processes, streaming from a file")
    for options in FITS:
        fit = ("fit", "--method", "hoki", *options, path, "-o", f"{folder}/a.json")
        measured = cost(calcli(*fit, "--force"))
        words = f"fit --method hoki {' '.join(options):<30}"
        seconds = f"{measured.wall:6.2f} s {measured.cpu:6.2f} s cpu"
        print(f"  {words} {seconds}, peak {measured.peak:.0f} MiB")


def print_network(rows):
    """Print what the loops cost on logits like a trained network's."""
    smallest_gaps = gaps_to_top(rows.scores)[0].min(axis=1)
    middle = float(np.median(smallest_gaps))
    scales = [middle * 2 ** (step / 2) for step in STEPS]
    print(f"{rows.n} rows x {rows.k} classes, like a trained network's;", end=" ")
    print(f"scales {scales[0]:.3g} to {scales[-1]:.3g}")
    print_gaussian(rows, scales)
    search = partial(retention_rates, rows, "gumbel", scales)
    timed("exact, Gumbel, search of 13 scales", search)
    for place in (3, 7, 12):
        width = scales[place]
        one = partial(retention_rates, rows, "uniform", [width])
        timed(f"exact, uniform, width {width:.3g}", one)
    search = partial(retention_rates, rows, "uniform", scales)
    timed("exact, uniform, search of 13 widths", search)


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--classes", type=int, default=1000)
    args = parser.parse_args()
    n, k = args.rows, args.classes
    with workspace() as folder:
        path = make_bundle(f"{folder}/made_up.h5", n, k)
        print_fits(path, folder)
        with open_bundle(path) as bundle:
            z = bundle.array()
        print_network(ArrayRows(z))
        noise = np.random.default_rng(2).standard_normal((n, k), dtype=np.float32)
        print("the same with all classes nearly tied")
        tied = ArrayRows(noise * np.float32(0.01))
        print_gaussian(tied, [2.0 * 2 ** (step / 2) for step in STEPS])
        mib_of_scores = 2 * n * k * 4 / 2**20
        print(f"  peak memory of this process: {own_peak():.0f} MiB", end=" ")
        print(f"({mib_of_scores:.0f} MiB are the scores)")


if __name__ == "__main__":
    main()
