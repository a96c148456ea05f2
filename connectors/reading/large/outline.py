"""Outline of a large JSON document: small parts are in memory, long arrays and objects stay in the file.

A connector names by a shape which parts of a document may be long. They become an `Array` or an `Object`, which decode
elements on demand and drop them again; other parts become plain values. The whole document is checked before any value
is returned. A truncated or damaged document is thus refused as a whole, with the reason and the byte that a reader of
the whole would name (see `DocumentError`).

`structure` finds the structure, `parts` defines the parts, and `damage` describes the errors of a damaged document. No
format is known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Final, TypeAlias

from trajmill.connectors.connector import Blob
from trajmill.connectors.reading.large.damage import BadPlaceError, DocumentError, fault
from trajmill.connectors.reading.large.parts import ARRAY, OBJECT, Array, Chosen, Object, Source
from trajmill.connectors.reading.lines import WHOLE_BYTES
from trajmill.connectors.reading.structure import (
    CLOSE_LIST,
    CLOSE_OBJECT,
    COLON,
    COMMA,
    OPEN_LIST,
    OPEN_OBJECT,
    Structure,
)
from trajmill.connectors.reading.values import BOM, DEPTH, TOO_DEEP, JsonError, json_value
from trajmill.schemas import ParseError

__all__ = ["ARRAY", "MANY", "OBJECT", "Array", "Chosen", "DocumentError", "Object", "Shape", "outline", "read_if_small"]

LARGE_BYTES: Final = 32 << 20
"""Size in bytes above which a document is read by its outline."""

PIECE_BYTES: Final = 1 << 20
"""Size in bytes up to which a part within an array is a plain value."""

BLOCK_BYTES: Final = 1 << 18
"""Bytes of adjacent elements that are decoded together."""

MEMBERS: Final = 1 << 20
"""Largest number of members of an object whose places are held in memory."""

Shape: TypeAlias = "Mapping[str, Shape] | list[Shape] | None"
"""Parts of a document that may be long: an object by the shapes of its members, an array by that of its elements.

