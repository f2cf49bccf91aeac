"""The numbers of all windows of results as one table of Parquet, a row per window that counts.

    slide, x, y (px of the stored level), then each map of the result by its name without "window_", such as mean_db
"""
from __future__ import annotations

import os
from typing import Any, Iterable, Iterator

import h5py
import numpy as np

from .base import StoreError, h5py_file, own, text_of, values
from .files import Path
from .publish import Outputs, open_regular
from .store import counted_windows


def write_windows(results: Iterable[Path], output: Path) -> int:
    """Writes the file, complete or not at all: how many windows it has. A merged file stands for all its slides; a table
    for the results that it names."""
    import pyarrow
    import pyarrow.parquet
    given, path, n, writer = list(results), os.fspath(output), 0, None
    with Outputs(given).create(path, "a table of windows made by wsi-store", _is_ours) as f:
        for name, slide in _slides(given):
            columns = counted_windows(slide)
            table = pyarrow.table({"slide": pyarrow.array([name] * len(columns["x"])).dictionary_encode(), **columns})
            writer = writer or pyarrow.parquet.ParquetWriter(f, table.schema, compression="zstd")
            writer.write_table(table)
            n += len(columns["x"])
        if writer is None:
            raise StoreError("the results hold no slide")
        writer.close()
    return n


def _is_ours(path: str) -> bool:
    import pyarrow.parquet
    try:
        with open_regular(path) as f:
            names = pyarrow.parquet.read_schema(f).names
    except (OSError, ValueError, pyarrow.ArrowException):
        return False
    return names[:3] == ["slide", "x", "y"] and "mean_db" in names


def _slides(results: Iterable[Path]) -> Iterator[tuple[str, h5py.Group]]:
    for result in results:
        path = os.fspath(result)
        try:
            with h5py_file(path) as f:
                if text_of(f.attrs.get("format", "")) != "wsi-spectrum" or f.attrs.get("complete") != 1:
                    raise StoreError("%s: not a finished result of h5spec" % path)
                names = values(f, "table/result")
                if names is not None:
                    folder = os.path.dirname(path)
                    below = [os.fsdecode(v) for v in names]
                    if any(v.startswith("/") or ".." in v.split("/") for v in below):
                        raise StoreError("%s: names a result outside of its folder" % path)
                    yield from _slides(os.path.join(folder, v) for v in below)
                else:
                    slides = own(f, "slides") or {}
                    yield from ((name, own(slides, name)) for name in slides)
        except (OSError, ValueError) as e:
            raise StoreError("%s: cannot be read: %s" % (path, e)) from e
