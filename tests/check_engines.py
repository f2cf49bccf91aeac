#!/usr/bin/env python3
"""Engines carry out the plan of scripts/corpus and give its corpus: Slurm and Grid Engine, which the tests start, Snakemake, Nextflow."""
import glob
import re

import numpy as np

import dicomfile
from corpora import *

WORKFLOW = os.path.join(ROOT, "scripts", "snakemake")


def counts(out, status=1):
    """What became of the slides."""
    st = status_of(out, status)
    return st["states"], sorted((f["slide"], f["stage"], f["state"], f["reason"]) for f in st["failed"] + st["damaged"])


# --- schedulers ---

def cluster_script(name):
    for d in (os.environ.get("WSI_CLUSTER"), os.path.join(ROOT, "..", "shared", "cluster")):
        if d and os.access(os.path.join(d, name), os.X_OK):
            return os.path.join(os.path.abspath(d), name)
    raise Skip("%s is not here (WSI_CLUSTER names a folder with it)" % name)


class Cluster:
    """A real scheduler, started for one test; its variables are in .env."""

    def __init__(self, name, *options):
        self.up, self.down = cluster_script(name + "-up"), cluster_script(name + "-down")
        self.options = options

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="wsi-")  # a short path: it holds sockets
        try:
            p = run(self.up, *self.options, self.folder, status=None, timeout=300)
        except subprocess.TimeoutExpired:
            raise Skip("%s did not start within 300 s" % self.up)
        if p.returncode:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise Skip("it cannot be started: %s" % p.err.strip().split("\n")[-1])
        text = run("bash", "-c", ". %s/env.sh; env -0" % self.folder).out
        self.env = dict(v.split("=", 1) for v in text.split("\0") if "=" in v)
        # no GPU is here: tasks compute on the CPU, also with a build that has CUDA
        self.env.update(TOOLS, H5SPEC=h5spec_with("cpu"))
        return self

    def __exit__(self, *_):
        run(self.down, "-r", self.folder, status=None)
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, *argv, status=0):
        return run(*argv, status=status, env=self.env).out

    def corpus(self, *argv, status=0):
        return run(sys.executable, CORPUS, *argv, status=status, env=self.env)

    def wait(self, out, seconds=200):
        end = time.time() + seconds
        while time.time() < end:
            st = json.loads(self.corpus("status", "--json", "-o", out, status=None).out)
            if not st["active_tasks"]:
                return st
            time.sleep(1)
        raise Failed("still %d tasks after %d s" % (st["active_tasks"], seconds))


@later("ci")
def test_the_slurm_commands_of_the_readme():
    """The blocks of scripts/README.md that need Slurm, on a Slurm that has the partitions they name."""
    text = open(os.path.join(ROOT, "scripts", "README.md")).read()
    blocks = re.findall(r"```sh skip needs Slurm.*\n((?:.*\n)*?)```", text)
    expect(len(blocks) == 2, "%d blocks", len(blocks))
    folder = folder_with({"slides/" + os.path.basename(s): s for s in slides(3)})
    shutil.copytree(os.path.join(ROOT, "scripts"), folder + "/scripts")
    with Cluster("slurm", "-n", "1", "-c", "8", "-g", "1") as c:
        for partition in ("cpu", "gpu"):
            c.ask("scontrol", "create", "PartitionName=" + partition, "Nodes=ALL")
        c.env["PATH"] = BUILD + os.pathsep + c.env["PATH"]
        for block in blocks:
            run("bash", "-ec", block.replace("--watch", "--watch 1"), env=c.env, cwd=folder)
    want = content(spectrum(sorted(glob.glob(folder + "/study/stores/*.h5"))))
    for out in ("study", "small"):
        equal(content("%s/%s/corpus.h5" % (folder, out)), want, out)


