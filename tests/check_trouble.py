"""What the machine does to a run is said as such, with status 5, and nothing is replaced because of it."""
import errno
import itertools

import numpy as np

from lib import *


def small(*options):
    return store(made("--size", "700x600", *options, name="small"))


def result_of(path):
    out = os.path.join(tmp(), "r.h5")
    run(H5SPEC, "run", "-q", "--device", "cpu", "-o", out, path)
    return out


def test_json_says_done_when_the_file_has_its_name():
    for output in ("folder/", "one.h5"):
        for limit, status in ((None, "done"), (small_files(30_000), "failed")):
            p = run(H5SPEC, "run", "-q", "--device", "cpu", "--json", "-o", os.path.join(tmp(), output), small(), status=None, preexec_fn=limit)
            said = [x["status"] for x in json_lines(p.out)]
            expect((p.returncode == 0) == (limit is None) and said == [status], "%s: %s %s", p.returncode, said, p.err)


def test_a_store_with_damaged_tiles_ends_with_4():
    path = store(made("--size", "700x600", "--garbage", "1,0", name="hurt"), "--accept-damage")
    out = tmp()
    for _ in range(2):  # computed, and skipped
        run(H5SPEC, "run", "-q", "--device", "cpu", "-o", out, path, status=4)
    slide = made("--size", "700x600", "--garbage", "1,0", name="hurt")
    for argv, given in (([WSI2H5], slide), ([H5SPEC, "run", "--device", "cpu"], path)):  # both programs call it damaged, then skipped
        for target, again in ((tmp(), "skipped"), (os.path.join(tmp(), "one.h5"), "skipped" if argv[0] == WSI2H5 else "damaged")):
            for status in ("damaged", again):
                (j,) = json_lines(run(*argv, "-q", "--json", "-o", target, given, status=4).out)
                expect(j["status"] == status and "cause" not in j, "%s: %s", argv, j)
                says(j.get("message", "damaged") if status == "skipped" else j["message"], "damaged")
    run(H5SPEC, "run", "-q", "--device", "cpu", "--accept-damage", "-o", out, path)


def test_keys_are_private():
    """Also one that existed with other rights; and its folder is on the disk before the run ends."""
    key, other = os.path.join(tmp(), "a.csv"), os.path.join(tmp(), "b.csv")
    slide, path = made("--size", "700x600", name="small"), result_of(small())
    commands = ((key, [H5SPEC, "report", "-q", "--anonymous", key, "-o", os.path.join(tmp(), "r.html"), path]),
                (other, [WSI2H5, "-q", "--force", "--anonymous", other, "-o", tmp(), slide]))
    for file, argv in commands:
        for _ in range(2):
            run(*argv)
            expect(os.stat(file).st_mode & 0o777 == 0o600, "%s has mode %o", file, os.stat(file).st_mode)
            os.chmod(file, 0o644)
        for number in (1, 2):  # the file, its folder
            os.path.exists(file) and os.remove(file)
            p = failing("fsync", os.path.dirname(file), number, errno.EIO, *argv)
            expect(p.returncode == 5 and "Input/output error" in p.err, "%s, fsync %d: %d %s", file, number, p.returncode, p.err)


def test_a_lock_that_a_killed_run_has_left():
    """Of a process that has ended, or of a time too far away: it is dropped at once. One that may be held is named after 2 s."""
    slide = made("--size", "700x600", name="small")
    ended = subprocess.Popen(["true"])
    ended.wait()
    host = re.sub("[-/.]", "_", os.uname().nodename)
    for owner, age in (("%s-%d" % (host, ended.pid), 0), ("", 400), ("", -365 * 86400), ("elsewhere-1", 4000), ("elsewhere-1", -4000)):
        key = os.path.join(tmp(), "key.csv")
        put_file(key + ".lock", owner.encode())
        os.utime(key + ".lock", (time.time() - age,) * 2)
        begun = time.monotonic()
        if host != "localhost" or not owner.startswith(host):
            p = run(WSI2H5, "-q", "--anonymous", key, "-o", tmp(), slide)
            expect(p.err == "" and os.listdir(os.path.dirname(key)) == ["key.csv"], "%s, %d s: %s", owner, age, p.err)
            expect(time.monotonic() - begun < 20, "%s, %d s: waited", owner, age)
    for owner in ("elsewhere-1", "", "%s-%d" % (host, os.getpid())):
        key = os.path.join(tmp(), "key.csv")
        put_file(key + ".lock", owner.encode())
        p = subprocess.Popen([WSI2H5, "-q", "--anonymous", key, "-o", tmp(), slide], stderr=subprocess.PIPE, text=True)
        says(p.stderr.readline(), key + ".lock", "another run holds this lock", "delete it")
        os.unlink(key + ".lock")
        expect(p.wait(timeout=TIMEOUT) == 0, "status %d", p.returncode)
        p.stderr.close()


