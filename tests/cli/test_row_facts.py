"""Rows never written, rows that a calibrator was fitted on, classes in another order: every command says so."""

import json
import warnings
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

import calcli
from calcli.block import Block
from calcli.errors import DataError
from calcli.fitting.rows_of_fit import fitted_on
from calcli.io.artifact import FitRecord, loads
from calcli.io.locate import Location
from calcli.io.row_facts import copies, facts_of, row_facts, unwritten
from calcli.io.row_signatures import KEPT
from calcli.io.rows_seen import (
    SignatureSet,
    SignedRows,
    chance_of_equal,
    overlap,
    sketch,
)
from calcli.rows import ArrayRows


def drawn(n, k, seed=0, size=2.0):
    """Logits, and labels from their probabilities at temperature 1.5."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * size
    return z, (z / 1.5 + rng.gumbel(size=(n, k))).argmax(axis=1)


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def written(path, z, y, kind="logits", **more):
    with h5py.File(path, "w") as file:
        file[kind], file["labels"] = z, y
        for name, values in more.items():
            file[name] = values


def share_seen(stored, n, facts):
    """Estimated proportion of rows that are among the n rows of a sketch, 0 by chance."""
    both = overlap(stored, n, SignatureSet(facts.signatures, facts.n))
    return 0.0 if both is None else both.share


# ---- every row several times


@pytest.mark.parametrize("times", [2, 5])
def test_rows_that_repeat_are_said(times, run):
    """Every row twice: calibrated sets were called miscalibrated in .375 of them, five times in .958."""
    z, y = drawn(400, 4)
    written("once.h5", z, y)
    written("often.h5", np.tile(z, (times, 1)), np.tile(y, times))
    words = f"about 100% of the {400 * times} rows have the same scores and label as another row"
    for command in (["evaluate"], ["fit", "-m", "ts", "-o", "t.json", "--force"]):
        once = run(*command, "once.h5")
        assert "as another row" not in once.out + once.err
        often = run(*command, "often.h5")
        assert words in often.out + often.err
    half = ArrayRows(np.concatenate([z, z[:40]]), np.concatenate([y, y[:40]]))
    assert (
        copies(half)
        == []
        == copies(ArrayRows(np.round(drawn(400, 2)[0], 1), drawn(400, 2)[1]))
    )


def test_rounded_scores_and_those_of_trees_are_no_copies():
    """Certain rows repeat by chance and rare ones do not; of rows drawn with replacement .63 have a double."""
    z, y = drawn(4000, 10)
    z *= 4.0
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    for digits in (1, 2, 3):
        coarse = np.round(p, digits) + 1e-9
        coarse = coarse / coarse.sum(axis=1, keepdims=True)
        assert copies(ArrayRows(coarse, y, kind="probs")) == []
    drawn_again = np.random.default_rng(1).integers(0, 4000, 4000)
    assert "as another row" in copies(ArrayRows(z[drawn_again], y[drawn_again]))[0]


# ---- never written


@pytest.mark.parametrize("k", [2, 3, 100])
def test_half_a_file_of_zeros_is_no_data(k, run):
    z, y = drawn(600, k)
    # a loop that died: one contiguous dataset, partly written
    with h5py.File("half.h5", "w") as file:
        scores = file.create_dataset("logits", z.shape, "f4")
        labels = file.create_dataset("labels", y.shape, "i8")
        scores[:300], labels[:300] = z[:300], y[:300]
    reason = "the last 300 of 600 rows have all scores equal and label 0"
    done = run("fit", "-m", "ts", "half.h5", "-o", "ts.json", "--strict")
    assert done.code == 4 and reason in done.err
    fit = json.loads(Path("ts.json").read_text("utf-8"))["fit"]
    assert fit["status"] == "degenerate" and reason in " ".join(fit["warnings"])
    for command in (
        ("evaluate", "half.h5"),
        ("evaluate", "half.h5", "-c", "ts.json"),
        ("apply", "ts.json", "half.h5", "-o", "out.h5"),
        ("diagram", "half.h5"),
        ("threshold", "half.h5", "--accuracy", "0.5"),
        ("report", "half.h5", "-o", "page.html"),
        ("inspect", "half.h5"),
        ("compare", "half.h5", "--methods", "ts"),
    ):
        done = run(*command)
        assert reason in done.err + done.out, command
    with pytest.warns(UserWarning, match="the last 300 of 600"):
        calcli.evaluate("half.h5", metrics=["nll"])
    with pytest.warns(UserWarning, match="the last 300 of 600"):
        calcli.load("ts.json").predict_proba(
            np.where(np.arange(600)[:, None] < 300, z, 0.0)
        )
    written("whole.h5", z, y)
    assert (
        run("fit", "-m", "ts", "whole.h5", "-o", "ts.json", "--force", "--strict").code
        == 0
    )


def test_rows_of_zeros_in_the_middle_and_ones_by_chance():
    z, y = drawn(600, 5)
    z[100:200] = 0.0
    assert "100 of 600 rows have all scores equal" in unwritten(ArrayRows(z, y))[0]
    assert unwritten(ArrayRows(z[98:102], y[98:102])) == []  # two of four may be
    z, y = drawn(600, 2)
    z = z.round()  # ties are natural where scores are whole numbers
    z[-1] = 0.0
    assert unwritten(ArrayRows(z, y)) == []


def test_one_score_of_zero_at_the_end():
    p = np.random.default_rng(0).uniform(0.01, 1.0, 400)
    y = (p > 0.5).astype(int)
    both = np.stack([1 - p, p], axis=1)
    both[300:], y[300:] = (1.0, 0.0), 0
    assert (
        "the last 100 of 400 rows have probability 0 of class 1"
        in unwritten(ArrayRows(both, y, "probs"))[0]
    )
    assert "score 0" in unwritten(ArrayRows(both[:, 1:], y, "confidence"))[0]
    y[:300] = 1  # rows in the order of their classes, and a perfect model
    assert unwritten(ArrayRows(both, y, "probs")) == []


def test_facts_do_not_depend_on_how_rows_are_cut():
    z, y = drawn(1000, 3)
    z[700:] = 1.0
    z[650] = 0.0
    whole = row_facts(Block(0, z, "logits", y))
    for step in (1, 7, 299, 300, 301):
        parts = [
            row_facts(Block(i, z[i : i + step], "logits", y[i : i + step]))
            for i in range(0, 1000, step)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        assert (
            (total.n, total.blank, total.tail)
            == (whole.n, whole.blank, whole.tail)
            == (1000, 301, 300)
        )
        np.testing.assert_array_equal(total.signatures, whole.signatures)


# ---- fitted on these rows

ALL = "fitted on these very rows"


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 3, 100])
def test_rows_of_the_fit_are_known_again(k, run):
    z, y = drawn(1000, k)
    other, labels = drawn(1000, k, seed=1)
    p, order = softmax(z), np.random.default_rng(2).permutation(1000)
    written("cal.h5", z, y)
    assert run("fit", "-m", "ts", "cal.h5", "-o", "ts.json").code == 0
    cases = {
        "permuted": (z[order], y[order], "logits", ALL),
        "one less": (z[1:], y[1:], "logits", ALL),
        "a fifth": (z[:200], y[:200], "logits", ALL),
        "float32": (z.astype("f4"), y, "logits", ALL),
        "shifted": (z + 3.0, y, "logits", ALL),
        "probabilities": (p, y, "probs", ALL),
        "of float32": (softmax(z.astype("f4")), y, "probs", ALL),
        "logarithms": (np.log(p).astype("f4"), y, "log_probs", ALL),
        "pooled": (
            np.concatenate([z, other]),
            np.concatenate([y, labels]),
            "logits",
            "about half of these rows",
        ),
        "a quarter": (
            np.concatenate([z[:250], other[:750]]),
            np.r_[y[:250], labels[:750]],
            "logits",
            "about a quarter of these rows",
        ),
        "others": (other, labels, "logits", None),
    }
    for name, (scores, truth, kind, expected_kind) in cases.items():
        written("rows.h5", scores, truth, kind)
        said = run("evaluate", "rows.h5", "-c", "ts.json", "--metric", "nll").err
        assert ("the calibrator was fitted on" in said) == (
            expected_kind is not None
        ), (
            name,
            said,
        )
        assert (expected_kind or "") in said, (name, said)
    written("rows.h5", z[order], y[order])
    for command in (
        ("diagram", "rows.h5", "-c", "ts.json"),
        ("threshold", "rows.h5", "-c", "ts.json", "--accuracy", "0.2"),
    ):
        assert "fitted on these very rows" in run(*command).err, command
    assert run("report", "rows.h5", "-c", "ts.json", "-o", "page.html").code == 0
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        calcli.evaluate(z[order], y[order], calcli.load("ts.json"), metrics=["nll"])
    assert any(
        "ts was fitted on these very rows" in str(warning.message) for warning in warned
    )


def test_pooled_rows_are_told_by_their_share():
    """Of so many rows that a sketch holds few of them: 400 of 2000 are shared."""
    z, y = drawn(2000, 10)
    other, labels = drawn(1600, 10, seed=1)
    stored = sketch(facts_of(ArrayRows(z, y)))
    both = ArrayRows(
        np.concatenate([z[:400], other]), np.concatenate([y[:400], labels])
    )
    # 3 sd of 96 x .2 hits
    assert share_seen(stored, 2000, facts_of(both)) == pytest.approx(0.2, abs=0.12)


@pytest.mark.parametrize("digits", [0, 1, 2, 3, None])
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("sizes", [(100, 5000), (5000, 100), (2000, 2000)])
def test_rounded_scores_of_other_rows_are_not_known_again(sizes, k, digits):
    """They agree by chance: of two classes few gaps are possible, rounded to a digit very few."""
    for seed in range(10):
        recognitions = []
        for n, own_seed in zip(sizes, (2 * seed, 2 * seed + 1), strict=True):
            z, y = drawn(n, k, own_seed)
            recognitions.append(
                facts_of(ArrayRows(z if digits is None else z.round(digits), y))
            )
        assert share_seen(sketch(recognitions[0]), sizes[0], recognitions[1]) == 0.0


def few_values(kind, n, rng):
    """Rows whose scores have few values, and labels from their probabilities: (scores, labels, kind)."""
    if kind == "two decimals":
        p = rng.beta(1.5, 1.5, n).round(2)
        return np.stack([1 - p, p], axis=1), (rng.random(n) < p).astype(int), "probs"
    if kind == "integer logits":
        z = rng.normal(size=(n, 3)).round() * 1.0
        return z, (z + rng.gumbel(size=z.shape)).argmax(axis=1), "logits"
    if kind == "trees":
        p = rng.dirichlet([0.7] * 3, n)
        votes = np.array([rng.multinomial(10, row) for row in p]) / 10.0
        return votes, np.array([rng.choice(3, p=row) for row in p]), "probs"
    if kind == "certain":
        y = rng.integers(0, 5, n)
        return (
            np.eye(5)[np.where(rng.random(n) < 0.05, rng.integers(0, 5, n), y)],
            y,
            "probs",
        )
    if kind == "certain two":
        y = rng.integers(0, 2, n)
        return np.eye(2)[np.where(rng.random(n) < 0.1, 1 - y, y)], y, "probs"
    if kind == "confidences":
        c = rng.choice([0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0], n)
        return c[:, None], (rng.random(n) < c).astype(int), "confidence"
    z = rng.normal(size=n) * 3.0  # half of the rows certain
    z = np.where(rng.random(n) < 0.5, np.sign(z) * 60.0, z)
    return (
        np.stack([np.zeros(n), z], axis=1),
        (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int),
        "logits",
    )


FEW_VALUES = (
    "two decimals",
    "integer logits",
    "trees",
    "certain",
    "certain two",
    "confidences",
    "half certain",
)


def recognised(artifact_rows, rows):
    """What ``fitted_on`` says of rows, where a calibrator was fitted to others."""
    fitted = [known_rows(*pair) for pair in (artifact_rows, rows)]
    facts = facts_of(fitted[0])
    record = FitRecord(
        n=facts.n,
        status="ok",
        source="other",
        data_sha256=None,
        row_sketch=sketch(facts),
    )
    artifact = SimpleNamespace(fit=record)
    return fitted_on(artifact, fitted[1])


def known_rows(scores, labels, kind):
    rows = ArrayRows(scores, labels, kind)
    rows.has_labels, rows.hashed, rows.data_sha256, rows.facts = True, False, None, None
    rows.location, rows.name, rows.is_stratified = Location(), "rows", False
    return rows


@pytest.mark.parametrize("kind", FEW_VALUES)
@pytest.mark.parametrize("n", [250, 1000])
def test_a_shuffled_copy_is_known_again_where_scores_have_few_values(kind, n):
    """7 of 8 sets of two decimals were not, 49 of 63 of integer logits, 25 of 36 of trees, 42 of 42 of certain ones."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        scores, labels, about = few_values(kind, n, rng)
        order = rng.permutation(n)
        recognition = recognised(
            (scores, labels, about), (scores[order], labels[order], about)
        )
        assert recognition in (
            "these very rows, in another order",
            "these very rows, or copies of them",
        ), seed
        copy = scores[order].astype("f4")
        assert (
            recognised((scores, labels, about), (copy, labels[order], about))
            == recognition
        )


