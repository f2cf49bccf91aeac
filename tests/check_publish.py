"""A file appears under its final name only once it is complete."""
import errno
import fcntl
import socket

import h5py

import dicomfile
from check_cuda import STUB
from check_windows import BOX
from lib import *
from tiffpatch import TILE_BYTES, TILE_OFFSETS, Tiff


def slide():
    """Large enough to be stopped in the middle."""
    return made("--size", "6000x5000", "--tissue-fraction", "0.9", name="large")


def small():
    return made("--size", "600x500", name="small")


def stop(argv, signal_number, after, folder):
    """Starts a program, sends it a signal after so many seconds; returns its status and words."""
    p = subprocess.Popen(with_codec([str(a) for a in argv]), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        p.wait(after)
    except subprocess.TimeoutExpired:
        p.send_signal(signal_number)
    begun = time.time()
    _, err = p.communicate(timeout=TIMEOUT)
    expect(SAN or time.time() - begun < 5, "it took %.1f s to stop", time.time() - begun)
    return p.returncode, err.decode()


def stop_somewhere(argv, folder, name):
    """Stops the program at many instants: each time either stopped cleanly, or done."""
    stopped = 0
    begun = time.time()
    run(*argv)
    whole = open(os.path.join(folder, name), "rb").read() if name.startswith("large") else None
    long = time.time() - begun
    for k in range(12):
        if os.path.exists(os.path.join(folder, name)):
            os.unlink(os.path.join(folder, name))
        number = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGXCPU)[k % 4]
        status, err = stop(argv, number, long * k / 12, folder)
        there = os.path.exists(os.path.join(folder, name))
        expect(left_overs(folder) == [], "signal %s left %s", number, left_overs(folder))
        if status in (-number,):  # before the handler was in place: nothing was begun
            expect(not there, "killed at the start, and yet there is a file")
        elif status == 3:
            stopped += 1
            says(err, "stopped by signal")
            expect(not there, "stopped, and yet there is a file")
        else:
            expect(status == 0 and there, "status %d: %s", status, err)
            expect(whole is None or open(os.path.join(folder, name), "rb").read() == whole, "it differs")
    expect(stopped >= 3, "stopped only %d times of 12: the test shows nothing", stopped)


@later("ci")
def test_signals_stop_wsi2h5():
    out = tmp()
    stop_somewhere([WSI2H5, "-q", "-o", out, slide()], out, "large.h5")


@later("ci")
def test_signals_stop_many_small_slides():
    """Slides that are converted at once when the signal comes leave nothing."""
    slides = tmp("many")
    for k in range(40):
        shutil.copy(small(), os.path.join(slides, "%02d.svs" % k))
    out = os.path.join(tmp(), "o")
    argv = [WSI2H5, "-j", "3", "-o", out, slides]
    begun = time.time()
    run(*argv)
    long, stopped = time.time() - begun, 0
    for k in range(8):
        shutil.rmtree(out, ignore_errors=True)  # an early signal leaves no folder
        status, err = stop(argv, (signal.SIGINT, signal.SIGTERM)[k % 2], long * (k + 1) / 9, out)
        if not os.path.isdir(out):
            continue
        expect(left_overs(out) == [], "left %s", left_overs(out))
        stopped += status == 3
        if status == 3:
            says(err, "stopped by signal")
        if stores_in(out):
            run(H5SPEC, "verify", "-q", out)
    expect(stopped >= 2, "stopped only %d times of 8: the test shows nothing", stopped)


def test_signals_stop_h5spec():
    s, out = store(slide()), tmp()
    stop_somewhere([H5SPEC, "-q", "--device", "cpu", "-o", os.path.join(out, "r.h5"), s], out, "r.h5")


# --- one file of a run that ends early ---

def four_stores(last="3000x2000"):
    """A folder of three small slides and one, the last by name, that takes longer."""
    folder = tmp("stores")
    for k in range(3):
        shutil.copy(store(made("--size", "600x500", "--seed", str(k), name="s%d" % k)), folder)
    shutil.copy(store(made("--size", last, name="z")), folder)
    return folder


def stopped_in_the_last(out, folder, number=signal.SIGINT, options=(), status=3, at_last=lambda: None):
    """Stops a run into one file in its last slide. Returns what it says."""
    ours, theirs = terminal()
    p = subprocess.Popen([H5SPEC, "run", "--device", "cpu", "--progress", "yes", "--stride", "16", *options, "-o", out, folder],
                         stderr=theirs, stdout=subprocess.DEVNULL)
    os.close(theirs)
    seen = b""
    try:
        while True:
            seen += os.read(ours, 65536)
            if b"z.h5" in seen and number:
                at_last()
                p.send_signal(number)
                number = 0
    except OSError:  # closed at the other end
        os.close(ours)
    expect(p.wait(TIMEOUT) == status, "status %d: %s", p.returncode, seen)
    return seen.decode()


def goes_on(out, folder, *options, status=0):
    return run(H5SPEC, "run", "--device", "cpu", "--stride", "16", "--json", *options, "-o", out, folder, status=status)


def test_a_stopped_run_into_one_file_goes_on():
    folder, whole = four_stores(), os.path.join(tmp(), "whole.h5")
    run(H5SPEC, "run", "-q", "--device", "cpu", "--stride", "16", "-o", whole, folder)
    for number in (signal.SIGINT, signal.SIGTERM):
        out = os.path.join(tmp(), "one.h5")
        says(stopped_in_the_last(out, folder, number), "3 done, 0 failed, 1 not computed; those done are kept in %s.partial, and "
             "this command goes on from there" % out)
        expect(os.listdir(os.path.dirname(out)) == ["one.h5.partial"], "%s", os.listdir(os.path.dirname(out)))
        run(H5SPEC, "verify", out + ".partial")  # a result as any other
        run(H5SPEC, "report", "-q", "-o", os.path.join(tmp(), "r.html"), out + ".partial")
        p = goes_on(out, folder)
        says(p.err, "3 of 4 slides are taken from there", "4 done (3 by an earlier run), 0 failed")
        expect([d["status"] for d in json_lines(p.out)] == ["done"] * 4, "%s", p.out)
        says(run(H5SPEC, "compare", whole, out).out + run(H5SPEC, "compare", whole, out).err, "4 identical")
        expect(os.listdir(os.path.dirname(out)) == ["one.h5"], "%s", os.listdir(os.path.dirname(out)))


def partial_of(folder, out, *options):
    """What a stopped run has left: of all slides but the last."""
    run(H5SPEC, "run", "-q", "--force", "--device", "cpu", "--stride", "16", *options, "-o", out, *sorted(glob.glob(folder + "/s*.h5")))
    os.rename(out, out + ".partial")


