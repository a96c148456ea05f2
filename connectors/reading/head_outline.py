"""Outline of a file's long beginning for format recognition: its keys and short values, with long texts and arrays
shortened.

A format is recognized by a file's first bytes. If the first record alone is longer, its decisive keys may follow later;
the outline contains them. In binary files the reverse is true: the text in a column of a table, or in a member of a
stored zip archive, would be taken for a log. Only the file's own header remains in their outline. An outline serves
recognition alone; it is never parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from typing import Final

import orjson
import re2

from trajmill.connectors.connector import HEAD_BYTES
from trajmill.connectors.reading.structure import CLOSE_LIST, CLOSE_OBJECT, COMMA, OPEN_LIST, OPEN_OBJECT, Structure
from trajmill.connectors.reading.values import BOM

OUTLINED_BYTES: Final = 16 << 20
"""Bytes of a file's beginning that are outlined."""

_LATER_BYTES: Final = 4 << 20
_LATER: Final = 16
_CALL: Final = re2.compile(
    rb"(?i)tool[_-]?(?:call|use)|function[_-]?call|<(?:function|execute|invoke|use_mcp_tool)\b|Action:|keystrokes"
)
"""Marks of an agent's tool call, in most of its forms."""

_LEAST_TEXT: Final = 256
_LEAST_ARRAY: Final = 1024
_BLANK: Final = b" \t\r\n"
_HALF_ESCAPE: Final = re.compile(rb"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?\Z")

_KEYED: Final = re.compile(rb"([ ]*(?:- +)*)[^\s#'\"\[\]{},&*!|>%@`][^\n]*?:[ ]+(?![&!][^\s]*\s*$)\S")
"""Line of YAML with the beginning of a value behind its key; deeper lines belong to that value."""

_YAML: Final = re.compile(rb"(?:---|#[^\n]*|[\w-]+:[^\n]*|- [^\n]*)\n")
"""Beginning of a YAML document."""

_BINARY: Final = re.compile(
    rb"PAR1|ARROW1\0\0|\xff\xff\xff\xff|Obj\x01|ORC[\0-\x1f\x80-\xff]|SQLite format 3\0|\x89(?:PNG|HDF)\r\n"
    rb"|\xff\xd8\xff|GIF8[79]a|RIFF.{4}|%PDF-|\x93NUMPY|\x80[\x02-\x05]|\x7fELF",
    re.DOTALL,
)
"""Beginnings of binary files that may hold texts: tables, databases, images, documents, arrays, pickles, programs."""

_BINARY_HEAD: Final = 64
"""Bytes of a binary file that identify its format."""

_ZIP: Final = b"PK\x03\x04"
_ZIP_HEADER: Final = 30
_SIZE_FOLLOWS: Final = 8
_SIZE_ELSEWHERE: Final = 0xFFFFFFFF


def make_outline(data: bytes, size: int = HEAD_BYTES) -> bytes:
    """Return the outline of a file's beginning; text that is neither JSON nor YAML is only cut to the size.

    A text takes at most a quarter of the remaining size, an array within a record at most half, so that later parts
    have room.

    Args:
        data: Decompressed beginning of the file, at most `OUTLINED_BYTES`.
        size: Largest size of the outline, in bytes.
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
    """Yield later stretches of lines, or of one document, whose head contains no call and fits no format.

    The first stretch has the size of a large row or document; a few stretches of lines that begin with a call follow.

    Args:
        data: Decompressed beginning of the file, at most `OUTLINED_BYTES`.
        size: Bytes of the head, which fits no format.
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
    """Return the outline of adjacent JSON values; arrays down to the level `spared` are not shortened."""
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
    """Return the bytes between two tokens of JSON, with only the beginning of a text longer than `most`."""
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
    """Return the outline of a YAML document: only the beginnings of long lines and of values with several lines."""
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
    """Return the header of a binary file without its contents; any other head unchanged.

    In a zip archive, zeros replace the contents of the members.
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
