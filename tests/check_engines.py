#!/usr/bin/env python3
"""Engines carry out the plan of scripts/corpus and give its corpus: Slurm and Grid Engine, which the tests start, Snakemake, Nextflow."""
import contextlib
import glob
import random
import re

import numpy as np

import dicomfile
from lib import *

CORPUS = os.path.join(ROOT, "scripts", "corpus")
WORKFLOW = os.path.join(ROOT, "scripts", "snakemake")
TOOLS = {"WSI2H5": WSI2H5, "H5SPEC": H5SPEC}
ENV = dict(os.environ, **TOOLS)


def corpus(*argv, status=0, env=ENV):
    return run(sys.executable, CORPUS, *argv, env=env, status=status)


def counts(out, status=1):
    """What became of the slides."""
    st = json.loads(corpus("status", "--json", "-o", out, status=status).out)
    return st["states"], sorted((f["slide"], f["stage"], f["state"], f["reason"]) for f in st["failed"] + st["damaged"])


def wrapper(text):
    """A program in place of ours: the shell script `text`."""
    path = os.path.join(tmp("wrapper"), "program")
    with open(path, "w") as f:
        f.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


def h5spec_with(backends):
    """h5spec, except for what --version says."""
    return wrapper('''[ "$1" != --version ] || { echo "h5spec 0"; echo "backends: %s; vectors"; exit 0; }
exec %s "$@"''' % (backends, H5SPEC))


# --- schedulers ---

def cluster_script(name):
    for d in (os.environ.get("WSI_CLUSTER"), os.path.join(ROOT, "..", "shared", "cluster")):
        if d and os.access(os.path.join(d, name), os.X_OK):
            return os.path.join(os.path.abspath(d), name)
    raise Skip("%s is not here (WSI_CLUSTER names a folder with it)" % name)


class Cluster:
    """A real scheduler, started for one test; its variables are in .env."""

    def __init__(self, name, *options):
        if SAN:
            raise Skip("schedulers are tried without sanitizers")
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
    folder = tmp()
    shutil.copytree(os.path.join(ROOT, "scripts"), folder + "/scripts")
    os.mkdir(folder + "/slides")
    for s in slides(3):
        shutil.copy(s, folder + "/slides")
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


def pretended(text):
    """wsi2h5, which at work first does `text`, with the node in SLURMD_NODENAME."""
    return wrapper('case "$*" in *"--list -"*) %s ;; esac\nexec %s "$@"' % (text, WSI2H5))


def few_slides(n=6):
    folder = tmp("slides")
    for k in range(n):
        shutil.copy(made("--size", "600x900", "--seed", str(k + 1), name="s%02d" % k), folder)
    return folder


def states(c, out):
    return {k: n for k, n in c.wait(out, 400)["states"].items() if n}