`[]` is an array of plain values. `MANY` is an object of many members.
"""

MANY: Final[dict[str, Shape]] = {"": None}

_BLANK: Final = b" \t\r\n"
_SIGNS: Final = {OPEN_LIST: b"[", OPEN_OBJECT: b"{"}


def read_if_small(blob: Blob, member: str = "") -> bytes | None:
    """Return the bytes of a member; None if it has to be read by its outline.

    Raises:
        ParseError: The stream fails.
    """
    with blob.open(member) as stream:
        data = stream.read(LARGE_BYTES + 1)
    return data if len(data) <= LARGE_BYTES else None


def outline(stream: BinaryIO, uri: str, member: str, shapes: Sequence[Shape]) -> Any:
    """Return the value of a document: plain, except for long parts of the first shape that fits.

    Args:
        stream: Document, seekable; it is closed with the value.
        shapes: Shapes, each an array or an object.

    Raises:
        DocumentError: The document is no JSON.
        ParseError: `value_too_long` for a part without a shape, `too_many_values` for an object.
    """
    return _Reader(Source(stream), uri, member).document(shapes)


def _fits(shape: Shape, kind: int) -> bool:
    return (isinstance(shape, list) and kind == OPEN_LIST) or (isinstance(shape, Mapping) and kind == OPEN_OBJECT)


class _Reader:
    """Reader that walks a document once, finds its parts, and checks that every byte is JSON.

    Each decoded piece begins at its place in the document. If it fails, `BadPlaceError` names the last valid place
    before it.
    """

    def __init__(self, source: Source, uri: str, member: str) -> None:
        self._source = source
        self._uri, self._member = uri, member
        self._start = len(BOM) if source.read(0, len(BOM)) == BOM else 0
        self._structure = Structure(source.stream, self._start)

    def document(self, shapes: Sequence[Shape]) -> Any:
        """Return the value of the document; see `outline`."""
        try:
            return self._document(shapes)
        except BadPlaceError as bad:
            raise fault(self._source, self._start, bad) from None

    def _document(self, shapes: Sequence[Shape]) -> Any:
        begin = BadPlaceError(self._start, b"")
        token = self._structure.peek()
        if token is None or token[1] not in _SIGNS:
            return self._value(self._start, self._source.size(), begin)
        self._blank(self._start, token[0], begin)
        value, end = self._part(next((shape for shape in shapes if _fits(shape, token[1])), None), b"")
        self._blank(end, self._end(), BadPlaceError(end, b"{}"))
        return value

    def _end(self) -> int:
        """Return the end of the document, before NUL bytes that a writer left."""
        return self._source.end_of(b"\0")

    def _blank(self, begin: int, end: int, bad: BadPlaceError) -> None:
        if any(data.strip(_BLANK) for data in self._source.pieces(begin, end)):
            raise bad

    def _value(self, begin: int, end: int, bad: BadPlaceError, listed: bool = False) -> Any:
        """Return the value between two offsets, or the values of a part of an array."""
        if end - begin > WHOLE_BYTES:
            detail = f"a part of the document has more than {WHOLE_BYTES} bytes and would have to be held in memory"
            raise ParseError(self._uri, begin, "value_too_long", detail, self._member)
        data = self._source.read(begin, end)
        data = b"[" + data + b"]" if listed else data
        if self._structure.deepest > DEPTH:
            deep = JsonError("nested_too_deeply", self._start, TOO_DEEP)
            raise DocumentError(deep, self._start, self._source)
        try:
            return json_value(data)
        except JsonError as error:
            if error.reason in ("too_many_values", "text_too_long"):
                raise DocumentError(error, begin, self._source) from None
            raise bad from None

    def _part(self, shape: Shape, before: bytes) -> tuple[Any, int]:
        """Return the array or object that opens with the next token, and its end."""
        item = self._structure.next()
        assert item is not None
        (position, kind), level = item
        opened = before + _SIGNS[kind]
        if kind == OPEN_LIST:
            return self._array(position, level, shape[0] if isinstance(shape, list) and shape else None, opened)
        return self._object(position, level, shape if isinstance(shape, Mapping) else {}, opened)

    def _array(self, begin: int, level: int, shape: Shape, opened: bytes) -> tuple[Array, int]:
        array = Array(self._source)
        bad = BadPlaceError(begin + 1, opened)
        last = begin
        token = self._structure.peek()
        if token is not None and token[1] == CLOSE_LIST:
            self._structure.next()
            if not self._source.read(last + 1, token[0]).strip(_BLANK):
                return array, token[0] + 1
            array.extend([self._behind(last, token[0])], token[0])
            if len(self._value(last + 1, token[0], bad, listed=True)) != 1:
                raise bad
            return array, token[0] + 1
        while True:
            run = self._structure.elements(level, last, PIECE_BYTES if shape is not None else None)
            if run is None:
                raise bad
            begins, ends, kind = run
            if begins:
                bad = self._blocks(array, last, begins, ends, bad, opened)
                last = ends[-1]
            else:
                bad, last, kind = self._long(array, last, level, shape, bad, opened)
            if kind == CLOSE_LIST:
                return array, last + 1
            if kind != COMMA:
                raise bad

    def _behind(self, position: int, end: int) -> int:
        """Return the beginning of the value after a token."""
        for data in self._source.pieces(position + 1, end):
            rest = data.lstrip(_BLANK)
            if rest:
                return position + 1 + len(data) - len(rest)
            position += len(data)
        return end

    def _blocks(
        self, array: Array, last: int, begins: list[int], ends: list[int], bad: BadPlaceError, opened: bytes
    ) -> BadPlaceError:
        """Add elements in blocks and return the error to raise for the bytes after them."""
        block: list[int] = []
        before = behind = last
        for begin, end in zip(begins, ends, strict=True):
            if block and end - before > BLOCK_BYTES:
                bad = self._block(array, before, block, behind, bad, opened)
                block, before = [], behind
            block.append(begin if begin >= 0 else self._behind(behind, end))
            behind = end
        return self._block(array, before, block, behind, bad, opened)

    def _block(
        self, array: Array, before: int, offsets: list[int], end: int, bad: BadPlaceError, opened: bytes
    ) -> BadPlaceError:
        if len(self._value(before + 1, end, bad, listed=True)) != len(offsets):
            raise bad
        array.extend(offsets, end)
        return BadPlaceError(end, opened + b"{}")

    def _long(
        self, array: Array, last: int, level: int, shape: Shape, bad: BadPlaceError, opened: bytes
    ) -> tuple[BadPlaceError, int, int]:
        """Add the element after the last separator by its own outline; return the next separator, as in `_array`."""
        token = self._structure.peek()
        assert token is not None
        self._blank(last + 1, token[0], bad)
        if _fits(shape, token[1]):
            value, end = self._part(shape, opened)
            array.append(token[0], value)
            bad = BadPlaceError(end, opened + b"{}")
            behind = self._structure.next()
            if behind is None or behind[1] != level:
                raise bad
            self._blank(end, behind[0][0], bad)
            return BadPlaceError(behind[0][0], opened + b"{}"), *behind[0]
        ended = self._structure.pass_to(level)
        if ended is None:
            raise bad
        return self._block(array, last, [token[0]], ended[0], bad, opened), *ended

    def _object(self, begin: int, level: int, shape: Mapping[str, Shape], opened: bytes) -> tuple[Any, int]:
        many = Object(self._source) if shape is MANY else None
        members: dict[str, Any] = {}
        bad = BadPlaceError(begin + 1, opened)
        last, first = begin, True
        while True:
            token = self._structure.pass_to(level)
            if token is None:
                raise bad
            if first and token[1] == CLOSE_OBJECT:
                self._blank(last + 1, token[0], bad)
                return members if many is None else many, token[0] + 1
            key = self._value(last + 1, token[0], bad) if token[1] == COLON else None
            if not isinstance(key, str):
                raise bad
            if many is None:
                members[key], (last, kind) = self._member_value(shape.get(key), token[0], level, bad, opened)
            else:
                _, (last, kind) = self._member_value(None, token[0], level, bad, opened)
                many.put(key, token[0] + 1, last)
                if len(many) > MEMBERS:
                    raise ParseError(self._uri, begin, "too_many_values", f"more than {MEMBERS} members", self._member)
            bad, first = BadPlaceError(last, opened + b'"":{}'), False
            if kind == CLOSE_OBJECT:
                return members if many is None else many, last + 1
            if kind != COMMA:
                raise bad

    def _member_value(
        self, shape: Shape, colon: int, level: int, bad: BadPlaceError, opened: bytes
    ) -> tuple[Any, tuple[int, int]]:
        """Return the value after a colon, and the token that ends it."""
        token = self._structure.peek()
        fits = token is not None and _fits(shape, token[1])
        if fits and token is not None and (level == 1 or self._structure.is_long(level, colon, PIECE_BYTES)):
            self._blank(colon + 1, token[0], bad)
            value, end = self._part(shape, opened + b'"":')
            bad = BadPlaceError(end, opened + b'"":{}')
            behind = self._structure.next()
            if behind is None or behind[1] != level:
                raise bad
            self._blank(end, behind[0][0], bad)
            return value, behind[0]
        ended = self._structure.pass_to(level)
        if ended is None:
            raise bad
        return self._value(colon + 1, ended[0], bad), ended
