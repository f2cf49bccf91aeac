"""Makes MIRAX and VMS slides."""
import os
import struct

import numpy as np
from PIL import Image

from tiffpatch import jpeg_of


def vms(folder, image, map_image, names=("v.vms", "v.jpg", "v_map2.jpg")):
    """A VMS slide of two JPEG streams with restart markers, in files of these names. Its path."""
    os.makedirs(folder, exist_ok=True)
    for name, data in zip(names, (b"[Virtual Microscope Specimen]\nNoLayers=1\nNoJpegColumns=1\nNoJpegRows=1\nImageFile=%s\nMapFile=%s\n"
                                  b"SourceLens=20\nPhysicalWidth=250000\nPhysicalHeight=175000\n" % tuple(os.fsencode(n) for n in names[1:]),
                                  image, map_image)):
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)
    return os.path.join(folder, names[0])


def part_scanned(folder, side=8, first=(4, 5), seed=1):
    """A slide of side x side images of 256 px, scanned from the image `first` on. Its path, and openslide.bounds-x, -y."""
    rng = np.random.default_rng(seed)
    tiles = {(c, r): rng.integers(90, 250, (32, 32, 3)).repeat(8, 0).repeat(8, 1).astype(np.uint8)
             for c in range(first[0], side) for r in range(first[1], side)}
    return mirax(folder, side, side, tiles), 256 * first[0], 256 * first[1]


def mirax(folder, cols, rows, images, size=256, stem="m", index="Index.dat", pixels="Data0000.dat"):
    """A MIRAX slide of `cols` x `rows` JPEG images, of which only `images`, {(column, row): RGB}, are there. Its path."""
    data, name = os.path.join(folder, stem), os.path.join(folder, stem + ".mrxs")
    os.makedirs(data)
    uuid = "0123456789ABCDEF"
    Image.new("RGB", (64, 64)).save(name, "JPEG")  # scanners write a picture
    with open(os.path.join(data, pixels), "wb") as f:
        f.write(b"01.02" + uuid.encode() + b"000" + b"\0" * 229)
        places = {}
        for place, rgb in images.items():
            places[place] = (f.tell(), f.write(jpeg_of(rgb, subsampling=0)))
    records = [(r * cols + c, *places[c, r], 0) for r in range(rows) for c in range(cols) if (c, r) in places]
    head = b"01.02" + uuid.encode()
    body = struct.pack("<ii", len(head) + 8, 0)        # roots: of the levels; of what is no level
    body += struct.pack("<i", len(head) + 12)          # zoom level 0: a list of pages
    body += struct.pack("<ii", 0, len(head) + 20)      # the first page is empty, the next one
    body += struct.pack("<ii", len(records), 0) + b"".join(struct.pack("<iiii", *r) for r in records)
    with open(os.path.join(data, index), "wb") as f:
        f.write(head + body)
    with open(os.path.join(data, "Slidedat.ini"), "w") as f:
        f.write("""[GENERAL]
SLIDE_VERSION = 01.02
SLIDE_ID = %s
IMAGENUMBER_X = %d
IMAGENUMBER_Y = %d
OBJECTIVE_MAGNIFICATION = 20
CameraImageDivisionsPerSide = 1

[HIERARCHICAL]
INDEXFILE = %s
HIER_COUNT = 1
HIER_0_NAME = Slide zoom level
HIER_0_COUNT = 1
HIER_0_VAL_0 = ZoomLevel_0
HIER_0_VAL_0_SECTION = LAYER_0_LEVEL_0_SECTION
NONHIER_COUNT = 0

[DATAFILE]
FILE_COUNT = 1
FILE_0 = %s

[LAYER_0_LEVEL_0_SECTION]
OVERLAP_X = 0
OVERLAP_Y = 0
MICROMETER_PER_PIXEL_X = 0.5
MICROMETER_PER_PIXEL_Y = 0.5
IMAGE_FILL_COLOR_BGR = 16777215
DIGITIZER_WIDTH = %d
DIGITIZER_HEIGHT = %d
IMAGE_FORMAT = JPEG
IMAGE_CONCAT_FACTOR = 0
""" % (uuid, cols, rows, index, pixels, size, size))
    return name
