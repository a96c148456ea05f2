"""Form `mds`: shards of mosaicml-streaming with ids and mask of each document, a folder per domain.

The layout is that of its `MDSWriter` (0.13.0). A shard holds the number of samples, the offset of each and of the end,
the columns as JSON, and the samples. A sample holds the sizes of its columns followed by their bytes, in order of
names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trajmill.pipelines.publish.forms import mixes
from trajmill.pipelines.publish.forms.job import Job

COLUMNS: Final = {"id": "str", "input_ids": "ndarray:int32", "loss_mask": "ndarray:uint8"}
SHARD_BYTES: Final = 1 << 26

_CONFIG: Final[dict[str, Any]] = {
    "version": 2,
    "format": "mds",
    "compression": None,
    "hashes": [],
    "size_limit": SHARD_BYTES,
    "column_names": sorted(COLUMNS),
    "column_encodings": [COLUMNS[name] for name in sorted(COLUMNS)],
    "column_sizes": [None] * len(COLUMNS),
}
_HEAD: Final = json.dumps(_CONFIG, sort_keys=True).encode()


def write(job: Job) -> None:
    """Write the documents of `cpt`, domain by domain."""
    for domain in sorted({file.domain for file in job.shards.files("cpt")}):
        shards = []
        for number, samples in enumerate(_fill_shards(_samples(job, domain))):
            name, data = f"shard.{number:05d}.mds", shard(samples)
            job.out.write(f"cpt/{domain}/{name}", data, len(samples))
            raw_data = {"basename": name, "bytes": len(data), "hashes": {}}
            shards.append({**_CONFIG, "samples": len(samples), "raw_data": raw_data, "zip_data": None})
        index = json.dumps({"version": 2, "shards": shards}, sort_keys=True)
        job.out.write(f"cpt/{domain}/index.json", index)
    mixes.streams(job)


def shard(samples: list[bytes]) -> bytes:
    """Build a shard of encoded samples."""
    begin = 4 + 4 * (len(samples) + 1) + len(_HEAD)
    ends = begin + np.cumsum([0, *map(len, samples)])
    return np.uint32(len(samples)).tobytes() + ends.astype(np.uint32).tobytes() + _HEAD + b"".join(samples)


def _samples(job: Job, domain: str) -> Iterator[bytes]:
    for file in job.shards.files("cpt"):
        if file.domain == domain:
            for sample, tokens in job.documents(file):
                values = [sample.id.encode(), _array(tokens.ids), _array(tokens.loss.astype(np.uint8))]
                yield np.array([len(value) for value in values], np.uint32).tobytes() + b"".join(values)


def _array(values: npt.NDArray[Any]) -> bytes:
    """Encode a one-dimensional array.

    A byte holds the number of dimensions and the width of the shape; the shape and the values follow.
    """
    width = next(power for power in range(4) if len(values) < 1 << (8 << power))
    return bytes([1 << 2 | width]) + len(values).to_bytes(1 << width, "little") + values.tobytes()


def _fill_shards(samples: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Group samples by shard. A shard is closed before a sample that would exceed its bound."""
    pending: list[bytes] = []
    size = room = 4 + 4 + len(_HEAD)
    for sample in samples:
        if pending and size + len(sample) + 4 > SHARD_BYTES:
            yield pending
            pending, size = [], room
        pending.append(sample)
        size += len(sample) + 4
    if pending:
        yield pending
