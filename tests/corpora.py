"""What the tests of corpora share: slides, scripts/corpus, programs in place of ours."""
import importlib

from lib import *

CORPUS = os.path.join(ROOT, "scripts", "corpus")
GROUPS = "--stripe-rows 240 --group-bytes 1"
TOOLS = {"WSI2H5": WSI2H5, "H5SPEC": H5SPEC}
sys.dont_write_bytecode = True
sys.path.insert(1, os.path.join(ROOT, "scripts"))


def slides(n=4, size="600x900"):
    return [made("--size", size, "--seed", str(k + 1), name="s%02d" % k) for k in range(n)]


def folder_with(given):
    """A folder with copies of slides: a list of them, or {name: slide}."""
    folder = tmp("slides")
    for name, slide in given.items() if isinstance(given, dict) else ((os.path.basename(s), s) for s in given):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        shutil.copy(slide, os.path.join(folder, name))
    return folder


def replaced(path, source, seconds):
    """Replaces a file by one of this age, as cp -p and rsync -a do."""
    os.utime(shutil.copy(source, path), (seconds, seconds))


def new_out():
    """The folder of a corpus that does not exist yet."""
    return os.path.join(tmp(), "out")


def direct(stores):
    """The result of one process over all stores, in sequence."""
    return content(spectrum(sorted(stores)))


def corpus(*argv, env=TOOLS, **kw):
    p = run(sys.executable, CORPUS, *argv, env=dict(os.environ, **env), **kw)
    expect("Traceback" not in p.err, "%s", p.err)
    return p


def local(out, *argv, **kw):
    return corpus("run", "--scheduler", "local", "-o", out, *argv, **kw)


def begun(given, *options, **kw):
    """A folder with slides, and OUT of a run over it."""
    folder, out = folder_with(given), new_out()
    local(out, *options, folder, **kw)
    return folder, out


def status_of(out, status=None, env=TOOLS):
    return json.loads(corpus("status", "--json", "-o", out, status=status, env=env).out)


def plan_of(out):
    """The lines of a plan, as lists of words; the first is the comment, the second the names of the columns."""
    return [line.split("\t") for line in open(out + "/plan.tsv").read().splitlines()]


def wrapper(text):
    """A program in place of ours: the shell script `text`, or what follows another #!."""
    path = os.path.join(tmp("wrapper"), "program")
    with open(path, "w") as f:
        f.write(text if text.startswith("#!") else "#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


def at_work(program, text):
    """wsi2h5 or h5spec, which does `text` before it begins to work."""
    return wrapper('case "$*" in *"--list -"*) %s ;; esac\nexec %s "$@"' % (text, program))


def at_slide(name, text):
    """wsi2h5, which does `text` before it begins with a slide."""
    return at_work(WSI2H5, 'list=$(mktemp); cat >$list; if grep -q %s $list; then %s; fi; exec <$list' % (name, text))


def h5spec_with(backends, usable=False):
    """h5spec, except for what --version says. `usable`: in place of a GPU it takes the CPU."""
    take = 'for w; do shift; case $w in cuda*) w=cpu;; --device=cuda*) w=--device=cpu;; esac; set -- "$@" "$w"; done\n' if usable else ""
    return wrapper('''[ "$1" != --version ] || { echo "h5spec 0"; echo "backends: %s; vectors"; exit 0; }
%sexec %s "$@"''' % (backends, take, H5SPEC))


def library(name):
    """A module of scripts/corpus."""
    return importlib.import_module("corpus_lib." + name)