@pytest.mark.parametrize("kind", FEW_VALUES)
@pytest.mark.parametrize(
    "sizes", [(30, 30), (200, 200), (1000, 1000), (150, 1500), (1500, 150)]
)
def test_independent_sets_are_not_accused(kind, sizes):
    """12 pairs in each of 35 cells: of 420, none."""
    for seed in range(12):
        rng = np.random.default_rng([seed, *sizes])
        assert (
            recognised(few_values(kind, sizes[0], rng), few_values(kind, sizes[1], rng))
            is None
        ), seed


def test_sets_by_design_are_not_accused():
    """Certain rows of a perfect model with as many rows of each class: every such set is equal to every other."""
    for n, k in ((100, 100), (200, 10), (1000, 100), (20, 2)):
        y = np.arange(n) % k
        order = np.random.default_rng(n).permutation(n)
        rows = np.eye(k)[y], y, "probs"
        assert recognised(rows, (rows[0][order], y[order], "probs")) is None
    # The same labels with scores of many values are no design.
    z, y = np.random.default_rng(0).normal(size=(100, 100)), np.arange(100)
    assert (
        recognised((z, y, "logits"), (z[::-1], y[::-1], "logits"))
        == "these very rows, in another order"
    )
    assert recognised((z, y, "logits"), (z[::-1] * 1.5, y[::-1], "logits")) is None


