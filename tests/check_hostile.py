"""Forged HDF5 metadata with valid checksums: rejected before HDF5 sees it.

tests/torture has the random sweep. Here are the single cases that once crashed the library, made it loop,
or made it allocate gigabytes.
"""
import struct

import h5py
import numpy as np

from lib import *

MKRESULT = os.path.join(BUILD, "tests", "mkresult")


def small():
    return store(made("--size", "600x500", name="small"))


def rejected(cases, kind="store"):
    """`cases`: {name: (file, words of its message)}. By every command that reads a store or result, at once, with a message and without a crash."""
    folder, paths = tmp("forged"), {}
    for name, (path, words) in cases.items():
        paths[shutil.copy(path, os.path.join(folder, "%d, %s.h5" % (len(paths), name)))] = words
    last = ["run", "--device", "cpu"] if kind == "store" else ["merge"]
    for argv in (["info"], ["verify"], [*last, "-o", os.path.join(tmp(), "out.h5")]):
        some = list(paths)[:1] if argv[0] == "merge" else list(paths)  # merge ends with the first
        err = run(H5SPEC, *argv, *some, status=1, timeout=TIMEOUT).err
        for path in some:
            said = [line.replace(path, "") for line in err.splitlines() if path in line]
            expect(any(paths[path] in line for line in said), "%s, %s: %r is not in %s", argv[0], path, paths[path], said)


def attribute(data, obj, name):
    """Offsets of an attribute's type and value in its object's header."""
    at = data.index(name.encode() + b"\0", obj)
    sizes = struct.unpack_from("<HHH", data, at - 7)
    expect(data[at - 9] == 3 and sizes[0] == len(name) + 1, "%s is not an attribute of version 3", name)
    return at + sizes[0], at + sum(sizes)


def in_attribute(name, part, at, form, value, before=None):
    """Puts a number into the type (0) or the value (1) of an attribute."""
    def change(data):
        place = attribute(data, 48, name)[part] + at
        expect(before is None or struct.unpack_from(form, data, place)[0] == before, "not the place of this number")
        struct.pack_into(form, data, place, value)
    return change


def empty_text_in_the_heap(data):
    in_attribute("codec", 1, 0, "<I", 0)(data)
    in_attribute("codec", 1, 12, "<I", 0x7fffffff)(data)


def in_link(field, value):
    """A byte of the link to the groups: version, flags, length of the name, name."""
    def change(data):
        data[data.index(b"\0\1\0\6groups") + 1 + ("version", "flags", "length").index(field)] = value
    return change


def free_space(size):
    """The size of the free space of the heap of texts."""
    def change(data):
        heap = data.index(b"GCOL")
        at = heap + 16
        while struct.unpack_from("<H", data, at)[0]:
            at += 16 + (struct.unpack_from("<Q", data, at + 8)[0] + 7) // 8 * 8
        left = heap + struct.unpack_from("<Q", data, heap + 8)[0] - at
        expect(struct.unpack_from("<Q", data, at + 8)[0] == left, "not the free space")
        struct.pack_into("<Q", data, at + 8, size)
    return change


FORGED = {  # what is changed: how, words
    # a cache image in the extension of the superblock makes HDF5 write outside its memory
    "a superblock extension": (lambda data: struct.pack_into("<Q", data, 20, 2048), "another program"),
    # HDF5 frees memory that it has not set when it lists a group with such a link
    **{"%s %d of a link" % f: (in_link(*f), "a link is damaged") for f in (("version", 2), ("flags", 0x40), ("flags", 8), ("flags", 3), ("length", 0),
                                                                          ("length", 200))},
    # HDF5 1.10 allocates the length that the attribute says and copies what the heap says
    **{"a text of %d" % n: (in_attribute("codec", 1, 0, "<I", n, len("deflate")), "another length") for n in (1, 6, 8, 1000, 2 ** 32 - 1)},
    # HDF5 looks for it there, with an index that can lie outside its memory
    "an empty text": (empty_text_in_the_heap, "missing in the heap"), "text 999": (in_attribute("codec", 1, 12, "<I", 999), "missing in the heap"),
    "a heap of its own": (in_attribute("codec", 1, 4, "<Q", 2 ** 60), "outside the file"),
    # HDF5 1.10 reads beyond the attribute
    "a large type": (in_attribute("complete", 0, 4, "<I", 8, 1), "not complete"),
    # a text of seven "bytes" of 300 MB each kept HDF5 busy for minutes
    "large bytes": (in_attribute("codec", 0, 12, "<I", 300 << 20, 1), "attribute codec"),
    # HDF5 1.10 stays where it is and looks at it again, for ever
    **{"free space of %d" % n: (free_space(n), "a heap of texts has invalid sizes") for n in (0, 8, 1 << 40)},
}


