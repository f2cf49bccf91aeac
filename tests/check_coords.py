#!/usr/bin/env python3
"""wsi-store coords: HDF5 files of patch coordinates, read as TRIDENT and CLAM read them, and chosen by a report's verdicts."""

import h5py
import numpy as np

from lib import *

sys.path.insert(0, os.path.join(ROOT, "scripts"))
os.environ.setdefault("HDF5_PLUGIN_PATH", BUILD)
import wsi_store

COMMAND = os.path.join(ROOT, "scripts", "wsi-store")
SLIDE = ("--size", "2000x1600", "--tissue", "rect:300,200,1100,900", "--levels", "2")


def slide():
    return made(*SLIDE, name="coords")


def attributes(path):
    with h5py.File(path, "r") as f:
        expect(list(f) == ["coords"] and f["coords"].dtype == np.int64 and f["coords"].shape[1:] == (2,), "%s", list(f))
        return f["coords"][()], dict(f["coords"].attrs)


def as_trident(path):
    """Size of a patch and its coordinates, both in px of level 0, by TRIDENT's rule: the ratio of the magnifications."""
    at, a = attributes(path)
    return round(a["patch_size"] * (10 / a["target_magnification"]) / (10 / a["level0_magnification"])), at, a


def as_clam(path, downsamples):
    """The same by CLAM's rule: patch_size px of patch_level."""
    at, a = attributes(path)
    return round(a["patch_size"] * downsamples[a["patch_level"]]), at, a


