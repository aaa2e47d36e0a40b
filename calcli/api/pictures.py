"""Reliability diagrams."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from calcli.api.argument_words import says_arguments
from calcli.api.arguments import Scores, check_free, checked, open_held_out, path_of
from calcli.api.calibrators import FittedCalibrator, artifacts_of
from calcli.diagrams.curve import CurveSettings
from calcli.diagrams.matplotlib_theme import Paper
from calcli.diagrams.outputs import format_of, to_object
from calcli.diagrams.panels import Measured
from calcli.diagrams.reliability import Diagram
from calcli.diagrams.reliability_matplotlib import draw_into
from calcli.diagrams.style import Figure, Request
from calcli.diagrams.style import style as find_style
from calcli.diagrams.terminal import draw
from calcli.errors import UsageError
from calcli.io.atomic import write_bytes
from calcli.io.provenance import title_of
from calcli.metrics.collect import collect_all
from calcli.metrics.warnings import label_warnings


class Picture:
    """A reliability diagram, as ``diagram`` gives it; a notebook shows it."""

    def __init__(self, figure: Figure) -> None:
        self._figure = figure

    @says_arguments
    def save(self, path: str | PathLike[str], *, force: bool = False) -> None:
        """Write the diagram in the format of the file's ending: png, svg, pdf (with
        matplotlib), json or csv.

        Raises UsageError for another ending, and where a file exists, unless ``force``.
        """
        target = path_of(path, "path")
        check_free(target, force)
        write_bytes(target, format_of(target)(self._figure, Paper()), force=force)

    def to_dict(self) -> dict[str, Any]:
        """All numbers that are drawn, those of ``calcli diagram --json``."""
        return to_object(self._figure)

    def __str__(self) -> str:
        return draw(self._figure)

    def __repr__(self) -> str:
        return f"<calcli diagram: {self.to_dict()['style']}>"

    def _repr_svg_(self) -> str:
        return format_of(Path("figure.svg"))(self._figure, Paper()).decode()


@says_arguments
def diagram(
    scores: Scores,
    labels: Any = None,
    calibrators: FittedCalibrator | Sequence[FittedCalibrator] = (),
    kind: str | None = None,
    *,
    style: str = "corp",
    title: str | None = None,
    weights: Any = None,
    units: Any = None,
    groups: Any = None,
    again: bool = False,
    ax: Any = None,
    **settings: Any,
) -> Picture:
    """Draw the reliability of scores with labels, uncalibrated and through each
    calibrator.

    scores, labels, calibrators, kind, weights, units, groups, again : as for
    ``evaluate``. style : one of ``calcli diagram --help``. ax : matplotlib axes to draw
    all curves into, without histogram and numbers, of the styles ``corp`` and ``bins``.
    settings : fields of ``CurveSettings`` (``bins``, ``scheme``, ``level``,
    ``resamples``, ``seed``). Raises UsageError and DataError as ``evaluate`` does.

    >>> import numpy as np
    >>> picture = diagram(np.eye(2)[[0, 1, 1, 0]], [0, 1, 1, 1], resamples=100)
    >>> picture.to_dict()["style"]
    'corp'
    """
    if ax is not None and getattr(ax, "name", None) != "rectilinear":
        raise UsageError(
            f"ax: is of type {type(ax).__name__}, expected flat axes of matplotlib, as"
            " plt.subplots() gives them"
        )
    artifacts = artifacts_of(calibrators)
    figure_class = find_style(style)
    if figure_class.needs_scores:
        raise UsageError(f"style {style!r} is drawn by calcli diagram only")
    curves = checked(CurveSettings, settings)
    with open_held_out(
        scores, labels, kind, artifacts, groups, again, weights=weights, units=units
    ) as (rows, notes):
        calibrators_fitted = [artifact.calibrator for artifact in artifacts]
        tables = collect_all(rows.counted(), [None, *calibrators_fitted])
        notes += [*rows.caveats, *label_warnings(tables[0], rows.class_names)]
        names = [title_of(rows.upstream), *(artifact.method for artifact in artifacts)]
        sets = []
        for name, table in zip(names, tables, strict=True):
            sets.append(Measured(rows.name, name, table))
        request = Request(
            curves,
            sets=sets,
            title=title,
            names=rows.class_names,
            layout="side" if ax is None else "overlay",
        )
        figure = figure_class.measure(request)
    if ax is not None:
        if not isinstance(figure, Diagram):
            raise UsageError(
                f"style {style!r} draws no curves into ax=; corp and bins do"
            )
        draw_into(figure, ax)
    return Picture(figure)
