"""How many bad slides `h5spec report` finds: cohorts of made slides, of which some have a planted defect.

bench_cohorts.py [options] TISSUE... [--judge PICTURE...] [--pen PICTURE...]

    TISSUE           pictures of sharp tissue at 0.5 um per px that rules are chosen by; the first is the tissue of the
                     cohorts of one tissue
    --judge PICTURE  pictures that no rule was chosen by: each kind of defect on these, too
    --pen PICTURE    pictures of pen, laid over tissue
    --only PART      `cohorts` or `kinds` (both)
    --real FOLDER    in place of TISSUE: pictures of one data set are a group (real_cohorts.py)
    --glass          these pictures on made glass, as slides
    --draws N        slides of each kind of defect (2); --groups N: random groups of 12, 20 and 40 (10); --kinds RE: only these
    --keep FOLDER    slides, stores and results stay here and are used again (a temporary folder)
    --build FOLDER   the programs (build)
    --seed N         another set of slides (1)

A slide has 1,400 x 1,400 px: a mirrored mosaic of a random part of the picture inside of a random outline, the rest glass.
Good slides differ in stain (optical density +-7 %), sharpness (Gaussian of 0 to 0.35 px) and noise (0.8 to 1.2 gray
levels), and are JPEG tiles of quality 80, 4:2:0. Defects are planted before noise and compression. Prints one table per
cohort, with every miss; and one of all kinds of defects, a slide of each alone beside 50 good ones of its tissue: is it for
review, and does the strongest reason name the defect? Needs Pillow and SciPy. tests/FIGURES.md has the tables and the pictures' licences.
"""
import argparse
import csv
import io
import os
import re
import struct
import subprocess
import tempfile

import numpy as np
from PIL import Image
from scipy.ndimage import convolve, gaussian_filter, uniform_filter1d

from tiffpatch import directory_of

SIZE, TILE = 1400, 256
GLASS = 243.0
GOOD, QUALITY = 50, 80


# --- pictures ---

def load(path):
    return np.asarray(Image.open(path).convert("RGB"), np.float64)


def mosaic(picture, rng):
    """SIZE x SIZE of a random part of the picture, mirrored at its borders."""
    part = picture
    for axis in (0, 1):
        n = part.shape[axis]
        m = max(128, int(n * rng.uniform(0.6, 1)))
        at = rng.integers(0, n - m + 1) if n > m else 0
        part = np.take(part, range(at, at + min(n, m)), axis)
    index = []
    for n in part.shape[:2]:
        k = (rng.integers(0, 2 * n) + np.arange(SIZE)) % (2 * n)
        index.append(np.where(k < n, k, 2 * n - 1 - k))
    return part[np.ix_(*index)]


