"""Conversations of agents as rows for SFT: one a trajectory that can be restored, and why the others cannot."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson
import pyarrow as pa

from trajmill.pipelines.render.agent_view import Refused, agent_conversation
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import write_parquet

AGENT_SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("domain", pa.string()),
        ("trajectory_id", pa.string()),
        ("group", pa.string()),
        (
            "messages",
            pa.list_(
                pa.struct(
                    [
                        ("role", pa.string()),
                        ("content", pa.string()),
                        ("reasoning_content", pa.string()),
                        ("tool_calls", pa.string()),
                        ("tool_call_id", pa.string()),
                        ("name", pa.string()),
                        ("loss", pa.bool_()),
                    ]
                )
            ),
        ),
        ("tools", pa.string()),
    ]
)
"""Columns of a row. `tools`, and `tool_calls` of a message, are JSON text, since structs of Parquet fill in nulls."""

FILE: Final = "train.parquet"
REFUSED: Final = "refused.jsonl"
_BATCH: Final = 200

Row = Mapping[str, Any]


def write_agent_rows(trajectories: Iterable[Sequence[Row]], folder: Folder) -> int:
    """Writes the conversations, and beside them a line with `id`, `reason` and `detail` for each refused.

    An id is that of rows, without the step: trajectories that did the same share theirs, whatever they were asked.
    Of conversations that are the same letter by letter one is written.

    Args:
        trajectories: rows of each, with `kept` and `group` where they are judged.
        folder: where to.

    Returns:
        The number of conversations.
    """
    refused: list[bytes] = []
    entry = write_parquet(folder, FILE, AGENT_SCHEMA, _batches(_rows(trajectories, refused)), shard=True)
    folder.write(REFUSED, b"".join(refused))
    return entry.rows


def _rows(trajectories: Iterable[Sequence[Row]], refused: list[bytes]) -> Iterator[dict[str, Any]]:
    seen: set[bytes] = set()
    for rows in trajectories:
        first = rows[0]
        key, _, _ = first["row_id"].rpartition("-")
        found = (
            agent_conversation(rows)
            if all(row.get("kept", True) for row in rows)
            else Refused("not_kept", "the recipe drops it")
        )
        if isinstance(found, Refused):
            line = {"id": key, "reason": found.reason, "detail": found.detail}
            refused.append(orjson.dumps(line) + b"\n")
            continue
        same = hashlib.sha256(orjson.dumps([*found])).digest()
        if same in seen:
            continue
        seen.add(same)
        yield {
            "id": key,
            "domain": first["domain"],
            "trajectory_id": first["trajectory_id"],
            "group": first.get("group"),
            "messages": found.messages,
            "tools": found.tools,
        }


def _batches(rows: Iterable[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    held: list[dict[str, Any]] = []
    for row in rows:
        held.append(row)
        if len(held) == _BATCH:
            yield pa.RecordBatch.from_pylist(held, AGENT_SCHEMA)
            held = []
    if held:
        yield pa.RecordBatch.from_pylist(held, AGENT_SCHEMA)
