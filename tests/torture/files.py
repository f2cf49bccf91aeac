"""Sweeps over what happens to files: kills, failing calls, failing allocations, power loss.

A Case is one command whose outcome is known: it writes exactly one file, `target`, whose content a
clean run gives. After each injected failure the verdict is: the target is absent, as it was before,
or complete; status 0 only when it is complete; and the next clean run makes it complete.
"""
import signal
import time

from common import *


class Case:
    """A command with one output; `before` is a file that exists under the target's name already."""

    def __init__(self, name, argv, target, before=None):
        self.name, self.argv, self.target, self.before = name, argv, target, before
        self.servers = {}

    def prepare(self, folder):
        target = os.path.join(folder, self.target)
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        if self.before:
            shutil.copy(self.before, target)
        return [a.replace("{}", folder) if isinstance(a, str) else a for a in self.argv], target

    def run(self, env):
        """Runs the command as it was prepared last, in its folder, with an injection; quickly."""
        preload = env["LD_PRELOAD"]
        if preload not in self.servers:
            argv = [a.replace("{}", self.folder) for a in self.argv]
            self.servers[preload] = Server(argv, preload, self.server_folder)
        return self.servers[preload].run(env)


def make_cases(t, size="600x500", openslide=False):
    """The programs and ways of writing that the file sweeps go through, with slides of a size; on request also one that
    OpenSlide reads."""
    work = t.new_folder()
    slides = []
    for k in range(3):
        slides.append(os.path.join(work, "s%d.svs" % k))
        subprocess.run([MKSLIDE, "--size", size, "--seed", str(k + 1), slides[k]], check=True)
    stores, results = [], []
    for k, slide in enumerate(slides):
        stores.append(os.path.join(work, "s%d.h5" % k))
        results.append(os.path.join(work, "r%d.h5" % k))
        subprocess.run([WSI2H5, "-q", "-o", stores[k], slide], check=True)
        subprocess.run([H5SPEC, "run", "-q", "--device", "cpu", "-o", results[k], stores[k]], check=True)
    regions = os.path.join(work, "regions.geojson")
    with open(regions, "w") as f:
        f.write('{"type": "Polygon", "coordinates": [[[10, 10], [400, 20], [300, 299]], [[100, 50], [200, 50], [150, 90]]]}')
    spec = [H5SPEC, "run", "-q", "--device", "cpu", "-j", "2"]
    cases = [
        Case("wsi2h5", [WSI2H5, "-q", "-j", "2", "-o", "{}", slides[0]], "s0.h5"),
        Case("wsi2h5 --codec none", [WSI2H5, "-q", "--codec", "none", "-o", "{}", slides[0]], "s0.h5"),
        Case("wsi2h5 --force", [WSI2H5, "-q", "--force", "-o", "{}", slides[0]], "s0.h5", stores[0]),
        Case("wsi2h5 --tissue-only", [WSI2H5, "-q", "--tissue-only", "-o", "{}", slides[1]], "s1.h5"),
        Case("wsi2h5 --codec jpeg", [WSI2H5, "-q", "--codec", "jpeg", "-o", "{}", slides[0]], "s0.h5"),
        Case("h5spec run --roi", [*spec, "--roi", regions, "--min-roi", "0.2", "-o", "{}/r.h5", stores[0]], "r.h5"),
        Case("h5spec run", [*spec, "-o", "{}/r.h5", stores[0]], "r.h5"),
        Case("h5spec run into a folder", [*spec, "-o", "{}/", stores[1]], "s1.h5"),
        Case("h5spec run over another", [*spec, "--force", "-o", "{}/r.h5", stores[0]], "r.h5", results[1]),
        Case("h5spec merge", [H5SPEC, "merge", "-q", "-o", "{}/m.h5", *results], "m.h5"),
    ]
    for name, files in make_containers(work, size).items():
        base = os.path.splitext(os.path.basename(files[0]))[0] + ".h5"
        cases += [Case("wsi2h5 of " + name, [WSI2H5, "-q", "-j", "2", "-o", "{}", files[0]], base)]
    if openslide and "OpenSlide" in run([WSI2H5, "--version"]).out:
        other = os.path.join(work, "other.tif")
        subprocess.run([MKSLIDE, "--size", "300x200", "--description", "scanned elsewhere", "--bigtiff", other], check=True)
        cases += [Case("wsi2h5 through OpenSlide", [WSI2H5, "-q", "-j", "2", "-o", "{}", other], "other.h5")]
    for case in cases:
        folder = t.new_folder()
        argv, target = case.prepare(folder)
        clean = run(argv)
        if clean.status != 0:
            raise SystemExit("%s fails without injection: %s" % (case.name, clean.err))
        case.whole = digest(target)
        case.old = digest(case.before) if case.before else None
        case.folder, case.server_folder = folder, t.new_folder()
    return cases


