"""Diagrams: the numbers, what is drawn of them, and the command."""

import csv
import io
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from functools import cache

import h5py
import numpy as np
import pytest
from cli import process, runner
from synthetic import truth

from calcli.binning import BinStats, width_edges
from calcli.calibrator import Context
from calcli.diagram.canvas import Look
from calcli.diagram.curve import CurveSettings, measure_curve
from calcli.diagram.formats import FORMATS, to_csv, to_json, to_object
from calcli.diagram.labels import overlap, place
from calcli.diagram.panels import Diagram, Measured, Panel
from calcli.diagram.paper import DARK, LIGHT, Paper, width_of
from calcli.diagram.style import Request, style, style_names, style_titles
from calcli.diagram.styles.risk import coverage_curve
from calcli.diagram.styles.temperature import sweep_temperature
from calcli.diagram.terminal import draw as draw_text
from calcli.diagram.words import round_ticks, short, squeeze
from calcli.errors import UsageError
from calcli.methods.ec import ExpectationConsistency
from calcli.methods.ts import TemperatureScaling
from calcli.metrics.rowtable import collect
from calcli.rows import ArrayRows

FAST = CurveSettings(resamples=100)


def figure_of(sets, name="corp", **more):
    """What a style measures of row tables."""
    return style(name).measure(Request(FAST, sets, **more))


@pytest.fixture
def run(monkeypatch, capsys):
    return runner(monkeypatch, capsys)


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


def rows_like(n=1500, seed=0, power=1.6):
    rng = np.random.default_rng(seed)
    c = 0.2 + 0.8 * rng.random(n) ** 0.5
    return c, (rng.random(n) < c**power).astype(float)


def one(**more):
    return Diagram("corp", (Panel("a title", (measure_curve("uncalibrated", *rows_like(), settings=FAST),)),), **more)


# ---- the numbers


def test_the_numbers_are_those_of_the_metrics(resnet20):
    # CIFAR-100 ResNet-20, test half: ECE .11040 uncalibrated and .01933 at T = 1.434451,
    # verified independently; mean confidence .69331 at that T.
    *_, z, y = resnet20
    plain = collect(ArrayRows(z, y))
    curve = measure_curve("uncalibrated", plain.confidence, plain.correct, settings=FAST)
    assert curve.ece == pytest.approx(0.11040, abs=5e-6)
    assert curve.accuracy == pytest.approx(0.6846)
    assert curve.brier.score == pytest.approx(plain.brier_top.mean())
    assert curve.outside > 0.8
    assert curve.ece_p == pytest.approx(1 / 101)
    scaled = collect(ArrayRows(z.astype(float) / 1.434451, y))
    curve = measure_curve("ts", scaled.confidence, scaled.correct, settings=FAST)
    assert curve.ece == pytest.approx(0.01933, abs=5e-6)
    assert curve.mean_confidence == pytest.approx(0.69331, abs=5e-6)
    assert curve.ece_p > 0.02


def test_bars_and_histogram_count_every_row_once():
    c, y = rows_like()
    c[:7] = 0.0, 1.0, 1 / 15, 0.5, 0.5, 1.0, 0.0
    curve = measure_curve("a", c, y, settings=FAST)
    stats = BinStats.of(c, y, width_edges(15))
    np.testing.assert_array_equal(curve.bins.count, stats.count)
    used = stats.count > 0
    np.testing.assert_allclose(curve.bins.accuracy[used], (stats.outcome / np.maximum(stats.count, 1))[used])
    assert np.isnan(curve.bins.accuracy[~used]).all()
    assert curve.histogram.count.sum() == len(c)
    inside = (curve.bins.accuracy_low <= curve.bins.accuracy) & (curve.bins.accuracy <= curve.bins.accuracy_high)
    assert inside[used].all()
    gaps = np.abs(curve.bins.confidence - curve.bins.accuracy)[used]
    assert curve.ece == pytest.approx((gaps * stats.share[used]).sum())


def test_mass_bins_hold_equally_many():
    c, y = rows_like()
    curve = measure_curve("a", c, y, settings=CurveSettings(scheme="mass", resamples=100))
    assert set(curve.bins.count) == {100}


