"""What carries out a plan: Slurm, Grid Engine, or this machine. Any other engine calls `wsi-corpus step` itself.

A scheduler is a class with the same functions: limit() is the largest array, command() a submission, active() counts the tasks that wait or run and names those that will never run, all_ends() says how
tasks ended, nodes() lists the nodes, and away_from() and with_memory() change options.
A scheduler may be away, for a restart or under load. What asks raises Away; patient() asks again.
"""
import collections
import concurrent.futures
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time

from corpus_lib.files import HERE, PART, PROCESSORS, TROUBLE, USAGE, Away, ask, counted, die, say, values_of
from corpus_lib.outcome import Log
from corpus_lib.step import CORES, Batch, children, from_environment

FIRST_PAUSE, LONGEST_PAUSE = 1, 60  # seconds between questions to a scheduler that is away
PATIENCE = 3 * 3600  # seconds after which submitting is given up
ANSWER_SECONDS = 120

End = collections.namedtuple("End", "text failed node")  # how a task ended; node: "" if unknown

AWAY = (r"(?i)unable to contact|timed out|connection (refused|reset|closed)|try again|communication failure|"
        r"commlib|unable to send|can.t connect|can.t get (answer|configuration)|not responding|unreachable|"
        r"slurmctld.*(down|starting)|qmaster.*(down|not)|backup controller")
OF_TASK, OF_GPU = 4, 8  # cores that a task asks for; per GPU (tests/FIGURES.md, GPUs)
STUCK = {r"requeued held|JobHeld": "scontrol release %s", r"DependencyNeverSatisfied": "scancel %s, and run again",
         r"BadConstraints|PartitionDown|PartitionNodeLimit|InvalidAccount|InvalidQOS": "scontrol show job %s"}


def question(*argv):
    """Asks a scheduler. Raises Away if it does not answer."""
    try:
        p = ask(*argv, timeout=ANSWER_SECONDS)
    except subprocess.TimeoutExpired:
        raise Away("%s does not answer within %d s" % (argv[0], ANSWER_SECONDS)) from None
    except FileNotFoundError:
        raise Away("%s is not in PATH" % argv[0]) from None
    if p.returncode and re.search(AWAY, p.stderr + p.stdout):
        raise Away("%s: %s" % (argv[0], " ".join(p.stderr.split())[:200]))
    return p


def patient(ask_once, patience=None):
    """What ask_once() returns; asks again with longer and longer pauses while the scheduler is away. After
    `patience` seconds Away is raised; None: never."""
    pause, begun, told = FIRST_PAUSE, time.time(), False
    while True:
        try:
            return ask_once()
        except Away as e:
            if patience is not None and time.time() - begun > patience:
                raise
            if not told:
                say("the scheduler does not answer, asking again until it does (%s)" % e)
            told = True
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def times(factor, pattern, word):
    """The word, in which the number after `pattern` is so many times as large."""
    return re.sub("(%s)(\\d+)" % pattern, lambda m: "%s%d" % (m.group(1), factor * int(m.group(2))), word)


