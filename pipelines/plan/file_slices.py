"""Slices of large files of rows, so that the work of a run is not held up by the largest of them.

A file is cut every `SLICE_BYTES`, wherever that is in a row: a row is of the slice in which it begins, a row group of
Parquet likewise. So nothing of the file is read to cut it, a file that grows keeps the slices before, and what a slice
gives hangs on no part. What is compressed, or in an archive, is read whole, and so is a file whose rows hang together.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from trajmill.connectors.connector import FileSlice
from trajmill.connectors.registry import connector
from trajmill.pipelines.plan.recognition import Input
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.stored_blob import StoredBlob, uncompressed
from trajmill.schemas import ConfigError, ContractError, ParseError, ShardError

SLICE_BYTES: Final = 16 << 20


def sliced(inputs: Sequence[Input], recipe: Recipe, workers: int, *, strict: bool) -> list[Input]:
    """The inputs, and in place of each large file of rows its slices, in order.

    Args:
        inputs: whole.
        recipe: how logs are read.
        workers: files that are read at once, since slices bear the digest of their file.
        strict: whether an exception of a connector is raised; else its file is read whole.

    Raises:
        ShardError: a file cannot be opened.
    """
    large = [one for one in inputs if one.bytes > SLICE_BYTES]
    with ThreadPoolExecutor(workers) as threads:
        cut = threads.map(lambda one: _slices(one, recipe, strict), large)
        return [piece for one in inputs for piece in (next(cut) if one.bytes > SLICE_BYTES else [one])]


def _slices(one: Input, recipe: Recipe, strict: bool) -> list[Input]:
    if not _is_sliceable(one, recipe, strict):
        return [one]
    with StoredBlob(one.uri, one.members, sys.maxsize) as blob:
        digest = one.sha256 or blob.digest()
    begins = range(0, one.bytes, SLICE_BYTES)
    ends = [*begins[1:], one.bytes]
    pairs = zip(begins, ends, strict=True)
    last = begins[-1]
    return [
        replace(one, bytes=end - begin, file_slice=FileSlice(begin, None if begin == last else end), sha256=digest)
        for begin, end in pairs
    ]


def _is_sliceable(one: Input, recipe: Recipe, strict: bool) -> bool:
    stored = uncompressed(one.members[""]) if one.members.keys() == {""} else None
    if stored is None:
        return False
    stored.close()
    choices = recipe.normalize.choices(recipe.domains)
    try:
        with StoredBlob(one.uri, one.members, sys.maxsize, choices) as blob:
            return connector(one.connector).is_sliceable(blob)
    except ParseError:  # it is met again, and told, when the file is read
        return False
    except (OSError, MemoryError, ConfigError, ContractError, ShardError):
        raise
    except Exception as error:
        error.add_note(f"while connector '{one.connector}' was asked whether {one.uri} can be read in slices")
        if strict:
            raise
        return False
