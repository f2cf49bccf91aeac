"""The numbers in stores and results do not change when code is moved.

SLIDES, STORES and SPECTRA are a fixed set of slides and commands. tests/same.json has a digest for
each file that they write: of its pixels, tables, attributes, histograms and maps. After an intended
change of the formats, `tests/check_same.py --record` writes the digests anew; the commit says why.

    BUILD=build tests/check_same.py --against OTHER_BUILD

compares the files of two builds with each other instead, and names the objects that differ: stores
byte for byte, results in all but the times. It also runs slides whose pixels depend on the version of a library (JPEG 2000).
"""

import h5py
import numpy as np

from lib import *

RECORD = os.path.join(ROOT, "tests", "same.json")
# what differs from run to run, from version to version or from processor to processor; icc-size is of OpenSlide 4
VOLATILE = OF_THE_RUN + ("creator", "attribute_crc32", "crc32", "source_tag", "device", "kernel", "openslide.icc-size")

SLIDES = {
    "rgb": ("--size", "1500x1100", "--levels", "2", "--icc", "fake:200"),
    "ycbcr": ("--size", "1300x1025", "--photometric", "ycbcr", "--subsampling", "420", "--tile", "256"),
    "ycbcr422": ("--size", "900x700", "--photometric", "ycbcr", "--subsampling", "422"),
    "tables": ("--size", "900x700", "--complete-tiles", "--shuffle-tiles", "--bigtiff"),
    "bad": ("--size", "1200x1000", "--missing", "1,1", "--garbage", "2,2", "--truncate", "3,1:200"),
    "tall": ("--size", "600x2300", "--seed", "3"),
    "small": ("--size", "300x200"),
}
LIBRARY_SLIDES = {
    "j2k": ("--size", "700x600", "--compression", "33005", "--quality", "100"),
    "j2k_ycbcr": ("--size", "700x600", "--compression", "33003"),
    "strips": ("--size", "900x700", "--compression", "deflate", "--missing", "1,1"),
}
STORES = {
    "none": ("--codec", "none"),
    "deflate": (),
    "gray": ("--gray", "--codec", "none"),
    "tissue": ("--tissue-only", "--codec", "none"),
    "groups": ("--stripe-rows", "240", "--group-bytes", "1M", "--codec", "none"),
}
SPECTRA = {
    "plain": (),
    "tissue": ("--tissue-only", "--min-tissue", "0.3"),
    "other": ("--window", "128", "--stride", "100", "--sigma", "0", "--taper", "hann"),
    "bins": ("--bins", "700", "--range", "10:90", "--window", "512", "--stride", "256", "--sigma", "2.5"),
}


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def attributes(obj, without):
    lines = []
    for key in sorted(set(obj.attrs) - set(without)):
        value = obj.attrs[key]
        shown = text(value) if isinstance(value, (bytes, str)) else np.asarray(value).tobytes().hex()
        lines.append("%s=%s" % (key, shown))
    return lines


def digests(path, without=VOLATILE):
    """A digest for the attributes of each object of an HDF5 file, and for the values of each dataset."""
    out = {}

    def add(name, obj):
        if name.startswith("/sources") or name.endswith("tile_offset"):  # times of files; places depend on HDF5
            return
        lines = attributes(obj, without)
        if lines:
            out["@" + name] = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
        if isinstance(obj, h5py.Dataset) and obj.shape is not None:
            out[name] = hashlib.sha256(np.ascontiguousarray(obj[()]).tobytes()).hexdigest()[:16]

    with h5py.File(path, "r") as f:
        add("/", f)
        f.visititems(lambda name, obj: add("/" + name, obj))
    return out


def produce(build, slides, folder):
    """Runs everything with the programs of a build; yields a name and a file for each output."""
    wsi2h5, h5spec = os.path.join(build, "wsi2h5"), os.path.join(build, "h5spec")
    for slide, options in slides.items():
        path = made(*options, name=slide)
        stores = []
        for name, more in STORES.items():
            out = os.path.join(folder, "%s.%s" % (slide, name), slide + ".h5")
            os.makedirs(os.path.dirname(out))
            run(wsi2h5, "-q", "-o", out, *more, path, status=None)
            expect(os.path.exists(out), "%s: no store", out)
            stores.append(out)
            yield "store/%s.%s" % (slide, name), out
        for name, more in SPECTRA.items():
            out = os.path.join(folder, "%s.%s.result.h5" % (slide, name))
            run(h5spec, "run", "-q", "--device", "cpu", "-o", out, *more, stores[0], status=None)  # 4: damaged tiles
            expect(os.path.exists(out), "%s: no result", out)
            yield "result/%s.%s" % (slide, name), out
    merged = os.path.join(folder, "corpus.h5")
    run(h5spec, "merge", "-q", "-o", merged, *(os.path.join(folder, s + ".plain.result.h5") for s in slides))
    yield "result/corpus", merged


def now():
    return {name: hashlib.sha256(json.dumps(digests(path), sort_keys=True).encode()).hexdigest()[:16]
            for name, path in produce(BUILD, SLIDES, tmp("same"))}


def test_numbers_are_the_recorded_ones():
    have = now()
    want = json_in(RECORD)
    differ = [name for name in sorted(set(have) | set(want)) if have.get(name) != want.get(name)]
    expect(not differ, "%s differ; --against OTHER_BUILD names the objects", ", ".join(differ))


def test_digests_notice_one_count():
    path = spectrum(store(made("--size", "600x500")))
    before = digests(path)
    with h5py.File(path, "r+", libver=("v110", "v110")) as f:
        counts = f["histogram"][()]
        counts[np.flatnonzero(counts)[0]] += 1
        f["histogram"][...] = counts
    after = digests(path)
    expect([k for k in after if after[k] != before[k]] == ["/histogram"], "the change is not noticed")


def against(other):
    slides = {**SLIDES, **LIBRARY_SLIDES}
    ours, theirs = (dict(produce(build, slides, tmp("same"))) for build in (BUILD, other))
    different = 0
    for name in ours:
        with open(ours[name], "rb") as a, open(theirs[name], "rb") as b:
            same = a.read() == b.read() if name.startswith("store/") else \
                digests(ours[name], OF_THE_RUN) == digests(theirs[name], OF_THE_RUN)
        if not same:
            different += 1
            a, b = digests(ours[name], OF_THE_RUN), digests(theirs[name], OF_THE_RUN)
            print("%s: %s" % (name, [k for k in sorted(set(a) | set(b)) if a.get(k) != b.get(k)] or
                              "same content, other bytes"))
    print("%d files, %d differ" % (len(ours), different))
    return different > 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        with open(RECORD, "w") as f:
            json.dump(now(), f, indent=0, sort_keys=True)
            f.write("\n")
    elif sys.argv[1:2] == ["--against"]:
        sys.exit(against(os.path.abspath(sys.argv[2])))
    else:
        main(globals())
