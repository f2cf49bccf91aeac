#!/usr/bin/env python3
"""Reads the patch stores of wsi2h5 from Python. Needs numpy and h5py; this file is all there is.

    from wsi_store import open_store

    with open_store("slide.h5") as s:
        print(s.width, s.height, s.channels, s.mpp)
        pixels = s.read_region(1000, 2000, 256, 256)         # uint8 [256][256][3]
        for x, y, pixels in s.patches(256, min_tissue=0.5):  # a grid; see also s.places()
            ...

    python3 wsi_store.py patches slide.h5 -o patches --size 256 --min-tissue 0.5 --format png
    python3 wsi_store.py index slide.h5 >slide.json          # a reference file, with which Zarr reads the store

Coordinates are pixels of the stored level, from its upper left corner; s.downsample gives those of level 0.
Pixels are the bytes that h5spec computes from, for every codec:

    codec     needs, the first that is installed
    none      nothing
    deflate   deflate (libdeflate), or zlib of Python
    lz4       lz4, or hdf5plugin
    zstd      zstandard, or hdf5plugin
    jpeg      libh5jpeg.so of wsi2h5, simplejpeg, PyTurboJPEG, imagecodecs, OpenCV
    others    hdf5plugin

libh5jpeg.so is found in HDF5_PLUGIN_PATH, or where `make install` puts it. It is the quickest, as it decodes only
the upper part of a chunk if no more is needed, and the strictest: all damage is an error.

A store can be pickled and used after a fork, so it fits into the workers of a PyTorch DataLoader: it holds
a descriptor that is read at absolute positions, and no handle of HDF5. Several threads may read at once.

Whatever is wrong raises StoreError, whose text names the file, the fault and a remedy.
"""
import argparse
import collections
import contextlib
import csv
import ctypes
import functools
import glob
import json
import os
import random
import struct
import sys
import threading
import zlib

import h5py
import numpy as np

MISSING, DAMAGED, LEFT_OUT = 1, 2, 3  # tile_status, besides 0: whole
FORMAT, VERSIONS = "wsi-patch-store", (1, 2)
WHITE = 255


class StoreError(Exception):
    """The file, what is wrong with it, and what to do."""


# --- codecs: each function returns unpack(bytes, (rows, columns, channels)) -> uint8 array ---

def _array(data, shape):
    return np.frombuffer(data, np.uint8).reshape(shape)


def _none():
    return _array


def _deflate():
    try:
        import deflate
        return lambda data, shape: _array(deflate.zlib_decompress(data, shape[0] * shape[1] * shape[2]), shape)
    except (ImportError, AttributeError):
        return lambda data, shape: _array(zlib.decompress(data), shape)


def _lz4():
    import lz4.block

    def unpack(data, shape):
        n = shape[0] * shape[1] * shape[2]
        whole, block, packed = struct.unpack_from(">QII", data)
        if (whole, packed) != (n, len(data) - 16) or block < n:
            raise ValueError("its LZ4 header does not match the chunk")
        return _array(lz4.block.decompress(memoryview(data)[16:], uncompressed_size=n), shape)
    return unpack


def _zstd():
    import zstandard
    local = threading.local()  # an unpacker belongs to one thread

    def unpack(data, shape):
        if not hasattr(local, "unpacker"):
            local.unpacker = zstandard.ZstdDecompressor()
        return _array(local.unpacker.decompress(data, shape[0] * shape[1] * shape[2]), shape)
    return unpack


def _simplejpeg():
    from simplejpeg import decode_jpeg
    return lambda data, shape: decode_jpeg(data, "RGB", strict=True)


def _turbojpeg():
    import warnings

    import turbojpeg
    decode = turbojpeg.TurboJPEG().decode

    def unpack(data, shape):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # damage is a warning there
            return decode(data, pixel_format=turbojpeg.TJPF_RGB)
    return unpack


def _imagecodecs():
    from imagecodecs import jpeg8_decode
    return lambda data, shape: jpeg8_decode(data)


def _opencv():
    import cv2
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION

    def unpack(data, shape):
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        if pixels is None:
            raise ValueError("OpenCV cannot decode it")
        return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)
    return unpack


