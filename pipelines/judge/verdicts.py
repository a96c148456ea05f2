"""The verdicts of a unit: what becomes of each row, by which reason, and the rejects that say so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.engine.parquet import read_batches, write_parquet
from pipelines.engine.units import finish_unit
from pipelines.judge.caps import Limits, over_cap, target_counts
from pipelines.judge.evaluation_index import read_index
from pipelines.judge.groups import group_names
from pipelines.judge.judging import Judging, Unit
from pipelines.judge.measures import Measures, read_measures
from pipelines.judge.packed_rows import losers_of
from pipelines.judge.reasons import (
    CONTAMINATED,
    LOST,
    LOST_ROWS,
    NEAR_DUPLICATE,
    NO_TARGET,
    NO_TEXT,
    OF_ROWS,
    OF_WHOLES,
    REASONS,
    REPLICATE,
)
from pipelines.judge.shares import bearing
from pipelines.judge.spans import write_spans
from schemas import REJECT_SCHEMA, SCHEMA_VERSION, verdict_schema
from schemas.manifest import Manifest
from schemas.verdict import KEY_FIELDS, REASON_PREFIX

STAGE: Final = "judge"


def write_verdict(
    unit: Unit,
    judging: Judging,
    lost_trajectories: Mapping[str, Iterable[bytes]],
    lost_rows: Mapping[str, Iterable[bytes]],
    groups: bytes,
    found: Limits,
    volatile: Iterable[bytes] = (),
) -> Manifest:
    """Writes a unit's verdicts and its rejects, and spans if they are wanted; returns the manifest of the verdicts.

    Args:
        unit: the unit.
        judging: the rest.
        lost_trajectories: reason → packed trajectories that go by it.
        lost_rows: reason → packed rows that stay as context by it.
        groups: of all nodes, packed.
        found: limits of the recipe's caps, by domain.
        volatile: packed words on which replicates do not agree.
    """
    measures = read_measures(unit, judging)
    names = (*measures.decision.names, *REASONS)
    over = over_cap(unit, measures, found)
    lost = {name: losers_of(packed) for name, packed in lost_trajectories.items()}
    reason, kept, kept_by = _reasons(measures, lost, {name: losers_of(some) for name, some in lost_rows.items()}, over)
    uses = np.array(
        [
            *(r.use for r in judging.recipe.judge.ordered_rules()),
            *["omit"] * len(lost),
            *["context"] * len(lost_rows),
            "omit",
            "omit",
            "target",
        ]
    )
    use = np.where(kept, uses[reason], "omit")
    reasons = np.array([*names, None], object)[reason]
    decision = [pa.array(kept), pa.array(use), pa.array(reasons, pa.string()), group_names(measures, groups)]
    columns, keys = measures.table.columns, len(KEY_FIELDS)
    schema = verdict_schema(judging.signals, judging.telling)
    table = pa.Table.from_arrays([*columns[:keys], *decision, *columns[keys:]], schema=schema).combine_chunks()
    entry = write_parquet(judging.verdicts, unit.name, schema, table.to_batches())
    rejects = _rejects(unit, judging, kept, use, reasons, kept_by, _words(measures, judging, reasons))
    reject_entry = write_parquet(judging.rejects, f"{unit.label}.parquet", REJECT_SCHEMA, rejects.to_batches())
    finish_unit(judging.rejects, Manifest(STAGE, unit.label, judging.digest, SCHEMA_VERSION, (reject_entry,)))
    if judging.recipe.judge.spans:
        write_spans(unit, judging, volatile)
    counts = _counts(measures, kept, use, reasons)
    manifest = Manifest(STAGE, unit.label, judging.digest, SCHEMA_VERSION, (entry,), counts)
    return finish_unit(judging.verdicts, manifest)


def uncapped_targets(unit: Unit, judging: Judging, joined: Mapping[str, Iterable[bytes]]) -> tuple[str, bytes]:
    """The unit's domain and its targets before any cap, counted by the capped rule that they break."""
    measures = read_measures(unit, judging)
    lost, rows = ({name: losers_of(joined.get(name, ())) for name in names} for names in (LOST, LOST_ROWS))
    none = np.full(measures.table.num_rows, -1, np.int16)
    reason, _, _ = _reasons(measures, lost, rows, none)
    return target_counts(unit, measures, reason < 0)


def bearing_rows(
    unit: Unit, judging: Judging, joined: Mapping[str, Iterable[bytes]], found: Limits
) -> Iterator[tuple[str, bytes]]:
    """The unit's domain and the records of the rows that bear the loss if no share is bounded, packed."""
    measures = read_measures(unit, judging)
    lost, rows = ({name: losers_of(joined.get(name, ())) for name in names} for names in (LOST, LOST_ROWS))
    reason, _, _ = _reasons(measures, lost, rows, over_cap(unit, measures, found))
    yield from bearing(unit, judging, measures, reason < 0)


