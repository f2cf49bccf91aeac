"""h5spec compare: distances against numpy, the order, the exit status, and what cannot be compared."""
import functools

import h5py
import numpy as np

from lib import *


def slide(name, *options):
    return store(made("--size", "900x700", "--seed", str(ord(name)), *options, name=name))


def folder_of(**stores):
    """Stores under other names: the names are those of the slides in a result."""
    folder = tmp("named")
    for name, path in stores.items():
        os.link(path, os.path.join(folder, name + ".h5"))
    return [os.path.join(folder, name + ".h5") for name in sorted(stores)]


def compare(a, b, *options, status=0):
    p = run(H5SPEC, "compare", "--json", *options, a, b, status=status)
    (line,) = json_lines(p.out)
    return line


@functools.lru_cache(None)
def pair():
    """Three slides; between the results `same` is unchanged, `soft` and `other` are not."""
    a = spectrum(folder_of(same=slide("x"), soft=slide("y"), other=slide("z")))
    b = spectrum(folder_of(same=slide("x"), soft=slide("y", "--quality", "30"), other=slide("w")))
    return a, b


def w1(a, b, width=0.1):
    return np.abs(np.cumsum(a / a.sum()) - np.cumsum(b / b.sum()))[:-1].sum() * width


def decibels(s, name):
    values = s[name][()]
    return values if values.dtype == np.float32 else np.where(values == -32768, np.nan, values * 0.01)


def test_distances():
    a, b = pair()
    line = compare(a, b)
    expect(line["compared"] == 3 and line["identical"] == 1 and line["limit"] is None, "%s", line)
    got = {s["slide"]: s for s in line["slides"]}
    with h5py.File(a, "r") as f, h5py.File(b, "r") as g:
        for name in f["slides"]:
            s, t, have = f["slides"][name], g["slides"][name], got[name]
            expect(abs(have["w1_db"] - w1(s["histogram"][()], t["histogram"][()])) < 1e-4, "%s: W1 %s", name, have["w1_db"])
            for key in ("mean_db", "std_db"):
                expect(abs(have[key] - (t.attrs[key] - s.attrs[key])) < 1e-9, "%s: %s", name, key)
            for key in ("window_mean_db", "window_focus_db"):
                off = np.abs(decibels(t, key).astype(float) - decibels(s, key))
                expect(have[key]["windows"] == off.size and have[key]["changed"] == (off > 1e-9).sum(), "%s: %s", name, have)
                expect(abs(have[key]["mean"] - off.mean()) < 1e-6 and abs(have[key]["most"] - off.max()) < 1e-6, "%s", have)
    expect(got["same"]["identical"] and got["same"]["w1_db"] == 0 and not got["soft"]["identical"], "%s", got)


def test_windows_without_a_value_are_not_compared():
    a, b = (spectrum(folder_of(one=slide("x", "--tissue-fraction", "0.5", *options)), "--tissue-only")
            for options in ((), ("--quality", "30")))
    (have,) = compare(a, b)["slides"]
    with h5py.File(a, "r") as f, h5py.File(b, "r") as g:
        off = np.abs(decibels(g["slides/one"], "window_mean_db").astype(float) - decibels(f["slides/one"], "window_mean_db"))
    expect(np.isnan(off).any() and not np.isnan(off).all(), "a useless pair")
    expect(have["window_mean_db"]["windows"] == (~np.isnan(off)).sum(), "%s", have)
    expect(abs(have["window_mean_db"]["mean"] - np.nanmean(off)) < 1e-6, "%s", have)


def test_the_worst_slide_comes_first():
    a, b = pair()
    distances = [s["w1_db"] for s in compare(a, b)["slides"]]
    expect(distances == sorted(distances, reverse=True) and distances[0] > 0, "%s", distances)
    lines = run(H5SPEC, "compare", a, b).out.splitlines()
    expect([line.split()[0] for line in lines[1:]] == [s["slide"] for s in compare(a, b)["slides"]], "%s", lines)
    says(lines[0], "slide", "distance (W1) dB", "mean dB", "std dB", "focus dB")
    says(lines[3], "same", "0.0000", "identical")


