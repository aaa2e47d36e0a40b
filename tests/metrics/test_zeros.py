"""Probabilities stored as 0: to which digit all were rounded, and one value of a zero in fits, metrics and pictures."""

import json
import warnings
from functools import reduce
from operator import add
from pathlib import Path

import h5py
import numpy as np
import pytest
from synthetic import truth

import calcli
from calcli.calibrator import Context
from calcli.diagrams.styles.temperature import sweep_temperature
from calcli.errors import DataError
from calcli.importers.open_any_file import open_data
from calcli.io.artifact import load
from calcli.logits import MISSED_SUM, to_logits
from calcli.methods.compared.identity import Identity
from calcli.metrics.collect import collect, summarise
from calcli.numerics import softmax
from calcli.registry import method
from calcli.rounding import (
    FLOAT64,
    SUM_TOLERANCE,
    digits_of_values,
    float_type,
    written_decimals,
)
from calcli.rows import ArrayRows
from calcli.zeros import OLD, Zeros

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

SMALLEST = {np.float16: 2.0**-24, np.float32: 2.0**-149, np.float64: 2.0**-1074}


def model(n=600, k=4, seed=0, decimals=None):
    """Probabilities of an overconfident model (T = 1.6), rounded, and labels drawn from the truth."""
    z, y = truth(n, k, seed=seed, scale=3.0)
    p = softmax(z)
    return (p if decimals is None else np.round(p, decimals)), y


def found(values, **how):
    values = np.asarray(values)
    kind = float_type(values.dtype)
    return Zeros.of(digits_of_values(values, kind), kind, **how)


def nll(p, y, **how):
    return (
        calcli.evaluate(p, y, kind="probs", metrics="nll", **how)
        .results[0]
        .scores["nll"]
        .value
    )


# ---- what all values prove


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("k", [2, 4, 100])
def test_decimals_are_seen_in_every_type(dtype, k):
    p, _ = model(k=k, decimals=2)
    assert found(p.astype(dtype)).steps == (0.01,)


@pytest.mark.parametrize("decimals", [1, 2, 3, 6, 10])
def test_as_many_decimals_as_were_kept(decimals):
    assert found(model(decimals=decimals)[0]).steps == (10.0**-decimals,)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_unrounded_numbers_are_rounded_by_their_type(dtype):
    p = model(k=5)[0].astype(dtype)
    assert found(p).steps == (SMALLEST[dtype],)
    if dtype != np.float64:  # and still show it in a wider type
        assert found(p.astype(np.float64)).steps == (SMALLEST[dtype],)


@pytest.mark.parametrize(
    ("dtype", "total"), [(np.float16, 1.0), (np.float32, 1.0 - 2.0**-12)]
)
def test_rows_are_divided_by_what_their_type_does_not_round(dtype, total):
    """docs/formats.md: these 1 - 2**-12 are rounding in float16, and not in float32."""
    p = np.array([[0.5, 0.25, 0.25 - 2.0**-12]], dtype=dtype)
    table = collect(ArrayRows(p, np.array([1]), "probs"))
    assert table.confidence.tolist() == [0.5 / total]
    assert table.nll[0] == pytest.approx(-np.log(0.25 / total), rel=1e-14)


def test_bfloat16_shows_in_float32():
    words = model(k=5)[0].astype(np.float32).view(np.uint32) & 0xFFFF0000
    assert found(words.view(np.float32)).steps == (2.0**-133,)


def of_bfloat16(p):
    """Numbers rounded to bfloat16, in float32. Ties, which it would round to even, are up."""
    bits = np.asarray(p, dtype=np.float32).view(np.uint32)
    return ((bits + 0x8000) & 0xFFFF0000).view(np.float32)


