"""Figures 4, 5 and 6 of Clarte, Loureiro, Krzakala, Zdeborova (2023): theory and simulation.

Where the truth is known and the dimension is large, how wrong are the temperatures of least NLL
(TS) and of confidence equal to accuracy (EC), for three teachers and three ridges?

figure4   calibration error over the rows per dimension, uncalibrated, with TS and with EC
figure5   relative gap of the two temperatures
figure6   joint density of teacher and student confidence, affine teacher, 20 rows per dimension
bayes     who knows the model: both temperatures are the teacher's

Curves are the theory's, points models trained with the small ridge. Everything is written as JSON beside the pictures.

    python reproductions/expectation_consistency_theory.py -o FOLDER [--runs 20] [--dimension 200] [--short]
"""

import argparse
import json
from pathlib import Path

import numpy as np
from teacher_student.simulation import models
from teacher_student.theory import TEACHERS, Statistician, Student, best_ridge

ALPHAS = (1, 2, 3, 5, 10, 15, 20)
RIDGE = 1e-4
WAYS = ("uncalibrated", "temperature scaling", "expectation consistency")
COLOURS = {"logit": "#0072b2", "affine": "#d55e00", "constant": "#009e73"}
RIDGES = {"small": "#0072b2", "error": "#d55e00", "loss": "#009e73"}
"""The ridge 1e-4, that of the least test error and that of the least test loss."""
GRID = 200


def students(alphas):
    """Theory's rows: three teachers, small ridge and the two best ones."""
    rows = []
    for name in TEACHERS:
        for alpha in alphas:
            for which in ("small", "error", "loss"):
                student = (
                    Student.trained(name, alpha, RIDGE)
                    if which == "small"
                    else best_ridge(name, alpha, which)
                )
                rows.append({"which": which, **student.row()})
    return rows


def points(alphas, dimension, runs):
    """Simulated rows at the small ridge; two rows per dimension and fewer can hardly be trained at a finite size."""
    return [
        models(name, alpha, RIDGE, dimension, runs)
        for name in TEACHERS
        for alpha in alphas
        if alpha >= 5
    ]


def five_digits(values):
    """Numbers that fill less of a file."""
    return np.vectorize(lambda value: float(f"{value:.5g}"))(values).tolist()


def density(student):
    """Figure 6: the joint density on a grid of midpoints, its atoms and the dashed line, at three temperatures."""
    middle = (np.arange(GRID) + 0.5) / GRID
    panels = []
    for way, t in zip(
        WAYS, (1.0, student.temperature_ts, student.temperature_ec), strict=True
    ):
        panels.append(
            {
                "way": way,
                "temperature": t,
                "half_ece": student.half_ece(t),
                "density": five_digits(
                    student.density(middle[:, None], middle[None, :], t)
                ),
                "atoms": {
                    str(a): five_digits(student.atom(a, middle, t)) for a in (0.0, 1.0)
                },
                "expected_teacher": five_digits(student.expected_teacher(middle, t)),
            }
        )
    return {"student": student.row(), "midpoints": middle.tolist(), "panels": panels}


def bayes():
    """Section 5.1: confidence equals accuracy, and the NLL is least, at the teacher's own temperature."""
    return [
        {"temperature": t, **Statistician.trained(5, t).measures()}
        for t in (0.8, 1.0, 1.25)
    ]


