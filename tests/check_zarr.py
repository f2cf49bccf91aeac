#!/usr/bin/env python3
"""wsi2h5 --zarr: the image beside each store. What other programs read of it is in check_bridges.py."""
import errno
import io

import h5py
import numpy as np

from lib import *

sys.path.insert(0, os.path.join(ROOT, "scripts"))
sys.path.append(os.path.join(ROOT, "build", "python"))  # optional packages
os.environ.setdefault("HDF5_PLUGIN_PATH", BUILD)
sys.dont_write_bytecode = True
from wsi_store import halved, ome_zarr, open_store

SMALL_GROUPS = ("--stripe-rows", "240", "--group-bytes", "1")
YCBCR = ("--photometric", "ycbcr", "--subsampling", "420")
INNER, ABSENT = 256, 2 ** 64 - 1


def slide(*kind, size="1501x1101", **how):
    return made("--size", size, "--tissue", "rect:200,100,800,700", *kind, **how)


def converted(path, *options, status=0, out=None, **how):
    """(process, [store]) of `wsi2h5 --zarr`."""
    out = out or tempfile.mkdtemp(dir=tmp())
    options += () if "--codec" in options else ("--codec", "keep")
    p = run(WSI2H5, "--zarr", "-o", out, *options, path, status=status, **how)
    return p, sorted(glob.glob(os.path.join(glob.escape(out), "*.h5")))


def unfinished(path):
    return [n for n in os.listdir(os.path.dirname(path)) if n.endswith(".part")]


def image_of(path):
    return path[:-len(".h5")] + ".ome.zarr"


def crc32c(data):
    crc = 2 ** 32 - 1
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ (2 ** 32 - 1)


def index_in(file, chunks):
    """[(offset, bytes)] at the end of a shard."""
    data = bytes_in(file)[-16 * chunks - 4:]
    expect(struct.unpack("<I", data[-4:])[0] == crc32c(data[:-4]), "CRC-32C of %s", file)
    return np.frombuffer(data[:-4], "<u8").reshape(-1, 2)


def places_of(path):
    """The same of a store, from its tables."""
    with h5py.File(path) as f:
        tables = [np.concatenate([f["groups"][g][name][()] for g in sorted(f["groups"])]).ravel() for name in ("tile_offset", "tile_bytes")]
    at, n = (t.astype("u8") for t in tables)
    return np.stack([np.where(n > 0, at, ABSENT), np.where(n > 0, n, ABSENT)], 1)


