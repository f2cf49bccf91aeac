"""Tiled TIFF of any program: OpenSlide's pixels, tiles that are kept, what is rejected, and hostile files."""
import itertools
import random
import struct

import h5py
import numpy as np

from lib import *
from tiffpatch import *

sys.path.insert(0, os.path.join(ROOT, "scripts"))
import wsi_store  # noqa: E402

IDENTIFYING = ["Patient^Doe", "Case 4711", "12/29/09", "09:59:15", "b414003d", "0815", "SS1302", "UGF0aWVudF5Eb2U="]
SUBFILE, COMPRESSION, PHOTOMETRIC, SAMPLES, TILE_WIDTH, TILE_LENGTH, SUBS = 254, 259, 262, 277, 322, 323, 330
SOFTWARE, PLANES, SAMPLE_FORMAT = 305, 284, 339

CONTAINERS = {  # name, vendor, um per pixel
    "generic": ("generic-tiff", None), "subifds": ("generic-tiff", None), "ome": ("generic-tiff", 0.499),
    "ome-subifds": ("generic-tiff", 0.499), "philips": ("philips", 0.499),
}
FORMS = [  # how the tiles are stored
    (), ("--photometric", "ycbcr", "--subsampling", "444"), ("--photometric", "ycbcr", "--subsampling", "422"),
    ("--photometric", "ycbcr", "--subsampling", "420"), ("--complete-tiles",), ("--bigtiff", "--shuffle-tiles"),
    ("--big-endian",), ("--bigtiff", "--big-endian", "--photometric", "ycbcr"), ("--restart", "7"),
]
SIZE = ("--size", "900x700", "--tile", "256", "--levels", "3")


def tiff(container, *options, name="slide"):
    return made("--container", container, *SIZE, *options, name=name)


def text(value):
    return value.decode() if isinstance(value, bytes) else value


# --- pixels ---

def check_equal(slide, level, want, vendor, out=None):
    out, _, j = convert(slide, "--codec", "none", "--level", level, out=out)
    expect((j["reader"], j["vendor"]) == ("tiff", vendor), "%s: %s", slide, j)
    got = pixels(out)
    expect(got.shape == want.shape and np.array_equal(got, want), "%s, level %d: %d bytes differ from OpenSlide's", slide,
           level, (got != want).sum() if got.shape == want.shape else -1)
    expect(attributes_of(out)["level"] == level and attributes_of(out)["downsample"] >= 1, "level")
    return out


def test_every_container_and_form_equals_openslide():
    """Forms differ in how tiles are read and kept, containers in how directories are found."""
    folders = plain, kept = tmp("plain"), tmp("kept")
    for container, (vendor, _) in CONTAINERS.items():
        for k, form in enumerate(FORMS if container == "generic" else FORMS[3:4]):
            slide, name = tiff(container, *form), "%s_%d.h5" % (container, k)
            for level in range(2):  # OpenSlide sees no SubIFDs: the same levels as directories
                check_equal(slide, level, openslide_pixels(tiff("generic", *form), level), vendor, os.path.join(plain, name) if level == 0 else None)
            _, _, j = convert(slide, "--codec", "jpeg", out=os.path.join(kept, name))
            expect(j["codec"] == "jpeg" and "codec_reason" not in j, "%s", j)
    run(H5SPEC, "verify", *glob.glob(kept + "/*.h5"))
    equal(*(without_tissue(content(spectrum(sorted(glob.glob(f + "/*.h5")), "--duplicates", "count"))) for f in folders), "kept tiles have other pixels")


def test_what_openslide_says_of_the_slide_is_stored():
    for container, (vendor, mpp) in CONTAINERS.items():
        slide = tiff(container)
        out, _, j = convert(slide)
        with h5py.File(out, "r") as f:
            properties = f["properties"].attrs
            expect(text(f.attrs["quickhash"]) == text(properties["openslide.quickhash-1"]), "%s: quickhash", container)
            expect(text(properties["openslide.vendor"]) == vendor == text(f.attrs["vendor"]), "%s: vendor", container)
            levels = int(text(properties["openslide.level-count"]))
            expect(levels == (1 if "subifds" in container else 3), "%s: %d levels", container, levels)
        expect(j["mpp_x"] == j["mpp_y"] and (j["mpp_x"] is None if mpp is None else abs(j["mpp_x"] - mpp) < 1e-9),
               "%s: %s", container, j["mpp_x"])


def test_levels_and_scales():
    for container in CONTAINERS:
        for level, scale in enumerate((1, 4, 16)):
            _, _, j = convert(tiff(container), "--level", level)
            with h5py.File(j["store"], "r") as f:
                got = f.attrs["downsample"]
                expect(abs(got - scale) < 0.1 * scale and f.attrs["width"] == 900 >> 2 * level, "%s: %s", container, got)
        _, p, _ = convert(tiff(container), "--level", "3", status=1)
        says(p.err, "has levels 0 to 2; --level 3 is out of range")
        _, p, _ = convert(made("--container", container, "--size", "900x700"), "--level", "1", status=1)
        says(p.err, "has only level 0; --level 1 is out of range")


def test_levels_are_sorted_by_width():
    """OpenSlide sorts those of generic files; the first directory need not be the next in width."""
    t = Tiff(tiff("generic"))
    first, second = t.links[1], t.links[2]
    b, c = t.u32(first), t.u32(second)
    t.put_u32(first, c)  # 0 -> 2 -> 1 -> what followed
    rest = t.u32(t.links[3])
    t.put_u32(t.links[3], b)
    t.put_u32(second, rest)
    slide = t.save(os.path.join(tmp(), "turned.tif"))
    for level in range(2):
        check_equal(slide, level, openslide_pixels(tiff("generic"), level), "generic-tiff")


RESOLUTIONS = [  # X resolution as a fraction, unit, um per pixel
    ((40000, 1), 3, 0.25), ((101600, 2), 2, 0.5), ((72, 1), 2, None), ((300, 1), 2, None), ((0, 1), 3, None),
    ((40000, 1), 1, None), ((2004008, 1), 3, None), ((40000, 1), 0, None), ((40000, 1), 7, None),
]


def with_resolution(slide, fraction, unit):
    t = Tiff(slide)
    at = len(t.data)
    t.data += struct.pack("<II", *fraction)
    t.add_entries({**{tag: struct.pack("<HHII", tag, 5, 1, at) for tag in (282, 283)}, 296: struct.pack("<HHIHH", 296, 3, 1, unit, 0)})
    return t.save(os.path.join(tmp(), "resolution.tif"))


def test_resolution_tags():
    slides = {"%d.tif" % k: bytes_in(with_resolution(tiff("generic"), *r[:2])) for k, r in enumerate(RESOLUTIONS)}
    for (fraction, unit, mpp), j in zip(RESOLUTIONS, convert_all(slides)):
        expect(j["mpp_x"] == j["mpp_y"] and (j["mpp_x"] is None if mpp is None else abs(j["mpp_x"] - mpp) < 1e-6),
               "%s %s: %s", fraction, unit, j["mpp_x"])


