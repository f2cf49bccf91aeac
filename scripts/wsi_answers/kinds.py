"""Pools with slides of two kinds, as from two scanners or stains, and slides that are unlike all others."""
import math
from dataclasses import dataclass

import numpy as np

from .numbers import (BY_NAME, GAP_LEAST, GAP_MOST, GAP_OF_DETAIL, GAP_OF_KIND, GAP_OF_ONE, GAP_OF_STAIN, KIND_SHARE, LEAST_BEYOND,
                      LEAST_KIND, LEAST_OF_TWO, LEAST_USUAL, OWN_SCALE)
from .scores import is_angle, known, quantile, summarise, turn, unwrap


# The kind of a slide. Of two kinds of one size none is the smaller, whatever the slides are called.
USUAL, SMALLER, HALF, OTHER_HALF = range(4)


@dataclass
class Kind:
    """That a pool has slides of two kinds."""
    other: np.ndarray    # of the pool's slides: the kind of each
    title: str           # in which number they differ, in words
    second: str          # and in which other; "": none
    number: str          # the name of the number, if it alone separates the kinds: then it sets no flags; else ""
    n: int
    others: int          # slides of the smaller kind, or half
    stain: bool = False


class Kinds:
    """other[k]: the kind of slide k in its pool; lone[k]: how far it is from all others, 0 if it is not alone."""

    def __init__(self, slides, pools, scores):
        self.other, self.lone = np.zeros(len(slides), int), np.zeros(len(slides))
        for q in pools:
            gap, self.lone[q.index] = _find_gap(slides.V, q)
            kind = _find_two(slides.V, q) if len(q) >= LEAST_OF_TWO else None
            if kind and _is_blur(kind, q, scores):
                kind = None
            if not kind and gap and (gap.stain or not _is_blur(gap, q, scores)):
                kind = gap
            q.kind = kind
            if kind:
                self.other[q.index] = kind.other


def _is_blur(kind, q, scores):
    """Is the smaller kind, or one half, that of the blurred slides? To judge them apart would hide them."""
    sharpness = ("focus_p50", "sharp_p50", "blurred_share", "detail_fall_db")
    flags = np.any([scores.excess[m][q.index] > 1 for m in sharpness], axis=0)
    return any(4 * int(((kind.other == k) & flags).sum()) >= 3 * kind.others for k in (SMALLER, HALF, OTHER_HALF))


# --- two kinds by one number, or by two ---

# Numbers that say how a slide was made, more than what is on it; the last two say how sharp it is, too. Pairs are of those from
# FIRST_OF_PAIRS on, and of the steps between octaves of the spectrum.
HOW_MADE = ("stain_density", "stain_hue", "jpeg_quality", "slope", "glass_std", "fine_p50", "focus_p50")
STEPS = ("balance of coarse and middle detail", "balance of middle and fine detail", "balance of fine and finest detail")
FIRST_OF_PAIRS, DIRECTIONS = 3, 18
# The separation that one kind of slides reaches in at most 1 of 200 groups, for numbers that are normal, uniform, or log-normal with a
# sigma of 0.5 or 0.8: from so many slides on, of one number, of a pair.
NEEDED = ((LEAST_OF_TWO, 6.8, 7.6), (30, 6.5, 7.3), (40, 6.4, 7.0), (60, 5.9, 6.3), (100, 5.4, 5.7), (200, 4.6, 4.6), (300, 4.4, 4.4))


def _split(x):
    """Where values are split best: the separation, the value, how many are below, how many there are."""
    v = known(x)
    n = len(v)
    if n < LEAST_OF_TWO:
        return 0, 0, 0, 0
    least = n // KIND_SHARE if n > KIND_SHARE * LEAST_KIND else LEAST_KIND
    d, k = v - v[0], np.arange(1, n)
    sums, squares = np.cumsum(d), np.cumsum(d * d)
    low, rest = sums[:-1] / k, (sums[-1] - sums[:-1]) / (n - k)
    below = np.maximum(0, squares[:-1] - k * low * low)
    above = np.maximum(0, squares[-1] - squares[:-1] - (n - k) * rest * rest)
    common = (rest - low) / np.sqrt((below + above) / n + 1e-18)
    common[(k < least) | (k > n - least) | ~(v[1:] > v[:-1])] = 0
    at = int(np.argmax(common))
    if not common[at] > 0:
        return 0, 0, 0, n
    wider = max(below[at] / at, above[at] / (n - at - 2))
    return (rest[at] - low[at]) / math.sqrt(wider + 1e-18), (v[at] + v[at + 1]) / 2, at + 1, n


