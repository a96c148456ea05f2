"""What a row of a Parquet or Arrow file would take is known before it is decompressed, whatever the file states."""

import io
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.published import parquet_pages, tables
from trajmill.connectors.published.parquet_pages import PageError, largest_row, row_runs
from trajmill.connectors.published.tables import Table
from trajmill.schemas import ParseError

TEXT = "a" * 10_000
LISTS = [[TEXT] * 3, [], None, ["b", TEXT], [TEXT] * 200, ["c"]]


def written(table: pa.Table, **settings: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **{"compression": "zstd", **settings})
    return sink.getvalue()


def streamed(table: pa.Table, codec: str | None) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def rows_of(data: bytes) -> list[Any]:
    return [row for _, row in Table(MemoryBlob("t", data)).rows()]


def largest(data: bytes, columns: list[str]) -> int:
    return largest_row(pq.ParquetFile(io.BytesIO(data)), io.BytesIO(data), 0, columns)


@pytest.fixture
def closely(monkeypatch):
    """Every row group is looked at, as if it were large."""
    monkeypatch.setattr(parquet_pages, "_PLAIN_BYTES", 0)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "brotli", "lz4", "none"])
def test_a_dictionary_counts_once_for_each_use_of_its_longest_value(closely, version, codec):
    data = written(pa.table({"x": LISTS}), data_page_version=version, compression=codec)
    assert 200 * 10_000 <= largest(data, ["x"]) <= 210 * 10_000
    data = written(pa.table({"x": [TEXT] * 500, "y": LISTS[:1] * 500}), data_page_version=version, compression=codec)
    assert 10_000 <= largest(data, ["x"]) <= 11_000
    assert 40_000 <= largest(data, ["x", "y"]) <= 44_000


def test_a_cell_is_refused_by_its_page_whatever_the_footer_states(monkeypatch):
    monkeypatch.setattr(parquet_pages, "ROW_BYTES", 1 << 20)
    (row,) = rows_of(written(pa.table({"x": ["a" * (2 << 20)]}), use_dictionary=False))
    assert isinstance(row, ParseError)
    assert row.reason == "row_too_large"


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_whatever_byte_of_a_page_is_changed_it_is_looked_at_or_refused(closely, version):
    rows = pa.table({"x": [["a", "b"], [], None, ["b"]]})
    whole = bytearray(written(rows, data_page_version=version, compression="none"))
    file = pq.ParquetFile(io.BytesIO(bytes(whole)))
    for offset in range(4, file.metadata.row_group(0).total_byte_size + 4):
        for change in (0x0D, 0x80, 0xFF):
            whole[offset] ^= change
            with suppress(PageError):
                assert largest_row(file, io.BytesIO(bytes(whole)), 0, ["x"]) >= 0
            whole[offset] ^= change


def test_lists_of_too_many_values_are_refused_though_they_take_no_bytes(monkeypatch):
    monkeypatch.setattr(parquet_pages, "NESTED_VALUES", 1000)
    (row,) = rows_of(written(pa.table({"x": pa.array([[None] * 2000], pa.list_(pa.int8()))})))
    assert row.reason == "too_many_values"


def test_dictionaries_of_arrow_count_too_and_their_uses_row_by_row(monkeypatch):
    monkeypatch.setattr(tables, "LINE_BYTES", 1 << 20)
    monkeypatch.setattr(tables, "BATCH_BYTES", 1 << 19)
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 201, pa.int32()), pa.array([TEXT]))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 201], pa.int32()), text)
    first, second = rows_of(streamed(pa.table({"x": lists}), "zstd"))
    assert first == {"x": [TEXT]}
    assert second.reason == "row_too_large"
    monkeypatch.setattr(tables, "RECORD_BATCH_BYTES", 5_000)
    with pytest.raises(ParseError, match="batch_too_large"):
        rows_of(streamed(pa.table({"x": lists}), "zstd"))


LEVELS = st.lists(st.tuples(st.booleans(), st.integers(1, 40)), min_size=1, max_size=12)


@given(LEVELS)
def test_runs_are_told_from_repetition_levels_as_pyarrow_writes_them(parts):
    counts = [size for is_short, length in parts for size in ([1] * length if is_short else [length])]
    lists = pa.table({"x": pa.array([list(range(count)) for count in counts], pa.list_(pa.int16()))})
    data = written(lists, compression="none", use_dictionary=False, data_page_version="2.0")
    column = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0)
    (page,) = parquet_pages._pages(io.BytesIO(data), column)
    assert page.levels is not None
    levels = data[page.begin : page.begin + page.levels[0]]
    runs = row_runs(levels, 1, page.values)
    assert (runs.before, runs.longest, runs.last) == (0, max(counts), counts[-1])