@later("ci")
def test_what_is_taken_from_a_partial_result():
    """How a run ends that finds a partial result: how many slides it takes, and what it says."""
    folder = four_stores("700x600")
    whole = os.path.join(tmp(), "whole.h5")
    run(H5SPEC, "run", "-q", "--device", "cpu", "--stride", "16", "-o", whole, folder)
    out = os.path.join(tmp(), "one.h5")

    def other_store(out):
        run(WSI2H5, "-q", "--force", "-o", os.path.join(folder, "s1.h5"), made("--size", "600x500", "--seed", "77", name="s1"))

    def other_groups(out):
        run(WSI2H5, "-q", "--force", "--stripe-rows", "240", "--group-bytes", "1", "-o", os.path.join(folder, "s1.h5"),
            made("--size", "600x500", "--seed", "1", name="s1"))

    def torn(out):
        os.truncate(out + ".partial", os.path.getsize(out + ".partial") // 2)
    for options, change, taken, words in (
            ((), None, 3, "3 of 4 slides are taken from there"),
            (("--live", tmp("live") + "/"), None, 3, "3 of 4 slides are taken from there"),
            (("--sigma", "2"), None, 0, "one.h5.partial: has other parameters (existing and new: "),
            (("--force",), None, 0, "4 done, 0 failed"),
            ((), torn, 0, "all slides are computed again"),
            ((), other_groups, 2, "its store has changed since; computed again"),
            ((), other_store, 2, "its store has changed since; computed again")):
        partial_of(folder, out)
        if change:
            change(out)
        p = goes_on(out, folder, *options)
        says(p.err, words, "4 done (%d by an earlier run)" % taken if taken else "4 done, ")
        expect(os.listdir(os.path.dirname(out)) == ["one.h5"], "%s: %s", options, os.listdir(os.path.dirname(out)))
        run(H5SPEC, "verify", "-q", out)
        if not options:
            same = run(H5SPEC, "compare", whole, out, status=None)
            says(same.err, "%d identical" % (3 if change is other_store else 4))


def test_a_partial_result_of_other_slides_is_not_lost():
    folder, out = four_stores("700x600"), os.path.join(tmp(), "one.h5")
    partial_of(folder, out)
    before = bytes_in(out + ".partial")
    one = os.path.join(folder, "s0.h5")
    says(goes_on(out, one, status=2).err, "one.h5.partial", "s1", "--force")
    expect(bytes_in(out + ".partial") == before, "it was changed")
    put_file(out + ".partial", "a text")
    says(goes_on(out, folder, status=1).err, "one.h5.partial")
    expect(text_in(out + ".partial") == "a text", "it was replaced")


def test_a_killed_run_and_another_program_leave_a_partial_result():
    """SIGKILL changes nothing; of two programs, the one with fewer slides does not replace the other's."""
    folder, out = four_stores(), os.path.join(tmp(), "one.h5")
    stopped_in_the_last(out, folder, signal.SIGKILL, status=-signal.SIGKILL)
    expect(not os.path.exists(out + ".partial"), "kept by a killed run")
    partial_of(folder, out)
    before = bytes_in(out + ".partial")
    stopped_in_the_last(out, folder, signal.SIGKILL, status=-signal.SIGKILL)
    expect(bytes_in(out + ".partial") == before, "it was changed")
    os.unlink(out + ".partial")
    whole = os.path.join(tmp(), "whole.h5")
    run(H5SPEC, "run", "-q", "--device", "cpu", "--stride", "16", "-o", whole, folder)
    says(stopped_in_the_last(out, folder, at_last=lambda: shutil.copy(whole, out + ".partial")), "goes on from there")
    says(goes_on(out, folder).err, "4 done (4 by an earlier run)")
    expect(os.listdir(os.path.dirname(out)) == ["one.h5"], "%s", os.listdir(os.path.dirname(out)))
    says(stopped_in_the_last(out, folder, options=("--force",)), "this command without --force goes on from there")


# who ran before and who goes on; the options of both runs; how many of three slides are taken, or the status; what is said
TUMOR = ("--roi-class", "Tumor")
CROSSED = (
    ("cpu", "cpu", (), (), 3, "slides are taken from there"),
    ("cuda", "cuda", (), (), 3, "slides are taken from there"),
    ("cpu", "cuda", (), (), 3, "slides are taken from there"),
    ("cuda", "cpu", ("--tissue-only",), ("--tissue-only",), 3, "slides are taken from there"),
    ("cuda", "cuda", ("--tissue-only",), (), 0, "has other parameters (existing and new: "),
    ("cpu", "cpu", ("--roi", "ROI"), ("--roi", "ROI"), 3, "slides are taken from there"),
    ("cuda", "cuda", ("--roi", "ROI"), ("--roi", "ROI"), 3, "slides are taken from there"),
    ("cpu", "cpu", ("--roi", "ROI"), ("--roi", "MOVED"), 0, "of other regions (--roi) than now; computed again"),
    ("cuda", "cuda", ("--roi", "ROI"), ("--roi", "MOVED"), 0, "of other regions (--roi) than now; computed again"),
    ("cpu", "cpu", ("--roi", "ROI"), ("--roi", "ROI", *TUMOR), 0, "has other parameters (existing and new: "),
    ("cpu", "cpu", ("--roi", "ROI"), (), 0, "has other parameters (existing and new: "),
    ("cpu", "cpu", ("--groups", "1-2"), ("--groups", "1-2"), 1, "1 of 1 slides are taken from there"),
    ("cuda", "cuda", ("--groups", "1-2"), ("--groups", "1-2"), 1, "1 of 1 slides are taken from there"),
    ("cpu", "cpu", ("--groups", "1-2"), ("--groups", "3-3"), 0, "1 done, 0 failed"),
    ("cpu", "cpu", (), ("--groups", "1-2"), "refused", "has 2 slides that are not among the inputs, such as s1"),
    ("cpu", "cpu", (), ("--list", "LIST"), 3, "slides are taken from there"),
    ("cpu", "cpu", ("merge", H5SPEC), (), 3, "slides are taken from there"),
    ("cpu", "cpu", ("merge", TABLES), (), 3, "slides are taken from there"))


def three_stores():
    folder = tmp("stores")
    for k in range(3):
        run(WSI2H5, "-q", "--stripe-rows", "240", "--group-bytes", "1", "-o", folder + "/s%d.h5" % k,
            made("--size", "900x800", "--seed", str(k), name="s%d" % k))
    return folder


def regions_of(name, move):
    box = json.loads(json.dumps(BOX))
    for corner in box["geometry"]["coordinates"][0]:
        corner[0] += move
    folder = tmp(name)
    for k in range(3):
        put_file(os.path.join(folder, "s%d.geojson" % k), json.dumps(box))
    return folder


@later("ci")
def test_a_partial_result_crosses_devices_regions_groups_and_merged_files():
    stores, results = three_stores(), tmp("results") + "/"
    run(H5SPEC, "run", "-q", "--device", "cpu", "-o", results, stores)
    places = {"ROI": regions_of("roi", 0), "MOVED": regions_of("moved", 40),
              "LIST": file_of("list", "".join("%s/s%d.h5\n" % (stores, k) for k in range(3)))}

    def go(who, out, options, status):
        options = [places.get(o, o) for o in options]
        inputs = [os.path.join(stores, "s0.h5")] if "--groups" in options else [] if "--list" in options else [stores]
        return run(H5SPEC if who == "cpu" else STUB, "run", "--device", who, "-o", out, *options, *inputs, status=status)
    for row in CROSSED:
        before, now, first, second, taken, words = row
        if "cuda" in row and not os.path.exists(STUB):
            continue
        out = os.path.join(results, "one.h5")  # where a table finds what it refers to
        if first[:1] == ("merge",):
            run(first[1], "merge", "-q", "-o", out, *sorted(glob.glob(results + "s*.h5")))
        else:
            go(before, out, first, 0)
        os.rename(out, out + ".partial")
        if taken == "refused":
            says(go(now, out, second, 2).err, words)
            os.unlink(out + ".partial")
            continue
        slides = 1 if "--groups" in second else 3
        says(go(now, out, second, 0).err, words, "%d done%s, 0 failed" % (slides, " (%d by an earlier run)" % taken if taken else ""))
        expect(sorted(os.listdir(results)) == ["one.h5", "s0.h5", "s1.h5", "s2.h5"], "%s: %s", row, os.listdir(results))
        run(H5SPEC, "verify", "-q", out)
        if now == before == "cpu":  # as if no run had been there before
            whole = os.path.join(tmp(), "whole.h5")
            go(now, whole, second, 0)
            says(run(H5SPEC, "compare", whole, out).err, "%d identical" % slides)
        os.unlink(out)


def test_a_partial_result_is_an_input_by_its_name_alone():
    """Every command reads it; a search of its folder, as of a corpus, does not."""
    stores, results = three_stores(), tmp("results") + "/"
    run(H5SPEC, "run", "-q", "--device", "cpu", "-o", results, stores)
    one = tmp() + "/one.h5"
    run(H5SPEC, "run", "-q", "--device", "cpu", "-o", one, os.path.join(stores, "s0.h5"), os.path.join(stores, "s1.h5"))
    partial = results + "one.h5.partial"
    os.rename(one, partial)
    out = tmp()
    says(run(H5SPEC, "info", partial).out + run(H5SPEC, "verify", partial).out, "s0", "s1")
    for command in (("merge", "-o", out + "/m.h5"), ("report", "-o", out + "/r.html"), ("map", "-o", out + "/maps"), ("plot", "-o", out + "/p.svg")):
        if command[0] in run(H5SPEC, "--help").out:
            run(H5SPEC, *command, partial)
    says(run(H5SPEC, "compare", partial, out + "/m.h5").err, "2 identical")
    says(run(H5SPEC, "run", "-o", out + "/x.h5", partial, status=1).err, "one.h5.partial: is a result; a store made by wsi2h5 is needed")
    says(run(H5SPEC, "merge", "-o", out + "/all.h5", results).err, "merged 3 results")


def test_two_signals_at_once_are_one():
    # as `timeout` and schedulers send them: to the process and to its group
    out = tmp()
    for k in range(6):
        p = subprocess.Popen([WSI2H5, "-q", "--codec", "deflate", "-o", out, slide()], stderr=subprocess.PIPE)
        time.sleep(0.05 + 0.02 * k)
        p.send_signal(signal.SIGTERM)
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=TIMEOUT)
        expect(left_overs(out) == [] and p.returncode in (3, -signal.SIGTERM), "status %d, left %s",
               p.returncode, left_overs(out))