@pytest.mark.parametrize("k", [2, 3, 10, 1000])
def test_sums_of_bfloat16_miss_1_by_its_rounding(k):
    """Half a digit is 2^-8 of a number, and so of a sum of 1; float16 has an eighth of it."""
    p, y = model(k=k)
    halves = of_bfloat16(p)
    missed = np.abs(halves.sum(axis=1, dtype=np.float64) - 1.0).max()
    assert 1e-3 < missed < 2.0**-8
    divided = halves / halves.sum(axis=1, dtype=np.float64)[:, None]
    of_divided = -np.log(divided[np.arange(len(y)), y]).mean()
    # Sums that miss 1 by less are left as they are.
    expected = pytest.approx(of_divided, abs=MISSED_SUM)
    assert nll(halves, y) == expected
    assert nll(halves.astype(np.float64), y) == expected
    off = halves.copy()
    off[7] *= 1.02  # further than rounding goes
    with pytest.raises(DataError, match=r"sum to 1\.0"):
        nll(of_bfloat16(off), y)


def test_sums_miss_1_by_as_much_in_a_file_and_in_the_bundle_that_is_made_of_it():
    """256ths have eight decimals, and are bfloat16: the file was read, its bundle not."""
    p = np.round(model(k=3)[0] * 256).clip(1) / 256
    digits = digits_of_values(p, FLOAT64)
    tolerance = Zeros.of(digits, FLOAT64).sum_tolerance(3)
    assert digits.sum_tolerance(FLOAT64, 3) == tolerance == SUM_TOLERANCE


@pytest.mark.parametrize(
    "p",
    [
        [[1, 0], [1, 0], [0.6, 0.4], [0.4, 0.6]],  # one decimal, but of four rows
        np.eye(3)[[0, 1, 2] * 20],  # decisions
        [[1.0, 0.0], [0.5, 0.5]] * 30,
    ],
)
def test_few_values_prove_no_digits(p):
    assert found(np.array(p, dtype=np.float64)).steps == (2.0**-1074,)


def test_exponents_count():
    """1e-30 is no rounded zero, and shows that others were not rounded to decimals either."""
    p, _ = model(decimals=2)
    p[7] = [1.0, 1e-30, 0.0, 0.0]
    assert found(p).steps == (2.0**-1074,)


@pytest.mark.parametrize("clip", [1e-12, 1e-7, 1e-5])
@pytest.mark.parametrize("divided", [False, True])
def test_a_writers_clip_counts_as_a_zero(clip, divided):
    p, _ = model(k=3, decimals=2)
    p = np.maximum(p[np.abs(p.sum(axis=1) - 1) < 1e-9], clip)
    p = p[(p == clip).sum(axis=1) < 2]
    if divided:
        p /= 1.0 + clip * (p == clip).sum(axis=1, keepdims=True)
    zeros = found(p)
    assert zeros.steps == (0.01,) and zeros.clip == p.min()


def test_what_a_model_often_says_is_no_clip():
    """Label smoothing: .0005 in every row, far below .999, is what the model says."""
    p = np.full((400, 3), 0.0005)
    p[np.arange(400), np.arange(400) % 3] = 0.999
    assert found(p).clip == 0.0


def test_a_smallest_value_in_few_rows_is_no_clip():
    p, _ = model(n=1000, k=3, decimals=2)
    p = np.maximum(p, 0.01)
    p[:40, 0] = 1e-9  # 4 % of the rows
    assert found(p).clip == 0.0
    p[:60, 0] = 1e-9
    assert found(p).clip == 1e-9


@pytest.mark.parametrize(("dtype", "bits"), [(np.float64, 53), (np.float32, 24)])
def test_a_complement_was_rounded_as_numbers_near_1_are(dtype, bits):
    rng = np.random.default_rng(1)
    p = (1 / (1 + np.exp(-20 * rng.normal(size=1000)))).astype(dtype)
    both = np.stack([1 - p, p], axis=1)
    assert (both[:, 0] == 0).any()
    assert found(both).steps == (2.0**-bits, SMALLEST[dtype])
    assert found(both[:, ::-1]).steps == (SMALLEST[dtype], 2.0**-bits)


@pytest.mark.parametrize(
    ("cells", "decimals"),
    [(["0.00", "0.5"], 2), (["1", "0"], 0), (["1e-30"], 30), (["1.5e-3", "2E+1"], 4)],
)
def test_decimals_of_a_text(cells, decimals):
    assert written_decimals(cells) == decimals


