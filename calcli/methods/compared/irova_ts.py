"""Temperature scaling, then isotonic regression one-vs-all."""

from dataclasses import dataclass
from typing import Any, Self

from calcli.calibrator import Calibrator, Context, Fit, param
from calcli.composition import behind
from calcli.mapped_rows import mapped
from calcli.methods.compared.irova import IsotonicOneVsAll
from calcli.methods.ts import TemperatureOptions, TemperatureScaling
from calcli.records import cached_property
from calcli.rows import Rows


@dataclass(frozen=True)
class IsotonicAfterTemperature(IsotonicOneVsAll):
    """Scale the temperature by squared error, then fit one isotonic map per class.

    q = IROvA(softmax(z / T)) with T the least squared error's (``ts`` with loss=brier)
    and the maps of ``irova``: the temperature makes the scores comparable, the maps
    correct what one temperature cannot.

    Reference: Zhang, Kailkhura, Han (2020), Mix-n-Match, arXiv 2003.07329 (IROvA-TS).
    """

    temperature: float = param(within="positive")

    list_order = 62
    use = "to compare with: loses accuracy with many classes"
    title = "temperature scaling, then isotonic regression one-vs-all"

    @classmethod
    def fit(cls, rows: Rows, options: Any, context: Context) -> Fit[Self]:
        ts = TemperatureScaling.fit(rows, TemperatureOptions(loss="brier"), context)
        scaled = mapped(rows, ts.calibrator)
        temperature = ts.calibrator.temperature
        return behind(
            ts, cls.fit_maps(scaled, options, context, temperature=temperature)
        )

    @cached_property
    def upstream(self) -> Calibrator:
        return TemperatureScaling(self.temperature)