def test_signals_stop_a_merge():
    parts = [spectrum(store(made("--size", "300x300", "--seed", str(k), name="m%d" % k))) for k in range(3)]
    out = tmp()
    argv = [H5SPEC, "merge", "-o", os.path.join(out, "m.h5")] + parts * 1
    begun = time.time()
    run(*argv)
    long = time.time() - begun
    for k in range(8):
        if os.path.exists(os.path.join(out, "m.h5")):
            os.unlink(os.path.join(out, "m.h5"))
        status, _ = stop(argv, signal.SIGTERM, long * k / 8, out)
        there = os.path.exists(os.path.join(out, "m.h5"))
        expect(left_overs(out) == [] and (status == 0) == there, "status %d, left %s", status, stores_in(out))


def test_finished_store_is_kept():
    out = tmp()
    path = os.path.join(out, "small.h5")
    run(WSI2H5, "-o", out, small())
    os.utime(path, (1, 2 ** 31 - 1))
    says(run(WSI2H5, "-o", out, small()).err, "0 converted", "1 skipped (up to date)")
    expect(os.stat(path).st_mtime == 2 ** 31 - 1, "it was written again")
    says(run(WSI2H5, "--force", "-o", out, small()).err, "1 converted")
    expect(os.stat(path).st_mtime < 2 ** 31 - 1, "--force did nothing")


def test_store_of_another_slide_is_never_taken():
    for change in (("--seed", "9"), ("--flip", "1,0")):  # a damaged tile: the size of the file is the same
        out = tmp()
        a, b = made("--size", "600x500", name="x"), made("--size", "600x500", *change, name="x")
        expect((os.path.getsize(a) == os.path.getsize(b)) == ("--flip" in change), "sizes")
        run(WSI2H5, "-o", out, a)
        data = bytes_in(os.path.join(out, "x.h5"))
        b = shutil.copy(b, tmp())
        os.utime(b, (2 ** 31 - 1, 2 ** 31 - 1))  # newer than the store, but in another folder
        says(run(WSI2H5, "-o", out, b, status=1).err, b, "another slide", "--force")
        expect(bytes_in(os.path.join(out, "x.h5")) == data, "it was replaced")
        run(WSI2H5, "--force", "-o", out, b, status=4 if "--flip" in change else 0)
        expect(bytes_in(os.path.join(out, "x.h5")) != data, "it was not replaced")


def test_store_with_other_settings_is_not_taken():
    out, s = tmp(), made("--size", "2048x2048", "--tile", "256", "--levels", "2", name="levels")
    run(WSI2H5, "-o", out, s)
    for options in (["--gray"], ["--codec", "none"], ["--stripe-rows", "512"], ["--keep-identifiers"], ["--level", "1"]):
        says(run(WSI2H5, "-o", out, *options, s, status=1).err, s, options[0], "--force")
    run(WSI2H5, "-o", out, "--gray", "--force", s)
    expect(attributes_of(os.path.join(out, "levels.h5"))["channels"] == 1, "channels")


