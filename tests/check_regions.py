"""h5spec run --roi: which windows count, what is recorded, merging, resuming, and bad files."""

import h5py
import numpy as np

from lib import *
from miraxfile import part_scanned

SIZE = (1500, 1200)
OUTSIDE, COUNTED = 128, 1
# a triangle with a hole, two polygons that overlap, one that leaves the slide
TRIANGLE = [[[100.3, 90.2], [1400.7, 300.1], [333.3, 1100.9], [100.3, 90.2]],
            [[400, 400], [600.2, 420], [450, 700.7], [400, 400]]]
BOX = [[[900, 600], [1300, 600], [1300, 1000], [900, 1000], [900, 600]]]
OVER = [[[1100.6, 700.1], [1700, 700.1], [1700, 1500.5], [1100.6, 1500.5]]]


def slide():
    return made("--size", "%dx%d" % SIZE, "--tile", "240", "--levels", "2", name="regions")


def grouped(*options):
    return store(slide(), "--stripe-rows", "240", "--group-bytes", "1", *options)


def feature(rings, name=None, kind="Polygon"):
    properties = {"objectType": "annotation"}
    if name is not None:
        properties["classification"] = {"name": name, "color": [200, 0, 0]}
    return {"type": "Feature", "id": "x", "geometry": {"type": kind, "coordinates": rings}, "properties": properties}


def collection(*features):
    return {"type": "FeatureCollection", "features": list(features)}


READS_GEOJSON = "Jansson" not in run(H5SPEC, "run", "--roi", "x", "-o", "x.h5", "x", status=2).err


def written(value, name="roi.geojson"):
    if not READS_GEOJSON:
        raise Skip("this build has no Jansson")
    path = os.path.join(tmp(), name)
    put_file(path, value if isinstance(value, str) else json.dumps(value))
    return path


def pixels_inside(polygons, width, height, downsample=1):
    """[height][width]: the definition, pixel by pixel."""
    x, y = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    union = np.zeros((height, width), bool)
    for rings in polygons:
        odd = np.zeros_like(union)
        for ring in rings:
            for (ax, ay), (bx, by) in zip(ring, ring[1:] + ring[:1]):
                ax, ay, bx, by = (v / downsample for v in (ax, ay, bx, by))
                if ay != by:
                    at = ax + (y - ay) / (by - ay) * (bx - ax)
                    odd ^= ((ay <= y) != (by <= y)) & (x >= at)
        union |= odd
    return union


def shares(inside, window=256, stride=128):
    total = np.zeros((inside.shape[0] + 1, inside.shape[1] + 1))
    total[1:, 1:] = inside.cumsum(0).cumsum(1)
    ys, xs = (np.arange(0, n - window + 1, stride) for n in inside.shape)
    at = lambda dy, dx: total[np.ix_(ys + dy, xs + dx)]
    return (at(window, window) - at(0, window) - at(window, 0) + at(0, 0)) / window ** 2


def check(path, want):
    """The result has exactly these windows."""
    with h5py.File(path, "r") as f:
        (s,) = f["slides"].values()
        flags = s["window_flags"][()]
        expect(((flags & OUTSIDE) == 0).sum() == want.sum(), "%d windows, not %d", ((flags & OUTSIDE) == 0).sum(), want.sum())
        expect((((flags & OUTSIDE) == 0) == want).all(), "other windows")
        expect(((flags & COUNTED) > 0).sum() == s.attrs["windows"] == f.attrs["windows"], "windows")
        expect(s.attrs["windows_outside"] == f.attrs["windows_outside"] == (~want).sum(), "windows_outside")
        expect((np.isfinite(s["window_mean_db"][()]) == ((flags & COUNTED) > 0)).all(), "values")
    return path


def test_windows_are_those_of_the_definition():
    whole = pixels_inside([TRIANGLE, BOX, OVER], *SIZE)
    path = written(collection(feature(TRIANGLE), feature([BOX, OVER], kind="MultiPolygon")))
    for options, least, window, stride in (((), 0.5, 256, 128), (("--min-roi", "1"), 1, 256, 128), (("--min-roi", "0"), 0, 256, 128),
                                           (("--min-roi", "0.03", "--window", "128", "--stride", "57"), 0.03, 128, 57)):
        want = shares(whole, window, stride) >= least
        expect(least == 0 or 0 < want.sum() < want.size, "a useless case")
        check(spectrum(grouped(), "--roi", path, *options), want)


