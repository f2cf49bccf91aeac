"""Merged results as tables: each slide a row, its maps left in its result (h5spec merge)."""
import functools

import h5py
import numpy as np

from lib import *

MKRESULT = os.path.join(BUILD, "tests", "mkresult")
LIBVER = ("v110", "v110")


@functools.lru_cache(None)
def result_of(name, width, seed, *options):
    return spectrum(store(made("--size", "%dx900" % width, "--seed", str(seed), name=name)), *options)


def corpus(*options):
    """A folder with results/NAME.h5 of slides of several sizes."""
    folder = tmp("corpus")
    os.mkdir(os.path.join(folder, "results"))
    for k, name in enumerate(("one", "two", "three")):
        shutil.copy(result_of(name, 600 + 100 * k, k, *options), results(folder, name + ".h5"))
    return folder


def results(folder, *name):
    return os.path.join(folder, "results", *name)


def merged(folder, *argv, name="corpus.h5", status=0, options=(), program=TABLES):
    out = os.path.join(folder, name)
    return out, run(program, "merge", "-q", *options, "-o", out, *(argv or [results(folder)]), status=status)


def both(*options):
    """A folder, and the table and the plain form of its results."""
    folder = corpus(*options)
    return folder, merged(folder)[0], merged(folder, name="plain.h5", program=H5SPEC)[0]


def outcome(path, *argv, status=0):
    """What a command says of a file on stdout, without the file's name."""
    return run(H5SPEC, *argv, path, status=status).out.replace(path, "FILE").replace(os.path.basename(path), "FILE")


def files_below(folder):
    return {os.path.relpath(os.path.join(d, f), folder): bytes_in(os.path.join(d, f)) for d, _, names in os.walk(folder) for f in names}


def test_maps_of_a_table_leave_no_results_open():
    folder, names = tmp("corpus"), ["s%02d" % k for k in range(30)]
    os.mkdir(results(folder))
    for k, name in enumerate(names):
        run(MKRESULT, "--names", file_of("name", name + "\n"), "--windows", "2x2", "--window", "64", "--stride", "64", "--seed", str(k), results(folder, name + ".h5"))
    table, out = merged(folder, options=("--duplicates", "count"))[0], tmp()
    run(H5SPEC, "map", "-q", "--feature", "mean_db", "-o", out, table, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24)))
    expect(len(os.listdir(out)) == len(names), "%s", os.listdir(out))


def test_every_command_says_the_same_of_both_forms():
    for options in ((), ("--tissue-only",)):
        folder, table, plain = both(*options)
        for argv in (("info",), ("info", "--csv"), ("info", "--json"), ("info", "--histogram")):
            expect(outcome(table, *argv) == outcome(plain, *argv), "%s of a table", argv)
        for pair in ((table, plain), (plain, table), (table, table)):
            says(run(H5SPEC, "compare", *pair).err, "3 identical")
        for argv in (("--feature", "mean_db"), ("--feature", "mean_db", "--blend", "cos", "--slide", "two")):
            maps = []
            for path in (table, plain):
                out = os.path.join(tmp(), "maps") + "/"
                run(H5SPEC, "map", "-q", *argv, "-o", out, path)
                maps.append({k: v.replace(path.encode(), b"FILE") for k, v in files_below(out).items()})
            expect(maps[0] and maps[0] == maps[1], "map %s of a table: %s", argv, sorted(maps[0]))
        page, rows, picture = (os.path.join(folder, name) for name in ("r.html", "r.csv", "p.svg"))
        for written, argv in ((rows, ("report", "-q", "-o", page, "--csv", rows)), (picture, ("plot", "-o", picture, "--title", "t")),
                              (picture, ("plot", "-o", picture, "--title", "t", "--map", "--slide", "two"))):
            made_ = []
            for path in (table, plain):
                run(H5SPEC, *argv, path)
                made_.append(bytes_in(written).replace(os.path.basename(path).encode(), b"FILE"))
            expect(made_[0].count(b"\n") >= 4 and made_[0] == made_[1], "%s of a table", argv)
        says(run(H5SPEC, "verify", table).out, "valid result: 3 slides")


def test_merging_a_table_is_as_merging_its_results():
    folder, table, plain = both()
    expect(os.path.getsize(table) < os.path.getsize(plain) / 2, "%d bytes", os.path.getsize(table))
    # copies of all on request, the same bytes
    expect(bytes_in(merged(folder, table, name="copies.h5", program=H5SPEC)[0]) == bytes_in(plain), "copies of a table")
    # a table with new results, tables with each other, and a table in place of itself
    whole = bytes_in(table)
    a = merged(folder, results(folder, "one.h5"), results(folder, "three.h5"), name="a.h5")[0]
    b = merged(folder, results(folder, "two.h5"), name="b.h5")[0]
    for argv in ((a, results(folder, "two.h5")), (results(folder, "two.h5"), a), (a, b), (b, a), (table,)):
        expect(bytes_in(merged(folder, *argv, name="c.h5")[0]) == whole, "%s", argv)
    expect(bytes_in(merged(folder, a, b, name="a.h5")[0]) == whole, "a table in place of an input")
    # slides may lie in one plain result
    run(H5SPEC, "verify", merged(folder, plain, name="d.h5")[0])
    # results are named as the table sees them, from wherever it is made
    for here, out, given in ((folder, "e.h5", "results"), (folder, "./e.h5", ".//results/"), (results(folder), "../e.h5", "."),
                             ("/", os.path.join(folder, "e.h5"), os.path.relpath(results(folder), "/"))):
        run(TABLES, "merge", "-q", "-o", out, given, cwd=here)
        expect(bytes_in(os.path.join(folder, "e.h5")) == whole, "%s", given)


