"""Passages in the columns of transitions, so that the same code scrubs and measures both.

A passage is a trajectory, and each of its texts is the answer of a step without an action. Equal rules therefore apply
to both, and no second scrubber or index is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.mix.passages.passage import Message, Passage
from trajmill.quality.fingerprint import struct_text, trajectory_starts
from trajmill.schemas.transition import encode_schema

BATCH_CHARACTERS: Final = 8 << 20
BATCH_PASSAGES: Final = 4096
"""Size of a batch of passages in characters and in passages.

A batch is closed when it reaches one of these; a larger passage is a batch by itself.
"""

_FORM: Final = "response"
"""Form whose words near duplicates compare in full."""


def split_into_batches(passages: Iterator[Passage]) -> Iterator[list[Passage]]:
    """Yield the passages in batches, in order."""
    batch: list[Passage] = []
    size = 0
    for passage in passages:
        batch.append(passage)
        size += passage.size
        if size >= BATCH_CHARACTERS or len(batch) >= BATCH_PASSAGES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _struct(kind: pa.DataType, fields: dict[str, pa.Array], rows: int) -> pa.StructArray:
    arrays = [
        pa.nulls(rows, field.type) if field.name not in fields else fields[field.name].cast(field.type)
        for field in kind.fields
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(kind.fields))


def as_transitions(passages: Sequence[Passage]) -> pa.RecordBatch:
    """Build a batch of `encoded_schema()` with a row for each text of each passage, in order."""
    schema = encode_schema()
    lengths = [len(passage.messages) for passage in passages]
    rows = sum(lengths)
    owner = np.repeat(np.arange(len(passages)), lengths)
    steps = chain.from_iterable(range(length) for length in lengths)
    texts = pa.array([message.content for passage in passages for message in passage.messages], pa.string())
    of_row = pa.array(owner)

    def spread(values: list[Any]) -> pa.Array:
        return pa.array(values, pa.string()).take(of_row).dictionary_encode()

    observation = {
        "content": texts.dictionary_encode(),
        "form": pa.array([_FORM] * rows, pa.string()).dictionary_encode(),
    }
    known = {
        "trajectory_id": pa.DictionaryArray.from_arrays(
            pa.array(owner.astype(np.int32)), pa.array([str(number) for number in range(len(passages))], pa.string())
        ),
        "native_id": spread([passage.native_id for passage in passages]),
        "step": pa.array(list(steps), pa.int32()),
        "context": _struct(
            schema.field("context").type, {"action_space": spread([passage.tools for passage in passages])}, rows
        ),
        "next_observation": _struct(schema.field("next_observation").type, observation, rows),
    }
    columns = [known.get(field.name, pa.nulls(rows, field.type)) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def texts_of(batch: pa.RecordBatch) -> pa.StringArray:
    """Return the texts of the passages in a batch, one per row."""
    return struct_text(batch, "next_observation", "content").cast(pa.string())


def as_passages(batch: pa.RecordBatch, passages: Sequence[Passage]) -> list[Passage]:
    """Rebuild passages from their batch, with its current texts."""
    starts = trajectory_starts(batch)
    ends = np.append(starts[1:], batch.num_rows)
    texts = texts_of(batch).to_pylist()
    first_rows = pa.array(starts)
    ids = batch["native_id"].take(first_rows).to_pylist()
    tools = struct_text(batch, "context", "action_space").take(first_rows).to_pylist()
    return [
        replace(
            passage,
            messages=tuple(
                Message(message.role, text) for message, text in zip(passage.messages, texts[begin:end], strict=True)
            ),
            native_id=name,
            tools=tool,
        )
        for passage, begin, end, name, tool in zip(passages, starts.tolist(), ends.tolist(), ids, tools, strict=True)
    ]


def filter_passages(batch: pa.RecordBatch, is_kept: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    """Return the rows of the kept passages; `is_kept` has one value per passage."""
    starts = trajectory_starts(batch)
    rows = np.repeat(is_kept, np.diff(np.append(starts, batch.num_rows)))
    return batch if is_kept.all() else batch.filter(pa.array(rows))


def sum_per_passage(batch: pa.RecordBatch, per_row: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Sum a number of each row over the rows of each passage."""
    sums: npt.NDArray[np.int64] = np.add.reduceat(per_row, trajectory_starts(batch)) if batch.num_rows else per_row
    return sums


def bearing(passages: Sequence[Passage]) -> npt.NDArray[np.bool_]:
    """Flag the rows that bear the loss: texts, and messages of an assistant."""
    return np.array(
        [message.role in ("", "assistant") for passage in passages for message in passage.messages], np.bool_
    )
