"""Structured scaling beside temperature scaling: held-out NLL over stratified halves.

python benchmarks/affine.py DATA.npz ... [--splits 20]

A file holds ``logits`` and ``labels``; without one a simulated problem is taken. Half of
every class is fitted, the other half judges. Printed are mean and standard deviation over
splits of the test NLL of ``ts``, ``svs`` and ``sms``, and of their paired differences from
``ts``.
"""

from pathlib import Path

import numpy as np
from _measure import parser_of
from _problems import Problem, mean_test_nll, simulated

from calcli.calibrator import Context
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows

METHODS = ("ts", "svs", "sms")


def halves_of(labels, rng):
    """Rows of two halves; an odd class has one more row in the second."""
    first = []
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        first.append(rng.permutation(rows)[: len(rows) // 2])
    first = np.concatenate(first)
    return first, np.setdiff1d(np.arange(len(labels)), first)


def held_out_nll(name, problem, fitted_rows, test_rows):
    """Test NLL of a method."""
    z, labels = problem.logits, problem.labels
    rows = ArrayRows(z[fitted_rows], labels[fitted_rows])
    fit = method(name).fit(rows, parse_options(name, {}), Context())
    return mean_test_nll(fit.calibrator, z[test_rows], labels[test_rows])


def print_halves(problem, splits):
    """Print the table of one problem."""
    nll = np.empty((splits, len(METHODS)))
    for seed in range(splits):
        halves = halves_of(problem.labels, np.random.default_rng(seed))
        for place, name in enumerate(METHODS):
            nll[seed, place] = held_out_nll(name, problem, *halves)
    print(f"{problem.name}: test NLL over {splits} stratified halves")
    for place, name in enumerate(METHODS):
        column = nll[:, place]
        gain = column - nll[:, 0]
        print(
            f"{name:4s} {column.mean():.4f} sd {column.std(ddof=1):.4f}"
            f"   minus ts {gain.mean():+.5f} sd {gain.std(ddof=1):.5f}"
        )


def problem_of(path):
    """The logits and labels of a file, in the precision that they have there."""
    with np.load(path) as data:
        return Problem(path.stem, "", data["logits"], data["labels"])


def main():
    parser = parser_of(__doc__)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--splits", type=int, default=20)
    args = parser.parse_args()
    problems = [problem_of(path) for path in args.files]
    if not problems:
        problems = [next(simulated())]
    for problem in problems:
        print_halves(problem, args.splits)


if __name__ == "__main__":
    main()
