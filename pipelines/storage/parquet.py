"""The Parquet writer of all files, with explicit settings, so that equal rows give equal bytes.

Each batch of rows is a row group. Types on disk are plain, whatever dictionaries the batches use in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from trajmill.pipelines.storage.folders import MADE_AGAIN, Folder, sha256_of, why
from trajmill.quality.rows import without_unused
from trajmill.schemas import DOMAINS, ConfigError, ShardError
from trajmill.schemas.manifest import FileEntry
from trajmill.schemas.migrations import Migration
from trajmill.schemas.transition import dictionary_columns, encode_schema

ROW_GROUP_BYTES: Final = 32 << 20
"""Bytes of text after which a row group of transitions is closed, at the end of a trajectory or of a block."""

PAYLOAD_LEVEL: Final = 1
SHARD_LEVEL: Final = 2
"""Levels of zstd.

The payload is written in passing and read a few times: level 1 takes 55 % of the time of level 3 for 17 % more bytes.
Shards are read many times, yet level 2 takes 60 % of that time for 5 % more bytes.
"""
_DICTIONARY_BYTES: Final = 64 << 20
_LONG_TEXTS: Final = frozenset({"text", "content", "ground_truth"})
"""Leaves of shards that are written without a dictionary, since few of their texts repeat.

A dictionary is one page for a whole row group. After two rows were removed, 93 % of a shard's bytes were therefore new
to a store that deduplicates chunks. Without a dictionary it was 14 %, for 4 % (CPT) to 15 % (SFT, whose prompts repeat)
more bytes.
"""
_PAGE_BYTES: Final = 1 << 20


class ParquetSink:
    """A file being written, with one row group per batch. It appears under its name when `close` is called.

    Args:
        schema: schema of the batches; its metadata is kept.
        shard: whether the file belongs to the dataset: it is compressed more, and its pages are cut by content, so that
            stores that deduplicate chunks recognize unchanged rows.
        hashed: columns of a flat schema that hold hashes. They are not compressed, since that gains nothing.
    """

    def __init__(
        self, folder: Folder, name: str, schema: pa.Schema, *, shard: bool = False, hashed: Sequence[str] = ()
    ) -> None:
        self._folder, self._name, self._schema, self._rows, self._is_shard = folder, name, schema, 0, shard
        self._stack = ExitStack()
        self._path = self._stack.enter_context(folder.writing(name))
        level = SHARD_LEVEL if shard else PAYLOAD_LEVEL
        packed = [column for column in schema.names if column not in hashed]
        self._writer = pq.ParquetWriter(
            self._path,
            schema,
            version="2.6",
            compression={**dict.fromkeys(packed, "zstd"), **dict.fromkeys(hashed, "none")} if hashed else "zstd",
            compression_level=dict.fromkeys(packed, level) if hashed else level,
            use_dictionary=packed if hashed else _repeating(schema) if shard else True,
            data_page_version="1.0",
            data_page_size=_PAGE_BYTES,
            dictionary_pagesize_limit=_DICTIONARY_BYTES,
            write_page_index=True,
            write_page_checksum=True,
            use_content_defined_chunking=shard,
            store_schema=False,
        )

    def write(self, batch: pa.RecordBatch) -> None:
        """Add the batch as one row group, unless it is empty."""
        if batch.num_rows:
            self._rows += batch.num_rows
            batch = batch if self._is_shard else without_unused(batch)  # since a dictionary is written whole
            table = pa.Table.from_batches([batch], self._schema)
            with self._told():
                self._writer.write_table(table, row_group_size=batch.num_rows)

    def close(self) -> FileEntry:
        """Complete the file and return its entry."""
        with self._stack, self._told():
            self._writer.add_key_value_metadata(dict(self._schema.metadata or {}))
            self._writer.close()
            return FileEntry(self._name, self._rows, Path(self._path).stat().st_size, sha256_of(self._path))

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ShardError(f"{self._folder.path(self._name)} cannot be written: {why(error)}") from error

    def abandon(self) -> None:
        """Discard the unfinished file after a failed write. After `close` this does nothing."""
        with suppress(OSError):
            self._writer.close()
        self._stack.pop_all()
        with suppress(OSError):
            Path(self._path).unlink(missing_ok=True)


def _repeating(schema: pa.Schema) -> list[str]:
    """Return the paths on disk of a shard's leaves that have a dictionary."""

    def leaves(field: pa.Field, path: str) -> Iterator[str]:
        if pa.types.is_list(field.type):
            yield from leaves(field.type.value_field, f"{path}.list.element")
        elif pa.types.is_struct(field.type):
            for child in field.type.fields:
                yield from leaves(child, f"{path}.{child.name}")
        elif field.name not in _LONG_TEXTS:
            yield path

    return [leaf for field in schema for leaf in leaves(field, field.name)]


def write_parquet(
    folder: Folder, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, shard: bool = False
) -> FileEntry:
    """Write one file, one row group per batch, and return its entry. Arguments are those of `ParquetSink`."""
    sink = ParquetSink(folder, name, schema, shard=shard)
    try:
        for batch in batches:
            sink.write(batch)
    except BaseException:
        sink.abandon()
        raise
    return sink.close()


