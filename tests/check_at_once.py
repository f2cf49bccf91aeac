"""h5spec run into a folder, several stores at once: results, messages and lists are those of one after the other."""
import itertools

from check_many import alive, expect_gone, large, members, small
from lib import *

STUB = os.path.join(BUILD, "tests", "h5spec_stub")
N = 14


def stores():
    """A folder of stores: the first takes the longest; some are none, damaged, or of a slide that another one has."""
    slides, folder, first = tmp("slides"), tmp("stores"), made("--size", "1500x1300", name="first")
    shutil.copy(first, os.path.join(slides, "s00.svs"))
    for k in range(1, N):
        shutil.copy(small(k), os.path.join(slides, "s%02d.svs" % k))
    shutil.copy(made("--size", "600x500", "--flip", "1,0", name="hurt"), os.path.join(slides, "s05.svs"))
    shutil.copy(small(4), os.path.join(slides, "s09.svs"))
    shutil.copy(small(2), os.path.join(slides, "s11.svs"))
    shutil.copy(first, os.path.join(slides, "s12.svs"))
    run(WSI2H5, "-q", "--accept-damage", "-o", folder, slides)
    put_file(os.path.join(folder, "s03.h5"), b"no store")
    with open(os.path.join(folder, "s02.h5"), "r+b") as f:  # it opens, but its tiles have other bytes: s11 counts
        f.seek(os.path.getsize(f.name) // 2)
        f.write(b"?" * 2000)
    return folder


def begin(folder, out, *options, program=H5SPEC, device="cpu", **kw):
    return subprocess.Popen([program, "run", "--device", device, *options, "-o", out, folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, **kw)


def need_stub():
    if not os.path.exists(STUB):
        raise Skip("built without nvcc")


def all_sleep(pid):
    """Do all threads of the process wait?"""
    try:
        return all(text_in("/proc/%d/task/%s/stat" % (pid, t)).rpartition(")")[2].split()[0] == "S" for t in os.listdir("/proc/%d/task" % pid))
    except FileNotFoundError:
        return False


def begin_working(folder, out, *options, **kw):
    """Starts a run on the CPU. Returns it and the pids of its processes, which compute."""
    p = begin(folder, out, "-j", "3", *options, **kw)
    return p, wait_for_members(p, 3)


def begin_held(folder, out, *options, **kw):
    """Starts a run on GPUs and stops its writing processes (SIGSTOP) until the run waits for them. Each of them has a slide.
    Returns the run and their pids."""
    p = begin(folder, out, "-j", "8", *options, program=STUB, device="cuda", env=dict(os.environ, WSI_STUB_DEVICES="2"), **kw)
    while len(members(p)) < 2:
        expect(p.poll() is None, "it has ended: %s", p.poll())
    pids = members(p)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    looks = 0
    for _ in range(4000):
        looks = looks + 1 if all_sleep(p.pid) else 0
        if looks == 20:
            return p, pids
        time.sleep(0.01)
    raise Failed("the run does not wait: %s" % p.poll())


def folder_of(slides, *options):
    folder = tmp("stores")
    for k, slide in enumerate(slides):
        os.symlink(store(slide, *options), os.path.join(folder, "s%d.h5" % k))
    return folder


def slow(n, *options):
    """A folder of stores that take a while each."""
    return folder_of([large(k) for k in range(n)], *options)


def wait_for_members(p, n):
    for _ in range(4000):
        pids = members(p)
        if len(pids) >= n:
            time.sleep(0.1)
            return pids
        expect(p.poll() is None, "it has ended: %s", p.poll())
        time.sleep(0.005)
    raise Failed("no %d stores at work" % n)


def facts_of(path):
    """The content of a result, without the name of the device."""
    return {k: v for k, v in content(path).items() if not k.endswith(("@device", "@attribute_crc32"))}


def results_in(out):
    paths = {name: os.path.join(out, name) for name in sorted(os.listdir(out))}
    return {name: facts_of(path) if name.endswith(".h5") else bytes_in(path) for name, path in paths.items()}


def facts(p, out):
    """What a run says and writes, without times, folders, and what names devices and kernels."""
    lines = [{k: v for k, v in row.items() if not k.endswith("seconds") and k not in ("host", "time", "io", "device")} for row in json_lines(p.out)]
    said = p.err.replace(out, "OUT").splitlines()
    return lines, [s for s in said[:-1] if "threads are" not in s], re.sub(r"; [0-9.]+ s.*", "", said[-1]), results_in(out)


@later("ci")
@races
def test_results_messages_and_lists_are_those_of_one_after_the_other():
    folder = stores()
    ways = [(H5SPEC, "cpu", ("-j", j, *more)) for j in ("1", "8") for more in ((), ("--on-damage", "fail"), ("--duplicates", "count"))]
    ways += [(H5SPEC, "cpu", ("-j", *more)) for more in (("2",), ("64",), ("8", "--task", "1/1"), ("8", "--memory", "512M"))]
    ways += [(H5SPEC, "auto", ("-j", j)) for j in ("1", "8")]
    if os.path.exists(STUB):
        ways += [(STUB, "cpu", ("-j", "8"))]
        ways += [(STUB, device, ("-j", j)) for device in ("cuda:0", "cuda", "auto") for j in ("1", "8")] + [(STUB, "cuda", ("-j", "64"))]
        ways += [(STUB, "cuda", ("-j", j, *more)) for j in ("1", "16") for more in (("--on-damage", "fail"), ("--duplicates", "count"))]
        ways += [(STUB, "cuda", ("-j", "8", "--task", "1/1")), (STUB, "cuda", ("-j", "8", "--memory", "512M"))]
    first = {}
    for program, device, options in ways:
        out = os.path.join(tmp(), "out")
        env = dict(os.environ, WSI_STUB_DEVICES="4" if device == "cuda" else "1")
        p = run(program, "run", "--device", device, *options, "--json", "-o", out, folder, status=None, env=env)
        got = facts(p, out)
        lines, said, last, files = got
        expect(p.returncode == 1, "%s: status %d: %s", options, p.returncode, p.err)
        expect([os.path.basename(r["input"]) for r in lines] == ["s%02d.h5" % k for k in range(N)], "%s: %s", options, p.out)
        if "--duplicates" not in options:
            says(p.err, "s09.h5: copy of ", "s12.h5: copy of ")
            expect("s11.h5" in files and "s02.h5" not in files, "the slide of a store that fails is counted with another one")
        kind = (program if device == "auto" else device, *(options[2:] if options[2:3] in (("--on-damage",), ("--duplicates",)) else ()))
        want = first.setdefault(kind, got)
        for k in range(4):
            expect(got[k] == want[k], "%s: %s, not %s", options, str(got[k])[:600], str(want[k])[:600])
        if want is not got:
            continue
        again = run(program, "run", "--device", device, *options, "-o", out, folder, status=None, env=env)
        says(again.err, "0 done, %d skipped (up to date)" % sum(r["status"] in ("done", "damaged") for r in lines))


def test_forms_of_the_same_run_agree():
    """One file, a merge of the folder's, and merges of shares have the same numbers. A share of groups ends within a store."""
    folder = slow(5, "--group-bytes", "1")
    out = tmp()
    run(H5SPEC, "run", "-q", "--device", "cpu", "-j", "8", "-o", os.path.join(out, "all"), folder)
    for k in range(1, 3):
        for name, options in ("shares", ()), ("groups", ("--by", "group")):
            run(H5SPEC, "run", "-q", "--device", "cpu", "-j", "8", "--task", "%d/2" % k, *options, "-o", os.path.join(out, name), folder)
    run(H5SPEC, "run", "-q", "--device", "cpu", "-j", "8", "-o", os.path.join(out, "one.h5"), folder)
    for name in ("all", "shares", "groups"):
        run(H5SPEC, "merge", "-q", "-o", os.path.join(out, name + ".h5"), os.path.join(out, name))
    one = content(os.path.join(out, "one.h5"))
    for name in ("all", "shares", "groups"):
        expect(content(os.path.join(out, name + ".h5")) == one, "%s", name)


@later("ci")
def test_forms_of_the_same_run_on_gpus_agree():
    """As above; each share of groups ends within a store, and has others as a whole."""
    need_stub()
    folder, out = tmp("stores"), tmp()
    for k in range(1, 12):
        os.symlink(store(made("--size", "600x1300", name="g"), "--group-bytes", "1"), os.path.join(folder, "s%02d.h5" % k))
    for devices in "1", "4":
        env = dict(os.environ, WSI_STUB_DEVICES=devices)
        ways = [("all", ()), *((name, ("--task", "%d/2" % k, *more)) for name, more in (("shares", ()), ("groups", ("--by", "group"))) for k in (1, 2))]
        for j in "1", "64":
            for name, options in ways:
                run(STUB, "run", "-q", "--device", "cuda", "-j", j, "--duplicates", "count", *options, "-o", os.path.join(out, name + devices + j), folder, env=env)
            for name in ("all", "shares", "groups"):
                run(STUB, "merge", "-q", "--duplicates", "count", "-o", os.path.join(out, name + devices + j + ".h5"), os.path.join(out, name + devices + j))
        run(STUB, "run", "-q", "--device", "cuda", "-j", "8", "--duplicates", "count", "-o", os.path.join(out, "one%s.h5" % devices), folder, env=env)
    one = facts_of(os.path.join(out, "one1.h5"))
    for path in sorted(p for p in os.listdir(out) if p.endswith(".h5")):
        expect(facts_of(os.path.join(out, path)) == one, "%s", path)


def go_on(pids):
    for pid in pids:
        if alive(pid):
            os.kill(pid, signal.SIGCONT)


@later("ci")
def test_as_many_processes_write_as_a_run_on_gpus_can_use():
    need_stub()
    slides = [small(k) for k in range(9)]
    folder, few = folder_of(slides), folder_of(slides[:7])
    for wanted, j, where, options in (0, "2", folder, ()), (1, "4", folder, ()), (2, "8", folder, ()), (8, "64", folder, ()), (0, "8", few, ()), (0, "8", folder, ("--memory", "512M")):
        if SAN and not wanted:
            continue  # as below
        p, most = begin(where, tmp(), "-q", "-j", j, *options, program=STUB, device="cuda"), 0
        while p.poll() is None:
            most = max(most, len(members(p)))
            time.sleep(0.002)
        expect(p.returncode == 0, "%s", p.communicate()[1])
        expect(most == wanted, "-j %s %s: %d write", j, options, most)


@later("ci")
def test_as_many_stores_are_at_work_as_there_are_threads():
    folder = slow(6)
    for j, wanted in ("1", 0), ("3", 3), ("8", 6):
        if SAN and not wanted:
            continue  # the leak sanitizer looks from a process of its own
        p, most = begin(folder, tmp(), "-q", "-j", j), 0
        while p.poll() is None:
            most = max(most, len(members(p)))
            time.sleep(0.002)
        expect(p.returncode == 0, "%s", p.communicate()[1])
        expect(most == wanted, "-j %s: %d at work", j, most)


KILLED = (  # how the run is begun, of how many stores, how one of its processes ends, the status and the reason
    (begin_working, 5, signal.SIGKILL, 5, "memory is short; try again"), (begin_working, 5, signal.SIGSEGV, 1, "crashed"),
    (begin_working, 5, signal.SIGTERM, 5, "stopped"), (begin_held, 9, signal.SIGKILL, 5, "memory is short; try again"),
    (begin_held, 9, signal.SIGSEGV, 5, "crashed while its result was written"))


@later("ci")
def test_a_process_that_is_killed_costs_its_store():
    many_windows = ("--stride", "32")  # so that none has finished its first store when it is killed
    for begun, n, number, status, why in KILLED:
        if begun == begin_held and not os.path.exists(STUB):
            continue
        folder, out, options = slow(n), tmp(), many_windows if begun == begin_working else ()
        p, pids = begun(folder, out, "--json", *options)
        os.kill(pids[0], number)
        go_on(pids)
        words, err = p.communicate(timeout=TIMEOUT)
        expect(p.returncode == status, "%s: status %d: %s", number, p.returncode, err)
        says(err, why, "%d done" % (n - 1), "1 failed")
        expect([os.path.basename(r["input"]) for r in json_lines(words)] == ["s%d.h5" % k for k in range(n)], "%s", words)
        expect(len(stores_in(out)) == n - 1 and left_overs(out) == [], "%s", os.listdir(out))
        program, device = (H5SPEC, "cpu") if begun == begin_working else (STUB, "cuda")
        run(program, "run", "-q", "--device", device, "-j", "8", *options, "-o", out, folder)
        expect(len(stores_in(out)) == n and not os.path.exists(os.path.join(out, "failed.csv")), "%s", os.listdir(out))


def test_a_run_whose_writing_processes_are_all_killed_ends():
    need_stub()
    out = tmp()
    p, pids = begin_held(slow(9), out, "--json")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    words, err = p.communicate(timeout=TIMEOUT)
    expect(p.returncode == 5, "status %d: %s", p.returncode, err)
    says(err, "all processes of this run have ended; run again")
    done, failed, undone = (int(re.search(r"(\d+) %s" % word, err).group(1)) for word in ("done", "failed", "not computed"))
    expect(done + failed + undone == 9 and failed == 2 and done == len(stores_in(out)), "%s", err)
    expect(left_overs(out) == [], "%s", os.listdir(out))


def test_a_process_that_cannot_write_a_result_ends_the_run():
    need_stub()
    out = os.path.join(tmp(), "out")
    p, pids = begin_held(slow(9), out, "--json")
    before = len(stores_in(out))
    shutil.rmtree(out)
    go_on(pids)
    words, err = p.communicate(timeout=TIMEOUT)
    expect(p.returncode == 5 and not os.path.exists(out), "status %d: %s", p.returncode, err)
    says(err, os.path.join(out, "s%d.h5" % before), "No such file", "%d done" % before)
    expect([r["status"] for r in json_lines(words)] == before * ["done"] + ["failed"], "%s", words)


def ends_by_signal(number, p, pids, out):
    """The run of nine stores and its processes end, nothing is half written, and all counts agree."""
    words, err = p.communicate(timeout=TIMEOUT)
    expect(p.returncode == 3, "signal %d: status %d: %s", number, p.returncode, err)
    expect(not any(alive(pid) for pid in pids), "signal %d: processes stay", number)
    expect(left_overs(out) == [] and not os.path.exists(os.path.join(out, "failed.csv")), "signal %d left %s", number, os.listdir(out))
    done, undone = (int(re.search(r"(\d+) %s" % word, err).group(1)) for word in ("done", "not computed"))
    expect(done + undone == 9 and err.count("stopped by signal") == 1, "%s", err)
    expect(done == len(stores_in(out)) == len(json_lines(words)), "%d done, %s", done, os.listdir(out))


@later("ci")
def test_signals_end_all_processes_and_leave_nothing_half():
    folder, no_nohup = slow(9), lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)
    ways = [(begin_working, number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
    ways += [(begin_held, number) for number in (signal.SIGTERM, signal.SIGINT) if os.path.exists(STUB)]
    for (begun, number), whole_group in itertools.product(ways, (False, True)):  # a terminal and some schedulers reach every process
        out = tmp()
        p, pids = begun(folder, out, "--json", start_new_session=True, preexec_fn=no_nohup)
        (os.killpg if whole_group else os.kill)(p.pid, number)
        go_on(pids)
        ends_by_signal(number, p, pids, out)


@later("ci")
def test_a_parent_that_is_killed_takes_its_processes_along():
    for begun in [begin_working] + [begin_held] * os.path.exists(STUB):
        out = tmp()
        p, pids = begun(slow(9), out, "-q")
        p.kill()
        go_on(pids)
        p.communicate(timeout=TIMEOUT)
        expect_gone(pids)
        expect(left_overs(out) == [], "%s left %s", begun.__name__, left_overs(out))


def test_a_result_that_cannot_be_written_ends_the_run():
    folder = slow(9)
    ways = [(H5SPEC, "cpu", "1"), (H5SPEC, "cpu", "3")] + ([(STUB, "cuda", "8")] if os.path.exists(STUB) else [])
    for program, device, j in ways:
        out = tmp()
        p = run(program, "run", "--device", device, "--json", "-j", j, "-o", out, folder, status=5, preexec_fn=small_files(20000))
        lines = json_lines(p.out)
        expect([r["status"] for r in lines] == ["failed"], "-j %s: %s", j, p.out)
        says(p.err, os.path.join(out, "s0.h5"), "too large", "not computed")
        expect(stores_in(out) == [] and left_overs(out) == [], "%s", os.listdir(out))


def test_memory_does_not_grow_with_the_number_of_stores():
    if SAN:
        raise Skip("sanitizers need memory of their own")
    peaks = []
    for n in (6, 60):
        folder = tmp("stores")
        for k in range(n):
            os.symlink(store(small(1 + k % 3)), os.path.join(folder, "s%02d.h5" % k))
        p = run(H5SPEC, "run", "--device", "cpu", "--duplicates", "count", "-j", "2", "-o", tmp(), folder)
        peaks.append(peak_mib(p.err))
    expect(peaks[1] < 1.3 * peaks[0] + 4, "%s MiB", peaks)


def test_one_line_of_progress_stands_for_all():
    p = run(H5SPEC, "run", "--device", "cpu", "--progress", "yes", "-j", "3", "-o", tmp(), slow(6), env=dict(os.environ, COLUMNS="120"))
    shown = re.findall(r"slide (\d+) of 6: (s\d)", p.err)
    expect(all("s%d" % (int(k) - 1) == name for k, name in shown), "%s", p.err)
    says(p.err, "6 done")


def test_the_live_page_shows_slides_of_all_processes():
    needs("report")
    look_at_live(6, "3", H5SPEC, "cpu")
    if os.path.exists(STUB):
        look_at_live(8, "8", STUB, "cuda")


def look_at_live(n, j, program, device):
    folder, live, out = slow(n), os.path.join(tmp(), "live"), tmp()
    p = begin(folder, out, "-q", "-j", j, "--live", live, program=program, device=device)
    states = []
    while p.poll() is None:
        if os.path.exists(os.path.join(live, "state.js")):
            states.append(json.loads(text_in(os.path.join(live, "state.js"))[5:-3]))
        time.sleep(0.02)
    expect(p.returncode == 0, "%s", p.communicate()[1])
    last = json.loads(text_in(os.path.join(live, "state.js"))[5:-3])
    expect((last["status"], last["done"], last["share"], last["current"]) == ("complete", n, 1, 0), "%s", last)
    expect(device != "cpu" or any(0 < s["share"] < 1 and s["current"] > 0 for s in states), "%s", states)
    shares = [s["share"] for s in states]
    expect(shares == sorted(shares), "%s", shares)
    for k in range(1, n + 1):
        slide = json.loads(text_in(os.path.join(live, "%d.js" % k))[6:-3])
        expect(slide["name"] == "s%d" % (k - 1) and slide["rows"] == slide["ny"] and slide["windows"] > 0, "%s", slide)


def test_few_descriptors_only_make_it_slower():
    p = run(H5SPEC, "run", "--device", "cpu", "-j", "32", "-o", tmp(), slow(8), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20)))
    says(p.err, "8 done, 0 failed")


main(globals())
