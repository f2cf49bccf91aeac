"""Sweeps over limits of the system, and over programs that get in each other's way."""
import errno
import resource
import signal
import threading

from common import *
from files import corpus_files, judge, make_cases, make_corpus
from inputs import histogram


def lowered(what, n):
    def lower():
        resource.setrlimit(what, (n, n))
    return lower


def sweep_limits(t):
    """Descriptors, address space, file size, threads, processes, disk space, a read-only disk, permissions, closed standard
    streams."""
    cases = make_cases(t)
    points = []
    for case in cases:
        points += [(case, "%d descriptors" % n, resource.RLIMIT_NOFILE, n) for n in range(4, 45)]
        points += [(case, "files of %d bytes" % n, resource.RLIMIT_FSIZE, n) for n in range(1, 400_000, 9973)]
        if not lib.SAN:
            points += [(case, "%d MiB of address space" % n, resource.RLIMIT_AS, n << 20) for n in range(24, 424, 8)]
    for case, what, limit, n in t.thin(points, len(points)):
        t.tried += 1
        argv, target = case.prepare(case.folder)
        ran = run(argv, preexec=lowered(limit, n))
        # too little for the loader or a library to start: nothing of ours has begun
        if limit != resource.RLIMIT_FSIZE and (ran.status in (127, 255) or ran.status in (-signal.SIGABRT, -signal.SIGSEGV)):
            t.note("too little for the libraries")
            continue
        judge(t, case, ran, target, what)
    threads(t, cases)
    processes(t, cases)
    streams(t, cases)
    folders(t, cases)
    read_only(t, cases)


def threads(t, cases):
    """No more threads: the program goes on with fewer, or says so."""
    for case in cases:
        for k in range(1, 4):
            for forever in (False, True):
                t.tried += 1
                argv, target = case.prepare(case.folder)
                ran = run(argv, {"LD_PRELOAD": SHIM, "TORTURE_CALLS": "pthread_create", "TORTURE_AT": str(k), "TORTURE_DO": "11",
                                 **({"TORTURE_FOREVER": "1"} if forever else {})})
                judge(t, case, ran, target, "thread %d cannot be started" % k)


def few_processes(n):
    """For preexec: at most n processes and threads more than the user has. Root has no such limit, so it becomes nobody."""
    def lower():
        drop_root()
        resource.setrlimit(resource.RLIMIT_NPROC, (n + tasks_of(os.getuid()),) * 2)
    return lower


def tasks_of(user):
    """The threads of all processes of a user, without this one."""
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(pid) != os.getpid() and os.stat("/proc/" + pid).st_uid == user:
                count += len(os.listdir("/proc/%s/task" % pid))
        except OSError:  # it has ended
            pass
    return count


ONE_THREAD = "import threading\nthreading.Thread(target=print).start()"


def processes(t, cases):
    """RLIMIT_NPROC: the program goes on with fewer threads, or says so."""
    if run([sys.executable, "-c", ONE_THREAD], preexec=few_processes(1)).status == 0:
        return t.note("skipped: processes are not limited here")  # a user of a name space with CAP_SYS_RESOURCE, say
    for case in cases:
        for n in (1, 2, 3):
            t.tried += 1
            argv, target = case.prepare(case.folder)
            os.chmod(case.folder, 0o777)
            ran = run(argv, preexec=few_processes(n))
            judge(t, case, ran, target, "%d processes" % n)
            os.chmod(case.folder, 0o755)


