"""Running models over inputs: every kind of model and input, resuming, and every way to fail."""

import json
import sys
from contextlib import ExitStack

import h5py
import numpy as np
import pytest
from conftest import REPOSITORY

torch = pytest.importorskip("torch")

from calcli.calibrator import Context  # noqa: E402
from calcli.errors import DataError, UsageError  # noqa: E402
from calcli.extracting.model_inputs import ModelJob, open_inputs  # noqa: E402
from calcli.extracting.run import run_model  # noqa: E402
from calcli.extracting.transforms import parse  # noqa: E402
from calcli.importers.building.dealing import Splitting  # noqa: E402
from calcli.io.bundle import open_bundle  # noqa: E402
from calcli.io.split import parse_split  # noqa: E402

N, K = 23, 4


class Net(torch.nn.Module):
    """Scores of grey 6 x 6 images; only the size of the batch is free."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, K))

    def forward(self, x):
        return self.layers(x)


MODULE = """
import torch
from test_extract_model import Net

class Moody(Net):
    limit = None
    def forward(self, x):
        if Moody.limit is not None and float(x.sum()) > Moody.limit:
            raise ValueError("bad mood")
        return super().forward(x)

def net(): return Net()
def unseeded():
    torch.seed()
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 4))
def moody(): return Moody()
def broken(): raise RuntimeError("no weights today")
def features():
    return torch.nn.Identity()
def sigmoid():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 1))
def nan():
    class Nan(Net):
        def forward(self, x): return super().forward(x) / 0 * 0
    return Nan()
number = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with inputs, a module of factories and the net's expected scores."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(__file__.rpartition("/")[0])
    monkeypatch.delitem(sys.modules, "user_nets", raising=False)
    (tmp_path / "user_nets.py").write_text(MODULE)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(N, 6, 6), dtype=np.uint8)
    labels = np.arange(N) % K
    names = np.asarray(["a", "b", "c", "d"])
    np.savez(
        tmp_path / "images.npz",
        images=images,
        labels=labels,
        ids=np.arange(N) + 100,
        class_names=names,
    )
    return tmp_path


def pictures(folder):
    return np.load(folder / "images.npz")["images"].astype(np.float32) / 255


def expected(x):
    with torch.no_grad():
        return Net()(torch.from_numpy(np.ascontiguousarray(x))).numpy()


def job(**changes):
    return ModelJob(
        **{
            "model": "user_nets:net",
            "inputs": "images.npz",
            "layout": "nhw",
            "batch": 5,
            **changes,
        }
    )


def run(folder, splitting=None, force=False, context=None, out="out.h5", **changes):
    return run_model(
        job(**changes),
        folder / out,
        splitting or Splitting(),
        force=force,
        context=context or Context(),
    )


def saved(folder, group="", out="out.h5"):
    with h5py.File(folder / out) as file:
        node = file[group] if group else file
        arrays = {}
        node.visititems(
            lambda name, item: (
                arrays.update({name: item[()]}) if hasattr(item, "shape") else None
            )
        )
        return arrays, json.loads(node.attrs["source"])


