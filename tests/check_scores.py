"""`h5spec map --scores`: against a definition in numpy, the same bits in any order, files that grow, hostile files."""
import h5py
import numpy as np

from lib import *

if "map" not in run(H5SPEC, "--help").out:
    print("skip scores: h5spec is built without libpng")
    sys.exit(0)

SIZE = (1500, 1100)


def patches(n=60, values=1):
    """Rows x, y, size, value ...: anywhere on the slide and across its edges."""
    rng = np.random.default_rng(1)
    return [(int(rng.integers(-90, SIZE[0])), int(rng.integers(-90, SIZE[1])), int(rng.choice((100, 256))),
             *(round(float(v), 6) for v in rng.random(values))) for _ in range(n)]


def table(rows, head="x,y,size,score", name="slide.csv"):
    path = os.path.join(tmp("scores"), name)
    put_file(path, head + "\n" + "".join(",".join("" if v is None else str(v) for v in row) + "\n" for row in rows))
    return path


def draw(path, *options, status=0, formats="csv", size="%dx%d" % SIZE):
    """Runs map --scores into a folder."""
    out = tmp("maps")
    p = run(H5SPEC, "map", "--scores", path, *(("--slide-size", size) if size else ()), "--format", formats, "-o", out, *options, status=status)
    draw.err = p.err
    return out


def cells(out):
    """{column: [rows][cols]} of the only CSV file."""
    name, = (f for f in os.listdir(out) if f.endswith(".csv"))
    rows = csv_rows(os.path.join(out, name))
    shape = (int(rows[-1]["j"]) + 1, int(rows[-1]["i"]) + 1)
    return {k: np.array([float(r[k] or "nan") for r in rows]).reshape(shape) for k in rows[0]}


def same(a, b):
    expect(sorted(os.listdir(a)) == sorted(os.listdir(b)) != [], "%s, %s", os.listdir(a), os.listdir(b))
    for name in os.listdir(a):
        with open(os.path.join(a, name), "rb") as x, open(os.path.join(b, name), "rb") as y:
            expect(x.read() == y.read(), "%s differs", name)


def density(kind, n):
    """Weight of each of 16 n points along a patch of n px."""
    t = (np.arange(16 * n) + 0.5) / 16
    if kind == "tent":
        return np.minimum(np.floor(t) * 2 + 1, 2 * n - 2 * np.floor(t) - 1)
    if kind == "cos":
        return 4096 * np.sin(np.pi * t / n) ** 2
    if kind == "gauss":
        return np.maximum(4, 4096 * np.exp(-((t - n / 2) / (n / 8)) ** 2 / 2))
    return np.ones(16 * n)


