"""Colours: what a DICOM or TIFF file states, and what its JPEG streams state, in every combination, codec and reader."""
import functools
import io
import itertools
import struct

import h5py
import numpy as np
from PIL import Image

from dicomfile import Level, instance, restated, write
from lib import *
from tiffpatch import Pages, Tiff

sys.path.insert(0, os.path.join(ROOT, "scripts"))
import wsi_store  # noqa: E402

RGB, YCBCR = "RGB", "YCbCr"
PHOTOMETRIC = {RGB: 2, YCBCR: 6}  # TIFF's tag
MARKERS, IDS = (None, 0, 1), {"123": (1, 2, 3), "RGB": b"RGB", "other": (0, 1, 7)}


class Case:
    """A file whose header states `header`, and whose streams have this Adobe marker, these ids, maybe a JFIF marker, and this subsampling."""

    def __init__(self, kind, header, marker, ids, jfif=False, sub="444"):
        self.is_dicom, self.header, self.marker, self.ids, self.jfif, self.sub = kind == "dicom", header, marker, ids, jfif, sub
        self.name = "_".join([kind, header, str(marker), ids] + ["jfif"] * jfif + [sub])
        self.file = self.name + (".dcm" if self.is_dicom else ".svs")
        self.stated = RGB if header == "RGB" else YCBCR
        self.streams_state = YCBCR if marker == 1 or (jfif and ids == "123") else RGB if not jfif and (marker == 0 or ids == "RGB") else None
        self.colours = self.streams_state if self.is_dicom and self.streams_state else self.stated
        self.is_impossible = sub != "444" and self.colours == RGB  # RGB has no chroma
        self.is_contradiction = self.is_impossible or self.streams_state not in (None, self.stated)
        self.colours = YCBCR if self.is_impossible else self.colours

    def stream(self, tile):
        return restated(tile, self.marker, IDS[self.ids], self.jfif)

    def write(self, folder):
        if not self.is_dicom:
            return tiff(os.path.join(folder, self.file), self.stated, self.stream, self.sub)
        level = Level(svs(self.sub))
        level.photometric = self.header
        return write(os.path.join(folder, self.file), instance(level, frames=[self.stream(t) for t in level.tiles],
                                                               series="1.2.%d" % zlib.crc32(self.name.encode())))


CASES = [Case(*words) for words in [
    *itertools.product(["dicom"], ["RGB", "YBR_FULL", "YBR_FULL_422"], MARKERS, IDS, [False, True]),
    *itertools.product(["tiff"], [RGB, YCBCR], MARKERS, IDS, [False, True]),
    *itertools.product(["dicom"], ["RGB", "YBR_FULL_422"], MARKERS, IDS, [False, True], ["422"]),
    *itertools.product(["tiff"], [RGB, YCBCR], MARKERS, ["123", "RGB"], [False, True], ["422", "420"])]]


def svs(sub="444"):
    return made("--size", "300x280", "--tile", "128", "--complete-tiles", "--no-thumbnail", "--photometric", "ycbcr",
                "--subsampling", sub, "--mpp", "0.25", "--tissue", "rect:0,0,160,280")


def tiff(path, photometric, stream=lambda tile: tile, sub="444"):
    """The slide with another photometric tag and other tiles."""
    t = Tiff(svs(sub))
    for k in range(len(Level(svs(sub)).tiles)):
        t.replace_tile(k, stream(t.tile(k)[1]))
    t.set(262, PHOTOMETRIC[photometric])
    return t.save(path)


def column(path, photometric, streams, in_tiles):
    """A TIFF of JPEG streams of 128 x 128 px, one below the other, in tiles or strips."""
    return Pages().add((128, 128 * len(streams)), (128, 128) if in_tiles else 128, streams, {
        259: (3, [7]), 262: (3, [PHOTOMETRIC[photometric]])}).save(path)


@functools.lru_cache(None)
def wanted(sub="444"):
    """The pixels if all is RGB, and if all is YCbCr."""
    folder = tmp()
    want = {h: libjpeg_pixels(tiff(os.path.join(folder, h + ".svs"), h, sub=sub)) for h in PHOTOMETRIC}
    expect((want[RGB] != want[YCBCR]).any(), "the references are alike")
    return want


