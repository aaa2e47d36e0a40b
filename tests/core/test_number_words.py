"""Numbers and their nouns in sentences."""

import re

import numpy as np
import pytest

from calcli.number_words import noun, samples


@pytest.mark.parametrize(
    ("singular", "plural"),
    [("row", "rows"), ("class", "classes"), ("batch", "batches"), ("unit", "units")],
)
def test_a_noun_follows_its_number(singular, plural):
    assert noun(1, singular) == singular
    assert noun(0, singular) == plural
    assert noun(2, singular) == plural


def test_samples_are_counted():
    assert samples(1) == "1 sample"
    assert samples(12345) == "12,345 samples"


COMMANDS = [
    (0, "evaluate", "one.npz", "-c", "ts.json", "--full"),
    (0, "evaluate", "one.npz", "--signature"),
    (0, "apply", "ts.json", "one.npz", "-o", "out.h5"),
    (4, "threshold", "one.npz", "--accuracy", "0.5"),
    (0, "export", "ts.json", "--to", "python", "-o", "ts.py", "--check", "one.npz"),
    (0, "inspect", "one.npz"),
    (0, "watch", "one.npz", "-c", "ts.json", "--state", "watch.json"),
    (0, "fit", "one.npz", "-m", "ts", "-o", "one.json"),
]
"""The exit code and the words of commands that read one row."""


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[1])
def test_one_row_is_no_rows(run, command):
    code, *words = command
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    z = 2.0 * np.eye(3)[y] + rng.normal(size=(60, 3))
    np.savez("many.npz", logits=z, labels=y)
    np.savez("one.npz", logits=z[:1] + 0.5, labels=y[:1])
    assert run("fit", "many.npz", "-m", "ts", "-o", "ts.json", "-q").code == 0
    done = run(*words)
    assert done.code == code, done.err
    said = f" {done.out} {done.err} ".replace("\n", " ")
    assert said.strip()
    plurals = "samples|rows|classes|units|files|questions|batches"
    assert not re.findall(rf"(?<! of)[ (]1 (?:{plurals})\b", said), said
