"""What is wrong with a JSON document that is not held: in the words and at the byte that a reader of the whole names.

Only what stands behind the last sound place is decoded; which place that is, `outline` tells.
"""

from __future__ import annotations

import codecs
from typing import Final

import orjson

from connectors.parts import Source
from connectors.records import WHOLE_BYTES

NEAR_BYTES: Final = 1 << 20
"""Bytes from the damage on that are looked at first; four times as many as long as they do not tell."""

_ENDED: Final = ("unexpected end of data", "input data is empty", "failed to allocate memory")
_AHEAD: Final = 64
"""Characters behind an error from which on it is none of the end of what was looked at."""

_FIRST_BYTES: Final = bytes(one for one in range(256) if one & 0xC0 != 0x80)
"""Bytes with which a character of UTF-8 begins."""

_NO_TEXT: Final = "str is not valid UTF-8: surrogates not allowed"


class DocumentError(Exception):
    """A document that is no JSON, in the words of `orjson.loads` of the whole of it.

    Attributes:
        message: with line, column and character.
        word: without them.
        place: the byte it names.
        start: where the document begins, behind a byte order mark.
        size: bytes of all.
        not_text: the first byte that is no UTF-8, and whether the end of the document cut a character there.
    """

    def __init__(self, message: str, place: int, start: int, not_text: tuple[int, bool] | None, source: Source) -> None:
        super().__init__(message)
        self.message, self.place, self.start, self.not_text = message, place, start, not_text
        self.size = source.size()
        self.word = message.partition(": line ")[0]
        self._source = source

    def bytes_from(self, begin: int, end: int) -> bytes:
        """The document's bytes between two places."""
        return self._source.read(max(begin, 0), max(begin, end, 0))

    def is_blank_from(self, place: int, blank: bytes) -> bool:
        """Whether from a place on only these characters follow."""
        return all(not data.strip(blank) for data in self._source.pieces(place, self.size))


class BadPlaceError(Exception):
    """From a place on, or soon after it, the document is no JSON; what stands before is to a reader as `before` is."""

    def __init__(self, place: int, before: bytes) -> None:
        super().__init__(place, before)
        self.place = place
        self.before = before


def fault(source: Source, start: int, bad: BadPlaceError) -> DocumentError:
    """What `orjson` would say of the whole document, which is JSON up to a place."""
    size = source.size()
    not_text = _not_text(source, start, size)
    if not_text is not None:
        return DocumentError(f"{_NO_TEXT}: line 1 column 1 (char 0)", start, start, not_text, source)
    # orjson's memory for what is nested goes by the length of all.
    before = b" " * min(bad.place, 1 << 16) + bad.before
    length = NEAR_BYTES
    while True:
        end = min(size, bad.place + length)
        text = codecs.getincrementaldecoder("utf-8")().decode(source.read(bad.place, end))
        error = _error(before + text.encode())
        sure = error is not None and error.msg not in _ENDED and error.pos + _AHEAD < len(before) + len(text)
        if error is not None and (sure or end == size or length > WHOLE_BYTES):
            break
        assert end < size, f"the bytes from {bad.place} on were found to be no JSON, and are"
        length *= 4
    read = text[: max(0, error.pos - len(before))]
    characters, lines, column = _position(source, start, bad.place)
    lines += read.count("\n")
    column = len(read) - read.rfind("\n") if "\n" in read else column + len(read)
    message = f"{error.msg}: line {lines} column {column} (char {characters + len(read)})"
    return DocumentError(message, bad.place + len(read.encode()), start, None, source)


def _error(data: bytes) -> orjson.JSONDecodeError | None:
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return error
    return None


def _not_text(source: Source, begin: int, end: int) -> tuple[int, bool] | None:
    """The first byte that is no UTF-8, and whether the end cut a character there; None if there is none."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for data in source.pieces(begin, end):
        held_back = len(decoder.getstate()[0])
        try:
            decoder.decode(data)
        except UnicodeDecodeError as error:
            return begin - held_back + error.start, False
        begin += len(data)
    left = len(decoder.getstate()[0])
    return (end - left, True) if left else None


def _position(source: Source, begin: int, end: int) -> tuple[int, int, int]:
    """Characters between two places, and line and column, from 1 on, of the character behind them."""
    characters, lines, column = 0, 1, 1
    for data in source.pieces(begin, end):
        characters += _characters(data)
        lines += data.count(b"\n")
        tail = data[data.rfind(b"\n") + 1 :]
        column = _characters(tail) + (1 if len(tail) < len(data) else column)
    return characters, lines, column


def _characters(data: bytes) -> int:
    return len(data) - len(data.translate(None, _FIRST_BYTES)) if data else 0