def judge(t, case, ran, target, what, killed=False):
    """The verdict on a run into which a failure was injected, and on the clean run after it."""
    why = "" if killed and ran.status == -signal.SIGKILL else broken_by(ran, case.name)
    have = digest(target) if os.path.exists(target) else None
    if why:
        t.bad("%s, %s", why, what)
    elif have is not None and have != case.whole and have != case.old:
        t.bad("%s, %s: the file under the final name is neither old nor complete: %s", case.name, what, have)
    elif ran.status == 0 and have != case.whole:
        t.bad("%s, %s: status 0, but the file is %s", case.name, what, "absent" if have is None else "another")
    elif ran.status == 2:
        t.bad("%s, %s: blames the command line: %r", case.name, what, ran.err[-200:])
    elif ran.status != 5 and re.search(r"^(wsi2h5|h5spec): out of memory$", ran.err, re.M):
        t.bad("%s, %s: out of memory ends it with %d", case.name, what, ran.status)
    elif ran.status in REJECTED and t.folder not in ran.err and "out of memory" not in ran.err:
        t.bad("%s, %s: rejected without the name of a file: %r", case.name, what, ran.err[-200:])
    elif ran.status in (0, *REJECTED) and parts(case.folder):
        t.bad("%s, %s: leaves %s", case.name, what, parts(case.folder))
    elif ran.status in REJECTED and have == case.old and os.listdir(case.folder) == ([case.target] if have else []):
        t.note("as before")  # the next run finds what the first one found, which is known to succeed
    else:
        again = case.run({"LD_PRELOAD": SHIM})
        if again.status != 0 or digest(target) != case.whole:
            t.bad("%s, %s: the next run ends with %d: %s", case.name, what, again.status, again.err[-300:])
        elif parts(case.folder):
            t.bad("%s, %s: the next run leaves %s", case.name, what, parts(case.folder))


CALLS = "write,fsync,rename,open,close,ftruncate"


def sweep_kill(t):
    """kill -9 at random instants, and before each write, fsync, rename and open."""
    cases = make_cases(t)
    points = []
    for case in cases:
        argv, _ = case.prepare(case.folder)
        count = os.path.join(t.folder, "count")
        begun = time.time()
        run(argv, injected(CALLS, case.folder, count=count))
        long = time.time() - begun
        points += [(case, k, None) for k in range(1, counted(count) + 1)]
        points += [(case, None, t.random.random() * long) for _ in range(200)]
    for case, k, after in t.thin(points, 2000):
        t.tried += 1
        argv, target = case.prepare(case.folder)
        if k:
            ran = run(argv, injected(CALLS, case.folder, at=k, do="kill"))
            what = "killed at call %d" % k
        else:
            ran = run_killed(argv, after)
            what = "killed after %.4f s" % after
        judge(t, case, ran, target, what, killed=True)
    kill_corpus(t)


# --- whole corpora ---

def make_corpus(t):
    """The command for a corpus of three slides in t.folder/corpus, and what a clean run makes, file by file."""
    slides = t.new_folder()
    for k in range(3):
        subprocess.run([MKSLIDE, "--size", "600x500", "--seed", str(k + 1), os.path.join(slides, "s%d.svs" % k)], check=True)
    out = os.path.join(t.folder, "corpus")
    argv = [os.path.join(lib.ROOT, "scripts", "corpus"), "run", "--scheduler", "local", "-o", out, slides]
    os.environ.update(WSI2H5=WSI2H5, H5SPEC=H5SPEC)
    clean = run(argv, limit=4 * TIME_LIMIT)
    if clean.status != 0:
        raise SystemExit("corpus fails without injection: %s" % clean.err)
    return argv, out, corpus_files(out)


def corpus_files(out):
    """Name -> content of every store and result under its final name; temporary files as they are called."""
    found = {}
    for folder, _, names in os.walk(out):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".part") or name.startswith("."):
                found[os.path.relpath(path, out)] = "left"
            elif name.endswith(".h5"):
                found[os.path.relpath(path, out)] = digest(path)
    return found


