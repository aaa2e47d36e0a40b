"""Diagrams: the numbers, what is drawn of them, and the command."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from drawings import (
    FAST,
    every_figure,
    figure_of,
    laid_out,
    one,
    rows_like,
    rows_of,
    tables,
)
from metric_cases import draw_labels, softmax
from run_calcli import process
from synthetic import truth

import calcli
from calcli.binning import BinStats, width_edges
from calcli.calibrator import Context
from calcli.diagrams.caption_text import fall_words, round_ticks, short, squeeze
from calcli.diagrams.curve import CurveSettings, clearest_fall, measure_curve
from calcli.diagrams.outputs import to_csv, to_json, to_object
from calcli.diagrams.panels import Measured, Panel
from calcli.diagrams.style import style as find_style
from calcli.diagrams.styles.corp import Corp
from calcli.diagrams.styles.temperature import sweep_temperature
from calcli.diagrams.terminal import Look
from calcli.diagrams.terminal import draw as draw_text
from calcli.methods.ec import ExpectationConsistency
from calcli.methods.ts import TemperatureScaling
from calcli.metrics.collect import collect
from calcli.metrics.confidence_bins import confidence_bins
from calcli.metrics.context import MetricContext
from calcli.rows import ArrayRows
from calcli.statistics.units import Units


@pytest.fixture
def logits(tmp_path, monkeypatch):
    """An overconfident file with groups cal and test, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    z, y = truth(1600, 5, temperature=1.8)
    with h5py.File("logits.h5", "w") as file:
        for group, rows in (("cal", slice(0, 800)), ("test", slice(800, None))):
            file[f"{group}/logits"] = z[rows].astype(np.float32)
            file[f"{group}/labels"] = y[rows]
            file[f"{group}/group"] = np.array([b"day", b"night"])[np.arange(800) % 2]
    return tmp_path / "logits.h5"


# ---- the numbers


def test_the_numbers_are_those_of_the_metrics(resnet20):
    # CIFAR-100 ResNet-20, test half: ECE .11040 uncalibrated and .01933 at T = 1.434451,
    # verified independently; mean confidence .69331 at that T.
    *_, z, y = resnet20
    plain = collect(ArrayRows(z, y))
    curve = measure_curve("uncalibrated", plain, FAST)
    assert curve.ece == pytest.approx(0.11040, abs=5e-6)
    assert curve.accuracy == pytest.approx(0.6846)
    assert curve.brier.score == pytest.approx(plain.brier_top.mean())
    assert curve.outside > 0.8
    assert curve.ece_p == pytest.approx(1 / 1001)
    scaled = collect(ArrayRows(z.astype(float) / 1.434451, y))
    curve = measure_curve("ts", scaled, FAST)
    assert curve.ece == pytest.approx(0.01933, abs=5e-6)
    assert curve.mean_confidence == pytest.approx(0.69331, abs=5e-6)
    assert curve.ece_p > 0.02


@pytest.mark.parametrize("more", [(), ("weights",), ("unit",)])
@pytest.mark.parametrize("k", [2, 4])
def test_a_picture_and_the_table_give_one_ece_one_null_and_one_p_value(
    run, tmp_path, k, more
):
    """To the last digit, whatever draws the picture's band has; the page holds the table's own."""
    rng = np.random.default_rng(k)
    z = rng.normal(size=(900, k)) * 2
    with h5py.File("m.h5", "w") as file:
        file["logits"], file["labels"] = (
            z * 1.2,
            draw_labels(softmax(z), np.random.RandomState(k)),
        )
        for name in more:
            file[name] = (
                rng.random(900) + 0.5 if name == "weights" else np.arange(900) // 5
            )
    names = [
        word
        for name in ("ece", "ece_mass", *["ece_positive"] * (k == 2))
        for word in ("-m", name)
    ]
    known = json.loads(run("evaluate", "m.h5", *names, "--json").out)["results"][0][
        "metrics"
    ]
    for scheme, name in (("width", "ece"), ("mass", "ece_mass")):
        drawn = json.loads(
            run(
                "diagram", "m.h5", "--scheme", scheme, "--resamples", "100", "--json"
            ).out
        )
        curves = {
            c["quantity"]: c for panel in drawn["panels"] for c in panel["curves"]
        }
        wanted = {"top": name} | (
            {"positive": "ece_positive"} if k == 2 and scheme == "width" else {}
        )
        for quantity, metric in wanted.items():
            c = curves[quantity]
            values_in_json = (
                c["ece"],
                c["ece_null_mean"],
                c["ece_null_q95"],
                c["ece_p"],
            )
            assert values_in_json == tuple(
                known[metric][key]
                for key in ("value", "null_mean", "null_q95", "p_value")
            )


