"""Corpora: plans, interrupted runs, kills, sick nodes; on this machine, and with an imitation of Slurm."""
import glob
import random
import re
import signal

import h5py

from corpora import *

random.seed(5)


# --- corpus on this machine ---

BAD = {"cut.svs": "cut.svs: ", "empty.svs": "empty", "gone.svs": "no such", "z/s07.svs": "is the same slide as"}


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
    shutil.copy(good[-1], os.path.join(folder, "z", "s07.svs"))  # a small one: it has a quickhash
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
    """The stores except that of z/s07.svs, which is the same slide as s07."""
    return sorted(set(glob.glob(os.path.join(out, "stores", "*.h5"))) - {os.path.join(out, "stores", "s07-2.h5")})


def with_bad(out, folder, *options, status=1, env=TOOLS):
    return local(out, "--wsi2h5", GROUPS, *options, *begin(folder), status=status, env=env)


def rows_in(table):
    with h5py.File(table, "r") as f:
        return [n.decode() for n in f["table/name"][()]], f["histogram"][()]


def test_local_a_corpus_as_a_table():
    """From so many slides on as h5spec says: here one. Withdrawn slides leave it."""
    folder, out = folder_with(dict(zip(("anna.svs", "bert.svs", "carl.svs", "dora.svs"), slides(4)))), os.path.join(tmp(), "out")
    tables = dict(TOOLS, H5SPEC=wrapper('[ "$1" = merge ] && shift && set -- merge --table-from 1 "$@"\nexec %s "$@"' % H5SPEC))
    run_ = lambda: local(out, folder, env=tables)
    os.rename(folder + "/dora.svs", folder + "/dora")
    run_()
    names, counts = rows_in(out + "/corpus.h5")
    expect(names == ["anna", "bert", "carl"] and os.path.exists(out + "/report.html"), "%s", names)
    os.rename(folder + "/dora", folder + "/dora.svs")
    says(run_().out, "4 of 4 slides converted, 4 processed")
    names, counts = rows_in(out + "/corpus.h5")
    expect(names == ["anna", "bert", "carl", "dora"], "%s", names)
    expect(counts.tobytes() == direct(glob.glob(out + "/stores/*.h5"))["/histogram"], "the sum")
    run(H5SPEC, "verify", out + "/corpus.h5")
    corpus("remove", "-o", out, "bert", env=tables)
    expect(rows_in(out + "/corpus.h5")[0] == ["anna", "carl", "dora"] and b"bert" not in open(out + "/corpus.h5", "rb").read(), "withdrawn")
    expect(status_of(out, 0)["corpus"]["slides"] == 3, "status")


def test_local_changed_regions():
    """A slide whose regions have changed is computed again; one whose file was only written again is not."""
    roi = tmp()

    def draw(name, right):
        with open(os.path.join(roi, name + ".geojson"), "w") as f:
            json.dump({"type": "Polygon", "coordinates": [[[0, 0], [right, 0], [right, 600], [0, 600]]]}, f)

    def state():
        return [(os.stat(path).st_ino, content(path)) for path in (out + "/results/s00.h5", out + "/results/s01.h5")]
    draw("s00", 600)
    draw("s01", 600)
    folder, out = begun(slides(2), "--h5spec", "--roi " + roi)
    first = state()
    draw("s00", 300)
    draw("s01", 600)
    says(corpus("status", "-o", out, status=5).out, "2 to do")
    local(out, folder)
    second = state()
    expect(second[0][1] != first[0][1] and second[1] == first[1], "s00: changed, s01: not")
    says(local(out, folder).err, "nothing to do")


def test_local_nothing_but_bad_slides():
    folder, out = begun({"x.svs": os.devnull}, status=1)
    says(corpus("status", "-o", out, status=1).out, "0 of 1 slides converted", "1 failed", "the file is empty")
    expect(not os.path.exists(out + "/corpus.h5"), "an empty corpus.h5")


def test_reasons_do_not_repeat_the_slide():
    for text in ("/x y/a.svs: no", "/x y/a.svs to /out a/a.h5: no", "no"):
        expect(library("status").bare_reason({"slide": "/x y/a.svs", "reason": text}) == "no", "%s", text)


def kill_corpus(out, folder, env, number, long, times):
    """Kills a local run with its tasks at random moments, then lets one finish."""
    for _ in range(times):
        argv = [sys.executable, CORPUS, "run", "--scheduler", "local", "-o", out, "--tasks", "2", "--wsi2h5", GROUPS]
        p = subprocess.Popen(argv + begin(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env=dict(os.environ, **env), start_new_session=True)
        try:
            p.wait(random.uniform(0.1, long))
        except subprocess.TimeoutExpired:
            killed = time.time()
            if number == signal.SIGKILL:
                os.killpg(p.pid, number)
            else:
                p.send_signal(number)
            p.communicate(timeout=TIMEOUT)
            expect(SAN or time.time() - killed < 5, "%.1f s to stop", time.time() - killed)
            expect(number == signal.SIGKILL or p.returncode in (3, -number, 1), "status %d", p.returncode)
        p.communicate()
    with_bad(out, folder, env=env)


@later("ci")
def test_local_kills_and_signals():
    folder, good = folder_of_slides(s00="3000x2000", s05="2600x2600")
    started = time.time()
    whole = os.path.join(tmp(), "out")
    with_bad(whole, folder)
    long = time.time() - started
    for number in (signal.SIGKILL, signal.SIGTERM, *by_tier((), (), (signal.SIGUSR1, signal.SIGXCPU))):
        out = os.path.join(tmp(), "out")
        kill_corpus(out, folder, TOOLS, number, long, by_tier(2, 2, 6))
        check_corpus(out, direct_stores(out))
        for s in direct_stores(whole):
            twin = os.path.join(out, "stores", os.path.basename(s))
            expect(open(s, "rb").read() == open(twin, "rb").read(), "%s differs", twin)


@later("ci")
def test_local_cancel_and_two_runs_at_once():
    folder, good = folder_of_slides(s00="6000x5000")
    out = os.path.join(tmp(), "out")
    argv = [sys.executable, CORPUS, "run", "--scheduler", "local", "-o", out, "--wsi2h5", GROUPS + " --codec deflate"] + begin(folder)
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, **TOOLS))
    while not glob.glob(out + "/stores/.*.part") and p.poll() is None:
        time.sleep(0.01)
    says(with_bad(out, folder, "--wsi2h5", GROUPS + " --codec deflate").err, "a run is going on")
    expect(status_of(out)["active_tasks"] == 1, "it is not seen")
    corpus("cancel", "-o", out)
    p.communicate(timeout=TIMEOUT)
    expect(p.returncode == 3, "status %d", p.returncode)
    expect(not glob.glob(out + "/stores/.*"), "left %s", os.listdir(out + "/stores"))
    says(corpus("cancel", "-o", out).err, "nothing is running")
    with_bad(out, folder, "--wsi2h5", GROUPS + " --codec deflate")
    check_corpus(out, direct_stores(out))


