"""Patches as files: PNG or JPEG with patches.csv, TFRecord of slideflow, tar of WebDataset.

TFRecord and WebDataset hold JPEG. Where a patch is a whole tile that the store keeps, the tile's own bytes are written,
so nothing is encoded again; other patches are encoded.

    TFRecord    SLIDE.tfrecords: records of tf.train.Example with slide, image_raw, loc_x, loc_y (px of level 0, the middle
                of the patch), as slideflow 3 reads them
    WebDataset  SLIDE.tar: xNNNNNN_yNNNNNN.jpg and .json (slide, x, y, size, downsample)
"""
from __future__ import annotations

import contextlib
import io
import json
import os
import re
import struct
import tarfile
from typing import Callable, Iterator, NamedTuple

from .base import crc32c
from .export import slide_name
from .publish import Outputs, open_regular
from .store import Store

AS_THEY_ARE = ("tfrecord", "webdataset")
HEADER, MARK = b"file,x,y,size", b"wsi-store"  # by which tables of patches, and pictures, are known


class Patch(NamedTuple):
    x: int  # px of the stored level
    y: int
    size: int
    store: Store
    jpeg: bytes | None  # the tile's own bytes


Write = Callable[[Patch], None]


def patches_of(s: Store, size: int, stride: int | None, min_tissue: float, limit: int | None, seed: int | None,
               form: str) -> Iterator[Patch]:
    """The patches of Store.places(), for a writer of this form."""
    keep = form in AS_THEY_ARE and s.codec == "jpeg" and s._chunk[:2] == (size, size)
    for x, y in s.places(size, stride, min_tissue, limit, seed).tolist():
        tile = None
        if keep and x % size == 0 and y % size == 0:
            found = s.chunk_bytes(y // size, x // size)
            tile = found[0] if found else None
        yield Patch(x, y, size, s, tile)


def _encoded(patch: Patch, form: str, quality: int) -> bytes:
    if patch.jpeg is not None:
        return patch.jpeg
    import PIL.Image
    import PIL.PngImagePlugin
    pixels, out = patch.store.read_region(patch.x, patch.y, patch.size, patch.size), io.BytesIO()
    image = PIL.Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0])
    if form == "PNG":
        note = PIL.PngImagePlugin.PngInfo()
        note.add_text("Software", MARK.decode())
        image.save(out, "PNG", pnginfo=note)
        return out.getvalue()
    image.save(out, "JPEG", quality=quality)
    return out.getvalue()


def _name(patch: Patch) -> str:
    return "x%06d_y%06d" % (patch.x, patch.y)


@contextlib.contextmanager
def _pictures(folder: str, s: Store, quality: int, form: str) -> Iterator[Write]:
    """The table gets its name when all pictures have theirs."""
    outputs, ending = Outputs([s.path]), ".png" if form == "PNG" else ".jpg"
    path = os.path.join(folder, "patches.csv")
    listed = _listed(path)

    def is_ours(picture: str) -> bool:
        return os.path.basename(picture) in listed or MARK in _head(picture)

    with outputs.create(path, "a table of patches made by wsi-store", lambda p: _head(p).startswith(HEADER)) as f:
        f.write(HEADER + b",downsample\r\n")

        def write(patch: Patch) -> None:
            name, data = _name(patch) + ending, _encoded(patch, form, quality)
            if form == "JPEG" and patch.jpeg is None:
                data = data[:2] + b"\xff\xfe" + struct.pack(">H", len(MARK) + 2) + MARK + data[2:]
            with outputs.create(os.path.join(folder, name), "a patch made by wsi-store", is_ours, sync=False) as picture:
                picture.write(data)
            f.write(("%s,%d,%d,%d,%r\r\n" % (name, patch.x, patch.y, patch.size, s.downsample)).encode())
        yield write


def _head(path: str) -> bytes:
    with open_regular(path) as f:
        return f.read(512)


def _listed(path: str) -> set[str]:
    """The files in a table of patches that an earlier run has written."""
    try:
        with open_regular(path) as f:
            return {line.split(b",")[0].decode() for line in f.read().splitlines()[1:]}
    except (OSError, UnicodeDecodeError):
        return set()


def _png(folder: str, s: Store, quality: int) -> contextlib.AbstractContextManager[Write]:
    return _pictures(folder, s, quality, "PNG")


def _jpeg(folder: str, s: Store, quality: int) -> contextlib.AbstractContextManager[Write]:
    return _pictures(folder, s, quality, "JPEG")


@contextlib.contextmanager
def _webdataset(folder: str, s: Store, quality: int) -> Iterator[Write]:
    slide, path = slide_name(s), os.path.join(folder, slide_name(s) + ".tar")
    first = re.compile(rb"x[0-9]{6,}_y[0-9]{6,}\.jpg\0")
    with Outputs([s.path]).create(path, "patches made by wsi-store", lambda p: bool(first.match(_head(p)))) as f, \
            tarfile.open(fileobj=f, mode="w") as tar:
        def write(patch: Patch) -> None:
            what = {"slide": slide, "x": patch.x, "y": patch.y, "size": patch.size, "downsample": s.downsample}
            for ending, data in ((".jpg", _encoded(patch, "JPEG", quality)), (".json", json.dumps(what).encode())):
                member = tarfile.TarInfo(_name(patch) + ending)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        yield write


@contextlib.contextmanager
def _tfrecord(folder: str, s: Store, quality: int) -> Iterator[Write]:
    slide, path = slide_name(s).encode(), os.path.join(folder, slide_name(s) + ".tfrecords")
    with Outputs([s.path]).create(path, "patches made by wsi-store", lambda p: b"\x05slide" in _head(p)) as f:
        def write(patch: Patch) -> None:
            x, y = (round((v + patch.size / 2) * s.downsample) for v in (patch.x, patch.y))
            f.write(_record(_example({b"slide": slide, b"image_raw": _encoded(patch, "JPEG", quality), b"loc_x": x, b"loc_y": y})))
        yield write


WRITERS: dict[str, Callable[[str, Store, int], contextlib.AbstractContextManager[Write]]] = {
    "png": _png, "jpeg": _jpeg, "tfrecord": _tfrecord, "webdataset": _webdataset}


# --- tf.train.Example in a TFRecord (tensorflow/core/example/feature.proto; lib/io/record_writer.h) ---

def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes((*out, n))


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _example(features: dict[bytes, bytes | int]) -> bytes:
    """Features.feature is a map of names to BytesList (field 1) or Int64List (field 3, packed)."""
    entries = b""
    for name, value in features.items():
        kind = _field(1, _field(1, value)) if isinstance(value, bytes) else _field(3, _field(1, _varint(value)))
        entries += _field(1, _field(1, name) + _field(2, kind))
    return _field(1, entries)


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _masked_crc(length) + data + _masked_crc(data)


def _masked_crc(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
