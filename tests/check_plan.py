#!/usr/bin/env python3
"""scripts/plan: how long a corpus takes, and on how many nodes."""
import re

from corpora import *


def plan(*argv, status=0):
    return run(sys.executable, os.path.join(ROOT, "scripts", "plan"), *argv, status=status)


def planned(*argv):
    """{phase: (seconds, what bounds it)}"""
    rows = re.findall(r"^(convert|process|all) +(?:\d+ +\d+ +)?([\d.]+) (s|min|h)(.*)$", plan(*argv).out, re.M)
    return {r[0]: (float(r[1]) * {"s": 1, "min": 60, "h": 3600}[r[2]], r[3].split("%")[-1].strip()) for r in rows}


def near(got, want):
    expect(abs(got - want) <= 0.02 * want + 0.06, "%g, not %g", got, want)


def test_plan_by_numbers_computed_by_hand():
    # 100 Mpx per slide; 10 Mpx/s per core; converting reads and writes 2 GB per slide
    rates = ["--size", "10000x10000", "--mp-per-core", "10", "--windows-per-core", "100", "--slide-bytes", "10",
             "--store-bytes", "10", "--start", "0", "--per-slide", "0", "--per-result", "0", "--merge", "0", "--task-cores", "1"]
    n = 77 * 77
    p = planned("--slides", "8", "--cores", "4", "--storage", "1T", *rates)
    near(p["convert"][0], 2 * 10)
    near(p["process"][0], 2 * n / 100)
    expect(p["convert"][1] == p["process"][1] == "cores", "%s", p)
    p = planned("--slides", "8", "--cores", "4", "--storage", "100M", *rates)  # 16 GB, 8 GB at 0.1 GB/s
    near(p["convert"][0], 160)
    expect(p["convert"][1] == "storage", "%s", p)
    p = planned("--slides", "5", "--cores", "4", "--storage", "1T", *rates)  # the fifth is alone
    near(p["convert"][0], 20)
    p = planned("--slides", "4", "--cores", "4", "--storage", "1T", *rates, "--start", "3")
    near(p["convert"][0], 13)
    p = planned("--slides", "10", "--tasks", "2", "--cores", "4", "--storage", "1T", *rates, "--start", "3")
    near(p["convert"][0], 3 + 5 * 10)  # a start per task, and two of four places are idle
    p = planned("--slides", "10", "--tasks", "2", "--cores", "2", "--storage", "1T", *rates, "--merge", "3",
                "--per-slide", "1", "--per-result", "4")
    near(p["all"][0], 5 * 11 + 5 * (4 + n / 100) + 10 * 3)
    p = planned("--slides", "8", "--gpus", "2", "--gpu-nodes", "2", "--windows-per-gpu", "1000", "--storage", "1T", *rates)
    near(p["process"][0], 2 * n / 1000)
    sizes = os.path.join(tmp(), "sizes")
    open(sizes, "w").write("10000x10000\n20000x10000\n")
    p = planned("--sizes", sizes, "--cores", "2", "--storage", "300M", *rates)
    near(p["convert"][0], 20)  # the second slide, or 6 GB at 0.3 GB/s
    says(plan("--slides", "400", "--cores", "1", "--hours", "0.2", "--storage", "1T", *rates).out, "40 nodes")  # ten each
    says(plan("--slides", "400", "--hours", "0.2", "--storage", "100M", *rates, status=1).out, "no number of nodes")
    says(plan("--gpus", "1", status=2).err, "--windows-per-gpu")
    says(plan("--sizes", sizes + "x", status=2).err, sizes)


def test_plan_takes_the_rates_of_a_run():
    """A made run: 0.1 s per slide and 1 Mpx/s, 0.2 s per store and 100 windows/s; and each task spent 3 s more."""
    out = os.path.join(tmp(), "out")
    os.makedirs(out + "/logs")
    sides = (2560, 5120, 7680)
    rows = [((k * 2560) ** 2, (20 * k - 1) ** 2) for k in (1, 2, 3)]
    with open(out + "/logs/1.1.jsonl", "w") as f:
        for kind in ("convert", "process"):
            for side, (px, n) in zip(sides, rows):
                f.write(json.dumps({"input": "s", "kind": "slide" if kind == "convert" else "store", "status": "done", "width": side, "height": side,
                                    "windows": n, "source_bytes": 1, "store_bytes": 1, "seconds": 0.1 + px / 1e6 if kind == "convert" else 0.2 + n / 100}) + "\n")
        f.write('{"batch": 1, "status": "ended", "convert_seconds": %f, "process_seconds": %f}\n' % (
            3 + 3 * 0.1 + sum(px for px, _ in rows) / 1e6, 3 + 3 * 0.2 + sum(n for _, n in rows) / 100))
    sizes = os.path.join(tmp(), "sizes")
    open(sizes, "w").write("600x600\n" * 1000)
    p = planned("--measured", out, "--sizes", sizes, "--cores", "1", "--task-cores", "1", "--storage", "1T", "--start", "0", "--merge", "0")
    near(p["convert"][0], 1000 * (1.1 + 0.36))
    near(p["process"][0], 1000 * (1.2 + 9 / 100))
    says(run(sys.executable, ROOT + "/scripts/plan", "--measured", tmp(), status=1).err, "no run")
    real_run = os.path.join(tmp(), "out")
    local(real_run, *slides(3))
    says(plan("--measured", real_run, "--slides", "3", "--size", "600x900").out, "Mpx/s")


main(globals())