class Slurm:
    name, submits, cancels = "Slurm", "sbatch", "scancel"

    def limit(self):
        found = re.search(r"MaxArraySize\s*=\s*(\d+)", ask("scontrol", "show", "config").stdout)
        return max(1, int(found.group(1)) - 1) if found else 1000

    def cores(self, gpus):
        """Of a task: OF_GPU for each GPU, if every node with GPUs has as many."""
        rows = [line.split() for line in question("sinfo", "-h", "-N", "-o", "%c %G").stdout.split("\n")] if gpus and shutil.which("sinfo") else []
        nodes = [int(row[0]) for row in rows if len(row) == 2 and row[0].isdigit() and "gpu" in row[1]]
        return OF_GPU * gpus if nodes and min(nodes) >= OF_GPU * gpus else OF_TASK

    def command(self, kind, argv, log, tasks, at_once, after, options, gpus, mark):
        """Messages go to LOG, where %s is the task; `mark` finds the job again."""
        command = ["sbatch", "--comment=" + mark, "--parsable", "--export=ALL", "--open-mode=append", "--requeue",
                   "--job-name=corpus-" + kind, "--output=" + log.replace("%s", "%a"), "--cpus-per-task=%d" % self.cores(gpus)]
        if not any(w.startswith("--mem") for w in options):
            command.append("--mem-per-cpu=1G")
        if tasks:
            command.append("--array=1-%d%s" % (tasks, "%%%d" % at_once if at_once else ""))
        if after:
            command.append("--dependency=afterany:" + ":".join(after))
        if gpus is not None:
            command.append("--gres=" + ("gpu:%d" % gpus if gpus else "none"))
        return command + options + ["--wrap", "exec " + " ".join(shlex.quote(a) for a in argv)]

    def find(self, mark):
        """The id of a job that is in the queue although the answer was lost; None if it is not."""
        found = re.search(r"(?m)^(\d+)\|" + re.escape(mark) + "$", question("squeue", "-h", "-o", "%F|%k").stdout)
        return found and found.group(1)

    def active(self, ids):
        p = question("squeue", "-h", "-r", "-j", ",".join(ids), "-o", "%i|%T|%r")
        if p.returncode and "Invalid job id" not in p.stderr:
            raise Away("squeue: " + p.stderr.strip())
        rows = [line.split("|") for line in p.stdout.split("\n") if line.count("|") == 2]
        held = ["task %s waits for ever (%s): %s" % (job, why, remedy % job) for job, state, why in rows
                for pattern, remedy in STUCK.items() if state == "PENDING" and re.search(pattern, why)]
        return len(rows), held

    def all_ends(self, ids):
        """{(job, task or None): End}"""
        found = {}
        p = ask("sacct", "-n", "-X", "-P", "-j", ",".join(ids), "-o", "JobID,State,ExitCode,NodeList",
                timeout=ANSWER_SECONDS) if shutil.which("sacct") else None  # its database may be away alone
        for line in p.stdout.split("\n") if p and p.returncode == 0 else []:
            words = line.split("|")
            job = re.fullmatch(r"(\d+)(?:_(\d+))?", words[0])
            if job and len(words) == 4:
                found[job.group(1), int(job.group(2) or 0) or None] = self.end(*words[1:])
        for number in ids if not found else []:
            for line in question("scontrol", "show", "job", "-o", number).stdout.split("\n"):
                row = dict(w.split("=", 1) for w in line.split() if "=" in w)
                if "JobState" in row and row.get("ArrayTaskId", "1").isdigit():
                    found[number, int(row.get("ArrayTaskId", 0)) or None] = self.end(
                        row["JobState"], row.get("ExitCode", ""), row.get("NodeList", ""), row.get("Reason", ""))
        return found

    def end(self, state, code, node, reason=""):
        (code, _, signalled), state = code.partition(":"), state.split(" ")[0]
        how = "signal " + signalled if signalled.strip("0") else "exit status " + code if code.strip("0") else ""
        return End("Slurm: " + ", ".join(w for w in (state, how, reason) if w not in ("", "None")),
                   state not in ("COMPLETED", "PENDING", "RUNNING", "COMPLETING", "CONFIGURING"),
                   "" if node in ("(null)", "None assigned", "None") else node)

    def away_from(self, nodes, options):
        """Keeps a job from nodes, besides those that the user excludes: sbatch takes the last list only."""
        theirs, kept = values_of(options, ("--exclude", "-x"))
        return kept + ["--exclude=" + ",".join(theirs[-1:] + nodes)] if nodes else options

    def with_memory(self, options, doubled):
        """Asks for twice the memory, so many times."""
        if doubled and not any(w.startswith("--mem") for w in options):
            options = options + ["--mem-per-cpu=1G"]
        values = [before.startswith("--mem") and "=" not in before for before in [""] + options]
        return [times(2 ** doubled, "^" if value else r"^--mem\S*=", word) for value, word in zip(values, options)]

    def nodes(self):
        return set(question("sinfo", "-h", "-N", "-o", "%N").stdout.split())


