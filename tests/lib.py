"""What all check_*.py share: running programs, making slides, reporting what passed.

A test is a function whose name begins with test_. It passes when it returns, is skipped when it
raises Skip, fails when it raises anything else. main() prints one line per test:
"ok NAME", "skip NAME: reason", "later NAME: ..." (see TIERS), "not ok NAME: why".
"""
import csv
import glob
import hashlib
import importlib.util
import io
import json
import os
import pty
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
SAN = os.environ.get("SAN", "")
WSI2H5 = os.path.join(BUILD, "wsi2h5")
H5SPEC = os.path.join(BUILD, "h5spec")
TABLES = os.path.join(BUILD, "tests", "h5spec_tables")  # whose merge writes a table of any number of slides
if os.environ.get("REPORT") == "python":  # which program writes reports; else that in C
    os.environ["WSI_REPORT"] = "python"
MKSLIDE = os.path.join(BUILD, "tests", "mkslide")
TIMEOUT = 600 if SAN else 120

# How much runs. A test without a mark belongs to the first tier. Programs that are started by hand run everything.
TIERS = {"check": "make check", "ci": ".ci/run", "all": "make check-all"}
TIER = os.environ.get("TIER") or "all"

os.environ.setdefault("LSAN_OPTIONS", "suppressions=%s/tests/lsan.supp:print_suppressions=0" % ROOT)
os.environ.setdefault("TSAN_OPTIONS", "suppressions=%s/tests/tsan.supp" % ROOT)
os.environ["HDF5_USE_FILE_LOCKING"] = "FALSE"  # for h5py: the stores are only read


# a shell that starts `make check` in the background has SIGINT ignored, also in what we start
signal.signal(signal.SIGINT, signal.default_int_handler)
LONGEST = 1200  # s, of a test in the tiers check and ci


def same_build():
    """Words with which `make` in ROOT finds the build under test up to date, so that it compiles nothing."""
    with open(os.path.join(BUILD, "config")) as f:
        config = f.read()
    arch = " ".join(re.findall(r",code=(\S+)", config))
    compiler, flags = re.match(r"(\S+) (.*?) -std=", config).groups()
    return (["B=" + os.path.relpath(BUILD, ROOT), "CC=" + compiler, "CFLAGS=" + flags] + (["ARCH=" + arch] if arch else []) +
            ([] if "-DHAVE_CUDA" in config else ["CUDA=0"]) + (["WERROR=1"] if "-Werror" in config else []))


class Skip(Exception):
    pass


class Failed(AssertionError):
    pass


def runs_in(tier):
    """Does this run include what belongs to a tier?"""
    return list(TIERS).index(TIER) >= list(TIERS).index(tier)


def later(tier):
    """Marks a test that is left to a later tier: @later("ci")."""
    def mark(test):
        test.tier = tier
        return test
    return mark


def races(test):
    """Marks a test that the thread sanitizer can learn from. If a program has such tests, it runs only these before make check-all."""
    test.races = True
    return test


def by_tier(check, ci, all):
    """The number or list for this tier."""
    return {"check": check, "ci": ci, "all": all}[TIER]


TMP = tempfile.mkdtemp(prefix="wsi-")
_made = {}


def tmp(name=""):
    """A new folder."""
    return tempfile.mkdtemp(prefix=name + "-", dir=TMP)


def for_everyone(path):
    """A copy of a program or folder of ours that every user can use, wherever this tree lies."""
    copy = os.path.join(tempfile.mkdtemp(dir=TMP), os.path.basename(path))
    (shutil.copytree if os.path.isdir(path) else shutil.copy)(path, copy)
    for folder in (TMP, os.path.dirname(copy)):
        os.chmod(folder, 0o755)
    return copy


def terminal():
    """Both ends of a new terminal."""
    try:
        return pty.openpty()
    except OSError as e:
        raise Skip("this system makes no terminals: %s" % e)


def expect(condition, why="", *values):
    if not condition:
        raise Failed(why % values if values else why)