@pytest.mark.parametrize("rows_at_once", [1, 7, 250])
@pytest.mark.parametrize("values", ["rounded", "clipped", "float32", "two"])
def test_blocks_show_what_the_whole_shows(values, rows_at_once):
    p, _ = model(n=500, decimals=2)
    if values == "clipped":
        p = np.maximum(p, 1e-9)
    elif values == "float32":
        p = model(n=500)[0].astype(np.float32).astype(np.float64)
    elif values == "two":
        p = np.round(model(n=500, k=2)[0], 3)
    parts = [
        digits_of_values(p[start : start + rows_at_once])
        for start in range(0, len(p), rows_at_once)
    ]
    kind, whole = float_type(p.dtype), digits_of_values(p)
    for joined in (reduce(add, parts), reduce(add, parts[::-1])):
        assert joined.all == whole.all
        assert Zeros.of(joined, kind) == Zeros.of(whole, kind)


# ---- the rule


def test_the_zeros_of_a_row_share_half_a_digit_by_hand():
    p = np.array([[0.9, 0.1, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.4, 0.3, 0.2, 0.1]])
    logs = Zeros((0.1,)).log_of(p)
    third, fourth = 0.05 / 3, 0.05 / 4
    expected = [[0.9, 0.1, third, third], [1.0, fourth, fourth, fourth], p[2]]
    np.testing.assert_allclose(np.exp(logs), expected, rtol=1e-14)


def test_half_of_the_smallest_number_is_no_number_but_has_a_logarithm():
    logs = Zeros((2.0**-1074,)).log_of(np.array([[1.0, 0.0]]))
    assert logs[0, 1] == pytest.approx(-1076 * np.log(2), rel=1e-14)


def test_rows_that_miss_1_by_rounding_are_divided_by_their_sums():
    p = np.array([[0.33, 0.33, 0.33], [0.5, 0.3, 0.2]])
    z = to_logits(p, "probs", Zeros((0.01,)))
    np.testing.assert_allclose(np.exp(z), [[1 / 3] * 3, p[1]], rtol=1e-14)


def test_fit_metric_and_picture_count_a_zero_alike():
    """The three values of 0.2 (2e-308, 1e-12, 1e-30 itself) are one."""
    p, y = model(decimals=2)
    zero = p == 0
    count = zero.sum(axis=1, keepdims=True)
    stored = np.where(zero, 0.005 / (count + 1), p)
    sums = p.sum(axis=1, keepdims=True)
    by_hand = np.log(stored / np.where(np.abs(sums - 1) > 1e-3, sums, 1.0))
    here = np.arange(len(y))
    assert zero[here, y].sum() > 3

    assert nll(p, y) == pytest.approx(-by_hand[here, y].mean(), rel=1e-12)
    rows, plain = ArrayRows(p, y, "probs"), ArrayRows(by_hand, y, "logits")
    fitted, expected = (
        calcli.fit(s.scores, y, "ts", kind=s.kind) for s in (rows, plain)
    )
    assert fitted.params["temperature"] == pytest.approx(
        expected.params["temperature"], rel=1e-9
    )
    calibrated = [
        summarise(rows_of_kind, Identity(), Context().progress)
        for rows_of_kind in (rows, plain)
    ]
    assert calibrated[0].nll == pytest.approx(calibrated[1].nll, rel=1e-12)
    sweeps = [
        sweep_temperature(rows_of_kind, "x", calibrators=(("T", 1.0),), points=3)
        for rows_of_kind in (rows, plain)
    ]
    # the ends of the range are temperatures that were fitted, as above
    one, other = (sweep.temperature for sweep in sweeps)
    np.testing.assert_allclose(one, other, rtol=1e-9)
    at_one = [sweep.nll[sweep.temperature == 1.0] for sweep in sweeps]
    np.testing.assert_allclose(*at_one, rtol=1e-12)


