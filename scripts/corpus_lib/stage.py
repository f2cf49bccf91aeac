"""Slides and stores are copied to a disk of the node, and what is made of them is moved back whole.

  stage wsi2h5 OPTIONS --task I/N --list FILE -o FOLDER       with WSI_STAGE_DIR=DIR

does what `wsi2h5 OPTIONS ...` would do, a few slides at a time: copies them to DIR, converts them there,
and moves each store to FOLDER (fsync, rename). `h5spec run` likewise reads copies of stores; its results
are small and go to FOLDER at once. JSON lines and messages name the slides themselves.

Tasks of a node share DIR. Each has a folder of its own there, and holds a lock in it; a folder whose lock
is free was left by a task that was killed, and is removed by the next one. What has no room in DIR, or
fails there through no fault of the slide, is read where it is. A slide of several files whose names
follow no rule (.vms, .vmu) is never copied.
"""
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from corpus_lib.files import STOPPED, TROUBLE, counted, key, read_lines, say, stem, sync

BATCH = 8  # inputs that are staged at a time
RESERVE = 0.05  # of the disk stays free
GROWTH = {"wsi2h5": 9, "h5spec": 1}  # bytes needed per byte of an input: it and its store
KEPT = 2.5  # the same for stores that keep the slide's tiles
LOCK = "lock"


class Stopped(Exception):
    pass


def share(lines, task):
    """The lines of task I/N; auto: as the scheduler counts."""
    if task == "auto":
        names = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_STEP")
        if names[0] not in os.environ:
            names = ("SGE_TASK_ID", "SGE_TASK_FIRST", "SGE_TASK_LAST", "SGE_TASK_STEPSIZE")
        at, first, last, step = (int(os.environ[n]) for n in names)
        i, n = (at - first) // step + 1, (last - first) // step + 1
    else:
        i, n = map(int, task.split("/"))
    return lines[i - 1::n]


def take(argv, name):
    """Removes an option and its value; returns the value."""
    at = argv.index(name)
    value = argv[at + 1]
    del argv[at:at + 2]
    return value


def files_of(path):
    """What has to be copied of an input; None if that is not known."""
    end, folder = os.path.splitext(path)[1].lower(), os.path.dirname(path)
    if end in (".vms", ".vmu"):
        return None
    if end == ".dcm":
        return [e.path for e in os.scandir(folder) if e.name.lower().endswith(".dcm")]
    data = os.path.join(folder, stem(path))
    return [path] + ([data] if end == ".mrxs" and os.path.isdir(data) else [])


def bytes_of(paths):
    total = 0
    for path in paths:
        total += os.path.getsize(path) if os.path.isfile(path) else sum(
            os.path.getsize(os.path.join(d, f)) for d, _, names in os.walk(path) for f in names)
    return total


def put_back(made, folder):
    """Moves a finished file to a folder of another disk: whole, or not at all."""
    name = os.path.basename(made)
    fd, part = tempfile.mkstemp(dir=folder, prefix="." + name + "." + os.uname().nodename + ".", suffix=".part")
    try:
        with open(fd, "wb") as out, open(made, "rb") as source:
            try:
                fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                pass  # a file system without locks
            shutil.copyfileobj(source, out, 1 << 22)
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(out.fileno(), 0o666 & ~mask)
            out.flush()
            sync(out.fileno())
        os.rename(part, os.path.join(folder, name))
    except OSError:
        os.unlink(part)
        raise
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(fd)
    finally:
        os.close(fd)
    os.unlink(made)


