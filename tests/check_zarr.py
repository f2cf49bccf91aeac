#!/usr/bin/env python3
"""wsi-store zarr: the image beside each store. What other programs read of it is in check_bridges.py."""
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


COMMAND = os.path.join(ROOT, "scripts", "wsi-store")


def zarr(*words, status=0, **how):
    return run(sys.executable, COMMAND, "zarr", *words, status=status, **how)


def converted(path, *options, status=0, out=None, image=0):
    """(process of wsi2h5, its store, to which `wsi-store zarr` has given an image if `image` is its status, or None)."""
    out = out or tempfile.mkdtemp(dir=tmp())
    options += () if "--codec" in options else ("--codec", "keep")
    p = run(WSI2H5, "-o", out, *options, path, status=status)
    found = sorted(glob.glob(os.path.join(glob.escape(out), "*.h5")))
    if image is not None:
        zarr(*found, status=image)
    return p, found[0]


def unfinished(path):
    """Temporary files and folders beside a store and in its image."""
    return [n for d, folders, names in os.walk(os.path.dirname(path)) for n in folders + names if n.endswith(".part")]


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


def test_levels_of_every_codec():
    has("zstandard", "PIL")
    for name, kind, options in KINDS:
        _, path = converted(slide(*kind, name=name), *options)
        expect(unfinished(path) == [], "%s", unfinished(path))
        check_image(path)
        run(H5SPEC, "verify", path)
        before = {n: os.stat(n).st_mtime_ns for d, _, names in os.walk(image_of(path)) for n in (os.path.join(d, f) for f in names)}
        says(zarr(path).err, "exists (up to date)")
        expect(all(os.stat(n).st_mtime_ns == t for n, t in before.items()), "a second run changes nothing")
        with open_store(path) as s:
            expect(len(ome_zarr.made_levels(s)) == len(os.listdir(image_of(path))) - 2, "Slide uses these levels")


def test_noise_that_cannot_be_packed():
    """A level holds chunks that zstd makes no smaller."""
    has("zstandard")
    folder = tmp()
    import PIL.Image
    noise = np.random.default_rng(1).integers(0, 256, (1200, 700, 3), np.uint8)
    noise = np.repeat(np.repeat(noise, 2, 0), 2, 1)  # so that its means are noise
    PIL.Image.fromarray(noise).save(os.path.join(folder, "noise.png"))
    _, path = converted(os.path.join(folder, "noise.png"), "--codec", "none")
    check_image(path)
    expect(os.path.getsize(os.path.join(image_of(path), "1/c/0/0/0")) > 0.9 * noise.size / 4, "noise")


def test_wsi2h5_names_what_makes_images_now():
    says(run(WSI2H5, "--zarr", "-o", tmp(), slide(), status=2).err, "--zarr is no option any more", "`wsi-store zarr STORE.h5`")


def test_an_image_of_another_store_goes():
    """wsi2h5 removes the image that shows the store which it has replaced, or that another program has replaced."""
    has("zstandard")
    for how in ("slide", "copied"):
        path, out = copied(slide(), os.path.join(tmp(), "a.svs")), os.path.join(tmp(), "out")
        _, a = converted(path, "--codec", "zstd", out=out)
        image, labels = image_of(a), os.path.join(image_of(a), "labels", "zarr.json")
        if how == "copied":
            os.mkdir(os.path.dirname(labels))
            put_file(labels, b"mine")
        shutil.copy(slide("--seed", "2"), path)
        if how == "copied":  # the store comes from elsewhere: a run finds it up to date
            shutil.copy(converted(path, "--codec", "zstd", image=None)[1], a + ".new")
            os.rename(a + ".new", a)
            says(run(H5SPEC, "verify", a, status=1).err, "a.h5: the OME-Zarr image beside it shows another store", "wsi-store zarr")
            with open_store(a) as s:
                expect(ome_zarr.made_levels(s) == [], "Slide uses no level of it")
        p, _ = converted(path, "--codec", "zstd", out=out, image=None)
        says(p.err, "a.h5: the OME-Zarr image beside it showed another store and was removed", "wsi-store zarr")
        expect([n for d, _, names in os.walk(image) for n in (os.path.join(d, f) for f in names)] == ([labels] if how == "copied" else []), "%s", how)
        expect(os.path.exists(image) == (how == "copied"), "%s", how)
        run(H5SPEC, "verify", a)
        expect("image" not in converted(path, "--codec", "zstd", out=out, image=None)[0].err, "said once")
        zarr(a)  # the command that the message names
        expect(how != "copied" or bytes_in(labels) == b"mine", "what others keep in it")
        shutil.rmtree(os.path.dirname(labels), ignore_errors=True)
        check_image(a)


