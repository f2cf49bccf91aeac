"""Codec j2k, kept JPEG 2000 tiles: the pixels of codec none in every reader, damage, hostile chunks."""
import functools
import shlex

import h5py
import numpy as np

from lib import *

sys.path.insert(0, os.path.join(ROOT, "scripts"))
from wsi_store import open_store  # noqa: E402, with which h5py finds the plug-in

STUB = os.path.join(BUILD, "tests", "h5spec_stub")
SIZE = ("--size", "900x700", "--levels", "2")
KINDS = {
    "33003, 4:2:2": ("--compression", "33003"), "33003, 4:4:4": ("--compression", "33003", "--subsampling", "444"),
    "33003, 4:2:0": ("--compression", "33003", "--subsampling", "420"), "33005": ("--compression", "33005"),
    "lossless": ("--compression", "33005", "--quality", "100"), "odd tiles": ("--compression", "33003", "--tile", "100x52"),
    "generic": ("--compression", "34712", "--container", "generic"), "one level": ("--compression", "33005", "--levels", "1"),
}


def slide(*options, name="slide"):
    return made(*SIZE, *options, name=name)


convert = functools.partial(convert, default_codec=True)


def datasets(path):
    """What does not depend on the codec."""
    with h5py.File(path, "r") as f:
        return f["pixels"][()], f["tissue/mask"][()], [g["tile_status"][()].tolist() for g in f["groups"].values()]


def same(kept, plain, what):
    for a, b, name in zip(datasets(kept), datasets(plain), ("pixels", "tissue", "status")):
        expect(np.array_equal(a, b), "%s: %s differ", what, name)


@later("ci")
def test_every_kind_has_the_pixels_of_codec_none():
    for name, options in KINDS.items():
        for more in ((), ("--tissue-only",), ("--level", "1")):
            if more == ("--level", "1") and "1" in options:
                continue
            path = slide(*options)
            kept, _, j = convert(path, *more)
            expect(j["codec"] == "j2k" and "codec_reason" not in j, "%s: %s", name, j)
            plain, _, _ = convert(path, *more, "--codec", "none")
            same(kept, plain, name)
            run(H5SPEC, "verify", kept)


def test_every_reader_has_one_result():
    for name in ("33003, 4:2:2", "33005"):
        path = slide(*KINDS[name])
        kept, plain = (store(path, "--codec", c, "--stripe-rows", "240", "--group-bytes", "700K") for c in ("j2k", "none"))
        whole = content(spectrum(plain))
        equal(content(spectrum(kept)), whole, name)
        parts = [spectrum(kept, "--groups", g) for g in ("1-1", "2-3")]
        merged = os.path.join(tmp(), "merged.h5")
        run(H5SPEC, "merge", "-q", "-o", merged, *parts)
        equal(content(merged), whole, name + ", merged")
        with open_store(kept) as s:
            expect(np.array_equal(s.read_region(0, 0, s.width, s.height), pixels(plain)), "%s: wsi_store", name)


def test_a_device_leaves_the_tiles_to_the_host():
    if not os.path.exists(STUB):
        raise Skip("needs the CUDA backend over the stub")
    results = []
    for codec in ("j2k", "none"):
        out = os.path.join(tmp(), "result.h5")
        run(STUB, "run", "-q", "--device", "cuda", "-o", out, store(slide(*KINDS["33003, 4:2:2"]), "--codec", codec))
        results.append(content(out))
    equal(*results, "over the stub")


# --- which codec ---

def test_each_slide_gets_the_codec_of_its_tiles():
    j2k, jpeg = slide("--compression", "33005"), slide()
    cases = [(j2k, "jpeg", (), "its tiles are JPEG 2000"), (jpeg, "j2k", (), "its tiles are JPEG"),
             (j2k, "j2k", ("--gray",), "--gray needs other pixels"), (j2k, "keep", ("--gray",), "--gray needs other pixels")]
    for path, codec, more, why in cases:
        _, p, j = convert(path, "--codec", codec, *more)
        expect(j["codec"] == "deflate" and why in j["codec_reason"], "%s", j)
        says(p.err, "stored with codec deflate, not ", why)
        says(convert(path, "--codec", codec, *more, "--strict-codec", status=1)[1].err, why, "--strict-codec")
    for codec in ("keep", "j2k"):
        expect(convert(j2k, "--codec", codec, "--strict-codec")[2]["codec"] == "j2k", codec)
    out, _, _ = convert(j2k)
    for codec in ("keep", "j2k"):
        expect(convert(j2k, "--codec", codec, out=out)[2]["status"] == "skipped", codec)
    says(convert(j2k, "--codec", "none", out=out, status=1)[1].err, "made with --codec j2k", "--force")