# --- opens and reads that fail ---

WORDS = ("no space left", "out of memory", "too little disk space", "changed while it was read", "(cuda:0)", "of the CUDA driver", "the disk is full",
         "temporary file for", "open for writing", "cannot be opened now", "errno = 28, error message = 'x'")


def test_words_in_a_name_decide_no_status():
    """A bad file is bad input, whatever it is called."""
    for word in WORDS + tuple(os.strerror(k) for k in (errno.ENOMEM, errno.ENOSPC, errno.ESTALE, errno.EROFS)):
        slide, result = (os.path.join(tmp(), word + end) for end in (".tif", ".h5"))
        put_file(slide, b"II*\0\x08\0\0\0")
        put_file(result, b"\x89HDF\r\n\x1a\n" + bytes(90))
        for argv, given in (([WSI2H5], slide), ([H5SPEC, "run", "--device", "cpu"], result)):
            p = run(*argv, "-q", "--json", "-o", tmp(), given, status=1)
            expect([(x["cause"], x["input"]) for x in json_lines(p.out)] == [("input", given)], "%s", p.out)
        for argv in ([H5SPEC, "verify"], [H5SPEC, "info"], [H5SPEC, "merge", "-o", os.path.join(tmp(), "m.h5")], [H5SPEC, "report", "-o", os.path.join(tmp(), "r.html")],
                     [H5SPEC, "map", "-o", tmp()], [H5SPEC, "compare", small()], [WSI2H5, "-o", os.path.join(tmp(), word + ".h5")]):
            run(*argv, slide if argv[0] == WSI2H5 else result, status=1)


def test_errors_of_the_system_that_may_pass():
    """EINTR while folders are read, fsync that a file system lacks, a file that is busy or that a mount hides."""
    slide = made("--size", "700x600", name="small")
    scandir = preloaded("""
        struct dirent;
        int scandir(const char *path, struct dirent ***out, int (*want)(const struct dirent *), int (*order)(const struct dirent **, const struct dirent **)) {
            errno = EINTR;
            return -1;
        }""")
    stores, results = tmp(), tmp()
    shutil.copy(small(), stores)
    run(H5SPEC, "run", "-q", "--device", "cpu", "-o", results, small())
    for argv, folder in (([WSI2H5, "-o", tmp()], os.path.dirname(slide)), ([H5SPEC, "run", "--device", "cpu", "-o", tmp()], stores), ([H5SPEC, "verify"], stores),
                         ([H5SPEC, "info"], stores), ([H5SPEC, "lookup"], stores), ([H5SPEC, "merge", "-o", os.path.join(tmp(), "m.h5")], results),
                         ([H5SPEC, "map", "-o", tmp()], results), ([H5SPEC, "report", "-o", os.path.join(tmp(), "r.html")], results),
                         ([H5SPEC, "plot", "-o", os.path.join(tmp(), "p.svg")], results)):
        p = run(*argv, folder, status=None, env=dict(os.environ, LD_PRELOAD=scandir))
        expect(p.returncode == 5 and "Interrupted system call" in p.err, "%s: %d %s", argv, p.returncode, p.err)
    for argv, given in (([WSI2H5], slide), ([H5SPEC, "run", "--device", "cpu"], small())):
        for call, code in (("fsync", errno.ENOSYS), ("rename", errno.EBUSY), ("rename", errno.EXDEV)):
            out = tmp()
            p = failing(call, out, 1, code, *argv, "-q", "--json", "-o", out, given)
            expect(p.returncode == 5 and json_lines(p.out)[0]["cause"] == "trouble", "%s %s: %d %s", call, code, p.returncode, p.err)


