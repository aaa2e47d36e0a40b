"""Exported calibrators give what ``apply`` gives: every method, every target, rows that are hard to get right."""

import io
import json
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest
from conftest import REPOSITORY
from run_calcli import runner
from synthetic import rows_of, truth

from calcli.calibrator import Calibrator, Context, Prediction, param
from calcli.errors import UsageError
from calcli.exporting import exporting
from calcli.exporting.calibrator_graph import trace
from calcli.exporting.exporting import TARGETS, ExportOutput, export, tried
from calcli.exporting.graph import Graph
from calcli.exporting.isotonic_and_binning import Pieces, piecewise
from calcli.exporting.operations import OPERATIONS
from calcli.exporting.torch_program import build_module, torch_run
from calcli.exporting.verify import SLAB, TOLERANCE, Agreement, compare, trying_rows
from calcli.io.artifact import Artifact, FitRecord, load
from calcli.numerics import log_softmax, softmax
from calcli.registry import method, method_names, parse_options
from calcli.rows import ArrayRows

GOLDEN = REPOSITORY / "tests" / "golden" / "v01"
QUICK = {
    "cts": {"passes": "1"},
    "ms-odir": {"folds": "2", "lambda": "1"},
    "dir-odir": {"folds": "2", "lambda": "1"},
    "recal": {"rounds": "3"},
    "auto": {"candidates": "ts,svs,ft+beta,hb"},
}
VARIANTS = [
    ("ts", {"mixture": "true"}),
    ("ets", {"mixture": "true"}),
    ("iop", {"variant": "oi", "epochs": "2"}),
    ("iop", {"variant": "op", "epochs": "2", "mixture": "true"}),
    ("ms-odir", {"folds": "2", "lambda": "1", "final": "refit"}),
    ("hoki", {"noise": "gumbel", "scale": "1", "init": "confidence"}),
    ("sb", {"base": "beta", "mode": "ova"}),
    ("sb", {"base": "vector"}),
    ("sb", {"base": "dirichlet"}),
    ("sb", {"base": "temperature"}),
    ("hb", {"mode": "ova", "scheme": "mass"}),
    ("beta", {"mode": "ova"}),
    ("quadratic", {"mode": "top"}),
    ("logit-spline", {"mode": "top"}),
    ("logit-spline", {"mode": "ova", "knots": "5"}),
    ("ir", {"mode": "marginal"}),
    ("irova+ts", {}),
    ("ft+svs+beta", {}),
    ("ts+hb", {}),
]
CASES = [(name, QUICK.get(name, {}), k) for k in (10, 2) for name in method_names()]
CASES += [(name, options, k) for k in (10, 2) for name, options in VARIANTS]
REFUSED = {"recal"}


def named(case):
    name, options, k = case
    return "-".join(
        [name, *(f"{key}={value}" for key, value in options.items()), str(k)]
    )


@cache
def fitted(name, options, k, kind="logits"):
    z, y = truth(400, k, seed=k)
    if kind == "logits":
        rows = rows_of(z.astype(np.float32), y)
    else:
        p = log_softmax(z) if kind == "log_probs" else softmax(z)
        rows = ArrayRows(p, y, kind)
    settings = parse_options(name, dict(options))
    fit = method(name).fit(rows, settings, Context())
    return Artifact(
        method=name,
        options={},
        calibrator=fit.calibrator,
        n_classes=k,
        input_kind=kind,
        class_names=None,
        fit=FitRecord(n=400, status=fit.status),
    )


def eager_torch(artifact):
    """The torch module itself; that its program does the same is the subject of another test."""
    return torch_run(build_module(trace(artifact)))


