"""TFRecord files: records by offset, checksums verified, and the keys of the first example read from a head alone."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.reading.tfrecord import crc32c, framed, frames, masked
from trajmill.schemas import ParseError


def plain_crc32c(data: bytes) -> int:
    """The checksum bit by bit, as its polynomial says."""
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


@pytest.mark.parametrize("size", [8191, 8192, 8193, 20_000])
def test_long_data_taken_in_lanes_have_the_checksum_of_their_bytes_one_by_one(size: int) -> None:
    data = bytes((place * place + place // 7) % 251 for place in range(size))
    assert crc32c(data) == plain_crc32c(data)


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_records_come_back_as_written_with_their_offsets(records: list[bytes]) -> None:
    data = b"".join(map(framed, records))
    found = list(frames(MemoryBlob("x", data)))
    assert [one.data for one in found] == records
    assert [one.offset for one in found] == [
        sum(len(record) + 16 for record in records[:place]) for place in range(len(records))
    ]


@given(st.integers(1, 40))
def test_a_file_cut_within_its_second_record_keeps_the_first(left: int) -> None:
    data = framed(b"a" * 10) + framed(b"b" * 25)
    first, second = frames(MemoryBlob("x", data[: 26 + left]))
    assert first.data == b"a" * 10
    assert isinstance(second.data, ParseError)
    assert (second.data.reason, second.data.offset) == ("truncated", 26)


def test_a_length_with_a_flipped_bit_ends_the_file_there() -> None:
    data = bytearray(framed(b"aaaa") + framed(b"bbbb"))
    data[0] ^= 1
    (only,) = frames(MemoryBlob("x", bytes(data)))
    assert isinstance(only.data, ParseError)
    assert only.data.reason == "bad_checksum"


def test_a_length_beyond_the_file_is_not_given_memory() -> None:
    size = struct.pack("<Q", 1 << 60)
    (only,) = frames(MemoryBlob("x", size + struct.pack("<I", masked(crc32c(size))) + b"data"))
    assert isinstance(only.data, ParseError)
    assert only.data.reason == "truncated"
