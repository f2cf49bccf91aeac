"""What is usual in a pool, and how far each slide is from it."""
import math
from dataclasses import dataclass

import numpy as np

from .numbers import BY_NAME, FEW, FLAG, FLAGS, LEAST, LEAST_BLURRED, MOST_WIDENED, SHARE_ALONE, SHARE_OF_GROUP, W1
from .tables import NAN, SHARP_BINS, SHARP_LOW, SHARP_STEP

# --- statistics that resist outliers ---


def quantile(v, q):
    """Quantile q of sorted numbers, linear between them."""
    if not len(v):
        return NAN
    at = q * (len(v) - 1)
    below = int(at)
    return float(v[below] + (at - below) * (v[min(below + 1, len(v) - 1)] - v[below]))


def known(v):
    """The numbers that are known, sorted."""
    v = np.asarray(v, float)
    return np.sort(v[~np.isnan(v)])


def turn(a, b):
    """The difference of two angles in degrees, from -180 to less than 180."""
    x = np.subtract(a, b)
    x = x - 360 * np.rint(x / 360)
    return np.where(x == 180, -180.0, x)


def unwrap(v):
    """Equal angles within 180 degrees of their median, which is from 0 to 360: so they can be treated as numbers."""
    v = np.asarray(v, float)
    radians = np.radians(v[~np.isnan(v)])
    x, y = (float(np.cumsum(f(radians))[-1]) if len(radians) else 0.0 for f in (np.cos, np.sin))
    middle = math.degrees(math.atan2(y, x))
    v = middle + turn(v, middle)
    median = quantile(known(v), 0.5)
    median += 360 if median < 0 else 0
    return median + turn(v, median)


@dataclass
class Summary:
    n: int
    q25: float
    q50: float
    q75: float
    mad: float = NAN
    low: float = NAN     # octiles of what is not far from the others
    high: float = NAN


