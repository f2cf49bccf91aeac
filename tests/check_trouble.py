"""What the machine does to a run is said as such, with status 5, and nothing is replaced because of it."""
import resource

from lib import *


def small(*options):
    return store(made("--size", "700x600", *options, name="small"))


def result_of(path):
    out = os.path.join(tmp(), "r.h5")
    run(H5SPEC, "run", "-q", "--device", "cpu", "-o", out, path)
    return out


def left_open(path):
    """A copy that a program has opened for writing and not closed."""
    copy = os.path.join(tmp(), os.path.basename(path))
    shutil.copy(path, copy)
    with open(copy, "r+b") as f:
        data = bytearray(f.read(48))
        expect(data[8] == 3, "superblock version %d", data[8])
        data[11] |= 1
        f.seek(0)
        f.write(data)
    run(H5SUM, copy, "0")
    return copy


H5SUM = os.path.join(BUILD, "tests", "torture_h5sum")


def commands(path, kind):
    yield [H5SPEC, "verify", path]
    if kind == "store":
        yield [H5SPEC, "run", "--device", "cpu", "-o", tmp(), path]
    else:
        yield [H5SPEC, "map", "-o", tmp(), path]


def test_a_file_that_is_open_for_writing():
    for kind, path in (("store", small()), ("result", result_of(small()))):
        copy = left_open(path)
        before = open(copy, "rb").read()
        for argv in commands(copy, kind):
            says(run(*argv, status=5).err, copy, "open for writing in another program", "h5clear -s")
        says(run(H5SPEC, "info", copy, status=None).err, copy, "open for writing")
        expect(open(copy, "rb").read() == before, "%s was changed", kind)


def test_the_converter_replaces_no_store_that_is_open():
    slide = made("--size", "700x600", name="small")
    copy = left_open(small())
    before = open(copy, "rb").read()
    for options in ([], ["--force"]):
        p = run(WSI2H5, *options, "-o", copy, slide, status=5)
        says(p.err, copy, "open for writing", "h5clear -s")
    expect(open(copy, "rb").read() == before, "the store was replaced")


def small_files():
    """The disk is full after 30,000 bytes of a file."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))


def test_json_says_done_when_the_file_has_its_name():
    path = small()
    for output in ("folder/", "one.h5"):
        for preload in (False, True):
            out = os.path.join(tmp(), output)
            limit = small_files if preload else None
            p = run(H5SPEC, "run", "-q", "--device", "cpu", "--json", "-o", out, path, status=None, preexec_fn=limit)
            lines = json_lines(p.out)
            if not preload:
                expect(p.returncode == 0 and [x["status"] for x in lines] == ["done"], "%s", lines)
            else:
                expect(p.returncode != 0 and [x["status"] for x in lines] == ["failed"], "%s: %s %s", p.returncode, lines, p.err)


def test_a_store_with_damaged_tiles_ends_with_4():
    path = store(made("--size", "700x600", "--garbage", "1,0", name="hurt"), "--accept-damage")
    out = tmp()
    for _ in range(2):  # computed, and skipped
        run(H5SPEC, "run", "-q", "--device", "cpu", "-o", out, path, status=4)
    run(H5SPEC, "run", "-q", "--device", "cpu", "--accept-damage", "-o", out, path)


def test_no_folder_for_temporary_files():
    p = run(H5SPEC, "report", "-q", "-o", os.path.join(tmp(), "r.html"), result_of(small()), status=5,
            env=dict(os.environ, TMPDIR="/nonexistent"))
    says(p.err, "no temporary file", "set TMPDIR")


def test_keys_are_private():
    key, other = os.path.join(tmp(), "a.csv"), os.path.join(tmp(), "b.csv")
    run(H5SPEC, "report", "-q", "--names", "number", "--key", key, "-o", os.path.join(tmp(), "r.html"), result_of(small()))
    run(WSI2H5, "-q", "--anonymous", "--key", other, "-o", tmp(), made("--size", "700x600", name="small"))
    for path in (key, other):
        expect(os.stat(path).st_mode & 0o777 == 0o600, "%s has mode %o", path, os.stat(path).st_mode)


def test_remains_of_killed_writers():
    """Also of another host, if nobody holds the lock."""
    import fcntl
    for program, given in (([WSI2H5], made("--size", "700x600", name="small")), ([H5SPEC, "run", "--device", "cpu"], small())):
        out = tmp()
        paths = [os.path.join(out, name) for name in (".x.h5.elsewhere-77-1.part", ".y.h5.elsewhere-78-1.part", ".notes.part")]
        for path in paths:
            open(path, "w").close()
        with open(paths[1]) as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            run(*program, "-q", "-o", out, given)
        expect([os.path.exists(path) for path in paths] == [False, True, True], "%s", os.listdir(out))


LISTS = [  # how a program writes a list of one path, and whether it is one at all
    b"\xef\xbb\xbf%s\r\n", b"%s   \r\n", b'"%s"\r\n', b'\xef\xbb\xbf"%s" \r\n\r\n', b"  %s\n", b"%s,,\n,,,\n", b"%s;;\n;;\n", b"%s",
]


def test_lists_of_paths():
    slide, path = made("--size", "700x600", name="small"), small()
    for form in LISTS:
        for argv, given in (([WSI2H5, "-q", "-o"], slide), ([H5SPEC, "run", "-q", "--device", "cpu", "-o"], path)):
            name = os.path.join(tmp(), "list.txt")
            with open(name, "wb") as f:
                f.write(form % given.encode())
            out = tmp()
            run(*argv, out, "--list", name)
            expect(stores_in(out) == ["small.h5"], "%r: %s", form, stores_in(out))
    with open(name, "wb") as f:
        f.write((slide + "\r\n").encode("utf-16"))
    says(run(WSI2H5, "-o", tmp(), "--list", name, status=1).err, "save it as UTF-8")


TABLES = [
    "slide,site\nsmall,A\n", "\ufeffslide;site\r\nsmall;A\r\n;\r\n", '"slide";"site"\n"small" ; "A" \n', "slide\tsite\nsmall\tA\n\t\n", " slide , site \n small , A \n,\n",
]


def test_tables_of_slides():
    path = result_of(small())
    for text in TABLES:
        meta, csv = os.path.join(tmp(), "meta.csv"), os.path.join(tmp(), "out.csv")
        with open(meta, "w", newline="") as f:
            f.write(text)
        run(H5SPEC, "report", "-q", "--meta", meta, "--group", "site", "--csv", csv, "-o", os.path.join(tmp(), "r.html"), path)
        rows = open(csv).read().split("\n")
        expect(rows[1].startswith('"small","A",'), "%r: %s", text, rows[1])


main(globals())