def save_model(kind, folder):
    net, example = Net().eval(), torch.zeros(2, 1, 6, 6)
    match kind:
        case "pt2":
            batch = torch.export.Dim("batch")
            torch.export.save(
                torch.export.export(net, (example,), dynamic_shapes=({0: batch},)),
                folder / "net.pt2",
            )
            return "net.pt2"
        case "pt2 of batch 2":
            torch.export.save(torch.export.export(net, (example,)), folder / "net.pt2")
            return "net.pt2"
        case "torchscript":
            torch.jit.trace(net, example).save(str(folder / "net.pt"))
            return "net.pt"
        case "onnx":
            onnx = pytest.importorskip("onnx")
            pytest.importorskip("onnxruntime")
            weight, bias = (p.detach().numpy() for p in net.parameters())
            tensor, helper = onnx.TensorProto.FLOAT, onnx.helper
            graph = helper.make_graph(
                [
                    helper.make_node("Flatten", ["x"], ["flat"]),
                    helper.make_node("Gemm", ["flat", "w", "b"], ["logits"], transB=1),
                ],
                "net",
                [helper.make_tensor_value_info("x", tensor, ["n", 1, 6, 6])],
                [helper.make_tensor_value_info("logits", tensor, ["n", K])],
                [
                    onnx.numpy_helper.from_array(weight, "w"),
                    onnx.numpy_helper.from_array(bias, "b"),
                ],
            )
            model = helper.make_model(
                graph, opset_imports=[helper.make_opsetid("", 17)]
            )
            model.ir_version = 9
            onnx.save(model, folder / "net.onnx")
            return "net.onnx"
    return "user_nets:net"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "kind", ["factory", "pt2", "pt2 of batch 2", "torchscript", "onnx"]
)
def test_every_kind_of_model_gives_the_same_bundle(folder, kind):
    run(folder, model=save_model(kind, folder), transform=("brightness:0.5",))
    arrays, source = saved(folder)
    x = pictures(folder)[:, None]
    np.testing.assert_allclose(arrays["logits"], expected(x), atol=1e-6)
    np.testing.assert_allclose(
        arrays["transforms/logits"][0], expected(x * np.float32(0.5)), atol=1e-6
    )
    assert arrays["transforms/specs"].tolist() == [b"brightness:0.5"]
    assert arrays["labels"].tolist() == (np.arange(N) % K).tolist()
    assert arrays["ids"].tolist() == list(range(100, 100 + N))
    assert arrays["class_names"].tolist() == [b"a", b"b", b"c", b"d"]
    assert source["transforms"] == ["brightness:0.5"]
    assert not (folder / "out.h5.job").exists()
    with open_bundle(str(folder / "out.h5")) as rows:
        assert (rows.n, rows.k, rows.transforms) == (N, K, ("brightness:0.5",))


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_weights_of_a_factory(folder, suffix):
    torch.manual_seed(5)
    other = Net()
    with torch.no_grad():
        other.layers[1].weight.mul_(2.0)
    if suffix == ".pt":
        torch.save({"state_dict": other.state_dict()}, folder / "w.pt")
    else:
        pytest.importorskip("safetensors.torch").save_file(
            other.state_dict(), folder / "w.safetensors"
        )
    run(folder, weights=f"w{suffix}")
    with torch.no_grad():
        theirs = other(torch.from_numpy(pictures(folder)[:, None])).numpy()
    np.testing.assert_allclose(saved(folder)[0]["logits"], theirs, atol=1e-6)


def test_normalisation_comes_after_the_transforms(folder):
    run(folder, mean=(0.3,), std=(0.2,), transform=("brightness:0.5",))
    x = pictures(folder)[:, None]
    moved = saved(folder)[0]["transforms/logits"][0]
    np.testing.assert_allclose(
        moved,
        expected((x * np.float32(0.5) - np.float32(0.3)) / np.float32(0.2)),
        atol=1e-5,
    )


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_colour_layouts_reach_the_transforms_and_the_model(folder, layout):
    # 36 numbers for the net
    x = np.random.default_rng(1).random((N, 3, 2, 6)).astype(np.float32)
    np.save(folder / "colour.npy", x if layout == "nchw" else x.transpose(0, 2, 3, 1))
    run(
        folder,
        inputs="colour.npy",
        layout=None if layout == "nchw" else layout,
        transform=("zoom:0.5",),
    )
    arrays, _ = saved(folder)
    np.testing.assert_allclose(arrays["logits"], expected(x), atol=1e-6)
    assert "labels" not in arrays
    kind, s = parse("zoom:0.5")
    moved = kind.apply(
        np.ascontiguousarray(x.transpose(0, 2, 3, 1)), s, np.zeros(N)
    ).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(
        arrays["transforms/logits"][0], expected(moved), atol=1e-6
    )


def test_hdf5_inputs_labels_elsewhere_and_rows_as_they_are(folder):
    x = pictures(folder).reshape(N, 36)
    with h5py.File(folder / "in.h5", "w") as file:
        file["train/x"] = x
        file["other"] = np.zeros(3)
    np.save(folder / "y.npy", np.arange(N) % K)
    run(folder, inputs="in.h5:train/x", labels="y.npy", layout=None)
    arrays, source = saved(folder)
    np.testing.assert_allclose(arrays["logits"], expected(x), atol=1e-6)
    assert arrays["labels"].tolist() == (np.arange(N) % K).tolist()
    assert source["inputs"]["array"] == "train/x"


def test_split_is_stratified_and_covers_every_row(folder):
    texts = ("cal=0.5", "test=rest")
    report = run(folder, Splitting(tuple(map(parse_split, texts)), seed=1, texts=texts))
    (cal, source), (test, _) = saved(folder, "cal"), saved(folder, "test")
    assert sorted([*cal["ids"], *test["ids"]]) == list(range(100, 100 + N))
    assert np.abs(np.bincount(cal["labels"]) - np.bincount(test["labels"])).max() <= 2
    np.testing.assert_allclose(
        cal["logits"], expected(pictures(folder)[:, None])[cal["ids"] - 100], atol=1e-6
    )
    assert source["split"] == {
        "groups": list(texts),
        "method": "stratified",
        "name": "cal",
        "seed": 1,
    }
    assert [bundle.name for bundle in report.bundles] == ["cal", "test"]


