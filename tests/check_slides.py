"""Every kind of slide there is: damage, metadata, and the files of the field with what must become of them."""
import errno
import itertools
import struct

import h5py
import numpy as np
from PIL import Image

from lib import *
from miraxfile import mirax
from ndpifile import Slide
from tiffpatch import *

WHITE = 255


# --- damage ---

DAMAGES = {"--missing": "", "--truncate": ":600", "--garbage": "", "--foreign": "", "--outside": ""}  # option of mkslide: end of its value
YCBCR = ("--photometric", "ycbcr", "--subsampling", "420", "--tile", "256")
KINDS = [  # what the slide is made of, options of wsi2h5, damages
    ((), (), DAMAGES), ((), ("--gray",), DAMAGES), (YCBCR, (), DAMAGES), (YCBCR, ("--gray",), DAMAGES), (("--compression", "33003", "--tile", "256"), (), DAMAGES),
    (("--compression", "33005", "--tile", "256"), (), DAMAGES), (("--complete-tiles",), (), ("--truncate", "--garbage", "--foreign")),
    (("--bigtiff",), (), ("--missing", "--outside")),
    # --foreign brings tables of its own: the tiles after it must be decoded with the slide's
    (("--quality", "35"), (), ("--foreign",)),
]
THROUGH_LIBTIFF = [(("--compression", "lzma"), options, ("--missing", "--truncate", "--garbage")) for options in ((), ("--gray",), ("-j", "1"))]


def damaged(kind, option):
    return made("--size", "800x700", *kind, option, "1,2" + DAMAGES[option], name="damaged")


def check_damage(kind, convert_options, option):
    """A slide with one such tile gives the whole slide's store without it; the store."""
    whole, missing = store(made("--size", "800x700", *kind, name="whole"), *convert_options), option == "--missing"
    slide = damaged(kind, option)
    path, p, j = convert(slide, *convert_options, status=0 if missing else 4)
    expect(j["status"] == ("done" if missing else "damaged") and j["reader"] == "svs", "%s %s: %s", kind, option, j)
    says(p.err, slide, "1 tile is empty in the file (never scanned)" if missing else "1 damaged tile")
    expect((j["tiles_missing"], j["tiles_damaged"]) == ((1, 0) if missing else (0, 1)), "%s %s: %s", kind, option, j)
    with h5py.File(path, "r") as f, h5py.File(whole, "r") as g:
        tile = int(f.attrs["chunk_rows"])
        got = f["groups/00001/tile_status"][()]
        expect(got[2, 1] == 2 - missing and (got != 0).sum() == 1, "%s %s: status %s", kind, option, got)
        a, b = f["pixels"][()], g["pixels"][()]
        expect((a[2 * tile:3 * tile, tile:2 * tile] == WHITE).all(), "%s %s: not background", kind, option)
        a[2 * tile:3 * tile, tile:2 * tile] = b[2 * tile:3 * tile, tile:2 * tile]
        expect(np.array_equal(a, b), "%s %s: a tile beside it is wrong", kind, option)
    return path


def check_damages(kinds):
    for kind, options, damages in kinds:
        run(H5SPEC, "verify", *(check_damage(kind, options, option) for option in damages))


@later("ci")
def test_damaged_tiles_of_every_kind():
    check_damages(KINDS)
    for option in DAMAGES:
        slide, out, missing = damaged((), option), os.path.join(tmp(), "x.h5"), option == "--missing"
        p = run(WSI2H5, "--on-damage", "fail", "-o", out, slide, status=0 if missing else 1)
        says(p.err, slide, "(never scanned)" if missing else "rejected because of --on-damage fail")
        expect(os.path.exists(out) == missing, "a refused slide has a store, or a good one none")


@later("ci")
def test_damaged_tiles_that_libtiff_decodes():
    check_damages(THROUGH_LIBTIFF)


def test_a_tile_without_tables_is_not_decoded_with_another_s():
    for kind in ((), ("--photometric", "ycbcr", "--tile", "256")):
        t = Tiff(made("--size", "800x700", "--complete-tiles", *kind))
        at, stream = t.tile(5)
        for marker in (b"\xff\xdb", b"\xff\xc4"):  # tables become application data
            t.data[at:at + len(stream)] = bytes(t.data[at:at + len(stream)]).replace(marker, b"\xff\xef")
        slide = t.save(os.path.join(tmp(), "bare.svs"))
        for options in (("-j", "1"), ("-j", "2"), ("-j", "1", "--gray")):
            out, _, j = convert(slide, *options, status=4)
            status = values_in(out, "groups/00001/tile_status").flatten()
            expect(status[5] == 2 and (status != 0).sum() == 1, "%s", status)


def test_tables_of_the_slide_that_hold_a_picture():
    t = Tiff(made("--size", "800x700"))
    whole = Tiff(made("--size", "800x700", "--complete-tiles", name="whole")).tile(5)[1]
    kind, _, entry = t.directories[0][JPEG_TABLES]
    struct.pack_into("<II", t.data, entry + 4, len(whole), len(t.data))
    t.data += whole
    slide = t.save(os.path.join(tmp(), "picture.svs"))
    for options in ((), ("--gray",), ("--codec", "jpeg")):
        _, p, j = convert(slide, *options, status=1)
        says(p.err, "its JPEG tables are invalid")


