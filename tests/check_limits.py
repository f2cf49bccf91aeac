"""Limits of the system, from too small to ample: every command ends, names the limit, leaves nothing unfinished and blames no input."""
from lib import *

KIB, MIB = 1 << 10, 1 << 20
# What is limited: to what, words of which the message has one.
LIMITS = [
    (resource.RLIMIT_NOFILE, by_tier((10, 36, 45), (8, 10, 12, 16, 24, 30, 36, 38, 40, 60), range(4, 70)), "Too many open files|ulimit -n"),
    (resource.RLIMIT_FSIZE, by_tier((1 * KIB, 300 * KIB), (0, 1 * KIB, 50 * KIB, 300 * KIB, 4 * MIB), (k << 13 for k in range(80))), "ulimit -f"),
    (resource.RLIMIT_STACK, by_tier((64 * KIB, 1 * MIB), (64 * KIB, 256 * KIB, 512 * KIB, 1 * MIB), (k << 16 for k in range(1, 40))), "ulimit -s"),
    (resource.RLIMIT_AS, by_tier((60 * MIB, 400 * MIB), (24 * MIB, 40 * MIB, 60 * MIB, 100 * MIB, 250 * MIB, 400 * MIB), (k << 22 for k in range(4, 120))),
     "out of memory|ulimit -v|allocate|memory"),
]
SLIDES = 40


def slides():
    folder = tmp("slides")
    for k in range(SLIDES):
        shutil.copy(made("--size", "300x300", "--seed", str(k), name="s"), os.path.join(folder, "s%02d.svs" % k))
    return folder


def stores(folder):
    out = tmp("stores")
    run(WSI2H5, "-q", "-o", out, folder)
    return out


def test_every_limit():
    if SAN:
        raise Skip("sanitizers need memory and descriptors of their own")
    folder = slides()
    results, made_before = tmp("results"), stores(folder)
    run(H5SPEC, "run", "-q", "--device", "cpu", "-o", results, made_before)
    commands = {"convert": [WSI2H5, "--json", "--codec", "deflate", "-j", "64", "-o", "OUT", folder],
                "run": [H5SPEC, "run", "--json", "--device", "cpu", "-j", "64", "-o", "OUT", made_before],
                "merge": [H5SPEC, "merge", "-q", "-o", "OUT/m.h5", results],
                "verify": [H5SPEC, "verify", "--json", "-j", "4", made_before], "info": [H5SPEC, "info", "--json", results]}
    for limit, values, words in LIMITS:
        for value in values:
            for name, argv in commands.items():
                out, what = tmp("out"), "%s with limit %d of %d" % (name, limit, value)
                p = run(*[a.replace("OUT", out) for a in argv], status=None, timeout=60, env=dict(os.environ), preexec_fn=lambda: resource.setrlimit(limit, (value, value)))
                if p.returncode == 127 and "error while loading shared libraries" in p.err or p.returncode == -signal.SIGSEGV and not p.err:
                    continue  # the system cannot even start the program
                expect(p.returncode in (0, 5), "%s: status %d: %s", what, p.returncode, p.err[-600:])
                expect(p.returncode == 0 or re.search(words, p.err), "%s: does not name the limit: %s", what, p.err[-600:])
                expect(left_overs(out) == [], "%s: left %s", what, left_overs(out))
                for line in json_lines(p.out) if "--json" in argv else []:
                    expect(line.get("status") != "failed" or line.get("cause") != "input", "%s: %s", what, line)
            shutil.rmtree(out, ignore_errors=True)


main(globals())
