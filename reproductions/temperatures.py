"""The temperatures of many networks: of least NLL (TS), of confidence equal to accuracy (EC), and of least ECE.

Clarte, Loureiro, Krzakala, Zdeborova (2023) say of their networks that T is above 1 and that neither
temperature is near the least ECE (figure 2); Guo, Pleiss, Sun, Weinberger (2017) that T is above 1
where networks are overconfident. Random halves calibrate; the temperature of least ECE (15 bins of
equal mass, 81 temperatures from 1/2 to 4) is that of the other half, where all are judged.

    python reproductions/temperatures.py SCORES.npz … -o FOLDER [--halves 10]

The picture is figure 2 for the first file: NLL, ECE and mean confidence over the temperature.
"""

import numpy as np
from saved import each_file, fitted, half, parser, read, store

GRID = np.geomspace(0.5, 4, 81)
BINS = 15


def confidences(z, temperature):
    """(n,) largest probability at a temperature."""
    return 1 / np.exp((z - z.max(axis=1, keepdims=True)) / temperature).sum(axis=1)


def error(confidence, hits):
    """ECE over bins of equal mass."""
    order = np.argsort(confidence, kind="stable")
    gaps = [
        abs((confidence[part] - hits[part]).sum())
        for part in np.array_split(order, BINS)
    ]
    return sum(gaps) / len(hits)


def one_half(z, y, seed):
    """Temperatures and errors of TS, EC and the least ECE on one half."""
    cal, test = half(len(y), seed)
    hits = (z[test].argmax(axis=1) == y[test]).astype(float)
    chosen = [
        fitted(z[cal], y[cal], method).params["temperature"] for method in ("ts", "ec")
    ]
    errors = [error(confidences(z[test], t), hits) for t in GRID]
    least = int(np.argmin(errors))
    return [*chosen, GRID[least]], [
        *(error(confidences(z[test], t), hits) for t in chosen),
        errors[least],
    ]


def draw(z, y, title, path):
    """Figure 2: three panels over the temperature, with those of TS and EC on the same rows."""
    from matplotlib.figure import Figure

    hits, own = (z.argmax(axis=1) == y).astype(float), np.arange(len(y))
    sure = [confidences(z, t) for t in GRID]
    label = z[own, y] - z.max(axis=1)
    nll = [-(label / t + np.log(p)).mean() for t, p in zip(GRID, sure, strict=True)]
    series = {
        "NLL": nll,
        "ECE": [error(p, hits) for p in sure],
        "mean confidence": [p.mean() for p in sure],
    }
    figure = Figure(figsize=(4.6, 6.6), layout="constrained")
    panels = figure.subplots(3, 1, sharex=True)
    for axes, (name, values) in zip(panels, series.items(), strict=True):
        axes.plot(GRID, values, color="#000000", lw=1.2)
        for method, colour in (("ts", "#d55e00"), ("ec", "#0072b2")):
            t = fitted(z, y, method).params["temperature"]
            axes.axvline(t, color=colour, ls="--", lw=1, label=f"{method}: T = {t:.3f}")
        axes.set(ylabel=name, xscale="log")
    panels[0].set_title(title)
    panels[2].axhline(hits.mean(), color="grey", lw=1, label="accuracy")
    panels[2].set_xlabel("temperature")
    panels[2].minorticks_off()
    panels[2].set_xticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
    panels[2].legend(fontsize=8)
    figure.savefig(path, dpi=100, metadata={"Software": None})


def one_file(z, y, given):
    """Temperatures and errors of every half."""
    temperatures, errors = zip(
        *(one_half(z, y, seed) for seed in range(given.halves)), strict=True
    )
    return {
        "temperatures": np.array(temperatures).tolist(),
        "errors": np.array(errors).tolist(),
    }


def main():
    given = parser(__doc__, halves=(4, "random halves")).parse_args()
    files = each_file(one_file, given.sources, given)
    store({"halves": given.halves, "files": files}, given.output, "temperatures")
    draw(
        *read(given.sources[0]), given.sources[0].stem, given.output / "temperature.png"
    )
    print(
        f"{'':36}{'T: TS':>9}{'EC':>9}{'least':>9}{'ECE: TS':>9}{'EC':>9}{'least':>9}"
    )
    for name, own in files.items():
        means = (*np.mean(own["temperatures"], axis=0), *np.mean(own["errors"], axis=0))
        print(f"{name:36}", *(f"{value:8.4f}" for value in means))


if __name__ == "__main__":
    main()