def draw(numbers, folder):
    """The three pictures."""
    from matplotlib.figure import Figure

    rows, simulated = numbers["theory"], numbers["simulation"]

    def curve(name, which, value):
        own = [row for row in rows if row["teacher"] == name and row["which"] == which]
        return [row["alpha"] for row in own], [value(row) for row in own]

    figure = Figure(figsize=(4.6, 9.6), layout="constrained")
    panels = figure.subplots(3, 1)
    for axes, name in zip(panels, TEACHERS, strict=True):
        for which, colour in RIDGES.items():
            for (way, label), style in zip(
                enumerate(WAYS), (":", "--", "-"), strict=True
            ):
                alpha, value = curve(
                    name, which, lambda row, way=way: row["half_ece"][way]
                )
                axes.plot(
                    alpha, value, style, color=colour, lw=1.2, label=f"{label}, {which}"
                )
        own = [s for s in simulated if s["teacher"] == name]
        for way in range(len(WAYS)):
            axes.plot(
                [s["alpha"] for s in own],
                [s["half_ece"]["mean"][way] for s in own],
                "k.",
                ms=4,
            )
        axes.set(
            title=f"{name} teacher",
            yscale="log",
            ylabel="calibration error (one class)",
        )
    panels[-1].set_xlabel("rows per dimension")
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=2,
        fontsize=7,
    )
    figure.savefig(folder / "figure4.png", dpi=100)

    figure = Figure(figsize=(4.6, 3.4), layout="constrained")
    axes = figure.subplots()
    for name in TEACHERS:
        axes.plot(
            *curve(name, "small", lambda row: row["relative_gap"]),
            color=COLOURS[name],
            label=f"{name} teacher",
        )
        for s in (s for s in simulated if s["teacher"] == name):
            ts, ec = s["temperature_ts"]["mean"], s["temperature_ec"]["mean"]
            axes.plot(s["alpha"], (ec - ts) / ts, "k.", ms=4)
    axes.set(xlabel="rows per dimension", ylabel="(T of EC - T of TS) / T of TS")
    axes.legend(fontsize=8)
    figure.savefig(folder / "figure5.png", dpi=100)

    figure = Figure(figsize=(4.6, 11), layout="constrained")
    middle = np.array(numbers["figure6"]["midpoints"])
    for axes, panel in zip(
        figure.subplots(3, 1), numbers["figure6"]["panels"], strict=True
    ):
        axes.pcolormesh(
            middle,
            middle,
            np.log1p(np.array(panel["density"])),
            cmap="cividis",
            rasterized=True,
        )
        axes.plot(
            middle, panel["expected_teacher"], "w--", lw=1, label="mean of the teacher"
        )
        axes.plot([0, 1], [0, 1], "w-", lw=0.6, label="calibrated")
        axes.set(xlabel="student's probability", ylabel="teacher's probability")
        axes.set_title(
            f"{panel['way']}: T = {panel['temperature']:.2f}, error {100 * panel['half_ece']:.2f} %",
            fontsize=9,
        )
        axes.legend(fontsize=8, loc="upper left", labelcolor="white", framealpha=0)
    figure.savefig(folder / "figure6.png", dpi=100)


def table(numbers):
    """The rows of the small ridge as text."""
    print(
        "teacher   rows/d  T of TS   T of EC   gap    error/2 %: none    TS      EC    Brier: none     TS      EC"
    )
    for row in (row for row in numbers["theory"] if row["which"] == "small"):
        ece, brier = row["half_ece"], row["brier"]
        print(
            f"{row['teacher']:9} {row['alpha']:5}  {row['temperature_ts']:8.4f}  {row['temperature_ec']:8.4f}"
            f"  {row['relative_gap']:.4f}"
            f"     {100 * ece[0]:7.4f}  {100 * ece[1]:.4f}  {100 * ece[2]:.4f}"
            f"      {brier[0]:.5f}  {brier[1]:.5f}  {brier[2]:.5f}"
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument(
        "--runs", type=int, default=20, help="models per point (default: %(default)s)"
    )
    parser.add_argument(
        "--dimension",
        type=int,
        default=200,
        help="of the models (default: %(default)s)",
    )
    parser.add_argument(
        "--short", action="store_true", help="two numbers of rows per dimension only"
    )
    given = parser.parse_args()
    alphas = (5, 20) if given.short else ALPHAS
    given.output.mkdir(parents=True, exist_ok=True)
    numbers = {
        "theory": students(alphas),
        "simulation": points(alphas, given.dimension, given.runs),
        "figure6": density(Student.trained("affine", 20, RIDGE)),
        "bayes": bayes(),
    }
    draw(numbers, given.output)
    (given.output / "figure6.json").write_text(
        json.dumps(numbers.pop("figure6")) + "\n", encoding="utf-8"
    )
    lines = {
        key: "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]"
        for key, rows in numbers.items()
    }
    text = (
        "{\n" + ",\n".join(f'"{key}": {rows}' for key, rows in lines.items()) + "\n}\n"
    )
    (given.output / "expectation_consistency_theory.json").write_text(
        text, encoding="utf-8"
    )
    table(numbers)


if __name__ == "__main__":
    main()
