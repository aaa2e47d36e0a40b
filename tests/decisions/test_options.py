"""Options that differ from row to row: bundles whose columns are not classes."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from run_calcli import runner

from tests.decisions import logs

TRUE_TEMPERATURE = 1.6
N = 400


def tool_records(seed=4, n=N):
    """Choices among 2 to 10 of 30 tools, 1.6 times too sure, with two decimals."""
    rng = np.random.default_rng(seed)
    records = []
    for i in range(n):
        k = int(rng.integers(2, 11))
        names = [f"tool {j}" for j in rng.permutation(30)[:k]]
        logits = 2.5 * rng.normal(size=k)
        p = np.exp(logits) / np.exp(logits).sum()
        stated = p**TRUE_TEMPERATURE
        units = np.floor(100 * stated / stated.sum())
        units[units.argmax()] += 100 - units.sum()
        shares = dict(zip(names, (units / 100).tolist(), strict=True))
        label = names[int(rng.choice(k, p=p))]
        answer = {"type": "choice", "probabilities": shares}
        records.append({"id": i, "answers": {"tool": answer}, "gold": {"tool": label}})
    return records


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("log.jsonl").write_text(logs.lines(tool_records()), "utf-8")
    return runner(monkeypatch, capsys)


def nlls(done):
    results = json.loads(done.out)["results"]
    return [result["metrics"]["nll"]["value"] for result in results]


def test_columns_are_the_options_of_the_row(run):
    assert run("extract", "log.jsonl", "-o", "d.h5").code == 0
    with h5py.File("d.h5") as file:
        group = file["tool"]
        assert group.attrs["columns"] == "options"
        assert "class_names" not in group
        sizes = group["n_options"][:]
        scores = group["log_probs"][:]
        for i, record in enumerate(tool_records()):
            shares = record["answers"]["tool"]["probabilities"]
            assert sizes[i] == len(shares)
            assert np.isneginf(scores[i, sizes[i] :]).all()
            place = list(shares).index(record["gold"]["tool"])
            assert group["labels"][i] == place
            if min(shares.values()) > 0:
                exponentials = np.exp(scores[i, : sizes[i]])
                assert np.allclose(exponentials, list(shares.values()))


def test_inspect_leaves_padding_out(run):
    """The smallest score was -100000."""
    assert run("extract", "log.jsonl", "-o", "d.h5").code == 0
    with h5py.File("d.h5") as file:
        scores = file["tool"]["log_probs"][:]
    facts = json.loads(run("inspect", "d.h5", "--json").out)["bundles"][0]
    assert facts["min"] == scores[np.isfinite(scores)].min()
    assert facts["max"] == scores.max()


def test_the_nll_is_that_of_the_rows_options(run):
    """By hand: minus the logarithm of the share at the label, a zero by its rule."""
    losses = []
    for record in tool_records():
        shares = record["answers"]["tool"]["probabilities"]
        values = np.array(list(shares.values()))
        filled = np.where(values == 0, 0.005 / ((values == 0).sum() + 1), values)
        filled /= filled.sum()
        losses.append(-np.log(filled[list(shares).index(record["gold"]["tool"])]))
    (value,) = nlls(run("evaluate", "log.jsonl", "-m", "nll", "--json"))
    assert value == pytest.approx(np.mean(losses), rel=1e-9)


@pytest.mark.parametrize(
    "method", ["ts", "ec", "ets", "ft", "mono", "iop", "platt", "hb", "ts+platt"]
)
def test_maps_that_treat_options_alike_apply(run, method):
    run("extract", "log.jsonl", "-o", "d.h5")
    assert run("fit", "d.h5:tool", "-m", method, "-o", "m.json").code == 0
    before, after = nlls(run("evaluate", "d.h5:tool", "-c", "m.json", "--json"))
    assert after < before
    done = run("apply", "m.json", "d.h5:tool", "-o", "out.h5")
    assert done.code == 0, done.err
    with h5py.File("out.h5") as file, h5py.File("d.h5") as source:
        sizes = source["tool/n_options"][:]
        padding = np.arange(10)[None, :] >= sizes[:, None]
        assert (file["probs"][:][padding] < 1e-300).all()


@pytest.mark.parametrize("method", ["vs", "ms-odir", "dir", "cts", "ts+vs"])
def test_maps_of_classes_are_refused(run, method):
    run("extract", "log.jsonl", "-o", "d.h5")
    refused = run("fit", "d.h5:tool", "-m", method, "-o", "m.json")
    assert refused.code == 4
    assert "columns are the options of the row" in refused.err


def test_the_log_is_written_back(run):
    assert run("fit", "log.jsonl", "-o", "art.json").code == 0
    content = json.loads(Path("art.json").read_text("utf-8"))
    entry = content["params"]["questions"]["tool"]
    assert entry["n_classes"] is None
    temperature = entry["params"]["temperature"]
    assert temperature == pytest.approx(TRUE_TEMPERATURE, abs=0.3)
    assert run("apply", "art.json", "log.jsonl", "-o", "out.jsonl").code == 0
    computed = run("evaluate", "log.jsonl", "-c", "art.json", "-m", "nll", "--json")
    written = run("evaluate", "out.jsonl", "-m", "nll", "--json")
    assert nlls(written)[0] == pytest.approx(nlls(computed)[1], abs=1e-4)


def two_options_in_every_row(group):
    group["n_options"].write_direct(np.full(N, 2))
    group["labels"].write_direct(np.zeros(N, int))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda group: group.__delitem__("n_options"), "has no dataset n_options"),
        (lambda group: group["n_options"].write_direct(np.zeros(N, int)), "row 0 is 0"),
        (two_options_in_every_row, "expected -inf"),
        (lambda group: group.attrs.__setitem__("columns", "x"), "columns is 'x'"),
    ],
)
def test_broken_bundles_of_options_are_refused(run, change, message):
    run("extract", "log.jsonl", "-o", "d.h5")
    with h5py.File("d.h5", "a") as file:
        change(file["tool"])
    refused = run("evaluate", "d.h5:tool")
    assert refused.code == 3
    assert message in refused.err


def test_padded_probabilities_are_read_too(run):
    """The contract's other form: probabilities padded with 0."""
    with h5py.File("p.h5", "w") as file:
        file.attrs["columns"] = "options"
        file["probs"] = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.9, 0.1, 0.0]])
        file["labels"] = np.array([0, 2, 0])
        file["n_options"] = np.array([2, 3, 2])
    (value,) = nlls(run("evaluate", "p.h5", "-m", "nll", "--json"))
    assert value == pytest.approx(-np.log([0.5, 0.5, 0.9]).mean(), rel=1e-9)


