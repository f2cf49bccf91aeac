"""The options of the command line."""
import argparse
import shlex


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("%s: must be 1 or more" % text)
    return value


def count(text):
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("%s: must be 0 or more" % text)
    return value


def parse(argv, description):
    split = argv.index("--") if "--" in argv else len(argv)
    a = argparse.ArgumentParser(prog="corpus", formatter_class=argparse.RawDescriptionHelpFormatter,
                                description=description, epilog="Exit status: 0 all done (or submitted), 1 some slides "
                                "failed or are damaged and the rest was done,\n2 wrong usage, 3 stopped by a signal.")
    commands = a.add_subparsers(dest="command", metavar="run | status | cancel")
    run = commands.add_parser("run", help="do what is missing", usage="corpus run [options] -o OUT SLIDE... [-- "
                              "SCHEDULER OPTIONS]", description="Converts, processes and merges what is missing. "
                              "Options after -- go to sbatch or qsub with every job.")
    run.add_argument("slides", nargs="*", metavar="SLIDE", help="a slide, or a folder that is searched for slides")
    run.add_argument("--list", action="append", default=[], metavar="FILE", help="slides or folders, one a line")
    run.add_argument("-o", "--out", required=True, metavar="OUT", help="folder of the corpus; it is created")
    run.add_argument("--stores", metavar="FOLDER", help="the stores' folder (OUT/stores); another corpus's, to compute "
                     "it anew with other options of h5spec")
    run.add_argument("--scheduler", choices=("auto", "slurm", "sge", "local"), default="auto",
                     help="auto takes the one whose command is here (auto)")
    run.add_argument("--tasks", type=positive, default=0, metavar="N", help="tasks of an array (a task a slide, up to "
                     "what the scheduler takes); local: processes at a time (1)")
    run.add_argument("--at-once", type=positive, default=0, metavar="N", help="tasks of an array that run at a time")
    run.add_argument("--group-tasks", action="store_true", help="process each slide in an array of its own, a task a "
                     "group of the store")
    run.add_argument("--gpus", type=count, metavar="N", help="GPUs per processing task; h5spec then gets --device cuda. "
                     "0: compute on CPUs (1 if h5spec was built with CUDA, else 0; local: h5spec decides)")
    for name in ("wsi2h5", "h5spec"):
        run.add_argument("--" + name, type=shlex.split, metavar="'OPTIONS'", help="options of " + name)
    run.add_argument("--convert-job", type=shlex.split, default=[], metavar="'OPTIONS'", help="scheduler options of the "
                     "conversion array, after those behind --")
    run.add_argument("--process-job", type=shlex.split, default=[], metavar="'OPTIONS'", help="the same of processing")
    run.add_argument("--wait", action="store_true", help="wait for the jobs and end with their status")
    status = commands.add_parser("status", help="what is done, what failed and why")
    status.add_argument("--json", action="store_true", help="for programs")
    cancel = commands.add_parser("cancel", help="stop what is running or waiting")
    step = commands.add_parser("step", help="lookup or merge: what the jobs call")
    step.add_argument("name", choices=("lookup", "merge"))
    step.add_argument("--run", type=int, required=True)
    for c in (status, cancel, step):
        c.add_argument("-o", "--out", required=True, metavar="OUT", help="folder of the corpus")
    o = a.parse_args(argv[:split])
    if not o.command:
        a.error("say run, status or cancel")
    o.options = argv[split + 1:]
    if o.options and o.command != "run":
        a.error("only run takes scheduler options")
    return o
