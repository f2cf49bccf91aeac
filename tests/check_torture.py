"""The sweeps of tests/torture at a hundredth of their size: `make torture` runs them in full."""
from lib import *

# name: share of the full number of tries, so that each takes some seconds
SCALES = {"kill": 0.012, "calls": 0.004, "alloc": 0.004, "power": 0.05, "slides": 0.012, "stores": 0.012, "hostile": 0.008,
          "privacy": 1, "limits": 0.01, "races": 0.03, "cuda": 0.002}


def sweep(name):
    if SAN:
        raise Skip("the preloaded libraries and a sanitizer do not go together")
    p = run(sys.executable, os.path.join(ROOT, "tests", "torture"), name, "--scale", SCALES[name], status=None, timeout=400)
    says(p.out, name + ": ")
    expect(p.returncode == 0, "%s", p.out[-2000:])
    if p.out.split(name + ": ")[-1].startswith("0 tried"):
        raise Skip(p.out.strip().splitlines()[-2])


for name_ in SCALES:
    globals()["test_" + name_] = lambda n=name_: sweep(n)

main(globals(), "ci")
