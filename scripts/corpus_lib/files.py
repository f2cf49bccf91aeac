"""What every module uses: exit statuses, messages, programs, small text files, stamps of files."""
import errno
import json
import os
import shutil
import subprocess
import sys

from corpus_lib.publish import Part

HERE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # the folder of scripts/corpus
PROCESSORS = len(os.sched_getaffinity(0))  # that this process may use
DONE, PART, USAGE, STOPPED, DAMAGED, TROUBLE = 0, 1, 2, 3, 4, 5  # exit statuses, as of wsi2h5


def say(text):
    """A message for people, on stderr."""
    print("corpus: " + text, file=sys.stderr, flush=True)


def die(text, status=PART):
    say(text)
    sys.exit(status)


class Away(Exception):
    """The scheduler does not answer."""


def counted(n, thing):
    """`1 slide`, `2 slides`, `2 batches`"""
    return "%d %s%s" % (n, thing, "" if n == 1 else "es" if thing.endswith("ch") else "s")


def ask(*argv, given="", timeout=None):
    """Runs a command, with `given` as its standard input; text may have any bytes, which stay as they are: a name may have a carriage return."""
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, input=given.encode("utf-8", "surrogateescape"), timeout=timeout)
    p.stdout, p.stderr = (text.decode("utf-8", "surrogateescape") for text in (p.stdout, p.stderr))
    return p


def values_of(words, names):
    """(the values of an option in `words`, the words without it); names such as ("--exclude", "-x")."""
    found, kept, words = [], [], iter(words)
    for word in words:
        name, equals, value = word.partition("=")
        if word in names:
            found.append(next(words, ""))
        elif equals and name in names:
            found.append(value)
        elif word[:2] in names and word[:2] != "--":
            found.append(word[2:])
        else:
            kept.append(word)
    return found, kept


# --- programs ---

def program(name):
    """The path of wsi2h5 or h5spec. Where it is looked for is said in scripts/corpus."""
    called = os.path.dirname(os.path.abspath(sys.argv[0]))
    folders = [called, os.path.join(HERE, "..", "..", "bin"), os.path.join(HERE, "..", "build")]
    for path in [os.environ.get(name.upper())] + [os.path.join(f, name) for f in folders]:
        if path and os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.abspath(path)
    path = shutil.which(name)
    if not path:
        die("%s was not found; build it, put it in PATH, or name it in the variable %s" % (
            name, name.upper()))
    return os.path.abspath(path)


def versions():
    """Such as "wsi2h5 1.0.0, h5spec 1.0.0"."""
    return ", ".join(" ".join(ask(program(name), "--version").stdout.split()[:2]) for name in ("wsi2h5", "h5spec"))


# --- small text files ---

def json_rows(lines):
    """The objects in lines of JSON, of which a kill may have cut some off."""
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


def read_lines(path):
    """The lines of a file that are not empty; none if the file does not exist."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as f:
            return [line for line in f.read().split("\n") if line]
    except FileNotFoundError:
        return []


def write_whole(path, text):
    """Replaces a file: others see the old content or the new one, nothing between."""
    part = Part(path)
    try:
        for piece in [text] if isinstance(text, str) else text:
            part.file.write(piece.encode("utf-8", "surrogateescape"))
        part.commit()
    finally:
        part.abort()


def write_list(path, lines):
    write_whole(path, (line + "\n" for line in lines))


def open_own(path, flags=0):
    """Opens a file of the corpus for writing; a link in its place, which others may have put there,
    is an error."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o666)


# --- stamps ---

def look(path):
    """os.stat(path); None if the file cannot be found. An error that may pass, such as ESTALE of NFS,
    does not say that a file is missing: it is raised."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except OSError as e:
        if e.errno in (errno.ELOOP, errno.ENAMETOOLONG):
            return None
        raise


def stamp_of(at):
    """BYTES:NANOSECONDS of what os.stat() gave; "" for None."""
    return "%d:%d" % (at.st_size, at.st_mtime_ns) if at else ""


def stamp(path):
    """BYTES:NANOSECONDS of a file's size and time of change; "" if it does not exist."""
    return stamp_of(look(path))


def not_older(made, source):
    """`made` is not older than `source`, which need not exist; both as of os.stat()."""
    return source is None or made.st_mtime_ns >= source.st_mtime_ns


def remove_file(path):
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def stem(path):
    """The base name without its ending, as wsi2h5 names the store of a slide."""
    base = os.path.basename(path)
    dot = base.rfind(".")
    return base[:dot] if dot > 0 else base
