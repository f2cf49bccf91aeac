"""The commands of h5spec: help, usage errors, lists of inputs, outputs, progress, messages."""
import fcntl
import select
import struct
import termios

import h5py

from lib import *

COMMANDS = ("run", "merge", "info", "verify", "lookup", "tune")


def slide(name="slide", size="600x900", *options):
    return made("--size", size, *options, name=name)


def stores(n, folder=None):
    """Stores of n different slides, a.h5, b.h5 ... in one new folder."""
    folder = folder or tmp("stores")
    out = []
    for k in range(n):
        name = chr(ord("a") + k)
        out.append(shutil.copy(store(slide(name, "%dx400" % (400 + 10 * k))), folder))
    return out


# --- help and usage errors ---

def test_each_command_has_its_own_help():
    texts = set()
    for command in COMMANDS:
        p = run(H5SPEC, command, "--help")
        expect(p.err == "" and p.out.startswith("Usage: h5spec %s " % command), p.out[:200])
        (example,) = re.findall(r"^Example:\n  (.*)$", p.out, re.M)
        says(example, "h5spec " + command)
        options = re.findall(r"^  (?:-\w, |    )--[a-z-]+( \S+)?(?=$|  )", p.out, re.M)
        expect(len(options) == len(re.findall(r"^ {2,6}-", p.out, re.M)) >= 2, "layout: %s", p.out)
        expect(max(map(len, p.out.splitlines())) <= 80, "longer than 80 columns")
        expect(run(H5SPEC, "help", command).out == p.out, "help %s" % command)
        texts.add(p.out)
    expect(len(texts) == len(COMMANDS), "two commands have the same help")
    says(run(H5SPEC, "run", "--help").out, "(default: 256)", "(default: 0:160)")
    p = run(H5SPEC, "--help")
    says(p.out, *("\n  " + c for c in COMMANDS))
    expect(p.out == run(H5SPEC, "help").out == run(H5SPEC, "-h").out, "help")


def test_mistyped_commands():
    (s,) = stores(1)
    for argv in (["foo"], ["runn", "-o", "o.h5", s], ["infos", s], ["help", "foo"], []):
        p = run(H5SPEC, *argv, status=2, cwd=tmp())
        says(p.err, "command", *COMMANDS)
        says(p.err, "Try 'h5spec --help'.")
    d = tmp()
    for name in ("s.h5", "b"):  # a file without ending is no command
        shutil.copy(s, os.path.join(d, name))
    run(H5SPEC, "-q", "-o", "o.h5", "s.h5", cwd=d)
    run(H5SPEC, "b", "-q", "-o", "p.h5", cwd=d)


USAGE = [  # arguments, what the message must say
    (["verify", "--jsn"], "h5spec verify: unrecognized option '--jsn'"),
    (["verify", "--jsn=3"], "h5spec verify: unrecognized option '--jsn'"),
    (["lookup", "-o", "x", "s.h5"], "h5spec lookup: unrecognized option '-o'"),
    (["run", "--p", "yes", "s.h5", "--min-t"], "option '--min-tissue' requires an argument: F"),
    (["run", "--ta"], "option '--ta' is ambiguous: --task, --taper"),
    (["run", "-o"], "option '-o' requires an argument: RESULT"),
    (["info", "--json=yes", "s.h5"], "option '--json' takes no argument"),
    (["run", "-o", "-", "s.h5"], "standard output"),
    (["run", "-o", "", "s.h5"], "-o: the name is empty"),
    (["merge", "-o", "", "s.h5"], "-o: the name is empty"),
    (["merge", "-o", "-", "s.h5"], "standard output"),
    (["run", "-o", "x.h5", "--min-tissue", "0.3", "s.h5"], "no effect without --tissue-only"),
    (["run", "-o", "x.h5", "--task", "1/1", "s.h5"], "--task needs a folder"),
    (["run", "-o", "x.tif", "s.h5"], "another kind of file"),
    (["run", "-o", "x.h5", "--list", "/nowhere/list"], "/nowhere/list: cannot read the list"),
    (["run", "-o", "x.h5", "-q", "--progress", "yes", "s.h5"], "contradict"),
    (["run", "-o", "x.h5", "--memory", "1K", "s.h5"], "between 1.0 MiB and 1.0 PiB"),
    (["info", "--json", "--csv", "s.h5"], "exclude each other"),
    (["info", "--json", "--histogram", "s.h5"], "exclude each other"),
    (["run", "-o", "x.h5", "\x1b[2J/../s.h5", "\x1b[2J/s.h5"], "two stores have the same name"),
    (["verify", "--\x1b[2J"], "unrecognized option '--?[2J'"),
]