def outline(rng, share):
    """True where tissue is: a smooth random shape of about this share of the area."""
    field = gaussian_filter(rng.normal(size=(SIZE // 8, SIZE // 8)), 18, mode="nearest")
    y, x = np.mgrid[-1:1:field.shape[0] * 1j, -1:1:field.shape[1] * 1j]
    field = field / field.std() - 1.5 * (x * x + y * y)
    mask = field > np.quantile(field, 1 - share)
    return np.kron(mask, np.ones((8, 8), bool))[:SIZE, :SIZE]


def density(rgb, factor):
    return 255 * (np.maximum(rgb, 1) / 255) ** factor


def blur(rgb, sigma):
    return gaussian_filter(rgb, (sigma, sigma, 0), mode="nearest") if sigma else rgb


def as_jpeg(rgb, quality):
    packed = io.BytesIO()
    Image.fromarray(rgb).save(packed, "JPEG", quality=quality, subsampling=2)
    return packed.getvalue()


def again(rgb, quality):
    return np.asarray(Image.open(io.BytesIO(as_jpeg(rgb, quality))))


# --- defects: of a picture without noise; `tissue` is where tissue is ---

def disc(cy, cx, radius):
    y, x = np.mgrid[:SIZE, :SIZE]
    return (y - cy) ** 2 + (x - cx) ** 2 < radius ** 2


def tissue_point(tissue, rng):
    inner = np.argwhere(tissue[300:-300:8, 300:-300:8])
    return inner[rng.integers(len(inner))] * 8 + 300 if len(inner) else np.array([SIZE // 2, SIZE // 2])


def half(rgb, rng, sigma):
    where = np.arange(SIZE)[:, None, None] >= SIZE // 2
    return np.where(where, blur(rgb, sigma), rgb)


def pen(rgb, tissue, rng, pens):
    cy, cx = tissue_point(tissue, rng)
    y, x = np.mgrid[:SIZE, :SIZE]
    stroke = np.abs((y - cy) + 0.6 * (x - cx)) < 90
    ink = mosaic(pens[0], rng) if pens else np.array([60, 90, 190]) * np.ones_like(rgb)
    return np.where((stroke & (np.abs(x - cx) < 500))[..., None], np.minimum(rgb, ink), rgb)


def fold_and_bubble(rgb, tissue, rng):
    cy, cx = tissue_point(tissue, rng)
    y, x = np.mgrid[:SIZE, :SIZE]
    fold = np.abs((y - cy) - 0.4 * (x - cx)) < 45
    rgb = np.where(fold[..., None], density(rgb * np.roll(rgb, 60, 0) / 255, 1), rgb)
    d = np.hypot(y - cy, x - cx - 250)
    rgb = np.where((d < 200)[..., None], blur(rgb, 2), rgb)
    return np.where((np.abs(d - 200) < 8)[..., None], rgb * 0.35, rgb)


def scanner_2(rgb, strength):
    rgb = blur(rgb, 0.7 * strength)
    sharpened = rgb + strength * (rgb - blur(rgb, 1.0))
    return 255 * (np.clip(sharpened, 0, 255) / 255) ** (1 - 0.1 * strength)


def motion(rgb, length):
    return uniform_filter1d(rgb, length, axis=1, mode="nearest")


def defocus(rgb, radius):
    y, x = np.mgrid[-radius:radius + 1, -radius:radius + 1]
    kernel = (x * x + y * y <= radius * radius + 0.5).astype(float)
    return convolve(rgb, kernel[..., None] / kernel.sum(), mode="nearest")


def third(rgb, rng, sigma):
    where = np.arange(SIZE)[None, :, None] >= SIZE * 2 // 3
    return np.where(where, blur(rgb, sigma), rgb)


def bubble(rgb, tissue, rng):
    cy, cx = tissue_point(tissue, rng)
    y, x = np.mgrid[:SIZE, :SIZE]
    d = np.hypot(y - cy, x - cx)
    rgb = np.where((d < 250)[..., None], blur(rgb, 1.5), rgb)
    return np.where((np.abs(d - 250) < 8)[..., None], rgb * 0.35, rgb)


def resized(rgb, size):
    return np.stack([np.asarray(Image.fromarray(np.float32(rgb[..., c])).resize((size, size), Image.BICUBIC), float) for c in range(3)], 2)


def enlarged(rgb, factor, rng=None):
    """By software; with rng the noise of the scanner is enlarged, too."""
    small = resized(rgb, int(SIZE / factor))
    if rng:
        small = np.clip(np.rint(small + rng.normal(0, 1, small.shape)), 0, 255)
    return resized(small, SIZE)


def shrunk(rgb):
    """Twice the um per px that is stated."""
    small = resized(rgb, SIZE // 2)
    small = np.concatenate([small, small[:, ::-1]], 1)
    return np.concatenate([small, small[::-1]], 0)


def zoomed(rgb):
    n = SIZE // 4
    return resized(rgb[n:n + SIZE // 2, n:n + SIZE // 2], SIZE)


def raised(rgb, levels):
    """Levels [y] or [y][x] are added."""
    return rgb + (levels[:, None] if levels.ndim == 1 else levels)[..., None]


def every(period, levels, width=1):
    return np.where(np.arange(SIZE) % period < width, float(levels), 0)


def checkerboard(levels):
    y, x = np.mgrid[:SIZE, :SIZE] // TILE
    return (x + y) % 2 * float(levels)


def cracks(rgb):
    return np.where((np.arange(SIZE) % 300 < 24)[None, :, None], GLASS, rgb)


def stitched(rgb, shift):
    """Strips of 200 rows, every other one shifted."""
    odd = np.arange(SIZE) // 200 % 2 == 1
    return np.where(odd[:, None, None], np.roll(rgb, shift, 1), rgb)


def shaded(rgb, part):
    """Fields of 350 px, darker towards their corners."""
    y, x = (np.mgrid[:SIZE, :SIZE] % 350 - 174.5) / 175
    return rgb * (1 - part * (x * x + y * y)[..., None] / 2)


def lost_tiles(rgb, tissue, rng, value):
    full = [(r, c) for r in range(SIZE // TILE) for c in range(SIZE // TILE)
            if tissue[r * TILE:(r + 1) * TILE, c * TILE:(c + 1) * TILE].mean() > 0.5]
    rgb = rgb.copy()
    for k in rng.permutation(len(full))[:6]:
        r, c = full[k]
        rgb[r * TILE:(r + 1) * TILE, c * TILE:(c + 1) * TILE] = value
    return rgb


def dust(rgb, rng):
    y, x = np.mgrid[:SIZE, :SIZE]
    for _ in range(80):
        cy, cx, r = rng.uniform(0, SIZE), rng.uniform(0, SIZE), rng.uniform(2, 6)
        rgb = np.where(((y - cy) ** 2 + (x - cx) ** 2 < r * r)[..., None], 60.0, rgb)
    return rgb


def black_pen(rgb, tissue, rng):
    y, x = np.mgrid[:SIZE, :SIZE]
    stroke = np.abs((y - rng.uniform(300, 1100)) + rng.uniform(-1, 1) * (x - SIZE / 2)) < 25
    return np.where((stroke & ~tissue)[..., None], 25.0, rgb)


# kind: (what is done to the picture, what a right reason says)
KINDS = {
    "motion 5": (lambda g, t, r: motion(g, 5), "motion|moved"), "motion 7": (lambda g, t, r: motion(g, 7), "motion|moved"),
    "motion 9": (lambda g, t, r: motion(g, 9), "motion|moved"),
    "defocus 2": (lambda g, t, r: defocus(g, 2), "sharp|blur"), "defocus 4": (lambda g, t, r: defocus(g, 4), "sharp|blur"),
    "third at 2": (lambda g, t, r: third(g, r, 2), "sharp|blur"), "bubble": (bubble, "sharp|blur|bubble"),
    "enlarged 2": (lambda g, t, r: enlarged(g, 2), "enlarged"), "enlarged 2, noise": (lambda g, t, r: enlarged(g, 2, r), "enlarged"),
    "enlarged 1.25, noise": (lambda g, t, r: enlarged(g, 1.25, r), "enlarged"),
    "um half": (lambda g, t, r: zoomed(g), "resolution|enlarged"), "um double": (lambda g, t, r: shrunk(g), "resolution|stronger"),
    "rows 8, 5": (lambda g, t, r: raised(g, every(8, 5)), "lines"), "rows 8, 2": (lambda g, t, r: raised(g, every(8, 2)), "lines"),
    "rows 12, 2": (lambda g, t, r: raised(g, every(12, 2)), "lines"),
    "columns 5, 2": (lambda g, t, r: raised(g, every(5, 2)[None, :] * np.ones((SIZE, 1))), "lines"),
    "dark lines 256": (lambda g, t, r: raised(g, every(256, -12)), "lines|seams"),
    "line camera": (lambda g, t, r: raised(g, r.uniform(-2, 2, SIZE)[None, :] * np.ones((SIZE, 1))), "lines|stripes"),
    "checkerboard": (lambda g, t, r: raised(g, checkerboard(4)), "tiles|fields"),
    "cracks": (lambda g, t, r: cracks(g), "crack|lines|tear"),
    "stitched 7": (lambda g, t, r: stitched(g, 7), "stitch|seam"), "stitched 30": (lambda g, t, r: stitched(g, 30), "stitch|seam"),
    "shaded": (lambda g, t, r: shaded(g, 0.12), "shading|fields|glass"),
    "black tiles": (lambda g, t, r: lost_tiles(g, t, r, 0), "black|lost"), "white tiles": (lambda g, t, r: lost_tiles(g, t, r, 255), "white|lost|brighter"),
    "noise 3": (lambda g, t, r: g + r.normal(0, 3, g.shape), "nois"), "noise 6": (lambda g, t, r: g + r.normal(0, 6, g.shape), "nois"),
    "overexposed": (lambda g, t, r: g * 1.15, "bright|expos"), "gamma 0.7": (lambda g, t, r: 255 * (g / 255) ** 0.7, "bright|expos"),
    "underexposed": (lambda g, t, r: g * 0.75, "dark|expos"),
    "white balance": (lambda g, t, r: g * np.array([1.05, 1, 0.85]), "colour"), "gray": (lambda g, t, r: g.mean(2, keepdims=True) * np.ones(3), "colour"),
    "swapped": (lambda g, t, r: g[..., ::-1], "colour"), "inverted": (lambda g, t, r: 255 - g, "dark|bright"),
    "8 levels": (lambda g, t, r: np.floor(g / 32) * 32 + 16, ""), "JPEG 15": (lambda g, t, r: g, "compress"),
    "saved at 30": (lambda g, t, r: g, "twice"), "saved at 60": (lambda g, t, r: g, "twice"),
    "dust": (lambda g, t, r: dust(g, r), "dust|speck"), "black pen": (black_pen, "pen|dark"),
    "fringe": (lambda g, t, r: np.stack([np.roll(g[..., 0], 2, 1), g[..., 1], g[..., 2]], 2), "sharp|colour|blur|motion"),
    "sharpened": (lambda g, t, r: g + 1.5 * (g - blur(g, 1)), "sharpen|stronger"),
    "glass only": (lambda g, t, r: np.full_like(g, GLASS), "tissue|glass"), "mostly glass": (lambda g, t, r: g, "tissue|glass"),
}
OWN_NOISE = {"enlarged 2, noise", "enlarged 1.25, noise"}

BAD = ["blur 1.5", "blur 3", "half at 3", "saved at 30", "saved at 50", "overstained 1.5", "overstained 1.8", "mostly glass",
       "pen", "fold and bubble"]


def plant(defect, rgb, tissue, rng, pens):
    if defect.startswith("blur "):
        return blur(rgb, float(defect[5:]))
    if defect in KINDS:
        return KINDS[defect][0](rgb, tissue, rng)
    return {"half at 3": lambda: half(rgb, rng, 3), "pen": lambda: pen(rgb, tissue, rng, pens),
            "fold and bubble": lambda: fold_and_bubble(rgb, tissue, rng),
            "scanner 2": lambda: scanner_2(rgb, 1), "scanner 2, weak": lambda: scanner_2(rgb, 0.5)}.get(defect, lambda: rgb)()


def slide(picture, defect, rng, pens):
    share = rng.uniform(0.04, 0.06) if defect == "mostly glass" else rng.uniform(0.4, 0.75)
    tissue = outline(rng, share)
    stain = rng.uniform(0.93, 1.07) * (float(defect[12:]) if defect.startswith("overstained") else 1)
    rgb = np.where(tissue[..., None], density(mosaic(picture, rng), stain), GLASS)
    rgb = plant(defect, blur(rgb, rng.uniform(0, 0.35)), tissue, rng, pens)
    extra = {"scanner 2": 2, "scanner 2, weak": 1}.get(defect, 0)
    if defect not in OWN_NOISE:
        rgb = rgb + rng.normal(0, np.hypot(rng.uniform(0.8, 1.2), extra), rgb.shape)
    rgb = np.clip(rgb + 0.5, 0, 255).astype(np.uint8)
    return again(rgb, int(defect[9:])) if defect.startswith("saved at") else rgb


# --- an Aperio slide with JPEG tiles ---

def write_svs(path, rgb, quality=QUALITY):
    n = -(-SIZE // TILE)
    padded = np.pad(rgb, ((0, n * TILE - SIZE), (0, n * TILE - SIZE), (0, 0)), "edge")
    tiles = [as_jpeg(padded[r * TILE:(r + 1) * TILE, c * TILE:(c + 1) * TILE], quality) for r in range(n) for c in range(n)]
    text = b"Aperio Image Library v1.0 made\r\n%dx%d Q=%d|AppMag = 20|MPP = 0.5\0" % (SIZE, SIZE, quality)
    data, offsets = bytearray(struct.pack("<2sHI", b"II", 42, 0)), []
    for t in tiles:
        offsets.append(len(data))
        data += t + b"\0" * (len(t) % 2)
    head = directory_of(data, {256: (4, [SIZE]), 257: (4, [SIZE]), 258: (3, [8, 8, 8]), 259: (3, [7]), 262: (3, [6]), 270: (2, text), 277: (3, [3]),
                               284: (3, [1]), 322: (4, [TILE]), 323: (4, [TILE]), 324: (4, offsets), 325: (4, [len(t) for t in tiles]), 530: (3, [2, 2])})
    struct.pack_into("<I", data, 4, len(data))
    with open(path, "wb") as f:
        f.write(data + head + bytes(4))


# --- cohorts ---

class Work:
    ending, conversion = ".svs", ("--codec", "jpeg")

    def __init__(self, o, tissues, pens):
        self.o, self.tissues, self.pens = o, tissues, pens
        for part in ("slides", "stores", "results"):
            os.makedirs(os.path.join(o.keep, part), exist_ok=True)

    def name(self, tissue, defect, k):
        stem = os.path.splitext(os.path.basename(self.o.tissue[tissue]))[0]
        return "%s=%s-%d-%02d" % (stem, defect.replace(" ", "_").replace(",", ""), self.o.seed, k)

    def make(self, tissue, defect, k):
        """The result of a slide; the slide is made once."""
        name = self.name(tissue, defect, k)
        path = os.path.join(self.o.keep, "slides", name + ".svs")
        if not os.path.exists(path):
            rng = np.random.default_rng([self.o.seed, tissue, k, sum(defect.encode())])
            write_svs(path, slide(self.tissues[tissue], defect, rng, self.pens), 15 if defect == "JPEG 15" else QUALITY)
        return name

    def compute(self, names):
        program = lambda p: os.path.join(self.o.build, p)
        slides = [os.path.join(self.o.keep, "slides", n + self.ending) for n in names]
        stores, results = os.path.join(self.o.keep, "stores"), os.path.join(self.o.keep, "results")
        subprocess.run([program("wsi2h5"), "-q", *self.conversion, "-o", stores, *slides], check=True)
        subprocess.run([program("h5spec"), "run", "-q", "--device", "cpu", "-o", results] +
                       [os.path.join(stores, n + ".h5") for n in names], check=True, stderr=subprocess.DEVNULL)

    def report(self, names, group):
        page, table, meta = (os.path.join(self.o.keep, "report" + e) for e in (".html", ".csv", ".meta.csv"))
        with open(meta, "w", encoding="ascii") as f:
            f.write("slide,tissue\n" + "".join("%s,%s\n" % (n, n.split("=")[0]) for n in names))
        subprocess.run([os.path.join(self.o.build, "h5spec"), "report", "-q", "-o", page, "--csv", table] +
                       (["--meta", meta, "--group", "tissue"] if group else []) +
                       [os.path.join(self.o.keep, "results", n + ".h5") for n in names], check=True)
        with open(table, encoding="utf-8", newline="") as f:
            rows = {r["slide"]: r for r in csv.DictReader(f)}
        with open(page, encoding="utf-8") as f:
            text = f.read()
        kinds = [p.split("</p>")[0].split(">", 1)[1] for p in text.split('<p class="clusters"')[1:]]
        self.unusual = int(re.search(r'id="chance">(\d+) numbers? of', text)[1])
        return rows, kinds


def strongest(row):
    """The largest |z|, with its number: what a miss is near to."""
    z = {k[2:]: abs(float(v)) for k, v in row.items() if k.startswith("z_") and v}
    best = max(z, key=z.get) if z else ""
    blurred = row.get("blurred_share") or "0"
    return "%s z %.1f, blurred %.3f, twice %s" % (best, z.get(best, 0), float(blurred), row.get("jpeg_twice") or "-")


def judge(work, title, good, bad, group=False):
    rows, kinds = work.report(good + bad, group)
    found = [n for n in bad if rows[n]["verdict"] != "pass"]
    false = [n for n in good if rows[n]["verdict"] != "pass"]
    print("\n## %s: %d of %d found, %d false of %d" % (title, len(found), len(bad), len(false), len(good)))
    for n in bad + false:
        what = "found" if n in found else "FALSE" if n in false else "MISSED"
        print("| %s | %s | %s |" % (n.replace("=", ": "), what, rows[n]["reasons"].split(" (")[0][:110] if what != "MISSED" else strongest(rows[n])))
    for text in kinds:
        print("two kinds: " + text[:200])
    return len(found), len(false), kinds


def named(row, right):
    """"right: reason", "found: reason" or "MISSED: what is near" of a slide whose reason names a defect by these words."""
    if row["verdict"] == "pass":
        return "MISSED: " + strongest(row)
    first = row["reasons"].split("; ")[0]
    return ("right: " if re.search(right, first) else "found: ") + first[:130]


def judge_kinds(work, t, kinds):
    """What named() says of each kind; and the good slides that are not passed."""
    good = [work.make(t, "good", k) for k in range(GOOD)]
    bad = {kind: work.make(t, kind, 0) for kind in kinds}
    work.compute(good + list(bad.values()))
    rows = work.report(good, False)[0]
    false = ["%s: %s" % (n, rows[n]["reasons"]) for n in good if rows[n]["verdict"] != "pass"]
    return {kind: named(work.report(good + [name], False)[0][name], KINDS[kind][1]) for kind, name in bad.items()}, false


def print_kinds(work, kinds=KINDS):
    names = [os.path.basename(path) for path in work.o.tissue]
    columns, false = zip(*(judge_kinds(work, t, kinds) for t in range(len(names))))
    print("\n## kinds of defects; %s judged" % (", ".join(names[-len(work.o.judge):]) if work.o.judge else "none"))
    print("| kind | %s |\n| --- %s|" % (" | ".join(names), "| --- " * len(names)))
    for kind in kinds:
        print("| %s | %s |" % (kind, " | ".join(c[kind].split(":")[0] for c in columns)))
    count = lambda what: ["%d of %d" % (sum(v.startswith(what) for v in c.values()), len(kinds)) for c in columns]
    missed = ["%d of %d" % (sum(not v.startswith("MISSED") for v in c.values()), len(kinds)) for c in columns]
    print("| **found** | %s |\n| **right words** | %s |\n| **false** | %s |\n" % (
        " | ".join(missed), " | ".join(count("right")), " | ".join("%d of %d" % (len(f), GOOD) for f in false)))
    for name, column, wrong in zip(names, columns, false):
        for kind, words in column.items():
            if not words.startswith("right"):
                print("%s, %s: %s" % (name, kind, words))
        for words in wrong:
            print("%s, FALSE: %s" % (name, words))
    return columns, false


def run_cohorts(w, many):
    good = [w.make(0, "good", k) for k in range(GOOD)]
    bad = [w.make(0, d, 0) for d in BAD]
    second = [w.make(0, "scanner 2", k) for k in range(10)]
    weak = [w.make(0, "scanner 2, weak", k) for k in range(10)]
    slight = [w.make(0, "blur 0.75", k) for k in range(6)]
    mixed = [w.make(k % many, "good", k // many) for k in range(GOOD)]
    mixed_bad = [w.make(k % many, d, 1) for k, d in enumerate(BAD)]
    w.compute(sorted(set(good + bad + second + weak + slight + mixed + mixed_bad)))
    judge(w, "H, one tissue (at least 9 of 10, at most 1 false)", good, bad)
    judge(w, "M, %d tissues" % many, mixed, mixed_bad)
    judge(w, "M, grouped by tissue (10 of 10)", mixed, mixed_bad, True)
    judge(w, "S, 10 of 60 from scanner 2 (said)", good, second)
    judge(w, "S, scanner 2 weak (said)", good, weak)
    judge(w, "B, slides blurred at sigma 0.75 (4 of 6)", good, slight)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tissue", nargs="*")
    p.add_argument("--real", default=None)
    p.add_argument("--glass", action="store_true")
    p.add_argument("--draws", type=int, default=2)
    p.add_argument("--groups", type=int, default=10)
    p.add_argument("--kinds", default=None)
    p.add_argument("--judge", nargs="*", default=[])
    p.add_argument("--pen", nargs="*", default=[])
    p.add_argument("--only", choices=("cohorts", "kinds"))
    p.add_argument("--keep", default=None)
    p.add_argument("--build", default="build")
    p.add_argument("--seed", type=int, default=1)
    o = p.parse_args()
    o.keep = o.keep or tempfile.mkdtemp(prefix="cohorts-")
    if o.real:
        import real_cohorts
        real_cohorts.run(o)
        return
    chosen = len(o.tissue)
    o.tissue += o.judge
    w = Work(o, [load(t) for t in o.tissue], [load(t) for t in o.pen])
    if o.only in (None, "cohorts"):
        run_cohorts(w, min(3, chosen))
    if o.only in (None, "kinds"):
        print_kinds(w)


if __name__ == "__main__":
    main()