def test_the_limit_sets_the_status():
    a, b = pair()
    worst = max(s["w1_db"] for s in compare(a, b)["slides"])
    expect(compare(a, b, "--limit", worst * 1.01)["within_limit"] is True, "below")
    line = compare(a, b, "--limit", worst * 0.99, status=1)
    expect(line["within_limit"] is False and line["above_limit"] >= 1, "%s", line)
    compare(a, a, "--limit", "0")
    p = run(H5SPEC, "compare", "--limit", "0", a, b, status=1)
    says(p.err, "3 slides compared, 1 identical", "2 above the limit of 0 dB")


def test_the_table_shows_means_of_windows():
    """Its columns were maxima, which are those of glass."""
    a, b = pair()
    rows = {line.split()[0]: line.split() for line in run(H5SPEC, "compare", a, b).out.splitlines()}
    for s in compare(a, b)["slides"]:
        got = [float(cell) for cell in rows[s["slide"]][4:6]]
        want = [s[key]["mean"] for key in ("window_mean_db", "window_focus_db")]
        expect(np.abs(np.subtract(got, want)).max() <= 0.006, "%s: %s, not %s", s["slide"], got, want)


def test_slides_with_other_names_are_matched_by_quickhash():
    """Stores of two codecs under two names: "0 slides compared"."""
    x, y, z = slide("x"), slide("y"), slide("z")
    a = spectrum(folder_of(**{"x-deflate": x, "y": y, "z-1": z}))
    b = spectrum(folder_of(**{"a-none": store(made("--size", "900x700", "--seed", str(ord("x")), name="x"), "--codec", "none"), "y": y,
                              "z-2": z, "z-3": z}), "--duplicates", "count")
    line = compare(a, b)
    names = {(s["slide"], s["slide_b"], s["identical"]) for s in line["slides"]}
    expect(names == {("x-deflate", "a-none", True), ("y", "y", True)}, "%s", names)
    expect(line["only_in_a"] == ["z-1"] and line["only_in_b"] == ["z-2", "z-3"], "%s", line)
    p = run(H5SPEC, "compare", a, b)
    says(p.out, "identical  in B: a-none")
    says(p.err, "2 slides compared (1 by quickhash: other names), 2 identical")
    back = compare(b, a)
    expect({(s["slide"], s["slide_b"]) for s in back["slides"]} == {("a-none", "x-deflate"), ("y", "y")}, "%s", back)


def test_a_folder_is_to_be_merged_first():
    a, _ = pair()
    p = run(H5SPEC, "compare", a, os.path.dirname(a), status=2)
    says(p.err, os.path.dirname(a) + ": a folder; merge its results into one file first: h5spec merge -o CORPUS.h5 " + os.path.dirname(a))


def test_slides_in_one_result_only():
    a, _ = pair()
    b = spectrum(folder_of(same=slide("x"), new=slide("q")))
    line = compare(a, b)
    expect(line["only_in_a"] == ["other", "soft"] and line["only_in_b"] == ["new"] and line["compared"] == 1, "%s", line)
    compare(a, b, "--limit", "10", status=1)
    says(run(H5SPEC, "compare", a, b).out, "new", "only in " + b, "soft", "only in " + a)
    part = spectrum(folder_of(same=slide("x")))
    compare(part, part, "--limit", "10")
    for pair_of in ((part, b), (b, part)):
        line = compare(*pair_of, "--limit", "10", status=1)
        expect(line["identical"] == line["compared"] == 1 and line["within_limit"] is False, "%s", line)


