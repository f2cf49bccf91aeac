"""Corpora: shares, tables, interrupted runs, kills; on this machine, under Slurm and Grid Engine.

A test of what survives a kill runs twice: with our programs, and with a naive program that writes in
place, with which it must fail.
"""
import csv
import glob
import io
import random
import re
import signal
import struct

import h5py

from lib import *

CORPUS = os.path.join(ROOT, "scripts", "corpus")
GROUPS = "--stripe-rows 240 --group-bytes 1"
TOOLS = {"WSI2H5": WSI2H5, "H5SPEC": H5SPEC}
random.seed(5)


def slides(n=4, size="600x900"):
    return [made("--size", size, "--seed", str(k + 1), name="s%02d" % k) for k in range(n)]


def many(n=4):
    return [store(s, *GROUPS.split()) for s in slides(n)]


def direct(stores):
    """The result of one process over all stores, in sequence."""
    return content(spectrum(sorted(stores)))


def corpus(*argv, status=0, env=TOOLS, timeout=TIMEOUT):
    return run(sys.executable, CORPUS, *argv, status=status, env=dict(os.environ, **env), timeout=timeout)


def status_of(out, status=None, env=TOOLS):
    p = corpus("status", "--json", "-o", out, status=status, env=env)
    expect(p.out, "%s", p.err)
    return json.loads(p.out)


# --- h5spec ---

def test_lookup():
    stores = many(3)
    p = run(H5SPEC, "lookup", *stores)
    rows = [line.split("\t") for line in p.out.splitlines()]
    expect(rows == [["Start", "End", "Name"], ["1", "4", stores[0]], ["5", "8", stores[1]], ["9", "12", stores[2]]],
           "%s", rows)
    broken = os.path.join(tmp(), "broken.h5")
    with open(stores[0], "rb") as a, open(broken, "wb") as b:
        b.write(a.read()[:30000])
    p = run(H5SPEC, "lookup", stores[0], broken, stores[1], status=1)
    says(p.err, broken, "truncated")
    expect([line.split("\t")[0] for line in p.out.splitlines()] == ["Start", "1", "5"], p.out)
    tab = os.path.join(tmp(), "a\tb.h5")
    shutil.copy(stores[0], tab)
    says(run(H5SPEC, "lookup", tab, status=1).err, "rename the file")


def test_lists():
    stores, names = many(3), os.path.join(tmp(), "list")
    with open(names, "w") as f:
        f.write("# stores\n%s\n\n%s\r\n" % (stores[1], stores[2]))
    out = spectrum([stores[0], "--list", names])
    equal(content(out), direct(stores), "a list")
    says(run(H5SPEC, "info", "--list", names).out, stores[1], stores[2])
    says(run(H5SPEC, "run", "-o", out, "--list", names + "x", status=2).err, names + "x", "cannot read the list")


def test_shares_into_a_folder():
    stores, out = many(5), tmp()
    for task, n in (("1/3", 2), ("2/3", 2), ("3/3", 1), ("3/3", 0), ("6/7", 0)):
        says(run(H5SPEC, "--task", task, "-o", out, *stores).err, "%d done" % n)
    says(run(H5SPEC, "--task", "6/7", "-o", out, *stores).err, "share 6 of 7 of 5 stores is empty: nothing to do")
    whole = os.path.join(tmp(), "c.h5")
    run(H5SPEC, "merge", "-q", "-o", whole, *glob.glob(out + "/*.h5"))
    equal(content(whole), direct(stores), "shares")
    says(run(H5SPEC, "--task", "1/3", "-o", whole, *stores, status=2).err, "--task needs a folder")


def test_existing_results_are_kept():
    (s,), out = many(1), tmp()
    mine = os.path.join(out, "slide.h5")
    shutil.copy(s, mine)
    results = tmp()
    path = os.path.join(results, "slide.h5")

    def again(*options, status=0):
        p = run(H5SPEC, "--json", "-o", results, *options, mine, status=status)
        return json_lines(p.out)[0]["status"], p.err
    expect(again()[0] == "done", "not done")
    first = content(path)
    os.utime(path, (2 ** 31 - 1, 2 ** 31 - 1))
    expect(again()[0] == "skipped" and os.stat(path).st_mtime == 2 ** 31 - 1, "written again")
    for options in (("--window", "128"), ("--sigma", "2"), ("--taper", "hann")):
        what, err = again(*options, status=1)
        expect(what == "failed", what)
        says(err, mine, "other parameters", options[0][2:], "--force")
    expect(again("--force")[0] == "done", "--force")
    expect(os.stat(path).st_mtime < 2 ** 31 - 1, "--force did nothing")
    os.utime(mine, (2 ** 31 - 1, 2 ** 31 - 1))  # a newer store
    expect(again()[0] == "done", "a stale result was taken")
    os.utime(mine, (1, 1))
    with open(path, "r+b") as f:
        f.truncate(os.path.getsize(path) - 100)
    expect(again()[0] == "done" and content(path) == first, "a damaged result was taken")
    shutil.copy(store(slides(2)[1]), mine)
    os.utime(mine, (1, 1))
    says(again(status=1)[1], mine, "another store")
    open(path, "w").write("mine")
    says(again(status=1)[1], "not overwritten")
    expect(open(path).read() == "mine", "a foreign file was replaced")


def test_groups_into_a_folder():
    (s,), out = many(1), tmp()
    for g in ("1", "2-3", "4"):
        run(H5SPEC, "-q", "--groups", g, "-o", out, s)
    expect(sorted(os.listdir(out)) == ["s00.1-1.h5", "s00.2-3.h5", "s00.4-4.h5"], "%s", os.listdir(out))
    says(run(H5SPEC, "--groups", "2-3", "-o", out, s).err, "1 skipped")
    shutil.copy(os.path.join(out, "s00.1-1.h5"), os.path.join(out, "s00.2-2.h5"))
    says(run(H5SPEC, "--groups", "2", "-o", out, s, status=1).err, "another store")
    os.unlink(os.path.join(out, "s00.2-2.h5"))
    whole = os.path.join(tmp(), "c.h5")
    run(H5SPEC, "merge", "-q", "-o", whole, *glob.glob(out + "/*.h5"))
    equal(content(whole), direct([s]), "groups")
    p = run(H5SPEC, "merge", "-o", whole, os.path.join(out, "s00.1-1.h5"), os.path.join(out, "s00.4-4.h5"), status=1)
    says(p.err, "slide s00", "group 2-3 of 4 is missing")


def test_a_table_for_people_and_for_pandas():
    stores = many(3)
    out = spectrum(stores)
    p = run(H5SPEC, "info", "--csv", out, out)
    rows = list(csv.DictReader(io.StringIO(p.out)))
    expect(len(rows) == 8 and [r["kind"] for r in rows[:4]] == ["slide"] * 3 + ["corpus"], "%s", rows)
    (j,) = json_lines(run(H5SPEC, "info", "--json", out).out)
    for row, want in zip(rows, j["slides"] + [j]):
        for field in ("windows", "mean_db", "std_db", "underflow"):
            expect(abs(float(row[field]) - want[field]) <= 1e-9 * abs(want[field]), "%s: %s", field, row)
    expect(rows[0]["source_name"] == "s00.svs" and rows[0]["width"] == "600", "%s", rows[0])
    part = spectrum(stores[0], "--groups", "2")
    (row, _) = csv.DictReader(io.StringIO(run(H5SPEC, "info", "--csv", part).out))
    expect(row["groups_missing"] == "1,3-4", "%s", row)
    says(run(H5SPEC, "info", "--csv", stores[0], status=1).err, stores[0], "no spectrum")
    text = run(H5SPEC, "info", out).out.splitlines()
    first = [line.split()[0] for line in text]
    table = first[first.index("slide"):first.index("all") + 1]
    expect(table == ["slide", "s00", "s01", "s02", "all"], "%s", text)


@later("ci")
def test_memory_does_not_grow_with_the_number_of_stores():
    if SAN:
        raise Skip("sanitizers need memory of their own")
    folder, (s,) = tmp(), many(1)
    stores = [shutil.copy(s, os.path.join(folder, "t%03d.h5" % k)) for k in range(200)]
    peak = []
    for n in (20, 200):
        for output in (os.path.join(tmp(), "r.h5"), tmp()):
            p = run(H5SPEC, "-j", "2", "--allow-duplicates", "-o", output, *stores[:n])
            value, unit = p.err.rsplit("peak memory ", 1)[1].split()
            peak.append(float(value) * {"MiB": 1, "GiB": 1024}[unit])
    # HDF5 keeps some metadata per slide of the file that it writes
    expect(peak[2] < peak[0] + 12 and peak[3] < peak[1] + 4, "20 stores: %s, 200: %s MiB", peak[:2], peak[2:])