def test_jpeg_2000_header_is_checked_before_memory_is_allocated():
    slide = made("--size", "800x700", "--compression", "33005", "--tile", "256")
    _, stream = Tiff(slide).tile(0)
    size = stream[4:51]  # the SIZ segment
    expect(stream[:4] == b"\xff\x4f\xff\x51" and size[:2] == struct.pack(">H", 47), "SIZ")
    more = struct.pack(">H", 38 + 3 * 8000) + size[2:36] + struct.pack(">H", 8000) + size[38:41] * 8000
    headers = [more, size[:38] + b"\x0f" + size[39:],  # components; 16 bits
               size[:20] + struct.pack(">II", 1, 1) + size[28:],  # 65,536 inner tiles
               size[:4] + struct.pack(">II", 1 << 16, 1 << 16) + size[12:]]  # another size
    for header in headers:
        t = Tiff(slide)
        for k in range(12):
            t.replace_tile(k, stream[:4] + header + stream[51:])
        _, p, j = convert(t.save(os.path.join(tmp(), "x.svs")), "-j", "2", status=1)
        says(j["message"], "none of its tiles can be decoded")
        peak = re.search(r"peak memory ([0-9.]+) (\w+)", p.err).groups()
        expect(peak[1] == "MiB" and float(peak[0]) < (2000 if SAN else 200), "%s MiB", peak)


def test_gray_of_formats_that_are_not_jpeg():
    for options in (("--compression", "33003"), ("--compression", "33005"), ("--compression", "deflate")):
        slide = made("--size", "700x600", "--tile", "256", *options)
        want = pixels(store(slide)).astype(int) @ (299, 587, 114) / 1000
        for tissue in ((), ("--tissue-mask", everywhere())):  # a tissue map of the slide needs the colours, too
            off = np.abs(pixels(store(slide, "--gray", *tissue)).reshape(want.shape) - want)
            expect(off.max() <= 1, "%s: differs by %g", options + tissue, off.max())


def test_tile_that_begins_with_0x11():
    # seen in files near 4 GB: the right length, another first byte
    whole = made("--size", "500x500", name="whole")
    want = pixels(store(whole))
    data = bytearray(open(whole, "rb").read())
    at = data.index(b"\xff\xd8", data.index(b"\xff\xd8") + 2)  # the second stream of the file
    data[at] = 0x11
    path = file_of("eleven.svs", data)
    out, _, j = convert(path, status=None)
    if j.get("tiles_damaged"):
        expect((pixels(out) != want).any(2).sum() <= 240 * 240, "more than one tile differs")
    kept = convert(path, "--codec", "jpeg", status=None)[2]
    expect(kept["tiles_damaged"] == j["tiles_damaged"], "codec jpeg: %s", kept)


def test_an_empty_tile_of_one_row_of_pixels_is_missing():
    slide = made("--size", "700x513", "--tile", "256", "--description", "scanned elsewhere", "--compression", "deflate",
                 "--missing", "1,2", name="one_row")
    out, _, j = convert(slide)
    status = values_in(out, "groups/00001/tile_status")
    expect(status.tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 0]] and j["tiles_missing"] == 1, "%s", status)


def test_size_that_contradicts_the_tables():
    own, through_openslide = (), ("--compression", "deflate")
    for kind, tag, value in ((own, LENGTH, 400), (own, LENGTH, 700 + (1 << 20)), (own, WIDTH, 300), (own, WIDTH, 5000),
                             *((through_openslide, *change) for change in ((LENGTH, 400), (WIDTH, 300), (LENGTH, 5000)))):
        t = Tiff(made("--size", "800x700", *kind))
        t.set(tag, value)
        out, _, j = convert(t.save(os.path.join(tmp(), "size.svs")), status=1)
        expect(j["status"] == "failed" and not os.path.exists(out), "%s", j)
        says(j["message"], "damaged: ", "12 and 12 entries", "copy the slide again")


def test_size_that_contradicts_the_description():
    """One bit of ImageLength can cost rows of pixels without changing the number of tiles."""
    for start in ("900x800 [50,0 800x700] (240x240)", "900x800 [50,0,800x700] (240x240)"):
        for tag, value in ((LENGTH, 690), (LENGTH, 720), (WIDTH, 960)):
            t = Tiff(made("--size", "800x700", "--description", "Aperio Image Library v1\r\n%s JPEG/RGB|MPP = 0.5" % start))
            convert(t.save(os.path.join(tmp(), "whole.svs")))
            t.set(tag, value)
            out, _, j = convert(t.save(os.path.join(tmp(), "size.svs")), status=1)
            expect(j["status"] == "failed" and not os.path.exists(out), "%s", j)
            says(j["message"], "damaged: ", "its description says 800 x 700", "copy the slide again")


