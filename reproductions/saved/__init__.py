"""Saved scores as the scripts read them, and the numbers as they store them."""

import argparse
import json
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import calcli


def read(path):
    """Scores (n, k) and labels (n,) of an npz file with ``logits``, ``log_probs`` or ``probs``, and ``labels``."""
    with np.load(path) as file:
        labels = file["labels"].astype(np.int64)
        if "probs" in file:
            return np.log(
                np.maximum(file["probs"].astype(float), np.finfo(float).tiny)
            ), labels
        return file["logits" if "logits" in file else "log_probs"].astype(float), labels


def each_file(work, sources, options):
    """{name of the file: what ``work(scores, labels, options)`` finds}, ``options.workers`` files at once."""
    with ProcessPoolExecutor(options.workers) as pool:
        found = pool.map(
            work, *zip(*map(read, sources), strict=True), [options] * len(sources)
        )
        return {source.stem: one for source, one in zip(sources, found, strict=True)}


def parser(text, **counts):
    """The options of every such script: files, where results go, processes, and counts with their help."""
    found = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("sources", nargs="+", type=Path, metavar="SCORES.npz")
    found.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    found.add_argument(
        "--workers", type=int, default=1, help="files at once (default: %(default)s)"
    )
    for name, (default, words) in counts.items():
        found.add_argument(
            f"--{name}",
            type=int,
            default=default,
            help=f"{words} (default: %(default)s)",
        )
    return found


def half(rows, seed):
    """Indices of a random half that calibrates, and of the one that measures."""
    return np.array_split(np.random.default_rng(seed).permutation(rows), 2)


def fitted(z, y, method, **options):
    """One calibrator; what a fit says of its rows is not the subject here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return calcli.fit(z, y, method, **options)


def measured(z, y, calibrators, metrics, bins=15):
    """(calibrators + 1, metrics) values, those of the uncalibrated scores first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = calcli.evaluate(
            z, y, calibrators, metrics=list(metrics), bins=bins, resamples=1
        )
    return [[result.scores[name].value for name in metrics] for result in found.results]


def store(results, folder, name):
    """Write numbers as JSON of five digits, a line for each entry of the first two levels."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    lines = [
        f"{json.dumps(key)}: {of_entry(value)}"
        for key, value in rounded(results).items()
    ]
    (Path(folder) / f"{name}.json").write_text(
        "{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8"
    )


def of_entry(value):
    """A value as JSON; an object has a line for each of its entries."""
    if not isinstance(value, dict) or not any(
        isinstance(each, dict | list) for each in value.values()
    ):
        return json.dumps(value)
    return (
        "{\n"
        + ",\n".join(
            f" {json.dumps(key)}: {json.dumps(each)}" for key, each in value.items()
        )
        + "\n}"
    )


def rounded(results):
    """The same with five digits of every number."""
    if isinstance(results, dict):
        return {key: rounded(value) for key, value in results.items()}
    if isinstance(results, list | tuple):
        return [rounded(each) for each in results]
    return float(f"{results:.5g}") if isinstance(results, float) else results
