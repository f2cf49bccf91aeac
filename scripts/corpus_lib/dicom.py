"""Which series a DICOM file belongs to: its files are one slide.

The rule and its limits are those of wsi2h5 (convert/readers/dicom.h). A file begins with 128 free bytes
and DICM. Elements follow: group and number, 16 bits each, ascending; with explicit VR two letters
and a length of 16 or 32 bits, with implicit VR a length of 32 bits. Group 0002 is always explicit;
it names the transfer syntax of the rest. A sequence of undefined length ends with a delimiter.
"""
import re
import struct

MOST_BYTES, PREAMBLE, MOST_NESTING, UNDEFINED = 1 << 20, 128, 16, 0xffffffff
SYNTAX, SERIES = (0x0002, 0x0010), (0x0020, 0x000e)
ITEM, ITEM_END, SEQUENCE_END = (0xfffe, 0xe000), (0xfffe, 0xe00d), (0xfffe, 0xe0dd)
LONG = (b"OB", b"OD", b"OF", b"OL", b"OV", b"OW", b"SQ", b"SV", b"UC", b"UN", b"UR", b"UT", b"UV")
IMPLICIT, BIG_ENDIAN = "1.2.840.10008.1.2", "1.2.840.10008.1.2.2"
DEFLATED = "1.2.840.10008.1.2.1.99"


class Unreadable(Exception):
    """The header ends, or is not of a kind that this reads."""


class Reader:
    def __init__(self, data):
        self.data, self.at, self.implicit = data, PREAMBLE + 4, False

    def unpack(self, layout, at):
        if at + struct.calcsize(layout) > len(self.data):
            raise Unreadable
        return struct.unpack_from(layout, self.data, at)

    def next(self):
        """(tag, length); `at` is at the value afterwards."""
        group, number, vr, short = self.unpack("<HH2sH", self.at)
        if group == 0xfffe or self.implicit:
            length, size = self.unpack("<I", self.at + 4)[0], 8
        elif vr in LONG:
            length, size = self.unpack("<I", self.at + 8)[0], 12
        else:
            length, size = short, 8
        self.at += size
        return (group, number), length

    def skip(self, tag, length, depth=0):
        if depth > MOST_NESTING:
            raise Unreadable
        if length != UNDEFINED:
            self.at += length
            return
        end = ITEM_END if tag == ITEM else SEQUENCE_END
        while True:
            inner, length = self.next()
            if inner == end:
                return
            self.skip(inner, length, depth + 1)

    def uid(self, length):
        text = self.data[self.at:self.at + length].rstrip(b"\0 ").decode("latin-1")
        if length > 64 or not re.match(r"^[0-9.]+$", text):
            raise Unreadable
        return text


def find_series(data):
    reader, implicit = Reader(data), None
    while True:
        in_head = reader.unpack("<H", reader.at)[0] == 0x0002
        if not in_head and implicit is None:
            raise Unreadable
        reader.implicit = not in_head and implicit
        tag, length = reader.next()
        if tag == SERIES:
            return reader.uid(length)
        if tag > SERIES:
            raise Unreadable
        if tag == SYNTAX:
            syntax = reader.uid(length)
            if syntax in (DEFLATED, BIG_ENDIAN):
                raise Unreadable
            implicit = syntax == IMPLICIT
        reader.skip(tag, length)


def series_of(path):
    """The SeriesInstanceUID of a file; None if it is not DICOM or does not state it."""
    try:
        with open(path, "rb") as f:
            data = f.read(MOST_BYTES)
        return find_series(data) if data[PREAMBLE:PREAMBLE + 4] == b"DICM" else None
    except (OSError, Unreadable):
        return None
