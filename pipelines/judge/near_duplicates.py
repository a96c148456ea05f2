"""Near duplicates of the whole corpus: which steps are background, who is compared with whom, and who goes.

Only packed hashes are shuffled; sketches are read where they lie, those of a pair's two units at a time:

    steps ─▶ background rows ─▶ members of buckets ─▶ pairs ─▶ shares absent ─▶ second looks ─▶ shares absent
        ─▶ who goes, and edges of groups

What the numbers mean is `quality.near`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt

from pipelines.judge.judging import Judging, Unit
from pipelines.judge.measures import Measures, kept_rows, read_measures, read_sketches
from pipelines.judge.packed_rows import LOSER, by_unit, identities, losers_of, partitioned
from pipelines.recipe.judgement import NearDuplicates
from quality.fingerprint import as_lanes
from quality.near import MEMBER, PAIR, STEP, background_steps, candidates, dropped, members, second_looks
from quality.sketch import absent_shares

Packed = Iterable[bytes]


def _recipe(judging: Judging) -> NearDuplicates:
    near = judging.recipe.judge.near_duplicates
    assert near is not None
    return near


def steps(unit: Unit, judging: Judging, lost: Packed) -> Iterator[tuple[int, bytes]]:
    """Packed steps of the rollouts that are kept so far and whose task is known, by partition of the task."""
    measures = read_measures(unit, judging)
    sketches = read_sketches(unit.label, judging, measures.starts)
    content = as_lanes(measures.table["trajectory_hash"].combine_chunks())[:, 0]
    task = measures.column("task_node")
    rows = np.flatnonzero(kept_rows(measures, losers_of(lost)) & (task != content))
    found = np.zeros(len(rows), STEP)
    found["task"], found["step"], found["content"] = task[rows], sketches.step[rows], content[rows]
    found["unit"], found["row"] = unit.number, rows
    yield from partitioned(found, "task")


def background(packed: Packed, near: NearDuplicates) -> Iterator[tuple[int, bytes]]:
    """The background rows of each unit: (unit, packed steps)."""
    found = np.concatenate([np.frombuffer(data, STEP) for data in packed])
    yield from by_unit(found[background_steps(found, near.background_min, near.background_share)])


def _flags(measures: Measures, packed: Packed) -> npt.NDArray[np.bool_]:
    flags = np.zeros(measures.table.num_rows, np.bool_)
    for data in packed:
        flags[np.frombuffer(data, STEP)["row"]] = True
    return flags


def bucket_members(unit: Unit, judging: Judging, lost: Packed, shared: Packed) -> Iterator[tuple[int, bytes]]:
    """Packed members of buckets, by partition of the bucket."""
    measures = read_measures(unit, judging)
    sketches = read_sketches(unit.label, judging, measures.starts)
    chosen = np.flatnonzero(kept_rows(measures, losers_of(lost))[measures.starts])
    first = measures.starts[chosen]
    who = np.zeros(len(chosen), MEMBER)
    who["rank"], who["node"] = measures.column("rank")[first], measures.column("task_node")[first]
    who["tie"] = identities(measures.table["trajectory_id"].take(first).to_pylist())
    who["unit"], who["row"] = unit.number, first
    yield from partitioned(members(sketches, chosen, _flags(measures, shared), _recipe(judging).made(), who), "band")


def pairs(packed: Packed) -> Iterator[tuple[int, bytes]]:
    """The pairs to compare, by the unit of the one that might go."""
    yield from by_unit(candidates(np.concatenate([np.frombuffer(data, MEMBER) for data in packed])))


def compared(unit: Unit, judging: Judging, shared: Packed, packed: Packed) -> Iterator[tuple[int, bytes]]:
    """Of a unit's pairs those that are alike enough for one group, packed, with the share that is absent."""
    found = np.concatenate([np.zeros(0, PAIR), *(np.frombuffer(data, PAIR) for data in packed)])
    if not len(found):
        return
    measures = read_measures(unit, judging)
    flags = _flags(measures, shared)
    sketches = read_sketches(unit.label, judging, measures.starts)
    sequence = sketches.sequence()
    near = _recipe(judging)
    for number in np.unique(found["other_unit"]).tolist():
        some = found[found["other_unit"] == number]
        some = some[np.unique(some[["row", "other_row"]], return_index=True)[1]]
        others = sketches if number == unit.number else read_sketches(judging.labels[number], judging)
        mine = np.searchsorted(sketches.starts, some["row"])
        theirs = np.searchsorted(others.starts, some["other_row"])
        absent, size = absent_shares(sketches, mine, flags, others, theirs)
        same = sequence[mine] == (sequence if others is sketches else others.sequence())[theirs]
        some["absent"] = np.where(same, 0.0, np.where(size < near.few, 1.0, absent)).astype(np.float32)
        alike = some[some["absent"] < max(near.similar, near.max_absent)]
        if len(alike):
            yield 0, alike.tobytes()


