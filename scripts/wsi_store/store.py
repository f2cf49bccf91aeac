"""A store that is open for reading."""
from __future__ import annotations

import collections
import contextlib
import functools
import json
import mmap
import os
import random
import threading
import zlib
from typing import Any, Callable, Iterable, Iterator, Mapping, overload

import h5py
import numpy as np

from .base import DAMAGED, FORMAT, LEFT_OUT, MISSING, VERSION, WHITE, Array, StoreError, own, text_of, values
from .codecs import ZARR, Plugin, as_pixels, find_unpacker
from .files import BLOCK_BYTES, CACHE_BYTES, LocalFile, Path, T, is_url, open_file, read_h5, server_of

MOST_THUMBNAIL = 1 << 28  # bytes of pixels
SEEN = 24  # chunks of which a part was decoded last: whoever comes back to one of them gets it whole, and it is kept


def open_store(path: Path, crc: bool = True, jpeg: str | None = None, cache_bytes: int = 4 << 20, *,
               storage_options: Mapping[str, Any] | None = None, block_bytes: int = BLOCK_BYTES,
               block_cache_bytes: int = CACHE_BYTES) -> Store:
    """Opens a store. `crc`: the checksum of every chunk is checked when it is first read; without, damage may become
    wrong pixels. `jpeg` names the decoder (one of JPEG; None: the first that is installed). `cache_bytes` bounds the
    unpacked chunks that are kept for the next region.

    `path` may be a URL of fsspec, such as s3://bucket/slide.h5 or https://host/slide.h5, with `storage_options` for its
    file system. It is read in blocks of `block_bytes`, of which the last `block_cache_bytes` are kept."""
    return Store(path, crc, jpeg, cache_bytes, storage_options, block_bytes, block_cache_bytes)


class _Group:
    """Rows of the slide. The tables, [chunk row][chunk column], are read when they are first needed. `trusted` says
    which chunks had the right checksum, [chunk row * chunk columns + chunk column]; forked processes share it, so each
    chunk is checked once for all workers of a loader."""

    def __init__(self, name: str, first_row: int, rows: int) -> None:
        self.name, self.first_row, self.rows, self.cols = name, first_row, rows, 0
        self.loaded = False
        self.at: list[list[int]]
        self.bytes: list[list[int]]
        self.raw: list[list[bool]]
        self.status: list[list[int]]
        self.crc32: list[list[int]]
        self.trusted: mmap.mmap


