"""Identifying texts in every place of a slide that can carry one, searched for in every byte of every output.

A canary is a word that occurs nowhere else. Where it comes out, the sweep names its place and the output.
"""
import struct
import zlib

import h5py
import numpy as np

from common import *
import dicomfile
import ndpifile
from tiffpatch import Tiff

# keys that real scanners, archives and hospitals write into the description
KEYS = ("User", "Date", "Time", "Filename", "Title", "Barcode", "ScanScope ID", "Patient", "PatientID", "MRN", "DOB", "SSN",
        "Birth", "Age", "Sex", "Hospital", "Institution", "Physician", "Doctor", "Diagnosis", "Email", "Phone", "Address",
        "Owner", "Login", "Host", "Pat", "Order", "Visit", "NHS", "Insurance", "Notes", "Path", "Folder", "Workstation",
        "Specimen", "Stain", "Project", "Parmset", "Slide", "Rack", "Requested By", "Case", "Block", "Comment", "Operator",
        "Device", "Serial", "SessonMode", "ImageID", "Accession", "Name", "Study", "Series", "UID", "Referrer", "Lab",
        "StripeWidth", "Left", "Top", "AppMag", "MPP", "Gamma", "Focus Offset", "DisplayColor", "LineAreaXOffset")
# TIFF tags with text: document and image name, make, model, page name, software, date, artist, host,
# copyright, XMP, IPTC, Photoshop, EXIF's, Windows' title and author
TAGS = (269, 271, 272, 285, 305, 306, 315, 316, 33432, 700, 33723, 34377, 36867, 42016, 42033, 40091, 40093)
NDPI_TAGS = TAGS + (65427, 65442, 65449, 65480)  # also reference, serial number, the scanner's and the user's properties
# Of DICOM: names, numbers, institutions, places, dates, comments, private elements
DICOM_TAGS = {0x00080020: b"DA", 0x00080050: b"SH", 0x00080070: b"LO", 0x00080080: b"LO", 0x00080081: b"ST", 0x00080090: b"PN",
              0x00081010: b"SH", 0x00081030: b"LO", 0x0008103e: b"LO", 0x00081040: b"LO", 0x00081050: b"PN", 0x00081060: b"PN",
              0x00081070: b"PN", 0x00081090: b"LO", 0x00090010: b"LO", 0x00091001: b"LT", 0x00100010: b"PN", 0x00100020: b"LO",
              0x00100030: b"DA", 0x00100040: b"CS", 0x00101000: b"LO", 0x00101040: b"LO", 0x00102160: b"SH", 0x00104000: b"LT",
              0x00181000: b"LO", 0x00181020: b"LO", 0x00181030: b"LO", 0x00200010: b"SH", 0x00204000: b"LT", 0x00321060: b"LO",
              0x00400244: b"DA", 0x00400254: b"LO", 0x00400275: b"SH", 0x00400512: b"LO", 0x00480106: b"SH"}
ICC_TEXTS = (b"desc", b"cprt", b"dmnd", b"dmdd", b"vued")


# all canaries of Canaries.new() in one pass: as they are, in lower case, in UTF-16 of either order
CANARY = re.compile(rb"C\0?N\0?R\0?Y(?:\0?[0-9]){4}\0?Q", re.IGNORECASE)


class Canaries:
    def __init__(self):
        self.places = {}

    def new(self, place):
        word = "CNRY%04dQ" % len(self.places)
        self.places[word] = place
        return word


def icc_profile(canaries):
    """A small RGB profile whose identifying texts are canaries; also the bytes of its colour tags."""
    tags = []
    for key in ICC_TEXTS:
        text = canaries.new("ICC %s" % key.decode()).encode()
        if key == b"desc":
            wide = canaries.new("ICC desc, UTF-16").encode("utf-16-be")
            data = b"mluc" + struct.pack(">IIIHHII", 0, 1, 12, 0x656E, 0x5553, len(wide), 28) + wide
        elif key == b"cprt":
            data = b"text" + bytes(4) + text + b"\0"
        else:
            data = b"desc" + bytes(4) + struct.pack(">I", len(text) + 1) + text + bytes(1 + 8 + 3 + 67)
        tags.append((key, data))
    colour = b"XYZ " + bytes(4) + struct.pack(">iii", 28000, 14000, 900)
    tags += [(key, colour) for key in (b"rXYZ", b"gXYZ", b"bXYZ", b"wtpt")]
    tags.append((b"rTRC", b"curv" + bytes(4) + struct.pack(">IH", 1, 563) + bytes(2)))
    return lib.icc(tags), colour


