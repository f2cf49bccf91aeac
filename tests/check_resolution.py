#!/usr/bin/env python3
"""wsi2h5 --mpp: the level that has a resolution; --mpp-override. h5spec: slides of different resolution."""

import h5py

from lib import *


def slide(mpp="0.2500"):
    return made("--size", "1200x800", "--levels", "3", "--mpp", mpp, name="pyramid")


def converted(*options, path=None, status=0):
    out = os.path.join(tmp(), "s.h5")
    p = run(WSI2H5, "-o", out, *options, path or slide(), status=status)
    if status:
        expect(not os.path.exists(out), "there is a store")
        return p.err
    return attributes_of(out)


def test_the_level_with_the_resolution():
    for mpp, level in (("0.25", 0), ("0.26", 0), ("1", 1), ("0.93", 1), ("4.2", 2)):
        a = converted("--mpp", mpp)
        expect(a["level"] == level and a["mpp_x"] == 0.25, "--mpp %s: %s", mpp, a["level"])
        expect(abs(a["mpp_x"] * a["downsample"] / float(mpp) - 1) <= 0.1, "%s", a)


def test_the_pixels_are_those_of_the_level():
    a, b = store(slide(), "--mpp", "1"), store(slide(), "--level", "1")
    with h5py.File(a, "r") as f, h5py.File(b, "r") as g:
        expect((f["pixels"][()] == g["pixels"][()]).all(), "pixels differ")


def test_no_level_is_near_enough():
    err = converted("--mpp", "0.5", status=1)
    says(err, "pyramid.svs: no level has 0.5 um/px within 10 %: level 0 has 0.25, level 1 has 1, level 2 has 4; choose another --mpp or a --level")
    says(converted("--mpp", "1.2", status=1), "within 10 %")


def test_a_slide_without_resolution():
    for mpp in ("none", "0"):
        says(converted("--mpp", "0.5", path=slide(mpp), status=1), "does not state its resolution", "--mpp-override")
    a = converted("--mpp", "2", "--mpp-override", "0.5", path=slide("none"))
    expect((a["level"], a["mpp_x"], a["mpp_y"]) == (1, 0.5, 0.5), "%s", a)


def test_an_override_replaces_what_the_slide_states():
    out = os.path.join(tmp(), "s.h5")
    run(WSI2H5, "-o", out, "--mpp-override", "0.5", slide())
    with h5py.File(out, "r") as f:
        expect((f.attrs["mpp_x"], f.attrs["level"]) == (0.5, 0), "%s", dict(f.attrs))
        expect(f["properties"].attrs["openslide.mpp-x"] == "0.25", "%s", dict(f["properties"].attrs))
    says(run(WSI2H5, "-o", out, "--mpp-override", "0.5", slide()).err, "skipped")
    says(run(WSI2H5, "-o", out, slide(), status=1).err, "was made for 0.5 um/px")


def test_resolutions_that_no_scanner_has():
    """One rule for every reader: 0.02 to 50. Doubtful ones, and those that are not believed, are printed once."""
    for stated, mpp, words in (("1e9", None, "it states 1e+09 um per px, which no scanner has"), ("50.1", None, "50.1 um"), ("0.0199", None, "0.0199 um"),
                               ("50", 50, None), ("0.05", 0.05, None), ("0.0274", 0.0274, "which no light microscope resolves"),
                               ("0.02", 0.02, "which no light microscope resolves")):
        for more, got in (((), mpp), (("--mpp-override", "0.5"), 0.5)):
            _, p, j = convert(made("--size", "300x200", "--mpp", stated), *more)
            expect(j["mpp_x"] == j["mpp_y"] == got, "%s: %s", stated, j)
            lines = [line for line in p.err.splitlines() if " um per px" in line]
            expect(len(lines) == (words is not None and not more), "%s: %s", stated, lines)
            says("".join(lines) + j.get("note", ""), *([words, "--mpp-override"] if lines else []))
    says(converted("--mpp", "0.5", path=slide("1e9"), status=1), "does not state its resolution")


def test_options_that_make_no_sense():
    for options, words in ((["--mpp", "0"], "--mpp"), (["--mpp", "x"], "--mpp"), (["--mpp-override", "0"], "--mpp-override"),
                           *((["--mpp-override", x], "--mpp-override") for x in ("100", "50.01", "0.0199")),
                           (["--mpp", "1", "--level", "0"], "contradict"), (["--mpp", "-1"], "--mpp"), (["--mpp", "nan"], "--mpp")):
        says(converted(*options, status=2), words)


