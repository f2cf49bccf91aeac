"""Classic little-endian TIFF files: changes tags and tiles of those that mkslide makes, and writes others."""
import io
import itertools
import struct

import numpy as np

SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 7: 1, 16: 8}
BITS = 258
WIDTH, LENGTH, DESCRIPTION, TILE_OFFSETS, TILE_BYTES, JPEG_TABLES, ICC = 256, 257, 270, 324, 325, 347, 34675


class Tiff:
    """The bytes of a file; its directories are dicts from a tag to (type, count, where the entry is)."""

    def __init__(self, path):
        self.data = bytearray(open(path, "rb").read())
        self.links, self.directories, at = [4], [], self.u32(4)
        while at:
            n = struct.unpack_from("<H", self.data, at)[0]
            entries = {}
            for k in range(n):
                tag, kind, count = struct.unpack_from("<HHI", self.data, at + 2 + 12 * k)
                entries[tag] = (kind, count, at + 2 + 12 * k)
            self.directories.append(entries)
            self.links.append(at + 2 + 12 * n)
            at = self.u32(self.links[-1])

    def u32(self, at):
        return struct.unpack_from("<I", self.data, at)[0]

    def put_u32(self, at, value):
        struct.pack_into("<I", self.data, at, value)

    def place(self, tag, k=0, directory=0):
        """Where value k of a tag lies."""
        kind, count, entry = self.directories[directory][tag]
        at = entry + 8 if SIZES[kind] * count <= 4 else self.u32(entry + 8)
        return at + k * SIZES[kind]

    def set(self, tag, value, k=0, directory=0):
        kind = self.directories[directory][tag][0]
        struct.pack_into("<H" if kind == 3 else "<I", self.data, self.place(tag, k, directory), value)

    def tile(self, k, directory=0):
        """Offset and bytes of a tile."""
        at = self.u32(self.place(TILE_OFFSETS, k, directory))
        return at, bytes(self.data[at:at + self.u32(self.place(TILE_BYTES, k, directory))])

    def replace_tile(self, k, stream, directory=0):
        self.set(TILE_OFFSETS, len(self.data), k, directory)
        self.set(TILE_BYTES, len(stream), k, directory)
        self.data += stream

    def add_entries(self, more):
        """Puts more tags into the first directory, which moves to the end of the file."""
        entries = {k: bytes(self.data[at:at + 12]) for k, (_, _, at) in self.directories[0].items()}
        entries.update(more)
        following = self.u32(self.links[1])
        self.put_u32(self.links[0], len(self.data))
        self.data += struct.pack("<H", len(entries)) + b"".join(entries[k] for k in sorted(entries)) + struct.pack("<I", following)

    def save(self, path):
        with open(path, "wb") as f:
            f.write(self.data)
        return path


def directory_of(data, entries):
    """A directory of {tag: (type, values)} without the offset of the next; appends values of more than four bytes to the data."""
    heads = b""
    for tag in sorted(entries):
        kind, values = entries[tag]
        value = bytes(values) if kind == 2 else struct.pack("<%d%s" % (len(values), "H" if kind == 3 else "I"), *values)
        count = len(values) // (2 if kind == 5 else 1)
        heads += struct.pack("<HHI", tag, kind, count) + (value.ljust(4, b"\0") if len(value) <= 4 else struct.pack("<I", len(data)))
        data += value if len(value) > 4 else b""
    return struct.pack("<H", len(entries)) + heads


def jpeg_of(pixels, quality=95, **how):
    """The JPEG stream that Pillow makes of an array or a picture of its own."""
    from PIL import Image
    out, picture = io.BytesIO(), pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    picture.save(out, "JPEG", quality=quality, **how)
    return out.getvalue()


def cut(pixels, form):
    """Pixels, [height][width] or [height][width][samples], in tiles of form (width, height), filled with 0 beyond the edge, or in strips of `form` rows."""
    height, width = pixels.shape[:2]
    if isinstance(form, int):
        return [pixels[y:y + form] for y in range(0, height, form)]
    across, down = form
    whole = np.zeros((-(-height // down) * down, -(-width // across) * across) + pixels.shape[2:], pixels.dtype)
    whole[:height, :width] = pixels
    return [whole[y:y + down, x:x + across] for y in range(0, height, down) for x in range(0, width, across)]


class Pages:
    """A classic TIFF file that gets one picture after the other."""

    def __init__(self):
        self.data, self.link = bytearray(struct.pack("<2sHI", b"II", 42, 0)), 4

    def add(self, size, form, parts, tags=(), linked=True):
        """A picture of size (width, height) in tiles or strips of the form that cut() takes, whose bytes are `parts`: 8-bit RGB without compression
        where `tags`, {tag: (type, [values])}, say no other."""
        places = list(itertools.accumulate(map(len, parts), initial=len(self.data)))[:-1]
        self.data += b"".join(parts)
        where = {273: (4, places), 278: (4, [form]), 279: (4, list(map(len, parts)))} if isinstance(form, int) else {
            322: (4, [form[0]]), 323: (4, [form[1]]), TILE_OFFSETS: (4, places), TILE_BYTES: (4, list(map(len, parts)))}
        head = directory_of(self.data, {WIDTH: (4, [size[0]]), LENGTH: (4, [size[1]]), BITS: (3, [8, 8, 8]), 259: (3, [1]), 262: (3, [2]), 277: (3, [3]),
                                        **where, **dict(tags)})
        self.at = len(self.data)  # of its directory, for tag 330 of another one if it is not linked
        if linked:
            struct.pack_into("<I", self.data, self.link, self.at)
            self.link = len(self.data) + len(head)
        self.data += head + bytes(4)
        return self

    def add_planes(self, planes, side=256, photometric=2, separate=False, palette=None, **tags):
        """A picture of uncompressed tiles, a list of planes uint8 [height][width]. `separate`: each tile holds one plane. `tags` as
        tag_254=(type, [values])."""
        n, size = len(planes), planes[0].shape[::-1]
        parts = [tile.tobytes() for some in ([[p] for p in planes] if separate else [planes]) for tile in cut(np.dstack(some), (side, side))]
        entries = {BITS: (3, n * [8]), 262: (3, [photometric]), 277: (3, [n]), 284: (3, [2 if separate else 1])}
        if palette:
            entries[320] = (3, palette)
        if n in (2, 4):
            entries[338] = (3, [2])  # alpha, not multiplied
        return self.add(size, (side, side), parts, {**entries, **{int(k[4:]): v for k, v in tags.items()}})

    def save(self, path):
        with open(path, "wb") as f:
            f.write(self.data)
        return path


def write_pages(path, pages):
    """A file of several pictures: the arguments of add_planes() for each."""
    file = Pages()
    for page in pages:
        file.add_planes(**page)
    return file.save(path)


def write_tiled(path, planes, **how):
    return write_pages(path, [dict(planes=planes, **how)])
