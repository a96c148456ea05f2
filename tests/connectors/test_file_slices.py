"""Slices of a file of rows, however it is cut, give what the whole gives, at the same places."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.connectors.test_contract import FIXTURES, NAMES
from tests.failures import every
from trajmill.connectors.connector import Blob, FileSlice, MemoryBlob
from trajmill.connectors.published.tables import Table
from trajmill.connectors.reading.arrays import ElementLines, elements
from trajmill.connectors.reading.documents import first_element
from trajmill.connectors.reading.lines import json_lines
from trajmill.connectors.registry import connectors
from trajmill.schemas import ParseError, Reject, Trajectory

LINES = st.sampled_from(
    [
        b"", b" \t", b"\r", b'{"a": 1}', b'{"a": "\xc3\xa9"}\r', b"[1]", b'{"a": 1}{"a": 2}', b'{"a": {"b": ',
        b"\xff", b"7",
    ]
)  # fmt: skip


class Sliced(MemoryBlob):
    """A slice in memory, of an array too."""

    def open(self, member: str = "") -> BinaryIO:
        stream = super().open(member)
        assert self.file_slice is not None
        if not self.file_slice.is_array:
            return stream
        return BufferedReader(ElementLines(stream, self.uri, self.file_slice.begin))


def slices_of_elements(data: bytes, size: int) -> Iterator[FileSlice]:
    """Slices of an array that begin at the first element of each `size` bytes."""
    offsets = [offset for offset, _ in elements(BytesIO(data), "x", ())]
    begins = sorted({0, *(next((one for one in offsets if one >= at), 0) for at in range(size, len(data), size))})
    for begin, end in zip(begins, [*begins[1:], None], strict=True):
        yield FileSlice(begin, end, is_array=True)


def slices_of(data: bytes, cuts: Sequence[int]) -> Iterator[FileSlice]:
    begins = sorted({0, *(cut for cut in cuts if cut < len(data))})
    for begin, end in zip(begins, [*begins[1:], None], strict=True):
        yield FileSlice(begin, end)


def told(value: Any) -> Any:
    return (value.reason, value.offset, value.detail, value.excerpt) if isinstance(value, ParseError) else value


@given(st.lists(LINES, max_size=12), st.booleans(), st.booleans(), st.lists(st.integers(0, 150), max_size=8))
def test_a_line_is_of_the_slice_in_which_it_begins(texts, has_bom, is_ended, cuts):
    data = b"\xef\xbb\xbf" * has_bom + b"\n".join(texts) + b"\n" * is_ended
    whole = [(offset, told(value)) for offset, value in json_lines(MemoryBlob("x", data))]
    found = [
        (offset, told(value))
        for one in slices_of(data, cuts)
        for offset, value in json_lines(MemoryBlob("x", data, file_slice=one))
    ]
    assert found == whole


def parquet(rows: list[dict[str, Any]], group: int) -> bytes:
    stream = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), stream, row_group_size=group)
    return stream.getvalue()


@given(st.integers(1, 40), st.integers(1, 9), st.lists(st.integers(0, 4000), max_size=9))
def test_a_row_group_is_of_the_slice_in_which_it_begins(count, group, cuts):
    data = parquet([{"number": number, "text": "x" * number} for number in range(count)], group)
    found = [row for one in slices_of(data, cuts) for row in Table(MemoryBlob("x", data, file_slice=one)).rows()]
    assert found == [(number, {"number": number, "text": "x" * number}) for number in range(count)]


def without_places(records: list[Any]) -> list[Any]:
    """The same without offsets, since where an element stands is not always known of an array that is read whole."""
    return [
        replace(one, steps=[replace(step, offset=0) for step in one.steps])
        if isinstance(one, Trajectory)
        else replace(one, offset=0)
        if isinstance(one, Reject)
        else one
        for one in records
    ]


def outcome(name: str, blob: Blob) -> list[Any]:
    """What a connector makes of a blob, but for saying that it holds nothing."""
    found: list[Any] = []
    try:
        found += connectors()[name].parse(blob)
    except ParseError as error:
        found += [] if error.reason == "no_transitions" else [told(error)]
    return found


def sliceable(name: str) -> Iterator[tuple[str, str, bytes]]:
    """The fixtures of a format that may be cut, some of them repeated, since most hold a row or two."""
    for path in sorted(one for folder in ("input", "bad") for one in (FIXTURES / name / folder).glob("*")):
        if path.is_file() and path.suffix != ".reason":
            data = path.read_bytes()
            data = repeated(data)
            if is_sliceable(name, data, path):
                yield f"{name}/{path.name}", name, data


def repeated(data: bytes) -> bytes:
    if data.startswith(b"PAR1") or not data.endswith(b"\n"):
        return data
    if data.startswith(b"["):
        return b"[" + b" ,\n".join([data.strip().removeprefix(b"[").removesuffix(b"]")] * 3) + b"]\n"
    return data * 3


def is_sliceable(name: str, data: bytes, path: Path) -> bool:
    try:
        return connectors()[name].is_sliceable(MemoryBlob(path.name, data))
    except ParseError:
        return False


def test_slices_of_every_fixture_that_may_be_cut_give_what_the_whole_gives():
    tried = 0
    with every() as case:
        for named, name, data in (one for known in NAMES for one in sliceable(known)):
            with case(named):
                tried += 1
                is_array = first_element(MemoryBlob("x", data)) is not None
                whole = outcome(name, Sliced("x", data, file_slice=FileSlice(0, None, is_array=is_array)))
                assert not is_array or without_places(whole) == without_places(outcome(name, MemoryBlob("x", data)))
                for size in (97, 1000, len(data) // 2 + 1):
                    by_offset = slices_of(data, range(0, len(data), size))
                    cuts = slices_of_elements(data, size) if is_array else by_offset
                    found = [one for cut in cuts for one in outcome(name, Sliced("x", data, file_slice=cut))]
                    assert found == whole, size
    assert tried


CONVERSATION = {
    "messages": [
        {"role": "user", "content": "Add 2 and 3."},
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "add", "arguments": '{"a": 2}'}}]},
        {"role": "tool", "tool_call_id": "a", "content": "5"},
    ]
}


def test_rows_of_parquet_are_read_in_slices_by_the_format_that_its_first_rows_tell():
    said = [{"messages": [{"role": "user", "content": f"Say {number}."}]} for number in range(4)]
    data = parquet([CONVERSATION, *said, CONVERSATION, *said], 2)
    assert connectors()["table"].is_sliceable(MemoryBlob("x", data))
    whole = outcome("table", MemoryBlob("x", data))
    assert [(type(one).__name__) for one in whole].count("Trajectory") == 2
    for size in (150, 700):
        cuts = slices_of(data, range(0, len(data), size))
        assert [one for cut in cuts for one in outcome("table", MemoryBlob("x", data, file_slice=cut))] == whole


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("chat_tools", b'{"role": "user", "content": "Hi."}\n' * 9),
        ("turn_rows", b'{"session_id": "s", "role": "user", "turn_type": "user"}\n' * 9),
        ("claude_code", b'{"type": "user", "sessionId": "s", "message": {"role": "user", "content": "Hi."}}\n' * 9),
        ("table", parquet([{"session_id": "s", "role": "user", "turn_type": "user"}] * 9, 3)),
    ],
)
def test_a_file_whose_rows_hang_together_is_not_cut(name, data):
    assert not connectors()[name].is_sliceable(MemoryBlob("x", data))
