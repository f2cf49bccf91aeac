"""Wrong input: a message that names the file and says what to do, status 1, the others still done."""

import socket

import h5py
import numpy as np

from lib import *
from tiffpatch import BITS, Pages


def good():
    return made("--size", "600x500", name="good")


def convert_with(bad, *words, options=(), status=1):
    """A bad slide between two good ones: the good ones are converted, the bad one is named."""
    out = tmp()
    p = run(WSI2H5, *options, "-o", out, good(), bad, made("--size", "300x300", name="other"), status=status)
    says(p.err, str(bad), *words)
    expect(sorted(f for f in stores_in(out) if f in ("good.h5", "other.h5")) == ["good.h5", "other.h5"],
           "the others were not done: %s", stores_in(out))
    expect(left_overs(out) == [], "left over: %s", left_overs(out))
    return out


# --- slides ---

def test_slides_that_cannot_be_read():
    for bad, words in ((file_of("page.svs", "<html>503 Service Unavailable</html>"), "not a slide"), (file_of("empty.svs", ""), "empty"),
                       ("/nowhere/slide.svs", "no such slide"), (tmp("empty"), "without slides")):
        out = convert_with(bad, words)
        expect(sorted(stores_in(out)) == ["good.h5", "other.h5"], "a store of nothing: %s", stores_in(out))


