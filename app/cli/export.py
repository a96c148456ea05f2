"""Export of transitions in the form of another tool: one document or one row per trajectory."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby, islice
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from trajmill.pipelines.publish.forms import agent_ids
from trajmill.pipelines.publish.forms.tokenizing import Tokenizing
from trajmill.pipelines.render.agent_view import Conversation, Fidelity, Reasoning, Refused, agent_conversations
from trajmill.pipelines.render.atif_documents import atif_document
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_transitions, write_parquet
from trajmill.schemas import ConfigError
from trajmill.schemas.scan import transition_files
from trajmill.schemas.transition import OUTCOME

AGENT_SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("domain", pa.string()),
        ("trajectory_id", pa.string()),
        ("parent_trajectory_id", pa.string()),
        ("relation", pa.string()),
        ("group", pa.string()),
        ("outcome", OUTCOME),
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
        (
            "turns",
            pa.list_(
                pa.struct(
                    [
                        ("message", pa.int32()),
                        ("ids", pa.string()),
                        ("token_ids", pa.list_(pa.int32())),
                        ("logprobs", pa.list_(pa.float32())),
                    ]
                )
            ),
        ),
        ("fidelity", pa.struct([(name, pa.string()) for name in Fidelity._fields])),
    ]
)
"""Columns of a row. `tools`, and `tool_calls` of a message, are JSON text, since structs of Parquet add nulls for
absent fields.
"""

FILE: Final = "train.parquet"
REFUSED: Final = "refused.jsonl"
_BATCH: Final = 200
_NOT_KEPT: Final = Refused("not_kept", "the recipe drops it")

Row = Mapping[str, Any]


def write_agent_rows(
    trajectories: Iterable[Sequence[Row]],
    folder: Folder,
    reasoning: Reasoning = "keep",
    tokenizing: Tokenizing | None = None,
) -> Counter[str]:
    """Write the conversations, as token ids where there is a tokenizer, and what is refused beside them.

    Of each that is refused a line has `id`, `reason` and `detail`. An id is that of rows, without the step:
    trajectories that did the same share theirs, whatever they were asked. What goes on after a compaction, or
    under another system prompt, has its number behind it (`#1`). Of conversations that are the same letter by letter
    one is written.

    Args:
        trajectories: rows of each, with `kept` and `group` where they are judged.

    Returns:
        The number of trajectories, and of turns by the source of their ids.
    """
    refused: list[bytes] = []
    counts: Counter[str] = Counter()
    rows = _rows(trajectories, refused, reasoning, tokenizing)
    schema = AGENT_SCHEMA if tokenizing is None else agent_ids.SCHEMA

    def batches() -> Iterator[pa.RecordBatch]:
        while batch := list(islice(rows, _BATCH)):
            counts["trajectories"] += len(batch)
            counts.update(turn["ids"] for row in batch for turn in row["turns"])
            yield pa.RecordBatch.from_pylist(batch, schema)

    write_parquet(folder, FILE, schema, batches(), shard=True)
    folder.write(REFUSED, b"".join(refused))
    return counts


def _rows(
    trajectories: Iterable[Sequence[Row]], refused: list[bytes], reasoning: Reasoning, tokenizing: Tokenizing | None
) -> Iterator[dict[str, Any]]:
    seen: set[bytes] = set()
    for rows in trajectories:
        first = rows[0]
        key, _, _ = first["row_id"].rpartition("-")
        is_kept = all(row.get("kept", True) for row in rows)
        for number, conversation in enumerate(agent_conversations(rows, reasoning) if is_kept else [_NOT_KEPT]):
            part = f"{key}#{number}" if number else key
            if isinstance(conversation, Conversation):
                same = hashlib.sha256(orjson.dumps([conversation.messages, conversation.tools])).digest()
                if same in seen:
                    continue
                seen.add(same)
            content = _content(conversation, tokenizing)
            if isinstance(content, Refused):
                refused.append(orjson.dumps({"id": part, **content._asdict()}) + b"\n")
                continue
            yield {
                "id": part,
                "domain": first["domain"],
                "trajectory_id": first["trajectory_id"],
                "parent_trajectory_id": first["parent_trajectory_id"],
                "relation": first["relation"],
                "group": first.get("group"),
                "outcome": first["outcome"],
                **content,
            }


def _content(conversation: Conversation | Refused, tokenizing: Tokenizing | None) -> dict[str, Any] | Refused:
    if isinstance(conversation, Refused):
        return conversation
    if tokenizing is not None:
        return agent_ids.encode(conversation, tokenizing)
    return {
        "messages": conversation.messages,
        "tools": conversation.tools,
        "turns": [turn._asdict() for turn in conversation.turns],
        "fidelity": conversation.fidelity._asdict(),
    }


FORMATS: Final = ("atif", "agent_sft", "agent_ids")
_VERDICT: Final = ("kept", "group")


def read_trajectories(path: str, judged: bool = False) -> Iterator[list[Row]]:
    """Read the rows of each trajectory stored at a path, as Python values, in the order of the files.

    Args:
        path: A run's folder, its `transitions` folder, or one file of it.
        judged: True to add `kept` and `group` to the rows, if the path is the folder of a judged run.

    Raises:
        ConfigError: There are no transitions there.
    """
    for file in transition_files(path):
        folder = Folder(str(Path(file).parent))
        verdicts = _verdicts(path, file) if judged else {}
        rows = (
            {**row, **verdicts.get(row["row_id"], {})}
            for batch in read_transitions(folder, Path(file).name)
            for row in batch.to_pylist()
        )
        first: tuple[int, Row] = (0, {})
        for number, numbered in groupby(accumulate(rows, _number_row, initial=first), key=lambda pair: pair[0]):
            if number:
                yield [row for _, row in numbered]


def _verdicts(path: str, file: Path) -> dict[str, dict[str, Any]]:
    """Return the verdict of each row of a transitions file; empty if the run's folder has none."""
    transitions = Path(path) / "transitions"
    if not file.is_relative_to(transitions):
        return {}
    path_beside = Path(path) / "verdicts" / file.relative_to(transitions)
    if not path_beside.is_file():
        return {}
    rows = pq.read_table(path_beside, columns=["row_id", *_VERDICT]).to_pylist()
    return {row["row_id"]: {name: row[name] for name in _VERDICT} for row in rows}


