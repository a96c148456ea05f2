"""Form `swift`: token ids with labels as ms-swift's `cached_dataset`, a folder a domain.

Of text ms-swift 4.6 trains whole messages, the end of the last answer whatever it holds, and takes control strings
inside contents for control tokens. A row of `cached_dataset` is encoded by the template that training names:
`swift_plugin.py`, which lies beside the rows, brings one that returns the row's ids as they are. So they are those of
the form `ids`, of any tokenizer and chat template.
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
"""Messages that ms-swift wants of each row, and that its template does not look at."""

_BATCH: Final = 256


def write(job: Job) -> None:
    """Writes `sft`, a folder a domain."""
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