def test_forged_stores():
    rejected({name: (forged(small(), change), words) for name, (change, words) in FORGED.items()})


def test_a_link_to_a_slide_that_cannot_be_decoded():
    def slide(data):
        at = data.index(b"\0\1\0\5small") + 1
        data[at + 2] = 0
    path = forged(spectrum(small()), slide)
    for argv in (["info"], ["verify"], ["merge", "-o", os.path.join(tmp(), "m.h5")]):
        p = run(H5SPEC, *argv, path, status=1, env={**os.environ, "MALLOC_PERTURB_": "165"})
        says(p.err, path, "a link is damaged")


def test_chunks_that_unpack_to_less():
    """HDF5 takes whatever its filter returns for a whole chunk, and reads beyond it."""
    slide = made("--size", "300x4200", "--tile", "64", name="tall")  # libdeflate packs nothing below 55 bytes
    groups = spectrum(store(slide, "--stripe-rows", "64", "--group-bytes", "1"))
    for path, name in ((small(), "tissue/mask"), (small(), "associated/thumbnail"), (groups, "slides/tall/groups_done")):
        with h5py.File(path, "r") as f:
            chunk = f[name].id.get_chunk_info(0)
        end = chunk.byte_offset + chunk.size

        def short(data):
            data[chunk.byte_offset:end] = zlib.compress(b"").ljust(chunk.size, b"\0")

        def unfiltered(data):
            at = data.index(struct.pack("<QIQ", chunk.size, 0, chunk.byte_offset))
            data[at + 8] = 1
        p = run(H5SPEC, "verify", forged(path, short), status=1)
        says(p.err, name.split("/")[-1], "cannot unpack it")
        if "thumbnail" not in name:  # which has several chunks, and an index
            p = run(H5SPEC, "verify", forged(path, unfiltered), status=1)
            says(p.err, name.split("/")[-1], "an impossible size")


def test_maps_in_chunks():
    """Maps are read row by row, so they lie in one piece."""
    path = spectrum(small())
    for chunks, dtype in (((2, 3), "<f4"), ((2, 2), "<f4"), ((2, 3), ">f4")):
        bad = copied(path, "result.h5")
        with h5py.File(bad, "r+") as f:
            values = f["slides/small/window_mean_db"][()]
            crc = f["slides/small/window_mean_db"].attrs["crc32"]
            del f["slides/small/window_mean_db"]
            f["slides/small"].create_dataset("window_mean_db", data=values, dtype=dtype, chunks=chunks, compression="gzip").attrs["crc32"] = crc
        for argv in (["verify"], ["map", "-o", os.path.join(tmp(), "c.csv")]):
            p = run(H5SPEC, *argv, bad, status=1)
            says(p.err, bad, "window_mean_db", "another program has rewritten it" if argv[0] == "map" or (chunks, dtype) == ((2, 3), "<f4") else "")


def messages(data, at):
    """Where the messages of the header at this place begin: type 1, size 2, flags 1."""
    flags = data[at + 5]
    expect(data[at:at + 4] == b"OHDR" and data[at + 4] == 2 and flags & 4 == 0, "not the header that is expected")
    begin = at + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
    width = 1 << (flags & 3)
    end = begin + width + int.from_bytes(data[begin:begin + width], "little")
    k, found = begin + width, {}
    while k + 4 <= end:
        found[data[k]] = k
        k += 4 + struct.unpack_from("<H", data, k + 1)[0]
    return found


def test_a_target_with_a_superblock_extension():
    out = tmp()
    path = os.path.join(out, "small.h5")
    shutil.copy(forged(small(), lambda data: struct.pack_into("<Q", data, 20, 2048)), path)
    data = bytes_in(path)
    says(run(WSI2H5, "-o", out, made("--size", "600x500", name="small"), status=1).err, path, "--force")
    expect(open(path, "rb").read() == data, "it was replaced")


