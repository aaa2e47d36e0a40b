"""The least that any of these jobs costs: Python, its libraries, and the scores read once."""

import sys

import h5py
import numpy  # noqa: F401
import typer  # noqa: F401

with h5py.File(sys.argv[1]) as file:
    scores = file["logits"]
    step = max(1, (4 << 20) // (scores.dtype.itemsize * scores.shape[1]))
    for start in range(0, len(scores), step):
        scores[start : start + step]
    file["labels"][()]