def test_weights_count_as_repeated_rows_do():
    c, y = rows_like(300)
    w = np.random.default_rng(1).integers(0, 4, 300)
    weighted = measure_curve("a", c, y, w.astype(float), FAST)
    repeated = measure_curve("a", np.repeat(c, w), np.repeat(y, w), settings=FAST)
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


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("style", ["corp", "bins"])
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_rows_are_drawn_and_not_crashed_on(case, style, weighted):
    c, y = (np.asarray(v, dtype=float) for v in DEGENERATE[case])
    with np.errstate(all="raise"):
        curve = measure_curve("x", c, y, np.arange(1.0, len(c) + 1) if weighted else None, FAST)
        figure = Diagram(style, (Panel("p", (curve,)),))
        texts = [draw_text(figure, 80, look) for look in (Look(), Look(False), Look(True, True))]
    assert all("ECE" in text for text in texts)
    assert 0 <= curve.ece <= 1
    assert 0 < curve.ece_p <= 1
    b = curve.brier
    assert b.score == pytest.approx(b.miscalibration - b.discrimination + b.uncertainty)
    assert json.loads(to_json(figure))
    laid_out(figure)


def test_a_single_sure_miss_is_told_apart_from_noise():
    # Nine rows at .6: six of nine right is what calibration gives; none of nine is not.
    fine = measure_curve("x", np.full(9, 0.6), np.r_[np.ones(6), np.zeros(3)], settings=CurveSettings())
    bad = measure_curve("x", np.full(9, 0.6), np.zeros(9), settings=CurveSettings())
    assert fine.outside == 0
    assert fine.ece_p > 0.5
    assert bad.outside == 1
    assert bad.ece_p < 0.01


# ---- which panels there are


def tables(k=4):
    rng = np.random.default_rng(3)
    z, y = truth(2000, k, temperature=1.0)
    top = z.argmax(axis=1)
    y = np.where((top == 2) & (rng.random(2000) < 0.8), (top + 1) % k, y)  # class 2 is badly wrong
    z[top == 3] *= 1.0
    return [Measured("a.h5", label, collect(ArrayRows(z / t, y))) for label, t in (("uncalibrated", 1.0), ("hot", 1.5))]


def test_sides_and_overlays():
    sets = tables()
    side = figure_of(sets, notes=["a note"])
    assert [p.title for p in side.panels] == ["uncalibrated", "hot"]
    assert (side.title, side.notes) == ("a.h5", ("a note",))
    over = figure_of(sets, "bins", layout="overlay")
    assert [c.label for c in over.panels[0].curves] == ["uncalibrated", "hot"]
    two = figure_of([*sets, Measured("b.h5", "uncalibrated", sets[0].table)])
    assert [p.title for p in two.panels] == ["a.h5, uncalibrated", "a.h5, hot", "b.h5, uncalibrated"]