def with_codec(argv):
    """Tests that name no codec ask for deflate, which h5py reads without a plug-in, and not for the default, keep."""
    at = next((k + 1 for k, a in enumerate(argv) if os.path.basename(a) == "wsi2h5"), 0)
    if at == 0 or "-o" not in argv or any(a.startswith("--codec") for a in argv):
        return argv
    return argv[:at] + ["--codec", "deflate"] + argv[at:]


def run(*argv, status=0, default_codec=False, **kw):
    """Runs a program; its exit status must be `status` (None: any). Returns stdout, stderr, status."""
    argv = [str(a) for a in argv]
    argv = argv if default_codec else with_codec(argv)
    kw.setdefault("timeout", TIMEOUT)
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       stdin=subprocess.DEVNULL, **kw)
    p.out = p.stdout.decode(errors="replace")
    p.err = p.stderr.decode(errors="replace")
    if status is not None and p.returncode != status:
        raise Failed("%s ended with %d, not %d: %s" % (" ".join(map(str, argv)), p.returncode, status,
                                                      (p.err or p.out)[-600:]))
    for bad in ("Sanitizer", "runtime error:", "HDF5-DIAG", "HDF5: infinite loop"):
        expect(bad not in p.err, "%s: %s", argv[0], p.err[-1500:])
    if os.path.basename(str(argv[0])) in ("wsi2h5", "h5spec") and "env" not in kw:
        check_lines(os.path.basename(str(argv[0])), p.err)
    return p


def check_lines(program, err):
    """Each line of stderr is the program's own: libraries are quiet."""
    for line in err.replace("\r", "\n").splitlines():
        line = re.sub(r"\033\[[0-9;]*[A-Za-z]", "", line).strip()
        expect(not line or line.startswith((program, "Try '%s" % program, "Usage:")), "a line of a library: %r", line)


def wait_until_caught(p, number):
    """Waits until a process that has just started has a handler for a signal."""
    for _ in range(2000):
        with open("/proc/%d/status" % p.pid) as f:
            caught = [int(line.split()[1], 16) for line in f if line.startswith("SigCgt")]
        if p.poll() is not None or caught[0] >> (number - 1) & 1:
            return
        time.sleep(0.005)
    raise Failed("no handler for signal %d" % number)


def peak_mib(err):
    """The peak memory that the last line of a program states, in MiB."""
    size, unit = re.search(r"peak memory ([0-9.]+) ([KMG]iB)", err).groups()
    return float(size) * {"KiB": 1 / 1024, "MiB": 1, "GiB": 1024}[unit]


def says(text, *words):
    """All words are in the text."""
    for w in words:
        expect(w in text, "%r is not in %r", w, text)


def needs(command):
    """Some builds lack a library, and then a command of h5spec."""
    if command not in run(H5SPEC, "--help").out:
        raise Skip("built without what %s needs" % command)


def has(*modules):
    for m in modules:
        if importlib.util.find_spec(m) is None:
            raise Skip("needs the Python package %s%s" % (m, ", which is large and optional" if m in ("torch", "cv2") else ""))