def test_nothing_to_compare_is_never_within_the_limit():
    empty = os.path.join(tmp(), "empty.h5")
    run(os.path.join(BUILD, "tests", "mkresult"), "--slides", "0", empty)
    line = compare(empty, empty, "--limit", "10", status=1)
    expect(line["compared"] == 0 and line["within_limit"] is False, "%s", line)
    expect(compare(empty, empty, status=1)["limit"] is None, "limit")


def test_other_sizes_resolutions_and_no_windows():
    a = spectrum(folder_of(one=slide("x"), tiny=store(made("--size", "200x200", name="t")), two=slide("v")))
    b = spectrum(folder_of(one=store(made("--size", "700x900", name="u")), tiny=slide("y"), two=slide("z", "--mpp", "0.25")), "--mix-mpp")
    got = {s["slide"]: s for s in compare(a, b)["slides"]}
    expect("window_mean_db" not in got["one"] and got["tiny"]["w1_db"] is None, "%s", got)
    expect(compare(a, b)["slides"][0]["slide"] == "tiny", "a slide without a distance is not the worst")
    expect((got["two"]["mpp_a"], got["two"]["mpp_b"]) == (0.499, 0.25), "%s", got["two"])
    says(run(H5SPEC, "compare", a, b).out, "different size", "0.499 and 0.25 um/px")
    compare(a, b, "--limit", "100", status=1)
    largest = max(s["w1_db"] for s in got.values() if s["w1_db"] is not None)
    says(run(H5SPEC, "compare", a, b).err, "largest W1 %.4f dB" % largest)
    line = compare(a, a, "--limit", "0")
    expect(line["identical"] == 3, "%s", line)


def test_another_resolution_is_never_within_the_limit():
    """The pixels are the same, so W1 is 0; but 4 px are not as long as they were."""
    a, b = (spectrum(folder_of(one=slide("x", "--mpp", mpp), two=slide("y")), "--mix-mpp") for mpp in ("0.499", "0.56"))
    line = compare(a, b, "--limit", "0", status=1)
    got = {s["slide"]: s for s in line["slides"]}
    expect(got["one"]["w1_db"] == 0 and line["within_limit"] is False and line["above_limit"] == 0, "%s", line)
    expect(line["other_resolution"] == 1 and got["one"]["other_resolution"] and not got["two"]["other_resolution"], "%s", line)
    p = run(H5SPEC, "compare", "--limit", "5", a, b, status=1)
    says(p.err, "1 with other um/px")
    says(p.out, "0.499 and 0.56 um/px")
    run(H5SPEC, "compare", a, b)


def test_the_resolution_is_that_of_the_level():
    """um per px of the stored level count: level 1 is coarser by 4."""
    fine, coarse = (made("--size", "2400x2000", "--levels", "2", "--mpp", mpp, name="levels") for mpp in ("0.125", "0.5"))
    a, b, c = (spectrum(folder_of(one=store(*s))) for s in ((coarse,), (coarse, "--level", "1"), (fine, "--level", "1")))
    (one,) = compare(a, b)["slides"]
    expect((one["mpp_a"], one["mpp_b"], one["other_resolution"]) == (0.5, 2, True), "%s", one)
    line = compare(a, c, "--limit", "1000")
    expect((line["slides"][0]["mpp_b"], line["other_resolution"]) == (0.5, 0), "%s", line)


def test_parameters_must_be_equal():
    x = slide("x")
    usual, wide = spectrum(x), spectrum(x, "--stride", "100")
    p = run(H5SPEC, "compare", usual, wide, status=1)
    says(p.err, usual, wide, "stride is 128 and 100", "different parameters")


def test_a_damaged_result_is_named():
    a, b = pair()
    bad = flipped_in(b, "slides/soft/window_mean_db")
    p = run(H5SPEC, "compare", a, bad, status=1)
    says(p.err, bad, "slide soft", "window_mean_db", "CRC mismatch")
    expect(p.out == "", "a table was printed: %s", p.out)


