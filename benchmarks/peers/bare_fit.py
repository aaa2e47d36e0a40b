"""Temperature scaling in NumPy, everything in memory, Newton's method, no checks, no summary."""

import sys

import h5py
import numpy as np

with h5py.File(sys.argv[1]) as file:
    z = file["logits"][()].astype(np.float64)
    y = file["labels"][()]
z -= z.max(axis=1, keepdims=True)
z_y = z[np.arange(len(z)), y]
beta = 1.0
for _ in range(50):
    p = np.exp(beta * z)
    norm = p.sum(axis=1)
    mean = (p * z).sum(axis=1) / norm
    variance = (p * z**2).sum(axis=1) / norm - mean**2
    step = (mean - z_y).mean() / variance.mean()
    beta -= step
    if abs(step) < 1e-10:
        break
print(1.0 / beta)
