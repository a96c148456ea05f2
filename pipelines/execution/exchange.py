"""Exchange of blocks of bytes by key, with the same result in memory and by spill files.

The local runner would keep a GroupByKey in memory, so it exchanges blocks through spill files with an index, one file
per part; a run in one process keeps the first blocks in memory instead. Runners that spill by themselves use a
GroupByKey. `Exchange` is the exchange of payload, blocks of samples to their shards. Blocks of a key arrive in no
particular order, so the receiver sorts them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import IO, Any, Final, TypeAlias, TypeVar

import pyarrow as pa

from trajmill.pipelines.execution.flow import Collection, FlatMapTuple, GroupByKey, MapTuple, Transform
from trajmill.pipelines.storage.folders import Folder

BLOCK_BYTES: Final = 16 << 20
"""Approximate largest size of a block, since runners limit the size of an element."""

HELD_BYTES: Final = 32 << 20
"""Bytes of blocks that a run in one process keeps before it spills.

A small corpus is therefore not written and read again.
"""

Key = TypeVar("Key", int, str)
Block: TypeAlias = "bytes | pa.RecordBatch"
"""Bytes, or rows, which are serialized to bytes when they leave the process."""

Produce = Callable[[Any], Iterator[tuple[int, Block]]]


@dataclass(frozen=True, slots=True)
class Span:
    """A block in a spill file."""

    name: str
    offset: int
    length: int


class Room:
    """Number of bytes of blocks that may still be kept instead of spilled."""

    def __init__(self, size: int) -> None:
        self._left = size

    def takes(self, size: int) -> bool:
        """Return True if a block of this size may be kept, and take its room."""
        fits = size <= self._left
        self._left -= size if fits else 0
        return fits


def spill(
    number: int, blocks: Iterable[tuple[Key, Block]], folder: Folder, room: Room | None = None
) -> Iterator[tuple[Key, Block | Span]]:
    """Write blocks one after the other into one file and yield the span of each by its key.

    Args:
        number: number of the part, which names the file, so that a repeated attempt replaces it.
        blocks: (key, data).
        room: room for blocks that are yielded unchanged; None has none. A file without blocks is not written.
    """
    name = f"spill-{number:05d}.blocks"
    entries: list[tuple[Key, Block | Span]] = []
    stream: IO[bytes] | None = None
    with ExitStack() as stack:
        for key, data in blocks:
            if room is not None and room.takes(len(data) if isinstance(data, bytes) else data.nbytes):
                entries.append((key, data))
                continue
            written = data if isinstance(data, bytes) else data.serialize()
            if stream is None:
                path = stack.enter_context(folder.writing(name, private=True))
                stream = stack.enter_context(Path(path).open("wb"))
            entries.append((key, Span(name, stream.tell(), len(written))))
            stream.write(written)
    yield from entries


def spill_or_pass(
    name: str, number: int, blocks: Iterable[tuple[Key, bytes]], folder: Folder | None
) -> Iterator[tuple[Key, bytes | Span]]:
    """Yield the blocks by their key, unchanged or as spans of a spill file, for a GroupByKey.

    Args:
        name: name of this exchange, so that others can spill into the same folder.
        number: number of the part, as in `spill`.
        blocks: (key, data).
        folder: folder of the spill files; None spills nothing.
    """
    if folder is None:
        yield from blocks
        return
    for key, span in spill(number, blocks, folder / name):
        assert isinstance(span, Span)
        yield key, replace(span, name=f"{name}/{span.name}")


class GatheredBlocks:
    """Blocks of a key. Spilled blocks are read one at a time, and again by a repeated iteration.

    Args:
        folder: folder of the spill files; None if nothing is spilled.
    """

    def __init__(self, folder: Folder | None, values: Iterable[Block | Span]) -> None:
        self._folder = folder
        self._held: list[Block] = []
        spans: list[Span] = []
        for value in values:
            if isinstance(value, Span):
                spans.append(value)
            else:
                self._held.append(value)
        self._spans = sorted(spans, key=lambda span: (span.name, span.offset))

    def __iter__(self) -> Iterator[Any]:  # of blocks; whoever sent bytes alone gets bytes alone
        yield from self._held
        for name, spans in groupby(self._spans, attrgetter("name")):
            assert self._folder is not None
            with self._folder.open(name) as stream:
                for span in spans:
                    stream.seek(span.offset)
                    yield stream.read(span.length)


class Exchange(Transform):
    """Numbered part → (key, blocks) of every key for which any part produced a block.

    Args:
        produce: function that yields the blocks of a part, each with its key; called once or more for each part.
        spill_folder: folder of spilled blocks, in one process those beyond `HELD_BYTES`; None uses a GroupByKey.
    """

    def __init__(self, produce: Produce, spill_folder: Folder | None) -> None:
        super().__init__()
        self._produce = produce
        self._folder = spill_folder

    def expand(self, parts: Collection[tuple[int, Any]]) -> Collection[tuple[int, Iterable[Block]]]:
        produce, folder = self._produce, self._folder
        if folder is None:
            return (
                parts | "Produce" >> FlatMapTuple(partial(_produce_bytes, produce=produce)) | "Gather" >> GroupByKey()
            )
        room = Room(HELD_BYTES) if parts.is_held else None
        return (
            parts
            | "Spill" >> FlatMapTuple(partial(_spill_part, produce=produce, folder=folder, room=room))
            | "Gather" >> GroupByKey()
            | "Fetch" >> MapTuple(partial(_gather, folder=folder))
        )


def _produce_bytes(_: int, part: Any, produce: Produce) -> Iterator[tuple[int, bytes]]:
    for key, data in produce(part):
        yield key, data if isinstance(data, bytes) else data.serialize().to_pybytes()


def _spill_part(
    number: int, part: Any, produce: Produce, folder: Folder, room: Room | None
) -> Iterator[tuple[int, Block | Span]]:
    yield from spill(number, produce(part), folder, room)


def _gather(key: int, values: Iterable[Block | Span], folder: Folder) -> tuple[int, GatheredBlocks]:
    return key, GatheredBlocks(folder, values)
