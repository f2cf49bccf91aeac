"""The rules for tissue in numpy, as convert/tissue/tissue.h defines them."""
import numpy as np


def cell_means(pixels):
    h, w = pixels.shape[:2]
    mean = np.zeros((-(-h // 32), -(-w // 32), 3))
    for r, c in np.ndindex(mean.shape[:2]):
        mean[r, c] = pixels[r * 32:r * 32 + 32, c * 32:c * 32 + 32].reshape(-1, 3).mean(0)
    return mean


def by_saturation(mean, white=False):
    """The definition of tissue.h, from the means of cells: the mask before gaps are closed, glass, the gray level that tissue is below. `white`: as it was
    before, with white among what could be glass."""
    gray = np.rint(mean @ [0.299, 0.587, 0.114])
    high = mean.max(2)
    saturation = np.floor(256 * (high - mean.min(2)) / np.maximum(high, 1e-9))
    glass, d = 243, 0.07
    scanned = (gray < 255) | (saturation > 0)
    for part in (np.ones_like(scanned),) if white else (scanned, np.ones_like(scanned)):
        could_be_glass = np.sort(gray[part & (saturation < 16) & (gray >= 200)])
        if not white and could_be_glass.size * 100 <= part.sum() and part is scanned:
            dark = dark_glass(gray, saturation, scanned)
            could_be_glass = dark if dark.size else could_be_glass
        if could_be_glass.size and could_be_glass.size * 500 >= part.sum():
            break
    if could_be_glass.size and could_be_glass.size * 500 >= part.sum():
        glass = could_be_glass[-(-could_be_glass.size * 9 // 10) - 1]
        split, share = best_split(gray[part])
        if share >= 0.8:
            d = min(max(np.log(glass / split), 0.02), 0.07)
    dark = glass * np.exp(-d)
    return (gray < dark) | (saturation >= 26), glass, dark


def dark_glass(gray, saturation, scanned):
    """The gray levels, sorted, of the cells that could be glass of a dark slide."""
    def around(a, edge):
        a = np.pad(a, 1, constant_values=edge)
        return [a[1 + y:1 + y + gray.shape[0], 1 + x:1 + x + gray.shape[1]] for y in (-1, 0, 1) for x in (-1, 0, 1)]
    even = (np.max([np.where(np.isnan(near), 0, abs(near - gray)) for near in around(gray, np.nan)], 0) <= 1) & (np.max(around(saturation, 0), 0) < 16)
    levels = np.sort(gray[even & (gray >= 100) & (gray < 200)])
    shown = levels.size and levels.size * 50 >= scanned.sum() and (gray[scanned] >= levels[-1] + 4).sum() * 100 <= scanned.sum()
    return levels if shown else levels[:0]


def closed(mask):
    """Gaps of one or two cells become tissue: the closing by 3 x 3 cells. Beyond the edge there is neither tissue nor glass."""
    def spread(m):
        m = m | np.pad(m, ((1, 0), (0, 0)))[:-1] | np.pad(m, ((0, 1), (0, 0)))[1:]
        return m | np.pad(m, ((0, 0), (1, 0)))[:, :-1] | np.pad(m, ((0, 0), (0, 1)))[:, 1:]
    return ~spread(~spread(mask))


def best_split(gray):
    """Otsu's threshold, and the share of the variance between its classes; the middle of equally good ones."""
    best, found = -1, []
    for k in range(1, 256):
        a, b = gray[gray < k], gray[gray >= k]
        if a.size and b.size:
            between = a.size * b.size * (a.mean() - b.mean()) ** 2 / gray.size ** 2
            if between > best * (1 + 1e-12):
                found = []
            if between >= best * (1 - 1e-12):
                found.append(k)
            best = max(best, between)
    return ((found[0] - 1 + found[-1] - 1) // 2 + 1, best / gray.var()) if found else (256, 0)


def by_thresholds(mean, least_hue, least_saturation):
    """H and S of HSV, from 0 to 1, of the means of cells reach the thresholds."""
    high, low = mean.max(2), mean.min(2)
    span = np.where(high > low, high - low, 1)
    r, g, b = mean[..., 0], mean[..., 1], mean[..., 2]
    hue = np.where(high == r, (g - b) / span, np.where(high == g, (b - r) / span + 2, (r - g) / span + 4)) / 6 % 1
    hue = np.where(high > low, hue, 0)
    saturation = np.where(high > 0, (high - low) / np.where(high > 0, high, 1), 0)
    return (hue >= least_hue) & (saturation >= least_saturation)
