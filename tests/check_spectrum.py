"""The numbers: against a float64 computation from the definition, and the known slides."""
import h5py
import numpy as np

import reference
from lib import *


def load(path):
    """A result of one slide."""
    with h5py.File(path, "r") as f:
        (name,) = f["slides"]
        s = f["slides"][name]
        return dict(s.attrs), s["histogram"][()], s["window_mean_db"][()], s["window_std_db"][()]


def compare(store_path, *options, limit=0.005, **parameters):
    """h5spec on a store against the reference on what h5py reads from it."""
    want = reference.Spectrum(pixels(store_path), **parameters)
    got, histogram, mean, std = load(spectrum(store_path, *options))
    expect(got["windows"] == want.nx * want.ny, "%d windows, not %d", got["windows"], want.nx * want.ny)
    expect(got["samples"] == histogram.sum() + got["underflow"] + got["overflow"], "samples")
    expect(abs(got["mean_db"] - want.mean) < limit, "mean %f, not %f", got["mean_db"], want.mean)
    expect(abs(got["std_db"] - want.std) < limit, "std %f, not %f", got["std_db"], want.std)
    moved = (np.abs(histogram.astype(np.int64) - want.histogram).sum() +
             abs(int(got["underflow"]) - want.underflow) + abs(int(got["overflow"]) - want.overflow)) / 2
    expect(moved <= 0.005 * got["samples"], "%.3f %% of the mass in another bin",
           100 * moved / got["samples"])
    expect(mean.shape == want.mean_map.shape, "map of %s", mean.shape)
    expect(np.nanmax(np.abs(mean - want.mean_map)) < 0.02, "window means differ by %f",
           np.nanmax(np.abs(mean - want.mean_map)))
    expect(np.nanmax(np.abs(std - want.std_map)) < 0.02, "window stds differ by %f",
           np.nanmax(np.abs(std - want.std_map)))
    return got, histogram


SMALL, TINY = ("--size", "1100x900"), ("--size", "500x400")

COMPARED = {  # options of mkslide, options of wsi2h5, parameters
    "RGB, tiles of 240": (SMALL, (), {}), "no smoothing": (SMALL, (), {"sigma": 0}), "wide smoothing": (SMALL, (), {"sigma": 2.5}),
    "YCbCr, tiles of 256": ((*SMALL, "--photometric", "ycbcr", "--subsampling", "420", "--tile", "256"), (), {}),
    "groups of one stripe of one tile row": (SMALL, ("--stripe-rows", "240", "--group-bytes", "1"), {}),
    "Hann": (SMALL, (), {"hann": True}), "the widest smoothing": (TINY, (), {"sigma": 10}),
    "small windows at an odd stride": (TINY, (), {"window": 64, "stride": 37}),
    "large windows": (("--size", "1500x1300"), (), {"window": 1024, "stride": 200}),
    "512, side by side": (("--size", "1100x1030"), (), {"window": 512, "stride": 512}),
    "128, Hann": (TINY, (), {"window": 128, "stride": 50, "hann": True}),
    "chunks that were left out": (("--size", "1100x900", "--tissue-fraction", "0.3"), ("--tissue-only",), {}),
    "windows at every pixel": (("--size", "150x130"), (), {"window": 64, "stride": 1}),
}


def test_slides_and_parameters():
    for name, (slide, conversion, parameters) in COMPARED.items():
        options = [("--taper", "hann") if k == "hann" else ("--" + k, v) for k, v in parameters.items()]
        try:
            compare(store(made(*slide), *conversion), *(word for o in options for word in o), **parameters)
        except Failed as e:
            raise Failed("%s: %s" % (name, e))


def test_gray_store_says_that_it_is_gray():
    got, _ = compare(store(made(*SMALL), "--gray"))
    expect(got["source_gray"] == 1, "source_gray")


def test_one_window_and_one_pixel_short_of_a_third():
    for size, tile, windows in (("256x256", "240", 1), ("383x384", "512", 2)):
        got, _ = compare(store(made("--size", size, "--tile", tile)))
        expect(got["windows"] == windows, "%s: %d windows", size, got["windows"])


