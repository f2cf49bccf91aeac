#!/usr/bin/env python3
"""wsi2h5 --mpp: the level that has a resolution; --mpp-override. h5spec: slides of different resolution."""
import glob

import h5py

from lib import *


def slide(mpp="0.2500"):
    return made("--size", "2400x1600", "--levels", "3", "--mpp", mpp, name="pyramid")


def converted(*options, path=None, status=0):
    out = os.path.join(tmp(), "s.h5")
    p = run(WSI2H5, "-o", out, *options, path or slide(), status=status)
    if status:
        expect(not os.path.exists(out), "there is a store")
        return p.err
    with h5py.File(out, "r") as f:
        return dict(f.attrs)


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
    says(err, "pyramid.svs: no level has 0.5 um/px within 10 %: level 0 has 0.25, level 1 has 1, level 2 has 4;",
         "--mpp-tolerance")
    says(converted("--mpp", "1.2", status=1), "within 10 %")
    expect(converted("--mpp", "1.2", "--mpp-tolerance", "0.2")["level"] == 1, "--mpp-tolerance 0.2")
    says(converted("--mpp", "1.01", "--mpp-tolerance", "0", status=1), "within 0 %")


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


def test_options_that_make_no_sense():
    for options, words in ((["--mpp", "0"], "--mpp"), (["--mpp", "x"], "--mpp"), (["--mpp-override", "0"], "--mpp-override"),
                           (["--mpp", "1", "--level", "0"], "contradict"), (["--mpp-tolerance", "0.2"], "--mpp only"),
                           (["--mpp", "-1"], "--mpp"), (["--mpp", "nan"], "--mpp")):
        says(converted(*options, status=2), words)


def sharp(mpp, seed):
    return store(made("--size", "600x600", "--mpp", mpp, "--seed", seed, name="m" + seed))


def test_slides_of_different_resolution_in_one_result():
    a, near, other, unknown = sharp("0.50", "1"), sharp("0.52", "2"), sharp("0.25", "3"), sharp("none", "4")
    folder = tmp()
    out = os.path.join(folder, "r.h5")
    p = run(H5SPEC, "run", "--device", "cpu", "-o", out, a, near, other, unknown, status=1)
    says(p.err, "m3.h5: rejected: it has 0.25 um/px, but", "m1.h5 has 0.5", "--mix-mpp", "3 done, 1 failed")
    with h5py.File(out, "r") as f:
        expect(sorted(f["slides"]) == ["m1", "m2", "m4"], "%s", list(f["slides"]))
    run(H5SPEC, "run", "--device", "cpu", "--mix-mpp", "-o", out, a, near, other, unknown)
    with h5py.File(out, "r") as f:
        expect(len(f["slides"]) == 4, "%s", list(f["slides"]))
    run(H5SPEC, "run", "--device", "cpu", "-o", folder + "/each/", a, other)  # one result per store
    results = sorted(glob.glob(folder + "/each/*.h5"))
    says(run(H5SPEC, "merge", "-o", out, *results).err, "slides of 0.25 to 0.5 um/px share one histogram")
    p = run(H5SPEC, "merge", "-o", out, results[0])
    expect("um/px" not in p.err, "%s", p.err)


def test_levels_of_different_downsample_in_one_result():
    pyramid = made("--size", "4800x3200", "--levels", "2", "--mpp", "none", name="levels")
    other = made("--size", "700x700", "--mpp", "none", name="other")
    out = os.path.join(tmp(), "r.h5")
    p = run(H5SPEC, "run", "--device", "cpu", "-o", out, store(pyramid, "--level", "1"), store(other), status=1)
    says(p.err, "other.h5: rejected: its level is downsampled by 1, that of", "by 4;")


if __name__ == "__main__":
    main(globals())
