"""A log that is one JSON document: its value, and where the elements of its array of records begin.

It does not know any format. Of a large document, long arrays stay in the file, and places are known; see
`connectors.outline`. Of one that is held, places are exact if it is written with indentation, as SWE-agent and
mini-swe-agent write theirs; in one without line breaks every record has the place of the document, 0, since finding its
own would take longer than parsing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from connectors import records
from connectors.connector import Blob
from connectors.outline import Array, DocumentError, Shape, held, outline
from connectors.records import json_value
from schemas import ParseError

DEPTH: Final = 100
"""Levels of arrays and objects in what is carried on as JSON text."""

_BOM: Final = b"\xef\xbb\xbf"
_MARK_BYTES: Final = 64
_INDENTED: Final = re.compile(rb"\s*[\[{]\r?\n([ \t]+)[\"{]")


def document(blob: Blob, member: str = "", shapes: Sequence[Shape] = ()) -> tuple[Any, bytes]:
    """The value of a member that is one JSON document, and its bytes; none of one that is read by its outline.

    Args:
        blob: the log.
        member: the file of it.
        shapes: what of a large document may be long, as of `outline`; none if it is always held.

    Raises:
        ParseError: `empty`, `not_utf8`, `truncated`, `nested_too_deeply` or `bad_json`, with the byte it was met at.
    """
    data = held(blob, member) if shapes else blob.read(member)
    if data is None:
        return _outlined(blob, member, shapes), b""
    skipped = len(_BOM) if data.startswith(_BOM) else 0
    text = data[skipped:]
    if not text or text.isspace():
        raise ParseError(blob.uri, 0, "empty", "the file holds nothing", member)
    try:
        return json_value(text), data
    except orjson.JSONDecodeError as error:
        reason, place = _fault(error, text)
        where = skipped + min(place, len(text))
        excerpt = data[max(0, where - 512) : where + 512]
        raise ParseError(blob.uri, where, reason, f"wanted a JSON document: {error}", member, excerpt) from None


def _outlined(blob: Blob, member: str, shapes: Sequence[Shape]) -> Any:
    try:
        return outline(blob.seekable(member), blob.uri, member, shapes)
    except DocumentError as fault:
        if fault.is_blank_from(fault.start, b" \t\n\r\v\f"):
            raise ParseError(blob.uri, 0, "empty", "the file holds nothing", member) from None
        reason, where = _word(fault.message), fault.place
        if fault.not_text is not None:
            where, cut = fault.not_text
            reason = "truncated" if cut else "not_utf8"
        elif reason == "truncated":
            where = fault.size
        excerpt = fault.bytes_from(where - 512, where + 512)
        detail = f"wanted a JSON document: {fault.message}"
        raise ParseError(blob.uri, where, reason, detail, member, excerpt) from None


def _word(message: str) -> str:
    if message.startswith("unexpected end of data"):
        return "truncated"
    return "nested_too_deeply" if message.startswith("depth limit") else "bad_json"


def _fault(error: orjson.JSONDecodeError, data: bytes) -> tuple[str, int]:
    """Why the bytes are no JSON, and at which of them that was met."""
    try:
        text = data.decode()
    except UnicodeDecodeError as bad:
        cut = bad.reason == "unexpected end of data" and bad.end == len(data)
        return ("truncated" if cut else "not_utf8"), bad.start
    place = len(text[: error.pos].encode("utf-8", "replace"))
    reason = _word(str(error))
    return reason, len(data) if reason == "truncated" else place


def places(data: bytes, key: str | None, records: Sequence[Any]) -> Sequence[int]:
    """Byte offsets at which the records of an array begin: of the top-level `key`, or of the document itself.

    Of a document that was held, all are 0 where it is not indented, or not as it should be. As many bytes are passed
    over as the texts of a record have characters: it is at least so long.

    Args:
        data: the document, as of `document`.
        key: None if the document is the array.
        records: the array.
    """
    if isinstance(records, Array):
        return records.offsets
    indented = _INDENTED.match(data)
    unit = indented[1] if indented is not None else b""
    begin = 0
    if unit and key is not None:
        begin = data.find(b"\n" + unit + b'"' + key.encode() + b'": [')
        unit *= 2
    if not unit or begin < 0:
        return [0] * len(records)
    find, found = _finder(data, b"\n" + unit + b"{"), []
    for record in records:
        begin = find(begin)
        if begin < 0:
            return [0] * len(records)
        found.append(begin - 1)
        if type(record) is dict:
            for value in record.values():
                if type(value) is str:
                    begin += len(value)
    return found


def _finder(data: bytes, mark: bytes) -> Callable[[int], int]:
    """What finds where a mark ends that stands in the data from a place on; -1 if there is none."""
    # A pattern is found in half the time that `bytes.find` takes, but a long one takes long to be made.
    if len(mark) > _MARK_BYTES:
        return lambda begin: found + len(mark) if (found := data.find(mark, begin)) >= 0 else -1
    search = re.compile(re.escape(mark)).search
    return lambda begin: found.end() if (found := search(data, begin)) is not None else -1


def shallow_json(value: Any) -> str | None:
    """`value` as JSON text, None if it is nested more than `DEPTH` deep."""
    return records.shallow_json(value, DEPTH)


def text_in(value: Any, *path: str) -> str | None:
    """The text at a path of keys through nested objects; None where there is none, or an empty one."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) and value else None