def _plugin_paths():
    here = os.path.dirname(os.path.realpath(__file__))
    folders = os.environ.get("HDF5_PLUGIN_PATH", "").split(os.pathsep)
    folders += [os.path.join(here, "..", "..", "lib", "wsi2h5", "plugin"), os.path.join(here, "..", "build"),
                "/usr/local/lib/wsi2h5/plugin", "/usr/lib/wsi2h5/plugin"]
    found = [p for f in folders if f for p in glob.glob(os.path.join(glob.escape(f), "libh5jpeg.so"))]
    return found + glob.glob("/usr/lib/*/hdf5/serial/plugins/libh5jpeg.so")  # the package hdf5-plugin-h5jpeg


def _plugin():
    """Our own plug-in: it needs no HDF5, and has a function that decodes the upper rows only."""
    paths = _plugin_paths()
    if not paths:
        raise ImportError("libh5jpeg.so")
    library = ctypes.CDLL(paths[0])
    decode = library.h5jpeg_decode_top
    decode.argtypes = [ctypes.c_uint * 4, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_void_p]

    def unpack(data, shape, top=0):
        out = np.empty((top or shape[0], *shape[1:]), np.uint8)
        values = (ctypes.c_uint * 4)(90, shape[1], shape[0], 1)
        if decode(values, data, len(data), len(out), out.ctypes.data):
            raise ValueError("it is damaged")
        return out
    unpack.partly = True
    return unpack


JPEG = collections.OrderedDict(plugin=_plugin, simplejpeg=_simplejpeg, turbojpeg=_turbojpeg, imagecodecs=_imagecodecs,
                               opencv=_opencv)
CODECS = {"none": _none, "deflate": _deflate, "lz4": _lz4, "zstd": _zstd}
# the compressor that Zarr calls for a codec; there is none for the chunks of lz4
ZARR = {"none": None, "deflate": {"id": "zlib", "level": 1}, "zstd": {"id": "zstd", "level": 1},
        "jpeg": {"id": "imagecodecs_jpeg"}}
REMEDY = {"lz4": "pip install lz4", "zstd": "pip install zstandard",
          "jpeg": "pip install simplejpeg, or set HDF5_PLUGIN_PATH to the folder of libh5jpeg.so"}


def _unpacker(path, codec, jpeg):
    """The first of the codec's functions that works here, or None: HDF5 must unpack."""
    makers = JPEG if codec == "jpeg" else {None: CODECS[codec]} if codec in CODECS else {}
    for make in [makers[jpeg]] if codec == "jpeg" and jpeg else makers.values():
        try:
            return make()
        except (ImportError, OSError, RuntimeError, AttributeError):
            continue
    if codec != "jpeg" and _hdf5_unpacks(path):
        return None
    raise StoreError("%s: nothing here unpacks codec %s; %s" % (path, codec, REMEDY.get(codec, "pip install hdf5plugin")))


def _hdf5_unpacks(path):
    with contextlib.suppress(ImportError):
        import hdf5plugin  # noqa: F401
    with _h5py_file(path) as f:
        layout = next(iter(f["groups"].values()))["pixels"].id.get_create_plist()
        return all(h5py.h5z.filter_avail(layout.get_filter(k)[0]) for k in range(layout.get_nfilters()))


# --- the store ---

def open_store(path, crc=True, jpeg=None, cache_bytes=4 << 20):
    """Opens a store. `crc`: the checksum of every chunk is checked when it is first read; without, damage may become
    wrong pixels. `jpeg` names the decoder (one of JPEG; None: the
    first that is installed). `cache_bytes` bounds the unpacked chunks that are kept for the next region."""
    s = Store(path, crc, jpeg, cache_bytes)
    s._unpack  # whether anything here unpacks the chunks shows now
    return s


class _Group:
    """Rows of the slide. The tables, [chunk row][chunk column], are read when they are first needed."""

    def __init__(self, name, first_row, rows):
        self.name, self.first_row, self.rows = name, first_row, rows
        self.at = self.bytes = self.mask = self.status = self.crc32 = self.trusted = None