def address(name):
    """Where the header of an object begins."""
    with h5py.File(small(), "r") as f:
        return h5py.h5o.get_info(f[name].id).addr


def index_of_chunks(data):
    """Where the index of the 9 chunks of pixels is; that of the thumbnail has another number."""
    at = data.index(b"FAHD")
    while struct.unpack_from("<Q", data, at + 8)[0] != 9:
        at = data.index(b"FAHD", at + 1)
    return at


def in_index(at, form, value):
    return lambda data: struct.pack_into(form, data, index_of_chunks(data) + at, value)


def second_layout(data):
    data[messages(data, address("tissue/mask"))[5]] = 8  # the fill value becomes one


def large_fill_value(data):
    at = address("groups/00001/pixels")
    fill = re.search(rb"\x03[\x20-\x3f]\x01\0\0\0\xff", data[at:at + 500])
    struct.pack_into("<I", data, at + fill.start() + 2, 200)


def index_of_associated(data):
    at = address("associated")
    expect(data[at:at + 4] == b"OHDR" and data[at + 25:at + 33] == b"\xff" * 8, "not the address of an index")
    data[at + 25] = 0


OBJECTS = {  # what is changed of an object: how, words, the commands that read it
    "a second layout, the first of which HDF5 uses": (second_layout, "repeats a message", "verify"),
    # HDF5 reads sizes that were never set, or beyond the index
    "entries without filters": (in_index(5, "<B", 0), "does not match the shape", "verify"),
    "entries with smaller sizes": (in_index(6, "<B", 13), "does not match the shape", "verify"),
    "fewer chunks than the shape promises": (in_index(8, "<Q", 4), "index of chunks does not match the shape", "verify"),
    "a fill value larger than its message": (large_fill_value, "a fill value is damaged", "verify run"),  # HDF5 1.10 reads beyond the message
    # info asked HDF5 for "associated/thumbnail" without a look at the header of the group
    "the index of the group of the thumbnail": (index_of_associated, "associated is damaged", "info"),
}


def test_forged_objects():
    for name, (change, words, commands) in OBJECTS.items():
        path = forged(small(), change)
        for command in commands.split():
            more = ["--device", "cpu", "-o", os.path.join(tmp(), "r.h5")] if command == "run" else []
            err = run(H5SPEC, command, *more, path, status=1, timeout=20).err
            expect(path in err and words in err, "%s: %s: %s", command, name, err)


def test_name_of_an_attribute_that_ends_early():
    """HDF5 rejects it, and then crashes in what it frees."""
    def change(data):
        at = data.index(b"openslide.level[0].width\0")
        data[at + 3:at + 11] = bytes(8)
    path = forged(store(made("--container", "philips", "--size", "600x500")), change)
    says(run(H5SPEC, "verify", path, status=1).err, path, "an attribute is damaged")


def header_of(path, name):
    """Where an object's header begins and ends."""
    with h5py.File(path, "r") as f:
        info = h5py.h5o.get_info(f[name].id)
    return info.addr, info.addr + info.hdr.space.total


def test_headers_of_tables_have_no_flipped_bit():
    """h5spec reads the tables of a group without the library, which would check their headers."""
    for name in ("tile_status", "tile_offset", "tile_bytes", "tile_crc32"):
        begin, end = header_of(small(), "groups/00001/" + name)
        expect(end - begin > 100, "%d bytes", end - begin)
        bad = [flipped(small(), at, 1 << at % 8) for at in (*range(begin, begin + 12), *range(begin + 12, end, 7), end - 1)]
        err = run(H5SPEC, "verify", *bad, status=1, timeout=TIMEOUT).err
        for path in bad:
            expect(any(path in line and name + " is damaged" in line for line in err.splitlines()), "%s, %s: %s", name, path, err)