def add_tags(path, tags):
    """Gives the first directory of a classic little-endian TIFF more entries: {tag: text}."""
    t, entries = Tiff(path), {}
    for tag, text in tags.items():
        value = text.encode() + b"\0"
        t.data += bytes(len(t.data) % 2)
        entries[tag] = struct.pack("<HHII", tag, 2, len(value), len(t.data))
        t.data += value
    t.data += bytes(len(t.data) % 2)
    t.add_entries(entries)
    t.save(path)


def everything_in(path):
    """Every byte of a file, and of HDF5 files every attribute and every value, unpacked."""
    data = [bytes_in(path)]
    if path.endswith(".h5"):
        def add(_, obj):
            for key, value in obj.attrs.items():
                data.append(key.encode() + b"=" + (value if isinstance(value, bytes) else str(value).encode()))
            if isinstance(obj, h5py.Dataset):
                data.append(np.ascontiguousarray(obj[()]).tobytes())
        with h5py.File(path, "r") as f:
            add("/", f)
            f.visititems(add)
    else:
        data += [zlib.decompress(data[0], 31)] if data[0][:2] == b"\x1f\x8b" else []
    return b"\n".join(data)


def variants(word):
    return word.encode(), word.lower().encode(), word.encode("utf-16-le"), word.encode("utf-16-be")


def search(t, canaries, sinks, allowed=()):
    """Looks for every canary in every sink (name -> bytes)."""
    for name, data in sinks.items():
        words = {"".join(re.findall("[A-Z0-9]", m.decode("latin-1").upper())) for m in CANARY.findall(data)}
        for word, place in canaries.places.items():
            t.tried += 1
            found = word in words if word.startswith("CNRY") else any(v in data for v in variants(word))
            if found and (place, name) not in allowed and (place, "*") not in allowed:
                t.bad("%s comes out in %s", place, name)


def sweep_privacy(t):
    """Canaries in every text of a slide, in every output."""
    for codec in ("deflate", "keep"):
        for anonymous in (False, True):
            one_corpus(t, anonymous, codec)


def one_corpus(t, anonymous, codec):
    canaries = Canaries()
    base = canaries.new("base name") if anonymous else "slide"
    work = os.path.join(t.new_folder(), canaries.new("folder name"))
    os.mkdir(work)
    profile, colour = icc_profile(canaries)
    icc = os.path.join(work, "icc")
    with open(icc, "wb") as f:
        f.write(profile)
    first = canaries.new("first line of the description")
    description = "Aperio Image Library v10.0\r\n%s 600x500 -> |" % first + "|".join(
        "%s = %s" % (key, canaries.new("description: " + key)) for key in KEYS) + "|AppMag = 20|MPP = 0.5"
    slide = os.path.join(work, base + ".svs")
    subprocess.run([MKSLIDE, "--size", "600x500", "--levels", "2", "--description", description, "--icc", icc, slide], check=True)
    add_tags(slide, {tag: canaries.new("TIFF tag %d" % tag) for tag in TAGS})
    broken = os.path.join(work, base + ".2.svs")
    with open(broken, "wb") as f:
        f.write(bytes_in(slide)[:-2000])
    slides = [slide, broken, *other_formats(canaries, work, base, profile, anonymous)]
    out = t.new_folder()
    options = ["--codec", codec] + (["--anonymous", os.path.join(work, "key.csv")] if anonymous else [])
    sinks = {}
    ran = run([WSI2H5, "--json", *options, "-o", out, *slides])
    sinks["wsi2h5's stdout"], sinks["wsi2h5's stderr"] = ran.out.encode(), ran.err.encode()
    stores = sorted(os.path.join(out, f) for f in os.listdir(out) if f.endswith(".h5"))
    if len(stores) != len(slides) - 1:  # one is rejected
        return t.bad("%d stores of %d slides%s: %s", len(stores), len(slides), " with --anonymous" if anonymous else "",
                     ran.err[-300:])
    for k, path in enumerate(stores):
        sinks["store %d" % k] = everything_in(path)
        sinks["the name of store %d" % k] = os.path.basename(path).encode()
    if sum(colour in profile_of(path) for path in stores) < 2:  # of the Aperio and of the DICOM slide
        t.bad("the colour tags of an ICC profile have changed")
    result = os.path.join(out, "result.h5")
    collect(sinks, "h5spec run", run([H5SPEC, "run", "--device", "cpu", "--duplicates", "count", "--mix-mpp", "--json", "-o", result, *stores]))
    for argv in (["info"], ["info", "--json"], ["info", "--csv"], ["info", "--histogram"], ["verify"]):
        collect(sinks, "h5spec " + " ".join(argv), run([H5SPEC, *argv, result] + (stores if argv == ["info"] else [])))
    for argv in (["plot", "-o", os.path.join(out, "plot.svg"), result], ["report", "-o", os.path.join(out, "report.html"), result],
                 ["map", "--format", "all", "-o", os.path.join(out, "maps"), result], ["compare", result, result],
                 ["run", "--device", "cpu", "--duplicates", "count", "--mix-mpp", "--live", os.path.join(out, "live"), "-o", os.path.join(out, "live.h5"), *stores],
                 ["lookup", *stores], ["lookup", "--json", *stores]):
        ran = run([H5SPEC, *argv])
        if ran.status:
            t.bad("h5spec %s: status %d: %s", argv[0], ran.status, ran.err[-300:])
        collect(sinks, "h5spec " + argv[0] + (" --live" if "--live" in argv else ""), ran)
    for folder, _, names in os.walk(out):
        for name in names:
            path = os.path.join(folder, name)
            if path not in stores:
                sinks["the file " + os.path.relpath(path, out)] = everything_in(path)
                sinks["the name " + os.path.relpath(path, out)] = os.path.relpath(path, out).encode()
    # messages and --json name the files that the user named, in full
    named = [(place, sink) for place in ("folder name", *(() if anonymous else ("base name",))) for sink in sinks
             if sink.startswith(("wsi2h5", "h5spec"))]
    corpus = [] if anonymous else collect_corpus(t, sinks, slides)
    named += [("folder name", sink) for sink in corpus]
    search(t, canaries, sinks, named)