def test_more_windows_than_a_result_holds():
    """The cause is the stride, not the machine: "out of memory" was tried again for ever."""
    side, tile = 16640, 1024
    slide, n = os.path.join(tmp(), "large.tif"), (-(-side // tile)) ** 2
    Pages().add((side, side), (tile, tile), n * [zlib.compress(bytes(tile * tile))], {
        BITS: (3, [8]), 259: (3, [8]), 262: (3, [1]), 277: (3, [1])}).save(slide)
    path = os.path.join(tmp(), "large.h5")
    run(WSI2H5, "-q", "-o", path, slide)
    p = run(H5SPEC, "run", "--json", "--device", "cpu", "--window", "64", "--stride", "1", "-o", tmp(), path, status=1)
    says(p.err, path + ": too many windows; use a larger stride")
    expect([j["cause"] for j in json_lines(p.out)] == ["input"], "%s", p.out)


def test_truncated_slide():
    data = open(good(), "rb").read()
    convert_with(file_of("half.svs", data[:len(data) // 8]), "half.svs", "damaged")
    # only the associated images are missing: every pixel is there
    out = convert_with(file_of("most.svs", data[:-1000]), "most.svs", "its list of directories leads out of the file", status=0)
    with h5py.File(os.path.join(out, "most.h5"), "r") as f, h5py.File(os.path.join(out, "good.h5"), "r") as g:
        expect((f["pixels"][()] == g["pixels"][()]).all(), "pixels")


def test_folder_and_list():
    folder = tmp("folder")
    os.mkdir(os.path.join(folder, "below"))
    shutil.copy(good(), os.path.join(folder, "below", "a.svs"))
    shutil.copy(good(), os.path.join(folder, "B.SVS"))
    open(os.path.join(folder, "notes.txt"), "w").close()
    out = tmp()
    says(run(WSI2H5, "-o", out, folder).err, "2 converted")
    expect(sorted(stores_in(out)) == ["B.h5", "a.h5"], "%s", stores_in(out))
    names = file_of("list", ("# slides\n%s\n\n%s\n" % (good(), os.path.join(folder, "B.SVS"))).encode())
    says(run(WSI2H5, "-o", tmp(), "--list", names).err, "2 converted")
    says(run(WSI2H5, "-o", tmp(), good(), good()).err, "1 converted")


def test_list_in_utf16():
    names = file_of("utf16", "# slides\r\nslide.svs\r\n".encode("utf-16"))
    for status, *argv in ((1, WSI2H5, "-o", tmp()), (2, H5SPEC, "run", "-o", os.path.join(tmp(), "r.h5"))):
        p = run(*argv, "--list", names, status=status)
        says(p.err, names, "NUL bytes", "UTF-8")


def test_shares_of_a_list():
    folder = tmp("folder")
    for k in range(7):
        shutil.copy(made("--size", "100x100", name="tiny"), os.path.join(folder, "s%d.svs" % k))
    out = tmp()
    for task, n in (("1/3", 3), ("2/3", 2), ("3/3", 2), ("3/3", 0)):
        says(run(WSI2H5, "--task", task, "-o", out, folder).err, "%d converted" % n)
    expect(len(stores_in(out)) == 7, "%s", stores_in(out))
    arrays = [  # environment of an array task, how many of the seven it does
        ({"SLURM_ARRAY_TASK_ID": "4", "SLURM_ARRAY_TASK_MIN": "2", "SLURM_ARRAY_TASK_MAX": "6",
          "SLURM_ARRAY_TASK_STEP": "2"}, 2),
        ({"SGE_TASK_ID": "1", "SGE_TASK_FIRST": "1", "SGE_TASK_LAST": "4", "SGE_TASK_STEPSIZE": "1"}, 2),
        ({"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_MAX": "0"}, 7)]
    for variables, n in arrays:
        p = run(WSI2H5, "--task", "auto", "-o", tmp(), folder, env=dict(os.environ, **variables))
        says(p.err, "%d converted" % n)
    p = run(WSI2H5, "--task", "auto", "-o", out, folder, status=2,
            env=dict(os.environ, SGE_TASK_ID="undefined"))
    says(p.err, "not inside an array job")
    holes = {"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "3", "SLURM_ARRAY_TASK_MAX": "7",
             "SLURM_ARRAY_TASK_STEP": "1", "SLURM_ARRAY_TASK_COUNT": "2"}  # --array=3,7: of how many?
    p = run(WSI2H5, "--task", "auto", "-o", out, folder, status=2, env=dict(os.environ, **holes))
    says(p.err, "not evenly spaced", "--task I/N")


def as_nobody(*argv, status):
    """Runs a copy of a program as a user without rights."""
    if os.geteuid() != 0:
        return run(*argv, status=status)

    def drop():
        os.setgid(65534)
        os.setuid(65534)
    return run(for_everyone(argv[0]), *argv[1:], status=status, preexec_fn=drop, cwd="/")


def open_folder():
    d = tempfile.mkdtemp(prefix="wsi-open-", dir="/tmp")
    os.chmod(d, 0o777)
    return d


def test_no_permission_to_read_a_slide():
    d = open_folder()
    try:
        slide, other = os.path.join(d, "secret.svs"), os.path.join(d, "good.svs")
        shutil.copy(good(), slide)
        shutil.copy(good(), other)
        os.chmod(slide, 0)
        p = as_nobody(WSI2H5, "-o", d, slide, other, status=1)
        says(p.err, slide, "permission", "1 converted")
    finally:
        shutil.rmtree(d)


def test_output_folder_that_cannot_be_written():
    d = open_folder()
    try:
        slide, out = os.path.join(d, "good.svs"), os.path.join(d, "out")
        shutil.copy(good(), slide)
        os.mkdir(out)
        os.chmod(out, 0o555)
        p = as_nobody(WSI2H5, "-o", out, slide, status=5)
        says(p.err, slide, out, "Permission denied")
        shutil.copy(store(good()), os.path.join(d, "good.h5"))
        os.chmod(os.path.join(d, "good.h5"), 0o644)
        p = as_nobody(H5SPEC, "-o", os.path.join(out, "r.h5"), os.path.join(d, "good.h5"), status=5)
        says(p.err, out, "Permission denied")
        expect(stores_in(out) == [], "%s", stores_in(out))
    finally:
        shutil.rmtree(d)


def test_output_folder_missing():
    p = run(WSI2H5, "-o", "/proc/nowhere/out", good(), status=5)
    says(p.err, "/proc/nowhere: cannot create the output folder", "No such file or directory")
    for argv in ([WSI2H5, "-o", "/nowhere/out.h5", good()], [H5SPEC, "-o", "/nowhere/result.h5", store(good())],
                 [H5SPEC, "-o", "/nowhere/r.h5", "/absent/a.h5"]):
        p = run(*argv, status=5)
        says(p.err, "/nowhere", "create it first")
        expect("a.h5" not in p.err, "the store was opened first: %s", p.err)


def test_slide_smaller_than_a_window():
    s = store(made("--size", "255x400", name="small"))
    out = os.path.join(tmp(), "r.h5")
    p = run(H5SPEC, "run", "-o", out, s, store(good()))
    says(p.err, s, "smaller than one window")
    with h5py.File(out, "r") as f:
        expect(f["slides/small"].attrs["windows"] == 0 and np.isnan(f["slides/small"].attrs["mean_db"]), "small")
        expect(f.attrs["windows"] == f["slides/good"].attrs["windows"] == 6, "windows")


# --- stores ---

def process(*cases):
    """Bad stores between two good ones, all in one run. Cases: the store, words of its message."""
    out = os.path.join(tmp(), "r.h5")
    others = [store(good()), store(made("--size", "300x300", name="other"))]
    err = run(H5SPEC, "run", "-o", out, others[0], *(bad for bad, *_ in cases), others[1], status=1).err
    for bad, *words in cases:
        lines = "\n".join(line for line in err.splitlines() if bad in line)
        expect(lines and all(word in lines for word in words), "%s: %r are not in %s", bad, words, lines)
    expect(slide_names(out) == ["good", "other"], "slides %s", slide_names(out))


def victim(change, source=None, name="bad.h5"):
    return changed(source or store(made("--size", "600x500", name="victim")), change, name)


def put_attribute(f, name, value):
    del f.attrs[name]
    f.attrs[name] = value


def test_files_that_are_no_store():
    data = bytes_in(store(good()))
    foreign, old = (os.path.join(tmp(), name) for name in ("foreign.h5", "old.h5"))
    for path, how in ((foreign, {"libver": ("v110", "v110")}), (old, {})):
        with h5py.File(path, "w", **how) as f:
            f["x"] = 1
    process((file_of("half.h5", data[:len(data) * 2 // 3]), "truncated", "make it again"), (file_of("short.h5", data[:-1]), "truncated"),
            (file_of("empty.h5", ""), "empty"), ("/nowhere/store.h5", "No such file"),
            (file_of("text.h5", "not HDF5 at all" * 10), "not an HDF5 file; make it again: delete it and repeat the command that made it"),
            (file_of("a slide.svs", "not HDF5 at all" * 10), "not an HDF5 file; convert first: wsi2h5 -o stores/ '"),
            (spectrum(store(good())), "is a result; a store made by wsi2h5 is needed"),
            (foreign, "not a store made by wsi2h5"), (old, "not written by wsi2h5"))


ATTRIBUTES = [  # attribute, value that cannot be
    ("width", 0), ("width", 2 ** 31), ("width", -5), ("height", 10 ** 12), ("height", 501), ("channels", 2),
    ("channels", 4), ("chunk_rows", 0), ("chunk_rows", 2 ** 20), ("chunk_cols", 239), ("stripe_rows", 1),
    ("group_rows", 100), ("group_rows", 2 ** 60), ("group_count", 2), ("group_count", 0),
    ("format_version", 1000), ("downsample", -1.0), ("downsample", float("nan")), ("level", -1),
]
TYPES = ("width", "codec", "group_rows", "downsample", "source_name", "tiles_damaged")


def external_storage(f):
    g = f["groups/00001"]
    del g["pixels"]
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    dcpl.set_external(file_of("secret", b"\x07" * (600 * 500 * 3)).encode(), 0, 600 * 500 * 3)
    h5py.h5d.create(g.id, b"pixels", h5py.h5t.STD_U8LE, h5py.h5s.create_simple((500, 600, 3)), dcpl)


def virtual_pixels(f):
    del f["groups/00001/pixels"]
    layout = h5py.VirtualLayout((500, 600, 3), np.uint8)
    layout[:] = h5py.VirtualSource(store(good()), "pixels", (500, 600, 3))
    f["groups/00001"].create_virtual_dataset("pixels", layout)


def external_link(f):
    del f["groups/00001"]
    f["groups"]["00001"] = h5py.ExternalLink(store(good()), "/groups/00001")


def soft_link(f):
    del f["groups"]
    f["groups"] = h5py.SoftLink("/properties")


def another_table(f):
    del f["groups/00001/tile_crc32"]
    f["groups/00001/tile_crc32"] = np.zeros((1, 1), np.uint32)


CHANGES = [  # what is done to the open store, words
    *((lambda f, n=name, v=value: put_attribute(f, n, np.asarray(v, f.attrs[n].dtype)),) for name, value in ATTRIBUTES),
    *((lambda f, n=name: f.attrs.__delitem__(n), "missing") for name in TYPES),
    *((lambda f, n=name: put_attribute(f, n, np.zeros(3, np.int16)), "wrong type") for name in TYPES),
    (lambda f: f.attrs.__delitem__("complete"), "not complete", "make it again"),
    (lambda f: put_attribute(f, "complete", np.uint8(0)), "not complete"),
    (another_table, "wrong shape"), (lambda f: f["groups/00001/tile_status"].__setitem__((0, 0), 3), "status"),
    (lambda f: f.__delitem__("groups/00001"), "missing"),
    (external_storage, "outside the file", "rejected"), (virtual_pixels, "outside the file", "rejected"),
    (external_link, "link", "rejected"), (soft_link, "link", "rejected"),
    (lambda f: put_attribute(f, "codec", np.bytes_("none")), "layout of pixels"),
    (lambda f: put_attribute(f, "codec", np.bytes_("zip")), "does not know the codec zip"),
]


def test_stores_that_were_changed():
    process(*((victim(change, name="change %d.h5" % k), *words) for k, (change, *words) in enumerate(CHANGES)))


PASTED = [  # of messages: where the command begins in them
    (lambda at: [H5SPEC, "run", "-o", tmp(), at("slide.svs", good())], "first: "),
    (lambda at: [H5SPEC, "run", "-o", tmp(), os.path.dirname(at("folder/slide.svs", good()))], "first: "),
    (lambda at: [H5SPEC, "report", "-o", os.path.join(tmp(), "it's.html"), at("store.h5", store(good()))], "; run "),
    (lambda at: [H5SPEC, "compare", os.path.dirname(at("results/r.h5", spectrum(store(good())))), at("r.h5", spectrum(store(good())))], "first: "),
    (lambda at: [H5SPEC, "verify", left_open(at("store.h5", store(good())))], "; or run: "),
]


def left_open(path):
    """As a program that died has left it: the flags of consistency are set."""
    def flag(data):
        data[8], data[11] = 3, 1
    return shutil.copy(forged(path, flag), path)


def test_what_is_no_regular_file_is_said():
    """Sockets, fifos and devices: status 1 or 2, never 5, which would be tried again; nothing waits, and no memory is filled."""
    needs("report")
    folder = tmp()
    slide = shutil.copy(made("--size", "600x500"), os.path.join(folder, "s.svs"))
    kept = store(slide)
    result = spectrum(kept)
    def made_of(kind, ending):
        path = os.path.join(folder, kind + ending)
        if kind == "socket":
            with socket.socket(socket.AF_UNIX) as s:
                s.bind(path)
        else:
            os.symlink("/dev/" + kind, path) if kind != "fifo" else os.mkfifo(path)
        return path
    out = os.path.join(folder, "out")
    for kind in ("socket", "fifo", "zero"):
        h5, table, picture, svs = (made_of(kind, e) for e in (".h5", ".csv", ".png", ".svs"))
        inputs = [(WSI2H5, "-o", out, svs), (WSI2H5, "-o", out, "--tissue-mask", picture, slide), (H5SPEC, "map", "--scores", table, "-o", out),
                  (H5SPEC, "map", "--scores", h5, "-o", out), (H5SPEC, "compare", h5, result), (H5SPEC, "run", "--roi", table, "-o", out, kept),
                  (WSI2H5, "-o", h5, slide), (H5SPEC, "run", "-o", h5, kept), (H5SPEC, "merge", "-o", h5, result)]
        inputs += [(H5SPEC, *words, h5) for words in (("run", "-o", out), ("merge", "-o", out), ("info",), ("verify",), ("lookup",), ("tune",), ("map", "-o", out))]
        inputs += [(H5SPEC, "report", "-o", out + ".html", h5), (H5SPEC, "plot", "-o", out + ".svg", h5)]
        if kind != "fifo":  # lists and tables may come through a fifo
            lists = [(WSI2H5, "-o", out, "--list", table)] + [(H5SPEC, *words, "--list", table) for words in (("run", "-o", out), ("merge", "-o", out), ("info",))]
            inputs += lists + [(H5SPEC, "compare", "--pairs", table, result, result)]
            inputs += [(H5SPEC, "report", "-o", out + ".html", "--" + option, table, *more, result)
                       for option, more in (("limits", ()), ("accepted", ()), ("failed", ()), ("meta", ("--group", "x")))]
        for argv in inputs:
            p = run(*argv, status=None, timeout=20)
            expect(p.returncode in (1, 2) and (kind in p.err or "no input" in p.err), "%s: %d %s", argv, p.returncode, p.err)
            expect(kind != "socket" or re.search("not a (regular )?file|not overwritten", p.err), "%s: %s", argv, p.err)


def test_commands_in_messages_work_when_pasted():
    """The paths in them are words for a shell, also where the message shows them otherwise. Without room for a whole command there is none."""
    say = "".join('%s() { printf "%%s\\0" %s "$@"; }; ' % (name, name) for name in ("wsi2h5", "h5spec", "h5clear"))
    names = "it's (odd) $x; `y`", os.fsdecode(b"\xff\x1b[31m'\\"), "-o", "~", "\u202eabc\ttab", "x" * 200
    for make, before in PASTED:
        for name in names if make is PASTED[0][0] else names[:2]:
            folder = tmp()
            def at(path, source):
                to = os.path.join(folder, name, path)
                os.makedirs(os.path.dirname(to), exist_ok=True)
                return shutil.copy(source, to)
            argv = make(at)
            err = next((x for x in os.fsdecode(run(*argv, status=None).stderr).split("\n") if before in x), None)
            expect(err, "%s: no command", argv)
            p = run("bash", "-c", say + err.split(before)[-1])
            words = os.fsdecode(p.stdout).split("\0")
            given = [a for a in argv if os.path.join(folder, name) in a]
            expect(given[0] in words, "%s: %r gives %r, not %r", argv, err, words, given)
    long = os.path.join(tmp(), *["y" * 200] * 5, "slide.svs")
    os.makedirs(os.path.dirname(long))
    err = run(H5SPEC, "run", "-o", tmp(), shutil.copy(good(), long), status=1).err
    expect("wsi2h5" not in err, "a command that is cut off: %s", err)


def test_a_slide_must_be_converted_first():
    """-o was asked for first, and then the slide was refused."""
    slide = good()
    for command in ("run", "merge", "map", "plot", "report"):
        for path in (slide, os.path.dirname(slide)):
            says(run(H5SPEC, command, path, status=2).err, "convert first: wsi2h5 -o stores/ " + path)
        says(run(H5SPEC, command, store(slide), status=2).err, "is missing")
    says(run(H5SPEC, "run", "-o", tmp(), os.path.dirname(slide), status=1).err, "a folder without stores; convert first: wsi2h5 -o stores/ ")


def test_store_given_as_a_result():
    p = run(H5SPEC, "merge", "-o", os.path.join(tmp(), "x.h5"), store(good()), status=1)
    says(p.err, store(good()), "is a store; a result made by h5spec is needed")


def test_store_with_one_byte_flipped():
    for codec in ("deflate", "none"):  # without a codec only the CRC can show it
        whole = store(made("--size", "600x500", name="victim"), "--codec", codec)
        with h5py.File(whole, "r") as f:
            info = f["groups/00001/pixels"].id.get_chunk_info_by_coord((240, 240, 0))
        path = flipped(whole, info.byte_offset + info.size // 2)
        why = path + ": CRC mismatch in chunk at row 1, column 1 of group 1; convert the slide again with --force"
        process((path, why))
        says(run(H5SPEC, "tune", path, status=1).err, why)
        p = run(H5SPEC, "verify", store(good()), path, status=1)
        says(p.err, why, "1 of 9 chunks")
        says(p.out, store(good()), "valid")


def test_no_store_at_all_leaves_no_result():
    out = os.path.join(tmp(), "r.h5")
    run(H5SPEC, "run", "-o", out, "/nowhere/a.h5", status=1)
    expect(not os.path.exists(out), "a result of nothing")


# --- merging ---

def grouped():
    return store(made("--size", "600x1300", name="grouped"), "--stripe-rows", "480", "--group-bytes", "1")


def test_merges_that_are_refused():
    def groups(*ranges):
        return [spectrum(grouped(), "--groups", r) for r in ranges]

    def other(groups, *options):
        return spectrum(store(made("--size", "600x1300", name="grouped"), "--group-bytes", "1", *options), "--groups", groups)
    cases = [  # the results, of which the last two are named, and words
        ([spectrum(store(good())), spectrum(store(good()), "--sigma", "2")], "sigma is 1 and 2"),
        (groups("1-2", "2-3"), "both hold the same part of the slide (group 2)"),
        (groups("1", "3", "2-3"), "both hold the same part of the slide (group 3)"),
        ([spectrum(store(made("--size", size, name="same"))) for size in ("300x300", "400x300")], "different slides with one name"),
        ([*groups("1"), other("3-6", "--stripe-rows", "240")], "different groups"),
        ([*groups("1"), other("2-3", "--stripe-rows", "480", "--gray")], "their levels or channels differ"),
    ]
    for results, words in cases:
        for partial in ((), ("--partial",)):
            p = run(H5SPEC, "merge", *partial, "-o", os.path.join(tmp(), "x.h5"), *results, status=1)
            says(p.err, "%s and %s" % tuple(results[-2:]), words)


def test_merge_names_a_missing_group():
    parts = [spectrum(grouped(), "--groups", g) for g in ("1", "3")]
    out = os.path.join(tmp(), "x.h5")
    p = run(H5SPEC, "merge", "-o", out, *parts, status=1)
    says(p.err, "grouped", "group 2 of 3", "--partial")
    expect(not os.path.exists(out), "a file was made")
    run(H5SPEC, "merge", "--partial", "-o", out, *parts)
    with h5py.File(out, "r") as f:
        missing = f["slides/grouped"].attrs["groups_missing"]
        expect(missing in ("2", b"2") and f.attrs["groups_missing"] == 1, "%s", missing)
    says(run(H5SPEC, "info", out).out, "without group 2 of 3")


def test_groups_beyond_the_last():
    p = run(H5SPEC, "-o", os.path.join(tmp(), "x.h5"), "--groups", "2-4", grouped(), status=1)
    says(p.err, grouped(), "has 3 groups; --groups ")


# --- existing files ---

def test_output_that_is_something_else_is_kept():
    d = tmp()
    path = os.path.join(d, "good.h5")
    put_file(path, b"my notes")
    p = run(WSI2H5, "--force", "-o", d, good(), status=1)
    says(p.err, path, "not overwritten")
    expect(open(path, "rb").read() == b"my notes", "it was replaced")
    shutil.copy(store(good()), path)
    before = open(path, "rb").read()
    p = run(H5SPEC, "run", "-o", path, store(made("--size", "300x300", name="other")), status=1)
    says(p.err, path, "not overwritten")
    expect(open(path, "rb").read() == before, "a store was replaced by a result")


def test_half_a_store_is_not_replaced_by_a_result():
    path = os.path.join(tmp(), "x.h5")
    data = open(store(good()), "rb").read()
    put_file(path, data[:-100])
    says(run(H5SPEC, "-o", path, store(good()), status=1).err, path, "not overwritten")


def test_store_of_a_newer_version_is_not_replaced():
    def newer(f):
        f.attrs["format_version"] = f.attrs["format_version"] + 90
    path = victim(newer, source=store(good()))
    out = os.path.dirname(path)
    os.rename(path, os.path.join(out, "good.h5"))
    says(run(WSI2H5, "-o", out, good(), status=1).err, "cannot be read as a store", "--force")
    says(run(WSI2H5, "--force", "-o", out, good()).err, "1 converted")


def test_a_store_s_words_cannot_move_the_cursor():
    def change(f):
        for name, text in (("reader", b'x", "y": "z'), ("vendor", b"\x1b[2J"), ("source_name", b"a\x1b[2Jb")):
            del f.attrs[name]
            f.attrs[name] = np.bytes_(text)
    path = victim(change, source=store(good()))
    expect("\x1b" not in run(H5SPEC, "info", path).out, "escape sequence")
    (j,) = json_lines(run(H5SPEC, "info", "--json", path).out)
    expect(j["reader"] == 'x", "y": "z', "%s", j)


def test_device_cuda_says_why_not():
    p = run(H5SPEC, "--device", "cuda", "-o", os.path.join(tmp(), "x.h5"), store(good()), status=None)
    if p.returncode == 0:
        raise Skip("this machine has a CUDA device")
    built = "cuda" in re.search("backends: (.*)", run(H5SPEC, "--version").out)[1]
    expect(p.returncode == (1 if built else 2), "status %d: no other try on this machine helps", p.returncode)
    says(p.err, "--device cuda")
    expect("no CUDA" in p.err or "no GPU driver" in p.err, p.err)


USAGE = [  # program, arguments, what the message must say
    (WSI2H5, ["slide.svs"], "-o OUTPUT is missing"),
    (WSI2H5, ["-o", "x"], "no slide given"), (WSI2H5, ["-o", "-", "a.svs"], "-o -: HDF5 cannot be written to standard output"),
    (WSI2H5, ["-o", "x.h5", "a.svs", "b.svs"], "takes one slide"),
    (WSI2H5, ["-o", "x", "--codec", "zip", "a.svs"], "must be keep|deflate|"),
    (WSI2H5, ["-o", "x", "-j", "0", "a.svs"], "--threads 0"),
    (WSI2H5, ["-o", "x", "--group-bytes", "1X", "a.svs"], "--group-bytes 1X"),
    (WSI2H5, ["-o", "x", "--group-bytes", "99999999999G", "a.svs"], "--group-bytes"),
    (WSI2H5, ["-o", "x", "--level", "-1", "a.svs"], "--level -1"),
    (WSI2H5, ["-o", "x", "--on-damage", "cry", "a.svs"], "report or fail"),
    (WSI2H5, ["-o", "x", "--nonsense", "a.svs"], "--nonsense"),
    (WSI2H5, ["-o", "x", "--task", "4/3", "a.svs"], "--task 4/3"),
    (WSI2H5, ["-o", "x", "--task", "0/3", "a.svs"], "--task 0/3"),
    (WSI2H5, ["-o", "x", "--tissue-mask", "a.png", "--tissue-thresholds", "0,0", "a.svs"], "--tissue-mask"),
    (H5SPEC, ["run", "a.h5"], "-o RESULT.h5 is missing"),
    (H5SPEC, ["run", "-o", "x.h5"], "no input file"),
    (H5SPEC, ["-o", "x.h5", "--device", "tpu", "a.h5"], "auto, cpu or cuda"),
    (H5SPEC, ["-o", "x.h5", "--device", "cuda:x", "a.h5"], "--device cuda:x"),
    (H5SPEC, ["-o", "x.h5", "--window", "100", "a.h5"], "power of two"),
    (H5SPEC, ["-o", "x.h5", "--window", "2048", "a.h5"], "--window 2048"),
    (H5SPEC, ["-o", "x.h5", "--stride", "300", "a.h5"], "stride"),
    (H5SPEC, ["-o", "x.h5", "--sigma", "nan", "a.h5"], "--sigma nan"),
    (H5SPEC, ["-o", "x.h5", "--taper", "kaiser", "a.h5"], "rectangular or hann"),
    (H5SPEC, ["-o", "x.h5", "--range", "5", "a.h5"], "LOW:HIGH"),
    (H5SPEC, ["-o", "x.h5", "--range", "9:5", "a.h5"], "LOW < HIGH"),
    (H5SPEC, ["-o", "x.h5", "--groups", "0-3", "a.h5"], "counted from 1"),
    (H5SPEC, ["-o", "x.h5", "--groups", "1-3", "a.h5", "b.h5"], "one store at a time"),
    (H5SPEC, ["-o", "x.h5", "a/s.h5", "b/s.h5"], "two stores have the same name"),
    (H5SPEC, ["-o", "x.h5", "a/s.h5", "b/s"], "two stores have the same name"),
    (H5SPEC, ["-o", "x.h5", "--memory", "1 ", "a.h5"], "--memory"),
    (H5SPEC, ["-o", "x.h5", "--io", "sideways", "a.h5"], "must be auto, direct, buffered or gds"),
    (H5SPEC, ["-o", "x.h5", "--device", "cuda:", "a.h5"], "must be auto, cpu or cuda"),
    (H5SPEC, ["merge", "a.h5"], "-o CORPUS.h5 is missing"),
    (H5SPEC, ["verify"], "no input file"),
]


def test_wrong_usage():
    for program, arguments, words in USAGE:
        p = run(program, *arguments, status=2, cwd=tmp())
        says(p.err, words, "--help")
        expect(p.out == "", "messages on stdout")


def test_chunks_that_cannot_be_unpacked():
    for junk, mask, words in ((b"junk" * 100, 0, "cannot unpack chunk at row 0, column 1 of group 1; convert the slide again with --force"),
                              (b"\x05" * (240 * 240 * 3 + 5000), 1, "larger than it can be")):
        def change(f):
            g = f["groups/00001"]
            g["pixels"].id.write_direct_chunk((0, 240, 0), junk, mask)
            g["tile_crc32"][0, 1] = zlib.crc32(junk)
        path = victim(change)
        says(run(H5SPEC, "verify", path, status=1).err, path, words + (" (1 of 9 chunks" if mask == 0 else ""))
        says(run(H5SPEC, "-o", os.path.join(tmp(), "x.h5"), path, status=1).err, path, words)


def test_verify_counts_the_marks():
    for name in ("tiles_missing", "tiles_damaged", "tiles_left_out"):
        def change(f):
            f.attrs[name] = f.attrs[name] + 1
        path = victim(change)
        says(run(H5SPEC, "verify", path, status=1).err, path, "contradicts the counts of tiles")


def move_a_count(path, where):
    """One sample of a histogram goes to another bin: the sum stays."""
    with h5py.File(path, "r+", libver=("v110", "v110")) as f:
        h = f[where][()]
        k = int(h.argmax())
        h[k:k + 2] += np.array([-1, 1]).astype(h.dtype)
        f[where][...] = h


def test_merge_rejects_a_moved_count():
    path = copied(spectrum(store(good())), "r.h5")
    move_a_count(path, "slides/good/histogram")
    merge = [H5SPEC, "merge", "-o", os.path.join(tmp(), "x.h5"), path]
    says(run(*merge, status=1).err, path, "histogram is damaged (CRC mismatch)")
    with h5py.File(path, "r+", libver=("v110", "v110")) as f:  # with the checksum of what it holds
        reseal(f)
    says(run(*merge, status=1).err, path, "data_crc32 does not match")


def test_a_total_that_does_not_add_up():
    path = copied(spectrum(store(good())), "r.h5")
    with h5py.File(path, "r+", libver=("v110", "v110")) as f:
        f["histogram"][0] = 12345
        reseal(f)
    for argv in (["merge", "-o", os.path.join(tmp(), "x.h5")], ["info"]):
        says(run(H5SPEC, *argv, path, status=1).err, path, "does not add up")


def test_a_damaged_tissue_map():
    def no_cell(f):
        del f["tissue/mask"].attrs["cell"]

    def another_cell(f):
        f["tissue/mask"].attrs["cell"] = np.int64(16)

    def another_size(f):
        attrs, mask = dict(f["tissue/mask"].attrs), f["tissue/mask"][:-1]
        del f["tissue/mask"]
        f["tissue/mask"] = mask
        f["tissue/mask"].attrs.update(attrs)

    for change in (no_cell, another_cell, another_size):
        path = victim(change)
        out = os.path.join(tmp(), "x.h5")
        p = run(H5SPEC, "run", "--tissue-only", "-o", out, path, status=1)
        says(p.err, path + ": tissue map", "0 done, 1 failed")
        says(run(H5SPEC, "run", "-o", out, path, status=1).err, path + ": tissue map")  # the mean spectra need it, too


@later("ci")
def test_messages_name_the_result_that_cannot_be_begun():
    s, out, begun = store(good()), os.path.join(tmp(), "r.h5"), 0
    argv = [H5SPEC, "run", "-q", "-j", "1", "--device", "cpu", "-o", out, s]
    for ran, place in failing_allocations(argv, out, TORTURE_FOREVER=1):
        begun += "cannot write format" in ran.err
        named = out in ran.err or s in ran.err or ran.err.endswith(": out of memory\n")
        expect(ran.status != 1 or named, "%s: %s", place, ran.err)
    expect(begun > 0, "none fails where the result is begun")


@later("ci")
def test_what_cannot_be_looked_for_without_memory_is_not_absent():
    """The store's tissue map and thumbnail: a result without them is another one."""
    out, told = os.path.join(tmp(), "r.h5"), set()
    argv = [H5SPEC, "run", "-q", "-j", "1", "--device", "cpu", "-o", out, store(made("--size", "500x300"))]
    run(*argv)
    whole = content(out)
    for ran, place in failing_allocations(argv, out, most=4):
        told |= set(re.findall("cannot look for ([a-z_]+)", ran.err))
        same = not os.path.exists(out) or content(out) == whole
        expect(same, "%s: another result: %s", place, ran.err)
    expect({"tissue", "thumbnail"} <= told, "%s", told)


@later("ci")
def test_no_memory_for_arguments_is_not_wrong_usage():
    s = store(good())
    r = os.path.join(tmp(), "r.h5")
    run(H5SPEC, "run", "-q", "--device", "cpu", "-o", r, s)
    stores, results, slides = file_of("stores", s.encode()), file_of("results", r.encode()), file_of("slides", good().encode())
    regions = file_of("r.geojson", b'{"type": "Feature", "properties": {"classification": {"name": "A"}},'
                    b' "geometry": {"type": "Polygon", "coordinates": [[[10, 10], [390, 20], [300, 299]]]}}')
    out = tmp()
    commands = [[H5SPEC, "run", "--device", "cpu", "--roi-class", "A", "--roi", regions, "--list", stores, "-o", out + "/r.h5"],
                [H5SPEC, "run", "--device", "cpu", "--list", stores, "-o", out + "/new/"],
                [H5SPEC, "merge", "--list", results, "-o", out + "/m.h5"], [H5SPEC, "plot", "--slide", "*", "-o", out + "/p.svg", r],
                [H5SPEC, "report", "--anonymous", out + "/key.csv", "--list", results, "-o", out + "/p.html"],
                [H5SPEC, "map", "--slide", "good", "--list", results, "-o", out + "/maps"], [H5SPEC, "compare", r, r],
                [WSI2H5, "--list", slides, "-o", out]]
    commands += [[H5SPEC, word, "--list", results if word == "info" else stores] for word in ("info", "verify", "lookup")]
    said = []
    for argv in commands:
        for ran, place in failing_allocations(argv, None, first=20):
            expect(ran.status != 2 and "--help" not in ran.err, "%s, %s: %s", argv[1], place, ran.err)
            said.append(ran.status in (1, 5))
    expect(sum(said) > 20, "only %d of %d fail", sum(said), len(said))


main(globals())