def test_what_a_zero_counts_as_is_also_expected_to_happen():
    """Labels drawn from what is stored, zeros included, have the NLL that the entropy says, to its standard error."""
    p, _ = model(n=20_000, decimals=1)
    stored = np.exp(Zeros((0.1,)).log_of(p))
    u = np.random.default_rng(0).random((len(p), 1)) * stored.sum(axis=1, keepdims=True)
    y = (stored.cumsum(axis=1) < u).sum(axis=1)
    table = collect(ArrayRows(p, y, "probs"))
    excess = table.nll - table.entropy
    # rows sum to up to 1.05, of which the expectation is taken as it is
    assert abs(excess.mean()) < 3 * excess.std() / np.sqrt(len(p)) + 0.01


def test_a_sure_and_wrong_model_gains_nothing_by_fewer_digits():
    """17.52 nats with 1e-30 at the labels; 7.16 in calcli 0.2 with a 0 there."""
    rows = [[1, 1e-30], [1, 1e-30], [0.6, 0.4], [0.4, 0.6]]
    y = np.array([1, 0, 0, 1])
    p = np.array(rows)
    assert nll(p, y) == pytest.approx(17.525, abs=1e-3)
    p[:2, 1] = 0.0
    assert nll(p, y) > 17.525


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_narrower_type_gains_no_more_than_its_smallest_number(dtype):
    p = softmax(truth(500, 3, scale=60.0)[0])
    y = p.argmin(axis=1)
    whole = -np.log(np.maximum(p[np.arange(500), y], 1e-300))
    narrow = collect(ArrayRows(p.astype(dtype), y, "probs")).nll
    most = -np.log(SMALLEST[dtype])
    assert (narrow >= np.minimum(whole, most) * (1 - 1e-3) - 0.5).all()
    assert (whole > most).any()


@pytest.mark.parametrize("decimals", [1, 2, 3, 4])
def test_cut_digits_gain_no_more_than_the_rule_says(decimals):
    """Of a row whose label is cut to 0 the loss is at least that of half a digit, half of it if it is the only one."""
    p, _ = model(n=2000, k=5)
    y = p.argmin(axis=1)
    cut = np.round(p, decimals)
    table = collect(ArrayRows(cut, y, "probs"))
    zero = cut[np.arange(2000), y] == 0
    assert zero.any()
    sums = cut.sum(axis=1)
    assert (
        table.nll[zero] >= -np.log(0.25 * 10.0**-decimals / sums[zero]) - 1e-9
    ).all()


def test_float32_and_float64_copies_agree():
    p, y = model()
    single = p.astype(np.float32)
    assert nll(single, y) == pytest.approx(nll(p, y), rel=1e-6)
    assert nll(single.astype(np.float64), y) == pytest.approx(nll(single, y), rel=1e-9)
    p, y = model(decimals=2)
    one, other = (
        calcli.fit(s, y, "ts", kind="probs") for s in (p, p.astype(np.float32))
    )
    assert one.params["temperature"] == pytest.approx(
        other.params["temperature"], rel=1e-6
    )
    assert nll(p, y) == pytest.approx(nll(p.astype(np.float32), y), rel=1e-6)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("decimals", [2, None])
def test_permuted_columns_permute_the_result(k, decimals):
    p, y = model(k=k, decimals=decimals)
    if decimals is None:
        p[p < 1e-3] = 0.0
        p /= p.sum(axis=1, keepdims=True)
    order = np.random.default_rng(0).permutation(k)
    turned, labels = p[:, order], np.argsort(order)[y]
    assert nll(turned, labels) == pytest.approx(nll(p, y), rel=1e-12)
    one, other = (
        calcli.fit(s, labels, "ts", kind="probs")
        for s, labels in ((p, y), (turned, labels))
    )
    np.testing.assert_allclose(
        other.predict_proba(turned), one.predict_proba(p)[:, order], atol=1e-9
    )