def test_columns_are_what_slides_have():
    for options in ((), ("--tissue-only",)):
        folder, table, plain = both(*options)
        with h5py.File(table, "r") as t, h5py.File(plain, "r") as f:
            names = [n.decode() for n in t["table/name"][()]]
            expect(names == sorted(f["slides"]) and t.attrs["slide_count"] == 3, "%s", names)
            expect(t.attrs["format_version"] == f.attrs["format_version"] == 1, "versions")
            for k, name in enumerate(names):
                s = f["slides"][name]
                expect((t["table/histograms"][k] == s["histogram"][()]).all(), "histogram of %s", name)
                expect(t["table/result"][k].decode() == "results/%s.h5" % name, "%s", t["table/result"][k])
                for key, value in s.attrs.items():
                    if key in t["table"]:
                        have = t["table"][key][k]
                        have = have.decode() if isinstance(have, bytes) else have
                        equal = have == value if isinstance(have, str) else np.array_equal(have, value, equal_nan=True)
                        expect(equal, "%s of %s: %s, %s", key, name, have, value)
                expect((t["table/profile_sums"][k] == s["profile_sums"][()]).all(), "profile of %s", name)
            # everything of a slide has a column, but parameters, what follows from others, and what all slides in tables have alike
            beside = {"window", "stride", "sigma", "radius", "taper", "offset", "tissue_only", "min_tissue", "skip_damaged", "samples",
                      "bins", "group_first", "group_last", "groups_missing", "attribute_crc32"}
            missing = set(f["slides/one"].attrs) - set(t["table"]) - beside
            expect(not missing, "no column for %s", missing)
            expect((t["histogram"][()] == f["histogram"][()]).all() and t.attrs["mean_db"] == f.attrs["mean_db"], "totals")


def test_the_format_names_every_column():
    """common/FORMAT.md, which other programs are written from."""
    _, table, _ = both()
    text = text_in(os.path.join(ROOT, "common", "FORMAT.md")).partition("## The result")[2]
    stems = {"focus_p", "fine_p", "sharp_p", "glass_"}  # `glass_gray` to `glass_grain`, and of `fine_`, `sharp_`
    with h5py.File(table, "r") as f:
        unknown = [n for n in f["table"] if not re.search(r"[`_]%s\b" % n, text) and not any(n.startswith(s) for s in stems)
                   and not any(n == "spectrum_glass_" + s for s in ("windows", "threshold"))]
    expect(not unknown, "FORMAT.md does not name %s", unknown)


def described(begin, end):
    """{name: (optional, kinds)} of the attributes in the tables of a part of FORMAT.md; int unless a line says otherwise."""
    text = text_in(os.path.join(ROOT, "common", "FORMAT.md")).partition(begin)[2].partition(end)[0]
    found = {}
    for line in text.splitlines():
        cells = line.strip("| ").split(" | ", 1)
        names = re.findall(r"`(\w+)`(\??)", cells[0]) if line.startswith("| `") else []
        kinds = re.findall(r"\b(text|int|real|uint8)\b", re.split(": |; |\\(", cells[1])[0]) if names else []
        for k, (name, optional) in enumerate(names):
            found[name] = (bool(optional), {kinds[k]} if len(kinds) == len(names) else set(kinds) or {"int"})
    return found


def kind_of(attribute):
    value = np.asarray(attribute)
    return {"O": "text", "U": "text", "S": "text", "f": "real"}.get(value.dtype.kind) or {"int64": "int", "uint8": "uint8"}.get(str(value.dtype))


def test_the_format_describes_stores_and_results():
    """Each attribute in its tables exists and has the type that is stated, and files have no others."""
    both_, root = described("## What both have in common", "### Checksums"), described("### Attributes of the root\n", "### Groups")
    of_both = described("### Attributes of the root and of each slide", "The root also has")
    of_slide, sealed = described("### `/slides/NAME`", "A map has one value"), {"attribute_crc32", "slide_count", "groups_missing", "data_crc32"}
    stores = [store(made("--size", "600x500", "--mpp", mpp, "--seed", "3", *more, name="format"), *options) for mpp, more, options in (
        ("0.25", (), ()), ("none", (), ("--codec", "none")), ("none", ("--stain", "fluorescence"), ()))]
    expect(len(root) > 25 and len(of_slide) > 25 and len(of_both) > 15, "the tables cannot be read: %d %d %d", len(root), len(of_slide), len(of_both))
    seen, of_store = set(), dict(root, tissue_fraction=(True, {"real"}))  # that of /tissue/mask
    for path in stores:
        with h5py.File(path) as f, h5py.File(spectrum(path)) as r:
            slide = list(r["slides"].values())[0]
            for attrs, tables in ((f.attrs, (both_, root)), (r.attrs, (both_, of_both)), (slide.attrs, (of_both, of_slide))):
                known = {name: row for t in tables for name, row in t.items()}
                lacks = [n for n, (optional, _) in known.items() if not optional and n not in attrs and n not in ("fine_", "sharp_")]
                expect(not lacks, "%s lacks %s", path, lacks)
                more = [n for n in attrs if n not in known and n not in sealed and not n.startswith(("glass_", "fine_", "sharp_"))]
                expect(not more, "FORMAT.md does not name %s", more)
                for name in set(known) & set(attrs):
                    kinds = of_store.get(name, known[name])[1] if of_slide in tables and name not in of_both else known[name][1]
                    expect(kind_of(attrs[name]) in kinds, "%s is %s, not %s", name, kind_of(attrs[name]), kinds)
                seen |= set(attrs)
            for name in root:  # "as in the store": absent there is NaN, "" or 0
                if name in slide.attrs and name not in f.attrs:
                    value = slide.attrs[name]
                    expect(value == "" or name == "jpeg_quality" and value == 0 or value != value, "%s absent in the store is %s", name, value)
            for name, d in slide.items():
                expect(("scale" in d.attrs) == (d.dtype == np.int16), "%s: scale", name)
            expect("tissue" in f or "tissue_rule" in f.attrs, "the rule of a map that does not exist")
    says(text_in(os.path.join(ROOT, "common", "FORMAT.md")), "An int16 map has the attribute `scale`")
    expect({"jpeg_quality", "mpp_x", "tissue_missing"} <= seen, "these files show too little: %s", seen)


