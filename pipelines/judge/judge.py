"""Judge: measures every transition once, decides what is kept, and writes a verdict beside each row of payload.

Only packed hashes are shuffled. The decisions of one unit depend on the hashes of all units, but not on their order:

    measure ─▶ contaminated ─▶ keys of trajectories ─▶ losers ─▶ near duplicates
        │      ─▶ keys of the remaining transitions ─▶ verdicts
        └────▶ edges of groups ─▶ components ──────────────────────────────────────────────────────────┘

Where the recipe caps a rule, the targets that remain are counted before the verdicts (see `caps`); where it bounds how
much of what is kept one task, environment, place or command may be, what then still bears the loss is (see `shares`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam

from pipelines.judge.caps import CountsToLimits, Limits, capped
from pipelines.judge.contamination import UnitsToContaminated
from pipelines.judge.copies import losers_by_unit, trajectory_keys, transition_keys
from pipelines.judge.groups import edges, packed_groups
from pipelines.judge.judging import Judging, Unit
from pipelines.judge.measuring import measure_unit
from pipelines.judge.near_duplicates import NearDuplicatesOf
from pipelines.judge.reasons import (
    CONTAMINATED,
    DUPLICATE_TRAJECTORY,
    DUPLICATE_TRANSITION,
    LOST,
    LOST_ROWS,
    NEAR_DUPLICATE,
    REPLICATE,
)
from pipelines.judge.replicates import UnitsToReport, replicate_keys, rows_beyond
from pipelines.judge.shares import RecordsToLost
from pipelines.judge.verdicts import bearing_rows, uncapped_targets, write_verdict
from schemas.manifest import Manifest


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