def test_the_worst_classes_are_chosen_and_that_is_said():
    sets = tables()
    column = sets[0].table.prediction
    chosen = figure_of(sets, by="class", panels=1)
    assert [p.title for p in chosen.panels] == ["2"]
    assert "1 of 4 predicted classes: those least calibrated" in chosen.notes[0]
    rows = np.array([(column == c).sum() for c in range(4)])
    common = figure_of(sets, by="class", panels=1, choose="frequent", names=list("abcd"))
    assert [p.title for p in common.panels] == ["abcd"[rows.argmax()]]
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
    sweep = sweep_temperature(rows, "a", given=[("mine", 2.0)], points=9)
    marks = {m.name.split(",")[0]: m for m in sweep.marks}
    ts = TemperatureScaling.fit(rows, TemperatureScaling.Options(), Context()).calibrator
    ec = ExpectationConsistency.fit(rows, ExpectationConsistency.Options(), Context()).calibrator
    assert marks["TS"].temperature == pytest.approx(ts.temperature, rel=1e-9)
    assert marks["EC"].temperature == pytest.approx(ec.temperature, rel=1e-9)
    assert marks["EC"].mean_confidence == pytest.approx(sweep.accuracy, abs=1e-9)
    assert marks["mine"].temperature == 2.0
    table = collect(rows)
    curve = measure_curve("a", table.confidence, table.correct, settings=FAST)
    assert marks["T = 1"].nll == pytest.approx(table.nll.mean())
    assert marks["T = 1"].ece == pytest.approx(curve.ece)
    # The normal approximation of the floor against its exact mean.
    assert marks["T = 1"].ece_null_mean == pytest.approx(curve.ece_null_mean, rel=0.05)
    assert min(sweep.nll) == marks["TS"].nll
    for mark in sweep.marks:  # every mark is a point of the curves
        at = sweep.temperature.tolist().index(mark.temperature)
        assert (mark.nll, mark.ece, mark.mean_confidence) == (sweep.nll[at], sweep.ece[at], sweep.mean_confidence[at])
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
    lines = list(csv.DictReader(io.StringIO(to_csv(figure))))
    x, y = curve.isotonic.knots
    drawn = [line for line in lines if line["element"] == "curve"]
    assert [float(line["x"]) for line in drawn] == x.tolist()
    assert [float(line["y"]) for line in drawn] == y.tolist()
    summary = {line["x"]: float(line["y"]) for line in lines if line["element"] == "summary"}
    assert summary["ece"] == curve.ece
    assert summary["log_miscalibration"] == curve.log.miscalibration
    histogram = [int(line["count"]) for line in lines if line["element"] == "histogram"]
    assert histogram == curve.histogram.count.tolist()
    z, labels = truth(100, 3)
    sweep = sweep_temperature(ArrayRows(z, labels), "a", points=5)
    read = list(csv.DictReader(io.StringIO(to_csv(sweep))))
    size = len(sweep.nll)
    assert [float(line["nll"]) for line in read[:size]] == sweep.nll.tolist()
    assert read[size]["name"] == "T = 1"


# ---- pictures


PLAIN = Paper()


def matplotlib_bytes(figure, form, paper=PLAIN):
    pytest.importorskip("matplotlib")
    return FORMATS[form].write(figure, paper)


def laid_out(figure, paper=PLAIN):
    """Draw everything but the pixels, which take most of the time."""
    pytest.importorskip("matplotlib")
    with paper.matplotlib():
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        drawn = style(figure.style).draw(figure, paper)
        FigureCanvasAgg(drawn)
        drawn.draw_without_rendering()
    return drawn


@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
def test_pictures_are_the_same_bytes_twice_and_carry_no_clock(form):
    figure = one(title="t", notes=("a note",))
    first, second = matplotlib_bytes(figure, form), matplotlib_bytes(figure, form)
    assert first == second
    assert not re.search(rb"20\d\d-\d\d-\d\d|D:20\d\d|matplotlib version", first, re.IGNORECASE)


def test_the_line_in_an_svg_is_the_curve():
    figure = one()
    root = ElementTree.fromstring(matplotlib_bytes(figure, "svg"))
    space = {"s": "http://www.w3.org/2000/svg"}

    def points(name):
        path = root.find(f".//s:g[@id='{name}']/s:path", space)
        return np.array([[float(v) for v in pair] for pair in re.findall(r"[ML] ([\d.-]+) ([\d.-]+)", path.get("d"))])

    # The diagonal runs from (0, 0) to (1, 1), which gives the scale.
    (x0, y0), (x1, y1) = points("panel1-line0")
    drawn = points("panel1-line1")
    x, y = figure.panels[0].curves[0].isotonic.knots
    np.testing.assert_allclose((drawn[:, 0] - x0) / (x1 - x0), x, atol=1e-6)
    np.testing.assert_allclose((drawn[:, 1] - y0) / (y1 - y0), y, atol=1e-6)


@cache
def every_figure():
    sets = tables()
    many = [Measured(f"{i}.h5", f"m{i}", sets[0].table) for i in range(9)]
    z, y = truth(300, 4)
    binary = [Measured("two.h5", "uncalibrated", collect(ArrayRows(*truth(400, 2))))]
    return {
        "bins": figure_of(sets, "bins"),
        "bins-overlay": figure_of(sets, "bins", layout="overlay"),
        "corp-five": figure_of(many[:5], notes=["a long note " * 20]),
        "corp-nine-overlay": figure_of(many, layout="overlay"),
        "corp-classes": figure_of(sets, by="class"),
        "corp-binary": figure_of(binary),
        "bins-classes": figure_of(sets, "bins", by="class"),
        "variance": figure_of([*sets, *many], "variance"),
        "risk": figure_of(sets, "risk"),
        "gaps": figure_of(sets, "gaps"),
        "temperature": sweep_temperature(ArrayRows(z, y), "a", points=9),
    }


