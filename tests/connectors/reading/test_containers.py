"""Files that hold others or frames: archives, attachments, TFRecord and AWS event streams."""

import hashlib
import io
import struct
import zipfile
from collections import Counter

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.connectors.aws_streams import event, frame_record, header, text_header
from tests.rows import blob_at
from trajmill.connectors.connector import Blob, MemoryBlob
from trajmill.connectors.reading import archive as archive_module
from trajmill.connectors.reading.archive import Archive
from trajmill.connectors.reading.attached import hand_to
from trajmill.connectors.reading.aws_events import EventStreamError, aws_events, is_event_stream
from trajmill.connectors.reading.fields import whole_number_of
from trajmill.connectors.reading.own_arguments import arguments_in
from trajmill.connectors.reading.tfrecord import crc32c, frames, mask_checksum
from trajmill.connectors.reading.tfrecord import frame_record as records_of_tfrecord
from trajmill.connectors.registry import connectors
from trajmill.schemas import ParseError, Reject


@pytest.mark.parametrize("value", [True, False, None, 1.0, "1", [1], {"a": 1}])
def test_what_is_no_whole_number_is_none_and_so_are_true_and_false(value):
    assert whole_number_of(value) is None
    assert whole_number_of(value, range(2)) is None


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("", {}),
        ('{"a": 1}', {"a": 1}),
        ("[1]", {"input": "[1]"}),
        ("ls -l", {"input": "ls -l"}),
        ("null", {"input": "null"}),
    ],
)
def test_arguments_that_are_no_object_are_the_input(text, held):
    assert arguments_in(text) == held


TWO = event("messageStart", {"role": "assistant"}) + event("messageStop", {"stopReason": "end_turn"})


def test_headers_of_every_type_are_passed_over():
    sizes = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
    headers = b"".join(header(f"h{kind}", kind, bytes(size)) for kind, size in sizes.items())
    headers += header("h6", 6, struct.pack(">H", 3) + b"\0\1\2") + text_header(":event-type", "metadata")
    assert list(aws_events(frame_record(headers, b'{"a": 1}'))) == [{"metadata": {"a": 1}}]


@pytest.mark.parametrize("payload", [b"", b"[1]", b"no json", b"\xff"])
def test_a_message_without_an_object_is_left_out(payload):
    assert list(aws_events(frame_record(text_header(":event-type", "ping"), payload) + TWO)) == list(aws_events(TWO))


@pytest.mark.parametrize("data", [b"", b"\0" * 16, b'{"a": 1, "b": 2222222}', TWO[:11], TWO[1:]])
def test_other_bytes_are_no_event_stream(data):
    assert not is_event_stream(data)


@given(st.integers(0, len(TWO) - 1), st.integers(1, 255))
def test_a_damaged_byte_is_told_or_ends_the_stream(place, change):
    data = bytearray(TWO)
    data[place] ^= change
    with pytest.raises(EventStreamError):
        list(aws_events(bytes(data)))


