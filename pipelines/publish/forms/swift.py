"""Form `swift`: token ids with labels as ms-swift's `cached_dataset`, a folder per domain.

From text, ms-swift 4.6 trains whole messages and always the end of the last answer, and it takes control strings inside
contents for control tokens. It encodes a row of `cached_dataset` by the template that the training configuration names.
`swift_plugin.py`, which is stored beside the rows, provides a template that returns the row's ids unchanged. The ids
are therefore those of the form `ids`, for any tokenizer and chat template.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from trajmill.pipelines.publish.forms.ids import lists
from trajmill.pipelines.publish.forms.job import Job
from trajmill.pipelines.publish.forms.saved_dataset import write_split
from trajmill.pipelines.publish.forms.stored_samples import Conversation
from trajmill.pipelines.publish.forms.tokenizing import Tokens

PLUGIN: Final = "swift_plugin.py"
_MESSAGES: Final = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("domain", pa.string()),
        ("messages", _MESSAGES),
        ("input_ids", pa.list_(pa.int32())),
        ("labels", pa.list_(pa.int32())),
        ("lengths", pa.list_(pa.int32())),
    ]
)
_UNREAD: Final = [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}]
"""Messages that ms-swift requires in each row, and that the template ignores."""

_BATCH: Final = 256


def write(job: Job) -> None:
    """Write `sft`, a folder per domain."""
    folders = []
    for domain in sorted({file.domain for file in job.shards.files("sft")}):
        folder = f"sft/{domain}"
        if write_split(job, folder, SCHEMA, _batches(job, domain), domain, job.window):
            folders.append(folder)
    job.copy_module(PLUGIN)
    settings = {
        "cached_dataset": folders,
        "external_plugins": [PLUGIN],
        "template": "trajmill_ids",
        "max_length": job.window or 262_144,
    }
    job.write_yaml("swift.yaml", settings, "For ms-swift, started in this folder.")


def _batches(job: Job, domain: str) -> Iterator[pa.RecordBatch]:
    pairs: list[tuple[Conversation, Tokens]] = []
    for file in job.shards.files("sft"):
        if file.domain == domain:
            for pair in job.conversations(file):
                pairs.append(pair)
                if len(pairs) == _BATCH:
                    yield _batch(pairs)
                    pairs = []
    if pairs:
        yield _batch(pairs)


def _batch(pairs: list[tuple[Conversation, Tokens]]) -> pa.RecordBatch:
    tokens = [sample_tokens for _, sample_tokens in pairs]
    columns = [
        pa.array([sample.id for sample, _ in pairs]),
        pa.array([sample.domain for sample, _ in pairs]),
        pa.array([_UNREAD] * len(pairs), _MESSAGES),
        lists([sample_tokens.ids for sample_tokens in tokens], pa.int32()),
        lists([sample_tokens.labels for sample_tokens in tokens], pa.int32()),
        pa.array([[len(sample_tokens.ids)] for sample_tokens in tokens], pa.list_(pa.int32())),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
