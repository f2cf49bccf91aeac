#!/usr/bin/env python3
"""Stores in other programs: OME-Zarr, DICOM, the interface of OpenSlide, TFRecord, WebDataset, Parquet.

The readers run in an environment of their own, BRIDGES or build/bridges, that .ci/run makes."""
import functools
import io
import pickle
import struct
import tarfile

import h5py
import numpy as np

from lib import *

sys.path.insert(0, os.path.join(ROOT, "scripts"))
sys.path.append(os.path.join(ROOT, "build", "python"))  # optional packages
os.environ.setdefault("HDF5_PLUGIN_PATH", BUILD)
sys.dont_write_bytecode = True
from wsi_store import StoreError, open_store

PYTHON = os.environ.get("BRIDGES") or os.path.join(ROOT, "build", "bridges", "bin", "python")
COMMAND = os.path.join(ROOT, "scripts", "wsi-store")
YCBCR = ("--photometric", "ycbcr", "--subsampling", "420")
ABSENT = 2 ** 64 - 1


def slide(*kind, **how):
    return made("--size", "1500x1100", "--tissue", "rect:200,100,800,700", *kind, **how)


@functools.lru_cache(None)
def lacking(modules):
    """The first of these modules that the environment does not have."""
    code = "import sys\nfor m in sys.argv[1:]: print(m, flush=True); __import__(m)"
    p = run(PYTHON, "-c", code, *modules, status=None)
    return p.out.split()[-1] if p.returncode else ""


def python(*modules):
    """The interpreter of the environment, which has these modules."""
    if not os.path.exists(PYTHON):
        raise Skip("needs %s" % PYTHON)
    if lacking(modules):
        raise Skip("needs the Python package %s in %s" % (lacking(modules), PYTHON))
    return PYTHON


def bridge(name, *rows):
    """Each row has the paths of one comparison."""
    run(PYTHON, os.path.join(ROOT, "tests", "bridges.py"), name, *(word for row in rows for word in ("--", *row)))


def command(*words, status=0):
    return run(python(), COMMAND, *words, status=status)


def own(path, name="a.h5"):
    """A copy that a test may change."""
    return copied(path, name)


# --- Zarr ---

def zarr_of(path, *options):
    return zarrs_of([path], *options)[0][1]


def zarrs_of(paths, *options):
    """Rows of a store and its image, made by one command."""
    command("zarr", *options, *paths)
    return [(path, path[:-len(".h5")] + ".ome.zarr") for path in paths]


def test_the_same_file_is_a_store_and_a_shard():
    python("zarr", "google_crc32c", "PIL", "zstandard")
    for k, codec in enumerate(("none", "zstd")):
        before = store(slide(), "--codec", codec, "--stripe-rows", "240", "--group-bytes", "1")
        path = own(before, codec + ".h5")
        os.utime(path, ns=(10 ** 18, 10 ** 18 + 5))
        image = zarr_of(path)
        data = bytes_in(path)
        expect(data[:os.path.getsize(before)] == bytes_in(before), "%s: the store changed", codec)
        with open_store(path) as s:
            tiles = s.tile_status.size
            expect(len(data) == os.path.getsize(before) + 16 * tiles + 4, "%s: 16 bytes per tile, and a checksum", codec)
        expect(os.stat(path).st_mtime_ns == 10 ** 18 + 5, "the time of the store stays")
        expect(os.path.samefile(path, os.path.join(image, "0/c/0/0/0")), "level 0 is a link")
        run(H5SPEC, "verify", path)
        bridge("zarr_python", (path, image))
        says(command("zarr", path).err, "exists (up to date)")
        expect(bytes_in(path) == data, "a second run changes nothing")


def test_tensorstore_reads_it():
    python("tensorstore")
    bridge("tensorstore", *zarrs_of([own(store(slide(), "--codec", codec), codec + ".h5") for codec in ("none", "zstd")]))


def test_kept_and_packed_chunks_through_imagecodecs():
    python("zarr", "imagecodecs.zarr")
    rows = (("rgb", (), "keep", 0), ("ycbcr", YCBCR, "keep", 0), ("j2k", ("--compression", "33005"), "keep", 0),
            ("sycc", ("--compression", "33003"), "keep", 1), ("z", (), "deflate", 0), ("lz4", ("--tissue", "none"), "lz4", 0),
            ("gray", ("--container", "generic", "--photometric", "gray"), "keep", 0))
    images = zarrs_of([own(store(slide(*kind), "--codec", codec), name + ".h5") for name, kind, codec, _ in rows])
    bridge("zarr_python", *((*image, str(most)) for image, (_, _, _, most) in zip(images, rows)))


