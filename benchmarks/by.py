"""What ``calcli fit --by`` gains where groups differ, and what it costs where they do not.

python benchmarks/by.py [RUNS] [DATA.npz ...] [--mcgrad PYTHON] [--record FILE.json]

RUNS (10) draws of calibration rows, in groups of each size; of the others 500 a group are
new. Printed: mean change of the NLL on new rows in 1e-3 nats against one temperature for
all, by a temperature per group (what a loop over groups does), by partial pooling without
its guard, and by ``--by`` as it is; how often that keeps the groups; and as a bound the
change by temperatures that are fitted to the new rows themselves. Groups: random ones,
simulated ones whose temperatures differ, and, of files of data, the transforms of one
network (``transforms``), the networks (``logits_…``), or random ones.

With a Python that has MCGrad, which is for two classes: the same of the confidence and
whether the prediction is right, by Platt scaling and its groups, and by MCGrad.
"""

import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _draws import draw_labels_of_logits, row_nll
from _measure import parser_of, peer
from _stored import Lines, means_of

import calcli
from calcli.numerics import softmax

SIZES = (10, 25, 100, 500)  # calibration rows of a group
NEW = 500  # new rows of a group
RANDOM_GROUPS = 20
OF_CONFIDENCE = {"method": "platt", "kind": "confidence"}
"""How MCGrad's rows are fitted; others take the defaults of ``calcli.fit``."""


class Rows(NamedTuple):
    """Scores, labels and groups."""

    scores: np.ndarray
    labels: np.ndarray
    groups: np.ndarray

    def at(self, places: np.ndarray) -> "Rows":
        return Rows(self.scores[places], self.labels[places], self.groups[places])


# ---- rows in groups


def simulated(n_groups: int, size: int, spread: float) -> Rows:
    """Overconfident logits of ten classes. spread : of the log temperatures of groups."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(n_groups), size)
    z = 2.0 * rng.normal(size=(len(groups), 10))
    log_slope = rng.normal(size=n_groups) * spread
    true = z * np.exp(log_slope[groups])[:, None]
    return Rows(1.5 * z, draw_labels_of_logits(true, rng), groups)


def models_of(file) -> list[np.ndarray]:
    """Scores that are groups of their own: of several networks, or under zooms."""
    if "transforms" in file.files:
        models = [file["logits"].astype(float)]
        for place, spec in enumerate(file["transforms"]):
            if spec.startswith("zoom"):
                models.append(file["transformed_logits"][place].astype(float))
        return models
    names = [name for name in file.files if name.startswith("logits_")]
    return [file[name].astype(float) for name in names]


def of_file(path: Path) -> tuple[str, Rows]:
    with np.load(path) as file:
        labels = file["labels"]
        models = models_of(file)
        if models:
            groups = np.repeat(np.arange(len(models)), len(labels))
            rows = Rows(np.concatenate(models), np.tile(labels, len(models)), groups)
            return f"{path.stem}, {len(models)} groups", rows
        order = np.random.default_rng(0).permutation(len(labels))
        rows = Rows(file["logits"].astype(float), labels, order % RANDOM_GROUPS)
        return f"{path.stem}, {RANDOM_GROUPS} random groups", rows


def sources(paths: list[Path]) -> Iterator[tuple[str, Rows]]:
    """Rows with groups, by name."""
    yield "simulated, 50 random groups", simulated(50, 1000, 0.0)
    yield "simulated, 20 groups that differ", simulated(20, 1000, 0.3)
    for path in paths:
        yield of_file(path)


def right_or_wrong(rows: Rows) -> Rows:
    """Confidences, and whether the prediction is right."""
    p = softmax(rows.scores)
    is_right = (p.argmax(axis=1) == rows.labels).astype(np.int64)
    return Rows(p.max(axis=1), is_right, rows.groups)


# ---- ways to fit


def nll_of_one_fit(cal: Rows, new: Rows, how: dict[str, str]) -> np.ndarray:
    """NLL of new rows by one fit for all."""
    calibrator = calcli.fit(cal.scores, cal.labels, **how)
    return row_nll(calibrator.predict_proba(new.scores), new.labels)


def nll_of_fit_by_group(
    cal: Rows, new: Rows, how: dict[str, str], **options: object
) -> tuple[np.ndarray, bool]:
    """NLL of new rows by a fit with groups, and whether it kept them."""
    calibrator = calcli.fit(cal.scores, cal.labels, groups=cal.groups, **how, **options)
    has_groups = calibrator.method.endswith("-by")
    groups = new.groups if has_groups else None
    p = calibrator.predict_proba(new.scores, groups=groups)
    return row_nll(p, new.labels), has_groups


def nll_of_separate_fits(cal: Rows, new: Rows, how: dict[str, str]) -> np.ndarray:
    """NLL of new rows by a fit per group."""
    nll = np.empty(len(new.labels))
    for group in np.unique(cal.groups):
        is_new = new.groups == group
        cal_rows = cal.at(cal.groups == group)
        nll[is_new] = nll_of_one_fit(cal_rows, new.at(is_new), how)
    return nll


def mcgrad_nll(python: str, cal: Rows, new: Rows) -> np.ndarray:
    """NLL of new rows by MCGrad's probabilities."""
    with tempfile.TemporaryDirectory() as folder:
        rows, answer = f"{folder}/rows.npz", f"{folder}/p.npy"
        np.savez(
            rows,
            c=cal.scores,
            y=cal.labels,
            g=cal.groups,
            new_c=new.scores,
            new_g=new.groups,
        )
        command = peer("mcgrad_groups", rows, answer, python=python)
        subprocess.run(command, check=True, capture_output=True)
        p = np.load(answer)
    return row_nll(np.stack([1 - p, p], axis=1), new.labels)