def other_formats(canaries, work, base, profile, anonymous):
    """Two DICOM, an NDPI and TIFF slides with canaries."""
    tiles = os.path.join(os.path.dirname(work), "tiles.svs")
    subprocess.run([MKSLIDE, "--size", "600x500", "--complete-tiles", "--comments", tiles], check=True)
    change = {tag: dicomfile.element(tag, vr, canaries.new("DICOM %08x" % tag)) for tag, vr in DICOM_TAGS.items()}
    for number, place in (("1.2.840.99887701", "series"), ("1.2.840.99887702", "instance")):
        canaries.places[number] = "DICOM, UID of the " + place
    dicom = os.path.join(work, base + ".3.dcm")
    dicomfile.write(dicom, dicomfile.instance(dicomfile.Level(tiles), series="1.2.840.99887701", sop="1.2.840.99887702",
                                              icc=profile, change=change))
    texts = {tag: canaries.new("NDPI tag %d" % tag) for tag in NDPI_TAGS}
    for word in ndpifile.CANARIES:
        canaries.places[word] = "NDPI: " + word
    jpeg = ndpifile.picture(1024, 600, 64)
    ndpi = os.path.join(work, base + ".4.ndpi")
    ndpifile.Slide().add(jpeg, 1024, 600, 20.0, texts=texts).save(ndpi)
    return dicom, j2k(canaries, work, base, change), ndpi, *tiffs(canaries, work, base, anonymous)


def j2k(canaries, work, base, change):
    """A DICOM slide in two files whose JPEG 2000 streams have comments."""
    tiles = os.path.join(os.path.dirname(work), "j2k.svs")
    subprocess.run([MKSLIDE, "--size", "600x500", "--compression", "33003", "--seed", "9", tiles], check=True)
    text = canaries.new("comment of JPEG 2000").encode()

    def commented(tile):
        at = 4 + struct.unpack_from(">H", tile, 4)[0]
        return tile[:at] + struct.pack(">HHH", 0xff64, 4 + len(text), 1) + text + tile[at:]
    for number, place in (("1.2.840.99887703", "series"), ("1.2.840.99887704", "instance")):
        canaries.places[number] = "DICOM in two files, UID of the " + place
    return dicomfile.concatenation(work, tiles, (3,), series="1.2.840.99887703", sop="1.2.840.99887704.%d", change=change,
                                   name=base + ".8.%d.dcm", edit=commented)[0]


SPACING = '<Attribute Name="DICOM_PIXEL_SPACING">&quot;0.00025&quot; &quot;0.00025&quot;</Attribute>'


