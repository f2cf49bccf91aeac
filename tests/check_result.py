"""Results: adding them up, checking them, and what may be replaced."""
import h5py
import numpy as np

from lib import *


def slide(name="one", *options):
    return made("--size", "600x900", *options, name=name)


def grouped(name="one"):
    return store(slide(name), "--stripe-rows", "240", "--group-bytes", "1")


def merge(*argv, status=0):
    out = os.path.join(tmp("merge"), "sum.h5")
    return out, run(H5SPEC, "merge", "-o", out, *argv, status=status)


def test_a_flipped_bit_in_a_map_or_a_histogram():
    r = spectrum(grouped())
    for name in ("window_mean_db", "window_std_db"):
        bad = flipped_in(r, "slides/one/" + name, 8)
        says(merge(bad, status=1)[1].err, bad, "slide one", name, "CRC mismatch")
    with h5py.File(r, "r") as f:
        size = f["slides/one/histogram"].id.get_chunk_info(0).size
    for at in (0, 8, size // 2, size - 1):
        bad = flipped_in(r, "slides/one/histogram", at)
        says(merge(bad, status=1)[1].err, bad, "slide one", "histogram")


def test_a_number_that_an_earlier_version_did_not_compute():
    """A result or a table without some numbers of the scanner, or of a report, is read by every command: they have no value."""
    kept, results = tmp(), [spectrum(store(slide(name, "--seed", str(k)))) for k, name in enumerate(("one", "two"))]
    for k, name in enumerate(("one", "two")):
        shutil.copy(results[k], os.path.join(kept, name + ".h5"))
    table = os.path.join(kept, "table.h5")
    run(TABLES, "merge", "-o", table, os.path.join(kept, "one.h5"), os.path.join(kept, "two.h5"))
    old, old_table = copied(results[0]), os.path.join(kept, "old.h5")
    with h5py.File(old, "r+") as f:
        del f["slides/one"].attrs["lines_db"], f["slides/one"].attrs["gray_low"]
    shutil.copy(table, old_table)
    with h5py.File(old_table, "r+") as f:
        del f["table/lines_db"], f["table/stain_hue"], f["table/light_step"]
    for path, missing in ((old, 2), (old_table, 3)):
        (line,) = json_lines(run(H5SPEC, "info", "--json", path).out)
        for s in line["slides"]:
            expect(s["lines_db"] is None and s["gray_high"] is not None and s["numbers_missing"] == missing, "%s", s)
        says(run(H5SPEC, "info", path).out, "without %d numbers that an earlier version did not compute; h5spec run --force computes them" % missing)
        run(H5SPEC, "info", "--csv", path)
        page = os.path.join(tmp(), "r.html")
        run(H5SPEC, "report", "-q", "-o", page, path)
        expect("1 slide: results of an earlier version lack numbers; h5spec run --force computes them" in open(page).read() or path == old_table,
               "the page of %s", path)
        run(H5SPEC, "map", "-q", "-o", tmp(), path)
        says(run(H5SPEC, "verify", path).err, "1 valid")
    new = os.path.join(kept, "new.h5")
    run(TABLES, "merge", "-o", new, old_table)  # takes the rows over
    for s in json_lines(run(H5SPEC, "info", "--json", new).out)[0]["slides"]:
        expect(s["numbers_missing"] == 3, "a table made from an older one: %s", s)
    says(run(H5SPEC, "verify", new).err, "1 valid")
    with h5py.File(copied(old, "bad.h5"), "r+") as f:  # an attribute that exists must be right
        f["slides/one"].attrs.modify("gray_high", np.nan)
        bad = f.filename
    says(run(H5SPEC, "verify", bad, status=1).err, "gray_high does not match")
    says(run(H5SPEC, "compare", old, results[0]).out, "lines_db")
    says(run(H5SPEC, "report", "-o", os.path.join(tmp(), "r.html"), old, merge(old, results[1])[0]).err, "0 fail")  # a copy, no other slide
    with h5py.File(merge(old, results[1])[0], "r") as f, h5py.File(results[0], "r") as g:  # it has the maps from which they follow
        expect(f["slides/one"].attrs["lines_db"] == g["slides/one"].attrs["lines_db"], "merge")
    folder = tmp()
    shutil.copy(old, os.path.join(folder, "one.h5"))
    says(run(H5SPEC, "run", "--device", "cpu", "-o", folder + "/", store(slide("one", "--seed", "0"))).err, "1 skipped (up to date)")
    for name in ("mean_db", "width", "focus_p50"):  # what the format requires
        bad = copied(old)
        with h5py.File(bad, "r+") as f:
            del f["slides/one"].attrs[name]
        says(run(H5SPEC, "info", bad, status=1).err, bad, "attribute %s is missing" % name)


def test_results_are_small():
    path = spectrum(grouped())
    with h5py.File(path, "r") as f:
        for d in (f["histogram"], f["slides/one/histogram"]):
            expect(d.chunks and d.id.get_storage_size() < d.size * 4, "%s is not packed", d.name)
        used = sum(d.id.get_storage_size() for d in [*f["slides/one"].values()] if isinstance(d, h5py.Dataset))
    expect(os.path.getsize(path) < used + 38000, "%d bytes beside the data", os.path.getsize(path) - used)


def sealed(path, change):
    """A copy of a result that change(file) forges, with the checksums that belong to it."""
    copy = copied(path)
    with h5py.File(copy, "r+") as f:
        change(f)
        for s in f["slides"].values():
            names = ["histogram", *("window_%s" % m for m in ("mean_db", "std_db", "level_db", "focus_db", "fine_db", "sharp_db", "flags", "tissue", "gray",
                                                             "row_step", "column_step")),
                     "groups_done", "profile_sums", "spectrum_tissue", "spectrum_glass"]
            crcs = []
            for name in names:
                crcs.append(zlib.crc32(s[name][()].tobytes()))
                s[name].attrs["crc32"] = np.uint32(crcs[-1])
            s.attrs["data_crc32"] = zlib.crc32(np.array(crcs, np.uint32).tobytes())
    return copy


def test_numbers_out_of_range_are_rejected_by_every_reader():
    """Forged, with the right checksums: the same ranges hold for every command that reads the number."""
    whole, folder = spectrum(grouped()), tmp()
    run(H5SPEC, "verify", sealed(whole, lambda f: None))
    readers = {"verify": ("verify",), "info": ("info", "--json"), "merge": ("merge", "-o", folder + "/m.h5"),
               "report": ("report", "-o", folder + "/r.html"), "map": ("map", "--feature", "mean_db", "-o", folder + "/maps/")}

    def slide_attribute(name, value):
        return lambda f: f["slides/one"].attrs.__setitem__(name, np.asarray(value, f["slides/one"].attrs[name].dtype))

    def file_attribute(name, value):
        return lambda f: f.attrs.__setitem__(name, np.asarray(value, f.attrs[name].dtype))

    def value_of(name, value):
        return lambda f: f["slides/one"][name].__setitem__((0, 0), value)
    cases = [(slide_attribute(name, x), name) for name in ("mean_db", "std_db", "focus_p05", "focus_p50", "focus_p95", "fine_p50")
             for x in (np.nan, np.inf)]
    cases += [(slide_attribute(name, 1e300), name) for name in ("glass_std", "lines_db", "gray_low")]
    cases += [(file_attribute(name, x), name) for name in ("mean_db", "std_db", "offset") for x in (np.nan, 1e300)]
    cases += [(slide_attribute("samples", -1), "samples"), (slide_attribute("samples", 5), "samples"),
              (file_attribute("samples", -1), "samples"), (slide_attribute("tiles_damaged", 2 ** 40), "tiles"),
              (slide_attribute("tiles", 2 ** 40), "tiles")]
    for change, word in cases:
        bad = sealed(whole, change)
        for reader in ("verify", "info", "merge", "report", "map"):
            err = run(H5SPEC, *readers[reader], bad, status=1).err
            says(err, bad, word)
            expect(err.splitlines()[0].count(bad) == 1, "named twice: %s", err)
    for name in ("lines_db", "direction_deg", "gray_low", "seam_rows"):
        says(run(H5SPEC, "verify", sealed(whole, slide_attribute(name, 40)), status=1).err, name + " does not match")
    for name, values in (("window_mean_db", (np.inf, -1, 1e30)), ("window_std_db", (-5, np.inf, 300)), ("window_level_db", (30000,)), ("window_row_step", (200,))):
        for value in values:
            bad = sealed(whole, value_of(name, value))
            for reader in ("verify", "info", "merge") + (("map",) if name == "window_mean_db" else ()):
                says(run(H5SPEC, *readers[reader], bad, status=1).err, bad, name, "out of range")


def test_the_same_slide_under_two_names():
    a = spectrum(grouped())
    b = spectrum(copied(grouped(), "two.h5"))
    out, p = merge("--duplicates", "fail", a, b, status=1)
    says(p.err, a, b, "one", "two", "copy of", "--duplicates skip or count")
    expect(not os.path.exists(out), "a sum was written")
    out, _ = merge("--duplicates", "count", a, b)
    expect(slide_names(out) == ["one", "two"], "%s", slide_names(out))


def test_slides_without_a_quickhash_are_no_duplicates():
    def forget(f):
        f.attrs["quickhash"] = ""
    paths = [changed(grouped(), forget, name + ".h5") for name in ("x", "y")]
    merge(*map(spectrum, paths))
    spectrum(paths)


def test_a_merge_that_cannot_write_names_its_file():
    results = [spectrum(store(slide(name, "--seed", str(k)))) for k, name in enumerate(("a", "b", "c"))]
    out = os.path.join(tmp(), "sum.h5")
    run(H5SPEC, "merge", "-o", out, *results)
    size = os.path.getsize(out)
    os.unlink(out)
    for limit in range(1000, size, size // 12):
        p = run(H5SPEC, "merge", "-o", out, *results, status=5, preexec_fn=small_files(limit))
        says(p.err, out, "too large")
        expect(os.listdir(os.path.dirname(out)) == [], "left %s", os.listdir(os.path.dirname(out)))


main(globals())
