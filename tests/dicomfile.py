"""Makes DICOM whole-slide images of the tiles of a slide that mkslide has made with --complete-tiles.

The same tiles in an Aperio SVS file and in DICOM files must give the same pixels.
"""
import itertools
import os
import struct

from tiffpatch import LENGTH, TILE_OFFSETS, WIDTH, Tiff

TILE_WIDTH, TILE_LENGTH, PHOTOMETRIC, COMPRESSION = 322, 323, 262, 259
WSI, JPEG = "1.2.840.10008.5.1.4.1.1.77.1.6", "1.2.840.10008.1.2.4.50"
J2K_LOSSLESS, J2K = "1.2.840.10008.1.2.4.90", "1.2.840.10008.1.2.4.91"
LONG = (b"OB", b"OV", b"SQ", b"UN")
UNDEFINED = 0xffffffff

# values that no store may hold without --keep-identifiers
CANARIES = ("CANARY^PATIENT", "CANARYID", "CANARYACCESSION", "CANARYBARCODE", "CANARYOPERATOR", "19560312", "CANARYSERIAL",
            "CANARYCOMMENT", "CANARYSTUDY")


def element(tag, vr, value=b"", length=None):
    if isinstance(value, str):
        value = value.encode()
        value += (b"\0" if vr == b"UI" else b" ") * (len(value) % 2)
    n = len(value) if length is None else length
    head = struct.pack("<HH2s", tag >> 16, tag & 0xffff, vr)
    return head + (struct.pack("<HI", 0, n) if vr in LONG else struct.pack("<H", n)) + value


def us(tag, value):
    return element(tag, b"US", struct.pack("<H", value))


def ul(tag, value):
    return element(tag, b"UL", struct.pack("<I", value))


def item(value=b"", closed=True):
    if closed:
        return struct.pack("<HHI", 0xfffe, 0xe000, len(value)) + value
    return struct.pack("<HHI", 0xfffe, 0xe000, UNDEFINED) + value + struct.pack("<HHI", 0xfffe, 0xe00d, 0)


END = struct.pack("<HHI", 0xfffe, 0xe0dd, 0)


def sequence(tag, *items, closed=True):
    """With `closed`, lengths are stated; else delimiters end the sequence and its items."""
    value = b"".join(item(i, closed) for i in items)
    return element(tag, b"SQ", value) if closed else element(tag, b"SQ", value + END, UNDEFINED)


