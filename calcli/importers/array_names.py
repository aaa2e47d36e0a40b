"""Roles of the arrays of a file, found by their names: scores, labels and the columns that belong to them.

- Scores: a name that is, starts with or ends in a word of ``KIND_WORDS``, which gives the kind.
- Labels: ``labels``, ``label``, ``y``, ``y_true``, ``targets``, ``target``, …
- Splits: ``val``, ``test``, … before or after the name (``logits_val``) or as the last folder (``val/logits``).
- Arrays in one folder belong together; labels, class names and the like may also lie in a folder above.
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from numpy.typing import NDArray

from calcli.errors import DataError, UsageError, unknown_name
from calcli.fast_dataclass import dataclass
from calcli.importers.archive import Entries, Entry
from calcli.importers.import_request import ImportRequest
from calcli.io.locate import intersections

KIND_WORDS = {
    "log_probs": (
        "log_probs", "log_prob", "logprobs", "logprob", "log_probas", "log_proba", "log_probabilities", "log_softmax",
    ),
    "logits": ("logits", "logit"),
    "probs": (
        "probs", "prob", "probas", "proba", "probabilities", "probability", "softmax", "y_proba", "y_prob", "y_probs",
        "y_pred_proba", "pred_proba", "pred_probs", "pyx",
    ),
}  # fmt: skip
SPLIT_WORDS = (
    "train", "training", "cal", "calib", "calibration", "val", "valid", "validation", "dev", "test", "eval", "holdout",
)  # fmt: skip
ROLES = {
    "labels": (
        "labels", "label", "y", "y_true", "ytrue", "targets", "target", "true_labels", "true_label",
        "ground_truth", "gt", "gt_label", "gt_labels", "label_ids", "original_labels", "gold", "truth",
        "truths", "ground_truths", "gts", "actual", "actuals", "true_class", "true_classes",
    ),
    "class_names": ("class_names", "classes", "classes_", "label_names"),
    "ids": (
        "ids", "id", "sample_ids", "filename", "image_id", "doc_id", "custom_id", "sample_id", "question_id",
        "instance_id", "batch_indices",
    ),
    "weights": ("weights", "weight", "sample_weight", "sample_weights"),
    "group": ("group", "groups"),
    "unit": ("unit", "units"),
    "transformed": ("transformed_logits",),
    "specs": ("transforms", "transform_specs"),
    "split": ("split", "splits"),
    "calibrated_by": ("calibrated_by",),
}  # fmt: skip
OUTCOME_WORDS = frozenset({
    "acc", "accuracies", "accuracy", "answeredcorrectly", "correct", "correctness", "em", "exactmatch", "hit", "hits",
    "iscorrect", "ishit", "isright", "istp", "matched", "right", "tp", "truepositive", "wascorrect", "wasright",
})  # fmt: skip
"""Names of arrays of correctness (1 for a right answer), lower case, without separators."""
COLUMNS = ("ids", "weights", "group", "unit")  # columns kept in bundles, which options may name
PER_ROW = frozenset({"labels", *COLUMNS, "split", "calibrated_by"})
KIND_OF = {word: kind for kind, words in KIND_WORDS.items() for word in words}
ROLE_OF = {word: role for role, words in ROLES.items() for word in words}
SCORE_PREFIX = re.compile(rf"({'|'.join(sorted(KIND_OF, key=len, reverse=True))})(?![A-Za-z])", re.IGNORECASE)
_WORD_ENDS = re.compile(r"(?<=[a-z])(?=[A-Z])|[\s-]+")
_SPLIT = "|".join(sorted(SPLIT_WORDS, key=len, reverse=True))
_AFFIXED = re.compile(rf"(?:(?P<before>{_SPLIT})[_.-])?(?P<core>.+?)(?:[_.-](?P<after>{_SPLIT}))?", re.IGNORECASE)
_OF_MODEL = re.compile(r"(?P<role>labels?|targets?|class_names)[_.-](?P<model>.+)", re.IGNORECASE)
_SUFFIXES = sorted({*KIND_OF, *ROLES["labels"], "class_names", "ids"} - {"y", "gt"}, key=len, reverse=True)
_SUFFIXED = re.compile(rf"(?P<model>.+?)[_.-](?P<word>{'|'.join(_SUFFIXES)})", re.IGNORECASE)
_NO_TRUTH = re.compile(r"(?i)(.*[_.-])?(y_?hat|hat|pred(ict(ed|ions?)|s)?|output|soft|num|n|pseudo|model|argmax)")
"""Prefixes of a word for labels in names of other things: predictions, or a number of labels."""
_TAIL_SPLIT = re.compile(rf"(?P<model>.+)[_.-](?P<split>{_SPLIT})", re.IGNORECASE)


@dataclass(frozen=True)
class Name:
    """Parts of an array's name. folder : the folders, without one that is a split. core : the base name without its
    split. role : "scores", a key of ROLES, or "". model : the rest beside the word for logits or labels."""

    path: str
    folder: tuple[str, ...]
    core: str
    role: str
    kind: str = ""
    model: str = ""
    split: str = ""


@dataclass(frozen=True)
class BundleArrays:
    """Paths of the arrays of one bundle. model : name of the bundle without its split. extras : path by role."""

    model: str
    split: str
    kind: str
    scores: str
    labels: str | None
    extras: dict[str, str]

    @property
    def columns(self) -> dict[str, str]:
        """Paths of the columns kept in the bundle, by role."""
        return {role: path for role, path in self.extras.items() if role in COLUMNS}

    @property
    def name(self) -> str:
        """Name of the group in the output; "" is the root."""
        return "/".join(part for part in (self.model, self.split) if part)


def role_of(base: str) -> str:
    """Role of an array by its own name, without folders and splits: a key of ROLES or ""."""
    return ROLE_OF.get(base.lower()) or ROLE_OF.get(_WORD_ENDS.sub("_", base).lower(), "")


@lru_cache(maxsize=1 << 16)  # every array of a file is compared with every other
def parse_name(path: str) -> Name:
    """Parse the path of an array into its parts."""
    *folders, base = [part for part in path.split("/") if part not in ("", ".")] or [path]
    role, core, split = "", base, ""
    if folders and folders[-1].lower() == "transforms" and base.lower() in ("logits", "specs"):
        role = "transformed" if base.lower() == "logits" else "specs"
        folders.pop()
    if folders and folders[-1].lower() in SPLIT_WORDS:
        split = folders.pop()
    folder = tuple(folders)
    if role:
        return Name(path, folder, base, role, split=split)
    affixed = _AFFIXED.fullmatch(base)
    # A name that has a meaning as a whole (y_true, test) is not split.
    if affixed and not role_of(base) and base.lower() not in KIND_OF:
        core, split = affixed["core"], affixed["before"] or affixed["after"] or split
    if role := role_of(core):
        return Name(path, folder, core, role, split=split)
    if prefix := SCORE_PREFIX.match(core):
        model = core[prefix.end() :].strip("_-. ")
        return Name(path, folder, core, "scores", KIND_OF[prefix.group().lower()], model, split)
    of_model = _OF_MODEL.fullmatch(core)
    if of_model and of_model["role"].lower() == "class_names":
        return Name(path, folder, core, "class_names", model=of_model["model"], split=split)
    if suffixed := _SUFFIXED.fullmatch(core):
        model, inside = suffixed["model"], _TAIL_SPLIT.fullmatch(suffixed["model"])
        if inside:
            model, split = inside["model"], inside["split"]
        if kind := KIND_OF.get(suffixed["word"].lower(), ""):
            return Name(path, folder, core, "scores", kind, model, split)
        if not _NO_TRUTH.fullmatch(model):
            return Name(path, folder, core, role_of(suffixed["word"]), model=model, split=split)
    if of_model:
        return Name(path, folder, core, role_of(of_model["role"]), model=of_model["model"], split=split)
    return Name(path, folder, core, "", split=split)


def plan(paths: Iterable[str], ask: ImportRequest, where: str) -> list[BundleArrays]:
    """Find the bundles among the arrays of a source. where : the source, for messages. Raises UsageError for names that
    do not exist and for ambiguous arrays, DataError when nothing is found."""
    names = [parse_name(path) for path in paths]
    scores = _chosen_scores(names, ask, where)
    asked_labels = [matching(names, label, "labels array") for label in ask.labels]
    if ask.groups:
        scores = _in_groups(scores, ask.groups)
    for first in scores if not (ask.scores or ask.all_scores) else ():
        several = [name.path for name in scores if (name.folder, name.split) == (first.folder, first.split)]
        if len(several) > 1:
            told = f"{where}: holds {len(several)} arrays of scores side by side: {', '.join(several)};"
            raise UsageError(f"{told} choose with --scores NAME (may be repeated) or take them all with --all-scores")
    in_pairs = len(asked_labels) == len(scores) == len(ask.scores)
    every = [name for matches in asked_labels for name in matches] or [n for n in names if n.role == "labels"]
    found = []
    for place, (score, model) in enumerate(zip(scores, _model_names(scores), strict=True)):
        labels = asked_labels[place] if in_pairs else every
        alone = len(scores) == len(labels) == 1 and len({score.split, labels[0].split} - {""}) < 2
        label = _companion(score, labels, any_model=bool(ask.labels) or alone, only=True)
        if label is None and not ask.no_labels:
            others = ", ".join(path for path in real_names(names)[:40] if path != score.path)
            told = f"found no labels for {score.path!r}{f' among {others}' if others else ', the only array'}"
            told += f"; name them with --labels {_unnamed(names, scores)}, or pass --no-labels for scores that are only"
            problem = DataError(f"{where}: {told} to be calibrated; --gold FILE joins them from another file")
            raise problem if others or not ask.carry else problem.advising(ask.command(where, [("--no-labels",)]))
        extras = {role: extra for role in ROLES if role != "labels" if (extra := extra_of(score, names, role))}
        found.append(BundleArrays(model, score.split, score.kind, score.path, label, extras))
    doubles = [c.name for c in found if sum(c.name == other.name for other in found) > 1]
    if doubles:
        raise UsageError(f"{where}: two arrays of scores would both become the group {doubles[0] or 'at the root'!r}")
    return found


def _unnamed(names: Sequence[Name], scores: Sequence[Name]) -> str:
    """Value to advise for ``--labels``: the columns of labels, or the one array whose name has no known role."""
    several = [name.path for name in names if name.role == "labels" and name.model and name.core == name.path]
    if len(several) > 1:
        return f"{several[0]}:{several[-1]}, with --per-label where several may hold at once"
    others = [n for n in names if n.path not in {score.path for score in scores}]
    left = [n.path for n in others if not (n.role or says_correct(n.core) or _NO_TRUTH.fullmatch(n.core))]
    return shlex.quote(left[0]) if len(left) == 1 else "NAME"


def _chosen_scores(names: Sequence[Name], ask: ImportRequest, where: str) -> list[Name]:
    if len(ask.scores) == 1 == len(ask.labels) and says_correct(ask.labels[0].rpartition("/")[2]):
        scores, labels = shlex.quote(ask.scores[0]), shlex.quote(ask.labels[0])
        told = f"{labels} says whether answers are right and is no class"
        raise UsageError(f"{where}: {told}: did you mean --confidence {scores} --correct {labels}?")
    if ask.scores:
        chosen = [name for asked in ask.scores for name in matching(names, asked, "scores array")]
    else:
        chosen = [name for name in names if name.role == "scores"]
        if not chosen and ask.kind:  # a table whose columns are named like the classes
            chosen = [name for name in names if name.path == "columns"]
    if not chosen:
        listing = ", ".join(real_names(names)[:20]) or "nothing"
        advice = "name yours with --scores NAME --labels NAME --kind logits|log_probs|probs"
        raise DataError(f"{where}: holds no array named logits, log_probs or probs (it has: {listing}); {advice}")
    for name in chosen:
        if not (ask.kind or name.kind):
            raise UsageError(f"{where}: say what {name.path!r} holds with --kind logits, log_probs or probs")
    return [Name(n.path, n.folder, n.core, "scores", ask.kind or n.kind, n.model, n.split) for n in chosen]


def real_names(names: Sequence[Name]) -> list[str]:
    """Names of the source's own arrays, without the combined array of columns and without generated class names."""
    paths = [name.path for name in names]
    made = {f"class_names_{path}" for path in paths} & set(paths)
    return [path for path in paths if path not in made and path != "columns"]


