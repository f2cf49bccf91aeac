"""h5spec run on stores with filled tiles: counted, recorded, skipped or rejected."""
import h5py
import numpy as np

from lib import *

SIZE = ("--size", "1500x1200", "--tile", "240")
BAD = (*SIZE, "--garbage", "3,2", "--garbage", "0,4", "--missing", "5,0")
TILES = {"windows_damaged": [(3, 2), (0, 4)], "windows_missing": [(5, 0)]}  # (column, row)
NAMES = ("windows_missing", "windows_damaged", "windows_left_out", "windows_skipped")


def damaged(*options):
    path = os.path.join(tmp(), "bad.h5")
    run(WSI2H5, "-q", "-o", path, *options, made(*BAD, name="bad"), status=4)
    return path


def touching(tiles, width=1500, height=1200, window=256, stride=128, radius=3):
    """[ny][nx], True where a window or what its smoothing reads lies in one of the tiles."""
    xs, ys = np.arange(0, width - window + 1, stride), np.arange(0, height - window + 1, stride)
    out = np.zeros((len(ys), len(xs)), bool)
    for column, row in tiles:
        across = (xs - radius < 240 * column + 240) & (xs + window + radius > 240 * column)
        down = (ys - radius < 240 * row + 240) & (ys + window + radius > 240 * row)
        out |= down[:, None] & across[None, :]
    return out


def numbers(path):
    with h5py.File(path, "r") as f:
        (slide,) = f["slides"].values()
        for name in NAMES:
            expect(f.attrs[name] == slide.attrs[name], "%s: sum and slide differ", name)
        return {k: int(f.attrs[k]) for k in (*NAMES, "windows", "skip_damaged")}


def test_windows_that_touch_filled_tiles_are_counted():
    s, out = damaged(), os.path.join(tmp(), "r.h5")
    p = run(H5SPEC, "run", "-o", out, s, status=4)
    got = numbers(out)
    for name, tiles in TILES.items():
        expect(got[name] == touching(tiles).sum() > 0, "%s: %d", name, got[name])
    expect(got["windows"] == touching([]).size and got["windows_skipped"] == 0, "%s", got)
    says(p.err, "%s: %d of %d windows touch damaged tiles" %
         (s, got["windows_damaged"], got["windows"]),
         "%d of %d windows touch tiles that are missing" % (got["windows_missing"], got["windows"]))
    (line,) = json_lines(run(H5SPEC, "run", "--json", "-o", out, s, status=4).out)
    for name in NAMES:
        expect(line[name] == got[name], "%s: %s", name, line)
    says(run(H5SPEC, "info", out).out, "%d windows touch damaged tiles" % got["windows_damaged"])


def test_other_windows_and_no_smoothing():
    s = damaged("--stripe-rows", "240", "--group-bytes", "1")
    for window, stride, sigma, radius in ((64, 37, "0", 0), (128, 120, "2", 6)):
        r = spectrum(s, "--window", window, "--stride", stride, "--sigma", sigma)
        want = touching(TILES["windows_damaged"], window=window, stride=stride, radius=radius)
        expect(numbers(r)["windows_damaged"] == want.sum(), "window %d", window)


def test_groups_add_up():
    s = damaged("--stripe-rows", "240", "--group-bytes", "1")
    for options in ((), ("--skip-damaged",)):
        parts = [spectrum(s, "--groups", k, *options) for k in range(1, 6)]
        out = os.path.join(tmp(), "sum.h5")
        run(H5SPEC, "merge", "-q", "-o", out, *parts)
        equal(content(out), content(spectrum(s, *options, "-j", "2")), "merged groups")


