"""Byte offsets of the records or texts of a JSON document that was read whole.

A decoder does not report them. They are found again in three ways: by the lines of an indented document, by the
beginnings of the records, and by the texts themselves. A document read by its outline has known offsets.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, BinaryIO, Final

import orjson
import re2

from trajmill.connectors.reading.large.parts import Array
from trajmill.schemas import json_text

_INDENTED: Final = re.compile(rb"\s*[\[{]\r?\n([ \t]+)[\"{]")
_PART_BYTES: Final = 1 << 16
_MISSES: Final = 16
"""Number of texts without a match after which the search for offsets is abandoned."""


def places_by_lines(data: bytes, key: str | None, records: Sequence[Any]) -> Sequence[int]:
    """Return the byte offsets of the records of an array: that under the top-level `key`, or the document itself.

    All are 0 if the document is not indented as expected. After each record, as many bytes are skipped as its texts
    have characters, its least length.

    Args:
        key: Key of the array; None if the document is the array.
        records: Array.
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
    mark, offsets = b"\n" + unit + b"{", []
    for record in records:
        begin = data.find(mark, begin)
        if begin < 0:
            return [0] * len(records)
        begin += len(mark)
        offsets.append(begin - 1)
        if isinstance(record, dict):
            begin += sum(len(value) for value in record.values() if isinstance(value, str))
    return offsets


def places_by_beginning(data: bytes, records: Sequence[Any]) -> Sequence[int]:
    """Return the byte offset of each record of a document; 0 for a record that is not distinguishable from others.

    A record is found by its first key and value, as an object with this beginning: an unescaped quote after a brace is
    in no string. If other objects begin alike, the record's offset is unknown.
    """
    if isinstance(records, Array):
        return records.offsets
    offsets: dict[str, list[int]] = {}
    for key in {next(iter(record)) for record in records if isinstance(record, dict) and record}:
        name = re.escape(orjson.dumps(key)) if key.isascii() else b""
        pattern = rb"\{\s*" + name + rb'\s*:\s*("(?:[^"\\]|\\.)*"|[^\s,}\]"]+)'
        for hit in re2.finditer(pattern, data) if name else ():
            offsets.setdefault(f"{key}={hit[1].decode('utf-8', 'replace')}", []).append(hit.start())
    taken: dict[str, int] = {}
    wanted = [_mark(record) for record in records]
    counts = Counter(wanted)
    result = []
    for mark in wanted:
        hits = offsets.get(mark, [])
        number = taken.get(mark, 0)
        taken[mark] = number + 1
        result.append(hits[number] if len(hits) == counts[mark] else 0)
    return result


def _mark(record: Any) -> str:
    """Return the first key and value of a record as written; empty if they cannot be searched for."""
    if not isinstance(record, dict) or not record:
        return ""
    key, value = next(iter(record.items()))
    if not isinstance(value, str | int) or (isinstance(value, str) and not value.isascii()):
        return ""
    return f"{key}={orjson.dumps(value).decode()}" if not isinstance(value, int) or abs(value) < 2**53 else ""


class TextPlaces:
    """Byte offsets of texts of a JSON document, searched in order; a guess for texts without a match.

    Args:
        data: Document, or a stream over it.
    """

    def __init__(self, data: bytes | BinaryIO) -> None:
        self._find: Callable[[bytes, int], int] = data.find if isinstance(data, bytes) else partial(_find_in, data)
        self._misses = 0
        self._end = 0
        self.place = 0

    def of(self, text: str) -> int:
        """Return the offset of the text's next occurrence after the last match; without one, that of the last match."""
        if self._misses < _MISSES:
            for written in (json_text(text), json.dumps(text)):
                wanted = written[1:-1].encode("utf-8", "surrogatepass")
                hit = self._find(wanted, self._end)
                if hit >= 0:
                    self.place, self._end = hit, hit + len(wanted)
                    return self.place
            self._misses += 1
        return self.place


def _find_in(stream: BinaryIO, wanted: bytes, start: int) -> int:
    begin = stream.seek(start)
    part = b""
    while more := stream.read(_PART_BYTES):
        part += more
        hit = part.find(wanted)
        if hit >= 0:
            return begin + hit
        passed = max(0, len(part) - len(wanted) + 1)
        part, begin = part[passed:], begin + passed
    return -1
