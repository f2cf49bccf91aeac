"""What all sweeps share: programs under injection, the verdict on a run, the closing line.

A sweep is a function sweep(t) in SWEEPS. It takes a Torture, tries something t.times(full) times
and calls t.bad(why) for everything that breaks a promise. Each sweep has its own random numbers,
seeded with its name, so that one sweep alone does exactly what it does among the others.
"""
import hashlib
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dicomfile  # noqa: E402
import lib  # noqa: E402
from lib import BUILD, H5SPEC, MKSLIDE, SHIM, WSI2H5, bytes_in  # noqa: E402,F401

os.environ["HDF5_PLUGIN_PATH"] = BUILD  # libh5jpeg.so, for h5py
ALLOC = os.path.join(BUILD, "tests", "torture_alloc.so")
WHERE = os.path.join(BUILD, "tests", "torture_where.so")
TIME_LIMIT = 120 if lib.SAN else 30
PROMISED = (0, 1, 2, 3, 4, 5)  # the exit status of our programs
REJECTED = (1, 5)  # of these: bad input, and trouble of the machine


TIFFS = {  # tiled TIFF of no Aperio scanner: options of mkslide
    "generic, LZW": ("generic", "--compression", "lzw"), "generic, JPEG 2000": ("generic", "--compression", "34712"),
    "generic, planes": ("generic", "--photometric", "planes"), "generic, gray": ("generic", "--photometric", "gray"),
    "OME": ("ome", "--photometric", "ycbcr"), "OME with SubIFDs": ("ome-subifds", "--compression", "deflate"), "Philips": ("philips",),
}


def make_containers(work, size, tile="256"):
    """A small slide of each container that is read without its scanner's own reader: name -> its files, the first of which opens it.
    A slide of several files has a folder of its own."""
    files = {}
    for number, (name, (container, *how)) in enumerate(TIFFS.items()):
        files[name] = [os.path.join(work, "c%d.tif" % number)]
        subprocess.run([MKSLIDE, "--container", container, "--size", size, "--tile", tile, "--seed", str(50 + number), *how, *files[name]], check=True)
    for number, compression in enumerate(("33003", "33005")):
        tiles = os.path.join(work, "tiles%d.svs" % number)
        subprocess.run([MKSLIDE, "--size", size, "--tile", "128", "--compression", compression, "--seed", str(60 + number), tiles], check=True)
        folder = os.path.join(work, "series%d" % number)
        if compression == "33003":
            files["DICOM, JPEG 2000"] = [dicomfile.slide(folder, tiles, series="1.2.3.960")]
        else:
            files["DICOM in two files, JPEG 2000"] = dicomfile.concatenation(folder, tiles, (2,), series="1.2.3.961")
        os.unlink(tiles)
    return files


class Torture:
    """One sweep: its scale, its random numbers and what it found."""

    def __init__(self, name, scale, seed):
        self.name = name
        self.scale = scale
        self.random = random.Random("%s %d" % (name, seed))
        self.tried = 0
        self.found = []
        self.notes = {}
        self.folder = tempfile.mkdtemp(prefix="torture-%s-" % name, dir=os.environ.get("TORTURE_TMP"))
        os.chmod(self.folder, 0o755)
        self.made = 0

    def times(self, full):
        """How often, of `full` times, at this scale; at least once."""
        return max(1, int(full * self.scale + 0.5))

    def thin(self, points, full):
        """At most as many of the points as `full` times the scale; all of them at scale 1."""
        points = list(points)
        most = self.times(full)
        if len(points) <= most:
            return points
        chosen = sorted(self.random.sample(range(len(points)), most))
        return [points[k] for k in chosen]

    def new_folder(self):
        self.made += 1
        path = os.path.join(self.folder, "%d" % self.made)
        os.mkdir(path)
        return path

    def bad(self, why, *values):
        self.found.append(why % values if values else why)
        if len(self.found) <= 20:
            print("  %s: %s" % (self.name, self.found[-1][:1500]), flush=True)

    def note(self, key, n=1):
        """Counts something that is worth a number and breaks no promise."""
        self.notes[key] = self.notes.get(key, 0) + n

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        notes = "".join("; %s %d" % item for item in sorted(self.notes.items()))
        print("%s: %d tried, %d bad%s" % (self.name, self.tried, len(self.found), notes), flush=True)
        return len(self.found)


class Ran:
    """What a program did: status (negative: ended by that signal), words, hung."""

    def __init__(self, status, out, err, hung):
        self.status, self.out, self.err, self.hung = status, out, err, hung


