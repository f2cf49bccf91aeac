"""The command line."""
import argparse
import os
import shlex
import sys

STATUS = """Exit status: 0 everything is done, or submitted; 1 some slides are bad, the rest is done;
2 wrong usage; 3 stopped by a signal; 4 all done, some slides have damaged tiles; 5 run again:
trouble, interrupted tasks, or something to do and no task at work."""


def at_least(least):
    def number(text):
        if int(text) < least:
            raise argparse.ArgumentTypeError("%s: must be %d or more" % (text, least))
        return int(text)
    return number


def joined(argv):
    """Joins options that hold options to their value, because argparse takes -x for an option."""
    out, holds = [], ("--wsi2h5", "--h5spec", "--convert-job", "--process-job")
    for word in argv:
        if out and out[-1] in holds:
            out[-1] += "=" + word
        else:
            out.append(word)
    return out


def add_inputs(add):
    """What plan and run have in common."""
    add("slides", nargs="*", metavar="SLIDE", help="a slide, or a folder to search for slides")
    add("--list", action="append", default=[], metavar="FILE", help="slides or folders, one per line; after a tab, "
        "options of wsi2h5 for them alone, such as --mpp-override 0.5")
    add("--stores", metavar="FOLDER", help="folder of the stores (OUT/stores); name that of "
        "another corpus to process its stores with other options of h5spec")
    add("--batch", type=at_least(1), default=0, metavar="N", help="slides per batch (as many as keep a plan within "
        "500 batches)")
    add("--gpus", type=at_least(0), metavar="N", help="GPUs per processing task; h5spec then gets "
        "--device cuda. 0: compute on CPUs (under a scheduler 1 if h5spec was built with CUDA, else 0; elsewhere "
        "h5spec decides)")
    for name in ("wsi2h5", "h5spec"):
        add("--" + name, type=shlex.split, metavar="'OPTIONS'", help="options of %s; the same in "
            "every run of a corpus%s" % (name, "" if name == "h5spec" else
                                         " (--codec keep, unless you name a codec or --gray)"))
    add("--allow-duplicates", action="store_true", help="merge slides that are the same slide "
        "(equal quickhash); by default only the first by name is merged")
    add("--discard-stores", action="store_true", help="delete each store when its result is written. Later runs "
        "keep it so")
    add("--renew", action="store_true", help="do again what other versions of the programs made")


def add_run(add):
    add_inputs(add)
    add("--scheduler", choices=("auto", "slurm", "sge", "local"), default="auto",
        help="auto: the one whose command is in PATH, else local (auto)")
    add("--tasks", type=at_least(1), default=0, metavar="N", help="batches at a time (local: 1; on a cluster: as many as it starts)")
    add("--convert-job", type=shlex.split, default=[], metavar="'OPTIONS'", help="scheduler "
        "options of the conversion array, after those behind --")
    add("--process-job", type=shlex.split, default=[], metavar="'OPTIONS'",
        help="the same for processing")
    add("--retries", type=at_least(0), default=1, metavar="N", help="times that slides are tried again, not on nodes "
        "that had trouble, and with twice the memory if it was too little (1; not with local)")
    add("--wait", action="store_true", help="wait for the jobs and end with their status")
    add("--dry-run", action="store_true", help="print the commands that would submit the jobs")


def parse(argv, description):
    """The options, with .options = those after --."""
    split, form = argv.index("--") if "--" in argv else len(argv), argparse.RawDescriptionHelpFormatter
    a = argparse.ArgumentParser(prog=os.path.basename(sys.argv[0]), epilog=STATUS, description=description,
                                formatter_class=form)
    commands = a.add_subparsers(dest="command", required=True, metavar="plan | run | step | finish | status | cancel | remove")

    def command(name, short, example, text=None, **more):
        c = commands.add_parser(name, help=short, description=text, formatter_class=form,
                                epilog="Example: corpus %s -o %s" % (name, example), **more)
        c.add_argument("-o", "--out", required=True, metavar="OUT", help="folder of the corpus")
        return c.add_argument
    add_inputs(command("plan", "write OUT/plan.tsv, for another engine", "study slides/",
                       "Writes what remains to OUT/plan.tsv, one line per slide, in batches."))
    add_run(command("run", "do what remains: plan, work, finish", "study --convert-job '--partition=cpu' --process-job "
                    "'--partition=gpu' slides/\n\n" + STATUS, "Converts, processes and merges what remains. Options after "
                    "-- go to sbatch\nor qsub with every job.", usage="%(prog)s [options] -o OUT SLIDE... [-- SCHEDULER OPTIONS]"))
    add = command("step", "do one batch of the plan", "study --batch 1")
    add("--batch", required=True, metavar="N", help="its number; auto: that of this task of an array")
    add("--stage", choices=("both", "convert", "process"), default="both", help="both, or only one of the two programs (both)")
    add = command("finish", "merge what exists, and report", "study\n\n" + STATUS,
                  "Merges what exists, one file per resolution, and writes the report.")
    add("--run", type=int, default=0, help=argparse.SUPPRESS)
    add = command("status", "what is done, what failed and why", "/scratch/breast --watch")
    add("--json", action="store_true", help="one line of JSON")
    add("--html", action="store_true", help="write OUT/report.html, a page about the slides that are done so far")
    add("--watch", type=at_least(1), nargs="?", const=10, metavar="SECONDS",
        help="repeat until no task is at work (every 10 seconds)")
    command("cancel", "stop what runs or waits; finished slides are kept", "/scratch/breast")
    add = command("remove", "take slides out, as when a consent is withdrawn", "/scratch/breast slides/a.svs",
                  "Deletes what was made from slides, and makes the merged\nresults and the report again. The slides stay.")
    add("slides", nargs="+", metavar="SLIDE", help="its path, or its name in the corpus")
    o = a.parse_args(joined(argv[:split]))
    o.options = argv[split + 1:]
    if o.options and o.command != "run":
        a.error("only run takes scheduler options after --")
    return o
