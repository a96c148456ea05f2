"""Findings that scrubbing would still replace in finished texts: each place with its kind and a digest, never its text.

Publishers of texts made from scrubbed texts use them. Rendering cuts, joins and quotes, so that a harmless text may
look like a secret in its new place, or be one. This module replaces nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

import numpy as np
import pyarrow as pa

from trajmill.quality.scrubbing.detection import Detection
from trajmill.quality.scrubbing.kinds import KINDS, Finds
from trajmill.quality.scrubbing.session import Session
from trajmill.schemas.record import record

_KEY: Final = bytes(16)
"""Key of the placeholders, which are never shown, so any key will do."""

_ENCODED: Final = "token"
"""Kind of a finding in an encoded body or a view whose own finds name no kind."""


@record
class Finding:
    """Place that scrubbing would replace.

    Attributes:
        text: Number of the text.
        start: First byte in the text.
        end: End in the text.
        kind: Kind of the find, one of `KINDS`.
        digest: 32 hex digits of the kind and the bytes; equal bytes of a kind have equal digests in all texts.
    """

    text: int
    start: int
    end: int
    kind: str
    digest: str


def findings(texts: pa.StringArray | pa.LargeStringArray) -> Iterator[Finding]:
    """Find every place in the texts that scrubbing would replace, each text by itself, in order.

    Args:
        texts: Strings, possibly with nulls.
    """
    array = texts.cast(pa.large_string())
    _, offsets, values = array.buffers()
    if values is None or not len(array):
        return
    data = memoryview(values)
    bounds = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1].tolist()
    whole = bytes(data[: bounds[-1]])
    detection = Detection.of(KINDS)
    regions, sights = detection.regions(whole, bounds), detection.sights(whole, bounds)
    for number in sorted(
        {*regions, *(text_number for text_number, seen in sights.items() if any(some for _, some in seen))}
    ):
        if array[number].is_valid:
            text = whole[bounds[number] : bounds[number + 1]]
            finds = detection.finds(text, regions.get(number, ()), sights.get(number, ()))
            yield from _of(number, text, finds)


def _of(number: int, text: bytes, finds: Finds) -> Iterator[Finding]:
    session = Session(_KEY)
    session.learn(text, finds)
    end = -1
    for start, stop, _ in session.patches(text, finds, session.occurrences_in(text)):
        if start >= end:
            kind = _kind(finds, start, stop)
            yield Finding(number, start, stop, kind, digest_of(kind, text[start:stop]))
            end = stop


def digest_of(kind: str, data: bytes) -> str:
    """Return the digest of a finding of this kind and these bytes."""
    return blake2b(kind.encode() + b"\0" + data, digest_size=16, person=b"trajmill find").hexdigest()


def _kind(finds: Finds, start: int, end: int) -> str:
    """Return the kind of a place's find: in the text itself, in an encoded body, or in a view."""
    for span in finds.spans:
        if span.start < end and start < span.end and not span.stays:
            return span.kind
    for loose in finds.loose:
        if loose.start < end and start < loose.end:
            return loose.kind
    for body in finds.encoded:
        if body.start < end and start < body.end:
            return _first(body.finds)
    return next((_first(seen.finds) for seen in finds.viewed if seen.finds), _ENCODED)


def _first(finds: Finds) -> str:
    kinds = [*(span.kind for span in finds.spans), *(loose.kind for loose in finds.loose)]
    return kinds[0] if kinds else _ENCODED
