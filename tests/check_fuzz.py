"""The fuzz targets over their corpora: no crash, no sanitizer report. `make fuzz` looks for new inputs."""
import gzip

from lib import *

CORPUS = os.path.join(ROOT, "tests", "fuzz", "corpus")


def replay(name):
    program = os.path.join(BUILD, "tests", "fuzz_" + name)
    if not os.path.exists(program):
        raise Skip("built without libtiff")
    inputs = os.path.join(tmp("fuzz"), name)
    os.mkdir(inputs)
    for file in os.listdir(os.path.join(CORPUS, name)):
        path = os.path.join(CORPUS, name, file)
        with (gzip.open if file.endswith(".gz") else open)(path, "rb") as f, open(os.path.join(inputs, file), "wb") as out:
            shutil.copyfileobj(f, out)
    files = sorted(os.path.join(inputs, f) for f in os.listdir(inputs))
    expect(len(files) >= 2, "the corpus of %s is empty", name)
    # stdout is what the target prints, stderr ends with the input that crashes
    p = run(program, *files)
    seeds = [f for f in files if "found-" not in f]
    accepted = int(p.err.splitlines()[-1].split()[0])
    expect(accepted >= len(seeds), "%d of %d seeds are accepted", accepted, len(seeds))


for name_ in ("slide", "jpeg", "store", "result", "text", "table"):
    globals()["test_" + name_] = lambda n=name_: replay(n)


def test_corpora_are_small():
    sizes = sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(CORPUS) for f in files)
    expect(sizes < 300_000, "%d bytes", sizes)


def test_every_target_has_a_corpus():
    targets = {f[5:-2] for f in os.listdir(os.path.join(ROOT, "tests", "fuzz")) if f.startswith("fuzz_") and f.endswith(".c")}
    equal({n: 1 for n in targets - {"hdf5"}}, {n: 1 for n in os.listdir(CORPUS)}, "targets")


main(globals())
