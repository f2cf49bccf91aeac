"""How well the rule for tissue finds tissue: Dice against the truth "gray < 225 at 1/32" on real pictures.

bench_tissue.py PICTURE...
bench_tissue.py --outlines PICTURE...      against outlines drawn by hand (tissue_outlines.py)

Of each picture the first 640 x 640 px are taken as they are, as JPEG of quality 30, 60 and 95, and with gamma 0.7, 0.85,
1.2 and 1.4, each with 0, 30, 60, 90 and 98 % of added glass (gray 243). The rules are those of tissue_rules.py, which
check_tissue.py compares with wsi2h5. Needs Pillow. convert/FIGURES.md has the table.
"""
import io
import sys

import numpy as np
from PIL import Image

from tissue_outlines import outlined
from tissue_rules import by_otsu, by_saturation, cell_means

GRAY = (0.299, 0.587, 0.114)


def jpeg(picture, quality):
    packed = io.BytesIO()
    Image.fromarray(picture).save(packed, "JPEG", quality=quality)
    return np.array(Image.open(packed))


def variants(picture):
    yield "plain", picture, 1
    for q in (30, 60, 95):
        yield "quality %d" % q, jpeg(picture, q), 1
    for g in (0.7, 0.85, 1.2, 1.4):
        yield "gamma %g" % g, (255 * (picture / 255) ** g + 0.5).astype(np.uint8), g


def cases(picture):
    """Name, means of cells and truth of every variant."""
    truth = (cell_means(picture) @ GRAY < 225).reshape(-1)
    noise = np.random.default_rng(1)
    for name, changed, gamma in variants(picture):
        cells = cell_means(changed).reshape(-1, 3)
        for share in (0, 0.3, 0.6, 0.9, 0.98):
            n = round(len(cells) * share / (1 - share))
            glass = 255 * (243 / 255) ** gamma + noise.normal(0, 0.5, (n, 3))
            yield ("%s, %d %% glass" % (name, 100 * share), np.concatenate([cells, glass])[:, None],
                   np.concatenate([truth, np.zeros(n, bool)])[:, None])


def dice(a, b):
    both = a.sum() + b.sum()
    return 2 * (a & b).sum() / both if both else 1.0


def row(path):
    picture = np.array(Image.open(path).convert("RGB"))[:640, :640]
    found = {"saturation": [], "otsu-hs": []}
    for name, cells, truth in cases(picture):
        found["saturation"].append((dice(by_saturation(cells)[0], truth), name))
        found["otsu-hs"].append((dice(by_otsu(cells), truth), name))
    new, old = found["saturation"], found["otsu-hs"]
    print("| %s | %.3f | %.3f, %s | %d of %d | %.3f |" % (
        path.split("/")[-1], np.mean([d for d, _ in new]), *min(new), sum(d < 0.85 for d, _ in new), len(new),
        np.mean([d for d, _ in old])), flush=True)
    return new, old


def outline_row(path):
    """The whole picture as it is: the rules and the threshold "gray < 225" against the outline."""
    name = path.split("/")[-1]
    means = cell_means(np.array(Image.open(path).convert("RGB")))
    truth = outlined(name, means.shape[1], means.shape[0])
    if truth is None:
        raise SystemExit("%s: no outline in tissue_outlines.py" % name)
    found = [by_saturation(means)[0].reshape(truth.shape), by_otsu(means).reshape(truth.shape), means @ GRAY < 225]
    print("| %s | %.2f | %s | missed %.3f, too much %.3f |" % (
        name, truth.mean(), " | ".join("%.3f" % dice(f, truth) for f in found),
        (truth & ~found[0]).sum() / truth.sum(), (found[0] & ~truth).sum() / truth.sum()), flush=True)


def main(pictures):
    if pictures[:1] == ["--outlines"]:
        print("| picture | part outlined | saturation | otsu-hs | gray < 225 | saturation: parts of the outlined |\n" + "| --- " * 6 + "|")
        return [outline_row(path) for path in pictures[1:]]
    print("| picture | mean | worst | below 0.85 | otsu-hs, mean |\n| --- | --- | --- | --- | --- |")
    rows = [row(path) for path in pictures]
    for number, name in enumerate(("saturation", "otsu-hs")):
        all_ = [d for r in rows for d, _ in r[number]]
        print("%s: mean %.3f, worst %.3f, %d of %d below 0.85" % (name, np.mean(all_), min(all_), sum(d < 0.85 for d in all_), len(all_)))


if __name__ == "__main__":
    main(sys.argv[1:])
