"""Numbers of the pictures that `h5spec plot` draws: from px back to dB, shares and brightness."""

import re
import xml.etree.ElementTree as ET

import h5py
import numpy as np

from lib import expect

SVG = "{http://www.w3.org/2000/svg}"


def parse(path):
    with open(path, "rb") as f:
        return ET.fromstring(f.read())


def of_class(root, tag, name):
    return [e for e in root.iter(SVG + tag) if name in e.get("class", "").split()]


def texts(root):
    return ["".join(e.itertext()) for e in root.iter(SVG + "text")]


def caption(root):
    return " ".join("".join(e.itertext()) for e in of_class(root, "text", "caption"))


def number(text):
    return float(text.replace(",", ""))


class Panel:
    """The panel of histograms: px to dB and to shares in per cent, by the numbers at its ticks."""

    def __init__(self, root):
        self.root = root
        frame = of_class(root, "rect", "frame")[0]
        self.left, self.top, self.width, self.height = (
            float(frame.get(k)) for k in ("x", "y", "width", "height")
        )
        bottom = self.top + self.height
        x = [
            (float(e.get("x")), number(e.text))
            for e in of_class(root, "text", "middle")
            if e.get("y") and abs(float(e.get("y")) - bottom - 19) < 0.01
        ]
        y = [
            (float(e.get("y")) - 4.5, number(e.text))
            for e in of_class(root, "text", "end")
            if abs(float(e.get("x")) - self.left + 9) < 0.01 and float(e.get("y")) < bottom + 9
        ]
        expect(len(x) >= 4 and len(y) >= 3, "too few numbers at the axes: %s %s", x, y)
        self.to_db = np.poly1d(np.polyfit(*zip(*x), 1))
        self.to_share = np.poly1d(np.polyfit(*zip(*y), 1))
        for ticks, f in ((x, self.to_db), (y, self.to_share)):
            for at, value in ticks:
                expect(abs(f(at) - value) < 0.02, "a number is not at its place")
        self.low, self.high = self.to_db(self.left), self.to_db(self.left + self.width)

    def points(self, path):
        """[n][2]: dB, per cent per dB."""
        d = np.array(
            [
                [float(v) for v in p.split()]
                for p in re.findall(r"[\d.]+ [\d.]+", path.get("d").split("V")[0])
            ]
        )
        return np.column_stack([self.to_db(d[:, 0]), self.to_share(d[:, 1])])

    def curves(self):
        return [
            e for e in of_class(self.root, "path", "curve") if e.find(SVG + "title") is not None
        ]


def shares(path, name, cell=0.5):
    """Middles of the cells, and the share of all values per dB in per cent, by numpy."""
    with h5py.File(path, "r") as f:
        s = f["slides"][name]
        h = s["histogram"][()].astype(float)
        low, high = f["histogram"].attrs["low_db"], f["histogram"].attrs["high_db"]
        width = (high - low) / len(h)
        n = max(1, int(cell / width + 1e-9))
        all_values = float(s.attrs["windows"]) * float(f.attrs["window"]) ** 2
        starts = np.arange(0, len(h), n)
        widths = np.minimum(n, len(h) - starts) * width
        edges = low + starts * width
        return edges + widths / 2, 100 * np.add.reduceat(h, starts) / all_values / widths


def check_curve(points, middles, want, low, high):
    inside = (middles > low) & (middles < high)
    expect(len(points) == inside.sum(), "%d points, not %d", len(points), inside.sum())
    expect(np.abs(points[:, 0] - middles[inside]).max() < 0.02, "points are not at the middles")
    expect(np.abs(points[:, 1] - want[inside]).max() < 0.002, "shares differ by %g",
           np.abs(points[:, 1] - want[inside]).max())


def brightness(colour):
    """Relative luminance as the eye sees it, 0 to 1."""
    rgb = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    y = sum(w * (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4)
            for w, v in zip((0.2126, 0.7152, 0.0722), rgb))
    return 1.16 * y ** (1 / 3) - 0.16 if y > 0.008856 else 9.033 * y


def ladder(root):
    """The colours of the map's bar, from low to high."""
    bar = next(g for g in root.iter(SVG + "g") if g.get("class") == "crisp")
    return [r.get("fill") for r in bar]


def map_cells(root, nx, ny):
    """[ny][nx][2]: first and last number of the window's colour; -1 where hatching shows."""
    bar = ladder(root)
    numbers = {c: (bar.index(c), 255 - bar[::-1].index(c)) for c in bar}
    out = np.full((ny, nx, 2), -1)
    (group,) = [g for g in root.iter(SVG + "g") if "map" in g.get("class", "").split()]
    for path in group:
        for x, y, w, h, back in re.findall(r"M(\d+) (\d+)h(\d+)v(\d+)h-(\d+)z", path.get("d")):
            x, y, w, h = int(x), int(y), int(w), int(h)
            expect(w == int(back) and (out[y : y + h, x : x + w] == -1).all(), "cells overlap")
            out[y : y + h, x : x + w] = numbers[path.get("fill")]
    return out


def blocks_of(values, b):
    out = np.full_like(values, np.nan)
    for y in range(0, values.shape[0], b):
        for x in range(0, values.shape[1], b):
            block = values[y : y + b, x : x + b].astype(float)
            if not np.isnan(block).all():
                out[y : y + b, x : x + b] = np.nanmean(block)
    return out


def window_map(result, name="mean_db"):
    with h5py.File(result, "r") as f:
        (s,) = f["slides"].values()
        values = s["window_" + name][()]
        return values if values.dtype == np.float32 else np.where(values == -32768, np.nan, values * 0.01)


def check_map(root, values, low, high):
    """The map's colours are those of values[ny][nx], and cells without a value are hatched."""
    first, last = np.moveaxis(map_cells(root, *values.shape[::-1]), 2, 0)
    expect((np.isnan(values) == (first == -1)).all(), "hatching is not where no value is")
    want = np.clip((values - low) / (high - low), 0, 1) * 255
    known = first >= 0
    away = np.maximum(first - want, want - last)[known].max()
    expect(away < 0.501, "colours differ by %g of 255", away)