def kill_corpus(t):
    """A corpus is stopped by a signal, or killed with all that it has started; another run does what remains."""
    argv, out, whole = make_corpus(t)
    begun = time.time()
    shutil.rmtree(out)
    run(argv, limit=4 * TIME_LIMIT)
    long = time.time() - begun
    for _ in range(t.times(200)):
        t.tried += 1
        shutil.rmtree(out, ignore_errors=True)
        after = t.random.random() * long
        p = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        time.sleep(after)
        number = t.random.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
        try:
            os.killpg(p.pid, number) if number == signal.SIGKILL else p.send_signal(number)
        except ProcessLookupError:
            pass
        if p.wait() not in (0, 1, 3, -number):  # 1: Python was beginning, and did not listen yet
            t.bad("corpus stopped by signal %d after %.3f s: status %d", number, after, p.returncode)
        for name, have in corpus_files(out).items():
            if have not in ("left", whole.get(name)):
                t.bad("corpus killed after %.3f s: %s is incomplete: %s", after, name, have)
        again = run(argv, limit=4 * TIME_LIMIT)
        if again.status != 0 or corpus_files(out) != whole:
            t.bad("corpus killed after %.3f s: the next run ends with %d and makes %s: %s", after, again.status,
                  sorted(corpus_files(out)), again.err[-300:])


def run_killed(argv, after):
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = p.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
    return Ran(p.returncode, out.decode(errors="replace"), err.decode(errors="replace"), False)


SMALL = "500x300"  # six tiles, two windows: as many kinds of calls, and fewer of each
ERRORS = {"write": (28, 5, 4, "short"), "fsync": (28, 5), "rename": (28, 5, 13), "open": (24, 13, 5), "close": (5, 28),
          "ftruncate": (28, 5), "read": (5, 4, "short"), "flock": (4, 37), "fstat": (5, 12), "unlink": (5,), "mkdir": (28, 13),
          "realpath": (12, 5)}


def sweep_calls(t):
    """Each call on an output or an input fails, once and from then on, with each error it can have."""
    cases = make_cases(t, SMALL)
    points = []
    for case in cases:
        for call, errors in ERRORS.items():
            case.prepare(case.folder)
            count = os.path.join(t.folder, "count")
            case.run(injected(call, t.folder, count=count))
            for k in range(1, counted(count) + 1):
                points += [(case, call, k, e, forever) for e in errors for forever in (False, True)]
    for case, call, k, error, forever in t.thin(points, len(points)):
        t.tried += 1
        _, target = case.prepare(case.folder)
        ran = case.run(injected(call, t.folder, at=k, do=error, forever=forever))
        judge(t, case, ran, target, "%s number %d gives %s%s" % (call, k, error, " from then on" if forever else ""))


def sweep_alloc(t):
    """Allocation number k fails, once and from then on: every one up to 2,000, then every fourth.

    A signal from our code is bad, one from a library is counted.
    """
    cases = make_cases(t, SMALL, openslide=True)
    preload = ALLOC + ":" + WHERE
    points = []
    for case in cases:
        case.prepare(case.folder)
        count = os.path.join(t.folder, "count")
        case.run({"LD_PRELOAD": preload, "TORTURE_COUNT": count})
        points += [(case, k, forever) for k in range(1, counted(count) + 1) if k <= 2000 or k % 4 == 0 for forever in (False, True)]
    for case, k, forever in t.thin(points, len(points)):
        t.tried += 1
        _, target = case.prepare(case.folder)
        ran = case.run({"LD_PRELOAD": preload, "TORTURE_CALLER": "1", "TORTURE_AT": str(k),
                        **({"TORTURE_FOREVER": "1"} if forever else {})})
        what = "allocation %d fails%s" % (k, " from then on" if forever else "")
        # a library's own answers to a lack of memory
        if not ran.hung and (ran.status < 0 or ran.status == 255 or "HDF5-DIAG" in ran.err):
            judge_death(t, case, ran, target, what)
        else:
            judge(t, case, ran, target, what)


def heap_of_a_library(ran):
    """Did the C library find overwritten lists in a call of ours, after an allocation of a library had failed? (By ours that would
    be bad; so is whatever is freed twice.)"""
    failed = re.findall(r"^failed in (\S+)", ran.err, re.M)
    return bool(re.search(r"^(corrupted |malloc\(\): )", ran.err, re.M)) and failed and os.path.basename(failed[0]) not in OURS


def judge_death(t, case, ran, target, what):
    """A program that ended inside a library: no incomplete file is left, and the place is known and not ours."""
    have = digest(target) if os.path.exists(target) else None
    place = crashed_in(ran)
    if have not in (None, case.whole, case.old):
        t.bad("%s, %s: an incomplete file under the final name", case.name, what)
    if ran.status < 0 and place in OURS and heap_of_a_library(ran):
        t.note("ended by a heap that a library had corrupted")
    elif ran.status < 0 and (not place or place in OURS):
        t.bad("%s, %s: signal %d from %s: %s", case.name, what, -ran.status, place or "an unknown place", ran.err[-300:])
    else:
        t.note("ended inside " + (place or "a library, without a signal"))


