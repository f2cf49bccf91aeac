#!/usr/bin/env python3
"""What scripts/ write: nothing of others is overwritten, files appear whole, and nothing unfinished stays."""
import h5py

from lib import *

os.environ.setdefault("HDF5_PLUGIN_PATH", BUILD)
sys.path.insert(0, os.path.join(ROOT, "scripts"))
sys.dont_write_bytecode = True
from wsi_store import publish

COMMAND = os.path.join(ROOT, "scripts", "wsi-store")


def wsi_store(*words, status=0, **how):
    return run(sys.executable, COMMAND, *words, status=status, **how)


def store_of(name="a", *kind, folder=None):
    """A store that a test may change."""
    path = os.path.join(folder or tmp(), name + ".h5")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return shutil.copy(store(made("--size", "700x600", "--tile", "256", *kind), "--codec", "keep"), path)


def result_of(path):
    folder = os.path.join(tmp(), "r")
    run(H5SPEC, "run", "-q", "--device", "cpu", "-o", folder + "/", path)
    return os.path.join(folder, os.path.basename(path))


def outputs_of(path, out, slide="slide"):
    """{subcommand: (its words, the files that it writes)} of what this Python has modules for."""
    name = os.path.basename(path)[:-3]
    every = {"coords": (["coords", path, "-o", out], [slide + "_patches.h5"], ()),
             "png": (["patches", path, "-o", out, "--size", "128", "--limit", "2"], ["patches.csv", "x000000_y000000.png"], ("PIL",)),
             "jpeg": (["patches", path, "-o", out, "--size", "128", "--limit", "2", "--format", "jpeg"],
                      ["patches.csv", "x000000_y000000.jpg"], ("PIL",)),
             "tfrecord": (["patches", path, "-o", out, "--format", "tfrecord", "--limit", "2"], [slide + ".tfrecords"], ("PIL",)),
             "webdataset": (["patches", path, "-o", out, "--format", "webdataset", "--limit", "2"], [slide + ".tar"], ("PIL",)),
             "dicom": (["dicom", path, "-o", out], [name + ".dcm", name + ".thumbnail.dcm"], ("pydicom", "PIL")),
             "windows": (["windows", result_of(path), "-o", os.path.join(out, "w.parquet")], ["w.parquet"], ("pyarrow",))}
    return {k: (words, files) for k, (words, files, needs) in every.items() if not lacking(needs)}


def lacking(modules):
    return [m for m in modules if importlib.util.find_spec(m) is None]


def slide_name(path):
    with h5py.File(path) as f:
        name = f.attrs["source_name"]
    return os.path.splitext(name if isinstance(name, str) else name.decode())[0]


def hidden(folder):
    return [n for n in os.listdir(folder) if n.startswith(".")]


def test_files_of_others_are_not_overwritten():
    path = store_of()
    for kind, (words, files) in outputs_of(path, os.path.join(tmp(), "out"), slide_name(path)).items():
        for file in files:
            out = tempfile.mkdtemp(dir=tmp())
            mine = os.path.join(out, file)
            for plant in (lambda: put_file(mine, b"the user's own"), lambda: os.mkfifo(mine), lambda: os.mkdir(mine), lambda: shutil.copy(path, mine)):
                plant()
                at = os.lstat(mine)
                again = [out if w == os.path.dirname(w) + "/out" and k and words[k - 1] == "-o" else w for k, w in enumerate(words)]
                again = [os.path.join(out, "w.parquet") if w.endswith("w.parquet") else w for w in again]
                says(wsi_store(*again, status=1, timeout=60).err, file, "not overwritten")
                expect(os.path.samestat(at, os.lstat(mine)) and at.st_mtime_ns == os.lstat(mine).st_mtime_ns, "%s: %s", kind, file)
                expect(hidden(out) == [], "%s: %s", kind, hidden(out))
                shutil.rmtree(mine) if os.path.isdir(mine) else os.unlink(mine)


def test_own_older_files_are_replaced():
    path = store_of()
    out = os.path.join(tmp(), "out")
    for kind, (words, files) in outputs_of(path, out, slide_name(path)).items():
        shutil.rmtree(out, ignore_errors=True)
        wsi_store(*words)
        before = {f: os.stat(os.path.join(out, f)).st_ino for f in files}
        data = {f: bytes_in(os.path.join(out, f)) for f in files}
        held = [open(os.path.join(out, f)) for f in files]  # so that no inode is used again
        wsi_store(*words)
        expect(all(os.stat(os.path.join(out, f)).st_ino != n for f, n in before.items()), "%s: replaced", kind)
        expect(kind == "windows" or all(bytes_in(os.path.join(out, f)) == d for f, d in data.items()), "%s: the same", kind)
        expect(hidden(out) == [], "%s: %s", kind, hidden(out))
        for f in held:
            f.close()


def test_inputs_are_not_overwritten():
    a, b = store_of(), store_of("b", "--seed", "2")
    shutil.move(a, os.path.join(os.path.dirname(b), slide_name(b) + ".h5"))
    a = os.path.join(os.path.dirname(b), slide_name(b) + ".h5")  # CLAM's name of the coordinates of b
    before = bytes_in(a)
    says(wsi_store("coords", "--names", "clam", a, b, "-o", os.path.dirname(a), status=1).err, "is an input")
    says(wsi_store("coords", "--names", "clam", b, "-o", os.path.dirname(a), status=1).err, "is not coordinates made by wsi-store")
    expect(bytes_in(a) == before, "the store")
    if lacking(["pyarrow"]):
        return
    result = result_of(a)
    before = bytes_in(result)
    says(wsi_store("windows", result, "-o", result, status=1).err, "is an input")
    link = os.path.join(tmp(), "link.parquet")
    os.symlink(result, link)
    says(wsi_store("windows", result, "-o", link, status=1).err, "is an input")
    expect(bytes_in(result) == before, "the result")