def streams(t, cases):
    """Standard streams that are closed: no message may go into an output file."""
    for case in cases:
        for closed in range(1, 8):
            def close():
                for fd in range(3):
                    if closed >> fd & 1:
                        os.close(fd)
            t.tried += 1
            argv, target = case.prepare(case.folder)
            argv = [a for a in argv if a != "-q"] + [
                os.path.join(case.folder, "absent%d.h5" % k) for k in range(1000)]
            p = subprocess.Popen(argv, preexec_fn=close, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
            status = p.wait(TIME_LIMIT)
            have = digest(target) if os.path.exists(target) else None
            if status not in PROMISED:
                t.bad("%s, streams %d closed: ends with %d", case.name, closed, status)
            elif have not in (None, case.whole, case.old):
                t.bad("%s, streams %d closed: the file is another: %s", case.name, closed, have)


def folders(t, cases):
    """A full disk and a folder without permission to write, without being root."""
    for case in cases:
        t.tried += 1
        argv, target = case.prepare(case.folder)
        os.chmod(case.folder, 0o555)
        ran = run(argv, preexec=drop_root)
        os.chmod(case.folder, 0o755)
        if ran.status != 5 or case.folder not in ran.err:
            t.bad("%s into a closed folder: status %d, %r", case.name, ran.status, ran.err[-200:])
    for case in cases:
        size = os.path.getsize(produced(case))
        for share in (0, 0.1, 0.5, 0.9):
            t.tried += 1
            full_disk(t, case, int(size * share) // 1024 + 4)


def produced(case):
    argv, target = case.prepare(case.folder)
    run(argv)
    return target


def drop_root():
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)


def full_disk(t, case, kib):
    """Runs the case in a file system of its own, in a name space of its own where that is allowed."""
    argv, target = case.prepare(case.folder)
    command = "mount -t tmpfs -o size=%dk tmpfs %s && %s; s=$?; ls -A %s; exit $s" % (
        kib, case.folder, " ".join("'%s'" % a for a in argv), case.folder)
    ran = run(["unshare", "-rm", "sh", "-c", command])
    if "unshare" in ran.err or "mount:" in ran.err:
        return t.note("no file system of its own here")
    if ran.status not in PROMISED or (ran.status in REJECTED and case.folder not in ran.err):
        t.bad("%s on a disk of %d KiB: status %d, %r", case.name, kib, ran.status, ran.err[-200:])
    elif ran.status in REJECTED and ".part" in ran.out:
        t.bad("%s on a disk of %d KiB leaves %s", case.name, kib, ran.out)


def read_only(t, cases):
    """A disk that is mounted read-only: nothing changes, and the message says why."""
    for case in cases:
        argv, target = case.prepare(case.folder)
        t.tried += 1
        ran = run(argv, injected("create,mkdir,rename,unlink", case.folder, at=1, do=errno.EROFS, forever=True))
        judge_read_only(t, case, ran, {target: bytes_in(target)} if case.before else {}, "EROFS from every call that writes")
        t.tried += 1
        copy = "cp '%s' '%s' && " % (case.before, target) if case.before else ""
        command = "mount -t tmpfs tmpfs %s && %smount -o remount,ro %s && %s; s=$?; ls -A %s; exit $s" % (
            case.folder, copy, case.folder, " ".join("'%s'" % a for a in argv), case.folder)
        ran = run(["unshare", "-rm", "sh", "-c", command])
        if "unshare" in ran.err or "mount:" in ran.err:
            t.note("no file system of its own here")
        elif ran.out.split() != ([case.target] if case.before else []):
            t.bad("%s on a read-only disk leaves %s: %s", case.name, ran.out, ran.err[-200:])
        else:
            judge_read_only(t, case, ran, {}, "a read-only disk")


def judge_read_only(t, case, ran, files, what):
    if ran.status != 5 or case.folder not in ran.err or os.strerror(errno.EROFS) not in ran.err:
        t.bad("%s, %s: status %d, %r", case.name, what, ran.status, ran.err[-200:])
    for path, content in files.items():
        if bytes_in(path) != content:
            t.bad("%s, %s: %s has changed", case.name, what, path)
    if parts(case.folder):
        t.bad("%s, %s: leaves %s", case.name, what, parts(case.folder))


# --- races ---

def together(argvs):
    """Runs several programs at the same time."""
    ran = [None] * len(argvs)

    def one(k):
        ran[k] = run(argvs[k], limit=2 * TIME_LIMIT)
    crew = [threading.Thread(target=one, args=(k,)) for k in range(len(argvs))]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    return ran


def sweep_races(t):
    """The same output from several processes; a store that is replaced while it is read."""
    cases = make_cases(t)
    for _ in range(t.times(400)):
        t.tried += 1
        case = t.random.choice(cases)
        argv, target = case.prepare(case.folder)
        for ran in together([argv] * t.random.choice((2, 3))):
            why = broken_by(ran, case.name)
            if why or ran.status != 0:
                t.bad("%s several times at once: %s", case.name, why or "status %d: %s" % (ran.status, ran.err[-300:]))
        if digest(target) != case.whole or parts(case.folder):
            t.bad("%s several times at once: the file is another, or %s is left", case.name, parts(case.folder))
    for _ in range(t.times(100)):
        t.tried += 1
        replaced_while_read(t)
    corpus_races(t)


def corpus_races(t):
    """Two runs of one corpus at once: one does it, the other waits or says why not."""
    argv, out, whole = make_corpus(t)
    for _ in range(t.times(20)):
        t.tried += 1
        shutil.rmtree(out)
        both = together([argv, argv])
        if 0 not in [ran.status for ran in both] or corpus_files(out) != whole:
            t.bad("two runs of one corpus: status %s, %s: %s", [ran.status for ran in both], sorted(corpus_files(out)),
                  "".join(ran.err[-200:] for ran in both))
        for ran in both:
            why = broken_by(ran, "corpus") or (ran.status in REJECTED and out not in ran.err and "no name: " + ran.err[-200:])
            if why:
                t.bad("two runs of one corpus: %s", why)


def replaced_while_read(t):
    """Results are those of the store before or after, or the run fails; never a mixture."""
    if not hasattr(t, "race"):
        t.race = os.path.join(t.folder, "race")
        os.mkdir(t.race)
        for k in (1, 2):
            slide = os.path.join(t.race, "s%d.svs" % k)
            subprocess.run([MKSLIDE, "--size", "1500x1200", "--seed", str(k), slide], check=True)
            subprocess.run([WSI2H5, "-q", "-o", "%s/%d.h5" % (t.race, k), slide], check=True)
            subprocess.run([H5SPEC, "run", "-q", "--device", "cpu", "-o", "%s/r%d.h5" % (t.race, k), "%s/%d.h5" % (t.race, k)],
                           check=True)
        t.histograms = {histogram("%s/r%d.h5" % (t.race, k)) for k in (1, 2)}
    store, new, out = (os.path.join(t.race, n) for n in ("x.h5", "new.h5", "out.h5"))
    shutil.copy("%s/1.h5" % t.race, store)
    shutil.copy("%s/2.h5" % t.race, new)
    p = subprocess.Popen([H5SPEC, "run", "-q", "--device", "cpu", "-o", out, store], stderr=subprocess.PIPE)
    time.sleep(t.random.random() * 0.1)
    os.rename(new, store)
    _, err = p.communicate(timeout=TIME_LIMIT)
    if p.returncode not in (0, *REJECTED):
        t.bad("a store replaced while it is read: status %d: %s", p.returncode, err.decode()[-200:])
    elif p.returncode == 0 and histogram(out) not in t.histograms:
        t.bad("a store replaced while it is read: the result mixes both")
    if os.path.exists(out):
        os.unlink(out)


# --- CUDA ---

def sweep_cuda(t):
    """Each call of CUDA fails in turn, over the stub of the CUDA runtime: stores of pixels and of JPEG tiles; one, two and four devices."""
    stub = os.path.join(BUILD, "tests", "h5spec_stub")
    if not os.path.exists(stub):
        return t.note("skipped: this build has no CUDA part")
    import check_cuda
    for stores, settings in ((check_cuda.walk_job(), {}), (check_cuda.jpeg_walk_job(), {"refuse": 11})):
        for devices in (1, 2, 4):
            every_call_of_cuda_fails(t, stub, stores, dict(settings, devices=devices))


def every_call_of_cuda_fails(t, stub, stores, settings):
    import check_cuda
    out = os.path.join(t.new_folder(), "r.h5")
    server = Server([stub, "run", "--device", "cuda", "-j", "2", "-o", out, *stores], SHIM, t.folder)
    env = {"WSI_STUB_" + name.upper(): value for name, value in settings.items()}
    sites = check_cuda.calls_of(stores, "-j", 2, **settings)["sites"]
    points = [(k, code) for k in check_cuda.at_each_site(sites) for code in check_cuda.WALK]
    for k, code in t.thin(points, len(points)):
        t.tried += 1
        ran = server.run(dict(env, WSI_STUB_FAIL="%d:%d" % (k, code)))
        try:
            t.note(check_cuda.check_failure(Failing(ran, out), stores, 256, 128, settings["devices"]))
        except Exception as e:
            t.bad("call %d of %d fails with %d, %s: %s", k, len(sites), code, settings, e)
        if os.path.exists(out):
            os.unlink(out)
    server.close()


class Failing:
    """A run as check_cuda.py wants it."""

    def __init__(self, ran, result):
        self.returncode, self.err, self.result = ran.status, ran.err, result


SWEEPS = {"limits": sweep_limits, "races": sweep_races, "cuda": sweep_cuda}
