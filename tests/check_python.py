#!/usr/bin/env python3
"""The Python reader of stores, scripts/wsi_store: pixels of every codec, places, tissue, windows, processes."""
import multiprocessing
import pickle
import threading

import h5py
import numpy as np

from lib import *

sys.path.insert(0, os.path.join(ROOT, "scripts"))
sys.path.append(os.path.join(ROOT, "build", "python"))  # optional packages
os.environ.setdefault("HDF5_PLUGIN_PATH", BUILD)
sys.dont_write_bytecode = True
import wsi_store
from wsi_store import StoreError, open_store

READER = os.path.join(ROOT, "scripts", "wsi-store")
SIZE = "1500x1100"  # partial chunks at both edges
SMALL_GROUPS = ("--stripe-rows", "240", "--group-bytes", "1")


def slide():
    return made("--size", SIZE, "--tissue", "rect:200,100,800,700", name="python")


def rejects(words, f, *args, **kw):
    try:
        f(*args, **kw)
    except StoreError as e:
        says(str(e), *words)
        return
    expect(False, "no StoreError with %s", words)


def check_codec(codec, **how):
    want = pixels(store(slide(), "--codec", "none"))
    for options in ((), SMALL_GROUPS):
        with open_store(store(slide(), "--codec", codec, *options), **how) as s:
            expect((s.width, s.height, s.channels, s.codec) == (1500, 1100, 3, codec), "%s", s)
            got = s.read_region(0, 0, s.width, s.height)
            expect((got == want).all(), "%s: %d samples differ", codec, (got != want).sum())


def test_codecs():
    for codec, how in (("none", {}), ("deflate", {}), ("jpeg", {"jpeg": "plugin"})):
        check_codec(codec, **how)


def test_codecs_that_other_packages_unpack():
    missing = []
    for package, codec, how in (("lz4", "lz4", {}), ("zstandard", "zstd", {}), ("simplejpeg", "jpeg", {"jpeg": "simplejpeg"}),
                                ("cv2", "jpeg", {"jpeg": "opencv"})):
        if importlib.util.find_spec(package):
            check_codec(codec, **how)
        else:
            missing.append(package)
    has(*missing)


def test_ycbcr_subsampled_and_gray_tiles():
    ycbcr = ["--photometric", "ycbcr", "--subsampling"]
    for kind in ([*ycbcr, "420"], [*ycbcr, "422"], [*ycbcr, "444", "--restart", "4"], ["--container", "generic", "--photometric", "gray"]):
        path = made("--size", "700x500", *kind)
        want = pixels(store(path, "--codec", "none"))
        for name in wsi_store.JPEG:
            s = open_store(store(path, "--codec", "jpeg"), jpeg=name)
            try:
                got = s.read_region(0, 0, 700, 500)
            except StoreError as e:
                says(str(e), "nothing here unpacks")
                continue
            expect((got == want).all(), "%s %s", name, kind)


def test_real_slide():
    path = real("CMU-1-Small-Region.svs")
    want = pixels(store(path, "--codec", "none"))
    for codec in ("none", "deflate", "jpeg"):
        with open_store(store(path, "--codec", codec)) as s:
            expect((s.read_region(0, 0, s.width, s.height) == want).all(), codec)
            expect(s.mpp == (0.499, 0.499) and s.properties["aperio.AppMag"] == "20", "%s", s.properties)


def test_gray():
    with open_store(store(slide(), "--gray")) as s:
        expect(s.channels == 1 and s.read_region(3, 5, 7, 9).shape == (9, 7, 1), "%s", s)
        expect((s.read_region(0, 0, 1500, 1100) == pixels(s.path)).all(), "pixels differ")


def test_regions_at_every_edge():
    """200 places, in the slide, over its edges and beyond them, against the padded picture."""
    want = pixels(store(slide(), "--codec", "none"))
    pad = 400
    around = np.full((1100 + 2 * pad, 1500 + 2 * pad, 3), 7, np.uint8)
    around[pad:-pad, pad:-pad] = want
    rng = np.random.RandomState(1)
    for codec in ("none", "deflate"):
        with open_store(store(slide(), "--codec", codec, *SMALL_GROUPS)) as s:
            for _ in range(100):
                w, h = rng.randint(0, 300, 2)
                x, y = rng.randint(-pad, 1500 + pad - w), rng.randint(-pad, 1100 + pad - h)
                got = s.read_region(x, y, w, h, fill=7)
                expect((got == around[y + pad:y + pad + h, x + pad:x + pad + w]).all(), "%s", (x, y, w, h))
                clipped = s.read_region(x, y, w, h, edge="clip")
                inside = want[max(y, 0):max(y + h, 0), max(x, 0):max(x + w, 0)]
                expect(clipped.size == inside.size and (clipped.ravel() == inside.ravel()).all(), "%s", (x, y, w, h))