def test_a_table_of_few_slides():
    """merge --table: the bytes that many slides have, or a failure; never copies."""
    folder = corpus()
    want = bytes_in(merged(folder)[0])
    out, p = merged(folder, name="t.h5", program=H5SPEC, options=("--table",))
    expect(bytes_in(out) == want and not p.err, "%s", p.err)
    elsewhere = shutil.copy(results(folder, "two.h5"), tmp("elsewhere"))
    says(merged(folder, elsewhere, name="u.h5", program=H5SPEC, options=("--table",), status=1)[1].err, elsewhere, "below the folder of the table")
    says(merged(folder, name="u.h5", program=H5SPEC, options=("--table", "--partial"), status=2)[1].err, "whole slides only")
    expect(not os.path.exists(os.path.join(folder, "u.h5")), "something was written")


def test_numbers_of_results_are_those_of_tables():
    """What follows from maps, spectra and the thumbnail is stored. verify computes it again; a result without it is read."""
    path = result_of("one", 600, 0)
    whole = merged(os.path.dirname(path), path, name="t.h5", program=H5SPEC, options=("--table",))[0]
    for name in ("stain_density", "light_step", "light_step_at", "spectrum_octaves"):
        with h5py.File(path, "r") as f, h5py.File(whole, "r") as t:
            expect(np.array_equal(f["slides/one"].attrs[name], t["table"][name][0], equal_nan=True), "%s differs", name)
            value = np.atleast_1d(f["slides/one"].attrs[name])
        other = np.where(np.isnan(value), 0.5, value + 0.25)
        bad = changed(path, lambda f: f["slides/one"].attrs.__setitem__(name, other if len(other) > 1 else other[0]))
        says(run(H5SPEC, "verify", bad, status=1).err, bad, name + " does not match")
        wrong = changed(path, lambda f: f["slides/one"].attrs.__setitem__(name, np.int64(1)))
        says(run(H5SPEC, "verify", wrong, status=1).err, wrong, name, "wrong type")
        older = changed(path, lambda f: f["slides/one"].attrs.__delitem__(name), "one.h5")
        run(H5SPEC, "verify", older)
        again = merged(os.path.dirname(older), older, name="t.h5", program=H5SPEC, options=("--table",))[0]
        with h5py.File(again, "r") as t, h5py.File(whole, "r") as w:
            expect(np.array_equal(t["table"][name][()], w["table"][name][()], equal_nan=True), "%s of a result of 1.0.0", name)


def test_regions():
    folder = corpus()
    regions = os.path.join(folder, "one.geojson")
    put_file(regions, '{"type": "Polygon", "coordinates": [[[0, 0], [500, 0], [500, 700], [0, 700], [0, 0]]]}')
    shutil.copy(spectrum(store(made("--size", "600x900", "--seed", "0", name="one")), "--roi", regions), results(folder, "one.h5"))
    table, plain = merged(folder, results(folder, "one.h5"))[0], merged(folder, results(folder, "one.h5"), name="plain.h5", program=H5SPEC)[0]
    for argv in (("info",), ("info", "--json")):
        expect(outcome(table, *argv) == outcome(plain, *argv), "%s with regions", argv)
    expect(bytes_in(merged(folder, table, name="c.h5", program=H5SPEC)[0]) == bytes_in(plain), "copies")


def test_slides_that_a_table_cannot_have():
    folder = corpus()
    one = store(made("--size", "600x900", "--seed", "0", name="one"), "--stripe-rows", "240", "--group-bytes", "1")
    parts = []
    for g in ("1-2", "3-4"):
        parts.append(results(folder, g + ".h5"))
        shutil.copy(spectrum(one, "--groups", g), parts[-1])
    says(merged(folder, parts[0], status=1)[1].err, "slide one", "3-4", "missing")
    elsewhere = shutil.copy(results(folder, "two.h5"), tmp("elsewhere"))
    cannot = ((parts, parts + ["slide one", "merge its parts first"]), ((parts[0], "--partial"), ("whole slides",)),
              ((results(folder, "one.h5"), elsewhere), (elsewhere, "below the folder of the table")))
    out, table = os.path.join(folder, "out.h5"), merged(folder, results(folder, "three.h5"))[0]
    before = bytes_in(table)
    for argv, words in cannot:
        says(run(TABLES, "merge", "-o", out, *argv).err, out, "slides are copied", *words)
        run(H5SPEC, "merge", "-q", "-o", results(folder, "plain.h5"), *argv)
        expect(bytes_in(out) == bytes_in(results(folder, "plain.h5")), "copies of %s", argv)
        os.unlink(out)
        # a table to which they are added stays one
        says(run(H5SPEC, "merge", "-o", table, table, *argv, status=1).err, *words)
        expect(bytes_in(table) == before, "%s: replaced", argv)
    says(run(TABLES, "merge", "-o", results(folder, "t.h5"), elsewhere, results(folder, "three.h5")).err, "below the folder")
    # rows of a table that is replaced by copies
    plain = merged(folder, results(folder, "three.h5"), name="p.h5", program=H5SPEC)[0]
    run(H5SPEC, "merge", "-q", "-o", table, results(folder, "three.h5"))
    expect(bytes_in(table) == bytes_in(plain), "copies in place of a table")
    # a folder of results that is a link is as good as a folder
    os.rename(results(folder), folder + "-moved")
    os.symlink(folder + "-moved", results(folder))
    run(H5SPEC, "verify", merged(folder, results(folder, "one.h5"), name="l.h5")[0])


