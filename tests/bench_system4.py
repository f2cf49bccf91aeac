"""A published converter, written the way it is described: OpenSlide, patches of 448 px on a 224 px grid (a
halo of 112), h5py, 400 patches per group. Prints MP/s of slide, measured on the first ten groups.

    bench_system4.py SLIDE OUT.h5
"""
import sys
import time

import h5py
import numpy as np
import openslide

PATCH, GRID, GROUP, GROUPS = 448, 224, 400, 10


def main(slide_path, out_path):
    slide = openslide.OpenSlide(slide_path)
    width, height = slide.dimensions
    places = [(x, y) for y in range(0, height - PATCH, GRID) for x in range(0, width - PATCH, GRID)]
    begun = time.time()
    done = 0
    with h5py.File(out_path, "w") as f:
        for g in range(GROUPS):
            group = f.create_group("%d" % g)
            part = places[g * GROUP:(g + 1) * GROUP]
            for k, place in enumerate(part):
                patch = np.asarray(slide.read_region(place, 0, (PATCH, PATCH)).convert("RGB"))
                group.create_dataset("%d" % k, data=patch, compression="gzip", compression_opts=1)
            done += len(part)
    print("%.1f" % (done * GRID * GRID / 1e6 / (time.time() - begun)))


main(*sys.argv[1:])