def sharp(mpp, seed):
    return store(made("--size", "600x600", "--mpp", mpp, "--seed", seed, name="m" + seed))


def test_slides_of_different_resolution_in_one_result():
    a, near, other, unknown = sharp("0.50", "1"), sharp("0.52", "2"), sharp("0.25", "3"), sharp("none", "4")
    folder = tmp()
    out = os.path.join(folder, "r.h5")
    p = run(H5SPEC, "run", "--device", "cpu", "-o", out, a, near, other, unknown, status=1)
    says(p.err, "m3.h5: rejected: it has 0.25 um/px, but", "m1.h5 has 0.5", "--mix-mpp", "3 done, 1 failed")
    expect(slide_names(out) == ["m1", "m2", "m4"], "%s", slide_names(out))
    run(H5SPEC, "run", "--device", "cpu", "--mix-mpp", "-o", out, a, near, other, unknown)
    with h5py.File(out, "r") as f:
        expect(len(f["slides"]) == 4, "%s", list(f["slides"]))


def each(stores, *options):
    """A folder with one result per store."""
    folder = os.path.join(tmp(), "each") + "/"
    return folder, run(H5SPEC, "run", "--device", "cpu", "-o", folder, *options, *stores)


def test_run_and_merge_have_one_rule():
    """The first slide by name decides, in whatever order the inputs are given."""
    a, near, other, unknown = sharp("0.50", "1"), sharp("0.52", "2"), sharp("0.25", "3"), sharp("none", "4")
    folder, _ = each([a, near, other, unknown])
    results, out = glob.glob(folder + "*.h5"), os.path.join(tmp(), "r.h5")
    for order in (sorted(results), sorted(results, reverse=True)):
        p = run(H5SPEC, "merge", "--json", "-o", out, *order, status=1)
        says(p.err, "m3.h5: slide m3: rejected: it has 0.25 um/px, but m1 has 0.5;", "--mix-mpp", "3 slides, 1 left out (another")
        expect(json_lines(p.out)[0]["left_out"] == 1 and slide_names(out) == ["m1", "m2", "m4"], "%s", p.out)
    whole = os.path.join(tmp(), "w.h5")
    p = run(H5SPEC, "run", "--device", "cpu", "-o", whole, unknown, other, near, a, status=1)
    says(p.err, "m3.h5: rejected: it has 0.25", "3 done, 1 failed (1 left out: another resolution)")
    equal(content(whole), content(out), "run and merge differ")
    run(H5SPEC, "merge", "--mix-mpp", "-o", out, *results)
    p = run(H5SPEC, "run", "--device", "cpu", "--mix-mpp", "-o", whole, unknown, other, near, a)
    says(p.err, "dB over several resolutions")
    equal(content(whole), content(out), "run and merge with --mix-mpp differ")
    says(run(H5SPEC, "merge", "-q", "-o", out, whole, status=1).err, "slide m3: rejected")  # a pooled result, too


def test_a_slide_without_resolution_does_not_join_two_others():
    stores = [sharp(mpp, seed) for mpp, seed in (("none", "0"), ("0.50", "1"), ("0.25", "3"))]
    out = os.path.join(tmp(), "r.h5")
    says(run(H5SPEC, "run", "--device", "cpu", "-o", out, *stores, status=1).err, "m3.h5: rejected")
    expect(slide_names(out) == ["m0", "m1"], "%s", slide_names(out))


def test_merge_leaves_out_a_slide_before_it_judges_it():
    """What another resolution brings along does not stop the merge: missing groups, the same slide at another level."""
    s = made("--size", "1200x1200", "--levels", "3", "--mpp", "0.25", name="a-pyramid")
    coarse = os.path.join(tmp(), "b-coarse.h5")
    run(WSI2H5, "-q", "--level", "1", "-o", coarse, s)
    folder, _ = each([store(s), coarse], "--duplicates", "count")
    out = os.path.join(tmp(), "r.h5")
    says(run(H5SPEC, "merge", "-o", out, folder, status=1).err, "slide b-coarse: rejected: it has 1 um/px, but a-pyramid has 0.25")
    expect(slide_names(out) == ["a-pyramid"], "%s", slide_names(out))
    groups = store(made("--size", "600x600", "--mpp", "0.5", "--seed", "9", name="c-groups"), "--stripe-rows", "240", "--group-bytes", "1")
    some = os.path.join(tmp(), "some.h5")
    run(H5SPEC, "run", "-q", "--device", "cpu", "--groups", "1", "-o", some, groups)
    says(run(H5SPEC, "merge", "-o", out, folder + "a-pyramid.h5", some, status=1).err, "slide c-groups: rejected")


