"""Judge: measures every transition once, decides what is kept, and writes a verdict beside each row of payload.

Only packed hashes are shuffled. The decisions of one unit depend on the hashes of all units, but not on their order:

    measure ─▶ keys of trajectories ─▶ losers ─▶ keys of the remaining transitions ─▶ losers ─▶ verdicts
        └────▶ edges of groups ─▶ components ──────────────────────────────────────────────────────┘
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.parquet import read_batches, read_transitions, write_parquet
from pipelines.recipe import Recipe
from pipelines.storage import Folder
from pipelines.units import finish_unit, is_done
from quality.duplicate import KEY, losers
from quality.fingerprint import as_lanes
from quality.group import components
from quality.measure import measured_in_order
from quality.rule import Decision, decided
from quality.tokens import TokenCounter
from schemas import REJECT_SCHEMA, SCHEMA_VERSION, verdict_schema
from schemas.invariants import check
from schemas.manifest import Manifest
from schemas.verdict import SIGNAL_PREFIX, measure_schema

STAGE: Final = "judge"
PARTITIONS: Final = 64
DUPLICATE_TRAJECTORY: Final = "duplicate_trajectory"
DUPLICATE_TRANSITION: Final = "duplicate_transition"
NO_TARGET: Final = "no_target"
NO_TEXT: Final = "no_text"

_LOSER: Final = np.dtype([("row", "<u4"), ("kept", "<u8")])


@dataclass(frozen=True, slots=True)
class Unit:
    """A file of transitions to judge: its number among all, its name in the transitions folder, and its digest."""

    number: int
    name: str
    sha256: str

    @property
    def label(self) -> str:
        """The unit's name without folders."""
        return self.name.removesuffix(".parquet").replace("/", "-")


@dataclass(frozen=True, slots=True)
class Judging:
    """What judging a unit needs besides the unit: picklable, the same for all units."""

    recipe: Recipe
    transitions: Folder
    measures: Folder
    verdicts: Folder
    rejects: Folder
    digest: str

    @property
    def signals(self) -> tuple[str, ...]:
        """The signals that the recipe's rules need, sorted."""
        return tuple(sorted({rule.signal for rule in self.recipe.judge.rules.values()}))