def gone(packed: Packed, near: NearDuplicates) -> Iterator[tuple[int, bytes]]:
    """Who goes, of all alike pairs: (unit, packed rows with the survivor's id)."""
    found = np.concatenate([np.frombuffer(data, PAIR) for data in packed])
    chosen = dropped(found[found["absent"] < near.max_absent])
    for number, data in by_unit(chosen):
        some = np.frombuffer(data, PAIR)
        rows = np.zeros(len(some), LOSER)
        rows["row"], rows["kept"] = some["row"], some["other_tie"]
        yield number, rows.tobytes()


def similar_edges(packed: bytes) -> tuple[int, bytes]:
    """The nodes of alike pairs, as edges of groups."""
    found = np.frombuffer(packed, PAIR)
    edges = np.stack([found["node"], found["other_node"]], axis=1)
    return 0, np.unique(edges.astype("<u8"), axis=0).tobytes()


def second(packed: Packed, near: NearDuplicates) -> Iterator[tuple[int, bytes]]:
    """The pairs to look at a second time, of all alike pairs, by the unit of the one that might go."""
    found = np.concatenate([np.frombuffer(data, PAIR) for data in packed])
    yield from by_unit(second_looks(found[found["absent"] < near.max_absent]))


class NearDuplicatesOf(beam.PTransform):
    """Units and who was lost before → (who goes by unit, edges of groups), both packed."""

    def __init__(self, judging: Judging) -> None:
        super().__init__()
        self._judging = judging

    def expand(self, inputs: dict[str, beam.PCollection[Any]]) -> dict[str, beam.PCollection[Any]]:
        judging, near = self._judging, _recipe(self._judging)
        fetched = judging.fetched
        shared = (
            inputs
            | "JoinLost" >> beam.CoGroupByKey()
            | "Steps"
            >> beam.FlatMapTuple(lambda n, j: judging.carried("steps", n, steps(j["unit"][0], judging, j["lost"])))
            | "GatherSteps" >> beam.GroupByKey()
            | "Background"
            >> beam.FlatMapTuple(lambda n, packed: judging.carried("shared", n, background(fetched(packed), near)))
        )
        to_compare = (
            {**inputs, "shared": shared}
            | "JoinBackground" >> beam.CoGroupByKey()
            | "Members" >> beam.FlatMapTuple(lambda n, j: judging.carried("members", n, _members(j, judging)))
            | "GatherBuckets" >> beam.GroupByKey()
            | "Pairs" >> beam.FlatMapTuple(lambda n, packed: judging.carried("pairs", n, pairs(fetched(packed))))
        )
        by_unit_number = {"unit": inputs["unit"], "shared": shared}
        first = {**by_unit_number, "pairs": to_compare} | "Compare" >> _Compared(judging)
        looks = (
            first
            | "GatherFirst" >> beam.GroupByKey()
            | "Second" >> beam.FlatMapTuple(lambda _, packed: second(packed, near))
        )
        alike = (first, {**by_unit_number, "pairs": looks} | "CompareAgain" >> _Compared(judging)) | beam.Flatten()
        lost = (
            alike
            | "GatherAlike" >> beam.GroupByKey()
            | "Gone" >> beam.FlatMapTuple(lambda _, packed: gone(packed, near))
        )
        return {"lost": lost, "edges": alike | "SimilarEdges" >> beam.MapTuple(lambda _, packed: similar_edges(packed))}


class _Compared(beam.PTransform):
    """Units, their background rows and the pairs to compare → alike pairs, packed, under one key."""

    def __init__(self, judging: Judging) -> None:
        super().__init__()
        self._judging = judging

    def expand(self, joined: dict[str, beam.PCollection[Any]]) -> beam.PCollection[Any]:
        judging = self._judging
        return (
            joined
            | "JoinPairs" >> beam.CoGroupByKey()
            | "Alike" >> beam.FlatMapTuple(lambda _, j: _compared(j, judging))
        )


def _members(joined: dict[str, Any], judging: Judging) -> Iterator[tuple[int, bytes]]:
    return bucket_members(joined["unit"][0], judging, joined["lost"], judging.fetched(joined["shared"]))


def _compared(joined: dict[str, Any], judging: Judging) -> Iterator[tuple[int, bytes]]:
    shared, found = (judging.fetched(joined[name]) for name in ("shared", "pairs"))
    return compared(joined["unit"][0], judging, shared, found)