def test_spread_of_a_window_below_one_bin():
    """In bins of 40 dB the variance of a window is below one; a single window has the spread of the histogram."""
    got, histogram, mean, std = load(spectrum(store(made("--size", "256x256")), "--bins", "4"))
    expect(10 < got["std_db"] < 39, "%s, %s", histogram, got["std_db"])
    expect(abs(std[0, 0] - got["std_db"]) < 0.001, "%f, not %f", std[0, 0], got["std_db"])


def test_range_and_bins_of_ones_own():
    got, _ = compare(store(made(*SMALL)), "--range", "10.5:70", "--bins", "333", low=10.5, high=70.0,
                     bins=333)
    expect(got["underflow"] > 0 and got["overflow"] > 0, "nothing outside the range")


def test_many_fine_bins():
    s = store(made(*SMALL))
    want = reference.Spectrum(pixels(s), low=30.0, high=50.0, bins=20000)
    got, histogram, _, _ = load(spectrum(s, "--range", "30:50", "--bins", "20000"))
    expect(abs(int(got["underflow"]) - want.underflow) < 1e-3 * got["samples"], "underflow")
    # a hundred fine bins together are wide enough to compare
    a, b = histogram.reshape(-1, 100).sum(1), want.histogram.reshape(-1, 100).sum(1)
    expect(np.abs(a.astype(np.int64) - b).sum() / 2 < 0.005 * b.sum(), "mass in another bin")


def test_a_constant_slide_is_all_in_two_bins():
    path = copied(store(made("--size", "520x400", "--tile", "256"), "--codec", "none"), "flat.h5")
    overwrite_pixels(path, 200)
    _, histogram, mean, std = load(spectrum(path))
    level = int(np.floor(20 * np.log10(200 * 65536 + 1) / 0.1))
    windows = mean.size
    expect(histogram[0] == windows * 65535 and histogram[level] == windows, "histogram %s",
           np.nonzero(histogram)[0])


def overwrite_pixels(path, value):
    """Sets every stored pixel of a store without codec and corrects its checksums."""
    import zlib
    with h5py.File(path, "r") as f:
        places = []
        for g in f["groups"].values():
            rows, cols, channels = g["pixels"].chunks
            for r in range(0, g["pixels"].shape[0], rows):
                for c in range(0, g["pixels"].shape[1], cols):
                    info = g["pixels"].id.get_chunk_info_by_coord((r, c, 0))
                    places.append((info.byte_offset, info.size))
        tables = [(g["tile_crc32"].id.get_offset(), g["tile_crc32"].size) for g in f["groups"].values()]
    with open(path, "r+b") as f:
        for offset, size in places:
            f.seek(offset)
            f.write(bytes([value]) * size)
        crc = zlib.crc32(bytes([value]) * places[0][1])
        for offset, n in tables:
            f.seek(offset)
            f.write(np.full(n, crc, "<u4").tobytes())
    with h5py.File(path, "r+", libver="latest") as f:
        reseal(f)


KNOWN = [  # slide, options of wsi2h5, windows, mean, std: float64 over the whole slide
    ("CMU-1-Small-Region.svs", (), 352, 38.426, 22.617), ("CMU-1-Small-Region.svs", ("--gray",), 352, 38.511, 22.555),
    ("CMU-1-Small-Region.jpeg.tiff", (), 352, 38.582, 22.484), ("test3-TRITC 2 (560).ndpi", (), 1110, 21.567, 15.861),
]


def test_known_values_of_real_slides():
    missing = None
    for slide, options, windows, mean, std in KNOWN:
        try:
            got, _, _, _ = load(spectrum(store(real(slide), *options)))
        except Skip as e:
            missing = e
            continue
        expect(got["windows"] == windows, "%s: %d windows", slide, got["windows"])
        expect(abs(got["mean_db"] - mean) < 0.005, "%s %s: mean %f", slide, options, got["mean_db"])
        expect(abs(got["std_db"] - std) < 0.005, "%s %s: std %f", slide, options, got["std_db"])
    if missing:
        raise missing


def test_real_slide_against_the_reference():
    compare(store(real("CMU-1-Small-Region.svs")))


main(globals())
