"""Judge: measures every transition once, decides what is kept, and writes a verdict beside each row of payload.

Only packed hashes are shuffled. The decisions of one unit depend on the hashes of all units, but not on their order:

    measure ─▶ keys of trajectories ─▶ losers ─▶ near duplicates ─▶ keys of the remaining transitions ─▶ verdicts
        └────▶ edges of groups ─▶ components ──────────────────────────────────────────────────────────┘

Where the recipe caps a rule, the targets that remain are counted before the verdicts (see `caps`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.caps import CountsToLimits, Limits, capped, over_cap, target_counts
from pipelines.near import NearDuplicatesOf
from pipelines.parquet import read_batches, write_parquet
from pipelines.sidecar import (
    LOSER,
    Judging,
    Sidecar,
    Unit,
    identities,
    kept_rows,
    losers_of,
    measure_unit,
    partitioned,
    read_sidecar,
)
from pipelines.units import finish_unit
from quality.duplicate import KEY, losers
from quality.fingerprint import as_lanes
from quality.group import components
from schemas import REJECT_SCHEMA, SCHEMA_VERSION, verdict_schema
from schemas.manifest import Manifest

STAGE: Final = "judge"
NEAR_DUPLICATE: Final = "near_duplicate"
DUPLICATE_TRAJECTORY: Final = "duplicate_trajectory"
DUPLICATE_TRANSITION: Final = "duplicate_transition"
NO_TARGET: Final = "no_target"
NO_TEXT: Final = "no_text"
_REASONS: Final = (DUPLICATE_TRAJECTORY, NEAR_DUPLICATE, DUPLICATE_TRANSITION, NO_TARGET, NO_TEXT)
"""Reasons besides the recipe's rules, numbered after them."""


def _keys(unit: Unit, sidecar: Sidecar, rows: npt.NDArray[np.int64], hashed: str, whole: bool) -> npt.NDArray[np.void]:
    """Keys of the given rows by the hash column named; for trajectories, of their first rows."""
    taken = sidecar.table.take(pa.array(rows))
    lanes = as_lanes(taken[hashed].combine_chunks())
    keys = np.zeros(len(rows), KEY)
    keys["high"], keys["low"] = lanes[:, 0], lanes[:, 1]
    keys["rank"] = sidecar.column("rank")[rows] if whole else sidecar.column("step")[rows]
    keys["tie"], keys["place"] = identities(taken["trajectory_id"].to_pylist()), sidecar.column("place")[rows]
    keys["unit"], keys["row"] = unit.number, rows
    return keys


def trajectory_keys(unit: Unit, judging: Judging) -> Iterator[tuple[int, bytes]]:
    """Packed keys of the trajectories that no rule drops, by partition."""
    sidecar = read_sidecar(unit, judging)
    kept = sidecar.starts[sidecar.decision.trajectory[sidecar.starts] < 0]
    if judging.recipe.judge.drop_duplicate_trajectories:
        yield from partitioned(_keys(unit, sidecar, kept, "trajectory_hash", True), "high")