def test_wrong_use_of_scripts_corpus():
    out = os.path.join(tmp(), "out")
    for argv, word, status in ((["run", "-o", out, "--wsi2h5", "--codec foo", "x.svs"], "--codec foo", 2),
                               (["run", "-o", out, "--h5spec", "--window 100", "x.svs"], "window", 2),
                               (["run", "-o", out, "--wsi2h5", "--keep-tree", "x.svs"], "one folder of stores", 2),
                               (["run", "-o", out, "--wsi2h5", "--anonymous --key k.csv", "x.svs"], "by the names of their slides", 2),
                               (["run", "-o", out], "no slides given", 2), (["status", "-o", out], "not a corpus", 1), (["plan", "-o", out], "no slides given", 2),
                               (["step", "-o", out, "--batch", "1"], "not a corpus", 1),
                               (["run", "-o", out, tmp()], "a folder without slides", 1), ([], "plan | run | step | finish | status | cancel | remove", 2),
                               (["run", "-o", out, "--tasks", "0", "x.svs"], "1 or more", 2)):
        p = corpus(*argv, *(["--scheduler", "local"] if "run" in argv else []), status=status)
        says(p.err, word)
    for name in ([], ["plan"], ["run"], ["status"], ["cancel"], ["remove"], ["step"], ["finish"]):
        says(corpus(*name, "--help").out, "usage: ")


def test_planted_links_are_not_followed():
    """Another user who may write into OUT cannot make a run overwrite a file elsewhere."""
    folder, victim = tmp(), os.path.join(tmp(), "victim")
    open(victim, "w").write("mine")
    path = os.path.join(folder, "corpus.json")
    os.symlink(victim, "%s.%s.%d.new" % (path, os.uname().nodename, os.getpid()))
    library("files").write_whole(path, "{}")
    expect(open(victim).read() == "mine" and open(path).read() == "{}" and not os.path.islink(path), "overwritten")
    for name in ("lock", "logs/1.1.err", "logs/1.1.jsonl"):
        out = os.path.join(tmp(), "out")
        os.makedirs(out + "/logs")
        os.symlink(victim, os.path.join(out, name))
        p = local(out, slides(1)[0], status=1)
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
        local(out, slide)
        os.unlink(out + "/records.jsonl")  # results that nobody has read
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
    _, out = begun(slides(1))
    for options in ([], ["--json"]):
        read, write = os.pipe()
        os.close(read)
        p = subprocess.run([sys.executable, CORPUS, "status", "-o", out, *options], stdout=write, stderr=subprocess.PIPE, timeout=TIMEOUT)
        os.close(write)
        expect(p.returncode == 3 and not p.stderr, "%d %s", p.returncode, p.stderr.decode())


QSTAT = """#!/bin/sh
[ "$*" = "-u * -g d" ] || exit 1
cat <<'END'
job-ID  prior   name       user         state submit/start at     queue                          slots ja-task-ID
-----------------------------------------------------------------------------------------------------------------
     10 0.55500 corpus-con ann          r     11/21/2026 10:00:00 all.q@n1                           1 3
     10 0.55500 corpus-con ann          qw    11/21/2026 10:00:00                                    1 7
     11 0.00000 corpus-loo ann          hqw   11/21/2026 10:00:00                                    4
     12 0.00000 other      bob          qw    11/21/2026 10:00:00                                    1 1
     13 0.50000 corpus-con ann          Eqw   11/21/2026 10:00:00                                    1 2
END
"""


# --- status, progress ---

def test_status_reports_why_the_scheduler_refused():
    for kind, jobs in (("convert", 0), ("process", 1)):
        slurm, out = ImitatedSlurm(refuse="--job-name=corpus-" + kind), os.path.join(tmp(), "out")
        p = corpus("run", "-o", out, "--scheduler", "slurm", *slides(3), env=slurm.env, status=1)
        says(p.err, "Slurm refused the %s job" % kind, "invalid partition", "run again")
        expect(len(slurm.cancelled()) == jobs, "%s", slurm.cancelled())
        st = status_of(out, 5, slurm.env)
        expect(len(st["to_do"]) == 3 and st["failed"] == [], "%s", st)
        says(st["problems"][0], "Slurm refused the %s job" % kind, "invalid partition")
        says(corpus("status", "-o", out, env=slurm.env, status=5).out, "3 to do, 0 failed", "problem: Slurm refused")


# --- inputs ---

def test_inputs_that_cannot_be_used_are_reported_and_counted_once_in_every_run():
    """wsi2h5 searches; check_inputs.py tests that."""
    s = slides(4)
    folder = folder_with({"a.svs": s[0], "two\nlines.svs": s[1], "sub/.hidden.svs": s[2]})
    for name, target in (("later.svs", s[3]), ("dangling.svs", folder + "/nowhere.svs"), ("share", folder + "/nowhere"), ("up", "..")):
        os.symlink(target, os.path.join(folder, name))
    out, none = os.path.join(tmp(), "out"), tmp("none")
    for _ in range(2):
        p = local(out, folder, none, status=1)
        says(p.out, "2 of 6 slides converted, 2 processed, 0 to do, 4 failed")
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
    return {"abcdef"[k] + ".svs": made("--size", "600x700", "--seed", str(k + 1), "--mpp", value, name="abcdef"[k])
            for k, value in enumerate(mpp)}