def test_forged_tables():
    begin, end = header_of(small(), "groups/00001/tile_crc32")
    with h5py.File(small(), "r") as f:
        values = f["groups/00001/tile_crc32"].id.get_offset()
        expect(f["groups/00001/tile_crc32"].shape == (3, 3), "another shape")

    def replaced(old, new):
        def change(data):
            at = data.index(old, begin, end)
            data[at:at + len(new)] = new
        return forged(small(), change)

    def another_checksum(value):
        return forged(small(), lambda data: struct.pack_into("<q", data, attribute(data, begin, "crc32")[1], value))
    shape, place = struct.pack("<4Q", 3, 3, 3, 3), struct.pack("<QQ", values, 36)  # dimensions and their limits
    cases = [(replaced(shape, struct.pack("<4Q", 2, 3, 2, 3)), "the data do not match the shape"),
             (replaced(shape, struct.pack("<4Q", *[2 ** 33] * 4)), "the data do not match the shape"),
             (replaced(shape, struct.pack("<4Q", 1, 9, 1, 9)), "the wrong shape or type"),
             (replaced(place, struct.pack("<QQ", values, 2 ** 63)), "the data lie beyond the end of the file"),
             (replaced(place, struct.pack("<QQ", 2 ** 63, 36)), "the data lie beyond the end of the file"),
             (replaced(place, struct.pack("<QQ", 2 ** 64 - 1, 36)), "it has no values"),
             (replaced(place, struct.pack("<QQ", values - 8, 36)), "CRC mismatch"),
             (replaced(struct.pack("<BBBBI", 0x10, 0, 0, 0, 4), struct.pack("<BBBBI", 0x10, 1, 0, 0, 4)), "the wrong shape or type"),  # big-endian
             *((another_checksum(value), "CRC mismatch") for value in (-1, -2 ** 63, 2 ** 40, 0))]
    for path, why in cases:
        for argv in (["verify"], ["run", "--device", "cpu", "-o", os.path.join(tmp(), "r.h5")]):
            says(run(H5SPEC, *argv, path, status=1, timeout=20).err, path, "tile_crc32", why)


def test_no_attribute_lies_in_a_heap_of_its_own():
    """Nearly all crashes of HDF5 were in fractal heaps and their B-trees."""
    s = store(made("--size", "600x500", "--icc", "fake:200"))
    for path in (s, spectrum(s)):
        data = open(path, "rb").read()
        expect(b"FRHP" not in data and b"BTHD" not in data, "%s has a heap", path)


# Links of more than eight slides or groups, and many attributes of files of 0.1.0, lie in a fractal heap, which a B-tree lists.

def slides(n):
    path = os.path.join(tmp("slides"), "%d.h5" % n)
    run(MKRESULT, "--slides", n, "--windows", "2x2", "--window", "64", "--stride", "64", path)
    return path


def dense(attributes=0, links=0):
    """A store of the old kind: its root has more attributes than fit into the header."""
    path = os.path.join(tmp("dense"), "dense.h5")
    with h5py.File(small(), "r") as a, h5py.File(path, "w", libver=("v110", "v110")) as b:
        for name, value in a.attrs.items():
            b.attrs[name] = value
        for name in a:
            a.copy(name, b)
        for k in range(attributes):
            b.attrs["attribute %d" % k] = k
        b["number"] = 1.0
        for k in range(links):
            b["link %d" % k] = b["number"]
        reseal(b)
    return path


def changed(path, signature, at, width, value):
    """A copy with another number in a block of metadata."""
    def change(data):
        place = data.index(signature) + at
        before = struct.unpack_from(width, data, place)
        struct.pack_into(width, data, place, value)
        expect(before != (value,), "nothing changes")
    return forged(path, change)


def changes(path, rows):
    """Cases of rejected(): signature, place, width and value of a number, words."""
    return {"%s %d is %x" % (signature.decode(), at, value): (changed(path, signature, at, width, value), words)
            for signature, at, width, value, words in rows}


def short_text_in_the_heap(data):
    _, value = attribute(data, data.index(b"FHDB"), "codec")
    struct.pack_into("<I", data, value, 1000)


def version_of_an_attribute_in_the_heap(data):
    data[data.index(b"codec\0", data.index(b"FHDB")) - 9] = 2


