"""Judge: measures every transition once, decides what is kept, and writes a verdict beside each row of payload.

Only packed hashes are shuffled. The decisions of one unit depend on the hashes of all units, but not on their order:

    measure ─▶ contaminated ─▶ keys of trajectories ─▶ losers ─▶ near duplicates
        │      ─▶ keys of the remaining transitions ─▶ verdicts
        └────▶ edges of groups ─▶ components ──────────────────────────────────────────────────────────┘

Where the recipe caps a rule, the targets that remain are counted before the verdicts (see `caps`); where it bounds how
much of what is kept one task, environment, place or command may be, what then still bears the loss is (see `shares`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.engine.parquet import read_batches, write_parquet
from pipelines.engine.units import finish_unit
from pipelines.judge.caps import CountsToLimits, Limits, capped, over_cap, target_counts
from pipelines.judge.contamination import UnitsToContaminated
from pipelines.judge.evaluation_index import read_index
from pipelines.judge.measures import (
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
from pipelines.judge.near_duplicates import NearDuplicatesOf
from pipelines.judge.replicates import UnitsToReport, rows_beyond, targets
from pipelines.judge.shares import OF_ROWS, OF_WHOLES, RecordsToLost, bearing
from pipelines.judge.spans import write_spans
from quality.duplicate import KEY, losers
from quality.fingerprint import as_lanes
from quality.group import components
from schemas import REJECT_SCHEMA, SCHEMA_VERSION, verdict_schema
from schemas.manifest import Manifest
from schemas.verdict import KEY_FIELDS, REASON_PREFIX

STAGE: Final = "judge"
CONTAMINATED: Final = "contaminated"
NEAR_DUPLICATE: Final = "near_duplicate"
DUPLICATE_TRAJECTORY: Final = "duplicate_trajectory"
LOST: Final = (CONTAMINATED, DUPLICATE_TRAJECTORY, NEAR_DUPLICATE, *OF_WHOLES)
"""Reasons by which a trajectory goes besides the recipe's rules."""

DUPLICATE_TRANSITION: Final = "duplicate_transition"
REPLICATE: Final = "replicate"
LOST_ROWS: Final = (DUPLICATE_TRANSITION, REPLICATE, *OF_ROWS)
"""Reasons by which a row of a kept trajectory stays as context besides the recipe's rules."""

NO_TARGET: Final = "no_target"
NO_TEXT: Final = "no_text"
_REASONS: Final = (*LOST, *LOST_ROWS, NO_TARGET, NO_TEXT)
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


def trajectory_keys(unit: Unit, judging: Judging, lost: Iterable[bytes] = ()) -> Iterator[tuple[int, bytes]]:
    """Packed keys of the trajectories that no rule drops and that are not lost yet, by partition."""
    sidecar = read_sidecar(unit, judging)
    kept = sidecar.starts[kept_rows(sidecar, losers_of(lost))[sidecar.starts]]
    if judging.recipe.judge.drop_duplicate_trajectories:
        yield from partitioned(_keys(unit, sidecar, kept, "trajectory_hash", True), "high")


