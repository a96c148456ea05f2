"""What training shows of the environments of `eval`, when some of what it showed is gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.generations.rewriting import Change, rewritten
from trajmill.pipelines.judge.judging import Unit
from trajmill.pipelines.mix.candidates import candidates, draws_name
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table
from trajmill.quality.sets import holds

_COLUMN = "environment"
"""Of rows of eval, which the draws call `familiarity`."""

Environments = npt.NDArray[np.uint64]


def _environments(at: Folder, unit: Unit) -> Environments:
    return candidates(unit, at / "transitions", at / "verdicts", at / "measures").environment


def mended_draws(at: Folder, units: Sequence[Unit], shown: Environments) -> Iterator[str]:
    """Writes draws again that call an environment seen which is not; names of the files that were written.

    Args:
        at: folder of a generation, cut.
        units: all of it.
        shown: what training shows in it and the generations before it, ascending.
    """
    for unit in units:
        name = draws_name(unit.label)
        told = read_table(at / "draws", name, ["familiarity"])["familiarity"].to_pylist()
        gone = (np.array(told, object) == "seen") & ~holds(shown, _environments(at, unit))
        if not gone.any():
            continue

        def change(table: pa.Table, first: int, gone: npt.NDArray[np.bool_] = gone) -> pa.Table:
            mine = pa.array(gone[first : first + table.num_rows])
            return _set(table, "familiarity", pc.if_else(mine, "unseen", table["familiarity"].cast(pa.string())))

        rewritten(at / "draws", name, change)
        yield name


def told_unseen(at: Folder, units: Sequence[Unit]) -> frozenset[str]:
    """Trajectories of eval whose environment training does not show, as draws say."""
    found: set[str] = set()
    for unit in units:
        table = read_table(at / "draws", draws_name(unit.label), ["trajectory_id", "pool", "familiarity"])
        mine = pc.and_(pc.equal(table["pool"], "eval"), pc.equal(table["familiarity"], "unseen"))
        found.update(table.filter(mine)["trajectory_id"].to_pylist())
    return frozenset(found)


def of_unseen(ids: frozenset[str]) -> Change:
    """Rows of eval as they say that training does not show the environment of these trajectories."""
    wanted = pa.array(sorted(ids), pa.string())

    def change(table: pa.Table, _: int) -> pa.Table:
        mine = pc.is_in(table["trajectory_id"].cast(pa.string()), value_set=wanted)
        return _set(table, _COLUMN, pc.if_else(mine, "unseen", table[_COLUMN].cast(pa.string())))

    return change


def lines_of_unseen(data: bytes, ids: frozenset[str]) -> bytes:
    """The same of rows as JSONL has them."""
    return b"".join(_line(line, ids) for line in data.splitlines(keepends=True))


def _line(line: bytes, ids: frozenset[str]) -> bytes:
    row = orjson.loads(line)
    return orjson.dumps({**row, _COLUMN: "unseen"}) + b"\n" if row["trajectory_id"] in ids else line


def _set(table: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    place = table.schema.get_field_index(name)
    field = table.schema.field(place)
    return table.set_column(place, field, values.cast(field.type))