def test_usage_errors_name_the_command():
    for argv, words in USAGE:
        d = tmp()
        p = run(H5SPEC, *argv, status=2, cwd=d)
        says(p.err, words, "h5spec %s: " % argv[0], "Try 'h5spec %s --help'." % argv[0])
        expect(p.out == "" and stores_in(d) == [] and "\x1b" not in p.err, "%s: %s", argv, p.err)


# --- inputs ---

def test_folders_of_stores():
    above, elsewhere = tmp("above"), tmp("elsewhere")
    folder = os.path.join(above, "folder")
    os.mkdir(folder)
    a, b, c = stores(3)
    shutil.copy(a, os.path.join(above, "not-below.h5"))
    for path, at in ((a, "2.h5"), (b, "below/1.h5")):
        os.makedirs(os.path.dirname(os.path.join(folder, at)), exist_ok=True)
        shutil.copy(path, os.path.join(folder, at))
    shutil.copy(c, os.path.join(elsewhere, "3.h5"))
    os.symlink(elsewhere, os.path.join(folder, "linked"))
    for name, to in (("loop", "."), ("below/up", ".."), ("below/out", "../.."), ("linked2", elsewhere)):
        os.symlink(to, os.path.join(folder, name))
    spectrum_of_a = spectrum(a)
    shutil.copy(spectrum_of_a, os.path.join(folder, "result.h5"))
    for name, data in (("notes.txt", b"x"), (".hidden.h5", b"x")):
        put_file(os.path.join(folder, name), data)
    with h5py.File(os.path.join(folder, "foreign.h5"), "w") as f:
        f["x"] = 1
    out = os.path.join(tmp(), "r.h5")
    run(H5SPEC, "run", "-q", "-o", out, folder)
    expect(slide_names(out) == ["1", "2", "3"], "%s", slide_names(out))
    rows = [r.split("\t")[2] for r in run(H5SPEC, "lookup", folder).out.splitlines()[1:]]
    expect(rows == [os.path.join(folder, n) for n in ("2.h5", "below/1.h5", "linked/3.h5")], "%s", rows)
    found = [j["input"] for j in json_lines(run(H5SPEC, "info", "--json", folder + "/").out)]
    expect([os.path.basename(f) for f in found] == ["2.h5", "1.h5", "3.h5", "result.h5"], "%s", found)
    merged = os.path.join(tmp(), "m.h5")
    run(H5SPEC, "merge", "-q", "-o", merged, folder)
    expect(slide_names(merged) == ["a"], "%s", slide_names(merged))


def test_a_folder_hides_nothing():
    """Dangling links and damaged stores in a folder are failed inputs, the others are computed."""
    folder, out = tmp("folder"), os.path.join(tmp(), "r.h5")
    (a,) = stores(1, folder)
    os.symlink("/nowhere/batch2", os.path.join(folder, "batch2"))
    os.symlink("gone.h5", os.path.join(folder, "link.h5"))
    os.symlink("gone.txt", os.path.join(folder, "notes.txt"))  # nothing that is looked for
    put_file(os.path.join(folder, "half.h5"), bytes_in(a)[:-100])
    open(os.path.join(folder, "empty.h5"), "w").close()
    p = run(H5SPEC, "run", "-o", out, folder, status=1)
    for name in ("batch2: dangling link", "link.h5: dangling link", "half.h5: truncated", "empty.h5: the file is empty",
                 "1 done, 4 failed"):
        says(p.err, name)
    expect(slide_names(out) == ["a"], "%s", slide_names(out))
    p = run(H5SPEC, "run", "-o", os.path.join(tmp(), "r.h5"), tmp("empty"), a, status=1)
    says(p.err, "a folder without stores", "1 done, 1 failed")
    run(H5SPEC, "info", tmp("empty"), status=1)
    merged = os.path.join(tmp(), "m.h5")
    says(run(H5SPEC, "merge", "-o", merged, out, tmp("empty"), status=1).err, "a folder without results")
    expect(not os.path.exists(merged), "a merge without all of its inputs")