def test_tune():
    s = store(made("--size", "1200x1600", name="tune"))
    p = run(H5SPEC, "tune", "-j", "2", s)
    rows = [line.split() for line in p.out.splitlines() if re.match(r" *[\d.]+ [KM]iB ", line)]
    expect([int(r[2]) for r in rows] == [240, 240, 480, 480, 960, 960, 1600, 1600], "rows: %s", rows)
    expect([r[3] for r in rows] == ["1", "2"] * 4, "threads: %s", rows)
    expect(all(float(r[5]) > 0 for r in rows), "warm: %s", rows)
    expect(all(float(r[-2]) > 1 for r in rows[4:]), "reading window by window was not slower: %s", rows)
    (size,) = re.findall(r"^--group-bytes (\d+)M$", p.out, re.M)
    run(WSI2H5, "-q", "-o", tmp(), "--group-bytes", size + "M", made("--size", "1200x1600", name="tune"))
    if os.path.isdir("/dev/shm"):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as d:
            says(run(H5SPEC, "tune", "-j", "1", shutil.copy(s, d)).out, "so no speed is a cold one")
    damaged = os.path.join(tmp(), "damaged.h5")
    data = bytearray(open(s, "rb").read())
    data[len(data) // 2] ^= 1
    open(damaged, "wb").write(data)
    says(run(H5SPEC, "tune", damaged, status=1).err, damaged, "CRC mismatch in chunk")
    p = subprocess.Popen([H5SPEC, "tune", s], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    time.sleep(0.2)
    p.send_signal(signal.SIGTERM)
    says(p.communicate(timeout=TIMEOUT)[1].decode(), "stopped by signal")
    expect(p.returncode == 3, "status %d", p.returncode)


def plan(*argv, status=0):
    return run(sys.executable, os.path.join(ROOT, "scripts", "plan"), *argv, status=status)


def planned(*argv):
    """{phase: (seconds, what bounds it)}"""
    rows = re.findall(r"^(convert|process|all) +(?:\d+ +\d+ +)?([\d.]+) (s|min|h)(.*)$", plan(*argv).out, re.M)
    return {r[0]: (float(r[1]) * {"s": 1, "min": 60, "h": 3600}[r[2]], r[3].split("%")[-1].strip()) for r in rows}


def near(got, want):
    expect(abs(got - want) <= 0.02 * want + 0.06, "%g, not %g", got, want)


def test_plan_by_numbers_computed_by_hand():
    # 100 Mpx per slide; 10 Mpx/s per core; converting reads and writes 2 GB per slide
    rates = ["--size", "10000x10000", "--mp-per-core", "10", "--windows-per-core", "100", "--slide-bytes", "10",
             "--store-bytes", "10", "--start", "0", "--per-slide", "0", "--per-result", "0", "--lookup", "0", "--merge", "0", "--task-cores", "1"]
    n = 77 * 77
    p = planned("--slides", "8", "--cores", "4", "--storage", "1T", *rates)
    near(p["convert"][0], 2 * 10)
    near(p["process"][0], 2 * n / 100)
    expect(p["convert"][1] == p["process"][1] == "cores", "%s", p)
    p = planned("--slides", "8", "--cores", "4", "--storage", "100M", *rates)  # 16 GB, 8 GB at 0.1 GB/s
    near(p["convert"][0], 160)
    expect(p["convert"][1] == "storage", "%s", p)
    p = planned("--slides", "5", "--cores", "4", "--storage", "1T", *rates)  # the fifth is alone
    near(p["convert"][0], 20)
    p = planned("--slides", "4", "--cores", "4", "--storage", "1T", *rates, "--start", "3")
    near(p["convert"][0], 13)
    p = planned("--slides", "10", "--tasks", "2", "--cores", "4", "--storage", "1T", *rates, "--start", "3")
    near(p["convert"][0], 3 + 5 * 10)  # a start per task, and two of four places are idle
    p = planned("--slides", "10", "--tasks", "2", "--cores", "2", "--storage", "1T", *rates, "--lookup", "2", "--merge", "3",
                "--per-slide", "1", "--per-result", "4")
    near(p["all"][0], 5 * 11 + 10 * 2 + 5 * (4 + n / 100) + 10 * 3)
    p = planned("--slides", "8", "--gpus", "2", "--gpu-nodes", "2", "--windows-per-gpu", "1000", "--storage", "1T", *rates)
    near(p["process"][0], 2 * n / 1000)
    sizes = os.path.join(tmp(), "sizes")
    open(sizes, "w").write("10000x10000\n20000x10000\n")
    p = planned("--sizes", sizes, "--cores", "2", "--storage", "300M", *rates)
    # both want 0.2 GB/s and get 0.15: the first ends after 13.3 s, the other has 2 GB left, at full speed
    near(p["convert"][0], 2 / 0.15 + 10)
    says(plan("--slides", "400", "--cores", "1", "--hours", "0.2", "--storage", "1T", *rates).out, "40 nodes")  # ten each
    says(plan("--slides", "400", "--hours", "0.2", "--storage", "100M", *rates, status=1).out, "no number of nodes")
    says(plan("--gpus", "1", status=2).err, "--windows-per-gpu")
    says(plan("--sizes", sizes + "x", status=2).err, sizes)


def test_plan_takes_the_rates_of_a_run():
    out = os.path.join(tmp(), "out")
    corpus("run", "--scheduler", "local", "-o", out, *slides(3))
    p = plan("--measured", out, "--slides", "3", "--size", "600x900")
    got = float(re.search(r"([\d.]+) Mpx/s", p.out).group(1))
    lines = json_lines(open(out + "/logs/1.convert.1.json").read())
    own, pixels = sum(j["seconds"] for j in lines), sum(j["width"] * j["height"] for j in lines)
    took = float(re.search(r", ([\d.]+) s, peak", open(out + "/logs/1.convert.1.err").read()).group(1))
    near(got, pixels / 1e6 / min(own, took))  # slides that overlap take less together
    says(run(sys.executable, ROOT + "/scripts/plan", "--measured", tmp(), status=1).err, "no run")


def test_plan_tells_what_a_slide_costs_from_what_its_pixels_cost():
    """A made run: 0.1 s per slide and 1 Mpx/s, 0.2 s per store and 100 windows/s; and each task spent 3 s more."""
    out = os.path.join(tmp(), "out")
    os.makedirs(out + "/logs")
    sides = (2560, 5120, 7680)
    rows = [((k * 2560) ** 2, (20 * k - 1) ** 2) for k in (1, 2, 3)]
    for kind, field in (("convert", "slide"), ("process", "store")):
        with open(out + "/logs/1.%s.1.json" % kind, "w") as f:
            for side, (px, n) in zip(sides, rows):
                f.write(json.dumps({field: "s", "status": "done", "width": side, "height": side, "windows": n, "source_bytes": 1, "store_bytes": 1,
                                    "seconds": 0.1 + px / 1e6 if kind == "convert" else 0.2 + n / 100}) + "\n")
    spent = [3 + 3 * 0.1 + sum(px for px, _ in rows) / 1e6, 3 + 3 * 0.2 + sum(n for _, n in rows) / 100]
    for kind, word, took in zip(("convert", "process"), ("wsi2h5: 3 converted, 0 failed; 2.5 MP/s", "h5spec: 3 done, 0 failed: 9 windows, std 2 dB"), spent):
        with open(out + "/logs/1.%s.1.err" % kind, "w") as f:
            text = "%.3f s" % took if took < 60 else "%d min %02d s" % divmod(round(took), 60)
            f.write("x.sh: task 1 on n1\n%s; %s, peak memory 25 MiB\n" % (word.replace("; 2.5", ", 2.5").replace(" MP/s", " MP/s"), text))
    sizes = os.path.join(tmp(), "sizes")
    open(sizes, "w").write("600x600\n" * 1000)
    p = planned("--measured", out, "--sizes", sizes, "--cores", "1", "--task-cores", "1", "--storage", "1T", "--start", "0", "--lookup", "0", "--merge", "0")
    near(p["convert"][0], 1000 * (1.1 + 0.36))
    near(p["process"][0], 1000 * (1.2 + 9 / 100))


# --- kills ---

NAIVE = """#!/bin/sh
# writes in place, under the final name
for last; do :; done
[ "$NAIVE_WHOLE" ] || exit 1
while [ $# -gt 0 ]; do
    [ "$1" != -o ] || out=$2
    shift
done
base=${last##*/}
[ ! -d "$out" ] || out=$out/${base%.*}.h5
[ ! -e "$out" ] || exit 0
n=$(stat -c %s "$NAIVE_WHOLE") k=0
while [ $((k * 20)) -lt 400 ]; do
    dd if="$NAIVE_WHOLE" of="$out" bs=$((n / 20 + 1)) skip=$k seek=$k count=1 conv=notrunc 2>/dev/null
    k=$((k + 1))
done
"""


def naive():
    path = os.path.join(tmp("naive"), "naive")
    with open(path, "w") as f:
        f.write(NAIVE)
    os.chmod(path, 0o755)
    return path


def kill_at_random(argv, out, name, same, kills, long, env=None):
    """Kills a run with -9 at random moments; a file under the final name must be the complete one."""
    path, stopped = os.path.join(out, name), 0
    for k in range(kills):
        p = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
        try:
            p.wait(random.uniform(0, long))
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
            stopped += 1
        if os.path.exists(path):
            expect(same(path), "kill %d left a %s that differs", k, name)
            os.unlink(path)
    expect(stopped >= kills / 3, "only %d of %d were killed: too few for a test", stopped, kills)


def kills_of(name, argv, inputs, content_of, kills):
    """Kills one of our programs, and the naive one in its place."""
    out = tmp()
    begun = time.time()
    run(*argv, "-o", out, *inputs)
    long = time.time() - begun
    whole, keep = os.path.join(out, name), os.path.join(tmp(), name)
    os.rename(whole, keep)
    want = content_of(keep)

    def same(path):
        try:
            return content_of(path) == want
        except OSError:  # not even HDF5
            return False
    kill_at_random(argv + ["-o", out] + inputs, out, name, same, kills, 1.1 * long)
    run(*argv, "-o", out, *inputs)
    expect(same(whole) and left_overs(out) == [], "the next run left %s", left_overs(out))
    there = tmp()
    try:
        kill_at_random([naive()] + argv[1:] + ["-o", there] + inputs, there, name, same, 40, 0.1,
                       dict(os.environ, NAIVE_WHOLE=keep))
    except Failed as e:
        says(str(e), "differs")
        return
    raise Failed("the naive program passed the same test")


@later("ci")
def test_kills_of_wsi2h5():
    slide = made("--size", "2400x2000", name="killed")
    kills_of("killed.h5", [WSI2H5, "-q", "--codec", "deflate"], [slide], lambda p: open(p, "rb").read(), by_tier(20, 60, 300))


@later("ci")
def test_kills_of_h5spec():
    s = store(made("--size", "2400x2000", name="killed"))
    kills_of("killed.h5", [H5SPEC, "run", "-q", "--device", "cpu"], [s], content, by_tier(20, 60, 300))


# --- corpus on this machine ---

BAD = {"cut.svs": "cut.svs: ", "empty.svs": "empty", "gone.svs": "no such", "z/s01.svs": "is the same slide as"}


def folder_of_slides(n=8, **sizes):
    """A folder with n good slides and four bad ones. Returns it and the list of the good ones."""
    folder, good = tmp("slides"), []
    for k in range(n):
        name = "s%02d" % k
        slide = made("--size", sizes.get(name, "600x900"), "--seed", str(k + 1), name=name)
        good.append(shutil.copy(slide, folder))
    with open(good[0], "rb") as f, open(os.path.join(folder, "cut.svs"), "wb") as out:
        out.write(f.read(3000))
    open(os.path.join(folder, "empty.svs"), "w").close()
    os.mkdir(os.path.join(folder, "z"))
    shutil.copy(good[-1], os.path.join(folder, "z", "s01.svs"))  # a small one: it has a quickhash
    return folder, good


def begin(folder):
    return [folder, os.path.join(folder, "gone.svs")]


def check_corpus(out, stores, env=TOOLS):
    """corpus.h5 equals one direct run; the status lists exactly the bad slides, with their reasons."""
    equal(content(os.path.join(out, "corpus.h5")), direct(stores), "corpus.h5")
    st = status_of(out, 1, env)
    expect(st["slides"] == 12 and st["converted"] == 9 and st["processed"] == st["corpus"]["slides"] == 8, "%s", st)
    failed = {f["slide"].split("/slides-")[1].split("/", 1)[1]: f["reason"] for f in st["failed"]}
    expect(set(failed) == set(BAD), "failed: %s", failed)
    for name, reason in BAD.items():
        says(failed[name], reason)
    remains = [f for d, _, names in os.walk(out) for f in names if f.endswith((".part", ".new"))]
    expect(remains == [], "left %s", remains)


def direct_stores(out):
    """The stores except that of z/s01.svs, which is the same slide as s07."""
    return sorted(set(glob.glob(os.path.join(out, "stores", "*.h5"))) - {os.path.join(out, "stores", "s01-2.h5")})


def local(out, folder, *options, status=1, env=TOOLS):
    return corpus("run", "--scheduler", "local", "-o", out, "--wsi2h5", GROUPS, *options, *begin(folder),
                  status=status, env=env)


def test_local_every_way_of_splitting():
    folder, good = folder_of_slides()
    want = None
    for options in ([], ["--tasks", "3"], ["--group-tasks"], ["--group-tasks", "--tasks", "2"]):
        out = os.path.join(tmp(), "out")
        local(out, folder, *options)
        check_corpus(out, direct_stores(out))
        data = content(os.path.join(out, "corpus.h5"))
        want = want or data
        equal(data, want, "corpus --tasks %s" % options)
    table = open(os.path.join(out, "lookup.txt")).read().splitlines()
    expect(table[0] == "Start\tEnd\tName" and len(table) == 10 and table[-2].startswith("29\t32\t"), "%s", table)


def test_local_run_again_does_only_what_is_missing():
    folder, good = folder_of_slides()
    out = os.path.join(tmp(), "out")
    local(out, folder)
    times = {f: os.stat(f).st_mtime_ns for f in glob.glob(out + "/*/*.h5")}
    made_first = os.stat(out + "/corpus.h5").st_mtime_ns
    local(out, folder)
    expect({f: os.stat(f).st_mtime_ns for f in times} == times, "something was done again")
    expect(os.stat(out + "/corpus.h5").st_mtime_ns == made_first, "it was merged again")
    os.unlink(out + "/results/s03.h5")
    os.unlink(out + "/stores/s04.h5")
    local(out, folder)
    changed = {os.path.relpath(f, out) for f in times if os.stat(f).st_mtime_ns != times[f]}
    expect(changed == {"results/s03.h5", "stores/s04.h5", "results/s04.h5"}, "%s", changed)
    check_corpus(out, direct_stores(out))
    with open(out + "/stores/s05.h5", "r+b") as f:  # damaged later: converted again by the second run
        f.truncate(100000)
    says(local(out, folder, status=5).out, "s05.svs", "truncated")
    local(out, folder)
    check_corpus(out, direct_stores(out))
    says(local(out, folder, "--h5spec", "--window 128").err, "was started with no --h5spec", "--stores")
    other = os.path.join(tmp(), "other")
    p = corpus("run", "--scheduler", "local", "-o", other, "--stores", out + "/stores", "--wsi2h5", GROUPS, "--h5spec",
               "--window 128", *good)
    expect("converting" not in p.err, p.err)
    equal(content(other + "/corpus.h5"), content(spectrum(direct_stores(out), "--window", "128")), "other parameters")


def rows_in(table):
    with h5py.File(table, "r") as f:
        return [n.decode() for n in f["table/name"][()]], f["histogram"][()]


def test_local_a_corpus_as_a_table():
    """Later runs keep the form. Withdrawn slides leave it."""
    folder, out = tmp("slides"), os.path.join(tmp(), "out")
    for name, s in zip(("anna", "bert", "carl", "dora"), slides(4)):
        shutil.copy(s, os.path.join(folder, name + ".svs"))
    run_ = lambda *options: corpus("run", "--scheduler", "local", "-o", out, *options, folder)
    os.rename(folder + "/dora.svs", folder + "/dora")
    run_("--table")
    names, counts = rows_in(out + "/corpus.h5")
    expect(names == ["anna", "bert", "carl"] and os.path.exists(out + "/report.html"), "%s", names)
    os.rename(folder + "/dora", folder + "/dora.svs")
    says(run_().out, "4 of 4 slides converted, 4 processed")
    names, counts = rows_in(out + "/corpus.h5")
    expect(names == ["anna", "bert", "carl", "dora"], "%s", names)
    expect(counts.tobytes() == direct(glob.glob(out + "/stores/*.h5"))["/histogram"], "the sum")
    run(H5SPEC, "verify", out + "/corpus.h5")
    corpus("remove", "-o", out, "bert")
    expect(rows_in(out + "/corpus.h5")[0] == ["anna", "carl", "dora"] and b"bert" not in open(out + "/corpus.h5", "rb").read(), "withdrawn")
    expect(status_of(out, 0)["corpus"]["slides"] == 3, "status")
    # a corpus that begins with everything in one file, and becomes a table
    other = os.path.join(tmp(), "other")
    for form, options in (("slides", ()), ("table", ("--table",)), ("table", ())):
        corpus("run", "--scheduler", "local", "-o", other, *options, folder + "/anna.svs")
        with h5py.File(other + "/corpus.h5", "r") as f:
            expect(form in f, "%s: %s", form, list(f))
        expect(status_of(other, 0)["corpus"]["current"], "the merged result is up to date")


def test_local_changed_regions():
    """A slide whose regions have changed is computed again; one whose file was only written again is not."""
    folder, roi, out = tmp(), tmp(), os.path.join(tmp(), "out")

    def draw(name, right):
        with open(os.path.join(roi, name + ".geojson"), "w") as f:
            json.dump({"type": "Polygon", "coordinates": [[[0, 0], [right, 0], [right, 600], [0, 600]]]}, f)
    for name in ("a", "b"):
        shutil.copy(made("--size", "600x600", "--seed", str(ord(name))), os.path.join(folder, name + ".svs"))
        draw(name, 600)
    def state():
        corpus("run", "--scheduler", "local", "-o", out, "--h5spec", "--roi " + roi, folder)
        return {name: (os.stat(path).st_ino, content(path)) for name in "ab" for path in [os.path.join(out, "results", name + ".h5")]}
    first = state()
    draw("a", 300)
    draw("b", 600)
    says(corpus("status", "-o", out, status=5).out, "2 to do")
    second = state()
    expect(second["a"][1] != first["a"][1] and second["b"] == first["b"], "a: changed, b: not")
    says(corpus("status", "-o", out).out, "2 of 2")
    expect(state() == second, "done again")


def test_local_nothing_but_bad_slides():
    folder = tmp()
    open(os.path.join(folder, "x.svs"), "w").close()
    out = os.path.join(tmp(), "out")
    p = corpus("run", "--scheduler", "local", "-o", out, folder, status=1)
    says(p.out, "0 of 1 slides converted", "1 failed", "the file is empty")
    expect(not os.path.exists(out + "/corpus.h5"), "an empty corpus.h5")


def wrapper(text):
    """A program in place of ours: the shell script `text`."""
    path = os.path.join(tmp("wrapper"), "program")
    with open(path, "w") as f:
        f.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


def test_local_a_slide_that_crashes_its_program():
    # the other slides of its share are done, and the status names it
    folder, good = folder_of_slides()
    out = os.path.join(tmp(), "out")
    crash = wrapper('''case "$*" in *"--task "*) ;; *) exec %s "$@" ;; esac
while [ $# -gt 0 ]; do case $1 in --list) list=$2 ;; -o) out=$2 ;; esac; shift; done
while read -r slide; do
    case $slide in */s02.svs) kill -SEGV $$ ;; esac
    %s --json -o "$out" %s "$slide"
done <"$list"
''' % (WSI2H5, WSI2H5, GROUPS))
    p = local(out, folder, env=dict(TOOLS, WSI2H5=crash))
    says(p.err, "8 slides had no turn because their task crashed; trying again")
    st = status_of(out)
    failed = {os.path.basename(f["slide"]): f["reason"] for f in st["failed"]}
    expect(len(failed) == 5 and st["processed"] == 7, "%s", st)
    says(failed["s02.svs"], "signal 11")
    local(out, folder)
    check_corpus(out, direct_stores(out))


def kill_corpus(out, folder, env, number, long, times):
    """Kills a local run with its tasks at random moments, then lets one finish."""
    for _ in range(times):
        argv = [sys.executable, CORPUS, "run", "--scheduler", "local", "-o", out, "--tasks", "2", "--wsi2h5", GROUPS]
        p = subprocess.Popen(argv + begin(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env=dict(os.environ, **env), start_new_session=True)
        try:
            p.wait(random.uniform(0.1, long))
        except subprocess.TimeoutExpired:
            begun = time.time()
            if number == signal.SIGKILL:
                os.killpg(p.pid, number)
            else:
                p.send_signal(number)
            p.communicate(timeout=TIMEOUT)
            expect(SAN or time.time() - begun < 5, "%.1f s to stop", time.time() - begun)
            expect(number == signal.SIGKILL or p.returncode in (3, -number, 1), "status %d", p.returncode)
        p.communicate()
    local(out, folder, env=env)


@later("ci")
def test_local_kills_and_signals():
    folder, good = folder_of_slides(s00="3000x2000", s05="2600x2600")
    begun = time.time()
    whole = os.path.join(tmp(), "out")
    local(whole, folder)
    long = time.time() - begun
    for number in (signal.SIGKILL, signal.SIGTERM, *by_tier((), (), (signal.SIGUSR1, signal.SIGXCPU))):
        out = os.path.join(tmp(), "out")
        kill_corpus(out, folder, TOOLS, number, long, by_tier(2, 2, 6))
        check_corpus(out, direct_stores(out))
        for s in direct_stores(whole):
            twin = os.path.join(out, "stores", os.path.basename(s))
            expect(open(s, "rb").read() == open(twin, "rb").read(), "%s differs", twin)
    if SAN:  # whether this test can fail does not depend on them
        return
    try:  # the same with a converter that writes in place must fail
        env = dict(TOOLS, WSI2H5=naive_converter(whole))
        for _ in range(5):
            out = os.path.join(tmp(), "out")
            kill_corpus(out, folder, env, signal.SIGKILL, 2 * long, 6)
            check_corpus(out, direct_stores(whole))
    except Failed:
        return
    raise Failed("a naive converter passed the same test")


def naive_converter(whole):
    """Copies the stores of `whole` slowly, under their final names."""
    return wrapper('''case "$*" in *"--task "*) ;; *) exit 0 ;; esac
while [ $# -gt 0 ]; do case $1 in --list) list=$2 ;; -o) out=$2 ;; esac; shift; done
while read -r slide; do
    base=${slide##*/}; from=%s/stores/${base%%.*}.h5; to=$out/${base%%.*}.h5
    [ -e "$from" ] || { echo "{\\"slide\\": \\"$slide\\", \\"status\\": \\"failed\\", \\"message\\": \\"bad\\"}"; continue; }
    [ ! -e "$to" ] || continue
    { head -c 40000 "$from"; sleep 0.1; tail -c +40001 "$from"; } >"$to"
done <"$list"
''' % whole)


@later("ci")
def test_local_cancel_and_two_runs_at_once():
    folder, good = folder_of_slides(s00="6000x5000")
    out = os.path.join(tmp(), "out")
    argv = [sys.executable, CORPUS, "run", "--scheduler", "local", "-o", out, "--wsi2h5", GROUPS + " --codec deflate"] + begin(folder)
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, **TOOLS))
    while not glob.glob(out + "/stores/.*.part") and p.poll() is None:
        time.sleep(0.01)
    says(local(out, folder, "--wsi2h5", GROUPS + " --codec deflate").err, "a run is going on")
    expect(status_of(out)["active_tasks"] == 1, "it is not seen")
    corpus("cancel", "-o", out)
    p.communicate(timeout=TIMEOUT)
    expect(p.returncode == 3, "status %d", p.returncode)
    expect(not glob.glob(out + "/stores/.*"), "left %s", os.listdir(out + "/stores"))
    says(corpus("cancel", "-o", out).err, "nothing is running")
    local(out, folder, "--wsi2h5", GROUPS + " --codec deflate")
    check_corpus(out, direct_stores(out))


def test_wrong_use_of_scripts_corpus():
    out = os.path.join(tmp(), "out")
    for argv, word, status in ((["run", "-o", out, "--wsi2h5", "--codec foo", "x.svs"], "--codec foo", 2),
                               (["run", "-o", out, "--h5spec", "--window 100", "x.svs"], "window", 2),
                               (["run", "-o", out, "--wsi2h5", "--keep-tree", "x.svs"], "one folder of stores", 2),
                               (["run", "-o", out, "--wsi2h5", "--anonymous --key k.csv", "x.svs"], "by the names of their slides", 2),
                               (["run", "-o", out], "no slides given", 2), (["status", "-o", out], "not a corpus", 1),
                               (["run", "-o", out, tmp()], "contains no slides", 1), ([], "run, status, cancel or remove", 2),
                               (["run", "-o", out, "--tasks", "0", "x.svs"], "1 or more", 2)):
        p = corpus(*argv, *(["--scheduler", "local"] if "run" in argv else []), status=status)
        says(p.err, word)
    for name in ([], ["run"], ["status"], ["cancel"], ["remove"], ["step"]):
        says(corpus(*name, "--help").out, "usage: ")


def test_times_of_logs_are_utc_in_summer_too():
    code = "from corpus_lib.attempts import seconds_of; print(seconds_of('2026-07-01T12:00:00Z'), seconds_of('2026-01-01T12:00:00Z'), seconds_of('x'))"
    for zone in ("UTC", "Europe/Berlin", "America/New_York", "Australia/Sydney"):
        p = run(sys.executable, "-B", "-c", code, env=dict(os.environ, TZ=zone, PYTHONPATH=os.path.join(ROOT, "scripts")))
        expect([float(x) if x != "None" else None for x in p.out.split()] == [1782907200, 1767268800, None], "%s: %s", zone, p.out)


def test_planted_links_are_not_followed():
    """Another user who may write into OUT cannot make a run overwrite a file elsewhere."""
    sys.path.insert(0, os.path.join(ROOT, "scripts"))
    sys.dont_write_bytecode = True
    from corpus_lib.files import write_whole
    folder, victim = tmp(), os.path.join(tmp(), "victim")
    open(victim, "w").write("mine")
    path = os.path.join(folder, "settings.json")
    os.symlink(victim, "%s.%s.%d.new" % (path, os.uname().nodename, os.getpid()))
    write_whole(path, "{}")
    expect(open(victim).read() == "mine" and open(path).read() == "{}" and not os.path.islink(path), "overwritten")
    for name in ("lock", "logs/1.convert.1.err", "logs/1.convert.1.json"):
        out = os.path.join(tmp(), "out")
        os.makedirs(out + "/logs")
        os.symlink(victim, os.path.join(out, name))
        p = corpus("run", "--scheduler", "local", "-o", out, slides(1)[0], status=1)
        says(p.err, "corpus: %s/%s: " % (out, name), "symbolic link")
        expect("Traceback" not in p.err and open(victim).read() == "mine", "%s: %s", name, p.err)


def as_nobody(*argv):
    """Runs the command as a user who may only read."""
    user = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
    script = os.path.join(for_everyone(os.path.dirname(CORPUS)), "corpus")
    tools = {name: for_everyone(program) for name, program in TOOLS.items()}
    p = subprocess.run([sys.executable, script, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT,
                       env=dict(os.environ, **tools), cwd="/", universal_newlines=True, **user)
    expect("Traceback" not in p.stderr, "%s", p.stderr)
    return p


def test_a_corpus_of_another_user_can_be_looked_at_and_says_what_it_forbids():
    top = tempfile.mkdtemp()  # below a folder that all may enter
    try:
        os.chmod(top, 0o755)
        out, slide = os.path.join(top, "out"), shutil.copy(slides(1)[0], top)
        corpus("run", "--scheduler", "local", "-o", out, slide)
        os.unlink(out + "/records.txt")  # results that nobody has read
        for path, _, _ in list(os.walk(out)):
            os.chmod(path, 0o555)
        p = as_nobody("status", "-o", out)
        expect(p.returncode == 0, "%s", p.stderr)
        says(p.stdout, "1 of 1 slides converted, 1 processed")
        p = as_nobody("run", "--scheduler", "local", "-o", out, slide)
        expect(p.returncode == 1, "%s", p.stderr)
        says(p.stderr, out, "ermission denied")
        p = as_nobody("status", "--html", "-o", out)
        expect(p.returncode == 1, "%s", p.stderr)
    finally:
        for path, _, _ in list(os.walk(top)):
            os.chmod(path, 0o755)
        shutil.rmtree(top)


def test_status_into_a_pipe_that_is_closed():
    out = os.path.join(tmp(), "out")
    corpus("run", "--scheduler", "local", "-o", out, slides(1)[0])
    for options in ([], ["--json"]):
        read, write = os.pipe()
        os.close(read)
        p = subprocess.run([sys.executable, CORPUS, "status", "-o", out, *options], stdout=write, stderr=subprocess.PIPE,
                           env=dict(os.environ, **TOOLS), timeout=TIMEOUT)
        os.close(write)
        expect(p.returncode == 3 and not p.stderr, "%d %s", p.returncode, p.stderr.decode())


QSTAT = """#!/bin/sh
cat <<'END'
job-ID  prior   name       user         state submit/start at     queue                          slots ja-task-ID
-----------------------------------------------------------------------------------------------------------------
     10 0.55500 corpus-con ann          r     11/21/2026 10:00:00 all.q@n1                           1 3
     10 0.55500 corpus-con ann          r     11/21/2026 10:00:00 all.q@n2                           1 4
     10 0.55500 corpus-con ann          qw    11/21/2026 10:00:00                                    1 7,9-178:1
     11 0.00000 corpus-loo ann          hqw   11/21/2026 10:00:00                                    4
     12 0.00000 other      bob          qw    11/21/2026 10:00:00                                    1 1-50:1
END
"""


def test_grid_engine_counts_the_tasks_of_a_pending_array():
    sys.path.insert(0, os.path.join(ROOT, "scripts"))
    sys.dont_write_bytecode = True
    from corpus_lib.schedulers import GridEngine
    folder, before = tmp(), os.environ["PATH"]
    open(folder + "/qstat", "w").write(QSTAT)
    os.chmod(folder + "/qstat", 0o755)
    os.environ["PATH"] = folder + os.pathsep + before
    try:
        n = GridEngine.active(["10", "11"])
        expect(n == 2 + 171 + 1, "%d", n)
    finally:
        os.environ["PATH"] = before


# --- status, progress ---

def slow(program, seconds, name="--task"):
    """The program, but each call with --task takes a while before it does each line of its list."""
    return wrapper('''case "$*" in *"--task "*) ;; *) exec %s "$@" ;; esac
for last; do [ "$prev" != --list ] || list=$last; prev=$last; done
n=$(wc -l <"$list") k=0
case "$*" in *"/1"*) ;; *) exec %s "$@" ;; esac
while [ $k -lt $n ]; do
    k=$((k + 1)); sleep %g
    %s "$@" --task $k/$n || status=$?
done
exit ${status:-0}
''' % (program, program, seconds, program))


def test_status_counts_what_is_to_do_apart_from_what_failed():
    folder, out = tmp(), os.path.join(tmp(), "out")
    for s in slides(4):
        shutil.copy(s, folder)
    open(folder + "/s001.svs", "w").close()  # fails, after s00
    argv = [sys.executable, CORPUS, "run", "--scheduler", "local", "-o", out, folder]
    p = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         env=dict(os.environ, **dict(TOOLS, WSI2H5=slow(WSI2H5, 0.7))))
    wait_for_file(out + "/stores/s01.h5")
    p.send_signal(signal.SIGINT)
    expect(p.wait(TIMEOUT) == 3, "status %d", p.returncode)
    st = status_of(out, 5)
    expect([os.path.basename(f["slide"]) for f in st["failed"]] == ["s001.svs"], "%s", st["failed"])
    expect(st["slides"] == 5 and len(st["to_do"]) == 4 and st["converted"] in (2, 3), "%s", st)
    says(corpus("status", "-o", out, status=5).out, "4 to do, 1 failed")
    os.unlink(folder + "/s001.svs")
    corpus("run", "--scheduler", "local", "-o", out, folder, status=1)
    st = status_of(out, 1)
    expect(st["to_do"] == [] and st["processed"] == 4 and len(st["failed"]) == 1, "%s", st)
    says(st["failed"][0]["reason"], "no such")
    expect(st["corpus"] == {"file": out + "/corpus.h5", "slides": 4, "current": True}, "%s", st["corpus"])


def wait_for_file(path, seconds=60):
    end = time.time() + seconds
    while not os.path.exists(path):
        expect(time.time() < end, "%s did not appear", path)
        time.sleep(0.02)


def test_status_reports_why_the_scheduler_refused():
    for kind, jobs in (("convert", 0), ("process", 2)):
        slurm, out = ImitatedSlurm(refuse="--job-name=corpus-" + kind), os.path.join(tmp(), "out")
        p = corpus("run", "-o", out, "--scheduler", "slurm", *slides(3), env=slurm.env, status=1)
        says(p.err, "Slurm refused the %s job" % kind, "invalid partition", "run again")
        expect(len(slurm.cancelled()) == jobs, "%s", slurm.cancelled())
        st = status_of(out, 5, slurm.env)
        expect(len(st["to_do"]) == 3 and st["failed"] == [], "%s", st)
        says(st["problems"][0], "Slurm refused the %s job" % kind, "invalid partition")
        says(corpus("status", "-o", out, env=slurm.env, status=5).out, "3 to do, 0 failed", "problem: Slurm refused")


def test_status_shows_rate_and_time_left_and_watches():
    out = os.path.join(tmp(), "out")
    env = dict(TOOLS, WSI2H5=slow(WSI2H5, 1))
    p = subprocess.Popen([sys.executable, CORPUS, "run", "--scheduler", "local", "-o", out, *slides(4)],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ, **env))
    wait_for_file(out + "/stores/s01.h5")
    st = status_of(out, 0)
    step = st["steps"][0]
    expect(step["step"] == "convert" and step["to_do"] == 2 and st["active_tasks"] == 1, "%s", st)
    expect(step["per_hour"] > 0 and step["seconds_left"] > 0, "%s", step)
    expect(abs(step["seconds_left"] - step["to_do"] / step["per_hour"] * 3600) < 1e-6, "%s", step)
    says(corpus("status", "-o", out).out, "1 task queued or running; converting: ", " left")
    watched = corpus("status", "-o", out, "--watch", "1").out.splitlines()
    p.wait(TIMEOUT)
    expect(len(watched) >= 3 and "to do" in watched[0], "%s", watched)
    expect("4 of 4 slides converted, 4 processed, 0 to do" in "".join(watched[-2:]), "%s", watched)
    lines = json_lines(corpus("status", "--json", "-o", out, "--watch").out)
    expect(len(lines) == 1 and lines[0]["seconds_left"] == 0, "%s", lines)


