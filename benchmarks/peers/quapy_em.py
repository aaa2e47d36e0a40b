"""Class shares of unlabelled rows by QuaPy's EMQ with its own settings: FILE.npz with ``source`` (k,) and sets of
calibrated probabilities ``p0``, ``p1``, … (n, k); the shares of each set go to stdout as JSON."""

import json
import sys

import numpy as np
from quapy.method.aggregative import EMQ

with np.load(sys.argv[1]) as file:
    sets = [file[f"p{i}"] for i in range(len(file.files) - 1)]
    print(json.dumps([EMQ.EM(file["source"], p)[0].tolist() for p in sets]))
