#!/usr/bin/env python3
"""What a corpus costs besides the programs: bench_corpus.py [SLIDES...] (1000 10000).

Plan, all batches with 8 workers, finish, status: wall-clock and processor time, and peak memory of `corpus`, over stubs
of wsi2h5 and h5spec that write empty files. 1 of 20 slides is bad.
"""
import os
import re
import resource
import subprocess
import sys
import tempfile
import time

CORPUS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scripts", "corpus")
WSI2H5 = r"""#!/bin/sh
[ "$1" != --version ] || { echo wsi2h5 0; exit; }
while [ $# -gt 0 ]; do case $1 in -o) out=$2 ;; --print-inputs) print=1 ;; esac; shift; done
[ -z "$print" ] || { xargs -I N find N -type f -printf '%p\0\0'; exit; }
while read -r s; do
    n=${s##*/} n=${n%.*}
    case $n in
    *[05]7) echo "{\"input\": \"$s\", \"kind\": \"slide\", \"status\": \"failed\", \"message\": \"$s: the file is empty\", \"cause\": \"input\", \"host\": \"n1\"}" ;;
    *) : >"$out/$n.h5"; echo "{\"input\": \"$s\", \"kind\": \"slide\", \"store\": \"$out/$n.h5\", \"status\": \"done\", \"seconds\": 1, \"host\": \"n1\"}" ;;
    esac
done
"""
H5SPEC = r"""#!/bin/sh
case $1 in --version) echo h5spec 0; exit ;; --help) exit ;; run) ;; merge) m=1 ;; *) exit ;; esac
while [ $# -gt 0 ]; do case $1 in -o) out=$2 ;; esac; shift; done
[ -z "$m" ] || { : >"$out"; cat >/dev/null; echo '{"output": "x"}'; exit; }
while read -r s; do
    n=${s##*/}; : >"$out/$n"
    echo "{\"input\": \"$s\", \"kind\": \"store\", \"status\": \"done\", \"windows\": 9, \"seconds\": 1, \"host\": \"n1\"}"
done
"""
# runs a script, and adds a line to a file: its peak memory in KiB and its own processor time, without that of the stubs
MEASURE = """import atexit, resource, runpy, sys
file, sys.argv = sys.argv[1], sys.argv[2:]
def note():
    used = resource.getrusage(resource.RUSAGE_SELF)
    with open(file, "a") as f:
        f.write("%d %f\\n" % (used.ru_maxrss, used.ru_utime + used.ru_stime))
atexit.register(note)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def measured(what, top, env, *argv):
    begun, before, notes = time.time(), resource.getrusage(resource.RUSAGE_CHILDREN), os.path.join(top, "notes")
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, universal_newlines=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(notes) as f:
        rows = [line.split() for line in f]
    os.unlink(notes)
    print("  %-12s %7.2f s, processor %7.2f s, %7.2f s of it corpus, %4.0f MB, status %d: %s" % (
        what, time.time() - begun, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        sum(float(own) for _, own in rows), max(int(memory) for memory, _ in rows) / 1024, p.returncode,
        (p.stdout or p.stderr).split("\n")[0][:90]), flush=True)
    return p


def main():
    for n in map(int, sys.argv[1:] or ["1000", "10000"]):
        with tempfile.TemporaryDirectory() as top:
            folder, out, env = os.path.join(top, "s"), os.path.join(top, "out"), dict(os.environ)
            os.mkdir(folder)
            for name, text in (("wsi2h5", WSI2H5), ("h5spec", H5SPEC)):
                env[name.upper()] = os.path.join(top, name)
                with open(env[name.upper()], "w") as f:
                    f.write(text)
                os.chmod(f.name, 0o755)
            for k in range(n):
                os.mknod("%s/slide%06d.svs" % (folder, k))
            print("%d slides" % n)
            call = [sys.executable, "-B", "-c", MEASURE, os.path.join(top, "notes"), CORPUS]
            measured("plan", top, env, *call, "plan", "-o", out, folder)
            with open(out + "/plan.tsv") as f:
                batches = int(re.findall(r"^(\d+)\t", f.read(), re.M)[-1])
            begin = top + "/begin"  # a worker
            with open(begin, "w") as f:
                f.write(MEASURE)
            measured("%d batches" % batches, top, env, "sh", "-c", "seq %d | xargs -P 8 -I N %s -B %s %s/notes %s step -o %s --batch N" % (
                batches, sys.executable, begin, top, CORPUS, out))
            for command in ("finish", "status", "finish"):
                measured(command, top, env, *call, command, "-o", out)
            measured("plan again", top, env, *call, "plan", "-o", out, folder)


main()