def test_metadata_of_the_image():
    python("ome_zarr_models", "zarr")
    bridge("ome_zarr_models", *zarrs_of([own(store(slide(*kind), "--codec", "none"), "m%d.h5" % len(kind)) for kind in ((), ("--mpp", "none"))]))


def test_chunks_that_were_left_out_are_absent():
    path = own(store(slide(), "--codec", "none", "--tissue-only"))
    bridge("zarr_python", (path, zarr_of(path)))
    with open_store(path) as s:
        index = np.frombuffer(bytes_in(path)[-16 * s.tile_status.size - 4:-4], "<u8").reshape(-1, 2)
        left_out = (s.tile_status == 3).ravel()
        expect(left_out.any() and (index[left_out] == ABSENT).all() and (index[~left_out] != ABSENT).all(), "%s", index)


def test_an_image_of_another_store_is_replaced():
    a, b = own(store(slide(), "--codec", "none"), "a.h5"), own(store(slide(*YCBCR), "--codec", "none"), "b.h5")
    image = zarr_of(a)
    shutil.copy(b, a + ".new")
    os.rename(a + ".new", a)
    expect(os.path.samefile(zarr_of(a), image), "replaced: it was of the store that a was before")
    bridge("zarr_python", (a, image))
    os.unlink(os.path.join(image, "zarr.json"))
    says(command("zarr", a, status=1).err, "is no image of a store", "--force")
    expect(os.path.exists(os.path.join(image, "0")), "kept")
    zarr_of(a, "--force")
    bridge("zarr_python", (a, image))
    expect(not [n for n in os.listdir(os.path.dirname(a)) if n.endswith(".part")], "nothing unfinished")


def test_a_copy_instead_of_a_link():
    path = own(store(slide(), "--codec", "none"))
    shard = os.path.join(zarr_of(path, "--copy"), "0/c/0/0/0")
    expect(os.stat(shard).st_ino != os.stat(path).st_ino and bytes_in(shard) == bytes_in(path), "a copy")


def test_an_index_that_was_cut_is_written_again():
    path = own(store(slide(), "--codec", "none"))
    image = zarr_of(path)
    size = os.path.getsize(path)
    os.truncate(path, size - 100)
    shutil.rmtree(image)
    bridge("zarr_python", (path, zarr_of(path)))
    expect(os.path.getsize(path) == size, "the same index")


def test_chunks_that_zarr_cannot_mix():
    path = own(store(made("--size", "200x200", "--tile", "8", "--quality", "100", name="grainy")))
    before = bytes_in(path)
    says(command("zarr", path, status=1).err, "stored without compression", "--codec none")
    expect(bytes_in(path) == before and not os.path.exists(path[:-3] + ".ome.zarr"), "nothing written")


def test_references_of_zarr_2():
    python("zarr", "fsspec")
    path = store(slide(), "--codec", "deflate", "--tissue-only")
    file = os.path.join(tmp(), "r.json")
    with open(file, "w") as f:
        f.write(run(PYTHON, COMMAND, "index", path).out)
    bridge("references", (path, file))


# --- DICOM ---

def dicom_of(path, *options):
    out = os.path.join(tmp(), "dicom")
    shutil.rmtree(out, ignore_errors=True)
    command("dicom", "-o", out, *options, path)
    return os.path.join(out, os.path.splitext(os.path.basename(path))[0] + ".dcm")


def without_errors(path, sparse=False):
    """By dciodvfy, which expects a frame of each tile, although TILED_SPARSE says that there may be fewer."""
    if shutil.which("dciodvfy"):
        p = run("dciodvfy", path, status=None)
        wrong = [line for line in (p.out + p.err).splitlines() if line.startswith("Error")
                 and not (sparse and "NumberOfFrames does not match" in line)]
        expect(not wrong, "%s: %s", path, wrong)


def test_tiles_become_frames():
    python("pydicom", "openslide", "PIL")
    rows = []
    for kind in ((), YCBCR, ("--photometric", "ycbcr", "--subsampling", "444"), ("--compression", "33005")):
        path, back = store(slide(*kind), "--codec", "keep"), os.path.join(tmp(), "back.h5")
        dicom = dicom_of(path)
        without_errors(dicom)
        without_errors(dicom[:-4] + ".thumbnail.dcm")
        run(WSI2H5, "--force", "-o", back, dicom)
        expect((pixels(back) == pixels(path)).all(), "%s: wsi2h5 reads other pixels", kind)
        rows.append((path, dicom))
    bridge("dicom_openslide", *rows)
    bridge("dicom_pydicom", *rows[:-1])  # pydicom needs a plug-in for JPEG 2000


