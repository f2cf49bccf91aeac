"""`h5spec info`: everything it prints against h5py, its columns, and hostile names."""
import functools
import struct
import unicodedata

import h5py
import numpy as np

from lib import *

SMALL = ("--size", "900x700")
PARAMETERS = "window stride sigma radius taper offset bins low_db high_db tissue_only min_tissue" \
    " skip_damaged"
STORE_TEXTS = "source_name quickhash vendor reader codec creator source_problem background tile_compression"
STORE_NUMBERS = (
    "source_bytes level downsample width height channels chunk_rows chunk_cols stripe_rows"
    " group_rows group_count format_version"
)
SLIDE_TEXTS = "source_name quickhash backend device kernel io groups_missing background tile_compression"
SLIDE_NUMBERS = "source_bytes level width height group_rows group_count"
ORIGIN = "mpp_x mpp_y downsample objective_power tissue_fraction chunk_rows chunk_cols tiles tiles_missing tiles_damaged" \
    " tiles_left_out jpeg_quality jpeg_twice glass_gray glass_range glass_std glass_rows glass_columns glass_grain glass_grid"
FOCUS = "focus_p05 focus_p50 focus_p95 fine_p05 fine_p50 fine_p95 sharp_p05 sharp_p50 sharp_p95" \
    " tissue_gray gray_low gray_high lines_db lines_period_px lines_deg direction_db direction_deg detail_4px_db detail_7px_db" \
    " seam_rows seam_columns seam_y_px seam_x_px tile_seam_rows tile_seam_columns"
TOUCHING = "windows_missing windows_damaged windows_left_out windows_skipped"
COUNTS = "windows samples underflow overflow mean_db std_db " + TOUCHING