@pytest.mark.parametrize("factor", [1.0, 1.15, 3.0])
def test_a_picture_and_the_table_write_a_p_value_alike(run, tmp_path, factor):
    """One ECE had "p < 0.0025" in the picture and "<.001" in the text."""
    z = np.random.default_rng(4).normal(size=(900, 4)) * 2
    with h5py.File("m.h5", "w") as file:
        file["logits"], file["labels"] = (
            z * factor,
            draw_labels(softmax(z), np.random.RandomState(4)),
        )
    match = re.search(
        r"^uncalibrated +\S+ \(\S+\) (p [=<] [\d.]+)",
        run("evaluate", "m.h5", "-m", "ece").out,
        re.MULTILINE,
    )
    assert run("diagram", "m.h5", "-o", "m.svg").code == 0
    picture = Path("m.svg").read_text()
    assert (
        picture.count("uncalibrated:") == 1
        and "uncalibrated, uncalibrated" not in picture
    )
    drawn = re.findall(r"p (?:=|&lt;|<) [\d.]+\d", picture + run("diagram", "m.h5").out)
    assert match is not None and {text.replace("&lt;", "<") for text in drawn} == {
        match[1]
    }


@pytest.mark.parametrize("weighted", [False, True])
def test_bars_of_rows_in_units_have_the_intervals_of_the_bins_that_evaluate_shows(
    weighted,
):
    rng = np.random.default_rng(1)
    z, unit = rng.normal(size=(1200, 4)) * 2, rng.integers(0, 200, 1200)
    y = np.argmax(
        z + rng.normal(size=(200, 4))[unit] + rng.gumbel(size=z.shape), axis=1
    )
    weight = rng.gamma(0.5, size=1200) if weighted else None
    table = collect(ArrayRows(z, y, weight=weight, units=Units.of(unit)))
    bars = measure_curve("m", table, CurveSettings(bins=10, resamples=10)).bins
    bins = confidence_bins(MetricContext(table))
    for b in range(9):  # what lies above .9 is cut at .99 there
        here = [bars.accuracy_low[b], bars.accuracy_high[b]]
        np.testing.assert_allclose(
            here, [bins[b].accuracy_low, bins[b].accuracy_high], rtol=1e-12
        )


def test_bars_and_histogram_count_every_row_once():
    c, y = rows_like()
    c[:7] = 0.0, 1.0, 1 / 15, 0.5, 0.5, 1.0, 0.0
    curve = measure_curve("a", rows_of(c, y), FAST)
    stats = BinStats.of(c, y, width_edges(15))
    np.testing.assert_array_equal(curve.bins.count, stats.count)
    used = stats.count > 0
    np.testing.assert_allclose(
        curve.bins.accuracy[used], (stats.outcome / np.maximum(stats.count, 1))[used]
    )
    assert np.isnan(curve.bins.accuracy[~used]).all()
    assert curve.histogram.count.sum() == len(c)
    inside = (curve.bins.accuracy_low <= curve.bins.accuracy) & (
        curve.bins.accuracy <= curve.bins.accuracy_high
    )
    assert inside[used].all()
    gaps = np.abs(curve.bins.confidence - curve.bins.accuracy)[used]
    assert curve.ece == pytest.approx((gaps * stats.share[used]).sum())


def test_mass_bins_hold_equally_many():
    c, y = rows_like()
    curve = measure_curve(
        "a", rows_of(c, y), CurveSettings(scheme="mass", resamples=100)
    )
    assert set(curve.bins.count) == {100}