def test_wsidicom_reads_it():
    python("wsidicom", "pydicom")
    path = store(slide(*YCBCR), "--codec", "keep")
    bridge("dicom_wsidicom", (path, os.path.dirname(dicom_of(path))))


def test_tiles_without_pixels_have_no_frame():
    python("pydicom")
    path = store(slide(), "--codec", "keep", "--tissue-only")
    dicom = dicom_of(path)
    without_errors(dicom, sparse=True)
    bridge("dicom_pydicom", (path, dicom))
    bridge("dicom_places", (path, dicom))
    text = run(PYTHON, "-c", "import pydicom, sys; d = pydicom.dcmread(sys.argv[1]); "
               "print(d.DimensionOrganizationType, d.ImageComments)", dicom).out
    says(text, "TILED_SPARSE", "left out as background")


def test_a_second_run_gives_the_same_and_another_key_other_uids():
    path = store(slide(), "--codec", "keep")
    first = bytes_in(dicom_of(path))
    expect(bytes_in(dicom_of(path)) == first, "the same bytes")
    expect(bytes_in(dicom_of(path, "--key", file_of("key", "secret"))) != first, "the key changes the UIDs")


def test_who_may_name_the_patient():
    python("pydicom")
    path = own(store(slide(), "--codec", "keep"), "case.h5")
    table = file_of("meta.csv", "slide,patient_id,study_uid\ncase,P-7,1.2.3\n")
    text = run(PYTHON, "-c", "import pydicom, sys; d = pydicom.dcmread(sys.argv[1]); print(d.PatientID, d.StudyInstanceUID, "
               "'PatientIdentityRemoved' in d)", dicom_of(path, "--meta", table)).out
    says(text, "P-7 1.2.3 False")
    says(command("dicom", "-o", tmp(), "--meta", file_of("bad.csv", "slide,name\n"), path, status=1).err, "patient_id")


def read_back(dicom):
    out = os.path.join(tmp(), "back.h5")
    return json_lines(run(WSI2H5, "--force", "--json", "-o", out, dicom).out)[0]


def test_um_per_px_are_those_of_the_store_or_stated_by_the_user():
    """What is unknown never comes back as a number: slides are grouped by it."""
    python("pydicom")
    unknown, known = (store(slide("--mpp", mpp), "--codec", "keep") for mpp in ("none", "0.37"))
    out = os.path.join(tmp(), "unknown")
    says(command("dicom", "-o", out, unknown, status=1).err, unknown, "its um per px are unknown, and DICOM must state them; give --mpp VALUE")
    expect(not os.path.exists(out) or os.listdir(out) == [], "written all the same")
    for value in ("0", "-1", "0.001", "51", "nan", "inf"):
        says(command("dicom", "-o", out, "--mpp", value, unknown, status=1).err, "um per px must be from 0.02 to 50")
    for path, options, want in ((unknown, ("--mpp", "0.61"), 0.61), (known, (), 0.37), (known, ("--mpp", "0.61"), 0.37)):
        dicom = dicom_of(path, *options)
        without_errors(dicom)
        without_errors(dicom[:-4] + ".thumbnail.dcm")
        j = read_back(dicom)
        expect(abs(j["mpp_x"] - want) < 1e-9 and abs(j["mpp_y"] - want) < 1e-9, "%s: %s, %s", options, j["mpp_x"], j["mpp_y"])
    coarse = store(slide("--levels", "2"), "--codec", "keep", "--level", "1")
    with open_store(coarse) as s:
        j = read_back(dicom_of(coarse))
        expect(abs(j["mpp_x"] - s.mpp[0]) < 1e-6 and abs(j["mpp_y"] - s.mpp[1]) < 1e-6, "%s, not %s", j, s.mpp)


