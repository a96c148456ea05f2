"""Traces of trajectories in files: their location, their removal, and the resulting familiarity of environments.

The remaining rows of a file keep its order, its row groups and its schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime
from difflib import get_close_matches
from typing import Final

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trajmill.pipelines.judge.judging import Unit, measure_file, units_in
from trajmill.pipelines.mix.candidates import candidates, draws_name
from trajmill.pipelines.render.costs import COST_HASHES
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import ParquetSink, read_table, rows_of
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.quality.sets import holds
from trajmill.quality.sketch import HASHED
from trajmill.schemas import ConfigError
from trajmill.schemas.manifest import FileEntry, Manifest

_COLUMNS = ("trajectory_id", "step", "source", "started_at", "provenance.uri", "provenance.licence")
_COMPARED: Final = 20_000
"""Largest number of names that an unknown name is compared with, the shortest first."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Selection of records to forget. A record is selected if any attribute matches.

    Attributes:
        sources: names of corpora as in the rows, uris of logs, or folders of logs.
        trajectories: trajectory ids.
        before: a day (UTC); trajectories that began before it are selected, those without a time are not.
    """

    sources: tuple[str, ...] = ()
    trajectories: tuple[str, ...] = ()
    licences: tuple[str, ...] = ()
    before: date | None = None

    def __post_init__(self) -> None:
        if not (self.sources or self.trajectories or self.licences or self.before):
            raise ConfigError(
                "Nothing is named to be forgotten: --source, --trajectory, --licence or --before is wanted."
            )

    def selected(self, rows: pa.Table) -> list[bool]:
        """Return for each row of first steps whether its trajectory is selected."""
        return [self._is_selected(row) for row in rows.to_pylist()]

    def _is_selected(self, row: dict[str, object]) -> bool:
        provenance = row["provenance"]
        assert isinstance(provenance, dict)
        uri, licence, begun = provenance["uri"] or "", provenance["licence"], row["started_at"]
        if row["trajectory_id"] in self.trajectories or (licence is not None and licence in self.licences):
            return True
        if any(
            row["source"] == source or uri == source or uri.startswith(source.rstrip("/") + "/")
            for source in self.sources
        ):
            return True
        if self.before is None or not isinstance(begun, datetime):
            return False
        return begun.replace(tzinfo=begun.tzinfo or UTC) < datetime(*self.before.timetuple()[:3], tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Found:
    """Selected trajectories and logs.

    Attributes:
        uris: uris of logs of which nothing else is left.
    """

    ids: frozenset[str]
    uris: frozenset[str]


def find_selected(selection: Selection, folders: list[Folder]) -> Found:
    """Find the selected trajectories in these folders. Copies of a selected trajectory are selected too."""
    tables = [first for folder in folders for first in _firsts(folder)]
    ids = {
        row
        for table in tables
        for row, chosen in zip(table["trajectory_id"].to_pylist(), selection.selected(table), strict=True)
        if chosen
    }
    gone, left = set[str](), set[str]()
    for table in tables:
        uris = pc.struct_field(table["provenance"].combine_chunks(), "uri").to_pylist()
        for trajectory_id, uri in zip(table["trajectory_id"].to_pylist(), uris, strict=True):
            (gone if trajectory_id in ids else left).add(uri)
    return Found(frozenset(ids), frozenset(gone - left))


def nearest(selection: Selection, folders: list[Folder]) -> str | None:
    """Return the name in these folders that is most similar to a selected one; None if there is none.

    It is suggested to a user who mistyped a name.
    """
    names: dict[str, set[str]] = {"sources": set(), "trajectories": set(), "licences": set()}
    for table in (first for folder in folders for first in _firsts(folder)):
        provenances = table["provenance"].combine_chunks()
        uris = set(pc.struct_field(provenances, "uri").to_pylist())
        folders_of = {uri[:end] for uri in uris for end, letter in enumerate(uri) if letter == "/"}
        names["sources"] |= {*table["source"].to_pylist(), *folders_of, *uris}
        names["trajectories"] |= set(table["trajectory_id"].to_pylist())
        names["licences"] |= {licence for licence in pc.struct_field(provenances, "licence").to_pylist() if licence}
    for kind, there in names.items():
        for name in getattr(selection, kind):
            close = get_close_matches(name, sorted(there, key=lambda name_of: (len(name_of), name_of))[:_COMPARED], 1)
            if close:
                return close[0]
    return None


def _firsts(transitions: Folder) -> Iterator[pa.Table]:
    for name in transitions.names(".parquet"):
        table = read_table(transitions, name, _COLUMNS)
        yield table.filter(pc.equal(table["step"], 0)).combine_chunks()


Flags = npt.NDArray[np.bool_]
Change = Callable[[pa.Table, int], pa.Table]
"""Function from a row group and the number of its first row to the remaining rows."""


def rewritten(folder: Folder, name: str, change: Change, *, shard: bool = False) -> FileEntry:
    """Rewrite a Parquet file in place, with each of its row groups changed."""
    with folder.open(name) as stream:
        reader = pq.ParquetFile(stream)
        schema = reader.schema_arrow
        hashed = (
            HASHED
            if name.endswith(measure_file("", "sketch"))
            else COST_HASHES
            if name.endswith(measure_file("", "costs"))
            else ()
        )
        sink = ParquetSink(folder, name, schema, shard=shard, hashed=hashed)
        first = 0
        try:
            for group in range(reader.num_row_groups):
                table = reader.read_row_group(group, use_threads=False)
                left = change(table, first).cast(schema).combine_chunks()
                for batch in left.to_batches():
                    sink.write(batch)
                first += table.num_rows
        except BaseException:
            sink.abandon()
            raise
    return sink.close()


def of_rows(kept_flags: Flags) -> Change:
    """Keep the flagged rows of a file with one row for each flag."""
    return lambda table, first: table.filter(pa.array(kept_flags[first : first + table.num_rows]))


def of_places(kept_flags: Flags, column: str) -> Change:
    """Keep the rows that refer to a kept row, and renumber the references."""
    moved = np.cumsum(kept_flags) - 1

    def change(table: pa.Table, _: int) -> pa.Table:
        rows = table[column].to_numpy().astype(np.int64)
        left = table.filter(pa.array(kept_flags[rows]))
        field_number = left.schema.get_field_index(column)
        field = left.schema.field(field_number)
        return left.set_column(field_number, field, pa.array(moved[rows[kept_flags[rows]]], field.type))

    return change


def of_ids(ids: Collection[str]) -> Change:
    """Remove the rows of these trajectories."""
    gone = pa.array(sorted(ids), pa.string())

    def change(table: pa.Table, _: int) -> pa.Table:
        names = ids_of(table)
        return table.filter(pc.invert(pc.is_in(names, value_set=gone)))

    return change


def ids_of(table: pa.Table) -> pa.ChunkedArray:
    """Return the trajectory of each row."""
    if "trajectory_id" in table.schema.names:
        return table["trajectory_id"].cast(pa.string())
    return pc.struct_field(table["extra_info"], "trajectory_id").cast(pa.string())


def without_lines(data: bytes, ids: Collection[str]) -> tuple[bytes, int]:
    """Return the lines of a JSONL file without those of these trajectories, and the number of removed lines."""
    lines = data.splitlines(keepends=True)
    left = [line for line in lines if json.loads(line)["trajectory_id"] not in ids]
    return b"".join(left), len(lines) - len(left)


def is_whole(folder: Folder, name: str, kept_flags: Flags) -> bool:
    """Return True if an aligned file still has all rows; otherwise they were removed before a kill."""
    return rows_of(folder, name) == len(kept_flags)


def parquet_holds(out: Folder, name: str, gone: Set[str], logs: Set[str]) -> bool:
    """Return True if a file names a forgotten trajectory or log."""
    ids, uris = pa.array(sorted(gone)), pa.array(sorted(logs), pa.string())
    with out.open(name) as stream:
        reader = pq.ParquetFile(stream)
        names = {reader.metadata.schema.column(number).path for number in range(reader.metadata.num_columns)}
        wanted = names & {"trajectory_id", "extra_info.trajectory_id", "uri", "provenance.uri", "detail"}
        for group in range(reader.num_row_groups if wanted else 0):
            table = reader.read_row_group(group, columns=sorted(wanted)).flatten()
            for column in table.schema.names:
                values = table[column].cast(pa.string())
                if pc.any(pc.is_in(values, value_set=uris if column.endswith("uri") else ids)).as_py():
                    return True
                details = " ".join(values.drop_null().to_pylist()) if column == "detail" else ""
                if any(key[:16] in details for key in gone):
                    return True
    return False


def attachment_digests(transitions: Folder) -> Iterator[str]:
    """Yield the digests of the rows' attachments."""
    leaves = [f"{side}.attachments.list.element.sha256" for side in ("observation", "next_observation")]
    for name in transitions.names(".parquet"):
        with transitions.open(name) as stream:
            reader = pq.ParquetFile(stream)
            names = {reader.metadata.schema.column(number).path for number in range(reader.metadata.num_columns)}
            some = [path for path in names if ".attachments." in path and path.endswith("sha256")] or leaves
            for row in reader.read(columns=some).to_pylist():
                for side in row.values():
                    for attachment in (side or {}).get("attachments") or ():
                        yield attachment["sha256"]


