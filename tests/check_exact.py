"""One result for any threads, groups, codecs, memory, order and devices, to the last count."""
import itertools
import random

import h5py
import numpy as np

from lib import *
from tiffpatch import write_tiled

SIZE = ("--size", "1700x2300")


def numbers(path):
    """Histogram and maps only, to compare stores that differ in their groups."""
    return {k: v for k, v in content(path).items()
            if k.endswith(("/histogram", "_db", "/windows", "/underflow", "/overflow"))}


@races
def test_threads():
    s = store(made(*SIZE))
    want = content(spectrum(s, "-j", "1"))
    expect(np.frombuffer(want["/histogram"], np.uint64).sum() > 0, "nothing counted")
    for j in (2, 7):
        equal(content(spectrum(s, "-j", j)), want, "%d threads" % j)


def test_groups_from_one_stripe_to_the_whole_slide():
    slide = made(*SIZE)
    want = numbers(spectrum(store(slide)))
    for options in (("--stripe-rows", "240", "--group-bytes", "1"), ("--group-bytes", "1"),
                    ("--stripe-rows", "480", "--group-bytes", "6M"), ("--group-bytes", "1G")):
        s = store(slide, *options)
        n = attributes_of(s)["group_count"]
        equal(numbers(spectrum(s, "-j", "2")), want, "%d groups" % n)


def some_small_slides():
    """Slides that are prepared in memory, one that is too large for that, and some that are not whole."""
    d = tmp("small")
    names = []
    for k, options in enumerate((
            ("--seed", "2"), ("--damage-none",), ("--photometric", "ycbcr"), ("--garbage", "1,1"), ("--missing", "0,1"),
            ("--compression", "33005", "--quality", "60"), ("--no-thumbnail",), ("--levels", "2"), ("--size", "2000x1500"),
            ("--progressive",), ("--outside", "0,0"), ("--tissue", "none"))):
        if options == ("--damage-none",):
            name = os.path.join(d, "%02d.svs" % k)
            put_file(name, b"no slide at all")
        else:
            size = () if "--size" in options else ("--size", "600x500")
            name = os.path.join(d, "%02d.svs" % k)
            shutil.copy(made(*size, *options, name="small%d" % k), name)
        names.append(name)
    return names


def converted(slides, *options):
    """Bytes of all stores, and what the run said of each slide."""
    out = os.path.join(tmp(), "o")
    p = run(WSI2H5, "--json", "-o", out, *options, *slides, status=1)
    lines = [{k: str(v).replace(out, "OUT") for k, v in j.items() if k not in ("seconds", "time")} for j in json_lines(p.out)]
    said = [line for line in p.err.replace(out, "OUT").splitlines() if "peak memory" not in line]
    return {n: open(os.path.join(out, n), "rb").read() for n in sorted(stores_in(out))}, lines, said


@later("ci")
@races
def test_small_slides_side_by_side():
    """Small slides are prepared one per thread; stores, messages and their order are those of one thread."""
    slides = some_small_slides()
    for options in (("--codec", "jpeg"), ("--tissue-only", "--codec", "none"), ("--on-damage", "fail"), ("--gray",)):
        want = converted(slides, "-j", "1", *options)
        expect(len(want[0]) >= 6 and len(want[1]) == len(slides), "%d stores, %s", len(want[0]), want[1])
        for j in ("2", "7"):
            got = converted(slides, "-j", j, *options)
            for k, what in enumerate(("stores", "lines", "messages")):
                expect(got[k] == want[k], "%s with -j %s %s differ: %s", what, j, options, "" if k == 0 else (got[k], want[k]))


def test_small_slides_whose_stores_exist_are_skipped():
    slides = some_small_slides()
    out = os.path.join(tmp(), "o")
    run(WSI2H5, "-j", "2", "-o", out, *slides, status=1)
    before = {n: os.stat(os.path.join(out, n)).st_mtime_ns for n in stores_in(out)}
    says(run(WSI2H5, "-j", "2", "-o", out, *slides, status=1).err, "0 converted, %d skipped" % len(before))
    expect(before == {n: os.stat(os.path.join(out, n)).st_mtime_ns for n in stores_in(out)}, "a store was replaced")


