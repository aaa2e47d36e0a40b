"""Retention probabilities by drawing: the share of noise vectors, the same for all rows, that change no prediction.

Reference: Jang, Ivanov, Lee, Weimer (2021), Algorithm 1.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from calcli.fast_dataclass import cached_property
from calcli.numerics import FloatArray, IntArray


class Races:
    """Shared draws of standard noise, (m, k) float32, in the orders in which races are decided."""

    def __init__(self, draws: NDArray[np.float32]) -> None:
        self.by_race = np.ascontiguousarray(draws)  # (m, k)
        self.by_class = np.ascontiguousarray(draws.T)  # (k, m)

    @cached_property
    def reach(self) -> NDArray[np.float32]:
        """For every class the distance at which no class ever catches up with it, (k,)."""
        lead = self.by_class.max() - self.by_class.min(axis=1)
        # The bound also holds after the rounding of the float32 differences that decide.
        return np.asarray(lead + 1e-5 * (1 + np.abs(lead)), dtype=np.float32)

    @cached_property
    def leaders(self) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The classes of the highest draws of every race, best first, and these, (m, min(k, STAGES[-1])) each."""
        m, k = self.by_race.shape
        count = min(k, STAGES[-1])
        who = np.empty((m, count), dtype=np.int32)
        draws = np.empty((m, count), dtype=np.float32)
        step = max(1, (1 << 20) // k)
        for at in range(0, m, step):
            some = self.by_race[at : at + step]
            best = np.argpartition(some, k - count, axis=1)[:, k - count :]
            order = np.argsort(-np.take_along_axis(some, best, axis=1), axis=1, kind="stable")
            who[at : at + step] = np.take_along_axis(best, order, axis=1)
            draws[at : at + step] = np.take_along_axis(some, who[at : at + step], axis=1)
        return who, draws


FIRST_FIELD = 32  # so many of the nearest rivals race first; the others only in races still open
STAGES = (16, 64, 128)  # so many of the highest draws of a race are looked at, stage by stage, before all of them are
BEYOND = 1e30  # a distance in units of the noise that no draw makes up for, within the range of float32


def sampled_retention(d: FloatArray, top: IntArray, scale: float, races: Races) -> FloatArray:
    """Share of the draws under which the top class stays on top.

    d : (b, k) gaps, top : (b,). A race is lost when draw_c - float32(d_c / scale) exceeds the draw of the top class for
    any c, in float32 arithmetic: with or without leaving classes out, here or on a GPU, the count is the same.
    """
    behind = np.minimum(d / scale, BEYOND).astype(np.float32)
    return np.array([_races_won(row, c, races) for row, c in zip(behind, top.tolist(), strict=True)])


def _races_won(behind: NDArray[np.float32], top: int, races: Races) -> float:
    """Share of the draws in which class ``top`` beats all others; behind : (k,).

    A race is over when it is lost, and won when even the highest draw left would not make
    up for the distance of the nearest rival left (subtraction rounds monotonically, so this
    leaves the count exact). First race the nearest rivals, which decide most races; then
    those with the highest draws of a race, of whom few can win; then, hardly ever, all.
    """
    m, k = races.by_race.shape
    own = races.by_class[top]
    rivals = np.flatnonzero(behind <= races.reach[top])
    if not len(rivals):
        return 1.0
    if len(rivals) > FIRST_FIELD:
        rivals = rivals[np.argpartition(behind[rivals], FIRST_FIELD)]
    near, far = rivals[:FIRST_FIELD], rivals[FIRST_FIELD:]
    who, draws = races.leaders
    running = np.flatnonzero(draws[:, 0] - behind[near].min() > own)
    won = m - len(running)
    if 2 * len(running) > m:  # whole rows are copied faster than single draws are gathered
        fastest = (races.by_class[near] - behind[near, None]).max(axis=0)[running]
    else:
        fastest = (races.by_class[np.ix_(near, running)] - behind[near, None]).max(axis=0)
    running = running[fastest <= own[running]]
    if not len(far):
        return (won + len(running)) / m
    nearest = behind[far].min()
    for at, stop in pairwise((0, *STAGES)):
        if at >= who.shape[1] or not len(running):
            break
        still_open = draws[running, at] - nearest > own[running]
        won += len(running) - int(np.count_nonzero(still_open))
        running = running[still_open]
        fastest = (draws[running, at:stop] - behind[who[running, at:stop]]).max(axis=1, initial=-np.inf)
        running = running[fastest <= own[running]]
    if len(running) and k > who.shape[1]:
        fastest = (races.by_race[running] - behind).max(axis=1)
        running = running[fastest <= own[running]]
    return (won + len(running)) / m