class Store:
    """A store that is open for reading. Attributes: path, width, height, channels, downsample, codec, attrs (all
    attributes of the root), mpp (x, y of the stored level, or None), properties (of the slide)."""

    def __init__(self, path, crc, jpeg, cache_bytes):
        self._fd, self._cache, self._cached, self._h5, self._pid = -1, collections.OrderedDict(), 0, None, 0
        self.path, self._options, self._lock = os.fspath(path), (crc, jpeg, cache_bytes), threading.RLock()
        self._crc = crc
        try:
            self._fd = os.open(self.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            with self._file() as f:
                self._read_head(f)
        except OSError as e:
            raise StoreError("%s: %s" % (self.path, e.strerror)) from e
        except StoreError:
            self.close()
            raise

    @contextlib.contextmanager
    def _file(self):
        """The file in h5py, for a moment, so that a fork never copies an open handle of HDF5."""
        mine, path = os.fstat(self._fd), os.stat(self.path)
        if not os.path.samestat(mine, path) or mine.st_mtime_ns != path.st_mtime_ns:
            raise StoreError("%s: was replaced while it was open; open it again" % self.path)
        try:
            with _h5py_file(self.path) as f:
                yield f
        except StoreError:
            raise
        except (OSError, KeyError, ValueError, RuntimeError, TypeError, IndexError) as e:
            raise StoreError("%s: not a store, or damaged: %s; make it with wsi2h5" % (self.path, e)) from e

    def _read_head(self, f):
        a = dict(f.attrs)
        if _text(a.get("format")) != FORMAT:
            raise StoreError("%s: not a store; wsi2h5 makes stores" % self.path)
        if a.get("format_version") not in VERSIONS:
            raise StoreError("%s: format_version %s is unknown; a newer wsi_store.py is needed"
                             % (self.path, a.get("format_version")))
        if a.get("complete") != 1:
            raise StoreError("%s: unfinished; run wsi2h5 again" % self.path)
        self.attrs = {k: _text(v) if isinstance(v, (bytes, str)) else v.item() for k, v in a.items()}
        self.width, self.height, self.channels = (int(a[k]) for k in ("width", "height", "channels"))
        self.downsample, self.codec = float(a["downsample"]), _text(a["codec"])
        self._chunk = int(a["chunk_rows"]), int(a["chunk_cols"]), self.channels
        mpp = [a[k] * self.downsample if k in a else None for k in ("mpp_x", "mpp_y")]
        self.mpp = None if None in mpp else tuple(float(m) for m in mpp)
        self.properties = {k: _text(v) for k, v in f["properties"].attrs.items() if k != "text_crc32"} \
            if "properties" in f else {}
        self._read_groups(f)

    def _read_groups(self, f):
        self._groups = []
        self._group_rows, row = int(self.attrs["group_rows"]), 0
        for name in sorted(f["groups"], key=int):
            rows = min(self._group_rows, self.height - row)
            pixels = f["groups"][name]["pixels"]
            if pixels.shape != (rows, self.width, self.channels) or pixels.chunks != self._chunk:
                raise StoreError("%s: group %s has another shape than the slide; make the store again"
                                 % (self.path, name))
            self._groups.append(_Group(name, row, rows))
            row += rows
        if row != self.height or self._group_rows % self._chunk[0]:
            raise StoreError("%s: groups are missing; make the store again" % self.path)

    # --- life ---

    def close(self):
        """Releases the file. Closing twice is harmless."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        self._cache.clear()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def __del__(self):
        if getattr(self, "_fd", -1) >= 0:
            self.close()

    def __reduce__(self):
        return Store, (self.path, *self._options)

    def __repr__(self):
        return "<Store %s: %d x %d px, %s>" % (self.path, self.width, self.height, self.codec)

    # --- chunks ---

    @functools.cached_property
    def _unpack(self):
        return _unpacker(self.path, self.codec, self._options[1])

    def _load(self, g):
        """Reads a group's tables."""
        shape = -(-g.rows // self._chunk[0]), -(-self.width // self._chunk[1])
        with self._lock:
            if g.at is not None:
                return
            with self._file() as f:
                h = f["groups"][g.name]
                status, crc32 = h["tile_status"][()], h["tile_crc32"][()]
                if status.shape != shape or crc32.shape != shape:
                    raise StoreError("%s: tables of group %s have another shape; make the store again"
                                     % (self.path, g.name))
                at, size, mask = (np.zeros(shape, np.int64) for _ in range(3))
                for c in _stored(h["pixels"]):
                    place = c.chunk_offset[0] // self._chunk[0], c.chunk_offset[1] // self._chunk[1]
                    at[place], size[place], mask[place] = c.byte_offset, c.size, c.filter_mask
            most = 2 * self._chunk[0] * self._chunk[1] * self._chunk[2] + (128 << 10)
            if ((size == 0) != (status == LEFT_OUT)).any() or size.max() > most or at.min() < 0:
                raise StoreError("%s: group %s lacks chunks, or has some of impossible size; make the store again"
                                 % (self.path, g.name))
            # Python's integers are quicker to use one by one than numpy's
            g.bytes, g.mask, g.status, g.crc32 = size.tolist(), mask.tolist(), status.tolist(), crc32.tolist()
            g.trusted = [bytearray([not self._crc]) * shape[1] for _ in range(shape[0])]
            g.at = at.tolist()

    def _stored_bytes(self, g, r, k, first=0, n=None):
        """n bytes of the chunk from byte `first` on, as stored; None: all of them."""
        n = g.bytes[r][k] if n is None else n
        if self._fd < 0:
            raise StoreError("%s: is closed" % self.path)
        data = os.pread(self._fd, n, g.at[r][k] + first)
        if len(data) != n:
            raise StoreError("%s: ends inside chunk (%d, %d) of group %s; make the store again"
                             % (self.path, r, k, g.name))
        return data

    def _trusted_bytes(self, g, r, k):
        """All bytes of the chunk. Their CRC is checked once while the store is open."""
        data = self._stored_bytes(g, r, k)
        if not g.trusted[r][k]:
            if zlib.crc32(data) != g.crc32[r][k]:
                raise StoreError("%s: CRC mismatch in chunk (%d, %d) of group %s; copy or make the store again"
                                 % (self.path, r, k, g.name))
            g.trusted[r][k] = 1
        return data

    def chunk_bytes(self, row, column):
        """The bytes of the slide's chunk (row, column) as stored, and HDF5's filter mask; None if it was left out."""
        g, r = self._group_of(row * self._chunk[0])
        return None if g.status[r][column] == LEFT_OUT else (self._trusted_bytes(g, r, column), g.mask[r][column])

    def _group_of(self, y):
        g = self._groups[y // self._group_rows]
        if g.at is None:
            self._load(g)
        return g, (y - g.first_row) // self._chunk[0]

    def _pixels(self, g, r, k, rows):
        """The pixels of a chunk, at least its first `rows` rows, [.][chunk_cols][channels]: cached or unpacked."""
        key = g.name, r, k
        with self._lock:
            if key in self._cache and len(self._cache[key]) >= rows:
                self._cache.move_to_end(key)
                return self._cache[key]
        data = self._trusted_bytes(g, r, k)
        if not getattr(self._unpack, "partly", False):
            rows = self._chunk[0]
        try:
            if self._unpack is None and not g.mask[r][k] & 1:
                pixels = self._through_hdf5(g, r, k)
            elif rows < self._chunk[0]:
                pixels = self._unpack(data, self._chunk, rows)
            else:
                pixels = (_array if g.mask[r][k] & 1 else self._unpack)(data, self._chunk)
            if pixels.shape != (rows, *self._chunk[1:]):
                raise ValueError("it has another size")
        except Exception as e:  # each library has its own kinds
            raise StoreError("%s: chunk (%d, %d) of group %s cannot be unpacked: %s; make the store again"
                             % (self.path, r, k, g.name, e)) from e
        self._keep(key, pixels)
        return pixels

    def _through_hdf5(self, g, r, k):
        """For codecs that only a plug-in of HDF5 unpacks; a forked process opens the file anew."""
        with self._lock:
            if self._pid != os.getpid():
                self._h5, self._pid = _h5py_file(self.path), os.getpid()
            rows, cols = self._chunk[:2]
            part = self._h5["groups"][g.name]["pixels"][r * rows:(r + 1) * rows, k * cols:(k + 1) * cols]
        pixels = np.full(self._chunk, WHITE, np.uint8)
        pixels[:part.shape[0], :part.shape[1]] = part
        return pixels

    def _keep(self, key, pixels):
        most = self._options[2]
        with self._lock:
            if pixels.nbytes <= most:
                self._cached += pixels.nbytes - getattr(self._cache.pop(key, None), "nbytes", 0)
                self._cache[key] = pixels
            while self._cached > most:
                self._cached -= self._cache.popitem(last=False)[1].nbytes

    def references(self, url=None):
        """A dict in the reference format of kerchunk (version 1), which presents the pixels as the Zarr array `pixels`
        [height][width][channels] u8. Readers find the store at `url` (None: its full path). A chunk of Zarr is a chunk
        of the store, and one that the store left out has no entry."""
        if self.codec not in ZARR:
            raise StoreError("%s: Zarr cannot read codec %s; convert the slide with another codec" % (self.path, self.codec))
        array = {"zarr_format": 2, "shape": [self.height, self.width, self.channels], "chunks": list(self._chunk),
                 "dtype": "|u1", "compressor": ZARR[self.codec], "fill_value": WHITE, "order": "C", "filters": None}
        attributes = {"_ARRAY_DIMENSIONS": ["y", "x", "c"], "level": self.attrs["level"],
                      "mpp_x": self.mpp and self.mpp[0], "mpp_y": self.mpp and self.mpp[1]}
        refs = {".zgroup": json.dumps({"zarr_format": 2}), "pixels/.zarray": json.dumps(array),
                "pixels/.zattrs": json.dumps(attributes)}
        raw, url = 0, url or os.path.realpath(self.path)
        for row in range(-(-self.height // self._chunk[0])):
            g, r = self._group_of(row * self._chunk[0])
            for k, n in enumerate(g.bytes[r]):
                raw += self.codec != "none" and g.mask[r][k] & 1
                if n > 0:
                    refs["pixels/%d.%d.0" % (row, k)] = [url, g.at[r][k], n]
        if raw:
            raise StoreError("%s: %d chunks are stored without compression, which Zarr cannot mix with others; "
                             "convert the slide with --codec none or jpeg" % (self.path, raw))
        return {"version": 1, "refs": refs}

    # --- what users read ---

    def read_region(self, x, y, width, height, edge="pad", fill=WHITE):
        """uint8 [height][width][channels] from column x, row y of the stored level. Beyond the slide: edge="pad" gives
        `fill`, edge="clip" a smaller array. Background that the store left out is white."""
        if width < 0 or height < 0 or edge not in ("pad", "clip"):
            raise ValueError('sizes are 0 or more, and edge is "pad" or "clip"')
        x, y, width, height = int(x), int(y), int(width), int(height)
        x0, y0 = min(max(x, 0), self.width), min(max(y, 0), self.height)
        x1, y1 = max(min(x + width, self.width), x0), max(min(y + height, self.height), y0)
        if edge == "clip":
            x, y, width, height = x0, y0, x1 - x0, y1 - y0
        inside = (x0, y0, x1, y1) == (x, y, x + width, y + height)
        shape = height, width, self.channels
        out = np.empty(shape, np.uint8) if inside else np.full(shape, fill, np.uint8)
        rows, cols, _ = self._chunk
        row = y0
        while row < y1 and x0 < x1:
            g, r = self._group_of(row)
            top = g.first_row + r * rows
            end = min(y1, top + rows, g.first_row + g.rows)
            for k in range(x0 // cols, -(-x1 // cols)):
                a, b = max(x0, k * cols), min(x1, (k + 1) * cols)
                self._copy(out[row - y:end - y, a - x:b - x], g, r, k, row - top, a - k * cols)
            row = end
        return out

    def _copy(self, out, g, r, k, row, col):
        """Fills `out` with the chunk's pixels from (row, col) on."""
        n, m = out.shape[:2]
        if g.status[r][k] == LEFT_OUT:
            out[...] = WHITE
        elif self.codec == "none" and g.trusted[r][k]:  # only the rows that are needed
            line = self._chunk[1] * self.channels
            data = self._stored_bytes(g, r, k, row * line, n * line)
            out[...] = np.frombuffer(data, np.uint8).reshape(n, -1, self.channels)[:, col:col + m]
        else:
            out[...] = self._pixels(g, r, k, row + n)[row:row + n, col:col + m]

    @property
    def tile_status(self):
        """uint8 [chunk rows][chunk columns] of the slide: 0 whole, MISSING, DAMAGED, LEFT_OUT."""
        for g in self._groups:
            if g.at is None:
                self._load(g)
        return np.array([line for g in self._groups for line in g.status], np.uint8)

    @property
    def tissue(self):
        """bool [ceil(height / tissue_cell)][ceil(width / tissue_cell)], or None: the store has no map of tissue."""
        with self._file() as f:
            return f["tissue/mask"][()].astype(bool) if "tissue/mask" in f else None

    tissue_cell = 32

    @property
    def thumbnail(self):
        """uint8 [h][w][3], or None."""
        with self._file() as f:
            if "associated/thumbnail" not in f:
                return None
            t = f["associated/thumbnail"]
            return self._strips(t) if "stored_crc32" in t.attrs else t[()]

    def _strips(self, t):
        """A thumbnail that is stored as JPEG files, one for each strip of rows. A short last one is its pixels."""
        shape = t.chunks
        stored = [t.id.read_direct_chunk((row, 0, 0)) for row in range(0, t.shape[0], shape[0])]
        crc = 0
        for _, data in stored:
            crc = zlib.crc32(data, crc)
        if crc != t.attrs["stored_crc32"]:
            raise StoreError("%s: CRC mismatch in the thumbnail; copy or make the store again" % self.path)
        try:
            strips = [(_array if mask & 1 else self._unpack)(data, shape) for mask, data in stored]
        except Exception as e:  # each library has its own kinds
            raise StoreError("%s: its thumbnail cannot be unpacked: %s; make the store again" % (self.path, e)) from e
        return np.concatenate(strips)[:t.shape[0]]

    def places(self, size=256, stride=None, min_tissue=0.0, limit=None, seed=None):
        """int64 [n][2], the x and y of patches of size x size px that lie inside the slide: a grid with this stride
        (default: size), those with at least this fraction of tissue. `limit` takes the first, or with `seed` a
        random choice, of so many."""
        stride = stride or size
        if size <= 0 or stride <= 0 or not 0 <= min_tissue <= 1:
            raise ValueError("size and stride are positive, min_tissue is 0 to 1")
        x = np.arange(0, max(self.width - size + 1, 0), stride)
        y = np.arange(0, max(self.height - size + 1, 0), stride)
        at = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2).astype(np.int64)
        if min_tissue > 0:
            at = at[self._tissue_fraction(at, size) >= min_tissue]
        if limit is not None and limit < len(at):
            chosen = range(limit) if seed is None else sorted(random.Random(seed).sample(range(len(at)), limit))
            at = at[np.fromiter(chosen, np.int64, limit)]
        return at

    def _tissue_fraction(self, at, size):
        tissue = self.tissue
        if tissue is None:
            raise StoreError("%s: has no map of tissue; convert the slide without --no-tissue" % self.path)
        sums = np.zeros((tissue.shape[0] + 1, tissue.shape[1] + 1), np.int64)
        sums[1:, 1:] = tissue.cumsum(0).cumsum(1)
        a, b = at // self.tissue_cell, -(-(at + size) // self.tissue_cell)  # all cells that the patch touches
        (x0, y0), (x1, y1) = a.T, b.T
        return (sums[y1, x1] - sums[y0, x1] - sums[y1, x0] + sums[y0, x0]) / ((x1 - x0) * (y1 - y0))

    def patches(self, size=256, stride=None, min_tissue=0.0, limit=None, seed=None):
        """Yields x, y and the pixels of each of places()."""
        for x, y in self.places(size, stride, min_tissue, limit, seed).tolist():
            yield x, y, self.read_region(x, y, size, size)

    def windows(self, result, slide=None):
        """The windows of this slide that count in a result of h5spec: a dict of equally long arrays, x and y (px of the
        stored level), then each map of the result by its name without "window_", such as mean_db. The slide is found
        by its quickhash, or by its name in the result, `slide`. pandas.DataFrame(s.windows("result.h5")) is a table."""
        with h5py.File(os.fspath(result), "r") as f:
            if _text(f.attrs.get("format", "")) != "wsi-spectrum" or f.attrs.get("complete") != 1:
                raise StoreError("%s: not a finished result of h5spec" % result)
            s = self._slide_of(f, slide)
            maps = {k[len("window_"):]: _values(d) for k, d in s.items() if k.startswith("window_")}
            j, i = np.nonzero(~np.isnan(maps["mean_db"]))
            stride = int(s.attrs["stride"])
            return dict(x=i * stride, y=j * stride, **{k: m[j, i] for k, m in maps.items()})

    def _slide_of(self, f, name):
        slides = f["slides"]
        if name is not None and name in slides:
            return slides[name]
        mine = self.attrs.get("quickhash") or None
        for s in slides.values() if name is None else ():
            if _text(s.attrs.get("quickhash", "")) == mine:
                return s
        stem = name or os.path.basename(self.path)[:-len(".h5")]
        if stem in slides and not mine:
            return slides[stem]
        raise StoreError("%s: has no slide %s" % (f.filename, stem))


def _h5py_file(path):
    try:
        return h5py.File(path, "r", locking=False)  # the disk may not know locks
    except (TypeError, ValueError, OSError):  # unknown to this h5py, or open elsewhere with another choice
        return h5py.File(path, "r")


def _text(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _values(d):
    """A map as floats, NaN where it has no value; flags stay integers."""
    v = d[()]
    if "scale" not in d.attrs:
        return v
    return np.where(v == d.fillvalue, np.nan, v * float(np.ravel(d.attrs["scale"])[0]))


def _stored(pixels):
    """What h5py says of every stored chunk: chunk_offset, filter_mask, byte_offset, size."""
    d, found = pixels.id, []
    if hasattr(d, "chunk_iter"):
        d.chunk_iter(found.append)
        return found
    return [d.get_chunk_info(i) for i in range(d.get_num_chunks())]


# --- the command ---

def _write_patches(o):
    import PIL.Image
    with open_store(o.store) as s:
        os.makedirs(o.output, exist_ok=True)
        n = 0
        with open(os.path.join(o.output, "patches.csv"), "w", newline="") as f:
            table = csv.writer(f)
            table.writerow(["file", "x", "y", "size", "downsample"])
            for x, y, pixels in s.patches(o.size, o.stride, o.min_tissue, o.limit, o.seed):
                name = "x%06d_y%06d.%s" % (x, y, "jpg" if o.format == "jpeg" else "png")
                image = PIL.Image.fromarray(pixels if s.channels == 3 else pixels[:, :, 0])
                image.save(os.path.join(o.output, name), **({"quality": o.quality} if o.format == "jpeg" else {}))
                table.writerow([name, x, y, o.size, s.downsample])
                n += 1
    print("%d patches and patches.csv in %s" % (n, o.output), file=sys.stderr)


def _write_index(o):
    if o.url == "":
        raise ValueError("--url: the address is empty")
    with Store(o.store, True, None, 0) as s:
        json.dump(s.references(o.url), sys.stdout)
    print()


def main():
    p = argparse.ArgumentParser(description="Reads the patch stores of wsi2h5.",
                                epilog="example: wsi_store.py patches slide.h5 -o patches --min-tissue 0.5 --limit 1000")
    commands = p.add_subparsers(dest="command", metavar="COMMAND", required=True)
    c = commands.add_parser("patches", help="write patches as pictures, and their coordinates as patches.csv")
    c.add_argument("store", metavar="STORE")
    c.add_argument("-o", dest="output", metavar="DIR", required=True, help="folder, created if it does not exist")
    c.add_argument("--size", type=int, default=256, metavar="PX", help="of a patch (default: %(default)s)")
    c.add_argument("--stride", type=int, metavar="PX", help="step between patches (default: the size)")
    c.add_argument("--min-tissue", type=float, default=0.0, metavar="F", help="only patches with this fraction of tissue")
    c.add_argument("--limit", type=int, metavar="N", help="at most N patches, the first ones")
    c.add_argument("--seed", type=int, metavar="K", help="with --limit: a random choice instead of the first ones")
    c.add_argument("--format", choices=("png", "jpeg"), default="png", help="default: %(default)s")
    c.add_argument("--quality", type=int, default=90, metavar="Q", help="of JPEG (default: %(default)s)")
    c.set_defaults(run=_write_patches)
    c = commands.add_parser("index", help="print a reference file (kerchunk) with which Zarr reads the store without HDF5")
    c.add_argument("store", metavar="STORE")
    c.add_argument("--url", help="where readers will find the store, such as s3://bucket/slide.h5 (default: its path)")
    c.set_defaults(run=_write_index)
    o = p.parse_args()
    try:
        o.run(o)
    except ImportError as e:
        sys.exit("wsi_store.py: %s; pip install pillow" % e)
    except (StoreError, ValueError, OSError) as e:
        sys.exit("wsi_store.py: %s" % e)


if __name__ == "__main__":
    main()
