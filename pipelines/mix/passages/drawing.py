"""Passages as what a mixture is drawn from, and what was drawn of them as samples.

How much is drawn of what is not decided here; see `mix.mixture`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.engine.parquet import read_batches
from pipelines.engine.units import check_unit
from pipelines.mix.candidates import Candidates
from pipelines.mix.keyed import keyed_hash
from pipelines.mix.passages.preparation import PassageUnit, Preparation
from pipelines.mix.passages.samples import samples_of_passages

_TOLD = ("id", "source", "group", "text_bytes", "tokens", "loss_tokens")


def passage_candidates(unit: PassageUnit, preparing: Preparation, signals: Sequence[str] = ()) -> Candidates:
    """The passages of a part, in its order, as trajectories are told; what trajectories have besides is not known.

    Their domain is the component's name.

    Args:
        unit: whose part it is.
        preparing: by what it was made.
        signals: names of signals that candidates have; those of passages are not a number.
    """
    batches = [batch.select(_TOLD) for batch in read_batches(preparing.parts, unit.part, list(_TOLD))]
    rows = sum(batch.num_rows for batch in batches)

    def held(name: str, kind: Any) -> Any:
        return np.array([value for batch in batches for value in batch[name].to_pylist()], kind)

    return Candidates(
        unit=np.full(rows, unit.number, np.int64),
        trajectory_id=held("id", object),
        group=held("group", object),
        domain=np.full(rows, preparing.components[unit.component].name, object),
        source=held("source", object),
        kind=np.full(rows, "", object),
        task=np.zeros(rows, np.uint64),
        environment=np.zeros(rows, np.uint64),
        task_node=np.zeros(rows, np.uint64),
        instance_node=np.zeros(rows, np.uint64),
        tokens=held("tokens", np.int64),
        loss_tokens=held("loss_tokens", np.int64),
        text_bytes=held("text_bytes", np.int64),
        signals={name: np.full(rows, np.nan) for name in signals},
    )


def drawn_passages(
    unit: PassageUnit, preparing: Preparation, draws: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(pool, component, sample) of each passage of a part that is drawn, as often as it is.

    A sample has `_hash` and `_row` besides, by which shards are spread and sorted as those of trajectories are.

    Args:
        unit: whose part it is.
        preparing: by what it was made.
        draws: of each of its rows, in order: `pool`, `copies` and the `group` of the ledger.

    Raises:
        ShardError: the part is not what was written.
    """
    check_unit(preparing.parts, unit.label)
    component, waiting = preparing.components[unit.component].name, iter(draws)
    for batch in read_batches(preparing.parts, unit.part):
        told = [next(waiting) for _ in range(batch.num_rows)]
        for pool in ("cpt", "sft"):
            mine = [bool(one["copies"]) and one["pool"] == pool for one in told]
            samples = samples_of_passages(batch.filter(pa.array(mine, pa.bool_())), component, pool)
            for one, sample in zip((one for one, its in zip(told, mine, strict=True) if its), samples, strict=True):
                sample["group"] = one["group"]
                sample["_hash"] = keyed_hash(f"order:{sample['_id']}", preparing.recipe.mix.seed)
                sample["_row"] = sample["_id"]
                for _ in range(one["copies"]):
                    yield pool, component, sample
