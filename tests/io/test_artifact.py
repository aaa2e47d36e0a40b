"""Artifacts: what is written reads back exactly; everything else is refused with a sentence."""

import base64
import copy
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calcli.errors import DataError
from calcli.io.artifact import Artifact, FitRecord, dumps, loads
from calcli.registry import method

GOOD = {
    "calcli_artifact": 1,
    "calcli_version": "0.1.0",
    "method": "ts",
    "options": {"loss": "nll"},
    "params": {"temperature": 1.4344512},
    "n_classes": 3,
    "input_kind": "logits",
    "class_names": ["a", "b", "c"],
    "fit": {
        "n": 10,
        "status": "ok",
        "warnings": [],
        "data_sha256": "ab",
        "before": {},
        "after": {},
    },
}


def artifact_of(name, calibrator, k=3, options=None):
    return Artifact(
        method=name,
        options=options or {},
        calibrator=calibrator,
        n_classes=k,
        input_kind="logits",
        class_names=None,
        fit=FitRecord(n=1, status="ok"),
    )


def test_a_minimal_artifact_is_read():
    loaded = loads(json.dumps(GOOD), "a.json")
    assert loaded.calibrator.temperature == 1.4344512
    assert loaded.class_names == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (["calcli_artifact"], 2, "artifact format 2"),
        (["calcli_artifact"], "1", "artifact format"),
        (["method"], "tss", "no method is named 'tss'"),
        (["method"], 3, "expected `str`"),
        (["surprise"], 1, "unknown field surprise"),
        (
            ["params", "temperature"],
            "1.4",
            'params.temperature is "1.4", expected float',
        ),
        (["params", "temperature"], None, "expected float"),
        (["params", "temperature"], True, "expected float"),
        (["params", "temperature"], -1.0, "expected a positive number"),
        (["params", "extra"], 1, "params hold unknown extra"),
        (["params"], {}, "params lack temperature"),
        (["options", "loss"], "mae", "invalid enum value 'mae'"),
        (["options", "more"], 1, "unknown field more"),
        (["n_classes"], 1, "n_classes is 1"),
        (["n_classes"], 4, "class_names"),
        (["n_classes"], "3", "expected `int`"),
        (["input_kind"], "scores", "input_kind"),
        (["fit", "status"], "fine", "status"),
        (["fit", "unknown"], 1, "unknown field unknown"),
        (["fit"], None, "fit"),
    ],
)
def test_what_is_wrong_is_said(path, value, says):
    content = copy.deepcopy(GOOD)
    node = content
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    with pytest.raises(DataError) as caught:
        loads(json.dumps(content), "a.json")
    message = str(caught.value)
    assert message.startswith("a.json: ")
    assert says.replace("`", "") in message.replace("`", "")
    assert "\n" not in message


@pytest.mark.parametrize("key", list(GOOD))
def test_every_key_is_needed(key):
    content = {k: v for k, v in GOOD.items() if k != key}
    with pytest.raises(DataError):
        loads(json.dumps(content), "a.json")


@pytest.mark.parametrize(
    "text", ["", "[]", "3", "null", "{", '{"a": NaN}', "\x00", '{"calcli_artifact": 1}']
)
def test_what_is_no_artifact_is_refused(text):
    with pytest.raises(DataError, match=r"^a\.json: "):
        loads(text, "a.json")


@pytest.mark.parametrize(
    "spoil", ["shape", "bytes", "alphabet", "dtype", "keys", "infinite"]
)
def test_spoiled_base64_is_refused(spoil):
    weight = np.arange(6400.0).reshape(80, 80)
    bias = np.zeros(80)
    text = dumps(artifact_of("ms", method("ms")(weight, bias), k=80))
    content = json.loads(text)
    packed = content["params"]["weight"]
    assert set(packed) == {"dtype", "shape", "base64"}
    content["options"] = json.loads(dumps_options("ms"))
    np.testing.assert_array_equal(
        loads(json.dumps(content), "a.json").calibrator.weight, weight
    )
    if spoil == "shape":
        packed["shape"] = [80, 81]
    elif spoil == "bytes":
        packed["base64"] = packed["base64"][:-8]
    elif spoil == "alphabet":
        packed["base64"] = "?" + packed["base64"][1:]
    elif spoil == "dtype":
        packed["dtype"] = "object"
    elif spoil == "keys":
        packed["more"] = 1
    else:
        weight[0, 0] = np.inf
        packed["base64"] = base64.b64encode(weight.tobytes()).decode()
    with pytest.raises(
        DataError, match=r"a\.json: is no valid artifact: params\.weight"
    ):
        loads(json.dumps(content), "a.json")


def test_an_entry_of_an_array_that_is_no_number_is_named_by_its_place():
    content = json.loads(dumps(artifact_of("ms", method("ms")(np.eye(3), np.zeros(3)))))
    content["options"] = json.loads(dumps_options("ms"))
    content["params"]["weight"][1][2] = True
    with pytest.raises(
        DataError,
        match=r"params\.weight is no array of float64: .*`bool` - at `\$\[1\]\[2\]`",
    ):
        loads(json.dumps(content), "a.json")


def dumps_options(name):
    import msgspec

    return msgspec.json.encode(method(name).Options())


@given(st.floats(min_value=1e-250, max_value=1e300, allow_nan=False))
@settings(max_examples=200, deadline=None)
def test_numbers_read_back_exactly(temperature):
    text = dumps(artifact_of("ts", method("ts")(temperature), options={"loss": "nll"}))
    assert loads(text, "a").calibrator.temperature == temperature


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
)
ANY_JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=8), ANY_JSON))
@settings(max_examples=200, deadline=None)
def test_any_json_is_refused_or_read_never_worse(extra):
    for content in (
        extra,
        {**GOOD, **extra},
        {**GOOD, "params": extra},
        {**GOOD, "fit": extra},
    ):
        said = ""
        try:
            loads(json.dumps(content), "a.json")
        except DataError as error:
            said = str(error)
        assert "\n" not in said
