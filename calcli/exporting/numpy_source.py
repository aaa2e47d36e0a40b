"""Write a graph as Python source that needs NumPy only."""

import base64
from typing import Any

import numpy as np

from calcli.exporting.calibrator_graph import PAIR, groups_of
from calcli.exporting.graph import Graph
from calcli.exporting.operations import OPERATIONS
from calcli.exporting.target import Run, Written
from calcli.io.artifact import Artifact
from calcli.items import index_of_each
from calcli.numerics import AnyArray

SHORT = 16
"""Largest number of entries of a constant written as a list; longer ones are base64."""

PAGE = '''\
"""Calibrated probabilities of {k} classes: method {method}, exported by calcli \
{version}. Needs NumPy only.

predict_proba(scores{group}) gives (n, {k}) float64, rows that sum to 1; \
predict(scores{group}) gives (n,) int64, the
classes that the method predicts. scores : (n, {k}) {kind}{binary}.{about_group}
"""

import base64
{operator}
import numpy as np

CLASS_NAMES = {names!r}


def _array(text, dtype, shape):
    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape)


{groups}{constants}{lookup}
def _scores(scores):
    scores = np.asarray(scores, dtype=np.float64)
{pair}    if scores.ndim != 2 or scores.shape[1] != {k}:
        raise ValueError(f"scores have shape {{scores.shape}}, expected (n, {k})")
    if not np.isfinite(scores).all():
        raise ValueError("scores hold a number that is not finite")
    return scores


def _calibrate(scores{group}):
{shape}{lines}
    return {probs}, {prediction}[:, 0]


def predict_proba(scores{group}):
    """Calibrated probabilities, (n, {k}) float64."""
    return _calibrate(_scores(scores){group})[0]


def predict(scores{group}):
    """Predicted classes, (n,) int64."""
    return _calibrate(_scores(scores){group})[1]
'''

LOOKUP = """
def _place(group):
    if isinstance(group, str):
        return GROUPS.get(group, -1)
    return operator.index(group)

"""

GROUP = """    group = np.asarray(group)
    if group.dtype.kind not in "iu":
        places = [_place(one) for one in group.ravel().tolist()]
        group = np.array(places, dtype=np.int64)
    group = group.astype(np.int64).reshape(-1, 1)
    if len(group) != len(scores):
        raise ValueError(f"there are {len(group)} groups for {len(scores)} rows")
"""


def write_source(artifact: Artifact, graph: Graph) -> str:
    """Source of the module."""
    names: dict[int, str] = {}
    constants = []
    lines = []
    for place, node in graph.needed():
        if node.array is not None and node.array.ndim == 0:
            names[place] = _number(node.array.item())
        elif node.array is not None:
            names[place] = f"C{place}"
            constants.append(f"C{place} = {_constant(node.array)}\n")
        elif node.op in ("scores", "group"):
            names[place] = node.op
        else:
            names[place] = f"v{place}"
            operands = [names[i] for i in node.inputs]
            source = OPERATIONS[node.op].source.format(*operands)
            lines.append(f"    v{place} = {source}")
    k = artifact.n_classes
    kind = artifact.input_kind
    pair = ""
    if k == 2 and kind in PAIR:
        weight, bias = PAIR[kind]
        one = "scores.ndim == 1 or (scores.ndim == 2 and scores.shape[1] == 1)"
        pair = (
            f"    if {one}:\n"
            f"        scores = scores.reshape(-1, 1) * np.array({weight})"
            f" + np.array({bias})\n"
        )
    group = ""
    shape = ""
    groups = ""
    lookup = ""
    operator = ""
    about_group = ""
    for column, known in groups_of(artifact).items():
        group = ", group"
        shape = GROUP
        groups = f"GROUPS = {index_of_each(known)!r}\n"
        lookup = LOOKUP
        operator = "import operator\n"
        about_group = (
            f"\ngroup : (n,) names of the {column!r}, as text,"
            " or integers, their places in GROUPS;"
            " any other\nname or number is a group that the fit has not seen."
        )
    text_of_constants = "".join(constants)
    if constants:
        text_of_constants += "\n"
    return PAGE.format(
        k=k,
        kind=kind,
        method=artifact.method,
        version=artifact.calcli_version,
        pair=pair,
        shape=shape,
        lines="\n".join(lines),
        names=artifact.class_names,
        probs=names[graph.outputs["probs"]],
        prediction=names[graph.outputs["prediction"]],
        binary=", or (n,): the score of class 1" if pair else "",
        group=group,
        about_group=about_group,
        groups=groups,
        lookup=lookup,
        operator=operator,
        constants=text_of_constants,
    )


def _number(value: float) -> str:
    text = repr(value)
    if "inf" in text:
        return text.replace("inf", "np.inf")
    if text.startswith("-"):
        return f"({text})"
    return text


def _constant(array: AnyArray) -> str:
    if array.size <= SHORT and np.isfinite(array).all():
        return f"np.array({array.tolist()!r}, dtype=np.{array.dtype.name})"
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    text = base64.b64encode(plain.tobytes()).decode("ascii")
    return f'_array("{text}", "{plain.dtype.str}", {array.shape})'


def load_source(text: str) -> dict[str, Any]:
    """Run a module's source in a namespace of its own, and return that."""
    namespace: dict[str, Any] = {"__name__": "calibrator"}
    exec(compile(text, "<exported calibrator>", "exec"), namespace)
    return namespace


def write_python(artifact: Artifact, graph: Graph, wide: bool) -> Written:
    """Write a graph as Python source, which takes scores of any type."""
    data = write_source(artifact, graph).encode()
    return Written(data, source_run(data))


def source_run(data: bytes) -> Run:
    module = load_source(data.decode())

    def run(*arrays: Any) -> Any:
        return module["predict_proba"](*arrays), module["predict"](*arrays)

    return run
