"""Form `swift`: conversations whose answers are split where the loss begins and ends, as ms-swift takes it by message.

ms-swift joins successive messages of the assistant to one answer and trains those pieces whose `loss` is true. A piece
is tokenized by itself, so answers are split between tokens that lie wholly inside the spans and others. Of a
conversation nothing stands behind its last turn that bears loss.

ms-swift 4.6 trains the end of the last answer whatever it holds, and the newline that its templates of Qwen have behind
`<|im_end|>`. `swift_plugin.py`, which lies beside the rows, keeps it from both; `swift.yaml` names it.

Control strings inside a content it takes for control tokens: such a sample is left out, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from pipelines.publish.forms import mixes
from pipelines.publish.forms.axolotl import details
from pipelines.publish.forms.job import Job
from pipelines.publish.forms.stored_samples import Conversation, Message, ShardFile
from pipelines.publish.forms.tokenizing import Tokenizing

_MESSAGE: Final = pa.struct([("role", pa.string()), ("content", pa.string()), ("loss", pa.bool_())])
SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("domain", pa.string()),
        ("trajectory_id", pa.string()),
        ("messages", pa.list_(_MESSAGE)),
    ]
)
PLUGIN: Final = "swift_plugin.py"
_BATCH: Final = 256


def write(job: Job) -> None:
    """Writes `sft`, a file a shard."""
    for file in job.shards.files("sft"):
        job.out.parquet(file.name, SCHEMA, _batches(job, file))
    job.copy_module(PLUGIN)
    told = {
        "dataset": job.out.names(".parquet"),
        "external_plugins": [PLUGIN],
        "template": "trajmill_chatml",
        "loss_scale": "trajmill",
    }
    job.write_yaml("swift.yaml", told, "For ms-swift, started in this folder; the template is that of Qwen 2.5.")
    mixes.interleave(job, "sft")


def _batches(job: Job, file: ShardFile) -> Iterator[pa.RecordBatch]:
    rows: list[dict[str, Any]] = []
    for sample in job.shards.conversations(file):
        row = _row(job, sample)
        rows += [row] if row is not None else []
        if len(rows) == _BATCH:
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def _row(job: Job, sample: Conversation) -> dict[str, Any] | None:
    """The sample as ms-swift reads it; None where a content holds a control string, or nothing bears loss."""
    counts, domain = job.out.counts, sample.domain
    kept = to_last_target(sample.messages)
    if any(job.tokenizing.control_strings(message.content) for message in kept):
        counts[f"dropped_control_strings.{domain}"] += 1
        return None
    messages: list[dict[str, Any]] = []
    for message in kept:
        if message.role == "assistant":
            parts, lost = pieces(job.tokenizing, message)
            counts[f"lost_tokens.{domain}"] += lost
            messages += [{"role": "assistant", "content": text, "loss": bears} for text, bears in parts]
        else:
            messages.append({"role": message.role, "content": message.content, "loss": None})
    if not any(message["loss"] for message in messages):
        counts[f"without_loss.{domain}"] += 1
        return None
    counts[f"samples.{domain}"] += 1
    counts[f"messages_behind_targets.{domain}"] += len(sample.messages) - len(kept)
    return {"id": sample.id, "domain": domain, "trajectory_id": sample.trajectory_id, "messages": messages}


def to_last_target(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages up to the last that bears loss."""
    return messages[: max((number for number, one in enumerate(messages, 1) if one.spans), default=0)]


def pieces(tokenizing: Tokenizing, message: Message) -> tuple[list[tuple[str, bool]], int]:
    """(the content in pieces, each with whether it bears the loss; how many tokens bear none that were meant to)."""
    told, lost = details(tokenizing, message)
    text, end = message.content, 0
    found: list[tuple[str, bool]] = []
    for one in told:
        begin, behind = one["begin_offset"], one["end_offset"] + 1
        found += [(text[end:begin], False), (text[begin:behind], True)]
        end = behind
    kept = [(piece, bears) for piece, bears in [*found, (text[end:], False)] if piece]
    return kept or [(text, False)], lost
