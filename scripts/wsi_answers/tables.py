"""Numbers of slides, from tables (common/FORMAT.md, "A table"). Only tables that h5spec has made or checked are opened."""
import os

import h5py
import numpy as np

from .numbers import NUMBERS, W1

NAN = float("nan")
SHARP_LOW, SHARP_STEP, SHARP_BINS = -60.0, 0.2, 350    # focus_db of windows of tissue, counted
OCTAVES = 7

# Columns of a table; what a table lacks is not known.
STORED = """width height level windows windows_damaged tiles_missing tiles_damaged group_count mpp_x mpp_y downsample objective_power
    chunk_rows chunk_cols tissue_fraction jpeg_quality jpeg_twice mean_db std_db focus_p50 sharp_p50 sharp_p05 fine_p50 gray_low gray_high
    lines_db lines_period_px lines_deg direction_db direction_deg detail_4px_db detail_7px_db seam_rows seam_columns seam_y_px seam_x_px
    tile_seam_rows tile_seam_columns glass_gray glass_range glass_std glass_rows glass_columns glass_grain glass_grid stain_density stain_hue
    gray_share ink_share colourless_share pieces_sharp bounds_x bounds_y""".split()
ROWS = {"light_step": ("light", 3), "light_step_at": ("light_at", 2), "spectrum_octaves": ("octaves", 4)}
OF_STORE = {"tissue_fraction", "jpeg_twice", "jpeg_quality", "glass_std", "glass_range", "glass_lines", "glass_gray"}
BLOCK = 1024    # histograms that are in memory as 64-bit integers


class Params:
    """How the numbers were computed; equal for all slides."""

    def __init__(self, values):
        self.__dict__.update(values)

    @property
    def bin_width(self):
        return (self.high_db - self.low_db) / self.bins


class Slides:
    """Slides by name: V[number] is a column of numbers, NaN where it is not known."""

    def __init__(self, params, names, V, files=None, failed=None):
        self.params, self.names, self.V = params, names, V
        self.files = files if files is not None else [0] * len(names)     # the number of the result of each slide
        self.failed = failed if failed is not None else [None] * len(names)    # why its last run failed
        self.number = {name: k for k, name in enumerate(names)}

    def __len__(self):
        return len(self.names)

    def find(self, name):
        """The number of a slide; the name may be that of its file: "A.svs" is slide A. None: there is none."""
        stem = name.rpartition(".")[0]
        return self.number.get(name, self.number.get(stem) if stem and len(os.fsencode(stem)) < 256 else None)


def text_of(value):
    return os.fsdecode(value) if isinstance(value, bytes) else str(value)


def params_of(file):
    """The parameters of a table."""
    a, h = file.attrs, file["histogram"].attrs
    values = {k: a[k].item() if k in a else 0 for k in ("window", "stride", "sigma", "radius", "offset", "bins", "tissue_only", "min_tissue",
                                                         "skip_damaged", "roi", "min_roi")}
    values.update({k: text_of(a[k]) if k in a else "" for k in ("taper", "roi_class")})
    return Params(dict(values, low_db=float(h["low_db"]), high_db=float(h["high_db"])))


def _read_columns(table, p):
    """What is stored of all slides of a table, and their cumulative histograms."""
    n = len(table["name"])
    c = {k: table[k][:].astype(float) if k in table else np.full(n, NAN) for k in STORED}
    for name, (ours, wide) in ROWS.items():
        c[ours] = table[name][:] if name in table else np.full((n, wide), NAN)
    c["names"] = [text_of(x) for x in table["name"][:]]
    c["vendor"] = [text_of(x) for x in table["vendor"][:]]
    # tables of earlier versions do not say it: fluorescence got no tissue map
    background = [text_of(x) for x in table["background"][:]] if "background" in table else n * [""]
    c["brightfield"] = np.array([x != "dark" if x else not np.isnan(tissue) for x, tissue in zip(background, c["tissue_fraction"])], bool)
    c["sums"] = table["profile_sums"][:]
    c["sharp"] = table["sharpness"][:]
    c["cdf"] = np.zeros((n, p.bins), np.float32)
    below, above = table["underflow"][:].astype(np.uint64), table["overflow"][:].astype(np.uint64)
    for first in range(0, n, BLOCK):
        part = slice(first, first + BLOCK)
        sums = np.cumsum(table["histograms"][part], axis=1, dtype=np.uint64) + below[part, None]
        total = sums[:, -1] + above[part]
        with np.errstate(all="ignore"):
            c["cdf"][part] = sums.astype(float) / total.astype(float)[:, None]
        c["cdf"][part, -1] = 1
    return c


