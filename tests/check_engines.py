#!/usr/bin/env python3
"""Engines carry out the plan of scripts/corpus and give its corpus: Slurm and Grid Engine, which the tests start, Snakemake, Nextflow."""
import numpy as np

import dicomfile
from corpora import *
from miraxfile import mirax


# --- schedulers ---

class Cluster:
    """A real scheduler, started for one test; its variables are in .env."""

    def __init__(self, name, *options):
        folders = (os.environ.get("WSI_CLUSTER"), os.path.join(ROOT, "..", "shared", "cluster"))
        here = [os.path.abspath(d) for d in folders if d and os.access(os.path.join(d, name + "-up"), os.X_OK)]
        if not here:
            raise Skip("%s-up is not here (WSI_CLUSTER names a folder with it)" % name)
        self.up, self.down, self.options = here[0] + "/%s-up" % name, here[0] + "/%s-down" % name, options

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
        for partition in ("cpu", "gpu") if "slurm" in self.up else ():  # which README and profiles name
            self.ask("scontrol", "create", "PartitionName=" + partition, "Nodes=ALL")
        return self

    def __exit__(self, *_):
        run(self.down, "-r", self.folder, status=None)
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, *argv, status=0, **env):
        return run(*argv, status=status, env=dict(self.env, **env))

    def corpus(self, *argv, **kw):
        return self.ask(sys.executable, CORPUS, *argv, **kw)

    def wait(self, out):
        for _ in range(400):
            st = json.loads(self.corpus("status", "--json", "-o", out, status=None).out)
            if not st["active_tasks"]:
                return st
            time.sleep(1)
        raise Failed("still %d tasks" % st["active_tasks"])

    def states(self, out):
        return {k: n for k, n in self.wait(out)["states"].items() if n}


@later("ci")
def test_the_slurm_commands_of_the_readme():
    """The blocks of scripts/README.md that need Slurm."""
    text = open(os.path.join(ROOT, "scripts", "README.md")).read()
    blocks = re.findall(r"```sh skip needs Slurm.*\n((?:.*\n)*?)```", text)
    expect(len(blocks) == 2, "%d blocks", len(blocks))
    folder = folder_with({"slides/" + os.path.basename(s): s for s in slides(3)})
    shutil.copytree(os.path.join(ROOT, "scripts"), folder + "/scripts")
    with Cluster("slurm", "-n", "1", "-c", "8", "-g", "1") as c:
        for block in blocks:
            run("bash", "-ec", block.replace("--watch", "--watch 1"), env=dict(c.env, PATH=BUILD + os.pathsep + c.env["PATH"]), cwd=folder)
    want = direct(glob.glob(folder + "/study/stores/*.h5"))
    for out in ("study", "small"):
        equal(content("%s/%s/corpus.h5" % (folder, out)), want, out)


