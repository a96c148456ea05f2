"""Parts of a JSON document that stay in its file and are decoded on demand.

`outline` finds their bounds.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final, overload

from trajmill.connectors.reading.values import json_value

READ_BYTES: Final = 1 << 18
"""Bytes read at a time of parts that are only scanned."""


class Source:
    """Bytes of a document with random access.

    Args:
        stream: Stream, closed with this object.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream

    def read(self, begin: int, end: int) -> bytes:
        """Return the bytes between two offsets."""
        self.stream.seek(begin)
        return self.stream.read(end - begin)

    def size(self) -> int:
        """Return the size of the whole document, in bytes."""
        return self.stream.seek(0, 2)

    def end_of(self, padding: bytes) -> int:
        """Return the end of the document without the padding bytes after it."""
        end = self.size()
        while end:
            begin = max(0, end - READ_BYTES)
            rest = self.read(begin, end).rstrip(padding)
            if rest:
                return begin + len(rest)
            end = begin
        return 0

    def pieces(self, begin: int, end: int) -> Iterator[bytes]:
        """Yield the bytes between two offsets, piece by piece."""
        while begin < end and (data := self.read(begin, min(end, begin + READ_BYTES))):
            yield data
            begin += len(data)

    def __del__(self) -> None:
        self.stream.close()


class Array(Sequence[Any]):
    """Array of a document, with two blocks of adjacent elements in memory.

    Attributes:
        offsets: Beginning of each element in the document, in bytes.
    """

    def __init__(self, source: Source) -> None:
        self.offsets = array("q")
        self._source = source
        self._firsts = array("q")
        self._ends = array("q")
        self._outlines: dict[int, Any] = {}
        self._blocks: dict[int, list[Any]] = {}

    def extend(self, offsets: Sequence[int], end: int) -> None:
        """Add a block of elements that ends before `end`."""
        self._firsts.append(len(self.offsets))
        self._ends.append(end)
        self.offsets.extend(offsets)

    def append(self, offset: int, value: Any) -> None:
        """Add an element that has an outline of its own."""
        self._outlines[len(self._firsts)] = value
        self.extend([offset], offset)

    def _block(self, number: int) -> list[Any]:
        if number in self._outlines:
            return [self._outlines[number]]
        elements = self._blocks.pop(number, None)
        if elements is None:
            first = self.offsets[self._firsts[number]]
            elements = json_value(b"[" + self._source.read(first, self._ends[number]) + b"]")
            while len(self._blocks) > 1:
                del self._blocks[next(iter(self._blocks))]
        self._blocks[number] = elements
        return elements

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[Any]:
        for number in range(len(self._firsts)):
            yield from self._block(number)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> list[Any]: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        place = place + len(self) if place < 0 else place
        if not 0 <= place < len(self):
            raise IndexError(f"there are {len(self)} elements, wanted the one at {place}")
        number = bisect_right(self._firsts, place) - 1
        return self._block(number)[place - self._firsts[number]]


class Chosen(Sequence[Any]):
    """Some elements of an array, each read on demand."""

    def __init__(self, elements: Sequence[Any], indexes: Iterable[int]) -> None:
        self._held = elements
        self.places = array("q", indexes)

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, number: int) -> Any: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Any]: ...
    def __getitem__(self, number: int | slice) -> Any:
        if isinstance(number, slice):
            return Chosen(self._held, self.places[number])
        return self._held[self.places[number]]


class Object(Mapping[str, Any]):
    """Object of a document whose members are decoded on demand."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._places: dict[str, tuple[int, int]] = {}

    def put(self, key: str, begin: int, end: int) -> None:
        """Add the member whose value is between two offsets; among members of the same key the last counts."""
        self._places[key] = begin, end

    def __getitem__(self, key: str) -> Any:
        return json_value(self._source.read(*self._places[key]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


ARRAY: Final = (list, Array)
"""Types of an array of a document, whether read whole or by its outline."""

OBJECT: Final = (dict, Object)
