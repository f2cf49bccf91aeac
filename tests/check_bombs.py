"""Small files that ask for much memory: each takes little, and is judged by what it holds."""

import itertools
import socket
import threading

from check_j2k import changed_chunk
from lib import *
from pictures import png_file
from tiffpatch import BITS, DESCRIPTION, Pages

MOST = 200  # MiB of any run here


def frugal(*argv, status=0, timeout=60):
    """Runs a program, which must take at most MOST MiB and end with the status. Returns stderr."""
    err = os.path.join(tmp(), "err")
    with open(err, "w") as to:
        p = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=to, stderr=to)
    killer = threading.Timer(timeout, p.kill)
    killer.start()
    _, ended, used = os.wait4(p.pid, 0)
    killer.cancel()
    said = open(err, errors="replace").read()
    expect(os.waitstatus_to_exitcode(ended) == status, "status %s: %s", os.waitstatus_to_exitcode(ended), said)
    expect(SAN or used.ru_maxrss < MOST << 10, "%d MiB: %s", used.ru_maxrss >> 10, argv)
    return said


# --- PNG ---

def test_texts_in_a_png_are_not_unpacked():
    # 60 texts took 494 MiB, and 900 never ended
    rows = zlib.compress(bytes(301 * 300))
    packed = zlib.compress(b"x" * 7900000, 9)
    for kind, data in ((b"zTXt", b"a\0\0" + packed), (b"iTXt", b"a\0\1\0\0\0" + packed), (b"tEXt", b"a\0" + b"x" * 100000), (b"eXIf", b"II*\0" + bytes(100000)),
                       (b"sPLT", b"a\0\10" + bytes(600000)), (b"qqQq", bytes(100000)), (b"iCCP", b"a\0\0" + packed)):
        path = file_of("a.png", png_file(300, 300, 0, 8, *[(kind, data)] * 100, (b"IDAT", rows)))
        frugal(WSI2H5, "-q", "--codec", "none", "-o", os.path.join(tmp(), "a.h5"), path)
        frugal(WSI2H5, "-q", "--codec", "none", "--tissue-mask", path, "-o", os.path.join(tmp(), "a.h5"), made("--size", "600x600"))