@later("ci")
def test_a_weekend_on_slurm():
    """One cluster, several corpora at the same time: a node without OUT's file system, one that hangs, one that the user
    excludes; programs that are stopped on two nodes; a full disk; tasks that never run; a requeue; a small array."""
    given, disk = folder_with(slides(6)), new_out()
    os.makedirs(disk + "/results")
    if run("mount", "-t", "tmpfs", "-o", "size=300k", "none", disk + "/results", status=None).returncode:
        raise Skip("no file system can be mounted here")
    try:
        with Cluster("slurm", "-n", "4", "-c", "2") as c:
            call = lambda out, *options: [sys.executable, CORPUS, "run", "-o", out, "--scheduler", "slurm", "--gpus", "0", given, *options]
            begin = lambda out, *after, tool=WSI2H5: c.ask(*call(out, "--", "-c", "1", *after), WSI2H5=tool)
            sick, stopped, held, never, small = [os.path.join(c.folder, name, "out") for name in ("sick", "stopped", "held", "never", "small")]
            os.makedirs(os.path.dirname(sick))
            pid = open(c.folder + "/run/slurmd.n2.pid").read().strip()
            run("nsenter", "-t", pid, "-m", "mount", "-t", "tmpfs", "none", os.path.dirname(sick))
            hangs = dict(c.env, WSI2H5=at_work(WSI2H5, "[ $SLURMD_NODENAME != n3 ] || sleep 300"))
            waiting = subprocess.Popen(call(sick, "--wait", "--", "-c", "1", "--exclude=n1", "--time=1"), env=hangs, stderr=subprocess.PIPE)
            begin(held, "--hold")
            begin(never, "--dependency=afterok:" + c.ask("sbatch", "--parsable", "-o", "/dev/null", "--wrap", "false").out.strip())
            begin(stopped, tool=at_work(WSI2H5, "[ $SLURMD_NODENAME = n4 ] || exit 3"))
            begin(disk)
            expect(sum(c.states(stopped).get(s, 0) for s in ("interrupted", "done")) == 6, "stopped: %s", c.states(stopped))
            st = c.wait(disk)
            says(st["failed"][0]["reason"], "no space left on the disk")
            expect(st["run"] == 1 and 0 < st["processed"] < 6 and st["states"]["bad slide"] == 0, "full disk: %s", st["states"])
            for out, why, remedy in ((held, "JobHeldUser", "scontrol release "), (never, "DependencyNeverSatisfied", "scancel ")):
                says(c.corpus("status", "-o", out).out, "waits for ever (%s): %s" % (why, remedy))
                says(c.corpus("run", "-o", out, given, status=1).err, "a run is in progress")
                c.corpus("cancel", "-o", out)
                expect(c.states(out) == {"to do": 6}, "cancelled: %s", out)
            text = waiting.communicate(timeout=400)[1].decode()
            expect(c.states(sick) == {"done": 6}, "sick nodes: %s %s", c.states(sick), text)
            asked = json.load(open(sick + "/corpus.json"))["run"]["exclude"]
            expect(asked == sorted(asked) and set(asked) <= {"n2", "n3"} and asked, "left out: %s", asked)
            hosts = {row["host"] for log in glob.glob(sick + "/logs/*.jsonl") for row in json_lines(open(log).read())}
            expect("n4" in hosts and "n1" not in hosts, "excluded by the user: %s", hosts)
            with open(c.folder + "/slurm.conf", "a") as f:
                f.write("MaxArraySize=4\n")
            c.ask("scontrol", "reconfigure")
            begin(small)
            expect(plan_of(small)[-1][0] == "3", "batches: %s", plan_of(small)[-1])
            job = dict(line.split("\t")[1:] for line in open(small + "/jobs").read().splitlines())["convert"]
            c.ask("scontrol", "requeue", job + "_1", status=None)
            expect(c.states(small) == {"done": 6}, "requeued: %s", c.states(small))
    finally:
        run("umount", disk + "/results")


def limit_memory(c):
    """Slurm of one node ends what takes more memory than it asked for: the kernel does it, if control groups can be used here,
    else Slurm looks once a second."""
    conf = c.folder + "/slurm.conf"
    new = {"JobAcctGatherType": "jobacct_gather/linux", "JobAcctGatherFrequency": "task=1", "JobAcctGatherParams": "OverMemoryKill"}
    if os.access("/sys/fs/cgroup/memory/tasks", os.W_OK):
        new = {"TaskPlugin": "task/cgroup"}
        with open(c.folder + "/cgroup.conf", "w") as f:
            f.write("CgroupPlugin=cgroup/v1\nConstrainRAMSpace=yes\nConstrainSwapSpace=yes\nAllowedSwapSpace=0\n")
    text = re.sub(r"(?m)^(%s)=.*\n" % "|".join(new), "", open(conf).read()).replace("CR_Core\n", "CR_Core_Memory\n")
    open(conf, "w").write(text + "".join("%s=%s\n" % row for row in new.items()))
    for name, argv in (("slurmctld", ["slurmctld"]), ("slurmd.n1", ["slurmd", "-N", "n1"])):
        pid = c.folder + "/run/%s.pid" % name
        os.kill(int(open(pid).read()), signal.SIGTERM)
        while os.path.exists(pid):
            time.sleep(0.05)
        c.ask(*argv, "-f", conf)


