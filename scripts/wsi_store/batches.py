"""Patches of many stores for the DataLoader of PyTorch, which asks for whole batches."""
from __future__ import annotations

import contextlib
import functools
import os
from typing import Any, Callable, Sequence

import numpy as np

from .base import Array
from .files import Path
from .pool import Pool, received
from .store import Store, open_store


class Patches:
    """A dataset of patches; `store`, `x` and `y` are int64 arrays with the place of each.

        data = Patches(paths, 256, min_tissue=0.5, per_slide=1000)
        for pixels, k in DataLoader(data, batch_size=64, num_workers=2, shuffle=True, collate_fn=data.collate):
            ...     # pixels: uint8 tensor [64][channels][size][size], channels last in memory; k: int64 tensor [64]

    Patch k[i] is of data.stores[data.store[k[i]]], at data.x[k[i]], data.y[k[i]]. Give data.collate to the DataLoader: then a
    batch is read once, into the memory that the worker shares with the program. Another collate_fn gets a list of
    (tensor [channels][size][size], k), and the pixels are copied.

    `stores`: paths, URLs or open stores. `places`: one array [n][2] of x, y for each of them, instead of those that
    Store.places() chooses by size, stride, min_tissue, limit=per_slide and seed. `transform` gets the pixels of a
    batch and may return anything. All stores have the same number of channels."""

    def __init__(self, stores: Sequence[Path | Store], size: int = 256, stride: int | None = None, min_tissue: float = 0.0,
                 per_slide: int | None = None, seed: int = 0, places: Sequence[Any] | None = None,
                 transform: Callable[[Any], Any] | None = None) -> None:
        self.stores = [s if isinstance(s, Store) else open_store(s) for s in stores]
        self.size, self.transform = size, transform
        for s in self.stores:
            if s.channels != self.stores[0].channels:
                raise ValueError("%s has %d channels, %s has %d: make batches of each kind"
                                 % (self.stores[0].path, self.stores[0].channels, s.path, s.channels))
        if places is None:
            places = [s.places(size, stride, min_tissue, per_slide, seed) for s in self.stores]
        at = [np.asarray(p, np.int64).reshape(-1, 2) for p in places]
        if len(at) != len(self.stores):
            raise ValueError("places has %d arrays for %d stores" % (len(at), len(self.stores)))
        self.store = np.repeat(np.arange(len(at)), [len(p) for p in at])
        self.x, self.y = np.concatenate([np.empty((0, 2), np.int64), *at]).T
        self._pool: Pool | None = None
        with contextlib.suppress(OSError, ValueError):  # no such memory, or a system without forks
            self._pool = Pool()
        for s, p in zip(self.stores, at):
            if len(p):
                s.load_tables()  # before workers are forked, so that they share them

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}  # a worker that is not forked shares no memory

    def __len__(self) -> int:
        return len(self.store)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        import torch
        return self._finished(torch.from_numpy(self._read(np.array([i])))[0]), int(i)

    def __getitems__(self, indices: list[int]) -> _Batch:
        return _Batch(self, np.asarray(indices, np.int64))

    @staticmethod
    def collate(batch: _Batch) -> Any:
        """For DataLoader(collate_fn=...): the whole batch."""
        return batch.whole()

    def _read(self, chosen: Any, out: Array | None = None) -> Array:
        """uint8 [n][size][size][channels]"""
        pixels = np.empty(self._shape(len(chosen)), np.uint8) if out is None else out
        owner = self.store[chosen]
        for k in np.unique(owner):
            mine = np.flatnonzero(owner == k)
            at = np.stack([self.x[chosen[mine]], self.y[chosen[mine]]], 1)
            if len(mine) == len(chosen):
                self.stores[k].read_patches(at, self.size, pixels)
            else:
                pixels[mine] = self.stores[k].read_patches(at, self.size)
        return pixels

    def _shape(self, n: int) -> tuple[int, ...]:
        return n, self.size, self.size, self.stores[0].channels

    def _finished(self, pixels: Any) -> Any:
        """Pixels with the channels first, as PyTorch has them, after the transform."""
        planes = pixels.movedim(-1, -3)
        return self.transform(planes) if self.transform else planes


class _Batch(Sequence[Any]):
    """A batch that has not been read yet. For other collate functions than ours: a list of its items."""

    def __init__(self, data: Patches, chosen: Any) -> None:
        self.data, self.chosen = data, chosen

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, i: Any) -> Any:
        return self._items[i]

    @functools.cached_property
    def _items(self) -> list[Any]:
        import torch
        pixels = torch.from_numpy(self.data._read(self.chosen))
        return [(self.data._finished(p), k) for p, k in zip(pixels, self.chosen.tolist())]

    def whole(self) -> Any:
        import torch
        data, n = self.data, len(self.chosen)
        pool, shape = data._pool, data._shape(n)
        first = None
        if pool and pool.owner != os.getpid() and not data.transform:
            first = pool.claim(int(np.prod(shape)))
        if first is None or not pool:
            return data._finished(torch.from_numpy(data._read(self.chosen))), torch.from_numpy(self.chosen)
        try:
            data._read(self.chosen, pool.array(first, shape))
        except BaseException:
            pool.free(first, int(np.prod(shape)))
            raise
        return _Sent(pool.number, first, shape, self.chosen)


class _Sent:
    """What a worker sends: where the pixels are. It arrives as the tensors of a batch."""

    def __init__(self, *where: Any) -> None:
        self.where = where

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrive, self.where


def _arrive(number: int, first: int, shape: tuple[int, ...], chosen: Any) -> tuple[Any, Any]:
    import torch
    return torch.from_numpy(received(number, first, shape)).movedim(-1, -3), torch.from_numpy(chosen)