def test_descriptions_that_state_another_slide_s_size():
    """Some programs cut slides and keep the description; others write none of the sizes."""
    for line in ("46000x32914 [42673,5576 2220x2967] (240x240)", "800x700", "[0,0", "800x690 [0,0 0x0]", "[1,2 3x4", "x|[0,0 800x690]"):
        convert(made("--size", "800x700", "--description", "Aperio Image Library v1\r\n%s|MPP = 0.5" % line, name="cut"))


def test_slide_that_lacks_more_than_half_of_its_tiles():
    t = Tiff(made("--size", "800x700"))
    for k in range(7):
        t.set(TILE_OFFSETS, len(t.data) + 1000 * k, k)
    out, _, j = convert(t.save(os.path.join(tmp(), "cut.svs")), status=1)
    says(j["message"], "7 of 12 tiles lie beyond the end of the file")


def test_a_better_copy_of_a_damaged_slide_is_converted():
    good = made("--size", "800x700", "--levels", "2", name="slide")
    bad_tile = made("--size", "800x700", "--levels", "2", "--garbage", "1,1", name="bad")
    data = open(good, "rb").read()
    # another size, without damaged tiles; another tile
    for bad, status in ((data[:-1000], 0), (open(bad_tile, "rb").read(), 4)):
        folder, out = tmp("in"), tmp("out")
        slide = os.path.join(folder, "slide.svs")
        open(slide, "wb").write(bad)
        run(WSI2H5, "-o", out, slide, status=status)
        says(run(WSI2H5, "-o", out, slide, status=status).err,
             "0 converted, 1 skipped (up to date), %d with damaged tiles" % (status == 4))
        shutil.copy2(good, slide)  # keeps the old time
        says(run(WSI2H5, "-o", out, slide).err, "has changed since", "1 converted")
        says(run(WSI2H5, "-o", out, slide).err, "1 skipped (up to date)")


def test_damage_is_reported_by_every_run():
    slide = made("--size", "800x700", "--garbage", "1,1", name="bad")
    out = os.path.join(tmp(), "bad.h5")
    for status, options in ((4, ()), (4, ()), (0, ("--accept-damage",)), (4, ("-q",))):
        p = run(WSI2H5, *options, "-o", out, slide, status=status)
        says(p.err, slide + ": 1 damaged tile, filled with the background", "copy the slide again", " and convert it with --force")
    p = run(WSI2H5, "--on-damage", "fail", "-o", out, slide, status=1)
    says(p.err, out, "1 damaged tile", "rejected because of --on-damage fail")
    run(WSI2H5, "--accept-damage", "-o", os.path.join(tmp(), "x.h5"), slide)


@later("ci")
def test_errors_that_pass_are_not_recorded_as_damage():
    """Each open and read on the slide fails once: the store is as without, or there is none."""
    folder = tmp()
    slide, out, count = (os.path.join(folder, f) for f in ("s.svs", "s.h5", "count"))
    shutil.copy(made("--size", "300x300", "--icc", "fake:500"), slide)
    run(WSI2H5, "-o", out, slide)
    whole = open(out, "rb").read()
    tried = 0
    for call in ("open", "read"):
        os.unlink(out) if os.path.exists(out) else None
        failing(call, folder, 0, 0, WSI2H5, "-o", out, slide, status=0, TORTURE_COUNT=count)
        n = int(open(count).read())
        for k in range(1, n + 1, 3):
            os.unlink(out) if os.path.exists(out) else None
            p = failing(call, folder, k, errno.EMFILE if k % 2 else errno.EIO, WSI2H5, "-o", out, slide)
            same = os.path.exists(out) and open(out, "rb").read() == whole
            expect(same or not os.path.exists(out), "%s %d: another store: %s", call, k, p.err)
            expect(p.returncode == 0 and same or p.returncode in (1, 5) and slide in p.err, "%s %d: %s", call, k, p.err)
            tried += 1
    expect(tried > 30, "only %d tries", tried)  # OpenSlide 4 opens the slide less often than OpenSlide 3


def test_one_call_that_fails_once_changes_neither_reader_nor_codec_nor_thumbnail():
    """Whatever the error is: the store is as without it, or there is none and the status is not 0."""
    slide, out = copied(made("--size", "300x300", "--icc", "fake:500")), os.path.join(tmp(), "s.h5")
    run(WSI2H5, "-o", out, slide, default_codec=True)
    whole = open(out, "rb").read()
    for call, numbers in (("open", [*range(1, 13), 20, 40, 60]), ("stat", range(1, 4)), ("fstat", range(1, 4))):
        for error, k in itertools.product((errno.ENOENT, errno.ENOSPC), numbers):
            os.path.exists(out) and os.unlink(out)
            p = failing(call, slide, k, error, WSI2H5, "-o", out, slide, default_codec=True)
            same = os.path.exists(out) and open(out, "rb").read() == whole
            expect(p.returncode in (1, 5) and not os.path.exists(out) or p.returncode == 0 and same, "%s %d: %d %s", call, k, p.returncode, p.err)


