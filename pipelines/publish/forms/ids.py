"""Form `ids`: token ids with labels as Parquet, for TRL and axolotl directly and for verl through `verl_dataset`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.publish.forms import mixes
from trajmill.pipelines.publish.forms.job import Job
from trajmill.pipelines.publish.forms.stored_samples import Sample, ShardFile
from trajmill.pipelines.publish.forms.tokenizing import Tokens

SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("domain", pa.string()),
        ("trajectory_id", pa.string()),
        ("input_ids", pa.list_(pa.int32())),
        ("labels", pa.list_(pa.int32())),
        ("attention_mask", pa.list_(pa.int8())),
        ("loss_mask", pa.list_(pa.int8())),
    ]
)

_BATCH_TOKENS: Final = 2 << 20
_LONGEST: Final = 262_144
"""Largest number of tokens that trainers are configured with if no window is set."""

VERL_MODULE: Final = "verl_dataset.py"


def write(job: Job) -> None:
    """Write both pools, one file per shard."""
    for pool in ("sft", "cpt"):
        for file in job.shards.files(pool):
            job.out.parquet(file.name, SCHEMA, _batches(job, file))
    job.copy_module(VERL_MODULE)
    job.write_yaml("verl.yaml", _verl(job), "For verl's SFT trainer, started in this folder.")
    job.write_yaml("axolotl.yaml", _axolotl(job), "For axolotl, started in this folder; it trains ids as they are.")
    for pool in ("sft", "cpt"):
        mixes.interleave(job, pool)


def _axolotl(job: Job) -> dict[str, object]:
    files = [name for name in job.out.names(".parquet") if name.startswith("sft/")]
    source = {"path": ".", "ds_type": "parquet", "data_files": files, "split": "train", "type": None}
    return {"datasets": [source], "sequence_len": job.window or _LONGEST, "excess_length_strategy": "raise"}


def _verl(job: Job) -> dict[str, object]:
    files = job.out.names(".parquet")
    return {
        "data": {
            "train_files": [name for name in files if name.startswith("sft/")],
            "custom_cls": {"path": VERL_MODULE, "name": "TokenIdDataset"},
            "pad_mode": "no_padding",
            "truncation": "error",
            "max_length": job.window or _LONGEST,
        }
    }


def _batches(job: Job, file: ShardFile) -> Iterator[pa.RecordBatch]:
    pairs: list[tuple[Sample, Tokens]] = []
    size = 0
    for pair in job.conversations(file) if file.pool == "sft" else job.documents(file):
        pairs.append(pair)
        size += len(pair[1].ids)
        if size >= _BATCH_TOKENS:
            yield _batch(pairs)
            pairs, size = [], 0
    if pairs:
        yield _batch(pairs)


def _batch(pairs: list[tuple[Sample, Tokens]]) -> pa.RecordBatch:
    tokens = [sample_tokens for _, sample_tokens in pairs]
    columns = [
        pa.array([sample.id for sample, _ in pairs]),
        pa.array([sample.domain for sample, _ in pairs]),
        pa.array([sample.trajectory_id for sample, _ in pairs]),
        lists([sample_tokens.ids for sample_tokens in tokens], pa.int32()),
        lists([sample_tokens.labels for sample_tokens in tokens], pa.int32()),
        lists([np.ones(len(sample_tokens.ids), np.int8) for sample_tokens in tokens], pa.int8()),
        lists([sample_tokens.loss.astype(np.int8) for sample_tokens in tokens], pa.int8()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def lists(arrays: list[npt.NDArray[np.generic]], kind: pa.DataType) -> pa.ListArray:
    """Build a column of lists from numpy arrays, without Python numbers between."""
    offsets = np.concatenate([[0], np.cumsum([len(array_) for array_ in arrays])]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(arrays), kind))
