"""The CUDA backend without a GPU: its host code and nvcc's objects, over a stub of the CUDA runtime.

The stub (stub.h) replaces smoothing and transforming by exact checksums, so that numpy gives the right value of
every window and of the histogram. One call of CUDA can be made to fail. Work can run as late as CUDA allows.
"""
import collections
import concurrent.futures
import itertools

import h5py
import numpy as np

import check_live
from check_jpeg import JPEG, KINDS, WRONG, changed_store, kind
from lib import *

STUB = os.path.join(BUILD, "tests", "h5spec_stub")
BINS = 1600
WALK = (2, 700, 719, 100)  # out of memory, illegal address, launch failure, no device


def need_stub():
    if not os.path.exists(STUB):
        raise Skip("this build has no CUDA part: nvcc was not found, or CUDA=0")


def stub(stores, *options, status=0, device="cuda", **settings):
    """Runs h5spec over the stub. Settings: devices, fail, memory, odd, order, calls. Returns the run; .result is its file."""
    need_stub()
    env = dict(os.environ, **{"WSI_STUB_" + k.upper(): str(v) for k, v in settings.items() if v is not None})
    out = os.path.join(tmp("result"), "result.h5")
    p = run(STUB, "run", "--device", device, "-o", out, *options, *([stores] if isinstance(stores, str) else stores),
            status=status, env=env)
    p.result = out
    return p


# --- what must come out ---

_twins = {}  # stores of codec jpeg: a store of the same slide that h5py can read


def picture(path):
    px = pixels(_twins.get(path, path)).astype(np.int64)
    return px[..., 0] if px.shape[2] == 1 else px @ np.array([299, 587, 114])


def rows_away(gray, n):
    return gray[np.clip(np.arange(len(gray)) + n, 0, len(gray) - 1)]


