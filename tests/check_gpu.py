"""The CUDA backend on a real GPU: compared with the CPU backend, and with itself under other options."""
import contextlib
import ctypes
import itertools

import h5py
import numpy as np

from check_features import check_derived, check_steps, slide_of
from check_jpeg import KINDS, WRONG, changed_store, kind
from check_oracle import check_flags, check_histogram, of_random_choices
from lib import *

SIZE = ("--size", "1700x2300")
_usable = []


def cuda(stores, *options, device="cuda"):
    """As spectrum(), on the GPU; skips where there is none."""
    if not _usable:
        p = run(H5SPEC, "run", "-q", "--device", "cuda", "-o", os.path.join(tmp(), "r.h5"), store(made("--size", "300x300", name="try")),
                status=None)
        _usable.append("" if p.returncode == 0 else p.err.strip().splitlines()[-1])
    if _usable[0] and "this machine has no " not in _usable[0] and "no CUDA" not in _usable[0]:
        raise Failed(_usable[0])  # a GPU exists and does not work
    if _usable[0]:
        raise Skip(_usable[0])
    return spectrum(stores, *options, "--device", device)


def numbers(path):
    """Everything that must not depend on how it was computed."""
    with h5py.File(path, "r") as f:
        out = {"histogram": f["histogram"][()].tobytes(), "windows": int(f.attrs["windows"]),
               "underflow": int(f.attrs["underflow"]), "overflow": int(f.attrs["overflow"])}
        for name, s in f["slides"].items():
            for key, dataset in s.items():
                out[name + "/" + key] = dataset[()].tobytes()
        return out


def equal(a, b, what):
    a, b = numbers(a), numbers(b)
    for key in sorted(set(a) | set(b)):
        expect(a.get(key) == b.get(key), "%s: %s differs", what, key)


# --- against the CPU ---

def close(stores, *options):
    with h5py.File(cuda(stores, *options), "r") as g, h5py.File(spectrum(stores, *options), "r") as c:
        gpu, cpu = (np.concatenate([[f.attrs["underflow"]], f["histogram"][()], [f.attrs["overflow"]]]).astype(np.int64) for f in (g, c))
        expect(g.attrs["windows"] == c.attrs["windows"] > 0 and gpu.sum() == cpu.sum(), "windows or samples")
        moved = np.abs(np.cumsum(gpu - cpu)).sum() / cpu.sum()  # samples x bins moved: more than samples in another bin
        expect(moved <= 0.005, "%s: %.4f of the mass in another bin", options, moved)
        for key in ("mean_db", "std_db"):
            expect(abs(g.attrs[key] - c.attrs[key]) <= 0.002, "%s: %s %f, not %f", options, key, g.attrs[key], c.attrs[key])
        for name in c["slides"]:
            for key, most in (("window_mean_db", 0.005), ("window_std_db", 0.02)):
                a, b = g["slides"][name][key][()], c["slides"][name][key][()]
                expect(np.array_equal(np.isnan(a), np.isnan(b)) and np.nanmax(np.abs(a - b)) < most, "%s: %s", options, key)
            close_features(g["slides"][name], c["slides"][name], options)


def close_features(gpu, cpu, options):
    """Maps of hundredths of a dB, profile, spectra; windows are the same ones, exactly."""
    for key in ("window_flags", "window_tissue", "window_row_step", "window_column_step"):
        expect(np.array_equal(gpu[key][()], cpu[key][()]), "%s: %s", options, key)
    for key, most in (("window_level_db", 3), ("window_focus_db", 8), ("window_fine_db", 8), ("window_sharp_db", 8)):
        off = np.abs(gpu[key][()].astype(int) - cpu[key][()])
        expect(off.max() <= most, "%s: %s is off by %d hundredths", options, key, off.max())
    off = np.abs(gpu["window_gray"][()].astype(int) - cpu["window_gray"][()])
    expect(off.max() <= 1 and (off > 0).mean() < 0.01, "%s: window_gray is off by %d, in %.3f of the windows", options, off.max(), (off > 0).mean())
    a, b = gpu["profile"][()], cpu["profile"][()]
    expect(np.array_equal(np.isnan(a), np.isnan(b)) and np.nanmax(np.abs(a - b)) < 0.005, "%s: profile %s, not %s", options, a, b)
    for key in ("spectrum_tissue", "spectrum_glass"):
        a, b = gpu[key], cpu[key]
        expect(a.attrs["windows"] == b.attrs["windows"] and a.attrs["threshold"] == b.attrs["threshold"], "%s: %s", options, key)
        n = max(1, a.attrs["windows"])
        off = np.abs(a[()] / n - b[()] / n)
        expect(off.mean() < 0.1, "%s: %s is off by %.3f bins", options, key, off.mean())