def expected(rows, kind, cell):
    """Values and coverage of the first value of each row."""
    w, h = SIZE
    shape = (-(-h // cell), -(-w // cell))
    a, b, covered = np.zeros(shape), np.zeros(shape), np.zeros((h, w), bool)
    for x, y, n, value, *_ in rows:
        if value is None:
            continue
        parts = []
        for at, size, count in ((y, h, shape[0]), (x, w, shape[1])):
            px = at + np.arange(n)
            on = (px >= 0) & (px < size)
            d = density(kind, n).reshape(n, 16).mean(axis=1)
            parts.append(np.bincount(px[on] // cell, d[on], count))
        weight = np.outer(*parts)
        a += weight * value
        b += weight
        covered[max(0, y):max(0, y + n), max(0, x):max(0, x + n)] = True
    covered = np.pad(covered, ((0, -h % cell), (0, -w % cell)))
    area = covered.reshape(shape[0], cell, shape[1], cell).sum(axis=(1, 3))
    px = np.outer(np.minimum(cell, h - cell * np.arange(shape[0])), np.minimum(cell, w - cell * np.arange(shape[1])))
    with np.errstate(invalid="ignore"):
        return np.where(b > 0, a / b, np.nan), area / px


# --- values ---

def test_values_and_coverage_follow_the_definition():
    rows = patches()
    rows[3] = rows[3][:3] + (None,)
    for kind in ("box", "tent", "cos", "gauss"):
        for cell in (32, 50):
            c = cells(draw(table(rows), "--blend", kind, "--cell", cell))
            values, coverage = expected(rows, kind, cell)
            there = ~np.isnan(values)
            # the rounded weight of a corner may be 0, and its value is that of the others
            expect((np.isnan(c["score"]) == ~there).mean() > 0.99 and not there.all(), "%s: cells without a value", kind)
            both = there & ~np.isnan(c["score"])
            expect(np.abs(c["score"] - values)[both].max() < (2e-6 if kind in ("box", "tent") else 0.02), "%s, cells of %d px: %g", kind, cell,
                   np.abs(c["score"] - values)[both].max())
            expect(np.quantile(np.abs(c["score"] - values)[both], 0.95) < 1e-4, "%s", kind)
            expect(np.abs(c["coverage"] - coverage)[both].max() < 6e-4, "coverage")
    expect(np.nanmin(c["score"]) >= min(r[3] for r in rows if r[3] is not None), "outside of the values")
    flat = cells(draw(table([r[:3] + (0.7,) for r in patches()]), "--blend", "gauss"))["score"]
    expect((flat[~np.isnan(flat)] == 0.7).all(), "a constant does not stay one")


def test_what_is_covered_counts_once():
    """Area, not a sum over patches: of any overlap, per value."""
    one = [(0, 0, 256, 0.5)]
    for rows in (one, 4 * one, one + [(128, 0, 128, 0.1)]):
        expect(cells(draw(table(rows), "--cell", 512))["coverage"][0, 0] == 0.25, "%s", rows)
    grid = [(128 * i, 64 * j, 256, 0.5) for i in range(0, 7, 3) for j in range(0, 9, 2)]
    for rows in (patches(60), grid):
        for cell in (32, 50, 700, 4096):
            c = cells(draw(table(rows), "--cell", cell))
            coverage = expected(rows, "box", cell)[1]
            expect(0 < coverage.min() or coverage.max() > 0.3, "%s", coverage)
            expect(np.abs(c["coverage"] - coverage).max() < 6e-4, "cells of %d px: %s", cell, np.abs(c["coverage"] - coverage).max())
    rows = [(0, 0, 64, 0.5, None), (32, 0, 64, None, 0.5), (0, 32, 32, 0.25, 0.75)]
    for name, known in (("a", 3), ("b", 4)):
        c = cells(draw(table(rows, "x,y,size,a,b"), "--feature", name, "--cell", 128))
        expect(np.abs(c["coverage"] - expected([r[:3] + (r[known],) for r in rows], "box", 128)[1]).max() < 6e-4, "of value %s", name)


def test_windows_of_h5spec_blend_as_its_own_maps():
    result = spectrum(store(made("--size", "%dx%d" % SIZE, name="scores")))
    with h5py.File(result) as f:
        (s,) = f["slides"].values()
        focus = s["window_focus_db"][()]
    rows = [(128 * i, 128 * j, 256, focus[j, i] / 100) for j, i in np.ndindex(focus.shape) if focus[j, i] != -32768]
    own = tmp("own")
    for options in (("--blend", "box"), ("--blend", "tent", "--cell", "64")):
        run(H5SPEC, "map", "--feature", "focus", "--format", "csv", "-o", own, *options, result)
        a, b = cells(own), cells(draw(table(rows), "--cell", "128", *options))
        expect(np.array_equal(np.isnan(a["focus_db"]), np.isnan(b["score"])), "other cells")
        expect(np.nanmax(np.abs(a["focus_db"] - b["score"])) <= 0.00051, "%s: %g", options, np.nanmax(np.abs(a["focus_db"] - b["score"])))


def test_any_order_and_format_give_the_same_files():
    rows = patches(400, values=2)
    head = ("x", "y", "size", "score", "other")
    rows += [(32 * k, 64, 32, v, v) for k in range(20) for v in (9e8, 0.125, -9e8)]  # in double their sum depends on the order
    first = draw(table(rows, ",".join(head)), "--blend", "cos", formats="all")
    three = draw(table([(0, 0, 32, v) for v in (9e8, 0.125, -9e8)]))
    expect(cells(three)["score"][0, 0] == round(0.125 / 3, 6), "%s", cells(three)["score"][0, 0])
    expect(len(os.listdir(first)) >= 6, "%s", os.listdir(first))
    shuffled = list(rows)
    for seed in range(2):
        np.random.default_rng(seed).shuffle(shuffled)
        same(first, draw(table([tuple(r) for r in shuffled], ",".join(head)), "--blend", "cos", formats="all"))
    folder = tmp("formats")
    kinds = [(n, t) for n, t in zip(head, ("<i4", "<i2", "<u2", "<f8", "<f8"))]
    np.save(os.path.join(folder, "slide.npy"), np.array(rows, dtype=kinds))
    same(first, draw(os.path.join(folder, "slide.npy"), "--blend", "cos", formats="all"))
    with h5py.File(os.path.join(folder, "slide.h5"), "w") as f:
        f["coords"] = np.array([r[:2] for r in rows])
        f["coords"].attrs["patch_size"] = 128
        f.create_dataset("score", data=[r[3] for r in rows], chunks=(64,), compression="gzip")
        f["features"] = np.zeros((len(rows), 200), np.float32)  # too many to be scores
    one = draw(table([r[:2] + (128, r[3]) for r in rows]), formats="all")
    same(one, draw(os.path.join(folder, "slide.h5"), formats="all"))


def test_arrays_of_numpy():
    rows = patches(50)
    numbers = np.array([r for r in rows])
    folder = tmp("npy")
    want = cells(draw(table(rows)))["score"]
    for name, array in (("c", numbers), ("fortran", np.asfortranarray(numbers)), ("whole", numbers.astype("<f4"))):
        path = os.path.join(folder, name + ".npy")
        np.save(path, array)
        expect(np.nanmax(np.abs(cells(draw(path))["value"] - want)) < 2e-6, "%s", name)
    np.save(path, np.array([(r[0], r[1], r[3]) for r in rows]))
    one = cells(draw(path, "--patch", "128"))["value"]
    expect(np.array_equal(one, cells(draw(table([r[:2] + (128, r[3]) for r in rows])))["score"], equal_nan=True), "x, y, value")
    np.save(path, np.array(rows).astype("<f2").repeat(2, 1)[:, [0, 2, 4, 6, 7]])
    expect(set(cells(draw(path))) >= {"value_1", "value_2"}, "names of columns")


def test_tables_as_people_write_them():
    rows = patches(30)
    want = draw(table(rows))
    for head, line in (("\ufeffx_px;y_px;Size;score", "%d;%d;%d;%s"), ('"X"\t"Y"\t"size_px"\t"score"', "%d\t%d\t%d\t%s"),
                       ("name,x,y,size,score", '"a, ""b""",%d,%d,%d, %s ')):
        path = os.path.join(tmp(), "slide.csv")
        with open(path, "w", newline="") as f:
            f.write("# made by a network\r\n" + head + "\r\n\r\n" + "".join(line % r + "\r\n" for r in rows).rstrip() + "\n#end\nleft over")
        same(want, draw(path, "--feature", "score"))
    names = cells(draw(table([r + (1, 2, 3) for r in rows], "x,y,size,a<b>\"',a_b____,Käse,".replace("\"", ""))))
    expect(list(names)[5:-1] == ["a_b__", "a_b____", "K_se", "value"] or len(names) == 10, "%s", list(names))
    for name in list(names)[5:-1]:
        expect(all(c.isalnum() or c in "_.-+" for c in name), "%s", name)


def test_one_picture_of_one_value():
    out = os.path.join(tmp(), "a.png")
    run(H5SPEC, "map", "--scores", table(patches()), "--colours", "0:0.5", "-o", out)
    two = table(patches(values=2), "x,y,size,score,other")
    for options, words in ((("-o", out), "name the one for " + out), (("-o", tmp(), "--colours", "0:1"), "has 2 values; name the one for --colours")):
        says(run(H5SPEC, "map", "--scores", two, *options, status=1).err, two, words, "--feature")
    run(H5SPEC, "map", "--scores", two, "--feature", "other", "-o", out)


def test_the_colours_are_shares_or_the_range():
    image = __import__("PIL.Image", fromlist=["Image"])
    for scale, words in ((1, "colours from 0 to 1"), (10, "colours from ")):
        rows = [r[:3] + (round(scale * r[3], 3),) for r in patches()]
        out = draw(table(rows), formats="png")
        text = image.open(os.path.join(out, "slide.score.png")).info["Description"]
        says(text, words if scale == 1 else words + "%g to %g" % (min(r[3] for r in rows), max(r[3] for r in rows)))
    text = image.open(os.path.join(draw(table(rows), "--colours", "2:3", "--feature", "score", formats="png"), "slide.score.png")).info["Description"]
    says(text, "colours from 2 to 3")


# --- the slide ---

def test_the_slide_of_a_store_or_a_result():
    rows = patches(40)
    svs = made("--size", "%dx%d" % SIZE, name="scores")
    want = draw(table(rows), "--slide", "scores", formats="csv,geojson")
    s = store(svs)
    same(want, draw(table(rows), s, size=None, formats="csv,geojson"))
    for name, options in (("scores.csv", ()), ("other.csv", ("--slide", "scores"))):
        both = spectrum([s, store(made("--size", "900x700", name="second"))])
        same(want, draw(table(rows, name=name), *options, both, size=None, formats="csv,geojson"))
    says(run(H5SPEC, "map", "--scores", table(rows), "-o", tmp(), both, status=1).err, "has no slide slide", "--slide")
    lower = store(made("--size", "3000x2200", "--levels", "2", name="scores"), "--level", "1")
    expect(attributes_of(lower)["downsample"] > 1.5, "a useless store")
    c = cells(draw(table(rows), lower, size=None))
    expect(c["score"].shape == (69, 94), "coordinates are not those of level 0: %s", c["score"].shape)
    expect(cells(draw(table([(0, 0, 100, 1), (900, 500, 100, 1)]), size=None))["score"].shape == (19, 32), "as far as the patches go")
    image = __import__("PIL.Image", fromlist=["Image"])
    picture = image.open(os.path.join(draw(table(rows), formats="overlay"), "slide.score.overlay.png"))
    expect(abs(picture.size[0] / picture.size[1] - SIZE[0] / SIZE[1]) < 0.01, "aspect %s", picture.size)


def test_coordinates_of_trident_and_clam():
    rows = [(x, y, 256, 0.5) for x in range(0, 1024, 256) for y in range(0, 1024, 256)]
    want = draw(table(rows))
    for attributes in ({"patch_size": 256}, {"patch_size": 128, "patch_size_level0": 256},
                       {"patch_size": 64, "patch_level": 1, "downsample": np.array([4.0, 4.0])}):
        path = os.path.join(tmp(), "slide.h5")
        with h5py.File(path, "w") as f:
            f["coords"] = np.array([r[:2] for r in rows])
            f["coords"].attrs.update(attributes)
            f["score"] = np.full((len(rows), 1), 0.5, np.float32)
        same(want, draw(path))
    says(run(H5SPEC, "map", "--scores", store(made("--size", "600x500", name="small")), "-o", tmp(), status=1).err, "has no dataset coords")


# --- what is wrong ---

BAD_ROWS = [  # row, what the message says
    ("nan,0,256,1", "x is nan"), ("0,1e18,256,1", "y is 1e+18"), ("0,-inf,256,1", "y is -inf"), ("0,0,0,1", "size is 0"), ("0,0,-256,1", "size is -256"),
    ("0,0,99999,1", "size is 99999"), ("0,0,256,inf", "score is inf"), ("0,0,256,1e30", "score is 1e+30"), ("0,0,256", "3 fields"),
    ("0,0,256,1,2", "5 fields"), ("0,0,256,high", '"high" is no number'), ("9000,0,256,1", "outside of the slide"), ("-256,0,256,1", "outside of the slide"),
    ("0x,0,256,1", '"0x" is no number'), ("\x1b[2J,0,256,1", "is no number"),
]


def test_rows_that_cannot_be_used():
    rows = patches(20)
    want = draw(table(rows))
    for row, words in BAD_ROWS:
        path = table(rows[:5])
        with open(path, "a") as f:
            f.write(row + "\n" + "".join(",".join(map(str, r)) + "\n" for r in rows[5:]))
        says(run(H5SPEC, "map", "--scores", path, "--slide-size", "1500x1100", "-o", tmp(), status=1).err, path, "line 7: ", words, "--partial")
        out = draw(path, "--partial", formats="csv,geojson")
        expect(np.array_equal(cells(out)["score"], cells(want)["score"], equal_nan=True), "%s changes the map", row)
        j = json_in(os.path.join(out, "slide.geojson"))
        expect(j["partial"] and j["lacks"] == "1 row left out" and j["patches"] == 20, "%s", {k: v for k, v in j.items() if k != "features"})


def test_files_that_are_no_scores():
    folder = tmp("wrong")

    def written(text, name="slide.csv"):
        path = os.path.join(folder, name)
        put_file(path, text)
        return path
    for text, words in ((b"", "no header line"), (b"a,b\n1,2\n", "no column x"), (b"x,y,size\n1,2,3\n", "no column of values"), (b"x,y,v\n1,2,3\n", "--patch"),
                        (b"x,y,size,x_px,v\n", "two columns"), (b"x,y,size,v\n" + b"1" * 100000, "longer than"), (b"x,y,size,v\n1,\0,2,3\n4,5,6,7\n", "line 2: not a text file in UTF-8"), ("x,y,size,v\n".encode("utf-16"), "UTF-8"),
                        (b"x,y,size" + b",v" * 20 + b"\n", "more than 16 values"), (b"x,y,size" + b",v" * 400 + b"\n", "at most 256"), (b"x,y,size,v\n", "no patches")):
        p = run(H5SPEC, "map", "--scores", written(text), "-o", tmp(), status=1)
        says(p.err, folder, words)
    good = np.array(patches(100))
    path = os.path.join(folder, "slide.npy")
    np.save(path, good)
    whole = bytes_in(path)
    p = run(H5SPEC, "map", "--scores", written(whole[:-40], "slide.npy"), "--slide-size", "1500x1100", "-o", tmp(), status=1)
    says(p.err, "row 99", "the file ends here")
    want = cells(draw(table([tuple(r) for r in good[:98]])))["score"]
    expect(np.array_equal(cells(draw(path, "--partial"))["value"], want, equal_nan=True), "the rows that are there")
    for change, words in ((lambda b: b.replace(b"<f8", b">f8"), ">f8"), (lambda b: b.replace(b"<f8", b"|O8"), "|O8"), (lambda b: b.replace(b"(100, 4)", b"(100, 2)"), "rows x, y"),
                          (lambda b: b.replace(b"(100, 4)", b"(9" + b"9" * 5 + b")"), "rows x, y"), (lambda b: b.replace(b"(100, 4), }  ", b"(9999999999,4)"), "says that it has"),
                          (lambda b: b.replace(b"'shape'", b"'shapf'"), "damaged"), (lambda b: b[:20], "damaged"), (lambda b: b[:8] + b"\xff\xff" + b[10:], "damaged"),
                          (lambda b: b.replace(b"(100, 4), ", b"(1,2,3,4)}"), "more than 2")):
        says(run(H5SPEC, "map", "--scores", written(change(whole), "slide.npy"), "-o", tmp(), status=1).err, words)
    says(run(H5SPEC, "map", "--scores", os.path.join(folder, "none.csv"), "-o", tmp(), status=1).err, "No such file")
    says(run(H5SPEC, "map", "--scores", folder, "-o", tmp(), status=1).err, "not a file")
    says(run(H5SPEC, "map", "--scores", table([(0, 0, 9, 1)]), "--cell", "1", "--slide-size", "2000000000x9", "-o", tmp(), status=1).err, "at most 65536")


def test_hostile_hdf5():
    """The library reads it in a process of its own: whatever it does there, the program says so and goes on."""
    path = os.path.join(tmp(), "slide.h5")
    with h5py.File(path, "w") as f:
        f["coords"] = np.array([r[:2] for r in patches(40)])
        f["coords"].attrs["patch_size"] = 64
        f.create_dataset("score", data=np.random.default_rng(1).random(40), chunks=(16,), compression="gzip")
    whole = bytes_in(path)
    rng = np.random.default_rng(3)
    seen = set()
    for k in range(by_tier(16, 300, 3000)):
        data = bytearray(whole[:rng.integers(10, len(whole))] if k % 8 == 0 else whole)
        for _ in range(rng.integers(1, 30)):
            data[rng.integers(8, len(data))] = rng.choice([0, 255, rng.integers(256)])
        put_file(path, data)
        p = run(H5SPEC, "map", "--scores", path, "--slide-size", "1500x1100", "--partial", "-o", tmp(), status=None)
        expect(p.returncode in (0, 1) and (p.returncode == 0 or path in p.err), "%d: %s", p.returncode, p.err)
        seen.add(p.returncode)
    expect(seen == {0, 1}, "a useless test: %s", seen)
    with h5py.File(path, "w") as f:
        f["coords"] = np.zeros((4, 2))
        f["coords"].attrs["patch_size"] = 64
        f["soft"] = h5py.SoftLink("/real/score")
        f["far"] = h5py.ExternalLink(table(patches(3)), "/score")
        f["real/score"] = np.zeros(4)
        f["text"] = np.array([b"a"] * 4)
    says(run(H5SPEC, "map", "--scores", path, "-o", tmp(), status=1).err, "no dataset of values")


def test_temporary_files_are_made_in_tmpdir():
    path, result, lost = table(patches()), spectrum(store(made("--size", "600x900"))), os.path.join(tmp(), "lost")
    for ending, *argv in (("csv", "map", "--scores", path, "--slide-size", "%dx%d" % SIZE, "-o"),
                           ("html", "report", result, "-o"), ("html", "report", "--max-size", "0", result, "-o")):
        out = os.path.join(tmp(), "out." + ending)
        p = run(H5SPEC, *argv, out, env={**os.environ, "TMPDIR": lost}, status=5)
        says(p.err, "no temporary file", lost, "set TMPDIR")
        os.mkdir(lost)
        run(H5SPEC, *argv, out, env={**os.environ, "TMPDIR": lost})
        expect(os.listdir(lost) == [], "%s", os.listdir(lost))
        os.rmdir(lost)


def test_wrong_options():
    path = table(patches(5))
    result = spectrum(store(made("--size", "%dx%d" % SIZE, name="scores")))
    for options, words in ((("--blend", "none"), "--blend none"), (("--slide-size", "12"), "WIDTHxHEIGHT"), (("--slide-size", "0x5"), "WIDTHxHEIGHT"),
                           (("--slide-size", "5x5", result), "without a store or result"),
                           (("--slide", "a", "--slide", "b"), "once"), ((result, result), "one slide")):
        says(run(H5SPEC, "map", "--scores", path, "-o", tmp(), *options, status=2).err, words)
    for option in (("--patch", "5"), ("--slide-size", "5x5"), ("--follow", "5")):
        says(run(H5SPEC, "map", "-o", tmp(), *option, result, status=2).err, option[0] + " has no effect without --scores")
    says(run(H5SPEC, "map", "--scores", path, "--feature", "tumour", "-o", tmp(), status=1).err, "has no column tumour")


# --- while the file grows ---

def growing(path, rows, *options, last="#end\n", pause=0.05):
    """Follows a file that appears and grows, in pieces that end anywhere; returns the folder and what was there meanwhile."""
    out = tmp("follow")
    text, parts = "x,y,size,score\n" + "".join("%d,%d,%d,%s\n" % r for r in rows) + last, 6
    p = subprocess.Popen([H5SPEC, "map", "--scores", path, "--slide-size", "1500x1100", "--format", "csv,geojson", "-o", out, *options],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    seen = []

    def note():
        try:
            seen.append(json_in(os.path.join(out, "slide.geojson")))
        except FileNotFoundError:
            pass
    try:
        for k in range(parts):
            time.sleep(pause)
            with open(path, "a") as f:
                f.write(text[k * len(text) // parts:(k + 1) * len(text) // parts])
            note()
        while p.poll() is None:
            note()
            time.sleep(0.05)
        err = p.communicate(timeout=TIMEOUT)[1].decode()
    finally:
        p.kill()
    expect(p.returncode == 0, "status %d: %s", p.returncode, err)
    return out, seen


def test_a_file_that_grows_gives_the_maps_of_the_whole_file():
    rows = patches(200)
    want = draw(table(rows), formats="csv,geojson")
    for options, last in ((("--follow", "30"), "#end\n"), (("--follow", "0.5"), "")):
        path = os.path.join(tmp(), "slide.csv")
        out, seen = growing(path, rows, *options, last=last)
        same(want, out)
        expect(all(not j["partial"] for j in seen), "a strict run shows maps that change")
    path = os.path.join(tmp(), "slide.csv")
    out, seen = growing(path, rows, "--partial", "--follow", "30", pause=0.4)
    same(want, out)
    counts = [j["patches"] for j in seen if j["partial"]]
    expect(counts and counts == sorted(counts) and counts[0] < 200, "%s", counts)
    says([j for j in seen if j["partial"]][0]["lacks"], "patches so far")


def test_following_ends_with_a_reason():
    rows = patches(30)
    says(run(H5SPEC, "map", "--scores", os.path.join(tmp(), "never.csv"), "--follow", "0.2", "-o", tmp(), status=1).err, "No such file")
    np.save(os.path.join(tmp(), "a.npy"), np.array(rows))
    npy = os.path.join(tmp(), "a.npy")
    np.save(npy, np.array(rows))
    says(run(H5SPEC, "map", "--scores", npy, "--follow", "60", "-o", tmp(), status=1).err, "only CSV")
    path = table(rows)
    out = tmp("shrinks")
    p = subprocess.Popen([H5SPEC, "map", "--scores", path, "--follow", "60", "-o", out], stderr=subprocess.PIPE)
    wait_until_caught(p, signal.SIGTERM)
    time.sleep(0.3)
    os.truncate(path, 20)
    says(p.communicate(timeout=TIMEOUT)[1].decode(), "became shorter")
    expect(p.returncode == 1 and os.listdir(out) == [], "%d, %s", p.returncode, os.listdir(out))
    p = subprocess.Popen([H5SPEC, "map", "--scores", table(rows), "--follow", "60", "-o", out], stderr=subprocess.PIPE)
    wait_until_caught(p, signal.SIGTERM)
    p.terminate()
    says(p.communicate(timeout=TIMEOUT)[1].decode(), "stopped by signal")
    expect(p.returncode == 3 and os.listdir(out) == [], "%d", p.returncode)


main(globals())