def test_slides_of_different_resolution_are_kept_apart():
    folder, out = begun(of_resolutions("0.5", "0.25", "0.26", "none"))
    files = {os.path.basename(f): slides_in(f) for f in glob.glob(out + "/corpus*.h5")}
    want = {"corpus-0.5um.h5": ["a"], "corpus-0.25um.h5": ["b", "c"], "corpus-unknown-um.h5": ["d"]}
    expect(files == want, "%s", files)
    p = local(out, folder)
    says(p.err, "nothing to do")
    says(p.out, "different resolutions", "corpus-0.25um.h5: 2 slides of 0.25 um/px\n", "1 slide of unknown resolution")
    st = status_of(out)
    expect({os.path.basename(m["file"]): (m["slides"], m["current"], m["um_per_px"]) for m in st["merged"]} ==
           {"corpus-0.5um.h5": (1, True, 0.5), "corpus-0.25um.h5": (2, True, 0.25),
            "corpus-unknown-um.h5": (1, True, None)} and st["kept_apart"] and st["corpus"] is None, "%s", st)
    expect(os.path.getsize(out + "/report.html") > 1000, "report")
    same = os.path.join(tmp(), "out")
    for name, files in (("b", ["corpus.h5"]), ("c", ["corpus.h5"]), ("a", ["corpus-0.25um.h5", "corpus-0.5um.h5"])):
        local(same, "%s/%s.svs" % (folder, name))
        expect(sorted(os.path.basename(f) for f in glob.glob(same + "/*.h5")) == files, "%s: %s", name, os.listdir(same))
    expect(slides_in(same + "/corpus-0.25um.h5") == ["b", "c"], "one resolution")
    _, pooled = begun(of_resolutions("0.5", "0.25"), "--h5spec", "--mix-mpp")
    expect(slides_in(pooled + "/corpus.h5") == ["a", "b"] and not glob.glob(pooled + "/*/failed.csv"), "pooled: %s", os.listdir(pooled))


def replaced(path, source, seconds):
    """Replaces a file by one of this age, as cp -p and rsync -a do."""
    shutil.copy(source, path + ".new")
    os.utime(path + ".new", (seconds, seconds))
    os.rename(path + ".new", path)


def test_slides_and_stores_that_were_replaced_by_older_files_are_done_again():
    s = slides(3)
    folder, out = begun({"x.svs": s[0], "y.svs": s[1]})
    other = os.path.join(tmp(), "out")
    local(other, "--stores", out + "/stores", "--h5spec", "--taper hann", folder)
    before = os.stat(out + "/results/y.h5").st_mtime_ns
    replaced(folder + "/x.svs", s[2], 10 ** 9)
    st = status_of(out, 5)
    expect([(os.path.basename(row["slide"]), row["stage"]) for row in st["to_do"]] == [("x.svs", "convert")], "%s", st)
    local(out, folder)
    equal(content(out + "/corpus.h5"), direct(direct_stores(out)), "the new slide")
    (j,), (k,) = (json_lines(run(H5SPEC, "info", "--json", path).out) for path in (out + "/corpus.h5", spectrum(store(s[2]))))
    expect(j["slides"][0]["mean_db"] == k["slides"][0]["mean_db"], "the numbers are those of the old slide")
    expect(os.stat(out + "/results/y.h5").st_mtime_ns == before, "the other slide was processed again")
    says(local(out, folder).err, "nothing to do")
    os.utime(folder + "/x.svs")  # a newer time alone: wsi2h5 decides, and once
    local(out, folder)
    says(local(out, folder).err, "nothing to do")
    os.utime(out + "/stores/x.h5", (10 ** 9, 10 ** 9))
    expect(len(status_of(other, 5)["to_do"]) == 1, "the result is that of a store that is gone")


def slides_in(result):
    (j,) = json_lines(run(H5SPEC, "info", "--json", result).out)
    return [s["slide"] for s in j["slides"]]


def test_slides_with_the_same_name_in_different_folders():
    s, names = slides(4), ["%s/slide.svs" % d for d in "abc"]
    folder, out = begun(dict(zip(names, s)), "--wsi2h5", GROUPS)
    paths = [os.path.join(folder, name) for name in names]
    says(local(out, folder).err, "nothing to do")
    expect(sorted(os.listdir(out + "/stores")) == ["slide-2.h5", "slide-3.h5", "slide.h5"], "%s", os.listdir(out + "/stores"))
    equal(content(out + "/corpus.h5"), direct(glob.glob(out + "/stores/*.h5")), "all three")
    rows = [line.split("\t") for line in open(out + "/names.txt").read().splitlines()]
    expect(rows == [["slide", paths[0]], ["slide-2", paths[1]], ["slide-3", paths[2]]], "%s", rows)
    open(paths[1], "w").close()  # a failure names the slide, and nothing else is affected
    shutil.copy(s[3], folder + "/a/slide-2.svs")
    local(out, folder, status=1)
    st = status_of(out, 1)
    (bad,) = st["failed"]
    expect(bad["slide"] == paths[1] and "empty" in bad["reason"] and st["slides"] == 4 and st["processed"] == 3, "%s", st)
    other = os.path.join(tmp(), "other")  # the names go with the stores
    local(other, "--stores", out + "/stores", "--wsi2h5", GROUPS, "--tasks", "2", paths[2], paths[0])
    expect(sorted(os.listdir(other + "/results")) == ["slide-3.h5", "slide.h5"], "%s", os.listdir(other + "/results"))


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


def test_leftovers_of_killed_tasks_are_removed_whichever_way_the_next_run_ends():
    folder, out = begun(slides(2))
    left = ["stores/.s00.h5.1.part", "stores/.failed.1-of-2.csv.host-7-1.part", "results/.s00.h5.host.7.part", ".corpus.h5.2.part", "names.txt.h.1.new",
            ".merged-1.h5", "report.h.1.csv", ".report.html.host-1-1.part"]
    page = out + "/report.html"
    has_page = os.path.exists(page)  # h5spec may be built without libpng
    for lost, options, message in ((False, [], "nothing to do"), (True, [], ""), (False, [tmp("none")], "nothing to do"),
                                   (False, ["/nowhere.svs"], "run 2: 1 slide to convert")):
        for name in left:
            open(os.path.join(out, name), "w").close()
        if has_page and lost:  # the run before was killed while it wrote the page
            os.unlink(page)
        says(local(out, folder, *options, status=None).err, message)
        remains = [n for n in left if os.path.exists(os.path.join(out, n))]
        expect(remains == [] and os.path.exists(page) == has_page, "%s: %s", options, remains)


@later("ci")
def test_two_runs_begun_at_the_same_moment():
    for _ in range(5):
        out = os.path.join(tmp(), "out")
        argv = [sys.executable, CORPUS, "run", "--scheduler", "local", "-o", out, *slides(3)]
        both = [subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, **TOOLS)) for _ in "12"]
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
        programs = json.load(open(out + "/corpus.json"))["run"]["programs"]
        expect(programs["H5SPEC"] == prefix + "/bin/h5spec", "%s", programs)
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


