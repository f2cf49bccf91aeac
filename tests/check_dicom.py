"""DICOM whole-slide images: pixels, levels, tables of frames, series, metadata, damage, what is not read."""
import ctypes
import itertools
import struct

import h5py
import numpy as np
from PIL import Image

import dicomfile
from dicomfile import CANARIES, Level, element, instance, item, pixel_data, sequence, ul, us, write
from lib import *
from tiffpatch import jpeg_of

KINDS = {  # options of mkslide
    "rgb": (), "restart": ("--restart", "7"), "444": ("--photometric", "ycbcr", "--subsampling", "444"),
    "422": ("--photometric", "ycbcr", "--subsampling", "422"),
    "420": ("--photometric", "ycbcr", "--subsampling", "420", "--restart", "4"),
    "odd_tiles": ("--tile", "100x52", "--photometric", "ycbcr"), "one_tile": ("--tile", "1024"),
    "comments": ("--comments",),
}


def svs(*options, size="1000x700"):
    return made("--size", size, "--complete-tiles", *options)


def dicom(*options, size="1000x700", **how):
    """A DICOM slide with the tiles of an SVS file."""
    return dicomfile.slide(tmp("dicom"), svs(*options, size=size), **how)


def one(level=None, **how):
    """A slide of one file."""
    return write(os.path.join(tmp("dicom"), "a.dcm"), instance(level or Level(svs()), **how))


def rejected(slide, *words, options=()):
    path, p, _ = convert(slide, *options, status=1)
    says(p.err, *words)
    expect(not os.path.exists(path), "a store of %s", slide)
    return p


def groups(path):
    """Status and CRCs of all chunks, and all pixels."""
    with h5py.File(path, "r") as f:
        return [(g["tile_status"][()].tolist(), g["tile_crc32"][()].tolist()) for g in f["groups"].values()]


def statuses(path):
    return [s for status, _ in groups(path) for row in status for s in row]


# --- pixels ---

@later("ci")
def test_chunks_are_those_of_the_same_tiles_in_svs():
    for name, kind in KINDS.items():
        slide = dicom(*kind)
        for codec, *options in (("none",), ("jpeg",)) + ((("deflate", "--gray"), ("deflate", "--tissue-only")) if name in ("rgb", "420") else ()):
            path, _, j = convert(slide, "--codec", codec, *options)
            expect((j["reader"], j["codec"]) == ("dicom", codec), "%s: %s", name, j)
            expect(groups(path) == groups(store(svs(*kind), "--codec", codec, *options)), "%s, %s %s", name, codec, options)


def test_pixels_are_those_of_libjpeg():
    for kind in ("rgb", "420"):
        options = KINDS[kind]
        got = pixels(convert(dicom(*options), "--codec", "none")[0])
        expect((got == libjpeg_pixels(svs(*options))).all(), "%s", kind)


def test_photometric_interpretation_states_the_colours():
    """Of streams that say nothing themselves; check_colours.py has the others."""
    level = Level(svs())
    level.photometric = "YBR_FULL_422"
    a = convert(one(level), "--codec", "none")[0]
    b = convert(one(level), "--codec", "jpeg")[0]
    c = convert(one(), "--codec", "none")[0]
    expect((pixels(a) != pixels(c)).any(), "the interpretation has no effect")
    equal(without_tissue(content(spectrum(a))), without_tissue(content(spectrum(b))), "codec jpeg")


def test_real_file():
    path, _, j = convert(real("boxes_0.dcm"), "--codec", "jpeg")
    expect(j["reader"] == "dicom" and j["mpp_x"] == 0.499 and j["codec"] == "jpeg" and statuses(path) == [0], "%s", j)
    a = attributes_of(path)
    expect(a["quickhash"] == "d0d6b71f6001ae45d000fbd3d3a1d7f619eef1e2ceb221e73bfe18e51320702c", "%s", a)  # OpenSlide 4's
    with h5py.File(path, "r") as f:
        expect(len(f["icc_profile"]) == 456, "its profile is missing")


# --- JPEG 2000 ---

J2K_KINDS = {  # options of mkslide, PhotometricInterpretation, what is said of the colours
    "RCT": (("--compression", "33005"), "YBR_RCT", ""), "RGB": (("--compression", "33005"), "RGB", ""),
    "ICT": (("--compression", "33005"), "YBR_ICT", ""), "lossless": (("--compression", "33005", "--quality", "100"), "YBR_RCT", ""),
    "YBR_FULL": (("--compression", "33003"), "YBR_FULL", ""), "4:4:4": (("--compression", "33003", "--subsampling", "444"), "YBR_FULL_422", ""),
    "odd tiles": (("--compression", "33003", "--tile", "100x52"), "YBR_FULL", ""),
    "no transform": (("--compression", "33003"), "YBR_ICT", "the JPEG 2000 tiles state no colour transform, PhotometricInterpretation "
                     "YBR_ICT; read as YCbCr"),
    "a transform": (("--compression", "33005"), "YBR_FULL", "the JPEG 2000 tiles state a colour transform, PhotometricInterpretation "
                    "YBR_FULL; read as RGB"),
}


def j2k(name, folder=None, **how):
    """A DICOM slide of one file, and the SVS file with its tiles."""
    options, photometric, _ = J2K_KINDS[name]
    tiles = made("--size", "700x500", *options)
    level = Level(tiles)
    level.photometric = photometric
    return write(os.path.join(folder or tmp("dicom"), "a.dcm"), instance(level, **how)), tiles


@later("ci")
def test_jpeg_2000_has_the_chunks_of_the_same_tiles_in_svs():
    for name, (_, _, said) in J2K_KINDS.items():
        slide, tiles = j2k(name)
        for options in (("--codec", "keep"), ("--codec", "none")) + ((("--gray",), ("--tissue-only",)) if name in ("RCT", "YBR_FULL") else ()):
            path, p, j = convert(slide, *options)
            expect(groups(path) == groups(store(tiles, *options)), "%s, %s", name, options)
            expect(j["codec"] == ("j2k" if options[-1] == "keep" else j["codec"]) and j.get("colour_conflict", "") == said, "%s: %s", name, j)
            expect(p.err.count("JPEG 2000 tiles state") == bool(said), "%s: %s", name, p.err)


def test_jpeg_2000_is_decoded_as_pillow_does():
    for name in ("RCT", "lossless", "YBR_FULL"):
        slide, tiles = j2k(name)
        got = pixels(convert(slide, "--codec", "none")[0])
        for k, tile in enumerate(Level(tiles).tiles[:2]):
            want = np.array(Image.open(io.BytesIO(tile)).convert("RGB")).astype(int)
            off = np.abs(got[:240, 240 * k:240 * k + 240] - want).max()
            expect(off <= (name == "YBR_FULL"), "%s: off by %d", name, off)  # Pillow rounds YCbCr in another way


def test_jpeg_2000_in_every_table_and_fragment():
    for how in ({"split": 3}, {"table": "none", "split": 2}, {"change": {"syntax": dicomfile.J2K_LOSSLESS}}):
        slide, tiles = j2k("RCT", **how)
        path, _, j = convert(slide, "--codec", "keep")
        expect(groups(path) == groups(store(tiles, "--codec", "j2k")) and j["status"] == "done", "%s: %s", how, j)


def test_padding_behind_jpeg_2000():
    """A part of a tile need not state its length. It ends with the stream then, not with the byte that makes a frame even."""
    frames = []
    for tile in Level(made("--size", "700x500", *J2K_KINDS["YBR_FULL"][0])).tiles:
        at = tile.index(b"\xff\x90\0\x0a") + 6
        frames.append(tile[:at] + bytes(4) + tile[at + 4:])
    expect({len(f) % 2 for f in frames} == {0, 1}, "no frame has padding")
    path, _, j = convert(j2k("YBR_FULL", frames=frames)[0], "--codec", "keep")
    want = convert(j2k("YBR_FULL")[0], "--codec", "none")[0]
    expect(j["codec"] == "j2k" and j["status"] == "done", "%s", j)
    equal(without_tissue(content(spectrum(path))), without_tissue(content(spectrum(want))), "padding")