def text_of(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def info(path, *options):
    (j,) = json_lines(run(H5SPEC, "info", "--json", *options, path).out)
    return j


def a_store(*options):
    return store(made(*SMALL, "--icc", "fake:500", name="info"), *options)


def damaged_store():
    damage = ("--missing", "1,1", "--garbage", "0,1", "--mpp", "none", "--appmag", "none")
    path = os.path.join(tmp(), "damaged.h5")
    slide = made(*SMALL, *damage, "--no-thumbnail", name="damaged")
    run(os.path.join(os.path.dirname(H5SPEC), "wsi2h5"), "-q", "-o", path, slide, status=4)
    return path


def named(name, *options):
    """A result with a slide of this name."""
    return spectrum(copied(store(made("--size", "400x400", name="plain")), name + ".h5"), *options)


# --- stores ---


def check_store(path):
    j = info(path)
    with h5py.File(path, "r") as f:
        groups = [f["groups"][g] for g in f["groups"]]
        status = np.concatenate([g["tile_status"][()].ravel() for g in groups])
        stored = sum(g["pixels"].id.get_storage_size() for g in groups)
        chunk = int(f.attrs["chunk_rows"] * f.attrs["chunk_cols"] * f.attrs["channels"])
        for key in STORE_TEXTS.split():
            want = text_of(f.attrs.get(key, ""))
            expect(j[key] == want, "%s: %r, not %r", key, j[key], want)
        for key in STORE_NUMBERS.split():
            expect(j[key] == f.attrs[key], "%s: %s, not %s", key, j[key], f.attrs[key])
        for key in ("mpp_x", "mpp_y", "objective_power"):
            expect(j[key] == f.attrs.get(key), "%s: %s, not %s", key, j[key], f.attrs.get(key))
        for key in ("tissue_only", "identifiers"):
            expect(j[key] is bool(f.attrs[key]), "%s: %s", key, j[key])
        fraction = f["tissue/mask"].attrs["tissue_fraction"] if "tissue" in f else None
        expect(j["tissue_fraction"] == fraction, "tissue: %s %s", j["tissue_fraction"], fraction)
        expect(j["thumbnail"] is ("associated/thumbnail" in f), "thumbnail")
        expect(j["icc_profile"] is ("icc_profile" in f), "ICC profile")
    for k, key in enumerate(("tiles_missing", "tiles_damaged", "tiles_left_out"), 1):
        expect(j[key] == (status == k).sum(), "%s: %s", key, j[key])
    expect(j["tiles"] == len(status) and j["bytes"] == os.path.getsize(path), "sizes")
    expect(j["stored_bytes"] == stored, "stored bytes: %d, not %d", j["stored_bytes"], stored)
    ratio = float((status != 3).sum()) * chunk / stored
    expect(j["codec_ratio"] == ratio, "ratio: %s, not %s", j["codec_ratio"], ratio)
    return j, run(H5SPEC, "info", path).out


def test_store_of_a_slide():
    j, text = check_store(a_store())
    says(text, "900 x 700, RGB", "0.499 x 0.499 um/px", "objective 20x", "thumbnail, ICC profile",
         "codec      deflate", "%.2f times smaller" % j["codec_ratio"], "0 missing, 0 damaged",
         "%.1f %% of the slide" % (100 * j["tissue_fraction"]), "made by " + j["creator"])
    expect("left out\n" in text and "; tiles without tissue" not in text, "%s", text)


def test_store_with_damage():
    j, text = check_store(damaged_store())
    expect(j["tiles_damaged"] == j["tiles_missing"] == 1 and j["mpp_x"] is None, "%s", j)
    says(text, "1 missing, 1 damaged", "thumbnail, no ICC profile", "size of a pixel unknown")
    half = made("--size", "900x900", "--tissue-fraction", "0.2", name="half")
    j, text = check_store(store(half, "--tissue-only"))
    expect(j["tiles_left_out"] > 0 and j["tissue_only"], "%s", j)
    says(text, "%d left out" % j["tiles_left_out"], "; tiles without tissue are left out")


def test_stores_of_every_kind():
    for options in (["--codec", "none"], ["--gray"], ["--group-bytes", "1", "--stripe-rows", "240"],
                    ["--keep-identifiers"]):
        j, text = check_store(a_store(*options))
        says(text, j["codec"], "%d group" % j["group_count"],
             "RGB" if j["channels"] == 3 else "8-bit gray",
             "properties kept" if j["identifiers"] else "no identifying properties")


# --- results ---


@functools.lru_cache(None)
def results():
    """Results whose parameters all differ from the defaults, of several slides."""
    stores = [a_store("--tissue-only"), store(made(*SMALL, "--seed", "4", name="b"), "--gray")]
    other = ("--window", "128", "--stride", "100", "--sigma", "0.7", "--taper", "hann", "--bins",
             "300", "--range", "3.5:77.7", "--tissue-only", "--min-tissue", "0.3")
    return [spectrum(stores), spectrum(stores, *other)]


def check_same(got, want, what):
    for key, value in want.items():
        value = text_of(value) if isinstance(value, (str, bytes)) else value
        expect(got[key] == value, "%s: %s is %r, not %r", what, key, got[key], value)


def none_of_nan(x):
    return None if isinstance(x, float) and np.isnan(x) else x


def check_features(s, g):
    """What versions 2 and 3 add: copied from the store or computed from the dataset."""
    check_same(s, {k: none_of_nan(g.attrs.get(k)) for k in (ORIGIN + " vendor jpeg_subsampling " + FOCUS).split()}, "features")
    expect(s["profile"] == list(g["profile"][()]), "profile: %s", s["profile"])
    expect(s["slope"] == g["profile"].attrs["slope"], "slope: %s", s["slope"])
    for kind in ("tissue", "glass"):
        windows = g["spectrum_" + kind].attrs["windows"]
        expect(s["spectrum_%s_windows" % kind] == windows, "%s: %s", kind, windows)


def test_result_as_json():
    for path in results():
        j = info(path)
        with h5py.File(path, "r") as f:
            both = {**f.attrs, **f["histogram"].attrs}
            check_same(j, {k: both[k] for k in PARAMETERS.split()}, "parameters")
            check_same(j, {k: f.attrs[k] for k in ("creator", "format_version")}, "file")
            expect((j["input"], j["kind"], j["format"]) == (path, "result", "wsi-spectrum"), "%s", list(j)[:4])
            check_same(j, {k: f.attrs[k] for k in COUNTS.split()}, "sum")
            expect(j["tissue_only"] in (True, False), "tissue_only is no truth value")
            expect([s["slide"] for s in j["slides"]] == sorted(f["slides"]), "slides")
            expect(j["slide_count"] == len(j["slides"]) == 2, "slide_count")
            for s in j["slides"]:
                g = f["slides"][s["slide"]]
                times = ["seconds"] + [k + "_seconds" for k in STAGES]
                keys = COUNTS.split() + SLIDE_TEXTS.split() + SLIDE_NUMBERS.split() + times
                check_same(s, {k: g.attrs[k] for k in keys}, s["slide"])
                expect(s["source_gray"] is bool(g.attrs["source_gray"]), "source_gray")
                check_features(s, g)
                shape = g["window_mean_db"].shape
                expect((s["windows_y"], s["windows_x"]) == shape, "map")


def check_feature_columns(row, want):
    want = {**want, **{"octave_%d" % (7 - k): v for k, v in enumerate(want["profile"])}}
    octaves = " ".join("octave_%d" % j for j in range(7, 0, -1))
    for key in (ORIGIN + " slope " + FOCUS + " " + octaves).split():
        expect((row[key] == "") == (want[key] is None), "%s: %s, not %s", key, row[key], want[key])
        if row[key]:
            close(row[key], want[key], key)
    expect(row["vendor"] == want["vendor"], "vendor: %s", row["vendor"])


def close(cell, want, key):
    """Cells of numbers have 10 digits."""
    same = cell == want if isinstance(want, str) else abs(float(cell) - want) <= 1e-9 * abs(want)
    expect(same, "%s: %s, not %s", key, cell, want)


def test_result_as_csv():
    paths = results()
    rows = list(csv.DictReader(io.StringIO(run(H5SPEC, "info", "--csv", *paths).out)))
    expect(len(rows) == 4 and list(rows[0])[:5] == "slide input windows mean_db std_db".split() and "kind" not in rows[0], "each slide once: %s", rows[0])
    for path, part in zip(paths, (rows[:2], rows[2:])):
        j = info(path)
        for row, want in zip(part, j["slides"]):
            expect(row["input"] == path and row["slide"] == want["slide"], "%s", row)
            numbers = ("windows underflow overflow mean_db std_db " + TOUCHING).split()
            if "slide" in want:
                numbers += "width height level seconds source_gray".split()
                for key in SLIDE_TEXTS.split():
                    expect(row[key] == want[key], "%s: %r", key, row[key])
                check_feature_columns(row, want)
            for key in numbers:
                close(row[key], want[key], key)
            for key in PARAMETERS.split():
                close(row[key], j[key], key)
            expect(row["creator"] == j["creator"] and None not in row, "columns: %s", row)


def test_stores_as_csv():
    """A row per store, with what --json says of it."""
    paths = sorted((a_store(), store(made(*SMALL, name="other"), "--codec", "deflate", "--gray")))
    rows = list(csv.DictReader(io.StringIO(run(H5SPEC, "info", "--csv", *paths).out)))
    expect([r["input"] for r in rows] == paths and [r["slide"] + ".h5" for r in rows] == [os.path.basename(p) for p in paths], "%s", rows)
    for row in rows:
        want = info(row["input"])
        for key in want.keys() - {"kind", "format", "format_version", "sources"}:
            cell = "" if want[key] is None else int(want[key]) if isinstance(want[key], bool) else want[key]
            close(row[key], cell, key) if row[key] and not isinstance(cell, str) else expect(row[key] == str(cell), "%s: %r, not %r", key, row[key], cell)
        expect(None not in row and not any(row[key] for key in set(row) - set(want) - {"slide"}), "%s", row)


def test_inputs_have_one_name_in_all_commands():
    """It was slide, store, name and file."""
    slide = made(*SMALL, name="named")
    s, out = store(slide), tmp()
    result = spectrum(s)
    for argv, path, kind in (([WSI2H5, "-q", "-o", out], slide, "slide"), ([WSI2H5, "-q", "-o", out], "/nowhere.svs", "slide"),
                             ([H5SPEC, "run", "-q", "--device", "cpu", "-o", out], s, "store"), ([H5SPEC, "run", "-q", "--device", "cpu", "-o", out], result, "store"),
                             ([H5SPEC, "lookup"], s, "store"), ([H5SPEC, "info"], s, "store"),
                             ([H5SPEC, "info"], result, "result"), ([H5SPEC, "verify"], s, "store"), ([H5SPEC, "verify"], result, "result")):
        (line,) = json_lines(run(*argv, "--json", path, status=None).out)
        expect(list(line)[:2] == ["input", "kind"] and (line["input"], line["kind"]) == (path, kind), "%s: %s", argv, line)


def test_result_as_text():
    plain, other = results()
    says(run(H5SPEC, "info", plain).out, "256 x 256 px, stride 128 px, rectangular taper",
         "all windows", "sigma 1 px, radius 3 px", "1600 bins from 0 to 160 dB",
         "20 log10(|F| + 1)", "2 slides on cpu", "1 from 8-bit gray", "format 1, made by h5spec")
    text = run(H5SPEC, "info", other).out
    j = info(other)
    says(text, "128 x 128 px, stride 100 px, hann taper", "windows with at least 30 % tissue",
         "sigma 0.7 px, radius %d px" % j["radius"], "300 bins from 3.5 to 77.7 dB",
         "kernel " + j["slides"][0]["kernel"],
         "%d below, %d above" % (j["underflow"], j["overflow"]))
    for s in j["slides"] + [{**j, "slide": "all"}]:
        says(text, "%-20s %12d %10.3f %10.3f" %
             (s["slide"], s["windows"], s["mean_db"], s["std_db"]))
    says(run(H5SPEC, "info", spectrum(store(made(*SMALL, name="c")), "--sigma", "0")).out,
         "smoothing  none")


def test_missing_groups_are_named():
    s = store(made("--size", "600x1400", name="groups"), "--stripe-rows", "240",
              "--group-bytes", "1")
    r = spectrum(s, "--groups", "2-3")
    (slide,) = info(r)["slides"]
    n = slide["group_count"]
    want = "1,4" if n == 4 else "1,4-%d" % n
    expect(slide["groups_missing"] == want, "%s", slide["groups_missing"])
    says(run(H5SPEC, "info", r).out, "without group %s of %d" % (want, n))
    (row,) = csv.DictReader(io.StringIO(run(H5SPEC, "info", "--csv", r).out))
    expect(row["groups_missing"] == want, "%s", row)


def test_slide_without_windows():
    r = spectrum(store(made("--size", "200x200", name="tiny")))
    j = info(r)
    expect(j["mean_db"] is None and j["windows"] == 0, "%s", j)
    (row,) = csv.DictReader(io.StringIO(run(H5SPEC, "info", "--csv", r).out))
    expect(row["mean_db"] == row["std_db"] == "" and row["windows"] == "0", "%s", row)
    says(run(H5SPEC, "info", r).out, "0          -          -")


# --- numbers ---


def test_numbers_have_as_few_digits_as_they_need():
    """0.069867 was printed as 0.069866999999999999."""
    small = spectrum(a_store(), "--sigma", "0.1", "--range", "-1e-5:160")
    for path in [*results(), a_store(), small]:
        text = run(H5SPEC, "info", "--json", path).out
        seen = []
        json.loads(text, parse_float=lambda s: seen.append(s) or float(s))
        expect(len(seen) > 3, "no numbers")
        for s in seen:
            expect(len(s) <= len(repr(float(s))), "%s for %r", s, float(s))
        expect(not re.search(r'": -?\d(\.\d+)?e\+0?\d\b', text), "%s", text)


def test_histograms_of_several_files_are_named():
    a, b = results()
    single = run(H5SPEC, "info", "--histogram", a).out.splitlines()
    expect(single[0] == "low_db\thigh_db\tcount", "%s", single[0])
    rows = [r.split("\t") for r in run(H5SPEC, "info", "--histogram", a, b).out.splitlines()]
    expect(rows[0] == ["input", "low_db", "high_db", "count"], "%s", rows[0])
    expect(["\t".join(r[1:]) for r in rows[1:1601]] == single[1:], "rows")
    for path, part in ((a, rows[1:1601]), (b, rows[1601:])):
        with h5py.File(path, "r") as f:
            h = f["histogram"]
            edges = np.linspace(h.attrs["low_db"], h.attrs["high_db"], len(h) + 1)
            expect([r[0] for r in part] == [path] * len(h), "file")
            expect((np.array([int(r[3]) for r in part]) == h[()]).all(), "counts")
            got = np.array([[float(v) for v in r[1:3]] for r in part])
            want = np.column_stack([edges[:-1], edges[1:]])
            expect(np.abs(got - want).max() < 1e-3, "edges")


# --- names ---


def columns_of(text):
    return sum(0 if unicodedata.combining(c) else
               2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def table_of(text):
    """Rows of the table: from its head to the sum."""
    lines = text.splitlines()
    first = next(k for k, line in enumerate(lines) if line.split()[:1] == ["slide"])
    last = next(k for k, line in enumerate(lines) if line.split()[:1] == ["all"])
    return lines[first:last + 1]


def test_columns_stay_in_line():
    """Long names pushed the numbers out of their columns; bytes were counted as columns."""
    tcga = "TCGA-A1-A0SB-01Z-00-DX1.B34C267B-CAAD-4C2B-8A0E-2F8D9B0B9A5D"
    for name, shown in (("\u67d3\u8272\u4f53" * 3, "\u67d3\u8272\u4f53" * 3), ("a", "a"),
                        ("e\u0301tude", "e\u0301tude"), (tcga, tcga),
                        ("x" * 100 + "-end", "x" * 32 + "\u2026"),
                        ("\u67d3" * 60, "\u2026"), ("z" * 64, "z" * 64)):
        rows = table_of(run(H5SPEC, "info", named(name)).out)
        expect(len({columns_of(r) for r in rows}) == 1, "%s", rows)
        says(rows[1], shown)
        expect(columns_of(rows[1]) <= 2 + 64 + 35, "%s", rows[1])
    row = table_of(run(H5SPEC, "info", named("x" * 100 + "-end")).out)[1]
    expect(row.split()[0].endswith("-end"), "the end of a name is what tells slides apart")


def test_hostile_names():
    for name in ('a"b,c\n=d', "\x1b[31mred", "l1\nl2\ttab", os.fsdecode(b"latin-\xe4\xff1"),
                 "rtl\u202egnp", "'; drop", "semi;colon, comma"):
        r = named(name)
        run_bytes = run(H5SPEC, "info", r).stdout + run(H5SPEC, "info", "--csv", r).stdout
        run_bytes.decode("utf-8")
        expect(not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", run_bytes.decode()), "%r", run_bytes)
        (slide,) = info(r)["slides"]
        expect(slide["slide"] == name, "%r, not %r", slide["slide"], name)  # also bytes that are not UTF-8
        rows = list(csv.DictReader(io.StringIO(run(H5SPEC, "info", "--csv", r).out, newline="")))
        shown = re.sub("[\x00-\x1f\x7f\u202e]", "?", os.fsencode(name).decode("utf-8", errors="replace"))
        expect(len(rows) == 1 and rows[0]["slide"] == shown, "%r, not %r", rows[0]["slide"], shown)
        expect(len({columns_of(x) for x in table_of(run(H5SPEC, "info", r).out)}) == 1, "columns")


def test_names_that_a_spreadsheet_takes_for_formulas():
    """Cells began with = + - @, which a spreadsheet computes. An apostrophe comes first."""
    for name in ("=cmd|' -C calc'!A0", "+1+1", "-1-1", "@SUM(1)", "'=1", "\t=1"):
        rows = list(csv.DictReader(io.StringIO(run(H5SPEC, "info", "--csv", named(name)).out)))
        expect(rows[0]["slide"] == ("?=1" if name == "\t=1" else "'" + name), "%r", rows[0]["slide"])
        expect(rows[0]["source_name"][:1] not in ("=", "+", "-", "@"), "%r", rows[0]["source_name"])


def test_csv_numbers_are_short():
    """focus_p05 was -28.319000000000003."""
    for row in csv.DictReader(io.StringIO(run(H5SPEC, "info", "--csv", *results()).out)):
        for key, cell in row.items():
            if key not in SLIDE_TEXTS.split() + ["input", "slide", "creator"]:
                expect(len(cell.strip("-0.").replace(".", "")) <= 10 or not cell[-1].isdigit(), "%s: %s", key, cell)


def test_hostile_file_names():
    folder = os.path.join(tmp(), 'f"o,l\td\n\x1b')
    os.mkdir(folder)
    path = os.path.join(folder, "r.h5")
    shutil.copy(named("plain"), path)
    shown = re.sub("[\x00-\x1f]", "?", path)
    (row,) = csv.DictReader(io.StringIO(run(H5SPEC, "info", "--csv", path).out, newline=""))
    expect(row["input"] == shown and info(path)["input"] == path, "%s", row)
    says(run(H5SPEC, "info", path).out, shown + ": spectrum of 1 slide")
    rows = run(H5SPEC, "info", "--histogram", path, path).out.splitlines()
    expect(all(r.startswith(shown + "\t") and r.count("\t") == 3 for r in rows[1:]), "%s", rows[1])


def test_what_cannot_be_shown_is_named():
    s, r = a_store(), results()[0]
    bad = file_of("bad.h5", bytes_in(r)[:5000])
    p = run(H5SPEC, "info", "--histogram", s, r, status=1)
    says(p.err, s, "is a store, which has no spectrum; name a result")
    expect(len(p.out.splitlines()) > 1000, "the other file is shown")
    for form in ([], ["--histogram"], ["--csv"], ["--json"]):
        says(run(H5SPEC, "info", *form, s + ".absent", status=1).err, s + ".absent: cannot open: No such file")
    for files, words in (((s, r), "is a result, but the table is of stores"), ((r, s), "is a store, but the table is of results")):
        p = run(H5SPEC, "info", "--csv", *files, status=1)
        says(p.err, files[1], words)
        expect(p.out.count("\n") > 1 and files[0] in p.out and files[1] not in p.out, "%s", p.out)
    p = run(H5SPEC, "info", bad, "/nowhere/x.h5", r, status=1)
    says(p.err, bad, "/nowhere/x.h5")
    says(p.out, r)


# --- files ---


def test_a_file_may_end_with_a_short_list_of_blocks():
    """A result whose last 53 bytes list the blocks with the names of slides was rejected."""
    folder = tmp()
    for k in range(12):
        name = "%02d%s.h5" % (k, "x" * 60)
        shutil.copy(store(made("--size", "300x300", name="block")), os.path.join(folder, name))

    def change(data):
        head = data.find(b"FRHP")
        expect(head > 0, "no heap")
        bits, _, root, rows = struct.unpack_from("<HHQH", data, head + 128)
        expect(rows == 1 and data[root:root + 4] == b"FHIB", "no list of blocks: %d", rows)
        size = 4 + 1 + 8 + bits // 8 + 4 * 8 + 4
        struct.pack_into("<Q", data, head + 132, len(data))
        data += data[root:root + size]
        struct.pack_into("<Q", data, 28, len(data))  # the superblock's end of the file
    path = forged(spectrum(folder, "--duplicates", "count"), change)
    says(run(H5SPEC, "info", path).out, "spectrum of 12 slides")


main(globals())