def test_polygons_inside_of_others():
    """A polygon within another one, which begins later in every row and ends earlier, changes nothing."""
    inner = [[[x / 2 + 500, y / 2 + 350] for x, y in BOX[0]]]
    path = written(collection(feature(inner), feature(BOX), feature(inner)))
    check(spectrum(grouped(), "--roi", path), shares(pixels_inside([BOX], *SIZE)) >= 0.5)


def test_sample_is_taken_inside():
    """Of few windows inside, all are in the sample of spectra; of a whole slide one in sixteen is."""
    options = ("--stride", "32", "--window", "64")
    some, whole = spectrum(grouped(), *options, "--roi", written(feature([[[300, 200], [800, 200], [800, 700], [300, 700]]]))), spectrum(grouped(), *options)
    counts = []
    for path in (some, whole):
        with h5py.File(path, "r") as f:
            (s,) = f["slides"].values()
            counts.append((int(s.attrs["windows"]), sum(int(s[name].attrs["windows"]) for name in ("spectrum_tissue", "spectrum_glass"))))
    expect(counts[0][0] == counts[0][1] > 100 and counts[1][1] < counts[1][0] / 2, "windows and sample: %s", counts)


def test_counts_are_those_of_the_windows():
    """The values of windows that count are those of a run without regions, and the histogram is theirs."""
    path = written(feature(BOX))
    some, whole = spectrum(grouped(), "--roi", path), spectrum(grouped())
    with h5py.File(some, "r") as a, h5py.File(whole, "r") as b:
        (a,), (b,) = a["slides"].values(), b["slides"].values()
        counted = (a["window_flags"][()] & COUNTED) > 0
        expect((a["window_mean_db"][()][counted] == b["window_mean_db"][()][counted]).all(), "means")
        expect(a["histogram"][()].sum() == counted.sum() * 65536 and (a["histogram"][()] <= b["histogram"][()]).all(), "histogram")
    run(H5SPEC, "verify", some)


def test_forms_of_the_file():
    want = shares(pixels_inside([TRIANGLE], *SIZE)) >= 0.5
    geometry = feature(TRIANGLE)["geometry"]
    point = {"type": "Feature", "geometry": {"type": "Point", "coordinates": [5, 5]}, "properties": {}}
    nothing = {"type": "Feature", "geometry": None, "properties": None}
    digests = set()
    for form in (collection(feature(TRIANGLE)), feature(TRIANGLE), geometry, [feature(TRIANGLE)], [geometry], collection(point, feature(TRIANGLE), nothing),
                 feature([TRIANGLE], kind="MultiPolygon"), {"type": "GeometryCollection", "geometries": [point["geometry"], geometry]},
                 "\ufeff" + json.dumps(feature(TRIANGLE), indent=4), feature([ring[:-1] for ring in TRIANGLE])):
        r = check(spectrum(grouped(), "--roi", written(form)), want)
        with h5py.File(r, "r") as f:
            digests.add(int(list(f["slides"].values())[0].attrs["roi_crc32"]))
    expect(len(digests) == 1, "the digest depends on the form: %s", digests)


def test_measurements_that_are_no_numbers():
    """As QuPath before 0.5 writes them."""
    plain, odd = feature(TRIANGLE), feature(TRIANGLE)
    odd["properties"]["measurements"] = {"a": float("nan"), "b": float("inf"), "c": -float("inf"), "d": -1.5, "e": "-NaN \\" + '"Infinity'}
    found = [spectrum(grouped(), "--roi", written(collection(x))) for x in (plain, odd)]
    equal(content(found[0]), content(found[1]), "measurements that are no numbers")