def test_two_outputs_of_one_name():
    a, b = store_of("a", folder=os.path.join(tmp(), "one")), store_of("a", "--seed", "2", folder=os.path.join(tmp(), "two"))
    out = os.path.join(tmp(), "out")
    for words in (["coords", a, b, "-o", out, "--names", "clam"],) + ((["dicom", a, b, "-o", out],) if not lacking(["pydicom"]) else ()):
        p = wsi_store(*words, status=1)
        says(p.err, "another output of this run has this name", "1 of 2 stores failed")
        expect(len([n for n in os.listdir(out) if "thumbnail" not in n]) == 1, "%s", os.listdir(out))
        shutil.rmtree(out)


def test_a_store_that_cannot_be_used_stops_no_other():
    folder = os.path.join(tmp(), "st")
    a, c = store_of("a", folder=folder), store_of("c", folder=folder)
    bad = os.path.join(folder, "b\x1b[31m\u202e.h5")
    put_file(bad, b"no store")
    out = os.path.join(tmp(), "out")
    p = wsi_store("coords", bad, a, "-o", out, status=1)
    says(p.err, "_patches.h5: ", "1 of 2 stores failed", "b\\x1b[31m\\u202e.h5")
    expect("\x1b" not in p.err and "\u202e" not in p.err, "%r", p.err)
    expect(len(os.listdir(out)) == 1, "written")
    says(wsi_store("zarr", bad, c, status=1).err, "c.ome.zarr: made", "\\x1b[31m\\u202e")


def too_large(bytes_):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))


def test_a_disk_that_takes_no_more():
    """One line and status 5, nothing unfinished, and the output that existed stays."""
    path = store_of()
    out = os.path.join(tmp(), "out")
    rows = dict(outputs_of(path, out, slide_name(path)), zarr=(["zarr", path], []))
    for kind, (words, files) in rows.items():
        shutil.rmtree(out, ignore_errors=True)
        os.mkdir(out)
        before = bytes_in(path)
        p = subprocess.run([sys.executable, COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=too_large(10))
        err = p.stderr.decode()
        expect(p.returncode == 5 and len(err.splitlines()) == 1, "%s: status %d: %s", kind, p.returncode, err)
        says(err, "cannot be written: File too large; run again")
        expect(os.listdir(out) == [] and hidden(os.path.dirname(path)) == [], "%s: %s", kind, os.listdir(out))
        expect(bytes_in(path) == before, "the store")
        run(H5SPEC, "verify", "-q", path)


def test_signals_leave_nothing():
    """A signal ends with status 3; what a killed run leaves, the next run of any of our programs removes."""
    slide = made("--size", "6000x5000", "--tile", "256", name="large")
    folder = os.path.join(tmp(), "st")
    run(WSI2H5, "-q", "--codec", "zstd", "-o", folder, slide)
    (path,) = glob.glob(folder + "/*.h5")
    for number, status in ((signal.SIGTERM, 3), (signal.SIGHUP, 3), (signal.SIGINT, 3), (signal.SIGKILL, -9)):
        p = subprocess.Popen([sys.executable, COMMAND, "zarr", path], stderr=subprocess.PIPE)
        while not hidden(folder) and p.poll() is None:
            time.sleep(0.005)
        p.send_signal(number)
        err = p.communicate(timeout=60)[1].decode()
        expect(p.returncode == status and "Traceback" not in err, "%s: status %d: %s", number, p.returncode, err)
        expect(bool(hidden(folder)) == (status == -9) and not os.path.exists(path[:-3] + ".ome.zarr"), "%s: %s", number, hidden(folder))
    run(WSI2H5, "-q", "--codec", "zstd", "-o", folder, slide)
    expect(hidden(folder) == [], "after wsi2h5: %s", hidden(folder))


def test_what_was_left_is_known_by_its_name():
    """Of this host when the process is gone, of others after a day; nothing that only ends like it."""
    folder = tmp()
    host, gone = publish.host_name(), 2 ** 22 - 3
    old = {".a.%s-%d-1.part" % (host, gone): True, ".a.%s-%d-1.part" % (host, os.getppid()): False,
           ".a.h5.elsewhere-%d-1.part" % gone: False, ".notes.part": False, ".a.%s-x-1.part" % host: False, "a.%s-%d-1.part" % (host, gone): False}
    for name in old:
        put_file(os.path.join(folder, name), b"x")
    aged = os.path.join(folder, ".b.elsewhere-7-1.part")
    put_file(aged, b"x")
    os.utime(aged, (time.time() - 25 * 3600,) * 2)
    publish.clean(folder)
    expect(not os.path.exists(aged), "aged")
    for name, goes in old.items():
        expect(os.path.exists(os.path.join(folder, name)) != goes, "%s", name)
    long = "x" * 200 + "\u00e4" * 20 + ".ome.zarr"
    name = os.path.basename(publish.temporary_name(os.path.join(folder, long)))
    expect(len(os.fsencode(name)) <= 255 and publish.PART.fullmatch(name), "%s", name)


if __name__ == "__main__":
    main(globals())