def test_weights_count_as_repeated_rows_do():
    c, y = rows_like(300)
    w = np.random.default_rng(1).integers(0, 4, 300)
    weighted = measure_curve("a", rows_of(c, y, w.astype(float)), FAST)
    repeated = measure_curve("a", rows_of(np.repeat(c, w), np.repeat(y, w)), FAST)
    for name in ("accuracy", "mean_confidence", "ece"):
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name))
    assert weighted.brier.miscalibration == pytest.approx(repeated.brier.miscalibration)
    np.testing.assert_allclose(weighted.isotonic.value, repeated.isotonic.value)


DEGENERATE = {
    "one row right": ([0.7], [1]),
    "one row wrong": ([0.7], [0]),
    "all equal": ([0.6] * 9, [1, 0] * 4 + [1]),
    "all right and sure": ([1.0] * 6, [1] * 6),
    "all wrong and sure": ([1.0] * 6, [0] * 6),
    "all right": (np.linspace(0.1, 1, 40), np.ones(40)),
    "all wrong": (np.linspace(0.0, 1, 40), np.zeros(40)),
    "zeros and ones": ([0.0, 0.0, 1.0, 1.0], [0, 1, 0, 1]),
    "falling": (np.linspace(0, 1, 50), (np.arange(50) < 25) * 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("style", ["corp", "bins"])
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_rows_are_drawn_and_not_crashed_on(case, style, weighted):
    c, y = (np.asarray(v, dtype=float) for v in DEGENERATE[case])
    with np.errstate(all="raise"):
        curve = measure_curve(
            "x", rows_of(c, y, np.arange(1.0, len(c) + 1) if weighted else None), FAST
        )
        figure = find_style(style)((Panel("p", (curve,)),))
        texts = [
            draw_text(figure, 80, look)
            for look in (Look(), Look(False), Look(True, True))
        ]
    assert all("ECE" in text for text in texts)
    assert 0 <= curve.ece <= 1
    assert 0 < curve.ece_p <= 1
    b = curve.brier
    assert b.score == pytest.approx(b.miscalibration - b.discrimination + b.uncertainty)
    assert json.loads(to_json(figure))
    laid_out(figure)


def test_a_single_sure_miss_is_told_apart_from_noise():
    # Nine rows at .6: six of nine right is what calibration gives; none of nine is not.
    fine = measure_curve("x", rows_of(np.full(9, 0.6), np.r_[np.ones(6), np.zeros(3)]))
    bad = measure_curve("x", rows_of(np.full(9, 0.6), np.zeros(9)))
    assert fine.outside == 0
    assert fine.ece_p > 0.5
    assert bad.outside == 1
    assert bad.ece_p < 0.01


# ---- which panels there are


def test_sides_and_overlays():
    sets = tables()
    side = figure_of(sets, notes=["a note"])
    assert [p.title for p in side.panels] == ["uncalibrated", "hot"]
    assert (side.title, side.notes) == ("a.h5", ("a note",))
    over = figure_of(sets, "bins", layout="overlay")
    assert [c.label for c in over.panels[0].curves] == ["uncalibrated", "hot"]
    two = figure_of([*sets, Measured("b.h5", "uncalibrated", sets[0].table)])
    assert [p.title for p in two.panels] == [
        "a.h5, uncalibrated",
        "a.h5, hot",
        "b.h5, uncalibrated",
    ]


def test_the_worst_classes_are_chosen_and_that_is_said():
    sets = tables()
    chosen = figure_of(sets, by="class", panels=1)
    assert [p.title for p in chosen.panels] == ["2"]
    assert "1 of 4 predicted classes: those least calibrated" in chosen.notes[0]
    assert [
        p.title
        for p in figure_of(sets, by="class", panels=1, names=list("abcd")).panels
    ] == ["c"]
    everything = figure_of(sets, by="class")
    assert [p.title for p in everything.panels] == ["0", "1", "2", "3"]
    assert sum(p.curves[0].n for p in everything.panels) == 2000
    assert not everything.notes


def test_scatter_points():
    sets = tables()
    figure = figure_of(sets, "variance")
    assert [p.method for p in figure.points] == ["uncalibrated", "hot"]
    assert figure.points[0].variance == pytest.approx(sets[0].table.confidence.var())
    assert "variance" in draw_text(figure, 80)


# ---- the sweep


def test_the_sweep_marks_what_the_methods_find():
    z, y = truth(1500, 6, temperature=1.7)
    rows = ArrayRows(z, y)
    sweep = sweep_temperature(rows, "a", calibrators=[("mine", 2.0)], points=9)
    marks = {mark.name: mark for mark in sweep.marks}
    ts = TemperatureScaling.fit(
        rows, TemperatureScaling.Options(), Context()
    ).calibrator
    ec = ExpectationConsistency.fit(
        rows, ExpectationConsistency.Options(), Context()
    ).calibrator
    assert marks["least NLL here"].temperature == pytest.approx(
        ts.temperature, rel=1e-9
    )
    assert marks["confidence = accuracy here"].temperature == pytest.approx(
        ec.temperature, rel=1e-9
    )
    assert marks["confidence = accuracy here"].mean_confidence == pytest.approx(
        sweep.accuracy, abs=1e-9
    )
    assert marks["mine"].temperature == 2.0
    table = collect(rows)
    curve = measure_curve("a", table, FAST)
    assert marks["T = 1"].nll == pytest.approx(table.nll.mean())
    assert marks["T = 1"].ece == pytest.approx(curve.ece)
    # The normal approximation of the floor against its exact mean.
    assert marks["T = 1"].ece_null_mean == pytest.approx(curve.ece_null_mean, rel=0.05)
    assert min(sweep.nll) == marks["least NLL here"].nll
    for mark in sweep.marks:  # every mark is a point of the curves
        place = sweep.temperature.tolist().index(mark.temperature)
        assert (mark.nll, mark.ece, mark.mean_confidence) == (
            sweep.nll[place],
            sweep.ece[place],
            sweep.mean_confidence[place],
        )
    assert (np.diff(sweep.mean_confidence) < 0).all()


def test_a_sweep_without_optimum_marks_none():
    z, _ = truth(200, 3)
    sweep = sweep_temperature(ArrayRows(z, z.argmax(axis=1)), "all right", points=5)
    assert [m.name for m in sweep.marks] == ["T = 1"]
    draw_text(sweep, 80)
    laid_out(sweep)


# ---- exports


def test_json_holds_the_numbers_exactly():
    figure = one(title="t", notes=("n",))
    curve = figure.panels[0].curves[0]
    read = json.loads(to_json(figure))
    assert (read["calcli_diagram"], read["style"], read["notes"]) == (1, "corp", ["n"])
    got = read["panels"][0]["curves"][0]
    assert got["ece"] == curve.ece
    assert got["isotonic"]["value"] == curve.isotonic.value.tolist()
    assert got["band"]["low"] == curve.band.low.tolist()
    assert got["bins"]["count"] == curve.bins.count.tolist()
    assert got["brier"]["miscalibration"] == curve.brier.miscalibration
    assert got["bins"]["accuracy"][0] is None
    assert to_object(figure_of(tables(), "variance"))["style"] == "variance"


def test_csv_holds_the_numbers_exactly():
    figure = one()
    curve = figure.panels[0].curves[0]
    lines = list(csv.DictReader(io.StringIO(to_csv(figure).decode())))
    x, y = curve.isotonic.knots
    drawn = [line for line in lines if line["element"] == "curve"]
    assert [float(line["x"]) for line in drawn] == x.tolist()
    assert [float(line["y"]) for line in drawn] == y.tolist()
    summary = {
        line["x"]: float(line["y"]) for line in lines if line["element"] == "summary"
    }
    assert summary["ece"] == curve.ece
    assert summary["log_miscalibration"] == curve.log.miscalibration
    histogram = [int(line["count"]) for line in lines if line["element"] == "histogram"]
    assert histogram == curve.histogram.count.tolist()
    z, labels = truth(100, 3)
    sweep = sweep_temperature(ArrayRows(z, labels), "a", points=5)
    read = list(csv.DictReader(io.StringIO(to_csv(sweep).decode())))
    size = len(sweep.nll)
    assert [float(line["nll"]) for line in read[:size]] == sweep.nll.tolist()
    assert read[size]["name"] == "T = 1"


# ---- the terminal


@pytest.mark.slow
@pytest.mark.parametrize(
    "look", [Look(), Look(False), Look(True, True)], ids=["unicode", "ascii", "colour"]
)
@pytest.mark.parametrize("width", [30, 47, 80, 120, 200])
def test_terminal_drawings_keep_to_the_width(width, look):
    drawn = every_figure()
    figures = [one(title="a title " * 30, notes=("a note " * 30,))]
    figures += [
        f
        for f in drawn.values()
        if width >= 80 or f.style not in ("variance", "temperature")
    ]
    for figure in figures:
        text = draw_text(figure, width, look)
        plain = re.sub("\x1b\\[[0-9;]*m", "", text)
        assert max(map(len, plain.splitlines())) <= width
        assert (text == plain) != look.colour
        assert look.unicode or text.isascii()


def test_the_terminal_shows_points_where_they_are():
    # One confidence, .7, and accuracy 3/4: the point is in column 70 % and row 75 %.
    curve = measure_curve("x", rows_of(np.full(4, 0.7), [1, 1, 1, 0]), FAST)
    text = draw_text(Corp((Panel("p", (curve,)),)), 80, Look())
    lines = text.splitlines()
    top, bottom = (
        next(i for i, line in enumerate(lines) if line.strip().startswith(t))
        for t in ("1.0┤", "0.0┤")
    )
    height = next(i for i, line in enumerate(lines) if "●" in line)
    left = lines[top].index("┤") + 1
    width = len(lines[bottom + 1]) - left
    assert (bottom - height) / (bottom - top + 1) == pytest.approx(0.75, abs=0.05)
    assert (lines[height].index("●") - left) / width == pytest.approx(0.7, abs=0.02)


@pytest.mark.parametrize("quantity", ["top", "positive"])
@pytest.mark.parametrize("width", [30, 60, 80])
def test_a_comma_stands_between_the_count_and_the_frequency(quantity, width):
    z, y = truth(400, 2)
    curve = measure_curve("x", collect(ArrayRows(z, y)), FAST, quantity)
    lines = draw_text(Corp((Panel("p", (curve,)),)), width, Look()).splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith("n = 400"))
    quantity_name = "accuracy" if quantity == "top" else "frequency of class 1"
    if width == 30:
        assert lines[place] == "n = 400"
        assert lines[place + 1].strip().startswith(f"{quantity_name} 0.")
    else:
        assert lines[place].startswith(f"n = 400, {quantity_name} 0.")


def test_reliability_that_falls_is_shown_in_bins_beside_the_isotonic_curve(tmp_path):
    """Right in .44, .24, .13 and .98 of the rows from .5 to 1: the isotonic curve is level where it falls."""
    rng = np.random.default_rng(0)
    c = rng.uniform(0.5, 1.0, 3000)
    right = (
        rng.random(3000)
        < np.select([c < 0.6, c < 0.7, c < 0.8], [0.44, 0.24, 0.13], 0.98)
    ).astype(float)
    falls, rises = (
        measure_curve("x", rows_of(c, y), FAST) for y in (right, rng.random(3000) < c)
    )
    assert falls.fall is not None and rises.fall is None
    early, late = falls.fall
    assert (
        falls.bins.accuracy_low[early] > falls.bins.accuracy_high[late] and early < late
    )
    note = fall_words(falls)
    assert (
        note.startswith("accuracy is significantly not monotone: 0.")
        and fall_words(rises) == ""
    )
    panels = [(Panel("p", (curve,)),) for curve in (falls, rises)]
    many, one = (draw_text(Corp(panel), 80, Look()).count("●") for panel in panels)
    assert many > 4 and one == 0


@pytest.mark.parametrize(("n", "share"), [(50, 0.5), (300, 0.5), (3000, 0.9)])
def test_level_reliability_is_seldom_called_falling(n, share):
    """The null with most falls by chance; 300 sets at 5 % have at most 27 (p < .003 beyond)."""
    rng = np.random.default_rng(n)
    edges = width_edges(15)
    sets = (
        BinStats.of(rng.random(n), (rng.random(n) < share).astype(float), edges, None)
        for _ in range(300)
    )
    assert sum(clearest_fall(one_set) is not None for one_set in sets) <= 27


def test_words():
    assert [short(v) for v in (0, 950, 8259, 10_000, 250_000, 2_500_000)] == [
        "0",
        "950",
        "8259",
        "10k",
        "250k",
        "2.5M",
    ]
    assert squeeze("abcdefghij", 5) == "ab…ij"
    assert round_ticks(0.5, 4) == [0.5, 0.7, 1, 1.5, 2, 3]
    assert round_ticks(0.001, 1) == [
        0.001,
        0.002,
        0.005,
        0.01,
        0.02,
        0.05,
        0.1,
        0.2,
        0.5,
        1,
    ]


# ---- the command


def test_command_draws_in_the_terminal(run, logits):
    result = run("diagram", "logits.h5", "--resamples", 100)
    assert (result.code, result.err) == (0, "")
    assert "logits.h5:test, uncalibrated" in result.out
    assert "\x1b[" not in result.out
    assert max(map(len, result.out.splitlines())) <= 80
    plain = run("diagram", "logits.h5", "--ascii", "--resamples", 100)
    assert plain.out.isascii()


@pytest.mark.slow
def test_command_writes_what_the_name_ends_in(run, logits):
    pytest.importorskip("matplotlib")
    assert run("fit", "--method", "ts", "logits.h5", "-q").code == 0
    starts = {
        "png": b"\x89PNG",
        "svg": b"<?xml",
        "pdf": b"%PDF",
        "json": b'{"calcli_diagram"',
        "csv": b"panel,",
    }
    for form, start in starts.items():
        result = run(
            "diagram",
            "logits.h5",
            "-c",
            "logits.ts.json",
            "-o",
            f"rel.{form}",
            "--resamples",
            100,
        )
        assert (result.code, result.out) == (0, f"rel.{form}\n")
        assert (logits.parent / f"rel.{form}").read_bytes().startswith(start)
    numbers = json.loads((logits.parent / "rel.json").read_text())
    assert [p["title"] for p in numbers["panels"]] == ["uncalibrated", "ts"]
    again = run(
        "diagram", "logits.h5", "-c", "logits.ts.json", "--json", "--resamples", 100
    )
    assert json.loads(again.out) == numbers
    refused = run("diagram", "logits.h5", "-o", "rel.png")
    assert refused.code == 2
    assert "--force" in refused.line
    assert (
        run("diagram", "logits.h5", "-o", "rel.png", "--force", "--resamples", 100).code
        == 0
    )
    assert (
        sorted(p.name for p in logits.parent.iterdir() if p.name.startswith(".")) == []
    )
    before = (logits.parent / "logits.ts.json").read_bytes()
    refused = run(
        "diagram",
        "logits.h5",
        "-c",
        "logits.ts.json",
        "-o",
        "logits.ts.json",
        "--force",
    )
    assert refused.code == 2
    assert "is an input" in refused.line
    assert (logits.parent / "logits.ts.json").read_bytes() == before


def test_command_draws_groups_classes_and_other_styles(run, logits):
    groups = run("diagram", "logits.h5", "--per-group", "--json", "--resamples", 100)
    assert [p["title"] for p in json.loads(groups.out)["panels"]] == ["day", "night"]
    classes = run(
        "diagram",
        "logits.h5",
        "--per-class",
        "--panels",
        2,
        "--json",
        "--resamples",
        100,
    )
    assert len(json.loads(classes.out)["panels"]) == 2
    assert "least NLL here" in run("diagram", "logits.h5", "--style", "temperature").out
    assert (
        "variance"
        in run("diagram", "logits.h5", "logits.h5:cal", "--style", "variance").out
    )


def test_command_says_when_the_rows_are_those_of_the_fit(run, logits):
    assert run("fit", "--method", "ts", "logits.h5", "-q").code == 0
    result = run(
        "diagram", "logits.h5:cal", "-c", "logits.ts.json", "--json", "--resamples", 100
    )
    assert "very rows" in result.err
    assert "very rows" in json.loads(result.out)["notes"][0]
    assert (
        run("diagram", "logits.h5:test", "-c", "logits.ts.json", "--resamples", 100).err
        == ""
    )


def test_match_pairs_calibrators_with_their_files(run, logits):
    (logits.parent / "other.h5").write_bytes(logits.read_bytes())
    for name in ("logits", "other"):
        assert run("fit", "--method", "ts", f"{name}.h5", "-q").code == 0
    words = [
        "logits.h5",
        "other.h5",
        "-c",
        "logits.ts.json",
        "-c",
        "other.ts.json",
        "--style",
        "variance",
    ]
    points = json.loads(run("diagram", *words, "--match", "--json").out)["points"]
    assert [(p["bundle"], p["method"]) for p in points] == [
        ("logits.h5:test", "uncalibrated"),
        ("logits.h5:test", "ts"),
        ("other.h5:test", "uncalibrated"),
        ("other.h5:test", "ts"),
    ]
    assert len(json.loads(run("diagram", *words, "--json").out)["points"]) == 6
    assert run("diagram", "other.h5", "-c", "logits.ts.json", "--match").code == 2


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["logits.h5", "-o", "rel.gif"], 2, ".png"),
        (["logits.h5", "-o", "no/rel.png"], 2, "does not exist"),
        (["logits.h5", "-o", "a", "--resamples", "3"], 2, "resamples"),
        (["absent.h5"], 3, "no such file"),
        (["logits.h5", "-c", "absent.json"], 3, "absent.json"),
        (["logits.h5", "--per-class", "--per-group"], 2, "one at a time"),
        (["logits.h5", "logits.h5:cal", "--per-class"], 2, "one bundle"),
        (["logits.h5", "--style", "pie"], 2, "pie"),
        (["logits.h5", "--bins", "0"], 2, "bins"),
    ],
)
def test_bad_words_are_one_line(run, logits, words, code, part):
    result = run("diagram", *words)
    assert result.code == code
    assert part in result.line
    assert result.out == ""


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_backend_that_does_not_exist_is_no_reason_not_to_draw(
    logits, tmp_path, ending
):
    env = {**os.environ, "MPLBACKEND": "nonsense"}
    words = [
        sys.executable,
        "-m",
        "calcli",
        "diagram",
        str(logits),
        "-o",
        str(tmp_path / f"x.{ending}"),
    ]
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    assert (done.returncode, (tmp_path / f"x.{ending}").exists()) == (0, True), (
        done.stderr
    )