def test_merge_into_a_folder_gives_a_file_per_resolution():
    stores = [sharp(mpp, seed) for mpp, seed in (("0.50", "1"), ("0.52", "2"), ("0.25", "3"), ("none", "4"))]
    folder, _ = each(stores)
    out = os.path.join(tmp(), "new", "merged") + "/"
    p = run(H5SPEC, "merge", "--json", "-o", out, folder)
    want = {"corpus-0.5um.h5": ["m1", "m2"], "corpus-0.25um.h5": ["m3"], "corpus-unknown-um.h5": ["m4"]}
    rows = json_lines(p.out)
    expect({os.path.basename(j["output"]): [x["slide"] for x in j["inputs"]] for j in rows} == want, "%s", p.out)
    expect(all(x["status"] == "merged" and x["input"] == folder + x["slide"] + ".h5" for j in rows for x in j["inputs"]), "%s", p.out)
    expect({f: slide_names(out + f) for f in os.listdir(out)} == want, "%s", os.listdir(out))
    expect([j["um_per_px"] for j in rows] == [0.5, 0.25, None] and all(j["status"] == "done" and j["left_out"] == 0 for j in rows), "%s", p.out)
    before = {f: content(out + f) for f in want}
    p = run(H5SPEC, "merge", "-o", out, *reversed(sorted(glob.glob(folder + "*"))), *glob.glob(out + "*"))  # in any order, and with what was made
    says(p.err, out + "corpus-0.5um.h5: left out of the inputs")
    expect({f: content(out + f) for f in want} == before, "another order")
    p = run(H5SPEC, "merge", "-o", out, folder + "m1.h5", folder + "m2.h5")
    says(p.err, "into %scorpus.h5: 2 slides" % out, out + "corpus-0.25um.h5: written by an earlier merge, not by this one; delete it")
    equal(content(out + "corpus.h5"), before["corpus-0.5um.h5"], "one resolution")
    says(run(H5SPEC, "merge", "-o", out, folder + "m1.h5", status=2).err, "m2", "--force")
    table = os.path.join(folder, "tables") + "/"
    for _ in range(2):
        run(TABLES, "merge", "-o", table, folder)
    expect(sorted(os.listdir(table)) == sorted(want), "%s", os.listdir(table))
    mixed = os.path.join(tmp(), "mixed.h5")
    run(H5SPEC, "merge", "--mix-mpp", "-o", mixed, *glob.glob(folder + "*.h5"))
    again = os.path.join(tmp(), "again") + "/"
    run(H5SPEC, "merge", "-o", again, mixed)  # a merged file is taken apart
    expect({f: slide_names(again + f) for f in os.listdir(again)} == want, "%s", os.listdir(again))


def test_merge_tells_its_outputs_from_slides_by_what_is_in_them():
    """Slides can have the names of outputs; an output of an earlier merge has no slide of its own."""
    names = ("a", "b", "corpus-callosum", "corpus-0.5um", "corpus-luteum", "corpus-unknown-um-x2")
    out = tmp() + "/"
    for k, name in enumerate(names):
        run(H5SPEC, "run", "-q", "--device", "cpu", "-o", out, store(made("--size", "600x600", "--mpp", "0.5", "--seed", str(k), name=name)))
    for again in range(2):
        p = run(H5SPEC, "merge", "--json", "-o", out, out)
        expect("delete" not in p.err and ("left out" in p.err) == bool(again), "%s", p.err)
        says(p.err, "merged 6 results into %scorpus.h5: 6 slides" % out)
        expect(slide_names(out + "corpus.h5") == sorted(names), "%s", slide_names(out + "corpus.h5"))
    other = store(made("--size", "600x600", "--mpp", "0.25", "--seed", "9", name="c"))
    run(H5SPEC, "run", "-q", "--device", "cpu", "-o", out, other)  # two sets now: one has the name of a slide's result
    before = content(out + "corpus-0.5um.h5")
    says(run(H5SPEC, "merge", "-o", out, out, status=2).err, out + "corpus-0.5um.h5: is one of the inputs; name another folder")
    equal(content(out + "corpus-0.5um.h5"), before, "a slide's result is overwritten")
    os.unlink(out + "corpus-0.5um.h5")  # corpus.h5 alone has the slide
    says(run(H5SPEC, "merge", "-o", out, out, status=1).err, out + "corpus.h5: slide a: both hold the same part")