@pytest.mark.parametrize("case", CASES, ids=named)
def test_every_method_gives_the_same_on_every_target(case):
    name, options, k = case
    artifact = fitted(name, tuple(options.items()), k)
    if name in REFUSED:
        with pytest.raises(UsageError, match="transforms"):
            trace(artifact)
        return
    made = [export(artifact, target) for target in ("python", "onnx")]
    agreements = [exported.agreement for exported in made] + [
        tried(eager_torch(artifact), artifact)
    ]
    for run in [
        *(exported.run for exported in made),
        eager_torch(artifact),
    ]:  # onnxruntime had stumbled over no rows
        probs, label = run(np.zeros((0, k), dtype=np.float32))
        assert probs.shape == (0, k) and label.shape == (0,)
    for agreement in agreements:
        assert agreement.rows > 280
        assert agreement.difference <= 1e-6 and agreement.labels == 0, agreement
        # Only rows made to lie on edges (ties, constants) may be a matter of the last bit.
        assert agreement.on_jumps <= 40


@pytest.mark.parametrize("kind", ["log_probs", "probs"])
@pytest.mark.parametrize("name", ["vs", "ft", "hb", "beta", "irova"])
def test_other_kinds_of_scores(name, kind):
    artifact = fitted(name, (), 10, kind)
    for target in ("python", "onnx"):
        assert export(artifact, target).agreement.holds


@pytest.mark.parametrize(
    "path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem
)
def test_artifacts_of_0_1(path):
    artifact = load(str(path))
    if "recal" in path.name or "gamma-mc" in path.name:
        with pytest.raises(UsageError, match="transforms|draws"):
            trace(artifact)
        return
    assert export(artifact, "python").agreement.holds
    assert export(artifact, "onnx").agreement.holds
    assert tried(eager_torch(artifact), artifact).holds


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ft+svs+beta", "hb", "iop"])
def test_torch_programs_take_any_number_of_rows(name):
    options = {"variant": "oi", "epochs": "2"} if name == "iop" else {}
    made = export(fitted(name, tuple(options.items()), 10), "torch")
    assert made.agreement.holds
    assert made.run(np.zeros((1, 10), np.float32))[0].shape == (1, 10)
    # not even where this machine keeps calcli
    with zipfile.ZipFile(io.BytesIO(made.data)) as archive:
        assert not [
            name
            for name in archive.namelist()
            if str(REPOSITORY).encode() in archive.read(name)
        ]


@pytest.mark.parametrize(
    ("name", "k"), [("cifar10_resnet20", 10), ("cifar100_resnet20", 100)]
)
@pytest.mark.parametrize("name_of_method", ["ft+svs+beta", "irova", "hb"])
def test_real_logits(real, name, k, name_of_method):
    data = real(name)
    z, y = data["logits"][:3000], data["labels"][:3000]
    calibrator = (
        method(name_of_method)
        .fit(ArrayRows(z, y), parse_options(name_of_method, {}), Context())
        .calibrator
    )
    artifact = Artifact(
        method=name_of_method,
        options={},
        calibrator=calibrator,
        n_classes=k,
        input_kind="logits",
        class_names=None,
        fit=FitRecord(n=3000, status="ok"),
    )
    for target in ("python", "onnx"):
        agreement = compare(
            export(artifact, target).run, artifact, data["logits"][5000:8000]
        )
        assert agreement.holds
        assert agreement.on_jumps <= 3


@dataclass(frozen=True)
class Toy(Calibrator):
    """A method in plain NumPy, which nothing in ``calcli.export`` knows of."""

    how: ClassVar[Any]
    shift: np.ndarray = param("k")

    @classmethod
    def fit(cls, rows, options, context):
        raise NotImplementedError

    def apply(self, block):
        return Prediction.by_argmax(log_softmax(self.how(block.z)))


def toy(how, shift):
    calibrator = type("Toy", (Toy,), {"how": how})(shift)
    return msgspec.structs.replace(
        fitted("ts", (), 10), method="toy", calibrator=calibrator
    )


def sharpened_below_the_top(self, z):
    top, here = z.argmax(axis=1), np.arange(len(z))
    p = softmax(z)
    gap = (p[here, top] - np.sort(self.shift)[0]).clip(0.05, 0.95)
    out = np.where(p > 0.5, z, z - np.abs(z) ** 1.5 * 1e-3)
    out[here, top] = z[here, top] + gap
    out += self.shift
    return out


