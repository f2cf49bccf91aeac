"""Changes tags and tiles of the classic little-endian TIFF files that mkslide makes."""
import struct

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


def tiled_page(data, planes, side=256, photometric=2, separate=False, palette=None, **tags):
    """Appends a picture of uncompressed tiles, a list of planes uint8 [height][width], to a classic TIFF file. `separate`: each tile holds one
    plane. `tags` as tag_254=(type, [values]). Returns the directory without the offset of the next."""
    height, width = planes[0].shape
    n, tiles = len(planes), []
    for some in ([[p] for p in planes] if separate else [planes]):
        for y in range(0, height, side):
            for x in range(0, width, side):
                tile = bytearray(side * side * len(some))
                for k, p in enumerate(some):
                    for r, row in enumerate(p[y:y + side, x:x + side]):
                        at = r * side * len(some) + k
                        tile[at:at + len(row) * len(some):len(some)] = row.tobytes()
                tiles.append(bytes(tile))
    begin = len(data)
    data += b"".join(tiles)
    entries = {256: (4, [width]), 257: (4, [height]), BITS: (3, n * [8]), 259: (3, [1]), 262: (3, [photometric]), 277: (3, [n]),
               284: (3, [2 if separate else 1]), 322: (4, [side]), 323: (4, [side]), TILE_BYTES: (4, [len(t) for t in tiles]),
               TILE_OFFSETS: (4, [begin + len(tiles[0]) * k for k in range(len(tiles))])}
    if palette:
        entries[320] = (3, palette)
    if n in (2, 4):
        entries[338] = (3, [2])  # alpha, not multiplied
    entries.update({int(k[4:]): v for k, v in tags.items()})
    return directory_of(data, entries)


def write_pages(path, pages):
    """A file of several pictures: the arguments of tiled_page for each."""
    data, link = bytearray(struct.pack("<2sHI", b"II", 42, 0)), 4
    for page in pages:
        head = tiled_page(data, **page)
        struct.pack_into("<I", data, link, len(data))
        data += head + bytes(4)
        link = len(data) - 4
    with open(path, "wb") as f:
        f.write(data)
    return path


def write_tiled(path, planes, **how):
    return write_pages(path, [dict(planes=planes, **how)])
