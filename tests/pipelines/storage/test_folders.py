import bz2
import contextlib
import gzip
import hashlib
import lzma
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from fsspec.implementations.memory import MemoryFileSystem

from trajmill.pipelines.storage import object_store
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table
from trajmill.pipelines.storage.paths import Place
from trajmill.pipelines.storage.stored_blob import StoredBlob
from trajmill.schemas import ParseError

TEXT = b"line one\n" * 5000


def blob_of(tmp_path, data, limit=1 << 30):
    path = tmp_path / "log"
    path.write_bytes(data)
    return StoredBlob("log", {"": Place(str(path))}, limit)


PACKED = {
    "plain": TEXT,
    "gzip": gzip.compress(TEXT),
    "two gzip members": gzip.compress(TEXT[:900]) + gzip.compress(TEXT[900:]),
    "zstd": zstandard.compress(TEXT),
    "two zstd frames": zstandard.compress(TEXT[:900]) + zstandard.compress(TEXT[900:]),
    "bzip2": bz2.compress(TEXT),
    "xz": lzma.compress(TEXT),
}


@pytest.mark.parametrize("data", PACKED.values(), ids=PACKED.keys())
def test_a_compressed_member_reads_as_what_was_compressed(tmp_path, data):
    blob = blob_of(tmp_path, data)
    assert blob.read() == TEXT
    assert blob.digest() == hashlib.sha256(TEXT).hexdigest()
    assert blob.head("", 12) == TEXT[:12]


@pytest.mark.parametrize("name", ["gzip", "zstd", "bzip2", "xz"])
def test_a_cut_compressed_member_is_a_parse_error_at_its_decompressed_offset(tmp_path, name):
    blob = blob_of(tmp_path, PACKED[name][: len(PACKED[name]) // 2])
    with pytest.raises(ParseError) as caught:
        blob.read()
    assert caught.value.reason in ("truncated", "bad_compression")
    assert 0 <= caught.value.offset < len(TEXT)
    assert len(blob.digest()) == 64


def test_a_member_larger_than_the_limit_is_refused_before_it_is_held(tmp_path):
    blob = blob_of(tmp_path, gzip.compress(b"\0" * (50 << 20)), limit=1 << 20)
    with pytest.raises(ParseError) as caught:
        blob.read()
    assert caught.value.reason == "too_large"
    assert caught.value.offset <= 3 << 20


def test_a_folder_shows_a_file_only_when_it_is_complete(tmp_path):
    folder = Folder(str(tmp_path / "out"))
    with contextlib.suppress(KeyboardInterrupt), folder.writing("a/b.txt") as path:
        Path(path).write_text("half")
        assert folder.names() == []
        raise KeyboardInterrupt
    assert folder.names() == []
    assert list((tmp_path / "out" / "a").iterdir()) == []
    folder.write("a/b.txt", b"whole")
    assert folder.read("a/b.txt") == b"whole"
    assert folder.size("a/b.txt") == 5
    assert folder.size("nothing") == -1


def test_a_folder_may_lie_on_any_file_system():
    folder = Folder("memory://place/out")
    folder.write("a/b", b"1")
    assert (folder.names(), folder.read("a/b"), folder.is_local) == (["a/b"], b"1", False)
    folder.remove("a/b")
    assert folder.names() == []


def test_of_a_large_file_in_a_store_only_what_is_read_is_fetched(monkeypatch):
    folder = Folder("memory://pieces/out")
    data = random.Random(3).randbytes(1 << 20)
    folder.write("large", data)
    folder.write("small", data[:1000])
    object_store.forget()
    ranges: list[tuple[int, int]] = []
    fetch = MemoryFileSystem.cat_file

    def noted(self, path, start=None, end=None, **more):
        ranges.append((start, end))
        return fetch(self, path, start, end, **more)

    monkeypatch.setattr(MemoryFileSystem, "cat_file", noted)
    with folder.open_pieces("large", len(data)) as stream:
        stream.seek(-100_000, 2)
        assert stream.read() == data[-100_000:]
        assert stream.read(1) == b""
        stream.seek(10)
        assert stream.read(5) == data[10:15]
    assert sum(end - begin for begin, end in ranges) < 120_000
    ranges.clear()
    with folder.open_pieces("small", 1000) as stream:
        assert stream.read() == data[:1000]
    assert folder.read("large") == data
    assert ranges == []  # whole, as an object that is kept


def test_columns_of_a_table_in_a_store_are_read_without_the_others(monkeypatch):
    folder = Folder("memory://columns/out")
    noise = random.Random(4).randbytes(2 << 20).hex()
    table = pa.table({"key": ["a", "b"], "text": [noise, noise[::-1]]})
    with folder.writing("table.parquet") as path:
        pq.write_table(table, path)
    object_store.forget()
    size = folder.size("table.parquet")
    fetched: list[int] = []
    fetch = MemoryFileSystem.cat_file

    def noted(self, path, start=None, end=None, **more):
        fetched.append(end - start)
        return fetch(self, path, start, end, **more)

    monkeypatch.setattr(MemoryFileSystem, "cat_file", noted)
    assert read_table(folder, "table.parquet", ["key"], size) == table.select(["key"])
    assert sum(fetched) < size / 10
