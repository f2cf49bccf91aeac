"""Files of other versions: stores, results and tables of 1.0.0 (tests/old, made by it) stay valid; newer ones are called newer, never damaged."""
import lzma

import h5py
import numpy as np

from lib import *

OLD = os.path.join(ROOT, "tests", "old")
FULL_MAPS = ("window_mean_db", "window_std_db", "window_level_db", "window_focus_db", "window_fine_db", "window_sharp_db", "window_flags", "window_tissue", "window_gray",
             "window_row_step", "window_column_step")  # in the order of common/result/map_table.h


def old():
    """A folder each for the store, the result and the table of 1.0.0. The table refers to result.h5."""
    folder = tmp("old")
    for kind, name in (("store", "store/slide.h5"), ("result", "result/result.h5"), ("result", "table/results/result.h5"), ("table", "table/results/table.h5")):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        put_file(path, lzma.decompress(bytes_in(os.path.join(OLD, kind + "-1.0.0.h5.xz"))))
    os.rename(os.path.join(folder, "table/results/table.h5"), os.path.join(folder, "table.h5"))
    return folder


def commands(folder):
    store, result, table = (os.path.join(folder, n) for n in ("store/slide.h5", "result/result.h5", "table/results/table.h5"))
    shutil.move(os.path.join(folder, "table.h5"), table)
    out = tmp("out")
    run_options = ["--device", "cpu", "--window", "64", "--stride", "16"]
    yield from ([H5SPEC, "verify", store, result, table], [H5SPEC, "info", store, result, table], [H5SPEC, "info", "--json", store, result, table],
                [H5SPEC, "info", "--csv", result, table], [H5SPEC, "lookup", store], [H5SPEC, "tune", store], [H5SPEC, "run", *run_options, "-o", os.path.join(out, "r.h5"), store],
                [H5SPEC, "merge", "-o", os.path.join(out, "m.h5"), result], [TABLES, "merge", "-o", os.path.join(out, "t.h5"), table],
                [H5SPEC, "compare", result, os.path.join(out, "r.h5")], [H5SPEC, "compare", result, table], [H5SPEC, "map", "-o", os.path.join(out, "maps"), result],
                [H5SPEC, "report", "-o", os.path.join(out, "report.html"), result], [H5SPEC, "plot", "-o", os.path.join(out, "plot.svg"), result])


def test_files_of_1_0_0_stay_valid():
    known = run(H5SPEC, "--help").out
    for argv in commands(old()):
        if argv[1] in known or argv[0] == TABLES:
            p = run(*argv, status=None)
            expect(p.returncode == 0 or "Python" in p.err and p.returncode == 5, "%s: status %d: %s", argv, p.returncode, p.err)
            expect(argv[1] != "compare" or "1 identical" in p.err, "%s: %s %s", argv, p.out, p.err)
            expect(not re.search("damaged|missing|newer", p.err), "%s: %s", argv, p.err)


def test_results_of_1_0_0_are_not_computed_again():
    folder = old()
    results = tmp("results")
    shutil.copy(os.path.join(folder, "result/result.h5"), os.path.join(results, "slide.h5"))
    before = os.stat(os.path.join(results, "slide.h5")).st_ino
    p = run(H5SPEC, "run", "--device", "cpu", "--window", "64", "--stride", "16", "-o", results, os.path.join(folder, "store/slide.h5"))
    says(p.err, "1 skipped (up to date)")
    expect(os.stat(os.path.join(results, "slide.h5")).st_ino == before, "it was replaced")


def without_map(map_name, quantiles):
    """As a version has written it that did not know a map: without its values, quantiles and share in data_crc32."""
    def change(f):
        for s in f["slides"].values():
            del s[map_name]
            for q in quantiles:
                del s.attrs[q]
            parts = [zlib.crc32(s["histogram"][()].tobytes())] + [zlib.crc32(s[m][()].tobytes()) for m in FULL_MAPS if m in s]
            parts += [zlib.crc32(s["groups_done"][()].tobytes()), zlib.crc32(s["profile_sums"][()].tobytes())]
            parts += [zlib.crc32(s[n][()].tobytes()) for n in ("spectrum_tissue", "spectrum_glass")]
            s.attrs["data_crc32"] = np.int64(zlib.crc32(np.array(parts, np.uint32).tobytes()))
        reseal(f)
    return change


def new_result():
    return spectrum(store(made("--size", "700x600", name="small")))


def test_a_map_that_a_result_lacks_is_absent():
    for name, prefix in (("window_level_db", None), ("window_fine_db", "fine_")):
        with h5py.File(new_result(), "r") as f:
            quantiles = [a for a in f["slides/small"].attrs if prefix and a.startswith(prefix)]
        lacking = changed(new_result(), without_map(name, quantiles), "lacking.h5")
        merged = os.path.join(tmp(), "m.h5")
        p = run(H5SPEC, "merge", "-q", "-o", merged, lacking)
        for path in (lacking, merged):
            for argv in (["verify", path], ["info", "--json", path], ["compare", new_result(), path]):
                p = run(H5SPEC, *argv)
                expect(not re.search("missing|damaged", p.err), "%s: %s", argv, p.err)
        with h5py.File(merged, "r") as f:
            expect(name not in f["slides/small"], "%s came out of nothing", name)


def test_a_map_that_was_removed_is_damage():
    def remove(f):
        del f["slides/small/window_level_db"]
        reseal(f)
    says(run(H5SPEC, "verify", changed(new_result(), remove), status=1).err, "data_crc32 does not match")


def test_newer_files_are_called_newer():
    """Of a higher format_version, or with what only a newer version wrote. Neither is made again without --force."""
    path = store(made("--size", "600x500", name="good"))
    slide = made("--size", "600x500", name="good")

    def version(f):
        f.attrs["format_version"] = np.int64(9)
        f.attrs["creator"] = f.attrs["creator"].split()[0] + " 2.3.4"
        reseal(f)

    def objects(f):
        f.attrs["creator"] = f.attrs["creator"].split()[0] + " 1.99.0"
        if "codec" in f.attrs:
            f.attrs["codec"] = "other"
        else:
            f["slides/good"].attrs["level"] = np.int64(-7)
        reseal(f)
    for change, made_by in ((version, "2.3.4"), (objects, "1.99.0")):
        newer_store, newer_result = changed(path, change, "good.h5"), changed(spectrum(path), change, "r.h5")
        for argv in (["verify", newer_store], ["info", newer_store], ["run", "-o", tmp(), newer_store], ["verify", newer_result], ["info", newer_result],
                     ["merge", "-o", os.path.join(tmp(), "m.h5"), newer_result]):
            p = run(H5SPEC, *argv, status=1)
            says(p.err, "newer: made by", made_by)
            expect("damaged" not in p.err and "make it again" not in p.err, "%s: %s", argv, p.err)
        before = bytes_in(newer_store)
        says(run(WSI2H5, "-o", os.path.dirname(newer_store), slide, status=1).err, "newer: made by", "--force")
        expect(bytes_in(newer_store) == before, "it was replaced")


main(globals())
