"""Slurm, Grid Engine, and which of the last run's tasks still wait or run."""
import os
import re
import shlex
import shutil
import socket
import subprocess

from corpus_lib.files import USAGE, die, say


def ask(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                          universal_newlines=True)


class Slurm:
    name = "slurm"

    @staticmethod
    def limit():
        """The most tasks of an array (indices from 1)."""
        found = re.search(r"MaxArraySize\s*=\s*(\d+)", ask("scontrol", "show", "config").stdout)
        return max(1, int(found.group(1)) - 1) if found else 1000

    @staticmethod
    def submit(kind, argv, log, tasks, at_once, after, options, binary, gpus):
        command = ["sbatch", "--parsable", "--export=ALL", "--open-mode=append", "--job-name=corpus-" + kind]
        mark = ".%a" if tasks else ""
        command += ["--output=%s%s.json" % (log, mark), "--error=%s%s.err" % (log, mark)]
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
            die("Slurm refused a job: %s\n  %s" % (p.stderr.strip(), " ".join(command)))
        return p.stdout.strip().split(";")[0]

    @staticmethod
    def active(ids):
        p = ask("squeue", "-h", "-r", "-j", ",".join(ids), "-o", "%i")
        if p.returncode and "Invalid job id" not in p.stderr:
            die("cannot ask Slurm: " + p.stderr.strip())
        return len(p.stdout.split())

    @staticmethod
    def cancel(ids):
        ask("scancel", *ids)

    @staticmethod
    def end_of(number, task):
        p = ask("sacct", "-n", "-X", "-P", "-j", "%s_%d" % (number, task), "-o", "State,ExitCode")
        if p.returncode == 0 and "|" in p.stdout:
            state, code = p.stdout.split("\n")[0].split("|")
        else:
            text = ask("scontrol", "show", "job", "-o", "%s_%d" % (number, task)).stdout
            found = re.search(r"JobState=(\S+).*?ExitCode=(\S+)", text)
            if not found:
                return ""
            state, code = found.groups()
        signalled = code.split(":")[1] if ":" in code else "0"
        return "Slurm: %s%s" % (state, ", signal " + signalled if signalled != "0" else "")


class GridEngine:
    name = "sge"

    @staticmethod
    def limit():
        found = re.search(r"^max_aj_tasks\s+(\d+)", ask("qconf", "-sconf").stdout, re.M)
        return int(found.group(1)) or 10 ** 9 if found else 75000

    @staticmethod
    def submit(kind, argv, log, tasks, at_once, after, options, binary, gpus):
        mark = ".$TASK_ID" if tasks else ""
        command = ["qsub", "-terse", "-N", "corpus-" + kind, "-o", "%s%s.json" % (log, mark), "-e",
                   "%s%s.err" % (log, mark), "-r", "y"]
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
            die("Grid Engine refused a job: %s\n  %s" % (p.stderr.strip() or p.stdout.strip(), " ".join(command)))
        return p.stdout.strip().split("\n")[-1].split(".")[0]

    @staticmethod
    def active(ids):
        p = ask("qstat", "-u", "*")
        if p.returncode:
            die("cannot ask Grid Engine: " + p.stderr.strip())
        return sum(line.split()[:1] != [] and line.split()[0] in ids for line in p.stdout.split("\n"))

    @staticmethod
    def cancel(ids):
        ask("qdel", *ids)

    @staticmethod
    def end_of(number, task):
        text = ask("qacct", "-j", number, "-t", str(task)).stdout
        found = re.findall(r"^failed\s+(.*?)\s*$|^exit_status\s+(\d+)", text, re.M)
        failed, code = (next((f[k] for f in found[-2:] if f[k]), "") for k in (0, 1))
        return "Grid Engine: failed %s, exit status %s" % (failed, code) if code not in ("", "0") else ""


SCHEDULERS = {"slurm": Slurm, "sge": GridEngine}


def choose_scheduler(name, options):
    if name == "auto":
        name = ("slurm" if shutil.which("sbatch") else
                "sge" if shutil.which("qsub") and os.environ.get("SGE_ROOT") else "local")
        say("scheduler %s: %s" % (name, {"slurm": "sbatch is here", "sge": "qsub is here"}.get(
            name, "neither sbatch nor qsub is here")))
    if name == "local" and options:
        die("options after -- are for a scheduler, and this is run here", USAGE)
    needs = {"slurm": "sbatch", "sge": "qsub"}.get(name)
    if needs and not shutil.which(needs):
        die("--scheduler %s: %s is not in PATH" % (name, needs))
    return name


def started(pid):
    """When a process began, in the kernel's words; None when there is none."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return None


def active_tasks(corpus):
    """(scheduler of the last run, or None for this machine; how many of its tasks wait or run)"""
    runs = corpus.runs()
    jobs = corpus.jobs(runs[-1]) if runs else []
    if not jobs:
        return None, 0
    if jobs[0][0] == "local":
        host, pid, begun = jobs[0][1].split(" ")
        if host != socket.gethostname():
            say("the last run was on %s: whether it is still going on can only be seen there" % host)
            return None, 0
        return None, int(started(int(pid)) == begun)
    scheduler = SCHEDULERS[jobs[0][3]]
    return scheduler, scheduler.active([j[1] for j in jobs if j[1] != "-"])
