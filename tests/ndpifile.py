"""Makes Hamamatsu NDPI files of JPEG streams of mkslide: a level is one JPEG with restart markers."""
import os
import struct

from dicomfile import Level
from lib import made, tmp

# texts that no store may hold without --keep-identifiers
CANARIES = ("CANARYREFERENCE", "CANARYSERIAL", "CANARYDATE", "CANARYCOMMENT")
JFIF = b"\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0"


def picture(width, height, restart, subsampling="444", seed=1, tissue="ellipses"):
    """A JPEG of the whole picture, with JFIF's marker. Its last blocks are black beyond the picture."""
    side = [-(-size // mcu) * mcu for size, mcu in zip((width, height), (8 if subsampling == "444" else 16, 16 if subsampling == "420" else 8))]
    svs = made("--size", "%dx%d" % (width, height), "--tile", "%dx%d" % tuple(side), "--photometric", "ycbcr", "--seed",
               str(seed), "--subsampling", subsampling, "--complete-tiles", "--tissue", tissue, *(("--restart", str(restart)) if restart else ()))
    jpeg = bytearray(Level(svs).tiles[0])
    frame = next(at for at, marker in segments(jpeg) if marker == 0xc0)
    struct.pack_into(">HH", jpeg, frame + 5, height, width)
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


def directory(room, entries):
    """The values of a directory, which lie at an offset, the directory behind them, and the upper halves of its entries;
    entries: (tag, type, values)."""
    sizes = {2: "s", 3: "H", 4: "I", 9: "i", 11: "f"}
    entries = sorted(entries)
    head, upper, values = struct.pack("<H", len(entries)), b"", b""
    for tag, kind, value in entries:
        if kind == 2:
            data = value.encode() + b"\0"
            n = len(data)
        else:
            data = struct.pack("<%d%s" % (len(value), sizes[kind]), *(v & 0xffffffff if kind == 4 else v for v in value))
            n = len(value)
        if len(data) <= 4:
            word = data.ljust(4, b"\0")
            upper += struct.pack("<I", value[0] >> 32 if kind == 4 else 0)
        else:
            word = struct.pack("<I", room + len(values) & 0xffffffff)
            upper += struct.pack("<I", room + len(values) >> 32)
            values += data
        head += struct.pack("<HHI", tag, kind, n) + word
    return values + b"\0" * (-len(values) % 4), head, upper


class Slide:
    """Levels: JPEGs and their sizes. Call save()."""

    def __init__(self):
        self.levels = []

    def add(self, jpeg, width, height, lens, starts=None, focal=0, **more):
        self.levels.append((jpeg, width, height, lens, starts_of(jpeg) if starts is None else starts, focal, more))
        return self

    def save(self, path=None, behind=12):
        """All but the header lies from the offset `behind` on; before it is a hole."""
        path = path or os.path.join(tmp("ndpi"), "slide.ndpi")
        header, out = bytearray(struct.pack("<2sHQ", b"II", 42, 0)), bytearray()
        link = header, 4
        for jpeg, width, height, lens, starts, focal, more in self.levels:
            place = behind + len(out)
            out += jpeg + b"\0" * (-len(jpeg) % 4)
            entries = [(256, 4, [width]), (257, 4, [height]), (259, 3, [7]), (262, 3, [6]), (273, 4, [place]), (277, 3, [3]),
                       (278, 4, [height]), (279, 4, [len(jpeg)]), (282, 4, [40000]), (283, 4, [40000]), (296, 3, [3]),
                       (271, 2, "Hamamatsu"), (306, 2, "CANARYDATE"), (65420, 4, [1]), (65421, 11, [lens]), (65424, 9, [focal]),
                       (65427, 2, "CANARYREFERENCE"), (65442, 2, "CANARYSERIAL")]
            if starts:
                entries.append((65426, 4, starts))
            texts = more.get("texts", {})  # tag: text
            entries = [e for e in entries if e[0] not in texts and e[0] not in more.get("drop", ())]
            entries += [(tag, 2, text) for tag, text in texts.items()] + list(more.get("entries", ()))
            values, head, upper = directory(behind + len(out), entries)
            out += values
            struct.pack_into("<Q", *link, behind + len(out))
            link = out, len(out) + len(head)
            out += head + bytes(8) + upper
        with open(path, "wb") as f:
            f.write(header)
            f.seek(behind)
            f.write(out)
        return path