class Level:
    """The tiles of a directory of an SVS file."""

    def __init__(self, svs, directory=0):
        t = Tiff(svs)

        def value(tag):
            kind, _, entry = t.directories[directory][tag]
            return struct.unpack_from("<H" if kind == 3 else "<I", t.data, entry + 8)[0]
        self.width, self.height = value(WIDTH), value(LENGTH)
        self.cols, self.rows = value(TILE_WIDTH), value(TILE_LENGTH)
        self.photometric = "RGB" if value(PHOTOMETRIC) == 2 else "YBR_FULL_422"
        self.syntax = JPEG
        if value(COMPRESSION) in (33003, 33005):  # of mkslide: YCbCr without, RGB with a transform of the stream
            self.photometric, self.syntax = ("YBR_FULL" if value(COMPRESSION) == 33003 else "YBR_RCT"), J2K
        self.across, self.down = -(-self.width // self.cols), -(-self.height // self.rows)
        self.tiles = [t.tile(k, directory)[1] for k in range(t.directories[directory][TILE_OFFSETS][1])]
        self.places = [(k % self.across, k // self.across) for k in range(len(self.tiles))]


def restated(stream, adobe=None, ids=(1, 2, 3), jfif=False):
    """A JPEG stream that says of itself: transform of an Adobe marker (None: no marker), ids of the components, JFIF."""
    out, at, marker = bytearray(b"\xff\xd8"), 2, 0
    if jfif:
        out += b"\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0"
    if adobe is not None:
        out += b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0" + bytes([adobe])
    while marker != 0xda:
        marker, n = stream[at + 1], struct.unpack_from(">H", stream, at + 2)[0]
        segment = bytearray(stream[at:at + 2 + n])
        if marker in (0xc0, 0xda):
            step, first = (3, 10) if marker == 0xc0 else (2, 5)
            segment[first:first + 3 * step:step] = bytes(ids)
        out += segment
        at += 2 + n
    return bytes(out) + stream[at:]


def levels(svs):
    t = Tiff(svs)
    return [Level(svs, k) for k, d in enumerate(t.directories) if TILE_OFFSETS in d]


def fragments(frames, split):
    """Bytes of the items of each frame."""
    out = []
    for f in frames:
        f += b"\0" * (len(f) % 2)
        parts = [f] if split < 2 else [f[a:a + len(f) // split // 2 * 2 + 2]
                                       for a in range(0, len(f), len(f) // split // 2 * 2 + 2)]
        out.append(b"".join(item(p) for p in parts))
    return out


def pixel_data(frames, table="basic", split=1, offsets=None, lost=(), end=END):
    """The element of the pixels and those before it. `table`: basic, extended, wsidicom (lengths with the heads of items, but for the last) or none; `offsets`: other ones for the table.
    `lost`: numbers of items that are not in the file. `end`: what follows the items."""
    items = fragments(frames, split)
    offsets = offsets or list(itertools.accumulate((len(i) for i in items[:-1]), initial=0))
    basic = struct.pack("<%dI" % len(items), *offsets) if table == "basic" else b""
    before = b""
    if table in ("extended", "wsidicom"):
        lengths = [len(f) for f in (frames if table == "extended" else items[:-1] + frames[-1:])]
        before = element(0x7fe00001, b"OV", struct.pack("<%dQ" % len(items), *offsets))
        before += element(0x7fe00002, b"OV", struct.pack("<%dQ" % len(items), *lengths))
    data = b"".join(items)
    if lost:
        data = b"".join(i for k, i in enumerate(split_items(data)) if k not in lost)
    return before + element(0x7fe00010, b"OB", item(basic) + data + end, UNDEFINED)


def split_items(data):
    at = 0
    while at < len(data):
        n = 8 + struct.unpack_from("<I", data, at + 4)[0]
        yield data[at:at + n]
        at += n


def position(x, y, z=None):
    z = b"" if z is None else element(0x0040074a, b"DS", str(z))
    return sequence(0x0048021a, z + element(0x0048021e, b"SL", struct.pack("<i", x)) +
                    element(0x0048021f, b"SL", struct.pack("<i", y)))


def instance(level, *, image_type="ORIGINAL\\PRIMARY\\VOLUME\\NONE", series="1.2.3", sop="1.2.3.1", table="basic", split=1,
             mpp=0.25, sparse=None, organization=None, frames=None, closed=True, change=None, label="NO", icc=b"", pixels=None, drop=()):
    """The bytes of a file. `change` maps a tag to the element in its place; `sparse` lists (column, row) of each frame, which is TILED_SPARSE
    unless `organization` names another one."""
    frames = level.tiles if frames is None else frames
    optical = element(0x00480112, b"DS", "20")
    if icc:
        optical = element(0x00282000, b"OB", icc) + optical
    measures = sequence(0x00289110, element(0x00280030, b"DS", "%.6g\\%.6g" % (mpp / 1000, mpp / 1000)), closed=closed)
    data = {
        0x00080008: element(0x00080008, b"CS", image_type),
        0x00080016: element(0x00080016, b"UI", WSI),
        0x00080018: element(0x00080018, b"UI", sop),
        0x00080020: element(0x00080020, b"DA", "19560312"),
        0x00080050: element(0x00080050, b"SH", "CANARYACCESSION"),
        0x00081070: element(0x00081070, b"PN", "CANARYOPERATOR"),
        0x00100010: element(0x00100010, b"PN", "CANARY^PATIENT"),
        0x00100020: element(0x00100020, b"LO", "CANARYID"),
        0x00181000: element(0x00181000, b"LO", "CANARYSERIAL"),
        0x0020000d: element(0x0020000d, b"UI", "1.2"),
        0x0020000e: element(0x0020000e, b"UI", series),
        0x00200010: element(0x00200010, b"SH", "CANARYSTUDY"),
        0x00204000: element(0x00204000, b"LT", "CANARYCOMMENT"),
        0x00209311: element(0x00209311, b"CS", organization or ("TILED_FULL" if sparse is None else "TILED_SPARSE")),
        0x00280002: us(0x00280002, 3),
        0x00280004: element(0x00280004, b"CS", level.photometric),
        0x00280006: us(0x00280006, 0),
        0x00280008: element(0x00280008, b"IS", str(len(frames))),
        0x00280010: us(0x00280010, level.rows),
        0x00280011: us(0x00280011, level.cols),
        0x00280100: us(0x00280100, 8),
        0x00280101: us(0x00280101, 8),
        0x00280102: us(0x00280102, 7),
        0x00280103: us(0x00280103, 0),
        0x00400512: element(0x00400512, b"LO", "CANARYBARCODE"),
        0x00480001: element(0x00480001, b"FL", struct.pack("<f", level.width * mpp / 1000)),
        0x00480006: ul(0x00480006, level.width),
        0x00480007: ul(0x00480007, level.height),
        0x00480010: element(0x00480010, b"CS", label),
        0x00480105: sequence(0x00480105, optical, closed=closed),
        0x00480302: ul(0x00480302, 1),
        0x00480303: ul(0x00480303, 1),
        0x52009229: sequence(0x52009229, measures, closed=closed),
    }
    if sparse is not None:
        data[0x52009230] = sequence(0x52009230, *(position(1 + c * level.cols, 1 + r * level.rows) for c, r in sparse),
                                    closed=closed)
    data.update(change or {})
    for tag in drop:
        data.pop(tag)
    syntax = data.pop("syntax", level.syntax)
    meta = element(0x00020002, b"UI", WSI) + element(0x00020003, b"UI", sop) + element(0x00020010, b"UI", syntax)
    head = b"\0" * 128 + b"DICM" + ul(0x00020000, len(meta)) + meta
    return head + b"".join(data[k] for k in sorted(data)) + (pixels or pixel_data(frames, table, split))


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)
    return path


def slide(folder, svs, series="1.2.3", name="level%d.dcm", **options):
    """A slide with the levels of an SVS file; the path of its level 0."""
    for k, level in enumerate(levels(svs)):
        kind = "ORIGINAL\\PRIMARY\\VOLUME\\NONE" if k == 0 else "DERIVED\\PRIMARY\\VOLUME\\RESAMPLED"
        write(os.path.join(folder, name % k), instance(level, image_type=kind, series=series, sop="%s.%d" % (series, k + 1),
                                                       mpp=0.25 * levels(svs)[0].width / level.width, **options))
    return os.path.join(folder, name % 0)


def concatenation(folder, svs, cuts, number=0, series="1.2.3", stated=True, sparse=False, sop="1.2.3.%d", name="part%d.dcm",
                  edit=lambda tile: tile, **options):
    """A level in several files, cut before the frames `cuts`: paths of its files. `stated`: they say how many there are. `edit`
    changes each stream."""
    level, paths = levels(svs)[number], []
    more = options.pop("change", {})
    ends = [0, *cuts, len(level.tiles)]
    for k, (a, b) in enumerate(zip(ends, ends[1:])):
        change = {0x00209161: element(0x00209161, b"UI", series + ".99.%d" % number), 0x00209162: us(0x00209162, k + 1),
                  0x00209228: ul(0x00209228, a), 0x00200242: element(0x00200242, b"UI", series + ".98.%d" % number)}
        if stated:
            change[0x00209163] = us(0x00209163, len(ends) - 1)
        paths.append(write(os.path.join(folder, name % k), instance(
            level, frames=[edit(t) for t in level.tiles[a:b]], series=series, sop=sop % (100 + k), sparse=level.places[a:b] if sparse else None,
            change={**change, **more}, **options)))
    return paths