def test_what_fails_of_an_output_is_no_fault_of_the_input():
    """Whatever the error: a limit of file sizes, no permission, a folder that has vanished. Nothing stays under a temporary name that can go."""
    slide = made("--size", "700x600", name="small")
    result = result_of(small())
    commands = (([WSI2H5, "-q", "--json", "-o"], "x.h5", slide), ([H5SPEC, "run", "-q", "--device", "cpu", "--json", "-o"], "folder/", small()),
                ([H5SPEC, "run", "-q", "--device", "cpu", "--json", "-o"], "x.h5", small()), ([H5SPEC, "merge", "-q", "--json", "-o"], "x.h5", result))
    for argv, name, given in commands:
        for call, codes in (("create", "EACCES ENOENT EPERM EFBIG ENAMETOOLONG"), ("pwrite,write", "EFBIG EACCES EPERM EBADF"), ("fsync", "EFBIG EACCES EPERM"),
                            ("rename", "EACCES ENOENT EPERM EEXIST EISDIR")):
            for code in codes.split():
                out = tmp()
                p = failing(call, out, 1, getattr(errno, code), *argv, os.path.join(out, name), given, TORTURE_FOREVER="1")
                expect(p.returncode == 5, "%s, %s, %s: status %d: %s", argv, call, code, p.returncode, p.err)
                for line in json_lines(p.out):
                    expect(line["status"] != "failed" or line["cause"] in ("trouble", "disk"), "%s, %s, %s: %s", argv, call, code, line)
                found = [name for _, _, names in os.walk(out) for name in names if name.endswith(".h5")]
                expect(found == [], "%s, %s, %s: %s", argv, call, code, found)


def test_an_output_folder_that_vanishes_is_no_fault_of_the_input():
    slides = tmp("slides")
    for k in range(4):
        shutil.copy(made("--size", "2500x2100", "--seed", str(k), name="s"), os.path.join(slides, "s%d.svs" % k))
    stores = tmp("stores")
    run(WSI2H5, "-q", "-o", stores, slides)
    for argv, given in (([WSI2H5, "--json", "--codec", "deflate", "-j", "2", "-o"], slides), ([H5SPEC, "run", "--stride", "16", "--json", "--device", "cpu", "-j", "2", "-o"], stores)):
        out = os.path.join(tmp(), "out")
        p = subprocess.Popen([*argv, out, given], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2000):
            if os.path.isdir(out) and left_overs(out):
                break
            time.sleep(0.002)
        os.rename(out, out + "-gone")
        words, err = p.communicate(timeout=TIMEOUT)
        expect(p.returncode == 5, "status %d: %s", p.returncode, err)
        expect(all(x["status"] != "failed" or x["cause"] in ("trouble", "disk") for x in json_lines(words)), "%s", words)