def sums_of(path, window, stride, radius):
    """Checksum of every window, [ny][nx]."""
    gray = picture(path)
    lain = (gray + 2 * rows_away(gray, -radius) + 3 * rows_away(gray, radius)).astype(np.uint64)
    y, x = np.mgrid[:window, :window]
    weights = (1 + (7 * y + 13 * x) % 256).astype(np.uint64)
    ny, nx = ((n - window) // stride + 1 if n >= window else 0 for n in lain.shape)
    return np.array([[(lain[j * stride:j * stride + window, i * stride:i * stride + window] * weights).sum()
                      for i in range(nx)] for j in range(ny)], np.uint64).reshape(ny, nx)


_sums = {}


def expected_bins(path, window=256, stride=128, radius=3, bins=BINS):
    key = (path, window, stride, radius)
    if key not in _sums:
        _sums[key] = sums_of(*key)
    return (_sums[key] % np.uint64(bins)).astype(np.int64)


def check_slide(slide, bins, window, counts=None, where=None, n_bins=BINS, high=160.0):
    """One slide of a result against the bin of each window."""
    counts = np.ones(bins.shape, bool) if counts is None else counts
    counts = counts if where is None else counts & where
    want = np.bincount(bins[counts], minlength=n_bins) * window * window
    expect(np.array_equal(slide["histogram"][()], want), "%s: the histogram is wrong", slide.name)
    mean = np.where(counts, (bins + 0.5) * high / n_bins, np.nan)
    expect(np.array_equal(np.isnan(slide["window_mean_db"][()]), ~counts), "%s: other windows counted", slide.name)
    expect(np.allclose(slide["window_mean_db"][()], mean, rtol=0, atol=2e-4, equal_nan=True), "%s: means", slide.name)
    expect(np.allclose(slide["window_std_db"][()][counts], 0, atol=1e-3), "%s: stds", slide.name)
    expect(slide.attrs["windows"] == counts.sum(), "%s: %d windows", slide.name, slide.attrs["windows"])
    check_features(slide, bins, counts, high / n_bins)


def check_features(slide, bins, counts, width):
    """All values of a window have one bin number, so every octave has its level, focus and fine detail are 0."""
    level = np.where(counts, np.round((bins + 0.5) * width * 100), -32768)
    expect(np.array_equal(slide["window_level_db"][()], level), "%s: levels", slide.name)
    for name in ("window_focus_db", "window_fine_db", "window_sharp_db"):
        expect(np.array_equal(slide[name][()], np.where(counts, 0, -32768)), "%s: %s", slide.name, name)
    expect(np.array_equal(slide["window_gray"][()], np.where(counts, bins % 255, 255)), "%s: gray", slide.name)
    expect(np.array_equal(slide["window_flags"][()] & 1 != 0, counts), "%s: flags", slide.name)
    if counts.any():
        expect(np.allclose(slide["profile"][()][1:], (bins[counts].mean() + 0.5) * width), "%s: profile", slide.name)
    spectra = [slide["spectrum_" + kind] for kind in ("tissue", "glass")]
    expect(all((s[()] == s[0, 0]).all() for s in spectra), "%s: spectra", slide.name)
    windows = sum(s.attrs["windows"] for s in spectra)
    expect(0 < windows <= counts.sum() or not counts.any(), "%s: %d windows sampled", slide.name, windows)
    if windows == counts.sum():  # all are in the samples
        expect(sum(int(s[0, 0]) for s in spectra) == bins[counts].sum(), "%s: sums of spectra", slide.name)


def name_of(path):
    return os.path.splitext(os.path.basename(path))[0]


def check_result(result, stores, window=256, stride=128, radius=3):
    """The result holds these stores with the right values."""
    with h5py.File(result, "r") as f:
        expect(sorted(f["slides"]) == sorted(map(name_of, stores)), "slides %s", sorted(f["slides"]))
        for s in stores:
            check_slide(f["slides"][name_of(s)], expected_bins(s, window, stride, radius), window)
        total = sum(f["slides"][s]["histogram"][()] for s in f["slides"])
        expect(np.array_equal(f["histogram"][()], total), "the sum over all slides")


def right(stores, *options, window=256, stride=128, radius=3, **settings):
    stores = [stores] if isinstance(stores, str) else stores
    p = stub(stores, *options, *(() if (window, stride) == (256, 128) else ("--window", window, "--stride", stride)), **settings)
    check_result(p.result, stores, window, stride, radius)
    return p


# --- right results ---

def rgb():
    return store(made("--size", "1100x2300", name="rgb"), "--stripe-rows", "240", "--group-bytes", "1")


def gray():
    return store(made("--size", "900x1310", "--seed", "3", name="gray"), "--gray")


def small(n):
    return [store(made("--size", "%dx%d" % (300 + 40 * (k % 3), 300 + 150 * (k % 4)), "--seed", str(k + 1), name="small-%02d" % k),
                  *(["--gray"] if k % 3 == 1 else [])) for k in range(n)]


def test_the_pictures_distinguish_windows():
    need_stub()
    expect(len(np.unique(expected_bins(rgb()))) > expected_bins(rgb()).size // 2, "checksums are alike")


@races
def test_rgb_and_gray():
    for s in (rgb(), gray()):
        p = right(s, "--json")
        (j,) = json_lines(p.out)
        expect(j["backend"] == "cuda" and j["kernel"] == "fused" and j["device"] == "cuda:0 Stub", "%s", j)
    for s, memory in ((rgb(), "4M"), (rgb(), "6M"), (rgb(), "9M"), (gray(), "2M")):  # in slabs
        right(s, "--memory", memory)


@races
def test_many_slabs_whatever_the_order_on_the_device():
    # a staging buffer must not be filled before its copy is complete, a buffer not before it was smoothed
    s = store(made("--size", "300x6000", name="long"), "--codec", "none")
    for order, j in itertools.product(range(6), (2, 16)):
        right([s, gray()], "--memory", "2M", "-j", j, order=order)


def test_groups():
    whole = right(rgb()).result
    for cuts in ((1, 4, 11), (1, 2, 3, 11)):
        parts = [stub(rgb(), "--groups", "%d-%d" % (a, b - 1), "--memory", "4M").result for a, b in zip(cuts, cuts[1:])]
        out = os.path.join(tmp(), "sum.h5")
        run(STUB, "merge", "-q", "-o", out, *reversed(parts))
        check_result(out, [rgb()])
    with h5py.File(whole, "r") as f, h5py.File(out, "r") as g:
        expect(f["histogram"][()].tobytes() == g["histogram"][()].tobytes(), "groups")


def tissue_windows(path, least=0.5):
    with h5py.File(path, "r") as f:
        mask, (h, w) = f["tissue/mask"][()].astype(bool), f["pixels"].shape[:2]
    px = np.repeat(np.repeat(mask, 32, 0), 32, 1)[:h, :w]
    ny, nx = expected_bins(path).shape
    return np.array([[px[j * 128:j * 128 + 256, i * 128:i * 128 + 256].mean() >= least for i in range(nx)] for j in range(ny)])


def test_tissue_only_and_missing_chunks():
    need_stub()
    s = store(made("--size", "1500x1900", name="tissue"), "--tissue-only")
    counts = tissue_windows(s)
    expect(counts.any() and not counts.all(), "of no use: %d of %d", counts.sum(), counts.size)
    right(s)  # all windows, also those over chunks that the file lacks
    for settings in ({}, {"devices": 2}, {"order": 0}):
        for options in ((), ("--memory", "10M")):
            p = stub([s, gray()], "--tissue-only", *options, **settings)
            with h5py.File(p.result, "r") as f:
                check_slide(f["slides/tissue"], expected_bins(s), 256, counts)


def test_tiles_that_do_not_divide_the_slide():
    for tile, size in (("16", "530x700"), ("512", "700x1300"), ("256", "257x515")):
        s = store(made("--size", size, "--tile", tile, name="tiles" + tile))
        right(s)
        right(s, "--memory", {"16": "3M", "256": "4M", "512": "13M"}[tile])
        right(s, devices=2)
    for tile in ("50", "33"):  # columns of odd sizes
        right(store(made("--size", "610x720", "--tile", tile, name="odd" + tile), "--codec", "none"))


def dense_bins(path, window):
    """expected_bins for stride 1 and radius 0."""
    y, x = np.mgrid[:window, :window]
    rows = np.lib.stride_tricks.sliding_window_view(6.0 * picture(path), window, 1) @ (1.0 + (7 * y + 13 * x) % 256).T  # exact
    ny = len(rows) - window + 1
    return sum(rows[y:y + ny, :, y] for y in range(window)).astype(np.int64) % BINS


@later("ci")
def test_more_windows_than_one_band_has():
    # what is kept per window is bounded: at small strides a slide is computed in several bands
    need_stub()
    if SAN:
        raise Skip("takes minutes with sanitizers")
    s = store(made("--size", "640x1000", "--tile", "48", name="dense"), "--gray")
    bins, calls = dense_bins(s, 64), os.path.join(tmp(), "calls")
    expect(bins.size > 1 << 19, "of no use: %d windows", bins.size)
    mask = np.repeat(np.repeat(values_in(s, "tissue/mask").astype(np.int64), 32, 0), 32, 1)[:1000, :640]
    area = np.pad(mask.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    area = area[64:, 64:] - area[:-64, 64:] - area[64:, :-64] + area[:-64, :-64]
    counts = area >= 64 * 64 / 2
    expect(counts.any() and not counts.all(), "of no use")
    p = stub(s, "--window", 64, "--stride", 1, "--sigma", 0, "--tissue-only", calls=calls, devices=2, order=0)
    with h5py.File(p.result, "r") as f:
        check_slide(f["slides/dense"], bins, 64, counts)
    locked = json_in(calls)["locked_bytes"] / 2
    expect(locked <= 96 << 20, "%d bytes of page-locked memory per device", locked)


def test_memory_limits_the_staging_buffers():
    # whatever the number of devices and threads; what a thread has is never less than a chunk
    for mib, j, devices in ((8, 4, 1), (8, 4, 3), (16, 2, 2)):
        for s in (rgb(), jpeg(kind("420"))):
            bytes = calls_of(s, "--memory", "%dM" % mib, "-j", j, devices=devices)["registered_bytes"]
            expect(0 < bytes <= mib << 20, "%d bytes of %d MiB", bytes, mib)
    large = store(made("--size", "530x700", "--tile", "512", name="large-chunks"))
    expect(calls_of(large, "--memory", "1M", "-j", 3)["registered_bytes"] >= 3 * 512 * 512 * 3, "less than a chunk")


def test_windows_by_cufft():
    for window, stride in ((128, 128), (64, 37), (512, 200), (256, 100)):
        for options, settings in (((), {}), (("--memory", "7M"), {"memory": PLENTY}), (("--memory", "7M"), {"order": 0})):
            p = right(rgb(), "--json", *options, window=window, stride=stride, **settings)
            expect(json_lines(p.out)[0]["kernel"] == "cuFFT", p.out)
    right(gray(), "--taper", "hann")


def test_without_cufft():
    """Only windows that need it miss it, and the message says so in one line."""
    right(rgb(), cufft="none")
    p = stub(rgb(), "--window", 64, "--stride", 64, cufft="none", status=5)
    says(p.err, "Stub (cuda:0)", "libcufft is not found")
    p = stub(rgb(), "--window", 64, "--stride", 64, cufft="none", device="auto")
    says(p.err, "using the CPU: no CUDA device can be used: left out", "libcufft is not found")


def test_stride_64_in_the_fused_kernel():
    # two rings, whose rows wrap around inside of windows; batches that begin with either parity of rows
    for options, settings in (((), {}), (("--memory", "2M"), {}), (("--memory", "2M", "-j", 3), {"devices": 3, "order": 2}),
                              (("--taper", "hann"), {}), (("--sigma", "0"), {"radius": 0})):
        for stores in ([rgb()], [gray(), jpeg(kind("420"))]):
            p = right(stores, "--json", *options, stride=64, **settings)
            expect(all(line["kernel"] == "fused" for line in json_lines(p.out)), p.out)


def test_other_sigmas():
    for sigma, radius in ((0, 0), (0.5, 2), (3, 9), (10, 30)):
        right(rgb(), "--sigma", sigma, "--memory", "6M", radius=radius)


def test_other_bins():
    for bins in (100, 2046, 5000):
        p = stub(gray(), "--bins", bins)
        with h5py.File(p.result, "r") as f:
            check_slide(f["slides/gray"], expected_bins(gray(), bins=bins), 256, n_bins=bins)


@races
def test_several_devices():
    for devices in (2, 3):
        for order in (None, 0, 1):
            p = right(rgb(), "--memory", "%dM" % (4 * devices), "--json", devices=devices, order=order)
            expect(json_lines(p.out)[0]["device"] == "cuda:%s Stub" % ",".join(map(str, range(devices))), p.out)
        right([rgb(), gray()] + small(4), devices=devices)
        right([gray(), rgb()], "--memory", "12M", "-j", "5", devices=devices, order=3)
    right(rgb(), device="cuda:2,0", devices=3)


@races
def test_many_small_stores():
    for devices, order in ((1, None), (1, 5), (2, None), (3, 0)):
        right(small(24), "-j", "3", devices=devices, order=order)


def wider_and_wider():
    return [store(made("--size", "%dx%d" % (300 * k, 700), "--seed", str(k), name="wide-%d" % k)) for k in (1, 2, 4, 8)]


@races
def test_wide_stores_after_narrow_ones():
    # buffers grow between stores while the other device computes
    for devices, order in ((1, None), (1, 0), (2, None), (2, 0)):
        right(wider_and_wider(), devices=devices, order=order)


def flipped_chunk(path, chunk, at):
    """A copy of a store with one bit of a chunk of group 1 changed, and the CRC left as it was."""
    with h5py.File(path, "r") as f:
        px = f["groups/00001/pixels"].id
        info = px.get_chunk_info(chunk % px.get_num_chunks())
    return flipped(path, info.byte_offset + at % info.size, 4)


@races
def test_a_damaged_store_among_others():
    bad = flipped_chunk(store(made("--size", "500x2600", "--seed", "9", name="hurt"), "--codec", "none"), -1, 0)
    wide = store(made("--size", "2400x700", "--seed", "8", name="wide-8"))
    for devices, order in ((1, None), (1, 0), (2, 0), (1, 3), (2, 3)):
        p = stub([gray(), bad, wide, small(1)[0]], "--memory", "16M", status=1, devices=devices, order=order)
        says(p.err, bad, "CRC mismatch")
        check_result(p.result, [gray(), wide, small(1)[0]])


@races
def test_stores_are_opened_at_the_same_time():
    """With regions and tissue maps, and with one among them whose table is damaged."""
    need_stub()
    stores, roi = small(12), tmp("roi")
    bad = copied(flipped_in(stores[4], "groups/00001/tile_crc32"), "hurt.h5")
    stores.insert(5, bad)
    for s in stores:
        put_file(os.path.join(roi, name_of(s) + ".geojson"), '{"type": "Polygon", "coordinates": [[[0, 0], [290, 0], [290, 600], [0, 600]]]}')
    jansson = "Jansson" not in run(STUB, "run", "--roi", "x", "-o", "x.h5", "x", status=2).err
    for options in (["--tissue-only"], *([["--roi", roi]] if jansson else [])):
        want = stub(stores, *options, "-j", 1, status=1)
        says(want.err, bad, "tile_crc32 is damaged (CRC mismatch)", "12 done, 1 failed")
        for threads, devices in ((8, 4), (4, 1)):
            p = stub(stores, *options, "-j", threads, devices=devices, status=1)
            says(p.err, bad, "12 done, 1 failed")
            same = {*OF_THE_RUN, "device", "attribute_crc32"}
            equal(content(p.result, same), content(want.result, same), "%s, %d threads, %d devices" % (options, threads, devices))


def test_hdf5_is_used_by_one_thread_at_a_time():
    """Where the library is not built for threads, a run that opens and reports at the same time would crash now and then."""
    need_stub()
    if SAN:
        raise Skip("preloaded libraries and sanitizers do not go together")
    env = dict(os.environ, LD_PRELOAD=os.path.join(BUILD, "tests", "torture_alone.so"), WSI_STUB_DEVICES="4")
    for out in (os.path.join(tmp(), "r.h5"), tmp("folder")):
        p = run(STUB, "run", "--device", "cuda", "-j", 8, "--tissue-only", "-o", out, *small(24), env=env)
        says(p.err, "24 done, 0 failed")


@later("ci")
@races
def test_live_with_several_devices():
    """Bands of one slide come from several devices in any order; the page shows them from top to bottom, and equal pictures at the end."""
    need_stub()
    jobs = [store(made("--size", "1500x9000", "--tile", "64", "--seed", str(k), name="live-%d" % k)) for k in (1, 2)] + [walk_job()[1]]
    last = {}
    for devices, threads, order in ((4, 4, 5), (1, 1, None))[:1 if SAN == "thread" else 2]:
        folder, out = os.path.join(tmp(), "live"), os.path.join(tmp(), "r.h5")
        env = dict(os.environ, WSI_STUB_DEVICES=str(devices), **({} if order is None else {"WSI_STUB_ORDER": str(order)}))
        p = subprocess.Popen([STUB, "run", "-q", "--device", "cuda", "-j", str(threads), "--memory", "%dM" % (2 * devices), "--live", folder,
                              "-o", out, *jobs], env=env)
        seen = [[], []]
        while p.poll() is None:
            for k in (0, 1):
                try:
                    seen[k].append(check_live.picture(folder, k + 1))
                except FileNotFoundError:
                    pass
            time.sleep(0.01)
        expect(p.wait() == 0, "%s devices: status %d", devices, p.returncode)
        state = check_live.state(folder)
        expect(state["status"] == "complete" and state["done"] == 3 and state["failed"] == 0 and len(state["newest"]) == 3, "%s", state)
        drawn = [k for k in range(3) if os.path.exists(os.path.join(folder, "%d.png" % (k + 1)))]
        # under the thread sanitizer pictures may cost more than the page's share of a run
        expect(drawn == [0, 1, 2] or "thread" in SAN and drawn, "pictures of %s", drawn)
        pictures = {k: check_live.picture(folder, k + 1) for k in drawn}
        for shown, whole in ((seen[k], pictures[k]) for k in (0, 1) if k in drawn):
            expect((whole != check_live.CLEAR).all(), "rows are missing")
            rows = [int((s != check_live.CLEAR).all(axis=1).sum()) for s in shown]
            expect(rows == sorted(rows), "%s", rows)
            for s, n in zip(shown, rows):
                expect((s[:n] == whole[:n]).all() and (s[n:] == check_live.CLEAR).all(), "a row that was shown has changed")
        for k, (path, name) in enumerate(zip(jobs, ("live-1", "live-2", "walk-gray"))):
            slide = check_live.call_of(os.path.join(folder, "%d.js" % (k + 1)), "slide")
            expect(slide["name"] == name and slide["rows"] == slide["ny"], "%s", slide)
            expect(slide["drawn"] == slide["ny"] or "thread" in SAN, "%s", slide)
        check_result(out, jobs)
        expect(all((last[k] == pictures[k]).all() for k in drawn if k in last), "pictures differ")
        last.update(pictures)


# --- failures ---

def walk_job():
    """Small, but several slabs and two stores."""
    return [store(made("--size", "300x700", "--tile", "48", name="walk")),
            store(made("--size", "290x400", "--tile", "48", "--seed", "7", name="walk-gray"), "--gray")]


def jpeg_walk_job():
    return [jpeg(made("--size", "300x700", "--tile", "48", name="walk-jpeg")), walk_job()[1],
            jpeg(made("--size", "290x400", "--tile", "64", "--photometric", "ycbcr", "--seed", "7", name="walk-420"))]


def gds_walk_job():
    return [jpeg_walk_job()[0], store(made("--size", "290x400", "--tile", "48", "--seed", "7", name="walk-none"), "--codec", "none")]


def direct_reading():
    """Can files be read here without the page cache, as --io gds needs?"""
    s = store(made("--size", "300x300", name="direct"), "--codec", "none")
    return run(H5SPEC, "run", "-q", "--device", "cpu", "--io", "direct", "-o", os.path.join(tmp(), "r.h5"), s, status=None).returncode == 0


def calls_of(stores, *options, **settings):
    """What the stub counts: how many calls there are ("calls"), where each comes from ("sites") and so on."""
    path = os.path.join(tmp(), "calls")
    stub(stores, *options, calls=path, **settings)
    return json_in(path)


def check_failure(p, stores, window, stride, devices):
    """After a failure: right values, or an error that names the device; never a wrong value."""
    whole = os.path.exists(p.result)
    if p.returncode == 0:
        check_result(p.result, stores, window, stride)
        return "right"
    expect(p.returncode in (1, 5), "status %d: %s", p.returncode, p.err[-300:])
    expect(any("cuda:%d)" % k in p.err for k in range(devices)) or "this machine has no CUDA device" in p.err or
           "GPUDirect Storage: " in p.err,
           "no device is named: %s", p.err)
    if whole:
        with h5py.File(p.result, "r") as f:
            done = [s for s in stores if name_of(s) in f["slides"]]
        check_result(p.result, done, window, stride)
        expect(len(done) < len(stores), "status 1, but the result is complete")
        for s in stores:
            expect(s in done or s in p.err, "%s failed and is not named: %s", s, p.err)
        return "part"
    return "none"


_met = set()  # places whose calls have failed, by number of devices


# A call from every place of the program that no earlier walk has met fails, in one way, and that of the next place in the next
# way; make check-all: every call. last: of every third place that is met again, the last call. tests/torture cuda tries all ways.
def walk(name, stores, *options, window=256, stride=128, devices=1, codes=WALK, last=False, **settings):
    options += () if (window, stride) == (256, 128) else ("--window", window, "--stride", stride)
    sites = calls_of(stores, *options, "-j", 1, devices=devices, **settings)["sites"]
    calls = [k for k in at_each_site(sites) if TIER == "all" or (devices, sites[k - 1]) not in _met]
    if last and TIER != "all":
        calls = [k for k in (len(sites) - n + 1 for n in at_each_site(sites[::-1])) if sites[k - 1] in sites[:k - 1]][::3]
    calls = calls[::5 if SAN else 1]  # races show in few runs
    _met.update((devices, place) for place in sites)
    ways = collections.Counter()

    def one(k, code):
        p = stub(stores, *options, "-j", 1 + k % 2, status=None, devices=devices, fail="%d:%d" % (k, code), **settings)
        return k, code, p

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for k, code, p in pool.map(lambda n: one(calls[n], codes[n % len(codes)]), range(len(calls))):
            try:
                ways[check_failure(p, stores, window, stride, devices)] += 1
            except Exception as e:
                raise Failed("%s: call %d of %d fails with %d: %s" % (name, k, len(sites), code, e))
            shutil.rmtree(os.path.dirname(p.result))
    print("# %s: %d calls from %d places, %d runs: %s" % (name, len(sites), len(set(sites)), sum(ways.values()), dict(ways)))
    return ways


def lost_by_a_failure(stores, k, code):
    p = stub(stores, "-j", 1 + k % 4, status=None, devices=2, fail="%d:%d" % (k, code))
    expect(check_failure(p, stores, 256, 128, 2) == "right", "%d:%d: %s", k, code, p.err)
    gone = [l for l in p.err.splitlines() if "cuda:" in l]
    expect(not any("cuda:0)" in l for l in gone) or not any("cuda:1)" in l for l in gone), "both failed: %s", p.err)
    expect(all("another device computes it again" in l and any(s in l for s in stores) for l in gone), "%s", p.err)
    return len(gone)


@later("ci")
@races
def test_one_of_two_devices_fails():
    # the other device does all the work, also what was in progress
    stores = small(12)
    begin = calls_of(small(1), "-j", 1, devices=2)["calls"] // 2
    calls = calls_of(stores, "-j", 3, devices=2)["calls"]
    lost = [lost_by_a_failure(stores, k, code) for k in range(begin, calls - 100, 29 * by_tier(15, 15, 1)) for code in (2, 719)]
    # how many depends on what is in progress, so on what else the machine does
    print("# most stores that one failure lost: %d" % max(lost))
    expect(any(lost), "no failure met a store in progress: %s", lost)


PLENTY = 64 << 20  # memory of a device that is enough for every small store here


def has_room(stores, *options, memory, window=256, stride=128, **settings):
    """With this much memory of each device the values are right, or else an error names the device and the reason."""
    p = stub(stores, *options, "--window", window, "--stride", stride, status=None, memory=memory, **settings)
    if p.returncode == 0:
        check_result(p.result, stores, window, stride)
        return True
    expect(p.returncode == 5, "status %d", p.returncode)
    says(p.err, "(cuda:0)", "out of memory")
    check_failure(p, stores, window, stride, 1)
    return False


def least_memory(stores, *options, **settings):
    """How much memory of a device is just enough, in bytes, to a MiB."""
    few, enough = 0, PLENTY >> 20
    expect(has_room(stores, *options, memory=PLENTY, **settings), "%d MiB are too little", enough)
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if has_room(stores, *options, memory=middle << 20, **settings) else (middle, enough)
    return enough << 20


@later("ci")
def test_little_device_memory():
    # less at a time: windows by cuFFT, rows of the ring
    for window, stride in ((128, 128), (256, 128), (256, 64)):
        least = least_memory([rgb(), gray()], "--memory", "4M", window=window, stride=stride)
        for memory in (1 << 30, 2 * least, 5 * least // 4):
            right([rgb(), gray()], "--memory", "4M", window=window, stride=stride, memory=memory)
        p = stub([rgb(), gray()], "--memory", "4M", "--window", window, status=5, memory=1 << 16)
        says(p.err, "(cuda:0)", "out of memory")
        expect(not os.path.exists(p.result), "a result of nothing")


def test_growing_when_device_memory_is_little():
    # a wider store gets its buffers although cuFFT has taken all the memory
    wide = wider_and_wider()
    for options in ({}, {"window": 128, "stride": 100}):
        right(wide, "--memory", "8M", memory=least_memory(wide[-1:], "--memory", "8M", **options), **options)


def test_a_band_without_room_goes_to_another_device():
    wide = store(made("--size", "2400x700", name="wide-8"))
    little = least_memory([wide], "--memory", "4M") - (1 << 20)
    for memory in ("%d,0", "0,%d", "%d,0,%d"):
        for first in ([], small(4)):  # a device that has had no room yet, and one that has
            p = right(first + [wide], devices=memory.count(",") + 1, memory=memory.replace("%d", str(little)), order=1)
            expect("another device computes it again" not in p.err or "out of memory" in p.err, p.err)
    p = stub([wide] + small(4), devices=2, memory=little, status=5)
    says(p.err, "wide-8", "out of memory", "4 done, 1 failed")


def kinds_of_jobs():
    """NAME: (store, does it fail?) of whatever can come behind a store that was short of memory."""
    whole = store(made("--size", "500x2600", "--seed", "9", name="hurt"), "--codec", "none")
    cut = file_of("cut.h5", bytes_in(whole)[:os.path.getsize(whole) // 2])
    return {"empty": (store(made("--size", "200x300", name="tiny")), False), "low": (store(made("--size", "2000x200", name="low")), False),
            "unreadable": (cut, True), "missing": (os.path.join(tmp(), "none.h5"), True), "small": (small(1)[0], False),
            "damaged": (flipped_chunk(whole, -1, 0), True), "one window": (store(made("--size", "256x256", name="one")), False),
            "jpeg": (jpeg(kind("420")), False), "gray": (gray(), False)}


def behind(first, jobs, memory, **settings):
    """A store that may be short of memory, and jobs behind it: each ends as it does with plenty of memory."""
    stores = [first] + [s for s, _ in jobs]
    expect(name_of(first) == min(map(name_of, stores)), "of no use: stores are computed in the order of their names")
    p = stub(stores, status=None, memory=memory << 20, **settings)
    expect(p.returncode in ((1,) if any(fails for _, fails in jobs) else (0,)), "%s: status %d with %d MiB: %s", stores, p.returncode, memory, p.err)
    says(p.err, "%d failed" % sum(fails for _, fails in jobs) if any(fails for _, fails in jobs) else "%d done" % len(stores))
    return p, [first] + [s for s, fails in jobs if not fails]


@later("ci")
def test_short_memory_and_every_kind_of_job():
    # with nothing to compute there are no slabs to lower: this was a division by zero
    need_stub()
    first, kinds = jpeg(made("--size", "3000x2600", name="0-high")), kinds_of_jobs()
    for memory in (40, 60, 90, 4096):
        for settings in ({}, {"devices": 2, "order": 2}):  # the bands of one store on two devices
            p, good = behind(first, kinds.values(), memory, **settings)
            check_result(p.result, good)
    for name, job in kinds.items():
        behind(first, [job], 90, quick=1)
        behind(first, [job, kinds["gray" if name == "small" else "small"]], 60, quick=1)


@later("ci")
def test_short_memory_and_tiles_of_every_kind():
    # with memory halved seven times there was no room for one set of tables, and the loop over batches never ended
    need_stub()
    slides = {"own": ("--size", "900x600", "--tile", "128", "--own-tables"), "alike": ("--size", "900x600", "--tile", "128"),
              "wide": ("--size", "1500x1100", "--tile", "1024"), "wide own": ("--size", "1500x1100", "--tile", "1024", "--own-tables"),
              "restarts": ("--size", "900x600", "--tile", "128", "--restart", "1")}
    computed = collections.Counter()
    for name, options in slides.items():
        s = jpeg(made(*options, "--photometric", "ycbcr", name=name))
        for window, stride in ((64, 64), (256, 128)):  # through cuFFT, and not
            for memory in (24, 60, 90, 130) if "wide" in name else (12, 14, 24, 26):
                computed[name] += has_room([s], "-j", 2, memory=memory * 1000000, window=window, stride=stride)
    expect(len(computed) == len(slides) and all(computed.values()), "computed: %s", computed)


@later("ci")
def test_a_wide_slide_on_a_gpu_that_others_use():
    need_stub()
    wide, kinds = store(made("--size", "30000x1000", name="0-wide"), *JPEG), kinds_of_jobs()
    for memory in (400, 1000, 4096):
        behind(wide, [kinds["empty"], kinds["unreadable"], kinds["small"]], memory, quick=1)


@later("ci")
@races
def test_a_device_is_lost_when_memory_is_short():
    # what it had is done by the other one, whose slabs were lowered, too; jobs with nothing to compute are in between
    need_stub()
    kinds = kinds_of_jobs()
    stores = [jpeg(made("--size", "3000x2600", name="0-high"))] + [kinds[k][0] for k in ("empty", "small", "low", "gray", "jpeg")]
    calls = calls_of(stores, devices=2, memory=60 << 20)["calls"]
    for k in range(calls // 4, calls, calls // by_tier(6, 10, 60)):
        for code in (2, 700):
            p = stub(stores, devices=2, memory=60 << 20, fail="%d:%d" % (k, code), status=None)
            expect(p.returncode in (0, 5), "call %d fails with %d: status %d: %s", k, code, p.returncode, p.err)
            if p.returncode == 0:
                check_result(p.result, stores)


# --- which device ---

def test_words_for_devices():
    says(stub(gray(), device="cuda:5", devices=2, status=1).err, "there is no device cuda:5", "this machine has 2, numbered from 0")
    says(stub(gray(), device="cuda:1", status=1).err, "there is no device cuda:1", "this machine has 1, numbered from 0")
    says(stub(gray(), device="cuda:0,0", devices=2, status=2).err, "cuda:0 is named twice")
    says(stub(gray(), device="cuda:99999999999999999999", status=2).err, "there is no device")
    says(stub(gray(), device="cuda:" + ",".join(map(str, range(65))), status=2).err, "more than 64 devices")
    for word in ("cuda:x", "cuda:", "cuda:,", "cuda:,0", "cuda:0;1", "cuda1", "gpu", "cuda:-1", "cuda: 0", "cpu:0", "auto:0", "cuda:0,", "cuda:0,,1"):
        says(stub(gray(), device=word, status=2, devices=2).err, word)
    right(gray(), device="cuda:1", devices=2)


def test_auto():
    p = right(gray(), device="auto")
    says(p.err, "using cuda:0")
    p = stub(gray(), device="auto", devices=0)
    says(p.err, "using the CPU: this machine has no CUDA device that can be used (CUDA: no CUDA-capable device is detected)")
    p = stub(gray(), device="auto", fail="1:719")
    says(p.err, "using the CPU", "unspecified launch failure")
    expect(attributes(p.result)["backend"] == "cpu", "backend")
    says(stub(gray(), device="cuda", devices=0, status=1).err, "--device cuda", "no CUDA-capable device is detected",
         "CUDA_VISIBLE_DEVICES", "MIG")
    says(stub(gray(), device="cuda", fail="1:35", status=1).err, "supports CUDA 12.2, and this program was built with CUDA ", "newer driver")


def attributes(result, slide="gray"):
    with h5py.File(result, "r") as f:
        return {k: v.decode() if isinstance(v, bytes) else v for k, v in f["slides"][slide].attrs.items()}


ODD = {"busy": "busy or unavailable", "old": "this build has no kernels for compute capability 3.0",
       "full": "only 100 of its 65536 MiB of memory are free"}


def test_auto_leaves_out_devices_that_cannot_be_used():
    for odd, why in ODD.items():
        for where, left, taken in ((odd, 0, 1), ("," + odd, 1, 0)):
            p = right(gray(), device="auto", devices=2, odd=where)
            says(p.err, "using cuda:%d Stub; left out " % taken, "Stub (cuda:%d)" % left, why)
            expect(attributes(p.result)["device"] == "cuda:%d Stub" % taken, "%s", attributes(p.result))
        p = stub(gray(), device="auto", odd=odd)
        says(p.err, "using the CPU: no CUDA device can be used: left out", "Stub (cuda:0)", why)
        expect(attributes(p.result)["backend"] == "cpu" and attributes(p.result)["device"] == "CPU", "not the CPU")
        p = stub(gray(), "-q", device="auto", odd=odd)
        expect(p.err == "", "--quiet: %s", p.err)


def test_a_named_device_that_cannot_be_used_is_an_error():
    for odd in ("busy", "old"):
        for device in ("cuda:1", "cuda", "cuda:0,1"):
            p = stub(gray(), device=device, devices=2, odd="," + odd, status=5)
            says(p.err, "--device " + device, "Stub (cuda:1)", ODD[odd])
            expect(not os.path.exists(p.result), "a result of nothing")
    right(gray(), device="cuda:0", devices=2, odd=",busy")


@later("ci")
def test_all_devices_use_one_kernel():
    for odd in ("small", ",small"):
        for device in ("auto", "cuda"):
            p = right([rgb(), gray()], "--memory", "8M", device=device, devices=2, odd=odd)
            says(p.err, "all devices use cuFFT", "Small Stub")
            for s in ("rgb", "gray"):
                expect(attributes(p.result, s)["kernel"] == "cuFFT", "%s", attributes(p.result, s))
    p = right(jpeg(kind("420")), "--memory", "16M", devices=4, odd=",small", order=2)
    expect(attributes(p.result, "420")["kernel"] == "cuFFT", "%s", attributes(p.result, "420"))
    p = right(gray(), device="cuda", devices=2, odd="small,small")
    expect("all devices" not in p.err, p.err)


def test_a_result_names_the_devices_that_computed_it():
    p = right(rgb(), "--memory", "8M", device="cuda", devices=3, odd=",small")
    expect(attributes(p.result, "rgb")["device"] == "cuda:0,2 Stub, cuda:1 Small Stub", "%s", attributes(p.result, "rgb"))
    stores = small(8)
    p = right(stores, devices=2, order=1)
    used = [attributes(p.result, name_of(s))["device"] for s in stores]
    expect({"cuda:0 Stub", "cuda:1 Stub"} <= set(used) <= {"cuda:0 Stub", "cuda:1 Stub", "cuda:0,1 Stub"}, "%s", used)


@later("ci")
def test_every_call_can_fail_under_auto():
    stores = small(3)
    for devices in (1, 2):
        sites = calls_of(stores, "-j", 1, device="auto", devices=devices)["sites"]
        calls, seen = len(sites), set()
        places = at_each_site(sites)
        opening = [k for k in places if k < 60 * devices]  # what --device auto decides
        for k in opening[::by_tier(3, 3, 1)] + places[len(opening)::by_tier(15, 15, 1)]:
            for code in (2, 719):
                p = stub(stores, "-j", 1, device="auto", devices=devices, status=None, fail="%d:%d" % (k, code))
                what = "call %d of %d fails with %d on %d devices: %s" % (k, calls, code, devices, p.err)
                opened = "using cuda:" in p.err
                expect(opened or "using the CPU: " in p.err, what)
                expect(opened or (devices == 1 or k <= 2), what)
                if not opened:
                    expect(p.returncode == 0 and all(attributes(p.result, name_of(s))["backend"] == "cpu" for s in stores), what)
                elif devices == 2 or p.returncode == 0:
                    check_result(p.result, stores)
                    expect(p.returncode == 0, what)
                seen.add("cpu" if not opened else "left out" if "left out" in p.err else "right" if p.returncode == 0 else "failed")
        expect(seen == ({"cpu", "right", "failed"} if devices == 1 else {"cpu", "left out", "right"}), "%s", seen)


@races
def test_everything_is_released():
    packed = [long_jpeg(), plain_gray(), jpeg(kind("420"))]
    for job, options, settings in (([rgb(), gray()] + small(3), ("--tissue-only",), {}), *((packed, io, {"refuse": 5}) for io in ways_of_reading()),
                                   ([rgb(), gray()] + small(3), ("--window", "64", "--stride", "64", "--taper", "hann"), {})):
        j = calls_of(job, *options, devices=2, **settings)
        expect(j["not_released"] == 0 and (j["pixels"] > 0) == ("refuse" in settings), "%s", j)


def walk_jobs():
    """NAME: stores, options and settings whose calls fail, each in turn."""
    plain, packed, direct = walk_job(), jpeg_walk_job(), gds_walk_job() if direct_reading() else []
    growing = [store(made("--size", "300x700", "--tile", "48", name="small-chunks")),
               store(made("--size", "290x400", "--tile", "48", "--seed", "2", name="two")),
               store(made("--size", "530x700", "--tile", "512", name="large-chunks"))]
    return {"fused": (plain, ("--memory", "1M"), {}),
            "stride 64": (plain, ("--memory", "1M"), {"stride": 64, "codes": (2, 719)}),
            "cuFFT": (plain, ("--memory", "1M", "--taper", "hann"), {"window": 64, "stride": 50, "memory": PLENTY, "codes": (2, 719)}),
            "JPEG": (packed, ("--memory", "1M"), {"refuse": 11}), "gds": (direct, ("--memory", "1M", "--io", "gds"), {"refuse": 11}),
            "two devices": (plain + small(2), ("--memory", "3M"), {"devices": 2}),
            # staging buffers must grow while another device computes: if that fails, the existing ones are kept
            "larger chunks on two": (growing, ("--memory", "1M"), {"devices": 2, "codes": (700,), "last": True}),
            "JPEG on two": (packed, ("--memory", "3M"), {"devices": 2, "codes": (700,), "refuse": 11}),
            "gds on two": (direct, ("--memory", "3M", "--io", "gds"), {"devices": 2, "codes": (700,), "refuse": 11})}


def walk_all(devices):
    """The walks with so many devices. Returns how the runs ended."""
    ways = collections.Counter()
    for name, (stores, options, settings) in walk_jobs().items():
        if stores and settings.get("devices", 1) == devices:
            ways += walk(name, stores, *options, **settings)
    return ways


@later("ci")
def test_every_call_can_fail():
    ways = walk_all(1)
    expect(ways["right"] and ways["part"] and ways["none"], "%s", ways)


@later("ci")
@races
def test_every_call_can_fail_with_two_devices():
    ways = walk_all(2)
    expect(ways["part"] == 0 and ways["right"], "%s", ways)  # the other device has repeated the lost work


def test_a_store_that_no_device_has_room_for():
    # its failure must not end the use of one device after the other
    wide = store(made("--size", "9000x600", name="wide"))
    stores = [small(1)[0], wide] + small(7)[1:]
    few = least_memory(small(7), "--memory", "3M")
    for devices, memory in ((1, few), (3, few), (3, 3 * few // 2)):
        expect(not has_room([wide], "--memory", "3M", memory=memory), "of no use: %d bytes are enough for all", memory)
        p = stub(stores, "--memory", "3M", status=5, devices=devices, memory=memory)
        with h5py.File(p.result, "r") as f:
            expect(len(f["slides"]) == len(stores) - 1 and "wide" not in f["slides"], "%s: %s", list(f["slides"]), p.err)
        check_result(p.result, [s for s in stores if s != wide], 256, 128)
        says(p.err, wide, "out of memory")


# --- JPEG, and what a device reads itself ---

def plain():
    return store(made("--size", "1100x2300", name="rgb-none"), "--codec", "none", "--stripe-rows", "240", "--group-bytes", "1")


def plain_gray():
    return store(made("--size", "900x1310", "--seed", "3", name="gray-none"), "--gray", "--codec", "none")


def ways_of_reading():
    """Through the host, and by the device itself where files can be read without the page cache."""
    return [()] + [("--io", "gds")] * direct_reading()


def jpeg(slide, *options):
    """A store of codec jpeg."""
    need_stub()
    s = store(slide, *JPEG, *options)
    _twins[s] = store(slide, "--codec", "none", *options)
    return s


def on_host(p):
    """For each store, the tiles that the device left to the host."""
    return [j["tiles_on_host"] for j in json_lines(p.out)]


def test_jpeg_stores():
    # every kind of tile; only those without a marker, with other tables than the kernels' or too many headers go to the host
    # "small": blocks have little shared memory, as those of compute capability 8.6, 8.9 and 12.0
    small_blocks = [(name, (), "small") for name in ("rgb", "420_complete_restart", "own", "own_422", "wide")]
    for name, io, odd in [(name, io, None) for io in ways_of_reading() for name in KINDS] + small_blocks:
        p = right(jpeg(kind(name)), *io, "--json", odd=odd)
        expect(on_host(p) == [0], "%s %s, %s: %s tiles on the host", name, io, odd, on_host(p))


def test_gray_jpeg_stores():
    for tile, more in (("240", ()), ("240", ("--own-tables",)), ("100x52", ("--restart", "5")), ("1104x32", ("--own-tables", "--restart", "7"))):
        slide = made("--container", "generic", "--size", "1000x700", "--tile", tile, "--photometric", "gray", *more, name="gray-jpeg")
        p = right(jpeg(slide), "--json")
        expect(on_host(p) == [0], "%s %s: %s", tile, more, on_host(p))


def test_jpeg_tiles_on_the_host_have_a_reason():
    # few long tiles, which one thread of the device would decode for long; the remark and --json say so
    slide = made("--size", "1300x1300", "--tile", "1296", "--quality", "100", "--seed", "9", name="long-tiles")
    p = right(jpeg(slide), "--json")
    n = on_host(p)[0]
    expect(0 < n < 4 and json_lines(p.out)[0]["tiles_on_host_long"] == n, "%s", p.out)  # tiles at the edge are short
    says(p.err, "the host decoded %d of 4 JPEG tiles: few large tiles, faster on the host (%d)" % (n, n))
    # unusual data
    p = right(jpeg(kind("rgb")), "--json", refuse=2)
    expect(on_host(p) == [json_lines(p.out)[0]["tiles_on_host_data"]], "%s", p.out)
    says(p.err, "of 15 JPEG tiles: unusual data")


def long_jpeg():
    return jpeg(made("--size", "700x5000", "--seed", "5", "--tile", "100x52", "--restart", "7", name="long-jpeg"))


@later("ci")
@races
def test_jpeg_slabs_in_any_order():
    stores = [long_jpeg(), plain_gray(), jpeg(kind("420")), plain()]
    for (order, j, devices), io in itertools.product(((None, 1, 1), (0, 2, 1), (1, 16, 1), (0, 4, 2), (5, 5, 3)), ways_of_reading()):
        p = right(stores, *io, "--memory", "%dM" % (4 * devices), "-j", j, "--json", devices=devices, order=order)
        expect(on_host(p) == [0, 0, 0, 0], "%s: %s", io, on_host(p))


@races
def test_jpeg_tiles_that_the_kernels_leave_to_the_host():
    for every, order, devices, io in ((1, None, 1, ()), (3, 0, 1, ()), (7, 1, 2, ()), (2, 4, 2, ())) + tuple(
            refused + (io,) for refused in ((1, None, 1), (3, 0, 1), (2, 4, 2)) for io in ways_of_reading()[1:]):
        p = right([long_jpeg(), jpeg(kind("rgb"))], *io, "--memory", "%dM" % (4 * devices), "--json", refuse=every, order=order, devices=devices)
        tiles = [7 * 97, 5 * 3]
        for n, all_of_them in zip(on_host(p), tiles):
            expect(all_of_them // every <= n <= all_of_them, "%d of %d tiles on the host", n, all_of_them)
        expect(attributes_of(p.result, "slides/long-jpeg")["tiles_on_host"] == on_host(p)[0], "the attribute")
        info = run(H5SPEC, "info", p.result).out
        expect(sum(map(int, re.findall(r"(\d+) tiles? left to the host's JPEG decoder", info))) == sum(on_host(p)), info)


def test_jpeg_tiles_with_many_headers():
    # more headers in a slab than the device keeps: the other tiles are decoded with their own tables
    base = jpeg(made("--size", "1000x1200", "--tile", "100x52", name="headers"))

    def add_headers(f):
        for g in f["groups"].values():
            px, crc = g["pixels"], g["tile_crc32"]
            for r, c in np.ndindex(crc.shape):
                mask, data = px.id.read_direct_chunk((r * 52, c * 100, 0))
                data = data[:2] + b"\xff\xfe" + (4).to_bytes(2, "big") + bytes([r + int(g.attrs["first_row"]) // 52, c]) + data[2:]
                px.id.write_direct_chunk((r * 52, c * 100, 0), data)
                crc[r, c] = zlib.crc32(data)
    path = changed(base, add_headers)
    _twins[path] = _twins[base]
    p = right(path, "--json")
    expect(on_host(p) == [0], "%s", on_host(p))
    right(path, "--memory", "1M", order=0)


def test_jpeg_and_tissue_only():
    slide = made("--size", "1500x1900", name="tissue-jpeg")
    right(jpeg(slide, "--tissue-only"), "--memory", "8M", order=0)
    for io in ways_of_reading():
        right(jpeg(slide, "--tissue-only"), *io)
        right(store(slide, "--tissue-only", "--codec", "none"), *io)


def test_damaged_jpeg_tiles_fail_their_store():
    need_stub()
    other = jpeg(kind("rgb"))
    for change, io in itertools.product(WRONG.values(), ways_of_reading()):
        bad = changed_store(change)
        p = stub([bad, other], *io, status=1, order=0)
        says(p.err, "%s: cannot unpack chunk at row 0, column 1 of group 1" % bad)
        check_result(p.result, [other])


def test_crcs_of_tiles():
    need_stub()
    other = jpeg(kind("rgb"))
    for (chunk, offset), s, io in itertools.product(((0, 0), (1, 700), (2, -1)), (jpeg(kind("420")), plain()), ways_of_reading()):
        bad = flipped_chunk(s, chunk, offset)  # the middle one leaves a stream that can be decoded
        p = stub([bad, other], *io, status=1, order=0)
        says(p.err, bad, "CRC mismatch in chunk at row 0, column %d of group 1" % chunk)
        check_result(p.result, [other])


def test_without_libjpeg():
    # a tile that the kernels leave to the host fails its store; the message names libjpeg
    program = STUB + "_no_jpeg"
    if not os.path.exists(program):
        raise Skip("this build has no CUDA part")
    s, out = jpeg(kind("420")), os.path.join(tmp(), "r.h5")
    p = run(program, "run", "--device", "cuda", "-o", out, s, rgb(), status=1)
    says(p.err, s + ": codec jpeg cannot be unpacked: this build lacks libjpeg; install it and build again")
    check_result(out, [rgb()])


def test_jpeg_with_little_memory():
    stores = [long_jpeg(), plain_gray(), jpeg(kind("420"))]
    for io in ways_of_reading():
        least = least_memory(stores, *io, "--memory", "4M", "-j", 2)
        right(stores, *io, "--memory", "4M", "-j", 2, memory=5 * least // 4)
        p = stub(stores, *io, "--memory", "4M", "-j", 2, status=5, memory=1 << 16)
        says(p.err, "(cuda:0)", "out of memory")
        expect(not os.path.exists(p.result), "a result of nothing")


def jpeg_streams(*counts):
    """A file of JPEG streams with what libjpeg-turbo decodes them to: so many made, so many of them changed."""
    program = os.path.join(BUILD, "tests", "jpeg_streams")
    if not os.path.exists(program) or not os.path.exists(os.path.join(BUILD, "tests", "jpeg_device")):
        raise Skip("this build has no CUDA part or no libjpeg")
    path = os.path.join(tmp("streams"), "streams")
    run(program, path, *counts, 1)
    return path


def decode_on_host(path):
    """Runs the kernels' entropy decoder on the host: streams, decoded, compared, wrong, by header, clean ones left."""
    p = run(os.path.join(BUILD, "tests", "jpeg_device"), "host", path)
    return [int(n) for n in re.findall(r"\d+", p.out.rsplit(": ", 3)[-3] + p.out.rsplit(": ", 3)[-2] + p.out.rsplit(": ", 3)[-1])]


def test_jpeg_kernels_decode_every_stream_of_an_encoder():
    streams, decoded, compared, wrong, by_header, clean_left = decode_on_host(jpeg_streams(400, 0))
    expect((decoded, wrong, by_header, clean_left) == (streams, 0, 0, 0) and compared > 50, "%d of %d decoded, %d wrong of %d",
           decoded, streams, wrong, compared)


def test_jpeg_kernels_never_misread_a_changed_stream():
    streams, decoded, compared, wrong, by_header, clean_left = decode_on_host(jpeg_streams(1200, 3600))
    expect(wrong == 0 and decoded < streams - 500 and compared > 50, "%d wrong of %d", wrong, compared)


if __name__ == "__main__":
    main(globals())
