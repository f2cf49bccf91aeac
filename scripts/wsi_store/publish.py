"""Files that appear whole or not at all: the one writer of all outputs of scripts/, with the rules of common/base/publish.c.

A file is made as .NAME.HOST-PID-NUMBER.part beside its name, under a lock. A killed run leaves no more than that. The next
run of any of our programs removes those of this host whose process is gone, and those of other hosts that have not grown
for a day: locks need not reach other hosts. What exists under the name is replaced only if it is of the same kind; inputs
are never replaced, and two outputs of one run never have the same name. This file needs the standard library alone:
corpus_lib has it, too.
"""
from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import itertools
import os
import re
import socket
import stat
import time
from typing import Any, BinaryIO, Callable, Iterable, Iterator

ABANDONED = 24 * 3600  # seconds without growth of a file of another host
MOST_NAME, MOST_ENDING = 255, 16  # bytes of a file's name, and of the ending that a cut name keeps
PART = re.compile(r"\..+\.([^.-]+)-([0-9]+)-([0-9]+)\.part", re.DOTALL)
_numbers = itertools.count(1)
_last = 0  # number of the last temporary file
_unfinished: dict[str, int] = {}  # temporary files of this process: the process that made them


class Refused(FileExistsError):
    """The name is taken, by an input, another output, or a file of another kind: it is not overwritten."""


class Trouble(OSError):
    """The output cannot be written; no input is to blame."""

    def __str__(self) -> str:
        text = "%s: cannot be written: %s" % (self.filename, self.strerror)
        full = self.errno in (errno.ENOSPC, errno.EDQUOT)
        return text + ("; free some space and run again" if full else "; run again")


@contextlib.contextmanager
def blaming(path: str) -> Iterator[None]:
    """What fails inside is trouble of the output at `path`."""
    try:
        yield
    except (Refused, Trouble):
        raise
    except OSError as e:
        raise Trouble(e.errno or errno.EIO, e.strerror or str(e), path) from e


def shown(text: str) -> str:
    """Without the characters that change how a terminal shows the rest; names of files may have any."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() if not "\ud800" <= c <= "\udfff"
                   else "\\x%02x" % (ord(c) & 255) for c in text)


def open_regular(path: str) -> BinaryIO:
    """Opens a file for reading; anything that is no file, such as a fifo, is an error instead of a wait."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "is no regular file", path)
    return open(fd, "rb")


# --- temporary names ---

def host_name() -> str:
    """This host in temporary names."""
    name = socket.gethostname()[:63]
    if not name or name == "(none)" or name.startswith("localhost"):
        name = ""
        with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
            name = f.read(36)
    return re.sub("[-/.]", "_", name or "host")


def _base(name: bytes, host: bytes) -> bytes:
    """NAME, cut so that the whole temporary name is none too long: its beginning, a hash of all of it, and its ending."""
    room = MOST_NAME - len(b"..--.part") - 18 - len(host)
    if len(name) <= room:
        return name
    code = 2166136261  # FNV-1a
    for c in name:
        code = (code ^ c) * 16777619 & 0xffffffff
    cut, dot = room - MOST_ENDING - 9, name.rfind(b".")
    while cut > 0 and name[cut] & 0xc0 == 0x80:  # within a character of UTF-8
        cut -= 1
    return name[:cut] + b"~%08x" % code + (name[dot:] if 0 <= dot and len(name) - dot <= MOST_ENDING else b"")


def temporary_base(name: str) -> str:
    """What stands for `name` in temporary names of this host."""
    return os.fsdecode(_base(os.fsencode(name), os.fsencode(host_name())))


def temporary_name(path: str) -> str:
    """A new temporary name beside `path`, which is removed when this process ends."""
    global _last
    folder, name = os.path.split(path)
    _last = next(_numbers)
    found = os.path.join(folder, ".%s.%s-%d-%d.part" % (temporary_base(name), host_name(), os.getpid(), _last))
    _unfinished[found] = os.getpid()
    return found


def _has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    with contextlib.suppress(OSError), open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as f:
        return f.read().rpartition(")")[2].split()[:1] in (["Z"], ["X"])
    return False