def test_what_the_slide_does_not_state_is_not_made_up():
    python("pydicom")
    dark = store(slide("--stain", "fluorescence", name="dark"), "--codec", "keep")
    out = os.path.join(tmp(), "dark")
    says(command("dicom", "-o", out, dark, status=1).err, "how it was lit is unknown (the slide has no bright background", "--brightfield")
    expect(not os.path.exists(out) or os.listdir(out) == [], "written all the same")
    dicom = dicom_of(dark, "--brightfield")
    without_errors(dicom)
    text = run(PYTHON, "-c", "import pydicom, sys; d = pydicom.dcmread(sys.argv[1]); print(d.Manufacturer, d.ManufacturerModelName, d.DeviceSerialNumber, "
               "d.OpticalPathSequence[0].IlluminationTypeCodeSequence[0].CodeMeaning)", dicom).out
    says(text, "aperio unknown unknown Brightfield illumination")


def test_stores_that_hold_no_tiles_of_the_slide():
    for kind, codec, words in (((), "deflate", ["codec deflate", "--codec keep"]),
                               (("--compression", "33003"), "keep", ["YCbCr", "no DICOM is written"])):
        out = os.path.join(tmp(), "none-%s" % codec)
        says(command("dicom", "-o", out, store(slide(*kind), "--codec", codec), status=1).err, *words)
        expect(not os.path.exists(out) or os.listdir(out) == [], "nothing written")


# --- OpenSlide's interface ---

def opened(path):
    has("PIL")
    from wsi_store import Slide
    return Slide(path)


def test_levels_and_properties():
    with opened(store(slide(), "--codec", "keep")) as s:
        expect(s.level_count == 3 and s.level_dimensions == ((1500, 1100), (750, 550), (375, 275)), "%s", s.level_dimensions)
        expect(s.level_downsamples == (1.0, 2.0, 4.0) and s.dimensions == (1500, 1100), "%s", s.level_downsamples)
        expect([s.get_best_level_for_downsample(d) for d in (0.5, 1, 1.9, 2, 3.9, 4, 99)] == [0, 0, 0, 1, 1, 2, 2], "best level")
        p = s.properties
        expect(p["openslide.mpp-x"] == "0.499" and p["openslide.vendor"] == "aperio", "%s", p)
        expect(p["openslide.level-count"] == "3" and p["openslide.level[1].width"] == "750", "%s", p)
        expect(all(isinstance(v, str) for v in p.values()) and "openslide.quickhash-1" in p, "%s", p)


def test_names_of_openslide():
    """A program that imports openslide gets stores: sys.modules["openslide"] = wsi_store."""
    path = store(slide(), "--codec", "keep")
    code = ("import sys, wsi_store; sys.modules['openslide'] = wsi_store\n"
            "from openslide import OpenSlide, OpenSlideError, OpenSlideUnsupportedFormatError, open_slide\n"
            "with open_slide(sys.argv[1]) as s: print(isinstance(s, OpenSlide), s.level_count); s.set_cache(object())\n"
            "try: OpenSlide(__file__ + 'x')\n"
            "except OpenSlideUnsupportedFormatError as e: print('no slide')\n"
            "try: s.read_region((0, 0), 0, (9, 9))\n"
            "except OpenSlideError as e: print('closed')\n"
            "try: s.set_cache(3)\n"
            "except TypeError: print('no cache')")
    file = file_of("program.py", code)
    env = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "scripts"))
    has("PIL")
    expect(run(sys.executable, file, path, env=env).out.split("\n")[:-1] == ["True 3", "no slide", "closed", "no cache"], "the names")


def test_regions():
    path = store(slide(), "--codec", "keep")
    with opened(path) as s:
        want = pixels(path)
        got = np.asarray(s.read_region((-10, 1000), 0, (200, 200)))
        expect(got.shape == (200, 200, 4) and (got[:100, 10:, :3] == want[1000:, :190]).all(), "pixels")
        gray = store(slide("--container", "generic", "--photometric", "gray"), "--codec", "keep")
        with opened(gray) as g:
            expect((np.asarray(g.read_region((5, 5), 0, (90, 80)))[:, :, :3] == pixels(gray)[5:85, 5:95]).all(), "gray")
        expect((got[:100, 10:, 3] == 255).all() and (got[100:] == 0).all() and (got[:, :10] == 0).all(), "transparent outside")
        expect(s.read_region((0, 0), 9, (7, 5)).size == (7, 5), "a level that is not there")
        expect(s.read_region((0, 0), 1, (7, 0)).size == (7, 0), "no rows")
        try:
            s.read_region((0, 0), 0, (7, -5))
            expect(False, "a negative size")
        except StoreError as e:
            says(str(e), "negative")


def levels_of(path):
    from wsi_store import halved
    with opened(path) as s:
        want = pixels(path)
        for level in range(1, s.level_count):
            want = halved(want)
            yield level, np.asarray(s.read_region((0, 0), level, s.level_dimensions[level]))[:, :, :3].astype(int), want