def _find_two(V, q):
    """The best split of a pool, as a part of what is needed; None: it is one kind."""
    columns = [unwrap(V[m][q.index]) if is_angle(m) else V[m][q.index] for m in HOW_MADE]
    columns += list(np.diff(V["octaves"][q.index], axis=1).T)
    titles = [BY_NAME[m].title for m in HOW_MADE] + list(STEPS)
    v = []
    for x in columns:
        s = summarise(x)
        v.append((x - s.q50) / s.mad if s.mad > 0 else np.full(len(q), np.nan))
    tries = [(x, a, None) for a, x in enumerate(v)]
    for a in range(FIRST_OF_PAIRS, len(v)):
        for b in range(a + 1, len(v)):
            tries += [(math.cos(math.pi * d / DIRECTIONS) * v[a] + math.sin(math.pi * d / DIRECTIONS) * v[b], a, b)
                      for d in range(1, DIRECTIONS) if 2 * d != DIRECTIONS]
    best, kind = 1.0, None
    for x, a, b in tries:
        separation, value, low, n = _split(x)
        needed = [row for row in NEEDED if row[0] <= n] or [NEEDED[0]]
        part = separation / needed[-1][1 if b is None else 2]
        if part <= best:
            continue
        best, high = part, n - low <= low
        with np.errstate(all="ignore"):
            above, below = x > value, x < value
        marks = (HALF, OTHER_HALF) if 2 * low == n else (SMALLER, USUAL) if high else (USUAL, SMALLER)
        other = np.where(above, marks[0], np.where(below, marks[1], USUAL))    # what is not known is of neither
        number = HOW_MADE[a] if b is None and a < len(HOW_MADE) - 2 else ""
        kind = Kind(other, titles[a], "" if b is None else titles[b], number, n, n - low if high else low)
    return kind


# --- a gap in several numbers together ---

# Numbers of stain and of detail, and by how much slides of one kind differ in them: about the MAD of groups of real pictures. The
# density is its natural logarithm; the last three are steps between octaves of the spectrum.
GAP = (("stain_density", 0.25), ("stain_hue", 12), ("sharp_p50", 1), ("fine_p50", 0.8), ("focus_p50", 2), ("slope", 0.1),
       ("coarse detail", 0.8), ("middle detail", 1), ("fine detail", 0.8))
STAINS, HUE = 2, 1


