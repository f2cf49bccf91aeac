"""Codec jpeg: the slide's own tiles in the store, with the pixels of libjpeg-turbo for every reader."""
import random
import struct

import h5py
import numpy as np

from lib import *
from tiffpatch import TILE_BYTES, TILE_OFFSETS, Tiff

sys.path.insert(0, os.path.join(ROOT, "scripts"))
import wsi_store  # noqa: E402

UPSTREAM = os.path.join(BUILD, "tests", "upstream")
JPEG = ("--codec", "jpeg")

# name: options of mkslide. 1000 x 700 px in tiles of 240: partial tiles at both edges
KINDS = {
    "rgb": (), "rgb_complete": ("--complete-tiles",), "rgb_restart": ("--restart", "7"),
    "444": ("--photometric", "ycbcr", "--subsampling", "444"),
    "422": ("--photometric", "ycbcr", "--subsampling", "422"),
    "420": ("--photometric", "ycbcr", "--subsampling", "420"),
    "420_complete_restart": ("--photometric", "ycbcr", "--complete-tiles", "--restart", "4"),
    "422_bigtiff": ("--photometric", "ycbcr", "--subsampling", "422", "--bigtiff", "--restart", "15"),
    "best": ("--quality", "100"), "worst": ("--quality", "1"), "odd_tiles": ("--tile", "100x52"),
    "shuffled": ("--shuffle-tiles", "--photometric", "ycbcr", "--tile", "256"),
    "big_endian": ("--big-endian", "--complete-tiles"), "comments": ("--comments", "--restart", "9"),
    "512": ("--tile", "512", "--photometric", "ycbcr"),
    "own": ("--photometric", "ycbcr", "--own-tables"), "own_rgb": ("--own-tables", "--restart", "7", "--tile", "100x52"),
    "strips": ("--tile", "1904x16", "--photometric", "ycbcr"), "own_422": ("--photometric", "ycbcr", "--subsampling", "422", "--own-tables", "--tile", "1104x48"),
    "wide": ("--tile", "1984x64", "--photometric", "ycbcr", "--subsampling", "444", "--restart", "248"),
}


def kind(name):
    return made("--size", "1000x700", *KINDS[name], name=name)


def attributes(path):
    return {k: v for k, v in attributes_of(path).items() if k != "attribute_crc32"}


def chunks_of(path):
    """For each chunk in order: (group, row, column), status, filter mask, stored bytes, CRC."""
    with h5py.File(path, "r") as f:
        for g in sorted(f["groups"]):
            px, status, crc = (f["groups"][g][n] for n in ("pixels", "tile_status", "tile_crc32"))
            for r, k in np.ndindex(status.shape):
                mask, data = (0, b"") if status[r, k] == 3 else px.id.read_direct_chunk(
                    (r * px.chunks[0], k * px.chunks[1], 0))
                yield (g, r, k), status[r, k], mask, data, crc[r, k]


def statuses(path):
    return [status for _, status, _, _, _ in chunks_of(path)]


def tiles_of(slide):
    """The tiles of level 0, decoded by libjpeg-turbo without any of our code: [n][rows][cols][3]."""
    cols, rows = (int(attributes(store(slide, *JPEG))[k]) for k in ("chunk_cols", "chunk_rows"))
    p = subprocess.run([os.path.join(BUILD, "tests", "jpeg_tiles"), slide], stdout=subprocess.PIPE, check=True)
    return np.frombuffer(p.stdout, np.uint8).reshape(-1, rows, cols, 3)


def through_all(plugins, paths, dataset="pixels"):
    """A dataset of each store as h5py gives it in a process that knows this folder of plug-ins."""
    out = tmp()
    code = ("import h5py, numpy, sys\nfor k, path in enumerate(sys.argv[3:]):\n"
            "    numpy.save('%s/%d' % (sys.argv[1], k), h5py.File(path, 'r')[sys.argv[2]][()])")
    run(sys.executable, "-c", code, out, dataset, *paths, env={**os.environ, "HDF5_PLUGIN_PATH": plugins})
    return [np.load("%s/%d.npy" % (out, k)) for k in range(len(paths))]


def through(plugins, path):
    return through_all(plugins, [path])[0]


def plugin():
    if SAN:
        raise Skip("the plug-in is loaded into programs without sanitizers")
    return BUILD