def mounted(folder, size):
    """A small file system in a folder; Skip if that is not allowed here."""
    os.makedirs(folder)
    if run("mount", "-t", "tmpfs", "-o", "size=" + size, "none", folder, status=None).returncode:
        raise Skip("no file system can be mounted here")


def states(c, out):
    return {k: n for k, n in c.wait(out, 400)["states"].items() if n}


@later("ci")
def test_a_weekend_on_slurm():
    """One cluster, several corpora at the same time: a node without OUT's file system, one that hangs, one that the user
    excludes; programs that are stopped on two nodes; a full disk; tasks that never run; a requeue; a small array."""
    given, disk = folder_with(slides(6)), os.path.join(tmp(), "disk")
    mounted(disk + "/results", "300k")
    try:
        with Cluster("slurm", "-n", "4", "-c", "2") as c:
            call = lambda out, *options: [sys.executable, CORPUS, "run", "-o", out, "--scheduler", "slurm", "--gpus", "0", given, *options]
            begin = lambda out, *after, tool=WSI2H5: run(*call(out, "--", "-c", "1", *after), env=dict(c.env, WSI2H5=tool))
            sick, stopped, held, never, small = [os.path.join(c.folder, name, "out") for name in ("sick", "stopped", "held", "never", "small")]
            os.makedirs(os.path.dirname(sick))
            pid = open(c.folder + "/run/slurmd.n2.pid").read().strip()
            run("nsenter", "-t", pid, "-m", "mount", "-t", "tmpfs", "none", os.path.dirname(sick))
            hangs = dict(c.env, WSI2H5=at_work(WSI2H5, "[ $SLURMD_NODENAME != n3 ] || sleep 300"))
            waiting = subprocess.Popen(call(sick, "--wait", "--", "-c", "1", "--exclude=n1", "--time=1"), env=hangs, stderr=subprocess.PIPE)
            begin(held, "--hold")
            failed = c.ask("sbatch", "--parsable", "-o", "/dev/null", "--wrap", "false").strip()
            begin(never, "--dependency=afterok:" + failed)
            begin(stopped, tool=at_work(WSI2H5, "[ $SLURMD_NODENAME = n4 ] || exit 3"))
            begin(disk)
            expect(sum(states(c, stopped).get(s, 0) for s in ("interrupted", "done")) == 6, "stopped: %s", states(c, stopped))
            st = c.wait(disk)
            says(st["failed"][0]["reason"], "no space left on the disk")
            expect(st["run"] == 1 and 0 < st["processed"] < 6 and st["states"]["bad slide"] == 0, "full disk: %s", st["states"])
            for out, why, remedy in ((held, "JobHeldUser", "scontrol release "), (never, "DependencyNeverSatisfied", "scancel ")):
                says(c.corpus("status", "-o", out).out, "waits for ever (%s): %s" % (why, remedy))
                says(c.corpus("run", "-o", out, given, status=1).err, "a run is going on")
                c.corpus("cancel", "-o", out)
                expect(states(c, out) == {"to do": 6}, "cancelled: %s", out)
            text = waiting.communicate(timeout=400)[1].decode()
            expect(states(c, sick) == {"done": 6}, "sick nodes: %s %s", states(c, sick), text)
            asked = json.load(open(sick + "/corpus.json"))["run"]["exclude"]
            expect(asked == sorted(asked) and set(asked) <= {"n2", "n3"} and asked, "left out: %s", asked)
            hosts = {row["host"] for log in glob.glob(sick + "/logs/*.jsonl") for row in json_lines(open(log).read())}
            expect("n4" in hosts and "n1" not in hosts, "excluded by the user: %s", hosts)
            with open(c.folder + "/slurm.conf", "a") as f:
                f.write("MaxArraySize=4\n")
            c.ask("scontrol", "reconfigure")
            begin(small)
            expect(max(int(line.split("\t")[0]) for line in open(small + "/plan.tsv").read().splitlines()[2:]) == 3, "batches")
            job = dict(line.split("\t")[1:] for line in open(small + "/jobs").read().splitlines())["convert"]
            c.ask("scontrol", "requeue", job + "_1", status=None)
            expect(states(c, small) == {"done": 6}, "requeued: %s", states(c, small))
    finally:
        run("umount", disk + "/results")