def transition_keys(unit: Unit, judging: Judging, lost: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Packed keys of the transitions that are targets in trajectories that are kept so far, by partition."""
    if not judging.recipe.judge.mask_duplicate_transitions:
        return
    sidecar = read_sidecar(unit, judging)
    kept = kept_rows(sidecar, losers_of(lost))
    targets = kept & (sidecar.decision.transition < 0) & sidecar.column("has_text")
    yield from partitioned(_keys(unit, sidecar, np.flatnonzero(targets), "transition_hash", False), "high")


def losers_by_unit(packed: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Which rows of which unit lose against an equal one: (unit, packed rows with the survivor's id)."""
    keys = np.concatenate([np.frombuffer(data, KEY) for data in packed])
    lost, kept = losers(keys)
    rows = np.zeros(len(lost), LOSER)
    rows["row"], rows["kept"] = lost["row"], kept["tie"]
    for unit in np.unique(lost["unit"]):
        yield int(unit), rows[lost["unit"] == unit].tobytes()


def edges(unit: Unit, judging: Judging) -> Iterator[tuple[int, bytes]]:
    """The unit's distinct pairs of nodes that belong together, packed: a task with an instance and with a family."""
    sidecar = read_sidecar(unit, judging)
    task, *others = (
        sidecar.column(name)[sidecar.starts] for name in ("task_node", "instance_node", "own_node", "parent_node")
    )
    pairs = np.concatenate([np.stack([task, other], axis=1) for other in others])
    yield 0, np.unique(pairs.astype("<u8"), axis=0).tobytes()


def packed_groups(packed: Iterable[bytes]) -> bytes:
    """Every node and the name of its group, packed: two arrays of 64-bit numbers, one after the other."""
    pairs = np.concatenate([np.frombuffer(data, "<u8").reshape(-1, 2) for data in packed])
    nodes, groups = components(pairs.astype(np.uint64))
    return np.concatenate([nodes, groups]).astype("<u8").tobytes()


def write_verdict(
    unit: Unit,
    judging: Judging,
    lost_trajectories: Iterable[bytes],
    near: Iterable[bytes],
    lost_rows: Iterable[bytes],
    groups: bytes,
    found: Limits,
) -> Manifest:
    """Writes a unit's verdicts and its rejects, and returns the manifest of the verdicts."""
    sidecar = read_sidecar(unit, judging)
    names = (*sidecar.decision.names, *_REASONS)
    lost = {DUPLICATE_TRAJECTORY: losers_of(lost_trajectories), NEAR_DUPLICATE: losers_of(near)}
    over = over_cap(unit, sidecar, found)
    reason, kept, kept_by = _reasons(sidecar, lost, losers_of(lost_rows), over)
    uses = np.array(
        [*(r.use for r in judging.recipe.judge.ordered_rules()), "omit", "omit", "context", "omit", "omit", "target"]
    )
    use = np.where(kept, uses[reason], "omit")
    reasons = np.array([*names, None], object)[reason]
    decision = [pa.array(kept), pa.array(use), pa.array(reasons, pa.string()), _group_names(sidecar, groups)]
    columns = sidecar.table.columns
    schema = verdict_schema(judging.signals)
    table = pa.Table.from_arrays([*columns[:2], *decision, *columns[2:]], schema=schema).combine_chunks()
    entry = write_parquet(judging.verdicts, unit.name, schema, table.to_batches())
    rejects = _rejects(unit, judging, kept, use, reasons, kept_by)
    reject_entry = write_parquet(judging.rejects, f"{unit.label}.parquet", REJECT_SCHEMA, rejects.to_batches())
    finish_unit(judging.rejects, Manifest(STAGE, unit.label, judging.digest, SCHEMA_VERSION, (reject_entry,)))
    counts = _counts(sidecar, kept, use, reasons)
    manifest = Manifest(STAGE, unit.label, judging.digest, SCHEMA_VERSION, (entry,), counts)
    return finish_unit(judging.verdicts, manifest)


def uncapped_targets(unit: Unit, judging: Judging, joined: Mapping[str, Iterable[bytes]]) -> tuple[str, bytes]:
    """The unit's domain and its targets before any cap, counted by the capped rule that they break."""
    sidecar = read_sidecar(unit, judging)
    lost = {DUPLICATE_TRAJECTORY: losers_of(joined["lost"]), NEAR_DUPLICATE: losers_of(joined.get("near", ()))}
    none = np.full(sidecar.table.num_rows, -1, np.int16)
    reason, _, _ = _reasons(sidecar, lost, losers_of(joined["rows"]), none)
    return target_counts(unit, sidecar, reason < 0)


def _reasons(
    sidecar: Sidecar,
    lost: Mapping[str, npt.NDArray[np.void]],
    lost_rows: npt.NDArray[np.void],
    over: npt.NDArray[np.int16],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.uint64]]:
    """For each row: the number of its reason (-1: target), whether its trajectory is kept, the survivor's id.

    `over` is the number of the capped rule that the row breaks beyond its cap, or -1.
    """
    position = {name: len(sidecar.decision.names) + number for number, name in enumerate(_REASONS)}
    rows = sidecar.table.num_rows
    survivor = np.zeros(rows, np.uint64)
    row_reason = sidecar.decision.transition.astype(np.int64)
    row_reason[(row_reason < 0) & ~sidecar.column("has_text")] = position[NO_TEXT]
    row_reason[lost_rows["row"]] = position[DUPLICATE_TRANSITION]
    survivor[lost_rows["row"]] = lost_rows["kept"]
    row_reason = np.where(row_reason < 0, over, row_reason)
    first = sidecar.decision.trajectory[sidecar.starts].astype(np.int64)
    for name, some in lost.items():
        first[np.isin(sidecar.starts, some["row"])] = position[name]
        survivor[some["row"]] = some["kept"]
    targets = np.add.reduceat((row_reason < 0).astype(np.int64), sidecar.starts) if rows else first
    first[(first < 0) & (targets == 0)] = position[NO_TARGET]
    whole = np.repeat(first, sidecar.lengths)
    return np.where(whole >= 0, whole, row_reason), whole < 0, survivor


def _group_names(sidecar: Sidecar, groups: bytes) -> pa.Array:
    nodes, names = np.frombuffer(groups, "<u8").reshape(2, -1)
    found = names[np.searchsorted(nodes, sidecar.column("task_node"))]
    distinct, inverse = np.unique(found, return_inverse=True)
    return pa.array([f"{int(name):016x}" for name in distinct], pa.string()).take(pa.array(inverse))