def test_list_from_stdin():
    for argv, given in (([H5SPEC, "run", "-q"], stores(2)), ([WSI2H5, "-q"], [slide("a"), slide("b")])):
        out = tmp()
        p = subprocess.run([*argv, "-o", out, "--list", "-"], input=("# two\n%s\n%s\n" % tuple(given)).encode(),
                           stderr=subprocess.PIPE, cwd=tmp(), timeout=TIMEOUT)
        expect(p.returncode == 0 and sorted(stores_in(out)) == ["a.h5", "b.h5"], "%s", p.stderr)


def test_json_of_lookup():
    a, b = stores(2)
    rows = json_lines(run(H5SPEC, "lookup", "--json", a, b).out)
    expect(rows == [{"input": s, "kind": "store", "start": k, "end": k} for k, s in ((1, a), (2, b))], "%s", rows)


# --- the same slide twice ---

def test_the_same_slide_twice():
    folder = tmp("twice")
    s = slide("one")
    a, b = store(s), shutil.copy(store(s, "--codec", "none"), os.path.join(folder, "two.h5"))
    out = os.path.join(tmp(), "r.h5")
    p = run(H5SPEC, "run", "--json", "-o", out, a, b)
    says(p.err, b + ": copy of one", "--duplicates count", "1 done, 0 failed, 1 copy not computed")
    expect(sorted(j["status"] for j in json_lines(p.out)) == ["copy", "done"] and slide_names(out) == ["one"], "%s", p.out)
    run(H5SPEC, "run", "-q", "--duplicates", "count", "-o", out, a, b)
    expect(slide_names(out) == ["one", "two"], "%s", slide_names(out))
    results = tmp("results")
    run(H5SPEC, "run", "-q", "-o", results, a)
    p = run(H5SPEC, "run", "-o", results, a, b)  # the first is up to date already
    says(p.err, b + ": copy of one", "0 done, 1 skipped (up to date), 0 failed, 1 copy")
    expect(stores_in(results) == ["one.h5"], "%s", stores_in(results))


# --- verify and merge ---

def test_verify_takes_stores_and_results():
    a, b = stores(2)
    r = spectrum([a, b])
    p = run(H5SPEC, "verify", a, r)
    expect(p.out.splitlines() == [a + ": valid: 4 chunks, " + p.out.split("chunks, ")[1].split("\n")[0],
                                  r + ": valid result: 2 slides, 8 windows"], p.out)
    says(p.err, "2 valid, 0 failed", "peak memory")
    damaged = flipped_in(r, "slides/b/window_std_db")
    p = run(H5SPEC, "verify", a, damaged, status=1)
    expect(damaged not in p.out and len(p.err.splitlines()) == 2, "%s", p.out + p.err)
    folder = os.path.dirname(a)
    p = run(H5SPEC, "verify", "--json", folder, damaged, "/nowhere/x.h5", status=1)
    rows = json_lines(p.out)
    expect([(j["kind"], j["status"]) for j in rows] ==
           [("store", "valid"), ("store", "valid"), ("result", "failed"), ("store", "failed")], "%s", rows)
    expect([j["input"] for j in rows[:2]] == [a, b] and rows[0]["chunks"] == 4 and rows[0]["damaged_chunks"] == 0 and damaged in rows[2]["message"], "%s", rows)
    says(p.err, damaged, "/nowhere/x.h5", "2 valid, 2 failed")
    p = run(H5SPEC, "verify", "-q", a, r)
    expect(p.out == p.err == "", "messages in spite of -q: %s%s", p.out, p.err)


def test_verify_counts_the_tiles_of_the_slide():
    s = os.path.join(tmp(), "bad.h5")
    run(WSI2H5, "-q", "-o", s, made("--size", "600x500", "--levels", "2", "--garbage", "1,0", name="bad"), status=4)
    says(run(H5SPEC, "verify", s).out, "9 chunks", "tiles of the slide: 0 missing, 1 damaged, 0 left out")