def test_coarser_level():
    """Polygons are in level-0 pixels whatever level the store holds."""
    s = os.path.join(tmp(), "level1.h5")
    run(WSI2H5, "-q", "--level", "1", "-o", s, slide())
    with h5py.File(s, "r") as f:
        w, h, down = int(f.attrs["width"]), int(f.attrs["height"]), float(f.attrs["downsample"])
    expect(down > 1.5, "downsample %g", down)
    want = shares(pixels_inside([TRIANGLE], w, h, down), 64, 32) >= 0.5
    check(spectrum(s, "--window", "64", "--stride", "32", "--roi", written(feature(TRIANGLE))), want)


def square(x, y, side):
    return [[[x, y], [x + side, y], [x + side, y + side], [x, y + side]]]


def test_places_count_from_the_bounds_of_the_slide():
    """As QuPath's do, for --roi and --tissue-mask, of the store's level; --no-bounds: from the slide's corner."""
    path, bx, by = part_scanned(tmp())
    here, whole = written(collection(feature(square(200, 100, 512)))), written(collection(feature(square(bx + 200, by + 100, 512))))
    s = store(path)
    expect([attributes_of(s, "properties")["openslide.bounds-" + axis] for axis in "xy"] == [str(bx), str(by)], "the slide has other bounds")
    line = "count from %d, %d (openslide.bounds-x, -y), as in QuPath; --no-bounds" % (bx, by)
    results = []
    for roi, more in ((here, ()), (whole, ("--no-bounds",))):
        out = os.path.join(tmp(), "r.h5")
        p = run(H5SPEC, "run", "--device", "cpu", "-o", out, "--roi", roi, *more, s)
        expect((line in p.err) == (not more), "%s", p.err)
        results.append(content(out))
    equal(*results, "the same windows")
    check(out, shares(pixels_inside([square(bx + 200, by + 100, 512)], 2048, 2048)) >= 0.5)
    cells = []
    for mask, more in ((here, ()), (whole, ("--no-bounds",))):
        out, p, j = convert(path, "--tissue-mask", mask, *more)
        expect((line in p.err) == (line in j.get("note", "")) == (not more), "%s", p.err)
        cells.append(values_in(out, "tissue/mask"))
    expect(np.array_equal(*cells) and cells[0].sum() == 16 * 16 and cells[0][-(-(by + 100) // 32), -(-(bx + 200) // 32)], "tissue")
    coarse = copied(store(slide(), "--level", "1"))  # bounds are px of level 0
    with h5py.File(coarse, "r+") as f:
        for axis, px in (("x", 400), ("y", 300)):
            f["properties"].attrs["openslide.bounds-" + axis] = np.bytes_(str(px))
    a, b = (os.path.join(tmp(), "r.h5") for _ in range(2))
    run(H5SPEC, "run", "--device", "cpu", "--window", "64", "--stride", "32", "-o", a, "--roi", written(collection(feature(square(100, 80, 600)))), coarse)
    run(H5SPEC, "run", "--device", "cpu", "--window", "64", "--stride", "32", "-o", b, "--no-bounds", "--roi", written(collection(feature(square(500, 380, 600)))), coarse)
    equal(content(a), content(b), "of a coarser level")
    out = os.path.join(tmp(), "r.h5")
    far = written(collection(feature(square(2048 - bx, 0, 512))))
    says(run(H5SPEC, "run", "--device", "cpu", "-o", out, "--roi", far, s, status=1).err, "lie outside of the slide")


def test_classes():
    path = written(collection(feature(TRIANGLE, "Tumor"), feature(BOX, "Stroma"), feature(OVER, "Tumor: Positive"), feature(OVER)))
    for names, polygons in ((("Tumor",), [TRIANGLE]), (("Stroma", "Tumor"), [BOX, TRIANGLE]), (("Tumor: Positive",), [OVER])):
        options = [word for name in names for word in ("--roi-class", name)]
        r = check(spectrum(grouped(), "--roi", path, *options), shares(pixels_inside(polygons, *SIZE)) >= 0.5)
        with h5py.File(r, "r") as f:
            expect(f.attrs["roi_class"] == ", ".join(names) and f.attrs["roi"] == 1 and f.attrs["min_roi"] == 0.5, "%s", dict(f.attrs))
        says(run(H5SPEC, "info", r).out, "at least 50 % of their area inside regions of class " + ", ".join(names), "windows outside of the regions")
    a, b = (spectrum(grouped(), "--roi", path, *o) for o in (("--roi-class", "Tumor", "--roi-class", "Stroma"), ("--roi-class", "Stroma", "--roi-class", "Tumor")))
    equal(content(a), content(b), "order of classes")
    derived = feature(OVER)
    derived["properties"]["classification"] = {"names": ["Tumor", "Positive"]}
    plain = feature(BOX)
    plain["properties"]["classification"] = "Stroma"
    path = written(collection(derived, plain))
    for name in ("Tumor: Positive", "Stroma"):
        spectrum(grouped(), "--roi", path, "--roi-class", name)
    for n, status, words in ((255, 1, ""), (256, 2, "longer than 255 bytes")):
        p = run(H5SPEC, "-o", os.path.join(tmp(), "x.h5"), "--roi", path, "--roi-class", "n" * n, grouped(), status=status)
        expect(words in p.err and (words or "longer than" not in p.err), "%s", p.err)
    p = run(H5SPEC, "-o", os.path.join(tmp(), "x.h5"), "--roi", path, "--roi-class", "Tumour", grouped(), status=1)
    says(p.err, "no polygon of class Tumour; its classes are: Stroma, Tumor: Positive")
    p = run(H5SPEC, "-o", os.path.join(tmp(), "x.h5"), "--roi", written(feature(BOX)), "--roi-class", "Tumour", grouped(), status=1)
    says(p.err, "its objects have no class")


def test_names_of_classes_cannot_reorder_text():
    """U+202E of a class name reached the terminal."""
    path = written(feature(BOX, "a\u202eb\u2066c\u0085d"))
    p = run(H5SPEC, "-o", os.path.join(tmp(), "x.h5"), "--roi", path, "--roi-class", "x\u202ey", grouped(), status=1)
    says(p.err, "no polygon of class x?y; its classes are: a?b?c?d")
    r = spectrum(grouped(), "--roi", path, "--roi-class", "a\u202eb\u2066c\u0085d")
    says(run(H5SPEC, "info", r).out, "of class a?b?c?d")
    text = run(H5SPEC, "info", "--json", r).out
    expect(json.loads(text)["roi_class"] == "a\u202eb\u2066c\u0085d" and "\u202e" not in text and "\u2066" not in text, "%s", text)


def test_with_tissue():
    path = written(feature(TRIANGLE))
    both, tissue, region = (spectrum(grouped(), *o) for o in (("--tissue-only", "--roi", path), ("--tissue-only",), ("--roi", path)))
    flags = []
    for r in (both, tissue, region):
        with h5py.File(r, "r") as f:
            flags.append(list(f["slides"].values())[0]["window_flags"][()])
    counted = [(f & COUNTED) > 0 for f in flags]
    expect((counted[0] == (counted[1] & counted[2])).all() and 0 < counted[0].sum() < min(counted[1].sum(), counted[2].sum()), "windows")
    says(run(H5SPEC, "info", both).out, "windows with at least 50 % tissue and at least 50 % of their area inside regions")
    says(run(H5SPEC, "info", region).out, "counted    windows with at least 50 % of their area inside regions")
    expect(((flags[0] & 2) == (flags[1] & 2)).all() and ((flags[0] & OUTSIDE) == (flags[2] & OUTSIDE)).all(), "reasons")


def test_every_split_gives_the_same():
    path = written(feature(TRIANGLE, "A"))
    s = grouped()
    whole = spectrum(s, "--roi", path)
    folder = tmp()
    for a, b in ((1, 2), (3, 3), (4, 5)):
        run(H5SPEC, "--roi", path, "--groups", "%d-%d" % (a, b), "-o", folder + "/", s)
    merged = os.path.join(tmp(), "merged.h5")
    run(H5SPEC, "merge", "-o", merged, folder)
    equal(content(merged), content(whole), "groups")
    for options in (("-j", "1"), ("-j", "3", "--memory", "16M")):
        equal(content(spectrum(s, "--roi", path, *options)), content(whole), str(options))


def test_merging():
    s = grouped()
    a, other = written(feature(TRIANGLE, "A")), written(feature(BOX, "A"))
    base = spectrum(s, "--roi", a, "--groups", "1-2")
    def fails(why, *options):
        p = run(H5SPEC, "merge", "-o", os.path.join(tmp(), "m.h5"), base, spectrum(s, "--groups", "3-5", *options), status=1)
        says(p.err, why)
    fails("roi is 1 and 0")
    fails("min_roi is 0.5 and 0.4", "--roi", a, "--min-roi", "0.4")
    fails('roi_class is "" and "A"', "--roi", a, "--roi-class", "A")
    fails("regions (--roi) differ", "--roi", other)


def test_folder_of_files_and_resuming():
    folder, stores, out = tmp(), tmp(), tmp()
    for name in ("one", "two", "three"):
        shutil.copy(grouped("--codec", "none") if name != "two" else store(made("--size", "1500x1200", "--seed", "7", name="seventh")),
                os.path.join(stores, name + ".h5"))
    three = os.path.join(stores, "three.h5")
    os.unlink(three)
    names = [("one.geojson", feature(TRIANGLE)), ("seventh.geojson", feature(BOX))]  # the store's name, the slide's
    for name, value in names:
        put_file(os.path.join(folder, name), json.dumps(value))
    p = run(H5SPEC, "--roi", folder, "-o", out, stores)
    says(p.err, "2 done")
    check(os.path.join(out, "one.h5"), shares(pixels_inside([TRIANGLE], *SIZE)) >= 0.5)
    check(os.path.join(out, "two.h5"), shares(pixels_inside([BOX], *SIZE)) >= 0.5)
    says(run(H5SPEC, "--roi", folder, "-o", out, stores).err, "2 skipped (up to date)")
    with open(os.path.join(folder, "one.geojson"), "w") as f:  # the same polygons, written otherwise
        json.dump(collection(feature(TRIANGLE, "A")), f, indent=2)
    says(run(H5SPEC, "--roi", folder, "-o", out, stores).err, "2 skipped (up to date)")
    put_file(os.path.join(folder, "one.geojson"), json.dumps(feature(OVER)))
    says(run(H5SPEC, "--roi", folder, "-o", out, stores).err, "one.h5: of other regions (--roi) than now; computed again", "1 done, 1 skipped")
    check(os.path.join(out, "one.h5"), shares(pixels_inside([OVER], *SIZE)) >= 0.5)
    says(run(H5SPEC, "-o", out, stores, status=1).err, "roi is 1 and 0", "--force")
    os.unlink(os.path.join(folder, "one.geojson"))
    for o in (out, tmp()):
        says(run(H5SPEC, "--roi", folder, "-o", o, stores, status=1).err, "one.h5: no regions", "one.geojson", "slide's name regions.")


def test_reports_name_the_regions():
    r = spectrum(grouped(), "--roi", written(feature(TRIANGLE, "<A&B>")), "--roi-class", "<A&B>")
    page = os.path.join(tmp(), "r.html")
    run(H5SPEC, "report", "-o", page, r)
    says(open(page).read(), "inside regions (at least 50 % of the area) of class &lt;A&amp;B&gt;")
    (j,) = json_lines(run(H5SPEC, "info", "--json", r).out)
    expect(j["roi"] is True and j["roi_class"] == "<A&B>" and j["min_roi"] == 0.5 and j["windows_outside"] > 0, "%s", j)
    head, row = csv.reader(run(H5SPEC, "info", "--csv", r).out.splitlines()[:2])
    row = dict(zip(head, row))
    expect((row["roi"], row["min_roi"], row["roi_class"], row["windows_outside"]) == ("1", "0.5", "<A&B>", str(j["windows_outside"])), "%s", row)
    text = run("h5dump", "-A", r).out
    expect("geojson" not in text and tmp() not in text, "a path is recorded")


def test_bad_files():
    out, deep = os.path.join(tmp(), "x.h5"), 100000
    cases = [
        (collection(), "has no polygon"), (collection(feature([], kind="LineString")), "has no polygon"),
        ("", "not valid JSON"), ('{"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [[[1, 2], [3', "not valid JSON: line 1"),
        ("[" * deep + "]" * deep, "not valid JSON"), ('{"type": "Polygon", "coordinates": [[[NaN, 1], [2, 3], [4, 5]]]}', "a point is not [x, y] with two numbers"),
        ('{"type": "Polygon", "coordinates": [[[1e999, 1], [2, 3], [4, 5]]]}', "not valid JSON"),
        (feature([[[1e300, 0], [1, 1], [2, 0]]]), "feature 1: coordinate 1e+300 is out of range"),
        (feature([[["1", 0], [1, 1], [2, 0]]]), "not [x, y] with two numbers"), (feature([[[1], [1, 1], [2, 0]]]), "not [x, y] with two numbers"),
        (feature([[[0, 0], [1, 1]]]), "has 2 points; at least 3"), (feature("x"), "polygon without an array"),
        (feature([], kind="Circle"), 'unknown geometry "Circle"'), ({"type": "FeatureCollection"}, "without an array of features"),
        ({"a": 1}, "an object without a type"), ("17", "not valid JSON"), ("[17]", "not GeoJSON"),
        (feature([[[x + 90000, y] for x, y in BOX[0]]]), "lie outside of the slide, which has 1500 x 1200 level-0 px; is it the file of another slide?"),
    ]
    for value, why in cases:
        p = run(H5SPEC, "-o", out, "--roi", written(value), grouped(), status=1)
        expect(why in p.err and "roi.geojson" in p.err and not os.path.exists(out), "%s: %s", why, p.err)
    says(run(H5SPEC, "-o", out, "--roi", "/nonexistent", grouped(), status=2).err, "--roi /nonexistent: No such file")
    fifo = os.path.join(tmp(), "fifo")
    os.mkfifo(fifo)
    says(run(H5SPEC, "-o", out, "--roi", fifo, grouped(), status=1).err, "fifo: not a file")
    for options, why in ((("--roi-class", "A"), "--roi-class has no effect without --roi"), (("--min-roi", "0.2"), "--min-roi has no effect without --roi"),
                         (("--roi", "x", "--roi", "y"), "--roi can be given once"), (("--roi", written(feature(BOX)), "--roi-class", ""), "the name is empty"),
                         (("--roi", written(feature(BOX)), "--roi-class", "x" * 300), "longer than 255 bytes"),
                         (("--roi", written(feature(BOX)), "--min-roi", "1.1"), "--min-roi")):
        says(run(H5SPEC, "-o", out, *options, grouped(), status=2).err, why)
    says(run(H5SPEC, "-o", out, "--roi", written(feature(BOX)), grouped(), store(made("--size", "300x300")), status=2).err, "name a folder with one file per slide")


def test_too_small_regions():
    p = run(H5SPEC, "-o", os.path.join(tmp(), "x.h5"), "--roi", written(feature([[[5, 5], [9, 5], [9, 9]]])), grouped())
    says(p.err, "no window counts: none has 50 % of its area inside the regions", "1 done")
    page = os.path.join(tmp(), "r.html")
    run(H5SPEC, "report", "-o", page, spectrum(grouped(), "--roi", written(feature([[[5, 5], [9, 5], [9, 9]]]))))
    says(open(page).read(), "no numbers: no place inside the regions was measured")


def test_many_points():
    """200,000 vertices: seconds, and memory in proportion."""
    n = 100000
    ring = [[100 + 1000 * k / n, 300.2 + 200 * k / n] for k in range(n)] + [[1100 - 1000 * k / n, 900.3 + 100 * k / n] for k in range(n)]
    r = spectrum(grouped(), "--roi", written(feature([ring])))
    check(r, shares(pixels_inside([[[[100, 300.2], [1100, 500.2], [1100, 900.3], [100, 1000.3]]]], *SIZE)) >= 0.5)


def scrambled(n):
    """A ring of n random vertices, which crosses itself everywhere."""
    return np.random.default_rng(n).uniform((0, 0), SIZE, (n, 2)).tolist()


def test_scrambled_ring():
    """100,000 random vertices took 74 s on 2,400 rows: every row was sorted by comparing."""
    ring = np.array(scrambled(3000))
    ends = np.zeros((SIZE[1], SIZE[0] + 1), bool)
    for (ax, ay), (bx, by) in zip(ring, np.roll(ring, -1, 0)):
        y = np.arange(*np.ceil(np.array([min(ay, by), max(ay, by)]) - 0.5).astype(int))
        ends[y, np.ceil(ax + (y + 0.5 - ay) / (by - ay) * (bx - ax) - 0.5).astype(int)] ^= True
    want = shares(np.logical_xor.accumulate(ends, 1)[:, :-1])
    least = float(np.median(want))
    check(spectrum(grouped(), "--min-roi", least, "--roi", written(feature([ring.tolist()]))), want >= least)
    path = written(feature([scrambled(100000)]))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    spectrum(grouped(), "--roi", path)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    expect(SAN or seconds < 4, "%.1f s", seconds)


def test_a_signal_stops_reading_regions():
    """SIGTERM was noticed after 4 s, while polygons became windows."""
    path = written(feature([scrambled(400000)]))
    argv = [H5SPEC, "run", "--device", "cpu", "-o", os.path.join(tmp(), "x.h5"), "--roi", path, grouped()]
    for seconds in (0.1, 0.9):
        p = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
        wait_until_caught(p, signal.SIGTERM)
        time.sleep(seconds)
        began = time.monotonic()
        p.send_signal(signal.SIGTERM)
        said = p.communicate()[1]
        expect(p.returncode == 3 and "stopped by signal 15" in said, "%d: %s", p.returncode, said)
        expect(time.monotonic() - began < 1, "%.1f s after %g s", time.monotonic() - began, seconds)


def test_maps_of_h5spec_are_regions():
    """The polygons that h5spec map writes for QuPath are read as regions: here all windows but one."""
    folder = tmp()
    run(H5SPEC, "map", "--format", "geojson", "-o", folder, spectrum(grouped()))
    (name,) = os.listdir(folder)
    features = json_in(os.path.join(folder, name))["features"]
    rings = [f["geometry"]["coordinates"] for f in features]
    path = written(collection(*features[1:]))
    want = shares(pixels_inside(rings[1:], *SIZE)) >= 0.5
    expect(len(rings) == want.size and 0 < (~want).sum() < 4, "%d polygons", len(rings))
    check(spectrum(grouped(), "--roi", path), want)


def test_results_without_regions_do_not_mention_them():
    with h5py.File(spectrum(grouped()), "r") as f:
        names = set(f.attrs) | set(list(f["slides"].values())[0].attrs)
    expect(not any("roi" in n or "outside" in n for n in names), "%s", names)


def test_damaged_records():
    """What h5spec writes about regions is checked when it is read."""
    r = spectrum(grouped(), "--roi", written(feature(BOX)))
    for name, value in (("min_roi", 7.0), ("windows_outside", -3), ("windows_outside", 1), ("roi_crc32", None), ("roi", 2)):
        bad = os.path.join(tmp(), "bad.h5")
        run("cp", r, bad)
        with h5py.File(bad, "r+", libver=("v110", "v110")) as f:
            o = list(f["slides"].values())[0] if name == "roi_crc32" else f
            del o.attrs[name]
            if value is not None:
                o.attrs[name] = np.int64(value) if name != "min_roi" else value
        run(H5SPEC, "verify", bad, status=1)


@later("ci")
def test_every_failed_allocation_has_a_reason():
    """The message names the store, the regions or the result, and says what failed."""
    folder = tmp("regions")
    regions, out = (os.path.join(folder, f) for f in ("r.geojson", "r.h5"))
    slide = store(made("--size", "400x300"))
    put_file(regions, '{"type": "Polygon", "coordinates": [[[10, 10], [390, 20], [300, 299]]]}')
    of_regions = 0
    for ran, place in failing_allocations([H5SPEC, "run", "-q", "-j", "1", "--device", "cpu", "--roi", regions, "-o", out, slide], out):
        words = ran.err.strip()
        of_regions += regions in words
        named = regions in words or slide in words or out in words or words.endswith(": out of memory")
        # other than 0 and 1: a library has ended the program
        expect(ran.status != 1 or (named and not words.endswith(":")), "%s: %r", place, words)
    expect(of_regions > 0, "no failure met the regions")


main(globals())
