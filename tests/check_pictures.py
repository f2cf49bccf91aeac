"""Large tiles, turned TIFF, and plain pictures as slides: TIFF in strips, PNG and JPEG; slides of which nothing arrives."""
import itertools
import random
import struct

import h5py
import numpy as np
from PIL import Image

from lib import *
from pictures import png_file
from tiffpatch import *

NONE, LZW, JPEG, DEFLATE, PACKBITS = 1, 5, 7, 8, 32773
ORIENTATION, STRIP_OFFSETS, ROWS_PER_STRIP, STRIP_BYTES, PREDICTOR, PALETTE, EXTRA = 274, 273, 278, 279, 317, 320, 338
LARGE = (4112, 720)  # larger than the picture, and wider than the tiles that are read one by one


def picture(height=700, width=900):
    y, x = np.mgrid[:height, :width]
    p = np.stack([(x // 3 + y // 5) % 256, x * y // 700 % 256, 255 - y // 2 % 256], 2).astype(np.uint8)
    p[::7] += np.uint8(9)
    return p


def packed(data, compression):
    if compression == DEFLATE:
        return zlib.compress(data)
    if compression == PACKBITS:
        return b"".join(bytes([len(data[k:k + 128]) - 1]) + data[k:k + 128] for k in range(0, len(data), 128))
    return data


def write(name, p, tile=None, rows=None, compression=NONE, photometric=None, planes=1, more=(), pages=()):
    """A classic TIFF of p, uint8 [height][width][samples], in tiles or strips; `pages` are smaller ones that come first."""
    file = Pages()
    for q in (*pages, p):
        samples, form = q.shape[2], tile if tile and q is p else rows or q.shape[0]
        parts = [packed(part.tobytes(), compression) for some in (np.split(q, samples, 2) if planes == 2 else [q]) for part in cut(some, form)]
        colours = photometric if photometric is not None else 2 if samples > 2 else 1
        file.add(q.shape[1::-1], form, parts, {BITS: (3, samples * [8]), 259: (3, [compression]), 262: (3, [colours]), 277: (3, [samples]),
                                               284: (3, [planes]), **dict(more)})
    return file_of(name, file.data)


def check_pixels(slide, want, reader, what):
    out, p, j = convert(slide, "--codec", "none")
    got = pixels(out)
    expect(j["reader"] == reader and j["mpp_x"] is None, "%s: %s", what, j)
    expect(got.shape == want.shape and np.array_equal(got, want), "%s: other pixels", what)
    expect((j["tiles_missing"], j["tiles_damaged"]) == (0, 0), "%s: %s", what, j)
    gray, _, _ = convert(slide, "--gray", "--codec", "deflate")
    luma = (want @ np.array([299, 587, 114]) + 500) // 1000 if want.shape[2] == 3 else want[:, :, 0]
    expect(np.array_equal(pixels(gray)[:, :, 0], luma), "%s: gray", what)
    return out


# --- tiles of any size, in the stored order ---

@later("ci")
def test_large_tiles():
    """Also larger than the picture, which was stored white, and several in a row."""
    p, wide = picture(), picture(600, 4500)
    for q, tile in ((p, LARGE), (p, (4112, 16)), (p, (16, 4112)), (wide, (4112, 304))):
        for compression in (NONE, DEFLATE, PACKBITS) if q is wide else (DEFLATE,):
            check_pixels(write("a.tif", q, tile, compression=compression), q, "tiff", "%s %d" % (tile, compression))
    check_pixels(write("a.tif", p[:, :, :1], LARGE, compression=DEFLATE), p[:, :, :1], "tiff", "gray")
    check_pixels(write("a.tif", p, LARGE, compression=DEFLATE, planes=2), p, "tiff", "planes")
    for options in ((), ("--compression", "lzw"), ("--compression", "zstd"), ("--photometric", "ycbcr"), ("--compression", "33005")):
        same = ("--container", "generic", "--size", "900x700", "--levels", "2", "--quality", "100", *options)
        large = pixels(convert(made(*same, "--tile", "4112x720"), "--codec", "none")[0])
        small = pixels(convert(made(*same, "--tile", "1024"), "--codec", "none")[0])
        expect(np.array_equal(large, small), "%s: the pixels depend on the size of the tile", options)


def test_large_tiles_that_are_damaged_or_missing():
    p = picture(600, 9000)
    for change, status, counts in (
            (lambda t: t.set(TILE_BYTES, 0, 0), 0, (51, 0)),  # 17 columns of tiles of 256 px, the last of which has pixels of the next tile
            (lambda t: t.data.__setitem__(t.tile(0)[0] + 5000, t.data[t.tile(0)[0] + 5000] ^ 1), 4, (0, 51))):
        slide = write("a.tif", p, (4352, 608), compression=DEFLATE)
        t = Tiff(slide)
        change(t)
        out, _, j = convert(t.save(slide), "--codec", "none", status=status)
        expect((j["tiles_missing"], j["tiles_damaged"]) == counts, "%s", j)
        want = p.copy()
        want[:, :4352] = 255
        expect(np.array_equal(pixels(out), want), "pixels")


def test_turned_files_are_in_the_stored_order():
    """OpenSlide mirrors each tile on its own."""
    p = picture()
    for orientation in range(2, 9):
        for tile in ((256, 256), LARGE, None) if orientation == 6 else ((256, 256),):
            slide = write("a.tif", p, tile, compression=DEFLATE, more={ORIENTATION: (3, [orientation])})
            out = check_pixels(slide, p, "tiff" if tile else "picture", "%d %s" % (orientation, tile))
            with h5py.File(out, "r") as f:
                value = f["properties"].attrs["tiff.Orientation"]
                expect(value in (str(orientation), str(orientation).encode()), "%s", value)
    palette = [(k * step % 256) << 8 for step in (1, 3, 7) for k in range(256)]
    indices = p[:, :, :1]
    want = np.concatenate([np.uint8(indices.astype(int) * step % 256) for step in (1, 3, 7)], 2)
    more = {ORIENTATION: (3, [2]), PALETTE: (3, palette)}
    check_pixels(write("a.tif", indices, (256, 256), photometric=3, more=more), want, "tiff", "palette")


# --- plain pictures ---

def test_strips():
    p = picture()
    gray = p[:, :, 1:2]
    for rows in (1, 7, 256, 2000):
        for compression in (NONE, DEFLATE, PACKBITS) if rows == 7 else (DEFLATE,):
            check_pixels(write("a.tif", p, rows=rows, compression=compression), p, "picture", "%d %d" % (rows, compression))
    alpha = np.concatenate([p, np.full_like(gray, 255)], 2)
    cases = [
        (write("gray.tif", gray, rows=50), gray), (write("white.tif", 255 - gray, photometric=0), gray),
        (write("planes.tif", p, rows=50, planes=2, compression=DEFLATE), p),
        (write("alpha.tif", alpha, more={EXTRA: (3, [2])}), p), (write("extra.tif", alpha), p),
        (write("preview.tif", p, pages=[p[::8, ::8]]), p),
    ]
    for slide, want in cases:
        check_pixels(slide, want, "picture", os.path.basename(slide))


def test_pictures_of_other_programs():
    p, path = picture(), os.path.join(tmp(), "a")
    images = [(Image.fromarray(p), "RGB"), (Image.fromarray(p[:, :, 0]), "L"), (Image.fromarray(p).quantize(99), "RGB")]
    for image, mode in images:
        for name, options in [(".png", {})] + [(".tif", {"compression": c}) for c in (None, "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg")] + \
                [(".jpg", {"progressive": g, "subsampling": s, "quality": 90}) for g, s in ((False, 0), (False, 1), (True, 2))]:
            if image.mode == "P" and (name == ".jpg" or options.get("compression") == "jpeg"):
                continue
            image.save(path + name, **options)
            want = np.asarray(Image.open(path + name).convert(mode))
            check_pixels(path + name, want if want.ndim == 3 else want[:, :, None], "picture", "%s %s %s" % (name, mode, options))


def test_what_is_transparent_is_missing():
    """Glass that was never scanned: as in slides that go through OpenSlide."""
    p, path = picture(), os.path.join(tmp(), "a.png")
    alpha = np.zeros(p.shape[:2] + (1,), np.uint8)
    alpha[250:300, 300:500] = 255
    alpha[699, 899] = 1
    rgba = np.concatenate([p, alpha], 2)
    Image.fromarray(rgba).save(path)
    colours = rgba.astype(int)
    want = np.uint8((colours[:, :, :3] * alpha + 255 * (255 - alpha.astype(int)) + 127) // 255)
    whole = np.array([[0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
    more = {EXTRA: (3, [2])}
    slides = [path, write("strips.tif", rgba, rows=50, more=more), write("planes.tif", rgba, rows=50, planes=2, compression=DEFLATE, more=more),
              write("large.tif", rgba, LARGE, compression=DEFLATE, more=more)]
    for slide in slides:
        out, _, j = convert(slide, "--codec", "none")
        status = tile_statuses(out)
        expect(np.array_equal(status == 0, whole == 1) and j["tiles_missing"] == 9, "%s: %s", slide, status)
        expect(np.array_equal(pixels(out), want), "%s: pixels", slide)
    rgba[:, :, 3] = 0
    Image.fromarray(rgba).save(path)
    says(convert(path, status=1)[1].err, "nothing of it was scanned")


def test_profiles_of_pictures():
    p, path = picture(300, 300), os.path.join(tmp(), "a")
    profile = icc([(b"A2B0", b"mft2" + bytes(k * k % 251 for k in range(99_852)))])
    for name in (".png", ".jpg", ".tif"):
        for given in (profile, None):
            Image.fromarray(p).save(path + name, icc_profile=given)
            with h5py.File(convert(path + name, "--keep-identifiers")[0], "r") as f:
                expect(("icc_profile" in f) == (given is not None), "%s: a profile from nowhere, or none", name)
                expect(given is None or f["icc_profile"][()].tobytes() == given, "%s: another profile", name)
    Image.fromarray(p).save(path + ".jpg", icc_profile=profile)  # a piece is lost: the rest is no profile
    data = bytes_in(path + ".jpg")
    at = data.index(b"ICC_PROFILE\0\2")
    put_file(path + ".jpg", data[:at] + b"X" + data[at + 1:])
    with h5py.File(convert(path + ".jpg", "--keep-identifiers")[0], "r") as f:
        expect("icc_profile" not in f, "half a profile")


def test_resolutions_of_pictures():
    """PNG and JFIF state px per metre, inch or cm; those for print are named."""
    p, path = picture(40, 60), os.path.join(tmp(), "a")
    for name, dpi, mpp in ((".png", 101600, 0.25), (".png", 72, None), (".png", None, None), (".jpg", 12700, 2), (".jpg", 72, None), (".jpg", None, None)):
        Image.fromarray(p).save(path + name, **({"dpi": (dpi, dpi)} if dpi else {}))
        _, q, j = convert(path + name)
        expect(j["mpp_x"] is None if mpp is None else abs(j["mpp_x"] / mpp - 1) < 1e-6 and j["mpp_x"] == j["mpp_y"], "%s %s: %s", name, dpi, j)
        expect(("states 352.7" in q.err) == (dpi == 72), "%s %s: %s", name, dpi, q.err)
    data = bytearray(bytes_in(path + ".jpg"))
    data[13:18] = struct.pack(">BHH", 2, 5000, 5000)  # px per cm
    expect(convert(put_file(path + ".jpg", data))[2]["mpp_x"] == 2, "px per cm")


OME = """<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">%s</OME>"""
IMAGE = """<Image ID="Image:%d" Name="%s"><Pixels ID="Pixels:%d" DimensionOrder="XYCZT" Type="uint8" SizeX="%d" SizeY="%d" SizeZ="%d" SizeC="3" SizeT="1"
 PhysicalSizeX="0.5" PhysicalSizeY="500" PhysicalSizeYUnit="nm"><TiffData IFD="%d" PlaneCount="1"/></Pixels></Image>"""


def test_ome_tiff_in_strips():
    """The XML states um per px, and which directory is the slide."""
    p, label = picture(300, 400), picture(500, 600)

    def described(*images, pages=()):
        text = OME % "".join(IMAGE % (k, name, k, w, h, z, ifd) for k, (name, w, h, z, ifd) in enumerate(images))
        t = Tiff(write("a.ome.tif", p, rows=50, pages=pages))
        data = text.encode() + b"\0"
        entry = struct.pack("<HHII", DESCRIPTION, 2, len(data), len(t.data))
        t.data += data + bytes(len(data) % 2)
        t.add_entries({DESCRIPTION: entry})
        return t.save(os.path.join(tmp(), "a.ome.tif"))
    for images, pages in (([("slide", 400, 300, 1, 0)], ()), ([("label", 600, 500, 1, 0), ("slide", 400, 300, 1, 1)], [label])):
        out, _, j = convert(described(*images, pages=pages), "--codec", "none")
        expect((j["reader"], j["mpp_x"], j["mpp_y"]) == ("picture", 0.5, 0.5), "%s", j)
        expect(np.array_equal(pixels(out), p), "pixels")
    for image, words in ((("slide", 400, 300, 3, 0), "3 focal planes"), (("slide", 400, 300, 1, 4), "is directory 4, but it has 1"),
                         (("label", 400, 300, 1, 0), "without a slide")):
        says(convert(described(image), status=1)[1].err, words)


def test_damaged_pictures():
    """The rows before the damage are whole."""
    p, path = picture(1024, 256), os.path.join(tmp(), "a")
    t = Tiff(write("a.tif", p, rows=64, compression=DEFLATE))
    at = t.u32(t.place(STRIP_OFFSETS, 6)) + 300
    t.data[at:at + 9] = bytes(9)
    Image.fromarray(p).save(path + ".png")
    Image.fromarray(p).save(path + ".jpg", quality=95)
    for name, cut in ((".png", 0.6), (".jpg", 0.6)):
        data = bytes_in(path + name)
        put_file(path + name, data[:int(cut * len(data))])
    Image.fromarray(p).save(path + "0.png")
    bit = flipped(path + "0.png", os.path.getsize(path + "0.png") - 200, 4)
    for slide, damaged in ((t.save(path + ".tif"), [1]), (path + ".png", [1, 2, 3]), (path + ".jpg", [2, 3]), (bit, None)):
        out, _, j = convert(slide, "--codec", "none", status=4 if damaged else None)
        if damaged is None:
            expect(j.get("tiles_damaged", 1) > 0, "%s: %s", slide, j)
            continue
        got = [k for k, s in enumerate(np.ravel(tile_statuses(out))) if s == 2]
        expect(got == damaged, "%s: %s", slide, got)


def test_bytes_behind_the_last_row_of_a_jpeg_are_damage():
    """A flipped bit makes other pixels of all that follows; often only bytes that are left over show it."""
    good = jpeg_of(picture(304, 900), quality=90)
    bad = good[:-2] + b"\x12\x34\x56" + good[-2:]
    for name, stream in (("good", good), ("bad", bad)):
        j = convert(file_of(name + ".jpg", stream), status=1 if name == "bad" else 0)[1 if name == "bad" else 2]
        expect(name == "good" or "extraneous bytes" in j.err, "%s: %s", name, j)
        slide = Tiff(write("a.tif", picture(608, 900), rows=304))
        for k, strip in enumerate((good, stream)):
            slide.set(STRIP_OFFSETS, len(slide.data), k)
            slide.set(STRIP_BYTES, len(strip), k)
            slide.data += strip
        slide.set(259, 7)
        slide.set(262, 6)
        j = convert(slide.save(os.path.join(tmp(), "strips.tif")), status=4 if name == "bad" else 0)[2]
        expect(j["tiles_damaged"] == (8 if name == "bad" else 0), "%s: %s", name, j)


def test_pixels_are_kept_in_a_temporary_folder():
    """Every kind of picture needs it, and only for its pixels; what it lacks is trouble of the machine."""
    p, folder = picture(), tmp()
    gone = os.path.join(folder, "gone")
    slides = [write("strips.tif", p, rows=50), write("large.tif", p, (4112, 320))]
    for name in ("a.png", "a.jpg"):
        slides.append(os.path.join(folder, name))
        Image.fromarray(p).save(slides[-1])
    here, out = dict(os.environ, TMPDIR=folder), os.path.join(folder, "a.h5")
    for slide in slides:
        ran = run(WSI2H5, "-q", "-o", out, slide, status=5, env=dict(os.environ, TMPDIR=gone))
        says(ran.err, slide, "no temporary file for the pixels of a picture in " + gone, "set TMPDIR to another folder")
        ran = run(WSI2H5, "-q", "-o", out, slide, status=5, env=here, preexec_fn=small_files(1 << 20))
        says(ran.err, slide, "the temporary file for the pixels of a picture in %s cannot be written" % folder)
        expect(not os.path.exists(out), "%s: a store without pixels", slide)
        run(WSI2H5, "--print-inputs", "-o", out, slide, status=0, env=dict(os.environ, TMPDIR=gone))
        run(WSI2H5, "-q", "-o", out, slide, status=0, env=here)
        os.unlink(out)
    left = [f for f in os.listdir(folder) if f.startswith("wsi-")]
    expect(not left, "left in TMPDIR: %s", left)


def test_room_for_the_pixels_is_asked_for_first():
    """A JPEG in strips may state any size; nothing of it is decoded."""
    folder = tmp()
    space = os.statvfs(folder)
    rows = space.f_bavail * space.f_frsize // (1 << 20) * 9 // 8 + 1000
    if rows > 1 << 19:
        raise Skip("the disk has more than half a TB of room")
    t = Tiff(write("a.tif", np.zeros((1, 1, 1), np.uint8), compression=JPEG))
    for tag, value in ((WIDTH, 1 << 20), (LENGTH, rows), (ROWS_PER_STRIP, rows), (STRIP_BYTES, 64 << 20)):
        t.set(tag, value)
    slide = t.save(os.path.join(tmp(), "a.tif"))
    os.truncate(slide, 128 << 20)
    ran = run(WSI2H5, "-q", "-o", os.path.join(folder, "a.h5"), slide, status=5, env=dict(os.environ, TMPDIR=folder))
    says(ran.err, "the temporary file for the pixels of a picture needs %d bytes, and %s has" % (rows << 20, folder), "set TMPDIR")


LIBRARIES = {LZW: "tiff_lzw", DEFLATE: "tiff_adobe_deflate", 34925: "lzma", 50000: "zstd"}


def encoded(p, compression):
    """The pixels as one strip of libtiff."""
    path = os.path.join(tmp(), "encoded.tif")
    Image.fromarray(p).save(path, compression=LIBRARIES[compression])
    t = Tiff(path)
    expect(t.directories[0][STRIP_OFFSETS][1] == 1, "more than one strip")
    at = t.u32(t.place(STRIP_OFFSETS))
    return bytes(t.data[at:at + t.u32(t.place(STRIP_BYTES))])


def with_segment(p, in_tiles, k, compression, change):
    """A slide of tiles of 64 px or strips of 64 rows, of which segment k is change(its pixels)."""
    t, side = Tiff(write("a.tif", p, (64, 64) if in_tiles else None, rows=64)), 64 if in_tiles else p.shape[1]
    across = p.shape[1] // side
    for j in range(across * (p.shape[0] // 64)):
        part = np.ascontiguousarray(p[j // across * 64:][:64, j % across * side:][:, :side])
        stream = change(part) if j == k else encoded(part, compression)
        t.set(TILE_OFFSETS if in_tiles else STRIP_OFFSETS, len(t.data), j)
        t.set(TILE_BYTES if in_tiles else STRIP_BYTES, len(stream), j)
        t.data += stream
    t.set(259, compression)
    return t.save(os.path.join(tmp(), "a.tif"))


def test_tiles_and_strips_that_hold_more_than_their_samples_are_damaged():
    """A damaged stream often makes more samples than it should, and libtiff takes the first ones for whole."""
    p = picture(512, 128)
    for compression in LIBRARIES:
        cases = [  # the pixels of a segment to its bytes; damaged tiles: in tiles, in strips, in the last strip
            ("whole", lambda a: encoded(a, compression), (0, 0, 0)),
            ("a row more", lambda a: encoded(np.concatenate([a, a[:1]]), compression), (1, 1, 1)),
            ("a row fewer", lambda a: encoded(a[:-1], compression), (1, 1, 1)),
            ("a pixel more", lambda a: encoded(np.concatenate([a.reshape(1, -1, 3), a[:1, :1]], 1), compression), (1, 1, 1)),
            ("bytes behind it", lambda a: encoded(a, compression) + b"\0xyz", (0, 0, 0)),
            ("no checksum", lambda a: encoded(a, compression)[:-4], (1 if compression == DEFLATE else None, None, None)),
        ]
        for name, change, want in cases:
            for damaged, in_tiles, k in zip(want, (True, False, False), (3, 1, 7)):
                if damaged is not None:
                    j = convert(with_segment(p, in_tiles, k, compression, change), status=4 if damaged else 0)[2]
                    expect(j["tiles_damaged"] == damaged, "%d, %s, segment %d: %s", compression, name, k, j)


def test_the_last_strip_may_go_on_below_the_picture():
    p = picture(256, 128)
    for compression in LIBRARIES:
        t = Tiff(with_segment(p, False, 3, compression, lambda a: encoded(a, compression)))
        t.set(LENGTH, 240)
        out, _, j = convert(t.save(os.path.join(tmp(), "a.tif")), "--codec", "none")
        expect(j["tiles_damaged"] == 0 and np.array_equal(pixels(out), p[:240]), "%d: %s", compression, j)


def test_samples_beside_the_colours_of_strips():
    """As in tiles: alpha shows white, other samples of RGB are left out with a line, those of gray are channels."""
    p = picture()
    gray, full = p[:, :, 1:2], np.full_like(p[:, :, :1], 255)
    for how in (dict(rows=50), dict(rows=50, planes=2, compression=DEFLATE)):
        for more in (1, 2):
            slide = write("a.tif", np.concatenate([p] + more * [gray], 2), more={EXTRA: (3, more * [0])}, **how)
            out, q, j = convert(slide, "--codec", "none")
            expect(j["reader"] == "picture" and np.array_equal(pixels(out), p), "%s", j)
            says(q.err, "%d sample%s per pixel beside the colours" % (more, "s" if more > 1 else ""))
            slide = write("a.tif", np.concatenate([gray] + more * [gray], 2), photometric=1, more={EXTRA: (3, more * [0])}, **how)
            says(convert(slide, status=1)[1].err, "a.tif", "%d samples of gray" % (1 + more), "channels")
        slide = write("a.tif", np.concatenate([p, gray, full], 2), more={EXTRA: (3, [0, 2])}, **how)
        says(convert(slide)[1].err, "1 sample per pixel beside the colours")
        slide = write("a.tif", np.concatenate([gray, full], 2), photometric=1, more={EXTRA: (3, [2])}, **how)
        expect("left out" not in convert(slide)[1].err, "alpha")


def test_inks_in_strips():
    p = picture()
    black = (p[:, :, 1:2] // 3).astype(int)
    inks = np.concatenate([255 - p, black.astype(np.uint8)], 2)
    want = ((255 - black) * p.astype(int) // 255).astype(np.uint8)
    for how in (dict(rows=50), dict(compression=DEFLATE), dict(planes=2, rows=50), dict(tile=LARGE)):
        check_pixels(write("a.tif", inks, photometric=5, **how), want, "tiff" if "tile" in how else "picture", "%s" % how)


def big(path, p, swapped, resolution):
    """A BigTIFF of one strip. Its resolution lies in the entries: RATIONAL, or another type of 8 bytes."""
    order, (height, width, samples) = "><"[not swapped], p.shape
    data = struct.pack(order + "2sHHHQ", b"MM" if swapped else b"II", 43, 8, 0, 16 + p.size) + p.tobytes()
    tags = {256: (4, width), 257: (4, height), 258: (3, None), 259: (3, 1), 262: (3, 2), 273: (16, 16), 277: (3, samples), 278: (4, height),
            279: (16, p.size), 282: resolution, 283: resolution, 296: (3, 3)}
    data += struct.pack(order + "Q", len(tags))
    for tag, (kind, value) in sorted(tags.items()):
        form = {3: "HHHH", 4: "II", 16: "Q", 5: "II", 10: "ii", 11: "ff", 12: "d"}[kind]
        values = [8, 8, 8, 0] if value is None else list(value) if isinstance(value, tuple) else [value] + [0] * (len(form) - 1)
        data += struct.pack(order + "HHQ" + form, tag, kind, 3 if value is None else 1, *values)
    return put_file(path, data + bytes(8))


def test_a_resolution_in_the_entry_of_a_bigtiff_is_no_damage():
    p = picture()
    for swapped in (False, True):
        for resolution in ((5, (40000, 1)), (10, (40000, 1)), (11, 40000.), (12, 40000.)):
            out, q, j = convert(big(os.path.join(tmp(), "a.tif"), p, swapped, resolution), "--codec", "none")
            expect(np.array_equal(pixels(out), p) and "damage" not in q.err.replace("0 with damaged", ""), "%s: %s", resolution, q.err)
    slide = write("a.tif", p, more={282: (11, [0x471c4000, 0])})  # FLOAT
    expect("outside" not in convert(slide)[1].err, "classic")


def test_a_page_of_a_document_is_a_picture():
    """NewSubfileType 2 states one page of several, and describes no smaller copy; words such as label-free are no label."""
    p = picture()
    check_pixels(write("a.tif", p, more={254: (4, [2])}), p, "picture", "a page")
    check_pixels(write("a.tif", p, more={270: (2, b"label-free imaging, macrophages\0")}), p, "picture", "a description")
    pages = write("a.tif", p, pages=[p], more={254: (4, [2])})
    says(convert(pages, status=1)[1].err, "2 pictures")
    says(convert(write("a.tif", p, more={270: (2, b"label 387x463\0")}), status=1)[1].err, "not a slide")


def test_without_a_photometric_tag_samples_tell_the_colours():
    p = picture()
    for planes, want in ((p, p), (p[:, :, :1], p[:, :, :1]), (np.concatenate([p, np.full_like(p[:, :, :1], 255)], 2), p)):
        more = {EXTRA: (3, [2])} if planes.shape[2] == 4 else ()
        for tile in (None, (256, 256), LARGE):
            slide = Tiff(write("a.tif", planes, tile, more=more))
            entry = slide.directories[0][262][2]
            struct.pack_into("<H", slide.data, entry, 263)  # Threshholding, which says nothing of colours
            check_pixels(slide.save(os.path.join(tmp(), "a.tif")), want, "tiff" if tile else "picture", "%s %s" % (planes.shape, tile))


OTHER = [  # what is not read, and its words
    (dict(photometric=8, compression=DEFLATE), 3, "CIE L*a*b*"), (dict(photometric=6), 3, "YCbCr"), (dict(photometric=9), 3, "another photometric"),
    (dict(photometric=5, more={332: (3, [2])}), 4, "other inks"), (dict(photometric=5, compression=JPEG), 4, "of JPEG and JPEG 2000 only"),
    (dict(more={PREDICTOR: (3, [3])}, compression=DEFLATE), 3, "predictor 3"),
    (dict(more={BITS: (3, [16, 16, 16])}), 3, "16 bits"), (dict(compression=6), 3, "old-style JPEG"), (dict(compression=4), 3, "compression 4"),
]


def test_what_is_not_read_is_named():
    p = picture()
    p = np.concatenate([p, p[:, :, :1]], 2)
    for options, samples, words in OTHER:
        for tile in (None, LARGE):
            slide = write("a.tif", p[:, :, :samples], tile, **options)
            _, q, j = convert(slide, status=1)
            says(q.err, words, "a.tif")
            expect("copy" not in q.err, "%s", q.err)
    label = write("a.tif", p[:, :, :3], more={254: (4, [1])})
    says(convert(label, status=1)[1].err, "not a slide")
    huge = Tiff(write("a.tif", p[:, :, :3]))
    for width in (0x7fffffff, 900000):
        huge.set(WIDTH, width)
        expect("a.tif" in convert(huge.save(os.path.join(tmp(), "a.tif")), status=1)[1].err, "%d", width)


def test_a_small_file_is_no_huge_picture():
    """Or a damaged size makes a store of 12 GB of nothing."""
    p, path = picture(40, 60), os.path.join(tmp(), "a")
    slides = []
    for name, at in ((".png", 20), (".jpg", None)):
        Image.fromarray(p).save(path + name)
        data = bytearray(open(path + name, "rb").read())
        if at:
            data[at:at + 4] = struct.pack(">I", 0x7ffffff0)
            data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
        else:
            at = data.index(b"\xff\xc0") + 5
            data[at:at + 4] = b"\xff\x00\xff\x00"
        put_file(path + name, data)
        slides.append(path + name)
    for compression, tile in itertools.product((NONE, DEFLATE, PACKBITS), (None, (4112, 16))):
        t = Tiff(write("a%d.tif" % len(slides), p, tile, compression=compression))
        for tag in (LENGTH,) + ((323,) if tile else (ROWS_PER_STRIP,)):
            t.set(tag, 0x1ffffff0)
        slides.append(t.save(os.path.join(tmp(), "a%d.tif" % len(slides))))
    for slide in slides:
        begun = time.time()
        says(convert(slide, "--codec", "none", status=1)[1].err, "too small", "copy ")
        expect(time.time() - begun < 5, "%s took %.0f s", slide, time.time() - begun)
    for rows, kind in ((0x7fffffff, ".png"), (0x7fffffff, ".tif")):  # whole, but tiles of 256 px would hold 256 times as much
        begun = time.time()
        if kind == ".png":
            data = zlib.compress(bytes(1 << 22), 9)
            slide = file_of("thin.png", png_file(1, rows, 0, 8, (b"IDAT", data + bytes(300_000))))
        else:
            slide = Pages().add((1, rows), 1 << 20, [zlib.compress(bytes(1 << 20))] * 2048, {BITS: (3, [8]), 262: (3, [1]), 277: (3, [1]), 259: (3, [8])})
            slide = slide.save(os.path.join(tmp(), "thin.tif"))
        says(convert(slide, "--codec", "none", status=1)[1].err, "1 x 2147483647 px is no size of a slide")
        expect(time.time() - begun < 30, "%s took %.0f s", slide, time.time() - begun)
    t = Tiff(write("empty.tif", p))
    for tag, value in ((LENGTH, 14_000_000), (ROWS_PER_STRIP, 14_000_000), (STRIP_BYTES, 0)):
        t.set(tag, value)
    begun = time.time()
    says(convert(t.save(os.path.join(tmp(), "empty.tif")), "--codec", "none", status=1)[1].err, "nothing of it was scanned")
    expect(time.time() - begun < 5, "%.0f s", time.time() - begun)


# --- nothing arrives ---

def test_nothing_arrives():
    """All tiles are left out, or the decoder refuses each of them: no store is made."""
    same = ("--container", "generic", "--size", "500x300", "--tile", "256")
    for options, change, words in (
            ((), lambda t, k: t.set(TILE_BYTES, 0, k), "nothing of it was scanned"),
            ((), lambda t, k: t.replace_tile(k, t.tile(k)[1][:60]), "unsupported"),
            (("--compression", "deflate"), lambda t, k: t.replace_tile(k, bytes(500)), "unsupported")):
        t = Tiff(made(*same, *options))
        for k in range(4):
            change(t, k)
        for codec in ("keep", "none"):
            out, p, j = convert(t.save(os.path.join(tmp(), "a.tif")), "--codec", codec, status=1)
            says(p.err, words)
            expect(not os.path.exists(out) and "copy the slide again" not in p.err, "%s", p.err)


# --- hostile files ---

@later("ci")
def test_mutated_pictures():
    r, p = random.Random(1), picture(300, 400)
    files = [write("strips.tif", p, rows=32, compression=DEFLATE), write("large.tif", p, (4112, 320), compression=DEFLATE),
             write("plain.tif", p, rows=300), write("planes.tif", p, rows=60, planes=2, compression=PACKBITS)]
    for name, options in (("a.png", {}), ("a.jpg", {}), ("b.jpg", {"progressive": True}), ("jpeg.tif", {"compression": "jpeg"})):
        files.append(os.path.join(tmp(), name))
        Image.fromarray(p).save(files[-1], **options)
    for k in range(by_tier(60, 60, 1000)):
        data = bytearray(bytes_in(files[k % len(files)]))
        for _ in range(r.randrange(1, 5)):
            at = r.choice((r.randrange(len(data)), len(data) - 1 - r.randrange(min(260, len(data))), r.randrange(64)))
            data[at] = r.choice((0, 1, 127, 255, data[at] ^ 1 << r.randrange(8)))
        if r.random() < 0.1:
            del data[r.randrange(len(data)):]
        path = file_of("mutated" + os.path.splitext(files[k % len(files)])[1], data)
        out, q, _ = convert(path, "-j", "2", "--codec", "none", status=None)
        expect(q.returncode in (0, 1, 4) and "crashed" not in q.err, "file %d: status %d: %s", k, q.returncode, q.err[-300:])
        if os.path.exists(out):
            os.remove(out)


main(globals())
