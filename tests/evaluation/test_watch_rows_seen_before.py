"""calcli watch: rows that were there before are known again in other clothes, and new rows are not taken for old."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

import calcli
from calcli.errors import DataError
from calcli.evaluation.watch_state import read


def drawn(n, k=4, seed=0, size=2.0):
    """Logits whose probabilities are true."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * size
    return z, (z + rng.gumbel(size=z.shape)).argmax(axis=1)


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def write(name, scores, labels, kind="logits", **more):
    with h5py.File(name, "w") as file:
        if kind == "confidence":
            file["confidence"], file["correct"] = scores, labels.astype(bool)
        else:
            file[kind], file["labels"] = scores, labels
        for column, values in more.items():
            file[column] = values


def write_csv(name, p, y, digits=6):
    """Probabilities of so many digits, as np.savetxt writes them."""
    head = ",".join([*(f"prob_{c}" for c in range(p.shape[1])), "label"])
    lines = [
        ",".join([*(f"{value:.{digits}f}" for value in row), str(label)])
        for row, label in zip(p, y, strict=True)
    ]
    Path(name).write_text("\n".join([head, *lines]) + "\n")


def taken(run, name, *words):
    """Count a batch; returns what was said of it."""
    done = run("watch", name, "--state", "s.json", *words)
    assert done.code == 0, done.err
    return done.err


def refused(run, name, *words):
    """Give a batch that must be refused, and leave the state as it was; returns the line."""
    before = Path("s.json").read_bytes()
    done = run("watch", name, "--state", "s.json", "-q", *words)
    assert done.code == 3 and "already counted" in done.line, done.err + done.out
    assert Path("s.json").read_bytes() == before
    return done.line


# ---- the same rows


def half_new(z, y):
    other, labels = drawn(150, z.shape[1], seed=9)
    return np.vstack([z[:150], other]), np.append(y[:150], labels)


CLOTHES = {
    "float32": lambda z, y: (z.astype("f4"), y),
    "a constant added": lambda z, y: (z + 3.0, y),
    "one row less": lambda z, y: (z[:-1], y[:-1]),
    "one row more": lambda z, y: (np.vstack([-z[:1], z]), np.append(y[0], y)),
    "shuffled": lambda z, y: (z[::-1], y[::-1]),
    "six digits": lambda z, y: (z.round(6), y),
    "a half": lambda z, y: (z[::2], y[::2]),
    "half new": half_new,
}


@pytest.mark.parametrize("k", [2, 4, 100])
@pytest.mark.parametrize("clothes", CLOTHES)
def test_rows_in_other_clothes_are_known_again(run, clothes, k):
    z, y = drawn(300, k, 1)
    write("w1.h5", z, y)
    taken(run, "w1.h5")
    scores, labels = CLOTHES[clothes](z, y)
    write("w2.h5", scores, labels)
    line = refused(run, "w2.h5")
    assert "(w1.h5)" in line
    assert ("about half of these rows" in line) == (clothes == "half new")


@pytest.mark.parametrize(
    ("k", "size"), [(2, 2.0), (4, 2.0), (10, 8.0), (100, 2.0), (100, 8.0)]
)
def test_probabilities_of_six_digits_are_known_again(run, k, size):
    """Of many classes most entries round to nothing, and near-certain rows have no other."""
    z, y = drawn(300, k, 1, size)
    write("w1.h5", softmax(z), y, "probs")
    taken(run, "w1.h5")
    write_csv("w2.csv", softmax(z), y)
    refused(run, "w2.csv", "--kind", "probs")
    write("logits.h5", z, y)
    refused(run, "logits.h5")
    write("new.h5", *drawn(300, k, 2, size))
    taken(run, "new.h5")


def bfloat16(values):
    """Round to the nearest, as torch does."""
    bits = np.asarray(values, "f4").view("u4")
    rounded = bits + ((bits >> 16) & 1) + 0x7FFF
    return (rounded & 0xFFFF0000).astype("u4").view("f4")


ROUNDED = {
    "float16": lambda z: ("logits", z.astype("f2")),
    "bfloat16": lambda z: ("logits", bfloat16(z)),
    "two decimals": lambda z: ("logits", z.round(2)),
    "float16 probabilities": lambda z: ("probs", softmax(z).astype("f2")),
    "three digits": lambda z: ("probs", softmax(z).round(3)),
    "four digits": lambda z: ("probs", softmax(z).round(4)),
}


