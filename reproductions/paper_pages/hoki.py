"""Jang, Ivanov, Lee, Weimer (2021)."""

from paper_pages import Numbers, Page, Row, listed


def page(n: Numbers) -> Page:
    """From hoki_tables.json."""
    stored = n["hoki_tables"]
    files, seeds = stored["files"], stored["seeds"]
    one = files["cifar10_resnet20"]
    least = [name for name, own in files.items() if min(own["ece"], key=lambda m: own["ece"][m][2]) == "hoki"]
    behind = [name for name, own in files.items() if own["scores"]["hoki"][2] > own["scores"]["ts"][2]]
    dull = [name for name, own in files.items() if own["scores"]["hoki"][0] > own["scores"]["ts"][0]]
    chosen = ", ".join(f"{name} {own['search']['auto']['noise']}" for name, own in files.items())
    search, start = one["search"], {name: own["start"] for name, own in files.items()}
    starts = "; ".join(
        f"{name} {100 * own['accuracy'][0]:.2f} and {100 * own['confidence'][0]:.2f} %" for name, own in start.items()
    )
    last = list(files)[-1]
    seconds = ", ".join(f"{method} {value[0]:.2f}" for method, value in files[last]["seconds"].items())
    rows = [
        Row(
            "Algorithm 1, equations 1-4",
            "reproduced",
            "gamma is an exact integral; an independent quadrature agrees on every row to 1e-6",
        ),
        Row("Algorithm 2", "reproduced", "rounds are replayed from the artifact"),
        Row(
            "cycles of partitions",
            "reproduced",
            "not in the paper: some fits come back to bins they had; the member of least ECE is kept, status"
            " `not_converged`",
        ),
        Row(
            "noise on the logits, Gaussian and uniform",
            "reproduced",
            "exact, or `gamma=mc` with the paper's 1000 draws",
        ),
        Row(
            "theorem 1, fixed point",
            "reproduced",
            "ECE on the calibration rows is at most 1e-15, by construction: it proves nothing, and the fit says so",
        ),
        Row("theorem 2, bound", "reproduced", "`bound_printed`; its proof supports `bound_repaired`"),
        Row(
            "table 1, choice of the family by grid",
            "reproduced in kind",
            f"`noise=auto` lets the families compete, `grid=printed` has the paper's scales, `scales=` any. Chosen: {chosen}."
            f" The paper has uniform noise on CIFAR-10. CIFAR-10 ResNet-20, first halves: criterion"
            f" {search['uniform']['criterion']:.5f} uniform, {search['gaussian']['criterion']:.5f} Gaussian",
        ),
        Row(
            "selection by the spread of the confidence with one bin",
            "reproduced",
            "`details.criterion`; on CIFAR-10 of the paper's size (.043)",
        ),
        Row(
            "table 1, means and minima of the noise",
            "impossible",
            "the arg max does not see them, so that the printed ones are arbitrary",
        ),
        Row(
            "transformations of the input",
            "reproduced",
            "`noise=transforms`: ten zooms reach ECE .0084, but a top-label Brier score of .0634, worse than no"
            " calibration (.0623). The paper prints no number to compare with",
        ),
        Row(
            "mixtures of transformations (future work)",
            "reproduced",
            "`mix=0.5`: zooms and Gaussian noise, ECE .0085, top-label Brier .0589",
        ),
        Row(
            "table 2, 15 bins",
            "reproduced in kind",
            f"Hoki has the least ECE on {len(least)} of {len(files)} networks ({', '.join(least) or 'none'}); behind"
            f" temperature scaling in NLL on {len(behind)} and in top-label Brier score on {len(dull)} of {len(files)}",
        ),
        Row(
            "tables 4-8, 5 to 100 bins",
            "reproduced in kind",
            f"CIFAR-10 ResNet-20, {seeds} halves, {listed(stored['files']['cifar10_resnet20']['bins'], 'd')} bins: Hoki"
            f" {listed(one['ece']['hoki'], '.2f', 100)} %, temperature scaling {listed(one['ece']['ts'], '.2f', 100)} %",
        ),
        Row(
            "table 3, seconds",
            "reproduced in kind",
            f"CPU seconds, {last}: {seconds}; other machines, other seconds",
        ),
        Row(
            "table 9, start at accuracy or confidence",
            "reproduced in kind",
            f"ECE from the accuracy and from the confidence: {starts}; the paper finds accuracy better in 13 of 15",
        ),
        Row("bins J and rounds K", "reproduced", "`bins`, `rounds`; three or four rounds are enough"),
        Row("figures 1, 2", "impossible", "illustrations without numbers"),
        Row("figures 3-6, variance against ECE", "reproduced", "`diagram --style variance`, below"),
        Row("baselines", "reproduced", "TempS, VecS, MS-ODIR, Dir-ODIR, ETS, IRM, IROvA-TS and ReCal all fit"),
        Row("runs on the paper's own networks", "impossible", "their logits are not published"),
        Row(
            "CUDA",
            "undecided",
            "not measured: no GPU was at hand; the twin of the loop equals NumPy on torch's CPU device",
        ),
    ]
    return Page(
        "Hoki (Jang, Ivanov, Lee, Weimer 2021)",
        "Hoki",
        "`reproductions/hoki_tables.py FILES -o FOLDER` prints tables of the same structure for any files of scores.",
        rows,
        (("variance.png", "Confidence variance against ECE: a good calibrator lies to the left and high up"),),
        "The criterion of table 1 measures spread, not skill: it prefers transforms of the input to both noises although\n"
        "their Brier score is the worst of all.",
    )