def test_a_slide_that_is_replaced_between_two_opens():
    """Its own reader holds one file, OpenSlide would open the other one."""
    library = preloaded("""
        void *openslide_open(const char *path) {
            void *(*f)(const char *);
            static int calls;
            *(void **)&f = dlsym(RTLD_NEXT, "openslide_open");
            const int now = ++calls == atoi(getenv("AT")), after = getenv("AFTER") != NULL;
            if (now && !after)
                rename(getenv("NEW"), path);
            void *o = f(path);
            if (now && after)
                rename(getenv("NEW"), path);
            return o;
        }""")
    whole, other = made("--size", "900x800", name="t"), made("--size", "700x500", name="n")
    openslides = made("--size", "900x800", "--compression", "lzma", name="l")
    for kind, after in itertools.product((whole, openslides), ({}, {"AFTER": "1"})):
        folder = tmp()
        slide, new, out = (os.path.join(folder, f) for f in ("s.svs", "new", "s.h5"))
        shutil.copy(kind, slide)
        shutil.copy(other, new)
        p = run(WSI2H5, "--json", "-o", out, slide, status=5, env=dict(os.environ, LD_PRELOAD=library, NEW=new, AT="1", **after))
        says(p.err, slide, "changed while it was read; run again")
        expect(not os.path.exists(out) and json_lines(p.out)[0]["cause"] == "trouble", "%s", p.out)
        j = json_lines(run(WSI2H5, "--json", "-o", out, slide, default_codec=True).out)[0]
        expect((j["width"], j["codec"]) == (700, "jpeg"), "the new slide: %s", j)


@later("ci")
def test_a_failed_allocation_inside_a_library_makes_no_white_rows():
    """Allocations of every kind fail once: the store is as without, or there is none."""
    met = set()
    for compression, *more in (("deflate",), ("33005",), ("33005", "--tile", "4112x16")):  # the last is decoded to a file
        out, reported = os.path.join(tmp(), "s.h5"), 0
        argv = [WSI2H5, "-j", "1", "-o", out,
                made("--size", "300x300", "--description", "scanned elsewhere", "--bigtiff", "--compression", compression, *more)]
        run(*argv)
        whole = values_in(out, "groups/00001/pixels").tobytes()
        for ran, place in failing_allocations(argv, out, met=met):
            reported += "out of memory" in ran.err
            if os.path.exists(out):
                with h5py.File(out, "r") as f:
                    expect(f["groups/00001/pixels"][()].tobytes() == whole, "%s, %s: other pixels: %s", compression, place, ran.err)
        expect(reported > 0, "%s: no allocation fails while tiles are decoded", compression)


def test_what_a_lock_leaves_in_errno_is_no_error():
    """Waiting for a lock inside OpenSlide sets EAGAIN; a damaged tile after it is still a damaged tile."""
    library = preloaded("""
        void openslide_read_region(void *o, uint32_t *p, int64_t x, int64_t y, int32_t l, int64_t w, int64_t h) {
            void (*f)(void *, uint32_t *, int64_t, int64_t, int32_t, int64_t, int64_t);
            *(void **)&f = dlsym(RTLD_NEXT, "openslide_read_region");
            f(o, p, x, y, l, w, h);
            errno = EAGAIN;
        }""")
    slide = made("--size", "800x700", "--compression", "deflate", "--garbage", "1,1", name="bad")
    out = os.path.join(tmp(), "x.h5")
    p = run(WSI2H5, "-o", out, slide, status=4, env=dict(os.environ, LD_PRELOAD=library))
    says(p.err, slide, "1 damaged tile")
    expect(os.path.exists(out), "no store: %s", p.err)


KINDS_OF_FILES = [  # name, bytes, words of the message
    ("page.svs", b"\xef\xbb\xbf\n<!DOCTYPE HTML><p>503", "an HTML page"), ("notes.svs", b"see the other disk", "a text file"),
    ("zero.svs", bytes(9999), "all zero"), ("archive.svs", b"PK\3\4...", "a compressed archive"),
    ("store.svs", b"\x89HDF\r\n\x1a\n", "h5spec"), ("cut.tif", b"II*\0\x99\x99\0\0" + bytes(90), "directory is damaged"),
    ("bytes.svs", bytes(range(1, 256)), "not a slide in a known format"), ("cut.dcm", bytes(128) + b"DICM", "a DICOM file"),
    ("picture.svs", b"\xff\xd8\xff\xe0....", "a JPEG picture"), ("big.tif", b"MM\0\x2b" + b"\xff" * 60, "directory is damaged"),
]


def test_message_says_what_a_file_is():
    for (_, _, words), j in zip(KINDS_OF_FILES, convert_all({name: data for name, data, _ in KINDS_OF_FILES})):
        says(j["message"], j["input"] + ": not a slide", words)


# --- metadata ---

SCALES = [  # --mpp, --appmag, what the store says
    ("0.4990", "20", 0.499, 20), ("0,2520", "40", 0.252, 40), ("none", "none", None, None), ("0", "0", None, None),
    ("-0.25", "-3", None, None), ("abc", "x40", None, None), ("0.25", "40.0", 0.25, 40), ("1e400", "inf", None, None),
]


def test_scales_as_they_are_written():
    for mpp, appmag, want_mpp, want_power in SCALES:
        a = attributes_of(convert(made("--size", "300x200", "--mpp=" + mpp, "--appmag=" + appmag))[0])
        got = [a.get(name) for name in ("mpp_x", "mpp_y", "objective_power")]
        expect(got == [want_mpp, want_mpp, want_power], "MPP %s, AppMag %s: %s", mpp, appmag, got)