def test_local_shows_progress_on_a_terminal_and_little_in_a_file():
    env = dict(os.environ, **dict(TOOLS, WSI2H5=slow(WSI2H5, 0.7)))
    argv = [sys.executable, CORPUS, "run", "--scheduler", "local", *slides(3), "-o"]
    ours, theirs = terminal()
    p = subprocess.Popen(argv + [os.path.join(tmp(), "out")], stdout=subprocess.DEVNULL, stderr=theirs, env=env)
    os.close(theirs)
    text = b""
    while True:
        try:
            data = os.read(ours, 4096)
        except OSError:
            break
        text += data
    p.wait(TIMEOUT)
    says(text.decode(), "\r\x1b[Kcorpus: converting: 1 of 3 slides, ", "slides/", " left", "finished in")
    expect(max(len(part) for part in re.split(r"\r|\n", text.decode())) < 90, "a line is too long")
    for options, lines in (([], 0), (["--progress", "no"], 0), (["--progress", "1"], 2)):
        p = run(*argv, os.path.join(tmp(), "out"), *options, env=env)
        found = re.findall(r"corpus: converting: \d of 3 slides", p.err)
        expect(lines <= len(found) <= 2 * lines, "%s: %s", options, p.err)
        expect("\r" not in p.err, p.err)


