#!/usr/bin/env python3
"""Scores of patches for `h5spec map --scores`: how much haematoxylin and eosin each patch of tissue has.

    python3 stain_scores.py store.h5 scores.csv
    h5spec map --scores scores.csv --format all -o maps store.h5

Colour deconvolution with the vectors of A. C. Ruifrok and D. A. Johnston, Quantification of histochemical staining by
color deconvolution, Anal Quant Cytol Histol 23 (2001), 291-299. Put a network in the place of stains().
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from wsi_store import open_store

SIZE = 256  # px of the store
STEP = 128
HAEMATOXYLIN, EOSIN = (0.65, 0.70, 0.29), (0.07, 0.99, 0.11)


def stains(pixels):
    """[n][size][size][3] to [n][2]: mean densities of haematoxylin and eosin."""
    density = -np.log10((pixels.astype(np.float32) + 1) / 256)
    vectors = np.array([HAEMATOXYLIN, EOSIN, np.cross(HAEMATOXYLIN, EOSIN)])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return (density @ np.linalg.inv(vectors))[..., :2].mean(axis=(1, 2))


def main(store, table):
    with open_store(store) as s, open(table, "w") as out:
        scale = s.downsample  # scores are in px of level 0
        out.write("x,y,size,haematoxylin,eosin\n")
        at = s.places(SIZE, STEP, min_tissue=0.5)
        for k in range(0, len(at), 32):
            for (x, y), (h, e) in zip(at[k:k + 32], stains(s.read_patches(at[k:k + 32], SIZE))):
                out.write("%d,%d,%d,%.4f,%.4f\n" % (x * scale, y * scale, SIZE * scale, h, e))
            out.flush()  # h5spec map --follow may wait for it
        out.write("#end\n")


if __name__ == "__main__":
    main(*sys.argv[1:3])