def by_masks_and_views(self, z):
    z = z - z.max(axis=1, keepdims=True)
    flat = (z.min(axis=1) > -1.0) & ~(np.abs(z.mean(axis=-1)) > 3.0)
    out = z.copy()
    if flat.any():
        out[flat] = np.tanh(z[flat]) * 2.0
    columns = out.T  # a view: what is written here is written there
    columns *= 1.0 + 0.1 * np.expm1(-self.shift)[:, None]
    out[:, 1] = np.logaddexp(out[:, 0], out[:, 1])
    return np.concatenate(
        [
            out[:, :2],
            np.interp(out[:, 2:].ravel(), [-9.0, 0.0], [-5.0, 0.0]).reshape(-1, 8),
        ],
        axis=1,
    )


def as_a_matrix_of_features(self, z):
    u = z - z.max(axis=1)[:, None]
    width = np.sqrt(np.einsum("ij,ij->i", u, u) / u.shape[1])
    features = np.column_stack(
        [np.ones(len(z)), width, np.add.reduce(np.exp(u), axis=1)]
    )
    scale = 1.0 + 0.5 * np.tanh(features @ self.shift[:3])
    return (np.diag(1.0 + self.shift) @ u.T).T * scale[:, None]


@pytest.mark.parametrize(
    "how", [sharpened_below_the_top, by_masks_and_views, as_a_matrix_of_features]
)
def test_a_new_method_in_plain_numpy_is_exported_without_a_word(how):
    artifact = toy(how, np.linspace(-0.3, 0.3, 10))
    for target in ("python", "onnx", "torch"):
        agreement = export(artifact, target).agreement
        assert agreement.rows > 280
        assert (
            agreement.difference <= (1e-12 if target == "python" else 1e-6)
            and not agreement.labels
        )


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (lambda self, z: z - z.mean(axis=0), "brings rows together"),
        (lambda self, z: z - z.mean(), "makes an array of shape"),
        (lambda self, z: z + np.arange(len(z))[:, None], "one constant for every row"),
        (lambda self, z: np.sort(z, axis=1), "calls numpy.sort"),
        (lambda self, z: np.cumsum(z, axis=1), "calls numpy.cumsum"),
        (lambda self, z: z if z[0, 0] > 0 else -z, "takes"),
        (lambda self, z: z if z.max() > 0 else -z, "makes an array of shape"),
        (lambda self, z: z * float(z[:, 0]), "makes a number"),
        (lambda self, z: z @ z.T, "multiplies matrices across rows"),
        (
            lambda self, z: self.shift[z.argmax(axis=1)][:, None] + z,
            "asks for the numbers",
        ),
        (lambda self, z: np.add(z, 1.0, out=z), "writes into its input"),
        (lambda self, z: z.astype(np.float32), "turns numbers into float32"),
    ],
)
def test_what_no_graph_can_follow_is_refused_with_the_reason(how, said):
    artifact = toy(how, np.zeros(10))
    with pytest.raises(UsageError, match=f"cannot be exported: its apply .*{said}"):
        trace(artifact)


def test_a_wrong_export_is_found():
    ts, other = fitted("ts", (), 10), fitted("identity", (), 10)
    agreement = tried(export(other, "python").run, ts)
    assert agreement.difference > 0.01 and not agreement.holds
    hb, svs = fitted("hb", (), 10), fitted("svs", (), 10)
    agreement = tried(export(svs, "python").run, hb)
    assert not agreement.holds
    assert not (Agreement(1, 0.0, 0) + Agreement(1, float("nan"), 0)).holds


# ---- the command


@pytest.fixture
def at_work(tmp_path, monkeypatch, capsys):
    """A folder with ts.json and rows.h5, and a function that runs calcli there."""
    import h5py

    from calcli.io.artifact import save

    monkeypatch.chdir(tmp_path)
    save(fitted("ts", (), 10), "ts.json")
    z, y = truth(50, 10)
    with h5py.File("rows.h5", "w") as file:
        file["logits"], file["labels"] = z.astype(np.float32), y
    return runner(monkeypatch, capsys)


