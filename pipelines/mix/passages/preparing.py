"""Preparation of passages: from the files of components to parts of kept rows, before anything is mixed.

Both stages resume by unit, and the same rows give the same parts, whatever the number of workers and the order in which
files are listed.

Items of benchmarks are dropped first, then exact duplicates, over all components at once. Among equal passages, that of
an earlier generation stays, then that of the component that the recipe names first, then that of the smallest hash. The
order of files or rows does not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.execution.flow import Map, Step
from trajmill.pipelines.judge.evaluation_index import read_index
from trajmill.pipelines.mix.passages.measuring import read_passage_unit
from trajmill.pipelines.mix.passages.passage import KEY_SCHEMA
from trajmill.pipelines.mix.passages.preparation import (
    READ,
    REJECTS,
    STAGE,
    PassageUnit,
    Preparation,
    label_of,
    part_names,
    read_file,
)
from trajmill.pipelines.mix.passages.reading import check_columns
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import ParquetSink, read_batches, read_table, write_parquet
from trajmill.pipelines.storage.stored_blob import StoredBlob
from trajmill.pipelines.storage.units import (
    finish_stage,
    finish_unit,
    is_done,
    manifest_names,
    stage_names,
    unit_manifests,
)
from trajmill.quality.contamination_matches import MATCH_SCHEMA, choose_items, tasks_showing
from trajmill.schemas import REJECT_SCHEMA, SCHEMA_VERSION, ContractError, Reject, reject_table
from trajmill.schemas.manifest import Manifest

CONTAMINATED: Final = "contaminated"
DUPLICATE: Final = "duplicate"

Numbers = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]


class Lost(NamedTuple):
    """A dropped passage: its position among the read passages of its unit, the reason, and an explanation."""

    place: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of a unit's passages, on which decisions are based.

    Attributes:
        component: number of its component, from 1; 0 for a unit that an earlier run decided.
        high, low: hash of the normalized content.
        exact: hash of the content.
        starts: position of each passage's first row in matches, followed by the number of rows.
    """

    unit: int
    component: int
    ids: pa.StringArray
    high: Numbers
    low: Numbers
    exact: Numbers
    starts: Places

    @classmethod
    def of(cls, unit: int, component: int, table: pa.Table) -> Keys:
        """Build the keys of a unit from its table of `KEY_SCHEMA`."""
        columns = table.combine_chunks()
        high, low, exact = (columns[name].to_numpy() for name in ("high", "low", "exact"))
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(columns["pieces"].to_numpy().astype(np.int64))])
        ids = pa.concat_arrays([pa.array([], pa.string()), *columns["id"].chunks])
        return cls(unit, component, ids, high, low, exact, starts)

    @property
    def size(self) -> int:
        """Number of passages."""
        return len(self.high)

    def words(self, index: int) -> str:
        """Return the name of a passage for a person."""
        return str(self.ids[index].as_py())


Left = dict[int, npt.NDArray[np.bool_]]
"""By unit, flags of the passages that are kept so far."""


def lost_passages(preparing: Preparation, units: Sequence[PassageUnit]) -> dict[int, list[Lost]]:
    """Return the dropped passages by number of the unit, in order of position.

    Raises:
        ShardError: the results of reading a unit are missing.
    """
    keys = {
        item.number: Keys.of(item.number, item.component + 1, read_keys(preparing.read, item.label)) for item in units
    }
    is_kept = {number: np.ones(item.size, np.bool_) for number, item in keys.items()}
    lost: dict[int, list[Lost]] = {item.number: [] for item in units}
    if preparing.benchmarks:
        _drop_contaminated(preparing, units, keys, is_kept, lost)
    decided = read_kept_keys(preparing.decided, len(keys))
    keys |= decided
    is_kept |= {number: np.ones(item.size, np.bool_) for number, item in decided.items()}
    for unit, passage, kept_unit, kept_place in exact_copies(keys, is_kept):
        if unit in lost:
            lost[unit].append(Lost(passage, DUPLICATE, f"equal to {keys[kept_unit].words(kept_place)}"))
    return {number: sorted(some) for number, some in lost.items()}


def read_keys(read: Folder, label: str) -> pa.Table:
    """Read the keys of a unit's passages."""
    return read_table(read, read_file(label, "keys"), KEY_SCHEMA.names)


def read_kept_keys(decided: Sequence[Folder], first_number: int) -> dict[int, Keys]:
    """Read the keys of the passages that earlier runs keep, by unit, numbered from `first_number` on."""
    keys: dict[int, Keys] = {}
    for folder in decided:
        for part in part_names(folder / STAGE):
            table = read_keys(folder / READ, label_of(part))
            kept_rows = read_table(folder / STAGE, part, ["id", "row"])
            names = set(zip(kept_rows["id"].to_pylist(), kept_rows["row"].to_pylist(), strict=True))
            rows = zip(table["id"].to_pylist(), table["row"].to_pylist(), strict=True)
            kept_table = table.filter(pa.array([row in names for row in rows], pa.bool_()))
            keys[first_number + len(keys)] = Keys.of(first_number + len(keys), 0, kept_table)
    return keys