@pytest.mark.parametrize("words", [[], ["--group-by", "site"]], ids=str)
def test_padded_probabilities_that_do_not_sum_to_1_are_refused(run, words):
    """With a column by name the file is imported: its rows were divided by their sums."""
    with h5py.File("half.h5", "w") as file:
        file.attrs["columns"] = "options"
        file["probs"] = np.array([[0.25, 0.25, 0.0], [0.1, 0.15, 0.25]])
        file["labels"] = np.array([0, 2])
        file["n_options"] = np.array([2, 3])
        file["site"] = np.array([0, 1])
    done = run("extract", "half.h5", *words, "-o", "out.h5")
    assert done.code == 3
    assert "sum to 0.5, expected 1" in done.err


def test_multiple_choice_of_2_to_10_answers_is_one_bundle(run):
    rng = np.random.default_rng(0)
    rows = []
    for i in range(90):
        k = 2 + i % 9
        rows.append(
            {"id": i, "logits": rng.normal(size=k).tolist(), "label": int(i % k)}
        )
    Path("mc.jsonl").write_text(logs.lines(rows), "utf-8")
    assert run("extract", "mc.jsonl", "-o", "mc.h5").code == 0
    with h5py.File("mc.h5") as file:
        assert file["n_options"][:].tolist() == [2 + i % 9 for i in range(90)]
        assert file.attrs["columns"] == "options"
    assert run("fit", "mc.jsonl", "-m", "ts", "-o", "ts.json").code == 0
    assert run("evaluate", "mc.jsonl", "-c", "ts.json").code == 0


