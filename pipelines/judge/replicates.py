"""Replicates over the whole corpus: the agreement of their answers, and the bound on how many bear the loss.

Hashes are shuffled, never payload: first the key of each row, then, for a sample of the keys with different answers,
the hashes of the answers' words. `quality.replicate` defines the numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.judge.corpus_rule import Answers, Key, Keys, Round
from trajmill.pipelines.judge.judging import measure_file
from trajmill.pipelines.judge.packed_rows import LOSER, PARTITIONS, by_unit, identities, partition_records, unpack
from trajmill.pipelines.judge.part_state import Standing
from trajmill.pipelines.judge.reasons import REPLICATE
from trajmill.pipelines.judge.spans import (
    MEMBER,
    RANDOM,
    VOLATILE,
    pack_member,
    tools_of,
    unpack_members,
    volatile_words,
)
from trajmill.pipelines.judge.world_models import simulated_rows
from trajmill.pipelines.storage.parquet import read_batches, read_table
from trajmill.pipelines.storage.units import finish_unit
from trajmill.quality.fingerprint import as_lanes
from trajmill.quality.replicate import (
    MOST,
    REPLICATE_SCHEMA,
    ROW,
    TOOL,
    Words,
    agreement,
    beyond,
    groups,
    keys,
    random_tools,
)
from trajmill.quality.without_element_ids import TREE
from trajmill.schemas import DOMAINS, SCHEMA_VERSION
from trajmill.schemas.manifest import FileEntry, Manifest

NAME: Final = "replicates.json"
UNIT: Final = "replicates"
"""Name of the report as a unit of the measures."""

REPORTER: Final = 0
"""Number of the unit that receives all tallies."""

SAMPLED: Final = 200
"""Number of a domain's keys whose answers are compared word by word, in each of `PARTITIONS` ranges.

The keys with the smallest hashes are chosen. If records have more partitions, each partition names as many keys, and a
further round takes the first of each range.
"""

Packed = Iterable[bytes]
Tallies = tuple[str, dict[str, float]]

_TALLY: Final = "tally"
_COMPARED: Final = "rows_to_compare"
_NAMED: Final = "rows_to_choose_from"
_TOOLS: Final = "tools_of_replicates"
_TOLD: Final = "replicates_told"
_CHOSEN: Final = "replicates_chosen"
_WORDS: Final = "replicates_words"
_RANDOM: Final = "replicates_tools"


def _with_domain(standing: Standing, data: bytes) -> bytes:
    return bytes([DOMAINS.index(standing.unit.domain)]) + data


def _without_domain(packed: Packed, record: np.dtype[np.void]) -> tuple[dict[int, str], list[memoryview]]:
    """Return (the domain of each unit, the blocks) of blocks that hold a domain and one unit's records."""
    domains, blocks = dict[int, str](), list[memoryview]()
    for data in packed:
        blocks.append(memoryview(data)[1:])
        domains[int(np.frombuffer(blocks[-1], record, 1)["unit"][0])] = DOMAINS[data[0]]
    return domains, blocks


def _tally(tallies: Tallies) -> tuple[str, int, bytes]:
    return _TALLY, REPORTER, json.dumps(tallies).encode()