def test_what_cannot_be_opened_now_is_not_damaged():
    """No permission, no descriptors, a stale or failing disk: status 5, and nothing is replaced."""
    slide, kinds = made("--size", "700x600", name="small"), {"store": small(), "result": result_of(small())}
    argvs = [("store", lambda f: [H5SPEC, "verify", f]), ("store", lambda f: [H5SPEC, "run", "-q", "--device", "cpu", "-o", tmp(), f]),
             ("store", lambda f: [WSI2H5, "-q", "-o", os.path.dirname(f), slide]), ("result", lambda f: [H5SPEC, "verify", f]),
             ("result", lambda f: [H5SPEC, "map", "-q", "-o", tmp(), f]), ("result", lambda f: [H5SPEC, "merge", "-q", "-o", os.path.join(tmp(), "m.h5"), f]),
             ("result", lambda f: [H5SPEC, "report", "-q", "-o", os.path.join(tmp(), "r.html"), f])]
    for kind, argv in argvs:
        for calls, error in itertools.chain(itertools.product(("open,openat",), (errno.EACCES, errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.EIO)),
                                            itertools.product(("pread,read",), (errno.ESTALE, errno.EIO))):
            path = copied(kinds[kind], "small.h5")
            before = os.stat(path).st_ino
            p = failing(calls, path, 1, error, *argv(path), TORTURE_FOREVER="1")
            expect(p.returncode == 5 and "damaged" not in p.err, "%s %s: %d %s", argv(path), os.strerror(error), p.returncode, p.err)
            expect(os.stat(path).st_ino == before and path in p.err, "%s %s: replaced, or not named", argv(path), os.strerror(error))


def of_several_files(parts=("level%d.dcm", "IM%d", "m", "Index.dat", "Data0000.dat", "v.vms", "v.jpg", "v_map2.jpg"), where=""):
    """Slides of several files, by format: the path of the slide, and its files. DICOM files have an ending, or none. `parts`: names of their
    files; `where`: begins the name of their folders."""
    import dicomfile
    from miraxfile import mirax, vms
    slides = {}
    for name in parts[:2]:
        folder = tmp(where + "dicom")
        slides["DICOM " + name] = dicomfile.slide(folder, made("--size", "1000x700", "--levels", "2", "--complete-tiles"), name=name), folder
    folder = tmp(where + "mirax")
    slides["MIRAX"] = mirax(folder, 2, 2, {(0, 0): np.full((256, 256, 3), 200, np.uint8), (1, 1): np.full((256, 256, 3), 90, np.uint8)},
                            stem=parts[2], index=parts[3], pixels=parts[4]), folder
    folder = tmp(where + "vms")
    image, map_image = (dicomfile.Level(made("--size", size, "--tile", tile, "--complete-tiles", "--photometric", "ycbcr", "--subsampling", "444",
                                             "--restart", "16")).tiles[0] for size, tile in (("1000x700", "1024"), ("250x175", "256")))
    slides["VMS"] = vms(folder, image, map_image, parts[5:]), folder
    return {kind: (slide, sorted(os.path.join(at, n) for at, _, names in os.walk(folder) for n in names)) for kind, (slide, folder) in slides.items()}


def test_each_file_of_a_slide_must_be_readable():
    """A slide of several files is never made of those that happen to be readable."""
    for kind, (slide, files) in of_several_files().items():
        folder = os.path.dirname(slide)
        whole = run(WSI2H5, "--json", "-o", tmp(), folder)
        width = json_lines(whole.out)[0]["width"]
        for file in files:
            for calls, error in (("open,openat", errno.EACCES), ("open,openat", errno.EIO), ("pread,read", errno.EIO)):
                out = tmp()
                p = failing(calls, file, 1, error, WSI2H5, "--json", "-o", out, folder, TORTURE_FOREVER="1")
                title = "%s, %s %s: %d %s" % (kind, file, os.strerror(error), p.returncode, p.err)
                expect(p.returncode == (1 if error == errno.EACCES else 5) and "damaged" not in p.err.replace("with damaged tiles", ""), title)
                expect(os.path.basename(file) in p.err, "not named: %s", title)
                made_of = [j for j in json_lines(p.out) if j["status"] != "failed"]
                expect(all(j["width"] == width for j in made_of) and not made_of, "a lesser store: %s", title)