def test_damaged_frames_of_jpeg_2000():
    frames = Level(made("--size", "700x500", *J2K_KINDS["YBR_FULL"][0])).tiles
    frames[1], frames[3], frames[4] = frames[1][:600], b"\xff\x4f\xff\x51" + bytes(500), b""
    for table in ("basic", "none"):
        for codec in ("none", "keep"):
            path, _, j = convert(j2k("YBR_FULL", frames=frames, table=table)[0], "--codec", codec, status=4)
            expect(statuses(path) == [0, 2, 0, 2, 1] + 4 * [0] and (j["tiles_missing"], j["tiles_damaged"]) == (1, 2), "%s: %s", codec,
                   statuses(path))
            run(H5SPEC, "verify", path)


# --- tables of frames ---

def test_tables_and_fragments():
    want = groups(store(svs()))
    for how in ({"table": "none"}, {"table": "extended"}, {"table": "wsidicom"}, {"table": "basic", "split": 3}, {"closed": False},
                {"table": "none", "closed": False}, {"table": "none", "split": 2}, {"table": "none", "split": 3}):
        path, _, j = convert(dicom(**how))
        expect(groups(path) == want and j["status"] == "done", "%s", how)


def with_pixels(frames=None, **how):
    """A slide that states as many frames as ever, but whose pixels are made of other frames, or in another way."""
    return one(pixels=pixel_data(Level(svs()).tiles if frames is None else frames, **how))


def test_lost_fragment_shifts_no_tile():
    """No table, the first frame in two fragments, and the last frame lost: as many items as frames."""
    frames = Level(svs()).tiles
    items = [frames[0][:1000], frames[0][1000:]] + frames[1:-1]
    rejected(with_pixels(items, table="none"),
             "damaged: it has 14 frames, but states 15, and which are missing is unknown; copy the file again")
    path, _, j = convert(with_pixels(items, table="none", end=b""), status=4)  # cut off: the last one is missing
    expect(statuses(path) == 14 * [0] + [2] and j["tiles_damaged"] == 1, "%s", statuses(path))
    want = pixels(store(svs(), "--codec", "none"))
    expect((pixels(path)[:480] == want[:480]).all(), "tiles are shifted")


def test_lost_item_between_others_shifts_no_tile():
    words = "it has 14 frames, but states 15, and which are missing is unknown"
    rejected(with_pixels(table="none", lost=[3]), words)
    rejected(with_pixels(table="none", split=2, lost=[6, 7]), words)
    rejected(with_pixels(Level(svs()).tiles + Level(svs()).tiles[:1], table="none"), "it has more frames than the 15 that it states")
    for lost, damaged in ((7, 3), (9, 4)):  # the second fragment of a frame: only its tile suffers
        path, _, _ = convert(with_pixels(table="none", split=2, lost=[lost]), status=4)
        expect([k for k, s in enumerate(statuses(path)) if s] == [damaged], "%s", statuses(path))


def test_table_that_names_a_frame_twice_is_not_believed():
    level = Level(svs())
    right = list(itertools.accumulate((len(i) for i in dicomfile.fragments(level.tiles, 1)), initial=0))
    want = groups(store(svs()))
    for table in ("extended", "basic"):
        for k, wrong in ((4, right[3]), (3, right[4]), (14, right[13]), (14, right[15])):
            offsets = right[:15]
            offsets[k] = wrong
            path, _, j = convert(with_pixels(table=table, offsets=offsets))
            expect(groups(path) == want and j["status"] == "done", "%s, entry %d: %s", table, k, j)
            says(attributes_of(path)["source_problem"], "its table of the frames' offsets is damaged")
        skips = right[:1] + right[2:]  # the entry of frame 1 is lost, and the last one is no frame
        expect(groups(convert(with_pixels(table=table, offsets=skips))[0]) == want, "%s: a lost entry", table)


def test_damaged_table_of_offsets_is_not_needed():
    data = bytearray(instance(Level(svs())))
    at = data.index(struct.pack("<HH2s", 0x7fe0, 0x10, b"OB")) + 12 + 8  # the first offset
    want = groups(store(svs()))
    for k, value in ((0, 4), (1, 0), (5, 0xffffffff), (3, 1)):
        bad = bytearray(data)
        struct.pack_into("<I", bad, at + 4 * k, value)
        path, _, j = convert(write(os.path.join(tmp(), "a.dcm"), bad))
        expect(groups(path) == want and j["status"] == "done", "entry %d: %s", k, j)
        says(attributes_of(path)["source_problem"], "its table of the frames' offsets is damaged")
    level = Level(svs())
    short = instance(level, pixels=dicomfile.element(0x7fe00010, b"OB", item(b"\0" * 8) + b"".join(
        dicomfile.fragments(level.tiles, 1)) + dicomfile.END, dicomfile.UNDEFINED))
    expect(groups(convert(write(os.path.join(tmp(), "a.dcm"), short))[0]) == want, "a short table")


def test_sparse_tiles():
    level = Level(svs())
    order = level.places
    path, _, _ = convert(one(sparse=order))
    expect(groups(path) == groups(store(svs())), "all frames")
    some = [k for k in range(len(order)) if k % 3][::-1]
    path, _, j = convert(one(sparse=[order[k] for k in some], frames=[level.tiles[k] for k in some]), "--codec", "none")
    expect([s == 0 for s in statuses(path)] == [k in some for k in range(len(order))], "%s", statuses(path))
    expect(set(statuses(path)) == {0, 1} and j["tiles_missing"] == len(order) - len(some), "%s", j)
    x, y = order[0][0] * level.cols, order[0][1] * level.rows
    expect((pixels(path)[y:y + level.rows, x:x + level.cols] == 255).all(), "a missing tile is not background")


ORDERS = {  # of the frames in the file
    "rows": lambda c, r: (r, c), "columns": lambda c, r: (c, r), "serpentine": lambda c, r: (r, -c if r % 2 else c),
    "shuffled": lambda c, r: (c * 7 + r * 5) % 11 * 100 + c + 10 * r,
}


def test_frames_lie_where_they_say_unless_they_are_tiled_full():
    """Four orders of the frames in every organization, with all frames and with some left out."""
    level = Level(svs())
    whole, n = groups(store(svs(), "--codec", "jpeg")), len(level.tiles)
    for (name, order), organization in itertools.product(ORDERS.items(), ("TILED_FULL", "TILED_SPARSE", "3D", " ")):
        every = sorted(range(n), key=lambda k: order(*level.places[k]))
        for some in (every, [k for k in every if k % 4 != 1]):
            title = "%s, %s, %d frames" % (name, organization, len(some))
            slide = one(sparse=[level.places[k] for k in some], frames=[level.tiles[k] for k in some], organization=organization)
            if organization == "TILED_FULL" and len(some) < n:
                rejected(slide, "it has 11 frames, but a picture of this size has 5 x 3 tiles")
                continue
            path, p, j = convert(slide, "--codec", "jpeg")
            status, crcs = ([v for g in groups(path) for row in g[k] for v in row] for k in (0, 1))
            right = [crc for g in whole for row in g[1] for crc in row]
            if organization == "TILED_FULL":
                expect(crcs == [right[k] for k in some], "%s: not in rows", title)
            else:
                expect(status == [int(k not in some) for k in range(n)], "%s: %s", title, status)
                expect(all(crcs[k] == right[k] for k in some), "%s: tiles are shifted", title)
            said = "TILED_FULL, but its frames state other places; read in rows" in p.err
            expect(j["status"] == "done" and said == (organization == "TILED_FULL" and name != "rows"), "%s: %s", title, p.err)