def test_codecs():
    slide = made(*SIZE)
    for codec in ("none", "lz4", "zstd"):
        s = store(slide, "--codec", codec)
        says(run(H5SPEC, "verify", s).out, "valid")
        equal(content(spectrum(s)), content(spectrum(store(slide))), "codec " + codec)


@races
def test_little_memory():
    s = store(made(*SIZE))
    want = content(spectrum(s))
    for memory in ("14M", "7M"):
        equal(content(spectrum(s, "--memory", memory)), want, memory)
    out = os.path.join(tmp(), "x.h5")
    direct = run(H5SPEC, "--io", "direct", "--json", "-o", out, s, status=None)
    if direct.returncode == 0:
        without = (*OF_THE_RUN, "attribute_crc32")  # of texts, of which "io" is one
        equal(content(out, without), content(spectrum(s), without), "--io direct")
        expect(json.loads(direct.out)["io"] == "direct", direct.out)
    else:  # a file system in memory
        says(direct.err, s, "cannot be read past the page cache")
    p = run(H5SPEC, "--memory", "5M", "-o", os.path.join(tmp(), "x.h5"), s, status=1)
    says(p.err, s, "needs --memory 7M")


def test_result_has_the_time_of_each_stage():
    s = store(made(*SIZE))
    out = os.path.join(tmp(), "x.h5")
    line = json_lines(run(H5SPEC, "--device", "cpu", "--json", "-o", out, s).out)[0]
    with h5py.File(out, "r") as f:
        at = f["slides/slide"].attrs
        for name in ("seconds", *(stage + "_seconds" for stage in STAGES)):
            near = abs(at[name] - line[name]) < 0.002
            expect(0 <= at[name] and near, "%s: %s, %s", name, at[name], line[name])
        expect(at["read_seconds"] + at["unpack_seconds"] > 0 and at["io"] == "buffered",
               "%s", dict(at))
        expect(at["kernel"] == line["kernel"], "%s", line)
    info = json_lines(run(H5SPEC, "info", "--json", out).out)[0]["slides"][0]
    expect(info["io"] == "buffered" and info["unpack_seconds"] > 0, "%s", info)