# --- inputs ---

def test_folders_that_are_links_are_searched_and_what_cannot_be_used_is_reported():
    folder, other, out = tmp(), tmp(), os.path.join(tmp(), "out")
    s = slides(5)
    shutil.copy(s[0], folder)
    shutil.copy(s[1], other)
    os.symlink(other, folder + "/batch")
    os.symlink(folder, other + "/loop")
    os.symlink(other, folder + "/again")  # reached twice: searched once
    os.symlink(s[2], folder + "/link.svs")
    os.symlink(folder + "/nowhere.svs", folder + "/dangling.svs")
    os.symlink(folder + "/nowhere", folder + "/other.txt")  # not a slide's name
    os.symlink(folder + "/nowhere", folder + "/share")  # perhaps a folder that is not mounted
    shutil.copy(s[3], folder + "/two\nlines.svs")
    shutil.copy(s[4], folder + "/.hidden.svs")
    os.mkdir(folder + "/empty.svs")
    p = corpus("run", "--scheduler", "local", "-o", out, folder, tmp("none"), status=1)
    says(p.out, "3 of 7 slides converted, 3 processed, 0 to do, 4 failed")
    failed = {os.path.basename(f["slide"]): (f["stage"], f["reason"]) for f in status_of(out, 1)["failed"]}
    says(failed["dangling.svs"][1], "dangling link to " + folder + "/nowhere.svs")
    says(failed["two\nlines.svs"][1], "line break", "rename")
    says(failed["share"][1], "dangling link to " + folder + "/nowhere")
    expect(len(failed) == 4 and "contains no slides" in str(failed), "%s", failed)
    equal(content(out + "/corpus.h5"), direct(direct_stores(out)), "the others")
    os.unlink(folder + "/share")
    os.rename(folder + "/two\nlines.svs", folder + "/lines.svs")
    os.symlink(s[4], folder + "/nowhere.svs")
    p = corpus("run", "--scheduler", "local", "-o", out, folder, status=1)
    says(p.out, "6 of 7 slides converted, 5 processed, 0 to do, 2 failed", "nowhere.svs: is the same slide as " + folder)
    if os.getuid():
        os.chmod(other, 0)
        says(corpus("run", "--scheduler", "local", "-o", out, folder, status=1).out, "cannot be read")
        os.chmod(other, 0o755)


def test_a_dangling_link_is_counted_once_in_every_run():
    folder, out = tmp(), os.path.join(tmp(), "out")
    shutil.copy(slides(1)[0], folder)
    os.symlink(slides(2)[1], folder + "/later.svs")
    os.symlink(folder + "/nowhere", folder + "/q.svs")
    for _ in range(3):
        p = corpus("run", "--scheduler", "local", "-o", out, folder, status=1)
        says(p.out, "2 of 3 slides converted, 2 processed, 0 to do, 1 failed")
    says(p.out, "failed (input): %s/q.svs: dangling link to %s/nowhere" % (folder, folder))
    os.unlink(folder + "/q.svs")
    says(corpus("run", "--scheduler", "local", "-o", out, folder).out, "2 of 2 slides converted, 2 processed, 0 to do, 0 f")
    os.unlink(folder + "/later.svs")  # its target is gone after it was converted
    os.symlink(folder + "/nowhere", folder + "/later.svs")
    says(corpus("run", "--scheduler", "local", "-o", out, folder).out, "2 of 2 slides converted, 2 processed, 0 to do, 0 f")


def of_resolutions(*mpp):
    """A folder of slides a, b, c with these um/px."""
    folder = tmp()
    for k, value in enumerate(mpp):
        path = made("--size", "600x700", "--seed", str(k + 1), "--mpp", value, name="abcdef"[k])
        shutil.copy(path, folder)
    return folder


def test_slides_of_different_resolution_are_kept_apart():
    folder, out = of_resolutions("0.5", "0.25", "0.26", "none"), os.path.join(tmp(), "out")
    p = corpus("run", "--scheduler", "local", "-o", out, folder)
    files = {os.path.basename(f): slides_in(f) for f in glob.glob(out + "/corpus*.h5")}
    want = {"corpus-0.5um.h5": ["a"], "corpus-0.25um.h5": ["b", "c"], "corpus-unknown-um.h5": ["d"]}
    expect(files == want, "%s", files)
    says(p.out, "different resolutions", "corpus-0.25um.h5: 2 slides of 0.25 um/px\n", "1 slide of unknown resolution")
    st = status_of(out)
    expect(st["kept_apart"] and st["corpus"] is None, "%s", st)
    expect({os.path.basename(m["file"]): (m["slides"], m["current"], m["um_per_px"]) for m in st["merged"]} ==
           {"corpus-0.5um.h5": (1, True, 0.5), "corpus-0.25um.h5": (2, True, 0.25),
            "corpus-unknown-um.h5": (1, True, None)}, "%s", st["merged"])
    expect(os.path.getsize(out + "/report.html") > 1000, "report")
    says(corpus("run", "--scheduler", "local", "-o", out, folder).err, "nothing to do")
    same = os.path.join(tmp(), "out")
    says(corpus("run", "--scheduler", "local", "-o", same, folder + "/b.svs").out, same + "/corpus.h5: 1 slide\n")
    corpus("run", "--scheduler", "local", "-o", same, folder + "/c.svs")
    expect(slides_in(same + "/corpus.h5") == ["b", "c"], "one resolution")
    corpus("run", "--scheduler", "local", "-o", same, folder + "/a.svs")
    expect(sorted(os.path.basename(f) for f in glob.glob(same + "/*.h5")) == ["corpus-0.25um.h5", "corpus-0.5um.h5"],
           "the file of one resolution stayed: %s", os.listdir(same))


def test_slides_of_different_resolution_are_pooled_if_the_user_says_so():
    folder, out = of_resolutions("0.5", "0.25"), os.path.join(tmp(), "out")
    p = corpus("run", "--scheduler", "local", "-o", out, "--h5spec", "--mix-mpp", folder)
    says(p.out, out + "/corpus.h5: 2 slides\n")
    expect(slides_in(out + "/corpus.h5") == ["a", "b"], "pooled")
    expect(not glob.glob(out + "/*/failed.csv"), "lists of single tasks stay")


def replaced(path, source, seconds):
    """Replaces a file by one of this age, as cp -p and rsync -a do."""
    shutil.copy(source, path + ".new")
    os.utime(path + ".new", (seconds, seconds))
    os.rename(path + ".new", path)


def test_a_slide_that_was_replaced_by_an_older_file_is_converted_again():
    folder, out = tmp(), os.path.join(tmp(), "out")
    s = slides(3)
    shutil.copy(s[0], folder + "/x.svs")
    shutil.copy(s[1], folder + "/y.svs")
    corpus("run", "--scheduler", "local", "-o", out, folder)
    expect(os.path.getmtime(out + "/stores/x.h5") > 2 ** 30, "the store is new")
    other = os.stat(out + "/results/y.h5").st_mtime_ns
    replaced(folder + "/x.svs", s[2], 10 ** 9)
    st = status_of(out, 5)
    expect([(os.path.basename(row["slide"]), row["stage"]) for row in st["to_do"]] == [("x.svs", "convert")], "%s", st)
    corpus("run", "--scheduler", "local", "-o", out, folder)
    equal(content(out + "/corpus.h5"), direct(direct_stores(out)), "the new slide")
    (j,) = json_lines(run(H5SPEC, "info", "--json", out + "/corpus.h5").out)
    (k,) = json_lines(run(H5SPEC, "info", "--json", spectrum(store(s[2]))).out)
    expect(j["slides"][0]["mean_db"] == k["slides"][0]["mean_db"], "the numbers are those of the old slide")
    expect(os.stat(out + "/results/y.h5").st_mtime_ns == other, "the other slide was processed again")
    says(corpus("run", "--scheduler", "local", "-o", out, folder).err, "nothing to do")
    os.utime(folder + "/x.svs")  # a newer time alone: wsi2h5 decides, and once
    corpus("run", "--scheduler", "local", "-o", out, folder)
    says(corpus("run", "--scheduler", "local", "-o", out, folder).err, "nothing to do")


def test_a_store_that_was_replaced_by_an_older_one_is_processed_again():
    folder, out = tmp(), os.path.join(tmp(), "out")
    s = slides(2)
    shutil.copy(s[0], folder + "/x.svs")
    corpus("run", "--scheduler", "local", "-o", out, folder)
    other = os.path.join(tmp(), "out")
    corpus("run", "--scheduler", "local", "-o", other, "--stores", out + "/stores", "--h5spec", "--taper hann", folder)
    shutil.copy(s[1], folder + "/x.svs")
    corpus("run", "--scheduler", "local", "-o", out, folder)  # makes the store again
    os.utime(out + "/stores/x.h5", (10 ** 9, 10 ** 9))
    os.utime(folder + "/x.svs", (10 ** 9 - 9, 10 ** 9 - 9))
    expect(len(status_of(other, 5)["to_do"]) == 1, "the result is that of a store that is gone")


def test_any_changed_file_of_a_slide_with_several_is_noticed():
    sys.path.insert(0, os.path.join(ROOT, "scripts"))
    sys.dont_write_bytecode = True
    from corpus_lib import records
    folder = tmp()
    for slide, part in (("a.dcm", "level1.DCM"), ("m.mrxs", "m/Data0001.dat"), ("v.vms", "v(1,0).jpg")):
        for name in (slide, part):
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            open(os.path.join(folder, name), "w").write("1")
        slide, part, store = (os.path.join(folder, name) for name in (slide, part, slide + ".h5"))
        open(store, "w").write("store")
        row = records.Record(slide, "name")
        records.settle([row], lambda r: store, records.Files())

        def is_current():
            return records.store_is_current(row, records.Files().of(slide, os.stat(slide)), os.stat(slide), os.stat(store))
        expect(is_current(), slide)
        os.utime(part, (10 ** 9, 10 ** 9))
        expect(not is_current(), "%s was touched", part)


def slides_in(result):
    (j,) = json_lines(run(H5SPEC, "info", "--json", result).out)
    return [s["slide"] for s in j["slides"]]


def dicom(series, extra=0, implicit=False, sequence=False):
    """The bytes of a DICOM header, with so many bytes after it."""
    def element(group, number, vr, value, explicit=True):
        value += b"\0" * (len(value) % 2)
        head = struct.pack("<HH", group, number)
        if not explicit:
            return head + struct.pack("<I", len(value)) + value
        long = struct.pack("<HI", 0, len(value)) if vr in (b"OB", b"SQ") else struct.pack("<H", len(value))
        return head + vr + long + value
    syntax = b"1.2.840.10008.1.2" if implicit else b"1.2.840.10008.1.2.1"
    body = element(2, 1, b"OB", b"\0\1") + element(2, 0x10, b"UI", syntax)
    body += element(8, 0x60, b"CS", b"SM", not implicit)
    if sequence:  # of undefined length, with an item that names another series
        end = [struct.pack("<HHI", 0xfffe, n, 0) for n in (0xe00d, 0xe0dd)]
        body += struct.pack("<HH2sHI", 8, 0x1115, b"SQ", 0, 0xffffffff) + struct.pack("<HHI", 0xfffe, 0xe000, 0xffffffff)
        body += element(0x20, 0xe, b"UI", b"9.9.9") + end[0] + end[1]
    return b"\0" * 128 + b"DICM" + body + element(0x20, 0xe, b"UI", series, not implicit) + b"x" * extra


def test_a_dicom_series_and_a_mirax_set_are_one_slide():
    sys.path.insert(0, os.path.join(ROOT, "scripts"))
    sys.dont_write_bytecode = True
    from corpus_lib.inputs import search
    folder = tmp()
    files = {"a1.dcm": dicom(b"1.2.3"), "a2.DCM": dicom(b"1.2.3", 100), "a3.dcm": dicom(b"1.2.3", 20, implicit=True),
             "b.dcm": dicom(b"1.2.4", sequence=True), "cut.dcm": dicom(b"1.2.4")[:150], "text.dcm": b"text",
             "c/a4.dcm": dicom(b"1.2.3"), "m.mrxs": b"", "m/Slidedat.ini": b"", "m/x.tif": b"", "n/x.tif": b""}
    for name, data in files.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        open(os.path.join(folder, name), "wb").write(data)
    os.symlink("..", folder + "/up")
    found, problems = search(folder)
    expect([os.path.relpath(p, folder) for p in found] ==
           ["a2.DCM", "b.dcm", "c/a4.dcm", "cut.dcm", "m.mrxs", "n/x.tif", "text.dcm"] and not problems, "%s", found)
    random.seed(7)  # damaged headers end the reading, nothing else
    from corpus_lib.dicom import series_of
    for _ in range(300):
        data = bytearray(dicom(b"1.2.3", 10, sequence=True))
        data[random.randrange(128, len(data))] = random.randrange(256)
        open(folder + "/b.dcm", "wb").write(data)
        expect(series_of(folder + "/b.dcm") is None or re.match("^[0-9.]+$", series_of(folder + "/b.dcm")), "%s", data)