def test_export_command(at_work):
    done = at_work(
        "export",
        "ts.json",
        "--to",
        "python",
        "-o",
        "c.py",
        "--check",
        "rows.h5",
        "--json",
    )
    output = json.loads(done.out)
    assert done.code == 0
    assert (
        output["rows"] > 330
        and output["difference"] <= 1e-12
        and output["labels_differ"] == 0
    )
    namespace = {}
    exec(Path("c.py").read_text(), namespace)
    p = namespace["predict_proba"]([[1.0] + [0.0] * 9])
    assert p.shape == (1, 10) and p.sum() == pytest.approx(1.0)
    assert namespace["predict"](np.eye(10)).tolist() == list(range(10))
    with pytest.raises(ValueError, match="expected"):
        namespace["predict"](np.eye(9))
    with pytest.raises(ValueError, match="finite"):
        namespace["predict"](np.full((1, 10), np.nan))
    assert at_work("export", "ts.json", "--to", "python", "-o", "c.py").code == 2
    assert at_work("export", "ts.json", "--to", "tflite", "-o", "d").code == 2
    assert (
        at_work(
            "export", "ts.json", "--to", "torch", "--onto", "m.onnx", "-o", "d"
        ).code
        == 2
    )


def test_a_difference_fails_the_export_and_writes_nothing(at_work, monkeypatch):
    monkeypatch.setattr(exporting, "tried", lambda *arguments: Agreement(10, 2e-6, 0))
    done = at_work("export", "ts.json", "--to", "python", "-o", "c.py")
    assert done.code == 1
    assert "2e-06" in done.line and not Path("c.py").exists()


def test_onnx_output_names(at_work):
    import onnx
    import onnxruntime

    assert at_work("export", "ts.json", "--to", "onnx", "-o", "c.onnx", "-q").code == 0
    graph = onnx.load("c.onnx").graph
    used = {name for node in graph.node for name in node.input}
    # onnxruntime warns of the others on every load
    assert {tensor.name for tensor in graph.initializer} <= used
    model = onnxruntime.InferenceSession("c.onnx")
    assert [i.name for i in model.get_inputs()] == ["scores"]
    assert [o.name for o in model.get_outputs()] == [
        "probs",
        "prediction",
        "confidence",
    ]
    probs, prediction, confidence = model.run(
        None, {"scores": np.eye(10, dtype=np.float32)[:7]}
    )
    assert probs.shape == (7, 10) and probs.dtype == np.float32
    assert prediction.tolist() == list(range(7))
    np.testing.assert_array_equal(confidence, probs.max(axis=1))


def classifier(
    columns,
    output="logits",
    opset=17,
    elem=1,
    extra=None,
    end="Identity",
    shape=True,
    inputs="n",
):
    """A linear classifier of 6 inputs as an ONNX model; its weights.

    extra : name of a second output, of probabilities. end : what is done to the first. shape : whether
    its shape is declared. inputs : its number of rows.
    """
    import onnx
    from onnx import helper

    weight = np.random.default_rng(0).normal(size=(6, columns)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["product"])]
    nodes.append(helper.make_node(end, ["product"], ["ended"]))
    nodes.append(helper.make_node("Cast", ["ended"], [output], to=elem))
    outputs = [
        helper.make_tensor_value_info(output, elem, ["n", columns] if shape else None)
    ]
    if extra:
        nodes.append(helper.make_node("Softmax", ["product"], [extra]))
        outputs.append(helper.make_tensor_value_info(extra, 1, ["n", columns]))
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("x", 1, [inputs, 6])],
        outputs,
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8
    )
    onnx.save(model, "m.onnx")
    return weight


