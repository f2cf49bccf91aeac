"""What the modules share: the error, the constants of the format, small helpers."""
from __future__ import annotations

from typing import Any

import h5py
import numpy as np

Array = np.ndarray[Any, np.dtype[np.uint8]]

MISSING, DAMAGED, LEFT_OUT = 1, 2, 3  # tile_status, besides 0: whole
FORMAT, VERSION = "wsi-patch-store", 1
WHITE = 255


class StoreError(Exception):
    """The file, what is wrong with it, and what to do."""


def h5py_file(path: str) -> h5py.File:
    try:
        return h5py.File(path, "r", locking=False)  # the disk may not know locks
    except (TypeError, ValueError, OSError):  # unknown to this h5py, or open elsewhere with another choice
        return h5py.File(path, "r")


MOST_RATIO = 1032  # bytes that deflate makes of one


def own(parent: h5py.Group, path: str) -> Any:
    """The object at `path` of a store or result, or None if it has none. It lies in this file: no link leads out of the
    file or elsewhere in it, and the values of a dataset are neither in other files nor made of other datasets."""
    here: Any = parent
    for name in path.split("/"):
        link = here.get(name, getlink=True)
        if link is None:
            return None
        if not isinstance(link, h5py.HardLink):
            raise ValueError("%s is reached by a link, which is not followed" % path)
        here = here[name]
    if isinstance(here, h5py.Dataset):
        layout = here.id.get_create_plist()
        if layout.get_layout() == h5py.h5d.VIRTUAL or layout.get_external_count() > 0:
            raise ValueError("the values of %s lie elsewhere, and are not read" % path)
    return here


def values(parent: h5py.Group, path: str) -> Any:
    """All values of the dataset at `path`, or None. It has no more than its stored bytes can hold."""
    d = own(parent, path)
    if d is None:
        return None
    if d.nbytes > MOST_RATIO * d.id.get_storage_size() + 4096:
        raise ValueError("%s has more values than are stored" % path)
    return d[()]


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), by google_crc32c where it is installed, else in Python."""
    try:
        import google_crc32c
    except ImportError:
        crc = 0xFFFFFFFF
        for byte in data:
            crc = CRC32C[(crc ^ byte) & 255] ^ crc >> 8
        return crc ^ 0xFFFFFFFF
    return int(google_crc32c.value(data))


def _crc32c_of_byte(crc: int) -> int:
    for _ in range(8):
        crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc


CRC32C = [_crc32c_of_byte(byte) for byte in range(256)]


def text_of(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