def test_frames_of_other_organizations_without_positions():
    level = Level(svs())
    dimensions = sequence(0x52009230, *(sequence(0x00209111, element(0x00209157, b"UL", struct.pack("<2I", 1, 1))) for _ in level.tiles))
    for change in ({}, {0x52009230: dimensions}):
        expect(groups(convert(one(organization="3D", change=change))[0]) == groups(store(svs())), "in rows")
        rejected(one(organization="3D", frames=level.tiles[:-1], change=change), "it has 14 frames, but a picture of this size has 5 x 3 tiles")
        rejected(one(organization="TILED_SPARSE", change=change), "frame 1 of 15 does not state where it lies; export the slide again")
    single = Level(svs("--tile", "1024"))  # all frames share the position of a single one
    shared = sequence(0x52009229, dicomfile.position(1, 1))
    expect(groups(convert(one(single, organization="TILED_SPARSE", change={0x52009229: shared}))[0]) == groups(store(svs("--tile", "1024"))), "shared")


def test_parts_of_other_organizations():
    for organization in ("3D", "TILED_FULL"):
        path = convert(parts(sparse=True, organization=organization)[0], "--codec", "jpeg")[0]
        expect(groups(path) == groups(store(svs(), "--codec", "jpeg")), organization)


def test_positions_that_cannot_be():
    level = Level(svs())
    good = [(1 + c * level.cols, 1 + r * level.rows) for c, r in level.places]
    least, most = -2 ** 31, 2 ** 31 - 1
    for organization, frame, at, words in (
            ("TILED_SPARSE", 14, good[3], "frame 15 states column 721, row 1, where another frame lies; export the slide again"),
            ("3D", 0, good[1], "frame 2 states column 241, row 1, where another frame lies"),
            ("3D", 4, (1201, 1), "frame 5 states column 1201, row 1, outside the picture of 1000 x 700 px; export the slide again"),
            ("TILED_SPARSE", 4, (1, 721), "frame 5 states column 1, row 721, outside the picture"),
            ("3D", 2, (0, 0), "frame 3 states column 0, row 0, outside the picture"),
            ("TILED_SPARSE", 2, (-239, 1), "frame 3 states column -239, row 1, outside the picture"),
            ("3D", 2, (least, least), "frame 3 states column %d, row %d, outside the picture" % (least, least)),
            ("3D", 2, (most, 1), "frame 3 states column %d, row 1, outside the picture" % most),
            ("TILED_SPARSE", 7, (121, 1), "frame 8 states column 121, row 1, where no tile of 240 x 240 px begins"),
            ("3D", 7, (1, 2), "frame 8 states column 1, row 2, where no tile of 240 x 240 px begins")):
        where = [dicomfile.position(*(at if k == frame else p)) for k, p in enumerate(good)]
        rejected(one(organization=organization, change={0x52009230: sequence(0x52009230, *where)}), words)
    short = sequence(0x0048021a, us(0x0048021e, 1) + us(0x0048021f, 1))
    for organization in ("TILED_SPARSE", "3D"):
        for where in ([dicomfile.position(*p) for p in good[:-1]], [dicomfile.position(*p) for p in good[:-1]] + [short]):
            rejected(one(organization=organization, change={0x52009230: sequence(0x52009230, *where)}),
                     "frame 15 of 15 does not state where it lies; export the slide again")


