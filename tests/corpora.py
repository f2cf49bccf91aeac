"""What the tests of corpora share: slides, scripts/corpus, programs in place of ours."""
import importlib

from lib import *

CORPUS = os.path.join(ROOT, "scripts", "corpus")
GROUPS = "--stripe-rows 240 --group-bytes 1"
TOOLS = {"WSI2H5": WSI2H5, "H5SPEC": H5SPEC}


def slides(n=4, size="600x900"):
    return [made("--size", size, "--seed", str(k + 1), name="s%02d" % k) for k in range(n)]


def folder_with(given):
    """A folder with copies of slides: a list of them, or {name: slide}."""
    folder = tmp("slides")
    for name, slide in given.items() if isinstance(given, dict) else ((os.path.basename(s), s) for s in given):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        shutil.copy(slide, os.path.join(folder, name))
    return folder


def direct(stores):
    """The result of one process over all stores, in sequence."""
    return content(spectrum(sorted(stores)))


def corpus(*argv, status=0, env=TOOLS, timeout=TIMEOUT, **kw):
    return run(sys.executable, CORPUS, *argv, status=status, env=dict(os.environ, **env), timeout=timeout, **kw)


def local(out, *argv, status=0, env=TOOLS, **kw):
    return corpus("run", "--scheduler", "local", "-o", out, *argv, status=status, env=env, **kw)


def begun(given, *options, status=0):
    """A folder with slides, and OUT of a run over it."""
    folder, out = folder_with(given), os.path.join(tmp(), "out")
    local(out, *options, folder, status=status)
    return folder, out


def status_of(out, status=None, env=TOOLS):
    p = corpus("status", "--json", "-o", out, status=status, env=env)
    expect(p.out, "%s", p.err)
    return json.loads(p.out)


def wrapper(text):
    """A program in place of ours: the shell script `text`."""
    path = os.path.join(tmp("wrapper"), "program")
    with open(path, "w") as f:
        f.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


def at_work(program, text):
    """wsi2h5 or h5spec, which does `text` before it begins to work."""
    return wrapper('case "$*" in *"--list -"*) %s ;; esac\nexec %s "$@"' % (text, program))


def h5spec_with(backends):
    """h5spec, except for what --version says."""
    return wrapper('''[ "$1" != --version ] || { echo "h5spec 0"; echo "backends: %s; vectors"; exit 0; }
exec %s "$@"''' % (backends, H5SPEC))


def library(name):
    """A module of scripts/corpus."""
    sys.dont_write_bytecode = True
    if os.path.join(ROOT, "scripts") not in sys.path:
        sys.path.insert(0, os.path.join(ROOT, "scripts"))
    return importlib.import_module("corpus_lib." + name)