def small_files(most):
    """For preexec_fn: nothing can be written beyond this many bytes of a file."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def slides_folder():
    """The folder of real slides, or None."""
    for d in (os.environ.get("WSI_SLIDES"), os.path.join(ROOT, "..", "shared", "slides")):
        if d and os.path.isdir(d):
            return os.path.abspath(d)
    return None


def real(name):
    d = slides_folder()
    path = d and os.path.join(d, name)
    if not path or not os.path.exists(path):
        raise Skip("%s is missing (WSI_SLIDES=FOLDER holds it)" % name)
    return path


def preloaded(text):
    """A library made of a text in C, for LD_PRELOAD."""
    if SAN:
        raise Skip("a preloaded library and a sanitizer do not go together")
    source, library = (os.path.join(tmp(), "preloaded." + end) for end in ("c", "so"))
    with open(source, "w") as f:
        f.write("#define _GNU_SOURCE\n" + "".join("#include <%s.h>\n" % name for name in (
            "dlfcn errno fcntl stdarg stdint stdio stdlib string unistd").split()) + text)
    run("cc", "-shared", "-fPIC", "-o", library, source, "-ldl")
    return library


SHIM = os.path.join(BUILD, "tests", "torture_shim.so")


def failing(calls, under, at, do, *argv, status=None, default_codec=False, **more):
    """Runs a program whose call number `at` of these on files in a folder fails with errno `do`; see torture/shim.c."""
    if SAN:
        raise Skip("a sanitizer does not go with a preloaded library")
    return run(*argv, status=status, default_codec=default_codec, env=dict(
        os.environ, LD_PRELOAD=SHIM, TORTURE_CALLS=calls, TORTURE_UNDER=under, TORTURE_AT=str(at), TORTURE_DO=str(do), **more))


def failing_allocations(argv, out, *shims, first=None, most=None, met=None, **settings):
    """Runs a command that makes the file `out` (None: none) with one failing allocation each time. Every place of our programs that
    allocates, itself or through a library, is met once, or up to `most` times; `first`: only this many from the beginning; `met`: a set of
    places that other commands have met, which gets those of this one. Yields each run, which has status and err, and "allocation k of n"."""
    if SAN:
        raise Skip("a preloaded library and a sanitizer do not go together")
    sys.path.insert(0, os.path.join(ROOT, "tests", "torture"))
    from common import ALLOC, Server
    folder = tmp()
    sites = os.path.join(folder, "sites")
    server = Server(argv, ":".join((ALLOC,) + shims), folder)

    def once(settings):
        if out and os.path.exists(out):
            os.unlink(out)
        return server.run(settings)
    expect(once({"TORTURE_SITES": sites}).status == 0, "%s fails without a failing allocation", argv)
    with open(sites) as f:
        stacks = f.read().split()
    chosen = [k for k in at_each_site(stacks, most)[:first] if TIER == "all" or stacks[k - 1] not in (met or ())]
    if met is not None:
        met.update(stacks)
    for k in chosen:
        ran, place = once({"TORTURE_AT": k, **settings}), "allocation %d of %d" % (k, len(stacks))
        ended = re.search(r"^(wsi2h5|h5spec): out of memory$", ran.err, re.M)  # by what must be there
        expect(not ended or ran.status == 5, "%s: status %d: %s", place, ran.status, ran.err)
        left = glob.glob(os.path.join(os.path.dirname(out), ".*.part")) if out and ran.status in (0, 1, 4, 5) else []
        expect(not left, "%s: %s is left: %s", place, left, ran.err)
        yield ran, place
    server.close()


def at_each_site(stacks, most=None):
    """Numbers of calls, from 1, given where each comes from: of each place the first, or `most` with the last. make check-all: every call."""
    calls = {}
    for k, stack in enumerate(stacks, 1):
        calls.setdefault(stack, []).append(k)
    most = len(stacks) if TIER == "all" else most or 1
    chosen = set()
    for of in calls.values():
        n = min(most, len(of))
        chosen |= {of[round(i * (len(of) - 1) / max(1, n - 1))] for i in range(n)}
    return sorted(chosen)


# --- made slides and stores, which all test programs share ---

CACHE = os.path.join(BUILD, "cache")
LARGE = 8 << 20  # larger files are made by each program, so that the folder stays small
_shared = {}  # path: size and time of change


def shared(program, name, options, *inputs):
    """What a program makes with these options, from earlier or made now: a file that nobody changes. Kept by the bytes of the program."""
    key = (program, name, inputs) + options
    if key not in _made:
        words = "\0".join((name, *inputs, *(str(state_of(i)) for i in inputs), *options)).encode()
        folder = os.path.join(cache_of(program), hashlib.sha256(words).hexdigest()[:24])
        if not os.path.isdir(folder):
            folder = make_shared(folder, name, lambda path: run(program, *options, *(("-q", "-o", path) + inputs if inputs else (path,))))
        _made[key] = os.path.join(folder, name)
        _shared[_made[key]] = state_of(_made[key])
    return _made[key]


def make_shared(folder, name, make):
    """Makes a file in a folder that appears when it is complete, whichever process is first. Returns the folder, or that of a large file."""
    part = tempfile.mkdtemp(prefix="part-", dir=os.path.dirname(folder))
    os.chmod(part, 0o755)
    make(os.path.join(part, name))
    if os.path.getsize(os.path.join(part, name)) > LARGE:
        return shutil.move(part, tmp("large"))
    try:
        os.rename(part, folder)
    except OSError:  # another process was faster
        shutil.rmtree(part)
    return folder


def cache_of(program):
    """The folder of what this version of a program makes. Those of other versions go away."""
    if program not in _made:
        base = os.path.basename(program)
        if os.environ.get("WSI_REACH"):  # each test makes its own
            _made[program] = tmp(base)
        else:
            with open(program, "rb") as f:
                _made[program] = os.path.join(CACHE, "%s-%s" % (base, hashlib.sha256(f.read()).hexdigest()[:16]))
            os.makedirs(_made[program], exist_ok=True)
            for other in os.listdir(CACHE):
                if other.startswith(base + "-") and other != os.path.basename(_made[program]):
                    shutil.rmtree(os.path.join(CACHE, other), ignore_errors=True)
    return _made[program]


def state_of(path):
    s = os.stat(path)
    return s.st_size, s.st_mtime_ns


def nobody_changed_shared_files():
    for path, before in _shared.items():
        if not os.path.exists(path) or state_of(path) != before or len(os.listdir(os.path.dirname(path))) > 1:
            shutil.rmtree(os.path.dirname(path), ignore_errors=True)
            _shared.clear()
            _made.clear()
            raise Failed("the test has changed %s, which other tests share, or its folder" % path)


def made(*options, name="slide"):
    """A slide from mkslide; equal options give the same file, which no test may change."""
    return shared(MKSLIDE, name + ".svs", tuple(map(str, options)))


def put_file(path, data):
    """Makes a file of these bytes or this text. Returns its path."""
    with open(path, "wb") as f:
        f.write(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data)
    return path


def file_of(name, data):
    """A new file in a new folder."""
    return put_file(os.path.join(tmp("file"), name), data)


def everywhere():
    """A tissue mask: all of a slide."""
    return file_of("everywhere.geojson", '{"type": "Polygon", "coordinates": [[[0, 0], [99999, 0], [99999, 99999], [0, 99999]]]}')


def bytes_in(path):
    with open(path, "rb") as f:
        return f.read()


def text_in(path, errors="strict"):
    return bytes_in(path).decode("utf-8", errors)


def json_in(path):
    return json.loads(text_in(path))


def csv_rows(path, errors="strict"):
    """The rows of a table by the names in its first line."""
    return list(csv.DictReader(io.StringIO(text_in(path, errors), newline="")))


def copied(path, name=""):
    """A copy in a new folder."""
    return shutil.copy(path, os.path.join(tmp("copy"), name))


def generic_tiff(svs):
    """The same tiles as a tiled TIFF of no known scanner, which OpenSlide reads."""
    path = os.path.join(tmp("generic"), "generic.tiff")
    with open(svs, "rb") as f, open(path, "wb") as out:
        out.write(f.read().replace(b"Aperio", b"Aperia"))
    return path


def store(slide, *options):
    """A store of the slide; equal options give the same file, which no test may change if the slide is from made()."""
    name = os.path.splitext(os.path.basename(slide))[0] + ".h5"
    if slide.startswith(CACHE + os.sep) and not any(str(o).startswith(TMP) for o in options):
        return shared(WSI2H5, name, tuple(map(str, options)), slide)
    key = ("store", slide) + options
    if key not in _made:
        _made[key] = os.path.join(tmp("store"), name)
        run(WSI2H5, "-q", "-o", _made[key], *options, slide)
    return _made[key]


def convert(slide, *options, status=0, out=None, **kw):
    """Converts a slide. Returns the store's path, the run and its line of JSON."""
    path = out or os.path.join(tmp("out"), "out.h5")
    p = run(WSI2H5, "--json", *options, "-o", path, slide, status=status, **kw)
    return path, p, (json_lines(p.out) or [{}])[-1]


