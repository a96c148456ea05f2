"""Samples: what a judged trajectory becomes in each pool, with columns that trainers read as they are.

A pure function of the rows of a trajectory and the recipe's section `mix`; which pool it is for, and where a sample
then lies, is the matter of `mix`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import xxhash

from pipelines.engine.parquet import read_transitions
from pipelines.engine.storage import Folder
from pipelines.mix.rendering import Rendered, document, ground_truth, messages, render, targets
from pipelines.mix.windows import Rows, windows
from pipelines.recipe.recipe import Mix
from quality.tokens import TokenCounter

_MESSAGE: Final = pa.struct([("role", pa.string()), ("content", pa.string())])
_MESSAGE_WITH_LOSS: Final = pa.struct([("role", pa.string()), ("content", pa.string()), ("loss", pa.bool_())])
_COMMON: Final = [
    ("id", pa.string()),
    ("domain", pa.string()),
    ("source", pa.string()),
    ("trajectory_id", pa.string()),
    ("group", pa.string()),
    ("num_turns", pa.int32()),
    ("num_tokens", pa.int64()),
]

SAMPLE_SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    "cpt": pa.schema([*_COMMON, ("text", pa.string())]),
    "sft": pa.schema([*_COMMON, ("messages", pa.list_(_MESSAGE_WITH_LOSS))]),
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
            ("group", pa.string()),
        ]
    ),
}
"""Columns of each pool's samples. `rl` is what verl and TRL read as it is; `eval` is AgentWorldBench's."""


def keyed_hash(key: str, seed: int) -> int:
    """64 bits that choices by hash are made from; stable over versions and machines."""
    return xxhash.xxh3_64_intdigest(key.encode(), seed)


def samples_of(pool: str, rows: Rows, mix: Mix, counter: TokenCounter) -> list[tuple[Rows, dict[str, Any] | None]]:
    """What a trajectory becomes in a pool: (rows, sample), with None where they hold nothing to learn there.

    In CPT and SFT each window is a sample. The first that holds something to learn has the id of the trajectory, others
    `<id>@<step>` of their first row. RL and eval take one turn, and what comes before it in its window.

    Args:
        pool: one of `POOLS`.
        rows: of a trajectory, or of one segment of it, in order, each with its verdict.
        mix: the recipe's section.
        counter: counts tokens under the recipe's tokenizer.
    """
    whole = render(rows, mix.harness, mix.edits)
    parts = windows(rows, whole, mix.window_tokens, counter)
    shown = [(part, whole if len(parts) == 1 else render(part, mix.harness, mix.edits)) for part in parts]
    taught = [(part, rendered) for part, rendered in shown if targets(rendered)]
    if not taught:
        return [(rows, None)]
    first = rows[0]
    key = first["trajectory_id"] + (f"-{first['segment']}" if first["num_segments"] > 1 else "")
    if pool in ("rl", "eval"):
        turns = [(rendered, position) for _, rendered in taught for position in targets(rendered)]
        return [(rows, _turn_sample(pool, key, first, *turns[keyed_hash(f"turn:{key}", mix.seed) % len(turns)], mix))]
    found: list[tuple[Rows, dict[str, Any] | None]] = []
    for part, rendered in shown:
        own = key if part is taught[0][0] else f"{key}@{part[0]['step']}"
        found.append((part, _whole_sample(pool, own, part, rendered) if targets(rendered) else None))
    return found


def _whole_sample(pool: str, key: str, rows: Rows, rendered: Rendered) -> dict[str, Any]:
    """The sample of CPT or SFT that rows become."""
    first = rows[0]
    common = {
        "id": key,
        "domain": first["domain"],
        "source": first["source"],
        "trajectory_id": first["trajectory_id"],
        "group": first["group"],
        "num_turns": len(rendered.turns),
        "num_tokens": sum(row["tokens"] for row in rows if row["use"] != "omit"),
    }
    shown = {"text": document(rendered)} if pool == "cpt" else {"messages": messages(rendered)}
    return {**common, **shown, "_id": key}


def _turn_sample(
    pool: str, key: str, first: Mapping[str, Any], rendered: Rendered, position: int, mix: Mix
) -> dict[str, Any]:
    """The sample of RL or eval that asks for one turn, given those before it."""
    turn, total = rendered.turns[position], len(rendered.turns)
    if pool == "eval":
        return {
            "task": first["domain"],
            "id": _number(key, mix.seed),
            "prompt": [one.user for one in rendered.turns[: position + 1]],
            "response": [one.assistant for one in rendered.turns[: position + 1]],
            "current_prompt": turn.user,
            "system_str": rendered.system,
            "turn_idx": position + 1,
            "total_turns": total,
            "sample_id": key,
            "group": first["group"],
            "_id": key,
        }
    return {
        "data_source": f"trajmill/{first['domain']}",
        "prompt": [{k: m[k] for k in ("role", "content")} for m in messages(rendered, position + 1)],
        "ability": "world_model",
        "reward_model": {"style": "rule", "ground_truth": ground_truth(first["domain"], turn)},
        "extra_info": {
            "split": "train",
            "index": _number(key, mix.seed),
            "id": f"{key}:{turn.step}",
            "domain": first["domain"],
            "turn_idx": position + 1,
            "total_turns": total,
            "trajectory_id": first["trajectory_id"],
            "group": first["group"],
        },
        "_id": key,
    }


def _number(key: str, seed: int) -> int:
    return keyed_hash(f"index:{key}", seed) >> 1


def with_own_ids(samples: pa.Table, keys: Sequence[str], pool: str, mix: Mix) -> pa.Table:
    """The samples of a pool, of which those that share an id have one of their own: the second `<id>.2`, and so on.

    Exact copies, where the recipe keeps them, share the id of their trajectory. They all go to one shard, so that it
    can tell them apart.

    Args:
        samples: in the order in which they stand in the shard.
        keys: the id that each was made with.
        pool: of the samples.
        mix: the recipe's section.
    """
    seen: Counter[str] = Counter()
    own: dict[int, str] = {}
    for row, key in enumerate(keys):
        seen[key] += 1
        if seen[key] > 1:
            own[row] = f"{key}.{seen[key]}"
    if not own:
        return samples
    numbers = {row: _number(key, mix.seed) for row, key in own.items()}
    if pool == "eval":
        return _replaced(_replaced(samples, "id", numbers), "sample_id", own)
    if pool != "rl":
        return _replaced(samples, "id", own)
    told = samples["extra_info"].to_pylist()
    turns = {row: told[row]["id"].rpartition(":")[2] for row in own}
    infos = {row: {**told[row], "id": f"{key}:{turns[row]}", "index": numbers[row]} for row, key in own.items()}
    return _replaced(samples, "extra_info", infos)


def _replaced(table: pa.Table, name: str, values: Mapping[int, Any]) -> pa.Table:
    """The table with other values in some rows of a column."""
    held = [values.get(row, value) for row, value in enumerate(table[name].to_pylist())]
    position = table.schema.get_field_index(name)
    return table.set_column(position, table.schema.field(name), pa.array(held, table.schema.field(name).type))


_COLUMNS: Final = (
    "row_id",
    "trajectory_id",
    "step",
    "turn",
    "segment",
    "num_segments",
    "domain",
    "source",
    "interleaved",
)
_ENDINGS: Final = ("exit_code", "time_limit_s", "timed_out")
_STRUCTS: Final[Mapping[str, tuple[str, ...]]] = {
    "context": ("action_space", "initial_state", "demonstrations", "simulation_instruction"),
    "observation": ("content",),
    "action": ("text",),
    "next_observation": ("content", "origin"),
}


def _python_rows(batch: pa.RecordBatch, verdict: pa.Table, begun: int) -> list[dict[str, Any]]:
    """The rows as Python values, with only what rendering needs; a text that rows share is one object.

    `ordinal` numbers the file's kept trajectories, of which `begun` began before this batch.
    """
    columns: dict[str, list[Any]] = {name: batch[name].to_pylist() for name in (*_COLUMNS, *_ENDINGS, "scrubbed")}
    for struct, names in _STRUCTS.items():
        fields = {name: _shared_pylist(pa.compute.struct_field(batch[struct], name)) for name in names}
        present = batch[struct].is_valid().to_pylist()
        values = zip(*fields.values(), strict=True)
        columns[struct] = [
            dict(zip(names, row, strict=True)) if there else None for row, there in zip(values, present, strict=True)
        ]
    columns["ordinal"] = (begun + np.cumsum(batch["step"].to_numpy() == 0)).tolist()
    for name in ("use", "group", "kept", "tokens"):
        columns[name] = verdict[name].to_pylist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _shared_pylist(column: pa.Array) -> list[Any]:
    if not pa.types.is_dictionary(column.type):
        return column.to_pylist()
    texts = [*column.dictionary.to_pylist(), None]
    return [texts[i] for i in pa.compute.fill_null(column.indices, len(texts) - 1).to_numpy(zero_copy_only=False)]


def kept_rows(transitions: Folder, name: str, verdicts: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows of kept trajectories, in the order of their file, whose row groups may cut a long trajectory.

    Args:
        transitions: folder of the transitions.
        name: of the file in it.
        verdicts: `use`, `group`, `kept` and `tokens` of all its rows.
    """
    offset = begun = 0
    for batch in read_transitions(transitions, name):
        verdict = verdicts.slice(offset, batch.num_rows)
        offset += batch.num_rows
        kept = verdict["kept"].combine_chunks()
        rows = batch.filter(kept)
        yield from _python_rows(rows, verdict.filter(kept), begun)
        begun += int(np.count_nonzero(rows["step"].to_numpy() == 0))