@later("ci")
def test_from_a_thousand_slides_on_it_is_a_table():
    folder, parts = tmp("thousand"), []
    for first, n in ((1, 999), (1000, 1)):
        parts.append(os.path.join(folder, "%d.h5" % n))
        run(MKRESULT, "--first", first, "--slides", n, "--windows", "1x1", "--window", "64", "--stride", "64", parts[-1])
    for given in (parts[:1], parts):
        p = run(H5SPEC, "merge", "-o", os.path.join(folder, "m.h5"), *given)
        expect(("a table that refers to them: 1000 slides" in p.err) == (given == parts), "%s: %s", given, p.err)


def test_many_slides_of_which_some_are_left_out():
    """Slides that are left out leave no gap in the histograms."""
    folder = tmp("many")
    for n in (5, 64, 130):
        paths = []
        for kind, count in (("a", n), ("b", min(n, 70))):  # the slides of b have the quickhashes of a
            paths.append(os.path.join(folder, kind + ".h5"))
            listed = file_of("names", "".join("%s%04d\n" % (kind, k) for k in range(count)))
            run(MKRESULT, "--names", listed, "--windows", "2x2", "--window", "64", "--stride", "64", "--seed", str(n), paths[-1])
        plain = merged(folder, paths[0], name="plain.h5", program=H5SPEC)[0]
        table, p = merged(folder, *paths, options=("--duplicates", "skip"))
        expect(p.err == "", "copies are no errors: %s", p.err)  # that they are left out: below
        for argv in (("info", "--csv"), ("info", "--histogram")):
            expect(outcome(table, *argv) == outcome(plain, *argv), "%s of %d slides", argv, n)
        run(H5SPEC, "verify", table)
        with h5py.File(table, "r") as f:
            expect(f["table/histograms"].shape == (n, 1600) and f["table/histograms"][()].sum() == f["histogram"][()].sum(), "%d rows", n)
        again = merged(folder, table, name="again.h5")[0]
        run(H5SPEC, "verify", again)


def copied(folder):
    """The results of a folder in another one, with their times."""
    return shutil.copytree(folder, os.path.join(tmp(), "copy"), ignore=lambda d, names: [n for n in names if d == folder and n != "results"])


def unchanged(p):
    """How many rows the table that was there had already."""
    found = re.search(r"\((\d+) unchanged\)", p.err)
    return int(found.group(1)) if found else 0


def merged_again(folder):
    """How many rows were taken over. The table is what it would be if none had been there."""
    out = os.path.join(folder, "corpus.h5")
    p = run(TABLES, "merge", "--force", "-o", out, results(folder))
    expect(bytes_in(out) == bytes_in(merged(copied(folder))[0]), "a table made again is not a new one")
    run(H5SPEC, "verify", out)
    return unchanged(p)


def test_a_table_takes_over_the_rows_of_unchanged_results():
    folder, table, _ = both()
    expect(merged_again(folder) == 3, "nothing changed")
    # a slide more, one less, one made again: the same bytes as from the beginning
    slide = made("--size", "700x700", "--seed", "9", name="oneb")
    shutil.copy(spectrum(store(slide)), results(folder, "part.h5"))
    expect(merged_again(folder) == 3, "one more")
    whole = bytes_in(table)
    run(TABLES, "merge", "-q", "--force", "-o", table, *(results(folder, n + ".h5") for n in ("one", "two", "three")))
    p = run(TABLES, "merge", "-o", table, table, results(folder, "part.h5"))
    expect(unchanged(p) == 3 and bytes_in(table) == whole, "one more, to the table itself")
    os.unlink(results(folder, "three.h5"))
    expect(merged_again(folder) == 3, "one less")
    slide = made("--size", "640x700", "--seed", "5", name="two")
    shutil.copy(spectrum(store(slide)), results(folder, "two.h5"))
    expect(merged_again(folder) == 2, "one that was made again")
    os.utime(results(folder, "one.h5"), ns=(1, 1))
    expect(merged_again(folder) == 2, "another time")
    # a result of several slides: all of its rows or none
    run(H5SPEC, "merge", "-q", "-o", os.path.join(folder, "both.h5"), results(folder, "one.h5"), results(folder, "two.h5"))
    for name in ("one.h5", "two.h5"):
        os.unlink(results(folder, name))
    os.rename(os.path.join(folder, "both.h5"), results(folder, "both.h5"))
    expect(merged_again(folder) == 1 and merged_again(folder) == 3, "results of several slides")


def test_rows_are_not_believed_when_their_results_have_changed():
    """Commands that read only the table look at sizes and times of its results; a copy with the same data is right."""
    needs("report")
    folder, table, _ = both()
    out = os.path.join(tmp(), "r.html")

    def outcomes(status):
        info = run(H5SPEC, "info", "--csv", table, status=status)
        plot = run(H5SPEC, "plot", "-o", os.path.join(tmp(), "p.svg"), table, status=status)
        argv = ("report", "--max-size", "0", "--csv", out + ".csv", "-o", out, table)
        report = run(H5SPEC, *argv, status=status)
        return info, plot, report

    def rows_of_report():
        return {r["slide"]: (r["verdict"], r["reasons"]) for r in csv_rows(out + ".csv")}

    expect(not any("merge again" in p.err for p in outcomes(0)), "nothing has changed")
    before = rows_of_report()
    at = os.stat(results(folder, "one.h5")).st_mtime_ns
    os.utime(results(folder, "one.h5"), ns=(at + 1, at + 1))
    expect(not any("merge again" in p.err for p in outcomes(0)) and rows_of_report() == before, "another time, the same data")
    os.rename(results(folder, "three.h5"), results(folder, "three"))
    for p in outcomes(0):  # of a result that is gone the row is all there is
        says(p.err, "corpus.h5: results have changed since the table was written (0 of 3) or are gone (1); the first is %s; merge again" % results(folder, "three.h5"))
    expect(rows_of_report() == before, "%s", rows_of_report())
    os.rename(results(folder, "three"), results(folder, "three.h5"))
    shutil.copy(spectrum(store(made("--size", "640x700", "--seed", "5", name="two"))), results(folder, "two.h5"))
    info, plot, report = outcomes(1)
    expect(len(info.err.splitlines()) == 1 and len(list(csv.reader(io.StringIO(info.out)))) == 4, "info shows what the table has: %s", info.err)
    for p in (info, report):
        says(p.err, "since the table was written (1 of 3) or are gone (0); the first is %s; merge again" % results(folder, "two.h5"))
    for p in (plot, report):
        says(p.err, "slide two: %s: has been made again since the table was written; merge again" % results(folder, "two.h5"))
    now = rows_of_report()
    expect(now["two"][0] == "fail" and "merge again" in now["two"][1] and len(now) == 3, "%s", now)
    merged(folder, options=("--force",))
    expect(not any("merge again" in p.err for p in outcomes(0)), "merged again")


