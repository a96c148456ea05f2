"""Outline of a long beginning of a file, by which its format is recognized: its keys and short values, with long texts
and arrays shortened.

A format is told by a file's first bytes. Where the first record alone is longer than these, the keys that tell it may
stand behind them; in the outline they stand within. Binary files are the other case: the text in a column of a table,
or in a member of a stored zip archive, would be taken for a log, so only what the file says of itself is left.

What comes out is for recognizing alone; nothing is ever parsed from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from typing import Final

import orjson
import re2

from trajmill.connectors.connector import HEAD_BYTES
from trajmill.connectors.reading.structure import (
    CLOSE_LIST,
    CLOSE_OBJECT,
    COMMA,
    OPEN_LIST,
    OPEN_OBJECT,
    Structure,
)
from trajmill.connectors.reading.values import BOM

OUTLINED_BYTES: Final = 16 << 20
"""Bytes of a file's beginning that an outline is made of."""

_LATER_BYTES: Final = 4 << 20
_LATER: Final = 16
_CALL: Final = re2.compile(
    rb"(?i)tool[_-]?(?:call|use)|function[_-]?call|<(?:function|execute|invoke|use_mcp_tool)\b|Action:|keystrokes"
)
"""Marks of an agent's call of a tool, in most forms of it."""

_LEAST_TEXT: Final = 256
_LEAST_ARRAY: Final = 1024
_BLANK: Final = b" \t\r\n"
_HALF_ESCAPE: Final = re.compile(rb"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?\Z")

_KEYED: Final = re.compile(rb"([ ]*(?:- +)*)[^\s#'\"\[\]{},&*!|>%@`][^\n]*?:[ ]+(?![&!][^\s]*\s*$)\S")
"""A line of YAML that begins a value behind its key; what is indented deeper belongs to that value."""

_YAML: Final = re.compile(rb"(?:---|#[^\n]*|[\w-]+:[^\n]*|- [^\n]*)\n")
"""Beginning of a YAML document."""

_BINARY: Final = re.compile(
    rb"PAR1|ARROW1\0\0|\xff\xff\xff\xff|Obj\x01|ORC[\0-\x1f\x80-\xff]|SQLite format 3\0|\x89(?:PNG|HDF)\r\n"
    rb"|\xff\xd8\xff|GIF8[79]a|RIFF.{4}|%PDF-|\x93NUMPY|\x80[\x02-\x05]|\x7fELF",
    re.DOTALL,
)
"""Beginnings of binary files that may hold texts: tables, databases, pictures, documents, arrays, pickles, programs."""

_BINARY_HEAD: Final = 64
"""Bytes of a binary file that say what it is."""

_ZIP: Final = b"PK\x03\x04"
_ZIP_HEADER: Final = 30
_SIZE_FOLLOWS: Final = 8
_SIZE_ELSEWHERE: Final = 0xFFFFFFFF


def make_outline(data: bytes, size: int = HEAD_BYTES) -> bytes:
    """The outline of a file's beginning; what is neither JSON nor YAML is only cut to the size.

    A text takes at most a quarter of what is left, an array within a record at most half, so that whatever comes behind
    has its place.

    Args:
        data: at most `OUTLINED_BYTES` of the file, decompressed.
        size: bytes that the outline may have.
    """
    if len(data) <= size:
        return data
    begin = data.removeprefix(BOM).lstrip(_BLANK)
    if begin[:1] in (b"{", b"["):
        return _json(begin, size, 1)
    if _YAML.match(begin) is not None:
        return _yaml(begin, size)
    return data[:size]


def later_rows(data: bytes, size: int = HEAD_BYTES) -> Iterator[bytes]:
    """Yield later stretches of a beginning of lines, or of one document, that may tell its format where no call stands
    in its head.

    First as much of it as a large row or document may need, then a few stretches of lines that begin with a call.

    Args:
        data: at most `OUTLINED_BYTES` of the file, decompressed.
        size: bytes of the head that told nothing.
    """
    match = _CALL.search(data, size) if data.lstrip(BOM + _BLANK)[:1] in (b"{", b"[") else None
    if match is None:
        return
    yield data[:_LATER_BYTES]
    for _ in range(_LATER):
        begin = data.rfind(b"\n", 0, match.start()) + 1
        end = max(data.find(b"\n", match.end()) + 1, begin + size)
        yield data[begin:end]
        match = _CALL.search(data, end)
        if match is None:
            return