def _counts(
    sidecar: Sidecar, kept: npt.NDArray[np.bool_], use: npt.NDArray[np.str_], reasons: npt.NDArray[Any]
) -> dict[str, int]:
    """What went in and what became of it, for trajectories and transitions."""
    counts: Counter[str] = Counter()
    counts["trajectories"] = len(sidecar.starts)
    counts["transitions"] = len(kept)
    counts["trajectories.kept"] = int(kept[sidecar.starts].sum())
    for name, number in Counter(reasons[sidecar.starts][~kept[sidecar.starts]]).items():
        counts[f"trajectories.dropped.{name}"] = number
    counts["transitions.target"] = int((use == "target").sum())
    rows = pa.table({"kept": kept, "use": pa.array(use), "reason": pa.array(reasons, pa.string())})
    for row in rows.group_by(["kept", "use", "reason"]).aggregate([([], "count_all")]).to_pylist():
        if row["use"] != "target":
            what = row["use"] if row["kept"] else "dropped"
            counts[f"transitions.{what}.{row['reason']}"] += row["count_all"]
    counts["tokens"] = int(sidecar.column("tokens").sum())
    counts["tokens.target"] = int(sidecar.column("tokens")[use == "target"].sum())
    return dict(sorted(counts.items()))


def _rejects(
    unit: Unit,
    judging: Judging,
    kept: npt.NDArray[np.bool_],
    use: npt.NDArray[np.str_],
    reasons: npt.NDArray[Any],
    survivor: npt.NDArray[np.uint64],
) -> pa.Table:
    """One row for each trajectory dropped, and one for each transition of a kept one that is no target."""
    columns = ["trajectory_id", "step", "num_steps", "provenance"]
    rows = pa.Table.from_batches(read_batches(judging.transitions, unit.name, columns)).combine_chunks()
    step = rows["step"].combine_chunks().to_numpy(zero_copy_only=False)
    chosen = np.flatnonzero(np.where(kept, use != "target", step == 0))
    taken = rows.take(pa.array(chosen)).combine_chunks()
    whole = ~kept[chosen]
    provenance = taken["provenance"].combine_chunks()
    equal = [f"equal to one of trajectory {key:016x}…" if key else "by the recipe's rule" for key in survivor[chosen]]
    detail = [
        "no transition is left to learn from"
        if r in (NO_TARGET, NO_TEXT)
        else f"nearly {d}"
        if r == NEAR_DUPLICATE
        else d
        for r, d in zip(reasons[chosen], equal, strict=True)
    ]
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


class UnitsToVerdicts(beam.PTransform):
    """Unit → the manifest of its verdicts."""

    def __init__(self, judging: Judging) -> None:
        super().__init__()
        self._judging = judging

    def expand(self, units: beam.PCollection[Unit]) -> beam.PCollection[Manifest]:
        judging = self._judging
        done = units | "Measure" >> beam.Map(measure_unit, judging)
        keyed = done | "KeyUnits" >> beam.Map(lambda unit: (unit.number, unit))
        together = done | "Edges" >> beam.FlatMap(edges, judging)
        lost = (
            done
            | "TrajectoryKeys" >> beam.FlatMap(trajectory_keys, judging)
            | "GatherTrajectories" >> beam.GroupByKey()
            | "LoseTrajectories" >> beam.FlatMapTuple(lambda _, packed: losers_by_unit(packed))
        )
        joined = {"unit": keyed, "lost": lost}
        if judging.recipe.judge.near_duplicates is not None:
            near = joined | "NearDuplicates" >> NearDuplicatesOf(judging)
            joined["near"] = near["lost"]
            together = (together, near["edges"]) | "AllEdges" >> beam.Flatten()
        groups = (
            together
            | "GatherEdges" >> beam.GroupByKey()
            | "Groups" >> beam.MapTuple(lambda _, packed: packed_groups(packed))
        )
        lost_rows = (
            joined
            | "JoinTrajectories" >> beam.CoGroupByKey()
            | "TransitionKeys" >> beam.FlatMapTuple(lambda _, j: transition_keys(j["unit"][0], judging, _all_lost(j)))
            | "GatherTransitions" >> beam.GroupByKey()
            | "LoseTransitions" >> beam.FlatMapTuple(lambda _, packed: losers_by_unit(packed))
        )
        whole = {**joined, "rows": lost_rows} | "JoinAll" >> beam.CoGroupByKey()
        found: Any = {}
        if capped(judging):
            counts = whole | "CountTargets" >> beam.MapTuple(lambda _, j: uncapped_targets(j["unit"][0], judging, j))
            found = beam.pvalue.AsDict(counts | CountsToLimits(judging))
        return whole | "Decide" >> beam.Map(_decided, judging, beam.pvalue.AsSingleton(groups), found)


def _all_lost(joined: Mapping[str, Iterable[bytes]]) -> list[bytes]:
    return [*joined["lost"], *joined.get("near", ())]


def _decided(joined: tuple[int, Any], judging: Judging, groups: bytes, found: Limits) -> Manifest:
    """`write_verdict` of what a unit's number was joined with."""
    _, of = joined
    return write_verdict(of["unit"][0], judging, of["lost"], of.get("near", ()), of["rows"], groups, found)
