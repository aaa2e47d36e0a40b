"""Propose how the arrays of a source are read: scores, labels, kind, ids and so on.

Names come first (``names``), then what all values prove (``evidence``), each with its
reason. What neither tells is refused, with the command that settles it (``advice``).
"""

from collections.abc import Sequence

from calcli.errors import UsageError, unknown_name
from calcli.importers.arranging.padded_options import under_names_in_memory
from calcli.importers.evidence.blocks import blocks
from calcli.importers.evidence.kinds import KindEvidence
from calcli.importers.evidence.orientation import refuse_classes_first
from calcli.importers.evidence.signs import sign_of
from calcli.importers.evidence.source_arrays import Arrays
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.array_names import Name, is_generated, matching
from calcli.importers.names.common_text import n_common_parts
from calcli.importers.names.roles import ARRAY_ROLES, may_be_scores
from calcli.importers.proposing.label_search import Label, LabelSearch, extra_of
from calcli.importers.proposing.named_scores import scores_by_name
from calcli.importers.proposing.score_refusals import (
    refuse_detections,
    refuse_lone_confidence,
    refuse_outcomes_as_labels,
    refuse_side_by_side,
    without_scores,
)
from calcli.importers.proposing.unnamed_scores import with_unnamed_scores
from calcli.importers.reading import Reading
from calcli.io.locate import group_name
from calcli.io.validate import score_kind
from calcli.metrics.label_agreement import REVERSED


def propose(arrays: Arrays, request: ImportRequest, where: str) -> list[Reading]:
    """Say how the arrays of a source are read: a bundle per array of scores.

    where : the source, for messages. Raises UsageError for names that do not exist and
    where the kind is unknown, DataError where scores or labels are.
    """
    refuse_lone_confidence(arrays, request, where)
    refuse_detections(arrays, request, where)
    are_named = bool(request.scores)
    request = under_names_in_memory(request, arrays.columns)
    request = with_unnamed_scores(arrays, request, where)
    refuse_outcomes_as_labels(request, where)
    scores = scores_by_name(arrays, request, where)
    if not scores:
        raise without_scores(arrays, where)
    labels = []
    for wanted in request.labels:
        labels.append(matching(arrays.names, wanted, "labels array", where))
    if request.groups:
        scores = _in_groups(scores, request.groups)
    if not (request.scores or request.all_scores):
        refuse_side_by_side(scores, where)
    readings = []
    for number, (score, model) in enumerate(
        zip(scores, _model_names(scores), strict=True)
    ):
        search = LabelSearch(arrays, score, scores, request, where)
        label = search.named(labels, number) or search.proven()
        if label is None and not request.no_labels:
            raise search.refusal()
        kind = _kind_of(score, label, arrays, request.kind, where, are_named)
        readings.append(
            Reading(
                model=model,
                split=score.split,
                kind=kind.kind or "",
                scores=score.path,
                labels=label.path if label else None,
                extras=_extras_of(score, arrays),
                reasons={
                    "scores": kind.reason,
                    "labels": label.reason if label else "",
                },
                columns=arrays.columns,
            )
        )
    _refuse_one_name(readings, where)
    return readings


def _extras_of(score: Name, arrays: Arrays) -> dict[str, str]:
    """Paths of the arrays beside scores and labels, by role."""
    extras = {}
    for role in ARRAY_ROLES:
        path = extra_of(score, arrays.names, role)
        if role != "labels" and path:
            extras[role] = path
    return extras


def _in_groups(scores: Sequence[Name], groups: Sequence[str]) -> list[Name]:
    """The scores within the folders, splits or names that ``--part`` lists."""
    kept: dict[Name, None] = {}
    for group in groups:
        wanted = f"/{group.strip('/')}/"
        inside = []
        for name in scores:
            if any(wanted in place for place in _places(name)):
                inside.append(name)
        if not inside:
            known = set()
            for name in scores:
                known.add("/".join((*name.folder, name.split)).strip("/") or name.core)
            raise unknown_name("part", group, known)
        kept |= dict.fromkeys(inside)
    return list(kept)


def _places(name: Name) -> list[str]:
    """Folder and split of an array, with and without its name."""
    with_core = "/".join((*name.folder, name.core, name.split))
    without = "/".join((*name.folder, name.split))
    return [f"/{with_core}/", f"/{without}/"]


def _refuse_one_name(readings: Sequence[Reading], where: str) -> None:
    names = [reading.name for reading in readings]
    for name in names:
        if names.count(name) > 1:
            group = repr(name) if name else "at the root"
            raise UsageError(
                f"{where}: two arrays of scores would both become the group {group}"
            )


def _model_names(scores: Sequence[Name]) -> list[str]:
    """Names of the models: folders without their common beginning.

    Where a folder has several arrays, the names of these are added.
    """
    folders = {name.folder for name in scores}
    has_several = len({(name.folder, name.core) for name in scores}) > len(folders)
    paths = []
    for name in scores:
        paths.append((*name.folder, name.core) if has_several else name.folder)
    n_common = n_common_parts(paths)
    return ["/".join(map(group_name, path[n_common:])) for path in paths]


# ---- the kind of the scores


def _kind_of(
    score: Name,
    label: Label | None,
    arrays: Arrays,
    declared: str | None,
    where: str,
    are_named: bool,
) -> KindEvidence:
    """Kind that is declared, named, or proven by all values.

    are_named : the user has named the scores. Raises UsageError.
    """
    if declared or score.kind:
        return KindEvidence(score_kind(declared or score.kind), "")
    proof = KindEvidence(None, "its values cannot be read")
    if arrays.is_float(score.path):
        proof = arrays.kind(score.path)
    if proof.kind in ("probs", "log_probs"):
        return proof
    if proof.kind and (are_named or _are_scores(score, label, arrays)):
        return proof
    if label is not None:
        scores = arrays.load(score.path)
        labels = arrays.load(label.path)
        if scores is not None and labels is not None:  # else they cannot be read
            shape = tuple(scores.shape)
            refuse_classes_first(shape, tuple(labels.shape), f"{where}: {score.path}")
    what = f"{score.path!r} holds"
    if is_generated(score):
        what = "the columns hold"
    raise UsageError(
        f"{where}: say what {what} with --kind logits, log_probs or probs;"
        f" {proof.reason}{_reversed_sign(score, label, arrays)}",
        option=proof.option,
    )


def _are_scores(score: Name, label: Label | None, arrays: Arrays) -> bool:
    """True if real numbers are scores of classes, not features or other measurements.

    Their name says so, their columns are named like the classes, or the label follows
    them.
    """
    if may_be_scores(score.core):
        return True
    if arrays.naming_label(score.path):
        return True
    if label is None:
        return False
    follows = arrays.label_evidence(score.path, label.path)
    return follows is not None and follows.is_proven


def _reversed_sign(score: Name, label: Label | None, arrays: Arrays) -> str:
    """A question where the least score is the label; else ""."""
    indices = None
    if label is not None and arrays.is_float(score.path):
        indices = arrays.class_indices(score.path, label.path)
    array = arrays.load(score.path)
    if indices is None or array.shape[1] < 3:
        return ""
    first = next(blocks(array))
    sign = sign_of(first, indices[: len(first)])
    return f"; {sign.text}: {REVERSED}" if sign.is_reversed else ""
