"""Groups of real pictures for bench_cohorts.py --real: each slide is another picture, and defects are in other pictures than
the good ones.

A picture is cut to the square of the folder's smallest side, at most MOST px; a larger one is reduced by a whole factor first.
With glass it lies in a random outline on made glass (gray 243, noise of 1 level), mirrored where it ends. Every third picture
is kept for defects.
"""
import os
import re

import numpy as np
from PIL import Image

import bench_cohorts as made

MOST, LEAST_SCALED = 1024, 2000


# --- defects that the made cohorts do not have ---

def lane(rgb, tissue, rng):
    n = made.SIZE
    at = rng.integers(n // 4, n // 2)
    where = (np.arange(n) >= at) & (np.arange(n) < at + n // 6)
    return np.where(where[None, :, None], made.blur(rgb, 3), rgb)


def step(rgb, factors):
    where = np.arange(made.SIZE)[None, :, None] >= made.SIZE // 2
    return np.where(where, rgb * np.array(factors), rgb)


def interlaced(rgb):
    odd = np.arange(made.SIZE) % 2 == 1
    return np.where(odd[:, None, None], np.roll(rgb, 2, 1), rgb)


def chatter(rgb):
    y = np.arange(made.SIZE)
    return np.stack([np.roll(rgb[k], int(round(2 * np.sin(2 * np.pi * k / 40))), 0) for k in y])


def fold(rgb, tissue, rng):
    cy, cx = made.tissue_point(tissue, rng)
    y, x = np.mgrid[:made.SIZE, :made.SIZE]
    where = np.abs((y - cy) - 0.4 * (x - cx)) < 30
    return np.where(where[..., None], rgb * np.roll(rgb, 60, 0) / 255, rgb)


def ink(rgb, tissue, rng, colour, side):
    cy, cx = made.tissue_point(tissue, rng)
    return np.where(made.disc(cy, cx, side // 2)[..., None], rgb * np.array(colour) / 255, rgb)


def smudge(rgb, tissue, rng, side=100):
    """Gray-brown dirt out of focus, through which a fifth of the light of the tissue passes."""
    cy, cx = made.tissue_point(tissue, rng)
    opaque = 0.8 * made.blur(1.0 * made.disc(cy, cx, side // 2)[..., None], 6)
    return rgb * (1 - opaque) + opaque * np.array((125, 112, 98))


MORE = {
    "blur 0.75": (lambda g, t, r: made.blur(g, 0.75), "sharp|finest|blur|focus"), "blur 1": (lambda g, t, r: made.blur(g, 1), "sharp|finest|blur|focus"),
    "blur 1.5": (lambda g, t, r: made.blur(g, 1.5), "sharp|blur|focus"), "blur 3": (lambda g, t, r: made.blur(g, 3), "sharp|blur|focus"),
    "half at 3": (lambda g, t, r: made.half(g, r, 3), "sharp|blur|focus"), "lane": (lane, "sharp|blur|focus"),
    "exposure step": (lambda g, t, r: step(g, (0.9, 0.9, 0.9)), "exposure"),
    "white balance step": (lambda g, t, r: step(g, (1, 0.93, 1.05)), "white balance"),
    "interlace": (lambda g, t, r: interlaced(g), "line|finest|motion"), "chatter": (lambda g, t, r: chatter(g), "line|edge|stage"),
    "gray tiles": (lambda g, t, r: made.lost_tiles(g, t, r, 128.0), "tile|gray"), "fold": (fold, "fold|dark|dense"),
    "smudge": (smudge, "dirt"), "green ink": (lambda g, t, r: ink(g, t, r, (60, 170, 110), 90), "ink"),
    "gray slide": (lambda g, t, r: np.repeat(g.mean(2, keepdims=True), 3, 2), "colour|gray"),
}
KINDS = {**MORE, **made.KINDS}


# --- slides ---

class Set:
    def __init__(self, o):
        self.o = o
        names = sorted(n for n in os.listdir(o.real) if n.lower().endswith((".png", ".jpg", ".jpeg", ".tif", ".tiff")))
        self.paths = [os.path.join(o.real, n) for n in names]
        smallest = min(min(self.size_of(p)) for p in self.paths)
        made.SIZE = min(MOST, smallest) if not o.glass else 1152
        self.work = made.Work(o, [], [])
        self.work.ending, self.work.conversion = ".svs" if o.glass else ".png", ()

    @staticmethod
    def size_of(path):
        with Image.open(path) as picture:
            n = min(picture.size)
            return [side // (3 if n >= LEAST_SCALED else 1) for side in picture.size]

    def pixels(self, path):
        rgb = made.load(path)
        if min(rgb.shape[:2]) >= LEAST_SCALED:
            rgb = np.asarray(Image.fromarray(rgb.astype(np.uint8)).reduce(3), float)
        return rgb

    def slide(self, k, kind):
        """Picture k, with a defect, as (pixels, quality)."""
        rng = np.random.default_rng([self.o.seed, k, sum(kind.encode())])
        rgb = self.pixels(self.paths[k])
        if self.o.glass:
            tissue = made.outline(np.random.default_rng([self.o.seed, k]), 0.55)
            rgb = np.where(tissue[..., None], made.mosaic(rgb, np.random.default_rng([self.o.seed, k, 1])), made.GLASS)
            rgb = rgb + rng.normal(0, 1, rgb.shape) * ~tissue[..., None]
        else:
            y, x = ((n - made.SIZE) // 2 for n in rgb.shape[:2])
            rgb, tissue = rgb[y:y + made.SIZE, x:x + made.SIZE], np.ones((made.SIZE, made.SIZE), bool)
        if kind in KINDS:
            rgb = KINDS[kind][0](rgb, tissue, rng)
        elif kind.startswith("saved at"):
            rgb = made.again(np.clip(rgb + 0.5, 0, 255).astype(np.uint8), int(kind[9:])).astype(float)
        return np.clip(rgb + 0.5, 0, 255).astype(np.uint8)

    def make(self, k, kind):
        name = "%s=%s-%03d" % ("glass" if self.o.glass else "plain", re.sub("[ ,.]", "_", kind), k)
        path = os.path.join(self.o.keep, "slides", name + self.work.ending)
        if not os.path.exists(path):
            rgb = self.slide(k, kind)
            if self.o.glass:
                made.write_svs(path, rgb, 15 if kind == "JPEG 15" else made.QUALITY)
            else:
                Image.fromarray(rgb).save(path)
        return name


def run(o):
    s = Set(o)
    kept = list(range(2, len(s.paths), 3))
    others = [k for k in range(len(s.paths)) if k not in kept]
    good = [s.make(k, "good") for k in others]
    skipped = ("mostly glass",) if o.glass else ("glass only", "mostly glass")
    kinds = [k for k in KINDS if k not in skipped and (o.kinds is None or re.search(o.kinds, k))]
    bad = {(kind, d): s.make(kept[(2 * i + d) % len(kept)], kind) for i, kind in enumerate(kinds) for d in range(o.draws)}
    s.work.compute(sorted(set(good) | set(bad.values())))
    rows, two = s.work.report(good, False)
    false = ["%s: %s" % (n, rows[n]["reasons"][:150]) for n in good if rows[n]["verdict"] != "pass"]
    print("\n## %s%s: %d good slides, %d kept for defects; %d of %d good slides not passed" % (
        os.path.basename(o.real.rstrip("/")), " on glass" if o.glass else "", len(good), len(kept), len(false), len(good)))
    for line in false + two:
        print("FALSE, " + line)
    said = {key: made.named(s.work.report(good + [name], False)[0][name], KINDS[key[0]][1]) for key, name in bad.items()}
    for (kind, d), words in said.items():
        print("| %s | %d | %s |" % (kind, d, words))
    found = sum(not w.startswith("MISSED") for w in said.values())
    print("found %d of %d, right words %d" % (found, len(said), sum(w.startswith("right") for w in said.values())))
    print_sizes(s, good, [bad[key] for key in bad if key[0] in ("blur 1", "defocus 2")])


def print_sizes(s, good, blurred):
    """Flags per group of good slides, and what slight blur is worth beside them."""
    rng = np.random.default_rng(s.o.seed)
    for size in (n for n in (12, 20, 40) if n <= len(good)):
        flags, found, reviewed = [], [], 0
        for _ in range(s.o.groups):
            group = [good[k] for k in rng.permutation(len(good))[:size]]
            rows = s.work.report(group, False)[0]
            flags.append(s.work.unusual)
            reviewed += sum(r["verdict"] == "review" for r in rows.values())
            found += [s.work.report(group + [b], False)[0][b]["verdict"] == "review" for b in blurred]
        print("groups of %d: %.2f flags per group, %d of %d for review; blur 1 and defocus 2 found %d of %d" % (
            size, np.mean(flags), reviewed, size * s.o.groups, sum(found), len(found)))