def limit_memory(c):
    """Slurm of one node ends what takes more memory than it asked for: the kernel does it, if control groups can be used here,
    else Slurm looks once a second."""
    if os.access("/sys/fs/cgroup/memory/tasks", os.W_OK):
        new = {"TaskPlugin": "task/cgroup"}
        with open(c.folder + "/cgroup.conf", "w") as f:
            f.write("CgroupPlugin=cgroup/v1\nConstrainRAMSpace=yes\nConstrainSwapSpace=yes\nAllowedSwapSpace=0\n")
    else:
        new = {"JobAcctGatherType": "jobacct_gather/linux", "JobAcctGatherFrequency": "task=1", "JobAcctGatherParams": "OverMemoryKill"}
    conf = c.folder + "/slurm.conf"
    text = re.sub(r"(?m)^(%s)=.*\n" % "|".join(new), "", open(conf).read()).replace("CR_Core\n", "CR_Core_Memory\n")
    open(conf, "w").write(text + "".join("%s=%s\n" % row for row in new.items()))
    for daemon in (["slurmctld"], ["slurmd", "-N", "n1"]):
        pid = c.folder + "/run/%s.pid" % daemon[0].replace("slurmd", "slurmd.n1")
        os.kill(int(open(pid).read()), signal.SIGTERM)
        while os.path.exists(pid):
            time.sleep(0.05)
        c.ask(*daemon, "-f", conf)


@later("ci")
def test_out_of_memory_on_slurm():
    """Converting takes more memory than its task asks for: with twice as much it succeeds, or the slides are named."""
    given = folder_with(slides(2))
    with Cluster("slurm", "-n", "1", "-c", "4", "-g", "0") as c:
        limit_memory(c)
        for mb, status in ((150, 0), (400, 1)):
            hungry = at_work(WSI2H5, """exec python3 -c 'import os, sys, time
x = b"1" * (%d << 20); time.sleep(2.5); os.execv(sys.argv[1], sys.argv[1:])' %s "$@" """ % (mb, WSI2H5))
            out = os.path.join(c.folder, str(mb), "out")
            p = run(sys.executable, CORPUS, "run", "-o", out, "--scheduler", "slurm", "--gpus", "0", "--wait", given, "--", "-c", "1",
                    "--mem=100", env=dict(c.env, WSI2H5=hungry), status=status)
            expect(json.load(open(out + "/corpus.json"))["run"]["number"] == 2, "tried again: %s", p.out)
            expect("MinMemoryNode=200M" in c.ask("scontrol", "show", "job"), "with more")
            says(p.out, *(["2 processed, 0 to do, 0 failed"] if mb == 150 else ["/s00.svs: ", "/s01.svs: ", "out of memory, also with more"]))


# --- the same inputs, whichever engine works ---

