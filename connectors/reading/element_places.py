"""Where the objects of an array stand in the bytes of a JSON document: braces are counted, strings passed over."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from trajmill.connectors.reading.large.outline import Array

_Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_Places = np.ndarray[Any, np.dtype[np.int64]]


def places_of(data: bytes, values: Sequence[Any], key: bytes = b"", depth: int = 0) -> list[int]:
    """Byte offsets of the elements of an array, which are objects; empty if they are not all found.

    Arguments as of `element_offsets`.
    """
    found = element_offsets(data, key, depth)
    return found if len(found) == len(values) else []


def elements(data: bytes, values: Sequence[Any], key: bytes, depth: int) -> Iterator[tuple[int, Any]]:
    """(offset, value) of the elements of an array; see `places_of`. The array's own where they are no objects."""
    if isinstance(values, Array):
        return zip(values.offsets, values, strict=True)
    places = places_of(data, values, key, depth) or [max(0, data.find(key))] * len(values)
    return zip(places, values, strict=True)


def element_offsets(data: bytes, key: bytes = b"", depth: int = 0) -> list[int]:
    """Byte offsets of the objects in an array of a JSON document; empty if there is no such array.

    Args:
        data: the document, which has to be JSON.
        key: the array's name with its quotes; empty if the document is the array.
        depth: levels around the array, 1 for a member of the document's object.
    """
    raw = np.frombuffer(data, np.uint8)
    opens = (raw == ord("{")) | (raw == ord("["))
    places = np.flatnonzero(opens | (raw == ord("}")) | (raw == ord("]")))
    places = places[np.searchsorted(quotes_in(raw), places) % 2 == 0]
    after = np.cumsum(np.where(opens[places], 1, -1))
    for found in re.finditer(re.escape(key) + rb"\s*:\s*\[" if key else rb"\[", data):
        at = int(np.searchsorted(places, found.end() - 1))
        if at < len(places) and places[at] == found.end() - 1 and after[at] == depth + 1:
            ends = np.flatnonzero(after[at:] == depth)
            stop = at + (int(ends[0]) if len(ends) else len(after) - at)
            inner = places[at + 1 : stop]
            starts = inner[(after[at + 1 : stop] == depth + 2) & (raw[inner] == ord("{"))]
            return [int(place) for place in starts]
    return []


def quotes_in(raw: _Bytes) -> _Places:
    """Where the strings of JSON begin and end, in order: quotes that no odd run of backslashes stands before."""
    quotes = np.flatnonzero(raw == ord('"'))
    slashes = np.flatnonzero(raw == ord("\\"))
    if not len(slashes):
        return quotes
    numbers = np.arange(len(slashes))
    begins = np.ones(len(slashes), np.bool_)
    begins[1:] = slashes[1:] != slashes[:-1] + 1
    run = numbers - np.maximum.accumulate(np.where(begins, numbers, 0)) + 1
    last = np.searchsorted(slashes, quotes) - 1
    escaped = (last >= 0) & (slashes[last] == quotes - 1) & (run[last] % 2 == 1)
    return quotes[~escaped]
