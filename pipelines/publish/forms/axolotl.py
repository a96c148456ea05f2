"""Form `axolotl`: conversations with `training_detail`, which says by characters what of a message bears the loss.

axolotl 0.19 counts code points of the content, ends inclusive, and widens what it is told to whole tokens. So details
are given as whole tokens that lie inside the spans. Where a template trims contents they are trimmed here, so that
axolotl counts in the text that it shows; what is lost is counted. `training` is null, since it would override.

The form `ids`, which axolotl reads too, is exact; this one is for who wants text there. axolotl takes control strings
inside a content for control tokens: such a sample is left out, and counted. It trains the end of each turn of which it
trains anything; ends that were not meant are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trajmill.pipelines.publish.forms import mixes
from trajmill.pipelines.publish.forms.job import Job
from trajmill.pipelines.publish.forms.stored_samples import Conversation, Message, ShardFile, Span
from trajmill.pipelines.publish.forms.tokenizing import Tokenizing, bears_to_the_end

_DETAIL: Final = pa.struct([("begin_offset", pa.int32()), ("end_offset", pa.int32()), ("train", pa.bool_())])
_MESSAGE: Final = pa.struct(
    [
        ("role", pa.string()),
        ("content", pa.string()),
        ("training", pa.bool_()),
        ("training_detail", pa.list_(_DETAIL)),
    ]
)
SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("domain", pa.string()),
        ("trajectory_id", pa.string()),
        ("messages", pa.list_(_MESSAGE)),
    ]
)
_BATCH: Final = 256


def write(job: Job) -> None:
    """Writes `sft`, a file a shard."""
    trims = trimmed_sides(job.tokenizing)
    for file in job.shards.files("sft"):
        job.out.parquet(file.name, SCHEMA, _batches(job, file, trims))
    job.write_yaml("axolotl.yaml", _config(job), "For axolotl, started in this folder.")
    mixes.interleave(job, "sft")


def _config(job: Job) -> dict[str, object]:
    return {
        "datasets": [
            {
                "path": ".",
                "ds_type": "parquet",
                "data_files": job.out.names(".parquet"),
                "split": "train",
                "type": "chat_template",
                "chat_template": "tokenizer_default",
                "field_messages": "messages",
                "message_property_mappings": {"role": "role", "content": "content"},
                "roles_to_train": [],
                "train_on_eos": "turn",
                "message_field_training": "training",
                "message_field_training_detail": "training_detail",
            }
        ],
        "train_on_inputs": False,
    }


def _batches(job: Job, file: ShardFile, trims: tuple[bool, bool]) -> Iterator[pa.RecordBatch]:
    rows: list[dict[str, Any]] = []
    for sample in job.shards.conversations(file):
        row = _row(job, sample, trims)
        rows += [row] if row is not None else []
        if len(rows) == _BATCH:
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def _row(job: Job, sample: Conversation, trims: tuple[bool, bool]) -> dict[str, Any] | None:
    """The sample as axolotl reads it; None where a content holds a control string."""
    counts, domain = job.out.counts, sample.domain
    if any(job.tokenizing.control_strings(message.content) for message in sample.messages):
        job.leave_out(domain, "control_strings")
        return None
    messages = []
    for message in sample.messages:
        shown = trimmed(message, trims)
        told, lost = details(job.tokenizing, shown)
        counts[f"trimmed_characters.{domain}"] += len(message.content) - len(shown.content)
        counts[f"lost_tokens.{domain}"] += lost
        counts[f"unmeant_ends.{domain}"] += bool(told) and not bears_to_the_end(shown.content, shown.spans)
        messages.append({"role": message.role, "content": shown.content, "training": None, "training_detail": told})
    counts[f"samples.{domain}"] += 1
    return {"id": sample.id, "domain": domain, "trajectory_id": sample.trajectory_id, "messages": messages}


def trimmed_sides(tokenizing: Tokenizing) -> tuple[bool, bool]:
    """Whether the chat template takes whitespace off (the beginning, the end) of an answer."""
    before, after, middle = "\n \n", "\n \n", "@@trajmill@@"
    asked, answered = {"role": "user", "content": "?"}, {"role": "assistant", "content": before + middle + after}
    head, _, tail = tokenizing.shown([asked, answered, asked]).partition(middle)
    bare, _, rest = tokenizing.shown([asked, {**answered, "content": middle}, asked]).partition(middle)
    return head != bare + before, tail != after + rest


def trimmed(message: Message, sides: tuple[bool, bool]) -> Message:
    """The message with its content trimmed on those sides, and its spans in what is left."""
    text = message.content
    begin = len(text) - len(text.lstrip()) if sides[0] else 0
    end = len(text.rstrip()) if sides[1] else len(text)
    end = max(begin, end)
    spans = [Span(max(one.begin, begin) - begin, min(one.end, end) - begin, one.label) for one in message.spans]
    return Message(message.role, text[begin:end], tuple(one for one in spans if one.end > one.begin))


def details(tokenizing: Tokenizing, message: Message) -> tuple[list[dict[str, Any]], int]:
    """(details that train exactly the tokens inside the spans, how many of those cannot be told apart from others)."""
    inside, _ = tokenizing.plain(message.content).inside(message.spans)
    starts = tokenizing.starts(message.content)
    if len(starts) != len(inside) or not inside.any():
        return [], int(inside.sum())
    told, lost = [], 0
    edges = np.flatnonzero(np.diff(np.concatenate([[0], inside.astype(np.int8), [0]])))
    for first, behind in edges.reshape(-1, 2).tolist():
        last = _told_apart(starts, first, behind - 1)
        lost += behind - 1 - last
        if last >= first:
            end = starts[last + 1] - 1 if last + 1 < len(starts) else len(message.content) - 1
            told.append({"begin_offset": starts[first], "end_offset": end, "train": True})
    return told, lost


def _told_apart(starts: Sequence[int], first: int, last: int) -> int:
    """The last token that a detail can end with and train no more.

    Of a character of several tokens all but the last have no width for axolotl, and belong to the character before.
    """
    while last >= first and last + 2 < len(starts) and starts[last + 1] == starts[last + 2]:
        last -= 1
    return last
