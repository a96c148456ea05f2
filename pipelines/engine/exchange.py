"""How blocks of bytes come to their keys, the same result by two roads.

Through spill files with an index (one file a part, for the local runner, which would hold a GroupByKey in memory), or
through a GroupByKey (for runners that spill by themselves). `Exchange` is that of payload: blocks of samples to the
shard they belong to. Blocks of a key come in no particular order: whoever takes them sorts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa

from pipelines.engine.flow import Collection, FlatMapTuple, GroupByKey, MapTuple, Transform
from pipelines.engine.storage import Folder

BLOCK_BYTES: Final = 16 << 20
"""A block is at most about this large; runners cap the size of one element."""

Key = TypeVar("Key", int, str)
Produce = Callable[[Any], "Iterator[tuple[int, bytes | pa.Buffer]]"]


@dataclass(frozen=True, slots=True)
class Span:
    """A block in a spill file."""

    name: str
    offset: int
    length: int


def spill(number: int, blocks: Iterable[tuple[Key, bytes | pa.Buffer]], folder: Folder) -> Iterator[tuple[Key, Span]]:
    """Writes blocks one after the other into one file and yields where each lies, by its key.

    Args:
        number: of the part; the file is named by it, so that a repeated attempt replaces it.
        blocks: (key, data).
        folder: of the spill files.
    """
    name = f"spill-{number:05d}.blocks"
    spans = []
    with folder.writing(name, private=True) as path, Path(path).open("wb") as stream:
        for key, data in blocks:
            spans.append((key, Span(name, stream.tell(), len(data))))
            stream.write(data)
    yield from spans


def carried(
    name: str, number: int, blocks: Iterable[tuple[Key, bytes]], folder: Folder | None
) -> Iterator[tuple[Key, bytes | Span]]:
    """The blocks by their key as they are, or as spans of a spill file: what a GroupByKey then holds.

    Args:
        name: of this exchange, so that others can spill into the same folder.
        number: of the part, as of `spill`.
        blocks: (key, data).
        folder: of the spill files; None spills nothing.
    """
    if folder is None:
        yield from blocks
        return
    for key, span in spill(number, blocks, folder / name):
        yield key, replace(span, name=f"{name}/{span.name}")


def fetched(values: Iterable[bytes | Span], folder: Folder | None) -> Iterator[bytes]:
    """The blocks of a key, from what `carried` gave; those that were spilled are read one at a time."""
    spans = []
    for value in values:
        if isinstance(value, bytes):
            yield value
        else:
            spans.append(value)
    if spans:
        assert folder is not None
        yield from SpilledBlocks(folder, spans)


class SpilledBlocks:
    """The blocks that spans point to, read one at a time; iterating again reads them again."""

    def __init__(self, folder: Folder, spans: Iterable[Span]) -> None:
        self._folder = folder
        self._spans = sorted(spans, key=lambda span: (span.name, span.offset))

    def __iter__(self) -> Iterator[bytes]:
        for name, spans in groupby(self._spans, attrgetter("name")):
            with self._folder.open(name) as stream:
                for span in spans:
                    stream.seek(span.offset)
                    yield stream.read(span.length)


class Exchange(Transform):
    """Numbered part → (key, blocks) of every key that any part produced a block for.

    Args:
        produce: the blocks of a part, each with its key; called once or more for each part.
        spill_folder: where blocks are spilled; None sends them through a GroupByKey.
    """

    def __init__(self, produce: Produce, spill_folder: Folder | None) -> None:
        super().__init__()
        self._produce = produce
        self._folder = spill_folder

    def expand(self, parts: Collection[tuple[int, Any]]) -> Collection[tuple[int, Iterable[bytes]]]:
        produce, folder = self._produce, self._folder
        if folder is None:
            return (
                parts
                | "Produce" >> FlatMapTuple(lambda _, part: ((key, bytes(block)) for key, block in produce(part)))
                | "Gather" >> GroupByKey()
            )
        return (
            parts
            | "Spill" >> FlatMapTuple(lambda number, part: spill(number, produce(part), folder))
            | "Gather" >> GroupByKey()
            | "Fetch" >> MapTuple(lambda key, spans: (key, SpilledBlocks(folder, spans)))
        )