def holding(at: Folder, ids: set[str]) -> list[str]:
    """Return names of files of transitions that hold any of the trajectories."""
    return [unit.name for unit in units_in(at) if not flag_kept_rows(at, unit, ids).all()]


def flag_kept_rows(at: Folder, unit: Unit, ids: set[str]) -> Flags:
    found_ids = read_table(at / "transitions", unit.name, ["trajectory_id"])["trajectory_id"].cast(pa.string())
    return ~pc.is_in(found_ids, value_set=pa.array(sorted(ids))).to_numpy()


def shown_pools(at: Folder, unit: Unit, ids: set[str]) -> set[tuple[str, str]]:
    """Return pools and domains whose shards show the trajectories."""
    table = read_table(at / "draws", draws_name(unit.label), ["trajectory_id", "pool", "copies"])
    mine = table.filter(pc.is_in(table["trajectory_id"], value_set=pa.array(sorted(ids))))
    return {(pool, unit.domain) for pool in mine["pool"].to_pylist()}


def manifest_in(stage: Folder) -> Manifest:
    sealed = read_manifest(stage, MANIFEST)
    if sealed is None:
        raise ConfigError(f"{stage.path()} is not finished. Run the command that made it again first.")
    return sealed


_COLUMN = "environment"
"""Column of eval rows that the draws call `familiarity`."""

