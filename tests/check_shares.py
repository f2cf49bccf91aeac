#!/usr/bin/env python3
"""Shares, groups, look-up tables and results that exist: what corpora rely on in h5spec."""
import itertools

import h5py

from corpora import *


def many(n=4):
    return [store(s, *GROUPS.split()) for s in slides(n)]


def test_lookup():
    stores, names = many(3), os.path.join(tmp(), "list")
    put_file(names, "# stores\n%s\n\n%s\r\n" % (stores[0], stores[1]))
    for argv in (stores, ["--list", names, stores[2]]):
        rows = [line.split("\t") for line in run(H5SPEC, "lookup", *argv).out.splitlines()]
        expect(rows == [["Start", "End", "Name"], ["1", "4", stores[0]], ["5", "8", stores[1]], ["9", "12", stores[2]]], "%s", rows)
    broken, tab = file_of("broken.h5", bytes_in(stores[0])[:30000]), os.path.join(tmp(), "a\tb.h5")
    p = run(H5SPEC, "lookup", stores[0], broken, stores[1], status=1)
    says(p.err, broken, "truncated")
    expect([line.split("\t")[0] for line in p.out.splitlines()] == ["Start", "1", "5"], p.out)
    says(run(H5SPEC, "lookup", shutil.copy(stores[0], tab), status=1).err, "rename the file")


def test_shares_and_groups_into_a_folder():
    stores, out, parts, whole = many(5), tmp(), tmp(), os.path.join(tmp(), "c.h5")
    for task, n in (("1/3", 2), ("2/3", 2), ("3/3", 1), ("3/3", 0)):
        says(run(H5SPEC, "--task", task, "-o", out, *stores).err, "%d done" % n)
    says(run(H5SPEC, "--task", "6/7", "-o", out, *stores).err, "share 6 of 7 of 5 stores is empty: nothing to do", "0 done")
    for g in ("1", "2-3", "4"):
        run(H5SPEC, "-q", "--groups", g, "-o", parts, stores[0])
    expect(sorted(os.listdir(parts)) == ["s00.1-1.h5", "s00.2-3.h5", "s00.4-4.h5"], "%s", os.listdir(parts))
    for folder, of in ((out, stores), (parts, stores[:1])):
        run(H5SPEC, "merge", "-q", "--force", "-o", whole, *glob.glob(folder + "/*.h5"))
        equal(content(whole), direct(of), folder)
    says(run(H5SPEC, "--groups", "2-3", "-o", parts, stores[0]).err, "1 skipped")
    shutil.copy(parts + "/s00.1-1.h5", parts + "/s00.2-2.h5")
    says(run(H5SPEC, "--groups", "2", "-o", parts, stores[0], status=1).err, "another store")
    p = run(H5SPEC, "merge", "--force", "-o", whole, parts + "/s00.1-1.h5", parts + "/s00.4-4.h5", status=1)
    says(p.err, "slide s00", "groups 2-3 of 4 are missing")


STUB = os.path.join(BUILD, "tests", "h5spec_stub")  # of CUDA, see check_cuda.py
DEVICES = [(H5SPEC, "cpu")] + ([(STUB, "cuda")] if os.path.exists(STUB) else [])


def by_group(out, tasks, *inputs, on=DEVICES[0], **kw):
    """All tasks of an array job over groups; returns their runs."""
    return [run(on[0], "run", "--device", on[1], "--task", "%d/%d" % (k + 1, tasks), "--by", "group", "-o", out, *inputs, **kw) for k in range(tasks)]


def test_shares_of_groups_join_to_the_same_result():
    """Any number of tasks: more or fewer than groups, stores or both; one store on several nodes."""
    stores = many(3)  # of 4 groups each
    for of, tasks in ((stores[:1], 4), (stores, 1), (stores, 2), (stores, 5), (stores, 12), (stores, 14)):
        parts, whole = tmp(), os.path.join(tmp(), "c.h5")
        ran = by_group(parts, tasks, *of)
        run(H5SPEC, "merge", "-q", "-o", whole, parts)
        equal(content(whole), direct(of), tasks)
        names = sorted(os.listdir(parts))
        if len(of) == 1 or tasks == 12:
            expect(names == ["%s.%d-%d.h5" % (os.path.basename(s)[:-3], g, g) for s in of for g in range(1, 5)], "%s", names)
        if tasks == 2:  # groups 1 to 6 and 7 to 12
            expect(names == ["s00.h5", "s01.1-2.h5", "s01.3-4.h5", "s02.h5"], "%s", names)
        if tasks == 14:
            says(ran[13].err, "share 14 of 14 of 12 groups is empty: nothing to do", "0 done")
        for p in by_group(parts, tasks, *of):
            says(p.err, " 0 done" if tasks < 13 or p is ran[13] else "0 done", "0 failed")