def judging_digest(recipe: Recipe, units: Sequence[Unit]) -> str:
    """Of everything verdicts depend on: the recipe's judgement and all transitions."""
    content = [SCHEMA_VERSION, recipe.digest("judge"), [[unit.name, unit.sha256] for unit in units]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def measure_unit(unit: Unit, judging: Judging) -> Unit:
    """Measures a unit's transitions into a file beside the verdicts, unless that was done; returns the unit."""
    settings = json.dumps([unit.sha256, judging.signals, judging.recipe.judge.tokenizer, SCHEMA_VERSION])
    digest = hashlib.sha256(settings.encode()).hexdigest()
    if not is_done(judging.measures, unit.label, digest):
        counter = TokenCounter(judging.recipe.judge.tokenizer)
        stored = (check(batch) for batch in read_transitions(judging.transitions, unit.name))
        batches = measured_in_order(stored, judging.signals, counter)
        entry = write_parquet(judging.measures, f"{unit.label}.parquet", measure_schema(judging.signals), batches)
        finish_unit(judging.measures, Manifest("measure", unit.label, digest, SCHEMA_VERSION, (entry,)))
    return unit


@dataclass(frozen=True, slots=True)
class Sidecar:
    """What was measured of a unit, and what the rules say of it."""

    table: pa.Table
    decision: Decision
    starts: npt.NDArray[np.int64]

    def column(self, name: str) -> npt.NDArray[Any]:
        """A numeric column."""
        return self.table[name].combine_chunks().to_numpy(zero_copy_only=False)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Rows of each trajectory."""
        return np.diff(np.append(self.starts, self.table.num_rows))


def read_sidecar(unit: Unit, judging: Judging) -> Sidecar:
    """The measurements of a unit, judged by the recipe's rules."""
    table = pa.Table.from_batches(
        read_batches(judging.measures, f"{unit.label}.parquet"), schema=measure_schema(judging.signals)
    ).combine_chunks()
    numbers = {
        name: table[SIGNAL_PREFIX + name].combine_chunks().to_numpy(zero_copy_only=False) for name in judging.signals
    }
    decision = decided(judging.recipe.judge.ordered_rules(), numbers, table.num_rows)
    starts = np.flatnonzero(table["step"].combine_chunks().to_numpy(zero_copy_only=False) == 0)
    return Sidecar(table, decision, starts)


def _packed(keys: npt.NDArray[np.void]) -> Iterator[tuple[int, bytes]]:
    """The keys as bytes, by partition of their hash."""
    partition = (keys["high"] >> np.uint64(58)).astype(np.int64)
    for number in np.unique(partition):
        yield int(number), keys[partition == number].tobytes()


def _keys(unit: Unit, sidecar: Sidecar, rows: npt.NDArray[np.int64], hashed: str, whole: bool) -> npt.NDArray[np.void]:
    """Keys of the given rows by the hash column named; for trajectories, of their first rows."""
    taken = sidecar.table.take(pa.array(rows))
    lanes = as_lanes(taken[hashed].combine_chunks())
    keys = np.zeros(len(rows), KEY)
    keys["high"], keys["low"] = lanes[:, 0], lanes[:, 1]
    identity = np.array([int(key[:16], 16) for key in taken["trajectory_id"].to_pylist()], np.uint64)
    keys["rank"] = sidecar.column("rank")[rows] if whole else sidecar.column("step")[rows]
    keys["tie"], keys["place"] = identity, sidecar.column("place")[rows]
    keys["unit"], keys["row"] = unit.number, rows
    return keys


def trajectory_keys(unit: Unit, judging: Judging) -> Iterator[tuple[int, bytes]]:
    """Packed keys of the trajectories that no rule drops, by partition."""
    sidecar = read_sidecar(unit, judging)
    kept = sidecar.starts[sidecar.decision.trajectory[sidecar.starts] < 0]
    if judging.recipe.judge.drop_duplicate_trajectories:
        yield from _packed(_keys(unit, sidecar, kept, "trajectory_hash", True))


def transition_keys(unit: Unit, judging: Judging, lost: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Packed keys of the transitions that are targets in trajectories that are kept so far, by partition."""
    if not judging.recipe.judge.mask_duplicate_transitions:
        return
    sidecar = read_sidecar(unit, judging)
    kept = _kept_rows(sidecar, _losers(lost))
    targets = kept & (sidecar.decision.transition < 0) & sidecar.column("has_text")
    yield from _packed(_keys(unit, sidecar, np.flatnonzero(targets), "transition_hash", False))


def _losers(packed: Iterable[bytes]) -> npt.NDArray[np.void]:
    return np.sort(np.concatenate([np.zeros(0, _LOSER), *(np.frombuffer(data, _LOSER) for data in packed)]))


def _kept_rows(sidecar: Sidecar, lost: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """One boolean a row: whether its trajectory is neither dropped by a rule nor a duplicate."""
    first = sidecar.decision.trajectory[sidecar.starts] < 0
    first &= ~np.isin(sidecar.starts, lost["row"])
    return np.repeat(first, sidecar.lengths)


def losers_by_unit(packed: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Which rows of which unit lose against an equal one: (unit, packed rows with the survivor's id)."""
    keys = np.concatenate([np.frombuffer(data, KEY) for data in packed])
    lost, kept = losers(keys)
    rows = np.zeros(len(lost), _LOSER)
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
    unit: Unit, judging: Judging, lost_trajectories: Iterable[bytes], lost_rows: Iterable[bytes], groups: bytes
) -> Manifest:
    """Writes a unit's verdicts and its rejects, and returns the manifest of the verdicts."""
    sidecar = read_sidecar(unit, judging)
    lost = _losers(lost_trajectories)
    names = (*sidecar.decision.names, DUPLICATE_TRAJECTORY, DUPLICATE_TRANSITION, NO_TARGET, NO_TEXT)
    reason, kept, kept_by = _reasons(sidecar, lost, _losers(lost_rows), names)
    uses = np.array(
        [*(r.use for r in judging.recipe.judge.ordered_rules()), "omit", "context", "omit", "omit", "target"]
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


def _reasons(
    sidecar: Sidecar, lost: npt.NDArray[np.void], lost_rows: npt.NDArray[np.void], names: Sequence[str]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.uint64]]:
    """For each row: its reason's place in `names` (-1: target), whether its trajectory is kept, the survivor's id."""
    position = {name: number for number, name in enumerate(names)}
    rows = sidecar.table.num_rows
    survivor = np.zeros(rows, np.uint64)
    row_reason = sidecar.decision.transition.astype(np.int64)
    row_reason[(row_reason < 0) & ~sidecar.column("has_text")] = position[NO_TEXT]
    row_reason[lost_rows["row"]] = position[DUPLICATE_TRANSITION]
    survivor[lost_rows["row"]] = lost_rows["kept"]
    first = sidecar.decision.trajectory[sidecar.starts].astype(np.int64)
    duplicate = np.isin(sidecar.starts, lost["row"])
    first[duplicate] = position[DUPLICATE_TRAJECTORY]
    survivor[lost["row"]] = lost["kept"]
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
        "no transition is left to learn from" if r in (NO_TARGET, NO_TEXT) else d
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


def _decided(joined: tuple[int, Any], judging: Judging, groups: bytes) -> Manifest:
    """`write_verdict` of what a unit's number was joined with."""
    _, of_unit = joined
    return write_verdict(of_unit["unit"][0], judging, of_unit["lost"], of_unit["rows"], groups)


class UnitsToVerdicts(beam.PTransform):
    """Unit → the manifest of its verdicts."""

    def __init__(self, judging: Judging) -> None:
        super().__init__()
        self._judging = judging

    def expand(self, units: beam.PCollection[Unit]) -> beam.PCollection[Manifest]:
        judging = self._judging
        done = units | "Measure" >> beam.Map(measure_unit, judging)
        keyed = done | "KeyUnits" >> beam.Map(lambda unit: (unit.number, unit))
        groups = (
            done
            | "Edges" >> beam.FlatMap(edges, judging)
            | "GatherEdges" >> beam.GroupByKey()
            | "Groups" >> beam.MapTuple(lambda _, packed: packed_groups(packed))
        )
        lost = (
            done
            | "TrajectoryKeys" >> beam.FlatMap(trajectory_keys, judging)
            | "GatherTrajectories" >> beam.GroupByKey()
            | "LoseTrajectories" >> beam.FlatMapTuple(lambda _, packed: losers_by_unit(packed))
        )
        lost_rows = (
            {"unit": keyed, "lost": lost}
            | "JoinTrajectories" >> beam.CoGroupByKey()
            | "TransitionKeys" >> beam.FlatMapTuple(lambda _, t: transition_keys(t["unit"][0], judging, t["lost"]))
            | "GatherTransitions" >> beam.GroupByKey()
            | "LoseTransitions" >> beam.FlatMapTuple(lambda _, packed: losers_by_unit(packed))
        )
        return (
            {"unit": keyed, "lost": lost, "rows": lost_rows}
            | "JoinAll" >> beam.CoGroupByKey()
            | "Decide" >> beam.Map(_decided, judging, beam.pvalue.AsSingleton(groups))
        )