# --- power loss ---

class Disk:
    """A model of a file system: what is durable, and what has only been written.

    Data of a file become durable with its fsync; until then each write can be kept, lost or torn.
    Names become durable in the order in which they were changed, at the latest with the folder's fsync.
    """

    def __init__(self, files):
        self.names = {name: number for number, name in enumerate(files)}  # in memory
        self.data = {number: bytes(files[name]) for name, number in self.names.items()}  # durable
        self.pending = {number: [] for number in self.data}
        self.durable_names = dict(self.names)
        self.changes = []  # of names, not yet durable

    def apply(self, op, path, offset, data, path2):
        if op == "create" and path not in self.names:
            number = len(self.data)
            self.names[path], self.data[number], self.pending[number] = number, b"", []
            self.changes.append(dict(self.names))
        elif op == "write" and path in self.names:
            self.pending[self.names[path]].append((offset, data))
        elif op == "truncate" and path in self.names:
            self.pending[self.names[path]].append((offset, None))
        elif op == "rename" and path in self.names:
            self.names[path2] = self.names.pop(path)
            self.changes.append(dict(self.names))
        elif op == "unlink":
            self.names.pop(path, None)
            self.changes.append(dict(self.names))
        elif op == "fsync" and path in self.names:
            number = self.names[path]
            for step in self.pending[number]:
                self.data[number] = written(self.data[number], *step)
            self.pending[number] = []
        elif op == "fsync":  # of the folder
            self.durable_names, self.changes = dict(self.names), []

    def after_power_loss(self, random_):
        """One of the states that a power loss now may leave: name -> bytes."""
        states = [self.durable_names, *self.changes]
        names = states[random_.randrange(len(states))]
        content = {}
        for number, data in self.data.items():
            steps = list(self.pending[number])
            random_.shuffle(steps)
            for offset, piece in steps:
                kind = random_.randrange(3)
                if kind == 0:
                    continue
                if kind == 1 and piece:
                    piece = piece[:random_.randrange(len(piece) + 1) // 512 * 512]
                data = written(data, offset, piece)
            content[number] = data
        return {name: content[number] for name, number in names.items()}


def written(data, offset, piece):
    if piece is None:
        return data[:offset] + bytes(max(0, offset - len(data)))
    data = data + bytes(max(0, offset - len(data)))
    return data[:offset] + piece + data[offset + len(piece):]


def read_trace(path):
    steps = []
    with open(path, "rb") as f:
        while line := f.readline():
            op, name, offset, n, path2 = line.decode().rstrip("\n").split("\t")
            steps.append((op, name, int(offset), f.read(int(n)) if op == "write" else b"", path2))
    return steps


def sweep_power(t):
    """Power is lost at some point of a recorded run: what was not synchronised is lost, torn or reordered."""
    cases = make_cases(t)
    traces = []
    for case in cases:
        argv, target = case.prepare(case.folder)
        trace = os.path.join(t.folder, "trace")
        if os.path.exists(trace):
            os.unlink(trace)
        run(argv, injected("", case.folder, trace=trace))
        steps = read_trace(trace)
        if not any(s[0] == "rename" for s in steps) or digest(target) != case.whole:
            t.bad("%s: the trace shows no rename", case.name)
        traces.append((case, target, steps))
    for _ in range(t.times(2000)):
        t.tried += 1
        case, target, steps = traces[t.random.randrange(len(traces))]
        # most states of interest are near the end, where names change
        stop = t.random.randrange(len(steps) + 1) if t.random.random() < 0.5 else len(steps) - t.random.randrange(6)
        disk = Disk({target: bytes_in(case.before)} if case.before else {})
        for step in steps[:stop]:
            disk.apply(*step)
        state = disk.after_power_loss(t.random)
        folder = t.new_folder()
        for name, data in state.items():
            with open(os.path.join(folder, os.path.basename(name)), "wb") as f:
                f.write(data)
        found = os.path.join(folder, case.target)
        have = digest(found) if os.path.exists(found) else None
        if have not in (None, case.whole, case.old):
            t.bad("%s, power lost after step %d of %d: an incomplete file under the final name", case.name, stop,
                  len(steps))
        if case.before and have is None:
            t.bad("%s, power lost after step %d of %d: the old file is gone", case.name, stop, len(steps))
        shutil.rmtree(folder)


SWEEPS = {"kill": sweep_kill, "calls": sweep_calls, "alloc": sweep_alloc, "power": sweep_power}