def test_merge_says_what_it_made():
    a, b = stores(2)
    parts, out = [spectrum(a), spectrum(b)], os.path.join(tmp(), "m.h5")
    p = run(H5SPEC, "merge", "--json", "-o", out, *parts)
    (j,) = json_lines(p.out)
    expect(j["output"] == out and (j["results"], j["slides"], j["windows"]) == (2, 2, 8), "%s", j)
    expect(attributes_of(out)["mean_db"] == j["mean_db"], "%s", j)
    says(p.err, "merged 2 results into " + out + ": 2 slides, 8 windows", "peak memory")


# --- outputs ---

def test_a_damaged_result_is_computed_again():
    s, out = store(slide("damaged", "900x900")), tmp("out")
    run(H5SPEC, "run", "-q", "-o", out, s)
    path = os.path.join(out, "damaged.h5")
    good = content(path)
    for dataset in ("slides/damaged/window_mean_db", "slides/damaged/histogram", "histogram"):
        shutil.move(flipped_in(path, dataset), path)
        p = run(H5SPEC, "run", "--json", "-o", out, s)
        says(p.err, path, "computed again", "1 done")
        expect(content(path) == good, "%s: not repaired", dataset)
    says(run(H5SPEC, "run", "-o", out, s).err, "0 done, 1 skipped (up to date)")


def test_a_result_that_cannot_be_looked_at():
    (a,), out = stores(1), tmp("out")
    os.symlink("a.h5", os.path.join(out, "a.h5"))  # a link to itself
    says(run(H5SPEC, "run", "-o", out, a, status=1).err, "cannot look for its result", "symbolic links")


# --- progress ---

def on_a_terminal(argv, columns):
    """What a program prints on stderr, a terminal of so many columns."""
    master, slave = terminal()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    p = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    out = b""
    while True:
        try:
            select.select([master], [], [], TIMEOUT)
            data = os.read(master, 65536)
        except OSError:
            data = b""
        if not data:
            break
        out += data
    os.close(master)
    expect(p.wait(TIMEOUT) == 0, "%s: %s", argv, out)
    return out.decode()


NAME = "TCGA-A1-A0SB-01Z-00-DX1.B34C267B-CAAD-4C2B-8A0E-2F8D9B0B9A5D"


def long_names():
    folder = tmp("long")
    paths = [os.path.join(folder, NAME + end + ".h5") for end in ("", "X")]
    for path, size in zip(paths, ("3200x3200", "3100x3200")):
        shutil.copy(store(slide("big", size, "--levels", "1")), path)
    return paths


def drawn(text):
    """The progress lines of a terminal's output, in the order in which they were drawn."""
    return [part for part in re.split(r"\r\x1b\[K|\r\n", text) if "%" in part and " left" in part]


@later("ci")
def test_progress_fits_the_terminal():
    paths = long_names()
    for columns in (80, 40):
        text = on_a_terminal([H5SPEC, "run", "-j", "1", "--device", "cpu", "--stride", "32", "-o",
                              os.path.join(tmp(), "r.h5"), *paths], columns)
        lines = drawn(text)
        expect(len(lines) >= 2, "%s", text)
        for line in lines:
            expect(len(line) < columns, "%d of %d columns: %s", len(line), columns, line)
        says(lines[0], "1 of 2: TCGA", "…")
        if columns == 80:
            expect(re.search(r" \d+ %, [\d.]+ windows/s, [^.]* left in total$", lines[-1]), "%s", lines[-1])


def test_progress_of_wsi2h5_fits_the_terminal():
    big = slide("big", "3200x3200", "--levels", "1")
    folder = tmp("slides")
    for end in ("", "X"):
        os.symlink(big, os.path.join(folder, NAME + end + ".svs"))
    lines = drawn(on_a_terminal([WSI2H5, "-j", "1", "--codec", "deflate", "-o", tmp(), folder], 80))
    expect(len(lines) >= 2, "%s", lines)
    for line in lines:
        expect(len(line) < 80 and re.match(r"slide \d of 2: TCGA.*…", line), "%d columns: %s", len(line), line)
    says(lines[-1], "MP/s")


