"""Where traces of a trajectory are: in which files, shards and nodes, and whether one is left in a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trajmill.pipelines.generations.rewriting import Flags
from trajmill.pipelines.judge.judging import Unit
from trajmill.pipelines.mix.candidates import draws_name
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.schemas import ConfigError
from trajmill.schemas.manifest import Manifest


def parquet_holds(out: Folder, name: str, gone: Set[str], logs: Set[str]) -> bool:
    """Whether a file names a trajectory or a log that is forgotten."""
    ids, uris = pa.array(sorted(gone)), pa.array(sorted(logs), pa.string())
    with out.open(name) as stream:
        reader = pq.ParquetFile(stream)
        names = {reader.metadata.schema.column(place).path for place in range(reader.metadata.num_columns)}
        wanted = names & {"trajectory_id", "extra_info.trajectory_id", "uri", "provenance.uri", "detail"}
        for group in range(reader.num_row_groups if wanted else 0):
            table = reader.read_row_group(group, columns=sorted(wanted)).flatten()
            for column in table.schema.names:
                values = table[column].cast(pa.string())
                if pc.any(pc.is_in(values, value_set=uris if column.endswith("uri") else ids)).as_py():
                    return True
                told = " ".join(values.drop_null().to_pylist()) if column == "detail" else ""
                if any(one[:16] in told for one in gone):
                    return True
    return False


def attached(transitions: Folder) -> Iterator[str]:
    """Digests of what rows attach."""
    leaves = [f"{side}.attachments.list.element.sha256" for side in ("observation", "next_observation")]
    for name in transitions.names(".parquet"):
        with transitions.open(name) as stream:
            reader = pq.ParquetFile(stream)
            names = {reader.metadata.schema.column(place).path for place in range(reader.metadata.num_columns)}
            some = [one for one in names if ".attachments." in one and one.endswith("sha256")] or leaves
            for row in reader.read(columns=some).to_pylist():
                for side in row.values():
                    for one in (side or {}).get("attachments") or ():
                        yield one["sha256"]


def holding(at: Folder, ids: set[str]) -> list[str]:
    """Names of files of transitions that hold any of the trajectories."""
    return [
        file.name
        for file in manifest_in(at / "transitions").files
        if not kept_rows(at, Unit(0, file.name, ""), ids).all()
    ]


def kept_rows(at: Folder, unit: Unit, ids: set[str]) -> Flags:
    found_ids = read_table(at / "transitions", unit.name, ["trajectory_id"])["trajectory_id"].cast(pa.string())
    return ~pc.is_in(found_ids, value_set=pa.array(sorted(ids))).to_numpy()


def drawn_places(at: Folder, unit: Unit, ids: set[str]) -> set[tuple[str, str]]:
    """Pools and domains whose shards show the trajectories."""
    table = read_table(at / "draws", draws_name(unit.label), ["trajectory_id", "pool", "copies"])
    mine = table.filter(pc.is_in(table["trajectory_id"], value_set=pa.array(sorted(ids))))
    return {(pool, unit.domain) for pool in mine["pool"].to_pylist()}


def own_nodes(at: Folder, units: Sequence[Unit], ids: set[str]) -> set[int]:
    found_nodes: set[int] = set()
    for unit in units:
        table = read_table(at / "measures", f"{unit.label}.parquet", ["trajectory_id", "own_node"])
        mine = table.filter(pc.is_in(table["trajectory_id"], value_set=pa.array(sorted(ids))))
        found_nodes.update(mine["own_node"].to_pylist())
    return found_nodes


def manifest_in(stage: Folder) -> Manifest:
    sealed = read_manifest(stage, MANIFEST)
    if sealed is None:
        raise ConfigError(f"{stage.path()} is not finished. Run the command that made it again first.")
    return sealed
