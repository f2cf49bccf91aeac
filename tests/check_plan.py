#!/usr/bin/env python3
"""scripts/plan: how long a corpus takes, and on how many nodes."""
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
    # 100 Mpx per slide; 10 Mpx/s per core; converting reads (0.19 B per px) and writes 2 GB per slide; 0.02 s per slide and phase
    rates = "--size 10000x10000 --mp-per-core 10 --windows-per-core 100 --store-bytes 19.81 --start 0 --task-cores 1 --storage 1T".split()
    n, sizes = 77 * 77, os.path.join(tmp(), "sizes")
    open(sizes, "w").write("10000x10000\n20000x10000\n")
    for options, phase, seconds, bound in (
            ("--slides 8 --cores 4", "convert", 2 * 10, "cores"), ("--slides 8 --cores 4", "process", 2 * n / 100, "cores"),
            ("--slides 8 --cores 4 --storage 100M", "convert", 160, "storage"),  # 16 GB at 0.1 GB/s
            ("--slides 5 --cores 4", "convert", 20, ""),  # the fifth is alone
            ("--slides 4 --cores 4 --start 3", "convert", 13, ""),
            ("--slides 10 --tasks 2 --cores 4 --start 3", "convert", 3 + 5 * 10, ""),  # a start per task, and two of four places are idle
            ("--slides 900 --size 600x600 --tasks 2 --cores 2", "all", 450 * (0.02 + 0.036) + 450 * (0.02 + 9 / 100) + 900 * 0.02, ""),
            ("--slides 8 --gpus 2 --gpu-nodes 2 --windows-per-gpu 1000", "process", 2 * n / 1000, ""),
            ("--sizes %s --cores 2 --storage 300M" % sizes, "convert", 20, "")):  # the second slide, or 6 GB at 0.3 GB/s
        found = planned(*rates, *options.split())[phase]
        near(found[0], seconds)
        expect(not bound or found[1] == bound, "%s: %s", options, found)
    for options, status, words in (("--slides 400 --cores 1 --hours 0.2", 0, "40 nodes"),  # ten each
                                   ("--slides 400 --hours 0.2 --storage 100M", 1, "no number of nodes"),
                                   ("--gpus 1", 2, "--windows-per-gpu"), ("--sizes /nowhere", 2, "/nowhere")):
        p = plan(*rates, *options.split(), status=status)
        says(p.out + p.err, words)


def test_plan_takes_the_rates_of_a_run():
    """A made run: 0.1 s per slide and 1 Mpx/s, 0.2 s per store and 100 windows/s; and each task spent 3 s more."""
    out, real_run, sizes = new_out(), new_out(), os.path.join(tmp(), "sizes")
    os.makedirs(out + "/logs")
    sides = [(2560 * k, (20 * k - 1) ** 2) for k in (1, 2, 3)]
    lines = [{"batch": 1, "status": "ended", "convert_seconds": 3 + sum(0.1 + side ** 2 / 1e6 for side, _ in sides),
              "process_seconds": 3 + sum(0.2 + n / 100 for _, n in sides)}]
    for side, n in sides:
        for kind, seconds in (("slide", 0.1 + side ** 2 / 1e6), ("store", 0.2 + n / 100)):
            lines.insert(-1, {"input": "s", "kind": kind, "status": "done", "width": side, "height": side, "windows": n, "source_bytes": 1,
                              "store_bytes": 1, "seconds": seconds})
    open(out + "/logs/1.1.jsonl", "w").writelines(json.dumps(line) + "\n" for line in lines)
    open(sizes, "w").write("600x600\n" * 1000)
    p = planned("--measured", out, "--sizes", sizes, "--cores", "1", "--task-cores", "1", "--storage", "1T", "--start", "0")
    near(p["convert"][0], 1000 * (1.1 + 0.36))
    near(p["process"][0], 1000 * (1.2 + 9 / 100))
    says(plan("--measured", tmp(), status=1).err, "no run")
    local(real_run, *slides(3))
    says(plan("--measured", real_run, "--slides", "3", "--size", "600x900").out, "Mpx/s")


main(globals())
