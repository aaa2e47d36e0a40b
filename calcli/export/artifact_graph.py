"""The graph of an artifact: scores in, probabilities, prediction and confidence out."""

import numpy as np

from calcli.errors import UsageError
from calcli.export.calibrator_graph import Traced, lower
from calcli.export.functions import at, exp, floored_log, minimum, row_argmax
from calcli.export.graph import Graph
from calcli.export.maps import affine, binary, hoki, monotone, temperature
from calcli.io.artifact import Artifact
from calcli.numerics import FloatArray

FAMILIES = (affine, binary, hoki, monotone, temperature)
"""Importing them registers how every method is computed."""

PAIR = {"logits": ([[0.0, 1.0]], [[0.0, 0.0]]), "probs": ([[-1.0, 1.0]], [[1.0, 0.0]])}
"""From a binary model's one score s to two: (0, s) or (1 - s, s)."""


def trace(artifact: Artifact, *, one_column: bool = False, nudge: FloatArray | None = None) -> Graph:
    """Trace a calibrator. Raises UsageError for a method that no graph can hold.

    one_column : the scores are (rows, 1), a binary model's score of class 1. nudge : see ``Graph``.
    """
    graph = Graph(nudge=nudge)
    scores = graph.op("scores")
    if one_column:
        if artifact.n_classes != 2 or artifact.input_kind not in PAIR:
            raise UsageError(f"one column of scores is not what {artifact.n_classes} classes have")
        weight, bias = PAIR[artifact.input_kind]
        scores = scores @ np.array(weight) + np.array(bias)
    z = floored_log(scores) if artifact.input_kind == "probs" else scores
    end = lower(artifact.calibrator, Traced(z, row_argmax(scores), artifact.n_classes))
    probs = exp(end.z)
    outputs = {"probs": probs, "prediction": end.label, "confidence": minimum(at(probs, end.label), 1.0)}
    graph.outputs = {name: value.place for name, value in outputs.items()}
    return graph