@pytest.mark.parametrize(
    ("k", "size"), [(2, 2.0), (4, 2.0), (10, 8.0), (100, 2.0), (100, 8.0)]
)
@pytest.mark.parametrize("rounding", ROUNDED)
def test_rounded_rows_are_known_again(run, rounding, k, size):
    """In any order, and whichever of both files has the digits."""
    z, y = drawn(400, k, 1, size)
    order = np.random.default_rng(2).permutation(400)
    kind, scores = ROUNDED[rounding](z[order])
    write("exact.h5", z, y)
    write("rounded.h5", scores, y[order], kind)
    for first, second in (("exact", "rounded"), ("rounded", "exact")):
        Path("s.json").unlink(missing_ok=True)
        taken(run, f"{first}.h5")
        assert f"({first}.h5)" in refused(run, f"{second}.h5")
        write("new.h5", *drawn(400, k, 3, size))
        taken(run, "new.h5")


def test_rounded_first_rows_of_a_log_that_grows_are_refused(run):
    z, y = drawn(900, seed=4)
    write("a.h5", z[:300], y[:300])
    write("b.h5", z[300:600], y[300:600])
    write("all.h5", z.astype("f2"), y)
    write("last.h5", z[600:].astype("f2"), y[600:])
    taken(run, "a.h5")
    taken(run, "b.h5")
    assert "first 300 of 900 rows, or rounded copies" in refused(run, "all.h5")
    taken(run, "last.h5")


def test_rounded_confidences_are_known_again(run):
    rng = np.random.default_rng(5)
    c = 1.0 - 10.0 ** -rng.uniform(0.5, 3.0, 500)
    right = rng.random(500) < c
    write("a.h5", c, right, "confidence")
    write("b.h5", c.astype("f2"), right, "confidence")
    taken(run, "a.h5")
    refused(run, "b.h5")


def test_rows_that_apply_has_written_are_known_again(run):
    """In the one batch the calibrator is applied to the scores, in the other it was: they belong to one episode."""
    write("cal.h5", *drawn(500, seed=50))
    write("w1.h5", *drawn(300, seed=1))
    write("w2.h5", *drawn(300, seed=2))
    assert run("fit", "--method", "ts", "cal.h5", "-o", "ts.json", "-q").code == 0
    for name in ("w1", "w2"):
        assert (
            run(
                "apply", "ts.json", f"{name}.h5", "-o", f"{name}.calibrated.csv", "-q"
            ).code
            == 0
        )
    taken(run, "w1.h5", "-c", "ts.json")
    refused(run, "w1.calibrated.csv")
    taken(run, "w2.calibrated.csv")


@pytest.mark.parametrize("few_values", [False, True])
def test_of_a_log_that_grows_the_new_rows_are_counted(run, few_values):
    """With files that hold all weeks so far, 5 of 60 exactly calibrated streams had an alarm at tolerance .02."""
    rng = np.random.default_rng(3)
    c = rng.uniform(0.5, 1.0, 900)
    c = c.round(2) if few_values else c
    right = rng.random(900) < c
    sizes = [200, 350, 600, 900]
    for week, n in enumerate(sizes):
        write(f"until{week}.h5", c[:n], right[:n], "confidence")
        write(
            f"week{week}.h5",
            c[([0, *sizes][week]) : n],
            right[([0, *sizes][week]) : n],
            "confidence",
        )
        said = taken(run, f"until{week}.h5")
        left_out = [0, *sizes][week]
        assert (
            f"the first {left_out} of {n} rows were already counted (until0.h5" in said
        ) == (week > 0)
        assert run("watch", f"week{week}.h5", "--state", "alone.json").code == 0
    grown, alone = read("s.json"), read("alone.json")
    assert [batch.n for batch in grown.batches] == [200, 150, 250, 300]
    assert [batch.log_e for batch in grown.batches] == [
        batch.log_e for batch in alone.batches
    ]
    refused(run, "until3.h5")
    refused(run, "until1.h5")  # the first weeks again
    write("copy.h5", c.astype("f4"), right, "confidence")
    refused(run, "copy.h5")


def test_a_log_that_grows_goes_on_after_a_reset(run):
    """Rows of an earlier episode are old too: who resets has seen how they came out."""
    z, y = drawn(900, seed=4)
    for name, n in (("a.h5", 300), ("b.h5", 600), ("c.h5", 900)):
        write(name, z[:n], y[:n])
    taken(run, "a.h5")
    taken(run, "b.h5", "--reset")
    assert "first 600 of 900" in taken(run, "c.h5")
    assert [(batch.episode, batch.n) for batch in read("s.json").batches] == [
        (1, 300),
        (2, 300),
        (2, 300),
    ]