def summarise(v):
    v = known(v)
    s = Summary(len(v), quantile(v, 0.25), quantile(v, 0.5), quantile(v, 0.75))
    if s.n:
        off = np.sort(np.abs(v - s.q50))
        s.mad = float(off[s.n // 2] if s.n % 2 else off[s.n // 2 - 1] + (off[s.n // 2] - off[s.n // 2 - 1]) / 2)
        near = v[np.abs(v - s.q50) <= 6 * s.mad / 0.6745]
        s.low, s.high = quantile(near, 0.125), quantile(near, 0.875)
    return s


def skewed_limit(s, above, floor):
    """The |z| from which on values are unusual: more on the longer side of skewed ones."""
    octile, symmetric, part = 1.1503, 0.15, 1.15
    with np.errstate(all="ignore"):
        least = octile / 0.6745 * np.fmax(floor, s.mad / 4)    # where values are equal the MAD says that there is a tail, too
        low, high = np.fmax(s.q50 - s.low, least), np.fmax(s.high - s.q50, least)
        g = np.log(high / low if above else low / high) / octile
        return float(np.expm1(FLAG * part * g) / (part * g)) if g > symmetric else FLAG


def by_chance(n):
    """The share of normal numbers beyond FLAG by chance, if the median and the MAD are of n of them."""
    return 4.6525815807105e-4 + 0.034 / n + 0.15 / (n * n)


# --- scores ---


class Scores:
    """Of each number and slide: z, and how far beyond what is usual it is (above 1: a flag)."""

    def __init__(self, slides, pools, pool, accepted):
        self.pool, self.accepted, n = pool, accepted, len(slides)
        self.z = {m.name: np.full(n, NAN) for m in FLAGS}
        self.excess = {m.name: np.zeros(n) for m in FLAGS}
        blurred = np.zeros(n)
        for q in pools:
            q.accepted = int(accepted[q.index].sum())
            reference = q.index[accepted[q.index]] if q.accepted else q.index
            self._blur(slides, q, reference, blurred)
            for m in FLAGS:
                self._score(slides, q, m, reference)
            self._measure_distances(slides, q, reference)
        self.excess["blurred_share"][blurred < LEAST_BLURRED] = 0

    def _blur(self, slides, q, reference, blurred):
        """A window of tissue is blurred if its focus_db is below the median of those of the pool, less 3.5 robust standard deviations."""
        V = slides.V
        has = q.index[V["windows"][q.index] > 0]
        q.counted, counts = len(has), reference[V["windows"][reference] > 0]
        bins = V["sharp"][counts].sum(0, dtype=np.int64)
        n = int(bins.sum())
        if len(counts) < LEAST or not n:
            return

        def middle_of(b):
            return int(np.argmax(np.cumsum(b) > n // 2))
        middle = middle_of(bins)
        mad = middle_of(np.bincount(np.abs(np.arange(SHARP_BINS) - middle), bins, SHARP_BINS))
        if not mad:
            return
        end = max(0, int(middle - FLAG * mad / 0.6745))
        q.below, own = SHARP_LOW + SHARP_STEP * end, V["sharp"][has].astype(float)
        blurred[has] = own[:, :end].sum(1)
        with np.errstate(all="ignore"):
            V["blurred_share"][has] = blurred[has] / own.sum(1)

    def _score(self, slides, q, m, reference):
        values = slides.V[m.name]
        s = q.summary[m.name] = summarise(unwrap(values[reference]) if m.angle else values[reference])
        s.mad = m.floor if s.mad < m.floor else s.mad
        own = values[q.index]
        off = turn(own, s.q50) if m.angle else own - s.q50
        z = 0.6745 * off / s.mad if m.scored and s.n >= LEAST and s.mad > 0 else np.full(len(q), NAN)
        self.z[m.name][q.index] = z
        below, above, most = self._usual(m, s)
        least, most = self._spare_half(m, s, known(values[reference]), most)
        mine = self.accepted[q.index]    # what a good slide shows counts as usual
        if mine.any():
            below, above = (float(np.fmax.reduce(np.append(side, x))) for side, x in ((below, -z[mine]), (above, z[mine])))
            most = most if math.isnan(most) else float(np.fmax.reduce(np.append(most, own[mine])))
        self.excess[m.name][q.index] = self._excess(m, s, own, off, z, (below, above), least, most)

    @staticmethod
    def _usual(m, s):
        """z below, z above, and the greatest value that are usual."""
        if m.skewed:
            below, above = (skewed_limit(s, side, m.floor) for side in (False, True))
        else:
            below, above = FLAG, FLAG * (1 + FEW / s.n) if m.unsure and s.n else FLAG
        most = m.most or NAN
        if m.widens and s.n >= LEAST:
            most = min(MOST_WIDENED * m.most, max(m.most, s.q50 + FLAG * s.mad / 0.6745))
        if m.spreads:
            most = max(m.most, SHARE_ALONE if s.n < LEAST else SHARE_OF_GROUP * s.q75)
        return below, above, most

    @staticmethod
    def _spare_half(m, s, v, most):
        """What half of a group shows is no reason against one slide of it: limits of values give way. The least and the greatest value that
        are usual."""
        low, high = int((v < m.least_value).sum()), int((v > most).sum())
        return (0 if low > 1 and 2 * low >= len(v) else m.least_value,
                float(np.fmax(most, SHARE_OF_GROUP * s.q75)) if high > 1 and 2 * high >= len(v) else most)

    @staticmethod
    def _excess(m, s, own, off, z, usual, least, most):
        with np.errstate(all="ignore"):
            excess = own / most if most > 0 else np.zeros(len(own))
            excess = np.where(own < least, least / np.fmax(own, 1), excess)
            excess = np.where(np.isnan(own), 0, excess)
            matters = np.abs(off) >= m.least * (s.q50 if m.ratio else 1)
            if m.low_below:
                matters &= (own > s.q50) | (own < m.low_below)
            if m.times:
                matters &= np.fmax(own, s.q50) >= m.times * np.fmin(own, s.q50)
            named = np.where(z < 0, bool(m.low), bool(m.high))
            beyond = np.abs(z) / np.where(z > 0, usual[1], usual[0])
            return np.where(np.isnan(z) | ~named | ~matters, excess, np.fmax(excess, beyond))

    @staticmethod
    def _measure_distances(slides, q, reference):
        """The W1 distance of each slide to the pointwise median of the cumulative histograms."""
        cdf, windows = slides.V["cdf"], slides.V["windows"]
        has, counts = q.index[windows[q.index] > 0], reference[windows[reference] > 0]
        if not len(counts) or q.counted < LEAST:    # too few have no median that says what is usual
            return
        step = max(16, (64 << 20) // (4 * len(counts)))    # bins that are in memory at a time
        median = np.concatenate([np.median(cdf[counts, at:at + step], axis=0) for at in range(0, cdf.shape[1], step)]).astype(float)
        for k in has:
            slides.V[W1][k] = slides.params.bin_width * np.cumsum(np.abs(cdf[k].astype(float) - median))[-1]


def find_accepted(slides, names):
    """Which slides a list names, and the names that no slide has."""
    accepted, unknown = np.zeros(len(slides), bool), []
    for name in names:
        k = slides.find(name)
        if k is None:
            unknown.append(name)
        else:
            accepted[k] = True
    return accepted, unknown


def chance(pools, scores):
    """How many numbers were compared, how many of them are unusual, and how many chance alone would make so."""
    compared = flags = 0
    expected = 0.0
    for q in pools:
        for m in FLAGS:
            if q.kind and q.kind.number == m.name:
                continue
            has = ~np.isnan(scores.z[m.name][q.index])
            compared, flags = compared + int(has.sum()), flags + int((scores.excess[m.name][q.index][has] > 1).sum())
            if has.any():
                expected += has.sum() * (bool(m.low) + bool(m.high)) / 2 * by_chance(q.summary[m.name].n)
    return compared, flags, expected


def is_angle(name):
    return name in BY_NAME and BY_NAME[name].angle