def test_probabilities_one_score_and_small_floats(folder):
    np.save(folder / "bare.npy", pictures(folder))
    run(folder, model="user_nets:sigmoid", inputs="bare.npy", dtype="float16")
    arrays, _ = saved(folder)
    assert arrays["logits"].shape == (N, 2)
    assert arrays["logits"].dtype == np.float16
    assert (arrays["logits"][:, 0] == 0).all()
    with pytest.raises(
        DataError,
        match=r"user_nets:net on .*row \d+, class \d is -.*, expected a probability",
    ):
        run(folder, kind="probs", out="probs.h5")


def image_folder(folder, sizes=((6, 6),) * 8, grey=True):
    from PIL import Image

    x = np.random.default_rng(2).integers(
        0, 256, size=(len(sizes), 6, 6), dtype=np.uint8
    )
    for i, size in enumerate(sizes):
        place = folder / "pictures" / "abcd"[i % 4]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(x[i]).resize(size).save(place / f"{i}.png")
    return x[[0, 4, 1, 5, 2, 6, 3, 7]].astype(np.float32) / 255


def test_image_folder(folder):
    x = image_folder(folder)
    run(folder, inputs="pictures", layout=None, grey=True)
    arrays, _ = saved(folder)
    np.testing.assert_allclose(arrays["logits"], expected(x[:, None]), atol=1e-6)
    assert arrays["labels"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert arrays["class_names"].tolist() == [b"a", b"b", b"c", b"d"]
    assert arrays["ids"][:2].tolist() == [b"a/0.png", b"a/4.png"]


def test_image_folder_of_unequal_sizes(folder):
    image_folder(folder, sizes=((6, 6),) * 7 + ((5, 6),))
    with pytest.raises(
        DataError, match=r"0\.png is 6 x 6 pixels but d/7\.png is 5 x 6; pass --resize"
    ):
        run(folder, inputs="pictures", layout=None, grey=True)
    run(folder, inputs="pictures", layout=None, grey=True, resize=(6, 6))
    (folder / "pictures" / "e").mkdir()
    with pytest.raises(DataError, match="pictures/e: class folder without images"):
        run(folder, inputs="pictures", layout=None, out="two.h5")


def test_image_folder_with_a_broken_picture_or_too_many_classes(folder):
    image_folder(folder)
    (folder / "pictures" / "e").mkdir()
    (folder / "pictures" / "e" / "x.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"e/x\.png: cannot be read as an image"):
        run(folder, inputs="pictures", layout=None, grey=True)
    (folder / "pictures" / "e" / "x.png").write_bytes(
        (folder / "pictures" / "a" / "0.png").read_bytes()
    )
    with pytest.raises(
        DataError, match=r"has 5 classes, but user_nets:net gives 4 scores"
    ):
        run(folder, inputs="pictures", layout=None, grey=True)


def test_interrupted_job_goes_on_where_it_stopped(folder):
    whole = run(folder, transform=("drop:0.2", "zoom:0.7"), out="whole.h5")
    assert whole.notes == []
    progress_seen = []

    def interrupt(what, done, total):
        progress_seen.append(done)
        if done >= 10 and 15 not in progress_seen:
            progress_seen.append(15)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(
            folder,
            transform=("drop:0.2", "zoom:0.7"),
            context=Context(progress=interrupt),
        )
    part = folder / "out.h5.job"
    assert part.exists()
    assert not (folder / "out.h5").exists()
    with part.open("ab") as file:
        file.write(b"half a row")
    report = run(folder, transform=("drop:0.2", "zoom:0.7"), batch=7)
    assert report.notes == ["out.h5.job: going on after 10 of 23 rows"]
    one, two = saved(folder, out="whole.h5")[0], saved(folder)[0]
    for name in one:
        # another batch size: another order of sums
        np.testing.assert_array_equal(one[name], two[name]) if one[
            name
        ].dtype.kind in "OSi" else (
            np.testing.assert_allclose(one[name], two[name], atol=1e-6)
        )
    assert not part.exists()


def test_part_of_another_job_is_not_touched(folder):
    def interrupt(what, done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(folder, context=Context(progress=interrupt))
    before = (folder / "out.h5.job").read_bytes()
    with pytest.raises(
        UsageError, match=r"out\.h5\.job: holds part of another job \(other mean\)"
    ):
        run(folder, mean=(0.5,))
    assert (folder / "out.h5.job").read_bytes() == before
    run(folder, mean=(0.5,), force=True)
    np.testing.assert_allclose(
        saved(folder)[0]["logits"],
        expected(pictures(folder)[:, None] - np.float32(0.5)),
        atol=1e-6,
    )
    with pytest.raises(KeyboardInterrupt):
        run(
            folder,
            model="user_nets:unseeded",
            out="two.h5",
            context=Context(progress=interrupt),
        )
    # other weights every time
    with pytest.raises(UsageError, match=r"part of another job \(other model\)"):
        run(folder, model="user_nets:unseeded", out="two.h5")
    (folder / "two.h5.job").write_text("precious\n")
    with pytest.raises(UsageError, match="is in the way"):
        run(folder, out="two.h5", force=True)
    assert (folder / "two.h5.job").read_text() == "precious\n"


def test_failing_batch_names_its_rows_and_keeps_the_others(folder):
    import user_nets

    user_nets.Moody.limit = float(pictures(folder)[10:15].sum()) - 0.001
    sums = [float(pictures(folder)[i : i + 5].sum()) for i in range(0, N, 5)]
    first = next(i for i, s in enumerate(sums) if s > user_nets.Moody.limit) * 5
    with pytest.raises(DataError) as problem:
        run(folder, model="user_nets:moody")
    assert (
        f"fails on rows {first}..{first + 4}, inputs of shape (5, 1, 6, 6) float32: ValueError: bad mood"
        in str(problem.value)
    )
    assert "\n" not in str(problem.value)
    user_nets.Moody.limit = None
    report = run(folder, model="user_nets:moody")
    assert first == 0 or report.notes == [
        f"out.h5.job: going on after {first} of {N} rows"
    ]
    np.testing.assert_allclose(
        saved(folder)[0]["logits"], expected(pictures(folder)[:, None]), atol=1e-6
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        (
            {"model": "nothing"},
            UsageError,
            "expected a .pt2, TorchScript .pt or .onnx file, or package.module:factory",
        ),
        ({"model": "missing.pt2"}, DataError, "no such model file"),
        ({"model": "images.npz"}, DataError, "cannot be loaded as TorchScript"),
        ({"model": "nowhere:net"}, UsageError, "cannot import nowhere"),
        ({"model": "user_nets:nothing"}, UsageError, "has no 'nothing'"),
        ({"model": "user_nets:number"}, UsageError, r"number\(\) fails"),
        (
            {"model": "user_nets:broken"},
            UsageError,
            r"broken\(\) fails: no weights today",
        ),
        (
            {"model": "user_nets:features"},
            DataError,
            r"returns scores of shape \(5, 1, 6, 6\) for 5 inputs",
        ),
        (
            {"model": "user_nets:nan"},
            DataError,
            r"user_nets:nan on .*images: row 0, class \d is nan",
        ),
        ({"weights": "missing.pt"}, DataError, "missing.pt: no such file of weights"),
        ({"weights": "images.npz"}, DataError, "cannot be read as weights"),
        ({"inputs": "missing.npz"}, DataError, "no such file or folder of inputs"),
        (
            {"inputs": "images.npz:x"},
            DataError,
            "has no array 'x'; it holds: images, labels",
        ),
        ({"labels": "z"}, DataError, "--labels z: is neither an array beside"),
        (
            {"labels": "class_names"},
            DataError,
            r"labels have shape \(4,\), expected \(23,\)",
        ),
        ({"layout": None}, DataError, "pass --layout nhw"),
        ({"layout": "nchw"}, DataError, "which --layout nchw does not fit"),
        (
            {"layout": "chw"},
            UsageError,
            "expected one of nhwc, nchw, nhw, sequence, rows",
        ),
        (
            {"scale": 16.0, "transform": ("zoom:0.5",)},
            DataError,
            "transforms need 0 .black. to 1; pass --normalize scale=WHITE",
        ),
        ({"transform": ("frames:0.5",)}, UsageError, "needs sequences"),
        ({"transform": ("zoom:0.5",), "layout": "rows"}, UsageError, "needs images"),
        (
            {"mean": (0.1, 0.2)},
            UsageError,
            "--normalize mean: has 2 numbers, expected 1 or 1",
        ),
        ({"std": (0.0,)}, UsageError, "expected positive numbers"),
        ({"dtype": "int8"}, UsageError, "expected one of float16"),
        ({"device": "tpu"}, UsageError, "expected one of auto, cpu, cuda"),
        ({"resize": (3, 3)}, UsageError, "--resize is for image folders"),
    ],
)
def test_what_goes_wrong_before_the_first_row_leaves_nothing(
    folder, changes, kind, message
):
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(kind, match=message) as problem:
        run(folder, **changes)
    assert "\n" not in str(problem.value)
    assert [
        p for p in sorted(path.name for path in folder.iterdir()) if p != "__pycache__"
    ] == before


@pytest.mark.parametrize(
    "name", ["y_true", "gt_label", "label_ids", "ground_truth", "labels"]
)
def test_labels_of_inputs_go_by_the_names_that_imports_know(folder, name):
    np.savez(
        folder / "named.npz",
        images=np.zeros((N, 6, 6), np.uint8),
        **{name: np.arange(N) % K},
    )
    with ExitStack() as stack:
        inputs = open_inputs(
            ModelJob(model="m.pt", inputs="named.npz", layout="nhw"),
            folder / "named.npz",
            None,
            stack,
        )
        assert inputs.labels.tolist() == (np.arange(N) % K).tolist()


def test_labels_that_a_file_of_their_own_lacks_are_asked_for_by_their_option(folder):
    np.savez(folder / "two.npz", a=np.arange(N), b=np.arange(N))
    with pytest.raises(
        DataError,
        match=r"holds no array named label, labels, .*; name the labels with --labels FILE:NAME",
    ):
        run(folder, labels="two.npz")


def test_labels_outside_the_classes_are_refused_after_the_first_batch(folder):
    np.savez(
        folder / "bad.npz", images=np.zeros((N, 6, 6), np.uint8), labels=np.arange(N)
    )
    with pytest.raises(
        DataError, match=r"labels of .*row 4 has label 4, expected 0\.\.3"
    ):
        run(folder, inputs="bad.npz")


@pytest.mark.slow
def test_sample_digits_are_what_their_model_says(tmp_path):
    digits = REPOSITORY / "sample_data"
    assert (
        sum(file.stat().st_size for file in digits.iterdir() if file.is_file())
        < 3 << 20
    )
    with h5py.File(digits / "digits.h5") as file:
        groups = {
            name: {key: file[name][key][()] for key in ("logits", "labels", "ids")}
            for name in ("cal", "test")
        }
        specs = [spec.decode() for spec in file["cal/transforms/specs"]]
        moved = {name: file[name]["transforms/logits"][()] for name in groups}
    assert sum(spec.startswith("zoom:") for spec in specs) >= 6
    assert sum(spec.startswith("brightness:") for spec in specs) >= 3
    job = ModelJob(
        model=str(digits / "digits.pt2"),
        inputs=str(digits / "digits_images.npz"),
        transform=(specs[0], specs[-1]),
    )
    run_model(job, tmp_path / "again.h5")
    with h5py.File(tmp_path / "again.h5") as file:
        again = {
            key: file[key][()]
            for key in ("logits", "labels", "ids", "transforms/logits")
        }
    for name, group in groups.items():
        places = np.searchsorted(again["ids"], group["ids"])
        np.testing.assert_array_equal(again["labels"][places], group["labels"])
        # Other processors and versions of torch add in another order.
        np.testing.assert_allclose(again["logits"][places], group["logits"], atol=1e-3)
        np.testing.assert_allclose(
            again["transforms/logits"][:, places], moved[name][[0, -1]], atol=1e-3
        )
        right = group["logits"].argmax(1) == group["labels"]
        p = np.exp(
            group["logits"]
            - np.logaddexp.reduce(group["logits"], axis=1, keepdims=True)
        )
        assert 0.9 < right.mean() < 0.97
        assert p.max(1).mean() - right.mean() > 0.03  # too sure


@pytest.mark.cuda
def test_cuda_equals_cpu(folder):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    run(folder, device="cuda")
    np.testing.assert_allclose(
        saved(folder)[0]["logits"], expected(pictures(folder)[:, None]), atol=1e-4
    )


def test_labels_that_the_scores_always_meet_or_no_oftener_than_at_random_are_asked_about(
    folder,
):
    """As of imported scores: the labels are the model's predictions, or those of other inputs."""
    images = np.random.default_rng(1).integers(0, 256, size=(60, 6, 6), dtype=np.uint8)
    best = expected(images.astype(np.float32) / 255).argmax(axis=1)
    for labels, says in (
        (best, "every label is the class of the largest score"),
        ((best + 1) % K, "no better than"),
    ):
        np.savez(folder / "images.npz", images=images, labels=labels)
        assert [
            says in note for note in run(folder, force=True).notes if "warning" in note
        ] == [True]
