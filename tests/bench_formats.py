#!/usr/bin/env python3
"""The table container x tiles x codec of tests/FIGURES.md: processor seconds, bytes, equal pixels, kept or why not.

    tests/bench_formats.py [SIDE]     # px of the made slides (6144); on one thread, medians of 3 interleaved runs

Equal: all pixels of codec none beside those of the OpenSlide of this build, and, if the Python has them, of its own
OpenSlide (openslide-python, openslide-bin) and of tifffile."""
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

import h5py
import numpy as np

import dicomfile
import ndpifile
from lib import BUILD, MKSLIDE, WSI2H5

SIDE = int(sys.argv[1]) if len(sys.argv) > 1 else 6144
JPEG, YCBCR, GRAY, PLANES = (("jpeg RGB", ()), ("jpeg 4:2:0", ("--photometric", "ycbcr")), ("jpeg gray", ("--photometric", "gray")),
                             ("jpeg in planes", ("--photometric", "planes")))
YCC_2000, RGB_2000 = ("33003 4:2:2", ("--compression", "33003")), ("33005", ("--compression", "33005"))
OTHERS = [(c, ("--compression", c)) for c in ("none", "lzw", "deflate", "zstd", "webp", "packbits")]
ROWS = [("aperio", t) for t in (JPEG, YCBCR, YCC_2000, RGB_2000)] + \
    [("generic", t) for t in (JPEG, YCBCR, GRAY, PLANES, RGB_2000, *OTHERS)] + \
    [("generic", (name + " in planes", ("--compression", name, "--photometric", "planes"))) for name in ("deflate", "33005")] + \
    [(c, t) for c in ("ome-subifds", "philips", "dicom") for t in (JPEG, YCBCR)] + \
    [("dicom", t) for t in (YCC_2000, RGB_2000)] + [("ndpi", ("jpeg 4:4:4", ())), ("ndpi", ("jpeg 4:2:2", ("422",)))]


def processor():
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r.ru_utime + r.ru_stime


def make(folder, container, options):
    """The path of a slide of three levels, or of NDPI of one."""
    slide = os.path.join(folder, "slide.tif")
    if container == "ndpi":
        subsampling = options[0] if options else "444"
        picture = ndpifile.picture(SIDE, SIDE, 64 if subsampling == "444" else 32, subsampling)  # intervals of 512 px
        ndpi = ndpifile.Slide()
        ndpi.add(picture, SIDE, SIDE, 20.0)
        return ndpi.save(os.path.join(folder, "slide.ndpi"))
    subprocess.run([MKSLIDE, "--container", "aperio" if container == "dicom" else container, "--size", "%dx%d" % (SIDE, SIDE),
                    "--tile", "256", "--levels", "3", "--no-thumbnail", *(("--complete-tiles",) if container == "dicom" else ()), *options, slide],
                   check=True)
    return dicomfile.slide(os.path.join(folder, "series"), slide) if container == "dicom" else slide


def convert(slide, codec, out):
    before = processor()
    p = subprocess.run([WSI2H5, "-q", "--json", "--force", "-j1", "--codec", codec, "-o", out, slide],
                       capture_output=True, text=True, check=True)
    return processor() - before, json.loads(p.stdout)


def compare(pixels, got):
    off = np.abs(got.astype(np.int16) - pixels).max()
    return "yes" if off == 0 else "within %d" % off


def equal_to_openslide(slide, pixels):
    p = subprocess.run([os.path.join(BUILD, "tests", "slide_pixels"), slide, "0"], capture_output=True)
    return "does not read it" if p.returncode else compare(pixels, np.frombuffer(p.stdout, np.uint8).reshape(pixels.shape))


def equal_to_its_openslide(slide, pixels):
    try:
        import openslide
    except ImportError:
        return "-"
    try:
        with openslide.OpenSlide(slide) as o:
            got = np.concatenate([np.asarray(o.read_region((0, y), 0, (SIDE, min(317, SIDE - y)))) for y in range(0, SIDE, 317)])
    except openslide.OpenSlideError:
        return "does not read it"
    return compare(pixels, got[:, :, :3])


def equal_to_tifffile(slide, pixels):
    try:
        import tifffile
    except ImportError:
        return "-"
    try:
        got = tifffile.imread(slide, key=0)
    except Exception:  # what it does not read
        return "does not read it"
    got = np.moveaxis(got, 0, 2) if got.shape[0] == 3 else got
    return compare(pixels, got if got.ndim == 3 else np.repeat(got[..., None], 3, 2))


def row(folder, container, name, options):
    slide, out = make(folder, container, options), os.path.join(folder, "out.h5")
    seconds = {"keep": [], "none": []}
    for _ in range(3):
        for codec, times in seconds.items():
            spent, j = convert(slide, codec, out)
            times.append(spent)
            if codec == "keep":
                kept = j
    with h5py.File(out, "r") as f:
        pixels = f["pixels"][()]
    pixels = pixels if pixels.shape[2] == 3 else np.repeat(pixels, 3, 2)
    print("| %s | %s | %.2f s | %.1f | %.2f s | %s | %s | %s | %s |" % (
        container, name, statistics.median(seconds["keep"]), kept["store_bytes"] / 1e6, statistics.median(seconds["none"]),
        equal_to_openslide(slide, pixels), equal_to_its_openslide(slide, pixels), equal_to_tifffile(slide, pixels),
        kept.get("codec_reason") or "kept: " + kept["codec"]), flush=True)


def main():
    print("| container | tiles | keep | MB | none | OpenSlide | Python's | tifffile | kept, or why not |\n| " + "--- | " * 9)
    for container, (name, options) in ROWS:
        with tempfile.TemporaryDirectory() as folder:
            row(folder, container, name, options)


main()