def test_unchanged_results_are_not_opened_and_others_are():
    folder, table, _ = both()
    whole, at = bytes_in(table), os.stat(results(folder, "two.h5"))
    data = bytes_in(results(folder, "two.h5"))
    put_file(results(folder, "two.h5"), bytes(len(data)))
    os.utime(results(folder, "two.h5"), ns=(at.st_mtime_ns, at.st_mtime_ns))
    names = [results(folder, n + ".h5") for n in ("one", "two", "three")]
    run(TABLES, "merge", "-q", "-o", table, *names)
    expect(bytes_in(table) == whole, "a table of unchanged results")
    says(run(H5SPEC, "verify", table, status=1).err, "slide two")
    os.utime(results(folder, "two.h5"), ns=(at.st_mtime_ns + 1, at.st_mtime_ns + 1))
    says(run(TABLES, "merge", "-q", "-o", table, *names, status=1).err, names[1], "not an HDF5 file")
    expect(bytes_in(table) == whole, "the table after a merge that failed")
    # rows of another version of the program, of rewritten tables and damaged ones are not taken over
    put_file(results(folder, "two.h5"), data)
    os.utime(results(folder, "two.h5"), ns=(at.st_mtime_ns, at.st_mtime_ns))
    for change in (lambda f: f.attrs.modify("creator", "h5spec 0.1.9"), replaced("sharpness", data=np.zeros((3, 350), np.uint32)), lambda f: f["table"].__delitem__("level"),
                   lambda f: f["table"].__delitem__("sharpness"), column("result_bytes", 1)):
        os.replace(forged(table, change), table)
        expect(unchanged(run(TABLES, "merge", "-o", table, *names)) < 3, "rows were taken over")
        expect(bytes_in(table) == whole, "not made anew")
    # other parameters
    other = corpus("--stride", "64")
    for name in ("one", "two", "three"):
        shutil.copy(results(other, name + ".h5"), results(folder, name + ".h5"))
    expect(unchanged(run(TABLES, "merge", "-o", table, results(folder))) == 0, "rows of other parameters")
    run(H5SPEC, "verify", table)


NUMBERS = ("tissue_gray gray_low gray_high lines_db lines_period_px lines_deg direction_db direction_deg detail_4px_db detail_7px_db seam_rows "
           "seam_columns seam_y_px seam_x_px tile_seam_rows tile_seam_columns stain_density stain_hue gray_share ink_share colourless_share pieces_sharp light_step light_step_at "
           "spectrum_octaves").split()  # a table that an earlier version made may lack them: check_result.py
LATER = ("bounds_x", "bounds_y", "glass_grid", "background", "tile_compression")  # columns that a table of version 1.0 lacks


def test_reports_of_tables_that_lack_a_column_print_only_their_own_words():
    """Slides are read by whichever thread comes first, and HDF5 printed the errors of all but one."""
    needs("report")
    _, table, _ = both()
    with h5py.File(table, "r") as f:
        names = sorted(set(f["table"]) - set(NUMBERS) - set(LATER))
    for name in LATER:  # which tables of version 1.0 lack
        run(H5SPEC, "report", "-q", "-o", os.path.join(tmp(), "a.html"), forged(table, lambda f: f["table"].__delitem__(name)))
    for name in names[::3]:
        lacks = forged(table, lambda f: f["table"].__delitem__(name))
        p = run(H5SPEC, "report", "-q", "-j", "4", "-o", os.path.join(tmp(), "a.html"), lacks, status=1)
        expect(len(p.err.splitlines()) == 1 and name + " is missing" in p.err, "%s: %s", name, p.err)


@later("ci")
def test_rows_of_very_many_tables():
    """More than are open at a time: their rows are copied as well."""
    folder = tmp()
    os.mkdir(results(folder))
    run(MKRESULT, "--each", "--slides", "260", "--windows", "2x2", "--window", "64", "--stride", "64", results(folder))
    names = sorted(glob.glob(results(folder, "*.h5")))
    tables = ["%s/table-%s" % (folder, os.path.basename(name)) for name in names]
    for name, table in zip(names, tables):
        run(TABLES, "merge", "-q", "-o", table, name)
    out = os.path.join(folder, "all.h5")
    run(TABLES, "merge", "-q", "-o", out, *tables)
    expect(unchanged(run(TABLES, "merge", "-o", out, *names)) == 260, "rows have lost what they were read from")
    run(H5SPEC, "verify", out)


