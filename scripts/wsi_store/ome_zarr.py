"""A store as an OME-Zarr image (version 0.5, Zarr 3), which copies none of its pixels.

    slide.h5           the store; an index of 16 bytes per tile is appended, which HDF5 does not see
    slide.ome.zarr/    zarr.json: axes, um per px, channels, and content_crc32 of the store
        0/             the level of the store. Its one shard, c/0/0/0, is a link to the store
        1/, 2/ ...     means of 2 x 2 px of the level before, down to 512 px

The index is that of the codec `sharding_indexed` of Zarr 3: for each tile of the level, row by row, its offset and its
bytes as uint64, 2^64 - 1 twice where the store has none, then their CRC-32C, as the last bytes of the file.
Codecs have the names of Zarr's specification, or those of the package imagecodecs, which registers them for zarr-python.
"""
from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import io
import itertools
import json
import os
import shutil
import struct
import tempfile
import threading
import warnings
import zlib
from typing import Any, Callable, Iterator

import numpy as np

from .base import Array, StoreError, crc32c
from .files import Path, is_url
from .publish import Part, Refused, blaming, clean, open_regular, put_link, shown
from .store import Store

ABSENT = 2 ** 64 - 1
SMALLEST = 512  # px of the longer side, to which levels are made
INNER = 256  # px of a chunk of the levels that are made
BLOCK = 8 * INNER  # px of a level that are made at a time
QUALITY = 75, 90  # of JPEG in the levels that are made: that of the slide, within these
BYTES = {"name": "bytes"}
# the codecs that turn a chunk [rows][columns][channels] into what the store holds
CHUNKS: dict[str, list[dict[str, Any]]] = {
    "none": [BYTES], "zstd": [BYTES, {"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
    "deflate": [BYTES, {"name": "imagecodecs_zlib", "configuration": {"level": 1}}],
    "lz4": [BYTES, {"name": "imagecodecs_lz4h5"}], "jpeg": [{"name": "imagecodecs_jpeg"}],
    "j2k": [{"name": "imagecodecs_jpeg2k"}]}
LEVELS = ("zstd", "jpeg")  # codecs of the levels that are made
SHARD = "%d/c/0/0/0"  # of a level
MOST_JSON = 1 << 20


def write_ome_zarr(store: Path, copy: bool = False, codec: str | None = None, force: bool = False) -> tuple[str, bool]:
    """Makes NAME.ome.zarr beside the store NAME.h5: its path, and whether it was made, or was up to date. Level 0 is
    a hard link to the store, or a symbolic one where the file system has no hard links; `copy`: a copy. `codec` of the
    coarser levels: zstd, or jpeg of the slide's quality, 75 to 90 (None: jpeg if the store keeps JPEG tiles). An image that was made of
    another store of this name is replaced, and what others keep in its folder, such as labels/, stays, also where
    wsi2h5 removed the image; any other folder becomes the image with `force` only.

    All files are made under temporary names beside the store. When all are whole they get their names, zarr.json of the
    image as the last one: until then it says that the image is unfinished. Runs at the same time, on any host, make
    the same."""
    path = os.fspath(store)
    folder = _folder_of(path)
    with Store(path, True, None, 0) as s:
        if codec not in (None, *LEVELS):
            raise ValueError("the codec of the coarser levels is one of %s, not %s" % (", ".join(LEVELS), codec))
        if os.path.lexists(folder) and not _may_become_image(folder) and not force:
            raise Refused("%s: exists and is no image of a store; --force replaces it" % folder)
        clean(os.path.dirname(path))
        at = os.stat(path)
        append_index(s)
        if _is_of(folder, s) and not force:
            return folder, False
        image = _Image(folder)
        try:
            _write(s, image, copy, codec or ("jpeg" if s.codec == "jpeg" else "zstd"))
            if not os.path.samestat(at, os.stat(path)):
                raise StoreError("%s: was replaced meanwhile; run again" % path)
            if _is_of(folder, s) and not force:  # another run has made it
                return folder, False
            image.put(None if copy else path)
        finally:
            image.abort()
    return folder, True


class _Image:
    """The files of an image, unfinished beside it."""

    def __init__(self, folder: str) -> None:
        self._folder, self._parts = folder, dict[str, Part]()

    def create(self, name: str) -> Any:
        """A file of the image, such as 1/zarr.json, for writing."""
        self._parts[name] = Part(self._folder)
        return self._parts[name].file

    def write_json(self, name: str, value: Any) -> None:
        self.create(name).write(json.dumps(value, indent=1).encode())

    def put(self, store: str | None) -> None:
        """Gives all files their names; level 0 is a link to `store`."""
        folder, root = self._folder, self._parts.pop("zarr.json")
        self._parts["zarr.json"] = root  # the last one
        with blaming(folder):
            if os.path.islink(folder):
                os.unlink(folder)
            os.makedirs(folder, exist_ok=True)
        unfinished = Part(os.path.join(folder, "zarr.json"))
        try:
            unfinished.file.write(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {"wsi2h5": {"content_crc32": -1}}}).encode())
            unfinished.commit()
        finally:
            unfinished.abort()
        if store:
            put_link(store, self._place(SHARD % 0), os.path.join("..", "..", "..", "..", "..", os.path.basename(store)))
        for name, part in self._parts.items():
            if part is root:
                self._remove_levels(sum(n.endswith("/zarr.json") for n in self._parts))
            part.commit(self._place(name))

    def _place(self, name: str) -> str:
        """The path of a file of the image, whose folders exist and are no links."""
        path = self._folder
        for part in name.split("/")[:-1]:
            path = os.path.join(path, part)
            if os.path.islink(path):
                raise Refused("%s: is a link, which is not followed; remove it" % path)
            with blaming(path):
                os.makedirs(path, exist_ok=True)
        return os.path.join(path, name.split("/")[-1])

    def _remove_levels(self, k: int) -> None:
        """Those from k on, of an image that had more. What is not ours stays."""
        while os.path.lexists(os.path.join(self._folder, str(k), "zarr.json")):
            for name in (SHARD % k, "%d/zarr.json" % k):
                with contextlib.suppress(FileNotFoundError), blaming(self._folder):
                    os.unlink(self._place(name))
            for name in ("%d/c/0/0/", "%d/c/0/", "%d/c/", "%d/"):
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.join(self._folder, name % k))
            k += 1

    def abort(self) -> None:
        for part in self._parts.values():
            part.abort()