@pytest.mark.parametrize(("opset", "elem"), [(13, 1), (17, 10), (18, 11), (21, 1)])
def test_joined_to_a_classifier(at_work, opset, elem):
    import onnxruntime

    weight = classifier(10, opset=opset, elem=elem)
    done = at_work(
        "export",
        "ts.json",
        "--to",
        "onnx",
        "--onto",
        "m.onnx",
        "-o",
        "j.onnx",
        "--json",
    )
    assert done.code == 0, done.err
    assert json.loads(done.out)["scores"] == "logits"
    x = np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32)
    probs, logits = onnxruntime.InferenceSession("j.onnx").run(
        ["probs", "logits"], {"x": x}
    )
    temperature = fitted("ts", (), 10).calibrator.temperature
    np.testing.assert_allclose(
        probs, softmax(logits.astype(np.float64) / temperature), atol=1e-6
    )
    np.testing.assert_allclose(logits, x @ weight, atol=0.02)


def test_a_binary_classifier_with_one_column(at_work):
    import onnxruntime

    from calcli.io.artifact import save

    artifact = fitted("platt", (), 2)
    save(artifact, "platt.json")
    weight = classifier(1)
    assert (
        at_work(
            "export", "platt.json", "--to", "onnx", "--onto", "m.onnx", "-o", "j.onnx"
        ).code
        == 0
    )
    x = np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32)
    (probs,) = onnxruntime.InferenceSession("j.onnx").run(["probs"], {"x": x})
    s = (x @ weight)[:, 0].astype(np.float64)
    slope, intercept = artifact.calibrator.slope[0], artifact.calibrator.intercept[0]
    np.testing.assert_allclose(
        probs[:, 1], 1 / (1 + np.exp(-(slope * s + intercept))), atol=1e-6
    )


def test_a_binary_classifier_with_one_column_of_probabilities(at_work):
    import onnxruntime

    from calcli.io.artifact import save

    artifact = fitted("platt", (), 2, "probs")
    save(artifact, "platt.json")
    weight = classifier(1, output="sure", end="Sigmoid").astype(np.float64)[:, 0]
    assert (
        at_work(
            "export", "platt.json", "--to", "onnx", "--onto", "m.onnx", "-o", "j.onnx"
        ).code
        == 0
    )
    sure = np.array([0.1, 0.4, 0.75, 0.9])
    log_odds = np.log(sure / (1 - sure))
    # so that sigmoid(x weight) is what we say
    x = (log_odds[:, None] * weight / (weight @ weight)).astype(np.float32)
    (probs,) = onnxruntime.InferenceSession("j.onnx").run(["probs"], {"x": x})
    slope, intercept = artifact.calibrator.slope[0], artifact.calibrator.intercept[0]
    np.testing.assert_allclose(
        probs[:, 1], 1 / (1 + (1 / sure - 1) ** slope * np.exp(-intercept)), atol=1e-5
    )


def test_what_cannot_be_joined(at_work):
    classifier(9)
    assert (
        "no output fits"
        in at_work(
            "export", "ts.json", "--to", "onnx", "--onto", "m.onnx", "-o", "j"
        ).line
    )
    classifier(10, output="a", extra="soft")
    for options in ([], ["--at", "a"]):  # the other output is probabilities
        chosen = at_work(
            "export",
            "ts.json",
            "--to",
            "onnx",
            "--onto",
            "m.onnx",
            *options,
            "-o",
            "j",
            "--json",
            "--force",
        )
        assert json.loads(chosen.out)["scores"] == "a"
    classifier(10, opset=12)
    assert (
        "opset 12"
        in at_work(
            "export", "ts.json", "--to", "onnx", "--onto", "m.onnx", "-o", "k"
        ).line
    )
    Path("m.onnx").write_bytes(b"no model")
    assert (
        at_work("export", "ts.json", "--to", "onnx", "--onto", "m.onnx", "-o", "k").code
        == 3
    )
    assert not Path("k").exists()


def joined(run, artifact, *options):
    """What export says of artifact.json behind m.onnx, as the contract has it: nothing is written unless it is 0."""
    from calcli.io.artifact import save

    save(artifact, "artifact.json", force=True)
    done = run(
        "export",
        "artifact.json",
        "--to",
        "onnx",
        "--onto",
        "m.onnx",
        *options,
        "-o",
        "j.onnx",
        "--force",
    )
    assert Path("j.onnx").exists() == (done.code == 0)
    return done


