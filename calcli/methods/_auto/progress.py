"""Progress of many fits of unequal cost, reported as one number."""

from collections.abc import Iterable
from threading import Lock

from calcli.calibrator import Progress
from calcli.methods._auto.candidates import Candidate
from calcli.registry import stages_of

WHAT = "weighing methods"
STEPS = 1000  # parts into which the whole work is divided for the report

COSTS = {"ts": 1.0, "ft": 3.0, "iop": 7.0, "mono": 9.0, "svs": 15.0, "sms": 40.0}
COSTS |= {"ms-odir": 40.0, "platt": 0.5, "mline": 0.5, "venn-abers": 1.0}
USUAL_COST = 3.0
"""Cost of a fit by method, relative to temperature scaling (measured at 25000 x
1000).
"""

CLOSER = 0.85  # share of the way to the end that remains after each walk of a search


def cost_of(candidate: Candidate) -> float:
    """Expected cost of fitting a candidate from scratch."""
    return sum(COSTS.get(name, USUAL_COST) for name, _ in stages_of(*candidate))


class Work:
    """Sum of the costs that are done, out of an expected total.

    Fits run in several threads, so that reports are made one at a time.
    """

    def __init__(self, report: Progress, total: float) -> None:
        self.report = report
        self.total = total
        self.done = 0.0
        self.lock = Lock()

    def expect(self, costs: Iterable[float]) -> None:
        """Replace the expected cost of what is left."""
        with self.lock:
            self.total = self.done + sum(costs)

    def add(self, cost: float) -> None:
        """Count some work as done, and report."""
        with self.lock:
            self.done = min(self.done + cost, self.total)
            done = int(STEPS * self.done / max(self.total, 1e-300))
            self.report(WHAT, done, STEPS)

    def begin(self, cost: float) -> "Piece":
        """Begin a piece of work of a given cost."""
        return Piece(self, cost)


class Piece:
    """One piece of work, whose walks over the rows are progress too."""

    def __init__(self, work: Work, cost: float) -> None:
        self.work = work
        self.left = cost

    def walked(self, what: str, done: int, total: int) -> None:
        """Progress callback of a fit."""
        part = (1.0 - CLOSER) * self.left
        self.left -= part
        self.work.add(part)

    def end(self) -> None:
        """Count what is left as done."""
        self.work.add(self.left)
        self.left = 0.0