def test_descriptions_that_are_odd():
    for text in ("Aperio", "Aperio |||", "Aperio Image Library v1\r\n1x1|MPP = |AppMag", "Aperio|" + "x" * 70000,
                 "Aperio Image;Aperio Again|MPP = 0.5|MPP = 0.7|Date = 01/02/03", "Aperio|=|= |MPP=0.25"):
        path, _, j = convert(made("--size", "300x200", "--description", text))
        expect(j["vendor"] == "aperio", "%s", j)
        with h5py.File(path, "r") as f:
            words = " ".join("%s=%s" % i for i in f["properties"].attrs.items())
            expect("01/02/03" not in words, "a date in %s", words)


def test_icc_profile():
    slide = made("--size", "300x200", "--icc", "fake:5000")
    path, _, _ = convert(slide, "--keep-identifiers")
    with h5py.File(path, "r") as f:
        profile = f["icc_profile"][()]
        expect(profile.dtype == np.uint8 and profile.shape == (5000,), "%s", profile.shape)
        expect(profile.tobytes() in open(slide, "rb").read(), "not the slide's bytes")
    with h5py.File(convert(made("--size", "300x200"))[0], "r") as f:
        expect("icc_profile" not in f, "a profile from nowhere")
    with h5py.File(convert(made("--size", "300x300", "--compression", "deflate"))[0], "r") as f:
        expect("icc_profile" not in f, "a profile from nowhere, through OpenSlide")


def stored_icc(profile, *options):
    with h5py.File(convert(made("--size", "300x200", "--icc", file_of("profile", profile)), *options)[0], "r") as f:
        return f["icc_profile"][()].tobytes() if "icc_profile" in f else None


def test_texts_of_icc_profiles_are_blanked():
    wide = "SECRET".encode("utf-16-be")
    texts = [(b"cprt", b"text" + bytes(4) + b"SECRET\0"), (b"dmdd", b"desc" + struct.pack(">II", 0, 7) + b"SECRET\0" + bytes(78)),
             (b"desc", b"mluc" + struct.pack(">IIIHHII", 0, 1, 12, 0x656e, 0x5553, len(wide), 28) + wide),
             (b"priv", b"abcd" + bytes(4) + b"SECRET")]
    colours = [(b"rXYZ", b"XYZ " + bytes(4) + struct.pack(">iii", 28000, 14000, 900)),
               (b"rTRC", b"curv" + bytes(4) + struct.pack(">IH", 1, 563)), (b"A2B0", b"mft2" + bytes(range(4, 100)))]
    profile = icc(texts + colours)
    got = stored_icc(profile)
    expect(len(got) == len(profile) and b"SECRET" not in got and wide not in got, "a text")
    expect(b"MADE0815" not in got and b"IIII" not in got and got[24:26] != profile[24:26], "the header")
    expect(got[128:132 + 12 * 7] == profile[128:132 + 12 * 7] and got[:24] == profile[:24], "the table")
    for _, data in colours:
        expect(data in got, "colour data has changed")
    expect(stored_icc(profile, "--keep-identifiers") == profile, "--keep-identifiers")


def test_icc_profiles_that_are_not_valid_are_not_stored():
    good = icc([(b"rXYZ", b"XYZ " + bytes(16))])
    for bad in (good[:140], b"SECRET" * 50, good[:128] + b"\xff" * 4 + good[132:], good[:136] + b"\xff" * 8 + good[144:],
                good[:136] + struct.pack(">II", 4, 20) + good[144:], good[:36] + b"nope" + good[40:]):
        expect(stored_icc(bad) is None, "stored")
    expect(stored_icc(good) is not None, "a valid one is not stored")


def test_only_listed_properties_are_stored():
    keys = ["MRN", "DOB", "Hospital", "Notes", "Rack", "Slide", "Parmset", "appmag", "AppMag2", "XAppMag"]
    text = "Aperio|AppMag = 20|MPP = 0.25|StripeWidth = Smith|Left = 12/03/1956|Gamma = 2.2|Top = 123456789012345678901234567|" + \
        "|".join("%s = 17" % k for k in keys)
    for rest in ((), ("--outside", "0,0")):  # with OpenSlide's properties, and with our own
        slide = made("--size", "800x700", "--description", text, *rest, name="listed")
        got = attributes_of(convert(slide, status=None)[0], "properties")
        ours = {k for k in got if k.startswith("aperio.")}
        expect(ours == {"aperio.AppMag", "aperio.MPP", "aperio.Gamma"}, "%s", ours)
        expect(not [k for k in got if k.startswith("tiff.") and k not in ("tiff.ResolutionUnit", "tiff.XResolution",
                                                                       "tiff.YResolution")], "%s", got)
        with h5py.File(convert(slide, "--keep-identifiers", status=None)[0], "r") as f:
            expect({"aperio." + k for k in keys} <= set(f["properties"].attrs), "--keep-identifiers")