def texts_of(drawn):
    """Boxes of all texts that are shown, with their text."""
    renderer = drawn.canvas.get_renderer()
    from matplotlib.text import Text

    beyond = {
        id(text)
        for axes in drawn.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
        for text in (tick.label1, tick.label2)
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    found = [t for t in drawn.findobj(Text) if t.get_text().strip() and t.get_visible() and id(t) not in beyond]
    return [(t.get_window_extent(renderer), t.get_text()) for t in found]


@pytest.mark.parametrize("paper", [PLAIN, Paper(DARK, 3.33, False)], ids=["plain", "column"])
def test_every_style_draws_inside_its_page(paper):
    for name, figure in every_figure().items():
        drawn = laid_out(figure, paper)
        width, height = drawn.get_size_inches()
        if paper.width is not None and "overlay" not in name:
            assert width <= paper.width + 1e-9, name
        for box, text in texts_of(drawn):
            assert box.x1 <= width * drawn.dpi + 2 and box.x0 >= -2, (name, text)
            assert box.y1 <= height * drawn.dpi + 2 and box.y0 >= -2, (name, text)


def test_numbers_never_stand_on_bars():
    # An underconfident model: bars up to 1 everywhere, so that no corner of the axes is free.
    rng = np.random.default_rng(0)
    c = rng.random(4000)
    curve = measure_curve("a", c, (rng.random(4000) < 0.9).astype(float), settings=FAST)
    drawn = laid_out(Diagram("bins", (Panel("p", (curve,)),)))
    upper = drawn.axes[0].get_window_extent()
    numbers = [box for box, text in texts_of(drawn) if "ECE" in text]
    assert numbers
    assert all(box.y0 >= upper.y1 for box in numbers)


def test_labels_cover_neither_each_other_nor_the_points():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    axes = Figure((5, 4)).add_axes((0.1, 0.1, 0.8, 0.8))
    rng = np.random.default_rng(0)
    points = [(float(x), float(y), str(at)) for at, (x, y) in enumerate(0.5 + 0.05 * rng.standard_normal((26, 2)))]
    boxes = place(axes, points, size=6.5, colour="k", line="k")
    assert len(boxes) > 20
    assert not any(overlap(a, b) for at, a in enumerate(boxes) for b in boxes[:at])
    assert place(axes, [(0.5, 0.5, "one")], size=6.5, colour="k", line="k")


def test_more_curves_than_colours_leave_the_best_in_colour():
    rng = np.random.default_rng(0)
    curves = []
    for at in range(26):
        c = rng.random(300)
        power = 1 + at / 5  # the larger the less calibrated
        curves.append(measure_curve(f"m{at:02}", c, (rng.random(300) < c**power).astype(float), settings=FAST))
    drawn = laid_out(Diagram("corp", (Panel("p", tuple(curves)),)))
    named = [text.get_text() for text in drawn.legends[0].get_texts()]
    best = sorted(curves, key=lambda c: c.brier.score)[:5]
    assert sorted(named) == sorted([*(c.label for c in best), "the other 21"])
    grey = [line for line in drawn.axes[0].lines if line.get_color() == LIGHT.others]
    assert len(grey) == 21
    assert sum(text.startswith("m") for _, text in texts_of(drawn)) == 26 + 5


def test_two_classes_show_the_probability_of_class_one():
    z, y = truth(500, 2)
    table = collect(ArrayRows(z, y))
    sets = [Measured("two.h5", "uncalibrated", table)]
    both = figure_of(sets)
    assert [c.quantity for p in both.panels for c in p.curves] == ["positive", "top"]
    curve = figure_of(sets, quantity="positive").panels[0].curves[0]
    p1 = 1 / (1 + np.exp(z[:, 0] - z[:, 1]))
    assert curve.mean_confidence == pytest.approx(p1.mean(), rel=1e-12)
    assert curve.accuracy == y.mean()
    assert curve.isotonic.low[0] < 0.5
    assert [c.quantity for p in figure_of(sets, quantity="top").panels for c in p.curves] == ["top"]
    with pytest.raises(UsageError, match="two classes, got 4"):
        figure_of(tables(), quantity="positive")


def test_gaps_are_those_of_the_rows():
    sets = tables()
    figure = figure_of(sets, "gaps")
    table = sets[0].table
    for g in figure.series[0].gaps:
        rows = table.prediction == int(g.part)
        assert g.gap == pytest.approx(table.confidence[rows].mean() - table.correct[rows].mean())
        assert g.low <= g.gap <= g.high
    assert figure.series[0].gaps[0].part == "2"  # the class that was made wrong
    assert figure.series[0].gaps[0].beyond
    z, y = truth(900, 20)
    wide = [Measured("a.h5", "uncalibrated", collect(ArrayRows(z, y)))]
    assert figure_of(wide, by="class").style == "gaps"
    assert figure_of(wide, by="class", panels=12).style == "corp"
    some = figure_of(wide, by="class", panels=15)
    assert len(some.series[0].gaps) == 15
    assert "15 of 20 predicted classes" in some.notes[0]


def test_coverage_counts_the_rows_above_each_threshold():
    c = np.array([0.9, 0.8, 0.8, 0.5])
    y = np.array([1.0, 1.0, 0.0, 0.0])
    curve = coverage_curve("a", c, y)
    assert curve.threshold.tolist() == [0.9, 0.8, 0.5]
    assert curve.coverage.tolist() == [0.25, 0.75, 1.0]
    np.testing.assert_allclose(curve.accuracy, [1, 2 / 3, 1 / 2])
    np.testing.assert_allclose(curve.promised, [0.9, 2.5 / 3, 0.75])
    # Errors 0, 1/3, 1/3, 1/2 at coverages of 1 to 4 rows, ties sharing theirs.
    assert curve.aurc == pytest.approx((0 + 1 / 3 + 1 / 3 + 1 / 2) / 4)
    long = coverage_curve("a", *rows_like())
    assert len(long.coverage) <= 201
    assert long.coverage[-1] == 1.0


# ---- colours and words for everybody


def linear(colour):
    values = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]])


