"""Terms that a page explains, and links to where it uses them first."""

from dataclasses import dataclass

TEXT = """\
confidence | Confidence | The probability that the model gives its prediction, from 0% \
to 100%. "Sure" is its mean.
accuracy | Accuracy | The proportion of right predictions. "Right" is the same.
calibrated | Calibrated | Of all predictions with a confidence of 80%, 80% are right; \
and so for every other confidence.
calibrator | Calibrator | A function, fitted to labelled samples, that corrects the \
probabilities after the model has given them.
points | Points | Percentage points: from 80% to 90% are ten points.
overconfidence | Overconfidence | Mean confidence minus accuracy. Positive: \
overconfident. Negative: underconfident.
predicted | Predicted and observed | Mean probability of a class, and its frequency \
among the labels.
slope | Slope and intercept | Of the logistic recalibration of P(class 1). Slope: 1 if \
calibrated, below 1 if risks are too extreme. Intercept, with the slope fixed at 1: 0 \
if calibrated, above 0 if risks are too low on average.
ece | Calibration error (ECE) | The mean distance of confidence and accuracy over \
{bins} bins. A calibrated model has some as well: the value expected under \
calibration.
loss | NLL | Negative log-likelihood, also log loss: minus the logarithm of the \
probability of the label, averaged. Lower is better; it rewards calibrated and sharp \
probabilities.
brier | Brier score | Squared error of the probabilities, averaged. Lower is better.
split | NLL decomposition | Calibration loss, which recalibration could remove, and \
refinement loss, which only a better model could.
band | Grey band | Where the curve of a calibrated model with these confidences lies \
with probability {level}%, at each place.
interval | Interval | Confidence interval: intervals made like this contain the true \
value with probability {level}%.
coverage | Coverage | The proportion of samples whose confidence is at or above a \
threshold.
beyond | Significant | Larger than chance explains, adjusted for all classes, groups \
or bins of the table (Benjamini and Hochberg, 5%).
temperature | Temperature | One number that all scores are divided by. Above 1 it \
makes the model less sure, below 1 more.
net_benefit | Net benefit | Proportion of true positives minus that of false \
positives, which weigh the odds of the threshold.
window | Bin | All samples whose confidence lies in a range.
"""


@dataclass(frozen=True)
class Term:
    """A term of the glossary. key : its name in links. meaning : with numbers to fill in."""

    key: str
    word: str
    meaning: str

    def explained(self, level: float, bins: int) -> str:
        """The meaning with the level of intervals (a share) and the number of bins."""
        return self.meaning.format(level=f"{100 * level:g}", bins=bins)


def _parse(text: str) -> dict[str, Term]:
    terms = {}
    for line in text.splitlines():
        key, word, meaning = line.split(" | ")
        terms[key] = Term(key, word, meaning)
    return terms


GLOSSARY = _parse(TEXT)
"""All terms, by key, in the order of the page."""