@later("ci")
def test_out_of_memory_on_slurm():
    """Converting takes more memory than its task asks for: with twice as much it succeeds, or the slides are named."""
    given = folder_with(slides(2))
    with Cluster("slurm", "-n", "1", "-c", "4", "-g", "0") as c:
        limit_memory(c)
        for mb, status, words in ((150, 0, ["2 processed, 0 to do, 0 failed"]), (400, 1, ["/s00.svs: ", "/s01.svs: ", "out of memory, also with more"])):
            hungry = at_work(WSI2H5, """exec python3 -c 'import os, sys, time
x = b"1" * (%d << 20); time.sleep(2.5); os.execv(sys.argv[1], sys.argv[1:])' %s "$@" """ % (mb, WSI2H5))
            p = c.corpus("run", "-o", "%s/%d/out" % (c.folder, mb), "--scheduler", "slurm", "--gpus", "0", "--wait", given, "--", "-c", "1",
                         "--mem=100", WSI2H5=hungry, status=status)
            says(p.out, *words)
            says(c.ask("scontrol", "show", "job").out, "MinMemoryNode=200M")


# --- the same inputs, whichever engine works ---

def folder_of_168():
    """168 inputs: 8 damaged, 2 that are no slides, 2 copies, 2 of other resolutions, a DICOM series, MIRAX with and without its files,
    an equal name. What is to become of them."""
    one = lambda k, *options: made("--size", "300x300", "--seed", str(k), *(options or ("--mpp", "0.5")), name="engine")
    names = {"a%03d.svs" % k: one(k) for k in range(150)}
    names.update({"b%d.svs" % k: one(150 + k, "--mpp", "0.5", "--garbage", "0,0") for k in range(8)})
    names.update({"c0.svs": os.devnull, "d0.svs": one(0), "d1.svs": one(1), "g/a000.svs": one(162)})
    folder = folder_with({**names, "e0.svs": one(160, "--mpp", "0.25"), "e1.svs": one(161, "--mpp", "none")})
    open(folder + "/c1.svs", "w").write("no slide")
    dicomfile.slide(folder + "/f", made("--size", "600x500", "--levels", "2", "--complete-tiles", name="dicom"))
    pixels = np.random.default_rng(1).integers(0, 255, (256, 256, 3), np.uint8)
    mirax(folder, 2, 2, {(c, r): pixels for c in range(2) for r in range(2)})
    os.mkdir(folder + "/n")
    for name in ("m.mrxs", "m/Slidedat.ini"):
        shutil.copy(os.path.join(folder, name), os.path.join(folder, name.replace("m", "n", 1)))
    return folder, {"done": 155, "damaged": 8, "copy": 2, "bad slide": 3}


def by_slurm(out, slides):
    with Cluster("slurm", "-n", "4", "-c", "2") as c:
        c.corpus("run", "-o", out, "--scheduler", "slurm", "--gpus", "0", "--wait", "--batch", "20", slides, "--", "-c", "1", status=1)


def by_grid_engine(out, slides):
    with Cluster("sge") as c:
        conf = re.sub(r"(?m)^max_aj_tasks .*", "max_aj_tasks 5", c.ask("qconf", "-sconf").out)
        open(c.folder + "/global", "w").write("\n".join(conf.splitlines()[1:]) + "\n")  # without its headline
        c.ask("qconf", "-Mconf", c.folder + "/global")
        c.corpus("run", "-o", out, "--scheduler", "sge", "--gpus", "0", "--wait", "--convert-job", "-pe smp 1", slides, status=1)
        expect(plan_of(out)[-1][0] == "5", "more batches than the largest array has")


def snakemake(folder, *options, status=0, profile="local", path=BUILD, tools=TOOLS):
    program = shutil.which("snakemake") or os.path.join(ROOT, "build", "snakemake", "bin", "snakemake")
    if not os.path.exists(program):
        raise Skip("snakemake is not installed (pip install snakemake)")
    env = dict(os.environ, **tools, PATH=path + os.pathsep + os.environ["PATH"], HOME=folder, XDG_CACHE_HOME=folder)
    here = os.path.join(ROOT, "scripts", "snakemake")
    return run(program, "-s", here + "/Snakefile", "--profile", here + "/profiles/" + profile, "--directory", folder, "--cores", "2", "--config",
               "corpus=" + CORPUS, *options, env=env, timeout=300, status=status)


