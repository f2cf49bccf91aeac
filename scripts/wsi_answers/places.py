"""Where on a slide a reason shows: its blurred, least sharp and damaged windows, and stain that is unlike that of the others."""
import math
from dataclasses import dataclass

import numpy as np

from .numbers import SPREAD

HALF, NO_VALUE, SCALE = 50, -32768, 0.01    # percent of a window that make it tissue; of the map focus_db
DAMAGED = 8                                 # a bit of the map of flags
DENSITY = np.array([-math.log10(max(k, 1) / 255.0) for k in range(256)])    # the optical density of a level


@dataclass
class Place:
    x: float             # of the slide's width and height
    y: float
    where: str = ""      # in words; "": none


@dataclass
class Maps:
    """What h5spec reads of a result again; None: not asked for, or there is none."""
    focus: np.ndarray = None     # of windows: hundredths of a dB
    tissue: np.ndarray = None    # percent
    flags: np.ndarray = None
    thumbnail: np.ndarray = None


LETTERS = {"focus": "f", "tissue": "t", "flags": "d", "thumbnail": "r"}
NEEDED = {"blurred": ("focus", "tissue"), "dull": ("focus", "tissue"), "damaged": ("flags",), "hue": ("tissue", "thumbnail"),
          "dense": ("tissue", "thumbnail")}


def wanted(scores, V, k):
    """The places that the reasons of slide k need."""
    def beyond(name):
        return scores.excess[name][k] > 1
    return [what for what, is_so in (("blurred", beyond("blurred_share")), ("dull", beyond("focus_p50") and scores.z["focus_p50"][k] < 0),
                                     ("damaged", V["windows_damaged"][k] > 0), ("hue", beyond("stain_hue")),
                                     ("dense", beyond("stain_density") and not scores.z["stain_density"][k] < 0)) if is_so]


def letters(what):
    """The maps that are needed for these places, as h5spec is asked for them."""
    maps = {m for w in what for m in NEEDED[w]}
    return "".join(letter for name, letter in LETTERS.items() if name in maps)


def find_places(p, maps, what, size, below, hue):
    """The places of a slide of this size (width, height). below: dB of focus_db of blurred windows; hue: the usual one, degrees."""
    found, finder = {}, _Finder(p, maps, size)
    for w in what:
        if w == "damaged":
            found[w] = finder.amid((maps.flags & DAMAGED) != 0)
        elif w == "blurred":
            found[w] = finder.amid((finder.focus() < below) & finder.tissue)
        elif w == "dull":
            found[w] = finder.least_sharp()
        else:
            found[w] = finder.strangest(hue if w == "hue" else float("nan"))
    return {w: place for w, place in found.items() if place}


def _name(x, y):
    names = (("in the upper left", "at the top", "in the upper right"), ("on the left", "in the middle", "on the right"),
             ("in the lower left", "at the bottom", "in the lower right"))
    return names[0 if y < 1 / 3 else 1 if y < 2 / 3 else 2][0 if x < 1 / 3 else 1 if x < 2 / 3 else 2]


class _Finder:
    def __init__(self, p, maps, size):
        self.p, self.maps, self.size = p, maps, size
        shape = next(m.shape for m in (maps.tissue, maps.flags, maps.focus) if m is not None)
        self.ny, self.nx = shape
        # the middles of windows, as parts of the slide's size
        self.u, self.v = ((np.arange(n) * p.stride + p.window / 2) / length for n, length in ((self.nx, size[0]), (self.ny, size[1])))
        self.tissue = maps.tissue >= HALF if maps.tissue is not None else np.ones(shape, bool)

    def focus(self):
        return np.where(self.maps.focus == NO_VALUE, np.nan, SCALE * self.maps.focus)

    def amid(self, marks):
        """The window nearest to the middle of those that are marked."""
        y, x = np.nonzero(marks)
        n = len(x)
        if not n:
            return None
        u, v = self.u[x], self.v[y]
        a, b = np.cumsum(u)[-1] / n, np.cumsum(v)[-1] / n
        k = int(np.argmin(np.hypot(u - a, v - b)))
        wide = np.cumsum(u * u + v * v)[-1] / n - a * a - b * b > SPREAD * SPREAD
        return Place(float(u[k]), float(v[k]), "in many places" if wide else _name(a, b))

    def least_sharp(self):
        focus = np.where(self.tissue, self.focus(), np.nan)
        if np.isnan(focus).all():
            return None
        y, x = divmod(int(np.nanargmin(focus)), self.nx)
        return Place(float(self.u[x]), float(self.v[y]), _name(self.u[x], self.v[y]))

    def strangest(self, hue):
        """The tissue of the thumbnail that is farthest from a hue in optical density, or with NaN the densest, over 5 x 5 px."""
        rgb = self.maps.thumbnail
        if rgb is None:
            return None
        h, w = rgb.shape[:2]
        od = DENSITY[rgb]
        strange = d = (od[..., 0] + od[..., 1] + od[..., 2]) / 3
        if not math.isnan(hue):
            x, y = od[..., 0] - d, (od[..., 1] - od[..., 2]) / math.sqrt(3)
            u, v = math.cos(hue * math.pi / 180), math.sin(hue * math.pi / 180)
            strange = np.where(x * u + y * v > 0, np.abs(y * u - x * v), np.hypot(x, y))
        strange = np.where(self.tissue[self._nearest(h, self.size[1], self.ny)[:, None], self._nearest(w, self.size[0], self.nx)], strange, 0)
        padded, sums = np.pad(strange, 2), np.zeros((h, w))
        for b in range(5):
            for a in range(5):
                sums += padded[b:b + h, a:a + w]
        mean = sums / 25
        y, x = divmod(int(np.argmax(mean)), w)
        return Place((x + 0.5) / w, (y + 0.5) / h) if mean[y, x] > 0 else None

    def _nearest(self, n, length, windows):
        """The window whose middle is nearest to each pixel of the thumbnail."""
        at = np.floor(((np.arange(n) + 0.5) / n * length - (self.p.window - self.p.stride) / 2) / self.p.stride)
        return np.clip(at, 0, windows - 1).astype(int)
