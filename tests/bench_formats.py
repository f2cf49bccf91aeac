#!/usr/bin/env python3
"""The table container x tiles x codec of convert/FIGURES.md: processor seconds, bytes, equal pixels, kept or why not.

    tests/bench_formats.py [SIDE]     # px of the made slides (6144); on one thread, medians of 3 interleaved runs

Equal: all pixels of codec none beside OpenSlide's and, if the Python has it, tifffile's."""
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

import h5py
import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
SIDE = sys.argv[1] if len(sys.argv) > 1 else "6144"
JPEG, YCBCR = ("jpeg RGB", ()), ("jpeg 4:2:0", ("--photometric", "ycbcr"))
TILES = [JPEG, YCBCR, ("jpeg gray", ("--photometric", "gray")), ("33003 4:2:2", ("--compression", "33003")), ("33005", ("--compression", "33005"))] + \
    [(c, ("--compression", c)) for c in ("none", "lzw", "deflate", "zstd", "webp", "packbits")]
ROWS = [("aperio", t) for t in (JPEG, YCBCR, TILES[3], TILES[4])] + [("generic", t) for t in TILES if t is not TILES[3]] + \
    [(c, t) for c in ("ome-subifds", "philips") for t in (JPEG, YCBCR)]


def processor():
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r.ru_utime + r.ru_stime


def convert(slide, codec, out):
    before = processor()
    p = subprocess.run([os.path.join(BUILD, "wsi2h5"), "-q", "--json", "--force", "-j1", "--codec", codec, "-o", out, slide],
                       capture_output=True, text=True, check=True)
    return processor() - before, json.loads(p.stdout)


def equal_to_openslide(slide, pixels):
    p = subprocess.run([os.path.join(BUILD, "tests", "slide_pixels"), slide, "0"], capture_output=True)
    return "cannot" if p.returncode else "yes" if p.stdout == pixels.tobytes() else "no"


def equal_to_tifffile(slide, pixels):
    try:
        import tifffile
    except ImportError:
        return "-"
    try:
        got = tifffile.imread(slide, key=0)
    except Exception as e:  # what it does not read
        return "cannot (%s)" % type(e).__name__
    return "yes" if np.array_equal(got if got.ndim == 3 else np.repeat(got[..., None], 3, 2), pixels) else "no"


def row(folder, container, name, options):
    slide, out = os.path.join(folder, "slide.tif"), os.path.join(folder, "out.h5")
    subprocess.run([os.path.join(BUILD, "tests", "mkslide"), "--container", container, "--size", "%sx%s" % (SIDE, SIDE), "--tile", "256",
                    "--levels", "3", "--no-thumbnail", *options, slide], check=True)
    seconds = {"keep": [], "none": []}
    for _ in range(3):
        for codec, times in seconds.items():
            spent, j = convert(slide, codec, out)
            times.append(spent)
            if codec == "keep":
                kept = j
    with h5py.File(out, "r") as f:
        pixels = f["pixels"][()]
    print("| %s | %s | %.2f s | %.1f | %.2f s | %s | %s | %s |" % (
        container, name, statistics.median(seconds["keep"]), kept["store_bytes"] / 1e6, statistics.median(seconds["none"]),
        equal_to_openslide(slide, pixels), equal_to_tifffile(slide, pixels), kept.get("codec_reason") or "kept: " + kept["codec"]), flush=True)


def main():
    print("| container | tiles | keep | MB | none | OpenSlide | tifffile | kept, or why not |\n| " + "--- | " * 8)
    with tempfile.TemporaryDirectory() as folder:
        for container, (name, options) in ROWS:
            row(folder, container, name, options)


main()