def _reasons(
    measures: Measures,
    lost: Mapping[str, npt.NDArray[np.void]],
    lost_rows: Mapping[str, npt.NDArray[np.void]],
    over: npt.NDArray[np.int16],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.uint64]]:
    """For each row: the number of its reason (-1: target), whether its trajectory is kept, the survivor's id.

    `over` is the number of the capped rule that the row breaks beyond its cap, or -1.
    """
    position = {name: len(measures.decision.names) + number for number, name in enumerate(REASONS)}
    rows = measures.table.num_rows
    survivor = np.zeros(rows, np.uint64)
    row_reason = measures.decision.transition.astype(np.int64)
    row_reason[(row_reason < 0) & ~measures.column("has_text")] = position[NO_TEXT]
    for name, some in lost_rows.items():
        row_reason[some["row"]] = position[name]
        survivor[some["row"]] = some["kept"]
    row_reason = np.where(row_reason < 0, over, row_reason)
    first = measures.decision.trajectory[measures.starts].astype(np.int64)
    for name, some in lost.items():
        first[np.isin(measures.starts, some["row"])] = position[name]
        survivor[some["row"]] = some["kept"]
    targets = np.add.reduceat((row_reason < 0).astype(np.int64), measures.starts) if rows else first
    first[(first < 0) & (targets == 0)] = position[NO_TARGET]
    whole = np.repeat(first, measures.lengths)
    return np.where(whole >= 0, whole, row_reason), whole < 0, survivor


def _counts(
    measures: Measures, kept: npt.NDArray[np.bool_], use: npt.NDArray[np.str_], reasons: npt.NDArray[Any]
) -> dict[str, int]:
    """What went in and what became of it, for trajectories and transitions."""
    counts: Counter[str] = Counter()
    counts["trajectories"] = len(measures.starts)
    counts["transitions"] = len(kept)
    counts["trajectories.kept"] = int(kept[measures.starts].sum())
    for name, number in Counter(reasons[measures.starts][~kept[measures.starts]]).items():
        counts[f"trajectories.dropped.{name}"] = number
    counts["transitions.target"] = int((use == "target").sum())
    rows = pa.table({"kept": kept, "use": pa.array(use), "reason": pa.array(reasons, pa.string())})
    for row in rows.group_by(["kept", "use", "reason"]).aggregate([([], "count_all")]).to_pylist():
        if row["use"] != "target":
            what = row["use"] if row["kept"] else "dropped"
            counts[f"transitions.{what}.{row['reason']}"] += row["count_all"]
    counts["tokens"] = int(measures.column("tokens").sum())
    counts["tokens.target"] = int(measures.column("tokens")[use == "target"].sum())
    return dict(sorted(counts.items()))


def _rejects(
    unit: Unit,
    judging: Judging,
    kept: npt.NDArray[np.bool_],
    use: npt.NDArray[np.str_],
    reasons: npt.NDArray[Any],
    survivor: npt.NDArray[np.uint64],
    words: npt.NDArray[np.object_],
) -> pa.Table:
    """One row for each trajectory dropped, and one for each transition of a kept one that is no target."""
    columns = ["trajectory_id", "step", "num_steps", "provenance"]
    rows = pa.Table.from_batches(read_batches(judging.transitions, unit.name, columns)).combine_chunks()
    step = rows["step"].combine_chunks().to_numpy(zero_copy_only=False)
    chosen = np.flatnonzero(np.where(kept, use != "target", step == 0))
    taken = rows.take(pa.array(chosen)).combine_chunks()
    whole = ~kept[chosen]
    provenance = taken["provenance"].combine_chunks()
    told = zip(reasons[chosen], survivor[chosen].tolist(), words[chosen], strict=True)
    detail = [_detail(*of, judging) for of in told]
    values = [
        np.where(whole, "trajectory", "transition"),
        reasons[chosen],
        detail,
        *(pc.struct_field(provenance, name) for name in ("uri", "member", "offset", "connector")),
        taken["trajectory_id"].combine_chunks(),
        np.where(whole, -1, step[chosen]).astype(np.int32),
        np.where(whole, taken["num_steps"].combine_chunks().to_numpy(zero_copy_only=False), 1).astype(np.int64),
        [""] * len(chosen),
    ]
    arrays = [pa.array(value, field.type) for value, field in zip(values, REJECT_SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=REJECT_SCHEMA)


def _words(measures: Measures, judging: Judging, reasons: npt.NDArray[Any]) -> npt.NDArray[np.object_]:
    """What the signal of the rule that each row broke says of its number, or None."""
    found = np.full(len(reasons), None, object)
    for rule in judging.recipe.judge.ordered_rules():
        if rule.signal in judging.telling:
            broken = reasons == rule.name
            found[broken] = np.array(measures.table[REASON_PREFIX + rule.signal].to_pylist(), object)[broken]
    return found


def _detail(reason: str, survivor: int, word: str | None, judging: Judging) -> str:
    """Why one was not carried on, for a person."""
    if word is not None:
        return f"{word}, by the recipe's rule"
    if reason in (NO_TARGET, NO_TEXT):
        return "no transition is left to learn from"
    if reason == CONTAMINATED:
        return read_index(judging.measures, judging.benchmarks).items[survivor]
    if reason == REPLICATE:
        return "as many rows of the same environment, history and action bear the loss as the recipe allows"
    if reason in (*OF_WHOLES, *OF_ROWS):
        what = reason.removeprefix("max_share_").replace("_", " ")
        return f"as much of its {what} is kept as the recipe's share allows"
    equal = f"equal to one of trajectory {survivor:016x}…" if survivor else "by the recipe's rule"
    return f"nearly {equal}" if reason == NEAR_DUPLICATE else equal
