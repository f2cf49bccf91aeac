"""Coordinates of patches as TRIDENT and CLAM read them.

A file has one dataset, `coords` [n][2], the upper left corners x, y in px of level 0. Its attributes are those of both
programs:

    TRIDENT   patch_size, patch_size_level0, level0_magnification, target_magnification, overlap, name, savetodir,
              level0_width, level0_height     (trident/IO.py at 98de6db; WSI.py at ac5f46e; WSIPatcher.py at 116929f)
    CLAM      patch_size, patch_level, downsample, level_dim, downsampled_level_dim, name, save_path
              (wsi_core/WholeSlideImage.py at 5faf04c; dataset_modules/dataset_h5.py at 4f9d8ae)

CLAM reads patch_size px of patch_level and cannot resample, so its attributes are written only for patches at the
resolution of the store. TRIDENT takes the ratio of the two magnifications, which need not be whole numbers.
"""
from __future__ import annotations

import csv
import os
from typing import Any, Collection, Iterable

import h5py
import numpy as np

from .base import StoreError, h5py_file, own
from .files import Path
from .publish import Outputs
from .store import Store

VERDICTS = ("pass", "not judged", "review", "fail")
# TRIDENT's names of magnifications, of level 0: mpp below the first number has the second
MAGNIFICATIONS = ((0.16, 80), (0.2, 60), (0.3, 40), (0.6, 20), (1.2, 10), (2.4, 5))


def coords(store: Path | Store, output: Path | None = None, size: int = 256, step: int | None = None,
           min_tissue: float = 0.5, mpp: float | None = None, magnification: float | None = None,
           outputs: Outputs | None = None) -> Any:
    """int64 [n][2]: x, y of patches in px of level 0, and with `output` an HDF5 file of them (complete, or none).

    A patch has size x size px of the store's resolution, or of `mpp` um per px, or of `magnification` (one of the two).
    They lie every `step` px of that resolution (default: size), inside the slide, and at least `min_tissue` of
    a patch is tissue. `outputs`: those of the run that this is a part of."""
    files = outputs or Outputs([store.path if isinstance(store, Store) else store])
    if isinstance(store, Store):
        return _coords(store, output, size, step or size, min_tissue, mpp, magnification, files)
    with Store(store, True, None, 0) as s:
        return _coords(s, output, size, step or size, min_tissue, mpp, magnification, files)


def _coords(s: Store, output: Path | None, size: int, step: int, min_tissue: float, mpp: float | None,
            magnification: float | None, outputs: Outputs) -> Any:
    if size <= 0 or step <= 0:
        raise ValueError("size and step are positive")
    power = _magnification(s)
    ratio = _ratio(s, power, mpp, magnification)  # px of the store per px of a patch
    if ratio < 0.1 or size * ratio > max(s.width, s.height) * 4:
        raise ValueError("%s: patches of %d px would be %.0f px of the store" % (s.path, size, size * ratio))
    side = max(round(size * ratio), 1)
    at = s.places(side, max(round(step * ratio), 1), min_tissue)
    at0: Any = np.rint(at * s.downsample).astype(np.int64)
    if output is not None:
        _write(os.fspath(output), at0, _attributes(s, os.fspath(output), size, step, ratio, power), outputs)
    return at0


def _magnification(s: Store) -> float | None:
    """Of level 0: what the scanner says, or what TRIDENT would call its mpp."""
    power = float(s.attrs.get("objective_power", 0) or 0)
    if power > 0:
        return power
    mpp = s.mpp[0] / s.downsample if s.mpp else None
    return next((m for most, m in MAGNIFICATIONS if mpp and mpp < most), None)


def _ratio(s: Store, power: float | None, mpp: float | None, magnification: float | None) -> float:
    if mpp is not None and magnification is not None:
        raise ValueError("mpp and magnification say the same; give one")
    if any(v is not None and v <= 0 for v in (mpp, magnification)):
        raise ValueError("mpp and magnification are positive")
    if mpp is not None:
        if not s.mpp:
            raise StoreError("%s: has no um per px; give the magnification, or convert the slide with --mpp-override" % s.path)
        return mpp / s.mpp[0]
    if magnification is not None:
        if not power:
            raise StoreError("%s: has neither an objective power nor um per px; leave out the magnification" % s.path)
        return power / magnification / s.downsample
    return 1.0


