"""Slurm, Grid Engine, and which of the last runs' tasks still wait or run.

A scheduler is a class with the same functions: limit() is the largest array, submit() returns the
id of a new job or raises Refused, active() counts the tasks that wait or run, cancel() ends jobs, ends()
says how tasks ended, not_on() gives the options that keep a job away from nodes, and nodes() lists the
nodes. Arrays have the indices 1 to `tasks`. Each question is asked once for all jobs, or once per job.

A scheduler may be away, for a restart or under load. What asks raises Away; patient() asks again.
"""
import collections
import os
import re
import shlex
import shutil
import socket
import subprocess
import time

from corpus_lib.files import USAGE, ask, die, say

FIRST_PAUSE, LONGEST_PAUSE = 1, 60  # seconds between questions to a scheduler that is away
PATIENCE = 3 * 3600  # seconds after which submitting is given up
ANSWER_SECONDS = 120

# state: the scheduler's word; code, signal: of the program; node: "" if unknown
End = collections.namedtuple("End", "state code signal node")

AWAY = (r"(?i)unable to contact|timed out|connection (refused|reset|closed)|try again|communication failure|"
        r"commlib|unable to send|can.t connect|can.t get (answer|configuration)|not responding|unreachable|"
        r"slurmctld.*(down|starting)|qmaster.*(down|not)|backup controller")


class Refused(Exception):
    """The scheduler did not accept a job; the text says why."""


class Away(Exception):
    """The scheduler does not answer."""


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


class Slurm:
    name, needs = "slurm", "sbatch"

    @staticmethod
    def limit():
        found = re.search(r"MaxArraySize\s*=\s*(\d+)", ask("scontrol", "show", "config").stdout)
        return max(1, int(found.group(1)) - 1) if found else 1000

    @staticmethod
    def submit(kind, argv, log, tasks, at_once, after, options, binary, gpus):
        """Output goes to LOG[.TASK].json (LOG.txt for a `binary`), messages to LOG[.TASK].err."""
        command = ["sbatch", "--parsable", "--export=ALL", "--open-mode=append",
                   "--job-name=corpus-" + kind]
        mark = ".%a" if tasks else ""
        command += ["--output=%s%s.%s" % (log, mark, "txt" if binary else "json"),
                    "--error=%s%s.err" % (log, mark)]
        if tasks:
            command.append("--array=1-%d%s" % (tasks, "%%%d" % at_once if at_once else ""))
        if after:
            command.append("--dependency=afterany:" + ":".join(after))
        if gpus is not None:
            command.append("--gres=" + ("gpu:%d" % gpus if gpus else "none"))
        command += options
        command += ["--wrap", " ".join(shlex.quote(a) for a in argv)] if binary else argv
        mark = "%s.%s" % (os.path.abspath(log), os.urandom(4).hex())
        command[1:1] = ["--comment=" + mark]

        def once():
            try:
                return question(*command)
            except Away:  # the job may be in the queue all the same
                p = question("squeue", "-h", "-o", "%F|%k")
                found = re.search(r"(?m)^(\d+)\|" + re.escape(mark) + "$", p.stdout)
                if not found:
                    raise
                p.returncode, p.stdout = 0, found.group(1)
                return p
        p = patient(once, PATIENCE)
        if p.returncode:
            raise Refused("Slurm refused the %s job: %s" % (kind, p.stderr.strip()))
        return p.stdout.strip().split(";")[0]

    @staticmethod
    def active(ids):
        p = question("squeue", "-h", "-r", "-j", ",".join(ids), "-o", "%i")
        if p.returncode and "Invalid job id" not in p.stderr:
            raise Away("squeue: " + p.stderr.strip())
        return len(p.stdout.split())

    @staticmethod
    def cancel(ids):
        patient(lambda: question("scancel", *ids), PATIENCE)

    @staticmethod
    def ends(ids):
        """{(job, task or None): End}"""
        found = {}
        p = ask("sacct", "-n", "-X", "-P", "-j", ",".join(ids), "-o", "JobID,State,ExitCode,NodeList",
                timeout=ANSWER_SECONDS) if shutil.which("sacct") else None  # its database may be away alone
        for line in p.stdout.split("\n") if p and p.returncode == 0 else []:
            words = line.split("|")
            job = re.fullmatch(r"(\d+)(?:_(\d+))?", words[0])
            if job and len(words) == 4:
                found[Slurm.key(*job.groups())] = Slurm.end(*words[1:])
        for number in ids if not found else []:
            for line in question("scontrol", "show", "job", "-o", number).stdout.split("\n"):
                row = dict(w.split("=", 1) for w in line.split() if "=" in w)
                if "JobState" in row and row.get("ArrayTaskId", "1").isdigit():
                    found[Slurm.key(number, row.get("ArrayTaskId"))] = Slurm.end(
                        row["JobState"], row.get("ExitCode", ""), row.get("NodeList", ""))
        return found

    @staticmethod
    def key(job, task):
        return job, int(task) if task else None

    @staticmethod
    def end(state, code, node):
        code, _, signalled = code.partition(":")
        node = "" if node in ("(null)", "None assigned", "None") else node
        return End("Slurm: " + state.split(" ")[0], int(code or 0), int(signalled or 0), node)

    @staticmethod
    def not_on(nodes):
        return ["--exclude=" + ",".join(nodes)] if nodes else []

    @staticmethod
    def nodes():
        return set(question("sinfo", "-h", "-N", "-o", "%N").stdout.split())