def clean(folder: str) -> None:
    """Removes the temporary files of a folder that nobody writes any more."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder or "."):
            found = PART.fullmatch(name)
            if found:
                _remove_abandoned(os.path.join(folder, name), found[1], int(found[2]), int(found[3]))


def _remove_abandoned(path: str, host: str, pid: int, number: int) -> None:
    mine = host == host_name()
    if mine and not (number > _last if pid == os.getpid() else _has_ended(pid)):
        return
    fd = -1
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if fd >= 0:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # of a living process in another process namespace
        return
    except OSError:  # a file system without locks
        pass
    finally:
        old = fd >= 0 and time.time() - os.fstat(fd).st_mtime > ABANDONED
        if fd >= 0:
            os.close(fd)
    if mine or old:
        with contextlib.suppress(OSError):
            os.unlink(path)


def abort_all() -> None:
    """Removes the temporary files of this process, which ends."""
    for path, pid in list(_unfinished.items()):
        if pid == os.getpid():
            with contextlib.suppress(OSError):
                os.unlink(path)


# --- writing ---

class _Raw(io.FileIO):
    """A file whose errors are trouble of the output `shown_as`; libraries may raise others instead."""
    shown_as = ""
    trouble: Trouble | None = None

    def write(self, data: Any) -> int:
        try:
            with blaming(self.shown_as):
                return super().write(data) or 0
        except Trouble as e:
            self.trouble = e
            raise


class Part:
    """An unfinished file beside `path`: write to .file, then commit() or abort()."""

    def __init__(self, path: str) -> None:
        self.path = path
        with blaming(path):
            while True:
                self.name = temporary_name(path)
                raw = _Raw(self.name, "x+", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666))
                with contextlib.suppress(OSError):
                    fcntl.flock(raw.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(raw.fileno()).st_nlink:  # else another run has taken it for a file that was left
                    break
                raw.close()
        raw.shown_as, self._raw = path, raw
        self.file = io.BufferedRandom(raw, 1 << 20)

    @property
    def trouble(self) -> Trouble | None:
        return self._raw.trouble

    def commit(self, path: str | None = None, sync: bool = True) -> None:
        """Gives the file its name; `path`: another one. With `sync` it is on the disk before."""
        path = path or self.path
        with blaming(path):
            self.file.flush()
            try:
                if sync:
                    os.fsync(self.file.fileno())
            except OSError as e:
                if e.errno != errno.EINVAL:  # a file system without it reports errors when the file is closed
                    raise
            self.file.close()
            os.rename(self.name, path)
            _unfinished.pop(self.name, None)
            if sync:
                _sync_folder(os.path.dirname(path) or ".")

    def abort(self) -> None:
        if self.name in _unfinished:
            with contextlib.suppress(OSError):
                os.unlink(self.name)
            _unfinished.pop(self.name, None)
        with contextlib.suppress(OSError, ValueError):
            self.file.close()


def _sync_folder(folder: str) -> None:
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:  # it may be written but not read
        return
    try:
        os.fsync(fd)
    except OSError as e:
        if e.errno not in (errno.EINVAL, errno.EROFS):
            raise
    finally:
        os.close(fd)


def put_link(target: str, path: str, otherwise: str) -> None:
    """A hard link to `target` with the name `path`, which it replaces; without hard links a symbolic one to `otherwise`."""
    with blaming(path):
        name = temporary_name(path)
        try:
            os.link(target, name)
        except OSError:  # another file system, or one without hard links
            os.symlink(otherwise, name)
        os.rename(name, path)
        with contextlib.suppress(FileNotFoundError):  # rename() leaves it if `path` was the same link already
            os.unlink(name)
        _unfinished.pop(name, None)


class Outputs:
    """The outputs of one run with these inputs."""

    def __init__(self, inputs: Iterable[Any] = ()) -> None:
        self._inputs = [os.fspath(p) for p in inputs]
        self._made: set[str] = set()
        self._folders: dict[str, str] = {}  # folder: its real path

    def check(self, path: str, what: str, is_ours: Callable[[str], bool]) -> None:
        """May `path` be written? `what` is the kind in the message, and is_ours() knows a file of it."""
        if self._place(path) in self._made:
            raise Refused("%s: another output of this run has this name; choose another folder" % path)
        if not os.path.lexists(path):
            return
        if os.path.exists(path) and any(os.path.exists(i) and os.path.samefile(i, path) for i in self._inputs):
            raise Refused("%s: is an input; choose another name" % path)
        if not os.path.isfile(path) or not is_ours(path):
            raise Refused("%s: already exists and is not %s; not overwritten: choose another name" % (path, what))

    def _place(self, path: str) -> str:
        folder, name = os.path.split(path)
        if folder not in self._folders:  # the first file in it
            clean(folder)
            self._folders[folder] = os.path.realpath(folder)
        return os.path.join(self._folders[folder], name)

    @contextlib.contextmanager
    def create(self, path: str, what: str, is_ours: Callable[[str], bool], sync: bool = True) -> Iterator[BinaryIO]:
        """A file for writing, which gets its name when all is well at the end."""
        folder = os.path.dirname(path)
        with blaming(folder or "."):
            os.makedirs(folder or ".", exist_ok=True)
        self.check(path, what, is_ours)
        part = Part(path)
        try:
            yield part.file
            part.commit(sync=sync)
            self._made.add(self._place(path))
        except Exception:
            if part.trouble:
                raise part.trouble from None
            raise
        finally:
            part.abort()
