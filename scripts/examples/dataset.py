#!/usr/bin/env python3
"""How many patches of many stores a DataLoader of PyTorch gives per second.

    python3 dataset.py stores/*.h5
"""
import os
import sys
import time

from torch.utils.data import DataLoader

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from wsi_store import Patches


def main():
    data = Patches(sys.argv[1:], 256, min_tissue=0.5)
    begun, n = time.time(), 0
    for pixels, k in DataLoader(data, batch_size=64, num_workers=2, shuffle=True, collate_fn=data.collate):
        n += len(pixels)
    print("%d patches, %.0f per second" % (n, n / (time.time() - begun)))


if __name__ == "__main__":
    main()