STATED = [  # the description; X resolution and its unit or None; um per px and a line about it
    ("Aperio Digital", (40000, 3), 0.25, None), ("Aperio|MPP = 0.5", (40000, 3), 0.5, None), ("Aperio|MPP = 0", (40000, 3), 0.25, None),
    ("Aperio|MPP = 400", (40000, 3), None, "states 400 um per px"), ("A scanner|AppMag = 20|MPP = 0,5|x", None, 0.5, None),
    ('{"mpp": 0.25, "size": 3}', None, 0.25, None), ("mpp_x=0.25;mpp_y=0.25", None, 0.25, None), ("MPP = 0.001", None, None, "states 0.001 um per px"),
    ("steps = 4", (40000, 3), 0.25, None), ("dampp = 4", None, None, None), ("", (300, 2), None, "states 84.6667 um per px"),
    ("ImageJ=1.53\nunit=micron\nspacing=1", (4, 1), 0.25, None), ("ImageJ=1.53\nunit=\\u00B5m\n", (4, 1), 0.25, None),
    ("ImageJ=1.53\nunit=mm\n", (4000, 1), 0.25, None), ("ImageJ=1.53\nunit=inch\n", (101600, 2), 0.25, None),
    ("ImageJ=1.53\nunit=furlong\n", (4, 1), None, "states 4 px per unit, but no unit"), ("ImageJ=1.53\nunit=pixel\n", (1, 1), None, None),
    ("", (40000, 1), None, "states 40000 px per unit, but no unit"), ("", (1, 1), None, None), ("", (40000, 7), None, "but no unit"),
]


def test_every_place_that_states_um_per_px():
    """Of tiles and of strips; XML, NDPI, PNG and JFIF have tests of their own."""
    for text, resolution, mpp, words in STATED:
        for form in ((256, 256), 50):
            tags = {DESCRIPTION: (2, text.encode() + b"\0")} if text else {}
            if resolution:
                tags.update({282: (5, [resolution[0], 1]), 283: (5, [resolution[0], 1]), 296: (3, [resolution[1]])})
            p = np.dstack(picture(300, 220, 1))
            slide = Pages().add((300, 220), form, [part.tobytes() for part in cut(p, form)], tags).save(os.path.join(tmp(), "stated.tif"))
            _, p, j = convert(slide)
            expect(j["mpp_x"] == j["mpp_y"] and (j["mpp_x"] is None if mpp is None else abs(j["mpp_x"] - mpp) < 1e-9), "%s: %s", text, j)
            lines = [line for line in p.err.splitlines() if "states" in line]
            expect(len(lines) == (words is not None), "%s %s: %s", text, resolution, p.err)
            says("".join(lines), *([words, "--mpp-override"] if words else []))


# --- XML ---

def described(xml, slide=None):
    """A generic slide with these bytes as its description."""
    t = Tiff(slide or tiff("generic"))
    xml = (xml if isinstance(xml, bytes) else xml.encode()) + b"\0"
    entry = t.directories[0][DESCRIPTION][2]
    t.put_u32(entry + 4, len(xml))
    t.put_u32(entry + 8, len(t.data))
    t.data += xml
    return t.save(os.path.join(tmp(), "described.tif"))


def ome(pixels='PhysicalSizeX="0.25" PhysicalSizeY="0.25"', inside="<TiffData/>", before="", after="", name="case"):
    return ('<OME><Image Name="%s">%s<Pixels SizeX="900" SizeY="700" %s>%s</Pixels></Image>%s</OME>' % (name, before, pixels, inside, after))


def in_unit(size, unit):
    return ome('PhysicalSizeX="%s" PhysicalSizeXUnit="%s" PhysicalSizeY="%s" PhysicalSizeYUnit="%s"' % (size, unit, size, unit))


PREFIXED = ome().replace("</", "</o:").replace("<OME", '<o:OME xmlns:o="x"').replace("<I", "<o:I").replace("<P", "<o:P").replace("<T", "<o:T")
XML = [  # the description, um per pixel
    (ome(), 0.25), (ome().replace('"', "'"), 0.25), (ome().replace("=", " =\n\t"), 0.25), (PREFIXED, 0.25),
    ("\ufeff \n<?xml version='1.0'?>" + ome() + "junk", 0.25),
    (in_unit(0.25, "&#181;m"), 0.25), (in_unit(0.25, "&#xB5;m"), 0.25), (in_unit("0&#46;25", "\u03bcm"), 0.25),
    (in_unit(0.25, "\xb5m").encode("latin-1"), 0.25), (b'<?xml version="1.0" encoding="ISO-8859-1"?>' + in_unit(0.25, "\xb5m").encode("latin-1"), 0.25),
    (in_unit(0.25, "\xb5m").replace("case", "J\xfcrgen").encode("latin-1"), 0.25),
    (ome(before='<Description>SizeZ="9" <![CDATA[<Pixels PhysicalSizeX="9" SizeZ="7">]]></Description><!-- <Pixels SizeZ="8"/> <OME -->'), 0.25),
    (ome(after='<StructuredAnnotations><XMLAnnotation><Image><Pixels SizeZ="5"/></Image></XMLAnnotation></StructuredAnnotations>'), 0.25),
    (ome("PhysicalSizeX='nan' PhysicalSizeY='-1'"), None), (in_unit(3, "pixel"), None), (in_unit(3, "reference frame"), None), (in_unit(3, ""), 3),
]
UNITS = [  # of OME's UnitsLength those that can state a scanner's pixels, one that is this many um
    ("nm", 250), ("pm", 25e4), ("fm", 25e7), ("am", 25e10), ("zm", 25e13), ("ym", 25e16), ("\xc5", 2500), ("\u212b", 2500), ("mm", 25e-5), ("cm", 25e-6),
    ("dm", 25e-7), ("m", 25e-8), ("dam", 25e-9), ("hm", 25e-10), ("km", 25e-11), ("Mm", 25e-14), ("Gm", 25e-17), ("Tm", 25e-20), ("Pm", 25e-23),
    ("Em", 25e-26), ("Zm", 25e-29), ("Ym", 25e-32), ("thou", .25 / 25.4), ("li", 3 / 25400), ("in", .25 / 25400), ("ft", .25 / 304800),
    ("yd", .25 / 914400), ("mi", .25 / 1609344e3), ("ua", .25 / 149597870700e6), ("ly", .25 / 9460730472580800e6), ("pc", .25 / 3.0856775814913673e22),
    ("pt", .25 * 72 / 25400),
]


