"""Features: each against a float64 computation from its definition; merges, samples and flags."""
import functools
import math

import h5py
import numpy as np

import reference
from lib import *

FILL = -32768
COUNTED, NO_TISSUE, MISSING, DAMAGED, LEFT_OUT, NO_GROUP, EDGE, OUTSIDE = (1 << k for k in range(8))
FILLED = MISSING | DAMAGED | LEFT_OUT
# the octaves 2^-j <= f < 2^-(j-1): of level_db, of what focus_db subtracts, and of the finest detail
MIDDLE, NEXT, COARSE, FINE = 3, 4, 6, 2
HALF, UNKNOWN = 50, 255  # percent of a window that is tissue


def slide_of(path):
    """Attributes, datasets and attributes of datasets of the only slide of a result."""
    with h5py.File(path, "r") as f:
        (s,) = f["slides"].values()
        return dict(s.attrs), {k: d[()] for k, d in s.items()}, {k: dict(d.attrs) for k, d in s.items()}


# --- the definitions ---


def frequencies(window):
    """abs(f) of every value of numpy's full transform, cycles per px."""
    one = np.fft.fftfreq(window)
    return np.hypot(one[:, None], one[None, :])


def bins_of(db, bins, low, high):
    k = np.floor((db - low) * (bins / (high - low))).astype(np.int64)
    return np.clip(k, 0, bins - 1)


def splitmix(i, j):
    z = (j << 32 | i) + 0x9E3779B97F4A7C15 & (1 << 64) - 1
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
    z = (z ^ z >> 27) * 0x94D049BB133111EB & (1 << 64) - 1
    return (z ^ z >> 31) >> 1


