"""Positions of the braces, brackets, commas and colons of a JSON document, read in chunks.

The text between them is not checked: the decoder of the parts decides whether the document is JSON. For other documents
the positions have no meaning, but they are in order and consistent with the levels.
"""

from __future__ import annotations

from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np

CHUNK_BYTES: Final = 1 << 20

LONG_BYTES: Final = 1 << 20

_QUOTE, OPEN_OBJECT, CLOSE_OBJECT, OPEN_LIST, CLOSE_LIST, COMMA, COLON, _SLASH = range(1, 9)
_SIGNS: Final = b'"{}[],:\\'
_CODES: Final = bytes(_SIGNS.find(one) + 1 for one in range(256))
_STEPS: Final = np.array([0, 0, 1, -1, 1, -1, 0, 0, 0], np.int32)
_OPENS: Final = np.array([code in (OPEN_OBJECT, OPEN_LIST) for code in range(9)])
_VALUES: Final = np.array([code in (OPEN_OBJECT, OPEN_LIST, COMMA) for code in range(9)])
_CLOSES: Final = np.array([code in (CLOSE_OBJECT, CLOSE_LIST) for code in range(9)])

Places: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Kinds: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
Marks: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Token: TypeAlias = tuple[int, int]
"""Byte offset of a token, and its kind."""


