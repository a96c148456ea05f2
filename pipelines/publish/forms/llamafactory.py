"""Form `llamafactory`: ids and labels as a folder for `tokenized_path`, cut and packed as LLaMA-Factory would.

LLaMA-Factory can train only whole conversations or last turns, but it trains the data at `tokenized_path` unchanged. A
pack is filled up to the window with its samples numbered in the attention mask (`neat_packing`), so that they do not
attend to each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from trajmill.pipelines.publish.forms.ids import lists
from trajmill.pipelines.publish.forms.job import Job
from trajmill.pipelines.publish.forms.saved_dataset import write_split
from trajmill.pipelines.publish.forms.tokenizing import IGNORED, Tokens

FOLDER: Final = "tokenized"
SCHEMA: Final = pa.schema(
    [
        ("input_ids", pa.list_(pa.int32())),
        ("attention_mask", pa.list_(pa.int32())),
        ("position_ids", pa.list_(pa.int32())),
        ("labels", pa.list_(pa.int32())),
    ]
)
_HELD_TOKENS: Final = 8 << 20
"""Number of tokens of the samples that are packed together."""


def write(job: Job) -> None:
    """Write `sft` as one data set. The window of the job is LLaMA-Factory's `cutoff_len`."""
    window = job.window or 0
    rows = write_split(job, f"{FOLDER}/train", SCHEMA, _batches(job, window), window)
    job.write_json(f"{FOLDER}/dataset_dict.json", {"splits": ["train"]})
    job.write_json("dataset_info.json", {"trajmill": {"file_name": FOLDER}})
    job.write_yaml("llamafactory.yaml", _config(window), "For LLaMA-Factory, started in this folder.")
    job.out.counts["packs"] = rows


def _config(window: int) -> dict[str, object]:
    return {
        "stage": "sft",
        "dataset_dir": ".",
        "dataset": "trajmill",
        "tokenized_path": FOLDER,
        "cutoff_len": window,
        "packing": True,
        "neat_packing": True,
    }


def _batches(job: Job, window: int) -> Iterator[pa.RecordBatch]:
    for packs_of_batch in _pack(job, window):
        yield pa.RecordBatch.from_arrays(_columns(packs_of_batch, window + 1, job.tokenizing.padding), schema=SCHEMA)


def _pack(job: Job, window: int) -> Iterator[list[list[Tokens]]]:
    """Pack samples, some at a time."""
    pending: list[Tokens] = []
    size = 0
    for file in job.shards.files("sft"):
        for _, tokens in job.conversations(file):
            pending.append(tokens)
            size += len(tokens.ids)
            if size >= _HELD_TOKENS:
                yield packs(pending, window)
                pending, size = [], 0
    if pending:
        yield packs(pending, window)


def packs(samples: Sequence[Tokens], window: int) -> list[list[Tokens]]:
    """Put each sample, longest first, into the first pack that has room for it."""
    filled: list[tuple[int, list[Tokens]]] = []
    opened = 0
    for sample in sorted(samples, key=lambda sample_tokens: -len(sample_tokens.ids)):
        while opened < len(filled) and filled[opened][0] == window:
            opened += 1
        size = len(sample.ids)
        number = next((number for number in range(opened, len(filled)) if filled[number][0] + size <= window), None)
        if number is None:
            filled.append((size, [sample]))
        else:
            filled[number] = (filled[number][0] + size, [*filled[number][1], sample])
    return [pack for _, pack in filled]


def _columns(packs_: Sequence[Sequence[Tokens]], length: int, padding: int) -> list[pa.Array]:
    """Build columns of packs, each padded to the same length."""
    columns: list[list[np.ndarray]] = [[] for _ in SCHEMA.names]
    for pack in packs_:
        room = length - sum(len(sample.ids) for sample in pack)
        filled = (
            [*(sample.ids for sample in pack), np.full(room, padding)],
            [*(np.full(len(sample.ids), number) for number, sample in enumerate(pack, 1)), np.zeros(room)],
            [*(np.arange(len(sample.ids)) for sample in pack), np.zeros(room)],
            [*(sample.labels for sample in pack), np.full(room, IGNORED)],
        )
        for column, parts in zip(columns, filled, strict=True):
            column.append(np.concatenate(parts).astype(np.int32))
    return [lists(list(column), pa.int32()) for column in columns]
