"""The other end: h5spec, which has started this program. It reads results, checks them, and publishes files.

process/report/python/report_python.h has the questions and answers.
"""
import base64
import json
import os
import socket
import sys
import types

import numpy as np

from .places import LETTERS, Maps


class Ended(Exception):
    """h5spec has failed or was stopped, and says why itself."""


class H5spec:
    def __init__(self, fd):
        self._socket = socket.socket(fileno=fd)
        _, fds, _, _ = socket.recv_fds(self._socket, 1, 2)
        self._stream = self._socket.makefile("rb")
        self.input = types.SimpleNamespace(**json.loads(self._read(int(self._line() or 0))))
        fds = list(fds)
        self.rows = os.fdopen(fds.pop(0), "rb") if self.input.rows else None    # the table of slides that are in none
        self.spool = fds.pop(0) if self.input.pictures else None

    def _line(self):
        line = self._stream.readline()
        if not line:
            raise Ended
        return line.decode().rstrip("\n")

    def _read(self, n):
        data = self._stream.read(n)
        if len(data) < n:
            raise Ended
        return data

    def _ask(self, text, data=b""):
        """The words of an answer; None: what was asked for cannot be read, as h5spec has said."""
        try:
            self._socket.sendall(text.encode() + b"\n")
            self._socket.sendall(data)
        except OSError as e:
            raise Ended from e
        word, _, rest = self._line().partition(" ")
        if word == "end":
            raise Ended
        return rest if word == "ok" else None

    def maps(self, k, letters):
        """Maps of slide k, by the letters of places.LETTERS; None."""
        sizes = self._ask("maps %d %s" % (k, letters))
        if sizes is None:
            return None
        *sizes, has = sizes.split()
        ny, nx, height, width = map(int, sizes)
        shapes = dict(focus=(np.int16, (ny, nx)), tissue=(np.uint8, (ny, nx)), flags=(np.uint8, (ny, nx)),
                      thumbnail=(np.uint8, (height, width, 3)))
        maps = Maps()
        for name, letter in LETTERS.items():
            kind, shape = shapes[name]
            if letter in has:
                data = self._read(int(np.prod(shape)) * np.dtype(kind).itemsize)
                setattr(maps, name, np.frombuffer(data, kind).reshape(shape))
        return maps

    def pictures(self, k):
        """Where the pictures of slide k are in the spool: [at, bytes of map and thumbnail of each size ...]; None."""
        place = self._ask("pictures %d" % k)
        return json.loads(place) if place else None

    def write(self, what, data):
        """Publishes a file whole: "output", "csv", "key" or "multiqc"."""
        self._ask("write %s %d" % (what, len(data)), data)

    def done(self, verdicts, bad):
        self._socket.sendall(("done %s %d\n" % (" ".join(map(str, verdicts)), bad)).encode())


class Album:
    """Pictures of slides, maps and thumbnails in several sizes (0 is the largest), encoded by h5spec."""

    def __init__(self, h5spec, described):
        i = h5spec.input
        self.sizes, self.late, self.low, self.high, self.colours = i.sizes, i.late, i.map_low, i.map_high, i.colours
        self._spool, self._described = h5spec.spool, described    # of each slide: see H5spec.pictures

    def _parts(self, k, size):
        place = self._described[k]
        if not place:
            return None
        at, sizes = place[0], place[1:]
        return at + sum(sizes[:2 * size]), sizes[2 * size], sizes[2 * size + 1]

    def bytes(self, k, size):
        """Bytes that the pictures of slide k take in a page."""
        parts = self._parts(k, size)
        return sum((n + 2) // 3 * 4 + 1 for n in parts[1:]) if parts else 0

    def text(self, k, size):
        at, *sizes = self._parts(k, size)
        texts = []
        for n in sizes:
            data = os.pread(self._spool, n, at)
            if len(data) < n:
                print("h5spec: the temporary file for pictures cannot be read", file=sys.stderr)
                raise SystemExit(5)
            texts.append(base64.b64encode(data).decode())
            at += n
        return " ".join(texts)
