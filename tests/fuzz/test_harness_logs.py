"""Logs of evaluation harnesses with some values changed: read as they were, or refused.

CALCLI_FUZZ_SECONDS is the time for all kinds together (25 if unset), CALCLI_FUZZ_SEED
another beginning.
"""

import os
import random
import time
from collections import Counter

import h5py
import numpy as np
import pytest
from harness_logs import LOGS, mutate

from calcli.errors import CalcliError
from calcli.importers.import_request import ImportRequest
from calcli.importers.import_scores import import_scores

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("CALCLI_FUZZ_SECONDS", "25"))
SEED = int(os.environ.get("CALCLI_FUZZ_SEED", "0"))
LONGEST = 3000
"""Characters of a refusal: the least that names a file and 20 columns, and cuts their values."""
FEWEST = 45
"""Mutations of every kind of log, whatever the time: 450 of all ten."""


def rows_of(path, out):
    """Scores and label of every row of a log, by id."""
    import_scores([path], out, ImportRequest(), force=True)
    with h5py.File(out) as file:
        part = file if "labels" in file or "correct" in file else file["team"]
        names = ("logits", "probs", "log_probs", "confidence")
        name = next(name for name in names if name in part)
        scores = part[name][()]
        if name in ("logits", "log_probs"):  # of options where rows have other classes
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            scores /= scores.sum(axis=1, keepdims=True)
        labels = part["labels" if "labels" in part else "correct"][()]
        ids = [f"row {place}" for place in range(len(labels))]
        if "ids" in part:
            column = part["ids"]
            ids = column.asstr()[()] if column.dtype.kind == "O" else column[()]
    rows = {}
    times = Counter(map(str, ids))
    for name, row, label in zip(map(str, ids), scores, labels, strict=True):
        if times[name] > 1:  # another row was changed to have this id
            continue
        rows[name] = (np.ravel(row).tolist(), int(label))
    return rows


@pytest.mark.parametrize("kind", LOGS)
def test_a_changed_log_is_read_as_it_was_or_refused(kind, tmp_path):
    """Rows that were not changed keep scores and label; nothing ends but in a sentence."""
    make, name, write = LOGS[kind]
    records = make()
    path, out = tmp_path / name, tmp_path / "out.h5"
    write(path, records)
    expected = rows_of(path, out)
    end = time.monotonic() + SECONDS / len(LOGS)
    turn = n_read = n_refused = 0
    while turn < FEWEST or time.monotonic() < end:
        rng = random.Random(f"{SEED} {kind} {turn}")
        turn += 1
        changed, touched, words = mutate(records, rng)
        try:
            write(path, changed)
        except ValueError:  # a part swapped with one that it holds, half a surrogate
            continue
        if rng.random() < 0.1:
            whole = path.read_bytes()
            path.write_bytes(whole[: rng.randrange(len(whole))])
            words += " cut"
        rows = None
        message = ""
        try:
            rows = rows_of(path, out)
        except CalcliError as problem:
            message = str(problem)
        if rows is None:
            n_refused += 1
            assert 0 < len(message) < LONGEST, words
            continue
        n_read += 1
        ids = list(expected)
        per_row = len(records) // len(ids)
        may_differ = {ids[place // per_row] for place in touched}
        for row in expected.keys() - may_differ:
            if row in rows:
                assert rows[row][1] == expected[row][1], (words, row)
                # three decimals of a row need not sum to 1
                assert rows[row][0] == pytest.approx(expected[row][0], abs=2e-3)
    assert n_read > 0
    assert n_refused > 0
