"""Guo, Pleiss, Sun, Weinberger (2017)."""

from paper_pages import Numbers, Page, Row


def page(n: Numbers) -> Page:
    """From guo_tables.json."""
    files = n["guo_tables"]
    own = files["cifar100_resnet20"]
    scores, seconds = own["scores"], own["seconds"]

    def each(key, names, form=".4f"):
        return ", ".join(f"{name} {scores[name][key]:{form}}" for name in names)

    ece = "; ".join(
        f"{name}: {100 * one['scores']['uncalibrated']['ece']:.2f} to {100 * one['scores']['temperature']['ece']:.2f} %"
        for name, one in files.items()
    )
    rows = [
        Row("ECE, MCE, NLL, error", "reproduced", "`evaluate`"),
        Row(
            "figures 1 and 4, reliability diagrams",
            "reproduced",
            "`diagram --style bins --bins 10`, with intervals and the band of a calibrated model, below",
        ),
        Row(
            "confidence histogram with mean confidence and accuracy",
            "reproduced",
            "under every diagram; rows on a logarithmic axis, so that small bins can be seen",
        ),
        Row(
            "histogram binning, isotonic regression, BBQ against the rest",
            "reproduced",
            f"`mode=ova`, error on CIFAR-100 ResNet-20: {each('error', ('histogram binning', 'isotonic regression', 'BBQ'))}",
        ),
        Row(
            "binary case, section 4.1",
            "reproduced",
            "two classes: `mode=auto` calibrates the probability of class 1 from exact log-odds",
        ),
        Row(
            "table 1, temperature scaling lowers the ECE",
            "reproduced in kind",
            f"15 bins, before and after: {ece}",
        ),
        Row(
            "temperature, vector, matrix scaling",
            "reproduced",
            f"NLL on CIFAR-100 ResNet-20: {each('nll', ('temperature', 'vector', 'matrix'), '.5f')}; matrix scaling fails with"
            f" 100 classes, as printed (error {scores['matrix']['error']:.3f})",
        ),
        Row(
            "vector scaling's entries nearly constant",
            "reproduced",
            "; ".join(
                f"{name}: standard deviation over mean {one['scale_variation']:.2f}" for name, one in files.items()
            ),
        ),
        Row("temperature scaling in few iterations", "reproduced", "five evaluations, residual below 1e-15"),
        Row(
            "cost, section 5",
            "reproduced in kind",
            f"{own['rows'][0]} rows of {own['classes']} classes, CPU seconds: "
            + ", ".join(f"{name} {value:.2f}" for name, value in seconds.items()),
        ),
        Row(
            "figure 3, NLL overfits before the error",
            "impossible",
            "needs training runs that are not published; `diagram 'epochs.h5:*' --style epochs` draws it for a file with a"
            " bundle per epoch",
        ),
        Row(
            "figure 2, depth, width, batch normalisation, weight decay",
            "impossible",
            "needs the training of many networks",
        ),
        Row("values of tables 1 and 2", "impossible", "logits are not published"),
    ]
    return Page(
        "On calibration of modern neural networks (Guo, Pleiss, Sun, Weinberger 2017)",
        "Temperature scaling",
        "`reproductions/guo_tables.py FILES -o FOLDER` prints the tables for any files of scores.",
        rows,
        tuple(
            (
                f"reliability_{stem}.png",
                f"Ten bins, {name} ResNet-20: as it is, with one temperature, with vector scaling",
            )
            for stem, name in (("cifar10_resnet20", "CIFAR-10"), ("cifar100_resnet20", "CIFAR-100"))
        ),
    )
