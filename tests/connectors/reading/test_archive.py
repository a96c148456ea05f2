"""Zip archives are read without trust."""

import io
import struct
import zipfile

import pytest
import zstandard
from hypothesis import given
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
