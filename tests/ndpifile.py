"""Makes Hamamatsu NDPI files of JPEG streams of mkslide: a level is one JPEG with restart markers."""
import os
import struct

from dicomfile import Level
from lib import made, tmp

# texts that no store may hold without --keep-identifiers
CANARIES = ("CANARYREFERENCE", "CANARYSERIAL", "CANARYDATE", "CANARYCOMMENT")
JFIF = b"\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0"


def picture(width, height, restart, subsampling="444", seed=1):
    """A JPEG of the whole picture, with JFIF's marker."""
    svs = made("--size", "%dx%d" % (width, height), "--tile", "%dx%d" % (width, height), "--photometric", "ycbcr", "--seed",
               str(seed), "--subsampling", subsampling, "--complete-tiles", *(("--restart", str(restart)) if restart else ()))
    jpeg = Level(svs).tiles[0]
    return jpeg[:2] + JFIF + b"\xff\xfe\0\x0fCANARYCOMMENT" + jpeg[2:]


def segments(jpeg):
    """Offset and marker of each segment, SOS last."""
    at = 2
    while True:
        n = struct.unpack_from(">H", jpeg, at + 2)[0]
        yield at, jpeg[at + 1]
        if jpeg[at + 1] == 0xda:
            return
        at += 2 + n


def starts_of(jpeg):
    """Offsets of the intervals."""
    at = [a for a, m in segments(jpeg)][-1]
    at += 2 + struct.unpack_from(">H", jpeg, at + 2)[0]
    found = [at]
    while (at := jpeg.find(b"\xff", at)) >= 0:
        if 0xd0 <= jpeg[at + 1] <= 0xd7:
            found.append(at + 2)
        at += 2
    return found


def directory(at, entries):
    """The bytes of a directory at an offset, with its values behind it; entries: (tag, type, values)."""
    sizes = {2: "s", 3: "H", 4: "I", 9: "i", 11: "f"}
    entries = sorted(entries)
    room = at + 2 + 12 * len(entries) + 8 + 4 * len(entries)
    head, values = struct.pack("<H", len(entries)), b""
    for tag, kind, value in entries:
        if kind == 2:
            data = value.encode() + b"\0"
            n = len(data)
        else:
            data = struct.pack("<%d%s" % (len(value), sizes[kind]), *value)
            n = len(value)
        if len(data) <= 4:
            word = data.ljust(4, b"\0")
        else:
            word = struct.pack("<I", room + len(values))
            values += data
        head += struct.pack("<HHI", tag, kind, n) + word
    return head, values, room


class Slide:
    """Levels: JPEGs and their sizes. Call save()."""

    def __init__(self):
        self.levels = []

    def add(self, jpeg, width, height, lens, starts=None, focal=0, **more):
        self.levels.append((jpeg, width, height, lens, starts_of(jpeg) if starts is None else starts, focal, more))
        return self

    def save(self, path=None):
        path = path or os.path.join(tmp("ndpi"), "slide.ndpi")
        out = bytearray(struct.pack("<2sHQ", b"II", 42, 0))
        link = 4
        for jpeg, width, height, lens, starts, focal, more in self.levels:
            place = len(out)
            out += jpeg + b"\0" * (-len(jpeg) % 4)
            at = len(out)
            struct.pack_into("<Q", out, link, at)
            entries = [(256, 4, [width]), (257, 4, [height]), (259, 3, [7]), (262, 3, [6]), (273, 4, [place]), (277, 3, [3]),
                       (278, 4, [height]), (279, 4, [len(jpeg)]), (282, 4, [40000]), (283, 4, [40000]), (296, 3, [3]),
                       (271, 2, "Hamamatsu"), (306, 2, "CANARYDATE"), (65420, 4, [1]), (65421, 11, [lens]), (65424, 9, [focal]),
                       (65427, 2, "CANARYREFERENCE"), (65442, 2, "CANARYSERIAL")]
            if starts:
                entries.append((65426, 4, starts))
            texts = more.get("texts", {})  # tag: text
            entries = [e for e in entries if e[0] not in texts] + [(tag, 2, text) for tag, text in texts.items()]
            entries = [e for e in entries if e[0] not in more.get("drop", ())]
            head, values, room = directory(at, entries)
            link = at + len(head)
            out += head + b"\0" * (room - at - len(head)) + values + b"\0" * (-len(values) % 4)
        with open(path, "wb") as f:
            f.write(out)
        return path