@later("ci")
def test_a_task_never_holds_a_gpu_while_it_computes_on_the_cpu():
    (slide,), cuda, cpu = slides(1), h5spec_with("cpu, cuda"), h5spec_with("cpu")
    for program, options, gres, device in (
            (cuda, [], "gpu:1", "cuda"), (cuda, ["--gpus", "2"], "gpu:2", "cuda"), (cuda, ["--gpus", "0"], "none", "cpu"),
            (cuda, ["--h5spec", "--device cpu"], "none", "cpu"),
            (cuda, ["--h5spec", "--device=cpu"], "none", "cpu"), (cuda, ["--h5spec=--device=cuda:0"], "gpu:1", "cuda:0"),
            (cpu, [], "none", "cpu"), (cpu, ["--gpus", "0"], "none", "cpu")):
        slurm, out = ImitatedSlurm(), os.path.join(tmp(), "out")
        p = corpus("run", "-o", out, "--scheduler", "slurm", *options, slide,
                   env=dict(slurm.env, H5SPEC=program))
        (argv,) = slurm.submitted("process")
        expect("--gres=" + gres in argv, "%s: %s", options, argv)
        found = json.load(open(out + "/corpus.json"))
        words = " ".join(found["h5spec"] + found["run"]["process"])
        expect(re.findall(r"--device[ =](\S+)", words) == [device], "%s: %s", options, words)
        expect(("built without CUDA" in p.err) == (program == cpu and not options), p.err)
    out = os.path.join(tmp(), "out")
    p = corpus("run", "-o", out, "--scheduler", "slurm", "--gpus", "1", slide, status=2,
               env=dict(ImitatedSlurm().env, H5SPEC=cpu))
    says(p.err, "built without CUDA", "--gpus 0")
    expect(not os.path.exists(out + "/plan.tsv"), "a run was begun")
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
        local(os.path.join(tmp(), "out"), *given, status=status)
    out = os.path.join(tmp(), "out")
    local(out, good)
    os.unlink(out + "/results/s00.h5")
    corpus("status", "-o", out, status=5)


# --- states, retries: a Slurm that runs its jobs at once, one after the other ---