class _Tree:
    """A minimum spanning tree of the points (Prim, 1957): the distance of two slides is the root mean square of their differences, each
    divided by its usual difference within one kind. Points are in the order in which the tree grows."""

    def __init__(self, x):
        n = len(x)
        self.x, order = x, np.arange(n)
        # in a pool that varies more: three quarters of its robust standard deviation, so that no number outweighs all others
        columns = [unwrap(x[:, j]) if j == HUE else x[:, j] for j in range(len(GAP))]
        mads = [quantile(np.sort(np.abs(v - quantile(np.sort(v), 0.5))), 0.5) for v in columns]
        self.scale = [max(scale, OWN_SCALE * mad / 0.6745) for (_, scale), mad in zip(GAP, mads)]
        line, parent, nearest = np.full(n, np.inf), np.zeros(n, int), np.full(n, np.inf)
        for k in range(1, n):    # `line`: the length of the edge to the points before
            last, rest = order[k - 1], order[k:]
            d = self.apart(last, rest, 0, len(GAP))
            nearest[last] = min(nearest[last], d.min())
            nearest[rest] = np.minimum(nearest[rest], d)
            closer = d < line[rest]
            line[rest[closer]], parent[rest[closer]] = d[closer], k - 1
            j = k + int(np.argmin(line[rest]))
            order[k], order[j] = order[j], order[k]
        self.order, self.line, self.parent, self.beyond = order, line[order], parent[order], np.ones(n, int)
        for k in range(n - 1, 0, -1):
            self.beyond[self.parent[k]] += self.beyond[k]
        self.usual = max(quantile(np.sort(nearest), 0.75), LEAST_USUAL)

    def apart(self, a, others, first, end):
        """The distances of point a to others over numbers first .. end - 1."""
        total = np.zeros(len(others))
        for j in range(first, end):
            d = self.x[a, j] - self.x[others, j]
            d = (turn(self.x[a, j], self.x[others, j]) if j == HUE else d) / self.scale[j]
            total += d * d
        return np.sqrt(total / (end - first))

    def smaller_part(self, at):
        """The smaller part that the edge of point `at` cuts off, as marks of the points of x."""
        inside = np.zeros(len(self.x), bool)
        inside[at] = True
        for k in range(at + 1, len(self.x)):
            inside[k] = inside[self.parent[k]]
        out = np.zeros(len(self.x), bool)
        out[self.order] = inside == (2 * self.beyond[at] <= len(self.x))
        return out

    def is_alone(self, point, others):
        """Do all others differ from it in stain and in detail? A blurred slide has the stain of the others, and one with ink their detail."""
        return (self.apart(point, others, 0, STAINS).min() >= GAP_OF_STAIN * self.usual and
                self.apart(point, others, STAINS, len(GAP)).min() >= GAP_OF_DETAIL * self.usual)

    def name_most(self, inside, first, end):
        """The number in which both parts differ most, if by its scale; ""."""
        name, most = "", 1.0
        for j in range(first, end):
            v = unwrap(self.x[:, j]) if j == HUE else self.x[:, j]
            a, b = (quantile(np.sort(v[marks]), 0.5) for marks in (inside, ~inside))
            d = abs(float(turn(a, b)) if j == HUE else a - b) / self.scale[j]
            if d > most:
                most, name = d, BY_NAME[GAP[j][0]].title if GAP[j][0] in BY_NAME else GAP[j][0]
        return name


def _find_gap(V, q):
    """A kind beyond a gap, or None; and of each slide how many times the usual distance it is alone."""
    lone = np.zeros(len(q))
    with np.errstate(all="ignore"):
        x = np.column_stack([np.log(V["stain_density"][q.index])] + [V[m][q.index] for m, _ in GAP[1:6]] +
                            list(np.diff(V["octaves"][q.index], axis=1).T))
    has = np.nonzero(np.isfinite(x).all(1))[0]
    n = len(has)
    if not GAP_LEAST <= n <= GAP_MOST:
        return None, lone
    tree = _Tree(x[has])
    least, widest, most = max(n // KIND_SHARE, LEAST_BEYOND), 0, GAP_OF_KIND
    for k in range(1, n):
        ratio, part = tree.line[k] / tree.usual, min(tree.beyond[k], n - tree.beyond[k])
        if part >= least and ratio > most:
            widest, most = k, ratio
        elif part < least and ratio > GAP_OF_ONE:
            inside = tree.smaller_part(k)
            outside = np.nonzero(~inside)[0]
            for i in np.nonzero(inside)[0]:
                if tree.is_alone(i, outside):
                    lone[has[i]] = max(lone[has[i]], ratio)
    if not widest:
        return None, lone
    inside = tree.smaller_part(widest)
    stain, detail = tree.name_most(inside, 0, STAINS), tree.name_most(inside, STAINS, len(GAP))
    other, half = np.full(len(q), USUAL), 2 * int(inside.sum()) == n
    other[has] = np.where(inside, HALF if half else SMALLER, OTHER_HALF if half else USUAL)
    return Kind(other, stain or detail or "several numbers together", detail if stain else "", "", len(q), int(inside.sum()), bool(stain)), lone
