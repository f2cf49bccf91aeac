"""How well measures of sharpness see blur, and how little stain, gamma and JPEG move them.

bench_sharpness.py CHOOSE... -- JUDGE...     pictures, or stores of codec deflate; BUILD names the programs

Of each picture the 1,024 x 1,024 px with the most tissue are taken, blurred (Gaussian), or stained, brightened or compressed in
other ways, given noise of one gray level and saved as JPEG of quality 80 with 4:2:0. h5spec computes the maps of focus_db,
fine_db and sharp_db at a stride of 64 px; the candidates are computed in float64, from the definition of the octaves.

AUC: the chance that a blurred window has less than a sharp one, for each sigma the mean over the pictures; "pooled": of all
pictures together. Shift: of the median, in units of a blur of sigma 2, the largest of all pictures; positive: "blurrier".
Windows count if half of their pixels are darker than gray 225. Needs Pillow. tests/FIGURES.md has the table.
"""
import io
import sys

import h5py
import numpy as np
from PIL import Image

import reference
from lib import H5SPEC, os, painted, run, tmp

WINDOW, STRIDE, CROP = 256, 64, 1024
BLURS = (0.5, 0.75, 1, 1.5, 2, 4, 8)
STAINS, GAMMAS, QUALITIES = (0.25, 0.5, 1.5), (0.7, 1.4), (30, 50, 70, 95)
MAPS = ("focus_db", "fine_db", "sharp_db")
# weights of the levels of the octaves j = 7 .. 1
CANDIDATES = {
    "focus, float64": (0, -1, 0, 0, 1, 0, 0),
    "sharp, float64": (0, -1 / 4, 0, -3 / 4, 1, 0, 0),
    "L3 - L4": (0, 0, 0, -1, 1, 0, 0),
    "L3 - L5": (0, 0, -1, 0, 1, 0, 0),
    "L3 - 2/3 L4 - 1/3 L6": (0, -1 / 3, 0, -2 / 3, 1, 0, 0),
    "L3 - 1/2 L4 - 1/2 L6": (0, -1 / 2, 0, -1 / 2, 1, 0, 0),
    "focus + 1/2 fine": (0, -1, 0, 0, 1 / 2, 1 / 2, 0),
}


def pixels(path):
    if not path.endswith(".h5"):
        return np.array(Image.open(path).convert("RGB"))
    with h5py.File(path, "r") as f:
        return np.concatenate([g["pixels"][()] for g in f["groups"].values()])