class GridEngine:
    name, needs = "sge", "qsub"

    @staticmethod
    def limit():
        found = re.search(r"^max_aj_tasks\s+(\d+)", ask("qconf", "-sconf").stdout, re.M)
        return int(found.group(1)) or 10 ** 9 if found else 75000

    @staticmethod
    def submit(kind, argv, log, tasks, at_once, after, options, binary, gpus):
        """Output goes to LOG[.TASK].json (LOG.txt for a `binary`), messages to LOG[.TASK].err."""
        mark = ".$TASK_ID" if tasks else ""
        command = ["qsub", "-terse", "-N", "corpus-" + kind,
                   "-o", "%s%s.%s" % (log, mark, "txt" if binary else "json"),
                   "-e", "%s%s.err" % (log, mark), "-r", "y"]
        for name in ("PATH", "WSI2H5", "H5SPEC", "WSI_STAGE", "WSI_STAGE_DIR"):
            if name in os.environ:
                command += ["-v", "%s=%s" % (name, os.environ[name])]
        if tasks:
            command += ["-t", "1-%d" % tasks] + (["-tc", str(at_once)] if at_once else [])
        if after:
            command += ["-hold_jid", ",".join(after)]
        if gpus is not None:
            command += ["-l", "gpu=%d" % gpus]
        command += options + (["-b", "y", "-shell", "n"] if binary else []) + argv
        p = patient(lambda: question(*command), PATIENCE)
        if p.returncode:
            raise Refused("Grid Engine refused the %s job: %s" % (
                kind, p.stderr.strip() or p.stdout.strip()))
        return p.stdout.strip().split("\n")[-1].split(".")[0]

    @staticmethod
    def active(ids):
        p = question("qstat", "-u", "*")
        if p.returncode:
            raise Away("qstat: " + p.stderr.strip())
        rows = [line.split() for line in p.stdout.split("\n") if line.split()]
        return sum(GridEngine.tasks_of(row[-1]) for row in rows if row[0] in ids)

    @staticmethod
    def tasks_of(word):
        """The number of tasks of a line of qstat, which ends with 7, 5-10:1 or 3,5-10:1; the line of
        a job without tasks ends with its slots."""
        n = 0
        for part in word.split(","):
            found = re.fullmatch(r"(\d+)-(\d+):(\d+)", part)
            a, b, step = map(int, found.groups()) if found else (1, 1, 1)
            n += max(b - a, 0) // max(step, 1) + 1
        return n

    @staticmethod
    def cancel(ids):
        patient(lambda: question("qdel", *ids), PATIENCE)

    @staticmethod
    def ends(ids):
        """{(job, task or None): End}"""
        found = {}
        for number in ids:
            for text in re.split(r"(?m)^=+$", question("qacct", "-j", number).stdout):
                row = dict(re.findall(r"(?m)^(\w+)\s+(.*?)\s*$", text))
                if "exit_status" not in row:
                    continue
                code = int(row["exit_status"].split()[0])
                task = row.get("taskid", "")
                failed = row.get("failed", "0").split()[0]
                found[number, int(task) if task.isdigit() else None] = End(
                    "Grid Engine: failed %s, exit status %d" % (row.get("failed", "0"), code) if code or failed != "0"
                    else "Grid Engine: done", code, code - 128 if code > 128 else 0, row.get("hostname", ""))
        return found

    @staticmethod
    def not_on(nodes):
        return ["-l", "hostname=" + "&".join("!" + n for n in nodes)] if nodes else []

    @staticmethod
    def nodes():
        rows = [line.split() for line in question("qhost").stdout.split("\n")[3:]]
        return {row[0] for row in rows if row}


SCHEDULERS = {"slurm": Slurm, "sge": GridEngine}


def choose_scheduler(name, options):
    """The name of the scheduler to use; `options` are those after --."""
    if name == "auto":
        name = ("slurm" if shutil.which("sbatch") else
                "sge" if shutil.which("qsub") and os.environ.get("SGE_ROOT") else "local")
        say("scheduler: %s (%s)" % (name, "found %s" % SCHEDULERS[name].needs if name != "local"
                                    else "found neither sbatch nor qsub"))
    if name == "local" and options:
        die("options after -- are for a scheduler; leave them out with --scheduler local", USAGE)
    if name != "local" and not shutil.which(SCHEDULERS[name].needs):
        die("--scheduler %s: %s is not in PATH" % (name, SCHEDULERS[name].needs))
    return name


def started(pid):
    """When a process began, as the kernel counts; None if it does not exist."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return fields[19] if fields[0] not in "ZX" else None  # ended, but not yet collected
    except (OSError, IndexError):
        return None


def active_tasks(corpus):
    """(scheduler of the last run or None for this machine, number of its tasks that wait or run). Raises
    Away."""
    runs = corpus.runs()[-2:]  # a run that tries slides again is begun by the one before
    jobs = [j for run in runs for j in corpus.jobs(run)]
    if not jobs:
        return None, 0
    last = corpus.jobs(runs[-1]) or jobs
    if last[0][0] == "local":
        host, pid, begun = last[0][1].split(" ")
        if host != socket.gethostname():
            say("the last run was started on %s; only there can be seen whether it goes on" % host)
            return None, 0
        return None, int(started(int(pid)) == begun)
    scheduler = SCHEDULERS[last[0][3]]
    ids = [j[1] for j in jobs if j[1].isdigit()]
    return scheduler, scheduler.active(ids) if ids else 0
