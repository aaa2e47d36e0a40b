"""Pictures of every style: where things stand, what the colours and the words carry."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
from drawings import (
    FAST,
    PLAIN,
    every_figure,
    figure_of,
    laid_out,
    matplotlib_bytes,
    one,
    rows_like,
    rows_of,
    tables,
)
from synthetic import truth

from calcli.diagrams.curve import measure_curve
from calcli.diagrams.matplotlib_theme import DARK, LIGHT, Paper, width_of
from calcli.diagrams.panels import Measured, Panel
from calcli.diagrams.style import style, style_names, style_titles
from calcli.diagrams.styles.bins import Bins
from calcli.diagrams.styles.corp import Corp
from calcli.diagrams.styles.risk import coverage_curve
from calcli.diagrams.styles.variance import overlap, place
from calcli.diagrams.terminal import Look
from calcli.errors import UsageError
from calcli.metrics.collect import collect
from calcli.rows import ArrayRows

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
def test_pictures_are_the_same_bytes_twice_and_carry_no_clock(form):
    figure = one(title="t", notes=("a note",))
    first, second = matplotlib_bytes(figure, form), matplotlib_bytes(figure, form)
    assert first == second
    assert not re.search(
        rb"20\d\d-\d\d-\d\d|D:20\d\d|matplotlib version", first, re.IGNORECASE
    )


def test_the_line_in_an_svg_is_the_curve():
    figure = one()
    root = ElementTree.fromstring(matplotlib_bytes(figure, "svg"))
    space = {"s": "http://www.w3.org/2000/svg"}

    def points(name):
        path = root.find(f".//s:g[@id='{name}']/s:path", space)
        return np.array(
            [
                [float(v) for v in pair]
                for pair in re.findall(r"[ML] ([\d.-]+) ([\d.-]+)", path.get("d"))
            ]
        )

    # The diagonal runs from (0, 0) to (1, 1), which gives the scale.
    (x0, y0), (x1, y1) = points("panel1-line0")
    drawn = points("panel1-line1")
    x, y = figure.panels[0].curves[0].isotonic.knots
    np.testing.assert_allclose((drawn[:, 0] - x0) / (x1 - x0), x, atol=1e-6)
    np.testing.assert_allclose((drawn[:, 1] - y0) / (y1 - y0), y, atol=1e-6)


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
        if not min(axis.get_view_interval())
        <= tick.get_loc()
        <= max(axis.get_view_interval())
    }
    texts = [
        t
        for t in drawn.findobj(Text)
        if t.get_text().strip() and t.get_visible() and id(t) not in beyond
    ]
    return [(t.get_window_extent(renderer), t.get_text()) for t in texts]


@pytest.mark.parametrize(
    "paper", [PLAIN, Paper(DARK, 3.33, False)], ids=["plain", "column"]
)
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
    # An underconfident model: bars up to 1 everywhere.
    rng = np.random.default_rng(0)
    c = rng.random(4000)
    curve = measure_curve("a", rows_of(c, rng.random(4000) < 0.9), FAST)
    drawn = laid_out(Bins((Panel("p", (curve,)),)))
    upper = drawn.axes[0].get_window_extent()
    numbers = [box for box, text in texts_of(drawn) if "ECE" in text]
    assert numbers
    assert all(box.y0 >= upper.y1 for box in numbers)


def test_labels_cover_neither_each_other_nor_the_points():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    axes = Figure((5, 4)).add_axes((0.1, 0.1, 0.8, 0.8))
    rng = np.random.default_rng(0)
    points = [
        (float(x), float(y), str(number))
        for number, (x, y) in enumerate(0.5 + 0.05 * rng.standard_normal((26, 2)))
    ]
    boxes = place(axes, points, size=6.5, colour="k", line="k")
    assert len(boxes) > 20
    assert not any(
        overlap(a, b) for number, a in enumerate(boxes) for b in boxes[:number]
    )
    assert place(axes, [(0.5, 0.5, "one")], size=6.5, colour="k", line="k")


def test_more_curves_than_colours_leave_the_best_in_colour():
    rng = np.random.default_rng(0)
    curves = []
    for number in range(26):
        c = rng.random(300)
        power = 1 + number / 5  # the larger the less calibrated
        right = (rng.random(300) < c**power).astype(float)
        curves.append(
            measure_curve(
                f"m{number:02}, called by a rather long name", rows_of(c, right), FAST
            )
        )
    drawn = laid_out(Corp((Panel("p", tuple(curves)),)))
    assert all(
        box.x0 >= -2 and box.x1 <= drawn.get_figwidth() * drawn.dpi + 2
        for box, _ in texts_of(drawn)
    )
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
    assert [
        c.quantity for p in figure_of(sets, quantity="top").panels for c in p.curves
    ] == ["top"]
    with pytest.raises(UsageError, match="two classes, these rows have 4"):
        figure_of(tables(), quantity="positive")


def test_gaps_are_those_of_the_rows():
    sets = tables()
    figure = figure_of(sets, "gaps")
    table = sets[0].table
    for g in figure.series[0].gaps:
        rows = table.prediction == int(g.part)
        assert g.gap == pytest.approx(
            table.confidence[rows].mean() - table.correct[rows].mean()
        )
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


def test_notes_under_gaps_are_shown_whole():
    """They were cut in their middle, where the reason stands."""
    figure = replace(figure_of(tables(), "gaps"), notes=("because " * 60,))
    shown = " ".join(text for _, text in texts_of(laid_out(figure, PLAIN)))
    drawn = "\n".join(style("gaps").text(figure, 70, Look(True, False)))
    assert shown.count("because") == drawn.count("because") == 60
    assert max(map(len, drawn.splitlines())) <= 70


def test_coverage_counts_the_rows_above_each_threshold():
    c = np.array([0.9, 0.8, 0.8, 0.5])
    y = np.array([1.0, 1.0, 0.0, 0.0])
    curve = coverage_curve("a", rows_of(c, y))
    assert curve.threshold.tolist() == [0.9, 0.8, 0.5]
    assert curve.coverage.tolist() == [0.25, 0.75, 1.0]
    np.testing.assert_allclose(curve.accuracy, [1, 2 / 3, 1 / 2])
    np.testing.assert_allclose(curve.promised, [0.9, 2.5 / 3, 0.75])
    # Errors 0, 1/3, 1/3, 1/2 at coverages of 1 to 4 rows, ties sharing theirs.
    assert curve.aurc == pytest.approx((0 + 1 / 3 + 1 / 3 + 1 / 2) / 4)
    long = coverage_curve("a", rows_of(*rows_like()))
    assert len(long.coverage) <= 201
    assert long.coverage[-1] == 1.0


# ---- colours and words for everybody


def linear(colour):
    values = np.array([int(colour[start : start + 2], 16) for start in (1, 3, 5)]) / 255
    return np.where(
        values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4
    )


XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.072175],
        [0.0193339, 0.119192, 0.9503041],
    ]
)


def lab(rgb):
    """CIELAB (D65) of linear RGB."""
    xyz = np.array(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.072175],
            [0.0193339, 0.119192, 0.9503041],
        ]
    )
    t = xyz @ np.clip(rgb, 0, 1) / [0.95047, 1, 1.08883]
    f = np.where(t > 216 / 24389, np.cbrt(t), (24389 / 27 * t + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


# Machado, Oliveira, Fernandes (2009), table 1, severity 1.0, in linear RGB.
SIGHT = {
    "common": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.3039],
    ],
}


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_differ_for_every_eye_and_on_grey_paper(theme):
    four = [linear(colour) for colour in theme.series[:4]]
    pairs = [(a, b) for a in range(4) for b in range(a)]
    for sight, matrix in SIGHT.items():
        colours_seen = [lab(np.array(matrix) @ rgb) for rgb in four]
        # 9 in CIELAB is far above the just noticeable difference of 2.3.
        assert (
            min(np.linalg.norm(colours_seen[a] - colours_seen[b]) for a, b in pairs) > 9
        ), sight
    light = [lab(rgb)[0] for rgb in four]
    assert min(abs(light[a] - light[b]) for a, b in pairs) > 7
    y = [
        0.2126 * r + 0.7152 * g + 0.0722 * b
        for r, g, b in map(linear, (*theme.series, theme.main, theme.muted))
    ]
    page = linear(theme.page) @ [0.2126, 0.7152, 0.0722]
    contrast = [(max(page, v) + 0.05) / (min(page, v) + 0.05) for v in y]
    assert min(contrast) > 2.9  # WCAG asks 3 of graphics; of two decimals
    lines = {Paper(theme).series(number)[1:] for number in range(8)}
    assert len({str(line) for line in lines}) == 8


def test_an_svg_can_be_read_aloud_searched_and_holds_no_markup_of_names():
    hostile = "<script>alert(1)</script>$x$ & \x00\u202e"
    figure = Corp(
        (Panel(hostile, (measure_curve(hostile, rows_of(*rows_like()), FAST),)),),
        hostile,
    )
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


def test_every_style_is_among_the_figures_of_tests():
    drawn = {figure.style for figure in every_figure().values()}
    assert drawn == set(style_names()), "add it to every_figure in tests/drawings.py"


def test_styles_describe_themselves():
    assert set(style_names()) >= {
        "bins",
        "corp",
        "epochs",
        "gaps",
        "risk",
        "temperature",
        "variance",
    }
    for name, title in style_titles().items():
        assert title.startswith(f"{name}: ")
    for figure in every_figure().values():
        kind = style(figure.style)
        columns, rows = kind.table(figure)
        assert rows and all(len(row) == len(columns) for row in rows)
        assert len(kind.describe(figure)) > 20


def test_epochs_stand_where_their_names_say_and_know_their_least():
    z, y = truth(500, 4)
    sets = [
        Measured(f"e.h5:epoch{epoch}", "uncalibrated", collect(ArrayRows(z * sharp, y)))
        for epoch, sharp in ((10, 4.0), (2, 1.0), (1, 0.2))
    ]
    figure = figure_of(sets, "epochs")
    assert (figure.axis, figure.at) == ("epoch", (1.0, 2.0, 10.0))
    course = figure.courses[0]
    assert course.nll[1] == pytest.approx(sets[1].table.nll.mean(), rel=1e-12)
    assert course.error == pytest.approx(
        [1 - sets[0].table.correct.mean()] * 3, rel=1e-12
    )
    assert (course.of("nll")[1], course.of("error")[1]) == (1, 0)
    assert "NLL is least at epoch 2" in style("epochs").describe(figure)
    unnamed = [replace(s, bundle=name) for s, name in zip(sets, "cab", strict=True)]
    assert (
        figure_of(unnamed, "epochs").axis,
        figure_of(unnamed, "epochs").bundles,
    ) == ("bundle", ("c", "a", "b"))
    with pytest.raises(UsageError, match="two or more"):
        figure_of(sets[:1], "epochs")


def test_widths():
    assert width_of("column") == 3.33
    assert width_of("85mm") == pytest.approx(3.3465, abs=1e-4)
    assert width_of("3.4in") == width_of("3.4") == 3.4
    for bad in ("wide", "1", "nan", "-3", "99"):
        with pytest.raises(UsageError, match="--width"):
            width_of(bad)


def test_axes_of_probabilities_end_at_zero_and_one():
    """They went from -.01 to 1.01, as if probabilities did."""
    for name, figure in every_figure().items():
        for axes in laid_out(figure, PLAIN).axes:
            for label, ends in (
                (axes.get_xlabel(), axes.get_xlim()),
                (axes.get_ylabel(), axes.get_ylim()),
            ):
                if label.partition(",")[0] in (
                    "confidence",
                    "accuracy",
                    "P(class 1)",
                    "frequency of class 1",
                    "coverage",
                ):
                    assert min(ends) >= 0.0 and max(ends) <= 1.0, (name, label, ends)


def test_each_panel_of_two_classes_names_its_own_quantities():
    """The panel of the top label stood on the axis of the other: "share of class 1"."""
    z, y = truth(500, 2)
    axes = laid_out(
        figure_of([Measured("two.h5", "uncalibrated", collect(ArrayRows(z, y)))]), PLAIN
    ).axes
    labels = [(a.get_xlabel(), a.get_ylabel()) for a in axes]
    assert {y for _, y in labels if y and y != "samples"} == {
        "frequency of class 1",
        "accuracy",
    }
    assert {x for x, _ in labels if x} == {"P(class 1)", "confidence"}


def test_legends_of_a_sweep_lie_beside_its_curves():
    """Above their panels: a text begins at or over the upper end of the axes."""
    drawn = laid_out(every_figure()["temperature"])
    panels = [axes for axes in drawn.axes if axes.get_legend() is not None]
    assert len(panels) == 2
    for axes in panels:
        top = axes.get_window_extent().y1
        assert all(
            text.get_window_extent().y0 >= top for text in axes.get_legend().get_texts()
        )


@pytest.mark.parametrize("name", ["gaps", "risk"])
def test_curves_of_several_bundles_are_told_apart(name):
    """Two bundles without a calibrator, and two with one beside."""
    first, second = tables()
    twins = [replace(first, bundle="a.h5"), replace(first, bundle="b.h5")]
    drawn = [
        laid_out(figure_of(sets, name))
        for sets in (twins, [*twins, replace(second, bundle="b.h5")])
    ]
    keys = [
        [text.get_text().split(", AURC")[0] for text in panel.legends[0].get_texts()]
        for panel in drawn
    ]
    assert keys == [
        ["a.h5", "b.h5"],
        ["a.h5, uncalibrated", "b.h5, uncalibrated", "b.h5, hot"],
    ]
    titles = [text.get_text() for text in drawn[0].texts] + [
        axes.get_title("left") for axes in drawn[0].axes
    ]
    assert any(text.startswith("2 bundles") for text in titles)


def test_bundles_in_order_are_counted_in_whole_numbers():
    first, _ = tables()
    drawn = laid_out(
        figure_of([replace(first, bundle=name) for name in ("a.h5", "b.h5")], "epochs")
    )
    for axes in drawn.axes:
        low, high = axes.get_xlim()
        assert [tick for tick in axes.get_xticks() if low <= tick <= high] == [1.0, 2.0]


@pytest.mark.parametrize("name", ["variance", "risk"])
def test_no_label_of_an_axis_leaves_the_picture(name):
    """Confidences of small variance, which has four decimals."""
    c = np.linspace(0.55, 1.0, 200, endpoint=False)
    table = collect(
        ArrayRows(
            np.stack([c, 1 - c], axis=1), (np.arange(200) % 5 == 0).astype(int), "probs"
        )
    )
    drawn = laid_out(
        figure_of(
            [Measured(bundle, "uncalibrated", table) for bundle in ("a.h5", "b.h5")],
            name,
        )
    )
    page = drawn.bbox
    for axes in drawn.axes:
        for label in (axes.xaxis.label, axes.yaxis.label):
            box = label.get_window_extent().padded(4)  # and does not touch its edge
            assert (
                page.x0 <= box.x0
                and box.x1 <= page.x1
                and page.y0 <= box.y0
                and box.y1 <= page.y1
            ), label


def test_confidences_above_one_half_leave_no_empty_half():
    """Panels of the top label of two classes were empty below 0.5; P(class 1) goes from 0 to 1."""
    z, y = truth(600, 2, temperature=1.7)
    measured = [Measured("a.h5", "uncalibrated", collect(ArrayRows(z, y)))]
    figure = laid_out(figure_of(measured, "corp"))
    reach = {axes.get_xlabel(): axes.get_xlim()[0] for axes in figure.axes}
    assert reach["P(class 1)"] == 0.0
    assert reach["confidence"] == pytest.approx(0.48)