def says_correct(name: str) -> bool:
    """True for a name of an array of correctness, in any spelling: labels only when the user names it."""
    return re.sub(r"[\W_\d]", "", name.lower()) in OUTCOME_WORDS


def columns_by_name(
    entries: Entries, named: Mapping[str, Sequence[str]]
) -> dict[str, Entry]:
    """The arrays, with columns that options name stored under their role, in every
    folder and split, in place of any found by name.

    named : names by role; several groups are combined, an empty list drops the role.
    Raises UsageError for unknown names.
    """
    names = [parse_name(path) for path in entries]
    found = {
        role: [matching(names, one, "column") for one in asked]
        for role, asked in named.items()
    }
    moved = {
        name.path
        for lists in found.values()
        for matches in lists
        for name in matches
        if name.role in COLUMNS
    }
    made = {
        name.path: entries[name.path]
        for name in names
        if name.role not in named and name.path not in moved
    }
    for role, lists in found.items():
        if not lists:
            continue
        first, *others = lists
        for name in first:
            columns = {name.core: entries[name.path]}
            for matches in others:
                for one in matches:
                    if (one.folder, one.split) == (name.folder, name.split):
                        columns[one.core] = entries[one.path]
            path = "/".join(filter(None, (*name.folder, name.split, role)))
            if others:
                made[path] = _combined(columns)
            else:
                made[path] = entries[name.path].called(name.core)
    return made