def test_xml_is_parsed():
    """Not searched: OME's in every legal spelling, and Philips'."""
    cases = XML + [(in_unit("%.12g" % n, unit), 0.25) for unit, n in UNITS]
    lines = convert_all({"%d.tif" % k: bytes_in(described(xml)) for k, (xml, _) in enumerate(cases)})
    for (xml, mpp), j in zip(cases, lines):
        expect(all(j[k] is None if mpp is None else j[k] and abs(j[k] / mpp - 1) < 1e-9 for k in ("mpp_x", "mpp_y")), "%r: %s", xml, j)
    slide = tiff("philips")
    (_, n, entry), data = Tiff(slide).directories[0][DESCRIPTION], bytes_in(slide)
    at = Tiff(slide).u32(entry + 8)
    text_ = data[at:at + n - 1]
    for old, new in ((b'"', b"'"), (b"=", b" = "), (b"&quot;", b"&#34;"), (b"<Array>", b'<Array><!-- <DataObject ObjectType="PixelDataRepresentation"> -->')):
        slide = described(text_.replace(old, new), tiff("philips"))
        j = convert(slide, "--level", "2")[2]
        expect((j["vendor"], j["mpp_x"], attributes_of(j["store"])["downsample"]) == ("philips", 0.499, 16), "%s: %s", new, j)


def test_xml_that_is_not_believed():
    deep, wide = ome(before=100 * "<a>" + 100 * "</a>"), ome(before="<a %s/>" % " ".join('a%d=""' % k for k in range(300)))
    cases = [  # the description, words
        ('<!DOCTYPE OME [<!ENTITY a "0.25">]>' + ome("PhysicalSizeX='&a;'"), "DOCTYPE"), ('<!DOCTYPE OME SYSTEM "file:///etc/passwd">' + ome(), "DOCTYPE"),
        (deep, "64 deep"), (wide, "256 attributes"), (ome(after=100 * "<Image/>"), "64 pictures"), (ome()[:-10], "damaged: "),
        (ome() .replace("SizeX", "<"), "damaged: "), (ome(before="&undeclared;"), "damaged: "), (PREFIXED.replace(" SizeX", ' SizeZ="7" SizeX'), "7 focal planes"),
        (ome("SizeT = '3'"), "3 time points"), (ome(name="Label"), "an OME-TIFF without a slide"),
        (ome(after='<Image Name="other"><Pixels SizeX="800" SizeY="600"/></Image>'), "2 pictures"),
        (ome(inside='<TiffData><UUID FileName="b.ome.tif">urn:uuid:2</UUID></TiffData>').replace("<OME", '<OME UUID="urn:uuid:1"'), "in another file, b.ome.tif"),
    ]
    for xml, words in cases:
        says(convert(described(xml), status=1)[1].err, "described.tif", words)
    for xml in ("<html><!-- no end", "<OME>", ome().replace("OME", "EMO"), "<", "<?xml?>", "< 5 %"):  # of no kind that is read
        expect(convert(described(xml), status=None)[1].returncode in (0, 1), "%s", xml)
    own = ome(inside='<TiffData><UUID FileName="renamed.ome.tif">\n urn:uuid:1 </UUID></TiffData>').replace("<OME", '<OME UUID="urn:uuid:1"')
    expect(convert(described(own))[2]["mpp_x"] == 0.25, "the file's own UUID")


def test_tables_of_tiles_in_the_tags_of_strips():
    """Some programs write tags 273 and 279 for 324 and 325."""
    for more in ((), ("--compression", "deflate"), ("--missing", "1,1")):
        slide, other = tiff("generic", *more), Tiff(tiff("generic", *more))
        for d in other.directories:
            for tag, new in ((TILE_OFFSETS, 273), (TILE_BYTES, 279)):
                if tag in d:
                    struct.pack_into("<H", other.data, d[tag][2], new)
        other = other.save(os.path.join(tmp(), "strips.tif"))
        for level in (0, 1):
            a, b = convert(slide, "--level", level), convert(other, "--level", level)
            expect(np.array_equal(pixels(a[0]), pixels(b[0])), "%s: pixels", more)
            expect(a[2]["tiles_missing"] == b[2]["tiles_missing"], "%s: %s", more, b[2])


def test_sparse_tiles():
    for container in ("generic", "philips"):
        sparse, want = tiff(container, "--missing", "1,2", "--missing", "0,0", name="sparse"), openslide_pixels(tiff(container)).copy()
        want[512:, 256:512] = want[:256, :256] = 255
        for codec in ("none", "jpeg"):
            out, p, j = convert(sparse, "--codec", codec, "--on-damage", "fail")
            expect((j["tiles_missing"], j["tiles_damaged"], j["codec"]) == (2, 0, codec), "%s: %s", container, j)
            says(p.err, sparse + ": 2 tiles are empty in the file (never scanned)")
            expect(codec == "jpeg" or np.array_equal(pixels(out), want), "%s: pixels", container)


def test_damaged_tiles():
    for option, rest in (("--truncate", ":600"), ("--garbage", ""), ("--foreign", ""), ("--outside", "")):
        for container in ("generic", "subifds", "philips") if option == "--garbage" else ("generic",):
            for codec in ("none", "jpeg"):
                _, p, j = convert(tiff(container, option, "1,2" + rest, name="damaged"), "--codec", codec, status=4)
                expect((j["status"], j["tiles_damaged"], j["codec"]) == ("damaged", 1, codec), "%s %s: %s", container, option, j)


# --- privacy ---

def test_nobody_can_be_identified():
    for container in ("aperio", *CONTAINERS):
        slide = tiff(container)
        expect(b"Patient^Doe" in bytes_in(slide), "nothing to find")
        out, p, _ = convert(slide, "--codec", "jpeg")  # which keeps the most of the file
        data = bytes_in(out)
        for word in IDENTIFYING:
            expect(word.encode() not in data and word not in p.out + p.err, "%s: %s is in the store", container, word)
        with h5py.File(out, "r") as f:
            expect(list(f["associated"]) in ([], ["thumbnail"]), "%s", list(f["associated"]))


# --- which directories are the slide ---

