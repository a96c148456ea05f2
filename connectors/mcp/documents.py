"""JSON documents: read, looked into by their first bytes, and their records found again in the bytes.

A document is read whole, or by its outline where its format says which parts may be long; see `connectors.outline`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import orjson
import re2

from connectors.connector import HEAD_BYTES, Blob
from connectors.outline import Array, DocumentError, Shape, held, outline
from connectors.records import json_value
from schemas import ParseError

_BOM: Final = b"\xef\xbb\xbf"
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["{}\[\],]', re.DOTALL)
_OPENS: Final = {ord("{"): b"}", ord("["): b"]"}
_DEPTH: Final = 200
_SPACE: Final = re.compile(r"\s*")


def document(blob: Blob, member: str = "", shapes: Sequence[Shape] = ()) -> tuple[Any, bytes]:
    """The JSON value that a member is, and its bytes; none of one that is read by its outline.

    Args:
        blob: the log.
        member: the file of it.
        shapes: what of a large document may be long, as of `outline`; none if it is always held.

    Raises:
        ParseError: `empty`, `truncated` (it ends too early) or `bad_json`, with the offset where reading failed.
    """
    data = held(blob, member) if shapes else blob.read(member)
    if data is None:
        return _outlined(blob, member, shapes), b""
    text = data.removeprefix(_BOM)
    if not text or text.isspace():
        raise ParseError(blob.uri, 0, "empty", "wanted a JSON document, met nothing", member)
    try:
        return json_value(text), data
    except ValueError as error:
        place = _place(data, error)
        reason = "truncated" if not data[place:].strip(b" \t\r\n\x00") else "bad_json"
        detail = f"wanted a JSON document: {error}"
        raise ParseError(blob.uri, place, reason, detail, member, data[max(0, place - 200) :][:400]) from None


def _outlined(blob: Blob, member: str, shapes: Sequence[Shape]) -> Any:
    try:
        return outline(blob.seekable(member), blob.uri, member, shapes)
    except DocumentError as fault:
        if fault.is_blank_from(fault.start, b" \t\n\r\v\f"):
            raise ParseError(blob.uri, 0, "empty", "wanted a JSON document, met nothing", member) from None
        begin = max(0, fault.place - 200)
        reason = "truncated" if fault.is_blank_from(fault.place, b" \t\r\n\x00") else "bad_json"
        detail = f"wanted a JSON document: {fault.message}"
        excerpt = fault.bytes_from(begin, begin + 400)
        raise ParseError(blob.uri, fault.place, reason, detail, member, excerpt) from None


def _place(data: bytes, error: ValueError) -> int:
    """The byte at which reading failed, as near as the reader tells; 0 where it does not."""
    if not isinstance(error, orjson.JSONDecodeError):
        return 0
    read = len(error.doc[: error.pos].encode("utf-8", "replace"))
    return min(len(data), read + (len(_BOM) if data.startswith(_BOM) else 0))


@dataclass(frozen=True, slots=True)
class Opening:
    """What the beginning of a file holds: JSON values, the last of them maybe cut, one of a document, more of lines."""

    lines: bool
    values: tuple[Any, ...]


@lru_cache(8)
def opening(head: bytes) -> Opening | None:
    """What the first bytes of a file hold, None if they are no JSON; the values are shared and must not be changed."""
    data = head.removeprefix(_BOM).lstrip()
    if data[:1] not in (b"{", b"["):
        return None
    whole = _value(data)
    if whole is not None:
        return Opening(False, (whole,))
    first, _, rest = data.partition(b"\n")
    value = _value(first) if rest else None
    if value is None:
        value = _cut_value(data)
        return None if value is None else Opening(False, (value,))
    lines = [line for line in rest.split(b"\n") if line.strip()][:63]
    later = [_value(line) for line in lines]
    if lines and later[-1] is None and len(head) >= HEAD_BYTES:
        later[-1] = _cut_value(lines[-1])
    return Opening(True, (value, *(one for one in later if one is not None)))


def _value(data: bytes) -> Any:
    try:
        return json_value(data)
    except ValueError:
        return None


def _cut_value(data: bytes) -> Any:
    """The value that a document begins with, without what stands after its last whole element; None if it is none."""
    closers: list[bytes] = []
    last: tuple[int, list[bytes]] | None = None
    for token in _TOKEN.finditer(data):
        sign = data[token.start()]
        if sign in _OPENS:
            closers.append(_OPENS[sign])
            if len(closers) > _DEPTH:
                break
        elif sign in b"}]":
            if not closers or closers.pop() != bytes((sign,)):
                return None
            if not closers:
                break
        elif sign == ord(","):
            last = token.start(), closers.copy()
        elif token.end() == token.start() + 1:
            break
    return None if last is None else _value(data[: last[0]] + b"".join(reversed(last[1])))


def places(data: bytes, records: Sequence[Any]) -> Sequence[int]:
    """Where each record of a document begins, in bytes; 0 for one that cannot be told from the others.

    Where the document was read by its outline, each is known.

    A record is found by its first key and value, as an object that begins so: an unescaped quote after a brace stands
    in no string. Where other objects begin the same, the record's place is not known.
    """
    if isinstance(records, Array):
        return records.offsets
    found: dict[str, list[int]] = {}
    for key in {next(iter(record)) for record in records if isinstance(record, dict) and record}:
        name = re.escape(orjson.dumps(key)) if key.isascii() else b""
        pattern = rb"\{\s*" + name + rb'\s*:\s*("(?:[^"\\]|\\.)*"|[^\s,}\]"]+)'
        for hit in re2.finditer(pattern, data) if name else ():  # in a third of the time that `re` takes
            found.setdefault(f"{key}={hit[1].decode('utf-8', 'replace')}", []).append(hit.start())
    taken: dict[str, int] = {}
    wanted = [_mark(record) for record in records]
    counts = Counter(wanted)
    result = []
    for mark in wanted:
        hits = found.get(mark, [])
        number = taken.get(mark, 0)
        taken[mark] = number + 1
        result.append(hits[number] if len(hits) == counts[mark] else 0)
    return result


def _mark(record: Any) -> str:
    """The first key and value of a record as `places` finds them; empty where they are not found so."""
    if not isinstance(record, dict) or not record:
        return ""
    key, value = next(iter(record.items()))
    if not isinstance(value, str | int) or (isinstance(value, str) and not value.isascii()):
        return ""
    return f"{key}={orjson.dumps(value).decode()}" if not isinstance(value, int) or abs(value) < 2**53 else ""


def concatenated(data: bytes, uri: str) -> Iterator[tuple[int, Any]]:
    """(offset, value) of JSON values that stand one after the other, whatever space is between them.

    Raises:
        ParseError: `bad_encoding`, `truncated` (it ends within a value) or `bad_json`.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ParseError(uri, error.start, "bad_encoding", "wanted UTF-8") from None
    decoder = json.JSONDecoder()
    place, offset = 0, len(data) - len(text.encode())
    while True:
        begin = _SPACE.match(text, place)
        assert begin is not None
        offset += len(text[place : begin.end()].encode())
        place = begin.end()
        if place == len(text):
            return
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            near_end = isinstance(error, json.JSONDecodeError) and error.pos >= len(text.rstrip()) - 1
            reason = "truncated" if near_end else "bad_json"
            raise ParseError(
                uri, offset, reason, f"wanted a JSON value: {error}", excerpt=data[offset:][:4096]
            ) from None
        yield offset, value
        offset += len(text[place:end].encode("utf-8", "surrogatepass"))
        place = end
