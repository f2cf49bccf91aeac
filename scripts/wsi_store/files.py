"""Where a store or a result lies: a file of this machine, or one that fsspec reads (S3, HTTP and many more).

Both kinds have the same methods. They can be pickled and used after a fork.
"""
from __future__ import annotations

import collections
import io
import os
import sys
import threading
from typing import Any, Callable, Iterable, Mapping, Sequence, TypeVar, Union
from urllib.parse import urlsplit

import h5py

from .base import StoreError, h5py_file

Path = Union[str, "os.PathLike[str]"]
T = TypeVar("T")
BLOCK_BYTES, CACHE_BYTES = 256 << 10, 64 << 20


class LocalFile:
    """A descriptor that is read at absolute positions."""

    def __init__(self, path: Path) -> None:
        self.name = os.fspath(path)
        self._fd = -1
        try:
            self._fd = os.open(self.name, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except OSError as e:
            raise StoreError("%s: %s" % (self.name, e.strerror)) from e

    def read(self, n: int, at: int) -> bytes:
        """Up to n bytes from byte `at` on; fewer at the file's end."""
        if self._fd < 0:
            raise StoreError("%s: is closed" % self.name)
        return os.pread(self._fd, n, at)

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Nothing: the system reads ahead."""

    def read_h5(self, work: Callable[[h5py.File], T]) -> T:
        """What `work` makes of the file in h5py, which is open meanwhile."""
        with self.open_h5() as f:
            return work(f)

    def open_h5(self) -> h5py.File:
        if self._fd < 0:
            raise StoreError("%s: is closed" % self.name)
        mine, path = os.fstat(self._fd), os.stat(self.name)
        if not os.path.samestat(mine, path) or mine.st_mtime_ns != path.st_mtime_ns:
            raise StoreError("%s: was replaced while it was open; open it again" % self.name)
        return h5py_file(self.name)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _forget_threads() -> None:
    """After a fork: fsspec before 2023 would wait for a thread that the child does not have."""
    asyn = sys.modules.get("fsspec.asyn")
    if asyn is not None and not hasattr(asyn, "reset_after_fork"):
        asyn.reset_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


class RemoteFile:
    """A file of fsspec, read in blocks of which the last ones are kept. Whether it was replaced meanwhile is not seen
    here; the checksums of the chunks show it."""

    def __init__(self, url: str, options: Mapping[str, Any] | None = None, block_bytes: int = BLOCK_BYTES,
                 cache_bytes: int = CACHE_BYTES) -> None:
        self.name, self._options = url, dict(options or {})
        self._block, self._most = max(block_bytes, 4096), max(cache_bytes // max(block_bytes, 4096), 4)
        self._blocks: collections.OrderedDict[int, bytes] = collections.OrderedDict()
        self._lock, self._pid, self._fs, self._path = threading.RLock(), 0, None, ""
        try:
            fs = self._connect()
            size = fs.info(self._path)["size"]
        except StoreError:
            raise
        except Exception as e:  # each file system has its own kinds
            raise self._failed(e) from e
        if size is None:
            raise StoreError("%s: the server does not say how long it is; use one that knows range requests" % url)
        self.size = int(size)

    def _failed(self, e: BaseException) -> StoreError:
        if isinstance(e, FileNotFoundError):
            return StoreError("%s: No such file" % self.name)
        return StoreError("%s: cannot be read: %s" % (self.name, e if str(e) else type(e).__name__))

    def _connect(self) -> Any:
        """The file system of this process: a fork makes its own."""
        if self._pid != os.getpid():
            try:
                import fsspec
            except ImportError as e:
                raise StoreError("%s: reading from there needs the Python package fsspec; pip install fsspec, and aiohttp "
                                 "for http or s3fs for s3" % self.name) from e
            try:
                self._fs, self._path = fsspec.core.url_to_fs(self.name, **self._options)
            except (ImportError, ValueError) as e:  # the package for this protocol is missing, or there is none
                raise StoreError("%s: %s" % (self.name, e)) from e
            self._pid, self._lock = os.getpid(), threading.RLock()
        return self._fs

    def _fetch(self, missing: Sequence[int]) -> None:
        """Reads these blocks, in ascending order: neighbours in one request, all requests at the same time."""
        runs: list[list[int]] = []
        for b in missing:
            if runs and runs[-1][1] == b:
                runs[-1][1] = b + 1
            else:
                runs.append([b, b + 1])
        starts = [a * self._block for a, _ in runs]
        ends = [min(b * self._block, self.size) for _, b in runs]
        try:
            fs = self._connect()
            if len(runs) == 1:
                parts = [fs.cat_file(self._path, start=starts[0], end=ends[0])]
            else:
                parts = fs.cat_ranges([self._path] * len(runs), starts, ends, on_error="raise")
        except StoreError:
            raise
        except Exception as e:
            raise self._failed(e) from e
        for data, start, end in zip(parts, starts, ends):
            if len(data) != end - start:
                raise StoreError("%s: %d bytes came where %d were asked for; it was replaced, or the server knows no range "
                                 "requests" % (self.name, len(data), end - start))
            for at in range(0, end - start, self._block):
                self._blocks[(start + at) // self._block] = bytes(data[at:at + self._block])

    def _numbers(self, n: int, at: int) -> range:
        end = min(at + n, self.size)
        return range(at // self._block, -(-end // self._block)) if n > 0 and 0 <= at < end else range(0)

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Fetches what is not cached of all (bytes, position), as far as the cache has room."""
        with self._lock:
            wanted = sorted({b for n, at in ranges for b in self._numbers(n, at)})
            missing = [b for b in wanted if b not in self._blocks][:self._most]
            if missing:
                self._fetch(missing)
                self._forget()

    def _forget(self) -> None:
        while len(self._blocks) > self._most:
            self._blocks.popitem(last=False)

    def read(self, n: int, at: int) -> bytes:
        if self._most == 0:
            raise StoreError("%s: is closed" % self.name)
        with self._lock:
            numbers = self._numbers(n, at)
            missing = [b for b in numbers if b not in self._blocks]
            if missing:
                self._fetch(missing)
            for b in numbers:
                self._blocks.move_to_end(b)
            if not numbers:
                return b""
            first = at - numbers[0] * self._block
            if len(numbers) == 1:
                data = self._blocks[numbers[0]][first:first + n]
            else:
                data = b"".join(self._blocks[b] for b in numbers)[first:first + n]
            self._forget()
            return data

    def read_h5(self, work: Callable[[h5py.File], T]) -> T:
        """What `work` makes of the file in h5py. h5py holds a lock of the whole process while it reads, and a thread of
        fsspec that collects garbage may need it. So nothing is fetched inside h5py: it fails at the first block that
        is missing, which is fetched, and `work` begins again."""
        kept: dict[int, bytes] = {}
        while True:
            reader = _Blocks(self, kept)
            try:
                with h5py.File(reader, "r") as f:
                    return work(f)
            except Exception:
                if not reader.missing:
                    raise
            with self._lock:
                if self._most == 0:
                    raise StoreError("%s: is closed" % self.name)
                fresh = [b for b in reader.missing if b not in self._blocks]
                if fresh:
                    self._fetch(fresh)
                kept.update((b, self._blocks[b]) for b in reader.missing)
                self._forget()

    def close(self) -> None:
        self._blocks.clear()
        self._most = 0


class View(io.BufferedIOBase):
    """A read-only Python file of `size` bytes, for libraries that read files. Subclasses return its bytes with part()."""

    def __init__(self, size: int) -> None:
        self._size, self._at = size, 0

    def part(self, n: int, at: int) -> bytes:
        """Up to n bytes from byte `at` on; fewer at the end."""
        raise NotImplementedError

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        data = self.part(self._size - self._at if size is None or size < 0 else size, self._at)
        self._at += len(data)
        return data


class _Blocks(View):
    """The blocks of a file that have arrived. A read that needs others fails and records their numbers."""

    def __init__(self, file: RemoteFile, kept: dict[int, bytes]) -> None:
        super().__init__(file.size)
        self._file, self._kept = file, kept
        self.missing: list[int] = []

    def part(self, n: int, at: int) -> bytes:
        file = self._file
        numbers = file._numbers(n, at)
        have = {b: self._kept.get(b) or file._blocks.get(b) for b in numbers}
        self.missing = [b for b, data in have.items() if data is None]
        if self.missing:
            raise OSError("blocks are missing")
        self._kept.update((b, data) for b, data in have.items() if data)
        first = at - numbers[0] * file._block if numbers else 0
        return b"".join(d for d in have.values() if d)[first:first + n]


File = Union[LocalFile, RemoteFile]


def is_url(path: Path) -> bool:
    return "://" in os.fspath(path)


def server_of(url: str) -> tuple[str, str]:
    """Where the options of a URL may be sent: the file system, and of HTTP the host, as headers may hold a password."""
    parts = urlsplit(url)
    return parts.scheme, parts.netloc if parts.scheme in ("http", "https") else ""


def open_file(path: Path, storage_options: Mapping[str, Any] | None = None, block_bytes: int = BLOCK_BYTES,
              block_cache_bytes: int = CACHE_BYTES) -> File:
    """A path of this machine, or a URL of fsspec with the options of its file system."""
    if is_url(path):
        return RemoteFile(os.fspath(path), storage_options, block_bytes, block_cache_bytes)
    return LocalFile(path)


def read_h5(path: Path, work: Callable[[h5py.File], T], storage_options: Mapping[str, Any] | None = None) -> T:
    """What `work` makes of the file in h5py."""
    file = open_file(path, storage_options)
    try:
        return file.read_h5(work)
    finally:
        file.close()