def test_a_shuffled_copy_of_few_values_is_said_by_evaluate(run):
    rng = np.random.default_rng(0)
    p, y, _ = few_values("two decimals", 400, rng)
    order = rng.permutation(400)
    written("cal.h5", p, y, "probs")
    written("copy.h5", p[order], y[order], "probs")
    written("new.h5", *few_values("two decimals", 400, rng))
    assert run("fit", "-m", "platt", "cal.h5", "-o", "p.json", "-q").code == 0
    copy = run("evaluate", "copy.h5", "-c", "p.json")
    assert "fitted on these very rows, in another order" in copy.out
    new = run("evaluate", "new.h5", "-c", "p.json", "--full")
    assert "was fitted on" not in new.out + new.err


@pytest.mark.parametrize("chance", [0.3, 0.01])
def test_the_bound_for_equal_sets_holds(chance):
    """Of two independent sets of 30 rows with three values; 20 000 pairs."""
    rng = np.random.default_rng(1)
    p = np.array([1 - chance - 0.1, chance, 0.1])
    counts = rng.multinomial(30, p, 20_000)
    equal = (counts[::2] == counts[1::2]).all(axis=1)
    bounds = []
    for row in counts[::40]:
        values = np.repeat(np.arange(3, dtype=np.uint64), row)
        labels = (values == 0).astype(np.int64)
        bounds.append(chance_of_equal(SignedRows(values, values, labels)))
    # the mean bound over the sets that come is above the chance
    assert equal.mean() < np.mean(bounds)


