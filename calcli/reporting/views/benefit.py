"""Net benefit of acting on the risk: decision curves, and a table at some thresholds."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from calcli.diagrams.styles.decision import shown_thresholds
from calcli.reporting.figures.benefit import benefit_figure
from calcli.reporting.number_format import plain, share
from calcli.reporting.views.room import Chapter


@dataclass(frozen=True)
class ThresholdRow:
    """Net benefit at a threshold, of every way to decide."""

    threshold: str
    benefits: Sequence[str]


@dataclass(frozen=True)
class BenefitView:
    """Decision curves of two classes, and a table.

    class_1 : its name. heads : ways to decide.
    """

    class_1: str
    heads: Sequence[str]
    rows: Sequence[ThresholdRow]
    table_ident: str
    figure: Markup
    figure_ident: str


def benefit_view(chapter: Chapter) -> BenefitView | None:
    """The view of the net benefit with every version; None for other than two classes."""
    model = chapter.model
    curves = [v.benefit for v in model.versions if v.benefit is not None]
    if not curves:
        return None
    class_1 = model.versions[0].report.facts.data.class_1 or "class 1"
    first = curves[0]
    columns = [*(curve.benefit for curve in curves), first.treat_all]
    rows = []
    for place in shown_thresholds().tolist():
        benefits = [plain(float(column[place]), 3) for column in columns]
        rows.append(ThresholdRow(share(float(first.threshold[place])), benefits))
    ident = chapter.ident("benefit")
    return BenefitView(
        class_1=class_1,
        heads=[*(curve.label for curve in curves), "treat all"],
        rows=rows,
        table_ident=chapter.ident("benefits"),
        figure=benefit_figure(curves, class_1, ident),
        figure_ident=ident,
    )
