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


def text_of(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
