#!/usr/bin/env python3
"""Time and memory of `corpus status` on a made corpus: bench_status.py [SLIDES [FAILED]].

The files are empty, but have the names, times and records of a corpus that two arrays of 1,000 tasks have made: one run that
is closed. A part of the slides failed on one node.
"""
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "scripts"))

from corpus_lib import records
from corpus_lib.attempts import Attempts
from corpus_lib.files import stamp, write_list, write_whole
from corpus_lib.state import Corpus


# runs a script, and writes its peak memory in KiB to a file
MEASURE = """import atexit, re, runpy, sys
file, sys.argv = sys.argv[1], sys.argv[2:]
atexit.register(lambda: open(file, "w").write(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()).group(1)))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def touch(path, text=""):
    with open(path, "w") as f:
        f.write(text)
    return stamp(path)


def log_line(field, path, name, status):
    """About as long as a line of the programs."""
    row = {field: path, "status": status, "reader": "svs", "vendor": "aperio", "width": 65000, "height": 43000, "mpp_x": 0.25,
           "codec": "jpeg", "groups": 40, "store_bytes": 560000000, "seconds": 12.345, "filler": "x" * 300, "host": "n1",
           "time": "2026-11-23T20:00:00Z"}
    if status == "failed":
        row.update(message=path + ": cannot read: Input/output error", cause="trouble", host="n3")
    return json.dumps(row) + "\n"


def make(out, n, failed, tasks=1000):
    for folder in ("s", "stores", "results", "logs", "runs/1"):
        os.makedirs(os.path.join(out, folder))
    table, log = [], {kind: [[] for _ in range(tasks)] for kind in ("convert", "process")}
    for k in range(n):
        r = records.Record("%s/s/slide%06d.svs" % (out, k), "slide%06d" % k)
        bad = k % max(1, n // failed) == 0 if failed else False
        r.files = touch(r.slide, "x")
        store, result = "%s/stores/%s.h5" % (out, r.name), "%s/results/%s.h5" % (out, r.name)
        log["convert"][k % tasks].append(log_line("slide", r.slide, r.name, "failed" if bad else "done"))
        if not bad:
            r.store = r.of = r.hashed = touch(store)
            r.hash = "%064x" % (k * 2654435761)
            r.result = r.checked = r.resolved = r.merged = touch(result)
            r.where, r.um, r.down = "corpus.h5", "0.25", "1.0"
            log["process"][k % tasks].append(log_line("store", store, r.name, "done"))
        table.append(r)
    for kind, shares in log.items():
        for t, lines in enumerate(shares):
            touch("%s/logs/1.%s.%d.json" % (out, kind, t + 1), "".join(lines))
            touch("%s/logs/1.%s.%d.err" % (out, kind, t + 1))
    write_list(out + "/slides.txt", [r.slide for r in table])
    write_list(out + "/runs/1/convert.txt", [r.slide for r in table])
    write_list(out + "/runs/1/process.txt", ["%s/stores/%s.h5" % (out, r.name) for r in table if r.store])
    records.Records(out, None).write(table)
    write_whole(out + "/settings.json", json.dumps({"wsi2h5": [], "h5spec": [], "stores": None}))
    write_list(out + "/runs/1/jobs", ["begin\t-\t0\tslurm", "convert\t1\t%d\tslurm" % tasks, "process\t2\t%d\tslurm" % tasks])
    touch(out + "/corpus.h5")
    good = sum(1 for r in table if r.store)
    write_whole(out + "/merged.json", json.dumps({"corpus.h5": {"um_per_px": 0.25, "slides": good}}))


def close(out):
    """What the merge job does: the logs need not be read again."""
    Attempts(Corpus(out)).save()


def measured(out, env, *options):
    begun, before = time.time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    memory = os.path.join(out, "memory")
    p = subprocess.run(["/usr/bin/env", "python3", "-c", MEASURE, memory, os.path.join(ROOT, "scripts", "corpus"), "status", "-o", out, *options],
                       stdout=subprocess.PIPE, env=env, universal_newlines=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("%-10s %5.2f s, processor %5.2f s, %3.0f MB, status %d: %s" % (
        " ".join(options) or "text", time.time() - begun, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        int(open(memory).read()) / 1024, p.returncode, p.stdout[:100].split("\n")[0]), flush=True)


def main():
    n, failed = (int(a) for a in (sys.argv[1:] + ["100000", "1000"][len(sys.argv) - 1:]))
    with tempfile.TemporaryDirectory() as top:
        bin = os.path.join(top, "bin")  # a scheduler that has forgotten the jobs
        os.mkdir(bin)
        for name in ("squeue", "sacct", "scontrol"):
            touch(os.path.join(bin, name), "#!/bin/sh\n")
            os.chmod(os.path.join(bin, name), 0o755)
        env, out = dict(os.environ, PATH=bin + os.pathsep + os.environ["PATH"]), os.path.join(top, "out")
        work = multiprocessing.Process(target=make, args=(out, n, failed))  # so that this process stays small
        work.start()
        work.join()
        print("%d slides, %d of them failed" % (n, failed))
        measured(out, env)  # reads all logs
        work = multiprocessing.Process(target=close, args=(out,))
        work.start()
        work.join()
        for options in ((), ("--json",), ("--prometheus",)):
            measured(out, env, *options)


main()
