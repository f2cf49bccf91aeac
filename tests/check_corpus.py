"""Corpora: plans, interrupted runs, sick nodes; on this machine, and with an imitation of Slurm."""
import errno
import fcntl
import types

import h5py

from corpora import *


# --- corpus on this machine ---

BAD = {"cut.svs": "cut.svs: ", "empty.svs": "empty", "gone.svs": "no such"}


def good_and_bad(**sizes):
    """A folder with 8 good slides and three bad ones, and a slide that is missing. Returns these two, and the good ones."""
    good = [made("--size", sizes.get("s%02d" % k, "600x900"), "--seed", str(k + 1), name="s%02d" % k) for k in range(8)]
    folder = folder_with({**{os.path.basename(s): s for s in good}, "empty.svs": os.devnull, "z/s07.svs": good[-1]})
    with open(good[0], "rb") as f, open(folder + "/cut.svs", "wb") as out:
        out.write(f.read(3000))
    return [folder, folder + "/gone.svs"], [os.path.join(folder, os.path.basename(s)) for s in good]


def with_bad(out, given, *options, status=1, **kw):
    return local(out, "--wsi2h5", GROUPS, *options, *given, status=status, **kw)


def check_corpus(out, stores):
    """corpus.h5 equals one direct run; the status lists exactly the bad slides, with their reasons."""
    equal(content(out + "/corpus.h5"), direct(stores), "corpus.h5")
    st = status_of(out, 1)
    expect(st["slides"] == 12 and st["converted"] == 9 and st["processed"] == st["corpus"]["slides"] == 8, "%s", st)
    failed = {f["slide"].split("/slides-")[1].split("/", 1)[1]: f["reason"] for f in st["failed"]}
    expect(set(failed) == set(BAD), "failed: %s", failed)
    (copy,) = st["copies"]
    expect(copy["slide"].endswith("z/s07.svs") and copy["state"] == "copy" and re.fullmatch("copy of .*/s07.svs", copy["reason"]) and st["states"]["copy"] == 1, "%s", copy)
    for name, reason in BAD.items():
        says(failed[name], reason)
    expect(not [f for d, _, names in os.walk(out) for f in names if f.endswith((".part", ".new"))], "something is left")


def direct_stores(out):
    """The stores except that of z/s07.svs, which is the same slide as s07."""
    return sorted(set(glob.glob(out + "/stores/*.h5")) - {out + "/stores/s07-2.h5"})


def slides_in(result):
    return [s["slide"] for s in json_lines(run(H5SPEC, "info", "--json", result).out)[0]["slides"]]


def times_of(out):
    return {f: os.stat(f).st_mtime_ns for f in glob.glob(out + "/*/*.h5")}


def test_changed_regions():
    """A slide whose regions have changed is computed again; one whose file was only written again is not."""
    roi = tmp()

    def draw(name, right):
        with open(os.path.join(roi, name + ".geojson"), "w") as f:
            json.dump({"type": "Polygon", "coordinates": [[[0, 0], [right, 0], [right, 600], [0, 600]]]}, f)
    draw("s00", 600)
    draw("s01", 600)
    folder, out = begun(slides(2), "--h5spec", "--roi " + roi)
    state = lambda: [(os.stat(path).st_ino, content(path)) for path in (out + "/results/s00.h5", out + "/results/s01.h5")]
    first = state()
    draw("s00", 300)
    draw("s01", 600)
    says(corpus("status", "-o", out, status=5).out, "2 to do")
    local(out, folder)
    second = state()
    expect(second[0][1] != first[0][1] and second[1] == first[1], "s00: changed, s01: not")
    says(local(out, folder).err, "nothing to do")


def test_wrong_use():
    out = new_out()
    for argv, word, status in ((["run", "--wsi2h5", "--codec foo", "x.svs"], "--codec foo", 2), (["run", tmp()], "a folder without slides", 1),
                               (["run", "--h5spec", "--window 100", "x.svs"], "window", 2), (["run"], "no slides given", 2),
                               (["run", "--wsi2h5", "--keep-tree", "x.svs"], "one folder of stores", 2), (["plan"], "no slides given", 2),
                               (["run", "--wsi2h5", "--anonymous k.csv", "x.svs"], "by the names of their slides", 2),
                               (["run", "--wsi2h5", "--keep-t", "x.svs"], "one folder of stores", 2),
                               (["run", "--wsi2h5", "--anon=k.csv", "x.svs"], "by the names of their slides", 2),
                               (["step", "--batch", "1"], "not a corpus", 1), (["status"], "not a corpus", 1),
                               (["run", "--tasks", "0", "x.svs"], "1 or more", 2)):
        says(corpus(*argv, "-o", out, *(["--scheduler", "local"] if "run" in argv else []), status=status).err, word)
    says(corpus(status=2).err, "plan | run | step | finish | status | cancel | remove")


def test_files_of_the_user_are_refused_by_name():
    """Whatever name a corpus needs in OUT, before it writes anything; its own files, and empty ones, are no hindrance."""
    given = slides(1)
    tables = {"names.txt": "anna\nbert\n", "plan.tsv": "step\tday\n1\tMonday\n", "records.jsonl": '{"id": 7}\n', "corpus.json": '{"title": "mine"}\n',
              "jobs": "dentist\ntaxes\n", "withdrawn.txt": "path to nowhere\n", "lock": "of the bicycle: 1234\n", "cancelled": "the meeting\n"}
    for name, text in tables.items():
        for command in (["run", "--scheduler", "local"], ["plan"]):
            out = tmp()
            path = put_file(os.path.join(out, name), text)
            p = corpus(*command, "-o", out, *given, status=1)
            expect(p.err == "corpus: %s: already exists and is no file of a corpus; not overwritten: rename it\n" % path, p.err)
            expect(os.listdir(out) == [name] and text_in(path) == text, "%s: %s", name, os.listdir(out))
    out = tmp()
    os.mkdir(out + "/results")
    mine = put_file(out + "/results/failed.csv", "who,why\nanna,ill\n")
    for name in tables:
        if name != "corpus.json":
            put_file(os.path.join(out, name), "")
    local(out, *given)
    expect(text_in(mine) == "who,why\nanna,ill\n", "failed.csv of the user")
    says(local(out, *given).err, "nothing to do")
    for name, text in tables.items():  # in a corpus that has begun; its cache is made again
        if name != "records.jsonl":
            with open(os.path.join(out, name), "a+") as f:
                f.seek(0)
                before = f.read()
            put_file(os.path.join(out, name), text)
            says(corpus("run", "--scheduler", "local", "-o", out, *given, status=1).err, out + "/" + name, "rename it")
            expect(text_in(os.path.join(out, name)) == text, name)
            put_file(os.path.join(out, name), before)
    says(local(out, *given).err, "nothing to do")


def test_planted_links_are_not_followed():
    """Another user who may write into OUT cannot make a run overwrite a file elsewhere."""
    victim = os.path.join(tmp(), "victim")
    open(victim, "w").write("mine")
    for name in ("lock", "logs/1.1.err", "logs/1.1.jsonl"):
        out = new_out()
        os.makedirs(out + "/logs")
        os.symlink(victim, os.path.join(out, name))
        p = local(out, slides(1)[0], status=1)
        says(p.err, "corpus: %s/%s: " % (out, name), "symbolic link")
        expect(open(victim).read() == "mine", "%s: %s", name, p.err)


def test_a_corpus_of_another_user_can_be_looked_at_and_says_what_it_forbids():
    top = tempfile.mkdtemp()  # below a folder that all may enter
    user = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
    script = os.path.join(for_everyone(os.path.dirname(CORPUS)), "corpus")
    tools = {name: for_everyone(program) for name, program in TOOLS.items()}
    try:
        os.chmod(top, 0o755)
        out, slide = os.path.join(top, "out"), shutil.copy(slides(1)[0], top)
        local(out, slide)
        os.unlink(out + "/records.jsonl")  # results that nobody has read
        for path, _, _ in list(os.walk(out)):
            os.chmod(path, 0o555)
        for argv, status, words in ((["status"], 0, ["1 of 1 slides converted, 1 processed"]), (["status", "--html"], 1, []),
                                    (["run", "--scheduler", "local", slide], 1, [out, "ermission denied"])):
            p = run(sys.executable, script, *argv, "-o", out, status=status, env=dict(os.environ, **tools), cwd="/", **user)
            expect("Traceback" not in p.err, "%s", p.err)
            says(p.out + p.err, *words)
    finally:
        for path, _, _ in list(os.walk(top)):
            os.chmod(path, 0o755)
        shutil.rmtree(top)


def test_a_run_on_a_host_whose_locks_do_not_reach_this_one():
    """Locks of a mount can be local to a node. What another host writes stays until it has not grown for a day."""
    folder, out = begun(slides(1))
    lock, here = out + "/lock", re.sub("[-/.]", "_", os.uname().nodename)
    expect(text_in(lock) == "", "the lock is held: %r", text_in(lock))
    with open(lock) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        says(local(out, folder, status=1).err, out + ": a run is in progress; see")
    foreign, own = (os.path.join(out, "stores", ".x.h5.%s-4194304-1.part" % host) for host in ("elsewhere", here))
    for path in (foreign, own):
        put_file(path, "unfinished")
    put_file(lock, "elsewhere\n")
    says(local(out, folder, status=1).err, "a run is in progress on elsewhere")
    expect(text_in(lock) == "elsewhere\n" and os.path.exists(own), "it went on")
    os.utime(lock, (time.time() - 700,) * 2)  # whoever holds it would have touched it
    says(local(out, folder).err, "nothing to do")
    expect(os.path.exists(foreign) and not os.path.exists(own) and text_in(lock) == "", "%s", os.listdir(out + "/stores"))
    os.utime(foreign, (time.time() - 25 * 3600,) * 2)
    local(out, folder)
    expect(not os.path.exists(foreign), "%s", os.listdir(out + "/stores"))