@functools.lru_cache(None)
def folder():
    """All cases, in one folder."""
    path = tmp("cases")
    for c in CASES:
        c.write(path)
    return path


def convert_folder(path, *options):
    """The output folder, the messages, the lines of JSON by the slide's name."""
    out = tmp("out")
    p = run(WSI2H5, "--json", "--codec", *options, "-o", out, path)
    return out, p.err, {os.path.basename(j["input"]): j for j in json_lines(p.out)}


@functools.lru_cache(None)
def stores(*options):
    """A function from a case to its store, the messages, the lines of JSON by the slide's name."""
    out, err, lines = convert_folder(folder(), *options)
    return lambda c: os.path.join(out, c.name + ".h5"), err, lines


def said_of(err, name):
    """The lines about the colours of a slide."""
    return [line for line in err.splitlines() if "/" + name in line and "; read as " in line]


@functools.lru_cache(None)
def plugins():
    if SAN:
        raise Skip("the plug-in is loaded into programs without sanitizers")
    path = tmp("plugins")
    shutil.copy(os.path.join(BUILD, "libh5jpeg.so"), path)
    return path


def through_plugin(paths):
    """The pixels of each store, in a process that knows our plug-in."""
    out = os.path.join(tmp(), "pixels.npz")
    code = "import h5py, numpy, sys; numpy.savez(sys.argv[1], *(h5py.File(p, 'r')['pixels'][()] for p in sys.argv[2:]))"
    run(sys.executable, "-c", code, out, *paths, env={**os.environ, "HDF5_PLUGIN_PATH": plugins()})
    with np.load(out) as f:
        return [f["arr_%d" % k] for k in range(len(paths))]


def test_stream_decides_in_dicom_and_tag_in_tiff():
    path, _, _ = stores("none")
    for c in CASES:
        expect((pixels(path(c)) == wanted(c.sub)[c.colours]).all(), "%s: not %s", c.name, c.colours)


def test_kept_tiles_have_the_same_pixels_for_the_plug_in():
    path, _, lines = stores("jpeg")
    for c, got in zip(CASES, through_plugin([path(c) for c in CASES])):
        expect(lines[c.file]["codec"] == "jpeg" and (got == wanted(c.sub)[c.colours]).all(), "%s: not %s", c.name, c.colours)


def test_kept_tiles_have_the_same_pixels_for_wsi_store():
    os.environ["HDF5_PLUGIN_PATH"] = plugins()
    path, _, _ = stores("jpeg")
    for c in CASES:
        with wsi_store.open_store(path(c)) as s:
            expect((s.read_region(0, 0, s.width, s.height) == wanted(c.sub)[c.colours]).all(), "%s: not %s", c.name, c.colours)


def test_h5spec_reads_kept_tiles_alike():
    plain, kept = (spectrum([stores(codec)[0](c) for c in CASES if not c.jfif], "--duplicates", "count") for codec in ("none", "jpeg"))
    equal(without_tissue(content(plain)), without_tissue(content(kept)), "codec jpeg")


def test_where_a_dicom_stream_states_its_colours_libjpeg_agrees():
    path = os.path.join(tmp(), "a.svs")
    for c in CASES:
        if c.is_dicom and c.streams_state and not c.is_impossible:
            expect((libjpeg_pixels(tiff(path, RGB, c.stream, c.sub), "own") == wanted(c.sub)[c.colours]).all(), "%s", c.name)


def test_marker_of_a_kept_tile_is_its_only_statement():
    path, _, _ = stores("jpeg")
    for c in CASES:
        with h5py.File(path(c), "r") as f:
            chunk = f["groups/00001/pixels"].id.read_direct_chunk((128, 128, 0))[1]
        head = chunk[:chunk.index(b"\xff\xc0")]
        expect(chunk[:17] == b"\xff\xd8\xff\xee\0\x0eAdobe\0\x64\0\0\0\0" and chunk[17] == (c.colours == YCBCR), "%s", chunk[:18])
        expect(head.count(b"Adobe") == 1 and b"JFIF" not in head, "%s: %s", c.name, head[:60])