def lab(rgb):
    """CIELAB (D65) of linear RGB."""
    xyz = np.array(
        [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
    )
    t = xyz @ np.clip(rgb, 0, 1) / [0.95047, 1, 1.08883]
    f = np.where(t > 216 / 24389, np.cbrt(t), (24389 / 27 * t + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


# Machado, Oliveira, Fernandes (2009), table 1, severity 1.0, in linear RGB.
SIGHT = {
    "common": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_differ_for_every_eye_and_on_grey_paper(theme):
    four = [linear(colour) for colour in theme.series[:4]]
    pairs = [(a, b) for a in range(4) for b in range(a)]
    for sight, matrix in SIGHT.items():
        seen = [lab(np.array(matrix) @ rgb) for rgb in four]
        # 9 in CIELAB is far above the just noticeable difference of 2.3.
        assert min(np.linalg.norm(seen[a] - seen[b]) for a, b in pairs) > 9, sight
    light = [lab(rgb)[0] for rgb in four]
    assert min(abs(light[a] - light[b]) for a, b in pairs) > 7
    y = [0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in map(linear, (*theme.series, theme.main, theme.muted))]
    page = linear(theme.page) @ [0.2126, 0.7152, 0.0722]
    contrast = [(max(page, v) + 0.05) / (min(page, v) + 0.05) for v in y]
    assert min(contrast) > 2.9  # WCAG asks 3 of graphics; of two decimals
    lines = {Paper(theme).series(at)[1:] for at in range(8)}
    assert len({str(line) for line in lines}) == 8


def test_an_svg_can_be_read_aloud_searched_and_holds_no_markup_of_names():
    hostile = "<script>alert(1)</script>$x$ & \x00\u202e"
    figure = Diagram("corp", (Panel(hostile, (measure_curve(hostile, *rows_like(), settings=FAST),)),), hostile)
    drawn = matplotlib_bytes(figure, "svg").decode()
    root = ElementTree.fromstring(drawn)
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "img"
    assert "too high" in root.find(f"{space}desc").text
    assert root.find(f"{space}title").text.startswith("<script>alert(1)")
    assert not [e for e in root.iter() if e.tag == f"{space}script"]
    words = "".join(t for e in root.iter(f"{space}text") for t in e.itertext())
    assert "mean confidence" in words
    assert "$x$" in words


def test_styles_describe_themselves():
    assert set(style_names()) >= {"bins", "corp", "gaps", "risk", "temperature", "variance"}
    for name, title in style_titles().items():
        assert title.startswith(f"{name}: ")
    for figure in every_figure().values():
        kind = style(figure.style)
        columns, rows = kind.table(figure)
        assert rows and all(len(row) == len(columns) for row in rows)
        assert len(kind.describe(figure)) > 20


def test_widths():
    assert width_of("column") == 3.33
    assert width_of("85mm") == pytest.approx(3.3465, abs=1e-4)
    assert width_of("3.4in") == width_of("3.4") == 3.4
    for bad in ("wide", "1", "nan", "-3", "99"):
        with pytest.raises(UsageError, match="--width"):
            width_of(bad)


# ---- the terminal


@pytest.mark.parametrize("look", [Look(), Look(False), Look(True, True)], ids=["unicode", "ascii", "colour"])
@pytest.mark.parametrize("width", [30, 47, 80, 120, 200])
def test_terminal_drawings_keep_to_the_width(width, look):
    drawn = every_figure()
    figures = [one(title="a title " * 30, notes=("a note " * 30,))]
    figures += [f for f in drawn.values() if width >= 80 or f.style not in ("variance", "temperature")]
    for figure in figures:
        text = draw_text(figure, width, look)
        plain = re.sub("\x1b\\[[0-9;]*m", "", text)
        assert max(map(len, plain.splitlines())) <= width
        assert (text == plain) != look.colour
        assert look.unicode or text.isascii()


def test_the_terminal_shows_points_where_they_are():
    # One confidence, .7, and accuracy 3/4: the point is in column 70 % and row 75 %.
    curve = measure_curve("x", np.full(4, 0.7), np.array([1.0, 1, 1, 0]), settings=FAST)
    text = draw_text(Diagram("corp", (Panel("p", (curve,)),)), 80, Look())
    lines = text.splitlines()
    top, bottom = (next(i for i, line in enumerate(lines) if line.strip().startswith(t)) for t in ("1.0┤", "0.0┤"))
    at = next(i for i, line in enumerate(lines) if "●" in line)
    left = lines[top].index("┤") + 1
    width = len(lines[bottom + 1]) - left
    assert (bottom - at) / (bottom - top + 1) == pytest.approx(0.75, abs=0.05)
    assert (lines[at].index("●") - left) / width == pytest.approx(0.7, abs=0.02)


def test_words():
    assert [short(v) for v in (0, 950, 8259, 10_000, 250_000, 2_500_000)] == ["0", "950", "8259", "10k", "250k", "2.5M"]
    assert squeeze("abcdefghij", 5) == "ab…ij"
    assert round_ticks(0.5, 4) == [0.5, 0.7, 1, 1.5, 2, 3]
    assert round_ticks(0.001, 1) == [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1]


# ---- the command


def test_command_draws_in_the_terminal(run, logits):
    result = run("diagram", "logits.h5", "--resamples", 100)
    assert (result.code, result.err) == (0, "")
    assert "logits.h5:test, uncalibrated" in result.out
    assert "\x1b[" not in result.out
    assert max(map(len, result.out.splitlines())) <= 80
    plain = run("diagram", "logits.h5", "--ascii", "--resamples", 100)
    assert plain.out.isascii()


def test_command_writes_what_the_name_ends_in(run, logits):
    pytest.importorskip("matplotlib")
    assert run("fit", "--method", "ts", "logits.h5", "-q").code == 0
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "json": b'{"calcli_diagram"', "csv": b"panel,"}
    for form, start in starts.items():
        result = run("diagram", "logits.h5", "-c", "logits.ts.json", "-o", f"rel.{form}", "--resamples", 100)
        assert (result.code, result.out) == (0, f"rel.{form}\n")
        assert (logits.parent / f"rel.{form}").read_bytes().startswith(start)
    numbers = json.loads((logits.parent / "rel.json").read_text())
    assert [p["title"] for p in numbers["panels"]] == ["uncalibrated", "ts"]
    again = run("diagram", "logits.h5", "-c", "logits.ts.json", "--json", "--resamples", 100)
    assert json.loads(again.out) == numbers
    refused = run("diagram", "logits.h5", "-o", "rel.png")
    assert refused.code == 2
    assert "--force" in refused.line
    assert run("diagram", "logits.h5", "-o", "rel.png", "--force", "--resamples", 100).code == 0
    assert sorted(p.name for p in logits.parent.iterdir() if p.name.startswith(".")) == []
    before = (logits.parent / "logits.ts.json").read_bytes()
    refused = run("diagram", "logits.h5", "-c", "logits.ts.json", "-o", "logits.ts.json", "--force")
    assert refused.code == 2
    assert "is an input" in refused.line
    assert (logits.parent / "logits.ts.json").read_bytes() == before


def test_command_draws_groups_classes_and_other_styles(run, logits):
    groups = run("diagram", "logits.h5", "--per-group", "--json", "--resamples", 100)
    assert [p["title"] for p in json.loads(groups.out)["panels"]] == ["day", "night"]
    classes = run("diagram", "logits.h5", "--per-class", "--panels", 2, "--json", "--resamples", 100)
    assert len(json.loads(classes.out)["panels"]) == 2
    assert "TS, refitted on these rows" in run("diagram", "logits.h5", "--style", "temperature").out
    assert "variance" in run("diagram", "logits.h5", "logits.h5:cal", "--style", "variance").out


def test_command_says_when_the_rows_are_those_of_the_fit(run, logits):
    assert run("fit", "--method", "ts", "logits.h5", "-q").code == 0
    result = run("diagram", "logits.h5:cal", "-c", "logits.ts.json", "--json", "--resamples", 100)
    assert "very rows" in result.err
    assert "very rows" in json.loads(result.out)["notes"][0]
    assert run("diagram", "logits.h5:test", "-c", "logits.ts.json", "--resamples", 100).err == ""


def test_match_pairs_calibrators_with_their_files(run, logits):
    (logits.parent / "other.h5").write_bytes(logits.read_bytes())
    for name in ("logits", "other"):
        assert run("fit", "--method", "ts", f"{name}.h5", "-q").code == 0
    words = ["logits.h5", "other.h5", "-c", "logits.ts.json", "-c", "other.ts.json", "--style", "variance"]
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
        (["logits.h5", "--style", "temperature", "--t-range", "4:1"], 2, "LOW:HIGH"),
        (["logits.h5", "--style", "pie"], 2, "pie"),
        (["logits.h5", "--bins", "0"], 2, "bins"),
    ],
)
def test_bad_words_are_one_line(run, logits, words, code, part):
    result = run("diagram", *words)
    assert result.code == code
    assert part in result.line
    assert result.out == ""


def test_without_matplotlib_only_pictures_are_missing(run, logits, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("diagram", "logits.h5", "-o", "rel.png")
    assert result.code == 2
    assert "pip install 'calcli[plot]'" in result.line
    assert run("diagram", "logits.h5", "--resamples", 100).code == 0
    assert run("diagram", "logits.h5", "-o", "rel.csv", "--resamples", 100).code == 0


def test_the_terminal_drawing_loads_no_heavy_package(logits):
    code = (
        "import sys; from calcli.cli.main import run; run(['diagram', 'logits.h5', '--resamples', '100']);"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'matplotlib', 'scipy', 'torch', 'rich'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=logits.parent)
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
    assert run("diagram", "wide.h5", "--per-class", "--panels", 3, "--resamples", 100).code == 0


def test_weights_that_leave_nothing_are_an_error(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    z, y = truth(30, 3)
    y[0] = 2
    with h5py.File("w.h5", "w") as file:
        file["logits"], file["labels"], file["weights"] = z, y, np.where(np.arange(30) == 0, 1.0, 0.0)
    for name in ("corp", "temperature", "variance"):
        result = run("diagram", "w.h5", "--ignore-label", 2, "--style", name, "-q")
        assert result.code == 3
        assert "weight 0" in result.line