def test_more_rows_than_are_kept():
    z, y = drawn(3 * KEPT, 3)
    facts = facts_of(ArrayRows(z, y))
    assert len(facts.signatures) == KEPT
    half = ArrayRows(z[: KEPT // 2], y[: KEPT // 2])
    assert share_seen(sketch(facts), 3 * KEPT, facts_of(half)) == 1.0
    assert share_seen(sketch(facts_of(half)), KEPT // 2, facts) == pytest.approx(
        1 / 6, abs=0.12
    )


def test_inspect_shows_no_base64(run):
    """A calibrator had kilobytes of "smallest" in front of those who looked what it is; --json has them."""
    written("cal.h5", *drawn(500, 3))
    run("fit", "-m", "ts", "cal.h5", "-o", "ts.json")
    shown, sketched = (
        run("inspect", "ts.json").out,
        json.loads(run("inspect", "ts.json", "--json").out),
    )
    assert max(map(len, shown.splitlines())) < 200 and "characters)" in shown
    assert len(sketched["artifact"]["fit"]["row_sketch"]["smallest"]) > 1000


def test_artifacts_without_a_sketch_load_and_those_with_a_bad_one_do_not(run):
    written("cal.h5", *drawn(200, 3))
    run("fit", "-m", "ts", "cal.h5", "-o", "ts.json")
    content = json.loads(Path("ts.json").read_text("utf-8"))
    assert loads(json.dumps(content), "a").fit.row_sketch is not None
    good = content["fit"].pop("row_sketch")
    assert loads(json.dumps(content), "a").fit.row_sketch is None
    for bad in (
        {**good, "smallest": "AAAA"},
        {**good, "smallest": "!"},
        {**good, "repeated": 2.0},
        {**good, "x": 1},
        "s",
    ):
        content["fit"]["row_sketch"] = bad
        with pytest.raises(DataError, match="row_sketch"):
            loads(json.dumps(content), "a")


def test_units_that_the_fit_had_too_are_warned_of_within_one_file(run):
    """In another file the same names may be of other patients: numbers from 0, say."""
    (z, y), patient = drawn(400, 3), np.arange(400) // 4
    split = {
        "by_row": (np.arange(0, 400, 2), np.arange(1, 400, 2)),
        "by_unit": (np.arange(200), np.arange(200, 400)),
        "overlap": (np.arange(202), np.arange(202, 400)),
    }
    for name, parts in split.items():
        with h5py.File(f"{name}.h5", "w") as file:
            for part, rows in zip(("cal", "test"), parts, strict=True):
                (
                    file[f"{part}/logits"],
                    file[f"{part}/labels"],
                    file[f"{part}/patient"],
                ) = (
                    z[rows],
                    y[rows],
                    patient[rows],
                )
        assert (
            run("fit", "-m", "ts", f"{name}.h5", "-o", f"{name}.json", "-q").code == 0
        )
    written("other.h5", *drawn(80, 3, seed=1), patient=np.arange(80) // 4)
    sentence = "the calibrator was fitted on other rows of {} of these {} units"
    output_of = {
        (file, of, unit): run("evaluate", file, "-c", of, "--unit", unit).out
        for file, of, unit in (
            ("by_row.h5", "by_row.json", "patient"),
            ("by_row.h5", "by_row.json", "none"),
            ("by_unit.h5", "by_unit.json", "patient"),
            ("overlap.h5", "overlap.json", "patient"),
            ("other.h5", "by_row.json", "patient"),
        )
    }
    assert [sentence.format(100, 100) in text for text in output_of.values()] == [
        True,
        False,
        False,
        False,
        False,
    ]
    assert sentence.format(1, 50) in output_of["overlap.h5", "overlap.json", "patient"]
    assert sum("was fitted on" in err for err in output_of.values()) == 2
    assert (
        sentence.format(100, 100)
        in run(
            "threshold",
            "by_row.h5",
            "-c",
            "by_row.json",
            "--accuracy",
            "0.3",
            "--unit",
            "patient",
        ).err
    )


@pytest.mark.parametrize("names", [None, "word"])
def test_units_that_the_fit_had_none_of_or_named_otherwise_are_no_error(run, names):
    z, y = drawn(80, 3)
    with h5py.File("part.h5", "w") as file:
        for part in ("cal", "test"):
            file[f"{part}/logits"], file[f"{part}/labels"] = (
                (z, y) if part == "test" else drawn(80, 3, seed=1)
            )
        file["test/unit"] = np.arange(80) // 4
        if names:
            file["cal/unit"] = [f"{names} {i}" for i in range(80)]
    assert run("fit", "-m", "ts", "part.h5", "-o", "part.json", "-q").code == 0
    assert run("apply", "part.json", "part.h5", "-o", "out.h5").code == 0


# ---- what an artifact says of its fit


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", -1),
        ("n", 0),
        ("seed", -1),
        ("ignored", -1),
        ("label_counts", [-10, 110, 100]),
        ("label_counts", [100, 100]),
        ("label_counts", [100, 100, 1]),
        ("data_sha256", "no hash"),
        ("before", {"accuracy": 1.5}),
        ("after", {"ece": 2.0}),
        ("after", {"nll": -1.0}),
        ("status", "fine"),
    ],
)
def test_what_no_fit_can_have_recorded_is_refused(field, value, run):
    written("cal.h5", *drawn(200, 3))
    run("fit", "-m", "ts", "cal.h5", "-o", "ts.json")
    content = json.loads(Path("ts.json").read_text("utf-8"))
    assert field in content["fit"]
    content["fit"][field] = value
    Path("ts.json").write_text(json.dumps(content), "utf-8")
    done = run("apply", "ts.json", "cal.h5", "-o", "out.h5")
    assert done.code == 3 and "is no valid artifact" in done.err


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("resolution", 2),
        ("resolution", 0),
        ("resolution", [0.1, 0.1]),
        ("resolution", [0.1, 0.1, 0.1]),
        ("resolution", "0.1"),
        ("clip", -1e-9),
        ("probability_floor", 2),
        ("probability_floor", 0),
    ],
)
def test_zeros_that_no_fit_can_have_met_are_refused(field, value, run):
    """resolution and clip of probabilities, probability_floor of calcli 0.2 and before."""
    written("cal.h5", *drawn(200, 3))
    run("fit", "-m", "ts", "cal.h5", "-o", "ts.json")
    content = json.loads(Path("ts.json").read_text("utf-8"))
    content["fit"][field] = value
    Path("ts.json").write_text(json.dumps(content), "utf-8")
    done = run("apply", "ts.json", "cal.h5", "-o", "out.h5")
    assert done.code == 3 and "is no valid artifact" in done.err


