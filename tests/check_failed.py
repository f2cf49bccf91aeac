"""Slides that failed: the lists that wsi2h5 and h5spec run leave in their output folders, and the report that shows them."""

from lib import *

BROKEN = "gone, \"so\nto say\".svs"  # a name that CSV must quote


def slides(names=("good", "other")):
    folder = tmp("slides")
    for k, name in enumerate(names):
        shutil.copy(made("--size", "600x600", "--seed", str(k + 1), name=name), os.path.join(folder, name + ".svs"))
    put_file(os.path.join(folder, BROKEN), b"II*\0 and no more")
    return folder


def rows(path):
    return [(os.path.basename(r["slide"]), r["reason"]) for r in csv_rows(path)]


def lists(folder):
    return sorted(f for f in os.listdir(folder) if not f.endswith(".h5"))


def damage(folder, name):
    with open(os.path.join(folder, name), "r+b") as f:
        f.truncate(3000)


def shown(*inputs, status=0, options=()):
    """What the page of a report lists as failed: {name: reason}."""
    page, table = os.path.join(tmp(), "r.html"), os.path.join(tmp(), "r.csv")
    p = run(H5SPEC, "report", *options, "--csv", table, "-o", page, *inputs, status=status)
    if "without libpng" in p.err:
        raise Skip("built without libpng")
    return {r["slide"].lstrip("'"): r["reasons"] for r in csv_rows(table) if r["verdict"] == "fail" and r["windows"] == ""}


def convert(folder, out, *options, status=1):
    return run(WSI2H5, "-o", out, *options, folder, status=status)


def compute(stores, out, *options, status=0):
    return run(H5SPEC, "run", "--device", "cpu", "-o", out, *options, stores, status=status)


def test_everyday_commands_bring_failures_to_the_report():
    folder, work = slides(), tmp()
    stores, results = work + "/stores/", work + "/results/"
    p = convert(folder, stores)
    says(p.err, "1 slide has no store; ", "stores/failed.csv lists it")
    expect(lists(stores) == ["failed.csv"] and [r[0] for r in rows(stores + "failed.csv")] == [BROKEN], "%s", lists(stores))
    damage(stores, "other.h5")
    p = compute(stores, results, status=1)
    says(p.err, "2 slides have no result; ", "results/failed.csv lists them")
    expect([r[0] for r in rows(results + "failed.csv")] == [BROKEN, "other.h5"], "%s", rows(results + "failed.csv"))
    says(rows(results + "failed.csv")[1][1], "truncated")
    broken = BROKEN.replace("\n", "?")  # as messages have it
    for inputs, names, status in (([results], {broken, "other.h5"}, 0), ([results, stores], {broken, "other.h5"}, 1),
                                  ([results + "good.h5", stores], {broken, "other.h5"}, 1)):
        have = shown(*inputs, status=status)
        expect({re.sub(r"[\x00-\x1f]", "?", n) for n in have} == names, "%s: %s", inputs, have)
        expect(not any(folder in reason or work in reason for reason in have.values()), "folders are shown: %s", have)
    for path in (stores, results):  # the list is neither a store nor a result
        expect("failed.csv" not in run(H5SPEC, "info", path, status=None).out, "info of %s", path)


def test_rows_stay_until_the_slide_has_a_store():
    folder, work = slides(), tmp()
    stores, results, more = work + "/stores", work + "/results/", slides(("more",))
    os.unlink(os.path.join(more, BROKEN))
    convert(folder, stores)
    compute(stores, results)
    for out, status in ((stores, 0), (stores, 1)):  # a good run of other slides; a refused option
        run(WSI2H5, "-o", stores, *(("--level", "1") if status else ()), more, status=status)
        expect([r[0] for r in rows(stores + "/failed.csv")] == [BROKEN], "%s", rows(stores + "/failed.csv"))
    shutil.copy(os.path.join(more, "more.svs"), os.path.join(folder, BROKEN))
    convert(folder, stores, status=0)
    expect(lists(stores) == [], "left: %s", lists(stores))
    compute(stores, results, "--duplicates", "count")
    expect(lists(results) == [], "left: %s", lists(results))
    expect(shown(results) == {}, "%s", shown(results))