def test_slides_with_the_same_name_in_different_folders():
    folder, out = tmp(), os.path.join(tmp(), "out")
    s = slides(4)
    paths = [os.path.join(folder, d, "slide.svs") for d in ("a", "b", "c")]
    for source, path in zip(s, paths):
        os.mkdir(os.path.dirname(path))
        shutil.copy(source, path)
    for options in ([], ["--group-tasks"]):
        for _ in range(2):
            p = corpus("run", "--scheduler", "local", "-o", out, "--wsi2h5", GROUPS, *options, folder)
        says(p.err, "nothing to do")
        expect(sorted(os.listdir(out + "/stores")) == ["slide-2.h5", "slide-3.h5", "slide.h5"], "%s", os.listdir(out + "/stores"))
        equal(content(out + "/corpus.h5"), direct(glob.glob(out + "/stores/*.h5")), "all three")
        shutil.rmtree(out + "/results")
        os.unlink(out + "/corpus.h5")
    rows = [line.split("\t") for line in open(out + "/names.txt").read().splitlines()]
    expect(rows == [["slide", paths[0]], ["slide-2", paths[1]], ["slide-3", paths[2]]], "%s", rows)
    open(paths[1], "w").close()  # a failure names the slide, and nothing else is affected
    shutil.copy(s[3], os.path.join(folder, "a", "slide-2.svs"))
    st = json.loads(corpus("run", "--scheduler", "local", "-o", out, folder, status=1).out and
                    corpus("status", "--json", "-o", out, status=1).out)
    (bad,) = st["failed"]
    expect(bad["slide"] == paths[1] and "empty" in bad["reason"] and ".links" not in bad["reason"], "%s", bad)
    expect(st["slides"] == 4 and st["processed"] == 3, "%s", st)
    other = os.path.join(tmp(), "other")  # the names go with the stores
    corpus("run", "--scheduler", "local", "-o", other, "--stores", out + "/stores", "--wsi2h5", GROUPS, paths[2], paths[0])
    expect(sorted(os.listdir(other + "/results")) == ["slide-3.h5", "slide.h5"], "%s", os.listdir(other + "/results"))


def test_the_same_slide_twice_is_merged_once():
    folder, out = tmp(), os.path.join(tmp(), "out")
    good = [shutil.copy(s, folder) for s in slides(3)]
    shutil.copy(good[1], folder + "/twin.svs")
    if not json_lines(run(H5SPEC, "info", "--json", store(good[1])).out)[0]["quickhash"]:
        raise Skip("stores have no quickhash here")
    p = corpus("run", "--scheduler", "local", "-o", out, folder, status=1)
    says(p.out, "4 of 4 slides converted, 3 processed, 0 to do, 1 failed", "twin.svs: is the same slide as " + good[1])
    expect(not os.path.exists(out + "/results/twin.h5"), "it was computed")
    equal(content(out + "/corpus.h5"), direct([out + "/stores/s0%d.h5" % k for k in range(3)]), "without the twin")
    before = os.stat(out + "/corpus.h5").st_mtime_ns
    says(corpus("run", "--scheduler", "local", "-o", out, folder, status=1).err, "nothing to do")
    expect(os.stat(out + "/corpus.h5").st_mtime_ns == before, "merged again")
    says(corpus("run", "--scheduler", "local", "-o", out, "--allow-duplicates", folder).out,
         "4 of 4 slides converted, 4 processed, 0 to do, 0 failed", "corpus.h5: 4 slides")
    says(corpus("run", "--scheduler", "local", "-o", out, folder).err, "nothing to do")


# --- care for what exists ---

def flip(path, name):
    """Flips a bit in a dataset that is stored as one block."""
    import h5py
    with h5py.File(path, "r") as f:
        at = f[name].id.get_offset() + 5
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 1]))


def test_a_corpus_that_was_killed_while_its_report_was_written():
    folder, out = tmp(), os.path.join(tmp(), "corpus")
    run(MKSLIDE, "--size", "400x300", os.path.join(folder, "a.svs"))
    corpus("run", "--scheduler", "local", "-o", out, folder)
    page = os.path.join(out, "report.html")
    if not os.path.exists(page):
        raise Skip("h5spec is built without libpng")
    os.unlink(page)
    left = [os.path.join(out, name) for name in (".report.html.host-1-1.part", "report.host.1.list", "report.host.1.csv")]
    for path in left:
        open(path, "w").close()
    corpus("run", "--scheduler", "local", "-o", out, folder)
    expect(os.path.exists(page), "no report")
    expect(not any(map(os.path.exists, left)), "left: %s", os.listdir(out))
    says(corpus("run", "--scheduler", "local", "-o", out, folder).err, "nothing to do")


def test_a_damaged_result_is_reported_and_computed_again():
    out = os.path.join(tmp(), "out")
    log = out + ".verified"
    verify = wrapper('''if [ "$1" = verify ]; then
    tee -a %s | %s "$@"
    exit
fi
exec %s "$@"''' % (log, H5SPEC, H5SPEC))
    env = dict(TOOLS, H5SPEC=verify)
    corpus("run", "--scheduler", "local", "-o", out, *slides(3), env=env)
    want, path = content(out + "/corpus.h5"), out + "/results/s01.h5"
    expect(status_of(out, 0, env)["failed"] == [] and not os.path.exists(log), "merged results were read again")
    flip(path, "slides/s01/window_mean_db")
    for _ in range(2):
        (bad,) = status_of(out, 5, env)["failed"]
        says(bad["reason"], "the result is damaged: ", "window_mean_db", "run again")
    expect(open(log).read() == path + "\n", "verified: %s", open(log).read())
    corpus("run", "--scheduler", "local", "-o", out, *slides(3), env=env)
    equal(content(out + "/corpus.h5"), want, "the repaired corpus")


def test_damage_that_the_merge_finds_is_repaired_by_the_next_run():
    out = os.path.join(tmp(), "out")
    corpus("run", "--scheduler", "local", "-o", out, *slides(3))
    want, path = content(out + "/corpus.h5"), out + "/results/s01.h5"
    before = os.stat(path)
    flip(path, "slides/s01/window_mean_db")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as a failing disk does it
    os.unlink(out + "/corpus.h5")
    says(corpus("run", "--scheduler", "local", "-o", out, *slides(3), status=5).out, "the result is damaged", "run again")
    corpus("run", "--scheduler", "local", "-o", out, *slides(3))
    equal(content(out + "/corpus.h5"), want, "the repaired corpus")


def test_leftovers_of_killed_tasks_are_removed_whichever_way_the_next_run_ends():
    out = os.path.join(tmp(), "out")
    corpus("run", "--scheduler", "local", "-o", out, *slides(2))
    left = ["stores/.s00.h5.1.part", "stores/.failed.1-of-2.csv.host-7-1.part", "results/.s00.h5.host.7.part", ".corpus.h5.2.part", "slides.txt.h.1.new",
            "runs/1/run.json.h.1.new", "parts/s00.txt", "checked.json.h.1.list"]
    os.makedirs(out + "/parts/s01")
    open(out + "/parts/s01/.s01.1-1.h5.3.part", "w").close()
    for options, message in (([], "nothing to do"), ([tmp("none")], "nothing to do"), (["/nowhere.svs"], "converting")):
        for name in left:
            open(os.path.join(out, name), "w").close()
        says(corpus("run", "--scheduler", "local", "-o", out, *slides(2), *options, status=None).err, message)
        remains = [n for n in left + ["parts/s01"] if os.path.exists(os.path.join(out, n))]
        expect(remains == [], "%s: %s", options, remains)


@later("ci")
def test_two_runs_begun_at_the_same_moment():
    for _ in range(5):
        out = os.path.join(tmp(), "out")
        argv = [sys.executable, CORPUS, "run", "--scheduler", "local", "-o", out, *slides(3)]
        both = [subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, **TOOLS))
                for _ in range(2)]
        texts = [p.communicate(timeout=TIMEOUT)[0].decode() for p in both]
        for p, text in zip(both, texts):
            expect(p.returncode == 0 or "a run is going on" in text, "status %d: %s", p.returncode, text)
        expect(0 in [p.returncode for p in both], "%s", texts)
        equal(content(out + "/corpus.h5"), direct(direct_stores(out)), "the corpus")


def test_the_installed_program_finds_its_package_and_the_programs_beside_it():
    prefix, bare = tmp(), {k: v for k, v in os.environ.items() if k not in TOOLS}
    share = prefix + "/share/wsi2h5"
    shutil.copytree(os.path.join(ROOT, "scripts"), share, ignore=shutil.ignore_patterns("__pycache__"))
    os.mkdir(prefix + "/bin")
    os.symlink("../share/wsi2h5/corpus", prefix + "/bin/corpus")
    for program in (WSI2H5, H5SPEC):
        os.symlink(program, os.path.join(prefix, "bin", os.path.basename(program)))
    for name in (prefix + "/bin/corpus", share + "/corpus"):
        out = os.path.join(tmp(), "out")
        run(name, "run", "--scheduler", "local", "-o", out, *slides(1), env=bare, cwd="/")
        (settings,) = json_lines(open(out + "/runs/1/run.json").read().replace("\n", ""))
        expect(settings["programs"]["H5SPEC"] == prefix + "/bin/h5spec", "%s", settings["programs"])
    expect(not [d for d, _, _ in os.walk(share) if "__pycache__" in d], "bytecode was written")


# --- what is submitted: an imitation of Slurm that records its commands ---

