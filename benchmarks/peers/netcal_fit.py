"""Temperature scaling by netcal, in float64."""

import sys

import h5py
import numpy as np
from netcal.scaling import TemperatureScaling
from scipy.special import softmax

with h5py.File(sys.argv[1]) as file:
    p = softmax(file["logits"][()].astype(np.float64), axis=1)
    y = file["labels"][()]
scaling = TemperatureScaling()
scaling.fit(p, y)
print(scaling.temperature)
