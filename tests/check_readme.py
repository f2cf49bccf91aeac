"""Every command of every README runs, in the order of the text, and ends with the status that the text gives.

Commands are read from the READMEs themselves. A fenced block says in its first line what it holds:

    ```sh                   commands, one per line; a line may go on after a backslash
    ```sh skip REASON       commands that cannot run here; counted as skipped, with the reason
    ```sh with MODULE       commands that need a Python module; skipped without it
    ```console              commands after "$ ", and below each what it prints (numbers may differ)
    ```python               a script, run by the Python that has h5py
    ```text, c, make, json  anything else

A comment "# exit status N" after a command gives its status, if that is not 0. A README runs in a copy
of the tree that holds slide.svs, slides/ (three slides) and scanner1/, scanner2/ (the same picture twice), and, except for the README at the top,
stores/, results/, result.h5 and corpus.h5 made from them. Programs are in PATH.
"""
import importlib.util

from lib import *

LANGUAGES = ("sh", "console", "python", "text", "c", "make", "json")
OURS = ("wsi2h5", "h5spec", "make", "scripts/", "wsi-corpus", "wsi-plan", "tests/", "build/")


class Block:
    def __init__(self, line, words):
        self.line, self.language = line, words[0] if words else ""
        self.skip = " ".join(words[2:]) if words[1:2] == ["skip"] else None
        if words[1:2] == ["with"] and not importlib.util.find_spec(words[2]):
            self.skip = "needs the Python module %s" % words[2]
        self.lines = []


def blocks(name):
    """The fenced blocks of a README."""
    block, found = None, []
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        for n, line in enumerate(f.read().splitlines(), 1):
            where = "%s:%d" % (name, n)
            if line.startswith("```"):
                if block is None:
                    block = Block(n, line[3:].split())
                    expect(block.language in LANGUAGES, "%s: a block of what? %s", where, LANGUAGES)
                    expect(block.skip != "", "%s: skipped without a reason", where)
                    found.append(block)
                else:
                    block = None
            elif block is not None:
                block.lines.append(line)
            else:
                m = re.match(r" {4,}(?:\$ )?(\S+)", line)
                expect(not m or not m.group(1).startswith(OURS), "%s: a command outside a ```sh block is not tested", where)
    expect(block is None, "%s: a block has no end", name)
    return found


def complete(text):
    return subprocess.run(["bash", "-n"], input=text.encode(), stderr=subprocess.PIPE).stderr == b""


def commands(block):
    """Line number, text, what it prints (None: anything) of every command of a block."""
    found = []
    for n, line in enumerate(block.lines, block.line + 1):
        if block.language == "console":
            if line.startswith("$ "):
                found.append([n, line[2:], []])
            elif found:
                found[-1][2].append(line)
        elif found and not complete(found[-1][1]) or (found and found[-1][1].endswith("\\")):
            found[-1][1] += "\n" + line
        elif line.strip() and not line.startswith("#"):
            found.append([n, line, None])
    return found


def script(name):
    """A bash script that runs the commands of a README, and how many there are."""
    out, count = ["printed=$(mktemp)"], 0
    for block in blocks(name):
        if block.skip is not None:
            print("skip readme.%s:%d: %s" % (name, block.line, block.skip), flush=True)
        elif block.language == "python":
            out += ["cat >block.py <<'END OF THE BLOCK'", *block.lines, "END OF THE BLOCK",
                    '"$PYTHON" block.py || { echo "%s:%d: the script ended with status $?" >&2; exit 99; }' % (name, block.line)]
            count += 1
        elif block.language in ("sh", "console"):
            for n, text, prints in commands(block):
                status = re.search(r"# .*exit status (\d+)", text)
                out += ["{ %s" % text, "} >$printed 2>&1; status=$?",
                        '[ $status = %s ] || { cat $printed >&2; echo "%s:%d ended with status $status" >&2; exit 99; }'
                        % (status.group(1) if status else "0", name, n)]
                if prints:
                    out += ["compare '%s:%d' $printed <<'END OF THE BLOCK' || exit 99" % (name, n), *prints, "END OF THE BLOCK"]
                count += 1
    return "\n".join(out) + "\n", count


COMPARE = r"""
# every line of stdin is printed, but for numbers with their units, and blanks; "..." is any lines
compare() {
    mask='s/[-+]?[0-9][0-9,.]*( ?(KiB|MiB|GiB|B|ms|s|min|h|MB\/s|GB\/s))?/#/g; s/(avx512|avx2|sse2|neon)/#/g; s/[ \t]+/ /g; s/ $//'
    sed -E "$mask" "$2" >$printed.have
    sed -E "$mask" | while IFS= read -r line; do
        [ "$line" = ... ] || [ -z "$line" ] || grep -qxF -- "$line" $printed.have ||
            { cat "$2" >&2; echo "$1 does not print: $line" >&2; return 1; }
    done
}
"""