def _combined(columns: Entries) -> Entry:
    """One column of the intersections of several, in an order of their own."""
    columns = dict(sorted(columns.items()))
    first = next(iter(columns.values()))
    get = partial(_together, columns)
    return Entry(first.path, ", ".join(columns), get, made_of=columns)


def _together(columns: Entries) -> NDArray[Any]:
    names = {name: entry.names("group") for name, entry in columns.items()}
    return intersections(names)


def matching(names: Sequence[Name], asked: str, what: str) -> list[Name]:
    """The array with this path, else all with this name in any folder or split. Raises UsageError if there is none."""
    exact = [name for name in names if name.path == asked]
    inner = [name for name in names if name.path.endswith("/" + asked) or (name.core == asked and name.split)]
    if not (exact or inner):
        raise unknown_name(what, asked, real_names(names))
    return exact or inner


def _in_groups(scores: Sequence[Name], groups: Sequence[str]) -> list[Name]:
    kept: dict[Name, None] = {}
    for group in groups:
        wanted = f"/{group.strip('/')}/"
        inside = [
            name
            for name in scores
            if any(wanted in f"/{'/'.join((*name.folder, *core, name.split))}/" for core in ((name.core,), ()))
        ]
        if not inside:
            raise unknown_name("group", group, {"/".join((*n.folder, n.split)).strip("/") or n.core for n in scores})
        kept |= dict.fromkeys(inside)
    return list(kept)


