#!/usr/bin/env python3
"""The windows of a result as a table of pandas: where they are, how much tissue, mean and std of their spectrum.

    python3 windows_table.py store.h5 result.h5 windows.csv
"""
import os
import sys

import pandas

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from wsi_store import open_store


def main(store, result, table):
    with open_store(store) as s:
        windows = pandas.DataFrame(s.windows(result))
        windows["x_level0"], windows["y_level0"] = windows.x * s.downsample, windows.y * s.downsample
    windows.to_csv(table, index=False)
    print(windows.describe().loc[["count", "mean", "min", "max"]])


if __name__ == "__main__":
    main(*sys.argv[1:4])
