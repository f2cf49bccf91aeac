"""Several slides at once: stores, messages and lists are those of one after the other; nothing stays after a signal."""
import csv
import re

from lib import *


def large(k=0, size="3000x2200"):
    return made("--size", size, "--tissue-fraction", "0.9", "--seed", str(k), name="large")


def copies(n, slide):
    """A folder of the same slide under several names."""
    folder = tmp("slides")
    for k in range(n):
        shutil.copy(slide, os.path.join(folder, "s%d.svs" % k))
    return folder


def small(k):
    return made("--size", "600x500", "--seed", str(k), name="small")


def mixed():
    """Slides of which some are damaged or no slides; the first one takes the longest."""
    folder = tmp("slides")
    shutil.copy(large(size="1500x1100"), os.path.join(folder, "s00.svs"))
    for k in range(1, 12):
        shutil.copy(small(k), os.path.join(folder, "s%02d.svs" % k))
    for k in (3, 7):
        put_file(os.path.join(folder, "s%02d.svs" % k), b"no slide %d" % k)
    shutil.copy(made("--size", "600x500", "--flip", "1,0", name="hurt"), os.path.join(folder, "s05.svs"))
    return folder


def members(p):
    """Processes that a program has forked and that have not ended."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%s/stat" % name) as f:
                state, parent = f.read().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if name.isdigit() and int(parent) == p.pid and state not in "ZX":
            found.append(int(name))
    return found


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def begin(*argv, **kw):
    return subprocess.Popen([WSI2H5, "--codec", "deflate", *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)


def most_at_work(folder, *options, **kw):
    """The largest number of slides that are converted at the same time."""
    p, most = begin(*options, "-q", "-o", tmp(), folder, **kw), 0
    while p.poll() is None:
        most = max(most, len(members(p)))
        time.sleep(0.002)
    err = p.communicate(timeout=TIMEOUT)[1]
    expect(p.returncode == 0, "status %d: %s", p.returncode, err)
    return most


def wait_for_members(p, n, out=None):
    """Until so many slides are at work; with `out`, until so many stores are being written."""
    for _ in range(4000):
        pids = members(p)
        parts = n if out is None else sum(f.endswith(".part") for f in os.listdir(out)) if os.path.isdir(out) else 0
        if len(pids) >= n and parts >= n:
            return pids
        expect(p.poll() is None, "it has ended: %s", p.poll())
        time.sleep(0.005)
    raise Failed("no %d slides at work" % n)


def expect_gone(pids):
    for _ in range(1000):
        if not any(alive(pid) for pid in pids):
            return
        time.sleep(0.01)
    raise Failed("processes stay: %s" % [pid for pid in pids if alive(pid)])


def without_times(text):
    return [re.sub(r'"seconds": [0-9.]+|"time": "[^"]*"', "", line) for line in text.splitlines()]


@later("ci")
@races
def test_stores_messages_and_lists_are_those_of_one_after_the_other():
    folder = mixed()
    first = None
    for options in (("-j", "1"), ("-j", "8"), ("-j", "8", "--slides", "3"), ("-j", "2", "--slides", "5")):
        out = os.path.join(tmp(), "out")
        p = run(WSI2H5, *options, "--json", "-o", out, folder, status=1)
        expect([os.path.basename(r["input"]) for r in json_lines(p.out)] == ["s%02d.svs" % k for k in range(12)], "%s: %s", options, p.out)
        said = p.err.replace(out, "OUT").splitlines()
        says(said[-1], "10 converted", "1 with damaged tiles", "2 failed")
        got = (without_times(p.out.replace(out, "OUT")), said[:-1],
               {name: bytes_in(os.path.join(out, name)) for name in sorted(os.listdir(out))})
        first = first or got
        for k in range(3):
            differing = [(a, b) for a, b in zip(got[k], first[k]) if a != b] or (got[k], first[k])
            expect(got[k] == first[k], "%s: %s", options, str(differing)[:900])
    rows = list(csv.reader(first[2]["failed.csv"].decode().splitlines()))
    expect([r[0] for r in rows] == ["slide", "s03.svs", "s07.svs"], "%s", rows)


@later("ci")
def test_no_more_slides_are_at_work_than_wanted():
    folder = copies(6, large(size="1500x1100"))
    expect(most_at_work(folder, "-j", "8", "--slides", "2") == 2, "--slides 2")
    expect(most_at_work(folder, "-j", "3") == 3, "-j 3")


@later("ci")
def test_a_quota_of_processors_is_a_limit_as_well():
    """Of a container: all processors are visible, but only some of their time is its own."""
    library = preloaded("""
        FILE *fopen(const char *path, const char *mode) {
            FILE *(*f)(const char *, const char *);
            char other[4096];
            *(void **)&f = dlsym(RTLD_NEXT, "fopen");
            if (strcmp(path, "/proc/self/cgroup") && strncmp(path, "/sys/fs/cgroup/", 15))
                return f(path, mode);
            snprintf(other, sizeof other, "%s%s", getenv("SYSTEM"), path);
            return f(other, mode);
        }""")
    slides, system = copies(4, large(size="1500x1100")), tmp("system")
    for name, text in (("proc/self/cgroup", b"1:name=x:/y\n0::/a/b\n"), ("sys/fs/cgroup/a/b/cpu.max", b"max 100000\n"),
                       ("sys/fs/cgroup/a/cpu.max", b""), ("sys/fs/cgroup/cpu.max", b"900000 100000\n")):
        os.makedirs(os.path.dirname(os.path.join(system, name)), exist_ok=True)
        put_file(os.path.join(system, name), text)
    for limit, wanted in (b"50000 100000", 1), (b"max 100000", min(4, len(os.sched_getaffinity(0)))):
        put_file(os.path.join(system, "sys/fs/cgroup/a/cpu.max"), limit + b"\n")
        got = most_at_work(slides, env=dict(os.environ, LD_PRELOAD=library, SYSTEM=system))
        expect(got == wanted, "%s: %d at work", limit, got)


def test_a_process_that_is_killed_costs_its_slide():
    """By the system when memory is short, or stopped by somebody: another try may succeed, so the status says so."""
    for number, why in (signal.SIGKILL, "memory is short; try again"), (signal.SIGTERM, "stopped"):
        folder, out = copies(5, large()), tmp()
        p = begin("-j", "2", "--json", "-o", out, folder)
        os.kill(wait_for_members(p, 2, out)[0], number)
        words, err = p.communicate(timeout=TIMEOUT)
        lines = json_lines(words)
        expect(p.returncode == 5, "status %d: %s", p.returncode, err)
        says(err, why, "4 converted", "1 failed")
        expect([os.path.basename(r["input"]) for r in lines] == ["s%d.svs" % k for k in range(5)], "%s", words)
        expect(len(stores_in(out)) == 4 and left_overs(out) == [], "%s", os.listdir(out))
        run(WSI2H5, "-q", "-j", "2", "-o", out, folder)
        expect(len(stores_in(out)) == 5 and not os.path.exists(os.path.join(out, "failed.csv")), "%s", os.listdir(out))


def test_signals_end_all_processes_and_leave_nothing_half():
    folder = copies(8, large())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        for whole_group in (False, True):  # a terminal and some schedulers reach every process
            out = tmp()
            p = subprocess.Popen([WSI2H5, "--codec", "deflate", "-j", "3", "-o", out, folder], stderr=subprocess.PIPE, text=True,
                                 start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))  # of nohup
            pids = wait_for_members(p, 3, out)
            (os.killpg if whole_group else os.kill)(p.pid, number)
            err = p.communicate(timeout=TIMEOUT)[1]
            expect(p.returncode == 3, "signal %d: status %d: %s", number, p.returncode, err)
            expect(not any(alive(pid) for pid in pids), "signal %d: processes stay", number)
            expect(left_overs(out) == [], "signal %d left %s", number, left_overs(out))
            numbers = [int(n) for n in re.findall(r"(\d+) [a-z]", err.splitlines()[-1].split(";")[0])]
            expect(sum(numbers) == 8 and err.count("stopped by signal") == 1, "%s", err)
            expect(not os.path.exists(os.path.join(out, "failed.csv")), "what was stopped has not failed")


def test_a_parent_that_is_killed_takes_its_processes_along():
    folder, out = copies(4, large()), tmp()
    p = begin("-j", "2", "-q", "-o", out, folder)
    pids = wait_for_members(p, 2, out)
    p.kill()
    p.communicate(timeout=TIMEOUT)
    expect_gone(pids)
    expect(left_overs(out) == [], "left %s", left_overs(out))


def test_a_caller_that_ignores_ended_children_changes_nothing():
    folder = mixed()
    p = run(WSI2H5, "-j", "2", "-o", tmp(), folder, status=1, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    says(p.err, "10 converted", "2 failed")


def test_few_descriptors_only_make_it_slower():
    p = run(WSI2H5, "-j", "32", "-o", tmp(), mixed(), status=1, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24)))
    says(p.err, "10 converted", "2 failed")


def test_memory_does_not_grow_with_the_number_of_slides():
    if SAN:
        raise Skip("sanitizers need memory of their own")
    peaks = []
    for n in (6, 60):
        folder = copies(n, made("--size", "300x300"))
        peaks.append(peak_mib(run(WSI2H5, "-j", "2", "-o", tmp(), folder).err))
    expect(peaks[1] < 1.3 * peaks[0] + 4, "%s MiB", peaks)


def test_the_same_slide_twice_under_hidden_names_gets_one_store():
    """Its store is known only when its name is, while both are at work."""
    folder, out = copies(4, small(1)), tmp()
    keys = [os.path.join(tmp(), "key.csv") for _ in range(2)]
    p = run(WSI2H5, "-j", "4", "--anonymous", keys[0], "-o", out, folder, status=None)
    one = run(WSI2H5, "-j", "1", "--anonymous", keys[1], "-o", tmp(), folder, status=None)
    expect(p.returncode == one.returncode and len(stores_in(out)) == 1, "%s %s", p.err, one.err)
    expect(bytes_in(keys[0]) == bytes_in(keys[1]), "%s, not %s", *map(bytes_in, keys))
    counts = [re.match(r".*failed", t.err.splitlines()[-1]).group() for t in (p, one)]
    expect(counts[0] == counts[1], "%s", counts)


if __name__ == "__main__":
    main(globals())