@pytest.mark.parametrize("c", [0.0, 1.0])
def test_confidences_of_0_and_1_count_by_the_same_rule(c):
    """Rounded to .01 there is one zero of two outcomes: .005 / 2."""
    rng = np.random.default_rng(0)
    confidence = np.round(rng.uniform(0.05, 0.95, 200), 2)
    confidence[:5], right = c, rng.random(200) < 0.5
    right[:5] = c == 0.0
    table = collect(ArrayRows(confidence[:, None], right, "confidence"))
    np.testing.assert_allclose(table.nll[:5], -np.log(0.0025), rtol=1e-12)
    unrounded = confidence * np.sqrt(0.97)
    unrounded[:5] = c
    table = collect(ArrayRows(unrounded[:, None], right, "confidence"))
    bits = 55 if c else 1076  # half of the digit of 1 - c, or of c, halved
    np.testing.assert_allclose(table.nll[:5], bits * np.log(2), rtol=1e-12)


# ---- files


def store(name, p, y, group="/", **attributes):
    with h5py.File(name, "a") as file:
        node = file.require_group(group)
        node["probs"], node["labels"] = p, y
        node.attrs.update(attributes)


def table(path, p, y, form="{:.2f}"):
    names = ",".join(f"prob_{c}" for c in range(p.shape[1]))
    rows = (
        ",".join(form.format(value) for value in row) + f",{label}"
        for row, label in zip(p, y, strict=True)
    )
    Path(path).write_text("\n".join([f"{names},label", *rows]) + "\n")


def temperature(run, *names):
    assert run("fit", "-m", "ts", *names, "-o", "t.json", "--force").code == 0
    return load("t.json").calibrator.temperature


def test_shards_are_one_data_set(run):
    p, y = model(n=900, decimals=2)
    store("whole.h5", p, y)
    store("a.h5", p[:300], y[:300])
    store("b.h5", p[300:], y[300:])
    whole = temperature(run, "whole.h5")
    assert temperature(run, "a.h5", "b.h5") == pytest.approx(whole, rel=1e-12)
    with open_data(["a.h5", "b.h5"]) as rows:
        assert rows.zeros == Zeros((0.01,))
    one = run("evaluate", "whole.h5", "-m", "nll", "--format", "value")
    both = run("evaluate", "a.h5", "b.h5", "--pool", "-m", "nll", "--format", "value")
    assert float(both.out) == pytest.approx(float(one.out), rel=1e-12)


@pytest.mark.parametrize("decimals", [2, 4])
def test_a_table_of_text_and_an_array_of_the_same_numbers_agree(run, decimals):
    p, y = model(decimals=decimals)
    table("t.csv", p, y, f"{{:.{decimals}f}}")
    np.savez("t.npz", probs=p, labels=y)
    with open("t.jsonl", "w") as file:
        for row, label in zip(p.tolist(), y.tolist(), strict=True):
            file.write(json.dumps({"probs": row, "label": label}) + "\n")
    values = [
        run("evaluate", name, "--kind", "probs", "-m", "nll", "--format", "value").out
        for name in ("t.csv", "t.npz", "t.jsonl")
    ]
    assert float(values[1]) == pytest.approx(float(values[0]), rel=1e-12)
    assert float(values[2]) == pytest.approx(float(values[0]), rel=1e-12)


def test_decimals_that_only_the_text_shows_are_read_from_it(run):
    """A column of 0.000 and 1.000 has three decimals; as numbers these prove nothing."""
    p = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])[np.arange(60) % 2]
    table("t.csv", p, np.arange(60) % 2, "{:.3f}")
    assert run("extract", "t.csv", "--kind", "probs", "-o", "t.h5").code == 0
    with h5py.File("t.h5") as file:
        assert file.attrs["resolution"] == 0.001


def test_exponents_in_a_text_count(run):
    p, y = model()
    p[3] = [1.0, 0.0, 0.0, 0.0]
    p[5, :2] = p[5, :2].sum() - 1.5e-12, 1.5e-12
    table("t.csv", p, y, "{:.9g}")
    assert run("extract", "t.csv", "--kind", "probs", "-o", "t.h5").code == 0
    least = min(value for value in np.unique(p) if value)
    decimals = written_decimals([f"{least:.9g}"])
    with h5py.File("t.h5") as file:
        assert file.attrs["resolution"] == pytest.approx(10.0**-decimals)


