"""Columns of samples: those that trainers read, by pool, and those that order samples in a shard."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

import pyarrow as pa

_MESSAGE: Final = pa.struct([("role", pa.string()), ("content", pa.string())])
_MESSAGE_WITH_LOSS: Final = pa.struct([("role", pa.string()), ("content", pa.string()), ("loss", pa.bool_())])
_SPAN: Final = pa.struct([("begin", pa.int32()), ("end", pa.int32()), ("label", pa.string())])
_MESSAGE_SPAN: Final = pa.struct([("message", pa.int32()), *_SPAN])
_COMMON: Final = [
    ("id", pa.string()),
    ("domain", pa.string()),
    ("source", pa.string()),
    ("trajectory_id", pa.string()),
    ("group", pa.string()),
    ("task_hash", pa.string()),
    ("instance_hash", pa.string()),
    ("num_turns", pa.int32()),
    ("num_tokens", pa.int64()),
    ("num_loss_tokens", pa.int64()),
    ("template", pa.string()),
]

SAMPLE_SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    "cpt": pa.schema([*_COMMON, ("text", pa.string()), ("spans", pa.list_(_SPAN))]),
    "sft": pa.schema([*_COMMON, ("messages", pa.list_(_MESSAGE_WITH_LOSS)), ("spans", pa.list_(_MESSAGE_SPAN))]),
    "rl": pa.schema(
        [
            ("data_source", pa.string()),
            ("prompt", pa.list_(_MESSAGE)),
            ("ability", pa.string()),
            ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
            (
                "extra_info",
                pa.struct(
                    [
                        ("split", pa.string()),
                        ("index", pa.int64()),
                        ("id", pa.string()),
                        ("domain", pa.string()),
                        ("turn_idx", pa.int32()),
                        ("total_turns", pa.int32()),
                        ("trajectory_id", pa.string()),
                        ("group", pa.string()),
                        ("task_hash", pa.string()),
                        ("instance_hash", pa.string()),
                        ("num_tokens", pa.int64()),
                        ("max_response_tokens", pa.int32()),
                        ("template", pa.string()),
                        ("reward_quality", pa.float64()),
                    ]
                ),
            ),
        ]
    ),
    "eval": pa.schema(
        [
            ("task", pa.string()),
            ("id", pa.int64()),
            ("prompt", pa.list_(pa.string())),
            ("response", pa.list_(pa.string())),
            ("current_prompt", pa.string()),
            ("system_str", pa.string()),
            ("turn_idx", pa.int32()),
            ("total_turns", pa.int32()),
            ("sample_id", pa.string()),
            ("trajectory_id", pa.string()),
            ("group", pa.string()),
            ("task_hash", pa.string()),
            ("instance_hash", pa.string()),
            ("environment", pa.string()),
            ("started_at", pa.string()),
            ("time", pa.string()),
        ]
    ),
}
"""Columns of each pool's samples.

`spans` are code points that bear the loss (see `render.loss_spans`). `rl` can be read by verl and TRL directly, with
`reward_quality` (see `mix.adversaries`). `eval` has the columns of AgentWorldBench, followed by ours: whether training
shows the `environment` (`seen`, `unseen`, `unknown`), when the turn began (`started_at`, ISO 8601, empty if unknown),
and whether that is `before` or `after` the recipe's date (`unknown` without one). None of the columns of `eval` is
null, since a JSON column that mixes text and null does not load.
"""

IMAGE: Final = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
"""A picture as the feature `Image` of `datasets` holds it."""

_FEATURES: Final = '{"info": {"features": {"images": {"_type": "List", "feature": {"_type": "Image"}}}}}'
"""Metadata by which `datasets` decodes pictures in a file that it reads without the card."""

SHOWING: Final = ("sft", "rl")
"""Pools whose samples have `images`, if the recipe asks for them."""


def sample_schema(pool: str, *, images: bool) -> pa.Schema:
    """Return the columns of a pool's samples, optionally with the pictures of their user messages."""
    if not images or pool not in SHOWING:
        return SAMPLE_SCHEMAS[pool]
    return SAMPLE_SCHEMAS[pool].append(pa.field("images", pa.list_(IMAGE))).with_metadata({"huggingface": _FEATURES})


def images_in(counts: Mapping[str, int]) -> int:
    """Count the pictures that samples show, from the counts of a manifest."""
    return sum(count for key, count in counts.items() if key.startswith("images."))


ORDER: Final = [("_hash", pa.uint64()), ("_id", pa.string()), ("_row", pa.string())]
"""Columns that order samples in a shard: the hash of the id, the id, and the id of the first row.

Copies share an id.
"""

_HELD: Final = [("_control_turns", pa.int32()), ("_control", pa.bool_())]
"""Counts of the samples of a shard: turns that show control strings, and a flag for samples that show any."""


_SCREENSHOTS: Final = ("_screenshots", pa.list_(pa.struct([("message", pa.int32()), ("sha256", pa.string())])))
"""Attachments that a sample shows, with the position of the message that shows each."""


@cache
def unwritten_schema(pool: str) -> pa.Schema:
    """Return the columns of a pool's samples until they are written, with those that no trainer reads."""
    more = [*ORDER, *_HELD, *([_SCREENSHOTS] if pool in SHOWING else [])]
    return pa.schema([*SAMPLE_SCHEMAS[pool], *(pa.field(*field) for field in more)])