def test_rows_have_paths_and_a_broken_file_blocks_no_other():
    folder, work = tmp(), tmp()
    for sub, source in (("batch1", BROKEN), ("batch2", "good.svs")):
        os.mkdir(os.path.join(folder, sub))
        shutil.copy(os.path.join(slides(), source), os.path.join(folder, sub, "x.svs"))
    for options in ((), ("--task", "1/2"), ("--force",), ()):  # the two files of one name are in one share
        convert(folder, work + "/stores", *options)
        expect(os.path.exists(work + "/stores/x.h5"), "%s: the good slide has no store", options)
    names = [r["slide"] for r in csv_rows(work + "/stores/failed.csv")]
    expect(names == ["batch1/x.svs"], "%s", names)
    p = run(WSI2H5, "-o", "st", "batch2/x.svs", "batch1/x.svs", cwd=folder, status=1)
    says(p.err, "batch1/x.svs: would overwrite the store of batch2/x.svs", "1 converted")
    names = [r["slide"] for r in csv_rows(os.path.join(folder, "st/failed.csv"))]
    expect(names == ["batch1/x.svs"], "%s", names)


def test_a_slide_has_one_row_from_wherever_it_is_named():
    """Runs from two folders, by relative and whole paths, files and folders; a good run takes the row away."""
    work = tmp()
    os.makedirs(work + "/a/b")
    slide, link = work + "/a/b/x.svs", work + "/a/link.svs"
    put_file(slide, b"II*\0 and no more")
    os.symlink("b/x.svs", link)
    ways = [(work, "a/b/x.svs"), (work + "/a", "b/x.svs"), (work + "/a/b", "x.svs"), (work + "/a", "../a/b/x.svs"),
            (work, "./a/b/"), (work, work + "/a/b"), (work, slide)]
    for first in ways:
        for second in ways:
            shutil.rmtree(work + "/st", ignore_errors=True)
            for cwd, name in (first, second):
                p = run(WSI2H5, "-o", work + "/st", name, cwd=cwd, status=1)
            says(p.err, "1 slide has no store")
            expect(len(rows(work + "/st/failed.csv")) == 1, "%s, %s: %s", first, second, rows(work + "/st/failed.csv"))
    run(WSI2H5, "-o", work + "/st2", "a/link.svs", cwd=work, status=1)
    os.unlink(slide)
    shutil.copy(made("--size", "600x600", name="good"), slide)
    for out, name in (("st", "x.svs"), ("st2", "../link.svs")):
        run(WSI2H5, "-o", work + "/" + out, name, cwd=work + "/a/b")
        expect(not os.path.exists(work + "/" + out + "/failed.csv"), "%s stays", name)


def test_shares_have_lists_of_their_own():
    folder, work = slides(("a", "b", "c")), tmp()
    stores, results = work + "/stores", work + "/results/"
    for k in (1, 2):
        run(WSI2H5, "-o", stores, "--task", "%d/2" % k, folder, status=None)
    (name,) = lists(stores)
    expect(re.fullmatch(r"failed\.[12]-of-2\.csv", name), name)
    damage(stores, "a.h5")
    damage(stores, "b.h5")
    for k in (2, 1):
        compute(stores, results, "--task", "%d/2" % k, status=1)
    expect(lists(results) == ["failed.1-of-2.csv", "failed.2-of-2.csv"], "%s", lists(results))
    have = [name for f in lists(results) for name, _ in rows(results + f)]
    expect(sorted(have) == sorted([BROKEN, "a.h5", "b.h5"]), "%s", have)
    expect(len(shown(results)) == 3, "%s", shown(results))
    compute(stores, results, status=1)  # a run over all takes over the rows of the shares
    expect(lists(results) == ["failed.csv"] and len(rows(results + "failed.csv")) == 3, "%s", lists(results))


