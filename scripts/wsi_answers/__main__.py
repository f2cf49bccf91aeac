"""python3 -m wsi_answers report ...: the words are those of h5spec report, which reads the results and starts this package."""
import os
import shutil
import sys


def main():
    if sys.argv[1:2] != ["report"]:
        sys.exit("Usage: python3 -m wsi_answers report [options] -o REPORT.html RESULT...\nh5spec report --help shows the options.")
    program = os.environ.get("H5SPEC") or shutil.which("h5spec")
    if not program:
        print("wsi_answers: h5spec, which reads results, is not on the PATH; install wsi2h5, or name the program in H5SPEC", file=sys.stderr)
        sys.exit(5)
    os.execve(program, [program, *sys.argv[1:]], dict(os.environ, WSI_REPORT="python"))


main()
