"""Samples of passages: rows of the parts as what CPT and SFT are trained on, in the columns of other samples.

Nothing is rendered: what a passage says is what a sample shows. A pure function of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

from trajmill.pipelines.mix.sample_columns import SAMPLE_SCHEMAS
from trajmill.pipelines.render.fixed_texts import BETWEEN


def samples_of_passages(
    part: pa.Table | pa.RecordBatch, component: str, pool: Literal["cpt", "sft"]
) -> Iterator[dict[str, Any]]:
    """A sample of each row, in order, with `_id`, by which samples are sorted and spread.

    In CPT a conversation is what its speakers said, one after the other, as a trajectory is. In SFT a text is a single
    message of the assistant, as pre-training data is written for chat trainers.

    Args:
        part: rows of `PASSAGE_SCHEMAS`.
        component: its name, which is the samples' domain.
        pool: what they are for.
    """
    for row in part.to_pylist():
        said = row.get("messages") or [{"role": "assistant", "content": row["text"], "loss": True}]
        common = {
            "id": row["id"],
            "domain": component,
            "source": row["source"],
            "trajectory_id": row["id"],
            "task_hash": None,
            "instance_hash": None,
            "group": row["group"],
            "num_turns": sum(one["role"] == "assistant" for one in said),
            "num_tokens": row["tokens"],
            "num_loss_tokens": row["loss_tokens"],
            "template": "",
            "_id": row["id"],
        }
        if pool == "cpt":
            yield {**common, "text": _document(row, said), "spans": _document_spans(said)}
        else:
            tools = {"tools": row.get("tools")} if "tools" in SAMPLE_SCHEMAS["sft"].names else {}
            yield {**common, "messages": said, "spans": _message_spans(said), **tools}


def _document(row: Mapping[str, Any], said: Sequence[Mapping[str, Any]]) -> str:
    text: str | None = row.get("text")
    return text if text is not None else BETWEEN.join(one["content"] for one in said) + "\n"


def _learnt(one: Mapping[str, Any]) -> bool:
    return bool(one["loss"] and one["content"])


def _document_spans(said: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    place = 0
    for one in said:
        end = place + len(one["content"])
        found += [{"begin": place, "end": end, "label": None}] if _learnt(one) else []
        place = end + len(BETWEEN)
    return found


def _message_spans(said: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"message": number, "begin": 0, "end": len(one["content"]), "label": None}
        for number, one in enumerate(said)
        if _learnt(one)
    ]