def test_shares_of_groups_have_the_lists_of_shares_of_stores():
    """A store of three groups and no other, then one that fails in a part of it, or in all."""
    folder, work = slides(("g",)), tmp()
    stores, results = work + "/stores/", work + "/results/"
    convert(folder, stores, "--stripe-rows", "240", "--group-bytes", "1")
    for tasks in (2, 3, 5):  # of five shares two are empty
        for k in range(1, tasks + 1):
            compute(stores, results, "--task", "%d/%d" % (k, tasks), "--by", "group")
        first = "failed.1-of-%d.csv" % tasks
        expect([f for f in lists(results)] == [first] and [r[0] for r in rows(results + first)] == [BROKEN], "%s", lists(results))
        expect(BROKEN.replace("\n", "?") in shown(results, status=1), "%s", shown(results, status=1))  # the parts are not merged
        shutil.rmtree(results)
    shutil.copy(stores + "g.h5", work + "/whole.h5")
    import h5py
    with h5py.File(stores + "g.h5") as f:
        at = int(f["/groups/00001/tile_offset"][0, 0])
    os.rename(flipped(stores + "g.h5", at + 9), stores + "g.h5")  # a tile of the first group: a bad checksum
    for k, status in ((1, 1), (2, 0)):
        compute(stores, results, "--task", "%d/2" % k, "--by", "group", status=status)
    expect(lists(results) == ["failed.1-of-2.csv"], "%s", lists(results))
    have = dict(rows(results + "failed.1-of-2.csv"))
    says(have["g.h5"], "convert the slide again with --force")
    row = verdicts(results)["g"]
    expect(row[:2] == (True, "fail"), "the slide seems whole: %s", row)
    shutil.copy(work + "/whole.h5", stores + "g.h5")
    compute(stores, results, "--task", "1/2", "--by", "group")
    expect([r[0] for r in rows(results + "failed.1-of-2.csv")] == [BROKEN], "the row of a part stays")


def test_a_copy_is_a_copy_and_no_failure():
    """One word and one status in run, its list, merge, the report and what it counts; wsi-corpus: check_corpus.py."""
    folder, work = slides(("a", "sub: x")), tmp()
    os.unlink(os.path.join(folder, BROKEN))
    shutil.copy(folder + "/a.svs", folder + "/copy of a.svs")
    shutil.copy(folder + "/a.svs", folder + "/z\x1b.svs")
    stores, results = work + "/stores/", work + "/results/"
    convert(folder, stores, status=0)
    p = run(H5SPEC, "run", "--json", "--device", "cpu", "-o", results, stores)
    says(p.err, "2 slides have no result (2 copies); ", "2 done, 0 failed, 2 copies not computed (--duplicates count computes copies, too)")
    copies = {os.path.basename(j["input"]): j["message"] for j in json_lines(p.out) if j["status"] == "copy"}
    expect(sorted(copies) == ["copy of a.h5", "z\x1b.h5"] and all(m.endswith(": copy of a") for m in copies.values()), "%s", p.out)
    expect([r[0] for r in rows(results + "failed.csv")] == sorted(copies) and all(r[1].endswith(".h5: copy of a") for r in rows(results + "failed.csv")), "%s", rows(results + "failed.csv"))
    page, table = os.path.join(tmp(), "r.html"), os.path.join(tmp(), "r.csv")
    p = run(H5SPEC, "report", "--json", "--csv", table, "-o", page, results)
    if "without libpng" in p.err:
        raise Skip("built without libpng")
    have = {r["slide"]: (r["verdict"], r["reasons"]) for r in csv_rows(table)}
    expect(have["copy of a.h5"] == ("copy", "copy of a") and len(have) == 4 and json_lines(p.out)[0]["fail"] == 0, "%s %s", have, p.out)
    text = text_in(page)
    says(text, "<b>2</b> slides</li>", "<b>2</b> copies, left out</li>", "the same slide counts once: copy of a.h5: copy of a; z?.h5: copy of a.")
    expect('"failed":[]' in text, "a copy is listed as failed")
    run(H5SPEC, "report", "--anonymous", os.path.join(tmp(), "key.csv"), "--csv", table, "-o", page, results)
    expect("copy of a" not in text_in(page) + text_in(table), "names")
    compute(stores, results, "--duplicates", "count")
    expect(lists(results) == [], "left: %s", lists(results))
    p = run(H5SPEC, "merge", "--json", "-o", work + "/m.h5", results)
    expect(sorted(x["status"] for x in json_lines(p.out)[0]["inputs"]) == ["copy", "copy", "merged", "merged"] and json_lines(p.out)[0]["slides"] == 2, "%s", p.out)
    damage(stores, "copy of a.h5")  # a failure of a file of that name
    compute(stores, results, status=1)
    expect(verdicts(results)["copy of a"][1] == "fail", "%s", verdicts(results))