def read_batches(
    folder: Folder, name: str, columns: Sequence[str] | None = None, groups: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the row groups of a file, or some by their numbers, each as one batch with plain types."""
    with _open_file(folder, name) as reader:
        for group in range(reader.num_row_groups) if groups is None else groups:
            with _damage(folder, name):
                batch = _single_batch(reader.read_row_group(group, columns=columns, use_threads=False))
            yield batch


def read_rows(folder: Folder, name: str, count: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in batches of at most `count`, which takes less memory than whole row groups."""
    with _open_file(folder, name, read_bytes=_PAGE_BYTES) as reader:
        batches = reader.iter_batches(count, use_threads=False)
        while True:
            with _damage(folder, name):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


def rows_of(folder: Folder, name: str) -> int:
    """Return the number of rows of a file, from its footer."""
    with _open_file(folder, name) as reader:
        return int(reader.metadata.num_rows)


def read_table(folder: Folder, name: str, columns: Sequence[str], size: int | None = None) -> pa.Table:
    """Read these columns of all rows of a file, each in one chunk. The file may have no rows.

    Args:
        size: size of the file, if an object store is to transfer only these columns.
    """
    with _open_file(folder, name, size=size) as reader, _damage(folder, name):
        return reader.read(columns=list(columns), use_threads=False).combine_chunks()


def read_transitions(folder: Folder, name: str) -> Iterator[pa.RecordBatch]:
    """Yield the row groups of a transitions file, each as one batch of `schemas.transition.encoded_schema()`.

    Raises:
        ConfigError: the file holds no transitions, or those of an unknown schema version.
    """
    target = encode_schema()
    with _open_file(folder, name, dictionary_columns()) as reader:
        migration = Migration(reader.metadata.metadata, name)
        for group in range(reader.num_row_groups):
            with _damage(folder, name):
                table = migration.migrate(reader.read_row_group(group, use_threads=False))
                batch = _single_batch(table.cast(target))
            yield batch


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group of a transitions file; `read` returns the columns of some leaves (`action.text`)."""

    num_rows: int
    read: Callable[[Sequence[str]], pa.RecordBatch]


def row_groups(folder: Folder, name: str) -> Iterator[RowGroup]:
    """Yield the row groups of a transitions file for reading some columns in a fraction of the time.

    Each has to be read before the next. Texts that repeat stay dictionaries, since a log may show one page a thousand
    times.

    Args:
        name: name of the file; one of an older version returns all columns.
    """
    with _open_file(folder, name, dictionary_columns()) as reader:
        migration = Migration(reader.metadata.metadata, name)

        def read(group: int, leaves: Sequence[str] | None) -> pa.RecordBatch:
            with _damage(folder, name):
                columns = None if leaves is None else list(leaves)
                return _single_batch(
                    migration.migrate(reader.read_row_group(group, columns=columns, use_threads=False))
                )

        for group in range(reader.num_row_groups):
            if migration.is_needed:
                batch = read(group, None)
                yield RowGroup(batch.num_rows, lambda _, batch=batch: batch)  # type: ignore[misc]
            else:
                yield RowGroup(reader.metadata.row_group(group).num_rows, partial(read, group))


@contextmanager
def _open_file(
    folder: Folder, name: str, encoded: Sequence[str] = (), size: int | None = None, read_bytes: int = 0
) -> Iterator[pq.ParquetFile]:
    """Open the file for reading, with verified page checksums; `encoded` columns stay dictionaries.

    Args:
        read_bytes: bytes of a column that are read at once; 0 for all of a row group.
    """
    with ExitStack() as stack:
        with _damage(folder, name):
            stream = stack.enter_context(folder.open(name) if size is None else folder.open_pieces(name, size))
            metadata = pq.read_metadata(stream)
            paths = {metadata.schema.column(number).path for number in range(metadata.num_columns)} if encoded else ()
            reader = stack.enter_context(
                pq.ParquetFile(
                    stream,
                    metadata=metadata,
                    buffer_size=read_bytes,
                    pre_buffer=not read_bytes,
                    page_checksum_verification=True,
                    read_dictionary=[path for path in encoded if path in paths],
                )
            )
        yield reader


@contextmanager
def _damage(folder: Folder, name: str) -> Iterator[None]:
    """Report faults of the block with the file's name and the remedy."""
    try:
        yield
    except FileNotFoundError as error:
        raise ShardError(f"{folder.path(name)} is missing. {MADE_AGAIN}.") from error
    except MemoryError:  # of Arrow's exceptions too, and no damage
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the system, which is no damage
            raise ShardError(f"{folder.path(name)} cannot be read: {why(error)}.") from error
        line = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise ShardError(f"{folder.path(name)} is damaged: {line}. {MADE_AGAIN}.") from error


def transition_files(path: str) -> tuple[Folder, list[str]]:
    """Return the transitions folder of a run's folder, or that folder itself, and the names of its files.

    Raises:
        ConfigError: there are no transitions.
    """
    for root in (f"{path.rstrip('/')}/transitions", path):
        folder = Folder(root)
        names = [name for name in folder.names(".parquet") if name.split("/")[0] in DOMAINS]
        if names:
            return folder, names
    raise ConfigError(f"There are no transitions below '{path}'; a run's folder is wanted.")


def _single_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().unify_dictionaries().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