def _slope(p, sums, windows):
    """Minus the slope of the levels of octaves 6 to 3 over 20 log10 of the frequency."""
    n = p.window
    v, u = np.minimum(np.arange(n), n - np.arange(n)) ** 2, np.arange(n // 2 + 1) ** 2
    weight = np.where((u > 0) & (u < (n // 2) ** 2), 2, 1)
    octave = np.searchsorted([(n / 2 ** j) ** 2 for j in range(OCTAVES, 0, -1)], v[:, None] + u, "right")
    values = np.bincount(octave.ravel(), np.broadcast_to(weight, octave.shape).ravel(), OCTAVES + 1)[1:]
    with np.errstate(all="ignore"):
        level = p.low_db + p.bin_width * (sums.astype(float) / (values * windows[:, None]) + 0.5)
    return -(-1.5 * level[:, 1] - 0.5 * level[:, 2] + 0.5 * level[:, 3] + 1.5 * level[:, 4]) / (5 * (20 * np.log10(2.0)))


def _derive(p, c, missing):
    """The numbers that follow from those that are stored. Of a slide without windows only those of its store are known."""
    c["slope"] = _slope(p, c["sums"], c["windows"])
    c["glass_lines"] = np.fmax(c["glass_rows"], c["glass_columns"])
    c["detail_fall_db"] = c["detail_4px_db"] - c["detail_7px_db"]
    c["seams"] = c["seam_rows"] + c["seam_columns"]
    c["jpeg_quality"] = np.where(c["jpeg_quality"] > 0, c["jpeg_quality"], NAN)
    # what was never scanned is of one colour, and its edges are no steps of the light; the thumbnail shows it whichever windows count
    whole = ~(c["tiles_missing"] > 0)
    c["light_step"] = np.where(whole, np.fmax.reduce(np.abs(c["light"]), axis=1), NAN)
    for name in ("gray_low", "gray_high"):
        c[name] = np.where(whole & c["brightfield"], c[name], NAN)
    c["downsample"] = np.where(c["downsample"] > 0, c["downsample"], 1)
    with np.errstate(all="ignore"):
        um = np.sqrt(c["mpp_x"] * c["mpp_y"]) * c["downsample"]
    c["um"] = np.where((um > 0) & np.isfinite(um), um, NAN)
    for axis, size in (("nx", "width"), ("ny", "height")):
        c[axis] = np.where(c[size] < p.window, 0, (c[size] - p.window) // p.stride + 1)
    c["groups_missing"] = missing
    for m in NUMBERS:
        if m.name in c and m.name not in OF_STORE:
            c[m.name] = np.where(c["windows"] == 0, NAN, c[m.name])
    c["octaves"] = np.where(c["windows"][:, None] == 0, NAN, c["octaves"])
    c["blurred_share"], c[W1] = np.full((2, len(c["um"])), NAN)    # known once the pools are: scores.py
    return c


def read_slides(tables, p, chosen):
    """The slides (table, row, file, missing groups, failed) of tables, by their paths or as open files."""
    parts, first, n = [], {}, 0
    for k, path in tables.items():
        with h5py.File(path, "r") as f:
            parts.append(_read_columns(f["table"], p))
        first[k], n = n, n + len(parts[-1]["names"])
    at = [first[k] + row for k, row, *_ in chosen]
    c = {k: np.concatenate([x.pop(k) for x in parts])[at] for k in list(parts[0]) if k not in ("names", "vendor")} if parts else {}
    texts = {k: [x for part in parts for x in part[k]] for k in ("names", "vendor")}
    if not chosen:
        return Slides(p, [], {})
    V = _derive(p, c, np.array([x[3] for x in chosen], float))
    V["vendor"] = [texts["vendor"][k] for k in at]
    return Slides(p, [texts["names"][k] for k in at], V, [x[2] for x in chosen], [x[4] for x in chosen])


def read_table(path):
    """All slides of a table of h5spec merge."""
    with h5py.File(path, "r") as f:
        if "table" not in f:
            raise ValueError("%s: has copies of slides, not a table; h5spec merge --table makes one" % path)
        p, n = params_of(f), len(f["table/name"])
    return read_slides({0: path}, p, [(0, k, 0, 0, None) for k in range(n)])