def test_skip_damaged():
    s = damaged()
    p = run(H5SPEC, "run", "--skip-damaged", "-o", os.path.join(tmp(), "r.h5"), s, status=4)
    skipped = spectrum(s, "--skip-damaged")
    got, hit = numbers(skipped), touching(TILES["windows_damaged"])
    expect(got["windows_skipped"] == hit.sum() and got["windows_damaged"] == 0, "%s", got)
    expect(got["windows"] == hit.size - hit.sum() and got["skip_damaged"] == 1, "%s", got)
    says(p.err, "%d windows that touch damaged tiles are not counted" % hit.sum())
    says(run(H5SPEC, "info", skipped).out, "except those that touch damaged tiles")
    # what is left is the same as of the undamaged slide
    whole = spectrum(store(made(*SIZE, "--missing", "5,0", name="bad")))
    with h5py.File(skipped, "r") as a, h5py.File(whole, "r") as b:
        for name in ("window_mean_db", "window_std_db"):
            x, y = (f["slides/bad"][name][()] for f in (a, b))
            expect(np.array_equal(np.isnan(x), hit), "%s: windows", name)
            expect(np.array_equal(x[~hit], y[~hit]), "%s: values", name)


def test_skip_damaged_with_tissue_only():
    s = damaged()
    tissue, both = (spectrum(s, "--tissue-only", *o) for o in ((), ("--skip-damaged",)))
    with h5py.File(tissue, "r") as a, h5py.File(both, "r") as b:
        x, y = (~np.isnan(f["slides/bad/window_mean_db"][()]) for f in (a, b))
    hit = touching(TILES["windows_damaged"])
    expect(np.array_equal(y, x & ~hit) and y.any(), "windows")
    expect(numbers(both)["windows_skipped"] == (x & hit).sum(), "%s", numbers(both))
    expect(numbers(tissue)["windows_damaged"] == (x & hit).sum(), "%s", numbers(tissue))


def test_results_with_and_without_skipping_are_not_added():
    s, other = damaged(), store(made("--size", "600x500", name="other"))
    p = run(H5SPEC, "merge", "-o", os.path.join(tmp(), "x.h5"), spectrum(s, "--skip-damaged"),
            spectrum(other), status=1)
    says(p.err, "skip_damaged is 1 and 0")


def test_on_damage_fail_rejects_the_store():
    s, other = damaged(), store(made("--size", "600x500", name="other"))
    out = os.path.join(tmp(), "r.h5")
    p = run(H5SPEC, "run", "--on-damage", "fail", "-o", out, s, other, status=1)
    says(p.err, s + ": 2 damaged tiles; rejected (--on-damage fail)", "1 done, 1 failed")
    expect(slide_names(out) == ["other"], "%s", slide_names(out))
    run(H5SPEC, "run", "--on-damage", "report", "--force", "-o", out, s, other, status=4)
    # also what a finished result holds: it is kept, is not called missing, and is no success
    folder = tmp()
    run(H5SPEC, "run", "-q", "-o", folder, s, other, status=4)
    before = bytes_in(os.path.join(folder, "bad.h5"))
    p = run(H5SPEC, "run", "--on-damage", "fail", "-o", folder, s, other, status=1)
    says(p.err, "its result %s has 2 damaged tiles; rejected (--on-damage fail)" % os.path.join(folder, "bad.h5"), "1 skipped", "1 failed")
    expect(bytes_in(os.path.join(folder, "bad.h5")) == before and sorted(os.listdir(folder)) == ["bad.h5", "other.h5"], "%s", os.listdir(folder))
    missing = store(made(*SIZE, "--missing", "5,0", name="missing"))
    run(H5SPEC, "run", "--on-damage", "fail", "--force", "-o", out, missing)  # never scanned: not damage
    says(run(H5SPEC, "run", "--on-damage", "drop", "-o", out, s, status=2).err, "report or fail")
    says(run(H5SPEC, "run", "--on-damage", "fail", "--skip-damaged", "-o", out, s, status=2).err,
         "contradict")
    for program, given in (([WSI2H5], made(*SIZE, name="whole")), ([H5SPEC, "run"], s)):  # alike
        says(run(*program, "--on-damage", "fail", "--accept-damage", "-o", out, given, status=2).err,
             "--accept-damage and --on-damage fail contradict each other")


def test_left_out_tiles():
    slide = made(*SIZE, "--tissue-fraction", "0.3", name="sparse")
    s = store(slide, "--tissue-only")
    status = tile_statuses(s)
    tiles = [(c, r) for r, c in zip(*np.nonzero(status == 3))]
    got = numbers(spectrum(s))
    expect(got["windows_left_out"] == touching(tiles).sum() > 0, "%s", got)
    expect(got["windows_damaged"] == got["windows_missing"] == 0, "%s", got)


main(globals())
