#!/usr/bin/env python3
"""The Snakemake workflow gives the corpus of scripts/corpus."""
import glob

from lib import *

WORKFLOW = os.path.join(ROOT, "scripts", "snakemake")


def snakemake(folder, *options, status=0, profile="local", path=BUILD):
    program = shutil.which("snakemake") or os.path.join(ROOT, "build", "snakemake", "bin", "snakemake")
    if not os.path.exists(program):
        raise Skip("snakemake is not installed (pip install snakemake)")
    env = dict(os.environ, PATH=path + os.pathsep + os.environ["PATH"], HOME=folder, XDG_CACHE_HOME=folder)
    return run(program, "-s", WORKFLOW + "/Snakefile", "--profile", WORKFLOW + "/profiles/" + profile, "--directory", folder,
               "--cores", "2", "--config", *options, env=env, timeout=300, status=status)


def folder_of_slides(*names):
    folder = tmp("slides")
    for k, name in enumerate(names):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        shutil.copy(made("--size", "700x600", "--seed", str(k), name="s"), os.path.join(folder, name))
    return folder


def test_the_corpus_is_that_of_scripts_corpus():
    slides, study, other = folder_of_slides("a.svs", "b b.svs", "sub/c.svs"), tmp("study"), os.path.join(tmp(), "corpus")
    snakemake(study, "slides=" + slides, "device=cpu")
    run(os.path.join(ROOT, "scripts", "corpus"), "run", "--scheduler", "local", "-o", other, "--h5spec", "--device cpu",
        slides, env=dict(os.environ, WSI2H5=WSI2H5, H5SPEC=H5SPEC))
    equal(content(study + "/corpus.h5"), content(other + "/corpus.h5"), "corpus.h5")
    expect(len(glob.glob(study + "/stores/*.h5")) == 3, "%s", os.listdir(study))
    before = os.stat(study + "/corpus.h5").st_mtime_ns
    snakemake(study, "slides=" + slides, "device=cpu")  # nothing remains to be done
    expect(os.stat(study + "/corpus.h5").st_mtime_ns == before, "merged again")


def test_slides_that_cannot_be_told_apart_or_found():
    clash = snakemake(tmp(), "slides=" + folder_of_slides("a.svs", "x/a.svs"), status=1)
    says(clash.out + clash.err, "have the same name")
    none = snakemake(tmp(), "slides=" + tmp(), status=1)
    says(none.out + none.err, "no slides found")


def test_one_bad_slide_does_not_stop_the_others():
    slides, study = folder_of_slides("a.svs", "c.svs"), tmp("study")
    open(slides + "/b.svs", "w").write("no slide")
    snakemake(study, "slides=" + slides, "device=cpu", status=1)
    expect(sorted(os.listdir(study + "/results")) == ["a.h5", "c.h5"], "%s", os.listdir(study))
    says(open(study + "/logs/convert/b.txt").read(), "b.svs")
    expect(not os.path.exists(study + "/corpus.h5"), "a corpus without one of its slides")


def test_slides_of_different_resolution_end_the_workflow_unless_they_may_be_mixed():
    folder, study = tmp("slides"), tmp("study")
    for k, mpp in enumerate(("0.5", "0.25")):
        shutil.copy(made("--size", "700x600", "--seed", str(k), "--mpp", mpp, name="ab"[k]), folder)
    p = snakemake(study, "slides=" + folder, "device=cpu", status=1)
    says(p.out + p.err, "um/px", "--mix-mpp")
    expect(not os.path.exists(study + "/corpus.h5"), "a corpus without one of its slides")
    snakemake(study, "slides=" + folder, "device=cpu", "h5spec=--mix-mpp")
    (j,) = json_lines(run(H5SPEC, "info", "--json", study + "/corpus.h5").out)
    expect([s["slide"] for s in j["slides"]] == ["a", "b"], "%s", j["slides"])


if __name__ == "__main__":
    if SAN:
        print("skip snakemake: the workflow is tried without sanitizers")
    else:
        main(globals(), "ci")