@pytest.mark.parametrize("kind", ["probs", "log_probs"])
def test_a_bundle_of_options_or_levels_can_be_extracted_and_joined(run, kind):
    """Its padding of -inf was refused, and levels became classes without an order."""
    assert run("extract", "log.jsonl", "-o", "d.h5").code == 0
    with h5py.File("d.h5") as file:
        group = file["tool"]
        scores, sizes = group["log_probs"][:], group["n_options"][:]
        labels = group["labels"][:]
    if kind == "probs":
        scores = np.exp(scores)
    for name, rows in (("a", slice(0, 150)), ("b", slice(150, N)), ("w", slice(0, N))):
        with h5py.File(f"{name}.h5", "w") as file:
            file[kind] = scores[rows]
            file["n_options"] = sizes[rows]
            file["labels"] = labels[rows]
            file.attrs["columns"] = "options"
    parts = ("--split", "cal=0.5", "--split", "test=rest")
    assert run("extract", "w.h5", "-o", "parts.h5", *parts).code == 0
    assert run("extract", "w.h5", "-o", "copy.h5").code == 0
    assert run("extract", "a.h5", "b.h5", "--join", "-o", "joined.h5").code == 0
    with h5py.File("parts.h5") as file:
        assert file["cal"].attrs["columns"] == "options"
    expected = nlls(run("evaluate", "w.h5", "--json"))
    for name in ("copy.h5", "joined.h5"):
        losses = nlls(run("evaluate", name, "--json"))
        assert losses == pytest.approx(expected, rel=1e-12)


def test_levels_stay_levels_when_they_are_extracted_and_joined(run):
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        with h5py.File(f"{name}.h5", "w") as file:
            file["probs"] = rng.dirichlet(np.ones(3), 30)
            file["labels"] = rng.integers(0, 3, 30)
            file.attrs["ordered"] = 1
    assert run("extract", "a.h5", "-o", "copy.h5").code == 0
    assert run("extract", "a.h5", "b.h5", "--join", "-o", "joined.h5").code == 0
    for name in ("copy.h5", "joined.h5"):
        (result,) = json.loads(run("evaluate", name, "--json").out)["results"]
        assert "rps" in result["metrics"]


@pytest.mark.parametrize("kind", ["probs", "log_probs", "logits"])
def test_applying_writes_options_again(run, kind):
    """Padding was a number above 0, and its columns became classes."""
    run("extract", "log.jsonl", "-o", "d.h5")
    run("fit", "d.h5:tool", "-m", "ts", "-o", "ts.json")
    calibrated = run("evaluate", "d.h5:tool", "-c", "ts.json", "-m", "nll", "--json")
    leaving_out = ("--ignore-label", "0")
    done = run(
        *("apply", "ts.json", "d.h5:tool", "--as", kind, "-o", "out.h5", *leaving_out)
    )
    assert done.code == 0
    with h5py.File("d.h5") as file:
        labels = file["tool/labels"][:]
        sizes = file["tool/n_options"][labels != 0]
    with h5py.File("out.h5") as file:
        assert file.attrs["columns"] == "options"
        assert np.array_equal(file["n_options"], sizes)
        scores = file[kind][:]
    padding = np.arange(scores.shape[1]) >= sizes[:, None]
    assert (scores[padding] == (0 if kind == "probs" else -np.inf)).all()
    assert run("fit", "out.h5", "-m", "vs", "-o", "vs.json").code == 4
    run("apply", "ts.json", "d.h5:tool", "--as", kind, "-o", "all.h5")
    written = run("evaluate", "all.h5", "-m", "nll", "--json")
    assert nlls(written)[0] == pytest.approx(nlls(calibrated)[1], rel=1e-9)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "npz", "parquet"])
