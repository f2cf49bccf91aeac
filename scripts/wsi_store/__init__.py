"""Reads the patch stores of wsi2h5 from Python. Needs numpy and h5py.

    from wsi_store import open_store

    with open_store("slide.h5") as s:
        print(s.width, s.height, s.channels, s.mpp)
        pixels = s.read_region(1000, 2000, 256, 256)         # uint8 [256][256][3]
        for x, y, pixels in s.patches(256, min_tissue=0.5):  # a grid; see also s.places()
            ...

    from wsi_store import Slide                              # the interface of openslide-python, over a store
    Slide("slide.h5").read_region((1000, 2000), 1, (256, 256))

    wsi-store patches slide.h5 -o patches --size 256 --min-tissue 0.5 --format png
    wsi-store zarr slide.h5               # slide.ome.zarr, an OME-Zarr image whose level 0 is the store
    wsi-store dicom slide.h5 -o dicom     # a DICOM whole-slide image of the slide's own tiles
    wsi-store index slide.h5 >slide.json  # a reference file, with which Zarr 2 reads the store

Coordinates are pixels of the stored level, from its upper left corner; s.downsample gives those of level 0.
Pixels are the bytes that h5spec computes from, for every codec:

    codec     needs, the first that is installed
    none      nothing
    deflate   deflate (libdeflate), or zlib of Python
    lz4       lz4, or hdf5plugin
    zstd      zstandard, or hdf5plugin
    jpeg      libh5jpeg.so of wsi2h5, simplejpeg, PyTurboJPEG, imagecodecs, OpenCV
    j2k       libh5j2k.so of wsi2h5, imagecodecs (tiles in RGB)
    others    hdf5plugin

Both are part of the wheel (`make wheel`). They are found in HDF5_PLUGIN_PATH, and where pip or `make install` puts
them. libh5jpeg.so is the quickest, as it decodes only the part of a chunk that is needed, and the strictest: all damage is an error.
They are HDF5's filters as well: after `import wsi_store`, h5py reads kept tiles.

A store can be pickled and used after a fork, so it fits into the workers of a PyTorch DataLoader: it holds
a descriptor that is read at absolute positions, and no handle of HDF5. Several threads may read at once.

Whatever is wrong with a store raises StoreError, whose text names the file, the fault and a remedy. Outputs that cannot be
written raise OSError; files of other kinds, and inputs, are never overwritten (publish.py).
"""
from __future__ import annotations

import importlib
from typing import Any

from .base import DAMAGED, LEFT_OUT, MISSING, StoreError
from .batches import Patches
from .codecs import JPEG
from .export import coords, kept
from .filters import register
from .ome_zarr import halved, write_ome_zarr
from .store import Store, open_store

register()


def __getattr__(name: str) -> Any:
    """Slide needs Pillow and write_dicom pydicom, which are imported when these are first named. openslide-python's
    names are aliases of ours: after sys.modules["openslide"] = wsi_store a program reads stores."""
    name = OPENSLIDE.get(name, name)
    if name == "StoreError":
        return StoreError
    if name not in LATER:
        raise AttributeError("module %r has no attribute %r" % (__name__, name))
    return getattr(importlib.import_module(LATER[name], __name__), name)


LATER = {"Slide": ".slide", "write_dicom": ".dicom", "write_windows": ".windows"}
OPENSLIDE = {"OpenSlide": "Slide", "open_slide": "Slide", "OpenSlideError": "StoreError",
             "OpenSlideUnsupportedFormatError": "StoreError"}
__all__ = ["DAMAGED", "JPEG", "LEFT_OUT", "MISSING", "Patches", "Slide", "Store", "StoreError", "coords", "halved", "kept",
           "open_store", "register", "write_dicom", "write_ome_zarr", "write_windows"]