def bytes_of_counts(path):
    with h5py.File(path, "r") as f:
        return f["histogram"][()].tobytes()


@later("ci")
def test_shares_of_groups_cross_with_devices_options_and_forms():
    """A row per device, options of the run, how the inputs are named, and what the parts are joined to."""
    stores, listed, tree = many(3), os.path.join(tmp(), "list"), tmp()
    put_file(listed, "".join(s + "\n" for s in stores))
    for s in stores:
        shutil.copy(s, tree)
    hann, small = ["--tissue-only", "--taper", "hann"], ["-j", "3", "--window", "64", "--stride", "64"]
    rows = [([], stores, None), ([], [tree], TABLES), (hann, ["--list", listed], TABLES), (small, [tree], None)]
    for on, (options, inputs, tables_by) in itertools.product(DEVICES, rows):
        parts, mine, one = tmp(), tmp(), os.path.join(tmp(), "one.h5")
        ran = by_group(parts, 5, *options, "--json", *inputs, on=on)  # of 12 groups
        lines = [json_lines(p.out) for p in ran]
        expect([len(x) for x in lines] == [1, 2, 1, 1, 1] and all(x["status"] == "done" and x["kind"] == "store" for x in sum(lines, [])), "%s", lines)
        run(on[0], "run", "-q", "--device", on[1], *options, "-o", mine, *inputs)
        run(on[0], "run", "-q", "--device", on[1], *options, "-o", one, *inputs)
        tables = [os.path.join(folder, "t.h5") for folder in (parts, mine)]
        for table, folder in zip(tables, (parts, mine)):
            run(tables_by or on[0], "merge", "-q", "-o", table, folder)
        for other in (tables[1], one):
            says(run(H5SPEC, "compare", tables[0], other).out, "identical")
        expect(bytes_of_counts(tables[0]) == bytes_of_counts(one), "%s %s %s %s", on, options, inputs, tables_by)


def test_shares_of_groups_fail_as_others_do():
    stores, folder = many(2), tmp()
    for s in stores:
        shutil.copy(s, folder)
    broken = os.path.join(folder, os.path.basename(stores[1]))
    put_file(broken, bytes_in(stores[1])[:30000])
    for k, p in enumerate(by_group(tmp(), 2, folder, status=1)):  # how many groups are there?
        says(p.err, "--by group numbers the groups of all stores", broken)
    parts, whole = tmp(), os.path.join(tmp(), "w.h5")
    by_group(parts, 3, stores[0])
    os.unlink(os.path.join(parts, sorted(os.listdir(parts))[0]))
    says(run(H5SPEC, "merge", "-o", whole, parts, status=1).err, "groups 1-2 of 4 are missing")
    by_group(parts, 3, stores[0])  # computes the part that is missing
    run(H5SPEC, "merge", "-q", "-o", whole, parts)
    equal(content(whole), direct(stores[:1]), "again")
    for argv, why in ((["--by", "group", "--task", "1/2", "--groups", "1"], "contradict"),
                      (["--by", "groups", "--task", "1/2"], "store"), (["--by", "group", "--task", "1/2", "--live", tmp()], "contradict")):
        says(run(H5SPEC, "run", *argv, "-o", tmp(), stores[0], status=2).err, why)


def test_a_part_and_the_result_of_another_slide_never_replace_each_other():
    """Groups 1 to 2 of slide `a`, and slide a.1-2: in one run, or in two, with --force or without."""
    whole, other = [shutil.copy(s, os.path.join(tmp(), name)) for s, name in zip(many(2), ("a.h5", "a.1-2.h5"))]
    for options in ([], ["--force"]):
        parts = tmp()
        for p in by_group(parts, 3, *options, other, whole, status=2):
            says(p.err, whole + " and " + other, "write them to two folders")
        expect(os.listdir(parts) == [], "%s", os.listdir(parts))
        for first, second in (([whole, "--groups", "1-2"], [other]), ([other], [whole, "--groups", "1-2"])):
            for age in (0, 2 ** 31 - 1):
                out = tmp()
                run(H5SPEC, "run", "-q", "-o", out, *first)
                os.utime(second[0], (age, age))
                kept = bytes_in(out + "/a.1-2.h5")
                p = run(H5SPEC, "run", *options, "-o", out, *second, status=1)
                says(p.err, out + "/a.1-2.h5 exists and is the result of slide " + os.path.basename(first[0])[:-3], "name another folder")
                expect(bytes_in(out + "/a.1-2.h5") == kept, "%s replaced by %s", first, second)
    for name, tasks in (("a.1-02", 2), ("a1-2", 2), ("b.1-2", 2), ("a.1-2.x", 2), ("a.0-2", 2)):  # no names of parts of `a`
        parts, mine = tmp(), shutil.copy(other, os.path.join(tmp(), name + ".h5"))
        by_group(parts, tasks, whole, mine)
        run(H5SPEC, "merge", "-q", "-o", parts + "/w", parts)
        equal(content(parts + "/w/corpus.h5"), direct([whole, mine]), name)