def test_levels_are_means():
    for kind, codec, most in (((), "deflate", 0), ((), "keep", 2), (YCBCR, "keep", 3)):
        for level, got, want in levels_of(store(slide(*kind), "--codec", codec)):
            expect(got.shape == want.shape and np.abs(got - want).mean() <= most / 2, "%s %s: %s", kind, level, np.abs(got - want).mean())
            expect(most > 0 or (got == want).all(), "level %d", level)


def test_levels_of_jpeg_2000_are_means():
    """Its resolutions were taken, which are shifted by 0.5, 1.5 and 3.5 px of level 0."""
    for level, got, want in levels_of(store(slide("--compression", "33005"), "--codec", "keep")):
        expect(got.shape == want.shape and (got == want).all(), "level %d: %s", level, np.abs(got - want).mean())


def test_levels_of_jpeg_2000_do_not_depend_on_the_image_beside_the_store():
    path = own(store(slide("--compression", "33005"), "--codec", "keep"))
    zarr_of(path)
    for level, got, want in levels_of(path):
        expect(got.shape == want.shape and np.abs(got - want).mean() < 2, "level %d: %s", level, np.abs(got - want).mean())  # made levels can be JPEG


def test_levels_that_were_made_are_used():
    path = own(store(slide(), "--codec", "zstd"))
    has("zstandard")
    zarr_of(path)
    shard = os.path.join(path[:-3] + ".ome.zarr", "1", "c", "0", "0", "0")
    with open(shard, "r+b") as f:
        f.write(b"\0" * 1000)
    with opened(path) as s:
        try:
            s.read_region((0, 0), 1, (10, 10))
            expect(False, "a damaged chunk of a made level")
        except StoreError as e:
            says(str(e), "level 1", "cannot be unpacked")
        s.read_region((0, 0), 0, (10, 10))


def test_nothing_beyond_the_slide_is_used():
    """A level's last column is the mean of what the slide has, whatever the tile holds beyond."""
    path = store(made("--size", "701x501", "--tile", "240", name="odd"), "--codec", "keep")
    from wsi_store import halved
    with opened(path) as s:
        got = np.asarray(s.read_region((0, 0), 1, s.level_dimensions[1]))[:, :, :3]
        expect((got[:, -1] == halved(pixels(path))[:, -1]).all(), "the last column")


def test_thumbnails():
    with opened(store(slide(), "--codec", "keep")) as s:
        for size, want in (((100, 100), (100, 73)), ((4000, 4000), (1500, 1100)), ((700, 100), (136, 100))):
            got = s.get_thumbnail(size)
            expect(got.mode == "RGB" and max(abs(a - b) for a, b in zip(got.size, want)) <= 1, "%s: %s", size, got.size)
        expect(list(s.associated_images) == ["thumbnail"] and s.associated_images["thumbnail"].mode == "RGBA", "associated")


def test_what_is_no_store():
    from wsi_store import Slide
    text = file_of("text.h5", "no store at all")
    expect(Slide.detect_format(text) is None and Slide.detect_format(text + "x") is None, "no format")
    expect(Slide.detect_format(store(slide())) == "aperio", "the slide's")
    try:
        Slide(text)
        expect(False, "no error")
    except StoreError as e:
        says(str(e), text, "not a store")


def test_closed_and_pickled():
    path = store(slide(), "--codec", "keep")
    s = opened(path)
    with pickle.loads(pickle.dumps(s)) as other:
        expect((np.asarray(other.read_region((5, 5), 0, (50, 50))) == np.asarray(s.read_region((5, 5), 0, (50, 50)))).all(), "pixels")
    s.close()
    try:
        s.read_region((0, 0), 0, (10, 10))
        expect(False, "it was closed")
    except StoreError as e:
        says(str(e), "closed")


def test_a_program_for_openslide_reads_a_store():
    python("openslide")
    for name in ("CMU-1-Small-Region.svs",):
        path = real(name)
        bridge("deepzoom", (path, store(path, "--codec", "keep")))


