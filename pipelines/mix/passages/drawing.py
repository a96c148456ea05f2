"""Passages as candidates of a mixture, and the drawn ones as samples.

`mix.mixture` decides how much is drawn. Samples are rows of the parts in the columns of other samples, for CPT and SFT.
Nothing is rendered, since a passage is shown as it is. Samples depend only on the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.mix.candidates import NOTHING, Candidates, Identities, Wanted, narrow
from trajmill.pipelines.mix.coded_names import Coded, numbers_of
from trajmill.pipelines.mix.keyed import keyed_hash
from trajmill.pipelines.mix.passages.preparation import PassageUnit, Preparation
from trajmill.pipelines.mix.sample_columns import SAMPLE_SCHEMAS, unwritten_schema
from trajmill.pipelines.render.fixed_texts import BETWEEN
from trajmill.pipelines.storage.parquet import read_batches, read_table
from trajmill.pipelines.storage.units import check_unit


def samples_of_passages(
    part: pa.Table | pa.RecordBatch, component: str, pool: Literal["cpt", "sft"]
) -> Iterator[dict[str, Any]]:
    """Yield a sample of each row, in order, with `_id`, by which samples are sorted and spread.

    In CPT a conversation is the texts of its messages one after the other, like a trajectory. In SFT a text is a single
    message of the assistant, as chat trainers represent pre-training data.

    Args:
        part: rows of `PASSAGE_SCHEMAS`.
    """
    for row in part.to_pylist():
        messages = row.get("messages") or [{"role": "assistant", "content": row["text"], "loss": True}]
        common = {
            "id": row["id"],
            "domain": component,
            "source": row["source"],
            "trajectory_id": row["id"],
            "task_hash": None,
            "instance_hash": None,
            "group": row["group"],
            "num_turns": sum(message["role"] == "assistant" for message in messages),
            "num_tokens": row["tokens"],
            "num_loss_tokens": row["loss_tokens"],
            "template": "",
            "_id": row["id"],
        }
        if pool == "cpt":
            yield {**common, "text": _document(row, messages), "spans": _document_spans(messages)}
        else:
            tools = {"tools": row.get("tools")} if "tools" in SAMPLE_SCHEMAS["sft"].names else {}
            yield {**common, "messages": messages, "spans": _message_spans(messages), **tools, "_screenshots": []}


def _document(row: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str:
    text: str | None = row.get("text")
    return text if text is not None else BETWEEN.join(message["content"] for message in messages) + "\n"


def _learnt(message: Mapping[str, Any]) -> bool:
    return bool(message["loss"] and message["content"])


def _document_spans(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    spans: list[dict[str, Any]] = []
    begin = 0
    for message in messages:
        end = begin + len(message["content"])
        spans += [{"begin": begin, "end": end, "label": None}] if _learnt(message) else []
        begin = end + len(BETWEEN)
    return spans


def _message_spans(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"message": number, "begin": 0, "end": len(message["content"]), "label": None}
        for number, message in enumerate(messages)
        if _learnt(message)
    ]


_TOLD = ("source", "group", "text_bytes", "tokens", "loss_tokens")


def passage_candidates(unit: PassageUnit, preparing: Preparation, wanted: Wanted = NOTHING) -> Candidates:
    """Return the passages of a part, in order, as candidates. Values that only trajectories have are unknown.

    Their domain is the component's name.

    Args:
        preparing: settings by which it was made.
        wanted: values that are needed; signals of passages are NaN.
    """
    more = [*(["id"] if wanted.seed is not None else []), *(["world_model"] if preparing.simulated else [])]
    table = read_table(preparing.parts, unit.part, [*_TOLD, *more])
    rows = table.num_rows
    ids = _texts(table, "id") if wanted.seed is not None else pa.array([], pa.string())

    def sizes(name: str) -> Any:
        return narrow(np.array(table[name].to_pylist(), np.int64))

    return Candidates(
        unit=np.full(rows, unit.number, np.uint32),
        **wanted.keys(ids),
        group=numbers_of(_texts(table, "group")),
        domain=Coded.alike(preparing.components[unit.component].name, rows),
        source=Coded.of(_texts(table, "source")),
        kind=Coded.alike("", rows),
        world_model=_world_models(table, preparing),
        task=np.zeros(rows if wanted.tasks else 0, np.uint64),
        environment=np.zeros(rows, np.uint64),
        tokens=sizes("tokens"),
        loss_tokens=sizes("loss_tokens"),
        text_bytes=sizes("text_bytes"),
        attachments=np.zeros(rows if wanted.images else 0, np.uint32),
        signals={name: np.full(rows, np.nan) for name in wanted.signals},
    )


def _world_models(table: pa.Table, preparing: Preparation) -> Coded:
    if not preparing.simulated:
        return Coded.alike("", table.num_rows)
    return Coded.of(pc.fill_null(_texts(table, "world_model"), ""))


def passage_identities(unit: PassageUnit, preparing: Preparation) -> Identities:
    """Read the identities of the passages of a part, in its order."""
    ids = _texts(read_table(preparing.parts, unit.part, ["id"]), "id")
    return Identities(ids, *(np.zeros(len(ids), np.uint64) for _ in range(2)))


def _texts(table: pa.Table, name: str) -> pa.Array:
    """Return a text column in one chunk."""
    return table[name].combine_chunks().cast(pa.string())


def render_passages(
    unit: PassageUnit, preparing: Preparation, draws: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[str, str, pa.RecordBatch]]:
    """Yield (pool, component, samples of `unwritten_schema`) of the drawn passages of a part.

    Each sample is repeated as often as it is drawn.

    Args:
        preparing: settings by which it was made.
        draws: for each of its rows, in order: `pool`, `copies` and the `group` of the ledger.
    """
    check_unit(preparing.parts, unit.label)
    component, waiting = preparing.components[unit.component].name, iter(draws)
    for batch in read_batches(preparing.parts, unit.part):
        part_draws = [next(waiting) for _ in range(batch.num_rows)]
        for pool in ("cpt", "sft"):
            mine = [bool(passage_draw["copies"]) and passage_draw["pool"] == pool for passage_draw in part_draws]
            samples = samples_of_passages(batch.filter(pa.array(mine, pa.bool_())), component, pool)
            rows: list[dict[str, Any]] = []
            for passage_draw, sample in zip(
                (passage_draw for passage_draw, is_mine in zip(part_draws, mine, strict=True) if is_mine),
                samples,
                strict=True,
            ):
                sample["group"] = passage_draw["group"]
                sample["_hash"] = keyed_hash(f"order:{sample['_id']}", preparing.recipe.mix.seed)
                sample["_row"] = sample["_id"]
                rows += [sample] * passage_draw["copies"]
            if rows:
                yield pool, component, pa.RecordBatch.from_pylist(rows, schema=unwritten_schema(pool))