def folder_of_168():
    """168 inputs: 8 damaged, 2 that are no slides, 2 copies, 2 of other resolutions, a DICOM series, MIRAX with and without its files,
    an equal name. What is to become of them."""
    from miraxfile import mirax
    folder = tmp("slides")

    def add(name, k, *options):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        return shutil.copy(made("--size", "300x300", "--seed", str(k), *options, name="engine"), os.path.join(folder, name))
    for k in range(150):
        add("a%03d.svs" % k, k, "--mpp", "0.5")
    for k in range(8):
        add("b%d.svs" % k, 150 + k, "--mpp", "0.5", "--garbage", "0,0")
    open(folder + "/c0.svs", "w").close()
    open(folder + "/c1.svs", "w").write("no slide")
    for k in range(2):
        shutil.copy(folder + "/a%03d.svs" % k, folder + "/d%d.svs" % k)
    add("e0.svs", 160, "--mpp", "0.25")
    add("e1.svs", 161, "--mpp", "none")
    dicomfile.slide(folder + "/f", made("--size", "600x500", "--levels", "2", "--complete-tiles", name="dicom"))
    random_pixels = np.random.default_rng(1).integers(0, 255, (256, 256, 3), np.uint8)
    mirax(folder, 2, 2, {(c, r): random_pixels for c in range(2) for r in range(2)})
    os.mkdir(folder + "/n")
    for name in ("m.mrxs", "m/Slidedat.ini"):
        shutil.copy(os.path.join(folder, name), os.path.join(folder, name.replace("m", "n", 1)))
    add("g/a000.svs", 162, "--mpp", "0.5")
    return folder, {"done": 155, "damaged": 8, "bad slide": 5}


def by_slurm(out, slides):
    with Cluster("slurm", "-n", "4", "-c", "2") as c:
        c.corpus("run", "-o", out, "--scheduler", "slurm", "--gpus", "0", "--wait", "--batch", "20", slides, "--", "-c", "1", status=1)


def by_grid_engine(out, slides):
    with Cluster("sge") as c:
        conf = re.sub(r"(?m)^max_aj_tasks .*", "max_aj_tasks 5", c.ask("qconf", "-sconf"))
        open(c.folder + "/global", "w").write("\n".join(conf.splitlines()[1:]) + "\n")  # without its headline
        c.ask("qconf", "-Mconf", c.folder + "/global")
        c.corpus("run", "-o", out, "--scheduler", "sge", "--gpus", "0", "--wait", "--convert-job", "-pe smp 1", slides, status=1)
        expect(open(out + "/plan.tsv").read().splitlines()[-1].startswith("5\t"), "more batches than the largest array has")


def by_snakemake_on_slurm(out, slides):
    if "--slurm-no-account" not in snakemake(tmp(), "--help").out:
        raise Skip("snakemake-executor-plugin-slurm is not installed")
    corpus("plan", "-o", out, "--gpus", "0", "--batch", "60", slides)
    with Cluster("slurm", "-n", "2", "-c", "4") as c:
        for partition in ("cpu", "gpu"):
            c.ask("scontrol", "create", "PartitionName=" + partition, "Nodes=ALL")
        commands = tmp("commands")  # snakemake takes SLURM_CONF away
        for name in ("sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo"):
            with open(os.path.join(commands, name), "w") as f:
                f.write('#!/bin/sh\nSLURM_CONF=%s exec %s "$@"\n' % (c.env["SLURM_CONF"], shutil.which(name)))
            os.chmod(f.name, 0o755)
        snakemake(out, "gpu=0", "--slurm-status-command", "squeue", "--slurm-no-account", "--latency-wait", "5", profile="slurm",
                  path=commands + os.pathsep + BUILD)


def by_nextflow(out, slides):
    if not shutil.which("nextflow"):
        raise Skip("nextflow is not installed")
    corpus("plan", "-o", out, "--gpus", "0", "--batch", "20", slides)
    run("nextflow", "run", os.path.join(ROOT, "scripts", "nextflow", "main.nf"), "--out", out, "--corpus", CORPUS, cwd=tmp(),
        env=dict(os.environ, **TOOLS))


