"""Temperature scaling by probmetrics."""

import sys

import h5py
import numpy as np
from probmetrics.calibrators import get_calibrator
from scipy.special import softmax

with h5py.File(sys.argv[1]) as file:
    p = softmax(file["logits"][()].astype(np.float64), axis=1)
    y = file["labels"][()]
calibrator = get_calibrator("ts-mix")
calibrator.fit(p, y)
print(calibrator)