def changes(cal: Rows, new: Rows, mcgrad: str | None) -> dict[str, float]:
    """Mean change of the NLL by each way, and whether ``--by`` kept the groups."""
    how = {}
    if mcgrad is not None:
        how = OF_CONFIDENCE
        cal, new = right_or_wrong(cal), right_or_wrong(new)
    pooled, _ = nll_of_fit_by_group(cal, new, how, guard=False)
    by, has_groups = nll_of_fit_by_group(cal, new, how)
    nll = {
        "bound": nll_of_separate_fits(new, new, how),
        "separate fits": nll_of_separate_fits(cal, new, how),
        "partial pooling": pooled,
        "--by": by,
    }
    one = nll_of_one_fit(cal, new, how)
    figures = {}
    for way, losses in nll.items():
        figures[way] = 1e3 * float((losses - one).mean())
    figures["kept"] = float(has_groups)
    if mcgrad is not None:
        figures["MCGrad"] = 1e3 * float((mcgrad_nll(mcgrad, cal, new) - one).mean())
    return figures


def drawn(
    members: list[np.ndarray], size: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Calibration rows and new rows. members : the rows of every group."""
    orders = [rng.permutation(rows) for rows in members]
    cal = np.concatenate([order[:size] for order in orders])
    new = np.concatenate([order[size : size + NEW] for order in orders])
    return cal, new


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("runs", nargs="?", type=int, default=10)
    parser.add_argument("data", nargs="*", type=Path)
    parser.add_argument("--mcgrad", metavar="PYTHON")
    parser.add_argument("--record", type=Path, help="JSON file for the table")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # fits to ten rows have much to say
    lines = Lines(args.record)
    for name, rows in sources(args.data):
        groups = np.unique(rows.groups)
        members = [np.flatnonzero(rows.groups == group) for group in groups]
        smallest = min(len(places) for places in members)
        for size in SIZES:
            if 2 * size > smallest:
                continue
            rng = np.random.default_rng(1)
            runs = []
            for _ in range(args.runs):
                cal, new = drawn(members, size, rng)
                runs.append(changes(rows.at(cal), rows.at(new), args.mcgrad))
            cells = {"rows each": size, "runs": args.runs, **means_of(runs)}
            lines.add(groups=name, **cells)


if __name__ == "__main__":
    main()
