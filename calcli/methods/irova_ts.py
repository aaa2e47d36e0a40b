"""Temperature scaling, then isotonic regression one-vs-all."""

from dataclasses import dataclass
from typing import Any, Self

from calcli.calibrator import Context, Curves, Fit, param
from calcli.errors import DataError
from calcli.methods._binary import few_rows_per_class, fit_maps
from calcli.methods.irova import IsotonicOneVsAll
from calcli.methods.ts import TemperatureOptions, TemperatureScaling
from calcli.numerics import FloatArray
from calcli.rows import Rows


@dataclass(frozen=True)
class IsotonicAfterTemperature(IsotonicOneVsAll):
    """Scale the temperature by squared error, then fit one isotonic map per class.

    q = IROvA(softmax(z / T)) with T the least squared error's (``ts`` with loss=brier) and
    the maps of ``irova``: the temperature makes the scores comparable, the maps correct
    what one temperature cannot.

    Reference: Zhang, Kailkhura, Han (2020), Mix-n-Match, arXiv 2003.07329 (IROvA-TS).
    """

    scores: Curves = param()
    values: Curves = param()
    temperature: float = param()

    title = "temperature scaling, then isotonic regression one-vs-all"

    @classmethod
    def fit(cls, rows: Rows, options: Any, context: Context) -> Fit[Self]:
        ts = TemperatureScaling.fit(rows, TemperatureOptions(loss="brier"), context)
        temperature = ts.calibrator.temperature
        maps = fit_maps(cls, rows, "ova", lambda sample: cls.fit_map(sample, options), context, temperature)
        maps.before(ts)
        return maps.finish(cls(*[*maps.params, temperature]), few_rows_per_class(rows, "ova"))

    def tempered(self, z: FloatArray) -> FloatArray:
        return z / self.temperature

    def check(self, k: int) -> None:
        super().check(k)
        if not 0 < self.temperature < float("inf"):
            raise DataError(f"temperature is {self.temperature}, expected a positive number")


METHOD = IsotonicAfterTemperature