class GridEngine:
    name, submits, cancels = "Grid Engine", "qsub", "qdel"

    def limit(self):
        found = re.search(r"^max_aj_tasks\s+(\d+)", ask("qconf", "-sconf").stdout, re.M)
        return int(found.group(1)) or 10 ** 9 if found else 75000

    def command(self, kind, argv, log, tasks, at_once, after, options, gpus, mark):
        command = ["qsub", "-terse", "-N", mark, "-j", "y", "-o", log.replace("%s", "$TASK_ID"), "-r", "y"]
        for name in ("PATH", "WSI2H5", "H5SPEC"):
            if name in os.environ:
                command += ["-v", "%s=%s" % (name, os.environ[name])]
        if tasks:
            command += ["-t", "1-%d" % tasks] + (["-tc", str(at_once)] if at_once else [])
        if after:
            command += ["-hold_jid", ",".join(after)]
        if gpus is not None:
            command += ["-l", "gpu=%d" % gpus]
        if kind == "convert" and "-pe" not in options:
            command += ["-pe", "smp", "4"]
        return command + options + ["-b", "y", "-shell", "n"] + argv

    def find(self, mark):
        rows = re.findall(r"(?m)^ *(\d+) +\S+ +(\S+)", question("qstat", "-u", "*").stdout)
        return next((job for job, name in rows if name == mark[:10]), None)

    def active(self, ids):
        p = question("qstat", "-u", "*", "-g", "d")  # a line per task
        if p.returncode:
            raise Away("qstat: " + p.stderr.strip())
        rows = [row for row in map(str.split, p.stdout.split("\n")) if row and row[0] in ids]
        return len(rows), ["task %s of job %s is in an error state: qmod -cj %s" % (row[-1], row[0], row[0])
                           for row in rows if "E" in row[4]]

    def all_ends(self, ids):
        found = {}
        for number in ids:
            for text in re.split(r"(?m)^=+$", question("qacct", "-j", number).stdout):
                row = dict(re.findall(r"(?m)^(\w+)\s+(.*?)\s*$", text))
                if "exit_status" in row:
                    code, failed, task = row["exit_status"].split()[0], row.get("failed", "0"), row.get("taskid", "")
                    bad = code != "0" or failed.split()[0] != "0"
                    found[number, int(task) if task.isdigit() else None] = End("Grid Engine: " + (
                        "failed %s, exit status %s" % (failed, code) if bad else "done"), bad, row.get("hostname", ""))
        return found

    def away_from(self, nodes, options):
        if not nodes:
            return options
        ours, out = "&".join("!" + n for n in nodes), []
        for before, word in zip([""] + options, options):
            out.append(re.sub(r"((?:^|,)(?:hostname|h)=)([^,]+)", r"\1(\2)&" + ours, word) if before == "-l" else word)
        return out if out != options else options + ["-l", "hostname=" + ours]

    def with_memory(self, options, doubled):
        return [times(2 ** doubled, "(?:h_vmem|s_vmem|mem_free|h_rss)=", word) for word in options]

    def nodes(self):
        return {line.split()[0] for line in question("qhost").stdout.split("\n")[3:] if line.strip()}


SCHEDULERS = {"slurm": Slurm(), "sge": GridEngine()}


def scheduler_of(corpus):
    """The scheduler of the last run; None for this machine and for other engines."""
    return SCHEDULERS.get(corpus.run.get("engine"))


def choose(name, options):
    """The name of the engine to use; `options` are those after --."""
    if name == "auto":
        name = ("slurm" if shutil.which("sbatch") else
                "sge" if shutil.which("qsub") and os.environ.get("SGE_ROOT") else "local")
        say("scheduler: %s (%s)" % (name, "found %s" % SCHEDULERS[name].submits if name != "local"
                                    else "found neither sbatch nor qsub"))
    if name == "local" and options:
        die("options after -- are for a scheduler; leave them out with --scheduler local", USAGE)
    if name != "local" and not shutil.which(SCHEDULERS[name].submits):
        die("--scheduler %s: %s is not in PATH; without a cluster, use --scheduler local" % (
            name, SCHEDULERS[name].submits))
    return name


# --- under a scheduler: convert array -> process array -> finish job ---