def test_other_formats_hold_no_padded_logits(run, ending):
    run("extract", "log.jsonl", "-o", "d.h5")
    run("fit", "d.h5:tool", "-m", "ts", "-o", "ts.json")
    refused = run(
        "apply", "ts.json", "d.h5:tool", "--as", "logits", "-o", f"l.{ending}"
    )
    assert refused.code == 2
    assert "columns of d.h5:tool are options of the row" in refused.err


def test_comparing_leaves_out_methods_of_classes(run):
    run("extract", "log.jsonl", "-o", "d.h5")
    done = run("compare", "d.h5:tool", "--json")
    assert done.code == 0
    of_classes = {"vs", "svs", "ms", "sms"}
    compared = {entry["method"] for entry in json.loads(done.out)["results"]}
    assert "ts" in compared
    assert not of_classes & compared
    every = run("compare", "d.h5:tool", "-m", "all", "--json")
    assert every.code == 0
    assert not of_classes & {
        entry["method"] for entry in json.loads(every.out)["results"]
    }
    assert "vs: left out, it has parameters of classes" in every.err


@pytest.mark.parametrize("rows", ["d.h5:tool", "log.jsonl"])
def test_a_method_of_classes_fails_where_it_is_compared(run, rows):
    run("extract", "log.jsonl", "-o", "d.h5")
    done = run("compare", rows, "-m", "ts,vs,ts+svs,auto", "--json")
    assert done.code == 4
    assert "method vs has parameters of classes" in done.err
    results = json.loads(done.out)["results"]
    status = {result["method"]: result["status"] for result in results}
    assert status == {
        "uncalibrated": "ok",
        "ts": "ok",
        "auto": "ok",
        "vs": "failed",
        "ts+svs": "failed",
    }


def test_places_of_options_have_no_frequencies_to_adapt_to(run):
    rng = np.random.default_rng(0)
    with h5py.File("c.h5", "w") as file:
        file["logits"] = rng.normal(size=(300, 10))
        file["labels"] = rng.integers(0, 10, 300)
    run("extract", "log.jsonl", "-o", "d.h5")
    run("fit", "c.h5", "-m", "vs", "-o", "vs.json")
    refused = run("adapt", "vs.json", "d.h5:tool", "--source", "c.h5", "-o", "a.json")
    assert refused.code == 3
    assert "columns are the options of the row" in refused.err
    run("fit", "d.h5:tool", "-o", "auto.json")
    prior = ",".join(["0.1"] * 10)
    refused = run("adapt", "auto.json", "d.h5:tool", "--prior", prior, "-o", "a.json")
    assert refused.code == 3
    assert not Path("a.json").exists()


@pytest.mark.parametrize("dataset", ["labels", "prediction"])
@pytest.mark.parametrize("command", ["fit", "evaluate"])
def test_a_label_must_be_one_of_the_options_of_its_row(run, command, dataset):
    """A label at padding was fitted, at T = 100."""
    run("extract", "log.jsonl", "-o", "d.h5")
    with h5py.File("d.h5", "a") as file:
        group = file["tool"]
        values = group["labels"][:]
        row = int(
            np.flatnonzero(group["n_options"][:] < group["log_probs"].shape[1])[7]
        )
        number = int(group["n_options"][row])
        values[row] = number
        if dataset in group:
            del group[dataset]
        group[dataset] = values
    refused = run(command, "d.h5:tool")
    assert refused.code == 3
    what = "label" if dataset == "labels" else dataset
    message = f"row {row} has {what} {number}, expected 0..{number - 1}, one of its"
    assert f"{message} {number} options" in refused.err


@pytest.mark.parametrize("command", ["extract", "evaluate"])
def test_ignored_labels_are_no_places_of_options(run, command):
    run("extract", "log.jsonl", "-o", "d.h5")
    with h5py.File("d.h5") as file:
        group = file["tool"]
        labels = group["labels"][:]
        labels[::3] = 255
        with h5py.File("r.h5", "w") as root:
            root["log_probs"] = group["log_probs"][:]
            root["n_options"] = group["n_options"][:]
            root["labels"] = labels
            root.attrs["columns"] = "options"
    more = ("-o", "copy.h5") if command == "extract" else ("-m", "nll")
    assert run(command, "r.h5", "--ignore-label", "255", *more).code == 0