class ImitatedSlurm:
    """sbatch, squeue, scontrol in PATH: sbatch records its arguments, one JSON list per line."""

    def __init__(self, refuse=""):
        self.folder = tmp("slurm")
        self.noted = os.path.join(self.folder, "noted")
        self.command("sbatch", """import json, sys
if %r and %r in " ".join(sys.argv):
    sys.exit("sbatch: error: invalid partition specified: nowhere")
open(%r, "a").write(json.dumps(sys.argv[1:]) + "\\n")
print(sum(1 for _ in open(%r)))
""" % (refuse, refuse, self.noted, self.noted))
        for name in ("squeue", "scontrol", "sacct"):
            self.command(name, "")
        self.command("scancel", "import sys\nopen(%r, 'a').write('\\n'.join(sys.argv[1:] + ['']))" % (
            self.noted + ".cancelled"))
        self.env = dict(TOOLS, PATH=self.folder + os.pathsep + os.environ["PATH"])

    def command(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as f:
            f.write("#!%s\n%s" % (sys.executable, text))
        os.chmod(path, 0o755)

    def cancelled(self):
        path = self.noted + ".cancelled"
        return open(path).read().split() if os.path.exists(path) else []

    def submitted(self, kind):
        """The arguments of the jobs of one kind."""
        return [argv for argv in map(json.loads, open(self.noted)) if "--job-name=corpus-" + kind in argv]


def h5spec_with(backends):
    """h5spec, except for what --version says."""
    return wrapper('''[ "$1" != --version ] || { echo "h5spec 0"; echo "backends: %s; vectors"; exit 0; }
exec %s "$@"''' % (backends, H5SPEC))


@later("ci")
def test_a_task_never_holds_a_gpu_while_it_computes_on_the_cpu():
    (slide,), cuda, cpu = slides(1), h5spec_with("cpu, cuda"), h5spec_with("cpu")
    for program, options, gres, device in (
            (cuda, [], "gpu:1", "cuda"), (cuda, ["--gpus", "2"], "gpu:2", "cuda"), (cuda, ["--gpus", "0"], "none", "cpu"),
            (cuda, ["--h5spec", "--device cpu"], "none", "cpu"),
            (cuda, ["--h5spec", "--device=cpu"], "none", "cpu"), (cuda, ["--h5spec=--device=cuda:0"], "gpu:1", "cuda:0"),
            (cpu, [], "none", "cpu"), (cpu, ["--gpus", "0"], "none", "cpu")):
        slurm = ImitatedSlurm()
        p = corpus("run", "-o", os.path.join(tmp(), "out"), "--scheduler", "slurm", *options, slide,
                   env=dict(slurm.env, H5SPEC=program))
        (argv,) = slurm.submitted("process")
        expect("--gres=" + gres in argv, "%s: %s", options, argv)
        expect(re.findall(r"--device[ =](\S+)", " ".join(argv)) == [device], "%s: %s", options, argv)
        expect(("built without CUDA" in p.err) == (program == cpu and not options), p.err)
    out = os.path.join(tmp(), "out")
    p = corpus("run", "-o", out, "--scheduler", "slurm", "--gpus", "1", slide, status=2,
               env=dict(ImitatedSlurm().env, H5SPEC=cpu))
    says(p.err, "built without CUDA", "--gpus 0")
    expect(not os.path.exists(out + "/runs"), "a run was begun")
    p = corpus("run", "-o", out, "--scheduler", "local", "--gpus", "1", "--h5spec", "--device cpu", slide, status=2,
               env=dict(TOOLS, H5SPEC=cuda))
    says(p.err, "contradict")


# --- the contract for workflow engines (scripts/ENGINES.md) ---

def in_trouble(program):
    """The program with a limit of open files that it soon reaches: trouble of the machine."""
    return ["sh", "-c", 'ulimit -n 5; exec "$0" "$@"', program]


def test_exit_statuses_and_json_lines_are_those_of_the_contract():
    text = open(os.path.join(ROOT, "scripts", "ENGINES.md")).read()
    table = {row[0] for row in re.findall(r"^\| (\d+|128 \+ N) \| (.*)$", text, re.M)}
    expect(table == {"0", "1", "2", "3", "4", "5", "128 + N"}, "%s", table)
    fields = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*) \|", text, re.M))))
    (good,), bad = slides(1), os.path.join(tmp(), "bad.svs")
    hurt = made("--size", "600x500", "--garbage", "1,1", name="hurt")
    open(bad, "w").close()
    stores, broken = store(good), os.path.join(tmp(), "broken.h5")
    open(broken, "w").write("no store")
    for argv, status, state, cause in (
            ([WSI2H5, good], 0, "done", None), ([WSI2H5, bad], 1, "failed", "input"), ([WSI2H5, "--nonsense"], 2, None, None),
            ([WSI2H5, hurt], 4, "damaged", None), ([WSI2H5, "--accept-damage", hurt], 0, "damaged", None),
            ([WSI2H5, "--on-damage", "fail", hurt], 1, "failed", "input"), ([WSI2H5, hurt, bad], 1, "damaged", None),
            (in_trouble(WSI2H5) + [good], 5, "failed", "trouble"), (in_trouble(WSI2H5) + [good, bad], 5, "failed", "trouble"),
            ([H5SPEC, "run", stores], 0, "done", None), ([H5SPEC, "run", broken], 1, "failed", "input"),
            (in_trouble(H5SPEC) + ["run", stores], 5, "failed", "trouble"), ([H5SPEC, "run", "--nonsense"], 2, None, None)):
        p = run(*argv, "--json", "-o", tmp(), status=status, env=dict(os.environ))
        lines = json_lines(p.out)
        expect([j["status"] for j in lines][:1] == ([state] if state else []), "%s: %s", argv, p.out)
        for j in lines:
            expect(set(j) & {"status", "host", "time"} == {"status", "host", "time"}, "%s", j)
            expect(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", j["time"]) and j["host"], "%s", j)
            expect(("cause" in j) == (j["status"] == "failed"), "%s", j)
        expect(not cause or lines[0]["cause"] == cause, "%s: %s", argv, lines)
    expect({"status", "cause", "message", "seconds", "host", "time"} <= fields, "%s", fields)
    p = subprocess.Popen([WSI2H5, "--codec", "deflate", "-o", tmp(), made("--size", "6000x5000", name="large")], stderr=subprocess.DEVNULL)
    time.sleep(0.4)
    p.send_signal(signal.SIGTERM)
    expect(p.wait(TIMEOUT) == 3, "stopped: %d", p.returncode)
    for given, status in (([good], 0), ([good, bad], 1), ([good, hurt], 4)):
        corpus("run", "--scheduler", "local", "-o", os.path.join(tmp(), "out"), *given, status=status)
    out = os.path.join(tmp(), "out")
    corpus("run", "--scheduler", "local", "-o", out, good)
    os.unlink(out + "/results/s00.h5")
    corpus("status", "-o", out, status=5)


def test_merge_leaves_copies_out_or_refuses():
    (s,) = slides(1)
    twin = os.path.join(tmp(), "twin.svs")
    shutil.copy(s, twin)
    a, b = spectrum(store(s)), spectrum(store(twin))
    out = os.path.join(tmp(), "c.h5")
    says(run(H5SPEC, "merge", "-o", out, a, b, status=1).err, "are the same slide", "--skip-duplicates")
    expect(not os.path.exists(out), "written")
    p = run(H5SPEC, "merge", "--json", "--skip-duplicates", "-o", out, a, b)
    says(p.err, "the second is left out")
    expect(json_lines(p.out)[0]["duplicates"] == 1 and slides_in(out) == ["s00"], "%s", p.out)
    equal(content(out), content(a), "the first")


# --- states, retries: a Slurm that runs its jobs at once, one after the other ---

RUNNING_SBATCH = r"""
import json, os, re, subprocess, sys
folder, nodes = %r, %r
argv, options = sys.argv[1:], {}
while argv and argv[0].startswith("-"):
    name, _, value = argv.pop(0).partition("=")
    if name in ("--wrap", "-c"):
        value = argv.pop(0)
    options[name] = value
with open(folder + "/noted", "a") as f:
    f.write(json.dumps(sys.argv[1:]) + "\n")
    f.flush()
    number = sum(1 for _ in open(folder + "/noted"))
tasks = int(re.search(r"1-(\d+)", options["--array"]).group(1)) if "--array" in options else 0
left = [n for n in nodes if n not in options.get("--exclude", "").split(",")]
for t in range(1, tasks + 1) if tasks else [None]:
    node = left[(t or 0) %% len(left)]
    env = dict(os.environ, SLURMD_NODENAME=node, SLURM_ARRAY_TASK_ID=str(t), SLURM_ARRAY_TASK_MIN="1",
               SLURM_ARRAY_TASK_MAX=str(tasks), SLURM_ARRAY_TASK_STEP="1", SLURM_CPUS_PER_TASK="1")
    out, err = (open(options[o].replace("%%a", str(t)), "a") for o in ("--output", "--error"))
    code = subprocess.call(["sh", "-c", options["--wrap"]] if "--wrap" in options else argv, stdout=out, stderr=err, env=env)
    state = ("FAILED|%%d:0" %% code if code > 0 else "FAILED|0:%%d" %% -code) if code else "COMPLETED|0:0"
    with open(folder + "/ends", "a") as f:
        f.write("%%d%%s|%%s|%%s\n" %% (number, "_%%d" %% t if t else "", state, node))
print(number)
"""
RUNNING_SACCT = """import sys
open(%r, "a").write("asked\\n")
ids = sys.argv[sys.argv.index("-j") + 1].split(",")
for line in open(%r):
    if line.split("_")[0].split("|")[0] in ids:
        print(line, end="")
"""


class RunningSlurm(ImitatedSlurm):
    def __init__(self, nodes=("n1", "n2", "n3", "n4")):
        super().__init__()
        self.command("sbatch", RUNNING_SBATCH % (self.folder, nodes))
        self.command("sacct", RUNNING_SACCT % (self.folder + "/asked", self.folder + "/ends"))
        self.command("sinfo", "print(%r)" % "\n".join(nodes))

    def asked(self):
        path = self.folder + "/asked"
        return len(open(path).readlines()) if os.path.exists(path) else 0


def sick_on(node, program):
    """The program, which on one node cannot be started, as if its folder were not mounted."""
    return wrapper('[ "$SLURMD_NODENAME" != %s ] || { echo "h5: command not found" >&2; exit 127; }\nexec %s "$@"\n' % (node, program))


def a_weekend(*options, status, crash="nothing"):
    """Twelve slides, three of them bad, on four nodes, one of them sick. h5spec dies of one slide."""
    folder, out, slurm = tmp("slides"), os.path.join(tmp(), "out"), RunningSlurm()
    for s in slides(9):
        shutil.copy(s, folder)
    for name, data in (("cut", b"II*\0"), ("empty", b""), ("page", b"<html>")):
        open(os.path.join(folder, name + ".svs"), "wb").write(data)
    h5spec = wrapper('''case "$*" in *"--task auto"*) for l; do [ "$p" != --list ] || list=$l; p=$l; done
case $(sed -n "${SLURM_ARRAY_TASK_ID}p" "$list") in *%s.h5) kill -SEGV $$ ;; esac ;; esac
exec %s "$@"''' % (crash, H5SPEC))
    env = dict(slurm.env, WSI2H5=sick_on("n3", WSI2H5), H5SPEC=h5spec)
    corpus("run", "-o", out, "--scheduler", "slurm", "--gpus", "0", *options, folder, env=env)
    return folder, out, slurm, status_of(out, status, env), corpus("status", "-o", out, env=env, status=status).out


def test_a_sick_node_costs_no_slide_and_hides_none():
    folder, out, slurm, st, text = a_weekend(status=1, crash="s04")
    expect(st["states"] == {"done": 8, "damaged": 0, "bad slide": 4, "interrupted": 0, "node trouble": 0, "to do": 0}, "%s", st["states"])
    bad = {os.path.basename(f["slide"]): f for f in st["failed"]}
    expect(set(bad) == {"cut.svs", "empty.svs", "page.svs", "s04.svs"} and {f["state"] for f in bad.values()} == {"bad slide"}, "%s", bad)
    says(bad["s04.svs"]["reason"], "signal 11", "failed on n")
    for f in bad.values():
        expect(f["host"] and f["time"] and f["task"] > 0 and os.path.exists(os.path.join(out, f["log"])), "%s", f)
    expect(["failed (" in line for line in text.splitlines()[1:5]] == [True] * 4, "the first lines: %s", text)
    again = [argv for argv in map(json.loads, open(slurm.noted)) if any(a.startswith("--exclude=") for a in argv)]
    expect(again and all([a for a in argv if a.startswith("--exclude=")][0].split("=")[1].split(",")[0] == "n3" for argv in again), "%s", again)
    expect(status_of(out, 1, slurm.env)["run"] == 2, "runs")
    equal(content(out + "/corpus.h5"), direct([s for s in glob.glob(out + "/stores/*.h5") if "s04" not in s]), "8 slides")
    before = slurm.asked()
    status_of(out, 1, slurm.env)
    expect(slurm.asked() == before <= 8, "the scheduler was asked %d times", before)


def test_a_slide_that_was_replaced_after_a_failure_has_not_failed():
    """Failures on two nodes are those of the file that was there."""
    folder, out, slurm, st, _ = a_weekend("--retries", "0", status=5)
    lost = next(f["slide"] for f in st["failed"] if f["state"] == "node trouble")
    replaced(lost, slides(10)[9], 10 ** 9)
    env = dict(slurm.env, WSI2H5=sick_on("n1", sick_on("n2", sick_on("n3", sick_on("n4", WSI2H5)))))
    corpus("status", "-o", out, env=env, status=5)
    found = {row["slide"]: row["state"] for row in status_of(out, 5, env)["failed"]}
    expect(lost not in found, "%s", found)
    corpus("run", "-o", out, "--scheduler", "slurm", "--gpus", "0", "--retries", "0", folder, env=env)
    found = {row["slide"]: row["state"] for row in status_of(out, 5, env)["failed"]}
    expect(found[lost] == "node trouble", "%s", found)


def test_status_groups_what_is_not_the_slides_fault_by_node():
    folder, out, slurm, st, text = a_weekend("--retries", "0", status=5)
    expect(st["states"]["node trouble"] == 3 and st["states"]["bad slide"] < 4 and st["run"] == 1, "%s", st["states"])
    expect(st["nodes"] == {"n3": {"node trouble": 3, "interrupted": 0}}, "%s", st["nodes"])
    (row,) = [r for r in st["reasons"] if r["state"] == "node trouble"]
    expect(row["host"] == "n3" and row["slides"] == 3, "%s", row)
    says(text, "node trouble (convert): 3 slides on n3: h5: command not found", "node n3: 3 node trouble")
    metrics = corpus("status", "--prometheus", "-o", out, env=slurm.env, status=5).out
    says(metrics, 'state="node trouble"} 3\n', '\nwsi_corpus_node_failures{corpus="%s",node="n3",state="node trouble"} 3\n' % out, "# TYPE wsi_corpus_slides gauge\n")
    for line in metrics.splitlines():
        expect(re.fullmatch(r'# TYPE \w+ gauge|\w+\{(\w+="[^"]*",?)+\} [\d.e+]+', line), "%s", line)
    env = dict(slurm.env, WSI2H5=WSI2H5)  # repaired
    corpus("run", "-o", out, "--scheduler", "slurm", "--gpus", "0", folder, env=env)
    expect(status_of(out, 1, env)["states"]["done"] == 9, "after the repair")


def test_how_ends_of_tasks_are_judged():
    """The table of what the end of a task shows."""
    attempts, states = library("attempts"), library("states")
    for text, what in (("(Slurm: TIMEOUT)", "interrupted"), ("(Slurm: CANCELLED, signal 15)", "interrupted"), ("(Slurm: NODE_FAIL)", "trouble"),
                       ("(Slurm: OUT_OF_MEMORY, signal 9)", "trouble"), ("(Slurm: FAILED, exit status 127)", "trouble"),
                       ("(Slurm: FAILED, signal 11)", "crash"), ("ended by signal 11 (SIGSEGV)", "crash"), ("(Slurm: PREEMPTED)", "interrupted"),
                       ("(Grid Engine: failed 0, exit status 1)", "trouble"), ("(Grid Engine: failed 100 : assumedly after job, exit status 137)", "interrupted"),
                       ("perhaps killed", "interrupted")):
        expect(attempts.what_ended(text) == what, "%s: %s, not %s", text, attempts.what_ended(text), what)

    def tried(*rows):
        return states.decide([attempts.Attempt("convert", what, "m", host, 1, 1, "", "", "") for what, host in rows])[0]
    for rows, state in (((), "to do"), ((("input", "n1"),), "bad slide"), ((("trouble", "n1"),), "node trouble"),
                        ((("trouble", "n1"), ("trouble", "n1")), "node trouble"), ((("trouble", "n1"), ("trouble", "n2")), "bad slide"),
                        ((("interrupted", "n1"),), "interrupted"), ((("interrupted", "n1"), ("trouble", "n2")), "bad slide"),
                        ((("crash", "n1"),), "node trouble"), ((("crash", "n1"), ("crash", "n1")), "bad slide")):
        expect(tried(*rows) == state, "%s: %s", rows, tried(*rows))


def test_lines_that_a_kill_has_cut_off():
    """A requeued task goes on in the middle of the line at which it was killed."""
    attempts, out = library("attempts"), os.path.join(tmp(), "out")
    names = ["cut", "whole", "last", "lost"]
    lines = ['{"slide": "/s/%s.svs", "status": "done", "seconds": 1.0, "host": "n1", "time": "2026-11-23T20:00:0%dZ"}' % (n, k)
             for k, n in enumerate(names)]
    for joined, found in ((lines[0][:40] + lines[1] + "\n", {"whole"}), (lines[0] + lines[1] + "\n", {"cut", "whole"}),
                          (lines[0] + "\n" + lines[1][:-9] + lines[2] + "\n" + lines[3][:50], {"cut", "last"}),
                          ('"status": "done"}\n' + lines[1] + "\n", {"whole"}), ("\0\0" + lines[2] + "\n", {"last"})):
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out + "/runs/1")
        os.mkdir(out + "/logs")
        open(out + "/runs/1/jobs", "w").write("convert\t-\t1\t\n")
        open(out + "/runs/1/convert.txt", "w").write("".join("/s/%s.svs\n" % n for n in names))
        open(out + "/logs/1.convert.1.json", "w").write(joined)
        seen = attempts.Attempts(library("state").Corpus(out)).seen[1, "convert"]
        expect(seen == found, "%r: %s, not %s", joined, seen, found)


def library(name):
    """A module of scripts/corpus."""
    import importlib
    sys.dont_write_bytecode = True
    if os.path.join(ROOT, "scripts") not in sys.path:
        sys.path.insert(0, os.path.join(ROOT, "scripts"))
    return importlib.import_module("corpus_lib." + name)


# --- a scheduler that is away ---

