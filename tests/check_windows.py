"""Which windows count: every option that selects or changes windows, on the CPU and on both ways of the CUDA backend.

The CUDA backend runs over the stub, whose transform is another, so levels differ; the windows that count, their flags and all
counts of them may not.
"""
import itertools

import h5py
import numpy as np

from check_cuda import STUB, need_stub
from lib import *

BOX = {"type": "Feature", "properties": {"classification": {"name": "Tumor"}},
       "geometry": {"type": "Polygon", "coordinates": [[[60, 60], [700, 60], [700, 560], [60, 560], [60, 60]]]}}
# what selects windows and what changes them; every pair is run. The device chooses the kernel of a pair
BAD = ("--tissue-fraction", "0.6", "--size", "1000x800", "--tile", "160", "--garbage", "3,2", "--garbage", "0,4", "--missing", "5,0")
SELECTED = ((), ("--roi",), ("--roi", "--roi-class", "--min-roi"), ("--roi", "--no-bounds"), ("--tissue-only",), ("--tissue-only", "--min-tissue"),
            ("--skip-damaged",), ("--groups",), ("--roi", "--tissue-only", "--skip-damaged", "--groups"))
CHANGED = ((), ("--window", "--stride"), ("--stride",), ("--sigma",), ("--taper",), ("--range",), ("--bins",))
VALUES = {"--min-roi": ("0.9",), "--roi-class": ("Tumor",), "--no-bounds": (), "--tissue-only": (), "--min-tissue": ("0.9",), "--skip-damaged": (),
          "--groups": ("2-3",), "--window": ("128",), "--stride": ("100",), "--sigma": ("0",), "--taper": ("hann",),
          "--range": ("20:100",), "--bins": ("400",)}
# options that change no window
OTHERS = {"--output", "--force", "--live", "--list", "--task", "--by", "--duplicates", "--mix-mpp", "--on-damage", "--accept-damage",
          "--device", "--threads", "--memory", "--io", "--json", "--progress", "--quiet", "--help", "--version"}
WAYS = {"cpu": ("cpu", None), "fused": ("cuda", ""), "cuFFT": ("cuda", "small")}
COUNTS = ("windows", "windows_missing", "windows_damaged", "windows_left_out", "windows_skipped", "windows_outside", "samples")


def bad_store():
    if "windows" not in globals():
        globals()["windows"] = os.path.join(tmp(), "windows.h5")
        slide = made(*BAD, name="windows")
        run(WSI2H5, "-q", "-o", windows, "--stripe-rows", "160", "--group-bytes", "1", slide, status=4)
    return windows


def counted(way, options):
    device, odd = WAYS[way]
    env = dict(os.environ, **({} if odd is None else {"WSI_STUB_DEVICES": "1", "WSI_STUB_ODD": odd}))
    out = os.path.join(tmp("result"), "result.h5")
    p = run(STUB, "run", "-q", "--accept-damage", "--device", device, "--memory", "12M", "-o", out, *options, bad_store(), status=None, env=env)
    expect(p.returncode == 0, "%s, %s: status %d: %s", way, options, p.returncode, p.err[-300:])
    with h5py.File(out, "r") as f:
        (s,) = f["slides"].values()
        expect(way in ("cpu", s.attrs["kernel"]) or set(sum(CHANGED, ())) & set(options), "%s, %s: kernel %s", way, options, s.attrs["kernel"])
        return {"counts": {k: int(s.attrs[k]) for k in COUNTS if k in s.attrs},
                "values": np.isfinite(s["window_mean_db"][()]), "flags": s["window_flags"][()] if "window_flags" in s else None,
                "tissue": s["window_tissue"][()] if "window_tissue" in s else None,
                "sum": int(s["histogram"][()].sum() + s.attrs["underflow"] + s.attrs["overflow"])}


def test_every_way_counts_the_windows_that_the_options_select():
    need_stub()
    if "Jansson" in run(H5SPEC, "run", "--roi", "x", "-o", "x.h5", "x", status=2).err:
        raise Skip("this build has no Jansson")
    roi = file_of("roi.geojson", json.dumps(BOX))
    whole = counted("cpu", ())["counts"]["windows"]
    for n, (select, change) in enumerate(itertools.product(SELECTED, CHANGED)):
        options = [w for o in select + change for w in (o,) + ((roi,) if o == "--roi" else VALUES[o])]
        cpu = counted("cpu", options)
        expect(cpu["values"].sum() == cpu["counts"]["windows"] > 0, "%s: %s", options, cpu["counts"])
        expect(change or (cpu["counts"]["windows"] < whole) == bool(select), "%s leaves nothing out", options)
        for way in ("fused",) if change else ("fused", "cuFFT"):
            gpu = counted(way, options)
            for key in cpu:
                expect(np.array_equal(cpu[key], gpu[key]), "%s, %s: %s differ from the CPU's", way, options, key)


def test_the_table_has_every_parameter():
    """An option that is new must be crossed with the others, or be named here as one that changes no window."""
    options = set(re.findall(r"^  (?:-\w, |    )(--[a-z-]+)", run(H5SPEC, "run", "--help").out, re.M))
    crossed = {o for row in SELECTED + CHANGED for o in row}
    expect(options - crossed == OTHERS, "%s", options - crossed ^ OTHERS)
    expect(crossed <= options, "%s", crossed - options)


if __name__ == "__main__":
    main(globals())