def sample(tissue, most):
    """Windows (j, i) of one kind in the sample: those of the smallest hashes; and the threshold."""
    hashes = sorted((splitmix(i, j), j, i) for j, i in np.argwhere(tissue).tolist())
    size = min(len(hashes), most, max(256, len(hashes) // 16))
    threshold = hashes[size][0] if size < len(hashes) else (1 << 63) - 1
    return {(j, i) for _, j, i in hashes[:size]}, threshold


class Features:
    """Everything that versions 2 and 3 add, in float64. tissue, counted: [ny][nx] of truth."""

    def __init__(self, pixels, tissue, counted=None, filled=None, window=256, stride=128, sigma=1.0, bins=1600,
                 low=0.0, high=160.0, hann=False):
        taper = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window) if hann else None
        f, width = frequencies(window), (high - low) / bins
        rings = {j: (f >= 2.0 ** -j) & (f < 2.0 ** (1 - j)) for j in range(7, 0, -1)}
        counted = np.ones(tissue.shape, bool) if counted is None else counted
        filled = np.zeros(tissue.shape, bool) if filled is None else filled
        self.level = np.full(tissue.shape, np.nan)
        self.mean = np.full(tissue.shape, np.nan)
        self.focus = np.full(tissue.shape, np.nan)
        self.fine = np.full(tissue.shape, np.nan)
        self.sharp = np.full(tissue.shape, np.nan)
        self.samples, self.thresholds = zip(*(sample(of, most) for of, most in ((tissue, 4096), (~tissue, 1024))))
        self.spectra = [np.zeros((window, window // 2 + 1), np.int64) for _ in range(2)]
        self.windows = [0, 0]
        sums = dict.fromkeys(rings, 0)
        smooth = reference.smooth(reference.gray(pixels), sigma)
        for j, i, db in reference.decibels(smooth, window, stride, taper):
            if not counted[j, i]:
                continue
            self.mean[j, i] = smooth[j * stride:j * stride + window, i * stride:i * stride + window].mean()
            k = bins_of(db, bins, low, high)
            level = {r: low + width * (k[ring].mean() + 0.5) if ring.any() else np.nan for r, ring in rings.items()}
            self.level[j, i], self.focus[j, i] = level[MIDDLE], level[MIDDLE] - level[COARSE]
            self.fine[j, i] = level[FINE] - level[MIDDLE]
            self.sharp[j, i] = level[MIDDLE] - 0.75 * level[NEXT] - 0.25 * level[COARSE]
            for r, ring in rings.items():
                sums[r] += k[ring].sum()
            for kind in range(2):
                if (j, i) in self.samples[kind] and not filled[j, i]:
                    self.spectra[kind] += k[:, :window // 2 + 1]
                    self.windows[kind] += 1
        n = counted.sum()
        self.profile = np.array([low + width * (sums[r] / (n * ring.sum()) + 0.5) if n and ring.any() else np.nan
                                 for r, ring in rings.items()])
        x = [20 * np.log10(np.sqrt(2.0 ** -j * 2.0 ** (1 - j))) for j in (6, 5, 4, 3)]
        self.slope = -np.polyfit(x, self.profile[1:5], 1)[0] if n else np.nan


def near(got, want, most, what):
    got, want = np.asarray(got, float), np.asarray(want, float)
    expect(np.array_equal(np.isnan(got), np.isnan(want)), "%s: other places have values", what)
    if np.isfinite(want).any():
        expect(np.nanmax(np.abs(got - want)) <= most, "%s differs by %g", what, np.nanmax(np.abs(got - want)))


def decibels(stored):
    return np.where(stored == FILL, np.nan, stored * 0.01)


def tissue_areas(path, shape, window=256, stride=128):
    """Px of each window that are tissue, from the store's map; None without one."""
    with h5py.File(path, "r") as f:
        if "tissue" not in f:
            return None
        mask = np.kron(f["tissue/mask"][()], np.ones((32, 32), np.int64))
    mask = np.pad(mask, ((0, window), (0, window)))
    return np.array([[mask[j * stride:j * stride + window, i * stride:i * stride + window].sum()
                      for i in range(shape[1])] for j in range(shape[0])]).reshape(shape)


def tissue_windows(path, shape, window=256, stride=128, least=0.5):
    """Which windows have enough tissue; True everywhere without a map."""
    areas = tissue_areas(path, shape, window, stride)
    return np.ones(shape, bool) if areas is None else areas >= least * window * window


def percent_of(areas, shape, window=256):
    """Rounded down, but 1 where there is any."""
    if areas is None:
        return np.full(shape, UNKNOWN)
    return np.maximum(100 * areas // window ** 2, areas > 0)


def compare(path, *options, **parameters):
    """The features of a run against their definitions; returns what slide_of() returns."""
    return compare_result(spectrum(path, *options), path, **parameters)


def compare_result(result, path, twin=None, min_tissue=0.5, **parameters):
    """The same of a result. twin: a store with the same pixels, which h5py reads."""
    attrs, data, more = got = slide_of(result)
    geometry = {k: parameters[k] for k in ("window", "stride") if k in parameters}
    width = (parameters.get("high", 160.0) - parameters.get("low", 0.0)) / parameters.get("bins", 1600)
    tissue = tissue_windows(path, data["window_flags"].shape, least=min_tissue, **geometry)
    flags = data["window_flags"]
    want = Features(pixels(twin or path), tissue, flags & COUNTED != 0, flags & FILLED != 0, **parameters)
    near(decibels(data["window_level_db"]), want.level, 0.02, "level")
    near(decibels(data["window_focus_db"]), want.focus, 0.03, "focus")
    near(decibels(data["window_fine_db"]), want.fine, 0.03, "fine")
    near(decibels(data["window_sharp_db"]), want.sharp, 0.03, "sharpness")
    areas = tissue_areas(path, flags.shape, **geometry)
    expect(np.array_equal(data["window_tissue"], percent_of(areas, flags.shape, geometry.get("window", 256))), "tissue of windows")
    check_gray(data["window_gray"], want.mean)
    check_steps(data, twin or path, **geometry)
    near(data["profile"], want.profile, 0.005, "profile")
    near(more["profile"]["slope"], want.slope, 0.001, "slope")
    for kind, name in enumerate(("spectrum_tissue", "spectrum_glass")):
        expect(more[name]["windows"] == want.windows[kind], "%s: %s windows", name, more[name]["windows"])
        expect(more[name]["threshold"] == want.thresholds[kind], "%s: threshold", name)
        n = max(1, want.windows[kind])
        near(data[name] / n, want.spectra[kind] / n, 2, name)
        off = width * np.abs(data[name] / n - want.spectra[kind] / n).mean()  # of float32: the same for bins of any width
        expect(off < 0.005, "%s: off by %g dB", name, off)
    check_derived(got, width=width, **geometry)
    return got


def check_steps(data, path, **geometry):
    inside = data["window_flags"] & OUTSIDE == 0
    for name, step in zip(("row", "column"), reference.steps(pixels(path), data["window_tissue"], inside, **geometry)):
        expect(np.array_equal(data["window_%s_step" % name], np.where(data["window_flags"] & COUNTED, step, UNKNOWN)), "%s steps", name)


def check_derived(got, width, window=256, stride=128):
    """The numbers of a slide that follow from its maps, spectra and thumbnail, whatever computed these."""
    attrs, data, more = got
    check_quantiles(attrs, data)
    tiles = attrs["chunk_rows"], attrs["chunk_cols"]
    tiles = tiles if attrs.get("tile_compression", "") in ("", "JPEG 2000", "WebP", "JPEG XR") else (0, 0)
    want = {**brightness(data), **seams(data, window, stride, tiles), **lines_and_detail(data, more, window, width)}
    for name, value in want.items():
        if name != "direction_deg" or not attrs["direction_db"] < 1e-6:  # else there is none
            near(attrs[name], value, 1e-6, name)


def brightness(data):
    """tissue_gray and so on, from the maps and the thumbnail (common/result/slide_numbers.h)."""
    here = (data["window_gray"] != 255) & (data["window_flags"] & FILLED == 0)
    gray, tissue = (data["window_" + k][here].astype(float) for k in ("gray", "tissue"))
    median = lambda v: np.sort(v)[(len(v) - 1) // 2] if len(v) else np.nan
    thumbnail = np.sort((data["thumbnail"].astype(int) @ (299, 587, 114) + 500) // 1000, axis=None)
    last = thumbnail.size - 1
    return {"tissue_gray": median(gray[tissue >= HALF]), "gray_low": thumbnail[last // 500], "gray_high": thumbnail[last * 99 // 100]}


def seams(data, window=256, stride=128, tiles=(0, 0)):
    """seam_rows and so on, from the maps. tiles: rows and columns of those whose compression leaves edges."""
    tissue = (data["window_gray"] != UNKNOWN) & (data["window_flags"] & FILLED == 0) & (data["window_tissue"] >= 25)
    n, want, voted = min(stride, window - 1, 254), {}, []
    chance = lambda least, of: sum(math.comb(of, k) * (8 / n) ** k * (1 - 8 / n) ** (of - k) for k in range(least, of + 1)) if of else 1
    for axis, name, tile, turn in (("y", "row", tiles[0], lambda m: m), ("x", "column", tiles[1], lambda m: m.T)):
        for line, (step, here) in enumerate(zip(turn(data["window_%s_step" % name]), turn(tissue))):
            votes = np.bincount(step[here & (step != UNKNOWN)], minlength=n)
            first = line * stride + window - 1 - n
            borders = (first + np.arange(n) + 1) % tile == 0 if tile else np.zeros(n, bool)
            if votes.any():
                voted.append((axis, first, np.where(borders, 0, votes), np.where(borders, votes, 0)))
    most = 1 / 500 / max(1, len(voted)) / (n / 8)  # over all places that are searched
    for axis, name in (("y", "row"), ("x", "column")):
        lines = [v[1:] for v in voted if v[0] == axis and n > 8]
        found = [(chance(votes.max(), votes.sum()), first + int(votes.argmax())) for first, votes, _ in lines]
        found = [f for f in found if f[0] < most]
        of_tiles = sum(of.any() and chance(of.max(), (votes + of).sum()) < most for _, votes, of in lines)
        want.update({"seam_%ss" % name: len(found) if lines else np.nan, "seam_%s_px" % axis: min(found)[1] if found else np.nan,
                     "tile_seam_%ss" % name: of_tiles if lines else np.nan})
    return want


def lines_and_detail(data, more, n, width):
    """lines_db and so on, from the stored spectra."""
    want = dict.fromkeys(("lines_db", "lines_period_px", "lines_deg", "direction_db", "direction_deg",
                          "detail_4px_db", "detail_7px_db"), np.nan)
    usable = [width * data["spectrum_" + k] / more["spectrum_" + k]["windows"]
              if n >= 64 and more["spectrum_" + k]["windows"] >= 16 else None for k in ("tissue", "glass")]
    for levels in (x for x in usable if x is not None):
        for degrees, axis in ((90, levels[0]), (0, levels[:n // 2 + 1, 0])):
            axis = np.concatenate([axis, axis[-2:-8:-1]])
            for k in range(n // 32, n // 2 + 1):
                excess = axis[k] - np.median([axis[k + s * d] for d in range(2, 6) for s in (1, -1) if k + s * d > 0])
                if k % (n // 8) and not excess <= want["lines_db"]:
                    want.update(lines_db=excess, lines_period_px=n / k, lines_deg=degrees)
    if usable[0] is None:
        return want
    v, u = np.meshgrid(np.fft.fftfreq(n, 1 / n), np.arange(n // 2 + 1), indexing="ij")
    square, free = v * v + u * u, (np.abs(v) > 2) & (u > 2) & (u < n // 2) & (np.abs(v) < n // 2)

    def ring(low, high):
        return free & (square / n ** 2 >= low ** 2) & (square / n ** 2 < high ** 2)

    def direction(low, high):
        at = ring(low, high)
        radius, level = np.rint(np.sqrt(square[at])).astype(int), usable[0][at]
        level = level - (np.bincount(radius, level) / np.maximum(1, np.bincount(radius)))[radius]
        turn = np.exp(2j * np.arctan2(v[at], u[at]))
        return 2 * (level * turn).mean() if at.any() else np.nan
    mean = lambda low, high: usable[0][ring(low, high)].mean() if ring(low, high).any() else np.nan
    strongest = (direction(1 / 8, 1 / 4) + direction(1 / 16, 1 / 8)) / 2 - direction(1 / 32, 1 / 16)
    if not np.isnan(strongest):
        want.update(direction_db=2 * abs(strongest), direction_deg=np.degrees(np.angle(-strongest)) / 2 % 180)
    want.update(detail_4px_db=mean(0.21, 0.25) - mean(0.04, 0.06), detail_7px_db=mean(0.12, 0.16) - mean(0.04, 0.06))
    return want


def check_gray(stored, mean):
    """Rounded, at most 254; the last bits of a mean decide only within 1/1024 of a half."""
    want = np.where(np.isnan(mean), 255, np.minimum(np.floor(np.nan_to_num(mean) + 0.5 + 1 / 1024), 254))
    off = stored != want
    expect(stored.dtype == np.uint8 and (np.abs(mean[off] + 0.5 + 1 / 1024 - np.rint(mean[off] + 0.5)) < 1e-4).all(),
           "gray %s, not %s", stored[off], mean[off])


def check_quantiles(attrs, data):
    """Sharpness is that of tissue, whichever windows count."""
    def quantiles(name, where, shares):
        values = decibels(data[name])[where & (data["window_flags"] & COUNTED != 0)]
        return np.quantile(values, shares) if values.size else [np.nan] * len(shares)
    for name in ("focus", "fine", "sharp"):
        want = quantiles("window_%s_db" % name, data["window_tissue"] >= HALF, (0.05, 0.5, 0.95))
        near([attrs["%s_p%s" % (name, p)] for p in ("05", "50", "95")], want, 1e-6, "quantiles of " + name)


def plain(*options, name="plain"):
    return store(made("--size", "1400x1100", "--tissue", "rect:0,0,700,1100", *options, name=name))


# --- the numbers ---


def test_rgb_slide():
    _, data, more = compare(plain())
    expect(more["spectrum_tissue"]["windows"] > 0 and more["spectrum_glass"]["windows"] > 0, "%s", more)
    expect(data["window_level_db"].dtype == np.int16 and data["window_flags"].dtype == np.uint8, "types")
    expect(more["window_level_db"]["scale"] == more["window_focus_db"]["scale"] == more["window_fine_db"]["scale"] == 0.01, "scale")
    expect(data["window_tissue"].dtype == np.uint8 and data["profile"].shape == (7,), "tissue and profile")
    expect(data["spectrum_tissue"].dtype == np.uint64 and data["profile"].dtype == np.float64, "types")


def test_other_windows_and_tapers():
    for window, stride, taper in ((64, 64, "hann"), (128, 100, "rectangular"), (512, 256, "hann")):
        compare(plain(), "--window", window, "--stride", stride, "--taper", taper, window=window, stride=stride, hann=taper == "hann")


def test_values_outside_the_range_count_as_the_end_bins():
    compare(plain(), "--range", "35:60", "--bins", "100", low=35.0, high=60.0, bins=100)
    compare(plain(), "--range", "35:60", "--bins", "9000", low=35.0, high=60.0, bins=9000)


def test_without_smoothing_and_of_gray():
    compare(plain(), "--sigma", "0", sigma=0)
    compare(store(made("--size", "900x700", name="gray"), "--gray"))


def test_without_a_tissue_map_all_windows_count_as_tissue():
    attrs, _, more = compare(store(made("--size", "900x700", "--stain", "fluorescence", name="none")))
    expect("tissue_fraction" not in attrs and more["spectrum_glass"]["windows"] == 0, "%s", attrs)
    expect("glass_std" not in attrs and np.isfinite(attrs["focus_p50"]), "%s", attrs)


def test_tissue_only_has_no_spectrum_of_glass():
    attrs, data, more = compare(plain(), "--tissue-only")
    expect(more["spectrum_glass"]["windows"] == 0 < more["spectrum_tissue"]["windows"], "%s", more)
    expect((data["window_tissue"] == 0).any(), "tissue of windows that do not count")
    expect((data["window_flags"] & NO_TISSUE != 0).sum() == data["window_flags"].size - attrs["windows"], "flags")


def test_no_window_and_one_window():
    attrs, data, more = compare(store(made("--size", "256x256", name="one")))
    expect(data["window_flags"].tolist() == [[COUNTED | EDGE]], "%s", data["window_flags"])
    attrs, data, more = slide_of(spectrum(store(made("--size", "300x200", name="small"))))
    expect(data["window_flags"].size == 0 and np.isnan(data["profile"]).all(), "profile %s", data["profile"])
    expect(np.isnan(attrs["focus_p50"]) and np.isnan(more["profile"]["slope"]), "focus")


# --- what focus is for ---


def texture(shape, rng):
    """Details of all sizes, as of tissue: the amplitude falls with the frequency."""
    f = np.hypot(np.fft.fftfreq(shape[0])[:, None], np.fft.rfftfreq(shape[1])[None, :])
    f[0, 0] = 1
    image = np.fft.irfft2(np.fft.rfft2(rng.normal(size=shape)) / f, shape)
    return 150 + 25 * image / image.std()


def auc(low, high):
    """The chance that a value of `high` is above one of `low`."""
    return (high[:, None] > low[None, :]).mean() + (high[:, None] == low[None, :]).mean() / 2


def test_focus_separates_blurred_boxes_from_sharp_ones():
    """Boxes of 768 px, every other one blurred by 1.5 px, then sensor noise of 1.5 gray levels over all."""
    rng, box = np.random.default_rng(7), 768
    sharp = texture((2 * box, 4 * box), rng)
    blurred = reference.smooth(sharp, 1.5)
    y, x = np.mgrid[:sharp.shape[0], :sharp.shape[1]] // box
    is_blurred = (x + y) % 2 == 1
    image = np.where(is_blurred, blurred, sharp) + rng.normal(scale=1.5, size=sharp.shape)
    path = painted(np.clip(np.rint(image), 0, 255).astype(np.uint8))
    _, data, _ = slide_of(spectrum(path))
    focus = decibels(data["window_focus_db"])
    share = np.array([[is_blurred[128 * j:128 * j + 256, 128 * i:128 * i + 256].mean() for i in range(focus.shape[1])]
                      for j in range(focus.shape[0])])
    low, high = focus[share == 1], focus[share == 0]
    expect(low.size > 50 and high.size > 50, "%d and %d windows", low.size, high.size)
    expect(auc(low, high) >= 0.95, "AUC %.3f", auc(low, high))
    expect(auc(decibels(data["window_level_db"])[share == 1], decibels(data["window_level_db"])[share == 0]) >= 0.95, "level")


# --- what scanners leave ---


def unchanged(picture):
    return picture


@functools.lru_cache(None)
def planted(change):
    """The attributes of a slide of texture with sensor noise, changed before that."""
    rng = np.random.default_rng(11)
    picture = change(texture((1100, 1100), rng)) + rng.normal(scale=1.0, size=(1100, 1100))
    return slide_of(spectrum(painted(np.clip(np.rint(picture), 0, 255).astype(np.uint8))))[0]


def test_lines_of_a_scanner_have_their_period_and_direction():
    wave = lambda period: 1.5 * np.cos(2 * np.pi * np.arange(1100) / period)
    expect(planted(unchanged)["lines_db"] < 6, "lines without lines")
    for period in (5, 12):
        for degrees, pattern in ((0, wave(period)[:, None]), (90, wave(period)[None, :])):
            a = planted(lambda x: x + pattern)
            expect(a["lines_db"] > 6 and a["lines_deg"] == degrees and abs(256 / a["lines_period_px"] - 256 / period) <= 0.6,
                   "%g px, %g degrees, %g dB", a["lines_period_px"], a["lines_deg"], a["lines_db"])
    a = planted(lambda x: x + wave(8)[:, None])
    expect(a["lines_db"] < 6, "a period of 8 px may be JPEG's: %g dB", a["lines_db"])


def test_seams_that_nothing_looks_for_have_no_value():
    """They were 0: with a stride of 8 and less, without a window, and without tissue."""
    slide = store(made("--size", "400x300", "--seed", "2", name="seams"))
    for path, options in ((slide, ("--stride", "8")), (slide, ("--stride", "4")), (store(made("--size", "200x200", name="tiny")), ())):
        attrs = slide_of(spectrum(path, *options))[0]
        for key in ("seam_rows", "seam_columns", "seam_y_px", "seam_x_px", "tile_seam_rows", "tile_seam_columns"):
            expect(np.isnan(attrs[key]), "%s: %s is %s", options, key, attrs[key])
    expect(slide_of(spectrum(slide, "--stride", "16"))[0]["seam_rows"] == 0, "looked for")


def test_seams_are_where_fields_meet():
    """Every other strip of 200 px is shifted by 7."""
    strips = np.arange(1100) // 200 % 2 == 1
    shifted = lambda x: np.where(strips[:, None], np.roll(x, 7, 1), x)
    expect(planted(unchanged)["seam_rows"] == planted(np.transpose)["seam_columns"] == 0, "seams without seams")
    for axis, turn in (("row", lambda x: x), ("column", lambda x: x.T)):
        a, other = planted(lambda x: turn(shifted(turn(x)))), "column" if axis == "row" else "row"
        expect(a["seam_%ss" % axis] >= 3 and a["seam_%ss" % other] == 0, "%s: %s", axis, a)
        expect(a["seam_%s_px" % ("y" if axis == "row" else "x")] % 200 == 199, "%s: %s", axis, a)


def test_motion_has_its_direction():
    mean = lambda x, axis: sum(np.roll(x, k, axis) for k in range(7)) / 7
    still = planted(unchanged)["direction_db"]
    for axis, degrees in ((1, 0), (0, 90)):
        a = planted(lambda x: mean(x, axis))
        expect(a["direction_db"] > still + 2.2 and abs((a["direction_deg"] - degrees + 90) % 180 - 90) < 15, "%g dB, %g degrees", a["direction_db"], a["direction_deg"])


def test_what_was_enlarged_lost_fine_detail_only():
    """Twice by an ideal filter; blur of the same loss at 4 px loses detail of 7 px, too."""
    f = np.fft.fftfreq(1100)
    whole = planted(unchanged)
    lost = {}
    for name, keep in (("enlarged", (np.abs(f)[:, None] < 0.2) & (np.abs(f)[None, :] < 0.2)),
                       ("blurred", np.exp(-2 * np.pi ** 2 * 1.2 ** 2 * (f[:, None] ** 2 + f[None, :] ** 2)))):
        a = planted(lambda x: np.fft.ifft2(np.fft.fft2(x) * keep).real)
        lost[name] = [whole[k] - a[k] for k in ("detail_4px_db", "detail_7px_db")]
    expect(lost["enlarged"][0] > 3 and lost["enlarged"][1] < 0.33 * lost["enlarged"][0], "%s", lost)
    expect(lost["blurred"][0] > 3 and lost["blurred"][1] > 0.33 * lost["blurred"][0], "%s", lost)


# --- samples and merges ---


def test_a_large_slide_is_sampled():
    """64 px windows at stride 16: 6,399 windows, of which fewer are in the samples."""
    path = store(made("--size", "1400x1300", "--tissue", "rect:0,0,1000,1300", name="large"), "--stripe-rows", "240",
                 "--group-bytes", "1")
    options = ("--window", "64", "--stride", "16")
    got = compare(path, *options, window=64, stride=16)
    windows = [got[2][k]["windows"] for k in ("spectrum_tissue", "spectrum_glass")]
    expect(256 <= windows[0] < 4096 and windows[1] == 256, "windows %s", windows)
    parts = [spectrum(path, *options, "--groups", g) for g in ("1-2", "3-3", "4-6")]
    check_merge(parts, spectrum(path, *options), "sampled")


def check_merge(parts, whole, what):
    for order in (parts, parts[::-1], parts[1:] + parts[:1]):
        out = os.path.join(tmp(), "sum.h5")
        run(H5SPEC, "merge", "-q", "-o", out, *order)
        equal(content(out), content(whole), what)
        run(H5SPEC, "verify", "-q", out)


def grouped(*options):
    return store(made("--size", "900x1300", "--seed", "2", *options, name="grouped"), "--stripe-rows", "240", "--group-bytes", "1",
                 *(["--accept-damage"] if options else []))


def test_a_merge_of_groups_equals_a_run():
    check_merge([spectrum(grouped(), "--groups", g) for g in ("1-2", "3-3", "4-6")], spectrum(grouped()), "merge")
    options = ("--tissue-only", "--skip-damaged")
    damaged = grouped("--missing", "1,1", "--garbage", "2,2", "--garbage", "0,4")
    check_merge([spectrum(damaged, *options, "--groups", g) for g in ("1-2", "3-6")], spectrum(damaged, *options), "damage")
    check_merge([spectrum(damaged, "--groups", g) for g in ("1-1", "2-6")], spectrum(damaged), "damage")


def test_a_missing_group_is_flagged():
    out = os.path.join(tmp(), "sum.h5")
    run(H5SPEC, "merge", "-q", "--partial", "-o", out, *(spectrum(grouped(), "--groups", g) for g in ("1-1", "4-6")))
    _, data, _ = slide_of(out)
    flags, here = data["window_flags"], data["window_flags"] != NO_GROUP
    expect((~here).any() and here.any() and (flags[here] & COUNTED).all(), "%s", flags)
    for name in ("window_level_db", "window_focus_db", "window_fine_db", "window_sharp_db"):
        expect(np.array_equal(data[name] != FILL, here), "%s", name)
    for name in ("window_tissue", "window_gray"):
        expect(np.array_equal(data[name] != UNKNOWN, here), "%s", name)
    run(H5SPEC, "verify", "-q", out)


def test_stores_with_other_tissue_are_not_merged():
    slide = made("--size", "900x1300", "--seed", "2", name="grouped")
    one, other = (spectrum(store(slide, "--stripe-rows", "240", "--group-bytes", "1", *more), "--groups", g)
                         for more, g in (((), "1-3"), (("--tissue-thresholds", "0.9,0.9"), "4-6")))
    p = run(H5SPEC, "merge", "-o", os.path.join(tmp(), "sum.h5"), one, other, status=1)
    says(p.err, one, other, "slide grouped", "different stores of one slide")


# --- flags ---


def touching(path, status, window=256, stride=128, radius=3):
    """[ny][nx]: does the window, with what smoothing reads, touch a tile of this status?"""
    with h5py.File(path, "r") as f:
        h, w = f.attrs["height"], f.attrs["width"]
        tile = np.concatenate([g["tile_status"][()] for g in f["groups"].values()]) == status
        tile = np.kron(tile, np.ones((f.attrs["chunk_rows"], f.attrs["chunk_cols"]), bool))[:h, :w]
    ny, nx = ((n - window) // stride + 1 for n in (h, w))
    return np.array([[tile[max(0, j * stride - radius):j * stride + window + radius,
                           max(0, i * stride - radius):i * stride + window + radius].any() for i in range(nx)] for j in range(ny)])


def check_flags(path, *options):
    attrs, data, _ = slide_of(spectrum(path, *options))
    flags = data["window_flags"]
    for bit, status in ((MISSING, 1), (DAMAGED, 2), (LEFT_OUT, 3)):
        expect(np.array_equal(flags & bit != 0, touching(path, status)), "bit %d: %s", bit, flags)
    edge = np.zeros(flags.shape, bool)
    edge[[0, -1]] = edge[:, [0, -1]] = True
    expect(np.array_equal(flags & EDGE != 0, edge), "edge: %s", flags)
    expect(np.array_equal(flags & COUNTED != 0, ~np.isnan(data["window_mean_db"])), "counted: %s", flags)
    expect((flags != 0).all() and (flags & NO_GROUP == 0).all(), "%s", flags)
    return flags


def test_flags_of_damage():
    damaged = grouped("--missing", "1,1", "--garbage", "2,2", "--garbage", "0,4")
    flags = check_flags(damaged)
    expect((flags & COUNTED).all() and (flags & DAMAGED).any() and (flags & MISSING).any(), "%s", flags)
    flags = check_flags(damaged, "--skip-damaged")
    expect(np.array_equal(flags & COUNTED != 0, flags & DAMAGED == 0), "%s", flags)


def test_flags_of_left_out_tiles():
    half = store(made("--size", "1400x1100", "--tissue", "rect:0,0,500,1100", name="half"), "--tissue-only")
    flags = check_flags(half)
    expect((flags & LEFT_OUT).any(), "%s", flags)
    _, _, more = compare(half)
    expect(more["spectrum_glass"]["windows"] < (~tissue_windows(half, flags.shape)).sum(), "left-out glass is summed")


# --- what is copied ---


def test_copied_from_the_store():
    path = plain("--mpp", "0.2521", "--appmag", "40", "--missing", "1,1", name="copied")
    attrs, data, _ = slide_of(spectrum(path))
    with h5py.File(path, "r") as f:
        for key in ("mpp_x", "mpp_y", "downsample", "objective_power", "vendor", "tiles_missing", "tiles_damaged", "tiles_left_out"):
            expect(attrs[key] == f.attrs[key], "%s: %s", key, attrs[key])
        expect(attrs["tissue_fraction"] == f["tissue/mask"].attrs["tissue_fraction"], "tissue_fraction")
        expect(attrs["tiles"] == sum(g["tile_status"].size for g in f["groups"].values()), "tiles")
        big = f["associated/thumbnail"][()].astype(float)
    small = data["thumbnail"]
    expect(max(small.shape[:2]) <= 160 and small.shape[2] == 3, "%s", small.shape)
    expect(np.abs(small.mean((0, 1)) - big.mean((0, 1))).max() < 2, "the thumbnail has other colours")
    attrs, data, _ = slide_of(spectrum(plain("--mpp", "none", "--appmag", "none", "--no-thumbnail", name="bare")))
    expect(not {"mpp_x", "mpp_y", "objective_power"} & set(attrs), "%s", attrs)
    expect(data["thumbnail"].shape == (35, 44, 3), "a picture of the cells: %s", data["thumbnail"].shape)


# --- damaged results ---


def without_flags(s):
    del s["window_flags"]


DAMAGES = [  # what is done to the slide's group, words
    (lambda s: s["profile_sums"].__setitem__(0, 1 << 60), "profile_sums"), (without_flags, "window_flags"),
    (lambda s: s["spectrum_tissue"].attrs.modify("windows", np.int64(1 << 40)), "windows"),
    (lambda s: s.attrs.modify("tissue_fraction", 1.5), "tissue_fraction"), (lambda s: s.attrs.modify("mpp_x", -0.25), "mpp_x"),
    (lambda s: s.attrs.create("jpeg_quality", np.int64(101)), "jpeg_quality"), (lambda s: s.attrs.create("glass_std", 1e6), "glass_std"),
]


def test_damaged_features_are_found():
    for change, words in DAMAGES:
        path = changed(spectrum(plain()), lambda f: change(*f["slides"].values()))
        says(run(H5SPEC, "info", path, status=1).err, path, words)


def test_made_tissue_has_no_lines_and_seams_of_its_own():
    """Nuclei in cells of a grid were lines every 23.3 px, so the report of a made slide blamed its scanner."""
    for words in ((), ("--tissue", "section"), ("--photometric", "ycbcr")):
        for seed in (1, 2, 3):
            result = spectrum(store(made("--size", "1600x1200", "--seed", seed, *words, name="natural")))
            run(H5SPEC, "report", "-q", "--csv", result + ".csv", "-o", result + ".html", result)
            row, = csv_rows(result + ".csv")
            expect(float(row["lines_db"]) < 4 and row["seams"] == "0" and row["verdict"] == "not judged", "%s, seed %d: %s", words, seed, row)


if __name__ == "__main__":
    main(globals())