def test_a_controller_that_is_away_for_half_an_hour_ends_nothing():
    schedulers, asked, clock, real = library("schedulers"), [], [0.0], time
    class Clock:
        time = staticmethod(lambda: clock[0])
        @staticmethod
        def sleep(seconds):
            clock[0] += seconds

    def squeue():
        asked.append(clock[0])
        if clock[0] < 1800:
            raise schedulers.Away("squeue: timed out")
        return 7
    try:
        schedulers.time = Clock
        expect(schedulers.patient(squeue) == 7 and 20 < len(asked) < 60, "asked %d times in half an hour", len(asked))
        asked.clear()
        clock[0] = 0
        try:
            schedulers.patient(squeue, 600)
            raise Failed("patience without end")
        except schedulers.Away:
            expect(600 < clock[0] < 700, "%g s", clock[0])
    finally:
        schedulers.time = real


def failing_at_first(slurm, name, times, message):
    """The command fails so often before it works."""
    path, n = os.path.join(slurm.folder, name), os.path.join(slurm.folder, name + ".n")
    for left in (n, path + ".works"):
        if os.path.exists(left):
            os.unlink(left)
    os.rename(path, path + ".works")
    slurm.command(name, """import os, sys
open(%r, "a").write("x")
if os.path.getsize(%r) <= %d:
    sys.exit(%r)
os.execv(%r, sys.argv)
""" % (n, n, times, message, path + ".works"))


@later("ci")
def test_a_scheduler_that_does_not_answer_is_asked_again():
    slurm, out = RunningSlurm(), os.path.join(tmp(), "out")
    failing_at_first(slurm, "squeue", 2, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
    failing_at_first(slurm, "sbatch", 1, "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)")
    p = corpus("run", "-o", out, "--scheduler", "slurm", "--gpus", "0", "--wait", *slides(2), env=slurm.env)
    says(p.err, "the scheduler does not answer, asking again")
    says(p.out, "2 of 2 slides converted, 2 processed")
    expect(len(slurm.submitted("convert")) == 1, "submitted twice")
    os.rename(slurm.folder + "/squeue.works", slurm.folder + "/squeue")
    failing_at_first(slurm, "squeue", 1, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
    text = corpus("status", "-o", out, env=slurm.env).out
    says(text, "2 of 2 slides converted, 2 processed", "the scheduler does not answer")
    # the controller took the job, and its answer was lost
    slurm, out = RunningSlurm(), os.path.join(tmp(), "out")
    works = os.path.join(slurm.folder, "sbatch.works")
    os.rename(os.path.join(slurm.folder, "sbatch"), works)
    slurm.command("sbatch", """import subprocess, sys
p = subprocess.run([%r] + sys.argv[1:], stdout=subprocess.PIPE)
comment = [a for a in sys.argv if a.startswith("--comment=")][0].split("=", 1)[1]
open(%r, "a").write(p.stdout.decode().strip() + "|" + comment + "\\n")
sys.exit("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation")
""" % (works, slurm.folder + "/queue"))
    slurm.command("squeue", "import sys\nif '%%F|%%k' in sys.argv: print(open(%r).read())" % (slurm.folder + "/queue"))
    corpus("run", "-o", out, "--scheduler", "slurm", "--gpus", "0", "--wait", *slides(2), env=slurm.env)
    expect(len(open(slurm.noted).readlines()) == 4, "jobs: %s", open(slurm.noted).read())


# --- what status costs ---

def test_status_looks_at_three_files_per_slide():
    folder, out = tmp(), os.path.join(tmp(), "out")
    for s in slides(12, "300x300"):
        shutil.copy(s, folder)
    corpus("run", "--scheduler", "local", "-o", out, folder)
    state, status, real, calls = library("state"), library("status"), os.stat, []

    def counted_stat(path, *a, **k):
        calls.append(path)
        return real(path, *a, **k)
    try:
        os.stat = counted_stat
        st = status.look(state.Corpus(out), time.time())
    finally:
        os.stat = real
    of_slides = [str(p) for p in calls if str(p).endswith((".svs", ".h5")) and "corpus" not in os.path.basename(str(p))]
    expect(st["states"]["done"] == 12 and len(of_slides) == 36, "%d calls of stat for 12 slides", len(of_slides))
    expect(len(calls) - len(of_slides) < 20, "%d other calls", len(calls) - len(of_slides))


# --- slides that are taken out, or have moved ---

def test_a_withdrawn_slide_leaves_nothing_and_stays_out():
    folder, out = tmp("slides"), os.path.join(tmp(), "out")
    for name, s in zip(("anna", "bert", "carl", "dora"), slides(4)):
        shutil.copy(s, os.path.join(folder, name + ".svs"))
    corpus("run", "--scheduler", "local", "-o", out, "--wsi2h5", GROUPS, "--group-tasks", folder)
    corpus("run", "--scheduler", "local", "-o", out, folder)
    says(corpus("remove", "-o", out, "nobody", status=1).err, "nobody: not a slide of this corpus")
    says(corpus("remove", "-o", out, folder + "/bert.svs", "carl").err, "2 slides removed", "not reached: ", "backups")
    for path, _, names in os.walk(out):
        for name in names:
            data = open(os.path.join(path, name), "rb").read()
            for gone in ("bert", "carl"):
                expect(gone not in name and gone.encode() not in data, "%s is in %s/%s", gone, path, name)
    st = status_of(out, 0)
    expect(st["slides"] == 2 and st["withdrawn"] == 2 and st["corpus"]["slides"] == 2 and st["corpus"]["current"], "%s", st)
    equal(content(out + "/corpus.h5"), direct([out + "/stores/anna.h5", out + "/stores/dora.h5"]), "the others")
    shutil.copy(folder + "/bert.svs", folder + "/other.svs")  # a copy under another name
    for _ in range(2):
        p = corpus("run", "--scheduler", "local", "-o", out, folder)
        expect(status_of(out)["slides"] == 2 and slides_in(out + "/corpus.h5") == ["anna", "dora"], "%s", p.out)
    corpus("remove", "-o", out, "anna", "dora")
    expect(not glob.glob(out + "/*.h5") and not os.path.exists(out + "/report.html"), "%s", os.listdir(out))


def test_moved_slides_are_the_same_slides():
    top, out = tmp("slides"), os.path.join(tmp(), "out")
    os.mkdir(top + "/a")
    for s in slides(3):
        shutil.copy(s, top + "/a")
    corpus("run", "--scheduler", "local", "-o", out, top + "/a")
    before = {f: os.stat(f).st_mtime_ns for f in glob.glob(out + "/*/*.h5")}
    os.rename(top + "/a", top + "/b")
    p = corpus("run", "--scheduler", "local", "-o", out, top + "/b")
    says(p.err, "nothing to do")
    expect({f: os.stat(f).st_mtime_ns for f in glob.glob(out + "/*/*.h5")} == before, "made again")
    expect([os.path.dirname(s) for s in open(out + "/slides.txt").read().split()] == [top + "/b"] * 3, "paths")
    os.rename(top + "/b/s01.svs", top + "/b/renamed.svs")  # known by its quickhash
    p = corpus("run", "--scheduler", "local", "-o", out, top + "/b")
    says(p.err, "s01.svs: moved to " + top + "/b/renamed.svs")
    says(p.out, "3 of 3 slides converted, 3 processed, 0 to do, 0 failed")
    expect(slides_in(out + "/corpus.h5") == ["renamed", "s00", "s02"], "%s", slides_in(out + "/corpus.h5"))


# --- staging ---

def staged_corpus(folder, scratch, *options, status=1, env=TOOLS):
    out = os.path.join(tmp(), "out")
    p = local(out, folder, "--stage", scratch, *options, env=env, status=status)
    return out, p


def left_in(scratch):
    return [os.path.join(d, f) for d, _, names in os.walk(scratch) for f in names]


def test_staging_gives_the_same_corpus_and_leaves_nothing():
    folder, good = folder_of_slides()
    scratch = tmp("scratch")
    out, _ = staged_corpus(folder, scratch, "--tasks", "2")
    check_corpus(out, direct_stores(out))
    expect(left_in(scratch) == [] and glob.glob(scratch + "/*/*") == [], "left: %s", left_in(scratch))
    lines = [j for f in glob.glob(out + "/logs/*.json") for j in json_lines(open(f).read())]
    expect(all((j.get("slide") or j["store"]).startswith((folder, out)) and scratch not in str(j) for j in lines), "%s", lines)
    local(out, folder, "--stage", scratch)
    check_corpus(out, direct_stores(out))


@later("ci")
def test_staging_without_room_or_rights_reads_in_place():
    folder, good = folder_of_slides()
    for scratch, words in (("/proc/nowhere", "nothing is staged"), (__file__, "nothing is staged")):
        out, _ = staged_corpus(folder, scratch)
        says(open(out + "/logs/1.convert.1.err").read(), words)
        check_corpus(out, direct_stores(out))
    scratch = tmp("scratch")
    env = dict(os.environ, WSI_STAGE_DIR=scratch, TESTING_FULL="1")
    code = ("import sys; sys.path.insert(0, %r); sys.dont_write_bytecode = True\n"
            "from corpus_lib import stage\nimport os, shutil, errno\n"
            "if %r == 'room': stage.Scratch.has_room = lambda self, need: False\n"
            "def full(*a, **k): raise OSError(errno.ENOSPC, 'No space left on device')\n"
            "if %r == 'copy': shutil.copy2 = full\n"
            "if %r == 'back': stage.put_back = full\n"
            "sys.exit(stage.Stage(sys.argv[1:]).run())")
    names = os.path.join(tmp(), "list")
    open(names, "w").write("".join(s + "\n" for s in slides(3)))
    for what in ("room", "copy", "back"):
        out = tmp()
        p = run(sys.executable, "-c", code % (os.path.join(ROOT, "scripts"), what, what, what), WSI2H5, "--codec", "keep", "--task", "1/1",
                "--list", names, "--json", "-o", out, env=env)
        expect(sorted(os.listdir(out)) == ["s00.h5", "s01.h5", "s02.h5"], "%s: %s", what, os.listdir(out))
        expect([j["status"] for j in json_lines(p.out)] == ["done"] * 3, "%s: %s", what, p.out)
        expect("Traceback" not in p.err and left_in(scratch) == [], "%s: %s %s", what, p.err, left_in(scratch))


@later("ci")
def test_kills_while_staging_lose_nothing_and_the_next_task_cleans():
    folder, good = folder_of_slides(s00="2400x2000", s05="2600x2600")
    out, scratch = os.path.join(tmp(), "out"), tmp("scratch")
    for k in range(by_tier(4, 8, 30)):
        argv = [sys.executable, CORPUS, "run", "--scheduler", "local", "-o", out, "--tasks", "2", "--stage", scratch, "--wsi2h5", GROUPS]
        p = subprocess.Popen(argv + begin(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, **TOOLS),
                             start_new_session=True)
        time.sleep(random.uniform(0.2, 1.5))
        if k % 2:
            p.send_signal(signal.SIGTERM)
        else:
            os.killpg(p.pid, signal.SIGKILL)
        text = p.communicate(timeout=TIMEOUT)[0].decode()
        expect("Traceback" not in text, "%s", text)
    local(out, folder, "--stage", scratch)
    check_corpus(out, direct_stores(out))
    expect(left_in(scratch) == [], "left: %s", left_in(scratch))


def test_file_systems_that_cannot_sync():
    stage, files, real, here = library("stage"), library("files"), os.fsync, tmp()
    def failing(code):
        def fsync(fd):
            raise OSError(code, os.strerror(code))
        return fsync
    try:
        for code, passes in ((22, True), (116, False), (5, False)):  # EINVAL, ESTALE, EIO
            os.fsync = failing(code)
            made, to = os.path.join(here, "x%d.h5" % code), tmp()
            open(made, "w").write("store")
            try:
                stage.put_back(made, to)
                expect(passes and os.listdir(to) == ["x%d.h5" % code], "errno %d passed", code)
            except OSError:
                expect(not passes and os.listdir(to) == [], "errno %d: %s", code, os.listdir(to))
            try:
                files.write_whole(os.path.join(to, "t"), "text")
                expect(passes, "errno %d passed", code)
            except OSError:
                expect(not passes and not [f for f in os.listdir(to) if f.startswith("t")], "errno %d", code)
    finally:
        os.fsync = real


def test_a_full_disk_and_a_file_system_that_fails_end_with_a_message():
    """No traceback, nothing counted as missing that may only be unreachable."""
    import errno
    import resource
    (slide,), out = slides(1), os.path.join(tmp(), "out")
    corpus("run", "--scheduler", "local", "-o", out, slide)
    before = content(out + "/corpus.h5")
    for limit in (0, 40, 400):  # Python sees EFBIG, as it would see ENOSPC
        def lower():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        for where, given in ((out, slides(2)), (os.path.join(tmp(), "new"), slides(1))):
            p = run(sys.executable, CORPUS, "run", "--scheduler", "local", "-o", where, *given, status=None, preexec_fn=lower,
                    env=dict(os.environ, **TOOLS))
            expect(p.returncode in (1, 5) and "Traceback" not in p.err and p.err.startswith("corpus: "), "%d: %s", p.returncode, p.err)
    corpus("run", "--scheduler", "local", "-o", out, slide, slides(2)[1])
    expect(slides_in(out + "/corpus.h5") == ["s00", "s01"], "after the disk was full")
    equal(content(spectrum(store(slide))), before, "the first slide")
    state, real = library("state"), os.stat
    for code, found in ((errno.ESTALE, None), (errno.EIO, None), (errno.ENOENT, "convert")):
        def failing(path, *a, **k):
            if str(path).endswith("stores/s00.h5"):
                raise OSError(code, os.strerror(code), path)
            return real(path, *a, **k)
        known = state.Corpus(out)
        s, os.stat = known.slides[0], failing
        try:
            remains = known.now(s).remains
            expect(remains == found, "errno %d: %s remains", code, remains)
        except OSError as e:
            expect(e.errno == code and not found, "errno %d", code)
        finally:
            os.stat = real


def test_a_clock_that_was_set_back():
    folder, out = tmp(), os.path.join(tmp(), "out")
    for s in slides(2):
        os.utime(shutil.copy(s, folder), (2 ** 31 - 1, 2 ** 31 - 1))  # later than all that is made from them
    for _ in range(2):
        p = corpus("run", "--scheduler", "local", "-o", out, folder)
        says(p.out, "2 of 2 slides converted, 2 processed, 0 to do, 0 failed")
    says(p.err, "nothing to do")


# --- schedulers ---

def cluster_script(name):
    for d in (os.environ.get("WSI_CLUSTER"), os.path.join(ROOT, "..", "shared", "cluster")):
        if d and os.access(os.path.join(d, name), os.X_OK):
            return os.path.join(os.path.abspath(d), name)
    raise Skip("%s is not here (WSI_CLUSTER names a folder with it)" % name)


class Cluster:
    """A real scheduler, started for one test; its variables are in .env."""

    def __init__(self, name, *options):
        if SAN:
            raise Skip("schedulers are tried without sanitizers")
        self.up, self.down = cluster_script(name + "-up"), cluster_script(name + "-down")
        self.options = options

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="wsi-")  # a short path: it holds sockets
        try:
            p = run(self.up, *self.options, self.folder, status=None, timeout=300)
        except subprocess.TimeoutExpired:
            raise Skip("%s did not start within 300 s" % self.up)
        if p.returncode:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise Skip("it cannot be started: %s" % p.err.strip().split("\n")[-1])
        text = run("bash", "-c", ". %s/env.sh; env -0" % self.folder).out
        self.env = dict(v.split("=", 1) for v in text.split("\0") if "=" in v)
        # no GPU is here: tasks compute on the CPU, also with a build that has CUDA
        self.env.update(TOOLS, H5SPEC=h5spec_with("cpu"))
        return self

    def __exit__(self, *_):
        run(self.down, "-r", self.folder, status=None)
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, *argv, status=0):
        return run(*argv, status=status, env=self.env).out

    def corpus(self, *argv, status=0):
        return run(sys.executable, CORPUS, *argv, status=status, env=self.env)

    def wait(self, out, seconds=200):
        end = time.time() + seconds
        while time.time() < end:
            st = json.loads(self.corpus("status", "--json", "-o", out, status=None).out)
            if not st["active_tasks"]:
                return st
            time.sleep(1)
        raise Failed("still %d tasks after %d s" % (st["active_tasks"], seconds))