def _model_names(scores: Sequence[Name]) -> list[str]:
    """Names of the models: folders without their common beginning, with the arrays' names where one has several."""
    by_core = len({(name.folder, name.core) for name in scores}) > len({name.folder for name in scores})
    paths = [(*name.folder, name.core) if by_core else name.folder for name in scores]
    common = 0
    while common < len(paths[0]) and len({path[: common + 1] for path in paths}) == 1:
        common += 1
    return ["/".join(map(group_name, path[common:])) for path in paths]


def group_name(part: str) -> str:
    """A valid part of a group's name, with _ for colons (FILE.h5:GROUP) and slashes. Characters that HDF5 cannot store
    in a name are escaped."""
    part = part.encode("utf-8", "backslashreplace").decode().replace("\0", "_")
    return part.strip().replace(":", "_").replace("/", "_").strip(".") or "unnamed"


def _companion(
    score: Name, among: Sequence[Name], *, any_model: bool = False, any_split: bool = False, only: bool = False
) -> str | None:
    """Path of the array that belongs to these scores, nearest folder first. only : UsageError where several fit."""
    splits = (score.split, "") if any_split else (score.split,)
    for depth in range(len(score.folder), -1, -1):
        for split in splits:
            here = [name for name in among if name.folder == score.folder[:depth] and name.split == split]
            for model in dict.fromkeys((score.model, score.core, "")):
                equal = [name.path for name in here if name.model == model]
                if only and len(equal) > 1:
                    raise UsageError(f"{', '.join(equal)} could all be labels of {score.path!r}; choose with --labels")
                if equal:
                    return equal[0]
            if any_model and here:
                return here[0].path
    return among[0].path if any_model and len(among) == 1 else None


def extra_of(score: Name, names: Sequence[Name], role: str) -> str | None:
    among = [name for name in names if name.role == role]
    return _companion(score, among, any_split=role in ("class_names", "specs"))