def test_a_home_that_cannot_be_written_is_no_news(logits, tmp_path):
    """matplotlib said where it keeps its cache instead, in three lines."""
    pytest.importorskip("matplotlib")
    env = {**os.environ, "HOME": os.devnull, "MPLCONFIGDIR": f"{os.devnull}/x"}
    picture = tmp_path / "x.png"
    words = [sys.executable, "-m", "calcli", "diagram", str(logits), "-o", str(picture)]
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    assert done.returncode == 0 and picture.exists()
    assert "atplotlib" not in done.stderr


def test_without_matplotlib_only_pictures_are_missing(run, logits, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("diagram", "logits.h5", "-o", "rel.png")
    assert result.code == 2
    assert "pip install matplotlib" in result.line
    assert run("diagram", "logits.h5", "--resamples", 100).code == 0
    assert run("diagram", "logits.h5", "-o", "rel.csv", "--resamples", 100).code == 0


def test_the_terminal_drawing_loads_no_heavy_package(logits):
    code = (
        "import sys; from calcli.cli.main import run; run(['diagram', 'logits.h5', '--resamples', '100']);"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'matplotlib', 'scipy', 'torch', 'rich'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=logits.parent,
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_latin_terminal_gets_ascii(logits, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    result = process("diagram", "logits.h5", "--resamples", 100, cwd=logits.parent)
    assert result.code == 0
    assert result.out.isascii()


def test_a_thousand_classes_and_few_rows(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    z, y = truth(60, 1000)
    with h5py.File("wide.h5", "w") as file:
        file["logits"], file["labels"] = z.astype(np.float32), y
    assert (
        run("diagram", "wide.h5", "--per-class", "--panels", 3, "--resamples", 100).code
        == 0
    )


def test_weights_that_leave_nothing_are_an_error(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    z, y = truth(30, 3)
    y[0] = 2
    with h5py.File("w.h5", "w") as file:
        file["logits"], file["labels"], file["weights"] = (
            z,
            y,
            np.where(np.arange(30) == 0, 1.0, 0.0),
        )
    for name in ("corp", "temperature", "variance"):
        result = run("diagram", "w.h5", "--ignore-label", 2, "--style", name, "-q")
        assert result.code == 3
        assert "all weights of the rows that are left are zero" in result.line


@pytest.mark.parametrize("calibrated", [False, True])
def test_panels_of_many_models_have_titles_that_differ_where_they_are_cut(
    run, tmp_path, monkeypatch, calibrated
):
    """Names that differ in their last words; what all share, of the one version too, is left out."""
    monkeypatch.chdir(tmp_path)
    names = [
        "MobileVLM_V2-1.7B",
        "MobileVLM_V2-3B",
        "MobileVLM_V2-7B",
        "Monkey",
        "llava-v1.6-mistral-7b",
    ]
    rng = np.random.default_rng(0)
    with h5py.File("vlm.h5", "w") as file:
        for name in names:
            file[f"{name}/logits"], file[f"{name}/labels"] = (
                rng.normal(size=(60, 3)),
                rng.integers(0, 3, 60),
            )
    if calibrated:
        run("fit", f"vlm.h5:{names[0]}", "-m", "ts", "-o", "ts.json", "-q")
    more = ["-c", "ts.json"] if calibrated else []
    drawn = json.loads(run("diagram", "vlm.h5:*", *more, "--json", "-q").out)
    titles = [panel["title"] for panel in drawn["panels"]]
    # as many as a panel of four in a row has room for
    shown = {squeeze(title, 26) for title in titles}
    assert len(titles) == len(shown) == 5 * (1 + calibrated)
    assert calibrated or not any("uncalibrated" in title for title in titles)


@pytest.mark.parametrize(("label", "frequency"), [(0, 0.0), (1, 1.0)])
def test_a_decision_curve_of_one_class_alone_is_drawn(
    run, tmp_path, monkeypatch, label, frequency
):
    """Without an event the axes had no height, and their ticks were infinite."""
    monkeypatch.chdir(tmp_path)
    risk = np.linspace(0.05, 0.95, 60)
    np.savez("a.npz", probs=np.stack([1 - risk, risk], 1), labels=np.full(60, label))
    drawn = run("diagram", "a.npz", "--style", "decision")
    assert drawn.code == 0, drawn.err
    assert "treat all" in drawn.out
    for name in ("a.svg", "a.json"):
        assert run("diagram", "a.npz", "--style", "decision", "-o", name).code == 0
    (curve,) = json.loads(Path("a.json").read_text("utf-8"))["curves"]
    assert curve["frequency"] == frequency


@pytest.mark.parametrize("style", ["risk", "decision"])
def test_a_style_without_panels_reads_the_groups_of_a_calibrator(run, style):
    """--group-by was refused there, and without it the calibrator found no group.

    The curves are those of the same rows, given to Python with their groups.
    """
    z, y = truth(600, 2, temperature=2.0)
    z[::2] *= 3.0
    sites = np.resize(["Oslo", "Porto"], 600)
    gaps = z[:, 1] - z[:, 0]
    rows = zip(gaps.tolist(), y, sites, strict=True)
    lines = [f"{gap},{label},{site}" for gap, label, site in rows]
    Path("a.csv").write_text("\n".join(["logit,label,site", *lines]), encoding="utf-8")
    fit = ("--kind", "logits", "--by", "site", "-m", "ts", "-o", "c.json")
    assert run("fit", "a.csv", *fit).code == 0
    named = ("a.csv", "--kind", "logits", "--group-by", "site", "--style", style)
    drawn = run("diagram", *named, "-c", "c.json", "--json", "-q")
    assert drawn.code == 0, drawn.err
    fitted = calcli.load("c.json")
    picture = calcli.diagram(gaps, y, fitted, style=style, groups=sites)
    assert json.loads(drawn.out)["curves"] == picture.to_dict()["curves"]
    assert run("diagram", *named).line.endswith("leave --group-by out")
    run("fit", "a.csv", "--kind", "logits", "-m", "ts", "-o", "ts.json")
    refused = run("diagram", *named, "-c", "ts.json")
    assert refused.code == 2 and "--group-by has no effect here" in refused.line
