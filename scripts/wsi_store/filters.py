"""HDF5's filter 32019: the plug-in libh5jpeg.so, which decodes kept tiles, and how h5py finds it."""
from __future__ import annotations

import glob
import os

import h5py

JPEG_FILTER = 32019
NAME = "libh5jpeg.so"


def plugin_paths() -> list[str]:
    """Where the plug-in is: HDF5_PLUGIN_PATH, inside this package, where `make install` puts it, in a source tree that
    is built, in the package hdf5-plugin-h5jpeg of a distribution."""
    here = os.path.dirname(os.path.realpath(__file__))
    folders = os.environ.get("HDF5_PLUGIN_PATH", "").split(os.pathsep)
    folders += [os.path.join(here, "plugins"), os.path.join(here, "..", "..", "..", "lib", "wsi2h5", "plugin"),
                os.path.join(here, "..", "..", "build"), "/usr/local/lib/wsi2h5/plugin", "/usr/lib/wsi2h5/plugin"]
    found = [p for f in folders if f for p in glob.glob(os.path.join(glob.escape(f), NAME))]
    return found + glob.glob("/usr/lib/*/hdf5/serial/plugins/" + NAME)


def register() -> bool:
    """Lets h5py read kept tiles, whichever libhdf5 it brings: if HDF5 finds no such filter, the folder of the
    plug-in becomes the first one that it searches (HDF5 1.10 ends its search at a folder that does not exist). Returns
    whether h5py can read kept tiles now."""
    try:
        if not h5py.h5z.filter_avail(JPEG_FILTER):
            for path in plugin_paths()[:1]:
                h5py.h5pl.prepend(os.path.dirname(os.path.realpath(path)).encode())
        return bool(h5py.h5z.filter_avail(JPEG_FILTER))
    except (AttributeError, RuntimeError, ValueError):  # an h5py or an HDF5 that loads no plug-ins
        return False
