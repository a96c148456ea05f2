"""Traces of trajectories in files: their location, their removal, and the resulting familiarity of environments.

The remaining rows of a file keep its order, its row groups and its schema.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime
from difflib import get_close_matches
from typing import Final

import numpy as np
import numpy.typing as npt
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trajmill.pipelines.judge.judging import Unit, measure_file, units_in
from trajmill.pipelines.mix.candidates import candidates, draws_name
from trajmill.pipelines.render.costs import COST_HASHES
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import ParquetSink, read_table, rows_of
from trajmill.quality.sets import holds
from trajmill.quality.sketch import HASHED
from trajmill.schemas import ConfigError
from trajmill.schemas.manifest import FileEntry

_COLUMNS = ("trajectory_id", "step", "source", "started_at", "provenance.uri", "provenance.licence")
_COMPARED: Final = 20_000
"""Largest number of names that an unknown name is compared with, the shortest first."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Selection of records to forget. A record is selected if any attribute matches.

    Attributes:
        sources: names of corpora as in the rows, uris of logs, or folders of logs.
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

    def condition(self) -> pl.Expr:
        """Return the condition that a selected row of `_first_rows` meets."""
        conditions = [
            pl.col("trajectory_id").is_in(list(self.trajectories)),
            pl.col("licence").is_in(list(self.licences)),
        ]
        for source in self.sources:
            is_in_folder = pl.col("uri").str.starts_with(source.rstrip("/") + "/")
            conditions += [pl.col("source") == source, pl.col("uri") == source, is_in_folder]
        if self.before is not None:
            day = datetime(self.before.year, self.before.month, self.before.day, tzinfo=UTC)
            conditions.append(pl.col("started_at") < day)
        return pl.any_horizontal(conditions).fill_null(value=False)


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
    rows = _first_rows(folders)
    ids = rows.filter(selection.condition())["trajectory_id"].unique()
    is_gone = pl.col("trajectory_id").is_in(ids.implode())
    gone, left = rows.filter(is_gone)["uri"], rows.filter(~is_gone)["uri"]
    return Found(frozenset(ids), frozenset(gone) - frozenset(left))


def nearest(selection: Selection, folders: list[Folder]) -> str | None:
    """Return the name in these folders that is most similar to a selected one; None if none is similar."""
    rows = _first_rows(folders)
    uris = set(rows["uri"])
    folders_of = {uri[:end] for uri in uris for end, letter in enumerate(uri) if letter == "/"}
    names = {
        "sources": {*rows["source"], *folders_of, *uris},
        "trajectories": set(rows["trajectory_id"]),
        "licences": set(rows["licence"].drop_nulls()),
    }
    for kind, there in names.items():
        shortest = sorted(there, key=lambda name: (len(name), name))[:_COMPARED]
        for wanted in getattr(selection, kind):
            if close := get_close_matches(wanted, shortest, 1):
                return close[0]
    return None


def _first_rows(folders: Iterable[Folder]) -> pl.DataFrame:
    """Return the first row of each trajectory in folders of transitions."""
    text = dict.fromkeys(("trajectory_id", "source", "uri", "licence"), pl.String())
    frames = [pl.DataFrame(schema={**text, "started_at": pl.Datetime("us", "UTC")})]
    for folder in folders:
        for name in folder.names(".parquet"):
            table = read_table(folder, name, _COLUMNS)
            rows = pl.DataFrame(pl.from_arrow(table.filter(pc.equal(table["step"], 0))))
            frames.append(rows.unnest("provenance").select(frames[0].columns))
    return pl.concat(frames)


Flags = npt.NDArray[np.bool_]
Change = Callable[[pa.Table, int], pa.Table]
"""Function from a row group and the number of its first row to the remaining rows."""


def rewritten(folder: Folder, name: str, change: Change, *, shard: bool = False) -> FileEntry:
    """Rewrite a Parquet file in place, with each of its row groups changed."""
    with folder.open(name) as stream:
        reader = pq.ParquetFile(stream)
        schema = reader.schema_arrow
        hashed = HASHED if name.endswith(measure_file("", "sketch")) else ()
        hashed = COST_HASHES if name.endswith(measure_file("", "costs")) else hashed
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
    sides = [f"{side}.attachments" for side in ("observation", "next_observation")]
    for name in transitions.names(".parquet"):
        for column in read_table(transitions, name, sides).itercolumns():
            attachments = pc.list_flatten(pc.struct_field(column, "attachments"))
            yield from pc.unique(pc.struct_field(attachments, "sha256")).to_pylist()


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


_COLUMN = "environment"
"""Column of eval rows that the draws call `familiarity`."""


def mend_draws(at: Folder, units: Sequence[Unit], shown: npt.NDArray[np.uint64]) -> Iterator[str]:
    """Rewrite draws that call an environment seen that is no longer seen; yield names of the rewritten files.

    Args:
        at: folder of a generation, already cut.
        shown: environments that training shows in it and earlier generations, ascending.
    """
    for unit in units:
        name = draws_name(unit.label)
        familiarities = read_table(at / "draws", name, ["familiarity"])["familiarity"].to_pylist()
        environments = candidates(unit, at).environment
        gone = (np.array(familiarities, object) == "seen") & ~holds(shown, environments)
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


def cut_lines(data: bytes, ids: Collection[str], unseen: frozenset[str]) -> bytes:
    """Return the JSONL lines of eval without those of some trajectories, and with others' environments as unseen."""
    left = []
    for line in data.splitlines(keepends=True):
        row = orjson.loads(line)
        if row["trajectory_id"] in unseen:
            left.append(orjson.dumps({**row, _COLUMN: "unseen"}) + b"\n")
        elif row["trajectory_id"] not in ids:
            left.append(line)
    return b"".join(left)


def _set(table: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    column_number = table.schema.get_field_index(name)
    field = table.schema.field(column_number)
    return table.set_column(column_number, field, values.cast(field.type))