@later("ci")
def test_a_weekend_on_slurm():
    """One cluster, several corpora at the same time: a node without OUT's file system, one that hangs, one that the user
    excludes; programs that are stopped on two nodes; a full disk; tasks that never run; a requeue; a small array."""
    slides, disk = few_slides(), os.path.join(tmp(), "disk")
    mounted(disk + "/results", "300k")
    try:
        with Cluster("slurm", "-n", "4", "-c", "2") as c:
            call = lambda out, *options: [sys.executable, CORPUS, "run", "-o", out, "--scheduler", "slurm", "--gpus", "0", slides, *options]
            begin = lambda out, *after, tool=WSI2H5: run(*call(out, "--", "-c", "1", *after), env=dict(c.env, WSI2H5=tool))
            sick, stopped, held, never, small = [os.path.join(c.folder, name, "out") for name in ("sick", "stopped", "held", "never", "small")]
            os.makedirs(os.path.dirname(sick))
            pid = open(c.folder + "/run/slurmd.n2.pid").read().strip()
            run("nsenter", "-t", pid, "-m", "mount", "-t", "tmpfs", "none", os.path.dirname(sick))
            hangs = dict(c.env, WSI2H5=pretended("[ $SLURMD_NODENAME != n3 ] || sleep 300"))
            waiting = subprocess.Popen(call(sick, "--wait", "--", "-c", "1", "--exclude=n1", "--time=1"), env=hangs, stderr=subprocess.PIPE)
            begin(held, "--hold")
            failed = c.ask("sbatch", "--parsable", "-o", "/dev/null", "--wrap", "false").strip()
            begin(never, "--dependency=afterok:" + failed)
            begin(stopped, tool=pretended("[ $SLURMD_NODENAME = n4 ] || exit 3"))
            begin(disk)
            expect(sum(states(c, stopped).get(s, 0) for s in ("interrupted", "done")) == 6, "stopped: %s", states(c, stopped))
            st = c.wait(disk)
            says(st["failed"][0]["reason"], "no space left on the disk")
            expect(st["run"] == 1 and 0 < st["processed"] < 6 and st["states"]["bad slide"] == 0, "full disk: %s", st["states"])
            for out, why, remedy in ((held, "JobHeldUser", "scontrol release "), (never, "DependencyNeverSatisfied", "scancel ")):
                says(c.corpus("status", "-o", out).out, "waits for ever (%s): %s" % (why, remedy))
                says(c.corpus("run", "-o", out, slides, status=1).err, "a run is going on")
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
    run("nextflow", "run", os.path.join(ROOT, "scripts", "nextflow", "main.nf"), "--out", out, "--corpus", CORPUS, cwd=tmp(), env=ENV)


@later("ci")
def test_the_same_168_inputs_by_every_engine():
    slides, want = folder_of_168()
    local, left = os.path.join(tmp(), "local"), []
    corpus("run", "--scheduler", "local", "-o", local, "--gpus", "0", slides, status=1)
    states_, rows = counts(local)
    expect({k: n for k, n in states_.items() if n} == want, "%s %s", states_, [r for r in rows if r[2] != "damaged"])
    files = sorted(os.path.basename(f) for f in glob.glob(local + "/corpus*.h5"))
    expect(files == ["corpus-0.25um.h5", "corpus-0.5um.h5", "corpus-unknown-um.h5"], "%s", files)
    for engine in (by_slurm, by_grid_engine, by_snakemake_on_slurm, by_nextflow):
        out = os.path.join(tmp(), engine.__name__)
        try:
            engine(out, slides)
        except Skip as e:
            left.append("%s: %s" % (engine.__name__, e))
            continue
        expect(counts(out) == (states_, rows), "%s: %s, not %s", engine.__name__, counts(out), (states_, rows))
        for name in files:
            run(H5SPEC, "compare", "--limit", "0", os.path.join(local, name), os.path.join(out, name))
            equal(content(os.path.join(local, name)), content(os.path.join(out, name)), engine.__name__)
        print("# %s: %s" % (engine.__name__, counts(out)[0]), flush=True)
    if left:
        raise Skip("; ".join(left))



# --- Snakemake, Nextflow ---

def snakemake(folder, *options, status=0, profile="local", path=BUILD):
    program = shutil.which("snakemake") or os.path.join(ROOT, "build", "snakemake", "bin", "snakemake")
    if not os.path.exists(program):
        raise Skip("snakemake is not installed (pip install snakemake)")
    env = dict(ENV, PATH=path + os.pathsep + os.environ["PATH"], HOME=folder, XDG_CACHE_HOME=folder)
    return run(program, "-s", WORKFLOW + "/Snakefile", "--profile", WORKFLOW + "/profiles/" + profile, "--directory", folder,
               "--cores", "2", "--config", "corpus=" + CORPUS, *options, env=env, timeout=300, status=status)


def folder_of_slides():
    """Four slides, of which two have the same name, two resolutions, and one bad one."""
    folder = tmp("slides")
    for k, (name, mpp) in enumerate((("a.svs", "0.5"), ("b b.svs", "0.5"), ("sub/a.svs", "0.25"), ("c.svs", "none"))):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        shutil.copy(made("--size", "700x600", "--seed", str(k), "--mpp", mpp, name="s%d" % k), os.path.join(folder, name))
    open(folder + "/bad.svs", "w").write("no slide")
    return folder


