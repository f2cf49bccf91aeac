#!/usr/bin/env python3
"""Shares, lists, tables and kills: what corpora rely on in the two programs.

A test of what survives a kill runs twice: with our programs, and with a naive program that writes in
place, with which it must fail.
"""
import csv
import glob
import io
import random
import re

from corpora import *

random.seed(5)


def many(n=4):
    return [store(s, *GROUPS.split()) for s in slides(n)]


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
    expect(len(rows) == 6, "each slide once: %s", rows)
    (j,) = json_lines(run(H5SPEC, "info", "--json", out).out)
    for row, want in zip(rows, j["slides"]):
        for field in ("windows", "mean_db", "std_db", "underflow"):
            expect(abs(float(row[field]) - want[field]) <= 1e-9 * abs(want[field]), "%s: %s", field, row)
    expect(rows[0]["source_name"] == "s00.svs" and rows[0]["width"] == "600", "%s", rows[0])
    part = spectrum(stores[0], "--groups", "2")
    (row,) = csv.DictReader(io.StringIO(run(H5SPEC, "info", "--csv", part).out))
    expect(row["groups_missing"] == "1,3-4", "%s", row)
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
    (j,) = json_lines(run(H5SPEC, "info", "--json", out).out)
    expect(json_lines(p.out)[0]["duplicates"] == 1 and [s["slide"] for s in j["slides"]] == ["s00"], "%s", p.out)
    equal(content(out), content(a), "the first")


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


main(globals())