def test_new_rows_of_units_that_were_counted_are_left_out_of_a_log_that_grows(run):
    """The evidence is that of the rows of new units alone, also as the log goes on."""
    z, y = drawn(600, seed=4)
    unit = np.repeat(np.arange(150), 4)
    unit[300:310] = unit[:10]  # old units asked again, among new ones
    new = np.setdiff1d(np.arange(200, 400), range(300, 310))
    for name, n in (("a.h5", 198), ("b.h5", 400), ("c.h5", 600)):
        write(name, z[:n], y[:n], unit=unit[:n])
    write("new.h5", z[new], y[new], unit=unit[new])
    taken(run, "a.h5")
    assert "12 of 202 new rows are of units that were already counted" in taken(
        run, "b.h5"
    )
    facts = json.loads(run("watch", "--state", "s.json", "--json").out)
    assert (facts["left_out"], facts["repeated"], facts["rows"]) == (198, 12, 388)
    assert run("watch", "a.h5", "--state", "alone.json").code == 0
    assert run("watch", "new.h5", "--state", "alone.json").code == 0
    assert read("s.json").batches[1].log_e == read("alone.json").batches[1].log_e
    assert "the first 400 of 600 rows were already counted" in taken(run, "c.h5")
    refused(run, "c.h5")


def test_a_log_that_grows_by_old_units_alone_is_refused(run):
    z, y = drawn(400, seed=4)
    unit = np.arange(400) % 200
    for name, n in (("a.h5", 200), ("b.h5", 400)):
        write(name, z[:n], y[:n], unit=unit[:n])
    taken(run, "a.h5")
    before = Path("s.json").read_bytes()
    done = run("watch", "b.h5", "--state", "s.json", "-q")
    assert done.code == 3
    assert "all 200 new rows are of units that were already counted" in done.line
    assert Path("s.json").read_bytes() == before


# ---- other rows


def confidences(kind, n, rng):
    if kind == "all 1":
        return np.ones(n), np.ones(n)
    if kind == "three values":
        c = rng.choice([0.9, 0.95, 1.0], n)
    elif kind == "two decimals":
        c = rng.uniform(0.5, 1.0, n).round(2)
    elif kind == "votes":
        c = (rng.binomial(5, 0.8, n) + 0.5) / 6.0
    elif kind == "float16":
        c = rng.beta(5, 2, n).astype("f2").astype(float)
    elif kind == "near 1":
        c = 1.0 - 10.0 ** -rng.uniform(1.5, 7.0, n)
    elif kind == "so many per decile":
        c = 0.5 + (np.arange(n) % 10 + rng.random(n)) / 20.0
    else:
        c = np.where(rng.random(n) < 0.6, 1.0, rng.beta(4, 2, n))
    return c, (rng.random(n) < c).astype(float)


@pytest.mark.filterwarnings(
    "ignore::UserWarning"
)  # that rows are equal by chance, and likely copies
@pytest.mark.parametrize("n", [20, 100, 400])
@pytest.mark.parametrize(
    "kind",
    [
        "all 1",
        "three values",
        "two decimals",
        "votes",
        "float16",
        "near 1",
        "so many per decile",
        "certain ones",
    ],
)
def test_new_rows_with_few_values_are_counted(tmp_path, kind, n):
    """Of 50 batches of 20 rows with confidence 1, 48 "were there before". Nothing here repeats a batch."""
    rng = np.random.default_rng(n)
    for week in range(30):
        c, right = confidences(kind, n, rng)
        ours = calcli.watch(
            c, right, kind="confidence", state=tmp_path / "s.json", tolerance=0.1
        )
        assert ours["batches"] == week + 1


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "kind",
    [
        "integer logits",
        "trees",
        "certain classes",
        "popular questions",
        "a confidence per class",
    ],
)
def test_new_rows_of_several_classes_with_few_values_are_counted(tmp_path, kind):
    rng = np.random.default_rng(8)
    questions = rng.normal(size=(30, 3)) * 2
    for week in range(25):
        z = rng.normal(size=(150, 3)) * 2
        if kind == "integer logits":
            z = z.round()
        elif kind == "popular questions":
            often = rng.random(150) < 0.4
            z[often] = questions[rng.integers(0, 30, often.sum())]
        y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
        p = softmax(z)
        if kind == "trees":
            p = np.array([rng.multinomial(10, row) for row in p]) / 10.0
        elif kind == "certain classes":
            p = np.eye(3)[y]
        elif kind == "a confidence per class":  # as many rows of each, all right
            y = np.arange(150) % 3
            p = np.eye(3)[y] * [0.7, 0.9, 0.99]
            p += (1.0 - p.sum(axis=1, keepdims=True)) / 3.0
        ours = calcli.watch(
            p, y, kind="probs", state=tmp_path / "s.json", tolerance=0.4
        )
        assert ours["batches"] == week + 1