def _attributes(s: Store, output: str, size: int, step: int, ratio: float, power: float | None) -> dict[str, Any]:
    scale = ratio * s.downsample  # px of level 0 per px of a patch
    name = slide_name(s)
    a: dict[str, Any] = {"patch_size": size, "patch_size_level0": round(size * scale), "overlap": size - step, "name": name,
                         "savetodir": os.path.dirname(output) or ".", "save_path": os.path.dirname(output) or ".",
                         "level0_width": round(s.width * s.downsample), "level0_height": round(s.height * s.downsample)}
    if power:
        a.update(level0_magnification=_whole(power), target_magnification=_whole(power / scale))
    if abs(ratio - 1) < 0.01:
        level = [s.width, s.height]
        a.update(patch_level=int(s.attrs["level"]), downsample=[s.downsample] * 2, level_dim=level, downsampled_level_dim=level)
    elif not power:
        raise StoreError("%s: has no magnification, without which no program knows the size of resampled patches" % s.path)
    return a


def _whole(v: float) -> int | float:
    return round(v) if abs(v - round(v)) < 1e-3 * v else v


def slide_name(s: Store) -> str:
    """The slide's file without its ending, or that of the store."""
    return os.path.splitext(os.path.basename(str(s.attrs.get("source_name") or s.path)))[0]


def _write(path: str, at: Any, attributes: dict[str, Any], outputs: Outputs) -> None:
    with outputs.create(path, "coordinates made by wsi-store", _is_ours) as file:
        with h5py.File(path, "w", driver="core", backing_store=False) as f:  # in memory
            d = f.create_dataset("coords", data=at)
            for name, value in attributes.items():
                d.attrs[name] = value
            f.flush()
            file.write(f.id.get_file_image())


def _is_ours(path: str) -> bool:
    """Neither TRIDENT nor CLAM writes the attributes of both."""
    try:
        with h5py_file(path) as f:
            d = own(f, "coords")
            return isinstance(d, h5py.Dataset) and {"savetodir", "save_path"} <= set(d.attrs)
    except (OSError, ValueError):
        return False


def verdicts_of(report: Path) -> dict[str, str]:
    """Slide: its verdict, from the file of `h5spec report --csv`. A verdict is pass, not judged, review or fail."""
    name = os.fspath(report)
    try:
        with open(name, newline="", encoding="utf-8") as f:
            table = csv.DictReader(f)
            if not {"slide", "verdict"} <= set(table.fieldnames or ()):
                raise StoreError("%s: has no columns slide and verdict; make it with h5spec report --csv" % name)
            return {_unquoted(row["slide"]): row["verdict"] or "" for row in table}
    except (OSError, UnicodeDecodeError, csv.Error) as e:
        raise StoreError("%s: cannot be read: %s" % (name, e)) from e


def _unquoted(text: str) -> str:
    """Without the apostrophe that h5spec writes before texts that a spreadsheet would compute."""
    formula = text.lstrip("'")[:1] in tuple("=+-@\t\r\n")
    return text[1:] if text[:1] == "'" and formula else text


def kept(stores: Iterable[Path], report: Path, keep: Collection[str] = ("pass",)) -> list[Path]:
    """Those stores whose slide has one of these verdicts in the report. A store that the report does not name is an
    error. Slides have the names of their stores there."""
    wrong = set(keep) - set(VERDICTS)
    if wrong or not keep:
        raise ValueError("verdicts are %s, not %s" % (", ".join(VERDICTS), ", ".join(sorted(wrong)) or "none"))
    verdicts, chosen = verdicts_of(report), []
    for path in stores:
        slide = os.path.splitext(os.path.basename(os.fspath(path)))[0]
        if slide not in verdicts:
            raise StoreError("%s: the report %s has no slide %s; make the report of all stores" % (path, os.fspath(report), slide))
        if verdicts[slide] in keep:
            chosen.append(path)
    return chosen