def convert_all(files, *options):
    """Converts files, {name: bytes}, in one run, each from a folder of its own. None makes the program crash or hang, what fails
    is named, what is stored is valid. Returns the lines of JSON."""
    out, paths = tmp("out"), [file_of(name, data) for name, data in files.items()]
    p = run(WSI2H5, "--json", "-j", "2", *options, "-o", out, *paths, status=None, timeout=20 * TIMEOUT)
    expect(p.returncode in (0, 1, 4) and "crashed" not in p.err, "status %d: %s", p.returncode, p.err[-900:])
    lines = json_lines(p.out)
    expect([j["input"] for j in lines] == paths, "not all are in the list: %s", p.out[-900:])
    for j in lines:
        expect(j["status"] in ("done", "damaged") or j["input"] in p.err, "the message does not name the file: %s", j)
    if stores_in(out):
        run(H5SPEC, "verify", *glob.glob(glob.escape(out) + "/*.h5"))
    return lines


def values_in(path, name):
    """Those of a dataset of an HDF5 file."""
    import h5py
    with h5py.File(path, "r") as f:
        return f[name][()]


def pixels(path):
    """Those of a store, as HDF5 reads them."""
    return values_in(path, "pixels")


def attributes_of(path, name="/"):
    import h5py
    with h5py.File(path, "r") as f:
        return dict(f[name].attrs)