def test_merge_into_a_file_says_first_what_it_takes_and_the_command_for_the_rest():
    stores = [sharp(mpp, seed) for mpp, seed in (("0.25", "3"), ("0.50", "1"), ("1", "5"))]
    folder, _ = each(stores)
    odd = os.path.join(tmp(), "it's (odd) $x\u202e", "-results")
    shutil.copytree(folder, odd)
    out = os.path.join(os.path.dirname(odd), "c.h5")
    p = run(H5SPEC, "merge", "--json", "-o", out, odd, status=1)
    first = p.err.splitlines()[0]
    says(first, "has 1 of 3 slides: those with 0.5 um/px, the resolution of m1, which is the first by name;", "h5spec merge -o ")
    run("bash", "-c", "h5spec() { %s \"$@\"; }; %s" % (H5SPEC, first.split("resolution, run ")[1]))
    expect(sorted(os.listdir(out[:-3])) == ["corpus-0.25um.h5", "corpus-0.5um.h5", "corpus-1um.h5"], "%s", first)
    (j,) = json_lines(p.out)
    expect([(x["slide"], x["status"], x.get("reason")) for x in j["inputs"]] ==
           [("m1", "merged", None), ("m3", "left_out", "resolution"), ("m5", "left_out", "resolution")], "%s", j)


def test_json_of_merge_names_copies_and_bad_inputs_by_path():
    folder, out = tmp(), os.path.join(tmp(), "m.h5")
    result, _ = each([sharp("0.50", "1")])
    names = [os.path.join(folder, n + ".h5") for n in ("a", "b\x1b\u202e: x", os.fsdecode(b"c\xff"), "d" * 200)]
    for name in names:
        run(H5SPEC, "run", "-q", "--device", "cpu", "-o", name, shutil.copy(sharp("0.50", "1"), os.path.join(tmp(), os.path.basename(name))))
    (j,) = json_lines(run(H5SPEC, "merge", "--json", "-q", "--duplicates", "skip", "-o", out, *names).out)
    expect([x["input"] for x in j["inputs"]] == names and j["slides"] == 1 and j["duplicates"] == 3, "%s", j)
    expect([(x["status"], x.get("reason"), x.get("same_as"), x.get("same_slide")) for x in j["inputs"]] ==
           [("merged", None, None, None)] + [("copy", None, names[0], "a")] * 3, "%s", j)
    put_file(names[2], b"")
    (j,) = json_lines(run(H5SPEC, "merge", "--json", "-q", "--duplicates", "skip", "--force", "-o", out, *names, status=1).out)
    expect((j["status"], j["cause"], [(x["input"], x["status"]) for x in j["inputs"]]) == ("failed", "input", [(names[2], "failed")]), "%s", j)


def test_results_in_a_folder_have_no_common_mean():
    _, p = each([sharp("0.50", "1"), sharp("0.25", "3")])
    says(p.err, "windows of several resolutions, not pooled;")
    expect("mean" not in p.err, "%s", p.err)
    says(each([sharp("0.50", "1"), sharp("0.52", "2")])[1].err, "windows, mean ")


def test_results_keep_the_resolution():
    a, other = sharp("0.50", "1"), sharp("0.25", "3")
    folder, _ = each([a, other])
    slides = [s for p in sorted(glob.glob(folder + "*.h5")) for s in json_lines(run(H5SPEC, "info", "--json", p).out)[0]["slides"]]
    expect([(s["mpp_x"], s["mpp_y"], s["downsample"]) for s in slides] == [(0.5, 0.5, 1), (0.25, 0.25, 1)], "%s", slides)
    expect(all(s["tiles"] > 0 and s["tiles_damaged"] == 0 and s["vendor"] == "aperio" for s in slides), "%s", slides)
    page = os.path.join(tmp(), "r.html")
    run(H5SPEC, "report", "-o", page, folder)
    says(text_in(page), "0.25 um/px", "0.5 um/px")
    for p in glob.glob(folder + "*.h5"):
        run(H5SPEC, "verify", p)


def test_levels_of_different_downsample_in_one_result():
    pyramid = made("--size", "1200x1200", "--levels", "2", "--mpp", "none", name="levels")
    other = made("--size", "700x700", "--mpp", "none", name="other")
    out = os.path.join(tmp(), "r.h5")
    p = run(H5SPEC, "run", "--device", "cpu", "-o", out, store(pyramid, "--level", "1"), store(other), status=1)
    says(p.err, "other.h5: rejected: its level is downsampled by 1, that of", "by 4;")


if __name__ == "__main__":
    main(globals())