Environments = npt.NDArray[np.uint64]


def _environments(at: Folder, unit: Unit) -> Environments:
    return candidates(unit, at / "transitions", at / "verdicts", at / "measures").environment


def mend_draws(at: Folder, units: Sequence[Unit], shown: Environments) -> Iterator[str]:
    """Rewrite draws that call an environment seen that is no longer seen; yield names of the rewritten files.

    Args:
        at: folder of a generation, already cut.
        shown: environments that training shows in it and earlier generations, ascending.
    """
    for unit in units:
        name = draws_name(unit.label)
        familiarities = read_table(at / "draws", name, ["familiarity"])["familiarity"].to_pylist()
        gone = (np.array(familiarities, object) == "seen") & ~holds(shown, _environments(at, unit))
        if not gone.any():
            continue

        def change(table: pa.Table, first: int, gone: npt.NDArray[np.bool_] = gone) -> pa.Table:
            mine = pa.array(gone[first : first + table.num_rows])
            return _set(table, "familiarity", pc.if_else(mine, "unseen", table["familiarity"].cast(pa.string())))

        rewritten(at / "draws", name, change)
        yield name


def read_unseen(at: Folder, units: Sequence[Unit]) -> frozenset[str]:
    """Return trajectories of eval whose environment training does not show, according to the draws."""
    unseen_ids: set[str] = set()
    for unit in units:
        table = read_table(at / "draws", draws_name(unit.label), ["trajectory_id", "pool", "familiarity"])
        mine = pc.and_(pc.equal(table["pool"], "eval"), pc.equal(table["familiarity"], "unseen"))
        unseen_ids.update(table.filter(mine)["trajectory_id"].to_pylist())
    return frozenset(unseen_ids)


def of_unseen(ids: frozenset[str]) -> Change:
    """Mark the environment of these trajectories as unseen in rows of eval."""
    wanted = pa.array(sorted(ids), pa.string())

    def change(table: pa.Table, _: int) -> pa.Table:
        mine = pc.is_in(table["trajectory_id"].cast(pa.string()), value_set=wanted)
        return _set(table, _COLUMN, pc.if_else(mine, "unseen", table[_COLUMN].cast(pa.string())))

    return change


def lines_of_unseen(data: bytes, ids: frozenset[str]) -> bytes:
    """Mark the environment of these trajectories as unseen in JSONL lines."""
    return b"".join(_line(line, ids) for line in data.splitlines(keepends=True))


def _line(line: bytes, ids: frozenset[str]) -> bytes:
    row = orjson.loads(line)
    return orjson.dumps({**row, _COLUMN: "unseen"}) + b"\n" if row["trajectory_id"] in ids else line


def _set(table: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    column_number = table.schema.get_field_index(name)
    field = table.schema.field(column_number)
    return table.set_column(column_number, field, values.cast(field.type))