def scratch(name):
    d = os.path.join(tmp(), "tree")
    top = lambda folder, names: {"__pycache__"} | ({"build", "demo", ".git"} if folder == ROOT else set())
    shutil.copytree(ROOT, d, ignore=top)
    ours = ("common", "convert", "process", "cuda", "tests")  # with their objects, so that little is built again
    other = lambda folder, names: [n for n in names if n.endswith(".new") or  # of a make that runs beside this
                                   folder == BUILD and os.path.isdir(os.path.join(BUILD, n)) and n not in ours]
    shutil.copytree(BUILD, os.path.join(d, "build"), ignore=other)
    os.makedirs(os.path.join(d, "slides"))
    for n, size in (("a", "1500x2100"), ("b", "900x700"), ("c", "1300x800")):
        shutil.copy(made("--size", size, "--seed", str(ord(n)), name=n), os.path.join(d, "slides", n + ".svs"))
    for n, quality in (("1", "90"), ("2", "40")):
        os.makedirs(os.path.join(d, "scanner" + n))
        shutil.copy(made("--size", "900x700", "--quality", quality, name="a"), os.path.join(d, "scanner" + n, "a.svs"))
    shutil.copy(made("--size", "3000x2200", name="slide"), os.path.join(d, "slide.svs"))
    if name != "README.md":
        os.mkdir(os.path.join(d, "stores"))
        os.mkdir(os.path.join(d, "results"))
        run(WSI2H5, "-q", "--stripe-rows", "240", "--group-bytes", "1M", "-o", "stores", "slides", cwd=d)
        run(WSI2H5, "-q", "-o", "slide.h5", "slide.svs", cwd=d)
        stores = sorted(glob.glob(d + "/stores/*.h5"))
        run(H5SPEC, "run", "-q", "--device", "cpu", "-o", "results", *stores, cwd=d)
        run(H5SPEC, "run", "-q", "--device", "cpu", "-o", "result.h5", *stores, cwd=d)
        run(H5SPEC, "merge", "-q", "-o", "corpus.h5", *sorted(glob.glob(d + "/results/*.h5")), cwd=d)
    return d


def check(name):
    if SAN:
        raise Skip("tried without sanitizers")
    text, count = script(name)
    if not count:
        raise Skip("%s has no command that runs here" % name)
    d = scratch(name)
    same = dict(word.split("=", 1) for word in same_build() if word[:2] != "B=")
    env = make_environment(**same, HDF5_PLUGINS="", HOME=os.path.join(d, "home"), PYTHON=sys.executable, HDF5_USE_FILE_LOCKING="FALSE",
               PATH=":".join([os.path.join(d, "home/.local/bin"), os.path.join(d, "build"), os.path.join(d, "bin"), os.environ["PATH"]]))
    os.mkdir(env["HOME"])
    os.makedirs(os.path.join(d, "bin"))
    put_file(os.path.join(d, "bin/python3"), '#!/bin/sh\nexec "$PYTHON" "$@"\n')
    os.chmod(os.path.join(d, "bin/python3"), 0o755)
    put_file(os.path.join(d, "commands"), COMPARE + text)
    run("bash", "commands", cwd=d, env=env, timeout=900)


def readmes():
    return ["README.md"] + sorted(os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, "*/README.md"))) + \
           [n for n in ("CONTRIBUTING.md", "scripts/PYTHON.md") if os.path.exists(os.path.join(ROOT, n))]


def test_links():
    """Every link to a file of ours has a target."""
    for name in readmes():
        with open(os.path.join(ROOT, name), encoding="utf-8") as f:
            for target in re.findall(r"\]\(([^)#]+)[^)]*\)", f.read()):
                there = os.path.join(ROOT, os.path.dirname(name), target)
                expect("://" in target or os.path.exists(there), "%s links to %s", name, target)


def as_test(name):
    """These build, run tests, or take long."""
    test = lambda: check(name)
    return later("ci")(test) if name in ("README.md", "CONTRIBUTING.md", "tests/README.md", "scripts/PYTHON.md") else test


for readme in readmes():
    globals()["test_" + re.sub(r"\W", "_", readme[:-3])] = as_test(readme)

main(globals())