def picture(width, height, number):
    """RGB planes whose first pixels say which picture it is."""
    y, x = np.mgrid[:height, :width]
    return [((x + k * y) % 256 // 2 + number).astype(np.uint8) for k in range(3)]


def page(width, height, number=0, text=None, per_cm=None, **tags):
    if text is not None:
        tags["tag_270"] = (2, text.encode() + b"\0")
    if per_cm:
        tags.update(tag_282=(5, [per_cm, 1]), tag_283=(5, [per_cm, 1]), tag_296=(3, [3]))
    return dict(planes=picture(width, height, number), **tags)


MARK = {"tag_254": (4, [1])}
SLIDE, HALF, QUARTER, LABEL = (900, 700), (450, 350), (225, 175), (400, 300)


def bound(slide, *others, size=SLIDE):
    """OME-XML whose slide is a directory; `others` are (name, directory)."""
    images = [("case", size, slide)] + [(name, LABEL, at) for name, at in others]
    return "<OME>%s</OME>" % "".join('<Image Name="%s"><Pixels SizeX="%d" SizeY="%d"><TiffData FirstZ="1" IFD="9"/><TiffData IFD="%d"/>'
                                     '</Pixels></Image>' % (name, *s, at) for name, s, at in images)


PYRAMIDS = [  # the pages; the number of the slide's picture and the downsamples
    ([page(*LABEL, 1, bound(1, ("label image", 0))), page(*SLIDE, 2)], 2, [1]),
    ([page(*LABEL, 1, bound(2, ("Label", 0), ("macro image", 1))), page(1200, 500, 3), page(*SLIDE, 2), page(*HALF, 2, **MARK)], 2, [1, 2]),
    ([page(*SLIDE, 2, bound(0, ("label", 1), ("macro", 2))), page(*LABEL, 1), page(1200, 700, 1)], 2, [1]),
    ([page(*LABEL, 1, "label"), page(*SLIDE, 2), page(*HALF, 2, **MARK)], 2, [1, 2]),
    ([page(1500, 600, 1, "Macro image 1500x600"), page(*SLIDE, 2)], 2, [1]),
    ([page(1500, 600, 1, tag_254=(4, [9])), page(*SLIDE, 2)], 2, [1]),
    ([page(1500, 600, 1, "a scan\r\nlabel 1500x600"), page(*SLIDE, 2, "label-free imaging")], 2, [1]),
    ([page(*SLIDE, 2), page(*HALF, 2, "macro", **MARK), page(*QUARTER, 2, **MARK)], 2, [1, 4]),
    ([page(*SLIDE, 2), page(*HALF, 2), page(*QUARTER, 2)], 2, [1, 2, 4]),
    ([page(*QUARTER, 2), page(*HALF, 2), page(*SLIDE, 2)], 2, [1, 2, 4]),
    ([page(*QUARTER, 2), page(*SLIDE, 2), page(*HALF, 2, **MARK)], 2, [1, 2, 4]),
    ([page(*SLIDE, 2, per_cm=40000), page(512, 512, 2, per_cm=20000, **MARK), page(256, 256, 2, per_cm=10000, **MARK)], 2, [1, 2, 4]),
    ([page(*SLIDE, 2, per_cm=40000), page(512, 512, 2, per_cm=20000)], 2, [1, 2]),
    ([page(*SLIDE, 2, per_cm=40000), page(*HALF, 2, per_cm=40000, **MARK)], 2, [1, 2]),
    ([page(*SLIDE, 2, per_cm=40000), page(300, 233, 2, per_cm=13400, **MARK)], 2, [1, 3]),
]


def test_the_slide_and_its_levels_are_found_wherever_they_stand():
    """A label or macro is never the slide: not by its place, its size or its mark."""
    for n, (pages, number, scales) in enumerate(PYRAMIDS):
        slide = write_pages(os.path.join(tmp(), "s.tif"), pages)
        for level, scale in enumerate(scales):
            out, p, j = convert(slide, "--level", level, "--codec", "none")
            with h5py.File(out, "r") as f:
                first, size = int(f["pixels"][0, 0, 0]), (f.attrs["width"], f.attrs["height"])
                expect((j["reader"], f.attrs["downsample"], first) == ("tiff", scale, number), "case %d, level %d: %s, %s", n, level, dict(f.attrs), first)
            expect(level or size == SLIDE, "case %d: %s", n, size)
        says(convert(slide, "--level", len(scales), status=1)[1].err, "is out of range")
        if j["mpp_x"] == 0.25:
            expect(attributes_of(convert(slide, "--mpp", 0.25 * scales[-1])[0])["level"] == len(scales) - 1, "--mpp")


def test_levels_in_strips():
    """What a directory is does not depend on its layout: the slide and its levels in tiles or strips, marked, unmarked or in tag 330."""
    y, x = np.mgrid[:700, :900]
    full = np.dstack([(x + k * y) % 256 // 2 + k for k in range(3)]).astype(np.uint8)
    levels = [full, full[1::2, 1::2], full[2::4, 2::4]]
    for n, (forms, kind) in enumerate(itertools.product(itertools.product(((256, 256), 50), repeat=3), ("marked", "unmarked", "smallest first", "subs"))):
        file, subs = Pages(), []
        order = [1, 2, 0] if kind == "subs" else [2, 1, 0] if kind == "smallest first" else [0, 1, 2]
        for k in order:
            p, form = levels[k], forms[k]
            tags = {SUBFILE: (4, [1])} if k and kind == "marked" else {SUBS: (4, subs)} if kind == "subs" and not k else {}
            per_cm = {282: (5, [40000 >> k, 1]), 283: (5, [40000 >> k, 1]), 296: (3, [3])}
            file.add(p.shape[1::-1], form, [part.tobytes() for part in cut(p, form)], {**tags, **per_cm}, kind != "subs" or not k)
            subs.append(file.at)
        slide = file.save(os.path.join(tmp(), "levels.tif"))
        for k in range(3) if n % 3 == 0 or kind == "subs" else (n % 3,):
            out, _, j = convert(slide, "--mpp", 0.25 * 2 ** k, "--codec", "none")
            expect((j["level"], j["downsample"], j["mpp_x"]) == (k, 2 ** k, 0.25), "%s %s: %s", forms, kind, j)
            expect(j["reader"] == ("picture" if forms[0] == 50 else "tiff"), "%s", j["reader"])
            expect(np.array_equal(pixels(out), levels[k]), "%s %s, level %d: pixels", forms, kind, k)
        says(convert(slide, "--level", 3, status=1)[1].err, "has levels 0 to 2; --level 3 is out of range")


def test_levels_of_another_photometric():
    gray = picture(900, 700, 1)[0]
    half = gray[::2, ::2]
    for base, level, want in ((1, 0, 255 - half), (0, 1, half), (1, 3, None), (2, 6, ())):
        file = Pages()
        for p, photometric in ((gray, base), (half, level)):
            colours = photometric in (2, 6)
            parts = [jpeg_of(np.dstack(3 * [part])) if photometric == 6 else (np.dstack(3 * [part]) if colours else part).tobytes() for part in cut(p, (256, 256))]
            tags = {} if colours else {BITS: (3, [8]), SAMPLES: (3, [1])}
            palette = {320: (3, [257 * (c % 256) for c in range(768)])} if photometric == 3 else {}
            file.add(p.shape[::-1], (256, 256), parts, {PHOTOMETRIC: (3, [photometric]), COMPRESSION: (3, [7 if photometric == 6 else 1]), **tags, **palette})
        slide = file.save(os.path.join(tmp(), "photometric.tif"))
        out, p, j = convert(slide, "--level", 1, "--codec", "none", status=0 if want is not None else 1)
        if want is None:  # a picture with a palette beside a gray slide is no level, such as a map of classes
            says(p.err, "has only level 0")
        elif len(want):
            expect(np.array_equal(pixels(out)[:, :, 0], want), "photometric %d", level)


def test_what_may_be_a_label_is_neither_thumbnail_nor_level():
    """One rule for all: the mark, the description, and, for a picture that says nothing of itself, what can be no level."""
    for text, own in ((None, True), ("Aperio Image Library v11\nlabel 400x300", False), ("Aperio\r\nMacro image", False),
                      ("Aperio\nthe slide's label|AppMag = 20", False), ("", False), ("400x300", False)):
        t = Tiff(made("--size", "600x450"))
        if text is not None:
            kind, count, entry = t.directories[1][DESCRIPTION]
            struct.pack_into("<I", t.data, entry + 4, len(text) + 1)
            t.put_u32(entry + 8, len(t.data))
            t.data += text.encode() + bytes(9)
        slide = t.save(os.path.join(tmp(), "label.svs"))
        for more in ((), ("--keep-identifiers",), ("--codec", "jpeg")):
            with h5py.File(convert(slide, *more)[0], "r") as f:
                expect((f["associated/thumbnail"].shape[:2] == (450, 600)) == own, "%s %s: %s", text, more, f["associated/thumbnail"].shape)
    aperio = {"text": "Aperio Image Library v11.2.1\n900x700 [0,0 900x700] (256x256)|MPP = 0.25"}
    for pages, scales in (([page(*SLIDE, 2, **aperio), page(*HALF, 2), page(*LABEL, 1, **MARK)], [1, 2]),  # in Aperio's files the mark is that of labels
                          ([page(*SLIDE, 2, **aperio), page(*HALF, 2), page(415, 422, 1)], [1, 2]),
                          ([page(*SLIDE, 2, **aperio), page(*HALF, 2, **MARK), page(*QUARTER, 2, **MARK)], [1, 2, 4]),
                          ([page(*SLIDE, 2), page(*HALF, 2, **MARK), page(400, 500, 1, **MARK)], [1, 2])):
        slide = write_pages(os.path.join(tmp(), "tiles.tif"), pages)
        for level, scale in enumerate(scales):
            expect(attributes_of(convert(slide, "--level", level)[0])["downsample"] == scale, "level %d", level)
        says(convert(slide, "--level", len(scales), status=1)[1].err, "is out of range")


def test_a_slide_whose_properties_name_a_barcode_is_no_label():
    """The description of this size ends, as far as it is read, with "Barcode = 0815"."""
    run(WSI2H5, "-o", tmp(), made("--size", "70x60", "--tile", "32"))


def test_files_without_one_slide_are_refused():
    cases = [  # the pages, words
        ([page(*LABEL, 1, "label")], "its only picture in tiles is a label or macro"), ([page(*LABEL, 1, tag_254=(4, [9]))], "label or macro"),
        ([page(*SLIDE, 1), page(800, 600, 2)], "2 pictures"), ([page(*SLIDE, 1, bound(0)), page(*SLIDE, 2)], "2 pictures"),
        ([page(*SLIDE, 1, bound(0).replace("case", "macro image"))], "an OME-TIFF without a slide"),
        ([page(*SLIDE, 2, bound(1)), page(*HALF, 2, **MARK)], "says that the slide of 900 x 700 px is directory 1, which has 450 x 350 px"),
        ([page(*SLIDE, 2, bound(5))], "directory 5, but it has 1"), ([page(*SLIDE, 2, bound(1)), page(*LABEL, 1, "label")], "takes a label or macro"),
    ]
    for pages, words in cases:
        slide = write_pages(os.path.join(tmp(), "s.tif"), pages)
        says(convert(slide, status=1)[1].err, slide, words)
    other = page(*SLIDE, 2, photometric=6)  # only OpenSlide reads it, which takes the first picture
    slide = write_pages(os.path.join(tmp(), "s.tif"), [page(*LABEL, 1, "label"), other])
    says(convert(slide, status=1)[1].err, "its slide is not its first picture")


def test_channels_that_ome_xml_spreads_over_directories_are_refused():
    """As tifffile and Bio-Formats write them by default: a directory per channel. One directory is enough, whatever its layout and colours."""
    plane = picture(300, 220, 1)[0]
    for channels, directories, photometric, form in itertools.product((2, 3), (1, 2, 3), (1, 3), ((256, 256), 64)):
        file = Pages()
        for k in range(min(channels, directories)):
            tags = {BITS: (3, [8]), PHOTOMETRIC: (3, [photometric]), SAMPLES: (3, [1])}
            if photometric == 3:
                tags[320] = (3, [257 * (c % 256) for c in range(768)])
            if k == 0:
                tags[DESCRIPTION] = (2, bound(0, size=(300, 220)).replace("><Tiff", ' SizeC="%d"><Tiff' % channels, 1).encode() + b"\0")
            file.add((300, 220), form, [part.tobytes() for part in cut(plane, form)], tags)
        slide = file.save(os.path.join(tmp(), "channels.ome.tif"))
        out, p, _ = convert(slide, status=1)
        says(p.err, slide, "an OME-TIFF with %d channels" % channels, "a file of its own")
        expect(not os.path.exists(out), "a store of one channel")


# --- what is not kept or not read, by name ---

OTHER = [  # options, why the tiles are not kept
    (("--compression", "deflate"), "its tiles are deflate"), (("--compression", "none"), "its tiles are uncompressed"),
    (("--compression", "32946"), "its tiles are deflate"), (("--compression", "lzw"), "its tiles are LZW"),
    (("--compression", "zstd"), "its tiles are zstd"), (("--compression", "webp"), "its tiles are WebP"),
    (("--compression", "packbits"), "its tiles are PackBits"), (("--progressive",), "JPEG that is not baseline"),
    (("--photometric", "gray", "--compression", "none"), "its tiles are uncompressed"),
    (("--photometric", "gray", "--compression", "lzw", "--big-endian"), "its tiles are LZW"),
    (("--bigtiff", "--big-endian", "--compression", "zstd"), "its tiles are zstd"),
]


def test_tiles_that_are_not_kept_are_named():
    for options, words in OTHER:
        slide = tiff("generic", *options)
        out, p, j = convert(slide, "--codec", "jpeg")
        says(p.err, "stored with codec deflate, not jpeg: ", words)
        expect(words in j["codec_reason"] and (j["codec"], j["reader"]) == ("deflate", "tiff"), "%s", j)
        want = openslide_pixels(slide)
        expect(np.array_equal(pixels(out), want[:, :, :1] if "gray" in options else want), "%s: pixels", options)


GRAY = ("--photometric", "gray")


def test_gray_tiles_make_gray_stores():
    """Whatever the codec, with or without --gray; JPEG tiles are kept."""
    for more in ((), ("--complete-tiles", "--restart", "5"), ("--tile", "100x52"), ("--compression", "lzw")):
        slide = tiff("generic", *GRAY, *more)
        want = openslide_pixels(slide)
        expect((want == want[:, :, :1]).all(), "%s: not gray", more)
        spectra = []
        for codec, *options in (("keep",), ("none",)) + ((("keep", "--gray"), ("deflate", "--gray")) if more == () else ()):
            out, p, j = convert(slide, "--codec", codec, *options)
            expect(codec != "keep" or j["codec"] == ("deflate" if "lzw" in more else "jpeg"), "%s %s: %s", more, options, j)
            with h5py.File(out, "r") as f:
                expect(f.attrs["channels"] == 1 and f["pixels"].shape == (700, 900, 1), "%s", f["pixels"])
                if codec == "keep" and "lzw" not in more:
                    filters = f["groups/00001/pixels"].id.get_create_plist().get_filter(0)
                    expect(filters[:3] == (32019, 0, (90, f.attrs["chunk_cols"], f.attrs["chunk_rows"], 0)), "%s", filters)
                spectra.append((f["tissue/mask"][()].tobytes(), f["associated/thumbnail"][()].tobytes()))
            run(H5SPEC, "verify", out)
            with h5py.File(spectrum(out), "r") as f:
                spectra[-1] += (f["histogram"][()].tobytes(), int(f["slides/" + list(f["slides"])[0]].attrs["source_gray"]))
            if SAN and j["codec"] == "jpeg":
                continue  # the plug-in is loaded into a Python without sanitizers
            with wsi_store.open_store(out) as s:
                expect(np.array_equal(s.read_region(0, 0, 900, 700), want[:, :, :1]), "%s %s %s: pixels", more, codec, options)
        expect(len(set(spectra)) == 1 and spectra[0][-1] == 1, "%s: results differ", more)


def test_damaged_gray_tiles():
    slide = tiff("generic", *GRAY, "--missing", "0,0", "--truncate", "1,1:600", "--garbage", "2,1", name="damaged")
    stores = []
    for codec in ("keep", "none"):
        out, _, j = convert(slide, "--codec", codec, status=4)
        expect((j["tiles_missing"], j["tiles_damaged"], j["codec"]) == (1, 2, "jpeg" if codec == "keep" else codec), "%s", j)
        stores.append(out)
    run(H5SPEC, "verify", stores[0])
    got = [h5py.File(spectrum(s), "r")["histogram"][()] for s in stores]
    expect((got[0] == got[1]).all(), "other pixels in a store of kept tiles")


def test_samples_that_cannot_be_kept_are_named():
    y, x = np.mgrid[:600, :700]
    red, green, blue = ((x + y) % 256).astype(np.uint8), (x * y // 700 % 256).astype(np.uint8), (255 - y % 256).astype(np.uint8)
    colours = [(k * step % 256) << 8 for step in (1, 3, 7) for k in range(256)]
    cases = [  # how it is written, words, its pixels
        ({"planes": [red], "photometric": 3, "palette": colours}, "its tiles have a palette", [np.uint8(red.astype(int) * s % 256) for s in (1, 3, 7)]),
        ({"planes": [red, green, blue, np.full_like(red, 255)]}, "its tiles have alpha or other extra samples", (red, green, blue)),
    ]
    for how, words, want in cases:
        slide = write_tiled(os.path.join(tmp(), "a.tif"), **how)
        for codec in ("keep", "jpeg"):
            out, p, j = convert(slide, "--codec", codec)
            says(p.err, "stored with codec deflate, not jpeg: " + words)
            expect((j["reader"], j["codec"], j["codec_reason"]) == ("tiff", "deflate", "not jpeg: " + words), "%s", j)
            expect(np.array_equal(pixels(out), np.stack(want, 2)), "%s: pixels", words)
        says(convert(slide, "--strict-codec", "--codec", "keep", status=1)[1].err, words, "--strict-codec")


IN_PLANES = ("--photometric", "planes")


def test_tiles_in_planes():
    """R, G and B in tiles of their own, as Bio-Formats writes them; it states YCbCr where these are JPEG, which OpenSlide does not read."""
    for more in ((), ("--complete-tiles",), ("--compression", "lzw"), ("--compression", "none", "--big-endian"), ("--compression", "zstd")):
        slide = tiff("generic", *IN_PLANES, *more)
        want = openslide_pixels(slide)
        out, p, j = convert(slide, "--codec", "keep")
        says(p.err, "stored with codec deflate, not jpeg: its tiles are in separate planes")
        expect((j["reader"], j["codec"]) == ("tiff", "deflate") and np.array_equal(pixels(out), want), "%s: %s", more, j)
        if more in ((), ("--compression", "lzw")):
            gray, _, _ = convert(slide, "--gray")
            expect(np.array_equal(pixels(gray)[..., 0], (want @ np.array([299, 587, 114]) + 500) // 1000), "%s: gray", more)

    def stating_ycbcr(container):
        t = Tiff(tiff(container, *IN_PLANES))
        for k in range(len(t.directories)):
            t.set(PHOTOMETRIC, 6, 0, k)
        return t.save(os.path.join(tmp(), container + ".tif"))
    want = openslide_pixels(tiff("generic", *IN_PLANES))
    out, _, j = convert(stating_ycbcr("ome"))
    expect(j["reader"] == "tiff" and np.array_equal(pixels(out), want), "%s", j)
    says(convert(stating_ycbcr("generic"), status=1)[1].err, "unsupported", "YCbCr in separate planes")
    t = Tiff(tiff("generic", *IN_PLANES, "--tile", "4112"))
    t.set(PHOTOMETRIC, 6)
    says(convert(t.save(os.path.join(tmp(), "large.tif")), status=1)[1].err, "YCbCr in separate planes")  # was stored as RGB


def test_gray_and_planes_of_jpeg_2000():
    """Lossless, so they are the pixels of other lossless tiles."""
    for photometric in ("gray", "planes"):
        same = ("--photometric", photometric, "--quality", "100")
        want = pixels(convert(tiff("generic", *same, "--compression", "lzw"))[0])
        out, p, j = convert(tiff("generic", *same, "--compression", "34712"), "--codec", "keep")
        expect(j["codec"] == "deflate" and np.array_equal(pixels(out), want), "%s: %s", photometric, j)
        says(p.err, "its JPEG 2000 tiles are gray" if photometric == "gray" else "its tiles are in separate planes")


def test_damaged_planes():
    for compression in ("jpeg", "lzw", "34712"):
        same = ("generic", *IN_PLANES, "--compression", compression)
        want = pixels(convert(tiff(*same))[0]).copy()
        out, _, j = convert(tiff(*same, "--missing", "0,0", "--truncate", "1,1:300", "--foreign", "2,1", name="damaged"), status=4)
        expect((j["tiles_missing"], j["tiles_damaged"]) == (1, 2), "%s: %s", compression, j)
        want[:256, :256] = want[256:512, 256:768] = 255
        expect(np.array_equal(pixels(out), want), "%s: pixels", compression)
        t = Tiff(tiff(*same))
        t.set(TILE_BYTES, 0, 2 * 12)  # the blue plane of the first tile, of 4 x 3
        expect(convert(t.save(os.path.join(tmp(), "blue.tif")), status=4)[2]["tiles_damaged"] == 1, "%s: a plane is missing", compression)


def test_other_compressions_in_every_container():
    for container, (vendor, _) in CONTAINERS.items():
        out, _, j = convert(tiff(container, "--compression", "lzw"))
        expect((j["reader"], j["vendor"], j["tiles_damaged"]) == ("tiff", vendor, 0), "%s: %s", container, j)
        expect(np.array_equal(pixels(out), openslide_pixels(tiff("generic", "--compression", "lzw"))), "%s: pixels", container)


def test_jpeg_2000_in_other_files_than_aperios():
    """The photometric tag states the colours there, so that three components without a transform are RGB."""
    want = {}
    for compression in ("33005", "33004", "34712"):
        for container in ("aperio", "generic", "ome"):
            if container == "aperio" and compression != "33005":
                continue
            out, p, j = convert(tiff(container, "--compression", compression), "--codec", "jpeg")
            expect((j["codec"], j["reader"]) == ("deflate", "svs" if container == "aperio" else "tiff"), "%s", j)
            says(p.err, "its tiles are JPEG 2000")
            expect(np.array_equal(pixels(out), want.setdefault("33005", pixels(out))), "%s in %s", compression, container)


@later("ci")
def test_damaged_tiles_of_other_compressions():
    files = {}
    for compression in ("deflate", "32946", "lzw", "zstd", "webp", "packbits", "none", "33005"):
        for option in ("--truncate", "--garbage", "--foreign", "--outside", "--missing"):
            if option != "--garbage" or compression not in ("none", "packbits"):  # of which any bytes are pixels
                slide = tiff("generic", "--compression", compression, option, "1,2" + (":600" if option == "--truncate" else ""), name="damaged")
                files["%s%s.tif" % (compression, option)] = bytes_in(slide)
    whole = {}
    for (name, _), j in zip(files.items(), convert_all(files)):
        compression, missing = name.split("--")[0], "--missing" in name
        expect((j["status"], j["tiles_missing"], j["tiles_damaged"]) == (("done", 1, 0) if missing else ("damaged", 0, 1)), "%s: %s", name, j)
        if compression != "33005":
            if compression not in whole:
                whole[compression] = openslide_pixels(tiff("generic", "--compression", compression))
            want = whole[compression].copy()
            want[512:, 256:512] = 255
            expect(np.array_equal(pixels(j["store"]), want), "%s: pixels", name)


def with_change(container, change, *options):
    t = Tiff(tiff(container, *options))
    change(t)
    return t.save(os.path.join(tmp(), "changed.tif"))


def replaced(container, old, new):
    data = bytes_in(tiff(container))
    expect(old in data and len(new) == len(old), "%s is not in the file", old)
    return file_of("replaced.tif", data.replace(old, new, 1))


def with_tag(tag, kind, value):
    return lambda t: t.add_entries({tag: struct.pack("<HHII", tag, kind, 1, value)})


def only_strips(t):
    """The label, which is in strips, becomes the first picture."""
    t.put_u32(t.links[0], t.u32(t.links[3]))


def unlinked(t, width=900, height=700):
    """A coarser level becomes a page of the size of the first one."""
    for tag, value in ((SUBFILE, 0), (WIDTH, width), (LENGTH, height)):
        t.set(tag, value, 0, 1)


def test_what_is_not_read_is_named():
    def bits(t):
        for k in range(3):
            t.set(BITS, 16, k)
    cases = [
        (with_change("generic", bits), "16 bits", "8 bits first"), (with_change("ome", bits), "16 bits"),
        (with_change("generic", unlinked), "2 pictures", "planes", "a file of its own"),
        (with_change("generic", lambda t: unlinked(t, 260, 175)), "2 pictures", "series"),
        (replaced("ome", b'SizeZ="1"', b'SizeZ="7"'), "7 focal planes"), (replaced("ome", b'SizeT="1"', b'SizeT="5"'), "5 time points"),
        (replaced("ome", b'SizeC="3"', b'SizeC="4"'), "4 channels"), (replaced("ome", b"label image", b"second scan"), "2 pictures"),
        (with_change("generic", with_tag(SAMPLE_FORMAT, 3, 3)), "floating-point numbers of 8 bits"),
        (with_change("ome", with_tag(SAMPLE_FORMAT, 3, 2), "--compression", "lzw"), "signed numbers of 8 bits"),
        (with_change("generic", bits, "--compression", "none"), "16 bits"), (with_change("philips", only_strips), "without tiles"),
        (with_change("generic", lambda t: t.set(COMPRESSION, 50002)), "50002"), (with_change("generic", unlinked, "--compression", "zstd"), "2 pictures"),
        (with_change("generic", lambda t: t.set(PLANES, 2)),), (with_change("generic", lambda t: t.set(PHOTOMETRIC, 3)),),
    ]
    for slide, *words in cases:
        out, p, j = convert(slide, status=None)
        if words:
            expect(p.returncode == 1 and not os.path.exists(out), "%s: status %d: %s", words, p.returncode, p.err)
        expect(p.returncode in (0, 1, 4), "status %d", p.returncode)
        says(p.err, *words)


def test_scanners_that_only_openslide_reads():
    # um per px of what OpenSlide reads goes through the one rule: a default of Trestle's
    trestle = replaced("philips", b"Philips DP v1.0", b"MedScan 1234567")
    _, _, j = convert(with_resolution(trestle, (1, 2), 3), status=None)
    expect(j.get("reader") == "openslide" and j["mpp_x"] is None, "%s", j)
    slide = made("--container", "generic", *SIZE, "--description", "<scn xmlns='http://www.leica-microsystems.com/scn/2010/10/01'/>")
    for slide in (trestle, slide):
        _, _, j = convert(slide, status=None)
        expect(j.get("reader") != "tiff", "%s", j)


# --- hostile files ---

def survive(files):
    """`files`: what was done to a file, its bytes."""
    named = {"%s.tif" % what: data for what, data in files}
    expect(len(named) == len(files), "two files have one name")
    for options in (("--codec", "keep"), ("--level", "1", "--codec", "none")):
        convert_all(named, *options)


def forged(container, tag, field, value):
    t = Tiff(tiff(container))
    t.put_u32(t.directories[0][tag][2] + field, value)
    return "%s, tag %d, %d is %#x" % (container, tag, field, value), t.data


def test_forged_directories():
    """The count, the values or their place of each tag; of the other containers those that they have for themselves."""
    places = [(4, 0x7fffffff), (8, 1), (8, 0xffffffff)]
    tags = [("generic", tag) for tag in Tiff(tiff("generic")).directories[0]] + list(itertools.product(("ome-subifds", "philips"), (DESCRIPTION, SUBS, SOFTWARE)))
    survive([forged(container, tag, *place) for container, tag in tags if tag in Tiff(tiff(container)).directories[0] for place in places])


def test_forged_sizes_are_bounded_by_the_file():
    """A picture of 2^31 px a side needs tables that the file cannot hold."""
    for container in CONTAINERS:
        t = Tiff(tiff(container))
        t.set(WIDTH, 0x7fffffff)
        t.set(LENGTH, 0x7fffffff)
        _, p, _ = convert(t.save(os.path.join(tmp(), "huge.tif")), "-j", "1", status=1)
        peak = re.search(r"peak memory ([0-9.]+) (\w+)", p.err).groups()
        expect(peak[1] == "MiB" and float(peak[0]) < (2000 if SAN else 100), "%s MiB", peak)
        says(p.err, "huge.tif")


def test_loops_of_directories():
    files = []
    for container, link, to in itertools.product(("generic", "philips"), range(1, 4), range(4)):
        t = Tiff(tiff(container))
        t.put_u32(t.links[link], t.u32(t.links[to]))
        files.append(("%s, %d to %d" % (container, link, to), t.data))
    for to in (0, 1):  # SubIFDs that name the first directory, or one another
        t = Tiff(tiff("ome-subifds"))
        at = t.place(SUBS)
        first = t.u32(t.links[0]) if to == 0 else t.u32(at)
        for k in range(2):
            struct.pack_into("<Q", t.data, at + 8 * k, first)
        files.append(("SubIFDs to %d" % to, t.data))
    survive(files)


def test_subifds_that_are_not_smaller_are_no_levels():
    t = Tiff(tiff("ome-subifds"))
    for k in range(2):
        struct.pack_into("<Q", t.data, t.place(SUBS) + 8 * k, t.u32(t.links[0]))
    path = t.save(os.path.join(tmp(), "first.tif"))
    says(run(WSI2H5, "--level", "1", "-o", tmp(), path, status=1).err, path, "level 0", "--level 1 is out of range")


def test_files_that_end_early():
    whole = {container: bytes_in(tiff(container)) for container in ("generic", "subifds", "philips")}
    survive([("%s cut to %d" % (container, part), data[:part]) for container, data in whole.items()
             for part in (8, 100, len(data) // 4, len(data) // 2, len(data) - 3000, len(data) - 40)])


FLIPPED = [(), ("--compression", "lzw"), (), ("--compression", "33005"), (), ("--compression", "zstd"), ("--compression", "webp"),
           ("--compression", "none", "--photometric", "gray"), (), ("--compression", "deflate"), ("--photometric", "gray"), ("--compression", "32946"),
           ("--photometric", "planes"), ("--photometric", "gray", "--compression", "34712")]


@later("ci")
def test_flipped_bytes():
    """At least each container with each of FLIPPED."""
    r, files = random.Random(1), []
    for k in range(by_tier(70, 70, 5000)):
        container, options = list(CONTAINERS)[k % len(CONTAINERS)], FLIPPED[k % len(FLIPPED)]
        t = Tiff(tiff(container, *options))
        d = r.randrange(len(t.directories))
        tiles = [t.u32(t.place(TILE_OFFSETS, tile)) for tile in range(12)]
        for _ in range(r.randrange(1, 4)):
            kind = r.random()
            if kind < 0.6:  # in a directory
                at = t.u32(t.links[d]) + r.randrange(2 + 12 * len(t.directories[d]) + 4)
            elif kind < 0.8:  # in the beginning of a tile
                at = r.choice(tiles) + r.randrange(r.choice((16, 200, 3000)))
            else:  # in the description or the tables
                kind, count, entry = r.choice(list(t.directories[0].values()))
                at = t.u32(entry + 8) + r.randrange(max(1, count))
            if at < len(t.data):
                t.data[at] = r.choice((0, 1, 255, t.data[at] ^ 1 << r.randrange(8)))
        files.append(("%s, file %d" % (container, k), t.data))
    survive(files)


READS = """
    static void note(int fd, off_t at) {
        char link[64], name[4096];
        sprintf(link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, name, sizeof name - 1);
        name[n < 0 ? 0 : n] = 0;
        FILE *f = strcmp(name, getenv("SLIDE")) ? NULL : fopen(getenv("READS"), "a");
        if (f) fprintf(f, "%lld\\n", (long long)at), fclose(f);
    }
    #define READ(name) ssize_t name(int fd, void *to, size_t n, off_t at) { \\
        ssize_t (*f)(int, void *, size_t, off_t); *(void **)&f = dlsym(RTLD_NEXT, #name); note(fd, at); return f(fd, to, n, at); }
    READ(pread) READ(pread64)"""


def test_a_directory_is_read_once():
    """Many readers look at a slide, and at each of its levels; what one has read, the next does not read again. Libraries that open the
    file for themselves (OpenSlide, libtiff) read it their own way."""
    library, reads = preloaded(READS), os.path.join(tmp(), "reads")
    other = Tiff(tiff("generic", "--compression", "deflate"))
    for k in range(len(other.directories)):
        other.set(PHOTOMETRIC, 6, directory=k)  # YCbCr, not of JPEG: OpenSlide decodes it
    slides = [(tiff(c), "svs" if c == "aperio" else "tiff") for c in ["aperio", *CONTAINERS]]
    slides.append((other.save(os.path.join(tmp(), "ycbcr.tif")), "openslide"))
    strip = Pages().add((300, 300), 300, [np.arange(270000, dtype=np.uint8).tobytes()])
    slides.append((strip.save(os.path.join(tmp(), "strips.tif")), "picture"))
    for slide, reader in slides:
        slide, out = os.path.realpath(slide), os.path.join(tmp(), "x.h5")
        p = run(WSI2H5, "--json", "-o", out, slide, env=dict(os.environ, LD_PRELOAD=library, SLIDE=slide, READS=reads))
        expect(json.loads(p.out)["reader"] == reader, "%s: %s", slide, p.out)
        with open(reads) as f:
            at = [int(line) for line in f]
        os.remove(reads)
        t = Tiff(slide)
        times = [at.count(t.u32(link)) for link in t.links[:len(t.directories)]]
        expect(times == [1] * len(times) and at.count(0) <= 4, "%s: directories are read %s times, the header %d", slide, times, at.count(0))


def test_a_slide_without_quickhash_that_moves_is_up_to_date():
    """Its name, size, time and index say more than its folder."""
    if SAN:
        raise Skip("a preloaded library and a sanitizer do not go together")
    folders, out = (tmp("a"), tmp("b"), tmp("c")), tmp("stores")
    slide = os.path.join(folders[0], "s.tif")
    shutil.copy2(tiff("generic", "--compression", "deflate"), slide)
    env = dict(os.environ, LD_PRELOAD=no_quickhash())
    run(WSI2H5, "-o", out, slide, env=env)
    expect(not attributes_of(os.path.join(out, "s.h5")).get("quickhash"), "it has a quickhash")
    moved = shutil.move(slide, folders[1])
    says(run(WSI2H5, "-o", out, moved, env=env).err, "1 skipped (up to date)")
    other = shutil.copy(tiff("generic", "--compression", "deflate", "--seed", "9"), os.path.join(folders[2], "s.tif"))
    says(run(WSI2H5, "-o", out, other, env=env, status=1).err, "is the store of another slide")


def no_quickhash():
    """A library with which OpenSlide knows no slide."""
    return preloaded("void *openslide_open(const char *path) { return (void)path, (void *)0; }")


main(globals())