def _json(data: bytes, size: int, spared: int) -> bytes:
    """The outline of JSON values that stand one after the other; arrays of the level `spared` are not shortened."""
    structure = Structure(BytesIO(data), 0)
    output = bytearray()
    open_ends = [(size, False)]
    last = 0
    while len(output) < size and (item := structure.next()) is not None:
        (position, kind), level = item
        end, is_bounded = open_ends[-1]
        room = end - len(output)
        output += _shorten(data[last:position], max(_LEAST_TEXT, room // 4))
        if kind == OPEN_LIST and level > spared:
            open_ends.append((len(output) + max(_LEAST_ARRAY, room // 2), True))
        elif kind in (OPEN_LIST, OPEN_OBJECT):
            open_ends.append((end, False))
        elif kind == COMMA and is_bounded and len(output) > end:
            ended = structure.pass_to_end(level)
            if ended is None:
                return bytes(output)
            position, kind = ended
        if kind in (CLOSE_LIST, CLOSE_OBJECT) and len(open_ends) > 1:
            open_ends.pop()
        output += data[position : position + 1]
        last = position + 1
    return bytes(output + data[last:])[:size]


def _shorten(gap: bytes, most: int) -> bytes:
    """Return the bytes between two tokens of JSON; of a text in it that is longer, only the beginning."""
    if len(gap) <= most:
        return gap
    text = gap.strip(_BLANK)
    if text[:1] != b'"':
        return text[:most]
    if text[1:2] in (b"[", b"{"):
        try:
            within = orjson.loads(text)
        except orjson.JSONDecodeError:
            within = ""
        if within:
            return orjson.dumps(_json(within.encode(), most, 0).decode("utf-8", "ignore"))
    return _HALF_ESCAPE.sub(rb"\1", text[:most]).decode("utf-8", "ignore").encode() + b'"'


def _yaml(data: bytes, size: int) -> bytes:
    """The outline of a YAML document: values of several lines, and long lines, have their beginning kept."""
    output = bytearray()
    deeper, most = None, 0
    for line in data.split(b"\n"):
        room = size - len(output)
        if room <= 0:
            break
        indent = len(line) - len(line.lstrip(b" "))
        if deeper is not None and (indent > deeper or not line.strip()):
            output += line[: max(0, most)] + b"\n" if most > 0 else b""
            most -= len(line)
            continue
        keyed = _KEYED.match(line)
        deeper = len(keyed[1]) if keyed is not None else None
        most = max(_LEAST_TEXT, room // 4) - len(line)
        output += line[: max(_LEAST_TEXT, room // 4)] + b"\n"
    return bytes(output[:size])


def binary_outline(head: bytes) -> bytes:
    """The beginning of a binary file without what it holds; any other head as it is.

    Of a zip archive zeros stand in the place of what its members hold.
    """
    if _BINARY.match(head):
        return head[:_BINARY_HEAD]
    if not head.startswith(_ZIP):
        return head
    output, position = bytearray(len(head)), 0
    while 0 <= position < len(head):
        begin = position + _ZIP_HEADER
        names = (
            int.from_bytes(head[position + 26 : begin - 2], "little"),
            int.from_bytes(head[begin - 2 : begin], "little"),
        )
        content = begin + sum(names)
        output[position:content] = head[position:content]
        packed = int.from_bytes(head[position + 18 : position + 22], "little")
        known = not head[position + 6 : position + 7] or not head[position + 6] & _SIZE_FOLLOWS
        if known and packed != _SIZE_ELSEWHERE:
            position = content + packed
            if head[position : position + len(_ZIP)] != _ZIP:
                break
        else:
            position = head.find(_ZIP, content)
    return bytes(output[: len(head)])