@pytest.mark.parametrize("inputs", ["n", 1])
@pytest.mark.parametrize(("columns", "k"), [(10, 10), (2, 2), (1, 2)])
def test_a_calibrator_is_never_joined_to_scores_of_another_kind(
    at_work, columns, k, inputs
):
    """By the values alone: the last operations say nothing (an Abs and a division by the sum make probabilities)."""
    import onnx

    classifier(columns, inputs=inputs)
    assert joined(at_work, fitted("ts", (), k)).code == 0
    Path("j.onnx").unlink()
    refused = joined(at_work, fitted("ts", (), k, "probs"))
    assert refused.code == 3 and "no probs" in refused.line
    model = onnx.load("m.onnx")
    node = onnx.helper.make_node
    if columns > 1:
        model.graph.node.extend(
            [
                node("Abs", ["logits"], ["sizes"]),
                node("ReduceL1", ["logits"], ["sum"], axes=[1]),
                node("Div", ["sizes", "sum"], ["scores"]),
            ]
        )
    else:
        model.graph.node.extend(
            [node("Sin", ["logits"], ["sin"]), node("Mul", ["sin", "sin"], ["scores"])]
        )
    model.graph.output[0].name = "scores"
    onnx.save(model, "m.onnx")
    refused = joined(at_work, fitted("ts", (), k))
    assert (
        refused.code == 3
        and "is probs, the calibrator was fitted to logits" in refused.line
    )
    assert joined(at_work, fitted("ts", (), k), "--at", "scores").code == 3
    assert joined(at_work, fitted("ts", (), k, "probs")).code == 0


def test_a_classifier_that_cannot_be_run_is_not_joined(at_work):
    import onnx

    for end, kind in (("Softmax", "probs"), ("Identity", "logits"), ("Relu", "logits")):
        classifier(10, end=end)
        model = onnx.load("m.onnx")
        model.graph.node.insert(
            0, onnx.helper.make_node("Reshape", ["y", "five"], ["x"])
        )
        model.graph.initializer.append(
            onnx.numpy_helper.from_array(np.array([-1, 6]), "five")
        )
        model.graph.input[0].CopyFrom(
            onnx.helper.make_tensor_value_info("y", 1, ["n", 5])
        )
        onnx.save(model, "m.onnx")  # 8 rows of 5 are not rows of 6
        Path("j.onnx").unlink(missing_ok=True)
        done = joined(at_work, fitted("ts", (), 10, kind))
        assert done.code == 3 and not Path("j.onnx").exists()
        assert "does not run on random inputs" in done.err


def test_an_output_without_a_shape(at_work):
    import onnxruntime

    weight = classifier(10, shape=False)
    assert joined(at_work, fitted("ts", (), 10)).code == 0
    x = np.eye(6, dtype=np.float32)
    (probs,) = onnxruntime.InferenceSession("j.onnx").run(["probs"], {"x": x})
    temperature = fitted("ts", (), 10).calibrator.temperature
    np.testing.assert_allclose(
        probs, softmax(weight.astype(np.float64) / temperature), atol=1e-6
    )


@pytest.mark.parametrize("options", [(), ("--at", "logits")])
def test_a_classifier_with_outputs_named_as_the_calibrators(at_work, options):
    import onnxruntime

    classifier(10, extra="probs")
    done = joined(at_work, fitted("ts", (), 10), *options)
    assert done.code == 0 and "calibrated_probs" in done.err
    model = onnxruntime.InferenceSession("j.onnx")
    names = ["logits", "probs", "calibrated_probs", "prediction", "confidence"]
    assert [o.name for o in model.get_outputs()] == names
    logits, onnx_probs, probs, prediction, confidence = model.run(
        names, {"x": np.eye(6, dtype=np.float32)}
    )
    temperature = fitted("ts", (), 10).calibrator.temperature
    np.testing.assert_allclose(
        onnx_probs, softmax(logits.astype(np.float64)), atol=1e-6
    )
    np.testing.assert_allclose(
        probs, softmax(logits.astype(np.float64) / temperature), atol=1e-6
    )
    np.testing.assert_array_equal(prediction, probs.argmax(axis=1))
    np.testing.assert_array_equal(confidence, probs.max(axis=1))
    Path("j.onnx").replace("m.onnx")
    assert (
        "joined to a calibrator already"
        in joined(at_work, fitted("ts", (), 10), "--at", "logits").line
    )