def _drop_contaminated(
    preparing: Preparation,
    units: Sequence[PassageUnit],
    keys: Mapping[int, Keys],
    is_kept: Left,
    lost: Mapping[int, list[Lost]],
) -> None:
    """Drop passages that show an item of a benchmark. Passages with equal texts count as one task, like rollouts."""
    index = read_index(preparing.measures, preparing.benchmarks)
    rules = preparing.recipe.judge.contamination
    matches = {
        unit.number: read_table(preparing.read, read_file(unit.label, "benchmarks"), MATCH_SCHEMA.names)
        for unit in units
    }
    runs_and_tasks = [np.zeros((0, 2), np.uint64)]
    for number, table in matches.items():
        known = keys[number]
        run, task = tasks_showing(table, np.repeat(known.high, np.diff(known.starts)))
        runs_and_tasks.append(np.stack([run, task], axis=1))
    run, tasks = np.unique(np.unique(np.concatenate(runs_and_tasks), axis=0)[:, 0], return_counts=True)
    weights = index.weights(rules.common, run, tasks.astype(np.uint64))
    for number, table in matches.items():
        rows, items, _ = choose_items(table, index, weights, rules.min_score)
        for passage_index, item in zip(
            np.searchsorted(keys[number].starts, rows).tolist(), items.tolist(), strict=True
        ):
            lost[number].append(Lost(passage_index, CONTAMINATED, index.items[item]))
            is_kept[number][passage_index] = False


def exact_copies(keys: Mapping[int, Keys], is_kept: Mapping[int, npt.NDArray[np.bool_]]) -> list[tuple[int, ...]]:
    """Return (unit, position, kept unit, kept position) of each passage that equals a kept one."""
    rows = {number: np.flatnonzero(is_kept[number]) for number in keys}
    columns = [
        np.concatenate([np.zeros(0, np.uint64), *(values.astype(np.uint64) for values in arrays)])
        for arrays in zip(
            *(
                (
                    unit_keys.high[rows[number]],
                    unit_keys.low[rows[number]],
                    np.full(len(rows[number]), unit_keys.component),
                    unit_keys.exact[rows[number]],
                    np.full(len(rows[number]), number),
                    rows[number],
                )
                for number, unit_keys in keys.items()
            ),
            strict=True,
        )
    ]
    if not columns or not len(columns[0]):
        return []
    order = np.lexsort(columns[::-1])
    high, low, _, _, unit, index = (column[order] for column in columns)
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    keeper = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
    again = np.flatnonzero(~is_first)
    copies = [unit[again], index[again], unit[keeper[again]], index[keeper[again]]]
    return [*zip(*(column.tolist() for column in copies), strict=True)]


Over = Callable[[Sequence[Any], Step], None]
Intend = Callable[[Iterable[str]], None]


@dataclass(frozen=True, slots=True)
class PartWork:
    """A part still to be written: its unit, its dropped passages, and the digest of everything it depends on."""

    unit: PassageUnit
    lost: tuple[Lost, ...]
    digest: str


def prepare(preparing: Preparation, over: Over, intend: Intend = lambda _: None) -> Manifest:
    """Make the missing parts of all components, and return the manifest of all.

    Counts are by component: `<name>.rows` (read), `.windows` (additional pieces of cut texts), `.kept`,
    `.dropped.<reason>`, `.tokens` and `.loss_tokens` (of kept passages).

    Args:
        over: function that runs a transform over units on the available workers.
        intend: function that is called with the names of files before they are written.

    Raises:
        ConfigError: a component's path names nothing, or a table lacks a named column.
        ContractError: a row is not accounted for, which is a bug.
    """
    units = preparing.units()
    labels = [unit.label for unit in units]
    todo = [unit for unit in units if not is_done(preparing.read, unit.label, preparing.unit_digest(unit))]
    check_components(preparing, todo)
    intend(names_to_write(units))
    over(todo, Map(read_passage_unit, preparing))
    read = unit_manifests(preparing.read, labels)
    digest = preparing.digest(file.sha256 for unit in read for file in unit.files)
    finish_stage(preparing.read, READ, digest, labels)
    folders = preparing.parts, preparing.rejects
    undone = [unit for unit in units if not all(is_done(folder, unit.label, digest) for folder in folders)]
    if undone:
        lost = lost_passages(preparing, units)
        works = [PartWork(unit, tuple(lost[unit.number]), digest) for unit in undone]
        over(works, Map(write_passage_part, preparing))
    finish_stage(preparing.rejects, STAGE, digest, labels)
    return finish_stage(preparing.parts, STAGE, digest, labels)