def test_slides_that_were_left_out_are_looked_at_again():
    """Copies of a slide have no rows, so that they may come in when the first one goes."""
    folder, table, _ = both()
    twin = made("--size", "700x900", "--seed", "1", name="aaa")  # the pixels of slide two
    shutil.copy(spectrum(store(twin)), results(folder, "aaa.h5"))
    argv = (TABLES, "merge", "--duplicates", "skip", "--force", "-o", table, results(folder))
    says(run(*argv).err, "copy of", "3 slides")
    p = run(*argv)
    says(p.err, "copy of", "3 slides (3 unchanged)")
    os.unlink(results(folder, "aaa.h5"))
    says(run(*argv).err, "3 slides (2 unchanged)")
    run(H5SPEC, "verify", table)
    # a result of two slides, one of which was left out, is read again
    twin = made("--size", "600x900", "--seed", "0", name="zzz")  # the pixels of slide one
    run(H5SPEC, "merge", "-q", "-o", os.path.join(folder, "pair.h5"), spectrum(store(twin)), results(folder, "three.h5"))
    os.unlink(results(folder, "three.h5"))
    os.rename(os.path.join(folder, "pair.h5"), results(folder, "pair.h5"))
    says(run(*argv).err, "copy of", "3 slides")
    os.unlink(results(folder, "one.h5"))
    says(run(*argv).err, "3 slides (1 unchanged)")
    expect(values_in(table, "table/name").tolist() == [b"three", b"two", b"zzz"], "%s", values_in(table, "table/name"))


def test_a_report_of_a_table_opens_only_results_whose_pictures_it_shows():
    folder = tmp("corpus")
    os.mkdir(results(folder))
    run(MKRESULT, "--each", "--slides", "150", "--windows", "5x4", "--window", "64", "--stride", "32", "--blurred", "6", results(folder))
    table, plain = merged(folder)[0], merged(folder, name="plain.h5", program=H5SPEC)[0]

    def page(path, *options):
        out = os.path.join(folder, "r.html")
        p = run(H5SPEC, "report", "-q", "-o", out, "--csv", os.path.join(folder, "r.csv"), *options, path)
        return bytes_in(out).replace(os.path.basename(path).encode(), b"FILE"), bytes_in(os.path.join(folder, "r.csv")).replace(os.path.basename(path).encode(), b"FILE"), p
    for options in ((), ("--max-size", "0"), ("--max-size", "130K")):
        expect(page(table, *options)[:2] == page(plain, *options)[:2], "report %s of a table", options)
    # without room for the pictures of all, results of slides that pass are not needed
    flagged = [r["slide"] for r in csv.DictReader(io.StringIO(page(table)[1].decode())) if r["verdict"] != "pass"]
    expect(0 < len(flagged) < 99 and "made-00001" in flagged, "%s", flagged)
    want = page(table, "--max-size", "130K")
    lines = re.search(rb'id="p0">(.*?)</script>', want[0], re.S)[1].split(b"\n")
    expect(sum(len(line) > 20 for line in lines) == len(flagged), "pictures of slides that do not pass")
    expect(b"Pictures of slides that pass are left out" in want[0], "the page says so")
    for name in os.listdir(results(folder)):
        if name[:-3] not in flagged:
            os.unlink(results(folder, name))
    expect(page(table, "--max-size", "130K")[:2] == want[:2], "results of slides that pass were needed")
    os.unlink(results(folder, "made-00001.h5"))
    p = run(H5SPEC, "report", "-o", os.path.join(folder, "r.html"), "--max-size", "130K", table, status=1)
    says(p.err, "made-00001", "gets no pictures")


# what happens to results/one.h5, and what a command says that needs it
ACCIDENTS = {
    "gone": (os.unlink, "its maps are missing"),
    "made again": (lambda lost: shutil.copy(result_of("one", 600, 7), lost), "has been made again"),
    "another store": (lambda lost: shutil.copy(spectrum(store(made("--size", "600x900", "--seed", "0", name="one"), "--tissue-thresholds", "0,0")), lost), "has been made again"),
    "cut": (lambda lost: os.truncate(lost, 5000), "truncated"),
    "another slide": (lambda lost: shutil.copy(os.path.join(os.path.dirname(lost), "two.h5"), lost), "does not have this slide"),
    "another stride": (lambda lost: shutil.copy(result_of("one", 600, 0, "--stride", "64"), lost), "other parameters"),
    "a table": (lambda lost: shutil.copy(os.path.join(os.path.dirname(os.path.dirname(lost)), "corpus.h5"), lost), "is a table, too"),
}
OF_ROWS = (["info"], ["info", "--csv"], ["info", "--json"], ["info", "--histogram"], ["plot", "-o", "p.svg"])
OF_RESULTS = (["plot", "--map", "--slide", "one", "-o", "m.svg"], ["map", "-q", "-o", "maps/"], ["map", "-q", "--slide", "one", "--format", "all", "-o", "all/"],
              ["map", "-q", "--feature", "focus", "--format", "geojson", "--class", "x", "--below", "-20", "-o", "places/"], ["verify"], ["report", "-q", "-o", "r.html"],
              ["report", "-q", "--csv", "r.csv", "--multiqc", "r.json", "-o", "r.html"], ["merge", "-q", "-o", "copies.h5"], ["compare"])
SCORES = "x,y,size,value\n0,0,256,0.5\n256,0,256,0.9\n256,512,256,0.1\n"
OF_SIZES = (["map", "-q", "--scores", "s.csv", "--slide", "one", "-o", "scores/"],  # need what a row has
            ["map", "-q", "--scores", "s.csv", "--slide", "one", "--cell", "128", "--format", "all", "-o", "all/"])
OF_STORES = (["lookup"], ["tune"], ["run", "-q", "--device", "cpu", "-o", "r/"], ["run", "-q", "--device", "cpu", "-o", "r.h5"])


def call(argv, folder, path, status):
    """A command in an empty folder; compare takes the file twice."""
    here = tmp()
    if "--scores" in argv:
        put_file(os.path.join(here, "s.csv"), SCORES)
    given = [path, path] if argv[0] == "compare" else [path]
    p = run(H5SPEC, *argv, *given, status=status, cwd=here)
    expect(status == 0 or argv[0] not in ("plot", "merge") or not os.listdir(here), "%s left %s", argv, os.listdir(here))
    return p