OUTSIDE, LEAF = "lies outside its heap", 6
HEAP_OF_ATTRIBUTES = [
    # bytes of an ID, huge objects, tiny ones, table width, block size, largest block, bits of the heap, root, rows;
    # type, node size, record size, depth, address of the root, its records
    *((signature, at, width, value, "outside the file" if value == 2 ** 50 else "attributes") for signature, at, width, value in (
        (b"FRHP", 5, "<H", 7), (b"FRHP", 22, "<Q", 48), (b"FRHP", 102, "<Q", 1), (b"FRHP", 110, "<H", 0),
        (b"FRHP", 112, "<Q", 0), (b"FRHP", 120, "<Q", 3), (b"FRHP", 128, "<H", 64),
        (b"FRHP", 132, "<Q", 2 ** 50), (b"FRHP", 140, "<H", 17), (b"BTHD", 5, "<B", 5), (b"BTHD", 6, "<I", 0),
        (b"BTHD", 6, "<I", 2 ** 31), (b"BTHD", 10, "<H", 0), (b"BTHD", 12, "<H", 3), (b"BTHD", 12, "<H", 9),
        (b"BTHD", 16, "<Q", 2 ** 50), (b"BTHD", 24, "<H", 65535))),
    # eight bytes 0xff made HDF5 1.10.8 crash in H5HF_op; a record: ID 8 (kind, offset 5, length 2), flags, number 4, hash 4
    *((b"BTLF", LEAF + at, width, value, words) for at, width, value, words in (
        (0, "<Q", 2 ** 64 - 1, OUTSIDE), (0, "<B", 0x10, OUTSIDE), (0, "<B", 0x40, OUTSIDE), (1, "<I", 0, OUTSIDE),
        (1, "<I", 2 ** 31, OUTSIDE), (6, "<H", 65535, OUTSIDE), (6, "<H", 4000, OUTSIDE),
        (6, "<H", 3, "an attribute is damaged"), (8, "<B", 2, "shared between objects"),
        (13, "<I", 2 ** 32 - 1, "an index of links or attributes is damaged"))),
]


def test_forged_heap_of_attributes():
    """The checks of attributes in a header hold there, too."""
    path = dense()
    run(H5SPEC, "verify", path)
    rejected({**changes(path, HEAP_OF_ATTRIBUTES), "a short text": (forged(path, short_text_in_the_heap), "another length"),
              "a version": (forged(path, version_of_an_attribute_in_the_heap), "an attribute is damaged")})


HEAP, INDEX = "a heap of links or attributes is damaged", "an index of links or attributes is damaged"
INNER = 6 + 11  # one record, then for each of two leaves its address 8 and number of records 1
HEAP_OF_LINKS = [
    # blocks: version, address of the heap, offset; rows of blocks: the same, and addresses of 8 bytes
    (b"FHDB", 0, "<B", 0, "of the wrong kind"), (b"FHDB", 4, "<B", 1, HEAP), (b"FHDB", 5, "<Q", 48, HEAP), (b"FHDB", 13, "<I", 4096, HEAP),
    (b"FHIB", 4, "<B", 1, HEAP), (b"FHIB", 5, "<Q", 48, HEAP), (b"FHIB", 13, "<I", 512, HEAP), (b"FHIB", 17, "<Q", 2 ** 50, "outside the file"),
    (b"FHIB", 17, "<Q", 48, "of the wrong kind"), (b"FHIB", 17, "<Q", 2 ** 64 - 1, HEAP),
    (b"FRHP", 46, "<Q", 512, HEAP), (b"FRHP", 54, "<Q", 512, HEAP), (b"FRHP", 54, "<Q", 2048, HEAP), (b"FRHP", 54, "<Q", 2 ** 40, "too large"),
    (b"FRHP", 70, "<Q", 59, "does not match its heap"), (b"FRHP", 140, "<H", 0, HEAP),
    # HDF5 writes beyond a list that is as long as the header of the tree says
    (b"BTHD", 26, "<Q", 61, "does not match its heap"), (b"BTHD", 24, "<H", 2, ""), (b"BTHD", 24, "<H", 0, INDEX), (b"BTHD", 12, "<H", 0, "of the wrong kind"),
    (b"BTIN", 4, "<B", 1, INDEX), (b"BTIN", 5, "<B", 8, INDEX), (b"BTIN", INNER, "<Q", 2 ** 50, "outside the file"),
    (b"BTIN", INNER, "<Q", 48, "of the wrong kind"), (b"BTIN", INNER + 8, "<B", 0, INDEX), (b"BTIN", INNER + 8, "<B", 1, INDEX), (b"BTIN", INNER + 8, "<B", 46, INDEX),
    (b"BTLF", 4, "<B", 1, INDEX), (b"BTLF", 5, "<B", 6, INDEX), (b"BTLF", 6, "<I", 2 ** 32 - 1, INDEX),
    (b"BTLF", 10, "<Q", 2 ** 64 - 1, "outside its heap"), (b"BTLF", 15, "<H", 2000, "outside its heap"),
]


