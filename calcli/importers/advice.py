"""What to type: the command that settles how the arrays of a source are read.

A refusal on reading ends with a command that works as pasted, or with the reason why
there is none. The command has the reading that the names and values suggest most,
spelled out in options; it was not certain enough to be taken without them.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import CalcliError, DataError, NotToRead
from calcli.importers.column_options import option_for, some_of
from calcli.importers.evidence import (
    PERCENTAGES,
    agreement,
    class_indices,
    kind_of_scores,
)
from calcli.importers.import_request import ImportRequest
from calcli.importers.labels import GRADES
from calcli.importers.looks import (
    KIND_OF_LOOK,
    MOST_GROUPS,
    VALUES_SEEN,
    Look,
    kind_by_range,
    likely_unit,
    looks_like,
    without_empty,
)
from calcli.importers.names import (
    LEFT_OVER,
    headers_path,
    is_answer,
    is_bare_answer,
    is_prediction,
    parse_name,
    real_names,
    says_correct,
    sounds_sure,
)
from calcli.importers.table import Columns
from calcli.io.locate import columns_in
from calcli.numerics import AnyArray

MOST_COLUMNS = 40
"""Columns that are looked at."""

MOST_LISTED = 8
"""Columns that a message lists; ``calcli inspect`` lists all."""

MOST_GROUP_OPTIONS = 2
"""Columns of groups that a command names."""

FEW_GROUPS = 20
"""Most distinct values of a column that a command names as groups."""

NO_COMMAND = " (no command is proposed)"

MOST_MODELS = 2
"""Scores of a model each, up to which each gets a command; else the first."""

SHARE_OF_ANSWERS = 0.05
"""Rows of a text that equal the label, from which the text is an answer to it."""

NAMING = ("--scores", "--labels", "--kind")
COLUMN_OPTIONS: dict[Look, str] = {
    "ids": "--ids",
    "units": "--unit",
    "groups": "--group-by",
    "weights": "--sample-weight",
}

SINGLE_VALUES = (
    "kind",
    "normalize",
    "confidence",
    "correct",
    "ids",
    "unit",
    "sample_weight",
    "class_names",
    "gold",
)
SEVERAL_VALUES = ("scores", "labels", "group_by")
SWITCHES = ("percent", "drop_missing", "drop_duplicates", "per_label")
"""Options that a proposed command may have, by the number of their values."""

NOT_NAMES = (("scores", "*", "all_scores"), ("labels", "none", "no_labels"))
"""Options, values of these that are no names of arrays, and what is asked for then."""

SINGLE_OPTION = re.compile(
    r"--percent|--drop-missing|--drop-duplicates|--per-label(?= reads)"
    r"|--kind (?:logits|log_probs|probs)(?= if)|--ignore-label -?\d+(?:\.\d+)?"
    r"|(?<=of the classes: )--scores .+|--normalize sum(?=\))"
)
"""Options that a message may advise to add to the command."""

Option = tuple[str, ...]


def with_option(
    problem: CalcliError, request: ImportRequest, columns: Columns, where: str
) -> CalcliError:
    """The error, with the complete command if its message advises a single option.

    An option that was given, and is advised against, is left out. The command names
    the units, too, if they are likely.
    """
    match = SINGLE_OPTION.search(str(problem))
    if problem.commands or match is None:
        return problem
    option = tuple(shlex.split(match[0]))
    kept = tuple(group for group in request.typed if group != option)
    added: list[Option] = [] if option in request.typed else [option]
    unit = _unit_to_propose(request, columns)
    if unit is not None:
        added.append(("--unit", unit))
    return problem.advising(replace(request, typed=kept).command(where, added))


def _unit_to_propose(request: ImportRequest, columns: Columns) -> str | None:
    """Column that looks like units, where none is known; None without any.

    A column with a role of its own, such as the ids, is read without being named.
    """
    names = [parse_name(path) for path in columns]
    if "unit" in request.named or any(name.role == "unit" for name in names):
        return None
    free = [name for name in names if not name.role]
    return likely_unit({path: columns[path] for path in real_names(free)})


def with_command(
    problem: CalcliError, columns: Columns, request: ImportRequest, where: str
) -> CalcliError:
    """The error, with a guess at each array and the command that reads them so."""
    guesses = _Guesses(columns, request)
    described = f"; it has {guesses.listing()}"
    if not guesses.looks:
        reason = "as nothing looks like scores or labels"
        return problem.advising(more=f"{described}; no command is proposed, {reason}")
    if isinstance(problem, NotToRead):
        return problem.advising(more=f"{described}; no command reads it as it is")
    if "," in where and not (request.join and request.typed):
        return problem.advising(more=described)
    proposal = guesses.proposal()
    if isinstance(proposal, str):
        commands = guesses.command_of_each_model(where)
        if commands:
            message = f"{where}: {guesses.models()}"
            return type(problem)(message).advising(*commands)
        if problem.commands:
            return problem.advising(more=described)
        if "calcli extract" in problem.advice:
            proposal = proposal.removesuffix(NO_COMMAND)
        return problem.advising(more=f"{described}; {proposal}")
    typed = replace(request, typed=request.typed or ((where,),))
    if guesses.are_percentages and ("--percent",) not in typed.typed:
        typed = replace(typed, typed=(*typed.typed, ("--percent",)))
    if proposal.has_confidences:
        typed = typed.without(NAMING)
    options = [*proposal.options, *guesses.column_options(proposal, typed)]
    return problem.advising(typed.command(where, options), more=described)


@dataclass(frozen=True)
class Proposal:
    """Options that name the scores and the labels, or a confidence and its outcome.

    used : columns that they name. n_rows : of the labels, None if unknown.
    """

    options: Sequence[Option]
    used: frozenset[str]
    n_rows: int | None
    has_confidences: bool = False


# ---- whether a command works


@dataclass(frozen=True)
class ProposedImport:
    """What a proposed command asks for: a request, and further labels to ignore."""

    request: ImportRequest
    ignored: Sequence[float]


def proposed_import(
    command: Sequence[str], request: ImportRequest
) -> ProposedImport | None:
    """What a command of ``calcli extract`` asks for; None for other commands."""
    if tuple(command[:2]) != ("calcli", "extract") or "--model" in command:
        return None
    changes: dict[str, Any] = {"no_labels": False}
    ignored: list[float] = []
    words = iter(command[2:])
    for word in filter(_is_option, words):
        field = word.removeprefix("--").replace("-", "_")
        if field == "ignore_label":
            ignored.append(float(next(words)))
        elif field in SINGLE_VALUES:
            changes[field] = next(words)
        elif field in SEVERAL_VALUES:
            changes[field] = (*changes.get(field, ()), next(words))
        elif field in SWITCHES:
            changes[field] = True
    for field, word, switch in NOT_NAMES:
        if changes.get(field) == (word,):
            changes |= {field: (), switch: True}
    if request.typed or "confidence" in changes:  # the command says all of it
        request = replace(
            request, scores=(), labels=(), kind=None, confidence=None, correct=None
        )
    return ProposedImport(replace(request, **changes), ignored)


def _is_option(word: str) -> bool:
    return word.startswith("--")


def with_advised_option(problem: CalcliError, refusal: CalcliError) -> CalcliError:
    """The error, its command with the option that its refusal advises; else as it is.

    The command still ends with its output, if it did.
    """
    command = problem.commands[0]
    match = SINGLE_OPTION.search(refusal.message)
    if match is None or match[0].split()[0] in command:
        return problem
    end = len(command) - 2 if command[-2] == "-o" else len(command)
    return problem.advising((*command[:end], *shlex.split(match[0]), *command[end:]))


def without_commands(problem: CalcliError, reason: str) -> CalcliError:
    """The error without its command, and why there is none, unless it says that itself."""
    message = problem.message
    if not message.startswith(reason.removesuffix("…")):
        message += f"; no command is proposed, it would end in: {reason}"
    return type(problem)(message, advice=problem.advice)


# ---- guesses


def _are_intersections(path: str, columns: Columns) -> bool:
    """True for the array that --group-by has made of several other columns."""
    if columns[path].attributes.get("is_generated"):  # an array of scores
        return False
    parts = columns_in(columns[path].shown)
    return len(parts) > 1 and all(part in columns for part in parts)


class _Guesses:
    """Guesses at the arrays of a source, and what follows from them."""

    def __init__(self, columns: Columns, request: ImportRequest) -> None:
        self.columns = columns
        self.request = request
        names = [parse_name(path) for path in columns]
        paths = [path for path in real_names(names) if "/" not in path]
        single = [path for path in paths if not _are_intersections(path, columns)]
        self.paths = single[:MOST_COLUMNS]
        self.looks: dict[str, Look] = {}
        self.has_percent_columns = False
        for path in self.paths:
            look = looks_like(path, columns[path])
            if look:
                self.looks[path] = look
        self._mark_classes_of_matrix()
        self._find_scores()
        self._find_labels()

    @property
    def are_percentages(self) -> bool:
        return self.has_percent_columns or self._look_of_scores() == "percentages"

    def listing(self) -> str:
        """The first arrays, with the guess at each, and how many more there are."""
        shown = []
        for path in self.paths:
            name = self.columns[path].shown
            look = self.looks.get(path)
            shown.append(f"{name} ({look}?)" if look else name)
        left = len(shown) - MOST_LISTED
        if left > 0:
            shown = [*shown[:MOST_LISTED], f"{left} more"]
        return ", ".join(shown) or "nothing"

    def values(self, path: str) -> AnyArray | None:
        """All values of a column, empty cells as NaN or no text; None where they cannot be read."""
        try:
            values = self.columns[path].rows(slice(None))
        except DataError:
            return None
        is_column = values.ndim == 2 and values.shape[1] == 1
        return values[:, 0] if is_column else values

    def _present(self, path: str) -> AnyArray | None:
        """The values that are not empty; None where they cannot be read."""
        values = self.values(path)
        return None if values is None else without_empty(values)

    def _words(self, path: str) -> list[object]:
        """Distinct values of a column."""
        values = self._present(path)
        return [] if values is None else np.unique(values).tolist()

    def _of_look(self, look: Look) -> list[str]:
        """Columns of this look that are no parts of an array."""
        parts = set(chain(*(self.columns[path].parts for path in self.paths)))
        for path in self.paths:
            number = re.compile(re.escape(path) + r"[_.]?\d+")
            parts |= {other for other in self.paths if number.fullmatch(other)}
        paths = []
        for path, other in self.looks.items():
            if other == look and path not in parts:
                paths.append(path)
        return paths

    # -- the scores

    def _mark_classes_of_matrix(self) -> None:
        """Tell labels from predictions among words that are classes."""
        wide = list(self.request.scores) or [
            path for path in self.looks if headers_path(path) in self.columns
        ]
        if len(wide) != 1 or headers_path(wide[0]) not in self.columns:
            return
        scores = self.columns[wide[0]].load()[:VALUES_SEEN]
        if scores.ndim != 2:
            return
        names = self.columns[headers_path(wide[0])].values().tolist()
        for path, look in list(self.looks.items()):
            values = self.values(path) if look == "groups" else None
            if values is None:
                continue
            indices = class_indices(values[:VALUES_SEEN], len(names), names)
            if indices is None or len(indices) != len(scores):
                continue
            always_largest = agreement(scores, indices).share == 1
            is_predicted = is_prediction(path) or always_largest
            self.looks[path] = "predictions" if is_predicted else "labels"

    def _find_scores(self) -> None:
        self.scores = list(self.request.scores)
        self.kind = self.request.kind
        self.labels = list(self.request.labels)
        if not self.scores and not self.labels:
            self._take_first_pair()
        if self.scores:
            self._take_kind_of_look()
            return
        for look, kind in KIND_OF_LOOK.items():
            candidates = self._of_look(look)  # type: ignore[arg-type]
            if candidates:
                named_sure = [path for path in candidates if sounds_sure(path)]
                self.scores = named_sure or candidates
                self.kind = self.kind or kind
                break
        self._take_columns_named_by_labels()
        if len(self.scores) != 1:
            self._take_left_over()
        self._take_kind_of_look()

    def _take_first_pair(self) -> None:
        """The first column of scores that has an outcome of its own."""
        for path in self.paths:
            scores = self.columns[path].attributes.get("labels_of")
            if scores is not None:
                self.scores, self.labels = [scores], [path]
                return

    def _take_columns_named_by_labels(self) -> None:
        """Columns that are called as the words of one column are its classes."""
        for path in (*self._of_look("groups"), *self._of_look("labels")):
            words = self._words(path)
            members = [name for name in self.paths if name in words]
            if len(members) == len(words) > 1:
                self.scores = [option_for(self.paths, members)]
                self.labels = [path]
                self.looks |= dict.fromkeys(members, "scores")
                self.looks[path] = "labels"
                self.kind = self.kind or self._kind_of_columns(members)

    def _take_left_over(self) -> None:
        """Several columns whose rows sum to 1, or all of one prefix."""
        left_over: list[str] = []
        if LEFT_OVER in self.columns:
            left_over = list(self.columns[LEFT_OVER].parts)
        for members in (self.scores, left_over):
            if len(members) < 2 or not left_over:
                continue
            kind = self._kind_of_columns(members)
            prefixes = {name.partition("_")[0] for name in members}
            has_one_prefix = members is left_over and len(prefixes) == 1
            if kind == "probs" or (kind and has_one_prefix):
                self.scores = [",".join(members)]
                self.kind = self.kind or kind
                return

    def _kind_of_columns(self, members: Sequence[str]) -> str | None:
        """Kind by the range of all columns; None if these are no numbers."""
        values = [self.values(name) for name in members]
        flat = [array for array in values if array is not None and array.ndim == 1]
        if len(flat) < len(members) or len({len(array) for array in flat}) != 1:
            return None
        if any(array.dtype.kind not in "biuf" for array in flat):
            return None
        scores = without_empty(np.stack(flat, axis=1).astype(np.float64))
        if not len(scores):
            return None
        if kind_of_scores(scores).reason == PERCENTAGES:
            self.has_percent_columns = True
            return "probs"
        return KIND_OF_LOOK.get(kind_by_range(scores))

    def _take_kind_of_look(self) -> None:
        if self.scores and not self.kind:
            self.kind = KIND_OF_LOOK.get(self.looks.get(self.scores[0], ""))

    def _look_of_scores(self) -> Look:
        """Look of the one column of scores; "" for several."""
        return self.looks.get(self.scores[0], "") if self._is_single() else ""

    def _is_single(self) -> bool:
        """True for one score a row."""
        if len(self.scores) != 1 or self.scores[0] not in self.columns:
            return False
        values = self.values(self.scores[0])
        return values is not None and values.ndim == 1

    # -- the labels

    def _n_classes(self) -> int:
        if self._is_single() or not self.scores:
            return 2
        if self.scores[0] in self.columns:
            values = self.values(self.scores[0])
            return 2 if values is None else values.shape[-1]
        return self.scores[0].count(",") + 1

    def _find_labels(self) -> None:
        labels = self.labels or self._named_labels() or self._of_look("labels")
        self._words_of: dict[str, list[object]] = {}
        for path in dict.fromkeys([*self._of_look("groups"), *labels]):
            if path in self.columns:
                self._words_of[path] = self._words(path)
        self.labels = labels or self._labels_by_values()
        if len(self.labels) == 1 and self.labels[0] in self.paths:
            self.looks[self.labels[0]] = "labels"

    def _named_labels(self) -> list[str]:
        """Columns whose names say that they are labels."""
        named = [path for path in self.paths if parse_name(path).role == "labels"]
        if not named and self._is_single():
            named = [path for path in self.paths if is_answer(parse_name(path).core)]
        # beside a key of the right answers, a column "answer" holds those of the model
        keys = [path for path in named if not is_bare_answer(path)]
        return keys or named

    def _labels_by_values(self) -> list[str]:
        """Columns with as many classes as the scores: of words, if one alone; numbers."""
        k = self._n_classes()
        numbered = []
        for path in self._of_look("classes"):
            values = self._present(path)
            if values is not None and values.max() < k:
                numbered.append(path)
        of_words = []
        for path, words in self._words_of.items():
            if words and len(words) <= k:
                of_words.append(path)
        if len(of_words) == 1 and len(numbered) != 1:
            return of_words
        return numbered

    # -- the command

    def proposal(self) -> Proposal | str:
        """Options that read the arrays as guessed, or the reason why there are none."""
        if not self.scores:
            return f"none of these looks like scores{NO_COMMAND}"
        if len(self.scores) > 1:
            return f"several may be the scores{NO_COMMAND}"
        outcome = self._outcome() if self._is_single() else _Outcome([], False)
        look = self._look_of_scores()
        is_probability = KIND_OF_LOOK.get(look) == "probs"
        if len(self.labels) > 1:
            return f"several may be the labels{NO_COMMAND}"
        if outcome.columns and is_probability:
            named = outcome.columns[0]
            options = (("--confidence", self.scores[0]), ("--correct", named))
            used = frozenset({self.scores[0], *named.split("=")})
            return Proposal(options, used, self._length(named.partition("=")[0]), True)
        is_lone_margin = look == "log-odds" and not self.labels
        if (outcome.is_confidence and not outcome.columns) or is_lone_margin:
            return f"nothing says which answers are right{NO_COMMAND}"
        if not self.labels:
            return f"none of these looks like labels{NO_COMMAND}"
        if not self.kind:
            return f"the values do not tell the kind{NO_COMMAND}"
        label = self.labels[0]
        named_options = [("--scores", self.scores[0]), ("--labels", label)]
        named_options.append(("--kind", self.kind))
        used = frozenset({self.scores[0], label, *self.scores[0].split(",")})
        return Proposal(named_options, used, self._length(label))

    def command_of_each_model(self, where: str) -> list[tuple[str, ...]]:
        """Commands that read columns of scores apart, each into a file of its own.

        Of many models, that of the first alone. Empty where they do not look like the
        scores of a model each.
        """
        if len(self.scores) < 2 or self.request.scores:
            return []
        paths = self.scores
        if len(paths) > MOST_MODELS:
            if not all(map(self._has_classes, paths)):
                return []
            paths = paths[:1]
        commands = []
        for path in paths:
            request = replace(self.request, scores=(path,))
            proposal = _Guesses(self.columns, request).proposal()
            if isinstance(proposal, str):
                return []
            command = self.request.without(NAMING).command(where, proposal.options)
            output = Path(command[-1])
            name = re.sub(r"[^\w-]+", "_", self.columns[path].name)
            own_output = output.with_suffix(f".{name}{output.suffix}")
            commands.append((*command[:-1], str(own_output)))
        return commands

    def models(self) -> str:
        """Several arrays of scores in words, with the option that reads all of them."""
        if len(self.scores) <= MOST_MODELS:
            return f"{' and '.join(self.scores)} are scores of a model each"
        count = f"{len(self.scores)} arrays of scores side by side"
        message = f"holds {count}: {some_of(self.scores)}; choose one"
        if all(parse_name(path).role == "scores" for path in self.scores):
            message += "; calcli extract --scores '*' takes all"
        return message

    def _has_classes(self, path: str) -> bool:
        """True for an array with several numbers a row."""
        values = self.values(path)
        return values is not None and values.ndim == 2 and values.shape[1] > 1

    def _length(self, path: str) -> int | None:
        values = self.values(path) if path in self.columns else None
        return None if values is None else len(values)

    def _outcome(self) -> "_Outcome":
        """Values for ``--correct`` beside one score a row."""
        outcomes = list(filter(says_correct, self.labels))
        outcomes = outcomes or list(filter(says_correct, self.paths))
        outcomes = outcomes or list(filter(self._is_graded, self.labels))
        n_words = [len(self._words_of.get(path, ())) for path in self.labels]
        has_several = max(n_words, default=0) > 2
        is_confidence = has_several or self._is_never_below_half()
        may_be_confidence = is_confidence or sounds_sure(
            self.columns[self.scores[0]].name
        )
        if not outcomes and may_be_confidence and len(self.labels) == 1:
            outcomes = self._predictions_of(self.labels[0])
        return _Outcome(outcomes, is_confidence)

    def _predictions_of(self, label: str) -> list[str]:
        """``PREDICTION=LABEL`` for each column of predictions of a label."""
        known = set(self._words_of.get(label, ()))
        predictions = []
        for path in self.paths:
            words = self._words_of.get(path, [])
            has_its_words = words and isinstance(words[0], str) and set(words) <= known
            is_answer_to_it = has_its_words or self._often_equals(path, label)
            if path != label and (is_prediction(path) or is_answer_to_it):
                predictions.append(f"{path}={label}")
        return predictions

    def _often_equals(self, path: str, label: str) -> bool:
        """True for texts that are those of the label on many rows: free answers."""
        texts = self.values(path)
        keys = self.values(label)
        if texts is None or keys is None or len(texts) != len(keys):
            return False
        if texts.dtype.kind != "U" or keys.dtype.kind != "U":
            return False
        are_equal = (texts == keys) & (keys != "")
        return bool(are_equal.mean() >= SHARE_OF_ANSWERS)

    def _is_graded(self, path: str) -> bool:
        """True for a column of right and wrong."""
        words = {str(word).lower() for word in self._words_of.get(path, ())}
        if any(words == set(pair) for pair in GRADES):
            return True
        parts = re.split(r"[\W_]+", path)
        return len(words) == 2 and any(map(says_correct, parts))

    def _is_never_below_half(self) -> bool:
        look = self._look_of_scores()
        values = self._present(self.scores[0])
        if KIND_OF_LOOK.get(look) != "probs" or values is None:
            return False
        half = 50 if look == "percentages" else 0.5
        return bool((values >= half).all())

    def column_options(
        self, proposal: Proposal, request: ImportRequest
    ) -> list[Option]:
        """Options that name ids, units, groups and weights."""
        typed = set(chain(*request.typed))
        options: list[Option] = []
        for look, option in COLUMN_OPTIONS.items():
            if option in typed:
                continue
            paths = []
            for path in self._of_look(look):
                if (
                    path not in proposal.used
                    and path not in typed
                    and proposal.n_rows in (None, self._length(path))
                ):
                    paths.append(path)
            if look == "groups":
                paths = [path for path in paths if self._may_be_groups(path)]
                paths = paths[:MOST_GROUP_OPTIONS]
            elif len(paths) > 1:
                continue
            options += [(option, path) for path in paths]
        return options

    def _may_be_groups(self, path: str) -> bool:
        """True for few values that are not the classes."""
        words = self._words(path)
        known: set[object] = set()
        for label in self.labels:
            known.update(self._words_of.get(label, ()))
        return len(words) <= min(FEW_GROUPS, MOST_GROUPS) and not set(words) <= known


@dataclass(frozen=True)
class _Outcome:
    """Columns of correctness, or ``PREDICTION=LABEL``.

    is_confidence : the score can only be the confidence of a prediction: it is never
    below 1/2, or there are more than two classes.
    """

    columns: Sequence[str]
    is_confidence: bool
