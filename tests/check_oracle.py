"""Every number of a result and of a store against its definition in float64 and integers, for random slides and options.

A run prints its seed; ORACLE_SEED=N repeats it.
"""
import random

import h5py
import numpy as np

import reference
import tissue_rules
from check_features import (COUNTED, DAMAGED, EDGE, LEFT_OUT, MISSING, NO_TISSUE, check_derived, check_steps, compare_result, percent_of, slide_of,
                            tissue_areas, touching)
from lib import *

SEED = int(os.environ.get("ORACLE_SEED", time.time_ns() // 1000 % 1000000))
STUB = os.path.join(BUILD, "tests", "h5spec_stub")
JPEG_TILES = os.path.join(BUILD, "tests", "jpeg_tiles")


class Choice:
    """A random slide, how it is converted, and how it is computed."""

    def __init__(self, seed):
        r = random.Random(seed)
        wide, high = r.randint(262, 800), r.randint(262, 800)
        self.slide = ["--size", "%dx%d" % (wide, high), "--tile", r.choice(("64", "128", "240", "256")), "--seed", seed % 1000, "--photometric", "ycbcr"]
        if r.random() < 0.6:
            self.slide += ["--tissue", r.choice(("section", "none", "rect:0,0,%d,%d" % (wide // 2, high), "rect:40,70,%d,%d" % (wide - 60, high // 3)))]
        self.damaged = r.random() < 0.5
        if self.damaged:
            self.slide += ["--missing", "0,0", "--garbage", "1,1"]
        self.conversion = ["--stripe-rows", r.choice((256, 512)), "--group-bytes", r.choice(("1", "400K", "256M"))]
        self.conversion += r.choice(((), (), ("--gray",), ("--tissue-only",), ("--tissue-thresholds", "0.3,0.1")))
        self.codec = r.choice(("deflate", "none", "keep", "lz4"))
        p = self.parameters = {"window": r.choice((64, 128, 256)), "sigma": r.choice((0, 0.5, 1.0, 1.5)), "bins": r.choice((400, 1600, 3001)),
                               "hann": r.random() < 0.3}
        p["stride"] = r.choice((p["window"] // 2, p["window"], 50, 100))
        p["stride"] = min(p["stride"], p["window"])
        p["low"], p["high"] = r.choice(((0.0, 160.0), (0.0, 160.0), (10.0, 90.0)))
        self.only, self.skip = r.random() < 0.5, r.random() < 0.4
        self.min_tissue = r.choice((0.0, 0.1, 0.5, 0.9, 1.0)) if self.only else 0.5
        self.run = ["--window", p["window"], "--stride", p["stride"], "--sigma", p["sigma"], "--bins", p["bins"], "--range", "%g:%g" % (p["low"], p["high"]),
                    "--taper", "hann" if p["hann"] else "rectangular"]
        self.run += ["--tissue-only", "--min-tissue", self.min_tissue] * self.only + ["--skip-damaged"] * self.skip
        self.run += ["--accept-damage"] * self.damaged
        self.threads, self.order = r.choice((1, 2)), r

    def stores(self):
        """The store, and one of the same pixels that h5py reads."""
        slide = made(*self.slide, name="oracle")
        more = ["--accept-damage"] if self.damaged else []
        return [store(slide, "--codec", codec, *self.conversion, *more) for codec in (self.codec, "none")]

    def __str__(self):
        return "ORACLE_SEED=%d: mkslide %s; wsi2h5 --codec %s %s; h5spec run %s" % (SEED, " ".join(map(str, self.slide)), self.codec,
            " ".join(map(str, self.conversion)), " ".join(map(str, self.run)))


def flags_of(path, c):
    """[ny][nx] of window_flags, from the store alone."""
    n, stride, radius = c.parameters["window"], c.parameters["stride"], int(np.ceil(3 * c.parameters["sigma"]))
    with h5py.File(path, "r") as f:
        ny, nx = ((f.attrs[k] - n) // stride + 1 for k in ("height", "width"))
    flags, areas = np.zeros((ny, nx), int), tissue_areas(path, (ny, nx), n, stride)
    for bit, status in ((MISSING, 1), (DAMAGED, 2), (LEFT_OUT, 3)):
        flags |= bit * touching(path, status, n, stride, radius)
    flags[[0, -1]] |= EDGE
    flags[:, [0, -1]] |= EDGE
    lacks = areas < c.min_tissue * n * n if c.only else np.zeros((ny, nx), bool)
    flags |= NO_TISSUE * lacks
    return flags | COUNTED * ~(lacks | ((flags & DAMAGED != 0) & c.skip)), percent_of(areas, (ny, nx), n)


def check_flags(data, path, c):
    flags, percent = flags_of(path, c)
    expect(np.array_equal(data["window_flags"], flags), "flags: %s, not %s", data["window_flags"].tolist(), flags.tolist())
    expect(np.array_equal(data["window_tissue"], percent), "tissue of windows")


def check_histogram(got, path, c):
    """Counts, and means of the histogram, of the windows that count."""
    p, (attrs, data, _) = c.parameters, got
    counted = data["window_flags"] & COUNTED != 0
    width, taper = (p["high"] - p["low"]) / p["bins"], 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(p["window"]) / p["window"])
    want = np.zeros(p["bins"] + 2, np.int64)
    smooth = reference.smooth(reference.gray(pixels(path)), p["sigma"])
    for j, i, db in reference.decibels(smooth, p["window"], p["stride"], taper if p["hann"] else None):
        if counted[j, i]:
            k = np.clip(np.floor((db - p["low"]) / width).astype(np.int64), -1, p["bins"])
            want += np.bincount(k.ravel() + 1, minlength=p["bins"] + 2)
    have = np.concatenate([[attrs["underflow"]], data["histogram"], [attrs["overflow"]]]).astype(np.int64)
    expect(have.sum() == want.sum() == attrs["samples"] == attrs["windows"] * p["window"] ** 2 == counted.sum() * p["window"] ** 2, "samples")
    moved = np.abs(have - want).sum() / 2 / max(1, want.sum())
    expect(moved * width <= 0.001, "%.4f of the mass in another bin of %g dB", moved, width)  # 1 % of bins of 0.1 dB: float32
    middle, n = p["low"] + (np.arange(p["bins"]) + 0.5) * width, data["histogram"].sum()
    mean = (data["histogram"] * middle).sum() / n if n else np.nan
    std = np.sqrt((data["histogram"] * (middle - mean) ** 2).sum() / n) if n else np.nan
    expect(np.allclose([attrs["mean_db"], attrs["std_db"]], [mean, std], rtol=0, atol=1e-6, equal_nan=True), "mean and std: %s, %s", mean, std)
    for name, bit in (("missing", MISSING), ("damaged", DAMAGED), ("left_out", LEFT_OUT)):
        expect(attrs["windows_" + name] == (counted & (data["window_flags"] & bit != 0)).sum(), "windows_%s", name)


def in_parts(path, c, whole):
    """The groups one by one, merged in random order: the same."""
    groups = int(attributes_of(path)["group_count"])
    parts = [spectrum(path, *c.run, "--groups", "%d-%d" % (g, g)) for g in range(1, groups + 1)]
    c.order.shuffle(parts)
    out = os.path.join(tmp(), "parts.h5")
    run(H5SPEC, "merge", "-q", "-o", out, *parts)
    equal(content(out), content(whole), "groups in another order")


def of_random_choices(tries, check):
    print("# ORACLE_SEED=%d" % SEED)
    for k in range(tries):
        c = Choice(SEED * 100 + k)
        try:
            check(c)
        except Skip:
            raise
        except Exception as e:
            raise Failed("%s | %s" % (c, e)) from e


def test_every_number_of_random_results():
    def check(c):
        path, twin = c.stores()
        result = os.path.join(tmp("oracle"), "r.h5")
        run(H5SPEC, "run", "-q", "--device", "cpu", "-j", c.threads, "-o", result, *c.run, path)
        got = compare_result(result, path, twin, min_tissue=c.min_tissue, **c.parameters)
        check_flags(got[1], path, c)
        check_histogram(got, twin, c)
        in_parts(path, c, result)
    of_random_choices(by_tier(4, 12, 60), check)


def test_random_results_over_the_stub_of_cuda():
    """What the stub computes as a GPU would: steps, tissue, flags, and all that follows from maps and spectra."""
    if not os.path.exists(STUB):
        raise Skip("this build has no CUDA part: nvcc was not found, or CUDA=0")

    def check(c):
        path, twin = c.stores()
        result, p = os.path.join(tmp("oracle"), "r.h5"), c.parameters
        run(STUB, "run", "-q", "--device", "cuda", "-j", c.threads, "-o", result, *c.run, path)
        got = slide_of(result)
        check_flags(got[1], path, c)
        check_steps(got[1], twin, window=p["window"], stride=p["stride"])
        check_derived(got, (p["high"] - p["low"]) / p["bins"], p["window"], p["stride"])
    of_random_choices(by_tier(4, 12, 60), check)


# --- the store ---

GLASS = ("gray", "range", "std", "rows", "columns", "grain", "grid")


def glass_cells(tile):
    """Of each cell of 32 x 32 px of a tile's gray: mean, std, gray of the darkest neighbour, the largest part of the variance, of all and without rows,
    columns and both, and the places of the greatest steps of rows and of columns (convert/tile/scan_traits.h)."""
    ny, nx = tile.shape[0] // 32, tile.shape[1] // 32
    c = tile[:ny * 32, :nx * 32].reshape(ny, 4, 8, nx, 4, 8).transpose(0, 3, 1, 4, 2, 5)  # [cell][block][pixel]
    block = c.mean((4, 5), keepdims=True)
    rows, columns = c.mean(5, keepdims=True) - block, c.mean(4, keepdims=True) - block
    parts = [((block - block.mean((2, 3), keepdims=True)) ** 2).mean((2, 3, 4, 5)), (rows ** 2).mean((2, 3, 4, 5)),
             (columns ** 2).mean((2, 3, 4, 5)), ((c - block - rows - columns) ** 2).mean((2, 3, 4, 5))]
    gray = block.mean((2, 3, 4, 5))
    wide = np.pad(gray, 1, constant_values=np.inf)
    least = np.min([wide[y:y + ny, x:x + nx] for y in range(3) for x in range(3)], axis=0)
    kinds = [np.argmax([np.where(p > 1e-9, p, 0) * k for p, k in zip(parts, of)], axis=0) for of in ((1, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 0, 0, 1))]
    places = []
    for lines in (rows[..., 0], columns[:, :, :, :, 0]):
        sums = np.abs(np.diff(lines, axis=-1)).sum((2, 3))
        most, second = np.sort(sums, -1)[..., -1], np.sort(sums, -1)[..., -2]
        places.append(np.where((most > 1e-6) & (20 * most >= 21 * second - 1e-6), 1 + sums.argmax(-1), 0))
    return np.stack([gray, np.sqrt(sum(parts)), np.floor(least + 1e-9), *kinds, *places], -1).reshape(-1, 9)


def glass_of(path, dark):
    gray, cells = reference.gray(pixels(path)), []
    rows, columns = (attributes_of(path)[k] for k in ("chunk_rows", "chunk_cols"))
    for y in range(0, gray.shape[0], rows):
        for x in range(0, gray.shape[1], columns):
            cells.append(glass_cells(gray[y:y + rows, x:x + columns]))
    cells = np.concatenate(cells)
    cells = cells[cells[:, 2] >= dark]
    scanned = cells[(cells[:, 0] < 255) | (cells[:, 1] > 0)]
    cells = scanned if len(scanned) >= 32 else cells
    n = len(cells)
    if n < 32:
        return dict.fromkeys(GLASS)
    level, std = np.sort(cells[:, 0]), np.sort(cells[:, 1])
    counts = [np.bincount(cells[:, k].astype(int), minlength=8)[1:] for k in (7, 8)]
    grids = [1 + c.argmax() if 2 * c.max() > n else -1 for c in counts]
    which = 3 + (cells[:, 7] == grids[0]) + 2 * (cells[:, 8] == grids[1])
    kind = cells[np.arange(n), which.astype(int)]
    return dict(zip(GLASS, (level[n // 2], level[n - 1 - n // 20] - level[n // 20], std[n // 2], *(float((kind == k).mean()) for k in (1, 2, 3)),
                            max(c.max() for c in counts) / n)))


def test_what_the_glass_shows():
    r, found = random.Random(SEED), 0
    print("# ORACLE_SEED=%d" % SEED)
    for k in range(by_tier(4, 12, 60)):
        slide = made("--size", "%dx%d" % (r.randint(400, 1000), r.randint(400, 1000)), "--tile", r.choice(("128", "160", "256")), "--compression", "deflate",
                     "--seed", SEED % 1000 + k, "--tissue-fraction", r.choice(("0.05", "0.3", "0.8", "1")), name="glass")
        path = store(slide, "--codec", "none")
        with h5py.File(path, "r") as f:
            dark = f["tissue/mask"].attrs["dark"]
            want = glass_of(path, dark)
            for name in GLASS:
                got, value = f.attrs.get("glass_" + name), want[name]
                expect((got is None) == (value is None), "%s: glass_%s %s, not %s", path, name, got, value)
                expect(value is None or abs(got - value) < 1e-6, "%s: glass_%s %s, not %s", path, name, got, value)
            found += want["gray"] is not None
    expect(found, "no slide had glass")


SAMPLED_ROWS = 4  # of tiles that are decoded anyway, one row in so many counts (convert/tissue/tissue.h)


def tissue_of(path, rule, r):
    """The mask of a store of tiles that are not JPEG, of one level, from its pixels; glass and dark of the rule `saturation`."""
    p = pixels(path)
    high, wide, _ = p.shape
    mean = np.stack([np.stack([p[y:y + 32:SAMPLED_ROWS, x:x + 32].reshape(-1, 3).mean(0) for x in range(0, wide, 32)]) for y in range(0, high, 32)])
    if rule:
        return tissue_rules.by_thresholds(mean, *rule), None, None
    mask, glass, dark = tissue_rules.by_saturation(mean)
    return tissue_rules.closed(mask), glass, dark


def test_where_the_tissue_is():
    r = random.Random(SEED)
    print("# ORACLE_SEED=%d" % SEED)
    for k in range(by_tier(3, 12, 80)):
        slide = made("--size", "%dx%d" % (r.randint(300, 900), r.randint(300, 900)), "--tile", r.choice(("64", "128", "256")), "--compression",
                     r.choice(("deflate", "lzw", "none")), "--stain", r.choice(("he", "pale", "ihc")), "--seed", SEED % 1000 + k,
                     "--tissue-fraction", r.choice(("0.02", "0.2", "0.5", "0.9", "1")), name="tissue")
        rule = r.choice((None, None, (r.randint(0, 255) / 256, r.randint(0, 80) / 256)))
        options = ["--tissue-thresholds", "%g,%g" % rule] if rule else []
        path = store(slide, "--codec", r.choice(("none", "deflate")), "--stripe-rows", r.choice((256, 1024)), *options)
        want, glass, dark = tissue_of(path, rule, r)
        with h5py.File(path, "r") as f:
            mask, attributes = f["tissue/mask"][()], dict(f["tissue/mask"].attrs)
        what = "%s %s: %d of %d cells, %s, not %s" % (path, options, (mask != want).sum(), mask.size, attributes, (glass, dark))
        expect((mask != want).mean() <= (0 if mask.size < 500 else 0.002), what)
        expect(abs(attributes["tissue_fraction"] - mask.mean()) < 1e-12, "fraction: %s", what)
        expect(rule or (attributes["glass"] == glass and abs(attributes["dark"] - dark) < 1e-6), "%s", what)


# --- the slide's JPEG tiles ---

def twice_of(blocks):
    """convert/tile/scan_traits.h: the mean over z of the largest rise of S(f). blocks: libjpeg's coefficients, [n][10]."""
    rises = []
    for z in range(1, 10):
        size = np.abs(blocks[:, z])
        n = np.bincount(size[(size >= 1) & (size <= 64)], minlength=65)[1:65]
        if n.sum() >= 500:
            f = np.arange(129) / 256
            s = (n * np.cos(2 * np.pi * f[:, None] * np.arange(1, 65))).sum(1) / n.sum()
            rises.append((s - np.minimum.accumulate(s)).max())
    return min(np.mean(rises), 1) if rises else None


def sample_of_tissue(mask, size, side):
    """The same header: whether each tile, row by row, is in the sample. mask: of cells of 32 px, or None; size: (rows, columns) of the slide."""
    starts = [(y, x) for y in range(0, size[0], side) for x in range(0, size[1], side)]
    cells = np.array([1 if mask is None else mask[y // 32:(y + side + 31) // 32, x // 32:(x + side + 31) // 32].sum() for y, x in starts], np.int64)
    cells = cells if cells.any() else np.ones_like(cells)
    points = -(-32 * np.concatenate([[0], np.cumsum(cells)]) // cells.sum())
    blocks = [(min(side, size[0] - y) // 8) * (min(side, size[1] - x) // 8) for y, x in starts]
    return points[1:] > points[:-1], blocks


def test_whether_the_tiles_were_compressed_twice():
    r = random.Random(SEED)
    print("# ORACLE_SEED=%d" % SEED)
    for k in range(by_tier(2, 6, 40)):
        before, ycbcr = r.choice((None, r.randint(20, 70))), r.random() < 0.5
        options = ["--quality", r.randint(40, 95)] + ["--before", before] * (before is not None)
        options += ["--photometric", "ycbcr", "--subsampling", r.choice(("444", "422", "420"))] * ycbcr
        side = r.choice((128, 240))
        slide = made("--size", "%dx%d" % (r.randint(300, 1300), r.randint(300, 1300)), "--tile", side, "--seed", SEED % 1000 + k,
                     "--tissue-fraction", r.choice(("0.05", "0.3", "1")), *options, name="twice")
        path = store(slide, *r.choice(((), ("--codec", "jpeg"), ("--codec", "none", "-j", "1"))))
        with h5py.File(path, "r") as f:
            got, size = f.attrs.get("jpeg_twice"), (f.attrs["height"], f.attrs["width"])
            chosen, blocks = sample_of_tissue(f["tissue/mask"][()] if "tissue" in f else None, size, side)
        luma = np.frombuffer(run(JPEG_TILES, slide, "luma").stdout, np.int16).reshape(-1, 10)
        want = twice_of(luma[np.repeat(chosen, blocks)])
        expect((got is None) == (want is None) and (want is None or abs(got - want) < 1e-6), "%s: %s, not %s", options, got, want)


if __name__ == "__main__":
    main(globals())
