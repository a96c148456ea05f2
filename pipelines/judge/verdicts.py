"""Verdicts of a unit: the use and the reason of each row, and the rejects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.judge.corpus_rule import Decision
from trajmill.pipelines.judge.groups import groups_of
from trajmill.pipelines.judge.judging import Judging, Measures, Unit
from trajmill.pipelines.judge.near_duplicates import write_likeness
from trajmill.pipelines.judge.part_state import Standing
from trajmill.pipelines.judge.reasons import (
    BRIDGES_POOLS,
    EXCLUDED,
    LOST,
    LOST_ROWS,
    NO_TARGET,
    NO_TEXT,
    REASONS,
    SIMULATED,
)
from trajmill.pipelines.judge.spans import RANDOM, VOLATILE, write_spans
from trajmill.pipelines.judge.world_models import why_refused
from trajmill.pipelines.storage.parquet import read_table, write_parquet
from trajmill.pipelines.storage.units import finish_unit
from trajmill.quality.rule import Rule
from trajmill.schemas import REJECT_SCHEMA, SCHEMA_VERSION, verdict_schema
from trajmill.schemas.manifest import Manifest
from trajmill.schemas.verdict import KEY_FIELDS, REASON_PREFIX, SIGNAL_PREFIX

STAGE: Final = "judge"


def write_verdict(standing: Standing, decisions: Sequence[Decision]) -> Manifest:
    """Write a unit's verdicts and rejects, and its spans if wanted; return the manifest of the verdicts.

    Args:
        standing: the unit after all decisions.
    """
    unit, judging, measures = standing.unit, standing.judging, standing.measures
    reason, kept_rows, kept_by = verdict_reasons(standing)
    table = [*((rule.name, rule.use) for rule in judging.recipe.judge.ordered_rules())]
    table += [(entry_reason.name, entry_reason.use) for entry_reason in REASONS]
    names, uses = zip(*table, (None, "target"), strict=True)
    use = np.where(kept_rows, np.array(uses)[reason], "omit")
    reasons = np.array(names, object)[reason]
    decision = [pa.array(kept_rows), pa.array(use), pa.array(reasons, pa.string()), _group_names(standing)]
    columns, keys = measures.table.columns, len(KEY_FIELDS)
    schema = verdict_schema(judging.signals, judging.telling)
    verdicts = pa.Table.from_arrays([*columns[:keys], *decision, *columns[keys:]], schema=schema).combine_chunks()
    entry = write_parquet(judging.verdicts, unit.name, schema, verdicts.to_batches())
    details = _details(decisions, reasons, kept_by, _rule_details(measures, judging))
    rejects = _rejects(unit, judging, kept_rows, use, reasons, details)
    reject_entry = write_parquet(judging.rejects, f"{unit.label}.parquet", REJECT_SCHEMA, rejects.to_batches())
    finish_unit(judging.rejects, Manifest(STAGE, unit.label, judging.digest, SCHEMA_VERSION, (reject_entry,)))
    if judging.recipe.judge.spans:
        write_spans(unit, judging, standing.told(VOLATILE), standing.told(RANDOM))
    if judging.likeness is not None:
        write_likeness(standing, judging.likeness)
    counts = _counts(measures, kept_rows, use, reasons)
    manifest = Manifest(STAGE, unit.label, judging.digest, SCHEMA_VERSION, (entry,), counts)
    return finish_unit(judging.verdicts, manifest)


def verdict_reasons(standing: Standing) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.uint64]]:
    """Return each row's number of the reason (-1: target), whether its trajectory is kept, and the survivor's id."""
    measures = standing.measures
    position = {reason.name: len(measures.decision.names) + number for number, reason in enumerate(REASONS)}
    rows = measures.table.num_rows
    survivor = np.zeros(rows, np.uint64)
    row_reason = measures.decision.transition.astype(np.int64)
    # a row without text cannot be shown, whatever use its broken rule gives it
    keeps = np.array([*(rule.use != "omit" for rule in standing.judging.recipe.judge.ordered_rules()), True])
    row_reason[keeps[row_reason] & ~measures.column("has_text")] = position[NO_TEXT]
    first = measures.decision.trajectory[measures.starts].astype(np.int64)
    for name in (*LOST_ROWS, *LOST):
        some = standing.losers[name]
        if name in LOST:
            first[np.isin(measures.starts, some["row"])] = position[name]
        else:
            row_reason[some["row"]] = position[name]
        survivor[some["row"]] = some["kept"]
    row_reason = np.where(row_reason < 0, standing.over, row_reason)
    targets = np.add.reduceat((row_reason < 0).astype(np.int64), measures.starts) if rows else first
    first[(first < 0) & (targets == 0)] = position[NO_TARGET]
    whole = np.repeat(first, measures.lengths)
    return np.where(whole >= 0, whole, row_reason), whole < 0, survivor


def _group_names(standing: Standing) -> pa.Array:
    distinct, inverse = np.unique(groups_of(standing), return_inverse=True)
    return pa.array([f"{int(name):016x}" for name in distinct], pa.string()).take(pa.array(inverse))


def _counts(
    measures: Measures, kept_rows: npt.NDArray[np.bool_], use: npt.NDArray[np.str_], reasons: npt.NDArray[Any]
) -> dict[str, int]:
    """Count the trajectories and transitions of the unit, and their decisions."""
    counts: Counter[str] = Counter()
    counts["trajectories"] = len(measures.starts)
    counts["transitions"] = len(kept_rows)
    counts["trajectories.kept"] = int(kept_rows[measures.starts].sum())
    for name, number in Counter(reasons[measures.starts][~kept_rows[measures.starts]]).items():
        counts[f"trajectories.dropped.{name}"] = number
    counts["transitions.target"] = int((use == "target").sum())
    left = use != "target"
    became = np.where(kept_rows, use, "dropped")[left].tolist()
    for (use_of_row, reason), number in Counter(zip(became, reasons[left].tolist(), strict=True)).items():
        counts[f"transitions.{use_of_row}.{reason}"] += number
    counts["tokens"] = int(measures.column("tokens").sum())
    counts["tokens.target"] = int(measures.column("tokens")[use == "target"].sum())
    return dict(sorted(counts.items()))


def _rejects(
    unit: Unit,
    judging: Judging,
    kept_rows: npt.NDArray[np.bool_],
    use: npt.NDArray[np.str_],
    reasons: npt.NDArray[Any],
    details: Callable[[npt.NDArray[np.int64]], list[str]],
) -> pa.Table:
    """Build a reject for each dropped trajectory, and for each transition of a kept one that is not a target."""
    columns = ["trajectory_id", "step", "num_steps", "provenance"]
    rows = read_table(judging.transitions, unit.name, columns)
    step = rows["step"].to_numpy()
    chosen = np.flatnonzero(np.where(kept_rows, use != "target", step == 0))
    taken = rows.take(pa.array(chosen)).combine_chunks()
    whole = ~kept_rows[chosen]
    provenance = taken["provenance"].combine_chunks()
    values = [
        np.where(whole, "trajectory", "transition"),
        reasons[chosen],
        details(chosen),
        *(pc.struct_field(provenance, name) for name in ("uri", "member", "offset", "connector")),
        taken["trajectory_id"].combine_chunks(),
        np.where(whole, -1, step[chosen]).astype(np.int32),
        np.where(whole, taken["num_steps"].to_numpy(), 1).astype(np.int64),
        [""] * len(chosen),
    ]
    arrays = [pa.array(value, field.type) for value, field in zip(values, REJECT_SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=REJECT_SCHEMA)


def _rule_details(measures: Measures, judging: Judging) -> Mapping[str, Callable[[int], str]]:
    """Map each rule to a function that explains why a row did not pass it: value, bound, and what the signal says.

    A rule on a trajectory has one value, which stands in each row of the trajectory.
    """

    def explain(rule: Rule) -> Callable[[int], str]:
        values = measures.table[SIGNAL_PREFIX + rule.signal].combine_chunks().to_numpy(zero_copy_only=False)
        is_told = rule.signal in judging.telling
        words = measures.table[REASON_PREFIX + rule.signal].to_pylist() if is_told else None

        def detail(row: int) -> str:
            value = round(float(values[row]), 6)
            bound = f"below {rule.least:g}" if rule.least is not None and value < rule.least else f"above {rule.most:g}"
            said = f": {words[row]}" if words is not None and words[row] else ""
            return f"{rule.signal} is {value:g}, {bound}{said}"

        return detail

    return {rule.name: explain(rule) for rule in judging.recipe.judge.ordered_rules()}


def _details(
    decisions: Sequence[Decision],
    reasons: npt.NDArray[Any],
    survivor: npt.NDArray[np.uint64],
    rules: Mapping[str, Callable[[int], str]],
) -> Callable[[npt.NDArray[np.int64]], list[str]]:
    """Return a function that explains to a person why rows were not carried on.

    Args:
        survivor: what stands beside each loser.
        rules: rule → a function that explains why a row did not pass it.
    """
    by_reason = {reason: decision for decision in decisions for reason in decision.reasons}

    def detail(row: int) -> str:
        if reasons[row] in rules:
            return rules[reasons[row]](row)
        if reasons[row] == SIMULATED:
            return why_refused(int(survivor[row]))
        if reasons[row] == EXCLUDED:
            return "judge.include does not name it, or judge.exclude does"
        if reasons[row] == BRIDGES_POOLS:
            return "belongs to groups of two pools, which earlier generations keep apart"
        if reasons[row] in (NO_TARGET, NO_TEXT):
            return "no transition is left to learn from"
        return by_reason[reasons[row]].words(reasons[row], int(survivor[row]))

    return lambda rows: [detail(row) for row in rows.tolist()]