def sparse(side, n, frames):
    """A sparse slide of side x side tiles with frames in n of them."""
    level = Level(svs())
    level.width = level.height = side * level.cols
    return one(change={0x00480006: ul(0x00480006, level.width), 0x00480007: ul(0x00480007, level.width)},
               sparse=[(k % side, k // side) for k in range(n)], frames=frames[:n])


def test_small_file_is_no_huge_slide():
    """A file of a few KB that states 833 x 833 tiles made a store of hundreds of MB."""
    frames = Level(svs()).tiles
    size = os.path.getsize(sparse(833, 1, frames))
    rejected(sparse(833, 1, frames), "damaged: 833 x 833 tiles are more than a file of %d bytes can hold" % size)


def test_sparse_slide_of_few_tiles_is_whole():
    """Most of a real slide can be glass that was never scanned."""
    frames = Level(svs()).tiles
    path, p, j = convert(sparse(20, 4, frames), "--codec", "jpeg")
    expect(j["status"] == "done" and j["tiles_missing"] == 396 and statuses(path).count(0) == 4, "%s", j)


def test_empty_frame_is_a_missing_tile():
    level = Level(svs())
    for table in ("basic", "none", "extended"):
        frames = list(level.tiles)
        frames[3] = frames[7] = b""
        path, p, j = convert(one(frames=frames, table=table))
        expect([k for k, s in enumerate(statuses(path)) if s == 1] == [3, 7] and j["status"] == "done", "%s: %s", table, j)
        says(p.err, "a.dcm: 2 tiles are empty in the file (never scanned)")


# --- levels in several files ---

def parts(cuts=(4, 5, 11), folder=None, **how):
    """The files of a slide whose only level is cut before some frames."""
    return dicomfile.concatenation(folder or tmp("parts"), svs(), cuts, **how)


def test_parts_of_a_level_are_read_together():
    want = groups(store(svs(), "--codec", "jpeg"))
    for how in ({}, {"cuts": (14,)}, {"cuts": tuple(range(1, 15))}, {"stated": False}, {"sparse": True}, {"table": "none"},
                {"table": "extended"}, {"split": 2}):
        files = parts(**how)
        for opened in (files[0], files[-1]):
            path, _, j = convert(opened, "--codec", "jpeg")
            expect(groups(path) == want and j["status"] == "done", "%s: %s", how, j)
    says(run(WSI2H5, "-o", tmp("out"), os.path.dirname(files[0])).err, "1 converted")


def test_the_order_of_the_files_does_not_matter():
    files = parts()
    for k, path in enumerate(files):
        os.rename(path, os.path.join(os.path.dirname(path), "%d.dcm" % (9 - k)))
    expect(groups(convert(os.path.join(os.path.dirname(files[0]), "7.dcm"))[0]) == groups(store(svs())), "pixels")


def test_every_level_can_be_in_several_files():
    options = ("--levels", "2", "--tile", "256")
    slide = dicom(*options, size="3000x2000")
    folder = os.path.dirname(slide)
    os.remove(slide.replace("level0", "level1"))
    dicomfile.concatenation(folder, svs(*options, size="3000x2000"), (2, 3), number=1,
                            image_type="DERIVED\\PRIMARY\\VOLUME\\RESAMPLED")
    for level in (0, 1):
        path, _, _ = convert(slide, "--level", str(level))
        expect(groups(path) == groups(store(svs(*options, size="3000x2000"), "--level", str(level))), "level %d", level)
    os.remove(os.path.join(folder, "part1.dcm"))
    rejected(slide, "the file with frames 3 to 3 of its level of 750 x 500 px is missing", options=("--level", "1"))
    expect(groups(convert(slide)[0]) == groups(store(svs(*options, size="3000x2000"))), "level 0 needs no other")


def test_missing_parts_are_named():
    for k, words in ((0, "the file with frames 1 to 4 of its level of 1000 x 700 px is missing; copy it to the same folder"),
                     (1, "the file with frames 5 to 5 of its level"), (2, "the file with frames 6 to 11 of its level")):
        for sparse in (False, True):
            files = parts(sparse=sparse)
            os.remove(files[k])
            rejected(files[3], words)
    files = parts()
    os.remove(files[3])
    rejected(files[0], "its level of 1000 x 700 px has 4 files, of which only 3 are in the folder; copy all of them there")
    files = parts(stated=False)
    os.remove(files[3])
    rejected(files[0], "the file with frames 12 to 15 of its level of 1000 x 700 px is missing")


def test_parts_that_contradict_each_other():
    folder = tmp("parts")
    parts(folder=folder)
    write(os.path.join(folder, "again.dcm"), open(parts((3, 5, 11))[1], "rb").read().replace(b"1.2.3.101", b"1.2.3.201"))
    rejected(os.path.join(folder, "part0.dcm"), "damaged: two files of its level of 1000 x 700 px have frame 4; copy the files again")
    folder = tmp("parts")
    files = parts(folder=folder)
    shutil.copy(files[1], os.path.join(folder, "copy.dcm"))
    expect(groups(convert(files[0])[0]) == groups(store(svs())), "a copy of a part")
    other = parts((4, 5, 11), change={0x00280004: element(0x00280004, b"CS", "YBR_FULL")})[0]
    shutil.copy(other, files[0])
    rejected(files[1], "its series has several files for the level of 1000 x 700 px")
    rejected(one(change={0x00209161: element(0x00209161, b"UI", "1.2.3.77")}), "it is a part of a level, but does not state its first frame")


def test_damage_in_parts():
    """Damage stays where it is: a frame, or what is cut off one file, and not the next file's frames."""
    files = parts()
    data = bytes_in(files[2])
    write(files[2], data[:len(data) * 2 // 3])
    for codec in ("none", "jpeg"):
        path, p, j = convert(files[0], "--codec", codec, status=4)
        s = statuses(path)
        lost = [k for k in range(15) if s[k] == 2]
        expect(lost == list(range(lost[0], 11)) and 5 < lost[0] and set(s) == {0, 2}, "%s: %s", codec, s)


def test_a_change_in_any_part_makes_the_store_out_of_date():
    files, out = parts(), tmp("out")
    for status in ("1 converted, 0 skipped", "0 converted, 1 skipped"):
        says(run(WSI2H5, "-o", out, files[0]).err, status)
    os.utime(files[2], (2e9, 2e9))
    says(run(WSI2H5, "-o", out, files[0]).err, "1 converted")


# --- what must not be mixed ---

ORIGIN = 0x00480008


def at_depth(z):
    return {ORIGIN: sequence(ORIGIN, element(0x0040074a, b"DS", str(z)))}


def test_focal_planes_paths_and_pyramids_are_never_mixed():
    """Other pictures of the same tissue in one series, of the same size or another."""
    small = Level(svs(size="500x350"))
    for tag, words in (({}, "its series has several files for the level of 1000 x 700 px"), (at_depth(3.5), "its series has several focal planes"),
                       ({0x00080019: element(0x00080019, b"UI", "1.2.9")}, "its series has several pyramids; put the files of the one"),
                       ({0x00480105: sequence(0x00480105, element(0x00480106, b"SH", "2"))}, "its series has several optical paths")):
        for level in (Level(svs("--seed", "2")), small):
            first = {**at_depth(0), 0x00080019: element(0x00080019, b"UI", "1.2.8"),
                     0x00480105: sequence(0x00480105, element(0x00480106, b"SH", "1"))}
            slide = one(change=first)
            write(os.path.join(os.path.dirname(slide), "b.dcm"), instance(level, sop="1.2.3.2", change={**first, **tag}))
            if level is small and (not tag or 0x00480105 in tag):
                convert(slide)  # a smaller level
            else:
                rejected(slide, words)


def test_focal_planes_of_one_file():
    level = Level(svs())
    order = level.places
    for planes in ((0, 0), (0, 1.5)):
        positions = [dicomfile.position(1 + c * level.cols, 1 + r * level.rows, planes[k % 2]) for k, (c, r) in enumerate(order)]
        slide = one(sparse=order, change={0x52009230: sequence(0x52009230, *positions)})
        if planes[0] == planes[1]:
            expect(groups(convert(slide)[0]) == groups(store(svs())), "one plane")
        else:
            rejected(slide, "its frames lie in several focal planes; export the plane that is to be converted")
    for tag, what in ((0x00480303, "focal planes"), (0x00480302, "optical paths")):
        rejected(one(change={tag: ul(tag, 3)}), "a.dcm: its frames are 3 %s; export the" % what)


# --- the slide ---

def test_levels():
    options = ("--levels", "2", "--tile", "256")
    slide = dicom(*options, size="3000x2000")
    for level in (0, 1):
        path, _, j = convert(slide, "--level", str(level))
        a = attributes_of(path)
        want = store(svs(*options, size="3000x2000"), "--level", str(level))
        expect(groups(path) == groups(want) and a["downsample"] == attributes_of(want)["downsample"], "level %d: %s", level, a)
        expect(abs(a["mpp_x"] - 0.25) < 1e-9 and a["objective_power"] == 20, "%s", a)
    rejected(slide, "has levels 0 to 1; --level 2 is out of range", options=("--level", "2"))
    rejected(one(), "has only level 0; --level 1 is out of range", options=("--level", "1"))
    path, _, j = convert(slide, "--mpp", "1")
    expect(j["level"] == 1, "%s", j)
    p = attributes_of(path, "properties")
    expect(p["openslide.level-count"] == "2" and p["openslide.level[1].width"] == "750", "%s", p)


def test_tissue_map_is_that_of_svs():
    options = ("--levels", "2")
    a, b = store(svs(*options, size="3000x2000")), convert(dicom(*options, size="3000x2000"))[0]
    with h5py.File(a, "r") as f, h5py.File(b, "r") as g:
        expect((f["tissue/mask"][()] == g["tissue/mask"][()]).all() and f["tissue/mask"][()].any(), "the maps differ")


def test_any_file_of_the_series_opens_the_slide():
    slide = dicom("--levels", "2", name="z%d.dcm")
    folder = os.path.dirname(slide)
    shutil.copy(real("boxes_0.dcm"), folder)  # of another series
    want = groups(convert(slide)[0])
    expect(groups(convert(os.path.join(folder, "z1.dcm"))[0]) == want, "from the file of level 1")
    out = tmp("out")
    names = sorted(os.path.join(folder, n) for n in os.listdir(folder))
    for words in ([folder], names, names[::-1], [folder] + names):
        p = run(WSI2H5, "--force", "-o", out, *words)
        expect(sorted(os.listdir(out)) == ["boxes_0.h5", "z0.h5"], "%s", os.listdir(out))
        says(p.err, "2 converted")
        says(run(WSI2H5, "--print-inputs", "-o", out, *words).err, "z1.dcm: skipped: belongs to the DICOM series of z0.dcm")
    expect(groups(os.path.join(out, "z0.h5")) == want, "from the folder")


def test_copies_of_a_file_do_no_harm():
    for copy in (shutil.copy, os.symlink, os.link):
        slide = dicom("--levels", "2")
        copy(slide, os.path.join(os.path.dirname(slide), "copy.dcm"))
        expect(groups(convert(slide)[0]) == groups(store(svs("--levels", "2"))), "pixels")


def test_other_file_of_the_same_instance_is_not_ignored():
    """One SOPInstanceUID and other pixels: nobody knows which of them is right."""
    slide = dicom("--levels", "2")
    other = os.path.join(os.path.dirname(slide), "other.dcm")
    data = bytearray(bytes_in(slide))
    data[-3000] ^= 1
    write(other, data)
    for one_of, remark in ((slide, "other.dcm of its series: it differs from level0.dcm"),
                           (other, "level0.dcm of its series: it differs from other.dcm")):
        rejected(one_of, remark + ", but both have the same SOPInstanceUID; remove the wrong one from the folder")
    write(other, bytes(data[:-8]))
    rejected(slide, "other.dcm of its series: it differs from level0.dcm")


def opens(folder, command):
    """How often files of a folder are opened while a command runs."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_NONBLOCK)
    if fd < 0 or libc.inotify_add_watch(fd, folder.encode(), 0x20) < 0:  # IN_OPEN
        raise Skip("no inotify")
    run(*command)
    n, data = 0, b""
    try:
        while True:
            data = os.read(fd, 1 << 20)
            while data:
                n += len(data) > 16 and struct.unpack_from("I", data, 12)[0] > 0  # the folder itself has no name
                data = data[16 + struct.unpack_from("I", data, 12)[0]:]
    except BlockingIOError:
        os.close(fd)
    return n


def test_folder_of_many_slides_is_opened_in_linear_time():
    level = Level(svs(size="240x240"))

    def count(slides):
        folder = tmp("many")
        for k in range(slides):
            write(os.path.join(folder, "%d.dcm" % k), instance(level, series="1.2.%d" % (k + 1)))
        return opens(folder, (WSI2H5, "-q", "-j", "2", "--codec", "jpeg", "-o", tmp("out"), folder))
    few, many = count(10), count(40)
    expect(many <= 8 * few and many <= 12 * 40, "10 slides: %d opens, 40 slides: %d", few, many)


IMAGE_TYPES = (  # of a file, what it shows
    ("ORIGINAL\\PRIMARY\\VOLUME\\NONE", "level"), ("DERIVED\\PRIMARY\\VOLUME\\RESAMPLED", "level"), ("ORIGINAL\\PRIMARY\\VOLUME", "level"),
    ("DERIVED\\SECONDARY\\VOLUME\\NONE", "level"), ("ORIGINAL\\PRIMARY\\VOLUME\\SCANNED", "level"), ("\\\\VOLUME", "level"),
    ("ORIGINAL\\PRIMARY\\VOLUME\\NONE\\SECTION", "level"), (" ORIGINAL \\PRIMARY \\ VOLUME \\NONE", "level"),
    ("\\".join(["ORIGINALORIGINAL", "PRIMARY", "VOLUME"] + 6 * ["NONENONENONENONE"]), "level"),
    ("ORIGINAL\\PRIMARY\\THUMBNAIL\\RESAMPLED", "thumbnail"), ("DERIVED\\SECONDARY\\THUMBNAIL", "thumbnail"),
    ("ORIGINAL\\PRIMARY\\LABEL\\NONE", "other"), ("ORIGINAL\\PRIMARY\\LABEL", "other"), ("DERIVED\\PRIMARY\\OVERVIEW\\VOLUME", "other"),
    ("ORIGINAL\\PRIMARY\\LOCALIZER\\RESAMPLED", "other"), ("VOLUME\\VOLUME\\LABEL\\VOLUME", "other"),
    ("ORIGINAL\\PRIMARY", "none"), ("ORIGINAL\\VOLUME", "none"), ("VOLUME", "none"), ("ORIGINAL\\PRIMARY\\VOLUMES\\NONE", "none"),
)


def test_the_third_value_of_image_type_says_what_a_picture_shows():
    small = Level(svs("--seed", "3", size="500x350"))
    for kind, shown in IMAGE_TYPES:
        slide = one()
        write(os.path.join(os.path.dirname(slide), "b.dcm"), instance(small, image_type=kind, sop="1.2.3.2"))
        with h5py.File(convert(slide)[0], "r") as f:
            size, thumbnail = f["properties"].attrs["openslide.level-count"], f["associated/thumbnail"].shape
        expect((size, thumbnail) == ("2" if shown == "level" else "1", (350, 500, 3) if shown == "thumbnail" else (22, 32, 3)), "%s: %s %s", kind,
               size, thumbnail)
        alone = one(image_type=kind)
        if shown != "level":
            rejected(alone, "its folder has no level of the slide, only other pictures: no ImageType has VOLUME as its third value (", kind)
            continue
        p = convert(alone)[1]
        expect(("its level 0 is not in the folder" in p.err) == kind.endswith("RESAMPLED"), "%s: %s", kind, p.err)


def test_slide_without_its_level_0_is_whole():
    slide = dicom("--levels", "2")
    os.remove(slide)
    path, p, j = convert(slide.replace("level0", "level1"))
    words = "the file of its level 0 is not in the folder; level 0 of the store is the largest that is, resampled to 250 x 175 px of 1 um"
    says(p.err, words)
    expect(j["status"] == "done" and j["note"] == words and not attributes_of(path).get("source_problem"), "%s", j)
    says(convert(slide.replace("level0", "level1"))[1].err, words)  # also when it is skipped


def test_resolution_and_objective():
    for how, mpp in (({}, 0.25), ({"drop": [0x52009229]}, 0.25),  # then from the width of the imaged volume
                     ({"drop": [0x52009229, 0x00480001]}, None)):
        a = attributes_of(convert(one(**how))[0])
        expect("mpp_x" not in a if mpp is None else abs(a["mpp_x"] - mpp) < 1e-6, "%s: %s", how, a)
    two = element(0x00280030, b"DS", "0.0005\\0.00025")  # between rows, between columns
    a = attributes_of(convert(one(change={0x52009229: sequence(0x52009229, sequence(0x00289110, two))}))[0])
    expect((a["mpp_x"], a["mpp_y"]) == (0.25, 0.5), "%s", a)
    for bad in ("0\\0", "-1\\1e999", "nan\\inf", "x", ""):
        change = {0x52009229: sequence(0x52009229, sequence(0x00289110, element(0x00280030, b"DS", bad)))}
        a = attributes_of(convert(one(change=change, drop=[0x00480001]))[0])
        expect("mpp_x" not in a, "%s: %s", bad, a)


def test_quickhash_is_that_of_openslide():
    a = attributes_of(convert(dicom(series="1.2.840.99.7"))[0])
    expect(a["quickhash"] == hashlib.sha256(b"1.2.840.99.7\0").hexdigest(), "%s", a)
    out = tmp("out")
    key = os.path.join(tmp(), "key.csv")
    run(WSI2H5, "--anonymous", key, "-o", out, os.path.dirname(dicom(series="1.2.840.99.7")))
    expect(os.listdir(out) == ["slide-%s.h5" % a["quickhash"][:16]], "%s", os.listdir(out))


# --- what may be stored ---

def thumbnail(folder, level, label="NO", kind="ORIGINAL\\PRIMARY\\THUMBNAIL\\RESAMPLED", name="t.dcm", **how):
    return write(os.path.join(folder, name), instance(level, image_type=kind, sop="1.2.3.9", label=label, **how))


def stored_thumbnail(slide, *options, status=0):
    with h5py.File(convert(slide, *options, status=status)[0], "r") as f:
        return f["associated/thumbnail"][()] if "associated/thumbnail" in f else None


def test_thumbnail():
    small = Level(svs("--seed", "3", size="300x200"))
    want = pixels(store(svs("--seed", "3", size="300x200"), "--codec", "none"))
    slide = one()
    made_of_cells = stored_thumbnail(slide)
    thumbnail(os.path.dirname(slide), small)
    got = stored_thumbnail(slide)
    expect(got is not None and got.shape == want.shape and (got == want).all(), "the thumbnail differs")
    damaged = list(small.tiles)
    damaged[0] = damaged[0][:-200]
    thumbnail(os.path.dirname(slide), small, frames=damaged)
    expect((stored_thumbnail(slide) == made_of_cells).all(), "a damaged thumbnail is stored")


def test_label_and_overview_are_never_stored():
    small = Level(svs("--seed", "3", size="300x200"))
    for kind, label in (("ORIGINAL\\PRIMARY\\LABEL\\NONE", "YES"), ("ORIGINAL\\PRIMARY\\OVERVIEW\\NONE", "YES"),
                        ("ORIGINAL\\PRIMARY\\LABEL\\NONE", "NO"), ("ORIGINAL\\PRIMARY\\OVERVIEW\\NONE", "NO"),
                        ("ORIGINAL\\PRIMARY\\THUMBNAIL\\RESAMPLED", "YES"), ("ORIGINAL\\PRIMARY\\THUMBNAIL\\RESAMPLED", "")):
        slide = one()
        label_file = thumbnail(os.path.dirname(slide), small, label=label, kind=kind)
        expect(stored_thumbnail(slide).shape == (22, 32, 3), "%s %s is stored", kind, label)
        path, _, j = convert(label_file)  # also the label's file opens the slide, and only the slide
        expect((j["width"], j["height"]) == (1000, 700) and groups(path) == groups(store(svs())), "%s", j)
    os.remove(slide)
    rejected(label_file, "its folder has no level of the slide, only other pictures")


def test_no_store_holds_identifying_values():
    profile = icc([(b"desc", b"desc" + bytes(4) + b"CANARYPROFILE")])
    slide = one(icc=profile)
    data = bytes_in(slide)
    says(data.decode("latin-1"), *CANARIES)
    thumbnail(os.path.dirname(slide), Level(svs("--seed", "3", size="300x200")))
    path, p, _ = convert(slide, "--codec", "jpeg", "--level", "0")  # which keeps the most of the file
    stored = bytes_in(path).decode("latin-1") + p.out + p.err
    for word in CANARIES + ("CANARYPROFILE",):
        expect(word not in stored, "%s is in the store", word)
    expect(len(values_in(path, "icc_profile")) == len(profile), "the profile is missing")


def test_profile_that_is_too_large_is_lost():
    data = instance(Level(svs()), icc=b"x" * 400, closed=False)
    at = data.index(b"x" * 400)
    slide = write(os.path.join(tmp(), "a.dcm"), data[:at - 4] + struct.pack("<I", 65 << 20))
    with open(slide, "r+b") as f:
        f.seek(at + (65 << 20))  # a hole
        f.write(data[at + 400:])
    path, _, j = convert(slide)
    says(attributes_of(path)["source_problem"], "its ICC profile is larger than 64 MiB")
    expect(groups(path) == groups(store(svs())), "pixels")


def test_comments_within_frames_are_not_kept():
    path, _, _ = convert(dicom("--comments"), "--codec", "jpeg")
    expect(b"comment" not in bytes_in(path).lower(), "a comment is in the store")


# --- damage ---

def test_damaged_frames():
    level = Level(svs())
    frames = list(level.tiles)
    frames[2] = frames[2][:len(frames[2]) // 2]
    frames[5] = b"\xff\xd8" + os.urandom(400)
    frames[6] = Level(svs("--tile", "128")).tiles[0]  # of another size
    for codec in ("none", "jpeg"):
        for table in ("basic", "none", "extended"):
            path, p, j = convert(one(frames=frames, table=table), "--codec", codec, status=4)
            expect([k for k, s in enumerate(statuses(path)) if s == 2] == [2, 5, 6], "%s %s: %s", codec, table, statuses(path))
            expect(j["tiles_damaged"] == 3 and j["codec"] == codec, "%s", j)
            run(H5SPEC, "verify", path)


def cut_frames(sizes, kind="jpeg"):
    """A slide of 1000 x 700 px whose frames show its pixels, and those pixels. `sizes` gives the size of the stream at a column and a row:
    the tile's own, or one that ends elsewhere."""
    tiles = svs("--photometric", "ycbcr", "--quality", "95")
    level, picture = Level(tiles), Image.fromarray(libjpeg_pixels(tiles))
    want, frames = np.zeros((700, 1000, 3), np.uint8), []
    for c, r in level.places:
        w, h = sizes(c, r)
        part = picture.crop((c * level.cols, r * level.rows, c * level.cols + w, r * level.rows + h))
        stream = io.BytesIO()
        part.convert("L" if kind == "gray" else "RGB").save(
            stream, "JPEG2000" if kind == "j2k" else "JPEG", **({"no_jp2": True} if kind == "j2k" else {"quality": 90}))
        frames.append(stream.getvalue())
        shown = np.asarray(Image.open(io.BytesIO(frames[-1])).convert("RGB"))
        place = want[r * level.rows:(r + 1) * level.rows, c * level.cols:(c + 1) * level.cols]
        place[:h, :w] = shown[:place.shape[0], :place.shape[1]]
    level.photometric, level.syntax = {"gray": "MONOCHROME2", "j2k": "YBR_RCT"}.get(kind, "YBR_FULL_422"), dicomfile.J2K if kind == "j2k" else level.syntax
    change = {0x00280002: us(0x00280002, 1)} if kind == "gray" else {}
    return one(level, frames=frames, change=change), want


def true_size(c, r):
    return min(240, 1000 - 240 * c), min(240, 700 - 240 * r)


EDGES = {  # sizes of the streams of a slide of 5 x 3 tiles, the first tile that cannot be kept
    "both": (true_size, "(0, 4) is a frame of its true size, 40 x 240 px"),
    "columns": (lambda c, r: (true_size(c, r)[0], 240), "(0, 4) is a frame of its true size, 40 x 240 px"),
    "rows": (lambda c, r: (240, true_size(c, r)[1]), "(2, 0) is a frame of its true size, 240 x 220 px"),
    "the last": (lambda c, r: true_size(c, r) if (c, r) == (4, 2) else (240, 240), "(2, 4) is a frame of its true size, 40 x 220 px"),
}


def test_edge_frames_can_have_their_true_size():
    """As converters write them. No full-size tile can be made of them without encoding again, so they are not kept."""
    for name, (sizes, words) in EDGES.items():
        for kind in ("jpeg", "gray", "j2k") if name in ("both", "the last") else ("jpeg",):
            slide, want = cut_frames(sizes, kind)
            stored = [convert(slide, "--codec", codec) for codec in ("none", "deflate", "keep")]
            for path, p, j in stored:
                got = pixels(path)
                expect((got == (want[:, :, :1] if kind == "gray" else want)).all() and j["status"] == "done", "%s, %s: %s", name, kind, j)
                expect((values_in(path, "tissue/mask") == values_in(stored[0][0], "tissue/mask")).all(), "%s, %s: the map", name, kind)
            expect(stored[2][2]["codec"] == "deflate", "%s", stored[2][2])
            if kind != "gray" or name != "both":
                says(stored[2][1].err, "stored with codec deflate, not", words + "; chunks are whole tiles")
            gray = [groups(convert(slide, "--gray", "--codec", codec)[0]) for codec in ("deflate", "keep")]
            expect(gray[0] == gray[1], "%s, %s: gray", name, kind)
    rejected(slide, "frame of its true size, 40 x 220 px", options=("--codec", "keep", "--strict-codec"))


def test_frames_of_another_size_are_damaged():
    """Smaller or larger than both sizes that they may have, or cut where the picture goes on: the message has both sizes."""
    for kind, (c, r), size in (("jpeg", (1, 1), (200, 240)), ("jpeg", (1, 1), (240, 250)), ("jpeg", (4, 0), (30, 240)), ("jpeg", (4, 2), (48, 224)),
                               ("jpeg", (3, 2), (40, 220)), ("j2k", (1, 1), (200, 240)), ("j2k", (4, 2), (41, 220)), ("gray", (0, 0), (40, 220))):
        slide, want = cut_frames(lambda *at: size if at == (c, r) else true_size(*at), kind)
        for codec in ("none", "keep"):
            path, p, j = convert(slide, "--codec", codec, status=4)
            expect([k for k, s in enumerate(statuses(path)) if s] == [5 * r + c] and j["tiles_damaged"] == 1, "%s: %s", size, statuses(path))
            words = "1 damaged tile, filled with the background (a stream of %d x %d px in a tile of 240 x 240 px); copy the slide again, or export it again"
            says(p.err, words % size)
            says(j["message"], words % size)


def test_truncated_files():
    whole = instance(Level(svs()))
    begin = whole.index(struct.pack("<HH2s", 0x7fe0, 0x10, b"OB"))
    for table in ("basic", "none", "extended"):
        whole = instance(Level(svs()), table=table)
        for part in (0.6, 0.75, 0.9, 0.999):
            n = begin + int((len(whole) - begin) * part)
            path, p, j = convert(write(os.path.join(tmp(), "a.dcm"), whole[:n]), status=4)
            s = statuses(path)
            expect(s == sorted(s) and set(s) == {0, 2}, "%s %g: %s", table, part, s)
            lost = convert(write(os.path.join(tmp(), "a.dcm"), whole[:n]), "--codec", "jpeg", status=4)[0]
            expect(statuses(lost) == s, "codec jpeg: %s, not %s", statuses(lost), s)
        rejected(write(os.path.join(tmp(), "a.dcm"), whole[:begin + (len(whole) - begin) // 4]), "tiles lie beyond the end")
    lines = convert_all({"%d.dcm" % n: whole[:n] for n in [*range(0, 400, 37), *range(400, begin + 30, 113)]})
    expect({j["status"] for j in lines} == {"failed"}, "%s", lines)


def test_damaged_file_of_the_series_is_named():
    slide = dicom("--levels", "2")
    other = slide.replace("level0", "level1")
    data = bytes_in(other)
    write(other, data[:data.index(struct.pack("<HH2s", 0x28, 4, b"CS"))])
    rejected(slide, "level1.dcm of its series: its header is damaged or cut off; copy the file again")
    write(other, b"")
    convert(slide)  # what it was cannot be known


def test_hostile_headers():
    """No value in the header makes the converter crash or hang; what it accepts it reads."""
    whole = instance(Level(svs()))
    begin = whole.index(struct.pack("<HH2s", 0x7fe0, 0x10, b"OB")) + 60
    convert_all({"%s at %d.dcm" % (value.hex(), at): whole[:at] + value + whole[at + 4:] for at in range(132, begin, 11)
                 for value in (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f")}, "--codec", "jpeg")
    deep = sequence(0x00081140, b"", closed=False)
    for _ in range(60):
        deep = sequence(0x00081140, deep, closed=False)
    rejected(one(change={0x00081140: deep}), "its header is damaged")


NUMBERS = [  # tag, its element, words of the message
    (0x00280008, element(0x00280008, b"IS", "999999999999"), "it states 999999999999 frames"),
    (0x00280008, element(0x00280008, b"IS", "-1"), "it states -1 frames"),
    (0x00280008, element(0x00280008, b"IS", "14"), "it has 14 frames, but a picture of this size has 5 x 3 tiles"),
    (0x00480006, ul(0x00480006, 0), "it states a size of 0 x 700 px"),
    (0x00480006, ul(0x00480006, 0xffffffff), "it states a size of 4294967295 x 700 px"),
    (0x00480006, ul(0x00480006, 0x7fffffff), "it has 15 frames, but a picture of this size has"),
    (0x00280010, us(0x00280010, 0), "its tiles are smaller than 8 px or larger than 4,096 px"),
    (0x00280011, us(0x00280011, 65535), "its tiles are smaller than 8 px or larger than 4,096 px"),
]


def test_numbers_that_cannot_be():
    for tag, value, words in NUMBERS:
        rejected(one(change={tag: value}), words)
    sparse = {0x00209311: element(0x00209311, b"CS", "TILED_SPARSE"), 0x00480006: ul(0x00480006, 0x7fffffff),
              0x00480007: ul(0x00480007, 0x7fffffff)}
    rejected(one(change=sparse), "8947849 x 8947849 tiles")


# --- what is not read ---

OTHERS = [  # what differs, words of the message
    ({"syntax": "1.2.840.10008.1.2.4.201"}, "High-Throughput JPEG 2000"), ({"syntax": "1.2.840.10008.1.2.1"}, "not compressed"),
    ({"syntax": "1.2.840.10008.1.2.4.51", 0x00280101: us(0x00280101, 12)}, "its pixels are not 8-bit colour or gray (level 0: extended JPEG"), ({"syntax": "1.2.3.4"}, "1.2.3.4"),
    ({0x00280002: us(0x00280002, 1), 0x00280004: element(0x00280004, b"CS", "MONOCHROME1")}, "its gray is inverted (MONOCHROME1)"),
    ({0x00280002: us(0x00280002, 1)}, "its pixels are not 8-bit colour or gray"),
    ({0x00280100: us(0x00280100, 16)}, "its pixels are not 8-bit colour or gray"),
    ({0x00280004: element(0x00280004, b"CS", "YBR_ICT")}, "its PhotometricInterpretation does not go with its compression (level 0: JPEG, YBR_ICT"),
    ({0x00080016: element(0x00080016, b"UI", "1.2.840.10008.5.1.4.1.1.2")}, "it is not a whole-slide image"),
    ({0x00080008: element(0x00080008, b"CS", "ORIGINAL\\PRIMARY")}, "its folder has no level of the slide"),
]


def test_spacings_that_no_scanner_has():
    for mpp in (1000, 250000, 100, 0.001):
        p, j = convert(one(mpp=mpp))[1:]
        expect(j["mpp_x"] is None and j["mpp_y"] is None, "%s: %s", mpp, j)
        says(p.err, "it states %g um per px, which no scanner has" % mpp)


def test_other_kinds_are_named():
    for change, words in OTHERS:
        p = rejected(one(change=change), "a.dcm: not a slide", "a DICOM file: ", words)
        expect("OpenSlide 4 reads" not in p.err, "nobody knows what another version reads: %s", p.err)


def test_streams_of_other_kinds_are_named():
    """Frames that are whole, but not what the header says: the slide is no broken copy."""
    def marked(of, precision=None):
        def change(b):
            k = b.index(b"\xff\xc0")
            return b[:k + 1] + bytes([of]) + b[k + 2:k + 4] + (bytes([precision]) if precision else b[k + 4:k + 5]) + b[k + 5:]
        return change
    level = Level(svs("--tile", "256", "--photometric", "ycbcr"))
    noise = np.random.default_rng(3).integers(0, 255, (level.rows, level.cols)).astype(np.uint8)
    for mode, change, words in (("L", bytes, "1 component"), ("CMYK", bytes, "4 components"), ("RGB", marked(0xc1, 12), "precision 12"),
                                ("RGB", marked(0xc3), "Unsupported")):
        level.tiles = len(level.tiles) * [change(jpeg_of(Image.fromarray(noise).convert(mode)))]
        for codec in ("keep", "none"):
            p = rejected(one(level), "none of its tiles can be decoded", words, options=("--codec", codec))
            expect("copy the slide again" not in p.err, "%s: %s", words, p.err)
    level = Level(svs("--tile", "16", size="1100x1100"))  # a slide of many tiles is not read to its end, unless one of them is whole
    whole, n = level.tiles[0], level.across * level.down
    for at in (None, 0, 255):
        level.tiles = n * [jpeg_of(Image.fromarray(noise[:16, :16]).convert("CMYK"))]
        if at is None:
            rejected(one(level), "none of 256 tiles spread over it can be decoded", "4 components")
            continue
        level.tiles[n * at // 256] = whole
        _, _, j = convert(one(level), status=4)
        expect(j["tiles_damaged"] == n - 1, "%s", j)


def test_a_slide_without_a_thumbnail_gets_one_of_its_pixels():
    path = convert(dicom())[0]
    view, whole = values_in(path, "associated/thumbnail").astype(int), pixels(path)
    expect(view.shape == (22, 32, 3), "%s", view.shape)
    cells = whole[:672, :992].reshape(21, 32, 31, 32, 3).mean((1, 3))
    off = np.abs(cells - view[:21, :31]).mean()
    expect(off < 4, "the picture differs by %.1f", off)


def test_parts_of_which_some_state_positions_are_rejected():
    """A part without positions has more frames than the level has tiles."""
    level = Level(svs("--tile", "1024"))
    for swap in (False, True):
        folder, empty = tmp("parts"), element(0x00209311, b"CS", "")
        for k, sparse in enumerate((None, [(0, 0)]) if swap else ([(0, 0)], None)):
            n = 2000 if sparse is None else 1
            change = {0x00209161: element(0x00209161, b"UI", "1.2.3.99"), 0x00209228: ul(0x00209228, k * (2000 if swap else 1)),
                      0x00209311: empty}
            write(os.path.join(folder, "ab"[k] + ".dcm"), instance(
                level, frames=[b"\xff\xd8\xff\xd9"] * n, sparse=sparse, sop="1.2.3.%d" % k, change=change))
        rejected(os.path.join(folder, "a.dcm"), "some state where their frames lie, others do not; copy the files again")


def unknown(e):
    """An element of VR SQ with a stated length, in explicit VR, as VR UN with undefined length: implicit VR."""
    def implicit(data):
        out, at = b"", 0
        while at < len(data):
            tag, vr = data[at:at + 4], data[at + 4:at + 6]
            long = vr in dicomfile.LONG
            n = struct.unpack_from("<I" if long else "<H", data, at + (8 if long else 6))[0]
            at += 12 if long else 8
            value = data[at:at + n]
            at += n
            value = items(value) if vr == b"SQ" else value
            out += tag + struct.pack("<I", len(value)) + value
        return out

    def items(value):
        out, at = b"", 0
        while at < len(value):
            n = struct.unpack_from("<I", value, at + 4)[0]
            out += dicomfile.item(implicit(value[at + 8:at + 8 + n]))
            at += 8 + n
        return out
    value = items(e[12:]) + dicomfile.END
    return e[:4] + b"UN\0\0" + struct.pack("<I", 0xffffffff) + value


def test_sequences_of_unknown_vr_are_implicit():
    """PS3.5, 6.2.2: what passed through a program that does not know an element."""
    measures = sequence(0x52009229, sequence(0x00289110, element(0x00280030, b"DS", "0.0005\\0.00025")))
    whole, level = groups(store(svs())), Level(svs())
    frames = sequence(0x52009230, *(dicomfile.position(1 + c * level.cols, 1 + r * level.rows) for c, r in level.places))
    private = sequence(0x00091001, element(0x00091002, b"LO", "x"), sequence(0x00091003, us(0x00280002, 7)))
    for change, sparse in (({0x52009229: unknown(measures), 0x00091001: unknown(private)}, None),
                           ({0x52009229: unknown(measures), 0x52009230: unknown(frames)}, level.places)):
        path, _, j = convert(one(change=change, sparse=sparse))
        expect(groups(path) == whole and (j["mpp_x"], j["mpp_y"]) == (0.25, 0.5), "%s", j)


def test_uncompressed_frames():
    level, want = Level(svs()), pixels(store(svs()))
    padded = np.zeros((level.down * level.rows, level.across * level.cols, 3), np.uint8)
    padded[:level.height, :level.width] = want
    frames = b"".join(padded[r * level.rows:(r + 1) * level.rows, c * level.cols:(c + 1) * level.cols].tobytes()
                      for r in range(level.down) for c in range(level.across))
    data = struct.pack("<HH2sHI", 0x7fe0, 0x10, b"OB", 0, len(frames)) + frames
    rgb = element(0x00280004, b"CS", "RGB")
    slide = one(change={"syntax": "1.2.840.10008.1.2.1", 0x00280004: rgb}, pixels=data)
    path, p, j = convert(slide)
    expect((pixels(path) == want).all() and j["reader"] == "dicom" and j["status"] == "done", "%s", p.err)
    says(run(WSI2H5, "-o", tmp("out"), slide, default_codec=True).err, "its tiles are uncompressed")
    path, _, j = convert(one(change={"syntax": "1.2.840.10008.1.2.1", 0x00280004: rgb}, pixels=data[:12 + 7 * len(frames) // 15]),
                         status=1)
    for change, words in (({0x00280006: us(0x00280006, 1)}, "R, G and B of its uncompressed frames lie apart"),
                          ({0x00280004: element(0x00280004, b"CS", "YBR_FULL")}, "its PhotometricInterpretation does not go")):
        rejected(one(change={"syntax": "1.2.840.10008.1.2.1", 0x00280004: rgb, **change}, pixels=data), words)


def test_jpeg_2000_frames_that_are_whole_jp2_files():
    """Those of some programs: boxes come before the codestream."""
    slide = svs("--compression", "33005", "--tile", "256")
    level = Level(slide)
    boxes = struct.pack(">I4sI", 12, b"jP  ", 0x0d0a870a) + struct.pack(">I4s4sI4s", 20, b"ftyp", b"jp2 ", 0, b"jp2 ")
    for size in (lambda n: struct.pack(">I4s", n + 8, b"jp2c"), lambda n: struct.pack(">I4s", 0, b"jp2c"),
                 lambda n: struct.pack(">I4sQ", 1, b"jp2c", n + 16)):
        frames = [boxes + size(len(t)) + t for t in level.tiles]
        for table in ("basic", "none"):
            path = one(level, frames=frames, table=table)
            for codec in ("deflate", "j2k"):
                got, _, j = convert(path, "--codec", codec)
                expect(groups(got) == groups(store(slide, "--codec", codec)) and j["status"] == "done", "%s, %s: %s", table, codec, j)


def test_a_level_is_as_coarse_as_its_pixels_are_apart():
    """Philips pads levels, so sizes tell less. A spacing that is repeated in all levels is level 0's."""
    for size, padded, spacing, want in (((1920, 1024), (1024, 512), 2, 2), ((1640, 1024), (480, 256), 4, 4), ((1536, 1024), (256, 256), 8, 8),
                                        ((2048, 1024), (512, 256), 1, 4), ((2048, 1024), (512, 256), 4.01, 4), ((2048, 1024), (512, 256), 9, 4)):
        slide = dicom("--tile", "256", size="%dx%d" % size)
        level = Level(svs("--tile", "256", size="%dx%d" % padded))
        path = write(os.path.join(os.path.dirname(slide), "b.dcm"), instance(
            level, image_type="DERIVED\\PRIMARY\\VOLUME\\RESAMPLED", sop="1.2.3.2", mpp=0.25 * spacing))
        a = attributes_of(convert(path, "--level", "1")[0])
        expect(a["downsample"] == want, "%s %s: %s", size, spacing, a["downsample"])
        if want == spacing:
            expect(attributes_of(convert(path, "--mpp", str(0.25 * want))[0])["level"] == 1, "--mpp")


def test_gray_slides():
    """MONOCHROME2 makes a gray store, with JPEG tiles kept."""
    gray = {0x00280002: us(0x00280002, 1), 0x00280004: element(0x00280004, b"CS", "MONOCHROME2")}
    for more in ((), ("--compression", "33005", "--quality", "100")):
        source = made("--size", "1000x700", "--tile", "256", "--photometric", "gray", "--complete-tiles", "--container", "generic", *more)
        want = groups(store(source, "--codec", "none"))
        for codec in ("none", "keep"):
            level = Level(source)
            path, p, j = convert(one(level, change=gray), "--codec", codec)
            expect((j["reader"], j["channels"], j["codec"]) == ("dicom", 1, codec if codec == "none" else "deflate" if more else "jpeg"), "%s", j)
            if codec == "none":
                expect(groups(path) == want, "%s: pixels", more)
            run(H5SPEC, "verify", path)


def test_a_folder_of_files_without_ending():
    for names in ("IM%05d", "1.2.840.113.%d", "%d", "level%d.dicom"):
        folder = tmp("unnamed")
        dicomfile.slide(folder, svs("--levels", "2", size="1000x700"), name=names)
        for name in ("notes", "README.1", "x.dic"):
            write(os.path.join(folder, name), b"no picture" * 20)
        out = tmp("out")
        says(run(WSI2H5, "-o", out, folder).err, "1 converted", "0 failed")
        expect(len([n for n in os.listdir(out) if n.endswith(".h5")]) == 1, "%s: %s", names, os.listdir(out))


main(globals())