def tile_statuses(path):
    """Those of all tiles of a store, [rows][columns]."""
    import h5py
    import numpy as np
    with h5py.File(path, "r") as f:
        return np.concatenate([g["tile_status"][()] for g in f["groups"].values()])


def slide_names(result):
    import h5py
    with h5py.File(result, "r") as f:
        return sorted(f["slides"])


def stores_in(folder):
    """The names in an output folder, without the list of slides that failed."""
    return [f for f in os.listdir(folder) if not re.fullmatch(r"failed(\.\d+-of-\d+)?\.csv", f)]


def spectrum(stores, *options, status=0):
    """Runs h5spec over a store or a list; returns the result's path."""
    path = os.path.join(tmp("result"), "result.h5")
    run(H5SPEC, "run", "-q", "--device", "cpu", "--accept-damage", "-o", path, *options,
        *([stores] if isinstance(stores, str) else stores), status=status)
    return path


def json_lines(text):
    return [json.loads(line) for line in text.splitlines()]


STAGES = ("read", "unpack", "copy", "kernels", "wait")
# what no two runs have alike, and how the store was read
OF_THE_RUN = ("seconds", "io", *(s + "_seconds" for s in STAGES))


def has_no_direct_reading(err):
    """The line of h5spec's messages that says that files cannot be read directly here, for Skip; or ""."""
    return line_with(err, "cannot be read without the page cache")


def has_no_gds(err):
    """The line that says that this build or this machine has no cuFile, or that cuFile takes no file here; or "".
    A failure of CUDA, or of a read, is none of these."""
    return line_with(err, "this build has no GPUDirect Storage", "cuFile cannot be used here", "cuFile takes no file here") or \
        has_no_direct_reading(err)


def line_with(text, *words):
    return next((line for line in text.splitlines() if any(w in line for w in words)), "")


def content(path, without=OF_THE_RUN):
    """Everything in a result that must not depend on how it was computed, nor on the codec of the store, which
    content_crc32 names (check_store.py)."""
    import h5py
    import numpy as np
    without = {*without, "content_crc32"}
    with h5py.File(path, "r") as f:
        out = {"/histogram": f["histogram"][()].tobytes(), "slides": sorted(f["slides"])}
        for key, value in f.attrs.items():
            if key not in without:
                out["/" + key] = np.asarray(value).tobytes()
        for name, s in f["slides"].items():
            for key, dataset in s.items():
                if key != "groups_done":
                    out[name + "/" + key] = dataset[()].tobytes()
                    out.update({"%s/%s@%s" % (name, key, a): np.asarray(v).tobytes() for a, v in dataset.attrs.items()})
            for key, value in s.attrs.items():
                if key not in without:
                    out[name + "@" + key] = np.asarray(value).tobytes()
        return out


