"""Probabilities by MCGrad with its own settings: FILE.npz with confidences ``c``, outcomes ``y``, groups ``g`` of the
rows to learn from, and ``new_c``, ``new_g``; the probabilities of the new rows go to OUT.npy."""

import sys

import numpy as np
import pandas as pd
from mcgrad.methods import MCGrad

with np.load(sys.argv[1]) as file:
    learn = pd.DataFrame({"p": file["c"], "y": file["y"], "g": file["g"].astype(str)})
    new = pd.DataFrame({"p": file["new_c"], "g": file["new_g"].astype(str)})
names = {"prediction_column_name": "p", "categorical_feature_column_names": ["g"]}
np.save(
    sys.argv[2],
    MCGrad().fit(learn, label_column_name="y", **names).predict(new, **names),
)
