"""Replicates of the whole corpus: how much of their answers is the same, and how often one may bear the loss.

Hashes are shuffled, never payload: the key of each row first, then, of a sample of the keys whose answers differ, the
hashes of the answers' words. What the numbers mean is `quality.replicate`'s.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.engine.parquet import read_batches
from pipelines.engine.units import finish_unit
from pipelines.judge.judging import Judging, Unit
from pipelines.judge.measure_files import replicates_name
from pipelines.judge.measures import Measures, read_measures, targets_so_far
from pipelines.judge.packed_rows import LOSER, by_unit, identities, losers_of, partitioned
from pipelines.judge.spans import packed_member, unpacked_members, volatile_words
from quality.fingerprint import as_lanes
from quality.replicate import MOST, REPLICATE_SCHEMA, ROW, Words, agreement, beyond, groups, keys
from schemas import DOMAINS, SCHEMA_VERSION
from schemas.manifest import FileEntry, Manifest

NAME: Final = "replicates.json"
UNIT: Final = "replicates"
"""The unit of the measures that the report is."""

SAMPLED: Final = 200
"""Keys of a domain whose answers are compared word by word, in each of 64 partitions: those of the smallest hashes."""

Packed = Iterable[bytes]
Tallies = tuple[str, dict[str, float]]


def _domain(unit: int, judging: Judging) -> str:
    return judging.labels[unit].partition("-")[0]


def _rows(unit: Unit, judging: Judging, measures: Measures, chosen: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
    """The chosen rows, of dtype `ROW`."""
    batches = read_batches(judging.measures, replicates_name(unit.label))
    table = pa.Table.from_batches(batches, schema=REPLICATE_SCHEMA)
    found = np.zeros(len(chosen), ROW)
    node = measures.column("instance_node")
    found["key"] = keys(node, table["history"].to_numpy())[chosen]
    found["answer"] = table["answer"].to_numpy()[chosen]
    found["content"] = as_lanes(measures.table["trajectory_hash"].combine_chunks())[chosen, 0]
    found["rank"], found["place"] = measures.column("rank")[chosen], measures.column("place")[chosen]
    ids = identities(measures.table["trajectory_id"].take(measures.starts).to_pylist())
    found["tie"] = np.repeat(ids, measures.lengths)[chosen]
    found["unit"], found["row"] = unit.number, chosen
    return found


def told(unit: Unit, judging: Judging) -> Iterator[tuple[int, bytes]]:
    """Packed rows whose environment and answer are known, by partition of the key; not those that a rule of rows takes.

    Whether their trajectory is kept does not matter: an environment's answer is no less known for a short log.
    """
    measures = read_measures(unit, judging)
    content = as_lanes(measures.table["trajectory_hash"].combine_chunks())[:, 0]
    known = (measures.column("instance_node") != content) & measures.column("has_text")
    known &= measures.decision.transition < 0
    yield from partitioned(_rows(unit, judging, measures, np.flatnonzero(known)), "key")


def tallied(packed: Packed, judging: Judging) -> tuple[list[Tallies], npt.NDArray[np.void]]:
    """What a partition's groups count by domain, and the rows of the groups to compare word by word."""
    tallies: dict[str, Counter[str]] = {}
    chosen = [np.zeros(0, ROW)]
    for group in groups(np.concatenate([np.frombuffer(data, ROW) for data in packed])):
        domain = _domain(int(group["unit"][0]), judging)
        counts = tallies.setdefault(domain, Counter())
        counts["groups"] += 1
        counts["rows"] += len(group)
        if (group["answer"] != group["answer"][0]).any():
            counts["differing"] += 1
            if counts["differing"] <= SAMPLED:
                chosen.append(group[:MOST])
    return [(domain, dict(counts)) for domain, counts in sorted(tallies.items())], np.concatenate(chosen)


def _split(packed: Packed, judging: Judging) -> Iterator[Any]:
    tallies, chosen = tallied(packed, judging)
    yield from (beam.pvalue.TaggedOutput("tallies", one) for one in tallies)
    yield from by_unit(chosen)


def worded(unit: Unit, judging: Judging, packed: Packed) -> Iterator[tuple[int, bytes]]:
    """(key, packed member of its group) of the unit's rows that are compared; texts are read a row group at a time."""
    rows = np.concatenate([np.zeros(0, ROW), *(np.frombuffer(data, ROW) for data in packed)])
    if not len(rows):
        return
    rows = rows[np.argsort(rows["row"], kind="stable")]
    first = 0
    for batch in read_batches(judging.transitions, unit.name, ["next_observation.content"]):
        low, high = np.searchsorted(rows["row"], (first, first + batch.num_rows))
        texts = pc.struct_field(batch["next_observation"].take(pa.array(rows["row"][low:high] - first)), "content")
        for row, text in zip(rows[low:high], texts, strict=True):
            yield int(row["key"].view("<i8")), packed_member(row, Words.of(text.as_py()))
        first += batch.num_rows


