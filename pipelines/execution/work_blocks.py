"""The elements of a pipeline, kept in the output folder and handed to workers by number.

Elements that stand in the graph make it as large as the corpus has inputs, and engines refuse graphs of some megabytes.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from trajmill.pipelines.storage.folders import Folder, unfinished_name
from trajmill.schemas import ShardError

_BLOCK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Kept:
    """Where an element lies.

    Attributes:
        block: the file of the folder.
        sha256: of the file: nothing else is ever loaded from it.
        index: which of its elements.
    """

    block: str
    sha256: str
    index: int


@dataclass(frozen=True, slots=True)
class Taken:
    """Gives elements back, in any process that sees the folder."""

    folder: Folder

    def __call__(self, kept: Kept) -> Any:
        """The element.

        Raises:
            ShardError: its file is not there, or another.
        """
        return pickle.loads(_block(self.folder, kept.block, kept.sha256)[kept.index])  # noqa: S301 - by its digest


@lru_cache(maxsize=4)
def _block(folder: Folder, name: str, sha256: str) -> list[bytes]:
    data = folder.read(name)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ShardError(f"{folder.path(name)} is not as it was written")
    found: list[bytes] = pickle.loads(data)  # noqa: S301 - it is what the run wrote, by its digest
    return found


@contextmanager
def kept(work: Sequence[Any], folder: Folder) -> Iterator[list[Kept]]:
    """Where each element lies, while it lasts; a killed run leaves the files to the next, which clears them."""
    places: list[Kept] = []
    names: list[str] = []
    try:
        for block in _blocks(work):
            data = pickle.dumps(block)
            names.append(unfinished_name("work"))
            folder.write(names[-1], data, private=True)
            sha256 = hashlib.sha256(data).hexdigest()
            places += [Kept(names[-1], sha256, index) for index in range(len(block))]
        yield places
    finally:
        for name in names:
            folder.remove(name)


def _blocks(work: Sequence[Any]) -> Iterator[list[bytes]]:
    block: list[bytes] = []
    size = 0
    for one in work:
        block.append(pickle.dumps(one))
        size += len(block[-1])
        if size >= _BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block
