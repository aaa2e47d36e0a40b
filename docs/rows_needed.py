"""How many rows are needed, from simulation as the pages are built.

What the ECE of a calibrated model shows by chance, how often its p-value finds what is wrong, and
what a fit loses for want of calibration rows: 10 classes, labels drawn from softmax(z / T).
"""

import json
from pathlib import Path

import numpy as np
from pictures import simulate

import calcli

ROWS = (100, 200, 500, 1000, 2000, 5000)
TEMPERATURES = (1.1, 1.25, 1.6)
METHODS = ("ts", "svs", "vs", "ms", "hb")
JUDGED, FITTED, FRESH = 20, 3, 5_000
"""Runs of the evaluation, runs of each fit, rows that the fits are judged on."""


def measured() -> dict[str, dict[str, list[float]]]:
    """Name of the panel -> curve -> a value for each number of rows."""
    by_chance = [
        float(np.mean([ece(n, 1.0, seed).value for seed in range(JUDGED)]))
        for n in ROWS
    ]
    found = {
        f"T = {t:g}": [
            float(np.mean([ece(n, t, seed).p_value <= 0.05 for seed in range(JUDGED)]))
            for n in ROWS
        ]
        for t in TEMPERATURES
    }
    z, y = simulate(FRESH, 1.6, seed=1000)
    best = nll(softmax(z / 1.6), y)
    excess = {
        name: [
            float(
                np.mean(
                    [
                        nll(fitted(n, name, seed).predict_proba(z), y)
                        for seed in range(FITTED)
                    ]
                )
            )
            - best
            for n in ROWS
        ]
        for name in ("identity", *METHODS)
    }
    return {"floor": {"calibrated model": by_chance}, "power": found, "excess": excess}


def ece(n: int, temperature: float, seed: int) -> "calcli.Evaluation":
    """The ECE of n rows with its p-value."""
    z, y = simulate(n, temperature, seed)
    return (
        calcli.evaluate(z, y, metrics=["ece"], resamples=200, seed=seed)
        .results[0]
        .scores["ece"]
    )


def fitted(n: int, method: str, seed: int) -> "calcli.FittedCalibrator":
    """A calibrator fitted to n rows of a model that is too sure (T = 1.6)."""
    return calcli.fit(*simulate(n, 1.6, seed), method=method)


def softmax(z: np.ndarray) -> np.ndarray:
    """Probabilities (n, k)."""
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def nll(p: np.ndarray, y: np.ndarray) -> float:
    """Mean -ln of the label's probability."""
    return float(-np.log(np.maximum(p[np.arange(len(y)), y], 1e-300)).mean())


PANELS = {
    "floor": ("ECE that chance alone shows", "log"),
    "power": ("share of runs in which p <= 0.05", "linear"),
    "excess": ("NLL above that of the truth", "symlog"),
}


def draw(folder: Path) -> None:
    """rows.json with the numbers, and a picture of each panel in two themes."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = folder / "rows.json"
    if not numbers.exists():
        numbers.write_text(json.dumps(measured()), encoding="utf-8")
    for panel, curves in json.loads(numbers.read_text(encoding="utf-8")).items():
        for theme in ("light", "dark"):
            _picture(
                folder / f"rows-{panel}-{theme}.svg", *PANELS[panel], curves, theme
            )


def _picture(
    path: Path, title: str, scale: str, curves: dict[str, list[float]], theme: str
) -> None:
    """One panel over the number of rows, each curve named at its end."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    ink = {"light": "#222222", "dark": "#dddddd"}[theme]
    colours = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"]
    style = dict.fromkeys(
        (
            "text.color",
            "axes.labelcolor",
            "axes.edgecolor",
            "xtick.color",
            "ytick.color",
        ),
        ink,
    )
    with plt.rc_context({**style, "svg.hashsalt": "calcli", "font.size": 10}):
        figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
        for (name, values), colour, marker in zip(
            curves.items(), colours, "os^Dvx", strict=False
        ):
            axes.plot(ROWS, values, label=name, color=colour, marker=marker)
        axes.set(
            xscale="log",
            xlabel="rows",
            title=title,
            xticks=ROWS,
            xticklabels=[f"{n}" for n in ROWS],
        )
        axes.minorticks_off()
        axes.set_yscale(scale, **({"linthresh": 0.01} if scale == "symlog" else {}))
        axes.set_ylim(bottom=0 if scale != "log" else None)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}" if scale == "log" else "")
        if len(curves) > 1:
            axes.legend(frameon=False, ncols=2)
        axes.grid(alpha=0.3)
        figure.savefig(path, transparent=True, metadata={"Date": None})
        plt.close(figure)
