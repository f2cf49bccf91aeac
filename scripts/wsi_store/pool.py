"""Memory that a process shares with the processes it forks, and that is used again.

A worker of a DataLoader fills new shared memory for each batch, which the system must clear, map and take back: that costs
more than reading the pixels. Here a worker claims units of one large mapping, and the main process frees them when the
last tensor over them goes away. Nothing waits: a worker that finds no room does without.
"""
from __future__ import annotations

import itertools
import mmap
import multiprocessing
import os
import weakref
from typing import Any

import numpy as np

from .base import Array

UNIT = 1 << 20
_numbers = itertools.count()
_pools: weakref.WeakValueDictionary[int, Pool] = weakref.WeakValueDictionary()


class Pool:
    """`most` bytes of address space; only what is used takes memory. The process that makes the pool is its owner."""

    def __init__(self, most: int = 1 << 30) -> None:
        self.owner, self.number = os.getpid(), next(_numbers)
        self._memory = mmap.mmap(-1, most)
        self._used = mmap.mmap(-1, most // UNIT)  # a byte per unit: 1 while somebody has it
        self._lock = multiprocessing.get_context("fork").Lock()
        _pools[self.number] = self

    def claim(self, n_bytes: int) -> int | None:
        """The number of the first of enough free units, or None."""
        n = -(-n_bytes // UNIT)
        if not self._lock.acquire(timeout=1):  # a worker was killed with it
            return None
        try:
            first = self._used.find(b"\0" * n)
            if first >= 0:
                self._used[first:first + n] = b"\1" * n
        finally:
            self._lock.release()
        return first if first >= 0 else None

    def free(self, first: int, n_bytes: int) -> None:
        n = -(-n_bytes // UNIT)
        self._used[first:first + n] = b"\0" * n

    def array(self, first: int, shape: tuple[int, ...]) -> Array:
        n = int(np.prod(shape))
        return np.frombuffer(self._memory, np.uint8, n, first * UNIT).reshape(shape)

    def units_in_use(self) -> int:
        return self._used[:].count(1)


def received(number: int, first: int, shape: tuple[int, ...]) -> Array:
    """In the owner: an array over what a worker filled. Its memory is free again when nothing refers to the array."""
    pool = _pools[number]
    flat: Any = np.frombuffer(pool._memory, np.uint8, int(np.prod(shape)), first * UNIT)
    weakref.finalize(flat, pool.free, first, flat.nbytes).atexit = False
    pixels: Array = flat.reshape(shape)
    return pixels
