"""Slices of large files of rows, so that the largest file does not hold up a run.

A row, a row group of Parquet and a record batch of Arrow belong to the slice in which they begin. JSON Lines and tables
are cut every `SLICE_BYTES`, also inside a row. A JSON array is cut between elements, and a compressed file of lines
between its frames, into slices of at least that size; a file of a single frame is read whole, since it can only be
decompressed from its beginning. A file that grows keeps its earlier slices, and no slice depends on a part. Files with
dependent rows are read whole, and so are members of archives, which are inputs of their own.
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
"""Decompressed bytes of a first frame above which a compressed file is not searched for further frames."""


_READ_BYTES: Final = 1 << 20


class _Cut(NamedTuple):
    """Beginning of a slice: its decompressed offset, its stored offset, and the frame to read from, if any."""

    begin: int
    stored: int
    frame: int | None = None


def slice_inputs(inputs: Sequence[Input], recipe: Recipe, workers: int, *, strict: bool) -> list[Input]:
    """Replace each large file of rows among the inputs by its slices, in order.

    Args:
        workers: number of files that are read at once, since slices hold the digest of their file.
        strict: whether an exception of a connector is raised; otherwise its file is read whole.
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
    """Return the cuts of a file, also inside a row, and its digest."""
    return [_Cut(begin, begin) for begin in range(0, source.bytes, SLICE_BYTES)], source.sha256 or blob.digest()


class _Hashed:
    """A stream that is hashed while it is read from beginning to end."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self.digest = stream, hashlib.sha256()

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self.digest.update(data)
        return data


def _cuts_of_elements(stream: BinaryIO, uri: str) -> tuple[list[_Cut], str] | None:
    """Return the cuts between elements of a JSON array, and its digest; None if the file is not just such an array."""
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
    """Return the cuts between the frames of a compressed file, and its digest.

    The result is None if the file is damaged or its first frame is long. The first byte of a frame still belongs to the
    previous slice, so that the reader of a frame sees whether a line begins after that byte.
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