def submit(corpus, kind, argv, tasks, after, dry):
    """Submits a job and notes it. Returns its id."""
    run, scheduler = corpus.run, scheduler_of(corpus)
    options = run["options"] + run.get(kind + "_job", [])
    options = scheduler.with_memory(scheduler.away_from(run.get("exclude", []), options), run.get("doubled", 0))
    mark = "c%s%s" % (kind[0], os.urandom(4).hex())
    log = "%s/logs/%d.%s.err" % (corpus.out, corpus.number, "%s" if tasks else kind)
    command = scheduler.command(kind, [sys.executable, os.path.join(HERE, "corpus"), *argv, "-o", corpus.out], log, tasks,
                                run["at_once"] if tasks else 0, after, options, run["gpus"] if kind == "process" else None, mark)
    if dry:
        print(" ".join(map(shlex.quote, command)))
        return kind.upper()

    def once():
        try:
            return question(*command)
        except Away:  # the job may be in the queue all the same
            job = scheduler.find(mark)
            if not job:
                raise
            return subprocess.CompletedProcess(command, 0, job, "")
    p = patient(once, PATIENCE)
    if p.returncode:
        refused(corpus, "%s refused the %s job: %s%s" % (
            scheduler.name, kind, p.stderr.strip() or p.stdout.strip(),
            "; without a cluster, use --scheduler local" if "onfiguration" in p.stderr else ""))
    job = re.findall(r"(?m)^\d+", p.stdout)[-1]
    corpus.add_job(kind, job)
    return job


def refused(corpus, why):
    """The scheduler did not accept a job: those before it go, too."""
    corpus.run["problem"] = why
    corpus.save_settings()
    ids = cancel(corpus)
    die("%s\ncorpus: %sno job is left in the queue; correct the options and run again" % (
        why, "%s cancelled, " % counted(len(ids), "job") if ids else ""), PART)


def cancel(corpus):
    """Ends the jobs of the last run. Returns their ids."""
    ids = list(corpus.jobs().values())
    if ids:
        patient(lambda: question(scheduler_of(corpus).cancels, *ids), PATIENCE)
    return ids


def submit_run(corpus, dry=False):
    """Submits the jobs of a plan."""
    after = []
    for kind, batches in (("convert", corpus.run["convert"]), ("process", corpus.run["batches"])):
        if batches:
            after = [submit(corpus, kind, ["step", "--batch", "auto", "--stage", kind], batches, after, dry)]
    submit(corpus, "finish", ["finish", "--run", str(corpus.number)], 0, after, dry)


# --- on this machine ---

def run_local(corpus, tasks):
    """Does all batches, so many at a time. A full disk ends it: what follows would fail, too."""
    begun, n, told = time.time(), corpus.run["batches"], [time.time()]
    full, cores = [], max(1, (from_environment(CORES) or PROCESSORS) // tasks) if tasks > 1 else 0

    def one(number):
        if full or children.stopped:
            return
        if Batch(corpus, number, cores).run("both") == TROUBLE:
            log = Log(corpus.log(number, "jsonl"))
            full.extend(row for row in [*log.slides.values(), *log.stores.values()] if row.get("detail") == "disk")
        if time.time() > told[0] + 10:
            told[0] = time.time()
            say("batch %d of %d" % (number, n))
    children.listen()
    corpus.run["local"] = [socket.gethostname(), os.getpid(), started(os.getpid())]
    corpus.save_settings()
    with concurrent.futures.ThreadPoolExecutor(tasks or 1) as pool:
        for done in [pool.submit(one, k + 1) for k in range(n)]:
            done.result()
    corpus.run["local"] = None
    if not children.stopped:
        say("finished in %.1f s" % (time.time() - begun))


def started(pid):
    """When a process began, as the kernel counts; None if it does not exist."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return fields[19] if fields[0] not in "ZX" else None  # ended, but not yet collected
    except (OSError, IndexError):
        return None


def active_tasks(corpus):
    """(number of tasks of the last run that wait or run, [what is stuck]). Raises Away."""
    if corpus.run.get("local"):
        host, pid, begun = corpus.run["local"]
        if host != socket.gethostname():
            say("the last run was started on %s; only %s can tell whether it is in progress" % (host, host))
            return 0, []
        return int(begun is not None and started(pid) == begun), []
    ids = [job for k in (-1, 0) for job in corpus.jobs(corpus.number + k).values()]  # a finish job begins the next run
    scheduler = scheduler_of(corpus)
    return scheduler.active(ids) if ids and scheduler else (0, [])