class Structure:
    """Tokens of a document in order, each with its level: the number of arrays and objects open within it.

    An opening token, the commas and colons after it and its closing token have the same level.

    Args:
        stream: Document, seekable; it may be read elsewhere between calls.

    Attributes:
        deepest: Highest level so far.
        known: End of the bytes searched for tokens.
    """

    def __init__(self, stream: BinaryIO, start: int) -> None:
        self.deepest = 0
        self.known = start
        self._stream = stream
        self._quoted = False
        self._depth = 0
        self._next = 0
        self._places: Places = np.empty(0, np.int64)
        self._kinds: Kinds = np.empty(0, np.uint8)
        self._levels: np.ndarray[Any, np.dtype[np.int32]] = np.empty(0, np.int32)

    def load(self) -> bool:
        """Read more of the document and drop passed tokens; return False at its end."""
        self._stream.seek(self.known)
        data = self._stream.read(CHUNK_BYTES)
        while data.endswith(b"\\") and (more := self._stream.read(CHUNK_BYTES)):
            data += more  # so that no escape is parted
        if not data:
            return False
        size = len(data)
        codes = np.frombuffer(data.translate(_CODES), np.uint8)
        at = np.flatnonzero(codes.view(np.bool_))
        kinds = codes[at]
        if b"\\" in data:
            unescaped = (kinds != _SLASH) & ~_find_escaped(at, kinds)
            at, kinds = at[unescaped], kinds[unescaped]
        quotes = kinds == _QUOTE
        within = np.cumsum(quotes) + self._quoted
        self._quoted = bool(within[-1] & 1) if len(within) else self._quoted
        outside = ~quotes & (within & 1 == 0)
        at, kinds = at[outside], kinds[outside]
        depths = np.cumsum(_STEPS[kinds], dtype=np.int32) + self._depth
        if len(at):
            self._depth = int(depths[-1])
            self.deepest = max(self.deepest, int(depths.max()))
        first = self._next
        self._places = np.concatenate([self._places[first:], at + self.known])
        self._kinds = np.concatenate([self._kinds[first:], kinds])
        self._levels = np.concatenate([self._levels[first:], depths + _CLOSES[kinds]])
        self._next = 0
        self.known += size
        return True

    def longest(self) -> tuple[int, list[tuple[int, int]]]:
        """Roughly count the values of the rest of the document, and list the stretches of texts over `LONG_BYTES`."""
        count, long = 0, []
        last = self.known
        while self.load():
            count += int(_VALUES[self._kinds].sum())
            offsets = np.concatenate([[last], self._places])
            long += [
                (int(offsets[at]), int(offsets[at + 1]))
                for at in np.flatnonzero(np.diff(offsets) > LONG_BYTES).tolist()
            ]
            last = int(offsets[-1])
            self._next = len(self._places)
        return count, [*long, (last, self.known)]

    def peek(self) -> Token | None:
        """Return the next token; None if there is none."""
        while self._next >= len(self._places):
            if not self.load():
                return None
        return int(self._places[self._next]), int(self._kinds[self._next])

    def next(self) -> tuple[Token, int] | None:
        """Pass the next token and return it with its level; None if there is none."""
        token = self.peek()
        if token is None:
            return None
        self._next += 1
        return token, int(self._levels[self._next - 1])

    def pass_to(self, level: int) -> Token | None:
        """Pass all tokens up to the next one of a level and return it; None if there is none."""
        while True:
            hits = np.flatnonzero(self._levels[self._next :] == level)
            if len(hits):
                at = self._next + int(hits[0])
                self._next = at + 1
                return int(self._places[at]), int(self._kinds[at])
            self._next = len(self._places)
            if not self.load():
                return None

    def pass_to_end(self, level: int) -> Token | None:
        """Pass all tokens up to the one that closes the array or object of a level and return it; None without one."""
        while True:
            rest = slice(self._next, None)
            hits = np.flatnonzero((self._levels[rest] == level) & _CLOSES[self._kinds[rest]])
            if len(hits):
                at = self._next + int(hits[0])
                self._next = at + 1
                return int(self._places[at]), int(self._kinds[at])
            self._next = len(self._places)
            if not self.load():
                return None

    def is_long(self, level: int, begin: int, size: int) -> bool:
        """Check whether there are more than `size` bytes from `begin` to the next token of a level; pass no token."""
        while True:
            hits = np.flatnonzero(self._levels[self._next :] == level)
            if len(hits):
                return int(self._places[self._next + int(hits[0])]) - begin > size
            if self.known - begin > size:
                return True
            if not self.load():
                return False

    def elements(self, level: int, after: int, size: int | None) -> tuple[list[int], list[int], int] | None:
        """Return the loaded elements of an array: their beginnings, their ends, and the kind of the last end token.

        They are passed together with their end tokens: commas, except the last, which may be any token. The beginning
        of an element that is no array or object is -1. The result is None if the document ends before the next element
        does, and contains no element if the next one is long.

        Args:
            level: Level of the array.
            after: Offset of the separator before the first element.
            size: Bytes from which an array or object is long; None if none is.
        """
        while True:
            tokens = self._next + np.flatnonzero(self._levels[self._next :] == level)
            closing = np.flatnonzero(self._kinds[tokens] != COMMA)
            tokens = tokens[: closing[0] + 1] if len(closing) else tokens
            begins = np.concatenate([[self._next], tokens + 1])[: max(len(tokens), 1)]
            opens = _OPENS[self._kinds[begins]] if self._next < len(self._places) else np.zeros(1, np.bool_)
            if size is not None and len(tokens):
                ends = self._places[tokens]
                long = np.flatnonzero(opens & (np.diff(ends, prepend=after) > size))
                if len(long) and long[0] == 0:
                    return [], [], COMMA
                tokens = tokens[: long[0]] if len(long) else tokens
            if len(tokens):
                begins = np.where(opens, self._places[begins], -1)[: len(tokens)]
                last = int(tokens[-1])
                self._next = last + 1
                return begins.tolist(), self._places[tokens].tolist(), int(self._kinds[last])
            if size is not None and opens[0] and self.known - after > size:
                return [], [], COMMA
            if size is None and self._next < len(self._places):
                self._keep_next()
            if not self.load():
                return None

    def _keep_next(self) -> None:
        """Drop all tokens but the next one, since they are within one long element."""
        only = slice(self._next, self._next + 1)
        self._places, self._kinds, self._levels = self._places[only], self._kinds[only], self._levels[only]
        self._next = 0


def _find_escaped(at: Places, kinds: Kinds) -> Marks:
    """Mark the quotes after an odd run of backslashes."""
    slashes = kinds == _SLASH
    joined = np.empty(len(at), np.bool_)  # to a backslash just before
    joined[:1] = False
    joined[1:] = slashes[:-1] & (np.diff(at) == 1)
    escaped = (kinds == _QUOTE) & joined
    behind = np.flatnonzero(escaped)
    if len(behind):
        numbers = np.arange(len(at))
        begins = np.maximum.accumulate(np.where(joined, 0, numbers))
        escaped[behind] = (behind - begins[behind]) & 1 == 1
    return escaped