def test_half_files_are_made_again():
    data = open(store(small()), "rb").read()
    with h5py.File(store(small()), "r") as f:
        first = f["groups/00001/pixels"].id.get_chunk_info_by_coord((0, 0, 0)).byte_offset
    for n in (8, 48, 100, first, len(data) // 2, len(data) - 1):
        out = tmp()
        put_file(os.path.join(out, "small.h5"), data[:n])
        if n > 20000:
            says(run(WSI2H5, "-o", out, small()).err, "1 converted")
            expect(open(os.path.join(out, "small.h5"), "rb").read() == data, "%d bytes: it differs", n)
        else:  # too short to tell whose it is
            says(run(WSI2H5, "-o", out, small(), status=1).err, "not overwritten")


def test_store_without_its_mark_is_made_again():
    out = tmp()
    path = os.path.join(out, "small.h5")
    for mark in (0, 2):
        shutil.copy(store(small()), path)
        with h5py.File(path, "r+", libver=("v110", "v110")) as f:
            f.attrs["complete"] = 0 * f.attrs["complete"] + mark
        says(run(H5SPEC, "verify", path, status=1).err, "not complete")
        says(run(WSI2H5, "-o", out, small()).err, "1 converted")


def test_remains_of_killed_runs_go_away():
    out = tmp()
    p = subprocess.Popen([WSI2H5, "-q", "--codec", "deflate", "-o", out, slide()], stderr=subprocess.PIPE, start_new_session=True)
    for _ in range(2000):
        if any(f.endswith(".part") for f in stores_in(out)):
            break
        time.sleep(0.005)
    os.killpg(p.pid, signal.SIGKILL)
    p.communicate()
    expect(len(left_overs(out)) == 1, "nothing to clean: %s", stores_in(out))
    old_file(os.path.join(out, ".large.h5.otherhost-1073741824-1.part"))
    run(WSI2H5, "-q", "-o", out, slide())
    expect(left_overs(out) == [], "left: %s", left_overs(out))  # that of another host, too: it has not grown for a day


def test_names_of_slides_as_long_as_a_file_system_allows():
    """A slide's name of 244 bytes could not be converted: the temporary name was too long."""
    folder, out = tmp(), tmp()
    stems = ["x" * 244, "\u67d3" * 83, "x" * 251, "x" * 250 + "y"]  # up to 255 bytes with .svs
    for stem in stems:
        shutil.copy(small(), os.path.join(folder, stem + ".svs"))
    says(run(WSI2H5, "-o", out, folder).err, "4 converted")
    expect(sorted(os.listdir(out)) == sorted(stem + ".h5" for stem in stems), "%s", os.listdir(out))
    result = os.path.join(tmp(), "r.h5")
    run(H5SPEC, "run", "-q", "--duplicates", "count", "-o", result, out)
    expect(slide_names(result) == sorted(stems), "%s", slide_names(result))
    big, left = os.path.join(out, stems[2] + ".h5"), lambda: [f for f in os.listdir(out) if f.endswith(".part")]
    p = subprocess.Popen([WSI2H5, "-q", "--codec", "deflate", "-o", big, "--force", slide()], stderr=subprocess.PIPE,
                         start_new_session=True)
    while not left() and p.poll() is None:
        time.sleep(0.005)
    os.killpg(p.pid, signal.SIGKILL)
    p.communicate()
    expect(len(left()) == 1 and ".h5." in left()[0], "nothing to clean: %s", left())
    run(WSI2H5, "-q", "--force", "-o", os.path.join(out, stems[3] + ".h5"), small())
    expect(len(left()) == 1, "the file of another name is gone")
    run(WSI2H5, "-q", "--force", "-o", big, small())
    expect(not left(), "left: %s", left())


@later("ci")
def test_a_living_writer_s_file_is_not_taken_away():
    out = tmp()
    p = subprocess.Popen([WSI2H5, "-q", "--codec", "deflate", "-j", "1", "-o", out, slide()], stderr=subprocess.PIPE)
    while not any(f.endswith(".part") for f in stores_in(out)) and p.poll() is None:
        time.sleep(0.005)
    run(WSI2H5, "-q", "-o", out, slide())
    _, err = p.communicate(timeout=TIMEOUT)
    expect(p.returncode == 0, "the first writer was disturbed: %s", err)
    run(H5SPEC, "verify", os.path.join(out, "large.h5"))


class Tmpfs:
    """A small file system of its own."""

    def __init__(self, kib):
        self.kib = kib

    def __enter__(self):
        self.path = tmp("tmpfs")
        p = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dk" % self.kib, "tmpfs", self.path],
                           stderr=subprocess.PIPE)
        if p.returncode:
            raise Skip("cannot mount a tmpfs: %s" % p.stderr.decode().strip())
        return self.path

    def __exit__(self, *_):
        subprocess.run(["umount", self.path], check=True)