# A file vanishes when it is opened for the AT-th time.
VANISHES = """
        static int opens;
        static void vanish(const char *path) {
            if (!strcmp(path, getenv("GONE")) && ++opens == atoi(getenv("AT")))
                unlink(path);
        }
        int open(const char *path, int flags, ...) {
            int (*f)(const char *, int, ...);
            va_list a;
            va_start(a, flags);
            const int mode = va_arg(a, int);
            va_end(a);
            *(void **)&f = dlsym(RTLD_NEXT, "open");
            vanish(path);
            return f(path, flags, mode);
        }
        int open64(const char *path, int flags, ...) {
            va_list a;
            va_start(a, flags);
            const int mode = va_arg(a, int);
            va_end(a);
            return open(path, flags, mode);
        }
        FILE *fopen(const char *path, const char *mode) {
            FILE *(*f)(const char *, const char *);
            *(void **)&f = dlsym(RTLD_NEXT, "fopen");
            vanish(path);
            return f(path, mode);
        }
        FILE *fopen64(const char *path, const char *mode) { return fopen(path, mode); }"""


def test_a_file_of_a_slide_that_vanishes_is_missed():
    library = preloaded(VANISHES)
    for kind, (slide, files) in of_several_files().items():
        folder, whole = os.path.dirname(slide), tmp()
        run(WSI2H5, "-o", whole, folder)
        whole, = (pixels(os.path.join(whole, n)) for n in os.listdir(whole) if n.endswith(".h5"))
        for file in files:
            data, reached = bytes_in(file), 0
            for at in range(1, 8):
                out = tmp()
                p = run(WSI2H5, "--json", "-j", "1", "-o", out, folder, status=None, env=dict(os.environ, LD_PRELOAD=library, GONE=file, AT=str(at)))
                title = "%s, %s at its opening %d: %d %s" % (kind, file, at, p.returncode, p.err)
                gone = not os.path.exists(file)
                reached += gone
                stores = [os.path.join(out, n) for n in os.listdir(out) if n.endswith(".h5")]
                if p.returncode == 0:  # vanished behind its last pixel, or not at all
                    expect(len(stores) == 1 and np.array_equal(pixels(stores[0]), whole), "a lesser store: %s", title)
                expect(p.returncode in (0, 1, 5) and (gone or p.returncode == 0), title)
                expect(not gone or p.returncode == 0 or os.path.basename(file) in p.err or os.path.basename(slide) in p.err, "not named: %s", title)
                with open(file, "wb") as f:
                    f.write(data)
            expect(reached > 0, "%s was never opened", file)


