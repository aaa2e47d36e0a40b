"""The glossary: every term that a page uses, in a sentence or two. {level} and {bins} are those of the page."""

GLOSSARY: dict[str, tuple[str, str]] = {
    "confidence": ("Confidence", "How sure the model says it is of its answer, from 0 to 100%."),
    "calibrated": (
        "Calibrated",
        "Of all answers given with 80% confidence 80% are right, and so for every other confidence.",
    ),
    "calibrator": (
        "Calibrator",
        "A small function, fitted on cases with known answers, that corrects the confidence after the model answered.",
    ),
    "points": ("Points", "Percentage points: from 80% to 90% are ten points."),
    "overstates": (
        "Overstates by",
        "Mean confidence minus the share of right answers. Positive: too sure. Negative: not sure enough.",
    ),
    "ece": (
        "Calibration error (ECE)",
        "The average distance between stated confidence and share of right answers over {bins} ranges of confidence."
        " Even an honest model shows some by chance, which is why the chance level stands beside it.",
    ),
    "loss": (
        "Loss (NLL)",
        "Minus the logarithm of the probability given to the true class, averaged. Lower is better; it rewards honest"
        " and sharp probabilities alike.",
    ),
    "split": (
        "Loss split",
        "The part of the loss that better calibration would remove, and the rest, which only a better model could.",
    ),
    "band": (
        "Grey band",
        "Where the curve of a calibrated model with these confidences lies, {level} times in 100 at each place.",
    ),
    "interval": (
        "Interval",
        "With new cases of the same kind, intervals made like this hold the true value {level} times in 100.",
    ),
    "coverage": ("Coverage", "The share of cases that the model decides alone, above a threshold of confidence."),
    "beyond": (
        "Beyond chance",
        "More than an honest model would show by luck, all classes, groups or ranges in the table considered together"
        " (Benjamini and Hochberg, 5%).",
    ),
    "temperature": (
        "Temperature",
        "One number that all scores are divided by. Above 1 it makes the model less sure, below 1 more.",
    ),
    "window": ("Range", "All cases whose stated confidence lies in it."),
}
"""Name in the page -> term, meaning."""