def test_what_is_no_pixel_needs_no_codec():
    """A store opens without the library of its codec, and the error comes with the first pixel."""
    code = ("import sys; sys.modules['imagecodecs'] = None; sys.path.insert(0, sys.argv[1])\n"
            "import h5py, wsi_store; wsi_store.codecs.plugin_paths = lambda *name: []\n"
            "h5py.h5z.filter_avail = lambda number: False\n"
            "s = wsi_store.open_store(sys.argv[2]); print(len(s.properties), s.tissue.sum(), len(s.places(200)))\n"
            "try: s.read_region(0, 0, 5, 5)\n"
            "except wsi_store.StoreError as e: print(e)")
    path = store(slide("--compression", "33005"), "--codec", "keep")
    env = dict(os.environ, HDF5_PLUGIN_PATH=tmp())
    says(run(sys.executable, "-c", code, os.path.join(ROOT, "scripts"), path, env=env).out, "nothing here unpacks codec j2k", "imagecodecs")


# --- patches and windows ---

def examples(path):
    """The features of each record of a TFRecord file: name, value."""
    data, at = bytes_in(path), 0

    def varint(b, k):
        n = shift = 0
        while True:
            n |= (b[k] & 127) << shift
            shift, k = shift + 7, k + 1
            if b[k - 1] < 128:
                return n, k

    def fields(b):
        k = 0
        while k < len(b):
            key, k = varint(b, k)
            expect(key & 7 == 2, "a field with a length")
            n, k = varint(b, k)
            yield key >> 3, b[k:k + n]
            k += n
    while at < len(data):
        n = struct.unpack_from("<Q", data, at)[0]
        record = data[at + 12:at + 12 + n]
        at += n + 16
        out = {}
        for _, entry in fields(next(v for _, v in fields(record))):
            parts = dict(fields(entry))
            number, value = next(fields(parts[2]))
            inner = next(v for _, v in fields(value))
            out[parts[1].decode()] = inner if number == 1 else varint(inner, 0)[0]
        yield out


def test_patches_that_are_tiles_keep_their_jpeg():
    has("PIL")
    python("google_crc32c")
    path = store(slide(), "--codec", "keep")
    out = os.path.join(tmp(), "tf")
    says(command("patches", path, "-o", out, "--size", "240", "--format", "tfrecord").err, "24 patches, 24 of them tiles of the slide")
    file, = os.listdir(out)
    got = list(examples(os.path.join(out, file)))
    with open_store(path) as s:
        at = s.places(240)
        expect(len(got) == len(at), "%d", len(got))
        for e, (x, y) in zip(got, at.tolist()):
            expect(e["image_raw"] == s.chunk_bytes(y // 240, x // 240)[0], "the tile's own bytes")
            expect((e["loc_x"], e["loc_y"]) == (x + 120, y + 120), "%s", e)


def test_webdataset():
    has("PIL")
    import PIL.Image
    path = store(slide(), "--codec", "keep")
    for size, most in ((240, 0), (200, 12)):
        out = os.path.join(tmp(), "wds%d" % size)
        command("patches", path, "-o", out, "--size", str(size), "--limit", "9", "--format", "webdataset")
        file, = os.listdir(out)
        with tarfile.open(os.path.join(out, file)) as tar, open_store(path) as s:
            names = tar.getnames()
            expect(len(names) == 18 and len(set(n[:-4] if n.endswith(".jpg") else n[:-5] for n in names)) == 9, "%s", names)
            for name in names[1::2]:
                j = json.load(tar.extractfile(name))
                got = np.asarray(PIL.Image.open(io.BytesIO(tar.extractfile(name[:-5] + ".jpg").read()))).astype(int)
                want = s.read_region(j["x"], j["y"], size, size)
                expect(got.shape == want.shape and np.abs(got - want).mean() <= most, "%s: %s", name, np.abs(got - want).mean())


def test_windows_as_parquet():
    python("pyarrow", "h5py")
    results = os.path.join(tmp(), "results")
    stores = [own(store(slide()), "a.h5"), own(store(slide(*YCBCR)), "b.h5")]
    run(H5SPEC, "run", "--device", "cpu", "-o", results + "/", *stores)
    a, b = (os.path.join(results, n) for n in ("a.h5", "b.h5"))
    merged, out = os.path.join(tmp(), "m.h5"), os.path.join(tmp(), "w.parquet")
    run(H5SPEC, "merge", "-o", merged, a, b)
    run(TABLES, "merge", "-o", os.path.join(results, "t.h5"), a, b)
    for given in ([a, b], [merged], [os.path.join(results, "t.h5")]):
        says(command("windows", "-o", out, *given).err, "windows")
        bridge("parquet", (out, merged))
    says(command("windows", "-o", out, store(slide()), status=1).err, "not a finished result")


if __name__ == "__main__":
    main(globals())