def harmed(path):
    """Ways in which a file of a slide can be harmed: a word for each, and a function that does it."""
    data = bytes_in(path)

    def become(new):
        with open(path, "wb") as f:
            f.write(new)

    def be(make):
        os.unlink(path)
        make()
    yield "cut", lambda: become(data[:len(data) // 2])
    yield "empty", lambda: become(b"")
    yield "garbage", lambda: become(b"\x5a" * len(data))
    yield "a flipped byte", lambda: become(data[:len(data) * 2 // 3] + bytes([data[len(data) * 2 // 3] ^ 255]) + data[len(data) * 2 // 3 + 1:])
    yield "gone", lambda: os.unlink(path)
    yield "a dangling link", lambda: be(lambda: os.symlink("nowhere", path))
    yield "a folder", lambda: be(lambda: os.mkdir(path))
    if not path.endswith((".ini", ".ind", ".dat", ".jpg", ".vms", ".mrxs")):  # OpenSlide waits for a writer
        yield "a pipe", lambda: be(lambda: os.mkfifo(path))


CANARY_NAMES = ("CANARY, Annabell (19560312) %d.dcm", "CANARY%d", "CANARY (Annabell)", "CANARY.ind", "CANARY 19560312.dat", "CANARY Annabell.vms", "CANARY-1.jpg", "CANARY map.jpg")


def test_anonymous_messages_name_no_file_of_a_slide():
    """Every way of failing that we know, of every format of several files: no name comes out, in messages, JSON, failed.csv or stores."""
    library, seen = preloaded(VANISHES), set()
    for kind, (slide, files) in of_several_files(CANARY_NAMES, "CANARY ").items():
        folder, masks = os.path.dirname(slide), tmp("CANARY masks")
        with open(os.path.join(masks, "CANARY other.png"), "wb") as f:
            f.write(b"no picture")

        def check(way, *options, done=False, of=None, **env):
            out = tmp("out")
            argv = [WSI2H5, "--json", "--anonymous", os.path.join(tmp("key"), "k.csv"), "-o", out, *options, folder]
            p = failing(*of, *argv, TORTURE_FOREVER="1") if of else run(*argv, status=None, env=dict(os.environ, **env))
            said = {"messages": p.err, "JSON": p.out, **{n: bytes_in(os.path.join(out, n)).decode("latin-1") for n in os.listdir(out)
                                                          if not os.path.isdir(os.path.join(out, n))}}
            for where, text in said.items():
                at = max(text.find(word) for word in ("CANARY", "Annabell", "19560312"))
                expect(at < 0, "%s, %s: in %s: %s", kind, way, where, text[max(at - 200, 0):at + 200])
            expect(not done or p.returncode == 0, "%s, %s: %s", kind, way, p.err)
            expect("terminated" not in p.err and "crashed" not in p.err, "%s, %s: %s", kind, way, p.err)
            if p.returncode:
                seen.add((kind, way))
        check("whole", done=True)
        check("no level", "--level", "9")
        check("no codec", "--codec", "j2k", "--strict-codec")
        check("no mask", "--tissue-mask", masks + "/")
        check("no picture", "--tissue-mask", os.path.join(masks, "CANARY other.png"))
        shutil.copy(slide, os.path.join(folder, "CANARY twin" + os.path.splitext(slide)[1]))
        with open(os.path.join(folder, "CANARY twin" + os.path.splitext(slide)[1]), "r+b") as f:
            f.seek(-300, os.SEEK_END) if os.path.getsize(slide) > 300 else f.seek(0)
            f.write(b"~")
        check("a twin")
        os.unlink(os.path.join(folder, "CANARY twin" + os.path.splitext(slide)[1]))
        for file in files:
            for way, calls, error in (("EACCES", "open,openat", errno.EACCES), ("EIO", "open,openat", errno.EIO), ("EIO of reads", "pread,read", errno.EIO)):
                check(way, of=(calls, file, 1, error))
            copy = os.path.join(tmp("copy"), "copy")
            shutil.copy2(file, copy)
            for at in (1, 2, 3, 4):
                check("vanishes", LD_PRELOAD=library, GONE=file, AT=str(at))
                shutil.copy2(copy, file)
            for way, harm in harmed(file):
                harm()
                check(way, *(("--on-damage", "fail") if way == "a flipped byte" else ()))
                os.rmdir(file) if os.path.isdir(file) and not os.path.islink(file) else os.path.lexists(file) and os.unlink(file)
                shutil.copy2(copy, file)
    expect(len({way for _, way in seen}) >= 14, "%s", sorted({way for _, way in seen}))
    expect(len(seen) >= 40, "%s", sorted(seen))


def test_a_folder_that_cannot_be_asked_for_is_named_with_the_error():
    for argv in ([WSI2H5, "-q", "-o"], [H5SPEC, "run", "-q", "--device", "cpu", "-o"]):
        out = tmp()
        p = failing("stat", out, 1, errno.EIO, *argv, out, small() if H5SPEC in argv else made("--size", "700x600", name="small"), TORTURE_FOREVER="1")
        expect(p.returncode == 5 and "Input/output error" in p.err, "%d %s", p.returncode, p.err)


def test_a_store_that_is_replaced_while_it_is_verified():
    library = preloaded("""
        ssize_t pread(int fd, void *to, size_t n, off_t at) {
            ssize_t (*f)(int, void *, size_t, off_t);
            static int calls;
            *(void **)&f = dlsym(RTLD_NEXT, "pread");
            if (++calls == atoi(getenv("AT")))
                rename(getenv("NEW"), getenv("OLD"));
            return f(fd, to, n, at);
        }
        ssize_t pread64(int fd, void *to, size_t n, off_t at) { return pread(fd, to, n, at); }""")
    other, changed = store(made("--size", "900x500", "--seed", "5", name="other")), 0
    for at in range(1, 100, 5):  # while it is looked at, opened, read
        path, new = (os.path.join(tmp(), n) for n in ("s.h5", "new"))
        shutil.copy(small(), path)
        shutil.copy(other, new)
        p = run(H5SPEC, "verify", path, status=None, env=dict(os.environ, LD_PRELOAD=library, OLD=path, NEW=new, AT=str(at)))
        expect(p.returncode == 0 or p.returncode == 5 and "changed while it was read; run again" in p.err, "%d: %d %s", at, p.returncode, p.err)
        changed += p.returncode == 5
    expect(changed > 0, "nothing was replaced")


def test_remains_of_killed_writers():
    """Also of another host, if they have not grown for a day and nobody holds the lock."""
    import fcntl
    for program, given in (([WSI2H5], made("--size", "700x600", name="small")), ([H5SPEC, "run", "--device", "cpu"], small())):
        out = tmp()
        paths = [os.path.join(out, name) for name in (".x.h5.elsewhere-77-1.part", ".y.h5.elsewhere-78-1.part", ".notes.part")]
        for path in paths:
            open(path, "w").close()
            os.utime(path, (1, 1))
        with open(paths[1]) as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            run(*program, "-q", "-o", out, given)
        expect([os.path.exists(path) for path in paths] == [False, True, True], "%s", os.listdir(out))


def test_a_result_that_is_replaced_between_two_opens():
    """What is sized by a result is filled when it is opened again: "changed", never another one's numbers."""
    library = preloaded("""
        static int opened(const char *name, const char *path, int flags, int mode) {
            int (*f)(const char *, int, ...);
            static int calls;
            *(void **)&f = dlsym(RTLD_NEXT, name);
            if (!strcmp(path, getenv("OLD")) && ++calls == atoi(getenv("AT")))
                rename(getenv("NEW"), path);
            return f(path, flags, mode);
        }
        int open(const char *path, int flags, ...) {
            va_list ap; va_start(ap, flags); const int mode = va_arg(ap, int); va_end(ap);
            return opened("open", path, flags, mode);
        }
        int open64(const char *path, int flags, ...) {
            va_list ap; va_start(ap, flags); const int mode = va_arg(ap, int); va_end(ap);
            return opened("open64", path, flags, mode);
        }""")
    whole, seen = small(), set()
    left, right = (os.path.join(tmp(), n) for n in ("left.h5", "right.h5"))
    for name, options in ((left, ()), (right, ())):
        run(H5SPEC, "run", "-q", "--device", "cpu", "-o", name, *options, whole if name == left else store(made("--size", "900x500", "--seed", "5", name="other")))
    for options, slide in ((("--bins", "4096"), whole), (("--stride", "32"), whole), ((), store(made("--size", "1100x1400", "--seed", "7", name="small")))):
        new = os.path.join(tmp(), "new.h5")
        run(H5SPEC, "run", "-q", "--device", "cpu", "-o", new, *options, slide)
        for argv in ([H5SPEC, "merge", "-q", "-o", os.path.join(tmp(), "m.h5")], [H5SPEC, "report", "-q", "-o", os.path.join(tmp(), "r.html")]):
            for at in range(1, 13):
                path, other = (os.path.join(tmp(), n) for n in ("old.h5", "new.h5"))
                shutil.copy(left, path)
                shutil.copy(new, other)
                p = run(*argv, path, right, status=None, env=dict(os.environ, LD_PRELOAD=library, OLD=path, NEW=other, AT=str(at)))
                expect(p.returncode in (0, 1) or p.returncode == 5 and "changed while it was read" in p.err, "%s %d: %d %s", argv, at, p.returncode, p.err)
                seen.add((argv[1], options, p.returncode))
    expect({("merge", o, 5) for o in (("--bins", "4096"), ("--stride", "32"))} <= seen, "%s", seen)  # report opens small results once


# --- lists and tables, as people and programs write them: each with each option that takes one ---

LISTS = [  # of one path or name
    b"\xef\xbb\xbf%s\r\n", b"%s   \r\n", b'"%s"\r\n', b'\xef\xbb\xbf"%s" \r\n\r\n', b"  %s\n", b"%s,,\n,,,\n", b"%s;;\n;;\n", b"\t%s\t\r\n", b"%s",
]


def test_lists():
    slide, path = made("--size", "700x600", name="small"), small()
    result = result_of(path)
    made_here = lambda p, out: stores_in(out) == ["small.h5"]
    quiet = lambda p, out: not p.err
    options = [(lambda out, l: [WSI2H5, "-q", "-o", out, "--list", l], slide, made_here),
               (lambda out, l: [H5SPEC, "run", "-q", "--device", "cpu", "-o", out, "--list", l], path, made_here),
               (lambda out, l: [H5SPEC, "merge", "-q", "-o", out + "/small.h5", "--list", l], result, made_here),
               (lambda out, l: [H5SPEC, "verify", "-q", "--list", l], path, quiet), (lambda out, l: [H5SPEC, "lookup", "--list", l], path, quiet),
               (lambda out, l: [H5SPEC, "map", "-q", "-o", out, "--list", l], result, quiet), (lambda out, l: [H5SPEC, "info", "--list", l], result, quiet),
               (lambda out, l: [H5SPEC, "report", "-q", "-o", out + "/r.html", "--list", l], result, quiet),
               (lambda out, l: [H5SPEC, "report", "-q", "-o", out + "/r.html", "--accepted", l, result], "small",
                lambda p, out: "no result has" not in p.err)]
    name = os.path.join(tmp(), "list.txt")
    for argv, given, good in options:
        for form in LISTS:
            put_file(name, form % given.encode())
            out = tmp()
            p = run(*argv(out, name))
            expect(good(p, out), "%s, %r: %s", argv(out, name), form, p.err)
        put_file(name, (given + "\r\n").encode("utf-16"))
        says(run(*argv(tmp(), name), status=None).err, name, "UTF-8")


TABLES = [  # how rows are joined, how a cell is written, what follows the last row
    (",", "%s", "\n", ""), (";", "%s", "\r\n", ";;\r\n"), (";", '"%s"', "\n", "\n"), ("\t", "%s", "\n", "\t\n"), (",", " %s ", "\r\n", ",,\r\n"),
    (",", '"%s" ', "\n", ""),
]


def test_tables():
    path = result_of(small())
    page, out = os.path.join(tmp(), "r.html"), os.path.join(tmp(), "out.csv")
    report = [H5SPEC, "report", "-q", "--csv", out, "-o", page, path]
    cell = lambda column: next(csv.DictReader(open(out, newline="", encoding="utf-8-sig")))[column]
    options = [(["slide", "site"], ["small", "A"], lambda t: report + ["--meta", t, "--group", "site"], lambda p: cell("group") == "A"),
               (["metric", "side", "warn", "fail"], ["mean_db", "above", "", "1"], lambda t: report + ["--limits", t], lambda p: cell("verdict") == "fail"),
               (["slide", "reason"], ["gone", "it fell"], lambda t: report + ["--failed", t], lambda p: "it fell" in open(out).read()),
               (["a", "b"], ["small", "small"], lambda t: [H5SPEC, "compare", "--json", "--pairs", t, path, path],
                lambda p: [x["slide_b"] for x in json_lines(p.out)[0]["slides"]] == ["small"]),
               (["x", "y", "size", "score"], ["0", "0", "256", "0.5"], lambda t: [H5SPEC, "map", "-q", "--slide-size", "700x600", "--scores", t, "-o", tmp()], lambda p: True)]
    for head, row, argv, good in options:
        table = os.path.join(tmp(), "table.csv")
        for mark in ("", "\ufeff"):
            for separator, form, end, after in TABLES:
                text = mark + "".join(separator.join(form % c for c in cells) + end for cells in (head, row)) + after
                put_file(table, text)
                p = run(*argv(table), status=None)
                expect(p.returncode == 0 and good(p), "%s %r: %d %s", argv(table), text, p.returncode, p.err)
        put_file(table, (",".join(head) + "\r\n" + ",".join(row) + "\r\n").encode("utf-16"))
        says(run(*argv(table), status=None).err, table, "UTF-8")


main(globals())
