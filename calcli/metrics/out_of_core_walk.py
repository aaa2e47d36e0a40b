"""Which rows and metrics need no table of the rows, and the one walk over them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

from calcli.calibrator import Calibrator, Progress
from calcli.metrics.catalog import class_bins_needed, metric, top_suffices, tops_needed
from calcli.metrics.collect import reduced
from calcli.metrics.context import MetricSettings
from calcli.metrics.external_sort import Runs, check_order_fits
from calcli.metrics.out_of_core import LongContext
from calcli.metrics.tally import Tally, Wanted
from calcli.rows import Rows

LONG = 1 << 17
"""Rows from which no table is made of them."""

OF_TWO = {"roc_auc", "average_precision"}
"""Metrics that need columns of classes where there are more than two."""


def measured_long(names: Iterable[str], settings: MetricSettings, k: int) -> bool:
    """Whether the metrics, so set, need no table of the rows of k classes."""
    usual = settings.label in ("top", "positive") and settings.compat is None
    usual = usual and settings.threshold == 0.5 and settings.interval != "bootstrap"
    asked = [metric(name) for name in names]
    return usual and all(each.reads != "table" and (k == 2 or each.name not in OF_TWO) for each in asked)


@contextmanager
def long_contexts(
    rows: Rows,
    calibrators: Sequence[Calibrator | None],
    names: Sequence[str],
    settings: MetricSettings,
    *,
    report: bool,
    progress: Progress | None = None,
) -> Iterator[Iterator[LongContext]]:
    """Contexts of the rows through every calibrator (None: uncalibrated), from one walk, one after the other.

    Their order on disk is there until the next is asked for. report : whether the judgement will be made.
    Raises CalcliError where there is no room for the order.
    """
    mass = settings.scheme == "mass" and any(("scheme", None) in metric(name).signature for name in names)
    ordered = report or mass or any(metric(name).reads == "order" for name in names)
    wanted = Wanted(tuple(names), settings, rows.n, ordered, report)
    kinds = (2 if rows.k == 2 else 1) if ordered else 0
    if ordered:
        check_order_fits(rows.n, kinds * len(calibrators))
    bins = 0 if rows.k == 1 else settings.bins if report else class_bins_needed(names, settings)
    top_only = len(calibrators) == 1 and not report and top_suffices(names, settings)
    with ExitStack() as stack:
        runs = [[stack.enter_context(closing(Runs())) for _ in range(kinds)] for _ in calibrators]
        tallies: list[Tally] = []
        tops = tops_needed(names)
        for part in reduced(rows, calibrators, wanted, class_bins=bins, tops=tops, top_only=top_only):
            found = [each.tally for each in part]
            tallies = [a + b for a, b in zip(tallies, found, strict=True)] if tallies else found
            for own, each in zip(runs, part, strict=True):
                for run, keys in zip(own, each.keys, strict=True):
                    run.take(keys)
            if progress is not None:
                progress("rows read", tallies[0].n, rows.n)

        def each_in_turn() -> Iterator[LongContext]:
            for tally, own in zip(tallies, runs, strict=True):
                with ExitStack() as here:
                    yield LongContext(
                        tally, settings, [here.enter_context(closing(run.merged(i == 1))) for i, run in enumerate(own)]
                    )

        yield each_in_turn()