@later("ci")
def test_the_same_168_inputs_by_every_engine():
    given, want = folder_of_168()
    here, left = os.path.join(tmp(), "here"), []
    local(here, "--gpus", "0", given, status=1)
    states_, rows = counts(here)
    expect({k: n for k, n in states_.items() if n} == want, "%s %s", states_, [r for r in rows if r[2] != "damaged"])
    files = sorted(os.path.basename(f) for f in glob.glob(here + "/corpus*.h5"))
    expect(files == ["corpus-0.25um.h5", "corpus-0.5um.h5", "corpus-unknown-um.h5"], "%s", files)
    for engine in (by_slurm, by_grid_engine, by_snakemake_on_slurm, by_nextflow):
        out = os.path.join(tmp(), engine.__name__)
        try:
            engine(out, given)
        except Skip as e:
            left.append("%s: %s" % (engine.__name__, e))
            continue
        expect(counts(out) == (states_, rows), "%s: %s, not %s", engine.__name__, counts(out), (states_, rows))
        for name in files:
            run(H5SPEC, "compare", "--limit", "0", os.path.join(here, name), os.path.join(out, name))
            equal(content(os.path.join(here, name)), content(os.path.join(out, name)), engine.__name__)
    if left:
        raise Skip("; ".join(left))


# --- Snakemake, Nextflow ---

def snakemake(folder, *options, status=0, profile="local", path=BUILD, tools=TOOLS):
    program = shutil.which("snakemake") or os.path.join(ROOT, "build", "snakemake", "bin", "snakemake")
    if not os.path.exists(program):
        raise Skip("snakemake is not installed (pip install snakemake)")
    env = dict(os.environ, **tools, PATH=path + os.pathsep + os.environ["PATH"], HOME=folder, XDG_CACHE_HOME=folder)
    return run(program, "-s", WORKFLOW + "/Snakefile", "--profile", WORKFLOW + "/profiles/" + profile, "--directory", folder,
               "--cores", "2", "--config", "corpus=" + CORPUS, *options, env=env, timeout=300, status=status)


def few_slides():
    """Two slides of one name, a name with a blank, and a bad one."""
    return folder_with({"a.svs": slides()[0], "b b.svs": slides()[1], "sub/a.svs": slides()[2], "bad.svs": os.devnull})


def test_snakemake_does_what_a_plan_names():
    given, study = few_slides(), tmp("study")
    says(snakemake(study, status=1).err, "run wsi-corpus plan -o")
    corpus("plan", "-o", study, "--gpus", "0", given)
    for _ in range(2):  # the second time nothing remains to be done
        snakemake(study)
        expect(counts(study)[0]["done"] == 3 and os.path.exists(study + "/report.html"), "%s", counts(study))
    shutil.copy(slides()[3], given)
    corpus("plan", "-o", study, given)
    snakemake(study)
    expect(counts(study)[0]["done"] == status_of(study)["corpus"]["slides"] == 4, "the new slide: %s", counts(study))


def test_trouble_is_tried_again_and_at_last_left_to_finish():
    study, calls = tmp("study"), os.path.join(tmp(), "calls")
    sick = dict(TOOLS, WSI2H5=at_work(WSI2H5, "echo x >>%s; exit 5" % calls))
    corpus("plan", "-o", study, "--batch", "9", "--gpus", "0", few_slides(), env=sick)
    snakemake(study, "retries=1", status=1, tools=sick)
    expect(open(calls).read() == "x\n" * 4, "two attempts at two calls (equal names): %s", open(calls).read())
    says(corpus("status", "-o", study, status=5).out, "4 to do")


def test_the_pipeline_of_nextflow_names_what_the_plan_has():
    """Where Nextflow is installed, it does the 168 inputs."""
    text, study = open(os.path.join(ROOT, "scripts", "nextflow", "main.nf")).read(), os.path.join(tmp(), "study")
    corpus("plan", "-o", study, "--gpus", "0", few_slides())
    columns, head = set(re.findall(r"row\.(\w+)", text)), open(study + "/plan.tsv").read().splitlines()[1].split("\t")
    commands = set(re.findall(r"params.corpus\} (\w+)", text))
    expect(columns == {"batch", "step"} <= set(head) and commands == {"step", "finish", "status"}, "%s %s", columns, commands)


if __name__ == "__main__":
    if SAN:
        print("skip engines: they are tried without sanitizers")
    else:
        main(globals(), "ci")
