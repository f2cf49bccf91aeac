"""A store that is open for reading."""
import collections
import contextlib
import functools
import json
import os
import random
import threading
import zlib

import h5py
import numpy as np

from .base import FORMAT, LEFT_OUT, VERSIONS, WHITE, StoreError, h5py_file, text_of
from .codecs import ZARR, as_pixels, find_unpacker


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
            with h5py_file(self.path) as f:
                yield f
        except StoreError:
            raise
        except (OSError, KeyError, ValueError, RuntimeError, TypeError, IndexError) as e:
            raise StoreError("%s: not a store, or damaged: %s; make it with wsi2h5" % (self.path, e)) from e

    def _read_head(self, f):
        a = dict(f.attrs)
        if text_of(a.get("format")) != FORMAT:
            raise StoreError("%s: not a store; wsi2h5 makes stores" % self.path)
        if a.get("format_version") not in VERSIONS:
            raise StoreError("%s: format_version %s is unknown; a newer wsi_store is needed"
                             % (self.path, a.get("format_version")))
        if a.get("complete") != 1:
            raise StoreError("%s: unfinished; run wsi2h5 again" % self.path)
        self.attrs = {k: text_of(v) if isinstance(v, (bytes, str)) else v.item() for k, v in a.items()}
        self.width, self.height, self.channels = (int(a[k]) for k in ("width", "height", "channels"))
        self.downsample, self.codec = float(a["downsample"]), text_of(a["codec"])
        self._chunk = int(a["chunk_rows"]), int(a["chunk_cols"]), self.channels
        mpp = [a[k] * self.downsample if k in a else None for k in ("mpp_x", "mpp_y")]
        self.mpp = None if None in mpp else tuple(float(m) for m in mpp)
        self.properties = {k: text_of(v) for k, v in f["properties"].attrs.items() if k != "text_crc32"} \
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
        return find_unpacker(self.path, self.codec, self._options[1])

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
                pixels = (as_pixels if g.mask[r][k] & 1 else self._unpack)(data, self._chunk)
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
                self._h5, self._pid = h5py_file(self.path), os.getpid()
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
            strips = [(as_pixels if mask & 1 else self._unpack)(data, shape) for mask, data in stored]
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
            if text_of(f.attrs.get("format", "")) != "wsi-spectrum" or f.attrs.get("complete") != 1:
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
            if text_of(s.attrs.get("quickhash", "")) == mine:
                return s
        stem = name or os.path.basename(self.path)[:-len(".h5")]
        if stem in slides and not mine:
            return slides[stem]
        raise StoreError("%s: has no slide %s" % (f.filename, stem))


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
