"""The sweeps: what the tools do when everything around them fails.

    make torture                       every sweep in full
    make torture T='kill power'        some of them
    make torture SCALE=0.01            a hundredth of the tries

Each sweep ends with a line "NAME: N tried, M bad". The numbers are random with a fixed seed, so a
second run does the same. The exit status is 1 if anything is bad.
"""
import argparse
import sys
import time

import common
import files
import inputs
import limits
import privacy

SWEEPS = {**files.SWEEPS, **inputs.SWEEPS, **privacy.SWEEPS, **limits.SWEEPS}


def main():
    parser = argparse.ArgumentParser(prog="torture", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweeps", nargs="*", help="names: " + ", ".join(SWEEPS))
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full number of tries (1)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    for name in args.sweeps:
        if name not in SWEEPS:
            parser.error("no such sweep: %s; there are: %s" % (name, ", ".join(SWEEPS)))
    bad = 0
    for name in args.sweeps or SWEEPS:
        begun = time.time()
        t = common.Torture(name, args.scale, args.seed)
        try:
            SWEEPS[name](t)
        finally:
            bad += t.close()
        print("  %.0f s" % (time.time() - begun), flush=True)
    sys.exit(1 if bad else 0)


main()