def test_groups_one_by_one_merged_in_any_order():
    slide = made(*SIZE)
    for rows in ("240", "480"):
        s = store(slide, "--stripe-rows", rows, "--group-bytes", "1")
        n = int(attributes_of(s)["group_count"])
        want = content(spectrum(s))
        parts = [spectrum(s, "--groups", "%d-%d" % (k, k), "-j", 1 + k % 3)
                 for k in range(1, n + 1)]
        rng = random.Random(1)
        for cut in (0, n // 2):  # of the merge of some, and of all
            rng.shuffle(parts)
            half, out = (os.path.join(tmp(), name) for name in ("half.h5", "sum.h5"))
            if cut:
                run(H5SPEC, "merge", "-q", "--partial", "-o", half, *parts[:cut])
            run(H5SPEC, "merge", "-q", "-o", out, *parts[cut:], *[half] * (cut > 0))
            equal(content(out), want, "%d groups merged" % n)


def test_several_slides_in_one_run_and_merged():
    stores = [store(made(*SIZE)), store(made("--size", "900x700", "--seed", "5", name="b")),
              store(made("--size", "300x300", name="c"), "--gray"),
              store(made("--size", "100x90", name="d"))]
    want = content(spectrum(stores))
    for order in itertools.islice(itertools.permutations(stores), 5, 24, 12):
        equal(content(spectrum(list(order), "-j", "3")), want, "order")
    parts = [spectrum(s) for s in stores]
    out = os.path.join(tmp(), "sum.h5")
    run(H5SPEC, "merge", "-q", "-o", out, *reversed(parts))
    equal(content(out), want, "merged")


def test_merges_in_any_order_are_equal_bytes():
    slide = made(*SIZE)
    s = store(slide, "--stripe-rows", "240", "--group-bytes", "1")
    parts = [spectrum(s, "--groups", g) for g in range(1, 11)]
    for k, part in enumerate(parts):  # whose sum as floats depends on the order
        with h5py.File(part, "r+", libver=("v110", "v110")) as f:
            f["slides/slide"].attrs.modify("seconds", (0.1 * k, 3e6 + 0.1)[k % 2])
    parts += [spectrum(store(made("--size", "900x700", "--seed", str(k), name="s%d" % k)))
              for k in range(3)]
    want = None
    rng = random.Random(2)
    for _ in range(6):
        out, half = (os.path.join(tmp(), n) for n in ("sum.h5", "half.h5"))
        rng.shuffle(parts)
        cut = rng.randrange(2, len(parts) - 2)
        run(H5SPEC, "merge", "-q", "--partial", "-o", half, *parts[:cut])
        run(H5SPEC, "merge", "-q", "-o", out, *parts[cut:], half)
        data = open(out, "rb").read()
        want = want or data
        expect(data == want, "the bytes of the sum depend on the order")


@races
def test_wide_slide_after_a_narrow_one():
    # buffers must grow in the middle of the run
    stores = [store(made("--size", "600x1300", name="narrow")),
              store(made("--size", "2600x600", name="wide"))]
    out = os.path.join(tmp(), "sum.h5")
    run(H5SPEC, "merge", "-q", "-o", out, *[spectrum(s) for s in stores])
    equal(content(spectrum(stores, "-j", "3")), content(out), "wide after narrow")


def test_each_window_belongs_to_the_group_it_begins_in():
    s = store(made("--size", "600x1300", name="begin"), "--stripe-rows", "240", "--group-bytes",
              "1")
    for stride in (128, 239, 37):
        tops = range(0, 1300 - 256 + 1, stride)
        for g in range(6):
            rows = sum(240 * g <= y < 240 * (g + 1) for y in tops)
            want = rows * len(range(0, 600 - 256 + 1, stride))
            with h5py.File(spectrum(s, "--stride", stride, "--groups", g + 1), "r") as f:
                expect(f.attrs["windows"] == want, "stride %d, group %d: %d windows, not %d",
                       stride, g + 1, f.attrs["windows"], want)


def test_a_damaged_chunk_is_named_by_its_place_in_its_group():
    s = store(made("--size", "600x1300", name="begin"), "--stripe-rows", "480", "--group-bytes", "1")
    with h5py.File(s, "r") as f:
        at = f["groups/00002/pixels"].id.get_chunk_info_by_coord((240, 480, 0)).byte_offset
    bad = flipped(s, at + 5)
    p = run(H5SPEC, "run", "-q", "--device", "cpu", "-o", os.path.join(tmp(), "r.h5"), bad, status=1)
    says(p.err, bad + ": CRC mismatch in chunk at row 1, column 2 of group 2; convert the slide again with --force")


@races
def test_many_threads_on_a_narrow_slide_in_little_memory():
    # many LOADs could run ahead of a slow COMPUTE: they must wait for the rows that they overwrite
    s = store(made("--size", "600x3900", name="narrow-long"))
    want = numbers(spectrum(s, "-j", "1"))
    for j in (4, 16):
        for _ in range(3):
            got = numbers(spectrum(s, "-j", j, "--memory", 240 * 608 * 4 * 4))
            expect(got == want, "%d threads", j)


@later("ci")
def test_buffers_grow_with_the_threads():
    if SAN:
        raise Skip("sanitizers need memory of their own")
    large = store(made("--size", "9000x8000", name="large"), "--gray", "--codec", "none")
    peak = []
    for j in ("1", "4"):
        err = run(H5SPEC, "run", "--device", "cpu", "-j", j, "-o", os.path.join(tmp(), "r.h5"), large).err
        peak.append(float(re.search(r"peak memory (\d+) MiB", err)[1]))
    expect(0 < peak[0] < 200 < peak[1], "%s MiB", peak)


def test_least_memory():
    s = store(made("--size", "900x1500", "--tile", "16", name="least"))
    least = 4 * 144 * 912 * 4  # buffers, rows (131 in whole tiles), pitch, float
    want = numbers(spectrum(s))
    for j in (1, 8):
        expect(numbers(spectrum(s, "--memory", least, "-j", j)) == want, "%d threads", j)
    p = run(H5SPEC, "--memory", least - 1, "-o", os.path.join(tmp(), "x.h5"), s, status=1)
    says(p.err, "needs --memory")


def test_windows_that_end_at_the_last_row_of_a_slab():
    # 240 k = 6 j + 64 + 3 - 1 has solutions: a window would be computed one row too early
    s = store(made("--size", "250x1500", name="ends"))
    options = ("--window", "64", "--stride", "6")
    want = numbers(spectrum(s, *options))
    expect(numbers(spectrum(s, *options, "--memory", "1M", "-j", "3")) == want, "slabs of 240 rows")


def test_coarse_bins_are_sums_of_fine_ones():
    # the look-up of a class takes a shorter path for bins of 0.1 dB than for finer ones
    s = store(made("--size", "600x500", name="bins"))
    histograms = []
    for bins in (1600, 3200, 16000):
        histograms.append(values_in(spectrum(s, "--bins", bins), "histogram").reshape(1600, -1).sum(1))
    for finer in histograms[1:]:
        expect((histograms[0] == finer).all(), "bins differ")


def test_units_of_any_shape():
    # windows share columns with their neighbours beside and rows with those below; units and slabs
    # cut both
    s = store(made("--size", "3100x900", name="units"), "--stripe-rows", "240", "--group-bytes",
              "1")
    for options in (("--window", "64", "--stride", "37"),
                    ("--window", "128", "--stride", "128", "--taper", "hann"),
                    ("--window", "512", "--stride", "300"),
                    ("--sigma", "4", "--stride", "50")):
        want = numbers(spectrum(s, *options, "-j", "1"))
        equal(numbers(spectrum(s, *options, "-j", "3", "--memory", "24M")), want, " ".join(options))


# --- what must not depend on where the pixels lie ---

MAPS = ("mean_db", "std_db", "level_db", "focus_db", "fine_db", "sharp_db", "gray")


def of_picture(p, *options):
    """Histogram and maps of a picture, uint8 [height][width][3]."""
    slide = write_tiled(os.path.join(tmp(), "a.tif"), [np.ascontiguousarray(p[:, :, c]) for c in range(3)], side=128)
    out = os.path.join(tmp("store"), "a.h5")
    run(WSI2H5, "-q", "--tissue-thresholds", "0,0", "--codec", "none", "-o", out, slide)
    with h5py.File(spectrum(out, *options), "r") as f:
        (s,) = f["slides"].values()
        return s["histogram"][()].astype(np.int64), {m: s["window_" + m][()].astype(float) for m in MAPS}


def textured(height, width, seed):
    """Pieces of different sharpness and colour."""
    r = np.random.default_rng(seed)
    p = r.integers(0, 256, (height, width, 3)).astype(float)
    for k in range(6):
        y, x = r.integers(0, height - 60), r.integers(0, width - 60)
        part = p[y:y + height // 3, x:x + width // 3]
        part[:] = part.mean((0, 1)) + (part - part.mean((0, 1))) * r.random()
    return np.uint8(p)


def test_crops_have_the_windows_of_the_whole():
    """Bit for bit, but for those at the crop's own border."""
    p = textured(1100, 1300, 1)
    for n, s, (y, x) in ((128, 64, (64, 192)), (256, 128, (128, 256)), (64, 50, (150, 50))):
        options = ("--window", n, "--stride", s)
        _, whole = of_picture(p, *options)
        _, part = of_picture(p[y:y + n + 5 * s, x:x + n + 6 * s], *options)
        for name in MAPS:
            got, want = part[name][1:-1, 1:-1], whole[name][y // s + 1:y // s + 5, x // s + 1:x // s + 6]
            expect(got.shape == (4, 5) and np.array_equal(got, want), "%s of windows of %d: %s, not %s", name, n, got, want)


def test_turned_and_mirrored_pictures_have_turned_and_mirrored_maps():
    """Within what float32 rounds."""
    n, s = 128, 64
    p = textured(n + 9 * s, n + 11 * s, 2)
    counts, maps = of_picture(p, "--window", n, "--stride", s)
    for name, change in (("half a turn", lambda a: np.rot90(a, 2)), ("a quarter", np.rot90), ("mirrored", np.fliplr), ("transposed", lambda a: np.swapaxes(a, 0, 1))):
        got, of_got = of_picture(change(p), "--window", n, "--stride", s)
        moved = np.abs(got - counts).sum() / 2 / counts.sum()
        expect(got.sum() == counts.sum() and moved < 0.002, "%s: %.5f of the mass in another bin", name, moved)
        for m in MAPS:
            least = 1 if m.endswith("db") and m[:-3] not in ("mean", "std") else 0 if m == "gray" else 1e-3
            away = np.abs(of_got[m] - change(maps[m])).max()
            expect(away <= least, "%s: %s differs by %g", name, m, away)


main(globals())