def test_against_the_cpu():
    for s in (store(made(*SIZE)), store(made(*SIZE), "--gray")):
        close(s)


def test_random_options_against_definitions():
    def check(c):
        path, twin = c.stores()
        result, p = cuda(path, *c.run), c.parameters
        got = slide_of(result)
        check_flags(got[1], path, c)
        check_histogram(got, twin, c)
        check_steps(got[1], twin, window=p["window"], stride=p["stride"])
        check_derived(got, (p["high"] - p["low"]) / p["bins"], p["window"], p["stride"])
    of_random_choices(by_tier(12, 24, 100), check)


def test_windows_strides_tapers():
    s = store(made("--size", "1100x1300", name="windows"))
    for window, stride, taper in itertools.product((64, 128, 256, 512, 1024), (37, 0), ("rectangular", "hann")):
        close(s, "--window", window, "--stride", stride or window // 2, "--taper", taper)


def test_stride_64():
    # the fused kernel has it, on two rings; more rows than a ring has
    s = store(made("--size", "1100x5300", name="tall"))
    for options in ((), ("--taper", "hann"), ("--range", "20:60")):
        close(s, "--stride", 64, *options)
    want = cuda(s, "--stride", 64)
    for more in (("--memory", "7M"), ("-j", 1, "--memory", "11M")):
        equal(cuda(s, "--stride", 64, *more), want, more)
    # every second window, across and down, is one of stride 128
    with h5py.File(want, "r") as f, h5py.File(cuda(s), "r") as g:
        for key in ("window_mean_db", "window_std_db", "window_sharp_db"):
            fine, plain = (h["slides/tall"][key][()] for h in (f, g))
            expect(np.array_equal(fine[::2, ::2], plain, equal_nan=key != "window_sharp_db"), "%s differs", key)


def test_sigmas_ranges_bins():
    s = store(made("--size", "700x900", "--tile", "50", name="sigmas"), "--codec", "none")
    even = store(made("--size", "700x900", name="even"))
    for sigma in (0, 0.3, 0.6, 1, 1.3, 1.5, 3, 10):
        close(s, "--sigma", sigma)
        close(even, "--sigma", sigma)
    for low, high, bins in ((0, 160, 100), (0, 160, 2046), (0, 200, 2047), (20, 60, 400), (-10, 30, 333), (0, 160, 60000)):
        close(even, "--range", "%d:%d" % (low, high), "--bins", bins) if bins < 10000 else \
            equal(cuda(even, "--bins", bins), cuda(even, "--bins", bins, "--memory", "8M"), "%d bins" % bins)


def test_tissue_only():
    close([store(made(*SIZE), "--tissue-only"), store(made(*SIZE, "--seed", "4", name="b"))], "--tissue-only")
    close(store(made(*SIZE), "--tissue-only"), "--tissue-only", "--window", "128", "--stride", "100")


def test_logarithms_are_never_negative():
    # the fused kernel counts into shared memory by the logarithm of |F| + 1 without a clamp
    program = os.path.join(BUILD, "tests", "gpu_log2")
    if not os.path.exists(program):
        raise Skip("this build has no CUDA part: nvcc was not found, or CUDA=0")
    p = run(program, status=None)
    if p.returncode == 77:
        raise Skip(p.out.strip())
    expect(p.returncode == 0 and " 0 negative, 0 outside the bins" in p.out, "%s%s", p.out, p.err)


def test_jpeg_kernels_give_the_bytes_of_libjpeg_turbo():
    # over made and damaged streams and, where they are at hand, the tiles of real slides
    device, streams = (os.path.join(BUILD, "tests", name) for name in ("jpeg_device", "jpeg_streams"))
    if not os.path.exists(device) or not os.path.exists(streams):
        raise Skip("this build has no CUDA part or no libjpeg")
    cuda(store(made("--size", "300x300", name="try")))  # skips without a GPU
    slides = [os.path.join(slides_folder() or "/nowhere", n) for n in ("CMU-1-Small-Region.svs", "CMU-1-Small-Region.jpeg.tiff")]
    path = os.path.join(tmp("streams"), "streams")
    run(streams, path, 1200, 3600, 1, *filter(os.path.exists, slides))
    p = run(device, "check", path)
    decoded, wrong = (int(re.search(r"(\d+) " + word, p.out).group(1)) for word in ("decoded", "wrong"))
    expect(wrong == 0 and decoded > 2000, "%s", p.out)


# --- JPEG stores ---

def test_jpeg_stores_give_the_counts_of_pixels():
    # decoding on the device, with every kind of tile, few and many slabs, and several stores at once
    for name in KINDS:
        slide = kind(name)
        a, b = (cuda(store(slide, "--codec", codec, "--tissue-thresholds", "0,0")) for codec in ("jpeg", "none"))
        equal(a, b, name)
        with h5py.File(a, "r") as f:
            expect(all(s.attrs["tiles_on_host"] == 0 for s in f["slides"].values()), "%s: tiles on the host", name)
    # with a coarser level the tissue maps are equal, and so are the windows of the mean spectra
    slides = [made(*SIZE, "--levels", "2", "--photometric", "ycbcr", name="big-420"),
              made(*SIZE, "--levels", "2", name="big-rgb")]
    for options in ((), ("--memory", "40M"), ("--memory", "40M", "-j", 3), ("--tissue-only",)):
        more = options if "--tissue-only" in options else ()
        equal(*(cuda([store(s, "--codec", codec, *more) for s in slides], *options) for codec in ("jpeg", "none")), options)


def test_damaged_jpeg_tiles_are_never_counted():
    for what, change in WRONG.items():
        path = changed_store(change)
        cuda(store(kind("rgb")))  # skips without a GPU
        p = run(H5SPEC, "run", "--device", "cuda", "-o", os.path.join(tmp(), "r.h5"), path, status=1)
        says(p.err, "%s: cannot unpack chunk at row 0, column 1 of group 1" % path)


# --- to the count ---

def place(magnitude, bins, low, high):
    """In bins from the lowest edge."""
    return (20 * np.log10(magnitude + 1) - low) * bins / (high - low)


def mid_bin(values, factor, *scale):
    """The first value that is in the middle of a bin after multiplication."""
    return next(v for v in values if 0.2 < place(v * factor, *scale) % 1 < 0.8)


def waves(c, d, e):
    """Mean c, a horizontal wave of 4 px and amplitude d, a vertical one of 2 px and amplitude e. All are whole numbers,
    so the rest of the spectrum is 0."""
    return lambda y, x: c + d * np.array([1, 0, -1, 0])[x % 4] + e * np.array([1, -1])[y % 2]


def check_waves(result, c, d, e, bins, low, high):
    area, windows = 256 * 256, 6 * 9
    want = np.zeros(bins, np.int64)
    for magnitude, n in ((c * area, 1), (d * area / 2, 2), (e * area, 1)):
        if magnitude:
            want[int(place(magnitude, bins, low, high))] += n * windows
    zeros = windows * area - want.sum()
    if low <= 0:
        want[0] += zeros
    with h5py.File(result, "r") as f:
        got = f["histogram"][()].astype(np.int64)
        expect(f.attrs["windows"] == windows and np.array_equal(got, want) and f.attrs["underflow"] == (zeros if low > 0 else 0),
               "mean %s, waves of %s and %s, %s bins: %s, not %s", c, d, e, bins,
               *([(int(k), int(h[k])) for k in np.nonzero(h)[0]][:8] for h in (got, want)))


def test_values_in_the_middle_of_bins_agree_to_the_count():
    # 0 dB is an edge of bins: rounding errors there must stay in the first bin or below the range
    area = 256 * 256
    for channels in (1, 3):
        for scale, start in itertools.product(((16, 0, 160), (1600, 10, 170)), (60, 90, 120)):
            c = mid_bin(range(start, 180), area, *scale)
            d, e = mid_bin(range(10, 50), area / 2, *scale), mid_bin(range(7, 50), area, *scale)
            for sigma, a, b in ((1, 0, 0), (0, 0, 0), (0, d, 0), (0, 0, e), (0, d, e)):
                picture = waves(c, a, b)(*np.mgrid[:1300, :900]).astype(np.uint8)
                s = painted(picture if channels == 1 else picture[..., None].repeat(3, 2))
                o = ("--sigma", sigma, "--bins", scale[0], "--range", "%d:%d" % scale[1:])
                for result in (cuda(s, *o), cuda(s, *o, "--memory", "6M"), spectrum(s, *o)):
                    check_waves(result, c, a, b, *scale)


# --- one result ---

def test_memory_threads_and_io():
    for s, options in ((store(made(*SIZE)), ()), (store(made(*SIZE), "--codec", "none"), ()),
                       (store(made(*SIZE)), ("--window", "128", "--stride", "100", "--taper", "hann"))):
        want = cuda(s, *options)
        for more in (("--memory", "7M"), ("--memory", "11M", "-j", 1), ("-j", 16, "--memory", "8M"), ("--io", "buffered")):
            equal(cuda(s, *options, *more), want, more)


def test_groups():
    s = store(made(*SIZE), "--stripe-rows", "240", "--group-bytes", "1")
    parts = [cuda(s, "--groups", g) for g in ("4-9", "1", "10", "2-3")]
    out = os.path.join(tmp(), "sum.h5")
    run(H5SPEC, "merge", "-q", "-o", out, *parts)
    equal(out, cuda(s), "groups")


def test_direct_reading():
    s = store(made(*SIZE))
    want = cuda(s)
    out = os.path.join(tmp(), "r.h5")
    p = run(H5SPEC, "run", "--device", "cuda", "--io", "direct", "-o", out, s, status=None)
    if p.returncode and has_no_direct_reading(p.err):
        raise Skip(has_no_direct_reading(p.err))
    expect(p.returncode == 0, "%s", p.err)
    equal(out, want, "--io direct")


def test_crcs_of_the_device():
    program = os.path.join(BUILD, "tests", "gpu_crc")
    p = run(program, status=None) if os.path.exists(program) else None
    if not p or p.returncode == 77:
        raise Skip("no GPU, or this build has no CUDA part")
    says(p.out, " 0 wrong")


def test_the_device_reads_stores_itself():
    stores = [store(made(*SIZE), "--codec", codec) for codec in ("jpeg", "none")]
    out = os.path.join(tmp(), "r.h5")
    read = False  # a machine that has read one store has no reason to refuse another
    for s in stores:
        want = cuda(s)
        for more in ((), ("--memory", "7M"), ("-j", 1)):
            p = run(H5SPEC, "run", "--device", "cuda", "--io", "gds", "--json", *more, "-o", out, s, status=None)
            if p.returncode and not read and has_no_gds(p.err):
                raise Skip(has_no_gds(p.err))
            read = True
            expect(p.returncode == 0 and json_lines(p.out)[0]["io"] in ("gds", "gds-compat"), "%s%s", p.out, p.err)
            equal(out, want, "--io gds")


def test_many_stores_and_devices():
    stores = [store(made("--size", "%dx%d" % (300 + 90 * (k % 5), 300 + 170 * (k % 3)), "--seed", str(k + 1), name="many-%02d" % k))
              for k in range(20)]
    out = os.path.join(tmp(), "sum.h5")
    want = cuda(stores, device="cuda:0")
    run(H5SPEC, "merge", "-q", "-o", out, *[cuda(s) for s in stores])
    equal(out, want, "one by one")
    equal(cuda(list(reversed(stores)), "-j", 7), want, "the other way round")
    equal(cuda([store(made(*SIZE))]), cuda([store(made(*SIZE))], device="cuda:0"), "all devices")


# --- memory that others use ---

def called(function, *arguments):
    status = function(*arguments)
    expect(status == 0, "%s: status %d", function.__name__, status)


@contextlib.contextmanager
def free_memory(mib):
    """Fills the memory of the first GPU but for so many MiB, as other programs do."""
    cuda_, context, p = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    called(cuda_.cuInit, 0)
    called(cuda_.cuCtxCreate_v2, ctypes.byref(context), 0, 0)
    try:
        called(cuda_.cuMemGetInfo_v2, ctypes.byref(free), ctypes.byref(total))
        if free.value <= mib << 20:
            raise Skip("the GPU has only %d MiB free" % (free.value >> 20))
        called(cuda_.cuMemAlloc_v2, ctypes.byref(p), ctypes.c_size_t(free.value - (mib << 20)))
        yield
    finally:
        called(cuda_.cuCtxDestroy_v2, context)


def test_little_free_memory():
    # a wide slide needs lower slabs; then come stores with nothing to compute, one that fails, and small ones
    tiny, small = store(made("--size", "200x300", name="tiny")), store(made("--size", "700x900", name="few"))
    cut = file_of("cut.h5", bytes_in(small)[:os.path.getsize(small) // 2])
    for codec in ("none", "jpeg"):
        wide = store(made("--size", "65000x1500", name="0-wide"), "--codec", codec)
        want = cuda([wide, tiny, small])
        done = []
        for mib in (700, 1200, 1600, 2500, 4000, 8000):
            out = os.path.join(tmp("out"), "r.h5")
            with free_memory(mib):
                p = run(H5SPEC, "run", "--device", "cuda:0", "-o", out, wide, tiny, cut, small, status=None)
            print("# codec %s, %d MiB free: status %d; %s" % (codec, mib, p.returncode, p.err.strip().splitlines()[-1]))
            if p.returncode == 1:
                says(p.err, cut, "3 done, 1 failed")
                equal(out, want, "%d MiB free" % mib)
                done.append(mib)
            else:  # too little for the wide slide, or for any
                expect(p.returncode == 5 and not done, "%d MiB: status %d: %s", mib, p.returncode, p.err)
                says(p.err, "out of memory")
        expect(done, "no run was possible")


main(globals())
