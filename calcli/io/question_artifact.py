"""The calibrator of a log of decisions: a complete calibrator for every question.

On disk it is one artifact, method ``by-question``, whose ``params.questions`` holds for
every question what an artifact holds, its type, and the formula of ``confidence``.
``FILE:QUESTION`` names the calibrator of one question wherever an artifact is read.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, overload

import msgspec

from calcli import __version__
from calcli.decisions.calibrate import AnswerCalibrator
from calcli.decisions.wire_confidence import FORMULAS
from calcli.errors import DataError
from calcli.io.artifact import FORMAT, LARGEST, Artifact, FitRecord, loads
from calcli.io.artifact import load as load_one
from calcli.io.artifact_params import encode_params, shown
from calcli.io.atomic import write_bytes
from calcli.io.inputs import at_most, open_document
from calcli.io.locate import split_where, unique_groups
from calcli.number_words import noun

METHOD = "by-question"
WHAT = "a calibrator written by calcli fit"
MOST_LISTED = 8


class QuestionMap(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The calibrator of one question as it stands in the file.

    n_classes, class_names : null where the options differ from row to row. confidence :
    name of the formula of the field ``confidence``; null where none is proven.
    """

    type: Literal["yes/no", "choice", "score"]
    method: str
    options: dict[str, Any]
    params: dict[str, Any]
    n_classes: int | None
    class_names: list[str] | None
    input_kind: Literal["probs", "log_probs"]
    confidence: str | None
    fit: FitRecord

    def artifact(self, where: str) -> Artifact:
        """The calibrator as an artifact of its own. Raises DataError."""
        content = {
            "calcli_artifact": FORMAT,
            "calcli_version": __version__,
            "method": self.method,
            "options": self.options,
            "params": self.params,
            "n_classes": 2 if self.n_classes is None else self.n_classes,
            "input_kind": self.input_kind,
            "class_names": self.class_names,
            "fit": msgspec.to_builtins(self.fit),
        }
        artifact = loads(json.dumps(content), where)
        artifact.of_options = self.n_classes is None
        return artifact


class _Params(msgspec.Struct, forbid_unknown_fields=True):
    questions: dict[str, QuestionMap]


