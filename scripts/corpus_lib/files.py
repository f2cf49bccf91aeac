"""What every module uses: messages, programs, small text files, ages of files."""
import os
import shutil
import sys


HERE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


DONE, PART, USAGE, STOPPED = 0, 1, 2, 3


def say(text):
    print("corpus: " + text, file=sys.stderr, flush=True)


def die(text, status=PART):
    say(text)
    sys.exit(status)


def program(name):
    """wsi2h5 or h5spec: from the environment (WSI2H5, H5SPEC), beside this script, or from PATH."""
    for path in (os.environ.get(name.upper()), os.path.join(HERE, "..", "build", name), shutil.which(name)):
        if path and os.access(path, os.X_OK):
            return os.path.abspath(path)
    die("%s is not there: build it, put it in PATH, or name it in %s" % (name, name.upper()))


def read_lines(path):
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as f:
            return [line for line in f.read().split("\n") if line]
    except FileNotFoundError:
        return []


def write_whole(path, text):
    """The file stands there whole, or as it was."""
    with open(path + ".new", "w", encoding="utf-8", errors="surrogateescape") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    os.rename(path + ".new", path)


def age(path):
    """Time of the last change in ns; None when it is not there."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


def fresh(made, source):
    """`made` is there, and not older than what it was made from (which may be gone)."""
    a, b = age(made), age(source)
    return a is not None and (b is None or a >= b)


def stem(path):
    """The slide's name in the corpus, as wsi2h5 calls its store."""
    base = os.path.basename(path)
    dot = base.rfind(".")
    return base[:dot] if dot > 0 else base