def test_what_others_keep_in_an_image_stays():
    """labels/, where OME-Zarr programs put segmentations, also when the image is made again; levels that it no longer has go."""
    has("PIL")
    path, out = copied(slide(), os.path.join(tmp(), "a.svs")), os.path.join(tmp(), "out")
    _, a = converted(path, out=out)
    labels = os.path.join(image_of(a), "labels", "nuclei", "zarr.json")
    os.makedirs(os.path.dirname(labels))
    put_file(labels, b"mine")
    zarr("--force", a)
    expect(bytes_in(labels) == b"mine", "--force")
    shutil.copy(converted(slide(size="700x600"), image=None)[1], a + ".new")
    os.rename(a + ".new", a)
    zarr(a)
    expect(sorted(os.listdir(image_of(a))) == ["0", "1", "labels", "zarr.json"] and bytes_in(labels) == b"mine", "%s", os.listdir(image_of(a)))
    shutil.rmtree(os.path.join(image_of(a), "labels"))
    check_image(a)


def test_links_and_other_folders_in_the_way():
    has("PIL")
    _, a = converted(slide(), image=None)
    image, victim = image_of(a), os.path.join(tmp(), "victim")
    os.mkdir(victim)
    put_file(os.path.join(victim, "zarr.json"), b"{}")
    for make in (lambda: os.symlink(victim, image), lambda: put_file(image, b"x"), lambda: os.mkdir(image),
                 lambda: (os.mkdir(image), os.mkfifo(image + "/zarr.json")), lambda: (os.mkdir(image), os.symlink("/dev/zero", image + "/zarr.json")),
                 lambda: (os.mkdir(image), put_file(image + "/zarr.json", b'{"attributes": {}}'), os.mkdir(image + "/labels")),
                 lambda: (os.mkdir(image), put_file(image + "/.zgroup", b"{}"), os.mkdir(image + "/labels")), lambda: os.makedirs(image + "/0")):
        make()
        says(zarr(a, status=1, timeout=60).err, "exists and is no image of a store; --force replaces it")
        expect(os.path.lexists(image) and os.listdir(victim) == ["zarr.json"], "kept")
        shutil.rmtree(image) if os.path.isdir(image) and not os.path.islink(image) else os.unlink(image)
    zarr(a)
    shutil.rmtree(os.path.join(image, "1"))
    os.symlink(victim, os.path.join(image, "1"))
    says(zarr("--force", a, status=1).err, "1: is a link, which is not followed")
    expect(os.listdir(victim) == ["zarr.json"] and bytes_in(victim + "/zarr.json") == b"{}", "the victim")
    expect(unfinished(a) == [], "%s", unfinished(a))
    os.unlink(os.path.join(image, "1"))
    zarr(a)  # nothing but the one that was left unfinished
    check_image(a)


def test_runs_at_once_make_one_image():
    """They need no common locks: each has its own temporary names, and zarr.json comes last."""
    has("PIL", "zstandard")
    _, a = converted(slide(size="3000x2000"), image=None)
    argv = [sys.executable, COMMAND, "zarr", a]
    for wait in (0, 0.2, 0.4):
        shutil.rmtree(image_of(a), ignore_errors=True)
        first = subprocess.Popen(argv, stderr=subprocess.PIPE)
        time.sleep(wait)
        second = subprocess.Popen(argv, stderr=subprocess.PIPE)
        for p in (first, second):
            err = p.communicate(timeout=60)[1]
            expect(p.returncode == 0, "%s", err)
        check_image(a)
        expect(unfinished(a) == [], "%s", unfinished(a))


