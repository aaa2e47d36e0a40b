"""What the names of arrays and columns mean.

``ROLES`` is the table: the words and patterns of every role, with examples. Names are
compared without regard to case. All else in this file applies it:

- ``role_of``: the role of an array by its own name (``array_names`` parses its path);
- the functions ``is_…``: roles that only tables have.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from calcli.role_words import LABEL_WORDS, PREDICTION_PATTERN, PREDICTION_WORDS


@dataclass(frozen=True)
class Role:
    """A meaning that names give to arrays.

    words : names that mean it as a whole. pattern : of further names. is_kind : the
    array is named by how its scores are to be read; the word may stand before or after
    other words. in_words : what an array beside the scores is called in messages, "" for
    other roles. is_per_row : such an array has a value for every row.
    """

    meaning: str
    words: tuple[str, ...] = ()
    pattern: str = ""
    examples: tuple[str, ...] = ()
    is_kind: bool = False
    in_words: str = ""
    is_per_row: bool = False


ROLES: dict[str, Role] = {
    "log_probs": Role(
        "scores: logarithms of probabilities",
        (
            *("log_probs", "log_prob", "logprobs", "logprob", "log_probas"),
            *("log_proba", "log_probabilities", "log_softmax"),
        ),
        examples=("log_probs", "val_logprobs"),
        is_kind=True,
    ),
    "logits": Role(
        "scores: before the softmax",
        ("logits", "logit"),
        examples=("logits", "logits_cat", "test/logits", "resnet_logits"),
        is_kind=True,
    ),
    "probs": Role(
        "scores: probabilities",
        (
            *("probs", "prob", "probas", "proba", "probabilities", "probability"),
            *("softmax", "y_proba", "y_prob", "y_probs", "y_pred_proba"),
            *("pred_proba", "pred_probs", "pyx"),
        ),
        examples=("probs", "probability(cat)", "raw.probabilities.cat"),
        is_kind=True,
    ),
    "any scores": Role(
        "scores of a kind that the values have to prove",
        (
            *("predictions", "prediction", "outputs", "output", "scores", "score"),
            *("y_score", "y_scores", "preds", "pred_score", "pred_scores"),
            *("class_scores", "y_hat", "y_pred", "decision_function"),
            "decision_scores",
        ),
        examples=("scores", "y_score"),
    ),
    "labels": Role(
        "the true classes",
        LABEL_WORDS,
        examples=("labels", "y_true", "targets_val"),
        in_words="labels",
        is_per_row=True,
    ),
    "class_names": Role(
        "names of the classes",
        ("class_names", "classes", "classes_", "label_names"),
        in_words="class names",
    ),
    "ids": Role(
        "names of the rows",
        (
            *("ids", "id", "sample_ids", "filename", "image_id", "doc_id"),
            *("custom_id", "sample_id", "question_id", "instance_id"),
            "batch_indices",
        ),
        in_words="ids",
        is_per_row=True,
    ),
    "weights": Role(
        "weights of the rows",
        ("weights", "weight", "sample_weight", "sample_weights"),
        in_words="weights",
        is_per_row=True,
    ),
    "group": Role(
        "subgroups of the rows",
        ("group", "groups"),
        in_words="groups",
        is_per_row=True,
    ),
    "unit": Role(
        "which rows belong together",
        ("unit", "units"),
        in_words="units",
        is_per_row=True,
    ),
    "transformed": Role(
        "scores of transformed inputs",
        ("transformed_logits",),
        in_words="transformed scores",
    ),
    "specs": Role(
        "names of transforms",
        ("transforms", "transform_specs"),
        in_words="their transforms",
    ),
    "split": Role(
        "the split of a row",
        ("split", "splits"),
        in_words="splits",
        is_per_row=True,
    ),
    "calibrated_by": Role(
        "what calibrated the scores",
        ("calibrated_by",),
        in_words="what calibrated them",
        is_per_row=True,
    ),
    "predictions": Role(
        "predicted classes, unless they are real numbers",
        PREDICTION_WORDS,
        PREDICTION_PATTERN,
        ("prediction", ".pred_class", "Prediction (species)", "Scored Labels"),
    ),
    "correctness": Role(
        "whether the answer is right",
        (
            *("acc", "accuracies", "accuracy", "answeredcorrectly", "correct"),
            *("correctness", "em", "exactmatch", "hit", "hits", "iscorrect", "ishit"),
            *("isright", "istp", "matched", "right", "tp", "truepositive"),
            *("wascorrect", "wasright"),
        ),
        examples=("is_correct", "exact-match", "wasRight"),
    ),
    "certainty": Role(
        "a confidence or a loss: never a score of a class",
        ("confidence", "conf", "loss", "nll", "entropy", "margin"),
    ),
    "largest": Role(
        "the largest score of a row",
        ("max", "top", "top1", "best", "pred", "predicted"),
        examples=("prob_max",),
    ),
    "counter": Role(
        "counts rows: never a score of a class",
        (),
        r"(?i:folds?|idx|index|\.?row([_ ]?(index|number))?|epoch|.*[_ .]id)"
        r"|[A-Za-z]+(Id|ID)|(?i:inst#|\.config|resample|mtry)",
        ("fold", "row_id", "PassengerId", "rowIndex"),
    ),
    "index": Role(
        "the row index that pandas writes",
        (),
        r"|Unnamed: 0(\.\d+)?|__index_level_\d+__|index_level_\d+",
        ("", "Unnamed: 0"),
    ),
    "unit by name": Role(
        "patients, images, questions: rows of one belong together",
        (),
        r"(?i)(.*[_ ])?(patient|subject|participant|person|user|customer|client"
        r"|question|prompt|image|video|document|article|sequence|session|visit|slide)"
        r"s?([_ ]?(id|no|nr|num|number))?",
        ("patient_id", "image"),
    ),
    "not a unit": Role("repeats, and is no unit", (), r"(?i)folds?|epoch"),
    "weight by name": Role("weights of the rows", (), r"(?i)w|.*weights?"),
    "answers": Role(
        "right answers, proposed as labels, in this file or one of their own",
        (
            *("answer", "answer_key", "correct_answer", "truth", "class", "target"),
            *("expected", "expected_answer", "expected_output", "reference"),
            *("reference_answer", "gold_answer", "gold_label", "right_answer"),
            *("correct_option", "correct_label", "ideal", "solution"),
        ),
    ),
    "no truth": Role(
        "words before a word for labels in names of predictions,"
        " or of a number of labels",
        (),
        r"(?i)(.*[_.-])?"
        r"(y_?hat|hat|pred(ict(ed|ions?)|s)?|output|soft|num|n|pseudo|model|argmax)",
        ("y_hat", "pseudo"),
    ),
    "boxes": Role(
        "boxes of detections",
        ("bbox", "bboxes", "box", "boxes", "bounding_box", "segmentation"),
    ),
    "inputs": Role(
        "inputs of a model, boxes, parameters: never scores",
        ("x", "inputs", "input", "images"),
        r"(?i)(feat|embed|hidden|bbox|boxes).*|.*\.(weight|bias)",
    ),
}
"""Every role that a name can give."""


def _role_by_word(roles: Iterable[str]) -> dict[str, str]:
    """Roles by the words that mean them as a whole."""
    by_word: dict[str, str] = {}
    for role in roles:
        by_word |= dict.fromkeys(ROLES[role].words, role)
    return by_word


SCORE_KIND_OF = _role_by_word(role for role in ROLES if ROLES[role].is_kind)
"""Word for scores -> their kind."""

ARRAY_ROLES = tuple(role for role in ROLES if ROLES[role].in_words)
"""Roles beside the scores that arrays of a bundle have."""

ROLE_OF_WORD = _role_by_word(ARRAY_ROLES)

COLUMNS = ("ids", "weights", "group", "unit")
"""Columns that bundles keep, which options may name."""

ROLES_OF_NAMES = ("ids", "group", "unit")
"""Columns whose cells are names of rows, or of what rows belong to."""

PER_ROW = frozenset(role for role in ROLES if ROLES[role].is_per_row)

NUMBERED = re.compile(r"(?P<stem>.*?[^\d\W]?)[\W_]*(?P<number>\d+)\W*")
"""A name that ends in a number: ``p0``, ``p[1]``."""


def alternatives(words: Iterable[str]) -> str:
    """Pattern of these words, longer ones first."""
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


SCORE_PREFIX = re.compile(rf"(?i)({alternatives(SCORE_KIND_OF)})(?![A-Za-z])")
"""A word for scores at the beginning of a name."""

_WORD_ENDS = re.compile(r"(?<=[a-z])(?=[A-Z])|[\s-]+")


def role_of(base: str) -> str:
    """Role of an array by its own name, without folders and splits; "" if unknown."""
    role = ROLE_OF_WORD.get(base.lower())
    if role is None:
        role = ROLE_OF_WORD.get(_WORD_ENDS.sub("_", base).lower(), "")
    return role


def are_ours(names: Iterable[str]) -> bool:
    """True for the names of the columns of a table that calcli has written."""
    return any(role_of(name) == "calibrated_by" for name in names)


# ---- roles that columns of tables have


def _matches(role: str, name: str) -> bool:
    return re.fullmatch(ROLES[role].pattern, name) is not None


def _is_word(role: str, name: str) -> bool:
    return name.lower() in ROLES[role].words


def says_correct(name: str) -> bool:
    """True for a name of correctness, in any spelling (``is_correct``)."""
    letters = re.sub(r"[\W_\d]", "", name.lower())
    return letters in ROLES["correctness"].words


def is_prediction(name: str) -> bool:
    """True for a name of predicted classes."""
    return _is_word("predictions", name) or _matches("predictions", name.lower())


def is_prediction_word(name: str) -> bool:
    """True for a name that is a word for predictions, whatever its numbers are."""
    return _is_word("predictions", name)


def may_be_scores(name: str) -> bool:
    """True for a name of scores of any kind."""
    return _is_word("any scores", name)


def is_no_truth(name: str) -> bool:
    """True for a name that says that the values are predicted, or a number."""
    return _matches("no truth", name)


def is_counter(name: str) -> bool:
    """True for a name of a counter or an id of rows."""
    return _matches("counter", name)


def is_index(name: str) -> bool:
    """True for a name of the row index that pandas writes."""
    return _matches("index", name)


def is_unit(name: str) -> bool:
    """True for a name of units: patients, images, questions."""
    return _matches("unit by name", name)


def is_never_unit(name: str) -> bool:
    """True for a name of folds and the like."""
    return _matches("not a unit", name)


def is_weight(name: str) -> bool:
    """True for a name of weights of rows."""
    return _matches("weight by name", name)


def is_certainty(name: str) -> bool:
    """True for a name of a confidence or a loss."""
    return _is_word("certainty", name)


def sounds_sure(name: str) -> bool:
    """True for a name with a word for confidence in it."""
    return re.search(r"(?i)conf|certain|sure", name) is not None


def may_be_percent(name: str) -> bool:
    """True for a name of numbers that may go from 0 to 100."""
    return re.search(r"(?i)conf|certain|sure|percent|pct|%", name) is not None


def is_largest(name: str) -> bool:
    """True for a name whose last word means the largest score: ``prob_max``."""
    return _is_word("largest", re.split(r"[\W_]+", name)[-1])


def is_answer(name: str) -> bool:
    """True for a name of right answers: proposed as labels, not read unasked."""
    return _is_word("answers", name)


def is_bare_answer(name: str) -> bool:
    """True for ``answer``, the right one or that of the model."""
    return name.lower() == "answer"


BOX_SIDES = (
    {"xmin", "ymin", "xmax", "ymax"},
    {"x_min", "y_min", "x_max", "y_max"},
    {"x1", "y1", "x2", "y2"},
    {"x", "y", "w", "h"},
    {"x", "y", "width", "height"},
    {"xc", "yc", "w", "h"},
    {"cx", "cy", "w", "h"},
    {"x_center", "y_center", "width", "height"},
    {"left", "top", "right", "bottom"},
    {"left", "top", "width", "height"},
)
"""Names of four columns that are the box of a detection."""


def have_box(names: Collection[str]) -> bool:
    """True if some of the names are boxes of detections, or the four sides of one."""
    lower = {name.lower() for name in names}
    has_boxes = any(_is_word("boxes", name) for name in names)
    return has_boxes or any(sides <= lower for sides in BOX_SIDES)


def is_input(name: str) -> bool:
    """True for a name of inputs, features, boxes or parameters of a model."""
    return _is_word("inputs", name) or _matches("inputs", name)
