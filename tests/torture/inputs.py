"""Sweeps over damaged and hostile inputs: slides, stores, results, forged HDF5 metadata.

The verdict is the same everywhere: the program ends by itself with a promised status, no sanitizer
speaks, and status 0 means that the numbers are those of the undamaged input.
"""
import resource

import h5py
import numpy as np

from common import *
import dicomfile
import ndpifile

H5SUM = os.path.join(BUILD, "tests", "torture_h5sum")
MKRESULT = os.path.join(BUILD, "tests", "mkresult")
MOST_MEMORY = None if lib.SAN else 4 << 30


def limited():
    """For preexec: bounded memory and output, so that a lie about a size cannot hurt the machine."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    if MOST_MEMORY:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def mutated(random_, data):
    """The bytes with one kind of damage, and what it is."""
    data = bytearray(data)
    kind = random_.choice(("bit", "bit", "bytes", "zeros", "truncated", "head"))
    at = random_.randrange(len(data))
    if kind == "truncated":
        return bytes(data[:at]), "truncated to %d bytes" % at
    if kind == "zeros":
        n = min(random_.choice((16, 512, 4096)), len(data) - at)
        data[at:at + n] = bytes(n)
        return bytes(data), "%d zeros at %d" % (n, at)
    if kind == "head":
        at = random_.randrange(min(len(data), 4096))
    n = 1 if kind == "bit" else random_.randrange(1, 9)
    for k in range(at, min(at + n, len(data))):
        data[k] ^= 1 << random_.randrange(8) if kind == "bit" else random_.randrange(1, 256)
    return bytes(data), "%s changed at %d" % ("a bit" if kind == "bit" else "%d bytes" % n, at)


# --- slides ---

SLIDES = {
    "rgb": ("--size", "1300x900", "--levels", "2", "--icc", "fake:200"),
    "ycbcr": ("--size", "700x600", "--photometric", "ycbcr", "--subsampling", "420"),
    "own tables": ("--size", "700x600", "--complete-tiles", "--bigtiff"),
    "33003": ("--size", "500x400", "--compression", "33003"),
    "33005": ("--size", "500x400", "--compression", "33005", "--bigtiff"),
    "deflate": ("--size", "500x400", "--compression", "deflate"),
    "gray JPEG": ("--size", "700x600", "--photometric", "gray"),
    "uncompressed": ("--size", "300x260", "--tile", "256", "--compression", "none"),
}
FOREIGN = ("--description", "scanned elsewhere")  # no Aperio slide: OpenSlide reads it
OTHERS = {
    "TIFF": ("--size", "700x600", "--bigtiff", *FOREIGN),
    "gray TIFF": ("--size", "700x600", "--photometric", "gray", *FOREIGN),
    "uncompressed TIFF": ("--size", "300x260", "--tile", "256", "--compression", "none", *FOREIGN),
    **{name: ("--container", name, "--size", "700x600", "--levels", "2", "--tile", "256", "--photometric", "ycbcr")
       for name in ("generic", "subifds", "ome", "ome-subifds", "philips")},
}
DICOM = {"DICOM": {}, "DICOM in fragments": {"split": 2, "closed": False}, "DICOM, extended table": {"table": "extended"}}
FIXED = ("--tissue-thresholds", "0.5,0.1")  # damage elsewhere does not move them
WAYS = (("--codec", "none"), ("--codec", "keep"), ("--codec", "none", "--tissue-only"), ("--codec", "none", "--tissue-only", *FIXED),
        ("--codec", "none", "--gray"))


def store_content(path):
    """Size, pixels, states of tiles and chunks that were left out."""
    with h5py.File(path, "r") as f:
        groups = [f["groups"][g] for g in sorted(f["groups"])]
        return ((int(f.attrs["width"]), int(f.attrs["height"])),
                [g["pixels"][()].tobytes() for g in groups],
                np.concatenate([g["tile_status"][()].ravel() for g in groups]))


def sweep_slides(t):
    """Truncations, flipped bits and blocks of zeros in slides of each format."""
    work = t.new_folder()
    originals = []
    slides = {name: os.path.join(work, "s%d.svs" % number) for number, name in enumerate(SLIDES)}
    for name, path in slides.items():
        subprocess.run([MKSLIDE, *SLIDES[name], path], check=True)
    tiles = os.path.join(work, "tiles.svs")
    subprocess.run([MKSLIDE, "--size", "700x600", "--complete-tiles", tiles], check=True)
    for name, how in DICOM.items():
        slides[name] = os.path.join(work, "s%d.dcm" % len(slides))
        uid = "1.2.3.%d" % len(slides)
        dicomfile.write(slides[name], dicomfile.instance(dicomfile.Level(tiles), series=uid, sop=uid + ".1", **how))
    slides["NDPI"] = os.path.join(work, "s%d.ndpi" % len(slides))
    ndpifile.Slide().add(ndpifile.picture(1024, 600, 64), 1024, 600, 20.0).save(slides["NDPI"])
    for name, how in OTHERS.items() if "OpenSlide" in run([WSI2H5, "--version"]).out else ():
        slides[name] = os.path.join(work, "s%d.tif" % len(slides))
        subprocess.run([MKSLIDE, *how, slides[name]], check=True)
    series = make_containers(work, "500x400")
    slides.update({name: files[0] for name, files in series.items()})
    for name, path in slides.items():
        for number, way in enumerate(WAYS):
            out = "%s.%d.h5" % (path, number)
            subprocess.run([WSI2H5, "-q", "-o", out, *way, path], check=True)
            originals.append((name, path, way, store_content(out)))
    for _ in range(t.times(5000)):
        t.tried += 1
        name, path, way, clean = t.random.choice(originals)
        files = series.get(name, [path])
        changed = t.random.choice(files)
        data, what = mutated(t.random, bytes_in(changed))
        what = "%s %s, %s" % (name, " ".join(way), what)
        folder = t.new_folder()
        for file in files:
            shutil.copy(file, folder)
        with open(os.path.join(folder, os.path.basename(changed)), "wb") as f:
            f.write(data)
        slide, out = os.path.join(folder, os.path.basename(path)), os.path.join(folder, "s.h5")
        ran = run([WSI2H5, "-q", "-o", out, *way, slide], preexec=limited)
        judge_slide(t, ran, slide, out, clean, what, way)
        shutil.rmtree(folder)


def judge_tissue(t, slide, out, clean, what):
    """With fixed thresholds damage can only add tissue: where it is noticed, cells count as tissue. What is left out then shows
    other pixels of a stream that is still valid, which nothing in the file shows: without --tissue-only the run finds nothing."""
    try:
        size, _, states = store_content(out)
    except OSError:
        return  # no store
    if size != clean[0] or not np.any((states == 3) & (clean[2] == 0)):
        return
    whole = out + ".whole.h5"
    ran = run([WSI2H5, "-q", "-o", whole, "--codec", "none", slide], preexec=limited)
    if ran.status == 0:
        return t.note("tissue in other colours of a stream that is still valid")
    if os.path.exists(whole):  # where tissue was left out: are the pixels other ones, in a tile that counts as whole?
        _, pixels, all_states = store_content(whole)
        lost = np.flatnonzero((states == 3) & (clean[2] == 0))
        if pixels != clean[1] and np.all(all_states[lost] == 0) and "zeros" in what:
            return t.note("tissue beside noticed damage, in other colours")
    t.bad("%s: tissue was left out, and without --tissue-only the damage is noticed: %s", what, ran.err[-200:])


def judge_slide(t, ran, slide, out, clean, what, way):
    why = broken_by(ran, "wsi2h5")
    if why:
        return t.bad("%s: %s", what, why)
    if FIXED[0] in way:
        judge_tissue(t, slide, out, clean, what)
    if ran.status != 0:
        if slide not in ran.err:
            t.bad("%s: status %d without the slide's name: %r", what, ran.status, ran.err[-200:])
        return t.note("reported")
    try:
        size, pixels, states = store_content(out)
    except Exception as e:
        return t.bad("%s: status 0 and no store: %s", what, e)
    if size != clean[0]:
        t.bad("%s: status 0, %s x %s px instead of %s x %s", what, *size, *clean[0])
    elif np.count_nonzero(states == 3) > np.count_nonzero(clean[2] == 3) and np.any((states == 3) & (clean[2] == 0)) \
            and "truncated" in what:
        t.bad("%s: status 0, and tissue was left out", what)
    elif np.any((states == 2)):
        t.bad("%s: status 0, and tiles are damaged", what)
    elif pixels != clean[1]:
        t.note("other pixels in a stream that is still valid")
    else:
        t.note("harmless")


# --- stores and results ---

def make_files(t):
    """Stores of each codec and results, as they come out of the programs."""
    work = t.new_folder()
    slide = os.path.join(work, "s.svs")
    subprocess.run([MKSLIDE, "--size", "700x600", "--levels", "2", "--icc", "fake:300", slide], check=True)
    stores = []
    for name, options in {"deflate": ("--codec", "deflate"), "none": ("--codec", "none"), "lz4": ("--codec", "lz4"),
                          "zstd": ("--codec", "zstd"), "jpeg": ("--codec", "jpeg"), "gray": ("--gray",), "tissue": ("--tissue-only",),
                          "groups": ("--stripe-rows", "240", "--group-bytes", "1M")}.items():
        path = os.path.join(work, name + ".h5")
        subprocess.run([WSI2H5, "-q", "-o", path, *options, slide], check=True)
        stores.append((name, path))
    for number, (name, files) in enumerate(make_containers(work, "700x600").items()):
        path = os.path.join(work, "container%d.h5" % number)
        subprocess.run([WSI2H5, "-q", "-o", path, files[0]], check=True)
        stores.append((name, path))
    results = []
    for name, path in stores[:2]:
        out = os.path.join(work, name + ".result.h5")
        subprocess.run([H5SPEC, "run", "-q", "--device", "cpu", "-o", out, path], check=True)
        results.append((name, out))
    return slide, stores, results


def histogram(path):
    with h5py.File(path, "r") as f:
        return f["histogram"][()].tobytes()


def sweep_stores(t):
    """Truncations, flipped bits and blocks of zeros in stores of each codec and in results."""
    _, stores, results = make_files(t)
    work = t.new_folder()
    spec = {}
    for name, path in stores:
        for more in ((), ("--tissue-only",)):
            out = os.path.join(work, "clean.h5")
            subprocess.run([H5SPEC, "run", "-q", "--device", "cpu", *more, "-o", out, path], check=True)
            spec[name, more] = histogram(out)
            os.unlink(out)
    for _ in range(t.times(4000)):
        t.tried += 1
        name, path = t.random.choice(stores)
        data, what = mutated(t.random, bytes_in(path))
        damaged, out = os.path.join(work, "x.h5"), os.path.join(work, "out.h5")
        with open(damaged, "wb") as f:
            f.write(data)
        more = t.random.choice(((), ("--tissue-only",)))
        ran = run([H5SPEC, "run", "-q", "--device", "cpu", *more, "-o", out, damaged], preexec=limited)
        check_damaged(t, ran, damaged, "%s store, %s" % (name, what), "run")
        if ran.status == 0 and histogram(out) != spec[name, more]:
            t.bad("%s store, %s: status 0 and another histogram", name, what)
        if os.path.exists(out):
            os.unlink(out)
        seen = run([H5SPEC, "verify", "-q", damaged], preexec=limited)
        check_damaged(t, seen, damaged, "%s store, %s" % (name, what), "verify")
        if seen.status == 0 and digest(damaged) != digest(path):
            t.bad("%s store, %s: verify finds nothing, and the content differs", name, what)
        if seen.status == 0 and ran.status != 0:
            t.bad("%s store, %s: verify finds nothing, run ends with %d: %s", name, what, ran.status, ran.err[-200:])
    for _ in range(t.times(1000)):
        t.tried += 1
        name, path = t.random.choice(results)
        data, what = mutated(t.random, bytes_in(path))
        damaged, out = os.path.join(work, "x.h5"), os.path.join(work, "out.h5")
        with open(damaged, "wb") as f:
            f.write(data)
        for argv in ([H5SPEC, "merge", "-q", "-o", out, damaged], [H5SPEC, "info", "--json", damaged],
                     [H5SPEC, "verify", "-q", damaged]):
            ran = run(argv, preexec=limited)
            check_damaged(t, ran, damaged, "%s result, %s" % (name, what), argv[1])
            if ran.status == 0 and argv[1] == "merge" and histogram(out) != histogram(path):
                t.bad("%s result, %s: merged with status 0 to another histogram", name, what)
            if ran.status == 0 and argv[1] == "verify" and digest(damaged) != digest(path):
                t.bad("%s result, %s: verify finds nothing, and the content differs", name, what)
        if os.path.exists(out):
            os.unlink(out)


def check_damaged(t, ran, path, what, command):
    why = broken_by(ran, command)
    if why:
        t.bad("%s: %s", what, why)
    elif ran.status != 0 and path not in ran.err:
        t.bad("%s: %s ends with %d without the file's name: %r", what, command, ran.status, ran.err[-200:])


# --- forged metadata with valid checksums ---

DENSE = (b"FRHP", b"FHDB", b"FHIB", b"BTHD", b"BTIN", b"BTLF")


def blocks_of(path):
    """Offset, length and place of the checksum of each block of metadata."""
    out = subprocess.run([H5SUM, path], stdout=subprocess.PIPE, check=True, text=True).stdout
    return [tuple(map(int, line.split(":"))) for line in out.split()]


def make_dense(t, store):
    """Files with more links or attributes than a header holds: these lie in heaps, which trees list."""
    work = t.new_folder()
    path = lambda name: os.path.join(work, name + ".h5")
    for n in (9, 60):
        subprocess.run([MKRESULT, "--slides", str(n), "--windows", "2x2", "--window", "64", "--stride", "64",
                        path("%d slides" % n)], check=True)
    tall = os.path.join(work, "tall.svs")
    subprocess.run([MKSLIDE, "--size", "300x2700", tall], check=True)
    subprocess.run([WSI2H5, "-q", "-o", path("12 groups"), "--stripe-rows", "240", "--group-bytes", "1", tall], check=True)
    shutil.copy(store, path("many"))
    with h5py.File(path("many"), "r+", libver=("v110", "v110")) as f:  # two levels of nodes above the leaves
        f["number"] = 1.0
        for k in range(1300):
            f["a link to the number %d" % k] = f["number"]
        for k in range(900):
            f.attrs["added %d" % k] = k
    kinds = {"9 slides": "result", "60 slides": "result"}
    for name in ("9 slides", "60 slides", "12 groups", "many"):
        data = bytes_in(path(name))
        blocks = blocks_of(path(name))
        dense = [b for b in blocks if data[b[0]:b[0] + 4] in DENSE]
        assert dense, name
        subprocess.run([H5SPEC, "verify", "-q", path(name)], check=True)
        yield kinds.get(name, "store"), name, data, blocks, dense


def forged(random_, data, blocks):
    """Some bytes of one or two blocks changed; what changed."""
    data = bytearray(data)
    said = []
    for _ in range(random_.choice((1, 1, 2))):
        offset, n, _ = random_.choice(blocks)
        at = offset + random_.randrange(n)
        if data[at] == 0:  # most bytes of a heap are free
            at = offset + random_.randrange(n)
        kind = random_.choice(("bit", "byte", "ff", "zero", "word"))
        width = {"bit": 1, "byte": 1, "ff": 8, "zero": 8, "word": 4}[kind]
        for k in range(at, min(at + width, offset + n)):
            data[k] = {"bit": data[k] ^ 1 << random_.randrange(8), "byte": random_.randrange(256), "ff": 255, "zero": 0,
                       "word": random_.randrange(256)}[kind]
        said.append("%s at %d (%s)" % (kind, at, bytes(data[offset:offset + 4])))
    return data, ", ".join(said)


def sweep_hostile(t):
    """HDF5 metadata with changed bytes and right checksums, through every reader."""
    slide, stores, results = make_files(t)
    work = t.new_folder()
    originals = [(kind, name, bytes_in(path), blocks_of(path), [])
                 for kind, files in (("store", stores), ("result", results)) for name, path in files]
    dense = list(make_dense(t, stores[0][1]))
    for _ in range(t.times(4000)):
        t.tried += 1
        kind, name, data, blocks, heaps = t.random.choice(t.random.choice((originals, dense)))
        if heaps and t.random.random() < 0.8:
            t.note("in heaps and trees")
            mutant, what = forged(t.random, data, heaps)
        else:
            mutant, what = forged(t.random, data, blocks)
        damaged, out = os.path.join(work, "s.h5"), os.path.join(work, "out.h5")
        with open(damaged, "wb") as f:
            f.write(mutant)
        subprocess.run([H5SUM, damaged, *("%d:%d:%d" % b for b in blocks)], check=True)
        commands = [[H5SPEC, "info", "--json", damaged], [H5SPEC, "verify", "-q", damaged]]
        if kind == "store":
            commands += [[H5SPEC, "run", "-q", "--device", "cpu", "-o", out, damaged],
                         [WSI2H5, "-q", "-o", work, slide]]
        else:
            commands += [[H5SPEC, "merge", "-q", "-o", out, damaged]]
        for argv in commands:
            judge_hostile(t, argv, "%s %s, %s" % (kind, name, what))
            if os.path.exists(out):
                os.unlink(out)


def judge_hostile(t, argv, what):
    """A crash inside HDF5 is counted apart: the library is not made for hostile files."""
    ran = run(argv, {} if lib.SAN else {"LD_PRELOAD": WHERE}, limit=20, preexec=limited)
    what = "%s, %s" % (os.path.basename(argv[0]) + " " + argv[1], what)
    if ran.hung and ran.err == "":
        t.note("hangs")
        t.bad("%s: does not end", what)
    elif ran.status < 0 and "libhdf5" in ran.err:
        t.note("crashes inside HDF5")
    elif ran.status < 0 and ran.status != -signal.SIGKILL and "libc.so" in ran.err and "(abort" not in ran.err:
        t.note("crashes inside libc")
        t.bad("%s: %s", what, ran.err[-300:])
    else:
        why = broken_by(ran, argv[0])
        if why:
            t.bad("%s: %s", what, why)


SWEEPS = {"slides": sweep_slides, "stores": sweep_stores, "hostile": sweep_hostile}
