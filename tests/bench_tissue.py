"""How well the rule for tissue finds tissue: Dice against the truth "gray < 225 at 1/32" on real pictures.

bench_tissue.py PICTURE...
bench_tissue.py --white PICTURE...         with white areas beside the picture, as where a scanner did not scan
bench_tissue.py --outlines PICTURE...      against outlines drawn by hand (tissue_outlines.py)

Of each picture the first 640 x 640 px are taken as they are, as JPEG of quality 30, 60 and 95, and with gamma 0.7, 0.85,
1.2 and 1.4, each with 0, 30, 60, 90 and 98 % of added glass (gray 243). The rules are those of tissue_rules.py, which
check_tissue.py compares with wsi2h5. Needs Pillow. tests/FIGURES.md has the table.
"""
import io
import sys

import numpy as np
from PIL import Image

from tissue_outlines import outlined
from tissue_rules import by_saturation, cell_means, closed

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


def white_cases(picture):
    """The same for 0, 10, 30 and 60 % of white beside it; the picture as it is, darker, and so bright that its glass is white."""
    truth = (cell_means(picture) @ GRAY < 225).reshape(-1)
    noise = np.random.default_rng(1)
    for name, gain, glass in (("glass 243", 1, 243), ("glass 232", 232 / 243, 232), ("overexposed", 255 / 235, 255)):
        cells = cell_means(np.clip(picture * gain, 0, 255).astype(np.uint8)).reshape(-1, 3)
        for share in (0, 0.3, 0.9, 0.99):
            n = round(len(cells) * share / (1 - share))
            added = np.minimum(glass + noise.normal(0, 0.5 * (glass < 255), (n, 3)), 255)
            for white in (0, 0.1, 0.3, 0.6):
                m = round((len(cells) + n) * white / (1 - white))
                yield ("%s, %d %% glass, %d %% white" % (name, 100 * share, 100 * white),
                       np.concatenate([cells, added, np.full((m, 3), 255.0)])[:, None],
                       np.concatenate([truth, np.zeros(n + m, bool)])[:, None])


def dice(a, b):
    both = a.sum() + b.sum()
    return 2 * (a & b).sum() / both if both else 1.0


def row(path, cases_of, other):
    picture = np.array(Image.open(path).convert("RGB"))[:640, :640]
    new, old = [], []
    for name, cells, truth in cases_of(picture):
        new.append((dice(by_saturation(cells)[0], truth), name))
        old.append((dice(other(cells), truth), name))
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
    found = [closed(by_saturation(means)[0]).reshape(truth.shape), means @ GRAY < 225]
    print("| %s | %.2f | %s | missed %.3f, too much %.3f |" % (
        name, truth.mean(), " | ".join("%.3f" % dice(f, truth) for f in found),
        (truth & ~found[0]).sum() / truth.sum(), (found[0] & ~truth).sum() / truth.sum()), flush=True)


def compare(pictures, cases_of, other, name):
    print("| picture | mean | worst | below 0.85 | %s, mean |\n| --- | --- | --- | --- | --- |" % name)
    rows = [row(path, cases_of, other) for path in pictures]
    for number, rule in enumerate(("saturation", name)):
        all_ = [d for r in rows for d, _ in r[number]]
        print("%s: mean %.3f, worst %.3f, %d of %d below 0.85" % (rule, np.mean(all_), min(all_), sum(d < 0.85 for d in all_), len(all_)))


def main(words):
    if words[:1] == ["--outlines"]:
        print("| picture | part outlined | saturation | gray < 225 | saturation: parts of the outlined |\n" + "| --- " * 5 + "|")
        return [outline_row(path) for path in words[1:]]
    if words[:1] == ["--white"]:
        return compare(words[1:], white_cases, lambda cells: by_saturation(cells, white=True)[0], "white as glass")
    return compare(words, cases, lambda cells: cells @ GRAY < 225, "gray < 225")


if __name__ == "__main__":
    main(sys.argv[1:])
