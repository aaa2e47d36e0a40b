"""What people write: SciPy's softmax into HDF5."""

import sys

import h5py
from scipy.special import softmax

with h5py.File(sys.argv[1]) as file:
    p, labels = softmax(file["logits"][()] / 1.3, axis=1), file["labels"][()]
with h5py.File(sys.argv[2], "w") as out:
    out["probs"], out["labels"], out["prediction"], out["confidence"] = (
        p,
        labels,
        p.argmax(axis=1),
        p.max(axis=1),
    )
