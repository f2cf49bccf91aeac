"""Texts of any origin: names and messages are hostile until they are made printable. And text files that people write."""
import os
import re
import sys
import unicodedata

# Characters that change the direction of text, and separators of lines.
UNSAFE = {0x61c, 0x200e, 0x200f, *range(0x2028, 0x202f), *range(0x2066, 0x206a)}
FORMULA = re.compile("'*[=+\\-@\t\r\n]")


class Bad(Exception):
    """An input that cannot be used; the text is for the user."""


def say(text):
    """A line on stderr, as all messages of h5spec: control characters become '?'."""
    clean = "".join("?" if ord(c) < 32 or 127 <= ord(c) < 160 or ord(c) in UNSAFE or 0xdc80 <= ord(c) < 0xdca0 or c == "\udcc2" else c for c in text)
    sys.stderr.buffer.write(os.fsencode("h5spec: %s\n" % clean[:4000]))
    sys.stderr.flush()


def _shown(c):
    code = ord(c)
    if 32 <= code < 127:
        return c
    if 0xdc80 <= code <= 0xdcff:
        return "\ufffd"
    return "?" if code in UNSAFE or unicodedata.category(c) in ("Cc", "Cn", "Cs", "Zl", "Zp") else c


def printable(text):
    """Control characters and those that change the direction of text become '?', what is not UTF-8 U+FFFD."""
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def cut(text, most):
    """The text in at most so many bytes."""
    data = os.fsencode(text)
    return text if len(data) <= most else os.fsdecode(data[:most])


def cell(text):
    """A cell of a table: never one that a spreadsheet takes for a formula."""
    return '"%s%s"' % ("'" if FORMULA.match(text) else "", text.replace('"', '""'))


def original(text):
    """The text of such a cell."""
    return text[1:] if text.startswith("'") and FORMULA.match(text) else text


def base_name(path):
    return path.rpartition("/")[2]


def shown_path(path):
    """What a page may show of a path: no folders of an absolute one."""
    if not path.startswith("/"):
        return path
    end = path.rstrip("/")
    return path[end.rfind("/") + 1:]


def counted(n, one, many=None):
    return one if n == 1 else many or one + "s"


def _read(path, what):
    try:
        with open(0 if path == "-" else os.fsencode(path), "rb", closefd=path != "-") as f:
            return f.read((64 << 20) + 1)
    except OSError as e:
        raise Bad("%s: %s: %s" % (path, what, e.strerror)) from e


MOST_LINE = 1 << 16


def read_names(path):
    """The lines of a list, without quotes, spaces and separators at their ends; # begins a comment."""
    names = []
    for k, line in enumerate(re.findall(b"[^\n]*\n|[^\n]+$", _read(path, "cannot read the list"))):
        if b"\0" in line:
            raise Bad("%s: not a list of paths: it contains NUL bytes; save it as UTF-8" % path)
        if len(line) >= MOST_LINE:
            raise Bad("%s: not a list of paths: a line has more than %d bytes" % (path, MOST_LINE - 1))
        line = line[3:] if k == 0 and line.startswith(b"\xef\xbb\xbf") else line
        name = os.fsdecode(line.rstrip(b"\r\n"))
        if not os.path.exists(name):
            name = name.lstrip(" \t")
            quoted = re.match('"((?:[^"]|"")*)', name)
            name = quoted[1].replace('""', '"') if quoted else name.rstrip(" \t,;")
        if name and not name.startswith("#"):
            names.append(name)
    return names


class Table:
    """A file of cells with a header, whose cells are separated by commas, semicolons or tabs: lines and cells of each row."""

    def __init__(self, path):
        data = _read(path, "cannot be opened")
        if len(data) > 64 << 20:
            raise Bad("%s: larger than 64 MiB; not a table of slides" % path)
        if b"\0" in data:
            raise Bad("%s: not a text file in UTF-8 (it has NUL bytes)" % path)
        self.path, text = path, os.fsdecode(data[3:] if data.startswith(b"\xef\xbb\xbf") else data)
        rows = [(line, cells) for line, cells in self._rows(text) if any(cells)]
        if not rows:
            raise Bad("%s: empty; a table begins with a header line" % path)
        for line, cells in rows:
            if len(cells) != len(rows[0][1]):
                raise Bad("%s: line %d: %d fields, but the header has %d" % (path, line, len(cells), len(rows[0][1])))
        self.header = [original(c) for c in rows[0][1]]
        self.rows = [(line, [original(c) for c in cells]) for line, cells in rows[1:]]

    def column(self, name):
        """The number of a column; -1: there is none."""
        return self.header.index(name) if name in self.header else -1

    def _rows(self, text):
        head = re.match(r'(?:"[^"]*"?|[^"\r\n])*', text)[0]
        bare = re.sub('"[^"]*"?', "", head)
        separator = max(",;\t", key=bare.count)
        field = re.compile(' *(?:"((?:[^"]|"")*)(")? *|([^%s\r\n]*))\r?' % separator)
        at, line, cells, first = 0, 1, [], 1
        while at < len(text):
            m = field.match(text, at)
            if m[1] is not None and not m[2]:
                raise Bad("%s: line %d: a quote is not closed" % (self.path, line))
            cells.append(m[1].replace('""', '"') if m[1] is not None else m[3].rstrip(" "))
            if len(cells) > 1024:
                raise Bad("%s: more than 1024 columns" % self.path)
            line += (m[1] or "").count("\n")
            at = m.end()
            end = text[at:at + 1]
            if end not in ("", "\n", separator):
                raise Bad("%s: line %d: text after a closing quote" % (self.path, line))
            at += 1
            if end != separator:
                yield first, cells
                line += end == "\n"
                cells, first = [], line
            elif at == len(text):
                yield first, cells + [""]