def test_the_corpus_is_that_of_scripts_corpus():
    slides, study, other = folder_of_slides(), tmp("study"), os.path.join(tmp(), "corpus")
    corpus("plan", "-o", study, "--gpus", "0", slides)
    snakemake(study)
    corpus("run", "--scheduler", "local", "-o", other, "--gpus", "0", slides, status=1)
    files = sorted(os.path.basename(f) for f in glob.glob(other + "/corpus*.h5"))
    expect(files == ["corpus-0.25um.h5", "corpus-0.5um.h5", "corpus-unknown-um.h5"], "%s", files)
    for name in files:
        equal(content(os.path.join(study, name)), content(os.path.join(other, name)), name)
    expect(counts(study) == counts(other) and os.path.exists(study + "/report.html"), "%s, not %s", counts(study), counts(other))
    before = os.stat(study + "/corpus-0.5um.h5").st_mtime_ns
    snakemake(study)  # nothing remains to be done
    os.unlink(slides + "/bad.svs")
    shutil.copy(made("--size", "700x600", "--seed", "9", "--mpp", "0.5", name="new"), slides)
    corpus("plan", "-o", study, slides)
    snakemake(study)
    expect(os.stat(study + "/corpus-0.5um.h5").st_mtime_ns != before, "the new slide")
    expect(counts(study)[0]["done"] == 5, "%s", counts(study))


def test_trouble_is_tried_again_and_at_last_left_to_finish():
    slides, study, d = folder_of_slides(), tmp("study"), tmp()
    sick = os.path.join(d, "wsi2h5")
    with open(sick, "w") as f:
        f.write('#!/bin/sh\ncase "$*" in *"--list -"*) echo x >>%s/calls; exit 5 ;; esac\nexec %s "$@"\n' % (d, WSI2H5))
    os.chmod(sick, 0o755)
    before = ENV["WSI2H5"]
    ENV["WSI2H5"] = sick
    try:
        corpus("plan", "-o", study, "--batch", "9", "--gpus", "0", slides)
        snakemake(study, "retries=1", status=1)
    finally:
        ENV["WSI2H5"] = before
    expect(open(d + "/calls").read() == "x\n" * 4, "two attempts at two calls (equal names): %s", open(d + "/calls").read())
    says(corpus("status", "-o", study, status=5).out, "5 to do")


def test_a_plan_is_needed():
    p = snakemake(tmp(), status=1)
    says(p.out + p.err, "run wsi-corpus plan -o")


def test_the_pipeline_of_nextflow_names_what_the_plan_has():
    """Nextflow itself is rarely installed; where it is, it runs."""
    text = open(os.path.join(ROOT, "scripts", "nextflow", "main.nf")).read()
    columns = set(re.findall(r"row\.(\w+)", text))
    slides, study = folder_of_slides(), os.path.join(tmp(), "study")
    corpus("plan", "-o", study, "--gpus", "0", slides)
    head = open(study + "/plan.tsv").read().splitlines()[1].split("\t")
    expect(columns == {"batch", "step"} <= set(head), "%s", columns)
    commands = set(re.findall(r"params.corpus\} (\w+)", text))
    expect(commands == {"step", "finish", "status"}, "%s", commands)
    if not shutil.which("nextflow"):
        raise Skip("nextflow is not installed; its file was only read")
    run("nextflow", "run", os.path.join(ROOT, "scripts", "nextflow", "main.nf"), "--out", study, "--corpus", CORPUS, cwd=tmp(), env=ENV)
    expect(counts(study)[0]["done"] == 4, "%s", counts(study))


if __name__ == "__main__":
    if SAN:
        print("skip snakemake: the workflow is tried without sanitizers")
    else:
        main(globals(), "ci")
