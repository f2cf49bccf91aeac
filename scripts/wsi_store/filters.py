"""HDF5's filters of kept tiles: the plug-ins libh5jpeg.so and libh5j2k.so, and how h5py finds them."""
from __future__ import annotations

import glob
import os

import h5py

JPEG_FILTER, J2K_FILTER = 32019, 33005
NAME, J2K_NAME = "libh5jpeg.so", "libh5j2k.so"


def plugin_paths(name: str = NAME) -> list[str]:
    """Where a plug-in is: HDF5_PLUGIN_PATH, where `make install` or pip puts it, in a source tree that is built, in the
    package hdf5-plugin-h5jpeg of a distribution."""
    here = os.path.dirname(os.path.realpath(__file__))
    folders = os.environ.get("HDF5_PLUGIN_PATH", "").split(os.pathsep)
    # this package is in PREFIX/share/wsi2h5, PREFIX/lib/python3/site-packages, or as of pip --target in PREFIX
    folders += [os.path.join(here, *[".."] * up, "lib", "wsi2h5", "plugin") for up in (3, 4, 1)]
    folders += [os.path.join(here, "..", "..", "build"), "/usr/local/lib/wsi2h5/plugin", "/usr/lib/wsi2h5/plugin"]
    found = [p for f in folders if f for p in glob.glob(os.path.join(glob.escape(f), name))]
    return found + glob.glob("/usr/lib/*/hdf5/serial/plugins/" + name)


def register() -> bool:
    """Lets h5py read kept tiles, whichever libhdf5 it brings: if HDF5 finds no such filter, the folder of the
    plug-in becomes the first one that it searches (HDF5 1.10 ends its search at a folder that does not exist). Returns
    whether h5py can read kept JPEG tiles now."""
    try:
        # JPEG first: HDF5 loads the plug-in that it finds already, and then keeps it, whatever folder comes first later
        for number, name in ((JPEG_FILTER, NAME), (J2K_FILTER, J2K_NAME)):
            if not h5py.h5z.filter_avail(number):
                for path in plugin_paths(name)[:1]:
                    h5py.h5pl.prepend(os.path.dirname(os.path.realpath(path)).encode())
        return bool(h5py.h5z.filter_avail(JPEG_FILTER))
    except (AttributeError, RuntimeError, ValueError):  # an h5py or an HDF5 that loads no plug-ins
        return False