def test_a_run_elsewhere_keeps_the_lock_while_it_goes_on():
    library = preloaded("int flock(int fd, int how) { (void)fd; (void)how; return 0; }")
    elsewhere = ["unshare", "--uts", "sh", "-c", "hostname elsewhere && exec env LD_PRELOAD=%s \"$@\"" % library, "sh"]
    if subprocess.run([*elsewhere, "true"], stderr=subprocess.DEVNULL).returncode:
        raise Skip("no host name of its own can be had")
    out, waits = new_out(), wrapper('[ "$1" = --version ] || sleep 3\nexec %s "$@"' % WSI2H5)
    argv = [sys.executable, CORPUS, "run", "--scheduler", "local", "-o", out, *slides(1)]
    p = subprocess.Popen([*elsewhere, *argv], env=dict(os.environ, **dict(TOOLS, WSI2H5=waits)), stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    while not os.path.exists(out + "/lock") or not os.path.getsize(out + "/lock"):
        expect(p.poll() is None, "it ended")
        time.sleep(0.02)
    says(local(out, slides(1)[0], status=1).err, "a run is in progress on elsewhere")
    _, err = p.communicate(timeout=TIMEOUT)
    expect(p.returncode == 0, "%d %s", p.returncode, err)


def test_a_store_that_is_replaced_by_an_older_one_makes_its_result_out_of_date():
    """Times do not tell, and there is no record: the checksum of what the numbers depend on does."""
    slide, = slides(1)
    folder, out = begun([slide])
    other = store(slide, "--tissue-thresholds", "0.9,0.9")
    kept = os.path.join(out, "stores", "s00.h5")
    shutil.copy(other, kept)
    os.utime(kept, (10 ** 9,) * 2)
    os.utime(os.path.join(folder, "s00.svs"), (10 ** 9 - 1,) * 2)
    os.unlink(out + "/records.jsonl")
    local(out, folder)
    crc = [json_lines(run(H5SPEC, "info", "--json", p).out)[0] for p in (kept, out + "/results/s00.h5")]
    expect(crc[0]["content_crc32"] == crc[1]["slides"][0]["content_crc32"], "%s", crc)


def test_status_into_a_pipe_that_is_closed():
    _, out = begun(slides(1))
    for options in ([], ["--json"]):
        read, write = os.pipe()
        os.close(read)
        p = subprocess.run([sys.executable, CORPUS, "status", "-o", out, *options], stdout=write, stderr=subprocess.PIPE, timeout=TIMEOUT)
        os.close(write)
        expect(p.returncode == 3 and not p.stderr, "%d %s", p.returncode, p.stderr.decode())


# --- inputs ---

def test_inputs_that_cannot_be_used_are_reported_and_counted_once_in_every_run():
    """wsi2h5 searches; check_inputs.py tests that."""
    s = slides(4)
    folder, out, none = folder_with({"a.svs": s[0], "two\nlines.svs": s[1], "sub/.hidden.svs": s[2]}), new_out(), tmp("none")
    for name, target in (("later.svs", s[3]), ("dangling.svs", folder + "/nowhere.svs"), ("share", folder + "/nowhere"), ("up", "..")):
        os.symlink(target, os.path.join(folder, name))
    for _ in range(2):
        says(local(out, folder, none, status=1).out, "2 of 6 slides converted, 2 processed, 0 to do, 4 failed")
    failed = {os.path.basename(f["slide"])[:4]: f["reason"] for f in status_of(out, 1)["failed"]}
    for name, words in (("dang", "dangling link to " + folder + "/nowhere.svs"), ("two\n", "a line break; rename"),
                        ("shar", "dangling link to " + folder + "/nowhere"), ("none", "without slides")):
        says(failed[name], words)
    equal(content(out + "/corpus.h5"), direct(direct_stores(out)), "the others")
    os.rmdir(none)
    for name in ("share", "dangling.svs", "later.svs"):
        os.unlink(os.path.join(folder, name))
    os.symlink(folder + "/nowhere", folder + "/later.svs")  # its target is gone after it was converted
    os.rename(folder + "/two\nlines.svs", folder + "/lines.svs")
    says(local(out, folder).out, "3 of 3 slides converted, 3 processed, 0 to do, 0 f")


def of_resolutions(*mpp):
    """Slides a, b, c with these um/px."""
    return {"abcd"[k] + ".svs": made("--size", "600x700", "--seed", str(k + 1), "--mpp", value, name="abcd"[k]) for k, value in enumerate(mpp)}


def test_slides_of_different_resolution_are_kept_apart():
    folder, out = begun(of_resolutions("0.5", "0.25", "0.26", "none"))
    results = lambda out: {os.path.basename(f): slides_in(f) for f in glob.glob(out + "/*.h5")}
    apart = {"corpus-0.5um.h5": ["a"], "corpus-0.25um.h5": ["b", "c"], "corpus-unknown-um.h5": ["d"]}
    expect(results(out) == apart, "%s", results(out))
    p = local(out, folder)
    says(p.err, "nothing to do")
    says(p.out, "different resolutions", "corpus-0.25um.h5: 2 slides of 0.25 um/px\n", "1 slide of unknown resolution")
    st = status_of(out)
    merged = [(os.path.basename(m["file"]), m["slides"], m["current"], m["um_per_px"]) for m in st["merged"]]
    expect(merged == [("corpus-0.25um.h5", 2, True, 0.25), ("corpus-0.5um.h5", 1, True, 0.5), ("corpus-unknown-um.h5", 1, True, None)], "%s", merged)
    expect(st["kept_apart"] and st["corpus"] is None and os.path.getsize(out + "/report.html") > 1000, "%s", st)
    same = new_out()
    for name, files in (("b", {"corpus.h5": ["b"]}), ("c", {"corpus.h5": ["b", "c"]}),
                        ("a", {"corpus-0.25um.h5": ["b", "c"], "corpus-0.5um.h5": ["a"]})):
        local(same, "%s/%s.svs" % (folder, name))
        expect(results(same) == files, "%s: %s", name, os.listdir(same))
    _, pooled = begun(of_resolutions("0.5", "0.25"), "--h5spec", "--mix-mpp")
    expect(results(pooled) == {"corpus.h5": ["a", "b"]} and not glob.glob(pooled + "/*/failed.csv"), "pooled: %s", os.listdir(pooled))


def test_slides_and_stores_that_were_replaced_by_older_files_are_done_again():
    s = slides(3)
    folder, out = begun({"x.svs": s[0], "y.svs": s[1]})
    other, before = new_out(), times_of(out)
    local(other, "--stores", out + "/stores", "--h5spec", "--taper hann", folder)
    replaced(folder + "/x.svs", s[2], 10 ** 9)
    expect(status_of(out, 5)["to_do"] == [{"slide": folder + "/x.svs", "stage": "convert"}], "%s", status_of(out, 5))
    local(out, folder)
    equal(content(out + "/corpus.h5"), direct(direct_stores(out)), "the new slide")
    (j,), (k,) = (json_lines(run(H5SPEC, "info", "--json", path).out) for path in (out + "/corpus.h5", spectrum(store(s[2]))))
    expect(j["slides"][0]["mean_db"] == k["slides"][0]["mean_db"], "the numbers are those of the old slide")
    expect(times_of(out)[out + "/results/y.h5"] == before[out + "/results/y.h5"], "the other slide was processed again")
    says(local(out, folder).err, "nothing to do")
    os.utime(folder + "/x.svs")  # a newer time alone: wsi2h5 decides, and once
    local(out, folder)
    says(local(out, folder).err, "nothing to do")
    os.utime(out + "/stores/x.h5", (10 ** 9, 10 ** 9))
    expect(len(status_of(other, 5)["to_do"]) == 1, "the result is that of a store that is gone")
    for slide in glob.glob(folder + "/*"):
        os.utime(slide, (2 ** 31 - 1, 2 ** 31 - 1))  # later than all that is made from them: a clock was set back
    for words in ("2 of 2 slides converted, 2 processed, 0 to do, 0 failed", "nothing to do"):
        p = local(out, folder)
        says(p.out + p.err, words)


def test_slides_with_the_same_name_in_different_folders():
    s, names = slides(4), ["%s/slide.svs" % d for d in "abc"]
    folder, out = begun(dict(zip(names, s)), "--wsi2h5", GROUPS)
    paths = [os.path.join(folder, name) for name in names]
    says(local(out, folder).err, "nothing to do")
    equal(content(out + "/corpus.h5"), direct([out + "/stores/%s.h5" % n for n in ("slide", "slide-2", "slide-3")]), "all three")
    rows = [line.split("\t") for line in open(out + "/names.txt").read().splitlines()]
    expect(rows == [["slide", paths[0]], ["slide-2", paths[1]], ["slide-3", paths[2]]], "%s", rows)
    open(paths[1], "w").close()  # a failure names the slide, and nothing else is affected
    shutil.copy(s[3], folder + "/a/slide-2.svs")
    local(out, folder, status=1)
    st = status_of(out, 1)
    (bad,) = st["failed"]
    expect(bad["slide"] == paths[1] and "empty" in bad["reason"] and st["slides"] == 4 and st["processed"] == 3, "%s", st)
    other = new_out()  # the names go with the stores
    local(other, "--stores", out + "/stores", "--wsi2h5", GROUPS, "--tasks", "2", paths[2], paths[0])
    expect(sorted(os.listdir(other + "/results")) == ["slide-3.h5", "slide.h5"], "%s", os.listdir(other + "/results"))


# --- care for what exists ---

def test_leftovers_of_killed_tasks_are_removed_whichever_way_the_next_run_ends():
    folder, out = begun(slides(2))
    left = ["stores/.s00.h5.host-8-1.part", "stores/.failed.1-of-2.csv.host-7-1.part", "results/.s00.h5.host-7-2.part", ".corpus.h5.host-7-2.part",
            ".names.txt.%s-4194301-1.part" % re.sub("[-/.]", "_", os.uname().nodename), ".report.html.host-1-1.part"]
    mine = ["report.scanner2.csv", "notes.new", ".hidden.h5", ".x.part", "corpus-old.h5", "results/x.new", "stores/.mine.part", "stores/failed.mine.csv",
            "stores/failed.claimed-by-me.csv", "corpus-0.25um.h5", "my.partial", "logs/mine.txt", ".a.b-c-1.part"]
    for name in mine:
        put_file(os.path.join(out, name), "the user's own")
    page = out + "/report.html"  # h5spec may be built without libpng
    has_page = os.path.exists(page)
    for lost, options, message in ((False, [], "nothing to do"), (True, [], ""), (False, [tmp("none")], "nothing to do"),
                                   (False, ["/nowhere.svs"], "run 2: 1 slide to convert")):
        for name in left:
            open(os.path.join(out, name), "w").close()
            os.utime(os.path.join(out, name), (time.time() - 2 * 86400,) * 2)  # as other hosts' are kept for a day
        if has_page and lost:  # the run before was killed while it wrote the page
            os.unlink(page)
        says(local(out, folder, *options, status=None).err, message)
        remains = [n for n in left if os.path.exists(os.path.join(out, n))]
        expect(remains == [] and os.path.exists(page) == has_page, "%s: %s", options, remains)
        gone = [n for n in mine if not os.path.exists(os.path.join(out, n))]
        expect(gone == [], "%s of the user went", gone)


def test_status_looks_at_three_files_per_slide():
    folder, out = begun(slides(12, "300x300"))
    state, status, real, calls = library("state"), library("status"), os.stat, []
    try:
        os.stat = lambda path, *a, **k: calls.append(str(path)) or real(path, *a, **k)
        st = status.status_of(state.Corpus(out), 0)
    finally:
        os.stat = real
    of_slides = [p for p in calls if p.endswith((".svs", ".h5")) and "corpus" not in os.path.basename(p)]
    expect(st["states"]["done"] == 12 and len(of_slides) == 36, "%d calls of stat for 12 slides", len(of_slides))
    expect(len(calls) - len(of_slides) < 20, "%d other calls", len(calls) - len(of_slides))
    reasons = ("/x y/a.svs: no", "/x y/a.svs to /out a/a.h5: no", "no")
    expect(all(status.bare_reason({"slide": "/x y/a.svs", "reason": r}) == "no" for r in reasons), "a reason repeats its slide")


def test_a_withdrawn_slide_leaves_nothing_and_stays_out():
    """Also where corpus.h5 is a table, as of very many slides."""
    for env in (TOOLS, dict(TOOLS, H5SPEC=TABLES)):
        folder = folder_with(dict(zip(("anna.svs", "bert.svs", "carl.svs"), slides(4))))
        out = new_out()
        local(out, folder, env=env)
        shutil.copy(slides(4)[3], folder + "/dora.svs")
        says(local(out, folder, env=env).out, "4 of 4 slides converted, 4 processed")
        expect(slides_in(out + "/corpus.h5") == ["anna", "bert", "carl", "dora"], "%s", slides_in(out + "/corpus.h5"))
        run(H5SPEC, "verify", out + "/corpus.h5")
        says(corpus("remove", "-o", out, "nobody", status=1).err, "nobody: not a slide of this corpus")
        says(corpus("remove", "-o", out, folder + "/bert.svs", "carl", env=env).err, "2 slides removed", "not reached: ", "backups")
        for path in [os.path.join(folder, name) for folder, _, names in os.walk(out) for name in names]:
            data = os.fsencode(path) + open(path, "rb").read()
            expect(b"bert" not in data and b"carl" not in data, "a name is in %s", path)
        st = status_of(out, 0)
        expect(st["slides"] == 2 and st["withdrawn"] == 2 and st["corpus"]["slides"] == 2 and st["corpus"]["current"], "%s", st)
        with h5py.File(out + "/corpus.h5", "r") as f:
            expect(("table" in f) == (env != TOOLS), "a table")
            expect(f["histogram"][()].tobytes() == direct([out + "/stores/anna.h5", out + "/stores/dora.h5"])["/histogram"], "the others")
        shutil.copy(folder + "/bert.svs", folder + "/other.svs")  # a copy under another name
        for _ in range(2):
            p = local(out, folder, env=env)
            expect(status_of(out)["slides"] == 2 and slides_in(out + "/corpus.h5") == ["anna", "dora"], "%s", p.out)
        corpus("remove", "-o", out, "anna", "dora", env=env)
        expect(not glob.glob(out + "/*.h5") and not os.path.exists(out + "/report.html"), "%s", os.listdir(out))


def test_remove_finds_all_that_holds_a_slide():
    """Every row of the list in remove.py, unfinished files, pages of --live; what remains is named, and the status is 1."""
    folder = folder_with(dict(zip(("anna.svs", "bert.svs", "carl.svs", "bert.1-2.svs", "broken.svs"), slides(4, "700x600"))))
    put_file(folder + "/broken.svs", "no slide")
    out = new_out()
    local(out, folder, "--h5spec", "--device cpu --live %s/live" % out, status=1)
    hold, at = library("remove").HOLDS, out + "/stores/bert.h5"
    run(sys.executable, os.path.join(ROOT, "scripts", "wsi-store"), "zarr", at)
    put_file(out + "/stores/bert.ome.zarr/labels", "mine")
    row = "bert.svs,its tiles\n"
    planted = {"stores/.bert.h5.elsewhere-7-1.part": "x", "stores/.bert.ome.zarr.elsewhere-7-1.part": "x", "stores/.bert.ome.zarr.part/zarr.json": "{}",
               "results/bert.1-3.h5": "x", "results/.bert.1-3.h5.elsewhere-7-1.part": "x", "results/.bert.h5.elsewhere-7-1.part": "x",
               "results/corpus.h5.partial": "x" + folder + "/bert.svs", "corpus.h5.partial": "bert.svs", "stores/failed.1-of-2.csv": "slide,reason\n%sx.svs,y\n" % row,
               "results/failed.2-of-2.csv": "slide,reason\n" + row, "logs/1.1.more": folder + "/bert.svs: hm\n"}
    kept = {"stores/.anna.h5.elsewhere-7-1.part": "x", "results/my.h5.partial": "carl.svs", "notes.txt": "albert.svs, bert.svsx"}
    mine = {"notes/about.txt": "see bert.svs", "coords/bert_patches.h5": "x"}
    for name, text in {**planted, **kept, **mine}.items():
        os.makedirs(os.path.dirname(os.path.join(out, name)), exist_ok=True)
        put_file(os.path.join(out, name), text)
    os.link(at, out + "/backup.h5")
    os.symlink(at, out + "/link")
    for where, pattern, how in hold:  # the list has no row that this test does not know
        expect(any(re.fullmatch(os.path.join(where, "(?:%s)" % pattern.replace("{}", "bert")), n) for n in [*planted, "stores/bert.h5", "stores/bert.ome.zarr", "plan.tsv",
                                                                                           "stores/.bert.ome.zarr.part"]), "%s", pattern)
    p = corpus("remove", "-o", out, "bert", status=1)
    there = sorted(n for n in mine) + ["backup.h5", "link", "stores/bert.ome.zarr"]
    for name in there:
        says(p.err, "%s/%s still holds " % (out, name))
    says(p.err, "backup.h5 still holds its pixels", "link still holds its pixels", "about.txt still holds its name")
    left = [n for n in planted if os.path.exists(os.path.join(out, n)) and "bert" in n + text_in(os.path.join(out, n))]
    expect(left == [], "%s", left)
    expect(os.listdir(out + "/stores/bert.ome.zarr") == ["labels"], "%s", os.listdir(out + "/stores/bert.ome.zarr"))
    expect(all(text_in(os.path.join(out, n)) == text for n, text in {**kept, **mine}.items()), "of others")
    expect("x.svs,y" in text_in(out + "/stores/failed.1-of-2.csv"), "other lines")
    expect(os.path.exists(out + "/results/bert.1-2.h5") and os.path.exists(out + "/stores/bert.1-2.h5"), "another slide")
    for name in there:
        path = os.path.join(out, name)
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
    for path in [os.path.join(d, n) for d, _, names in os.walk(out) for n in names]:
        data = os.fsencode(os.path.relpath(path, out)).replace(b"bert.1-2", b"") + open(path, "rb").read().replace(b"bert.1-2", b"")
        expect(not re.search(rb"(?<!al)bert(?!\.svsx)", data), "a name is in %s", path)
    says(corpus("remove", "-o", out, "carl").err, "nothing holds a name, a quickhash or pixels of it")  # 0, although another slide is bad


def test_a_withdrawn_slide_does_not_come_back_through_shared_stores():
    """Other options need another folder, with --stores: what was withdrawn stays out there, and what is withdrawn there goes here."""
    folder = folder_with(dict(zip(("anna.svs", "bert.svs", "carl.svs", "dora.svs"), slides(4, "300x300"))))
    one, two = new_out(), new_out()
    local(one, folder)
    corpus("remove", "-o", one, "bert")
    for _ in range(2):
        p = local(two, "--stores", one + "/stores", "--h5spec", "--taper hann", folder)
        says(p.out, "3 of 3 slides converted, 3 processed")
        expect(sorted(os.listdir(one + "/stores")) == ["anna.h5", "carl.h5", "dora.h5"], "%s", os.listdir(one + "/stores"))
    corpus("remove", "-o", one, "carl")  # after the other one had it
    says(local(two, folder).err, "1 slide withdrawn from a corpus with the same stores, removed")
    corpus("remove", "-o", two, "dora")
    says(local(one, folder).out, "1 of 1 slides converted, 1 processed")
    says(local(two, folder).out, "1 of 1 slides converted, 1 processed")
    for out in (one, two):
        left = [n for _, _, names in os.walk(out) for n in names if n.split(".")[0] in ("bert", "carl", "dora")]
        expect(left == [], "%s", left)


def test_a_lost_finish_is_no_success():
    folder, out = begun(slides(2, "300x300"))
    os.unlink(out + "/corpus.h5")
    st = status_of(out, 5)
    says(" ".join(st["problems"]), "2 processed slides in no merged file", "wsi-corpus finish -o " + out)
    out = new_out()
    corpus("plan", "-o", out, folder)
    for number in ("1", "2"):
        corpus("step", "--batch", number, "-o", out)
    expect(len(status_of(out, 5)["problems"]) == 1, "another engine")
    corpus("finish", "-o", out)
    expect(status_of(out, 0)["problems"] == [], "merged")


def test_what_does_not_change_a_store_makes_no_result_old():
    """An image, a touch and a copy change size or time of a store; content_crc32 is the same."""
    folder, out = begun(slides(2, "700x600"))
    before = {n: os.stat(os.path.join(out, n)).st_mtime_ns for n in ("results/s00.h5", "results/s01.h5", "corpus.h5")}
    store_path = out + "/stores/s00.h5"
    for change in (lambda: os.utime(store_path, (time.time() - 9000,) * 2),
                   lambda: run(sys.executable, os.path.join(ROOT, "scripts", "wsi-store"), "zarr", store_path),
                   lambda: os.utime(store_path), lambda: (shutil.copyfile(store_path, out + "/copy"), os.replace(out + "/copy", store_path))):
        change()
        st = status_of(out, 0)
        expect(st["processed"] == 2 and not st["to_do"] and st["corpus"]["current"], "%s", st)
        corpus("finish", "-o", out)
        says(local(out, folder).err, "nothing to do")
        expect({n: os.stat(os.path.join(out, n)).st_mtime_ns for n in before} == before, "computed again")
    shutil.copy(begun(slides(4, "700x600"))[1] + "/stores/s03.h5", store_path)  # another slide's
    expect(status_of(out, 5)["to_do"], "content that differs")


def test_finish_before_the_last_step_loses_nothing():
    """Another engine may finish at any time, and again."""
    folder = folder_with(dict(zip(("a.svs", "b.svs", "c.svs"), slides(3, "300x300"))))
    put_file(folder + "/z.svs", "bad")
    for early in ((), (1,), (1, 3), (1, 2, 3)):
        out = new_out()
        corpus("plan", "--batch", "1", "-o", out, folder, "--h5spec", "--device cpu")
        for number in (1, 2, 3, 4):
            corpus("step", "--batch", str(number), "-o", out, status=None)
            if number in early:
                corpus("finish", "-o", out, status=5)
        for _ in range(2):
            p = corpus("finish", "-o", out, status=1)
            says(p.out, "3 of 4 slides converted, 3 processed, 0 to do, 1 failed", "z.svs")
            expect("unknown version" not in p.out, "%s", p.out)


def test_images_of_a_corpus():
    """wsi-store zarr makes an image beside each store; it goes when its slide is withdrawn."""
    folder = folder_with(dict(zip(("anna.svs", "bert.svs"), slides(2, "700x600"))))
    out = new_out()
    says(local(out, folder).out, "2 of 2 slides converted, 2 processed")
    run(sys.executable, os.path.join(ROOT, "scripts", "wsi-store"), "zarr", out + "/stores/bert.h5")
    expect(sorted(os.listdir(out + "/stores")) == ["anna.h5", "bert.h5", "bert.ome.zarr"], "%s", os.listdir(out + "/stores"))
    corpus("remove", "-o", out, "bert")
    expect(os.listdir(out + "/stores") == ["anna.h5"], "%s", os.listdir(out + "/stores"))
    says(local(new_out(), folder, "--wsi2h5", "--zarr", status=2).err, "--zarr is no option any more")


def test_moved_slides_are_the_same_slides():
    folder, out = begun(slides(3))
    before, moved = times_of(out), folder + "-moved"
    os.rename(folder, moved)
    says(local(out, moved).err, "nothing to do")
    expect(times_of(out) == before, "made again")
    expect([os.path.dirname(s) for s in open(out + "/names.txt").read().split()[1::2]] == [moved] * 3, "paths")
    os.rename(moved + "/s01.svs", moved + "/renamed.svs")  # known by its quickhash
    p = local(out, moved)
    says(p.err, "s01.svs: moved to " + moved + "/renamed.svs")
    says(p.out, "3 of 3 slides converted, 3 processed, 0 to do, 0 failed")
    expect(slides_in(out + "/corpus.h5") == ["renamed", "s00", "s02"], "%s", slides_in(out + "/corpus.h5"))


def test_a_full_disk_and_a_file_system_that_fails_end_with_a_message():
    """No traceback, nothing counted as missing that may only be unreachable."""
    (slide,), out = slides(1), new_out()
    local(out, slide)
    for limit in (0, 40, 400):  # Python sees EFBIG, as it would see ENOSPC
        for where, given in ((out, slides(2)), (new_out(), slides(1))):
            p = local(where, *given, status=None, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
            expect(p.returncode in (1, 5) and p.err.startswith("corpus: "), "%d: %s", p.returncode, p.err)
    local(out, slide, slides(2)[1])
    equal(content(out + "/corpus.h5"), direct([store(s) for s in slides(2)]), "after the disk was full")
    real = os.stat
    for code, found in ((errno.ESTALE, errno.ESTALE), (errno.EIO, errno.EIO), (errno.ENOENT, "")):
        def failing(path, *a, **k):
            if str(path).endswith("stores/s00.h5"):
                raise OSError(code, os.strerror(code), path)
            return real(path, *a, **k)
        known = library("state").Corpus(out)
        s, os.stat = known.records[0], failing
        try:
            remains = known.now(s).remains
        except OSError as e:
            remains = e.errno
        finally:
            os.stat = real
        expect(remains == found, "errno %d: %s remains", code, remains)


@later("ci")
def test_every_way_of_splitting():
    (given, good), want = good_and_bad(), None
    for options in ([], ["--tasks", "3"], ["--batch", "1"]):
        out = new_out()
        with_bad(out, given, *options)
        check_corpus(out, direct_stores(out))
        want = want or content(out + "/corpus.h5")
        equal(content(out + "/corpus.h5"), want, "corpus %s" % options)
    out = new_out()  # the same by hand, as an engine does it; the last batch never runs
    corpus("plan", "-o", out, "--wsi2h5", GROUPS, "--batch", "5", *given)
    rows = plan_of(out)
    expect(rows[0][0].startswith("# wsi-corpus plan 1, wsi2h5 ") and rows[1][:3] == ["batch", "step", "slide"], "%s", rows[:2])
    expect([row[0] for row in rows[2:]] == ["1"] * 5 + ["2"] * 5 + ["3"] * 2, "%s", rows)
    for batch, status in (("1", 1), ("2", 0)):
        corpus("step", "-o", out, "--batch", batch, status=status)
    says(corpus("finish", "-o", out, status=5).out, "2 to do", "corpus.h5: 8 slides")
    corpus("plan", "-o", out, *given)
    expect([row[1] for row in plan_of(out)[2:]] == ["convert"] * 4, "%s", plan_of(out))
    for batch in "1234":
        corpus("step", "-o", out, "--batch", "auto", env=dict(TOOLS, PBS_ARRAY_INDEX=batch), status=None)
    corpus("finish", "-o", out, status=1)
    check_corpus(out, direct_stores(out))


def test_running_again_does_only_what_is_missing():
    (given, good), out = good_and_bad(), new_out()
    with_bad(out, given)
    times, made_first = times_of(out), os.stat(out + "/corpus.h5").st_mtime_ns
    with_bad(out, given)
    expect(times_of(out) == times and os.stat(out + "/corpus.h5").st_mtime_ns == made_first, "something was done again")
    for name in ("/results/s03.h5", "/stores/s04.h5", "/results/s04.h5", "/stores/s06.h5"):  # that of s06 is not needed
        os.unlink(out + name)
    os.truncate(out + "/stores/s05.h5", 100000)  # damaged later
    with_bad(out, given)
    changed = {os.path.relpath(f, out) for f in times if times_of(out).get(f) != times[f]}
    expect(changed == {"results/s03.h5", "stores/s04.h5", "results/s04.h5", "stores/s05.h5", "results/s05.h5", "stores/s06.h5"}, "%s", changed)
    expect(status_of(out, 1)["processed"] == 8, "processed")
    page = open(out + "/report.html").read()
    expect("s07-2: copy of s07.svs" in page and "<b>1</b> copy, left out" in page and given[0] not in page, "the page names folders")
    says(with_bad(out, given, "--h5spec", "--window 128", status=2).err, "was started with no --h5spec", "--stores")
    other, stores = new_out(), [s for s in direct_stores(out) if "s06" not in s]
    p = local(other, "--stores", out + "/stores", "--wsi2h5", GROUPS, "--h5spec", "--window 128", *[g for g in good if "s06" not in g])
    says(p.err, "0 slides to convert, 7 stores to process")
    equal(content(other + "/corpus.h5"), content(spectrum(stores, "--window", "128")), "other parameters")
    says(with_bad(out, given, "--allow-duplicates").out, "9 of 12 slides converted, 9 processed, 0 to do, 3 failed", "corpus.h5: 9 slides")
    says(with_bad(out, given).out, "corpus.h5: 9 slides")  # later runs keep it so


def test_a_slide_that_crashes_its_program_is_named_and_the_others_are_done():
    (given, good), out, env = good_and_bad(), new_out(), dict(TOOLS, WSI2H5=at_slide("s02.svs", "kill -SEGV $$"))
    for status, state in ((5, "node trouble"), (1, "bad slide")):  # a second crash is no accident
        with_bad(out, given, env=env, status=status)
        st = status_of(out, status)
        (row,) = [f for f in st["failed"] if f["slide"].endswith("s02.svs")]
        expect(st["processed"] == 7 and row["state"] == state, "%s", st)
        says(row["reason"], "signal 11", "SIGSEGV")
    with_bad(out, given)
    check_corpus(out, direct_stores(out))


def test_status_and_cancel_of_a_run_that_goes_on():
    """What is stopped ends soon, and another run does what remains. (Kills and runs begun at one moment: tests/torture.)"""
    large = made("--size", "6000x5000", name="large")
    folder, out, options = folder_with({"a.svs": slides()[0], "bad.svs": os.devnull, "large.svs": large}), new_out(), ["--wsi2h5", "--codec deflate -j 1"]
    p = subprocess.Popen([sys.executable, CORPUS, "run", "--scheduler", "local", "--batch", "1", "-o", out, *options, folder],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ, **TOOLS))
    while not glob.glob(out + "/stores/.large*.part") and p.poll() is None:
        time.sleep(0.01)
    st = status_of(out, 1)
    expect((st["active_tasks"], st["processed"], len(st["failed"]), len(st["to_do"])) == (1, 1, 1, 1), "%s", st)
    says(local(out, *options, folder, status=1).err, "a run is in progress")
    corpus("cancel", "-o", out)
    sent = time.time()
    expect(p.wait(TIMEOUT) == 3 and (SAN or time.time() - sent < 5), "status %d, %.1f s to stop", p.returncode, time.time() - sent)
    expect(not glob.glob(out + "/stores/.*"), "left %s", os.listdir(out + "/stores"))
    says(corpus("cancel", "-o", out).err, "nothing is running")
    st = status_of(out, 5)
    expect({os.path.basename(f["slide"]): f["state"] for f in st["failed"]}.get("bad.svs") == "bad slide" and st["processed"] == 1, "%s", st)
    says(corpus("status", "-o", out, "--watch", status=5).out, "1 of 3 slides converted")
    os.unlink(folder + "/bad.svs")
    local(out, *options, folder, status=1)
    st = status_of(out, 1)
    expect(st["to_do"] == [] and st["processed"] == 2 and len(st["failed"]) == 1, "%s", st)
    says(st["failed"][0]["reason"], "no such")
    expect(st["corpus"] == {"file": out + "/corpus.h5", "slides": 2, "current": True}, "%s", st["corpus"])
    equal(content(out + "/corpus.h5"), direct(direct_stores(out)), "the corpus")


def test_any_changed_file_of_a_slide_with_several_is_noticed():
    folder, of = folder_with(dict.fromkeys(("a.dcm", "level1.DCM", "m.mrxs", "m/Data0001.dat", "v.vms", "v(1,0).jpg"), os.devnull)), library("state").Files
    for slide, part in (("/a.dcm", "/level1.DCM"), ("/m.mrxs", "/m/Data0001.dat"), ("/v.vms", "/v(1,0).jpg")):
        state = lambda: of().of(folder + slide, os.stat(folder + slide))
        before = state()
        expect(state() == before, slide)
        os.utime(folder + part, (10 ** 9, 10 ** 9))
        expect(state() != before, "%s was touched", part)


def test_damaged_results_are_computed_again():
    out = new_out()
    local(out, *slides(3))
    want, path = content(out + "/corpus.h5"), out + "/results/s01.h5"

    def flip():
        with h5py.File(path, "r") as f:
            at = f["slides/s01/window_mean_db"].id.get_offset() + 5
        shutil.copyfile(flipped(path, at), path)
    flip()
    expect(status_of(out, 5)["to_do"] == [{"slide": slides(3)[1], "stage": "process"}], "%s", status_of(out, 5))
    says(local(out, *slides(3)).err, "s01.h5 is damaged, computed again", "window_mean_db")
    equal(content(out + "/corpus.h5"), want, "the repaired corpus")
    os.utime(path)  # touched, but whole: it is read, and counts
    says(local(out, *slides(3)).err, "0 slides to convert, 0 stores to process")
    before = os.stat(path)
    flip()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as a failing disk does it
    os.unlink(out + "/corpus.h5")
    says(local(out, *slides(3), status=5).out, "the result is damaged", "run again")
    local(out, *slides(3))
    equal(content(out + "/corpus.h5"), want, "the repaired corpus")


ODD = ["b\x1b[31m", "b\u202e", "b\u200e", os.fsdecode(b"b\xff\xfe"), "b: x", "a.h5: slide b: rejected: it", "a.h5 of x.h5 and a.h5 of y.h5 are the same slide",
       "\u05e9\u200e", 'b"\\', "$(b)'", " b "]


def merged_in(out):
    """{slide: um per px} of all merged files."""
    return {s["slide"]: s["mpp_x"] for path in glob.glob(glob.escape(out) + "/corpus*.h5")
            for s in json_lines(run(H5SPEC, "info", "--json", path).out)[0]["slides"]}


@later("ci")
def test_names_that_messages_show_otherwise_and_long_paths():
    """What was merged was read from messages, which show some characters as others, end after 1,023 bytes, and hold what looks like other messages."""
    for out in (new_out(), os.path.join(tmp(), *["x" * 200] * 3, "out"), os.path.join(tmp(), *["x" * 200] * 9, "out")):
        folder = folder_with(of_resolutions("0.5", "0.25"))
        for k, name in enumerate(ODD):
            shutil.copy(made("--size", "600x500", "--mpp", "0.25", "--seed", str(k + 50), name="odd"), os.path.join(folder, name + ".svs"))
            shutil.copy(folder + "/a.svs", os.path.join(folder, name + " copy.svs"))
        local(out, folder)
        st = status_of(out, 0)
        copies = {os.path.basename(f["slide"]) for f in st["copies"]}
        all_a = {"a"} | {n + " copy" for n in ODD}
        found = merged_in(out)
        expect({n: um for n, um in found.items() if n not in all_a} == {"b": 0.25, **{n: 0.25 for n in ODD}}, "%s", found)
        expect([um for n, um in found.items() if n in all_a] == [0.5], "%s", found)
        expect(len(copies) == len(ODD) and st["processed"] == sum(m["slides"] for m in st["merged"]) == len(found), "%s", st)
        says(local(out, folder).err, "nothing to do")


def test_a_carriage_return_in_a_name():
    """wsi-corpus took it for a line break and listed the slide nowhere. It rejects such names now, as those with a line break."""
    names = "b\rc", "b\nc"
    folder, out = folder_with({"a.svs": slides(1)[0], **{name + ".svs": slides(2)[1] for name in names}}), new_out()
    p = local(out, folder, status=1)
    expect("quote" not in p.err and slides_in(out + "/corpus.h5") == ["a"], "%s", p.err)
    found = {os.path.basename(f["slide"]): f["reason"] for f in status_of(out, 1)["failed"]}
    expect(found.keys() == {name + ".svs" for name in names}, "%s", found)
    says(found["b\rc.svs"], "carriage return", "rename the file")


def test_a_signal_in_the_first_moments_is_a_stop():
    for number in (signal.SIGTERM, signal.SIGHUP):
        p = subprocess.Popen([sys.executable, os.path.join(ROOT, "scripts/corpus"), "plan", "-o", new_out(), *slides(1)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
        wait_until_caught(p, number)
        p.send_signal(number)
        err = p.communicate(timeout=TIMEOUT)[1]
        expect(p.returncode == 3 and "Traceback" not in err, "signal %d: status %d: %s", number, p.returncode, err)


def test_a_damaged_result_is_found_by_its_path():
    """A slide with ": " in its name blocked the corpus for ever."""
    for name in ("b: x", "b", os.fsdecode(b"b\xff")):
        folder, out = folder_with({"a.svs": slides(1)[0], name + ".svs": slides(2)[1]}), new_out()
        local(out, folder)
        path = os.path.join(out, "results", name + ".h5")
        before = os.stat(path)
        shutil.move(flipped_in(path, os.fsencode("slides/%s/histogram" % name)), path)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        os.unlink(out + "/corpus.h5")
        says(local(out, folder, status=5).out, "1 failed", "the result is damaged")
        local(out, folder)
        expect(status_of(out)["corpus"] == {"file": out + "/corpus.h5", "slides": 2, "current": True}, "%s", name)


def test_a_merged_file_with_another_count_is_named():
    folder, out = begun(slides(2))
    settings = json.load(open(out + "/corpus.json"))
    settings["merged"]["corpus.h5"]["slides"] = 1
    json.dump(settings, open(out + "/corpus.json", "w"))
    says(corpus("status", "-o", out, status=5).out, "problem: the merged files hold 1 slide, but 2 were processed; run again")
    local(out, folder)
    expect(status_of(out)["corpus"]["slides"] == 2, "merged again")
    lost = wrapper('[ "$1" = merge ] || exec %s "$@"\n%s "$@" | sed "s/s01[.]h5/elsewhere/"' % (H5SPEC, H5SPEC))
    os.unlink(out + "/corpus.h5")
    says(local(out, folder, env=dict(TOOLS, H5SPEC=lost), status=5).out, "problem: 1 result in no merged file, such as %s/results/s01.h5" % out)


def test_stores_may_be_thrown_away():
    folder, out = begun(slides(3), "--discard-stores")
    want = content(out + "/corpus.h5")
    expect(os.listdir(out + "/stores") == [], "%s", os.listdir(out + "/stores"))
    says(local(out, folder).err, "nothing to do")
    os.unlink(out + "/records.jsonl")  # results alone tell
    says(corpus("status", "-o", out, status=None).out, "3 of 3 slides converted, 3 processed, 0 to do")
    replaced(folder + "/s00.svs", slides(4)[3], 10 ** 9 * 2)
    local(out, folder)
    expect(content(out + "/corpus.h5") != want and os.listdir(out + "/stores") == [], "the new slide")


def test_options_and_versions_that_change_half_way():
    folder, out, names = folder_with(of_resolutions("0.5", "0.25")), new_out(), os.path.join(tmp(), "list")
    older = wrapper('[ "$1" != --version ] || { echo "h5spec 0.0.9 (old)"; exit 0; }\nexec %s "$@"' % H5SPEC)
    local(out, folder + "/a.svs", env=dict(TOOLS, H5SPEC=older))
    says(plan_of(out)[0][0], "h5spec 0.0.9")
    says(local(out, folder).out, "made by different versions: 1 slide by wsi2h5", "h5spec 0.0.9, 1 slide by",
         "; run --renew makes older results again", "corpus-0.25um.h5")
    for options in (["--h5spec", "--window 128"], ["--wsi2h5", "--codec deflate"], ["--stores", tmp()]):
        says(local(out, *options, folder, status=2).err, "was started with")
    says(local(out, folder).err, "1 result made by other versions than wsi2h5", "; --renew makes them again", "nothing to do")
    p = local(out, "--renew", folder)
    says(p.err, "1 slide to convert")
    expect("versions" not in p.out + p.err, p.out)
    # b has a wrong resolution: an option for it alone
    open(names, "w").write("%s/a.svs\n%s/b.svs\t--mpp-override 0.5\n" % (folder, folder))
    says(local(out, "--list", names).err, "1 slide to convert")
    expect([row[6:8] for row in plan_of(out)[2:]] == [["--mpp-override 0.5", "store"]], "%s", plan_of(out))
    expect(slides_in(out + "/corpus.h5") == ["a", "b"] and not os.path.exists(out + "/corpus-0.25um.h5"), "%s", os.listdir(out))
    says(local(out, folder).err, "nothing to do")  # it is remembered
    open(names, "w").write("%s/b.svs\t--nonsense\n" % folder)
    says(local(out, "--list", names, status=2).err, "--nonsense")


def test_damaged_state_and_lists_are_named():
    out, names = new_out(), os.path.join(tmp(), "list")
    local(out, *slides(2))
    for text in ("[]", '{"slide": 5}', "{", "5\n", '"x"', '{"slide": "x", "tried": 1}', "\0\0"):
        open(out + "/records.jsonl", "w").write(text + "\n")
        p = corpus("status", "-o", out, status=None)
        says(p.err, out + "/records.jsonl: damaged", "only a cache")
        says(p.out, "2 of 2 slides converted, 2 processed")
    says(local(out, *slides(2)).out, "corpus.h5: 2 slides\n")
    for text in ("[]", "{", '{"run": 5}', '{"wsi2h5": {}}', "null"):
        open(out + "/corpus.json", "w").write(text)
        p = corpus("status", "-o", out, status=1)
        expect(p.err == "corpus: %s/corpus.json: damaged; delete it and give the options of the corpus again; finished files are kept\n" % out, p.err)
    os.unlink(out + "/corpus.json")
    local(out, *slides(2))
    for name, encoding, status, words in ((names, "utf-16", 1, [names, "save it as UTF-8"]), (names, "utf-8-sig", 0, ["nothing to do"]),
                                          (names + "x", "utf-8", 1, ["cannot read the list"])):
        open(names, "w", encoding=encoding).write(slides(1)[0] + "\r\n")
        says(local(out, "--list", name, status=status).err, *words)


def test_a_full_results_disk_is_one_attempt_and_named():
    calls, out = os.path.join(tmp(), "calls"), new_out()
    line = '{"input": "$store", "kind": "store", "status": "failed", "message": "/r/x.h5: no space left on the disk; free some and run again", "cause": "trouble", "detail": "disk"}'
    full = at_work(H5SPEC, '[ $1 != run ] || { echo call >>%s; read -r store; echo "%s"; exit 5; }' % (calls, line.replace('"', '\\"')))
    p = local(out, "--batch", "1", *slides(4), env=dict(TOOLS, H5SPEC=full), status=5)
    says(p.out, "0 processed, 3 to do, 1 failed", "node trouble (process): 1 slide", "/r/x.h5: no space left on the disk")
    expect(open(calls).read() == "call\n", "%s calls", open(calls).read().count("call"))


# --- the contract for workflow engines (scripts/ENGINES.md) ---

def test_exit_statuses_and_json_lines_are_those_of_the_contract():
    text = open(os.path.join(ROOT, "scripts", "ENGINES.md")).read()
    expect(re.findall(r"^\| (\d+|128 \+ N) \| ", text, re.M) == ["0", "1", "2", "3", "4", "5", "128 + N"], "the table")
    fields = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*) \|", text, re.M))))
    expect({"status", "cause", "message", "seconds", "host", "time"} <= fields, "%s", fields)
    (good,), bad, broken = slides(1), os.path.join(tmp(), "bad.svs"), os.path.join(tmp(), "broken.h5")
    hurt, stores = made("--size", "600x500", "--garbage", "1,1", name="hurt"), store(good)
    trouble = ["sh", "-c", 'ulimit -n 5; exec "$0" "$@"']  # of the machine: a limit of open files that is soon reached
    open(bad, "w").close()
    open(broken, "w").write("no store")
    for argv, status, state, cause in (
            ([WSI2H5, good], 0, "done", None), ([WSI2H5, bad], 1, "failed", "input"), ([WSI2H5, "--nonsense"], 2, None, None),
            ([WSI2H5, hurt], 4, "damaged", None), ([WSI2H5, "--accept-damage", hurt], 0, "damaged", None),
            ([WSI2H5, "--on-damage", "fail", hurt], 1, "failed", "input"), ([WSI2H5, hurt, bad], 1, "damaged", None),
            (trouble + [WSI2H5, good], 5, "failed", "trouble"), (trouble + [WSI2H5, good, bad], 5, "failed", "trouble"),
            ([H5SPEC, "run", stores], 0, "done", None), ([H5SPEC, "run", broken], 1, "failed", "input"),
            (trouble + [H5SPEC, "run", stores], 5, "failed", "trouble"), ([H5SPEC, "run", "--nonsense"], 2, None, None)):
        p = run(*argv, "--json", "-o", tmp(), status=status, env=dict(os.environ))
        lines = json_lines(p.out)
        expect([j["status"] for j in lines][:1] == ([state] if state else []), "%s: %s", argv, p.out)
        for j in lines:
            expect(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", j["time"]) and j["host"], "%s", j)
            expect(("cause" in j) == (j["status"] == "failed"), "%s", j)
        expect(not cause or lines[0]["cause"] == cause, "%s: %s", argv, lines)
    for given, status in (([good], 0), ([bad], 1), ([good, bad], 1), ([good, hurt], 4)):
        out = new_out()
        says(local(out, *given, status=status).out, "%d of %d slides converted" % (len(given) - (bad in given), len(given)))
        expect(os.path.exists(out + "/corpus.h5") == (good in given), "%s: an empty corpus.h5, or none", given)


# --- an imitation of Slurm: it records what is submitted, and with nodes it runs the jobs at once, one after the other ---

SBATCH = r"""
import json, os, re, subprocess, sys
folder, refuse, nodes, sick = %r
argv, options = sys.argv[1:], {}
if refuse and refuse in " ".join(argv):
    sys.exit("sbatch: error: invalid partition specified: nowhere")
with open(folder + "/noted", "a") as f:
    f.write(json.dumps(argv) + "\n")
number = sum(1 for _ in open(folder + "/noted"))
while argv:
    name, _, value = argv.pop(0).partition("=")
    options[name] = argv.pop(0) if name in ("--wrap", "-c", "-x") else value
left = [n for n in nodes if n not in options.get("--exclude", "").split(",")]
for t in (range(1, int(re.findall(r"\d+", options["--array"])[1]) + 1) if "--array" in options else [None]) if nodes else ():
    node = left[(t or 0) %% len(left)]
    env = dict(os.environ, SLURMD_NODENAME=node, SLURM_CPUS_PER_TASK="1", SLURM_MEM_PER_CPU=options.get("--mem-per-cpu", "")[:-1])
    env.update({"SLURM_ARRAY_TASK_ID": str(t)} if t else {})
    state = sick.get(node, "") if t else ""
    if not state or state.startswith("TIMEOUT"):
        with open(options["--output"].replace("%%a", str(t)), "a") as out:
            code = subprocess.call(["sh", "-c", options["--wrap"]], stdout=out, stderr=out, env=dict(env, HANGS="1") if state else env)
        state = state or ("COMPLETED|0:0" if code == 0 else "FAILED|%%d:0" %% code if code > 0 else "FAILED|0:%%d" %% -code)
        if os.path.exists(folder + "/oom"):
            os.unlink(folder + "/oom")
            state = "OUT_OF_MEMORY|0:125"
    with open(folder + "/ends", "a") as f:
        f.write("%%d%%s|%%s|%%s\n" %% (number, "_%%d" %% t if t else "", state, node))
print(number)
"""
SACCT = """import sys
ids = sys.argv[sys.argv.index("-j") + 1].split(",")
print("".join(line for line in open(%r) if line.split("_")[0].split("|")[0] in ids), end="")
"""


class Slurm:
    """Its commands, in PATH with .env; `sick`: {node: how its tasks end}; they do not begin, except those of TIMEOUT."""

    def __init__(self, refuse="", runs=False, sick=()):
        nodes = ["n1", "n2", "n3", "n4"] if runs else []
        self.folder = tmp("slurm")
        self.noted = os.path.join(self.folder, "noted")
        for name, text in (("sbatch", SBATCH % ((self.folder, refuse, nodes, dict(sick)),)), ("sacct", SACCT % (self.folder + "/ends")),
                           ("sinfo", "print(%r)" % "\n".join(nodes)), ("squeue", ""), ("scontrol", ""),
                           ("scancel", "import sys\nopen(%r, 'a').write('\\n'.join(sys.argv[1:] + ['']))" % (self.folder + "/cancelled"))):
            self.command(name, text)
        self.env = dict(TOOLS, PATH=self.folder + os.pathsep + os.environ["PATH"])

    def command(self, name, text):
        os.rename(wrapper("#!%s\n%s" % (sys.executable, text)), os.path.join(self.folder, name))

    def submitted(self, kind=""):
        """The arguments of the jobs of one kind, or of all."""
        return [argv for argv in map(json.loads, open(self.noted)) if [a for a in argv if a.startswith("--job-name=corpus-" + kind)]]

    def corpus(self, command, out, *argv, status=0, **env):
        argv = ["--scheduler", "slurm", *argv] if command == "run" else argv
        return corpus(command, "-o", out, *argv, env=dict(self.env, **env), status=status)


def test_parts_of_an_array_job_over_groups_become_results():
    """finish and run join them; what is incomplete, older than its store, or another slide's result stays."""
    given, out = {name + ".svs": s for name, s in zip(("a", "b", "c", "a.9-9"), slides())}, new_out()
    local(out, "--h5spec", "--sigma 0", "--wsi2h5", GROUPS + " --codec none", folder_with(given))
    whole = content(out + "/corpus.h5")
    results = out + "/results/"

    def parts(tasks, *names):
        for name in names:
            os.unlink(results + name + ".h5")
            for k in range(tasks):
                run(H5SPEC, "run", "-q", "--device", "cpu", "--sigma", "0", "--task", "%d/%d" % (k + 1, tasks), "--by", "group", "-o", results,
                    out + "/stores/" + name + ".h5")
    for command in (["finish"], ["run", "--scheduler", "local"]):
        parts(4, "a", "b")
        p = corpus(*command, "-o", out)
        expect("not joined" not in p.err and "to process, in 1" not in p.err, "%s", p.err)
        expect(sorted(os.listdir(results)) == sorted(n[:-3] + "h5" for n in given), "%s", os.listdir(results))
        expect(content(out + "/corpus.h5") == whole and status_of(out, 0)["processed"] == 4, "%s", p.err)
    parts(2, "a", "b")
    os.unlink(results + "a.3-4.h5")
    os.utime(results + "b.1-2.h5", (1, 1))
    says(corpus("finish", "-o", out, status=5).err, "a: parts of its result are not joined", "groups 3-4 of 4 are missing", "b: parts of its result are older than its store")
    local(out)  # computes them
    expect(content(out + "/corpus.h5") == whole, "after the run")


@later("ci")
def test_a_task_never_holds_a_gpu_while_it_computes_on_the_cpu():
    (slide,), cuda, cpu = slides(1), h5spec_with("cpu, cuda", usable=True), h5spec_with("cpu")
    for program, options, gres, device in (
            (cuda, [], "gpu:1", "cuda"), (cuda, ["--gpus", "2"], "gpu:2", "cuda"), (cuda, ["--gpus", "0"], "none", "cpu"),
            (cuda, ["--h5spec", "--device cpu"], "none", "cpu"),
            (cuda, ["--h5spec", "--device=cpu"], "none", "cpu"), (cuda, ["--h5spec=--device=cuda:0"], "gpu:1", "cuda:0"),
            (cpu, [], "none", "cpu"), (cpu, ["--gpus", "0"], "none", "cpu")):
        slurm, out = Slurm(), new_out()
        p = slurm.corpus("run", out, *options, slide, H5SPEC=program)
        (argv,) = slurm.submitted("process")
        expect("--gres=" + gres in argv, "%s: %s", options, argv)
        found = json.load(open(out + "/corpus.json"))
        words = " ".join(found["h5spec"] + found["run"]["process"])
        expect(re.findall(r"--device[ =](\S+)", words) == [device], "%s: %s", options, words)
        expect(("built without CUDA" in p.err) == (program == cpu and not options), p.err)
    out = new_out()
    says(Slurm().corpus("run", out, "--gpus", "1", slide, H5SPEC=cpu, status=2).err, "built without CUDA", "--gpus 0")
    says(Slurm().corpus("run", out, "--h5spec=--device=cuda:0", slide, H5SPEC=cpu, status=2).err, "built without CUDA")
    expect(not os.path.exists(out + "/plan.tsv"), "a run was begun")
    says(local(out, "--gpus", "1", "--h5spec", "--device cpu", slide, status=2, env=dict(TOOLS, H5SPEC=cuda)).err, "contradict")


def test_a_gpu_has_eight_cores_where_all_nodes_with_gpus_have_them():
    (slide,), cuda = slides(1), h5spec_with("cpu, cuda")
    for nodes, gpus, cores in ((["16 gpu:h100:2(S:0-1)", "64 (null)"], 1, 8), (["16 gpu:2", "32 gpu:2"], 2, 16), (["16 gpu:4", "32 gpu:4"], 4, 4),
                               (["4 gpu:2", "64 gpu:8"], 1, 4), (["64 (null)"], 1, 4), (["64 gpu:8"], 0, 4)):
        slurm = Slurm()
        slurm.command("sinfo", "print(%r)" % "\n".join(nodes))
        slurm.corpus("run", new_out(), "--gpus", str(gpus), slide, H5SPEC=cuda)
        asked = [w for job in ("convert", "process") for argv in slurm.submitted(job) for w in argv if w.startswith("--cpus-per-task")]
        expect(asked == ["--cpus-per-task=4", "--cpus-per-task=%d" % cores], "%s, %d: %s", nodes, gpus, asked)


def test_a_build_without_cuda_on_a_node_is_no_fault_of_the_slides():
    """h5spec ends with 2 there; the slides are worth another try elsewhere."""
    if "cuda" in re.search("backends: (.*)", run(H5SPEC, "--version").out)[1]:
        raise Skip("this build has CUDA")
    out = new_out()
    p = local(out, "--gpus", "1", *slides(2), env=dict(TOOLS, H5SPEC=h5spec_with("cpu, cuda")), status=5)
    says(p.out, "node trouble", "this build has no CUDA backend")
    expect(status_of(out, 5)["states"]["bad slide"] == 0, "%s", p.out)


def test_submissions_can_be_looked_at_first_and_what_is_refused_is_reported():
    slurm = Slurm()
    p = slurm.corpus("run", new_out(), "--gpus", "0", "--dry-run", *slides(2), "--", "--account=lab")
    expect([line.split()[0] for line in p.out.splitlines()] == ["sbatch"] * 3 and not os.path.exists(slurm.noted), p.out)
    says(p.out, "--array=1-2", "--account=lab", "--dependency=afterany:CONVERT")
    slurm.command("sbatch", "import sys; sys.exit('sbatch: fatal: Could not establish a configuration source')")
    says(slurm.corpus("run", new_out(), "--gpus", "0", *slides(2), status=1).err, "use --scheduler local")
    for kind, jobs in (("convert", []), ("process", ["1\n"])):
        slurm, out = Slurm(refuse="--job-name=corpus-" + kind), new_out()
        says(slurm.corpus("run", out, *slides(3), status=1).err, "Slurm refused the %s job" % kind, "invalid partition", "run again")
        expect([open(f).read() for f in glob.glob(slurm.folder + "/cancelled")] == jobs, "cancelled")
        st = status_of(out, 5, slurm.env)
        expect(len(st["to_do"]) == 3 and st["failed"] == [], "%s", st)
        says(slurm.corpus("status", out, status=5).out, "3 to do, 0 failed", "problem: Slurm refused the %s job" % kind, "invalid partition")


QSTAT = """job-ID  prior   name       user         state submit/start at     queue                          slots ja-task-ID
-----------------------------------------------------------------------------------------------------------------
     10 0.55500 corpus-con ann          r     11/21/2026 10:00:00 all.q@n1                           1 3
     10 0.55500 corpus-con ann          qw    11/21/2026 10:00:00                                    1 7
     11 0.00000 corpus-loo ann          hqw   11/21/2026 10:00:00                                    4
     12 0.00000 other      bob          qw    11/21/2026 10:00:00                                    1 1
     13 0.50000 corpus-con ann          Eqw   11/21/2026 10:00:00                                    1 2
"""


def test_tasks_that_will_never_run_are_named_with_the_remedy():
    slurm, out = Slurm(), new_out()
    slurm.corpus("run", out, "--gpus", "0", *slides(2))
    slurm.command("squeue", "print('1_1|PENDING|launch failed requeued held\\n2_1|PENDING|Dependency\\n3|PENDING|DependencyNeverSatisfied')")
    p = slurm.corpus("status", out)
    says(p.out, "3 tasks queued or running", "problem: task 1_1 waits for ever (launch failed requeued held): scontrol release 1_1", "scancel 3, and run again")
    expect("2_1" not in p.out, p.out)
    engines = library("engines")
    real, engines.question = engines.question, lambda *argv: subprocess.CompletedProcess(argv, argv[1:] != ("-u", "*", "-g", "d"), QSTAT, "")
    n, held = engines.SCHEDULERS["sge"].active(["10", "11", "13"])
    engines.question = real
    expect(n == 4 and held == ["task 2 of job 13 is in an error state: qmod -cj 13"], "%d %s", n, held)


def test_options_of_the_user_are_changed_where_they_are():
    slurm, sge = (library("engines").SCHEDULERS[name] for name in ("slurm", "sge"))
    for function, by, given, want in (
            (slurm.away_from, ["n2"], ["-c", "1", "--exclude=n1"], ["-c", "1", "--exclude=n1,n2"]),
            (slurm.away_from, ["n2"], ["--exclude", "n1"], ["--exclude=n1,n2"]), (slurm.away_from, ["n2"], ["-xn1"], ["--exclude=n1,n2"]),
            (sge.away_from, ["a", "b"], [], ["-l", "hostname=!a&!b"]),
            (sge.away_from, ["a", "b"], ["-l", "gpu=1,h=!x"], ["-l", "gpu=1,h=(!x)&!a&!b"]),
            (sge.away_from, ["a", "b"], ["-l", "hostname=n*"], ["-l", "hostname=(n*)&!a&!b"]),
            (slurm.with_memory, 1, ["--mem=6G"], ["--mem=12G"]), (slurm.with_memory, 2, ["--mem", "500"], ["--mem", "2000"]),
            (slurm.with_memory, 1, ["-c", "4"], ["-c", "4", "--mem-per-cpu=2G"]), (slurm.with_memory, 0, ["-c", "4"], ["-c", "4"]),
            (sge.with_memory, 1, ["-l", "h_vmem=2G,gpu=1"], ["-l", "h_vmem=4G,gpu=1"])):
        got = function(*((by, given) if function.__name__ == "away_from" else (given, by)))
        expect(got == want, "%s: %s", given, got)


def test_a_controller_that_is_away_for_half_an_hour_ends_nothing():
    engines, real = library("engines"), time
    for patience, seconds in ((None, 1800), (600, 600)):
        asked, clock = [], [0.0]

        def squeue():
            asked.append(clock[0])
            if clock[0] < 1800:
                raise engines.Away("squeue: timed out")
            return 7
        engines.time = types.SimpleNamespace(time=lambda: clock[0], sleep=lambda s: clock.append(clock.pop() + s))
        try:
            expect(engines.patient(squeue, patience) == 7 and not patience and 20 < len(asked) < 60, "asked %d times in half an hour", len(asked))
        except engines.Away:
            expect(patience, "no patience")
        finally:
            engines.time = real
        expect(seconds <= clock[0] < seconds + 100, "%g s", clock[0])


def failing_at_first(slurm, name, times, message="Unable to contact slurm controller (connect failure)"):
    """The command fails so often before it works."""
    path, n = os.path.join(slurm.folder, name), os.path.join(tmp(), "n")
    works = os.path.join(tmp(), name)
    os.rename(path, works)
    slurm.command(name, """import os, sys
open(%r, "a").write("x")
if os.path.getsize(%r) <= %d:
    sys.exit(%r)
os.execv(%r, sys.argv)
""" % (n, n, times, name + ": error: " + message, works))


@later("ci")
def test_a_scheduler_that_does_not_answer_is_asked_again():
    slurm, out = Slurm(runs=True), new_out()
    failing_at_first(slurm, "squeue", 2)
    failing_at_first(slurm, "sbatch", 1)
    p = slurm.corpus("run", out, "--gpus", "0", "--wait", *slides(2))
    says(p.err, "the scheduler does not answer, asking again")
    says(p.out, "2 of 2 slides converted, 2 processed")
    expect(len(slurm.submitted("convert")) == 1, "submitted twice")
    failing_at_first(slurm, "squeue", 1)
    says(slurm.corpus("status", out).out, "2 of 2 slides converted, 2 processed", "the scheduler does not answer")
    # the controller took the job, and its answer was lost
    slurm, works = Slurm(runs=True), os.path.join(tmp(), "sbatch")
    os.rename(slurm.folder + "/sbatch", works)
    slurm.command("sbatch", """import subprocess, sys
p = subprocess.run([%r] + sys.argv[1:], stdout=subprocess.PIPE)
comment = [a for a in sys.argv if a.startswith("--comment=")][0].split("=", 1)[1]
open(%r, "a").write(p.stdout.decode().strip() + "|" + comment + "\\n")
sys.exit("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation")
""" % (works, slurm.folder + "/queue"))
    slurm.command("squeue", "import sys\nif '%%F|%%k' in sys.argv: print(open(%r).read())" % (slurm.folder + "/queue"))
    slurm.corpus("run", new_out(), "--gpus", "0", "--wait", *slides(2))
    expect(len(slurm.submitted()) == 3, "jobs: %s", slurm.submitted())


# --- a weekend on a cluster; check_engines.py has it on a real one ---

def weekend(sick=(), status=0, wsi2h5=WSI2H5, options=(), after=(), n=6):
    """A corpus on four nodes. Returns (status, the text of status, what the second run's jobs asked for)."""
    out, slurm = new_out(), Slurm(runs=True, sick=sick)
    slurm.corpus("run", out, "--gpus", "0", *options, folder_with(slides(n)), *(["--", *after] if after else []), WSI2H5=wsi2h5)
    asked = {a for argv in slurm.submitted()[-3:] for a in argv if a.startswith(("--exclude=", "--mem"))}
    return status_of(out, status, slurm.env), slurm.corpus("status", out, status=status).out, asked


HANGS = '[ -z "$HANGS" ] || { kill -%s; sleep 1; exit 3; }'
NO_PROGRAM = wrapper('[ "$SLURMD_NODENAME" != n2 ] || { echo "h5: command not found" >&2; exit 127; }\nexec %s "$@"\n' % WSI2H5)
WEEKEND = (  # what is wrong; sick nodes and the end of their tasks; wsi2h5; options of the user; nodes left out by the second run
    ("lost", {"n2": "FAILED|0:53"}, WSI2H5, [], "n2"), ("node failure", {"n2": "NODE_FAIL|0:0"}, WSI2H5, [], "n2"),
    ("hangs, stopped", {"n2": "TIMEOUT|0:0"}, at_work(WSI2H5, HANGS % "TERM $PPID"), [], "n2"),
    ("hangs, its program is stopped first", {"n2": "TIMEOUT|0:0"},
     at_work(WSI2H5, '[ -z "$HANGS" ] || { (sleep 0.3; kill $PPID) & kill $$; }'), [], "n2"),
    ("hangs, killed", {"n2": "TIMEOUT|0:0"}, at_work(WSI2H5, HANGS % "KILL $PPID"), [], "n2"),
    ("no program", {}, NO_PROGRAM, [], "n2"), ("two of four", {"n1": "FAILED|0:53", "n4": "FAILED|0:53"}, WSI2H5, [], "n1,n4"),
    ("the user's own", {}, NO_PROGRAM, ["--exclude=n1,n4"], "n1,n2,n4"))


@later("ci")
def test_sick_nodes_are_left_out():
    for name, sick, program, after, left_out in WEEKEND:
        st, text, asked = weekend(sick, wsi2h5=program, after=after)
        expect(st["states"]["done"] == 6 and st["run"] == 2 and st["corpus"]["current"], "%s: %s", name, text)
        nodes = {",".join(sorted(a.split("=")[1].split(","))) for a in asked if a.startswith("--exclude")}
        expect(nodes == {left_out}, "%s: %s", name, asked)
    st, text, _ = weekend({"n2": "FAILED|0:53"}, status=5, options=["--retries", "0"])
    says(text, "node trouble (convert): 2 slides on n2: its task left no log (Slurm: FAILED, signal 53)", "node n2: 2 node trouble")
    st, text, _ = weekend(status=5, wsi2h5=at_work(WSI2H5, "exit 3"), n=3)
    expect(st["run"] == 2 and st["states"]["bad slide"] == 0 and st["states"]["interrupted"] == 3, "stopped on two nodes: %s", text)
    says(text, "interrupted (convert): 1 slide on n", "stopped by a signal")


@later("ci")
def test_out_of_memory_is_tried_again_with_more():
    kernel = 'touch "$(dirname "$(command -v sbatch)")/oom"; kill -9 $$'  # ends the program alone
    slurmd = 'echo "slurmstepd: error: StepId=1.batch exceeded memory limit (2 > 1), being killed" >&2; kill -9 $PPID; sleep 1; exit 3'
    for ends, said in ((kernel, "signal 9"), (slurmd, "its task ended without a report")):
        for needs, status in ((2, 0), (4, 1)):
            hungry = at_slide("s02.svs", 'if [ "$SLURM_MEM_PER_CPU" -lt %d ]; then %s; fi' % (needs, ends))
            st, text, asked = weekend(status=status, wsi2h5=hungry, n=3)
            expect(st["run"] == 2 and asked == {"--mem-per-cpu=2G"}, "%s", asked)
            if status:
                says(text, "failed (convert): ", "s02.svs: ", said, "out of memory, also with more")


def test_how_ends_and_failures_are_judged():
    """The table of outcome.py."""
    outcome, state = library("outcome"), library("state")
    for text, what in (("(Slurm: TIMEOUT)", "interrupted"), ("(Slurm: CANCELLED, signal 15)", "interrupted"), ("(Slurm: NODE_FAIL)", "trouble"),
                       ("(Slurm: OUT_OF_MEMORY, signal 9)", "memory"), ("(Slurm: FAILED, exit status 127)", "trouble"),
                       ("(Slurm: FAILED, signal 53, JobLaunchFailure)", "trouble"), ("(Slurm: FAILED, signal 11)", "crash"),
                       ("(Slurm: FAILED, signal 9, JobLaunchFailure)", "interrupted"),
                       ("ended by signal 11 (SIGSEGV)", "crash"), ("(Slurm: PREEMPTED)", "interrupted"), ("No space left on device", "disk"),
                       ("(Grid Engine: failed 0, exit status 1)", "trouble"), ("perhaps killed", "interrupted"),
                       ("(Grid Engine: failed 100 : assumedly after job, exit status 137)", "interrupted")):
        expect(outcome.what_shows(text) == what, "%s: %s, not %s", text, outcome.what_shows(text), what)
    corpus_ = state.Corpus(new_out())
    for failures, wanted in (("", "to do"), ("input n1", "bad slide"), ("trouble n1", "node trouble"), ("trouble n1 trouble n1", "node trouble"),
                             ("trouble n1 trouble n2", "bad slide"), ("interrupted n1", "interrupted"), ("interrupted n1 interrupted n2", "interrupted"),
                             ("interrupted n1 trouble n2", "node trouble"), ("crash n1 crash n1", "bad slide"), ("crash n1", "node trouble"),
                             ("memory n1 memory n2", "bad slide"), ("disk n1 disk n2", "node trouble")):
        r, words = state.Record("/s/a.svs", "a"), failures.split()
        for run_, (what, host) in enumerate(zip(words[::2], words[1::2])):
            r.what, r.stage, r.of = what, "convert", "1:1"
            if what in ("trouble", "crash", "memory"):
                r.tried[str(run_)] = [what, host]
        for files, state_ in (("1:1", wanted), ("2:2", "to do")):  # a slide that was replaced has not failed
            found = outcome.state_of(corpus_, r, state.Now("convert", files, "", "")).state
            expect(found == state_, "%s: %s, not %s", failures, found, state_)


def test_lines_that_a_kill_has_cut_off():
    """A requeued task goes on in the middle of the line at which it was killed."""
    path = os.path.join(tmp(), "log")
    lines = ['{"input": "/s/%s.svs", "kind": "slide", "status": "done", "seconds": 1.0, "host": "n1"}' % n for n in ("cut", "whole", "last", "lost")]
    for joined, found in ((lines[0][:40] + lines[1] + "\n", ["whole"]), (lines[0] + lines[1] + "\n", ["cut", "whole"]),
                          (lines[0] + "\n" + lines[1][:-9] + lines[2] + "\n" + lines[3][:50], ["cut", "last"]),
                          ('"status": "done"}\n' + lines[1] + "\n", ["whole"]), ("\0\0" + lines[2] + "\n", ["last"]), ("[]\n5\n", [])):
        open(path, "w").write(joined)
        seen = [os.path.basename(row["input"])[:-4] for row in library("step").rows_in(path)]
        expect(seen == found, "%r: %s, not %s", joined, seen, found)


main(globals())
