"""One wrong bit, or a place that the disk cannot read, in a store, result, table or part: every command that fails on the file alone
also fails on its folder and names the file there, and the command that made the file makes it again."""
import random

from lib import *

# Reads of files whose path holds FLIPS_PATH fail from the byte FLIPS_EIO on.
FAILING_DISK = r"""
static int fails(int fd, long at)
{
    char link[64], path[4096];
    const char *from = getenv("FLIPS_EIO");
    if (!from || at < atol(from))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    errno = EIO;
    return strstr(path, getenv("FLIPS_PATH")) != NULL;
}
#define READ(name, type) \
    ssize_t name(int fd, void *to, size_t n, type at) \
    { \
        static ssize_t (*real)(int, void *, size_t, type); \
        real = real ? real : (ssize_t (*)(int, void *, size_t, type))dlsym(RTLD_NEXT, #name); \
        return fails(fd, (long)at) ? -1 : real(fd, to, n, at); \
    }
READ(pread, off_t)
READ(pread64, off64_t)
"""
HEAD = 64 << 10
BLOCKS = (b"OHDR", b"OCHK", b"FRHP", b"FHDB", b"FHIB", b"BTHD", b"BTIN", b"BTLF", b"GCOL", b"FAHD", b"FADB")


def slides():
    return [made("--size", "700x500", "--seed", str(k), name=name) for k, name in ((1, "a"), (2, "b"))]


def kinds():
    """Of each kind of file: its folder with a.h5, which is good, and b.h5; the commands that read it; the one that makes it."""
    out = {name: tmp(name) for name in ("store", "result", "part", "table")}
    again = {"store": (WSI2H5, "-q", "--codec", "deflate", "--stripe-rows", "240", "--group-bytes", "1", "-o", out["store"], *slides()),
             "result": (H5SPEC, "run", "-q", "--device", "cpu", "-o", out["result"], out["store"]),
             "part": (H5SPEC, "run", "-q", "--device", "cpu", "--groups", "1", "-o", os.path.join(out["part"], "b.h5"), os.path.join(out["store"], "b.h5"))}
    for argv in again.values():
        run(*argv)
    run(*(w.replace("b.h5", "a.h5") for w in again["part"]))
    for name in ("a.h5", "b.h5"):  # a table refers to results below its folder
        shutil.copytree(out["result"], os.path.join(out["table"], name[0]))
        run(TABLES, "merge", "-q", "-o", os.path.join(out["table"], name), os.path.join(out["table"], name[0], name))
    reads = {"store": (("verify",), ("info", "--json"), ("lookup",), ("run", "--device", "cpu", "-o", "OUT")), "result": (("verify",), ("info",), ("merge", "-o", "OUT.h5")),
             "part": (("verify",), ("merge", "--partial", "-o", "OUT.h5")), "table": (("verify",), ("info", "--json"))}
    return {name: (out[name], commands, again.get(name)) for name, commands in reads.items()}


def read(command, out, path, **env):
    argv = [os.path.join(out, w) if w.startswith("OUT") else w for w in command]
    return run(H5SPEC, *argv, path, status=None, env={**os.environ, **env})


def compare(what, commands, path, statuses, **env):
    """Runs the commands on a file and on its folder. True: the file alone is refused by the first command."""
    refused = False
    for k, command in enumerate(commands):
        alone, both = (read(command, tmp(), p, **env) for p in (path, os.path.dirname(path)))
        expect(alone.returncode in (0, 4, *statuses), "%s: %s: status %d: %s", what, command, alone.returncode, alone.err)
        expect((alone.returncode in (0, 4)) == (both.returncode in (0, 4)), "%s: %s: status %d alone, %d in its folder: %s %s", what, command, alone.returncode,
               both.returncode, alone.err, both.err)
        if alone.returncode in statuses:
            expect(both.returncode == alone.returncode and path in both.err, "%s: %s: status %d: %s", what, command, both.returncode, both.err)
            refused |= k == 0
    return refused


def bits(data, name):
    """Places of single bits in the first 64 KiB: in each kind of block of HDF5's metadata, in the superblock, and anywhere."""
    r, most = random.Random(name), min(len(data), HEAD)
    blocks = [at for word in BLOCKS for at in [m.start() for m in re.finditer(word, data[:most])][:by_tier(2, 4, 1000)]]
    places = [r.randrange(48) for _ in range(by_tier(4, 10, 48))] + [min(at + r.randrange(40), most - 1) for at in blocks]
    places += range(most) if TIER == "all" else [r.randrange(most) for _ in range(by_tier(6, 60, 0))]
    return [(at, 1 << r.randrange(8)) for at in places]


def test_one_wrong_bit():
    for name, (folder, commands, again) in kinds().items():
        path = os.path.join(folder, "b.h5")
        good = bytes_in(path)
        for at, bit in bits(good, name):
            data, what = bytearray(good), "%s, bit %d of byte %d" % (name, bit, at)
            data[at] ^= bit
            put_file(path, data)
            if compare(what, commands, path, (1,)) and again:
                why = read(("verify",), tmp(), path).err
                if "chunk (" not in why:  # a chunk of pixels is only looked at by what reads it
                    p = run(*again, status=None)
                    expect(p.returncode in (0, 4), "%s: not made again: status %d: %s", what, p.returncode, p.err)
                    expect(read(("verify",), tmp(), path).returncode == 0, "%s: still damaged: %s", what, why)
            put_file(path, good)


def test_a_disk_that_cannot_read_a_place():
    library = preloaded(FAILING_DISK)
    for name, (folder, commands, again) in kinds().items():
        path = os.path.join(folder, "b.h5")
        size = min(os.path.getsize(path), HEAD)
        for at in [0, 8, 48, 100, 500, 1000, *range(2000, size, max(size // by_tier(12, 40, 1000), 1))]:
            what, env = "%s, no byte from %d on" % (name, at), {"LD_PRELOAD": library, "FLIPS_EIO": str(at), "FLIPS_PATH": path}
            compare(what, commands, path, (5,), **env)
            if again:
                before = bytes_in(path)
                p = run(*again, status=None, env={**os.environ, **env})
                expect(p.returncode in (0, 5) and bytes_in(path) == before, "%s: made again: status %d: %s", what, p.returncode, p.err)


main(globals())