@later("ci")
def test_progress_of_verify_and_merge():
    paths = long_names()
    lines = drawn(on_a_terminal([H5SPEC, "verify", "-j", "1"] + paths * 8, 80))
    expect(lines and all(len(line) < 80 for line in lines), "%s", lines)
    expect(re.match(r"file \d+ of 16: TCGA.*…", lines[0]) and " MB/s" in lines[0], "%s", lines)
    (a,) = stores(1)
    copies = [shutil.copy(a, os.path.join(os.path.dirname(a), "%s-%03d.h5" % (NAME, k))) for k in range(120)]
    results = tmp("results")
    run(H5SPEC, "run", "-q", "--duplicates", "count", "--bins", "60000", "-o", results, *copies)
    lines = drawn(on_a_terminal([H5SPEC, "merge", "--duplicates", "count", "-o", os.path.join(tmp(), NAME * 2 + ".h5"),
                                 results], 80))
    expect(lines and all(len(line) < 80 for line in lines), "%s", lines)
    expect(re.match(r"TCGA.*…", lines[0]) and " slides/s" in lines[0], "%s", lines)


def test_messages_and_progress_do_not_mix():
    text = on_a_terminal([H5SPEC, "run", "-j", "1", "--device", "cpu", "--stride", "32", "-o", os.path.join(tmp(), "r.h5"),
                          store(slide("big", "3200x3200", "--levels", "1"))], 80)
    says(text, "\r\x1b[Kh5spec: 1 done")


# --- messages ---

def test_a_stopped_run_says_what_is_left():
    paths = long_names()
    results = tmp("results")
    p = subprocess.Popen([H5SPEC, "run", "-j", "1", "--device", "cpu", "--stride", "16", "-o", results, *paths],
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_until_caught(p, signal.SIGINT)
    p.send_signal(signal.SIGINT)
    err = p.communicate(timeout=TIMEOUT)[1].decode()
    expect(p.returncode == 3, "%d: %s", p.returncode, err)
    says(err, "stopped by signal 2", "0 done, 0 failed, 2 not computed")
    expect(stores_in(results) == [], "%s", stores_in(results))


def test_names_cannot_move_the_cursor():
    folder = tmp("evil")
    s = shutil.copy(stores(1)[0], os.path.join(folder, "a\x1b[2J\x9bb.h5"))
    missing = os.path.join(folder, "no\x1b[2J\r.h5")
    out = os.path.join(folder, "r\x1b[2J.h5")
    for argv in (["run", "-o", out, s], ["run", "-o", os.path.join(tmp(), "x.h5"), s, missing], ["verify", s, missing],
                 ["merge", "-o", os.path.join(tmp(), "x.h5"), out], ["lookup", s], ["lookup", missing], ["info", s, out],
                 ["info", missing], ["tune", s], ["tune", missing], ["run", "-o", folder, folder]):
        p = run(H5SPEC, *argv, status=None)
        for text in (p.stdout if argv != ["lookup", s] else b"", p.stderr):
            expect(b"\x1b" not in text and b"\xc2\x9b" not in text and b"\r" not in text, "%s: %s", argv[0], text)


def test_a_full_stdout_is_reported():
    (a,) = stores(1)
    for argv in ([H5SPEC, "info", a], [H5SPEC, "lookup", a], [H5SPEC, "verify", a], [H5SPEC, "--help"],
                 [WSI2H5, "--json", "-o", tmp(), slide()]):
        with open("/dev/full", "w") as full:
            p = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, timeout=TIMEOUT)
        expect(p.returncode == 5, "%s: status %d", argv, p.returncode)
        says(p.stderr.decode(), os.path.basename(argv[0]) + ": cannot write to standard output")


def test_a_limit_on_file_sizes_is_reported():
    (a,) = stores(1)
    for program, argv in ((H5SPEC, ["run", "-o", "r.h5", a]), (WSI2H5, ["-o", "r.h5", slide()])):
        out = tmp("limit")
        p = run(program, *argv, status=5, cwd=out, preexec_fn=small_files(4096))
        says(p.err, "File too large")
        expect(stores_in(out) == [], "left: %s", stores_in(out))


def test_closed_descriptors_do_not_damage_a_result():
    (a,) = stores(1)
    missing = ["/nowhere/%d.h5" % k for k in range(4000)]
    for closing in ("2>&-", ">&-", "<&-", "<&- >&- 2>&-"):
        out = os.path.join(tmp(), "r.h5")
        script = 'exec "$@" ' + closing
        subprocess.run(["sh", "-c", script, "sh", H5SPEC, "run", "--json", "--device", "cpu", "-o", out, a, *missing],
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=TIMEOUT)
        run(H5SPEC, "merge", "-q", "-o", os.path.join(tmp(), "m.h5"), out)


main(globals())
