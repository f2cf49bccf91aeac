"""What a slide's file states beside its pixels, and what lies beside a slide: one answer, whoever decodes the pixels."""
import itertools
import struct

import h5py
import numpy as np
from PIL import Image

from dicomfile import Level, element, instance, item
from lib import *
from tiffpatch import *

SIDE = 320, 240
CM = {"tag_282": (5, [40000, 1]), "tag_283": (5, [40000, 1]), "tag_296": (3, [3])}  # 0.25 um per px
PROFILE = icc([(b"desc", b"desc\0\0\0\0\0\0\0\5test\0")])
PALETTE = [(k * 255) for k in range(256)] + [65535 - k * 255 for k in range(256)] + [(k * 7 % 256) * 255 for k in range(256)]


def picture():
    y, x = np.mgrid[:SIDE[1], :SIDE[0]]
    return [a.astype(np.uint8) for a in (x * 255 // SIDE[0], y * 255 // SIDE[1], (x + y) % 256)]


def flat(value):
    return np.full(SIDE[::-1], value, np.uint8)


def tiff(planes, name="a.tif", profile=True, **how):
    tags = dict(CM, **({"tag_34675": (2, PROFILE)} if profile else {}))
    return write_tiled(os.path.join(tmp(), name), planes, side=128, **{**tags, **how})


R, G, B = picture()
INKS = [255 - R, 255 - G, 255 - B, flat(0)]
KINDS = {  # planes, how; the pixels
    "RGB": ([R, G, B], {}, [R, G, B]),
    "RGBA": ([R, G, B, flat(255)], {}, [R, G, B]),
    "RGBA, multiplied": ([R, G, B, flat(255)], {"tag_338": (3, [1])}, [R, G, B]),
    "RGB and infrared": ([R, G, B, R], {"tag_338": (3, [0])}, [R, G, B]),
    "RGBX": ([R, G, B, flat(0)], {"tag_338": (3, [0])}, [R, G, B]),
    "RGB and two more": ([R, G, B, G, flat(9)], {"tag_338": (3, [0, 0])}, [R, G, B]),
    "RGB, infrared, alpha": ([R, G, B, G, flat(255)], {"tag_338": (3, [0, 2])}, [R, G, B]),
    "gray": ([G], {"photometric": 1}, [G]),
    "white is 0": ([255 - G], {"photometric": 0}, [G]),
    "gray and alpha": ([G, flat(255)], {"photometric": 1}, [G]),
    "palette": ([G], {"photometric": 3, "palette": PALETTE}, [np.array(PALETTE[256 * c:256 * c + 256])[G] >> 8 for c in range(3)]),
    "CMYK": (INKS, {"photometric": 5, "tag_338": (3, [])}, [R, G, B]),
}


def test_um_icc_and_channels_are_those_of_the_rgb_twin():
    apart = {name + ", apart": (planes, {"separate": True, **how}, want) for name, (planes, how, want) in KINDS.items() if "RGB" in name or "alpha" in name}
    for name, (planes, how, want) in {**KINDS, **apart}.items():
        out, p, j = convert(tiff(planes, **how))
        expect((j["mpp_x"], j["mpp_y"], j["reader"]) == (0.25, 0.25, "tiff"), "%s: %s", name, j)
        got = pixels(out)
        expect(got.shape[2] == len(want) and (got == np.dstack(want)).all(), "%s: %s, %d bytes differ", name, got.shape,
               (got != np.dstack(want)).sum() if got.shape[2] == len(want) else -1)
        with h5py.File(out, "r") as f:
            expect("icc_profile" in f, "%s: no profile", name)
        left = len(planes) - len(want) - ("alpha" in name or "RGBA" in name)
        expect(("left out" in p.err) == (left > 0 and name != "CMYK"), "%s: %s", name, p.err)
    says(convert(tiff([R, G, B, R], tag_338=(3, [0])))[1].err, "1 sample per pixel beside the colours is left out")


def test_alpha_is_white_and_missing():
    alpha = flat(0)
    alpha[:, 200:] = 128
    got = pixels(convert(tiff([R, G, B, alpha]))[0]).astype(int)
    want = np.dstack([R, G, B]).astype(int) * 128 / 255 + 127
    expect((got[:, :200] == 255).all() and np.abs(got - want)[:, 200:].max() < 2, "blended otherwise")
    out = convert(tiff([R, G, B, alpha]))[0]
    expect((tile_statuses(out) == [[1, 0, 0], [1, 0, 0]]).all(), "%s", tile_statuses(out))


def test_gray_samples_without_alpha_are_channels():
    for planes, how in ((2, {}), (3, {}), (5, {}), (3, {"separate": True}), (2, {"tag_284": (3, [1])})):
        extra = {"tag_338": (3, [0] * (planes - 1))}
        p = convert(tiff([R] * planes, photometric=1, **{**extra, **how}), status=1)[1]
        says(p.err, "%d samples of gray" % planes, "channels")


def test_resolution_of_any_type():
    for kind in (11, 12):
        t = Tiff(tiff([R, G, B]))
        for tag in (282, 283):
            value = struct.pack("<f" if kind == 11 else "<d", 20000)
            at = len(t.data)
            t.data += value
            t.add_entries({tag: struct.pack("<HHI", tag, kind, 1) + (value if kind == 11 else struct.pack("<I", at))})
            t = Tiff(t.save(os.path.join(tmp(), "r.tif")))
        j = convert(t.save(os.path.join(tmp(), "r.tif")))[2]
        expect(abs(j["mpp_x"] - 0.5) < 1e-6 and j["mpp_x"] == j["mpp_y"], "type %d: %s", kind, j["mpp_x"])


def test_um_and_icc_where_openslide_decodes():
    """YCbCr without JPEG."""
    out, _, j = convert(tiff([R, G, B], photometric=6, tag_530=(3, [1, 1])))
    expect((j["reader"], j["mpp_x"], j["mpp_y"]) == ("openslide", 0.25, 0.25), "%s", j)
    with h5py.File(out, "r") as f:
        expect("icc_profile" in f, "no profile")


def strip(tags=()):
    """An uncompressed TIFF of one strip."""
    return Pages().add(SIDE, SIDE[1], [np.dstack([R, G, B]).tobytes()], tags)


def test_words_name_the_tag_that_decided():
    for form, word in ((2, "signed"), (3, "floating-point")):
        p = convert(strip({339: (3, [form] * 3)}).save(os.path.join(tmp(), "s.tif")), status=1)[1]
        says(p.err, "its strips are uncompressed, 3 %s samples of 8 bits" % word, "only unsigned 8-bit")
        says(convert(tiff([R, G, B], tag_339=(3, [form] * 3)), status=1)[1].err, word)


def test_a_loop_of_directories_is_one_picture():
    path = os.path.join(tmp(), "loop.tif")
    for slide in (strip().save(path), tiff([R, G, B])):
        t = Tiff(slide)
        t.put_u32(t.links[1], t.u32(4))
        expect((pixels(convert(t.save(path))[0]) == np.dstack([R, G, B])).all(), "other pixels")


# --- masks, planes ---

MASKS = {  # bits, tile or rows of a strip, compression, packer
    "tiles of another size": (1, (64, 64), 1, bytes), "one tile": (1, (512, 512), 8, zlib.compress),
    "strips": (1, 7, 8, zlib.compress), "one strip": (1, 240, 1, bytes), "strips of bytes": (8, 50, 8, zlib.compress),
    "JPEG": (8, 240, 7, None), "JPEG in tiles": (8, (64, 64), 7, None), "damaged": (1, 240, 8, lambda b: bytes(range(1, 200)))}


def add_mask(file, shown, bits, form, compression, pack, subfile=4):
    """Adds a picture's mask, 0 and 1, to a TIFF."""
    parts = [part * 255 if bits == 8 else np.packbits(part, axis=1) for part in cut(shown, form)]
    file.add(shown.shape[::-1], form, [pack(part.tobytes()) if pack else jpeg_of(part) for part in parts], {
        254: (4, [subfile]), 258: (3, [bits]), 259: (3, [compression]), 262: (3, [4]), 277: (3, [1])})


def shown(width, height):
    """The mask that shows the upper left corner."""
    mask = np.zeros(SIDE[::-1], np.uint8)
    mask[:height, :width] = 1
    return mask


def test_masks_are_no_pictures_and_hide_what_was_not_scanned():
    mask, half, file = shown(300, 100), [p[::2, ::2] for p in (R, G, B)], Pages()
    for planes, part, subfile in (([R, G, B], mask, 0), (half, mask[::2, ::2], 1)):
        file.add_planes(planes, side=128, tag_254=(4, [subfile]))
        add_mask(file, part, 1, (128, 128), 1, bytes, 4 | subfile)
    slide = file.save(os.path.join(tmp(), "m.tif"))
    out, _, j = convert(slide)
    expect((tile_statuses(out) == [[0, 0, 0], [1, 1, 1]]).all(), "%s", tile_statuses(out))
    expect((pixels(out)[:128] == np.dstack([R, G, B])[:128]).all(), "the pixels that are shown differ")
    out = convert(slide, "--level", "1")[0]
    expect(pixels(out).shape == (120, 160, 3), "level 1: %s", pixels(out).shape)
    says(convert(slide, "--level", "2", status=1)[1].err, "levels 0 to 1")


def test_masks_of_any_form_hide_chunks():
    """The chunks of which nothing is shown are missing, in tiles and in strips; damage of a mask hides none."""
    for in_tiles, name in itertools.product((True, False), MASKS):
        file = Pages().add_planes([R, G, B], side=128) if in_tiles else strip()
        add_mask(file, shown(200, 100), *MASKS[name])
        out, _, j = convert(file.save(os.path.join(tmp(), "m.tif")), "--codec", "none")
        want = [[0, 0, 1], [1, 1, 1]] if in_tiles else [[0, 1]]
        want = np.zeros_like(want) if name == "damaged" else np.array(want)
        expect((tile_statuses(out) == want).all(), "%s, tiles %s: %s", name, in_tiles, tile_statuses(out))
        expect((pixels(out)[:128, :256] == np.dstack([R, G, B])[:128, :256]).all(), "%s: the pixels that are shown differ", name)
        expect(j["tiles_damaged"] == 0, "%s: %s", name, j)


def aperio(z, size=SIDE):
    return ("Aperio Image Library v1\r\n%dx%d [0,0 %dx%d] (128x128) JPEG/RGB Q=70|AppMag = 40|MPP = 0.25%s\0" % (
        *size, *size, "|OffsetZ = %s" % z if z is not None else "")).encode()


def planes_file(pages):
    """An SVS of uncompressed tiles: (planes, OffsetZ or None) of each directory."""
    return write_pages(os.path.join(tmp(), "p.svs"), [dict(planes=p, side=128, tag_270=(2, aperio(z))) for p, z in pages])


def test_first_focal_plane_of_an_svs_is_stored():
    full, half = [R, G, B], [p[::2, ::2] for p in (R, G, B)]
    other, other_half = [np.roll(p, 7, 1) for p in full], [np.roll(p, 7, 1) for p in half]
    for pages in ([(full, "0.0"), (half, None), (other, "2.0"), (other_half, None)], [(full, None), (other, None), (half, None), (other_half, None)],
                  [(full, "0"), (other, "2"), (other_half, "2"), (half, "0")]):
        slide = planes_file(pages)
        for level, want in enumerate((full, half)):
            out, p, j = convert(slide, "--level", level)
            says(p.err, "2 focal planes, of which the first is stored")
            expect((pixels(out) == np.dstack(want)).all() and "damage" not in p.err.replace("damaged tiles", ""), "level %d: %s", level, p.err)
            recorded = attributes_of(out, "properties").get("wsi2h5.focal-planes")
            expect(recorded in (b"2", "2"), "recorded: %r", recorded)
        says(convert(slide, "--level", "2", status=1)[1].err, "levels 0 to 1")


def test_ome_xml_that_contradicts_its_directory_is_refused():
    xml = '<OME><Image><Pixels SizeX="%d" SizeY="%d" PhysicalSizeX="0.25" PhysicalSizeY="0.25"><TiffData/></Pixels></Image></OME>\0'
    for size, status in ((SIDE, 0), ((640, 480), 1), ((320, 241), 1), ((160, 120), 1)):
        p = convert(tiff([R, G, B], "a.ome.tif", tag_270=(2, (xml % size).encode())), status=status)[1]
        expect(status == 0 or "OME-XML" in p.err and "320 x 240" in p.err, "%s: %s", size, p.err)


# --- damage ---

def test_what_openslide_refuses_is_no_damage():
    slide = planes_file([([R, G, B], "0.0"), ([p[::2, ::2] for p in (R, G, B)], None), ([R, G, B], "2.0")])
    out, p, j = convert(slide)
    expect(j["status"] == "done" and "copy the slide again" not in p.err and not attributes_of(out).get("source_problem"), "%s %s", j, p.err)
    t = Tiff(slide)
    t.put_u32(t.links[-2], len(t.data) + 1000)  # the list of directories leads out of the file
    out, p, j = convert(t.save(os.path.join(tmp(), "cut.svs")))
    says(p.err, "its list of directories leads out of the file")


# --- folders ---

def test_slides_that_are_left_out_of_a_folder_are_counted():
    folder, lost = tmp("folder"), ["a.czi", "b.CZI", "c.isyntax", "d.vsi", "e.kfb", "f.sdpc", "g.svs.gz", "h.zip", "i.svs.part", "j.tif.crdownload"]
    shutil.copy(tiff([R, G, B]), os.path.join(folder, "good.tif"))
    for name in lost + ["notes.txt", "table.csv.gz", "a.h5"]:
        put_file(os.path.join(folder, name), b"x")
    p = run(WSI2H5, "-o", tmp("out"), folder)
    said = [line for line in p.err.splitlines() if "left out" in line]
    expect(len(said) == 1 and said[0].startswith("wsi2h5: 10 files were left out"), "%s", p.err)
    says(said[0], ".czi 2", ".isyntax 1", ".svs.gz 1", ".svs.part 1", ".tif.crdownload 1", ".zip 1")
    words = run(WSI2H5, "--print-inputs", "-o", tmp("o"), folder).out.split("\0")
    expect(words[0] == "" and words[1] in said[0] and len(words) == 5, "%s", words)
    expect("left out" not in run(WSI2H5, "-q", "-o", tmp("out"), folder).err, "with --quiet")


def test_what_is_not_read_is_rejected_however_it_is_given():
    """Found, named or listed, although a reader would open what is in it: the overview of a .vsi is a TIFF."""
    good, listed, words = tiff([R, G, B]), os.path.join(tmp(), "list.txt"), [
        ("a.vsi", "another format of slides (.vsi)"), ("b.VSI", "(.VSI)"), ("c.jp2", "(.jp2)"), ("d.tif.part", "an unfinished download (.tif.part)"),
        ("e.svs.gz", "a compressed archive (.svs.gz)"), ("f.zip", "a compressed archive (.zip)")]
    for name, said in words:
        path = shutil.copy(good, os.path.join(tmp(), name))
        put_file(listed, path.encode() + b"\n")
        for options in ((path,), ("--list", listed)):
            out = os.path.join(tmp(), "out") + "/"
            says(run(WSI2H5, "-o", out, *options, status=1).err, path, said)
            expect(not stores_in(out), "a store")
        says(run(WSI2H5, "-o", tmp("out"), os.path.dirname(path), status=1).err, "1 file was left out")
    for head, said in ((b"ZISRAWFILE", "Zeiss CZI"), (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000")):
        says(run(WSI2H5, "-o", tmp("out"), file_of("a.tif", head + bytes(99)), status=1).err, "a.tif", said)
    t = Tiff(good)
    t.add_entries({34412: struct.pack("<HHII", 34412, 3, 1, 1)})
    says(run(WSI2H5, "-o", tmp("out"), t.save(os.path.join(tmp(), "a.tif")), status=1).err, "Zeiss LSM")


def test_pictures_beside_slides_are_counted():
    """But not those that a slide is made of."""
    folder = tmp("folder")
    for name in ("good.tif", "a.png", "b.PNG", "sub/c.jpg"):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        shutil.copy(tiff([R, G, B]), os.path.join(folder, name))
    said = [line for line in run(WSI2H5, "-o", tmp("out"), folder).err.splitlines() if "left out" in line]
    expect(said == ["wsi2h5: 3 pictures were left out beside slides; name those that are slides, too (.jpg 1, .png 2)"], "%s", said)
    put_file(os.path.join(folder, "a.czi"), b"x")
    (said,) = [line for line in run(WSI2H5, "-o", tmp("out"), folder).err.splitlines() if "left out" in line]
    says(said, "1 file was left out: unsupported", "(.czi 1); 3 pictures were left out")
    says(run(WSI2H5, "--print-inputs", "-o", tmp("o"), folder).out, "3 pictures were left out")
    os.remove(os.path.join(folder, "good.tif"))
    put_file(os.path.join(folder, "sub", "s.vms"), b"[Virtual Microscope Specimen]\n")
    expect("picture" not in run(WSI2H5, "-o", tmp("out"), os.path.join(folder, "sub"), status=1).err, "of a slide")


def test_what_a_scanner_calls_a_label_in_xml_is_none_of_the_slide():
    """QPTIFF, which is read wherever it lies: a folder, a list or by name."""
    kinds = ("FullResolution", None, 0), ("Label", (400, 300), 0), ("Overview", (900, 300), 0)
    pages = []
    for kind, size, mark in kinds:
        planes = [R, G, B] if size is None else [np.full(size[::-1], 9, np.uint8)] * 3
        pages.append(dict(planes=planes, tag_270=(2, b"<PerkinElmer-QPI-ImageDescription><ImageType>%s</ImageType></PerkinElmer-QPI-ImageDescription>\0" % kind.encode())))
    folder = tmp("qptiff")
    slide = write_pages(os.path.join(folder, "a.qptiff"), pages)
    for given in (slide, folder):
        j = json_lines(run(WSI2H5, "--json", "-o", tmp("out") + "/", given).out)[0]
        expect((j["width"], j["height"]) == R.shape[::-1], "%s", j)


def test_tiff_of_other_endings_is_found():
    folder, out, endings = tmp("folder"), tmp("out"), ["ptif", "PTIFF", "btf", "tf2", "tf8"]
    for k, ending in enumerate(endings):
        shutil.copy(tiff([R, G, B]), os.path.join(folder, "%d.%s" % (k, ending)))
    run(WSI2H5, "-o", out, folder)
    expect(sorted(os.listdir(out)) == ["%d.h5" % k for k in range(len(endings))], "%s", os.listdir(out))


def test_corpus_counts_them_too():
    folder, out = tmp("folder"), os.path.join(tmp(), "corpus")
    shutil.copy(made("--size", "600x600"), os.path.join(folder, "good.svs"))
    put_file(os.path.join(folder, "b.czi"), b"x")
    corpus = os.path.join(ROOT, "scripts", "corpus")
    env = {**os.environ, "WSI2H5": WSI2H5, "H5SPEC": H5SPEC}
    says(run(sys.executable, corpus, "plan", "-o", out, folder, env=env).err, "1 file was left out", ".czi 1")
    says(run(sys.executable, corpus, "status", "-o", out, env=env, status=None).out, "1 file was left out", ".czi 1")
    run(sys.executable, corpus, "run", "--scheduler", "local", "-o", out, env=env)
    says(text_in(os.path.join(out, "report.html")), "Not part of this report: 1 file was left out", ".czi 1")


def test_folder_of_pictures_alone_is_converted():
    folder = tmp("pictures")
    for name in ("a.png", "b.jpg", "c.JPEG"):
        Image.fromarray(np.dstack([R, G, B])).save(os.path.join(folder, name), format="PNG" if "png" in name else "JPEG")
    out = tmp("out")
    run(WSI2H5, "-o", out, folder)
    expect(sorted(os.listdir(out)) == ["a.h5", "b.h5", "c.h5"], "%s", os.listdir(out))
    shutil.copy(tiff([R, G, B]), os.path.join(folder, "d.tif"))
    out = tmp("out")
    run(WSI2H5, "-o", out, folder)
    expect(os.listdir(out) == ["d.h5"], "pictures beside a slide: %s", os.listdir(out))


# --- DICOM ---

def dicom(**how):
    level = Level(made("--size", "300x280", "--tile", "128", "--complete-tiles", "--no-thumbnail", "--photometric", "ycbcr"))
    return instance(level, **how)


def of_class(uid, **how):
    """An instance of another SOP class."""
    return dicom(**how).replace(b"1.2.840.10008.5.1.4.1.1.77.1.6", uid.encode().ljust(30, b"\0"))


OTHERS = {"annotation": "1.2.840.10008.5.1.4.1.1.91.1", "segmentation": "1.2.840.10008.5.1.4.1.1.66.4",
          "report": "1.2.840.10008.5.1.4.1.1.88.22", "ct": "1.2.840.10008.5.1.4.1.1.2", "photograph": "1.2.840.10008.5.1.4.1.1.77.1.4"}


def test_other_dicom_objects_in_a_folder_are_no_failed_slides():
    files = {name: of_class(uid, series="1.2.4.%d" % k) for k, (name, uid) in enumerate(OTHERS.items())}
    files.update(slide=dicom(), overview=dicom(series="1.2.5", image_type="ORIGINAL\\PRIMARY\\OVERVIEW\\NONE"),
                 same=of_class(OTHERS["annotation"]) + bytes(9999))
    folder, out = tmp("dicom"), tmp("out")
    for name, data in files.items():
        put_file(os.path.join(folder, name + ".dcm"), data)
    p = run(WSI2H5, "-o", out, folder)
    expect(sorted(os.listdir(out)) == ["slide.h5"] and "1 converted" in p.err and " 0 failed" in p.err, "%s %s", os.listdir(out), p.err)
    says(run(WSI2H5, "-o", tmp("out"), os.path.join(folder, "ct.dcm"), status=1).err, "it is not a whole-slide image")
    only = file_of("ct.dcm", files["ct"])
    says(run(WSI2H5, "-o", tmp("out"), os.path.dirname(only), status=None).err, "no slides, only other DICOM files")


UN = struct.pack("<HH2sHI", 0x0019, 0x1010, b"UN", 0, 0xffffffff)
ENDS = struct.pack("<HHI", 0xfffe, 0xe0dd, 0)
INNER = {"nothing": b"", "explicit VR": element(0x00191011, b"LO", "word"), "implicit VR": struct.pack("<HHI", 0x0019, 0x1011, 4) + b"word"}


def test_headers_that_are_rare_are_read():
    whole = dicom()
    at, want = whole.index(struct.pack("<HH2s", 0x0020, 0x000d, b"UI")), pixels(convert(file_of("a.dcm", whole))[0])
    rare = {"no number of frames": dicom(drop=[0x00280008]), "extended JPEG": dicom(change={"syntax": "1.2.840.10008.1.2.4.51"})}
    for (name, inner), closed in itertools.product(INNER.items(), (True, False)):
        rare["UN of undefined length, %s, %s" % (name, closed)] = whole[:at] + UN + (item(inner, closed) if inner else b"") + ENDS + whole[at:]
    for name, data in rare.items():
        expect((pixels(convert(file_of("a.dcm", data))[0]) == want).all(), "%s: other pixels", name)
    deflated = file_of("d.dcm", dicom(change={"syntax": "1.2.840.10008.1.2.1.99"}))
    says(convert(deflated, status=1)[1].err, "deflated as a whole")


main(globals())
