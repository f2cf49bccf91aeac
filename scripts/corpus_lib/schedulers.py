"""Slurm, Grid Engine, and which of the last run's tasks still wait or run.

A scheduler is a class with the same functions: limit() is the largest array, submit() returns the
id of a new job or raises Refused, active() counts the tasks that wait or run, cancel() ends jobs,
and end_of() says how a task ended, "" if that is unknown. Arrays have the indices 1 to `tasks`.
"""
import os
import re
import shlex
import shutil
import socket

from corpus_lib.files import USAGE, ask, die, say


class Refused(Exception):
    """The scheduler did not accept a job; the text says why."""


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
        p = ask(*command)
        if p.returncode:
            raise Refused("Slurm refused the %s job: %s" % (kind, p.stderr.strip()))
        return p.stdout.strip().split(";")[0]

    @staticmethod
    def active(ids):
        p = ask("squeue", "-h", "-r", "-j", ",".join(ids), "-o", "%i")
        if p.returncode and "Invalid job id" not in p.stderr:
            die("squeue failed: " + p.stderr.strip())
        return len(p.stdout.split())

    @staticmethod
    def cancel(ids):
        ask("scancel", *ids)

    @staticmethod
    def end_of(number, task):
        job = "%s_%d" % (number, task) if task else number
        p = ask("sacct", "-n", "-X", "-P", "-j", job, "-o", "State,ExitCode") \
            if shutil.which("sacct") else None
        if p and p.returncode == 0 and "|" in p.stdout:
            state, code = p.stdout.split("\n")[0].split("|")
        else:
            text = ask("scontrol", "show", "job", "-o", job).stdout
            found = re.search(r"JobState=(\S+).*?ExitCode=(\S+)", text)
            if not found:
                return ""
            state, code = found.groups()
        signalled = code.split(":")[1] if ":" in code else "0"
        return "Slurm: %s%s" % (state, ", signal " + signalled if signalled != "0" else "")


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
        for name in ("PATH", "WSI2H5", "H5SPEC"):
            command += ["-v", "%s=%s" % (name, os.environ[name])]
        if tasks:
            command += ["-t", "1-%d" % tasks] + (["-tc", str(at_once)] if at_once else [])
        if after:
            command += ["-hold_jid", ",".join(after)]
        if gpus is not None:
            command += ["-l", "gpu=%d" % gpus]
        command += options + (["-b", "y", "-shell", "n"] if binary else []) + argv
        p = ask(*command)
        if p.returncode:
            raise Refused("Grid Engine refused the %s job: %s" % (
                kind, p.stderr.strip() or p.stdout.strip()))
        return p.stdout.strip().split("\n")[-1].split(".")[0]

    @staticmethod
    def active(ids):
        p = ask("qstat", "-u", "*")
        if p.returncode:
            die("qstat failed: " + p.stderr.strip())
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
        ask("qdel", *ids)

    @staticmethod
    def end_of(number, task):
        text = ask("qacct", "-j", number, *(["-t", str(task)] if task else [])).stdout
        found = re.findall(r"^failed\s+(.*?)\s*$|^exit_status\s+(\d+)", text, re.M)
        failed, code = (next((f[k] for f in found[-2:] if f[k]), "") for k in (0, 1))
        if code in ("", "0"):
            return ""
        return "Grid Engine: failed %s, exit status %s" % (failed, code)


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
    """(scheduler of the last run or None for this machine, number of its tasks that wait or run)"""
    runs = corpus.runs()
    jobs = corpus.jobs(runs[-1]) if runs else []
    if not jobs:
        return None, 0
    if jobs[0][0] == "local":
        host, pid, begun = jobs[0][1].split(" ")
        if host != socket.gethostname():
            say("the last run was started on %s; only there can be seen whether it goes on" % host)
            return None, 0
        return None, int(started(int(pid)) == begun)
    scheduler = SCHEDULERS[jobs[0][3]]
    ids = [j[1] for j in jobs if j[1] != "-"]
    return scheduler, scheduler.active(ids) if ids else 0