def test_all_commands_on_all_forms():
    """Folder, merged file, table, tables with one result that is lost: an answer or a clear error. `plot --map` of a table was a crash."""
    folder, table, plain = both()
    for path in (results(folder), plain, table):
        for argv in (*OF_ROWS, *OF_SIZES, *OF_RESULTS):
            call(argv, folder, path, 2 if argv == ["compare"] and os.path.isdir(path) else 0)  # of two files alone
        for argv in OF_STORES:
            says(call(argv, folder, path, None).err, "result", "store")
    before = outcome(table, "info", "--json")
    for name, (accident, words) in ACCIDENTS.items():
        lost = results(folder, "one.h5")
        whole, at = bytes_in(lost), os.stat(lost)
        accident(lost)
        expect(outcome(table, "info", "--json", status=0 if name == "gone" else 1) == before, "info needs results")
        merged(folder, table, name="again.h5")
        for argv in (*OF_ROWS, *OF_SIZES) if name == "gone" else ():
            call(argv, folder, table, 0)
        for argv in OF_RESULTS if name in ("gone", "made again") else (["verify"],):  # all open results in one way
            says(call(argv, folder, table, 1).err, table, "one", lost, words)
        put_file(lost, whole)
        os.utime(lost, ns=(at.st_atime_ns, at.st_mtime_ns))


def forged(table, change):
    """A copy beside the table that change(file) forges, with the checksums that belong to it."""
    copy = os.path.join(os.path.dirname(table), "forged.h5")
    shutil.copy(table, copy)
    with h5py.File(copy, "r+", libver=LIBVER) as f:
        change(f)
        reseal(f)
    return copy


def replaced(name, **how):
    """Another dataset in the place of a column."""
    def change(f):
        del f["table"][name]
        f["table"].create_dataset(name, **how)
    return change


def column(name, value, row=1):
    def change(f):
        values = f["table"][name][()]
        values[row] = value
        f["table"][name][...] = values
    return change