def test_anonymous_runs_keep_names_out_of_the_list():
    folder, work = slides(), tmp()
    convert(folder, work + "/stores", "--anonymous", work + "/key.csv")
    text = text_in(work + "/stores/failed.csv")
    for secret in ("gone", "so", "to say", folder, os.path.basename(folder)):
        expect(secret not in text.replace("reason", ""), "%r in %r", secret, text)
    expect(text.count("\n") == 2, "%r", text)


def test_a_file_that_is_no_list_is_kept():
    folder, work = slides(), tmp()
    mine = "slide,remark\nmine\n"  # longer than the first line of a list
    for command, out in (("convert", "stores"), ("compute", "results")):
        path = os.path.join(work, out, "failed.csv")
        os.mkdir(os.path.dirname(path))
        put_file(path, mine)
        p = convert(folder, work + "/stores") if command == "convert" else compute(work + "/stores", work + "/results", status=None)
        expect(text_in(path) == mine, "%s: overwritten", command)
        if command == "convert":
            says(p.err, path + ": already exists and is not a list of failed slides; not overwritten", "1 failed")


def verdicts(*inputs, status=0, once=True):
    """The rows of a report: {name: (has numbers, verdict, reasons)}, each name once."""
    page, table = os.path.join(tmp(), "r.html"), os.path.join(tmp(), "r.csv")
    run(H5SPEC, "report", "--csv", table, "-o", page, *inputs, status=status)
    rows = [(r["slide"], (r["windows"] != "", r["verdict"], r["reasons"])) for r in csv_rows(table)]
    expect(not once or len(dict(rows)) == len(rows), "%s", rows)
    return dict(rows)


def test_a_slide_that_fails_after_it_has_a_result_has_one_row():
    """Its slide or its store broke later. Slides of one name in two folders are two rows."""
    folder, work = slides(("good", "other", "third")), tmp()
    os.makedirs(folder + "/twin")
    shutil.copy(made("--size", "600x700", "--seed", "9", name="twin"), folder + "/twin/good.svs")
    stores, results = work + "/stores/", work + "/results/"
    convert(folder, stores)
    compute(stores, results)
    for name, where in (("third.svs", folder), ("other.h5", stores)):
        damage(where, name)
    convert(folder, stores)
    compute(stores, results, status=1)
    for inputs, status in (([results], 0), ([results, stores], 1), ([stores, results], 1), ([results + "good.h5", results + "other.h5", results + "third.h5", stores], 1)):
        rows = verdicts(*inputs, status=status)
        failed = {name for name, r in rows.items() if r[1] == "fail"}
        numbers = {name for name, r in rows.items() if r[0]}
        expect(numbers == {"good", "other", "third"} and {"other", "third"} <= failed and "good" not in failed, "%s: %s", inputs, rows)
        expect(sorted(os.path.basename(n) for n in set(rows) - numbers) == sorted([BROKEN.replace("\n", "?"), "good.svs"]), "%s: %s", inputs, rows)
        says(rows["third"][2], "its numbers are of an older run", "copy the slide again")
    # the other folder in a run of its own, readable or not
    for spoil in (False, True):
        if spoil:
            damage(folder + "/twin", "good.svs")
        convert(folder + "/twin", stores)
        compute(stores, results, status=1)
        rows = verdicts(results, once=False)  # the list names the twin by its path below either folder
        expect(rows["good"][1] != "fail", "%s", rows)
    shutil.copy(folder + "/good.svs", folder + "/twin/good.svs")
    # two folders of results, in one of which a slide of that name failed
    twin, other = work + "/twin/", work + "/results2/"
    convert(folder + "/twin", twin, status=0)
    compute(twin, other)
    damage(twin, "good.h5")
    os.remove(other + "good.h5")
    compute(twin, other, status=1)
    rows = verdicts(results, other, once=False)
    expect(rows["good"][1] != "fail" and rows["good.h5"][:2] == (False, "fail"), "%s", rows)