def test_parts_of_jpeg_chunks():
    """The plug-in decodes only the part that is needed: rectangles of every kind, each read by a new store."""
    rng = np.random.RandomState(2)
    for kind in ([], ["--photometric", "ycbcr", "--subsampling", "444", "--restart", "4"],
                 ["--photometric", "ycbcr", "--subsampling", "420"], ["--photometric", "ycbcr", "--subsampling", "422"]):
        path = store(made("--size", "300x260", *kind), "--codec", "jpeg")
        want = pixels(store(made("--size", "300x260", *kind), "--codec", "none"))
        for _ in range(60):
            x, y = rng.randint(0, 299), rng.randint(0, 259)
            w, h = rng.randint(1, 301 - x), rng.randint(1, 261 - y)
            with open_store(path, jpeg="plugin") as s:
                for _ in range(3):  # a part, then whole rows, then from the cache
                    expect((s.read_region(x, y, w, h) == want[y:y + h, x:x + w]).all(), "%s: %s", kind, (x, y, w, h))


def test_damage_of_jpeg_chunks_without_checksums():
    """What is decoded of a damaged chunk is right or an error."""
    path = copied(store(made("--size", "240x240"), "--codec", "jpeg"), "s.h5")
    with open_store(path) as s:
        s.load_tables()
        at, n = s._groups[0].at[0][0], s._groups[0].bytes[0][0]
    with open(path, "r+b") as f:
        f.seek(at + n - 40)
        f.write(b"\xff\xd9" * 20)
    with open_store(path, jpeg="plugin", crc=False) as s:
        expect(s.read_region(0, 0, 240, 100).shape == (100, 240, 3), "rows above the damage")
        rejects(["cannot be unpacked"], s.read_region, 0, 0, 240, 240)
        rejects(["cannot be unpacked"], s.read_region, 0, 236, 240, 4)
    with open_store(path, jpeg="plugin") as s:
        rejects(["CRC mismatch"], s.read_region, 0, 0, 240, 100)