def test_tissue_map_has_the_colours_of_the_pixels():
    """That of codec jpeg is made at 1/8, those of other codecs of whole tiles."""
    for codec in ("jpeg", "none"):
        maps = {RGB: set(), YCBCR: set()}
        for c in CASES:
            if c.sub != "444":
                continue
            with h5py.File(stores(codec)[0](c), "r") as f:
                maps[c.colours].add(f["tissue/mask"][()].tobytes() if "tissue" in f else b"")
        expect(len(maps[RGB]) == 1 and len(maps[YCBCR]) == 1 and maps[RGB] != maps[YCBCR], "codec %s", codec)


def test_gray_is_that_of_the_colours():
    path, _, _ = stores("none", "--gray")
    for c in CASES:
        rgb = wanted(c.sub)[c.colours].astype(float)
        inside = ((rgb > 0) & (rgb < 255)).all(axis=2)  # where nothing is clipped, the luma is the gray
        off = np.abs(pixels(path(c))[:, :, 0] - rgb @ (0.299, 0.587, 0.114))[inside].max()
        expect(off < 1.6, "%s: off by %g", c.name, off)


def conflict(c):
    """What is recorded of a case."""
    header = "the photometric tag %s" % c.stated if not c.is_dicom else \
        "PhotometricInterpretation %s" % ("RGB" if c.stated == RGB else "YBR")
    if c.is_impossible and c.stated == YCBCR:
        return "the JPEG tiles state RGB, but have subsampled chroma; read as YCbCr"
    if c.is_impossible:
        return header.replace(" RGB", " states RGB") + ", but the JPEG tiles have subsampled chroma; read as YCbCr"
    return "the JPEG tiles state %s, %s; read as %s" % (c.streams_state, header, c.colours) if c.is_contradiction else ""


def test_contradiction_is_recorded_and_printed_once():
    for codec in ("none", "jpeg"):
        path, err, lines = stores(codec)
        for c in CASES:
            recorded = attributes_of(path(c)).get("colour_conflict", "")
            expect(recorded == conflict(c) == lines[c.file].get("colour_conflict", ""), "%s: %r", c.name, recorded)
            said = said_of(err, c.file)
            expect(len(said) == c.is_contradiction and (not said or "warning: " + recorded in said[0]), "%s: %s", c.name, said)
    again = run(WSI2H5, "--codec", "jpeg", "-o", os.path.dirname(path(CASES[0])), folder()).err
    expect(again.count("; read as ") == sum(c.is_contradiction for c in CASES), "a run that skips: %s", again)


def test_strips_follow_the_rule_of_tiles():
    cases, folders = [c for c in CASES if not c.is_dicom], {True: tmp("tiles"), False: tmp("strips")}
    for c, (in_tiles, path) in itertools.product(cases, folders.items()):
        column(os.path.join(path, c.name + ".tif"), c.stated, [c.stream(t) for t in Level(svs(c.sub)).tiles[:2]], in_tiles)
    (tiles, _, _), (strips, err, _) = (convert_folder(path, "none") for path in folders.values())
    for c in cases:
        of_tiles, of_strips = (os.path.join(path, c.name + ".h5") for path in (tiles, strips))
        expect((pixels(of_tiles) == pixels(of_strips)).all(), "%s: other pixels", c.name)
        recorded = attributes_of(of_strips).get("colour_conflict", "")
        expect(recorded == conflict(c).replace("tiles", "strips"), "%s: %r", c.name, recorded)
        expect(len(said_of(err, c.name + ".tif")) == c.is_contradiction, "%s: %s", c.name, err)