class QuestionsArtifact(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The JSON object on disk."""

    calcli_artifact: int = FORMAT
    calcli_version: str = __version__
    method: Literal["by-question"] = "by-question"
    options: dict[str, Any] = {}
    params: _Params
    n_classes: None = None
    input_kind: Literal["probs"] = "probs"
    class_names: None = None
    fit: FitRecord

    @classmethod
    def of(
        cls, questions: Mapping[str, QuestionMap], fit: FitRecord
    ) -> "QuestionsArtifact":
        return cls(params=_Params(dict(questions)), fit=fit)

    @property
    def questions(self) -> Mapping[str, QuestionMap]:
        """The calibrators by question."""
        return self.params.questions

    @property
    def answers(self) -> AnswerCalibrator:
        """The maps as they calibrate records. Its name is set by who writes them."""
        entries = msgspec.to_builtins(self.params.questions)
        return AnswerCalibrator.of(entries, METHOD)

    def map_of(self, question: str, where: str) -> QuestionMap:
        """Calibrator of a question, named so or by its group in a file of bundles.

        Raises DataError for an unknown one.
        """
        if question in self.questions:
            return self.questions[question]
        for name, group in unique_groups(self.questions).items():
            if group == question:
                return self.questions[name]
        listing = ", ".join(map(shown, list(self.questions)[:MOST_LISTED]))
        raise DataError(
            f"{where}: has no calibrator for question {shown(question)}, it has"
            f" {listing}; fit one to a log with this question"
        )


def map_of_artifact(
    artifact: Artifact,
    type: Literal["yes/no", "choice", "score"],
    confidence: str | None,
    *,
    is_of_options: bool,
) -> QuestionMap:
    """The entry of a question for a calibrator that was fitted to its rows."""
    return QuestionMap(
        type=type,
        method=artifact.method,
        options=artifact.options,
        params=encode_params(artifact.calibrator),
        n_classes=None if is_of_options else artifact.n_classes,
        class_names=artifact.class_names,
        input_kind="log_probs" if is_of_options else "probs",
        confidence=confidence,
        fit=artifact.fit,
    )


def dumps(artifact: QuestionsArtifact) -> str:
    """Write it as JSON text: a line for each question, deterministic."""
    content = msgspec.to_builtins(artifact)
    questions = content["params"].pop("questions")
    lines = []
    for name, question in questions.items():
        lines.append(f"    {_json(name)}: {_json(question)}")
    inner = '{"questions": {\n' + ",\n".join(lines) + "\n  }}"
    texts = {key: _json(value) for key, value in content.items()}
    texts["params"] = inner
    fields = [f'  "{key}": {text}' for key, text in texts.items()]
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def save(artifact: QuestionsArtifact, path: str, *, force: bool = False) -> None:
    """Write the file; ``-`` is standard output. Raises UsageError."""
    if path == "-":
        print(dumps(artifact), end="")
        return
    write_bytes(Path(path), dumps(artifact), force=force)


def is_by_question(text: bytes) -> bool:
    """True for the text of a calibrator by question."""
    return b'"by-question"' in text[:4096]


def loads_questions(data: bytes, where: str) -> QuestionsArtifact:
    """Read a calibrator by question. Raises DataError."""
    try:
        artifact = msgspec.json.decode(data, type=QuestionsArtifact)
    except msgspec.DecodeError as problem:
        raise DataError(f"{where}: is no valid artifact: {problem}") from None
    if artifact.calcli_artifact != FORMAT:
        raise DataError(
            f"{where}: artifact format {artifact.calcli_artifact} is not known; upgrade"
            " calcli"
        )
    if not artifact.questions:
        raise DataError(f"{where}: is no valid artifact: it has no questions")
    for name, question in artifact.questions.items():
        question.artifact(f"{where}:{name}")  # raises for parameters that do not work
        if question.confidence not in (None, *FORMULAS):
            message = f"confidence of {shown(name)} is {shown(question.confidence)}"
            known = ", ".join(FORMULAS)
            raise DataError(f"{where}: {message}, expected null or one of {known}")
    return artifact


def read_questions(path: str) -> QuestionsArtifact | None:
    """The calibrator by question in a file; None for any other file.

    Raises DataError for a broken one.
    """
    if path == "-" or not os.path.isfile(path):
        return None
    with open_document(path, WHAT) as file:
        head = file.read(4096)
        if not is_by_question(head):
            return None
        data = head + at_most(file, LARGEST - len(head))
    return loads_questions(data, path)


def is_file_by_question(path: str) -> bool:
    """True for the file of a calibrator by question."""
    if path == "-" or not os.path.isfile(path):
        return False
    with open_document(path, WHAT) as file:
        return is_by_question(file.read(4096))


def load(path: str) -> Artifact:
    """Read an artifact: a file, or ``FILE:QUESTION`` of one by question.

    Raises DataError, also for a file by question where none is named.
    """
    file, colon, question = split_question(path)
    if colon:
        artifact = read_questions(file)
        if artifact is None:
            load_one(file)  # refuses what is no calibrator, such as a file of scores
            raise DataError(
                f"{file}: is no calibrator by question; name it without a question"
            )
        return artifact.map_of(question, file).artifact(path)
    whole = read_questions(path)
    if whole is None:
        return load_one(path)
    listing = ", ".join(
        f"{path}:{name}" for name in list(whole.questions)[:MOST_LISTED]
    )
    n = len(whole.questions)
    raise DataError(
        f"{path}: holds a calibrator for each of {n} {noun(n, 'question')}, name"
        f" one of: {listing}"
    )


def split_question(path: str) -> tuple[str, str, str]:
    """File, colon and question of ``FILE:QUESTION``; no colon for a plain file."""
    if path == "-" or ":" not in path or os.path.exists(path):
        return path, "", ""
    for place, character in enumerate(path):
        if character == ":" and os.path.isfile(path[:place]):
            return path[:place], ":", path[place + 1 :]
    return path, "", ""


@overload
def load_for(path: str, bundle: str) -> Artifact: ...


@overload
def load_for(path: str | None, bundle: str) -> Artifact | None: ...


def load_for(path: str | None, bundle: str) -> Artifact | None:
    """The artifact of a file; of one by question that of the bundle's question.

    None for no file. bundle : name of the rows, ``LOG:QUESTION``. Raises DataError.
    """
    if path is None:
        return None
    group = split_where(bundle)[1]
    if group is not None and is_file_by_question(path):
        return load(f"{path}:{group}")
    return load(path)