def copied_over(signature, at, step, n):
    """The second of two entries of n bytes, `step` bytes apart, in the place of the first."""
    def change(data):
        place = data.index(signature) + at
        data[place:place + n] = data[place + step:place + step + n]
    return change


def link_in_the_heap(data):
    data[data.index(b"made-00007", data.index(b"FHDB")) - 3] = 2  # version, flags, length of the name, name


def too_many_rows(data):
    heap = data.index(b"FRHP")
    struct.pack_into("<Q", data, heap + 46, 2048 << 16)
    struct.pack_into("<H", data, heap + 140, 17)


def no_records(data):
    heap, header = data.index(b"FRHP"), data.index(b"BTHD")
    data[heap + 70] = data[header + 24] = data[header + 26] = 0


def test_forged_heap_of_links():
    many, few = slides(60), slides(9)
    run(H5SPEC, "verify", many)
    rejected({**changes(many, HEAP_OF_LINKS), "a block twice": (forged(many, copied_over(b"FHIB", 17, 8, 8)), HEAP),
              "a leaf twice": (forged(many, copied_over(b"BTIN", INNER, 9, 8)), ""), "a record twice": (forged(many, copied_over(b"BTLF", 6, 11, 11)), "not in order"),
              "a link": (forged(many, link_in_the_heap), "a link is damaged"), "many rows": (forged(few, too_many_rows), HEAP),
              "no records": (forged(few, no_records, "%d:6:6" % bytes_in(few).index(b"BTLF")), INDEX)}, "result")


def test_damaged_blocks_of_heaps_and_trees():
    """HDF5 frees memory that it has not set if it finds a block with a wrong checksum while it lists a group."""
    path = slides(60)
    data = bytes_in(path)
    leaf, records = struct.unpack_from("<QB", data, data.index(b"BTIN") + 17)
    expect(data[leaf:leaf + 4] == b"BTLF", "not a leaf")
    # the first link's address, and elsewhere a byte of the checksum
    places = (data.index(b"FRHP") + 142, data.index(b"FHDB") + 34, data.index(b"FHIB") + 49, data.index(b"BTHD") + 34, data.index(b"BTIN") + 35,
              leaf + 6 + 11 * records)
    rejected({"byte %d" % at: (flipped(path, at), "of links or attributes is damaged") for at in places}, "result")


def test_forged_totals_of_a_tree():
    """Two levels above the leaves: a child has address 8, records 1, all records below it 2."""
    path, cases = dense(links=1300), {}
    for at, width, more in ((8, "<B", 1), (9, "<H", 1), (9, "<H", -1), (9, "<H", 20000)):
        def change(data):
            header = next(m.start() for m in re.finditer(b"BTHD", bytes(data)) if data[m.start() + 5] == 5)
            root, records = struct.unpack_from("<QH", data, header + 16)
            expect(data[header + 12] == 2 and data[root:root + 4] == b"BTIN", "not two levels")
            place = root + 6 + 11 * records + at
            struct.pack_into(width, data, place, struct.unpack_from(width, data, place)[0] + more)
        cases["%d more at %d" % (more, at)] = forged(path, change), INDEX
    rejected(cases)


def test_forged_tree_of_a_store_of_many_groups():
    path = store(made("--size", "300x2700", name="tall"), "--stripe-rows", "240", "--group-bytes", "1")
    with h5py.File(path, "r") as f:
        expect(len(f["groups"]) == 12, "groups")
    run(H5SPEC, "verify", path)
    p = run(H5SPEC, "verify", changed(path, b"BTLF", 10, "<Q", 2 ** 64 - 1), status=1, timeout=20)
    says(p.err, "groups is damaged", OUTSIDE)


@later("ci")
def test_large_heaps_and_trees_are_read():
    """Whatever the library itself makes of many links and attributes, also after some were removed."""
    for path in (dense(), dense(attributes=900, links=1300)):
        run(H5SPEC, "verify", path)
    with h5py.File(path, "r+", libver=("v110", "v110")) as f:
        for k in range(1300):
            if k % 7:
                del f["link %d" % k]
        for k in range(900):
            if k % 5:
                del f.attrs["attribute %d" % k]
        for k in range(40):
            f["n" * (k * 6 + 1)] = f["number"]
            f.attrs["new %d" % k] = np.ones(k * 95 + 1, "u1")
    run(H5SPEC, "verify", path)
    for n in (9, 45, 46, 700):
        says(run(H5SPEC, "verify", slides(n)).err, "1 valid")