def test_the_resolution_goes_along(run):
    """Through extract, split, join, extract again and apply; parts that show no digits keep those of the whole."""
    p, y = model(n=400, decimals=2)
    order = np.argsort(p.max(axis=1) < 1.0, kind="stable")  # sure rows first
    np.savez("a.npz", probs=p[order], labels=y[order])
    split = ["--split", "cal=100", "--split", "test=rest", "--no-shuffle"]
    assert run("extract", "a.npz", "-o", "a.h5", *split).code == 0
    assert run("fit", "-m", "ts", "a.h5:cal", "-o", "t.json").code == 0
    assert run("apply", "t.json", "a.h5:test", "-o", "c.h5").code == 0
    with h5py.File("a.h5") as file:
        assert (
            file["cal"].attrs["resolution"] == file["test"].attrs["resolution"] == 0.01
        )
    with h5py.File("c.h5") as file:
        assert file.attrs["resolution"] == 0.01
    assert json.loads(Path("t.json").read_text())["fit"]["resolution"] == 0.01
    for part in ("cal", "test"):
        with h5py.File("a.h5") as file, h5py.File(f"{part}.h5", "w") as out:
            file.copy(file[part], out, "x")
    assert run("extract", "cal.h5", "test.h5", "--join", "-o", "j.h5").code == 0
    with h5py.File("j.h5") as file:
        node = file if "probs" in file else file["x"]
        assert node.attrs["resolution"] == 0.01


@pytest.mark.parametrize("value", [0.0, -1.0, 2.0, np.nan, "0.01", [0.1, 0.1, 0.1]])
def test_an_impossible_resolution_is_refused(run, value):
    p, y = model(n=50, decimals=2)
    store("a.h5", p, y, resolution=value)
    done = run("evaluate", "a.h5")
    assert done.code == 3 and "resolution is" in done.line and "0.01" in done.line


def test_a_recorded_resolution_is_believed(run):
    p, y = model(n=300)
    p[p < 1e-4] = 0.0
    store("a.h5", p, y, resolution=0.001)
    value = run("evaluate", "a.h5", "-m", "nll", "--format", "value")
    logs = Zeros((0.001,)).log_of(p)
    sums = np.log(p.sum(axis=1))
    expected = sums - logs[np.arange(300), y]
    assert float(value.out) == pytest.approx(expected.mean(), rel=1e-9)


# ---- calibrators


def test_a_calibrator_counts_zeros_as_its_fit_did_whatever_stands_beside(run):
    p, y = model(decimals=2)
    fitted = calcli.fit(p, y, "ts", kind="probs")
    sure = np.array([[1.0, 0.0, 0.0, 0.0]])
    alone = fitted.predict_proba(sure)
    np.testing.assert_array_equal(
        alone[0], fitted.predict_proba(np.concatenate([sure, p]))[0]
    )
    fitted.save("t.json")
    store("one.h5", sure, [0])
    assert run("apply", "t.json", "one.h5", "-o", "out.h5").code == 0
    with h5py.File("out.h5") as file:
        np.testing.assert_allclose(file["probs"][()], alone, rtol=1e-12)
    # exp(log(.005/4) / T), normalised
    stored = np.array([1.0, *[0.00125] * 3]) ** (1 / fitted.params["temperature"])
    np.testing.assert_allclose(alone[0], stored / stored.sum(), rtol=1e-12)


def test_after_a_fit_to_unrounded_rows_the_digits_of_new_ones_count():
    p, y = model()
    fitted = calcli.fit(p, y, "ts", kind="probs")
    rounded = np.round(p, 2)
    z = to_logits(rounded, "probs", Zeros((0.01,)))
    np.testing.assert_allclose(
        fitted.predict_proba(rounded),
        softmax(z / fitted.params["temperature"]),
        atol=1e-12,
    )


