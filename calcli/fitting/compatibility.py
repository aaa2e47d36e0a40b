"""Whether a calibrator may be applied to rows: classes, kind, groups, upstream."""

from collections.abc import Sequence

from calcli.calibrator import Calibrator
from calcli.errors import DataError
from calcli.importers.names.common_text import differing_parts
from calcli.io.artifact import Artifact
from calcli.io.dataset import DataSet
from calcli.io.provenance import check_chain, check_upstream
from calcli.names import places_of_groups
from calcli.rows import Rows, ScoreKind


def check_fits(
    artifact: Artifact, where: str, rows: DataSet, *, again: bool = False
) -> list[str]:
    """Refuse a calibrator that was fitted to other scores than these.

    Returns warnings for what is allowed. Raises DataError

    - for another number of classes,
    - for logits where the calibrator knows only log-probabilities (or the reverse) and
      can tell the difference,
    - for classes in another order,
    - unless ``again``, for rows that have been through other calibrators than those
      that it was fitted on.
    """
    kind = artifact.input_kind
    k = artifact.n_classes
    calibrator = artifact.calibrator
    if (kind == "confidence") != (rows.kind == "confidence"):
        fitted = _contents(kind, k)
        contents = _contents(rows.kind, rows.k)
        advice = "fit a calibrator on rows of the same kind"
        raise DataError(
            f"{where}: was fitted on {fitted}, {rows.name} holds {contents}; {advice}"
        )
    if k != rows.k and not artifact.of_options:
        advice = "fit a calibrator on this model's own scores"
        raise DataError(
            f"{where}: was fitted for {k} classes, {rows.name} has {rows.k}; {advice}"
        )
    if not again:
        check_upstream(artifact, where, rows.name, rows.upstream)
    is_other_level = (kind == "logits") != (rows.kind == "logits")
    if is_other_level and not calibrator.laws.shift_invariant:
        level = (
            f"method {artifact.method} was fitted on {kind} and depends on their level"
        )
        advice = "fit and apply on the same kind of scores"
        raise DataError(f"{where}: {level}, {rows.name} holds {rows.kind}; {advice}")
    for column in calibrator.required_columns:
        rows.carry(column)
    warnings = []
    is_fitted = artifact.fit.n > 0  # else it was made from class frequencies alone
    if is_fitted and kind != rows.kind:
        warnings.append(f"{rows.name}: holds {rows.kind}, {where} was fitted on {kind}")
    warnings += check_names(artifact.class_names, where, rows)
    warnings += unseen(calibrator, rows, rows.name)
    return warnings


def check_same_scores(calibration: DataSet, rows: DataSet, *, again: bool) -> None:
    """Refuse rows to which no calibrator of the calibration rows could be applied.

    Raises DataError for another number or order of classes, for confidences beside
    scores of classes, and unless ``again`` for rows that have been through other
    calibrators.
    """
    same_kind = (calibration.kind == "confidence") == (rows.kind == "confidence")
    if rows.k != calibration.k or not same_kind:
        contents = _contents(rows.kind, rows.k)
        expected = _contents(calibration.kind, calibration.k)
        raise DataError(
            f"{rows.name}: holds {contents}, {calibration.name} {expected}; name two"
            " sets of rows of one model"
        )
    if not again:
        fit = f"the calibrator of {calibration.name} is fitted"
        check_chain(rows.upstream, calibration.upstream, rows.name, fit)
    check_names(calibration.class_names, calibration.name, rows)


def _contents(kind: ScoreKind, k: int) -> str:
    """Kind of scores and number of classes in words."""
    if kind == "confidence":
        return "confidences, of which no class is known"
    return f"the {kind} of {k} classes"


def unseen(calibrator: Calibrator, rows: Rows, where: str) -> list[str]:
    """Warnings about groups of rows that a calibrator by group was not fitted on.

    Raises DataError where it knows the group of no row.
    """
    warnings = []
    for column, known in calibrator.required_columns.items():
        names, code = rows.columns[column]
        is_new = places_of_groups(tuple(known), tuple(names)) < 0
        count = int(is_new[code].sum())
        if not count:
            continue
        groups = quoted_groups(
            [name for name, new in zip(names, is_new, strict=True) if new]
        )
        if count == rows.n:
            known_groups = quoted_groups(known) or "none"
            raise DataError(
                f"{where}: no row is of a group that the calibrator knows ({column}"
                f" here: {groups}; known: {known_groups}); name the column of these"
                " groups, or fit a calibrator to such rows"
            )
        warnings.append(
            f"{where}: {count} of {rows.n} rows are of groups that the fit has not seen"
            f" ({column}: {groups}); they get the common map"
        )
    return warnings


def check_names(class_names: list[str] | None, where: str, rows: DataSet) -> list[str]:
    """Refuse rows whose classes are in another order than those of the fit.

    Returns a warning where names differ. Names are compared without case and outer
    spaces, and without text that all names of a list have in common (``p_cat``).
    class_names, where : of the fit. Raises DataError.
    """
    names_of_fit = class_names or []
    names_of_rows = rows.class_names or []
    if not names_of_fit or not names_of_rows:
        return []
    moved = moved_class(names_of_fit, names_of_rows)
    if moved is not None:
        c, place = moved
        raise DataError(
            f"{rows.name}: class {c} is {names_of_rows[c]!r}, which is class"
            f" {place} of {where}: the classes are in another order;"
            " put the columns of scores and the labels in the order"
            f" {first_names(names_of_fit)} (of a table: --scores NAME,NAME,…), or"
            " fit a calibrator to these rows"
        )
    differing = _differing_classes(names_of_fit, names_of_rows)
    if not differing:
        return []
    c = differing[0]
    return [
        f"{rows.name}: class {c} is {names_of_rows[c]!r}, {where} was fitted with"
        f" {names_of_fit[c]!r}; check the class order"
    ]


def moved_class(first: Sequence[str], names: Sequence[str]) -> tuple[int, int] | None:
    """A class that is another one among the first names, and which; None without one.

    Names are compared as ``check_names`` does.
    """
    words_of_first, words = comparable_names(first, names)
    for c in _differing_classes(first, names):
        if words_of_first.count(words[c]) == words.count(words[c]) == 1:
            return c, words_of_first.index(words[c])
    return None


def _differing_classes(first: Sequence[str], names: Sequence[str]) -> list[int]:
    """Classes whose names differ in more than case, outer spaces and common text."""
    pairs = zip(*comparable_names(first, names), strict=False)
    return [c for c, (word_of_first, word) in enumerate(pairs) if word_of_first != word]


def comparable_names(
    first: Sequence[str], names: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Both lists of names without case and outer spaces.

    Where they have no name in common, what differs in the names of each list, if these
    are the same words: ``cat``, ``dog`` and ``p_dog``, ``p_cat``.
    """
    words_of_first = [name.strip().casefold() for name in first]
    words = [name.strip().casefold() for name in names]
    if set(words_of_first) & set(words):
        return words_of_first, words
    parts_of_first = differing_parts(words_of_first)
    parts = differing_parts(words)
    if "" not in parts and sorted(parts_of_first) == sorted(parts):
        return parts_of_first, parts
    return words_of_first, words


def quoted_groups(names: Sequence[str]) -> str:
    """Names of groups, each in quotes where one contains a comma."""
    has_comma = any("," in name or not name for name in names)
    if has_comma:
        names = list(map(repr, names))
    return first_names(names)


def first_names(names: Sequence[str]) -> str:
    """The first ten names."""
    text = ", ".join(names[:10])
    return f"{text}, …" if len(names) > 10 else text