def test_what_is_lost_besides_pixels_is_no_damage():
    """It was "the file is damaged; copy the slide again", status 4, of slides from which tools had removed pictures."""
    t = Tiff(made("--size", "800x700", "--icc", "fake:5000"))
    t.put_u32(t.directories[0][ICC][2] + 8, len(t.data) + 10)
    profile = t.save(os.path.join(tmp(), "noicc.svs"))
    t = Tiff(made("--size", "800x700"))
    t.set(273, len(t.data) + 10, 0, 1)  # the thumbnail's first strip
    outside = t.save(os.path.join(tmp(), "outside.svs"))
    t = Tiff(made("--size", "800x700"))
    for k in range(t.directories[1][273][1]):
        at, n = (t.u32(t.place(tag, k, 1)) for tag in (273, 279))
        t.data[at:at + n] = bytes(n)
    blanked = t.save(os.path.join(tmp(), "blanked.svs"))
    t = Tiff(made("--size", "800x700"))
    t.data[t.u32(t.links[2]):t.links[3]] = bytes(t.links[3] - t.u32(t.links[2]))  # the label's directory
    zeroed = t.save(os.path.join(tmp(), "zeroed.svs"))
    whole = pixels(store(made("--size", "800x700"), "--codec", "none"))
    for slide, words in ((profile, "its ICC profile cannot be read"), (outside, "its thumbnail cannot be read"), (blanked, "its thumbnail cannot be read"),
                         (zeroed, "its list of directories leads out of the file")):
        for options in ((), ("--on-damage", "fail"), ("--codec", "none")):
            path, p, j = convert(slide, *options)
            expect(j["status"] == "done" and words in j["problem"] and p.err.count(words) == 1, "%s: %s", j, p.err)
            expect("copy the slide again" not in p.err and "1 with damaged" not in p.err, p.err)
            expect(attributes_of(path)["source_problem"] == j["problem"], "%s", j)
        expect((pixels(path) == whole).all(), "%s: pixels", slide)
        says(run(WSI2H5, "-o", path, *options, slide).err, "1 skipped", words)


def test_label_and_macro_never():
    for options in ((), ("--empty-descriptions",), ("--no-thumbnail",)):
        path, _, _ = convert(made("--size", "900x700", *options), "--keep-identifiers")
        with h5py.File(path, "r") as f:
            pictures = sorted(f["associated"]) if "associated" in f else []
            expect(pictures in ([], ["thumbnail"]), "%s", pictures)
            shape = f["associated/thumbnail"].shape if "associated" in f else None
            # without a thumbnail OpenSlide 3.4 takes the next picture for it, which is the label
            expect(shape is None or abs(shape[1] / shape[0] - 900 / 700) < 0.05, "%s: %s", options, shape)


def test_properties_where_openslide_cannot_open():
    slide = made("--size", "800x700", "--outside", "1,1", "--mpp", "0,5", name="outside")
    path, p, _ = convert(slide, status=4)
    with h5py.File(path, "r") as f:
        expect(f.attrs["mpp_x"] == 0.5 and f["properties"].attrs["aperio.AppMag"] in ("20", b"20"), "properties")
        expect("Patient" not in str(dict(f["properties"].attrs)), "a name")


def test_description_that_repeats_a_key():
    text = "Aperio Image|A = 1|MPP = 0.5|A = 2|AppMag = 20|MPP = 0.5|" + "k" * 500 + " = 1"
    slide = made("--size", "800x700", "--description", text, "--outside", "1,1", name="repeats")
    path, p, j = convert(slide, "--keep-identifiers", status=4)
    expect(j["status"] == "damaged", "%s", j)
    expect(str(attributes_of(path, "properties")["aperio.A"]) in ("2", "b'2'"), "%s", attributes_of(path, "properties")["aperio.A"])


def test_second_directory_that_cannot_be_read():
    t = Tiff(made("--size", "800x700"))
    t.put_u32(t.links[1], len(t.data) + 1000)
    path, p, j = convert(t.save(os.path.join(tmp(), "cut.svs")))
    expect(j["status"] == "done" and j["reader"] == "svs" and j["problem"] == "its list of directories leads out of the file", "%s", j)
    with h5py.File(path, "r") as f, h5py.File(store(made("--size", "800x700")), "r") as g:
        expect((f["pixels"][()] == g["pixels"][()]).all(), "pixels")


# --- the field ---

FILES = [  # file of the folder of real slides, status of each reading, words of the message or the reader
    ("CMU-1-Small-Region.svs", "done", "svs"),
    ("CMU-1-Small-Region.jpeg.tiff", "done", "tiff"),
    ("small.svs", "done", "svs"),
    ("test3-TRITC 2 (560).ndpi", "done", "ndpi"),
    ("boxes.tiff", "done", "tiff"),
    ("valid_tiff.tif", "done", "tiff"),
    ("yb10kx5k.zstd.tiff", "done", "tiff"),
    ("unreadable.svs", "failed", "none of its tiles can be decoded"),
    ("boxes_0.dcm", "done", "dicom"),
    ("OS-1-detail.ome.tif", "done", "tiff"),
    ("XYC_-compression_zlib_-tilex_128_-tiley_128_-pyramid-scale_2_-merge.ome.tiff", "done", "tiff"),
    ("bad_header1.tif", "failed", "not a slide in a known format"),
    ("bad_ifd_offset.tif", "failed", "a directory is not in the file"),
    ("bad_jpeg.tif", "done", "picture"),
    ("bad_tag_offset.tif", "done", "a tag of its directory"),
    ("broken-html.svs", "failed", "an HTML page, perhaps a failed download"),
    ("grey10kx5k.tif", "done", "picture"),
    ("unopenable.tiff", "failed", "Unsupported TIFF compression"),
    ("Hamamatsu-VMS/CMU-1-40x - 2010-01-12 13.24.05.vms", "failed", "No restart markers"),
    ("Hamamatsu-VMS/CMU-1-40x - 2010-01-12 13.24.05.jpg", "done", "picture"),
]