def _folder_of(path: str) -> str:
    return (path[:-len(".h5")] if path.endswith(".h5") else path) + ".ome.zarr"


class Level:
    """A level that was made: its chunks of INNER x INNER px."""
    rows = cols = INNER

    def __init__(self, folder: str, shape: tuple[int, int, int]) -> None:
        self._path, self._channels = os.path.join(folder, "c", "0", "0", "0"), shape[2]
        with open_regular(os.path.join(folder, "zarr.json")) as f:
            described = json.loads(f.read(MOST_JSON))
        self._codec = next(c for c in LEVELS if described == _array(shape, (INNER, INNER), c))
        self._columns = -(-shape[1] // INNER)
        n = -(-shape[0] // INNER) * self._columns
        with open_regular(self._path) as f:
            f.seek(-16 * n - 4, os.SEEK_END)
            self._at = np.frombuffer(f.read(16 * n), "<u8").reshape(n, 2).tolist()

    def chunk(self, r: int, k: int) -> Array:
        at, n = self._at[r * self._columns + k]
        with open(self._path, "rb") as f:
            f.seek(at)
            data = f.read(n)
        if self._codec == "zstd":
            import zstandard
            data = zstandard.decompress(data, INNER * INNER * self._channels)
            return np.frombuffer(data, np.uint8).reshape(INNER, INNER, self._channels)
        import PIL.Image
        pixels: Array = np.atleast_3d(np.asarray(PIL.Image.open(io.BytesIO(data))))
        return pixels


def made_levels(s: Store) -> list[Level]:
    """Levels 1 and so on of the image that lies beside the store; none if it is not of this store."""
    folder = _folder_of(str(s.path))
    levels: list[Level] = []
    height, width = s.height, s.width
    if is_url(str(s.path)):
        return levels
    if _content(folder) not in (None, s.attrs["content_crc32"]):
        warnings.warn("%s: was made of another store, and is not used; `wsi-store zarr` makes it again" % shown(folder), stacklevel=3)
    if _is_of(folder, s):
        while max(height, width) > SMALLEST:
            height, width = -(-height // 2), -(-width // 2)
            try:
                levels.append(Level(os.path.join(folder, str(len(levels) + 1)), (height, width, s.channels)))
            except (OSError, ValueError, StopIteration):
                break
    return levels


def index_of(s: Store) -> bytes:
    """The index of the shard that the store is."""
    s.load_tables()
    pixels = s._chunk[0] * s._chunk[1] * s._chunk[2]
    white = zlib.crc32(b"\xff" * pixels)  # without bytes, Zarr shows 255
    at: list[tuple[int, int]] = []
    for g in s._groups:
        for place, n, raw, crc in zip(*(itertools.chain(*table) for table in (g.at, g.bytes, g.raw, g.crc32))):
            raw = raw and s.codec != "none"
            if raw and (n, crc) != (pixels, white):
                raise StoreError("%s: some tiles are stored without compression, which Zarr cannot mix with others; convert "
                                 "the slide with --codec none or keep" % s.path)
            at.append((place, n) if n and not raw else (ABSENT, ABSENT))
    return index_bytes(at)


def index_bytes(at: list[tuple[int, int]]) -> bytes:
    """The index of chunks with these offsets and bytes."""
    table = np.array(at, "<u8").tobytes()
    return table + struct.pack("<I", crc32c(table))


def append_index(s: Store) -> None:
    """Puts the index behind the end of the HDF5 file, if it is not there. The time of the file stays."""
    path, index = str(s.path), index_of(s)
    with blaming(path), open(path, "r+b") as f:
        head = f.read(36)
        end = struct.unpack_from("<Q", head, 28)[0]  # superblock 3: the address behind the last object
        f.seek(0, os.SEEK_END)
        size = f.tell()
        f.seek(max(size - len(index), 0))
        if f.read() == index and size >= end + len(index):
            return
        before = os.fstat(f.fileno())
        try:
            f.seek(end)
            f.write(index)
            f.truncate()
            f.flush()
            os.fsync(f.fileno())
        except BaseException:  # a part of it means nothing
            with contextlib.suppress(OSError):
                os.ftruncate(f.fileno(), end)
            raise
        os.utime(f.fileno(), ns=(before.st_atime_ns, before.st_mtime_ns))


def _content(folder: str) -> Any:
    """The content_crc32 of the store that the image was made of; None: it is no such image."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        with open_regular(os.path.join(folder, "zarr.json")) as f:
            return json.loads(f.read(MOST_JSON))["attributes"]["wsi2h5"]["content_crc32"]
    return None


def _may_become_image(folder: str) -> bool:
    """Is it an image of ours, or what wsi2h5 leaves of one: what others keep in it, such as labels/?"""
    if os.path.islink(folder) or not os.path.isdir(folder):
        return False
    with blaming(folder):
        names = os.listdir(folder)
    foreign = any(n == "zarr.json" or n.startswith(".z") or n.isdecimal() for n in names)
    return _content(folder) is not None or (bool(names) and not foreign)


def _is_of(folder: str, s: Store) -> bool:
    """Was the image made of this store, and is its level 0 a link to it, or a copy?"""
    shard, path = os.path.join(folder, "0", "c", "0", "0", "0"), str(s.path)
    with contextlib.suppress(OSError):
        return _content(folder) == s.attrs["content_crc32"] and (
            os.path.samefile(shard, path) or os.path.getsize(shard) == os.path.getsize(path))
    return False


def _write(s: Store, image: _Image, copy: bool, codec: str) -> None:
    image.write_json("0/zarr.json", _array((s.height, s.width, s.channels), s._chunk[:2], s.codec))
    if copy:
        with open(s.path, "rb") as f:
            shutil.copyfileobj(f, image.create(SHARD % 0), 1 << 20)
    n = _coarser_levels(s, image, codec)
    image.write_json("zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": {
        "wsi2h5": {"content_crc32": s.attrs["content_crc32"]}, "ome": _metadata(s, n)}})


def _array(shape: tuple[int, ...], chunk: tuple[int, int], codec: str) -> dict[str, Any]:
    """zarr.json of a level [rows][columns][channels] in one shard. The axes of OME-Zarr begin with the channels."""
    (height, width, channels), (rows, cols) = shape, chunk
    shard = [channels, -(-height // rows) * rows, -(-width // cols) * cols]
    to_rows = {"name": "transpose", "configuration": {"order": [1, 2, 0]}}
    inner = {"chunk_shape": [channels, rows, cols], "codecs": [to_rows, *CHUNKS[codec]], "index_location": "end",
             "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]}
    return {"zarr_format": 3, "node_type": "array", "shape": [channels, height, width], "data_type": "uint8",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shard}}, "fill_value": 255,
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "codecs": [{"name": "sharding_indexed", "configuration": inner}], "dimension_names": ["c", "y", "x"],
            "attributes": {}}


def _metadata(s: Store, levels: int) -> dict[str, Any]:
    """The attribute `ome` of the group. The middle of a pixel of level k lies (2^k - 1) / 2 px behind that of level 0."""
    unit = {"unit": "micrometer"} if s.mpp else {}
    x, y = s.mpp or (1.0, 1.0)
    sets = []
    for k in range(levels):
        n, half = 2.0 ** k, (2.0 ** k - 1) / 2
        sets.append({"path": str(k), "coordinateTransformations": [
            {"type": "scale", "scale": [1.0, y * n, x * n]}, {"type": "translation", "translation": [0.0, y * half, x * half]}]})
    colours = (("red", "FF0000"), ("green", "00FF00"), ("blue", "0000FF")) if s.channels == 3 else (("gray", "FFFFFF"),)
    window = {"start": 0, "end": 255, "min": 0, "max": 255}
    name = os.path.basename(str(s.path))
    return {"version": "0.5",
            "multiscales": [{"name": name, "type": "mean", "datasets": sets, "axes": [
                {"name": "c", "type": "channel"}, {"name": "y", "type": "space", **unit}, {"name": "x", "type": "space", **unit}]}],
            "omero": {"name": name, "channels": [{"label": label, "color": colour, "active": True, "window": window}
                                                 for label, colour in colours], "rdefs": {"model": "color"}}}


def _coarser_levels(s: Store, image: _Image, codec: str) -> int:
    """Writes levels 1 and so on, each from the one before: how many levels there are with that of the store."""
    height, width, level = s.height, s.width, 1
    quality = min(max(int(s.attrs.get("jpeg_quality") or QUALITY[1]), QUALITY[0]), QUALITY[1])
    read: Callable[[int, int], Array] = functools.partial(_block_of_store, s)
    while max(height, width) > SMALLEST:
        height, width = -(-height // 2), -(-width // 2)
        where = os.path.dirname(str(s.path)) or "."
        with blaming(where), tempfile.TemporaryFile(dir=where) as file:  # the mapping outlives it
            os.posix_fallocate(file.fileno(), 0, height * width * s.channels)  # a full disk is an error now, not a signal later
            pixels: Array = np.memmap(file, np.uint8, "r+", 0, (height, width, s.channels))
        for y in range(0, height, BLOCK):
            for x in range(0, width, BLOCK):
                part = halved(read(2 * x, 2 * y))
                pixels[y:y + part.shape[0], x:x + part.shape[1]] = part
        _write_level(image, level, pixels, codec, quality)
        read = functools.partial(_block_of_level, pixels)
        level += 1
    return level


def _block_of_store(s: Store, x: int, y: int) -> Array:
    return s.read_region(x, y, 2 * BLOCK, 2 * BLOCK, "clip")


def _block_of_level(pixels: Array, x: int, y: int) -> Array:
    return pixels[y:y + 2 * BLOCK, x:x + 2 * BLOCK]


def _write_level(image: _Image, level: int, pixels: Array, codec: str, quality: int) -> None:
    """One shard of chunks of INNER x INNER px."""
    height, width, channels = pixels.shape
    encode = _encoder(codec, quality)
    image.write_json("%d/zarr.json" % level, _array(pixels.shape, (INNER, INNER), codec))
    at, end, f = [], 0, image.create(SHARD % level)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for y in range(0, height, INNER):
            for data in pool.map(encode, [_full(pixels[y:y + INNER, x:x + INNER]) for x in range(0, width, INNER)]):
                f.write(data)
                at.append((end, len(data)))
                end += len(data)
        f.write(index_bytes(at))


def _full(part: Array) -> Array:
    """A chunk of full size: beyond the picture its last rows and columns are repeated."""
    return np.pad(part, ((0, INNER - part.shape[0]), (0, INNER - part.shape[1]), (0, 0)), "edge")


def _encoder(codec: str, quality: int) -> Callable[[Array], bytes]:
    if codec == "zstd":
        import zstandard
        local = threading.local()  # a packer belongs to one thread

        def pack(chunk: Array) -> bytes:
            if not hasattr(local, "packer"):
                local.packer = zstandard.ZstdCompressor(level=1)
            packed: bytes = local.packer.compress(chunk.tobytes())
            return packed
        return pack
    import PIL.Image

    def jpeg(chunk: Array) -> bytes:
        out = io.BytesIO()
        PIL.Image.fromarray(chunk if chunk.shape[2] == 3 else chunk[:, :, 0]).save(out, "JPEG", quality=quality)
        return out.getvalue()
    return jpeg


def halved(pixels: Array) -> Array:
    """The means of 2 x 2 px, rounded; an odd last row or column stands for the one that is missing."""
    h, w = pixels.shape[:2]
    p: Any = np.pad(pixels, ((0, h % 2), (0, w % 2), (0, 0)), "edge").astype(np.uint16)
    means: Array = ((p[0::2, 0::2] + p[1::2, 0::2] + p[0::2, 1::2] + p[1::2, 1::2] + 2) >> 2).astype(np.uint8)
    return means