def test_a_folder_where_everything_failed_makes_a_report():
    folder, work = slides(()), tmp()
    convert(folder, work + "/stores")
    expect(len(shown(work + "/stores")) == 1, "%s", shown(work + "/stores"))


# --- several programs on one folder, on nodes that share no locks ---

def bad_slides(first, n=4):
    folder = tmp()
    for k in range(first, first + n):
        put_file(os.path.join(folder, "bad%03d.svs" % k), b"II*\0\x08\0\0\0")
        put_file(os.path.join(folder, "bad%03d.h5" % k), b"no store")
    return folder


def names_in(folder):
    return sorted(re.sub(r"\..*", "", name) for f in os.listdir(folder) if f.startswith("failed.") for name, _ in rows(os.path.join(folder, f)))


def test_programs_at_once_lose_no_row():
    """Each read the list at its start and replaced it at its end."""
    n, each = 6, 4
    for argv in ([WSI2H5, "-q", "-o"], [H5SPEC, "run", "-q", "--device", "cpu", "-o"]):
        for _ in range(by_tier(3, 10, 20)):
            out = tmp()
            running = [subprocess.Popen([*argv, out, bad_slides(k * each, each)], stderr=subprocess.PIPE) for k in range(n)]
            said = [p.communicate(timeout=TIMEOUT)[1] for p in running]
            expect([p.returncode for p in running] == [1] * n, "%s", said)
            expect(os.listdir(out) == ["failed.csv"], "%s", os.listdir(out))
            expect(names_in(out) == ["bad%03d" % k for k in range(n * each)], "%s", names_in(out))


def test_a_program_that_is_killed_while_it_replaces_the_list_loses_no_row():
    library = preloaded("""
        #include <signal.h>
        static void die(const char *name) { if (!strcmp(getenv("DIE"), name)) raise(SIGKILL); }
        int rename(const char *a, const char *b) {
            int (*f)(const char *, const char *);
            *(void **)&f = dlsym(RTLD_NEXT, "rename");
            const int r = f(a, b);
            if (strstr(b, "claimed")) die(strstr(a, "part") ? "published" : "renamed");
            return r;
        }
        int link(const char *a, const char *b) {
            int (*f)(const char *, const char *);
            die("unlinked");
            if (!strcmp(getenv("DIE"), "nolinks")) { errno = EPERM; return -1; }
            *(void **)&f = dlsym(RTLD_NEXT, "link");
            const int r = f(a, b);
            die("linked");
            return r;
        }""")
    for when in ("renamed", "published", "unlinked", "linked", "nolinks"):
        out = tmp()
        run(WSI2H5, "-q", "-o", out, bad_slides(0), status=1)
        run(WSI2H5, "-q", "-o", out, bad_slides(4), status=None, env=dict(os.environ, LD_PRELOAD=library, DIE=when))
        page = os.path.join(tmp(), "r.html")
        run(H5SPEC, "report", "-q", "--json", "-o", page, out, status=None)
        whole = ["bad%03d" % k for k in range(4 if when == "renamed" else 8)]
        expect(sorted(set(names_in(out))) == whole, "%s: %s", when, names_in(out))
        (j,) = json_lines(run(H5SPEC, "report", "-q", "--json", "-o", page, out, status=None).out)
        expect(j["fail"] == len(whole), "%s: %s", when, j)
        run(WSI2H5, "-q", "-o", out, bad_slides(8), status=1)  # takes over what it left
        expect(os.listdir(out) == ["failed.csv"] and names_in(out) == whole + ["bad%03d" % k for k in range(8, 12)], "%s: %s %s", when, os.listdir(out), names_in(out))


