"""Errors of a JSON document that is not held in memory, with the offset and wording of a reader of the whole.

Only the bytes after the last valid place, which `outline` determines, are decoded.
"""

from __future__ import annotations

from typing import Final

from trajmill.connectors.reading.large.parts import Source
from trajmill.connectors.reading.lines import WHOLE_BYTES
from trajmill.connectors.reading.values import JsonError, json_value

NEAR_BYTES: Final = 1 << 20
"""Bytes from the damage on that are decoded first; four times as many until the error is certain."""

_AHEAD: Final = 64
"""Bytes after an error from which on it is not caused by the end of the decoded bytes."""


class DocumentError(JsonError):
    """Error of a document that is no JSON; `offset` is a byte of the document."""

    def __init__(self, error: JsonError, offset: int, source: Source) -> None:
        super().__init__(error.reason, offset, str(error))
        self._source = source

    def bytes_from(self, begin: int, end: int) -> bytes:
        """Return the document's bytes between two offsets."""
        return self._source.read(max(begin, 0), max(begin, end, 0))


class BadPlaceError(Exception):
    """Error of a document that is no JSON at or soon after a place; to a reader, `before` equals the bytes before."""

    def __init__(self, position: int, before: bytes) -> None:
        super().__init__(position, before)
        self.place = position
        self.before = before


def fault(source: Source, start: int, bad: BadPlaceError) -> DocumentError:
    """Return the error of a reader of the whole for a document that begins at `start` and is JSON up to a place."""
    size = source.size()
    length = NEAR_BYTES
    while True:
        end = min(size, bad.place + length)
        data = source.read(bad.place, end)
        error = _error(bad.before + data)
        near_end = error is None or error.reason in ("truncated", "empty") or error.offset + _AHEAD >= len(data)
        if error is not None and (not near_end or end == size or length > WHOLE_BYTES):
            break
        assert end < size, f"the bytes from {bad.place} on were found to be no JSON, and are"
        length *= 4
    if error.reason in ("empty", "nested_too_deeply"):
        return DocumentError(error, start, source)
    return DocumentError(error, bad.place + max(0, error.offset - len(bad.before)), source)


def _error(data: bytes) -> JsonError | None:
    try:
        json_value(data)
    except JsonError as error:
        return error
    return None