def fill_disks(need, argv, name, check):
    """Runs into disks of growing size: fails cleanly, or is done and whole (files have holes)."""
    failed = 0
    for kib in range(4, need, max(1, need // 24)):
        with Tmpfs(kib) as out:
            p = run(*argv(out), status=None)
            if p.returncode == 0:
                check(os.path.join(out, name))
                continue
            failed += 1
            expect(p.returncode == 5, "%d KiB: status %d", kib, p.returncode)
            says(p.err, out, "pace left")
            expect(stores_in(out) == [], "%d KiB: left %s", kib, stores_in(out))
    expect(failed >= 5, "only %d disks were full: the test shows nothing", failed)


def test_disk_full():
    s = store(small())
    for whole, argv, name, check in ((s, lambda out: [WSI2H5, "-o", out, small()], "small.h5", "verify"),
                                     (spectrum(s), lambda out: [H5SPEC, "-o", os.path.join(out, "r.h5"), s], "r.h5", "info")):
        fill_disks(os.path.getsize(whole) // 1024, argv, name, lambda path: run(H5SPEC, check, path))


def test_too_little_space_is_noticed_before_the_work():
    large = store(slide(), "--codec", "none")
    with Tmpfs(os.path.getsize(large) // 1024 - 8000) as out:
        p = run(WSI2H5, "--codec", "none", "-o", out, slide(), status=5)
        says(p.err, slide(), "too little disk space left", "are free")
        expect(stores_in(out) == [], "left %s", stores_in(out))


def test_space_for_exactly_one_store_is_enough():
    whole_tiles = made("--size", "2400x480", "--no-thumbnail", name="whole-tiles")
    kib = os.path.getsize(store(whole_tiles, "--codec", "none")) // 1024
    with Tmpfs(kib + 200) as out:
        run(WSI2H5, "--codec", "none", "-o", out, whole_tiles)


def test_writes_that_fail_anywhere():
    # the library's own failures, at every point of the file
    need = os.path.getsize(store(small()))
    for limit in range(2000, need, need // 40):
        out = tmp()
        p = run(WSI2H5, "-o", out, small(), made("--size", "300x300", name="second"), status=None,
                preexec_fn=small_files(limit))
        expect(p.returncode == 5, "limit %d: status %d", limit, p.returncode)
        says(p.err, small(), "too large")
        expect(set(stores_in(out)) <= {"second.h5"}, "limit %d: left %s", limit, stores_in(out))


def test_disk_full_for_maps():
    result = spectrum(store(small()))
    for kib in (4, 12, 40):
        with Tmpfs(kib) as out:
            p = run(H5SPEC, "map", "-q", "--format", "all", "-o", os.path.join(out, "m"), result, status=5)
            says(p.err, out, "pace left")


def test_disk_full_in_the_middle_of_many():
    tiny = made("--size", "260x260", "--tissue", "none", name="tiny")
    need = os.path.getsize(store(small())) // 1024
    with Tmpfs(max(need * 3 // 4, os.path.getsize(store(tiny)) // 1024 + 8)) as out:
        p = run(WSI2H5, "-j", "1", "-o", out, small(), tiny, status=5)  # two at once need space at once
        says(p.err, small(), "1 converted", "1 failed")
        expect(stores_in(out) == ["tiny.h5"], "left %s", stores_in(out))
        run(H5SPEC, "verify", os.path.join(out, "tiny.h5"))


def test_a_result_that_cannot_be_written_is_not_done():
    s, folder = store(made("--size", "400x300")), tmp()
    for out, words in ((os.path.join(folder, "r.h5"), "0 done, 0 failed, 1 not computed, nothing written: 0 windows"),
                       (folder + "/", "0 done, 0 failed, 1 not computed: 0 windows")):
        p = run(H5SPEC, "run", "--device", "cpu", "-o", out, s, status=5, preexec_fn=small_files(1024))
        says(p.err, "cannot write", words)
        expect(stores_in(folder) == [], "%s", stores_in(folder))


def test_progress_goes_to_stderr():
    for argv in ([WSI2H5, "-j", "1", "--codec", "deflate", "-o", tmp(), slide()],
                 [H5SPEC, "--device", "cpu", "-j", "1", "--stride", "32", "-o", os.path.join(tmp(), "r.h5"), store(slide())]):
        master, slave = terminal()
        p = subprocess.Popen([str(a) for a in argv] + ["--progress", "yes"], stdout=subprocess.PIPE, stderr=slave)
        os.close(slave)
        seen = b""
        try:
            while True:
                seen += os.read(master, 4096)
        except OSError:  # closed at the other end
            pass
        os.close(master)
        out = p.stdout.read()
        expect(p.wait() == 0 and out == b"", "on stdout: %r", out[:200])
        says(seen.decode(), " %, ", "left")


def part_name(base, host, pid):
    return ".%s.%s-%d-1.part" % (base, host, pid)


def old_file(path, hours=25):
    """An empty file that was written so long ago."""
    open(path, "w").close()
    os.utime(path, (time.time() - hours * 3600,) * 2)


def this_host():
    return "".join("_" if c in "-/." else c for c in socket.gethostname()[:63])


def test_which_remains_stay():
    """Of this host those of living processes and locked ones; of another one what has grown within a day, whatever its lock says."""
    out, host, gone = tmp(), this_host(), 2 ** 30  # above any pid_max
    other = host[:-1] + ("x" if host[-1] != "x" else "y")
    living = part_name("small.h5", host, os.getppid() if os.getppid() > 1 else os.getpid())
    held = part_name("small.h5", host, gone)
    foreign, foreign_held, foreign_old = (part_name("small.h5", other, gone + k) for k in range(3))
    namesake = part_name("small2.h5", host, gone)
    left = part_name("small.h5", host, gone + 1)
    for name in (living, held, namesake, left):
        old_file(os.path.join(out, name), 0)
    for name, hours in ((foreign, 23), (foreign_held, 25), (foreign_old, 25)):
        old_file(os.path.join(out, name), hours)
    with open(os.path.join(out, held)) as f, open(os.path.join(out, foreign_held)) as g:
        fcntl.flock(f, fcntl.LOCK_EX)
        fcntl.flock(g, fcntl.LOCK_EX)
        run(WSI2H5, "-q", "-o", os.path.join(out, "small.h5"), small())
        expect(sorted(left_overs(out)) == sorted([living, held, foreign, foreign_held, namesake]), "left: %s", left_overs(out))
        run(WSI2H5, "-q", "-o", out, small())  # a folder: those of all its files
    expect(sorted(left_overs(out)) == sorted([living, held, foreign, foreign_held]), "left: %s", left_overs(out))


def test_programs_on_other_nodes_whose_locks_do_not_reach_this_one():
    """Locks of a mount can be local to a node: a run that began on another one removed what was being written."""
    library = preloaded("int flock(int fd, int how) { (void)fd; (void)how; return 0; }")
    elsewhere = ["unshare", "--uts", "sh", "-c", "hostname elsewhere && exec env LD_PRELOAD=%s \"$@\"" % library, "sh"]
    if subprocess.run([*elsewhere, "true"], stderr=subprocess.DEVNULL).returncode:
        raise Skip("no host name of its own can be had")
    for others in ([WSI2H5, "-q", "-o"], [H5SPEC, "run", "-q", "--device", "cpu", "-o"]):
        out = tmp()
        p = subprocess.Popen([WSI2H5, "-q", "--codec", "deflate", "-j", "1", "-o", out, slide()], stderr=subprocess.PIPE)
        while not left_overs(out) and p.poll() is None:
            time.sleep(0.005)
        p.send_signal(signal.SIGSTOP)
        run(*elsewhere, *others, out, small() if others[0] == WSI2H5 else store(small()))
        expect(len(left_overs(out)) == 1 and p.poll() is None, "%s took it away", others)
        p.send_signal(signal.SIGCONT)
        _, err = p.communicate(timeout=TIMEOUT)
        expect(p.returncode == 0, "%d %s", p.returncode, err)


def test_a_machine_without_a_name_is_not_another_one_without_a_name():
    out = tmp()
    foreign = os.path.join(out, part_name("small.h5", "localhost", 2 ** 30))
    open(foreign, "w").close()
    argv = ["unshare", "--uts", "sh", "-c", "hostname localhost && exec \"$@\"", "sh"]
    if subprocess.run([*argv, "true"], stderr=subprocess.DEVNULL).returncode:
        raise Skip("no host name of its own can be had")
    run(*argv, WSI2H5, "-q", "-o", out, small())
    expect(os.path.exists(foreign), "it was removed")


GONE = r"""
#include <sys/stat.h>
int fsync(int fd) /* another program removes the file that is about to get its name */
{
    char name[64], path[4096] = "";
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (readlink(name, path, sizeof path - 1) > 0 && strstr(path, ".part"))
        unlink(path);
    return 0;
}
"""


def test_a_file_of_ours_that_vanished_is_trouble():
    """Status 5, not a bad slide; for every writer."""
    env, s, folder = dict(os.environ, LD_PRELOAD=preloaded(GONE)), store(small()), tmp()
    result = spectrum(s)
    of = lambda name: os.path.join(folder, name)  # noqa: E731
    for argv in ([WSI2H5, "--json", "-o", of("s/"), small()], [H5SPEC, "run", "--json", "--device", "cpu", "-o", of("r/"), s],
                 [H5SPEC, "run", "--json", "--device", "cpu", "-o", of("one.h5"), s], [H5SPEC, "merge", "-o", of("m.h5"), result],
                 [H5SPEC, "report", "-q", "-o", of("r.html"), result], [H5SPEC, "report", "-q", "--csv", of("r.csv"), "-o", of("c.html"), result],
                 [H5SPEC, "plot", "-o", of("p.svg"), result], [H5SPEC, "map", "-q", "--format", "all", "-o", of("maps"), result],
                 [H5SPEC, "map", "-q", "--format", "geojson", "--feature", "focus", "--class", "x", "--above", "-99", "-o", of("g"), result]):
        p = run(*argv, status=5, env=env)
        says(p.err, "the temporary file is gone", "run again")
        for line in json_lines(p.out):
            expect(line["status"] == "failed" and line["cause"] == "trouble", "%s", line)
        expect([f for _, _, files in os.walk(folder) for f in files if f != "failed.csv"] == [], "%s", argv)


def test_remains_go_away_whichever_way_the_next_run_ends():
    host, gone, bad = this_host(), 2 ** 30, os.path.join(tmp(), "small.svs")
    s = store(small())
    put_file(bad, b"no slide")
    results = tmp()
    run(H5SPEC, "run", "--device", "cpu", "-o", results, s)

    def check(folder, base, status, *argv):
        left = os.path.join(folder, part_name(base, host, gone))
        open(left, "w").close()
        run(*argv, status=status)
        expect(not os.path.exists(left), "%s left it", " ".join(argv))
    for slide, options, status in ((bad, (), 1), (small(), ("--gray",), 1), (small(), (), 0)):
        folder = os.path.dirname(s)
        check(folder, "small.h5", status, WSI2H5, "-q", *options, "-o", folder, slide)
    # also when the slide is gone, a folder has none, the list is absent, or the options are wrong
    gone_slide, empty, output = os.path.join(tmp(), "small.svs"), tmp(), tmp()
    mask = ("--tissue-mask", os.path.join(empty, "absent.png"))
    for argv, status in (((gone_slide,), 1), ((empty,), 1), (("--list", gone_slide), 1), ((*mask, small()), 2)):
        check(output, "small.h5", status, WSI2H5, "-q", "-o", output, *argv)
        check(output, "small.h5", status, WSI2H5, "-q", "-o", os.path.join(output, "small.h5"), *argv)
    check(output, "small.h5", 2, WSI2H5, "-q", "-o", os.path.join(output, "small.h5"), small(), bad)
    below = os.path.join(output, "below")
    os.makedirs(below)
    os.mkdir(os.path.join(empty, "below"))
    os.symlink("/nowhere.svs", os.path.join(empty, "below", "small.svs"))
    check(below, "small.h5", 1, WSI2H5, "-q", "--keep-tree", "-o", output, empty)
    for stores, status in ((s, 0), (bad, 1)):
        check(results, "small.h5", status, H5SPEC, "run", "-q", "--device", "cpu", "-o", results, stores)
    for word, base in (("merge", "x.h5"), ("plot", "x.svg")):
        for wrong in (bad, "/nowhere.h5"):
            out = tmp()
            check(out, base, 1, H5SPEC, word, "-o", os.path.join(out, base), wrong)


def is_locked(path):
    try:
        with open(path) as f:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False


def test_a_writer_locks_its_temporary_file():
    """On one machine the process number is enough; on a file system of several machines the lock says that it lives."""
    out, seen = tmp(), False
    p = subprocess.Popen([WSI2H5, "-q", "--codec", "deflate", "-j", "1", "-o", out, made("--size", "3000x2000")])
    while p.poll() is None and not seen:
        p.send_signal(signal.SIGSTOP)
        seen = any(is_locked(os.path.join(out, f)) for f in stores_in(out) if f.endswith(".part"))
        p.send_signal(signal.SIGCONT)
        time.sleep(0.002)
    expect(p.wait() == 0, "status %d", p.returncode)
    expect(seen, "the temporary file was never locked")


ELSEWHERE = r"""
#include <sys/file.h>
#include <sys/types.h>
static int real_flock(int fd, int how) { return ((int (*)(int, int))dlsym(RTLD_NEXT, "flock"))(fd, how); }
int flock(int fd, int how) /* the first temporary file is taken for abandoned, before it has a lock */
{
    static int begun;
    char name[64], path[4096] = "", c;
    int ready[2];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (readlink(name, path, sizeof path - 1) > 0 && strstr(path, ".part") && !strstr(path, "foreign") && !begun++ && pipe(ready) == 0) {
        if (fork() == 0) {
            real_flock(open(path, O_RDWR), LOCK_EX);
            (void)!write(ready[1], "x", 1);
            usleep(30000);
            unlink(path);
            _exit(0);
        }
        (void)!read(ready[0], &c, 1);
    }
    return real_flock(fd, how);
}
static void must_be_locked(int folder, const char *name, const char *what)
{
    int fd = openat(folder, name, O_RDWR);
    if (real_flock(fd, LOCK_EX | LOCK_NB) == 0)
        fprintf(stderr, "wsi2h5: %s is %s without its lock\n", name, what);
    close(fd);
}
int rename(const char *from, const char *to)
{
    must_be_locked(AT_FDCWD, from, "renamed");
    return ((int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename"))(from, to);
}
int unlinkat(int folder, const char *name, int flags)
{
    must_be_locked(folder, name, "removed");
    return ((int (*)(int, const char *, int))dlsym(RTLD_NEXT, "unlinkat"))(folder, name, flags);
}
"""


def test_runs_on_other_machines_that_clear_up_take_no_new_file():
    """A run that began on another node removed a temporary file before its lock, or before its final name: the slide failed."""
    out, env = tmp(), dict(os.environ, LD_PRELOAD=preloaded(ELSEWHERE))
    old_file(os.path.join(out, part_name("foreign.h5", this_host() + "x", 2 ** 30)))
    p = run(WSI2H5, "-o", out, small(), env=env)
    says(p.err, "1 converted")
    expect("without its lock" not in p.err and stores_in(out) == ["small.h5"], "%s %s", stores_in(out), p.err)
    run(H5SPEC, "verify", os.path.join(out, "small.h5"))


def test_what_a_killed_force_has_left_goes_when_the_store_is_up_to_date():
    out = tmp()
    run(WSI2H5, "-q", "-o", out, small())
    open(os.path.join(out, part_name("small.h5", this_host(), 2 ** 30)), "w").close()
    says(run(WSI2H5, "-o", out, small()).err, "1 skipped (up to date)")
    expect(stores_in(out) == ["small.h5"], "left: %s", stores_in(out))


def swap_tiles(path):
    """Exchanges two tiles in the tables of level 0: size, quickhash and pixels of coarser levels stay."""
    tiff = Tiff(path)
    for tag in (TILE_OFFSETS, TILE_BYTES):
        a, b = tiff.u32(tiff.place(tag, 0)), tiff.u32(tiff.place(tag, 4))
        tiff.set(tag, b, 0)
        tiff.set(tag, a, 4)
    tiff.save(path)


def keep_time(path, change):
    st = os.stat(path)
    change(path)
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))


def other_slide(path):
    shutil.copy(made("--size", "900x700", "--levels", "2", "--seed", "5", name="y"), path)


CHANGES = {  # what is done to a slide whose store is finished
    "another slide, older": lambda path: (other_slide(path), os.utime(path, (1, 1))),
    "another slide, newer": lambda path: (other_slide(path), os.utime(path, (2 ** 31 - 1, 2 ** 31 - 1))),
    "two tiles exchanged": swap_tiles,
    "two tiles exchanged, the time kept": lambda path: keep_time(path, swap_tiles),
    "the time only": lambda path: os.utime(path, (1, 1)),
}


def test_any_change_of_a_slide_makes_its_store_out_of_date():
    for name, change in CHANGES.items():
        out, path = tmp(), os.path.join(tmp(), "x.svs")
        shutil.copy(made("--size", "900x700", "--levels", "2"), path)
        run(WSI2H5, "-o", out, path)
        says(run(WSI2H5, "-o", out, path).err, "1 skipped (up to date)")
        before = bytes_in(os.path.join(out, "x.h5"))
        change(path)
        err = run(WSI2H5, "-o", out, path).err
        expect("has changed since" in err and "1 converted" in err, "%s: %s", name, err)
        expect(bytes_in(os.path.join(out, "x.h5")) != before, "%s: the old one", name)
        says(run(WSI2H5, "-o", out, path).err, "1 skipped (up to date)")


def test_a_replaced_file_of_a_dicom_slide_makes_its_store_out_of_date():
    for level in (0, 1):
        folder, out = tmp("dicom"), os.path.join(tmp(), "x.h5")
        path = dicomfile.slide(folder, made("--size", "900x700", "--levels", "2", "--complete-tiles"))
        other = dicomfile.slide(tmp("other"), made("--size", "900x700", "--levels", "2", "--complete-tiles", "--seed", "7"))
        argv = (WSI2H5, "--level", str(level), "-o", out, path)
        run(*argv)
        says(run(*argv).err, "1 skipped (up to date)")
        before = pixels(out).tobytes()
        shutil.copy(other.replace("level0", "level%d" % level), folder + "/level%d.dcm" % level)
        says(run(*argv).err, "has changed since", "1 converted")
        expect(pixels(out).tobytes() != before, "the pixels of the old file")


def test_a_changed_attribute_of_a_dicom_file_makes_its_store_out_of_date():
    folder, out = tmp("dicom"), os.path.join(tmp(), "x.h5")
    path = dicomfile.slide(folder, made("--size", "900x700", "--complete-tiles"))
    file = os.path.join(folder, "level0.dcm")
    run(WSI2H5, "-o", out, path)
    content = bytes_in(file)
    expect(content.count(b"19560312") == 1, "the study's date")
    keep_time(file, lambda p: open(p, "wb").write(content.replace(b"19560312", b"19560313")))
    says(run(WSI2H5, "-o", out, path).err, "has changed since", "1 converted")


def test_sources_name_every_file_of_a_slide():
    path, out = made("--size", "900x700"), os.path.join(tmp(), "x.h5")
    run(WSI2H5, "-o", out, path)
    with h5py.File(out) as f:
        a = dict(f["sources/00001"].attrs)
        expect(f["sources"].attrs["count"] == 1, "count")
    st = os.stat(path)
    expect((a["name"], a["bytes"], a["mtime_ns"]) == ("slide.svs", st.st_size, st.st_mtime_ns), "%s", a)
    (i,) = json_lines(run(H5SPEC, "info", "--json", out).out)
    expect(i["sources"] == [{k: a[k].item() if k != "name" else a[k] for k in ("name", "bytes", "mtime_ns", "index_crc32")}], "%s", i["sources"])


# --- calls that fail, through the shim of the sweeps ---

def test_file_or_folder_that_cannot_be_written_to_disk():
    """The first call is on the file. At the second, on its folder, the file has its final name, and the message says so."""
    for call, left, *words in ((1, [], "cannot write to disk"), (2, ["small.h5"], "the file is complete", "power failure")):
        out = tmp()
        says(failing("fsync", out, call, errno.EIO, WSI2H5, "-o", out, small(), status=5).err, small(), "Input/output error", *words)
        expect(stores_in(out) == left, "%s", stores_in(out))
        for name in left:
            run(H5SPEC, "verify", os.path.join(out, name))


def test_file_systems_without_fsync_and_handles_that_are_stale():
    """EINVAL: the file system has no fsync, and close() reports its errors. ESTALE: the file may be lost."""
    result = lambda out: (H5SPEC, "run", "--device", "cpu", "-o", os.path.join(out, "r.h5"), store(small()))
    for argv, name in ((lambda out: (WSI2H5, "-o", out, small()), "small.h5"), (result, "r.h5")):
        out = tmp()
        failing("fsync", out, 1, errno.EINVAL, *argv(out), TORTURE_FOREVER="1", status=0)
        run(H5SPEC, "verify", os.path.join(out, name))
        out = tmp()
        says(failing("fsync", out, 1, errno.ESTALE, *argv(out), status=5).err, "Stale file handle")
        expect(os.listdir(out) in ([], ["failed.csv"]), "%s", os.listdir(out))


def test_short_and_interrupted_reads_of_the_head():
    """A signal or a network file system can cut the first read of 48 bytes short."""
    folder = tmp()
    path = os.path.join(folder, "small.h5")
    shutil.copy(store(small()), path)
    for do, more in (("short", {"TORTURE_FOREVER": "1"}), ("short", {}), (errno.EINTR, {})):
        for k in (1, 2, 3):
            failing("pread", folder, k, do, H5SPEC, "verify", path, status=0, **more)


def test_full_path_that_cannot_be_found():
    """The folder of a slide is a part of what a store knows of its slide; the folders above are not searched again."""
    folder, out = tmp(), tmp()
    slide = os.path.join(folder, "small.svs")
    shutil.copy(small(), slide)
    for source in (slide, folder):
        p = failing("realpath", folder, 1, errno.ENOMEM, WSI2H5, "-o", out, source, status=5)
        says(p.err, source, "Cannot allocate memory")
        expect(stores_in(out) == [], "%s", stores_in(out))


def test_no_descriptors_stay_open():
    """Forty slides with 32 descriptors, when all writes fail and when none does."""
    folder = tmp()
    for k in range(40):
        os.symlink(small(), os.path.join(folder, "s%02d.svs" % k))
    for most_bytes, status, word in ((20000, 5, "too large"), (1 << 30, 0, "40 converted")):
        def lower():
            small_files(most_bytes)()
            resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
        out = tmp()
        p = run(WSI2H5, "-j", "1", "-o", out, *sorted(os.path.join(folder, f) for f in os.listdir(folder)), status=status, preexec_fn=lower)
        expect(p.err.count(word) == (40 if status else 1) and "open files" not in p.err, "%s", p.err[-1500:])
        expect(len(stores_in(out)) == (0 if status else 40), "%d stores", len(stores_in(out)))


def test_nobody_reads_the_output():
    """A closed pipe ends no run before its files are complete."""
    out = tmp()
    slides = [small(), made("--size", "500x300", name="second")]
    reading, writing = os.pipe()
    os.close(reading)
    p = subprocess.run([WSI2H5, "--json", "-o", out, *slides], stdout=writing, stderr=subprocess.DEVNULL, timeout=100)
    os.close(writing)
    expect(p.returncode >= 0 and sorted(stores_in(out)) == ["second.h5", "small.h5"], "%d: %s", p.returncode, stores_in(out))


def rewritten(path, copy):
    """The file as h5repack or h5py writes it: everything is there, in an older version of HDF5's format."""
    with h5py.File(path, "r") as a, h5py.File(copy, "w") as b:
        for name, value in a.attrs.items():
            b.attrs[name] = value
        for name in a:
            a.copy(name, b)
    data = open(copy, "rb").read()
    expect(data[8] == 0, "superblock version %d", data[8])
    return data


def test_files_that_another_tool_has_rewritten_are_kept():
    s = store(small())
    for whole, argv, words in ((s, [WSI2H5, small()], ["--force"]), (spectrum(s), [H5SPEC, s], ["not overwritten"])):
        path = os.path.join(tmp(), "small.h5")
        data = rewritten(whole, path)
        says(run(*argv, "-o", path, status=1).err, path, "another program", *words)
        expect(bytes_in(path) == data, "it was replaced")
        says(run(H5SPEC, "verify", path, status=1).err, path, "another program")


def test_a_passing_error_is_no_damage():
    """Without descriptors, memory or a readable disk an existing store is neither damaged nor replaced."""
    for calls, do in (("open,openat", errno.EMFILE), ("pread,read", errno.EIO)):
        for k in (1, 2, 3, 5):
            out = tmp()
            path = os.path.join(out, "small.h5")
            shutil.copy(store(small()), path)
            before = os.stat(path).st_ino
            p = failing(calls, out, k, do, WSI2H5, "-o", out, small(), TORTURE_FOREVER="1")
            expect(os.stat(path).st_ino == before, "%s %d: replaced: %s", calls, k, p.err)
            expect(p.returncode in (0, 1, 5) and (p.returncode == 0 or path in p.err), "%s %d: %s", calls, k, p.err)
            expect(p.returncode == 0 or "damaged" not in p.err.split("\n")[0], "%s %d: %s", calls, k, p.err)
    for photometric in ("rgb", "planes"):
        slide = made("--size", "1000x700", "--tile", "256", "--container", "generic", "--photometric", photometric, name=photometric)
        for k in (5, 8, 12):
            out = tmp()
            p = failing("pread", slide, k, errno.EIO, WSI2H5, "-j", "1", "-o", out, slide, status=None)
            expect(p.returncode in (0, 5) and "damaged tile" not in p.err.replace("0 with damaged tiles", ""), "%s %d: %s", photometric, k, p.err)
            expect(p.returncode == 0 or not os.path.exists(os.path.join(out, photometric + ".h5")), "%s %d: a store", photometric, k)


def test_a_crash_inside_a_library_does_not_end_the_batch():
    """A process crashes while it opens one slide; the others are converted, and nothing unfinished stays."""
    folder = tmp()
    for k in range(5):
        shutil.copy(made("--size", "700x500", "--levels", "2", "--seed", str(k), name="s%d" % k), folder)
    put_file(os.path.join(folder, "s0a.svs"), b"no slide")
    for threads, call in (("1", 3), ("2", 9)):
        out = tmp()
        p = failing("open", os.path.join(folder, "s2.svs"), call, "crash", WSI2H5, "-j", threads, "--json", "-o", out, folder, status=1)
        says(p.err, "s2.svs: the program or a library crashed", "2 failed")
        # a store that was published as the other thread crashed, and not yet counted, is then up to date
        there = sum(map(int, re.findall(r"(\d+) (?:converted|skipped)", p.err)))
        expect(there == 4, "%d stores: %s", there, p.err)
        lines = json_lines(p.out)
        expect([(os.path.basename(r["input"]), r["status"] != "failed") for r in lines] ==
               [("s%s.svs" % i, i not in ("0a", "2")) for i in ("0", "0a", "1", "2", "3", "4")], "%s", lines)
        expect(sorted(stores_in(out)) == ["s%d.h5" % i for i in (0, 1, 3, 4)], "%s", os.listdir(out))
        with open(os.path.join(out, "failed.csv"), newline="") as f:
            failed = [line[0] for line in csv.reader(f)]
        expect(failed == ["slide", "s0a.svs", "s2.svs"], "what failed before the crash is missing: %s", failed)


def test_a_crash_in_a_folder_that_changes_blames_the_slide_that_crashed():
    """While a run goes on scanners add slides, and people take some away."""
    library = preloaded("""
        void *openslide_open(const char *path) {
            void *(*f)(const char *);
            *(void **)&f = dlsym(RTLD_NEXT, "openslide_open");
            if (!strstr(path, "s2.svs"))
                return f(path);
            if (getenv("ADDED"))
                symlink(getenv("ADD"), getenv("ADDED"));
            if (getenv("GONE"))
                unlink(getenv("GONE"));
            abort();
        }""")
    for change in ("ADDED", "GONE"):
        folder, out = tmp(), tmp()
        for k in range(1, 4):
            shutil.copy(small(), os.path.join(folder, "s%d.svs" % k))
        where = {"ADDED": "s0.svs", "GONE": "s1.svs"}[change]
        p = run(WSI2H5, "-j", "1", "--json", "-o", out, folder, status=1,
                env=dict(os.environ, LD_PRELOAD=library, ADD=small(), **{change: os.path.join(folder, where)}))
        says(p.err, "s2.svs: the program or a library crashed while the slide was read (Aborted)", "2 converted", "1 failed")
        expect([(os.path.basename(r["input"]), r["status"]) for r in json_lines(p.out)] ==
               [("s1.svs", "done"), ("s2.svs", "failed"), ("s3.svs", "done")], "%s", p.out)
        expect(sorted(stores_in(out)) == ["s1.h5", "s3.h5"], "%s", os.listdir(out))


@later("ci")
def test_a_slide_that_cannot_be_opened_once_gives_no_lesser_store():
    """libtiff and OpenSlide open the slide many times; each of these fails in turn, also for the thumbnail and
    while OpenSlide looks for its levels."""
    two = made("--size", "700x500", "--levels", "2", name="two")
    for slide_, steps in ((small(), (*range(1, 20), *range(20, 120, 5))), (two, range(1, 300, 7)), (generic_tiff(two), range(2, 150, 7))):
        folder, out = tmp(), tmp()
        slide, made_ = os.path.join(folder, os.path.basename(slide_)), os.path.join(out, "x.h5")
        shutil.copy(slide_, slide)
        run(WSI2H5, "-q", "-o", os.path.join(folder, "clean.h5"), slide)
        clean = open(os.path.join(folder, "clean.h5"), "rb").read()
        rejected = crashed = 0
        for k in steps:
            do = (errno.EIO, errno.EACCES, errno.EMFILE)[k % 3]
            p = failing("open", slide, k, do, WSI2H5, "-q", "-o", made_, slide)
            expect(p.returncode in (0, 1, 5), "%s, open %d: status %d", slide, k, p.returncode)
            if p.returncode:
                rejected += 1
                says(p.err, slide)
                crashed += "crashed" in p.err
                expect(os.strerror(do) in p.err or "try again" in p.err or "crashed" in p.err, "%s", p.err)
                expect(stores_in(out) == [], "open %d: left %s", k, stores_in(out))
            else:
                expect(open(made_, "rb").read() == clean, "%s, open %d: another store", slide, k)
                os.unlink(made_)
        expect(rejected >= 3, "only %d opens mattered", rejected)  # ours, and some of OpenSlide's


main(globals())
