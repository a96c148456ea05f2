"""The one Parquet writer: every setting explicit, so that the same rows are the same bytes.

Rows come as batches; a batch is a row group. Types on disk are plain, whatever dictionaries the batches use in memory.
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
from trajmill.schemas import DOMAINS, ConfigError, ShardError
from trajmill.schemas.manifest import FileEntry
from trajmill.schemas.migrations import Migration
from trajmill.schemas.transition import dictionary_columns, encode_schema

ROW_GROUP_BYTES: Final = 32 << 20
"""Text after which a row group of transitions is closed, at the end of a trajectory or of a block of a long one."""

PAYLOAD_LEVEL: Final = 1
SHARD_LEVEL: Final = 2
"""zstd levels. The payload is written on the way and read a few times: level 1 takes 55 % of the time of level 3 for
17 % more bytes. Shards are read many times, yet level 2 takes 60 % of that time for 5 % more bytes."""
_DICTIONARY_BYTES: Final = 64 << 20
_LONG_TEXTS: Final = frozenset({"text", "content", "ground_truth"})
"""Leaves of shards that are written without a dictionary: texts of which few are the same. A dictionary is one page for
a whole row group, so after two rows had gone 93 % of a shard's bytes were new to a store that knows chunks; without it
14 %, for 4 % (CPT) to 15 % (SFT, whose prompts repeat) more bytes."""
_PAGE_BYTES: Final = 1 << 20


class ParquetSink:
    """One file being written, a row group a batch; it appears under its name when `close` is called.

    Args:
        folder: where to.
        name: of the file in the folder.
        schema: of the batches; its metadata is kept.
        shard: of the dataset: compressed more, and pages cut by content, so that stores which deduplicate chunks see
            unchanged rows again.
        hashed: columns of a flat schema that hold hashes, written as they are: nothing is gained by compressing them.
    """

    def __init__(
        self, folder: Folder, name: str, schema: pa.Schema, *, shard: bool = False, hashed: Sequence[str] = ()
    ) -> None:
        self._folder, self._name, self._schema, self._rows = folder, name, schema, 0
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
        """Adds the batch as one row group; nothing happens if it has no row.

        Raises:
            ShardError: it cannot be written.
        """
        if batch.num_rows:
            self._rows += batch.num_rows
            with self._told():
                self._writer.write_table(pa.Table.from_batches([batch], self._schema), row_group_size=batch.num_rows)

    def close(self) -> FileEntry:
        """Completes the file and returns what was written.

        Raises:
            ShardError: the file cannot be written, or not be put in its place.
        """
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
        """Drops the unfinished file; for when writing it failed. Nothing happens after `close`."""
        with suppress(OSError):
            self._writer.close()
        self._stack.pop_all()
        with suppress(OSError):
            Path(self._path).unlink(missing_ok=True)


def _repeating(schema: pa.Schema) -> list[str]:
    """The leaves of a shard that have a dictionary, by their paths on disk."""

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
    """Writes one file, a row group a batch, and returns what was written; arguments as of `ParquetSink`."""
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
    """The row groups of a file, or some by their numbers, each as one batch with plain types.

    Raises:
        ShardError: the file is missing or damaged.
    """
    with _open_file(folder, name) as reader:
        for group in range(reader.num_row_groups) if groups is None else groups:
            with _damage(folder, name):
                batch = _single_batch(reader.read_row_group(group, columns=columns, use_threads=False))
            yield batch


def rows_of(folder: Folder, name: str) -> int:
    """Return the number of rows of a file, by its footer.

    Raises:
        ShardError: the file is missing or damaged.
    """
    with _open_file(folder, name) as reader:
        return int(reader.metadata.num_rows)


def read_table(folder: Folder, name: str, columns: Sequence[str], size: int | None = None) -> pa.Table:
    """These columns of all rows of a file, which may have none, each in one chunk.

    Args:
        folder: it lies in.
        name: of it.
        columns: that are read.
        size: of it, if of an object store no more than these columns is to be fetched.

    Raises:
        ShardError: the file is missing or damaged.
    """
    with _open_file(folder, name, size=size) as reader, _damage(folder, name):
        return reader.read(columns=list(columns), use_threads=False).combine_chunks()


def read_transitions(folder: Folder, name: str) -> Iterator[pa.RecordBatch]:
    """The row groups of a transitions file, each as one batch of `schemas.transition.encoded_schema()`.

    Raises:
        ConfigError: the file holds no transitions, or those of a schema version that is not known.
        ShardError: the file is missing or damaged.
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
    """A row group of a transitions file, of which `read` gives the columns of some leaves (`action.text`)."""

    num_rows: int
    read: Callable[[Sequence[str]], pa.RecordBatch]


def row_groups(folder: Folder, name: str) -> Iterator[RowGroup]:
    """The row groups of a transitions file, each to be read before the next: some columns in a fraction of the time.

    Texts that repeat stay dictionaries: a log may show one page a thousand times.

    Args:
        folder: of the transitions.
        name: of the file in it; one of an older version comes with all columns.

    Raises:
        ConfigError: as of `read_transitions`.
        ShardError: the file is missing or damaged.
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
    folder: Folder, name: str, encoded: Sequence[str] = (), size: int | None = None
) -> Iterator[pq.ParquetFile]:
    """Open the file for reading, with the checksums of its pages checked; `encoded` columns stay dictionaries."""
    with ExitStack() as stack:
        with _damage(folder, name):
            stream = stack.enter_context(folder.open(name) if size is None else folder.open_pieces(name, size))
            metadata = pq.read_metadata(stream)
            paths = {metadata.schema.column(number).path for number in range(metadata.num_columns)} if encoded else ()
            reader = stack.enter_context(
                pq.ParquetFile(
                    stream,
                    metadata=metadata,
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
    """The transitions folder of a run's folder, or that folder itself, and the names of its files.

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