def test_files_of_the_field():
    real("small.svs")
    wrong = []
    for name, status, words in FILES:
        path, p, j = convert(real(name), status=None)
        said = " ".join(j.get(key, "") for key in ("message", "problem", "reader"))
        if j["status"] != status or words not in said or p.returncode != {"done": 0, "damaged": 4}.get(status, 1):
            wrong.append("%s: %s, %s" % (name, j["status"], said))
        if status != "failed":
            run(H5SPEC, "verify", path)
        expect(status != "failed" or not os.path.exists(path), "%s failed and left a store", name)
    expect(not wrong, "; ".join(wrong))


def test_every_file_of_the_folder_is_in_the_table():
    folder = os.path.dirname(real("small.svs"))
    here = [f for f in os.listdir(folder) if f not in ("README.md", "Hamamatsu-VMS")]
    expect(set(here) <= {f[0] for f in FILES}, "%s", set(here) - {f[0] for f in FILES})


# --- glass that was never scanned ---

def page(size, text=None, **tags):
    """Size, JPEG tiles of 256 px and tags of a picture of blocks and noise."""
    rng = np.random.default_rng(size[0])
    rgb = rng.integers(150, 250, (-(-size[1] // 8), -(-size[0] // 8), 3)).repeat(8, 0).repeat(8, 1)[:size[1], :size[0]] + rng.integers(-20, 5, size[::-1] + (3,))
    tiles = [jpeg_of(tile) for tile in cut(rgb.astype(np.uint8), (256, 256))]
    return size, (256, 256), tiles, {259: (3, [7]), 262: (3, [6]), 284: (3, [1]), 530: (3, [2, 2]), **({DESCRIPTION: (2, text)} if text else {}), **tags}


def scn(path, sizes=((700, 500),), collection=(1536, 1024), places=((300, 200),), nm=1000):
    """A Leica SCN: a collection, of which images at these places, with levels of these sizes, show parts."""
    (w, h), (aw, ah) = collection, sizes[0]
    macro = [((w // 8, h // 8), len(sizes))] if len(places) > 1 else []  # OpenSlide needs one of several images
    xml = '<?xml version="1.0"?><scn xmlns="http://www.leica-microsystems.com/scn/2010/10/01"><collection name="c" sizeX="%d" sizeY="%d">' % (w * nm, h * nm)
    images = [((x, y, aw, ah), [(size, k) for k, size in enumerate(sizes)]) for x, y in places] + [((0, 0, w, h), [m]) for m in macro]
    for (x, y, across, down), levels in images:
        xml += ('<image name="i"><pixels sizeX="%d" sizeY="%d">' % (across, down) +
                "".join('<dimension sizeX="%d" sizeY="%d" r="%d" ifd="%d"/>' % (*size, k, k) for size, k in levels) +
                '</pixels><view sizeX="%d" sizeY="%d" offsetX="%d" offsetY="%d" spacingZ="0"/><scanSettings><objectiveSettings><objective>20</objective>'
                '</objectiveSettings><illuminationSettings><illuminationSource>brightfield</illuminationSource></illuminationSettings></scanSettings>'
                '</image>' % (across * nm, down * nm, x * nm, y * nm))
    file = Pages()
    for k, size in enumerate([*sizes, *(m[0] for m in macro)]):
        file.add(*page(size, None if k else (xml + "</collection></scn>").encode() + b"\0"))
    return file.save(path)


def trestle(path, sizes):
    file = Pages()
    for size in sizes:
        size, form, tiles, tags = page(size, b"Background Color=FFFFFF;White Balance=1;\0")
        file.add(size, form, tiles, {**tags, 305: (2, b"MedScan 1.0\0")})
    return file.save(path)


def test_levels_through_openslide_have_their_own_pixels():
    """Where downsamples are no whole numbers tiles were shifted by a pixel (Leica), or interpolated without a word."""
    path = os.path.join(tmp(), "level.tif")
    kinds = [(scn, {"collection": (1999, 1100), "places": ((x, y),)}, sizes) for (x, y), sizes in itertools.product(((3, 1), (300, 211)), (
        ((1501, 702), (750, 351), (375, 175)), ((1499, 702), (750, 351), (375, 176)), ((1501, 703), (751, 352), (376, 176)), ((1400, 700), (700, 350), (350, 175))))]
    kinds += [(trestle, {}, sizes) for sizes in (((1501, 702), (750, 351)), ((1499, 703), (750, 352)), ((1201, 602), (300, 150)), ((1600, 800), (800, 400)))]
    for make, how, sizes in kinds:
        for level in range(1, len(sizes)):
            out, p, j = convert(make(path, sizes=sizes, **how), "--level", str(level), "--codec", "none")
            got, want = pixels(out), openslide_pixels(path, level)
            expect(j["reader"] == "openslide" and got.shape == want.shape and (got == want).all(), "%s, %s, %s, level %d, downsample %s: %d px differ",
                   make.__name__, how, sizes, level, j["downsample"], (got != want).any(2).sum())
            expect("interpolated" not in j and "interpolated" not in p.err, "%s", j)
    for slide, words in ((trestle(path, ((9001, 70), (4500, 35))), "reads from whole pixels of level 0"),
                         (scn(path + ".scn", ((1501, 702), (750, 351)), (4000, 800), ((3, 1), (2000, 9))), "can shift one of its scanned areas by a pixel")):
        for _ in range(2):
            p = run(WSI2H5, "--json", "--level", "1", "-o", slide + ".h5", slide)
            says(p.err, "level 1 is interpolated: its downsample is 2.0", words)
            says(json_lines(p.out)[0]["interpolated"], words)
        says(run(H5SPEC, "info", slide + ".h5").out, "interpolated", words)
        expect(words in attributes_of(slide + ".h5")["interpolated"], "%s", attributes_of(slide + ".h5"))
        expect("interpolated" not in run(WSI2H5, "--force", "-o", slide + ".h5", slide).err, "level 0")


def test_the_reader_that_knows_a_slide_says_why_it_cannot_be_read():
    """Not an earlier reader, whose remedy would take the first picture of the file, the macro."""
    two = scn(os.path.join(tmp(), "two.scn"), places=((300, 200), (0, 0)))
    put_file(two, bytes_in(two).replace(b"<objective>20", b"<objective>40", 1))
    ndpi = Slide().add(bytes(999), 1024, 512, 20.0, starts=[], drop=(259,), entries=[(259, 3, [22610])]).save()
    t = Tiff(made("--container", "generic", "--size", "300x200"))
    t.set(259, 34934)
    for slide, *words in ((two, "Slides with dissimilar main images are not supported"), (ndpi, "JPEG XR (compression 22610)"),
                          (t.save(os.path.join(tmp(), "xr.tif")), "JPEG XR (compression 34934)")):
        err = convert(slide, status=1)[1].err
        says(err, slide, "OpenSlide cannot open it: ", *words, "write the slide in another format first")
        expect("vips" not in err and "tiled TIFF" not in err, "%s", err)


def check_holes(slide, scanned):
    """`scanned`: [rows][columns] of chunks, those with a scanned pixel."""
    out, p, j = convert(slide)
    expect((tile_statuses(out) == np.where(scanned, 0, 1)).all(), "%s", tile_statuses(out))
    expect(j["tiles_missing"] == int((~scanned).sum()) and j["status"] == "done", "%s", j)
    says(p.err, "empty in the file (never scanned)")
    return out


def test_what_was_never_scanned_is_missing_in_a_leica_slide():
    slide = os.path.join(tmp(), "holes.scn")
    scn(slide)
    scanned = np.zeros((4, 6), bool)
    scanned[0:3, 1:4] = True  # x 300..1000, y 200..700
    out = check_holes(slide, scanned)
    result = spectrum([out])
    flags = 4  # touches a missing tile
    with h5py.File(result, "r") as f:
        got = f["slides"][list(f["slides"])[0]]["window_flags"][()]
    def around(k, size):  # the chunks of a window and of the 3 px around it, which smoothing reads
        return slice(max(0, 128 * k - 3) // 256, min(size - 1, 128 * k + 258) // 256 + 1)
    want = np.array([[not scanned[around(y, 1024), around(x, 1536)].all() for x in range(11)] for y in range(7)])
    expect(((got & flags > 0) == want).all(), "%s", got)


def test_what_was_never_scanned_is_missing_in_a_mirax_slide():
    rng, there = np.random.default_rng(2), [(1, 0), (2, 0), (1, 1), (4, 2)]
    slide = mirax(tmp(), 6, 3, {p: rng.integers(100, 250, (256, 256, 3)).astype(np.uint8) for p in there})
    scanned = np.zeros((3, 6), bool)
    for c, r in there:
        scanned[r, c] = True
    check_holes(slide, scanned)


def test_mirax_slides_that_lack_files_are_named():
    rgb = np.full((256, 256, 3), 200, np.uint8)
    for lost, words in (("", "whose folder m"), ("Index.dat", "Index.dat"), ("Slidedat.ini", "Slidedat.ini")):
        folder = tmp()
        slide = mirax(folder, 2, 2, {(0, 0): rgb})
        (os.unlink if lost else shutil.rmtree)(os.path.join(folder, "m", lost))
        _, p, j = convert(slide, status=1)
        says(p.err, slide, words, "is missing; copy it")
        expect(j["cause"] == "input" and "JPEG picture" not in p.err, "%s", p.err)


main(globals())