@pytest.mark.parametrize("end", ["Softmax", "LogSoftmax", "Sigmoid"])
def test_a_classifier_that_ends_in_probabilities_is_not_taken_for_one_of_logits(
    at_work, end
):
    import onnx
    import onnxruntime

    weight = classifier(10, output="logits")
    model = onnx.load("m.onnx")
    model.graph.node.append(onnx.helper.make_node(end, ["logits"], ["inside"]))
    model.graph.node.append(onnx.helper.make_node("Identity", ["inside"], ["scores"]))
    model.graph.output[0].name = "scores"
    onnx.save(model, "m.onnx")
    refused = at_work(
        "export", "ts.json", "--to", "onnx", "--onto", "m.onnx", "-o", "j.onnx"
    )
    assert (
        refused.code == 3 and "was fitted to logits: --at logits takes" in refused.line
    )
    done = at_work(
        "export",
        "ts.json",
        "--to",
        "onnx",
        "--onto",
        "m.onnx",
        "--at",
        "logits",
        "-o",
        "j.onnx",
    )
    assert done.code == 0, done.err
    x = np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32)
    (probs,) = onnxruntime.InferenceSession("j.onnx").run(["probs"], {"x": x})
    temperature = fitted("ts", (), 10).calibrator.temperature
    np.testing.assert_allclose(
        probs, softmax((x @ weight).astype(np.float64) / temperature), atol=1e-6
    )


def test_the_stored_table_holds_what_it_shows():
    # make exports
    lines = json.loads((REPOSITORY / "docs" / "exports.json").read_text("utf-8"))
    for classes in (10, 100):
        assert (
            len({line["method"] for line in lines if line["classes"] == classes}) >= 25
        )
    measured = [line for line in lines if "refused" not in line]
    assert {line["method"] for line in lines} - {
        line["method"] for line in measured
    } == {"recal"}
    assert (
        max(line[target] for line in measured for target in ("onnx", "torch", "python"))
        <= TOLERANCE
    )
    assert sum(line["predictions"] for line in measured) == 0


@pytest.mark.slow
def test_classes_of_a_vocabulary_are_tried_in_slabs():
    """np.eye(200000) would take 320 GB."""
    k, rows = 200_000, 0
    for scores in trying_rows(k, "logits"):
        assert scores.size <= SLAB
        rows += len(scores)
    assert rows == 289  # as of four classes


def test_a_score_on_an_edge_belongs_below_it_unless_the_map_is_closed_there():
    """Steps .2 up to .5 and .8 beyond: at the edge, and what is looked up moved above and below it."""
    steps = Pieces.steps(np.array([0.0, 0.5, 1.0]), np.array([0.2, 0.8]))
    cases = (
        ({}, 0.0, 0.2),
        ({"closed": True}, 0.0, 0.8),
        ({}, 0.01, 0.8),
        ({"closed": True}, -0.01, 0.2),
    )
    for how, nudge, expected in cases:
        graph = Graph(nudge=np.array([[nudge, 0.0]]))
        end = piecewise(graph.scores(1), [steps], **how).place
        values = {}
        for place, node in enumerate(graph.nodes):
            text = (
                OPERATIONS[node.op].source.format(*(f"x[{i}]" for i in node.inputs))
                if node.inputs
                else ""
            )
            values[place] = eval(text, {"np": np, "x": values}) if text else node.array
            values[place] = np.array([[0.5]]) if node.op == "scores" else values[place]
        assert values[end] == expected


def test_the_schema_of_an_export_names_every_target():
    schema = msgspec.json.schema(ExportOutput)
    to = schema["$defs"]["ExportOutput"]["properties"]["to"]
    assert to["enum"] == list(TARGETS)