def run(argv, env=None, limit=TIME_LIMIT, preexec=None, stdin=subprocess.DEVNULL):
    """Runs a program; never raises for what it does."""
    p = subprocess.Popen([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=stdin,
                         env={**os.environ, **(env or {})}, preexec_fn=preexec)
    try:
        out, err = p.communicate(timeout=limit)
        return Ran(p.returncode, out.decode(errors="replace"), err.decode(errors="replace"), False)
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
        return Ran(p.returncode, out.decode(errors="replace"), err.decode(errors="replace"), True)


class Server:
    """A program that is run many times with its libraries loaded once; see server.h."""

    def __init__(self, argv, preload, folder):
        requests, self.requests = os.pipe()
        replies, out = os.pipe()
        self.replies = os.fdopen(replies, "rb", buffering=0)
        self.err = os.path.join(folder, "err")
        env = {**os.environ, "LD_PRELOAD": preload, "TORTURE_SERVER": "%d,%d" % (requests, out)}
        self.process = subprocess.Popen([str(a) for a in argv], env=env, pass_fds=(requests, out), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL)
        os.close(requests)
        os.close(out)

    def number(self, limit):
        """The next line of the server; None if there is none in time."""
        if not select.select([self.replies], [], [], limit)[0]:
            return None
        return int(self.replies.readline())

    def run(self, env, limit=TIME_LIMIT):
        line = "\t".join("%s=%s" % item for item in {**env, "TORTURE_ERR": self.err}.items() if item[0] != "LD_PRELOAD")
        os.write(self.requests, line.encode() + b"\n")
        child = self.number(limit)
        status = self.number(limit)
        hung = status is None
        if hung:
            os.kill(child, signal.SIGKILL)
            status = self.number(limit)
        with open(self.err, errors="replace") as f:
            return Ran(os.waitstatus_to_exitcode(status), "", f.read(), hung)

    def close(self):
        os.close(self.requests)
        self.process.wait()
        self.replies.close()


def injected(calls, under, at=0, do="", forever=False, count=None, trace=None):
    """The environment that makes a call fail; see shim.c."""
    env = {"LD_PRELOAD": SHIM, "TORTURE_CALLS": calls, "TORTURE_UNDER": under}
    if at:
        env.update(TORTURE_AT=str(at), TORTURE_DO=str(do))
    if forever:
        env["TORTURE_FOREVER"] = "1"
    if count:
        env["TORTURE_COUNT"] = count
    if trace:
        env["TORTURE_TRACE"] = trace
    return env


def counted(path):
    """What a shim wrote into its TORTURE_COUNT file."""
    try:
        with open(path) as f:
            return int(f.read())
    except (OSError, ValueError):
        return 0


def broken_by(run_, name):
    """Does a run break a promise that holds whatever was injected? Returns why, or ""."""
    if run_.hung:
        return "%s hangs: %s" % (name, run_.err[-300:])
    if run_.status not in PROMISED:
        return "%s ends with %d: %s" % (name, run_.status, run_.err[-300:])
    for word in ("Sanitizer", "runtime error:", "HDF5-DIAG"):
        if word in run_.err:
            return "%s: %s" % (name, run_.err[-1500:])
    return ""


def crashed_in(ran):
    """The file whose code a signal came from, by where.so; of the C library its caller. "" if it is not known."""
    places = re.findall(r"^(?:crashed in|called from) (\S+) \(", ran.err, re.M)
    return os.path.basename(places[-1]) if places else ""


OURS = {os.path.basename(p) for p in (WSI2H5, H5SPEC)} | {"libh5jpeg.so"}


known = {}  # content by the bytes of the file


def digest(path):
    """What a store or a result holds, less the times: equal for equal content. "" if it cannot be read."""
    import check_same
    bare = hashlib.sha256(bytes_in(path)).digest()
    if bare not in known:
        try:
            content = sorted(d for d in check_same.digests(path, lib.OF_THE_RUN).items() if "/sources" not in d[0])  # times of files
            known[bare] = hashlib.sha256(repr(content).encode()).hexdigest()
        except Exception as e:  # h5py raises what it likes for a damaged file
            known[bare] = "unreadable: %s" % e
    return known[bare]


def parts(folder):
    """Temporary files that a run left."""
    return [f for f in os.listdir(folder) if f.endswith(".part")]


__all__ = [name for name in globals() if not name.startswith("_")]