# ---- names of classes


@pytest.mark.parametrize(
    "names", [["b", "a", "c"], ["a", "c", "b"], ["A ", "c", "b"], ["a", "c", "d"]]
)
def test_classes_in_another_order_are_refused(names, run):
    z, y = drawn(200, 3)
    written("cal.h5", z, y, class_names=["a", "b", "c"])
    written("new.h5", z, y, class_names=names)
    assert run("fit", "-m", "vs", "cal.h5", "-o", "vs.json").code == 0
    for command in (
        ("apply", "vs.json", "new.h5", "-o", "out.h5"),
        ("evaluate", "new.h5", "-c", "vs.json"),
        ("diagram", "new.h5", "-c", "vs.json"),
        ("threshold", "new.h5", "-c", "vs.json", "--accuracy", "0.2"),
        ("export", "vs.json", "--to", "python", "-o", "vs.py", "--check", "new.h5"),
    ):
        done = run(*command)
        assert done.code == 3 and "the classes are in another order" in done.err, (
            command
        )
    with pytest.raises(DataError, match="another order"):
        calcli.evaluate(z, y, calcli.load("vs.json"), class_names=names)


def test_classes_of_other_names_are_asked_about(run):
    z, y = drawn(200, 3)
    written("cal.h5", z, y, class_names=["a", "b", "c"])
    assert run("fit", "-m", "vs", "cal.h5", "-o", "vs.json").code == 0
    for i, (names, is_warned) in enumerate(
        ((["A", "b ", "C"], False), (["a", "b", "d"], True), (["x", "y", "z"], True))
    ):
        written("new.h5", z, y, class_names=names)
        for done in (
            run("evaluate", "new.h5", "-c", "vs.json"),
            run("apply", "vs.json", "new.h5", "-o", f"{i}.h5"),
        ):
            assert done.code == 0 and ("check the class order" in done.err) == is_warned
    written("new.h5", z, y, class_names=["a", "a", "a"])
    assert "all class_names are 'a'" in run("fit", "-m", "ts", "new.h5").err