class Store:
    """A store that is open for reading. Attributes: path, width, height, channels, downsample, codec, attrs (all
    attributes of the root), mpp (x, y of the stored level, or None), properties (of the slide)."""

    def __init__(self, path: Path, crc: bool, jpeg: str | None, cache_bytes: int,
                 storage_options: Mapping[str, Any] | None = None, block_bytes: int = BLOCK_BYTES,
                 block_cache_bytes: int = CACHE_BYTES) -> None:
        self._options = crc, jpeg, cache_bytes, storage_options, block_bytes, block_cache_bytes
        self._cache: collections.OrderedDict[tuple[str, int, int], Array] = collections.OrderedDict()
        self._cached, self._seen = 0, set[tuple[str, int, int]]()
        self._h5: h5py.File | None = None
        self.path, self._crc, self._pid, self._lock = os.fspath(path), crc, 0, threading.RLock()
        self._source = open_file(path, storage_options, block_bytes, block_cache_bytes)
        try:
            self._read_h5(self._read_head)
        except StoreError:
            self.close()
            raise

    def _read_h5(self, work: Callable[[h5py.File], T]) -> T:
        """What `work` makes of the file in h5py, open for a moment, so that a fork never copies a handle of HDF5."""
        try:
            return self._source.read_h5(work)
        except StoreError:
            raise
        except (OSError, KeyError, ValueError, RuntimeError, TypeError, IndexError) as e:
            if isinstance(e, OSError) and e.strerror:
                raise StoreError("%s: %s" % (self.path, e.strerror)) from e
            raise StoreError("%s: not a store, or damaged: %s; make it with wsi2h5" % (self.path, e)) from e

    def _read_head(self, f: h5py.File) -> None:
        a = dict(f.attrs)
        if text_of(a.get("format")) != FORMAT:
            raise StoreError("%s: not a store; wsi2h5 makes stores" % self.path)
        if a.get("format_version") != VERSION:
            raise StoreError("%s: format_version %s; this wsi_store reads %d" % (self.path, a.get("format_version"), VERSION))
        if a.get("complete") != 1:
            raise StoreError("%s: unfinished; run wsi2h5 again" % self.path)
        self.attrs: dict[str, Any] = {k: text_of(v) if isinstance(v, (bytes, str)) else v.item() for k, v in a.items()
                                      if getattr(v, "ndim", 0) == 0}
        self.width, self.height, self.channels = (int(a[k]) for k in ("width", "height", "channels"))
        self.downsample, self.codec = float(a["downsample"]), text_of(a["codec"])
        self._chunk = int(a["chunk_rows"]), int(a["chunk_cols"]), self.channels
        mpp = [float(a[k]) * self.downsample for k in ("mpp_x", "mpp_y") if k in a]
        self.mpp = (mpp[0], mpp[1]) if len(mpp) == 2 else None
        self.properties: dict[str, Any] = {k: text_of(v) for k, v in self._own(f, "properties").attrs.items() if k != "attribute_crc32"}
        self._read_groups(f)

    def _read_groups(self, f: h5py.File) -> None:
        self._groups: list[_Group] = []
        self._group_rows, row = int(self.attrs["group_rows"]), 0
        for name in sorted(self._own(f, "groups"), key=int):
            rows = min(self._group_rows, self.height - row)
            pixels = self._own(f, "groups/%s/pixels" % name)
            if pixels.shape != (rows, self.width, self.channels) or pixels.chunks != self._chunk:
                raise StoreError("%s: group %s has another shape than the slide; make the store again with --force"
                                 % (self.path, name))
            self._groups.append(_Group(name, row, rows))
            row += rows
        if row != self.height or self._group_rows % self._chunk[0]:
            raise StoreError("%s: groups are missing; make the store again with --force" % self.path)

    def _own(self, parent: h5py.Group, path: str) -> Any:
        """An object that a store must have."""
        found = own(parent, path)
        if found is None:
            raise StoreError("%s: has no %s; make the store again with --force" % (self.path, path))
        return found

    # --- life ---

    def close(self) -> None:
        """Releases the file. Closing twice is harmless."""
        self._source.close()
        with self._lock:
            self._cache.clear()
            self._cached = 0

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_source"):
            self._source.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Store, (self.path, *self._options)

    def __repr__(self) -> str:
        return "<Store %s: %d x %d px, %s>" % (self.path, self.width, self.height, self.codec)

    # --- chunks ---

    def _hdf5_unpacks(self) -> bool:
        """Has HDF5 every filter of the pixels?"""
        def check(f: h5py.File) -> bool:
            layout = self._own(f, "groups/%s/pixels" % self._groups[0].name).id.get_create_plist()
            return all(h5py.h5z.filter_avail(layout.get_filter(k)[0]) for k in range(layout.get_nfilters()))
        with contextlib.suppress(ImportError):
            import hdf5plugin  # noqa: F401
        return self._read_h5(check)

    @functools.cached_property
    def _unpack(self) -> Callable[..., Array] | None:
        return find_unpacker(self.path, self.codec, self._options[1], self._hdf5_unpacks)

    def _load(self, g: _Group) -> None:
        """Reads a group's tables."""
        shape = -(-g.rows // self._chunk[0]), -(-self.width // self._chunk[1])
        with self._lock:
            if g.loaded:
                return
            status, at, size, crc32 = self._read_h5(lambda f: self._tables(self._own(f, "groups/" + g.name), shape))
            most = 2 * self._chunk[0] * self._chunk[1] * self._chunk[2] + (128 << 10)
            if ((size == 0) != (status == LEFT_OUT)).any() or size.max() > most or (at >= 1 << 62).any():
                raise StoreError("%s: group %s lacks chunks, or has some of impossible size; make the store again with --force"
                                 % (self.path, g.name))
            # Python's integers are quicker to use one by one than numpy's
            g.bytes, g.raw, g.status, g.crc32 = size.tolist(), self._raw(size, status).tolist(), status.tolist(), crc32.tolist()
            g.cols, g.trusted = shape[1], mmap.mmap(-1, max(shape[0] * shape[1], 1))
            if not self._crc:
                g.trusted[:] = b"\1" * len(g.trusted)
            g.at, g.loaded = at.tolist(), True

    def _tables(self, h: h5py.Group, shape: tuple[int, int]) -> tuple[Any, ...]:
        return tuple(self._table(h, "tile_" + name, shape) for name in ("status", "offset", "bytes", "crc32"))

    def _table(self, h: h5py.Group, name: str, shape: tuple[int, int]) -> Any:
        t = self._own(h, name)
        if t.shape != shape:
            raise StoreError("%s: %s has another shape than the slide; make the store again with --force" % (self.path, t.name))
        table = values(h, name)
        if zlib.crc32(table.tobytes()) != t.attrs["crc32"]:
            raise StoreError("%s: CRC mismatch in %s; copy or make the store again with --force" % (self.path, t.name))
        return table

    def _raw(self, size: Any, status: Any) -> Any:
        """Which chunks are their pixels, although the store has a codec: those that packing made no smaller, and where
        a slide in JPEG 2000 has no tile."""
        if self.codec in ("none", "jpeg"):
            return np.zeros(size.shape, bool)
        if self.codec == "j2k":
            return (status == MISSING) | (status == DAMAGED)
        return size == self._chunk[0] * self._chunk[1] * self._chunk[2]

    def load_tables(self) -> None:
        """Reads the tables of all groups. Before a fork, this lets all processes share them."""
        for g in self._groups:
            if not g.loaded:
                self._load(g)

    def _stored_bytes(self, g: _Group, r: int, k: int, first: int = 0, n: int | None = None) -> bytes:
        """n bytes of the chunk from byte `first` on, as stored; None: all of them."""
        n = g.bytes[r][k] if n is None else n
        data = self._source.read(n, g.at[r][k] + first)
        if len(data) != n:
            raise StoreError("%s: ends inside chunk (%d, %d) of group %s; make the store again with --force"
                             % (self.path, r, k, g.name))
        return data

    def _trusted_bytes(self, g: _Group, r: int, k: int) -> bytes:
        """All bytes of the chunk. Their CRC is checked once while the store is open."""
        data = self._stored_bytes(g, r, k)
        if not g.trusted[r * g.cols + k]:
            if zlib.crc32(data) != g.crc32[r][k]:
                raise StoreError("%s: CRC mismatch in chunk (%d, %d) of group %s; copy or make the store again with --force"
                                 % (self.path, r, k, g.name))
            g.trusted[r * g.cols + k] = 1
        return data

    def chunk_bytes(self, row: int, column: int) -> tuple[bytes, int] | None:
        """The bytes of the slide's chunk (row, column) as stored, and HDF5's filter mask; None if it was left out."""
        rows, columns = (-(-a // b) for a, b in zip((self.height, self.width), self._chunk[:2]))
        if not (0 <= row < rows and 0 <= column < columns):
            raise StoreError("%s: there is no chunk (%d, %d); the slide has %d x %d" % (self.path, row, column, rows, columns))
        g, r = self._group_of(row * self._chunk[0])
        return None if g.status[r][column] == LEFT_OUT else (self._trusted_bytes(g, r, column), int(g.raw[r][column]))

    def _group_of(self, y: int) -> tuple[_Group, int]:
        g = self._groups[y // self._group_rows]
        if not g.loaded:
            self._load(g)
        return g, (y - g.first_row) // self._chunk[0]

    def _pixels(self, g: _Group, r: int, k: int, rows: int) -> Array:
        """The pixels of a chunk, at least its first `rows` rows, [.][chunk_cols][channels]: cached or unpacked."""
        key = g.name, r, k
        with self._lock:
            if key in self._cache and len(self._cache[key]) >= rows:
                self._cache.move_to_end(key)
                return self._cache[key]
        data = self._trusted_bytes(g, r, k)
        with self._unpacking(g, r, k):
            if g.raw[r][k]:
                pixels = as_pixels(data, self._chunk)
            elif self._unpack is None:
                pixels = self._through_hdf5(g, r, k)
            elif rows < self._chunk[0] and isinstance(self._unpack, Plugin):
                pixels = np.empty((rows, *self._chunk[1:]), np.uint8)
                self._unpack.part(data, self._chunk, 0, 0, pixels)
            else:
                pixels = self._unpack(data, self._chunk)
            if len(pixels) < rows or pixels.shape[1:] != self._chunk[1:]:
                raise ValueError("it has another size")
        self._keep(key, pixels)
        return pixels

    @contextlib.contextmanager
    def _unpacking(self, g: _Group, r: int, k: int) -> Iterator[None]:
        try:
            yield
        except Exception as e:  # each library has its own kinds
            raise StoreError("%s: chunk (%d, %d) of group %s cannot be unpacked: %s; make the store again with --force"
                             % (self.path, r, k, g.name, e)) from e

    def _decode_once(self, out: Array, g: _Group, r: int, k: int, row: int, col: int) -> bool:
        """Decodes just what is wanted of a kept tile, which is not needed again soon as far as can be seen."""
        if not isinstance(self._unpack, Plugin) or g.raw[r][k]:
            return False
        key = g.name, r, k
        if key in self._cache or key in self._seen:
            return False
        if len(self._seen) >= SEEN:
            self._seen.clear()
        self._seen.add(key)
        data = self._trusted_bytes(g, r, k)
        with self._unpacking(g, r, k):
            self._unpack.part(data, self._chunk, row, col, out)
        return True

    def _through_hdf5(self, g: _Group, r: int, k: int) -> Array:
        """For codecs that only a plug-in of HDF5 unpacks; a forked process opens the file anew."""
        rows, cols = self._chunk[:2]

        def read(f: h5py.File) -> Any:
            return self._own(f, "groups/%s/pixels" % g.name)[r * rows:(r + 1) * rows, k * cols:(k + 1) * cols]
        with self._lock:
            if not isinstance(self._source, LocalFile):
                part = self._source.read_h5(read)
            else:
                if self._h5 is None or self._pid != os.getpid():
                    self._h5, self._pid = self._source.open_h5(), os.getpid()
                part = read(self._h5)
        pixels = np.full(self._chunk, WHITE, np.uint8)
        pixels[:part.shape[0], :part.shape[1]] = part
        return pixels

    def _keep(self, key: tuple[str, int, int], pixels: Array) -> None:
        most = self._options[2]
        with self._lock:
            if pixels.nbytes <= most:
                self._cached += pixels.nbytes - getattr(self._cache.pop(key, None), "nbytes", 0)
                self._cache[key] = pixels
            while self._cached > most:
                self._cached -= self._cache.popitem(last=False)[1].nbytes

    def references(self, url: str | None = None) -> dict[str, Any]:
        """A dict in the reference format of kerchunk (version 1), which presents the pixels as the array `0` [height][width]
        [channels] u8 of a group of Zarr 2, with the attributes that TIAToolbox's FsspecJsonWSIReader needs. Readers find
        the store at `url` (None: its full path). A chunk of Zarr is a chunk of the store, and one that the store left
        out has no entry."""
        if self.codec not in ZARR:
            raise StoreError("%s: Zarr cannot read codec %s; convert the slide with another codec" % (self.path, self.codec))
        array = {"zarr_format": 2, "shape": [self.height, self.width, self.channels], "chunks": list(self._chunk),
                 "dtype": "|u1", "compressor": ZARR[self.codec], "fill_value": WHITE, "order": "C", "filters": None}
        power = self.attrs.get("objective_power")
        metadata = {"mpp": self.mpp, "objective_power": power and power / self.downsample, "vendor": self.attrs.get("vendor")}
        refs: dict[str, Any] = {".zgroup": json.dumps({"zarr_format": 2}), "0/.zarray": json.dumps(array),
                                ".zattrs": json.dumps({"multiscales": [{"datasets": [{"path": "0"}], "metadata": metadata}]}),
                                "0/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": ["Y", "X", "S"]})}
        raw, url = 0, url or (self.path if is_url(self.path) else os.path.realpath(self.path))
        for row in range(-(-self.height // self._chunk[0])):
            g, r = self._group_of(row * self._chunk[0])
            for k, n in enumerate(g.bytes[r]):
                raw += g.raw[r][k]
                if n > 0:
                    refs["0/%d.%d.0" % (row, k)] = [url, g.at[r][k], n]
        if raw:
            raise StoreError("%s: %d chunks are stored without compression, which Zarr cannot mix with others; "
                             "convert the slide with --codec none or jpeg" % (self.path, raw))
        return {"version": 1, "refs": refs}

    # --- what users read ---

    def read_region(self, x: int, y: int, width: int, height: int, edge: str = "pad", fill: int = WHITE) -> Array:
        """uint8 [height][width][channels] from column x, row y of the stored level. Beyond the slide: edge="pad" gives
        `fill`, edge="clip" a smaller array. Background that the store left out is white."""
        if width < 0 or height < 0 or edge not in ("pad", "clip"):
            raise ValueError('sizes are 0 or more, and edge is "pad" or "clip"')
        x, y, width, height = int(x), int(y), int(width), int(height)
        if edge == "clip":
            x0, y0 = min(max(x, 0), self.width), min(max(y, 0), self.height)
            width, height = max(min(x + width, self.width) - x0, 0), max(min(y + height, self.height) - y0, 0)
            x, y = x0, y0
        out = np.empty((height, width, self.channels), np.uint8)
        self._fill(out, x, y, fill)
        return out

    def read_patches(self, at: Any, size: int = 256, out: Array | None = None) -> Array:
        """uint8 [n][size][size][channels], the patches whose upper left corners are at[n] = x, y; beyond the slide white.
        They are written into `out` if it is given. A chunk that several of the patches need is unpacked once, as far
        as the store's cache has room. From a URL, all of them come with one round of requests."""
        at = np.asarray(at, np.int64).reshape(-1, 2)
        shape = len(at), size, size, self.channels
        if size <= 0 or out is not None and (out.shape != shape or out.dtype != np.uint8):
            raise ValueError("size is positive, and out is uint8 of the shape %s" % (shape,))
        pixels = np.empty(shape, np.uint8) if out is None else out
        places = at.tolist()
        several = self._needed_by_several(places, size)
        for k, (x, y) in enumerate(places):
            self._fill(pixels[k], x, y, WHITE, several)
        return pixels

    def _chunks_of(self, places: list[list[int]], size: int) -> Iterator[tuple[_Group, int, int]]:
        """The chunks that each patch needs, one after the other."""
        rows, cols, _ = self._chunk
        for x, y in places:
            x0, y0, x1, y1 = max(x, 0), max(y, 0), min(x + size, self.width), min(y + size, self.height)
            while y0 < y1 and x0 < x1:
                g, r = self._group_of(y0)
                for k in range(x0 // cols, -(-x1 // cols)):
                    yield g, r, k
                y0 = min(g.first_row + (r + 1) * rows, g.first_row + g.rows)

    def _needed_by_several(self, places: list[list[int]], size: int) -> set[tuple[str, int, int]]:
        """Those that are worth keeping. Chunks of a URL are fetched here."""
        remote = is_url(self.path)
        if len(places) < 2 and not remote or self.codec == "none" and not remote:
            return set()
        once: set[tuple[str, int, int]] = set()
        several: set[tuple[str, int, int]] = set()
        ranges = []
        for g, r, k in self._chunks_of(places, size):
            key = g.name, r, k
            if key in once:
                several.add(key)
            elif remote and g.status[r][k] != LEFT_OUT:
                ranges.append((g.bytes[r][k], g.at[r][k]))
            once.add(key)
        self._source.prefetch(ranges)
        return several

    def _fill(self, out: Array, x: int, y: int, fill: int, several: set[tuple[str, int, int]] | None = None) -> None:
        """Writes the region that begins at column x, row y into `out` [height][width][channels]. `several`: chunks that
        will be needed again."""
        height, width = out.shape[:2]
        x1, y1 = min(x + width, self.width), min(y + height, self.height)
        x0, row = max(x, 0), max(y, 0)
        if (x0, row, x1, y1) != (x, y, x + width, y + height):
            out[...] = fill
        rows, cols, _ = self._chunk
        while row < y1 and x0 < x1:
            g, r = self._group_of(row)
            top = g.first_row + r * rows
            end = min(y1, top + rows, g.first_row + g.rows)
            for k in range(x0 // cols, -(-x1 // cols)):
                a, b = max(x0, k * cols), min(x1, (k + 1) * cols)
                self._copy(out[row - y:end - y, a - x:b - x], g, r, k, row - top, a - k * cols, several)
            row = end

    def _copy(self, out: Array, g: _Group, r: int, k: int, row: int, col: int,
              several: set[tuple[str, int, int]] | None) -> None:
        """Fills `out` with the chunk's pixels from (row, col) on."""
        n, m = out.shape[:2]
        if g.status[r][k] == LEFT_OUT:
            out[...] = WHITE
        elif self.codec == "none" and g.trusted[r * g.cols + k]:  # only the rows that are needed
            line = self._chunk[1] * self.channels
            data = self._stored_bytes(g, r, k, row * line, n * line)
            out[...] = np.frombuffer(data, np.uint8).reshape(n, -1, self.channels)[:, col:col + m]
        elif several and (g.name, r, k) in several or not self._decode_once(out, g, r, k, row, col):
            out[...] = self._pixels(g, r, k, row + n)[row:row + n, col:col + m]

    def _chunks_in_order(self, places: Iterable[tuple[int, int]]) -> Iterator[tuple[_Group, int, int]]:
        """Group, row in the group and column of the slide's chunks (row, column)."""
        for row, column in places:
            g, r = self._group_of(row * self._chunk[0])
            yield g, r, column

    @property
    def icc_profile(self) -> bytes | None:
        """The slide's colour profile, or None."""
        return self._read_h5(lambda f: f["icc_profile"][()].tobytes() if "icc_profile" in f else None)

    @property
    def tile_status(self) -> Array:
        """uint8 [chunk rows][chunk columns] of the slide: 0 whole, MISSING, DAMAGED, LEFT_OUT."""
        self.load_tables()
        return np.array([line for g in self._groups for line in g.status], np.uint8)

    @property
    def tissue(self) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
        """bool [ceil(height / tissue_cell)][ceil(width / tissue_cell)], or None: the store has no map of tissue."""
        def read(f: h5py.File) -> Any:
            mask, cells = own(f, "tissue/mask"), tuple(-(-n // self.tissue_cell) for n in (self.height, self.width))
            if mask is not None and mask.shape != cells:
                raise ValueError("tissue/mask has another shape than the slide")
            return None if mask is None else values(f, "tissue/mask").astype(bool)
        tissue: np.ndarray[Any, np.dtype[np.bool_]] | None = self._read_h5(read)
        return tissue

    tissue_cell = 32

    @property
    def thumbnail(self) -> Array | None:
        """uint8 [h][w][3], or None."""
        def read(f: h5py.File) -> Array | None:
            t = own(f, "associated/thumbnail")
            if t is not None and (t.ndim != 3 or t.shape[2] != 3 or t.dtype != np.uint8 or t.nbytes > MOST_THUMBNAIL):
                raise ValueError("associated/thumbnail is no thumbnail")
            if t is not None and "stored_crc32" in t.attrs:
                return self._strips(t)
            pixels: Array | None = values(f, "associated/thumbnail")
            return pixels
        return self._read_h5(read)

    def _strips(self, t: h5py.Dataset) -> Array:
        """A thumbnail that is stored as JPEG files, one for each strip of rows. A short last one is its pixels."""
        shape = t.chunks
        stored = [t.id.read_direct_chunk((row, 0, 0)) for row in range(0, t.shape[0], shape[0])]
        crc = 0
        for _, data in stored:
            crc = zlib.crc32(data, crc)
        if crc != t.attrs["stored_crc32"]:
            raise StoreError("%s: CRC mismatch in the thumbnail; copy or make the store again with --force" % self.path)
        try:
            strips = [(as_pixels if mask & 1 or not self._unpack else self._unpack)(data, shape) for mask, data in stored]
        except Exception as e:  # each library has its own kinds
            raise StoreError("%s: its thumbnail cannot be unpacked: %s; make the store again with --force" % (self.path, e)) from e
        return np.concatenate(strips)[:t.shape[0]]

    def places(self, size: int = 256, stride: int | None = None, min_tissue: float = 0.0, limit: int | None = None,
               seed: int | None = None) -> np.ndarray[Any, np.dtype[np.int64]]:
        """int64 [n][2], the x and y of patches of size x size px that lie inside the slide: a grid with this stride
        (default: size), those of whose area at least this fraction is tissue, as --min-tissue of h5spec run. `limit`
        takes the first, or with `seed` a random choice, of so many."""
        stride = stride or size
        if size <= 0 or stride <= 0 or not 0 <= min_tissue <= 1:
            raise ValueError("size and stride are positive, min_tissue is 0 to 1")
        x = np.arange(0, max(self.width - size + 1, 0), stride)
        y = np.arange(0, max(self.height - size + 1, 0), stride)
        at: Any = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2).astype(np.int64)
        if min_tissue > 0:
            at = at[self._tissue_px(at, size) >= min_tissue * size * size]
        if limit is not None and limit < len(at):
            chosen = range(limit) if seed is None else sorted(random.Random(seed).sample(range(len(at)), limit))
            at = at[np.fromiter(chosen, np.int64, limit)]
        places: np.ndarray[Any, np.dtype[np.int64]] = at
        return places

    def _tissue_px(self, at: Any, size: int) -> Any:
        """How many pixels of each patch lie in cells of tissue."""
        tissue = self.tissue
        if tissue is None:
            raise StoreError("%s: has no map of tissue; convert the slide with --tissue-mask" % self.path)
        sums = np.zeros((tissue.shape[0] + 2, tissue.shape[1] + 2), np.int64)
        sums[1:-1, 1:-1] = tissue.cumsum(0).cumsum(1)

        def above_left(x: Any, y: Any) -> Any:
            """Pixels of tissue left of x and above y: whole cells, and parts of those that x and y cut."""
            (i, u), (j, v) = divmod(x, self.tissue_cell), divmod(y, self.tissue_cell)
            u1, v1 = self.tissue_cell - u, self.tissue_cell - v
            return v1 * (u1 * sums[j, i] + u * sums[j, i + 1]) + v * (u1 * sums[j + 1, i] + u * sums[j + 1, i + 1])

        (x0, y0), (x1, y1) = at.T, (at + size).T
        return above_left(x1, y1) - above_left(x0, y1) - above_left(x1, y0) + above_left(x0, y0)

    @overload
    def patches(self, size: int = ..., stride: int | None = ..., min_tissue: float = ..., limit: int | None = ...,
                seed: int | None = ..., batch: None = ...) -> Iterator[tuple[int, int, Array]]: ...

    @overload
    def patches(self, size: int = ..., stride: int | None = ..., min_tissue: float = ..., limit: int | None = ...,
                seed: int | None = ..., *, batch: int) -> Iterator[tuple[Any, Any, Array]]: ...

    def patches(self, size: int = 256, stride: int | None = None, min_tissue: float = 0.0, limit: int | None = None,
                seed: int | None = None, batch: int | None = None) -> Iterator[tuple[Any, Any, Array]]:
        """Yields x, y and the pixels of each of places(). With `batch`: of so many at a time, x and y int64 [n], pixels
        uint8 [n][size][size][channels]; the last batch may be smaller."""
        if batch is not None and batch <= 0:
            raise ValueError("batch is positive")
        at = self.places(size, stride, min_tissue, limit, seed)
        n = batch or 1
        for k in range(0, len(at), n):
            some = at[k:k + n]
            if batch:
                yield some[:, 0], some[:, 1], self.read_patches(some, size)
            else:
                x, y = some[0].tolist()
                yield x, y, self.read_region(x, y, size, size)

    def windows(self, result: Path, slide: str | None = None,
                storage_options: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The windows of this slide that count in a result of h5spec: a dict of equally long arrays, x and y (px of the
        stored level), then each map of the result by its name without "window_", such as mean_db. The slide is found
        by its quickhash, or by its name in the result, `slide`. pandas.DataFrame(s.windows("result.h5")) is a table.
        The result may lie at a URL, as a store, and may be a table, whose results lie beside it. Without
        storage_options, those of the store serve a result on the same file system."""
        path = os.fspath(result)
        if storage_options is None and is_url(path) and server_of(path) == server_of(str(self.path)):
            storage_options = self._options[3]
        for _ in range(2):
            try:
                found = read_h5(path, functools.partial(self._windows_in, path, slide), storage_options)
            except ValueError as e:
                raise StoreError("%s: damaged: %s; compute it again with --force" % (path, e)) from e
            if not isinstance(found, str):
                return found
            path = found
        raise StoreError("%s: a table refers to a table" % result)

    def _windows_in(self, path: str, slide: str | None, f: h5py.File) -> dict[str, Any] | str:
        """The windows, or the path of the result that a table names."""
        if text_of(f.attrs.get("format", "")) != "wsi-spectrum" or f.attrs.get("complete") != 1:
            raise StoreError("%s: not a finished result of h5spec" % path)
        table = own(f, "table")
        if table is not None:
            return self._result_of(table, slide, path)
        s = self._slide_of(f, slide, path)
        return counted_windows(s)

    def _result_of(self, table: h5py.Group, name: str | None, path: str) -> str:
        """The path of this slide's result, which lies in the folder of the table or below."""
        mine = self.attrs.get("quickhash") or None
        stem = name or os.path.basename(self.path)[:-len(".h5")]
        column, word = ("quickhash", mine) if mine and not name else ("name", stem)
        rows = np.flatnonzero(values(table, column) == str(word).encode("utf-8", "surrogateescape"))
        if len(rows) == 0:
            raise StoreError("%s: has no slide %s" % (path, stem))
        below = os.fsdecode(own(table, "result")[int(rows[0])])
        if below.startswith("/") or ".." in below.split("/"):
            raise StoreError("%s: names a result outside of its folder: %s" % (path, below))
        return path[:path.rfind("/") + 1] + below

    def _slide_of(self, f: h5py.File, name: str | None, result: str) -> h5py.Group:
        slides = own(f, "slides") or {}
        if name is not None and name in slides:
            return own(slides, name)
        mine = self.attrs.get("quickhash") or None
        for other in slides if name is None else ():
            s = own(slides, other)
            if text_of(s.attrs.get("quickhash", "")) == mine:
                return s
        stem = name or os.path.basename(self.path)[:-len(".h5")]
        if stem in slides and not mine:
            return own(slides, stem)
        raise StoreError("%s: has no slide %s" % (result, stem))


def counted_windows(slide: h5py.Group) -> dict[str, Any]:
    """Equally long arrays of the windows of a slide in a result that count: x, y, and each map without "window_"."""
    maps = {k[len("window_"):]: _values(slide, k) for k in slide if k.startswith("window_")}
    j, i = np.nonzero(maps["flags"] & 1)  # a window that counts can have no mean: all values outside the range
    stride = int(slide.attrs["stride"])
    return dict(x=i * stride, y=j * stride, **{k: m[j, i] for k, m in maps.items()})


def _values(slide: h5py.Group, name: str) -> Any:
    """A map as floats, NaN where it has no value; flags stay integers."""
    d, v = slide[name], values(slide, name)
    if "scale" not in d.attrs:
        return v
    return np.where(v == d.fillvalue, np.nan, v * float(np.ravel(d.attrs["scale"])[0]))