def cut(picture):
    """The CROP x CROP px with the most pixels that are no glass."""
    dark = np.pad((picture @ reference_gray() < 225).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    h, w = (min(CROP, n) for n in picture.shape[:2])
    places = [(y, x) for y in range(0, picture.shape[0] - h + 1, 64) for x in range(0, picture.shape[1] - w + 1, 64)]
    y, x = max(places, key=lambda p: dark[p[0] + h, p[1] + w] - dark[p[0], p[1] + w] - dark[p[0] + h, p[1]] + dark[p])
    return picture[y:y + h, x:x + w]


def reference_gray():
    return np.array([0.299, 0.587, 0.114])


def blurred(picture, sigma):
    return np.stack([reference.smooth(picture[..., c], sigma) for c in range(3)], axis=-1)


def scanned(picture, quality=80):
    """With noise, as uint8, saved as JPEG."""
    noisy = picture + np.random.default_rng(1).normal(0, 1, picture.shape)
    packed = io.BytesIO()
    Image.fromarray(np.clip(np.rint(noisy), 0, 255).astype(np.uint8)).save(packed, "JPEG", quality=quality, subsampling=2)
    return np.array(Image.open(packed))


def variants(picture):
    p = picture.astype(np.float64)
    yield ("sharp",), scanned(p)
    for sigma in BLURS:
        yield ("blur", sigma), scanned(blurred(p, sigma))
    for k in STAINS:  # optical densities times k
        yield ("stain", k), scanned(255 * (np.maximum(p, 1) / 255) ** k)
    for g in GAMMAS:
        yield ("gamma", g), scanned(255 * (p / 255) ** g)
    for q in QUALITIES:
        yield ("JPEG", q), scanned(p, q)


def tissue_of(picture):
    dark = picture @ reference_gray() < 225
    return np.array([[dark[y:y + WINDOW, x:x + WINDOW].mean() >= 0.5 for x in range(0, dark.shape[1] - WINDOW + 1, STRIDE)]
                     for y in range(0, dark.shape[0] - WINDOW + 1, STRIDE)])


def maps_of(pictures):
    """By name the maps of each picture; all are computed as one slide, one below the other."""
    h = pictures[0].shape[0]
    pitch = -(-(h + 2 * 8) // STRIDE) * STRIDE  # the edge row goes on, as if the slide ended there
    ny = (h - WINDOW) // STRIDE + 1
    out = os.path.join(tmp(), "maps.h5")
    tall = np.concatenate([np.pad(p, ((0, pitch - h), (0, 0), (0, 0)), "edge") for p in pictures])
    run(H5SPEC, "run", "-q", "--device", "cpu", "--stride", STRIDE, "-o", out, painted(tall))
    with h5py.File(out, "r") as f:
        (s,) = f["slides"].values()
        stored = {m: s["window_" + m][()] * 0.01 for m in MAPS}
    return {m: [v[k * pitch // STRIDE:][:ny] for k in range(len(pictures))] for m, v in stored.items()}


def rings():
    one = np.fft.fftfreq(WINDOW)
    f = np.hypot(one[:, None], one[None, :])
    return [(f >= 2.0 ** -j) & (f < 2.0 ** (1 - j)) for j in range(7, 0, -1)]


def levels_of(picture, tissue):
    """[windows][octaves] of the tissue windows, in float64."""
    image = reference.smooth(reference.gray(picture))
    windows = (image[STRIDE * j:][:WINDOW, STRIDE * i:][:, :WINDOW] for j, i in np.argwhere(tissue))
    return np.array([[db[r].mean() for r in RINGS] for w in windows for db in [20 * np.log10(np.abs(np.fft.fft2(w)) + 1)]])


RINGS = rings()


def measured(path):
    """{measure: {variant: values of the tissue windows}}"""
    picture = cut(pixels(path))
    tissue, made = tissue_of(picture), dict(variants(picture))
    out = {m: {v: x[tissue] for v, x in zip(made, xs)} for m, xs in maps_of(list(made.values())).items()}
    levels = {v: levels_of(p, tissue) for v, p in made.items()}
    for name, weights in CANDIDATES.items():
        out[name] = {v: x @ np.array(weights) for v, x in levels.items()}
    print("%s: %d x %d px, %d windows of tissue" % (os.path.basename(path), *picture.shape[1::-1], tissue.sum()), file=sys.stderr)
    return out


def auc(low, high):
    return (high[:, None] > low).mean() + (high[:, None] == low).mean() / 2


def row(measure, found):
    of = [f[measure] for f in found]
    cells = ["%.3f" % np.mean([auc(v["blur", s], v["sharp",]) for v in of]) for s in BLURS]
    together = {k: np.concatenate([v[k] for v in of]) for k in (("blur", 1), ("sharp",))}
    cells.append("%.3f" % auc(together["blur", 1], together["sharp",]))
    for kind, steps in (("stain", STAINS), ("gamma", GAMMAS), ("JPEG", QUALITIES)):
        shifts = [(np.median(v["sharp",]) - np.median(v[kind, s])) / (np.median(v["sharp",]) - np.median(v["blur", 2]))
                  for v in of for s in steps]
        cells.append("%+.3f" % max(shifts, key=abs))
    return "| %s | %s |" % (measure, " | ".join(cells))


def table(title, found):
    print("\n%s\n\n| measure | %s | pooled, 1 | stain x %g..%g | gamma %g..%g | JPEG Q%d..%d |" % (
        title, " | ".join("%g" % s for s in BLURS), *STAINS[::len(STAINS) - 1], *GAMMAS, *QUALITIES[::len(QUALITIES) - 1]))
    print("|" + " --- |" * (len(BLURS) + 5))
    for measure in MAPS + tuple(CANDIDATES):
        print(row(measure, found), flush=True)


def main(words):
    at = words.index("--") if "--" in words else len(words)
    chosen, judged = ([measured(p) for p in part] for part in (words[:at], words[at + 1:]))
    for title, found in (("Chosen on", chosen), ("Judged on", judged), ("All", chosen + judged)):
        if found and (title != "All" or (chosen and judged)):
            table("%s %d pictures" % (title, len(found)), found)


if __name__ == "__main__":
    main(sys.argv[1:])