# --- files that another program has touched ---

ADDED = {  # what it adds: ignored
    "a number": lambda f: f.attrs.create("note", 7),
    "a text": lambda f: f.attrs.create("note", "seen"),
    "a text of fixed length": lambda f: f.attrs.create("note", np.bytes_("seen")),
    "an empty attribute": lambda f: f.attrs.create("note", h5py.Empty("f4")),
    "a truth value": lambda f: f.attrs.create("note", np.bool_(True)),
    "an array": lambda f: f.attrs.create("note", np.arange(12.0).reshape(3, 4)),
    "a list of texts": lambda f: f.attrs.create("note", ["a", "bc"]),
    "a record": lambda f: f.attrs.create("note", np.zeros(2, [("x", "i4"), ("y", "f8")])),
    "a reference": lambda f: f.attrs.create("note", f[first_object(f)].ref, dtype=h5py.ref_dtype),
    "a big-endian number": lambda f: f.attrs.create("note", np.array(1, ">i8")),
    "a type of its own": lambda f: (f.__setitem__("kind", np.dtype("i2")), f.attrs.create("note", 1, dtype=f["kind"])),
    "many attributes": lambda f: [f.attrs.create("note %d" % k, "x" * k) for k in range(200)],
    "an attribute of every object": lambda f: [f[o].attrs.create("note", k) for k, o in enumerate(objects(f))],
    "a comment": lambda f: [h5py.h5o.set_comment(f[o].id, b"seen") for o in objects(f)],
    "a soft link": lambda f: f.__setitem__("link", h5py.SoftLink("/nowhere")),
    "an external link": lambda f: f.__setitem__("link", h5py.ExternalLink("/etc/passwd", "/")),
    "a hard link": lambda f: [f.__setitem__("link%d" % k, f[o]) for k, o in enumerate(objects(f))],
    "links of every group": lambda f: [f[o].__setitem__("link %d" % k, h5py.SoftLink("/x")) for o in objects(f)
                                       for k in range(20) if isinstance(f[o], h5py.Group) and o not in ("slides", "table")],
    "a dataset": lambda f: f.create_dataset("more/data", data=np.arange(9000), chunks=(100,), compression="gzip"),
    "an attribute, removed again": lambda f: (f.attrs.create("note", "seen"), f.attrs.__delitem__("note")),
}

CHANGED = {  # what it changes of ours: what the message says of a store, and of a result
    "a text": (lambda f: f.attrs.modify("creator", "somebody"), "attribute creator was changed by another program"),
    "a text, made again": (lambda f: f.attrs.create("creator", "somebody"), "attribute creator was changed by another program"),
    "a removed text": (lambda f: f.attrs.__delitem__("creator"), "another program has removed or renamed an attribute"),
    "a renamed text": (lambda f: f.attrs.__setitem__("maker", f.attrs.pop("creator")), "another program has removed or renamed an attribute"),
}

CHANGED_STORE = {
    "the width": (lambda f: f.attrs.modify("width", 601), "attribute width was changed by another program"),
    "um per px": (lambda f: f.attrs.modify("mpp_x", 0.25), "attribute mpp_x was changed by another program"),
    "a removed number": (lambda f: f.attrs.__delitem__("level"), "another program has removed or renamed an attribute"),
    "the format's version": (lambda f: f.attrs.modify("format_version", 7), "format_version 7; this program reads 1"),
    "a removed table": (lambda f: f["groups/00001"].__delitem__("tile_offset"), "tile_offset is missing"),
}


def objects(f):
    found = []
    f.visit(found.append)
    return found


def first_object(f):
    return objects(f)[0]


def touched(path, change, libver=None):
    copy = copied(path)
    with h5py.File(copy, "r+", libver=libver) as f:
        change(f)
    return copy


def reading(path, kind):
    out = os.path.join(tmp("out"), "x.h5")
    last = ["run", "-q", "--device", "cpu", "-o", out] if kind == "store" else ["merge", "-q", "-o", out]
    return (["verify", path], ["info", path], ["info", "--json", path], [*last, path])


def kinds():
    return (("store", small()), ("result", spectrum(small())))