def test_comments_are_left_out():
    path = slide("--compression", "33005", "--no-thumbnail")
    expect(b"mkslide" in bytes_in(path), "nothing to find")
    expect(b"mkslide" not in bytes_in(convert(path)[0]), "the comment is in the store")


# --- damage ---

@later("ci")
def test_damaged_tiles():
    for options in (("--compression", "33003"), ("--compression", "33005", "--levels", "1")):
        for option, rest in (("--truncate", ":600"), ("--garbage", ""), ("--foreign", ""), ("--outside", ""), ("--missing", "")):
            path = slide(*options, option, "1,2" + rest, name="damaged")
            damaged = int(option != "--missing")
            status = 4 * damaged
            kept, _, j = convert(path, status=status)
            expect((j["codec"], j["tiles_missing"], j["tiles_damaged"]) == ("j2k", 1 - damaged, damaged), "%s: %s", option, j)
            same(kept, convert(path, "--codec", "none", status=status)[0], option)
            run(H5SPEC, "verify", kept)


def changed_chunk(path, change):
    """A store whose first chunk is another, under a right checksum."""
    out = copied(path, "changed.h5")
    with h5py.File(out, "r+", libver=("v110", "v110")) as f:
        g = f["groups/00001"]
        mask, data = g["pixels"].id.read_direct_chunk((0, 0, 0))
        data = change(bytearray(data))
        g["pixels"].id.write_direct_chunk((0, 0, 0), bytes(data), mask)
        crc = g["tile_crc32"][()]
        crc[0, 0] = zlib.crc32(data)
        g["tile_crc32"][...] = crc
        reseal(f)
    return out


def put(at, *values):
    def change(data):
        data[at:at + len(values)] = bytes(values)
        return data
    return change


def test_hostile_chunks():
    path = store(slide("--compression", "33003", name="hostile"), "--codec", "j2k")
    changes = {"a signature": put(4, 0), "a width": put(54, 1), "colours": put(76, 17), "a length": put(77, 1), "SOC": put(85, 0),
               "SIZ": put(93, 0x7f), "no inner tiles": put(109, 0, 0, 0, 0), "no codestream": lambda d: d[:85], "cut": lambda d: d[:300],
               "garbage": lambda d: d[:200] + bytes(k * 7 % 256 for k in range(len(d) - 200))}
    for name, change in changes.items():
        bad = changed_chunk(path, change)
        p = run(H5SPEC, "run", "-q", "--device", "cpu", "-o", os.path.join(tmp(), "r.h5"), bad, status=None)
        expect(p.returncode == 1, "%s: status %d", name, p.returncode)
        says(p.err, "chunk", "changed.h5")
        with h5py.File(bad, "r") as f:
            try:
                f["pixels"][:10, :10]
            except OSError:
                continue
        expect(False, "%s: h5py reads it", name)


def test_h5dump_and_the_line_that_it_needs():
    path = slide("--compression", "33005")
    out, p, _ = convert(path)
    raw = os.path.join(tmp(), "raw")
    run("h5dump", "-d", "/pixels", "-b", "LE", "-o", raw, out, env=dict(os.environ, HDF5_PLUGIN_PATH=BUILD))
    expect(bytes_in(raw) == pixels(out).tobytes(), "h5dump: pixels")
    p = run(WSI2H5, "--force", "-o", out, path, default_codec=True, env=dict(os.environ, HDF5_PLUGIN_PATH=tmp("empty")))
    says(p.err, "other programs need the plug-in: HDF5_PLUGIN_PATH=%s h5dump" % shlex.quote(os.path.realpath(BUILD)))


@later("all")
def test_a_lack_of_memory_is_no_damage():
    """OpenJPEG does not always say that it finds no memory."""
    slide, out = made("--container", "generic", "--size", "200x200", "--tile", "256", "--compression", "34712"), os.path.join(tmp(), "s.h5")
    argv = [WSI2H5, "-q", "-j", "1", "--codec", "none", "-o", out, slide]
    for ran, place in failing_allocations(argv, out, most=1000):
        expect(ran.status != 4, "%s: %s", place, ran.err)


if __name__ == "__main__":
    main(globals())