def agreed(packed: Packed, judging: Judging) -> Tallies:
    """By domain the agreement of one group, the best member first."""
    members, texts = unpacked_members(packed)
    return _domain(int(members["unit"][0]), judging), {"compared": 1, "agreement": round(agreement(texts), 6)}


def report(tallies: Iterable[Tallies]) -> bytes:
    """The report as JSON, the same bytes for any order: by domain, groups, rows and the noise ceiling.

    `noise_ceiling` is the mean share of words, over groups, that replicates agree on: 1 where all answers of a group
    are equal, and of groups that differ the mean of those compared.
    """
    collected: dict[str, list[dict[str, float]]] = {}
    for domain, counts in tallies:
        collected.setdefault(domain, []).append(counts)
    found = {}
    for domain in (name for name in DOMAINS if name in collected):
        names = ("groups", "rows", "differing", "compared")
        total: dict[str, Any] = {name: int(sum(one.get(name, 0) for one in collected[domain])) for name in names}
        shares = sorted(one["agreement"] for one in collected[domain] if "agreement" in one)
        within = sum(shares) / len(shares) if shares else 1.0
        ceiling = 1 - total["differing"] / total["groups"] * (1 - within)
        found[domain] = {**total, "agreement_where_differing": round(within, 4), "noise_ceiling": round(ceiling, 4)}
    return json.dumps(found, indent=1).encode() + b"\n"


def write_report(tallies: Iterable[Tallies], judging: Judging) -> Manifest:
    """Writes the report beside the measures, as a unit of its own, and returns its manifest."""
    data = report(tallies)
    judging.measures.write(NAME, data)
    entry = FileEntry(NAME, 0, len(data), hashlib.sha256(data).hexdigest())
    return finish_unit(judging.measures, Manifest("judge", UNIT, judging.digest, SCHEMA_VERSION, (entry,)))


def replicate_keys(
    unit: Unit, judging: Judging, lost: Iterable[bytes], lost_rows: Iterable[bytes]
) -> Iterator[tuple[int, bytes]]:
    """Packed keys of the rows that bear the loss when equal transitions have lost theirs, by partition."""
    measures = read_measures(unit, judging)
    bearing = targets_so_far(measures, losers_of(lost))
    bearing[losers_of(lost_rows)["row"]] = False
    yield from partitioned(_rows(unit, judging, measures, np.flatnonzero(bearing)), "key")


def rows_beyond(packed: Packed, most: int) -> Iterator[tuple[int, bytes]]:
    """The rows after the first `most` of their key: (unit, packed rows)."""
    late = beyond(np.concatenate([np.frombuffer(data, ROW) for data in packed]), most)
    for unit, data in by_unit(late):
        some = np.frombuffer(data, ROW)
        rows = np.zeros(len(some), LOSER)
        rows["row"] = some["row"]
        yield unit, rows.tobytes()


class UnitsToReport(beam.PTransform):
    """Keyed units → (unit, packed words that are volatile), if spans are wanted; the report is written meanwhile."""

    def __init__(self, judging: Judging) -> None:
        super().__init__()
        self._judging = judging

    def expand(self, keyed: beam.PCollection[Any]) -> beam.PCollection[Any]:
        judging = self._judging
        split = (
            keyed
            | "Told"
            >> beam.FlatMapTuple(lambda number, unit: judging.carried("replicates", number, told(unit, judging)))
            | "GatherReplicates" >> beam.GroupByKey()
            | "Tally"
            >> beam.FlatMapTuple(lambda _, packed: _split(judging.fetched(packed), judging)).with_outputs(
                "tallies", main="rows"
            )
        )
        gathered = (
            {"unit": keyed, "rows": split.rows}
            | "JoinCompared" >> beam.CoGroupByKey()
            | "Words"
            >> beam.FlatMapTuple(lambda n, j: judging.carried("words", n, worded(j["unit"][0], judging, j["rows"])))
            | "GatherWords" >> beam.GroupByKey()
        )
        compared = gathered | "Agree" >> beam.MapTuple(lambda _, packed: agreed(judging.fetched(packed), judging))
        none = keyed | "NoTally" >> beam.MapTuple(lambda _, __: ("", {}))  # there is a report of nothing too
        written = (
            (split.tallies, compared, none)
            | "AllTallies" >> beam.Flatten()
            | "Together" >> beam.Map(lambda one: (0, one))
            | "GatherTallies" >> beam.GroupByKey()
            | "Report" >> beam.MapTuple(lambda _, tallies: write_report(tallies, judging))
        )
        if not judging.recipe.judge.spans:
            return written
        return gathered | "Volatile" >> beam.FlatMapTuple(lambda _, packed: volatile_words(judging.fetched(packed)))
