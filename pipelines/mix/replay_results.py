"""Reader of OUT/replays for the mix stage: rows that gave the same result again, and values written to databases."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.judge.judging import Unit
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table
from trajmill.pipelines.storage.units import MANIFEST, check_unit, read_manifest
from trajmill.schemas import ConfigError
from trajmill.schemas.manifest import Manifest
from trajmill.schemas.replay import CERTIFIED
from trajmill.schemas.row_ids import KEY


def replays_of(folder: Folder) -> Manifest:
    """Read the manifest of replays.

    Raises:
        ConfigError: nothing was replayed, or not to its end.
    """
    manifest = read_manifest(folder, MANIFEST)
    if manifest is None:
        raise ConfigError(
            f"mix.rl: certified and mix.databases ask for replays, and {folder.path()} does not hold any. Run with "
            "--stop-after judge, then `trajmill world replay`, then run again."
        )
    return manifest


def read_replays(replays: Folder, verdicts: Folder, unit: Unit) -> pa.Table:
    """Read the replay results of a unit, one for each of its rows.

    Raises:
        ConfigError: the replays belong to other rows.
    """
    if replays.exists(unit.name):
        check_unit(replays, unit.label)
        table = read_table(replays, unit.name, [KEY, "replayed", "written"])
        if table[KEY].equals(read_table(verdicts, unit.name, [KEY])[KEY]):
            return table
    raise ConfigError(
        f"{replays.path(unit.name)} is not of the rows that were judged. Run `trajmill world replay` again."
    )


def is_certified(table: pa.Table) -> pa.ChunkedArray:
    """Mark the rows whose action gave the same result again."""
    return pc.is_in(table["replayed"], value_set=pa.array(CERTIFIED))