def test_existing_results_are_kept():
    mine, results = shutil.copy(many(1)[0], os.path.join(tmp(), "slide.h5")), tmp()
    path, late = os.path.join(results, "slide.h5"), (2 ** 31 - 1,) * 2

    cut = lambda path: os.truncate(path, os.path.getsize(path) - 100)
    for before, options, status, words, written in (
            ((), [], "done", [], True),
            ((os.utime, path, late), [], "skipped", [], False),
            ((), ["--window", "128"], "failed", ["other parameters", "window", "--force"], False),
            ((), ["--sigma", "2"], "failed", ["other parameters", "sigma", "--force"], False),
            ((), ["--taper", "hann"], "failed", ["other parameters", "taper", "--force"], False),
            ((), ["--force"], "done", [], True),
            ((os.utime, mine, late), [], "skipped", [], True),  # a newer store with the same content: only the result's time changes
            ((os.utime, mine, (1, 1)), [], "skipped", [], False),
            ((cut, path), [], "done", [], True),
            ((replaced, mine, store(slides(2)[1]), 1), [], "failed", ["another store"], False),
            ((replaced, path, MKSLIDE, 1), [], "failed", ["not overwritten"], False)):
        if before:
            before[0](*before[1:])
        at = os.path.exists(path) and os.stat(path).st_mtime_ns
        p = run(H5SPEC, "--json", "-o", results, *options, mine, status=int(status == "failed"))
        expect(json_lines(p.out)[0]["status"] == status and (os.stat(path).st_mtime_ns != at) == written, "%s %s: %s", before, options, p.out)
        says(p.err, *words, *([mine] if words else []))
        if status == "done":
            equal(content(path), direct([mine]), "the result")


def test_a_store_with_other_content_makes_its_result_out_of_date():
    """Whatever the times say: an older store with another tissue map was "up to date"."""
    slide = made("--size", "900x700", "--seed", "3", name="slide")
    first, folder, results = store(slide), tmp(), tmp()
    mine, path = os.path.join(folder, "slide.h5"), os.path.join(results, "slide.h5")

    def take(other, seconds):
        shutil.copy(other, mine)
        os.utime(mine, (seconds, seconds))
        return run(H5SPEC, "run", "--json", "--device", "cpu", "-o", results, folder)
    take(first, 1)
    other = os.path.join(tmp("other"), "slide.h5")
    for options in (("--tissue-thresholds", "0.9,0.9"), ("--mpp-override", "0.3"), ("--gray",), ("--stripe-rows", "240", "--group-bytes", "1"), ("--codec", "none"), ("--level", "0")):
        run(WSI2H5, "-q", "--force", "-o", other, *options, slide)
        for at, content_ in ((1, other), (1, other), (2 ** 31 - 1, other), (1, first), (2 ** 31 - 1, first)):
            p = take(content_, at)
            same = attributes_of(path, "slides/slide")["content_crc32"] == attributes_of(mine)["content_crc32"]
            expect(same, "%s: %s", options, p.err)
            equal(content(path), direct([mine]), options)
        p = take(other, 1)
        expect(json_lines(p.out)[0]["status"] == ("skipped" if options[0] == "--level" else "done"), "%s: %s", options, p.err)
        expect(options[0] == "--level" or "its store has changed since; computed again" in p.err, "%s: %s", options, p.err)
        take(first, 1)