def test_wsi2h5_removes_nothing_else():
    """A folder that is no image of ours, one of this store, and what lies behind links, stay."""
    has("zstandard")
    path, out = copied(slide(), os.path.join(tmp(), "a.svs")), os.path.join(tmp(), "out")
    _, a = converted(path, "--codec", "zstd", out=out)
    image, victim = image_of(a), os.path.join(tmp(), "victim")
    root = bytes_in(os.path.join(image, "zarr.json"))
    expect("image" not in run(WSI2H5, "--force", "-o", out, "--codec", "zstd", path).err, "the same store again")
    check_files = lambda folder: sorted(os.path.relpath(os.path.join(d, f), folder) for d, _, names in os.walk(folder) for f in names)
    expect("1/c/0/0/0" in check_files(image), "kept")
    os.rename(image, victim)
    before = check_files(victim)
    shutil.copy(slide("--seed", "2"), path)
    for make in (lambda: os.symlink(victim, image), lambda: (os.mkdir(image), os.mkfifo(image + "/zarr.json")),
                 lambda: (os.mkdir(image), put_file(image + "/zarr.json", b'{"attributes": {}}')),
                 lambda: (os.mkdir(image), put_file(image + "/zarr.json", root), os.symlink(victim + "/1", image + "/1"),
                          os.mkdir(image + "/0"), os.symlink(victim + "/0/c", image + "/0/c"))):
        make()
        run(WSI2H5, "-q", "--force", "-o", out, "--codec", "zstd", path)
        expect(check_files(victim) == before, "%s", check_files(victim))
        if os.path.islink(image):
            os.unlink(image)
        else:
            expect(os.path.lexists(image), "the folder")
            shutil.rmtree(image)


def test_tiles_that_zarr_cannot_mix():
    grainy = made("--size", "700x700", "--tile", "16", "--quality", "100", name="grainy")
    path = converted(grainy, "--codec", "lz4", image=None)[1]
    says(zarr(path, status=1).err, "stored without compression", "--codec none or keep")
    expect(not os.path.exists(image_of(path)), "no image")
    run(H5SPEC, "verify", path)


def test_tiles_that_are_missing_or_damaged():
    """Of JPEG 2000 their white pixels are stored as they are: Zarr shows what is absent as 255."""
    has("zstandard", "PIL")
    for kind in ((), ("--compression", "33005")):
        for damage, status in (("--missing", 0), ("--garbage", 4)):
            bad = slide(*kind, damage, "1,1", name="bad")
            _, path = converted(bad, status=status)
            got = level_of(image_of(path), 1)[0]
            expect(got[130:230, 130:230].min() >= 253, "%s: %s", kind, got[130:230, 130:230].min())


def test_images_of_many_stores():
    has("PIL")
    folder = os.path.join(tmp(), "in")
    for k, name in enumerate(("a.svs", "b.svs", "deep/c.svs")):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        shutil.copy(slide("--seed", str(k), size="700x600"), os.path.join(folder, name))
    out = os.path.join(tmp(), "out")
    converted(folder, out=out)
    for name in "abc":
        check_image(os.path.join(out, name + ".h5"))
    key, out = os.path.join(tmp(), "key.csv"), os.path.join(tmp(), "anonymous")
    converted(folder, "--anonymous", key, out=out)
    for path in glob.glob(out + "/*.h5"):
        check_image(path)
        for d, _, names in os.walk(image_of(path)):
            for n in names:
                expect(not any(w in os.fsencode(n) + bytes_in(os.path.join(d, n)) for w in (b".svs", b"deep")), "%s shows a name", n)


def test_images_are_no_slides_and_no_stores():
    has("PIL")
    folder = tmp()
    shutil.copy(slide(size="700x600"), os.path.join(folder, "a.svs"))
    _, path = converted(folder, out=folder)
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
    has("PIL")
    out, result = os.path.join(tmp(), "out"), os.path.join(tmp(), "results", "slide.h5")
    path = os.path.join(out, "slide.h5")
    run(WSI2H5, "-q", "-o", out, slide())
    run(H5SPEC, "run", "-q", "--device", "cpu", "-o", os.path.dirname(result) + "/", path)
    zarr(path)
    says(run(H5SPEC, "run", "--device", "cpu", "-o", os.path.dirname(result) + "/", path).err, "1 skipped")
    other = os.path.join(tmp(), "o.h5")
    run(H5SPEC, "run", "-q", "--device", "cpu", "-o", other, path)
    says(run(H5SPEC, "compare", result, other).out, "identical")


if __name__ == "__main__":
    main(globals())