def tiffs(canaries, work, base, anonymous):
    """An OME-TIFF and a Philips TIFF with canaries in every text of their XML, and TIFF of no known program."""
    def word(what):
        return canaries.new("XML, " + what)

    ome = ('<OME Creator="%s"><Experimenter LastName="%s"/><Image Name="%s"><AcquisitionDate>%s</AcquisitionDate>'
           '<Pixels SizeX="600" SizeY="500" SizeZ="1" SizeC="3" SizeT="1" PhysicalSizeX="0.25" PhysicalSizeY="0.25"/></Image>'
           '<StructuredAnnotations>%s</StructuredAnnotations></OME>' % tuple(map(word, ("creator", "experimenter", "image", "date", "annotation"))))
    names = ("DICOM_DEVICE_SERIAL_NUMBER", "DICOM_ACQUISITION_DATETIME", "PIM_DP_UFS_BARCODE", "DICOM_DERIVATION_DESCRIPTION")
    philips = ('<DataObject ObjectType="DPUfsImport">%s<Attribute Name="PIM_DP_SCANNED_IMAGES"><Array><DataObject ObjectType="DPScannedImage">'
               '<Attribute Name="PIM_DP_IMAGE_TYPE">WSI</Attribute>%s<Attribute Name="PIIM_PIXEL_DATA_REPRESENTATION_SEQUENCE"><Array>'
               '<DataObject ObjectType="PixelDataRepresentation">%s</DataObject></Array></Attribute></DataObject>'
               '<DataObject ObjectType="DPScannedImage"><Attribute Name="PIM_DP_IMAGE_TYPE">LABELIMAGE</Attribute>'
               '<Attribute Name="PIM_DP_IMAGE_DATA">%s</Attribute></DataObject></Array></Attribute></DataObject>' %
               ("".join('<Attribute Name="%s">%s</Attribute>' % (n, word(n)) for n in names), SPACING, SPACING, word("label image")))
    paths = []
    for number, (container, text) in enumerate((("ome", ome), ("philips", philips))):
        paths.append(os.path.join(work, base + ".%d.tif" % (5 + number)))
        subprocess.run([MKSLIDE, "--container", container, "--size", "600x500", "--description", text, "--seed", str(5 + number), paths[-1]],
                       check=True)
    # --anonymous needs OpenSlide, which does not open JPEG 2000 in generic TIFF
    for number, compression in enumerate(("lzw",) if anonymous else ("lzw", "34712")):
        paths.append(os.path.join(work, base + ".%d.tif" % (10 + number)))
        subprocess.run([MKSLIDE, "--container", "generic", "--size", "600x500", "--compression", compression, "--seed", str(7 + number),
                        paths[-1]], check=True)
        add_tags(paths[-1], {tag: canaries.new("generic TIFF, tag %d" % tag) for tag in (270, *TAGS)})
    return paths


def profile_of(path):
    with h5py.File(path, "r") as f:
        return f["icc_profile"][()].tobytes() if "icc_profile" in f else b""


def collect_corpus(t, sinks, slides):
    """What scripts/corpus makes of the slides. Returns the sinks that may name the slides' folder: lists, logs and messages,
    but no store, result or page."""
    out = os.path.join(t.new_folder(), "corpus")
    argv = [os.path.join(lib.ROOT, "scripts", "corpus"), "run", "--scheduler", "local", "-o", out, *slides]
    ran = run(argv, {"WSI2H5": WSI2H5, "H5SPEC": H5SPEC}, limit=4 * TIME_LIMIT)
    sinks["corpus run, stdout"], sinks["corpus run, stderr"] = ran.out.encode(), ran.err.encode()
    told = run([argv[0], "status", out])
    sinks["corpus status, stdout"], sinks["corpus status, stderr"] = told.out.encode(), told.err.encode()
    may = [name for name in sinks if name.startswith("corpus ")]
    found = corpus_parts(out)
    for name, path in found.items():
        sinks["corpus: " + name] = everything_in(path)
        if not name.endswith((".h5", ".html")):
            may.append("corpus: " + name)
    if not any(name.startswith("logs/") for name in found) or not any(re.fullmatch(r"corpus.*\.h5", name) for name in found):
        t.bad("the corpus has no logs or no result: %s: %s", sorted(found), ran.err[-300:])
    return may


def corpus_parts(out):
    return {os.path.relpath(os.path.join(folder, name), out): os.path.join(folder, name)
            for folder, _, names in os.walk(out) for name in names}


def collect(sinks, name, ran):
    sinks[name + ", stdout"], sinks[name + ", stderr"] = ran.out.encode(), ran.err.encode()


SWEEPS = {"privacy": sweep_privacy}