@pytest.mark.parametrize("check", [(), ("--check", "log.jsonl:tool")])
@pytest.mark.parametrize("out", ["x.py", "x.onnx"])
def test_a_map_of_options_that_differ_is_not_exported(run, out, check):
    """It became an export of two classes, or ended in an internal error."""
    run("fit", "log.jsonl", "-o", "art.json")
    refused = run("export", "art.json:tool", "-o", out, *check)
    assert refused.code == 2
    assert "art.json:tool: options differ from row to row" in refused.err
    assert not Path(out).exists()


@pytest.mark.parametrize("kind", ["probs", "log_probs", "logits"])
def test_scores_in_float16_are_read(run, kind):
    """Padding in memory is beyond float16, whose largest number is 65504."""
    scores = np.array([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5], [0.75, 0.25, 0.0]])
    if kind != "probs":
        with np.errstate(divide="ignore"):
            scores = np.log(scores)
    with h5py.File("h.h5", "w") as file:
        file.attrs["columns"] = "options"
        file[kind] = scores.astype(np.float16)
        file["labels"] = np.array([0, 2, 0])
        file["n_options"] = np.array([2, 3, 2])
    assert run("extract", "h.h5", "-o", "copy.h5").code == 0
    for name in ("h.h5", "copy.h5"):
        (value,) = nlls(run("evaluate", name, "-m", "nll", "--json"))
        # Half a step of float16 below 1.4 is 0.0005.
        assert value == pytest.approx(-np.log([0.5, 0.5, 0.75]).mean(), abs=5e-4)


PADDED_FORMATS = ["csv", "jsonl", "npz", "parquet"]


def calibrated_options(run, form):
    """Name of a file of calibrated options, and of the bundle that it equals."""
    run("extract", "log.jsonl", "-o", "d.h5", "-q")
    assert run("fit", "d.h5:tool", "-m", "ts", "-o", "ts.json", "-q").code == 0
    for ending in ("h5", form):
        assert run("apply", "ts.json", "d.h5:tool", "-o", f"c.{ending}", "-q").code == 0
    return f"c.{form}"


@pytest.mark.parametrize("form", PADDED_FORMATS)
def test_options_written_as_a_table_are_read_again_as_options(run, form):
    name = calibrated_options(run, form)
    assert run("extract", name, "-o", "again.h5", "-q").code == 0
    with h5py.File("c.h5") as bundle, h5py.File("again.h5") as again:
        assert again.attrs["columns"] == "options"
        np.testing.assert_array_equal(again["n_options"], bundle["n_options"])
        # Probabilities of files are read as their logarithms, which are normalised.
        probabilities = np.exp(again["log_probs"][:])
        np.testing.assert_allclose(probabilities, bundle["probs"], rtol=1e-12)


@pytest.mark.parametrize("form", PADDED_FORMATS)
def test_probabilities_of_options_may_be_named(run, form):
    name = calibrated_options(run, form)
    done = run("evaluate", name, "--scores", "probs", "--json", "-q")
    assert done.code == 0, done.err
    assert nlls(done) == nlls(run("evaluate", "c.h5", "--json", "-q"))


def test_a_column_that_does_not_count_the_options_leaves_classes(run):
    rng = np.random.default_rng(5)
    np.savez(
        "classes.npz",
        probs=rng.dirichlet(np.ones(3), 90),
        labels=rng.integers(0, 3, 90),
        n_options=rng.integers(2, 4, 90),
    )
    done = run("extract", "classes.npz", "-o", "classes.h5")
    assert done.code == 0, done.err
    assert "columns not used: n_options" in done.err
    with h5py.File("classes.h5") as file:
        assert "columns" not in file.attrs