def recorded(program, folder, writes):
    """Our program, but task T of an array pauses if folder/stop has a line T, and its process id is in folder/T, so
    that a test can kill or requeue it at that moment. It pauses once it writes, or else as soon as it has begun:
    h5spec writes at its very end, and for a moment only."""
    return wrapper('''t=${SLURM_ARRAY_TASK_ID:-0}
if grep -qx "$t" %s/stop 2>/dev/null && [ ! -e %s/$t ]; then
    %s "$@" &
    echo $! >%s/$t.new
    for k in $(seq %d); do ls -l /proc/$!/fd 2>/dev/null | grep -q '[.]part$' && break; sleep 0.02; done
    kill -STOP $!; mv %s/$t.new %s/$t
    trap 'kill -TERM $!' TERM
    wait $!; status=$?
    [ $status -lt 128 ] || wait $!
    exit $status
fi
exec %s "$@"
''' % (folder, folder, program, folder, 200 if writes else 0, folder, folder, program))


def wait_for(path, seconds=60):
    end = time.time() + seconds
    while not os.path.exists(path):
        expect(time.time() < end, "%s did not appear", path)
        time.sleep(0.05)
    return int(open(path).read())


def line_of(out, kind, name):
    """The task that has a slide, with one line per task."""
    lines = open(os.path.join(out, "runs", "1", kind + ".txt")).read().splitlines()
    return str([os.path.basename(x).split(".")[0] for x in lines].index(name) + 1)


def job_of(out, kind):
    rows = [line.rstrip("\n").split("\t") for line in open(os.path.join(out, "runs", "1", "jobs"))]
    return [r[1] for r in rows if r[0] == kind][0]


def tasks_in(out):
    """The sizes of the arrays of the first run."""
    jobs = [line.split("\t") for line in open(out + "/runs/1/jobs")]
    return {int(j[2]) for j in jobs if j[0] in ("convert", "process", "groups")}


@later("ci")
def test_slurm_with_kills_requeues_and_a_time_limit():
    large = "6000x5000"
    folder, good = folder_of_slides(s01=large, s02=large, s03=large, s04=large, s05=large)
    out, notes = os.path.join(tmp(), "out"), {k: tmp(k) for k in ("convert", "process")}
    with Cluster("slurm", "-n", "2", "-c", "8") as c:
        # sorted: cut, empty, s00, s01 ...: s01 is task 4, and so on
        open(notes["convert"] + "/stop", "w").write("4\n5\n")
        c.env.update(WSI2H5=recorded(WSI2H5, notes["convert"], True),
                     H5SPEC=recorded(h5spec_with("cpu"), notes["process"], False))
        # deflate takes long enough to be caught in the middle
        c.corpus("run", "-o", out, "--scheduler", "slurm", "--wsi2h5", GROUPS + " --codec deflate", "--convert-job",
                 "-c 1 --time 1", "--process-job", "-c 1", "--retries", "0", *begin(folder))
        converting, processing = job_of(out, "convert"), job_of(out, "process")
        requeued, late = line_of(out, "convert", "s01"), line_of(out, "convert", "s02")
        expect((requeued, late) == ("4", "5"), "%s", (requeued, late))
        wait_for(notes["convert"] + "/" + requeued)
        wait_for(notes["convert"] + "/" + late)  # this one stays paused until the time limit ends it
        expect(glob.glob(out + "/stores/.s01.*part") and glob.glob(out + "/stores/.s02.*part"), "not in the middle")
        c.ask("scontrol", "requeue", "%s_%s" % (converting, requeued))
        says(c.corpus("run", "-o", out, *begin(folder), status=1).err, "a run is going on")
        # processing begins when the time limit has ended that task: 7 tasks, without s02
        names = ["s00", "s01", "s03", "s04", "s05", "s06", "s07"]
        stop = [str(names.index(n) + 1) for n in ("s03", "s04")]
        open(notes["process"] + "/stop", "w").write("\n".join(stop) + "\n")
        killed = wait_for(notes["process"] + "/" + stop[0], 150)
        os.kill(killed, signal.SIGKILL)
        wait_for(notes["process"] + "/" + stop[1])
        c.ask("scancel", "%s_%s" % (processing, stop[1]))
        st = c.wait(out)
        failed = {os.path.basename(f["slide"]): (f["stage"], f["reason"]) for f in st["failed"]}
        expect(set(failed) == {"cut.svs", "empty.svs", "gone.svs", "s01.svs", "s02.svs", "s03.svs", "s04.svs"},
               "%s", failed)
        says(failed["s01.svs"][1], "is the same slide as")  # z/s01.svs, not the requeued one
        expect(failed["s02.svs"][0] == "convert" and "TIME" in failed["s02.svs"][1].upper(), "%s", failed["s02.svs"])
        expect(failed["s03.svs"][0] == failed["s04.svs"][0] == "process", "%s", failed)
        says(failed["s04.svs"][1], "CANCELLED")
        expect(st["converted"] == 8 and st["processed"] == st["corpus"]["slides"] == 5, "%s", st)
        equal(content(out + "/corpus.h5"), direct([out + "/stores/%s.h5" % n for n in
                                                   ("s00", "s01", "s05", "s06", "s07")]), "the half corpus")
        before = {f: os.stat(f).st_mtime_ns for f in glob.glob(out + "/*/*.h5")}
        c.corpus("run", "-o", out, "--wait", *begin(folder), status=1)
        expect({f: os.stat(f).st_mtime_ns for f in before} == before, "something was done twice")
        check_corpus(out, direct_stores(out), c.env)


@later("ci")
def test_slurm_shares_groups_and_cancel():
    folder, good = folder_of_slides()
    with Cluster("slurm", "-n", "2", "-c", "4") as c:
        with open(c.folder + "/slurm.conf", "a") as f:
            f.write("MaxArraySize=6\n")
        c.ask("scontrol", "reconfigure")
        for options, tasks in (([], 5), (["--group-tasks", "--tasks", "3"], 3)):
            out = os.path.join(tmp(), "out")
            c.corpus("run", "-o", out, "--scheduler", "slurm", "--wait", "--wsi2h5", GROUPS, *options, *begin(folder),
                     "--", "--cpus-per-task=1", status=1)
            check_corpus(out, direct_stores(out), c.env)
            expect(tasks_in(out) == {tasks}, "%s tasks", tasks_in(out))
        out = os.path.join(tmp(), "out")
        c.corpus("run", "-o", out, "--scheduler", "slurm", "--wsi2h5", GROUPS, *begin(folder), "--", "--hold")
        expect(json.loads(c.corpus("status", "--json", "-o", out, status=None).out)["active_tasks"] > 0, "not active")
        c.corpus("cancel", "-o", out)
        c.wait(out, 30)


@later("ci")
def test_array_scripts_of_slurm_keep_json_apart_from_messages():
    folder, names = tmp(), os.path.join(tmp(), "slides.txt")
    open(names, "w").write("".join(s + "\n" for s in slides(3)))
    script = os.path.join(ROOT, "scripts", "slurm")
    with Cluster("slurm", "-n", "1", "-c", "4") as c:
        def submit(*argv):
            for sub in ("stores", "results", "parts"):
                os.makedirs(os.path.join(folder, sub), exist_ok=True)
            p = run("sbatch", "--parsable", "--cpus-per-task=1", "--array=1-4", *argv, env=c.env, cwd=folder)
            end = time.time() + 60
            while c.ask("squeue", "-h", "-j", p.out.strip()) and time.time() < end:
                time.sleep(0.2)
            return [os.path.join(folder, "%%s-%s_%d" % (p.out.strip(), k)) for k in (1, 2, 3, 4)]

        def check(paths, program, of, field):
            rows = [row for path in paths for row in json_lines(open(path % program + ".json").read())]
            expect(sorted(os.path.basename(r[field])[:3] for r in rows) == of, "%s", rows)
            expect([r for r in rows if r["status"] != "done"] == [], "%s", rows)
            says("".join(open(path % program + ".err").read() for path in paths), "peak memory")
        check(submit(script + "/convert.sh", "stores/", names, *GROUPS.split()), "wsi2h5", ["s00", "s01", "s02"], "slide")
        stores = glob.glob(folder + "/stores/*.h5")
        open(names, "w").write("".join(s + "\n" for s in stores))
        check(submit("--gres=none", script + "/process.sh", "results/", names, "--device", "cpu"), "h5spec",
              ["s00", "s01", "s02"], "store")
        check(submit("--gres=none", script + "/groups.sh", "parts/", stores[0], "4", "4", "--device", "cpu"),
              "h5spec-groups", [os.path.basename(stores[0])[:3]] * 4, "store")


@later("ci")
def test_the_slurm_commands_of_the_readme():
    """The blocks of scripts/README.md that need Slurm, on a Slurm that has the partitions they name."""
    text = open(os.path.join(ROOT, "scripts", "README.md")).read()
    blocks = re.findall(r"```sh skip needs Slurm.*\n((?:.*\n)*?)```", text)
    expect(len(blocks) == 3, "%d blocks", len(blocks))
    folder = tmp()
    shutil.copytree(os.path.join(ROOT, "scripts"), folder + "/scripts")
    os.mkdir(folder + "/slides")
    for s in slides(3):
        shutil.copy(s, folder + "/slides")
    with Cluster("slurm", "-n", "1", "-c", "8", "-g", "1") as c:
        for partition in ("cpu", "gpu"):
            c.ask("scontrol", "create", "PartitionName=" + partition, "Nodes=ALL")
        c.env["PATH"] = BUILD + os.pathsep + c.env["PATH"]
        for block in blocks:
            run("bash", "-ec", block.replace("--watch", "--watch 1"), env=c.env, cwd=folder)
    want = without_tissue(content(spectrum(sorted(glob.glob(folder + "/stores/*.h5")))))
    for out in ("study/", "small/", ""):  # stores of codecs jpeg, jpeg and deflate
        equal(without_tissue(content("%s/%scorpus.h5" % (folder, out))), want, out)


@later("ci")
def test_the_scripts_of_pbs_do_what_those_of_slurm_do():
    # no PBS is at hand: its array is played by its variables, and the results are compared
    folder = tmp()
    slides = [made("--size", "600x500", "--seed", str(k), name="s%d" % k) for k in range(3)]
    with open(folder + "/slides.txt", "w") as f:
        f.write("".join(s + "\n" for s in slides))

    def array(script, tasks, **env):
        for task in range(1, tasks + 1):
            run("sh", os.path.join(ROOT, "scripts/pbs", script), cwd="/", env={
                **os.environ, "WSI2H5": WSI2H5, "H5SPEC": H5SPEC, "PBS_O_WORKDIR": folder, "PBS_ARRAY_INDEX": str(task), "NCPUS": "1",
                "TASKS": str(tasks), **env})
    for name in ("stores", "results", "parts"):
        os.mkdir(os.path.join(folder, name))
    array("convert.sh", 2, OUT="stores/", LIST="slides.txt", OPTIONS="--stripe-rows 240 --group-bytes 1M")
    stores = sorted(glob.glob(folder + "/stores/*.h5"))
    expect(len(stores) == 3, "%s", stores)
    with open(folder + "/stores.txt", "w") as f:
        f.write("".join(s + "\n" for s in stores))
    array("process.sh", 4, OUT="results/", LIST="stores.txt", OPTIONS="--device cpu")
    expect([os.path.basename(p) for p in sorted(glob.glob(folder + "/results/*.h5"))] == [os.path.basename(s) for s in stores], "results")
    with h5py.File(stores[0], "r") as f:
        groups = len(f["groups"])
    array("groups.sh", 2, OUT="parts/", STORE=stores[0], GROUPS_IN_STORE=str(groups), OPTIONS="--device cpu")
    run(H5SPEC, "merge", "-q", "-o", "merged.h5", *glob.glob(folder + "/parts/*.h5"), cwd=folder)
    expect(content(folder + "/merged.h5") == content(folder + "/results/" + os.path.basename(stores[0])), "groups")
    p = run("sh", os.path.join(ROOT, "scripts/pbs/convert.sh"), status=None)
    expect(p.returncode not in (0, None), "outside an array: %s", p.returncode)
    says(p.err, "use qsub -J 1-N")


@later("ci")
def test_grid_engine():
    folder, good = folder_of_slides()
    with Cluster("sge") as c:
        conf = re.sub(r"(?m)^max_aj_tasks .*", "max_aj_tasks 5", c.ask("qconf", "-sconf"))
        open(c.folder + "/global", "w").write("\n".join(conf.splitlines()[1:]) + "\n")  # without its headline
        c.ask("qconf", "-Mconf", c.folder + "/global")
        for options, tasks in (([], 5), (["--group-tasks", "--tasks", "3"], 3)):
            out = os.path.join(tmp(), "out")
            c.corpus("run", "-o", out, "--scheduler", "sge", "--wait", "--wsi2h5", GROUPS, "--convert-job",
                     "-pe smp 1", *options, *begin(folder), status=1)
            check_corpus(out, direct_stores(out), c.env)
            expect(tasks_in(out) == {tasks}, "%s tasks", tasks_in(out))


main(globals())