def without_tissue(content):
    """What does not depend on the tissue map: without a coarser level, that of codec jpeg comes from tiles at 1/8,
    and can differ in single cells. So can its fraction, which windows the mean spectra sample, and a thumbnail that
    is made of the cells."""
    return {k: v for k, v in content.items()
            if "/spectrum_" not in k and not k.endswith("/thumbnail") and "/thumbnail@" not in k and k.split("@")[-1] not in ("tissue_fraction", "data_crc32")}


def equal(a, b, what):
    for key in sorted(set(a) | set(b)):
        expect(a.get(key) == b.get(key), "%s: %s differs", what, key)


def attribute_crcs(obj):
    """By name, what attribute_crc32 has of an attribute: the CRC-32 of its name and of its value."""
    import numpy as np
    crcs = {}
    for name, value in obj.attrs.items():
        data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape") if isinstance(value, str) \
            else np.asarray(value).tobytes()
        crcs[name] = zlib.crc32(name.encode()), zlib.crc32(data)
    return crcs


CONTENT = ("vendor tissue_rule downsample mpp_x mpp_y objective_power level width height channels chunk_rows chunk_cols tissue_only jpeg_quality "
           "jpeg_subsampling jpeg_twice glass_gray glass_range glass_std glass_rows glass_columns glass_grain glass_grid tile_compression background tiles_missing tiles_damaged tiles_left_out").split()


def content_crc(f):
    """content_crc32 of an open store, by common/FORMAT.md."""
    import numpy as np

    def of(name):
        attrs = f[name].attrs if name in f else {}
        return int(attrs.get("stored_crc32", attrs.get("crc32", 0)))
    attributes = tiles = 0
    for name in CONTENT:
        if name in f.attrs:
            value = f.attrs[name]
            value = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value if isinstance(value, bytes) else np.asarray(value).tobytes()
            attributes = zlib.crc32(name.encode() + value, attributes)
    for g in sorted(f["groups"], key=int):
        table = np.empty(f["groups"][g]["tile_status"].shape, [("status", "u1"), ("crc32", "<u4")])
        table["status"], table["crc32"] = f["groups"][g]["tile_status"][()], f["groups"][g]["tile_crc32"][()]
        tiles = zlib.crc32(table.tobytes(), tiles)
    return zlib.crc32(struct.pack("<4I", attributes, of("tissue/mask"), of("associated/thumbnail"), tiles))


def reseal_content(f):
    """Of a store that is not too odd for it, and has no links to other files."""
    import h5py
    import numpy as np
    try:
        if not all(isinstance(g.get(name, getlink=True), h5py.HardLink) for g in (f, f["groups"]) for name in g):
            return
        f.attrs["content_crc32"] = np.int64(content_crc(f))
    except (KeyError, ValueError, AttributeError, TypeError, OSError, RuntimeError):
        pass


def reseal(f, places=True):
    """Makes the places of chunks and the checksums of texts and datasets right again, so that other checks are reached."""
    import h5py
    import numpy as np

    def visit(_, obj):
        if isinstance(obj, h5py.Dataset) and ("crc32" in obj.attrs or f.attrs.get("format") == "wsi-spectrum" and obj.size < 1 << 24):
            obj.attrs["crc32"] = np.int64(zlib.crc32(obj[()].tobytes()))
        if "attribute_crc32" in obj.attrs:
            sealed = set(obj.attrs["attribute_crc32"][:, 0].tolist())
            obj.attrs["attribute_crc32"] = np.array([c for c in attribute_crcs(obj).values() if c[0] in sealed], np.uint32)
    groups = f["groups"] if places and isinstance(f.get("groups", getlink=True), h5py.HardLink) else {}
    for name in groups:
        if isinstance(groups.get(name, getlink=True), h5py.HardLink):
            put_places(groups[name])
    f.visititems(visit)
    if "content_crc32" in f.attrs:
        reseal_content(f)
    visit("/", f)


def changed(path, change, name="bad.h5"):
    """A copy of a store or result after change(open file), with the checksums of texts and tables right."""
    import h5py
    copy = copied(path, name)
    with h5py.File(copy, "r+", libver=("v110", "v110")) as f:
        change(f)
        reseal(f)
    return copy


