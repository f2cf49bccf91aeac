"""The spectrum in float64, straight from its definition; shares nothing with the backends."""
import numpy as np


def gray(pixels):
    """[h][w][3] RGB, or [h][w][1] gray used as it is."""
    p = pixels.astype(np.float64)
    return p[..., 0] if p.shape[2] == 1 else p @ np.array([0.299, 0.587, 0.114])


def smooth(image, sigma=1.0):
    if sigma == 0:
        return image
    radius = int(np.ceil(3 * sigma))
    taps = np.exp(-np.arange(-radius, radius + 1) ** 2 / (2 * sigma ** 2))
    taps /= taps.sum()
    for axis in (0, 1):
        pad = [(0, 0), (0, 0)]
        pad[axis] = (radius, radius)
        wide = np.pad(image, pad, mode="edge")
        n = image.shape[axis]
        image = sum(t * np.take(wide, range(k, k + n), axis=axis) for k, t in enumerate(taps))
    return image


def decibels(image, window=256, stride=128, taper=None):
    """Yields (row, column, dB of every bin of the full spectrum) for every window."""
    h, w = image.shape
    taper = np.ones(window) if taper is None else taper
    for j, y in enumerate(range(0, h - window + 1, stride)):
        for i, x in enumerate(range(0, w - window + 1, stride)):
            cut = image[y:y + window, x:x + window] * taper[:, None] * taper[None, :]
            yield j, i, 20 * np.log10(np.abs(np.fft.fft2(cut)) + 1)


class Spectrum:
    def __init__(self, pixels, window=256, stride=128, sigma=1.0, bins=1600, low=0.0, high=160.0,
                 hann=False):
        taper = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window) if hann else None
        h, w = pixels.shape[:2]
        self.ny = max(0, (h - window) // stride + 1) if h >= window else 0
        self.nx = max(0, (w - window) // stride + 1) if w >= window else 0
        self.histogram = np.zeros(bins, np.int64)
        self.underflow = self.overflow = 0
        self.mean_map = np.full((self.ny, self.nx), np.nan)
        self.std_map = np.full((self.ny, self.nx), np.nan)
        n = total = squares = 0.0
        for j, i, db in decibels(smooth(gray(pixels), sigma), window, stride, taper):
            k = np.floor((db - low) * (bins / (high - low))).astype(np.int64)
            inside = (k >= 0) & (k < bins)
            self.underflow += int((k < 0).sum())
            self.overflow += int((k >= bins).sum())
            self.histogram += np.bincount(k[inside], minlength=bins)
            if inside.any():
                self.mean_map[j, i] = db[inside].mean()
                self.std_map[j, i] = db[inside].std()
            n += inside.sum()
            total += db[inside].sum()
            squares += (db[inside] ** 2).sum()
        self.mean = total / n if n else np.nan
        self.std = np.sqrt(squares / n - self.mean ** 2) if n else np.nan


def are_stepped(percent, inside=None):
    """Which windows are looked at for steps, from how much of each is tissue, [ny][nx] (common/result/features.h)."""
    may = percent >= 25 if inside is None else (percent >= 25) & inside
    looked = np.zeros(may.shape, bool)
    for of, out in ((may, looked), (may.T, looked.T)):
        for line, row in enumerate(of):
            at = np.flatnonzero(row)
            out[line, at[(np.arange(at.size) + line) % max(1, at.size // 24) == 0]] = True
    return looked


def steps(pixels, percent, inside=None, window=256, stride=128):
    """[2][ny][nx]: the greatest step of each window from row to row, and from column to column (common/result/features.h)."""
    g = pixels[..., 0].astype(np.int64) if pixels.shape[2] == 1 else pixels.astype(np.int64) @ (299, 587, 114)
    ny, nx = ((size - window) // stride + 1 if size >= window else 0 for size in g.shape)
    n, looked = min(stride, window - 1, 254), are_stepped(percent, inside)
    out = np.full((2, ny, nx), 255)
    for j, i in np.ndindex(ny, nx):
        y, x = j * stride + window, i * stride + window
        block = g[y - n - 1:y, x - n - 1:x]
        if looked[j, i]:
            sums = np.abs(np.diff(block, axis=0))[:, 1:].sum(1), np.abs(np.diff(block, axis=1))[1:].sum(0)
            out[:, j, i] = [s.argmax() if s.any() else 255 for s in sums]
    return out