def test_shares_that_are_killed_keep_their_rows_for_themselves():
    out = tmp()
    put_file(os.path.join(out, "failed.2-of-2.claimed-0123456789abcdef.csv"), "slide,reason,output\nbad001.svs,it fell,bad001.h5\n")
    folder = bad_slides(0, 2)
    run(WSI2H5, "-q", "-o", out, "--task", "1/2", folder, status=1)
    expect(len(os.listdir(out)) == 2, "%s", os.listdir(out))
    run(WSI2H5, "-q", "-o", out, "--task", "2/2", folder, status=1)
    expect(sorted(os.listdir(out)) == ["failed.1-of-2.csv", "failed.2-of-2.csv"] and names_in(out) == ["bad000", "bad001"], "%s", os.listdir(out))


def test_cells_are_no_formulas():
    names, work = ["=cmd|' -C calc'!A0.svs", "+1+1.svs", "-2.svs", "@SUM(1).svs", "'=1.svs", "plain.svs"], tmp()
    for name in names:
        put_file(os.path.join(work, name), b"II*\0\x08\0\0\0")
    run(WSI2H5, "-q", "-o", "out", "--", *names, status=1, cwd=work)
    text = text_in(work + "/out/failed.csv")
    cells = [c for row in csv.reader(io.StringIO(text)) for c in row]
    expect(len(cells) == 3 * len(names) + 3 and not [c for c in cells if c[:1] in "=+-@"], "%r", text)
    run(WSI2H5, "-q", "-o", "out", "--", *names, status=1, cwd=work)
    expect(text_in(work + "/out/failed.csv") == text, "the rows are not found again: %s", text_in(work + "/out/failed.csv"))
    (j,) = json_lines(run(H5SPEC, "report", "-q", "--json", "--csv", work + "/r.csv", "-o", work + "/r.html", work + "/out", status=None).out)
    expect(j["fail"] == len(names), "%s", j)
    cells = [c for row in csv.reader(open(work + "/r.csv", newline="")) for c in row]
    expect("'=cmd|' -C calc'!A0.svs" in " ".join(cells) and not [c for c in cells if c[:1] in ("=", "+", "@")], "%s", cells)


def test_stores_with_other_options_are_one_line():
    """A corpus that is converted with another option again said it once per slide."""
    folder, out = slides(("a", "b", "c")), os.path.join(tmp(), "stores")
    convert(folder, out, "--codec", "deflate")
    before = text_in(out + "/failed.csv")
    p = run(WSI2H5, "--json", "-o", out, "--codec", "none", folder, status=1)
    says(p.err, "%s: 3 of 4 slides have a store made with other options (the first: with --codec deflate), which is kept; use another folder, or --force" % out)
    expect(p.err.count("--force") == 1 and text_in(out + "/failed.csv") == before, "%s", p.err)
    rows = [x for x in json_lines(p.out) if "with --codec deflate" in x.get("message", "")]
    expect([os.path.basename(x["input"]) for x in rows] == ["a.svs", "b.svs", "c.svs"] and {x["status"] for x in rows} == {"failed"}, "%s", rows)
    says(run(WSI2H5, "-o", out, "--codec", "none", folder + "/b.svs", status=1).err, folder + "/b.svs: its store %s/b.h5 was made with --codec deflate" % out)


def test_runs_into_a_file_have_no_list():
    folder, work = slides(), tmp()
    convert(folder, work + "/stores")
    compute(work + "/stores", work + "/corpus.h5")
    expect(sorted(os.listdir(work)) == ["corpus.h5", "stores"], "%s", os.listdir(work))


if __name__ == "__main__":
    main(globals())