def test_equal_rows_that_chance_makes_likely_are_counted_and_said(run):
    write("w1.h5", np.ones(20), np.ones(20), "confidence")
    write("w2.h5", np.ones(20), np.ones(20), "confidence")
    taken(run, "w1.h5")
    said = taken(run, "w2.h5")
    assert (
        "w2.h5: the rows are equal to those of w1.h5; they have few values, and chance makes that likely"
        in said
    )
    assert json.loads(run("watch", "--state", "s.json", "--json").out)["rows"] == 40


# ---- ids


def test_ids_tell_rows_apart_where_scores_do_not(run):
    def batch(name, first, count=20):
        ids = [f"order {i}" for i in range(first, first + count)]
        write(name, np.ones(count), np.ones(count), "confidence", ids=ids)

    batch("w1.h5", 0)
    batch("w2.h5", 20)
    batch("again.h5", 0)
    batch("overlapping.h5", 30)
    taken(run, "w1.h5")
    assert "equal to those" not in taken(run, "w2.h5")
    refused(run, "again.h5")
    assert "about half of these rows" in refused(run, "overlapping.h5")


def test_scores_that_repeat_under_other_ids_are_new(run):
    """The same questions are asked every week: a deterministic model gives the same scores."""
    z, y = drawn(200, seed=5)
    for week in range(3):
        write(f"w{week}.h5", z, y, ids=[f"{week}-{i}" for i in range(200)])
        taken(run, f"w{week}.h5")
    write("again.h5", z + 1.0, y, ids=[f"1-{i}" for i in range(200)])
    assert "(w1.h5)" in refused(run, "again.h5")


@pytest.mark.parametrize("first", [0, 1])
def test_numbers_of_rows_are_no_ids(run, first):
    """They begin anew in every file, and say nothing of a copy."""
    for week in range(3):
        write(f"w{week}.h5", *drawn(200, seed=week), ids=np.arange(first, 200 + first))
        taken(run, f"w{week}.h5")
    z, y = drawn(200, seed=0)
    write("copy.h5", z.astype("f4"), y, ids=np.arange(200)[::-1] + first)
    refused(run, "copy.h5")


# ---- who calibrated the rows


def test_batches_that_other_calibrators_wrote_are_refused_without_a_calibrator_too(run):
    """Without -c files written by different calibrators entered one episode."""
    for name, seed in (("cal", 50), ("other", 51), ("w1", 1), ("w2", 2), ("w3", 3)):
        write(f"{name}.h5", *drawn(300, seed=seed))
    for name in ("cal", "other"):
        assert (
            run("fit", "--method", "ts", f"{name}.h5", "-o", f"{name}.json", "-q").code
            == 0
        )
    for calibrator, name in (("cal", "w1"), ("other", "w2"), ("cal", "w3")):
        assert (
            run(
                "apply", f"{calibrator}.json", f"{name}.h5", "-o", f"{name}.c.h5", "-q"
            ).code
            == 0
        )
    taken(run, "w1.c.h5")
    for name in ("w2.c.h5", "w2.h5"):
        done = run("watch", name, "--state", "s.json", "-q")
        assert done.code == 3 and "another calibrator" in done.line
    taken(run, "w3.c.h5")
    taken(run, "w2.c.h5", "--reset")
    with pytest.raises(DataError, match="another calibrator"):
        calcli.watch("w3.h5", state="s.json")


# ---- states of calcli 0.2


@pytest.mark.parametrize(("name", "code"), [("quiet", 0), ("alarm", 5)])
def test_a_state_of_calcli_0_2_goes_on(run, name, code):
    """Written by calcli 0.2.0: three batches, of ``drawn(300, seed=0..2)``, the last two of the alarm sharpened."""
    golden = Path(__file__).parent.parent / "golden" / "watch" / f"{name}_0.2.0.json"
    Path("s.json").write_bytes(golden.read_bytes())
    shown = run("watch", "--state", "s.json", "--json")
    before = json.loads(shown.out)
    assert shown.code == code and before["batches"] == 3 and before["rows"] == 900
    # printed by calcli 0.2.0
    expected = {"quiet": -1.2472729006970458, "alarm": 85.11750295241778}[name]
    assert before["log_e"] == pytest.approx(expected, abs=1e-9)
    assert before["since"] == (2 if code else None)
    write("same.h5", *drawn(300, seed=0))
    refused(run, "same.h5")
    write("w3.h5", *drawn(300, seed=3))
    done = run("watch", "w3.h5", "--state", "s.json", "--json")
    after = json.loads(done.out)
    assert (
        done.code == code
        and after["batches"] == 4
        and after["alarm_batch"] == before["alarm_batch"]
    )
    write("later.h5", *drawn(300, seed=3))
    refused(run, "later.h5")
    assert run("watch", "--state", "s.json", "--reset").code == 0
    write("w4.h5", *drawn(300, seed=4))
    taken(run, "w4.h5")