def check_tissue(s, at, side, least):
    """Exactly the patches of the grid with enough cells of tissue."""
    tissue, cell = s.tissue, 32
    want = [(x, y) for y in range(0, s.height - side + 1, side) for x in range(0, s.width - side + 1, side)
            if tissue[y // cell:-(-(y + side) // cell), x // cell:-(-(x + side) // cell)].mean() >= least]
    expect(0 < len(want) and [tuple(p) for p in at.tolist()] == want, "%d, not %d patches", len(at), len(want))


def test_level_0():
    out = tmp("coords")
    p = run(sys.executable, COMMAND, "coords", "-o", out, "--size", "200", store(slide()))
    path = os.path.join(out, "coords_patches.h5")
    with wsi_store.open_store(store(slide())) as s:
        side, at, a = as_trident(path)
        expect(side == 200 == a["patch_size_level0"] and a["overlap"] == 0 and a["name"] == "coords", "%s", a)
        expect((a["level0_magnification"], a["target_magnification"]) == (20, 20), "%s", a)
        expect((a["level0_width"], a["level0_height"]) == (2000, 1600) and a["savetodir"] == out, "%s", a)
        check_tissue(s, at, 200, 0.5)
        says(p.err, path, "%d patches" % len(at))
        side, clam, a = as_clam(path, [1, 4])
        expect(side == 200 and (clam == at).all() and tuple(a["level_dim"]) == (2000, 1600), "%s", a)
        expect((wsi_store.coords(s, size=200) == at).all(), "in Python")
        expect(len(wsi_store.coords(s, size=200, min_tissue=0)) == 80, "the whole grid")
        expect(len(wsi_store.coords(s, size=200, step=100, min_tissue=0)) == 19 * 15, "a step")
    run(sys.executable, COMMAND, "coords", "-o", out, "--names", "clam", "--step", "150", "--size", "200", store(slide()))
    expect(attributes(os.path.join(out, "coords.h5"))[1]["overlap"] == 50, "the name and the overlap")


def test_a_coarser_level():
    """Coordinates are of level 0 whatever level the store has."""
    path = store(slide(), "--level", "1")
    out = os.path.join(tmp(), "level.h5")
    with wsi_store.open_store(path) as s:
        got = wsi_store.coords(s, out, size=64)
        check_tissue(s, got // 4, 64, 0.5)
        side, at, a = as_trident(out)
        expect(side == 256 == a["patch_size_level0"] and (at == got).all() and a["target_magnification"] == 5, "%s", a)
        side, at, a = as_clam(out, [1, 4])
        expect(side == 256 and a["patch_level"] == 1 and tuple(a["downsample"]) == (4, 4) and tuple(a["level_dim"]) == (500, 400), "%s", a)
        expect((at % 256 == 0).all() and (at + 256 <= (2000, 1600)).all(), "%s", at.max(0))


def test_other_resolutions():
    out = os.path.join(tmp(), "c.h5")
    with wsi_store.open_store(store(slide())) as s:
        for options in (dict(mpp=0.998), dict(magnification=10)):
            got = wsi_store.coords(s, out, size=100, **options)
            side, at, a = as_trident(out)
            expect(side == 200 and a["patch_size"] == 100 and a["target_magnification"] == 10, "%s", a)
            check_tissue(s, got, 200, 0.5)
            expect("patch_level" not in a, "CLAM would read patches of another size")
        wsi_store.coords(s, out, size=224, mpp=1.0)
        expect(as_trident(out)[0] == round(224 / 0.499), "%s", as_trident(out)[0])
        for wrong in (dict(mpp=1, magnification=10), dict(mpp=-1), dict(size=0), dict(magnification=1e9), dict(mpp=1e9)):
            try:
                wsi_store.coords(s, out, **wrong)
                expect(False, "%s", wrong)
            except ValueError:
                pass
    bare = made("--size", "600x600", "--mpp", "none", "--appmag", "none", name="bare")
    for options, words in ((["--mpp", "0.5"], "has no um per px"), (["--magnification", "10"], "neither an objective power")):
        says(run(sys.executable, COMMAND, "coords", "-o", tmp(), *options, "--min-tissue", "0", store(bare), status=1).err, words)
    expect(len(wsi_store.coords(store(bare), out, 256, min_tissue=0)) == 4 and "level0_magnification" not in attributes(out)[1], "CLAM's alone")


def test_no_patches_at_all():
    out = os.path.join(tmp(), "c.h5")
    expect(wsi_store.coords(store(slide()), out, 5000).shape == (0, 2) and attributes(out)[0].shape == (0, 2), "none")
    no_map = store(made("--size", "600x600", "--stain", "fluorescence", name="dark"))
    says(run(sys.executable, COMMAND, "coords", "-o", tmp(), no_map, status=1).err, "no map of tissue")


def test_slides_that_pass_the_report():
    folder, out = tmp("stores"), tmp("coords")
    for name in ("good", "soft", "bad", "alone"):
        shutil.copy(store(slide()), os.path.join(folder, name + ".h5"))
        with h5py.File(os.path.join(folder, name + ".h5"), "r+", libver=("v110", "v110")) as f:
            f.attrs["source_name"] = name + ".svs"
    stores = [os.path.join(folder, n + ".h5") for n in ("good", "soft", "bad", "alone")]
    report = os.path.join(folder, "report.csv")
    with open(report, "w") as f:
        f.write('slide,windows,verdict,reasons\n"good",1,pass,""\n"soft",1,review,"a, b"\n"bad",1,fail,""\n"alone",1,not judged,""\n')

    def names(*options):
        shutil.rmtree(out, ignore_errors=True)
        p = run(sys.executable, COMMAND, "coords", "-o", out, "--report", report, *options, *stores)
        return sorted(os.listdir(out)), p.err
    got, err = names()
    expect(got == ["good_patches.h5"], "%s", got)
    says(err, "3 of 4 slides left out by " + report)
    expect(names("--keep", "pass,review")[0] == ["good_patches.h5", "soft_patches.h5"], "two verdicts")
    expect(wsi_store.kept(stores, report, ("fail",)) == stores[2:3], "in Python")

    def fails(*words, options=("--report", report)):
        says(run(sys.executable, COMMAND, "coords", "-o", out, *options, *stores, status=1).err, *words)
    fails("--report", options=("--keep", "pass"))
    fails("good", "verdicts are pass, not judged, review, fail", options=("--report", report, "--keep", "good"))
    put_file(report, "slide,verdict\n'-a,pass\n'b,fail\n")
    expect(wsi_store.export.verdicts_of(report) == {"-a": "pass", "'b": "fail"}, "%s", wsi_store.export.verdicts_of(report))
    put_file(report, "slide,windows\ngood,1\n")
    fails(report, "no columns slide and verdict", "h5spec report --csv")
    put_file(report, "slide,verdict\ngood,pass\n")
    fails("soft.h5", "has no slide soft")
    fails("cannot be read", options=("--report", report + "x"))


def test_a_real_report_is_read():
    path, report = store(slide()), os.path.join(tmp(), "report.csv")
    run(H5SPEC, "report", "-q", "--csv", report, "-o", os.path.join(tmp(), "r.html"), spectrum(path))
    expect(list(wsi_store.export.verdicts_of(report)) == ["coords"], "%s", wsi_store.export.verdicts_of(report))
    (verdict,) = wsi_store.export.verdicts_of(report).values()
    expect(verdict != "pass" and wsi_store.kept([path], report) == [], "a slide alone passes")
    expect(wsi_store.kept([path], report, (verdict,)) == [path], "%s", verdict)


def test_nothing_is_overwritten_by_mistake():
    folder = tmp()
    for d in ("a", "b"):
        os.mkdir(os.path.join(folder, d))
        shutil.copy(store(slide()), os.path.join(folder, d, "coords.h5"))
    two = [os.path.join(folder, d, "coords.h5") for d in ("a", "b")]
    says(run(sys.executable, COMMAND, "coords", "-o", tmp(), *two, status=1).err, "another output of this run has this name", "1 of 2 stores failed")
    says(run(sys.executable, COMMAND, "coords", "--names", "clam", "-o", os.path.join(folder, "a"), two[0], status=1).err, two[0], "is an input")
    expect(wsi_store.open_store(two[0]).width == 2000, "the store is whole")


main(globals())