RUNNING_SBATCH = r"""
import json, os, re, subprocess, sys
folder, nodes, sick = %r, %r, %r
argv, options = sys.argv[1:], {}
while argv:
    name, _, value = argv.pop(0).partition("=")
    options[name] = argv.pop(0) if name in ("--wrap", "-c", "-x") else value
with open(folder + "/noted", "a") as f:
    f.write(json.dumps(sys.argv[1:]) + "\n")
    f.flush()
    number = sum(1 for _ in open(folder + "/noted"))
tasks = int(re.search(r"1-(\d+)", options["--array"]).group(1)) if "--array" in options else 0
left = [n for n in nodes if n not in options.get("--exclude", "").split(",")]
for t in range(1, tasks + 1) if tasks else [None]:
    node = left[(t or 0) %% len(left)]
    env = dict(os.environ, SLURMD_NODENAME=node, SLURM_CPUS_PER_TASK="1", SLURM_MEM_PER_CPU=options.get("--mem-per-cpu", "")[:-1])
    env.update({"SLURM_ARRAY_TASK_ID": str(t)} if t else {})
    state = sick.get(node, "") if t else ""
    if not state or state.startswith("TIMEOUT"):
        with open(options["--output"].replace("%%a", str(t)), "a") as out:
            code = subprocess.call(["sh", "-c", options["--wrap"]], stdout=out, stderr=out, env=dict(env, HANGS="1") if state else env)
        state = state or (("FAILED|%%d:0" %% code if code > 0 else "FAILED|0:%%d" %% -code) if code else "COMPLETED|0:0")
        if os.path.exists(folder + "/oom"):
            os.unlink(folder + "/oom")
            state = "OUT_OF_MEMORY|0:125"
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
    """`sick`: {node: how its tasks end}; they do not begin, except those of TIMEOUT."""

    def __init__(self, sick=(), nodes=("n1", "n2", "n3", "n4")):
        super().__init__()
        self.command("sbatch", RUNNING_SBATCH % (self.folder, nodes, dict(sick)))
        self.command("sacct", RUNNING_SACCT % (self.folder + "/asked", self.folder + "/ends"))
        self.command("sinfo", "print(%r)" % "\n".join(nodes))

    def asked(self):
        path = self.folder + "/asked"
        return len(open(path).readlines()) if os.path.exists(path) else 0


# --- a scheduler that is away ---

def test_a_controller_that_is_away_for_half_an_hour_ends_nothing():
    schedulers, asked, clock, real = library("engines"), [], [0.0], time
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
    expect(len(open(slurm.noted).readlines()) == 3, "jobs: %s", open(slurm.noted).read())


# --- what status costs ---

def test_status_looks_at_three_files_per_slide():
    folder, out = begun(slides(12, "300x300"))
    state, status, real, calls = library("state"), library("status"), os.stat, []

    def counted_stat(path, *a, **k):
        calls.append(path)
        return real(path, *a, **k)
    try:
        os.stat = counted_stat
        st = status.status_of(state.Corpus(out), 0)
    finally:
        os.stat = real
    of_slides = [str(p) for p in calls if str(p).endswith((".svs", ".h5")) and "corpus" not in os.path.basename(str(p))]
    expect(st["states"]["done"] == 12 and len(of_slides) == 36, "%d calls of stat for 12 slides", len(of_slides))
    expect(len(calls) - len(of_slides) < 20, "%d other calls", len(calls) - len(of_slides))


# --- slides that are taken out, or have moved ---

def test_a_withdrawn_slide_leaves_nothing_and_stays_out():
    folder, out = begun(dict(zip(("anna.svs", "bert.svs", "carl.svs", "dora.svs"), slides(4))))
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
        p = local(out, folder)
        expect(status_of(out)["slides"] == 2 and slides_in(out + "/corpus.h5") == ["anna", "dora"], "%s", p.out)
    corpus("remove", "-o", out, "anna", "dora")
    expect(not glob.glob(out + "/*.h5") and not os.path.exists(out + "/report.html"), "%s", os.listdir(out))


def test_moved_slides_are_the_same_slides():
    folder, out = begun(slides(3))
    before = {f: os.stat(f).st_mtime_ns for f in glob.glob(out + "/*/*.h5")}
    moved = folder + "-moved"
    os.rename(folder, moved)
    says(local(out, moved).err, "nothing to do")
    expect({f: os.stat(f).st_mtime_ns for f in glob.glob(out + "/*/*.h5")} == before, "made again")
    expect([os.path.dirname(s) for s in open(out + "/names.txt").read().split()[1::2]] == [moved] * 3, "paths")
    os.rename(moved + "/s01.svs", moved + "/renamed.svs")  # known by its quickhash
    p = local(out, moved)
    says(p.err, "s01.svs: moved to " + moved + "/renamed.svs")
    says(p.out, "3 of 3 slides converted, 3 processed, 0 to do, 0 failed")
    expect(slides_in(out + "/corpus.h5") == ["renamed", "s00", "s02"], "%s", slides_in(out + "/corpus.h5"))


# --- file systems ---

def test_a_full_disk_and_a_file_system_that_fails_end_with_a_message():
    """No traceback, nothing counted as missing that may only be unreachable."""
    import errno
    import resource
    (slide,), out = slides(1), os.path.join(tmp(), "out")
    local(out, slide)
    before = content(out + "/corpus.h5")
    for limit in (0, 40, 400):  # Python sees EFBIG, as it would see ENOSPC
        def lower():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        for where, given in ((out, slides(2)), (os.path.join(tmp(), "new"), slides(1))):
            p = run(sys.executable, CORPUS, "run", "--scheduler", "local", "-o", where, *given, status=None, preexec_fn=lower,
                    env=dict(os.environ, **TOOLS))
            expect(p.returncode in (1, 5) and "Traceback" not in p.err and p.err.startswith("corpus: "), "%d: %s", p.returncode, p.err)
    local(out, slide, slides(2)[1])
    expect(slides_in(out + "/corpus.h5") == ["s00", "s01"], "after the disk was full")
    equal(content(spectrum(store(slide))), before, "the first slide")
    state, real = library("state"), os.stat
    for code, found in ((errno.ESTALE, None), (errno.EIO, None), (errno.ENOENT, "")):
        def failing(path, *a, **k):
            if str(path).endswith("stores/s00.h5"):
                raise OSError(code, os.strerror(code), path)
            return real(path, *a, **k)
        known = state.Corpus(out)
        s, os.stat = known.records[0], failing
        try:
            remains = known.now(s).remains
            expect(remains == found, "errno %d: %s remains", code, remains)
        except OSError as e:
            expect(e.errno == code and found is None, "errno %d", code)
        finally:
            os.stat = real


def test_a_clock_that_was_set_back():
    folder = folder_with(slides(2))
    for slide in glob.glob(folder + "/*"):
        os.utime(slide, (2 ** 31 - 1, 2 ** 31 - 1))  # later than all that is made from them
    out = os.path.join(tmp(), "out")
    for _ in range(2):
        p = local(out, folder)
        says(p.out, "2 of 2 slides converted, 2 processed, 0 to do, 0 failed")
    says(p.err, "nothing to do")


# --- splitting, running again ---

def rows_of_plan(out):
    return [line.split("\t") for line in open(out + "/plan.tsv").read().splitlines()[2:]]

def test_local_every_way_of_splitting():
    folder, good = folder_of_slides()
    want = None
    for options in ([], ["--tasks", "3"], ["--batch", "1"]):
        out = os.path.join(tmp(), "out")
        with_bad(out, folder, *options)
        check_corpus(out, direct_stores(out))
        data = content(os.path.join(out, "corpus.h5"))
        want = want or data
        equal(data, want, "corpus %s" % options)
    out = os.path.join(tmp(), "out")  # the same by hand, as an engine does it; the last batch never runs
    corpus("plan", "-o", out, "--wsi2h5", GROUPS, "--batch", "5", *begin(folder))
    rows = [line.split("\t") for line in open(out + "/plan.tsv").read().splitlines()]
    expect(rows[0][0].startswith("# wsi-corpus plan 1, wsi2h5 ") and rows[1][:3] == ["batch", "step", "slide"], "%s", rows[:2])
    expect([row[0] for row in rows[2:]] == ["1"] * 5 + ["2"] * 5 + ["3"] * 2, "%s", rows)
    statuses = [corpus("step", "-o", out, "--batch", k, status=None).returncode for k in "12"]
    expect(statuses == [1, 0], "%s", statuses)
    says(corpus("finish", "-o", out, status=5).out, "2 to do", "corpus.h5: 8 slides")
    corpus("plan", "-o", out, *begin(folder))
    expect([row[1] for row in rows_of_plan(out)] == ["convert"] * 4, "%s", open(out + "/plan.tsv").read())
    for batch in "1234":
        run(sys.executable, CORPUS, "step", "-o", out, "--batch", "auto", env=dict(os.environ, PBS_ARRAY_INDEX=batch, **TOOLS), status=None)
    corpus("finish", "-o", out, status=1)
    check_corpus(out, direct_stores(out))


def test_local_run_again_does_only_what_is_missing():
    folder, good = folder_of_slides()
    out = os.path.join(tmp(), "out")
    with_bad(out, folder)
    times = {f: os.stat(f).st_mtime_ns for f in glob.glob(out + "/*/*.h5")}
    made_first = os.stat(out + "/corpus.h5").st_mtime_ns
    with_bad(out, folder)
    expect({f: os.stat(f).st_mtime_ns for f in times} == times, "something was done again")
    expect(os.stat(out + "/corpus.h5").st_mtime_ns == made_first, "it was merged again")
    for name in ("/results/s03.h5", "/stores/s04.h5", "/results/s04.h5", "/stores/s06.h5"):  # that of s06 is not needed
        os.unlink(out + name)
    with open(out + "/stores/s05.h5", "r+b") as f:  # damaged later
        f.truncate(100000)
    with_bad(out, folder)
    changed = {os.path.relpath(f, out) for f in times if not os.path.exists(f) or os.stat(f).st_mtime_ns != times[f]}
    expect(changed == {"results/s03.h5", "stores/s04.h5", "results/s04.h5", "stores/s05.h5", "results/s05.h5", "stores/s06.h5"}, "%s", changed)
    expect(status_of(out, 1)["processed"] == 8, "processed")
    says(with_bad(out, folder, "--h5spec", "--window 128", status=2).err, "was started with no --h5spec", "--stores")
    other = os.path.join(tmp(), "other")
    stores = [s for s in direct_stores(out) if "s06" not in s]
    p = local(other, "--stores", out + "/stores", "--wsi2h5", GROUPS, "--h5spec",
               "--window 128", *[g for g in good if "s06" not in g])
    says(p.err, "0 slides to convert, 7 stores to process")
    equal(content(other + "/corpus.h5"), content(spectrum(stores, "--window", "128")), "other parameters")


def test_a_slide_that_crashes_its_program_is_named_and_the_others_are_done():
    folder, good = folder_of_slides()
    out = os.path.join(tmp(), "out")
    crash = wrapper('''case "$*" in *"--list -"*) ;; *) exec %s "$@" ;; esac
list=$(mktemp); cat >$list
grep -q s02.svs $list && kill -SEGV $$
exec %s "$@" <$list''' % (WSI2H5, WSI2H5))
    env = dict(TOOLS, WSI2H5=crash)
    for status, state in ((5, "node trouble"), (1, "bad slide")):  # a second crash is no accident
        with_bad(out, folder, env=env, status=status)
        st = status_of(out, status)
        (row,) = [f for f in st["failed"] if f["slide"].endswith("s02.svs")]
        expect(st["processed"] == 7 and row["state"] == state, "%s", st)
        says(row["reason"], "signal 11", "SIGSEGV")
    with_bad(out, folder)
    check_corpus(out, direct_stores(out))


def test_status_counts_what_is_to_do_apart_from_what_failed():
    folder, out = folder_with(slides(4)), os.path.join(tmp(), "out")
    open(folder + "/s001.svs", "w").close()  # fails, after s00
    argv = [sys.executable, CORPUS, "run", "--scheduler", "local", "--batch", "1", "-o", out, folder]
    p = subprocess.Popen(argv, stderr=subprocess.DEVNULL, env=dict(os.environ, H5SPEC=H5SPEC, WSI2H5=at_work(WSI2H5, "sleep 1")))
    while not os.path.exists(out + "/results/s01.h5") and p.poll() is None:
        time.sleep(0.02)
    st = status_of(out, 1)
    expect(st["active_tasks"] == 1 and st["processed"] in (2, 3) and len(st["failed"]) == 1, "%s", st)
    p.send_signal(signal.SIGINT)
    expect(p.wait(TIMEOUT) == 3, "status %d", p.returncode)
    st = status_of(out, 5)
    expect(["s001.svs"] == [os.path.basename(f["slide"]) for f in st["failed"] if f["state"] == "bad slide"], "%s", st["failed"])
    says(corpus("status", "-o", out, "--watch", status=5).out, " to do, ")
    os.unlink(folder + "/s001.svs")
    local(out, folder, status=1)
    st = status_of(out, 1)
    expect(st["to_do"] == [] and st["processed"] == 4 and len(st["failed"]) == 1, "%s", st)
    says(st["failed"][0]["reason"], "no such")
    expect(st["corpus"] == {"file": out + "/corpus.h5", "slides": 4, "current": True}, "%s", st["corpus"])


def test_any_changed_file_of_a_slide_with_several_is_noticed():
    state, folder = library("state"), tmp()
    for slide, part in (("a.dcm", "level1.DCM"), ("m.mrxs", "m/Data0001.dat"), ("v.vms", "v(1,0).jpg")):
        slide, part = os.path.join(folder, slide), os.path.join(folder, part)
        for path in (slide, part):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "w").write("1")
        before = state.Files().of(slide, os.stat(slide))
        expect(state.Files().of(slide, os.stat(slide)) == before, slide)
        os.utime(part, (10 ** 9, 10 ** 9))
        expect(state.Files().of(slide, os.stat(slide)) != before, "%s was touched", part)


def test_the_same_slide_twice_is_merged_once():
    s = slides(3)
    folder, out = begun({"s00.svs": s[0], "s01.svs": s[1], "s02.svs": s[2], "twin.svs": s[1]}, status=1)
    says(corpus("status", "-o", out, status=1).out, "4 of 4 slides converted, 3 processed, 0 to do, 1 failed",
         "twin.svs: is the same slide as %s/s01.svs" % folder)
    equal(content(out + "/corpus.h5"), direct([out + "/stores/s0%d.h5" % k for k in range(3)]), "without the twin")
    expect(folder not in open(out + "/report.html").read() and "twin" in open(out + "/report.html").read(), "the page names folders")
    before = os.stat(out + "/corpus.h5").st_mtime_ns
    says(local(out, folder, status=1).err, "nothing to do")
    expect(os.stat(out + "/corpus.h5").st_mtime_ns == before, "merged again")
    says(local(out, "--allow-duplicates", folder).out,
         "4 of 4 slides converted, 4 processed, 0 to do, 0 failed", "corpus.h5: 4 slides")
    says(local(out, folder).err, "nothing to do")


def test_damaged_results_are_computed_again():
    out = os.path.join(tmp(), "out")
    local(out, *slides(3))
    want, path = content(out + "/corpus.h5"), out + "/results/s01.h5"
    flip(path, "slides/s01/window_mean_db")
    expect(status_of(out, 5)["to_do"] == [{"slide": slides(3)[1], "stage": "process"}], "%s", status_of(out, 5))
    says(local(out, *slides(3)).err, "s01.h5 is damaged, computed again", "window_mean_db")
    equal(content(out + "/corpus.h5"), want, "the repaired corpus")
    os.utime(path)  # touched, but whole: it is read, and counts
    says(local(out, *slides(3)).err, "0 slides to convert, 0 stores to process")
    before = os.stat(path)
    flip(path, "slides/s01/window_mean_db")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as a failing disk does it
    os.unlink(out + "/corpus.h5")
    says(local(out, *slides(3), status=5).out, "the result is damaged", "run again")
    local(out, *slides(3))
    equal(content(out + "/corpus.h5"), want, "the repaired corpus")


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
    folder, out = folder_with(of_resolutions("0.5", "0.25")), os.path.join(tmp(), "out")
    older = wrapper('[ "$1" != --version ] || { echo "h5spec 0.0.9 (old)"; exit 0; }\nexec %s "$@"' % H5SPEC)
    local(out, folder + "/a.svs", env=dict(TOOLS, H5SPEC=older))
    says(open(out + "/plan.tsv").readline(), "h5spec 0.0.9")
    p = local(out, folder)
    says(p.out, "made by different versions: 1 slide by wsi2h5", "h5spec 0.0.9, 1 slide by", "; run --renew makes what is older again", "corpus-0.25um.h5")
    for options in (["--h5spec", "--window 128"], ["--wsi2h5", "--codec deflate"], ["--stores", tmp()]):
        says(local(out, *options, folder, status=2).err, "was started with")
    p = local(out, "--renew", folder)
    says(p.err, "1 slide to convert")
    expect("different versions" not in p.out, p.out)
    # b has a wrong resolution: an option for it alone
    names = os.path.join(tmp(), "list")
    open(names, "w").write("%s/a.svs\n%s/b.svs\t--mpp-override 0.5\n" % (folder, folder))
    says(local(out, "--list", names).err, "1 slide to convert")
    says(open(out + "/plan.tsv").read(), "\t--mpp-override 0.5\tstore\t")
    expect(slides_in(out + "/corpus.h5") == ["a", "b"] and not os.path.exists(out + "/corpus-0.25um.h5"), "%s", os.listdir(out))
    says(local(out, folder).err, "nothing to do")  # it is remembered
    open(names, "w").write("%s/b.svs\t--nonsense\n" % folder)
    says(local(out, "--list", names, status=2).err, "--nonsense")


def test_damaged_state_and_lists_are_named():
    out = os.path.join(tmp(), "out")
    local(out, *slides(2))
    for text in ("[]", '{"slide": 5}', "{", "5\n", '"x"', '{"slide": "x", "tried": 1}', "\0\0"):
        open(out + "/records.jsonl", "w").write(text + "\n")
        p = corpus("status", "-o", out, status=None)
        says(p.err, out + "/records.jsonl: damaged", "only a cache")
        says(p.out, "2 of 2 slides converted, 2 processed")
        expect("Traceback" not in p.err, p.err)
    local(out, *slides(2))
    says(corpus("status", "-o", out).out, "corpus.h5: 2 slides\n")
    for text in ("[]", "{", '{"run": 5}', '{"wsi2h5": {}}', "null"):
        open(out + "/corpus.json", "w").write(text)
        p = corpus("status", "-o", out, status=1)
        expect(p.err == "corpus: %s/corpus.json: damaged; delete it and give the options of the corpus again; finished files are kept\n" % out, p.err)
    os.unlink(out + "/corpus.json")
    local(out, *slides(2))
    names = os.path.join(tmp(), "list")
    open(names, "w", encoding="utf-16").write(slides(1)[0] + "\n")
    says(local(out, "--list", names, status=1).err, names, "save it as UTF-8")
    open(names, "w", encoding="utf-8-sig").write(slides(1)[0] + "\r\n")
    says(local(out, "--list", names).err, "nothing to do")
    says(local(out, "--list", names + "x", status=1).err, "cannot read the list")


def test_a_full_results_disk_is_one_attempt_and_named():
    calls, out = os.path.join(tmp(), "calls"), os.path.join(tmp(), "out")
    full = wrapper('''case "$*" in run*"--list -"*) ;; *) exec %s "$@" ;; esac
echo call >>%s; read -r store
echo "{\\"input\\": \\"$store\\", \\"kind\\": \\"store\\", \\"status\\": \\"failed\\", \\"message\\": \\"/r/x.h5: no space left on the disk; free some and run again\\", \\"cause\\": \\"trouble\\", \\"host\\": \\"$SLURMD_NODENAME\\"}"
exit 5''' % (H5SPEC, calls))
    p = corpus("run", "--scheduler", "local", "--batch", "1", "-o", out, *slides(4), env=dict(TOOLS, H5SPEC=full), status=5)
    says(p.out, "0 processed, 3 to do, 1 failed", "node trouble (process): 1 slide", "/r/x.h5: no space left on the disk")
    expect(open(calls).read() == "call\n", "%s calls", open(calls).read().count("call"))


# --- a weekend on a cluster; check_engines.py has it on a real one ---

def weekend(sick=(), status=0, wsi2h5=WSI2H5, options=(), after=(), n=6):
    """A corpus on four nodes. Returns (status, the scheduler, the text of status)."""
    folder, out, slurm = folder_with(slides(n)), os.path.join(tmp(), "out"), RunningSlurm(sick)
    env = dict(slurm.env, WSI2H5=wsi2h5)
    corpus("run", "-o", out, "--scheduler", "slurm", "--gpus", "0", *options, folder, *(["--", *after] if after else []), env=env)
    return status_of(out, status, env), slurm, corpus("status", "-o", out, env=env, status=status).out


def asked_for(slurm, option):
    """What the jobs of the last run, of which there are up to three, asked for."""
    return {a.split("=")[1] for argv in list(map(json.loads, open(slurm.noted)))[-3:] for a in argv if a.startswith(option + "=")}


def sick_on(node, program):
    """The program, which on one node cannot be started, as if its folder were not mounted."""
    return wrapper('[ "$SLURMD_NODENAME" != %s ] || { echo "h5: command not found" >&2; exit 127; }\nexec %s "$@"\n' % (node, program))


HANGS = '[ -z "$HANGS" ] || { kill -%s $PPID; sleep 1; exit 3; }'
WEEKEND = (  # what is wrong; sick nodes and the end of their tasks; wsi2h5; options of the user; nodes left out by the second run
    ("lost", {"n2": "FAILED|0:53"}, WSI2H5, [], {"n2"}), ("node failure", {"n2": "NODE_FAIL|0:0"}, WSI2H5, [], {"n2"}),
    ("hangs, stopped", {"n2": "TIMEOUT|0:0"}, at_work(WSI2H5, HANGS % "TERM"), [], {"n2"}),
    ("hangs, killed", {"n2": "TIMEOUT|0:0"}, at_work(WSI2H5, HANGS % "KILL"), [], {"n2"}),
    ("no program", {}, sick_on("n2", WSI2H5), [], {"n2"}), ("two of four", {"n1": "FAILED|0:53", "n4": "FAILED|0:53"}, WSI2H5, [], {"n1,n4", "n4,n1"}),
    ("the user's own", {}, sick_on("n2", WSI2H5), ["--exclude=n1,n4"], {"n1,n4,n2"}))


@later("ci")
def test_sick_nodes_are_left_out():
    for name, sick, program, after, left_out in WEEKEND:
        st, slurm, text = weekend(sick, wsi2h5=program, after=after)
        expect(st["states"]["done"] == 6 and st["run"] == 2 and st["corpus"]["current"], "%s: %s", name, text)
        expect(asked_for(slurm, "--exclude") <= left_out != set(), "%s: %s", name, asked_for(slurm, "--exclude"))
    st, slurm, text = weekend({"n2": "FAILED|0:53"}, status=5, options=["--retries", "0"])
    says(text, "node trouble (convert): 2 slides on n2: its task left no log (Slurm: FAILED, signal 53)", "node n2: 2 node trouble")
    st, slurm, text = weekend(status=5, wsi2h5=at_work(WSI2H5, "exit 3"), n=3)
    expect(st["run"] == 2 and st["states"]["bad slide"] == 0 and st["states"]["interrupted"] == 3, "stopped on two nodes: %s", text)
    says(text, "interrupted (convert): 1 slide on n", "stopped by a signal")


def test_out_of_memory_is_tried_again_with_more():
    for needs, status in ((2, 0), (4, 1)):
        hungry = wrapper('''case "$*" in *"--list -"*) ;; *) exec %s "$@" ;; esac
list=$(mktemp); cat >$list
grep -q s02.svs $list && [ "$SLURM_MEM_PER_CPU" -lt %d ] && { touch "$(dirname "$(command -v sbatch)")/oom"; kill -9 $$; }
exec %s "$@" <$list''' % (WSI2H5, needs, WSI2H5))
        st, slurm, text = weekend(status=status, wsi2h5=hungry, n=3)
        expect(asked_for(slurm, "--mem-per-cpu") == {"2G"}, "%s", open(slurm.noted).read())
        if status:
            says(text, "failed (convert): ", "s02.svs: ", "signal 9", "out of memory, also with more")


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


def test_tasks_that_will_never_run_are_named_with_the_remedy():
    slurm, out = ImitatedSlurm(), os.path.join(tmp(), "out")
    corpus("run", "-o", out, "--scheduler", "slurm", "--gpus", "0", *slides(2), env=slurm.env)
    slurm.command("squeue", "print('1_1|PENDING|launch failed requeued held\\n2_1|PENDING|Dependency\\n3|PENDING|DependencyNeverSatisfied')")
    p = corpus("status", "-o", out, env=slurm.env)
    says(p.out, "3 tasks queued or running", "problem: task 1_1 waits for ever (launch failed requeued held): scontrol release 1_1", "scancel 3, and run again")
    expect("2_1" not in p.out, p.out)
    folder = tmp()
    open(folder + "/qstat", "w").write(QSTAT)
    os.chmod(folder + "/qstat", 0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = folder + os.pathsep + before
    try:
        n, held = library("engines").SCHEDULERS["sge"].active(["10", "11", "13"])
        expect(n == 4 and held == ["task 2 of job 13 is in an error state: qmod -cj 13"], "%d %s", n, held)
    finally:
        os.environ["PATH"] = before


def test_submissions_can_be_looked_at_first():
    slurm, out = ImitatedSlurm(), os.path.join(tmp(), "out")
    p = corpus("run", "-o", out, "--scheduler", "slurm", "--gpus", "0", "--dry-run", *slides(2), "--", "--account=lab", env=slurm.env)
    expect([line.split()[0] for line in p.out.splitlines()] == ["sbatch"] * 3 and not os.path.exists(slurm.noted), p.out)
    says(p.out, "--array=1-2", "--account=lab", "--dependency=afterany:CONVERT")
    slurm = ImitatedSlurm(refuse="--job-name")
    slurm.command("sbatch", "import sys; sys.exit('sbatch: fatal: Could not establish a configuration source')")
    says(corpus("run", "-o", out, "--scheduler", "slurm", "--gpus", "0", *slides(2), env=slurm.env, status=1).err, "use --scheduler local")


def test_how_ends_and_failures_are_judged():
    """The table of outcome.py."""
    outcome, state = library("outcome"), library("state")
    for text, what in (("(Slurm: TIMEOUT)", "interrupted"), ("(Slurm: CANCELLED, signal 15)", "interrupted"), ("(Slurm: NODE_FAIL)", "trouble"),
                       ("(Slurm: OUT_OF_MEMORY, signal 9)", "memory"), ("(Slurm: FAILED, exit status 127)", "trouble"),
                       ("(Slurm: FAILED, signal 53, JobLaunchFailure)", "trouble"), ("(Slurm: FAILED, signal 11)", "crash"),
                       ("ended by signal 11 (SIGSEGV)", "crash"), ("(Slurm: PREEMPTED)", "interrupted"), ("No space left on device", "disk"),
                       ("(Grid Engine: failed 0, exit status 1)", "trouble"), ("perhaps killed", "interrupted"),
                       ("(Grid Engine: failed 100 : assumedly after job, exit status 137)", "interrupted")):
        expect(outcome.what_shows(text) == what, "%s: %s, not %s", text, outcome.what_shows(text), what)
    corpus_ = state.Corpus(os.path.join(tmp(), "out"))
    for rows, wanted in (((), "to do"), ((("input", "n1"),), "bad slide"), ((("trouble", "n1"),), "node trouble"),
                         ((("trouble", "n1"), ("trouble", "n1")), "node trouble"), ((("trouble", "n1"), ("trouble", "n2")), "bad slide"),
                         ((("interrupted", "n1"),), "interrupted"), ((("interrupted", "n1"), ("interrupted", "n2")), "interrupted"),
                         ((("interrupted", "n1"), ("trouble", "n2")), "node trouble"), ((("crash", "n1"), ("crash", "n1")), "bad slide"),
                         ((("crash", "n1"),), "node trouble"), ((("memory", "n1"), ("memory", "n2")), "bad slide"), ((("disk", "n1"), ("disk", "n2")), "node trouble")):
        r = state.Record("/s/a.svs", "a")
        for run_, (what, host) in enumerate(rows):
            r.what, r.stage, r.of = what, "convert", "1:1"
            if what in ("trouble", "crash", "memory"):
                r.tried[str(run_)] = [what, host]
        for files, state_ in (("1:1", wanted), ("2:2", "to do")):  # a slide that was replaced has not failed
            found = outcome.state_of(corpus_, r, state.Now("convert", files, "", "")).state
            expect(found == state_, "%s: %s, not %s", rows, found, state_)


def test_lines_that_a_kill_has_cut_off():
    """A requeued task goes on in the middle of the line at which it was killed."""
    rows_in, path = library("step").rows_in, os.path.join(tmp(), "log")
    lines = ['{"input": "/s/%s.svs", "kind": "slide", "status": "done", "seconds": 1.0, "host": "n1"}' % n for n in ("cut", "whole", "last", "lost")]
    for joined, found in ((lines[0][:40] + lines[1] + "\n", ["whole"]), (lines[0] + lines[1] + "\n", ["cut", "whole"]),
                          (lines[0] + "\n" + lines[1][:-9] + lines[2] + "\n" + lines[3][:50], ["cut", "last"]),
                          ('"status": "done"}\n' + lines[1] + "\n", ["whole"]), ("\0\0" + lines[2] + "\n", ["last"]), ("[]\n5\n", [])):
        open(path, "w").write(joined)
        seen = [os.path.basename(row["input"])[:-4] for row in rows_in(path)]
        expect(seen == found, "%r: %s, not %s", joined, seen, found)


main(globals())