def test_artifacts_of_old_versions_count_every_zero_as_before(tmp_path):
    p, y = model(n=200, decimals=2)
    fitted = calcli.fit(p, y, "ts", kind="probs")
    content = fitted.to_dict()
    del content["fit"]["resolution"]
    content["fit"]["probability_floor"] = 2.2250738585072014e-308
    (tmp_path / "old.json").write_text(json.dumps(content))
    old = calcli.load(tmp_path / "old.json")
    assert old._artifact.calibrator.zeros == OLD
    log_p = np.log(np.maximum(p, 2.2250738585072014e-308))
    expected = softmax(log_p / fitted.params["temperature"])
    np.testing.assert_allclose(old.predict_proba(p), expected, atol=1e-15)


@pytest.mark.parametrize("name", ["ts", "ts+hb", "platt"])
def test_what_zeros_counted_as_is_pickled_along(name):
    import pickle

    p, y = model(n=200, decimals=2)
    fitted = calcli.fit(p, y, name, kind="probs")._artifact.calibrator
    assert pickle.loads(pickle.dumps(fitted)).zeros == Zeros((0.01,))


def test_workers_count_zeros_as_one_process_does(run):
    p, y = model(n=6000, k=60, decimals=2)
    p[:, 0] += 1 - p.sum(axis=1)
    p = np.round(np.maximum(p, 0), 2)
    store("a.h5", p, y)
    alone = temperature(run, "a.h5")
    assert temperature(run, "a.h5", "--workers", "2") == alone
    values = [
        run("evaluate", "a.h5", "-m", "nll", "--format", "value", *more).out
        for more in ((), ("--workers", "2"))
    ]
    assert values[0] == values[1]


@pytest.mark.parametrize("name", ["irova", "cts", "iop", "platt", "mono", "hoki"])
def test_methods_that_take_columns_or_sorted_rows_count_zeros_alike(name):
    """A fit to probabilities is the fit to their logarithms, for methods that read no sums of rows."""
    p, y = model(n=300, decimals=2)
    p = p[np.abs(p.sum(axis=1) - 1) < 1e-9]
    y = y[: len(p)]
    zeros = found(p)
    rows = ArrayRows(p, y, "probs")
    plain = ArrayRows(zeros.log_of(p), y, "log_probs").counting(zeros)
    options = method(name).resolve_options(method(name).Options(), 4)
    one, other = (
        method(name).fit(rows_of_kind, options, Context())
        for rows_of_kind in (rows, plain)
    )
    a, b = (
        np.concatenate(
            [fit.calibrator.apply(block).log_probs for block in rows_of_kind.blocks()]
        )
        for fit, rows_of_kind in ((one, rows), (other, plain))
    )
    np.testing.assert_allclose(np.exp(a), np.exp(b), atol=1e-9)


# ---- what is said


def test_the_rounding_is_said_in_one_line(run):
    p, y = model(decimals=2)
    store("a.h5", p, y)
    line = "probabilities were rounded to 0.01; a zero counts as 0.005/(zeros of the row + 1)"
    assert "probabilities were rounded to 0.01" in run("evaluate", "a.h5", "--full").out
    errors = run("evaluate", "a.h5", "--json").err
    assert line in errors
    assert "were divided by their sums" in errors
    assert line in run("fit", "-m", "ts", "a.h5", "-o", "t.json").err
    p, y = model()
    store("b.h5", p, y)
    errors = run("evaluate", "b.h5", "--json")
    assert "rounded" not in errors.err + errors.out


def test_many_zeros_at_labels_make_the_nll_a_range(run):
    p, y = model(k=6, decimals=2)
    here, count = np.arange(len(y)), (p == 0).sum(axis=1)
    zero = p[here, y] == 0
    assert 0.01 < zero.mean() < 0.05
    store("a.h5", p, y)
    done = run("evaluate", "a.h5", "--json")
    nll_value = json.loads(done.out)["results"][0]["metrics"]["nll"]
    assert nll_value["clipped"] == zero.sum()
    shift = np.log(count[zero] + 1.0).sum() / len(y)
    rise = np.log(20.0 / (count[zero] + 1.0)).sum() / len(y)
    expected = [nll_value["value"] - shift, nll_value["value"] + rise]
    assert nll_value["between"] == pytest.approx(expected, rel=1e-9)
    low, high = nll_value["between"]
    errors = run("evaluate", "a.h5", "--json").err
    assert f"it lies between {low:.4g} and {high:.4g}; more digits would help" in errors
    few = ~zero | (np.cumsum(zero) <= 3)
    store("b.h5", p[few], y[few])
    nll_value = json.loads(run("evaluate", "b.h5", "--json").out)["results"][0][
        "metrics"
    ]
    assert nll_value["nll"]["clipped"] == 3 and "between" not in nll_value["nll"]