def test_wrong_usage():
    a, _ = pair()
    for options in ((), (a,), (a, a, a), ("--limit", "x", a, a), ("--limit", "-1", a, a)):
        p = run(H5SPEC, "compare", *options, status=2)
        says(p.err, "h5spec compare: ", "Try 'h5spec compare --help'.")
    says(run(H5SPEC, "compare", a, "/nowhere.h5", status=1).err, "/nowhere.h5")


def test_one_slide_each_is_compared_whatever_its_name():
    """Two scanners name their files differently: "0 slides compared", status 0."""
    a, b = spectrum(folder_of(left=slide("x"))), spectrum(folder_of(right=slide("y")))
    (have,) = compare(a, b)["slides"]
    expect((have["slide"], have["slide_b"]) == ("left", "right") and have["w1_db"] > 0, "%s", have)
    with h5py.File(a, "r") as f, h5py.File(b, "r") as g:
        change = g["slides/right/profile"][()] - f["slides/left/profile"][()]
    expect(np.abs([have["octave_%d" % (7 - k)] for k in range(7)] - change).max() < 1e-9, "%s: %s", change, have)
    lines = run(H5SPEC, "compare", a, b).out.splitlines()
    says(lines[3], "px per cycle", "64-128", "2-4")
    expect(lines[4].split()[-6:] == ["%+.2f" % x for x in change[:6]], "%s: %s", change, lines)
    expect(len(run(H5SPEC, "compare", a, a).out.splitlines()) == 2, "a change of nothing")


def test_pairs_of_a_table():
    a, b = spectrum(folder_of(l1=slide("x"), l2=slide("y"))), spectrum(folder_of(r1=slide("z"), r2=slide("w")))
    says(run(H5SPEC, "compare", a, b, status=1).err, "nothing was compared", "--pairs")
    path = os.path.join(tmp(), "pairs.csv")
    for text, message in (("a,b\nl1,r2\nl2,r1\n", None), ("a,c\n", "has no column b"), ("a,b\nl1,no\n", "line 2: no slide no in B")):
        put_file(path, text)
        p = run(H5SPEC, "compare", "--json", "--pairs", path, a, b, status=1 if message else 0)
        if message:
            says(p.err, message)
        else:
            expect({(s["slide"], s["slide_b"]) for s in json_lines(p.out)[0]["slides"]} == {("l1", "r2"), ("l2", "r1")}, "%s", p.out)


def test_identical_is_said_of_all_that_a_report_reads():
    """Tissue, quantiles and spectra differed, and compare said "identical", because counts and four maps were the same."""
    whole, names = made("--size", "900x700", "--seed", "3", name="slide"), {}
    for name, options in (("same", ()), ("codec", ("--codec", "none")), ("tissue", ("--tissue-thresholds", "0.9,0.9")), ("mpp", ("--mpp-override", "0.3"))):
        path = os.path.join(tmp("store"), "slide.h5")
        run(WSI2H5, "-q", "-o", path, *options, whole)
        names[name] = spectrum(path)
    for name, identical, words in (("same", True, ()), ("codec", True, ()), ("tissue", False, ("tissue, tissue_fraction", "window_tissue, window_row_step, window_column_step, spectra, quantiles")),
                                   ("mpp", False, ("mpp_x, mpp_y",))):
        for a, b in ((names["same"], names[name]), (names[name], names["same"])):
            (s,) = compare(a, b)["slides"]
            expect(s["identical"] == identical and s["same_counts"] and s["w1_db"] == 0 and all(w in s["different"] for w in words), "%s: %s", name, s)
            p = run(H5SPEC, "compare", a, b)
            says(p.out, "identical" if identical else "same counts; different: ", *words)
            says(p.err, "1 identical" if identical else "0 identical")
    (s,) = compare(names["same"], spectrum(store(made("--size", "900x700", "--seed", "4", name="slide"))))["slides"]
    expect(not s["identical"] and not s["same_counts"], "%s", s)


main(globals())
