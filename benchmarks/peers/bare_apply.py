"""Softmax at a temperature written to HDF5 by NumPy alone, everything in memory."""

import sys

import h5py
import numpy as np

with h5py.File(sys.argv[1]) as file:
    z = file["logits"][()]
    y = file["labels"][()]
p = z.astype(np.float64) / 1.3
p -= p.max(axis=1, keepdims=True)
np.exp(p, out=p)
p /= p.sum(axis=1, keepdims=True)
with h5py.File(sys.argv[2], "w") as out:
    out["probs"] = p.astype(z.dtype)
    out["labels"] = y
    out["prediction"] = p.argmax(axis=1)
    out["confidence"] = p.max(axis=1)
