#!/usr/bin/env python3
"""Workflow engines carry out the plan of scripts/corpus and give its corpus."""
import glob
import re

from lib import *

CORPUS = os.path.join(ROOT, "scripts", "corpus")
WORKFLOW = os.path.join(ROOT, "scripts", "snakemake")
ENV = dict(os.environ, WSI2H5=WSI2H5, H5SPEC=H5SPEC)


def snakemake(folder, *options, status=0, profile="local", path=BUILD):
    program = shutil.which("snakemake") or os.path.join(ROOT, "build", "snakemake", "bin", "snakemake")
    if not os.path.exists(program):
        raise Skip("snakemake is not installed (pip install snakemake)")
    env = dict(ENV, PATH=path + os.pathsep + os.environ["PATH"], HOME=folder, XDG_CACHE_HOME=folder)
    return run(program, "-s", WORKFLOW + "/Snakefile", "--profile", WORKFLOW + "/profiles/" + profile, "--directory", folder,
               "--cores", "2", "--config", "corpus=" + CORPUS, *options, env=env, timeout=300, status=status)


def corpus(*argv, status=0):
    return run(CORPUS, *argv, env=ENV, status=status)


def folder_of_slides():
    """Four slides, of which two have the same name, two resolutions, and one bad one."""
    folder = tmp("slides")
    for k, (name, mpp) in enumerate((("a.svs", "0.5"), ("b b.svs", "0.5"), ("sub/a.svs", "0.25"), ("c.svs", "none"))):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        shutil.copy(made("--size", "700x600", "--seed", str(k), "--mpp", mpp, name="s%d" % k), os.path.join(folder, name))
    open(folder + "/bad.svs", "w").write("no slide")
    return folder


def counts(out):
    st = json.loads(corpus("status", "--json", "-o", out, status=1).out)
    return st["states"], [(f["slide"], f["stage"], f["state"], f["reason"]) for f in st["failed"]]


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