def _number_row(before: tuple[int, Row], row: Row) -> tuple[int, Row]:
    """Pair the row with the number of its trajectory in the file; a trajectory may continue in the next row group."""
    return before[0] + (row["step"] == 0), row


def export(
    path: str,
    form: str,
    out: str,
    also: Sequence[str] = (),
    reasoning: Reasoning = "keep",
    tokenizing: Tokenizing | None = None,
) -> Counter[str]:
    """Write every trajectory stored at a path below `out`; return how many, and turns by the source of their ids.

    `atif` is written as `<trajectory id>/trajectory.json`, `agent_sft` and `agent_ids` as one table with what they
    refuse beside it. A trajectory that stands twice is written once. `also` are names of forms that are written
    elsewhere, to be told of; `reasoning` is that of agents that the tables keep; `tokenizing` is for `agent_ids`.

    Raises:
        ConfigError: the format is not known, there are no transitions, or the folder holds files.
    """
    if form not in FORMATS:
        raise ConfigError(f"There is no export format '{form}'; there are: {', '.join([*FORMATS, *also])}.")
    folder, done = Folder(out), set[str]()
    if folder.names():
        raise ConfigError(f"{out} holds files, which are not replaced. Choose another --out, or empty it.")
    if form != "atif":
        return write_agent_rows(read_trajectories(path, judged=True), folder, reasoning, tokenizing)
    for rows in read_trajectories(path):
        key = rows[0]["trajectory_id"]
        if key not in done:
            done.add(key)
            document = orjson.dumps(atif_document(rows), option=orjson.OPT_INDENT_2)
            folder.write(f"{key}/trajectory.json", document + b"\n")
    return Counter(trajectories=len(done))
