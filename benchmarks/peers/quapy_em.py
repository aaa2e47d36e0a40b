"""Class shares of unlabelled rows by QuaPy's EMQ with its own settings: FILE.npz with shares before ``s0``, ``s1``, …
(k,) and sets of calibrated probabilities ``p0``, ``p1``, … (n, k); the shares of each set go to stdout as JSON."""

import json
import sys

import numpy as np
from quapy.method.aggregative import EMQ

with np.load(sys.argv[1]) as file:
    answers = []
    for number in range(len(file.files) // 2):
        shares, _ = EMQ.EM(file[f"s{number}"], file[f"p{number}"])
        answers.append(shares.tolist())
print(json.dumps(answers))