def texts(name, value):
    """Wider than the column, if need be."""
    def change(f):
        values = [v for v in f["table"][name][()]]
        values[1] = value
        replaced(name, data=np.array(values, "S%d" % (-max(map(len, values)) // 8 * -8)))(f)
    return change


def utf8(f, name):
    """Texts as h5spec writes them: NumPy's are ASCII."""
    values = f["table"][name][()]
    kind = h5py.h5t.TypeID.copy(h5py.h5t.C_S1)
    kind.set_size(values.dtype.itemsize)
    kind.set_strpad(h5py.h5t.STR_NULLPAD)
    kind.set_cset(h5py.h5t.CSET_UTF8)
    del f["table"][name]
    d = h5py.h5d.create(f["table"].id, name.encode(), kind, h5py.h5s.create_simple(values.shape))
    d.write(h5py.h5s.ALL, h5py.h5s.ALL, values, kind)


def test_forged_tables():
    """With the right checksums. No command follows a path out of the folder."""
    folder, table, _ = both()
    outside = os.path.join(os.path.dirname(folder), "outside.h5")
    shutil.copy(results(folder, "two.h5"), outside)

    def path(to):
        def change(f):
            texts("result", to.encode())(f)
            utf8(f, "result")
        return change
    run(H5SPEC, "verify", forged(table, path("results/three.h5")))  # in the order of the names: one, three, two
    for to in (outside, "../" + os.path.basename(outside), "results/../../outside.h5", "..", "results/..", "", "/"):
        bad = forged(table, path(to))
        for argv in (("verify",), ("merge", "-o", os.path.join(folder, "m.h5")), ("map", "-o", os.path.join(folder, "maps") + "/")):
            says(run(H5SPEC, *argv, bad, status=1).err, bad, "slide three", "below the table's folder")
    numbers = [("windows", -1), ("windows", 5), ("windows", 2 ** 62), ("underflow", -1), ("width", 0), ("width", 2 ** 40), ("height", 1), ("group_count", 0),
               ("group_count", 2 ** 40), ("source_gray", 2), ("level", -1), ("mpp_x", -1), ("mpp_x", np.inf), ("tissue_fraction", 2), ("tiles", -1),
               ("tiles", 2 ** 55), ("tiles_damaged", 2 ** 50), ("windows_missing", 2 ** 40), ("mean_db", np.nan), ("mean_db", 1e300), ("std_db", 3),
               ("seconds", np.nan), ("seconds", -1), ("read_seconds", 1e300), ("focus_p50", np.inf), ("focus_p05", 100), ("lines_db", 1e300), ("glass_gray", 256), ("glass_rows", 2),
               ("jpeg_quality", 101), ("tiles_on_host", -2), ("histogram_crc32", 5), ("histogram_crc32", -1), ("profile_sums", 2 ** 62),
               ("spectrum_tissue_windows", 2 ** 40), ("spectrum_glass_threshold", -1),
               ("stain_density", -1), ("stain_hue", 400), ("result_bytes", -2)]
    for name, value in numbers:
        bad = forged(table, column(name, value))
        says(run(H5SPEC, "info", bad, status=1, timeout=20).err, bad, "three")
        says(run(TABLES, "merge", "-o", os.path.join(folder, "m.h5"), bad, status=1, timeout=20).err, bad)
    kinds = {"name": texts("name", b"zzz"), "two names": texts("name", b"one"),
             "numbers for texts": replaced("quickhash", data=np.zeros(3)), "ASCII": replaced("quickhash", data=np.array([b"", b"", b""], "S64")),
             "long texts": replaced("vendor", data=np.array([b"x" * 4000] * 3)), "longer texts": replaced("result", data=np.array([b"x" * 60000] * 3)),
             "texts of variable length": replaced("name", data=["a", "b", "c"], dtype=h5py.string_dtype()),
             "compound": replaced("width", data=np.zeros(3, [("a", "<i8"), ("b", "<i8")])), "real": replaced("width", data=np.ones(3)),
             "32 bits": replaced("width", data=np.ones(3, np.int32)), "two columns": replaced("width", data=np.ones((3, 2), np.int64)),
             "fewer": replaced("width", data=np.ones(2, np.int64)), "more": replaced("width", data=np.ones(4, np.int64)),
             "many": replaced("width", shape=(1 << 40,), chunks=(1 << 20,), compression=1, dtype=np.int64),
             "no histograms": lambda f: f["table"].__delitem__("histograms"), "no column": lambda f: f["table"].__delitem__("level"),
             "no table": lambda f: f.__delitem__("table"), "short histograms": replaced("histograms", data=np.zeros((3, 1599), np.uint64)),
             "contiguous histograms": replaced("histograms", data=np.zeros((3, 1600), np.uint64)),
             "no chunks": replaced("histograms", shape=(3, 1600), chunks=(3, 1600), compression=1, dtype=np.uint64),
             "slides": lambda f: f.attrs.modify("slide_count", np.int64(4)), "fewer slides": lambda f: f.attrs.modify("slide_count", np.int64(2)),
             "none": lambda f: f.attrs.modify("slide_count", np.int64(0)),
             "many slides": lambda f: f.attrs.modify("slide_count", np.int64(2 ** 31 - 1)), "-1 slides": lambda f: f.attrs.modify("slide_count", np.int64(-1)),
             "another group": lambda f: f.move("table", "slides")}
    for what, change in kinds.items():
        bad = forged(table, change)
        for argv in (("info",), ("verify",), ("merge", "-o", os.path.join(folder, "m.h5"))):
            says(run(TABLES, *argv, bad, status=1, timeout=20).err, bad)
    # what only reports read, and what only verify can know
    for name, value in (("sharpness_crc32", 5), ("lines_db", 300.0), ("stain_hue", 20), ("spectrum_octaves", [1, 2, 3, 4]), ("light_step", [1, 2, 3])):
        bad = forged(table, column(name, value))
        says(run(H5SPEC, "verify", bad, status=1, timeout=20).err, bad, "slide three")

    for name in ("tissue_gray", "gray_share", "spectrum_octaves"):  # a table that lacks another number lacks no more
        def lacking(f):
            del f["table/lines_db"]
            column(name, np.nan)(f)
        says(run(H5SPEC, "verify", forged(table, lacking), status=1, timeout=20).err, "slide three", "numbers in the table")

    def blunt(f):
        counts = np.roll(f["table/sharpness"][1], 1)
        f["table/sharpness"][1] = counts
        column("sharpness_crc32", zlib.crc32(counts.tobytes()))(f)
    says(run(H5SPEC, "verify", forged(table, blunt), status=1).err, "slide three", "numbers in the table")
    bad = forged(table, column("sharpness_crc32", 5))
    says(run(H5SPEC, "report", "-o", os.path.join(folder, "r.html"), bad, status=1).err, "slide three", "sharpness is damaged")
    for what, change in {"short": replaced("sharpness", data=np.zeros((3, 349), np.uint32)), "64 bits": replaced("sharpness", data=np.zeros((3, 350), np.uint64)),
                         "contiguous": replaced("sharpness", data=np.zeros((3, 350), np.uint32)), "fewer": replaced("sharpness", data=np.zeros((2, 350), np.uint32))}.items():
        bad = forged(table, change)
        says(run(H5SPEC, "report", "-o", os.path.join(folder, "r.html"), bad, status=1).err, "forged.h5")
    # every column is needed but those of numbers; what another program adds beside the slides of a result makes no table of it
    with h5py.File(table, "r") as f:
        columns = sorted(set(f["table"]) - set(NUMBERS) - set(LATER))
    for name in columns:
        says(run(H5SPEC, "info", forged(table, lambda f: f["table"].__delitem__(name)), status=1).err, "forged.h5", name)
    run(H5SPEC, "verify", forged(results(folder, "one.h5"), lambda f: f.create_group("table")))
    for version in (0, 2, 3, 4):
        says(run(H5SPEC, "info", forged(table, lambda f: f.attrs.modify("format_version", np.int64(version))), status=1).err,
             "forged.h5: format_version %d; this program reads 1" % version)


def test_damaged_tables():
    """A flipped bit anywhere in the numbers is found; totals and rows must agree with the results."""
    folder, table, _ = both()
    with h5py.File(table, "r") as f:
        places = []
        for d in f["table"].values():
            if d.chunks and d.id.get_num_chunks():
                c = d.id.get_chunk_info(0)
                places.append((d.name, c.byte_offset + c.size // 2))
    expect(len(places) > 40, "%d columns", len(places))
    bad = os.path.join(folder, "bad.h5")
    for name, at in places:
        data = bytearray(bytes_in(table))
        data[at] ^= 4
        put_file(bad, data)
        says(run(H5SPEC, "verify", bad, status=1).err, bad)

    def shifted(f):
        """Another histogram of the same sum and the mean of it."""
        h = f["table/histograms"][()]
        k = int(h[1].argmax())
        h[1, k] -= 1
        h[1, k + 1] += 1
        bins = np.arange(1600) * 0.1 + 0.05
        mean = (h[1] * bins).sum() / h[1].sum()
        f["table/histograms"][...] = h
        column("histogram_crc32", zlib.crc32(h[1].tobytes()))(f)
        column("mean_db", mean)(f)
        column("std_db", np.sqrt((h[1] * (bins - mean) ** 2).sum() / h[1].sum()))(f)
    bad = forged(table, shifted)
    run(H5SPEC, "info", bad)
    says(run(H5SPEC, "verify", bad, status=1).err, bad, "slide three", "not that of its result")


if __name__ == "__main__":
    main(globals())