def by_snakemake_on_slurm(out, slides):
    if "--slurm-no-account" not in snakemake(tmp(), "--help").out:
        raise Skip("snakemake-executor-plugin-slurm is not installed")
    corpus("plan", "-o", out, "--gpus", "0", "--batch", "60", slides)
    with Cluster("slurm", "-n", "2", "-c", "4") as c:
        commands = tmp("commands")  # snakemake takes SLURM_CONF away
        for name in ("sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo"):
            os.rename(wrapper('SLURM_CONF=%s exec %s "$@"' % (c.env["SLURM_CONF"], shutil.which(name))), os.path.join(commands, name))
        snakemake(out, "gpu=0", "--slurm-status-command", "squeue", "--slurm-no-account", "--latency-wait", "5", profile="slurm",
                  path=commands + os.pathsep + BUILD)


def by_nextflow(out, slides):
    if not shutil.which("nextflow"):
        raise Skip("nextflow is not installed")
    corpus("plan", "-o", out, "--gpus", "0", "--batch", "20", slides)
    run("nextflow", "run", ROOT + "/scripts/nextflow/main.nf", "--out", out, "--corpus", CORPUS, cwd=tmp(), env=dict(os.environ, **TOOLS))


def counts(out, status=1):
    """What became of the slides."""
    st = status_of(out, status)
    return {k: n for k, n in st["states"].items() if n}, sorted((f["slide"], f["stage"], f["state"], f["reason"]) for f in st["failed"] + st["damaged"])


@later("ci")
def test_the_same_168_inputs_by_every_engine():
    (given, want), here, left = folder_of_168(), new_out(), []
    local(here, "--gpus", "0", given, status=1)
    states, rows = counts(here)
    expect(states == want, "%s %s", states, [r for r in rows if r[2] != "damaged"])
    files = sorted(os.path.basename(f) for f in glob.glob(here + "/corpus*.h5"))
    expect(files == ["corpus-0.25um.h5", "corpus-0.5um.h5", "corpus-unknown-um.h5"], "%s", files)
    for engine in (by_slurm, by_grid_engine, by_snakemake_on_slurm, by_nextflow):
        out = os.path.join(tmp(), engine.__name__)
        try:
            engine(out, given)
        except Skip as e:
            left.append("%s: %s" % (engine.__name__, e))
            continue
        expect(counts(out) == (states, rows), "%s: %s, not %s", engine.__name__, counts(out), (states, rows))
        for name in files:
            run(H5SPEC, "compare", "--limit", "0", os.path.join(here, name), os.path.join(out, name))
            equal(content(os.path.join(here, name)), content(os.path.join(out, name)), engine.__name__)
    if left:
        raise Skip("; ".join(left))


# --- Snakemake, Nextflow ---

def few_slides():
    """Two slides of one name, a name with a blank, and a bad one."""
    return folder_with({"a.svs": slides()[0], "b b.svs": slides()[1], "sub/a.svs": slides()[2], "bad.svs": os.devnull})


def test_snakemake_does_what_a_plan_names():
    given, study = few_slides(), tmp("study")
    says(snakemake(study, status=1).err, "run wsi-corpus plan -o")
    corpus("plan", "-o", study, "--gpus", "0", given)
    for _ in range(2):  # the second time nothing remains to be done
        snakemake(study)
        expect(counts(study)[0] == {"done": 3, "bad slide": 1} and os.path.exists(study + "/report.html"), "%s", counts(study))
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
    text, study = open(os.path.join(ROOT, "scripts", "nextflow", "main.nf")).read(), new_out()
    corpus("plan", "-o", study, "--gpus", "0", few_slides())
    columns, commands = set(re.findall(r"row\.(\w+)", text)), set(re.findall(r"params.corpus\} (\w+)", text))
    expect(columns == {"batch", "step"} <= set(plan_of(study)[1]) and commands == {"step", "finish", "status"}, "%s %s", columns, commands)


if SAN:
    print("skip engines: they are tried without sanitizers")
else:
    main(globals(), "ci")
