#!/usr/bin/env python3
"""Patches of many stores as a PyTorch Dataset; each worker reads for itself.

    python3 dataset.py stores/*.h5          prints how many patches per second a DataLoader gives
"""
import os
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from wsi_store import open_store


class Patches(Dataset):
    """One item per patch: uint8 tensor [channels][size][size], number of the store, x, y."""

    def __init__(self, paths, size=256, min_tissue=0.5, per_slide=None, seed=0):
        self.stores, self.size = [open_store(p) for p in paths], size
        self.items = [(k, x, y) for k, s in enumerate(self.stores)
                      for x, y in s.places(size, min_tissue=min_tissue, limit=per_slide, seed=seed).tolist()]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        k, x, y = self.items[i]
        pixels = self.stores[k].read_region(x, y, self.size, self.size)
        return torch.from_numpy(pixels).permute(2, 0, 1).contiguous(), k, x, y


def main():
    data = Patches(sys.argv[1:])
    begun, n = time.time(), 0
    for pixels, *_ in DataLoader(data, batch_size=64, num_workers=2, shuffle=True):
        n += len(pixels)
    print("%d patches, %.0f per second" % (n, n / (time.time() - begun)))


if __name__ == "__main__":
    main()