def put_places(g):
    """Makes tile_offset and tile_bytes of a group of a store say what HDF5's index of the chunks says."""
    import numpy as np
    import h5py
    ours = all(isinstance(g.get(name, getlink=True), h5py.HardLink) for name in ("pixels", "tile_offset", "tile_bytes") if name in g)
    if not {"pixels", "tile_offset", "tile_bytes"} <= set(g) or not ours or not g["pixels"].chunks:
        return
    px, at, n = g["pixels"], *(np.zeros_like(g[name][()]) for name in ("tile_offset", "tile_bytes"))
    for k in range(px.id.get_num_chunks()):
        c = px.id.get_chunk_info(k)
        place = tuple(a // b for a, b in zip(c.chunk_offset[:2], px.chunks))
        at[place], n[place] = c.byte_offset, c.size
    g["tile_offset"][...], g["tile_bytes"][...] = at, n


def painted(picture):
    """A store without compression whose pixels are this picture, uint8 [height][width] or [height][width][3]."""
    import h5py
    h, w = picture.shape[:2]
    path = os.path.join(tmp(), "painted.h5")
    run(WSI2H5, "-q", "-o", path, *(["--gray"] if picture.ndim == 2 else []), "--codec", "none",
        made("--size", "%dx%d" % (w, h), name="canvas"))
    with h5py.File(path, "r+", libver=("v110", "v110")) as f:
        for g in f["groups"].values():
            px, rows = g["pixels"], g.attrs["first_row"]
            px[...] = picture.reshape(h, w, -1)[rows:rows + px.shape[0]]
            crc32 = g["tile_crc32"][()]
            for r, k in ((r, k) for r in range(crc32.shape[0]) for k in range(crc32.shape[1])):
                _, data = px.id.read_direct_chunk((r * px.chunks[0], k * px.chunks[1], 0))
                crc32[r, k] = zlib.crc32(data)
            g["tile_crc32"][...] = crc32
        reseal(f)
    return path


def openslide_pixels(slide, level=0):
    """A level of a slide as OpenSlide shows it, uint8 [height][width][3]."""
    import numpy as np
    p = run(os.path.join(BUILD, "tests", "slide_pixels"), slide, level)
    width, height = map(int, p.err.split()[-2:])
    return np.frombuffer(p.stdout, np.uint8).reshape(height, width, 3)


def libjpeg_pixels(path, *own):
    """The pixels of a TIFF as libjpeg gives them: colours by the photometric tag, or by what libjpeg itself finds."""
    import numpy as np
    from dicomfile import Level
    level = Level(path)
    tiles = np.frombuffer(run(os.path.join(BUILD, "tests", "jpeg_tiles"), path, *own).stdout, np.uint8)
    tiles = tiles.reshape(level.down, level.across, level.rows, level.cols, 3).transpose(0, 2, 1, 3, 4)
    return tiles.reshape(level.down * level.rows, level.across * level.cols, 3)[:level.height, :level.width]


def flipped(path, offset, bit=1):
    """A copy with one bit changed."""
    data = bytearray(bytes_in(path))
    data[offset] ^= bit
    return file_of(os.path.basename(path), data)


def icc(tags):
    """An ICC profile of these tags (signature, data)."""
    table, body, at = b"", b"", 132 + 12 * len(tags)
    for signature, data in tags:
        data += bytes(-len(data) % 4)
        table += signature + struct.pack(">II", at + len(body), len(data))
        body += data
    head = struct.pack(">I", at + len(body)) + b"ADBE" + bytes(4) + b"scnrRGB XYZ " + struct.pack(">6H", 2019, 3, 4, 5, 6, 7)
    return (head + b"acsp" + bytes(8) + b"MADE0815" + bytes(28) + b"I" * 16).ljust(128, b"\0") + \
        struct.pack(">I", len(tags)) + table + body


def flipped_in(path, dataset, at=0):
    """A copy with one bit changed of what an HDF5 file stores of a dataset: in byte `at` of its first chunk."""
    import h5py
    with h5py.File(path, "r") as f:
        d = f[dataset].id
        start = d.get_offset() or d.get_chunk_info(0).byte_offset
    return flipped(path, start + at, 4)


H5SUM = os.path.join(BUILD, "tests", "torture_h5sum")


def forged(path, change, *more):
    """A copy after change(bytes of the file), with the checksums of HDF5's metadata repaired, also of `more` blocks."""
    data = bytearray(bytes_in(path))
    change(data)
    copy = file_of(os.path.basename(path), data)
    run(H5SUM, copy, *run(H5SUM, path).out.split(), *more)
    return copy


def make_environment(**more):
    """Without what a `make` above this process has set."""
    return {**{k: v for k, v in os.environ.items() if k not in ("BUILD", "SAN", "MAKEFLAGS", "MAKELEVEL")}, **more}


def copy_of_the_tree():
    d = os.path.join(tmp(), "tree")
    shutil.copytree(ROOT, d, ignore=lambda folder, names: {"__pycache__"} | ({"build", "demo", ".git"} if folder == ROOT else set()))
    return d


def built_wheel():
    """What `make wheel` makes of this build."""
    if not shutil.which("patchelf"):
        raise Skip("patchelf is not installed")
    return os.path.join(ROOT, run("make", "wheel", *same_build(), cwd=ROOT, env=make_environment(), timeout=900).out.split(":")[0].split("\n")[-1])


def left_overs(folder):
    """Everything in a folder that is no finished file."""
    return [f for f in stores_in(folder) if f.startswith(".") or not f.endswith(".h5")]


def watch_reach(folder):
    """Programs record in this folder what they enter (reach.c); nothing made by an earlier test is used again."""
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    os.environ["WSI_REACH"] = folder
    _made.clear()


def processor_time():
    return sum(os.times()[:4])


def too_long(*_):
    raise Failed("took more than %d s" % LONGEST)


def what_is_wrong(scope, chosen):
    """What keeps the tests from running, in words, or nothing."""
    missing = [os.path.relpath(p, ROOT) for p in (WSI2H5, H5SPEC, MKSLIDE) if not os.path.exists(p)]
    unknown = [name for name in chosen if not (name.startswith("test_") and callable(scope.get(name)))]
    return ("%s: not built; make programs-for-check builds it" % ", ".join(missing) if missing else
            "%s: no such test in %s" % (", ".join(unknown), sys.argv[0]) if unknown else "")


def main(scope, tier="check"):
    """Runs the tests of a program, or those that are named. `tier`: the first that includes the program."""
    chosen = sys.argv[1:]
    wrong = what_is_wrong(scope, chosen)
    if wrong:
        print("not ok %s" % wrong, flush=True)
        sys.exit(1)
    reach = os.environ.get("WSI_REACH")
    some_race = any(hasattr(test, "races") for test in scope.values())
    failed = 0
    signal.signal(signal.SIGALRM, too_long)
    for name, test in list(scope.items()):
        if not name.startswith("test_") or not callable(test) or (chosen and name not in chosen):
            continue
        label = "%s.%s" % (os.path.splitext(os.path.basename(sys.argv[0]))[0][6:], name[5:])
        of = max(tier, getattr(test, "tier", tier), key=list(TIERS).index)
        if SAN == "thread" and some_race and not hasattr(test, "races"):
            of = "all"
        if not runs_in(of) and not chosen:
            print("later %s: %s runs it" % (label, TIERS[of]), flush=True)
            continue
        if reach:
            watch_reach(os.path.join(reach, label))
        begun, used = time.time(), processor_time()
        signal.alarm(0 if os.environ.get("TIER", "all") == "all" else LONGEST)
        try:
            test()
            nobody_changed_shared_files()
            print("ok %s (%.1f s, processor %.1f s)" % (label, time.time() - begun, processor_time() - used), flush=True)
        except Skip as e:
            print("skip %s: %s" % (label, e), flush=True)
        except Exception as e:
            failed += 1
            print("not ok %s: %s" % (label, str(e).replace("\n", " | ") or repr(e)), flush=True)
            if not isinstance(e, Failed):
                traceback.print_exc()
    shutil.rmtree(TMP, ignore_errors=True)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(60)  # a thread or child of this program that never ends
    sys.exit(1 if failed else 0)
