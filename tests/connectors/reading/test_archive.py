"""Zip archives are read without trust."""

import io
import struct
import zipfile

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from trajmill.connectors.reading import archive as archive_module
from trajmill.connectors.reading.archive import Archive
from trajmill.schemas import ParseError


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


@pytest.mark.parametrize("held_bytes", [10, 1 << 20])
def test_a_member_is_read_as_a_stream_from_a_stream(held_bytes, monkeypatch):
    monkeypatch.setattr(archive_module, "_PART_BYTES", 7)
    content = bytes(range(256)) * 20
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        archive = Archive(io.BytesIO(packed({"a": content, "empty": b""}, method)), "log")
        with archive.open("a", held_bytes) as stream:
            assert stream.read(300) == content[:300]
            stream.seek(5)
            assert stream.read() == content[5:]
        assert archive.read("empty") == b""


def test_a_stream_of_a_member_that_was_cut_is_refused_like_its_bytes():
    data = packed({"a": bytes(range(256)) * 100})[:200]
    reasons = []
    for read in (Archive(data, "log").read, lambda name: Archive(io.BytesIO(data), "log").open(name, 10)):
        with pytest.raises(ParseError) as caught:
            read("a")
        reasons.append((caught.value.reason, caught.value.offset))
    assert reasons == [("truncated", 200)] * 2


def test_a_member_packed_with_zstd_is_read():
    content = b"some text " * 1000
    body = zstandard.ZstdCompressor().compress(content)
    data = bytearray(packed({"a": body}, zipfile.ZIP_STORED))
    struct.pack_into("<H", data, 8, 93)
    struct.pack_into("<H", data, data.index(b"PK\x01\x02") + 10, 93)
    assert Archive(bytes(data), "log").read("a") == content


def test_a_member_that_grows_beyond_its_ratio_is_refused():
    archive = Archive(packed({"a": b"\0" * 40_000_000}), "log")
    with pytest.raises(ParseError) as caught:
        archive.read("a")
    assert caught.value.reason == "member_too_large"


def test_a_member_over_the_limit_is_refused_before_it_is_whole():
    archive = Archive(packed({"a": bytes(range(256)) * 100}), "log")
    with pytest.raises(ParseError) as caught:
        archive.read("a", limit=1000)
    assert caught.value.reason == "member_too_large"


@pytest.mark.parametrize("name", ["../a", "a/../../b", "/etc/a", "..\\a", "C:/a"])
def test_names_that_climb_out_are_no_members(name):
    archive = Archive(packed({name: b"x", "fine": b"y"}), "log")
    assert list(archive.members) == ["fine"]
    assert [member.name for member in archive.outside] == [name]


def test_an_archive_cut_within_a_member_gives_the_members_before_it():
    members = {"a": b"first" * 100, "b": bytes(range(256)) * 50}
    data = packed(members)
    archive = Archive(data[: data.rindex(b"PK\x01\x02", 0, data.index(b"PK\x01\x02") + 4) - 20], "log")
    assert not archive.whole
    assert archive.read("a") == members["a"]
    with pytest.raises(ParseError) as caught:
        archive.read("b")
    assert caught.value.reason == "truncated"


@settings(max_examples=60, deadline=None)
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
    found = []
    try:
        archive = Archive(data, "log")
    except ParseError as error:
        return [error]
    for name in archive.members:
        try:
            archive.read(name)
        except ParseError as error:
            found.append(error)
    return found


@pytest.mark.parametrize(("name", "cut"), [("{}.json", 0), ("{}.json", 22), ("{}/", 0)])
def test_an_archive_of_too_many_entries_is_refused_before_its_directory_is_taken_in(monkeypatch, name, cut):
    data = packed({name.format(number): b"" for number in range(40)})
    assert len(Archive(data, "log").members) == (0 if name.endswith("/") else 40)
    monkeypatch.setattr(archive_module, "MEMBERS", 39)
    monkeypatch.setattr(archive_module, "_PART_BYTES", 7)
    if not cut:
        monkeypatch.setattr(archive_module, "_listed", None)
    with pytest.raises(ParseError) as caught:
        Archive(data[: len(data) - cut], "log")
    assert caught.value.reason == "too_many_members"


@pytest.mark.parametrize("comment", [b"", b"a comment"])
@pytest.mark.parametrize("part_bytes", [1, 3, 1 << 20])
def test_entries_are_counted_whatever_stands_behind_the_directory(monkeypatch, comment, part_bytes):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.comment = comment
        for number in range(5):
            archive.writestr(str(number), b"PK\x01\x02")
    monkeypatch.setattr(archive_module, "_PART_BYTES", part_bytes)
    assert archive_module.entries(data, 99) == 5
    assert archive_module.entries(data, 2) in (3, 4, 5)
    assert archive_module.entries(io.BytesIO(b"no archive"), 99) is None
