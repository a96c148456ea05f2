"""Memory of the batches of an Arrow stream, from the stated sizes of their buffers, before any is decompressed.

A compressed buffer begins with its uncompressed size, according to which readers allocate memory (Arrow format,
`Message.fbs`; metadata are FlatBuffers).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from io import RawIOBase
from typing import BinaryIO, Final

from trajmill.schemas.record import record

_CONTINUED: Final = b"\xff\xff\xff\xff"
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
_METADATA_BYTES: Final = 64 << 20


@record
class BatchMessage:
    """The message of a record batch.

    Attributes:
        rows: stated number of rows.
        bytes: largest memory of the batch, including the dictionaries before it.
    """

    begin: int
    end: int
    rows: int
    bytes: int


class PassedOver(RawIOBase):
    """A stream of messages without the skipped ones, for a reader that reads one after the other.

    Args:
        stream: the file, positioned at a message.
    """

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream
        self._passed: dict[int, int] = {}

    def pass_over(self, message: BatchMessage) -> None:
        """Skip a message that was not read yet."""
        self._passed[message.begin] = message.end

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while (end := self._passed.pop(self._stream.tell(), None)) is not None:
            self._stream.seek(end)
        return self._stream.read(size)


def batch_messages(stream: BinaryIO, begin: int) -> Iterator[BatchMessage]:
    """Yield the messages of record batches, in order.

    Args:
        begin: offset of its first message.

    Raises:
        ValueError: a message is damaged.
    """
    size = 0
    while True:
        message = begin
        stream.seek(begin)
        head = stream.read(8)
        begin += 8
        if not head.startswith(_CONTINUED):  # before version 0.15 a message began with its length
            begin -= 4
            head = _CONTINUED + head[:4]
        length = int.from_bytes(head[4:], "little", signed=True)
        if length <= 0 or length > _METADATA_BYTES:
            return
        stream.seek(begin)
        try:
            kind, body, rows, buffers = _message(stream.read(length))
        except (struct.error, IndexError) as error:
            raise ValueError(f"the metadata at byte {begin} are damaged") from error
        begin += length
        if buffers:
            size += body + sum(_read_unpacked_size(stream, begin + position, stored) for position, stored in buffers)
        begin += body
        if kind == _RECORD_BATCH:
            yield BatchMessage(message, begin, rows, size)
            size = 0


def _read_unpacked_size(stream: BinaryIO, position: int, stored: int) -> int:
    if not stored:
        return 0
    stream.seek(position)
    return max(0, int.from_bytes(stream.read(8), "little", signed=True))


def _message(data: bytes) -> tuple[int, int, int, list[tuple[int, int]]]:
    """Return kind, body size and rows of a message, and (position in the body, size) of its compressed buffers."""
    message = _Table(data, _uint(data, 0))
    kind, body = message.number(1, "<B"), message.number(3, "<q")
    if body < 0:
        raise struct.error
    batch = message.table(2)
    if kind == _DICTIONARY_BATCH and batch is not None:
        batch = batch.table(1)
    if kind not in (_DICTIONARY_BATCH, _RECORD_BATCH) or batch is None:
        return kind, body, 0, []
    rows = batch.number(0, "<q")
    return kind, body, rows, [(0, 0)] if batch.table(3) is None else batch.pairs(2)


class _Table:
    """A table of FlatBuffers: its fields by number."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data, self._place = data, position
        self._fields = position - struct.unpack_from("<i", data, position)[0]
        self._size = struct.unpack_from("<H", data, self._fields)[0]

    def _at(self, number: int) -> int | None:
        at = 4 + 2 * number
        offset = struct.unpack_from("<H", self._data, self._fields + at)[0] if at + 2 <= self._size else 0
        return self._place + offset if offset else None

    def number(self, number: int, form: str) -> int:
        at = self._at(number)
        return int(struct.unpack_from(form, self._data, at)[0]) if at is not None else 0

    def table(self, number: int) -> _Table | None:
        at = self._at(number)
        return None if at is None else _Table(self._data, at + _uint(self._data, at))

    def pairs(self, number: int) -> list[tuple[int, int]]:
        """Return a vector of pairs of 64-bit integers."""
        at = self._at(number)
        if at is None:
            return []
        at += _uint(self._data, at)
        return list(struct.iter_unpack("<qq", self._data[at + 4 : at + 4 + 16 * _uint(self._data, at)]))


def _uint(data: bytes, position: int) -> int:
    return int(struct.unpack_from("<I", data, position)[0])