def check_kinds(*slides):
    stores = [store(slide, *JPEG) for slide in slides]
    for row in zip(slides, stores, through_all(plugin(), stores), through_all(UPSTREAM, stores)):
        try:
            check_kind(*row)
        except Failed as e:
            raise Failed("%s: %s" % (row[0], e))


def check_kind(slide, s, mine, theirs):
    a = attributes(s)
    expect(a["format_version"] == 1 and a["codec"] == "jpeg" and "codec_reason" not in a, "%s", a)
    tiles = tiles_of(slide)
    columns = -(-int(a["width"]) // tiles.shape[2])
    plain = pixels(store(slide, "--codec", "none"))
    expect(mine.shape == plain.shape and (mine == plain).all(), "the plug-in differs from codec none")
    expect((theirs == plain).all(), "the upstream plug-in differs")
    for n, (_, status, mask, data, crc) in enumerate(chunks_of(s)):
        y, x = n // columns * tiles.shape[1], n % columns * tiles.shape[2]
        part = plain[y:y + tiles.shape[1], x:x + tiles.shape[2]]
        expect((part == tiles[n][:part.shape[0], :part.shape[1]]).all(), "tile %d differs from libjpeg's", n)
        expect(status == 0 and mask == 0 and zlib.crc32(data) == crc, "chunk %d", n)


def test_pixels_of_made_slides():
    check_kinds(*map(kind, KINDS))


@later("ci")
def test_a_thumbnail_is_never_lost_for_lack_of_memory():
    """libjpeg that finds no memory is no libjpeg that this build lacks."""
    s, out = store(made("--size", "600x500", name="small"), *JPEG), os.path.join(tmp(), "r.h5")
    argv = [H5SPEC, "run", "-q", "-j", "1", "--device", "cpu", "-o", out, s]
    for ran, place in failing_allocations(argv, out):
        if ran.status == 0:
            with h5py.File(out, "r") as f:
                expect("thumbnail" in f["slides/small"], "%s: %s", place, ran.err)


def test_other_readers_of_gray_tiles():
    slide = made("--container", "generic", "--size", "900x700", "--photometric", "gray", name="gray")
    kept, plain = store(slide, *JPEG), pixels(store(slide, "--codec", "none"))
    expect(attributes(kept)["codec"] == "jpeg" and plain.shape == (700, 900, 1), "%s", plain.shape)
    for plugins in (plugin(), UPSTREAM):
        expect((through(plugins, kept) == plain).all(), "%s differs from codec none", plugins)


def test_pixels_of_a_real_slide():
    check_kinds(real("CMU-1-Small-Region.svs"))


def test_results_equal_those_of_none():
    for name, options in (("rgb", ()), ("420", ()), ("422", ("--stripe-rows", "240", "--group-bytes", "1")),
                          ("odd_tiles", ("--tissue-only",))):
        jpeg, none = (store(kind(name), "--codec", c, *options) for c in ("jpeg", "none"))
        want = without_tissue(content(spectrum(none)))
        for threads in ("1", "2", "3"):
            got = without_tissue(content(spectrum(jpeg, "-j", threads)))
            equal(got, want, name + " with %s threads" % threads)
        groups = int(attributes(jpeg)["group_count"])
        if groups > 1:
            parts = [spectrum(jpeg, "--groups", "%d-%d" % (g, g)) for g in range(groups, 0, -1)]
            merged = os.path.join(tmp(), "merged.h5")
            run(H5SPEC, "merge", "-q", "-o", merged, *parts)
            with h5py.File(merged, "r") as m, h5py.File(spectrum(none), "r") as n:
                expect((m["histogram"][()] == n["histogram"][()]).all(), "merged")


def test_results_of_a_real_slide_equal_those_of_none():
    slide = real("CMU-1-Small-Region.svs")
    equal(*(without_tissue(content(spectrum(store(slide, "--codec", c)))) for c in ("jpeg", "none")), "real")


def test_results_with_mean_spectra_equal_those_of_none_if_the_slide_has_a_coarser_level():
    slide = made("--size", "2000x1500", "--levels", "2", "--photometric", "ycbcr", name="levels")
    a, b = (content(spectrum(store(slide, "--codec", c))) for c in ("jpeg", "none"))
    expect(any("/spectrum_tissue" in k for k in a), "%s", sorted(a))
    equal(a, b, "levels")


def test_h5dump_and_h5ls_read_jpeg_stores():
    if not shutil.which("h5dump"):
        raise Skip("h5dump is missing")
    dumps = []
    for codec in ("jpeg", "none"):
        s = store(kind("420"), "--codec", codec)
        env = {**os.environ, "HDF5_PLUGIN_PATH": plugin()}
        says(run("h5ls", "-v", s + "/groups/00001/pixels", env=env).out, "pixels")
        p = run("h5dump", "-y", "-d", "/groups/00001/pixels", "-c", "300,300,3", s, env=env)
        dumps.append(p.out.split("DATA {")[1])
    expect(dumps[0] == dumps[1] and len(dumps[0]) > 100000, "h5dump")


def test_chunks_are_whole_files_without_texts():
    slide = made("--size", "500x400", "--comments", "--complete-tiles", "--photometric", "ycbcr", name="texts")
    expect(b"Jane Doe" in bytes_in(slide), "the slide has no text")
    s = store(slide, *JPEG)
    expect(b"Jane Doe" not in bytes_in(s), "the store has the text")
    for _, _, _, data, _ in chunks_of(s):
        expect(data.startswith(b"\xff\xd8\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\1") and data.endswith(b"\xff\xd9"), "chunk")
        expect(not re.search(rb"\xff[\xe0-\xed\xef\xfe]", data), "a segment that could carry texts")
    with h5py.File(s, "r") as f:
        dcpl = f["groups/00001/pixels"].id.get_create_plist()
        expect(dcpl.get_filter(0)[:3] == (32019, 0, (90, 240, 240, 1)), "%s", dcpl.get_filter(0))


def test_entropy_coded_data_are_the_slides():
    slide = kind("420")
    source = bytes_in(slide)
    for _, _, _, data, _ in chunks_of(store(slide, *JPEG)):
        scan = data[data.index(b"\xff\xda"):]
        expect(scan in source, "a scan that is not in the slide")


def test_store_is_as_small_as_the_slide():
    s = store(made("--size", "4000x3000", "--no-thumbnail"), *JPEG)
    stored = sum(len(data) for _, _, _, data, _ in chunks_of(s))
    expect(os.path.getsize(s) <= 1.01 * stored + 1e6, "%d of %d bytes", stored, os.path.getsize(s))


def test_damaged_and_missing_tiles():
    slide = made("--size", "1000x700", "--photometric", "ycbcr", "--missing", "0,0", "--truncate", "1,1:600",
                 "--garbage", "2,1", "--foreign", "3,0", "--outside", "4,2", name="hurt")
    paths = []
    for codec in ("jpeg", "none"):
        paths.append(os.path.join(tmp(), "hurt.h5"))
        p = run(WSI2H5, "--codec", codec, "-o", paths[-1], slide, status=4)
        says(p.err, "4 damaged tiles")
    expect(statuses(paths[0]) == statuses(paths[1]), "%s", statuses(paths[0]))
    expect((through(plugin(), paths[0]) == pixels(paths[1])).all(), "filled tiles differ")
    equal(without_tissue(content(spectrum(paths[0]))), without_tissue(content(spectrum(paths[1]))), "hurt")
    slide = made("--size", "600x500", "--truncate", "1,1:600", name="cut")
    p = run(WSI2H5, *JPEG, "--on-damage", "fail", "-o", os.path.join(tmp(), "x.h5"), slide, status=1)
    says(p.err, "is damaged; rejected because of --on-damage fail")


def tile_places(slide):
    """Offsets and sizes of the tiles of the first directory."""
    t = Tiff(slide)
    n = t.directories[0][TILE_OFFSETS][1]
    return [[t.u32(t.place(tag, k)) for k in range(n)] for tag in (TILE_OFFSETS, TILE_BYTES)]


@later("ci")
def test_changed_bytes_mark_the_same_tiles_as_none():
    r = random.Random(7)
    for name, options in (("rgb", ()), ("420", ("--photometric", "ycbcr")),
                          ("restart", ("--restart", "5", "--complete-tiles")),
                          ("comments", ("--comments", "--complete-tiles", "--photometric", "ycbcr"))):
        slide = made("--size", "1500x1100", "--tile", "128", "--no-thumbnail", *options, name="changed_" + name)
        offsets, sizes = tile_places(slide)
        for _ in range(3):
            data = bytearray(bytes_in(slide))
            for offset, size in zip(offsets, sizes):
                for _ in range(r.choice((0, 1, 1, 2))):
                    at = r.randrange(min(size, 700)) if r.random() < 0.5 else r.randrange(size)
                    data[offset + at] = r.choice((0, 255, r.randrange(256), data[offset + at] ^ 1 << r.randrange(8)))
            path = file_of("changed.svs", data)
            marked = []
            for options in (JPEG, ("--codec", "none"), (*JPEG, "--tissue-mask", everywhere())):  # with a map that is given tiles are only checked
                out = os.path.join(tmp(), "s.h5")
                run(WSI2H5, "-q", *options, "-o", out, path, status=None)
                marked.append((statuses(out), out))
            expect(marked[0][0] == marked[1][0] == marked[2][0] and 2 in marked[0][0], "%s: other tiles are marked", name)
            kept, checked = ([c[1:] for c in chunks_of(marked[k][1])] for k in (0, 2))
            expect(kept == checked, "%s: other chunks with a mask", name)
            if attributes(marked[0][1])["codec"] == "jpeg":
                expect((through(plugin(), marked[0][1]) == pixels(marked[1][1])).all(), "%s: pixels", name)


def test_markers_that_libjpeg_warns_of_are_damage():
    slide = made("--size", "700x500", "--complete-tiles", "--comments", "--photometric", "ycbcr", name="markers")
    data = bytearray(bytes_in(slide))
    offsets, sizes = tile_places(slide)
    for tile, name, at, value in ((0, b"JFIF", 5, 2), (2, b"Adobe", 11, 2), (3, b"Adobe", 11, 7), (4, b"Adobe", 11, 0),
                                  (5, b"Adobe", 0, 0), (1, b"JFIF", 0, 0), (2, b"JFIF", 0, 0), (3, b"JFIF", 0, 0)):
        data[data.index(name, offsets[tile], offsets[tile] + sizes[tile]) + at] = value
    path = file_of("markers.svs", data)
    marked = []
    for codec in ("jpeg", "none"):
        out = os.path.join(tmp(), "s.h5")
        run(WSI2H5, "-q", "--codec", codec, "-o", out, path, status=4)
        marked.append(statuses(out))
        expect(attributes(out)["codec"] == codec, "it fell back")
    expect(marked[0] == marked[1] == [2, 0, 2, 2] + 5 * [0], "%s, %s", *marked)


def test_tissue_only_leaves_out_the_same_chunks():
    for options in ((), ("--levels", "2")):
        slide = made("--size", "2100x1700", "--tissue", "rect:300,300,500,400", *options, name="tissue")
        a, b = (store(slide, "--codec", c, "--tissue-only") for c in ("jpeg", "none"))
        expect(statuses(a) == statuses(b) and 3 in statuses(a) and 0 in statuses(a), "tissue only")
        expect((through(plugin(), a) == pixels(b)).all(), "pixels")
        equal(content(spectrum(a, "--tissue-only")), content(spectrum(b, "--tissue-only")), "results")


FALLBACKS = {
    "jpeg2000": (("--compression", "33005"), (), "its tiles are JPEG 2000"),
    "other": (("--compression", "deflate"), (), "its tiles are deflate"),
    "gray": ((), ("--gray",), "--gray needs other pixels"),
    "progressive": (("--progressive",), (), "tile (0, 0) is JPEG that is not baseline"),
}


def test_fallback_says_why():
    for name, (slide_options, options, why) in FALLBACKS.items():
        slide = made("--size", "600x500", *slide_options, name="fall_" + name)
        out = os.path.join(tmp(), "s.h5")
        p = run(WSI2H5, "--json", *JPEG, *options, "-o", out, slide)
        says(p.err, slide + ": stored with codec deflate, not jpeg: " + why)
        line = json_lines(p.out)[0]
        expect(line["codec"] == "deflate" and line["codec_reason"] == "not jpeg: " + why, "%s: %s", name, line)
        a = attributes(out)
        expect(a["codec"] == "deflate" and a["format_version"] == 1 and a["codec_reason"] == line["codec_reason"], "%s", a)
        says(run(H5SPEC, "info", out).out, "not jpeg: " + why)
        expect(json.loads(run(H5SPEC, "info", "--json", out).out)["codec_reason"] == line["codec_reason"], "info")
        expect((pixels(out) == pixels(store(slide, "--codec", "none", *options))).all(), "%s: pixels", name)
        says(run(WSI2H5, *JPEG, *options, "-o", out, slide).err, "1 skipped (up to date)")
        fresh = os.path.join(tmp(), "s.h5")
        for path in (out, fresh):
            says(run(WSI2H5, *JPEG, "--strict-codec", *options, "-o", path, slide, status=1).err, slide, why, "--strict-codec")
        expect(not os.path.exists(fresh), "a store")


def test_finished_stores_are_skipped():
    for options in ((), ("--strict-codec",)):
        out = os.path.join(tmp(), "s.h5")
        for done in ("1 converted", "1 skipped (up to date)"):
            says(run(WSI2H5, *JPEG, *options, "-o", out, kind("rgb")).err, done)
    says(run(WSI2H5, "-o", out, kind("rgb"), status=1).err, "was made with --codec jpeg")


def test_strict_codec_needs_codec_jpeg():
    p = run(WSI2H5, "--strict-codec", "-o", os.path.join(tmp(), "x.h5"), kind("rgb"), status=2)
    says(p.err, "--strict-codec has an effect with --codec keep, jpeg and j2k only")


# name: options of mkslide. The thumbnail has 700 rows: 43 strips of 16, and one of 12
THUMBNAILS = {"rgb": (), **{k: KINDS[k] + ("--thumbnail-like-tiles",) for k in (
    "444", "422", "420", "420_complete_restart", "422_bigtiff", "comments", "worst")}}


THUMBNAIL = "associated/thumbnail"


def kept_as(path):
    """How the thumbnail is stored: its filter, and its attributes."""
    with h5py.File(path, "r") as f:
        return f[THUMBNAIL].id.get_create_plist().get_filter(0), dict(f[THUMBNAIL].attrs)


def thumbnails(name, height=700):
    """The stores of codecs jpeg and none of a slide of this kind."""
    slide = made("--size", "1000x%d" % height, *THUMBNAILS[name], name="thumbnail_%s_%d" % (name, height))
    return [store(slide, "--codec", c) for c in ("jpeg", "none")]


def check_thumbnail(name, kept, packed, mine, theirs):
    want = values_in(packed, THUMBNAIL)
    rows = min(16, len(want))
    (code, flags, values, _), attrs = kept_as(kept)
    expect(np.array_equal(mine, want) and np.array_equal(theirs, want), "%s: pixels through the plug-ins", name)
    expect((code, flags, values) == (32019, 0, (90, want.shape[1], rows, 1)), "%s: %s %s", name, code, values)
    expect("crc32" not in attrs and attrs["CLASS"] == b"IMAGE", "%s: %s", name, attrs)
    with h5py.File(kept, "r") as f:
        t = f["associated/thumbnail"].id
        strips = [t.read_direct_chunk((row, 0, 0)) for row in range(0, len(want), rows)]
    expect([mask for mask, _ in strips] == [int(rows * (k + 1) > len(want)) for k in range(len(strips))], "masks")
    expect(zlib.crc32(b"".join(data for _, data in strips)) == attrs["stored_crc32"], "CRC")
    expect(b"Jane Doe" not in b"".join(data for _, data in strips), "a text")
    with wsi_store.open_store(kept) as s:
        expect(np.array_equal(s.thumbnail, want), "%s through wsi_store", name)
    equal(*(without_tissue(content(spectrum(s))) for s in (kept, packed)), name)
    says(run(H5SPEC, "verify", kept).out, "valid")
    says(run(H5SPEC, "info", kept).out, "thumbnail")


def test_thumbnail_is_the_slides_own():
    stores = {name: thumbnails(name) for name in THUMBNAILS}
    stores.update({"no short strip": thumbnails("420", 704), "a single strip": thumbnails("rgb", 9)})
    kept = [s for s, _ in stores.values()]
    seen = zip(through_all(plugin(), kept, THUMBNAIL), through_all(UPSTREAM, kept, THUMBNAIL))
    for (name, pair), pixels_seen in zip(stores.items(), seen):
        check_thumbnail(name, *pair, *pixels_seen)


def test_thumbnail_of_a_real_slide_is_its_own():
    slide = real("CMU-1-Small-Region.svs")
    kept = store(slide, *JPEG)
    expect(kept_as(kept)[0][0] == 32019, "%s", kept_as(kept)[0])
    expect(np.array_equal(through_all(plugin(), [kept], THUMBNAIL)[0], values_in(store(slide), THUMBNAIL)), "pixels")


def test_thumbnail_that_cannot_be_kept_is_packed():
    """Damage that OpenSlide shows as gray, and other kinds of JPEG."""
    plain = Tiff(made("--size", "1000x700"))
    plain.set(279, plain.u32(plain.place(279, 3, 1)) // 2, 3, 1)
    cut = plain.save(os.path.join(tmp(), "cut.svs"))
    progressive = made("--size", "1000x700", "--thumbnail-like-tiles", "--progressive", "--tile", "240", name="progressive")
    for slide in (cut, progressive):
        kept, packed = (store(slide, "--codec", c) for c in ("jpeg", "none"))
        (code, _, _, _), attrs = kept_as(kept)
        expect(code == 1 and "crc32" in attrs, "filter %d", code)
        expect(np.array_equal(values_in(kept, THUMBNAIL), values_in(packed, THUMBNAIL)), "pixels of %s", slide)
    lost = Tiff(made("--size", "1000x700"))
    lost.set(273, len(lost.data) + 10, 0, 1)
    slide = lost.save(os.path.join(tmp(), "lost.svs"))
    says(run(WSI2H5, *JPEG, "-o", tmp(), slide).err, "its thumbnail cannot be read")


def changed_thumbnail(change, right_crc=True):
    """A copy of a jpeg store with (mask, bytes) = change(mask, bytes) of the thumbnail's strip 1."""
    def put(f):
        t = f["associated/thumbnail"]
        mask, data = change(*t.id.read_direct_chunk((16, 0, 0)))
        t.id.write_direct_chunk((16, 0, 0), data, filter_mask=mask)
        if right_crc:
            strips = [t.id.read_direct_chunk((row, 0, 0))[1] for row in range(0, t.shape[0], 16)]
            t.attrs["stored_crc32"] = np.int64(zlib.crc32(b"".join(strips)))
    return changed(store(kind("420"), *JPEG), put)


def check_rejected_thumbnail(path, *words):
    for options in ((), ("--quick",)):
        says(run(H5SPEC, "verify", *options, path, status=1).err, path, "thumbnail", *words)
    out = os.path.join(tmp(), "r.h5")
    says(run(H5SPEC, "--device", "cpu", "-o", out, path, status=1).err, path, "thumbnail", *words)
    expect(not os.path.exists(out), "a result")
    try:
        with wsi_store.open_store(path) as s:
            s.thumbnail
        expect(False, "wsi_store reads it")
    except wsi_store.StoreError as e:
        says(str(e), path, "thumbnail")


def test_damaged_thumbnail():
    check_rejected_thumbnail(changed_thumbnail(lambda m, d: (m, d[:-9] + bytes([d[-9] ^ 1]) + d[-8:]), False), "CRC mismatch")
    for what, change in WRONG.items():
        path = changed_thumbnail(lambda m, d: (m, change(d)))
        if what == "no marker of the colours":  # which the plug-in accepts, as files of other programs lack it
            says(run(H5SPEC, "verify", path, status=1).err, path, "thumbnail", "cannot unpack")
        else:
            check_rejected_thumbnail(path, "cannot unpack")
    says(run(H5SPEC, "verify", changed_thumbnail(lambda m, d: (1, d + b"\0")), status=1).err, "thumbnail", "impossible size")
    path = changed(store(kind("420"), *JPEG), lambda f: f["associated/thumbnail"].attrs.__delitem__("stored_crc32"))
    says(run(H5SPEC, "verify", path, status=1).err, "stored_crc32")


def changed_store(change, crc=0):
    """A copy of a jpeg store with change(data of chunk 1) in place of chunk 1, and its CRC, exclusive or `crc`."""
    def put(f):
        g = f["groups/00001"]
        at = 0, g["pixels"].chunks[1], 0
        new = change(g["pixels"].id.read_direct_chunk(at)[1])
        g["pixels"].id.write_direct_chunk(at, new)
        g["tile_crc32"][0, 1] = zlib.crc32(new) ^ crc
    return changed(store(kind("420"), *JPEG), put, "s.h5")


def other_size(data):
    at = data.index(b"\xff\xc0")
    return data[:at + 5] + struct.pack(">H", 232) + data[at + 7:]


WRONG = {
    "a reserved marker": lambda d: d[:2] + b"\xff\x1d\0\2" + d[2:],
    "early end": lambda d: d[:len(d) // 2] + b"\xff\xd9",
    "no end": lambda d: d[:-2],
    "bytes after the end": lambda d: d + b"\0",
    "another size": other_size,
    "no marker of the colours": lambda d: d[:2] + d[18:],
    "no tables": lambda d: d[:18] + d[d.index(b"\xff\xc0"):],
    "no JPEG": lambda d: b"\0" * len(d),
}


def test_chunks_with_a_valid_crc_that_are_no_tiles():
    for what, change in WRONG.items():
        path = changed_store(change)
        out = os.path.join(tmp(), "r.h5")
        says(run(H5SPEC, "--device", "cpu", "-o", out, path, status=1).err,
             "%s: cannot unpack chunk at row 0, column 1 of group 1" % path)
        says(run(H5SPEC, "verify", path, status=1).err, "row 0, column 1 of group 1")
        says(run(H5SPEC, "verify", "--quick", path).out, "valid")  # CRCs only
        expect(not os.path.exists(out), "%s: a result", what)
        if what not in ("no marker of the colours",):  # which the plug-in accepts, as files of other programs lack it
            read = ("import h5py, sys; f = h5py.File(sys.argv[1], 'r')['groups/00001/pixels']\n"
                    "try: f[0, 240]\nexcept OSError: sys.exit(3)")
            run(sys.executable, "-c", read, path, env={**os.environ, "HDF5_PLUGIN_PATH": plugin()}, status=3)


def test_changed_bytes_without_their_crc():
    path = changed_store(lambda d: d[:-9] + b"\0" + d[-8:], crc=1)
    for options in ((), ("--quick",)):
        says(run(H5SPEC, "verify", *options, path, status=1).err, "CRC mismatch in chunk at row 0, column 1")


def test_filter_mask_is_checked():
    """By which other programs know what to decode; of the last chunk, because HDF5 is slow to find each."""
    for codec, mask in (("jpeg", 1), ("deflate", 2)):
        def put(f):
            g = f["groups/00001"]
            rows, cols, _ = g["pixels"].chunks
            r, c = (n - 1 for n in g["tile_crc32"].shape)
            data = g["pixels"].id.read_direct_chunk((r * rows, c * cols, 0))[1] + b"\0"  # HDF5 keeps the old mask where the size is the same
            g["pixels"].id.write_direct_chunk((r * rows, c * cols, 0), data, filter_mask=mask)
            g["tile_crc32"][r, c] = zlib.crc32(data)
        path = changed(store(kind("420"), "--codec", codec), put)
        says(run(H5SPEC, "verify", "--quick", path, status=1).err, path, "group 00001", "index of the chunks contradicts")


def test_one_version_is_read():
    for source in (store(kind("420"), *JPEG), store(kind("420"))):
        expect(attributes(source)["format_version"] == 1, "version")
        for version in (0, 2, 3):
            path = changed(source, lambda f: f.attrs.create("format_version", np.int64(version)))
            for argv in (["verify"], ["info"], ["run", "-o", os.path.join(tmp(), "r.h5")]):
                says(run(H5SPEC, *argv, path, status=1).err, path + ": format_version %d; this program reads 1" % version)


def test_filter_values_are_checked():
    for values in ((90, 240, 232, 1), (90, 240, 240, 0), (90, 240, 240)):
        data, old = bytes_in(store(kind("420"), *JPEG)), struct.pack("<4I", 90, 240, 240, 1)
        expect(old in data, "no values")
        path = file_of("s.h5", data.replace(old, struct.pack("<%dI" % len(values), *values).ljust(16, b"\0")))
        # HDF5's checksum or ours; HDF5 itself leaks what it has read of a header whose checksum is wrong
        run(H5SPEC, "verify", path, status=1, env=dict(os.environ, LSAN_OPTIONS="detect_leaks=0"))


def test_installed_plug_in():
    if SAN:
        raise Skip("builds are tried without sanitizers")
    prefix = tmp()
    run("make", "-s", "-C", ROOT, *same_build(), "PREFIX=" + prefix, "HDF5_PLUGINS=", "install",
        env={k: v for k, v in os.environ.items() if not k.startswith("MAKE")})
    folder = os.path.join(prefix, "lib/wsi2h5/plugin")
    s = store(kind("rgb"), *JPEG)
    expect((through(folder, s) == pixels(store(kind("rgb"), "--codec", "none"))).all(), "pixels")


def test_libjpeg_of_another_abi_is_named_in_its_own_words():
    """It was reported as damage of every tile."""
    if SAN:
        raise Skip("a sanitizer does not go with a preloaded library")
    env = dict(os.environ, LD_PRELOAD=os.path.join(BUILD, "tests", "torture_abi.so"))
    slide, s = made("--size", "600x500"), store(made("--size", "600x500"), "--codec", "jpeg")
    for argv in ((WSI2H5, "-o", os.path.join(tmp(), "x.h5"), slide), (H5SPEC, "run", "--device", "cpu", "-o", os.path.join(tmp(), "r.h5"), s)):
        p = run(*argv, status=1, env=env)
        says(p.err, argv[-1], "Wrong JPEG library version: library is 80, caller expects 62", "install the libjpeg")
        expect("damaged" not in p.err.splitlines()[0], "%s", p.err)


HISTORY = {  # options of mkslide: quality, subsampling, whether it shows that the tiles were compressed twice
    ("--quality", "80"): (80, "4:4:4", False),
    ("--quality", "80", "--photometric", "ycbcr"): (80, "4:2:0", False),
    ("--quality", "30", "--photometric", "ycbcr", "--subsampling", "422"): (30, "4:2:2", False),
    ("--quality", "80", "--before", "30"): (80, "4:4:4", True),
    ("--quality", "80", "--before", "50", "--photometric", "ycbcr"): (80, "4:2:0", True),
    ("--quality", "80", "--before", "70", "--complete-tiles"): (80, "4:4:4", True),
    ("--quality", "95", "--before", "60", "--photometric", "ycbcr", "--subsampling", "444"): (95, "4:4:4", True),
    ("--quality", "50", "--before", "80"): (50, "4:4:4", False),  # a coarser compression hides the finer one
}


def test_how_the_tiles_were_compressed_is_stored():
    for options, (quality, subsampling, twice) in HISTORY.items():
        slide = made("--size", "2000x1500", *options)
        stores = [store(slide, *o) for o in (JPEG, ("--codec", "none", "-j", "4"), (*JPEG, "-j", "1", "--gray"))]
        numbers = [{k: v for k, v in attributes(s).items() if k.startswith("jpeg_")} for s in stores]
        expect(numbers[0] == numbers[1] == numbers[2], "%s: %s", options, numbers)
        n = numbers[0]
        expect((n["jpeg_quality"], n["jpeg_subsampling"]) == (quality, subsampling), "%s: %s", options, n)
        expect(0 <= n["jpeg_twice"] <= 1 and (n["jpeg_twice"] > 0.3 if twice else n["jpeg_twice"] < 0.1), "%s: %s", options, n)
        shown = json.loads(run(H5SPEC, "info", "--json", stores[0]).out)
        expect(all(shown[k] == v for k, v in n.items()), "%s: %s", n, shown)
        says(run(H5SPEC, "info", stores[0]).out, "quality %d, %s" % (quality, subsampling),
             "earlier compression: probable" if twice else "earlier compression: none found")


def test_numbers_of_compression_are_left_out_where_they_are_unknown():
    expect(not any(k.startswith("jpeg_") for k in attributes(store(made("--size", "600x600", "--compression", "33005")))), "J2K")
    flat = attributes(store(made("--size", "60x60", "--tile", "64")))
    expect(flat["jpeg_quality"] == 80 and "jpeg_twice" not in flat, "%s", flat)


def test_the_worst_quality_is_a_quality():
    s = store(made("--size", "600x600", "--quality", "1", name="worst"))
    out = os.path.join(tmp(), "m.h5")
    run(H5SPEC, "merge", "-o", out, spectrum([s]))
    rows = list(csv.DictReader(run(H5SPEC, "info", "--csv", out).out.splitlines()))
    expect(attributes(s)["jpeg_quality"] == 1 and rows[0]["jpeg_quality"] == "1", "%s", rows[0])

if __name__ == "__main__":
    main(globals())