def test_pictures_that_state_rgb_and_ycbcr():
    path, want = tmp("pictures"), {}
    for marker, ids, jfif, sub in itertools.product(MARKERS, IDS, (False, True), ("444", "422", "420")):
        whole = Level(svs(sub)).tiles[0]
        stream, name = restated(whole, marker, IDS[ids], jfif), "%s %s %s %s" % (marker, ids, jfif, sub)
        put_file(os.path.join(path, name + ".jpg"), stream)
        is_rgb = not jfif and (marker == 0 or (marker is None and ids == "RGB"))  # as libjpeg decides
        is_rgb_stated = marker == 0 or ids == "RGB"
        as_read = restated(whole, 1, IDS["123"]) if sub != "444" or not is_rgb else stream
        words = "" if not is_rgb_stated or (is_rgb and sub == "444") else \
            "the JPEG states RGB, but has subsampled chroma; read as YCbCr" if is_rgb else "the JPEG states RGB as well as YCbCr; read as YCbCr"
        want[name] = np.asarray(Image.open(io.BytesIO(as_read)).convert("RGB")), words
    out, err, _ = convert_folder(path, "none")
    for name, (rgb, words) in want.items():
        got = os.path.join(out, name + ".h5")
        expect((pixels(got) == rgb).all(), "%s: other pixels", name)
        recorded = attributes_of(got).get("colour_conflict", "")
        expect(recorded == words and bool(said_of(err, name + ".jpg")) == bool(words), "%s: %r, %s", name, recorded, err)


def test_the_warning_of_a_stream_is_named():
    """Extra bytes before a marker: the message names this first warning, not a later one such as \"End Of Image\"."""
    stream = Level(svs()).tiles[0]
    first = 4 + struct.unpack_from(">H", stream, 4)[0]  # behind SOI and a segment
    stream = stream[:first] + b"\x11\x22\x33" + stream[first:]
    paths = [put_file(os.path.join(tmp(), "a.jpg"), stream)] + [column(os.path.join(tmp(), "a.tif"), YCBCR, [stream], tiles) for tiles in (True, False)]
    for path in paths:
        says(convert(path, status=1)[1].err, "3 extraneous bytes before marker")


def test_info_shows_a_contradiction():
    path, _, _ = stores("none")
    bad, good = (Case("dicom", "YBR_FULL", marker, "123") for marker in (0, 1))
    says(run(H5SPEC, "info", path(bad)).out, "colours", conflict(bad))
    expect(json.loads(run(H5SPEC, "info", "--json", path(bad)).out)["colour_conflict"] == conflict(bad), "--json")
    expect("colour" not in run(H5SPEC, "info", path(good)).out, "info of a slide without a contradiction")
    run(H5SPEC, "verify", path(bad), path(good))


def one_slide(change):
    """A DICOM file that states YBR_FULL, with one stream changed."""
    level = Level(svs())
    level.photometric = "YBR_FULL"
    frames = [change(t) if k == 4 else t for k, t in enumerate(level.tiles)]
    return write(os.path.join(tmp(), "a.dcm"), instance(level, frames=frames))


def test_each_tile_decides_for_itself():
    slide = one_slide(lambda tile: restated(tile, 0))
    want = wanted()[YCBCR].copy()
    want[128:256, 128:256] = wanted()[RGB][128:256, 128:256]
    for codec, read in (("none", pixels), ("jpeg", lambda path: through_plugin([path])[0])):
        out = os.path.join(tmp(), "a.h5")
        says(run(WSI2H5, "--codec", codec, "-o", out, slide).err, "the JPEG tiles state RGB")
        expect((read(out) == want).all(), "codec %s", codec)


def test_damaged_tile_contradicts_nothing():
    slide = one_slide(lambda tile: restated(tile, 0)[:-300])
    for codec in ("none", "jpeg"):
        err = run(WSI2H5, "--codec", codec, "-o", os.path.join(tmp(), "a.h5"), slide, status=4).err
        expect("state" not in err and "1 damaged tile" in err, "%s", err)


def test_thumbnail_follows_the_same_rule():
    small = Level(svs())
    small.photometric = "YBR_FULL"
    slide = one_slide(lambda tile: tile)
    write(os.path.join(os.path.dirname(slide), "t.dcm"), instance(
        small, image_type="ORIGINAL\\PRIMARY\\THUMBNAIL\\RESAMPLED", sop="1.2.3.9", frames=[restated(t, 0) for t in small.tiles]))
    out = os.path.join(tmp(), "a.h5")
    run(WSI2H5, "-o", out, slide)
    expect((values_in(out, "associated/thumbnail") == wanted()[RGB]).all(), "the thumbnail has other colours")


main(globals())