def level_of(image, k):
    """The pixels of a level that was made, and the codec of its chunks."""
    z = json_in(os.path.join(image, str(k), "zarr.json"))
    channels, height, width = z["shape"]
    inner = z["codecs"][0]["configuration"]
    expect(inner["chunk_shape"] == [channels, INNER, INNER] and inner["codecs"][0]["name"] == "transpose", "%s", inner)
    codec = inner["codecs"][-1]["name"]
    file = os.path.join(image, str(k), "c/0/0/0")
    rows, cols = -(-height // INNER), -(-width // INNER)
    data, out = bytes_in(file), np.zeros((rows * INNER, cols * INNER, channels), np.uint8)
    for at, (first, n) in enumerate(index_in(file, rows * cols).tolist()):
        y, x = at // cols * INNER, at % cols * INNER
        part = data[first:first + n]
        if codec == "zstd":
            import zstandard
            pixels = np.frombuffer(zstandard.decompress(part, INNER * INNER * channels), np.uint8)
        else:
            import PIL.Image
            pixels = np.asarray(PIL.Image.open(io.BytesIO(part)))
        out[y:y + INNER, x:x + INNER] = pixels.reshape(INNER, INNER, channels)
    return out[:height, :width], codec


def check_image(path):
    """The image beside the store: the store's tiles, and means of 2 x 2 px of the level before."""
    image, a = image_of(path), attributes_of(path)
    with open_store(path) as s:
        want = s.read_region(0, 0, s.width, s.height)
    expect(os.path.samefile(path, os.path.join(image, "0/c/0/0/0")), "level 0 is a link")
    expected = places_of(path)
    expect((index_in(path, len(expected)) == expected).all(), "%s: the index", path)
    root = json_in(os.path.join(image, "zarr.json"))["attributes"]
    expect(root["wsi2h5"]["content_crc32"] == a["content_crc32"], "%s", root)
    sets = root["ome"]["multiscales"][0]["datasets"]
    levels = sorted(n for n in os.listdir(image) if n != "zarr.json")
    expect([d["path"] for d in sets] == levels, "%s: %s", levels, sets)
    for k in range(1, len(levels)):
        want = halved(want)
        got, codec = level_of(image, k)
        expect(got.shape == want.shape, "%s", got.shape)
        apart = np.abs(got.astype(int) - want)
        expect((codec == "zstd") == (a["codec"] != "jpeg"), "%s", codec)
        expect((apart.max() == 0) if codec == "zstd" else apart.mean() < 6, "%s: level %d is %g apart", path, k, apart.mean())
    expect(max(want.shape[:2]) <= 512 < max(want.shape[:2]) * 2, "%s", want.shape)


KINDS = (("rgb", (), ()), ("ycbcr", YCBCR, ()), ("gray", ("--container", "generic", "--photometric", "gray"), ()),
         ("made-gray", (), ("--gray", "--codec", "zstd")), ("j2k", ("--compression", "33005"), ()), ("groups", (), SMALL_GROUPS),
         ("none", (), ("--codec", "none", *SMALL_GROUPS)), ("zstd", (), ("--codec", "zstd")), ("deflate", (), ("--codec", "deflate")),
         ("left-out", (), ("--codec", "zstd", "--tissue-only")), ("level-1", ("--levels", "2"), ("--level", "1")),
         ("tiles", ("--tile", "512x64"), ()), ("unknown", ("--mpp", "none"), ()))


def check_made_again(path):
    """wsi_store makes the same image, and takes that of wsi2h5 for its own."""
    before, image = bytes_in(path), image_of(path)
    other = shutil.move(image, image + ".wsi2h5")
    expect(ome_zarr.write_ome_zarr(path) == (image, True), "made")
    expect(bytes_in(path) == before, "%s: the same index", path)
    files = [os.path.relpath(os.path.join(d, f), image) for d, _, names in os.walk(image) for f in names]
    expect(len(files) == len([1 for d, _, names in os.walk(other) for f in names]), "the same files")
    for f in files:
        a, b = os.path.join(image, f), os.path.join(other, f)
        if f.endswith(".json"):
            expect(json_in(a) == json_in(b), "%s %s: %s, %s", path, f, json_in(a), json_in(b))
        else:  # encoders differ by little
            expect(0.9 < os.path.getsize(a) / os.path.getsize(b) < 1.1, "%s %s: %d, %d bytes", path, f, os.path.getsize(a), os.path.getsize(b))
    expect(ome_zarr.write_ome_zarr(path) == (image, False), "up to date")
    shutil.rmtree(image)
    os.rename(other, image)
    expect(ome_zarr.write_ome_zarr(path) == (image, False), "up to date, although wsi2h5 made it")
    with open_store(path) as s:
        expect(len(ome_zarr.made_levels(s)) == len(os.listdir(image)) - 2, "Slide uses these levels")


def test_levels_of_every_codec():
    has("zstandard", "PIL")
    for name, kind, options in KINDS:
        p, (path,) = converted(slide(*kind, name=name), "--json", *options)
        (line,) = json_lines(p.out)
        expect(line["status"] == "done" and line["zarr"] == image_of(path) and line["store_bytes"] == os.path.getsize(path), "%s", line)
        expect(unfinished(path) == [], "%s", unfinished(path))
        check_image(path)
        run(H5SPEC, "verify", path)
        check_made_again(path)


def test_threads_change_nothing():
    for kind, options in (((), ()), ((), ("--codec", "zstd"))):
        found = []
        for j in ("1", "5"):
            _, (path,) = converted(slide(*kind), "-j", j, *options)
            image = image_of(path)
            found.append({os.path.relpath(os.path.join(d, f), image): bytes_in(os.path.join(d, f))
                          for d, _, names in os.walk(image) for f in names if not d.startswith(image + "/0")})
        expect(found[0] == found[1], "-j")


def test_noise_that_cannot_be_packed():
    """A level holds chunks that zstd makes no smaller."""
    has("zstandard")
    folder = tmp()
    import PIL.Image
    noise = np.random.default_rng(1).integers(0, 256, (1200, 700, 3), np.uint8)
    noise = np.repeat(np.repeat(noise, 2, 0), 2, 1)  # so that its means are noise
    PIL.Image.fromarray(noise).save(os.path.join(folder, "noise.png"))
    _, (path,) = converted(os.path.join(folder, "noise.png"), "--codec", "none")
    check_image(path)
    expect(os.path.getsize(os.path.join(image_of(path), "1/c/0/0/0")) > 0.9 * noise.size / 4, "noise")


def test_a_second_run_completes_what_is_missing():
    has("zstandard", "PIL")
    folder, out = tmp(), os.path.join(tmp(), "out")
    path = copied(slide(), os.path.join(folder, "a.svs"))
    _, (a,) = converted(path, "--codec", "zstd", out=out)
    image = image_of(a)

    def again(*words, status=0, options=(), made=True):
        before = os.stat(image).st_ino if os.path.exists(image) else 0
        p, (b,) = converted(path, "--codec", "zstd", *options, status=status, out=out)
        says(p.err, *words)
        expect(b == a and (os.stat(image).st_ino != before) == made, "%s", words)
        expect(unfinished(a) == [], "%s", unfinished(a))
        check_image(a)
    again("1 skipped (up to date)", made=False)
    shutil.rmtree(image)
    again("1 skipped (up to date)", "its OME-Zarr image was made")
    os.truncate(a, os.path.getsize(a) - 100)  # copied without the end of the index
    again("1 skipped (up to date)", made=False)
    shutil.rmtree(image)
    os.makedirs(os.path.join(out, ".a.ome.zarr.part", "1", "c", "0", "0"))  # what a killed run has left
    put_file(os.path.join(out, ".a.ome.zarr.part", "1", "c", "0", "0", "0"), b"unfinished")
    again("its OME-Zarr image was made")
    os.makedirs(os.path.join(out, ".a.ome.zarr.part", "0"))
    run(WSI2H5, "-q", "-o", out, "--codec", "zstd", path)  # also a run without --zarr
    expect(unfinished(a) == [], "%s", unfinished(a))
    again("1 converted", options=("--force",))
    shutil.copy(slide("--seed", "2"), path)  # the slide changes: the old image must not stay
    again("replaced, because", "1 converted")
    shard = os.path.join(image, "0/c/0/0/0")  # a link that leads to whatever store lies there
    os.unlink(shard)
    os.symlink("../../../../../a.h5", shard)
    run(WSI2H5, "--force", "-q", "-o", out, "--codec", "zstd", "--tissue-thresholds", "0,0", path)
    again("its OME-Zarr image was made", options=("--tissue-thresholds", "0,0"))


def test_without_links_the_link_is_symbolic():
    path = slide()
    out = os.path.join(tmp(), "out")
    _, (a,) = converted(path, out=out)
    shard = os.path.join(image_of(a), "0/c/0/0/0")
    os.unlink(shard)
    os.symlink("../../../../../" + os.path.basename(a), shard)
    says(converted(path, out=out)[0].err, "1 skipped")
    check_image(a)


def test_what_lies_in_the_way_is_kept():
    out, path = os.path.join(tmp(), "out"), copied(slide(), os.path.join(tmp(), "a.svs"))
    image = os.path.join(out, "a.ome.zarr")
    os.makedirs(image)
    open(os.path.join(image, "mine"), "w").close()
    for options in ((), ("--force",)):
        p, (a,) = converted(path, "--json", *options, out=out, status=1)
        says(p.err, "a.svs: its store", "is whole, but has no OME-Zarr image", "not overwritten", "1 failed")
        expect(os.listdir(image) == ["mine"], "kept")
        run(H5SPEC, "verify", a)
        (line,) = json_lines(p.out)
        expect(line["status"] == "failed" and line["cause"] == "input", "%s", line)
        expect(csv_rows(os.path.join(out, "failed.csv"))[-1]["slide"] == "a.svs", "failed.csv")
    shutil.rmtree(image)
    says(converted(path, out=out)[0].err, "1 skipped (up to date)", "image was made")
    expect(not os.path.exists(os.path.join(out, "failed.csv")), "failed.csv")
    check_image(a)
    os.unlink(os.path.join(image, "zarr.json"))  # nothing says that it is ours
    says(converted(path, out=out, status=1)[0].err, "no image made by wsi2h5")


def test_tiles_that_zarr_cannot_mix():
    grainy = made("--size", "700x700", "--tile", "16", "--quality", "100", name="grainy")
    p, (path,) = converted(grainy, "--codec", "lz4", status=1)
    says(p.err, "stored without compression", "--codec none or keep", "its store")
    expect(not os.path.exists(image_of(path)), "no image")
    run(H5SPEC, "verify", path)


def test_tiles_that_are_missing_or_damaged():
    """Of JPEG 2000 their white pixels are stored as they are: Zarr shows what is absent as 255."""
    has("zstandard", "PIL")
    for kind in ((), ("--compression", "33005")):
        for damage, status in (("--missing", 0), ("--garbage", 4)):
            bad = slide(*kind, damage, "1,1", name="bad")
            p, (path,) = converted(bad, status=status)
            image = image_of(path)
            got = level_of(image, 1)[0]
            expect(got[130:230, 130:230].min() >= 253, "%s: %s", kind, got[130:230, 130:230].min())
            converted(bad, "--on-damage", "fail", status=0 if damage == "--missing" else 1)


def test_groups_of_slides_and_folders():
    folder = os.path.join(tmp(), "in")
    for k, name in enumerate(("a.svs", "b.svs", "deep/c.svs", "deep/d.svs")):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        shutil.copy(slide("--seed", str(k), size="700x600"), os.path.join(folder, name))
    for options in (("--slides", "4", "-j", "4"), ("--slides", "1"), ("--task", "1/1")):
        stores = converted(folder, *options)[1]
        expect(len(stores) == 4, "%s", stores)
        for path in stores:
            check_image(path)
    out = os.path.join(tmp(), "tree")
    converted(folder, "--keep-tree", out=out)
    check_image(os.path.join(out, "deep", "c.h5"))
    key, out = os.path.join(tmp(), "key.csv"), os.path.join(tmp(), "anonymous")
    stores = converted(folder, "--anonymous", key, "--json", out=out)[1]
    for path in stores:
        check_image(path)
        for d, _, names in os.walk(image_of(path)):
            for n in names:
                expect(not any(w in os.fsencode(n) + bytes_in(os.path.join(d, n)) for w in (b".svs", b"deep")), "%s shows a name", n)
    one = os.path.join(tmp(), "one.h5")
    run(WSI2H5, "--zarr", "-q", "-o", one, os.path.join(folder, "a.svs"))
    check_image(one)


def test_images_are_no_slides_and_no_stores():
    folder = tmp()
    shutil.copy(slide(size="700x600"), os.path.join(folder, "a.svs"))
    _, (path,) = converted(folder, out=folder)
    says(converted(folder, out=folder)[0].err, "1 skipped (up to date)")
    err = run(WSI2H5, "--print-inputs", "-o", folder, folder).err
    says(err, "a.ome.zarr: skipped: holds a Zarr image")
    expect("zarr.json" not in err, "%s", err)
    result = os.path.join(tmp(), "r") + "/"
    says(run(H5SPEC, "run", "--device", "cpu", "-o", result, folder).err, "1 done, 0 failed")
    os.unlink(path)
    os.unlink(os.path.join(folder, "a.svs"))
    says(run(WSI2H5, "-o", folder, folder, status=1).err, "a folder without slides")


def test_an_image_changes_no_result():
    """A result stays up to date when its store gets an image, and a store has one result, with and without."""
    out, result = os.path.join(tmp(), "out"), os.path.join(tmp(), "results", "slide.h5")
    path = os.path.join(out, "slide.h5")
    run(WSI2H5, "-q", "-o", out, slide())
    run(H5SPEC, "run", "-q", "--device", "cpu", "-o", os.path.dirname(result) + "/", path)
    converted(slide(), out=out)
    says(run(H5SPEC, "run", "--device", "cpu", "-o", os.path.dirname(result) + "/", path).err, "1 skipped")
    other = os.path.join(tmp(), "o.h5")
    run(H5SPEC, "run", "-q", "--device", "cpu", "-o", other, path)
    says(run(H5SPEC, "compare", result, other).out, "identical")


def test_a_signal_leaves_no_image():
    out = os.path.join(tmp(), "out")
    path = slide(size="9000x7000", name="long")
    run(WSI2H5, "-q", "-o", out, path)
    part = os.path.join(out, ".long.ome.zarr.part", "1", "c", "0", "0", "0")

    p = subprocess.Popen([WSI2H5, "--zarr", "-q", "-j", "1", "-o", out, path])
    while not os.path.exists(part) and p.poll() is None:
        time.sleep(0.01)
    p.terminate()
    expect(p.wait(60) == 3, "status %d", p.returncode)
    expect(os.listdir(out) == ["long.h5"], "%s", os.listdir(out))
    run(H5SPEC, "verify", os.path.join(out, "long.h5"))


def test_a_full_disk():
    out, path = os.path.join(tmp(), "out"), slide()
    run(WSI2H5, "-q", "-o", out, path)
    p = failing("write", out, 1, errno.ENOSPC, WSI2H5, "--zarr", "--json", "-o", out, path)
    (line,) = json_lines(p.out)
    expect(p.returncode == 5 and line["detail"] == "disk", "%d: %s", p.returncode, line)
    says(line["message"], "its store", "is whole, but has no OME-Zarr image", "No space left")
    expect(sorted(os.listdir(out)) == ["failed.csv", "slide.h5"], "%s", os.listdir(out))


@later("ci")
def test_an_allocation_fails():
    """The store is whole or not there, and so is the image."""
    path = os.path.join(tmp(), "out", "a.h5")
    os.mkdir(os.path.dirname(path))
    met = set()
    for codec in ("keep", "zstd"):
        argv = [WSI2H5, "--zarr", "-q", "-j", "1", "-o", path, "--codec", codec, slide(size="528x80")]
        for ran, place in failing_allocations(argv, path, met=met):
            left = sorted(os.listdir(os.path.dirname(path)))
            crashed = ran.status < 0 or ran.status == 255  # inside a library
            expect(crashed or ran.status in (0, 1, 5) and unfinished(path) == [], "%s: status %d: %s: %s", place, ran.status, left, ran.err)
            expect(ran.status != 0 or left == ["a.h5", "a.ome.zarr"], "%s: %s", place, left)
            shutil.rmtree(image_of(path), ignore_errors=True)


if __name__ == "__main__":
    main(globals())