def test_batches():
    rng = np.random.RandomState(3)
    for options in (["--codec", "none"], ["--codec", "jpeg"], ["--codec", "deflate", *SMALL_GROUPS], ["--gray"], ["--tissue-only"]):
        with open_store(store(slide(), *options)) as s, open_store(s.path, cache_bytes=0) as one:
            at = np.stack([rng.randint(-50, 1500, 40), rng.randint(-50, 1100, 40)], 1)
            for places in (at, at[:1], at[:0], s.places(100)[:60]):
                want = [one.read_region(x, y, 100, 100) for x, y in places]
                got = s.read_patches(places, 100)
                expect(got.shape == (len(places), 100, 100, s.channels) and all((a == b).all() for a, b in zip(got, want)), "%s", options)
            out = np.zeros((40, 100, 100, s.channels), np.uint8)
            expect(s.read_patches(at, 100, out) is out and (out == s.read_patches(at, 100)).all(), "out")
            some = list(s.patches(200, min_tissue=0.2, batch=7))
            singles = list(s.patches(200, min_tissue=0.2))
            expect(len(singles) > 7 and [len(b[0]) for b in some[:-1]] == [7] * (len(some) - 1), "sizes")
            for k, (x, y, p) in enumerate(singles):
                bx, by, bp = some[k // 7]
                expect((bx[k % 7], by[k % 7]) == (x, y) and (bp[k % 7] == p).all(), "%s: %d", options, k)
    for wrong in (lambda: s.read_patches(at, 0), lambda: s.read_patches(at, 100, out[1:]), lambda: next(s.patches(batch=0))):
        try:
            wrong()
            expect(False, "no error")
        except ValueError:
            pass


def test_a_batch_unpacks_a_chunk_once():
    with open_store(store(slide(), "--codec", "jpeg"), jpeg="plugin") as s:
        calls, part = [], wsi_store.codecs.Plugin.part
        wsi_store.codecs.Plugin.part = lambda *a: calls.append(1) or part(*a)
        try:
            s.read_patches([(x, 0) for x in range(0, 240, 8)], 240)  # all within two chunks
        finally:
            wsi_store.codecs.Plugin.part = part
        expect(len(calls) == 2, "%d", len(calls))


def test_a_checksum_is_checked_once_for_all_forks():
    with open_store(store(slide(), "--codec", "none")) as s:
        s.load_tables()
        queue = multiprocessing.get_context("fork").Queue()
        p = multiprocessing.get_context("fork").Process(target=read_in_process, args=(s, queue))
        p.start()
        queue.get(timeout=60)
        p.join(60)
        chunks, load = [], s._trusted_bytes
        s._trusted_bytes = lambda *a: chunks.append(a[1:]) or load(*a)
        s.read_region(300, 300, 100, 100)
        expect(not chunks, "checked again: %s", chunks)
        s.read_region(0, 0, 10, 10)
        expect(len(chunks) == 1, "others are checked")


def loaded(data, collate="own", **kw):
    from torch.utils.data import DataLoader
    return DataLoader(data, batch_size=8, num_workers=kw.pop("workers", 2), collate_fn=data.collate if collate == "own" else None, **kw)


def check_loaded(batches, data):
    """All batches, which are held at the same time, have the pixels of their places."""
    seen = []
    for planes, numbers in batches:
        expect(planes.shape[1:] == (3, 64, 64), "%s", planes.shape)
        for p, k in zip(planes.numpy(), numbers.tolist()):
            s = data.stores[data.store[k]]
            expect((p.transpose(1, 2, 0) == s.read_region(data.x[k], data.y[k], 64, 64)).all(), "patch %d", k)
            seen.append(k)
    expect(sorted(seen) == list(range(len(data))), "%d of %d patches", len(seen), len(data))


def test_patches_of_gray_and_colour_stores_do_not_mix():
    rgb, gray = store(slide()), store(slide(), "--gray")
    try:
        wsi_store.Patches([rgb, gray])
        raise Failed("no error")
    except ValueError as e:
        says(str(e), "%s has 3 channels, %s has 1: " % (rgb, gray))


def test_loader_of_pytorch():
    has("torch")
    import gc
    stores = [store(slide(), "--codec", c) for c in ("none", "jpeg")]
    data = wsi_store.Patches(stores, 64, per_slide=70)
    expect(len(data) == 140, "%d", len(data))
    for workers in (0, 2):
        check_loaded(list(loaded(data, workers=workers)), data)
        check_loaded(list(loaded(data, workers=workers, shuffle=True)), data)
        check_loaded(list(loaded(data, "default", workers=workers)), data)
    check_loaded(list(loaded(data, multiprocessing_context="spawn")), data)
    gc.collect()
    expect(data._pool.units_in_use() == 0, "%d units are still in use", data._pool.units_in_use())
    for _ in range(3):  # loops that end early lose a few units at most, and nothing is wrong
        part = iter(loaded(data))
        next(part)
        del part
    check_loaded(list(loaded(data)), data)
    held = next(iter(loaded(data)))[0]
    copy = held.clone()
    check_loaded(list(loaded(data)), data)
    expect((held == copy).all(), "memory that is still in use was given to another batch")
    data._pool = wsi_store.pool.Pool(2 << 20)  # room for two batches
    check_loaded(list(loaded(data)), data)
    means = wsi_store.Patches(stores, 64, per_slide=20, transform=lambda p: p.float().mean((-2, -1)))
    expect(next(iter(loaded(means)))[0].shape == (8, 3) and means[3][0].shape == (3,), "transform")


def test_loader_reports_damage():
    has("torch")
    path = flipped_in(store(slide(), "--codec", "none"), "groups/00001/pixels", 1000)
    data = wsi_store.Patches([path], 64)
    rejects(["CRC mismatch in chunk (0, 0)"], lambda: list(loaded(data)))


def test_left_out_chunks_are_white_and_have_their_status():
    with open_store(store(slide(), "--tissue-only", *SMALL_GROUPS)) as s:
        status = s.tile_status
        expect(status.shape == (5, 7) and set(status.ravel().tolist()) == {0, wsi_store.LEFT_OUT}, "%s", status)
        r, k = np.argwhere(status == wsi_store.LEFT_OUT)[0]
        expect((s.read_region(k * 240, r * 240, 100, 100) == 255).all(), "not white")
        expect(s.chunk_bytes(r, k) is None, "it has bytes")


def test_chunks_outside_the_slide_are_errors():
    # a negative number was that of another chunk, counted from the end
    with open_store(store(slide(), *SMALL_GROUPS)) as s:
        rows, columns = s.tile_status.shape
        for row, column in ((-1, 0), (0, -1), (rows, 0), (0, columns), (99, 0), (0, 99)):
            rejects(["there is no chunk (%d, %d)" % (row, column)], s.chunk_bytes, row, column)
        expect(s.chunk_bytes(rows - 1, columns - 1), "the last chunk has no bytes")


def test_white_where_nothing_is_stored():
    with open_store(store(slide(), "--tissue-only", *SMALL_GROUPS)) as s:
        expect((s.read_region(0, 0, 1500, 1100) == pixels(s.path)).all(), "pixels differ")


def test_places_and_tissue():
    with open_store(store(slide())) as s:
        tissue = s.tissue
        expect(tissue.shape == (35, 47) and 0 < tissue.mean() < 1, "%s", tissue.shape)
        every = s.places(256, 128)
        expect(len(every) == ((1500 - 256) // 128 + 1) * ((1100 - 256) // 128 + 1), "%d", len(every))
        some = s.places(256, 128, min_tissue=0.5)
        want = [(x, y) for x, y in every.tolist()
                if tissue[y // 32:-(-(y + 256) // 32), x // 32:-(-(x + 256) // 32)].mean() >= 0.5]
        expect(0 < len(some) < len(every) and [tuple(p) for p in some.tolist()] == want, "%s", some)
        expect((s.places(256, 128, limit=7) == every[:7]).all(), "limit")
        a, b = (s.places(64, limit=20, seed=k) for k in (1, 2))
        expect(len(a) == 20 and (a == s.places(64, limit=20, seed=1)).all() and (a != b).any(), "seed")
        expect(len(s.places(5000)) == 0, "larger than the slide")
        got = list(s.patches(256, min_tissue=0.5))
        expect(len(got) == len(s.places(256, min_tissue=0.5)) > 0, "%d patches", len(got))
        for x, y, p in got:
            expect((p == s.read_region(x, y, 256, 256)).all(), "%s", (x, y))
        for stride, least in ((100, 0.5), (100, 0.3), (128, 0.5), (37, 0.9)):  # tissue is px of the area, as for h5spec
            result = spectrum(s.path, "--tissue-only", "--stride", stride, "--min-tissue", least)
            w = s.windows(result)
            counted = list(zip(w["x"].tolist(), w["y"].tolist()))
            found = [tuple(p) for p in s.places(256, stride, min_tissue=least).tolist()]
            expect(sorted(found) == sorted(counted) != [], "stride %d: %d places, %d windows", stride, len(found), len(counted))
    with open_store(store(made("--size", "600x600", "--stain", "fluorescence", name="dark"))) as s:
        expect(s.tissue is None, "tissue")
        rejects(["no map of tissue", "--tissue-mask"], s.places, min_tissue=0.5)


def test_windows_of_a_result():
    path = store(slide())
    result = spectrum(path)
    with open_store(path) as s, h5py.File(result, "r") as f:
        name = list(f["slides"])[0]
        mean = f["slides"][name]["window_mean_db"][()]
        w = s.windows(result)
        expect(len(w["x"]) == (~np.isnan(mean)).sum() and {"mean_db", "std_db"} <= set(w), "%s", sorted(w))
        for x, y, m in zip(w["x"], w["y"], w["mean_db"]):
            expect(mean[y // 128, x // 128] == m, "%s", (x, y))
        expect((s.windows(result, slide=name)["x"] == w["x"]).all(), "by name")
        rejects(["no slide other"], s.windows, result, slide="other")
        rejects(["not a finished result"], s.windows, path)
        beyond = s.windows(spectrum(path, "--range", "155:160"))  # all values are below: a window without a mean counts
        expect(np.array_equal(beyond["x"], w["x"]) and (beyond["flags"] & 1).all() and np.isnan(beyond["mean_db"]).any(), "%s", beyond)
    # of a table, which names the result; it leads nowhere else
    folder = tmp()
    shutil.copy(result, os.path.join(folder, "r.h5"))
    table = os.path.join(folder, "table.h5")
    run(TABLES, "merge", "-q", "-o", table, os.path.join(folder, "r.h5"))
    with open_store(path) as s:
        for k, v in s.windows(result).items():
            for found in (s.windows(table), s.windows(table, slide=name)):
                expect(np.array_equal(found[k], v, equal_nan=v.dtype.kind == "f"), k)
        rejects(["no slide other"], s.windows, table, slide="other")
        for to, words in (("../r.h5", "outside of its folder"), ("/r.h5", "outside of its folder"), ("table.h5", "refers to a table"), ("no.h5", "no.h5")):
            with h5py.File(table, "r+") as f:
                f["table/result"][0] = to
            rejects([words], s.windows, table)
    with open_store(store(made("--size", "600x600", "--seed", "9"))) as other:
        rejects(["has no slide"], other.windows, result)


def read_in_process(s, queue):
    queue.put(s.read_region(300, 300, 100, 100).tobytes())


def test_pickling_and_forks():
    for codec in ("none", "deflate", "jpeg"):
        s = open_store(store(slide(), "--codec", codec), jpeg="plugin" if codec == "jpeg" else None)
        want = s.read_region(300, 300, 100, 100).tobytes()
        copy = pickle.loads(pickle.dumps(s))
        expect(copy.read_region(300, 300, 100, 100).tobytes() == want, "pickled")
        for method in ("fork", "spawn"):
            c = multiprocessing.get_context(method)
            queue = c.Queue()
            workers = [c.Process(target=read_in_process, args=(s, queue)) for _ in range(2)]
            for p in workers:
                p.start()
            got = [queue.get(timeout=60) for _ in workers]
            for p in workers:
                p.join(60)
            expect(got == [want] * 2, "%s %s", codec, method)


def test_threads():
    want = pixels(store(slide(), "--codec", "none"))
    with open_store(store(slide(), "--codec", "deflate", *SMALL_GROUPS), cache_bytes=1 << 20) as s:
        bad = []

        def work(seed):
            rng = np.random.RandomState(seed)
            for _ in range(60):
                x, y = rng.randint(0, 1400), rng.randint(0, 1000)
                if not (s.read_region(x, y, 100, 100) == want[y:y + 100, x:x + 100]).all():
                    bad.append((x, y))
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        expect(not bad, "%s", bad)


def test_stores_that_cannot_be_used():
    good = store(slide())
    rejects(["No such file"], open_store, good + "x")
    text = file_of("text.h5", "no store at all")
    rejects([text, "not a store"], open_store, text)
    cut = file_of("cut.h5", bytes_in(good)[:20000])
    rejects([cut, "not a store, or damaged"], open_store, cut)
    rejects(["not a store; wsi2h5"], open_store, spectrum(good))
    rejects(["unfinished", "run wsi2h5 again"], open_store, changed(good, lambda f: f.attrs.modify("complete", 0)))
    rejects(["format_version 9"], open_store, changed(good, lambda f: f.attrs.modify("format_version", 9)))
    rejects(["has no groups", "make the store again with --force"], open_store, changed(good, lambda f: f.__delitem__("groups")))
    rejects(["groups are missing"], open_store,
            changed(store(slide(), *SMALL_GROUPS), lambda f: f["groups"].__delitem__("00005")))
    rejects(["another shape"], open_store, changed(good, lambda f: f.attrs.modify("height", 1099)))


def test_a_codec_that_only_hdf5_knows():
    """A codec that is newer than wsi_store: its filter unpacks, or its name is in the error."""
    path = changed(store(slide()), lambda f: f.attrs.__setitem__("codec", "zip"))
    with open_store(path) as s:
        expect((s.read_region(0, 0, 900, 700) == pixels(store(slide()))[:700, :900]).all(), "pixels")
    avail, h5py.h5z.filter_avail = h5py.h5z.filter_avail, lambda number: False
    try:
        with open_store(path) as s:
            rejects(["codec zip", "pip install hdf5plugin"], s.read_region, 0, 0, 5, 5)
    finally:
        h5py.h5z.filter_avail = avail


def test_a_damaged_chunk_is_an_error():
    for codec in ("none", "deflate", "jpeg"):
        path = copied(store(slide(), "--codec", codec), codec + ".h5")
        with h5py.File(path, "r") as f:
            at = f["groups/00001/pixels"].id.get_chunk_info(8)
        with open(path, "r+b") as f:
            f.seek(at.byte_offset + at.size // 2)
            f.write(bytes(b ^ 255 for b in open(path, "rb").read()[f.tell():f.tell() + 40]))
        y, x = at.chunk_offset[:2]
        with open_store(path) as s:
            for _ in range(2):
                rejects(["CRC mismatch in chunk (1, 1) of group 00001"], s.read_region, x, y, 10, 10)
            rejects(["CRC mismatch in chunk (1, 1)"], s.chunk_bytes, 1, 1)
            s.read_region(0, 0, 200, 200)  # the others can be read
        if codec != "jpeg":
            with open_store(path, crc=False) as s:
                if codec == "deflate":
                    rejects(["cannot be unpacked"], s.read_region, x, y, 10, 10)
                else:  # other pixels: only the checksum tells
                    expect(s.read_region(x, y, 50, 1).shape == (1, 50, 3), "crc=False reads as before")


def test_a_replaced_store_is_an_error():
    path = copied(store(slide(), *SMALL_GROUPS), "s.h5")
    with open_store(path) as s:
        shutil.copy(store(slide()), path + ".new")
        os.rename(path + ".new", path)
        rejects(["replaced while it was open"], s.read_region, 0, 0, 10, 10)
    rejects(["is closed"], s.read_region, 0, 0, 10, 10)


def test_a_store_that_is_open_in_h5py_too():
    path = store(slide())
    with h5py.File(path, "r"), open_store(path) as s:
        expect(s.read_region(0, 0, 10, 10).shape == (10, 10, 3), "shape")


def test_missing_packages_are_named():
    code = ("import sys; sys.modules['lz4'] = sys.modules['hdf5plugin'] = None; sys.path.insert(0, sys.argv[1])\n"
            "import wsi_store\n"
            "try: wsi_store.open_store(sys.argv[2]).read_region(0, 0, 5, 5)\n"
            "except wsi_store.StoreError as e: print(e)")
    env = dict(os.environ, HDF5_PLUGIN_PATH=tmp())  # HDF5 has no filter for it either
    says(run(sys.executable, "-c", code, os.path.dirname(READER), store(slide(), "--codec", "lz4"), env=env).out,
         "nothing here unpacks codec lz4; pip install lz4")


def test_command_patches():
    has("PIL")
    import PIL.Image
    out, path = os.path.join(tmp(), "patches"), store(slide())
    p = run(sys.executable, READER, "patches", path, "-o", out, "--size", "200", "--min-tissue", "0.5", "--limit", "5")
    says(p.err, "5 patches")
    rows = list(csv.DictReader(open(os.path.join(out, "patches.csv"))))
    expect(len(rows) == 5 == len(os.listdir(out)) - 1, "%s", rows)
    with open_store(path) as s:
        for r in rows:
            got = np.asarray(PIL.Image.open(os.path.join(out, r["file"])))
            expect((got == s.read_region(int(r["x"]), int(r["y"]), 200, 200)).all(), "%s", r)
    run(sys.executable, READER, "patches", path, "-o", out, "--format", "jpeg", "--limit", "1")
    says(run(sys.executable, READER, "patches", path + "x", "-o", out, status=1).err, "No such file")
    says(run(sys.executable, READER, "patches", path, "-o", out, "--size", "0", status=1).err, "positive")


def test_example_table_of_windows():
    has("pandas")
    path, table = store(slide()), os.path.join(tmp(), "windows.csv")
    run(sys.executable, os.path.join(ROOT, "scripts", "examples", "windows_table.py"), path, spectrum(path), table)
    rows = list(csv.DictReader(open(table)))
    expect(len(rows) == 70 and float(rows[1]["x_level0"]) == 128, "%s", rows[:2])


def test_example_scores():
    """Of a lower level, in px of level 0; h5spec maps them. Blue stain is haematoxylin, pink is eosin."""
    path, table = store(made("--size", "4200x3000", "--levels", "2", name="scored"), "--level", "1"), os.path.join(tmp(), "scores.csv")
    run(sys.executable, os.path.join(ROOT, "scripts", "examples", "stain_scores.py"), path, table)
    rows = list(csv.DictReader(line for line in open(table) if line[0] != "#"))
    expect(rows and {r["size"] for r in rows} == {"1024"} and all(int(r["x"]) % 512 == 0 for r in rows), "%s", rows[:2])
    expect(all(0 < float(r["haematoxylin"]) < 2 for r in rows), "%s", rows[:2])
    if "map" in run(H5SPEC, "--help").out:
        out = tmp("maps")
        run(H5SPEC, "map", "--scores", table, "-o", out, path)
        expect(sorted(os.listdir(out)) == ["scored.eosin.png", "scored.haematoxylin.png"], "%s", os.listdir(out))


def test_example_dataset():
    has("torch")
    p = run(sys.executable, os.path.join(ROOT, "scripts", "examples", "dataset.py"), store(slide()))
    says(p.out, "patches, ")


def elsewhere(f, name, how, other):
    """Puts something in place of a dataset whose values lie in another file."""
    d = f[name]
    shape, dtype, attrs, layout = d.shape, d.dtype, dict(d.attrs), h5py.VirtualLayout(d.shape, d.dtype)
    del f[name]
    if how == "external link":
        f[name] = h5py.ExternalLink(other, "/d")
    elif how == "soft link":
        f["there"] = np.full(shape, 83, dtype)
        f[name] = h5py.SoftLink("/there")
    elif how == "external storage":
        f.create_dataset(name, shape, dtype, external=[(other, 0, h5py.h5f.UNLIMITED)])
    else:
        layout[...] = h5py.VirtualSource(other, "d", shape)
        f.create_virtual_dataset(name, layout)
    for key, value in attrs.items() if "link" not in how else ():
        f[name].attrs[key] = value


def test_nothing_is_read_from_other_files():
    # a thumbnail was read from /etc/passwd
    reads = {"associated/thumbnail": lambda s: s.thumbnail, "tissue/mask": lambda s: s.tissue, "groups/00001/pixels": lambda s: s.read_region(0, 0, 9, 9),
             "groups/00001/tile_offset": lambda s: s.read_region(0, 0, 9, 9)}
    for name, read in reads.items():
        for how in ("external link", "soft link", "external storage", "virtual"):
            path, other = copied(store(slide(), "--codec", "none"), "forged.h5"), os.path.join(tmp(), "other.h5")
            with h5py.File(path, "r+", libver=("v110", "v110")) as f:
                with h5py.File(other, "w") as o:
                    o["d"] = np.full(f[name].shape, 83, f[name].dtype)
                elsewhere(f, name, how, other)

            def opened():
                with open_store(path) as s:
                    return read(s)
            rejects((path, name.split("/")[-1]), opened)


def test_more_values_than_are_stored_are_not_read():
    # a map of tissue that nobody has written took 2 GB
    for shape in ((1 << 16, 1 << 15), None):
        path = copied(store(slide(), "--codec", "none"), "forged.h5")
        with h5py.File(path, "r+", libver=("v110", "v110")) as f:
            own = f["tissue/mask"].shape
            del f["tissue/mask"], f["associated/thumbnail"]
            f.create_dataset("tissue/mask", shape or own, "u1", chunks=(16, 16))
            f.create_dataset("associated/thumbnail", (20000, 4000, 3) if shape is None else (1 << 20, 1 << 20, 3), "u1", chunks=(16, 16, 3))
        with open_store(path) as s:
            rejects(("thumbnail",), lambda: s.thumbnail)
            if shape:
                rejects(("tissue/mask",), lambda: s.tissue)


def test_pip_install():
    code = "import pip, setuptools; assert int(setuptools.__version__.split('.')[0]) >= 61"
    if run(sys.executable, "-c", code, status=None).returncode:
        raise Skip("needs pip, and setuptools 61, which reads pyproject.toml")
    text = open(os.path.join(ROOT, "scripts", "pyproject.toml")).read()
    version = re.search(r'#define WSI_VERSION "(.*)"', open(os.path.join(ROOT, "common/base/version.h")).read()).group(1)
    says(text, 'version = "%s"' % version)
    copy, target = os.path.join(tmp(), "scripts"), tmp("target")
    shutil.copytree(os.path.join(ROOT, "scripts"), copy)
    try:
        p = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target",
                            target, copy], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100)
    except subprocess.TimeoutExpired:
        raise Skip("pip takes too long")
    if p.returncode:
        raise Skip("pip cannot build here: %s" % p.stdout.decode()[-100:].replace("\n", " "))
    code = "import wsi_store, sys; print(wsi_store.open_store(sys.argv[1]))"
    says(run(sys.executable, "-c", code, store(slide()), env={**os.environ, "PYTHONPATH": target}).out, "1500 x 1100")


if __name__ == "__main__":
    if SAN:
        print("skip python: the reader is Python, which cannot load a plug-in with sanitizers")
    else:
        main(globals())