def check_components(preparing: Preparation, units: Sequence[PassageUnit] | None = None) -> None:
    """Check that the first table of each component has the columns that the recipe names.

    Args:
        units: files to choose among; all by default.

    Raises:
        ConfigError: a table lacks a column, or a path names nothing.
    """
    looked: set[int] = set()
    for unit in preparing.units() if units is None else units:
        if unit.component not in looked and not unit.fault:
            looked.add(unit.component)
            limit = preparing.recipe.normalize.max_member_bytes
            with StoredBlob(unit.uri, {"": unit.place}, limit) as blob:
                check_columns(preparing.components[unit.component], blob)


def names_to_write(units: Sequence[PassageUnit]) -> set[str]:
    """Return the names of all files that preparing may write, relative to the output folder."""
    labels = [unit.label for unit in units]
    names = {f"{STAGE}/{unit.part}" for unit in units} | {f"{REJECTS}/{label}.parquet" for label in labels}
    names |= {f"{READ}/{read_file(label, kind)}" for label in labels for kind in ("", "keys", "benchmarks", "rejects")}
    return names.union(*(manifest_names(stage, labels) for stage in (READ, STAGE, REJECTS)))


def names_to_keep(preparing: Preparation) -> Iterator[tuple[str, set[str]]]:
    """Yield (stage's folder, names of its current files), so that older files can be removed."""
    labels = [unit.label for unit in preparing.units()]
    for stage in (READ, STAGE, REJECTS):
        yield stage, stage_names(preparing.out, stage, labels)


def write_part(work: PartWork, preparing: Preparation) -> Manifest:
    """Write the part of a unit and the rejects of its other rows; return the part's manifest.

    Raises:
        ShardError: the results of reading are missing, or nothing can be written.
        ContractError: a row is not accounted for, which is a bug.
    """
    unit = work.unit
    component = preparing.components[unit.component]
    kept_counts = Counter[str]()
    sink = ParquetSink(preparing.parts, unit.part, preparing.schema(unit), shard=True)
    try:
        for batch in _filter_batches(work, preparing):
            sink.write(batch)
            kept_counts["kept"] += batch.num_rows
            for name in ("tokens", "loss_tokens"):
                kept_counts[name] += pa.compute.sum(batch[name], min_count=0).as_py()
        rejects = _rejects(work, preparing)
    except BaseException:
        sink.abandon()
        raise
    entry = sink.close()
    rejected = write_parquet(preparing.rejects, f"{unit.label}.parquet", REJECT_SCHEMA, rejects.to_batches())
    finish_unit(preparing.rejects, Manifest(STAGE, unit.label, work.digest, SCHEMA_VERSION, (rejected,)))
    reason_counts = rejects["reason"].value_counts().to_pylist()
    dropped = Counter({reason_count["values"]: reason_count["counts"] for reason_count in reason_counts})
    (read,) = unit_manifests(preparing.read, [unit.label])
    entered = {name: read.counts.get(f"{component.name}.{name}", 0) for name in ("rows", "windows")}
    if sum(entered.values()) != kept_counts["kept"] + sum(dropped.values()):
        raise ContractError(
            f"{unit.label}: {entered} were read, and {kept_counts['kept']} and {dropped} are accounted for."
        )
    counts = {**entered, **kept_counts, **{f"dropped.{reason}": number for reason, number in dropped.items()}}
    named = {f"{component.name}.{name}": number for name, number in sorted(counts.items())}
    return finish_unit(preparing.parts, Manifest(STAGE, unit.label, work.digest, SCHEMA_VERSION, (entry,), named))


def _filter_batches(work: PartWork, preparing: Preparation) -> Iterator[pa.RecordBatch]:
    """Yield the kept passages of a unit, in the order of the file."""
    lost_indices = np.array([lost_passage.place for lost_passage in work.lost], np.int64)
    begun = 0
    for batch in read_batches(preparing.read, read_file(work.unit.label)):
        mask = np.ones(batch.num_rows, np.bool_)
        mask[lost_indices[(lost_indices >= begun) & (lost_indices < begun + batch.num_rows)] - begun] = False
        begun += batch.num_rows
        table = pa.Table.from_batches([batch]).cast(preparing.schema(work.unit))
        yield from table.filter(pa.array(mask)).combine_chunks().to_batches()


def _rejects(work: PartWork, preparing: Preparation) -> pa.Table:
    """Return all rejects of a unit: unreadable or unwanted rows, then rows that decisions dropped."""
    unit = work.unit
    before = read_table(preparing.read, read_file(unit.label, "rejects"), REJECT_SCHEMA.names)
    offsets = read_keys(preparing.read, unit.label)["row"].to_pylist() if work.lost else []
    uris = read_table(preparing.read, read_file(unit.label), ["uri"])["uri"]
    uri = uris[0].as_py() if len(uris) else unit.uri
    decided = reject_table(
        Reject("record", lost_passage.reason, lost_passage.detail, uri, offset=offsets[lost_passage.place])
        for lost_passage in work.lost
    )
    return pa.concat_tables([before.cast(REJECT_SCHEMA), decided.cast(REJECT_SCHEMA)]).combine_chunks()


def write_passage_part(work: PartWork, preparing: Preparation) -> int:
    write_part(work, preparing)
    return work.unit.number
