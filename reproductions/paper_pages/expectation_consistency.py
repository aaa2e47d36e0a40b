"""Clarté, Loureiro, Krzakala, Zdeborová (2023)."""

from paper_pages import Numbers, Page, Row, listed


def beside(table, name, columns):
    """Our means of some columns, and the published values."""
    own = table["rows"][name]
    at = [table["columns"].index(column) for column in columns]
    return f"{listed((own['mean'][i] for i in at), '.3g')} / {listed((own['published'][i] for i in at), 'g')}"


def within(table, name):
    """Cells of a row within two standard deviations."""
    own = table["rows"][name]
    triples = list(zip(own["mean"], own["sd"], own["published"], strict=True))
    return sum(abs(mean - printed) <= 2 * sd for mean, sd, printed in triples), len(triples)


def page(n: Numbers) -> Page:
    """From the numbers of the theory, of table 1 and of the corrupted labels."""
    theory, first, corrupted = (
        n[name] for name in ("expectation_consistency_theory", "expectation_consistency_table1", "corrupted_labels")
    )
    small = {(r["teacher"], r["alpha"]): r for r in theory["theory"] if r["which"] == "small"}
    lower = sum(r["half_ece"][2] < r["half_ece"][1] for r in theory["theory"])
    affine, constant = small["affine", 20], small["constant", 20]
    gaps = [small["constant", alpha]["relative_gap"] for alpha in sorted(a for t, a in small if t == "constant")]
    alphas = sorted({alpha for _, alpha in small})
    further = sum(
        small["constant", a]["relative_gap"] > small["affine", a]["relative_gap"] > small["logit", a]["relative_gap"]
        for a in alphas
    )
    bayes = next(row for row in theory["bayes"] if row["temperature"] == 1.0)
    rows = [
        Row("equation 5, top 1 and top n", "reproduced", "`ec`, `top=n`; cases without a root are told"),
        Row("equation 4, temperature scaling", "reproduced", "`ts`: five evaluations"),
        Row("class-based temperatures", "reproduced", "`cts`"),
        Row(
            "equation 2, ECE; Brier score, NLL, error",
            "reproduced",
            "the paper's ECE has 15 bins of equal mass: `ece_mass`",
        ),
        Row(
            "table in figure 1, CIFAR-100 rows",
            "reproduced",
            f"{first['cells'] - first['outside']} of {first['cells']} cells within two standard deviations over"
            f" {first['halves']} random halves. VGG-19 ours / printed: T {beside(first, 'cifar100_vgg19_bn', ('T_TS', 'T_EC'))};"
            f" ECE {beside(first, 'cifar100_vgg19_bn', ('ECE', 'ECE_TS', 'ECE_EC'))} %;"
            f" BS {beside(first, 'cifar100_vgg19_bn', ('BS', 'BS_TS', 'BS_EC'))} %",
        ),
        Row(
            "the same, CIFAR-10 and SVHN rows; figure 3", "impossible", "logits and trained networks are not published"
        ),
        Row("figure 2, temperatures", "reproduced", "`diagram --style temperature`, below"),
        Row("figures 2, 7, reliability", "reproduced", "`diagram`"),
        Row(
            "teacher and student, state evolution (appendix B)",
            "reproduced",
            "fixed points agree by two solvers; trained models agree with them within three standard errors",
        ),
        Row(
            "figure 4, error over rows per dimension",
            "reproduced",
            "the printed error is of one class, half the usual; after temperature scaling at 20:"
            f" {100 * affine['half_ece'][1]:.2f} % affine, {100 * constant['half_ece'][1]:.2f} % constant",
        ),
        Row('"EC has the lower ECE for all ridges"', "reproduced", f"in {lower} of {len(theory['theory'])} cells"),
        Row(
            "figure 5, gap of the temperatures",
            "reproduced",
            f'{gaps[0]:.4f} to {gaps[-1]:.4f}, constant teacher; "around 30 %"',
        ),
        Row(
            "figure 6, caption",
            "reproduced",
            f"T {affine['temperature_ts']:.3f} and {affine['temperature_ec']:.3f} / 1.24 and 1.35; error"
            f" {listed(affine['half_ece'], '.2f', 100)} / 2.1, 1.2, 1.0 %",
        ),
        Row("figure 6, density", "reproduced", "drawn with its atoms, below"),
        Row(
            "section 5.1, who knows the model",
            "reproduced",
            f"at the teacher's temperature accuracy {bayes['accuracy']:.8f} equals confidence {bayes['confidence']:.8f}, and"
            " the NLL is least there: both temperatures are the teacher's",
        ),
        Row(
            "larger gap for a teacher farther from the logistic",
            "reproduced",
            f"at {further} of {len(alphas)} numbers of rows per dimension",
        ),
        Row(
            '"Delta is never negative" (section 5.3)',
            "**refuted**",
            "affine teacher, 20 rows per dimension: negative for confidences above .9756 (25.7 % of the rows), down to -.0077",
        ),
        Row(
            '"better in different uncertainty metrics"',
            "**refuted** for the Brier score with the constant teacher",
            f"{constant['brier'][2]:.5f} with EC against {constant['brier'][1]:.5f}; NLL is worse by definition",
        ),
    ]
    names = {"cifar100_resnet20": "ResNet-20", "cifar100_resnet56": "ResNet-56", "cifar100_repvgg_a2": "RepVGG-A2"}
    found = [within(corrupted, name) for name in names]
    rows += [
        Row(
            "appendix C, " + ", ".join(names.values()),
            "reproduced in kind",
            f"{sum(a for a, _ in found)} of {sum(b for _, b in found)} cells within two standard deviations over"
            f" {corrupted['seeds']} seeds; the mean change of ECE in the table is the printed -7 % (-6.6 %)",
        ),
        Row(
            "appendix C, VGG-19 row",
            "impossible",
            f"T of EC {beside(corrupted, 'cifar100_vgg19_bn', ('T_EC',))}, error"
            f" {beside(corrupted, 'cifar100_vgg19_bn', ('error',))} %: the printed error would need an accuracy of .92 on"
            " classes 0-9, where the public weights have .768",
        ),
        Row(
            "appendix C, RepVGG's errors after scaling",
            "impossible",
            f"ECE {beside(corrupted, 'cifar100_repvgg_a2', ('ECE_TS', 'ECE_EC'))} %: draw and perhaps weights unknown",
        ),
        Row("appendix C, SVHN and CIFAR-10 rows", "impossible", "logits are not published"),
    ]
    return Page(
        "Expectation consistency (Clarté, Loureiro, Krzakala, Zdeborová 2023)",
        "Expectation consistency",
        "`reproductions/expectation_consistency_table1.py`, `reproductions/expectation_consistency_theory.py`,\n"
        "`reproductions/corrupted_labels.py`. Figures are ours / printed.",
        rows,
        (
            ("temperature.png", "Figure 2: NLL, ECE and mean confidence over the temperature, CIFAR-10 ResNet-20"),
            (
                "figure4.png",
                "Figure 4: calibration error over rows per dimension; curves are the theory, points trained models",
            ),
            ("figure5.png", "Figure 5: relative gap of the two temperatures"),
            ("figure6.png", "Figure 6: joint density of the student's and the teacher's probability"),
        ),
    )
