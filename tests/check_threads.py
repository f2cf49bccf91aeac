"""Every command that uses threads, for the thread sanitizer (make SAN=thread T=check_threads.py check): also where it fails."""
import h5py

from lib import *

STUB = os.path.join(BUILD, "tests", "h5spec_stub")
MKRESULT = os.path.join(BUILD, "tests", "mkresult")
SLIDES = (("jpeg", ("--size", "900x700")), ("ycbcr", ("--size", "900x700", "--photometric", "ycbcr")), ("deflate", ("--size", "700x900", "--compression", "deflate")),
          ("ome", ("--size", "800x600", "--container", "ome", "--levels", "2")), ("j2k", ("--size", "600x600", "--compression", "33005")))


def slides(names=None):
    return [made(*options, "--seed", str(len(name)), name=name) for name, options in SLIDES if not names or name in names]


@races
def test_wsi2h5():
    broken = file_of("broken.svs", bytes_in(slides()[0])[:5000])
    for options in ((), ("--codec", "deflate"), ("--gray", "--codec", "none"), ("--tissue-only",), ("--anonymous", os.path.join(tmp(), "key.csv"))):
        out = tmp()
        run(WSI2H5, "-q", "-j", 4, *options, "-o", out, *slides(), broken, default_codec=True, status=1)
        expect(len(stores_in(out)) == len(SLIDES), "%s: %s", options, os.listdir(out))
        run(WSI2H5, "-q", "-j", 4, *options, "-o", out, *slides(), default_codec=True)  # up to date
    generic = generic_tiff(slides(["jpeg"])[0])  # OpenSlide reads it, or we
    run(WSI2H5, "-q", "-j", 4, "-o", tmp(), generic)


@races
def test_run_and_verify():
    folder = tmp()
    stores = [store(slide) for slide in slides()]
    damaged = os.path.join(folder, "damaged.h5")
    shutil.copy(flipped_in(stores[0], "groups/00001/pixels", 9), damaged)
    for options in ((), ("--tissue-only", "--stride", "64"), ("--memory", "24M"), ("--sigma", "0", "--taper", "hann")):
        out = tmp()
        run(H5SPEC, "run", "-q", "-j", 4, "--device", "cpu", *options, "-o", out, "--live", tmp(), *stores[1:], damaged, status=1)
        expect(len(stores_in(out)) == len(stores) - 1, "%s: %s", options, os.listdir(out))
        run(H5SPEC, "run", "-q", "-j", 4, "--device", "cpu", *options, "-o", out, *stores)
    run(H5SPEC, "verify", "-q", "-j", 4, *stores, *glob.glob(os.path.join(out, "*.h5")))
    run(H5SPEC, "verify", "-q", "-j", 4, stores[1], damaged, status=1)
    run(H5SPEC, "tune", stores[0])


@races
def test_run_over_the_stub_of_cuda():
    """The host's part of the CUDA backend: one device and two, late work, short memory, calls that fail, reading past the host."""
    if not os.path.exists(STUB):
        raise Skip("this build has no CUDA part: nvcc was not found, or CUDA=0")
    stores = [store(slide) for slide in slides()] + [store(made("--size", "900x600", "--tile", "128", "--photometric", "ycbcr", "--own-tables"))]
    damaged = os.path.join(tmp(), "damaged.h5")
    shutil.copy(flipped_in(stores[0], "groups/00001/pixels", 9), damaged)
    for device, options, env in (
            ("cuda", (), {}), ("cuda:0,1", (), {"WSI_STUB_DEVICES": "2", "WSI_STUB_ORDER": "1"}),
            ("cuda:0,1", ("--tissue-only", "--stride", "64"), {"WSI_STUB_DEVICES": "2", "WSI_STUB_ORDER": "0", "WSI_STUB_REFUSE": "3"}),
            ("cuda", ("--memory", "24M", "--window", "64", "--stride", "64"), {"WSI_STUB_MEMORY": "40000000"}),
            ("cuda", ("--sigma", "0", "--io", "gds"), {"WSI_STUB_GDS": "compat"}),
            ("cuda:0,1", (), {"WSI_STUB_DEVICES": "2", "WSI_STUB_FAIL": "60:700"})):
        env = dict(os.environ, WSI_STUB_QUICK="1", **env)
        p = run(STUB, "run", "-q", "-j", 4, "--device", device, *options, "-o", tmp(), *stores[1:], damaged, status=None, env=env)
        expect(p.returncode in ((1, 5) if "WSI_STUB_FAIL" in env else (1,)) and "ThreadSanitizer" not in p.err, "%d %s", p.returncode, p.err)


@races
def test_report_map_plot_compare_merge():
    needs("report")
    out = tmp()
    folder = os.path.join(out, "results")
    os.mkdir(folder)
    run(MKRESULT, "--each", "--slides", "12", "--windows", "9x7", folder)
    names = sorted(glob.glob(os.path.join(folder, "*.h5")))
    merged, table, wrong = (os.path.join(out, name) for name in ("merged.h5", "table.h5", "wrong.h5"))
    run(H5SPEC, "merge", "-q", "--duplicates", "count", "-o", merged, folder)
    run(TABLES, "merge", "-q", "--duplicates", "count", "-o", table, folder)
    shutil.copy(table, wrong)
    with h5py.File(wrong, "r+", libver=("v110", "v110")) as f:
        del f["table/std_db"]
    for n, results in enumerate((names, [merged], [table], names[:3] + [flipped_in(names[4], "slides/" + slide_in(names[4]) + "/histogram")])):
        status = 1 if n == 3 else 0
        for size in ("1G", "0"):
            run(H5SPEC, "report", "-q", "-j", 4, "--max-size", size, "-o", os.path.join(out, "a.html"), *results, status=status)
        run(H5SPEC, "map", "-q", "--feature", "mean_db", "-o", tmp(), *results, status=status)
    for _ in range(5):
        run(H5SPEC, "report", "-q", "-j", 4, "-o", os.path.join(out, "a.html"), wrong, status=1)
    for a in (merged, table):
        run(H5SPEC, "compare", "--limit", 1, a, merged)
        run(H5SPEC, "plot", "-o", os.path.join(out, "a.svg"), a)


def slide_in(path):
    with h5py.File(path, "r") as f:
        return list(f["slides"])[0]


main(globals())
