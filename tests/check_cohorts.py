"""tests/bench_cohorts.py finds what it plants: small cohorts of made pictures."""
import contextlib

import h5py
import numpy as np

from lib import *

if "report" not in run(H5SPEC, "--help").out:
    print("skip cohorts: h5spec is built without libpng")
    sys.exit(0)


def bench():
    """The tool, with slides of 640 px and 14 good ones."""
    try:
        import bench_cohorts
        from PIL import Image
    except ImportError as e:
        raise Skip("%s is not installed" % e.name)
    bench_cohorts.SIZE, bench_cohorts.GOOD = 640, 14
    if not hasattr(bench, "path"):
        rng = np.random.default_rng(1)
        rgb = np.array([200.0, 120, 170]) + bench_cohorts.gaussian_filter(rng.normal(size=(700, 700)), 1.2)[..., None] * np.array([90.0, 130, 80])
        bench.path = os.path.join(tmp("cohorts"), "made.png")
        Image.fromarray(np.clip(rgb, 0, 255).astype(np.uint8)).save(bench.path)
    return bench_cohorts


def begun(**more):
    """The tool, and its work on the made picture."""
    cohorts = bench()
    o = type("Options", (), {"keep": tmp("kept"), "build": BUILD, "seed": 1, "tissue": [bench.path], **more})
    return cohorts, cohorts.Work(o, [cohorts.load(bench.path)], [])


def judged(defects):
    """What judge() returns and prints of 14 good slides and these."""
    cohorts, work = begun()
    good = [work.make(0, "good", k) for k in range(cohorts.GOOD)]
    bad = [work.make(0, d, 50 + k) for k, d in enumerate(defects)]
    work.compute(good + bad)
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        found = cohorts.judge(work, "title", good, bad)
    return found, text.getvalue()


def test_planted_defects_are_counted():
    (found, false, kinds), text = judged(["blur 3", "mostly glass", "good", "saved at 30"])
    rows = [[c.strip() for c in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    names = {r[0].split(": ")[1].rsplit("-", 2)[0]: r[1] for r in rows if r[1] != "FALSE"}
    expect(names == {"blur_3": "found", "mostly_glass": "found", "good": "MISSED", "saved_at_30": names["saved_at_30"]}, "%s", text)
    expect(found == sum(r[1] == "found" for r in rows) and false == sum(r[1] == "FALSE" for r in rows) <= 1 and not kinds, "%d, %d: %s", found, false, text)
    says(text, "## title: %d of 4 found, %d false of 14" % (found, false))
    says([r for r in rows if r[1] == "found" and "blur" in r[0]][0][2], "tissue")
    says([r for r in rows if r[1] == "MISSED"][0][2], " z ", "blurred ")


def test_kinds_are_found_in_right_words():
    cohorts, work = begun(judge=[])
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        (said,), _ = cohorts.print_kinds(work, {k: cohorts.KINDS[k] for k in ("glass only", "swapped", "rows 12, 2", "dust")})
    expect(all(said[kind].startswith("right: ") for kind in ("glass only", "swapped", "rows 12, 2")), "%s", said)
    says(text.getvalue(), "| glass only | right |", "of 4 |", "of 14 |")


def test_real_pictures_are_a_group():
    """Each slide is another picture; defects are in pictures that are not among the good ones."""
    cohorts = bench()
    import real_cohorts
    folder, rng = tmp("real"), np.random.default_rng(2)
    for k in range(18):
        rgb = np.array([200.0, 120, 170]) + cohorts.gaussian_filter(rng.normal(size=(400, 420)), 1.2)[..., None] * np.array([90.0, 130, 80])
        cohorts.Image.fromarray(np.clip(rgb, 0, 255).astype(np.uint8)).save(os.path.join(folder, "%02d.png" % k))
    o = type("Options", (), {"real": folder, "glass": False, "keep": tmp("kept"), "build": BUILD, "seed": 1, "draws": 1, "groups": 1, "kinds": "^(blur 3|gray slide|black pen)$", "tissue": []})
    text = io.StringIO()
    size = cohorts.SIZE
    with contextlib.redirect_stdout(text):
        real_cohorts.run(o)
    cohorts.SIZE = size
    says(text.getvalue(), "12 good slides, 6 kept for defects; 0 of 12 good slides not passed", "| blur 3 | 0 | right: tissue", "| gray slide | 0 | right: tissue without colour", "found ", "groups of 12: ")


def test_the_glass_of_jpeg_tiles_shows_what_is_planted():
    """Its numbers come from the coefficients: of luma, or of red, green and blue (tests/check_tissue.py has pixels)."""
    cohorts = bench()
    rng, glass = np.random.default_rng(1), np.full((640, 640, 3), 240.0)
    glass[:300, :300] = (190, 120, 170)
    for name, kind in (("glass_rows", "rows 8, 5"), ("glass_columns", "columns 5, 2"), ("glass_grain", "noise 6")):
        path = os.path.join(tmp(), "glass.svs")
        cohorts.write_svs(path, np.clip(cohorts.plant(kind, glass, None, rng, []), 0, 255).astype(np.uint8))
        with h5py.File(store(path), "r") as f:
            got = {k: f.attrs[k] for k in ("glass_rows", "glass_columns", "glass_grain")}
            expect(f.attrs["glass_std"] > 0.5 and all((v > 0.9) == (k == name) for k, v in got.items()), "%s: %s", kind, got)


main(globals(), "ci")