def test_results_of_other_parameters_are_refused_once():
    """One message; they stay, are in no list of slides without a result, and a report shows each slide once."""
    stores, out, page = many(4), tmp(), os.path.join(tmp(), "r.html")
    run(H5SPEC, "run", "-q", "--device", "cpu", "-o", out, *stores)
    before = {name: bytes_in(os.path.join(out, name)) for name in os.listdir(out)}
    p = run(H5SPEC, "run", "--device", "cpu", "--json", "--sigma", "2", "-o", out, *stores, status=1)
    says(p.err, out + ": 4 of 4 stores have a result with other parameters (existing and new: sigma is 1 and 2), which is kept; name another folder, or replace them with --force",
         "0 done, 4 failed")
    expect(p.err.count("sigma") == 1 and "have no result" not in p.err, "%s", p.err)
    expect([x["status"] for x in json_lines(p.out)] == ["failed"] * 4 and all("sigma is 1 and 2" in x["message"] for x in json_lines(p.out)), "%s", p.out)
    expect({name: bytes_in(os.path.join(out, name)) for name in os.listdir(out)} == before, "%s", os.listdir(out))
    # one store
    says(run(H5SPEC, "run", "--device", "cpu", "--sigma", "2", "-o", out, stores[0], status=1).err, stores[0], "sigma is 1 and 2", "another folder", "--force")
    rows = os.path.join(tmp(), "r.csv")
    run(H5SPEC, "report", "-q", "-o", page, "--csv", rows, out)
    names = [row["slide"] for row in csv_rows(rows)]
    expect(sorted(names) == ["s00", "s01", "s02", "s03"], "%s", names)
    # a list of a run before that names a store with a result
    put_file(os.path.join(out, "failed.csv"), "slide,reason,output\ns00.h5,with other parameters,s00.h5\nnot-there.svs,bad,\n")
    run(H5SPEC, "run", "-q", "--device", "cpu", "--sigma", "2", "-o", out, *stores, status=1)
    expect("s00" not in text_in(os.path.join(out, "failed.csv")), "%s", text_in(os.path.join(out, "failed.csv")))
    run(H5SPEC, "run", "-q", "--device", "cpu", "--force", "--sigma", "2", "-o", out, *stores)


@later("ci")
def test_memory_does_not_grow_with_the_number_of_stores():
    if SAN:
        raise Skip("sanitizers need memory of their own")
    folder, (s,) = tmp(), many(1)
    stores = [shutil.copy(s, os.path.join(folder, "t%03d.h5" % k)) for k in range(400)]
    peak = []
    for n, output in ((20, tmp() + "/r.h5"), (20, tmp()), (400, tmp() + "/r.h5"), (400, tmp())):
        p = run(H5SPEC, "-j", "2", "--duplicates", "count", "-o", output, *stores[:n])
        peak.append(peak_mib(p.err))
    # HDF5 keeps some metadata per slide of the file that it writes
    expect(peak[2] < peak[0] + 24 and peak[3] < peak[1] + 8, "20 stores: %s, 400: %s MiB", peak[:2], peak[2:])


@later("ci")
def test_tune():
    s = store(made("--size", "1200x1600", name="tune"))
    begun = time.time()
    (opening,) = re.findall(r"^opening: ([\d.]+) ms, ", run(H5SPEC, "tune", store(made("--size", "300x200"))).out, re.M)
    expect(float(opening) < (time.time() - begun) * 1e3, "opening took %s ms of less", opening)
    p = run(H5SPEC, "tune", s)
    rows = [line.split() for line in p.out.splitlines() if re.match(r" *[\d.]+ [KM]iB ", line)]
    threads = sorted({int(r[3]) for r in rows})
    expect(threads[0] == 1 and [(int(r[2]), int(r[3])) for r in rows] == [(n, t) for n in (240, 480, 960, 1600) for t in threads],
           "rows, threads: %s", rows)
    expect(all(float(r[5]) > 0 for r in rows), "warm: %s", rows)
    expect(all(float(r[-2]) > 1 for r in rows[2 * len(threads):]), "reading window by window was not slower: %s", rows)
    (size,) = re.findall(r"^--group-bytes (\d+)M$", p.out, re.M)
    run(WSI2H5, "-q", "-o", tmp(), "--group-bytes", size + "M", made("--size", "1200x1600", name="tune"))
    if os.path.isdir("/dev/shm"):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as d:
            says(run(H5SPEC, "tune", shutil.copy(s, d)).out, "so these are speeds of cached data")
    damaged = flipped(s, os.path.getsize(s) // 2)
    says(run(H5SPEC, "tune", damaged, status=1).err, damaged, "CRC mismatch in chunk")
    p = subprocess.Popen([H5SPEC, "tune", s], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    time.sleep(0.2)
    p.send_signal(signal.SIGTERM)
    says(p.communicate(timeout=TIMEOUT)[1].decode(), "stopped by signal")
    expect(p.returncode == 3, "status %d", p.returncode)


def test_merge_leaves_copies_out_or_refuses_on_request():
    (s,), out = slides(1), os.path.join(tmp(), "c.h5")
    a, b = spectrum(store(s)), spectrum(store(shutil.copy(s, os.path.join(tmp(), "twin.svs"))))
    says(run(H5SPEC, "merge", "--duplicates", "fail", "-o", out, a, b, status=1).err, ": copy of ", "--duplicates skip")
    expect(not os.path.exists(out), "written")
    p = run(H5SPEC, "merge", "--json", "-o", out, a, b)
    says(p.err, ": copy of ", ", left out")
    expect(json_lines(p.out)[0]["duplicates"] == 1, "%s", p.out)
    equal(content(out), content(a), "the first")


main(globals())