def transition_keys(unit: Unit, judging: Judging, lost: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Packed keys of the transitions that are targets in trajectories that are kept so far, by partition."""
    if not judging.recipe.judge.mask_duplicate_transitions:
        return
    sidecar = read_sidecar(unit, judging)
    rows = np.flatnonzero(_targets(sidecar, lost))
    yield from partitioned(_keys(unit, sidecar, rows, "transition_hash", False), "high")


def replicate_keys(
    unit: Unit, judging: Judging, lost: Iterable[bytes], lost_rows: Iterable[bytes]
) -> Iterator[tuple[int, bytes]]:
    """Packed keys of the rows that bear the loss when equal transitions have lost theirs, by partition."""
    sidecar = read_sidecar(unit, judging)
    bearing = _targets(sidecar, lost)
    bearing[losers_of(lost_rows)["row"]] = False
    yield from targets(unit, judging, np.flatnonzero(bearing), sidecar)


def _targets(sidecar: Sidecar, lost: Iterable[bytes]) -> npt.NDArray[np.bool_]:
    kept = kept_rows(sidecar, losers_of(lost))
    found: npt.NDArray[np.bool_] = kept & (sidecar.decision.transition < 0) & sidecar.column("has_text")
    return found


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
    sidecar = read_sidecar(unit, judging)
    names = (*sidecar.decision.names, *_REASONS)
    over = over_cap(unit, sidecar, found)
    lost = {name: losers_of(packed) for name, packed in lost_trajectories.items()}
    reason, kept, kept_by = _reasons(sidecar, lost, {name: losers_of(some) for name, some in lost_rows.items()}, over)
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
    decision = [pa.array(kept), pa.array(use), pa.array(reasons, pa.string()), _group_names(sidecar, groups)]
    columns, keys = sidecar.table.columns, len(KEY_FIELDS)
    schema = verdict_schema(judging.signals, judging.telling)
    table = pa.Table.from_arrays([*columns[:keys], *decision, *columns[keys:]], schema=schema).combine_chunks()
    entry = write_parquet(judging.verdicts, unit.name, schema, table.to_batches())
    rejects = _rejects(unit, judging, kept, use, reasons, kept_by, _words(sidecar, judging, reasons))
    reject_entry = write_parquet(judging.rejects, f"{unit.label}.parquet", REJECT_SCHEMA, rejects.to_batches())
    finish_unit(judging.rejects, Manifest(STAGE, unit.label, judging.digest, SCHEMA_VERSION, (reject_entry,)))
    if judging.recipe.judge.spans:
        write_spans(unit, judging, volatile)
    counts = _counts(sidecar, kept, use, reasons)
    manifest = Manifest(STAGE, unit.label, judging.digest, SCHEMA_VERSION, (entry,), counts)
    return finish_unit(judging.verdicts, manifest)


def uncapped_targets(unit: Unit, judging: Judging, joined: Mapping[str, Iterable[bytes]]) -> tuple[str, bytes]:
    """The unit's domain and its targets before any cap, counted by the capped rule that they break."""
    sidecar = read_sidecar(unit, judging)
    lost, rows = ({name: losers_of(joined.get(name, ())) for name in names} for names in (LOST, LOST_ROWS))
    none = np.full(sidecar.table.num_rows, -1, np.int16)
    reason, _, _ = _reasons(sidecar, lost, rows, none)
    return target_counts(unit, sidecar, reason < 0)


def bearing_rows(
    unit: Unit, judging: Judging, joined: Mapping[str, Iterable[bytes]], found: Limits
) -> Iterator[tuple[str, bytes]]:
    """The unit's domain and the records of the rows that bear the loss if no share is bounded, packed."""
    sidecar = read_sidecar(unit, judging)
    lost, rows = ({name: losers_of(joined.get(name, ())) for name in names} for names in (LOST, LOST_ROWS))
    reason, _, _ = _reasons(sidecar, lost, rows, over_cap(unit, sidecar, found))
    yield from bearing(unit, judging, sidecar, reason < 0)


def _reasons(
    sidecar: Sidecar,
    lost: Mapping[str, npt.NDArray[np.void]],
    lost_rows: Mapping[str, npt.NDArray[np.void]],
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
    for name, some in lost_rows.items():
        row_reason[some["row"]] = position[name]
        survivor[some["row"]] = some["kept"]
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


def _words(sidecar: Sidecar, judging: Judging, reasons: npt.NDArray[Any]) -> npt.NDArray[np.object_]:
    """What the signal of the rule that each row broke says of its number, or None."""
    found = np.full(len(reasons), None, object)
    for rule in judging.recipe.judge.ordered_rules():
        if rule.signal in judging.telling:
            broken = reasons == rule.name
            found[broken] = np.array(sidecar.table[REASON_PREFIX + rule.signal].to_pylist(), object)[broken]
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


class UnitsToVerdicts(beam.PTransform):
    """Unit → the manifest of its verdicts."""

    def __init__(self, judging: Judging) -> None:
        super().__init__()
        self._judging = judging

    def expand(self, units: beam.PCollection[Unit]) -> beam.PCollection[Manifest]:
        judging = self._judging
        carried, fetched = judging.carried, judging.fetched
        done = units | "Measure" >> beam.Map(measure_unit, judging)
        keyed = done | "KeyUnits" >> beam.Map(lambda unit: (unit.number, unit))
        together = done | "Edges" >> beam.FlatMap(edges, judging)
        joined = {"unit": keyed}
        if judging.benchmarks:
            joined[CONTAMINATED] = done | "Contamination" >> UnitsToContaminated(judging)
        joined[DUPLICATE_TRAJECTORY] = (
            dict(joined)
            | "JoinContaminated" >> beam.CoGroupByKey()
            | "TrajectoryKeys"
            >> beam.FlatMapTuple(lambda n, j: carried("trajectories", n, _trajectory_keys(j, judging)))
            | "GatherTrajectories" >> beam.GroupByKey()
            | "LoseTrajectories" >> beam.FlatMapTuple(lambda _, packed: losers_by_unit(fetched(packed)))
        )
        if judging.recipe.judge.near_duplicates is not None:
            lost = tuple(joined[name] for name in joined if name != "unit") | "LostSoFar" >> beam.Flatten()
            near = {"unit": keyed, "lost": lost} | "NearDuplicates" >> NearDuplicatesOf(judging)
            joined[NEAR_DUPLICATE] = near["lost"]
            together = (together, near["edges"]) | "AllEdges" >> beam.Flatten()
        groups = (
            together
            | "GatherEdges" >> beam.GroupByKey()
            | "Groups" >> beam.MapTuple(lambda _, packed: packed_groups(packed))
        )
        rows = (
            dict(joined)
            | "JoinTrajectories" >> beam.CoGroupByKey()
            | "TransitionKeys"
            >> beam.FlatMapTuple(lambda n, j: carried("transitions", n, _transition_keys(j, judging)))
            | "GatherTransitions" >> beam.GroupByKey()
            | "LoseTransitions" >> beam.FlatMapTuple(lambda _, packed: losers_by_unit(fetched(packed)))
        )
        lost_rows = {DUPLICATE_TRANSITION: rows}
        replicates = judging.recipe.judge.replicates
        if replicates is not None:
            told = keyed | "Replicates" >> UnitsToReport(judging)
        if replicates is not None and replicates.max is not None:
            most = replicates.max
            lost_rows[REPLICATE] = (
                {**joined, **lost_rows}
                | "JoinRows" >> beam.CoGroupByKey()
                | "ReplicateKeys" >> beam.FlatMapTuple(lambda n, j: carried("targets", n, _replicate_keys(j, judging)))
                | "GatherTargets" >> beam.GroupByKey()
                | "BeyondMost" >> beam.FlatMapTuple(lambda _, packed: rows_beyond(fetched(packed), most))
            )
        told = {"volatile": told} if judging.recipe.judge.spans and replicates is not None else {}
        whole = {**joined, **lost_rows, **told} | "JoinAll" >> beam.CoGroupByKey()
        found: Any = {}
        if capped(judging):
            counts = whole | "CountTargets" >> beam.MapTuple(lambda _, j: uncapped_targets(j["unit"][0], judging, j))
            found = beam.pvalue.AsDict(counts | CountsToLimits(judging))
        if judging.recipe.judge.max_share:
            records = whole | "Bearing" >> beam.FlatMap(_bearing_rows, judging, found)
            shares = records | "Shares" >> RecordsToLost(judging)
            whole = {**joined, **lost_rows, **told, **shares} | "JoinShares" >> beam.CoGroupByKey()
        return whole | "Decide" >> beam.Map(_decided, judging, beam.pvalue.AsSingleton(groups), found)


def _all_lost(joined: Mapping[str, Iterable[bytes]]) -> list[bytes]:
    return [data for name in LOST for data in joined.get(name, ())]


def _decided(joined: tuple[int, Any], judging: Judging, groups: bytes, found: Limits) -> Manifest:
    """`write_verdict` of what a unit's number was joined with."""
    _, of = joined
    volatile = of.get("volatile", ())
    return write_verdict(of["unit"][0], judging, _of(of, LOST), _of(of, LOST_ROWS), groups, found, volatile)


def _bearing_rows(joined: tuple[int, Any], judging: Judging, found: Limits) -> Iterator[tuple[str, Any]]:
    """`bearing_rows` of what a unit's number was joined with, on their way."""
    number, of = joined
    return judging.carried("shares", number, bearing_rows(of["unit"][0], judging, of, found))


def _of(joined: Mapping[str, Iterable[bytes]], names: Sequence[str]) -> dict[str, Iterable[bytes]]:
    return {name: joined.get(name, ()) for name in names}


def _trajectory_keys(joined: Mapping[str, Any], judging: Judging) -> Iterator[tuple[int, bytes]]:
    return trajectory_keys(joined["unit"][0], judging, _all_lost(joined))


def _transition_keys(joined: Mapping[str, Any], judging: Judging) -> Iterator[tuple[int, bytes]]:
    return transition_keys(joined["unit"][0], judging, _all_lost(joined))


def _replicate_keys(joined: Mapping[str, Any], judging: Judging) -> Iterator[tuple[int, bytes]]:
    return replicate_keys(joined["unit"][0], judging, _all_lost(joined), joined[DUPLICATE_TRANSITION])