def _rows(standing: Standing, chosen: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
    unit, measures = standing.unit, standing.measures
    table = read_table(standing.measured, measure_file(unit.label, "replicates"), REPLICATE_SCHEMA.names)
    records = np.zeros(len(chosen), ROW)
    node = measures.column("instance_node")
    records["key"] = keys(node, table["history"].to_numpy())[chosen]
    records["answer"] = table["answer"].to_numpy()[chosen]
    records["content"] = as_lanes(measures.table["trajectory_hash"].combine_chunks())[chosen, 0]
    records["rank"], records["origin"] = (
        standing.rank_values(measures.column("rank")[chosen]),
        measures.column("origin")[chosen],
    )
    ids = identities(measures.table["trajectory_id"].take(measures.starts).to_pylist())
    records["tie"] = np.repeat(ids, measures.lengths)[chosen]
    records["unit"], records["row"] = unit.number, chosen
    records["tool"] = tools_of(standing.measured, unit.label)[chosen]
    return records


def collect_rows(standing: Standing) -> Keys:
    """Yield packed rows with known environment and answer that no rule of rows drops, by partition of the key.

    Rows of dropped trajectories count too: an environment's answer is as well known in a short log.
    """
    measures = standing.measures
    content = as_lanes(measures.table["trajectory_hash"].combine_chunks())[:, 0]
    known = (measures.column("instance_node") != content) & measures.column("has_text")
    known &= measures.decision.transition < 0
    known[simulated_rows(standing.unit, standing.judging)] = False  # what a model says is no answer of the world
    known[_rows_of_parents(standing)] = False
    partitions = max(standing.judging.partitions, PARTITIONS)
    for partition, data in partition_records(_rows(standing, np.flatnonzero(known)), "key", partitions):
        yield partition, _with_domain(standing, data)


def _rows_of_parents(standing: Standing) -> npt.NDArray[np.int64]:
    """Return the rows of branches that repeat rows of their parents; all rows of a branch whose fork is unknown."""
    table = read_table(standing.judging.transitions, standing.unit.name, ["relation", "parent_step", "step"])
    forked = pc.fill_null(pc.less_equal(table["step"], table["parent_step"]), True)
    return np.flatnonzero(pc.and_(forked, pc.fill_null(pc.equal(table["relation"], "branch"), False)))


def tally_groups(_: Key, packed: Packed) -> Answers:
    """Count a partition's groups by domain and by tool, and name the rows of the groups to compare word by word."""
    tallies, chosen, tools = _sample_groups(packed)
    yield from ((_TOOLS, *answer) for answer in by_unit(tools))
    yield from (_tally((domain, dict(counts))) for domain, counts in sorted(tallies.items()))
    yield from ((_COMPARED, *answer) for answer in by_unit(chosen))


def tally_part(key: Key, packed: Packed) -> Answers:
    """Do the same for a partition that is part of a range. Its rows are compared only if earlier parts leave room."""
    for name, unit, data in tally_groups(key, packed):
        yield _NAMED if name == _COMPARED else name, unit, data


def collect_named_rows(standing: Standing) -> Keys:
    """Yield the rows of a unit that may be compared, by range of the key."""
    for number, data in partition_records(unpack(standing.told(_NAMED), ROW), "key"):
        yield number, _with_domain(standing, data)


def choose_compared(_: Key, packed: Packed) -> Answers:
    """Name the rows of a range's groups to compare word by word."""
    yield from ((_COMPARED, *answer) for answer in by_unit(_sample_groups(packed)[1]))


def _sample_groups(packed: Packed) -> tuple[dict[str, Counter[str]], npt.NDArray[np.void], npt.NDArray[np.void]]:
    """Count groups by domain, choose the rows to compare, of dtype `ROW`, and count groups by tool, of dtype `TOOL`.

    The rows to compare are those of the first groups with different answers.
    """
    domains, blocks = _without_domain(packed, ROW)
    tallies: dict[str, Counter[str]] = {}
    rows = unpack(blocks, ROW)
    chosen, tools = [np.zeros(0, ROW)], [np.zeros(0, TOOL)]
    for group in groups(rows):
        agreeing = len(np.unique(group["answer"])) < len(group)
        tools.append(np.array([(group["tool"][0], 1, agreeing, group["unit"][0])], TOOL))
        counts = tallies.setdefault(domains[int(group["unit"][0])], Counter())
        counts["groups"] += 1
        counts["rows"] += len(group)
        if not (group["answer"] != group["answer"][0]).any():
            continue
        counts["differing"] += 1
        if counts["differing"] <= SAMPLED:
            chosen.append(group[:MOST])
    return tallies, np.concatenate(chosen), np.concatenate(tools)


def collect_tools(standing: Standing) -> Keys:
    """Yield the tools of a unit's rows, and the counts of them that it received, by partition of the tool."""
    own = np.unique(tools_of(standing.measured, standing.unit.label))
    present = np.zeros(len(own), TOOL)
    present["tool"], present["unit"] = own, standing.unit.number
    known = np.concatenate([present, unpack(standing.told(_TOOLS), TOOL)])
    yield from partition_records(known, "tool")


def find_random_tools(_: Key, packed: Packed) -> Answers:
    """Send each unit its tools that are random by nature."""
    counts = unpack(packed, TOOL)
    for unit, data in by_unit(counts[np.isin(counts["tool"], random_tools(counts))]):
        yield RANDOM, unit, np.unique(np.frombuffer(data, TOOL)["tool"]).tobytes()


def collect_words(standing: Standing) -> Keys:
    """Yield (key, packed member of its group) of the unit's rows to compare. Texts are read a row group at a time."""
    rows = unpack(standing.told(_COMPARED), ROW)
    if not len(rows):
        return
    rows = rows[np.argsort(rows["row"], kind="stable")]
    first = 0
    for batch in read_batches(
        standing.judging.transitions, standing.unit.name, ["next_observation.content", "next_observation.dialect"]
    ):
        low, high = np.searchsorted(rows["row"], (first, first + batch.num_rows))
        shown = batch["next_observation"].take(pa.array(rows["row"][low:high] - first))
        texts, dialects = (pc.struct_field(shown, name) for name in ("content", "dialect"))
        for row, text, dialect in zip(rows[low:high], texts, dialects, strict=True):
            words = Words.of(text.as_py(), tree=(dialect.as_py() or "").endswith(TREE))
            member = pack_member(row, words)
            yield int(row["key"].view("<i8")), _with_domain(standing, member)
        first += batch.num_rows


def measure_agreement(packed: Packed) -> Tallies:
    """Measure the agreement of one group, by domain."""
    domains, blocks = _without_domain(packed, MEMBER)
    members, texts = unpack_members(map(bytes, blocks))
    return domains[int(members["unit"][0])], {"compared": 1, "agreement": round(agreement(texts), 6)}


def compare_group(_: Key, packed: Packed, *, spans: bool) -> Answers:
    """Yield the agreement of a group and, with `spans`, the words of its members that others lack."""
    members = list(packed)
    yield _tally(measure_agreement(members))
    if spans:
        yield from ((VOLATILE, *answer) for answer in volatile_words(data[1:] for data in members))


def report(tallies: Iterable[Tallies]) -> bytes:
    """Format the report as JSON: by domain, groups, rows and the noise ceiling.

    The bytes do not depend on the order of tallies.

    `noise_ceiling` is the mean over groups of the share of words that replicates agree on. It is 1 for groups with
    equal answers; groups that differ count by the mean of those compared.
    """
    collected: dict[str, list[dict[str, float]]] = {}
    for domain, counts in tallies:
        collected.setdefault(domain, []).append(counts)
    domains = {}
    for domain in (name for name in DOMAINS if name in collected):
        names = ("groups", "rows", "differing", "compared")
        total: dict[str, Any] = {
            name: int(sum(counts_of_unit.get(name, 0) for counts_of_unit in collected[domain])) for name in names
        }
        shares = sorted(
            counts_of_unit["agreement"] for counts_of_unit in collected[domain] if "agreement" in counts_of_unit
        )
        within = sum(shares) / len(shares) if shares else 1.0
        ceiling = 1 - total["differing"] / total["groups"] * (1 - within)
        domains[domain] = {**total, "agreement_where_differing": round(within, 4), "noise_ceiling": round(ceiling, 4)}
    return json.dumps(domains, indent=1).encode() + b"\n"


def write_report(standing: Standing) -> Manifest:
    """Write the tallies that unit `REPORTER` received as a unit, and return its manifest."""
    judging = standing.judging
    data = report(json.loads(tally) for tally in standing.told(_TALLY))
    judging.measures.write(NAME, data)
    entry = FileEntry(NAME, 0, len(data), hashlib.sha256(data).hexdigest())
    return finish_unit(judging.measures, Manifest("judge", UNIT, judging.digest, SCHEMA_VERSION, (entry,)))


@dataclass(frozen=True, slots=True)
class Replicates:
    """Rule that measures the agreement of replicates, and bounds how many of them bear the loss.

    Replicates have the same environment, history and action.

    Attributes:
        most: how many rows of a key may bear the loss; None sets no bound.
        spans: whether units receive volatile words and the tools that are random by nature.
        partitions: number of partitions of packed records.
    """

    most: int | None
    spans: bool
    partitions: int = PARTITIONS
    reasons: tuple[str, ...] = (REPLICATE,)

    @property
    def reported(self) -> tuple[str, ...]:
        return (_TOLD, _WORDS, *([_RANDOM] if self.spans else []))

    @property
    def losing(self) -> str:
        return "" if self.most is None else REPLICATE

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The counting of groups, the comparison of a sample of them, and the count of the rows that bear the loss."""
        words = partial(compare_group, spans=self.spans)
        finding = [Round(_TOLD, collect_rows, tally_groups, sees_losses=False)]
        if self.partitions > PARTITIONS:
            finding = [
                Round(_TOLD, collect_rows, tally_part, sees_losses=False),
                Round(_CHOSEN, collect_named_rows, choose_compared, (_TOLD,), sees_losses=False),
            ]
        comparing = Round(_WORDS, collect_words, words, (finding[-1].name,), sees_losses=False)
        naming = [Round(_RANDOM, collect_tools, find_random_tools, (_TOLD,), sees_losses=False)] if self.spans else []
        bounding = Round(REPLICATE, self.keys, self.losers, takes_decided=True)
        return (*finding, comparing, *naming, *([] if self.most is None else [bounding]))

    def keys(self, standing: Standing) -> Keys:
        """Yield packed keys of the rows that still bear the loss after equal transitions lost theirs, by partition."""
        rows = _rows(standing, np.flatnonzero(standing.targets()))
        yield from partition_records(rows, "key", standing.judging.partitions)

    def losers(self, key: Key, packed: Packed) -> Answers:
        """Yield the rows after the first `most` of their key."""
        assert self.most is not None
        for unit, data in by_unit(beyond(unpack(packed, ROW), self.most)):
            some = np.frombuffer(data, ROW)
            rows = np.zeros(len(some), LOSER)
            rows["row"] = some["row"]
            yield REPLICATE, unit, rows.tobytes()

    def words(self, reason: str, survivor: int) -> str:
        return "as many rows of the same environment, history and action bear the loss as the recipe allows"