class Offered:
    """Keeps what it is offered."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def take(self, sha256: str, data: bytes) -> None:
        self.held[sha256] = data

    def refer(self, sha256: str, blob: Blob, member: str) -> None:
        self.held[sha256] = blob.read(member)


def test_every_format_offers_what_its_logs_attach():
    attached: Counter[str] = Counter()
    silent: dict[str, set[str]] = {}
    for name, connector in connectors().items():
        for path in sorted((ROOT / "tests" / "fixtures" / name / "input").iterdir()):
            digests, offered = set[str](), Offered()
            with hand_to(offered):
                try:
                    for record in connector.parse(blob_at(path)):
                        for step in [] if isinstance(record, Reject) else record.steps:
                            sides = [
                                observation
                                for observation in (step.observation, step.next_observation)
                                if observation is not None
                            ]
                            digests |= {attachment.sha256 for side in sides for attachment in side.attachments}
                except ParseError:
                    pass
            assert all(hashlib.sha256(data).hexdigest() == digest for digest, data in offered.held.items())
            attached[name] += len(digests)
            if lacking := digests - offered.held.keys():
                silent[f"{name}/{path.name}"] = lacking
    assert silent == {}
    assert sum(count > 0 for count in attached.values()) >= 18


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
    data = bytes((index * index + index // 7) % 251 for index in range(size))
    assert crc32c(data) == plain_crc32c(data)


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_records_come_back_as_written_with_their_offsets(records: list[bytes]) -> None:
    data = b"".join(map(records_of_tfrecord, records))
    entries = list(frames(MemoryBlob("x", data)))
    assert [entry.data for entry in entries] == records
    assert [entry.offset for entry in entries] == [
        sum(len(record) + 16 for record in records[:index]) for index in range(len(records))
    ]


@given(st.integers(1, 40))
def test_a_file_cut_within_its_second_record_keeps_the_first(left: int) -> None:
    data = records_of_tfrecord(b"a" * 10) + records_of_tfrecord(b"b" * 25)
    first, second = frames(MemoryBlob("x", data[: 26 + left]))
    assert first.data == b"a" * 10
    assert isinstance(second.data, ParseError)
    assert (second.data.reason, second.data.offset) == ("truncated", 26)


def test_a_length_with_a_flipped_bit_ends_the_file_there() -> None:
    data = bytearray(records_of_tfrecord(b"aaaa") + records_of_tfrecord(b"bbbb"))
    data[0] ^= 1
    (only,) = frames(MemoryBlob("x", bytes(data)))
    assert isinstance(only.data, ParseError)
    assert only.data.reason == "bad_checksum"


def test_a_length_beyond_the_file_is_not_given_memory() -> None:
    size = struct.pack("<Q", 1 << 60)
    (only,) = frames(MemoryBlob("x", size + struct.pack("<I", mask_checksum(crc32c(size))) + b"data"))
    assert isinstance(only.data, ParseError)
    assert only.data.reason == "truncated"


def packed(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return data.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_come_back_as_they_were_packed(method):
    members = {"a.json": b"[1]", "b/c.json": b"x" * 100_000}
    archive = Archive(packed(members, method), "log")
    assert archive.whole
    assert {name: archive.read(name) for name in archive.members} == members


def test_a_member_packed_with_zstd_is_read():
    content = b"some text " * 1000
    body = zstandard.ZstdCompressor().compress(content)
    data = bytearray(packed({"a": body}, zipfile.ZIP_STORED))
    struct.pack_into("<H", data, 8, 93)
    struct.pack_into("<H", data, data.index(b"PK\x01\x02") + 10, 93)
    assert Archive(bytes(data), "log").read("a") == content


@given(data=st.data())
def test_a_damaged_archive_raises_nothing_but_a_parse_error(data):
    content = bytearray(packed({"a": b"text" * 50, "b": b"[]"}))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content
    for error in faults(bytes(content)):
        assert -1 <= error.offset <= len(content)


def faults(data: bytes) -> list[ParseError]:
    """The parse errors that reading the whole archive gives."""
    errors = []
    try:
        archive = Archive(data, "log")
    except ParseError as error:
        return [error]
    for name in archive.members:
        try:
            archive.read(name)
        except ParseError as error:
            errors.append(error)
    return errors


@pytest.mark.parametrize(("name", "cut"), [("{}.json", 0), ("{}.json", 22), ("{}/", 0)])
def test_an_archive_of_too_many_entries_is_refused_before_its_directory_is_taken_in(monkeypatch, name, cut):
    data = packed({name.format(number): b"" for number in range(40)})
    assert len(Archive(data, "log").members) == (0 if name.endswith("/") else 40)
    monkeypatch.setattr(archive_module, "MEMBERS", 39)
    monkeypatch.setattr(archive_module, "_PART_BYTES", 7)
    if not cut:
        monkeypatch.setattr(archive_module, "_list_members", None)
    with pytest.raises(ParseError) as caught:
        Archive(data[: len(data) - cut], "log")
    assert caught.value.reason == "too_many_members"
