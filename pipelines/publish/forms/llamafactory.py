"""Form `llamafactory`: ids and labels as a folder for `tokenized_path`, cut and packed as LLaMA-Factory would.

LLaMA-Factory knows no loss but of whole conversations or last turns; what lies at `tokenized_path` it trains as it is.
A pack is filled up to the window, its samples numbered in the attention mask (`neat_packing`), so none sees another.
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
"""Tokens of samples among which those that fit together are looked for."""


def write(job: Job) -> None:
    """Writes `sft` as one data set; the window of the job is LLaMA-Factory's `cutoff_len`."""
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
    for made in _packed(job, window):
        yield pa.RecordBatch.from_arrays(_columns(made, window + 1, job.tokenizing.padding), schema=SCHEMA)


def _packed(job: Job, window: int) -> Iterator[list[list[Tokens]]]:
    """Packs of samples, some at a time."""
    held: list[Tokens] = []
    size = 0
    for file in job.shards.files("sft"):
        for _, tokens in job.conversations(file):
            held.append(tokens)
            size += len(tokens.ids)
            if size >= _HELD_TOKENS:
                yield packs(held, window)
                held, size = [], 0
    if held:
        yield packs(held, window)


def packs(samples: Sequence[Tokens], window: int) -> list[list[Tokens]]:
    """The samples, longest first, each in the first pack that has room for it."""
    made: list[tuple[int, list[Tokens]]] = []
    opened = 0
    for sample in sorted(samples, key=lambda one: -len(one.ids)):
        while opened < len(made) and made[opened][0] == window:
            opened += 1
        size = len(sample.ids)
        at = next((at for at in range(opened, len(made)) if made[at][0] + size <= window), None)
        if at is None:
            made.append((size, [sample]))
        else:
            made[at] = (made[at][0] + size, [*made[at][1], sample])
    return [held for _, held in made]


def _columns(made: Sequence[Sequence[Tokens]], length: int, padding: int) -> list[pa.Array]:
    """Columns of packs, each filled up to the same length."""
    found: list[list[np.ndarray]] = [[] for _ in SCHEMA.names]
    for pack in made:
        room = length - sum(len(one.ids) for one in pack)
        filled = (
            [*(one.ids for one in pack), np.full(room, padding)],
            [*(np.full(len(one.ids), number) for number, one in enumerate(pack, 1)), np.zeros(room)],
            [*(np.arange(len(one.ids)) for one in pack), np.zeros(room)],
            [*(one.labels for one in pack), np.full(room, IGNORED)],
        )
        for column, parts in zip(found, filled, strict=True):
            column.append(np.concatenate(parts).astype(np.int32))
    return [lists(list(column), pa.int32()) for column in found]
