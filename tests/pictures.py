"""Reads the PNG pictures of pages, and makes PNG files, without a library."""
import struct
import zlib

import numpy as np

from lib import expect


def png(data):
    """Width, height, palette and pixels of a PNG picture with a palette."""
    at, out, bits = 8, {}, b""
    while at < len(data):
        (n,), kind = struct.unpack(">I", data[at:at + 4]), data[at + 4:at + 8]
        expect(zlib.crc32(data[at + 4:at + 8 + n]) == struct.unpack(">I", data[at + 8 + n:at + 12 + n])[0], "CRC")
        out[kind] = data[at + 8:at + 8 + n]
        bits += out[kind] if kind == b"IDAT" else b""
        at += 12 + n
    width, height = struct.unpack(">II", out[b"IHDR"][:8])
    rows = np.frombuffer(zlib.decompress(bits), np.uint8).reshape(height, width + 1).copy()
    expect(out[b"IHDR"][8] == 8 and out[b"IHDR"][9] == 3, "kind")
    for y in range(height):  # undo the filters
        f, row, up = rows[y, 0], rows[y, 1:].astype(int), (rows[y - 1, 1:].astype(int) if y else np.zeros(width, int))
        for x in range(width):
            a, b, c = (row[x - 1] if x else 0), up[x], (up[x - 1] if x else 0)
            p = a + b - c
            paeth = a if abs(p - a) <= abs(p - b) and abs(p - a) <= abs(p - c) else b if abs(p - b) <= abs(p - c) else c
            row[x] = (row[x] + (0, a, b, (a + b) // 2, paeth)[f]) & 255
        rows[y, 1:] = row
    expect(rows[:, 1:].max() < len(out[b"PLTE"]) // 3, "colours that the palette lacks")
    return rows[:, 1:], [c for c in out if c not in (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")]


def png_file(cols, rows, colour, bits, *chunks):
    """A PNG file. Chunks: (type, data), between its head and its end."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", cols, rows, bits, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*c) for c in ((b"IHDR", head),) + chunks + ((b"IEND", b""),))