# ---- sums


@pytest.mark.parametrize("k", [2, 3, 20, 77])
@pytest.mark.parametrize("decimals", [2, 3])
def test_rows_that_miss_1_by_rounding_are_read(run, k, decimals):
    p, y = model(n=400, k=k, decimals=decimals)
    kept = p.any(axis=1)
    store("a.h5", p[kept], y[kept])
    assert run("evaluate", "a.h5").code == 0
    with open_data(["a.h5"]) as rows:
        assert collect(rows).confidence.max() <= 1.0


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ([0.9, 0.7, 0.59], "separate yes/no questions"),
        ([0.3, 0.2, 0.1], "is a class missing"),
        ([0.0, 0.0, 0.0], "zeros only are no answer"),
    ],
)
def test_other_sums_are_refused_with_the_reason(run, row, reason):
    p, y = model(n=100, k=3, decimals=2)
    p[17] = row
    store("a.h5", p, y)
    done = run("evaluate", "a.h5")
    assert done.code == 3 and reason in done.line
    assert f"row 17 sum to {sum(row):.6g}, expected 1 within 0.025" in done.line


def test_rows_of_zeros_are_left_out_and_counted(run):
    p, y = model(n=100, decimals=2)
    p[[5, 50]] = 0.0
    np.savez("a.npz", probs=p, labels=y)
    assert run("extract", "a.npz", "-o", "a.h5").code == 3
    done = run("extract", "a.npz", "--drop-missing", "-o", "a.h5")
    assert done.code == 0
    assert (
        "2 of 100 rows left out: they hold zeros only, which is no answer" in done.err
    )
    with h5py.File("a.h5") as file:
        assert len(file["probs"]) == 98


def test_wider_sums_are_not_read_of_numbers_that_were_not_rounded():
    p, _ = model(n=50)
    p[3] *= 1.01
    with (
        pytest.raises(DataError, match="expected 1 within 0.001"),
        warnings.catch_warnings(),
    ):
        calcli.evaluate(p, np.zeros(50, dtype=int), kind="probs")


@pytest.mark.parametrize("dtype", ["f4", "f2"])
@pytest.mark.parametrize("shape", ["one column", "two columns", "confidence"])
def test_decimals_fall_into_the_bins_of_their_digits_in_every_type(dtype, shape):
    """float32 has 0.4 as 0.40000001, above the edge of a bin: ECE .0172 for .0198."""
    rng = np.random.default_rng(3)
    p = np.round(rng.random(2000), 2)
    y = (rng.random(2000) < p).astype(int)
    if shape == "confidence":
        p, y = (
            np.maximum(p, 1 - p),
            (rng.random(2000) < np.maximum(p, 1 - p)).astype(int),
        )
    scores = np.stack([np.round(1 - p, 2), p], axis=1) if shape == "two columns" else p
    kind = "confidence" if shape == "confidence" else "probs"
    values = []
    for dtype_name in ("f8", dtype):
        evaluation = calcli.evaluate(
            scores.astype(dtype_name), y, kind=kind, metrics=["ece", "mce", "brier_top"]
        )
        values.append([score.value for score in evaluation.results[0].scores.values()])
    assert values[1] == pytest.approx(values[0], rel=1e-12)


def test_unrounded_numbers_of_a_narrow_type_are_not_moved():
    zeros = Zeros((0.01,))
    p = np.array([0.4, 0.4 + 1e-6, 1e-9]).astype("f4").astype("f8")
    assert zeros.as_written(p).tolist() == [0.4, *p[1:]]
    wide = np.array([0.4 + 1e-9, 0.3])
    assert zeros.as_written(wide) is wide