class Scratch:
    """This task's folder below DIR."""

    def __init__(self, top):
        self.top = os.path.join(os.path.expandvars(top), "wsi-corpus-%d" % os.getuid())
        os.makedirs(self.top, mode=0o700, exist_ok=True)
        if os.lstat(self.top).st_uid != os.getuid() or os.path.islink(self.top):
            raise PermissionError(1, "belongs to another user", self.top)
        self.remove_left()
        self.path = tempfile.mkdtemp(dir=self.top)
        self.lock = open(os.path.join(self.path, LOCK), "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)

    def remove_left(self):
        for e in os.scandir(self.top):
            try:
                with open(os.path.join(e.path, LOCK)) as f:
                    fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(e.path, ignore_errors=True)
            except OSError:
                pass  # of a living task, or one that is just beginning

    def has_room(self, need):
        fs = os.statvfs(self.path)
        return need < fs.f_bavail * fs.f_frsize - RESERVE * fs.f_blocks * fs.f_frsize

    def end(self):
        shutil.rmtree(self.path, ignore_errors=True)
        self.lock.close()


class Stage:
    def __init__(self, argv):
        self.program, argv = argv[0], argv[1:]
        self.kind = "h5spec" if argv and argv[0] == "run" else "wsi2h5"
        self.inputs = share(read_lines(take(argv, "--list")), take(argv, "--task"))
        self.out, self.argv, self.child, self.status = take(argv, "-o"), argv, None, 0
        kept = any(w in ("keep", "jpeg", "--codec=keep", "--codec=jpeg") for w in argv)
        self.growth = KEPT if kept and self.kind == "wsi2h5" else GROWTH[self.kind]
        self.scratch, self.stopped = None, 0

    def run(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU):
            signal.signal(number, self.stop)
        try:
            self.scratch = Scratch(os.environ["WSI_STAGE_DIR"])
        except OSError as e:
            say("%s: nothing is staged: %s" % (os.environ["WSI_STAGE_DIR"], e.strerror))
        try:
            waiting = list(self.inputs)
            while waiting and not self.stopped:
                self.batch(waiting)
            return STOPPED if self.stopped else self.status
        except Stopped:
            return STOPPED
        finally:
            if self.scratch:
                self.scratch.end()

    def stop(self, number, frame):
        self.stopped = number
        if self.child:
            self.child.send_signal(signal.SIGTERM)
        else:
            raise Stopped

    def batch(self, waiting):
        """Takes inputs from the list: as many as are staged together, or one that is not."""
        staged, names = {}, set()  # {path on the node: input}
        folder = os.path.join(self.scratch.path, "work") if self.scratch else None
        while waiting and self.scratch and len(staged) < BATCH and stem(waiting[0]) not in names:
            copy = self.copy(waiting[0], os.path.join(folder, "in", str(len(staged))), sum(
                bytes_of([s]) for s in staged))
            if not copy:
                break
            names.add(stem(waiting[0]))
            staged[copy] = waiting.pop(0)
        if staged:
            self.staged(folder, staged)
            shutil.rmtree(folder, ignore_errors=True)
        elif waiting:
            self.directly([waiting.pop(0)])

    def copy(self, path, folder, before):
        """Copies an input; None if it is to be read where it is."""
        try:
            paths = files_of(path)
            done = self.kind == "wsi2h5" and os.path.exists(os.path.join(self.out, stem(path) + ".h5"))
            if paths is None or done:  # the program decides whether the store is up to date
                return None
            need = bytes_of(paths) * self.growth
            if not self.scratch.has_room(need + before * (self.growth - 1)):
                say("%s: not staged: too little room in %s" % (path, self.scratch.top))
                return None
            os.makedirs(folder)
            for p in paths:
                to = os.path.join(folder, os.path.basename(p))
                if os.path.isdir(p):
                    shutil.copytree(p, to)
                else:
                    shutil.copy2(p, to)
            return os.path.join(folder, os.path.basename(path))
        except OSError as e:
            shutil.rmtree(folder, ignore_errors=True)
            say("%s: not staged: %s" % (path, e.strerror))
            return None

    def staged(self, folder, staged):
        made = os.path.join(folder, "out")
        os.makedirs(made, exist_ok=True)
        out = made if self.kind == "wsi2h5" else self.out
        text = self.call([*self.argv, "-o", out, *staged], capture=True, names=dict(staged, **{made: self.out}))
        if self.stopped:
            raise Stopped
        by = {key(copy): path for copy, path in staged.items()}
        again = dict.fromkeys(staged.values())
        for line in text.split("\n"):
            try:
                row = json.loads(line)
                field = "slide" if "slide" in row else "store"
                path = by[row[field]]
            except (ValueError, KeyError, TypeError):
                continue
            if row["status"] == "failed" and row.get("cause") == "trouble":
                continue
            if self.kind == "wsi2h5" and row["status"] != "failed":
                try:
                    put_back(os.path.join(made, stem(path) + ".h5"), self.out)
                except OSError as e:
                    say("%s: the store cannot be moved to %s: %s" % (path, self.out, e.strerror))
                    continue
            again.pop(path, None)
            row[field] = key(path)
            if self.kind == "wsi2h5" and "store" in row:
                row["store"] = key(os.path.join(self.out, stem(path) + ".h5"))
            row["message"] = self.named(row.get("message") or "", staged)
            row = {k: v for k, v in row.items() if k != "message" or v}
            print(json.dumps(row, ensure_ascii=False), flush=True)
            self.status = self.worst(1 if row["status"] == "failed" else 4 if row["status"] == "damaged" else 0)
        if again:
            say("%s not done on this node's disk, and read from where they are" % counted(len(again), "input"))
            self.directly(list(again))

    def named(self, text, names):
        for copy, path in names.items():
            text = text.replace(key(copy), key(path)).replace(copy, path)
        return text

    def directly(self, paths):
        self.call([*self.argv, "-o", self.out, *paths])
        if self.stopped:
            raise Stopped

    def call(self, words, capture=False, names=None):
        """Runs the program. Returns its standard output, if that is to be captured."""
        pipe = subprocess.PIPE if capture else None
        self.child = subprocess.Popen([self.program, *words], stdout=pipe, stderr=pipe, stdin=subprocess.DEVNULL,
                                      encoding="utf-8", errors="surrogateescape")
        if self.stopped:
            self.child.send_signal(signal.SIGTERM)
        out, err = self.child.communicate()
        code, self.child = self.child.returncode, None
        if capture:
            print(self.named(err, names), end="", file=sys.stderr, flush=True)
        elif code:
            self.status = self.worst(TROUBLE if code < 0 or code > 127 else code)
        return out

    def worst(self, status):
        return next((s for s in (2, 3, TROUBLE, 1, 4) if s in (status, self.status)), 0)