def test_a_large_picture_of_one_colour_is_valid():
    # it was called too small for its pixels, as if each channel were stored
    cols, rows = 1000, 8300
    path = file_of("a.png", png_file(cols, rows, 3, 1, (b"PLTE", b"\xdc\xb4\xc8"), (b"IDAT", zlib.compress(bytes((1 + cols // 8) * rows), 9))))
    expect(os.path.getsize(path) < 3 * cols, "of no use: %d bytes", os.path.getsize(path))
    out = store(path)
    expect((pixels(out) == (0xdc, 0xb4, 0xc8)).all(), "pixels")


# --- TIFF ---

def directories(n, tags):
    """A gray picture of 64 x 64 px in a strip, and n - 1 small copies, with so many tags each."""
    file = Pages()
    for side in [64] + (n - 1) * [4]:
        file.add((side, side), side, [b"\x80" * side * side], {BITS: (3, [8]), 262: (3, [1]), 277: (3, [1]), 254: (4, [side < 64]),
                                                            **{40000 + k: (4, [k]) for k in range(tags - 10)}})
    return file.save(os.path.join(tmp(), "a.tif"))


def test_the_tags_of_a_file_are_bounded():
    # a file's directories are kept until it is closed: 262,144 tags at most
    frugal(WSI2H5, "-q", "-o", os.path.join(tmp(), "a.h5"), directories(1000, 262))
    says(frugal(WSI2H5, "-q", "-o", os.path.join(tmp(), "b.h5"), directories(1000, 263), status=1),
         "its directories have more than 262144 tags, or one of them more than 4096")
    says(frugal(WSI2H5, "-q", "-o", os.path.join(tmp(), "b.h5"), directories(2, 4097), status=1), "whose first directory has more than 4096 tags")


def test_the_samples_of_a_pixel_are_bounded():
    """A tile of 4,096 x 4,096 px with 65,535 samples is 1 TiB: no lack of memory, which would be tried again."""
    slide = Pages().add((4096, 4096), (4096, 4096), [bytes(16)], {BITS: (3, [8]), 259: (3, [8]), 277: (3, [65535])})
    says(frugal(WSI2H5, "-q", "-o", os.path.join(tmp(), "a.h5"), slide.save(os.path.join(tmp(), "a.tif")), status=1), "65535 samples")


# --- JPEG ---

def test_a_signal_is_obeyed_inside_a_picture():
    # all scans of a progressive picture are read before its first row
    has("PIL")
    once = os.path.join(tmp(), "once.jpg")  # made by another process: the memory of this one counts as that of the programs that it starts
    run(sys.executable, "-c", "import sys; from PIL import Image; Image.new('RGB', (6000, 6000), (200, 150, 180)).save(sys.argv[1], "
        "quality=50, subsampling=0, progressive=True)", once)
    data = bytes_in(once)
    last = data.rindex(b"\xff\xda")
    path = file_of("a.jpg", data[:last] + data[last:-2] * 450 + b"\xff\xd9")
    p = subprocess.Popen([WSI2H5, "-q", "-j", "1", "-o", os.path.join(tmp(), "a.h5"), path], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_until_caught(p, signal.SIGTERM)
    time.sleep(0.3)
    p.send_signal(signal.SIGTERM)
    _, ended, used = os.wait4(p.pid, 0)
    expect(os.waitstatus_to_exitcode(ended) == 3, "status %d: %s", os.waitstatus_to_exitcode(ended), p.stderr.read())
    expect(SAN or used.ru_utime < 2, "%.1f s of processor time", used.ru_utime)


def test_a_socket_is_no_slide():
    path = os.path.join(tmp(), "a.svs")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        says(run(WSI2H5, "-q", "-o", os.path.join(tmp(), "a.h5"), path, status=1).err, "a.svs: not a file")


# --- JPEG 2000 ---

def segment(marker, data):
    return struct.pack(">HH", marker, len(data) + 2) + data


def codestream(px, precinct=15, block=4, layers=1, tile=b"", coc=b"", unknown=b""):
    """A JPEG 2000 stream of px x px, 3 components, one resolution, without data. tile: segments of its only tile."""
    siz = struct.pack(">HIIIIIIIIH", 0, px, px, 0, 0, px, px, 0, 0, 3) + bytes([7, 1, 1]) * 3
    cod = struct.pack(">BBHBBBBBBB", 1, 0, layers, 0, 0, block, block, 0, 1, precinct * 17)
    head = b"\xff\x4f" + segment(0xff51, siz) + segment(0xff52, cod) + coc + unknown + segment(0xff5c, b"\x40\x40")
    data = tile + b"\xff\x93" + bytes(64)
    return head + segment(0xff90, struct.pack(">HIBB", 0, 12 + len(data), 0, 1)) + data + b"\xff\xd9"


def coding_of(component, precinct, block):
    return segment(0xff53, bytes([component, 1, 0, block, block, 0, 1, precinct * 17]))


def bombs(px):
    small = segment(0xff52, struct.pack(">BBHBBBBBBB", 1, 0, 1, 0, 0, 4, 4, 0, 1, 0x11))
    return {"precincts": codestream(px, precinct=1), "code-blocks": codestream(px, block=0), "layers": codestream(px, precinct=5, layers=65535),
            "precincts of a component": codestream(px, coc=coding_of(1, 1, 4)), "code-blocks of a component": codestream(px, coc=coding_of(2, 15, 0)),
            "precincts of a tile": codestream(px, tile=small), "of a component in a tile": codestream(px, tile=coding_of(0, 1, 4)),
            "behind a marker that is unknown": codestream(px, unknown=b"\xff\x30" + small)}


@later("ci")
def test_small_precincts_and_code_blocks():
    # 200 bytes took gigabytes: a decoder has memory for every precinct that a header states
    aperio = {DESCRIPTION: (2, b"Aperio Image Library v10.0\r\n4096x4096|AppMag = 20|MPP = 0.5\0")}  # OpenSlide decodes a tile when it opens such a file
    for (name, stream), text in itertools.product(bombs(4096).items(), ({}, aperio)):
        path = os.path.join(tmp(), "a.svs")
        Pages().add((4096, 4096), (4096, 4096), [stream], {259: (3, [33005]), 284: (3, [1]), **text}).save(path)
        for codec in ("deflate", "j2k"):
            frugal(WSI2H5, "-q", "-j", 1, "--codec", codec, "-o", os.path.join(tmp(), "a.h5"), path, status=1)
    good = store(made("--size", "1024x1024", "--tile", "1024", "--compression", "33005", "--levels", "1"), "--codec", "j2k")
    for name, stream in bombs(1024).items():
        bad = changed_chunk(good, lambda d: bytes(d[:77]) + struct.pack(">I", len(stream) + 8) + bytes(d[81:85]) + stream)
        says(frugal(H5SPEC, "run", "-q", "--device", "cpu", "-o", os.path.join(tmp(), "r.h5"), bad, status=1), "cannot unpack chunk")
        frugal(sys.executable, "-c", "import sys, h5py, numpy\ntry: h5py.File(sys.argv[1])['pixels'][:10, :10]\nexcept OSError: pass\nelse: sys.exit(9)",
               bad, status=0)


def test_fine_precincts_within_the_bound_are_decoded():
    for precinct, status in ((64, 0), (16, 1)):
        slide = made("--size", "512x512", "--tile", "512", "--compression", "33005", "--levels", "1", "--precinct", precinct)
        frugal(WSI2H5, "-q", "-j", 1, "--codec", "deflate", "-o", os.path.join(tmp(), "a.h5"), slide, status=status)


main(globals())
