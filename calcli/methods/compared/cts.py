"""Class-based temperature scaling."""

from typing import Annotated, Self

import numpy as np
from msgspec import Meta

from calcli.binning import width_edges
from calcli.calibrator import Calibrator, Context, Fit, Laws, Options, Prediction, Status, param
from calcli.fast_dataclass import dataclass
from calcli.methods._checks import check_positive
from calcli.methods.compared._class_search import ClassSearch
from calcli.methods.ts import TemperatureOptions, TemperatureScaling
from calcli.numerics import FloatArray, log_softmax
from calcli.rows import Block, Rows

GRID = np.arange(1, 101) / 10.0
"""Temperatures tried for every class: 0.1, 0.2, ..., 10."""


class ClassTemperatureOptions(Options, frozen=True):
    """Options of class-based temperature scaling."""

    passes: Annotated[int, Meta(ge=1, le=100, description="passes over all classes; it stops when none moves")] = 5
    guard: Annotated[
        bool,
        Meta(description="never accept a temperature that takes accuracy below the uncalibrated one"),
    ] = True
    bins: Annotated[int, Meta(ge=1, le=1000, description="equal-width bins of the calibration error")] = 15


@dataclass(frozen=True)
class ClassTemperatureScaling(Calibrator):
    """Give every class its own temperature, chosen by calibration error class by class.

    p = softmax(z_1 / T_1, ..., z_C / T_C). All T_c start at the temperature of temperature
    scaling. For class after class, T_c runs through 0.1, 0.2, ..., 10 with the others
    fixed, and moves wherever the ECE of the calibration rows (15 bins of equal width) is
    strictly below the best seen so far; passes repeat until no class moves. Predictions
    may change; with ``guard`` the accuracy on the calibration rows never falls below the
    uncalibrated one. A class without rows keeps the common temperature.

    Only one column changes at a time, so a candidate costs one logistic function per row,
    exact in float64: passes * classes * 100 * rows of them, some minutes per pass for
    25000 x 1000. The ECE of thousands of candidates is searched on one set of rows, so its
    value there (recorded as ``ece``) is optimistic, and NLL is not looked at. (The authors'
    programs start from 2.5 or from an ECE grid; their later one makes local steps.)

    The temperatures act on the raw logits: a constant added to a row is not without effect.

    Reference: Frenkel, Goldberger (2021), "Network calibration by class-based temperature scaling".
    """

    temperature: FloatArray = param("k")

    place = 60
    aliases = ("class-temperature",)
    use = "to compare with: one temperature per class"
    title = "class-based temperature scaling"
    Options = ClassTemperatureOptions
    laws = Laws(weights=True)

    @classmethod
    def fit(cls, rows: Rows, options: ClassTemperatureOptions, context: Context) -> Fit[Self]:
        first = TemperatureScaling.fit(rows, TemperatureOptions(), context)
        start = first.calibrator.temperature
        search = ClassSearch(rows, start, width_edges(options.bins))
        before, floor = search.ece, search.accuracy if options.guard else -np.inf
        present = np.flatnonzero(np.bincount(rows.labels(), minlength=rows.k) > 0)
        moves = []
        for done in range(options.passes):

            def tell(c: int, done: int = done) -> None:
                context.progress("searching class temperatures", done * rows.k + c + 1, options.passes * rows.k)

            moves.append(search.sweep(present, GRID, floor, tell))
            if moves[-1] == 0:
                break
        status: Status = first.status
        warnings = list(first.warnings)
        if moves[-1] > 0:
            warnings.append(f"temperatures still moved in pass {options.passes}; raise passes to search on")
            status = "not_converged" if status == "ok" else status
        if len(present) < rows.k:
            warnings.append(
                f"{rows.k - len(present)} of {rows.k} classes have no rows; their temperature stays at {start:g}"
            )
        if rows.n < 20 * rows.k:
            warnings.append(
                f"{rows.k} temperatures chosen on {rows.n} rows: fewer than 20 rows per class; ts or vs are safer"
            )
        details = {
            "start": start,
            "passes": len(moves),
            "moves": moves,
            "ece": {"before": before, "after": search.ece},
        }
        return Fit(cls(search.temperature), status, tuple(warnings), details, before=first.before)

    def apply(self, block: Block) -> Prediction:
        scaled = block.z / self.temperature
        return Prediction(log_softmax(scaled), scaled.argmax(axis=1))

    def check(self, k: int) -> None:
        check_positive(temperature=self.temperature)


METHOD = ClassTemperatureScaling
