"""Hoki's retention probabilities by drawing: the share of noise vectors, the same for
all rows, that change no prediction; and standard noise whose bytes any machine draws
again from a seed.

A random stream is only as lasting as what makes it. The integers here come from the
counter-based Philox generator, whose stream NumPy guarantees, and become noise by
nothing but IEEE additions, multiplications, divisions and square roots, which every
machine rounds alike: libraries' logarithms differ in the last bit, and the
distributions of NumPy's generators may change between releases.

Reference: Jang, Ivanov, Lee, Weimer (2021), Algorithm 1.
"""

from collections.abc import Callable
from hashlib import sha256
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from calcli.errors import FitError
from calcli.numerics import FloatArray, IntArray
from calcli.records import cached_property

Draws = NDArray[np.float32]


def standard_noise(noise: str, samples: int, k: int, seed: int) -> Draws:
    """Draws of standard noise, (samples, k) float32: the same numbers everywhere, for
    ever.

    noise : gaussian (variance 1), uniform (on -1/2..1/2) or gumbel (scale 1). The i-th
    number of the row-major matrix comes from the i-th word of Philox4x64-10 with key
    ``seed``: its upper 53 bits, plus a half, are the quantile. Raises FitError when the
    matrix would not fit into memory.
    """
    count = samples * k
    if count > MOST_DRAWS:
        raise FitError(
            f"{samples} draws for {k} classes are {count} numbers, at most {MOST_DRAWS}"
            f" are kept; use --set gamma=exact or samples={max(1, MOST_DRAWS // k)}"
        )
    stream = np.random.Philox(key=seed)
    out = np.empty(count, dtype=np.float32)
    for start in range(0, count, CHUNK):
        raw = stream.random_raw(min(CHUNK, count - start))
        out[start : start + len(raw)] = QUANTILES[noise](
            ((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        )
    return out.reshape(samples, k)


MOST_DRAWS = 1 << 29
CHUNK = 1 << 16


def digest(draws: Draws) -> str:
    """SHA-256 of the draws as little-endian float32, row by row."""
    return sha256(np.ascontiguousarray(draws, dtype="<f4").tobytes()).hexdigest()


def exact_log(x: FloatArray) -> FloatArray:
    """Natural logarithm by IEEE basic operations alone, to 1e-12 relative. x > 0,
    normal.

    x = m 2^e with m in [sqrt(1/2), sqrt(2)), log m = 2 artanh((m - 1) / (m + 1)).
    """
    m, e = np.frexp(x)
    low = m < np.sqrt(0.5)
    m = np.where(low, 2.0 * m, m)
    s = (m - 1.0) / (m + 1.0)
    s2 = s * s
    series = np.full_like(s, 1.0 / 15.0)
    for odd in (13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0):
        series = series * s2 + 1.0 / odd
    return 2.0 * s * series + (e - low) * 0.6931471805599453


def gaussian_quantile(p: FloatArray) -> FloatArray:
    """Quantile of the standard normal, to 1e-7 relative: PPND7 of Wichura (1988),
    Algorithm AS 241.
    """
    q = p - 0.5
    r = 0.180625 - q * q
    central = q * _ratio(r, CENTRAL)
    tail = np.minimum(p, 1.0 - p)
    r = np.sqrt(-exact_log(tail))
    outer = np.where(r <= 5.0, _ratio(r - 1.6, MIDDLE), _ratio(r - 5.0, FAR))
    return np.where(np.abs(q) <= 0.425, central, np.where(q < 0, -outer, outer))


def _ratio(
    r: FloatArray, coefficients: tuple[tuple[float, ...], tuple[float, ...]]
) -> FloatArray:
    top, bottom = coefficients
    numerator = np.full_like(r, top[-1])
    denominator = np.full_like(r, bottom[-1])
    for c in reversed(top[:-1]):
        numerator = numerator * r + c
    for c in reversed(bottom[:-1]):
        denominator = denominator * r + c
    return numerator / denominator


CENTRAL = (
    (3.3871327179, 50.434271938, 159.29113202, 59.109374720),
    (1.0, 17.895169469, 78.757757664, 67.187563600),
)
MIDDLE = (
    (1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103),
    (1.0, 0.73700164250, 0.12021132975),
)
FAR = (
    (6.6579051150, 3.0812263860, 0.42868294337, 0.017337203997),
    (1.0, 0.24197894225, 0.012258202635),
)


def gumbel_quantile(p: FloatArray) -> FloatArray:
    """Quantile of the standard Gumbel distribution, -log(-log p)."""
    return -exact_log(-exact_log(p))


QUANTILES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "gaussian": gaussian_quantile,
    "uniform": lambda p: p - 0.5,
    "gumbel": gumbel_quantile,
}


# ---- races between the classes of a row


class Races:
    """Shared draws of standard noise, (m, k) float32, in the orders in which races are
    decided.
    """

    def __init__(self, draws: Draws) -> None:
        self.by_race = np.ascontiguousarray(draws)  # (m, k)
        self.by_class = np.ascontiguousarray(draws.T)  # (k, m)

    @cached_property
    def reach(self) -> Draws:
        """For every class the distance at which no class ever catches up with it, (k,)."""
        lead = self.by_class.max() - self.by_class.min(axis=1)
        # The bound also holds after the rounding of the float32 differences that decide.
        return np.asarray(lead + 1e-5 * (1 + np.abs(lead)), dtype=np.float32)

    @cached_property
    def leaders(self) -> tuple[NDArray[np.int32], Draws]:
        """The classes of the highest draws of every race, best first, and these, (m,
        min(k, STAGES[-1])) each.
        """
        m, k = self.by_race.shape
        count = min(k, STAGES[-1])
        who = np.empty((m, count), dtype=np.int32)
        draws = np.empty((m, count), dtype=np.float32)
        step = max(1, (1 << 20) // k)
        for start in range(0, m, step):
            some = self.by_race[start : start + step]
            best = np.argpartition(some, k - count, axis=1)[:, k - count :]
            order = np.argsort(
                -np.take_along_axis(some, best, axis=1), axis=1, kind="stable"
            )
            who[start : start + step] = np.take_along_axis(best, order, axis=1)
            draws[start : start + step] = np.take_along_axis(
                some, who[start : start + step], axis=1
            )
        return who, draws


# so many of the nearest rivals race first; the others only in races still open
FIRST_FIELD = 32
# so many of the highest draws of a race are looked at, stage by stage, before all of
# them are
STAGES = (16, 64, 128)
# a distance in units of the noise that no draw makes up for, within the range of
# float32
BEYOND = 1e30


def sampled_retention(
    d: FloatArray, top: IntArray, scale: float, races: Races
) -> FloatArray:
    """Share of the draws under which the top class stays on top.

    d : (b, k) gaps, top : (b,). A race is lost when draw_c - float32(d_c / scale)
    exceeds the draw of the top class for any c, in float32 arithmetic: with or without
    leaving classes out, here or on a GPU, the count is the same.
    """
    behind = np.minimum(d / scale, BEYOND).astype(np.float32)
    return np.array(
        [_races_won(row, c, races) for row, c in zip(behind, top.tolist(), strict=True)]
    )


def _races_won(behind: Draws, top: int, races: Races) -> float:
    """Share of the draws in which class ``top`` beats all others; behind : (k,).

    A race is over when it is lost, and won when even the highest draw left would not
    make up for the distance of the nearest rival left (subtraction rounds
    monotonically, so this leaves the count exact). First race the nearest rivals, which
    decide most races; then those with the highest draws of a race, of whom few can win;
    then, hardly ever, all.
    """
    m, k = races.by_race.shape
    of_top = races.by_class[top]
    rivals = np.flatnonzero(behind <= races.reach[top])
    if not len(rivals):
        return 1.0
    if len(rivals) > FIRST_FIELD:
        rivals = rivals[np.argpartition(behind[rivals], FIRST_FIELD)]
    near = rivals[:FIRST_FIELD]
    far = rivals[FIRST_FIELD:]
    who, draws = races.leaders
    running = np.flatnonzero(draws[:, 0] - behind[near].min() > of_top)
    won = m - len(running)
    if 2 * len(running) > m:
        # Whole rows are copied faster than single draws are gathered.
        fastest = (races.by_class[near] - behind[near, None]).max(axis=0)[running]
    else:
        leads = races.by_class[np.ix_(near, running)] - behind[near, None]
        fastest = leads.max(axis=0)
    running = running[fastest <= of_top[running]]
    if not len(far):
        return (won + len(running)) / m
    nearest = behind[far].min()
    for start, stop in pairwise((0, *STAGES)):
        if start >= who.shape[1] or not len(running):
            break
        still_open = draws[running, start] - nearest > of_top[running]
        won += len(running) - int(np.count_nonzero(still_open))
        running = running[still_open]
        leads = draws[running, start:stop] - behind[who[running, start:stop]]
        fastest = leads.max(axis=1, initial=-np.inf)
        running = running[fastest <= of_top[running]]
    if len(running) and k > who.shape[1]:
        fastest = (races.by_race[running] - behind).max(axis=1)
        running = running[fastest <= of_top[running]]
    return (won + len(running)) / m
