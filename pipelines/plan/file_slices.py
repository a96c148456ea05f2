"""Slices of large files of rows, so that the work of a run is not held up by the largest of them.

A row is of the slice in which it begins, and so is a row group of Parquet or a record batch of Arrow. JSON Lines and
tables are cut every `SLICE_BYTES`, wherever that is in a row. A JSON array is cut between elements, and a compressed
file of lines between its frames, each of at least so many bytes: a file of a single frame is read whole, since it can
only be decompressed from its beginning. A file that grows keeps the slices before, and no slice depends on a part.
Files whose rows hang together are read whole, and so is what is in an archive, whose members are inputs of their own.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import BinaryIO, Final, NamedTuple, cast

from trajmill.connectors.connector import FileSlice
from trajmill.connectors.published.tables import kind_of
from trajmill.connectors.reading.arrays import elements
from trajmill.connectors.reading.documents import first_element
from trajmill.connectors.registry import connector
from trajmill.pipelines.plan.recognition import Input
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.compression import DECODING_ERRORS, by_frames
from trajmill.pipelines.storage.paths import opened
from trajmill.pipelines.storage.stored_blob import StoredBlob, open_uncompressed
from trajmill.schemas import ConfigError, ContractError, ParseError, ShardError

SLICE_BYTES: Final = 16 << 20

FRAME_BYTES: Final = 256 << 20
"""Decompressed bytes of a first frame from which on a compressed file is not searched for others."""


_READ_BYTES: Final = 1 << 20


class _Cut(NamedTuple):
    """Beginning of a slice: an offset, decompressed; the same as stored; the frame that it is read from, if any."""

    begin: int
    stored: int
    frame: int | None = None


def slice_inputs(inputs: Sequence[Input], recipe: Recipe, workers: int, *, strict: bool) -> list[Input]:
    """Replace each large file of rows among the inputs by its slices, in order.

    Args:
        inputs: whole.
        recipe: how logs are read.
        workers: files that are read at once, since slices bear the digest of their file.
        strict: whether an exception of a connector is raised; else its file is read whole.

    Raises:
        ShardError: a file cannot be opened.
    """
    large = [source for source in inputs if source.bytes > SLICE_BYTES]
    with ThreadPoolExecutor(workers) as threads:
        cut = threads.map(lambda source: _slices(source, recipe, strict), large)
        return [piece for source in inputs for piece in (next(cut) if source.bytes > SLICE_BYTES else [source])]


def _slices(source: Input, recipe: Recipe, strict: bool) -> list[Input]:
    if source.members.keys() != {""} or source.members[""].within:
        return [source]
    choices = recipe.normalize.choices(recipe.domains)
    with StoredBlob(source.uri, source.members, sys.maxsize, choices) as blob:
        if not _is_sliceable(source, blob, strict):
            return [source]
        is_table = kind_of(blob.head("", 16)) is not None
        is_array = not is_table and first_element(blob) is not None
        stored = open_uncompressed(source.members[""])
        if stored is None:
            cuts = None if is_table or is_array else _cuts_of_frames(opened(source.members[""].path))
        else:
            with stored:
                cuts = _cuts_of_elements(stored, source.uri) if is_array else _cuts_of_bytes(source, blob)
        return [source] if cuts is None else _pieces(source, *cuts, is_array=is_array)


def _pieces(source: Input, cuts: Sequence[_Cut], digest: str, *, is_array: bool) -> list[Input]:
    if len(cuts) == 1:
        return [replace(source, sha256=digest)]
    ends = [*cuts[1:], None]
    pieces: list[Input] = []
    for cut, end in zip(cuts, ends, strict=True):
        wanted = FileSlice(cut.begin, None if end is None else end.begin, is_array, cut.frame)
        size = (source.bytes if end is None else end.stored) - cut.stored
        pieces.append(replace(source, bytes=size, file_slice=wanted, sha256=digest))
    return pieces


def _cuts_of_bytes(source: Input, blob: StoredBlob) -> tuple[list[_Cut], str]:
    """Cuts of a file wherever it is in a row, and its digest."""
    return [_Cut(begin, begin) for begin in range(0, source.bytes, SLICE_BYTES)], source.sha256 or blob.digest()


class _Hashed:
    """A stream that is read from its beginning to its end, and hashed on the way."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self.digest = stream, hashlib.sha256()

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self.digest.update(data)
        return data


def _cuts_of_elements(stream: BinaryIO, uri: str) -> tuple[list[_Cut], str] | None:
    """Cuts between elements of a JSON array, and its digest; None if the file is no array of objects, or more."""
    hashed, cuts, end = _Hashed(stream), [_Cut(0, 0)], 0
    try:
        for offset, data in elements(cast("BinaryIO", hashed), uri, ()):
            if offset >= cuts[-1].begin + SLICE_BYTES:
                cuts.append(_Cut(offset, offset))
            end = offset + len(data)
    except ParseError:  # it is met again, and told, when the file is read
        return None
    while hashed.read(_READ_BYTES):
        pass
    stream.seek(end)
    return (cuts, hashed.digest.hexdigest()) if stream.read(_READ_BYTES).strip(b" \t\r\n") == b"]" else None


def _cuts_of_frames(stream: BinaryIO) -> tuple[list[_Cut], str] | None:
    """Cuts between the frames of a compressed file, and its digest; None if it is damaged or its first frame is long.

    The first byte of a frame still is of the slice before, so that whoever reads the frame sees whether a line begins
    behind it.
    """
    cuts, digest, size, frame = [_Cut(0, 0, 0)], hashlib.sha256(), 0, 0
    try:
        for begin, data in by_frames(stream):
            if begin != frame and size >= cuts[-1].begin + SLICE_BYTES:
                cuts.append(_Cut(size + 1, begin, begin))
            if begin == 0 and size > FRAME_BYTES:
                return None
            frame = begin
            digest.update(data)
            size += len(data)
    except DECODING_ERRORS:
        return None
    return cuts, digest.hexdigest()


def _is_sliceable(source: Input, blob: StoredBlob, strict: bool) -> bool:
    try:
        return connector(source.connector).is_sliceable(blob)
    except ParseError:  # it is met again, and told, when the file is read
        return False
    except (OSError, MemoryError, ConfigError, ContractError, ShardError):
        raise
    except Exception as error:
        error.add_note(f"while connector '{source.connector}' was asked whether {source.uri} can be read in slices")
        if strict:
            raise
        return False