@later("ci")
def test_what_other_programs_add_is_ignored():
    for kind, path in kinds():
        folder = tmp(kind)
        copies = [shutil.copy(touched(path, change, libver), os.path.join(folder, "%s, %s.h5" % (what, libver)))
                  for what, change in ADDED.items() for libver in (None, "latest")]
        for argv in (["verify"], ["info"], ["info", "--json"], ["run", "--duplicates", "count", "--device", "cpu", "-o", os.path.join(tmp(), "x.h5")]):
            if argv[0] != "run" or kind == "store":
                run(H5SPEC, *argv, *copies)
        for copy in copies if kind == "result" else ():
            run(H5SPEC, "merge", "-q", "-o", os.path.join(tmp(), "x.h5"), copy)


def test_what_other_programs_change_is_named():
    for kind, path in kinds():
        for what, (change, words) in {**CHANGED, **(CHANGED_STORE if kind == "store" else {})}.items():
            copy = touched(path, change)
            for argv in reading(copy, kind):
                if "tile_" in words and argv[0] == "info":
                    continue
                p = run(H5SPEC, *argv, status=None)
                expect(p.returncode == 1 and copy in p.err and words in p.err, "%s of a %s: %s: %d, %s", what, kind, argv, p.returncode, p.err)


def test_files_that_h5repack_has_rewritten():
    if not shutil.which("h5repack"):
        raise Skip("needs h5repack")
    for kind, path in kinds():
        for options in ([], ["--low=2", "--high=2"]):
            copy = os.path.join(tmp("repacked"), os.path.basename(path))
            if run("h5repack", *options, path, copy, status=None).returncode:
                continue
            for argv in reading(copy, kind):
                p = run(H5SPEC, *argv, status=None)
                # HDF5 2 writes without options what others write with them
                readable = p.returncode == 0 and (kind == "result" or argv[0] == "info")
                good = readable if options and kind == "result" else readable or p.returncode == 1 and "another program" in p.err
                expect(good or argv[0] == "info" and options, "%s %s: %s: %d, %s", kind, options, argv[0], p.returncode, p.err)


def test_a_file_that_is_open_for_writing():
    """Elsewhere, or left so: the flag of the superblock says it, with and without locks. Nothing is replaced."""
    program = ("import h5py, os, sys\nf = h5py.File(sys.argv[1], 'r+')\nf.attrs['note'] = 1\nf.flush()\n"
               "print('open', flush=True)\nsys.stdin.read()\nos._exit(0)\n")
    for kind, path in kinds():
        for locking in ("FALSE", "TRUE"):
            copy = copied(path)
            commands = [*reading(copy, kind), *([["map", "-o", tmp(), copy]] if kind == "result" else [])]
            with subprocess.Popen([sys.executable, "-c", program, copy], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  env={**os.environ, "HDF5_USE_FILE_LOCKING": locking}) as other:
                other.stdout.readline()
                for argv in commands:
                    says(run(H5SPEC, *argv, status=5).err, copy, "open for writing", "h5clear -s")
                other.stdin.close()
            before = open(copy, "rb").read()
            for argv in commands:
                says(run(H5SPEC, *argv, status=5).err, copy, "left so", "h5clear -s")
            argv = [WSI2H5, "-o", os.path.dirname(copy), made("--size", "600x500", name="small")] if kind == "store" else \
                [H5SPEC, "run", "--device", "cpu", "-o", copy, small()]
            for force in ([], ["--force"]):
                says(run(*argv, *force, status=5).err, copy, "h5clear -s")
            expect(open(copy, "rb").read() == before, "it was replaced")


def test_objects_are_opened_behind_the_guard_only():
    """Only the functions of h5.h and h5_file.h, which look at an object first, may open one, and h5_child.c, in a process of its own."""
    for path in glob.glob(os.path.join(ROOT, "common", "**", "*.c"), recursive=True):
        text = text_in(path)
        found = re.findall(r"H5(?:Lexists|Lget_info|Gopen|Dopen|Oopen|Fopen)\w*", text)
        if path.endswith("h5_child.c"):
            parent = text[text.index("/* --- in the parent --- */"):]
            expect("fork()" in parent and not re.search(r"\bH5[A-Z]", parent), "the parent calls the library")
        expect(not found or os.path.basename(path) in ("h5.c", "h5_file.c", "h5_child.c"), "%s: %s", path, found)


main(globals())
