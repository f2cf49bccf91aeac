"""SIGTERM is obeyed at once: at fifos, inside libraries, and while large areas of memory are filled."""
from lib import *

JPEG_TILES = {256: (4, [256]), 257: (4, [256]), 258: (3, [8, 8, 8]), 259: (3, [7]), 262: (3, [6]), 277: (3, [3]), 284: (3, [1]), 322: (4, [256]), 323: (4, [256])}


def stopped(argv, when=lambda p: time.sleep(0.5)):
    """Sends SIGTERM once when(process) returns. Status 3 is due. Returns what the process has used."""
    with open(os.path.join(tmp(), "err"), "w+") as err:
        p = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=err, stderr=err)
        wait_until_caught(p, signal.SIGTERM)
        when(p)
        expect(p.returncode is None, "ended by itself: %s: %s", argv, text_in(err.name))
        os.kill(p.pid, signal.SIGTERM)
        for _ in range(6000):  # 60 s, however slow the machine is: what does not obey waits for ever
            pid, ended, used = os.wait4(p.pid, os.WNOHANG)
            if pid:
                break
            time.sleep(0.01)
        else:
            p.kill()
            p.wait()
            raise Failed("SIGTERM is not obeyed: %s" % (argv,))
        p.returncode = os.waitstatus_to_exitcode(ended)
        err.seek(0)
        expect(p.returncode == 3, "status %d: %s: %s", p.returncode, argv, err.read())
    return used


def LISTS(folder):
    """The commands that read --list."""
    out = os.path.join(folder, "out")
    return (("run", "-o", out), ("merge", "-o", out), ("info",), ("verify",), ("lookup",), ("map", "-o", out), ("plot", "-o", out + ".svg"),
            ("report", "-o", out + ".html"))


def test_at_a_fifo_without_a_writer():
    needs("report")
    folder = tmp()
    result, fifo, page = spectrum(store(made("--size", "600x500"))), os.path.join(folder, "f"), os.path.join(folder, "a.html")
    os.mkfifo(fifo)
    for argv in ((WSI2H5, "-q", "-o", folder, "--list", fifo),
                 (H5SPEC, "report", "-q", "--group", "site", "-o", page, "--meta", fifo, result), (H5SPEC, "report", "-q", "-o", page, "--limits", fifo, result),
                 (H5SPEC, "report", "-q", "-o", page, "--accepted", fifo, result), (H5SPEC, "report", "-q", "-o", page, "--failed", fifo, result),
                 (H5SPEC, "compare", "--pairs", fifo, result, result),
                 *((H5SPEC, *words, "--list", fifo) for words in LISTS(folder))):
        stopped(argv)


def test_fifos_with_a_writer_are_read_to_their_end():
    folder = tmp()
    slides = [made("--size", "600x500", "--seed", str(k), name="s%d" % k) for k in range(3)]
    # a writer that begins late and pauses
    lines = " ".join("echo %s; sleep 0.3;" % slide for slide in slides)
    for how in ('"$0" -q --codec none -o "$1" --list <(sleep 0.3; %s)', '(sleep 0.3; %s) | "$0" -q --codec none -o "$1" --list -'):
        out = os.path.join(tmp(), "stores")
        run("bash", "-c", how % lines, WSI2H5, out)
        expect(sorted(stores_in(out)) == ["s0.h5", "s1.h5", "s2.h5"], "%s", os.listdir(out))
    result = spectrum(store(slides[0]))
    run("bash", "-c", '"$0" compare --pairs <(sleep 0.3; echo a,b; sleep 0.3; echo s0,s0) "$1" "$1"', H5SPEC, result)
    says(run(H5SPEC, "compare", "--pairs", folder, result, result, status=1).err, "Is a directory")


def tiff_file(entries, blob):
    """A TIFF of one directory. entries: {tag: (type, values or bytes)}; the blob lies at offset 8."""
    code = {2: ("c", 1), 3: ("H", 2), 4: ("I", 4)}
    heads, data, at = b"", b"", 8 + len(blob) + len(blob) % 2
    begin = at + 2 + 12 * len(entries) + 4
    for tag, (kind, values) in sorted(entries.items()):
        raw = values if isinstance(values, bytes) else struct.pack("<%d%s" % (len(values), code[kind][0]), *values)
        heads += struct.pack("<HHI", tag, kind, len(raw) // code[kind][1])
        heads += raw.ljust(4, b"\0") if len(raw) <= 4 else struct.pack("<I", begin + len(data))
        data += b"" if len(raw) <= 4 else raw + bytes(len(raw) % 2)
    return struct.pack("<2sHI", b"II", 42, at) + blob + bytes(len(blob) % 2) + struct.pack("<H", len(entries)) + heads + bytes(4) + data


def one_tile():
    """A JPEG stream of 256 x 256 px."""
    path = os.path.join(tmp(), "a.svs")
    run(MKSLIDE, "--size", "256x256", "--tile", "256", path)
    data = bytes_in(path)
    begin = data.index(b"\xff\xd8\xff")
    return data[begin:data.index(b"\xff\xd9", begin) + 2]


def test_inside_a_library():
    """An element of 3,000,000 attributes, and a description of 5,000,000 keys, keep expat and OpenSlide busy for many seconds."""
    xml = "<OME " + " ".join("a%d='1'" % k for k in range(3000000)) + "></OME>"
    keys = "Aperio Image Library v10.0\r\n256x256|AppMag = 20|" + "|".join("k%d = v" % k for k in range(5000000))
    tile = one_tile()
    for name, text in (("a.ome.tif", xml), ("a.svs", keys)):
        path = file_of(name, tiff_file({**JPEG_TILES, 270: (2, text.encode() + b"\0"), 324: (4, [8]), 325: (4, [len(tile)])}, tile))
        out = os.path.join(tmp(), "a.h5")
        used = stopped((WSI2H5, "-q", "-j", "1", "-o", out, path))
        expect(SAN or used.ru_utime + used.ru_stime < 3.5, "%s: %.1f s of processor time", name, used.ru_utime + used.ru_stime)
        expect(not os.path.exists(out), "a store")
        os.unlink(path)


def test_while_maps_of_many_windows_are_made():
    """The maps of 100,000,000 windows take 2 GB, which the kernel clears for seconds, on a busy machine for many."""
    side = 10064
    rows = zlib.compress(bytes((1 + side // 8) * side), 9)
    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    chunks = [struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in ((b"IHDR", head), (b"IDAT", rows), (b"IEND", b""))]
    path = store(file_of("a.png", b"\x89PNG\r\n\x1a\n" + b"".join(chunks)))

    def has_begun(p):
        while p.poll() is None and int(text_in("/proc/%d/statm" % p.pid).split()[1]) * resource.getpagesize() < 200 << 20:
            time.sleep(0.002)
    used = stopped((H5SPEC, "run", "-q", "-j", "1", "--device", "cpu", "--window", "64", "--stride", "1", "-o", os.path.join(tmp(), "a.h5"), path), has_begun)
    expect(used.ru_maxrss < 1200 << 10, "%d MiB", used.ru_maxrss >> 10)


main(globals())
